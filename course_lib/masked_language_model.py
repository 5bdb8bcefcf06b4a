"""BERT: an encoder that reads text in both directions, and guesses what was masked."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.config import TransformerConfig
from course_lib.feedforward import ACTIVATIONS
from course_lib.norms import make_norm
from course_lib.stacks import Encoder, initialise
from course_lib.summary import Summarised


class TextEncoder(Summarised):
    """BERT without its output layer: token ids in, one vector for each token out.

    A token enters as the sum of three learned vectors: which token, at which position, in which segment.

    Args:
        config: ``vocab_size``, ``max_positions``, ``n_segments`` and what the encoder needs.

    Raises:
        ValueError: if ``config.positions`` is not "learned", or
            a layer cannot be made (see :class:`course_lib.layers.EncoderLayer`).

    Example:
        >>> model = TextEncoder(TransformerConfig.preset("bert", n_layers=1, vocab_size=50))
        >>> tokens = torch.tensor([[5, 7, 0]])
        >>> states, _ = model(tokens, mask=padding_mask(tokens))
        >>> states.shape
        torch.Size([1, 3, 768])

    Reference: Devlin et al. 2018, https://arxiv.org/abs/1810.04805, section 3 and figure 2.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.positions != "learned":
            raise ValueError(f'a TextEncoder has "learned" positions, got {config.positions!r}')
        self.config = config
        self.token = nn.Embedding(config.vocab_size, config.d_model)
        self.position = nn.Embedding(config.max_positions, config.d_model)
        self.segment = nn.Embedding(config.n_segments, config.d_model) if config.n_segments else None
        self.norm = make_norm(config.norm, config.d_model, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.apply(initialise)

    def embed(self, tokens: Tensor, segments: Tensor | None = None) -> Tensor:
        """The vectors that the first layer reads.

        Args:
            tokens: token ids ``[B, N]``.
            segments: segment of each token ``[B, N]``; all 0 if not given.

        Returns:
            ``[B, N, d_model]``.

        Raises:
            ValueError: if N exceeds ``max_positions``, or segments are given to a model without them.
        """
        n = tokens.shape[1]
        if n > self.config.max_positions:
            raise ValueError(f"{n} tokens, but the model has learned {self.config.max_positions} positions")
        x = self.token(tokens) + self.position.weight[:n]  # [B, N, d_model]
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(tokens) if segments is None else segments)
        elif segments is not None:
            raise ValueError("segments are given, but the model has none (n_segments = 0)")
        return self.dropout(self.norm(x))

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Read the tokens.

        Args:
            tokens: token ids ``[B, N]``.
            mask: boolean, True = may attend, broadcasts to ``[B, h, N, N]``; for padding
                :func:`course_lib.masks.padding_mask`.
            segments: segment of each token ``[B, N]``; all 0 if not given.
            return_weights: whether the attention weights of all layers are returned.

        Returns:
            The last layer's states ``[B, N, d_model]``, and the weights ``[B, n_layers, h, N, N]`` or ``None``.

        Raises:
            ValueError: if N exceeds ``max_positions``, segments are given to a model without them, or the backend
                cannot do what is asked (see :meth:`course_lib.attention.MultiHeadAttention.forward`).
        """
        return self.encoder(self.embed(tokens, segments), mask, return_weights=return_weights)


class MaskedLanguageModel(Summarised):
    """BERT: guesses the token at every position from both sides.

    The states pass one more layer, norm(φ(x W + b)), and are compared with every token's embedding: the output matrix
    *is* the embedding matrix (tied).

    Args:
        config: as for :class:`TextEncoder`; ``activation`` must be a plain one.

    Raises:
        ValueError: if ``config.activation`` is not in ``ACTIVATIONS``, or as :class:`TextEncoder`.

    Example:
        >>> model = MaskedLanguageModel(TransformerConfig.preset("bert", n_layers=1, vocab_size=50))
        >>> logits, _ = model(torch.tensor([[5, 7, 0]]))
        >>> logits.shape
        torch.Size([1, 3, 50])

    Reference: Devlin et al. 2018, https://arxiv.org/abs/1810.04805, section 3.1, task 1.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.activation not in ACTIVATIONS:
            raise ValueError(f"the output layer needs one of {', '.join(ACTIVATIONS)}, got {config.activation!r}")
        self.config = config
        self.text_encoder = TextEncoder(config)
        self.activation = ACTIVATIONS[config.activation]
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.norm = make_norm(config.norm, config.d_model, config.norm_eps)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        initialise(self.transform)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As :meth:`TextEncoder.forward`, with logits ``[B, N, V]`` in the place of the states."""
        states, weights = self.text_encoder(tokens, mask, segments, return_weights=return_weights)
        states = self.norm(self.activation(self.transform(states)))  # [B, N, d_model]
        return F.linear(states, self.text_encoder.token.weight, self.output_bias), weights  # [B, N, V]
