import doctest
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import course_lib.flash
import course_lib.flash.tiled
from course_lib.flash.tiled import flash_backward, flash_forward, tiled_attention
from course_lib.masks import causal_mask, length_mask
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close
from course_lib.tests.flash.inputs import (
    MASKS,
    SHAPES,
    B,
    H,
    assert_exact,
    explicit,
    make_inputs,
    make_mask,
    plain,
    with_gradients,
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("h_kv", [1, 2, 4])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_is_explicit_attention(n, m, h_kv, causal, name, dtype, device):
    inputs, weight = make_inputs(n, m, h_kv, dtype, device)
    assert_exact(tiled_attention, inputs, weight, make_mask(name, m, device), causal, block_q=4, block_k=3)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 12), m=st.integers(1, 12), h_kv=st.sampled_from([1, 2, 4]), causal=st.booleans(),
    name=st.sampled_from(MASKS), block_q=st.integers(1, 20), block_k=st.integers(1, 15), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_blocks(n, m, h_kv, causal, name, block_q, block_k, seed):
    torch.manual_seed(seed)
    inputs, weight = make_inputs(n, m, h_kv, torch.float64, "cpu")
    mask = make_mask(name, m, "cpu") if m > 2 else None
    assert_exact(tiled_attention, inputs, weight, mask, causal, block_q=block_q, block_k=block_k)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "m"), [(300, 300), (129, 700)])
def test_default_blocks(n, m, causal, device):
    """Several tiles of the default size, and long rows."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        inputs, weight = make_inputs(n, m, 2, dtype, device)
        assert_exact(tiled_attention, inputs, weight, make_mask("padding", m, device), causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_gradcheck(name, causal):
    inputs, _ = make_inputs(4, 5, 2, torch.float64, "cpu", d_k=3, d_v=2)
    mask = make_mask(name, 5, "cpu")
    assert torch.autograd.gradcheck(
        lambda *x: tiled_attention(*x, mask, causal=causal, scale=0.7, block_q=3, block_k=2), inputs
    )


def test_gradients_of_single_inputs(device):
    """Frozen keys or values change nothing for the others."""
    inputs, weight = make_inputs(6, 7, 2, torch.float64, device)
    whole = with_gradients(tiled_attention, inputs, weight)[1:]
    for i in range(3):
        one = [x.detach() for x in inputs]
        one[i].requires_grad_()
        (tiled_attention(*one) * weight).sum().backward()
        assert torch.equal(one[i].grad, whole[i])


@pytest.mark.parametrize("dtype", DTYPES)
def test_lse_is_the_logarithm_of_the_sum(dtype, device):
    (q, k, v), _ = make_inputs(9, 6, 2, dtype, device)
    scores = q.double() @ k.double().repeat_interleave(2, 1).mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~causal_mask(9, 6, device), -math.inf)
    _, lse = flash_forward(q, k, v, causal=True, block_q=4, block_k=4)
    assert lse.shape == (B, H, 9) and lse.dtype == torch.promote_types(dtype, torch.float32)
    assert (lse[:, :, :3] == -math.inf).all()  # N − M queries see nothing
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shift", [-800, 800])
def test_scores_that_overflow_exp(shift, dtype, device):
    """All scores of a row near ±800: exp(800) is infinite, and exp(−800) is 0 for all keys alike."""
    q, k, v = (torch.randn(1, 2, 8, 4, device=device, dtype=dtype) for _ in range(3))
    q = torch.cat([q, torch.ones_like(q[..., :1])], -1)
    k = torch.cat([k, torch.full_like(k[..., :1], shift)], -1)
    truth = explicit(q.double(), k.double(), v.double(), scale=1.0)
    output = tiled_attention(q, k, v, scale=1.0, block_k=3)
    torch.testing.assert_close(output.double(), truth, atol=1e-9 if dtype == torch.float64 else 1e-3, rtol=0)


@pytest.mark.parametrize("where", [0, 3, 7])
def test_the_largest_key_comes_early_or_late(where, device):
    """The running maximum rises in the first, a middle or the last block; what was summed before must be rescaled."""
    q = torch.ones(1, 1, 2, 1, device=device, dtype=torch.float64)
    k = torch.arange(8.0, device=device, dtype=torch.float64).view(1, 1, 8, 1).clone()
    k[0, 0, where] = 30
    v = torch.randn(1, 1, 8, 3, device=device, dtype=torch.float64)
    assert_close(tiled_attention(q, k, v, block_k=2), explicit(q, k, v), torch.float64)


def test_hidden_keys_do_not_move_the_maximum(device):
    """Hidden scores a thousand above the visible ones would push all weights below the smallest number."""
    q, k, v = (torch.randn(1, 1, 6, 4, device=device) for _ in range(3))
    k[:, :, 4:] *= 1e4
    mask = length_mask(torch.tensor([4], device=device), 6)
    assert_close(tiled_attention(q, k, v, mask, block_k=2), explicit(q, k, v, mask), torch.float32)


@pytest.mark.parametrize("dtype", HALF)
def test_sums_of_half_precision_are_float32(dtype, device):
    """Summed in bfloat16 over 32 blocks the error is ten times SDPA's."""
    q, k, v = (torch.randn(1, 2, 512, 16, device=device).to(dtype) for _ in range(3))
    truth = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert_as_good(tiled_attention(q, k, v, block_k=16), plain(q, k, v), truth)
    assert_as_good(tiled_attention(q, k, v, block_k=16), F.scaled_dot_product_attention(q, k, v), truth)


def test_autocast_leaves_the_sums_alone(device):
    inputs, weight = make_inputs(6, 7, 2, torch.float32, device)
    expected = with_gradients(tiled_attention, inputs, weight)
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        actual = with_gradients(tiled_attention, inputs, weight)
    for mine, theirs in zip(actual, expected):
        assert torch.equal(mine, theirs)


def test_inputs_that_are_not_contiguous(device):
    inputs, weight = make_inputs(6, 7, 2, torch.float64, device)
    strided = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs]
    assert not strided[0].is_contiguous()
    for mine, theirs in zip(
        with_gradients(tiled_attention, strided, weight.expand_as(weight)),
        with_gradients(tiled_attention, inputs, weight),
    ):
        assert_close(mine, theirs, torch.float64)
    output = tiled_attention(*strided)
    (d_q,) = torch.autograd.grad(output.sum(), strided[0])  # the gradient of a sum has stride 0
    assert_close(d_q, torch.autograd.grad(explicit(*strided).sum(), strided[0])[0], torch.float64)


# memory and work


class Watch(TorchDispatchMode):
    """What every operation returns: the largest tensor, and how many products of matrices there are."""

    def __init__(self):
        super().__init__()
        self.largest, self.products = 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        self.products += function in (torch.ops.aten.bmm.default, torch.ops.aten.mm.default)
        return result


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_is_larger_than_the_inputs(causal):
    """Neither forward nor backward makes anything of size N × M: with N = 8 d that would be 8 times an input."""
    (q, k, v), weight = make_inputs(128, 128, H, torch.float32, "cpu", d_k=16, d_v=16)
    mask = make_mask("inside", 128, "cpu")[:, 0, 0]
    with Watch() as watch, torch.no_grad():
        out, lse = flash_forward(q, k, v, mask, causal, block_q=16, block_k=16)
        flash_backward(weight, q, k, v, out, lse, mask, causal, block_q=16, block_k=16)
    assert watch.largest <= q.numel()
    with Watch() as watch:
        explicit(q, k, v)
    assert watch.largest >= 8 * q.numel()


def test_only_output_and_lse_are_kept():
    inputs, _ = make_inputs(30, 40, 2, torch.float64, "cpu")
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        output = tiled_attention(*inputs)
    pointers = [x.data_ptr() for x in (*inputs, output)]
    others = [x for x in kept if x.data_ptr() not in pointers]
    assert [x.shape for x in others] == [(B, H, 30)]


def test_causal_attention_skips_the_hidden_tiles():
    q, k, v = (torch.randn(1, 1, 64, 4) for _ in range(3))
    with Watch() as whole:
        flash_forward(q, k, v, block_q=8, block_k=8)
    with Watch() as half:
        flash_forward(q, k, v, causal=True, block_q=8, block_k=8)
    assert (whole.products, half.products) == (2 * 8 * 8, 2 * 8 * 9 // 2)


# what cannot be done


def test_what_cannot_be_done_is_said():
    (q, k, v), _ = make_inputs(6, 7, 2, torch.float32, "cpu")
    for mask in (causal_mask(6, 7), torch.ones(B, H, 1, 7, dtype=torch.bool), torch.ones(B, 1, 6, 7, dtype=torch.bool)):
        with pytest.raises(ValueError, match="hides keys by padding"):
            tiled_attention(q, k, v, mask)
    with pytest.raises(ValueError, match=r"got a mask of shape \[2, 1, 1, 6\]"):
        tiled_attention(q, k, v, torch.ones(2, 1, 1, 6, dtype=torch.bool))
    with pytest.raises(TypeError, match="True = may attend"):
        tiled_attention(q, k, v, torch.zeros(2, 1, 1, 7))
    with pytest.raises(TypeError, match="one floating dtype"):
        tiled_attention(q, k.double(), v)
    for block in ({"block_q": 0}, {"block_k": -1}):
        with pytest.raises(ValueError, match="at least 1"):
            tiled_attention(q, k, v, **block)
    for wrong in ((q[0], k, v), (q, k[..., :3], v), (q, k, v[:, :, :3]), (q, k[:1], v[:1]), (q[:, :3], k, v)):
        with pytest.raises(ValueError, match="h_kv divides h; got"):
            tiled_attention(*wrong)


def test_second_derivatives_are_refused():
    (q, k, v), _ = make_inputs(3, 3, 4, torch.float64, "cpu")
    (d_q,) = torch.autograd.grad(tiled_attention(q, k, v).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        d_q.sum().backward()


@pytest.mark.parametrize("module", [course_lib.flash, course_lib.flash.tiled])
def test_docstring_examples(module):
    tests = doctest.DocTestFinder().find(module, globs={"torch": torch} | vars(module))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        runner.run(test)
    assert runner.summarize().failed == 0 < runner.summarize().attempted
