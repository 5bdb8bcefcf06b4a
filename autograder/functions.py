"""Functions that a case hands to an answer, for exercises that take a callable.

They are plain data with a `__call__`, so that the very same function can be rebuilt inside the sandbox
from numbers alone (see `wire.py`): no code travels.
"""

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class SmallDecoder:
    """f(X) = norm(softmax(X A Xᵀ + ln S) X W + L X P): one attention whose mask may leak, with or without a LayerNorm.

    X: [N, d], A: [d, d], W and P: [d, d_out]. S: [N, N], how openly row i sees row j (0: not at all, 1: as usual).
    L: [N, N], a second way from row j to row i, past the attention. `norm` is "none"; "input" or "output", which
    normalise each row over its features, of X or of the result; or "positions", which normalises each feature of the
    result over the rows.
    """

    A: Tensor
    W: Tensor
    S: Tensor
    L: Tensor
    P: Tensor
    norm: str

    def __call__(self, X: Tensor) -> Tensor:
        if self.norm == "input":
            X = layer_norm(X, dim=-1)
        Y = torch.softmax(X @ self.A @ X.mT + self.S.log(), dim=-1) @ X @ self.W + self.L @ X @ self.P
        return (
            layer_norm(Y, dim={"output": -1, "positions": -2}[self.norm]) if self.norm in ("output", "positions") else Y
        )


def layer_norm(X: Tensor, dim: int) -> Tensor:
    """Mean 0 and variance 1 along `dim`, without scale and shift."""
    centred = X - X.mean(dim=dim, keepdim=True)
    return centred / (centred.square().mean(dim=dim, keepdim=True) + 1e-5).sqrt()


@dataclass(frozen=True)
class Perceptron:
    """f(x) = tanh(x W₁ + b) W₂, row by row: a small feed-forward network.

    x: [..., d], W_1: [d, d_ff], b: [d_ff], W_2: [d_ff, d].
    """

    W_1: Tensor
    b: Tensor
    W_2: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.W_1 + self.b) @ self.W_2


@dataclass(frozen=True)
class HandsBack:
    """f(x) = x, the very tensor that came in, as Dropout does in eval mode."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class RowNorm:
    """A LayerNorm over the last axis, with scale and shift. x: [..., d], gamma and beta: [d]."""

    gamma: Tensor
    beta: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return layer_norm(x, dim=-1) * self.gamma + self.beta


@dataclass(frozen=True)
class EncoderBlock:
    """layer(x, mask): x + tanh(attention of x to x, one head, times W). x: [B, N, d], A and W: [d, d]."""

    A: Tensor
    W: Tensor

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + torch.tanh(looked_up(x @ self.A, x, mask) @ self.W)


@dataclass(frozen=True)
class DecoderBlock:
    """layer(x, memory, mask, memory_mask): an attention of x to x, then one to the memory, each added to what it reads.

    x: [B, N, d], memory: [B, M, d], the four matrices: [d, d].
    """

    A: Tensor
    W: Tensor
    C: Tensor
    U: Tensor

    def __call__(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        x = x + torch.tanh(looked_up(x @ self.A, x, mask) @ self.W)
        return x + torch.tanh(looked_up(x @ self.C, memory, memory_mask) @ self.U)


@dataclass(frozen=True)
class SmallEncoder:
    """encoder(tokens, mask): rows of a table and of the positions, then one block. tokens: [B, N], result [B, N, d]."""

    table: Tensor
    positions: Tensor
    block: EncoderBlock

    def __call__(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.block(self.table[tokens] + self.positions[: tokens.shape[1]], mask)


@dataclass(frozen=True)
class TargetReader:
    """decoder(tokens, memory, mask, memory_mask): as `SmallEncoder`, with a block that reads the memory too."""

    table: Tensor
    positions: Tensor
    block: DecoderBlock

    def __call__(
        self, tokens: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        return self.block(self.table[tokens] + self.positions[: tokens.shape[1]], memory, mask, memory_mask)


def looked_up(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q kᵀ) k over the keys that the mask leaves open, zeros where it leaves none.

    queries: [B, N, d], keys: [B, M, d]; the mask is Boolean (True = may attend) and broadcasts to [B, 1, N, M].
    """
    scores = (queries @ keys.mT).unsqueeze(1)  # [B, 1, N, M]
    if mask is None:
        return (torch.softmax(scores, dim=-1) @ keys.unsqueeze(1)).squeeze(1)
    if mask.dtype != torch.bool:
        raise TypeError(f"a mask is Boolean (True = may attend), not {mask.dtype}")
    B, _, N, M = scores.shape
    if torch.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
        raise ValueError(f"a mask of shape {list(mask.shape)} does not broadcast to {[B, 1, N, M]}")
    scores = scores.masked_fill(~mask, -torch.inf).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
    return (weights @ keys.unsqueeze(1)).squeeze(1)


TOO_MANY_CALLS = (
    "the model is asked again and again: does your loop end after max_new_tokens steps, even where no row ends? / "
    "模型一再被呼叫：就算每一列都沒有結束，迴圈在 max_new_tokens 步之後會停嗎？"
)


@dataclass(frozen=True)
class Copyist:
    """model(source, tokens): logits of the next token, which is the source's at that place plus the first token.

    source: [B, S], or scores [B, S, V] of which the largest tells the token; tokens: [B, n], result [B, n, V]. Behind a
    token that is not the right one another is expected, so what is fed back matters. `table` [V, V] is largest on its diagonal.

    Raises:
        RuntimeError: after more calls on one source than it has tokens. No right answer needs so many, and a loop that
            waits for an end that never comes must not run for ever.
    """

    table: Tensor

    def __call__(self, source: Tensor, tokens: Tensor) -> Tensor:
        asked: Any = source if source._base is None else source._base  # the whole batch, where one row of it comes
        asked.calls = getattr(asked, "calls", 0) + 1
        if asked.calls > asked.numel():
            raise RuntimeError(TOO_MANY_CALLS)
        source = source.argmax(dim=-1) if source.ndim == 3 else source
        V, n = self.table.shape[0], tokens.shape[1]
        place = torch.arange(n, device=source.device) % source.shape[1]
        wanted = (source[:, place] + tokens[:, :1]) % V  # [B, n]
        strayed = torch.zeros_like(tokens)
        strayed[:, 1:] = (tokens[:, 1:] != wanted[:, :-1]).cumsum(dim=1)
        return self.table[(wanted + strayed) % V]


FUNCTIONS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Equivariant,
        Positional,
        PlaceScaled,
        SmallDecoder,
        Perceptron,
        HandsBack,
        RowNorm,
        EncoderBlock,
        DecoderBlock,
        SmallEncoder,
        TargetReader,
        Copyist,
    )
}
