"""Lesson 08: right answers by built-ins, loops, recursion, other orders of the same sums."""

import math
from functools import reduce

import torch
import torch.nn.functional as F


def encoder_in_steps(tokens, embedding, positions, layers, mask=None):
    d_model = embedding.size(1)
    B, N = tokens.shape
    x = F.embedding(tokens, embedding) * d_model**0.5
    x = x + positions.narrow(0, 0, N).expand(B, N, d_model)
    for i in range(len(layers)):
        x = layers[i](x, mask=mask)
    return x


def encoder_by_reduce(tokens, embedding, positions, layers, mask=None):
    start = torch.add(positions[None, : tokens.shape[1]], embedding[tokens], alpha=math.sqrt(embedding.shape[-1]))
    return reduce(lambda x, layer: layer(x, mask), layers, start)


def encoder_by_one_hot(tokens, embedding, positions, layers, mask=None):
    rows = F.one_hot(tokens, embedding.shape[0]).to(embedding.dtype) @ (embedding * math.sqrt(embedding.shape[1]))
    x = rows + positions[torch.arange(tokens.shape[1])]
    waiting = list(layers)
    while waiting:
        x = waiting.pop(0)(x, mask)
    return x


def decoder_in_steps(tokens, memory, embedding, positions, layers, mask=None, memory_mask=None):
    N = tokens.shape[1]
    x = embedding[tokens].mul(math.sqrt(embedding.shape[1])).add(positions[:N])
    for layer in layers:
        x = layer(x, memory, mask=mask, memory_mask=memory_mask)
    return x


def decoder_by_reduce(tokens, memory, embedding, positions, layers, mask=None, memory_mask=None):
    start = F.embedding(tokens, embedding) * embedding.shape[-1] ** 0.5 + positions[: tokens.shape[-1]]
    return reduce(lambda x, layer: layer(x, memory, mask, memory_mask), layers, start)


def logits_in_steps(source, target, encoder, decoder, embedding, pad_id=0):
    B, N = target.shape
    hidden_source = source.eq(pad_id).view(B, 1, 1, -1)
    later = torch.ones((N, N), device=target.device).triu(1).bool()
    hidden_target = target.eq(pad_id).view(B, 1, 1, N).logical_or(later)
    memory = encoder(source, mask=hidden_source.logical_not())
    hidden = decoder(target, memory, mask=~hidden_target, memory_mask=~hidden_source)
    return F.linear(hidden, embedding)


def logits_by_positions(source, target, encoder, decoder, embedding, pad_id=0):
    real_source = (source != pad_id).unsqueeze(1).unsqueeze(2).expand(-1, -1, source.shape[1], -1)
    place = torch.arange(target.shape[1], device=target.device)
    seen = (place[None, :] <= place[:, None])[None, None] & target.ne(pad_id)[:, None, None]
    hidden = decoder(target, encoder(source, real_source), seen, real_source[:, :, :1])
    return torch.einsum("bnd,vd->bnv", hidden, embedding)


def logits_row_by_row(source, target, encoder, decoder, embedding, pad_id=0):
    """One sequence at a time."""
    rows = []
    for s, t in zip(source, target):
        n = len(t)
        causal = torch.tensor([[j <= i for j in range(n)] for i in range(n)], device=t.device)
        memory = encoder(s[None], (s != pad_id)[None])
        rows.append(decoder(t[None], memory, causal & (t != pad_id), s != pad_id)[0] @ embedding.T)
    return torch.stack(rows)


def shifted_by_roll(labels, start_id, pad_id=0):
    inputs = labels.roll(1, dims=1)
    inputs[:, 0] = start_id
    return torch.where(inputs == -100, pad_id, inputs)


def shifted_by_padding(labels, start_id, pad_id=0):
    inputs = F.pad(labels[:, :-1], (1, 0), value=start_id)
    inputs[inputs == -100] = pad_id
    return inputs


def shifted_by_lists(labels, start_id, pad_id=0):
    rows = [[start_id] + [pad_id if token == -100 else token for token in row[:-1]] for row in labels.tolist()]
    return torch.tensor(rows, dtype=labels.dtype, device=labels.device)


def loss_by_distribution(logits, target, smoothing=0.1, ignore_index=-100):
    V = logits.shape[-1]
    kept = target != ignore_index
    wanted = F.one_hot(torch.where(kept, target, 0), V).to(logits.dtype) * (1 - smoothing) + smoothing / V
    losses = -(wanted * F.log_softmax(logits, -1)).sum(-1)
    return torch.where(kept, losses, 0.0).sum() / max(1, int(kept.sum()))


def loss_by_choosing(logits, target, smoothing=0.1, ignore_index=-100):
    kept = target.ne(ignore_index)
    rows, classes = logits[kept], target[kept]
    if len(classes) == 0:
        return logits.sum() * 0.0
    normaliser = torch.logsumexp(rows, dim=-1)
    right = rows[torch.arange(len(classes)), classes] - normaliser
    even = rows.mean(dim=-1) - normaliser
    return -((1 - smoothing) * right + smoothing * even).mean()


def loss_or_a_constant(logits, target, smoothing=0.1, ignore_index=-100):
    if bool((target == ignore_index).all()):
        return torch.zeros((), dtype=logits.dtype)
    return loss_by_choosing(logits, target, smoothing, ignore_index)


def loss_by_loop(logits, target, smoothing=0.1, ignore_index=-100):
    log_p = logits.log_softmax(dim=-1)
    losses = []
    for b in range(target.shape[0]):
        for n in range(target.shape[1]):
            if target[b, n] != ignore_index:
                losses.append(-(1 - smoothing) * log_p[b, n, target[b, n]] - smoothing * log_p[b, n].mean())
    return sum(losses) / len(losses) if losses else 0 * logits.sum()


def rate_by_cases(step, d_model=512, warmup=4000):
    if step == 0:
        return 0.0
    if step < warmup:
        return step / (math.sqrt(d_model) * warmup * math.sqrt(warmup))
    return 1 / math.sqrt(d_model * step)


def rate_by_power(step, d_model=512, warmup=4000):
    return pow(d_model, -0.5) * (min(1 / math.sqrt(step), step / warmup**1.5) if step > 0 else 0.0)


def rate_by_peak(step, d_model=512, warmup=4000):
    peak = (d_model * warmup) ** -0.5
    return peak * min(step / warmup, math.sqrt(warmup / max(step, 1)))


def greedy_by_columns(model, source, start_id, end_id, max_new_tokens, pad_id=0):
    B = source.size(0)
    columns = [torch.full((B,), start_id, dtype=torch.long, device=source.device)]
    done = [False] * B
    while len(columns) <= max_new_tokens and not all(done):
        best = model(source, torch.stack(columns, dim=1))[:, -1, :].max(dim=-1).indices
        column = best.clone()
        for b in range(B):
            if done[b]:
                column[b] = pad_id
            elif column[b] == end_id:
                done[b] = True
        columns.append(column)
    return torch.stack(columns, dim=1)


def greedy_in_a_buffer(model, source, start_id, end_id, max_new_tokens, pad_id=0):
    B = source.shape[0]
    out = torch.full((B, 1 + max_new_tokens), pad_id, dtype=torch.long)
    out[:, 0] = start_id
    open_ = torch.ones(B, dtype=torch.bool)
    length = 1
    while length <= max_new_tokens and open_.any():
        logits = model(source, out[:, :length])[:, length - 1]
        out[open_, length] = logits.argmax(-1)[open_]
        open_ = open_ & (out[:, length] != end_id)
        length += 1
    return out[:, :length].clone()


def greedy_row_by_row(model, source, start_id, end_id, max_new_tokens, pad_id=0):
    rows = []
    for b in range(source.shape[0]):
        row = [start_id]
        for _ in range(max_new_tokens):
            row.append(int(model(source[b : b + 1], torch.tensor([row]))[0, -1].argmax()))
            if row[-1] == end_id:
                break
        rows.append(row)
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [pad_id] * (longest - len(row)) for row in rows])


def count_by_names(vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True):
    d_head = d_model // n_heads
    one_attention = n_heads * 3 * d_model * d_head + (n_heads * d_head) * d_model
    one_network = d_model * d_ff + d_ff + d_ff * d_model + d_model
    layers = n_layers * (3 * one_attention + 2 * one_network + 5 * (d_model + d_model))
    return layers + vocab_size * d_model * (3 - 2 * bool(tied))


def count_by_list(vocab_size, d_model=512, n_heads=8, d_ff=2048, n_layers=6, tied=True):
    attention = [(d_model, d_model)] * 4
    network = [(d_model, d_ff), (1, d_ff), (d_ff, d_model), (1, d_model)]
    norm = [(1, d_model)] * 2
    shapes = [(vocab_size, d_model)] * (1 if tied else 3)
    for _ in range(n_layers):
        shapes += attention + norm + network + norm
        shapes += attention + norm + attention + norm + network + norm
    return sum(a * b for a, b in shapes)


RIGHT = {
    "encoder": [encoder_in_steps, encoder_by_reduce, encoder_by_one_hot],
    "decoder": [decoder_in_steps, decoder_by_reduce],
    "transformer_logits": [logits_in_steps, logits_by_positions, logits_row_by_row],
    "shift_right": [shifted_by_roll, shifted_by_padding, shifted_by_lists],
    "label_smoothing_loss": [loss_by_distribution, loss_by_choosing, loss_by_loop, loss_or_a_constant],
    "warmup_schedule": [rate_by_cases, rate_by_power, rate_by_peak],
    "greedy_decode": [greedy_by_columns, greedy_in_a_buffer, greedy_row_by_row],
    "parameter_count": [count_by_names, count_by_list],
    "08_q1": ["b", "(B)"],
    "08_q2": ["d", "D"],
}
