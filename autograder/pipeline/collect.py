"""Any pile of submissions becomes one canonical notebook per student and lesson.

The way through this file: `read_pile` yields the files of a folder or zip, `read_draft` turns a file into cells (or into
a reason why not), `identify` says whose it is, `rebuild` puts the answers into the released notebook, `collect` does all.

What a student handed in is only ever read here, never run: names come from Python's symbol table, values from its
syntax tree. Every file ends as a `Submission` with a status and a reason, except the litter that operating systems leave.
"""

from __future__ import annotations

import ast
import builtins
import copy
import io
import json
import logging
import os
import re
import stat
import symtable
import unicodedata
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

log = logging.getLogger(__name__)

FILE_LIMIT = 200 * 2**20  # bytes of one file, unpacked
TOTAL_LIMIT = 4 * 2**30  # bytes of the whole pile, unpacked
NESTED_LIMIT = 2**30  # bytes of one zip inside the pile, so that one student cannot use up the limit of the class
RATIO_LIMIT = (
    1100  # deflate reaches 1032 at most: an honest notebook of repeated output may come near, a bomb goes beyond
)
DEPTH_LIMIT = 3  # zips inside zips
COUNT_LIMIT = 50_000  # files
CELL_LIMIT = 5_000
PARSE_LIMIT = 200_000  # characters of a cell that are parsed; longer ones are searched by pattern


class CollectError(Exception):
    """The pile as a whole cannot be read; the message is one line for the instructor."""


@dataclass
class Submission:
    """One file of the pile and what became of it."""

    student_id: str
    student_name: str
    lesson: str | None
    language: str
    release: str
    source: str
    received: datetime | None
    status: str  # "ok" | "repaired" | "unreadable" | "unknown lesson" | "superseded"
    reason: str
    notebook: NotebookNode | None = None


# ---------------------------------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """A file of the pile: its path (folders and zips it lies in, then its name) and its bytes, or why there are none."""

    path: tuple[str, ...]
    received: datetime | None
    data: bytes = b""
    problem: str = ""


@dataclass
class Budget:
    """What may still be unpacked. A zip inside the pile has a smaller budget of its own, charged to its parents too."""

    left: int
    files: int = COUNT_LIMIT
    parent: Budget | None = None

    def spend(self, size: int) -> bool:
        self.left -= size
        return self.left >= 0 and (self.parent is None or self.parent.spend(size))

    def next_file(self) -> bool:
        self.files -= 1
        return self.files >= 0 and (self.parent is None or self.parent.next_file())


class _Refused(Exception):
    """A file is not read; the message becomes the reason of its row."""


LITTER = {"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"}
TEXT_TYPES = {"", ".py", ".json", ".txt", ".html", ".htm", ".download"}


def is_litter(parts: Iterable[str]) -> bool:
    """True for what macOS, Windows and Jupyter leave behind: .DS_Store, ._x, .ipynb_checkpoints, __MACOSX."""
    return any(re.match(r"\.[^.]", part) or part in LITTER for part in parts)


def decode_name(raw: bytes) -> str:
    """A file name of unknown encoding: UTF-8, else cp950 (Windows in Taiwan), else cp437 (what zip says it is)."""
    for encoding in ("utf-8", "cp950"):
        try:
            return unicodedata.normalize("NFC", raw.decode(encoding))
        except UnicodeDecodeError:
            continue
    return raw.decode("cp437")


def member_name(info: zipfile.ZipInfo) -> str:
    # Decode before looking for backslashes: the second byte of some characters (許, 功, 蓋) is one.
    name = info.orig_filename.partition("\0")[0]
    if not info.flag_bits & 0x800:
        name = decode_name(name.encode("cp437", "replace"))
    return unicodedata.normalize("NFC", name).replace("\\", "/")


def read_pile(pile: Path) -> Iterator[File]:
    """The files of a folder or zip, zips inside opened, litter left out."""
    budget = Budget(TOTAL_LIMIT)
    if pile.is_dir():
        yield from _read_folder(pile, budget)
    elif pile.is_file() and zipfile.is_zipfile(pile):
        try:
            archive = zipfile.ZipFile(pile)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError) as error:
            raise CollectError(f"{pile.name} is a damaged zip file: {error}") from None
        with archive:
            yield from _read_zip(archive, (), budget, depth=0)
    elif pile.exists():
        raise CollectError(f"{pile.name} is neither a folder nor a zip file")
    else:
        raise CollectError(f"{pile} does not exist")


def _is_zip_name(name: str) -> bool:
    return name.lower().endswith(".zip")


def _type_problem(name: str) -> str:
    """Why a file is not worth reading, judged by its name; empty if it may hold a notebook."""
    suffix = Path(name.rstrip(" .」')）")).suffix.lower()
    if ".ipynb" in name.lower() or suffix in TEXT_TYPES or copy_of(name)[1]:
        return ""
    if suffix in {".rar", ".7z", ".gz", ".tar", ".tgz"}:
        return f"it is a {suffix} archive, and only zip archives and notebooks are read"
    return f"it is a {suffix} file, not a notebook"


def _read_folder(root: Path, budget: Budget) -> Iterator[File]:
    found: list[tuple[bool, int, tuple[str, ...], Path, os.stat_result]] = []
    litter = 0
    for folder, folders, names in os.walk(root):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        kept = [name for name in folders if not is_litter([name])]
        litter += len(folders) - len(kept)
        folders[:] = sorted(set(kept) - set(links))
        above = tuple(decode_name(os.fsencode(part)) for part in Path(folder).relative_to(root).parts)
        for name in names + links:
            if is_litter([name]):
                litter += 1
                continue
            path = Path(folder) / name
            try:
                status = path.lstat()
            except OSError:
                continue  # gone since the folder was listed
            shown = (*above, decode_name(os.fsencode(name)))
            found.append((_is_zip_name(name), status.st_size, shown, path, status))
    log.debug("%d files and folders of litter ignored in %s", litter, root.name)
    # Small files first, zips last: whoever hands in something huge cannot keep the others from being read.
    for is_zip, size, shown, path, status in sorted(found, key=lambda item: item[:3]):
        received = datetime.fromtimestamp(max(status.st_mtime, 0))
        try:
            if stat.S_ISLNK(status.st_mode):
                raise _Refused("it is a symbolic link")
            if not stat.S_ISREG(status.st_mode):
                raise _Refused("it is not a regular file")
            if not budget.next_file():
                raise _Refused(f"the pile holds more than {COUNT_LIMIT} files")
            if is_zip:
                yield from _open_nested(path, shown, received, budget, depth=1)
                continue
            if problem := _type_problem(shown[-1]):
                raise _Refused(problem)
            if size > FILE_LIMIT:
                raise _Refused(f"it is larger than {FILE_LIMIT // 2**20} MB")
            if not budget.spend(size):
                raise _Refused(f"the pile unpacks to more than {TOTAL_LIMIT // 2**30} GB")
            yield File(shown, received, path.read_bytes())
        except (_Refused, OSError) as error:
            reason = str(error) if isinstance(error, _Refused) else f"it cannot be read ({error.strerror})"
            yield File(shown, received, problem=reason)


def _open_nested(
    where: Path | io.BytesIO, shown: tuple[str, ...], received: datetime | None, budget: Budget, depth: int
) -> Iterator[File]:
    """A zip inside the pile: its files, or one row that says why there are none."""
    inner = Budget(NESTED_LIMIT, parent=budget)
    try:
        with zipfile.ZipFile(where) as archive:
            empty = True
            for file in _read_zip(archive, shown, inner, depth):
                empty = False
                yield file
            if empty:
                yield File(shown, received, problem="the zip file is empty")
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError):
        yield File(shown, received, problem="it is not a zip file, or a damaged one")


def _read_zip(archive: zipfile.ZipFile, above: tuple[str, ...], budget: Budget, depth: int) -> Iterator[File]:
    members = [(member_name(info), info) for info in archive.infolist() if not info.is_dir()]
    litter = 0
    # Reading stops at the size that a member declares, so the declared sizes bound what is unpacked.
    for name, info in sorted(members, key=lambda item: (_is_zip_name(item[0]), item[1].file_size, item[0])):
        parts = tuple(part for part in name.split("/") if part not in {"", "."})
        if not parts or name.endswith("/"):
            continue
        if is_litter(parts):
            litter += 1
            continue
        shown, received = above + parts, _zip_date(info)
        try:
            if ".." in parts or name.startswith("/") or re.match(r"[A-Za-z]:", name):
                shown = above + tuple(part for part in parts if part != "..")
                raise _Refused("its path leads out of the archive")
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _Refused("it is a symbolic link")
            if not budget.next_file():
                raise _Refused(f"the pile holds more than {COUNT_LIMIT} files")
            is_zip = _is_zip_name(name)
            if is_zip and depth >= DEPTH_LIMIT:
                raise _Refused(f"zip files are nested more than {DEPTH_LIMIT} deep")
            if not is_zip and (problem := _type_problem(parts[-1])):
                raise _Refused(problem)
            data = _read_member(archive, info, budget)
            if is_zip:
                yield from _open_nested(io.BytesIO(data), shown, received, budget, depth + 1)
            else:
                yield File(shown, received, data)
        except _Refused as error:
            yield File(shown, received, problem=str(error))
    log.debug("%d files of litter ignored in %s", litter, "/".join(above) or "the zip")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> bytes:
    if info.file_size > FILE_LIMIT:
        raise _Refused(f"it unpacks to more than {FILE_LIMIT // 2**20} MB")
    if info.file_size > 2**20 and info.file_size > RATIO_LIMIT * max(info.compress_size, 1):
        raise _Refused("it is packed so tightly that it looks like a zip bomb")
    if not budget.spend(info.file_size):
        raise _Refused("the archive unpacks to more than the limit")
    data = bytearray()
    try:
        with archive.open(info) as stream:
            while chunk := stream.read(2**20):
                data += chunk
                if len(data) > FILE_LIMIT:
                    raise _Refused(f"it unpacks to more than {FILE_LIMIT // 2**20} MB")
    except RuntimeError:  # what zipfile raises for a member with a password
        raise _Refused("it is locked with a password") from None
    except _Refused:
        raise
    except Exception as error:  # zlib, bz2 and lzma each have errors of their own
        raise _Refused(f"it is damaged inside the zip ({type(error).__name__})") from None
    return bytes(data)


def _zip_date(info: zipfile.ZipInfo) -> datetime | None:
    """Local time, as zips store it; None for the earliest date of the format, which stands for "not known"."""
    try:
        return datetime(*info.date_time) if info.date_time[0] > 1980 else None
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------------------------
# File names
# ---------------------------------------------------------------------------------------------------------------------

_COPY = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:^|(?<=[-_ ]))copy (?P<n>\d+ )?of\s+",
        r"^「(?P<inner>.+)」(\s*的\s*|\s*)(副本|複本|拷貝)",
        r"^(副本|複本)\s*[-_ ]*",
        r"[\s_-]*的?(副本|複本|拷貝)\s*(?P<n>\d+)?$",
        r"[\s_]*-?\s*\bcopy(?:\s*(?P<n>\d+))?$",
        r"\s*[(（](?P<n>\d+)[)）]$",
    )
]
_ENDING = re.compile(r"(\.ipynb|\.json|\.txt|\.html?|\.py|\.download)$", re.IGNORECASE)


def copy_of(name: str) -> tuple[str, bool, int]:
    """What a file is a copy of: (its name without ending and copy words, is it a copy, the highest number of a copy).

    >>> copy_of("「02_qkv.ipynb」的副本 (2).ipynb")
    ('02_qkv', True, 2)
    """
    stem, copied, number = name.strip(), False, 0
    while True:
        before = stem
        stem = _ENDING.sub("", stem).strip()
        for pattern in _COPY:
            if found := pattern.search(stem):
                groups = found.groupdict()
                copied, number = True, max(number, int((groups.get("n") or "0")[:9]))
                stem = (stem[: found.start()] + groups.get("inner", "") + stem[found.end() :]).strip()
        if stem == before:
            return stem, copied, number


def _folded(text: str) -> str:
    """For comparing names: compatibility forms, lower case, one kind of separator."""
    return re.sub(r"[\s\-_.]+", "_", unicodedata.normalize("NFKC", text).lower()).strip("_")


def lesson_in(text: str, lessons: Iterable[str]) -> str | None:
    """The lesson that a file or folder name mentions, the longest if several."""
    folded = _folded(text)
    found = [name for name in lessons if re.search(rf"(?<![^\W_]){re.escape(_folded(name))}(?![^\W_])", folded)]
    return max(found, key=len, default=None)


_GENERIC = re.compile(
    r"(?:untitled\d*|home_?work|hw|assignments?|submissions?|submitted|solutions?|answers?|notebooks?|colab(?:_notebooks)?|"
    r"lessons?|classroom|downloads?|drive_download.*|takeout|week|final|draft|new|old|my|copy|en|zh|tw|zh_tw|"
    r"作業|繳交|作業繳交|繳交作業|第.{1,3}[週周課次章]|(?:home_?work|hw|assignment|week|lesson|lab|unit|v|ver)?_?\d{1,2})",
)


def name_without_lesson(text: str, lessons: Iterable[str]) -> str:
    """What is left of a file or folder name for the student: without copy words, lesson and words that name nobody."""
    stem = copy_of(text)[0]
    for lesson in sorted(lessons, key=len, reverse=True):
        loose = r"[\s\-_.]+".join(re.escape(part) for part in re.split(r"[\s\-_.]+", lesson))
        stem = re.sub(rf"(?<![^\W_]){loose}(?![^\W_])", " ", stem, flags=re.IGNORECASE)
    stem = re.sub(r"(?<![^\W_])zh[-_]tw(?![^\W_])", " ", stem, flags=re.IGNORECASE)
    words = [word for word in re.split(r"[\s_]+|\s-\s", stem) if word.strip("-_. ")]
    if all(_GENERIC.fullmatch(_folded(word)) for word in words):
        return ""
    return re.sub(r"\s+", " ", stem).strip(" -_.")


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


def read_draft(file: File) -> Draft:
    """Cells and declarations of one file. Never raises: what is wrong with the file stands in `problem`."""
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
    except _Refused as error:
        draft.problem = str(error)
    except (RecursionError, MemoryError):
        draft.problem = "it is nested too deeply or too large to be read"
    draft.file = replace(file, data=b"")
    _read_setup(draft)
    return draft


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
        raise _Refused("it is a web page" + (" saved under the name of a notebook" if named_notebook else ""))
    if start.startswith("pk\x03\x04"):
        raise _Refused("it is a zip file under the name of a notebook")
    if not named_notebook and not (start.startswith("{") and '"nbformat"' in text):
        raise _Refused("it is a text file, not a notebook")
    try:
        # Outputs are dropped cell by cell while reading: 100 MB of them never stand in memory as objects.
        content = json.loads(text, object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k != "outputs"})
    except json.JSONDecodeError as error:
        cut = (
            "ends too early" if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterm") else "is damaged"
        )
        raise _Refused(f"its JSON {cut} (line {error.lineno})") from None
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
    return [_cell(position, _dict(value)) for position, value in enumerate(raw)]


def _cell(position: int, raw: dict[str, Any]) -> Cell:
    metadata = _dict(raw.get("metadata"))
    nbgrader = _dict(metadata.get("nbgrader"))
    points = nbgrader.get("points")
    kind = raw.get("cell_type")
    attachments = [
        (clean_text(name), kind, data)
        for name, bundle in _dict(raw.get("attachments")).items()
        for kind, data in _dict(bundle).items()
        if kind in {"image/png", "image/jpeg"} and isinstance(data, str) and data.isascii()
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
    if re.search(r"^# In\[[ \d]*\]:", text, re.MULTILINE):
        pieces = [("code", piece) for piece in re.split(r"^# In\[[ \d]*\]:.*$", text, flags=re.MULTILINE)]
        return [Cell(n, kind, clean_text(piece.strip())) for n, (kind, piece) in enumerate(pieces) if piece.strip()]
    try:
        notebook = jupytext.reads(clean_text(text), fmt="py")
    except Exception as error:  # a parser of someone else's text; whatever it trips over is the reason
        raise _Refused(f"the script cannot be split into cells ({type(error).__name__})") from None
    return [_cell(position, dict(cell)) for position, cell in enumerate(notebook.cells[:CELL_LIMIT])]


_SETUP_NAMES = ("LESSON", "LANGUAGE", "RELEASE", "STUDENT_ID", "STUDENT_NAME")


def constants(source: str) -> dict[str, str]:
    """What a cell assigns to the names of the set-up cell, as text; read from the syntax tree, else by pattern."""
    found: dict[str, str] = {}
    if not any(name in source for name in _SETUP_NAMES):
        return found
    tree = parsed(source)
    for node in tree.body if tree else []:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str | int):
                    found[target.id] = str(node.value.value).strip()
    pattern = r"^[ \t]*(\w+)[ \t]*=[ \t]*[\"']?([^\"'#\n]*)"
    for name, value in re.findall(pattern, source, re.MULTILINE) if tree is None else []:
        found[name] = value.strip()
    return {name: clean_text(found[name])[:200] for name in _SETUP_NAMES if found.get(name)}


def _read_setup(draft: Draft) -> None:
    values: dict[str, str] = {}
    # The set-up cell first, wherever it stands; then any other cell that assigns these names.
    for cell in sorted(draft.cells, key=lambda cell: "setup" not in cell.ids):
        if cell.kind == "code":
            values = constants(cell.source) | values
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


def without_magics(source: str) -> str:
    """The same lines with IPython's own syntax replaced by `pass`, so that Python's parser can read the rest."""
    source = re.sub(r"\A(\s*)%%\w*.*", r"\1pass", source)
    source = re.sub(r"^([ \t]*)(?:[%!?]|\w+\?{1,2}\s*$).*", r"\1pass", source, flags=re.MULTILINE)
    return re.sub(r"^([ \t]*\w[\w, ]*=\s*)[%!].*", r"\1None", source, flags=re.MULTILINE)


@lru_cache(maxsize=2048)
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


@lru_cache(maxsize=2048)
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


def is_stub(source: str, names: frozenset[str]) -> bool:
    """True if the cell binds the answer's names, but only to what the release gave: empty functions, empty strings."""
    tree, bound = parsed(source), False
    for node in tree.body if tree else []:
        if not names & names_of(statement(source, node)).defined:
            continue
        bound = True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            empty = all(map(_is_placeholder, node.body))
        elif isinstance(node, ast.ClassDef):  # a released class may come with a finished __init__
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            methods = [method for method in methods if method.name != "__init__"] or methods
            empty = all(all(map(_is_placeholder, method.body)) for method in methods)
        else:
            empty = isinstance(node, ast.Assign | ast.AnnAssign) and _is_empty_value(node.value)
        if not empty:
            return False
    return bound


def statement(source: str, node: ast.stmt) -> str:
    """The lines of a top-level statement, decorators included."""
    first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
    return "\n".join(source.split("\n")[first - 1 : node.end_lineno])


def _normal(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines() if line.strip())


@lru_cache(maxsize=2048)
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


# ---------------------------------------------------------------------------------------------------------------------
# Released lessons
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """A cell of the released notebook that the student fills: code that binds `names`, or a written answer."""

    index: int
    label: str
    names: frozenset[str]
    written: bool


@dataclass(frozen=True)
class Frame:
    """A released notebook and where its parts are."""

    lesson: str
    language: str
    release: str
    notebook: NotebookNode
    slots: tuple[Slot, ...]
    checks: tuple[int, ...]
    by_grade_id: dict[str, int]
    by_id: dict[str, int]
    student_id: str  # what the set-up cell is released with, in case that is not empty

    def runs(self, index: int) -> bool:
        """Set-up and check cells run when graded; demonstrations and experiments do not."""
        cell = self.notebook.cells[index]
        tags = cell.metadata.get("tags", [])
        return cell.cell_type == "code" and (index in self.checks or "setup" in tags or cell.id == "setup")


def load_frames(lessons: Path) -> dict[str, dict[str, Frame]]:
    """Released notebooks by lesson and language, from lessons/<language>/NN_name.ipynb."""
    frames: dict[str, dict[str, Frame]] = defaultdict(dict)
    for path in sorted(lessons.glob("*/*.ipynb")):
        try:
            frame = make_frame(nbformat.read(path, as_version=4), path)
        except Exception as error:  # our own file: whatever is wrong with it, the instructor must know which one
            raise CollectError(f"the released notebook {path.name} cannot be read ({type(error).__name__})") from None
        frames[frame.lesson][frame.language] = frame
    if not frames:
        raise CollectError(f"there are no released notebooks in {lessons}; make them with `python -m autograder build`")
    return dict(frames)


def make_frame(notebook: NotebookNode, path: Path) -> Frame:
    course = notebook.metadata.get("course", {})
    slots, checks, by_grade_id, by_id, student_id = [], [], {}, {}, ""
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            student_id = student_id or constants(cell.source).get("STUDENT_ID", "")
        by_id[cell.get("id", "")] = index
        nbgrader = cell.metadata.get("nbgrader", {})
        if not nbgrader.get("grade_id"):
            continue
        by_grade_id[nbgrader.grade_id] = index
        if nbgrader.get("solution"):
            names = names_of(cell.source).defined if cell.cell_type == "code" else frozenset[str]()
            label = nbgrader.grade_id.removeprefix("answer-")
            slots.append(Slot(index, label, names, cell.cell_type == "markdown"))
        elif nbgrader.get("grade"):
            checks.append(index)
    by_id.pop("", None)
    return Frame(
        course.get("lesson") or path.stem,
        course.get("language") or path.parent.name,
        course.get("release") or "",
        notebook,
        tuple(slots),
        tuple(checks),
        by_grade_id,
        by_id,
        student_id,
    )


Frames = dict[str, dict[str, Frame]]


def choose_lesson(draft: Draft, frames: Frames) -> str | None:
    """The lesson that the notebook declares, else its file name mentions, else its answers fit best."""
    declared = draft.course.get("lesson", "")
    if declared in frames:
        return declared
    if not declared and (named := lesson_in(draft.name, frames) or lesson_in("/".join(draft.file.path[:-1]), frames)):
        return named
    found = {key for cell in draft.cells for key in (cell.grade_id, *cell.ids)}
    defined = {name for cell in draft.cells if cell.kind == "code" for name in names_of(cell.source).defined}
    scores = {}
    for lesson, languages in frames.items():
        frame = next(iter(languages.values()))
        slots = {slot.index for slot in frame.slots}
        keys = {
            key for key, index in (frame.by_grade_id | frame.by_id).items() if index in slots or index in frame.checks
        }
        scores[lesson] = len(keys & found) + sum(bool(slot.names & defined) for slot in frame.slots)
    best = max(scores.values())
    leaders = [lesson for lesson, score in scores.items() if score == best]
    return leaders[0] if best and len(leaders) == 1 else None


def choose_language(draft: Draft, languages: dict[str, Frame]) -> str:
    declared = draft.course.get("language", "")
    if declared in languages:
        return declared
    text = "".join(cell.source for cell in draft.cells if cell.kind == "markdown")
    text = text or "".join(cell.source for cell in draft.cells)
    letters = sum(char.isalpha() for char in text)
    han = len(re.findall(r"[\u3400-\u9fff]", text))
    guess = "zh-TW" if han > 0.15 * max(letters, 1) else "en"
    return guess if guess in languages else min(languages)


# ---------------------------------------------------------------------------------------------------------------------
# The canonical notebook
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class Own:
    """A code cell of the student's own; it goes in after the released cell `anchor` (-1: before all)."""

    anchor: int
    order: tuple[int, int]
    source: str


@dataclass
class Rebuilt:
    notebook: NotebookNode
    repairs: list[str]
    notes: list[str]


def rebuild(frame: Frame, cells: Sequence[Cell]) -> Rebuilt:
    """The released notebook with the student's answers and own cells in it."""
    matches = match_cells(frame, cells)
    answers, how = choose_answers(frame, cells, matches)
    written, written_repairs, lost_text = choose_written(frame, cells, matches)
    own, edited = own_cells(frame, cells, matches, answers)
    moved = hoist(frame, answers, own)
    rescued = rescue(frame, answers, own, edited)

    released = [copy.deepcopy(cell) for cell in frame.notebook.cells]
    first_slot: dict[int, Slot] = {}
    for slot in frame.slots:
        if slot.index in answers:
            cell = answers[slot.index]
            if cell.position in first_slot:  # one cell answers several: the stub here must not undo it
                released[slot.index].source = f"# Answered in the cell of {first_slot[cell.position].label}."
            else:
                first_slot[cell.position] = slot
                released[slot.index].source = cell.source
        elif slot.index in written:
            chosen = written[slot.index]
            released[slot.index].source = "\n\n".join(cell.source for cell in chosen)
            images = {name: {kind: data} for cell in chosen for name, kind, data in cell.attachments}
            if images:
                released[slot.index].attachments = nbformat.from_dict(images)

    result: list[NotebookNode] = []
    waiting = sorted(own, key=lambda item: (item.anchor, item.order))
    for index in range(-1, len(released)):
        result += released[index : index + 1] if index >= 0 else []
        for item in waiting:
            if item.anchor == index:
                result.append(new_code_cell(item.source, metadata={"tags": ["student"]}))
    for number, node in enumerate([node for node in result if node.metadata.get("tags") == ["student"]], start=1):
        node["id"] = f"own-{number}"
    notebook = copy.deepcopy(frame.notebook)
    notebook.cells = result
    notebook.nbformat, notebook.nbformat_minor = 4, 5

    repairs = how + written_repairs + check_repairs(frame, cells, matches)
    repairs += [f"{moved} own cells moved up to the answers that need them"] if moved else []
    repairs += [f"kept from edited course cells: {', '.join(rescued[0])}"] if rescued[0] else []
    notes = [f"taken from demonstration cells: {', '.join(rescued[1])}"] if rescued[1] else []
    notes += [f"{len(edited)} edited course cells replaced by the released ones"] if edited else []
    notes += [f"{lost_text} text cells beside written answers left out"] if lost_text else []
    return Rebuilt(notebook, repairs, notes)


def match_cells(frame: Frame, cells: Sequence[Cell]) -> dict[int, int]:
    """Position of a cell -> index of the released cell it stems from: by grade_id, id, equal text, nearly equal text."""
    matches: dict[int, int] = {}
    for cell in cells:
        if cell.grade_id in frame.by_grade_id:
            matches[cell.position] = frame.by_grade_id[cell.grade_id]
        else:
            known = [frame.by_id[key] for key in cell.ids if key in frame.by_id]
            if known:
                matches[cell.position] = known[0]

    released = frame.notebook.cells
    by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, cell in enumerate(released):
        by_text[cell.cell_type, _normal(cell.source)].append(index)
    used, last = set(matches.values()), -1
    for cell in cells:
        if cell.position not in matches:
            same = by_text.get((cell.kind, _normal(cell.source)), [])
            if same:  # the same text may stand in several released cells: the next free one in order
                free = [index for index in same if index not in used] or same
                matches[cell.position] = next((index for index in free if index > last), free[0])
                used.add(matches[cell.position])
        last = matches.get(cell.position, last)

    slots = {slot.index for slot in frame.slots}
    plain = [index for index, cell in enumerate(released) if cell.cell_type == "code" and index not in slots]
    for cell in cells:
        if cell.position in matches or cell.kind != "code":
            continue
        if "LESSON" in constants(cell.source) and "setup" in frame.by_id:
            matches[cell.position] = frame.by_id["setup"]
            continue
        call = re.match(r"\s*check\(\s*[\"'](\w+)[\"'].*\)\s*\Z", cell.source)
        if call and call[1] in frame.by_grade_id:
            matches[cell.position] = frame.by_grade_id[call[1]]
            continue
        near = next((index for index in plain if nearly_equal(cell.source, released[index].source)), None)
        if near is not None:
            matches[cell.position] = near
    return matches


def gap(frame: Frame, cells: Sequence[Cell], matches: dict[int, int], index: int, kind: str) -> list[Cell]:
    """Cells of a kind that stem from nothing released, between the neighbours of a released cell. May be empty."""
    before = [(at, position) for position, at in matches.items() if at < index]
    nearest = max((at for at, _ in before), default=-1)
    low = max((position for at, position in before if at == nearest), default=-1)
    after = [(at, position) for position, at in matches.items() if at > index and position > low]
    high = min(after)[1] if after else len(cells)
    return [cell for cell in cells[low + 1 : high] if cell.kind == kind and cell.position not in matches]


def choose_answers(frame: Frame, cells: Sequence[Cell], matches: dict[int, int]) -> tuple[dict[int, Cell], list[str]]:
    """Released answer cell -> the cell that answers it, and what was unusual about finding it.

    What running the notebook from top to bottom leaves defined is what counts: the last cell that binds the answer's
    name and is not a stub. If none binds it, the cell that carries the tag or stands in its place is taken, so that
    the student is told what is wrong with it.
    """
    answers: dict[int, Cell] = {}
    slots = [slot for slot in frame.slots if not slot.written]
    indices = {slot.index for slot in slots}
    by_name, several, text_cells, absent = [], [], [], []

    for slot in slots:
        binding = []
        for cell in cells:
            at = matches.get(cell.position)
            # A demonstration that binds the name in the release too is no answer, however it was edited.
            course_binds = (
                at is not None and at not in indices and slot.names & names_of(frame.notebook.cells[at].source).defined
            )
            if cell.kind == "code" and slot.names & names_of(cell.source).defined and not course_binds:
                binding.append(cell)
        real = [cell for cell in binding if not is_stub(cell.source, slot.names)]
        if real:
            answers[slot.index] = real[-1]
            if matches.get(real[-1].position) != slot.index:
                by_name.append(slot.label)
            if len(real) > 1:
                several.append(slot.label)

    used = {cell.position for cell in answers.values()}
    for slot in slots:
        if slot.index in answers:
            continue
        tagged = [cell for cell in cells if matches.get(cell.position) == slot.index and cell.position not in used]
        code = [cell for cell in tagged if cell.kind == "code"]
        changed = [cell for cell in code if not is_stub(cell.source, slot.names) or cell.source.strip() == ""]
        changed = changed or [cell for cell in code if not slot.names & names_of(cell.source).defined]
        nearby = [cell for cell in gap(frame, cells, matches, slot.index, "code") if cell.position not in used]
        if changed:
            answers[slot.index] = changed[-1]
        elif not tagged and len(nearby) == 1:
            answers[slot.index] = nearby[0]
            by_name.append(slot.label)
        elif tagged and not code:
            text_cells.append(slot.label)
        elif not tagged:
            absent.append(slot.label)
        if slot.index in answers:
            used.add(answers[slot.index].position)

    repairs = []
    if by_name:
        repairs.append(f"answers found by name or place: {', '.join(by_name)}")
    if several:
        repairs.append(f"several versions, the last one taken: {', '.join(several)}")
    if text_cells:
        repairs.append(f"answer cells turned into text: {', '.join(text_cells)}")
    if absent:
        repairs.append(f"answer cells missing: {', '.join(absent)}")
    return answers, repairs


def choose_written(
    frame: Frame, cells: Sequence[Cell], matches: dict[int, int]
) -> tuple[dict[int, list[Cell]], list[str], int]:
    """Released written cell -> the cells that answer it; what was unusual; how many text cells beside are left out."""
    chosen: dict[int, list[Cell]] = {}
    moved, absent, lost = [], [], set()
    slots = [slot for slot in frame.slots if slot.written]
    open_slots = []
    for slot in slots:
        placeholder = _normal(frame.notebook.cells[slot.index].source)
        tagged = [cell for cell in cells if matches.get(cell.position) == slot.index]
        filled = [cell for cell in tagged if _normal(cell.source) not in ("", placeholder)]
        if filled:
            chosen[slot.index] = filled[-1:]
            lost |= {cell.position for cell in gap(frame, cells, matches, slot.index, "markdown")}
            lost |= {cell.position for cell in filled[:-1]}
        else:
            open_slots.append((slot, bool(tagged)))

    taken: set[int] = set()
    for number, (slot, present) in enumerate(open_slots):
        free = [
            cell
            for cell in gap(frame, cells, matches, slot.index, "markdown")
            if cell.position not in taken and cell.source.strip()
        ]
        following = [
            other
            for other, _ in open_slots[number + 1 :]
            if {c.position for c in gap(frame, cells, matches, other.index, "markdown")} & {c.position for c in free}
        ]
        use = free[:1] if following else free
        if use:
            chosen[slot.index] = use
            taken |= {cell.position for cell in use}
            moved.append(slot.label)
        elif not present:
            absent.append(slot.label)
    repairs = [f"written answers found beside their cells: {', '.join(moved)}"] if moved else []
    repairs += [f"written cells missing: {', '.join(absent)}"] if absent else []
    return chosen, repairs, len(lost - taken)


def own_cells(
    frame: Frame, cells: Sequence[Cell], matches: dict[int, int], answers: dict[int, Cell]
) -> tuple[list[Own], list[str]]:
    """The student's own code cells with their places, and the sources of course cells that were edited."""
    slots = {slot.index: slot for slot in frame.slots}
    winners: dict[int, list[int]] = defaultdict(list)
    for index, cell in answers.items():
        winners[cell.position].append(index)
    tagged = set(matches.values())
    own, edited, current = [], [], -1
    for cell in cells:
        at = matches.get(cell.position)
        loser_of = [
            slot
            for slot in slots.values()
            if slot.index in answers and slot.names & names_of(cell.source).defined and cell.kind == "code"
        ]
        if cell.position in winners:
            # An answer without tags marks its place only where no tagged cell does.
            at = at if at is not None else next((i for i in sorted(winners[cell.position]) if i not in tagged), None)
        elif cell.kind == "code" and _has_code(cell.source):
            released = frame.notebook.cells[at] if at is not None else None
            if at is None or (at in slots and not slots[at].written):
                # Only the unanswered answer, nothing else that the student wrote.
                stub = any(
                    is_stub(cell.source, slot.names) and names_of(cell.source).defined <= slot.names
                    for slot in slots.values()
                )
                if not stub:
                    # An older version stays before the newer one, or it would undo it.
                    anchor = min([current, *(slot.index - 1 for slot in loser_of)])
                    own.append(Own(anchor, (cell.position, 0), cell.source))
            elif released is not None and at not in slots and _normal(released.source) != _normal(cell.source):
                if at not in frame.checks and released.get("id") != "setup":
                    edited.append(cell.source)
                elif names_of(cell.source).defined - names_of(released.source).defined:
                    edited.append(cell.source)  # an import or a helper written into the set-up cell, say
        current = at if at is not None else current
    return own, edited


def _has_code(source: str) -> bool:
    return any(line.strip() and not line.strip().startswith("#") for line in source.splitlines())


def _defined_before(frame: Frame, answers: dict[int, Cell], own: list[Own], index: int) -> set[str]:
    """Names bound when the check after the answer cell `index` runs; cells right after the answer count."""
    sources = [frame.notebook.cells[i].source for i in range(index) if frame.runs(i)]
    sources += [cell.source for at, cell in answers.items() if at <= index]
    sources += [item.source for item in own if item.anchor <= index]
    return {name for source in sources for name in names_of(source).defined}


def hoist(frame: Frame, answers: dict[int, Cell], own: list[Own]) -> int:
    """Move own cells up to the answers that need them: an import or helper that stood above an answer in a new cell.

    Only cells that bind a name which the answer uses move, with those that they need themselves.
    """
    moved: set[tuple[int, int]] = set()
    for index, answer in sorted(answers.items()):
        while True:
            needed = needs(answer, own, index)
            missing = needed - _defined_before(frame, answers, own, index)
            for item in own:
                useful = names_of(item.source).defined & needed
                if item.anchor > index and useful and (item.order[0] < answer.position or useful & missing):
                    item.anchor = index - 1
                    moved.add(item.order)
                    break
            else:
                break
    return len(moved)


def needs(answer: Cell, own: list[Own], index: int) -> set[str]:
    """Names that an answer uses, itself and through the own cells before its check."""
    needed, size = set(names_of(answer.source).needed), -1
    while len(needed) > size:
        size = len(needed)
        for item in own:
            if item.anchor <= index and names_of(item.source).defined & needed:
                needed |= names_of(item.source).needed
    return needed


def rescue(frame: Frame, answers: dict[int, Cell], own: list[Own], edited: list[str]) -> tuple[list[str], list[str]]:
    """Keep single statements that an answer needs and that stand in cells which are not graded.

    A student who adds `import math` to a course cell, or uses a helper of a demonstration, has a right answer in the
    notebook; it must stay right here. Returns the names kept from edited cells and those from released ones.
    """
    demos = [
        (cell.source, "experiment" not in cell.metadata.get("tags", []))
        for index, cell in enumerate(frame.notebook.cells)
        if cell.cell_type == "code" and not frame.runs(index) and index not in {slot.index for slot in frame.slots}
    ]
    kept: tuple[list[str], list[str]] = ([], [])
    for index, answer in sorted(answers.items()):
        seen: set[str] = set()
        while names := needs(answer, own, index) - seen - set(dir(builtins)):
            name = min(names)
            seen.add(name)
            if name in _defined_before(frame, answers, own, index) or name.startswith("__"):
                continue
            for group, sources in ((0, [(source, True) for source in reversed(edited)]), (1, demos)):
                found = next(filter(None, (binding_statement(s, name, values) for s, values in sources)), None)
                if found:
                    # Before every own cell that uses it, and before what was rescued for its sake.
                    users = [item.anchor for item in own if name in names_of(item.source).needed]
                    own.append(Own(min([index - 1, *users]), (-1, -len(own)), found))
                    kept[group].append(name)
                    break
    return kept


def binding_statement(source: str, name: str, values: bool) -> str | None:
    """The last top-level import, definition or (if `values`) assignment of a cell that binds `name`."""
    tree = parsed(source)
    kinds: tuple[type[ast.stmt], ...] = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    kinds += (ast.Assign, ast.AnnAssign) if values else ()
    for node in reversed(tree.body if tree else []):
        if isinstance(node, kinds) and name in names_of(statement(source, node)).defined:
            return statement(source, node)
    return None


def check_repairs(frame: Frame, cells: Sequence[Cell], matches: dict[int, int]) -> list[str]:
    """What was done to the check cells; the released ones are used whatever it was."""
    found: dict[str, list[str]] = defaultdict(list)
    for index in frame.checks:
        released = frame.notebook.cells[index]
        label = released.metadata.nbgrader.grade_id
        stemming = [cell for cell in cells if matches.get(cell.position) == index]
        points = {cell.points for cell in stemming if cell.points is not None}
        if not stemming:
            found["missing"].append(label)
        elif all(cell.kind != "code" for cell in stemming):
            found["turned into text"].append(label)
        elif all(_normal(cell.source) != _normal(released.source) for cell in stemming):
            found["edited"].append(label)
        elif len(stemming) > 1:
            found["copied"].append(label)
        if points - {float(released.metadata.nbgrader.get("points", 0))}:
            found["given other points"].append(label)
    return [f"check cells {what}, the released ones used: {', '.join(labels)}" for what, labels in found.items()]


# ---------------------------------------------------------------------------------------------------------------------
# Whose it is
# ---------------------------------------------------------------------------------------------------------------------

_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assign(?:submission)?(?:_.*)?")
_CANVAS = re.compile(r"(?P<name>.+?)_(?:LATE_)?(?P<id>\d{3,})_\d{3,}_.+?(?:-(?P<copy>\d{1,2}))?(?:\.\w+)?")
_NAME_AND_ID = re.compile(r"(?P<name>\D.*)_(?P<id>\d{5,})_?")


@dataclass(frozen=True)
class Owner:
    """Who handed a file in: the id as found, the name for display, what to tell, and the number of a repeated upload."""

    raw_id: str
    name: str
    note: str = ""
    copy: int = 0


def platform_owner(path: tuple[str, ...]) -> Owner | None:
    """The student that Moodle or Canvas wrote into the path, if one of them made it."""
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        stem = part if last else re.sub(r"\.zip$", "", part, flags=re.IGNORECASE)
        if found := _MOODLE.fullmatch(stem):
            return Owner(found["id"], found["name"])
        # Canvas writes the ids into the name of the file or of the zip that was handed in.
        if (last or part.lower().endswith(".zip")) and (found := _CANVAS.fullmatch(part)):
            # Canvas numbers what was handed in again: file-1.ipynb
            return Owner(found["id"], found["name"], copy=int(found["copy"] or 0))
    return None


def student_folders(drafts: Sequence[Draft], frames: Frames) -> dict[int, str]:
    """For files that no platform named: index of the draft -> the folder (or zip) that stands for its student.

    Folders that all share are wrappers, and so are names of lessons and words like "submissions". A folder with the
    files of several students is no student's.
    """
    paths: dict[int, list[str]] = {}
    for number, draft in enumerate(drafts):
        folders = [re.sub(r"\.zip$", "", part, flags=re.IGNORECASE) for part in draft.file.path[:-1]]
        paths[number] = [
            name_without_lesson(part, frames) if lesson_in(part, frames) else part
            for part in folders
            if name_without_lesson(part, frames)
        ]
    counted = [number for number in paths if not drafts[number].problem] or list(paths)
    deepest = max(len(paths[number]) for number in counted) if counted else 0
    level = 0  # the first folder in which the paths differ
    while level < deepest and len({tuple(paths[number][: level + 1]) for number in counted}) == 1:
        level += 1
    if level == deepest:  # they never do: one student's folder, or all files in one
        level = max(level - 1, 0)
    result = {number: path[level] for number, path in paths.items() if len(path) > level}

    people: dict[str, set[str]] = defaultdict(set)
    for number, folder in result.items():
        draft = drafts[number]
        if number in counted:
            people[folder].add(draft.setup_id)
            # Names of files tell students apart only where all files lie in one folder.
            if len(set(result.values())) == 1 and not draft.setup_id:
                people[folder].add(name_without_lesson(draft.name, frames))
            people[folder].discard("")
    if people and all(len(ids) > 1 for ids in people.values()):
        return {}
    return result


def safe_id(raw: str) -> str:
    """A student id that is a folder name everywhere and no pattern for nbgrader: letters, digits, "_", "-", ".", "@"."""
    text = re.sub(r"[^\w.@-]+", "_", unicodedata.normalize("NFKC", raw).strip())
    return text.lstrip(".-_").rstrip("._-")[:80]


def identify(drafts: Sequence[Draft], frames: Frames) -> list[Owner]:
    """The owner of each draft: platform, folder, set-up cell, file name, "unknown-1", … in this order."""
    released = {frame.student_id for languages in frames.values() for frame in languages.values()}
    for draft in drafts:
        draft.setup_id = "" if draft.setup_id in released else draft.setup_id
    by_platform = {number: platform_owner(draft.file.path) for number, draft in enumerate(drafts)}
    rest = [number for number, owner in by_platform.items() if owner is None]
    folders = student_folders([drafts[number] for number in rest], frames)
    folder_of = {rest[number]: folder for number, folder in folders.items()}

    owners, unknown = [], 0
    for number, draft in enumerate(drafts):
        owner = by_platform[number]
        tag = name_without_lesson(draft.name, frames)
        if owner is not None:
            pass
        elif folder := folder_of.get(number, ""):
            parts = _NAME_AND_ID.fullmatch(folder)
            name = parts["name"] if parts else draft.setup_name or folder
            owner = Owner(parts["id"] if parts else folder, name)
        elif safe_id(draft.setup_id):
            owner = Owner(draft.setup_id, draft.setup_name or tag or draft.setup_id)
        elif safe_id(tag):
            owner = Owner(tag, draft.setup_name or tag, "student taken from the file name")
        if owner is None or not safe_id(owner.raw_id):
            unknown += 1
            label = f"unknown-{unknown}"
            owner = Owner(label, draft.setup_name or label, "no student id found anywhere")
        owners.append(owner)
    return owners


def assign_ids(owners: Sequence[Owner]) -> list[str]:
    """Folder-safe ids. Two students stay two, also where their ids look the same once made safe."""
    given: dict[str, str] = {}
    taken: set[str] = set()
    for owner in owners:
        key = unicodedata.normalize("NFKC", owner.raw_id).strip().casefold()
        if key not in given:
            base = candidate = safe_id(owner.raw_id)
            number = 1
            while candidate.casefold() in taken:
                number += 1
                candidate = f"{base}-{number}"
            given[key] = candidate
            taken.add(candidate.casefold())
    return [given[unicodedata.normalize("NFKC", owner.raw_id).strip().casefold()] for owner in owners]


# ---------------------------------------------------------------------------------------------------------------------
# All together
# ---------------------------------------------------------------------------------------------------------------------


def collect(pile: Path, lessons: Path) -> list[Submission]:
    """Turn a zip or folder of submissions into rows with canonical notebooks.

    Args:
        pile: what the learning platform exported, or a folder of files.
        lessons: the released notebooks, `lessons/<language>/NN_name.ipynb`.

    Returns:
        One row per file, sorted by student, lesson and path. At most one row per student and lesson is "ok" or
        "repaired" and carries a notebook.

    Raises:
        CollectError: the pile or the released notebooks cannot be read at all.
    """
    frames = load_frames(Path(lessons))
    drafts = sorted((read_draft(file) for file in read_pile(Path(pile))), key=lambda draft: draft.file.path)
    if not drafts:
        raise CollectError(f"{Path(pile).name} holds no files to grade")
    owners = identify(drafts, frames)
    rows = [
        submission(draft, owner, student, frames)
        for draft, owner, student in zip(drafts, owners, assign_ids(owners), strict=True)
    ]
    copies = [max(copy_of(draft.name)[2], owner.copy) for draft, owner in zip(drafts, owners, strict=True)]
    supersede(rows, [(not draft.script, number) for draft, number in zip(drafts, copies, strict=True)])
    return sorted(rows, key=lambda row: (row.student_id, row.lesson or "", row.source))


def submission(draft: Draft, owner: Owner, student: str, frames: Frames) -> Submission:
    """The row of one file, as if it were the only one of its student."""
    source = re.sub(r"[\x00-\x1f\x7f]", "?", "/".join(draft.file.path))
    name = clean_text(owner.name).replace("\n", " ").strip()[:100]
    row = Submission(student, name or student, None, "", "", source, draft.file.received, "", "")
    row.release = draft.course.get("release", "")
    if draft.problem:
        row.lesson = lesson_in("/".join(draft.file.path), frames)
        row.language = draft.course.get("language", "")
        row.status, row.reason = "unreadable", sentence([draft.problem, owner.note])
        return row
    row.lesson = choose_lesson(draft, frames)
    if row.lesson is None:
        declared = draft.course.get("lesson", "")
        row.language = draft.course.get("language", "")
        what = f'it names the lesson "{declared}", which is not released' if declared else "it fits no released lesson"
        row.status, row.reason = "unknown lesson", sentence([what, owner.note])
        return row
    row.language = choose_language(draft, frames[row.lesson])
    frame = frames[row.lesson][row.language]
    try:
        built = rebuild(frame, draft.cells)
    except (RecursionError, MemoryError):
        row.status, row.reason = "unreadable", sentence(["its code is nested too deeply to be read", owner.note])
        return row
    row.notebook = built.notebook
    row.status = "repaired" if built.repairs else "ok"
    notes = [*built.repairs, *built.notes, owner.note]
    if row.release and row.release != frame.release:
        notes.append(f"made from release {row.release}, graded against {frame.release}")
    if draft.script:
        notes.append("read from a script")
    row.reason = sentence(notes) or "Read as handed in."
    return row


def sentence(parts: Iterable[str]) -> str:
    text = "; ".join(part for part in parts if part)
    return text[:1].upper() + text[1:] + "." if text else ""


def supersede(rows: Sequence[Submission], ranks: Sequence[tuple[bool, int]]) -> None:
    """Of several files of one student for one lesson the newest stays; all are told.

    `ranks` says for each row whether it is a notebook (it comes before a script of it) and the number of the copy, which
    decides where dates do not.
    """
    groups: dict[tuple[str, str | None], list[tuple[Submission, tuple[bool, int]]]] = defaultdict(list)
    for row, rank in zip(rows, ranks, strict=True):
        if row.notebook is not None:
            groups[row.student_id, row.lesson].append((row, rank))
    for group in groups.values():
        if len(group) < 2:
            continue
        dated = all(row.received is not None for row, _ in group)
        ages = [
            (rank[0], row.received if dated and row.received else datetime.min, rank[1], row.source)
            for row, rank in group
        ]
        usable = [row for row, _ in group]
        newest = usable[ages.index(max(ages))]
        for row in usable:
            if row is not newest:
                row.status, row.notebook = "superseded", None
                row.reason = f"The same student's {newest.source} is graded instead."
        newest.reason = sentence(
            [newest.reason.rstrip("."), f"the newest of {len(usable)} files of this student and lesson"]
        )
