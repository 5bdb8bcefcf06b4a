"""The Llama family: a Hugging Face checkpoint read into :class:`course_lib.transformer.LanguageModel`.

Grouped queries, rotary positions in the half-split layout (Hugging Face has reordered Meta's interleaved weights), SwiGLU
and RMSNorm in front. Reference: Touvron et al. 2023, https://arxiv.org/abs/2302.13971; the layout is that of
``transformers``' ``LlamaForCausalLM``.
"""

from pathlib import Path
from typing import Any, cast

from course_lib.config import TransformerConfig
from course_lib.language_model import LanguageModel
from course_lib.pretrained.checkpoint import (
    IRRELEVANT,
    UnsupportedCheckpoint,
    check_config,
    choose,
    drop_copy,
    fill,
    read_config,
    read_tensors,
)

_NEEDED = {
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "hidden_act", "rms_norm_eps",
}  # fmt: skip
_FIXED = {
    "model_type": "llama",
    "pretraining_tp": 1,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
}
# These have defaults, so that they may be absent. Rotary positions do not end at max_position_embeddings.
_DEFAULTS: dict[str, Any] = {
    "num_key_value_heads": None,
    "head_dim": None,
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "rope_theta": 10_000.0,
    "rope_scaling": None,
    "rope_parameters": None,
    "max_position_embeddings": None,
}


def _rope_base(config: dict[str, Any]) -> float:
    """The base of the rotary frequencies, from today's field or the older ones; stretched frequencies are refused."""
    field = "rope_scaling" if config.get("rope_parameters") is None else "rope_parameters"
    options = dict(config.get(field) or {})
    base = options.pop("rope_theta", config.get("rope_theta", _DEFAULTS["rope_theta"]))
    kind = options.pop("rope_type", options.pop("type", "default"))
    options.pop("type", None)
    if kind != "default" or options:
        raise UnsupportedCheckpoint(f'config.json: {field} = {config[field]!r}, only the type "default" is supported')
    return float(base)


def read_llama_config(directory: Path | str, backend: str = "explicit") -> TransformerConfig:
    """Our options for the model that the checkpoint's ``config.json`` describes.

    Raises:
        CheckpointMissing: if there is no ``config.json``.
        UnsupportedCheckpoint: if a field that changes the result is unknown or has an unsupported value.
    """
    config = read_config(Path(directory))
    check_config(config, _NEEDED, _FIXED, IRRELEVANT | _DEFAULTS.keys(), family="Llama")
    choose(config, "hidden_act", {"silu": "swiglu"})
    options = _DEFAULTS | config
    return TransformerConfig(
        d_model=config["hidden_size"],
        n_heads=config["num_attention_heads"],
        n_layers=config["num_hidden_layers"],
        d_ff=config["intermediate_size"],
        vocab_size=config["vocab_size"],
        positions="rotary",
        rope_base=_rope_base(config),
        tied=options["tie_word_embeddings"],
        n_kv_heads=options["num_key_value_heads"],
        d_head=options["head_dim"],
        attention_bias=options["attention_bias"],
        norm="rms",
        norm_eps=config["rms_norm_eps"],
        placement="pre",
        activation="swiglu",
        bias=options["mlp_bias"],
        attention_dropout=options["attention_dropout"],
        backend=backend,
    )


def _names(config: TransformerConfig) -> dict[str, str]:
    modules = {"embedding.token": "embed_tokens", "embedding.output": "lm_head", "decoder.final_norm": "norm"}
    for i in range(config.n_layers):
        ours, theirs = f"decoder.layers.{i}", f"layers.{i}"
        modules |= {
            f"{ours}.norm_1": f"{theirs}.input_layernorm",
            f"{ours}.attention.w_q": f"{theirs}.self_attn.q_proj",
            f"{ours}.attention.w_k": f"{theirs}.self_attn.k_proj",
            f"{ours}.attention.w_v": f"{theirs}.self_attn.v_proj",
            f"{ours}.attention.w_o": f"{theirs}.self_attn.o_proj",
            f"{ours}.norm_2": f"{theirs}.post_attention_layernorm",
            f"{ours}.feed_forward.w_gate": f"{theirs}.mlp.gate_proj",
            f"{ours}.feed_forward.w_up": f"{theirs}.mlp.up_proj",
            f"{ours}.feed_forward.w_down": f"{theirs}.mlp.down_proj",
        }
    return {f"{o}.{part}": f"{t}.{part}" for o, t in modules.items() for part in ("weight", "bias")}


def load_llama(directory: Path | str, backend: str = "explicit") -> LanguageModel:
    """Read a Llama checkpoint (``LlamaForCausalLM``: Llama 1 and 2, TinyLlama, SmolLM and others of that layout).

    Llama 3.1 and later stretch the rotary frequencies ("llama3"), which is refused.

    Args:
        directory: holds ``config.json`` and ``model.safetensors`` (or its parts with their index).
        backend: how attention is computed; "fused" is faster, "explicit" can return attention maps.

    Returns:
        The model in float32 and evaluation mode.

    Raises:
        CheckpointMissing: if a file is not there.
        UnsupportedCheckpoint: if an option, or a missing, extra or misshapen tensor would make the result wrong.

    Example:
        >>> model = load_llama("path/to/checkpoint")  # doctest: +SKIP
    """
    config = read_llama_config(directory, backend)
    tensors = {
        name.removeprefix("model."): tensor
        for name, tensor in read_tensors(Path(directory)).items()
        if not name.endswith("rotary_emb.inv_freq")  # old files store the frequencies, which follow from the config
    }
    if config.tied:
        tensors = drop_copy(tensors, "lm_head.weight", "embed_tokens.weight")
    return cast(LanguageModel, fill(lambda: LanguageModel(config), tensors, _names(config)))
