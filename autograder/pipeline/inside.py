"""The `autograder` package as a submission sees it inside the sandbox: `check` notes what an answer does, nothing judges.

The worker puts this file in the place of `autograder/__init__.py`. There are no exercises, references or expected
values behind it; all that a notebook can reach is the inputs on which its answers are being run.
"""

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import is_
from sys import audit, gettrace, modules, settrace  # bound before a student gives the names to something else
from types import FrameType, FunctionType
from typing import Any

import torch
import torch.utils.dlpack

from autograder.observe import Observation, observe, refuse_inside
from autograder.operations import Record
from autograder.watch import CELL, FROM_NUMPY, Sighting
from autograder.wire import MAX_SIGHTINGS, MOST_CELLS, dumps, loads
from autograder.witness import CASE, READ, RETURNED, SEEN


@dataclass
class State:
    """What the worker tells this module about the notebook that is running."""

    plan: dict[str, dict[str, Any]] = field(default_factory=dict)
    open_check: str | None = None  # the exercise whose own check cell is running
    names: dict[str, Any] | None = None  # the notebook's
    trapped: list[Sighting] | None = None  # where calls of the course's own code are written while an answer runs


state = State()


def start(lesson: str, language: str = "en") -> None:
    """The set-up cell calls it; nothing to prepare here."""


def hint(name: str) -> None:
    """Hints are for the notebook at home."""


def progress() -> None:
    """Progress is for the notebook at home too."""


def names(lesson: str | None = None) -> list[str]:
    """The exercises of the notebook that is running."""
    return list(state.plan)


def get(name: str) -> Any:
    """There are no exercises here; a notebook that imports the name runs on all the same.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("exercises are not available while a submission is graded")


@dataclass(frozen=True)
class Unjudged:
    """Stands for a verdict: here nobody knows one yet."""

    name: str
    points: float = 0.0
    max_points: float = 0.0
    cases: tuple[Any, ...] = ()
    mistake: str | None = None
    forbidden: tuple[Any, ...] = ()
    written: bool = True
    passed: bool = False

    def message(self, language: str = "en") -> str:
        return {"zh-TW": "評分時由外面判定。"}.get(language, "Decided outside while a submission is graded.")


def judge(name: str, answer: Any, seed: int = 0) -> Unjudged:
    """In a notebook: the verdict. Here nothing judges."""
    refuse_inside()
    return Unjudged(name)


def use(name: str, answer: Any) -> Any:
    """In a notebook: the student's function or the course's. Here only the student's own exists."""
    refuse_inside()
    return answer


class Counted:
    """How often some functions of a module have been called; what has these names from now on counts."""

    def __init__(self, module: Any, *names: str) -> None:
        self.times = 0
        for name in names:
            setattr(module, name, self.counting(getattr(module, name)))

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.times += 1
            return function(*args, **kwargs)

        return call


FROM_OUTSIDE = Counted(torch, "from_numpy", "frombuffer", "from_dlpack"), Counted(torch.utils.dlpack, "from_dlpack")


def times(counted: tuple[Counted, ...]) -> int:
    return sum(each.times for each in counted)


class CellsOf:
    """While active, the cells are noted whose functions run in this thread."""

    def __init__(self) -> None:
        self.names = set[str]()

    def __enter__(self) -> "CellsOf":
        self.before = gettrace()
        settrace(self.note)
        return self

    def __exit__(self, *_: object) -> None:
        settrace(self.before)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        # To ask for a frame's code is an event.
        if frame.f_globals is state.names and frame.f_code.co_filename.startswith(CELL):
            self.names.add(frame.f_code.co_filename)

    @property
    def numbers(self) -> tuple[int, ...]:
        digits = (name.removeprefix(CELL).rstrip(">") for name in self.names)
        return tuple(sorted(int(text) for text in digits if text.isdecimal() and len(text) < 6))[:MOST_CELLS]


LEANT_ON = ("contextlib", "re", "torch.overrides")  # parts of Python and torch that the grader's own are made of
# What a notebook may give to something else in `builtins`; IPython does, too.
FREE = ("_", "print", "input", "open", "display", "get_ipython", "exit", "quit", "help", "breakpoint", "__IPYTHON__")


def sealed() -> tuple[Callable[[], bool], frozenset[FunctionType]]:
    """A function that tells whether all parts of the grader in this process are still what they are now; and the functions among
    them.

    It takes no name from outside, which somebody could have given to something else.
    """
    same, every, each, listed, length = is_, all, map, list, len

    def leant_on(module: str) -> bool:
        return module.partition(".")[0] == "autograder" or module in LEANT_ON

    ours = [module for name, module in modules.items() if leant_on(name)]
    things = [thing for module in ours for thing in vars(module).values()]
    kinds = {thing for thing in things if isinstance(thing, type) and leant_on(thing.__module__)}
    for module in ours:  # Python notes here which warnings of torch it has shown
        vars(module).setdefault("__warningregistry__", {})
    spaces = [(space, listed(space.values())) for space in (vars(owner) for owner in (*ours, *kinds))]
    functions = {f for _, values in spaces for f in values if isinstance(f, FunctionType)}
    everywhere = vars(builtins)
    called = [name for name in everywhere if name not in FREE]
    found = listed(each(everywhere.get, called))

    def untouched() -> bool:
        if not every(each(same, each(everywhere.get, called), found)):
            return False
        for space, kept in spaces:  # as many, and each in its place: a name that is new stands at the end
            if length(space) != length(kept) or not every(each(same, space.values(), kept)):
                return False
        return True

    # Those of torch may be trapped meanwhile.
    return untouched, frozenset(f for f in functions if leant_on(str(f.__module__)))


class WitnessRecord(Record):
    """In the place of a record of its own: it is kept elsewhere (witness.py)."""

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def read(self) -> None:
        audit(READ)


def check(name: str, answer: Any, seed: int = 0) -> None:
    """Run `answer` on the inputs drawn for this submission and say what it did, case by case."""
    refuse_inside()
    if name != state.open_check or name not in state.plan:
        return  # the student's own extra call of check: nothing to do when graded
    plan = state.plan[name]
    for i in range(plan["cases"]):
        state.trapped, given = [], list[str]()
        audit(CASE, name, i, given)
        if not given:  # tried already
            return
        call = loads(given[0])
        entered, record = times(FROM_OUTSIDE), WitnessRecord()

        def tell(seen: Observation, entered: int = entered) -> None:
            left = seen.operations + ((FROM_NUMPY,) if times(FROM_OUTSIDE) != entered and plan["forbidden"] else ())
            audit(RETURNED, dumps(replace(seen, operations=left, forbidden=seen.forbidden[:MAX_SIGHTINGS])))

        with CellsOf() as cells:
            seen = observe(answer, call, plan["driver"], tuple(plan["forbidden"]), record, tell)
        # A loop may call the same thing on the same line any number of times.
        sightings = tuple(dict.fromkeys([*seen.forbidden, *state.trapped]))[:MAX_SIGHTINGS]
        state.trapped = None
        audit(SEEN, dumps(Observation(
            gradients=seen.gradients, gradient_error=seen.gradient_error, forbidden=sightings, cells=cells.numbers
        )))  # fmt: skip
