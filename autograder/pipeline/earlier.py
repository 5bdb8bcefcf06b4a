"""What was graded into the same folder before: lessons of earlier piles, newer files, and all of it for a mended exercise."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from nbformat import NotebookNode

from autograder.pipeline.claims import by_id_alone
from autograder.pipeline.collect import is_blank, lessons_of, only_by_id, sentence
from autograder.pipeline.drafts import read_draft
from autograder.pipeline.grading import is_students, new_record, record_path
from autograder.pipeline.pile import File
from autograder.pipeline.rebuild import Frames, all_of, load_frames, rebuild
from autograder.pipeline.records import Record
from autograder.pipeline.report import ReportError, read_files
from autograder.pipeline.roster import FROM_WORKSHEET
from autograder.pipeline.submission import GRADED, NO_ANSWERS, Submission, is_unknown, lesson_counts


class Earlier:
    """The submissions that the folder `out` holds from earlier runs, each with its notebook."""

    def __init__(self, out: Path, lessons: Path) -> None:
        self.out, self.lessons = out, lessons
        self.files = files_of(out)
        self.rows = {(file.student_id, file.lesson): file for file in self.files if file.status in GRADED}
        self.frames: Frames = {}  # read where they are needed

    def same_as(self, file: Submission) -> Submission | None:
        """What was graded of this student and lesson: the answers as they were, in the released notebook of today."""
        record = Record.load(record_path(self.out, file))
        path = self.out / "nbgrader" / "submitted" / file.student_id / str(file.lesson) / f"{file.lesson}.ipynb"
        if record is None or not record.grades or not path.exists():
            return None
        self.frames = self.frames or load_frames(self.lessons)
        draft = read_draft(File((path.name,), None, path.read_bytes()))
        frame = self.frames.get(record.lesson or "", {}).get(record.language)
        if draft.problem or frame is None:
            return None
        # A run that was stopped has left records that are newer than the table of files.
        row = self.rows.get((file.student_id, file.lesson), file)
        if not row.received or new_record(row).received != record.received:
            row = replace(row, received=datetime.fromisoformat(record.received) if record.received else None)
        return replace(
            row, student_name=record.student_name, language=record.language, source=record.source, reason=record.reason,
            notebook=rebuild(frame, draft.cells, kept=True).notebook, notebook_id=record.notebook_id, platform=record.platform,
            remark=record.remark, unscored=tuple(grade.name for grade in record.grades if grade.status == "not scored"),
        )  # fmt: skip

    def newest(self, pile: Sequence[Submission], tell: Callable[[str], None]) -> list[Submission]:
        """The pile; where it holds an older file than what was graded of the same student and lesson, or a blank one instead
        of answers, that one stays. Of the same answers the pile's time counts, so that a wrong one can be mended.
        """
        result: list[Submission] = []
        earlier: list[str] = []
        for file in pile:
            of_use = file.notebook is not None or (file.status == "unreadable" and file.lesson is not None)
            kept = self.same_as(file) if of_use else None
            if file.notebook is None and (kept is None or not is_older(file, kept)):
                kept = None
            elif kept is not None and answers(kept) == answers(file):
                if FROM_WORKSHEET in kept.remark and FROM_WORKSHEET not in file.remark:
                    file.received = kept.received
                    file.tell(FROM_WORKSHEET)
                elif is_older(file, kept):
                    earlier.append(f"{file.source} ({time_of(file)}, was {time_of(kept)})")
            elif kept is not None and is_older(file, kept):
                this, that = f"{file.source} ({time_of(file)})", f"{kept.source} ({time_of(kept)})"
                reason = f"Older than {that}, which was graded before and stays."
                result.append(replace(file, status="superseded", notebook=None, reason=reason))
                kept.tell(f"It stays, for {this} is older.")
                tell(f"{this} is older than {that}, which was graded before and stays")
                file = kept
            elif kept is not None and self.is_emptied(file, kept):
                reason = sentence([NO_ANSWERS, f"{kept.source}, which was graded before, stays"])
                result.append(replace(file, status="superseded", notebook=None, reason=reason))
                kept.tell(f"It stays, for nothing is answered in {file.source}.")
                tell(f"nothing is answered in {file.source}: {kept.source}, which was graded before, stays")
                file = kept
            elif kept is not None and by_id_alone(file, kept):
                file.tell(only_by_id(kept.source))
            result.append(file)
        if earlier:
            listed = ", ".join(earlier[:3]) + (", …" if len(earlier) > 3 else "")
            tell(f"the same answers as before, with an earlier time, which counts now: {listed}")
        return result

    def is_emptied(self, file: Submission, kept: Submission) -> bool:
        """Whether nothing is answered in a file, and something was in what was graded before."""
        self.frames = self.frames or load_frames(self.lessons)
        return is_blank(file, self.frames) and not is_blank(kept, self.frames)

    def with_exercise(self, name: str, tell: Callable[[str], None]) -> list[Submission]:
        """The submissions that have an exercise, to judge it anew."""
        records = [(row, Record.load(record_path(self.out, row))) for row in self.rows.values()]
        asked = [row for row, record in records if record and any(grade.name == name for grade in record.grades)]
        found = [kept for kept in map(self.same_as, asked) if kept is not None]
        if lost := len(asked) - len(found):
            tell(f"{lost} notebooks are not in {self.out / 'nbgrader'} any more: grade them without --exercise")
        return found

    def left_out(self, pile: Iterable[Submission]) -> int:
        """How many files of the pile are new, or newer than what was graded, with other answers."""
        count = 0
        for file in pile:
            if file.notebook is not None:
                kept = self.same_as(file)
                count += kept is None or not (
                    answers(kept) == answers(file) or is_older(file, kept) or self.is_emptied(file, kept)
                )
        return count

    def besides(
        self, pile: Sequence[Submission], tell: Callable[[str], None] = lambda line: None
    ) -> tuple[list[Record], list[Submission]]:
        """What the folder holds besides this pile: lessons that the pile is not of keep their rows.

        Where less than half of those hand a lesson in who had, the pile is not the lesson's own: then it replaces what the
        same students handed in, and nothing else; and so where half as many do, but under other ids. Nothing is replaced by a
        file that could not be read. A file whose lesson nobody knows belongs to the lessons that it came with. Whose record is
        gone was deleted.
        """
        before, now = lesson_counts(self.files), lesson_counts(pile)
        had, have = students_of(self.files), students_of(pile)
        replaced = {lesson for lesson in lessons_of(pile) if 2 * now[lesson] >= before[lesson]}
        for lesson in sorted(replaced):
            if 2 * len(had[lesson] & have[lesson]) < len(had[lesson]):
                replaced.remove(lesson)
                tell(f"{lesson}: most who had a row before are not in this pile, but others: all rows stay")
        here = {(file.student_id, file.lesson) for file in pile if file.status in GRADED}
        unread = {
            (file.student_id, lesson)
            for file in pile
            if file.status in ("unreadable", "unknown lesson")
            for lesson in ([file.lesson] if file.lesson else replaced)
        } - here
        paths, main = {file.source for file in pile}, {*lessons_of(pile)}
        records: list[Record] = []
        kept: list[Submission] = []
        graded: set[tuple[str, str | None]] = set()
        gone: Counter[str] = Counter()
        for file in sorted(
            self.files, key=lambda file: file.status == "superseded"
        ):  # known by then whose record is there
            whose = file.student_id, file.lesson
            stays = whose in unread and file.status in (*GRADED, "superseded")
            if (file.lesson in replaced and not stays) or (file.lesson is not None and whose in here):
                gone[file.lesson] += file.status in GRADED and whose not in here
                continue
            if file.status == "superseded":
                kept += [file] if whose in graded and file.source not in paths else []
            elif file.status in GRADED:
                if record := Record.load(record_path(self.out, file)):
                    graded.add(whose)
                    records.append(record)
                    kept.append(file)
            elif file.source not in paths and (file.lesson is not None or (file.pile and not main & {*file.pile})):
                records.append(new_record(file))
                kept.append(file)
        for lesson, count in sorted(gone.items()):
            if count:
                who = "1 student who had a row is" if count == 1 else f"{count} students who had a row are"
                tell(f"{lesson}: {who} not in this pile, and without one now")
        return records, kept


def students_of(files: Iterable[Submission]) -> dict[str | None, set[str]]:
    """Who has a graded row, by lesson; who has no id is called anew in each export."""
    found: dict[str | None, set[str]] = defaultdict(set)
    for file in files:
        if file.status in GRADED and not is_unknown(file):
            found[file.lesson].add(file.student_id)
    return found


def answers(file: Submission) -> list[str]:
    """All that the student wrote."""
    cells: list[NotebookNode] = file.notebook.cells if file.notebook is not None else []
    return [all_of(cell) for cell in cells if is_students(cell)]


def is_older(file: Submission, kept: Submission) -> bool:
    return file.received is not None and kept.received is not None and file.received < kept.received


def time_of(file: Submission) -> str:
    return file.received.isoformat(sep=" ", timespec="seconds") if file.received else ""


def files_of(out: Path) -> list[Submission]:
    try:
        return read_files(out)
    except ReportError:  # the first run, or one that was stopped before its end
        return []
