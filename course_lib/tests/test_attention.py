import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.attention import BACKENDS, MultiHeadAttention, scaled_dot_product_attention, softmax
from course_lib.masks import causal_mask, length_mask, padding_mask
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

B, H, N, M, D_K, D_V = 2, 3, 4, 6, 5, 7
ANY_MASK = ("explicit", "fused")  # the backends that take any mask; the others are tested in flash/


def masks(device):
    """Name to mask; in "row" query 1 may attend to nothing, in "sequence" a whole sequence is padding."""
    some = torch.rand(B, H, N, M, device=device) > 0.4
    some[..., 0] = True
    row = some[0, 0].clone()
    row[1] = False
    return {
        "none": None,
        "heads": some,
        "padding": length_mask(torch.tensor([4, 6], device=device)),
        "causal": causal_mask(N, M, device),
        "row": row,
        "sequence": length_mask(torch.tensor([0, 6], device=device)),
    }


MASKS = ("none", "heads", "padding", "causal", "row", "sequence")


def qkv(device, dtype=torch.float64, size=1.5):
    shapes = ((B, H, N, D_K), (B, H, M, D_K), (B, H, M, D_V))
    return [(size * torch.randn(s, device=device, dtype=torch.float64)).to(dtype).requires_grad_() for s in shapes]


def exact(inputs):
    return [x.detach().double().requires_grad_() for x in inputs]


# softmax


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_values_and_gradients(dtype, dim, device):
    scores = (20 * torch.randn(4, 5, 6, device=device)).to(dtype).requires_grad_()
    weight = torch.randn(4, 5, 6, device=device, dtype=dtype)
    ours, plain = softmax(scores, dim), torch.softmax(scores, dim)
    (reference,) = exact([scores])
    truth = torch.softmax(reference, dim)
    mine, theirs = gradients(ours, weight, scores)[0], gradients(plain, weight, scores)[0]
    truths = gradients(truth, weight.double(), reference)[0]
    if dtype in HALF:
        assert_as_good(ours, plain, truth)
        assert_as_good(mine, theirs, truths)
    else:
        assert_close(ours, truth.to(dtype), dtype)
        assert_close(mine, truths.to(dtype), dtype)


def test_softmax_gradcheck():
    scores = torch.randn(3, 4, dtype=torch.float64)
    scores[1, 2] = 0.0
    assert torch.autograd.gradcheck(softmax, scores.requires_grad_())


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_scores_that_overflow_exp(dtype, device):
    scores = torch.tensor([1e4, 1e4 - 8, -1e4, 0.0], device=device, dtype=dtype)
    assert_as_good(softmax(scores), torch.softmax(scores, -1), torch.softmax(scores.double(), -1))


def test_softmax_with_minus_infinity():
    scores = torch.tensor([[1.0, -math.inf, 3.0], [-math.inf] * 3], requires_grad=True)
    weights = softmax(scores)
    torch.testing.assert_close(weights[0], torch.softmax(scores[0], -1))
    assert weights[0, 1] == 0 and weights[1].tolist() == [0, 0, 0]
    (gradient,) = gradients(weights, torch.tensor([1.0, 2.0, 4.0]), scores)
    assert gradient.isfinite().all() and gradient[1].tolist() == [0, 0, 0]


def test_softmax_statistics_of_half_precision_are_float32(device):
    scores = torch.zeros(4096, device=device, dtype=torch.bfloat16)
    assert softmax(scores)[0].item() == 1 / 4096  # a bfloat16 sum of ones stops at 256
    assert softmax(scores).dtype == torch.bfloat16


def test_softmax_of_the_lecture():
    scores = torch.tensor([3.9, 3.2, 1, 0.3, 1.1])
    assert [round(w, 2) for w in softmax(scores).tolist()] == [0.61, 0.30, 0.03, 0.02, 0.04]
    assert [round(w, 2) for w in softmax(scores / math.sqrt(5)).tolist()] == [0.40, 0.29, 0.11, 0.08, 0.11]
    assert softmax(torch.tensor([8.2, 1.1, 0.3]))[0].item() == pytest.approx(0.998, abs=1e-3)


def test_softmax_refuses_integers():
    with pytest.raises(TypeError, match="floating-point"):
        softmax(torch.tensor([1, 2]))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8), st.floats(-100, 100))
def test_softmax_properties(scores, shift):
    s = torch.tensor(scores, dtype=torch.float64)
    weights = softmax(s)
    assert weights.sum().item() == pytest.approx(1)
    torch.testing.assert_close(softmax(s + shift), weights)
    assert (weights[s.argsort()].diff() >= 0).all()  # the order of the scores is kept


# scaled dot-product attention


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MASKS)
def test_agrees_with_sdpa(name, dtype, device):
    inputs, mask = qkv(device, dtype), masks(device)[name]
    weight = torch.randn(B, H, N, D_V, device=device, dtype=dtype)
    ours, weights = scaled_dot_product_attention(*inputs, mask)
    plain = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    reference = exact(inputs)
    truth = F.scaled_dot_product_attention(*reference, attn_mask=mask)
    truths = gradients(truth, weight.double(), reference)
    mine, theirs = gradients(ours, weight, inputs), gradients(plain, weight, inputs)
    if dtype in HALF:
        assert_as_good(ours, plain, truth)
        for a, b, c in zip(mine, theirs, truths):
            assert_as_good(a, b, c)
    else:
        for a, b in zip((ours, *mine), (truth, *truths)):
            assert_close(a, b.to(dtype), dtype)
    sees = torch.ones(B, H, N, M, dtype=torch.bool, device=device) if mask is None else mask.expand(B, H, N, M)
    assert weights.dtype == dtype and (weights[~sees] == 0).all()
    atol = 1e-2 if dtype in HALF else 1e-6
    torch.testing.assert_close(weights.sum(-1), sees.any(-1).to(dtype), atol=atol, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_without_keys_gives_zeros_and_finite_gradients(dtype, device):
    inputs = qkv(device, dtype)
    mask = torch.ones(N, M, dtype=torch.bool, device=device)
    mask[2] = False
    output, weights = scaled_dot_product_attention(*inputs, mask)
    assert (output[:, :, 2] == 0).all() and (weights[:, :, 2] == 0).all()
    assert (output[:, :, 1] != 0).all()
    by_q, by_k, by_v = torch.autograd.grad(output.sum() + weights.square().sum(), inputs)
    assert all(g.isfinite().all() for g in (by_q, by_k, by_v))
    assert (by_q[:, :, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_scores_up_to_ten_thousand(dtype, device):
    q, k, v = qkv(device, dtype)
    q = q / (q @ k.transpose(-2, -1)).abs().max() * 1e4 * math.sqrt(D_K)
    weights = scaled_dot_product_attention(q, k, v)[1]
    truth = torch.softmax(q.double() @ k.double().transpose(-2, -1) / math.sqrt(D_K), -1)
    assert weights.isfinite().all()
    # float32 scores of 1e4 are 1e-3 apart: that much and no more may be lost
    torch.testing.assert_close(weights.double(), truth, atol=1e-9 if dtype == torch.float64 else 4e-3, rtol=0)


def test_float16_scores_beyond_the_range_of_float16(device):
    q = torch.full((1, 64), 40.0, device=device, dtype=torch.float16)
    k = torch.stack([q[0], q[0] * 0.5])  # raw scores 102400 and 51200: the first overflows float16
    output, weights = scaled_dot_product_attention(q, k, torch.eye(2, device=device, dtype=torch.float16))
    assert weights.tolist() == [[1, 0]] and output.tolist() == [[1, 0]]


def test_temperature_scale_and_bias(device):
    q, k, v = qkv(device)
    bias = torch.randn(H, N, M, device=device, dtype=torch.float64)
    weights = scaled_dot_product_attention(q, k, v, temperature=2.5)[1]
    torch.testing.assert_close(weights, torch.softmax(q @ k.mT / (math.sqrt(D_K) * 2.5), -1))
    weights = scaled_dot_product_attention(q, k, v, None, 0.5, scale=0.3, score_bias=bias)[1]
    torch.testing.assert_close(weights, torch.softmax((q @ k.mT * 0.3 + bias) / 0.5, -1))


def test_two_and_three_dimensions():
    q, k, v = qkv("cpu")
    output, weights = scaled_dot_product_attention(q, k, v)
    for index in [(0,), (1, 2)]:
        one, w = scaled_dot_product_attention(q[index], k[index], v[index])
        torch.testing.assert_close(one, output[index])
        torch.testing.assert_close(w, weights[index])


def test_additive_mask_is_refused():
    with pytest.raises(TypeError, match="True = may attend"):
        scaled_dot_product_attention(*qkv("cpu"), mask=torch.zeros(N, M))


def test_scaling_comes_before_softmax_and_uses_d_k():
    """The trap: without √d_k one key takes all; √d_model or dividing the weights are as wrong."""
    torch.manual_seed(1)
    q, k = torch.randn(100, 512), torch.randn(10, 512)
    weights = scaled_dot_product_attention(q, k, k)[1]
    assert 0.2 < weights.amax(-1).median() < 0.4
    assert softmax(q @ k.T).amax(-1).median() > 0.99
    torch.testing.assert_close(weights.sum(-1), torch.ones(100))


def test_softmax_runs_over_the_keys():
    weights = scaled_dot_product_attention(*qkv("cpu"))[1]
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, N, dtype=torch.float64))
    assert not torch.allclose(weights.sum(-2), torch.full((B, H, M), N / M, dtype=torch.float64))


def test_finite_fill_would_average_the_padding():
    """The trap: −1e9 does not fit into float16, and a fully masked row then averages what it must not see."""
    q, k, v = qkv("cpu", torch.float16)
    mask = torch.zeros(N, M, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="overflow"):
        (q @ k.mT).masked_fill(~mask, -1e9)
    assert (scaled_dot_product_attention(q, k, v, mask)[0] == 0).all()


def test_dropout_keeps_the_mean_and_returns_whole_weights():
    q, k = torch.randn(50, 8), torch.randn(400, 8)
    plain, weights = scaled_dot_product_attention(q, k, torch.ones(400, 1))
    dropped, same = scaled_dot_product_attention(q, k, torch.ones(400, 1), dropout=0.5)
    torch.testing.assert_close(same, weights)
    assert dropped.std() > 0.01 and dropped.mean().item() == pytest.approx(plain.mean().item(), abs=0.1)


# multi-head attention


def make(backend="explicit", dtype=torch.float64, device="cpu", **options):
    options = {"d_model": 12, "n_heads": 4} | options
    torch.manual_seed(3)
    return randomise(MultiHeadAttention(backend=backend, **options)).to(device, dtype)


@pytest.mark.parametrize("backend", ANY_MASK)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_agrees_with_nn_multihead_attention(backend, bias, cross, device):
    theirs = nn.MultiheadAttention(12, 4, bias=bias, batch_first=True, dtype=torch.float64, device=device)
    ours = make(backend, device=device, bias=bias)
    copy_attention(ours, randomise(theirs))
    query = torch.randn(B, N, 12, device=device, dtype=torch.float64, requires_grad=True)
    key = torch.randn(B, M, 12, device=device, dtype=torch.float64, requires_grad=True) if cross else query
    value = torch.randn_like(key) if cross else query
    padding = length_mask(torch.tensor([3, key.shape[1]], device=device))
    visible = causal_mask(N, key.shape[1], device)
    # nn.MultiheadAttention says True = hide, twice
    expected, maps = theirs(
        query, key, value, key_padding_mask=~padding[:, 0, 0], attn_mask=~visible, average_attn_weights=False
    )
    args = (query, key, value) if cross else (query,)
    output, weights = ours(*args, mask=padding & visible, return_weights=backend == "explicit")
    assert_close(output, expected, torch.float64)
    if backend == "explicit":
        assert_close(weights, maps, torch.float64)
    weight = torch.randn_like(output)
    inputs = {query, key}
    for a, b in zip(gradients(output, weight, inputs), gradients(expected, weight, inputs)):
        assert_close(a, b, torch.float64)


def plain_attention(q, k, v, *, mask, causal, scale, score_bias, dropout):
    """The formula in the inputs' own precision, every step rounded: what half precision is measured against."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    visible = causal_mask(N, M, q.device) if causal else torch.ones(N, M, dtype=torch.bool, device=q.device)
    visible = visible if mask is None else visible & mask
    scores = q @ k.mT * scale + (0 if score_bias is None else score_bias)
    lowest = torch.finfo(q.dtype).min
    return torch.softmax(scores.masked_fill(~visible, lowest), -1).masked_fill(~visible, 0) @ v, None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_backends_agree(name, dtype, n_kv_heads, causal, biased, device, monkeypatch):
    mask = masks(device)[name]
    mask = mask if mask is None or mask.shape[-3:-2] != (H,) else mask[:, :1].expand(B, 4, N, M)
    query = torch.randn(B, N, 12, device=device, dtype=dtype, requires_grad=True)
    key = torch.randn(B, M, 12, device=device, dtype=dtype, requires_grad=True)
    score_bias = torch.randn(4, N, M, device=device, dtype=dtype) if biased else None
    weight = torch.randn(B, N, 12, device=device, dtype=dtype)
    monkeypatch.setitem(BACKENDS, "plain", plain_attention)
    results = {}
    for name, backend, to in (*((b, b, dtype) for b in (*ANY_MASK, "plain")), ("truth", "explicit", torch.float64)):
        module = make(backend, dtype, device, n_kv_heads=n_kv_heads).to(to)
        inputs = [x.detach().to(to).requires_grad_() for x in (query, key)]
        bias = None if score_bias is None else score_bias.to(to)
        output, _ = module(*inputs, mask=mask, causal=causal, score_bias=bias)
        results[name] = (output, *gradients(output, weight.to(to), inputs))
    for explicit, fused, plain, truth in zip(*(results[b] for b in ("explicit", "fused", "plain", "truth"))):
        if dtype in HALF:
            assert_as_good(explicit, plain, truth, typical)
            assert_as_good(fused, plain, truth, typical)
        else:
            assert_close(fused, explicit, dtype)


@pytest.mark.parametrize("backend", ANY_MASK)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sequence_of_padding_gives_the_output_bias_alone(backend, dtype, device):
    module = make(backend, dtype, device, bias=True)
    x = torch.randn(B, N, 12, device=device, dtype=dtype, requires_grad=True)
    output, _ = module(x, mask=padding_mask(torch.tensor([[0, 0, 0, 0], [1, 2, 3, 0]], device=device)))
    assert torch.equal(output[0], module.w_o.bias.expand(N, 12))
    assert output.isfinite().all() and (output[1] != output[0]).any()
    output.sum().backward()
    assert x.grad.isfinite().all() and (x.grad[0] == 0).all()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_grouped_heads_read_their_own_group(n_kv_heads):
    """Query head j reads key/value head j // group: repeat() in the place of repeat_interleave() gives j mod h_kv."""
    module = make(n_kv_heads=n_kv_heads)
    x = torch.randn(B, N, 12, dtype=torch.float64)
    _, weights = module(x, return_weights=True)
    q, k = module.w_q(x), module.w_k(x)
    for head in range(4):
        shared = head // (4 // n_kv_heads)
        scores = q[..., 3 * head : 3 * head + 3] @ k[..., 3 * shared : 3 * shared + 3].mT / math.sqrt(3)
        torch.testing.assert_close(weights[:, head], torch.softmax(scores, -1))


@pytest.mark.parametrize("backend", ANY_MASK)
def test_head_width_scale_and_score_bias(backend, device):
    """T5: heads wider than d_model / h, no scale, a bias on the scores."""
    module = make(backend, device=device, d_head=5, scale=1.0)
    x = torch.randn(B, N, 12, device=device, dtype=torch.float64)
    bias = torch.randn(1, 4, N, N, device=device, dtype=torch.float64)
    output, _ = module(x, score_bias=bias)
    heads = []
    for i in range(4):
        q, k, v = (w(x)[..., 5 * i : 5 * i + 5] for w in (module.w_q, module.w_k, module.w_v))
        heads.append(torch.softmax(q @ k.mT + bias[:, i], -1) @ v)
    torch.testing.assert_close(output, module.w_o(torch.cat(heads, -1)))


def test_permutation_equivariance():
    """Without positions attention does not know the order: permuted tokens give the same rows, permuted."""
    module, x, order = make(), torch.randn(B, M, 12, dtype=torch.float64), torch.randperm(M)
    torch.testing.assert_close(module(x[:, order])[0], module(x)[0][:, order])
    torch.testing.assert_close(module(x[:, :2], x[:, order])[0], module(x[:, :2], x)[0])  # keys are a set


@pytest.mark.parametrize("backend", ANY_MASK)
@pytest.mark.parametrize(("n", "m"), [(5, 5), (2, 5), (5, 2), (1, 4)])
def test_causality_by_gradients(backend, n, m, device):
    module = make(backend, device=device)
    query = torch.randn(1, n, 12, device=device, dtype=torch.float64)
    key = torch.randn(1, m, 12, device=device, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda key: module(query, key, causal=True)[0], key)
    depends = jacobian.abs().amax(dim=(0, 2, 3, 5)) > 0  # [N, M]
    assert torch.equal(depends, causal_mask(n, m, device))


@pytest.mark.parametrize("backend", ANY_MASK)
def test_no_dropout_in_evaluation(backend, device):
    module = make(backend, device=device, dropout=0.5)
    x = torch.randn(B, N, 12, device=device, dtype=torch.float64)
    plain = make(backend, device=device)(x)[0]
    torch.testing.assert_close(module.eval()(x)[0], plain)
    assert not torch.allclose(module.train()(x)[0], plain)


def test_padding_mask_hides_keys_not_queries():
    module = make()
    x = torch.randn(1, 4, 12, dtype=torch.float64)
    tokens = torch.tensor([[5, 6, 0, 0]])
    _, weights = module(x, mask=padding_mask(tokens), return_weights=True)
    assert (weights[..., 2:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 4, dtype=torch.float64))  # padded queries too


@pytest.mark.parametrize("backend", ANY_MASK)
def test_half_module_beyond_float16_scores(backend, device):
    module = make(backend, torch.float16, device, d_head=64, d_model=64, n_heads=2)
    with torch.no_grad():
        for linear in (module.w_q, module.w_k):
            linear.weight.copy_(torch.eye(64).repeat(2, 1) * 30)
    x = torch.randn(1, 5, 64, device=device).to(torch.float16)
    assert module(x)[0].isfinite().all()


def test_what_cannot_be_done_is_said():
    x = torch.randn(1, 3, 12, dtype=torch.float64)
    with pytest.raises(ValueError, match='"fused" never forms the weights'):
        make("fused")(x, return_weights=True)
    with pytest.raises(ValueError, match="unknown backend 'flash'"):
        MultiHeadAttention(12, 4, backend="flash")
    with pytest.raises(ValueError, match="not divisible by n_heads"):
        MultiHeadAttention(12, 5)
    with pytest.raises(ValueError, match="n_kv_heads"):
        MultiHeadAttention(12, 4, n_kv_heads=3)
    with pytest.raises(ValueError, match="without key"):
        make()(x, value=x)
    for backend in ANY_MASK:
        with pytest.raises(TypeError, match="True = may attend"):
            make(backend)(x, mask=torch.zeros(3, 3))
