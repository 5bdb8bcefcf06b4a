"""One layer of the Transformer: sublayers, each with a residual connection and a norm."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention
from course_lib.config import TransformerConfig
from course_lib.feedforward import make_feed_forward
from course_lib.norms import make_norm

if TYPE_CHECKING:
    from course_lib.cache import LayerCache

Rotation = Callable[[Tensor], Tensor]


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """The attention that ``config`` asks for.

    Example:
        >>> make_attention(TransformerConfig.preset("t5", d_model=8, n_heads=2)).scale
        1.0
    """
    return MultiHeadAttention(
        config.d_model,
        config.n_heads,
        config.n_kv_heads,
        config.d_head,
        bias=config.attention_bias,
        scale=config.attention_scale,
        dropout=config.attention_dropout,
        backend=config.backend,
    )


class _Layer(nn.Module):
    """Where the norm stands. "post" (2017): x ← norm(x + sublayer(x)). "pre": x ← x + sublayer(norm(x)), which leaves
    a path from the output to the input that no norm touches.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.placement not in ("post", "pre"):
            raise ValueError(f'placement must be "post" or "pre", got {config.placement!r}')
        self.placement = config.placement
        self.dropout = nn.Dropout(config.dropout)

    def _enter(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What the sublayer reads."""
        return norm(x) if self.placement == "pre" else x

    def _add(self, x: Tensor, y: Tensor, norm: nn.Module) -> Tensor:
        """The sublayer's result y added to its input x."""
        x = x + self.dropout(y)
        return norm(x) if self.placement == "post" else x


class EncoderLayer(_Layer):
    """Self-attention, then the feed-forward network; each is added to its own input.

    Args:
        config: d_model, n_heads, d_ff, norm, placement, activation, … of the layer.

    Raises:
        ValueError: if ``n_heads`` does not divide ``d_model`` (and no ``d_head`` is given), ``n_kv_heads`` does not
            divide ``n_heads``, or the placement, norm, activation or backend is unknown.

    Example:
        >>> layer = EncoderLayer(TransformerConfig(d_model=8, n_heads=2, n_layers=1, d_ff=16))
        >>> output, weights = layer(torch.randn(2, 5, 8), return_weights=True)
        >>> output.shape, weights.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))

    References: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1; Xiong et al. 2020 (pre),
    https://arxiv.org/abs/2002.04745, section 3.1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.attention = make_attention(config)
        self.feed_forward = make_feed_forward(config.activation, config.d_model, config.d_ff, config.bias)
        self.norm_1 = make_norm(config.norm, config.d_model, config.norm_eps)
        self.norm_2 = make_norm(config.norm, config.d_model, config.norm_eps)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        score_bias: Tensor | None = None,
        rotate: Rotation | None = None,
        cache: "LayerCache | None" = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layer.

        Args:
            x: ``[B, N, d_model]``.
            mask: boolean, True = may attend, broadcasts to ``[B, h, N, M]``; without a cache M = N.
            causal: whether the future is hidden (a decoder-only layer is an encoder layer that is causal).
            score_bias, rotate, cache: as in :meth:`course_lib.attention.MultiHeadAttention.forward`.
            return_weights: whether the attention weights are returned.

        Returns:
            ``[B, N, d_model]``, and the weights ``[B, h, N, M]`` or ``None``.
        """
        attended, weights = self.attention(
            self._enter(x, self.norm_1),
            mask=mask,
            causal=causal,
            score_bias=score_bias,
            rotate=rotate,
            cache=cache,
            return_weights=return_weights,
        )
        x = self._add(x, attended, self.norm_1)
        x = self._add(x, self.feed_forward(self._enter(x, self.norm_2)), self.norm_2)
        return x, weights


class DecoderLayer(_Layer):
    """Causal self-attention, attention to the encoder's output (the *memory*), then the feed-forward network.

    Args:
        config: d_model, n_heads, d_ff, norm, placement, activation, … of the layer.

    Raises:
        ValueError: if ``n_heads`` does not divide ``d_model`` (and no ``d_head`` is given), ``n_kv_heads`` does not
            divide ``n_heads``, or the placement, norm, activation or backend is unknown.

    Example:
        >>> layer = DecoderLayer(TransformerConfig(d_model=8, n_heads=2, n_layers=1, d_ff=16))
        >>> output, (weights, cross_weights) = layer(torch.randn(2, 3, 8), torch.randn(2, 5, 8), return_weights=True)
        >>> output.shape, weights.shape, cross_weights.shape
        (torch.Size([2, 3, 8]), torch.Size([2, 2, 3, 3]), torch.Size([2, 2, 3, 5]))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1 and figure 1, right.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.attention = make_attention(config)
        self.cross_attention = make_attention(config)
        self.feed_forward = make_feed_forward(config.activation, config.d_model, config.d_ff, config.bias)
        self.norm_1 = make_norm(config.norm, config.d_model, config.norm_eps)
        self.norm_2 = make_norm(config.norm, config.d_model, config.norm_eps)
        self.norm_3 = make_norm(config.norm, config.d_model, config.norm_eps)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        score_bias: Tensor | None = None,
        rotate: Rotation | None = None,
        cache: "LayerCache | None" = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor | None, Tensor | None]]:
        """Run the layer; self-attention is always causal.

        Cross-attention takes its queries from ``x``, its keys and values from the memory. The memory stays the same
        while the target grows, so a cache keeps these keys and values: they are handed over as ``projected``.

        Args:
            x: ``[B, N, d_model]``.
            memory: the encoder's output ``[B, M, d_model]``.
            mask: for self-attention; boolean, True = may attend, broadcasts to ``[B, h, N, keys]``.
            memory_mask: for attention to the memory, broadcasts to ``[B, h, N, M]``.
            score_bias, rotate: as in :meth:`course_lib.attention.MultiHeadAttention.forward`, for self-attention.
            cache: keys and values of earlier tokens; the memory's are computed once and kept in it too.
            return_weights: whether the attention weights are returned.

        Returns:
            ``[B, N, d_model]``, and the weights of self-attention and of attention to the memory, or two ``None``.
        """
        attended, weights = self.attention(
            self._enter(x, self.norm_1),
            mask=mask,
            causal=True,
            score_bias=score_bias,
            rotate=rotate,
            cache=cache,
            return_weights=return_weights,
        )
        x = self._add(x, attended, self.norm_1)

        projected = None if cache is None else cache.memory
        if projected is None:
            projected = self.cross_attention.keys_and_values(memory)
        if cache is not None:
            cache.memory = projected
        attended, cross_weights = self.cross_attention(
            self._enter(x, self.norm_2), mask=memory_mask, projected=projected, return_weights=return_weights
        )
        x = self._add(x, attended, self.norm_2)

        x = self._add(x, self.feed_forward(self._enter(x, self.norm_3)), self.norm_3)
        return x, (weights, cross_weights)
