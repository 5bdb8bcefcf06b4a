"""Normalisation: LayerNorm, RMSNorm, BatchNorm, and DyT, which normalises nothing.

All take ``[..., d]`` and return the same shape and dtype. Half precision is computed in float32 and rounded once.
The lecture writes (x − μ)/(σ + ε); PyTorch and this file √(σ² + ε), which differs where σ is not much larger than ε.
"""

import torch
from torch import Tensor, nn


def _raise_half(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class LayerNorm(nn.Module):
    """(x − μ) / √(σ² + ε) · γ + β, with mean and variance over the last axis: each token by itself.

    Args:
        d: width of the last axis.
        eps: ε.

    Example:
        >>> LayerNorm(4)(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([-1.3416, -0.4472,  0.4472,  1.3416], grad_fn=<AddBackward0>)

    Reference: Ba et al. 2016, https://arxiv.org/abs/1607.06450, section 3.1, equation 3.
    """

    def __init__(self, d: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))  # γ
        self.bias = nn.Parameter(torch.zeros(d))  # β

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        centred = _raise_half(x)
        centred = centred - centred.mean(-1, keepdim=True)
        # Two passes: E[x²] − E[x]² in one pass cancels to nothing, or below 0, where the mean is large.
        variance = centred.square().mean(-1, keepdim=True)  # [..., 1], biased: divided by d, not d − 1
        return (centred * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · γ over the last axis: LayerNorm without the mean and without β.

    Args:
        d: width of the last axis.
        eps: ε.

    Example:
        >>> RMSNorm(2)(torch.tensor([3.0, 4.0]))
        tensor([0.8485, 1.1314], grad_fn=<MulBackward0>)

    Reference: Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467, section 4, equation 4.
    """

    def __init__(self, d: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))  # γ

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        raised = _raise_half(x)  # 300² overflows float16
        mean_square = raised.square().mean(-1, keepdim=True)  # [..., 1]
        return (raised * (mean_square + self.eps).rsqrt() * self.weight).to(x.dtype)


class BatchNorm(nn.Module):
    """(x − μ) / √(σ² + ε) · γ + β, with mean and variance of each feature over all other axes.

    In training the statistics are the batch's, and running averages of them are kept; in evaluation the running ones
    are used, so that an answer does not depend on who else is in the batch.

    Args:
        d: width of the last axis.
        eps: ε.
        momentum: share of the new batch in the running averages.

    Raises:
        ValueError: in training with a single row, whose variance says nothing.

    Example:
        >>> BatchNorm(1)(torch.tensor([[1.0], [3.0]])).flatten()
        tensor([-1.0000,  1.0000], grad_fn=<ViewBackward0>)

    Reference: Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167, algorithms 1 and 2.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, d: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(d))  # γ
        self.bias = nn.Parameter(torch.zeros(d))  # β
        self.register_buffer("running_mean", torch.zeros(d))
        self.register_buffer("running_var", torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        rows = _raise_half(x).reshape(-1, x.shape[-1])  # [R, d]: every row of the batch counts alike
        if self.training:
            n = rows.shape[0]
            if n < 2:
                raise ValueError("BatchNorm in training needs at least two rows")
            mean = rows.mean(0)  # [d]
            variance = (rows - mean).square().mean(0)  # [d], biased
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
                unbiased = variance * n / (n - 1)  # the running variance estimates the population's
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
        else:
            mean, variance = _raise_half(self.running_mean), _raise_half(self.running_var)
        normalised = (rows - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias
        return normalised.reshape(x.shape).to(x.dtype)


class DyT(nn.Module):
    """γ · tanh(α x) + β: the S-curve that norms were seen to trace, without any statistics.

    Args:
        d: width of the last axis.
        alpha: the start of α, one learned number for the whole layer.

    Example:
        >>> DyT(2)(torch.tensor([0.0, 2.0]))
        tensor([0.0000, 0.7616], grad_fn=<AddBackward0>)

    Reference: Zhu et al. 2025, https://arxiv.org/abs/2503.10622, section 4, equation 2.
    """

    def __init__(self, d: int, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.weight = nn.Parameter(torch.ones(d))  # γ
        self.bias = nn.Parameter(torch.zeros(d))  # β

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        return (torch.tanh(self.alpha * _raise_half(x)) * self.weight + self.bias).to(x.dtype)


def make_norm(name: str, d: int, eps: float) -> nn.Module:
    """The norm called ``name`` ("layer", "rms", "batch" or "dyt") for rows of width ``d``.

    Raises:
        ValueError: if there is no norm of that name.

    Example:
        >>> make_norm("rms", 8, eps=1e-6).eps
        1e-06
    """
    if name == "layer":
        return LayerNorm(d, eps)
    if name == "rms":
        return RMSNorm(d, eps)
    if name == "batch":
        return BatchNorm(d, eps)
    if name == "dyt":
        return DyT(d)  # has no ε: it divides by nothing
    raise ValueError(f"unknown norm {name!r}; choose one of layer, rms, batch, dyt")
