"""T5 and FLAN-T5: a Hugging Face checkpoint read into :class:`course_lib.transformer.Transformer`.

No biases, no scale in attention, RMSNorm in front, learned numbers for distances in the place of positions. T5's first
version multiplies the last states by 1/√d_model and has one matrix for everything; version 1.1 and FLAN gate the
feed-forward network, do not multiply, and have an output matrix of their own.

Reference: Raffel et al. 2019, https://arxiv.org/abs/1910.10683; the layout is ``T5ForConditionalGeneration``'s.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from course_lib.config import TransformerConfig
from course_lib.pretrained.checkpoint import (
    IRRELEVANT,
    check_config,
    choose,
    drop_copy,
    fill,
    read_config,
    read_tensors,
)
from course_lib.transformer import Transformer

_NEEDED = {
    "model_type", "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads", "relative_attention_num_buckets",
    "layer_norm_epsilon", "dropout_rate",
}  # fmt: skip
_FIXED = {
    "model_type": "t5",
    "is_decoder": False,
    "is_encoder_decoder": True,
    "add_cross_attention": False,
    "pruned_heads": {},
}
# What the file may leave out. (T5's n_positions limits nothing: distances have no end.)
_DEFAULTS: dict[str, Any] = {
    "num_decoder_layers": None,
    "relative_attention_max_distance": 128,
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
}
_MORE = {"initializer_factor", "n_positions", "output_past", "scale_decoder_outputs"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu"}
# The same, as today's files repeat it.
_REPEATED = {
    "relu": ("relu", False), "gelu": ("gelu", False), "gated-gelu": ("gelu_new", True), "gated-silu": ("silu", True),
}  # fmt: skip


def read_t5_config(directory: Path | str, backend: str = "explicit") -> TransformerConfig:
    """Our options for the model that the checkpoint's ``config.json`` describes; ``tied`` as if the file had one matrix.

    Raises:
        CheckpointMissing: if there is no ``config.json``.
        UnsupportedCheckpoint: if a field that changes the result is unknown or has an unsupported value.
    """
    config = read_config(Path(directory))
    options = _DEFAULTS | config
    activation = choose(options, "feed_forward_proj", _ACTIVATIONS)
    function, gated = _REPEATED[options["feed_forward_proj"]]
    fixed = _FIXED | {"dense_act_fn": function, "is_gated_act": gated}
    check_config(config, _NEEDED, fixed, IRRELEVANT | _DEFAULTS.keys() | _MORE, family="T5")
    scaled = config.get("scale_decoder_outputs", options["tie_word_embeddings"])  # older files say it by tying
    return TransformerConfig(
        d_model=config["d_model"],
        n_heads=config["num_heads"],
        n_layers=config["num_layers"],
        n_decoder_layers=options["num_decoder_layers"],
        d_ff=config["d_ff"],
        vocab_size=config["vocab_size"],
        positions="relative",
        relative_buckets=config["relative_attention_num_buckets"],
        relative_distance=options["relative_attention_max_distance"],
        output_scale=config["d_model"] ** -0.5 if scaled else 1.0,
        d_head=config["d_kv"],
        attention_scale=1.0,
        attention_bias=False,
        norm="rms",
        norm_eps=config["layer_norm_epsilon"],
        placement="pre",
        activation=activation,
        bias=False,
        dropout=config["dropout_rate"],
        attention_dropout=config["dropout_rate"],
        backend=backend,
    )


def _names(config: TransformerConfig) -> dict[str, str]:
    n_decoder_layers = config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers
    gated = config.activation in ("geglu_tanh", "swiglu")
    network = {"w_gate": "wi_0", "w_up": "wi_1", "w_down": "wo"} if gated else {"w_1": "wi", "w_2": "wo"}
    attention = {"w_q": "q", "w_k": "k", "w_v": "v", "w_o": "o"}
    modules = {"embedding.token": "shared", "embedding.output": "lm_head"}
    for stack, n_layers in (("encoder", config.n_layers), ("decoder", n_decoder_layers)):
        sublayers = [("attention", "SelfAttention", attention), ("feed_forward", "DenseReluDense", network)]
        if stack == "decoder":
            sublayers.insert(1, ("cross_attention", "EncDecAttention", attention))
        modules[f"{stack}_bias"] = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"
        modules[f"{stack}.final_norm"] = f"{stack}.final_layer_norm"
        for i in range(n_layers):
            for j, (sublayer, theirs, linears) in enumerate(sublayers):
                place = f"{stack}.block.{i}.layer.{j}"
                modules[f"{stack}.layers.{i}.norm_{j + 1}"] = f"{place}.layer_norm"
                for linear, other in linears.items():
                    modules[f"{stack}.layers.{i}.{sublayer}.{linear}"] = f"{place}.{theirs}.{other}"
    return {f"{ours}.weight": f"{theirs}.weight" for ours, theirs in modules.items()}


def _tensors(directory: Path) -> dict[str, Tensor]:
    """The file's tensors, without second copies of the embedding and without one that nothing ever read."""
    tensors: dict[str, Tensor] = read_tensors(directory)
    for stack in ("encoder", "decoder"):
        tensors = drop_copy(tensors, f"{stack}.embed_tokens.weight", "shared.weight")
    tensors.pop("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", None)
    output, shared = tensors.get("lm_head.weight"), tensors.get("shared.weight")
    if output is not None and shared is not None and torch.equal(output, shared):
        del tensors["lm_head.weight"]
    return tensors


def load_t5(directory: Path | str, backend: str = "explicit") -> Transformer:
    """Read a T5 checkpoint (``T5ForConditionalGeneration``: T5, T5 1.1, FLAN-T5).

    Its decoder starts with the padding token, id 0. Whether the output matrix is the embedding is read from the tensors:
    the file has a different ``lm_head.weight``, or not.

    Args:
        directory: holds ``config.json`` and ``model.safetensors`` (or its parts with their index).
        backend: how attention is computed; "fused" is faster, "explicit" can return attention maps.

    Returns:
        The model in float32 and evaluation mode.

    Raises:
        CheckpointMissing: if a file is not there.
        UnsupportedCheckpoint: if an option, or a missing, extra or misshapen tensor would make the result wrong.

    Example:
        >>> model = load_t5("path/to/checkpoint")  # doctest: +SKIP
    """
    config = read_t5_config(directory, backend)
    tensors = _tensors(Path(directory))
    config = replace(config, tied="lm_head.weight" not in tensors)
    return cast(Transformer, fill(lambda: Transformer(config), tensors, _names(config)))
