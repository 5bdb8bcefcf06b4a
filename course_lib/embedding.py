"""How tokens and sound become vectors, where positions enter, and how vectors become tokens again."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.config import TransformerConfig
from course_lib.layers import Rotation
from course_lib.linear import Linear, linear
from course_lib.positions import RelativeBias, rotary_angles, rotate_half_split, sinusoidal_positions

POSITIONS = ("learned", "sinusoidal", "rotary", "relative", "none")


class TokenEmbedding(nn.Module):
    """Token ids to vectors, and states back to logits.

    A token's vector is a row of W_E: the look-up is the product one_hot(token) W_E, without the multiplications by 0.
    2017 multiplies it by √d_model before the position's vector is added, because rows start with length about 1 and
    positions have length √(d_model/2). The logits are states @ W_Eᵀ (tied), or have a matrix of their own.

    Args:
        config: ``vocab_size``, ``positions``, ``max_positions``, ``scale_embedding``, ``tied``, ``output_scale``,
            ``dropout``.

    Raises:
        ValueError: if ``config.positions`` is unknown, or "sinusoidal" with an odd ``d_model``.

    Example:
        >>> embedding = TokenEmbedding(TransformerConfig.preset("vaswani_base", vocab_size=50))
        >>> x = embedding(torch.tensor([[5, 7, 0]]), torch.arange(3))
        >>> x.shape, embedding.logits(x).shape
        (torch.Size([1, 3, 512]), torch.Size([1, 3, 50]))

    References: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.4; Press and Wolf 2016 (tied),
    https://arxiv.org/abs/1608.05859.
    """

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.positions not in POSITIONS:
            raise ValueError(f"unknown positions {config.positions!r}; choose one of {', '.join(POSITIONS)}")
        d_model = config.d_model
        self.scale = math.sqrt(d_model) if config.scale_embedding else 1.0
        self.output_scale = config.output_scale
        self.max_positions = config.max_positions if config.positions in ("learned", "sinusoidal") else None
        self.token = nn.Embedding(config.vocab_size, d_model)
        nn.init.normal_(self.token.weight, std=d_model**-0.5 if config.scale_embedding else 0.02)
        self.position = None
        if config.positions == "learned":
            self.position = nn.Embedding(config.max_positions, d_model)
            nn.init.normal_(self.position.weight, std=0.02)
        if config.positions == "sinusoidal":  # made anew, not stored: nothing in it is learned
            self.register_buffer("table", sinusoidal_positions(config.max_positions, d_model), persistent=False)
        self.output = None if config.tied else Linear(d_model, config.vocab_size, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The vectors that the first layer reads.

        Args:
            tokens: token ids ``[B, N]``.
            positions: where they stand, integers ``[N]`` or ``[B, N]``.

        Returns:
            ``[B, N, d_model]``.

        Raises:
            ValueError: if learned or sinusoidal positions have no such position: it is negative, or ``max_positions``
                or more.
        """
        # torch.compile would break its graph where a number leaves a tensor.
        if self.max_positions is not None and not positions.is_meta and not torch.compiler.is_compiling():
            first, last = int(positions.min()), int(positions.max())
            if first < 0 or last >= self.max_positions:
                wrong = first if first < 0 else last
                raise ValueError(f"position {wrong}, but the model has {self.max_positions} positions, counted from 0")
        x = self.token(tokens) * self.scale  # [B, N, d_model]
        if self.position is not None:
            x = x + self.position(positions)
        elif self.max_positions is not None:
            x = x + self.table[positions]
        return self.dropout(x)

    def logits(self, states: Tensor) -> Tensor:
        """How well each token fits: ``[B, N, d_model]`` to ``[B, N, V]``."""
        weight = self.token.weight if self.output is None else self.output.weight
        return linear(states * self.output_scale, weight)


class AudioEmbedding(nn.Module):
    """Whisper's ear: two convolutions over time make one vector of every two frames; learned positions are added.

    Args:
        config: ``n_mels``, ``max_source_positions``, ``d_model``, ``dropout``.

    Raises:
        ValueError: if ``d_model`` is odd.

    Example:
        >>> embedding = AudioEmbedding(TransformerConfig.preset("whisper"))
        >>> embedding(torch.randn(1, 80, 3000)).shape
        torch.Size([1, 1500, 384])

    Reference: Radford et al. 2022, https://arxiv.org/abs/2212.04356, section 2.2.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.conv_1 = nn.Conv1d(config.n_mels, config.d_model, kernel_size=3, padding=1)
        self.conv_2 = nn.Conv1d(config.d_model, config.d_model, kernel_size=3, stride=2, padding=1)
        self.position = nn.Embedding(config.max_source_positions, config.d_model)
        with torch.no_grad():  # starts as sines in its first half of columns, cosines in the second
            table = sinusoidal_positions(config.max_source_positions, config.d_model)
            self.position.weight.copy_(torch.cat((table[:, 0::2], table[:, 1::2]), dim=1))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, sound: Tensor) -> Tensor:
        """Log-mel frames ``[B, n_mels, 2 · max_source_positions]`` to ``[B, max_source_positions, d_model]``.

        Raises:
            ValueError: if there are more or fewer frames: shorter sound is padded with silence before.
        """
        frames = 2 * self.position.num_embeddings
        if sound.shape[-1] != frames:
            raise ValueError(f"{sound.shape[-1]} frames, but the model reads {frames}: pad with silence, or cut")
        x = F.gelu(self.conv_2(F.gelu(self.conv_1(sound))))  # [B, d_model, frames / 2]
        return self.dropout(x.transpose(1, 2) + self.position.weight)


def make_rotation(config: TransformerConfig, positions: Tensor, dtype: torch.dtype) -> Rotation | None:
    """What turns queries and keys at ``positions`` (``[N]`` or ``[B, N]``), or None if the model is not rotary.

    Cosines and sines are made once for all layers, in float32 or better. Half-split layout, as Hugging Face's Llama.

    Raises:
        ValueError: if the model is rotary and the width of a head is odd.
        TypeError: if it is rotary and ``positions`` are not integers.

    Example:
        >>> rotate = make_rotation(TransformerConfig.preset("llama"), torch.arange(3), torch.float32)
        >>> rotate(torch.randn(2, 4, 3, 128)).shape
        torch.Size([2, 4, 3, 128])
    """
    if config.positions != "rotary":
        return None
    d_head = config.d_model // config.n_heads if config.d_head is None else config.d_head
    per_head = positions if positions.dim() == 1 else positions[:, None]  # [N] or [B, 1, N]
    cos, sin = rotary_angles(per_head, d_head, config.rope_base, torch.promote_types(dtype, torch.float32))
    return partial(rotate_half_split, cos=cos, sin=sin)


def make_relative_bias(config: TransformerConfig, bidirectional: bool) -> RelativeBias | None:
    """T5's learned numbers for distances, shared by all layers of a stack, or None if the model has none.

    Example:
        >>> make_relative_bias(TransformerConfig.preset("t5"), bidirectional=True).weight.shape
        torch.Size([32, 8])
    """
    if config.positions != "relative":
        return None
    return RelativeBias(config.n_heads, bidirectional, config.relative_buckets, config.relative_distance)
