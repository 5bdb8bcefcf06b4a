"""What an answer may not call, seen in two ways: while it runs, and in its source.

A target is a dotted name ("torch.softmax", "torch.Tensor.backward", "torch.func.*") or a Python function (the
exercise's own reference). A sighting ends the credit of the exercise, so nothing here guesses: a name counts only
when it resolves to the forbidden thing.
"""

import ast
import copy
import importlib
import importlib.util
import inspect
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
# Not forbidden, but an instructor may like to read code that reaches for them: words that no honest answer needs. They
# lead around the watch, to the grader, or to names that are put together at run time.
UNUSUAL = words(
    """
    ops _ops _C library jit compile fx overrides _python_dispatch cpp_extension CompilationUnit
    apply_ map_ map2_ as_subclass _make_subclass _make_wrapper_subclass TorchFunctionMode TorchDispatchMode
    DisableTorchFunction DisableTorchFunctionSubclass saved_tensors_hooks register_hook grad_fn next_functions forward_ad
    dlpack to_dlpack from_dlpack attrgetter methodcaller resolve_name getattr setattr delattr vars globals locals eval
    exec modules _getframe currentframe settrace setprofile tb_frame f_back f_locals f_globals f_code f_builtins
    gi_frame cr_frame cell_contents run_cell run_code user_ns torch sys os _sys _os builtins importlib pkgutil
    ctypes ctypeslib gc inspect threading _thread asyncio to_thread concurrent multiprocessing subprocess runpy timeit
    _exit fork kill dup dup2 write_text write_bytes FileIO parallel_apply parallel_backend
    get_field format_field get_value convert_field vformat get_type_hints ForwardRef singledispatch singledispatchmethod
    make_dataclass runtime_checkable register import_item import_string resolve runstring unsafe_eval read_pickle ev ex
    InteractiveShell BaseConfigurator
    """
)
# Whole names, for what is odd in one module and usual elsewhere.
UNUSUAL_NAMES = ("string.Formatter",)
UNUSUAL_BUILTINS = words("setattr delattr vars globals locals eval exec compile get_ipython breakpoint memoryview")
UNUSUAL_BASES = ("Tensor", "Parameter", "ModuleType", "Formatter", "redirect_stdout", "redirect_stderr")
# With any other value than the one that does nothing.
UNUSUAL_KEYWORDS = {"allow_pickle": False, "weights_only": True, "metaclass": None, "n_jobs": 1, "num_workers": 0}
USUAL_WITHOUT_ARGUMENTS = ("eval", "modules", "resolve")  # model.eval(), model.modules(), path.resolve()
LOADERS = ("numpy.load", "torch.load")  # with more than a path they may run code that lies in a file
USUAL_DUNDERS = words("__init__ __version__ __name__ __doc__ __file__ __post_init__ __all__ __main__")
USUAL_METHODS = USUAL_DUNDERS | words(
    """
    __call__ __repr__ __str__ __len__ __getitem__ __setitem__ __iter__ __next__ __contains__ __eq__ __lt__ __hash__
    __add__ __sub__ __mul__ __matmul__ __truediv__ __neg__ __enter__ __exit__
    """
)
LESSON_MODULES = words(
    """
    __future__ abc autograder bisect cmath collections contextlib copy course_lib csv dataclasses datetime einops enum
    fractions functools glob google heapq io IPython ipywidgets itertools json logging math matplotlib mpl_toolkits
    numbers numpy operator os pandas pathlib PIL platform plotly pprint random re safetensors scipy seaborn sklearn
    statistics string sys textwrap time torch tqdm typing typing_extensions warnings
    """
)
# Of packages that hold much more than a lesson needs, the modules that lessons do use; of the others each is listed.
USUAL_SUBMODULES = {
    "torch": words(
        """
        nn nn.functional nn.init nn.modules nn.parameter nn.utils nn.utils.rnn autograd autograd.functional backends
        cuda distributions fft func linalg mps optim optim.lr_scheduler profiler random special testing types utils
        utils.checkpoint utils.data utils.flop_counter utils.tensorboard version
        """
    ),
    "numpy": words("fft linalg polynomial random testing typing version"),
    "scipy": words("constants fft integrate interpolate linalg optimize signal sparse spatial special stats"),
    "sklearn": words(
        """
        cluster datasets decomposition linear_model manifold metrics model_selection neighbors pipeline preprocessing
        feature_extraction
        """
    ),
    "IPython": words("core core.display core.display_functions display"),
    "google": words("colab"),
    "collections": words("abc"),
    "logging": words(""),
    "json": words("decoder"),
    "tqdm": words("auto notebook std"),
}
USUAL_OF_SYSTEM = {
    "os": words("environ getenv path sep getcwd listdir makedirs mkdir cpu_count name"),
    "sys": words("version version_info platform path maxsize float_info stdout stderr argv executable getsizeof"),
}
# Modules that are handed on as values (`[torch][0]`) are out of sight of every name that follows.
ALWAYS_MODULES = ("torch", "sys", "os", "autograder", "course_lib")
# Forbidden in some exercises, but what one's own experiments are made of: listed in answers only.
EVERYDAY = words(
    """
    matmul mm mv bmm dot vdot inner outer ger addmm addmv addr addbmm baddbmm einsum tensordot vecdot multi_dot linear
    numpy tolist autograd backward func grad __matmul__ __rmatmul__
    """
)
MOST_SCANNED = 100_000  # characters of one cell, and of all cells together as context
TOO_LONG = f"more than {MOST_SCANNED} characters of code: not scanned"
TANGLED = "names too tangled to follow"
MOST_STEPS = 12  # components of a dotted name
MOST_MAGICS, MOST_READ_AGAIN = 50, 500_000  # IPython reads the whole text again for each: in characters
MAGICS_UNREAD = "too many lines of magic: not all that they run was read"
# Magics that run the code behind them, and the options of these that take a value of their own.
CODE_MAGICS, WITH_VALUE, WRITES = words("time timeit prun capture"), words("-n -r -p -s -l"), ("-D", "-T")
USUAL_MAGICS = CODE_MAGICS | words(
    """
    matplotlib pip conda mamba uv cd ls ll pwd cat mkdir rm cp mv env set_env config load_ext reload_ext autoreload
    precision who whos who_ls lsmagic html HTML latex markdown javascript js svg SVG bash sh script tensorboard pinfo
    pinfo2 psearch xmode colors history hist doctest_mode
    """
)
UNREADABLE = "code that cannot be read as Python"
MOST_MEANINGS = 8  # of one name; nobody's honest code comes near
NOTEBOOK_NAMES = (
    "check",
    "hint",
    "judge",
    "names",
    "progress",
    "start",
    "use",
)  # what a notebook takes from autograder
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
        called = getattr(func, "__name__", "")
        if name is None and (called in RUNS_PYTHON or private_to_torch(called)) and called_by_student():
            name = (
                f"torch.Tensor.{called} (the watch cannot see into it)" if called in RUNS_PYTHON else f"torch.{called}"
            )
        if name is None and any(map(answers_for_itself, types)):
            name = "__torch_function__ (the watch cannot see into it)"
        if name is not None:
            self.seen(name)
        return func(*args, **(kwargs or {}))  # torch keeps the watcher off in here, whoever is called back


# Methods that call a Python function for each element.
RUNS_PYTHON = ("apply_", "map_", "map2_")


@cache
def answers_for_itself(kind: type) -> bool:
    """Whether a type brings its own `__torch_function__`."""
    own = getattr(getattr(kind, "__torch_function__", None), "__func__", None)
    return own is not None and (own.__module__ or "").split(".")[0] != "torch"


def called_by_student() -> bool:
    """Whether the torch operation that just announced itself stands in a student's own code, not in torch's."""
    return not of_package(sys._getframe(2))  # past the watcher


HERE = Path(__file__).parent
TESTS = str(HERE / "tests") + os.sep
PACKAGES = tuple(str(folder) + os.sep for folder in (Path(torch.__file__).parent, HERE, HERE.parent / "course_lib"))


def of_package(frame: FrameType) -> bool:
    """Whether a frame runs torch's code or ours, by its file: a module may call itself what it likes."""
    file = frame.f_code.co_filename
    if file.startswith("<") and not file.startswith("<ipython"):  # code that a package makes from a text
        return frame.f_globals.get("__name__", "").split(".")[0] in OWN_FILES
    return file.startswith(PACKAGES) and not file.startswith(TESTS)  # what our tests call stands for a student's call


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
        if not of_package(frame) and frame.f_code.co_filename != "<autograder>":
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


class Meanings(dict[str, set[str]]):
    """What a name may stand for, as full dotted names. `tangled`: some of it was left out."""

    tangled = False

    def add(self, name: str, several: Iterable[str]) -> None:
        known = self.setdefault(name, set())
        for dotted in several:
            if dotted in known:
                continue
            if len(known) >= MOST_MEANINGS or dotted.count(".") >= MOST_STEPS:
                self.tangled = True
            else:
                known.add(dotted)


def forbidden_in_source(
    source: str, forbidden: Iterable[str], context: str = "", answers: Iterable[str] = ()
) -> list[Sighting]:
    """Forbidden names that stand in `source`, with their lines.

    Args:
        source: the cell or function of the answer.
        forbidden: dotted names; "x.*" takes everything below x; "torch.Tensor.m" takes any method call `.m(…)`.
        context: other code of the notebook, whose imports and assignments give names their meaning.
        answers: names that the cell gives its answers; only what these reach counts then, a comparison beside them not.
    """
    tree = parsed(source)
    if tree is None:
        return []
    elsewhere = parsed(context) or ast.Module([], [])
    parts = reached(tree, set(answers), imports_in(elsewhere))
    used = ast.Module([part.tree for part in parts], [])
    # What another cell calls so matters only where this one means the same: not its own functions, not its locals.
    own = defined_at_the_top(tree) - USUAL_IMPORTS.keys()
    seen = {name for part in parts for name in part.wants} - own
    known = {name: several for name, several in meanings_of_code(context).items() if name in seen}
    meanings, methods = meanings_in(used, known), methods_in(tree) | methods_in(elsewhere)
    shows = shown_by(tree) & shown_by(elsewhere)
    names, allowed = Forbidden([*forbidden, *ALWAYS_FORBIDDEN, *BACK_DOORS]), Forbidden(ALWAYS_ALLOWED)
    found: list[Sighting] = []
    for node, parent in with_parents(used):
        for dotted in names_of(node, meanings, methods):
            if allowed.has(dotted) or only_shown(node, parent, shows):
                continue
            if names.has(dotted):
                found.append(Sighting(dotted, getattr(node, "lineno", 0)))
                break
    return sorted(set(found), key=lambda sighting: (sighting.line, sighting.name))


def with_parents(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    yield tree, tree
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            yield child, node


def defined_at_the_top(tree: ast.Module) -> set[str]:
    """Functions and classes of a cell."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


SHOWS = words("print bool str repr type isinstance")


def shown_by(tree: ast.Module) -> set[str]:
    """The built-ins that only look at what they get, unless the code gives their names to something else."""
    given: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            given.add(node.id)
        elif isinstance(node, ast.arg):
            given.add(node.arg)
        else:
            given |= named_in_passing(node)
    return set(SHOWS) - given


def only_shown(node: ast.AST, parent: ast.AST, shows: set[str]) -> bool:
    """`print(y.grad_fn)`, `if y.grad_fn:` and `y.grad_fn is None` look at what may not be called."""
    if not isinstance(node, ast.Attribute) or node.attr != "grad_fn":
        return False
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert):
        return parent.test is node
    return (
        any(is_call_of(parent, name) for name in shows)
        or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))
        or isinstance(parent, ast.FormattedValue)
        or (isinstance(parent, ast.Compare) and all(isinstance(sign, ast.Is | ast.IsNot) for sign in parent.ops))
    )


def methods_in(tree: ast.Module) -> set[str]:
    """Methods of the classes in a piece of code, and what they keep in `self`: `tools.softmax(x)` may well be one."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found |= {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root_of(node) == {"self"}:
            found.add(node.attr)
    return found


@dataclass(frozen=True)
class Part:
    """A statement of a cell; of one that holds others (`if`, `for`, `with`, …) its head alone."""

    tree: ast.stmt
    binds: frozenset[str]
    wants: frozenset[str]


def reached(tree: ast.Module, answers: set[str], imported: Iterable[str] = ()) -> list[Part]:
    """The statements of a cell that give some names their value, and those that these use, and so on.

    All of the cell where it binds none of the names: what answers then is not to be seen. `imported` elsewhere are names
    that `torch.allclose(…)` does not change.
    """
    modules = imports_in(tree).union(imported)
    modules -= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    parts = [Part(node, frozenset(names_bound(node, modules)), frozenset(names_wanted(node))) for node in plain(tree)]
    binding: dict[str, list[int]] = {}
    for i, part in enumerate(parts):
        for name in part.binds:
            binding.setdefault(name, []).append(i)
    waiting = [name for name in answers if name in binding]
    if not waiting:
        return parts
    chosen, asked = set[int](), set(waiting)
    while waiting:
        for i in binding.pop(waiting.pop(), ()):
            if i not in chosen:
                chosen.add(i)
                waiting += parts[i].wants - asked
                asked |= parts[i].wants
    return [parts[i] for i in sorted(chosen)]


def names_between_cells(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell binds or changes, and those that it takes."""
    tree = parsed(source)
    parts = reached(tree, set()) if tree is not None else []
    return {name for part in parts for name in part.binds}, {name for part in parts for name in part.wants}


def imports_in(tree: ast.Module) -> set[str]:
    """Names that code imports, and those that notebooks import anyway."""
    found = set(USUAL_IMPORTS)
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            found |= named_in_passing(node)
    return found


def plain(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a cell one by one, those inside of `if`, `for`, `with`, `try` and `match` too."""
    waiting = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        inner: list[ast.stmt] = []
        head = copy.copy(node)
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and hasattr(node, field):
                inner += getattr(node, field)
                setattr(head, field, [])
        for field in ("handlers", "cases"):
            if hasattr(node, field):
                arms = getattr(node, field)
                inner += [statement for arm in arms for statement in arm.body]
                setattr(head, field, [copy.copy(arm) for arm in arms])
                for arm in getattr(head, field):
                    arm.body = []
        yield head
        waiting += reversed(inner)


def named_in_passing(node: ast.AST) -> set[str]:
    """What a node binds other than by a name of its own: imports, definitions, patterns, exceptions, `global`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.alias):
        return {node.asname or node.name.split(".")[0]}
    if isinstance(node, ast.Global):
        return set(node.names)
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return {node.name} if node.name else set()
    if isinstance(node, ast.MatchMapping):
        return {node.rest} if node.rest else set()
    return set()


def names_bound(statement: ast.stmt, imported: set[str]) -> set[str]:
    """Names that a statement binds, or whose object it changes (`box.append(…)`, `Layer.forward = …`)."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        shared = [n for node in ast.walk(statement) if isinstance(node, ast.Global) for n in node.names]
        return {statement.name, *shared}
    bound: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            bound |= root_of(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            bound |= root_of(node.value.func) - imported if isinstance(node.value.func, ast.Attribute) else set()
        else:
            bound |= named_in_passing(node)
    return bound


Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Scope:
    """Names of a function's own, those that it declares to be its cell's, and the function around it."""

    local: set[str]
    shared: set[str]
    around: "Scope | None"

    def has(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None and name not in scope.shared:
            if name in scope.local:
                return True
            scope = scope.around
        return False


def names_wanted(statement: ast.stmt) -> set[str]:
    """Names that a statement takes from its cell: those of functions' arguments and locals are their own affair."""
    everything = list(ast.walk(statement))
    if any(is_magic(node) for node in everything):  # what it runs meets names in a way of its own
        return {node.id for node in everything if isinstance(node, ast.Name)}
    wanted: set[str] = set()
    waiting: list[tuple[ast.AST, Scope | None]] = [(statement, None)]
    while waiting:
        node, own = waiting.pop()
        if isinstance(node, ast.Name):
            if own is None or not own.has(node.id):
                wanted.add(node.id)
        elif isinstance(node, ast.Global):
            wanted.update(node.names)
        elif isinstance(node, Function):
            given = node.args
            outside = [*given.defaults, *filter(None, given.kw_defaults)]
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
            outside += [a.annotation for a in arguments if a.annotation is not None]
            body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
            if not isinstance(node, ast.Lambda):
                outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
            local, shared = locals_of(body)
            inner = Scope(local | {a.arg for a in arguments}, shared, own)
            waiting += [*((part, own) for part in outside), *((part, inner) for part in body)]
        elif isinstance(node, Loop):
            first, *others = node.generators
            targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            waiting.append((first.iter, own))
            inner = Scope(targets, set(), own)
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            waiting += [(part, inner) for part in (*results, first.target, *first.ifs, *others)]
        else:
            waiting += [(child, own) for child in ast.iter_child_nodes(node)]
    return wanted


def locals_of(body: list[ast.AST]) -> tuple[set[str], set[str]]:
    """Names that a function binds for itself, and those that it declares to be its cell's."""
    local, shared = set[str](), set[str]()
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in body]
    while waiting:
        node, here = waiting.pop()  # inside of a comprehension only `:=` binds
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            continue
        elif isinstance(node, ast.NamedExpr):
            local |= {node.target.id}
        elif here:
            local |= {node.id} if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else set()
            local |= named_in_passing(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            inside = here and not isinstance(node, Loop)
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return local, shared


def root_of(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def unusual_in_source(
    source: str, forbidden: Iterable[str] = (), known: Iterable[str] = (), scratch: bool = False
) -> list[Sighting]:
    """What an instructor may like to read in a student's code: names that an exercise forbids, wherever they stand, and
    words that lead to the grader or around the watch. Nothing here costs points, so it is broad and simple.

    Args:
        source: of a cell.
        forbidden: dotted names.
        known: names that the notebook's cells define.
        scratch: a cell of the student's own; everyday names are not looked for in it.
    """
    if len(source) > MOST_SCANNED:
        return [Sighting(TOO_LONG, 1)]
    tree = parsed(source)
    if tree is None:
        return [Sighting(UNREADABLE, 1)] if source.strip() else []
    names = [name for name in forbidden if not (scratch and last_part(name) in EVERYDAY)]
    reading = Reading(source, names, set(known), tree)
    found = [Sighting(TANGLED, 1)] if reading.meanings.tangled else []
    found += unread_magics(source, tree)
    for node, parent in with_parents(tree):
        line = getattr(node, "lineno", getattr(parent, "lineno", 0))
        found += [Sighting(name, line) for name in reading.unusual(node, parent)]
    found = sorted(set(found), key=lambda sighting: (sighting.line, sighting.name))
    # Of torch.ops and torch.ops.aten on one line, the longer one says it.
    longer: dict[int, set[str]] = {}
    for sighting in found:
        pieces = sighting.name.split(".")
        longer.setdefault(sighting.line, set()).update(".".join(pieces[:i]) for i in range(1, len(pieces)))
        longer[sighting.line].update(pieces if len(pieces) > 1 else ())
    return [sighting for sighting in found if sighting.name not in longer[sighting.line]]


def last_part(dotted: str) -> str:
    return dotted.removesuffix(".*").rpartition(".")[2]


class Reading:
    """One cell, read for what is unusual in it."""

    def __init__(self, source: str, forbidden: list[str], known: set[str], tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.names = Forbidden([*forbidden, *BACK_DOORS, *UNUSUAL_NAMES])
        self.shows = shown_by(tree)
        self.tails = {last_part(name) for name in forbidden}
        self.meanings = meanings_in(tree, {name: {name} for name in ("sys", "os", "autograder")})
        self.bound, self.modules, self.of_self = set(known), {"nn", "F", "np"}, set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.modules |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):  # listed there, if it is one to list
                self.bound |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.bound.add(node.name)
                self.of_self.add(node.name)
            elif isinstance(node, ast.arg):
                self.bound.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.bound.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root_of(node) == {"self"}:
                self.of_self.add(node.attr)
        self.modules = self.modules - self.bound | set(ALWAYS_MODULES)

    def unusual(self, node: ast.AST, parent: ast.AST) -> Iterator[str]:
        """Names of what is unusual in one node."""
        if isinstance(node, ast.Name):
            yield from self.of_name(node, parent)
        elif isinstance(node, ast.Attribute):
            yield from self.of_attribute(node, parent)
        elif isinstance(node, ast.alias):
            yield from self.of_import(node, parent)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if dunder(node.name) and node.name not in USUAL_METHODS:
                yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"a subclass of {b}" for b in map(end_of, node.bases) if b in UNUSUAL_BASES)
        elif isinstance(node, ast.keyword):
            usual = isinstance(node.value, ast.Constant) and node.value.value is UNUSUAL_KEYWORDS.get(str(node.arg))
            if node.arg in UNUSUAL_KEYWORDS and not usual:
                yield str(node.arg)
        elif isinstance(node, ast.MatchClass):
            yield from filter(self.odd, node.kwd_attrs)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from self.of_text(node.value, parent)
        elif isinstance(node, ast.BinOp):
            yield from self.of_text(joined(node), parent) if not isinstance(parent, ast.BinOp) else ()
        elif isinstance(node, ast.Call):
            if writes_file(node):
                yield "open(…) to write"
            loader = self.loader(node.func)
            if loader and not loads_plainly(node):
                yield f"{loader} with more than a path"
            if end_of(node.func) == "query" and not (has_plain_text(node, 0) and "@" not in str(node.args[0].value)):  # type: ignore[attr-defined]
                yield "query"

    def odd(self, word: str) -> bool:
        return (
            word in UNUSUAL
            or word in self.tails
            or (dunder(word) and word not in USUAL_METHODS)
            or (word.startswith("register_") and word.endswith("hook"))
            or private_to_torch(word)
        )

    def loader(self, node: ast.expr) -> str:
        """`torch.load` or `numpy.load`, if that is what a name or an attribute stands for."""
        return next((dotted for dotted in dotted_names(node, self.meanings) if dotted in LOADERS), "")

    def of_name(self, node: ast.Name, parent: ast.AST) -> Iterator[str]:
        word = node.id
        if (isinstance(node.ctx, ast.Load) and not called(node, parent) and self.loader(node)) or (
            isinstance(node.ctx, ast.Store) and word in ("__name__", "__file__")
        ):
            yield f"{word} as a value" if isinstance(node.ctx, ast.Load) else word
        read_plainly = is_call_of(parent, "getattr") and has_plain_text(parent, 1)
        if word == "setattr" and sets_own(parent):
            return
        if (
            (
                word in UNUSUAL_BUILTINS and word in self.source
            )  # get_ipython also stands for a magic, where nobody wrote it
            or (word == "getattr" and not read_plainly)
            or (dunder(word) and word not in USUAL_DUNDERS)
            or (word in self.tails and word not in self.bound)
        ):
            yield word
        elif word in self.modules and isinstance(node.ctx, ast.Load) and not isinstance(parent, ast.Attribute):
            yield f"{word} as a value"

    def of_attribute(self, node: ast.Attribute, parent: ast.AST) -> Iterator[str]:
        if only_shown(node, parent, self.shows) or looks_for_module(node, parent):
            return
        word, plainly_called = node.attr, is_plain_call(parent, node)
        known = list(dotted_names(node, self.meanings))
        if self.loader(node) and not called(node, parent):
            yield f"{self.loader(node)} as a value"
        for dotted in known:
            if unusual_module(dotted) or private_part(dotted) or beside_the_point(dotted):
                yield dotted
            first, second = dotted.split(".")[:2]
            ours = first == "autograder" and second not in NOTEBOOK_NAMES
            system = first in USUAL_OF_SYSTEM and second not in USUAL_OF_SYSTEM[first]
            if ours or system or self.names.has(dotted):
                yield dotted
        usual = (
            (word in self.of_self and isinstance(node.value, ast.Name) and node.value.id == "self")
            or (word in USUAL_WITHOUT_ARGUMENTS and plainly_called)
            or (word == "compile" and "re" in root_of(node))
        )
        if self.odd(word) and not usual:
            yield known[0] if known else word

    def of_import(self, alias: ast.alias, parent: ast.AST) -> Iterator[str]:
        module = (parent.module or "") if isinstance(parent, ast.ImportFrom) else ""
        dotted = f"{module}.{alias.name}" if module else alias.name
        root, *below = dotted.split(".")
        if (
            root not in LESSON_MODULES
            or unusual_module(dotted)
            or private_part(dotted)
            or (isinstance(parent, ast.ImportFrom) and parent.level > 0)
            or (alias.name == "*" and root in ("torch", "numpy", "autograder", "course_lib"))
            or (root == "autograder" and (below[0] not in NOTEBOOK_NAMES if below else alias.asname is not None))
            or (root in USUAL_OF_SYSTEM and below and below[0] not in USUAL_OF_SYSTEM[root])
            or self.names.has(dotted)
            or any(map(self.odd, below))
        ):
            yield f"import {dotted}"

    def of_text(self, text: str, parent: ast.AST) -> Iterator[str]:
        """Dotted names in a text; a whole text only where it is one name that nobody writes for its own sake."""
        if isinstance(parent, ast.Expr) or is_magic(parent):  # of a magic see unread_magics
            return
        if text.endswith(".py"):
            yield f"“{text[-60:]}”"
        for chain in re.findall(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+", text[:MOST_SCANNED]):
            first, *below = re.split("[.:]", chain)
            ours = first == "autograder" and below[0] not in NOTEBOOK_NAMES
            if ours or any(map(self.odd, below)):
                yield f"“{chain[:60]}”"
        if isinstance(parent, ast.Compare) or any(is_call_of(parent, name) for name in NOTEBOOK_NAMES):
            return
        if text.isidentifier() and "_" in text and self.odd(text) and text not in self.bound:
            yield f"“{text[:60]}”"


def joined(node: ast.BinOp) -> str:
    """The text that constants put together with plus signs make; other parts of it leave nothing."""
    pieces: list[str] = []
    waiting: list[ast.expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            waiting += [part.left, part.right]
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            pieces.append(part.value)
    return "".join(reversed(pieces)) if len(pieces) > 1 else ""


def called(node: ast.AST, parent: ast.AST) -> bool:
    return isinstance(parent, ast.Call) and parent.func is node


def loads_plainly(call: ast.Call) -> bool:
    """One path, and at most where to put what lies there."""
    return len(call.args) == 1 and all(
        keyword.arg == "map_location"
        or (keyword.arg == "weights_only" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True)
        for keyword in call.keywords
    )


def private_part(dotted: str) -> bool:
    """Whether a name leads through what a module keeps for itself (`typing._eval_type`)."""
    root, *below = dotted.split(".")
    return root in LESSON_MODULES and any(part.startswith("_") and not dunder(part) for part in below)


def beside_the_point(dotted: str) -> bool:
    """Whether one module of Python is reached through another (`dataclasses.sys`)."""
    root, below = dotted.split(".")[:2]
    names = sys.stdlib_module_names
    return root in names and below in names and below != root and below not in ("abc", "path", "time")


@lru_cache(maxsize=4096)
def unusual_module(dotted: str) -> bool:
    """Whether a dotted name leads into a module of a package that lessons do not use. Nothing is imported for it."""
    root, *below = dotted.split(".")
    usual = USUAL_SUBMODULES.get(root)
    if usual is None or not below:
        return False
    folders = folders_of(root)
    for i, part in enumerate(below, start=1):
        folders = tuple(os.path.join(folder, part) for folder in folders)
        if not any(os.path.isdir(folder) or os.path.exists(folder + ".py") for folder in folders):
            return False  # a function or class, or a package that is not installed here
        if ".".join(below[:i]) not in usual:
            return True
    return False


@cache
def folders_of(root: str) -> tuple[str, ...]:
    with suppress(ImportError, ValueError):
        found = importlib.util.find_spec(root)
        return tuple(found.submodule_search_locations or ()) if found else ()
    return ()


def dunder(word: str) -> bool:
    return word.startswith("__") and word.endswith("__")


def end_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_plain_call(parent: ast.AST, node: ast.AST) -> bool:
    """Whether `node` is called, without arguments."""
    return isinstance(parent, ast.Call) and parent.func is node and not parent.args and not parent.keywords


def looks_for_module(node: ast.Attribute, parent: ast.AST) -> bool:
    """`"google.colab" in sys.modules`, as notebooks ask where they are."""
    return (
        node.attr == "modules"
        and isinstance(parent, ast.Compare)
        and isinstance(parent.left, ast.Constant)
        and all(isinstance(sign, ast.In | ast.NotIn) for sign in parent.ops)
    )


def is_magic(node: ast.AST) -> bool:
    """A call that stands for a line which IPython reads by itself; commands are not run when graded."""
    names = (*MAGICS, "system", "getoutput")
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and is_call_of(node.func.value, "get_ipython")
    )


def writes_file(call: ast.Call) -> bool:
    """`open(path, "w")` or `path.open("w")`, or a mode that is not a plain text."""
    if end_of(call.func) not in ("open", "fdopen"):
        return False
    given = call.args[1 if isinstance(call.func, ast.Name) or end_of(call.func) == "fdopen" else 0 :][:1]
    for mode in [*given, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]:
        if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)):
            return True
        if set(mode.value) & set("wax+"):
            return True
    return False


def is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def sets_own(call: ast.AST) -> bool:
    """`setattr(self, name, value)`, as a module numbers its parts."""
    return is_call_of(call, "setattr") and isinstance(call, ast.Call) and [end_of(a) for a in call.args[:1]] == ["self"]


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
    return meanings_in(tree, {}) if tree is not None else Meanings()


@lru_cache(maxsize=64)
def parsed(source: str) -> ast.Module | None:
    """The syntax tree, notebook magics opened; None when the text is no Python.

    The text as it is goes first: a line of Python may begin with a percent sign too.
    """
    return read(source, 0)


def read(source: str, depth: int) -> ast.Module | None:
    if len(source) > MOST_SCANNED:
        return None
    source = textwrap.dedent(source)
    for reading in (source, transformed, blanked):
        text = reading if isinstance(reading, str) else reading(source)
        tree = syntax_tree(text) if text is not None else None
        if tree is not None:
            open_magics(tree, depth)
            return tree
    return None


def syntax_tree(text: str) -> ast.Module | None:
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the student's text; nobody is to be told here
        return ast.parse(text)
    return None


def too_many_magics(source: str) -> bool:
    count = len(re.findall(r"^[ \t]*[%!?,;/]|=[ \t]*[%!]|\?[ \t]*$", source, re.MULTILINE))
    return count > MOST_MAGICS or count * len(source) > MOST_READ_AGAIN


def transformed(source: str) -> str | None:
    """The text as IPython reads it: a magic becomes a call with the rest of its line, or of its cell, as a text."""
    if too_many_magics(source):
        return None
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        return str(TransformerManager().transform_cell(source))
    except Exception:  # no IPython here, or a text that it cannot read either
        return None


def blanked(source: str) -> str:
    """The text with a call for each line of magic and without commands: for where IPython does not read it."""

    def call(found: re.Match[str]) -> str:
        return f"{found[1]}get_ipython().run_line_magic({found[2]!r}, {found[3]!r})"

    source = re.sub(r"^([ \t]*)%{1,2}(\w+)[ \t]*(.*)$", call, source, flags=re.MULTILINE)
    return re.sub(r"^([ \t]*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)


MAGICS = ("run_line_magic", "run_cell_magic")
MOST_NESTED = 3  # magics within magics


def open_magics(tree: ast.Module, depth: int) -> None:
    """Put the code that a magic runs (`%time x = 1`) beside the call that stands for it; what cannot be read is noted."""
    unread: list[Sighting] = []
    for node in list(ast.walk(tree)):
        if not (is_magic(node) and isinstance(node, ast.Call) and end_of(node.func) in MAGICS):
            continue
        name, *texts = (a.value if isinstance(a, ast.Constant) else None for a in node.args)
        if name in CODE_MAGICS:
            for text in texts:
                inner = opened(text, depth) if isinstance(text, str) else None
                if inner is None:
                    unread.append(Sighting(f"%{name!s}, whose code could not be read", node.lineno))
                    continue
                ast.increment_lineno(inner, node.lineno - 1)
                tree.body += inner.body
                unread += [Sighting(s.name, s.line + node.lineno - 1) for s in inner.unread]  # type: ignore[attr-defined]
        elif name not in USUAL_MAGICS:
            unread.append(Sighting(f"%{name!s}", node.lineno))
    tree.unread = unread  # type: ignore[attr-defined]


def opened(text: str, depth: int) -> ast.Module | None:
    """The code that a magic runs, as it stands and without the options before it (`-n1 -r 3 -q`)."""
    if depth >= MOST_NESTED:
        return None
    rest = text.lstrip()
    while found := re.match(r"(-{1,2}[A-Za-z][\w-]*)(\s+|\Z)", rest):
        rest = rest[found.end() :]
        if found[1].startswith(WRITES):
            return None
        if found[1] in WITH_VALUE:
            rest = rest.partition(" ")[2].lstrip()
    readings = [tree for tree in (read(part, depth + 1) for part in dict.fromkeys([text, rest])) if tree is not None]
    if not readings:
        return None
    both = ast.Module([statement for tree in readings for statement in tree.body], [])
    both.unread = [sighting for tree in readings for sighting in tree.unread]  # type: ignore[attr-defined]
    return both


def unread_magics(source: str, tree: ast.Module) -> list[Sighting]:
    """What magics run that was not read: `%run`, code that is no Python, or too many of them."""
    noted: list[Sighting] = getattr(tree, "unread", [])
    plain_python = syntax_tree(textwrap.dedent(source)) is not None
    if not plain_python and too_many_magics(source):
        return [*noted, Sighting(MAGICS_UNREAD, 1)]
    return noted


def meanings_in(tree: ast.Module, known: Mapping[str, set[str]]) -> Meanings:
    """All that a name may stand for: what usual imports, `known`, the imports and the assignments of the code give it.

    Meanings add up and are never taken away, so that no import inside some other function can hide one; a name with
    more of them than anybody needs is `tangled`.
    """
    meanings = Meanings()
    for name, dotted in USUAL_IMPORTS.items():
        meanings.add(name, [dotted])
    for name, several in known.items():
        meanings.add(name, several)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name if alias.asname else alias.name.split(".")[0]
                meanings.add(alias.asname or root, [root])
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                meanings.add(alias.asname or alias.name, [f"{node.module}.{alias.name}"])
    pairs = [pair for node in ast.walk(tree) for pair in bindings(node)]
    for _ in range(4):  # `a = torch; b = a; c = b._softmax`: each round follows one step more
        for name, value in pairs:
            meanings.add(name, list(dotted_names(value, meanings)))
    return meanings


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
        if len(chain) > MOST_STEPS:  # what it begins with is looked at by itself
            return
    if isinstance(node, ast.Name):
        for root in meanings.get(node.id, ()):
            yield ".".join([root, *reversed(chain)])


def names_of(node: ast.AST, meanings: Meanings, methods: set[str]) -> Iterator[str]:
    """What a node refers to, as full dotted names; `methods` are those of the notebook's own classes."""
    if isinstance(node, ast.Attribute):
        known = list(dotted_names(node, meanings))
        yield from known or ([f"torch.Tensor.{node.attr}"] if node.attr not in methods else [])
    elif isinstance(node, ast.Name):
        yield from (dotted for dotted in meanings.get(node.id, ()) if "." in dotted)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
    elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        yield "torch.Tensor.__matmul__"
    elif is_call_of(node, "getattr") and has_plain_text(node, 1):
        assert isinstance(node, ast.Call)
        yield from names_of(ast.Attribute(node.args[0], node.args[1].value), meanings, methods)  # type: ignore[attr-defined]


class Forbidden:
    """Dotted names to look for; "x.*" stands for everything below x."""

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self.exact = {name for name in names if not name.endswith("*")}
        self.beginnings = tuple(name[:-1] for name in names if name.endswith("*"))

    def has(self, dotted: str) -> bool:
        if dotted.rpartition(".")[2] in USUAL_DUNDERS:  # torch.__version__ is nobody's back door
            return False
        if dotted.startswith(self.beginnings):
            return True
        end = len(dotted)
        while end > 0:  # what lies below a forbidden name is forbidden too
            if dotted[:end] in self.exact:
                return True
            end = dotted.rfind(".", 0, end)
        return False
