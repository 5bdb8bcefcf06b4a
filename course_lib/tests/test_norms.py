import pytest
import torch
from torch import nn

from course_lib.norms import BatchNorm, DyT, LayerNorm, RMSNorm, make_norm
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, randomise

D = 6


def inputs(case, device):
    x = torch.randn(3, 5, D, device=device, dtype=torch.float64)
    return {"ordinary": x, "far": 3 * x + 50, "small": 3e-3 * x}[case]  # 3e-3: σ² near ε


PAIRS = {
    "layer": (LayerNorm, nn.LayerNorm, {}),
    "layer, large ε": (LayerNorm, nn.LayerNorm, {"eps": 0.1}),
    "rms": (RMSNorm, nn.RMSNorm, {"eps": 1e-6}),
    "rms, large ε": (RMSNorm, nn.RMSNorm, {"eps": 0.1}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["ordinary", "far", "small"])
@pytest.mark.parametrize("pair", PAIRS)
def test_agrees_with_pytorch(pair, case, dtype, device):
    Ours, Theirs, options = PAIRS[pair]
    theirs = randomise(Theirs(D, **options)).to(device, dtype)
    ours = Ours(D, **options).to(device, dtype)
    ours.load_state_dict(theirs.state_dict())
    exact = Theirs(D, **options).to(device, torch.float64)
    exact.load_state_dict(theirs.state_dict())
    x = inputs(case, device).to(dtype)
    weight = torch.randn(x.shape, device=device, dtype=dtype)
    results = []
    for module, to in ((ours, dtype), (theirs, dtype), (exact, torch.float64)):
        copy = x.to(to).requires_grad_()
        y = module(copy)
        results.append((y, *gradients(y, weight.to(to), [copy, *module.parameters()])))
    for mine, plain, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(mine, plain, truth)
        else:
            scale = truth.abs().max()
            accuracy = torch.float64 if dtype == torch.float64 else torch.float32
            far = 50 if case == "far" else 1  # a mean of 50 costs every float32 algorithm these digits
            assert_close((mine - truth) / scale / far, torch.zeros_like(truth), accuracy)


def test_eps_stands_inside_the_root():
    x = torch.tensor([[1e-3, -1e-3]], dtype=torch.float64)  # σ = 1e-3
    expected = 1e-3 / (1e-6 + 1e-5) ** 0.5
    assert LayerNorm(2).double()(x)[0, 0].item() == pytest.approx(expected)
    assert RMSNorm(2, eps=1e-5).double()(x)[0, 0].item() == pytest.approx(expected)


def test_variance_is_biased():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    assert LayerNorm(4, eps=0).double()(x)[3].item() == pytest.approx(1.5 / 1.25**0.5)  # unbiased: 13 % less


def test_variance_is_two_pass():
    """The trap: E[x²] − E[x]² of numbers near 10⁴ has no digit left in float32."""
    x = torch.randn(4, 64, dtype=torch.float64) + 1e4
    x = x.float()
    truth = nn.LayerNorm(64, dtype=torch.float64)(x.double())
    torch.testing.assert_close(LayerNorm(64)(x).double(), truth, atol=2e-3, rtol=0)
    one_pass = x.square().mean(-1) - x.mean(-1).square()
    assert (one_pass - 1).abs().max() > 0.5


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["layer", "rms"])
def test_squares_that_overflow_float16(name, dtype, device):
    x = torch.tensor([[300.0, -400.0, 500.0, 200.0]], device=device, dtype=dtype)
    norm = make_norm(name, 4, 1e-5).to(device, dtype)
    truth = make_norm(name, 4, 1e-5).to(device, torch.float64)(x.double())
    y = norm(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), truth, atol=0, rtol=float(torch.finfo(dtype).eps))


def test_constant_row_gives_beta():
    norm = randomise(LayerNorm(4))
    torch.testing.assert_close(norm(torch.full((2, 4), 7.0)), norm.bias.expand(2, 4))


@pytest.mark.parametrize("momentum", [0.1, 0.4])
def test_batch_norm_agrees_with_pytorch(momentum, device):
    theirs = randomise(nn.BatchNorm1d(D, eps=1e-3, momentum=momentum)).to(device, torch.float64)
    ours = BatchNorm(D, eps=1e-3, momentum=momentum).to(device, torch.float64)
    ours.load_state_dict({k: v for k, v in theirs.state_dict().items() if k != "num_batches_tracked"})
    for training in (True, True, False):
        ours.train(training), theirs.train(training)
        x = (3 * torch.randn(4, 5, D, device=device, dtype=torch.float64) + 20).requires_grad_()
        mine, expected = ours(x), theirs(x.flatten(0, 1)).unflatten(0, (4, 5))
        assert_close(mine, expected, torch.float64)
        weight = torch.randn_like(mine)
        for a, b in zip(
            gradients(mine, weight, [x, ours.weight, ours.bias]),
            gradients(expected, weight, [x, theirs.weight, theirs.bias]),
        ):
            assert_close(a, b, torch.float64)
        assert_close(ours.running_mean, theirs.running_mean, torch.float64)
        assert_close(ours.running_var, theirs.running_var, torch.float64)


def test_batch_norm_of_one_row_is_refused():
    with pytest.raises(ValueError, match="two rows"):
        BatchNorm(3)(torch.randn(1, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dyt_is_its_formula(dtype, device):
    norm = DyT(D).to(device, dtype)
    assert norm.alpha.item() == 0.5
    randomise(norm)
    x = (4 * torch.randn(3, 5, D, device=device)).to(dtype)
    plain = norm.weight * torch.tanh(norm.alpha * x) + norm.bias
    truth = norm.weight.double() * torch.tanh(norm.alpha.double() * x.double()) + norm.bias.double()
    assert_as_good(norm(x), plain, truth)


def test_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="unknown norm 'group'"):
        make_norm("group", 4, 1e-5)


def test_names_and_eps():
    kinds = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm, "dyt": DyT}
    for name, kind in kinds.items():
        norm = make_norm(name, 4, 0.25)
        assert type(norm) is kind
        assert name == "dyt" or norm.eps == 0.25
