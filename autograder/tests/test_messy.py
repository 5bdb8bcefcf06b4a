"""Messy but honest submissions through the whole of `grade`: each gets its row, its status and its exact points.

`MESS` is the table: a line for each student of one class, zipped as Moodle exports it and graded once. What is not said in
a line is right: the notebook is the solved lesson, and every exercise that `lost` does not name has full points.
`pytest -m messy` counts the cases.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any

import jupytext
import nbformat
import pytest
from nbconvert import PythonExporter

from autograder import get
from autograder.pipeline.demo import QKV, SCALE, SNIPPETS, Student, as_html, graded_cells, of_another_course, released
from autograder.pipeline.grading import grade
from autograder.pipeline.records import Record
from autograder.tests.test_collect import as_colab, cell_at, code, legacy_zip, place, stripped, text, zipped
from autograder.tests.test_demo import read_table
from autograder.tests.test_sandbox import NOISY, RIGHT

pytestmark = [pytest.mark.slow, pytest.mark.messy, pytest.mark.xdist_group("messy")]

Notebook = dict[str, Any]
Change = Callable[[Notebook], Any]  # of a solved notebook: into another one, or into the bytes of a file


@dataclass(frozen=True)
class Case:
    """What one student hands in, and what the grader has to say about it.

    Attributes:
        change: what the student, or a program of theirs, made of the solved notebook.
        status: in files.csv; "ok" and "repaired" are graded.
        word: that the reason must hold (a pattern, in any case).
        lost: exercises without points, each with a word of the sentence that the student gets.
        file: its name; `inside`: the path of the notebook in it, where it is a zip.
        older: files that the same student handed in on earlier days.
        separator, encoding: of the path in the zip.
    """

    change: Change
    status: str = "ok"
    word: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)
    lesson: str = QKV
    language: str = "en"
    who: str = "Ann Lee"
    file: str = "02_qkv.ipynb"
    inside: str = ""
    older: Mapping[str, Change] = field(default_factory=dict)
    separator: str = "/"
    encoding: str = "utf-8"

    @property
    def points(self) -> dict[str, float | None]:
        """By exercise; a written answer waits for the instructor, a file that cannot be read has none."""
        if self.status not in ("ok", "repaired"):
            return {}
        waiting = {name for name, written in graded_cells(self.lesson, "en").items() if written}
        full = {name: None if name in waiting else get(name).points for name in graded_cells(self.lesson, "en")}
        return {name: 0.0 if name in self.lost else points for name, points in full.items()}


# ------------------------------------------------------------------------------------------------- what happens to notebooks


@cache
def solved_text(lesson: str, language: str) -> str:
    """A lesson that everything is right in, as Jupyter saves it."""
    written = {"en": "Training absorbs a constant.", "zh-TW": "常數可以由訓練吸收。"}[language]
    return nbformat.writes(Student("", lesson, language, written=written).notebook(""))  # type: ignore[arg-type]


def solved(lesson: str = QKV, language: str = "en") -> Notebook:
    notebook: Notebook = json.loads(solved_text(lesson, language))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


@cache
def stubs(lesson: str) -> dict[str, str]:
    """The answer cells as released, by exercise."""
    cells = json.loads(released(lesson, "en"))["cells"]
    return {cell["id"][7:]: "".join(cell["source"]) for cell in cells if cell["id"].startswith("answer-")}


def untouched(notebook: Notebook) -> Notebook:
    return notebook


def then(*changes: Change) -> Change:
    """One change after the other."""

    def change(notebook: Notebook) -> Any:
        for one in changes:
            notebook = one(notebook)
        return notebook

    return change


def answers(notebook: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell.get("id", "").startswith("answer-")]


def checks(notebook: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell.get("id", "").startswith("check-")]


def answer(name: str, source: str) -> Change:
    """Another text in the answer cell of an exercise."""
    return each(lambda notebook: [cell_at(notebook, f"answer-{name}")], source=source)


def each(which: Callable[[Notebook], list[dict[str, Any]]], **values: Any) -> Change:
    """Set fields of some cells."""

    def change(notebook: Notebook) -> Notebook:
        for cell in which(notebook):
            cell.update(values)
        return notebook

    return change


def added(source: str, above: str) -> Change:
    """A code cell of the student's own above a cell of the course."""

    def change(notebook: Notebook) -> Notebook:
        notebook["cells"].insert(place(notebook, above), code(dedent(source).strip()))
        return notebook

    return change


def above(source: str) -> Change:
    """A code cell of the student's own above all answers."""
    return added(source, "answer-project_qkv")


def at_the_end(source: str) -> Change:
    return added(source, "hand-in")


def typed_into(id: str, old: str, new: str) -> Change:
    """An edit in a cell of the course; "" for `old`: at its end."""

    def change(notebook: Notebook) -> Notebook:
        cell = cell_at(notebook, id)
        assert old in cell["source"]
        cell["source"] = cell["source"].replace(old, new) if old else cell["source"] + new
        return notebook

    return change


def without(which: Callable[[Notebook], list[dict[str, Any]]]) -> Change:
    """Cells deleted."""

    def change(notebook: Notebook) -> Notebook:
        gone = which(notebook)
        return {**notebook, "cells": [cell for cell in notebook["cells"] if cell not in gone]}

    return change


def named(*ids: str) -> Callable[[Notebook], list[dict[str, Any]]]:
    return lambda notebook: [cell_at(notebook, id) for id in ids]


def blank(*names: str, lesson: str = QKV) -> Change:
    """Answers as they were released."""
    return then(*(answer(name, stubs(lesson)[name]) for name in names))


ALL = tuple(stubs(QKV))
WRONG = SNIPPETS["no_softmax"]


def shuffled(notebook: Notebook) -> Notebook:
    random.Random(2).shuffle(notebook["cells"])
    return notebook


def copied(notebook: Notebook) -> Notebook:
    """The answer cell copied with all its metadata: the old one is wrong, the new one right."""
    old = cell_at(notebook, "answer-attend")
    notebook["cells"].insert(place(notebook, "answer-attend") + 1, deepcopy(old) | {"id": "f00"})
    old["source"] = WRONG
    return notebook


def more_points(notebook: Notebook) -> Notebook:
    for cell in checks(notebook):
        cell["metadata"]["nbgrader"]["points"] = 100
    return notebook


def in_one_cell(notebook: Notebook) -> Notebook:
    """All answers in the cell of the first; the other cells stay as they were released."""
    first, *others = answers(notebook)
    first["source"] = "\n\n\n".join(cell["source"] for cell in (first, *others))
    return blank(*ALL[1:])(notebook)


def in_one_new_cell(notebook: Notebook) -> Notebook:
    """All answers in one cell at the end; their own cells are deleted."""
    together = "\n\n\n".join(cell["source"] for cell in answers(notebook))
    return then(at_the_end(together), without(answers))(notebook)


def swapped(notebook: Notebook) -> Notebook:
    one, other = cell_at(notebook, "answer-attend"), cell_at(notebook, "answer-relevance")
    one["source"], other["source"] = other["source"], one["source"]
    return notebook


def of_release(tag: str) -> Change:
    def change(notebook: Notebook) -> Notebook:
        notebook["metadata"]["course"]["release"] = tag
        return typed_into("setup", '"v0.1.0"', f'"{tag}"')(notebook)

    return change


def blank_in(language: str) -> Change:
    """Instead of it the other language's notebook, nothing done in it."""
    return lambda notebook: released(QKV, language).encode()  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------- what programs make of files


def version_3(notebook: Notebook) -> Notebook:
    """The format before 2015: worksheets, and `input` in place of `source`."""
    cells = []
    for cell in notebook["cells"]:
        key = "input" if cell["cell_type"] == "code" else "source"
        cells.append({"cell_type": cell["cell_type"], "metadata": cell["metadata"], key: cell["source"]})
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def widgets_without_state(notebook: Notebook) -> Notebook:
    notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"a0": {"model_name": "IntSlider"}}}
    return notebook


def without_outputs(notebook: Notebook) -> Notebook:
    for cell in notebook["cells"]:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    return notebook


def huge_outputs(notebook: Notebook) -> Notebook:
    """100 MB in one output, as a training loop prints them."""
    printed = {"output_type": "stream", "name": "stdout", "text": "step 1000/1000, loss 0.123\n" * 4_000_000}
    cell_at(notebook, "c-005")["outputs"] = [printed]
    return notebook


def dumped(notebook: Notebook) -> str:
    return json.dumps(notebook, ensure_ascii=False, indent=1)


def encoded(encoding: str) -> Change:
    """What the encoding lacks becomes "?", as in Windows' Notepad."""
    return lambda notebook: dumped(notebook).encode(encoding, "replace")


def crlf_inside(notebook: Notebook) -> Notebook:
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    return notebook


def by_nbconvert(notebook: Notebook) -> bytes:
    script: str = PythonExporter().from_notebook_node(nbformat.from_dict(notebook))[0]
    return script.encode()


def by_jupytext(notebook: Notebook) -> bytes:
    return bytes(jupytext.writes(nbformat.from_dict(notebook), fmt="py:percent").encode())


def by_colab(notebook: Notebook) -> bytes:
    """Colab's "Download .py": code cells as they are, texts as strings, no marks between them."""
    parts = ['# -*- coding: utf-8 -*-\n"""02_qkv.ipynb\n\nAutomatically generated by Colab.\n"""']
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            why = "# Commented out IPython magic to ensure Python compatibility.\n"
            parts.append(re.sub(r"^(?=[ \t]*%)", why + "# ", cell["source"], flags=re.MULTILINE))
        else:
            parts.append('"""' + cell["source"].replace("\\", "\\\\") + '\n"""')
    return "\n\n".join(parts).encode()


def packed(name: str, change: Change = untouched) -> Change:
    """In a zip, with what macOS puts beside it."""

    def into_zip(notebook: Notebook) -> bytes:
        made = change(notebook)
        with TemporaryDirectory() as folder:
            members = {name: made, f"__MACOSX/._{name}": b"\0\5\7"}
            return zipped(Path(folder) / "inner.zip", members).read_bytes()

    return into_zip


def packed_by_windows(name: str) -> Change:
    """In a zip whose names are in cp950 and do not say so."""

    def into_zip(notebook: Notebook) -> bytes:
        with TemporaryDirectory() as folder:
            return legacy_zip(Path(folder) / "inner.zip", "cp950", {name: dumped(notebook).encode()}).read_bytes()

    return into_zip


DRIVE_ERROR = b"<!DOCTYPE html><html><head><title>Google Drive - Quota exceeded</title></head><body></body></html>"

# ------------------------------------------------------------------------------------------------- the class

IMPORT = "from torch import softmax as soft"
NEEDS_IMPORT = answer("attend", "def attend(q, K, V):\n    return soft(q @ K.T, dim=-1) @ V")
HELPER = "def rows_to_weights(scores):\n    return torch.softmax(scores, dim=-1)"
USE_HELPER = then(
    answer("attend", "def attend(q, K, V):\n    return rows_to_weights(q @ K.T) @ V"),
    answer("attention_matrix", "def attention_matrix(Q, K):\n    return rows_to_weights(Q @ K.mT)"),
)
FIGURES = "for n in range(30):\n    plt.figure()\n    plt.plot(range(n + 2))\nplt.show()"
BY_PLACE = "by name or place"
HALF = ("self_attention", "permutation_gap", "02_q1", "02_q2")

MESS: dict[str, Case] = {
    "a solved notebook": Case(untouched),
    # Several files.
    "three files, the newest is neither first nor last": Case(
        untouched, word="newest of 3 files", file="b.ipynb", older={"a.ipynb": blank(*ALL), "c.ipynb": answer("attend", WRONG)},
    ),
    "Chinese after English": Case(untouched, word="newest of 2", language="zh-TW", older={"english.ipynb": blank_in("en")}),
    "English after Chinese": Case(untouched, word="newest of 2", older={"中文.ipynb": blank_in("zh-TW")}),
    # Cells moved, copied, deleted.
    "stripped of metadata and ids": Case(stripped, "repaired", BY_PLACE, file="homework.ipynb"),
    "stripped and shuffled": Case(then(stripped, shuffled), "repaired", BY_PLACE, file="homework.ipynb"),
    "shuffled": Case(shuffled),
    "a new version below the old one": Case(
        then(answer("attend", WRONG), added(RIGHT["attend"], above="c-023")), "repaired", "several versions.*attend",
    ),
    "an answer cell copied": Case(copied, "repaired", "several versions.*attend"),
    "an answer over two cells": Case(
        then(answer("attend", HELPER), added("def attend(q, K, V):\n    return rows_to_weights(q @ K.T) @ V", above="check-attend")),
        "repaired", BY_PLACE + ".*attend",
    ),
    "an answer in a new cell in its place": Case(
        then(added(RIGHT["attend"], above="answer-attend"), without(named("answer-attend"))), "repaired", BY_PLACE + ".*attend",
    ),
    "an answer in a new cell at the end": Case(
        then(blank("attend"), at_the_end(RIGHT["attend"])), "repaired", BY_PLACE + ".*attend",
    ),
    "all answers in one cell": Case(in_one_cell, "repaired", BY_PLACE),
    "all answers in one new cell": Case(in_one_new_cell, "repaired", BY_PLACE),
    "answers in each other's cells": Case(swapped, "repaired", BY_PLACE + ".*relevance, attend"),
    "an answer cell turned into text": Case(
        each(named("answer-attend"), cell_type="markdown"), "repaired", "turned into text: attend", {"attend": "Not started"},
    ),
    "an answer cell deleted": Case(
        without(named("answer-attend")), "repaired", "answer cells missing: attend", {"attend": "Not started"},
    ),
    "check cells deleted": Case(without(checks), "repaired", "check cells missing"),
    "check cells turned into text": Case(each(checks, cell_type="markdown"), "repaired", "check cells turned into text"),
    "check cells edited": Case(each(checks, source="assert True"), "repaired", "check cells edited"),
    "other points in the metadata": Case(more_points, "repaired", "other points"),
    "set-up cells deleted": Case(without(named("setup", "lesson-setup"))),
    "an id without quotation marks": Case(typed_into("setup", 'STUDENT_ID = ""', "STUDENT_ID = b11123456")),
    # What answers need.
    "an import in a cell of one's own": Case(then(above(IMPORT), NEEDS_IMPORT)),
    "an import below the answer": Case(then(at_the_end(IMPORT), NEEDS_IMPORT), "repaired", "moved up"),
    "an import in the set-up cell": Case(
        then(typed_into("lesson-setup", "", "\n" + IMPORT), NEEDS_IMPORT), "repaired", "kept from edited course cells: soft",
    ),
    "a helper of one's own for two answers": Case(then(above(HELPER), USE_HELPER)),
    "an answer that calls another": Case(answer("attend", "def attend(q, K, V):\n    return torch.softmax(relevance(q, K), -1) @ V")),
    # What is written in answers.
    "half done": Case(blank(*HALF), lost=dict.fromkeys(HALF, "Not started")),
    "blank": Case(blank(*ALL), lost=dict.fromkeys(ALL, "Not started")),
    "a syntax error": Case(answer("attend", "def attend(q, K, V:\n    return q"), lost={"attend": "SyntaxError"}),
    "a full-width colon": Case(answer("attend", RIGHT["attend"].replace(":", "：", 1)), lost={"attend": "SyntaxError"}),
    "an answer under another name": Case(answer("attend", "def attention(q, K, V):\n    return q"), lost={"attend": "NameError"}),
    "a letter without quotation marks": Case(answer("02_q1", "answer_02_q1 = b"), lost={"02_q1": "NameError"}),
    "a letter in full width": Case(answer("02_q1", 'answer_02_q1 = "（Ｂ）"')),
    "an answer on a GPU that is not there": Case(
        answer("relevance", 'def relevance(q, K):\n    return (K.to("cuda") @ q.to("cuda")).cpu()'), lost={"relevance": "cuda|nvidia"},
    ),
    "magics in an answer cell": Case(answer("attend", "%%time\n!pip install einops\n" + RIGHT["attend"])),
    "an answer that warns on stderr": Case(answer("relevance", SNIPPETS["relevance, by products and sums"])),
    "a result called like its function": Case(added("attend = attend(q, K, V)\nprint(attend)", above="c-023")),
    # Above right answers.
    "drive.mount": Case(above("from google.colab import drive\ndrive.mount('/content/drive', force_remount=True)")),
    "files.upload": Case(above("from google.colab import files\nuploaded = files.upload()")),
    "!pip install": Case(above("!pip install -q torch einops")),
    "!wget": Case(above("!wget -q https://example.org/data.zip\n!unzip data.zip")),
    "%cd": Case(above("%cd /content/drive/MyDrive\n%matplotlib inline")),
    "input()": Case(above('name = input("學號？")\nnumber = int(input())')),
    "30 figures": Case(above(FIGURES)),
    "a default device": Case(above("device = 'cuda' if torch.cuda.is_available() else 'cpu'\ntorch.set_default_device(device)")),
    "a default device that is not there": Case(above("torch.set_default_device('cuda')")),
    **{f"{noise}, above": Case(above(NOISY[noise])) for noise in (
        "a GPU that is not there", "a GPU if there is one", "warnings", "a progress bar", "a global seed", "another default dtype",
        "gradients switched off", "an error on purpose", "a module that is missing", "a logger",
    )},
    # Formats.
    "Colab's format 4.0": Case(as_colab),
    "format 3": Case(version_3, file="homework.ipynb"),
    "widgets without state": Case(widgets_without_state),
    "cells without outputs": Case(without_outputs),
    "100 MB of outputs": Case(huge_outputs),
    "a byte order mark": Case(encoded("utf-8-sig")),
    "UTF-16": Case(encoded("utf-16")),
    "cp950": Case(encoded("cp950"), language="zh-TW"),
    "CRLF between lines": Case(lambda notebook: dumped(notebook).replace("\n", "\r\n").encode()),
    "CRLF in cells": Case(crlf_inside),
    "a script by nbconvert": Case(by_nbconvert, "repaired", "read from a script", file="02_qkv.py"),
    "a script by jupytext": Case(by_jupytext, "ok", "read from a script", file="02_qkv.py"),
    "a script by Colab": Case(by_colab, "repaired", "read from a script", file="02_qkv.py"),
    # Releases.
    "a release that never was": Case(of_release("v9.9.9"), word="no such release"),
    "a release that never was, stripped": Case(then(of_release("v9.9.9"), stripped), "repaired", "no such release"),
    # Files that cannot be graded.
    "truncated": Case(lambda notebook: dumped(notebook)[:20_000].encode(), "unreadable", "ends too early"),
    "zero bytes": Case(lambda notebook: b"", "unreadable", "empty"),
    "an error page of Drive": Case(lambda notebook: DRIVE_ERROR, "unreadable", "web page"),
    "Colab's page": Case(as_html, "unreadable", "web page"),
    "an archive of another kind": Case(lambda notebook: b"Rar!\x1a\7", "unreadable", r"\.rar archive", file="work.rar"),
    "another course": Case(of_another_course, "unknown lesson", "21_diffusion", file="homework.ipynb"),
    "another course without a name": Case(
        lambda notebook: stripped({"cells": [code("x = 1"), text("hello")], "nbformat": 4}), "unknown lesson", "fits no", file="hw.ipynb",
    ),
    # Names.
    "Copy of": Case(untouched, file="Copy of 02_qkv.ipynb"),
    "(1)": Case(untouched, file="02_qkv (1).ipynb"),
    "「」的副本": Case(untouched, file="「02_qkv.ipynb」的副本"),
    "spaces and Chinese": Case(untouched, who="王 小明", file="第 2 週 作業 (最終版).ipynb"),
    "decomposed by macOS": Case(
        untouched, who=unicodedata.normalize("NFD", "José Núñez"), file=unicodedata.normalize("NFD", "résumé ガ.ipynb"),
    ),
    "backslashes": Case(untouched, file="work\\02_qkv.ipynb", separator="\\"),
    "cp950 names": Case(untouched, who="許功蓋", file="作業.ipynb", encoding="cp950"),
    "cp950 names with backslashes": Case(untouched, who="許功蓋", file="許功蓋\\作業.ipynb", separator="\\", encoding="cp950"),
    "a zip": Case(packed("hw/02_qkv.ipynb"), file="work.zip", inside="hw/02_qkv.ipynb"),
    "a zip in a zip": Case(
        packed("work.zip", packed("02_qkv.ipynb")), file="work.zip", inside="work.zip/02_qkv.ipynb",
    ),
    "a zip by Windows in Taiwan": Case(packed_by_windows("作業/許功蓋.ipynb"), file="作業.zip", inside="作業/許功蓋.ipynb"),
    # Another lesson.
    "lesson 03": Case(untouched, lesson=SCALE, language="zh-TW", file="「03_sqrt_dk.ipynb」的副本"),
    "lesson 03, stripped": Case(stripped, "repaired", "beside their cells: 03_w1", lesson=SCALE, file="homework.ipynb"),
    "lesson 03, by Colab, half done": Case(
        then(blank("entropy", "scaled_dot_product_attention", lesson=SCALE), as_colab), lesson=SCALE, file="03_sqrt_dk.ipynb",
        lost=dict.fromkeys(["entropy", "scaled_dot_product_attention"], "Not started"),
    ),
    "lesson 03, a written answer deleted": Case(
        without(named("written-03_w1")), "repaired", "written cells missing: 03_w1", {"03_w1": "Not started"}, lesson=SCALE, file="03_sqrt_dk.ipynb",
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------- the test


def folder_of(name: str) -> str:
    case = MESS[name]
    return f"{case.who}_{200_001 + list(MESS).index(name)}_assignsubmission_file_"


def shown(path: str) -> str:
    return unicodedata.normalize("NFC", path).replace("\\", "/")


def write_pile(path: Path) -> None:
    """The class as Moodle exports it; some names as other programs would have written them."""
    stand_ins: dict[bytes, bytes] = {}  # names in old encodings do not say so: put in afterwards
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, case) in enumerate(MESS.items()):
            for day, (file, change) in enumerate([*case.older.items(), (case.file, case.change)], start=1):
                made = change(solved(case.lesson, case.language))
                data = made if isinstance(made, bytes) else json.dumps(made).encode()
                member = folder_of(name) + case.separator + file
                if case.encoding != "utf-8":
                    raw = member.encode(case.encoding)
                    member = f"stand-in-{number}-".ljust(len(raw), "x")
                    stand_ins[member.encode()] = raw
                archive.writestr(zipfile.ZipInfo(member, (2026, 3, day, 20, 0, 0)), data, zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    for stand_in, raw in stand_ins.items():
        content = content.replace(stand_in, raw)
    path.write_bytes(content)


@dataclass
class Graded:
    """What `grade` has written of the class."""

    files: dict[str, dict[str, str]]  # files.csv, by path
    grades: dict[str, dict[str, str]]  # grades.csv, by path
    records: dict[str, Record]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    folder = tmp_path_factory.mktemp("messy class")
    write_pile(folder / "class.zip")
    records = grade(folder / "class.zip", folder / "grades")
    tables = [
        {row["file"]: row for row in read_table(folder / "grades" / f"{name}.csv")} for name in ("files", "grades")
    ]
    return Graded(*tables, {record.source: record for record in records})


@pytest.mark.parametrize("name", MESS)
def test_a_messy_submission_gets_what_it_deserves(graded: Graded, name: str) -> None:
    case = MESS[name]
    source = shown("/".join(filter(None, [folder_of(name), case.file, case.inside])))
    row, record = graded.files[source], graded.records[source]
    assert row["student_name"] == shown(case.who)
    assert row["status"] == case.status, row["reason"]
    assert re.search(case.word, row["reason"], re.IGNORECASE), row["reason"]
    assert record.status == graded.grades[source]["status"] == ("graded" if case.points else case.status)
    assert record.reason == row["reason"]
    assert {one.name: one.points for one in record.grades} == case.points
    if case.points:
        assert (record.lesson, record.language) == (case.lesson, case.language)
        assert float(graded.grades[source]["points"]) == sum(points or 0.0 for points in case.points.values())
    for one in record.grades:
        if one.name in case.lost:
            assert re.search(case.lost[one.name], one.message["en"], re.IGNORECASE), one.message["en"]
    for file in case.older:
        old = graded.files[shown(f"{folder_of(name)}/{file}")]
        assert (old["status"], source in old["reason"]) == ("superseded", True)


def test_every_file_of_the_class_has_its_row(graded: Graded) -> None:
    assert len(graded.files) == sum(1 + len(case.older) for case in MESS.values())
    assert len(graded.grades) == len(graded.records) == len(MESS)


def test_a_script_lists_no_lines_of_the_course(graded: Graded) -> None:
    """A script does not say where its cells end; what is the course's in it is not the student's."""
    scripts = [name for name, case in MESS.items() if case.file.endswith(".py")]
    assert len(scripts) == 3
    for name in scripts:
        assert graded.records[f"{shown(folder_of(name))}/{MESS[name].file}"].to_look_at == [], name
