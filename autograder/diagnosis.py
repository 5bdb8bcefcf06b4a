"""Which known mistake an answer makes: the one that does just the same on the same inputs."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from autograder.cases import Prepared, calls, parts, shape_of
from autograder.comparison import compare, over_the_limit, same_nonfinite
from autograder.exercise import Exercise, Mistake
from autograder.observe import Observation, observe
from autograder.text import both

# Not in any catalogue: whatever the exercise, this is what it looks like when only float64 inputs fail, and closely.
LOWER_PRECISION = Mistake(
    "lower_precision",
    None,
    both(
        "Only in float64 is this wrong, and by little: part of it is computed in float32, or a small number is in it that "
        "does not belong there (an ε, a constant with few digits).",
        "只有 float64 的情況錯，而且只差一點點：有一部分是用 float32 算的，或是摻了不該有的小數（多加的 ε、位數不夠的常數）。",
    ),
)


def main_mistake(named: dict[int, str], failed: Sequence[int], shares: Sequence[float]) -> str | None:
    """The mistake that explains most of what was lost, if that is at least half: in one case alone it may be chance."""
    if not named:
        return None
    loss: dict[str, float] = {}
    for i, name in named.items():
        loss[name] = loss.get(name, 0.0) + shares[i]
    best = max(loss, key=lambda name: loss[name])
    lost = sum(shares[i] for i in failed)
    return best if loss[best] >= lost / 2 else None


def diagnose(
    exercise: Exercise,
    cases: Sequence[Prepared],
    observations: Sequence[Observation],
    failed: Sequence[int],
    seed: int,
) -> dict[int, str]:
    """For each failed case the mistake that does just the same there.

    A mistake that explains every failed case goes first; without one, the mistake that explains most of them.
    Two answers may stop with the same exception for quite different reasons, so a mistake is named only if it also
    shows in values: in a failed case, or by passing and failing exactly where the answer does.
    """
    if not failed:
        return {}
    if all(cases[i].case.dtype == torch.float64 for i in failed) and all(
        i < len(observations) and compare(exercise, cases[i], observations[i], torch.float32) is None for i in failed
    ):
        for mistake in exercise.mistakes:  # an error of the same size in the same places is no rounding
            made = mistaken(exercise, mistake, seed)
            if all(same_error(cases[i], observations[i], made[i]) for i in failed):
                return dict.fromkeys(failed, mistake.name)
        return dict.fromkeys(failed, LOWER_PRECISION.name)
    agreement: dict[str, list[int]] = {}
    everywhere: dict[str, bool] = {}
    for mistake in exercise.mistakes:
        made = mistaken(exercise, mistake, seed)
        agreement[mistake.name] = [
            i
            for i in failed
            if i < len(observations)
            and same(cases[i], observations[i], made[i])
            and compare(exercise, cases[i], made[i]) is not None  # a mistake explains only what it gets wrong itself
        ]
        passed = [i for i in range(len(observations)) if i not in failed]
        everywhere[mistake.name] = all(  # both right is enough: rounding may tell them apart
            same(cases[i], observations[i], made[i]) or compare(exercise, cases[i], made[i]) is None for i in passed
        )
        in_values = any(observations[i].error is None for i in agreement[mistake.name])
        exactly = bool(passed) and everywhere[mistake.name] and len(agreement[mistake.name]) == len(failed)
        if not in_values and not exactly:
            agreement[mistake.name] = []
    order = sorted(
        agreement, key=lambda name: (len(agreement[name]), everywhere[name]), reverse=True
    )  # stable: the catalogue's order decides ties
    named: dict[int, str] = {}
    for name in order:
        for i in agreement[name]:
            named.setdefault(i, name)
    return named


@lru_cache(maxsize=4096)
def mistaken(exercise: Exercise, mistake: Mistake, seed: int) -> tuple[Observation, ...]:
    """What a mistake does in every case."""
    return tuple(observe(mistake.answer, call, exercise.driver) for call in calls(exercise, seed))


def same_error(case: Prepared, seen: Observation, made: Observation) -> bool:
    """Whether an answer and a mistake differ from the exact values by just the same."""
    mine, theirs, exact = parts(seen.value), parts(made.value), parts(case.exact.value)
    if not len(mine) == len(theirs) == len(exact):
        return False
    for x, y, e in zip(mine, theirs, exact):
        if isinstance(e, Tensor) and e.is_floating_point():
            if not (isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape == e.shape):
                return False
            error = float((y.double() - e).abs().max())
            if not float((x.double() - y.double()).abs().max()) <= 0.01 * error:  # where a mistake makes NaN: no
                return False
    return True


def same(case: Prepared, seen: Observation, made: Observation) -> bool:
    """Whether an answer and a mistake did the same thing in a case, up to rounding."""
    if seen.error is not None or made.error is not None:
        kinds = [None if o.error is None else o.error.split(":")[0] for o in (seen, made)]
        return kinds[0] == kinds[1]
    if bool(seen.changed_inputs) != bool(made.changed_inputs) or seen.changed_settings != made.changed_settings:
        return False
    if not alike(case, seen.value, made.value) or over_the_limit(case, seen) != over_the_limit(case, made):
        return False
    if case.call.cotangents is None:
        return True
    if seen.gradients is None or made.gradients is None:
        return seen.gradients is None and made.gradients is None
    return all(
        alike_gradient(x, y, float(z.double().abs().max()) if z is not None and z.numel() else 0.0)
        for x, y, z in zip(seen.gradients, made.gradients, case.exact.gradients or ())
    )


def alike_gradient(x: Tensor | None, y: Tensor | None, scale: float) -> bool:
    if x is None or y is None:
        there = x if y is None else y
        return there is None or not bool(there.abs().max() > 0)
    return alike_tensor(x, y, scale)


def alike(case: Prepared, a: Any, b: Any) -> bool:
    left, right = parts(a), parts(b)
    if shape_of(a) != shape_of(b):
        return False
    exact = parts(case.exact.value)
    for i, (x, y) in enumerate(zip(left, right)):
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            e = exact[i] if i < len(exact) else None
            scale = float(e.abs().max()) if isinstance(e, Tensor) and e.numel() and e.is_floating_point() else 0.0
            if not alike_tensor(x, y, scale):
                return False
        elif isinstance(x, float) and isinstance(y, float):
            if not math.isclose(x, y, rel_tol=1e-6) and not (math.isnan(x) and math.isnan(y)):
                return False
        elif type(x) is not type(y) or x != y:  # the types first: a tensor beside a number has no one truth value
            return False
    return True


def alike_tensor(x: Tensor, y: Tensor, scale: float) -> bool:
    """Equal up to what another order of the same operations may do; `scale` is the size of the right answer."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if not x.is_floating_point():
        return torch.equal(x, y)
    a, b = x.double(), y.double()
    finite = a.isfinite() & b.isfinite()
    if not bool((finite | same_nonfinite(a, b)).all()):
        return False
    a, b = a[finite], b[finite]
    if not a.numel():
        return True
    size = max(float(b.abs().max()), min(scale, float(b.abs().max()) * 1e3))
    tolerance = {torch.float64: 1e-7, torch.float32: 2e-4}.get(x.dtype, 8 * torch.finfo(x.dtype).eps)
    return float((a - b).abs().max()) <= tolerance * size
