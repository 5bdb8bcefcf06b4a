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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
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
    "torch.jit.*",
    "torch.Tensor.grad_fn",
)
# Not forbidden, but an instructor may like to read code that reaches for them.
UNUSUAL = (
    "sys.modules", "sys._getframe", "sys.settrace", "sys.setprofile", "ctypes.*", "gc.*", "inspect.*", "importlib.*",
    "builtins.*", "threading.*", "_thread.*", "concurrent.*", "multiprocessing.*", "runpy.*", "code.*", "codeop.*",
    "torch.compile", "torch.multiprocessing.*",
)  # fmt: skip
UNUSUAL_BUILTINS = (
    "__import__", "eval", "exec", "compile", "globals", "locals", "vars", "setattr", "get_ipython", "__builtins__",
)  # fmt: skip
UNUSUAL_ATTRIBUTES = (
    "tb_frame", "f_back", "f_locals", "f_globals", "f_code", "__globals__", "__code__", "__closure__", "__dict__",
    "__subclasses__", "__traceback__", "__builtins__", "__getattribute__", "run_cell",
)  # fmt: skip
UNREADABLE = "code that cannot be read as Python"
MOST_MEANINGS = 8  # of one name; nobody's honest code comes near
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
        if name is None and private_to_torch(getattr(func, "__name__", "")) and called_by_student():
            name = f"torch.{func.__name__}"
        if name is not None:
            self.seen(name)
        return func(*args, **(kwargs or {}))


def called_by_student() -> bool:
    """Whether the torch operation that just announced itself stands in a student's own code, not in torch's."""
    frame = sys._getframe(2)  # past the watcher
    return frame.f_globals.get("__name__", "").split(".")[0] not in OWN_FILES


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

Meanings = dict[str, set[str]]  # what a name may stand for, as full dotted names


def forbidden_in_source(source: str, forbidden: Iterable[str], context: str = "") -> list[Sighting]:
    """Forbidden names that stand in `source`, with their lines.

    Args:
        source: the cell or function of the answer.
        forbidden: dotted names; "x.*" takes everything below x; "torch.Tensor.m" takes any method call `.m(…)`.
        context: other code of the notebook, whose imports and assignments give names their meaning.
    """
    tree = parsed(source)
    if tree is None:
        return []
    meanings = meanings_in(tree, meanings_of_code(context))
    names = [*forbidden, *ALWAYS_FORBIDDEN, *BACK_DOORS]
    found: list[Sighting] = []
    for node in ast.walk(tree):
        for dotted in names_of(node, meanings):
            if any(matches(dotted, name) for name in ALWAYS_ALLOWED):
                continue
            if any(matches(dotted, name) for name in names):
                found.append(Sighting(dotted, getattr(node, "lineno", 0)))
                break
    return sorted(set(found), key=lambda sighting: (sighting.line, sighting.name))


def unusual_in_source(source: str, forbidden: Iterable[str] = ()) -> list[Sighting]:
    """What an instructor may like to read in a student's code: built-ins that an exercise forbids, in whatever cell, and
    means to get at the grader or around the watch. Nothing here costs points."""
    tree = parsed(source)
    if tree is None:
        return [Sighting(UNREADABLE, 1)] if source.strip() else []
    meanings = meanings_in(tree, {name: {name} for name in ("sys", "autograder")})
    found: list[Sighting] = []
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name) and node.id in UNUSUAL_BUILTINS and node.id in source:
            found.append(Sighting(node.id, line))
        if isinstance(node, ast.Attribute) and (node.attr in UNUSUAL_ATTRIBUTES or private_to_torch(node.attr)):
            found.append(Sighting(node.attr, line))
        if is_call_of(node, "getattr") and not has_plain_text(node, 1):
            found.append(Sighting("getattr", line))
        for dotted in names_of(node, meanings):
            ours = dotted.startswith("autograder.") and dotted.split(".")[1] not in NOTEBOOK_NAMES
            if ours or any(matches(dotted, name) for name in (*UNUSUAL, *forbidden, *BACK_DOORS)):
                found.append(Sighting(dotted, line))
    return list(dict.fromkeys(found))[:5]


def is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def has_plain_text(call: ast.AST, position: int) -> bool:
    """Whether an argument of a call is a text that stands there as it is."""
    assert isinstance(call, ast.Call)
    given = call.args[position : position + 1]
    return bool(given) and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str)


@cache
def private_to_torch(name: str) -> bool:
    """Torch's own unlisted functions, `torch._softmax` for one."""
    return name.startswith("_") and not name.startswith("__") and callable(getattr(torch, name, None))


@lru_cache(maxsize=4)
def meanings_of_code(code: str) -> Meanings:
    """What the imports and assignments of a notebook give names to; the same notebook is asked about for each exercise."""
    tree = parsed(code)
    return meanings_in(tree, {}) if tree is not None else {}


@lru_cache(maxsize=64)
def parsed(source: str) -> ast.Module | None:
    """The syntax tree, notebook magics opened or blanked out; None when the text is no Python.

    The text as it is goes first: a line of Python may begin with a percent sign too.
    """
    source = textwrap.dedent(source)
    for reading in (source, transformed(source), blanked(source)):
        if reading is None:
            continue
        try:
            tree = ast.parse(reading)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        open_magics(tree)
        return tree
    return None


def transformed(source: str) -> str | None:
    """The text as IPython reads it: a magic becomes a call with the rest of its line, or of its cell, as a text."""
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        return str(TransformerManager().transform_cell(source))
    except Exception:  # no IPython here, or a text that it cannot read either
        return None


def blanked(source: str) -> str:
    """The text without its magics, for where there is no IPython."""
    return "\n".join("pass" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n"))


MAGICS = ("run_line_magic", "run_cell_magic")


def open_magics(tree: ast.Module) -> None:
    """Put the code that a magic runs (`%time x = 1`) beside the call that stands for it."""
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAGICS:
            for text in (a.value for a in node.args[1:] if isinstance(a, ast.Constant) and isinstance(a.value, str)):
                with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                    inner = ast.parse(textwrap.dedent(text))
                    ast.increment_lineno(inner, node.lineno - 1)
                    tree.body += inner.body


def meanings_in(tree: ast.Module, known: Mapping[str, set[str]]) -> Meanings:
    """All that a name may stand for: what usual imports, `known`, the imports and the assignments of the code give it.

    Meanings add up and are never taken away, so that no import inside some other function can hide one.
    """
    meanings: Meanings = {name: {dotted} for name, dotted in USUAL_IMPORTS.items()}
    for name, dotted in known.items():
        meanings.setdefault(name, set()).update(dotted)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name if alias.asname else alias.name.split(".")[0]
                meanings.setdefault(alias.asname or root, set()).add(root)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                meanings.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")
    pairs = [pair for node in ast.walk(tree) for pair in bindings(node)]
    for _ in range(4):  # `a = torch; b = a; c = b._softmax`: each round follows one step more
        for name, value in pairs:
            meanings.setdefault(name, set()).update(list(dotted_names(value, meanings))[:MOST_MEANINGS])
    return {name: dotted for name, dotted in meanings.items() if dotted}


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and the expressions that they are bound to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from unpacked(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from unpacked(node.target, node.value)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        for argument, default in zip(positional[len(positional) - len(given.defaults) :], given.defaults):
            yield argument.arg, default
        for argument, keyword_default in zip(given.kwonlyargs, given.kw_defaults):
            if keyword_default is not None:
                yield argument.arg, keyword_default
    elif isinstance(node, ast.For | ast.comprehension):
        elements = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List | ast.Set) else []
        for element in elements:
            yield from unpacked(node.target, element)


def unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for inner, part in zip(target.elts, value.elts):
            yield from unpacked(inner, part)


def dotted_names(node: ast.expr, meanings: Meanings) -> Iterator[str]:
    """What a name or a chain of attributes may stand for."""
    chain: list[str] = []
    while isinstance(node, ast.Attribute):
        chain.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        for root in meanings.get(node.id, ()):
            yield ".".join([root, *reversed(chain)])


def names_of(node: ast.AST, meanings: Meanings) -> Iterator[str]:
    """What a node refers to, as full dotted names."""
    if isinstance(node, ast.Attribute):
        known = list(dotted_names(node, meanings))
        yield from known or [f"torch.Tensor.{node.attr}"]
    elif isinstance(node, ast.Name):
        yield from (dotted for dotted in meanings.get(node.id, ()) if "." in dotted)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
    elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        yield "torch.Tensor.__matmul__"
    elif is_call_of(node, "getattr") and has_plain_text(node, 1):
        assert isinstance(node, ast.Call)
        yield from names_of(ast.Attribute(node.args[0], node.args[1].value), meanings)  # type: ignore[attr-defined]


def matches(dotted: str, forbidden: str) -> bool:
    if forbidden.endswith("*"):
        return dotted.startswith(forbidden[:-1])
    return dotted == forbidden or dotted.startswith(forbidden + ".")
