"""Position-wise feed-forward networks: the same small network for every token, one at a time."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.linear import Linear

# "gelu" is the exact x·Φ(x) (BERT); "gelu_tanh" its tanh approximation (GPT-2), up to 5e-4 away.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


class FeedForward(nn.Module):
    """φ(x W_1 + b_1) W_2 + b_2.

    Args:
        d_model: width of input and output.
        d_ff: width in between, 4 · d_model in 2017.
        activation: φ, one of :data:`ACTIVATIONS`.
        bias: whether b_1 and b_2 exist.

    Raises:
        ValueError: if the activation is unknown.

    Example:
        >>> FeedForward(8, 32, "gelu")(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])

    References: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.3, equation 2; Hendrycks and Gimpel
    2016 (GELU), https://arxiv.org/abs/1606.08415, section 2.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", bias: bool = True) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}; choose one of {', '.join(ACTIVATIONS)}")
        self.activation = ACTIVATIONS[activation]
        self.w_1 = Linear(d_model, d_ff, bias=bias)
        self.w_2 = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d_model]``, as is the result."""
        return self.w_2(self.activation(self.w_1(x)))  # [..., d_ff] in between


# φ of the gated networks; FLAN-T5 takes the tanh form of GELU.
GATES: dict[str, Callable[[Tensor], Tensor]] = {"swiglu": F.silu, "geglu_tanh": ACTIVATIONS["gelu_tanh"]}


class GatedFeedForward(nn.Module):
    """(φ(x W_gate) ∘ x W_up) W_down: one half decides how much of the other passes.

    Args:
        d_model: width of input and output.
        d_ff: width in between; 2/3 of the plain network's for the same number of parameters.
        gate: φ, one of :data:`GATES`.
        bias: whether the three products add a bias.

    Raises:
        ValueError: if the gate is unknown.

    Example:
        >>> GatedFeedForward(8, 20, "geglu_tanh")(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])

    Reference: Shazeer 2020, https://arxiv.org/abs/2002.05202, section 2, equation 6.
    """

    def __init__(self, d_model: int, d_ff: int, gate: str, bias: bool = False) -> None:
        super().__init__()
        if gate not in GATES:
            raise ValueError(f"unknown gate {gate!r}; choose one of {', '.join(GATES)}")
        self.gate = GATES[gate]
        self.w_gate = Linear(d_model, d_ff, bias=bias)
        self.w_up = Linear(d_model, d_ff, bias=bias)
        self.w_down = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[..., d_model]``, as is the result."""
        return self.w_down(self.gate(self.w_gate(x)) * self.w_up(x))  # [..., d_ff] in between


class SwiGLU(GatedFeedForward):
    """(SiLU(x W_gate) ∘ x W_up) W_down, with SiLU(z) = z·σ(z): Llama's network.

    Args:
        d_model: width of input and output.
        d_ff: width in between.
        bias: whether the three products add a bias.

    Example:
        >>> SwiGLU(8, 20)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])

    References: Shazeer 2020, https://arxiv.org/abs/2002.05202, section 2, equation 6; Touvron et al. 2023 (Llama),
    https://arxiv.org/abs/2302.13971, section 2.2.
    """

    def __init__(self, d_model: int, d_ff: int, bias: bool = False) -> None:
        super().__init__(d_model, d_ff, "swiglu", bias)


def make_feed_forward(activation: str, d_model: int, d_ff: int, bias: bool) -> nn.Module:
    """The network called ``activation``: gated with one of :data:`GATES`, or plain with one of :data:`ACTIVATIONS`.

    Raises:
        ValueError: if the activation is unknown.

    Example:
        >>> type(make_feed_forward("swiglu", 8, 20, bias=False)).__name__
        'SwiGLU'
    """
    if activation == "swiglu":
        return SwiGLU(d_model, d_ff, bias)
    if activation in GATES:
        return GatedFeedForward(d_model, d_ff, activation, bias)
    return FeedForward(d_model, d_ff, activation, bias)
