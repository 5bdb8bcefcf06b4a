"""One file as cells, or the reason why not; and what the code of a cell defines and needs. Nothing here is run."""

from __future__ import annotations

import ast
import json
import re
import symtable
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import wraps
from itertools import takewhile
from typing import Any, TypeVar

import jupytext

from autograder.pipeline.pile import File, _Refused, copy_of

CELL_LIMIT = 2_000
SOURCE_LIMIT = 1_000_000  # characters of all cells: reading code takes hundreds of times its size
PARSE_LIMIT = 50_000  # characters of a cell that are parsed; longer ones are searched by pattern
CODE_LIMIT = 300_000  # characters of all cells that are parsed
LINE_LIMIT = 5_000  # of a script
MARK_LIMIT = 4_000  # characters of a line that may begin a cell of a script
LIST_LIMIT = 2_000_000  # lists and objects in the JSON, which take twenty times their size; brackets in texts count too
VALUE_LIMIT = 8_000_000  # commas in the JSON
SETUP_LIMIT = 10_000  # characters that are parsed to learn whose a notebook is
ATTACHMENT_LIMIT = 20 * 2**20  # characters of all pictures pasted into a notebook
REMEMBERED = 1_000_000  # characters whose syntax trees are kept, which take hundreds of times their size
T = TypeVar("T")


# ---------------------------------------------------------------------------------------------------------------------
# Reading one file
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A cell as handed in. `ids` are its nbformat 4.5 id and the `metadata.id` that Colab writes."""

    position: int
    kind: str
    source: str
    grade_id: str = ""
    ids: tuple[str, ...] = ()
    points: float | None = None
    attachments: tuple[tuple[str, str, str], ...] = ()  # file name, type, base64
    of_script: bool = False  # read from a .py file, in which a cell may be a piece of one


@dataclass
class Draft:
    """A file that was read, before it is known whose it is."""

    file: File
    cells: list[Cell] = field(default_factory=list)
    course: dict[str, str] = field(
        default_factory=dict
    )  # lesson, language, release, from the metadata or the set-up cell
    setup_id: str = ""
    setup_name: str = ""
    problem: str = ""
    script: bool = False
    released: bool = False  # byte for byte a file of the course, as it comes with a copy of the student repository

    @property
    def name(self) -> str:
        return self.file.path[-1]


def clean_text(value: object) -> str:
    """A cell's source, which nbformat allows as a string or a list of them; halves of surrogate pairs become "?"."""
    parts = value if isinstance(value, list) else [value]
    text = "".join(part for part in parts if isinstance(part, str))
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return clean_text(value).strip()[:200] if isinstance(value, str) else ""


def read_draft(file: File, parse: bool = True) -> Draft:
    """Cells and declarations of one file. Never raises: what is wrong with the file stands in `problem`.

    Without `parse` the declarations are searched by pattern alone.
    """
    draft = Draft(file, problem=file.problem)
    if draft.problem:
        return draft
    try:
        if not file.data.strip(b"\0 \t\r\n"):
            raise _Refused("the file is empty")
        if file.path[-1].lower().endswith(".py"):
            draft.script = True
            draft.cells = _script_cells(_decoded(file.data))
        else:
            content = _notebook_json(file)
            draft.cells = _notebook_cells(content)
            course = _dict(_dict(content.get("metadata")).get("course"))
            draft.course = {key: _text(course.get(key)) for key in ("lesson", "language", "release")}
        if sum(len(cell.source) for cell in draft.cells) > SOURCE_LIMIT:
            draft.cells = []
            raise _Refused("its cells hold more than a million characters")
        if code_size(draft.cells) > CODE_LIMIT:
            draft.cells = []
            raise _Refused("its code holds more than 300,000 characters")
    except _Refused as error:
        draft.problem = str(error)
    except (RecursionError, MemoryError):
        draft.problem = "it is nested too deeply or too large to be read"
    except Exception as error:  # nobody's file keeps the others from being graded, whatever nobody has thought of
        draft.problem = f"it cannot be read ({type(error).__name__})"
    draft.file = replace(file, data=b"")
    _read_setup(draft, SETUP_LIMIT if parse else 0)
    return draft


def code_size(cells: Sequence[Cell]) -> int:
    """Characters that are parsed."""
    return sum(len(cell.source) for cell in cells if cell.kind == "code" and len(cell.source) <= PARSE_LIMIT)


def _decoded(data: bytes) -> str:
    encoding = json.detect_encoding(data)
    for guess in (encoding, "cp950"):
        try:
            return data.decode(guess)
        except UnicodeDecodeError:
            continue
    return data.decode(encoding, "replace")


def _notebook_json(file: File) -> dict[str, Any]:
    text = _decoded(file.data)
    start = text[:200].lstrip().lower()
    named_notebook = ".ipynb" in file.path[-1].lower() or copy_of(file.path[-1])[1]
    if start.startswith("<"):
        raise _Refused("it is a web page saved under the name of a notebook" if named_notebook else "it is a web page")
    if start.startswith("pk\x03\x04"):
        raise _Refused("it is a zip file under the name of a notebook")
    if not named_notebook and not (start.startswith("{") and '"nbformat"' in text):
        raise _Refused("it is a text file, not a notebook")
    if text.count("[") + text.count("{") > LIST_LIMIT or text.count(",") > VALUE_LIMIT:
        raise _Refused("it holds too many values to be read; without its outputs it may be read")
    try:
        # Outputs are dropped cell by cell while reading: 100 MB of them never stand in memory as objects.
        content = json.loads(text, object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k != "outputs"})
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterm"):
            raise _Refused(f"its JSON ends too early (line {error.lineno})") from None
        raise _Refused(f"its JSON is damaged (line {error.lineno})") from None
    except ValueError:  # an integer of thousands of digits
        raise _Refused("its JSON holds a number that cannot be read") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells", content.get("worksheets")), list):
        raise _Refused("it is JSON, but not a notebook")
    return content


def _notebook_cells(content: dict[str, Any]) -> list[Cell]:
    raw = content.get("cells")
    if not isinstance(raw, list):  # nbformat 3
        sheets = [_dict(sheet).get("cells") for sheet in content["worksheets"]]
        raw = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if len(raw) > CELL_LIMIT:
        raise _Refused(f"it has more than {CELL_LIMIT} cells")
    cells = [_cell(position, _dict(value)) for position, value in enumerate(raw)]
    if sum(len(data) for cell in cells for _, _, data in cell.attachments) > ATTACHMENT_LIMIT:
        raise _Refused("the pictures in its text hold more than 20 MB")
    return cells


def _cell(position: int, raw: dict[str, Any]) -> Cell:
    metadata = _dict(raw.get("metadata"))
    nbgrader = _dict(metadata.get("nbgrader"))
    points = nbgrader.get("points")
    kind = raw.get("cell_type")
    attachments = [
        (clean_text(name), kind, data)
        for name, bundle in _dict(raw.get("attachments")).items()
        for kind, data in _dict(bundle).items()
        if kind in {"image/png", "image/jpeg"} and isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data)
    ]
    return Cell(
        position,
        kind="code" if kind == "code" else "raw" if kind == "raw" else "markdown",
        source=clean_text(raw.get("source", raw.get("input"))),
        grade_id=_text(nbgrader.get("grade_id")),
        ids=tuple(filter(None, (_text(raw.get("id")), _text(metadata.get("id"))))),
        points=float(points) if isinstance(points, int | float) and abs(points) < 1e9 else None,
        attachments=tuple(attachments),
    )


def _script_cells(text: str) -> list[Cell]:
    """A notebook saved as .py: by nbconvert ("# In[3]:"), else percent or light, which jupytext tells apart."""
    if len(text) > CODE_LIMIT:
        raise _Refused("its code holds more than 300,000 characters")
    lines = clean_text(text).splitlines()
    if len(lines) > LINE_LIMIT:
        raise _Refused(f"the script has more than {LINE_LIMIT} lines")
    if re.search(r"^# In\[[ \d]*\]:", text, re.MULTILINE):
        pieces = [("code", piece) for piece in re.split(r"^# In\[[ \d]*\]:.*$", text, flags=re.MULTILINE)]
        cells = [Cell(n, kind, clean_text(piece.strip())) for n, (kind, piece) in enumerate(pieces) if piece.strip()]
        return _pieces(cells)
    # Jupytext takes time with the square of the number of cells and with that of the length of what may be said of one.
    marked = [re.match(r"#\s*(?:%%|\+|-|region|\{\{\{)", line) is not None for line in lines]
    if sum(marked) + sum(not line.strip() for line in lines) > CELL_LIMIT:
        raise _Refused(f"it has more than {CELL_LIMIT} cells")
    lines = [line[:MARK_LIMIT] if mark else line for line, mark in zip(lines, marked)]
    percent = any(re.match(r"# ?%%(?:\s|$)", line) for line in lines)
    try:
        script = "\n".join(without_header(lines))
        notebook = jupytext.reads(script, fmt={"extension": ".py", "format_name": "percent" if percent else "light"})
    except Exception as error:  # a parser of someone else's text; whatever it trips over is the reason
        raise _Refused(f"the script cannot be split into cells ({type(error).__name__})") from None
    return _pieces([_cell(position, dict(cell)) for position, cell in enumerate(notebook.cells)])


def _pieces(cells: list[Cell]) -> list[Cell]:
    if len(cells) > CELL_LIMIT:
        raise _Refused(f"it has more than {CELL_LIMIT} cells")
    return [replace(cell, of_script=True) for cell in cells]


def without_header(lines: list[str]) -> list[str]:
    """The lines of a script without what jupytext writes above them between `# ---` and `# ---`.

    Nothing in it is needed, and a YAML parser makes gigabytes of a few lines of someone else's.
    """
    top = list(takewhile(lambda line: line.startswith("#"), lines))
    marks = dict.fromkeys(number for number, line in enumerate(top) if re.fullmatch(r"#\s*---\s*", line))
    start = list(marks)[1] if len(marks) > 1 else 0
    return [line for number, line in enumerate(top) if number >= start and number not in marks] + lines[len(top) :]


_SETUP_NAMES = ("LESSON", "LANGUAGE", "RELEASE", "STUDENT_ID", "STUDENT_NAME")


def constants(source: str, parse: bool = True) -> dict[str, str]:
    """What a cell assigns to the names of the set-up cell, as text; read from the syntax tree, else by pattern."""
    found: dict[str, str] = {}
    if not any(name in source for name in _SETUP_NAMES):
        return found
    tree = parsed(source) if parse else None
    for node in tree.body if tree else []:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names, values = side_by_side(target), side_by_side(node.value)
                for name, value in zip(names, values) if len(names) == len(values) else []:
                    if (
                        isinstance(name, ast.Name)
                        and isinstance(value, ast.Constant)
                        and type(value.value) in (str, int)
                    ):
                        found[name.id] = str(value.value).strip()
    pattern = rf"^[ \t]*({'|'.join(_SETUP_NAMES)})[ \t]*=[ \t]*[\"']?([^\"'#\n]*)"
    for name, value in re.findall(pattern, source, re.MULTILINE) if tree is None else []:
        found[name] = value.strip()
    return {name: clean_text(found[name])[:200] for name in _SETUP_NAMES if found.get(name)}


def side_by_side(node: ast.expr | None) -> list[ast.expr | None]:
    """The parts of `a, b`, or the one thing that it is."""
    return list(node.elts) if isinstance(node, ast.Tuple | ast.List) else [node]


def setup_size(cell: Cell) -> int:
    """Characters of a cell that may say whose a notebook is."""
    return len(cell.source) if cell.kind == "code" and any(name in cell.source for name in _SETUP_NAMES) else 0


def _read_setup(draft: Draft, left: int) -> None:
    """What the notebook says of itself; of `left` characters by a parser, of the rest by pattern."""
    values: dict[str, str] = {}
    # The set-up cell first, wherever it stands; then any other cell that assigns these names.
    for cell in sorted(draft.cells, key=lambda cell: "setup" not in cell.ids):
        if cell.kind == "code":
            left -= setup_size(cell)
            values = constants(cell.source, parse=left >= 0) | values
        elif "STUDENT_ID" not in values and (found := re.search(r"學號\W{0,4}[:：]\W{0,4}(\w{4,20})", cell.source)):
            values["STUDENT_ID"] = found[1]
    draft.setup_id, draft.setup_name = values.get("STUDENT_ID", ""), values.get("STUDENT_NAME", "")
    for key in ("lesson", "language", "release"):
        draft.course[key] = draft.course.get(key) or values.get(key.upper(), "")


# ---------------------------------------------------------------------------------------------------------------------
# What a cell defines and needs
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """Module-level names that a cell binds, and those it uses without binding them itself."""

    defined: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()


def remembered(function: Callable[[str], T]) -> Callable[[str], T]:
    """Keep what a function says of the texts that it was asked about last."""
    results: OrderedDict[str, T] = OrderedDict()
    held = 0

    @wraps(function)
    def ask(source: str) -> T:
        nonlocal held
        if source in results:
            results.move_to_end(source)
            return results[source]
        result = results[source] = function(source)
        held += len(source) + 100
        while held > REMEMBERED:
            held -= len(results.popitem(last=False)[0]) + 100
        return result

    return ask


def without_magics(source: str) -> str:
    """The same lines with IPython's own syntax replaced by `pass`, so that Python's parser can read the rest."""
    source = re.sub(r"\A(\s*)%%\w*.*", r"\1pass", source)
    source = re.sub(r"^([ \t]*)(?:[%!?]|\w+\?{1,2}\s*$).*", r"\1pass", source, flags=re.MULTILINE)
    return re.sub(r"^([ \t]*\w[\w, ]*=\s*)[%!].*", r"\1None", source, flags=re.MULTILINE)


@remembered
def parsed(source: str) -> ast.Module | None:
    if len(source) > PARSE_LIMIT:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in (source, without_magics(source)):
            try:
                return ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
    return None


@remembered
def names_of(source: str) -> Names:
    """Names from Python's symbol table; by pattern if the cell has a syntax error (`def attend(` still counts)."""
    if len(source) <= PARSE_LIMIT:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for text in (source, without_magics(source)):
                try:
                    return _names_in(symtable.symtable(text, "cell", "exec"))
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue
    pattern = r"^(?:(?:async[ \t]+)?def[ \t]+(\w+)|class[ \t]+(\w+)|(\w+)[ \t]*(?::[^=\n]+)?=(?!=))"
    found = re.findall(pattern, source, re.MULTILINE)
    return Names(defined=frozenset(name for groups in found for name in groups if name))


def _names_in(table: symtable.SymbolTable) -> Names:
    defined, needed = set(), set()
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            defined.add(symbol.get_name())
        elif symbol.is_referenced():
            needed.add(symbol.get_name())
    inner = list(table.get_children())
    while inner:
        child = inner.pop()
        inner.extend(child.get_children())
        needed |= {symbol.get_name() for symbol in child.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return Names(frozenset(defined), frozenset(needed - defined))


def _is_placeholder(node: ast.stmt) -> bool:
    """A statement that answers nothing: docstring, pass, ..., raise NotImplementedError."""
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_empty_value(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in ("", None, ...)
    # `attend = use("attend", attend)` takes an answer, it does not give one.
    return node is None or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "use")


def _calls(node: ast.expr | None, names: frozenset[str]) -> bool:
    """`attend = attend(q, K, V)` tries an answer out, under a name that was free in the student's eyes."""
    called = [item.func for item in ast.walk(node) if isinstance(item, ast.Call)] if node is not None else []
    return any(isinstance(function, ast.Name) and function.id in names for function in called)


def is_stub(source: str, names: frozenset[str]) -> bool:
    """True if the cell binds the answer's names, but only to what the release gave: empty functions, empty strings."""
    tree, bound = parsed(source), False
    if tree is None or not names & names_of(source).defined:
        return False
    lines = source.split("\n")
    binds: dict[tuple[int, int | None], bool] = {}  # of lines, on which thousands of statements may stand
    for node in tree.body:
        place = (node.lineno, node.end_lineno)
        if place not in binds:
            text = statement(lines, node)
            binds[place] = any(name in text for name in names) and bool(names & names_of(text).defined)
        if not binds[place]:
            continue
        bound = True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            empty = all(map(_is_placeholder, node.body))
        elif isinstance(node, ast.ClassDef):  # a released class may come with a finished __init__
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            methods = [method for method in methods if method.name != "__init__"] or methods
            empty = all(all(map(_is_placeholder, method.body)) for method in methods)
            if not methods:  # then it has them from the class that it is made from, if any
                empty = not node.bases and all(map(_is_placeholder, node.body))
        else:
            empty = isinstance(node, ast.Assign | ast.AnnAssign) and (
                _is_empty_value(node.value) or _calls(node.value, names)
            )
        if not empty:
            return False
    return bound


def statement(lines: Sequence[str], node: ast.stmt) -> str:
    """The lines of a top-level statement, decorators included."""
    first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
    return "\n".join(lines[first - 1 : node.end_lineno])


@remembered
def _normal(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines() if line.strip())


@remembered
def _tokens(source: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+|[^\w\s]", source)[:3000])


def nearly_equal(one: str, other: str) -> bool:
    """True for a copy with small edits. Cells of a few words must be equal, or everything short would look alike."""
    if _normal(one) == _normal(other):
        return True
    a, b = _tokens(one), _tokens(other)
    if min(len(a), len(b)) < 12 or min(len(a), len(b)) < 0.8 * max(len(a), len(b)):
        return False
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return matcher.quick_ratio() >= 0.88 and matcher.ratio() >= 0.88
