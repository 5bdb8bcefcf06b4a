"""From a pile of submissions to grades: collect, run each notebook in the sandbox, judge outside, keep the books."""

import ast
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.cases import calls
from autograder.exercise import Exercise, get
from autograder.guard import forbidden_in_source, names_between_cells
from autograder.judging import MISSING, decide
from autograder.made import KINDS
from autograder.observe import Observation
from autograder.operations import operations_of
from autograder.pipeline import sandbox
from autograder.pipeline.bookkeeping import BookkeepingError, Books
from autograder.pipeline.collect import collect
from autograder.pipeline.kept import Tried, load_tried, save_tried
from autograder.pipeline.rebuild import all_of
from autograder.pipeline.records import Change, Grade, Listed, Record, changes_between, grade_of
from autograder.pipeline.sandbox import Cell, CellOutcome, Job, Limits, Outcome
from autograder.pipeline.submission import Submission
from autograder.syntax import MOST_SCANNED, TOO_LONG, is_no_python, parsed
from autograder.text import Text, both
from autograder.unusual import Rank, Seen, said, unusual_in_source, unusual_operations
from autograder.watch import FROM_NUMPY, ITEM, LEAVING
from autograder.wire import dumps

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
ANSWER = "answer-"
LIMITS = Limits()
MOST_LISTED = 20  # lines of one submission that the instructor is asked to read
LONGEST_SHOWN = 100  # characters of each
LONGEST_NAMES = 300  # characters of the names for which a line is listed, and of those that are cut off
# Threads wait for their sandboxes side by side; what they compute between, they would only slow down for one another.
ONE_AT_A_TIME = threading.Lock()

Progress = Callable[[int, int], None]  # how many submissions are done, of how many


class GradingError(RuntimeError):
    """The run as a whole cannot go on; the text is one line for the instructor."""


@dataclass(frozen=True)
class Inputs:
    """Where an exercise's inputs come from: a secret of this course's run, or one seed for everybody."""

    secret: bytes
    seed: int | None = None

    def seed_for(self, student: str, exercise: str, written: str = "") -> int:
        """HMAC(secret, student, exercise, what they wrote): nobody can guess it, a regrade draws the same, and who has
        seen the inputs of one notebook meets others in the next."""
        if self.seed is not None:
            return self.seed
        message = f"{student}\0{exercise}\0{written}".encode()
        return int.from_bytes(hmac.digest(self.secret, message, "sha256")[:8], "big") >> 1

    def fingerprint(self) -> str:
        """Tells two sources of inputs apart without telling the secret."""
        return hmac.digest(self.secret, f"fingerprint/{self.seed}".encode(), "sha256").hex()[:16]


# ------------------------------------------------------------------------------------------------- one submission


@dataclass
class Graded:
    """A record, and what its grades were decided from: kept, so that an exercise can be judged again.

    `ran`: the answers were run for it, not taken from what was kept.
    """

    record: Record
    tried: dict[str, Tried]
    ran: bool = True


def grade_submission(
    submission: Submission, seeds: Mapping[str, int], limits: Limits = LIMITS, key: str = "", only: str | None = None
) -> Graded:
    """Run one canonical notebook in the sandbox and judge what came out.

    Args:
        submission: with its canonical notebook.
        seeds: of the inputs of each exercise.
        limits: of the sandbox.
        key: of what is graded, for the record.
        only: try this exercise alone; the record then holds its grade alone.

    Raises:
        SandboxUnavailable: if this machine cannot run the sandbox.
    """
    torch.set_num_threads(1)  # the cores belong to the sandboxes
    notebook = submission.notebook
    assert notebook is not None
    exercises = exercises_of(notebook)
    cells = list(cells_to_run(notebook))
    asked = [e for e in exercises if e.name not in submission.unscored and only in (None, e.name)]
    with ONE_AT_A_TIME:
        plan = {e.name: planned(e, seeds[e.name]) for e in asked}
    outcome = sandbox.run(Job(tuple(Cell(cell.source, check_of(cell)) for cell in cells), plan, limits))
    record = new_record(submission, key)
    if outcome.broken:
        record.status, record.key = "not run", ""  # without its key it is run again next time
        record.fault = "The sandbox itself failed; run the same command again."
        return Graded(record, {})
    with ONE_AT_A_TIME:
        tried = {e.name: tried_in(e.name, cells, outcome, fingerprint(plan[e.name])) for e in asked}
        for cell in notebook.cells:
            book = cell.metadata.get("nbgrader", {})
            if not book.get("grade") or only not in (None, book["grade_id"]):
                continue
            name = book["grade_id"]
            if name in submission.unscored:
                record.grades.append(unscored_grade(cell, submission))
            elif book.get("solution"):
                record.grades.append(written_grade(cell))
            else:
                record.grades.append(judged(get(name), seeds[name], cells, tried[name]))
    record.notes = list(notes(cells, outcome))
    record.unusual = list(unusual(cells, exercises, outcome))
    record.reason += "".join(f" {sentence}." for sentence in stopped_within(cells, outcome))
    if outcome.ended is not None:
        record.reason += f" Not run to its end: {outcome.ended['en']}."
    return Graded(record, tried)


def judge_again(
    submission: Submission, name: str, seeds: Mapping[str, int], kept: Tried | None, limits: Limits = LIMITS
) -> Graded:
    """Judge one exercise anew, from what is kept of its answer; where it is asked something else by now, run it again."""
    notebook = submission.notebook
    assert notebook is not None
    exercise = get(name)
    if kept is None or kept.plan != fingerprint(planned(exercise, seeds[name])):
        return grade_submission(submission, seeds, limits, only=name)
    cells = list(cells_to_run(notebook))
    record = new_record(submission)
    record.grades = [judged(exercise, seeds[name], cells, kept)]
    record.unusual = list(unusual(cells, exercises_of(notebook)))
    return Graded(record, {name: kept}, ran=False)


def seeds_for(submission: Submission, inputs: Inputs) -> dict[str, int]:
    """The seeds of a notebook's exercises: all of the secret that a worker on another machine gets to see."""
    assert submission.notebook is not None
    exercises = exercises_of(submission.notebook)
    own = [cell.source for cell in submission.notebook.cells if is_students(cell)]
    written = hashlib.sha256("\0".join(own).encode("utf-8", "replace")).hexdigest()
    return {e.name: inputs.seed_for(submission.student_id, e.name, written) for e in exercises}


def is_students(cell: NotebookNode) -> bool:
    """An answer, or a cell of the student's own."""
    return bool(cell.metadata.get("nbgrader", {}).get("solution")) or "student" in cell.metadata.get("tags", [])


def new_record(submission: Submission, key: str = "") -> Record:
    received = submission.received.isoformat(sep=" ", timespec="minutes") if submission.received else ""
    status = "graded" if submission.notebook is not None else submission.status
    return Record(
        submission.student_id, submission.student_name, submission.lesson, submission.language, submission.source,
        status, submission.reason, received, key=key, notebook_id=submission.notebook_id, platform=submission.platform,
        remark=submission.remark, listed=submission.listed,
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
    """What the sandbox is told of an exercise: the inputs, what may not be called, and the operations that carry it out."""
    return {
        "driver": exercise.driver,
        "forbidden": list(exercise.forbidden),
        "operations": sorted(operations_of(exercise.forbidden)),
        "calls": [dumps(call) for call in calls(exercise, seed)],
    }


def fingerprint(plan: Mapping[str, Any]) -> str:
    """Of what an exercise is asked: the same fingerprint means that an answer would do the same again."""
    text = "\0".join([plan["driver"], *plan["forbidden"], *plan["calls"]])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def answer_cell(name: str, cells: list[NotebookNode]) -> int | None:
    """The cell that answers an exercise: its own, or the one that its own names (see rebuild.py)."""
    at = next((i for i, cell in enumerate(cells) if grade_id(cell) == ANSWER + name), None)
    elsewhere = re.fullmatch(r"# Answered in the cell of (\w+)\.", cells[at].source) if at is not None else None
    if elsewhere and elsewhere[1] != name:
        other = next((i for i, cell in enumerate(cells) if grade_id(cell) == ANSWER + elsewhere[1]), None)
        return at if other is None else other
    return at


def answer_names(name: str, cells: list[NotebookNode]) -> set[str]:
    """What the check of an exercise takes for the answer: the names in its cell, `check` aside."""
    tree = parsed(cells[check_cell(name, cells)].source)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"check"} if tree else set()


def check_cell(name: str, cells: list[NotebookNode]) -> int:
    return next(i for i, cell in enumerate(cells) if check_of(cell) == name)


def tried_in(name: str, cells: list[NotebookNode], outcome: Outcome, plan: str) -> Tried:
    """What the sandbox saw of one exercise."""
    check = check_cell(name, cells)
    answer = answer_cell(name, cells)
    return Tried(
        plan,
        outcome.observations.get(name, {}),
        printed(outcome.cells.get(answer, CellOutcome())) if answer is not None else "",
        what_stopped(check, answer, outcome),
        outcome.ended is not None or bool({check, answer} & outcome.stopped.keys()),
    )


def judged(exercise: Exercise, seed: int, cells: list[NotebookNode], tried: Tried) -> Grade:
    """The grade of one exercise, from what its answer did in the sandbox and from its source."""
    answer = answer_cell(exercise.name, cells)
    source = cells[answer].source if answer is not None else ""
    code = "\n".join(cell.source for cell in cells[: check_cell(exercise.name, cells) + 1])  # what the check meets
    seen = tried.seen
    observations = [seen.get(i, MISSING) for i in range(len(exercise.cases))]
    if seen and all(o.not_written for o in seen.values()):
        observations = [Observation(not_written=True)] * len(exercise.cases)
    in_source = forbidden_in_source(source, exercise.forbidden, code, answer_names(exercise.name, cells))
    verdict = decide(exercise, observations, seed, in_source)
    untried = verdict.written and not verdict.forbidden and len(seen) < len(exercise.cases)
    grade = grade_of(verdict, source, tried.printed, untried and tried.stopped)
    grade.seen = [] if verdict.forbidden else list(seen_while_running(exercise, observations))
    if untried:
        why = tried.why
        told = not seen or grade.mistake is None  # once, above the cases
        for i, line in enumerate(grade.lines):
            if i not in seen:
                line.difference = both("not tried.", "沒有執行到。")
                if not told:
                    line.difference = both(f"not tried: {why['en']}.", f"沒有執行到：{why['zh-TW']}。")
        if told:
            grade.message = both(f"It could not be tried: {why['en']}.", f"這題沒辦法執行：{why['zh-TW']}。")
            before, _, last = grade.printed.rpartition("\n")
            grade.printed = before.rstrip() if last and why["en"].startswith(last) else grade.printed
        if not seen and not tried.stopped and (raised := re.match(r"\w+(?=:|$| \(line)", why["en"])):
            grade.error = raised[0]
    return grade


def seen_while_running(exercise: Exercise, observations: Sequence[Observation]) -> Iterator[Listed]:
    """What the instructor may like to know of what an answer did: it had torch do something that honest answers do not, left
    torch where gradients are asked for, or something ran beside it."""
    said = {
        "threads": both("other threads", "其他執行緒"),
        "processes": both("other processes", "其他行程"),
    }
    kinds = {kind for seen in observations for kind in seen.beside}
    beside = [text for kind, text in said.items() if kind in kinds]
    operations = {operation for seen in observations for operation in seen.operations}
    if not any(case.gradients for case in exercise.cases):
        operations -= {FROM_NUMPY, ITEM, *LEAVING.values()}
    for texts in (beside, unusual_operations(operations)):
        if texts:
            name, row = exercise.name, in_a_row(texts)
            yield Listed(both(f"{name}, while it ran: {row['en']}", f"{name} 執行時：{row['zh-TW']}"))


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
            return raised(ran, with_line=i == answer)
    return outcome.ended or both("its check did not run", "檢查沒有執行")


def stopped_within(cells: list[NotebookNode], outcome: Outcome) -> Iterator[str]:
    """For the reason of a row: where the interpreter was ended, or the notebook stopped."""
    where: dict[str, list[str]] = {}
    own = own_numbers(cells)
    for i in sorted(i for i in outcome.stopped if i < len(cells)):
        name = grade_id(cells[i]) or ""
        if i in own:
            where.setdefault("own cells", []).append(str(own[i]))
        elif name:
            kind = "the answer of" if name.startswith(ANSWER) else "the check of"
            where.setdefault(kind, []).append(name.removeprefix(ANSWER))
    yield from (f"Stopped within {kind}: {', '.join(names)}" for kind, names in where.items())


def raised(ran: CellOutcome, with_line: bool) -> Text:
    """What a cell died of, with the line: one number, and not the name that IPython gives the cell."""
    error = error_of(ran)
    at_line = with_line and ran.line
    return both(
        error + (f" (line {ran.line})" if at_line else ""), error + (f"（第 {ran.line} 行）" if at_line else "")
    )


def error_of(ran: CellOutcome) -> str:
    """`SyntaxError: expected ':' (<ipython-input-1-0510>, line 1)` without what is in the brackets."""
    return re.sub(r" \(<[^<>()]*>, line \d+\)$", "", ran.error or "")


def printed(ran: CellOutcome) -> str:
    """What a cell printed, and what it died of where no traceback says it."""
    text, error = ran.text.strip(), error_of(ran)
    return "\n".join(part for part in (text, "" if text.endswith(error) else error) if part)[:4000]


def written_grade(cell: NotebookNode) -> Grade:
    """A written answer waits for the instructor, unless it is still what was released."""
    book = cell.metadata["nbgrader"]
    name, points = book["grade_id"], float(book["points"])
    if book.get("checksum") == compute_checksum(cell):
        return Grade(name, 0.0, points, "not started", both("Not started.", "尚未作答。"))
    return Grade(
        name, None, points, "by hand", both("Graded by your instructor.", "由授課教師評分。"), answer=cell.source
    )


def unscored_grade(cell: NotebookNode, submission: Submission) -> Grade:
    """An exercise that did not exist yet in the release that the student worked on: neither points nor lost points."""
    book = cell.metadata["nbgrader"]
    en = f"Added to the lesson after {submission.release}, the release you worked on: it does not count for you."
    zh = f"這題在你作答的 {submission.release} 版之後才加入，不列入你的成績。"
    return Grade(book["grade_id"], None, float(book["points"]), "not scored", both(en, zh))


def unusual(cells: list[NotebookNode], exercises: list[Exercise], outcome: Outcome | None = None) -> Iterator[Listed]:
    """Lines of code that reach for a forbidden built-in, for the grader or around the watch, or are less usual otherwise.

    No more than `MOST_LISTED` of a submission, those first that say most; of the others the names.

    Args:
        cells: of the notebook that is run.
        exercises: in it.
        outcome: what the cells did, where they were run.
    """
    lines = unusual_lines(cells, exercises, outcome)
    yield from (line for _, line in lines[:MOST_LISTED])
    if rest := lines[MOST_LISTED:]:
        names = in_a_row([said(name) for name in dict.fromkeys(name for seen, _ in rest for name in seen)])
        yield Listed(both(f"and {len(rest)} more lines: {names['en']}", f"另外還有 {len(rest)} 行：{names['zh-TW']}"))


def unusual_lines(
    cells: list[NotebookNode], exercises: list[Exercise], outcome: Outcome | None = None
) -> list[tuple[list[str], Listed]]:
    """The names on each line and what is said of it: back doors and forbidden names before merely less usual ones, of
    these answers before the student's own cells."""
    lines: list[tuple[tuple[int, bool, int, int], list[str], Listed]] = []
    if sum(len(cell.source) for cell in cells) > MOST_SCANNED:
        zh = f"所有儲存格合計超過 {MOST_SCANNED:,} 個字元，沒有整體掃描"
        lines.append(((-1, False, 0, 0), [TOO_LONG], Listed(both(f"all cells: {TOO_LONG} as a whole", zh))))
    everywhere = {name for exercise in exercises for name in exercise.forbidden}
    of_cell: dict[int, set[str]] = {}
    taken = {i: names_between_cells(cell.source) for i, cell in enumerate(cells) if is_students(cell)}
    for exercise in exercises:
        observed = outcome.observations.get(exercise.name, {}) if outcome is not None else {}
        ran_too = {i for seen_case in observed.values() for i in seen_case.cells} & taken.keys()
        for i in cells_behind(answer_cell(exercise.name, cells), taken) | ran_too:
            of_cell.setdefault(i, set()).update(exercise.forbidden)
    own, notebook = own_numbers(cells), [cell.source for cell in cells]
    for i, cell in enumerate(cells):
        student, name = i in own, grade_id(cell) or ""
        ran = outcome.cells.get(i, CellOutcome()) if outcome is not None else None
        if (not student and not name.startswith(ANSWER)) or did_nothing(cell.source, ran):
            continue
        place = place_of(i, own, name)
        forbidden = sorted(everywhere if student else of_cell.get(i, ()))
        of_line: dict[int, list[Seen]] = {}
        for seen in unusual_in_source(cell.source, forbidden, notebook, scratch=student, behind=of_cell.get(i, ())):
            of_line.setdefault(seen.line, []).append(seen)
        code = re.split(r"\r\n|\r|\n", cell.source)
        for line, several in of_line.items():
            names = in_a_row([said_often(s) for s in several])
            here = code[line - 1].strip() if 0 < line <= len(code) else ""
            listed = Listed(
                both(f"{place['en']}, line {line}: {names['en']}", f"{place['zh-TW']}，第 {line} 行：{names['zh-TW']}"),
                shortened(here),
            )
            lines.append(((several[0].rank, student, i, line), [seen.name for seen in several], listed))
    known = {(rank[2], name) for rank, names, _ in lines for name in names}
    for i, made in (outcome.made if outcome is not None else {}).items():
        place = place_of(i, own, check_of(cells[i]) or grade_id(cells[i]) or "set-up")
        for kind, what in made:
            text = said(KINDS[kind].format(what))
            if (i, what) in known:  # it stands in the cell
                continue
            listed = Listed(
                both(f"{place['en']}, while it ran: {text['en']}", f"{place['zh-TW']} 執行時：{text['zh-TW']}"),
                shortened(" ".join(what.split())) if kind == "text" else "",
            )
            behind = len(cells[i].source)
            lines.append(((Rank.BACK_DOOR, i in own, i, behind), [text["en"]], listed))
    return [(names, listed) for _, names, listed in sorted(lines, key=lambda line: line[0])]


def place_of(cell: int, own: Mapping[int, int], name: str) -> Text:
    """Where a line stands: the student's own cell of that number, or the exercise."""
    if cell in own:
        return both(f"own cell {own[cell]}", f"自己加的第 {own[cell]} 個儲存格")
    return both(name.removeprefix(ANSWER), name.removeprefix(ANSWER))


def shortened(code: str) -> str:
    return code if len(code) <= LONGEST_SHOWN else code[: LONGEST_SHOWN - 1] + "…"


def said_often(seen: Seen) -> Text:
    often = "" if seen.times == 1 else f" ({seen.times}×)"
    return {language: text + often for language, text in said(seen.name).items()}


def in_a_row(texts: list[Text]) -> Text:
    """Names of a line, the most telling first; what is beyond `LONGEST_NAMES` characters is counted."""
    lengths = list(accumulate(len(text["en"]) + 2 for text in texts))
    shown = texts[: max(1, sum(length <= LONGEST_NAMES for length in lengths))]
    en, zh = (separator.join(text[lang] for text in shown) for lang, separator in (("en", ", "), ("zh-TW", "、")))
    more = len(texts) - len(shown)
    return both(en + (f" and {more} more" if more else ""), zh + (f"等，另有 {more} 個" if more else ""))


def did_nothing(source: str, ran: CellOutcome | None) -> bool:
    """Whether a cell is a plain mistake in writing: Python refuses it, and did so where it was run."""
    refused = ran is None or re.match(r"(Syntax|Indentation|Tab)Error\b", ran.error or "") is not None
    return refused and is_no_python(source)


def own_numbers(cells: list[NotebookNode]) -> dict[int, int]:
    """By index: which of the student's own cells it is, from 1."""
    own = [i for i, cell in enumerate(cells) if "student" in cell.metadata.get("tags", [])]
    return {i: number for number, i in enumerate(own, start=1)}


def cells_behind(answer: int | None, taken: Mapping[int, tuple[set[str], set[str]]]) -> set[int]:
    """The cell of an answer and the student's cells whose names it takes, and so on. Also one that answers another exercise.

    Args:
        answer: the cell.
        taken: by cell: the names that it binds and those that it takes.
    """
    binding: dict[str, list[int]] = {}
    for i, (binds, _) in taken.items():
        for name in binds:
            binding.setdefault(name, []).append(i)
    waiting, behind = [answer] if answer in taken else [], set[int]()
    while waiting:
        at = waiting.pop()
        if at is not None and at not in behind:
            behind.add(at)
            waiting += [i for name in taken[at][1] for i in binding.pop(name, ())]
    return behind


def notes(cells: list[NotebookNode], outcome: Outcome) -> Iterator[Text]:
    """What the student and the instructor should know about the student's own cells that did not run through."""
    for i, number in own_numbers(cells).items():
        ran = outcome.cells.get(i, CellOutcome())
        why = outcome.stopped.get(i) or (raised(ran, with_line=True) if ran.error else None)
        if why is not None:
            yield both(
                f"Own cell {number} stopped: {why['en']}", f"自己加的第 {number} 個儲存格停了下來：{why['zh-TW']}"
            )


# ------------------------------------------------------------------------------------------------- the class


def grade(
    pile: Path,
    out: Path,
    seed: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
    exercise: str | None = None,
    rosters: Sequence[Path] = (),
    limits: Limits = LIMITS,
    tell: Callable[[str], None] = lambda line: None,
    about: Callable[[Iterable[str]], None] = lambda lessons: None,
) -> list[Record]:
    """Grade a pile of submissions into the folder `out`; what is already graded there is not run again.

    Args:
        pile: a zip or folder of submissions.
        out: where grades, gradebook, feedback and records go.
        seed: the same inputs for everybody (default: each student's own, from the secret kept in `out`).
        workers: sandboxes side by side (default: one a core).
        executor: runs the submissions; default a pool of `workers` threads, each with its own sandbox.
        progress: is told how far the run is.
        exercise: was mended: of what is kept in `out` only this exercise is judged anew, from the answers that are kept
            where it asks the same as before, else from the notebook that is kept. All other grades stay, and no file of the
            pile takes another's place.
        rosters: the list of the class, see roster.py; it is kept in `out`.
        limits: of the sandbox.
        tell: is given lines for the instructor: about files of the pile that do not count, and, with `exercise`, what was done.
        about: is told which lessons this run is about.

    Returns:
        A record for every submission and every unreadable file, sorted by student and lesson; with those of lessons that
        were graded into `out` before and do not occur in this pile. Of a student's files for a lesson the newest counts, also
        where another run has brought it. Whose points of an exercise are not what they were
        before this run stands in changes.csv.

    Raises:
        CollectError, GradingError, RosterError, SandboxUnavailable: with one line for the instructor.
    """
    from autograder.pipeline.collect import lessons_of
    from autograder.pipeline.earlier import Earlier, files_of
    from autograder.pipeline.report import write_reports
    from autograder.pipeline.roster import keep_rosters, load_roster, read_rosters, take_times

    torch.set_num_threads(1)  # the cores belong to the sandboxes
    known_exercise(exercise)
    if exercise is not None and not (out / "files.json").exists():
        raise GradingError(
            f"{out} holds no graded class, of which an exercise could be judged anew: grade without --exercise"
        )
    class_files = read_rosters(rosters)
    submissions = collect(pile, LESSONS, before=files_of(out))
    same_as_released(submissions)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / ".gitignore").exists():
        (out / ".gitignore").write_text("*\n")  # personal data: never committed by accident
    with only_run(out):
        keep_rosters(class_files, out)
        inputs = Inputs(secret_of(out), seed)
        books = Books(out, LESSONS)
        before = Earlier(out, LESSONS)
        records: list[Record] = []
        if exercise is None:
            lessons = lessons_of(submissions)
            submissions = [replace(s, pile=lessons) for s in submissions]
            take_times(submissions, [roster for _, roster in class_files])
            submissions = before.newest(submissions, tell)
            records += [new_record(s) for s in submissions if s.notebook is None and s.status != "superseded"]
        else:
            if left_out := before.left_out(submissions):
                tell(f"{left_out} files are new or newer than what was graded: grade them without --exercise")
            others, files = before.besides(())
            submissions = before.with_exercise(exercise, tell)
            same_as_released(submissions)
            asked = {(s.student_id, s.lesson) for s in submissions}
            records += [r for r in others if not r.grades or (r.student_id, r.lesson) not in asked]
        about({s.lesson for s in submissions if s.lesson is not None})
        changes: list[Change] = []
        done_how: Counter[str] = Counter()
        todo: list[Task] = []
        for submission in submissions:
            if submission.notebook is None:
                continue
            task = Task(submission, key_of(submission, inputs), Record.load(record_path(out, submission)))
            if exercise is not None and task.known is not None:
                task.judge_only(exercise)
            if task.up_to_date and task.known is not None:
                take_over(task.known, submission)
                enter(books, task.known, submission)  # a stopped run may have come this far only
                records.append(task.known)
                done_how["as it was"] += 1
            else:
                todo.append(task)
        pool = executor or ThreadPoolExecutor(workers or os.cpu_count() or 1)
        try:
            progress(0, len(todo))
            futures = {task.submit(pool, out, inputs, limits): task for task in todo}
            for done, future in enumerate(as_completed(futures), start=1):
                task = futures.pop(future)  # with it the answers it holds
                made = finished(future, task.submission)
                record = put_away(out, task, made, books)
                done_how["not run" if record.status != "graded" else "run" if made.ran else "kept"] += 1
                changes += changes_between(task.known, record) if record.status == "graded" else []
                records.append(record)
                progress(done, len(todo))
        finally:
            if executor is None:
                pool.shutdown(cancel_futures=True)
                sandbox.close_all()
        if exercise is None:
            others, files = before.besides(submissions, tell)
            records += others
            files = [*submissions, *files]
        records.sort(key=lambda r: (r.student_id, r.lesson or "", r.source))
        if roster := load_roster(out):
            roster.find(records)
            roster.find(files)
        save_changed(out, records)
        write_reports(out, records, files, changes=changes)
        if exercise is not None:
            tell(judged_anew(exercise, done_how, changes))
    return records


def judged_anew(exercise: str, done_how: Mapping[str, int], changes: Iterable[Change]) -> str:
    """What a run with `exercise` did, in one line."""
    kept, ran, same, lost = (done_how[how] for how in ("kept", "run", "as it was", "not run"))
    line = f"{exercise} judged anew for {kept + ran} students"
    line += f" ({kept} from the answers kept, {ran} run again)" if kept + ran else ""
    line += f", as it was for {same} (neither the exercise nor the answers have changed)" if same else ""
    line += f", not judged for {lost}" if lost else ""
    changed = len({(change.student_id, change.lesson) for change in changes})
    who = f"the points of {changed} students" if changed else "nobody's points"
    return f"{line}; {who} changed{', see changes.csv' if changed else ''}"


def save_changed(out: Path, records: Iterable[Record]) -> None:
    """Save what has become known of files that are graded already: another time, a name on the list of the class."""
    for record in records:
        path = record_path(out, record)
        if record.grades and not record.fault and Record.load(path) != record:
            record.save(path)


@dataclass
class Task:
    """A submission to grade.

    Attributes:
        key: of what is to be graded.
        known: the record of an earlier run.
        only: the one exercise that is to be judged anew.
        up_to_date: the earlier record is still right.
    """

    submission: Submission
    key: str
    known: Record | None
    only: str | None = None
    up_to_date: bool = False

    def __post_init__(self) -> None:
        self.up_to_date = self.known is not None and self.known.key == self.key

    def judge_only(self, exercise: str) -> None:
        """Ask for one exercise of what is known. The other grades stay those of what was graded then, and so does that key."""
        assert self.known is not None
        self.only = exercise
        if self.known.key:
            self.key = f"{self.known.key.split('-')[0]}-{self.key.split('-')[1]}"
        self.up_to_date = self.known.key == self.key

    def submit(self, pool: Executor, out: Path, inputs: Inputs, limits: Limits) -> "Future[Graded]":
        seeds = seeds_for(self.submission, inputs)
        if self.only is None:
            return pool.submit(grade_submission, self.submission, seeds, limits, self.key)
        kept = load_tried(kept_path(out, self.submission), self.only)
        return pool.submit(judge_again, self.submission, self.only, seeds, kept, limits)

    def merged(self, fresh: Record) -> Record:
        """The earlier record with the one grade that is new; or the fresh record as it is."""
        if self.only is None or self.known is None:
            return fresh
        if fresh.status != "graded":  # the earlier grades stay, and the earlier key: it is tried again next time
            return replace(self.known, status=fresh.status, reason=fresh.reason, fault=fresh.fault)
        (new,) = fresh.grades
        grades = [new if grade.name == self.only else grade for grade in self.known.grades]
        reason = self.known.reason if self.known.status == "graded" else fresh.reason
        # Which cells the other answers ran is not known here: what was listed for that stays.
        unusual = [*fresh.unusual, *(line for line in self.known.unusual if line not in fresh.unusual)]
        record = replace(
            self.known, status="graded", reason=reason, fault="", grades=grades, unusual=unusual, key=self.key
        )
        take_over(record, self.submission)
        return record


def put_away(out: Path, task: Task, graded: Graded, books: Books) -> Record:
    """Keep what became of a submission: its answers, its line in the books, its record.

    What fails is told in its row, and the next run tries again: one submission never stops the class.
    """
    try:
        record = task.merged(graded.record)
    except Exception as problem:  # a record of an earlier run that does not fit
        record = failed(task.submission, problem)
    if record.status == "graded":
        try:
            save_tried(kept_path(out, task.submission), graded.tried, keep_others=task.only is not None)
        except Exception as problem:
            add_fault(record, "Its answers could not be kept", problem)
        enter(books, record, task.submission)
    try:
        record.save(record_path(out, task.submission))
    except Exception as problem:
        add_fault(record, "Its record could not be saved", problem)
    return record


def enter(books: Books, record: Record, submission: Submission) -> None:
    try:
        with ONE_AT_A_TIME:
            books.enter(record, submission)
    except BookkeepingError as problem:
        record.fault, record.key = f"{record.fault} {str(problem)[:300]}.".strip(), ""
    except Exception as problem:  # of nbgrader's database, say
        add_fault(record, "It could not be entered in the books", problem)


def add_fault(record: Record, what: str, problem: Exception) -> None:
    """The grade stays; without its key the submission is graded again in the next run."""
    record.fault = f"{record.fault} {what} ({one_line(problem)}).".strip()
    record.key = ""


def one_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"


def take_over(known: Record, submission: Submission) -> None:
    """What may change of a file without changing what is graded."""
    fresh = new_record(submission)
    for field in ("source", "received", "student_name", "notebook_id", "platform", "remark"):
        setattr(known, field, getattr(fresh, field))


def known_exercise(name: str | None) -> None:
    if name is None:
        return
    try:
        get(name)
    except KeyError as problem:
        raise GradingError(str(problem.args[0])) from None


def same_as_released(submissions: Iterable[Submission]) -> None:
    """Refuse where the points of an exercise are not those of the released notebooks, which the books go by.

    Raises:
        GradingError: with the exercises.
    """
    other: dict[str, str] = {}
    for submission in submissions:
        for cell in submission.notebook.cells if submission.notebook is not None else ():
            name = check_of(cell)
            if name is None or name in other:
                continue
            released = float(cell.metadata["nbgrader"]["points"])
            try:
                points = get(name).points
            except KeyError:
                other[name] = f"{name} ({submission.lesson}) is in the released notebook, but no exercise any more"
                continue
            if points != released:
                where = f"{name} ({submission.lesson})"
                other[name] = f"{where} has {points:g} points, in the released notebook {released:g}"
    if other:
        raise GradingError(f"{'; '.join(other.values())}: run make build first")


def finished(future: "Future[Graded]", submission: Submission) -> Graded:
    """What became of a submission; a fault of ours in grading one costs no other its grade."""
    try:
        return future.result()
    except sandbox.SandboxUnavailable:
        raise
    except Exception as problem:
        return Graded(failed(submission, problem), {})


def failed(submission: Submission, problem: Exception) -> Record:
    record = new_record(submission)
    record.status = "not run"
    record.fault = f"The grader itself failed ({one_line(problem)}); please report this."
    return record


def key_of(submission: Submission, inputs: Inputs) -> str:
    """Of everything that decides a grade, in two parts: what was handed in; the course's exercises and the inputs.

    Of the notebook only what is run or read counts: a released text may be mended without grading anew.
    """
    assert submission.notebook is not None
    handed_in, deciding = hashlib.sha256(), hashlib.sha256()
    answers = [cell for cell in submission.notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    for cell in [*cells_to_run(submission.notebook), *answers]:
        handed_in.update(f"{cell.cell_type}\0{all_of(cell)}\0".encode("utf-8", "replace"))
    handed_in.update(f"{submission.student_id}/{submission.unscored}/{inputs.fingerprint()}".encode())
    deciding.update(course_fingerprint(submission.lesson or "").encode())
    return f"{handed_in.hexdigest()}-{deciding.hexdigest()}"


@lru_cache
def course_fingerprint(lesson: str = "") -> str:
    """Changes when code that decides the grades of a lesson does, so that a mended exercise is graded anew.

    Of the other lessons' exercises only those count that this one's module names; all of them where no lesson is given.
    """
    package = Path(__file__).resolve().parents[1]
    exercises = sorted(package.glob("exercises/*.py"))
    own = next((path for path in exercises if path.stem == f"l{lesson}"), None)
    if own is not None:
        text = own.read_text(encoding="utf-8")
        exercises = [p for p in exercises if p == own or not re.match(r"l\d\d_", p.stem) or p.stem in text]
    deciding = [*package.glob("*.py"), *exercises]
    deciding += [path for path in package.parent.glob("course_lib/**/*.py") if "tests" not in path.parts]
    deciding += [package / "pipeline" / f"{name}.py" for name in ("grading", "inside", "records", "sandbox", "worker")]
    digest = hashlib.sha256()
    for path in sorted(deciding):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def record_path(out: Path, submission: Submission | Record) -> Path:
    return out / "records" / submission.student_id / f"{submission.lesson}.json"


def kept_path(out: Path, submission: Submission) -> Path:
    return out / "answers" / submission.student_id / f"{submission.lesson}.json.gz"


def secret_of(out: Path) -> bytes:
    """The secret of this folder of grades, made on first use; only its owner may read it."""
    path = out / "secret"
    if not path.exists():
        draft = out / "secret.tmp"  # whoever is killed while writing leaves no half of a secret
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        os.replace(draft, path)
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
