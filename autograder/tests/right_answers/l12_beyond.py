"""Lesson 12: right answers by broadcasting, loops, einsum, convolution, running sums, unfold and slices."""

import torch
import torch.nn.functional as F


def window_by_triangles(n_queries, window, n_keys=None, device=None):
    n_keys = n_keys or n_queries
    shift = n_keys - n_queries
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(shift) & ~ones.tril(shift - window)


def window_by_loop(n_queries, window, n_keys=None, device=None):
    if n_keys is None:
        n_keys = n_queries
    mask = torch.zeros(n_queries, n_keys, dtype=torch.bool, device=device)
    for i in range(n_queries):
        at = i + n_keys - n_queries
        if at >= 0:
            mask[i, max(0, at - window + 1) : at + 1] = True
    return mask


def linear_by_elu(q, k, v, is_causal=False):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if is_causal:
        scores = torch.tril(q @ k.transpose(-2, -1))
        return (scores / scores.sum(-1, keepdim=True)) @ v
    state, total = k.transpose(-2, -1) @ v, k.sum(-2)
    return q @ state / (q @ total.unsqueeze(-1))


def linear_by_einsum(q, k, v, is_causal=False):
    q, k = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    if is_causal:
        S = torch.einsum("bhnk,bhnv->bhnkv", k, v).cumsum(2)
        z = k.cumsum(2)
        return torch.einsum("bhnk,bhnkv->bhnv", q, S) / (q * z).sum(-1, keepdim=True)
    S = torch.einsum("bhmk,bhmv->bhkv", k, v)
    return torch.einsum("bhnk,bhkv->bhnv", q, S) / torch.einsum("bhnk,bhk->bhn", q, k.sum(2))[..., None]


def linear_by_steps(q, k, v, is_causal=False):
    """The recurrent form, token by token."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not is_causal:
        weights = k / k.sum(-2, keepdim=True)  # any positive rescaling of φ(k)'s columns comes back in the denominator
        return (q * k.sum(-2, keepdim=True)) @ (weights.mT @ v) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    S, z, out = 0.0, 0.0, []
    for i in range(q.shape[-2]):
        S = S + k[..., i, :, None] * v[..., i, None, :]
        z = z + k[..., i, :]
        out.append((q[..., i, :, None] * S).sum(-2) / (q[..., i, :] * z).sum(-1, keepdim=True))
    return torch.stack(out, -2)


def step_by_einsum(state, q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    S, z = torch.einsum("bhk,bhv->bhkv", k, v), k.clone()
    if state:
        S += state[0]
        z += state[1]
    return torch.einsum("bhk,bhkv->bhv", q, S) / torch.einsum("bhk,bhk->bh", q, z)[..., None], [S, z]


def step_from_zeros(state, q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if state is None:
        state = (q.new_zeros(*k.shape, v.shape[-1]), torch.zeros_like(k))
    S = state[0] + k[..., :, None] @ v[..., None, :]
    z = state[1] + k
    return (S * q[..., None]).sum(-2) / (q * z).sum(-1)[..., None], (S, z)


def scan_by_loop(x, a, b, c, state=None):
    B, N, D = x.shape
    h = x.new_zeros(B, D, a.shape[1]) if state is None else state
    y = []
    for t in range(N):
        h = h * a + torch.einsum("bd,ds->bds", x[:, t], b)
        y.append(torch.einsum("bds,ds->bd", h, c))
    return torch.stack(y, 1), h


def scan_by_convolution(x, a, b, c, state=None):
    """y_t = Σ_j K_j x_{t−j}, with the powers of a multiplied up one after the other."""
    N = x.shape[1]
    powers = [torch.ones_like(a)]
    for _ in range(N):
        powers.append(powers[-1] * a)
    powers = torch.stack(powers)  # [N + 1, D, S]
    states = []
    for t in range(N):
        h = (powers[: t + 1].flip(0) * (b * x[:, : t + 1, :, None])).sum(1)
        states.append(h if state is None else h + powers[t + 1] * state)
    return (c * torch.stack(states, 1)).sum(-1), states[-1]


def scan_by_doubling(x, a, b, c, state=None):
    """Hillis and Steele: log N rounds, each joining stretches twice as long."""
    h = b * x.unsqueeze(-1)  # [B, N, D, S]
    if state is not None:
        h = torch.cat([h[:, :1] + (a * state).unsqueeze(1), h[:, 1:]], 1)
    step, factor = 1, a
    while step < x.shape[1]:
        h = h + factor * F.pad(h[:, :-step], (0, 0, 0, 0, step, 0))
        step, factor = 2 * step, factor * factor
    return (h * c).sum(-1), h[:, -1]


def patches_by_unfold(images, patch):
    if images.shape[2] % patch or images.shape[3] % patch:
        raise ValueError("does not divide")
    tiles = images.unfold(2, patch, patch).unfold(3, patch, patch)  # [B, C, H/p, W/p, p, p]
    return tiles.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def patches_by_slices(images, patch):
    height, width = images.shape[-2:]
    if (height % patch, width % patch) != (0, 0):
        raise ValueError
    rows = [
        images[:, :, i : i + patch, j : j + patch].flatten(1)
        for i in range(0, height, patch)
        for j in range(0, width, patch)
    ]
    return torch.stack(rows, 1)


def digits_by_slices(images, patch, w_patch, class_token, positions, layers, w_head, b_head):
    B, H, W = images.shape
    tokens = [class_token.repeat(B, 1)]
    for i in range(0, H, patch):
        for j in range(0, W, patch):
            tokens.append((images[:, i : i + patch, j : j + patch] / 16).reshape(B, -1) @ w_patch)
    x = torch.stack(tokens, 1) + positions
    for layer in layers:
        x = layer(x)
    return torch.addmm(b_head, x[:, 0], w_head)


def digits_by_unfold(images, patch, w_patch, class_token, positions, layers, w_head, b_head):
    tiles = images.unfold(1, patch, patch).unfold(2, patch, patch).flatten(3).flatten(1, 2)
    first = (class_token + positions[0]).expand(len(images), 1, len(class_token))
    x = torch.cat([first, tiles @ (w_patch / 16.0) + positions[1:]], 1)
    for layer in layers:
        x = layer(x)
    return F.linear(x.select(1, 0), w_head.mT, b_head)


RIGHT = {
    "sliding_window_mask": [window_by_triangles, window_by_loop],
    "linear_attention": [linear_by_elu, linear_by_einsum, linear_by_steps],
    "linear_attention_step": [step_by_einsum, step_from_zeros],
    "state_space_scan": [scan_by_loop, scan_by_convolution, scan_by_doubling],
    "patchify": [patches_by_unfold, patches_by_slices],
    "classify_digits": [digits_by_slices, digits_by_unfold],
    "12_q1": ["d", " D"],
}
