"""Lesson 00: right answers by loops, broadcasting, stacking, logsumexp, one-hot products, gathered rows."""

import torch
import torch.nn.functional as F


def inner_by_loop(u, v):
    total = u.new_zeros(())
    for i in range(len(u)):
        total = total + u[i] * v[i]
    return total


def inner_by_python_sum(u, v):
    return sum(a * b for a, b in zip(u, v))


def inner_by_torch_sum(u, v):
    return torch.sum(torch.mul(u, v), dim=0)


def matmul_by_two_loops(A, B):
    rows = []
    for i in range(A.shape[0]):
        rows.append(torch.stack([(A[i] * B[:, j]).sum() for j in range(B.shape[1])]))
    return torch.stack(rows)


def matmul_by_filling(A, B):
    C = A.new_zeros(A.shape[0], B.shape[1])
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = (A[i, :] * B[:, j]).sum()
    return C


def matmul_by_row_combinations(A, B):
    return torch.stack([(row.unsqueeze(1) * B).sum(0) for row in A])


def matmul_by_three_loops(A, B):
    n, p, m = *A.shape, B.shape[1]
    C = torch.zeros(n, m, dtype=A.dtype, device=A.device)
    for k in range(p):
        C = C + A[:, k].reshape(n, 1) * B[k].reshape(1, m)
    return C


def rows_by_loop(x, A):
    total = torch.zeros_like(A[0])
    for weight, row in zip(x, A):
        total = total + weight * row
    return total


def rows_by_transpose(x, A):
    return (x * A.T).sum(dim=1)


def rows_by_python_sum(x, A):
    return sum(x[i] * A[i] for i in range(len(x)))


def rows_by_columns(x, A):
    """Entry j is the inner product of x and column j."""
    return torch.stack([(x * column).sum() for column in A.unbind(dim=1)])


def softmax_in_float32(scores, dim=-1):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    e = (wide - wide.max(dim=dim, keepdim=True).values).exp()
    return (e / e.sum(dim=dim, keepdim=True)).to(scores.dtype)


def softmax_by_logsumexp(scores, dim=-1):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return torch.exp(wide - torch.logsumexp(wide, dim=dim, keepdim=True)).type_as(scores)


def softmax_with_axis_last(scores, dim=-1):
    rows = scores.movedim(dim, -1)
    e = torch.exp(rows - torch.amax(rows, -1, keepdim=True).detach())
    return torch.div(e, e.sum(-1).unsqueeze(-1)).movedim(-1, dim)


def softmax_by_unsqueeze(scores, dim=-1):
    shifted = scores - scores.amax(dim).unsqueeze(dim)
    return shifted.exp() / shifted.exp().sum(dim).unsqueeze(dim)


def embed_by_one_hot(ids, W_E):
    return F.one_hot(ids, num_classes=W_E.shape[0]).to(W_E.dtype) @ W_E


def embed_by_index_select(ids, W_E):
    return torch.index_select(W_E, 0, ids.flatten()).reshape(*ids.shape, W_E.shape[1])


def embed_by_comparison(ids, W_E):
    chosen = ids.unsqueeze(-1) == torch.arange(len(W_E), device=ids.device)
    return torch.matmul(chosen.type_as(W_E), W_E)


def embed_by_loop(ids, W_E):
    rows = [W_E[int(i)] for i in ids.reshape(-1)]
    return torch.stack(rows).reshape(*ids.shape, -1)


def softmax_by_vmap(scores, dim=-1):
    def of_row(row):
        e = torch.exp(row - row.max())
        return e / e.sum()

    moved = scores.movedim(dim, -1)
    return torch.vmap(of_row)(moved.reshape(-1, moved.shape[-1])).reshape(moved.shape).movedim(-1, dim)


RIGHT = {
    "inner_product": [inner_by_loop, inner_by_python_sum, inner_by_torch_sum],
    "matmul_as_inner_products": [
        matmul_by_two_loops, matmul_by_filling, matmul_by_row_combinations, matmul_by_three_loops,
    ],
    "row_combination": [rows_by_loop, rows_by_transpose, rows_by_python_sum, rows_by_columns],
    "softmax": [softmax_in_float32, softmax_by_logsumexp, softmax_with_axis_last, softmax_by_unsqueeze, softmax_by_vmap],
    "embed": [embed_by_one_hot, embed_by_index_select, embed_by_comparison, embed_by_loop],
    "00_q1": ["d", "(D)"],
}  # fmt: skip
