"""A class graded again: one exercise mended, a run that was killed, workers on a cluster, what was set in nbgrader."""

import contextlib
import csv
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder import exercise as catalogue
from autograder import get
from autograder.pipeline import cluster, grading, report, sandbox
from autograder.pipeline.bookkeeping import BookkeepingError, Books, by_hand
from autograder.pipeline.demo import SNIPPETS, cell_named, released, solutions
from autograder.pipeline.earlier import Earlier, answers, lessons_of
from autograder.pipeline.grading import GradingError, grade
from autograder.pipeline.kept import load_tried, save_tried
from autograder.pipeline.records import Grade, Record
from autograder.pipeline.report import read_back, write_reports
from autograder.pipeline.submission import Submission
from autograder.text import both

LESSON = "02_qkv"
STUDENTS = {"ann": {}, "bob": {"attend": "no_softmax", "relevance": "columns_of_K"}, "eve": {"relevance": "zeros"}}
pytestmark = pytest.mark.xdist_group("regrade")


def hand_in(pile: Path, student: str, snippets: dict[str, str]) -> None:
    """A solved notebook with some answers replaced."""
    notebook = nbformat.reads(released(LESSON, "en"), as_version=4)
    for name, source in solutions(LESSON, "en").items():
        cell_named(notebook, f"answer-{name}").source = SNIPPETS[snippets[name]].strip() if name in snippets else source
    (pile / student).mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, pile / student / f"{LESSON}.ipynb")


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("regrade")
    for student, snippets in STUDENTS.items():
        hand_in(folder / "pile", student, snippets)
    grade(folder / "pile", folder / "out")
    return folder / "pile", folder / "out"


@pytest.fixture
def graded(first_run: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """The pile, and a folder of grades of one's own."""
    shutil.copytree(first_run[1], tmp_path / "out")
    return first_run[0], tmp_path / "out"


def points(records: list[Record]) -> dict[str, dict[str, float | None]]:
    return {record.student_id: {grade.name: grade.points for grade in record.grades} for record in records}


def in_the_books(out: Path) -> dict[str, float]:
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        return {s.student.id: s.score for s in book.assignment_submissions(LESSON)}


def mend(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """Another definition of an exercise, as after an edit of its module."""
    monkeypatch.setitem(catalogue._exercises, name, replace(get(name), **changes))  # type: ignore[arg-type]
    monkeypatch.setattr(grading, "course_fingerprint", lambda lesson="": f"{name}, mended")


def never(*arguments: object) -> None:
    raise AssertionError("nothing is to be run again")


def test_a_mended_exercise_is_judged_again_from_the_kept_answers(
    graded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case that was too hard counts no more: who failed it gains, nothing runs, all else stays."""
    pile, out = graded
    before = points(grade(pile, out))
    cases = get("attend").cases
    failed = [i for i, line in enumerate(Record.load(out / "records/bob" / f"{LESSON}.json").grades[2].lines) if not line.passed]  # type: ignore[union-attr]  # fmt: skip
    assert len(failed) == len(cases), "bob's answer passes no case"
    # The reference is what was wrong: after the correction bob's answer is the right one, and the others' is not.
    scope = {"torch": __import__("torch")}
    exec(SNIPPETS["no_softmax"], scope)
    mend(monkeypatch, "attend", reference=scope["attend"], mistakes=(), cases=tuple(replace(c, gradients=False) for c in cases))  # fmt: skip
    plan = grading.fingerprint(grading.planned(get("attend"), 1))
    monkeypatch.setattr(sandbox, "run", never)
    monkeypatch.setattr(grading, "fingerprint", lambda plan: tried.plan)
    tried = load_tried(out / "answers/bob" / f"{LESSON}.json.gz", "attend")
    assert tried is not None and plan
    for student in STUDENTS:  # the plans differ by student; here all count as unchanged
        path = out / "answers" / student / f"{LESSON}.json.gz"
        kept = load_tried(path, "attend")
        assert kept is not None
        save_tried(path, {"attend": replace(kept, plan=tried.plan)}, keep_others=True)
    lines: list[str] = []
    after = points(grade(pile, out, exercise="attend", tell=lines.append))
    assert lines == [
        "attend judged anew for 3 students (3 from the answers kept, 0 run again); the points of 3 students changed, see changes.csv"
    ]
    assert {s: p["attend"] for s, p in after.items()} == {"ann": 0.0, "bob": 2.0, "eve": 0.0}
    for student, now in after.items():
        assert {k: v for k, v in now.items() if k != "attend"} == {k: v for k, v in before[student].items() if k != "attend"}  # fmt: skip
    assert in_the_books(out) == {student: sum(now.values()) for student, now in after.items()}  # type: ignore[arg-type]
    with open(out / "changes.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["student_id"], row["exercise"], row["before"], row["after"], row["gain"]) for row in rows] == [
        ("ann", "attend", "2", "0", "-2"), ("eve", "attend", "2", "0", "-2"), ("bob", "attend", "0", "2", "2"),
    ]  # fmt: skip
    again = grade(pile, out)  # what was asked for is done: nothing to do, and nobody gained or lost
    assert points(again) == after and not (out / "changes.csv").exists()


def test_other_weights_need_no_run_and_other_inputs_only_that_exercise(
    graded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pile, out = graded
    before = points(grade(pile, out))
    cases = get("relevance").cases
    mend(monkeypatch, "relevance", cases=(replace(cases[0], weight=5), *cases[1:]))
    with monkeypatch.context() as nothing_runs:
        nothing_runs.setattr(sandbox, "run", never)
        lines: list[str] = []
        assert points(grade(pile, out, exercise="relevance", tell=lines.append)) == before  # all or nothing was right
        assert points(grade(pile, out, exercise="relevance", tell=lines.append)) == before
        assert lines == [
            "relevance judged anew for 3 students (3 from the answers kept, 0 run again); nobody's points changed",
            "relevance judged anew for 0 students, as it was for 3 (neither the exercise nor the answers have changed); "
            "nobody's points changed",
        ]
    jobs: list[sandbox.Job] = []
    really = sandbox.run
    monkeypatch.setattr(sandbox, "run", lambda job: jobs.append(job) or really(job))
    mend(monkeypatch, "relevance", cases=(replace(cases[0], draw=cases[1].draw), *cases[1:]))
    monkeypatch.setattr(grading, "course_fingerprint", lambda lesson="": "mended once more")
    assert points(grade(pile, out, exercise="relevance", tell=lines.append)) == before
    assert lines[2:] == [
        "relevance judged anew for 3 students (0 from the answers kept, 3 run again); nobody's points changed"
    ]
    assert len(jobs) == 3 and all(set(job.plan) == {"relevance"} for job in jobs)
    tried = load_tried(out / "answers/ann" / f"{LESSON}.json.gz", "attend")
    assert tried is not None and len(tried.seen) == len(get("attend").cases), "what is kept of the others stays"


def test_for_a_mended_exercise_no_file_takes_another_s_place(
    graded: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer file, a new student and one who is not in the pile any more: all other grades stay, and a line tells of two."""
    pile, out = tmp_path / "pile", graded[1]
    shutil.copytree(graded[0], pile)
    (pile / "notes.txt").write_text("nothing to grade")
    before, lines = points(grade(pile, out)), []
    hand_in(pile, "eve", {"attend": "no_softmax"})
    hand_in(pile, "noa", {})
    shutil.rmtree(pile / "ann")
    mend(monkeypatch, "attend", reference=lambda q, k, v: q, mistakes=())
    records = grade(pile, out, exercise="attend", tell=lines.append)
    now = points([record for record in records if record.grades])
    assert now == {student: of | {"attend": 0.0} for student, of in before.items() if of}
    assert [record.source for record in records] == [
        "ann/02_qkv.ipynb",
        "bob/02_qkv.ipynb",
        "eve/02_qkv.ipynb",
        "notes.txt",
    ]
    assert lines == [
        "2 files are new or newer than what was graded: grade them without --exercise",
        "attend judged anew for 3 students (0 from the answers kept, 3 run again); the points of 2 students changed, see changes.csv",
    ]
    with open(out / "changes.csv", encoding="utf-8-sig", newline="") as file:
        assert {row["exercise"] for row in csv.DictReader(file)} == {"attend"}
    monkeypatch.setattr(sandbox, "run", never)
    mend(monkeypatch, "entropy")  # of lesson 03
    assert points([r for r in grade(pile, out, exercise="entropy") if r.grades]) == now
    monkeypatch.undo()
    after = points([record for record in grade(pile, out) if record.grades])
    assert after["eve"]["attend"] == 0 and after["noa"]["attend"] == 2 and after["bob"] == before["bob"]
    with pytest.raises(GradingError, match="holds no graded class, of which"):
        grade(pile, tmp_path / "nothing", exercise="attend")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(GradingError, match="no exercise is called 'entropie'; did you mean entropy"):
        grade(pile, out, exercise="entropie")


def rows_of(out: Path) -> set[tuple[str, str, str, str]]:
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as file:
        return {(r["student_id"], r["lesson"], r["status"], r["points"]) for r in csv.DictReader(file)}


def test_a_second_lesson_in_the_same_folder_keeps_the_first(graded: tuple[Path, Path], tmp_path: Path) -> None:
    """Its rows, pages, files for the platform and unread files; a pile replaces what there is of its own lessons."""
    pile, out = tmp_path / "pile", graded[1]
    shutil.copytree(graded[0], pile)
    (pile / "eve" / f"{LESSON}.ipynb").write_text("{truncated")
    grade(pile, out)
    first = rows_of(out)
    assert {(s, status) for s, _, status, _ in first} == {
        ("ann", "graded"), ("bob", "graded"), ("eve", "graded"), ("eve", "unreadable"),
    }  # fmt: skip
    assert not (out / "changes.csv").exists(), "a file that cannot be read takes nothing away"
    other = tmp_path / "other"
    (other / "ann").mkdir(parents=True)
    (other / "ann/03_sqrt_dk.ipynb").write_text(released("03_sqrt_dk", "en"))
    blank = {("ann", "03_sqrt_dk", "graded", "0")}
    records = grade(other, out)
    assert len(records) == 5 and rows_of(out) == first | blank
    assert "03_sqrt_dk" in (out / "class.html").read_text() and LESSON in (out / "class.html").read_text()
    with open(out / "lms/gradebook.csv", encoding="utf-8-sig", newline="") as file:
        by_student = {row["ID number"]: (row[LESSON], row["03_sqrt_dk"]) for row in csv.DictReader(file)}
    assert by_student["ann"] == ("13", "0") and by_student["bob"][1] == ""
    assert len(report.read_back(out)[0]) == 5, "make report knows them too"
    shutil.rmtree(pile / "bob")
    hand_in(pile, "eve", {})
    grade(pile, out)
    full = {(student, LESSON, "graded", "13") for student in ("ann", "eve")}
    assert rows_of(out) == full | blank, "who is in the new pile no more has no row, a file that was mended one"
    shutil.rmtree(out / "records/eve")
    grade(other, out)
    assert rows_of(out) == full - {("eve", LESSON, "graded", "13")} | blank, "who was deleted stays so"


def test_a_lesson_that_one_hands_in_by_mistake_replaces_nobody_else_s(tmp_path: Path) -> None:
    """One of three: their own row changes; a pile of two or three is the lesson's own."""

    def file(student: str, lesson: str | None, status: str = "ok", source: str = "") -> Submission:
        path = source or f"{student}/{lesson}.ipynb"
        made = Submission(student, student, lesson, "en", "v0.1.0", path, None, status, "Read as handed in.")
        if status == "ok":
            grading.new_record(made).save(grading.record_path(tmp_path, made))
        return made

    first = [file(student, LESSON) for student in STUDENTS] + [file("zoe", None, "unreadable", "zoe.docx")]
    assert lessons_of(first) == (LESSON,)
    report.write_files(tmp_path, [replace(made, pile=lessons_of(first)) for made in first])

    def kept(*pile: Submission) -> list[str]:
        return [made.student_id for made in Earlier(tmp_path, grading.LESSONS).besides(pile)[1]]

    others = [file(student, "03_sqrt_dk") for student in ("ann", "eve")]
    assert kept(*others) == ["ann", "bob", "eve", "zoe"]
    assert kept(*others, file("bob", LESSON)) == ["ann", "eve"] and kept(*others[:1], file("bob", LESSON)) == [
        "ann",
        "eve",
    ]
    assert kept(file("bob", LESSON), file("ann", LESSON)) == []
    assert lessons_of([*first, *others[:1]]) == (LESSON,) and lessons_of([]) == ()


@pytest.mark.hostile
def test_no_zip_full_of_ids_takes_a_lesson_away(tmp_path: Path) -> None:
    """Three have handed in one lesson. In the next pile one student's zip holds that lesson too, under many ids."""

    def file(student: str, lesson: str, hand: str = "") -> Submission:
        made = Submission(
            student, student, lesson, "en", "v0.1.0", f"{hand or student}/{student}-{lesson}.ipynb", None, "ok", ""
        )
        made.hand = hand
        grading.new_record(made).save(grading.record_path(tmp_path, made))
        return made

    first = [file(student, LESSON) for student in STUDENTS]
    report.write_files(tmp_path, first)
    bogus = [file(f"x{number}", LESSON, "eve.zip") for number in range(40)]
    second = [file(student, "03_sqrt_dk") for student in ("ann", "bob")]
    before, lines = Earlier(tmp_path, grading.LESSONS), list[str]()
    kept = before.besides([*second, file("eve", "03_sqrt_dk", "eve.zip"), *bogus], lines.append)[1]
    assert [made.student_id for made in kept] == ["ann", "bob", "eve"] and not lines
    assert [made.student_id for made in before.besides([*second, *bogus], lines.append)[1]] == ["ann", "bob", "eve"]
    # A pile of the lesson itself: who is not in it has no row any more, and that is told.
    assert before.besides([file("ann", LESSON), file("bob", LESSON)], lines.append)[1] == []
    assert lines == ["02_qkv: 1 student who had a row is not in this pile, and without one now"]


@pytest.mark.hostile
def test_a_file_that_cannot_be_read_takes_nothing_away(tmp_path: Path) -> None:
    """Whoever put it there, in a late pile, in that of the next lesson or in a full rerun. Made-up ids replace no lesson."""

    def file(student: str, lesson: str, name: str = "", status: str = "ok") -> Submission:
        path = f"{student}/{name or f'{lesson}.ipynb'}"
        made = Submission(student, student, lesson, "en", "v0.1.0", path, None, status, "")
        if status == "ok":
            grading.new_record(made).save(grading.record_path(tmp_path, made))
        return made

    first = [file(student, LESSON) for student in STUDENTS]
    report.write_files(tmp_path, first)
    before, lines = Earlier(tmp_path, grading.LESSONS), list[str]()

    def kept(*pile: Submission) -> list[str]:
        return [made.source for made in before.besides(pile, lines.append)[1]]

    pdf = file("ann", LESSON, f"{LESSON} notes.pdf", "unreadable")
    all_three = [made.source for made in first]
    assert kept(file("zoe", LESSON), pdf) == all_three
    assert kept(*[file(student, "03_sqrt_dk") for student in STUDENTS], pdf) == all_three
    assert kept(file("bob", LESSON), file("eve", LESSON), pdf) == all_three[:1]
    assert kept(file("ann", LESSON), file("bob", LESSON), file("eve", LESSON), pdf) == [] and not lines
    assert kept(*[file(f"x{number}", LESSON) for number in range(9)]) == all_three
    assert lines == [f"{LESSON}: most who had a row before are not in this pile, but others: all rows stay"]


def test_who_had_points_and_has_none_is_among_the_changes() -> None:
    known: report.Known = {("ann", LESSON): {"attend": 3.0, "relevance": 0.0}, ("bob", LESSON): {"attend": 3.0}}
    unread = [Record(who, who, LESSON, "en", "a.pdf", "unreadable", "") for who in ("ann", "ann", "bob", "zoe")]
    graded = Record("bob", "bob", LESSON, "en", "b.ipynb", "graded", "")
    graded.grades = [Grade("attend", 3.0, 3.0, "full", both("", ""))]
    changes = report.changes_since(known, [*unread, graded, unread[2]])
    assert [(c.student_id, c.exercise, c.before, c.after, c.gain) for c in changes] == [
        ("ann", "attend", 3.0, None, -3.0)
    ]


def test_a_blank_file_takes_no_answers_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def file(source: str, answer: str = "") -> Submission:
        made = nbformat.reads(released(LESSON, "en"), as_version=4)
        if answer:
            cell_named(made, "answer-attend").source = answer
        return Submission("b01", "Ann", LESSON, "en", "v0.1.0", source, None, "ok", "", made, claimant="ann")

    before, lines = Earlier(tmp_path, grading.LESSONS), list[str]()
    monkeypatch.setattr(before, "same_as", lambda new: file("Ann.ipynb", "attend = 1"))
    late, stays = before.newest([file("Ann (1).ipynb")], lines.append)
    assert (late.status, late.notebook) == ("superseded", None)
    assert late.reason == "Nothing is answered in it; Ann.ipynb, which was graded before, stays."
    assert (stays.source, stays.remark) == ("Ann.ipynb", "It stays, for nothing is answered in Ann (1).ipynb.")
    assert lines == ["nothing is answered in Ann (1).ipynb: Ann.ipynb, which was graded before, stays"]
    assert before.left_out([file("Ann (1).ipynb"), file("Ann (1).ipynb", "attend = 2")]) == 1
    for sentence in (late.reason, stays.remark):
        assert "裡面沒有作答" in report.in_chinese(sentence)
    monkeypatch.setattr(before, "same_as", lambda new: file("Ann.ipynb"))
    (new,) = before.newest([file("Ann (1).ipynb", "attend = 1")], lines.append)
    assert new.source == "Ann (1).ipynb" and len(lines) == 1


@pytest.mark.hostile
def test_a_newer_file_that_has_only_the_id_in_common_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def file(source: str, answer: str) -> Submission:
        notebook = nbformat.reads(released(LESSON, "en"), as_version=4)
        cell_named(notebook, "answer-attend").source = answer
        return Submission("b01", "Ann", LESSON, "en", "v0.1.0", source, None, "ok", "", notebook)

    before = Earlier(tmp_path, grading.LESSONS)
    old = file("02_qkv.ipynb", "attend = 1")
    monkeypatch.setattr(before, "same_as", lambda new: replace(old, claimant="vic" if new.claimant else ""))
    new = file("02_qkv.ipynb", "attend = 2")
    pile = [
        new, replace(new, source="02_qkv (7).ipynb"), replace(new, claimant="eve"), replace(new, student_id="unknown-1", claimant="vic"),
        file("02_qkv (8).ipynb", "attend = 1"), replace(new, claimant="vic"), replace(new, claimant="vic lee"),
    ]  # fmt: skip
    told = "The id alone says that it is the same student's, with other answers: 02_qkv.ipynb."
    assert [made.remark for made in before.newest(pile, lambda line: None)] == [told] * 4 + [""] * 3


def test_points_by_hand_are_for_the_answer_they_were_given_for(tmp_path: Path) -> None:
    """They survive a regrade; with another text a written answer waits again, and code has the judge's points."""
    lesson, books = "03_sqrt_dk", Books(tmp_path, grading.LESSONS)

    def enter(written: str, entropy: str, key: str) -> Record:
        notebook = nbformat.reads(released(lesson, "en"), as_version=4)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            cell.source = {"03_w1": written, "answer-entropy": entropy}.get(name, cell.source)
        made = Submission("ann", "Ann", lesson, "en", "v0.1.0", "ann.ipynb", None, "ok", "Read.", notebook)
        record = grading.new_record(made, key)
        books.enter(record, made)
        assert made.remark == record.remark
        return record

    enter("A poor answer.", "entropy = 1", "1")
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        book.find_grade("03_w1", lesson, lesson, "ann").manual_score = 0.0
        book.find_grade("entropy", lesson, lesson, "ann").manual_score = 1.0
        book.find_comment("answer-entropy", lesson, lesson, "ann").manual_comment = "Dear Ann"
        book.db.commit()

    def known() -> tuple[dict[str, float], dict[str, str]]:
        found = by_hand(tmp_path / "gradebook.db", "ann", lesson)
        return found.points, found.comments

    assert enter("A poor answer.", "entropy = 1", "2").remark == ""
    assert known() == ({"03_w1": 0.0, "entropy": 1.0}, {"entropy": "Dear Ann"})
    told = "Points by hand were given for another answer and do not count: "
    assert enter("A new one.", "entropy = 1", "3").remark == f"{told}03_w1 (0)."
    assert known() == ({"entropy": 1.0}, {"entropy": "Dear Ann"})
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        assert book.find_grade("03_w1", lesson, lesson, "ann").needs_manual_grade
    assert enter("A new one.", "entropy = 2", "4").remark == f"{told}entropy (1)."
    assert enter("A new one.", "entropy = 3", "5").remark == ""
    assert known() == ({}, {"entropy": "On your earlier answer: Dear Ann"})


def at(pile: Path, student: str, hour: int, snippets: dict[str, str]) -> None:
    hand_in(pile, student, snippets)
    moment = datetime(2026, 3, 5, hour).timestamp()
    os.utime(pile / student / f"{LESSON}.ipynb", (moment, moment))


def test_the_newest_file_counts_across_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class at 10:00, one student's other file of 11:00 by mail, the class again; then a file of 12:00, and seeds."""
    out, pile, mail = tmp_path / "out", tmp_path / "pile", tmp_path / "mail"
    for student in STUDENTS:
        at(pile, student, 10, {})
    grade(pile, out)
    at(mail, "eve", 11, {"relevance": "zeros"})
    assert points(grade(mail, out))["eve"]["relevance"] == 0
    mailed = table_of(out)["eve"]
    lines: list[str] = []
    with monkeypatch.context() as nothing_runs:
        nothing_runs.setattr(sandbox, "run", never)
        for _ in range(2):  # the second time it is known from the table of files alone
            records = grade(pile, out, tell=lines.append)
            assert len(records) == 3 and points(records)["eve"]["relevance"] == 0
            assert not (out / "changes.csv").exists()
    ten, eleven = (f"eve/02_qkv.ipynb (2026-03-05 {hour}:00:00)" for hour in (10, 11))
    told = f"It stays, for {ten} is older."
    assert table_of(out)["eve"] == {**mailed, "reason": f"Read as handed in. {told}"}
    assert lines == [f"{ten} is older than {eleven}, which was graded before and stays"] * 2
    with open(out / "files.csv", encoding="utf-8-sig", newline="") as file:
        assert [(r["status"], r["reason"]) for r in csv.DictReader(file) if r["student_id"] == "eve"] == [
            ("superseded", f"Older than {eleven}, which was graded before and stays."),
            ("ok", f"Read as handed in. {told}"),
        ]  # fmt: skip
    assert f"比先前評過的 {eleven} 舊" in (out / "class.zh-TW.html").read_text("utf-8")
    assert "It stays" not in (out / "feedback/eve" / f"{LESSON}.html").read_text("utf-8")
    assert len(report.read_back(out)[0]) == 3

    assert points(grade(pile, out, seed=7))["eve"]["relevance"] == 0, "what stays is run anew like all others"
    at(pile, "eve", 12, {})
    assert points(grade(pile, out, seed=7))["eve"]["relevance"] == get("relevance").points
    at(pile, "eve", 9, {"relevance": "zeros"})
    (out / f"records/eve/{LESSON}.json").unlink()
    assert points(grade(pile, out, seed=7))["eve"]["relevance"] == 0, "whose record was deleted is graded as it comes"


def test_an_older_file_that_cannot_be_read_takes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came again with an older pile; a newer one that cannot be read has a row, for it may be what the student meant."""
    monkeypatch.setattr(sandbox, "run", lambda job: sandbox.Outcome({}, {}, {}))
    out, pile, lines = tmp_path / "out", tmp_path / "pile", list[str]()
    for student in STUDENTS:
        at(pile, student, 10, {})
    grade(pile, out)
    path = pile / "eve" / f"{LESSON}.ipynb"
    for hour, statuses in ((9, ["superseded", "ok"]), (11, ["unreadable", "ok"])):
        path.write_text('{"cells": [')
        os.utime(path, (datetime(2026, 3, 5, hour).timestamp(),) * 2)
        grade(pile, out, tell=lines.append)
        with open(out / "files.csv", encoding="utf-8-sig", newline="") as file:
            assert [row["status"] for row in csv.DictReader(file) if row["student_id"] == "eve"] == statuses
    nine, ten = (f"eve/{LESSON}.ipynb (2026-03-05 {hour}:00:00)" for hour in ("09", "10"))
    assert lines == [f"{nine} is older than {ten}, which was graded before and stays"]


def test_the_same_answers_with_an_earlier_time_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older pile graded again, or times that are mended: the pile's time counts, and the terminal says what it was."""
    monkeypatch.setattr(sandbox, "run", lambda job: sandbox.Outcome({}, {}, {}))
    out, lines = tmp_path / "out", list[str]()
    for hour in (10, 11, 11, 10):
        at(tmp_path / "pile", "eve", hour, {})
        (record,) = grade(tmp_path / "pile", out, tell=lines.append)
        assert record.received == f"2026-03-05 {hour}:00" and record.remark == ""
    assert lines == [
        "the same answers as before, with an earlier time, which counts now: "
        f"eve/{LESSON}.ipynb (2026-03-05 10:00:00, was 2026-03-05 11:00:00)"
    ]


def utc(hour: int) -> str:
    return datetime(2026, 3, 5, hour).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def test_without_a_time_the_file_of_the_pile_counts(tmp_path: Path) -> None:
    for student, snippets in (("ann", {}), ("eve", {"relevance": "zeros"})):
        hand_in(tmp_path / "pile", student, snippets)
    for n, date in enumerate([(2026, 3, 5, 11, 0, 0), (1980, 1, 1, 0, 0, 0), (2026, 3, 5, 10, 0, 0)]):
        with zipfile.ZipFile(tmp_path / f"{n}.zip", "w") as archive:
            whose = "ann" if n == 1 else "eve"
            archive.writestr(zipfile.ZipInfo(f"eve/{LESSON}.ipynb", date), (tmp_path / f"pile/{whose}/{LESSON}.ipynb").read_bytes())  # fmt: skip
        (record,) = grade(tmp_path / f"{n}.zip", tmp_path / "out")
        assert record.points == (13 if whose == "ann" else 12), record.points


def table_of(out: Path) -> dict[str, dict[str, str]]:
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def test_the_folder_is_never_committed(first_run: tuple[Path, Path]) -> None:
    assert (first_run[1] / ".gitignore").read_text() == "*\n"


def test_the_exercises_of_another_lesson_and_released_texts_do_not_count(
    first_run: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key tells what decides a grade, so that an edit elsewhere grades nobody anew."""
    submission = grading.collect(first_run[0], grading.LESSONS)[0]
    inputs = grading.Inputs(b"secret")
    key = grading.key_of(submission, inputs)
    assert submission.notebook is not None
    text = next(cell for cell in submission.notebook.cells if cell.cell_type == "markdown")
    text.source += " A slip mended."
    assert grading.key_of(submission, inputs) == key
    cell_named(submission.notebook, "answer-attend").source += "\n# another answer"
    handed_in, deciding = grading.key_of(submission, inputs).split("-")
    assert handed_in != key.split("-")[0] and deciding == key.split("-")[1]
    prints = {lesson: grading.course_fingerprint(lesson) for lesson in ("02_qkv", "03_sqrt_dk", "")}
    assert len(set(prints.values())) == 3


def test_kept_answers_that_are_damaged_are_run_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    assert load_tried(path, "attend") is None
    for content in (
        b"",
        b"no gzip",
        b"\x1f\x8b",
        b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 20,
        __import__("gzip").compress(b'{"attend": {"seen": {"0": "[["}}}'),
    ):
        path.write_bytes(content)
        assert load_tried(path, "attend") is None
    save_tried(path, {}, keep_others=True)
    assert load_tried(path, "attend") is None


def test_what_was_set_in_nbgrader_survives(graded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Points by hand, comments, an extension, and the penalty that the instructor's own settings ask for."""
    pile, out = graded
    for student in STUDENTS:
        os.utime(pile / student / f"{LESSON}.ipynb", (datetime(2026, 3, 10).timestamp(),) * 2)
    grade(pile, out)  # for the new times, which --exercise does not take from the pile
    (out / "nbgrader/own_config.py").write_text('c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.update_or_create_assignment(LESSON, duedate="2026-03-05 00:00:00 UTC")
        book.grant_extension(LESSON, "ann", days=14)
        given = book.find_grade("relevance", LESSON, LESSON, "bob")
        given.manual_score = 0.75
        book.find_comment("answer-relevance", LESSON, LESSON, "bob").manual_comment = "close"
        book.db.commit()
    mend(monkeypatch, "attend")
    records = grade(pile, out, exercise="attend")
    assert len(records) == 3
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        late = {s.student.id: s.notebooks[0].late_submission_penalty for s in book.assignment_submissions(LESSON)}
        assert late["ann"] is None and late["bob"] and late["eve"]
        assert book.find_grade("relevance", LESSON, LESSON, "bob").manual_score == 0.75
        assert book.find_comment("answer-relevance", LESSON, LESSON, "bob").manual_comment == "close"
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert rows["ann"]["points"] == "13" and rows["bob"]["relevance"] == "0.75"
    assert rows["eve"]["points"] == "0", "all points off for being late"
    hours = (datetime(2026, 3, 10).astimezone(UTC) - datetime(2026, 3, 5, tzinfo=UTC)).total_seconds() / 3600
    off = sum(float(rows["eve"][name]) for name in points(records)["eve"])
    assert (rows["eve"]["late_points_off"], rows["eve"]["hours_late"]) == (f"{off:g}", f"{hours:g}")
    assert (rows["ann"]["late_points_off"], rows["ann"]["hours_late"]) == ("", "")
    page = (out / "feedback/bob" / f"{LESSON}.html").read_text("utf-8")
    assert "Your instructor" in page and '<p class="message comment">close</p>' in page
    assert 'class="message comment"' not in (out / "feedback/eve" / f"{LESSON}.html").read_text("utf-8")
    with open(out / "changes.csv", encoding="utf-8-sig", newline="") as file:
        (told,) = [row for row in csv.DictReader(file) if row["student_id"] == "eve"]
    assert (told["exercise"], told["before"], told["after"]) == ("(handed in late)", "0", f"{-off:g}")


def total(out: Path) -> dict[str, float]:
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as file:
        return {row["student_id"]: float(row["points"]) for row in csv.DictReader(file)}


def test_a_due_date_set_after_grading_holds_for_everybody_in_local_time(
    graded: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are in the books already when it is set; 18:00 in Taipei is 10:00 UTC; two minutes decide."""
    out, pile = graded[1], tmp_path / "pile"
    shutil.copytree(graded[0], pile)
    full = total(out)
    for student, seconds in (("ann", 0), ("bob", -60), ("eve", 60)):
        moment = datetime(2026, 3, 5, 10, tzinfo=UTC).timestamp() + seconds
        os.utime(pile / student / f"{LESSON}.ipynb", (moment, moment))
    monkeypatch.setattr(sandbox, "run", never)
    monkeypatch.setenv("TZ", "Asia/Taipei")
    time.tzset()
    try:
        grade(pile, out)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert (out / "nbgrader/submitted/eve" / LESSON / "timestamp.txt").read_text() == "2026-03-05 10:01:00 UTC"
    (out / "nbgrader/own_config.py").write_text('c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.update_or_create_assignment(LESSON, duedate="2026-03-05 18:00:00 Asia/Taipei")
    write_reports(out, *read_back(out))
    assert total(out) == full | {"eve": 0.0}
    with open(out / "changes.csv", encoding="utf-8-sig", newline="") as file:
        assert [(row["student_id"], row["gain"]) for row in csv.DictReader(file)] == [("eve", f"{-full['eve']:g}")]
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.grant_extension(LESSON, "eve", hours=1)
    write_reports(out, *read_back(out))
    assert total(out) == full
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.grant_extension(LESSON, "eve")
    (out / "nbgrader/own_config.py").write_text(HALF_OFF)
    write_reports(out, *read_back(out))
    assert total(out) == full | {"eve": full["eve"] - 0.5}
    (out / "nbgrader/own_config.py").write_text(HALF_OFF.replace("0.5", "1 / 0"))
    with pytest.raises(BookkeepingError, match=r"own_config\.py fails \(ZeroDivisionError"):
        write_reports(out, *read_back(out))


def extended(out: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "autograder", "extension", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode == 0) == (done.stderr == ""), done
    return done.stdout + done.stderr


@pytest.mark.parametrize("lesson", [LESSON, "03_sqrt_dk"])
def test_an_extension_for_who_has_handed_in_nothing(tmp_path: Path, lesson: str) -> None:
    """Due at 9:00; ann and eve hand in at 10:00, and eve had been given three days before, also where nobody had handed in the
    lesson yet. She stands on the list of the class, and is called by her number, her id or as she writes it.
    """
    out, pile, roster = tmp_path / "grades", tmp_path / "pile", tmp_path / "class.csv"
    roster.write_text("student_id,name\nann,Ann Lee\neve,Eve Wu\n")
    for student in ("ann", "eve"):
        at(pile, student, 10, {})
    shutil.copytree(pile / "ann", tmp_path / "first/ann")
    grade(tmp_path / "first", out, rosters=[roster])
    assert extended(out, lesson, "EVE", "3") == f"eve, {lesson}: 3 days after the due date\n"
    (out / "nbgrader/own_config.py").write_text('c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.update_or_create_assignment(LESSON, duedate=f"{utc(9)}:00 UTC")
    grade(pile, out)
    eve = ("13", "") if lesson == LESSON else ("0", "1")
    assert {name: (row["points"], row["hours_late"]) for name, row in table_of(out).items()} == {
        "ann": ("0", "1"), "eve": eve,
    }  # fmt: skip
    extended(out, LESSON, "eve", "0")
    assert table_of(out)["eve"]["points"] == "0"


def test_an_extension_for_nobody_is_one_line(first_run: tuple[Path, Path], tmp_path: Path) -> None:
    out = first_run[1]
    before = (out / "gradebook.db").read_bytes()
    for arguments, line in (
        ((LESSON, "zoe", "3"), f"zoe has no row for {LESSON} in grades.csv, and no list of the class was given"),
        (
            ("2_qkv", "ann", "3"),
            "there is no lesson 2_qkv: write it as in the column lesson of grades.csv, such as 02_qkv",
        ),
        ((LESSON, "ann", "many"), "Invalid value for 'DAYS'"),
    ):
        said = extended(out, *arguments)
        assert said.startswith(f"error: {line}") and said.count("\n") == 1, said
    assert (out / "gradebook.db").read_bytes() == before
    assert "holds no graded class" in extended(tmp_path / "none", LESSON, "ann", "3")


def test_an_extension_by_the_number_on_moodle_s_worksheet(tmp_path: Path) -> None:
    """Moodle's folders have a number of their own for each assignment."""
    out, pile = tmp_path / "grades", tmp_path / "pile"
    hand_in(pile, "Ann Lee_1234501_assignsubmission_file", {})
    sheet = "Identifier,Full name,ID number,Status,Grade\n"
    rows = {1: "Participant 1234501,Ann Lee,B12901001,,\nParticipant 1234502,Eve Wu,B12901002,,\n",
            2: "Participant 2234501,Ann Lee,B12901001,,\nParticipant 2234502,Eve Wu,B12901002,,\n"}  # fmt: skip
    for n, text in rows.items():
        (tmp_path / f"{n}.csv").write_text(sheet + text)
    grade(pile, out, rosters=[tmp_path / "1.csv"])
    assert extended(out, LESSON, "b12901001", "1") == f"1234501, {LESSON}: 1 day after the due date\n"
    assert extended(out, LESSON, "B12901002", "1") == f"1234502, {LESSON}: 1 day after the due date\n"
    assert extended(out, "03_sqrt_dk", "1234502", "2") == "1234502, 03_sqrt_dk: 2 days after the due date\n"
    grade(pile, out, rosters=[tmp_path / "1.csv", tmp_path / "2.csv"])
    assert "Moodle's number for it is not known before" in extended(out, "03_sqrt_dk", "B12901002", "2")


HALF_OFF = """from nbgrader.plugins import LateSubmissionPlugin
c = get_config()
class HalfOff(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 0.5
c.AssignLatePenalties.plugin_class = HalfOff
"""


def test_points_that_are_not_the_released_ones_are_refused(
    graded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """nbgrader's books go by the released notebook: it would take no more points than are written there."""
    pile, out = graded
    before = (out / "grades.csv").read_bytes()
    mend(monkeypatch, "attend", points=3)
    for exercise in ("attend", None):
        with pytest.raises(
            GradingError, match=r"attend \(02_qkv\) has 3 points, in the released notebook 2: run make build first"
        ):
            grade(pile, out, exercise=exercise)
    assert (out / "grades.csv").read_bytes() == before


def test_own_settings_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "nbgrader").mkdir()
    (tmp_path / "nbgrader/own_config.py").write_text("c.Nothing = (")
    with pytest.raises(BookkeepingError, match=r"own_config\.py: SyntaxError"):
        grading.Books(tmp_path, grading.LESSONS)


# ------------------------------------------------------------------------------------------------- one at fault

FORGED = """
import json, sys
R = getattr(sys.modules["autograder"], "__dict__")
honest, deep = R["audit"], {depth}
def forged(event, *args):
    if event == "autograder.returned":
        seen = json.loads(args[0])
        seen["fields"]["value"] = "HERE"
        inner = '{{"object": "Call", "fields": {{"args": ' * deep + "1" + "}}}}" * deep
        args = (json.dumps(seen).replace('"HERE"', inner),)
    honest(event, *args)
R["audit"] = forged
"""


def test_a_forged_observation_costs_only_who_forged_it(tmp_path: Path) -> None:
    """However deep it is: what could be read in a thread of the pool must not fail in the main one."""
    depths = {"d1": 1, "d15": 15, "d300": 300, "d470": 470, "d490": 490}
    for student in depths:
        hand_in(tmp_path / "pile", student, {})
        path = tmp_path / "pile" / student / f"{LESSON}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.insert(2, nbformat.v4.new_code_cell(FORGED.format(depth=depths[student])))
        nbformat.write(notebook, path)
    hand_in(tmp_path / "pile", "honest", {})
    records = {record.student_id: record for record in grade(tmp_path / "pile", tmp_path / "out")}
    assert records["honest"].points == 13 and len(records) == 6
    assert {s: (records[s].points, records[s].status) for s in depths} == dict.fromkeys(depths, (0.0, "graded"))
    assert in_the_books(tmp_path / "out") == {"honest": 13.0} | dict.fromkeys(depths, 0.0)


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("answers", RecursionError("too\ndeep")),
        ("books", sqlite3.OperationalError("locked")),
        ("known books", OSError(28, "No space left")),
        ("record", OSError(28, "No space left")),
        ("earlier record", ValueError("not enough values")),
    ],
)
def test_a_fault_in_putting_one_submission_away_stops_no_other(
    graded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, where: str, problem: Exception
) -> None:
    """It becomes a row with a reason, keeps its grade where there is one, and the next run tries again."""
    pile, out = graded
    before = points(grade(pile, out))

    def failing(really: Callable[..., object], named: Callable[..., str]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            if "bob" in named(*arguments):
                raise problem
            return really(*arguments, **more)

        return call

    with monkeypatch.context() as fault:
        if where != "known books":  # all are put away anew
            fault.setattr(grading, "course_fingerprint", lambda lesson="": "mended")
        if where == "answers":
            fault.setattr(grading, "save_tried", failing(save_tried, lambda path, *rest: str(path)))
        elif "books" in where:
            fault.setattr(
                grading.Books, "enter", failing(grading.Books.enter, lambda self, record, s: record.student_id)
            )
        elif where == "record":
            fault.setattr(Record, "save", failing(Record.save, lambda self, path: self.student_id))
        else:
            fault.setattr(grading.Task, "merged", failing(grading.Task.merged, lambda self, fresh: fresh.student_id))
        records = grade(pile, out, exercise="attend" if where != "known books" else None)
    (bob,) = [record for record in records if record.student_id == "bob"]
    assert len(records) == len(STUDENTS) and type(problem).__name__ in bob.fault and "\n" not in bob.fault
    now = points(records)
    assert {s: p for s, p in now.items() if s != "bob"} == {s: p for s, p in before.items() if s != "bob"}
    if where == "earlier record":
        assert (bob.status, bob.grades) == ("not run", [])
    else:
        assert (bob.status, bob.key, now["bob"]) == ("graded", "", before["bob"])
    assert bob.reason == "Read as handed in." and f"{bob.reason} {bob.fault}" in (out / "grades.csv").read_text(
        "utf-8-sig"
    )
    pages = "".join(page.read_text("utf-8") for page in (out / "feedback/bob").glob("*.html"))
    assert type(problem).__name__ in (out / "class.html").read_text("utf-8")
    assert pages and type(problem).__name__ not in pages, "what fails in the books is not the student's"
    monkeypatch.undo()
    again = grade(pile, out)
    assert points(again) == before and all(not record.fault for record in again)


# ------------------------------------------------------------------------------------------------- killed


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_books(tmp_path: Path) -> None:
    """SIGKILL at 20 random moments: nothing lost, nothing twice, the same totals as in one go."""
    choice = random.Random(20)
    for i in range(24):
        names = {"attend": "no_softmax", "relevance": "columns_of_K", "attention_matrix": "softmax_over_queries"}
        hand_in(tmp_path / "pile", f"s{i:02}", dict(choice.sample(sorted(names.items()), choice.randint(0, 3))))
    words = [sys.executable, "-m", "autograder", "grade", str(tmp_path / "pile"), "--seed", "5", "--out"]
    start = time.monotonic()
    subprocess.run([*words, str(tmp_path / "whole")], check=True, capture_output=True)
    whole = time.monotonic() - start
    killed = 0
    for _ in range(20):
        run = subprocess.Popen([*words, str(tmp_path / "parts")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(choice.uniform(0, 0.6 * whole))
        killed += run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.wait()
    last = subprocess.run([*words, str(tmp_path / "parts")], capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert killed >= 5
    for name in ("grades.csv", "files.csv", "lms/gradebook.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert books(tmp_path / "parts") == books(tmp_path / "whole")
    assert len(list((tmp_path / "parts/records").glob("*/*.json"))) == 24
    assert not list((tmp_path / "parts").rglob("*.tmp"))


def books(out: Path) -> list[tuple[object, ...]]:
    """Every score in nbgrader's gradebook."""
    with contextlib.closing(sqlite3.connect(out / "gradebook.db")) as database:
        return database.execute(
            "SELECT a.student_id, b.name, g.auto_score, g.manual_score, g.needs_manual_grade FROM grade g "
            "JOIN submitted_notebook n ON g.notebook_id = n.id JOIN submitted_assignment a ON n.assignment_id = a.id "
            "JOIN base_cell b ON g.cell_id = b.id ORDER BY 1, 2"
        ).fetchall()


def test_a_killed_run_leaves_no_half_of_a_secret_or_gradebook(tmp_path: Path) -> None:
    for name in ("secret.tmp", "gradebook.db.tmp"):
        (tmp_path / name).write_text("half")
    assert len(grading.secret_of(tmp_path)) == 32
    grading.Books(tmp_path, grading.LESSONS)
    assert not list(tmp_path.glob("*.tmp"))


# ------------------------------------------------------------------------------------------------- on a cluster


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers:
        yield workers.scheduler_address


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_grades(first_run: tuple[Path, Path], tmp_path: Path, scheduler: str) -> None:
    """A real scheduler with two workers; the secret stays here."""
    pile, out = first_run
    (tmp_path / "out").mkdir()
    shutil.copyfile(out / "secret", tmp_path / "out/secret")
    with cluster.dask_executor(scheduler) as pool:
        records = grade(pile, tmp_path / "out", executor=pool)
    assert points(records) == points(grade(pile, out))
    assert in_the_books(tmp_path / "out") == in_the_books(out)


@pytest.mark.slow
def test_workers_with_another_version_of_the_course_are_refused(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = grading.course_fingerprint()
    monkeypatch.setattr(cluster, "course_fingerprint", NewerCourse(old))
    with pytest.raises(GradingError, match="another version of the course"), cluster.dask_executor(scheduler):
        pass


class NewerCourse:
    """A fingerprint that is the worker's own there, and a newer one here."""

    def __init__(self, old: str) -> None:
        self.old, self.here = old, os.getpid()

    def __call__(self) -> str:
        return "newer" if os.getpid() == self.here else self.old


def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(GradingError, match="no Dask scheduler answers at"), cluster.dask_executor(address):
            pass


def test_without_distributed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(GradingError, match="pip install distributed"), cluster.dask_executor("local"):
        pass


def test_another_picture_under_the_same_name_is_another_answer(tmp_path: Path) -> None:
    """Jupyter calls every pasted picture image.png: it is graded, entered and compared as what it shows."""
    lesson, books = "03_sqrt_dk", Books(tmp_path, grading.LESSONS)

    def handed_in(data: str) -> Submission:
        notebook = nbformat.reads(released(lesson, "en"), as_version=4)
        written = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "03_w1")
        written.source, written.attachments = "![image.png](attachment:image.png)", {"image.png": {"image/png": data}}
        return Submission("ann", "Ann", lesson, "en", "v0.1.0", "ann.ipynb", None, "ok", "Read.", notebook)

    inputs = grading.Inputs(b"x" * 32)
    first, same, other = map(handed_in, ("Zmlyc3Q=", "Zmlyc3Q=", "b3RoZXI="))
    keys = [grading.key_of(made, inputs) for made in (first, same, other)]
    assert keys[0] == keys[1] != keys[2]
    assert answers(first) == answers(same) != answers(other)
    for made, key in zip((first, same, other), keys):
        books.enter(grading.new_record(made, key), made)
        if made is first:
            with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
                book.find_grade("03_w1", lesson, lesson, "ann").manual_score = 2.0
                book.db.commit()
        else:
            found = by_hand(tmp_path / "gradebook.db", "ann", lesson).points
            assert found == ({"03_w1": 2.0} if made is same else {})
    assert other.remark == "Points by hand were given for another answer and do not count: 03_w1 (2)."
    submitted = nbformat.read(books.course / "submitted" / "ann" / lesson / f"{lesson}.ipynb", as_version=4)
    assert [cell.attachments for cell in submitted.cells if "attachments" in cell] == [
        {"image.png": {"image/png": "b3RoZXI="}}
    ]
