"""GPT-2: a Hugging Face checkpoint read into :class:`course_lib.transformer.LanguageModel`.

Reference: Radford et al. 2019; the layout is that of ``transformers``' ``GPT2LMHeadModel``, which stores its matrices as
x @ W reads them ([in, out], "Conv1D") and W_Q, W_K, W_V side by side in one.
"""

from pathlib import Path
from typing import cast

from course_lib.config import TransformerConfig
from course_lib.language_model import LanguageModel
from course_lib.pretrained.checkpoint import (
    ACTIVATION_NAMES,
    IRRELEVANT,
    Piece,
    check_config,
    choose,
    drop_copy,
    fill,
    read_config,
    read_tensors,
)

_NEEDED = {
    "model_type", "vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "activation_function",
    "layer_norm_epsilon", "resid_pdrop", "embd_pdrop", "attn_pdrop",
}  # fmt: skip
_FIXED = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
}
# n_inner is used, but may be absent; reorder_and_upcast_attn concerns float16 only; n_ctx repeats n_positions.
_MORE = {
    "n_inner", "n_ctx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj", "summary_activation",
    "summary_proj_to_labels", "summary_first_dropout",
}  # fmt: skip


def read_gpt2_config(directory: Path | str, backend: str = "explicit") -> TransformerConfig:
    """Our options for the model that the checkpoint's ``config.json`` describes.

    Raises:
        CheckpointMissing: if there is no ``config.json``.
        UnsupportedCheckpoint: if a field that changes the result is unknown or has an unsupported value.
    """
    config = read_config(Path(directory))
    dropout = {name: config.get("resid_pdrop") for name in ("embd_pdrop", "resid_pdrop")}  # ours are one number
    check_config(config, _NEEDED, _FIXED | dropout, IRRELEVANT | _MORE, family="GPT-2")
    return TransformerConfig(
        d_model=config["n_embd"],
        n_heads=config["n_head"],
        n_layers=config["n_layer"],
        d_ff=config.get("n_inner") or 4 * config["n_embd"],
        vocab_size=config["vocab_size"],
        max_positions=config["n_positions"],
        norm_eps=config["layer_norm_epsilon"],
        placement="pre",
        activation=choose(config, "activation_function", ACTIVATION_NAMES),
        dropout=config["resid_pdrop"],
        attention_dropout=config["attn_pdrop"],
        backend=backend,
    )


def _names(config: TransformerConfig) -> dict[str, str | Piece]:
    names: dict[str, str | Piece] = {
        "embedding.token.weight": "wte.weight",
        "embedding.position.weight": "wpe.weight",
        "decoder.final_norm.weight": "ln_f.weight",
        "decoder.final_norm.bias": "ln_f.bias",
    }
    for i in range(config.n_layers):
        ours, theirs = f"decoder.layers.{i}", f"h.{i}"
        for j, linear in enumerate(("w_q", "w_k", "w_v")):
            names[f"{ours}.attention.{linear}.weight"] = Piece(f"{theirs}.attn.c_attn.weight", True, j, 3)
            names[f"{ours}.attention.{linear}.bias"] = Piece(f"{theirs}.attn.c_attn.bias", False, j, 3)
        for linear, other in (
            ("attention.w_o", "attn.c_proj"),
            ("feed_forward.w_1", "mlp.c_fc"),
            ("feed_forward.w_2", "mlp.c_proj"),
        ):
            names[f"{ours}.{linear}.weight"] = Piece(f"{theirs}.{other}.weight", transpose=True)
            names[f"{ours}.{linear}.bias"] = f"{theirs}.{other}.bias"
        for norm, other in (("norm_1", "ln_1"), ("norm_2", "ln_2")):
            names[f"{ours}.{norm}.weight"] = f"{theirs}.{other}.weight"
            names[f"{ours}.{norm}.bias"] = f"{theirs}.{other}.bias"
    return names


def load_gpt2(directory: Path | str, backend: str = "explicit") -> LanguageModel:
    """Read a GPT-2 checkpoint (``GPT2LMHeadModel`` or ``GPT2Model``).

    Args:
        directory: holds ``config.json`` and ``model.safetensors``.
        backend: how attention is computed; "fused" is faster, "explicit" can return attention maps.

    Returns:
        The model in float32 and evaluation mode.

    Raises:
        CheckpointMissing: if a file is not there.
        UnsupportedCheckpoint: if an option, or a missing, extra or misshapen tensor would make the result wrong.

    Example:
        >>> model = load_gpt2("path/to/checkpoint")  # doctest: +SKIP
    """
    config = read_gpt2_config(directory, backend)
    tensors = {
        name.removeprefix("transformer."): tensor
        for name, tensor in read_tensors(Path(directory)).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # old files store the causal mask
    }
    tensors = drop_copy(tensors, "lm_head.weight", "wte.weight")
    return cast(LanguageModel, fill(lambda: LanguageModel(config), tensors, _names(config)))
