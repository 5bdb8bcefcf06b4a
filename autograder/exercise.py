"""What an exercise is. One definition serves the check in the notebook, the grade, the diagnosis, the hints and the tests."""

import difflib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograder.observe import Observation
from autograder.text import Text, both
from autograder.watch import Sighting

SEED_BITS = 63


class Draw:
    """A seeded source of inputs, all in one dtype.

    Numbers are drawn in float64 and then rounded, so that every dtype sees the same inputs.

    >>> Draw(0).normal(2, 3).shape
    torch.Size([2, 3])
    """

    def __init__(self, seed: int, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, mean: float = 0.0, std: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=self.generator, dtype=torch.float64) * std + mean).to(self.dtype)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        u = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return (low + (high - low) * u).to(self.dtype)

    def integer(self, low: int, high: int) -> int:
        """One of low, …, high."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Entries of low, …, high as a LongTensor."""
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def number(self, low: float, high: float) -> float:
        return float(low + (high - low) * torch.rand((), generator=self.generator, dtype=torch.float64))

    def choice(self, *options: Any) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def permutation(self, n: int) -> Tensor:
        return torch.randperm(n, generator=self.generator)

    def mask(self, *shape: int, keep: float = 0.6) -> Tensor:
        """A boolean mask (True = may attend) that leaves every row at least one key and hides at least one where it can."""
        mask = torch.rand(shape, generator=self.generator) < keep
        n_keys = shape[-1]
        kept = torch.randint(0, n_keys, shape[:-1], generator=self.generator).unsqueeze(-1)
        hidden = (kept + torch.randint(1, max(n_keys, 2), shape[:-1], generator=self.generator).unsqueeze(-1)) % n_keys
        mask = mask.scatter(-1, hidden, False)
        return mask.scatter(-1, kept, True)


@dataclass(frozen=True, eq=False)
class Case:
    """One situation in which an answer is tried.

    Attributes:
        name: a short id, unique inside the exercise.
        label: what the situation is, in both languages; students read it.
        draw: makes the arguments; returns a tuple, or (tuple, dict) for keyword arguments.
        weight: its share of the points, relative to the other cases.
        dtype: of the floating-point inputs.
        gradients: compare gradients with respect to every floating-point argument too.
        gradients_of: the results (their indices) whose gradients are compared; none given: all.
        trap: a pitfall or a special demand (precision, memory layout, gradients), not everyday use. Together the traps
            hold at most half of the points.
        magnitude: the size of the numbers that the result is made of, where the result itself may be much smaller
            (a difference of equals). Rounding is measured against it.
        angle: the largest angle whose sine or cosine is taken, in radians, times the size of what is turned. Angles are
            rounded too: to float64 for float64 results, to float32 for the rest.
        raises: the name of the exception that is asked for instead of a result.
        meter: the most elements that a tensor made on the way, and all alive at one moment, may have; 0: no limit.
    """

    name: str
    label: Text
    draw: Callable[[Draw], tuple[Any, ...]]
    weight: float = 1.0
    dtype: torch.dtype = torch.float32
    gradients: bool = False
    gradients_of: tuple[int, ...] = ()
    trap: bool = False
    magnitude: float = 0.0
    angle: float = 0.0
    raises: str = ""
    meter: int = 0


@dataclass(frozen=True, eq=False)
class Mistake:
    """A known wrong answer.

    Attributes:
        name: of the misconception.
        answer: an implementation that makes the mistake (for a question: the letter).
        message: what went wrong and where to look, without the solution.
        same_as: mistakes that give the same values and therefore share the message.
    """

    name: str
    answer: Any
    message: Text
    same_as: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise of a lesson; see `design` in CONTRIBUTING.md for the rules it obeys.

    Attributes:
        reference: the course's own answer; evaluated in float64 it is what answers are compared with.
        plain: the formula as one would write it without care for half precision: the yardstick of the 2× rule.
            None: the reference itself.
        forbidden: dotted names of calls that do it all.
        exact_zeros: entries that are exactly 0 in the reference must be exactly 0 in the answer (masked weights).
        results: names of the returned parts, for messages.
        driver: how an answer is used, a key of `observe.DRIVERS`.
    """

    name: str
    lesson: str
    points: int
    difficulty: int
    reference: Any
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[Text, ...] = ()
    forbidden: tuple[str, ...] = ()
    plain: Callable[..., Any] | None = None
    exact_zeros: bool = False
    results: tuple[str, ...] = ("result",)
    driver: str = "function"

    def seed_of(self, case: Case, seed: int) -> int:
        digest = hashlib.sha256(f"{seed}/{self.name}/{case.name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


@dataclass(frozen=True)
class CaseResult:
    """How one case went.

    Attributes:
        difference: what differs first, in both languages; None when the case passed.
        mistake: the known mistake that does just the same in this case, or None.
        explained: whether that mistake is the one that the verdict names.
    """

    name: str
    label: Text
    passed: bool
    points: float
    difference: Text | None = None
    mistake: str | None = None
    explained: bool = False

    @property
    def unexplained(self) -> Text | None:
        """The difference, where the verdict's own sentence does not account for it."""
        return None if self.explained else self.difference


@dataclass(frozen=True)
class Verdict:
    """What an answer is worth, and why.

    Attributes:
        mistake: the name of the recognised mistake, or None.
        forbidden: forbidden calls that were seen; any ends the credit.
        written: False while the answer is still the released stub.
    """

    name: str
    points: float
    max_points: float
    cases: tuple[CaseResult, ...] = ()
    mistake: str | None = None
    forbidden: tuple[Sighting, ...] = ()
    written: bool = True
    sentence: Text = field(default_factory=dict)
    observations: tuple[Observation, ...] = field(default=(), repr=False, compare=False)

    @property
    def passed(self) -> bool:
        return self.points == self.max_points

    def message(self, language: str = "en") -> str:
        """One or two sentences for the student: what went wrong and where to look."""
        return self.sentence[language]


_exercises: dict[str, Exercise] = {}


def exercise(
    *,
    name: str,
    lesson: str,
    points: int,
    difficulty: int,
    reference: Any,
    cases: Sequence[Case],
    mistakes: Sequence[Mistake],
    hints: Sequence[Text] = (),
    forbidden: Sequence[str] = (),
    plain: Callable[..., Any] | None = None,
    exact_zeros: bool = False,
    results: Sequence[str] = ("result",),
    driver: str = "function",
) -> Exercise:
    """Define an exercise and enter it in the catalogue.

    Raises:
        ValueError: if the name is taken, or two cases or two mistakes share a name.
    """
    for kind, entries in (("case", cases), ("mistake", mistakes)):
        seen = [entry.name for entry in entries]
        if len(set(seen)) != len(seen):
            raise ValueError(f"exercise {name}: two {kind}s share a name")
    if name in _exercises:
        raise ValueError(f"exercise {name} is defined twice")
    _exercises[name] = Exercise(
        name, lesson, points, difficulty, reference, tuple(cases), tuple(mistakes), tuple(hints),
        tuple(forbidden), plain, exact_zeros, tuple(results), driver,
    )  # fmt: skip
    return _exercises[name]


def question(*, name: str, lesson: str, right: str, wrong: Sequence[Mistake], hints: Sequence[Text] = ()) -> Exercise:
    """Define a multiple-choice question: an exercise whose answer is a letter. 1 point.

    Args:
        right: the right letter.
        wrong: one `Mistake` for each wrong letter (its `answer`), saying why it is tempting and wrong.
    """

    case = Case("letter", both("the chosen letter", "所選的選項"), lambda draw: ())
    return exercise(
        name=name, lesson=lesson, points=1, difficulty=1, reference=right, cases=[case], mistakes=wrong,
        hints=hints, driver="letter", results=("choice",),
    )  # fmt: skip


def get(name: str) -> Exercise:
    """The exercise of that name.

    Raises:
        KeyError: if there is none; the message lists near names.
    """
    load_all()
    if name not in _exercises:
        near = near_names(name)
        raise KeyError(f"no exercise is called {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    return _exercises[name]


def near_names(name: str) -> list[str]:
    """Names of exercises that look like `name`."""
    load_all()
    return difflib.get_close_matches(name, _exercises, n=3)


def names(lesson: str | None = None) -> list[str]:
    """Names of all exercises (of one lesson), in the order of the lessons."""
    load_all()
    return [name for name, entry in _exercises.items() if lesson in (None, entry.lesson)]


def load_all() -> None:
    import autograder.exercises  # noqa: F401  (its modules enter themselves in the catalogue)
