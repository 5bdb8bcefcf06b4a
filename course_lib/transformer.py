"""The Transformer of 2017: an encoder reads the source, a decoder writes the target. Also T5 and Whisper.

The other whole models have their own files and can be imported from here too: :class:`LanguageModel` (decoder-only),
:class:`MaskedLanguageModel` and :class:`TextEncoder` (encoder-only).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.cache import KVCache
from course_lib.config import TransformerConfig
from course_lib.embedding import AudioEmbedding, TokenEmbedding, make_relative_bias, make_rotation
from course_lib.language_model import LanguageModel
from course_lib.masked_language_model import MaskedLanguageModel, TextEncoder
from course_lib.stacks import Decoder, Encoder, initialise_evenly
from course_lib.summary import Summarised

__all__ = [
    "AttentionMaps",
    "Decoder",
    "Encoder",
    "LanguageModel",
    "MaskedLanguageModel",
    "TextEncoder",
    "Transformer",
]


class AttentionMaps(NamedTuple):
    """The attention weights of an encoder–decoder, for all layers and heads."""

    encoder: Tensor | None  # [B, n_layers, h, M, M] over the source; None if only the decoder ran
    decoder: Tensor  # [B, n_layers, h, N, keys] over the target
    cross: Tensor  # [B, n_layers, h, N, M] from the target to the source


class Transformer(Summarised):
    """Source tokens (or sound) and the target so far in, logits of the next target token out.

    Source and target share one vocabulary and one embedding matrix, which is also the output matrix (section 3.4).
    With ``config.n_mels`` the source is sound instead.

    Args:
        config: as in the presets "vaswani_base", "t5" and "whisper".

    Raises:
        ValueError: if ``config.positions`` is unknown, "sinusoidal" positions or sound have an odd ``d_model``, or
            a layer cannot be made (see :class:`course_lib.layers.EncoderLayer`).

    Example:
        >>> model = Transformer(TransformerConfig.preset("vaswani_base", n_layers=1, vocab_size=50))
        >>> source, target = torch.tensor([[5, 7, 9]]), torch.tensor([[1, 6]])
        >>> logits, _ = model(source, target)
        >>> logits.shape
        torch.Size([1, 2, 50])

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config)
        self.audio_embedding = AudioEmbedding(config) if config.n_mels else None
        self.encoder_bias = make_relative_bias(config, bidirectional=True)
        self.decoder_bias = make_relative_bias(config, bidirectional=False)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.encoder.apply(initialise_evenly)
        self.decoder.apply(initialise_evenly)

    def new_cache(self, batch: int, length: int) -> KVCache:
        """An empty cache for ``batch`` targets of up to ``length`` tokens, in the model's dtype and on its device."""
        weight = self.embedding.token.weight
        return KVCache.for_model(self.config, batch, length, weight.dtype, weight.device)

    def encode(
        self, source: Tensor, source_mask: Tensor | None = None, *, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Read the source.

        Args:
            source: token ids ``[B, M]``, or sound ``[B, n_mels, frames]``.
            source_mask: boolean, True = may attend, broadcasts to ``[B, h, M, M]``; for padding ``[B, 1, 1, M]``.
            return_weights: whether the attention weights are returned.

        Returns:
            The memory ``[B, M, d_model]``, and the weights ``[B, n_layers, h, M, M]`` or ``None``.

        Raises:
            ValueError: if the source is longer than ``max_positions`` (learned and sinusoidal), sound has another
                length than the model reads, or the backend cannot do what is asked
                (see :meth:`course_lib.attention.MultiHeadAttention.forward`).
        """
        positions = torch.arange(source.shape[1], device=source.device)
        x = self.embedding(source, positions) if self.audio_embedding is None else self.audio_embedding(source)
        return self.encoder(
            x,
            source_mask,
            score_bias=None if self.encoder_bias is None else self.encoder_bias(positions, positions),
            rotate=make_rotation(self.config, positions, x.dtype),
            return_weights=return_weights,
        )

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
        return_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Guess the token after each target token.

        Args:
            target: token ids ``[B, N]``; with a cache only those that it does not hold yet, one or many.
            memory: what :meth:`encode` returned ``[B, M, d_model]``.
            mask: of the target; boolean, True = may attend, broadcasts to ``[B, h, N, keys]``, cached ones counted.
            memory_mask: of the memory, broadcasts to ``[B, h, N, M]``; the ``source_mask`` for padding.
            positions: where the tokens stand, ``[N]`` or ``[B, N]``; from the end of the cache on if not given.
            cache: keys and values of the tokens before, to which these are added.
            last_only: whether only the last token's logits are computed.
            return_weights: whether the attention weights are returned.

        Returns:
            Logits ``[B, N, V]``, and the weights of both attentions (see :class:`AttentionMaps`) or ``None``.

        Raises:
            ValueError: if a position is negative or beyond ``max_positions`` (learned and sinusoidal), the cache is
                full, or the backend cannot do what is asked.
        """
        start = 0 if cache is None else cache.length
        place = torch.arange(start + target.shape[1], device=target.device)  # in the padded sequence
        positions = place[start:] if positions is None else positions
        x = self.embedding(target, positions)
        states, weights = self.decoder(
            x,
            memory,
            mask,
            memory_mask,
            score_bias=None if self.decoder_bias is None else self.decoder_bias(place[start:], place),
            rotate=make_rotation(self.config, positions, x.dtype),
            cache=cache,
            return_weights=return_weights,
        )
        return self.embedding.logits(states[:, -1:] if last_only else states), weights

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, AttentionMaps | None]:
        """Guess every target token from the source and the target tokens before it (training).

        Args:
            source: token ids ``[B, M]``, or sound ``[B, n_mels, frames]``.
            target: token ids ``[B, N]``, shifted right: the start token first, the last token left out.
            source_mask: padding of the source ``[B, 1, 1, M]``, True = may attend; for sound not needed.
            target_mask: padding of the target ``[B, 1, 1, N]``.
            return_weights: whether all attention weights are returned.

        Returns:
            Logits ``[B, N, V]``, and the weights or ``None``.

        Raises:
            ValueError: as :meth:`encode` and :meth:`decode`, e.g. if source or target is too long.
        """
        memory, maps = self.encode(source, source_mask, return_weights=return_weights)
        logits, both = self.decode(target, memory, target_mask, source_mask, return_weights=return_weights)
        return logits, None if both is None else AttentionMaps(maps, *both)

    def example(self, batch: int, n_tokens: int) -> tuple[Tensor, ...]:
        """Input of the right kind, for :meth:`summary`."""
        tokens = torch.zeros(batch, n_tokens, dtype=torch.long)
        if self.audio_embedding is None:
            return tokens, tokens
        return torch.zeros(batch, self.config.n_mels, 2 * self.config.max_source_positions), tokens
