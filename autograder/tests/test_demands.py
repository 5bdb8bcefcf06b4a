"""What a case may ask for besides values: classes, exceptions, lists, a dtype, an angle's rounding, little memory."""

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autograder.cases import calls
from autograder.exercise import Case, CaseResult, Draw, Exercise, Mistake, Verdict
from autograder.judging import decide, guards_of
from autograder.observe import Call, observe
from autograder.text import both
from autograder.watch import UNSEEN
from autograder.wire import dumps, loads

LABEL = both("a case", "一種情況")


def exercise_of(reference: Any, case: Case, driver: str = "function", *mistakes: Mistake) -> Exercise:
    return Exercise("sample", "00", 2, 1, reference, (case,), mistakes, driver=driver)


def verdict_on(exercise: Exercise, answer: Any, seed: int = 0) -> Verdict:
    """Judged as a submission is: every call and every observation crosses the wall."""
    guards = guards_of(exercise) if answer is not exercise.reference else ()
    seen = [
        loads(dumps(observe(answer, loads(dumps(call)), exercise.driver, guards))) for call in calls(exercise, seed)
    ]
    return decide(exercise, seen, seed)


def only(verdict: Verdict) -> CaseResult:
    (result,) = verdict.cases
    return result


# -------------------------------------------------------------------------------------------------------- classes


class Affine(nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(d_in, d_out))
        self.b = nn.Parameter(torch.zeros(d_out))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return scale * x @ self.W + self.b


class WithLinear(nn.Module):
    """Right numbers under other names."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_in, d_out)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.linear(scale * x)


class Square(Affine):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_in)


class KeepsFirstWeights(nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(d_in, d_out))
        self.b = nn.Parameter(torch.zeros(d_out))
        self.kept: Tensor | None = None

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        if self.kept is None:
            self.kept = self.W.detach()
        return scale * x @ self.kept + self.b


class NoBias(nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(d_in, d_out))
        self.b = nn.Parameter(torch.zeros(d_out))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return scale * x @ self.W


class Rewritten(nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.randn(d_out))
        self.W = nn.Parameter(torch.randn(d_in, d_out))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.dropout(torch.einsum("ni,io->no", x * scale, self.W)) + self.b


def draw_affine(draw: Draw) -> tuple[Any, ...]:
    return ((3, 2), {"W": draw.normal(3, 2), "b": draw.normal(2)}, draw.normal(4, 3)), {"scale": 2.0}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_class_is_built_loaded_and_run(dtype: torch.dtype) -> None:
    no_bias = Mistake("no_bias", NoBias, both("No bias.", "沒有偏差。"))
    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine, dtype=dtype, gradients=True), "module", no_bias)
    assert verdict_on(exercise, Affine).passed
    assert verdict_on(exercise, Rewritten).passed
    assert verdict_on(exercise, NoBias).mistake == "no_bias"
    assert not verdict_on(exercise, KeepsFirstWeights).passed


def test_gradients_of_parameters_are_named() -> None:
    class Cut(Affine):
        def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
            return scale * x @ self.W.detach() + self.b

    # A subclass of the reference would spring its trap; here it only saves lines.
    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine, gradients=True), "module")
    verdict = decide(exercise, [observe(Cut, calls(exercise, 0)[0], "module")], 0)
    assert "the gradient with respect to W" in only(verdict).difference["en"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (WithLinear, "missing: W, b; not asked for: linear.bias, linear.weight"),
        (lambda d_in, d_out: 3, "should be a torch.nn.Module, not int"),
        (lambda d_in: None, "TypeError"),
    ],
)
def test_what_is_wrong_with_a_class_is_said(answer: Any, words: str) -> None:
    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine), "module")
    assert words in only(verdict_on(exercise, answer)).difference["en"]


def test_a_parameter_of_another_shape_is_named() -> None:
    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine), "module")
    seen = observe(Square, calls(exercise, 0)[0], "module")
    assert "W should have shape [3, 2], not [3, 3]" in only(decide(exercise, [seen], 0)).difference["en"]


@pytest.mark.parametrize("made", [lambda w: nn.Parameter(w, requires_grad=False), nn.Buffer])
def test_a_weight_that_cannot_be_trained_is_named(made: Callable[[Tensor], Tensor]) -> None:
    class Fixed(Affine):
        def __init__(self, d_in: int, d_out: int) -> None:
            nn.Module.__init__(self)
            self.W, self.b = nn.Parameter(torch.randn(d_in, d_out)), made(torch.randn(d_out))

    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine), "module")
    seen = observe(Fixed, calls(exercise, 0)[0], "module")
    difference = only(decide(exercise, [seen], 0)).difference
    assert "no parameters that can be trained: b" in difference["en"]
    assert "不是可以訓練的參數：b" in difference["zh-TW"]


def test_a_table_of_the_first_length_is_found_out() -> None:
    class Halved(nn.Module):
        """Every position has a weight of its own."""

        def __init__(self, d: int) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(d))

        def weights(self, n: int) -> Tensor:
            return 0.5 ** torch.arange(n)[:, None]

        def forward(self, x: Tensor) -> Tensor:
            return self.scale * x * self.weights(x.shape[1])

    class Keeps(Halved):
        def weights(self, n: int) -> Tensor:
            if not hasattr(self, "table"):
                self.table = super().weights(n)
            return self.table

    def draw_sequence(draw: Draw) -> tuple[Any, ...]:
        return ((2,), {"scale": draw.normal(2)}, draw.normal(1, 4, 2)), {}

    exercise = exercise_of(Halved, Case("c", LABEL, draw_sequence), "module")
    (call,) = calls(exercise, 0)
    assert decide(exercise, [observe(Halved, call, "module")], 0).passed
    assert "RuntimeError" in only(decide(exercise, [observe(Keeps, call, "module")], 0)).difference["en"]


def test_what_a_class_says_of_itself_is_not_believed() -> None:
    class Says(nn.Module):
        def __init__(self, d_in: int, d_out: int) -> None:
            super().__init__()
            self.sizes = d_in, d_out

        def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
            return {"W": torch.zeros(*self.sizes), "b": torch.zeros(self.sizes[1])}

        def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
            return scale * x @ self.W + self.b

    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine), "module")
    assert "missing: W, b" in only(verdict_on(exercise, Says)).difference["en"]


def test_a_buffer_that_is_not_saved_is_nobody_s_business() -> None:
    class WithTable(nn.Module):
        def __init__(self, d_in: int, d_out: int) -> None:
            super().__init__()
            self.W = nn.Parameter(torch.zeros(d_in, d_out))
            self.b = nn.Parameter(torch.zeros(d_out))
            self.register_buffer("table", torch.ones(3), persistent=False)

        def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
            return scale * x @ self.W + self.b

    class WithSavedTable(WithTable):
        def __init__(self, d_in: int, d_out: int) -> None:
            super().__init__(d_in, d_out)
            self.register_buffer("saved", torch.ones(3))

    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine), "module")
    assert verdict_on(exercise, WithTable).passed
    assert "not asked for: saved" in only(verdict_on(exercise, WithSavedTable)).difference["en"]


def test_the_course_s_own_class_is_no_answer() -> None:
    exercise = exercise_of(Affine, Case("c", LABEL, draw_affine), "module")

    class Borrowed(Affine):
        pass

    verdict = verdict_on(exercise, Borrowed)
    assert verdict.points == 0 and verdict.forbidden
    assert verdict_on(exercise, Affine).passed, "the trap is gone afterwards"


def test_an_unwritten_class_reads_not_started() -> None:
    class Stub(nn.Module):
        def __init__(self, d_in: int, d_out: int) -> None:
            raise NotImplementedError

    assert not verdict_on(exercise_of(Affine, Case("c", LABEL, draw_affine), "module"), Stub).written


# ----------------------------------------------------------------------------------------------------- exceptions


def half(n: int) -> int:
    if n % 2:
        raise ValueError("odd")
    return n // 2


def test_an_exception_can_be_asked_for() -> None:
    exercise = exercise_of(half, Case("c", LABEL, lambda d: (3,), raises="ValueError"))

    def other_words(n: int) -> int:
        if n % 2 == 0:
            return n // 2
        raise ValueError

    def other_exception(n: int) -> int:
        raise KeyError(n)

    assert verdict_on(exercise, other_words).passed
    assert "it returns a result" in only(verdict_on(exercise, lambda n: n // 2)).difference["en"]
    assert "KeyError" in only(verdict_on(exercise, other_exception)).difference["en"]


def test_to_refuse_everything_earns_nothing() -> None:
    cases = (Case("c", LABEL, lambda d: (4,)), Case("odd", LABEL, lambda d: (3,), raises="ValueError"))
    exercise = Exercise("sample", "00", 2, 1, half, cases, ())

    def refuses(n: int) -> int:
        raise ValueError

    def right(n: int) -> int:
        if n & 1:
            raise ValueError("odd")
        return n >> 1

    assert verdict_on(exercise, refuses).points == 0
    assert verdict_on(exercise, lambda n: n // 2).points == 1
    assert verdict_on(exercise, right).points == 2


def test_what_is_right_for_a_pitfall_alone_earns_nothing() -> None:
    cases = (Case("c", LABEL, lambda d: (4.0,)), Case("zero", LABEL, lambda d: (0.0,), trap=True))
    exercise = Exercise("sample", "00", 2, 1, lambda x: 2 * x, cases, ())
    verdict = verdict_on(exercise, lambda x: 3 * x)
    assert verdict.points == 0
    assert [case.passed for case in verdict.cases] == [False, False]
    assert verdict.cases[1].difference == both(
        "it counts once an everyday case passes.", "一般情況有一個通過之後才計分。"
    )
    assert verdict_on(exercise, lambda x: 2 * x if x else 1.0).points == 1
    assert verdict_on(exercise, lambda x: x + x).points == 2


# ---------------------------------------------------------------------------------------------------------- lists


def grown(items: list[Tensor], x: Tensor) -> list[Tensor]:
    return [*items, x]


def draw_list(draw: Draw) -> tuple[Any, ...]:
    return [draw.normal(2), draw.normal(3)], draw.normal(1)


def test_lists_stay_lists_and_are_left_alone() -> None:
    exercise = exercise_of(grown, Case("c", LABEL, draw_list, gradients=True))

    def appends(items: list[Tensor], x: Tensor) -> list[Tensor]:
        items.append(x)
        return items

    def writes(items: list[Tensor], x: Tensor) -> list[Tensor]:
        with torch.no_grad():
            items[0].add_(1)
        return [items[0] - 1, items[1], x]

    assert verdict_on(exercise, lambda items, x: [*items, x]).passed
    assert verdict_on(exercise, lambda items, x: (*items, x)).passed, "a tuple will do"
    for answer in (appends, writes):
        assert "changes its argument items in place" in only(verdict_on(exercise, answer)).difference["en"]


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Sly(Pair):
    def __iter__(self) -> Any:
        return iter((self.first + self.first, self.second))


def test_a_named_tuple_will_do_for_a_tuple_and_is_not_asked_for_what_it_holds() -> None:
    exercise = exercise_of(lambda x: (x, 2 * x), Case("c", LABEL, lambda draw: (draw.normal(3),), gradients=True))
    assert verdict_on(exercise, lambda x: Pair(x, 2 * x)).passed
    assert not verdict_on(exercise, lambda x: Pair(2 * x, x)).passed
    assert not verdict_on(exercise, lambda x: Sly(0.5 * x, 2 * x)).passed


def grown_layers(layers: list[Any], layer: int, k: Tensor) -> list[Any]:
    made = list(layers)
    made[layer] = (
        (k, 2 * k) if layers[layer] is None else tuple(torch.cat([a, b]) for a, b in zip(made[layer], (k, 2 * k)))
    )
    return made


def draw_layers(draw: Draw) -> tuple[Any, ...]:
    return [None, (draw.normal(2), draw.normal(2)), None], 1, draw.normal(3)


def test_what_comes_back_may_be_nested() -> None:
    twice = Mistake("twice", lambda layers, layer, k: grown_layers(layers, layer, 2 * k), both("Twice.", "兩倍。"))
    exercise = exercise_of(grown_layers, Case("c", LABEL, draw_layers), "function", twice)

    def again(layers: list[Any], layer: int, k: Tensor) -> tuple[Any, ...]:
        old_k, old_v = layers[layer] or (k[:0], k[:0])
        return (*layers[:layer], [torch.cat([old_k, k]), torch.cat([old_v, k + k])], *layers[layer + 1 :])

    assert verdict_on(exercise, again).passed
    assert verdict_on(exercise, lambda layers, layer, k: [*again(layers, layer, 2 * k)]).mistake == "twice"
    for answer, words in [
        (lambda layers, layer, k: [again(layers, layer, k)[1]] * 3, "result[0] should be None"),
        (lambda layers, layer, k: [None, layers[1], None], "result[1][0] should have shape [5], not [2]"),
        (lambda layers, layer, k: [None, k, None], "result[1] should have 2 entries, not Tensor"),
        (lambda layers, layer, k: [None, None], "it should return 3 values, not 2"),
    ]:
        assert words in only(verdict_on(exercise, answer)).difference["en"]


# --------------------------------------------------------------------------------------------- dtypes and angles


def waves(n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.sin(torch.arange(n, dtype=torch.float64)).to(dtype)


def in_float32(n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.sin(torch.arange(n, dtype=torch.float32)).to(dtype)


def in_own_dtype(n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.sin(torch.arange(n).to(dtype))


def slowly(n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Angles that are rounded twice, as whoever adds them up does."""
    return torch.sin(torch.arange(n, dtype=torch.float32) / 3 * 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_angle_may_be_rounded_to_float32_but_not_below(dtype: torch.dtype) -> None:
    exercise = exercise_of(waves, Case("c", LABEL, lambda d: ((4000,), {"dtype": dtype}), dtype=dtype, angle=4000))
    for answer in (waves, in_float32, slowly):
        assert verdict_on(exercise, answer).passed
    assert verdict_on(exercise, in_own_dtype).passed == (dtype == torch.float32)


def test_float64_is_asked_for_by_its_name() -> None:
    exercise = exercise_of(waves, Case("c", LABEL, lambda d: ((300,), {"dtype": torch.float64}), angle=300))
    assert verdict_on(exercise, in_own_dtype).passed
    assert not verdict_on(exercise, in_float32).passed
    assert (
        "torch.float64, not torch.float32"
        in only(verdict_on(exercise, lambda n, dtype: in_float32(n))).difference["en"]
    )


def test_a_count_of_bytes_is_that_of_the_dtype_named() -> None:
    def taken(n: int, dtype: torch.dtype) -> int:
        return n * dtype.itemsize

    for dtype in (torch.float16, torch.float32, torch.int8):
        exercise = exercise_of(taken, Case("c", LABEL, lambda d, dtype=dtype: (5, dtype)))
        assert verdict_on(exercise, lambda n, dtype: dtype.itemsize * n).passed
        assert not verdict_on(exercise, lambda n, dtype: 8 * n).passed


# --------------------------------------------------------------------------------------------------------- memory


def attention(q: Tensor, k: Tensor) -> Tensor:
    return torch.stack([torch.softmax(k @ row, dim=-1) @ k for row in q])


def full_matrix(q: Tensor, k: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT, dim=-1) @ k


def only_first_key(q: Tensor, k: Tensor) -> Tensor:
    return k[:1].expand(q.shape[0], -1)


def metered(draw: Draw) -> tuple[Any, ...]:
    return draw.normal(40, 2), draw.normal(60, 2)


@pytest.mark.parametrize(
    ("answer", "mistake"), [(attention, None), (full_matrix, "full_matrix"), (only_first_key, None)]
)
def test_too_much_memory_is_named(answer: Callable[..., Tensor], mistake: str | None) -> None:
    named = Mistake("full_matrix", full_matrix, both("The whole matrix.", "整個矩陣。"))
    exercise = exercise_of(attention, Case("c", LABEL, metered, meter=40 * 60 // 2), "function", named)
    verdict = verdict_on(exercise, answer)
    assert verdict.passed == (answer is attention) and verdict.mistake == mistake
    if mistake:
        assert "right numbers, too much memory" in only(verdict).difference["en"]


def matrix_in_numpy(q: Tensor, k: Tensor) -> Tensor:
    rows, keys = (np.array([float(number) for number in x.flatten()]).reshape(x.shape) for x in (q, k))
    scores = np.exp(rows @ keys.T)
    return torch.tensor(scores / scores.sum(-1, keepdims=True) @ keys, dtype=q.dtype)


@pytest.mark.hostile
def test_too_much_memory_in_numpy_is_too_much() -> None:
    case = Case("c", LABEL, lambda d: (d.normal(400, 2), d.normal(600, 2)), meter=400 * 600 // 2)
    verdict = verdict_on(exercise_of(attention, case), matrix_in_numpy)
    assert "right numbers, too much memory" in only(verdict).difference["en"]
    assert verdict_on(exercise_of(attention, case), attention).passed


# ----------------------------------------------------------------------------------- an answer that goes on afterwards


class Later:
    """What an answer leaves behind; whoever looks at it runs its code."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    @property
    def __class__(self) -> type:  # type: ignore[override]
        self.x.copy_(torch.softmax(self.x, -1))
        return Tensor


@pytest.mark.hostile
def test_what_an_answer_leaves_in_its_arguments_is_not_asked_what_it_is() -> None:
    def appends(items: list[Any], x: Tensor) -> Tensor:
        items[0] = Later(x)
        return x

    call = Call(([torch.ones(2)], torch.zeros(4)))
    seen = observe(appends, call, forbidden=("torch.softmax",))
    assert seen.changed_inputs == ("0",) and torch.equal(seen.value, torch.zeros(4))


@pytest.mark.hostile
def test_a_backward_pass_of_its_own_changes_no_value() -> None:
    box: list[Tensor] = []

    class Late(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            box[0].data.fill_(7.0)
            return 2 * grad

    def answer(x: Tensor) -> Tensor:
        box[:] = [Late.apply(x)]  # type: ignore[no-untyped-call]
        return box[0]

    seen = observe(answer, Call((torch.ones(3),), cotangents=(torch.ones(3),)), forbidden=("torch.softmax",))
    assert seen.gradients is not None and torch.equal(seen.value, 2 * torch.ones(3)) and box[0][0] == 7


# What runs after an answer, by the names that a student can give to something else.
AFTERWARDS = {
    "torch": "initial_seed get_rng_state get_default_dtype is_grad_enabled equal set_grad_enabled",
    "torch.Tensor": "clone detach cpu contiguous reshape view numel numpy permute is_contiguous stride to",
    "torch.autograd": "grad",
    "json": "dumps",
    "base64": "b64encode",
}


@pytest.mark.hostile
@pytest.mark.parametrize(
    "where, name", [(where, name) for where, names in AFTERWARDS.items() for name in names.split()]
)
def test_what_is_used_afterwards_was_bound_before(where: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the modules are set anew while the answer runs; nothing of that is called."""
    called: list[str] = []
    modules = {"torch": torch, "torch.Tensor": Tensor, "torch.autograd": torch.autograd, "json": json, "base64": base64}

    def patching(x: Tensor) -> Tensor:
        y = (2 * x).mT
        monkeypatch.setattr(modules[where], name, lambda *args, **kwargs: called.append(name))
        return y

    call = Call((torch.ones(2, 3),), cotangents=(torch.ones(3, 2),))
    seen = observe(patching, call, forbidden=("torch.softmax",))
    text = dumps(seen)
    monkeypatch.undo()
    assert called == []
    back = loads(text)
    if back.forbidden:  # torch announces its own method by the name that is no longer its own
        assert back.error is not None and back.forbidden[0].name.endswith(UNSEEN)
        return
    assert torch.equal(back.value, torch.full((3, 2), 2.0)) and torch.equal(back.gradients[0], torch.full((2, 3), 2.0))


# -------------------------------------------------------------------------------------------- gradients that are 0


def mean_of_kept(x: Tensor, kept: Tensor) -> Tensor:
    return x.where(kept, 0.0).sum() / kept.sum().clamp(min=1)


def kept_or_not(keep: bool) -> Exercise:
    case = Case("c", LABEL, lambda d: (d.normal(4), torch.full((4,), keep)), gradients=True)
    return exercise_of(mean_of_kept, case)


def test_a_constant_has_the_right_gradient_only_where_that_is_0() -> None:
    def cut_off(x: Tensor, kept: Tensor) -> Tensor:
        return x.detach()[kept].mean() if kept.any() else torch.zeros(())

    assert verdict_on(kept_or_not(False), cut_off).passed
    found = only(verdict_on(kept_or_not(True), cut_off))
    assert found.difference is not None and "cut off" in found.difference["en"] and "斷開" in found.difference["zh-TW"]


def test_a_nan_in_the_gradient_alone_is_named() -> None:
    def zero_for_nan(x: Tensor, kept: Tensor) -> Tensor:
        n = kept.sum()
        return torch.where(n > 0, (x * kept).sum() / n, 0.0)

    assert verdict_on(kept_or_not(True), zero_for_nan).passed
    found = only(verdict_on(kept_or_not(False), zero_for_nan))
    assert found.difference == both(
        "the gradient with respect to x holds NaN where it should not (100% of its entries).",
        "對 x 的梯度出現了不該有的 NaN（占 100%）。",
    )


# --------------------------------------------------------------------------------- more digits than the inputs have


def mean_and_logarithm(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide.mean(dim=-1).to(x.dtype), wide.logsumexp(dim=-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_part_may_be_asked_for_in_float32_beside_half_precision(dtype: torch.dtype) -> None:
    exercise = exercise_of(mean_and_logarithm, Case("c", LABEL, lambda d: (d.normal(5, 6),), dtype=dtype))

    def other_words(x: Tensor) -> tuple[Tensor, Tensor]:
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide.sum(-1) / x.shape[-1]).to(x.dtype), wide.exp().sum(-1).log()

    def all_in_the_dtype_of_x(x: Tensor) -> tuple[Tensor, Tensor]:
        mean, logarithm = other_words(x)
        return mean, logarithm.to(x.dtype)

    def rounded_on_the_way(x: Tensor) -> tuple[Tensor, Tensor]:
        mean, logarithm = other_words(x)
        return mean, logarithm.half().to(logarithm.dtype)

    assert verdict_on(exercise, other_words).passed
    assert verdict_on(exercise, all_in_the_dtype_of_x).passed == (dtype in (torch.float32, torch.float64))
    assert not verdict_on(exercise, rounded_on_the_way).passed
