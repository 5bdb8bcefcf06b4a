"""What the tests of tiled and Triton attention share: inputs, what must come out, and how it is compared."""

import math

import torch

from course_lib.attention import explicit_attention
from course_lib.masks import causal_mask, length_mask
from course_lib.tests.compare import HALF, assert_as_good, assert_close, gradients, typical

B, H, D_K, D_V = 2, 4, 5, 7
SHAPES = [(9, 9), (6, 13), (13, 6), (1, 8)]  # N, M
MASKS = ("none", "padding", "inside", "sequence")


def make_mask(name, m, device):
    """In "inside" the hidden keys stand between others; in "sequence" a whole sequence is padding."""
    if name == "none":
        return None
    if name == "inside":
        mask = torch.rand(B, 1, 1, m, device=device) > 0.4
        mask[..., -1] = True
        return mask
    return length_mask(torch.tensor([m - 2 if name == "padding" else 0, m], device=device), m)


def make_inputs(n, m, h_kv, dtype, device, size=1.5, d_k=D_K, d_v=D_V):
    """q, k, v and a gradient for the output."""
    shapes = ((B, H, n, d_k), (B, h_kv, m, d_k), (B, h_kv, m, d_v), (B, H, n, d_v))
    q, k, v, weight = ((size * torch.randn(s, device=device, dtype=torch.float64)).to(dtype) for s in shapes)
    return [q.requires_grad_(), k.requires_grad_(), v.requires_grad_()], weight


def explicit(q, k, v, mask=None, causal=False, scale=None):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return explicit_attention(q, k, v, mask=mask, causal=causal, scale=scale, score_bias=None, dropout=0.0)[0]


def plain(q, k, v, mask=None, causal=False):
    """The formula in the inputs' own precision, every step rounded: what half precision is measured against."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    n, m = q.shape[2], k.shape[2]
    visible = causal_mask(n, m, q.device) if causal else torch.ones(n, m, dtype=torch.bool, device=q.device)
    visible = visible if mask is None else visible & mask
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~visible, torch.finfo(q.dtype).min)
    return torch.softmax(scores, -1).masked_fill(~visible, 0) @ v


def with_gradients(attend, inputs, weight, *args, **options):
    output = attend(*inputs, *args, **options)
    return output, *gradients(output, weight, inputs)


def assert_exact(attend, inputs, weight, mask, causal, **options):
    """Values and gradients of ``attend`` are explicit attention's in float64; half precision by the 2× rule."""
    dtype = weight.dtype
    actual = with_gradients(attend, inputs, weight, mask, causal=causal, **options)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    truth = with_gradients(explicit, exact, weight.double(), mask, causal)
    if dtype in HALF:
        for mine, theirs, true in zip(actual, with_gradients(plain, inputs, weight, mask, causal), truth):
            assert_as_good(mine, theirs, true, typical)
    else:
        for mine, true in zip(actual, truth):
            assert_close(mine, true.to(dtype), dtype)
    n, m = inputs[0].shape[2], inputs[1].shape[2]
    visible = causal_mask(n, m, weight.device) if causal else torch.ones(n, m, dtype=torch.bool, device=weight.device)
    sees = (visible if mask is None else visible & mask).any(-1).expand(B, H, n)
    output, d_q = actual[:2]
    assert (output[~sees] == 0).all() and (d_q[~sees] == 0).all() and (output[sees] != 0).any(-1).all()
    assert all(x.isfinite().all() for x in actual)
