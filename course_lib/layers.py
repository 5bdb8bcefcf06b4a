"""One layer of the Transformer: sublayers, each with a residual connection and a norm."""

from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention
from course_lib.config import TransformerConfig
from course_lib.feedforward import make_feed_forward
from course_lib.norms import make_norm


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network; each is added to its own input.

    "post" (2017): x ← norm(x + sublayer(x)). "pre": x ← x + sublayer(norm(x)), which leaves a path from the output to
    the input that no norm touches.

    Args:
        config: d_model, n_heads, d_ff, norm, placement, activation, … of the layer.

    Raises:
        ValueError: if ``config.placement`` is neither "post" nor "pre".

    Example:
        >>> layer = EncoderLayer(TransformerConfig(d_model=8, n_heads=2, n_layers=1, d_ff=16))
        >>> output, weights = layer(torch.randn(2, 5, 8), return_weights=True)
        >>> output.shape, weights.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))

    References: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1; Xiong et al. 2020 (pre),
    https://arxiv.org/abs/2002.04745, section 3.1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.placement not in ("post", "pre"):
            raise ValueError(f'placement must be "post" or "pre", got {config.placement!r}')
        self.placement = config.placement
        self.attention = MultiHeadAttention(
            config.d_model,
            config.n_heads,
            config.n_kv_heads,
            bias=config.bias,
            dropout=config.attention_dropout,
            backend=config.backend,
        )
        self.feed_forward = make_feed_forward(config.activation, config.d_model, config.d_ff, config.bias)
        self.norm_1 = make_norm(config.norm, config.d_model, config.norm_eps)
        self.norm_2 = make_norm(config.norm, config.d_model, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, causal: bool = False, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layer.

        Args:
            x: ``[B, N, d_model]``.
            mask: boolean, True = may attend, broadcasts to ``[B, h, N, N]``.
            causal: whether the future is hidden (a decoder-only layer is an encoder layer that is causal).
            return_weights: whether the attention weights are returned.

        Returns:
            ``[B, N, d_model]``, and the weights ``[B, h, N, N]`` or ``None``.
        """
        attend, drop = self.attention, self.dropout
        if self.placement == "post":
            attended, weights = attend(x, mask=mask, causal=causal, return_weights=return_weights)
            x = self.norm_1(x + drop(attended))
            x = self.norm_2(x + drop(self.feed_forward(x)))
        else:
            attended, weights = attend(self.norm_1(x), mask=mask, causal=causal, return_weights=return_weights)
            x = x + drop(attended)
            x = x + drop(self.feed_forward(self.norm_2(x)))
        return x, weights
