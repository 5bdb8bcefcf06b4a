"""The options of a model, in one small frozen dataclass, and the published models as presets of it."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What tells one Transformer from another.

    Args:
        d_model: width of a token's vector.
        n_heads: number of attention heads h.
        n_layers: number of layers; in an encoder–decoder, of the encoder.
        n_decoder_layers: number of decoder layers of an encoder–decoder; ``n_layers`` if None.
        d_ff: inner width of the feed-forward network.
        vocab_size: V; 0 for a stack of layers that is given vectors, not tokens.
        positions: how a token's place enters: "learned" or "sinusoidal" vectors are added to the embedding, "rotary"
            turns queries and keys, "relative" adds a learned number for each distance to the scores, "none".
        max_positions: longest sequence that learned or sinusoidal positions cover.
        rope_base: the slowest rotary frequency is about 1 / ``rope_base``.
        relative_buckets: number of classes that relative distances fall into.
        relative_distance: distances from here on share one class.
        scale_embedding: whether token vectors are multiplied by √d_model (2017).
        tied: whether the output matrix is the embedding matrix.
        output_scale: what the last states are multiplied with before the output matrix (T5: 1/√d_model).
        n_segments: number of segments a text may have (BERT's sentence A and B); 0 for none.
        n_mels: channels of the sound that an encoder reads in place of tokens (Whisper); 0 for none.
        max_source_positions: with ``n_mels``, number of vectors that the sound becomes.
        n_kv_heads: number of key/value heads; ``n_heads`` if None.
        d_head: width of a head; ``d_model / n_heads`` if None.
        attention_scale: what inner products are multiplied with; 1/√d_head if None (T5: 1).
        attention_bias: whether the four projections of attention add a bias.
        norm: "layer", "rms", "batch" or "dyt".
        norm_eps: ε of the norm.
        placement: where the norm stands, "post" (2017, BERT) or "pre".
        activation: "relu", "gelu", "gelu_tanh", "swiglu" or "geglu_tanh".
        bias: whether the linear maps of the feed-forward network add a bias.
        dropout: share dropped after embedding and sublayers, in training mode.
        attention_dropout: share of the attention weights dropped, in training mode.
        backend: how attention is computed, see :class:`course_lib.attention.MultiHeadAttention`.

    Example:
        >>> TransformerConfig.preset("bert", n_layers=2).d_ff
        3072
    """

    d_model: int
    n_heads: int
    n_layers: int
    n_decoder_layers: int | None = None
    d_ff: int
    vocab_size: int = 0
    positions: str = "learned"
    max_positions: int = 0
    rope_base: float = 10_000.0
    relative_buckets: int = 32
    relative_distance: int = 128
    scale_embedding: bool = False
    tied: bool = True
    output_scale: float = 1.0
    n_segments: int = 0
    n_mels: int = 0
    max_source_positions: int = 0
    n_kv_heads: int | None = None
    d_head: int | None = None
    attention_scale: float | None = None
    attention_bias: bool = True
    norm: str = "layer"
    norm_eps: float = 1e-5
    placement: str = "post"
    activation: str = "relu"
    bias: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    backend: str = "explicit"

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "TransformerConfig":
        """The published model ``name``, with ``changes`` to single fields.

        Raises:
            ValueError: if there is no preset of that name.
        """
        if name not in PRESETS:
            raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
        return replace(PRESETS[name], **changes)


# BERT base, Devlin et al. 2018, https://arxiv.org/abs/1810.04805, section 3 and appendix A.2.
_BERT = TransformerConfig(
    d_model=768,
    n_heads=12,
    n_layers=12,
    d_ff=3072,
    vocab_size=30522,
    max_positions=512,
    n_segments=2,
    norm_eps=1e-12,
    activation="gelu",
    dropout=0.1,
    attention_dropout=0.1,
)

# The base model of Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, table 3. 63,045,632 parameters: weights
# without biases in attention (as the paper writes it), biases in the feed-forward network, γ and β in each LayerNorm,
# one matrix for both embeddings and the output (section 3.4), V = 37,000. Table 3 prints 65 M, which no such count
# gives exactly.
_VASWANI_BASE = TransformerConfig(
    d_model=512,
    n_heads=8,
    n_layers=6,
    d_ff=2048,
    vocab_size=37_000,
    positions="sinusoidal",
    max_positions=1024,
    scale_embedding=True,
    attention_bias=False,
    norm_eps=1e-6,
    dropout=0.1,
)

PRESETS: dict[str, TransformerConfig] = {
    "vaswani_base": _VASWANI_BASE,
    "bert": _BERT,
    # The six-layer student of Wang et al. 2020, https://arxiv.org/abs/2002.10957, that all-MiniLM-L6-v2 starts from.
    "minilm": replace(_BERT, d_model=384, n_layers=6, d_ff=1536),
    # GPT-2 small, Radford et al. 2019: BERT base with the norm in front, causal, its own vocabulary.
    "gpt2": TransformerConfig(
        d_model=768,
        n_heads=12,
        n_layers=12,
        d_ff=3072,
        vocab_size=50257,
        max_positions=1024,
        placement="pre",
        activation="gelu_tanh",
        dropout=0.1,
        attention_dropout=0.1,
    ),
    # Llama 2 7B, Touvron et al. 2023, https://arxiv.org/abs/2307.09288; later ones differ in sizes and share heads.
    "llama": TransformerConfig(
        d_model=4096,
        n_heads=32,
        n_layers=32,
        d_ff=11008,
        vocab_size=32000,
        positions="rotary",
        tied=False,
        attention_bias=False,
        norm="rms",
        placement="pre",
        activation="swiglu",
        bias=False,
    ),
    # T5 small, Raffel et al. 2019, https://arxiv.org/abs/1910.10683: no biases, no scale in attention.
    "t5": TransformerConfig(
        d_model=512,
        n_heads=8,
        n_layers=6,
        d_ff=2048,
        vocab_size=32128,
        positions="relative",
        output_scale=512**-0.5,
        d_head=64,
        attention_scale=1.0,
        attention_bias=False,
        norm="rms",
        norm_eps=1e-6,
        placement="pre",
        bias=False,
        dropout=0.1,
        attention_dropout=0.1,
    ),
    # Whisper tiny, Radford et al. 2022, https://arxiv.org/abs/2212.04356: 30 s of sound are 3000 frames, 1500 vectors.
    "whisper": TransformerConfig(
        d_model=384,
        n_heads=6,
        n_layers=4,
        d_ff=1536,
        vocab_size=51865,
        max_positions=448,
        n_mels=80,
        max_source_positions=1500,
        placement="pre",
        activation="gelu",
    ),
    # The encoder of ViT-B/16, Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929: 14 × 14 patches and one
    # token for the class.
    "vit": TransformerConfig(
        d_model=768,
        n_heads=12,
        n_layers=12,
        d_ff=3072,
        max_positions=197,
        norm_eps=1e-6,
        placement="pre",
        activation="gelu",
        dropout=0.1,
    ),
}
