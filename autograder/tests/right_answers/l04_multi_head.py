"""Lesson 04: right answers by permute, einsum, slices, loops over heads, views with a copy, and grouped axes."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


def split_by_permute(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3)


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def split_by_transposing_first(x, n_heads):
    B, N, d_model = x.size()
    return x.transpose(1, 2).reshape(B, n_heads, d_model // n_heads, N).mT


def split_by_slices(x, n_heads):
    width = x.shape[-1] // n_heads
    out = x.new_empty(x.shape[0], n_heads, x.shape[1], width)
    for j in range(n_heads):
        out[:, j] = x[:, :, j * width : (j + 1) * width]
    return out


def merge_by_view(x):
    B, h, N, d_head = x.size()
    return x.transpose(1, 2).contiguous().view(B, N, h * d_head)


def merge_by_cat(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


def merge_by_flatten(x):
    return x.permute(0, 2, 1, 3).flatten(2)


def attention_in_steps(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    weights = torch.nan_to_num(F.softmax(scores, dim=-1), nan=0.0)
    return torch.matmul(weights, v), weights


class HeadsInALoop(nn.Module):
    """As in the article: h separate attentions, concatenated."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            setattr(self, name, nn.Parameter(torch.randn(d_model, d_model)))

    def forward(self, query, key, value, mask=None):
        heads, maps = [], []
        for j in range(self.h):
            own = slice(j * self.d, (j + 1) * self.d)
            scores = (query @ self.W_Q[:, own]) @ (key @ self.W_K[:, own]).mT / math.sqrt(self.d)
            if mask is None:
                weights = scores.softmax(-1)
            else:
                open_ = mask.expand(query.shape[0], self.h, *scores.shape[-2:])[:, j]
                lowest = torch.where(open_, scores, torch.finfo(scores.dtype).min)
                weights = torch.where(open_, lowest.softmax(-1), 0.0)
            heads.append(weights @ (value @ self.W_V[:, own]))
            maps.append(weights)
        return torch.cat(heads, dim=-1) @ self.W_O, torch.stack(maps, dim=1)


class ByEinsum(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Parameter(torch.zeros(d_model, d_model)) for _ in range(4))

    def per_head(self, W):
        return W.view(W.shape[0], self.n_heads, -1)

    def forward(self, query, key, value, mask=None):
        q = torch.einsum("bnd,dhk->bhnk", query, self.per_head(self.W_Q))
        k = torch.einsum("bmd,dhk->bhmk", key, self.per_head(self.W_K))
        v = torch.einsum("bmd,dhk->bhmk", value, self.per_head(self.W_V))
        output, weights = attention_in_steps(q, k, v, mask)
        return torch.einsum("bhnk,hkd->bnd", output, self.W_O.view(self.n_heads, -1, self.W_O.shape[1])), weights


class WithHelpers(nn.Module):
    """Helper functions of another cell, queries scaled before they meet the keys."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.W_Q = nn.Parameter(nn.init.xavier_normal_(torch.empty(d_model, d_model)))
        self.W_K = nn.Parameter(torch.eye(d_model))
        self.W_V = nn.Parameter(torch.eye(d_model))
        self.W_O = nn.Parameter(torch.eye(d_model))

    def forward(self, query, key, value, mask=None):
        q = split_by_permute(query @ self.W_Q, self.n_heads)
        k = split_by_permute(key @ self.W_K, self.n_heads)
        v = split_by_permute(value @ self.W_V, self.n_heads)
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf).masked_fill(~mask.any(-1, keepdim=True), 0.0)
        weights = scores.softmax(dim=-1)
        weights = weights if mask is None else weights * mask
        return merge_by_cat(weights @ v) @ self.W_O, weights


def count_matrix_by_matrix(d_model, n_heads, n_kv_heads=None, bias=False):
    if n_kv_heads is None:
        n_kv_heads = n_heads
    widths = [d_model, n_kv_heads * (d_model // n_heads), n_kv_heads * (d_model // n_heads), d_model]
    return sum((d_model + int(bias)) * width for width in widths)


def count_by_share(d_model, n_heads, n_kv_heads=None, bias=False):
    kv = d_model if n_kv_heads is None else d_model * n_kv_heads // n_heads
    total = 2 * d_model * (d_model + kv)
    if bias:
        total += 2 * (d_model + kv)
    return total


def flops_in_closed_form(n_queries, n_keys, d_model, n_heads):
    return 4 * n_queries * d_model**2 + 4 * n_keys * d_model**2 + 4 * n_queries * n_keys * d_model


def flops_product_by_product(n_queries, n_keys, d_model, n_heads):
    def product(n, p, m):
        return 2 * n * p * m

    d_head = d_model // n_heads
    flops = product(n_queries, d_model, d_model) + 2 * product(n_keys, d_model, d_model)
    for _ in range(n_heads):
        flops += product(n_queries, d_head, n_keys) + product(n_queries, n_keys, d_head)
    return flops + product(n_queries, d_model, d_model)


def grouped_by_interleaving(q, k, v, mask=None):
    repeats = q.size(1) // k.size(1)
    return attention_in_steps(q, torch.repeat_interleave(k, repeats, 1), torch.repeat_interleave(v, repeats, 1), mask)


def grouped_by_axes(q, k, v, mask=None):
    """Nothing is copied: the group is an axis."""
    B, h, N, d_k = q.shape
    n_kv, M = k.shape[1], k.shape[2]
    scores = (q.reshape(B, n_kv, h // n_kv, N, d_k) @ k[:, :, None].mT / math.sqrt(d_k)).reshape(B, h, N, M)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    output = weights.reshape(B, n_kv, h // n_kv, N, M) @ v[:, :, None]
    return output.reshape(B, h, N, v.shape[-1]), weights


def grouped_by_index(q, k, v, mask=None):
    own = [j // (q.shape[1] // k.shape[1]) for j in range(q.shape[1])]
    return attention_in_steps(q, k[:, own], v[:, own], mask)


def split_by_einops(x, n_heads):
    return rearrange(x, "B N (h d) -> B h N d", h=n_heads)


RIGHT = {
    "split_heads": [split_by_permute, split_by_chunks, split_by_transposing_first, split_by_slices, split_by_einops],
    "merge_heads": [merge_by_view, merge_by_cat, merge_by_flatten],
    "MultiHeadAttention": [HeadsInALoop, ByEinsum, WithHelpers],
    "attention_parameter_count": [count_matrix_by_matrix, count_by_share],
    "attention_flops": [flops_in_closed_form, flops_product_by_product],
    "grouped_query_attention": [grouped_by_interleaving, grouped_by_axes, grouped_by_index],
    "04_q1": ["d", "D."],
}
