"""GPT and Llama: a decoder-only model, which reads from the left and guesses the next token everywhere."""

import torch
from torch import Tensor

from course_lib.cache import KVCache
from course_lib.config import TransformerConfig
from course_lib.embedding import TokenEmbedding, make_relative_bias, make_rotation
from course_lib.stacks import Encoder, initialise
from course_lib.summary import Summarised


class LanguageModel(Summarised):
    """A causal stack between an embedding and its logits. Without an encoder there is nothing to attend to but the past.

    Args:
        config: as in the presets "gpt2" and "llama".

    Raises:
        ValueError: if ``config.positions`` is unknown, or "sinusoidal" with an odd ``d_model``, or
            a layer cannot be made (see :class:`course_lib.layers.EncoderLayer`).

    Example:
        >>> model = LanguageModel(TransformerConfig.preset("gpt2", n_layers=1, vocab_size=50)).eval()
        >>> tokens = torch.tensor([[5, 7, 9]])
        >>> logits, _ = model(tokens)
        >>> cache = model.new_cache(batch=1, length=10)
        >>> _ = model(tokens[:, :2], cache=cache)
        >>> last, _ = model(tokens[:, 2:], cache=cache)
        >>> torch.allclose(last, logits[:, 2:], atol=1e-5)
        True

    References: Radford et al. 2019 (GPT-2), section 2.3,
    https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf; Touvron et
    al. 2023 (Llama), https://arxiv.org/abs/2302.13971, section 2.2.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config)
        self.relative_bias = make_relative_bias(config, bidirectional=False)
        self.decoder = Encoder(config)  # the layers of an encoder, run causally
        self.decoder.apply(initialise)

    def new_cache(self, batch: int, length: int) -> KVCache:
        """An empty cache for ``batch`` sequences of up to ``length`` tokens, in the model's dtype and on its device."""
        weight = self.embedding.token.weight
        return KVCache.for_model(self.config, batch, length, weight.dtype, weight.device)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Guess the token after each token.

        Args:
            tokens: token ids ``[B, N]``; with a cache only those that it does not hold yet, one or many.
            mask: boolean, True = may attend, broadcasts to ``[B, h, N, M]``, where M counts the cached tokens too. The
                future is hidden in any case; give it for padding (:func:`course_lib.masks.padding_mask`).
            positions: where the tokens stand, integers ``[N]`` or ``[B, N]``; from the end of the cache on if not
                given. Left-padded sequences need it: their first real token is at 0.
            cache: keys and values of the tokens before, to which these are added.
            last_only: whether only the last token's logits are computed (all that generation needs).
            return_weights: whether the attention weights of all layers are returned.

        Returns:
            Logits ``[B, N, V]`` (``[B, 1, V]`` with ``last_only``), and the weights ``[B, n_layers, h, N, M]`` or ``None``.

        Raises:
            ValueError: if a position is negative or beyond ``max_positions`` (learned and sinusoidal), the cache is
                full, or the backend cannot do what is asked.
        """
        start = 0 if cache is None else cache.length
        place = torch.arange(start + tokens.shape[1], device=tokens.device)  # [M] in the padded sequence
        positions = place[start:] if positions is None else positions
        x = self.embedding(tokens, positions)  # [B, N, d_model]
        states, weights = self.decoder(
            x,
            mask,
            causal=True,
            score_bias=None if self.relative_bias is None else self.relative_bias(place[start:], place),
            rotate=make_rotation(self.config, positions, x.dtype),
            cache=cache,
            return_weights=return_weights,
        )
        return self.embedding.logits(states[:, -1:] if last_only else states), weights

    def example(self, batch: int, n_tokens: int) -> tuple[Tensor, ...]:
        """Input of the right kind, for :meth:`summary`."""
        return (torch.zeros(batch, n_tokens, dtype=torch.long),)
