"""The meter sees what is made and what is alive, and nothing else."""

import tracemalloc

import numpy as np
import pytest
import torch

from autograder.meter import PYTHONS_OWN, Meter
from autograder.watch import watch

N, M, D = 64, 48, 4


def reading(f, *arguments):
    with torch.no_grad(), Meter(list(arguments)) as meter:
        f(*arguments)
    return meter.reading


def tensors():
    return torch.randn(N, D), torch.randn(M, D), torch.randn(M, D)


def full(q, k, v):
    return torch.softmax(q @ k.mT, dim=-1) @ v


def by_row(q, k, v):
    return torch.stack([torch.softmax(k @ row, dim=-1) @ v for row in q])


def kept_rows(q, k, v):
    rows = [torch.softmax(k @ row, dim=-1) for row in q]
    return torch.stack([row @ v for row in rows])


def test_a_full_matrix_is_seen():
    seen = reading(full, *tensors())
    assert seen.largest == N * M and seen.peak >= N * M


def test_rows_that_are_let_go_cost_one_row():
    seen = reading(by_row, *tensors())
    assert seen.largest == N * D and seen.peak <= 2 * N * D + 3 * M


def test_rows_that_are_kept_add_up():
    seen = reading(kept_rows, *tensors())
    assert seen.largest < N * M <= seen.peak


def test_views_and_expanded_arguments_cost_nothing():
    seen = reading(lambda q: q.expand(1000, N, D).transpose(0, 1)[:, :7], torch.randn(1, N, D))
    assert (seen.largest, seen.peak) == (0, 0)


def test_a_boolean_mask_counts_like_any_tensor():
    assert reading(lambda: torch.ones(N, M, dtype=torch.bool)).largest == N * M


def test_a_view_keeps_its_whole_storage_alive():
    def view():
        kept = torch.ones(N, M)[:1]
        return kept + 1

    assert reading(view).peak == N * M + M


def test_what_is_hidden_in_an_argument_s_memory_counts():
    def hidden(q):
        storage = q.untyped_storage()
        before = storage.nbytes()
        storage.resize_(before + 4 * N * M)
        return torch.empty(0).set_(storage, before // 4, (N, M)).fill_(1.0)

    assert reading(hidden, torch.ones(N, D)).largest == N * M


LONG, SHORT = 640, 500


def by_numbers(x):
    return np.array([float(number) for number in x.flatten()], dtype=np.float32).reshape(x.shape)


def by_bytes(x):
    return np.frombuffer(bytes(x.untyped_storage()), dtype=np.float32).reshape(x.shape)


def in_python(q, k, v):
    rows = [[float(q_i @ k_j) for k_j in k] for q_i in q]
    return torch.tensor(rows) @ v


def in_numpy(out):
    def attention(q, k, v):
        scores = out(q) @ out(k).T
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return torch.tensor(scores @ out(v))

    return attention


@pytest.mark.hostile
@pytest.mark.parametrize("answer", [in_numpy(by_numbers), in_numpy(by_bytes), in_python])
def test_a_full_matrix_outside_of_torch_is_seen(answer):
    seen = reading(answer, torch.randn(LONG, D), torch.randn(SHORT, D), torch.randn(SHORT, D))
    assert seen.peak > LONG * SHORT // 2


def test_reading_a_few_numbers_costs_nothing():
    def rows(q, k):
        best = [max(float(score) for score in k @ row) for row in q]
        return torch.tensor(best)

    assert reading(rows, torch.randn(N, D), torch.randn(M, D)).peak < 4 * N


def test_who_traces_python_s_memory_at_home_may_go_on():
    tracemalloc.start()
    try:
        reading(full, *tensors())
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    reading(full, *tensors())
    assert not tracemalloc.is_tracing()


def test_what_the_watch_notes_of_an_answer_is_well_below_what_is_left_to_python():
    """Else a right answer of many operations loses a metered case, now and then."""
    x = torch.ones(2, 2)

    def of_many_operations():
        for _ in range(200):
            torch.cosine_similarity(torch.einsum("ij,jk->ik", x, x), x)

    with watch(("torch.softmax",), []):
        of_many_operations()  # the first time pays for what is kept
    tracemalloc.start()
    with watch(("torch.softmax",), []):
        of_many_operations()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < PYTHONS_OWN / 2
