import re

import pytest
import torch
from torch import nn

from course_lib.config import TransformerConfig
from course_lib.masks import causal_mask, length_mask, padding_mask
from course_lib.positions import sinusoidal_positions
from course_lib.summary import count_parameters, describe
from course_lib.tests.compare import assert_close, gradients, randomise
from course_lib.tests.test_layers import copy_decoder_layer, copy_layer
from course_lib.transformer import Decoder, Encoder, LanguageModel, MaskedLanguageModel, TextEncoder, Transformer


def config(**changes):
    options = {"vocab_size": 30, "d_model": 12, "n_heads": 4, "n_layers": 2, "d_ff": 20, "max_positions": 9}
    return TransformerConfig(**(options | {"n_segments": 2} | changes))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_stack_agrees_with_nn_transformer_encoder(placement, device):
    pre = placement == "pre"
    layer = nn.TransformerEncoderLayer(12, 4, 20, dropout=0.0, batch_first=True, norm_first=pre)
    theirs = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(12) if pre else None, enable_nested_tensor=False)
    theirs = randomise(theirs).to(device, torch.float64)
    ours = Encoder(config(placement=placement)).to(device, torch.float64)
    for mine, other in zip(ours.layers, theirs.layers):
        copy_layer(mine, other)
    if pre:
        ours.final_norm.load_state_dict(theirs.norm.state_dict())
    x = torch.randn(2, 5, 12, device=device, dtype=torch.float64)
    padding = length_mask(torch.tensor([3, 5], device=device))
    expected = theirs(x, src_key_padding_mask=~padding[:, 0, 0])
    output, weights = ours(x, padding, return_weights=True)
    assert_close(output, expected, torch.float64)
    assert weights.shape == (2, 2, 4, 5, 5)
    first = ours.layers[0]
    torch.testing.assert_close(weights[:, 0], first(x, padding, return_weights=True)[1])
    second = ours.layers[1](first(x, padding)[0], padding, return_weights=True)[1]
    torch.testing.assert_close(weights[:, 1], second)


def test_embedding_is_a_sum_and_padding_changes_nothing():
    model = randomise(TextEncoder(config())).double()
    tokens, segments = torch.tensor([[4, 7, 7, 1]]), torch.tensor([[0, 0, 1, 1]])
    expected = model.norm(model.token.weight[tokens] + model.position.weight[:4] + model.segment.weight[segments])
    torch.testing.assert_close(model.embed(tokens, segments), expected)
    torch.testing.assert_close(model.embed(tokens), model.embed(tokens, torch.zeros_like(segments)))
    padded = torch.tensor([[4, 7, 7, 1, 0, 0, 0]])
    states, _ = model(padded, length_mask(torch.tensor([4]), 7))
    torch.testing.assert_close(states[:, :4], model(tokens)[0])


def test_without_segments():
    model = TextEncoder(config(n_segments=0))
    tokens = torch.tensor([[4, 7]])
    assert "segment.weight" not in model.state_dict()
    torch.testing.assert_close(model.embed(tokens), model.norm(model.token(tokens) + model.position.weight[:2]))
    with pytest.raises(ValueError, match="n_segments"):
        model(tokens, segments=torch.zeros_like(tokens))


def test_word_order_matters_only_through_positions():
    model = randomise(TextEncoder(config())).double()
    tokens = torch.tensor([[4, 7, 9]])
    assert not torch.allclose(model(tokens.flip(1))[0], model(tokens)[0].flip(1))
    with torch.no_grad():
        model.position.weight.zero_()
    torch.testing.assert_close(model(tokens.flip(1))[0], model(tokens)[0].flip(1))


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match="10 tokens, but the model has learned 9 positions"):
        TextEncoder(config())(torch.ones(1, 10, dtype=torch.long))


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_masked_language_model_is_tied(backend):
    model = randomise(MaskedLanguageModel(config(backend=backend, activation="gelu"))).double()
    tokens = torch.tensor([[4, 7, 7, 1]])
    states, _ = model.text_encoder(tokens)
    hidden = model.norm(torch.nn.functional.gelu(states @ model.transform.weight.T + model.transform.bias))
    logits, _ = model(tokens)
    torch.testing.assert_close(logits, hidden @ model.text_encoder.token.weight.T + model.output_bias)


def test_logits_start_small():
    """Tied to embeddings N(0, 1) the logits would start at √d_model = 16; the first loss must be near log V."""
    model = MaskedLanguageModel(config(d_model=256, vocab_size=1000))
    tokens = torch.randint(1000, (4, 9))
    logits, _ = model(tokens)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), torch.randint(1000, (36,)))
    assert logits.std() < 0.5 and loss.item() == pytest.approx(6.9, abs=0.2)


def test_gated_network_in_the_output_layer_is_refused():
    with pytest.raises(ValueError, match="swiglu"):
        MaskedLanguageModel(config(activation="swiglu"))


# encoder–decoder


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_stacks_agree_with_nn_transformer(placement, backend, device):
    """PyTorch ends a "post" stack with one more norm; the 2017 model does not, and its norms are taken out."""
    pre = placement == "pre"
    theirs = nn.Transformer(12, 4, 2, 3, 20, dropout=0.0, batch_first=True, norm_first=pre)
    theirs = randomise(theirs).to(device, torch.float64)
    options = config(placement=placement, backend=backend, n_decoder_layers=3)
    encoder, decoder = Encoder(options).to(device, torch.float64), Decoder(options).to(device, torch.float64)
    for mine, other in zip(encoder.layers, theirs.encoder.layers):
        copy_layer(mine, other)
    for mine, other in zip(decoder.layers, theirs.decoder.layers):
        copy_decoder_layer(mine, other)
    for mine, other in ((encoder, theirs.encoder), (decoder, theirs.decoder)):
        if pre:
            mine.final_norm.load_state_dict(other.norm.state_dict())
        else:
            other.norm = None
    source = torch.randn(2, 5, 12, device=device, dtype=torch.float64, requires_grad=True)
    target = torch.randn(2, 4, 12, device=device, dtype=torch.float64, requires_grad=True)
    padding = length_mask(torch.tensor([3, 5], device=device))
    expected = theirs(
        source,
        target,
        tgt_mask=~causal_mask(4, device=device),
        src_key_padding_mask=~padding[:, 0, 0],
        memory_key_padding_mask=~padding[:, 0, 0],
    )
    output, _ = decoder(target, encoder(source, padding)[0], memory_mask=padding)
    assert_close(output, expected, torch.float64)
    weight = torch.randn_like(output)
    ours = [source, target, encoder.layers[0].attention.w_o.weight, decoder.layers[0].cross_attention.w_o.weight]
    other = [source, target, theirs.encoder.layers[0].self_attn.out_proj.weight]
    other += [theirs.decoder.layers[0].multihead_attn.out_proj.weight]
    for mine, their in zip(gradients(output, weight, ours), gradients(expected, weight, other)):
        assert_close(mine, their, torch.float64)


def make_transformer(**changes):
    options = {"positions": "sinusoidal", "scale_embedding": True, "n_segments": 0, "d_head": 4}
    return randomise(Transformer(config(**(options | changes)))).double().eval()


SOURCE, TARGET = torch.tensor([[4, 7, 7, 1, 0], [5, 2, 9, 8, 3]]), torch.tensor([[1, 6, 2], [1, 3, 0]])


def test_transformer_is_its_parts():
    """√d_model times the embedding plus the position; one matrix for source, target and output."""
    model = make_transformer()
    table, matrix = sinusoidal_positions(9, 12), model.embedding.token.weight
    assert len([p for p in model.parameters() if p.shape == (30, 12)]) == 1
    source, target = (12**0.5 * matrix[ids] + table[: ids.shape[1]] for ids in (SOURCE, TARGET))
    padding = padding_mask(SOURCE)
    memory, maps = model.encoder(source, padding, return_weights=True)
    states, both = model.decoder(target, memory, padding_mask(TARGET), padding, return_weights=True)
    logits, weights = model(SOURCE, TARGET, padding, padding_mask(TARGET), return_weights=True)
    torch.testing.assert_close(logits, states @ matrix.T)
    for mine, expected in zip(weights, (maps, *both)):
        torch.testing.assert_close(mine, expected)
    assert model(SOURCE, TARGET)[1] is None


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative"])
def test_transformer_sees_no_future_and_no_padding(positions):
    model = make_transformer(positions=positions)
    padding = padding_mask(SOURCE)
    logits, _ = model(SOURCE, TARGET, padding)
    later = TARGET.clone()
    later[:, 2] = 9
    changed, _ = model(SOURCE, later, padding)
    torch.testing.assert_close(changed[:, :2], logits[:, :2])
    assert (changed[:, 2] - logits[:, 2]).abs().amax(-1).min() > 1e-3
    torch.testing.assert_close(model(SOURCE[:1, :4], TARGET[:1])[0], logits[:1])
    moved, _ = model(SOURCE[:, [1, 0, 2, 3, 4]], TARGET, padding)
    assert (moved - logits).abs().amax() > 1e-3  # the order of the source counts


def test_embeddings_start_as_2017_needs_them():
    """Token vectors come to length √d_model, near the positions' √(d_model/2); the logits start at size 1."""
    model = Transformer(TransformerConfig.preset("vaswani_base", n_layers=1, vocab_size=500)).eval()
    tokens = torch.randint(500, (2, 20))
    assert (model.embedding.token.weight.norm(dim=-1).mean() * 512**0.5).item() == pytest.approx(22.6, rel=0.02)
    assert sinusoidal_positions(20, 512).norm(dim=-1).mean().item() == pytest.approx(16.0, rel=1e-4)
    assert model(tokens, tokens)[0].std().item() == pytest.approx(1, abs=0.2)


# decoder-only


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative", "none"])
@pytest.mark.parametrize("tied", [True, False])
def test_language_model_sees_the_past_only(positions, tied):
    model = randomise(LanguageModel(config(positions=positions, placement="pre", tied=tied, d_head=4))).double().eval()
    tokens = torch.tensor([[4, 7, 9, 1]])
    logits, weights = model(tokens, return_weights=True)
    assert (weights.amax(dim=(0, 1, 2)) > 0).equal(causal_mask(4))
    for i in range(4):
        torch.testing.assert_close(model(tokens[:, : i + 1], last_only=True)[0], logits[:, i : i + 1])
    swapped = model(tokens[:, [1, 0, 2, 3]])[0][:, -1]
    assert ((swapped - logits[:, -1]).abs().max() > 1e-6) == (positions != "none" or len(model.decoder.layers) > 1)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative"])
def test_left_padding_changes_nothing(positions):
    model = randomise(LanguageModel(config(positions=positions, placement="pre", d_head=4))).double().eval()
    tokens, padded = torch.tensor([[4, 7, 9, 1]]), torch.tensor([[0, 0, 4, 7, 9, 1]])
    places = torch.tensor([[0, 0, 0, 1, 2, 3]])
    logits, _ = model(padded, padding_mask(padded), positions=places)
    torch.testing.assert_close(logits[:, 2:], model(tokens)[0])


def test_what_positions_cannot_do_is_said():
    with pytest.raises(ValueError, match="position 9, but the model has 9 positions"):
        LanguageModel(config())(torch.ones(1, 10, dtype=torch.long))
    for kind in ("learned", "sinusoidal"):  # −1 would be the last row of the table
        with pytest.raises(ValueError, match="position -1, but the model has 9 positions"):
            LanguageModel(config(positions=kind))(torch.ones(1, 3, dtype=torch.long), positions=torch.arange(-1, 2))
    with pytest.raises(ValueError, match="unknown positions 'alibi'"):
        LanguageModel(config(positions="alibi"))
    with pytest.raises(ValueError, match="'rotary'"):
        TextEncoder(config(positions="rotary"))


# summary


def test_summary_tells_shapes_and_parameters(capsys):
    model = Transformer(config(n_segments=0, n_decoder_layers=3))
    model.summary(batch=2, n_tokens=5)
    text = capsys.readouterr().out
    rows = dict(re.findall(r"^ *([\w ×:]+?)  +(.*)$", text, flags=re.MULTILINE))
    assert rows["Transformer"].split("]  ") == ["[2, 5, 30", f"{count_parameters(model):>14,}"]
    assert rows["layers × 3"].strip() == f"{count_parameters(model.decoder.layers):,}"
    assert rows["w_1: Linear"].startswith("[2, 5, 20]") and rows["w_1: Linear"].endswith(" 260")
    assert "norm_3: LayerNorm" in rows and "final_norm" not in text


@pytest.mark.parametrize(
    ("name", "model"),
    [("bert", MaskedLanguageModel), ("llama", LanguageModel), ("t5", Transformer), ("whisper", Transformer)],
)
def test_every_model_has_a_summary(name, model):
    small = TransformerConfig.preset(name, d_model=12, n_heads=4, n_layers=2, d_ff=20, vocab_size=30, d_head=4)
    text = describe(model(small), batch=3, n_tokens=7)
    assert f"{model.__name__}" in text and "[3, 7, 30]" in text
