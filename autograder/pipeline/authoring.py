"""Text notebook -> nbgrader source notebook -> released notebooks in both languages.

``solutions/NN_name.py`` (jupytext, py:percent) is the only place where a lesson is edited. This module reads it, refuses
with file and line what would make a bad notebook, adds what every lesson has in common (badge, set-up cell, hand-in
cell, nbgrader's metadata), lets nbgrader's own generate step take the solutions out, and copies the result to
``lessons/<language>/NN_name.ipynb``. The cells that a source may hold are described in CONTRIBUTING.md.
"""

import ast
import re
import shutil
import tomllib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import jupytext
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ComputeChecksums, LockCells
from nbgrader.utils import capture_log

from autograder.pipeline.glossary import findings, prose
from autograder.pipeline.nbgrader_config import ClearSolutions, course_config, create_gradebook

Language = Literal["en", "zh-TW"]
LANGUAGES: tuple[Language, Language] = ("en", "zh-TW")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"

_MARKER = re.compile(r"^\s*#\s*%%(%*\s.*)?$")
_COMMENTED_MARKER = re.compile(r"^\s*%%(%*\s.*)?$")  # the same line in a text cell, whose "# " jupytext takes off
# What jupytext notes for itself about the layout of the file.
_LAYOUT = {"lines_to_next_cell", "lines_to_end_of_cell_marker"}
_ATTRIBUTES = {"lang", "tags", "exercise", "question", "written", "points"}


class AuthoringError(Exception):
    """A lesson cannot be built. ``refusals`` has one line per reason: ``file:line: what is wrong; what to do``."""

    def __init__(self, refusals: list[str]) -> None:
        super().__init__("\n".join(refusals))
        self.refusals = refusals


@dataclass(frozen=True)
class Course:
    """Where the student package lives: ``[tool.course]`` in pyproject.toml."""

    repository: str
    release: str

    @property
    def archive(self) -> str:
        """Address that pip installs the student package from (GitHub serves it for tags and branches alike)."""
        return f"{self.repository}/archive/{self.release}.zip"

    def colab(self, lesson: str, language: Language) -> str:
        """Address that opens a released notebook in Colab."""
        path = self.repository.removeprefix("https://github.com/")
        return f"https://colab.research.google.com/github/{path}/blob/{self.release}/lessons/{language}/{lesson}.ipynb"


@dataclass(frozen=True)
class Cell:
    """A cell of a lesson's source. ``line`` is the line of the file on which ``source`` begins."""

    # "unknown": refused already; its neighbours are not blamed for it.
    role: Literal["text", "written", "setup", "demo", "experiment", "answer", "check", "unknown"]
    source: str
    line: int
    language: Language | None = None  # text and written answers only
    name: str = ""  # the exercise, question or written answer
    points: float = 0  # check cells and written answers only
    question: bool = False  # an answer cell of a multiple-choice question

    @property
    def is_code(self) -> bool:
        return self.language is None


@dataclass(frozen=True)
class Lesson:
    """A lesson that has passed every check of the builder."""

    name: str  # "02_qkv"
    file: str  # "solutions/02_qkv.py", as refusals show it
    course: Course
    cells: tuple[Cell, ...]

    def cells_in(self, language: Language) -> list[Cell]:
        """The cells that the notebook of ``language`` holds, in order."""
        return [cell for cell in self.cells if cell.language in (None, language)]


# --- reading ---------------------------------------------------------------------------------------------------------


def course_points(name: str) -> float:
    """The points of one of the course's exercises; KeyError if there is no such exercise."""
    from autograder import get  # here, so that a lesson's structure can be read without loading every exercise

    return get(name).points


def load_lesson(path: Path, points_of: Callable[[str], float] = course_points) -> Lesson:
    """Read and check a lesson's source.

    Args:
        path: ``<root>/solutions/NN_name.py``; ``<root>/pyproject.toml`` names the course's repository and release.
        points_of: the points of an exercise; KeyError for a name that does not exist.

    Raises:
        AuthoringError: with every reason to refuse the lesson, in the order of the file.
    """
    course = read_course(path.parents[1])
    reader = _Reader(f"{path.parent.name}/{path.name}", points_of)
    cells = reader.read(path.read_text(encoding="utf-8"))
    if reader.refusals:
        raise AuthoringError([text for _, text in sorted(reader.refusals, key=lambda refusal: refusal[0])])
    return Lesson(path.stem, reader.file, course, tuple(cells))


def read_course(root: Path) -> Course:
    """``[tool.course]`` of the pyproject.toml in ``root``."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["course"]
    return Course(settings["repository"], settings["release"])


class _Raw(NamedTuple):
    kind: str
    source: str
    metadata: NotebookNode
    line: int  # of the first line of the source
    marker: int  # of the "# %%" line


class _Reader:
    """Turns the text of one lesson into cells and collects what is wrong with it."""

    def __init__(self, file: str, points_of: Callable[[str], float]) -> None:
        self.file = file
        self.points_of = points_of
        self.refusals: list[tuple[int, str]] = []

    def refuse(self, line: int, what: str, remedy: str) -> None:
        self.refusals.append((line, f"{self.file}:{line}: {what}; {remedy}"))

    def read(self, text: str) -> list[Cell]:
        cells = [self._classify(raw) for raw in self._split(text)]
        for cell in cells:
            if cell.role in ("text", "written"):
                self._check_text(cell)
            elif cell.role != "unknown":
                self._check_code(cell)
        self._check_title(cells)
        self._check_twins(cells)
        self._check_exercises(cells)
        self._check_names(cells)
        return cells

    def _split(self, text: str) -> list[_Raw]:
        """Cells as jupytext reads them, with the line numbers that jupytext does not keep."""
        lines = text.split("\n")
        markers = [number for number, line in enumerate(lines, 1) if _MARKER.match(line)]
        preamble = lines[: markers[0] - 1] if markers else lines
        if any(line.strip() and not line.startswith("#") for line in preamble):
            self.refuse(1, "code before the first cell marker", 'begin the cell with "# %%"')
        if not markers:
            self.refuse(1, "no cell", 'begin with the title in a cell # %% [markdown] lang="en"')
            return []
        raw_cells = []
        for cell in jupytext.reads("\n".join(lines[markers[0] - 1 :]), fmt="py:percent").cells:
            marker = markers.pop(0)
            commented = cell.cell_type != "code" and "cell_marker" not in cell.metadata
            # A "# %%" inside a string or a fenced block is not a cell of its own.
            inner = _COMMENTED_MARKER if commented else _MARKER
            del markers[: sum(1 for line in cell.source.split("\n") if inner.match(line))]
            source = cell.source.strip("\n")
            blank = ("", "#") if commented else ("",)
            line = marker + 1
            while line <= len(lines) and lines[line - 1].strip() in blank:
                line += 1
            raw_cells.append(_Raw(cell.cell_type, source, cell.metadata, line if source else marker, marker))
        return raw_cells

    def _classify(self, raw: _Raw) -> Cell:
        """The cell that the marker line announces; an unknown one, with a refusal, if it announces no cell of ours."""
        unknown = Cell("unknown", raw.source, raw.line)
        attributes = {key: value for key, value in raw.metadata.items() if key not in _LAYOUT}
        if foreign := [key for key in attributes if key not in _ATTRIBUTES]:
            self.refuse(
                raw.marker,
                f"unknown cell attribute {', '.join(foreign)}",
                'write # %%, or # %% [markdown], and then only key="value" with '
                "the keys lang, tags, exercise, question, written and points",
            )
            return unknown
        keys, tags = set(attributes), attributes.get("tags", [])
        line, source = raw.line, raw.source
        if raw.kind == "markdown":
            language = attributes.get("lang")
            if language not in LANGUAGES:
                self.refuse(raw.marker, "a text cell without language", 'add lang="en" or lang="zh-TW"')
            elif keys == {"lang"}:
                return Cell("text", source, line, language)
            elif keys != {"lang", "written", "points"}:
                self.refuse(
                    raw.marker,
                    f"a text cell cannot carry {', '.join(sorted(keys - {'lang'}))}",
                    "give it lang only, or lang, written and points for a written answer",
                )
            elif not _is_positive(attributes["points"]):
                self.refuse(
                    raw.marker, "a written answer needs a number of points above 0", "write for example points=2"
                )
            else:
                return Cell("written", source, line, language, str(attributes["written"]), attributes["points"])
        elif raw.kind != "code":
            self.refuse(raw.marker, f"a {raw.kind} cell", "only code cells and [markdown] cells can be built")
        elif not keys:
            check = _check_call(source)
            return Cell("check", source, line, name=check[0]) if check else Cell("demo", source, line)
        elif keys == {"tags"} and tags in (["setup"], ["experiment"]):
            return Cell(tags[0], source, line)
        elif keys == {"tags"}:
            self.refuse(raw.marker, f"unknown tags {tags}", 'the tags are ["setup"] and ["experiment"]')
        elif keys in ({"exercise"}, {"question"}):
            (kind,) = keys
            return Cell("answer", source, line, name=str(attributes[kind]), question=kind == "question")
        else:
            self.refuse(
                raw.marker,
                f"a code cell cannot carry {', '.join(sorted(keys))}",
                "give it nothing, tags, exercise or question: code is the same in both languages",
            )
        return unknown

    def _check_title(self, cells: list[Cell]) -> None:
        titles = cells[:2]
        if any(cell.role == "unknown" for cell in titles):
            return
        if [cell.language for cell in titles] != list(LANGUAGES) or not all(
            cell.role == "text" and cell.source.startswith("# ") for cell in titles
        ):
            line = cells[0].line if cells else 1
            self.refuse(line, "no title", 'begin with the title twins, lang="en" and lang="zh-TW", each "# NN · Title"')

    def _check_twins(self, cells: list[Cell]) -> None:
        index = 0
        while index < len(cells):
            cell = cells[index]
            following = cells[index + 1] if index + 1 < len(cells) else None
            other = following.language if following else None
            index += 1
            if cell.is_code:
                continue
            if {cell.language, other} == set(LANGUAGES) and following:
                if cell.language == "zh-TW":
                    # zh, en, zh: the second pair is whole, and only the first cell lacks its twin.
                    if index + 1 < len(cells) and cells[index + 1].language == "zh-TW":
                        self.refuse(
                            cell.line, "a zh-TW cell without its English twin", "write the English cell right above it"
                        )
                        continue
                    self.refuse(cell.line, "twins in the wrong order", "put the English cell first")
                if (cell.role, cell.name, cell.points) != (following.role, following.name, following.points):
                    self.refuse(
                        following.line,
                        "twins that differ in written or points",
                        "give both the same written=… and points=…",
                    )
                index += 1
            elif cell.language == "en":
                if following and following.role == "unknown":
                    continue
                self.refuse(cell.line, "an English cell without its zh-TW twin", "write the zh-TW cell right under it")
            elif index < 2 or cells[index - 2].role != "unknown":
                self.refuse(cell.line, "a zh-TW cell without its English twin", "write the English cell right above it")

    def _check_exercises(self, cells: list[Cell]) -> None:
        """Every answer has its check right under it, every check has its answer; fills in the points of the checks."""
        for index, cell in enumerate(cells):
            if cell.role == "answer":
                following = cells[index + 1] if index + 1 < len(cells) else None
                if following is None or following.role not in ("check", "unknown"):
                    target = f"answer_{cell.name}" if cell.question else "function"
                    self.refuse(
                        cell.line,
                        f'the exercise "{cell.name}" has no check right under it',
                        f'make the next cell the one line check("{cell.name}", {target})',
                    )
            above = cells[index - 1] if index else None
            if cell.role != "check" or (above and above.role == "unknown"):
                continue
            call = _check_call(cell.source)
            assert call is not None  # this is what made it a check cell
            if above is None or above.role != "answer":
                self.refuse(
                    cell.line, f'check("{cell.name}", …) is not under an exercise', "put it right under its answer"
                )
            elif above.name != cell.name:
                self.refuse(
                    cell.line,
                    f'check("{cell.name}", …) stands under the exercise "{above.name}"',
                    f'write check("{above.name}", …)',
                )
            elif (defined := _defined_names(above.source)) is not None and call[1] not in defined:
                self.refuse(
                    cell.line,
                    f"the check names {call[1]}, which the exercise cell does not define",
                    f"name one of: {', '.join(sorted(defined)) or 'nothing is defined there'}",
                )
            else:
                try:
                    cells[index] = Cell(
                        "check", cell.source, cell.line, name=cell.name, points=self.points_of(cell.name)
                    )
                except KeyError:
                    self.refuse(
                        above.line,
                        f'unknown exercise "{cell.name}"',
                        "use a name that autograder.names() lists, or define the exercise in autograder/exercises",
                    )

    def _check_names(self, cells: list[Cell]) -> None:
        first: dict[str, int] = {}
        for cell in cells:
            # A written answer is one cell in two languages.
            if cell.role == "answer" or (cell.role == "written" and cell.language == "en"):
                if not re.fullmatch(r"[A-Za-z0-9_]{1,56}", cell.name):
                    self.refuse(cell.line, f'the name "{cell.name}" cannot be a cell id', "use letters, digits and _")
                elif cell.name in first:
                    self.refuse(
                        cell.line,
                        f'"{cell.name}" is used twice, first in line {first[cell.name]}',
                        "keep one of the two",
                    )
                first.setdefault(cell.name, cell.line)

    def _check_code(self, cell: Cell) -> None:
        self._check_syntax(cell, cell.source, "syntax error")
        if cell.role != "answer":
            self._refuse_markers(cell)
        elif self._markers_balanced(cell):
            released = _cleared(cell.source)
            self._check_syntax(cell, released, "without its solution the cell is no valid Python")
            defined, still = _defined_names(cell.source), _defined_names(released)
            if defined and still is not None and defined != still:
                gone = ", ".join(sorted(defined - still))
                self.refuse(
                    cell.line,
                    f"without its solution the cell no longer defines {gone}",
                    "keep the signature, or a placeholder, outside the solution",
                )
            if cell.question and released != f'answer_{cell.name} = ""':
                self.refuse(
                    cell.line,
                    "more than the placeholder is left of a question's cell",
                    f'write answer_{cell.name} = "" and then the solution',
                )

    def _check_syntax(self, cell: Cell, source: str, what: str) -> None:
        if error := _syntax_error(source):
            # Positions in the shortened cell are not positions in the file.
            line = cell.line + (error.lineno or 1) - 1 if source == cell.source else cell.line
            self.refuse(line, f"{what} ({error.msg})", "correct the cell")

    def _refuse_markers(self, cell: Cell) -> None:
        for number, line in enumerate(cell.source.split("\n"), cell.line):
            if BEGIN.strip("# ") in line or END.strip("# ") in line:
                self.refuse(
                    number,
                    "a solution marker outside an exercise cell",
                    'name the exercise in the cell\'s first line (# %% exercise="…") or remove the marker',
                )

    def _markers_balanced(self, cell: Cell) -> bool:
        opened: int | None = None
        regions, good = 0, True

        def refuse(number: int, what: str, remedy: str) -> None:
            nonlocal good
            good = False
            self.refuse(number, what, remedy)

        for number, line in enumerate(cell.source.split("\n"), cell.line):
            if line.strip() == BEGIN:
                if opened:
                    refuse(number, "a solution begins inside a solution", f"end the one of line {opened} first")
                opened, regions = number, regions + 1
            elif line.strip() == END:
                if not opened:
                    refuse(number, f"{END} without {BEGIN}", "mark where the solution begins")
                opened = None
            elif BEGIN.strip("# ") in line or END.strip("# ") in line:
                refuse(number, "a solution marker that is not a line of its own", f"write {BEGIN} or {END} alone")
        if opened:
            refuse(opened, f"{BEGIN} without {END}", "mark where the solution ends")
        if not regions and good:
            refuse(cell.line, "an exercise without solution", f"write it between {BEGIN} and {END}")
        return good

    def _check_text(self, cell: Cell) -> None:
        self._refuse_markers(cell)
        if not cell.source.strip():
            self.refuse(cell.line, "an empty text cell", "write its text or remove it")
        if cell.language == "zh-TW":
            for finding in findings(prose(cell.source)):
                line = cell.line + cell.source.count("\n", 0, finding.offset)
                self.refuse(line, finding.what, finding.remedy)


def _is_positive(points: object) -> bool:
    return isinstance(points, int | float) and not isinstance(points, bool) and points > 0


def _check_call(source: str) -> tuple[str, str] | None:
    """Exercise and object of a cell that is exactly the line ``check("exercise", object)``."""
    match = re.fullmatch(r'check\("([^"]*)", ([A-Za-z_]\w*)\)', source)
    return (match[1], match[2]) if match else None


def _plain_python(source: str) -> str:
    """``source`` with IPython's ``%magic`` and ``!command`` lines turned into calls."""
    return TransformerManager().transform_cell(source)


def _syntax_error(source: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about a cell's code belongs to the cell's author's linter
            compile(_plain_python(source), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return error
    return None


def _defined_names(source: str) -> set[str] | None:
    """Names that a cell defines at its top level; None if it is no valid Python (which is refused elsewhere)."""
    if _syntax_error(source):
        return None
    names = set()
    for node in ast.parse(_plain_python(source)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names


# --- what every notebook has in common -------------------------------------------------------------------------------

_BADGE = {
    "en": "[繁體中文版](../zh-TW/{lesson}.ipynb) ([Colab]({twin}))",
    "zh-TW": "[English version](../en/{lesson}.ipynb)（[Colab]({twin})）",
}

_SETUP = """\
# {ask}
LESSON, LANGUAGE, RELEASE = "{lesson}", "{language}", "{release}"
STUDENT_ID = ""  # @param {{type:"string"}}
STUDENT_NAME = ""  # @param {{type:"string"}}

import importlib.util

if importlib.util.find_spec("autograder"):
    print("{present}")
else:
    %pip install -q --no-deps "{archive}"
    importlib.invalidate_caches()
    if importlib.util.find_spec("autograder"):
        print("{installed}")
    else:
        print("{failed}")

from autograder import check, hint, progress, start, use

start(LESSON, LANGUAGE)
if not STUDENT_ID:
    print("{nameless}")"""

_SETUP_TEXT = {
    "en": {
        "ask": "Fill in your student id (學號) and your name (姓名), then run this cell: Shift+Enter.",
        "present": "The course package is here already; nothing was installed.",
        "installed": "The course package {release} was installed; torch and numpy were left alone.",
        "failed": "The course package could not be installed: see pip's message above, then run this cell again.",
        "nameless": "STUDENT_ID is still empty: fill it in before you hand in, so that the file is known as yours.",
    },
    "zh-TW": {
        "ask": "請填入學號（STUDENT_ID）與姓名（STUDENT_NAME），再按 Shift+Enter 執行本儲存格。",
        "present": "課程套件已經在了，沒有另外安裝。",
        "installed": "已安裝課程套件 {release}；torch 與 numpy 維持原樣。",
        "failed": "課程套件安裝失敗：請看上方 pip 的訊息，再執行一次本儲存格。",
        "nameless": "學號（STUDENT_ID）還沒填：繳交前請填好，才知道檔案是你的。",
    },
}

_HAND_IN = {
    "en": """\
## How to hand in

1. Look at the set-up cell: are your student id and your name in it?
2. Run everything once more from the start. Colab: *Runtime → Restart session and run all*; JupyterLab: *Run → Restart
   Kernel and Run All Cells*.
3. Download the notebook. Colab: *File → Download → Download .ipynb*; JupyterLab: *File → Download*.
4. Hand the file in where your instructor asks for it. Its name does not matter.

Your answers are run again for grading, so what counts is the code, not the output that you see here. You may hand in an
unfinished notebook: every exercise is graded by itself. An answer that calls the function it is meant to build, or the
course's own solution, gets no credit for that exercise.""",
    "zh-TW": """\
## 如何繳交

1. 看一下設定儲存格：學號與姓名都填好了嗎？
2. 從頭再執行一次。Colab：「執行階段」→「重新啟動工作階段並執行所有儲存格」；JupyterLab：「執行」→「重新啟動核心並執行所有儲存格」。
3. 下載筆記本。Colab：「檔案」→「下載」→「下載 .ipynb」；JupyterLab：「檔案」→「下載」。
4. 把檔案交到授課教師指定的地方，檔名不拘。

評分時會重新執行你的答案，所以算的是程式碼，不是這裡看到的輸出。沒寫完也可以繳交：每一題分開計分。若答案直接呼叫題目要你寫的那個函式，或是課程自己的解答，該題不給分。""",
}


def _badge_cell(lesson: Lesson, language: Language) -> NotebookNode:
    here, twin = (lesson.course.colab(lesson.name, code) for code in _here_and_twin(language))
    image = "https://colab.research.google.com/assets/colab-badge.svg"
    alternative = {"en": "Open in Colab", "zh-TW": "在 Colab 中開啟"}[language]
    link = _BADGE[language].format(lesson=lesson.name, twin=twin)
    return new_markdown_cell(f"[![{alternative}]({image})]({here}) · {link}", id="badge")


def _here_and_twin(language: Language) -> tuple[Language, Language]:
    return ("en", "zh-TW") if language == "en" else ("zh-TW", "en")


def _setup_cell(lesson: Lesson, language: Language) -> NotebookNode:
    release = lesson.course.release
    texts = {key: text.format(release=release) for key, text in _SETUP_TEXT[language].items()}
    source = _SETUP.format(
        lesson=lesson.name, language=language, release=release, archive=lesson.course.archive, **texts
    )
    return new_code_cell(source, id="setup", metadata={"tags": ["setup"]})


# --- notebooks -------------------------------------------------------------------------------------------------------


def source_notebook(lesson: Lesson, language: Language) -> NotebookNode:
    """nbgrader's source notebook of a lesson: solutions in place, nbgrader's metadata, valid nbformat 4.5."""
    title, *rest = lesson.cells_in(language)
    cells = [
        new_markdown_cell(title.source, id="title"),
        _badge_cell(lesson, language),
        _setup_cell(lesson, language),
    ]
    setups = others = 0
    for cell in rest:
        if cell.role == "answer":
            node = new_code_cell(cell.source, id=f"answer-{cell.name}")
            node.metadata = _nbgrader(f"answer-{cell.name}", solution=True)
        elif cell.role == "check":
            node = new_code_cell(cell.source, id=f"check-{cell.name}")
            node.metadata = _nbgrader(cell.name, grade=True, locked=True, points=cell.points)
        elif cell.role == "written":
            node = new_markdown_cell(cell.source, id=f"written-{cell.name}")
            node.metadata = _nbgrader(cell.name, grade=True, solution=True, points=cell.points)
        elif cell.role == "setup":
            setups += 1
            cell_id = "lesson-setup" if setups == 1 else f"lesson-setup-{setups}"
            node = new_code_cell(cell.source, id=cell_id, metadata={"tags": ["setup"]})
        else:
            others += 1
            make = new_code_cell if cell.is_code else new_markdown_cell
            node = make(cell.source, id=f"c-{others:03d}")
            if cell.role == "experiment":
                node.metadata["tags"] = ["experiment"]
        cells.append(node)
    cells.append(new_code_cell("progress()", id="progress"))
    cells.append(new_markdown_cell(_HAND_IN[language], id="hand-in"))
    notebook = new_notebook(cells=cells)
    notebook.nbformat_minor = 5
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "course": {"lesson": lesson.name, "language": language, "release": lesson.course.release},
        }
    )
    nbformat.validate(notebook)
    return notebook


def _nbgrader(
    grade_id: str, grade: bool = False, solution: bool = False, locked: bool = False, points: float | None = None
) -> NotebookNode:
    metadata: dict[str, object] = {
        "schema_version": 3,
        "grade_id": grade_id,
        "grade": grade,
        "solution": solution,
        "locked": locked,
        "task": False,
    }
    if points is not None:
        metadata["points"] = int(points) if points == int(points) else points
    return nbformat.from_dict({"nbgrader": metadata})


def _cleared(source: str) -> str:
    """What nbgrader's generate step leaves of an answer cell."""
    cell = new_code_cell(source, metadata=_nbgrader("answer", solution=True))
    return _clear_solutions().preprocess_cell(cell, ResourcesDict(language="python"), 0)[0].source


def _clear_solutions() -> ClearSolutions:
    return ClearSolutions(config=course_config(Path()))


def solved_notebook(lesson: Lesson, language: Language) -> NotebookNode:
    """The released notebook as a student hands it in who solved everything: only the answers' sources differ."""
    notebook = source_notebook(lesson, language)
    answers = {cell.id: _solved(cell.source) for cell in notebook.cells if cell.id.startswith("answer-")}
    for step in (LockCells(), _clear_solutions(), ComputeChecksums()):
        notebook, _ = step.preprocess(notebook, ResourcesDict())
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    return notebook


def _solved(source: str) -> str:
    return "\n".join(line for line in source.split("\n") if line.strip() not in (BEGIN, END))


# --- building --------------------------------------------------------------------------------------------------------


def build(root: Path, points_of: Callable[[str], float] = course_points) -> list[Path]:
    """Release every lesson in ``root/solutions`` to ``root/lessons/<language>``; nothing changes if one is refused.

    nbgrader works in ``root/build/<language>``. A notebook of a lesson that no longer exists is removed.

    Returns:
        The released notebooks, one for each lesson and language.

    Raises:
        AuthoringError: with what is wrong in any of the lessons.
    """
    lessons = _load_all(sorted((root / "solutions").glob("[0-9][0-9]_*.py")), points_of)
    released = []
    for language in LANGUAGES:
        destination = root / "lessons" / language
        destination.mkdir(parents=True, exist_ok=True)
        for stale in destination.glob("[0-9][0-9]_*.ipynb"):
            if stale.stem not in {lesson.name for lesson in lessons}:
                stale.unlink()
        for notebook in _generate(root / "build" / language, lessons, language):
            target = destination / notebook.name
            content = notebook.read_bytes()
            # An unchanged notebook keeps its time of change.
            if not target.exists() or target.read_bytes() != content:
                target.write_bytes(content)
            released.append(target)
    return released


def _load_all(paths: Iterable[Path], points_of: Callable[[str], float]) -> list[Lesson]:
    lessons: list[Lesson] = []
    refusals: list[str] = []
    first: dict[str, str] = {}
    for path in paths:
        try:
            lesson = load_lesson(path, points_of)
        except AuthoringError as error:
            refusals += error.refusals
            continue
        lessons.append(lesson)
        for cell in lesson.cells_in("en"):
            if cell.role in ("answer", "written"):
                if cell.name in first:
                    what = f'"{cell.name}" is used twice, first in {first[cell.name]}'
                    refusals.append(f"{lesson.file}:{cell.line}: {what}; keep one of the two")
                first.setdefault(cell.name, f"{lesson.file}:{cell.line}")
    if refusals:
        raise AuthoringError(refusals)
    return lessons


def _generate(directory: Path, lessons: list[Lesson], language: Language) -> list[Path]:
    """Run nbgrader's generate step on every lesson, in a fresh nbgrader course in ``directory``."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    create_gradebook(directory / "gradebook.db")
    config = course_config(directory)
    released = []
    for lesson in lessons:
        source = directory / "source" / lesson.name / f"{lesson.name}.ipynb"
        source.parent.mkdir(parents=True)
        nbformat.write(source_notebook(lesson, language), source)
        config.CourseDirectory.assignment_id = lesson.name
        result = capture_log(GenerateAssignment(coursedir=CourseDirectory(config=config), config=config))
        if not result["success"]:
            raise RuntimeError(f"nbgrader could not release {lesson.name}:\n{result.get('log')}\n{result.get('error')}")
        released.append(directory / "release" / lesson.name / source.name)
    return released
