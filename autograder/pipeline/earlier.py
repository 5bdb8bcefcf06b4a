"""Lessons that were graded into the same folder before: a course grades one after the other, and keeps all in its tables."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from autograder.pipeline.collect import Submission
from autograder.pipeline.grading import new_record, record_path
from autograder.pipeline.records import Record
from autograder.pipeline.report import GRADED, ReportError, read_files


def lessons_of(pile: Sequence[Submission]) -> tuple[str, ...]:
    """The lessons that a pile is of; not those that a few have handed in instead."""
    count = lesson_counts(pile)
    return tuple(sorted(lesson for lesson in count if 2 * count[lesson] >= max(count.values())))


def lesson_counts(files: Iterable[Submission]) -> Counter[str]:
    return Counter(file.lesson for file in files if file.lesson is not None and file.status in GRADED)


def kept_from_before(out: Path, pile: Sequence[Submission]) -> tuple[list[Record], list[Submission]]:
    """What the folder `out` holds besides this pile: lessons that do not occur in it keep their rows.

    Where the pile has less than half of the files that a lesson had, it is not the lesson's own: then it replaces what the
    same students handed in, and nothing else. A file whose lesson nobody knows belongs to the lessons that it came with.
    Whose record is gone was deleted.
    """
    try:
        files = read_files(out)
    except ReportError:  # the first run, or one that was stopped before its end
        return [], []
    before, now = lesson_counts(files), lesson_counts(pile)
    replaced = {lesson for lesson in now if 2 * now[lesson] >= before[lesson]}
    here = {(file.student_id, file.lesson) for file in pile}
    paths, main = {file.source for file in pile}, {*lessons_of(pile)}
    records: list[Record] = []
    kept: list[Submission] = []
    graded: set[tuple[str, str | None]] = set()
    for file in sorted(files, key=lambda file: file.status == "superseded"):  # known by then whose record is there
        whose = file.student_id, file.lesson
        if file.lesson in replaced or (file.lesson is not None and whose in here):
            continue
        if file.status == "superseded":
            kept += [file] if whose in graded else []
        elif file.status in GRADED:
            if record := Record.load(record_path(out, file)):
                graded.add(whose)
                records.append(record)
                kept.append(file)
        elif file.source not in paths and file.pile and not main & {*file.pile}:
            records.append(new_record(file))
            kept.append(file)
    return records, kept
