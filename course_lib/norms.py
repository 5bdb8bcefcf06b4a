"""Normalisation: LayerNorm, RMSNorm, BatchNorm, and DyT, which normalises nothing.

The functions are the formulas; the modules hold γ, β and what else is kept. All take ``[..., d]`` and return the same
shape and dtype. Half precision is computed in float32 and rounded once. The university lecture divides by σ + ε; the
beginner's guide, PyTorch and this file by √(σ² + ε), which differs where σ is not much larger than ε.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _raise_half(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """(x − μ) / √(σ² + ε) · γ + β, with mean and variance over the last axis: each token by itself.

    Args:
        x: ``[..., d]``.
        gamma: γ ``[d]``.
        beta: β ``[d]``.
        eps: ε.

    Returns:
        ``[..., d]`` in the dtype of ``x``.

    Example:
        >>> layer_norm(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.ones(4), torch.zeros(4))
        tensor([-1.3416, -0.4472,  0.4472,  1.3416])

    Reference: Ba et al. 2016, https://arxiv.org/abs/1607.06450, section 3, equation 3.
    """
    centred = _raise_half(x)
    centred = centred - centred.mean(-1, keepdim=True)
    # Two passes: E[x²] − E[x]² in one pass cancels to nothing, or below 0, where the mean is large.
    variance = centred.square().mean(-1, keepdim=True)  # [..., 1], biased: divided by d, not d − 1
    return (centred * (variance + eps).rsqrt() * gamma + beta).to(x.dtype)


def rms_norm(x: Tensor, gamma: Tensor, eps: float = 1e-6) -> Tensor:
    """x / √(mean(x²) + ε) · γ over the last axis: LayerNorm without the mean and without β.

    The lecture and the paper write it without ε; then a row of zeros would be 0/0.

    Args:
        x: ``[..., d]``.
        gamma: γ ``[d]``.
        eps: ε.

    Returns:
        ``[..., d]`` in the dtype of ``x``.

    Example:
        >>> rms_norm(torch.tensor([3.0, 4.0]), torch.ones(2))
        tensor([0.8485, 1.1314])

    Reference: Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467, section 4, equation 4.
    """
    raised = _raise_half(x)  # 300² overflows float16
    mean_square = raised.square().mean(-1, keepdim=True)  # [..., 1]
    return (raised * (mean_square + eps).rsqrt() * gamma).to(x.dtype)


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """(x − μ) / √(σ² + ε) · γ + β, with mean and variance of each feature over all other axes.

    In training the statistics are the batch's, and running averages of them are kept; in evaluation the running ones
    are used, so that an answer does not depend on who else is in the batch.

    Args:
        x: ``[..., d]``; every row counts alike.
        gamma: γ ``[d]``.
        beta: β ``[d]``.
        running_mean: the average so far ``[d]``; not changed.
        running_var: likewise ``[d]``.
        training: whose statistics are used.
        momentum: share of the new batch in the running averages.
        eps: ε.

    Returns:
        ``[..., d]`` in the dtype of ``x``, and the new running mean and variance ``[d]``.

    Raises:
        ValueError: in training with a single row, whose variance says nothing.

    Example:
        >>> y, mean, variance = batch_norm(torch.tensor([[1.0], [3.0]]), *torch.tensor([[1.0], [0.0], [0.0], [1.0]]))
        >>> y.flatten(), mean, variance
        (tensor([-1.0000,  1.0000]), tensor([0.2000]), tensor([1.1000]))

    Reference: Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167, algorithms 1 and 2.
    """
    rows = _raise_half(x).reshape(-1, x.shape[-1])  # [R, d]
    if training:
        n = rows.shape[0]
        if n < 2:
            raise ValueError("BatchNorm in training needs at least two rows")
        mean = rows.mean(0)  # [d]
        variance = (rows - mean).square().mean(0)  # [d], biased
        unbiased = variance * n / (n - 1)  # the running variance estimates the population's
        running_mean = running_mean.lerp(mean.detach().to(running_mean.dtype), momentum)
        running_var = running_var.lerp(unbiased.detach().to(running_var.dtype), momentum)
    else:
        mean, variance = _raise_half(running_mean), _raise_half(running_var)
    normalised = (rows - mean) * (variance + eps).rsqrt() * gamma + beta
    return normalised.reshape(x.shape).to(x.dtype), running_mean, running_var


def dynamic_tanh(x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """γ · tanh(α x) + β: the S-curve that norms were seen to trace, without any statistics.

    Args:
        x: ``[..., d]``.
        alpha: α, one number ``[]``.
        gamma: γ ``[d]``.
        beta: β ``[d]``.

    Returns:
        ``[..., d]`` in the dtype of ``x``.

    Example:
        >>> dynamic_tanh(torch.tensor([0.0, 2.0]), torch.tensor(0.5), torch.ones(2), torch.zeros(2))
        tensor([0.0000, 0.7616])

    Reference: Zhu et al. 2025, https://arxiv.org/abs/2503.10622, section 4, equation 2.
    """
    return (torch.tanh(alpha * _raise_half(x)) * gamma + beta).to(x.dtype)


# LayerNorm and RMSNorm run PyTorch's kernels: written out, each operation of the formula reads and writes the whole
# tensor (a training step of LayerNorm at [8, 512, 512] took 60 ms on one CPU core, the kernel 11; RMSNorm has a kernel
# of its own on GPUs only and is no slower here). tests/test_norms.py holds them to the formula, traps included. They
# differ by the rounding of the mean, which shows only where |μ| is thousands of times √(σ² + ε). Half precision is
# raised first as in the formula: the CPU kernel keeps μ and σ in the dtype of x, and its gradients were 10 times as far off.


class LayerNorm(nn.Module):
    """:func:`layer_norm` with learned γ and β.

    Args:
        d: width of the last axis.
        eps: ε.

    Example:
        >>> LayerNorm(4)(torch.tensor([1.0, 2.0, 3.0, 4.0])).detach()
        tensor([-1.3416, -0.4472,  0.4472,  1.3416])
    """

    def __init__(self, d: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))  # γ
        self.bias = nn.Parameter(torch.zeros(d))  # β

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        raised = _raise_half(x)
        gamma, beta = self.weight.to(raised.dtype), self.bias.to(raised.dtype)
        return F.layer_norm(raised, gamma.shape, gamma, beta, self.eps).to(x.dtype)


class RMSNorm(nn.Module):
    """:func:`rms_norm` with learned γ.

    Args:
        d: width of the last axis.
        eps: ε.

    Example:
        >>> RMSNorm(2)(torch.tensor([3.0, 4.0])).detach()
        tensor([0.8485, 1.1314])
    """

    def __init__(self, d: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))  # γ

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        raised = _raise_half(x)
        gamma = self.weight.to(raised.dtype)
        return F.rms_norm(raised, gamma.shape, gamma, self.eps).to(x.dtype)


class BatchNorm(nn.Module):
    """:func:`batch_norm` with learned γ and β, and the running averages.

    Args:
        d: width of the last axis.
        eps: ε.
        momentum: share of the new batch in the running averages.

    Example:
        >>> BatchNorm(1)(torch.tensor([[1.0], [3.0]])).detach().flatten()
        tensor([-1.0000,  1.0000])
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
        y, mean, variance = batch_norm(
            x, self.weight, self.bias, self.running_mean, self.running_var, self.training, self.momentum, self.eps
        )
        if self.training:
            self.running_mean.copy_(mean)
            self.running_var.copy_(variance)
        return y


class DyT(nn.Module):
    """:func:`dynamic_tanh` with learned α, γ and β.

    Args:
        d: width of the last axis.
        alpha: the start of α, one learned number for the whole layer.

    Example:
        >>> DyT(2)(torch.tensor([0.0, 2.0])).detach()
        tensor([0.0000, 0.7616])
    """

    def __init__(self, d: int, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.weight = nn.Parameter(torch.ones(d))  # γ
        self.bias = nn.Parameter(torch.zeros(d))  # β

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d]``."""
        return dynamic_tanh(x, self.alpha, self.weight, self.bias)


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
