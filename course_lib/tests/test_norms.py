import pytest
import torch
from torch import nn

from course_lib.norms import (
    BatchNorm,
    DyT,
    LayerNorm,
    RMSNorm,
    batch_norm,
    dynamic_tanh,
    layer_norm,
    make_norm,
    rms_norm,
)
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, largest, randomise

D = 6


def inputs(case, device):
    x = torch.randn(3, 5, D, device=device, dtype=torch.float64)
    return {"ordinary": x, "far": 3 * x + 50, "small": 3e-3 * x}[case]  # 3e-3: σ² near ε


# Our formula, PyTorch's module, its options.
PAIRS = {
    "layer": (layer_norm, nn.LayerNorm, {}),
    "layer, large ε": (layer_norm, nn.LayerNorm, {"eps": 0.1}),
    "rms": (rms_norm, nn.RMSNorm, {"eps": 1e-6}),
    "rms, large ε": (rms_norm, nn.RMSNorm, {"eps": 0.1}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["ordinary", "far", "small"])
@pytest.mark.parametrize("pair", PAIRS)
def test_formula_agrees_with_pytorch(pair, case, dtype, device):
    formula, Theirs, options = PAIRS[pair]
    theirs = randomise(Theirs(D, **options)).to(device, dtype)
    exact = Theirs(D, **options).to(device, torch.float64)
    exact.load_state_dict(theirs.state_dict())
    x = inputs(case, device).to(dtype)
    weight = torch.randn(x.shape, device=device, dtype=dtype)
    results = []
    for module, to in ((None, dtype), (theirs, dtype), (exact, torch.float64)):
        copy = x.to(to).requires_grad_()
        parameters = list((module or theirs).parameters())
        y = formula(copy, *parameters, **options) if module is None else module(copy)
        results.append((y, *gradients(y, weight.to(to), [copy, *parameters])))
    for mine, plain, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(mine, plain, truth)
        else:
            scale = truth.abs().max()
            accuracy = torch.float64 if dtype == torch.float64 else torch.float32
            far = 50 if case == "far" else 1  # a mean of 50 costs every float32 algorithm these digits
            assert_close((mine - truth) / scale / far, torch.zeros_like(truth), accuracy)


# The modules run PyTorch's kernels; here is what that rests on. Mean and standard deviation of the inputs:
TRAPS = {
    "ordinary": (0, 1),
    "far": (50, 3),
    "very far": (1e4, 1),  # E[x²] − E[x]² has no digit left in float32
    "small": (0, 3e-3),  # σ² near ε
    "tiny": (0, 1e-5),  # σ near ε
    "constant": (7, 0),
    "large": (0, 400),  # squares overflow float16
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("d", [4, 7, 512])
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_kernels_agree_with_the_formula(kind, d, trap, dtype, device):
    formula = layer_norm if kind is LayerNorm else rms_norm
    mean, deviation = TRAPS[trap]
    module = randomise(kind(d, eps=1e-5)).to(device, dtype)
    if mean and deviation:
        deviation = max(deviation, 4 * torch.finfo(dtype).eps * mean)  # else half precision has nothing but the mean
    x = (mean + deviation * torch.randn(6, d, device=device, dtype=torch.float64)).to(dtype)
    weight = torch.randn(6, d, device=device, dtype=dtype)
    results = []
    for to in (None, dtype, torch.float64):
        copy = x.to(to or dtype).requires_grad_()
        parameters = [p.detach().to(copy.dtype).requires_grad_() for p in module.parameters()]
        if to is None:
            parameters = list(module.parameters())
            y = module(copy)
        else:
            y = formula(copy, *parameters, eps=1e-5)
        results.append((y, *gradients(y, weight.to(y.dtype), [copy, *parameters])))

    # What the rounding of the mean, or of the root, may move: n = (x − μ)/√(σ² + ε) by `off`, and the rest through n.
    exact, gamma = x.double(), module.weight.double()
    mean = exact.mean(-1) if kind is LayerNorm else torch.zeros_like(exact[:, 0])
    root = ((exact - mean[:, None]).square().mean(-1) + 1e-5).sqrt()
    off = 2 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps * (1 + (mean.abs() / root).max())
    moved = (gamma.abs().max(), (weight * gamma).abs().max() / root.min(), weight.double().abs().sum(0).max(), 0)
    for kernel, plain, truth, by in zip(*results, moved):
        error, plain_error = (largest(y.double() - truth) for y in (kernel, plain))
        assert kernel.dtype == dtype
        assert error <= max(2 * plain_error, 2 * torch.finfo(dtype).eps * largest(truth)) + off * by


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_half_precision_beside_float32_weights(kind, dtype, device):
    """Mixed precision without autocast."""
    module = randomise(kind(D)).to(device)
    x = 300 * torch.randn(3, D, device=device).to(dtype)
    truth = kind(D).to(device, torch.float64)
    truth.load_state_dict(module.state_dict())
    y = module(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), truth(x.double()), atol=0, rtol=float(torch.finfo(dtype).eps))


def test_eps_stands_inside_the_root():
    x = torch.tensor([[1e-3, -1e-3]], dtype=torch.float64)  # σ = 1e-3
    expected = 1e-3 / (1e-6 + 1e-5) ** 0.5
    one, zero = torch.ones(2), torch.zeros(2)
    for y in (LayerNorm(2).double()(x), layer_norm(x, one, zero), RMSNorm(2, 1e-5).double()(x), rms_norm(x, one, 1e-5)):
        assert y[0, 0].item() == pytest.approx(expected)


def test_variance_is_biased():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    for y in (LayerNorm(4, eps=0).double()(x), layer_norm(x, torch.ones(4), torch.zeros(4), eps=0)):
        assert y[3].item() == pytest.approx(1.5 / 1.25**0.5)  # unbiased: 13 % less


def test_variance_is_two_pass():
    """The trap: E[x²] − E[x]² of numbers near 10⁴ has no digit left in float32."""
    x = torch.randn(4, 64, dtype=torch.float64) + 1e4
    x = x.float()
    truth = nn.LayerNorm(64, dtype=torch.float64)(x.double())
    for y in (LayerNorm(64)(x), layer_norm(x, torch.ones(64), torch.zeros(64))):
        torch.testing.assert_close(y.double(), truth, atol=2e-3, rtol=0)
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
    norm, row = randomise(LayerNorm(4)), torch.full((2, 4), 7.0)
    for y in (norm(row), layer_norm(row, norm.weight, norm.bias)):
        torch.testing.assert_close(y, norm.bias.expand(2, 4))


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


def test_batch_norm_does_not_change_what_it_is_given():
    """The function returns the new averages; the module writes them into its own buffers, which others may hold."""
    mean, variance = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    x = torch.tensor([[5.0, 6.0], [7.0, 10.0]], requires_grad=True)
    _, new_mean, new_variance = batch_norm(x, torch.ones(2), torch.zeros(2), mean, variance, momentum=0.5)
    assert mean.tolist() == [1, 2] and variance.tolist() == [3, 4]
    assert new_mean.tolist() == [3.5, 5] and new_variance.tolist() == [2.5, 6]  # unbiased variances 2 and 8
    assert not new_mean.requires_grad and not new_variance.requires_grad
    module = BatchNorm(2, momentum=0.5)
    held = module.running_mean
    module(x)
    assert held is module.running_mean and held.tolist() == [3, 4]
    module.eval()(x)
    assert held.tolist() == [3, 4]


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
    assert torch.equal(norm(x), dynamic_tanh(x, norm.alpha, norm.weight, norm.bias))


def test_dyt_gradients():
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    alpha = torch.tensor(-0.7, dtype=torch.float64, requires_grad=True)
    gamma, beta = torch.randn(2, 2, dtype=torch.float64).unbind()
    assert torch.autograd.gradcheck(dynamic_tanh, (x, alpha, gamma.requires_grad_(), beta.requires_grad_()))


def test_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="unknown norm 'group'"):
        make_norm("group", 4, 1e-5)


def test_names_and_eps():
    kinds = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm, "dyt": DyT}
    for name, kind in kinds.items():
        norm = make_norm(name, 4, 0.25)
        assert type(norm) is kind
        assert name == "dyt" or norm.eps == 0.25
