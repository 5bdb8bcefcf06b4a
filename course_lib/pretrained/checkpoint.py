"""What every reader of Hugging Face checkpoints shares: open the files, compare names and shapes, refuse the rest.

Only safetensors are read: unlike a pickle, such a file holds numbers and cannot run code.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class CheckpointMissing(FileNotFoundError):
    """There is no checkpoint where one was looked for; the message says how to get it."""


class UnsupportedCheckpoint(ValueError):
    """The checkpoint does not fit our classes, so that its numbers would come out wrong; the message names what."""


def read_config(directory: Path) -> dict[str, Any]:
    """The fields of ``config.json``.

    Raises:
        CheckpointMissing: if the file is not there.
    """
    path = Path(directory) / "config.json"
    if not path.is_file():
        raise CheckpointMissing(f"no config.json in {directory}: is it a Hugging Face checkpoint?")
    return json.loads(path.read_text(encoding="utf-8"))


def check_config(
    config: Mapping[str, Any], needed: set[str], fixed: Mapping[str, Any], irrelevant: set[str], family: str
) -> None:
    """Refuse, by name, every field that would change the result and that we do not follow.

    Args:
        config: the fields of ``config.json``.
        needed: fields that the reader uses.
        fixed: fields that may be absent, else must have this value.
        irrelevant: fields that do not change what a forward pass computes.
        family: the family's name, for the message.

    Raises:
        UnsupportedCheckpoint: if a needed field is absent, a fixed one has another value, or one is unknown.
    """
    problems = [f"{name} is absent" for name in sorted(needed - config.keys())]
    problems += [
        f"{name} = {config[name]!r}, only {value!r} is supported"
        for name, value in fixed.items()
        if config.get(name, value) != value
    ]
    unknown = config.keys() - needed - fixed.keys() - irrelevant
    problems += [f"{name} = {config[name]!r} is not known" for name in sorted(unknown)]
    if problems:
        raise UnsupportedCheckpoint(f"config.json of this {family} checkpoint: " + "; ".join(problems))


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """All tensors of ``model.safetensors``, or of the parts that ``model.safetensors.index.json`` lists.

    Raises:
        CheckpointMissing: if neither file is there.
    """
    from safetensors.torch import load_file

    directory = Path(directory)
    if (directory / "model.safetensors").is_file():
        return load_file(directory / "model.safetensors")
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        raise CheckpointMissing(f"no model.safetensors in {directory} (pickled weights are not read)")
    tensors: dict[str, Tensor] = {}
    for part in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())):
        tensors |= load_file(directory / part)
    return tensors


def fill(make: Callable[[], nn.Module], tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> nn.Module:
    """The model that ``make`` builds, in float32 and evaluation mode, with the checkpoint's tensors as weights.

    Args:
        make: builds the model.
        tensors: the checkpoint's tensors, without those that are known to be unused.
        names: for each parameter of the model, the name of its tensor in the checkpoint.

    Raises:
        UnsupportedCheckpoint: if a tensor is missing, extra or misshapen; all of them are named.
    """
    with torch.device("meta"):  # shapes only: no time is spent on random weights that are replaced at once
        model = make()
    wanted = {names[name]: tensor.shape for name, tensor in model.state_dict().items()}
    problems = [f"{name} is missing" for name in sorted(wanted.keys() - tensors.keys())]
    problems += [f"{name} is extra" for name in sorted(tensors.keys() - wanted.keys())]
    problems += [
        f"{name} is {list(tensors[name].shape)}, expected {list(shape)}"
        for name, shape in sorted(wanted.items())
        if name in tensors and tensors[name].shape != shape
    ]
    if problems:
        raise UnsupportedCheckpoint("tensors of the checkpoint: " + "; ".join(problems))
    # clone: a file's tensors may lie in one shared piece of memory, and a parameter owns its own
    state = {name: tensors[names[name]].to(torch.float32, copy=True) for name in model.state_dict()}
    model.load_state_dict(state, assign=True)
    return model.eval()
