"""The collector against piles as they come: platforms, broken files, messy notebooks, hostile archives."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import sys
import time
import zipfile
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.pipeline import drafts, report
from autograder.pipeline import pile as pile_module
from autograder.pipeline.authoring import read_course
from autograder.pipeline.claims import by_id_alone
from autograder.pipeline.collect import collect
from autograder.pipeline.drafts import CELL_LIMIT, is_stub, names_of, read_draft
from autograder.pipeline.grading import LESSONS as LESSONS_OF_THE_COURSE
from autograder.pipeline.pile import CollectError, File, copy_of
from autograder.pipeline.rebuild import load_frames, rebuild
from autograder.pipeline.records import Record
from autograder.pipeline.releases import came_later, load_releases
from autograder.pipeline.submission import Submission, names_nobody_known, safe_id

Cells = list[dict[str, Any]]

SETUP = """LESSON, LANGUAGE, RELEASE = "{lesson}", "{language}", "v0.1.0"
STUDENT_ID = ""  # 學號
STUDENT_NAME = ""

from autograder import check, hint, start, use

start(LESSON, LANGUAGE)"""
STUB = '''def {name}(q, k, v):
    """Rows of weights times v."""
    raise NotImplementedError'''
RIGHT = "def {name}(q, k, v):\n    return softmax(q @ k.T) @ v"
WRONG = "def {name}(q, k, v):\n    return q @ k.T @ v"
DEMO = """scores = torch.tensor([[8.2, 1.1, 0.3], [0.5, 2.0, 1.0]])
weights = torch.softmax(scores, dim=-1)
print(weights.sum(dim=-1), weights.max(dim=-1))
shown = heat_map(weights)"""
PLACEHOLDER = {"en": "*Write your answer here.*", "zh-TW": "*在此作答。*"}


def graded(cell: nbformat.NotebookNode, grade_id: str, **values: Any) -> nbformat.NotebookNode:
    fields = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    cell.metadata["nbgrader"] = {"grade_id": grade_id, **fields, **values}
    return cell


def release(lesson: str, language: str, answers: tuple[str, ...]) -> nbformat.NotebookNode:
    """A released notebook as the builder writes it: set-up, demonstration, answers with checks, question, written."""
    text = {"en": "Attention, row by row.", "zh-TW": "注意力機制，逐列來看。"}[language]
    number = lesson[:2]
    cells = [
        new_markdown_cell(f"# {lesson} {text}", id="title"),
        new_code_cell(SETUP.format(lesson=lesson, language=language), id="setup", metadata={"tags": ["setup"]}),
        new_code_cell("import torch\nfrom torch import softmax", id="lesson-setup", metadata={"tags": ["setup"]}),
        new_code_cell(DEMO, id="c-003"),
    ]
    for name in answers:
        cells.append(new_markdown_cell(f"{text} ({name})", id=f"text-{name}"))
        stub = new_code_cell(STUB.format(name=name), id=f"answer-{name}")
        cells.append(graded(stub, f"answer-{name}", solution=True))
        check = new_code_cell(f'check("{name}", {name})', id=f"check-{name}")
        cells.append(graded(check, name, grade=True, locked=True, points=3))
    experiment = (
        f'chosen = use("{answers[0]}", {answers[0]})\nmath_scale = 2.0\ncurve = [chosen(n, n, n) for n in range(9)]'
    )
    cells.append(new_code_cell(experiment, id="c-010", metadata={"tags": ["experiment"]}))
    cells.append(
        graded(
            new_code_cell(f'answer_{number}_q1 = ""', id=f"answer-{number}_q1"), f"answer-{number}_q1", solution=True
        )
    )
    check = new_code_cell(f'check("{number}_q1", answer_{number}_q1)', id=f"check-{number}_q1")
    cells.append(graded(check, f"{number}_q1", grade=True, locked=True, points=1))
    cells.append(new_markdown_cell(f"## {text} Why?", id="text-why"))
    written = new_markdown_cell(PLACEHOLDER[language], id=f"written-{number}_w1")
    cells.append(graded(written, f"{number}_w1", grade=True, solution=True, points=2))
    cells.append(new_markdown_cell(f"## {text} The end.", id="end"))
    course = {"lesson": lesson, "language": language, "release": "v0.1.0"}
    return new_notebook(cells=cells, metadata={"course": course})


LESSONS = {"02_qkv": ("attend", "project"), "03_sqrt_dk": ("scale", "spread")}


@pytest.fixture(scope="session")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lessons")
    for lesson, answers in LESSONS.items():
        for language in PLACEHOLDER:
            (root / language).mkdir(exist_ok=True)
            nbformat.write(release(lesson, language, answers), root / language / f"{lesson}.ipynb")
    return root


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    folder = tmp_path / "pile"
    folder.mkdir()
    return folder


def handed_in(lesson: str = "02_qkv", language: str = "en", student: str = "", answer: str = RIGHT) -> dict[str, Any]:
    """A notebook as plain JSON, solved, the student's id in the set-up cell if given."""
    notebook = json.loads(nbformat.writes(release(lesson, language, LESSONS[lesson])))
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for name in LESSONS[lesson]:
            if cell["id"] == f"answer-{name}":
                source = answer.format(name=name)
        if cell["id"].endswith("_q1") and cell["id"].startswith("answer"):
            source = source.replace('""', '"b"')
        if cell["id"].startswith("written"):
            source = "Because the variance grows with d_k."
        cell["source"] = source.replace('STUDENT_ID = ""', f'STUDENT_ID = "{student}"')
    return notebook


def cell_at(notebook: dict[str, Any], id: str) -> dict[str, Any]:
    return next(cell for cell in notebook["cells"] if cell.get("id") == id)


def place(notebook: dict[str, Any], id: str) -> int:
    return notebook["cells"].index(cell_at(notebook, id))


def code(source: str, **extra: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source, **extra}


def text(source: str, **extra: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **extra}


def stripped(notebook: dict[str, Any]) -> dict[str, Any]:
    """All metadata and ids gone, as some tools leave a notebook."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return {**notebook, "metadata": {}, "nbformat_minor": 0}


def put(path: Path, notebook: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def one(pile: Path, lessons: Path, notebook: dict[str, Any], name: str = "s1/02_qkv.ipynb") -> Submission:
    put(pile / name, notebook)
    rows = collect(pile, lessons)
    assert len(rows) == 1
    return rows[0]


def source_of(row: Submission, id: str) -> str:
    assert row.notebook is not None
    return next(cell.source for cell in row.notebook.cells if cell.id == id)


def own(row: Submission) -> list[str]:
    assert row.notebook is not None
    return [cell.source for cell in row.notebook.cells if cell.metadata.get("tags") == ["student"]]


def order(row: Submission) -> list[str]:
    assert row.notebook is not None
    return [cell.id for cell in row.notebook.cells]


def zipped(
    path: Path, members: dict[str, bytes | dict[str, Any]], date: tuple[int, ...] = (2026, 3, 1, 12, 0, 0)
) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            archive.writestr(zipfile.ZipInfo(name, date), data, zipfile.ZIP_DEFLATED)  # type: ignore[arg-type]
    return path


def legacy_zip(path: Path, encoding: str, members: dict[str, bytes]) -> Path:
    """A zip whose names are in an old encoding and do not say so."""
    stand_ins = {
        name: "".join(chr(ord("a") + n) * len(name.encode(encoding)) for n in [i]) for i, name in enumerate(members)
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(stand_ins[name], data)
    data = buffer.getvalue()
    for name, stand_in in stand_ins.items():
        data = data.replace(stand_in.encode(), name.encode(encoding))
    path.write_bytes(data)
    return path


# --- an ordinary submission -------------------------------------------------------------------------------------------


def test_an_ordinary_submission_is_ok_and_complete(pile: Path, lessons: Path) -> None:
    row = one(pile, lessons, handed_in())
    assert (row.status, row.student_id, row.lesson, row.language, row.release) == ("ok", "s1", "02_qkv", "en", "v0.1.0")
    assert row.reason == "Read as handed in."
    assert row.source == "s1/02_qkv.ipynb"
    assert source_of(row, "answer-attend") == RIGHT.format(name="attend")
    assert source_of(row, "answer-02_q1") == 'answer_02_q1 = "b"'
    assert source_of(row, "written-02_w1") == "Because the variance grows with d_k."
    assert own(row) == []
    frame = release("02_qkv", "en", LESSONS["02_qkv"])
    assert order(row) == [cell.id for cell in frame.cells]
    assert row.notebook is not None
    nbformat.validate(row.notebook)


def test_a_blank_submission_keeps_the_stubs(pile: Path, lessons: Path) -> None:
    row = one(pile, lessons, json.loads(nbformat.writes(release("02_qkv", "en", LESSONS["02_qkv"]))))
    assert row.status == "ok"
    assert source_of(row, "answer-attend") == STUB.format(name="attend")
    assert own(row) == []


def test_outputs_are_cleared_and_points_are_the_release_s(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "check-attend")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "3 of 3"}]
    cell_at(notebook, "check-attend")["metadata"]["nbgrader"]["points"] = 300
    row = one(pile, lessons, notebook)
    assert row.notebook is not None
    assert all(
        cell.outputs == [] and cell.execution_count is None for cell in row.notebook.cells if cell.cell_type == "code"
    )
    check = next(cell for cell in row.notebook.cells if cell.id == "check-attend")
    assert check.metadata.nbgrader.points == 3
    assert (row.status, "given other points" in row.reason) == ("repaired", True)


@pytest.mark.parametrize("sevens, told", [(1, True), (3, True), (4, False), (8, False)])
def test_points_of_an_earlier_build_are_no_repair(pile: Path, lessons: Path, sevens: int, told: bool) -> None:
    """Eight files: what one has, or less than half, somebody has changed; what half of them have, the course has."""
    for number in range(8):
        notebook = handed_in()
        cell_at(notebook, "check-attend")["metadata"]["nbgrader"]["points"] = 7 if number < sevens else 3
        put(pile / f"{number}.ipynb", notebook)
    rows = collect(pile, lessons)
    expected = ["repaired" if told and number < sevens else "ok" for number in range(8)]
    assert [row.status for row in rows] == expected
    assert all(("given other points" in row.reason) == (row.status == "repaired") for row in rows)


def test_points_of_another_release_are_no_repair(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "check-attend")["metadata"]["nbgrader"]["points"] = 7
    notebook["metadata"]["course"]["release"] = "v0.0.9"
    row = one(pile, lessons, notebook)
    assert row.status == "ok" and "points" not in row.reason and "v0.0.9" in row.reason


# --- containers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "student", "name"),
    [
        ("王小明_123456_assignsubmission_file_/02_qkv.ipynb", "123456", "王小明"),
        ("王小明_123456_assignsubmission_file/x.ipynb", "123456", "王小明"),
        ("王小明_123456_assignsubmission_file_x.ipynb", "123456", "王小明"),
        ("王小明_123456/x.ipynb", "123456", "王小明"),
        ("Group A-Ann Lee_4231_assignsubmission_file_/work/x.ipynb", "4231", "Group A-Ann Lee"),
        ("wangxiaoming_12345_67890_02_qkv.ipynb", "12345", "wangxiaoming"),
        ("王小明_LATE_12345_67890_Copy of 02_qkv-1.ipynb", "12345", "王小明"),
        ("lee_12345_67890_work.zip/02_qkv.ipynb", "12345", "lee"),
        ("s1/02_qkv.ipynb", "s1", "s1"),
        ("submissions/02_qkv/王小明/x.ipynb", "王小明", "王小明"),
        ("submitted/b123/02_qkv/02_qkv.ipynb", "b123", "b123"),
        ("王小明 - 02_qkv.ipynb", "王小明", "王小明"),
        ("Classroom/02_qkv/王小明 - Copy of 02_qkv.ipynb", "王小明", "王小明"),
        ("「02_qkv_b123456.ipynb」的副本", "b123456", "b123456"),
        ("02_qkv (1).ipynb", "unknown-1", "unknown-1"),
    ],
)
def test_the_student_is_found_in_the_path(tmp_path: Path, lessons: Path, path: str, student: str, name: str) -> None:
    inner, _, rest = path.partition(".zip/")
    if rest:
        content = zipped(tmp_path / "inner.zip", {rest: handed_in()}).read_bytes()
        file = zipped(tmp_path / "pile.zip", {f"{inner}.zip": content})
    else:
        file = zipped(tmp_path / "pile.zip", {path: handed_in()})
    (row,) = collect(file, lessons)
    assert (row.student_id, row.student_name, row.status) == (student, name, "ok")
    assert row.source == path
    assert row.received == datetime(2026, 3, 1, 12)


# A student chooses the name of a file, and of what lies in a zip or folder handed in: {path: whose it is}.
NAMES_THAT_PRETEND = {
    "Canvas": {"eve_99999_700002_x_12345_assign_.ipynb": "99999", "vic_12345_700001_02_qkv.ipynb": "12345"},
    "Canvas, zips": {
        "eve_99999_700002_work.zip/x_12345_assign_/a.ipynb": "99999",
        "fay_88888_700003_x_12345_assign_.zip/a.ipynb": "88888",
        "vic_12345_700001_02_qkv.ipynb": "12345",
    },
    "Canvas with short numbers": {"eve_99_70_x_12345_assign_.ipynb": "eve_99_70_x_12345_assign"},
    "Moodle": {
        "Eve_99_assignsubmission_file_/x_12345_700002_02_qkv.ipynb": "99",
        "Fay_98_assignsubmission_file_/x_12345_assignsubmission_file_/a.ipynb": "98",
        "x_12345_assign_97_assignsubmission_file_/a.ipynb": "97",  # somebody is called that
        "Vic_12345_assignsubmission_file_/a.ipynb": "12345",
    },
    "Moodle, all in one folder": {
        "Eve_99_assignsubmission_file_x_12345_700002_a.ipynb": "99",
        "Fay_98_assignsubmission_file_x_12345_assignsubmission_file_.ipynb": "98",
        "Vic_12345_assignsubmission_file_a.ipynb": "12345",
    },
    "folders": {
        "Eve_41100009/x_41100003_assign_.ipynb": "41100009",
        "Fay_41100008/x_41100003_700002_02_qkv.ipynb": "41100008",
        "Gus_41100007/x_41100003_assignsubmission_file_/a.ipynb": "41100007",
        "Hal/x_41100003_assign_.ipynb": "Hal",
        "Vic_41100003/a.ipynb": "41100003",
    },
    "folders in a folder": {
        "hw1/Eve_41100009/x_41100003_assign_.ipynb": "41100009",
        "hw1/Vic_41100003/a.ipynb": "41100003",
    },
    "one folder": {"Eve_41100009/x_41100003_assign_.ipynb": "41100009"},
    "one folder called after an id": {"b41100009/x_41100003_700002_a.ipynb": "b41100009"},
    "zips": {"41100009.zip/x_41100003_assign_/a.ipynb": "41100009", "41100003.zip/a.ipynb": "41100003"},
}


@pytest.mark.hostile
@pytest.mark.parametrize("paths", NAMES_THAT_PRETEND.values(), ids=NAMES_THAT_PRETEND.keys())
def test_a_name_that_a_student_chose_takes_nobody_s_place(tmp_path: Path, lessons: Path, paths: dict[str, str]) -> None:
    members: dict[str, Any] = {}
    for path in paths:
        outer, _, inner = path.partition(".zip/")
        packed = zipped(tmp_path / "inner.zip", {inner: handed_in()}).read_bytes() if inner else handed_in()
        members[f"{outer}.zip" if inner else path] = packed
    rows = collect(zipped(tmp_path / "pile.zip", members), lessons)
    assert {row.source: row.student_id for row in rows} == paths
    assert all(row.status == "ok" for row in rows)


@pytest.mark.parametrize(
    "wrapper", ["", "export/", "CS101 HW1-123456/", "submissions_20260310/", "hw1/02_qkv/", "CS101 HW1-1.zip/"]
)
def test_what_holds_the_whole_class_is_looked_through(tmp_path: Path, pile: Path, lessons: Path, wrapper: str) -> None:
    names = {"王小明_123_assignsubmission_file_/a.ipynb": "123", "Lee_124_assignsubmission_file_/b/a.ipynb": "124"}
    if wrapper.endswith(".zip/"):
        zipped(pile / wrapper[:-1], {name: handed_in() for name in names})
    else:
        zipfile.ZipFile(zipped(tmp_path / "x.zip", {wrapper + n: handed_in() for n in names})).extractall(pile)
    rows = collect(pile, lessons)
    assert {row.source: (row.student_id, row.platform) for row in rows} == {
        wrapper + name: (student, "moodle") for name, student in names.items()
    }


def test_exports_of_two_assignments_side_by_side(pile: Path, lessons: Path) -> None:
    """Their members keep the dates that Moodle gave them; a worksheet beside them is no student."""
    zipped(pile / "CS101 QKV-7.zip", {"Lee_1_assignsubmission_file_/a.ipynb": handed_in()})
    zipped(pile / "CS101 Scale-8.zip", {"Lee_22_assignsubmission_file_/a.ipynb": handed_in("03_sqrt_dk")})
    (pile / "worksheet.csv").write_text("Identifier")
    rows = [row for row in collect(pile, lessons) if row.notebook is not None]
    assert [(row.student_id, row.lesson, row.received) for row in rows] == [
        ("1", "02_qkv", datetime(2026, 3, 1, 12)), ("22", "03_sqrt_dk", datetime(2026, 3, 1, 12)),
    ]  # fmt: skip


def test_a_class_in_folders(pile: Path, lessons: Path) -> None:
    for student in ("ann", "bob"):
        put(pile / "export" / student / "02_qkv.ipynb", handed_in())
        put(pile / "export" / student / "deep" / "03_sqrt_dk.ipynb", handed_in("03_sqrt_dk"))
    put(pile / "export" / "carl" / "x.ipynb", handed_in(student="b333"))
    rows = collect(pile, lessons)
    assert [(row.student_id, row.lesson) for row in rows] == [
        ("ann", "02_qkv"),
        ("ann", "03_sqrt_dk"),
        ("b333", "02_qkv"),
        ("bob", "02_qkv"),
        ("bob", "03_sqrt_dk"),
    ]


@pytest.mark.parametrize(
    ("folder", "student", "name"),
    [
        ("B11901003 陳大文", "B11901003", "陳大文"),
        ("陳大文 B11901003", "B11901003", "陳大文"),
        ("B11901003-陳大文", "B11901003", "陳大文"),
        ("B11901003陳大文", "B11901003", "陳大文"),
        ("陳大文（B11901003）", "B11901003", "陳大文"),
        ("陳大文_B11901003_HW3", "B11901003", "陳大文"),
        ("Ｂ１１９０１００３ 陳大文", "B11901003", "陳大文"),
        ("410912001 Ann Lee", "410912001", "Ann Lee"),
        ("R09H41005-final", "R09H41005", "Typed"),
        ("b11901003", "b11901003", "Typed"),
        ("陳大文", "b11901003", "Typed"),  # no number: the typed one
        ("CS1010 陳大文", "CS1010_陳大文", "Typed"),
        ("陳大文 20260305", "b11901003", "Typed"),  # a date is no number
        ("陳大文_0912345678", "b11901003", "Typed"),  # nor is a telephone's
        ("B11901003 B11901004", "B11901003_B11901004", "Typed"),
    ],
)
def test_the_id_in_a_folder_s_name(pile: Path, lessons: Path, folder: str, student: str, name: str) -> None:
    notebook = handed_in(student="b11901003")
    cell_at(notebook, "setup")["source"] = cell_at(notebook, "setup")["source"].replace('NAME = ""', 'NAME = "Typed"')
    put(pile / folder / "02_qkv.ipynb", notebook)
    put(pile / "zoe" / "02_qkv.ipynb", handed_in())
    row = next(row for row in collect(pile, lessons) if row.student_id != "zoe")
    assert (row.student_id, row.student_name, row.notebook_id) == (student, name, "b11901003")


def test_the_id_in_a_file_s_name_and_a_name_without_its_ending(pile: Path, lessons: Path) -> None:
    put(pile / "B11901003_陳大文_02_qkv.ipynb", handed_in())
    (pile / "林志豪.pdf").write_bytes(b"x")
    assert [(row.student_id, row.student_name) for row in collect(pile, lessons)] == [
        ("B11901003", "陳大文"), ("林志豪", "林志豪"),
    ]  # fmt: skip


def test_an_id_typed_under_another_name_takes_no_folder_s_id(pile: Path, lessons: Path) -> None:
    put(pile / "陳大文 B11901003" / "02_qkv.ipynb", handed_in())
    put(pile / "Eve" / "02_qkv.ipynb", handed_in(student="b11901003"))
    assert {(row.student_id, row.status) for row in collect(pile, lessons)} == {("B11901003", "ok"), ("Eve", "ok")}


def test_an_id_typed_in_two_folders_is_nobodys_and_a_folder_with_an_id_keeps_it(pile: Path, lessons: Path) -> None:
    put(pile / "ann" / "02_qkv.ipynb", handed_in(student="b111"))
    put(pile / "bob" / "02_qkv.ipynb", handed_in(student="b111"))
    put(pile / "410912001" / "02_qkv.ipynb", handed_in(student="b222"))
    rows = collect(pile, lessons)
    assert [(row.student_id, row.notebook_id) for row in rows] == [
        ("410912001", "b222"),
        ("ann", "b111"),
        ("bob", "b111"),
    ]


def test_flat_files_take_the_id_in_the_notebook_then_the_file_name_then_unknown(pile: Path, lessons: Path) -> None:
    put(pile / "hw/mine.ipynb", handed_in(student="b111"))
    put(pile / "hw/02_qkv.ipynb", handed_in(student="b222"))
    put(pile / "hw/02_qkv_carl.ipynb", handed_in())
    put(pile / "hw/Copy of 02_qkv.ipynb", handed_in())
    put(pile / "hw/02_qkv (1).ipynb", handed_in())
    rows = {row.source: row for row in collect(pile, lessons)}
    found = {source.removeprefix("hw/"): row.student_id for source, row in rows.items()}
    assert found == {
        "mine.ipynb": "b111",
        "02_qkv.ipynb": "b222",
        "02_qkv_carl.ipynb": "carl",
        "02_qkv (1).ipynb": "unknown-1",
        "Copy of 02_qkv.ipynb": "unknown-2",
    }
    assert "taken from the file name" in rows["hw/02_qkv_carl.ipynb"].reason
    assert "No student id" in rows["hw/02_qkv (1).ipynb"].reason
    assert all(row.status == "ok" for row in rows.values())


def test_a_stray_file_is_nobody_s(pile: Path, lessons: Path) -> None:
    """What is no notebook and names neither a lesson nor a number, beside the files of a class; all else is somebody's."""
    put(pile / "hw/ann.ipynb", handed_in(student="b111"))
    put(pile / "hw/bo.ipynb", handed_in(student="b222"))
    put(pile / "hw/carl.ipynb", handed_in())
    stray = ["名單說明.docx", "readme.txt", "hw1.pdf", "grades 2026.xlsx", "20260301.docx", "list.csv"]
    theirs = [
        "B11901003.docx",
        "陳大文 B11901004.pdf",
        "s123.docx",
        "02_qkv.docx",
        "carl.docx",
        "dana.zip",
        "eve.ipynb",
        "fay.ipynb.txt",
    ]
    for name in stray + theirs:
        (pile / "hw" / name).write_bytes(b"?")
    (pile / "hw" / "gus").mkdir()
    (pile / "hw" / "gus" / "answer.docx").write_bytes(b"?")
    rows = {row.source.removeprefix("hw/"): row for row in collect(pile, lessons)}
    assert {name for name, row in rows.items() if names_nobody_known(row)} == {*stray}
    assert rows["名單說明.docx"].reason == "It is a .docx file, not a notebook; a file of nobody known."
    assert rows["carl.docx"].reason.endswith("student taken from the file name.")
    assert {rows[name].status for name in stray + theirs} == {"unreadable"}


@pytest.mark.parametrize(
    ("source", "student"),
    [
        ('STUDENT_ID = "B11-22"  # @param {type:"string"}', "B11-22"),
        ("STUDENT_ID: str = 'b1'", "b1"),
        ("STUDENT_ID = 1122334", "1122334"),
        ('%cd /content\nSTUDENT_ID = "b3"', "b3"),
        ('STUDENT_ID = "b4\nprint(', "b4"),
        ('STUDENT_ID = "Ｂ５"', "B5"),
        ('STUDENT_ID = "a" + __import__("os").getcwd()', "unknown-1"),
    ],
)
def test_the_student_id_is_read_from_text(pile: Path, lessons: Path, source: str, student: str) -> None:
    notebook = stripped(handed_in())
    notebook["cells"][1] = code(source)
    assert one(pile, lessons, notebook, "02_qkv.ipynb").student_id == student


def test_an_id_in_a_text_cell(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"].insert(0, text("**學號**：b0990123\n姓名：王小明"))
    assert one(pile, lessons, notebook, "02_qkv.ipynb").student_id == "b0990123"


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("../../etc", "etc"),
        (".hidden", "hidden"),
        ("a/b\\c", "a_b_c"),
        ("a+b*?[x]", "a_b_x"),
        ("王 小明", "王_小明"),
        ("-rf", "rf"),
        ("a,b\n", "a_b"),
        ("x" * 300, "x" * 80),
    ],
)
def test_ids_are_safe_folder_names(raw: str, safe: str) -> None:
    assert safe_id(raw) == safe


def test_ids_that_look_alike_once_safe_stay_two_students(pile: Path, lessons: Path) -> None:
    put(pile / "a+b" / "x.ipynb", handed_in())
    put(pile / "a b" / "x.ipynb", handed_in())
    assert [(row.student_id, row.status) for row in collect(pile, lessons)] == [("a_b", "ok"), ("a_b-2", "ok")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("02_qkv.ipynb", ("02_qkv", False, 0)),
        ("Copy of 02_qkv.ipynb", ("02_qkv", True, 0)),
        ("Copy of Copy of 02_qkv.ipynb", ("02_qkv", True, 0)),
        ("02_qkv (1).ipynb", ("02_qkv", True, 1)),
        ("02_qkv（3）.ipynb", ("02_qkv", True, 3)),
        ("「02_qkv.ipynb」的副本", ("02_qkv", True, 0)),
        ("「02_qkv.ipynb」的副本 (2).ipynb", ("02_qkv", True, 2)),
        ("02_qkv 的副本.ipynb", ("02_qkv", True, 0)),
        ("02_qkv - 副本.ipynb", ("02_qkv", True, 0)),
        ("副本 02_qkv.ipynb", ("02_qkv", True, 0)),
        ("02_qkv - Copy.ipynb", ("02_qkv", True, 0)),
        ("02_qkv - Copy (4).ipynb", ("02_qkv", True, 4)),
        ("02_qkv-Copy2.ipynb", ("02_qkv", True, 2)),
        ("02_qkv.ipynb.txt", ("02_qkv", False, 0)),
    ],
)
def test_copies_are_recognised(name: str, expected: tuple[str, bool, int]) -> None:
    assert copy_of(name) == expected


@pytest.mark.parametrize(
    "name", ["Copy of 02_qkv.ipynb", "「02_qkv.ipynb」的副本", "02_qkv.ipynb.txt", "02_qkv (1).ipynb", "x", "x.json"]
)
def test_notebooks_under_any_name(pile: Path, lessons: Path, name: str) -> None:
    assert one(pile, lessons, handed_in(), f"s1/{name}").status == "ok"


def test_names_in_big5_utf8_and_with_backslash_bytes(tmp_path: Path, lessons: Path) -> None:
    data = json.dumps(handed_in()).encode()
    for encoding in ("cp950", "utf-8"):
        file = legacy_zip(tmp_path / "pile.zip", encoding, {"許功蓋_4321_assignsubmission_file_/作業.ipynb": data})
        (row,) = collect(file, lessons)
        assert (row.student_id, row.student_name) == ("4321", "許功蓋")
        assert row.source == "許功蓋_4321_assignsubmission_file_/作業.ipynb"


def test_windows_paths_in_a_zip(tmp_path: Path, lessons: Path) -> None:
    (row,) = collect(zipped(tmp_path / "p.zip", {"hw\\s7\\02_qkv.ipynb": handed_in()}), lessons)
    assert (row.student_id, row.source) == ("s7", "hw/s7/02_qkv.ipynb")


def test_names_from_macos_are_composed(tmp_path: Path, lessons: Path) -> None:
    (row,) = collect(zipped(tmp_path / "p.zip", {"Jose\u0301/02_qkv.ipynb": handed_in()}), lessons)
    assert row.student_id == "José"


def test_litter_is_ignored(tmp_path: Path, pile: Path, lessons: Path) -> None:
    litter = [
        "__MACOSX/s1/._02_qkv.ipynb",
        "s1/.DS_Store",
        "s1/.ipynb_checkpoints/02_qkv-checkpoint.ipynb",
        "s1/Thumbs.db",
    ]
    members: dict[str, Any] = {name: b"\0\5\7" for name in litter} | {"s1/02_qkv.ipynb": handed_in()}
    assert [row.status for row in collect(zipped(tmp_path / "p.zip", members), lessons)] == ["ok"]
    for name in litter:
        (pile / name).parent.mkdir(parents=True, exist_ok=True)
        (pile / name).write_bytes(b"junk")
    assert one(pile, lessons, handed_in()).status == "ok"


def test_zip_in_zip_and_zips_in_a_folder(tmp_path: Path, pile: Path, lessons: Path) -> None:
    inner = zipped(tmp_path / "a.zip", {"02_qkv.ipynb": handed_in()}).read_bytes()
    middle = zipped(tmp_path / "b.zip", {"work.zip": inner}).read_bytes()
    (pile / "s1.zip").write_bytes(inner)
    (pile / "s2.zip").write_bytes(middle)
    rows = collect(pile, lessons)
    assert [(row.student_id, row.status, row.source) for row in rows] == [
        ("s1", "ok", "s1.zip/02_qkv.ipynb"),
        ("s2", "ok", "s2.zip/work.zip/02_qkv.ipynb"),
    ]


# --- piles and files that cannot be read --------------------------------------------------------------------------------


def test_a_pile_that_is_none_is_one_line(tmp_path: Path, pile: Path, lessons: Path) -> None:
    (tmp_path / "no.zip").write_text("hello")
    zipped(tmp_path / "empty.zip", {})
    (tmp_path / "cut.zip").write_bytes(zipped(tmp_path / "w.zip", {"s1/x.ipynb": handed_in()}).read_bytes()[:-30])
    for path, words in {
        tmp_path / "no.zip": "neither a folder nor a zip",
        tmp_path / "cut.zip": "neither a folder nor a zip",
        tmp_path / "empty.zip": "holds no files",
        pile: "holds no files",
        tmp_path / "nowhere": "does not exist",
    }.items():
        with pytest.raises(CollectError, match=words) as caught:
            collect(path, lessons)
        assert "\n" not in str(caught.value)
    put(pile / "s1" / "x.ipynb", handed_in())
    with pytest.raises(CollectError, match="no released notebooks"):
        collect(pile, tmp_path)


WHOLE = json.dumps(handed_in())
DEEP = WHOLE.replace('"metadata": {}', '"metadata": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}", 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\0" * 500, "empty"),
        (b"<!DOCTYPE html><html><title>Google Drive - Quota exceeded</title>", "web page"),
        (WHOLE[: len(WHOLE) // 2].encode(), "JSON ends too early"),
        (WHOLE.replace(":", ";", 1).encode(), "JSON is damaged"),
        (b"[1, 2]", "not a notebook"),
        (b'{"cells": 3, "nbformat": 4}', "not a notebook"),
        (b"PK\x03\x04 and more", "zip file under the name"),
        (DEEP.encode(), "nested too deeply"),
        (WHOLE.replace('"nbformat": 4', '"nbformat": ' + "9" * 5000, 1).encode(), "number"),
        (b"\xff" * 400, "JSON"),
    ],
)
def test_an_unreadable_file_is_a_row_and_the_others_are_graded(
    pile: Path, lessons: Path, data: bytes, words: str
) -> None:
    (pile / "s1").mkdir()
    (pile / "s1" / "02_qkv.ipynb").write_bytes(data)
    put(pile / "s2" / "02_qkv.ipynb", handed_in())
    bad, good = collect(pile, lessons)
    assert (bad.status, bad.student_id, bad.lesson, bad.notebook) == ("unreadable", "s1", "02_qkv", None)
    assert words in bad.reason
    assert bad.reason.endswith(".") and "\n" not in bad.reason
    assert good.status == "ok"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp950"])
def test_encodings(pile: Path, lessons: Path, encoding: str) -> None:
    notebook = handed_in(language="zh-TW")
    cell_at(notebook, "written-02_w1")["source"] = "因為變異數隨著維度成長"
    (pile / "s1").mkdir()
    (pile / "s1" / "x.ipynb").write_bytes(json.dumps(notebook, ensure_ascii=False).encode(encoding))
    (row,) = collect(pile, lessons)
    assert (row.status, row.language) == ("ok", "zh-TW")
    assert source_of(row, "written-02_w1") == "因為變異數隨著維度成長"


def test_other_files_are_rows_too(pile: Path, lessons: Path) -> None:
    put(pile / "s1" / "02_qkv.ipynb", handed_in())
    for name in ("report.pdf", "data.csv", "work.rar", "notes.txt", "page.html", "broken.zip"):
        (pile / "s1" / name).write_bytes(b"hello")
    rows = collect(pile, lessons)
    assert {row.student_id for row in rows} == {"s1"}
    reasons = {row.source.split("/")[1]: (row.status, row.reason) for row in rows}
    assert reasons.pop("02_qkv.ipynb")[0] == "ok"
    assert {status for status, _ in reasons.values()} == {"unreadable"}
    assert reasons["report.pdf"][1] == "It is a .pdf file, not a notebook."
    assert ".rar archive" in reasons["work.rar"][1]
    assert "not a zip file" in reasons["broken.zip"][1]
    assert len(reasons) == 6


def test_a_pdf_belongs_to_the_lesson_of_the_pile(tmp_path: Path, pile: Path, lessons: Path) -> None:
    """The one lesson that the others are for; where there are two, the one that the zip is called after."""
    members: dict[str, Any] = {f"s{n}_{n}_assignsubmission_file_/x.ipynb": handed_in("03_sqrt_dk") for n in (1, 2, 3)}
    members["s4_4_assignsubmission_file_/report.pdf"] = b"x"
    members["s5_5_assignsubmission_onlinetext_/onlinetext.html"] = b"<p>I am done.</p>"

    def unread(name: str) -> set[tuple[str, str | None]]:
        rows = collect(zipped(tmp_path / name, members), lessons)
        return {(row.student_id, row.lesson) for row in rows if row.status == "unreadable"}

    assert unread("export.zip") == {("4", "03_sqrt_dk"), ("5", "03_sqrt_dk")}
    members["s6_6_assignsubmission_file_/x.ipynb"] = handed_in("02_qkv")  # one by mistake
    assert unread("export.zip") == {("4", "03_sqrt_dk"), ("5", "03_sqrt_dk")}
    members["s7_7_assignsubmission_file_/x.ipynb"] = handed_in("02_qkv")
    assert unread("export.zip") == {("4", None), ("5", None)}
    assert unread("CS101-02_qkv-123.zip") == {("4", "02_qkv"), ("5", "02_qkv")}


def test_numbers_and_characters_json_should_not_hold(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["metadata"]["x"] = [float("nan"), float("inf"), 10**400]
    cell_at(notebook, "written-02_w1")["source"] = "half \ud800 a pair\0"
    row = one(pile, lessons, notebook)
    assert row.status == "ok"
    assert source_of(row, "written-02_w1") == "half ? a pair"
    assert row.notebook is not None
    nbformat.writes(row.notebook).encode()


@pytest.mark.parametrize(
    "cells",
    [
        [None, 3, "x", [], {}],
        [{"cell_type": ["code"], "source": {"a": 1}, "metadata": 7, "id": 9, "attachments": [1]}],
        [{"cell_type": "code", "source": [1, None, "x = 1"], "metadata": {"nbgrader": [], "id": {}}}],
        [code("x = " + "(" * 5000), code("-" * 50_000 + "1"), code("x = " + "+".join(["1"] * 50_000)), code("\\")],
        [code("a.b" + ".c" * 40_000 + "\ndef attend(q, k, v):\n    return q")],
    ],
)
def test_cells_of_any_shape_do_not_raise(pile: Path, lessons: Path, cells: list[Any]) -> None:
    notebook = handed_in()
    notebook["cells"] += cells
    row = one(pile, lessons, notebook)
    assert row.status in {"ok", "repaired"}
    assert row.notebook is not None
    nbformat.validate(row.notebook)


def test_too_many_cells(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"] += [code("x = 1")] * CELL_LIMIT
    assert "cells" in one(pile, lessons, notebook).reason


def test_an_unknown_lesson_is_a_row(pile: Path, lessons: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell("x = 1")], metadata={"course": {"lesson": "99_moon"}})
    row = one(pile, lessons, json.loads(nbformat.writes(notebook)), "s1/x.ipynb")
    assert (row.status, row.lesson, row.notebook) == ("unknown lesson", None, None)
    assert '"99_moon"' in row.reason
    other = one(pile, lessons, json.loads(nbformat.writes(new_notebook(cells=[]))), "s1/x.ipynb")
    assert other.reason == "It fits no released lesson."


# --- archives with bad intent ---------------------------------------------------------------------------------------------


@pytest.mark.hostile
def test_a_name_of_thousands_of_blanks_is_read_at_once(pile: Path, lessons: Path) -> None:
    """The patterns for copies once took minutes over it."""
    names = ["02_toy" + " " * 3000 + "b.ipynb", "02_toy" + "_ " * 2000 + "copy1b.ipynb"]
    with zipfile.ZipFile(pile / "class.zip", "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(f"s{number}/{name}", json.dumps(handed_in()))
    assert [row.status for row in collect(pile, lessons)] == ["ok", "ok"]


@pytest.mark.hostile
def test_paths_out_of_the_archive_and_links_are_refused(tmp_path: Path, lessons: Path) -> None:
    link = zipfile.ZipInfo("s3/02_qkv.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = zipped(
        tmp_path / "p.zip",
        {
            "../../s1/x.ipynb": handed_in(),
            "/s2/x.ipynb": handed_in(),
            "C:\\s4\\x.ipynb": handed_in(),
            "s5/x.ipynb": handed_in(),
        },
    )
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    rows = {row.source: row for row in collect(file, lessons)}
    assert rows.pop("s5/x.ipynb").status == "ok"
    assert {row.status for row in rows.values()} == {"unreadable"}
    assert "symbolic link" in rows.pop("s3/02_qkv.ipynb").reason
    assert len(rows) == 3
    assert all("leads out" in row.reason for row in rows.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.zip"]


@pytest.mark.hostile
def test_links_and_pipes_in_a_folder_are_refused(tmp_path: Path, pile: Path, lessons: Path) -> None:
    secret = put(tmp_path / "secret" / "02_qkv.ipynb", handed_in())
    put(pile / "s0" / "02_qkv.ipynb", handed_in())
    for student in ("s1", "s2", "s3"):
        (pile / student).mkdir()
    (pile / "s1" / "02_qkv.ipynb").symlink_to(secret)
    (pile / "s2" / "folder").symlink_to(secret.parent)
    os.mkfifo(pile / "s3" / "02_qkv.ipynb")
    reasons = [row.reason for row in collect(pile, lessons)]
    assert reasons[1:] == ["It is a symbolic link.", "It is a symbolic link.", "It is not a regular file."]


@pytest.mark.hostile
def test_bombs_cost_only_their_own_row(tmp_path: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pile_module, "FILE_LIMIT", 3 * 2**20)
    monkeypatch.setattr(pile_module, "NESTED_LIMIT", 5 * 2**20)
    zeros = b"0" * (2 * 2**20)
    inner = zipped(tmp_path / "i.zip", {f"{n}.ipynb": zeros for n in range(9)}).read_bytes()
    deep = inner
    for _ in range(4):
        deep = zipped(tmp_path / "d.zip", {"next.zip": deep}).read_bytes()
    file = zipped(
        tmp_path / "p.zip",
        {"s1/big.ipynb": zeros * 2, "s2/i.zip": inner, "s3/d.zip": deep, "s4/02_qkv.ipynb": handed_in()},
    )
    with zipfile.ZipFile(file, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("s5/tight.ipynb", b"0" * (2 * 2**20 + 1))
    rows = collect(file, lessons)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(row.student_id, []).append(row.reason)
    assert reasons["s1"] == ["It unpacks to more than 3 MB."]
    (limited,) = [reason for reason in reasons["s2"] if "more than the limit" in reason]
    assert limited.endswith("nor are 6 more files of its zip read.")
    assert "nested" in reasons["s3"][0]
    assert reasons["s4"] == ["Read as handed in."]
    assert "zip bomb" in reasons["s5"][0]


@pytest.mark.hostile
def test_the_total_limit_spares_the_small_files(pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pile_module, "TOTAL_LIMIT", 100_000)
    (pile / "a").mkdir()
    (pile / "a" / "huge.ipynb").write_text(" " * 99_000)
    put(pile / "b" / "02_qkv.ipynb", handed_in())
    huge, small = collect(pile, lessons)
    assert ("more than" in huge.reason, small.status) == (True, "ok")


def test_members_that_are_locked_or_damaged(tmp_path: Path, lessons: Path) -> None:
    file = zipped(
        tmp_path / "p.zip",
        {"s1/02_qkv.ipynb": handed_in(), "s2/02_qkv.ipynb": handed_in(answer=WRONG), "s3/02_qkv.ipynb": handed_in()},
    )
    with zipfile.ZipFile(file) as archive:
        locked, damaged, _ = archive.infolist()
    data = bytearray(file.read_bytes())
    data[locked.header_offset + 6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    data[damaged.header_offset + 200] ^= 0xFF
    file.write_bytes(data)
    reasons = [row.reason for row in collect(file, lessons)]
    assert reasons[0] == "It is locked with a password."
    assert reasons[1].startswith("It is damaged inside the zip")
    assert reasons[2] == "Read as handed in."


# --- formats --------------------------------------------------------------------------------------------------------------


def as_colab(notebook: dict[str, Any]) -> dict[str, Any]:
    """nbformat 4.0: ids in the metadata, `widgets` without `state`, outputs kept."""
    for cell in notebook["cells"]:
        cell["metadata"] = {**cell["metadata"], "id": cell.pop("id"), "colab": {"base_uri": "x"}}
        cell["source"] = cell["source"].splitlines(keepends=True)
    metadata = {**notebook["metadata"], "colab": {"provenance": []}, "widgets": {"application/x": {"no": "state"}}}
    return {**notebook, "nbformat_minor": 0, "metadata": metadata}


def test_colab_rewrites(pile: Path, lessons: Path) -> None:
    row = one(pile, lessons, as_colab(handed_in()))
    assert (row.status, row.reason) == ("ok", "Read as handed in.")
    assert source_of(row, "answer-project") == RIGHT.format(name="project")


def test_colab_ids_without_nbgrader_metadata(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    for cell in notebook["cells"]:
        cell["metadata"].pop("nbgrader", None)
    row = one(pile, lessons, as_colab(notebook))
    assert (row.status, source_of(row, "answer-attend")) == ("ok", RIGHT.format(name="attend"))


def test_cells_without_ids(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    for cell in notebook["cells"]:
        del cell["id"]
    assert one(pile, lessons, notebook).status == "ok"


def test_nbformat_3(pile: Path, lessons: Path) -> None:
    cells = []
    for cell in handed_in()["cells"]:
        key = "input" if cell["cell_type"] == "code" else "source"
        cells.append(
            {"cell_type": cell["cell_type"], "metadata": cell["metadata"], key: cell["source"], "language": "python"}
        )
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}
    row = one(pile, lessons, old)
    assert (row.status, row.lesson) == ("ok", "02_qkv")
    assert source_of(row, "answer-attend") == RIGHT.format(name="attend")


def as_script(notebook: nbformat.NotebookNode, style: str) -> str:
    if style in ("percent", "light"):
        return str(jupytext.writes(notebook, fmt=f"py:{style}"))
    texts = {"nbconvert": lambda text: "# " + text.replace("\n", "\n# "), "Colab": lambda text: f'"""{text}\n"""'}[
        style
    ]
    mark = "# In[{}]:\n\n\n" if style == "nbconvert" else ""
    parts = [
        f"{mark.format(n)}{cell.source}\n" if cell.cell_type == "code" else texts(cell.source)
        for n, cell in enumerate(notebook.cells)
    ]
    return "#!/usr/bin/env python\n# coding: utf-8\n\n" + "\n\n".join(parts)


@pytest.mark.parametrize("style", ["nbconvert", "percent", "light"])
def test_a_script_export(pile: Path, lessons: Path, style: str) -> None:
    script = as_script(nbformat.from_dict(handed_in(student="b1")), style)
    (pile / "02_qkv.py").write_text(script, encoding="utf-8")
    (row,) = collect(pile, lessons)
    assert (row.student_id, row.lesson, row.status) == ("b1", "02_qkv", "ok" if style == "percent" else row.status)
    assert "script" in row.reason
    assert source_of(row, "answer-attend").rstrip() == RIGHT.format(name="attend")
    assert source_of(row, "answer-02_q1") == 'answer_02_q1 = "b"'


def test_a_script_of_one_block(pile: Path, lessons: Path) -> None:
    script = (
        "import torch\ndef attend(q, k, v):\n    return q\ndef project(q, k, v):\n    return k\nanswer_02_q1 = 'b'\n"
    )
    (pile / "s1").mkdir()
    (pile / "s1" / "02_qkv.py").write_text(script)
    (row,) = collect(pile, lessons)
    joined = "\n".join(cell.source for cell in row.notebook.cells if cell.cell_type == "code")  # type: ignore[union-attr]
    assert "NotImplementedError" not in joined
    assert joined.count("def attend") == joined.count("def project") == 1


def test_100_mb_of_outputs(tmp_path: Path, lessons: Path) -> None:
    notebook = handed_in()
    output = {"output_type": "stream", "name": "stdout", "text": ["x" * 999 + "\n"] * 1000}
    cell_at(notebook, "c-010")["outputs"] = [output] * 100
    file = zipped(tmp_path / "p.zip", {"s1/02_qkv.ipynb": notebook})
    (row,) = collect(file, lessons)
    assert row.status == "ok"


# --- lesson and language ----------------------------------------------------------------------------------------------------


def test_lesson_by_setup_file_name_then_content(pile: Path, lessons: Path) -> None:
    for where in ("setup", "name", "content"):
        notebook = stripped(handed_in("03_sqrt_dk", "zh-TW"))
        if where != "setup":
            del notebook["cells"][1]
        name = "homework.ipynb" if where != "name" else "Copy of 03-sqrt-dk (1).ipynb"
        put(pile / where / name, notebook)
    rows = collect(pile, lessons)
    assert [(row.student_id, row.lesson, row.language) for row in rows] == [
        ("content", "03_sqrt_dk", "zh-TW"),
        ("name", "03_sqrt_dk", "zh-TW"),
        ("setup", "03_sqrt_dk", "zh-TW"),
    ]


def test_the_frame_has_the_language_of_the_submission(pile: Path, lessons: Path) -> None:
    row = one(pile, lessons, handed_in(language="zh-TW"))
    assert "注意力" in source_of(row, "title")


# A course that has had three releases; one exercise came with the last of them, a written answer with the second.
HISTORY = {"v0.0.9": frozenset[str](), "v0.0.10": frozenset({"02_w1"}), "v0.1.0": frozenset({"project"})}


def test_an_older_release_is_said(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["metadata"]["course"]["release"] = "v0.0.9"
    notebook["cells"] = [cell for cell in notebook["cells"] if "project" not in cell["id"]]
    put(pile / "s1/02_qkv.ipynb", notebook)
    (row,) = collect(pile, lessons, HISTORY)
    assert "made from release v0.0.9, graded against v0.1.0" in row.reason
    assert "Answer cells missing: project" in row.reason
    assert source_of(row, "answer-project") == STUB.format(name="project")
    assert row.unscored == ("project",) and "not yet in that release and not scored: project" in row.reason


@pytest.mark.parametrize(
    ("release", "left", "unscored", "unknown"),
    [
        ("v0.0.9", ["answer-project"], ("02_w1",), False),  # a cell of it is there: it existed
        ("v0.0.9", ["check-project"], ("02_w1",), False),
        ("v0.0.9", ["written-02_w1"], ("project",), False),
        ("v0.0.9", [], ("project", "02_w1"), False),
        ("v0.0.10", [], ("project",), False),  # the written answer was deleted
        ("v0.1.0", [], (), False),  # deleted, not added since
        ("v0.0.1", [], (), True),  # there was no such release
        ("v0.0.8", [], (), True),
        ("v0.2.0", [], (), True),
        ("not a release", [], (), True),
        ("", [], (), False),
    ],
)
def test_only_what_came_after_an_older_release_is_not_scored(
    pile: Path, lessons: Path, release: str, left: list[str], unscored: tuple[str, ...], unknown: bool
) -> None:
    notebook = handed_in()
    notebook["metadata"]["course"]["release"] = release
    cell_at(notebook, "setup")["source"] = cell_at(notebook, "setup")["source"].replace('"v0.1.0"', f'"{release}"')
    gone = ("answer-project", "check-project", "text-project", "written-02_w1", "answer-attend", "check-attend")
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in gone or cell["id"] in left]
    put(pile / "s1/02_qkv.ipynb", notebook)
    (row,) = collect(pile, lessons, HISTORY)
    assert (row.unscored, row.unknown_release) == (unscored, unknown), "attend is as old as the course: always scored"
    assert ("the course has had no such release, so everything is scored" in row.reason) == unknown


def test_the_table_of_releases_is_that_of_the_course() -> None:
    """A new release needs its line, with what came into lessons that were there before."""
    releases, frames = load_releases(), load_frames(LESSONS_OF_THE_COURSE)
    root = LESSONS_OF_THE_COURSE.parent
    assert list(releases)[-1] == read_course(root).release
    known = {slot.label for languages in frames.values() for frame in languages.values() for slot in frame.slots}
    assert frozenset().union(*releases.values()) <= known
    assert not next(iter(releases.values())), "nothing is later than the first"
    assert came_later(sorted(known), "v0.0.1", releases) == ()


def test_widgets_without_state_and_cells_without_outputs(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["metadata"]["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {"abc": {"model_name": "IntSlider"}}
    }
    for cell in notebook["cells"]:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    row = one(pile, lessons, notebook)
    assert row.status == "ok" and source_of(row, "answer-attend") == RIGHT.format(name="attend")


# --- several files ------------------------------------------------------------------------------------------------------------


def test_the_newest_file_counts(tmp_path: Path, lessons: Path) -> None:
    file = tmp_path / "p.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name, day, answer in (("a.ipynb", 1, WRONG), ("b.ipynb", 9, RIGHT), ("c.ipynb", 5, WRONG)):
            archive.writestr(
                zipfile.ZipInfo(f"x_77_assignsubmission_file_/{name}", (2026, 3, day, 0, 0, 0)),
                json.dumps(handed_in(answer=answer)),
            )
    rows = collect(file, lessons)
    assert [row.status for row in rows] == ["superseded", "ok", "superseded"]
    assert rows[1].reason.endswith("the newest of 3 files of this student and lesson.")
    assert source_of(rows[1], "answer-attend") == RIGHT.format(name="attend")
    assert "b.ipynb is graded instead" in rows[0].reason
    assert rows[0].notebook is None


@pytest.mark.hostile
def test_no_zip_of_a_student_sets_the_date(tmp_path: Path, pile: Path, lessons: Path) -> None:
    """What lies in it came when it came, whatever its members say: 1999, nothing, or next year."""
    for date in ((1999, 1, 1, 0, 0, 0), (1980, 1, 1, 0, 0, 0), (2027, 1, 1, 0, 0, 0)):
        inner = zipped(tmp_path / "inner.zip", {"02_qkv.ipynb": handed_in(), "x.docx": b"x"}, date).read_bytes()
        middle = zipped(tmp_path / "middle.zip", {"work.zip": inner, "broken.zip": b"x"}, date).read_bytes()
        empty = zipped(tmp_path / "empty.zip", {}, date).read_bytes()
        members: dict[str, Any] = {
            "ann_1_assignsubmission_file_/work.zip": inner, "bob_2_assignsubmission_file_/work.zip": middle,
            "cat_3333_77777_work.zip": middle, "dan_4444_77777_work.zip": empty, "eve_5/work.zip": inner,
        }  # fmt: skip
        rows = collect(zipped(tmp_path / "p.zip", members), lessons)
        assert len(rows) == 11 and {row.received for row in rows} == {datetime(2026, 3, 1, 12)}
    for name in ("ann_1_assignsubmission_file_.zip", "b41100009.zip"):
        (pile / name).write_bytes(middle)
        os.utime(pile / name, (datetime(2026, 3, 2).timestamp(),) * 2)
    assert {row.received for row in collect(pile, lessons)} == {datetime(2026, 3, 2)}


@pytest.mark.parametrize(
    "files", [("張美麗 - 02_qkv.ipynb", "王小明 - 02_qkv.ipynb"), ("a/02_qkv.ipynb", "b/02_qkv.ipynb")]
)
@pytest.mark.parametrize("inside", ["", "HW3 繳交/"])
@pytest.mark.parametrize("beside", [False, True])
def test_the_zips_of_one_drive_folder_are_one_export(
    pile: Path, lessons: Path, files: tuple[str, str], inside: str, beside: bool
) -> None:
    """Their members keep their dates, also where the last zip holds one student's file only."""
    for n, name in enumerate(files, start=1):
        path = pile / f"HW3 繳交-20260330T063523Z-00{n}.zip"
        zipped(path, {inside + name: handed_in()}, (2026, 3, 20 + n, 20, 0, 0))
    if beside:
        (pile / "roster.csv").write_text("student_id")
    rows = [row for row in collect(pile, lessons) if row.status == "ok"]
    expected = [Path(name).parts[0].split(" - ")[0] for name in files]
    assert {row.student_id: row.received for row in rows} == {
        student: datetime(2026, 3, 20 + n, 20) for n, student in enumerate(expected, start=1)
    }


def test_in_a_zip_of_several_students_each_file_has_its_own_time(pile: Path, lessons: Path) -> None:
    """A student's own zip came when it came, whatever it is called. A class is in zips that hold most of those who handed in."""
    for number in (1, 2):
        names = [f"{name}{number}" for name in ("x", "y")]
        zipped(pile / f"export {number}.zip", {f"{n}.ipynb": handed_in(student=f"b1{n}") for n in names})
        os.utime(pile / f"export {number}.zip", (datetime(2026, 3, 2).timestamp(),) * 2)
    zipped(pile / "homework.zip", {"02_qkv.ipynb": handed_in(student="b77")})
    os.utime(pile / "homework.zip", (datetime(2026, 3, 2).timestamp(),) * 2)
    received = {row.student_id: row.received for row in collect(pile, lessons)}
    assert received.pop("b77") == datetime(2026, 3, 2)
    assert set(received.values()) == {datetime(2026, 3, 1, 12)} and len(received) == 4
    os.utime(put(pile / "late.ipynb", handed_in(student="b88")), (datetime(2026, 3, 2).timestamp(),) * 2)
    rows = collect(pile, lessons)
    assert [row.received for row in rows] == [datetime(2026, 3, 2)] * 6
    assert [row.student_id for row in rows if "the zip's own time counts" not in row.told] == ["b77", "b88"]


def test_a_late_file_beside_the_export_of_a_large_class_leaves_it_as_it_is(pile: Path, lessons: Path) -> None:
    zipped(pile / "HW3.zip", {f"02_qkv ({n}).ipynb": handed_in(student=f"b1190{n:04}") for n in range(45)})
    put(pile / "late.ipynb", handed_in(student="b88"))
    rows = [row for row in collect(pile, lessons) if row.student_id != "b88"]
    assert [(row.status, row.received) for row in rows] == [("ok", datetime(2026, 3, 1, 12))] * 45


@pytest.mark.hostile
def test_a_second_id_in_a_zip_makes_no_date_count(pile: Path, lessons: Path) -> None:
    """Beside others, and alone after the class; and no more notebooks of one id are run than of anybody's."""
    for number in range(12):
        put(pile / f"b{number}.ipynb", handed_in(student=f"b{number}"))
    before = collect(pile, lessons)
    zipped(pile / "hw.zip", {f"{n}.ipynb": handed_in(student="x" if n < 45 else f"x{n}") for n in range(60)})
    os.utime(pile / "hw.zip", (datetime(2026, 3, 9).timestamp(),) * 2)
    rows = [row for row in collect(pile, lessons) if row.hand == "hw.zip"]
    assert {row.received for row in rows} == {datetime(2026, 3, 9)}
    assert sum(row.status == "ok" for row in rows) == 16 and sum("too many" in row.reason for row in rows) == 5
    for number in range(12):
        (pile / f"b{number}.ipynb").unlink()
    zipped(pile / "hw.zip", {f"{n}.ipynb": handed_in(student=f"x{n}") for n in range(2)})
    os.utime(pile / "hw.zip", (datetime(2026, 3, 9).timestamp(),) * 2)
    assert {row.received for row in collect(pile, lessons, before=before)} == {datetime(2026, 3, 9)}


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["02_qkv.ipynb", "02_qkv (2).ipynb", "02_qkv (1).ipynb"], "02_qkv (2).ipynb"),
        (["02_qkv (10).ipynb", "02_qkv (9).ipynb"], "02_qkv (10).ipynb"),
        (["alpha.ipynb", "beta.ipynb"], "beta.ipynb"),
        (["02_qkv.ipynb", "z.py"], "02_qkv.ipynb"),
    ],
)
def test_without_dates_the_number_then_the_name_counts(
    tmp_path: Path, lessons: Path, names: list[str], newest: str
) -> None:
    script = b"def attend(q, k, v):\n    return q\n"
    content: dict[str, Any] = {
        f"x_77_assignsubmission_file_/{name}": script if name.endswith("py") else handed_in() for name in names
    }
    rows = collect(zipped(tmp_path / "p.zip", content, (1980, 1, 1, 0, 0, 0)), lessons)
    assert [row.source.split("/")[1] for row in rows if row.status == "ok"] == [newest]
    assert all(row.received is None for row in rows)


def test_canvas_numbers_repeated_uploads(tmp_path: Path, lessons: Path) -> None:
    content: dict[str, Any] = {
        f"lee_12345_6789{n}_02_qkv{suffix}.ipynb": handed_in() for n, suffix in enumerate(["", "-1"])
    }
    rows = collect(zipped(tmp_path / "p.zip", content), lessons)
    assert [row.source for row in rows if row.status == "ok"] == ["lee_12345_67891_02_qkv-1.ipynb"]


def test_what_canvas_marks_as_late_is_told(tmp_path: Path, lessons: Path) -> None:
    members = {"lee_LATE_12345_67891_02_qkv.ipynb": handed_in(), "wu_12346_67892_LATE_02_qkv.ipynb": handed_in()}
    rows = collect(zipped(tmp_path / "p.zip", members), lessons)
    assert {row.student_id: row.told for row in rows} == {
        "12345": "Read as handed in. Canvas marked it late.", "12346": "Read as handed in.",
    }  # fmt: skip


def test_ntu_cool_writes_the_student_number_before_the_name(tmp_path: Path, lessons: Path) -> None:
    name = "b12345678#_王小明_12345_678901_02_qkv.ipynb"
    (row,) = collect(zipped(tmp_path / "p.zip", {name: handed_in()}), lessons)
    assert (row.student_name, row.platform, row.status) == ("王小明", "canvas", "ok")
    assert "12345" in row.student_id and "b12345678" not in row.student_name


def test_two_languages_are_one_lesson(pile: Path, lessons: Path) -> None:
    old = put(pile / "s1" / "english.ipynb", handed_in())
    put(pile / "s1" / "chinese.ipynb", handed_in(language="zh-TW"))
    os.utime(old, (10**9, 10**9))
    put(pile / "s2" / "02_qkv.ipynb", handed_in())
    rows = collect(pile, lessons)
    assert [(row.language, row.status) for row in rows[:2]] == [("zh-TW", "ok"), ("en", "superseded")]


def test_an_unreadable_newer_file_does_not_supersede(pile: Path, lessons: Path) -> None:
    os.utime(put(pile / "s1" / "02_qkv.ipynb", handed_in()), (10**9, 10**9))
    (pile / "s1" / "02_qkv (1).ipynb").write_bytes(b"")
    assert [row.status for row in collect(pile, lessons)] == ["unreadable", "ok"]


# --- answers --------------------------------------------------------------------------------------------------------------------


def test_everything_stripped_and_reordered(pile: Path, lessons: Path) -> None:
    notebook = stripped(handed_in())
    notebook["cells"] = notebook["cells"][:4] + notebook["cells"][:3:-1]
    row = one(pile, lessons, notebook)
    assert row.status == "repaired"
    for name in LESSONS["02_qkv"]:
        assert source_of(row, f"answer-{name}") == RIGHT.format(name=name)
    assert source_of(row, "answer-02_q1") == 'answer_02_q1 = "b"'
    assert own(row) == []


def test_everything_stripped_in_order(pile: Path, lessons: Path) -> None:
    row = one(pile, lessons, stripped(handed_in()))
    assert source_of(row, "written-02_w1") == "Because the variance grows with d_k."
    assert own(row) == []
    assert "found by name or place" in row.reason


TRIES = [
    "attend = torch.softmax(q @ K.T, -1) @ V",
    "attend = q @ K.T\nprint(attend)",
    "for attend in range(3):\n    pass",
    "attend = [1, 2]",
    "with open('x') as attend:\n    pass",
]


@pytest.mark.parametrize("tried", TRIES)
def test_a_value_called_like_an_answer_is_no_newer_answer(pile: Path, lessons: Path, tried: str) -> None:
    notebook = handed_in()
    notebook["cells"].insert(place(notebook, "check-attend") + 1, code(tried))
    row = one(pile, lessons, notebook)
    assert row.status == "ok" and source_of(row, "answer-attend") == RIGHT.format(name="attend")
    assert own(row) == [tried]


CALLABLE = [
    "def better(q, K, V):\n    return q\nattend = better",
    "attend = lambda q, K, V: q",
    "def better(x, q, K, V):\n    return q\nattend = partial(better, 1)",
    "from mine import attend",
    "class attend:\n    def forward(self):\n        return 1",
]


@pytest.mark.parametrize("newer", CALLABLE)
def test_what_may_be_called_is_a_newer_answer(pile: Path, lessons: Path, newer: str) -> None:
    notebook = handed_in()
    notebook["cells"].insert(place(notebook, "check-attend") + 1, code(newer))
    assert source_of(one(pile, lessons, notebook), "answer-attend") == newer


def test_old_wrong_new_right(pile: Path, lessons: Path) -> None:
    notebook = handed_in(answer=WRONG)
    right = code(RIGHT.format(name="attend"))
    notebook["cells"].insert(place(notebook, "check-attend") + 1, right)
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == RIGHT.format(name="attend")
    assert own(row) == [WRONG.format(name="attend")]
    assert order(row).index("own-1") < order(row).index("answer-attend")
    assert (row.status, "several versions, the last one taken: attend" in row.reason) == ("repaired", True)


def test_a_copied_answer_cell_with_the_same_grade_id(pile: Path, lessons: Path) -> None:
    notebook = handed_in(answer=WRONG)
    copied = deepcopy(cell_at(notebook, "answer-attend")) | {"id": "f00", "source": RIGHT.format(name="attend")}
    notebook["cells"].insert(place(notebook, "answer-attend") + 1, copied)
    assert source_of(one(pile, lessons, notebook), "answer-attend") == RIGHT.format(name="attend")


def test_a_stub_after_the_answer_does_not_count(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "answer-attend")["source"] = STUB.format(name="attend")
    notebook["cells"].insert(place(notebook, "answer-attend"), code(RIGHT.format(name="attend")))
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == RIGHT.format(name="attend")
    assert own(row) == []


def test_the_last_version_wins_also_when_three_follow_the_check(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    at = place(notebook, "check-attend") + 1
    notebook["cells"][at:at] = [code("def attend(q, k, v):\n    return 2"), code("def attend(q, k, v):\n    return 3")]
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend").endswith("return 3")
    # Run from top to bottom, the third version is what stays defined.
    assert [order(row).index(id) for id in ("own-1", "own-2")] < [order(row).index("answer-attend")] * 2
    assert order(row).index("own-2") < order(row).index("answer-attend")


def test_an_answer_over_two_cells_and_an_import_of_ones_own(pile: Path, lessons: Path) -> None:
    notebook = handed_in(answer="def {name}(q, k, v):\n    return helper(q, math.pi)")
    at = place(notebook, "answer-attend")
    notebook["cells"][at:at] = [code("import math"), code("def helper(q, p):\n    return q * p")]
    row = one(pile, lessons, notebook)
    assert (row.status, own(row)) == ("ok", ["import math", "def helper(q, p):\n    return q * p"])
    assert order(row)[at : at + 3] == ["own-1", "own-2", "answer-attend"]


def test_the_helper_in_the_answer_cell_and_the_answer_in_a_new_one(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "answer-attend")["source"] = "def helper(q):\n    return q"
    notebook["cells"].insert(place(notebook, "check-attend"), code("def attend(q, k, v):\n    return helper(q)"))
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == "def attend(q, k, v):\n    return helper(q)"
    assert own(row) == ["def helper(q):\n    return q"]
    assert order(row).index("own-1") < order(row).index("answer-attend")


def test_what_a_late_answer_needs_moves_with_it(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "answer-attend")["source"] = STUB.format(name="attend")
    notebook["cells"] += [
        code("import math"),
        code("scale_of = lambda d: math.sqrt(d)"),
        code("print(attend)"),
        code("def attend(q, k, v):\n    return q / scale_of(2)"),
    ]
    row = one(pile, lessons, notebook)
    ids = order(row)
    assert own(row) == ["import math", "scale_of = lambda d: math.sqrt(d)", "print(attend)"]
    assert ids.index("own-1") < ids.index("own-2") < ids.index("answer-attend") < ids.index("own-3")
    assert "2 own cells moved up" in row.reason


@pytest.mark.parametrize("id", ["setup", "lesson-setup", "c-003", "c-010", "check-project"])
def test_an_import_written_into_a_course_cell_is_kept(pile: Path, lessons: Path, id: str) -> None:
    notebook = handed_in(answer="def {name}(q, k, v):\n    return math.pi")
    cell_at(notebook, id)["source"] += "\nimport math"
    row = one(pile, lessons, notebook)
    assert own(row) == ["import math"]
    assert (row.status, "ept from edited course cells: math" in row.reason) == ("repaired", True)
    assert order(row).index("own-1") < order(row).index("answer-attend")


def test_a_value_of_a_demonstration_is_there_for_the_answer(pile: Path, lessons: Path) -> None:
    notebook = handed_in(answer="def {name}(q, k, v):\n    return weights @ v")
    row = one(pile, lessons, notebook)
    assert own(row) == [
        "scores = torch.tensor([[8.2, 1.1, 0.3], [0.5, 2.0, 1.0]])",
        "weights = torch.softmax(scores, dim=-1)",
    ]
    assert (row.status, "aken from demonstration cells: weights, scores" in row.reason) == ("ok", True)


def test_own_cells_stay_where_they_were_and_stubs_are_not_own(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"].insert(0, code("from google.colab import drive\ndrive.mount('/content/drive')"))
    notebook["cells"].insert(place(notebook, "c-003") + 1, code("%cd /content\n!pip install x"))
    notebook["cells"].insert(place(notebook, "end"), code(STUB.format(name="attend")))
    notebook["cells"] += [code("torch.manual_seed(1)"), code("# nothing\n"), code("")]
    row = one(pile, lessons, notebook)
    ids = order(row)
    assert own(row)[1:] == ["%cd /content\n!pip install x", "torch.manual_seed(1)", "# nothing\n"]
    assert (ids[0], ids[ids.index("c-003") + 1], ids[-1]) == ("own-1", "own-2", "own-4")
    assert row.status == "ok"


@pytest.mark.parametrize("keep", ["id", "nothing"])
def test_edited_course_cells_are_not_own_cells(pile: Path, lessons: Path, keep: str) -> None:
    notebook = handed_in()
    cell_at(notebook, "c-003")["source"] = DEMO.replace("8.2", "9.9")
    cell_at(notebook, "setup")["source"] = cell_at(notebook, "setup")["source"].replace(
        'STUDENT_NAME = ""', 'STUDENT_NAME = "Ann"'
    )
    cell_at(notebook, "c-010")["source"] = cell_at(notebook, "c-010")["source"].replace("range(9)", "range(99)")
    row = one(pile, lessons, notebook if keep == "id" else stripped(notebook))
    assert own(row) == []
    assert "2 edited course cells replaced" in row.reason
    assert source_of(row, "c-003") == DEMO


def test_use_in_an_own_cell_is_no_answer(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"].append(code('attend = use("attend", attend)'))
    assert source_of(one(pile, lessons, notebook), "answer-attend") == RIGHT.format(name="attend")


def test_an_answer_with_a_syntax_error_stays_in_its_place(pile: Path, lessons: Path) -> None:
    broken = "def attend(q, k, v:\n    return q"
    for notebook in (handed_in(), stripped(handed_in())):
        next(c for c in notebook["cells"] if c["source"].startswith("def attend"))["source"] = broken
        row = one(pile, lessons, notebook)
        assert (source_of(row, "answer-attend"), own(row)) == (broken, [])


@pytest.mark.parametrize(
    "line", ["%%time", "%matplotlib inline", "!pip install x", "x = !ls", "attend??", "files = %who"]
)
def test_magics_do_not_hide_an_answer(pile: Path, lessons: Path, line: str) -> None:
    source = line + "\n" + RIGHT.format(name="attend")
    notebook = stripped(handed_in())
    next(c for c in notebook["cells"] if c["source"].startswith("def attend"))["source"] = source
    assert source_of(one(pile, lessons, notebook), "answer-attend") == source


def test_an_answer_without_tags_under_another_name_is_found_by_its_place(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "answer-attend").update(code("def attention(q, k, v):\n    return q", id="zz"))
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == "def attention(q, k, v):\n    return q"
    assert own(row) == []


def test_all_answers_in_one_cell(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    both = RIGHT.format(name="attend") + "\n\n" + RIGHT.format(name="project")
    cell_at(notebook, "answer-project")["source"] = STUB.format(name="project")
    cell_at(notebook, "answer-attend")["source"] = both
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == both
    assert source_of(row, "answer-project") == "# Answered in the cell of attend."


def test_answers_in_each_other_s_cells(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    one_cell, other = cell_at(notebook, "answer-attend"), cell_at(notebook, "answer-project")
    one_cell["source"], other["source"] = other["source"], one_cell["source"]
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == RIGHT.format(name="attend")
    assert source_of(row, "answer-project") == RIGHT.format(name="project")


def test_an_answer_turned_into_text_is_said(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "answer-attend")["cell_type"] = "markdown"
    row = one(pile, lessons, notebook)
    assert source_of(row, "answer-attend") == STUB.format(name="attend")
    assert (row.status, "turned into text: attend" in row.reason) == ("repaired", True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("delete", "check cells missing, the released ones used: attend"),
        ("edit", "check cells edited, the released ones used: attend"),
        ("text", "check cells turned into text, the released ones used: attend"),
        ("copy", "check cells copied, the released ones used: attend"),
        ("skip", ""),
    ],
)
def test_check_cells_are_always_the_release_s(pile: Path, lessons: Path, change: str, words: str) -> None:
    notebook = handed_in()
    check = cell_at(notebook, "check-attend")
    if change == "delete":
        notebook["cells"].remove(check)
    elif change == "edit":
        check["source"] = "assert True"
    elif change == "text":
        check["cell_type"] = "markdown"
    elif change == "copy":
        notebook["cells"].insert(5, deepcopy(check))
    else:
        check["metadata"]["tags"] = ["skip-execution"]
    row = one(pile, lessons, notebook)
    assert row.notebook is not None
    cells = [cell for cell in row.notebook.cells if cell.id == "check-attend"]
    assert [(cell.cell_type, cell.source) for cell in cells] == [("code", 'check("attend", attend)')]
    assert "tags" not in cells[0].metadata
    assert own(row) == []
    assert row.status == ("repaired" if words else "ok")
    assert words in row.reason.lower()


def test_thousands_of_lines_and_cells_take_seconds_at_most(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"] += [code("\n".join(f"a{n} = b{n}" for n in range(4000)))] * 3
    notebook["cells"] += [code(f"def h{n}(q):\n    return h{n + 1}(q)") for n in range(300)]
    notebook["cells"].append(code("def attend(q, k, v):\n    return h0(q)"))
    start = time.process_time()
    row = one(pile, lessons, notebook)
    assert time.process_time() - start < 20
    assert "300 own cells moved up" in row.reason


# --- written answers ---------------------------------------------------------------------------------------------------------------


def test_a_written_answer_in_a_new_cell_or_two(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell_at(notebook, "written-02_w1")["source"] = PLACEHOLDER["en"]
    notebook["cells"][place(notebook, "end") : place(notebook, "end")] = [text("First,"), text("second.")]
    row = one(pile, lessons, notebook)
    assert source_of(row, "written-02_w1") == "First,\n\nsecond."
    assert (row.status, "02_w1" in row.reason) == ("repaired", True)


def test_text_beside_a_written_answer_is_counted_and_other_text_is_not(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"].insert(place(notebook, "end"), text("one more thought"))
    notebook["cells"].insert(2, text("my notes"))
    row = one(pile, lessons, notebook)
    assert source_of(row, "written-02_w1") == "Because the variance grows with d_k."
    assert row.reason == "1 text cells beside written answers left out."


def test_pictures_in_a_written_answer_are_kept(pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    cell = cell_at(notebook, "written-02_w1")
    cell["source"] = "![](attachment:a.png)"
    cell["attachments"] = {"a.png": {"image/png": "aGk="}, "b.svg": {"image/svg+xml": "<svg onload=alert(1)>"}}
    row = one(pile, lessons, notebook)
    assert row.notebook is not None
    kept = next(cell for cell in row.notebook.cells if cell.id == "written-02_w1")
    assert kept.attachments == {"a.png": {"image/png": "aGk="}}
    nbformat.validate(row.notebook)


# --- the whole -------------------------------------------------------------------------------------------------------------------------


def test_the_order_is_the_same_every_time_and_nothing_runs(pile: Path, lessons: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    evil = f"import pathlib; pathlib.Path({str(mark)!r}).touch()"
    for student in ("c", "a", "b"):
        for lesson in ("03_sqrt_dk", "02_qkv"):
            notebook = handed_in(lesson)
            notebook["cells"].insert(0, code(evil))
            put(pile / student / f"{lesson}.ipynb", notebook)
    first, second = collect(pile, lessons), collect(pile, lessons)
    assert first == second
    keys = [(row.student_id, row.lesson) for row in first]
    assert keys == sorted(keys) and len(keys) == 6
    assert not mark.exists()


def test_the_frames_are_not_changed(pile: Path, lessons: Path) -> None:
    frames = load_frames(lessons)
    before = nbformat.writes(frames["02_qkv"]["en"].notebook)
    draft = read_draft(File(("s1", "x.ipynb"), None, json.dumps(handed_in()).encode()))
    rebuild(frames["02_qkv"]["en"], draft.cells)
    assert nbformat.writes(frames["02_qkv"]["en"].notebook) == before


@pytest.mark.parametrize(
    ("source", "defined", "needed"),
    [
        ("import a.b as c, d.e\nx, (y, *z) = f(1)", {"c", "d", "x", "y", "z"}, {"f"}),
        ("def g(a=u):\n    b = 1\n    return a + b + w", {"g"}, {"u", "w"}),
        ("if p:\n    q = 1\nfor r in s:\n    pass", {"q", "r"}, {"p", "s"}),
        ("class K(B):\n    n = 2\n    def m(self):\n        return h", {"K"}, {"B", "h"}),
        ("def attend(q, k\nclass Z\nn: int = 3\nx == 1", {"attend", "Z", "n"}, set()),
    ],
)
def test_names(source: str, defined: set[str], needed: set[str]) -> None:
    assert names_of(source).defined == defined
    assert names_of(source).needed == needed


@pytest.mark.parametrize(
    ("source", "stub"),
    [
        ("def f():\n    'text'\n    raise NotImplementedError", True),
        ("def f():\n    raise NotImplementedError('later')", True),
        ("def f():\n    ...", True),
        ("f = ''", True),
        ("f = ...", True),
        (
            "class f:\n    def __init__(self):\n        self.a = 1\n    def go(self):\n        raise NotImplementedError",
            True,
        ),
        ("class f:\n    def go(self):\n        return 1", False),
        ("class f:\n    'text'", True),
        ("class f(Mine):\n    pass", False),
        ("class f(Mine):\n    'Mine.'", False),
        ("class f(Mine):\n    bias = True", False),
        ("def f():\n    return 1", False),
        ("f = 'b'", False),
        ("from x import f", False),
        ("def g():\n    pass", False),
        ("if True:\n    def f():\n        return 1", False),
    ],
)
def test_stubs(source: str, stub: bool) -> None:
    assert is_stub(source, frozenset({"f"})) is stub


# --- places that are taken, and patience --------------------------------------------------------------------------------

# {path: what is typed there}; whose place each is, and who is graded. Eve's file is always the newer one.
PLACES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a folder's id typed in capitals": (
        {"b11123456/a.ipynb": "b11123456", "Eve/a.ipynb": "B11123456"}, {"b11123456/a.ipynb": "b11123456", "Eve/a.ipynb": "Eve"}
    ),
    "a folder's id typed in full width": (
        {"b11123456/a.ipynb": "", "Eve/a.ipynb": "ｂ１１１２３４５６"}, {"b11123456/a.ipynb": "b11123456", "Eve/a.ipynb": "Eve"}
    ),
    "an id that two folders type": (
        {"Vic/a.ipynb": "b11123456", "Eve/a.ipynb": "B11123456"}, {"Vic/a.ipynb": "Vic", "Eve/a.ipynb": "Eve"}
    ),
    "an id that two files type": (
        {"vic.ipynb": "b11123456", "eve.ipynb": "b11123456"}, {"vic.ipynb": "vic", "eve.ipynb": "eve"}
    ),
    "the name of a file": (
        {"b11123456.ipynb": "b11123456", "eve.ipynb": "b11123456"}, {"b11123456.ipynb": "b11123456", "eve.ipynb": "eve"}
    ),
    "the name of a file alone": (
        {"02_qkv.ipynb": "b11123456", "b11123456.ipynb": ""}, {"02_qkv.ipynb": "02_qkv", "b11123456.ipynb": "b11123456-2"}
    ),
    "a usual name and another's": (
        {"Vic - 02_qkv.ipynb": "b11123456", "02_qkv (9).ipynb": "b11123456"},
        {"Vic - 02_qkv.ipynb": "Vic", "02_qkv (9).ipynb": "02_qkv"},
    ),
    "a loose file and a folder": (
        {"b11123456/02_qkv.ipynb": "b11123456", "02_qkv (9).ipynb": "b11123456"},
        {"b11123456/02_qkv.ipynb": "b11123456", "02_qkv (9).ipynb": "02_qkv"},
    ),
    "an id that is the same once safe": (
        {"vic.ipynb": "b11123456", "eve.ipynb": "b11123456!"}, {"vic.ipynb": "b11123456", "eve.ipynb": "b11123456-2"}
    ),
    "Moodle's number in a name": (
        {"Vic_111_assignsubmission_file_a.ipynb": "", "Eve_111_assign_777_assignsubmission_file_a.ipynb": ""},
        {"Vic_111_assignsubmission_file_a.ipynb": "111", "Eve_111_assign_777_assignsubmission_file_a.ipynb": "Eve_111"},
    ),
    "Moodle's number in full width": (
        {"Vic_111_assignsubmission_file/a.ipynb": "", "Eve_１１１_assign_777_assignsubmission_file/a.ipynb": ""},
        {"Vic_111_assignsubmission_file/a.ipynb": "111", "Eve_１１１_assign_777_assignsubmission_file/a.ipynb": "777"},
    ),
    "two names with one of Moodle's numbers": (
        {"Vic_111_assignsubmission_file/a.ipynb": "", "Eve_111_assignsubmission_file/a.ipynb": ""},
        {"Vic_111_assignsubmission_file/a.ipynb": "Vic_111", "Eve_111_assignsubmission_file/a.ipynb": "Eve_111"},
    ),
    "Moodle's number typed": (
        {"Vic_111_assignsubmission_file/a.ipynb": "", "Eve.ipynb": "111"},
        {"Vic_111_assignsubmission_file/a.ipynb": "111", "Eve.ipynb": "Eve"},
    ),
}  # fmt: skip


@pytest.mark.hostile
@pytest.mark.parametrize(("typed", "students"), PLACES.values(), ids=PLACES.keys())
def test_nobody_takes_another_s_place(
    pile: Path, lessons: Path, typed: dict[str, str], students: dict[str, str]
) -> None:
    for day, (path, student) in enumerate([*typed.items(), ("Zed_b99999999/a.ipynb", "b99999999")]):
        os.utime(put(pile / path, handed_in(student=student)), (10**9 + day,) * 2)
    rows = [row for row in collect(pile, lessons) if not row.source.startswith("Zed")]
    assert {row.source: row.student_id for row in rows} == students
    assert all(row.status == "ok" for row in rows)


# {file or member of a zip: what is typed there}, before Eve's zip is added
VICTIMS: dict[str, dict[str, str]] = {
    "typed": {"02_qkv.ipynb": "b11900001", "02_qkv (1).ipynb": "b11900002"},
    "folders": {"b11900001/02_qkv.ipynb": "b11900001", "b11900002/02_qkv.ipynb": "b11900002"},
    "names of files": {"b11900001.ipynb": "b11900001", "b11900002.ipynb": "b11900002"},
    "zips": {"b11900001.zip/02_qkv.ipynb": "b11900001", "b11900002.zip/02_qkv.ipynb": "b11900002"},
}


@pytest.mark.hostile
@pytest.mark.parametrize("typed", VICTIMS.values(), ids=VICTIMS.keys())
@pytest.mark.parametrize("inside", ["b11900001/02_qkv.ipynb", "b11900001.ipynb", "02_qkv.ipynb"])
def test_a_zip_with_several_ids_takes_nobody_s_place(
    pile: Path, lessons: Path, typed: dict[str, str], inside: str
) -> None:
    for path, student in typed.items():
        outer, _, inner = path.partition(".zip/")
        if inner:
            zipped(pile / f"{outer}.zip", {inner: handed_in(student=student)})
        else:
            put(pile / path, handed_in(student=student))
    members = {inside: handed_in(student="b11900001"), "x/b11900003.ipynb": handed_in(student="b11900003")}
    zipped(pile / "hw.zip", members, (2030, 1, 1, 0, 0, 0))
    rows = {row.source: row for row in collect(pile, lessons)}
    assert {source: rows[source].student_id for source in typed} == typed
    assert all(row.status == "ok" for row in rows.values()) and len({row.student_id for row in rows.values()}) == 4
    victim, thief = rows[next(iter(typed))], rows[f"hw.zip/{inside}"]
    assert victim.remark == f"Its id is claimed by another's file too: {thief.source}."
    assert "It claims the id b11900001, and so does another's file." in thief.remark


def test_one_student_s_files_stay_one_student_s(pile: Path, lessons: Path) -> None:
    """The same id typed into a copy of the same file, or in other letters, is an upload that came later."""
    for day, (name, student) in enumerate(
        {"hw_ann.ipynb": "b111", "hw_ann (1).ipynb": "B111", "bob.ipynb": "b222"}.items()
    ):
        os.utime(put(pile / name, handed_in(student=student)), (10**9 + day,) * 2)
    found = {row.source: (row.student_id, row.status) for row in collect(pile, lessons)}
    assert found["hw_ann.ipynb"][1] == "superseded" and found["hw_ann (1).ipynb"][1] == "ok"
    assert len({student for student, _ in found.values()}) == 2


@pytest.mark.hostile
@pytest.mark.parametrize("typed", ["b11123456", "b11123456!", "B11123456"])
def test_points_and_comments_of_an_earlier_run_are_not_inherited(pile: Path, lessons: Path, typed: str) -> None:
    put(pile / "vic.ipynb", handed_in(student="b11123456"))
    put(pile / "bob.ipynb", handed_in(student="b222"))
    put(pile / "cat.ipynb", handed_in(student="b333"))
    before = collect(pile, lessons)
    assert {row.source: row.student_id for row in before}["vic.ipynb"] == "b11123456"
    put(pile / "eve.ipynb", handed_in(student=typed))
    rows = collect(pile, lessons, before=before)
    ids = {row.source: row.student_id for row in rows if row.status == "ok"}
    assert (
        ids["vic.ipynb"] == "b11123456" and ids["eve.ipynb"] in ("eve", "b11123456-2") and len(set(ids.values())) == 4
    )
    again = {row.source: row.student_id for row in collect(pile, lessons, before=rows)}
    assert again == ids
    # Eve's alone, as somebody who is late
    for name in ("vic", "bob", "cat"):
        (pile / f"{name}.ipynb").unlink()
    assert [row.student_id for row in collect(pile, lessons, before=before)] == [ids["eve.ipynb"]]


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["b11900001.ipynb", "b11900001/02_qkv.ipynb", "Eve b11900001.ipynb"])
def test_who_had_an_id_keeps_it(pile: Path, lessons: Path, name: str) -> None:
    """Whatever the newcomer's file is called; also where it comes alone, in a small class and a large one."""
    for number in range(1, 5):
        put(pile / f"02_qkv ({number}).ipynb", handed_in(student=f"b1190000{number}"))
    before = collect(pile, lessons)
    put(pile / name, handed_in())
    rows = {row.source: row for row in collect(pile, lessons, before=before)}
    assert rows["02_qkv (1).ipynb"].student_id == "b11900001" and name in rows["02_qkv (1).ipynb"].remark
    assert rows[name].student_id not in {row.student_id for row in before} and "It claims the id" in rows[name].remark
    for number in range(1, 5):
        (pile / f"02_qkv ({number}).ipynb").unlink()
    for earlier in (before, before[:2]):
        (row,) = collect(pile, lessons, before=earlier)
        assert row.student_id == rows[name].student_id and "It claims the id b11900001" in row.remark


def test_the_platform_s_number_is_the_student_s_also_after_somebody_typed_it(pile: Path, lessons: Path) -> None:
    put(pile / "Zed_222_assignsubmission_file_/a.ipynb", handed_in())
    put(pile / "Eve.ipynb", handed_in(student="111"))
    before = collect(pile, lessons)
    assert {row.source: row.student_id for row in before}["Eve.ipynb"] == "111"
    put(pile / "Vic_111_assignsubmission_file_/a.ipynb", handed_in())
    ids = {row.source.partition("_")[0]: row.student_id for row in collect(pile, lessons, before=before)}
    assert ids == {"Vic": "111", "Zed": "222", "Eve.ipynb": "Eve"}


def test_the_id_alone_makes_files_one_student_s_and_other_answers_are_told(pile: Path, lessons: Path) -> None:
    """As in a flat export, whose files are all called alike; and who forgot to type it the first time is no other student."""
    files = {
        "02_qkv.ipynb": ("b1", RIGHT), "02_qkv (4).ipynb": ("b1", WRONG), "Copy of 02_qkv.ipynb": ("b2", RIGHT),
        "final.ipynb": ("b2", RIGHT), "b11900003.ipynb": ("", RIGHT), "b11900003 (1).ipynb": ("b11900003", RIGHT),
    }  # fmt: skip
    for day, (name, (student, answer)) in enumerate(files.items()):
        os.utime(put(pile / name, handed_in(student=student, answer=answer)), (10**9 + day,) * 2)
    rows = {row.source: row for row in collect(pile, lessons)}
    graded = {row.student_id: source for source, row in rows.items() if row.status != "superseded"}
    assert graded == {"b1": "02_qkv (4).ipynb", "b2": "final.ipynb", "b11900003": "b11900003 (1).ipynb"}
    told = "The id alone says that it is the same student's, with other answers: "
    assert rows["02_qkv.ipynb"].remark == f"{told}02_qkv (4).ipynb."
    assert rows["02_qkv (4).ipynb"].remark == f"{told}02_qkv.ipynb."
    assert not any(row.remark for row in rows.values() if row.student_id != "b1")


@pytest.mark.parametrize(
    "path",
    ["{name}_{lesson}.ipynb", "HW/{name} - {lesson}.ipynb", "{lesson} {name}/hw.ipynb", "{name}/{lesson}.ipynb"],
)
def test_a_name_with_a_blank_is_the_same_student_s_in_each_lesson(tmp_path: Path, path: str) -> None:
    before: list[Submission] = []
    for lesson in ("01_rnn_as_matrices", "02_qkv", "03_sqrt_dk"):
        notebook = json.loads((LESSONS_OF_THE_COURSE / "en" / f"{lesson}.ipynb").read_text("utf-8"))
        for name in ("Ann Lee", "Bob Wu", "Cat Ho"):
            put(tmp_path / lesson / path.format(name=name, lesson=lesson), notebook)
        rows = collect(tmp_path / lesson, LESSONS_OF_THE_COURSE, before=before)
        assert [(row.student_id, row.lesson) for row in rows] == [
            (who, lesson) for who in ("Ann_Lee", "Bob_Wu", "Cat_Ho")
        ]
        before += rows


def test_a_name_with_a_blank_is_the_same_student_s_in_a_copy_and_nobody_else_s(pile: Path, lessons: Path) -> None:
    """Somebody whose id looks the same once made safe comes second, also where it is that from the beginning."""
    put(pile / "Ann Lee 02_qkv.ipynb", handed_in())
    put(pile / "Bob Wu 02_qkv.ipynb", handed_in())
    before = collect(pile, lessons)
    (pile / "Ann Lee 02_qkv.ipynb").rename(pile / "Ann Lee 02_qkv (1).ipynb")
    assert [row.student_id for row in collect(pile, lessons, before=before)] == ["Ann_Lee", "Bob_Wu"]
    put(pile / "mine.ipynb", handed_in("03_sqrt_dk", student="Ann_Lee"))
    put(pile / "Ann Lee 03_sqrt_dk.ipynb", handed_in("03_sqrt_dk"))
    ids = {row.source: row.student_id for row in collect(pile, lessons, before=before)}
    assert ids["Ann Lee 03_sqrt_dk.ipynb"] == "Ann_Lee" and ids["mine.ipynb"] == "Ann_Lee-2"


AGAIN = [
    ("Ann_02_qkv.ipynb", "Ann_02_qkv_final.ipynb"), ("02_qkv_Ann.ipynb", "02_qkv_Ann_v2.ipynb"),
    ("02_qkv_Ann.ipynb", "02_qkv_Ann_resubmit.ipynb"), ("王小明_02_qkv.ipynb", "王小明_02_qkv_修正版.ipynb"),
    ("王小明_02_qkv.ipynb", "補交 王小明_02_qkv.ipynb"), ("Ann_02_qkv.ipynb", "Ann Lee_02_qkv.ipynb"),
    ("b11900001_02_qkv.ipynb", "b11900001_02_qkv_final.ipynb"), ("b11900001_王小明_02_qkv.ipynb", "b11900001_02_qkv.ipynb"),
    ("b11900001_王小明_02_qkv.ipynb", "Ming b11900001_02_qkv.ipynb"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "again"), AGAIN)
def test_who_hands_in_again_under_another_name_is_one_student(
    pile: Path, lessons: Path, first: str, again: str
) -> None:
    """In one pile, and in a later one that one file has come with."""
    for number in range(2, 6):
        put(pile / f"b1190000{number}_02_qkv.ipynb", handed_in(student=f"b1190000{number}"))
    os.utime(put(pile / first, handed_in(student="b11900001")), (10**9,) * 2)
    before = collect(pile, lessons)
    late = put(pile.parent / "late" / again, handed_in(student="b11900001", answer=WRONG)).parent
    (row,) = collect(late, lessons, before=before)
    assert (row.student_id, row.status) == ("b11900001", "ok")
    put(pile / again, handed_in(student="b11900001", answer=WRONG))
    for known in ([], before):
        rows = {row.source: row for row in collect(pile, lessons, before=known)}
        assert (rows[first].student_id, rows[first].status) == ("b11900001", "superseded")
        assert (rows[again].student_id, rows[again].status) == ("b11900001", "ok")


def test_a_late_file_under_a_name_follows_one_that_had_none(pile: Path, lessons: Path) -> None:
    """The id was all that there was; and a folder "Ann Lee" follows "Ann". What was another's claim stays another's."""
    for number in range(1, 5):
        put(pile / f"02_qkv ({number}).ipynb", handed_in(student=f"b1190000{number}"))
    before = collect(pile, lessons)
    late = put(pile.parent / "late" / "Ann_02_qkv.ipynb", handed_in(student="b11900001", answer=WRONG)).parent
    (row,) = collect(late, lessons, before=before)
    assert row.student_id == "b11900001"
    put(pile / "Eve_02_qkv.ipynb", handed_in(student="b11900001", answer=WRONG))
    rows = collect(pile, lessons, before=before)
    late = put(pile.parent / "eve" / "Eve_02_qkv.ipynb", handed_in(student="b11900001", answer=WRONG)).parent
    assert [row.student_id for row in collect(late, lessons, before=rows)] == ["Eve"]
    folders = pile.parent / "folders"
    for number, name in enumerate(("Ann", "Bob", "Cat", "Dan", "Eve"), start=1):
        put(folders / name / "02_qkv.ipynb", handed_in(student=f"b1190000{number}"))
    before = collect(folders, lessons)
    put(pile.parent / "two" / "Ann Lee" / "02_qkv.ipynb", handed_in(student="b11900001", answer=WRONG))
    put(pile.parent / "two" / "Zoe" / "02_qkv.ipynb", handed_in(student="b11900077"))
    rows = collect(pile.parent / "two", lessons, before=before)
    assert [row.student_id for row in rows] == ["b11900001", "b11900077"]


# Honest piles, one for each run into the same folder of grades: {path: what is typed there (id and name)}, the files of a pile from
# the oldest to the newest, and {id: the file that counts}. A file in lesson 03's pile is called after it.
A, B, C, D, F, G = (f"B1290100{number}" for number in (1, 2, 3, 4, 5, 6))
BY_NAME = {f"{name}/02_qkv.ipynb": f"{id_},{name}" for id_, name in ((A, "王小明"), (B, "李冠廷"), (C, "Eve"))}
IN_FOLDER, LOOSE = f"{D} 陳 大文/02_qkv.ipynb", f"{D}_陳 大文_02_qkv.ipynb"
HONEST: dict[str, list[tuple[dict[str, str], dict[str, str]]]] = {
    # folders of several students
    "groups, the last of one": [(
        {f"第1組/{A}_王小明_02_qkv.ipynb": A, f"第1組/{B}_李冠廷_02_qkv.ipynb": B, f"第2組/{C}_黃詩涵_02_qkv.ipynb": C},
        {A: f"第1組/{A}_王小明_02_qkv.ipynb", B: f"第1組/{B}_李冠廷_02_qkv.ipynb", C: f"第2組/{C}_黃詩涵_02_qkv.ipynb"},
    )],
    "a group's folder with the lesson in its name, graded again": [(
        {f"Rockets_02_qkv/{A}_王小明.ipynb": A, f"Rockets_02_qkv/{A}.ipynb": A, "Rockets_02_qkv/b.ipynb": B, "Stars/02_qkv.ipynb": C},
        {A: f"Rockets_02_qkv/{A}.ipynb", B: "Rockets_02_qkv/b.ipynb", C: "Stars/02_qkv.ipynb"},
    )] * 2,
    "groups under any name": [(
        {"Rockets/02_qkv.ipynb": A, "Rockets/02_qkv (1).ipynb": B, "Stars/02_qkv.ipynb": C},
        {A: "Rockets/02_qkv.ipynb", B: "Rockets/02_qkv (1).ipynb", C: "Stars/02_qkv.ipynb"},
    )],
    "groups, nothing typed": [(
        {f"Rockets/{A}_王小明.ipynb": "", f"Rockets/{B}_李冠廷.ipynb": "", f"第2組/{C}.ipynb": ""},
        {A: f"Rockets/{A}_王小明.ipynb", B: f"Rockets/{B}_李冠廷.ipynb", C: f"第2組/{C}.ipynb"},
    )],
    "sections, nothing typed": [(
        {"甲班/王小明/02_qkv.ipynb": "", "甲班/李冠廷/02_qkv.ipynb": "", "乙班/黃詩涵/02_qkv.ipynb": ""},
        {"王小明": "甲班/王小明/02_qkv.ipynb", "李冠廷": "甲班/李冠廷/02_qkv.ipynb", "黃詩涵": "乙班/黃詩涵/02_qkv.ipynb"},
    )],
    "sections of files, nothing typed": [(
        {"Section A/王小明_02_qkv.ipynb": "", "Section A/李冠廷_02_qkv.ipynb": "", "Section B/黃詩涵_02_qkv.ipynb": ""},
        {"王小明": "Section A/王小明_02_qkv.ipynb", "李冠廷": "Section A/李冠廷_02_qkv.ipynb", "黃詩涵": "Section B/黃詩涵_02_qkv.ipynb"},
    )],
    "a section that had one file, and has two": [
        ({"301/a.ipynb": A, "301/b.ipynb": B, "302/c.ipynb": C}, {A: "301/a.ipynb", B: "301/b.ipynb", C: "302/c.ipynb"}),
        ({"301/a.ipynb": A, "302/c.ipynb": C, "302/d.ipynb": D}, {A: "301/a.ipynb", C: "302/c.ipynb", D: "302/d.ipynb"}),
    ],
    "late ones in a folder": [(
        {f"{A} 王小明/02_qkv.ipynb": A, f"遲交/{B} 林佳穎/02_qkv.ipynb": B, f"遲交/{C} 黃詩涵/02_qkv.ipynb": C},
        {A: f"{A} 王小明/02_qkv.ipynb", B: f"遲交/{B} 林佳穎/02_qkv.ipynb", C: f"遲交/{C} 黃詩涵/02_qkv.ipynb"},
    )],
    "zips, and late ones in a folder": [(
        {f"{A}.zip/02_qkv.ipynb": A, f"{B}.zip/02_qkv.ipynb": B, f"late/{C}_02_qkv.ipynb": C, f"late/{D}_02_qkv.ipynb": D},
        {A: f"{A}.zip/02_qkv.ipynb", B: f"{B}.zip/02_qkv.ipynb", C: f"late/{C}_02_qkv.ipynb", D: f"late/{D}_02_qkv.ipynb"},
    )],
    "a newer one among the late": [(
        {f"{A} 王小明/02_qkv.ipynb": A, f"{B} 李冠廷/02_qkv.ipynb": B, f"補交/{A} 王小明/02_qkv.ipynb": A},
        {A: f"補交/{A} 王小明/02_qkv.ipynb", B: f"{B} 李冠廷/02_qkv.ipynb"},
    )],
    "a newer file among the late": [(
        {f"{A}_王小明.ipynb": A, f"{B}_李冠廷.ipynb": B, f"補交/{A}_王小明.ipynb": A},
        {A: f"補交/{A}_王小明.ipynb", B: f"{B}_李冠廷.ipynb"},
    )],
    "a friend's notebook in a folder with a number": [(
        {f"{A} 王小明/x.ipynb": B, f"{A} 王小明/02_qkv.ipynb": A, f"{B} 李冠廷/02_qkv.ipynb": B},
        {A: f"{A} 王小明/02_qkv.ipynb", B: f"{B} 李冠廷/02_qkv.ipynb"},
    )],
    "one who comes alone with folders": [(
        {f"{A} 王小明/week2/02_qkv.ipynb": "", f"{A} 王小明/notes/02_qkv.ipynb": ""},
        {A: f"{A} 王小明/notes/02_qkv.ipynb"},
    )],
    "a course's number on what holds the class": [
        (
            {"CS 12345678/王小明_02_qkv.ipynb": "", "CS 12345678/李冠廷_02_qkv.ipynb": "", "黃詩涵_02_qkv.ipynb": ""},
            {"王小明": "CS 12345678/王小明_02_qkv.ipynb", "李冠廷": "CS 12345678/李冠廷_02_qkv.ipynb", "黃詩涵": "黃詩涵_02_qkv.ipynb"},
        ),
        (
            {"CS 12345678/王小明/03_sqrt_dk.ipynb": "", "CS 12345678/李冠廷/03_sqrt_dk.ipynb": ""},
            {"王小明": "CS 12345678/王小明/03_sqrt_dk.ipynb", "李冠廷": "CS 12345678/李冠廷/03_sqrt_dk.ipynb"},
        ),
    ],
    # who had an id keeps it
    "one folder's student forgets the id": [
        (BY_NAME, {A: "王小明/02_qkv.ipynb", B: "李冠廷/02_qkv.ipynb", C: "Eve/02_qkv.ipynb"}),
        ({"王小明/03_sqrt_dk.ipynb": "", "李冠廷/03_sqrt_dk.ipynb": B}, {A: "王小明/03_sqrt_dk.ipynb", B: "李冠廷/03_sqrt_dk.ipynb"}),
    ],
    "and types it for the first time": [
        ({"王小明/02_qkv.ipynb": "", "李冠廷.zip/02_qkv.ipynb": B}, {"王小明": "王小明/02_qkv.ipynb", B: "李冠廷.zip/02_qkv.ipynb"}),
        ({"王小明/03_sqrt_dk.ipynb": A, "李冠廷.zip/03_sqrt_dk.ipynb": ""}, {"王小明": "王小明/03_sqrt_dk.ipynb", B: "李冠廷.zip/03_sqrt_dk.ipynb"}),
    ],
    "files by name": [
        ({"王小明_02_qkv.ipynb": "", "林佳穎_02_qkv.ipynb": f"{B},林佳穎"}, {"王小明": "王小明_02_qkv.ipynb", B: "林佳穎_02_qkv.ipynb"}),
        ({"王小明_03_sqrt_dk.ipynb": A, "林佳穎_03_sqrt_dk.ipynb": ""}, {"王小明": "王小明_03_sqrt_dk.ipynb", B: "林佳穎_03_sqrt_dk.ipynb"}),
    ],
    "one word in two students' files": [
        ({"02_qkv_mine.ipynb": f"{A},王小明", "02_qkv.ipynb": B}, {A: "02_qkv_mine.ipynb", B: "02_qkv.ipynb"}),
        ({"03_sqrt_dk.ipynb": A, "03_sqrt_dk_mine.ipynb": B}, {A: "03_sqrt_dk.ipynb", B: "03_sqrt_dk_mine.ipynb"}),
    ],
    "a folder that another student uses": [
        ({"misc/02_qkv.ipynb": f"{C},黃詩涵", "02_qkv.ipynb": B}, {C: "misc/02_qkv.ipynb", B: "02_qkv.ipynb"}),
        ({"misc/03_sqrt_dk.ipynb": f"{A},王小明", "03_sqrt_dk.ipynb": B}, {A: "misc/03_sqrt_dk.ipynb", B: "03_sqrt_dk.ipynb"}),
    ],
    "another's file in a folder, named after them alone": [
        (
            {f"email/{A}_王小明_02_qkv.ipynb": f"{A},王小明", "李冠廷_02_qkv.ipynb": f"{B},李冠廷", "02_qkv.ipynb": C},
            {A: f"email/{A}_王小明_02_qkv.ipynb", B: "李冠廷_02_qkv.ipynb", C: "02_qkv.ipynb"},
        ),
        (
            {f"email/{B}_李冠廷_03_sqrt_dk.ipynb": "", "03_sqrt_dk.ipynb": C},
            {B: f"email/{B}_李冠廷_03_sqrt_dk.ipynb", C: "03_sqrt_dk.ipynb"},
        ),
    ],
    "who sends by mail forgets the id": [
        ({f"email/{A}_王小明_02_qkv.ipynb": f"{A},王小明", "02_qkv.ipynb": C}, {A: f"email/{A}_王小明_02_qkv.ipynb", C: "02_qkv.ipynb"}),
        ({f"email/{A}_03_sqrt_dk.ipynb": "", "03_sqrt_dk.ipynb": C}, {A: f"email/{A}_03_sqrt_dk.ipynb", C: "03_sqrt_dk.ipynb"}),
    ],
    # a number in a file's name, or in a folder's further in, says more than a folder that is called after nobody
    "one alone in a folder beside the others', in the next week another": [
        (
            {f"{A} 王小明/02_qkv.ipynb": "", f"{B} 李冠廷/02_qkv.ipynb": "", f"email/{C} 黃詩涵/02_qkv.ipynb": ""},
            {A: f"{A} 王小明/02_qkv.ipynb", B: f"{B} 李冠廷/02_qkv.ipynb", C: f"email/{C} 黃詩涵/02_qkv.ipynb"},
        ),
        (
            {f"email/{A} 王小明/03_sqrt_dk.ipynb": "", f"{B} 李冠廷/03_sqrt_dk.ipynb": "", f"{C} 黃詩涵/03_sqrt_dk.ipynb": ""},
            {A: f"email/{A} 王小明/03_sqrt_dk.ipynb", B: f"{B} 李冠廷/03_sqrt_dk.ipynb", C: f"{C} 黃詩涵/03_sqrt_dk.ipynb"},
        ),
        ({f"email/{D} 陳 大文/02_qkv.ipynb": ""}, {D: f"email/{D} 陳 大文/02_qkv.ipynb"}),
    ],
    "a team of one, in the next week another": [
        (
            {f"Team Alpha/{A}_02_qkv.ipynb": "", f"Team Beta/{B}_02_qkv.ipynb": "", f"Team Beta/{C}_02_qkv.ipynb": ""},
            {A: f"Team Alpha/{A}_02_qkv.ipynb", B: f"Team Beta/{B}_02_qkv.ipynb", C: f"Team Beta/{C}_02_qkv.ipynb"},
        ),
        (
            {f"Team Alpha/{D}_03_sqrt_dk.ipynb": "", f"Team Beta/{B}_03_sqrt_dk.ipynb": "", f"Team Beta/{C}_03_sqrt_dk.ipynb": ""},
            {D: f"Team Alpha/{D}_03_sqrt_dk.ipynb", B: f"Team Beta/{B}_03_sqrt_dk.ipynb", C: f"Team Beta/{C}_03_sqrt_dk.ipynb"},
        ),
    ],
    **{
        f"two who are late, one after the other, in a folder with a year, {typed or 'not'} typed": [
            ({path.format(id_): id_ if typed else ""}, {id_: path.format(id_)})
            for id_, path in ((A, "DL2026/{}_王小明_02_qkv.ipynb"), (B, "DL2026/{}_02_qkv.ipynb"), (A, "DL2026/{}_王小明 (1)_02_qkv.ipynb"))
        ] for typed in ("", "all")
    },
    "sections with a year, in one of them one": [(
        {"CS 2026 A/王小明_02_qkv.ipynb": A, "CS 2026 B/李冠廷_02_qkv.ipynb": B, "CS 2026 B/黃詩涵_02_qkv.ipynb": C},
        {A: "CS 2026 A/王小明_02_qkv.ipynb", B: "CS 2026 B/李冠廷_02_qkv.ipynb", C: "CS 2026 B/黃詩涵_02_qkv.ipynb"},
    )],
    "the number in the file's name alone, then typed": [
        ({f"王小明/{A}_02_qkv.ipynb": "", f"李冠廷.zip/{B}_李冠廷_02_qkv.ipynb": ""}, {A: f"王小明/{A}_02_qkv.ipynb", B: f"李冠廷.zip/{B}_李冠廷_02_qkv.ipynb"}),
        ({f"王小明/{A}_03_sqrt_dk.ipynb": A, f"李冠廷.zip/{B}_李冠廷_03_sqrt_dk.ipynb": B},
         {A: f"王小明/{A}_03_sqrt_dk.ipynb", B: f"李冠廷.zip/{B}_李冠廷_03_sqrt_dk.ipynb"}),
    ],
    "files by name, not typed and late typed in one pile": [
        ({"02_qkv_王小明.ipynb": f"{A},王小明", "02_qkv_李冠廷.ipynb": B}, {A: "02_qkv_王小明.ipynb", B: "02_qkv_李冠廷.ipynb"}),
        (
            {"03_sqrt_dk_王小明.ipynb": "", "late/03_sqrt_dk_王小明.ipynb": A, "03_sqrt_dk_李冠廷.ipynb": B},
            {A: "late/03_sqrt_dk_王小明.ipynb", B: "03_sqrt_dk_李冠廷.ipynb"},
        ),
    ],
    # a date or a telephone's number is no id
    "dated folders": [
        ({"王小明_20260305/02_qkv.ipynb": A, "李冠廷_20260305/02_qkv.ipynb": ""}, {A: "王小明_20260305/02_qkv.ipynb", "李冠廷": "李冠廷_20260305/02_qkv.ipynb"}),
        ({"王小明_20260312/03_sqrt_dk.ipynb": A, "李冠廷_20260312/03_sqrt_dk.ipynb": ""}, {A: "王小明_20260312/03_sqrt_dk.ipynb", "李冠廷": "李冠廷_20260312/03_sqrt_dk.ipynb"}),
    ],
    "dated files": [
        ({"王小明_20260305.ipynb": "", "2026-03-05 李冠廷 02_qkv.ipynb": ""}, {"王小明": "王小明_20260305.ipynb", "李冠廷": "2026-03-05 李冠廷 02_qkv.ipynb"}),
        ({"王小明_20260312.ipynb": "", "2026-03-12 李冠廷 02_qkv.ipynb": ""}, {"王小明": "王小明_20260312.ipynb", "李冠廷": "2026-03-12 李冠廷 02_qkv.ipynb"}),
    ],
    "a telephone's number": [(
        {"王小明_0912345600/02_qkv.ipynb": A, "李冠廷 0912-345-601/02_qkv.ipynb": B},
        {A: "王小明_0912345600/02_qkv.ipynb", B: "李冠廷 0912-345-601/02_qkv.ipynb"},
    )],
    # the homework's number beside the name, nothing typed
    "homework beside the name": [
        ({"王小明_HW2.ipynb": "", "李冠廷作業二.ipynb": "", "01_黃詩涵_hw2.ipynb": "", f"{D}hw2.ipynb": ""},
         {"王小明": "王小明_HW2.ipynb", "李冠廷": "李冠廷作業二.ipynb", "01_黃詩涵": "01_黃詩涵_hw2.ipynb", D: f"{D}hw2.ipynb"}),
        ({"王小明_HW3.ipynb": "", "李冠廷作業三.ipynb": "", "01_黃詩涵_hw3.ipynb": "", f"{D}hw3.ipynb": ""},
         {"王小明": "王小明_HW3.ipynb", "李冠廷": "李冠廷作業三.ipynb", "01_黃詩涵": "01_黃詩涵_hw3.ipynb", D: f"{D}hw3.ipynb"}),
    ],
    "homework beside a folder's name": [
        ({"hw2-userax/02_qkv.ipynb": "", "王小明_HW2/02_qkv.ipynb": ""}, {"userax": "hw2-userax/02_qkv.ipynb", "王小明": "王小明_HW2/02_qkv.ipynb"}),
        ({"hw3-userax/02_qkv.ipynb": "", "王小明_HW3/02_qkv.ipynb": ""}, {"userax": "hw3-userax/02_qkv.ipynb", "王小明": "王小明_HW3/02_qkv.ipynb"}),
    ],
    "words that are names": [(
        {"Lin New_02_qkv.ipynb": "", "Lin_02_qkv.ipynb": "", "Final Lu/02_qkv.ipynb": "", "Lu/02_qkv.ipynb": ""},
        {"Lin_New": "Lin New_02_qkv.ipynb", "Lin": "Lin_02_qkv.ipynb", "Final_Lu": "Final Lu/02_qkv.ipynb", "Lu": "Lu/02_qkv.ipynb"},
    )],
    # more than the id is typed
    "more than the id": [(
        {"02_qkv.ipynb": f"{A} 王小明", "02_qkv (1).ipynb": f"{B}李冠廷", "02_qkv (2).ipynb": f"{C.lower()}@ntu.edu.tw",
         "02_qkv (3).ipynb": "B12 901004", "02_qkv (4).ipynb": "B-12901005", "02_qkv (5).ipynb": f"張三,{G}"},
        {A: "02_qkv.ipynb", B: "02_qkv (1).ipynb", C.lower(): "02_qkv (2).ipynb", D: "02_qkv (3).ipynb", F: "02_qkv (4).ipynb",
         G: "02_qkv (5).ipynb"},
    )],
    # words of who hands in again
    "done": [(
        {"02_qkv.ipynb": A, "02_qkv (2).ipynb": B, **{f"02_qkv_{word}.ipynb": B for word in ("done", "real final", "0312")},
         "02_qkv 第二次繳交.ipynb": B},
        {A: "02_qkv.ipynb", B: "02_qkv 第二次繳交.ipynb"},
    )],
    "v2, nothing typed": [(
        {"黃詩涵_02_qkv.ipynb": "", "黃詩涵_02_qkv_v2.ipynb": "", "李冠廷_02_qkv.ipynb": ""},
        {"黃詩涵": "黃詩涵_02_qkv_v2.ipynb", "李冠廷": "李冠廷_02_qkv.ipynb"},
    )],
}  # fmt: skip
# The same id typed, the same name or none beside it: in a folder, in a file's name, in a zip of the class; in both orders.
FORMS = [
    IN_FOLDER, LOOSE, f"{D}/02_qkv.ipynb", f"陳 大文_{D}/02_qkv.ipynb", f"{D} 陳 大文 補交/02_qkv.ipynb", f"{D}_02_qkv.ipynb",
]  # fmt: skip
CLASS = {f"{id_} {name}/02_qkv.ipynb": id_ for id_, name in ((A, "王小明"), (B, "李冠廷"), (C, "黃詩涵"))}
for first, again in permutations(FORMS, 2):
    HONEST[f"{first}, then {again}"] = [
        ({**CLASS, first: D}, {**{id_: path for path, id_ in CLASS.items()}, D: first}), ({again: D}, {D: again})
    ]  # fmt: skip
    HONEST[f"{first} beside {again}"] = [
        ({**CLASS, first: D, again: D}, {**{i: path for path, i in CLASS.items()}, D: again})
    ]


# One sends work by mail, in the next week two do: typed, or the second not.
def by_mail(form: str, typed: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    people = {id_: f"{id_},{name}" for id_, name in ((A, "王小明"), (B, "李冠廷"), (C, "黃詩涵"))}
    runs = []
    for lesson, many in zip(LESSONS, (1, 2)):
        paths = {
            id_: ("email/" if n < many else "")
            + form.format(id=id_, name=people[id_][10:], lesson=lesson, n=n)
            + ".ipynb"
            for n, id_ in enumerate(people)
        }
        files = {path: people[id_] for id_, path in paths.items()}
        if many == 2 and not typed:
            files[paths[B]] = ""
        runs.append((files, paths))
    return runs


for form, typed in product(("{id}_{name}_{lesson}", "{name}_{lesson}", "{lesson} ({n})"), ("typed", "")):
    if typed or "(" not in form:
        HONEST[f"two by mail, {form} {typed}"] = by_mail(form, typed)


def collect_weeks(tmp_path: Path, lessons: Path, weeks: list[dict[str, str]]) -> list[list[Submission]]:
    """The rows of piles ({path: id and name that are typed there}) that are graded one after the other."""
    found: list[list[Submission]] = []
    for number, files in enumerate(weeks):
        pile = tmp_path / f"pile{number}"
        pile.mkdir()
        for day, (path, typed) in enumerate(files.items()):
            student, _, name = typed.partition(",")
            notebook = handed_in("03_sqrt_dk" if "03_sqrt_dk" in path else "02_qkv", student=student)
            setup = cell_at(notebook, "setup")
            setup["source"] = setup["source"].replace('NAME = ""', f'NAME = "{name}"')
            outer, _, inner = path.partition(".zip/")
            if inner:
                (pile / outer).parent.mkdir(exist_ok=True)
            file = zipped(pile / f"{outer}.zip", {inner: notebook}) if inner else put(pile / path, notebook)
            os.utime(file, (10**9 + 1000 * number + day,) * 2)
        found.append(collect(pile, lessons, before=[row for rows in found for row in rows]))
    return found


@pytest.mark.parametrize("runs", HONEST.values(), ids=HONEST.keys())
def test_an_honest_pile_gives_each_student_a_row(
    tmp_path: Path, lessons: Path, runs: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    weeks = collect_weeks(tmp_path, lessons, [files for files, _ in runs])
    for (_, expected), rows in zip(runs, weeks):
        graded = {row.student_id: row.source for row in rows if row.status == "ok"}
        assert graded == expected and not [row.remark for row in rows if "claim" in row.remark]
        assert sum(row.status == "ok" for row in rows) == len(graded)


BY_ID, CALLED = "The id alone says that it is the same student's as {}.", "What was called so had the id {} before."
# Piles of one class after the other (a file called after lesson 03 is of it), and who is told what in the last one.
CHANGES: dict[str, tuple[list[dict[str, str]], dict[str, str]]] = {
    "another's id typed in an account's folder, while he forgets it": (
        [
            {"annw/02_qkv.ipynb": f"{A},王小明", "bobli/02_qkv.ipynb": f"{B},李冠廷", "leea/02_qkv.ipynb": f"{F},Ann Lee"},
            {"annw/03_sqrt_dk.ipynb": "", "bobli/03_sqrt_dk.ipynb": f"{B},李冠廷", "leea/03_sqrt_dk.ipynb": f"{A},王小明"},
        ],
        {"annw/03_sqrt_dk.ipynb": CALLED.format(A), "leea/03_sqrt_dk.ipynb": BY_ID.format("annw/02_qkv.ipynb")},
    ),
    "the number of who is absent in a file's name": (
        [
            {"王小明/02_qkv.ipynb": f"{A},王小明", "李冠廷/02_qkv.ipynb": f"{B},李冠廷", "Ann Lee/02_qkv.ipynb": f"{F},Ann Lee"},
            {"李冠廷/03_sqrt_dk.ipynb": f"{B},李冠廷", f"Ann Lee/{A}_03_sqrt_dk.ipynb": ""},
        ],
        {f"Ann Lee/{A}_03_sqrt_dk.ipynb": BY_ID.format("王小明/02_qkv.ipynb")},
    ),
    **{
        f"{path.format('annw')} forgets the id": (
            [
                {path.format("annw"): f"{A},王小明", path.format("bobli"): f"{B},李冠廷"},
                {path.format("annw").replace("02_qkv", "03_sqrt_dk"): "", path.format("bobli").replace("02_qkv", "03_sqrt_dk"): B},
            ],
            {path.format("annw").replace("02_qkv", "03_sqrt_dk"): CALLED.format(A)},
        )
        for path in ("{}/02_qkv.ipynb", "{}.zip/02_qkv.ipynb", "{}_02_qkv.ipynb")
    },
    "the only one of a section, in the next week another": (
        [
            {"Team Beta/王小明_02_qkv.ipynb": "", "Team Alpha/李冠廷_02_qkv.ipynb": B, "Team Alpha/黃詩涵_02_qkv.ipynb": C},
            {"Team Beta/李冠廷_03_sqrt_dk.ipynb": "", "Team Alpha/王小明_03_sqrt_dk.ipynb": A, "Team Alpha/黃詩涵_03_sqrt_dk.ipynb": C},
        ],
        {"Team Beta/李冠廷_03_sqrt_dk.ipynb": BY_ID.format("Team Beta/王小明_02_qkv.ipynb")},
    ),
    **{
        f"one after the other in {folder}": (
            [{f"{A}_02_qkv.ipynb": "", f"{B}_02_qkv.ipynb": "", f"{folder}/Ann Lee_02_qkv.ipynb": ""},
             {f"{A}_03_sqrt_dk.ipynb": "", f"{B}_03_sqrt_dk.ipynb": "", f"{folder}/林佳穎_03_sqrt_dk.ipynb": ""}],
            {f"{folder}/林佳穎_03_sqrt_dk.ipynb": BY_ID.format(f"{folder}/Ann Lee_02_qkv.ipynb")},
        ) for folder in ("Mail from TA", "DL2026")
    },
}  # fmt: skip


@pytest.mark.parametrize(("weeks", "told"), CHANGES.values(), ids=CHANGES.keys())
def test_no_id_changes_hands_untold(
    tmp_path: Path, lessons: Path, weeks: list[dict[str, str]], told: dict[str, str]
) -> None:
    """And again where the same pile is graded again."""
    for rows in collect_weeks(tmp_path, lessons, [*weeks, weeks[-1]])[len(weeks) - 1 :]:
        assert {row.source: row.remark for row in rows if row.remark} == told


@pytest.mark.parametrize("typed", ["all", ""])
@pytest.mark.parametrize(
    "path",
    [
        "{id}_{name}_{lesson}.ipynb", "{name}/{lesson}.ipynb", "{id} {name}/{lesson}.ipynb", "{account}.zip/{lesson}.ipynb",
        "{section}/{name}_{lesson}.ipynb", "{name}_{id}_assignsubmission_file/{lesson}.ipynb",
    ],
)  # fmt: skip
def test_of_who_comes_again_nothing_is_told(tmp_path: Path, lessons: Path, path: str, typed: str) -> None:
    """Also where one has changed the section, and one comes late."""
    people = [(A, "王小明", "annw"), (B, "李冠廷", "bobli"), (C, "黃詩涵", "cathy"), (D, "陳大文", "dwen")]
    weeks: list[dict[str, str]] = []
    for week, lesson in enumerate(LESSONS):
        files = {}
        for number, (id_, name, account) in enumerate(people):
            section = f"Section {'AABB'[number - week]}"
            number_ = id_.removeprefix("B") if "assign" in path else id_
            own = path.format(id=number_, name=name, account=account, section=section, lesson=lesson)
            files[f"late/{own}" if week and number == 3 and "assign" not in path else own] = typed and f"{id_},{name}"
        weeks.append(files)
    first, *later = collect_weeks(tmp_path, lessons, [*weeks, weeks[-1]])
    ids = {row.student_id for row in first}
    assert len(ids) == 4
    for rows in later:
        assert {row.student_id for row in rows} == ids and not [row.remark for row in rows if row.remark]


@pytest.mark.hostile
def test_who_had_an_id_keeps_it_also_where_another_folder_s_student_types_it(tmp_path: Path, lessons: Path) -> None:
    """In the same lesson and in the next; who typed it, and no name, may be another than in the week before: they have neither."""
    for path, typed in BY_NAME.items():
        put(tmp_path / "one" / path, handed_in(student=typed.partition(",")[0]))
    before = collect(tmp_path / "one", lessons)
    for lesson in LESSONS:
        for path, typed in BY_NAME.items():
            student = A if path.startswith("Eve") else typed.partition(",")[0]
            put(tmp_path / lesson / path, handed_in(lesson, student=student, answer=WRONG))
        ids = {row.source.split("/")[0]: row.student_id for row in collect(tmp_path / lesson, lessons, before=before)}
        assert ids == {"王小明": A, "李冠廷": B, "Eve": "Eve"}


# What others' folders hold beside it: {path: what is typed there}, and whose folder it is.
FOLDERS: dict[str, tuple[str, dict[str, str]]] = {
    f"{folder}, {name}": (
        victim.format(id=A, name="王小明"),
        {f"{folder}/{mine}": own, f"{folder}/{name.format(id=A, name='王小明')}": A},
    )
    for victim, folder, mine, own in (
        ("{name}/02_qkv.ipynb", "Eve", "02_qkv.ipynb", G),
        ("{name}/02_qkv.ipynb", "Zoe", "李冠廷_x_03_sqrt_dk.ipynb", "B99901009"),
        ("{id} {name}/02_qkv.ipynb", f"{G} Eve", "x_03_sqrt_dk.ipynb", "B99901009"),
        ("{id}/02_qkv.ipynb", G, "x_03_sqrt_dk.ipynb", "B99901009"),
        ("{id}_{name}_02_qkv.ipynb", "Eva", "02_qkv.ipynb", G),
        ("{name}_02_qkv.ipynb", "Ann", "02_qkv.ipynb", G),
        ("夜間部/{name}/02_qkv.ipynb", "夜間部/Eve", "02_qkv.ipynb", G),
        ("{name}/{id}_02_qkv.ipynb", "Amy", "02_qkv.ipynb", G),
    )
    for name in (
        "{name}_02_qkv.ipynb", "{id}_{name}_02_qkv.ipynb", "{id}_02_qkv.ipynb", "02_qkv (1).ipynb", "old/02_qkv.ipynb",
        "{name}/02_qkv.ipynb", "{id} {name}/02_qkv.ipynb", "x/02_qkv.ipynb",
    )
}  # fmt: skip


@pytest.mark.hostile
@pytest.mark.parametrize(("victim", "hers"), FOLDERS.values(), ids=FOLDERS.keys())
def test_what_lies_in_another_s_folder_supersedes_nobody(
    tmp_path: Path, lessons: Path, victim: str, hers: dict[str, str]
) -> None:
    """In one run, after an honest one, and alone after it; both are told."""
    people = [(B, "李冠廷"), (C, "黃詩涵"), (D, "陳大文"), *((f"B1290200{n}", "ABCDEF"[n] + "li") for n in range(6))]
    others = {victim.replace(A, id_).replace("王小明", name): id_ for id_, name in people}

    def rows_of(place: str, files: dict[str, str], before: list[Submission]) -> dict[str, Submission]:
        for day, (path, student) in enumerate(files.items()):
            lesson = "03_sqrt_dk" if "03_sqrt_dk" in path else "02_qkv"
            os.utime(put(tmp_path / place / path, handed_in(lesson, student=student)), (10**9 + day,) * 2)
        return {row.source: row for row in collect(tmp_path / place, lessons, before=before)}

    thief = [*hers][-1]
    honest = {victim: A, **others}
    before = [*rows_of("honest", honest, []).values()]
    for place, known in (("one", []), ("two", before)):
        rows = rows_of(place, {**honest, **hers}, known)
        assert {path: (rows[path].student_id, rows[path].status) for path in honest} == {
            path: (id_, "ok") for path, id_ in honest.items()
        }
        assert rows[thief].student_id not in honest.values() and rows[thief].status == "ok"
        told = f"claims the id {A}" in rows[thief].remark and thief in rows[victim].remark
        assert told or rows[thief].student_id == thief.split("/")[-2]
    late = rows_of("late", {**hers, "Zoe_x/02_qkv.ipynb": "b77"}, before)
    assert late[thief].student_id != A or late[thief].lesson != "02_qkv"


# A class, and what comes late: one student's folder alone, with a classmate's in it.
LATE = {
    f"{late}, known {known}": (
        victim.format(id=A, name="王小明"),
        victim.format(id=G, name="Eve") if known else "",
        late,
    )
    for victim in ("{name}/02_qkv.ipynb", "{id} {name}/02_qkv.ipynb", "{name}.zip/02_qkv.ipynb", "{id}/02_qkv.ipynb")
    for inside in [victim.replace(".zip", "").format(id=A, name="王小明")]
    for late in (f"{victim.split('/')[0].format(id=G, name='Eve')}/{inside}", f"late/{G} Eve/{inside}")
    for known in (True, False)
}


@pytest.mark.hostile
@pytest.mark.parametrize(("victim", "hers", "late"), LATE.values(), ids=LATE.keys())
def test_one_student_s_folder_alone_takes_nobody_s_place_untold(
    tmp_path: Path, lessons: Path, victim: str, hers: str, late: str
) -> None:
    """It is hers where she is known, with another's id typed; else what it replaces is told."""

    def rows_of(place: str, files: dict[str, str], before: list[Submission]) -> dict[str, Submission]:
        for path, student in files.items():
            outer, _, inner = path.partition(".zip/")
            if inner:
                (tmp_path / place).mkdir(exist_ok=True)
                zipped(tmp_path / place / f"{outer}.zip", {inner: handed_in(student=student)})
            else:
                put(tmp_path / place / path, handed_in(student=student))
        return {row.source: row for row in collect(tmp_path / place, lessons, before=before)}

    others = {victim.replace(A, id_).replace("王小明", name): id_ for id_, name in ((B, "李冠廷"), (C, "黃詩涵"))}
    before = rows_of("class", {victim: A, **others, **({hers: G} if hers else {})}, [])
    ((_, row),) = rows_of("late", {late: A}, [*before.values()]).items()
    assert row.student_id != A or by_id_alone(row, before[victim])
    if hers.startswith(G):
        assert row.student_id.startswith(G) and row.notebook_id == A


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("王小明/02_qkv.ipynb", "late/王小明/02_qkv (1).ipynb"),
        (f"{A} 王小明/02_qkv.ipynb", f"{A}_王小明_02_qkv_v2.ipynb"),
        (f"{A}/02_qkv.ipynb", f"HW2/{A}/my own words.ipynb"),
        (f"DL2026/{A}_王小明_02_qkv.ipynb", f"DL2026/late/{A} 王小明/02_qkv.ipynb"),
    ],
)
def test_what_comes_late_in_one_s_own_name_is_no_other_s(tmp_path: Path, lessons: Path, first: str, again: str) -> None:
    put(tmp_path / "class" / first, handed_in(student=A))
    put(tmp_path / "class" / first.replace(A, B).replace("王小明", "李冠廷"), handed_in(student=B))
    before = {row.student_id: row for row in collect(tmp_path / "class", lessons)}
    put(tmp_path / "late" / again, handed_in(student=A, answer=WRONG))
    (row,) = collect(tmp_path / "late", lessons, before=[*before.values()])
    assert row.student_id == A and not by_id_alone(row, before[A])


@pytest.mark.parametrize("typed", ["", A])
@pytest.mark.parametrize("path", ["夜間部/{}_02_qkv.ipynb", "夜間部/{}/02_qkv.ipynb", "夜間部/{}.zip/02_qkv.ipynb"])
def test_a_folder_that_alone_makes_files_one_student_s_is_told(
    pile: Path, lessons: Path, path: str, typed: str
) -> None:
    """Those of two people, as their names say; whoever's words these are, in a folder with a number they are its student's."""
    own = f"{B} 李冠廷/" + path.partition("/")[2]
    for place in (path, own):
        for name, student in (("王小明", typed and (typed if place == path else B)), ("Ann Lee", "")):
            notebook = handed_in(student=student, answer=RIGHT if name == "王小明" else WRONG)
            outer, _, inner = place.format(name).partition(".zip/")
            if inner:
                (pile / outer).parent.mkdir(exist_ok=True)
                zipped(pile / f"{outer}.zip", {inner: notebook})
            else:
                put(pile / outer, notebook)
    rows = collect(pile, lessons)
    assert [row.status for row in rows if "夜間部" in row.source].count("superseded") == 1
    for row in rows:
        assert ("The id alone says that it is the same student's" in row.remark) == ("夜間部" in row.source)


COPIES = ["李冠廷_{}", f"{B}_李冠廷_{{}}", f"{B}_{{}}", "{} (1)", "old/{}"]


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("typed", [B, f"{B},李冠廷"])
def test_a_friend_s_notebook_in_one_s_folder_is_a_row_of_its_own(
    tmp_path: Path, lessons: Path, copy: str, typed: str
) -> None:
    """Newer than both; it costs neither their place, in the first run and after one."""
    student, _, name = typed.partition(",")
    before: list[Submission] = []
    for lesson in LESSONS:
        mine, friend_s = f"王小明/{lesson}.ipynb", f"李冠廷/{lesson}.ipynb"
        paths = {mine: A, friend_s: B, f"黃詩涵/{lesson}.ipynb": C, f"王小明/{copy.format(lesson)}.ipynb": student}
        for day, (path, id_) in enumerate(paths.items()):
            notebook = handed_in(lesson, student=id_)
            setup = cell_at(notebook, "setup")
            setup["source"] = setup["source"].replace('NAME = ""', f'NAME = "{name if id_ == B else ""}"')
            os.utime(put(tmp_path / lesson / path, notebook), (10**9 + day,) * 2)
        rows = {row.source: row for row in collect(tmp_path / lesson, lessons, before=before)}
        *own, copied = rows.pop(mine), rows.pop(friend_s), rows.pop([*paths][-1])
        assert [(row.student_id, row.status) for row in own] == [(A, "ok"), (B, "ok")]
        assert copied.student_id not in (A, B, C) and f"claims the id {B}" in copied.remark
        assert copied.source in own[1].remark
        before += [*own, copied, *rows.values()]


@pytest.mark.hostile
@pytest.mark.parametrize("eve", [f"{D}_Eve_02_qkv.ipynb", f"Eve {D}/02_qkv.ipynb", "02_qkv.ipynb"])
def test_another_name_beside_the_id_is_another_s(pile: Path, lessons: Path, eve: str) -> None:
    for path, student in {**CLASS, IN_FOLDER: D, eve: D}.items():
        put(pile / path, handed_in(student=student))
    rows = {row.source: row for row in collect(pile, lessons)}
    assert all(row.status == "ok" for row in rows.values()) and rows[eve].student_id != D
    assert f"claims the id {D}" in rows[eve].remark


@pytest.mark.hostile
def test_who_types_another_s_id_in_the_folder_of_a_group_supersedes_nobody(pile: Path, lessons: Path) -> None:
    victim, eve = f"Rockets/{A}_王小明.ipynb", f"Rockets/{C}_Eve.ipynb"
    for path, student in {victim: A, eve: A, "Stars/02_qkv.ipynb": B}.items():
        put(pile / path, handed_in(student=student))
    rows = {row.source: row for row in collect(pile, lessons)}
    assert {source: (row.student_id, row.status) for source, row in rows.items() if source != eve} == {
        victim: (A, "ok"), "Stars/02_qkv.ipynb": (B, "ok")
    }  # fmt: skip
    assert rows[eve].status == "ok" and f"claims the id {A}" in rows[eve].remark


def test_an_id_that_was_taken_as_it_was_typed_stays_as_it_is(pile: Path, lessons: Path) -> None:
    put(pile / "02_qkv.ipynb", handed_in(student="b1@school.edu"))
    (row,) = before = collect(pile, lessons)
    row.student_id = row.raw_id = row.notebook_id = f"{A}@school.edu"  # as an earlier version of the grader had it
    put(pile / "02_qkv.ipynb", handed_in(student=f"{A}@school.edu"))
    assert [row.student_id for row in collect(pile, lessons, before=before)] == [f"{A}@school.edu"]


@pytest.mark.hostile
@pytest.mark.parametrize("ids", ["a{}x", "a{}"], ids=["different ids", "ids that look alike once safe"])
def test_thousands_of_notebooks_of_no_lesson_in_one_zip_take_seconds_and_a_row(
    pile: Path, lessons: Path, ids: str
) -> None:
    marks = ["".join(pair) for pair in product("!?#$%&*+~", repeat=4)]
    cells = [ids.format(number if ids.endswith("x") else marks[number]) for number in range(4900)]
    members: dict[str, Any] = {
        f"{number}.ipynb": new_notebook(cells=[new_code_cell(f'STUDENT_ID = "{id_}"', id="setup")])
        for number, id_ in enumerate(cells)
    }
    zipped(pile / "eve.zip", members)
    put(pile / "vic.ipynb", handed_in(student="b1"))
    start = time.process_time()
    rows = {row.source.split("/")[0]: row for row in collect(pile, lessons)}
    assert time.process_time() - start < 15
    assert rows["vic.ipynb"].status == "ok" and "more files of its zip" in rows["eve.zip"].reason
    assert len(collect(pile, lessons)) < 10


@pytest.mark.hostile
@pytest.mark.parametrize(
    "name", ["eve_410912001_12345_02_qkv.ipynb", "Eve_410912001_assignsubmission_file_02_qkv.ipynb"]
)
def test_a_platform_s_name_among_plain_files_takes_nobody_s_place(pile: Path, lessons: Path, name: str) -> None:
    """Not beside the victim's folder, nor after it: in the class again, and alone."""
    for number in range(1, 5):
        put(pile / f"41091200{number}" / "02_qkv.ipynb", handed_in(student=f"41091200{number}"))
    before = collect(pile, lessons)
    put(pile / name, handed_in())
    for known in ([], before):
        ids = {row.source: row.student_id for row in collect(pile, lessons, before=known)}
        assert ids["410912001/02_qkv.ipynb"] == "410912001" and ids[name].casefold() == "eve_410912001"
    late = put(pile.parent / "late" / name, handed_in()).parent
    assert [row.student_id.casefold() for row in collect(late, lessons, before=before)] == ["eve_410912001"]


@pytest.mark.hostile
def test_a_zip_of_ids_that_nobody_had_is_no_export(pile: Path, lessons: Path) -> None:
    """After a class of four twenty made-up ids, beside one file; the class itself in a zip is one."""
    for number in range(4):
        put(pile / f"b{number}.ipynb", handed_in(student=f"b{number}"))
    before = collect(pile, lessons)
    for ids, received in (([f"x{n}" for n in range(20)], 9), ([f"b{n}" for n in range(4)], 1)):
        later = pile.parent / str(received)
        put(later / "late.ipynb", handed_in("03_sqrt_dk", student="b77"))
        members: dict[str, Any] = {f"{id_}.ipynb": handed_in("03_sqrt_dk", student=id_) for id_ in ids}
        os.utime(zipped(later / "hw.zip", members), (datetime(2026, 3, 9).timestamp(),) * 2)
        rows = [row for row in collect(later, lessons, before=before) if row.student_id != "b77"]
        assert {row.received and row.received.day for row in rows} == {received} and len(rows) == len(ids)


@pytest.mark.parametrize("folder", ["Ann.zip", "Ann_1234501_assignsubmission_file_"])
def test_the_blank_twin_in_the_other_language_is_not_graded(pile: Path, lessons: Path, folder: str) -> None:
    """In the student repository it lies beside the answered one, at the same time or later; a blank one alone is graded."""
    blank = json.loads((lessons / "zh-TW" / "02_qkv.ipynb").read_text("utf-8"))
    members: dict[str, Any] = {"lessons/en/02_qkv.ipynb": handed_in(), "lessons/zh-TW/02_qkv.ipynb": blank}
    for name, content in members.items() if not folder.endswith(".zip") else ():
        put(pile / folder / name, content)
    if folder.endswith(".zip"):
        zipped(pile / folder, members)
    put(pile / "Bob_1234502_assignsubmission_file_" / "02_qkv.ipynb", blank)
    rows = {row.source: row for row in collect(pile, lessons)}
    english = f"{folder}/lessons/en/02_qkv.ipynb"
    chinese = rows[f"{folder}/lessons/zh-TW/02_qkv.ipynb"]
    assert rows[english].status == "ok" and chinese.status == "superseded"
    assert chinese.reason == f"Nothing is answered in it; the same student's {english} is graded instead."
    assert "the newest of" not in rows[english].reason
    assert rows["Bob_1234502_assignsubmission_file_/02_qkv.ipynb"].status == "ok"


@pytest.mark.hostile
def test_a_number_for_who_has_no_id_is_nobody_else_s(pile: Path, lessons: Path) -> None:
    for number in (1, 2):
        put(pile / f"02_qkv ({number}).ipynb", handed_in())
    before = collect(pile, lessons)
    put(pile / "02_qkv (0).ipynb", handed_in())  # comes first
    put(pile / "unknown-1.ipynb", handed_in())
    put(pile / "02_qkv (3).ipynb", handed_in(student="unknown-2"))
    ids = {row.source: row.student_id for row in collect(pile, lessons, before=before)}
    assert [ids[f"02_qkv ({number}).ipynb"] for number in (0, 1, 2)] == ["unknown-3", "unknown-1", "unknown-2"]
    assert len(set(ids.values())) == 5
    for number in (1, 2):
        (pile / f"02_qkv ({number}).ipynb").unlink()
    assert not {"unknown-1", "unknown-2"} & {row.student_id for row in collect(pile, lessons, before=before)}


@pytest.mark.hostile
def test_a_path_neither_acts_on_the_terminal_nor_turns_its_text(pile: Path, lessons: Path) -> None:
    put(pile / "a\x9b2J\u202egnp.ann\u2066.ipynb", handed_in())
    (row,) = collect(pile, lessons)
    assert row.source == "a?2J?gnp.ann?.ipynb"


NAMES = [
    "Q" + first + second + third
    for first in "abcdefgh"
    for second in "abcdefghijklmnopqrstuvw"
    for third in "abcdefghijklmnopqrst"
]
PAIRS = "\n".join(f"{one}={other}" for one, other in pairwise(NAMES))
SLOW = {
    "own cells that answers need": ([PAIRS.replace("=Q", "=R")] * 4, "\ndef use():\n    return (" + ",".join(NAMES) + ")"),
    "a chain of edited cells": ([], "\n" + PAIRS),
    "one line of many statements": ([";".join(["attend=1"] * 4_000)] * 4, ""),
    "brackets": (["v=[" + "[]," * 16_000 + "]#STUDENT_ID"] * 5, ""),
    "many cells": (["\n".join(f"a{i}=b{i}" for i in range(15))] * 1_500, ""),
}  # fmt: skip


@pytest.mark.hostile
@pytest.mark.parametrize(("cells", "more"), SLOW.values(), ids=SLOW.keys())
def test_no_notebook_keeps_the_class_waiting(pile: Path, lessons: Path, cells: list[str], more: str) -> None:
    notebook = handed_in()
    cell_at(notebook, "answer-attend")["source"] += more
    cell_at(notebook, "c-003")["source"] += "\n" + PAIRS if more else ""
    notebook["cells"] += [code(source) for source in cells]
    start = time.process_time()
    row = one(pile, lessons, notebook)
    assert row.notebook is not None
    assert time.process_time() - start < 10


@pytest.mark.hostile
def test_many_notebooks_of_one_student_are_not_all_read(tmp_path: Path, pile: Path, lessons: Path) -> None:
    notebook = handed_in()
    notebook["cells"] += [code("v=[" + "[]," * 16_000 + "]#STUDENT_ID")] * 5
    zipped(pile / "eve.zip", {f"{number}/02_qkv.ipynb": notebook for number in range(30)})
    put(pile / "vic" / "02_qkv.ipynb", handed_in())
    start = time.process_time()
    rows = collect(pile, lessons)
    assert time.process_time() - start < 20
    assert [(row.student_id, row.status) for row in rows if row.notebook is not None] == [("eve", "ok"), ("vic", "ok")]
    (many,) = [row.reason for row in rows if "too many" in row.reason]
    assert many == "This student's notebooks are too many to be read; nor are 25 more files of its zip read."


@pytest.mark.hostile
def test_many_notebooks_in_a_folder_of_several_are_not_all_read_either(pile: Path, lessons: Path) -> None:
    """Each is called otherwise; who has the id typed in them keeps their own."""
    for number in range(60):
        put(pile / "Eve" / f"a{number}b_02_qkv.ipynb", handed_in(student=A))
    put(pile / "Eve" / "x_02_qkv.ipynb", handed_in(student=B))
    put(pile / "王小明" / "02_qkv.ipynb", handed_in(student=A))
    rows = collect(pile, lessons)
    assert sum("too many" in row.reason for row in rows) == 20
    assert [row.student_id for row in rows if row.source == "王小明/02_qkv.ipynb" and row.status == "ok"] == [A]


@pytest.mark.hostile
def test_too_much_code_or_pictures_cost_only_their_own_row(pile: Path, lessons: Path) -> None:
    much, many = handed_in(), handed_in()
    much["cells"] += [code("x = 1\n" * 8_000)] * 7
    picture = {"a.png": {"image/png": "A" * 2**20}}
    many["cells"] += [text("![a](attachment:a.png)", attachments=picture)] * 21
    put(pile / "ann" / "02_qkv.ipynb", much)
    put(pile / "bob" / "02_qkv.ipynb", many)
    put(pile / "cat" / "02_qkv.ipynb", handed_in())
    rows = collect(pile, lessons)
    assert [row.status for row in rows] == ["unreadable", "unreadable", "ok"]
    assert "300,000 characters" in rows[0].reason and "20 MB" in rows[1].reason


# --- files that ask for more than their share ---------------------------------------------------------------------------


def listed(names: list[bytes]) -> bytes:
    """A zip with one empty member that its directory lists under all these names."""
    local = b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0) + b"a"
    head = "<HHHHHHIIIHHHHHII"
    entries = [
        b"PK\1\2" + struct.pack(head, 20, 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0) + name
        for name in names
    ]
    directory, count = b"".join(entries), min(len(names), 0xFFFF)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(local), 0)
    return local + directory + b"PK\5\6" + end


def steps(function: Callable[..., Any], *arguments: Any) -> int:
    """Lines of Python that a call runs, those of what it calls included."""
    count = 0

    def traced(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.hostile
def test_a_zip_member_without_a_name_is_a_row(pile: Path, lessons: Path) -> None:
    (pile / "s1").mkdir()
    (pile / "s1" / "hw.zip").write_bytes(listed([b"", b".", b"folder/"]))
    put(pile / "s2" / "02_qkv.ipynb", handed_in())
    rows = collect(pile, lessons)
    assert [(row.student_id, row.reason) for row in rows[:2]] == [("s1", "It has no name.")] * 2
    assert (len(rows), rows[2].status) == (3, "ok")


@pytest.mark.hostile
def test_what_nobody_has_thought_of_costs_only_its_own_row(
    pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trip(function: Callable[[Any], Any], over: bytes) -> Callable[[Any], Any]:
        def tripping(value: Any) -> Any:
            if over in str(value).encode():
                raise LookupError
            return function(value)

        return tripping

    monkeypatch.setattr(drafts, "_notebook_cells", trip(drafts._notebook_cells, b"odd cell"))
    monkeypatch.setattr(pile_module, "member_name", trip(pile_module.member_name, b"odd name"))
    odd = handed_in()
    odd["cells"].append(code("odd cell"))
    put(pile / "s1" / "02_qkv.ipynb", odd)
    put(pile / "s2" / "02_qkv.ipynb", handed_in())
    zipped(pile / "s3.zip", {"odd name.ipynb": handed_in()})
    first, second, third = collect(pile, lessons)
    assert (first.status, first.reason) == ("unreadable", "It cannot be read (LookupError).")
    assert second.status == "ok"
    assert third.reason.startswith("It is not a zip file, or a damaged one")


@pytest.mark.hostile
def test_thousands_of_names_in_one_zip_are_one_row_and_the_others_are_read(
    tmp_path: Path, pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pile_module, "COUNT_LIMIT", 400)
    inner = {"i.zip": listed([b"a.pdf"] * 1000)}
    for name in ("eve", "eve/more"):
        (pile / name).mkdir(parents=True, exist_ok=True)
        zipped(pile / name / "hw.zip", inner)
    (pile / "vic").mkdir()
    zipped(pile / "vic" / "hw.zip", {"02_qkv.ipynb": handed_in()})
    assert (pile / "eve" / "hw.zip").stat().st_size < (pile / "vic" / "hw.zip").stat().st_size  # so it is read first
    rows = collect(pile, lessons)
    assert [row.status for row in rows if row.student_id == "vic"] == ["ok"]
    many = [row.reason for row in rows if "eve/hw.zip" in row.source]
    # a quarter of a quarter, the zip itself counted
    assert many.count("It is a .pdf file, not a notebook; nor are 23 more files of its zip read.") == 1
    assert many.count("Its zip holds more files than are read of one.") == 1 and len(many) == 2


@pytest.mark.hostile
@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("deep", ["", "{n}/"])
def test_thousands_of_files_in_one_folder_keep_nobody_else_s_from_being_read(
    tmp_path: Path, pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch, form: str, deep: str
) -> None:
    """Each of one byte, and so before all others by its size."""
    monkeypatch.setattr(pile_module, "COUNT_LIMIT", 300)
    members = {f"eve/{deep.format(n=n)}{n}.ipynb": "x" for n in range(400)}
    members |= {f"s{n}/02_qkv.ipynb": json.dumps(handed_in()) for n in range(3)}
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
    for name, text in members.items() if form == "folder" else ():
        (pile / name).parent.mkdir(parents=True, exist_ok=True)
        (pile / name).write_text(text)
    rows = collect(tmp_path / "class.zip" if form == "zip" else pile, lessons)
    assert {row.student_id: row.status for row in rows if row.student_id[0] == "s"} == dict.fromkeys(
        ("s0", "s1", "s2"), "ok"
    )


@pytest.mark.hostile
@pytest.mark.parametrize("file", ["{typed}_02_qkv.ipynb", "02_qkv ({n}).ipynb", "{typed}/02_qkv.ipynb"])
def test_files_of_an_earlier_lesson_in_one_s_own_folder_take_nobody_s_place(
    tmp_path: Path, lessons: Path, file: str
) -> None:
    """The folders are called by accounts; the class hands in the next lesson, and one in hers the others' of the last."""
    who = {f"acct{n}": f"b1190000{n}" for n in (1, 2, 3, 5)}
    for account, typed in who.items():
        put(tmp_path / "1" / account / "02_qkv.ipynb", handed_in(student=typed))
        put(tmp_path / "2" / account / "03_sqrt_dk.ipynb", handed_in("03_sqrt_dk", student=typed))
    before = collect(tmp_path / "1", lessons)
    ids = {row.source.split("/")[0]: row.student_id for row in before}
    for n, typed in enumerate(list(who.values())[:3]):
        put(tmp_path / "2" / "acct5" / file.format(n=n, typed=typed), handed_in(student=typed, answer=WRONG))
    rows = collect(tmp_path / "2", lessons, before=before)
    assert {row.source.split("/")[0]: row.student_id for row in rows if row.lesson == "03_sqrt_dk"} == ids
    hers = {row.student_id for row in rows if row.lesson == "02_qkv" and row.status == "ok"}
    assert not hers & {ids[account] for account in ("acct1", "acct2", "acct3")}, hers


@pytest.mark.hostile
def test_the_class_page_takes_many_files_of_one_student_one_by_one() -> None:
    """Twice the files are twice the work."""

    def records(count: int) -> list[Record]:
        sources = [f"eve/{n}.pdf" for n in range(count)]
        return [Record("eve", "Eve", "02_qkv", "", source, "unreadable", "Odd.", "") for source in sources]

    for function in (report.page_paths, lambda rows: report.things_to_look_at(rows, [])):
        few, many = steps(function, records(200)), steps(function, records(400))
        assert many < 2.2 * few


@pytest.mark.hostile
def test_the_zips_of_one_student_do_not_use_up_what_the_class_has(
    tmp_path: Path, pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pile_module, "TOTAL_LIMIT", 8 * 2**20)
    bomb = zipped(tmp_path / "i.zip", {f"{n}.ipynb": b" " * 2**18 for n in range(40)}).read_bytes()
    for name in ("eve", "vic"):
        (pile / name).mkdir()
    for number in range(5):
        zipped(pile / "eve" / f"{number}.zip", {"i.zip": bomb})
    zipped(pile / "vic" / "hw.zip", {"02_qkv.ipynb": handed_in()})
    assert (pile / "eve" / "0.zip").stat().st_size < (pile / "vic" / "hw.zip").stat().st_size  # so it is read first
    rows = collect(pile, lessons)
    assert [row.status for row in rows if row.student_id == "vic"] == ["ok"]
    limited = [row.reason for row in rows if "more than the limit" in row.reason]
    assert len(limited) == 5 and sum(int(reason.split("nor are ")[1].split()[0]) for reason in limited) > 145


@pytest.mark.hostile
def test_a_long_list_of_members_is_not_read(
    tmp_path: Path, pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    class Counted(zipfile.ZipInfo):
        def __init__(self, *arguments: Any) -> None:
            nonlocal made
            made += 1
            super().__init__(*arguments)

    zipped(pile / "eve.zip", {"i.zip": listed([b"._"] * 100_000)})
    zipped(pile / "vic.zip", {"02_qkv.ipynb": handed_in()})
    monkeypatch.setattr(zipfile, "ZipInfo", Counted)
    eve, vic = collect(pile, lessons)
    assert (eve.reason, vic.status) == ("The zip file lists too many members to be read.", "ok")
    assert made < 10


@pytest.mark.hostile
@pytest.mark.parametrize(("value", "count"), [("[]", 2_100_000), ("{}", 2_100_000), ('"ab"', 8_100_000)])
def test_json_of_millions_of_values_is_not_parsed(value: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = ",".join([value] * count)
    data = f'{{"nbformat":4,"cells":[],"metadata":{{"x":[{values}]}}}}'.encode()
    monkeypatch.setattr(drafts.json, "loads", lambda *_, **__: pytest.fail("parsed"))
    assert "too many values" in read_draft(File(("a.ipynb",), None, data)).problem


ALIASES = "#   a0: &a0 [x,x]\n#   a1: &a1 [*a0,*a0]\n"
HEADER = f"# ---\n# jupyter:\n{ALIASES}# ---\n"


@pytest.mark.hostile
@pytest.mark.parametrize(
    "header",
    [HEADER, "#!/usr/bin/python\n" + HEADER, HEADER * 3, "#\x0c" + HEADER, HEADER.replace("# -", "#-")],
    ids=["alone", "with a shebang", "three", "behind a form feed", "without blanks"],
)
def test_nobody_s_yaml_is_parsed(header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yaml.safe_load", lambda *_: pytest.fail("parsed"))
    draft = read_draft(File(("a.py",), None, f"{header}\n# %%\na = 1\n\n# %%\nb = 2\n".encode()))
    assert (draft.problem, [cell.source for cell in draft.cells][-2:]) == ("", ["a = 1", "b = 2"])


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("a" * 300_001, "300,000 characters"),
        ("a\n" * 5_001, "5000 lines"),
        ("a\n\n" * 2_001, "2000 cells"),
        ("# %%\n" * 2_001, "2000 cells"),
        ("# In[1]:\na\n" * 2_001, "2000 cells"),
    ],
    ids=["characters", "lines", "paragraphs", "marks", "numbers"],
)
def test_a_script_that_is_none_is_not_taken_apart(script: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupytext.reads", lambda *_, **__: pytest.fail("taken apart"))
    assert words in read_draft(File(("a.py",), None, script.encode())).problem


@pytest.mark.hostile
@pytest.mark.parametrize("mark", ["# + ", "#  + ", "# %% ", "# region "])
def test_what_is_said_of_a_cell_of_a_script_is_short(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupytext takes time with the square of its length."""
    longest = []
    reads = jupytext.reads
    monkeypatch.setattr(
        "jupytext.reads", lambda text, fmt: longest.append(max(map(len, text.split("\n")))) or reads(text, fmt)
    )
    draft = read_draft(File(("a.py",), None, (mark + "a=1 b=2 c=" * 20_000 + "\nx = 1").encode()))
    assert draft.problem == "" and longest[0] <= drafts.MARK_LIMIT


@pytest.mark.hostile
def test_long_names_and_folders_in_folders_are_cut(tmp_path: Path, pile: Path, lessons: Path) -> None:
    names = ["1" + "_123_123_" * 6600 + "\n.ipynb", "a/" * 30_000 + "02_qkv.ipynb"]
    zipped(pile / "eve.zip", dict.fromkeys(names, handed_in()))
    put(pile / "vic" / "02_qkv.ipynb", handed_in())
    long, deep, fine = sorted(collect(pile, lessons), key=lambda row: row.source)
    assert deep.reason == "It lies in too many folders." and deep.source.count("/") <= 41
    assert len(long.source) <= 255 + len("eve.zip/")
    assert (long.status, fine.status) == ("ok", "ok")


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["mimetype", "[Content_Types].xml"])
def test_a_file_called_as_in_a_docx_does_not_make_the_class_one(tmp_path: Path, lessons: Path, name: str) -> None:
    file = zipped(tmp_path / "p.zip", {"b1.ipynb": handed_in(student="b1"), name: b""})
    assert sorted(row.status for row in collect(file, lessons)) == ["ok", "unreadable"]
    with pytest.raises(CollectError, match="neither a folder nor a zip"):
        collect(zipped(tmp_path / "p.docx", {name: b"", "word/document.xml": b"<x/>"}), lessons)


@pytest.mark.parametrize("packed", [False, True])
def test_a_notebook_with_a_name_of_litter_is_a_row(tmp_path: Path, pile: Path, lessons: Path, packed: bool) -> None:
    work = [".ann/02_qkv.ipynb", "Thumbs.db/02_qkv.ipynb", "._cat.ipynb", ".dan.zip"]
    litter = {
        "__MACOSX/02_qkv.ipynb": handed_in(), "b/.ipynb_checkpoints/02_qkv.ipynb": handed_in(), ".git/config": b"x",
        "._bob.ipynb": b"\0\5\x16\7\0\2", "._hw.zip": b"\0\5\x16\7\0\2", ".venv/lib/x.py": b"x = 1",
    }  # fmt: skip
    inner = zipped(tmp_path / "i.zip", {"02_qkv.ipynb": handed_in(student="b4")}).read_bytes()
    notebooks = {name: handed_in(student=f"b{number}") for number, name in enumerate(work, start=1)}
    members: dict[str, Any] = notebooks | {".dan.zip": inner} | litter
    if packed:
        rows = collect(zipped(tmp_path / "p.zip", members), lessons)
    else:
        for name, content in members.items():
            (pile / name).parent.mkdir(parents=True, exist_ok=True)
            (pile / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        rows = collect(pile, lessons)
    assert sorted(row.source.removesuffix("/02_qkv.ipynb") for row in rows) == sorted(
        name.removesuffix("/02_qkv.ipynb") for name in work
    )
    assert {row.status for row in rows} == {"ok"}


def test_a_date_that_python_does_not_know(pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(pile / "s1" / "02_qkv.ipynb", handed_in())
    status = os.stat_result([*os.lstat(pile / "s1" / "02_qkv.ipynb")[:7], 0, 300_000_000_000, 0])
    monkeypatch.setattr(Path, "lstat", lambda path: status)
    (row,) = collect(pile, lessons)
    assert row.received == datetime(9999, 1, 1)


# --- what is the course's own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["nbconvert", "percent", "light", "Colab"])
def test_the_course_s_lines_in_a_script_are_not_the_student_s(pile: Path, lessons: Path, style: str) -> None:
    notebook = handed_in()
    at = place(notebook, "answer-attend")
    helper = "import math\n\n\ndef twice(x):\n    return 2 * math.floor(x)"
    notebook["cells"].insert(at, code(helper))
    (pile / "s1").mkdir()
    (pile / "s1" / "02_qkv.py").write_text(as_script(nbformat.from_dict(notebook), style), encoding="utf-8")
    (row,) = collect(pile, lessons)
    found = "\n".join(own(row)).splitlines()
    assert [line for line in found if line in helper.split("\n") and line] == [
        line for line in helper.split("\n") if line
    ]
    assert not {line for line in found if line} & {*SETUP.split("\n"), *DEMO.split("\n"), "import torch"}
    assert source_of(row, "answer-attend").rstrip() == RIGHT.format(name="attend")


@pytest.mark.hostile
def test_a_notebook_that_was_rebuilt_is_rebuilt_as_it_is(lessons: Path) -> None:
    """Also where the student's own cells look like the grader's words, like answers or like the course's."""
    frame = load_frames(lessons)["02_qkv"]["en"]
    sources = [
        "# Answered in the cell of attend.", DEMO, 'check("attend", attend)', "attend = attend", "import math",
        STUB.format(name="attend"), WRONG.format(name="attend"), "def attend(q, k, v):\n    return 1", 'answer_02_q1 = "c"',
    ]  # fmt: skip
    for at in range(len(handed_in()["cells"])):
        notebook = handed_in()
        notebook["cells"][at:at] = [code(source, id=f"own-{n}") for n, source in enumerate(sources)]
        first = rebuild(frame, read_draft(File(("a.ipynb",), None, json.dumps(notebook).encode())).cells).notebook
        saved = read_draft(File(("a.ipynb",), None, nbformat.writes(first).encode())).cells
        again = rebuild(frame, saved, kept=True).notebook
        assert [(cell.id, cell.source) for cell in again.cells] == [(cell.id, cell.source) for cell in first.cells]


# --- what else lies in a student's zip -------------------------------------------------------------------------------


def test_in_a_zip_of_the_student_repository_the_answered_notebook_counts(pile: Path, lessons: Path) -> None:
    """Not the course's own exercises, nor its untouched lessons, nor scripts of no lesson whose names fit."""
    course = LESSONS_OF_THE_COURSE.parent
    names = ["autograder/exercises/l02_qkv.py", "course_lib/beyond.py", "constraints.txt", "LICENSE"]
    names += [f"lessons/{language}/03_sqrt_dk.ipynb" for language in PLACEHOLDER] + ["lessons/zh-TW/02_qkv.ipynb"]
    files: dict[str, Any] = {f"student/{name}": (course / name).read_bytes() for name in names}
    of_an_older_release = 'LESSON = "03_sqrt_dk"\n' + RIGHT.format(name="scale")
    files["student/autograder/exercises/l03_sqrt_dk.py"] = of_an_older_release.encode()
    files["student/README.md"] = b"# Transformers"
    files["student/lessons/en/02_qkv.ipynb"] = handed_in(student="b11900001")
    files["student/my_tools.py"] = RIGHT.format(name="attend").encode()
    zipped(pile / "Ann.zip", files)
    zipped(pile / "Bob.zip", {"02_qkv.ipynb": handed_in(student="b11900002")})
    rows = [row for row in collect(pile, lessons) if row.hand == "Ann.zip"]
    assert {row.source.removeprefix("Ann.zip/student/"): (row.lesson, row.reason) for row in rows} == {
        "lessons/en/02_qkv.ipynb": ("02_qkv", "Read as handed in."),
        "my_tools.py": ("02_qkv", "It is a .py file, not a notebook."),
        "README.md": ("02_qkv", "It is a .md file, not a notebook."),
    }
    assert {row.student_id for row in rows} == {"b11900001"}


def test_an_untouched_notebook_that_is_all_there_is_has_its_row(pile: Path, lessons: Path) -> None:
    untouched = (LESSONS_OF_THE_COURSE / "en" / "02_qkv.ipynb").read_bytes()
    zipped(pile / "Ann.zip", {"02_qkv.ipynb": untouched})
    zipped(pile / "Bob.zip", {"02_qkv.ipynb": handed_in(student="b11900002")})
    assert [row.lesson for row in collect(pile, lessons) if row.hand == "Ann.zip"] == ["02_qkv"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("Ann.zip/02_qkv.py", "ok"),
        ("Ann_02_qkv.zip/answers.py", "ok"),
        ("Ann.zip/answers.py", "unreadable"),
        ("Ann.zip/02_qkv/site-packages/02_qkv.py", None),
    ],
)
def test_a_script_in_a_zip_names_its_lesson(pile: Path, lessons: Path, path: str, status: str | None) -> None:
    zip_, _, member = path.partition("/")
    script = as_script(nbformat.from_dict(handed_in()), "percent")
    script = "\n".join(line for line in script.split("\n") if "LESSON" not in line).encode()
    zipped(pile / zip_, {member: script, "x.pdf": b""})
    put(pile / "vic" / "02_qkv.ipynb", handed_in())
    found = {row.source: row.status for row in collect(pile, lessons)}
    assert (found.get(path) or "").replace("repaired", "ok") == (status or "")


def test_beside_a_notebook_a_script_of_no_lesson_does_not_count(pile: Path, lessons: Path) -> None:
    zipped(
        pile / "Ann_02_qkv.zip", {"02_qkv.ipynb": handed_in(), "lib/tools.py": b"def attend(q, k, v):\n    return q"}
    )
    put(pile / "vic" / "02_qkv.ipynb", handed_in())
    rows = [row for row in collect(pile, lessons) if row.hand == "Ann_02_qkv.zip"]
    assert [(row.status, row.reason) for row in rows] == [
        ("ok", "Read as handed in."), ("unreadable", "It is a .py file, not a notebook."),
    ]  # fmt: skip


@pytest.mark.hostile
def test_no_number_of_scripts_keeps_a_notebook_from_being_read(pile: Path, lessons: Path) -> None:
    files: dict[str, Any] = {f"a/02_qkv ({n}).py": RIGHT.format(name="attend").encode() for n in range(45)}
    zipped(pile / "Ann.zip", {**files, "z/02_qkv.ipynb": handed_in()})
    put(pile / "vic" / "02_qkv.ipynb", handed_in())
    rows = [row for row in collect(pile, lessons) if row.hand == "Ann.zip"]
    assert [row.source for row in rows if row.status == "ok"] == ["Ann.zip/z/02_qkv.ipynb"]


def test_a_zip_of_one_class_beside_another_class_is_read(pile: Path, lessons: Path) -> None:
    zipped(pile / "classA.zip", {f"02_qkv ({n}).ipynb": handed_in(student=f"b119000{n:02}") for n in range(60)})
    for n in range(16):
        put(pile / "classB" / f"02_qkv ({n}).ipynb", handed_in(student=f"b119001{n:02}"))
    rows = collect(pile, lessons)
    assert len(rows) == len({row.student_id for row in rows}) == 76 and {row.status for row in rows} == {"ok"}


@pytest.mark.hostile
def test_a_zip_has_so_much_code_whatever_ids_it_holds(
    pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.pipeline.collect.ZIP_CODE", 60_000)
    zipped(pile / "eve.zip", {f"02_qkv ({n}).ipynb": handed_in(student=f"x{n}") for n in range(5)})
    for n in range(4):
        put(pile / f"02_qkv ({n}).ipynb", handed_in(student=f"b{n}"))
    rows = collect(pile, lessons)
    assert sum(row.status == "ok" for row in rows if row.hand == "eve.zip") == 3
    assert sum(row.reason == "Its zip holds too much text to be read." for row in rows) == 2
    assert sum(row.status == "ok" for row in rows) == 7


def test_a_zip_with_thousands_of_other_files_is_read_and_has_few_rows(
    pile: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a virtual environment: small files, which come before the notebook by their size and in the zip."""
    monkeypatch.setattr(pile_module, "NESTED_COUNT", 100)
    other: dict[str, Any] = {f"hw/venv/lib/m{n}.pyc": b"x" for n in range(150)}
    zipped(pile / "Ann.zip", {**other, "hw/02_qkv.ipynb": handed_in(student="b11900001")})
    data: dict[str, Any] = {f"{n}.png": b"" for n in range(40)} | {"report.pdf": b"", "notes.pdf": b""}
    zipped(pile / "Bob.zip", {**data, "02_qkv.ipynb": handed_in(student="b11900002")})
    rows = collect(pile, lessons)
    assert {row.student_id for row in rows} == {"b11900001", "b11900002"}
    shared = "It is a .pyc file, not a notebook; nor are 98 more files of its zip read."
    assert sorted((row.hand, row.reason) for row in rows) == [
        ("Ann.zip", shared),
        ("Ann.zip", "Its zip holds more files than are read of one."),
        ("Ann.zip", "Read as handed in."),
        ("Bob.zip", "It is a .pdf file, not a notebook."),
        ("Bob.zip", "It is a .pdf file, not a notebook."),
        ("Bob.zip", "It is a .png file, not a notebook; nor are 39 more files of its zip read."),
        ("Bob.zip", "Read as handed in."),
    ]
    assert report.in_chinese(shared) == "這是 .pyc 檔，不是筆記本；同一個 zip 檔另有 98 個檔案也沒有讀取。"


@pytest.mark.hostile
def test_invented_kinds_of_files_have_so_many_rows(pile: Path, lessons: Path) -> None:
    kinds: dict[str, Any] = {f"x.{chr(97 + n % 26)}{chr(97 + n // 26)}q": b"" for n in range(400)}
    zipped(pile / "Eve.zip", {**kinds, "02_qkv.ipynb": handed_in()})
    put(pile / "vic" / "02_qkv.ipynb", handed_in())
    rows = [row for row in collect(pile, lessons) if row.hand == "Eve.zip"]
    assert len(rows) == 41 and sum("nor are 360 more files" in row.reason for row in rows) == 1


def test_files_of_a_class_in_a_zip_have_a_row_each(pile: Path, lessons: Path) -> None:
    """In the export of a class one file is one student's."""
    files: dict[str, Any] = {f"x{n}_1234{n}_777_hw.pdf": b"" for n in range(8)}
    more: dict[str, Any] = {f"y{n}_2234{n}_777_02_qkv.ipynb": handed_in() for n in range(8)}
    zipped(pile / "class.zip", {**files, **more})
    rows = collect(pile, lessons)
    assert len(rows) == 16 and sum(row.reason == "It is a .pdf file, not a notebook." for row in rows) == 8
