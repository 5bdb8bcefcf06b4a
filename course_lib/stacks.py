"""Stacks of layers: the encoder and the decoder, which read and return vectors and know nothing of tokens."""

import torch
from torch import Tensor, nn

from course_lib.cache import KVCache
from course_lib.config import TransformerConfig
from course_lib.layers import DecoderLayer, EncoderLayer, Rotation
from course_lib.norms import make_norm


def initialise(module: nn.Module) -> None:
    """The start of BERT and GPT-2: weights N(0, 0.02²), biases 0. So small that the logits of a tied output are small.

    Example:
        >>> _ = nn.Linear(3, 3).apply(initialise)
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def initialise_evenly(module: nn.Module) -> None:
    """The start of the 2017 code: matrices uniform in ±√(6 / (rows + columns)) (Xavier), biases 0.

    Example:
        >>> _ = nn.Linear(3, 3).apply(initialise_evenly)
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _final_norm(config: TransformerConfig) -> nn.Module:
    """In a "pre" stack nothing has normalised the sum of all residuals; in a "post" stack the last layer has."""
    pre = config.placement == "pre"
    return make_norm(config.norm, config.d_model, config.norm_eps) if pre else nn.Identity()


class Encoder(nn.Module):
    """A stack of encoder layers; with placement "pre" one more norm at the end.

    Run with ``causal=True`` it is the stack of a decoder-only model.

    Args:
        config: ``n_layers`` and what a layer needs.

    Raises:
        ValueError: if a layer cannot be made (see :class:`course_lib.layers.EncoderLayer`).

    Example:
        >>> encoder = Encoder(TransformerConfig(d_model=8, n_heads=2, n_layers=3, d_ff=16))
        >>> output, weights = encoder(torch.randn(2, 5, 8), return_weights=True)
        >>> output.shape, weights.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 3, 2, 5, 5]))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.final_norm = _final_norm(config)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        score_bias: Tensor | None = None,
        rotate: Rotation | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Run all layers.

        Args:
            x: ``[B, N, d_model]``.
            mask: boolean, True = may attend, broadcasts to ``[B, h, N, M]``; without a cache M = N.
            causal: whether the future is hidden.
            score_bias, rotate: as in :meth:`course_lib.attention.MultiHeadAttention.forward`, the same for all layers.
            cache: keys and values of earlier tokens, to which these are added.
            return_weights: whether the attention weights of all layers are returned.

        Returns:
            ``[B, N, d_model]``, and the weights ``[B, n_layers, h, N, M]`` or ``None``.
        """
        maps = []
        for i, layer in enumerate(self.layers):
            x, weights = layer(
                x,
                mask,
                causal=causal,
                score_bias=score_bias,
                rotate=rotate,
                cache=None if cache is None else cache.layers[i],
                return_weights=return_weights,
            )
            maps.append(weights)
        return self.final_norm(x), torch.stack(maps, dim=1) if return_weights else None


class Decoder(nn.Module):
    """A stack of decoder layers, all reading the same memory; with placement "pre" one more norm at the end.

    Args:
        config: ``n_decoder_layers`` (else ``n_layers``) and what a layer needs.

    Raises:
        ValueError: if a layer cannot be made (see :class:`course_lib.layers.DecoderLayer`).

    Example:
        >>> decoder = Decoder(TransformerConfig(d_model=8, n_heads=2, n_layers=3, d_ff=16))
        >>> x, memory = torch.randn(2, 4, 8), torch.randn(2, 5, 8)
        >>> output, (weights, cross_weights) = decoder(x, memory, return_weights=True)
        >>> output.shape, weights.shape, cross_weights.shape
        (torch.Size([2, 4, 8]), torch.Size([2, 3, 2, 4, 4]), torch.Size([2, 3, 2, 4, 5]))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        n_layers = config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(n_layers))
        self.final_norm = _final_norm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        score_bias: Tensor | None = None,
        rotate: Rotation | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Run all layers.

        Args:
            x: ``[B, N, d_model]``.
            memory: the encoder's output ``[B, M, d_model]``.
            mask: for self-attention (always causal as well), True = may attend, broadcasts to ``[B, h, N, keys]``.
            memory_mask: for attention to the memory, broadcasts to ``[B, h, N, M]``.
            score_bias, rotate: as in :meth:`course_lib.attention.MultiHeadAttention.forward`, for self-attention.
            cache: keys and values of earlier tokens, to which these are added.
            return_weights: whether the attention weights of all layers are returned.

        Returns:
            ``[B, N, d_model]``, and the weights of self-attention ``[B, n_layers, h, N, keys]`` and of attention to the
            memory ``[B, n_layers, h, N, M]``, or ``None``.
        """
        maps, cross_maps = [], []
        for i, layer in enumerate(self.layers):
            x, (weights, cross_weights) = layer(
                x,
                memory,
                mask,
                memory_mask,
                score_bias=score_bias,
                rotate=rotate,
                cache=None if cache is None else cache.layers[i],
                return_weights=return_weights,
            )
            maps.append(weights)
            cross_maps.append(cross_weights)
        both = (torch.stack(maps, dim=1), torch.stack(cross_maps, dim=1)) if return_weights else None
        return self.final_norm(x), both
