"""How an answer is compared with the reference: type, shape, dtype, finiteness, values, gradients, side effects."""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.cases import HALF, Prepared, at, gradient_part, value_part
from autograder.exercise import Case, Exercise
from autograder.observe import CUT_OFF, INSIDE, OTHER_SHAPE, Call, Misfit, Observation, Opaque, tensors_in
from autograder.text import Text, both

MISFIT = f"{Misfit.__name__}: "
LARGEST_NUMBER = 10**300  # beyond it a Python int does not fit a float
# How far a right answer may be from the exact value, in units of what rounding does to the reference. That is itself a
# sample and small by luck now and then: with a factor of 16, and nudges all of one size, a right answer failed once in
# some thousands (scores of 10⁴ whose nudges cancelled in the softmax). With these values none of 8 850 failed, and the
# worst came to 0.8 of what is allowed. The nearest mistake, the one-pass variance, is hundreds of roundings away.
ROUNDING_FACTOR = 64.0
ROUNDING_FLOOR = 64.0  # units of the dtype's epsilon, relative to the largest entry
# What the course itself says where an answer stopped, and how it reads in Chinese; Python's and torch's own words stay.
OURS = {
    r"no result": "沒有結果",
    r"its result could not be read": "結果讀不出來",
    rf"(?:\w+: )?{re.escape(INSIDE)}": "函式裡面呼叫了 check() 或 use()，請移到函式外面",
    rf"{re.escape(OTHER_SHAPE)}": "結果的形狀不對",
    r"(\w+): \(no readable text\)": r"\1（沒有可以顯示的文字）",
    r"TypeError: the class should be a torch\.nn\.Module, not (.+)": r"類別應該是 torch.nn.Module，而不是 \1",
    r"(\S+) is not allowed in this exercise": r"這題不能使用 \1",
    r"(\S+) is not available while a submission is graded": r"評分時不能使用 \1",
    r"(.+) should have shape (\[.*\]), not (\[.*\])": r"\1 的形狀應該是 \2，而不是 \3",
    r"no parameters that can be trained: (.+)": r"不是可以訓練的參數：\1",
    r"missing: (.+); not asked for: (.+)": r"缺少 \1；多了 \2",
    r"missing: (.+)": r"缺少 \1",
    r"not asked for: (.+)": r"多了 \1",
}
SETTINGS = {"default dtype": "預設的 dtype", "gradient mode": "要不要算梯度", "seed": "亂數種子"}


def in_chinese(said: str) -> str:
    """A sentence of ours in Chinese; any other stays as it is."""
    for pattern, chinese in OURS.items():
        found = re.fullmatch(pattern, said)
        if found:
            return found.expand(chinese)
    return said


def compare(exercise: Exercise, case: Prepared, seen: Observation, precision: torch.dtype | None = None) -> Text | None:
    """What differs first between an answer and the reference, or None.

    `precision` judges the values as if they were of a coarser dtype.
    """
    if seen.not_written:
        return both("not written yet.", "尚未作答。")
    raises = case.case.raises
    if raises and (seen.error or "").split(":")[0] != raises:
        what, what_zh = (
            (f"it stops with {seen.error}", f"卻停在 {in_chinese(seen.error)}")
            if seen.error
            else ("it returns a result", "卻回傳了結果")
        )
        return both(f"a {raises} is asked for here; {what}.", f"這裡應該要 raise {raises}，{what_zh}。")
    if raises:
        return None
    if seen.error is not None and seen.error.startswith(MISFIT):
        what = seen.error.removeprefix(MISFIT)
        return both(
            f"the parameters are not the ones asked for ({what}).", f"參數和題目要求的不同（{in_chinese(what)}）。"
        )
    if seen.error is not None:
        return both(f"your function stopped with {seen.error}", f"函式執行到一半就停了：{in_chinese(seen.error)}")
    if seen.changed_inputs:
        names = argument_names(exercise, seen.changed_inputs)
        which, which_zh = ", ".join(names), "、".join(names)
        return both(f"it changes its argument {which} in place.", f"就地改動了引數 {which_zh}。")
    if seen.changed_settings:
        which, which_zh = ", ".join(seen.changed_settings), "、".join(SETTINGS[s] for s in seen.changed_settings)
        return both(f"it changes a global setting of torch: {which}.", f"改動了 torch 的全域設定：{which_zh}。")
    if seen.value is None:
        return both("it returns None: is a return missing?", "回傳的是 None，是不是忘了 return？")
    difference = compare_values(exercise, case, seen.value, precision)
    if difference is None and case.call.cotangents is not None:
        difference = compare_gradients(exercise, case, seen, precision)
    if difference is None and over_the_limit(case, seen):
        limit, largest, peak = case.case.meter, seen.largest, seen.peak
        return both(
            f"right numbers, too much memory: the largest tensor has {largest:,} entries, {peak:,} are alive at one time; "
            f"at most {limit:,} are allowed.",
            f"數字對了，但用了太多記憶體：最大的張量有 {largest:,} 個元素，同時存在的有 {peak:,} 個；最多只能 {limit:,} 個。",
        )
    return difference


def over_the_limit(case: Prepared, seen: Observation) -> bool:
    return case.call.metered and max(seen.largest, seen.peak) > case.case.meter


def compare_values(exercise: Exercise, case: Prepared, value: Any, precision: torch.dtype | None) -> Text | None:
    if isinstance(case.exact.value, str):
        return compare_letter(case.exact.value, value)
    return compare_part(exercise, case, value, (), exercise.results[0], precision)


def compare_part(
    exercise: Exercise, case: Prepared, got: Any, path: tuple[int, ...], name: str, precision: torch.dtype | None
) -> Text | None:
    """Compare what the answer returned at `path`, tuples inside tuples part by part."""
    expected = at(case.exact.value, path)
    if isinstance(expected, tuple) or (isinstance(got, tuple) and not path):
        size = len(expected) if isinstance(expected, tuple) else None
        if not isinstance(got, tuple) or len(got) != size:
            return wrong_count(name, expected, got, whole=not path)
        names = [name_of(exercise, name, i, size) if not path else f"{name}[{i}]" for i in range(size)]
        found = (compare_part(exercise, case, got[i], (*path, i), names[i], precision) for i in range(size))
        return next((difference for difference in found if difference is not None), None)
    dtype = result_dtype(case, path)
    rounding = rounding_of(case, partial(value_part, path=path), precision or dtype)
    allowed = allowed_error(expected, precision or dtype, rounding, case.case)
    return compare_leaf(both(name, f"{name} "), expected, got, dtype, allowed, exercise.exact_zeros)


def name_of(exercise: Exercise, name: str, i: int, size: int) -> str:
    """What part i of the result is called: by its own name, or as an entry of the one thing that comes back."""
    return exercise.results[i] if len(exercise.results) == size > 1 else f"{name}[{i}]"


def wrong_count(name: str, expected: Any, got: Any, whole: bool) -> Text:
    if not whole:
        size, kind = len(expected), f"{len(got)}" if isinstance(got, tuple) else type_name(got)
        return both(f"{name} should have {size} entries, not {kind}.", f"{name} 應該有 {size} 個元素，而不是 {kind}。")
    if not isinstance(expected, tuple):
        n = len(got)  # a list that comes back is kept as a tuple, so neither is named
        return both(
            f"it should return a {type_name(expected)}, not {n} values.",
            f"應該回傳 {type_name(expected)}，而不是 {n} 個值。",
        )
    n = len(expected)
    mine, mine_zh = (f"{len(got)}", f"{len(got)} 個") if isinstance(got, tuple) else (type_name(got), type_name(got))
    return both(f"it should return {n} values, not {mine}.", f"應該回傳 {n} 個值，而不是 {mine_zh}。")


def compare_letter(expected: str, got: Any) -> Text | None:
    if got not in tuple("abcd"):
        return both("write one letter: a, b, c or d.", "請只填 a、b、c、d 其中一個字母。")
    return None if got == expected else both("this choice is not the right one.", "這個選項不對。")


def compare_gradients(
    exercise: Exercise, case: Prepared, seen: Observation, precision: torch.dtype | None
) -> Text | None:
    if seen.gradient_error == CUT_OFF:
        if not any(gradient is not None and bool(gradient.any()) for gradient in case.exact.gradients or ()):
            return None  # a constant has the gradient that is asked for: 0
        return both(
            "no gradient flows back: the result is cut off from the inputs (detach, .item(), .data, no_grad, a new tensor).",
            "梯度傳不回去：結果和輸入斷開了（detach、.item()、.data、no_grad，或另建的張量）。",
        )
    if seen.gradient_error is not None or seen.gradients is None:
        why = seen.gradient_error or ""
        return both(f"no gradient flows back: {why}.", f"梯度傳不回去：{in_chinese(why)}。")
    inputs = float_arguments(exercise, case.call)
    for i, (name, x) in enumerate(inputs):
        expected = (case.exact.gradients or ())[i]
        got = seen.gradients[i] if i < len(seen.gradients) else None
        if expected is None or not expected.abs().max() > 0:
            expected = torch.zeros_like(x, dtype=torch.float64)
        if got is None:
            got = torch.zeros_like(x)
        dtype = precision or x.dtype
        allowed = allowed_error(expected, dtype, rounding_of(case, partial(gradient_part, i=i), dtype), case.case)
        label = both(f"the gradient with respect to {name}", f"對 {name} 的梯度")
        difference = compare_leaf(label, expected, got, x.dtype, allowed, False)
        if difference is not None:
            return difference
    return None


def compare_leaf(
    name: Text, expected: Any, got: Any, dtype: torch.dtype | None, allowed: float, exact_zeros: bool
) -> Text | None:
    en, zh = name["en"], name["zh-TW"]
    if expected is None:
        return None if got is None else both(f"{en} should be None.", f"{zh}應該是 None。")
    if not isinstance(expected, Tensor):
        return compare_number(name, expected, got)
    if not isinstance(got, Tensor):
        kind = type_name(got)
        return both(f"{en} should be a torch.Tensor, not {kind}.", f"{zh}應該是 torch.Tensor，而不是 {kind}。")
    for what, what_zh, e, g in (
        ("have shape", "的形狀", shape_text(expected), shape_text(got)),
        ("be of", "的 dtype ", dtype, got.dtype),
        ("be on", "所在的裝置", expected.device.type, got.device.type),
    ):
        if e != g:
            return both(f"{en} should {what} {e}, not {g}.", f"{zh}{what_zh}應該是 {e}，而不是 {g}。")
    if not expected.is_floating_point():
        wrong = got != expected
        return None if not bool(wrong.any()) else where_wrong(name, wrong, None)
    mine = got.detach().cpu().double()
    finite = expected.isfinite()
    odd = (mine.isfinite() != finite) | (~finite & ~same_nonfinite(mine, expected))
    if bool(odd.any()):
        nan, inf = bool(mine[odd].isnan().any()), bool(mine[odd].isinf().any())
        what, what_zh = ("NaN",) * 2 if nan else ("inf",) * 2 if inf else ("finite numbers", "有限的數")
        share, share_zh = (
            (f" ({percent(odd)} of its entries)", f"（占 {percent(odd)}）") if odd.numel() > 1 else ("", "")
        )
        return both(f"{en} holds {what} where it should not{share}.", f"{zh}出現了不該有的 {what_zh}{share_zh}。")
    error = torch.where(finite, (mine - expected).abs(), 0.0)
    wrong = error > allowed
    if exact_zeros:
        # Below the smallest normal float64 it is the underflow of a weight, which may end a little earlier or later.
        wrong = wrong | ((expected == 0) & (mine.abs() >= torch.finfo(torch.float64).tiny))
    return None if not bool(wrong.any()) else where_wrong(name, wrong, error)


def compare_number(name: Text, expected: Any, got: Any) -> Text | None:
    en, zh = name["en"], name["zh-TW"]
    if not (type(got) is type(expected) or (type(expected) is float and type(got) is int)):
        e, g = type_name(expected), type_name(got)
        return both(f"{en} should be a Python {e}, not {g}.", f"{zh}應該是 Python 的 {e}，而不是 {g}。")
    if abs(got) > LARGEST_NUMBER:
        return both(f"{en} is far too large.", f"{zh}大得離譜。")
    if isinstance(expected, float):
        if math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12):
            return None
        ratio = f"{got / expected:.4g}" if expected else "–"
        return both(f"{en} is {ratio} times what it should be.", f"{zh}是正確值的 {ratio} 倍。")
    if got == expected:
        return None
    more, by = got > expected, f"{abs(got - expected):,}"
    return both(f"{en} is too {'large' if more else 'small'} by {by}.", f"{zh}比正確值{'多' if more else '少'} {by}。")


def where_wrong(name: Text, wrong: Tensor, error: Tensor | None) -> Text:
    """First wrong entry, by how much, and what share is right."""
    index = wrong.nonzero()[0].tolist()
    place = f"[{', '.join(map(str, index))}]" if index else ""
    by = f" by {error[tuple(index)].item():.3g}" if error is not None else ""
    by_zh = f"差 {error[tuple(index)].item():.3g}" if error is not None else "不對"
    right, right_zh = "", ""
    if wrong.numel() > 1:
        share = percent(~wrong)
        right, right_zh = f"; {share} of its entries are right", f"；有 {share} 的數是對的"
    return both(f"{name['en']}{place} is off{by}{right}.", f"{name['zh-TW'].strip()}{place} {by_zh}{right_zh}。")


def allowed_error(exact: Any, dtype: torch.dtype | None, rounding: float, case: Case) -> float:
    """How far a right answer in `dtype` may be from `exact`.

    Half precision: twice the error of the plain formula in the same dtype (flash-attn's rule), with a floor of two
    units in the last place of the largest entry. Otherwise: `ROUNDING_FACTOR` times what rounding does to the
    reference, with a floor of `ROUNDING_FLOOR` ε. Where an angle is rounded before its sine is taken, two roundings of
    the largest angle come on top.
    """
    if dtype is None or not isinstance(exact, Tensor) or not exact.is_floating_point():
        return 0.0
    finite = exact[exact.isfinite()]
    scale = max(case.magnitude, float(finite.abs().max()) if finite.numel() else 0.0)
    eps = torch.finfo(dtype).eps
    turned = 2 * torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps * case.angle
    if dtype in HALF:
        ulp = eps * 2.0 ** math.floor(math.log2(scale)) if scale else 0.0
        return max(2 * rounding, 2 * ulp, torch.finfo(dtype).smallest_normal) + turned
    return max(ROUNDING_FACTOR * rounding, ROUNDING_FLOOR * eps * scale) + turned


def rounding_of(case: Prepared, part: Callable[[Observation], Any], dtype: torch.dtype | None) -> float:
    """What rounding does to this part of the result in `dtype`: the plain formula's own error, and (from float32 up)
    the effect of moving the inputs by one rounding."""
    exact = part(case.exact)
    if not isinstance(exact, Tensor) or not exact.is_floating_point() or dtype is None:
        return 0.0
    own = largest_gap(part(case.plain), exact)
    if dtype in HALF:
        return own
    moved = max((largest_gap(part(seen), exact) for seen in case.nudged), default=0.0)
    return max(own, moved * torch.finfo(dtype).eps / torch.finfo(torch.float32).eps)


def largest_gap(a: Any, b: Tensor) -> float:
    if not isinstance(a, Tensor) or a.shape != b.shape:
        return 0.0
    gap = (a.double() - b.double()).abs()
    gap = gap[gap.isfinite()]
    return float(gap.max()) if gap.numel() else 0.0


def result_dtype(case: Prepared, path: tuple[int, ...]) -> torch.dtype | None:
    """The dtype that a part of the result should have: that of the inputs for floats; where there are none, and for
    the rest, the one that the reference gives. Beside half precision a part may be asked for in more digits than the
    inputs have: then the plain formula gives it so."""
    value = at(case.exact.value, path)
    if not isinstance(value, Tensor):
        return None
    if not value.is_floating_point():
        return value.dtype
    inputs = [x for x in tensors_in([case.call.args, case.call.kwargs]) if x.is_floating_point()]
    own = value_part(case.plain, path)
    if case.case.dtype in HALF and isinstance(own, Tensor):
        return own.dtype
    return inputs[0].dtype if inputs else own.dtype if isinstance(own, Tensor) else value.dtype


def same_nonfinite(a: Tensor, b: Tensor) -> Tensor:
    return (a.isnan() & b.isnan()) | (a == b)


def percent(x: Tensor) -> str:
    return f"{100 * float(x.double().mean()):.0f}%"


def shape_text(x: Tensor) -> str:
    return f"[{', '.join(map(str, x.shape))}]"


def type_name(value: Any) -> str:
    return value.type_name if isinstance(value, Opaque) else type(value).__name__


def signature_of(exercise: Exercise) -> list[str]:
    """Names of the arguments of a call, in order."""
    if exercise.driver == "module":
        return ["sizes", "state", *list(inspect.signature(exercise.reference.forward).parameters)[1:]]
    return list(inspect.signature(exercise.reference).parameters) if callable(exercise.reference) else []


def argument_names(exercise: Exercise, keys: Sequence[str]) -> list[str]:
    order = signature_of(exercise)
    return [order[int(key)] if key.isdigit() and int(key) < len(order) else key for key in keys]


def float_arguments(exercise: Exercise, call: Call) -> list[tuple[str, Tensor]]:
    """The floating-point tensors of a call with their names, in the order of `observe.leaves`."""
    order = signature_of(exercise)
    return [
        leaf for name, value in [*zip(order, call.args), *call.kwargs.items()] for leaf in named_leaves(name, value)
    ]


def named_leaves(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield name, value
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield from named_leaves(f"{name}[{i}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from named_leaves(key, item)
