"""All backends of ``MultiHeadAttention`` agree where all can do what is asked: causality and key padding."""

import pytest
import torch

from course_lib.attention import BACKENDS, MultiHeadAttention
from course_lib.masks import causal_mask
from course_lib.tests.compare import DTYPES, HALF, assert_as_good, assert_close, gradients, randomise, typical
from course_lib.tests.flash.inputs import MASKS, B, make_mask, plain

pytest.importorskip("triton", reason="Triton is not installed (there are wheels for Linux only)")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # where the Triton kernels run, compiled or interpreted
FLASH = ("tiled", "triton")


def make(backend, dtype=torch.float64, **options):
    torch.manual_seed(3)
    options = {"d_model": 12, "n_heads": 4} | options
    return randomise(MultiHeadAttention(backend=backend, **options)).to(DEVICE, dtype)


def in_own_precision(q, k, v, *, mask, causal, **_):
    return plain(q, k, v, mask, causal), None


# Triton's interpreter is slow: all combinations in float64, the other dtypes on the hardest of them.
SHAPES = [(5, 5, 4), (4, 6, 2), (6, 4, 1)]  # N, M, key/value heads
CASES = [(torch.float64, shape, name, causal) for shape in SHAPES for name in MASKS for causal in (False, True)]
CASES += [(dtype, SHAPES[1], name, True) for dtype in DTYPES[1:] for name in ("padding", "sequence")]


@pytest.mark.parametrize(("dtype", "shape", "name", "causal"), CASES)
def test_backends_agree(dtype, shape, name, causal, monkeypatch):
    """Outputs, and gradients of inputs and weights."""
    n, m, n_kv_heads = shape
    monkeypatch.setitem(BACKENDS, "plain", in_own_precision)
    query = torch.randn(B, n, 12, device=DEVICE, dtype=dtype)
    key = torch.randn(B, m, 12, device=DEVICE, dtype=dtype)
    weight = torch.randn(B, n, 12, device=DEVICE, dtype=dtype)
    mask = make_mask(name, m, DEVICE)
    results = {}
    for label, backend, to in (*((b, b, dtype) for b in BACKENDS), ("truth", "explicit", torch.float64)):
        module = make(backend, dtype, n_kv_heads=n_kv_heads, bias=True).to(to)
        inputs = [x.detach().to(to).requires_grad_() for x in (query, key)]
        output, weights = module(*inputs, mask=mask, causal=causal)
        assert weights is None
        changed = [*inputs, module.w_q.weight, module.w_k.weight, module.w_v.bias, module.w_o.weight]
        results[label] = (output, *gradients(output, weight.to(to), changed))
    for backend in ("explicit", "fused", *FLASH):
        for mine, theirs, truth in zip(results[backend], results["plain"], results["truth"]):
            if dtype in HALF:
                assert_as_good(mine, theirs, truth, typical)
            else:
                assert_close(mine, truth.to(dtype), dtype)


@pytest.mark.parametrize("backend", FLASH)
def test_sequence_of_padding_gives_the_output_bias_alone(backend):
    module = make(backend, bias=True)
    x = torch.randn(B, 4, 12, device=DEVICE, dtype=torch.float64, requires_grad=True)
    output, _ = module(x, mask=make_mask("sequence", 4, DEVICE))
    assert torch.equal(output[0], module.w_o.bias.expand(4, 12)) and (output[1] != output[0]).any()
    output.sum().backward()
    assert (x.grad[0] == 0).all() and (x.grad[1] != 0).any()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("backend", FLASH)
@pytest.mark.parametrize(("n", "m"), [(5, 5), (2, 5), (5, 2), (1, 4)])
def test_causality_by_gradients(backend, n, m):
    module = make(backend)
    query = torch.randn(1, n, 12, device=DEVICE, dtype=torch.float64)
    key = torch.randn(1, m, 12, device=DEVICE, dtype=torch.float64, requires_grad=True)
    output, _ = module(query, key, causal=True)
    weight = torch.randn(12, device=DEVICE, dtype=torch.float64)
    rows = [torch.autograd.grad((output[0, i] * weight).sum(), key, retain_graph=True)[0] for i in range(n)]
    depends = torch.stack([row[0].abs().amax(-1) > 0 for row in rows])  # [N, M]
    assert torch.equal(depends, causal_mask(n, m, DEVICE))


@pytest.mark.parametrize("backend", FLASH)
def test_float16_scores_beyond_the_range_of_float16(backend):
    module = make(backend, torch.float16, d_model=64, n_heads=2, d_head=64)
    with torch.no_grad():
        for linear in (module.w_q, module.w_k):
            linear.weight.copy_(torch.eye(64).repeat(2, 1) * 30)
    assert module(torch.randn(1, 5, 64, device=DEVICE).to(torch.float16))[0].isfinite().all()


@pytest.mark.parametrize("backend", FLASH)
def test_what_cannot_be_done_is_said(backend):
    module = make(backend, dropout=0.1)
    x = torch.randn(B, 3, 12, device=DEVICE, dtype=torch.float64)
    with pytest.raises(ValueError, match=f'"{backend}" cannot do dropout of the weights; use backend="explicit"'):
        module(x)
    module.eval()
    assert module(x)[0].shape == x.shape
    with pytest.raises(ValueError, match=f'"{backend}" cannot do a score bias'):
        module(x, score_bias=torch.zeros(4, 3, 3, device=DEVICE))
    with pytest.raises(ValueError, match=f'"{backend}" never forms the weights'):
        module(x, return_weights=True)
    with pytest.raises(ValueError, match="or by causal=True"):
        module(x, mask=causal_mask(3, device=DEVICE))
