"""Whisper: a Hugging Face checkpoint read into :class:`course_lib.transformer.Transformer`, whose source is sound.

Reference: Radford et al. 2022, https://arxiv.org/abs/2212.04356; the layout is ``WhisperForConditionalGeneration``'s.
"""

from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from course_lib.config import TransformerConfig
from course_lib.pretrained.checkpoint import (
    ACTIVATION_NAMES,
    IRRELEVANT,
    UnsupportedCheckpoint,
    check_config,
    choose,
    drop_copy,
    fill,
    read_config,
    read_tensors,
)
from course_lib.transformer import Transformer

_NEEDED = {
    "model_type", "vocab_size", "num_mel_bins", "d_model", "encoder_layers", "decoder_layers",
    "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "activation_function",
    "max_source_positions", "max_target_positions", "dropout", "attention_dropout",
}  # fmt: skip
_FIXED = {
    "model_type": "whisper",
    "is_encoder_decoder": True,
    "is_decoder": False,
    "add_cross_attention": False,
    "scale_embedding": False,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "apply_spec_augment": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
}
# The start of training, how to generate, what hides parts of the sound in training, and a classifier.
_MORE = {
    "init_std", "num_hidden_layers", "median_filter_width", "alignment_heads", "lang_ids", "mask_time_prob",
    "mask_time_length", "mask_time_min_masks", "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks",
    "use_weighted_layer_sum", "classifier_proj_size",
}  # fmt: skip


def read_whisper_config(directory: Path | str, backend: str = "explicit") -> TransformerConfig:
    """Our options for the model that the checkpoint's ``config.json`` describes.

    Raises:
        CheckpointMissing: if there is no ``config.json``.
        UnsupportedCheckpoint: if a field that changes the result is unknown or has an unsupported value.
    """
    config = read_config(Path(directory))
    same = {  # ours are one number for both stacks, as in every published Whisper
        "decoder_attention_heads": config.get("encoder_attention_heads"),
        "decoder_ffn_dim": config.get("encoder_ffn_dim"),
    }
    check_config(config, _NEEDED, _FIXED | same, IRRELEVANT | _MORE, family="Whisper")
    return TransformerConfig(
        d_model=config["d_model"],
        n_heads=config["encoder_attention_heads"],
        n_layers=config["encoder_layers"],
        n_decoder_layers=config["decoder_layers"],
        d_ff=config["encoder_ffn_dim"],
        vocab_size=config["vocab_size"],
        max_positions=config["max_target_positions"],
        n_mels=config["num_mel_bins"],
        max_source_positions=config["max_source_positions"],
        placement="pre",
        activation=choose(config, "activation_function", ACTIVATION_NAMES),
        dropout=config["dropout"],
        attention_dropout=config["attention_dropout"],
        backend=backend,
    )


def _names(config: TransformerConfig) -> dict[str, str]:
    n_decoder_layers = config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers
    modules = {
        "audio_embedding.conv_1": "encoder.conv1",
        "audio_embedding.conv_2": "encoder.conv2",
        "audio_embedding.position": "encoder.embed_positions",
        "embedding.token": "decoder.embed_tokens",
        "embedding.position": "decoder.embed_positions",
    }
    linears = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
    for stack, n_layers in (("encoder", config.n_layers), ("decoder", n_decoder_layers)):
        attentions = [("attention", "self_attn")]
        if stack == "decoder":
            attentions.append(("cross_attention", "encoder_attn"))
        modules[f"{stack}.final_norm"] = f"{stack}.layer_norm"
        for i in range(n_layers):
            layer = f"{stack}.layers.{i}"  # the same in both
            for j, (ours, theirs) in enumerate(attentions, start=1):
                modules[f"{layer}.norm_{j}"] = f"{layer}.{theirs}_layer_norm"
                for linear, other in linears.items():
                    modules[f"{layer}.{ours}.{linear}"] = f"{layer}.{theirs}.{other}"
            modules[f"{layer}.norm_{len(attentions) + 1}"] = f"{layer}.final_layer_norm"
            modules[f"{layer}.feed_forward.w_1"] = f"{layer}.fc1"
            modules[f"{layer}.feed_forward.w_2"] = f"{layer}.fc2"
    return {f"{o}.{part}": f"{t}.{part}" for o, t in modules.items() for part in ("weight", "bias")}


def _with_key_biases(tensors: dict[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Whisper's keys have no bias, and need none: q·(k + b) = q·k + q·b adds the same number to all scores of a query,
    which the softmax takes out again. Ours is 0.
    """
    biased = sorted(name for name in tensors if name.endswith("k_proj.bias"))
    if biased:
        raise UnsupportedCheckpoint("tensors of the checkpoint: " + "; ".join(f"{name} is extra" for name in biased))
    keys = [name.removesuffix("weight") + "bias" for name in tensors if name.endswith("k_proj.weight")]
    return tensors | {name: torch.zeros(d_model) for name in keys}


def load_whisper(directory: Path | str, backend: str = "explicit") -> Transformer:
    """Read a Whisper checkpoint (``WhisperForConditionalGeneration``).

    The source is log-mel frames ``[B, n_mels, 2 · max_source_positions]``, 30 s of sound, shorter sound padded with
    silence; the encoder has no mask.

    Args:
        directory: holds ``config.json`` and ``model.safetensors`` (or its parts with their index).
        backend: how attention is computed; "fused" is faster, "explicit" can return attention maps.

    Returns:
        The model in float32 and evaluation mode.

    Raises:
        CheckpointMissing: if a file is not there.
        UnsupportedCheckpoint: if an option, or a missing, extra or misshapen tensor would make the result wrong.

    Example:
        >>> model = load_whisper("path/to/checkpoint")  # doctest: +SKIP
    """
    config = read_whisper_config(directory, backend)
    tensors = {name.removeprefix("model."): tensor for name, tensor in read_tensors(Path(directory)).items()}
    tensors = drop_copy(tensors, "proj_out.weight", "decoder.embed_tokens.weight")
    tensors = _with_key_biases(tensors, config.d_model)
    return cast(Transformer, fill(lambda: Transformer(config), tensors, _names(config)))
