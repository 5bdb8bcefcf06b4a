import pytest
import torch
from torch import nn

from course_lib.config import TransformerConfig
from course_lib.masks import length_mask
from course_lib.tests.compare import assert_close, randomise
from course_lib.tests.test_layers import copy_layer
from course_lib.transformer import Encoder, MaskedLanguageModel, TextEncoder


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
