"""GPT-2, Llama, T5 and Whisper: the same logits as ``transformers`` on the same weights, or a refusal by name."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.masks import padding_mask

transformers = pytest.importorskip("transformers")

from course_lib.pretrained.checkpoint import CheckpointMissing, UnsupportedCheckpoint  # noqa: E402
from course_lib.pretrained.gpt2 import load_gpt2  # noqa: E402
from course_lib.pretrained.llama import load_llama  # noqa: E402
from course_lib.pretrained.t5 import load_t5, read_t5_config  # noqa: E402
from course_lib.pretrained.whisper import load_whisper  # noqa: E402
from course_lib.tests.pretrained.families import KINDS, change_config, tiny  # noqa: E402

LOAD = {"gpt2": load_gpt2, "llama": load_llama, "t5": load_t5, "whisper": load_whisper}
LEFT = torch.tensor([[0, 0, 7, 9, 4, 3], [5, 5, 8, 11, 30, 3], [0, 2, 3, 6, 6, 9]])
RIGHT = torch.tensor([[7, 9, 4, 3, 0, 0], [5, 5, 8, 11, 30, 3], [2, 3, 6, 6, 9, 0]])
TARGET = torch.tensor([[0, 7, 9, 2], [0, 4, 5, 3], [0, 8, 8, 8]])
SOUND = torch.randn(3, 6, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def logits_of(family, ours, theirs, tokens):
    """Logits of both for the same padded batch, of its real tokens."""
    mask, real = padding_mask(tokens), (tokens != 0)
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    dtype, device = ours.embedding.token.weight.dtype, tokens.device
    if family in ("gpt2", "llama"):
        expected = theirs(tokens, attention_mask=real.long(), position_ids=positions).logits
        return ours(tokens, mask, positions=positions)[0][real], expected[real]
    if family == "t5":  # padding in source and target
        target = torch.where(real[:, : TARGET.shape[1]], TARGET.to(device), 0)
        seen = real[:, : TARGET.shape[1]]
        expected = theirs(
            tokens, attention_mask=real.long(), decoder_input_ids=target, decoder_attention_mask=seen.long()
        ).logits
        return ours(tokens, target, mask, seen[:, None, None])[0][seen], expected[seen]
    sound = SOUND.to(device, dtype)
    expected = theirs(
        sound, decoder_input_ids=tokens, decoder_attention_mask=real.long(), decoder_position_ids=positions
    ).logits
    memory, _ = ours.encode(sound)
    return ours.decode(tokens, memory, mask, positions=positions)[0][real], expected[real]


def assert_same_logits(family, theirs, directory, device="cpu", tokens=(LEFT, RIGHT)):
    theirs.save_pretrained(directory)
    for dtype in (torch.float32, torch.float64):
        # Llama and T5 in transformers compute norms, and Llama its softmax, in float32 whatever the model's dtype
        tolerance = 1e-12 if dtype == torch.float64 and family in ("gpt2", "whisper") else 1e-5
        theirs = theirs.to(device, dtype)
        for backend in ("explicit", "fused"):
            ours = LOAD[family](directory, backend).to(device, dtype)
            for padded in tokens:
                if family == "llama" and dtype == torch.float64 and padded is LEFT:
                    continue  # theirs is NaN: the smallest float64 is −inf in the float32 of its softmax
                mine, expected = logits_of(family, ours, theirs, padded.to(device))
                assert expected.abs().max() > 0.3
                torch.testing.assert_close(mine, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("family", KINDS)
def test_logits_equal_transformers(family, tmp_path, device):
    assert_same_logits(family, tiny(family), tmp_path, device)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {"n_inner": 30, "activation_function": "gelu"}),
        ("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
        ("llama", {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.1}),
        ("t5", {"feed_forward_proj": "gated-gelu"}),
        ("t5", {"feed_forward_proj": "gated-silu", "tie_word_embeddings": False}),
        ("whisper", {"activation_function": "relu", "max_source_positions": 8}),
    ],
)
def test_options_are_followed(family, changes, tmp_path):
    assert_same_logits(family, tiny(family, **changes), tmp_path)


def test_flan_has_an_output_matrix_of_its_own(tmp_path):
    """Gated, not scaled, not tied: version 1.1 of T5 and FLAN."""
    theirs = tiny("t5", std=0.3, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    theirs.lm_head.weight = torch.nn.Parameter(torch.randn(50, 24))
    theirs.config.tie_word_embeddings = False
    assert_same_logits("t5", theirs, tmp_path)
    model = load_t5(tmp_path)
    assert model.embedding.output is not None and model.config.output_scale == 1
    # The published files say tie_word_embeddings = false and nothing of scale_decoder_outputs.
    change_config(tmp_path, tie_word_embeddings=False, scale_decoder_outputs=...)
    assert read_t5_config(tmp_path).output_scale == 1
    change_config(tmp_path, tie_word_embeddings=...)
    assert read_t5_config(tmp_path).output_scale == 24**-0.5


@pytest.mark.parametrize("family", KINDS)
def test_gradients_equal_transformers(family, tmp_path):
    theirs = tiny(family, std=0.3)
    theirs.save_pretrained(tmp_path)
    theirs, ours = theirs.double(), LOAD[family](tmp_path).double()
    mine, expected = logits_of(family, ours, theirs, RIGHT)
    weight = torch.randn_like(mine)
    (mine * weight).sum().backward()
    (expected * weight).sum().backward()
    place, other = {
        "gpt2": ("decoder.layers.0.feed_forward.w_1", "transformer.h.0.mlp.c_fc"),
        "llama": ("decoder.layers.0.attention.w_k", "model.layers.0.self_attn.k_proj"),
        "t5": ("encoder_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"),
        "whisper": ("audio_embedding.conv_1", "model.encoder.conv1"),
    }[family]
    gradient, expected = ours.get_submodule(place).weight.grad, theirs.get_submodule(other).weight.grad
    expected = expected.T if family == "gpt2" else expected
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    directory = tmp_path_factory.mktemp("families")
    for family in KINDS:
        tiny(family).save_pretrained(directory / family)
    return directory


@pytest.fixture
def copy(checkpoints, tmp_path):
    return lambda family: shutil.copytree(checkpoints / family, tmp_path / family)


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("gpt2", "model_type", "gpt_neo"),
        ("gpt2", "scale_attn_weights", False),
        ("gpt2", "scale_attn_by_inverse_layer_idx", True),
        ("gpt2", "activation_function", "silu"),
        ("gpt2", "embd_pdrop", 0.3),
        ("gpt2", "tie_word_embeddings", False),
        ("gpt2", "layer_norm_epsilon", ...),
        ("llama", "model_type", "mistral"),
        ("llama", "hidden_act", "gelu"),
        ("llama", "sliding_window", 64),
        ("llama", "rope_scaling", {"type": "linear", "factor": 2.0}),
        ("llama", "rope_parameters", {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0}),
        ("llama", "rope_parameters", {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}),
        ("llama", "pretraining_tp", 2),
        ("t5", "model_type", "mt5"),
        ("t5", "feed_forward_proj", "gated-relu"),
        ("t5", "dense_act_fn", "gelu"),
        ("t5", "is_gated_act", True),
        ("t5", "is_encoder_decoder", False),
        ("whisper", "scale_embedding", True),
        ("whisper", "decoder_attention_heads", 2),
        ("whisper", "decoder_ffn_dim", 30),
        ("whisper", "activation_function", "silu"),
        *((family, "some_new_scale", 0.5) for family in KINDS),
    ],
)
def test_config_that_changes_the_result_is_refused_by_name(copy, family, field, value):
    directory = copy(family)
    if field == "rope_scaling":  # how older files say it
        change_config(directory, rope_parameters=...)
    change_config(directory, **{field: value})
    with pytest.raises(UnsupportedCheckpoint, match=field):
        LOAD[family](directory)


@pytest.mark.parametrize(
    ("family", "tensor"),
    [
        ("gpt2", "transformer.h.1.attn.c_attn.weight"),
        ("llama", "model.layers.1.mlp.up_proj.weight"),
        ("t5", "decoder.block.2.layer.1.EncDecAttention.k.weight"),
        ("whisper", "model.encoder.layers.1.self_attn.k_proj.weight"),
    ],
)
def test_missing_extra_and_misshapen_tensors_are_refused_by_name(copy, family, tensor):
    directory = copy(family)
    tensors = load_file(directory / "model.safetensors")
    name = tensor.removeprefix("transformer.").removeprefix("model.")
    right = list(tensors[tensor].shape)
    wrong = {**tensors, tensor: tensors[tensor][:, :-3].contiguous()}
    save_file(wrong, directory / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match="expected") as error:
        LOAD[family](directory)
    assert f"{name} is {[right[0], right[1] - 3]}, expected {right}" in str(error.value)
    save_file({k: v for k, v in tensors.items() if k != tensor}, directory / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match=f"{name} is missing"):
        LOAD[family](directory)
    bias = tensor.replace(".weight", ".extra")
    save_file({**tensors, bias: torch.zeros(24)}, directory / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match="extra is extra"):
        LOAD[family](directory)


def test_key_bias_of_whisper_is_refused(copy):
    directory = copy("whisper")
    name = "model.encoder.layers.1.self_attn.k_proj.bias"
    save_file({**load_file(directory / "model.safetensors"), name: torch.zeros(24)}, directory / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match=r"k_proj\.bias is extra"):
        load_whisper(directory)


@pytest.mark.parametrize(
    ("family", "copied", "original"),
    [
        ("gpt2", "lm_head.weight", "transformer.wte.weight"),
        ("t5", "encoder.embed_tokens.weight", "shared.weight"),
        ("whisper", "proj_out.weight", "model.decoder.embed_tokens.weight"),
    ],
)
def test_second_copy_must_be_equal(copy, family, copied, original):
    directory = copy(family)
    tensors = load_file(directory / "model.safetensors")
    save_file({**tensors, copied: tensors[original].clone()}, directory / "model.safetensors")
    torch.testing.assert_close(LOAD[family](directory).embedding.token.weight, tensors[original])
    save_file({**tensors, copied: tensors[original] + 1}, directory / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match=copied.replace(".", r"\.")):
        LOAD[family](directory)


def test_older_files_are_read(copy):
    """Base models without a head, stored masks and frequencies, the rotary base as a field of its own."""
    expected = load_gpt2(copy("gpt2"))(RIGHT)[0]
    directory = copy("llama").parent / "gpt2"
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(directory / "model.safetensors").items()}
    tensors |= {"h.0.attn.bias": torch.ones(1, 1, 40, 40), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    save_file(tensors, directory / "model.safetensors")
    torch.testing.assert_close(load_gpt2(directory)(RIGHT)[0], expected)

    directory = directory.parent / "llama"
    expected = load_llama(directory)(RIGHT)[0]
    tensors = load_file(directory / "model.safetensors")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(tensors, directory / "model.safetensors")
    change_config(directory, rope_parameters=..., rope_theta=500.0, rope_scaling=None)
    torch.testing.assert_close(load_llama(directory)(RIGHT)[0], expected)
    change_config(directory, rope_theta=...)
    assert load_llama(directory).config.rope_base == 10_000


def test_only_safetensors_are_read(copy):
    for family, load in LOAD.items():
        directory = copy(family)
        (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
        with pytest.raises(CheckpointMissing, match="pickled"):
            load(directory)


def test_whisper_reads_all_of_its_window(copy):
    model = load_whisper(copy("whisper"))
    with pytest.raises(ValueError, match="15 frames, but the model reads 16"):
        model.encode(torch.zeros(1, 6, 15))


def test_files_of_transformers_say_what_we_think(checkpoints):
    """If a later release writes its configs otherwise, this says so first."""
    fields = {family: json.loads((checkpoints / family / "config.json").read_text()) for family in KINDS}
    assert fields["llama"]["rope_parameters"] == {"rope_theta": 500.0, "rope_type": "default"}
    assert fields["t5"]["scale_decoder_outputs"] is True
