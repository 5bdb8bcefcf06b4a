"""The `autograder` package as a submission sees it inside the sandbox: `check` notes what an answer does, nothing judges.

The worker puts this file in the place of `autograder/__init__.py`. There are no exercises, references or expected
values behind it; all that a notebook can reach is the inputs on which its answers are being run.
"""

import _thread
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from os import WNOHANG, waitpid  # bound before a student gives the names to something else
from resource import RUSAGE_CHILDREN, getrusage
from signal import SIG_IGN, SIGCHLD, getsignal
from sys import _current_frames as frames_of_threads
from sys import gettrace, modules, settrace
from types import FrameType, FunctionType
from typing import Any

import torch
import torch.utils.dlpack

from autograder.observe import observe, refuse_inside
from autograder.watch import CELL, FROM_NUMPY, Sighting
from autograder.wire import MAX_SIGHTINGS, MOST_CELLS, dumps, loads


@dataclass
class State:
    """What the worker tells this module about the notebook that is running."""

    plan: dict[str, dict[str, Any]] = field(default_factory=dict)
    open_check: str | None = None  # the exercise whose own check cell is running
    send: Callable[[dict[str, Any]], None] = print
    trapped: list[Sighting] | None = None  # where calls of the course's own code are written while an answer runs
    untouched: Callable[[], bool] = bool  # whether the grader's own parts are what they were before the first cell


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
            if hasattr(module, name):  # Python 3.13 has other ways to start a thread than 3.11
                setattr(module, name, self.counting(getattr(module, name)))

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.times += 1
            return function(*args, **kwargs)

        return call


STARTS = "start_new_thread", "start_new", "start_joinable_thread", "_start_new_thread", "_start_joinable_thread"
THREADS = Counted(_thread, *STARTS), Counted(threading, *STARTS)
FROM_OUTSIDE = Counted(torch, "from_numpy", "frombuffer", "from_dlpack"), Counted(torch.utils.dlpack, "from_dlpack")


def times(counted: tuple[Counted, ...]) -> int:
    return sum(each.times for each in counted)


def ended_children() -> int:
    """Grows with every process of the notebook's that has ended and was waited for."""
    return getrusage(RUSAGE_CHILDREN).ru_minflt


def beside(ended_before: int, started_before: int) -> Iterator[str]:
    """What runs beside an answer, where no watch stands, or has run since."""
    if len(frames_of_threads()) > 1 or times(THREADS) != started_before:
        yield "threads"
    try:
        waitpid(-1, WNOHANG)
    except ChildProcessError:
        if ended_children() == ended_before and getsignal(SIGCHLD) is not SIG_IGN:
            return
    yield "processes"


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
        if frame.f_code.co_filename.startswith(CELL):
            self.names.add(frame.f_code.co_filename)

    @property
    def numbers(self) -> tuple[int, ...]:
        digits = (name.removeprefix(CELL).rstrip(">") for name in self.names)
        return tuple(sorted(int(text) for text in digits if text.isdecimal() and len(text) < 6))[:MOST_CELLS]


def sealed() -> Callable[[], bool]:
    """A function that tells whether all parts of the grader in this process are still what they are now.

    It takes no name from outside, which somebody could have given to something else.
    """
    identity, each, listed = id, map, list
    ours = [module for name, module in modules.items() if name.partition(".")[0] == "autograder"]
    kinds = {thing for module in ours for thing in vars(module).values() if isinstance(thing, type)}
    kinds = {kind for kind in kinds if kind.__module__.partition(".")[0] == "autograder"}
    for module in ours:  # Python notes here which warnings of torch it has shown
        vars(module).setdefault("__warningregistry__", {})
    spaces = [vars(owner) for owner in (*ours, *kinds)]
    functions = {thing for space in spaces for thing in space.values() if isinstance(thing, FunctionType)}
    kept = [(space, listed(space), listed(each(identity, space.values()))) for space in spaces]
    codes = [(f, f.__code__, f.__defaults__, f.__kwdefaults__) for f in functions]

    def untouched() -> bool:
        for space, names_kept, values_kept in kept:
            if listed(space) != names_kept or listed(each(identity, space.values())) != values_kept:
                return False
        for f, code, defaults, more in codes:
            if f.__code__ is not code or f.__defaults__ is not defaults or f.__kwdefaults__ is not more:
                return False
        return True

    return untouched


def check(name: str, answer: Any, seed: int = 0) -> None:
    """Run `answer` on the inputs drawn for this submission and send out what it did, case by case."""
    refuse_inside()
    if name != state.open_check or name not in state.plan:
        return  # the student's own extra call of check: nothing to do when graded
    plan = state.plan[name]
    for i, text in enumerate(plan["calls"]):
        state.trapped = []
        call = loads(text)
        before, entered = (ended_children(), times(THREADS)), times(FROM_OUTSIDE)
        with CellsOf() as cells:
            seen = observe(answer, call, plan["driver"], tuple(plan["forbidden"]))
        # A loop may call the same thing on the same line any number of times.
        sightings = tuple(dict.fromkeys([*seen.forbidden, *state.trapped]))[:MAX_SIGHTINGS]
        others = (*beside(*before), *(() if state.untouched() else ("grader",)))
        operations = seen.operations + ((FROM_NUMPY,) if times(FROM_OUTSIDE) != entered and plan["forbidden"] else ())
        seen = replace(seen, forbidden=sightings, beside=others, cells=cells.numbers, operations=operations)
        state.trapped = None
        state.send({"event": "observation", "name": name, "case": i, "seen": dumps(seen)})
