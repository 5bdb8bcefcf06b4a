import pytest
import torch
from torch import nn

from course_lib.config import TransformerConfig
from course_lib.layers import DecoderLayer, EncoderLayer
from course_lib.masks import causal_mask, length_mask
from course_lib.tests.compare import (
    DTYPES,
    HALF,
    assert_as_good,
    assert_close,
    copy_attention,
    gradients,
    randomise,
    typical,
)

CONFIG = TransformerConfig(d_model=12, n_heads=4, n_layers=1, d_ff=20)


def copy_layer(ours, theirs):
    """Weights of ``nn.TransformerEncoderLayer`` into ours."""
    copy_attention(ours.attention, theirs.self_attn)
    pairs = (
        (ours.feed_forward.w_1, theirs.linear1),
        (ours.feed_forward.w_2, theirs.linear2),
        (ours.norm_1, theirs.norm1),
        (ours.norm_2, theirs.norm2),
    )
    for mine, other in pairs:
        mine.load_state_dict(other.state_dict())


def copy_decoder_layer(ours, theirs):
    """Weights of ``nn.TransformerDecoderLayer`` into ours."""
    copy_layer(ours, theirs)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    ours.norm_3.load_state_dict(theirs.norm3.state_dict())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["explicit", "fused"])
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_agrees_with_nn_transformer_encoder_layer(placement, activation, backend, dtype, device):
    theirs = nn.TransformerEncoderLayer(
        12, 4, 20, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre", bias=True
    )
    theirs = randomise(theirs).to(device, dtype)
    exact = nn.TransformerEncoderLayer(
        12, 4, 20, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre", bias=True
    ).to(device, torch.float64)
    exact.load_state_dict(theirs.state_dict())
    config = TransformerConfig.preset(
        "bert", d_model=12, n_heads=4, d_ff=20, norm_eps=1e-5, placement=placement, activation=activation,
        dropout=0.0, attention_dropout=0.0, backend=backend,
    )  # fmt: skip
    ours = EncoderLayer(config).to(device, dtype)
    copy_layer(ours, theirs)
    x = torch.randn(2, 5, 12, device=device, dtype=dtype)
    padding = length_mask(torch.tensor([3, 5], device=device))
    hidden = ~padding[:, 0, 0]  # their polarity
    weight = torch.randn(2, 5, 12, device=device, dtype=dtype)
    inputs = [x.to(to).requires_grad_() for to in (dtype, dtype, torch.float64)]
    outputs = [
        ours(inputs[0], padding)[0],
        theirs(inputs[1], src_key_padding_mask=hidden),
        exact(inputs[2], src_key_padding_mask=hidden),
    ]
    results = [(y, *gradients(y, weight.to(y.dtype), [x])) for x, y in zip(inputs, outputs)]
    for mine, plain, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(mine, plain, truth)
        else:
            assert_close(mine, truth.to(dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["explicit", "fused"])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_agrees_with_nn_transformer_decoder_layer(placement, backend, dtype, device):
    """Values, and gradients of both inputs and of a weight in each attention."""

    def make():
        return nn.TransformerDecoderLayer(12, 4, 20, dropout=0.0, batch_first=True, norm_first=placement == "pre")

    theirs = randomise(make()).to(device, dtype)
    exact = make().to(device, torch.float64)
    exact.load_state_dict(theirs.state_dict())
    config = TransformerConfig(
        d_model=12, n_heads=4, n_layers=1, d_ff=20, placement=placement, backend=backend
    )  # fmt: skip
    ours = DecoderLayer(config).to(device, dtype)
    copy_decoder_layer(ours, theirs)
    x = torch.randn(2, 3, 12, device=device, dtype=dtype)
    memory = torch.randn(2, 5, 12, device=device, dtype=dtype)
    padding = length_mask(torch.tensor([3, 2], device=device))
    memory_padding = length_mask(torch.tensor([3, 5], device=device))
    weight = torch.randn(2, 3, 12, device=device, dtype=dtype)
    hidden = {
        "tgt_mask": ~causal_mask(3, device=device),  # their polarity
        "tgt_key_padding_mask": ~padding[:, 0, 0],
        "memory_key_padding_mask": ~memory_padding[:, 0, 0],
    }
    results = []
    for module, to in ((ours, dtype), (theirs, dtype), (exact, torch.float64)):
        inputs = [tensor.to(to).requires_grad_() for tensor in (x, memory)]
        y = module(*inputs, padding, memory_padding)[0] if module is ours else module(*inputs, **hidden)
        last = module.feed_forward.w_1.weight if module is ours else module.linear1.weight
        first = module.attention.w_o.weight if module is ours else module.self_attn.out_proj.weight
        cross = module.cross_attention.w_o.weight if module is ours else module.multihead_attn.out_proj.weight
        results.append((y, *gradients(y, weight.to(to), [*inputs, first, cross, last])))
    for mine, plain, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(mine, plain, truth, typical)
        else:
            assert_close(mine, truth.to(dtype), dtype)


def test_decoder_layer_returns_both_maps():
    layer = randomise(DecoderLayer(CONFIG)).double()
    x, memory = torch.randn(2, 3, 12, dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    _, (weights, cross) = layer(x, memory, return_weights=True)
    attended, expected = layer.attention(x, causal=True, return_weights=True)
    torch.testing.assert_close(weights, expected)
    expected = layer.cross_attention(layer.norm_1(x + attended), memory, return_weights=True)[1]
    torch.testing.assert_close(cross, expected)
    assert layer(x, memory)[1] == (None, None)


@pytest.mark.parametrize("norm", ["layer", "rms", "batch", "dyt"])
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_any_norm_in_both_placements(norm, placement, activation):
    config = TransformerConfig(
        d_model=12, n_heads=4, n_layers=1, d_ff=20, n_kv_heads=2, norm=norm, placement=placement, activation=activation
    )
    layer = randomise(EncoderLayer(config)).double().eval()
    x = torch.randn(2, 5, 12, dtype=torch.float64)

    def attend(x):
        return layer.attention(x)[0]

    if placement == "post":
        y = layer.norm_1(x + attend(x))
        expected = layer.norm_2(y + layer.feed_forward(y))
    else:
        y = x + attend(layer.norm_1(x))
        expected = y + layer.feed_forward(layer.norm_2(y))
    torch.testing.assert_close(layer(x)[0], expected)


def test_causal_layer_does_not_see_the_future():
    layer = randomise(EncoderLayer(CONFIG)).double()
    x = torch.randn(1, 5, 12, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, causal=True)[0], x)
    assert torch.equal(jacobian.abs().amax(dim=(0, 2, 3, 5)) > 0, causal_mask(5))


def test_dropout_in_training_only():
    config = TransformerConfig(d_model=12, n_heads=4, n_layers=1, d_ff=20, dropout=0.5, attention_dropout=0.5)
    layer, plain = EncoderLayer(config), EncoderLayer(CONFIG)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(layer.eval()(x)[0], plain(x)[0])
    assert not torch.allclose(layer.train()(x)[0], plain(x)[0])
    assert layer.attention.dropout == 0.5


def test_weights_come_from_the_attention():
    layer, x = EncoderLayer(CONFIG), torch.randn(2, 5, 12)
    _, weights = layer(x, return_weights=True)
    torch.testing.assert_close(weights, layer.attention(x, return_weights=True)[1])
    assert layer(x)[1] is None


def test_unknown_placement_is_refused():
    with pytest.raises(ValueError, match="placement"):
        EncoderLayer(TransformerConfig(d_model=12, n_heads=4, n_layers=1, d_ff=20, placement="sandwich"))
