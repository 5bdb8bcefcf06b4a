"""What an answer may not call, seen in two ways: while it runs, and in its source.

A target is a dotted name ("torch.softmax", "torch.Tensor.backward", "torch.func.*") or a Python function (the
exercise's own reference). A sighting ends the credit of the exercise, so nothing here guesses: a name counts only
when it resolves to the forbidden thing.
"""

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch.overrides import TorchFunctionMode

# The course's own code is never an answer to the course's own questions; drawing with it is fine.
ALWAYS_FORBIDDEN = (
    "course_lib.*",
    "autograder.use",
    "autograder.get",
    "autograder.exercise.*",
    "autograder.exercises.*",
    "autograder.functions.*",
)
# Torch's own back doors to what an exercise forbids; nobody needs them for a formula.
BACK_DOORS = (
    "torch.ops.*",
    "torch._*",
    "torch.library.*",
    "torch.overrides.*",
    "torch.nn.attention.*",
    "torch.autograd.forward_ad.*",
    "torch.Tensor.grad_fn",
)
# Not forbidden, but an instructor may like to read code that reaches for them.
UNUSUAL = ("sys.modules", "sys._getframe", "ctypes.*", "gc.*", "inspect.*", "importlib.*", "builtins.*", "threading.*")
UNUSUAL_BUILTINS = ("__import__", "eval", "exec", "globals")
NOTEBOOK_NAMES = ("check", "hint", "progress", "start", "use")  # what a notebook takes from autograder
ALWAYS_ALLOWED = ("course_lib.plots",)
USUAL_IMPORTS = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy", "math": "math"}
# Under "torch.autograd.*" too, but they only switch recording on and off.
GRADIENT_MODES = ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled")
OWN_FILES = ("torch", "autograder", "course_lib")


@dataclass(frozen=True)
class Sighting:
    """A forbidden call: what was called, and the line of the cell it was called from (0: unknown)."""

    name: str
    line: int


class ForbiddenCall(RuntimeError):
    """Raised at the forbidden call itself, so that the student sees the line."""


# ---------------------------------------------------------------------------------------------- while it runs


@contextmanager
def watch(forbidden: Iterable[str | FunctionType], sightings: list[Sighting]) -> Iterator[None]:
    """While active, a call of anything in `forbidden` is written to `sightings` and raises `ForbiddenCall`."""
    targets = tuple(forbidden)
    if not targets:
        yield
        return

    def seen(name: str) -> None:
        sightings.append(Sighting(name, calling_line()))
        raise ForbiddenCall(f"{name} is not allowed in this exercise")

    builtins, functions = resolved(targets)
    with ExitStack() as stack:
        for function, name in functions:
            stack.enter_context(trapped(function, name, seen))
        if builtins:
            stack.enter_context(Watcher(builtins, seen))
        yield


class Watcher(TorchFunctionMode):
    """Sees every torch operation that runs, also those bound to a name before we came."""

    def __init__(self, names: dict[Any, str], seen: Callable[[str], None]) -> None:
        super().__init__()
        self.names, self.seen = names, seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            name = self.names.get(func)
        except TypeError:  # not hashable, so not one of ours
            name = None
        if name is not None:
            self.seen(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def trapped(function: FunctionType, name: str, seen: Callable[[str], None]) -> Iterator[None]:
    """Swap the code of a Python function, which reaches every name it is bound to."""
    original = function.__code__
    set_trap(function, name, seen)
    try:
        yield
    finally:
        function.__code__ = original
        TRAPS.pop(id(function), None)


TRAPS: dict[int, tuple[str, Callable[[str], None]]] = {}


def set_trap(function: FunctionType, name: str, seen: Callable[[str], None]) -> None:
    """Make `function` call `seen(name)` from now on. Its own code is gone unless the caller kept it."""
    TRAPS[id(function)] = (name, seen)
    function.__code__ = trap_code(id(function), function.__code__.co_freevars)


@cache  # compiling is what costs, and "torch.func.*" alone stands for twenty functions
def trap_code(key: int, freevars: tuple[str, ...]) -> CodeType:
    source = f"def trap(*args, **kwargs):\n    from autograder.guard import spring\n    spring({key})"
    scope: dict[str, Any] = {}
    exec(compile(source, "<autograder>", "exec"), scope)
    code: CodeType = scope["trap"].__code__
    return code.replace(co_freevars=freevars)


def spring(key: int) -> None:
    name, seen = TRAPS[key]
    seen(name)


def calling_line() -> int:
    """The line in the nearest frame that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package not in OWN_FILES and frame.f_code.co_filename != "<autograder>":
            return frame.f_lineno
        if frame.f_back is None:
            return 0
        frame = frame.f_back
    return 0


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


# ---------------------------------------------------------------------------------------------- in its source


def forbidden_in_source(source: str, forbidden: Iterable[str], context: str = "") -> list[Sighting]:
    """Forbidden names that stand in `source`, with their lines.

    Args:
        source: the cell or function of the answer.
        forbidden: dotted names; "x.*" takes everything below x; "torch.Tensor.m" takes any method call `.m(…)`.
        context: other code of the notebook, whose imports give names their meaning.
    """
    tree = parsed(source)
    if tree is None:
        return []
    imports = USUAL_IMPORTS | imports_in(context) | imported_names(tree)
    names = [*forbidden, *ALWAYS_FORBIDDEN, *BACK_DOORS]
    found: list[Sighting] = []
    for node in ast.walk(tree):
        for dotted in names_of(node, imports):
            if any(matches(dotted, name) for name in ALWAYS_ALLOWED):
                continue
            if any(matches(dotted, name) for name in names):
                found.append(Sighting(dotted, getattr(node, "lineno", 0)))
                break
    return sorted(set(found), key=lambda sighting: (sighting.line, sighting.name))


def unusual_in_source(source: str, forbidden: Iterable[str] = ()) -> list[Sighting]:
    """What an instructor may like to read in a student's code: built-ins that an exercise forbids, in whatever cell, and
    means to get at the grader. Nothing here costs points."""
    tree = parsed(source)
    if tree is None:
        return []
    imports = USUAL_IMPORTS | {name: name for name in ("sys", "autograder")} | imported_names(tree)
    found: list[Sighting] = []
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name) and node.id in UNUSUAL_BUILTINS:
            found.append(Sighting(node.id, line))
        for dotted in names_of(node, imports):
            ours = dotted.startswith("autograder.") and dotted.split(".")[1] not in NOTEBOOK_NAMES
            if ours or any(matches(dotted, name) for name in (*UNUSUAL, *forbidden, *BACK_DOORS)):
                found.append(Sighting(dotted, line))
    return list(dict.fromkeys(found))[:5]


@lru_cache(maxsize=4)
def imports_in(code: str) -> dict[str, str]:
    """What the imports of a notebook give names to; the same notebook is asked about for each exercise."""
    tree = parsed(code)
    return imported_names(tree) if tree is not None else {}


def parsed(source: str) -> ast.Module | None:
    """The syntax tree, notebook magics blanked out; None when the text is no Python."""
    lines = ["pass" if line.lstrip().startswith(("%", "!")) else line for line in textwrap.dedent(source).split("\n")]
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_names(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name if alias.asname else alias.name.split(".")[0]
                names[alias.asname or root] = root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def names_of(node: ast.AST, imports: dict[str, str]) -> Iterator[str]:
    """What a node refers to, as full dotted names."""
    if isinstance(node, ast.Attribute):
        chain = [node.attr]
        inner: ast.expr = node.value
        while isinstance(inner, ast.Attribute):
            chain.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in imports:
            yield ".".join([imports[inner.id], *reversed(chain)])
        else:
            yield f"torch.Tensor.{node.attr}"
    elif isinstance(node, ast.Name):
        if "." in imports.get(node.id, ""):
            yield imports[node.id]
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
    elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        yield "torch.Tensor.__matmul__"


def matches(dotted: str, forbidden: str) -> bool:
    if forbidden.endswith("*"):
        return dotted.startswith(forbidden[:-1])
    return dotted == forbidden or dotted.startswith(forbidden + ".")
