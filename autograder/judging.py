"""Decide what an answer is worth: compare what it did with what the reference does, and name the mistake.

Only the course's own code runs here. What the student's code did comes in as `Observation`s, so the same decision is
made in a notebook (`judge`) and for a submission whose answers ran in a sandbox (`decide`).
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from autograder.exercise import Case, CaseResult, Draw, Exercise, Mistake, Verdict, get
from autograder.guard import Sighting, forbidden_in_source
from autograder.observe import Call, Observation, Opaque, observe, tensors_in
from autograder.text import Text, both

HALF = (torch.float16, torch.bfloat16)
# How far a right answer may be from the exact value, in units of what rounding does to the reference. That is itself a
# sample and small by luck now and then: with a factor of 16, and nudges all of one size, a right answer failed once in
# some thousands (scores of 10⁴ whose nudges cancelled in the softmax). With these values none of 8 850 failed, and the
# worst came to 0.8 of what is allowed. The nearest mistake, the one-pass variance, is hundreds of roundings away.
ROUNDING_FACTOR = 64.0
NUDGES = 3  # a single nudge of a single number may cancel by chance; three hardly do
ROUNDING_FLOOR = 64.0  # units of the dtype's epsilon, relative to the largest entry


# ------------------------------------------------------------------------------------------------- public entry


def judge(name: str, answer: Any, seed: int = 0) -> Verdict:
    """Judge an answer in plain Python.

    Args:
        name: of the exercise.
        answer: the student's function, or the letter of a question.
        seed: of the inputs.

    Returns:
        A `Verdict` with points, the recognised mistake and a sentence in both languages.

    Raises:
        KeyError: if there is no such exercise.

    Example:
        >>> from autograder import judge
        >>> judge("relevance", lambda q, K: q @ K).mistake
        'columns_of_K'
    """
    exercise = get(name)
    if answer is exercise.reference:  # the course's own tests hand it in; a notebook's check refuses it by name
        guards: tuple[Any, ...] = exercise.forbidden
    else:
        guards = guards_of(exercise)
    observations = [observe(answer, call, exercise.driver, guards) for call in calls(exercise, seed)]
    in_source = () if answer is exercise.reference else sightings_in(answer, exercise)
    return decide(exercise, observations, seed, in_source)


def guards_of(exercise: Exercise) -> tuple[Any, ...]:
    """What must not be called while an answer runs: the forbidden built-ins and the reference itself."""
    own = (exercise.reference,) if inspect.isfunction(exercise.reference) else ()
    return (*exercise.forbidden, *own)


def sightings_in(answer: Any, exercise: Exercise) -> list[Sighting]:
    """Forbidden names in the source of a function, with the lines of its file or cell."""
    try:
        lines, first = inspect.getsourcelines(answer)
    except (OSError, TypeError):
        return []
    return [replace(s, line=s.line + first - 1) for s in forbidden_in_source("".join(lines), exercise.forbidden)]


# ------------------------------------------------------------------------------------------------- what is asked


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
    magnitude: float  # see `Case.magnitude`


@lru_cache(maxsize=4096)
def prepared(exercise: Exercise, case: Case, seed: int) -> Prepared:
    draw = Draw(exercise.seed_of(case, seed), case.dtype)
    drawn = case.draw(draw)
    args, kwargs = (
        drawn if len(drawn) == 2 and isinstance(drawn[1], dict) and isinstance(drawn[0], tuple) else (drawn, {})
    )
    call = Call(tuple(args), dict(kwargs))
    if case.gradients:
        result = observe(exercise.reference, call, exercise.driver).value
        directions = tuple(
            draw.normal(*y.shape).to(y.dtype) if y.is_floating_point() else None for y in tensors_in(result)
        )
        call = replace(call, cotangents=directions)
    exact = observe(exercise.reference, as_double(call), exercise.driver)
    if exact.error is not None:
        raise RuntimeError(f"the reference of {exercise.name} fails on case {case.name}: {exact.error}")
    return Prepared(
        call,
        exact,
        observe(exercise.plain or exercise.reference, call, exercise.driver),
        tuple(
            observe(exercise.reference, nudge(as_double(call), draw), exercise.driver)
            for _ in range(0 if case.dtype in HALF else NUDGES)
        ),
        case.magnitude,
    )


def as_double(value: Any) -> Any:
    """Every floating-point tensor inside `value` in float64."""
    return mapped(value, lambda x: x.double() if x.is_floating_point() else x)


def nudge(value: Any, draw: Draw) -> Any:
    """Every number moved by about one float32 rounding, each by its own amount, so that moves do not cancel in differences."""
    eps = torch.finfo(torch.float32).eps / 2

    def move(x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        return x * (1 + eps * draw.normal(*x.shape).double())

    return replace(mapped(value, move), cotangents=value.cotangents)


def mapped(value: Any, f: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, tuple):
        return tuple(mapped(item, f) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, f) for key, item in value.items()}
    if isinstance(value, Call):
        return Call(mapped(value.args, f), mapped(value.kwargs, f), mapped(value.cotangents, f))
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{key: mapped(getattr(value, key), f) for key in value.__dataclass_fields__})
    return value


# ------------------------------------------------------------------------------------------------- the decision


def decide(
    exercise: Exercise, observations: Sequence[Observation], seed: int, in_source: Sequence[Sighting] = ()
) -> Verdict:
    """The verdict on what an answer did, one observation per case.

    Args:
        observations: in the order of the cases; a missing one counts as failed.
        seed: the one the calls were drawn from.
        in_source: forbidden names found in the answer's source.
    """
    prepared_cases = [prepared(exercise, case, seed) for case in exercise.cases]
    if observations and all(o.not_written for o in observations):
        return Verdict(exercise.name, 0.0, exercise.points, written=False, sentence=both("Not started.", "尚未作答。"))
    sightings = tuple(dict.fromkeys([*in_source, *(s for o in observations for s in o.forbidden)]))
    differences = [
        compare(exercise, p, o) for p, o in zip(prepared_cases, [*observations, *[MISSING] * len(exercise.cases)])
    ]
    total = sum(case.weight for case in exercise.cases)
    shares = [exercise.points * case.weight / total for case in exercise.cases]
    failed = [i for i, difference in enumerate(differences) if difference is not None]
    named = diagnose(exercise, prepared_cases, observations, failed, seed)
    mistake = None if sightings else main_mistake(named, failed, shares)
    points = round(sum(share for i, share in enumerate(shares) if i not in failed), 2)
    explained = set(failed) if sightings else {i for i in failed if mistake is not None and named.get(i) == mistake}
    if sightings:
        points, sentence = 0.0, forbidden_sentence(sightings)
    elif not failed:
        points, sentence = float(exercise.points), both("All cases pass.", "所有情況都通過。")
    elif mistake is not None:
        sentence = next(m.message for m in exercise.mistakes if m.name == mistake)
    else:
        label, what = exercise.cases[failed[0]].label, differences[failed[0]] or {}
        sentence = both(f"Case “{label['en']}”: {what['en']}", f"情況「{label['zh-TW']}」：{what['zh-TW']}")
        explained = {failed[0]}
    results = tuple(
        CaseResult(
            case.name, case.label, i not in failed, 0.0 if i in failed else shares[i], differences[i], named.get(i),
            i in explained,
        )
        for i, case in enumerate(exercise.cases)
    )  # fmt: skip
    return Verdict(
        exercise.name, points, exercise.points, results, mistake, sightings, True, sentence, tuple(observations)
    )


MISSING = Observation(error="no result")


def forbidden_sentence(sightings: Sequence[Sighting]) -> Text:
    def line(s: Sighting, word: str) -> str:
        return f"{s.name}" + (word.format(s.line) if s.line else "")

    en = ", ".join(line(s, " (line {})") for s in sightings)
    zh = "、".join(line(s, "（第 {} 行）") for s in sightings)
    return both(
        f"This exercise asks you to write it yourself; not allowed here: {en}. It gets no points until the call is gone.",
        f"這題要自己寫出來，不能使用：{zh}。移除之後才會計分。",
    )


def main_mistake(named: dict[int, str], failed: Sequence[int], shares: Sequence[float]) -> str | None:
    """The mistake that explains most of what was lost, if it explains the first failure or at least half of the loss."""
    if not named:
        return None
    loss: dict[str, float] = {}
    for i, name in named.items():
        loss[name] = loss.get(name, 0.0) + shares[i]
    best = max(loss, key=lambda name: loss[name])
    lost = sum(shares[i] for i in failed)
    return best if named.get(failed[0]) == best or loss[best] >= lost / 2 else None


# ------------------------------------------------------------------------------------------------- comparison


def compare(exercise: Exercise, case: Prepared, seen: Observation) -> Text | None:
    """What differs first between an answer and the reference, or None."""
    if seen.not_written:
        return both("not written yet.", "尚未作答。")
    if seen.error is not None:
        return both(f"your function stopped with {seen.error}", f"函式執行到一半就停了：{seen.error}")
    if seen.changed_inputs:
        which = ", ".join(argument_names(exercise, seen.changed_inputs))
        return both(f"it changes its argument {which} in place.", f"就地改動了引數 {which}。")
    if seen.changed_settings:
        which = ", ".join(seen.changed_settings)
        return both(f"it changes a global setting of torch: {which}.", f"改動了 torch 的全域設定：{which}。")
    difference = compare_values(exercise, case, seen.value)
    if difference is None and case.call.cotangents is not None:
        difference = compare_gradients(exercise, case, seen)
    return difference


def compare_values(exercise: Exercise, case: Prepared, value: Any) -> Text | None:
    expected, got = parts(case.exact.value), parts(value)
    if isinstance(case.exact.value, tuple) != isinstance(value, tuple) or len(expected) != len(got):
        kind = "tuple" if isinstance(case.exact.value, tuple) else type_name(expected[0])
        count = f" of {len(expected)}" if kind == "tuple" else ""
        mine = f"a tuple of {len(got)}" if isinstance(value, tuple) else type_name(value)
        mine_zh = f"{len(got)} 個值的 tuple" if isinstance(value, tuple) else type_name(value)
        count_zh = f"（{len(expected)} 個值）" if count else ""
        return both(f"it should return a {kind}{count}, not {mine}.", f"應該回傳 {kind}{count_zh}，而不是 {mine_zh}。")
    for i, (e, g) in enumerate(zip(expected, got)):
        name = exercise.results[i] if i < len(exercise.results) else f"result {i + 1}"
        dtype = result_dtype(case, i)
        rounding = rounding_of(case, partial(value_part, i=i), dtype)
        difference = compare_leaf(name, e, g, dtype, rounding, exercise.exact_zeros, case.magnitude)
        if difference is not None:
            return difference
    return None


def compare_gradients(exercise: Exercise, case: Prepared, seen: Observation) -> Text | None:
    if seen.gradient_error is not None or seen.gradients is None:
        why = seen.gradient_error or "no gradients"
        return both(f"no gradient flows back: {why}.", f"梯度傳不回去：{why}。")
    inputs = float_arguments(exercise, case.call)
    for i, (name, x) in enumerate(inputs):
        expected = (case.exact.gradients or ())[i]
        got = seen.gradients[i] if i < len(seen.gradients) else None
        if expected is None or not expected.abs().max() > 0:
            expected = torch.zeros_like(x, dtype=torch.float64)
        if got is None:
            got = torch.zeros_like(x)
        label = f"gradient of {name}"
        rounding = rounding_of(case, partial(gradient_part, i=i), x.dtype)
        difference = compare_leaf(label, expected, got, x.dtype, rounding, False)
        if difference is not None:
            return difference
    return None


def compare_leaf(
    name: str,
    expected: Any,
    got: Any,
    dtype: torch.dtype | None,
    rounding: float,
    exact_zeros: bool,
    magnitude: float = 0.0,
) -> Text | None:
    if not isinstance(expected, Tensor):
        return compare_number(name, expected, got)
    if not isinstance(got, Tensor):
        return both(
            f"{name} should be a torch.Tensor, not {type_name(got)}.",
            f"{name} 應該是 torch.Tensor，而不是 {type_name(got)}。",
        )
    if got.shape != expected.shape:
        e, g = shape_text(expected), shape_text(got)
        return both(f"{name} should have shape {e}, yours has {g}.", f"{name} 的形狀應該是 {e}，你的是 {g}。")
    if got.dtype != dtype:
        return both(
            f"{name} should be {dtype}, yours is {got.dtype}.", f"{name} 的 dtype 應該是 {dtype}，你的是 {got.dtype}。"
        )
    if got.device.type != expected.device.type:
        return both(
            f"{name} should be on {expected.device}, yours is on {got.device}.",
            f"{name} 應該放在 {expected.device}，你的在 {got.device}。",
        )
    if not expected.is_floating_point():
        wrong = got != expected
        return None if not bool(wrong.any()) else where_wrong(name, wrong, None)
    mine = got.detach().cpu().double()
    finite = expected.isfinite()
    odd = (mine.isfinite() != finite) | (~finite & ~same_nonfinite(mine, expected))
    if bool(odd.any()):
        what = "NaN" if bool(mine[odd].isnan().any()) else "inf"
        share = percent(odd)
        return both(
            f"{name} has {what} where there should be {'finite numbers' if bool(finite[odd].any()) else 'none'} ({share} of its entries).",
            f"{name} 出現 {what}（占 {share}），那裡應該是有限的數。",
        )
    assert dtype is not None
    error = torch.where(finite, (mine - expected).abs(), 0.0)
    wrong = error > allowed_error(expected, dtype, rounding, magnitude)
    if exact_zeros:
        # Below the smallest normal float64 it is the underflow of a weight, which may end a little earlier or later.
        wrong = wrong | ((expected == 0) & (mine.abs() >= torch.finfo(torch.float64).tiny))
    return None if not bool(wrong.any()) else where_wrong(name, wrong, error)


def compare_number(name: str, expected: Any, got: Any) -> Text | None:
    good_type = type(got) is type(expected) or (type(expected) is float and type(got) is int)
    if not good_type:
        e, g = type_name(expected), type_name(got)
        return both(f"{name} should be of type {e}, not {g}.", f"{name} 的型別應該是 {e}，而不是 {g}。")
    if isinstance(expected, float):
        if math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12):
            return None
        ratio = f"{got / expected:.4g}" if expected else "–"
        return both(f"{name} is {ratio} times what it should be.", f"{name} 是正確值的 {ratio} 倍。")
    if isinstance(expected, str):
        return None if got == expected else both("this choice is not the right one.", "這個選項不對。")
    return None if got == expected else both(f"{name} is off by {got - expected}.", f"{name} 差了 {got - expected}。")


def where_wrong(name: str, wrong: Tensor, error: Tensor | None) -> Text:
    """First wrong entry, by how much, and what share is right."""
    index = wrong.nonzero()[0].tolist()
    place = f"[{', '.join(map(str, index))}]" if index else ""
    right = percent(~wrong)
    by = f" by {error[tuple(index)].item():.3g}" if error is not None else ""
    by_zh = f"差 {error[tuple(index)].item():.3g}" if error is not None else "不同"
    return both(
        f"{name}{place} is off{by}; {right} of its entries are right.",
        f"{name}{place} {by_zh}；有 {right} 的數是對的。",
    )


def allowed_error(exact: Tensor, dtype: torch.dtype, rounding: float, magnitude: float = 0.0) -> float:
    """How far a right answer in `dtype` may be from `exact`.

    Half precision: twice the error of the plain formula in the same dtype (flash-attn's rule), with a floor of two
    units in the last place of the largest entry. Otherwise: `ROUNDING_FACTOR` times what rounding does to the
    reference, with a floor of `ROUNDING_FLOOR` ε.
    """
    finite = exact[exact.isfinite()]
    scale = max(magnitude, float(finite.abs().max()) if finite.numel() else 0.0)
    eps = torch.finfo(dtype).eps
    if dtype in HALF:
        ulp = eps * 2.0 ** math.floor(math.log2(scale)) if scale else 0.0
        return max(2 * rounding, 2 * ulp, torch.finfo(dtype).smallest_normal)
    return max(ROUNDING_FACTOR * rounding, ROUNDING_FLOOR * eps * scale)


def rounding_of(case: Prepared, part: Callable[[Observation], Any], dtype: torch.dtype | None) -> float:
    """What rounding does to this part of the result in `dtype`: the plain formula's own error, and (from float32 up)
    the effect of moving the inputs by one rounding."""
    exact = part(case.exact)
    if not isinstance(exact, Tensor) or not exact.is_floating_point() or dtype is None:
        return 0.0
    own = largest_gap(part(case.plain), exact)
    if dtype in HALF:
        return own
    moved = max(largest_gap(part(seen), exact) for seen in case.nudged)
    return max(own, moved * torch.finfo(dtype).eps / torch.finfo(torch.float32).eps)


def value_part(seen: Observation, i: int) -> Any:
    values = parts(seen.value)
    return values[i] if i < len(values) else None


def gradient_part(seen: Observation, i: int) -> Any:
    return seen.gradients[i] if seen.gradients is not None and i < len(seen.gradients) else None


def largest_gap(a: Any, b: Tensor) -> float:
    if not isinstance(a, Tensor) or a.shape != b.shape:
        return 0.0
    gap = (a.double() - b.double()).abs()
    gap = gap[gap.isfinite()]
    return float(gap.max()) if gap.numel() else 0.0


def result_dtype(case: Prepared, i: int) -> torch.dtype | None:
    """The dtype that part i of the result should have: that of the inputs for floats, the reference's own for the rest."""
    value = parts(case.exact.value)[i]
    if not isinstance(value, Tensor):
        return None
    if not value.is_floating_point():
        return value.dtype
    inputs = [x for x in tensors_in([case.call.args, *case.call.kwargs.values()]) if x.is_floating_point()]
    return inputs[0].dtype if inputs else value.dtype


def parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def same_nonfinite(a: Tensor, b: Tensor) -> Tensor:
    return (a.isnan() & b.isnan()) | (a == b)


def percent(x: Tensor) -> str:
    return f"{100 * float(x.double().mean()):.0f}%"


def shape_text(x: Tensor) -> str:
    return f"[{', '.join(map(str, x.shape))}]"


def type_name(value: Any) -> str:
    return value.type_name if isinstance(value, Opaque) else type(value).__name__


def signature_of(exercise: Exercise) -> list[str]:
    return list(inspect.signature(exercise.reference).parameters) if callable(exercise.reference) else []


def argument_names(exercise: Exercise, keys: Sequence[str]) -> list[str]:
    order = signature_of(exercise)
    return [order[int(key)] if key.isdigit() and int(key) < len(order) else key for key in keys]


def float_arguments(exercise: Exercise, call: Call) -> list[tuple[str, Tensor]]:
    order = signature_of(exercise)
    named = [*zip(order, call.args), *call.kwargs.items()]
    return [(name, x) for name, x in named if isinstance(x, Tensor) and x.is_floating_point()]


# ------------------------------------------------------------------------------------------------- diagnosis


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
    agreement: dict[str, list[int]] = {}
    everywhere: dict[str, bool] = {}
    for mistake in exercise.mistakes:
        made = mistaken(exercise, mistake, seed)
        agreement[mistake.name] = [
            i for i in failed if i < len(observations) and same(cases[i], observations[i], made[i])
        ]
        passed = [i for i in range(len(observations)) if i not in failed]
        everywhere[mistake.name] = all(same(cases[i], observations[i], made[i]) for i in passed)
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


def same(case: Prepared, seen: Observation, made: Observation) -> bool:
    """Whether an answer and a mistake did the same thing in a case, up to rounding."""
    if seen.error is not None or made.error is not None:
        kinds = [None if o.error is None else o.error.split(":")[0] for o in (seen, made)]
        return kinds[0] == kinds[1]
    if bool(seen.changed_inputs) != bool(made.changed_inputs) or seen.changed_settings != made.changed_settings:
        return False
    if not alike(case, seen.value, made.value):
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
    if isinstance(a, tuple) != isinstance(b, tuple) or len(left) != len(right):
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


def picture_of(exercise: Exercise, verdict: Verdict, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yours and the expected matrix of the first failed case, where a small picture can show the difference."""
    for i, result in enumerate(verdict.cases):
        if result.passed or i >= len(verdict.observations):
            continue
        expected = parts(prepared(exercise, exercise.cases[i], seed).exact.value)
        for mine, right in zip(parts(verdict.observations[i].value), expected):
            if not (isinstance(mine, Tensor) and isinstance(right, Tensor)) or mine.ndim < 2 or right.ndim < 2:
                continue
            a, b = first_matrix(mine.double()), first_matrix(right)
            if max(*a.shape, *b.shape) <= 16 and (a.shape != b.shape or not torch.allclose(a, b, equal_nan=True)):
                yield a, b
                return


def first_matrix(x: Tensor) -> Tensor:
    while x.ndim > 2:
        x = x[0]
    return x.detach().cpu()
