"""``model.summary()``: the tree of a model's parts with their output shapes and parameters."""

from typing import Any

import torch
from torch import Tensor, nn


def count_parameters(module: nn.Module) -> int:
    """Number of trained numbers; a matrix used in several places counts once.

    Example:
        >>> count_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in module.parameters())


class Summarised(nn.Module):
    """A model made from a ``config`` alone that can draw its own tree."""

    config: Any

    def example(self, batch: int, n_tokens: int) -> tuple[Tensor, ...]:
        """Input of the right kind, for :meth:`summary`."""
        return (torch.zeros(batch, n_tokens, dtype=torch.long),)

    def summary(self, batch: int = 2, n_tokens: int = 16) -> None:
        """Print every part with the shape of what it returns and its number of parameters; equal layers once.

        Shapes come from a run of a twin without numbers (PyTorch's meta device), so it costs nothing at any size.

        Example:
            >>> LanguageModel(TransformerConfig.preset("gpt2")).summary()  # doctest: +SKIP
        """
        print(describe(self, batch, n_tokens))


def describe(model: Summarised, batch: int = 2, n_tokens: int = 16) -> str:
    """The text that :meth:`Summarised.summary` prints."""
    with torch.device("meta"):
        twin = type(model)(model.config).eval()
        shapes = _output_shapes(twin, model.example(batch, n_tokens))
    rows = [(type(model).__name__, shapes.get(""), count_parameters(model)), *_rows(twin, "", 1, shapes)]
    name_width = max(len(name) for name, _, _ in rows)
    shape_width = max(len(shape or "") for _, shape, _ in rows)
    lines = [f"{'part':<{name_width}}  {'output':<{shape_width}}  {'parameters':>14}"]
    lines += [f"{name:<{name_width}}  {shape or '':<{shape_width}}  {count:>14,}" for name, shape, count in rows]
    return "\n".join(lines)


def _output_shapes(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, str]:
    """For each part that runs, the shape of what it returns (of the first tensor, if it returns several)."""
    shapes: dict[str, str] = {}

    def note(name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            while isinstance(output, tuple):
                output = output[0]
            shapes[name] = str(list(output.shape))

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return shapes


def _rows(module: nn.Module, path: str, depth: int, shapes: dict[str, str]) -> list[tuple[str, str | None, int]]:
    rows: list[tuple[str, str | None, int]] = []
    for name, child in module.named_children():
        full = f"{path}.{name}" if path else name
        indent = "  " * depth
        if isinstance(child, nn.ModuleList) and len(child) > 0:  # equal layers, drawn once
            rows.append((f"{indent}{name} × {len(child)}", None, count_parameters(child)))
            first = type(child[0]).__name__
            rows.append((f"{indent}  0: {first}", shapes.get(f"{full}.0"), count_parameters(child[0])))
            rows += _rows(child[0], f"{full}.0", depth + 2, shapes)
        elif isinstance(child, nn.Identity | nn.Dropout):
            continue  # returns what it is given, or nearly
        else:
            rows.append((f"{indent}{name}: {type(child).__name__}", shapes.get(full), count_parameters(child)))
            rows += _rows(child, full, depth + 1, shapes)
    return rows
