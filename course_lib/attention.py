"""Attention: softmax, scaled dot-product attention, and multi-head attention with its backends.

Every mask is boolean with True = may attend and broadcasts to ``[B, h, N, M]``. A query that may attend to nothing gets
zero weights and a zero output, never NaN and never the average of what was hidden.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.flash.tiled import tiled_attention
from course_lib.linear import Linear
from course_lib.masks import causal_mask, combine_masks

if TYPE_CHECKING:
    from course_lib.cache import LayerCache


def softmax(scores: Tensor, dim: int = -1) -> Tensor:
    """Weights exp(sᵢ) / Σⱼ exp(sⱼ) along ``dim``, for scores of any size.

    exp overflows at 89 in float32 and at 12 in float16. Subtracting the largest score cancels in the fraction and
    makes the largest exponent 0. Half precision is computed in float32 and rounded once, at the end. The Jacobian is
    diag(p) − p pᵀ, with p the weights: once one of them is near 1 all its entries are near 0, and the gradient dies.

    Args:
        scores: floating-point, any shape. −inf means "not there" and gets weight 0.
        dim: the axis whose weights sum to 1.

    Returns:
        Same shape and dtype as ``scores``. Where all scores along ``dim`` are −inf, the weights are all 0.

    Raises:
        TypeError: if ``scores`` are not floating-point.

    Example:
        >>> softmax(torch.tensor([1000.0, 1000.0, -math.inf]))
        tensor([0.5000, 0.5000, 0.0000])

    References: Bridle 1990 (the name), https://doi.org/10.1007/978-3-642-76153-9_28; Blanchard et al. 2019 (why the
    largest is subtracted), https://arxiv.org/abs/1909.03469.
    """
    if not scores.is_floating_point():
        raise TypeError(f"softmax needs floating-point scores, got {scores.dtype}")
    s = scores.to(torch.promote_types(scores.dtype, torch.float32))
    largest = s.detach().amax(dim, keepdim=True)  # a constant: it cancels, so no gradient flows through it
    largest = largest.masked_fill(largest == -math.inf, 0)  # −inf − (−inf) would be NaN
    e = (s - largest).exp()
    total = e.sum(dim, keepdim=True)  # at least 1, or 0 where nothing is there
    return (e / total.masked_fill(total == 0, 1)).to(scores.dtype)


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    *,
    scale: float | None = None,
    score_bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / (√d_k · temperature)) v, with the weights.

    Where the entries of q and k are independent with mean 0 and variance 1, q·k has variance d_k; the factor 1/√d_k
    makes it 1, so that wide heads do not drive the softmax to where its gradient dies. What the mask hides has score
    −∞, and a row that is all hidden gives zeros: the −1e9 of other code averages such a row, and overflows float16.

    Half precision is computed in float32 and rounded at the end: raw float16 scores overflow at 65504.

    Args:
        q: queries ``[..., N, d_k]``.
        k: keys ``[..., M, d_k]``.
        v: values ``[..., M, d_v]``.
        mask: boolean, True = may attend, broadcasts to ``[..., N, M]``; ``None`` hides nothing.
        temperature: divides the scores; above 1 the weights are more even, below 1 sharper.
        scale: what the inner products are multiplied with; 1/√d_k if not given (T5 uses 1).
        score_bias: added to the scaled scores before the temperature, broadcasts to ``[..., N, M]`` (T5's positions).
        dropout: share of the weights that is dropped. It is applied whenever it is not 0: pass 0 outside training.

    Returns:
        The output ``[..., N, d_v]`` and the weights ``[..., N, M]`` before dropout, in the dtype of ``q``. Each row of
        weights sums to 1, or is all 0 (as is its output) where the mask hides every key.

    Raises:
        TypeError: if ``mask`` is not boolean.

    Example:
        >>> q, k, v = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 4)
        >>> output, weights = scaled_dot_product_attention(q, k, v, mask=causal_mask(3, 5))
        >>> output.shape, weights.shape
        (torch.Size([2, 3, 4]), torch.Size([2, 3, 5]))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.1, equation 1.
    """
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), got {mask.dtype}")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    dtype = torch.promote_types(q.dtype, torch.float32)

    scores = q.to(dtype) @ k.to(dtype).transpose(-2, -1) * scale  # [..., N, M]
    if score_bias is not None:
        scores = scores + score_bias
    if temperature != 1.0:
        scores = scores / temperature
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = softmax(scores)  # [..., N, M]
    output = F.dropout(weights, dropout) @ v.to(dtype)  # [..., N, d_v]
    return output.to(q.dtype), weights.to(q.dtype)


# A backend computes attention for all heads at once. It takes q [B, h, N, d_k], k [B, h_kv, M, d_k], v [B, h_kv, M, d_v]
# and the keywords below; it returns the output [B, h, N, d_v] and the weights [B, h, N, M], or None if it never has them.
Backend = Callable[..., tuple[Tensor, Tensor | None]]


def explicit_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    score_bias: Tensor | None,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """The formula as it stands: makes the whole [N, M] matrix and can show it."""
    if causal:
        mask = combine_masks(mask, causal_mask(q.shape[-2], k.shape[-2], q.device))
    # Query head j reads key/value head j // group: each head is repeated in place (repeat() would give j mod h_kv).
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)  # [B, h, M, d]
    return scaled_dot_product_attention(q, k, v, mask, scale=scale, score_bias=score_bias, dropout=dropout)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    score_bias: Tensor | None,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """PyTorch's fused kernels: same numbers, but the [N, M] matrix is never there to return."""
    # PyTorch's is_causal aligns at the top left and refuses a mask beside it: use it only where it means the same.
    plain_causal = causal and mask is None and score_bias is None and q.shape[-2] == k.shape[-2]
    if causal and not plain_causal:
        mask = combine_masks(mask, causal_mask(q.shape[-2], k.shape[-2], q.device))
    sees_nothing = None
    if mask is not None:
        # What a kernel makes of a fully masked row is its own affair (some give NaN): let such rows see every key, so
        # that values and gradients are finite, and put zeros in their place.
        sees_nothing = ~mask.any(-1, keepdim=True)  # [..., N, 1]
        mask = mask | sees_nothing
    if score_bias is not None:
        bias = score_bias.to(q.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    output = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=plain_causal,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    if sees_nothing is not None:
        output = output.masked_fill(sees_nothing, 0)
    return output, None


def tiled_backend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    score_bias: Tensor | None,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """FlashAttention in PyTorch: O(N) memory; hides by causality and key padding only."""
    _refuse("tiled", score_bias, dropout)
    return tiled_attention(q, k, v, mask, causal=causal, scale=scale), None


def triton_backend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    score_bias: Tensor | None,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """FlashAttention as a Triton kernel, on CUDA; hides by causality and key padding only."""
    from course_lib.flash.triton_kernel import triton_attention  # here, because importing Triton takes its time

    _refuse("triton", score_bias, dropout)
    return triton_attention(q, k, v, mask, causal=causal, scale=scale), None


def _refuse(backend: str, score_bias: Tensor | None, dropout: float) -> None:
    if score_bias is not None or dropout != 0:
        what = "a score bias" if score_bias is not None else "dropout of the weights"
        raise ValueError(f'backend "{backend}" cannot do {what}; use backend="explicit" or "fused"')


BACKENDS: dict[str, Backend] = {
    "explicit": explicit_attention,
    "fused": fused_attention,
    "tiled": tiled_backend,
    "triton": triton_backend,
}


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h) W_O, where each head attends with its own projections of queries, keys and values.

    With fewer key/value heads than query heads, groups of query heads share them::

        MHA (n_kv_heads = 4)    GQA (n_kv_heads = 2)    MQA (n_kv_heads = 1)
        v  v  v  v                v     v                    v
        k  k  k  k                k     k                    k
        |  |  |  |               / \\   / \\               / / \\ \\
        q  q  q  q              q   q q   q             q  q  q  q

    The formula multiplies rows from the left, ``x @ W_Q``; ``nn.Linear`` stores the transpose, ``w_q.weight = W_Qᵀ``.

    Args:
        d_model: width of queries, keys, values and of the output.
        n_heads: number of query heads h.
        n_kv_heads: number of key/value heads, divides ``n_heads``; ``n_heads`` if not given.
        d_head: width of one head, d_k = d_v; ``d_model / n_heads`` if not given.
        bias: whether the four projections add a bias.
        scale: what the inner products are multiplied with; 1/√d_head if not given.
        dropout: share of the attention weights dropped in training mode.
        backend: "explicit" (can return the weights) or "fused" (PyTorch's kernels: faster and leaner) take any mask;
            "tiled" and "triton" (:mod:`course_lib.flash`) take causality and key padding. Same numbers.

    Raises:
        ValueError: if ``d_model`` is not divisible by ``n_heads`` (and no ``d_head`` is given), ``n_heads`` not by
            ``n_kv_heads``, or the backend is unknown.

    Example:
        >>> attention = MultiHeadAttention(d_model=12, n_heads=4, n_kv_heads=2)
        >>> x = torch.randn(2, 5, 12)
        >>> output, weights = attention(x, causal=True, return_weights=True)
        >>> output.shape, weights.shape
        (torch.Size([2, 5, 12]), torch.Size([2, 4, 5, 5]))

    References: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.2; Shazeer 2019 (MQA),
    https://arxiv.org/abs/1911.02150; Ainslie et al. 2023 (GQA), https://arxiv.org/abs/2305.13245, section 2.2.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = False,
        scale: float | None = None,
        dropout: float = 0.0,
        backend: str = "explicit",
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if d_head is None and d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} is not divisible by n_heads = {n_heads}; give d_head")
        if n_heads % n_kv_heads != 0:
            raise ValueError(f"n_heads = {n_heads} is not divisible by n_kv_heads = {n_kv_heads}")
        if backend not in BACKENDS:
            raise ValueError(f"unknown backend {backend!r}; choose one of {', '.join(BACKENDS)}")
        d_head = d_model // n_heads if d_head is None else d_head
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.d_head = d_head
        self.scale = 1 / math.sqrt(d_head) if scale is None else scale
        self.dropout = dropout
        self.backend = backend
        self.w_q = Linear(d_model, n_heads * d_head, bias=bias)
        self.w_k = Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.w_v = Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.w_o = Linear(n_heads * d_head, d_model, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        score_bias: Tensor | None = None,
        rotate: Callable[[Tensor], Tensor] | None = None,
        cache: "LayerCache | None" = None,
        projected: tuple[Tensor, Tensor] | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` to ``key`` and ``value``.

        Args:
            query: ``[B, N, d_model]``.
            key: ``[B, M, d_model]``; ``query`` if not given (self-attention).
            value: ``[B, M, d_model]``; ``key`` if not given.
            mask: boolean, True = may attend, broadcasts to ``[B, h, N, M]``.
            causal: also hide the future, aligned at the bottom right as in :func:`course_lib.masks.causal_mask`.
            score_bias: added to the scaled scores, broadcasts to ``[B, h, N, M]``; finite (hide with ``mask``).
            rotate: turns queries and keys ``[B, heads, N, d_head]`` by their positions (rotary positions).
            cache: holds the keys and values of earlier tokens; ``key``'s are added, and M counts them all.
            projected: in place of ``key`` and ``value``, what :meth:`keys_and_values` made of them before.
            return_weights: whether the weights are returned (before dropout).

        Returns:
            The output ``[B, N, d_model]`` and the weights ``[B, h, N, M]``, or ``None`` in their place.

        Raises:
            ValueError: if the backend cannot do what is asked (weights from all but "explicit"; any mask but key padding,
                a score bias or dropout in "tiled" and "triton"), or ``value`` is given without ``key``.
            TypeError: if ``mask`` is not boolean.
        """
        if key is None and value is not None:
            raise ValueError("value is given without key")
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(f"mask must be boolean (True = may attend), got {mask.dtype}")
        q = self._split_heads(self.w_q(query))  # [B, h, N, d_head]
        k, v = projected or self.keys_and_values(query if key is None else key, value)  # [B, h_kv, M, d_head]
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        if cache is not None:
            k, v = cache.update(cache.length, k, v)

        output, weights = BACKENDS[self.backend](
            q,
            k,
            v,
            mask=mask,
            causal=causal and q.shape[-2] > 1,  # the last query sees every key: nothing to hide from it alone
            scale=self.scale,
            score_bias=score_bias,
            dropout=self.dropout if self.training else 0.0,  # the kernels drop in evaluation too unless told 0
        )
        if return_weights and weights is None:
            raise ValueError(f'backend "{self.backend}" never forms the weights; use backend="explicit" to see them')
        output = output.transpose(1, 2).flatten(2)  # [B, N, h · d_head]: heads side by side again
        return self.w_o(output), weights if return_weights else None  # [B, N, d_model]

    def keys_and_values(self, key: Tensor, value: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Project ``key`` and ``value`` (``key`` if not given), both ``[B, M, d_model]``, to ``[B, h_kv, M, d_head]``."""
        value = key if value is None else value
        return self._split_heads(self.w_k(key)), self._split_heads(self.w_v(value))

    def _split_heads(self, x: Tensor) -> Tensor:
        """[B, N, h · d_head] to [B, h, N, d_head]. A view to this shape without the transpose would mix positions."""
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, d_head={self.d_head}, backend={self.backend!r}"
