"""Tiny randomly initialised models of ``transformers``, one for each family, and how to break their checkpoints."""

import json

import torch
import transformers

from course_lib.tests.compare import randomise

KINDS = {
    "gpt2": ("GPT2", "GPT2LMHeadModel", {"n_embd": 24, "n_head": 4, "n_layer": 3, "n_positions": 40}),
    "llama": (
        "Llama",
        "LlamaForCausalLM",
        {
            "hidden_size": 24,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_hidden_layers": 3,
            "intermediate_size": 40,
            "head_dim": 8,
            "rope_theta": 500.0,
        },
    ),
    "t5": (
        "T5",
        "T5ForConditionalGeneration",
        {
            "d_model": 24,
            "num_heads": 4,
            "d_kv": 5,
            "d_ff": 40,
            "num_layers": 2,
            "num_decoder_layers": 3,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 20,
            "decoder_start_token_id": 0,
        },
    ),
    "whisper": (
        "Whisper",
        "WhisperForConditionalGeneration",
        {
            "d_model": 24,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 40,
            "decoder_ffn_dim": 40,
            "num_mel_bins": 6,
            "max_source_positions": 8,
            "max_target_positions": 40,
        },
    ),
}


def tiny(family, std=0.5, **changes):
    """A model with every parameter random, N(0, ``std``²): with small ones a missing bias would go unnoticed."""
    config, model, options = KINDS[family]
    special = {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 1, "vocab_size": 50}
    torch.manual_seed(0)
    config = getattr(transformers, f"{config}Config")(**(special | options | changes), attn_implementation="eager")
    model = randomise(getattr(transformers, model)(config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= std / 0.5
    return model


def change_config(directory, **changes):
    """Write fields of ``config.json`` anew; ``...`` takes one out."""
    path = directory / "config.json"
    fields = {k: v for k, v in (json.loads(path.read_text()) | changes).items() if v is not ...}
    path.write_text(json.dumps(fields))
