"""The whole way: the sample class through collect, sandbox, judge, nbgrader and reports; every file gets what it deserves."""

import csv
import html
import math
import os
import re
import zipfile
from pathlib import Path

import nbformat
import pytest
import torch
from nbgrader.api import Gradebook

from autograder import get, judge
from autograder.pipeline import grading
from autograder.pipeline.demo import CLASS, SNIPPETS, Student, left_of, make_demo, released, solutions
from autograder.pipeline.grading import Inputs, grade, planned
from autograder.pipeline.records import Record
from autograder.tests.conftest import GradedClass

SOURCES = [f"{student.name}, {student.file or student.lesson}, {student.status}" for student in CLASS]
ROWS = pytest.mark.parametrize("number", range(len(CLASS)), ids=SOURCES)
GRADED = [number for number, student in enumerate(CLASS) if student.status == "graded"]
GRADED_ROWS = pytest.mark.parametrize("number", GRADED, ids=[SOURCES[number] for number in GRADED])
# One run of the class serves all tests here: with pytest-xdist they belong in one process.
pytestmark = pytest.mark.xdist_group("sample class")


# ------------------------------------------------------------------------------------------------- the zip


def test_the_zip_is_the_same_every_time(tmp_path: Path) -> None:
    one, two = tmp_path / "one.zip", tmp_path / "two.zip"
    assert make_demo(one) == make_demo(two)
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_size < 5_000_000


def test_the_class_is_what_it_should_be(graded_class: GradedClass) -> None:
    rows = graded_class.expected
    assert len({row.student_id for row in rows}) >= 12
    assert {row.lesson for row in rows} == {"02_qkv", "03_sqrt_dk", None}
    assert {row.language for row in rows} >= {"en", "zh-TW"}
    with zipfile.ZipFile(graded_class.pile) as archive:
        assert archive.namelist() == [row.source for row in rows]
        names = [name.rpartition("/")[2] for name in archive.namelist()]
    assert {"Copy of 02_qkv.ipynb", "03_sqrt_dk (1).ipynb", "「02_qkv.ipynb」的副本"} <= set(names)
    used = {name for student in CLASS for name in (*student.answers.values(), *student.own)}
    assert used >= set(SNIPPETS), "a snippet that nobody hands in"


# ------------------------------------------------------------------------------------------------- every row


@ROWS
def test_status_and_reason(graded_class: GradedClass, number: int) -> None:
    row = graded_class.expected[number]
    found = [r for r in read_table(graded_class.out / "files.csv") if r["file"] == row.source]
    assert len(found) == 1, "every file has one row"
    assert found[0]["status"] == row.status or (row.status == "graded" and found[0]["status"] in ("ok", "repaired"))
    assert row.reason in found[0]["reason"] and found[0]["reason"].endswith(".")
    assert found[0]["student_id"] == row.student_id and found[0]["lesson"] == (row.lesson or "")
    if row.status != "superseded":
        record = graded_class.record(row)
        assert (record.student_id, record.student_name) == (row.student_id, row.student_name)
        assert (record.status, record.lesson, record.language) == (row.status, row.lesson, row.language)
        assert row.reason in record.reason


@GRADED_ROWS
def test_points(graded_class: GradedClass, number: int) -> None:
    row = graded_class.expected[number]
    record = graded_class.record(row)
    assert {grade.name: grade.points for grade in record.grades} == pytest.approx(dict(row.points))
    assert record.points == pytest.approx(row.total)


@GRADED_ROWS
def test_mistakes_are_named(graded_class: GradedClass, number: int) -> None:
    row = graded_class.expected[number]
    named = {grade.name: grade.mistake for grade in graded_class.record(row).grades if grade.mistake is not None}
    assert named == row.mistakes


@GRADED_ROWS
def test_statuses_of_exercises(graded_class: GradedClass, number: int) -> None:
    for result in graded_class.record(graded_class.expected[number]).grades:
        if result.points == result.max_points:
            assert result.status == "full"
        elif result.points:
            assert result.status == "partial"
        else:
            assert result.status in ("none", "stopped", "not allowed", "not started", "by hand")


@pytest.mark.parametrize(
    ("who", "exercise", "status", "word"),
    [
        ("劉冠宇", "attention_matrix", "stopped", "longer than"),
        ("Noah Davis", "attend", "stopped", "interpreter was ended"),
        ("Sophia Lee", "scaled_dot_product_attention", "not allowed", "course_lib.attention"),
        ("許家豪", "scaled_dot_product_attention", "not allowed", "line 5"),
        ("林志豪", "attend", "not started", "Not started"),
        ("蔡宗翰", "attend", "none", "Right"),
    ],
)
def test_the_reason_of_a_lost_exercise(
    graded_class: GradedClass, who: str, exercise: str, status: str, word: str
) -> None:
    row = next(row for row in graded_class.expected if row.student_name == who)
    result = graded_class.grade_of(row, exercise)
    assert (result.status, result.points) == (status, 0.0)
    assert word in result.message["en"]


@pytest.mark.parametrize(("who", "lost"), [("劉冠宇", "attention_matrix"), ("Noah Davis", "attend")])
def test_a_loop_or_an_exit_costs_its_own_exercise_only(graded_class: GradedClass, who: str, lost: str) -> None:
    row = next(row for row in graded_class.expected if row.student_name == who)
    for result in graded_class.record(row).grades:
        assert result.points == (0.0 if result.name == lost else result.max_points)


# ------------------------------------------------------------------------------------------------- books and tables


def read_table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_grades_csv_has_a_row_for_every_file_that_counts(graded_class: GradedClass) -> None:
    table = {row["file"]: row for row in read_table(graded_class.out / "grades.csv")}
    assert set(table) == {row.source for row in graded_class.expected if row.status != "superseded"}
    for row in graded_class.expected:
        if row.status == "graded":
            cells = table[row.source]
            assert float(cells["points"]) == pytest.approx(row.total)
            written = {name: float(cells[name]) for name, points in row.points.items() if points is not None}
            assert written == pytest.approx({name: points for name, points in row.points.items() if points is not None})


def test_nbgraders_gradebook_holds_the_same_points(graded_class: GradedClass) -> None:
    with Gradebook(f"sqlite:///{graded_class.out / 'gradebook.db'}") as book:
        assert len(book.assignments) == 2
        for row in graded_class.expected:
            if row.status != "graded":
                continue
            (notebook,) = book.find_submission(row.lesson, row.student_id).notebooks
            scores = {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in notebook.grades}
            for name, points in row.points.items():
                score, by_hand = scores[name]
                if points is None:
                    assert by_hand and not score
                else:
                    assert score == pytest.approx(points) and not by_hand
            assert notebook.max_score == sum(grade.max_points for grade in graded_class.record(row).grades)


# ------------------------------------------------------------------------------------------------- feedback pages


@GRADED_ROWS
def test_feedback_page(graded_class: GradedClass, number: int) -> None:
    row = graded_class.expected[number]
    record = graded_class.record(row)
    page = (graded_class.out / "feedback" / row.student_id / f"{row.lesson}.html").read_text(encoding="utf-8")
    text = plain_text(page)
    assert f'lang="{row.language}"' in page
    for name, mistake in row.mistakes.items():
        message = next(m.message for m in get(name).mistakes if m.name == mistake)
        other = "en" if row.language == "zh-TW" else "zh-TW"
        assert plain_text(message[row.language]) in text
        assert plain_text(message[other]) not in text
    for name, source in solutions(row.lesson, row.language).items():  # nothing but the student's own code
        body = [line.strip() for line in source.split("\n") if len(line.strip()) > 25 and "=" in line]
        own = " ".join(grade.answer for grade in record.grades)
        for line in body:
            assert line in own or plain_text(line) not in text, f"{name}: {line}"


def plain_text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_no_feedback_page_holds_secrets_or_paths(graded_class: GradedClass) -> None:
    secret = (graded_class.out / "secret").read_text().strip()
    for page in [*graded_class.out.glob("feedback/**/*.html"), *graded_class.out.glob("*.html")]:
        text = page.read_text(encoding="utf-8")
        assert secret not in text and "Traceback" not in text
        # The class page is the instructor's alone; it says what to type, with the folder.
        assert page.parent == graded_class.out or str(graded_class.out) not in text


# ------------------------------------------------------------------------------------------------- once more


def times(folder: Path, pattern: str) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.glob(pattern))}


def test_a_second_run_changes_nothing(graded_class: GradedClass, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> None:
        raise AssertionError("nothing is to be run again")

    monkeypatch.setattr(grading, "grade_submission", never)
    out = graded_class.out
    watched = ("records/**/*.json", "nbgrader/autograded/**/*", "nbgrader/submitted/**/*.ipynb", "secret")
    before = [times(out, pattern) for pattern in watched]
    table = (out / "grades.csv").read_bytes()
    pages = {path: path.read_bytes() for path in out.glob("feedback/**/*.html")}
    assert all(before) and pages
    again = grade(graded_class.pile, out)
    assert again == graded_class.records
    assert [times(out, pattern) for pattern in watched] == before
    assert (out / "grades.csv").read_bytes() == table
    assert {path: path.read_bytes() for path in out.glob("feedback/**/*.html")} == pages


def test_other_inputs_give_the_same_points(graded_class: GradedClass, tmp_path: Path) -> None:
    """`seed` overrides the secret: two folders agree to the digit with it, and one folder is graded anew with another."""
    names = ("王小明", "Emma Wilson", "吳佩珊")  # two who are right, one whose mask is upside down
    pile = tmp_path / "small.zip"
    with zipfile.ZipFile(graded_class.pile) as archive, zipfile.ZipFile(pile, "w") as small:
        for info in archive.infolist():
            if info.filename.startswith(names):
                small.writestr(info, archive.read(info))
    one, two = grade(pile, tmp_path / "one", seed=7), grade(pile, tmp_path / "two", seed=7)
    other = grade(pile, tmp_path / "two", seed=8)
    by_source = {record.source: record for record in graded_class.records}
    known = [by_source[record.source] for record in one]
    assert len(known) == 4

    def results(records: list[Record]) -> list[object]:
        return [(r.source, g.name, g.points, g.mistake) for r in records for g in r.grades]

    assert results(one) == results(two) == results(other) == results(known)
    assert planned(get("attend"), 7) != planned(get("attend"), 8)
    assert [r.key for r in one] != [r.key for r in two]  # each folder has a secret of its own
    assert not {r.key for r in two} & {r.key for r in other}


MISTAKEN = [
    (student, name)
    for student in CLASS
    for name in student.mistakes
    if student.answers[name] in SNIPPETS and student.status == "graded"
]


@pytest.mark.parametrize(("student", "name"), MISTAKEN, ids=[student.answers[name] for student, name in MISTAKEN])
def test_the_same_mistake_costs_the_same_whatever_the_inputs(student: Student, name: str) -> None:
    """Two students with one answer get the same points, though each has inputs of their own."""
    scope = {"torch": torch, "math": math}
    exec(SNIPPETS[student.answers[name]], scope)
    results = {(verdict.points, verdict.mistake) for verdict in (judge(name, scope[name], seed) for seed in range(5))}
    assert results == {(left_of(name, student.failed[name]), student.mistakes[name])}


def test_inputs_come_from_secret_student_exercise_and_what_they_wrote() -> None:
    inputs = Inputs(b"one")
    assert inputs.seed_for("s", "attend") == Inputs(b"one").seed_for("s", "attend")
    drawn = {Inputs(secret).seed_for(s, e) for secret in (b"one", b"two") for s in "st" for e in ("attend", "entropy")}
    assert len(drawn) == 8 and all(0 <= seed < 1 << 63 for seed in drawn)
    assert inputs.seed_for("s", "attend", "x = 1") not in drawn  # another notebook of the same student
    assert Inputs(b"one", 5).seed_for("s", "attend", "x") == Inputs(b"two", 5).seed_for("t", "entropy") == 5
    assert len({Inputs(b"one").fingerprint(), Inputs(b"two").fingerprint(), Inputs(b"one", 5).fingerprint()}) == 3


def test_two_runs_into_one_folder_do_not_mix(graded_class: GradedClass) -> None:
    with (
        grading.only_run(graded_class.out),
        pytest.raises(grading.GradingError, match="another run of grade"),
    ):
        grade(graded_class.pile, graded_class.out)


def test_the_secret_is_for_its_owner_only(graded_class: GradedClass) -> None:
    assert os.stat(graded_class.out / "secret").st_mode & 0o077 == 0


@pytest.mark.parametrize("moment", ["release", "entry"])
def test_an_interrupted_run_goes_on_where_it_stopped(
    graded_class: GradedClass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Ctrl-C waits for nbgrader's step; a run that is killed in the middle of one does it again."""
    from autograder.pipeline import bookkeeping

    pile = tmp_path / "small.zip"
    with zipfile.ZipFile(graded_class.pile) as archive, zipfile.ZipFile(pile, "w") as small:
        for info in archive.infolist():
            if info.filename.startswith(("王小明", "Liam Chen")):
                small.writestr(info, archive.read(info))
    really = bookkeeping.run
    steps: list[str] = []

    def run(converter: object, what: str) -> None:
        steps.append(what)
        really(converter, what)  # type: ignore[arg-type]
        if len(steps) == (1 if moment == "release" else 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(bookkeeping, "run", run)
    with pytest.raises(KeyboardInterrupt):
        grade(pile, tmp_path / "out", seed=7)
    monkeypatch.setattr(bookkeeping, "run", really)
    records = grade(pile, tmp_path / "out", seed=7)
    assert {(r.source, r.points) for r in records} <= {(r.source, r.points) for r in graded_class.records}
    with Gradebook(f"sqlite:///{tmp_path / 'out' / 'gradebook.db'}") as book:
        scores = {(s.student.id, s.assignment.name): s.score for a in book.assignments for s in a.submissions}
    assert scores == {(r.student_id, r.lesson): r.points for r in records}


@pytest.mark.hostile
def test_what_one_student_writes_costs_no_other_a_grade(tmp_path: Path) -> None:
    """Answers and names that once ended the run of a whole class."""
    pile = tmp_path / "pile"
    hostile = {
        "s1": ("dot_product_variance", "def dot_product_variance(q, k, sigma_q=1.0, sigma_k=1.0):\n    return 10**400, q.sum()"),
        "s2": ("entropy", "def entropy(p):\n    raise ValueError('x' + chr(0xD800) + 'y')"),
        "s3": ("entropy", "import sys\ndef entropy(p):\n    sys.audit('autograder.returned', '{\"object\": \"Observation\","
               " \"fields\": []}')\n    return p"),
        "s4": ("entropy", "def entropy(p):\n    return -torch.special.xlogy(p, p).sum(-1)"),
    }  # fmt: skip
    for student, (name, source) in hostile.items():
        notebook = nbformat.reads(released("03_sqrt_dk", "en"), as_version=4)
        next(cell for cell in notebook.cells if cell.id == f"answer-{name}").source = source
        setup = next(cell for cell in notebook.cells if cell.id == "setup")
        setup.source = setup.source.replace('STUDENT_ID = ""', f'STUDENT_ID = "{chr(0x20000) * 80}"')
        (pile / student).mkdir(parents=True)
        nbformat.write(notebook, pile / student / "03_sqrt_dk.ipynb")
    records = grade(pile, tmp_path / "out", seed=3)
    assert [r.status for r in records] == ["graded"] * 4
    assert [r.points for r in records] == [0, 0, 0, 1]
    assert records[2].to_look_at and not records[3].to_look_at


def test_a_fault_of_the_grader_is_a_row_and_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pile = tmp_path / "pile"
    for student in ("s1", "s2"):
        (pile / student).mkdir(parents=True)
        (pile / student / "03_sqrt_dk.ipynb").write_text(released("03_sqrt_dk", "en"))
    really = grading.grade_submission

    def faulty(submission: object, *arguments: object) -> grading.Graded:
        if submission.student_id == "s1":  # type: ignore[attr-defined]
            raise ZeroDivisionError("ours")
        return really(submission, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(grading, "grade_submission", faulty)
    assert [r.status for r in grade(pile, tmp_path / "out")] == ["not run", "graded"]
    monkeypatch.setattr(grading, "grade_submission", really)
    assert [r.status for r in grade(pile, tmp_path / "out")] == ["graded", "graded"]
