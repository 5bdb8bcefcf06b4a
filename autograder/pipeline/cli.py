"""`python -m autograder …`: build the notebooks, make a sample class, grade, report."""

import os
import sys
import traceback
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.core import TyperGroup

# torch and nbgrader take seconds to import: each command imports what it needs, so that --help answers at once.
if TYPE_CHECKING:
    from concurrent.futures import Executor

    from autograder.pipeline.records import Record
    from autograder.pipeline.submission import Submission

ROOT = Path(__file__).resolve().parents[2]
ERROR_LOG = "error.log"
NO_FILES = {ERROR_LOG, "lost+found", "Icon\r"}  # what this program, a new disk and macOS leave in a folder
NOT_RUN, REFUSED, STOPPED = 1, 2, 130  # exit codes
WITHOUT_WALL = (
    "--sandbox process runs the code of every submission as you: it can read and delete your files, read the answers of the "
    "course and of other students, and use the network. Use it only for submissions that you trust."
)
WRITTEN = {
    "grades.csv": "a row per student and lesson",
    "files.csv": "what became of every file",
    "class.html": "the class, in English",
    "class.zh-TW.html": "the class, in Traditional Chinese",
    "feedback": "a page per submission",
    "gradebook.db": "nbgrader's gradebook",
    "lms": "grades and feedback for the import of Moodle and Canvas",
    "changes.csv": "who gained or lost points in this run",
}


class Sandbox(StrEnum):
    """What stands between a submission and this machine."""

    bubblewrap = "bubblewrap"
    process = "process"


class Commands(TyperGroup):
    """The commands; what is wrong with how one is called is one line, as everything that goes wrong."""

    def main(self, *arguments: Any, **more: Any) -> Any:
        try:
            code = super().main(*arguments, **{**more, "standalone_mode": False})
        except Exception as problem:
            # The class of these errors differs between the versions of typer; this is what they have in common.
            if not hasattr(problem, "format_message"):
                raise
            text = problem.format_message()
            if not text:  # nothing was asked for, and the help is shown
                pass
            elif "\n" in text:  # other versions of typer hand the help over
                print(text, file=sys.stderr)
            else:
                context = getattr(problem, "ctx", None)
                command = f" {context.info_name}" if context is not None and context.parent is not None else ""
                text = text.replace("Value error, ", "").rstrip(".")
                print(f"error: {text} (see python -m autograder{command} --help)", file=sys.stderr)
            code = REFUSED
        sys.exit(code)


app = typer.Typer(
    cls=Commands, help="Notebooks of the course, and grades for what students hand in.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip
screen = Console()

Out = Annotated[Path, typer.Option(help="Folder for grades, feedback, gradebook and records.")]


@app.command()
def build() -> None:
    """Release the lessons: solutions/*.py becomes lessons/en and lessons/zh-TW."""
    from autograder.pipeline.authoring import AuthoringError
    from autograder.pipeline.authoring import build as build_lessons

    if not (ROOT / "solutions").is_dir():
        refuse("there is no folder solutions here: build works in a clone of the course's repository")
    try:
        released = build_lessons(ROOT)
    except AuthoringError as problem:
        for line in problem.refusals:
            print(line, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    for path in released:
        print(path.relative_to(ROOT))


@app.command()
def demo(path: Annotated[Path, typer.Argument(metavar="ZIP", help="The zip file to write.")]) -> None:
    """Make the sample class: a zip of submissions such as a learning platform exports."""
    from autograder.pipeline.demo import make_demo

    make_demo(path)
    print(path)


@app.command()
def grade(
    submissions: Annotated[Path, typer.Argument(metavar="SUBMISSIONS", help="A zip or folder of submissions.")],
    out: Out,
    seed: Annotated[
        int | None,
        typer.Option(help="The same inputs for everybody, drawn from this seed (default: each student's own)."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Sandboxes side by side (default: one a core).")] = None,
    exercise: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="This exercise was mended: judge it anew from the answers kept in OUT, and nothing else.",
        ),
    ] = None,
    roster: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="CSV",
            help="The list of the class: Moodle's grading worksheet, Canvas's gradebook, or any table with a column student_id; "
            "may be repeated, with a worksheet for each lesson.",
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local", help="Grade on the workers of this Dask scheduler (tcp://…), or on local ones."
        ),
    ] = None,
    wall: Annotated[
        Sandbox, typer.Option("--sandbox", help="process: without the wall, only for submissions that you trust.")
    ] = Sandbox.bubblewrap,
) -> None:
    """Grade a pile of submissions; what is graded in OUT already is not run again."""
    with one_line(out):
        refuse_no_pile(submissions)
        refuse_no_place(out, submissions)
        for path in roster or ():
            if not path.exists():
                refuse(f"{path}: No such file or directory")
        from autograder.pipeline.grading import LIMITS
        from autograder.pipeline.grading import grade as grade_pile
        from autograder.pipeline.report import read_back

        limits = replace(LIMITS, walled=wall is Sandbox.bubblewrap)
        if not limits.walled:
            print(f"warning: {WITHOUT_WALL}", file=sys.stderr)
        lines: list[str] = []
        lessons = set[str]()
        with executor(dask, workers) as pool, bar() as progress:
            records = grade_pile(
                submissions, out, seed, workers, executor=pool, progress=progress, exercise=exercise,
                rosters=roster or (), limits=limits, tell=lines.append, about=lessons.update,
            )  # fmt: skip
        files = read_back(out)[1]
        tell(records, files, out, lessons)
        for line in lines:
            print(line)
        died = sum(record.status == "not run" for record in records)
        now = progress.total - died
        if exercise is None:  # else the line above says what was done
            print(f"{now} graded now, {sum(record.status == 'graded' for record in records) - now} as before")
        unkept = sum(bool(record.fault) and record.status != "not run" for record in records)
        if unkept:
            print(f"{unkept} grades were not kept or not entered in nbgrader's books, see grades.csv.", file=sys.stderr)
        if died:
            print(f"{died} submissions were not really run: run the same command again.", file=sys.stderr)
        without = len(files) - len(records) - sum(file.status == "superseded" for file in files)
        if without:
            print(f"{without} files have no row in grades.csv; please report this.", file=sys.stderr)
    if died or unkept or without:
        raise typer.Exit(NOT_RUN)


@app.command()
def release(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write, outside the course.")],
) -> None:
    """Write the public student repository: lessons, course_lib and the checks, without solutions and grading."""
    from autograder.pipeline.release import ReleaseError
    from autograder.pipeline.release import release as write_release

    try:
        files = write_release(ROOT, out)
    except ReleaseError as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"{problem.filename or out}: {problem.strerror}")
    print(f"{len(files)} files in {out}")


@app.command()
def solutions(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to; keep it from students.")],
    lesson: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this lesson; may be repeated.")] = None,
) -> None:
    """Write solved, executed notebooks of all lessons in both languages, for instructors."""
    from autograder.pipeline.solved import SolvedError, write_solved

    try:
        write_solved(ROOT, out, lesson or (), tell=print)
    except SolvedError as problem:
        refuse(str(problem))


@app.command()
def report(out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that grade wrote.")]) -> None:
    """Write tables and pages anew, with the points given by hand in nbgrader since."""
    with one_line(out):
        if not (out / "files.json").exists():
            refuse(f"{out} holds no graded class: grade one into it first")
        from autograder.pipeline.report import read_back, write_reports

        records, files = read_back(out)
        write_reports(out, records, files)
        tell(records, files, out)


@app.command()
def extension(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that grade wrote.")],
    lesson: Annotated[str, typer.Argument(metavar="LESSON", help="As in the column lesson of grades.csv.")],
    student: Annotated[str, typer.Argument(metavar="ID", help="The student_id or the id_number of grades.csv.")],
    days: Annotated[int, typer.Argument(metavar="DAYS", min=0, max=3650, help="After the due date; 0 takes it back.")],
) -> None:
    """Give one student more time for a lesson, and write tables and pages anew."""
    with one_line(out):
        if not (out / "files.json").exists():
            refuse(f"{out} holds no graded class: grade one into it first")
        from autograder.pipeline.bookkeeping import Books
        from autograder.pipeline.grading import LESSONS, only_run
        from autograder.pipeline.report import ClassList, read_back, write_reports

        if not (LESSONS / "en" / f"{lesson}.ipynb").is_file():
            refuse(f"there is no lesson {lesson}: write it as in the column lesson of grades.csv, such as 02_qkv")
        with only_run(out):
            records, files = read_back(out)
            whose = ClassList.read(out, records).id_of(student, lesson, records)
            Books(out, LESSONS).extend(lesson, whose, days)
            write_reports(out, records, files)
        print(f"{printable(whose)}, {lesson}: {counted(days, 'day')} after the due date")


# ------------------------------------------------------------------------------------------------- what is shown


@dataclass
class Shown:
    """How far the run is, on the screen. `total`: the submissions that are graded in this run."""

    bar: Progress
    task: TaskID | None = None
    total: int = 0

    def __call__(self, done: int, total: int) -> None:
        self.total = total
        if total and self.task is None:  # nothing to show if there is nothing new since the last run
            self.task = self.bar.add_task("", total=total)
            self.bar.start()
        if self.task is not None:
            self.bar.update(self.task, completed=done)


@contextmanager
def executor(dask: str | None, workers: int | None) -> "Iterator[Executor | None]":
    """Where submissions run: None for threads of this process, each with its sandbox."""
    if dask is None:
        yield None
        return
    from autograder.pipeline.cluster import dask_executor

    with dask_executor(dask, workers) as pool:
        yield pool


@contextmanager
def bar() -> Iterator[Shown]:
    """A progress bar that starts with the first submission; in a file or a pipe, where it cannot move, its last state."""
    columns = (TextColumn("submissions graded"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = Shown(Progress(*columns, console=screen))
    try:
        yield shown
    finally:
        if shown.task is not None:
            shown.bar.stop()


def tell(records: "list[Record]", files: "list[Submission]", out: Path, only: Collection[str] | None = None) -> None:
    """The class in a few lines: means, frequent mistakes, what needs a look, and where everything is.

    Args:
        only: the lessons that get a table (default: all); of the others there is a line.
    """
    from autograder.pipeline.lms import unfinished
    from autograder.pipeline.report import (
        ClassList,
        most_frequent,
        percent,
        plain,
        statistics,
        things_to_look_at,
        with_manual_points,
        words,
    )  # fmt: skip

    records = [with_manual_points(record, out / "gradebook.db") for record in records]
    every = statistics(records)
    lessons = [lesson for lesson in every if only is None or lesson.lesson in only]
    for lesson in lessons:
        screen.print(lesson.titles["en"], style="bold", markup=False, highlight=False)
        table = Table()
        table.add_column("exercise")
        for heading in ("mean", "of", "full marks"):
            table.add_column(heading, justify="right")
        for exercise in lesson.exercises:
            mean = "–" if exercise.mean is None else plain(exercise.mean)
            full = "–" if exercise.mean is None else percent(exercise.counts["full"], len(lesson.totals))
            wait = f" ({exercise.counts['wait']} wait)" if exercise.counts["wait"] and exercise.mean is not None else ""
            table.add_row(exercise.name + wait, mean, plain(exercise.max_points), full)
        table.add_section()
        table.add_row(
            f"total ({counted(len(lesson.totals), 'submission')})", plain(lesson.mean), plain(lesson.max_points), ""
        )
        if lesson.waiting:
            table.add_row("waits for you", "–", plain(lesson.waiting), "")
        screen.print(table)
    for lesson in every:
        if lesson not in lessons:
            print(
                f"{lesson.titles['en']}, as before: mean {plain(lesson.mean)} of {plain(lesson.max_points)}, "
                f"{counted(len(lesson.totals), 'submission')}"
            )
    if frequent := most_frequent(lessons):
        screen.print("Most frequent mistakes:")
        for name, mistake in frequent:
            screen.print(f"  {len(mistake.records)} × {name}: {mistake.message['en']}", markup=False, highlight=False)
    about = ClassList.read(out, records)
    if looks := things_to_look_at(records, files, about):
        screen.print("Needs a look (see class.html):")
        for look in looks:
            screen.print(f"  {look.count} × {words('en', 'look ' + look.kind)}", markup=False, highlight=False)
    if waiting := sum(map(unfinished, records)):
        print(
            f"{waiting} × a written answer waits for your points: until then the grade is left empty in {out / 'lms'}"
        )
    if about.roster is not None and (unnumbered := about.roster.unnumbered):
        names = ", ".join(map(printable, unnumbered[:3])) + (", …" if len(unnumbered) > 3 else "")
        print(
            f"{counted(len(unnumbered), 'name')} without a student number on the list of the class ({names}): "
            "who has no other id there is left out"
        )
    students, rows = about.students(records), len(records) + len(about.missing)
    screen.print(f"{counted(students, 'student')}, {counted(rows, 'row')}, written to {out}:")
    for name, what in WRITTEN.items():
        if (out / name).exists():
            print(f"  {out / name}  {what}")


def printable(text: str) -> str:
    """Names that others chose, on one line and without what steers a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


# ------------------------------------------------------------------------------------------------- what goes wrong


@contextmanager
def one_line(out: Path) -> Iterator[None]:
    """Every failure inside ends the program with one line for the instructor and an exit code, without a traceback."""
    warnings.simplefilter("ignore")  # of libraries; nothing that an instructor could do about them
    if out.is_file():
        refuse(f"cannot write to {out}: it is a file, not a folder")
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        print("Stopped. The same command goes on where this run stopped.", file=sys.stderr)
        raise typer.Exit(STOPPED) from None
    except Exception as problem:
        if isinstance(problem, expected()):
            refuse(str(problem))
        if isinstance(problem, OSError) and problem.filename is not None:
            path = Path(os.fsdecode(problem.filename))
            inside = path.is_relative_to(out) or out.is_relative_to(path)
            refuse(f"cannot write to {out}: {problem.strerror}" if inside else f"{path}: {problem.strerror}")
        what = (str(problem).splitlines() or [""])[0]
        refuse(f"unexpected {type(problem).__name__}: {what} ({keep_traceback(out)})")


def refuse_no_pile(path: Path) -> None:
    """Say at once what is no pile: `grade` sees it too, after the seconds that torch and nbgrader take to import."""
    from autograder.pipeline.pile import no_pile

    if not path.exists():
        refuse(f"{path} does not exist")
    if not path.is_dir() and not zipfile.is_zipfile(path):
        refuse(no_pile(path))


def refuse_no_place(out: Path, submissions: Path) -> None:
    """Say where grades cannot lie: among other files, or where a later run would take them for submissions.

    Only where OUT lies is beyond doubt. What lies in the pile students choose, so nothing in it stops a run.
    """
    from autograder.pipeline.pile import is_litter

    if out.resolve().is_relative_to(submissions.resolve()):
        refuse(f"{out} lies in the folder of the submissions, and so its files would be graded: name another OUT")
    if found := like_grades(submissions):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        print(
            f"warning: {printable(str(found[0]))}{more} looks like a folder of grades: its files are taken for submissions. "
            "If it is yours and no student's, move it out and grade again.",
            file=sys.stderr,
        )
    if out.is_dir() and not holds_grades(out):
        names = [path.name for path in out.iterdir() if path.name[0] != "." and path.name not in NO_FILES]
        foreign = sorted(name for name in names if not is_litter([name]) and not is_list(name))
        if foreign:
            listed = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
            refuse(f"{out} holds something else ({listed}): name a new folder for the grades")


def holds_grades(folder: Path) -> bool:
    """Whether a run of `grade` has begun in a folder: what it writes first stays there."""
    return (folder / "lock").is_file()


def like_grades(submissions: Path) -> list[Path]:
    """The folders of a pile that look as if a run of `grade` had written them; nothing where it is a zip."""
    found = [Path(folder) for folder, _, names in os.walk(submissions) if {"files.json", "lock"} <= {*names}]
    return sorted(found)


def is_list(name: str) -> bool:
    """Whether a file may be the list of the class, put where its grades will lie; tables that `grade` writes are none."""
    return name.lower().endswith(".csv") and name.lower() not in WRITTEN


def expected() -> tuple[type[Exception], ...]:
    """The errors that carry a line for the instructor."""
    from autograder.pipeline.bookkeeping import BookkeepingError
    from autograder.pipeline.grading import GradingError
    from autograder.pipeline.pile import CollectError
    from autograder.pipeline.report import ReportError
    from autograder.pipeline.roster import RosterError
    from autograder.pipeline.sandbox import SandboxUnavailable

    return (CollectError, GradingError, SandboxUnavailable, BookkeepingError, ReportError, RosterError)


def keep_traceback(out: Path) -> str:
    """Write the traceback of the exception being handled to a file; says what to report."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ERROR_LOG).write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
    except OSError as problem:
        return f"no details: {out / ERROR_LOG} cannot be written, {problem.strerror}"
    return f"please report this line and the file {out / ERROR_LOG}"


def refuse(why: str) -> NoReturn:
    print(f"error: {' '.join(why.split())}", file=sys.stderr)
    raise typer.Exit(REFUSED)
