"""Lesson 11: right answers by indexing, cross-entropy, cumulative sums, einsum, blocks, and complex numbers that turn."""

import math
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import nn


def mask_by_indexing(tokens, special, mask_id, random_tokens, u_select, u_action, rate=0.15):
    inputs = tokens.clone()
    selected = torch.logical_and(u_select < rate, special.logical_not())
    swapped = selected & (u_action >= 0.8) & (u_action < 0.9)
    inputs[selected & (u_action < 0.8)] = mask_id
    inputs[swapped] = random_tokens[swapped]
    labels = torch.full_like(tokens, -100)
    labels[selected] = tokens[selected]
    return inputs, labels


def mask_by_loops(tokens, special, mask_id, random_tokens, u_select, u_action, rate=0.15):
    inputs, labels = tokens.clone(), tokens.clone()
    for b in range(tokens.shape[0]):
        for n in range(tokens.shape[1]):
            if special[b, n] or not u_select[b, n] < rate:
                labels[b, n] = -100
            elif u_action[b, n] < 0.8:
                inputs[b, n] = mask_id
            elif u_action[b, n] < 0.9:
                inputs[b, n] = random_tokens[b, n]
    return inputs, labels


def loss_by_cross_entropy(logits, tokens, key_mask=None):
    targets = tokens[:, 1:]
    if key_mask is not None:
        targets = targets.masked_fill(~key_mask[:, 1:], -100)
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets.flatten(), reduction="sum")
    return total / max(int((targets != -100).sum()), 1)


def loss_by_logsumexp(logits, tokens, key_mask=None):
    n = tokens.shape[1] - 1
    right = torch.take_along_dim(logits[:, :n], tokens[:, 1:, None], 2)[..., 0]
    losses = logits[:, :n].logsumexp(-1) - right
    if key_mask is None:
        return losses.sum() / max(losses.numel(), 1)
    return (losses * key_mask[:, 1:]).sum() / key_mask[:, 1:].sum().clamp_min(1)


def loss_by_selecting(logits, tokens, key_mask=None):
    real = torch.ones_like(tokens).bool() if key_mask is None else key_mask
    chosen = logits[:, :-1][real[:, 1:]].log_softmax(-1)
    if len(chosen) == 0:
        return logits.sum() * 0
    return -chosen[torch.arange(len(chosen)), tokens[:, 1:][real[:, 1:]]].mean()


def loss_or_a_constant(logits, tokens, key_mask=None):
    real = torch.ones_like(tokens).bool() if key_mask is None else key_mask
    if not bool(real[:, 1:].any()):
        return logits.new_zeros(())
    return loss_by_selecting(logits, tokens, key_mask)


def spans_by_groupby(tokens, hidden, first_sentinel):
    inputs, targets, sentinel = [], [], first_sentinel
    for is_hidden, run in groupby(zip(tokens.tolist(), hidden.tolist()), key=lambda pair: pair[1]):
        words = [word for word, _ in run]
        if is_hidden:
            inputs.append(sentinel)
            targets += [sentinel, *words]
            sentinel -= 1
        else:
            inputs += words
    return torch.tensor(inputs), torch.tensor([*targets, sentinel])


def spans_by_cumulative_sum(tokens, hidden, first_sentinel):
    before = torch.cat((hidden.new_zeros(1), hidden[:-1]))
    starts = hidden & ~before
    sentinels = first_sentinel + 1 - starts.cumsum(0)
    inputs = torch.where(starts, sentinels, tokens)[starts | ~hidden]
    pairs = torch.stack((sentinels, tokens), dim=1)
    keep = torch.stack((starts, hidden), dim=1)
    last = tokens.new_full((1,), first_sentinel - int(starts.sum()))
    return inputs, torch.cat((pairs[keep], last))


def pool_by_einsum(hidden, key_mask):
    wide = hidden.double() if hidden.dtype == torch.float64 else hidden.float()
    real = key_mask.to(wide.dtype)
    return (torch.einsum("bnd,bn->bd", wide, real) / real.sum(1, keepdim=True).clamp(min=1)).to(hidden.dtype)


def pool_by_weights(hidden, key_mask):
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    weights = key_mask.to(wide.dtype)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1)
    return (weights.unsqueeze(1) @ wide).squeeze(1).to(hidden.dtype)


def pool_by_loop(hidden, key_mask):
    rows = []
    for states, real in zip(hidden, key_mask):
        kept = states[real].float() if hidden.dtype in (torch.float16, torch.bfloat16) else states[real]
        rows.append(kept.sum(0) / max(len(kept), 1))
    return torch.stack(rows).to(hidden.dtype)


def family_by_blocks(family, n_source, n_target, device=None):
    n = n_source + n_target
    if family not in ("bert", "gpt", "t5"):
        raise ValueError(family)
    mask = torch.ones(n, n, dtype=torch.bool, device=device)
    if family == "gpt":
        mask = mask.tril()
    if family == "t5":
        mask[:, n_source:] = mask[:, n_source:].tril(-n_source)
    return mask


def family_by_rule(family, n_source, n_target, device=None):
    rules = {
        "bert": lambda i, j: True,
        "gpt": lambda i, j: j <= i,
        "t5": lambda i, j: j < n_source or j <= i,
    }
    try:
        sees = rules[family]
    except KeyError:
        raise ValueError(f"{family} is none of {', '.join(rules)}") from None
    n = n_source + n_target
    return torch.tensor([[sees(i, j) for j in range(n)] for i in range(n)], device=device)


class OwnNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class ByComplexNumbers(nn.Module):
    """The turning as a product of complex numbers, groups as an axis."""

    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, eps=1e-5, rope_base=10000.0):
        super().__init__()
        self.h, self.kv, self.d = n_heads, n_kv_heads, d_model // n_heads
        self.base = rope_base
        self.norm1, self.norm2 = OwnNorm(d_model, eps), OwnNorm(d_model, eps)
        self.w_q, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.w_k, self.w_v = (nn.Linear(d_model, self.kv * self.d, bias=False) for _ in range(2))
        self.w_gate, self.w_up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def rotate(self, x):
        half = self.d // 2
        theta = self.base ** (-2 * torch.arange(half, dtype=x.dtype) / self.d)
        angles = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), theta)
        z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous())
        z = z * torch.polar(torch.ones_like(angles), angles)
        return torch.cat((z.real, z.imag), -1)

    def forward(self, x):
        B, N, _ = x.shape
        y = self.norm1(x)
        q = self.w_q(y).reshape(B, N, self.h, self.d).transpose(1, 2)
        k = self.w_k(y).reshape(B, N, self.kv, self.d).transpose(1, 2)
        v = self.w_v(y).reshape(B, N, self.kv, self.d).transpose(1, 2)
        q = self.rotate(q).reshape(B, self.kv, self.h // self.kv, N, self.d)
        scores = q @ self.rotate(k).unsqueeze(2).transpose(-2, -1) * self.d**-0.5
        scores = scores + torch.full((N, N), -torch.inf, dtype=x.dtype).triu(1)
        heads = (scores.softmax(-1) @ v.unsqueeze(2)).reshape(B, self.h, N, self.d)
        x = x + self.w_o(heads.permute(0, 2, 1, 3).reshape(B, N, -1))
        y = self.norm2(x)
        gate = self.w_gate(y)
        return x + self.w_down(gate * gate.sigmoid() * self.w_up(y))


class HeadByHead(nn.Module):
    """A loop over the heads; the turning by rotate-half, as Hugging Face writes it."""

    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, eps=1e-5, rope_base=10000.0):
        super().__init__()
        self.sizes, self.base = (n_heads, n_kv_heads, d_model // n_heads), rope_base
        self.norm1, self.norm2 = nn.RMSNorm(d_model, eps), nn.RMSNorm(d_model, eps)
        widths = {"w_q": d_model, "w_k": n_kv_heads * self.sizes[2], "w_v": n_kv_heads * self.sizes[2], "w_o": d_model}
        for name, width in widths.items():
            setattr(self, name, nn.Linear(d_model, width, bias=False))
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        h, kv, d = self.sizes
        N = x.shape[1]
        frequencies = 1 / self.base ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
        angles = torch.arange(N, dtype=x.dtype)[:, None] * frequencies.repeat(2)
        cos, sin = angles.cos(), angles.sin()

        def turn(y):
            return y * cos + torch.cat((-y[..., d // 2 :], y[..., : d // 2]), -1) * sin

        y = self.norm1(x)
        q, k, v = self.w_q(y), self.w_k(y), self.w_v(y)
        heads = []
        for j in range(h):
            shared = j // (h // kv)
            mine, theirs = slice(j * d, (j + 1) * d), slice(shared * d, (shared + 1) * d)
            scores = turn(q[..., mine]) @ turn(k[..., theirs]).transpose(1, 2) / math.sqrt(d)
            seen = torch.arange(N)[None, :] <= torch.arange(N)[:, None]
            heads.append(torch.where(seen, scores, -torch.inf).softmax(-1) @ v[..., theirs])
        x = x + self.w_o(torch.cat(heads, -1))
        y = self.norm2(x)
        return x + self.w_down(F.silu(self.w_gate(y)) * self.w_up(y))


RIGHT = {
    "mask_tokens": [mask_by_indexing, mask_by_loops],
    "next_token_loss": [loss_by_cross_entropy, loss_by_logsumexp, loss_by_selecting, loss_or_a_constant],
    "span_corruption": [spans_by_groupby, spans_by_cumulative_sum],
    "mean_pool": [pool_by_einsum, pool_by_weights, pool_by_loop],
    "family_mask": [family_by_blocks, family_by_rule],
    "llama_block": [ByComplexNumbers, HeadByHead],
    "11_q1": ["c", "(C)"],
}
