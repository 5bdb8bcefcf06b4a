"""Every public call of torch, tried on the inputs of an elementary exercise: which of them give the answer by themselves?

    python -m autograder.tests.single_calls softmax

prints those that the exercise forbids and those that it allows (there should be none), as JSON.
"""

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder import get
from autograder.exercises.forbidden import TORCH
from autograder.watch import ForbiddenCall, Sighting, find, watch

# What reads or writes files, ends the process, waits, changes settings, or crashes on tensors that are not quantized.
LEFT_OUT = (
    "save", "load", "set_", "manual", "seed", "compile", "breakpoint", "fork", "exit", "wait", "from_file", "hub", "cuda",
    "quit", "quantized", "classes", "export", "profiler", "use_det", "autocast",
)  # fmt: skip
SECONDS = 2.0  # for one call

Trial = tuple[tuple[Any, ...], Tensor]


class TooSlow(BaseException):
    pass


def stop(*_: Any) -> None:
    raise TooSlow


def public_calls() -> Iterator[tuple[str, Any]]:
    for owner in TORCH:
        holder = find(owner)
        for name in dir(holder):
            thing = getattr(holder, name, None)
            left_out = name.startswith("_") or any(part in name for part in LEFT_OUT)
            if callable(thing) and not isinstance(thing, type) and not left_out:
                yield f"{owner}.{name}", thing


def products() -> Iterator[Trial]:
    A, B = torch.randn(3, 4), torch.randn(4, 5)
    sparse, zeros = A.to_sparse(), torch.zeros(3, 5)
    for args in (
        (A, B), (A, B.mT.contiguous()), (zeros, A, B), (A[None], B[None]), (zeros, A[None], B[None]), (A, B, 1),
        (zeros[None], A[None], B[None]), ([A, B],), (sparse, B), (zeros, sparse, B), (A.to_sparse_csr(), B),
        ("ij,jk->ik", A, B), (A[None], B[None], torch.zeros(5)), (A, B, None),
        (A, torch.ones(3, 1), B.mT.contiguous()[:, :, None]),
    ):  # fmt: skip
        yield args, A @ B
    for k in (1, 2, 3):
        places = (slice(None), slice(None)) + (None,) * k
        yield (A[places], B.mT[places]), A @ B
        yield (A[places], B[places]), A @ B
    blocks = torch.zeros(12, 12)
    blocks[:3, 3:7], blocks[3:7, 7:] = A, B
    yield (blocks, 2), blocks @ blocks
    yield (torch.eye(12) - blocks,), torch.eye(12) + blocks + blocks @ blocks


def inner_products() -> Iterator[Trial]:
    u, v = torch.randn(6), torch.randn(6)
    column = (slice(None), None)
    for args in (
        (u, v), (u, v, 0), (u[None], v[None]), (u[None, None], v[None, None]), (torch.zeros(1), u[None], v),
        (u[None, :, None], v[:, None, None]), (torch.zeros(1, 1), u[None], v[column]), (u[None], v[column]), (u, v, 1),
        ("i,i->", u, v), ([u[None], v[column]],),
    ):  # fmt: skip
        yield args, u @ v
    yield (u / u.norm(), v / v.norm(), 0), u @ v / u.norm() / v.norm()


def combinations() -> Iterator[Trial]:
    x, A = torch.rand(4), torch.rand(4, 5)
    for args in (
        (x, A), (A.mT, x), (torch.zeros(5), A.mT, x), (x, A.mT.contiguous()), (x[None], A), (A, x, 0), ([x[None], A],),
        ("i,ij->j", x, A), (x[None, None], A[None], torch.zeros(5)), (x[None, :, None], A[:, :, None]),
        (x[None, :, None], A.mT[:, :, None]), (x[None, None], A[None]), (torch.zeros(1, 5), x[None], A),
        (x[None], torch.zeros(1, 5), A.mT, torch.zeros(5, 5)), (torch.arange(4)[None], A, None, 1.0, 2.0, False, "sum", x),
        (torch.arange(4)[None], A, None, None, 2.0, False, "sum", False, x[None]),
    ):  # fmt: skip
        yield args, x @ A


def softmaxes() -> Iterator[Trial]:
    x, classes = torch.randn(3, 6), torch.tensor([1, 2, 3])
    for z, right in ((x, x.softmax(-1)), (x, x.log_softmax(-1)), (-x, x.softmax(-1))):
        for args in ((z,), (z, -1), (z, 1), (z, 1, torch.float32), (z, torch.ones(3, 6).bool(), 1)):
            yield args, right
    yield (x, classes), F.nll_loss(x.log_softmax(-1), classes)
    yield (
        (x[None], x[None], torch.eye(6)[None, :3]),
        F.scaled_dot_product_attention(x[None], x[None], torch.eye(6)[None, :3]),
    )


def norms() -> Iterator[Trial]:
    """Rows of mean 0, on which every norm does the same up to ε, and their transpose."""
    x = torch.randn(4, 6) * 3
    x = torch.cat([x, -x], dim=-1)
    right, d = F.layer_norm(x, (12,)), 12
    for args in (
        (x,), (x, (d,)), (x, (d,), None, None, 1e-5), (x, 1), (x, d), (x, None, None, 1e-5), (x, 2, 0, d**0.5),
        (x, torch.ones(d), torch.zeros(d), 1e-5), (x[None], None, None, None, None, True, 0.1, 1e-5, False),
        (x, None, None, 4, d, 1, 1, 1e-5), (x[None],), (x, None, None),
    ):  # fmt: skip
        yield args, right
    for args in (
        (x.mT, None, None, None, None, True), (x.mT, None, None, None, None, True, 0.1, 1e-5, False),
        (x.mT, None, None, None, None, True, 0.1, 1e-5), (x.mT, torch.ones(4), torch.zeros(4), None, None, True, 0.1, 1e-5),
    ):  # fmt: skip
        yield args, right.mT
    yield (x, 2.0, -1), x / x.norm(dim=-1, keepdim=True)


def steps() -> Iterator[Trial]:
    x, h, W_X, W_H, b = torch.randn(1, 3), torch.rand(1, 4), torch.randn(3, 4), torch.randn(4, 4), torch.randn(4)
    right, zero = torch.tanh(x @ W_X + h @ W_H + b), torch.zeros(4)
    yield (x, h, W_X.mT, W_H.mT, b, zero), right
    # As a layer's, the same weights would crash torch.gru, which reads three gates from them.
    # A GRU whose gates stand open: the reset gate lets all of h through, the update gate none.
    far = torch.full((4,), 1e4)
    gates = torch.zeros(8, 3), torch.zeros(8, 4)
    W_3, b_3 = torch.cat([gates[0], W_X.mT]), torch.cat([far, -far, b])
    H_3 = torch.cat([gates[1], W_H.mT])
    yield (x, h, W_3, H_3, b_3, torch.zeros(12)), right
    yield (x[None], h[None], [W_3, H_3, b_3, torch.zeros(12)], True, 1, 0.0, False, False, True), right


def lstm_steps() -> Iterator[Trial]:
    x, h, c, W_X, W_H, b = (torch.randn(s) for s in ((1, 3), (1, 4), (1, 4), (3, 16), (4, 16), (16,)))
    h_new, _ = torch.lstm_cell(x, (h, c), W_X.mT, W_H.mT, b, torch.zeros(16))
    yield (x, (h, c), W_X.mT, W_H.mT, b, torch.zeros(16)), h_new
    weights = W_X.mT.contiguous(), W_H.mT.contiguous(), b, torch.zeros(16)
    yield (x[None], (h[None], c[None]), [*weights], True, 1, 0.0, False, False, True), h_new
    yield (x[None], *weights, h[None], c[None], False, [], 2, 4, 1, True, False, False, False), h_new


TRIALS = {
    "inner_product": inner_products,
    "matmul_as_inner_products": products,
    "row_combination": combinations,
    "softmax": softmaxes,
    "layer_norm": norms,
    "rms_norm": norms,
    "batch_norm": norms,
    "rnn_neuron": steps,
    "rnn_step": steps,
    "rnn_sequence": steps,
    "lstm_step": lstm_steps,
}


def fresh(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(fresh, value))
    return value.clone() if isinstance(value, Tensor) else value


def gives(call: Any, trial: Trial) -> bool:
    """Whether a call gives the right values, a common factor apart."""
    args, right = trial
    result = call(*fresh(args))
    while isinstance(result, tuple | list) and result:
        result = result[0]
    if not isinstance(result, Tensor) or result.numel() != right.numel():
        return False
    mine = (result if result.layout == torch.strided else result.to_dense()).reshape(-1).double()
    theirs = right.reshape(-1).double()
    if mine.numel() > 1:
        mine, theirs = mine / mine.norm(), theirs / theirs.norm()
    return torch.allclose(mine.abs(), theirs.abs(), atol=1e-4)


def tried(name: str) -> dict[str, list[str]]:
    """Names of calls that give the answer, by whether the watch lets them pass."""
    found: dict[str, list[str]] = {"forbidden": [], "allowed": []}
    trials = list(TRIALS[name]())
    for dotted, call in public_calls():
        for trial in trials:
            sightings: list[Sighting] = []
            try:
                signal.setitimer(signal.ITIMER_REAL, SECONDS)
                if not gives(call, trial):
                    continue
                with watch(get(name).forbidden, sightings):
                    call(*fresh(trial[0]))
            except ForbiddenCall:
                pass
            except (Exception, TooSlow):  # made for something else
                continue
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            found["forbidden" if sightings else "allowed"].append(dotted)
            break
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(json.dumps(tried(sys.argv[1])), flush=True)
    os._exit(0)  # no cleaning up after all that
