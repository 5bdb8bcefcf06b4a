"""Lesson 02: right answers by products, einsum, loops, nn.functional.linear, exponentials."""

import torch
import torch.nn.functional as F
from torch import Tensor


def project_by_einsum(X, W_Q, W_K, W_V):
    return tuple(torch.einsum("...nd,dk->...nk", X, W) for W in (W_Q, W_K, W_V))


def project_by_linear(X, W_Q, W_K, W_V):
    return F.linear(X, W_Q.T), F.linear(X, W_K.T), F.linear(X, W_V.T)


def project_at_once(X, W_Q, W_K, W_V):
    together = X @ torch.cat([W_Q, W_K, W_V], dim=1)
    return together.split([W_Q.shape[1], W_K.shape[1], W_V.shape[1]], dim=-1)


def project_by_rows(X, W_Q, W_K, W_V):
    def combine(W: Tensor) -> Tensor:
        return sum(X[..., i, None] * W[i] for i in range(W.shape[0]))

    return combine(W_Q), combine(W_K), combine(W_V)


def relevance_by_loop(q, K):
    return torch.stack([torch.dot(q, key) for key in K])


def relevance_by_broadcasting(q, K):
    return (q * K).sum(dim=-1)


def relevance_by_product(q, K):
    return q @ K.T


def relevance_by_einsum(q, K):
    return torch.einsum("d,md->m", q, K)


def attend_by_exponentials(q, K, V):
    scores = torch.mv(K, q)
    e = torch.exp(scores - scores.max())
    return (e / e.sum()) @ V


def attend_by_logsumexp(q, K, V):
    scores = (K * q).sum(dim=1)
    weights = torch.exp(scores - torch.logsumexp(scores, dim=0))
    return (weights[:, None] * V).sum(dim=0)


def attend_by_loop(q, K, V):
    weights = torch.stack([q @ K[j] for j in range(len(K))]).softmax(dim=0)
    h = torch.zeros_like(V[0])
    for weight, value in zip(weights, V):
        h = h + weight * value
    return h


def matrix_by_einsum(Q, K):
    return torch.einsum("...nd,...md->...nm", Q, K).softmax(-1)


def matrix_by_columns(Q, K):
    """Scores with a row for each key, softmax down the rows, transposed at the end."""
    return torch.softmax(K @ Q.mT, dim=-2).mT


def matrix_by_exponentials(Q, K):
    scores = torch.matmul(Q, K.swapaxes(-1, -2))
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def matrix_by_broadcasting(Q, K):
    scores = (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp()


def self_attention_by_einsum(X, W_Q, W_K, W_V):
    Q, K, V = (torch.einsum("...nd,dk->...nk", X, W) for W in (W_Q, W_K, W_V))
    A = torch.einsum("...nk,...mk->...nm", Q, K).softmax(dim=-1)
    return torch.einsum("...nm,...mv->...nv", A, V)


def self_attention_by_one_form(X, W_Q, W_K, W_V):
    """Scores are X (W_Q W_Kᵀ) Xᵀ, and the projection of the values may wait until after the mixing."""
    A = torch.softmax(X @ (W_Q @ W_K.T) @ X.transpose(-1, -2), dim=-1)
    return A @ X @ W_V


def self_attention_by_query(X, W_Q, W_K, W_V):
    keys, values = X @ W_K, X @ W_V
    rows = []
    for n in range(X.shape[-2]):
        query = X[..., n : n + 1, :] @ W_Q
        rows.append(torch.softmax((query * keys).sum(-1, keepdim=True), dim=-2).mT @ values)
    return torch.cat(rows, dim=-2)


def gap_by_loop(f, X, perm):
    before, after = f(X[perm]), f(X)
    return torch.stack([(before[i] - after[perm[i]]).abs().max() for i in range(len(perm))]).max()


def gap_by_index_select(f, X, perm):
    return torch.amax(torch.abs(torch.index_select(f(X), 0, perm) - f(torch.index_select(X, 0, perm))))


def gap_by_matrix(f, X, perm):
    P = torch.eye(len(perm), dtype=X.dtype)[perm]
    difference = f(P @ X) - P @ f(X)
    return torch.maximum(difference.max(), -difference.min())


RIGHT = {
    "project_qkv": [project_by_einsum, project_by_linear, project_at_once, project_by_rows],
    "relevance": [relevance_by_loop, relevance_by_broadcasting, relevance_by_product, relevance_by_einsum],
    "attend": [attend_by_exponentials, attend_by_logsumexp, attend_by_loop],
    "attention_matrix": [matrix_by_einsum, matrix_by_columns, matrix_by_exponentials, matrix_by_broadcasting],
    "self_attention": [self_attention_by_einsum, self_attention_by_one_form, self_attention_by_query],
    "permutation_gap": [gap_by_loop, gap_by_index_select, gap_by_matrix],
    "02_q1": ["b", " B "],
    "02_q2": ["c", "C"],
}
