"""Lesson 03: right answers by built-ins, einsum, loops, exponentials, float32 inside or the dtype as it comes."""

import math

import torch
import torch.nn.functional as F


def variance_by_var(q, k, sigma_q=1.0, sigma_k=1.0):
    d_k = q.size(1)
    return float(d_k) * (sigma_q * sigma_k) ** 2, torch.var((q * k).sum(1), correction=0)


def variance_by_einsum(q, k, sigma_q=1.0, sigma_k=1.0):
    dots = torch.einsum("sd,sd->s", q, k)
    centred = dots - dots.sum() / len(dots)
    return math.fsum([sigma_q**2 * sigma_k**2] * q.shape[-1]), centred.dot(centred) / len(dots)


def variance_by_loop(q, k, sigma_q=1.0, sigma_k=1.0):
    dots = [torch.dot(a, b) for a, b in zip(q, k)]
    mean = sum(dots) / len(dots)
    return sigma_q * sigma_q * sigma_k * sigma_k * q.shape[1] * 1.0, sum((x - mean) ** 2 for x in dots) / len(dots)


def tempered_in_float32(scores, temperature):
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return torch.softmax(wide / temperature, dim=-1).to(scores.dtype)


def tempered_as_it_comes(scores, temperature):
    return F.softmax(scores / temperature, dim=-1)


def tempered_by_exponentials(scores, temperature):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    e = torch.exp((wide - wide.amax(-1, keepdim=True)) / temperature)
    return (e / e.sum(-1, keepdim=True)).to(scores.dtype)


def tempered_by_logsumexp(scores, temperature):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32)) / temperature
    return torch.exp(wide - torch.logsumexp(wide, dim=-1, keepdim=True)).type_as(scores)


def jacobian_by_broadcasting(scores, temperature=1.0):
    p = (scores / temperature).softmax(-1)
    identity = torch.eye(p.shape[-1], dtype=p.dtype)
    return p[..., :, None] * (identity - p[..., None, :]) / temperature


def jacobian_by_einsum(scores, temperature=1.0):
    p = torch.softmax(scores / temperature, dim=-1)
    J = torch.einsum("...i,...j->...ij", -p, p)
    J.diagonal(dim1=-2, dim2=-1).add_(p)
    return J / temperature


def jacobian_by_loop(scores, temperature=1.0):
    p = torch.softmax(scores / temperature, dim=-1)
    M = p.shape[-1]
    J = torch.empty(*p.shape, M, dtype=p.dtype)
    for i in range(M):
        for j in range(M):
            J[..., i, j] = p[..., i] * (float(i == j) - p[..., j]) / temperature
    return J


def entropy_by_where(p):
    wide = p.to(torch.promote_types(p.dtype, torch.float32))
    logarithms = torch.where(wide > 0, wide, 1.0).log()
    return -(wide * logarithms).sum(dim=-1).to(p.dtype)


def entropy_by_entr(p):
    return torch.special.entr(p).sum(-1)


def entropy_by_clamp(p):
    wide = p.double()
    return (wide * -wide.clamp(min=torch.finfo(wide.dtype).tiny).log()).sum(-1).type_as(p)


def entropy_by_nan_to_num(p):
    return torch.nan_to_num(p * torch.log(p), nan=0.0).sum(dim=-1).neg()


def attention_in_float32(q, k, v, mask=None, temperature=1.0):
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.mT / (math.sqrt(q.shape[-1]) * temperature)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        scores = scores.masked_fill(~mask, -math.inf)
        scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
    return (weights @ v).to(dtype), weights.to(dtype)


def attention_by_exponentials(q, k, v, mask=None, temperature=1.0):
    """exp of the hidden scores never enters: where it would, a 0 stands."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.einsum("...nd,...md->...nm", q.to(wide), k.to(wide)) / q.shape[-1] ** 0.5 / temperature
    open_ = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    largest = torch.where(open_, scores, -torch.inf).amax(-1, keepdim=True).detach()
    shifted = torch.where(open_, scores - largest.clamp(min=torch.finfo(wide).min), 0.0)
    e = torch.where(open_, shifted.exp(), 0.0)
    total = e.sum(-1, keepdim=True)
    weights = e / torch.where(total == 0, 1.0, total)
    return torch.einsum("...nm,...mv->...nv", weights, v.to(wide)).to(q.dtype), weights.to(q.dtype)


def attention_with_nan_repaired(q, k, v, mask=None, temperature=1.0):
    """masked_fill lets no gradient through to what it hides, so the NaN of an empty row ends there."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / (math.sqrt(k.size(-1)) * temperature)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    weights = torch.nan_to_num(F.softmax(scores, dim=-1), nan=0.0)
    return torch.matmul(weights, v), weights


def attention_by_logsumexp(q, k, v, mask=None, temperature=1.0):
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / (math.sqrt(q.shape[-1]) * temperature)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    total = torch.logsumexp(scores, dim=-1, keepdim=True)
    weights = torch.exp(scores - total.masked_fill(total.isneginf(), 0.0))
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


def attention_scaling_queries_first(q, k, v, mask=None, temperature=1.0):
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide) / (q.shape[-1] ** 0.5 * temperature)) @ k.to(wide).mT
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(wide).min)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    return (weights @ v.to(wide)).to(q.dtype), weights.to(q.dtype)


def jacobian_by_vmap(scores, temperature=1.0):
    def of_row(row):
        p = torch.softmax(row / temperature, dim=-1)
        return (torch.diag(p) - p[:, None] * p) / temperature

    M = scores.shape[-1]
    return torch.vmap(of_row)(scores.reshape(-1, M)).reshape(*scores.shape, M)


RIGHT = {
    "dot_product_variance": [variance_by_var, variance_by_einsum, variance_by_loop],
    "temperature_softmax": [
        tempered_in_float32, tempered_as_it_comes, tempered_by_exponentials, tempered_by_logsumexp,
    ],
    "softmax_jacobian": [jacobian_by_broadcasting, jacobian_by_einsum, jacobian_by_loop, jacobian_by_vmap],
    "entropy": [entropy_by_where, entropy_by_entr, entropy_by_clamp, entropy_by_nan_to_num],
    "scaled_dot_product_attention": [
        attention_in_float32, attention_by_exponentials, attention_with_nan_repaired, attention_by_logsumexp,
        attention_scaling_queries_first,
    ],
    "03_q1": ["c", "C "],
}  # fmt: skip
