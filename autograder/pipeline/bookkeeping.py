"""nbgrader keeps the books: its gradebook gets the points, its formgrader the notebooks. One writer, no execution."""

import hashlib
import logging
import re
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_notebook, new_output
from nbgrader import preprocessors, utils
from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import capture_log
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.pipeline.nbgrader_config import course_config, create_gradebook
from autograder.pipeline.rebuild import all_of
from autograder.pipeline.records import Grade, Record
from autograder.pipeline.submission import Submission
from autograder.text import both

# For formgrader, which Jupyter opens in the course folder; the steps here take their configuration as an object.
# The folder may be moved, and one from a container is opened outside of it: nothing here is an address.
FORMGRADER = """import importlib.util
import pathlib
import runpy

c = get_config()
here = pathlib.Path(__file__).resolve().parent
c.CourseDirectory.root = str(here)
c.CourseDirectory.db_url = f"sqlite:///{here.parent}/gradebook.db"
# What students write is shown, never run: outputs by nbconvert's own setting, Markdown and code by the course's filters, which
# are read without importing the course (and torch) into Jupyter.
course = pathlib.Path(importlib.util.find_spec("autograder").origin).parent
c.HTMLExporter.sanitize_html = True
shown = runpy.run_path(str(course / "pipeline" / "shown.py"))
c.HTMLExporter.filters = {name: shown[name] for name in ("markdown2html", "highlight_code")}
"""
# An instructor's own settings, such as the penalty of late submissions: never written here, read where it is there.
OWN_SETTINGS = "own_config.py"
EARLIER = both("On your earlier answer: ", "針對你先前的作答：")  # before a comment, where another text has come
FOR_ANOTHER = (
    "Points by hand were given for another answer and do not count: "  # the exercises follow, in the row's remark
)


class BookkeepingError(RuntimeError):
    """nbgrader refused something; the text is one line for the instructor."""


class WriteVerdicts(NbGraderPreprocessor):
    """In place of nbgrader's `Execute`: the outputs of the graded cells are the verdicts of the judge.

    nbgrader gives full points to a graded cell without output, so a cell without a verdict gets an error.
    """

    record: Record  # of the submission that is being entered

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        grades = {grade.name: grade for grade in self.record.grades}
        for cell in nb.cells:
            if not utils.is_grade(cell):
                continue
            grade = grades.get(cell.metadata.nbgrader["grade_id"])
            if cell.cell_type == "code":
                cell.outputs = outputs(grade, self.record.language)
            elif grade is not None and grade.status in ("not started", "not scored"):
                # nbgrader knows an unanswered cell by its checksum; ours may be in the other language.
                cell.metadata.nbgrader["checksum"] = utils.compute_checksum(cell)
        return nb, resources


def outputs(grade: Grade | None, language: str) -> list[NotebookNode]:
    """An explanation, then the points as the cell's result, which nbgrader reads."""
    if grade is None or (grade.points is None and grade.status != "not scored"):
        return [new_output("error", ename="NotJudged", evalue="no verdict", traceback=["no verdict"])]
    lines = [grade.message[language]]
    for line in grade.lines:
        difference = f": {line.difference[language]}" if line.difference else ""
        lines.append(f"{'✓' if line.passed else '✗'} {line.label[language]}{difference}")
    return [
        new_output("stream", name="stdout", text="\n".join(lines) + "\n"),
        new_output("execute_result", data={"text/plain": repr(float(grade.points or 0.0))}, execution_count=None),
    ]


class Books:
    """nbgrader's gradebook (`out/gradebook.db`) and its course folder (`out/nbgrader`).

    Points and comments that an instructor has given by hand in formgrader are kept, points as long as the answer is the same.
    """

    def __init__(self, out: Path, lessons: Path) -> None:
        self.course, self.lessons = out / "nbgrader", lessons
        create_gradebook(out / "gradebook.db")
        self.course.mkdir(exist_ok=True)
        (self.course / "nbgrader_config.py").write_text(
            FORMGRADER + f"load_subconfig({OWN_SETTINGS!r})\n" * (self.course / OWN_SETTINGS).exists()
        )
        self.config = books_config(out)
        # The notebooks are ours but for the answers: their metadata need no check, and nothing is executed.
        self.config.Autograde.sanitize_preprocessors = [
            preprocessors.ClearOutput,
            preprocessors.OverwriteKernelspec,
            preprocessors.OverwriteCells,
        ]
        # Penalties follow once all are entered (`assign_penalties`): a due date may be set later than that.
        self.config.Autograde.autograde_preprocessors = [WriteVerdicts, preprocessors.SaveAutoGrades]
        self.registered: set[str] = set()

    def enter(self, record: Record, submission: Submission) -> None:
        """One graded record through nbgrader's autograde step; nothing to do if it is in the books already.

        Raises:
            BookkeepingError: if nbgrader cannot take the notebook.
        """
        lesson, student = record.lesson or "", record.student_id
        done = self.course / "autograded" / student / lesson / "key.txt"
        folder = self.course / "submitted" / student / lesson
        stamp = timestamp(submission.received)
        if done.exists() and done.read_text() == record.key:
            self.hand_in_at(stamp, folder, student, lesson)
            return
        self.register(lesson)
        folder.mkdir(parents=True, exist_ok=True)
        with Gradebook(self.config.CourseDirectory.db_url) as book:
            first, last = names_in_formgrader(record.student_name, student)
            book.update_or_create_student(student, first_name=first, last_name=last)
        self.forget_points(record, submission, folder / f"{lesson}.ipynb")
        nbformat.write(submission.notebook, folder / f"{lesson}.ipynb")
        (folder / "timestamp.txt").write_text(stamp)
        WriteVerdicts.record = record
        self.config.CourseDirectory.assignment_id, self.config.CourseDirectory.student_id = lesson, student
        converter = Autograde(coursedir=CourseDirectory(config=self.config), config=self.config)
        converter.force = True
        run(converter, f"{student}, {lesson}")
        done.write_text(record.key)

    def forget_points(self, record: Record, submission: Submission, earlier: Path) -> None:
        """Points by hand are for a text: where `earlier` holds another one, the answer waits for the instructor or has the
        judge's points again, and a comment says that it is on the earlier answer. Before the new text takes its place, so that
        a run that was stopped leaves no points with it."""
        if not earlier.exists():
            return
        was, now = answers_of(nbformat.read(earlier, as_version=4)), answers_of(submission.notebook)
        about = record.lesson, record.lesson, record.student_id
        points = []
        with Gradebook(self.config.CourseDirectory.db_url) as book:
            for name, cell in now.items():
                if was.get(name, ("", ""))[1] == cell[1]:
                    continue
                try:
                    grade, comment = book.find_grade(name, *about), book.find_comment(cell[0], *about)
                except MissingEntry:  # not in the books yet
                    continue
                if grade.manual_score is not None:
                    points.append(f"{name} ({grade.manual_score:g})")
                    grade.manual_score = None
                if (comment.manual_comment or "").strip():
                    text = comment.manual_comment.removeprefix(EARLIER[record.language])
                    comment.manual_comment = EARLIER[record.language] + text
            book.db.commit()
        if points:
            submission.tell(f"{FOR_ANOTHER}{', '.join(points)}.")
            record.remark = submission.remark

    def hand_in_at(self, stamp: str, folder: Path, student: str, lesson: str) -> None:
        """Another time of what is in the books already: the same answers came once more, or the clock's zone is another."""
        path = folder / "timestamp.txt"
        if not stamp or (path.exists() and path.read_text() == stamp):
            return
        with Gradebook(self.config.CourseDirectory.db_url) as book:
            book.update_or_create_submission(lesson, student, timestamp=stamp)
        path.write_text(stamp)

    def extend(self, lesson: str, student: str, days: int) -> None:
        """Give a student more time for a lesson, also one who has handed in nothing yet."""
        self.register(lesson)
        with Gradebook(self.config.CourseDirectory.db_url) as book:
            book.update_or_create_student(student)
            book.update_or_create_submission(lesson, student)
            book.grant_extension(lesson, student, days=days)

    def register(self, lesson: str) -> None:
        """Tell the gradebook of a lesson and its graded cells, once for each version of the lesson."""
        if lesson in self.registered:
            return
        self.registered.add(lesson)
        released = self.lessons / "en" / f"{lesson}.ipynb"  # graded cells are the same in every language
        version = hashlib.sha256(released.read_bytes()).hexdigest()
        done = self.course / "registered" / f"{lesson}.txt"  # written last, so that a stopped run begins it again
        if done.exists() and done.read_text() == version:
            return
        source = self.course / "source" / lesson / released.name
        source.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(released, source)
        self.config.CourseDirectory.assignment_id = lesson
        converter = GenerateAssignment(coursedir=CourseDirectory(config=self.config), config=self.config)
        converter.force = True
        run(converter, lesson)
        done.parent.mkdir(exist_ok=True)
        done.write_text(version)


def answers_of(notebook: NotebookNode | None) -> dict[str, tuple[str, str]]:
    """The answers of a notebook by exercise: what its cell is called in the books, and what is in it."""
    cells = (
        [(cell.metadata.get("nbgrader", {}), all_of(cell)) for cell in notebook.cells] if notebook is not None else []
    )
    return {
        book["grade_id"].removeprefix("answer-"): (book["grade_id"], answer)
        for book, answer in cells
        if book.get("solution")
    }


def names_in_formgrader(name: str, student: str) -> tuple[str, str]:
    """First and last name. Formgrader shows "last, first", as they are; a name of one word (王小明) stands before the id."""
    first, _, last = re.sub(r"[<>&\"]+", " ", name).strip().partition(" ")
    return (first, last) if last else (student, first or student)


def timestamp(received: datetime | None) -> str:
    """As nbgrader reads it, in UTC. A time without a zone, as in a zip, is the local time of this machine (or of TZ)."""
    return received.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if received is not None else ""


def books_config(out: Path) -> Config:
    config = course_config(out / "nbgrader", out / "gradebook.db")
    config.merge(own_settings(out / "nbgrader"))
    return config


def own_settings(course: Path) -> Config:
    """What the instructor has written into own_config.py.

    Raises:
        BookkeepingError: if it cannot be read.
    """
    if not (course / OWN_SETTINGS).exists():
        return Config()
    try:
        return PyFileConfigLoader(OWN_SETTINGS, path=str(course)).load_config()
    except Exception as problem:  # a program of the instructor's: whatever it trips over
        raise BookkeepingError(f"{course / OWN_SETTINGS}: {type(problem).__name__}: {problem}") from None


def run(converter: Autograde | GenerateAssignment, what: str) -> None:
    with uninterrupted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # nbgrader's own queries, of no use to an instructor
        result = capture_log(converter)
    if not result["success"]:
        last = (str(result.get("error") or result.get("log") or "").strip().splitlines() or ["no reason given"])[-1]
        raise BookkeepingError(f"nbgrader could not take {what}: {last}")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the step is done: nbgrader would take it for a failure of the notebook."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[bool] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class ByHand:
    """What nbgrader knows of a submission and the judge does not.

    Attributes:
        points: given by hand, by exercise.
        penalty: points off for being late.
        hours_late: after the due date, an extension counted.
        comments: of the instructor, by exercise.
    """

    points: dict[str, float]
    penalty: float = 0.0
    hours_late: float = 0.0
    comments: dict[str, str] = field(default_factory=dict)


def by_hand(gradebook: Path, student: str, lesson: str) -> ByHand:
    """What an instructor has set in nbgrader for a student's lesson."""
    if not gradebook.exists():
        return ByHand({})
    with Gradebook(f"sqlite:///{gradebook.resolve()}") as book:
        try:
            submission = book.find_submission(lesson, student)
        except MissingEntry:
            return ByHand({})
        points = {
            grade.name: float(grade.manual_score)
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.manual_score is not None
        }
        # The comment on a code answer hangs on its own cell, the points on the check below it.
        comments = {
            comment.name.removeprefix("answer-"): str(comment.manual_comment).strip()
            for notebook in submission.notebooks
            for comment in notebook.comments
            if (comment.manual_comment or "").strip()
        }
        return ByHand(points, penalty_of(submission), round(seconds_late(submission) / 3600, 2), comments)


def penalty_of(submission: SubmittedAssignment) -> float:
    return sum(float(notebook.late_submission_penalty or 0.0) for notebook in submission.notebooks)


def seconds_late(submission: SubmittedAssignment) -> float:
    """Of a lesson without a due date nothing is late, whatever extension was given."""
    return float(submission.total_seconds_late) if submission.assignment.duedate is not None else 0.0


def assign_penalties(out: Path) -> None:
    """Points off for everybody in the books who was late, by the due dates, extensions and settings of now.

    nbgrader's own step does it, so that a plugin of the instructor's is asked as ever.

    Raises:
        BookkeepingError: if the settings or the plugin fail.
    """
    if not (out / "gradebook.db").exists():
        return
    config, found = books_config(out), []
    quiet = logging.getLogger(f"{__name__}.penalties")  # it would name each late student on the screen
    quiet.propagate, quiet.disabled = False, True
    with Gradebook(config.CourseDirectory.db_url) as book:
        for submission in book.db.query(SubmittedAssignment).all():
            late = seconds_late(submission) > 0
            for notebook in submission.notebooks:
                if late:
                    found.append((submission.student_id, submission.name, notebook.name))
                elif notebook.late_submission_penalty:
                    notebook.late_submission_penalty = None
        book.db.commit()
    for student, lesson, notebook in found:
        about = {"notebook": notebook, "assignment": lesson, "student": student}
        try:
            step = preprocessors.AssignLatePenalties(config=config, log=quiet)
            step.preprocess(new_notebook(), {"nbgrader": {**about, "db_url": config.CourseDirectory.db_url}})
        except Exception as problem:  # a plugin of the instructor's: whatever it trips over
            why = f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
            raise BookkeepingError(
                f"the penalty for late work set in {out / 'nbgrader' / OWN_SETTINGS} fails ({why})"
            ) from None
