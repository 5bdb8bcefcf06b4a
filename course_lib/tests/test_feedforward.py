import pytest
import torch
from torch import nn

from course_lib.feedforward import FeedForward, GatedFeedForward, SwiGLU, make_feed_forward
from course_lib.tests.compare import assert_close, randomise


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("name", "theirs"), [("relu", nn.ReLU()), ("gelu", nn.GELU()), ("gelu_tanh", nn.GELU(approximate="tanh"))]
)
def test_agrees_with_pytorch(name, theirs, bias, device):
    ours = randomise(FeedForward(6, 20, name, bias)).to(device, torch.float64)
    expected = nn.Sequential(ours.w_1, theirs, ours.w_2)
    x = torch.randn(2, 5, 6, device=device, dtype=torch.float64)
    assert_close(ours(x), expected(x), torch.float64)
    assert (ours.w_1.bias is not None) == (ours.w_2.bias is not None) == bias


def test_exact_gelu_is_not_its_approximation():
    x = 3 * torch.randn(100, 6, dtype=torch.float64)
    exact = randomise(FeedForward(6, 20, "gelu")).double()
    approximate = FeedForward(6, 20, "gelu_tanh").double()
    approximate.load_state_dict(exact.state_dict())
    assert 1e-5 < (exact(x) - approximate(x)).abs().max() < 1e-2


@pytest.mark.parametrize("bias", [True, False])
def test_swiglu_is_its_formula(bias, device):
    ours = randomise(make_feed_forward("swiglu", 6, 20, bias)).to(device, torch.float64)
    assert isinstance(ours, SwiGLU)
    x = 3 * torch.randn(2, 5, 6, device=device, dtype=torch.float64)
    gate, up = ours.w_gate(x), ours.w_up(x)
    assert_close(ours(x), ours.w_down(gate / (1 + torch.exp(-gate)) * up), torch.float64)


def test_gate_of_flan_is_its_formula(device):
    ours = randomise(make_feed_forward("geglu_tanh", 6, 20, bias=False)).to(device, torch.float64)
    x = 3 * torch.randn(2, 5, 6, device=device, dtype=torch.float64)
    gate = nn.functional.gelu(ours.w_gate(x), approximate="tanh")
    assert_close(ours(x), ours.w_down(gate * ours.w_up(x)), torch.float64)
    with pytest.raises(ValueError, match="unknown gate 'relu'"):
        GatedFeedForward(6, 20, "relu")


def test_token_by_token():
    ours, x = randomise(FeedForward(6, 20)).double(), torch.randn(1, 5, 6, dtype=torch.float64)
    assert_close(ours(x)[:, 3], ours(x[:, 3]), torch.float64)


def test_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="unknown activation 'mish'"):
        make_feed_forward("mish", 4, 8, bias=True)
