"""Lesson 10: right answers by built-ins, loops, one head at a time, other orders of the same sums."""

import math
from bisect import bisect_right
from itertools import accumulate

import torch
import torch.nn.functional as F


def appended_to_a_copy(cache, layer, k_new, v_new):
    made = list(cache)
    if made[layer] is None:
        made[layer] = (k_new, v_new)
    else:
        k, v = made[layer]
        made[layer] = (torch.cat([k, k_new], 2), torch.cat([v, v_new], dim=-2))
    return made


def appended_by_comprehension(cache, layer, k_new, v_new):
    def longer(old, new):
        return torch.cat([x for x in (old, new) if x is not None], dim=2)

    def entry(i):
        if i != layer:
            return cache[i]
        old = cache[i] or (None, None)
        return [longer(x, new) for x, new in zip(old, (k_new, v_new))]

    return [entry(i) for i in range(len(cache))]


def appended_into_new_memory(cache, layer, k_new, v_new):
    old_k, old_v = cache[layer] if cache[layer] is not None else (k_new[:, :, :0], v_new[:, :, :0])
    grown = []
    for old, new in ((old_k, k_new), (old_v, v_new)):
        t = old.shape[2]
        x = new.new_empty(*new.shape[:2], t + new.shape[2], new.shape[3])
        x[:, :, :t], x[:, :, t:] = old, new
        grown.append(x)
    return (*cache[:layer], tuple(grown), *cache[layer + 1 :])


def step_with_groups(token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    """Queries as [B, h_kv, group, d_k]: no key is repeated."""
    B, d_model = token.shape[0], embedding.shape[1]
    d_k = d_model // n_heads
    t = cache[0].size(2) if cache else 0
    if t + 1 > len(positions):
        raise ValueError
    x = F.embedding(token[:, 0], embedding) + positions[t]  # [B, d_model]
    q = (x @ w_q).reshape(B, n_kv_heads, n_heads // n_kv_heads, d_k)
    k, v = ((x @ w).reshape(B, n_kv_heads, 1, d_k) for w in (w_k, w_v))
    if cache:
        k, v = (torch.cat([old, new], dim=2) for old, new in zip(cache, (k, v)))
    weights = F.softmax(torch.einsum("bgid,bgtd->bgit", q, k) * d_k**-0.5, dim=-1)
    return (torch.einsum("bgit,bgtd->bgid", weights, v).reshape(B, 1, d_model)) @ w_o, [k, v]


def step_head_by_head(token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    t = 0
    if cache is not None:
        t = cache[1].shape[-2]
    if not t < positions.shape[0]:
        raise ValueError("the table is full")
    x = embedding[token] + positions[None, t : t + 1]
    width = w_q.shape[1] // n_heads
    k = torch.stack((x @ w_k).split(width, dim=-1), dim=1)
    v = torch.stack((x @ w_v).split(width, dim=-1), dim=1)
    if cache is not None:
        k = torch.cat((cache[0], k), dim=-2)
        v = torch.cat((cache[1], v), dim=-2)
    out = torch.zeros_like(x)
    for j, q in enumerate((x @ w_q).split(width, dim=-1)):
        shared = j // (n_heads // n_kv_heads)
        weights = (q @ k[:, shared].transpose(1, 2) / math.sqrt(width)).softmax(-1)
        out = out + weights @ v[:, shared] @ w_o[j * width : (j + 1) * width]
    return out, (k, v)


def prefill_by_steps(tokens, chunk_size, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    """Smaller chunks than allowed: one token each."""
    if tokens.shape[1] > len(positions):
        raise ValueError
    cache, outputs = None, []
    for token in tokens.split(1, dim=1):
        out, cache = step_with_groups(
            token, cache, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads
        )  # fmt: skip
        outputs.append(out)
    return torch.cat(outputs, 1), tuple(cache)


def prefill_with_open_past(tokens, chunk_size, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    """Two softmaxes made one: scores of the past, all open, beside those of the chunk, a triangle."""
    B, N = tokens.shape
    if len(positions) < N:
        raise ValueError("too long")
    d_k = w_q.shape[-1] // n_heads
    cache_k = w_k.new_zeros(B, n_kv_heads, 0, d_k)
    cache_v = cache_k.clone()
    out = w_o.new_zeros(B, N, w_o.shape[1])
    for ids, at in zip(tokens.split(chunk_size, 1), torch.arange(N, device=tokens.device).split(chunk_size)):
        n = len(at)
        x = embedding[ids] + positions[at]
        q = (x @ w_q).view(B, n, n_kv_heads, -1, d_k).permute(0, 2, 3, 1, 4)  # [B, h_kv, group, n, d_k]
        k, v = ((x @ w).view(B, n, n_kv_heads, d_k).transpose(1, 2) for w in (w_k, w_v))
        past = q @ cache_k.unsqueeze(2).mT
        closed = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        here = (q @ k.unsqueeze(2).mT).masked_fill(closed, -torch.inf)
        weights = torch.softmax(torch.cat((past, here), -1) / d_k**0.5, -1)
        cache_k, cache_v = torch.cat((cache_k, k), 2), torch.cat((cache_v, v), 2)
        heads = weights @ cache_v.unsqueeze(2)
        out[:, at] = heads.permute(0, 3, 1, 2, 4).reshape(B, n, -1) @ w_o
    return out, (cache_k, cache_v)


def prefill_keys_first(tokens, chunk_size, embedding, positions, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    """All keys and values are no large matter; the scores go chunk by chunk."""
    N = tokens.shape[-1]
    if positions.shape[0] < N:
        raise ValueError(N)
    x = embedding[tokens] + positions[:N]
    k, v = (torch.stack((x @ w).chunk(n_kv_heads, -1), 1) for w in (w_k, w_v))
    q = torch.stack((x @ w_q).chunk(n_heads, -1), 1)
    which = torch.arange(n_heads, device=x.device) // (n_heads // n_kv_heads)
    done = []
    for s in range(0, N, chunk_size):
        e = min(s + chunk_size, N)
        scores = q[:, :, s:e] @ k[:, which, :e].mT / math.sqrt(q.shape[-1])
        later = torch.arange(e, device=x.device)[None] > torch.arange(s, e, device=x.device)[:, None]
        done.append(scores.masked_fill(later, -math.inf).softmax(-1) @ v[:, which, :e])
    return torch.cat(done, 2).transpose(1, 2).flatten(-2) @ w_o, (k, v)


def bytes_of_one_token_times_all(batch, n_tokens, n_layers, n_heads, n_kv_heads, d_model, dtype):
    of_a_token = n_layers * n_kv_heads * (d_model // n_heads) * 2
    return batch * n_tokens * of_a_token * torch.empty((), dtype=dtype).element_size()


def bytes_by_share(batch, n_tokens, n_layers, n_heads, n_kv_heads, d_model, dtype):
    every_head = 2 * n_layers * batch * n_tokens * d_model * dtype.itemsize
    return every_head * n_kv_heads // n_heads


def bytes_by_meta_tensors(batch, n_tokens, n_layers, n_heads, n_kv_heads, d_model, dtype):
    k = torch.empty(n_layers, batch, n_kv_heads, n_tokens, d_model // n_heads, dtype=dtype, device="meta")
    return sum(x.numel() * x.element_size() for x in (k, k))


def flops_in_one_line(n, d_model, n_heads, cached):
    return (8 * d_model * d_model + 4 * n * d_model) * (1 if cached else n)


def flops_product_by_product(n, d_model, n_heads, cached):
    def product(a, b, c):
        return 2 * a * b * c

    rows, d_k = (1, d_model // n_heads) if cached else (n, d_model // n_heads)
    total = sum(product(rows, d_model, d_model) for _ in range(4))
    for _ in range(n_heads):
        total += product(rows, d_k, n) + product(rows, n, d_k)
    return total


def top_k_by_threshold(logits, k, temperature, u):
    V = logits.shape[1]
    threshold = logits.sort(dim=1).values[:, max(V - k, 0)]
    weights = torch.where(logits < threshold[:, None], 0, ((logits - logits.amax(1, True)) / temperature).exp())
    edges = weights.cumsum(1)
    return torch.searchsorted(edges.double(), (u * edges[:, -1])[:, None], right=True)[:, 0]


def top_k_row_by_row(logits, k, temperature, u):
    drawn = []
    for row, target in zip(logits.tolist(), u.tolist()):
        allowed = set(sorted(range(len(row)), key=lambda i: row[i], reverse=True)[:k])
        top = max(row)
        weights = [math.exp((x - top) / temperature) if i in allowed else 0.0 for i, x in enumerate(row)]
        drawn.append(bisect_right(list(accumulate(weights)), target * sum(weights)))
    return torch.tensor(drawn, device=logits.device)


def top_k_by_argmax(logits, k, temperature, u):
    out = torch.full_like(logits, float("-inf"))
    values, ids = torch.topk(logits / temperature, k if k < logits.size(1) else logits.size(1))
    out.scatter_(1, ids, values)
    exceeded = F.softmax(out, dim=1).cumsum(1) > u.unsqueeze(1)
    return exceeded.int().argmax(1)


def top_p_by_shifted_mask(logits, p, temperature, u):
    scores = logits / temperature
    ordered, ids = torch.sort(scores, descending=True)
    drop = ordered.softmax(-1).cumsum(-1) >= p
    drop = torch.cat((torch.zeros_like(drop[:, :1]), drop[:, :-1]), dim=1)
    scores = scores.masked_fill(torch.zeros_like(drop).scatter(1, ids, drop), -math.inf)
    return (scores.softmax(-1).cumsum(-1) > u.unsqueeze(-1)).int().argmax(-1)


def top_p_row_by_row(logits, p, temperature, u):
    drawn = []
    for row, target in zip(torch.softmax(logits / temperature, -1), u.tolist()):
        kept, mass = torch.zeros_like(row), 0.0
        for i in row.argsort(descending=True).tolist():
            if mass >= p:
                break
            kept[i] = row[i]
            mass += row[i].item()
        reached = 0.0
        for i, share in enumerate((kept / kept.sum()).tolist()):
            reached += share
            if reached > target:
                drawn.append(i)
                break
    return torch.tensor(drawn, device=logits.device)


def top_p_by_pairs(logits, p, temperature, u):
    """Of every pair: is the other one more probable?"""
    probabilities = (logits / temperature).softmax(-1)
    better = probabilities[:, None, :] > probabilities[:, :, None]  # [B, V, V]
    kept = probabilities * ((better * probabilities[:, None]).sum(-1) < p)
    return ((kept.cumsum(-1)) <= (u * kept.sum(-1))[:, None]).sum(-1)


RIGHT = {
    "append_kv": [appended_to_a_copy, appended_by_comprehension, appended_into_new_memory],
    "decode_step": [step_with_groups, step_head_by_head],
    "prefill_in_chunks": [prefill_by_steps, prefill_with_open_past, prefill_keys_first],
    "cache_bytes": [bytes_of_one_token_times_all, bytes_by_share, bytes_by_meta_tensors],
    "decode_flops": [flops_in_one_line, flops_product_by_product],
    "sample_top_k": [top_k_by_threshold, top_k_row_by_row, top_k_by_argmax],
    "sample_top_p": [top_p_by_shifted_mask, top_p_row_by_row, top_p_by_pairs],
    "10_q1": ["c"],
}
