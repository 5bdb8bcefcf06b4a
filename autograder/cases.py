"""What an answer is asked: the calls of all cases for a seed, and what the reference makes of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, Draw, Exercise
from autograder.observe import Call, Observation, observe, tensors_in

HALF = (torch.float16, torch.bfloat16)
NUDGES = 3  # a single nudge of a single number may cancel by chance; three hardly do


def calls(exercise: Exercise, seed: int) -> list[Call]:
    """The calls of all cases for one seed, the directions of their gradients included."""
    return [prepared(exercise, case, seed).call for case in exercise.cases]


@dataclass(frozen=True)
class Prepared:
    """A case with its inputs and what the reference makes of them."""

    call: Call
    exact: Observation  # the reference in float64
    plain: Observation  # the plain formula in the inputs' own dtype
    nudged: tuple[Observation, ...]  # the reference in float64 on inputs moved by one rounding of float32
    case: Case


@lru_cache(maxsize=4096)
def prepared(exercise: Exercise, case: Case, seed: int) -> Prepared:
    draw = Draw(exercise.seed_of(case, seed), case.dtype)
    drawn = case.draw(draw)
    args, kwargs = (
        drawn if len(drawn) == 2 and isinstance(drawn[1], dict) and isinstance(drawn[0], tuple) else (drawn, {})
    )
    call = Call(tuple(args), dict(kwargs), metered=case.meter > 0)
    if case.gradients:
        result = observe(exercise.reference, call, exercise.driver).value
        directions = tuple(
            draw.normal(*y.shape).to(y.dtype) if y.is_floating_point() and i in (case.gradients_of or (i,)) else None
            for i, y in enumerate(tensors_in(result))
        )
        call = replace(call, cotangents=directions)
    exact = observe(exercise.reference, as_double(call), exercise.driver)
    if type(exact.value) is int:  # a count of bytes depends on the very dtype that is named
        exact = observe(exercise.reference, call, exercise.driver)
    if (exact.error or "").split(":")[0] != case.raises:
        raise RuntimeError(f"the reference of {exercise.name} fails on case {case.name}: {exact.error}")
    return Prepared(
        call,
        exact,
        observe(exercise.plain or exercise.reference, call, exercise.driver),
        tuple(
            observe(exercise.reference, nudge(as_double(call), draw), exercise.driver)
            for _ in range(0 if case.dtype in HALF else NUDGES)
        ),
        case,
    )


def as_double(value: Any) -> Any:
    """Every floating-point tensor inside `value` in float64, and float64 where a dtype is asked for."""
    return mapped(value, lambda x: x.double() if x.is_floating_point() else x, torch.float64)


def nudge(value: Any, draw: Draw) -> Any:
    """Every number moved by about one float32 rounding, each by its own amount, so that moves do not cancel in differences."""
    eps = torch.finfo(torch.float32).eps / 2

    def move(x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        return x * (1 + eps * draw.normal(*x.shape).double())

    return replace(mapped(value, move), cotangents=value.cotangents)


def mapped(value: Any, f: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None) -> Any:
    """`value` with `f` applied to every tensor in it; `dtype`, where given, in the place of every floating-point dtype."""
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return dtype or value
    if isinstance(value, tuple | list):
        return type(value)(mapped(item, f, dtype) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, f, dtype) for key, item in value.items()}
    if isinstance(value, Call):
        parts_of_it = (mapped(part, f, dtype) for part in (value.args, value.kwargs, value.cotangents))
        return Call(*parts_of_it)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{key: mapped(getattr(value, key), f, dtype) for key in value.__dataclass_fields__})
    return value


def value_part(seen: Observation, path: tuple[int, ...]) -> Any:
    return at(seen.value, path)


def at(value: Any, path: tuple[int, ...]) -> Any:
    """The part of nested tuples at a path; None where there is none."""
    for i in path:
        value = value[i] if isinstance(value, tuple) and i < len(value) else None
    return value


def leaf_paths(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The paths to all that is no tuple in nested tuples, in order."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from leaf_paths(item, (*path, i))
    else:
        yield path


def gradient_part(seen: Observation, i: int) -> Any:
    return seen.gradients[i] if seen.gradients is not None and i < len(seen.gradients) else None


def parts(value: Any) -> tuple[Any, ...]:
    """What comes back, tuples inside tuples laid side by side."""
    return tuple(leaf for item in value for leaf in parts(item)) if isinstance(value, tuple) else (value,)


def shape_of(value: Any) -> Any:
    """How tuples are nested in it."""
    return tuple(map(shape_of, value)) if isinstance(value, tuple) else None
