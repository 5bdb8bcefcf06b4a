"""nbgrader keeps the books: its gradebook gets the points, its formgrader the notebooks. One writer, no execution."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader import preprocessors, utils
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import capture_log

from autograder.pipeline.collect import Submission
from autograder.pipeline.nbgrader_config import course_config, create_gradebook
from autograder.pipeline.records import Grade, Record


class BookkeepingError(RuntimeError):
    """nbgrader refused something; the text is one line for the instructor."""


class WriteVerdicts(NbGraderPreprocessor):
    """In place of nbgrader's `Execute`: the outputs of the graded cells are the verdicts of the judge.

    nbgrader gives full points to a graded cell without output, so a cell without a verdict gets an error.
    """

    grades: Mapping[tuple[str, str], Mapping[str, Grade]] = {}  # by (student, lesson), then exercise
    languages: Mapping[tuple[str, str], str] = {}

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        book = resources["nbgrader"]
        key = (book["student"], book["assignment"])
        for cell in nb.cells:
            if not utils.is_grade(cell):
                continue
            grade = self.grades[key].get(cell.metadata.nbgrader["grade_id"])
            if cell.cell_type == "code":
                cell.outputs = outputs(grade, self.languages[key])
            elif grade is not None and grade.status == "not started":
                # nbgrader knows an unanswered cell by its checksum; ours may be in the other language.
                cell.metadata.nbgrader["checksum"] = utils.compute_checksum(cell)
        return nb, resources


def outputs(grade: Grade | None, language: str) -> list[NotebookNode]:
    """An explanation, then the points as the cell's result, which nbgrader reads."""
    if grade is None or grade.points is None:
        return [new_output("error", ename="NotJudged", evalue="no verdict", traceback=["no verdict"])]
    lines = [grade.message[language]]
    for line in grade.lines:
        difference = f": {line.difference[language]}" if line.difference else ""
        lines.append(f"{'✓' if line.passed else '✗'} {line.label[language]}{difference}")
    return [
        new_output("stream", name="stdout", text="\n".join(lines) + "\n"),
        new_output("execute_result", data={"text/plain": repr(float(grade.points))}, execution_count=None),
    ]


def keep_books(
    out: Path,
    lessons: Path,
    records: Sequence[Record],
    submissions: Mapping[tuple[str, str | None], Submission],
    progress: Callable[[str, int, int], None],
) -> None:
    """Enter every graded record into nbgrader's gradebook (`out/gradebook.db`); manual points in it are kept.

    Raises:
        BookkeepingError: if nbgrader cannot take a notebook.
    """
    course, gradebook = out / "nbgrader", out / "gradebook.db"
    create_gradebook(gradebook)
    config = course_config(course, gradebook)
    config.Autograde.sanitize_preprocessors = [
        preprocessors.ClearOutput,
        preprocessors.OverwriteKernelspec,
        preprocessors.OverwriteCells,
        preprocessors.CheckCellMetadata,
    ]
    config.Autograde.autograde_preprocessors = [
        WriteVerdicts,
        preprocessors.LimitOutput,
        preprocessors.SaveAutoGrades,
        preprocessors.AssignLatePenalties,
        preprocessors.CheckCellMetadata,
    ]
    graded = [r for r in records if r.lesson is not None and r.status == "graded"]
    WriteVerdicts.grades = {(r.student_id, r.lesson or ""): {g.name: g for g in r.grades} for r in graded}
    WriteVerdicts.languages = {(r.student_id, r.lesson or ""): r.language for r in graded}
    for lesson in sorted({r.lesson or "" for r in graded}):
        register(course, lessons / "en" / f"{lesson}.ipynb", config)
    with Gradebook(config.CourseDirectory.db_url) as book:
        for record in graded:
            first, _, last = record.student_name.partition(" ")
            book.update_or_create_student(record.student_id, first_name=first, last_name=last)
    todo = [r for r in graded if not up_to_date(course, r)]
    progress("gradebook", 0, len(todo))
    for done, record in enumerate(todo, start=1):
        enter(course, record, submissions[record.student_id, record.lesson], config)
        progress("gradebook", done, len(todo))


def register(course: Path, released: Path, config: object) -> None:
    """Tell the gradebook of a lesson and its graded cells, once for each version of the lesson."""
    lesson = released.stem
    source = course / "source" / lesson / released.name
    if source.exists() and source.read_bytes() == released.read_bytes():
        return
    source.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(released, source)
    config.CourseDirectory.assignment_id = lesson  # type: ignore[attr-defined]
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    run(converter, lesson)


def enter(course: Path, record: Record, submission: Submission, config: object) -> None:
    """One submission through nbgrader's autograde step."""
    lesson = record.lesson or ""
    folder = course / "submitted" / record.student_id / lesson
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(submission.notebook, folder / f"{lesson}.ipynb")
    if submission.received is not None:
        stamp = submission.received.isoformat(sep=" ", timespec="seconds")
        (folder / "timestamp.txt").write_text(stamp if submission.received.tzinfo else stamp + " UTC")
    config.CourseDirectory.assignment_id = lesson  # type: ignore[attr-defined]
    config.CourseDirectory.student_id = record.student_id  # type: ignore[attr-defined]
    converter = Autograde(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    run(converter, f"{record.student_id}, {lesson}")
    key_file(course, record).write_text(record.key)


def up_to_date(course: Path, record: Record) -> bool:
    path = key_file(course, record)
    return path.exists() and path.read_text() == record.key


def key_file(course: Path, record: Record) -> Path:
    return course / "autograded" / record.student_id / (record.lesson or "") / "key.txt"


def run(converter: Autograde | GenerateAssignment, what: str) -> None:
    result = capture_log(converter)
    if not result["success"]:
        last = (str(result.get("error") or result.get("log") or "").strip().splitlines() or ["no reason given"])[-1]
        raise BookkeepingError(f"nbgrader could not take {what}: {last}")


def manual_points(gradebook: Path, student: str, lesson: str) -> dict[str, float]:
    """Points that an instructor has given by hand, by graded cell."""
    if not gradebook.exists():
        return {}
    with Gradebook(f"sqlite:///{gradebook.resolve()}") as book:
        try:
            submission = book.find_submission(lesson, student)
        except MissingEntry:
            return {}
        return {
            grade.name: float(grade.manual_score)
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.manual_score is not None
        }
