import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.attention import MultiHeadAttention, scaled_dot_product_attention
from course_lib.beyond import (
    feature_map,
    linear_attention,
    linear_attention_step,
    sliding_window_attention,
    state_space_convolution,
    state_space_scan,
)
from course_lib.masks import causal_mask, sliding_window_mask
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, randomise

B, H, D_K, D_V = 2, 3, 5, 4
FLOAT64 = torch.float64


def qkv(n, m=None, device="cpu", dtype=FLOAT64):
    m = n if m is None else m
    shapes = ((B, H, n, D_K), (B, H, m, D_K), (B, H, m, D_V))
    return [torch.randn(s, device=device, dtype=FLOAT64).to(dtype).requires_grad_() for s in shapes]


def assert_same_values_and_gradients(mine, plain, inputs, dtype):
    """``mine`` and ``plain`` are functions of the inputs; the truth is ``plain`` in float64."""
    exact = [x.detach().double().requires_grad_() for x in inputs]
    outputs = [mine(*inputs), plain(*inputs), plain(*exact)]
    weight = torch.randn(outputs[0].shape, device=outputs[0].device, dtype=dtype)
    results = [(y, *gradients(y, weight.to(y.dtype), x)) for y, x in zip(outputs, (inputs, inputs, exact))]
    for a, b, truth in zip(*results):
        if dtype in HALF:
            assert_as_good(a, b, truth)
        else:
            assert_close(a, truth.to(dtype), dtype)


class LargestTensor(TorchDispatchMode):
    """The number of elements of the largest storage that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.untyped_storage().nbytes() // x.element_size())
        return result


# sliding window


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, window", [(12, 4), (13, 4), (5, 1), (7, 3), (6, 6), (6, 100), (1, 2)])
def test_sliding_window_is_attention_with_its_mask(n, window, dtype, device):
    mask = sliding_window_mask(n, window, device=device)
    assert_same_values_and_gradients(
        lambda q, k, v: sliding_window_attention(q, k, v, window),
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask)[0],
        qkv(n, device=device, dtype=dtype),
        dtype,
    )


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_layers_of_windows_see_further(backend):
    """Each layer sees window − 1 tokens back, so two layers see twice as far: by gradients."""
    first, second = (randomise(MultiHeadAttention(8, 2, backend=backend)).double() for _ in range(2))
    mask = sliding_window_mask(9, 3)
    x = torch.randn(1, 9, 8, dtype=FLOAT64)
    for layers, window in (((first,), 3), ((first, second), 5)):

        def run(x, layers=layers):
            for layer in layers:
                x = layer(x, mask=mask)[0]
            return x

        jacobian = torch.autograd.functional.jacobian(run, x)
        assert torch.equal(jacobian.abs().amax(dim=(0, 2, 3, 5)) > 0, sliding_window_mask(9, window))


def test_sliding_window_never_makes_the_matrix():
    n, window = 512, 16
    with torch.no_grad(), LargestTensor() as meter:
        sliding_window_attention(*torch.randn(3, 1, 1, n, 4).unbind(), window)
    assert meter.elements <= 2 * n * window < n * n / 10
    with torch.no_grad(), LargestTensor() as meter:  # nor one that is larger
        sliding_window_attention(*torch.randn(3, 1, 1, 8, 4).unbind(), window=1000)
    assert meter.elements <= 8 * 16


def test_sliding_window_refuses():
    q, k, v = qkv(4)
    with pytest.raises(ValueError, match="at least 1"):
        sliding_window_attention(q, k, v, 0)
    with pytest.raises(ValueError, match="as many keys"):
        sliding_window_attention(q[:, :, :3], k, v, 2)


# linear attention


def quadratic(q, k, v, causal=False):
    """The formula with its N × M matrix: Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)."""
    scores = (torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).transpose(-2, -1)
    if causal:
        scores = scores * causal_mask(q.shape[-2], device=q.device)
    return scores @ v / scores.sum(-1, keepdim=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, m", [(6, 9), (9, 1), (1, 4)])
def test_linear_attention_is_its_formula(n, m, dtype, device):
    assert_same_values_and_gradients(linear_attention, quadratic, qkv(n, m, device, dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, block", [(12, 4), (13, 4), (7, 1), (3, 64), (1, 2)])
def test_causal_linear_attention_is_its_formula(n, block, dtype, device):
    assert_same_values_and_gradients(
        lambda q, k, v: linear_attention(q, k, v, is_causal=True, block=block),
        lambda q, k, v: quadratic(q, k, v, causal=True),
        qkv(n, device=device, dtype=dtype),
        dtype,
    )


def run_steps(q, k, v):
    state, outputs = None, []
    for t in range(q.shape[-2]):
        out, state = linear_attention_step(state, q[..., t, :], k[..., t, :], v[..., t, :])
        outputs.append(out)
    return torch.stack(outputs, dim=-2), state


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 16), st.floats(0.1, 5))
def test_parallel_equals_recurrent(n, block, size):
    q, k, v = (size * x.detach() for x in qkv(n))
    parallel = linear_attention(q, k, v, is_causal=True, block=block)
    recurrent, (S, z) = run_steps(q, k, v)
    torch.testing.assert_close(parallel, recurrent, atol=1e-10, rtol=0)
    torch.testing.assert_close(S, feature_map(k).transpose(-2, -1) @ v)
    torch.testing.assert_close(z, feature_map(k).sum(-2))
    torch.testing.assert_close(parallel[..., -1, :], linear_attention(q, k, v)[..., -1, :])  # the last sees all


def test_gradients_of_the_two_forms_agree():
    inputs = qkv(11)
    weight = torch.randn(B, H, 11, D_V, dtype=FLOAT64)
    parallel = gradients(linear_attention(*inputs, is_causal=True, block=4), weight, inputs)
    torch.testing.assert_close(parallel, gradients(run_steps(*inputs)[0], weight, inputs), atol=1e-10, rtol=0)


@pytest.mark.parametrize("dtype", HALF)
def test_steps_in_half_precision_keep_a_float32_state(dtype):
    """300 equal values: in bfloat16 the count would stop at 256."""
    q = k = torch.zeros(300, D_K, dtype=dtype)
    v = torch.full((300, D_V), 2.0, dtype=dtype)
    outputs, (S, z) = run_steps(q, k, v)
    assert outputs.dtype == dtype and (outputs == 2).all()
    assert S.dtype == z.dtype == torch.float32 and (z == 300).all() and (S == 600).all()


def test_a_step_does_not_write_into_the_state_it_is_given():
    q, k, v = (x.detach()[..., 0, :] for x in qkv(1))
    _, state = linear_attention_step(None, q, k, v)
    before = [s.clone() for s in state]
    linear_attention_step(state, q, k, v)
    assert all(torch.equal(a, b) for a, b in zip(state, before))


def test_causal_linear_attention_does_not_see_the_future():
    q, k, v = (x[:1, :1].detach() for x in qkv(9))
    for i, x in enumerate((q, k, v)):

        def run(y, i=i):
            return linear_attention(*(y if j == i else z for j, z in enumerate((q, k, v))), is_causal=True, block=4)

        seen = torch.autograd.functional.jacobian(run, x).abs().amax(dim=(0, 1, 3, 4, 5, 7)) > 0  # [9, 9]
        expected = torch.eye(9).bool() if i == 0 else causal_mask(9)
        assert not (seen & ~expected).any()
        assert torch.equal(seen[1:], expected[1:])  # token 0 sees itself alone: its output is v whatever q and k


def test_feature_map():
    x = torch.linspace(-5, 5, 41, dtype=FLOAT64, requires_grad=True)  # 0 is among them
    y, expected = feature_map(x), torch.nn.functional.elu(x) + 1
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(gradients(y, torch.ones(41), [x]), gradients(expected, torch.ones(41), [x]))
    assert feature_map(torch.tensor(-40.0)).item() == pytest.approx(4.248e-18, rel=1e-3, abs=0)  # elu(x) + 1 is 0 there


@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_never_makes_the_matrix(causal):
    n = 4096
    with torch.no_grad(), LargestTensor() as meter:
        linear_attention(*torch.randn(3, 1, 1, n, 4).unbind(), is_causal=causal)
    assert meter.elements <= n * 64 < n * n / 10


def test_causal_linear_attention_refuses_other_lengths():
    with pytest.raises(ValueError, match="as many keys"):
        linear_attention(*qkv(3, 4), is_causal=True)


# state space


def state_space(n, channels=3, states=4, dtype=FLOAT64, device="cpu"):
    x = torch.randn(B, n, channels, device=device, dtype=FLOAT64)
    a = 1.9 * torch.rand(channels, states, device=device, dtype=FLOAT64) - 0.95
    a[0, 0] = 0.0  # forgets at once
    a[1, 1] = -0.9  # swings
    a[2, 2] = 0.999  # hardly forgets
    b, c = torch.randn(2, channels, states, device=device, dtype=FLOAT64).unbind()
    return [y.to(dtype).requires_grad_() for y in (x, a, b, c)]


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_scan_is_the_sum_over_the_past(n, device):
    x, a, b, c = (y.detach() for y in state_space(n, device=device))
    y, state = state_space_scan(x, a, b, c)
    for t in range(n):
        h = sum(a**j * b * x[:, t - j, :, None] for j in range(t + 1))  # [B, D, S]
        torch.testing.assert_close(y[:, t], (c * h).sum(-1))
    torch.testing.assert_close(state, h)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_convolution_equals_recurrence(n, dtype, device):
    assert_same_values_and_gradients(
        state_space_convolution,
        lambda x, a, b, c: state_space_scan(x, a, b, c)[0],
        state_space(n, dtype=dtype, device=device),
        dtype,
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 60), st.integers(1, 59))
def test_scan_may_be_cut_anywhere(n, cut):
    cut = min(cut, n - 1)
    x, a, b, c = (y.detach() for y in state_space(n))
    whole, last = state_space_scan(x, a, b, c)
    first, state = state_space_scan(x[:, :cut], a, b, c)
    before = state.clone()
    second, end = state_space_scan(x[:, cut:], a, b, c, state)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole)
    torch.testing.assert_close(end, last)
    assert torch.equal(state, before)
    torch.testing.assert_close(state_space_convolution(x, a, b, c), whole, atol=1e-10, rtol=0)


def test_scan_gradcheck():
    inputs = state_space(4, channels=3, states=3)
    state = torch.randn(B, 3, 3, dtype=FLOAT64, requires_grad=True)
    assert torch.autograd.gradcheck(state_space_scan, (*inputs, state))
    assert torch.autograd.gradcheck(state_space_convolution, inputs)


def test_convolution_does_not_wrap_around():
    """The trap of the circular transform: a late impulse must not reach the beginning."""
    x, a, b, c = (y.detach() for y in state_space(16))
    x[:, :-1] = 0
    y = state_space_convolution(x, a, b, c)
    assert y[:, :-1].abs().max() < 1e-12 and y[:, -1].abs().max() > 0.1


def test_nothing_is_made_on_the_wrong_device():
    """A tensor made without device= lands on the default one: here "meta", on which nothing has a value."""
    q, k, v = (x.detach() for x in qkv(7))
    x, a, b, c = (y.detach() for y in state_space(7))
    with torch.device("meta"):
        results = [
            sliding_window_attention(q, k, v, 3),
            linear_attention(q, k, v),
            linear_attention(q, k, v, is_causal=True, block=4),
            run_steps(q, k, v)[0],
            state_space_scan(x, a, b, c)[0],
            state_space_convolution(x, a, b, c),
        ]
    assert all(y.device.type == "cpu" for y in results)
