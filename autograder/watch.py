"""What an answer may not call, seen while it runs.

A target is a dotted name ("torch.softmax", "torch.Tensor.backward", "torch.func.*") or a Python function (the
exercise's own reference). A sighting ends the credit of the exercise, so nothing here guesses.
"""

import gc
import importlib
import importlib.util
import inspect
import os
import re
import site
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from sys import gettrace, settrace  # bound before a student gives the names to something else
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from autograder.callbacks import PYTHON, TORCH, given_a_callback, name_of
from autograder.operations import Record, operations_of

# Under "torch.autograd.*" too, but they only switch recording on and off.
GRADIENT_MODES = ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled")
CELL = "<ipython-input-"  # and its number: the file of the functions of a notebook's cell while it is graded
UNSEEN = " (the watch cannot see into it)"
PROFILER = "torch.profiler"  # only one at a time keeps a record, and it is the watch's
OWN_FILES = ("torch", "autograder", "course_lib")


@dataclass(frozen=True)
class Sighting:
    """A forbidden call: what was called, and the line of the cell it was called from (0: unknown)."""

    name: str
    line: int


class ForbiddenCall(RuntimeError):
    """Raised at the forbidden call itself, so that the student sees the line."""


@contextmanager
def watch(
    forbidden: Iterable[str | FunctionType], sightings: list[Sighting], record: Record | None = None
) -> Iterator[Record]:
    """While active, a call of anything in `forbidden` is written to `sightings` and raises `ForbiddenCall`.

    What got past is noted at the end, from torch's own record of its operations, which is given out too.
    """
    targets, record = tuple(filter(loaded, forbidden)), record or Record()
    if not targets:
        yield record
        return

    def seen(name: str) -> None:
        sightings.append(Sighting(name, calling_line()))
        raise ForbiddenCall(f"{name} is not allowed in this exercise")

    builtins, functions = resolved(targets)
    with ExitStack() as stack:
        compiles: list[Any] = [(torch.compile, f"torch.compile{UNSEEN}")] if builtins else []  # torch.cond does as well
        stack.enter_context(trapped([*functions, *compiles], seen))
        if builtins:
            if "torch._dynamo" in sys.modules:  # what was compiled before runs as it is written
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(no_threads(seen))
            stack.enter_context(no_collection())
            stack.callback(note_carried_out, record, targets, sightings)
            stack.enter_context(record)
            stack.enter_context(Watcher(builtins, seen, record))
        yield record


def note_carried_out(record: Record, forbidden: tuple[str | FunctionType, ...], sightings: list[Sighting]) -> None:
    """What the record holds of forbidden calls, where none was seen on its way."""
    if not sightings and (record.names or not record.kept):
        sightings += carried_out(record.names & operations_of(forbidden), record.kept)


def carried_out(names: Iterable[str], kept: bool) -> list[Sighting]:
    found = [f"torch.ops.aten.{name}" for name in sorted(names)]
    return [Sighting(name, 0) for name in found or ([] if kept else [PROFILER])]


# What hands a tensor's numbers to Python or numpy, where nobody sees what is done with them.
LEAVING = {getattr(torch.Tensor, name): f"Tensor.{name}" for name in ("numpy", "tolist", "__array__", "__dlpack__")}
# A matrix can leave number by number as well.
NUMBERS = {getattr(torch.Tensor, name) for name in ("item", "__float__", "__int__", "__index__", "__complex__")}
ITEM, MOST_NUMBERS = "Tensor.item", 8
# And what takes numbers of numpy's in. Torch announces these only; the sandbox counts `torch.from_numpy` and the like.
ENTERING = (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor)
FROM_NUMPY = "torch.from_numpy"


class Watcher(TorchFunctionMode):
    """Sees every torch operation that runs, also those bound to a name before we came."""

    def __init__(self, names: dict[Any, str], seen: Callable[[str], None], record: Record) -> None:
        super().__init__()
        self.names, self.seen, self.record = names, seen, record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.record.called()
        if given_a_callback(func, args, kwargs or {}):  # first: to look at what is a student's own may run it
            self.seen(name_of(func) + UNSEEN)
        self.note_ways(func, args, kwargs or {})
        name = self.names.get(func)
        if name is None and private_to_torch(func.__name__) and called_by_student():
            name = f"torch.{func.__name__}"
        if name is not None:
            self.seen(name)
        with LibrariesOnly(lambda: self.seen(name_of(func) + UNSEEN)):
            return func(*args, **(kwargs or {}))  # torch keeps the watcher off in here, whoever is called back

    def note_ways(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Whether a call leads out of torch, or in again; a number or two by themselves are everybody's."""
        if func in LEAVING:
            self.record.left.add(LEAVING[func])
        elif func in NUMBERS:
            self.record.numbers += 1
            self.record.left |= {ITEM} if self.record.numbers > MOST_NUMBERS else set()
        elif func in ENTERING:
            given = [*args, *kwargs.values()]
            given += [inner for each in given if type(each) in (list, tuple) for inner in each]
            self.record.left |= {FROM_NUMPY} if any(type(each) is np.ndarray for each in given) else set()


class LibrariesOnly:
    """While active, no function runs in this thread but those of torch, Python, installed packages and ours.

    What torch is given is not all that it may run: the last reference to an object goes away, a backward pass comes to a
    function of a student's, a tensor is printed with what was set before.
    """

    def __init__(self, seen: Callable[[], None]) -> None:
        self.seen = seen

    def __enter__(self) -> None:
        self.before = gettrace()
        settrace(self)  # a profile would do as well, but hears of calls of C functions too, which costs time

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        kept = gettrace() is self
        settrace(self.before)
        if not kept and problem is None:  # somebody took it away, or swallowed what it had raised
            self.seen()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if not in_library(file_of(frame.f_code)) and not made_by_library(frame) and not is_imported(frame):
            self.seen()


@contextmanager
def no_collection() -> Iterator[None]:
    """Python looks for unused objects in circles at no moment of a student's choice: their last words may fall anywhere,
    into an operation of torch too. They wait until the answer is there.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def no_threads(seen: Callable[[str], None]) -> Iterator[None]:
    """The watcher belongs to one thread: while it watches, that thread may start no other."""
    start, watched = threading.Thread.start, threading.get_ident()

    def start_elsewhere(thread: threading.Thread) -> None:
        if threading.get_ident() == watched and type(thread).__module__ != "tqdm._monitor":  # a progress bar's own
            seen("threading.Thread.start" + UNSEEN)
        start(thread)

    threading.Thread.start = start_elsewhere  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def called_by_student() -> bool:
    """Whether the torch operation that just announced itself stands in a student's own code, not in torch's."""
    return not of_package(sys._getframe(2))  # past the watcher


HERE = Path(__file__).parent
OURS, TESTS = str(HERE) + os.sep, str(HERE / "tests") + os.sep
PACKAGES = (TORCH, OURS, str(HERE.parent / "course_lib") + os.sep)


def of_package(frame: FrameType) -> bool:
    """Whether a frame runs torch's code or ours, by its file: a module may call itself what it likes."""
    file = file_of(frame.f_code)
    if file.startswith("<") and not file.startswith("<ipython"):  # code that a package makes from a text
        return frame.f_globals.get("__name__", "").split(".")[0] in OWN_FILES
    return file.startswith(PACKAGES) and not file.startswith(TESTS)  # what our tests call stands for a student's call


INSTALLED = tuple(folder + os.sep for folder in (*site.getsitepackages(), site.getusersitepackages()))
LIBRARIES = (PYTHON, *INSTALLED, *PACKAGES)


def file_of(code: CodeType) -> str:
    """The file that code calls its own, unless that is a text with opinions of its own."""
    return code.co_filename if type(code.co_filename) is str else ""


@cache  # asked of every function that runs in an operation
def in_library(file: str) -> bool:
    """Whether a file is Python's own, an installed package's or ours; not one that only calls itself so."""
    frozen = re.fullmatch(r"<frozen [\w.]+>", file) is not None
    inside = file.startswith(LIBRARIES) and not file.startswith(TESTS) and ".." not in file.split(os.sep)
    return frozen or inside


def made_by_library(frame: FrameType) -> bool:
    """Whether a frame runs what torch, a named tuple or a library's dataclass makes from a text: a warning on its way to
    the page comes to one of IPython's."""
    if file_of(frame.f_code) == "<string>":
        name = frame.f_globals.get("__name__", "")
        module = sys.modules.get(name) if type(name) is str else None
        file = getattr(module, "__file__", None) or ""
        if name.startswith("namedtuple_") or (vars_of(module) is frame.f_globals and in_library(file)):
            return True
    return of_package(frame)


def is_imported(frame: FrameType) -> bool:
    """Whether a frame runs while a library is imported, and no student's in between: what that makes of its own texts is its own.
    The first forward-mode derivative of a process has torch import a good part of itself.
    """
    inside: FrameType | None = frame
    while inside is not None:
        file = file_of(inside.f_code)
        if file.startswith("<frozen importlib"):
            return True
        if file.startswith("<ipython") or not (file.startswith("<") or in_library(file)):  # a student's
            return False
        inside = inside.f_back
    return False


def vars_of(module: object) -> object:
    return vars(module) if type(module) is ModuleType else None


@contextmanager
def trapped(functions: list[tuple[FunctionType, str]], seen: Callable[[str], None]) -> Iterator[None]:
    """Swap the code of Python functions, which reaches every name they are bound to."""
    originals = [(function, function.__code__) for function, _ in functions]
    try:
        for function, name in functions:
            set_trap(function, name, seen)
        yield
    finally:
        for function, original in originals:
            function.__code__ = original


TRAP_FILE = "<autograder>"


def set_trap(function: FunctionType, name: str, seen: Callable[[str], None]) -> None:
    """Make `function` call `seen(name)` from now on. Its own code is gone unless the caller kept it.

    The trap holds both itself: it looks up no name, which somebody could have given to something else.
    """
    holds = {"seen": seen, "name": name}
    code = trap.__code__
    function.__code__ = code.replace(
        co_consts=tuple([holds.get(constant, constant) for constant in code.co_consts]),
        co_freevars=function.__code__.co_freevars,
        co_filename=TRAP_FILE,
    )


def trap(*args: Any, **kwargs: Any) -> None:
    seen: Any = "seen"
    seen("name")


def calling_line() -> int:
    """The line in the nearest frame that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        if not of_package(frame) and frame.f_code.co_filename != TRAP_FILE:
            return frame.f_lineno
        if frame.f_back is None:
            return 0
        frame = frame.f_back
    return 0


def loaded(target: str | FunctionType) -> bool:
    """Whether there is anything to watch: who has not imported SciPy need not have it, and calls nothing of it."""
    return not isinstance(target, str) or target.startswith("torch.") or target.rpartition(".")[0] in sys.modules


@cache
def resolved(targets: tuple[str | FunctionType, ...]) -> tuple[dict[Any, str], tuple[tuple[FunctionType, str], ...]]:
    """Split targets into torch's own callables (seen by `Watcher`) and Python functions (trapped)."""
    builtins: dict[Any, str] = {}
    functions: dict[FunctionType, str] = {}

    def add(thing: Any, name: str) -> None:
        if isinstance(thing, FunctionType):
            functions[thing] = name
        elif isinstance(thing, type):
            init = thing.__dict__.get("__init__")
            if isinstance(init, FunctionType):
                functions[init] = name
        elif inspect.isroutine(thing):
            builtins[thing] = name

    for target in targets:
        if isinstance(target, FunctionType):
            add(target, f"the course's own {target.__name__}")
        elif isinstance(target, str):
            if target.split(".")[0] in ("course_lib", "autograder"):
                continue  # source check and sandbox; in a notebook the course's own code is running around the answer
            if target.endswith(".*"):
                for name, thing in public_members(target[:-2]):
                    add(thing, name)
            else:
                add(find(target), target)
    # A torch function that is Python on the outside also announces itself to the mode.
    builtins.update({f: n for f, n in functions.items() if f.__module__.startswith("torch")})
    return builtins, tuple(functions.items())


def find(dotted: str) -> Any:
    """The object that a dotted name stands for.

    Raises:
        AttributeError: if there is none, so that a misspelt entry of an exercise cannot go unnoticed.
    """
    parts = dotted.split(".")
    thing: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        if isinstance(thing, ModuleType) and not hasattr(thing, part):
            with suppress(ModuleNotFoundError):
                importlib.import_module(".".join(parts[:i]))
        thing = getattr(thing, part)
    return thing


def public_members(module_name: str) -> Iterator[tuple[str, Any]]:
    module = importlib.import_module(module_name)
    for name in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
        thing = getattr(module, name, None)
        if isinstance(thing, ModuleType) or name in GRADIENT_MODES:
            continue
        yield f"{module_name}.{name}", thing


@cache
def private_to_torch(name: str) -> bool:
    """Torch's own unlisted functions, `torch._softmax` for one."""
    return name.startswith("_") and not name.startswith("__") and callable(getattr(torch, name, None))
