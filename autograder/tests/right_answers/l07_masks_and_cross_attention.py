"""Lesson 07: right answers by triangles, comparisons, loops, exponentials, backward passes, differences."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.tests.right_answers.l04_multi_head import ByEinsum, HeadsInALoop


def causal_by_tril(n_queries, n_keys=None, device=None):
    n_keys = n_keys or n_queries
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


def causal_by_not_triu(n_queries, n_keys=None, device=None):
    if n_keys is None:
        n_keys = n_queries
    future = torch.triu(torch.ones((n_queries, n_keys), device=device), diagonal=1 + n_keys - n_queries)
    return ~future.bool()


def causal_by_loop(n_queries, n_keys=None, device=None):
    M = n_queries if n_keys is None else n_keys
    return torch.tensor([[j <= i + M - n_queries for j in range(M)] for i in range(n_queries)], device=device)


def padding_by_reshape(tokens, pad_id=0):
    B, M = tokens.shape
    return tokens.ne(pad_id).reshape(B, 1, 1, M)


def padding_by_unsqueeze(tokens, pad_id=0):
    return ~torch.eq(tokens, pad_id).unsqueeze(1).unsqueeze(2)


def softmax_in_float32(scores, mask):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32)).masked_fill(~mask, -math.inf)
    wide = torch.where(mask.any(-1, keepdim=True), wide, 0.0)
    return torch.where(mask, wide.softmax(-1), 0.0).to(scores.dtype)


def softmax_by_exponentials(scores, mask):
    """Only visible scores are looked at: for the maximum, the exponentials and the sum."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    top = torch.where(mask, wide, -torch.inf).amax(-1, keepdim=True).detach()
    top = torch.where(top.isinf(), 0.0, top)
    e = torch.where(mask, torch.where(mask, wide - top, 0.0).exp(), 0.0)
    total = e.sum(-1, keepdim=True)
    return (e / torch.where(total > 0, total, 1.0)).type_as(scores)


def softmax_by_lowest(scores, mask):
    """The dtype's lowest number hides, and what an empty row makes of it is taken away."""
    lowest = torch.finfo(scores.dtype).min
    return F.softmax(torch.where(mask, scores, lowest), dim=-1).masked_fill(mask.logical_not(), 0)


def softmax_with_nan_repaired(scores, mask):
    """masked_fill lets no gradient through to what it hides, so the NaN of an empty row ends there."""
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1).nan_to_num(0.0)


def attention_in_float32(q, k, v, key_mask=None, is_causal=False):
    wide = torch.promote_types(q.dtype, torch.float32)
    N, M = q.shape[-2], k.shape[-2]
    visible = causal_by_loop(N, M) if is_causal else torch.ones(N, M, dtype=torch.bool)
    if key_mask is not None:
        visible = torch.logical_and(visible, key_mask.view(-1, 1, 1, M))
    weights = softmax_in_float32(q.to(wide) @ k.to(wide).mT / q.shape[-1] ** 0.5, visible)
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


def attention_by_exponentials(q, k, v, key_mask=None, is_causal=False):
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.einsum("bhnd,bhmd->bhnm", q.to(wide), k.to(wide)) / math.sqrt(k.size(-1))
    mask = torch.ones_like(scores, dtype=torch.bool)
    if key_mask is not None:
        mask = mask & key_mask[:, None, None]
    if is_causal:
        mask = mask & causal_by_tril(q.size(-2), k.size(-2))
    weights = softmax_by_exponentials(scores, mask)
    return torch.einsum("bhnm,bhmv->bhnv", weights, v.to(wide)).to(q.dtype), weights.to(q.dtype)


def attention_hiding_twice(q, k, v, key_mask=None, is_causal=False):
    scores = torch.matmul(q / math.sqrt(q.shape[-1]), k.transpose(-2, -1))
    if key_mask is not None:
        scores = scores.masked_fill(~key_mask[:, None, None, :], -torch.inf)
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + k.shape[-2] - q.shape[-2])
        scores = scores.masked_fill(future, -torch.inf)
    weights = F.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights @ v, weights


def leak_by_jacobian(model, x):
    J = torch.func.jacrev(model)(x)
    N = len(x)
    sizes = J.detach().abs().permute(0, 2, 1, 3).reshape(N, N, -1).max(dim=-1).values
    return torch.triu(sizes > 1e-8, 1)


def leak_by_backward(model, x):
    N = x.shape[0]
    leaks = torch.zeros(N, N, dtype=torch.bool)
    for i in range(N):
        for c in range(model(x).shape[1]):
            y = x.clone().requires_grad_()
            model(y)[i, c].backward()
            leaks[i, i + 1 :] |= (y.grad.abs() > 1e-8).any(dim=1)[i + 1 :]
    return leaks


def leak_by_grad(model, x):
    y = x.detach().clone().requires_grad_(True)
    out = model(y)
    rows = []
    for row in out:
        grads = [torch.autograd.grad(number, y, retain_graph=True)[0].abs() for number in row]
        rows.append(torch.stack(grads).amax(dim=(0, 2)) > 1e-8)
    j, i = torch.arange(len(x)), torch.arange(len(x))[:, None]
    return torch.stack(rows) & (j > i)


def leak_by_differences(model, x):
    """Each number of the input moved to both sides."""
    N, h = x.shape[0], 1e-5
    leaks = torch.zeros(N, N, dtype=torch.bool)
    for j in range(N):
        for c in range(x.shape[1]):
            step = torch.zeros_like(x)
            step[j, c] = h
            slope = (model(x + step) - model(x - step)) / (2 * h)
            leaks[:j, j] |= (slope[:j].abs() > 1e-8).any(dim=-1)
    return leaks


def cross_in_float32(x, memory, w_q, w_k, w_v, key_mask=None):
    wide = torch.promote_types(x.dtype, torch.float32)
    Q, K, V = x.to(wide) @ w_q.to(wide), memory.to(wide) @ w_k.to(wide), memory.to(wide) @ w_v.to(wide)
    scores = Q @ K.transpose(1, 2) / math.sqrt(Q.shape[2])
    mask = torch.ones(1, 1, 1, dtype=torch.bool) if key_mask is None else key_mask.unsqueeze(-2)
    weights = softmax_by_exponentials(scores, mask)
    return (weights @ V).to(x.dtype), weights.to(x.dtype)


def cross_by_einsum(x, memory, w_q, w_k, w_v, key_mask=None):
    """Scores are x (w_q w_kᵀ) memoryᵀ, and the values are projected after the mixing."""
    dtype = x.dtype
    x, memory, w_q, w_k, w_v = (t.to(torch.promote_types(dtype, torch.float32)) for t in (x, memory, w_q, w_k, w_v))
    scores = torch.einsum("bnd,dk,ek,bme->bnm", x, w_q, w_k, memory) * w_q.size(-1) ** -0.5
    mask = torch.ones(scores.shape, dtype=torch.bool) if key_mask is None else key_mask[:, None].expand_as(scores)
    weights = softmax_with_nan_repaired(scores, mask)
    return (weights @ memory @ w_v).to(dtype), weights.to(dtype)


def cross_by_query(x, memory, w_q, w_k, w_v, key_mask=None):
    K, V = memory @ w_k, memory @ w_v
    rows = []
    for n in range(x.shape[1]):
        scores = (K @ (x[:, n] @ w_q).unsqueeze(-1)).squeeze(-1) / math.sqrt(K.shape[-1])
        mask = torch.ones_like(scores, dtype=torch.bool) if key_mask is None else key_mask
        rows.append(softmax_in_float32(scores, mask))
    weights = torch.stack(rows, dim=1)
    return weights @ V, weights


class InThreeLines(nn.Module):
    """Lesson 04's attention by einsum inside."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attention = ByEinsum(d_model, n_heads)
        self.cross_attention = ByEinsum(d_model, n_heads)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        read, _ = self.self_attention(x, x, x, target_mask)
        x = self.norm1(read + x)
        read, _ = self.cross_attention(x, memory, memory, memory_mask)
        x = self.norm2(read + x)
        return self.norm3(self.linear2(self.linear1(x).clamp(min=0)) + x)


class ByFormulas(nn.Module):
    """Norms and feed-forward written out; the attentions keep nothing but their matrices."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        for name in ("self_attention", "cross_attention"):
            self.add_module(name, HeadsInALoop(d_model, n_heads))
        for i in (1, 2, 3):
            self.add_module(f"norm{i}", nn.LayerNorm(d_model))
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def add_and_norm(self, x, y, norm):
        z = x + y
        centred = z - z.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * norm.weight + norm.bias

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_and_norm(x, self.self_attention(query=x, key=x, value=x, mask=target_mask)[0], self.norm1)
        x = self.add_and_norm(x, self.cross_attention(x, memory, memory, mask=memory_mask)[0], self.norm2)
        hidden = torch.maximum(F.linear(x, self.linear1.weight, self.linear1.bias), x.new_zeros(()))
        return self.add_and_norm(x, hidden @ self.linear2.weight.T + self.linear2.bias, self.norm3)


RIGHT = {
    "causal_mask": [causal_by_tril, causal_by_not_triu, causal_by_loop],
    "padding_mask": [padding_by_reshape, padding_by_unsqueeze],
    "masked_softmax": [
        softmax_in_float32, softmax_by_exponentials, softmax_by_lowest, softmax_with_nan_repaired,
    ],
    "masked_attention": [attention_in_float32, attention_by_exponentials, attention_hiding_twice],
    "find_the_leak": [leak_by_jacobian, leak_by_backward, leak_by_grad, leak_by_differences],
    "cross_attention": [cross_in_float32, cross_by_einsum, cross_by_query],
    "decoder_layer": [InThreeLines, ByFormulas],
    "07_q1": ["b", " B"],
    "07_q2": ["c", "（C）"],
}  # fmt: skip
