"""From a pile of submissions to grades: collect, run each notebook in the sandbox, judge outside, keep the books."""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.cases import calls
from autograder.exercise import Exercise, get
from autograder.guard import forbidden_in_source, unusual_in_source
from autograder.judging import MISSING, decide
from autograder.observe import Observation
from autograder.pipeline import sandbox
from autograder.pipeline.bookkeeping import BookkeepingError, Books
from autograder.pipeline.collect import Submission, collect
from autograder.pipeline.records import Grade, Record, grade_of
from autograder.pipeline.sandbox import Cell, CellOutcome, Job, Limits, Outcome
from autograder.text import Text, both
from autograder.wire import dumps

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
ANSWER = "answer-"
LIMITS = Limits()

Progress = Callable[[int, int], None]  # how many submissions are done, of how many


class GradingError(RuntimeError):
    """The run as a whole cannot go on; the text is one line for the instructor."""


@dataclass(frozen=True)
class Inputs:
    """Where an exercise's inputs come from: a secret of this course's run, or one seed for everybody."""

    secret: bytes
    seed: int | None = None

    def seed_for(self, student: str, exercise: str) -> int:
        """HMAC(secret, student, exercise): nobody can guess it, and a regrade draws the same."""
        if self.seed is not None:
            return self.seed
        message = f"{student}\0{exercise}".encode()
        return int.from_bytes(hmac.digest(self.secret, message, "sha256")[:8], "big") >> 1

    def fingerprint(self) -> str:
        """Tells two sources of inputs apart without telling the secret."""
        return hmac.digest(self.secret, f"fingerprint/{self.seed}".encode(), "sha256").hex()[:16]


# ------------------------------------------------------------------------------------------------- one submission


def grade_submission(submission: Submission, inputs: Inputs, limits: Limits = LIMITS, key: str = "") -> Record:
    """Run one canonical notebook in the sandbox and judge what came out.

    Raises:
        SandboxUnavailable: if this machine cannot run the sandbox.
    """
    notebook = submission.notebook
    assert notebook is not None
    exercises = exercises_of(notebook)
    seeds = {e.name: inputs.seed_for(submission.student_id, e.name) for e in exercises}
    cells = list(cells_to_run(notebook))
    plan = {e.name: planned(e, seeds[e.name]) for e in exercises}
    outcome = sandbox.run(Job(tuple(Cell(cell.source, check_of(cell)) for cell in cells), plan, limits))
    code = "\n".join(cell.source for cell in cells)
    record = new_record(submission, key)
    if outcome.broken:
        record.status, record.key = "not run", ""  # without its key it is run again next time
        record.reason += " The sandbox itself failed; run the same command again."
        return record
    for cell in notebook.cells:
        book = cell.metadata.get("nbgrader", {})
        if not book.get("grade"):
            continue
        name = book["grade_id"]
        if book.get("solution"):
            record.grades.append(written_grade(cell))
        else:
            record.grades.append(judged(get(name), seeds[name], cells, outcome, code))
    record.notes = list(notes(cells, outcome))
    record.unusual = list(unusual(cells, exercises))
    if outcome.ended is not None:
        record.reason += f" Not run to its end: {outcome.ended['en']}."
    return record


def new_record(submission: Submission, key: str = "") -> Record:
    received = submission.received.isoformat(sep=" ", timespec="minutes") if submission.received else ""
    status = "graded" if submission.notebook is not None else submission.status
    return Record(
        submission.student_id, submission.student_name, submission.lesson, submission.language, submission.source,
        status, submission.reason, received, key=key, notebook_id=submission.notebook_id,
    )  # fmt: skip


def cells_to_run(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Set-up, answers, checks and the student's own cells; demonstrations and experiments are left out."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        tags = cell.metadata.get("tags", [])
        if "nbgrader" in cell.metadata or "setup" in tags or "student" in tags:
            yield cell


def exercises_of(notebook: NotebookNode) -> list[Exercise]:
    return [get(name) for name in map(check_of, notebook.cells) if name is not None]


def check_of(cell: NotebookNode) -> str | None:
    """The exercise whose check cell this is."""
    book = cell.metadata.get("nbgrader", {})
    return str(book["grade_id"]) if book.get("grade") and not book.get("solution") else None


def planned(exercise: Exercise, seed: int) -> dict[str, Any]:
    """What the sandbox is told of an exercise: the inputs, and what may not be called."""
    return {
        "driver": exercise.driver,
        "forbidden": list(exercise.forbidden),
        "calls": [dumps(call) for call in calls(exercise, seed)],
    }


def judged(exercise: Exercise, seed: int, cells: list[NotebookNode], outcome: Outcome, code: str) -> Grade:
    """The grade of one exercise, from what its answer did in the sandbox and from its source."""
    check = next(i for i, cell in enumerate(cells) if check_of(cell) == exercise.name)
    answer = next((i for i, cell in enumerate(cells) if grade_id(cell) == ANSWER + exercise.name), None)
    source = cells[answer].source if answer is not None else ""
    answer_ran = outcome.cells.get(answer, CellOutcome()) if answer is not None else CellOutcome()
    seen = outcome.observations.get(exercise.name, {})
    observations = [seen.get(i, MISSING) for i in range(len(exercise.cases))]
    if seen and all(o.not_written for o in seen.values()):
        observations = [Observation(not_written=True)] * len(exercise.cases)
    verdict = decide(exercise, observations, seed, forbidden_in_source(source, exercise.forbidden, context=code))
    untried = verdict.written and not verdict.forbidden and len(seen) < len(exercise.cases)
    stopped = untried and (outcome.ended is not None or bool({check, answer} & outcome.stopped.keys()))
    grade = grade_of(verdict, source, printed(answer_ran), stopped)
    if untried:
        why = what_stopped(check, answer, outcome)
        for i, line in enumerate(grade.lines):
            if i not in seen:
                line.difference = both(f"not tried: {why['en']}.", f"沒有執行到：{why['zh-TW']}。")
        if not seen or grade.mistake is None:
            grade.message = both(f"It could not be tried: {why['en']}.", f"這題沒辦法執行：{why['zh-TW']}。")
    return grade


def grade_id(cell: NotebookNode) -> str | None:
    name = cell.metadata.get("nbgrader", {}).get("grade_id")
    return str(name) if name is not None else None


def what_stopped(check: int, answer: int | None, outcome: Outcome) -> Text:
    """Why there is no (complete) result of an exercise: the cell of the answer, its check, or the notebook."""
    for i in (answer, check):
        if i is None:
            continue
        ran = outcome.cells.get(i, CellOutcome())
        if i in outcome.stopped:
            return outcome.stopped[i]
        if ran.error is not None:
            at_line = ran.line and i == answer
            return both(
                ran.error + (f" (line {ran.line})" if at_line else ""),
                ran.error + (f"（第 {ran.line} 行）" if at_line else ""),
            )
    return outcome.ended or both("its check did not run", "檢查沒有執行")


def printed(ran: CellOutcome) -> str:
    return "\n".join(part for part in (ran.text.strip(), ran.error or "") if part)[:4000]


def written_grade(cell: NotebookNode) -> Grade:
    """A written answer waits for the instructor, unless it is still what was released."""
    book = cell.metadata["nbgrader"]
    name, points = book["grade_id"], float(book["points"])
    if book.get("checksum") == compute_checksum(cell):
        return Grade(name, 0.0, points, "not started", both("Not started.", "尚未作答。"))
    return Grade(
        name, None, points, "by hand", both("Graded by your instructor.", "由授課教師評分。"), answer=cell.source
    )


def unusual(cells: list[NotebookNode], exercises: list[Exercise]) -> Iterator[Text]:
    """Sentences for the instructor about code that reaches for a forbidden built-in or for the grader itself."""
    forbidden = sorted({name for exercise in exercises for name in exercise.forbidden})
    own = 0
    for cell in cells:
        student, name = "student" in cell.metadata.get("tags", []), grade_id(cell) or ""
        own += student
        if not student and not name.startswith(ANSWER):
            continue
        place = f"own cell {own}" if student else name.removeprefix(ANSWER)
        place_zh = f"自己加的第 {own} 個儲存格" if student else name.removeprefix(ANSWER)
        for seen in unusual_in_source(cell.source, forbidden if student else ()):
            yield both(f"{place}, line {seen.line}: {seen.name}", f"{place_zh}，第 {seen.line} 行：{seen.name}")


def notes(cells: list[NotebookNode], outcome: Outcome) -> Iterator[Text]:
    """What a student should know about cells of their own that did not run through."""
    number = 0
    for i, cell in enumerate(cells):
        if "student" not in cell.metadata.get("tags", []):
            continue
        number += 1
        error = outcome.cells.get(i, CellOutcome()).error
        why = outcome.stopped.get(i) or (both(error, error) if error else None)
        if why is not None:
            yield both(
                f"A cell of your own (no. {number}) stopped: {why['en']}",
                f"你自己加的第 {number} 個儲存格停了下來：{why['zh-TW']}",
            )


# ------------------------------------------------------------------------------------------------- the class


def grade(
    pile: Path,
    out: Path,
    seed: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Record]:
    """Grade a pile of submissions into the folder `out`; what is already graded there is not run again.

    Args:
        pile: a zip or folder of submissions.
        out: where grades, gradebook, feedback and records go.
        seed: the same inputs for everybody (default: each student's own, from the secret kept in `out`).
        workers: sandboxes side by side (default: one a core).
        executor: runs the submissions; default a pool of `workers` threads, each with its own sandbox.
        progress: is told how far the run is.

    Returns:
        A record for every submission and every unreadable file, sorted by student and lesson.

    Raises:
        CollectError, GradingError, SandboxUnavailable: with one line for the instructor.
    """
    from autograder.pipeline.report import write_reports

    torch.set_num_threads(1)  # the cores belong to the sandboxes
    submissions = collect(pile, LESSONS)
    out.mkdir(parents=True, exist_ok=True)
    with only_run(out):
        inputs = Inputs(secret_of(out), seed)
        books = Books(out, LESSONS)
        records = [new_record(s) for s in submissions if s.notebook is None and s.status != "superseded"]
        todo: list[tuple[Submission, str]] = []
        for submission in submissions:
            if submission.notebook is None:
                continue
            key = key_of(submission, inputs)
            known = Record.load(record_path(out, submission))
            if known is not None and known.key == key:
                fresh = new_record(submission, key)
                for field in ("source", "received", "student_name", "notebook_id"):
                    setattr(known, field, getattr(fresh, field))
                books.enter(known, submission)  # a stopped run may have come this far only
                records.append(known)
            else:
                todo.append((submission, key))
        pool = executor or ThreadPoolExecutor(workers or os.cpu_count() or 1)
        try:
            progress(0, len(todo))
            futures = {pool.submit(grade_submission, s, inputs, LIMITS, key): s for s, key in todo}
            for done, future in enumerate(as_completed(futures), start=1):
                submission = futures[future]
                record = finished(future, submission)
                if record.status == "graded":
                    try:
                        books.enter(record, submission)
                    except BookkeepingError as problem:  # it has its grade; the next run tries again
                        record.reason, record.key = f"{record.reason} {str(problem)[:300]}.", ""
                record.save(record_path(out, submission))
                records.append(record)
                progress(done, len(todo))
        finally:
            if executor is None:
                pool.shutdown(cancel_futures=True)
                sandbox.close_all()
        records.sort(key=lambda r: (r.student_id, r.lesson or "", r.source))
        write_reports(out, records, submissions)
    return records


def finished(future: "Future[Record]", submission: Submission) -> Record:
    """The record of a submission; a fault of ours in grading one costs no other its grade."""
    try:
        return future.result()
    except sandbox.SandboxUnavailable:
        raise
    except Exception as problem:
        record = new_record(submission)
        record.status = "not run"
        record.reason += (
            f" The grader itself failed ({type(problem).__name__}: {str(problem)[:200]}); please report this."
        )
        return record


def key_of(submission: Submission, inputs: Inputs) -> str:
    """Of everything that decides a grade: the notebook, the course's version and its exercises, and the inputs."""
    assert submission.notebook is not None
    digest = hashlib.sha256()
    for cell in submission.notebook.cells:
        digest.update(f"{cell.cell_type}\0{cell.source}\0".encode("utf-8", "replace"))
    digest.update(f"{submission.student_id}/{inputs.fingerprint()}/{course_fingerprint()}".encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def course_fingerprint() -> str:
    """Changes when code that decides a grade does, so that a corrected exercise is graded anew."""
    package = Path(__file__).resolve().parents[1]
    deciding = [*package.glob("*.py"), *package.glob("exercises/*.py"), *package.parent.glob("course_lib/*.py")]
    deciding += [package / "pipeline" / f"{name}.py" for name in ("grading", "inside", "records", "sandbox", "worker")]
    digest = hashlib.sha256()
    for path in sorted(deciding):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def record_path(out: Path, submission: Submission) -> Path:
    return out / "records" / submission.student_id / f"{submission.lesson}.json"


def secret_of(out: Path) -> bytes:
    """The secret of this folder of grades, made on first use; only its owner may read it."""
    path = out / "secret"
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    text = path.read_text().strip()
    if len(text) < 32:
        raise GradingError(f"{path} is damaged: delete it to draw new inputs for everybody, or restore it")
    return bytes.fromhex(text)


@contextmanager
def only_run(out: Path) -> Iterator[None]:
    """One run of `grade` at a time in a folder."""
    with open(out / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GradingError(
                f"another run of grade is writing to {out}; wait for it, or choose another --out"
            ) from None
        yield
