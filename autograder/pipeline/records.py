"""What is known of one student's lesson once it is graded; kept as JSON, so that a stopped run goes on where it stopped."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder.exercise import Verdict
from autograder.pipeline.whole import write_whole
from autograder.text import Text

LATE = "(handed in late)"  # in place of an exercise, where points are taken off for it


def by_name(listed: str) -> str:
    return f"Matched by name with {listed} on the list of the class." if listed else ""


@dataclass
class Line:
    """One case of an exercise, as the feedback page shows it."""

    label: Text
    passed: bool
    difference: Text | None = None


@dataclass
class Listed:
    """A line that an instructor may like to read: where it stands and what is in it, and the line itself."""

    text: Text
    code: str = ""


@dataclass
class Grade:
    """The result of one exercise.

    Attributes:
        status: "full", "partial", "none", "not started", "not allowed" (a forbidden call), "stopped" (its cell hung,
            crashed or raised), "by hand" (a written answer, graded by the instructor), or "not scored" (added to the
            lesson after the student's release).
        points: None while a written answer waits for the instructor, and where an exercise is not scored.
        message: what went wrong, in both languages; never reference code, inputs or expected values.
        answer: the source of the student's answer cell.
        printed: what the student's answer cell printed or died of.
        comment: what the instructor has written beside the answer in nbgrader.
        error: the class of what the cell raised (`SyntaxError`), where nothing of it could be tried.
        seen: what the instructor may like to know of what the answer did while it ran; it costs no points.
    """

    name: str
    points: float | None
    max_points: float
    status: str
    message: Text
    mistake: str | None = None
    lines: list[Line] = field(default_factory=list)
    answer: str = ""
    printed: str = ""
    comment: str = ""
    error: str = ""
    seen: list[Listed] = field(default_factory=list)


@dataclass
class Record:
    """One row of the class: a student's lesson, or a file that could not be read.

    Attributes:
        status: "graded"; "not run" when the sandbox itself failed; "no submission" for who is only in the roster; else the
            status of a submission with nothing to grade.
        reason: one or more sentences about the file, for the instructor and the student.
        fault: sentences for the instructor alone: the grader or the books failed, through no fault of the student's.
        notebook_id: the student id that stands in the notebook, which need not be the one that the file came with.
        platform: "moodle" or "canvas", where one of them wrote the file's name and with it the student's id.
        unusual: what the instructor may like to read in the student's code; to be listed costs no points.
        key: of what was graded (notebook, exercises, inputs); the same key need not be graded again.
        remark: sentences about the file for the instructor alone.
        listed: the student number on the list of the class, where the name alone says whose it is.
        penalty: points that nbgrader takes off for a late submission.
        hours_late: after the due date, an extension counted.
        notes: sentences for the student: cells that were stopped, cells of their own that failed.
    """

    student_id: str
    student_name: str
    lesson: str | None
    language: str
    source: str
    status: str
    reason: str
    received: str = ""
    grades: list[Grade] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)
    key: str = ""
    notebook_id: str = ""
    platform: str = ""
    unusual: list[Listed] = field(default_factory=list)
    penalty: float = 0.0
    hours_late: float = 0.0
    fault: str = ""
    remark: str = ""
    listed: str = ""

    @property
    def to_look_at(self) -> list[Listed]:
        """What the instructor may like to look at: what answers did while they ran, and what stands in the code."""
        return [line for grade in self.grades for line in grade.seen] + self.unusual

    @property
    def told(self) -> str:
        """All that there is to say to the instructor."""
        return " ".join(filter(None, (self.reason, self.remark, by_name(self.listed), self.fault)))

    @property
    def points(self) -> float | None:
        """All points so far; None when nothing could be graded."""
        return round(sum(grade.points or 0.0 for grade in self.grades) - self.penalty, 2) if self.grades else None

    @property
    def max_points(self) -> float:
        """All that could be had: written answers that still wait count, exercises that are not scored do not."""
        return sum(grade.max_points for grade in self.grades if grade.status != "not scored")

    def save(self, path: Path) -> None:
        """Write to `path` in one step."""
        write_whole(path, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> "Record | None":
        """The record in `path`, or None if there is none that can be read."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            unusual = [Listed(**line) for line in data.pop("unusual")]
            grades = [
                Grade(**{**g, "lines": [Line(**x) for x in g["lines"]], "seen": [Listed(**x) for x in g["seen"]]})
                for g in data.pop("grades")
            ]
            return cls(**data, grades=grades, unusual=unusual)
        except (OSError, ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True)
class Change:
    """An exercise in which a student has other points than in an earlier run."""

    student_id: str
    student_name: str
    lesson: str
    exercise: str
    before: float | None
    after: float | None

    @property
    def gain(self) -> float:
        return round((self.after or 0.0) - (self.before or 0.0), 2)


def changes_between(old: Record | None, new: Record) -> list[Change]:
    """The exercises of a record whose points are not what they were."""
    before = {grade.name: grade.points for grade in old.grades} if old is not None else {}
    return [
        Change(new.student_id, new.student_name, new.lesson or "", grade.name, before[grade.name], grade.points)
        for grade in new.grades
        if grade.name in before and before[grade.name] != grade.points
    ]


def grade_of(verdict: Verdict, answer: str, printed: str, stopped: bool) -> Grade:
    """The grade that a verdict means."""
    if not verdict.written:
        status = "not started"
    elif verdict.forbidden:
        status = "not allowed"
    elif verdict.passed:
        status = "full"
    elif verdict.points > 0:
        status = "partial"
    else:
        status = "stopped" if stopped else "none"
    lines = [Line(case.label, case.passed, case.unexplained) for case in verdict.cases]
    return Grade(
        verdict.name, verdict.points, verdict.max_points, status, dict(verdict.sentence), verdict.mistake,
        lines, answer, printed,
    )  # fmt: skip
