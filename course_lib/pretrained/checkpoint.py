"""What every reader of Hugging Face checkpoints shares: open the files, compare names and shapes, refuse the rest.

Only safetensors are read: unlike a pickle, such a file holds numbers and cannot run code.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Piece:
    """Where a parameter lies in a checkpoint that packs or turns its matrices.

    Attributes:
        name: of the tensor.
        transpose: whether it is stored as x @ W reads it, [in, out]; ``nn.Linear`` stores [out, in].
        part, parts: the tensor holds ``parts`` equal blocks side by side (along its last axis), of which this is ``part``.
    """

    name: str
    transpose: bool = False
    part: int = 0
    parts: int = 1

    def whole_shape(self, shape: torch.Size) -> list[int]:
        """The shape of the checkpoint's tensor for a parameter of this shape."""
        stored = list(shape)[::-1] if self.transpose else list(shape)
        return [*stored[:-1], stored[-1] * self.parts]

    def cut(self, tensor: Tensor) -> Tensor:
        """The parameter."""
        block = tensor.chunk(self.parts, dim=-1)[self.part]
        return block.T if self.transpose else block


def fill(make: Callable[[], nn.Module], tensors: Mapping[str, Tensor], names: Mapping[str, str | Piece]) -> nn.Module:
    """The model that ``make`` builds, in float32 and evaluation mode, with the checkpoint's tensors as weights.

    Args:
        make: builds the model.
        tensors: the checkpoint's tensors, without those that are known to be unused.
        names: for each parameter of the model, the name of its tensor in the checkpoint, or the piece of it.

    Raises:
        UnsupportedCheckpoint: if a tensor is missing, extra or misshapen; all of them are named.
    """
    with torch.device("meta"):  # shapes only: no time is spent on random weights that are replaced at once
        model = make()
    pieces = {ours: Piece(place) if isinstance(place, str) else place for ours, place in names.items()}
    wanted = {pieces[ours].name: pieces[ours].whole_shape(tensor.shape) for ours, tensor in model.state_dict().items()}
    problems = [f"{name} is missing" for name in sorted(wanted.keys() - tensors.keys())]
    problems += [f"{name} is extra" for name in sorted(tensors.keys() - wanted.keys())]
    problems += [
        f"{name} is {list(tensors[name].shape)}, expected {shape}"
        for name, shape in sorted(wanted.items())
        if name in tensors and list(tensors[name].shape) != shape
    ]
    if problems:
        raise UnsupportedCheckpoint("tensors of the checkpoint: " + "; ".join(problems))
    # copy: a file's tensors may lie in one shared piece of memory, and a parameter owns its own
    state = {
        ours: pieces[ours].cut(tensors[pieces[ours].name]).to(torch.float32, copy=True).contiguous()
        for ours in model.state_dict()
    }
    model.load_state_dict(state, assign=True)
    return model.eval()


def drop_copy(tensors: Mapping[str, Tensor], copy: str, original: str) -> dict[str, Tensor]:
    """The tensors without ``copy``, which some files store a second time.

    Raises:
        UnsupportedCheckpoint: if it is not equal to ``original``: then the two are not tied.
    """
    if copy in tensors and original in tensors and not torch.equal(tensors[copy], tensors[original]):
        raise UnsupportedCheckpoint(f"{copy} differs from {original}; only tied ones are supported")
    return {name: tensor for name, tensor in tensors.items() if name != copy or original not in tensors}


def choose(config: Mapping[str, Any], field: str, supported: Mapping[str, str]) -> str:
    """Our name for the value of a config field.

    Raises:
        UnsupportedCheckpoint: if we have none.
    """
    if config[field] not in supported:
        raise UnsupportedCheckpoint(f"config.json: {field} = {config[field]!r}, supported are {', '.join(supported)}")
    return supported[config[field]]


# What Hugging Face calls the activations.
ACTIVATION_NAMES = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}

# Fields of every config: book-keeping, the start of training, output formats, how to generate, heads that we do not read.
IRRELEVANT = {
    "_name_or_path", "architectures", "attn_implementation", "_attn_implementation_autoset", "bad_words_ids",
    "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout", "decoder_start_token_id",
    "dtype", "eos_token_id", "finetuning_task", "forced_bos_token_id", "forced_decoder_ids", "forced_eos_token_id",
    "gradient_checkpointing", "id2label", "initializer_range", "label2id", "max_length", "num_labels", "output_attentions", "output_hidden_states", "pad_token_id", "prefix", "problem_type",
    "return_dict", "sep_token_id", "suppress_tokens", "task_specific_params", "tokenizer_class", "torch_dtype",
    "torchscript", "transformers_version", "use_bfloat16", "use_cache",
}  # fmt: skip
