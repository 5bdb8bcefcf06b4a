"""Cases that return in many of the lessons' exercises."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw
from autograder.text import both

Drawing = Callable[[Draw], tuple[Any, ...]]


def float64(draw: Drawing, weight: float = 1.0) -> Case:
    """The precision of the inputs must survive."""
    label = both("float64 in, float64 precision out", "輸入是 float64，結果也要有 float64 的精度")
    return Case("float64", label, draw, weight, torch.float64, trap=True)


def noncontiguous(draw: Drawing, weight: float = 1.0) -> Case:
    """Every tensor lies in memory as a transpose does."""

    def rearranged(source: Draw) -> tuple[Any, ...]:
        return tuple(transposed_memory(item) for item in draw(source))

    label = both("inputs whose memory is not contiguous (as after a transpose)", "記憶體不連續的輸入（例如轉置之後）")
    return Case("noncontiguous", label, rearranged, weight, trap=True)


def transposed_memory(value: Any) -> Any:
    """The same values with all axes stored the other way round, so that no two of them can be viewed as one."""
    if isinstance(value, Tensor) and value.ndim >= 2:
        backwards = tuple(reversed(range(value.ndim)))
        return value.permute(backwards).contiguous().permute(backwards)
    return value


def gradients(draw: Drawing, weight: float = 1.0) -> Case:
    label = both("gradients flow back to every float input", "梯度傳得回每一個浮點數輸入")
    return Case("gradients", label, draw, weight, gradients=True, trap=True)


def smallest(draw: Drawing) -> Case:
    """Every size that may be 1 is: its axis must stay."""
    label = both("every size as small as it can be", "每個維度都取最小")
    return Case("smallest", label, draw, 0.5, trap=True)


def half_precision(draw: Drawing, weight: float = 0.5) -> list[Case]:
    """float16 and bfloat16; inputs must be small enough for the plain formula to stay finite."""
    return [
        Case(name, both(f"half precision: {name}", f"半精度：{name}"), draw, weight, dtype, trap=True)
        for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16))
    ]
