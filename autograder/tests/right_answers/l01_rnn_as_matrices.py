"""Lesson 01: right answers by inner products, loops, concatenation, einsum, recursion, transposes or singular values."""

import math

import torch
import torch.nn.functional as F


def neuron_by_inner_products(x_t, h_prev, W_X, W_H, b, j):
    return (x_t @ W_X[:, j] + h_prev @ W_H[:, j] + b[j]).tanh()


def neuron_by_loop(x_t, h_prev, W_X, W_H, b, j):
    total = b[j]
    for i in range(len(x_t)):
        total = total + W_X[i, j] * x_t[i]
    for i in range(len(h_prev)):
        total = total + W_H[i, j] * h_prev[i]
    return torch.tanh(total)


def neuron_of_the_layer(x_t, h_prev, W_X, W_H, b, j):
    return torch.tanh(b + h_prev @ W_H + x_t @ W_X)[j]


def step_by_concatenation(x_t, h_prev, W_X, W_H, b):
    return torch.tanh(torch.cat([x_t, h_prev], dim=-1) @ torch.cat([W_X, W_H]) + b)


def step_by_linear(x_t, h_prev, W_X, W_H, b):
    return torch.tanh(F.linear(x_t, W_X.T, b) + F.linear(h_prev, W_H.T))


def step_by_einsum(x_t, h_prev, W_X, W_H, b):
    read = torch.einsum("...i,ij->...j", x_t, W_X)
    kept = torch.einsum("...i,ij->...j", h_prev, W_H)
    return (read + kept + b).tanh()


def step_by_sigmoid(x_t, h_prev, W_X, W_H, b):
    return 2 * torch.sigmoid(2 * (x_t @ W_X + h_prev @ W_H + b)) - 1


def sequence_reading_ahead(X, h_0, W_X, W_H, b):
    """The products with W_X wait for nothing, so they come first, all at once."""
    read = X @ W_X + b
    states = [h_0]
    for t in range(X.shape[1]):
        states.append(torch.tanh(read[:, t] + states[-1] @ W_H))
    return torch.stack(states[1:], dim=1)


def sequence_filling_a_tensor(X, h_0, W_X, W_H, b):
    B, T, _ = X.shape
    out = X.new_empty(B, T, h_0.shape[-1])
    h = h_0
    for t in range(T):
        h = torch.tanh(X[:, t, :] @ W_X + h @ W_H + b)
        out[:, t] = h
    return out


def sequence_time_first(X, h_0, W_X, W_H, b):
    h, states = h_0, []
    for x in X.transpose(0, 1):
        h = torch.tanh(torch.matmul(x, W_X) + torch.matmul(h, W_H) + b)
        states += [h]
    return torch.stack(states).transpose(0, 1)


def sequence_by_concatenation(X, h_0, W_X, W_H, b):
    states = X[:, :0] @ W_X  # [B, 0, d_h]
    h = h_0[:, None]
    for t in range(X.size(1)):
        h = torch.tanh(X[:, t : t + 1] @ W_X + h @ W_H + b)
        states = torch.cat((states, h), dim=1)
    return states


def lstm_by_slices(x_t, h_prev, c_prev, W_X, W_H, b):
    d_h = h_prev.shape[-1]
    z = x_t @ W_X + h_prev @ W_H + b
    i = torch.sigmoid(z[..., :d_h])
    f = torch.sigmoid(z[..., d_h : 2 * d_h])
    g = torch.tanh(z[..., 2 * d_h : 3 * d_h])
    o = torch.sigmoid(z[..., 3 * d_h :])
    c_t = f * c_prev + i * g
    return o * torch.tanh(c_t), c_t


def lstm_gate_by_gate(x_t, h_prev, c_prev, W_X, W_H, b):
    gates = [
        torch.matmul(x_t, w) + torch.matmul(h_prev, u) + v
        for w, u, v in zip(W_X.chunk(4, 1), W_H.chunk(4, 1), b.chunk(4))
    ]
    c_t = gates[1].sigmoid().mul(c_prev).add(gates[0].sigmoid() * gates[2].tanh())
    return gates[3].sigmoid() * c_t.tanh(), c_t


def lstm_by_unflatten(x_t, h_prev, c_prev, W_X, W_H, b):
    both = torch.cat([x_t, h_prev], -1) @ torch.cat([W_X, W_H]) + b
    i, f, g, o = both.unflatten(-1, (4, -1)).unbind(-2)
    c_t = c_prev * torch.sigmoid(f) + torch.tanh(g) * torch.sigmoid(i)
    return (torch.tanh(c_t) * torch.sigmoid(o), c_t)


def norms_by_svd(H, W_H):
    T, d_h = H.shape
    product = torch.eye(d_h, dtype=H.dtype)
    norms = torch.ones(T, dtype=H.dtype)
    for t in range(T - 2, -1, -1):
        product = W_H @ torch.diag(1 - H[t + 1].square()) @ product
        norms[t] = torch.linalg.svdvals(product)[0]
    return norms


def norms_from_scratch_each_time(H, W_H):
    norms = []
    for t in range(len(H)):
        J = torch.eye(len(W_H)).to(H)
        for s in range(t + 1, len(H)):
            J = J @ W_H @ torch.diag_embed(1 - H[s] * H[s])
        norms.append(torch.linalg.norm(J, 2))
    return torch.stack(norms)


def norms_in_column_form(H, W_H):
    """The transpose of everything has the same singular values."""
    J = torch.eye(H.shape[1], dtype=H.dtype)
    norms = [J.new_ones(())]
    for h in reversed(H[1:]):
        J = J @ ((1 - h**2)[:, None] * W_H.T)
        norms.insert(0, torch.linalg.matrix_norm(J, 2))
    return torch.stack(norms)


def norms_by_eigenvalues(H, W_H):
    """σ_max² is the largest eigenvalue of JJᵀ; float64 keeps the digits that squaring loses."""
    J = torch.eye(H.shape[1], dtype=torch.float64)
    found = [torch.ones((), dtype=torch.float64)]
    for h in H.double()[1:].flip(0):
        J = W_H.double() @ torch.diag((1 - h) * (1 + h)) @ J
        found.append(torch.linalg.eigvalsh(J @ J.T)[-1].sqrt())
    return torch.stack(found[::-1]).to(H.dtype)


def steps_by_walking_the_grid(n_tokens, n_layers=1):
    """The longest chain grows by one with every token and, once, with every layer above the first."""
    chain = 1
    for _ in range(n_tokens - 1):
        chain += 1
    for _ in range(n_layers - 1):
        chain += 1
    return chain, n_layers


def steps_by_sum(n_tokens, n_layers=1):
    return sum((n_tokens, n_layers, -1)), n_layers * 1


def steps_by_max(n_tokens, n_layers=1):
    rnn = max(t + layer for t in (1, n_tokens) for layer in (0, n_layers - 1))
    return int(math.fsum([rnn])), n_layers


RIGHT = {
    "rnn_neuron": [neuron_by_inner_products, neuron_by_loop, neuron_of_the_layer],
    "rnn_step": [step_by_concatenation, step_by_linear, step_by_einsum, step_by_sigmoid],
    "rnn_sequence": [
        sequence_reading_ahead, sequence_filling_a_tensor, sequence_time_first, sequence_by_concatenation,
    ],
    "lstm_step": [lstm_by_slices, lstm_gate_by_gate, lstm_by_unflatten],
    "gradient_through_time": [
        norms_by_svd, norms_from_scratch_each_time, norms_in_column_form, norms_by_eigenvalues,
    ],
    "sequential_steps": [steps_by_walking_the_grid, steps_by_sum, steps_by_max],
    "01_q1": ["d", "(D)", " d."],
}  # fmt: skip
