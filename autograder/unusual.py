"""What an instructor may like to read in a student's code: words that no honest answer needs. They cost no points."""

import ast
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache

from autograder.guard import BACK_DOORS, USUAL_DUNDERS, Forbidden, only_shown, shown_by
from autograder.syntax import (
    MAGICS_UNREAD,
    MOST_SCANNED,
    TOO_LONG,
    dotted_names,
    end_of,
    has_plain_text,
    is_call_of,
    is_magic,
    meanings_in,
    parsed,
    root_of,
    unread_magics,
    with_parents,
    words,
)
from autograder.text import Text, both
from autograder.watch import Sighting, private_to_torch

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
    InteractiveShell BaseConfigurator get_ipython input_transformers_cleanup input_transformers_post ast_transformers
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
TANGLED = "names too tangled to follow"
UNREADABLE = "code that cannot be read as Python"
# What a sighting says in words, beside names and pieces of code, which are the same in every language.
IN_CHINESE = {
    re.escape(TOO_LONG): f"程式碼超過 {MOST_SCANNED:,} 個字元，沒有掃描",
    re.escape(MAGICS_UNREAD): "魔術指令太多，沒有全部讀過",
    re.escape(TANGLED): "名稱繞來繞去，追不下去",
    re.escape(UNREADABLE): "無法當成 Python 讀取的程式碼",
    r"(%\w*), whose code could not be read": r"\1，後面的程式碼讀不懂",
    r"a subclass of (\w+)": r"\1 的子類別",
    r"open\(…\) to write": "以 open(…) 開檔寫入",
    r"([\w.]+) with more than a path": r"\1 除了路徑還有其他引數",
    r"([\w.]+) as a value": r"把 \1 當成值",
    r"“(.*)”": r"「\1」",
}
NOT_TO_BE_SET = ("torch", "numpy", "builtins", "autograder", "course_lib")  # whoever asks them next finds another thing
NOTEBOOK_NAMES = (
    "check",
    "hint",
    "judge",
    "names",
    "progress",
    "start",
    "use",
)  # what a notebook takes from autograder


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


def said(name: str) -> Text:
    """What a sighting is called, in both languages."""
    for pattern, chinese in IN_CHINESE.items():
        if found := re.fullmatch(pattern, name, re.DOTALL):
            return both(name, found.expand(chinese))
    return both(name, name)


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
            if not isinstance(node.ctx, ast.Load) and dotted.split(".")[0] in NOT_TO_BE_SET:
                yield f"{dotted} = …"
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


def sets_own(call: ast.AST) -> bool:
    """`setattr(self, name, value)`, as a module numbers its parts."""
    return is_call_of(call, "setattr") and isinstance(call, ast.Call) and [end_of(a) for a in call.args[:1]] == ["self"]
