"""Functions that a case hands to an answer, for exercises that take a callable.

They are plain data with a `__call__`, so that the very same function can be rebuilt inside the sandbox
from numbers alone (see `wire.py`): no code travels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Equivariant:
    """f(X) = tanh(softmax(X A Xᵀ) X W): permuting the rows of X permutes the rows of the result.

    X: [N, d], A: [d, d], W: [d, d_out].
    """

    A: Tensor
    W: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        return torch.tanh(torch.softmax(X @ self.A @ X.transpose(-2, -1), dim=-1) @ X @ self.W)


@dataclass(frozen=True)
class Positional:
    """f(X) = (X + P) W: knows where a row stands, so permuting its rows changes more than their order.

    X: [N, d], P: [N, d], W: [d, d_out].
    """

    P: Tensor
    W: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        return (X + self.P) @ self.W


@dataclass(frozen=True)
class PlaceScaled:
    """f(X) = (X ∘ P) W: each place has its own scale, so a gap depends on which row moves there.

    X: [N, d], P: [N, d], W: [d, d_out].
    """

    P: Tensor
    W: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        return (X * self.P) @ self.W


FUNCTIONS: dict[str, type] = {cls.__name__: cls for cls in (Equivariant, Positional, PlaceScaled)}
