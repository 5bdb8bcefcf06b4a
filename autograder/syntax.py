"""A student's cell as a syntax tree, magics opened, and what the names in it may stand for. Nothing is ever run."""

import ast
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache

from autograder.watch import Sighting


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOST_SCANNED = 100_000  # characters of one cell, and of all cells together as context
TOO_LONG = f"more than {MOST_SCANNED:,} characters of code: not scanned"
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
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
USUAL_EXTENSIONS = words("autoreload tensorboard memory_profiler line_profiler")  # any other module would be imported
# Keys of the environment that change what torch, Python and the rest run.
SWITCHES, HARMLESS_SWITCHES = ("TORCH", "PYTHON", "NUMPY", "MPLBACKEND"), ("PYTHONHASHSEED",)
MOST_MEANINGS = 8  # of one name; nobody's honest code comes near
USUAL_IMPORTS = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy", "math": "math"}


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


def with_parents(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    yield tree, tree
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            yield child, node


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


def root_of(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def end_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_magic(node: ast.AST) -> bool:
    """A call that stands for a line which IPython reads by itself; commands are not run when graded."""
    names = (*MAGICS, "system", "getoutput")
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and is_call_of(node.func.value, "get_ipython")
    )


def is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def has_plain_text(call: ast.AST, position: int) -> bool:
    """Whether an argument of a call is a text that stands there as it is."""
    assert isinstance(call, ast.Call)
    given = call.args[position : position + 1]
    return bool(given) and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str)


@lru_cache(maxsize=4)
def meanings_of_code(code: str) -> Meanings:
    """What the imports and assignments of a notebook give names to; the same notebook is asked about for each exercise."""
    tree = parsed(code)
    return meanings_in(tree, {}) if tree is not None else Meanings()


@lru_cache(maxsize=64)
def parsed(source: str) -> ast.Module | None:
    """The syntax tree, notebook magics opened; None when the text is no Python.

    The text as IPython reads it goes first, for that is what runs: it takes its own prompt away (`In [1]: x = y`), which may be
    Python as it stands, and ends lines where Python does not.
    """
    return read(source, 0)


def read(source: str, depth: int) -> ast.Module | None:
    if len(source) > MOST_SCANNED:
        return None
    source = textwrap.dedent(source)
    for reading in (transformed, source, blanked):
        text = reading if isinstance(reading, str) else reading(source)
        tree = syntax_tree(text) if text is not None else None
        if tree is not None:
            open_magics(tree, depth)
            return tree
    return None


def syntax_tree(text: str) -> ast.Module | None:
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), unwarned():
        return ast.parse(text)
    return None


@contextmanager
def unwarned() -> Iterator[None]:
    """What Python or IPython warns of here is about a student's text, and nobody is to be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_no_python(source: str) -> bool:
    """Whether Python refuses a text, magics opened as IPython opens them: such a cell does nothing at all when it is run."""
    source = textwrap.dedent(source)
    if len(source) > MOST_SCANNED or too_many_magics(source):
        return False
    for text in filter(None, (transformed(source), source)):
        try:
            with unwarned():
                ast.parse(text)
        except SyntaxError:
            continue
        except (ValueError, RecursionError, MemoryError):  # refused here, and perhaps not there
            return False
        return False
    return True


def too_many_magics(source: str) -> bool:
    # IPython takes one sign away each time: each of `,,,` is one.
    fronts = re.findall(r"^[ \t%!?,;/]*[%!?,;/]", source, re.MULTILINE)
    count = sum(len(re.sub(r"[ \t]", "", front)) for front in fronts)
    count += len(re.findall(r"=[ \t]*[%!]|\?[ \t]*$", source, re.MULTILINE))
    return count > MOST_MAGICS or count * len(source) > MOST_READ_AGAIN


def transformed(source: str) -> str | None:
    """The text as IPython reads it: a magic becomes a call with the rest of its line, or of its cell, as a text."""
    if too_many_magics(source):
        return None
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        # It leaves out empty lines at the top, but the lines that follow are told by their numbers.
        above = source[: len(source) - len(source.lstrip())].count("\n")
        with unwarned():
            return "\n" * above + str(TransformerManager().transform_cell(source))
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
        line = texts[0] if texts else None  # what follows it in a cell magic stays as it is
        expanded = name == "capture" or name not in CODE_MAGICS
        if name not in USUAL_MAGICS or (expanded and not (isinstance(line, str) and harmless(name, line))):
            unread.append(Sighting(f"%{name!s}", node.lineno))
        if name in CODE_MAGICS:
            for text in texts:
                inner = opened(text, depth) if isinstance(text, str) else None
                if inner is None:
                    unread.append(Sighting(f"%{name!s}, whose code could not be read", node.lineno))
                    continue
                ast.increment_lineno(inner, node.lineno - 1)
                tree.body += inner.body
                unread += [Sighting(s.name, s.line + node.lineno - 1) for s in inner.unread]  # type: ignore[attr-defined]
    tree.unread = unread  # type: ignore[attr-defined]


def harmless(name: str, text: str) -> bool:
    """Whether what stands behind a magic runs no code: IPython evaluates `{…}`, `$…` and what %config sets."""
    if "{" in text or "$" in text:
        return False
    if name == "config":
        _, _, value = text.partition("=")
        with suppress(SyntaxError, ValueError):
            ast.literal_eval(value.strip() or "None")
            return True
        return False
    if name in ("env", "set_env"):
        return not text.strip().startswith(SWITCHES) or text.strip().startswith(HARMLESS_SWITCHES)
    return name not in ("load_ext", "reload_ext") or text.strip() in USUAL_EXTENSIONS


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
