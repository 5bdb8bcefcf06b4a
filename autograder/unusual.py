"""What an instructor may like to read in a student's code: names that honest answers do not usually use. They cost no points."""

import ast
import builtins
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import CodeType, CoroutineType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType, TracebackType
from typing import Any

from autograder.classes import REGISTERS, classes_in, defined_by, firsts, methods_of, themselves, with_bases
from autograder.guard import BACK_DOORS, Forbidden, free_names, only_shown, shown_by
from autograder.syntax import (
    HARMLESS_SWITCHES,
    MAGICS_UNREAD,
    MOST_SCANNED,
    SWITCHES,
    TOO_LONG,
    USUAL_IMPORTS,
    Function,
    dotted_names,
    end_of,
    has_plain_text,
    is_call_of,
    is_magic,
    meanings_in,
    parsed,
    unread_magics,
    with_parents,
)
from autograder.text import Text, both
from autograder.usual import (
    COMPUTING,
    DRAWING,
    EVERYDAY,
    LESSON_MODULES,
    NOTEBOOK_NAMES,
    OF_NAMED_TUPLES,
    USUAL_BASES,
    USUAL_BUILTINS,
    USUAL_DECORATORS,
    USUAL_IN_MODULE,
    USUAL_METHODS,
    USUAL_MODULES,
    USUAL_NAMES,
    USUAL_OPERATIONS,
)
from autograder.watch import private_to_torch


class Rank(enum.IntEnum):
    """How much an instructor wants to see a line: where some are cut off, these come first."""

    BACK_DOOR = 0
    FORBIDDEN = 1
    LESS_USUAL = 2  # a name that torch, numpy, IPython or Python has for something
    UNKNOWN = 3


@dataclass(frozen=True, order=True)
class Seen:
    """A name in a cell that an instructor may like to see, with the first line where it stands and how often it does."""

    rank: Rank
    line: int
    name: str
    times: int = 1


# With any other value than the one that does nothing.
UNUSUAL_KEYWORDS = {
    "allow_pickle": False,
    "weights_only": True,
    "metaclass": None,
    "n_jobs": 1,
    "num_workers": 0,
    "filename": None,
    "eval_str": False,
}
USUAL_WITHOUT_ARGUMENTS = ("eval", "modules", "resolve")  # model.eval(), model.modules(), path.resolve()
# To be called as everybody does: with more than a path the first two may run code that lies in a file, the third starts
# workers by a number among many, the last two import what draws.
LOADERS = ("numpy.load", "torch.load")
DATA_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
BACKENDS = ("matplotlib.use", "matplotlib.pyplot.switch_backend")
WRAPS = "functools.wraps"  # elsewhere it reads and sets attributes whose names are texts
FIELD = "dataclasses.field"  # what is read of it becomes code
DATACLASS = "dataclasses.dataclass"  # of what is handed to it too
REDIRECTS = ("contextlib.redirect_stdout", "contextlib.redirect_stderr")  # they set attributes of `sys` by name
AS_USUAL = {
    WRAPS: "{} other than above a function",
    FIELD: "{} other than in a class",
    DATACLASS: "{} other than above a class",
    **dict.fromkeys(REDIRECTS, "{} other than in a with statement"),
    **dict.fromkeys(LOADERS, "{} with more than a path"),
    **dict.fromkeys(DATA_LOADERS, "{} with more than a batch size by position"),
    **dict.fromkeys(BACKENDS, "{} with another than a plain name"),
}
# Where an enumeration of the student's own stands as usual: `Kind.KEYS`, `Kind["KEYS"]`, `for kind in Kind`, `x: Kind`.
ENUM_STANDS_IN = (
    ast.Attribute, ast.Subscript, ast.For, ast.comprehension, ast.Compare, ast.ClassDef, ast.arg, ast.AnnAssign, ast.BinOp,
    ast.FunctionDef,
)  # fmt: skip
OF_IPYTHON = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|Out|In")  # what earlier cells gave and were
ENUMS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag")
SETTINGS = ("torch.backends.", "matplotlib.", "pandas.options.")  # what is there to be set
LONGEST_BYTES = 16
OWN_DUNDERS = ("__all__", "__slots__", "__version__", "__author__")
# What modules of course_lib import, so that it can be had through them.
OTHERS_OF_OURS = sys.stdlib_module_names | USUAL_IMPORTS.keys() | {"matplotlib", "plt", "numpy"}
IN_TEXTS = ("torch", "nn", "F", "numpy", "np", "scipy", "sys", "os", "builtins", "IPython", "course_lib", "autograder")
TANGLED = "names too tangled to follow"
UNREADABLE = "code that cannot be read as Python"
# What is said in words, beside names and pieces of code, which are the same in every language.
IN_CHINESE = {
    re.escape(TOO_LONG): f"程式碼超過 {MOST_SCANNED:,} 個字元，沒有掃描",
    re.escape(MAGICS_UNREAD): "魔術指令太多，沒有全部讀過",
    re.escape(TANGLED): "名稱繞來繞去，追不下去",
    re.escape(UNREADABLE): "無法當成 Python 讀取的程式碼",
    r"(%\w*), whose code could not be read": r"\1，後面的程式碼讀不懂",
    r"a subclass of (.+)": r"\1 的子類別",
    r"a class made by ([\w.]+\(…\))": r"以 \1 造出的類別",
    r"([\w.]+) with another than a plain name": r"\1 的引數不是單純的名稱",
    r"([\w.]+) with more than a batch size by position": r"\1 除了批次大小還有其他位置引數",
    r"([\w.]+) other than above a function": r"\1 不是寫在函式上方",
    r"([\w.]+) other than in a class": r"\1 不是寫在類別裡",
    r"([\w.]+) other than above a class": r"\1 不是寫在類別上方",
    r"([\w.]+) other than in a with statement": r"\1 不是寫在 with 敘述裡",
    r"(\w+), an earlier output or input": r"\1，也就是先前的輸出或輸入",
    r"code made from a text": "由文字做成的程式",
    r"code from the file (.+)": r"檔案 \1 裡的程式",
    r"(.+) imported anew": r"重新匯入的 \1",
    r"changed parts of the grader": "改過的評分程式",
    r"something that could not be looked at": "有一件事沒能看清楚",
    r"code within the witness": "在證人裡面執行的程式",
    r"lines of the witness that were kept back": "證人的話有幾行被扣住",
    r"a long constant of bytes": "很長的 bytes 常數",
    r"open\(…\) to write": "以 open(…) 開檔寫入",
    r"\*\* with computed names": "** 展開的名稱是算出來的",
    r"([\w.]+) with more than a path": r"\1 除了路徑還有其他引數",
    r"([\w.()…]+) as a value": r"把 \1 當成值",
    r"“(.*)”": r"「\1」",
}


@dataclass(frozen=True)
class Own:
    """What a notebook's cells call their own.

    Attributes:
        words: every name that they give to something: functions, classes, arguments, variables, attributes.
        private: those that begin with "_" and that a class of theirs defines.
        named: functions, classes, arguments and variables, not attributes.
        known: functions and classes of the cells.
        classes: names that only ever stand for a class of theirs.
        enums: those of `classes` that are enumerations, which make classes when they are called with names.
        starts_another: whether an `__init__` of theirs is called for something else than its own `self`.
        handed: classes whose methods may be called with any object for `self`.
        variables: by cell: names that the cells above it set last, rather than import.
        imports: what the cells import, by the names that they use.
    """

    words: frozenset[str]
    private: frozenset[str]
    named: frozenset[str]
    known: frozenset[str]
    classes: frozenset[str]
    enums: frozenset[str]
    handed: frozenset[str]
    starts_another: bool
    variables: Mapping[str, frozenset[str]]
    imports: Mapping[str, set[str]]


@lru_cache(maxsize=4)
def own_names(sources: tuple[str, ...]) -> Own:
    trees = {source: tree for source in sources if (tree := parsed(source)) is not None}
    words, private, named, given, classes, handed, known, set_last = (set[str]() for _ in range(8))
    variables: dict[str, frozenset[str]] = {}
    for source, tree in trees.items():
        variables[source] = frozenset(set_last)
        for node in ast.walk(tree):
            words |= introduced(node)
            named |= introduced(node) if not isinstance(node, ast.Attribute | ast.Call) else set()
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
                private |= {name for name in defined_by(node) if name.startswith("_")}
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                given.add(node.id)
            elif isinstance(node, ast.alias):
                given.add(node.asname or node.name)
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                known.add(statement.name)
            set_last |= set_by(statement)
        set_last -= imported_by(tree)
    for tree in trees.values():
        handed |= set(handed_about(tree, classes))
    handed = with_bases(handed, trees.values())
    imports = meanings_in(
        ast.Module(
            [n for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)], []
        ),
        {},
    )
    called_so = {name.rpartition(".")[2] for name in ENUMS} | {
        n for n, several in imports.items() if several & set(ENUMS)
    }
    enums = {kind for kind in classes if with_bases({kind}, trees.values()) & called_so}
    kinds = frozenset(classes - given)
    return Own(
        frozenset(words), frozenset(private), frozenset(named), frozenset(known), kinds, frozenset(enums), frozenset(handed), starts_another(trees.values()),
        variables, imports,
    )  # fmt: skip


def set_by(statement: ast.stmt) -> set[str]:
    """Variables that a plain assignment at the top of a cell sets."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def imported_by(tree: ast.Module) -> set[str]:
    return {a.asname or a.name.split(".")[0] for a in ast.walk(tree) if isinstance(a, ast.alias)}


def introduced(node: ast.AST) -> set[str]:
    """Names that a piece of code gives to something, attributes of its own objects among them."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return {node.id if isinstance(node, ast.Name) else node.attr}
    if isinstance(node, ast.Call) and end_of(node.func) in ("SimpleNamespace", "dict"):
        return {keyword.arg for keyword in node.keywords if keyword.arg}
    if isinstance(node, ast.Call) and end_of(node.func) in (*REGISTERS, "namedtuple", "Enum"):
        texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        return {word for text in texts for word in re.findall(r"\w+", text)}
    return set()


def handed_about(tree: ast.Module, classes: set[str]) -> Iterator[str]:
    """Classes that code does more with than to make objects and subclasses: `Box.ask(x)`, `[Box]`, `keep.append(ask)`."""
    started = set(started_with_own_self(tree))
    for node, parent in with_parents(tree):
        if isinstance(node, ast.ClassDef):
            methods = {method.name for method in methods_of(node)}
            statements = [s for s in node.body if not isinstance(s, Function | ast.ClassDef)]
            outside = [*statements, *(d for m in methods_of(node) for d in (*m.decorator_list, m.args))]
            if any(isinstance(n, ast.Name) and n.id in methods for part in outside for n in ast.walk(part)):
                yield node.name
            if any(asks_itself(method) for method in methods_of(node)):
                yield node.name
        elif isinstance(node, ast.Name) and node.id in classes and isinstance(node.ctx, ast.Load):
            made = isinstance(parent, ast.Call) and (
                parent.func is node
                or end_of(parent.func) in {"isinstance", "issubclass", *NOTEBOOK_NAMES}
                or (end_of(parent.func) == "super" and parent.args[0] is node)
            )
            if id(node) in started:
                continue
            if not made and not isinstance(parent, ast.ClassDef | ast.arg | ast.FunctionDef | ast.AnnAssign):
                yield node.id


def started_with_own_self(tree: ast.Module) -> Iterator[int]:
    """By id: `Base` in `Base.__init__(self, …)`, as a class starts the one that it is built upon."""
    selves = themselves(tree)
    for call in ast.walk(tree):
        starts = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        if starts and call.args and id(call.args[0]) in selves:  # type: ignore[attr-defined]
            yield id(call.func.value)  # type: ignore[attr-defined]


def asks_itself(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method of the class, not of its objects, does more with the class than to make an object of it."""
    if "classmethod" not in map(end_of, method.decorator_list):
        return False
    made = {id(node.func) for node in ast.walk(method) if isinstance(node, ast.Call)}
    above = any(is_call_of(node, "super") for node in ast.walk(method))
    return above or any(id(name) not in made for name in firsts(method))


def unusual_in_source(
    source: str,
    forbidden: Iterable[str] = (),
    notebook: Sequence[str] = (),
    scratch: bool = False,
    behind: Iterable[str] = (),
) -> list[Seen]:
    """What an instructor may like to read in a cell: names that an exercise forbids, wherever they stand, and any that
    honest answers do not usually use. Each name once. Nothing here costs points, so it is broad and simple.

    Args:
        source: of the cell.
        forbidden: dotted names.
        notebook: all cells; what these define is the student's own.
        scratch: a cell of the student's own; everyday names are not looked for in it.
        behind: what the exercises forbid whose answers take a name from that cell; these are looked for all the same.
    """
    if len(source) > MOST_SCANNED:
        return [Seen(Rank.BACK_DOOR, 1, TOO_LONG)]
    tree = parsed(source)
    if tree is None:
        return [Seen(Rank.BACK_DOOR, 1, UNREADABLE)] if source.strip() else []
    own = own_names(tuple(dict.fromkeys([*notebook, source])))
    everyday = EVERYDAY.difference(map(last_part, behind)) if scratch else frozenset[str]()
    reading = Reading(source, list(forbidden), own, tree, everyday)
    found = [Seen(Rank.BACK_DOOR, 1, TANGLED)] if reading.meanings.tangled else []
    found += [Seen(Rank.BACK_DOOR, sighting.line, sighting.name) for sighting in unread_magics(source, tree)]
    for node, parent in with_parents(tree):
        line = getattr(node, "lineno", getattr(parent, "lineno", 0))
        ranks: dict[str, Rank] = {}
        for rank, name in reading.unusual(node, parent):
            ranks[name] = min(rank, ranks.get(name, rank))
        found += [Seen(rank, line, name) for name, rank in ranks.items()]
    return each_once(found)


def each_once(found: list[Seen]) -> list[Seen]:
    """Each name once in a cell; of torch.ops and torch.ops.aten on one line, the longer one says it."""
    longer: dict[int, set[str]] = {}
    for seen in found:
        pieces = seen.name.split(".")
        longer.setdefault(seen.line, set()).update(".".join(pieces[:i]) for i in range(1, len(pieces)))
        longer[seen.line].update(pieces if len(pieces) > 1 else ())
    once: dict[str, Seen] = {}
    for seen in sorted(found):
        if seen.name in longer[seen.line]:
            continue
        first = once.setdefault(seen.name, replace(seen, times=0))
        once[seen.name] = replace(first, line=min(first.line, seen.line), times=first.times + 1)
    return sorted(once.values())


def unusual_operations(names: Iterable[str]) -> list[Text]:
    """Those of some operations of torch that no name of honest answers stands for, to be said in both languages."""
    return [both(name, name) for name in sorted(names) if not usual_operation(name)]


def usual_operation(name: str) -> bool:
    plain = name.removeprefix("linalg_").removeprefix("special_")
    own = name.startswith(("autograd::engine::", "_foreach_"))  # an answer's own backward pass and training
    return own or not USUAL_NAMES.isdisjoint((plain, plain.strip("_"))) or name in USUAL_OPERATIONS


def said(name: str) -> Text:
    """What a line is listed for, in both languages."""
    for pattern, chinese in IN_CHINESE.items():
        if found := re.fullmatch(pattern, name, re.DOTALL):
            return both(name, found.expand(chinese))
    return both(name, name)


def last_part(dotted: str) -> str:
    return dotted.removesuffix(".*").rpartition(".")[2]


Ranked = tuple[Rank, str]


class Reading:
    """One cell, read for what is unusual in it."""

    def __init__(
        self, source: str, forbidden: Iterable[str], own: Own, tree: ast.Module, everyday: frozenset[str]
    ) -> None:
        self.source, self.tree, self.own, self.everyday = source, tree, own, everyday
        self.forbidden, self.back_doors = Forbidden(forbidden), Forbidden(BACK_DOORS)
        self.tails = {last_part(name) for name in forbidden} - everyday
        self.method_tails = {last_part(n) for n in forbidden if n.startswith("torch.Tensor.")} - everyday
        self.shows = shown_by(tree)
        here, above = imported_by(tree), own.variables.get(source, frozenset())
        self.given = set[str]().union(above, *map(introduced, ast.walk(tree)))
        imports = {name: several for name, several in own.imports.items() if name not in above}
        self.meanings = meanings_in(tree, {name: {name} for name in ("sys", "os", "autograder")} | imports)
        self.parents = {id(node): parent for node, parent in with_parents(tree)}
        self.selves, self.defined = themselves(tree), {id(kind): defined_by(kind) for kind in classes_in(tree)}
        self.methods = {id(method) for kind in classes_in(tree) for method in methods_of(kind)}
        # What is imported is listed there, if it is one to list.
        self.bound = set(own.known).union(own.imports, *map(introduced, ast.walk(tree)))
        set_at = {name: node.lineno for node in reversed(tree.body) for name in set_by(node) - here}
        modules = {name for name, several in self.meanings.items() if any(map(is_module, several))}
        self.modules = {
            id(name)
            for name in free_names(tree)
            if name.id in modules - (above - here) and name.lineno <= set_at.get(name.id, name.lineno)
        }

    def unusual(self, node: ast.AST, parent: ast.AST) -> Iterator[Ranked]:
        """What is unusual in one node."""
        if isinstance(node, ast.Name):
            yield from self.of_name(node, parent)
        elif isinstance(node, ast.Attribute):
            yield from self.of_attribute(node, parent)
        elif isinstance(node, ast.alias):
            yield from self.of_import(node, parent)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if dunder(node.name) and node.name not in USUAL_METHODS:
                yield Rank.BACK_DOOR, node.name
            if id(node) in self.methods:
                yield from self.of_decorators(node.decorator_list)
        elif isinstance(node, ast.ClassDef):
            yield from self.of_decorators(node.decorator_list)
            yield from self.of_bases(node)
        elif isinstance(node, ast.keyword):
            yield from self.of_keyword(node, parent)
        elif isinstance(node, ast.MatchClass):
            if node.patterns or node.kwd_patterns:
                yield Rank.BACK_DOOR, f"case {end_of(node.cls)}(…)"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from self.of_text(node.value, parent)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield from self.of_bytes(node.value)
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            if "__matmul__" in self.method_tails:
                yield Rank.FORBIDDEN, "@"
        elif isinstance(node, ast.BinOp):
            yield from self.of_text(joined(node), parent) if not isinstance(parent, ast.BinOp) else ()
        elif isinstance(node, ast.Call):
            if writes_file(node):
                yield Rank.BACK_DOOR, "open(…) to write"
            loader = self.loader(node.func)
            if loader and not called_as_usual(loader, node, parent):
                yield Rank.BACK_DOOR, AS_USUAL[loader].format(loader)
            makes = next((dotted for dotted in dotted_names(node.func, self.meanings) if dotted in ENUMS), "")
            own = end_of(node.func) if end_of(node.func) in self.own.enums else ""
            if (
                (makes or own)
                and (len(node.args) + len(node.keywords) > 1 or spread(node))
                and not only_constants(node)
            ):
                yield Rank.BACK_DOOR, f"a class made by {makes or own}(…)"
            if is_call_of(node, "getattr") and has_plain_text(node, 1):
                read = ast.Attribute(node.args[0], str(node.args[1].value), ast.Load())  # type: ignore[attr-defined]
                yield from self.of_attribute(read, parent)

    def loader(self, node: ast.expr) -> str:
        """`torch.load` and the others of AS_USUAL, if that is what a name or an attribute stands for."""
        return next((dotted for dotted in dotted_names(node, self.meanings) if dotted in AS_USUAL), "")

    def as_value(self, node: ast.expr, parent: ast.AST) -> bool:
        """Whether what is to be called as usual, or the environment, stands where nobody sees what is done with it."""
        if "os.environ" in dotted_names(node, self.meanings):
            key = parent.slice if isinstance(parent, ast.Subscript) else None
            method = parent.attr if isinstance(parent, ast.Attribute) else ""
            setting = method == "setdefault" and has_plain_text(self.parents[id(parent)], 0)
            plain = method in ("get", "items", "keys", "copy") or setting or isinstance(parent, ast.Compare)
            return not plain and not (isinstance(key, ast.Constant) or self.only_looks(parent))
        typed = isinstance(parent, ast.arg | ast.AnnAssign) or is_call_of(parent, "isinstance")
        above = isinstance(parent, ast.ClassDef) and node in parent.decorator_list
        return bool(self.loader(node)) and not called(node, parent) and not typed and not above

    def of_name(self, node: ast.Name, parent: ast.AST) -> Iterator[Ranked]:
        word = node.id
        if not isinstance(node.ctx, ast.Load):
            if dunder(word) and word not in OWN_DUNDERS:
                yield Rank.BACK_DOOR, word
            if isinstance(parent, ast.AugAssign) and self.as_value(node, parent):
                yield Rank.BACK_DOOR, f"{word} as a value"
            return
        if self.as_value(node, parent):
            yield Rank.BACK_DOOR, f"{word} as a value"
        if word == "get_ipython":  # also stands for a magic, where nobody wrote it
            usual = word not in self.source
        elif word == "getattr":
            usual = is_call_of(parent, word) and has_plain_text(parent, 1)
        elif word == "setattr":
            usual = self.sets_own(parent)
        elif OF_IPYTHON.fullmatch(word) and word not in self.given:
            usual, word = False, f"{word}, an earlier output or input"
        elif word in NOTEBOOK_NAMES and word not in self.given:
            usual = called(node, parent) or isinstance(parent, ast.Attribute) or self.only_looks(parent)
            word = word if usual else f"{word} as a value"
        elif word in self.own.enums:
            usual = isinstance(parent, ENUM_STANDS_IN) or (
                isinstance(parent, ast.Call) and self.takes_enum(parent, node)
            )
            word = word if usual else f"{word} as a value"
        elif word == "type":
            yield from self.of_type(node, parent)
            usual = True
        elif word == "open":
            usual = called(node, parent)
            word = word if usual else "open as a value"
        else:
            # An interpreter that shows values keeps the last one there as "_".
            usual = word in USUAL_BUILTINS or word == "_" or not (dunder(word) or hasattr(builtins, word))
        if not usual:
            yield Rank.BACK_DOOR, word
        elif word in self.tails and word not in self.bound:
            yield Rank.FORBIDDEN, word
        elif id(node) in self.modules and not self.looked_at(parent):
            yield Rank.BACK_DOOR, f"{word} as a value"

    def sets_own(self, call: ast.AST) -> bool:
        """`setattr(self, name, value)` in a method, as a module numbers its parts; not where anything may stand for `self`."""
        kind = self.selves.get(id(call.args[0])) if isinstance(call, ast.Call) and call.args else None
        if kind is None or not is_call_of(call, "setattr"):
            return False
        method = call
        while not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            method = self.parents[id(method)]
        starts = isinstance(method, ast.FunctionDef) and method.name == "__init__" and not method.decorator_list
        return (starts and not self.own.starts_another) or kind.name not in self.own.handed

    def takes_enum(self, call: ast.Call, node: ast.Name) -> bool:
        """`Kind(1)`, `list(Kind)`, `isinstance(x, Kind)`: a call of it, or of what only looks at its members."""
        return call.func is node or (
            isinstance(call.func, ast.Name) and call.func.id in USUAL_BUILTINS - {"map", "filter"}
        )

    def of_type(self, node: ast.Name, parent: ast.AST) -> Iterator[Ranked]:
        """`type(x)` is to be looked at, or to make another such object."""
        around = self.parents[id(parent)]
        if isinstance(parent, ast.Call) and parent.func is node:
            if len(parent.args) != 1 or parent.keywords or (called(parent, around) and self.is_class(parent.args[0])):
                yield Rank.BACK_DOOR, "a class made by type(…)"
            elif not (
                isinstance(around, ast.FormattedValue | ast.Compare | ast.Expr)
                or (isinstance(around, ast.Attribute) and around.attr in ("__name__", "__qualname__"))
                or called(parent, around)
                or any(is_call_of(around, name) for name in (*self.shows, "issubclass"))
            ):
                yield Rank.LESS_USUAL, "type(…) as a value"
        elif not (isinstance(parent, ast.Compare | ast.Subscript | ast.arg) or is_call_of(parent, "isinstance")):
            yield Rank.BACK_DOOR, "type as a value"

    def is_class(self, node: ast.expr) -> bool:
        """Whether a name stands for a class, of one's own or imported: the type of that makes classes."""
        return end_of(node) in self.own.classes or bool(list(dotted_names(node, self.meanings)))

    def of_attribute(self, node: ast.Attribute, parent: ast.AST) -> Iterator[Ranked]:
        if only_shown(node, parent, self.shows) or looks_for_module(node, parent) or is_magic(parent):
            return
        word, known = node.attr, list(dotted_names(node, self.meanings))
        for dotted in known:
            yield from self.of_dotted(dotted, node, parent)
        own_self = self.is_of_self(node)
        if dunder(word):
            if word not in USUAL_METHODS and not (word in ("__class__", "__qualname__") and names_class(node, parent)):
                yield Rank.BACK_DOOR, word
        elif word.startswith("_"):
            if word in OF_NAMED_TUPLES and not known:
                return
            if not own_self and not self.is_of_bases(node):
                yield Rank.BACK_DOOR, known[0] if known else word
            return
        if not isinstance(node.ctx, ast.Load):
            maker = called_for(node)
            if maker is not None and list(dotted_names(maker, self.meanings)):
                yield Rank.BACK_DOOR, f"{end_of(maker)}(…).{word} = …"
            return
        if dunder(word) and word not in self.method_tails:
            return
        if not own_self and (any(map(self.ends_like, known)) if known else word in self.method_tails):
            yield Rank.FORBIDDEN, known[0] if known else word
        usual = vocabulary(word) or (word in self.own.words and word not in theirs())
        if known:  # a word of the student's own says nothing about what a module calls so
            usual = all(map(usual_in_module, known))
        if word in USUAL_WITHOUT_ARGUMENTS and not is_plain_call(parent, node):
            usual = False
        if not (usual or own_self or dunder(word)):
            yield Rank.LESS_USUAL if known else less_usual(word), known[0] if known else word

    def of_dotted(self, dotted: str, node: ast.Attribute, parent: ast.AST) -> Iterator[Ranked]:
        """What is unusual in an attribute of something imported."""
        first, second = dotted.split(".")[:2]
        if not isinstance(node.ctx, ast.Load):
            if not dotted.startswith(SETTINGS):
                yield Rank.BACK_DOOR, f"{dotted} = …"
            return
        if self.as_value(node, parent):
            yield Rank.BACK_DOOR, f"{dotted} as a value"
        ours = first == "autograder" and second not in NOTEBOOK_NAMES
        system = first in ("os", "sys") and not usual_in_module(dotted)
        module = module_called(dotted)
        if ours or system or by_another_name(dotted) or self.back_doors.has(dotted):
            yield Rank.BACK_DOOR, dotted
        elif self.forbidden.has(dotted) and (node.attr not in self.everyday or not self.is_used(node, parent)):
            yield Rank.FORBIDDEN, dotted
        if module is not None and not self.looked_at(parent):
            yield Rank.BACK_DOOR, f"{dotted} as a value"

    def is_used(self, node: ast.AST, parent: ast.AST) -> bool:
        """Whether something stands where it is called, built upon or taken apart, and is not handed on."""
        return (
            called(node, parent)
            or isinstance(parent, ast.Attribute | ast.ClassDef | ast.Compare)
            or self.only_looks(parent)
        )

    def looked_at(self, parent: ast.AST) -> bool:
        """Whether a module stands where something of it is taken, or it is shown."""
        return isinstance(parent, ast.Attribute) or self.only_looks(parent)

    def only_looks(self, parent: ast.AST) -> bool:
        return any(is_call_of(parent, name) for name in (*self.shows, "hasattr", "dir", "help"))

    def ends_like(self, dotted: str) -> bool:
        """Whether something is called like what is forbidden; where torch has it by that name, the exercise says itself."""
        module, _, word = dotted.rpartition(".")
        return word in self.tails and module not in ("torch", "torch.nn", "torch.nn.functional")

    def is_of_self(self, node: ast.Attribute) -> bool:
        """`self.name` in a method of a class that defines the name. What torch or Python calls so too counts only where
        nobody else can stand for `self`."""
        kind = self.selves.get(id(node.value))
        if kind is None or node.attr not in self.defined[id(kind)]:
            return False
        ambiguous = node.attr in self.tails or node.attr in theirs() or node.attr.startswith("_")
        return not ambiguous or (kind.name not in self.own.handed and not list(self.of_bases(kind)))

    def is_of_bases(self, node: ast.Attribute) -> bool:
        """`self._name` in a method, where another class of the student's defines the name: perhaps one that it is built upon."""
        kind, word = self.selves.get(id(node.value)), node.attr
        own = word in self.own.private and word not in theirs() and not private_to_torch(word)
        return own and kind is not None and kind.name not in self.own.handed

    def of_import(self, alias: ast.alias, parent: ast.AST) -> Iterator[Ranked]:
        module = (parent.module or "") if isinstance(parent, ast.ImportFrom) else ""
        dotted = f"{module}.{alias.name}" if module else alias.name
        root, *below = dotted.split(".")
        if root == "autograder":
            usual = below[0] in NOTEBOOK_NAMES if below else alias.asname is None
        else:
            ours = root == "course_lib" or module in LESSON_MODULES
            usual = dotted in LESSON_MODULES or (ours and usual_in_module(dotted))
        relative = isinstance(parent, ast.ImportFrom) and parent.level > 0
        if relative or alias.name == "*" or by_another_name(dotted) or self.back_doors.has(dotted):
            yield Rank.BACK_DOOR, f"import {dotted}"
        elif self.forbidden.has(dotted) or (root != "course_lib" and self.ends_like(dotted)):
            yield Rank.FORBIDDEN, f"import {dotted}"
        elif not usual:
            yield less_usual(alias.name) if module in LESSON_MODULES else Rank.BACK_DOOR, f"import {dotted}"

    def of_bases(self, kind: ast.ClassDef) -> Iterator[Ranked]:
        for base in kind.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            known = set(dotted_names(base, self.meanings))
            usual = known <= USUAL_BASES if known else usual_class(end_of(base), self.own)
            if not usual:
                yield Rank.BACK_DOOR, f"a subclass of {end_of(base) or '…'}"

    def of_decorators(self, decorators: list[ast.expr]) -> Iterator[Ranked]:
        """A method or a class handed to a function; what stands above a function is code like any other."""
        for decorator in decorators:
            maker = decorator.func if isinstance(decorator, ast.Call) else decorator
            name, several = end_of(maker), [last_part(dotted) for dotted in dotted_names(maker, self.meanings)]
            if name in self.own.named or not USUAL_DECORATORS.issuperset(several):  # only called like a usual one
                yield Rank.BACK_DOOR, f"@{name}"
            elif name not in USUAL_DECORATORS:
                yield Rank.LESS_USUAL, f"@{name or '…'}"

    def of_keyword(self, node: ast.keyword, parent: ast.AST) -> Iterator[Ranked]:
        pairs: list[tuple[ast.expr | None, ast.expr]] = [(ast.Constant(node.arg), node.value)]
        if node.arg is None:
            pairs = list(zip(node.value.keys, node.value.values)) if isinstance(node.value, ast.Dict) else []
        for key, value in pairs:
            if not isinstance(key, ast.Constant):
                yield Rank.BACK_DOOR, "** with computed names"
                continue
            usual = isinstance(value, ast.Constant) and value.value is UNUSUAL_KEYWORDS.get(str(key.value))
            if key.value in UNUSUAL_KEYWORDS and not usual:
                yield Rank.BACK_DOOR, str(key.value)

    def of_text(self, text: str, parent: ast.AST) -> Iterator[Ranked]:
        """Dotted names in a text; a whole text only where it is one name that nobody writes for its own sake."""
        shown = self.parents[id(parent)] if isinstance(parent, ast.JoinedStr) else parent
        if isinstance(parent, ast.Expr) or is_magic(parent) or self.only_looks(shown):
            return
        if (text.startswith(SWITCHES) and text.isupper() and text not in HARMLESS_SWITCHES) or "module://" in text:
            yield Rank.BACK_DOOR, f"“{text[:60]}”"
        if text.endswith(".py"):
            yield Rank.LESS_USUAL, f"“{text[-60:]}”"
        for chain in re.findall(r"(?<!\w)[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+", text[:MOST_SCANNED]):
            first, *below = re.split("[.:]", chain)
            ours = first == "autograder" and below[0] not in NOTEBOOK_NAMES
            if ours or (first in IN_TEXTS and any(self.odd(word) or word not in USUAL_NAMES for word in below)):
                yield Rank.BACK_DOOR if ours else Rank.LESS_USUAL, f"“{chain[:60]}”"
        if isinstance(parent, ast.Compare) or any(is_call_of(parent, name) for name in NOTEBOOK_NAMES):
            return
        if text in UNUSUAL_KEYWORDS and isinstance(parent, ast.Dict):
            yield Rank.BACK_DOOR, f"“{text}”"
        telling = "_" in text or not self.everyday  # in cells of one's own "softmax" is a title
        if text.isidentifier() and telling and self.odd(text) and text not in self.bound:
            yield Rank.LESS_USUAL, f"“{text[:60]}”"

    def of_bytes(self, value: bytes) -> Iterator[Ranked]:
        """What a loader would run may lie in them; a name and a break of the line are how it begins."""
        if len(value) > LONGEST_BYTES and re.search(rb"[\x80\n]", value):
            yield Rank.LESS_USUAL, "a long constant of bytes"

    def odd(self, word: str) -> bool:
        return word in self.tails or (dunder(word) and word not in USUAL_METHODS) or private_to_torch(word)


def less_usual(word: str) -> Rank:
    return Rank.LESS_USUAL if word in theirs() else Rank.UNKNOWN


# Torch imports half of itself when a first derivative is taken: what a word means must not hang on what was graded before.
LOADED = [module for name, module in sys.modules.items() if name.split(".")[0] in ("torch", "numpy", "sys", "os")]


@cache
def theirs() -> frozenset[str]:
    """Names of torch, numpy, IPython and of Python's inner objects: an attribute called so need not be the student's own."""
    with suppress(ImportError):
        import IPython  # noqa: F401
    modules = LOADED + [module for name, module in sys.modules.items() if name.split(".")[0] == "IPython" and module]
    kinds = [
        str, list, dict, object, type, BaseException,
        CodeType, CoroutineType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType, TracebackType,
        inspect.Signature, inspect.Parameter, property,
    ]  # fmt: skip
    kinds += [thing for m in modules for thing in list(vars(m).values()) if issubclass(type(thing), type)]
    return frozenset(name for thing in [*modules, *kinds] for name in list(vars(thing)))


def module_of(dotted: str) -> str:
    """The module of the lessons that a dotted name begins with, the longest one; "" where it begins with none."""
    while dotted and dotted not in LESSON_MODULES:
        dotted = dotted.rpartition(".")[0]
    return dotted


def vocabulary(word: str) -> bool:
    return len(word) == 1 or word in USUAL_NAMES


@lru_cache(maxsize=4096)
def usual_in_module(dotted: str) -> bool:
    """Whether something imported, or an attribute of it, is usual where it stands: a usual word may be another thing there."""
    module = module_of(dotted)
    below = dotted.removeprefix(module).lstrip(".").split(".")
    if dotted == module or not module:  # what no lesson imports is listed where it is imported
        return dotted == module or vocabulary(below[-1])
    if module == "course_lib":
        return not any(part.startswith("_") or part in OTHERS_OF_OURS for part in below)
    usual = below[0] in (own_names_of(module) if module in USUAL_MODULES else USUAL_IN_MODULE.get(module, ()))
    if module in DRAWING or module.split(".")[0] in COMPUTING:
        usual = usual or vocabulary(below[0])
    return usual and (len(below) == 1 or vocabulary(below[-1]))


@cache
def own_names_of(module: str) -> frozenset[str]:
    """The public names of one of USUAL_MODULES, without modules and what makes classes."""
    space = vars(importlib.import_module(module))
    names = space.get("__all__") or [name for name in space if not name.startswith("_")]
    return frozenset(n for n in names if not isinstance(space[n], ModuleType) and not makes_classes(space[n]))


def makes_classes(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, type)


def by_another_name(dotted: str) -> bool:
    """Whether a dotted name stands for a module that is called otherwise (`enum.bltns`, `F.torch`)."""
    module = module_called(dotted)
    return module is not None and dotted not in LESSON_MODULES and module.__name__ != dotted


def usual_class(name: str, own: Own) -> bool:
    known: Any = getattr(builtins, name, None)
    return name in own.classes or name == "object" or (isinstance(known, type) and issubclass(known, BaseException))


def is_module(dotted: str) -> bool:
    return "." not in dotted or module_called(dotted) is not None


@lru_cache(maxsize=4096)
def module_called(dotted: str) -> ModuleType | None:
    """The module that a dotted name stands for, if it is one that is loaded here."""
    first, *below = dotted.split(".")
    thing: Any = sys.modules.get(first)
    for part in below:
        thing = vars(thing).get(part) if isinstance(thing, ModuleType) else None
    return thing if isinstance(thing, ModuleType) else None


def names_class(node: ast.Attribute, parent: ast.AST) -> bool:
    """`x.__class__.__name__`, `type(x).__qualname__`"""
    return node.attr == "__qualname__" or (isinstance(parent, ast.Attribute) and parent.attr == "__name__")


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


def called_as_usual(dotted: str, call: ast.Call, parent: ast.AST) -> bool:
    """Whether one of AS_USUAL is called as everybody calls it."""
    if dotted == WRAPS:
        above = isinstance(parent, Function) and not isinstance(parent, ast.Lambda) and call in parent.decorator_list
        return above and len(call.args) == 1 and not call.keywords and not spread(call)
    if dotted == FIELD:
        return isinstance(parent, ast.AnnAssign)
    if dotted == DATACLASS:
        return isinstance(parent, ast.ClassDef) and call in parent.decorator_list
    if dotted in REDIRECTS:
        return isinstance(parent, ast.withitem)
    if dotted in DATA_LOADERS:
        return len(call.args) <= 2 and not any(isinstance(given, ast.Starred) for given in call.args)
    if dotted in BACKENDS:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        return all(isinstance(each, ast.Constant) and "://" not in str(each.value) for each in given)
    return loads_plainly(call)


def spread(call: ast.Call) -> bool:
    """Whether some arguments of a call are not to be seen."""
    return any(isinstance(given, ast.Starred) for given in call.args) or any(k.arg is None for k in call.keywords)


def called_for(node: ast.expr) -> ast.expr | None:
    """What is called to have the object of which an attribute is set: `fields` in `fields(Row)[0].name = "x"`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.func if isinstance(node, ast.Call) else None


def only_constants(call: ast.Call) -> bool:
    """Whether all that is given to a call stands there as it is, in lists and dictionaries too."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    plain = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.expr_context | ast.UnaryOp | ast.unaryop
    return all(isinstance(node, plain) for each in given for node in ast.walk(each))


def loads_plainly(call: ast.Call) -> bool:
    """One path, and at most where to put what lies there."""
    path = call.args[0] if len(call.args) == 1 else None
    if path is None or (isinstance(path, ast.Call) and end_of(path.func) not in ("Path", "join", "str", "expanduser")):
        return False
    return all(
        keyword.arg == "map_location"
        or (keyword.arg == "weights_only" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True)
        for keyword in call.keywords
    )


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
    if any(keyword.arg is None for keyword in call.keywords):
        return True
    given = call.args[1 if isinstance(call.func, ast.Name) or end_of(call.func) == "fdopen" else 0 :][:1]
    for mode in [*given, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]:
        if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)):
            return True
        if set(mode.value) & set("wax+"):
            return True
    return False


def starts_another(trees: Iterable[ast.Module]) -> bool:
    """Whether code reads an `__init__` for something else than to start its own `self`."""
    for tree in trees:
        selves = themselves(tree)
        for node, parent in with_parents(tree):
            if isinstance(node, ast.Name | ast.Constant) and "__init__" in (end_of(node), getattr(node, "value", "")):
                return True
            if isinstance(node, ast.Attribute) and node.attr == "__init__":
                call = parent if isinstance(parent, ast.Call) and parent.func is node else None
                own = call is not None and bool(call.args) and id(call.args[0]) in selves
                if call is None or not (own or is_call_of(node.value, "super")):
                    return True
    return False
