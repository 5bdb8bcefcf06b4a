"""The options of a model, in one small frozen dataclass."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What tells one Transformer from another.

    Args:
        d_model: width of a token's vector.
        n_heads: number of attention heads h.
        n_layers: number of layers.
        d_ff: inner width of the feed-forward network.
        vocab_size: V; 0 for a stack of layers that is given vectors, not tokens.
        max_positions: longest sequence that learned positions cover; 0 for none.
        n_segments: number of segments a text may have (BERT's sentence A and B); 0 for none.
        n_kv_heads: number of key/value heads; ``n_heads`` if None.
        norm: "layer", "rms", "batch" or "dyt".
        norm_eps: ε of the norm.
        placement: where the norm stands, "post" (2017, BERT) or "pre".
        activation: "relu", "gelu", "gelu_tanh" or "swiglu".
        bias: whether linear maps add a bias.
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
    d_ff: int
    vocab_size: int = 0
    max_positions: int = 0
    n_segments: int = 0
    n_kv_heads: int | None = None
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

PRESETS: dict[str, TransformerConfig] = {
    "bert": _BERT,
    # The six-layer student of Wang et al. 2020, https://arxiv.org/abs/2002.10957, that all-MiniLM-L6-v2 starts from.
    "minilm": replace(_BERT, d_model=384, n_layers=6, d_ff=1536),
}
