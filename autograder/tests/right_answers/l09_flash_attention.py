"""Lesson 09: right answers by blocks of queries, by merging, in two passes, with finite stand-ins for −inf."""

import math

import torch
import torch.nn.functional as F


def bytes_by_product(batch, n_heads, n_queries, n_keys, dtype):
    return math.prod((batch, n_heads, n_queries, n_keys, torch.finfo(dtype).bits // 8))


def bytes_by_tensor(batch, n_heads, n_queries, n_keys, dtype):
    return n_queries * n_keys * torch.empty(0, dtype=dtype).element_size() * n_heads * batch


def step_by_logarithms(running_max, running_sum, scores):
    """The sum's logarithm is what adds up; where nothing was seen it is −inf, and so is the maximum."""
    scores = scores.to(running_sum.dtype)
    new_max = torch.cat([running_max.unsqueeze(-1), scores], dim=-1).max(dim=-1).values
    total = torch.logaddexp(running_max + running_sum.log(), torch.logsumexp(scores, dim=-1))
    return new_max, torch.where(new_max == -math.inf, 0.0, torch.exp(total - new_max))


def step_by_concatenation(running_max, running_sum, scores):
    """The old state is one more score, that counts running_sum times."""
    scores = torch.cat([running_max[..., None], scores.to(running_max.dtype)], dim=-1)
    counts = torch.cat([running_sum[..., None], torch.ones_like(scores[..., 1:])], dim=-1)
    new_max = scores.amax(-1)
    safe = torch.where(torch.isfinite(new_max), new_max, torch.zeros_like(new_max))
    return new_max, (counts * torch.exp(scores - safe[..., None])).sum(-1)


def step_with_finite_stand_in(running_max, running_sum, scores):
    scores = scores.type_as(running_max)
    new_max = torch.max(running_max, torch.max(scores, dim=-1)[0])
    stand_in = torch.clamp(new_max, min=torch.finfo(new_max.dtype).min)
    old, new = torch.exp(running_max - stand_in), torch.exp(scores - stand_in[..., None])
    return new_max, running_sum * old + torch.sum(new, -1)


def merge_by_sigmoid(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid(lse_a - lse_b).nan_to_num(0.0)[..., None]
    return out_a * share + out_b * (1 - share), torch.logaddexp(lse_a, lse_b)


def merge_by_softmax(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b], dim=-1)
    weights = torch.softmax(both, dim=-1).nan_to_num(0.0)
    return torch.einsum("...ns,...nsd->...nd", weights, torch.stack([out_a, out_b], dim=-2)), both.logsumexp(-1)


def merge_by_maximum(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b).clamp(min=-1e30)
    e_a, e_b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = e_a + e_b
    out = (e_a.unsqueeze(-1) * out_a + e_b.unsqueeze(-1) * out_b) / total.clamp(min=1e-30).unsqueeze(-1)
    return out, torch.where(total > 0, top + total.log(), -math.inf)


def wide_enough(x):
    return x if x.dtype == torch.float64 else x.float()


def forward_in_both_blocks(q, k, v, block_size, is_causal=False):
    """Blocks of queries outside, blocks of keys inside, tiles in the future skipped."""
    N, M = q.size(-2), k.size(-2)
    q_, k_, v_ = wide_enough(q), wide_enough(k), wide_enough(v)
    outputs, logarithms = [], []
    for i in range(0, N, block_size):
        Q = q_[..., i : i + block_size, :]
        rows = torch.arange(i, i + Q.size(-2)) + M - N
        m = torch.full(Q.shape[:-1], torch.finfo(Q.dtype).min / 2, dtype=Q.dtype)  # finite: no NaN anywhere
        s, O = torch.zeros_like(m), Q.new_zeros(*Q.shape[:-1], v.size(-1))
        for j in range(0, M, block_size):
            if is_causal and j > rows[-1]:
                break
            S = torch.matmul(Q, k_[..., j : j + block_size, :].transpose(-1, -2)) * q.size(-1) ** -0.5
            columns = torch.arange(j, j + S.size(-1))
            if is_causal:
                S = torch.where(columns[None] <= rows[:, None], S, -torch.inf)
            new = torch.max(m, S.max(-1).values)
            factor, P = (m - new).exp(), (S - new[..., None]).exp()
            s, O, m = (
                s * factor + P.sum(-1),
                O * factor[..., None] + torch.matmul(P, v_[..., j : j + block_size, :]),
                new,
            )
        outputs.append(torch.where(s[..., None] > 0, O / s[..., None], 0.0))
        logarithms.append(torch.where(s > 0, m + torch.log(s), -torch.inf))
    return torch.cat(outputs, -2).to(q.dtype), torch.cat(logarithms, -1)


def forward_by_merging(q, k, v, block_size, is_causal=False):
    """A finished attention of each block, merged with what there is."""
    N, M = q.shape[-2], k.shape[-2]
    Q = wide_enough(q)
    out = Q.new_zeros((*q.shape[:-1], v.shape[-1]))
    lse = Q.new_full(q.shape[:-1], -math.inf)
    for j, (K, V) in enumerate(zip(k.split(block_size, -2), v.split(block_size, -2))):
        S = torch.einsum("bhnd,bhmd->bhnm", Q, wide_enough(K)) / q.shape[-1] ** 0.5
        if is_causal:
            key = j * block_size + torch.arange(K.shape[-2])
            S = S.masked_fill((key > (torch.arange(N) + (M - N))[:, None]), -math.inf)
        lse_b = torch.logsumexp(S, -1)
        out_b = torch.softmax(S, -1).nan_to_num(0.0) @ wide_enough(V)
        total = torch.logaddexp(lse, lse_b)
        a, b = ((x - total).exp().nan_to_num(0.0)[..., None] for x in (lse, lse_b))
        out, lse = a * out + b * out_b, total
    return out.to(q.dtype), lse


def forward_in_two_passes(q, k, v, block_size, is_causal=False):
    """First lse, then the output: no correction is needed, but every tile is made twice."""
    N, M = q.shape[-2], k.shape[-2]
    Q = wide_enough(q) / math.sqrt(q.shape[-1])

    def tiles():
        for j in range(0, M, block_size):
            S = Q @ wide_enough(k[..., j : j + block_size, :]).mT
            if is_causal:
                future = torch.ones(N, S.shape[-1], dtype=torch.bool).triu(M - N - j + 1)
                S = S.masked_fill(future, -math.inf)
            yield j, S

    lse = Q.new_full(Q.shape[:-1], -math.inf)
    for _, S in tiles():
        lse = torch.logaddexp(lse, S.logsumexp(-1))
    finite = torch.where(lse.isinf(), 0.0, lse)[..., None]
    out = sum(torch.exp(S - finite) @ wide_enough(v[..., j : j + block_size, :]) for j, S in tiles())
    return out.to(q.dtype), lse


def backward_as_in_the_paper(d_out, q, k, v, out, lse, block_size, is_causal=False):
    """Keys outside, queries inside, everything added where it belongs."""
    N, M, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    dq, dk, dv = (torch.zeros(x.shape, dtype=lse.dtype) for x in (q, k, v))
    D = torch.einsum("...d,...d->...", d_out.to(lse.dtype), out.to(lse.dtype))
    for j in range(0, M, block_size):
        K, V = (x[..., j : j + block_size, :].to(lse.dtype) for x in (k, v))
        for i in range(0, N, block_size):
            rows = slice(i, min(i + block_size, N))
            Q, dO = q[..., rows, :].to(lse.dtype), d_out[..., rows, :].to(lse.dtype)
            S = torch.matmul(Q, K.transpose(-2, -1)) * scale
            L = lse[..., rows, None]
            seen = ~torch.isinf(L)
            if is_causal:
                key = torch.arange(j, j + K.shape[-2])
                seen = seen & (key <= torch.arange(rows.start, rows.stop)[:, None] + M - N)
            P = torch.where(seen, torch.exp(S - L), 0.0)
            dv[..., j : j + block_size, :] += P.transpose(-2, -1) @ dO
            dS = P * (dO @ V.transpose(-2, -1) - D[..., rows, None])
            dq[..., rows, :] += scale * (dS @ K)
            dk[..., j : j + block_size, :] += scale * (dS.transpose(-2, -1) @ Q)
    return dq.type_as(q), dk.type_as(k), dv.type_as(v)


def backward_with_scaled_queries(d_out, q, k, v, out, lse, block_size, is_causal=False):
    N, M = q.shape[-2], k.shape[-2]
    root = math.sqrt(q.shape[-1])
    Q, dO = wide_enough(q) / root, wide_enough(d_out)
    D = F.cosine_similarity(dO, dO, dim=-1) * (dO * wide_enough(out)).sum(-1)  # the first factor is 1
    dQ, dK, dV = 0, [], []
    for j, (K, V) in enumerate(zip(k.split(block_size, -2), v.split(block_size, -2))):
        K, V = wide_enough(K), wide_enough(V)
        weights = torch.exp(torch.einsum("bhnd,bhmd->bhnm", Q, K) - lse.nan_to_num(neginf=torch.inf)[..., None])
        if is_causal:
            hidden = torch.ones(N, K.shape[-2], dtype=torch.bool).triu(M - N - j * block_size + 1)
            weights = weights.masked_fill(hidden, 0.0)
        dS = weights * (torch.einsum("bhnv,bhmv->bhnm", dO, V) - D[..., None])
        dQ = dQ + torch.einsum("bhnm,bhmd->bhnd", dS, K)
        dK.append(torch.einsum("bhnm,bhnd->bhmd", dS, Q))
        dV.append(torch.einsum("bhnm,bhnv->bhmv", weights, dO))
    return (dQ / root).to(q.dtype), torch.cat(dK, 2).to(k.dtype), torch.cat(dV, 2).to(v.dtype)


def traffic_by_steps(n_queries, n_keys, d, block_q, bytes_per_element=2):
    Q = O = n_queries * d
    K = V = n_keys * d
    S = P = n_queries * n_keys
    explicit = (Q + K + S) + (S + P) + (P + V + O)
    tiled = sum(min(block_q, n_queries - i) * d * 2 + K + V for i in range(0, n_queries, block_q))
    return bytes_per_element * explicit, bytes_per_element * tiled


def traffic_by_rounding_up(n_queries, n_keys, d, block_q, bytes_per_element=2):
    blocks = -(-n_queries // block_q)
    row = d * bytes_per_element
    return 2 * row * (n_queries + n_keys) + 4 * n_queries * n_keys * bytes_per_element, 2 * row * (
        n_queries + blocks * n_keys
    )


RIGHT = {
    "attention_bytes": [bytes_by_product, bytes_by_tensor],
    "online_softmax": [step_by_logarithms, step_by_concatenation, step_with_finite_stand_in],
    "merge_blocks": [merge_by_sigmoid, merge_by_softmax, merge_by_maximum],
    "flash_forward": [forward_in_both_blocks, forward_by_merging, forward_in_two_passes],
    "flash_backward": [backward_as_in_the_paper, backward_with_scaled_queries],
    "hbm_traffic": [traffic_by_steps, traffic_by_rounding_up],
    "09_q1": ["d", "（D）"],
}
