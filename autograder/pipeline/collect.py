"""Any pile of submissions becomes one canonical notebook per student and lesson.

The way: `read_pile` (pile.py) yields the files of a folder or zip, `read_draft` (drafts.py) turns a file into cells or
into a reason why not, `identify` (owners.py) says whose it is, `rebuild` (rebuild.py) puts the answers into the released
notebook, `part_claims` (claims.py) parts those who claim one id.

What a student handed in is only ever read here, never run: names come from Python's symbol table, values from its
syntax tree. Every file ends as a `Submission` with a status and a reason, except the litter that operating systems leave.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

from autograder.pipeline.claims import assign_ids, by_id_alone, part_claims
from autograder.pipeline.drafts import SETUP_LIMIT, Draft, clean_text, code_size, read_draft, setup_size
from autograder.pipeline.owners import SEVERAL, Hand, Owner, hand_of, identify, in_zip, source_of
from autograder.pipeline.pile import CollectError, copy_of, folder_name, lesson_in, read_pile
from autograder.pipeline.rebuild import (
    Frames,
    all_of,
    choose_language,
    choose_lesson,
    forget_given_points,
    load_frames,
    names_lesson,
    rebuild,
)
from autograder.pipeline.releases import Releases, came_later, load_releases
from autograder.pipeline.submission import NO_ANSWERS, Submission, lesson_counts


def collect(
    pile: Path, lessons: Path, releases: Releases | None = None, before: Sequence[Submission] = ()
) -> list[Submission]:
    """Turn a zip or folder of submissions into rows with canonical notebooks.

    Args:
        pile: what the learning platform exported, or a folder of files.
        lessons: the released notebooks, `lessons/<language>/NN_name.ipynb`.
        releases: that the course has had (default: releases.tsv).
        before: the files of earlier runs into the same folder of grades.

    Returns:
        One row per file, sorted by student, lesson and path. At most one row per student and lesson is "ok" or
        "repaired" and carries a notebook.

    Raises:
        CollectError: the pile or the released notebooks cannot be read at all.
    """
    frames = load_frames(Path(lessons))
    releases = load_releases() if releases is None else releases
    drafts = sorted(read_drafts(Path(pile)), key=lambda draft: draft.file.path)
    if not drafts:
        raise CollectError(f"{Path(pile).name} holds no files to grade")
    forget_given_points(drafts, frames)
    owners = identify(drafts, frames, before)
    students = assign_ids(owners, [source_of(draft) for draft in drafts], before)
    limit_students(drafts, owners, students, frames)
    rows = [
        submission(draft, owner, student, frames, releases)
        for draft, owner, student in zip(drafts, owners, students, strict=True)
    ]
    part_claims(rows, owners, before)
    copies = [max(copy_of(draft.name)[2], owner.copy) for draft, owner in zip(drafts, owners, strict=True)]
    fill_in_lesson(rows, lesson_in(folder_name(Path(pile).name), frames))
    supersede(rows, [(not draft.script, number) for draft, number in zip(drafts, copies, strict=True)], frames)
    return sorted(rows, key=lambda row: (row.student_id, row.lesson or "", row.source))


def lessons_of(files: Iterable[Submission]) -> tuple[str, ...]:
    """The lessons that a pile is of; not those that a few have handed in instead."""
    count = lesson_counts(files)
    return tuple(sorted(lesson for lesson in count if 2 * count[lesson] >= max(count.values())))


def fill_in_lesson(rows: Sequence[Submission], named: str | None) -> None:
    """A PDF says of no lesson that it is for it: in a pile of one lesson (or `named` after one) it is for that one."""
    lessons = lessons_of(rows)
    lesson = named or (lessons[0] if len(lessons) == 1 else None)
    for row in rows:
        if row.status == "unreadable" and row.lesson is None:
            row.lesson = lesson


STUDENT_LIMIT = 1_000_000  # characters of code of one student's notebooks
NOTEBOOK_LIMIT = 40  # of one student
ZIP_LIMIT = 100_000_000  # characters of all cells of a zip inside the pile, a file counted as 20,000 or more
ZIP_CODE = 10_000_000  # characters of code of such a zip, a notebook counted as 20,000 or more
ZIP_UNREAD = 5  # files of one hand, with one reason, that have a row each; more of them share one
ZIP_REASONS = 40  # of one hand
ZIP_SETUPS = 1_000_000  # characters in such a zip that are parsed to learn whose its notebooks are


def read_drafts(pile: Path) -> Iterator[Draft]:
    """Each file as cells; a zip inside the pile takes neither the memory nor the time of the class."""
    held: Counter[tuple[str, ...]] = Counter()
    asked: Counter[tuple[str, ...]] = Counter()
    for file in read_pile(pile):
        if len(file.dates) < 2:
            yield read_draft(file)
            continue
        outer = file.path[: file.dates[0][0]]
        if held[outer] > ZIP_LIMIT:
            yield Draft(replace(file, data=b""), problem=file.problem or "its zip holds too much text to be read")
            continue
        released = bool(file.data) and hashlib.sha256(file.data).digest() in released_files()
        draft = replace(read_draft(file, parse=asked[outer] <= ZIP_SETUPS), released=released)
        pictures = (data for cell in draft.cells for _, _, data in cell.attachments)
        held[outer] += max(20_000, sum(len(cell.source) for cell in draft.cells) + sum(map(len, pictures)))
        asked[outer] += min(SETUP_LIMIT, sum(map(setup_size, draft.cells)))
        yield draft


@cache
def released_files() -> set[bytes]:
    """Fingerprints of what the student repository holds."""
    course = Path(__file__).resolve().parents[2]
    patterns = ("lessons/*/*.ipynb", "autograder/**/*.py", "course_lib/**/*.py", "LICENSE*", "constraints.txt")
    return {hashlib.sha256(path.read_bytes()).digest() for pattern in patterns for path in course.glob(pattern)}


def limit_students(drafts: list[Draft], owners: list[Owner], students: list[str], frames: Frames) -> None:
    """Nobody keeps the class waiting: of very many notebooks of one student, or in one zip, only the newest are read.

    What else lies in a student's zip, such as a copy of the course or of Python, has no row, or shares one; so do many notebooks
    that are not read or fit no lesson.
    """

    def hand(at: int) -> Hand:
        return hand_of(drafts[at], owners[at])

    def drop(unwanted: set[int]) -> None:
        rest = [at for at in range(len(drafts)) if at not in unwanted]
        drafts[:], owners[:], students[:] = (
            [drafts[n] for n in rest],
            [owners[n] for n in rest],
            [students[n] for n in rest],
        )

    at_work = {hand(at) for at, draft in enumerate(drafts) if not (draft.problem or draft.released)}
    drop({at for at, draft in enumerate(drafts) if draft.released and hand(at) in at_work})
    lessons: dict[Hand, set[str | None]] = defaultdict(set)
    strange: set[int] = set()  # the `id()` of notebooks in zips that fit no lesson
    for at, draft in enumerate(drafts):
        if not draft.problem and not draft.script:
            lesson = choose_lesson(draft, frames)
            lessons[hand(at)].add(lesson)
            strange |= {id(draft)} if lesson is None and in_zip(draft) else set()
    for at, draft in enumerate(drafts):
        if draft.script and not draft.problem and in_zip(draft) and not names_lesson(draft, frames):
            named = lesson_in("/".join(draft.file.path[:-1]), frames)
            if named is None or named in lessons[hand(at)]:
                draft.cells, draft.problem = [], "it is a .py file, not a notebook"
    limit_code(drafts, owners, students)

    alike: dict[Hand, dict[tuple[str, str | None], list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, draft in enumerate(drafts):
        if (draft.problem and in_zip(draft)) or id(draft) in strange:
            kind = re.sub("[0-9]+", "", draft.problem), lesson_in("/".join(draft.file.path), frames)
            known = alike[hand(at)]
            known[kind if len(known) < ZIP_REASONS else next(reversed(known))].append(at)
    more: set[int] = set()
    for group in (group for kinds in alike.values() for group in kinds.values() if len(group) > ZIP_UNREAD):
        first, rest = drafts[group[0]], f"nor are {len(group) - 1} more files of its zip read"
        first.problem = "; ".join([first.problem or "it fits no released lesson", rest])
        more |= {*group[1:]}
    drop(more)


def limit_code(drafts: Sequence[Draft], owners: Sequence[Owner], students: Sequence[str]) -> None:
    """Of one student, in one zip or folder of several or by the same claim, so many notebooks and so much code; of a zip so much
    code in all.

    Others in the same zip take nothing from a student: it may be the zip of a class.
    """
    spent: Counter[tuple[object, ...]] = Counter()
    count: Counter[tuple[object, ...]] = Counter()
    of_zip: Counter[Hand] = Counter()
    dates = [draft.file.received_below(owner.part) or datetime.min for draft, owner in zip(drafts, owners)]
    for at in sorted(range(len(drafts)), key=lambda at: (not drafts[at].script, dates[at]), reverse=True):
        draft, owner = drafts[at], owners[at]
        if draft.problem:
            continue
        size, hand = code_size(draft.cells), hand_of(draft, owner)
        whose = [(students[at], owner.around[:1] or owner.who), (students[at], hand)]
        of_zip[hand] += max(20_000, size)
        for key in whose:
            spent[key] += size
            count[key] += 1
        if any(spent[key] > STUDENT_LIMIT or count[key] > NOTEBOOK_LIMIT for key in whose):
            draft.cells, draft.problem = [], "this student's notebooks are too many to be read"
        elif of_zip[hand] > ZIP_CODE:
            draft.cells, draft.problem = [], "its zip holds too much text to be read"


def submission(draft: Draft, owner: Owner, student: str, frames: Frames, releases: Releases) -> Submission:
    """The row of one file, as if it were the only one of its student."""
    name = clean_text(owner.name).replace("\n", " ").strip()[:100]
    row = Submission(
        student, name or student, None, "", "", source_of(draft), draft.file.received_below(owner.part), "", ""
    )
    row.platform, row.claimant, row.raw_id = owner.platform, owner.who, clean_text(owner.raw_id)[:200]
    row.hand = "/".join(row.source.split("/")[: owner.part + 1])
    if owner.late:
        row.tell("Canvas marked it late.")
    if owner.rank == SEVERAL:
        row.tell("Its zip holds several students' files beside those of others: the zip's own time counts.")
    row.notebook_id = clean_text(draft.setup_id).replace("\n", " ").strip()[:80]
    row.release = draft.course.get("release", "")
    if draft.problem:
        row.lesson = lesson_in("/".join(draft.file.path), frames)
        row.language = draft.course.get("language", "")
        row.status, row.reason = "unreadable", sentence([draft.problem, owner.note])
        return row
    row.lesson = choose_lesson(draft, frames)
    if row.lesson is None:
        declared = draft.course.get("lesson", "")
        row.language = draft.course.get("language", "")
        what = f'it names the lesson "{declared}", which is not released' if declared else "it fits no released lesson"
        row.status, row.reason = "unknown lesson", sentence([what, owner.note])
        return row
    row.language = choose_language(draft, frames[row.lesson])
    frame = frames[row.lesson][row.language]
    try:
        built = rebuild(frame, draft.cells)
    except (RecursionError, MemoryError):
        row.status, row.reason = "unreadable", sentence(["its code is nested too deeply to be read", owner.note])
        return row
    row.notebook = built.notebook
    row.status = "repaired" if built.repairs else "ok"
    notes = [*built.repairs, *built.notes, owner.note]
    if row.release and row.release != frame.release:
        notes.append(f"made from release {row.release}, graded against {frame.release}")
        row.unknown_release = row.release not in releases
        row.unscored = came_later(built.absent, row.release, releases)
        if row.unknown_release:
            notes.append("the course has had no such release, so everything is scored")
        if row.unscored:
            notes.append(f"not yet in that release and not scored: {', '.join(row.unscored)}")
    if draft.script:
        notes.append("read from a script")
    row.reason = sentence(notes) or "Read as handed in."
    return row


def sentence(parts: Iterable[str]) -> str:
    text = "; ".join(part for part in parts if part)
    return text[:1].upper() + text[1:] + "." if text else ""


def only_by_id(source: str) -> str:
    """What to tell of a file that nothing but its id makes the same student's, where its answers are others."""
    return f"The id alone says that it is the same student's, with other answers: {source}."


def cells_of(row: Submission) -> list[str]:
    return [all_of(cell) for cell in row.notebook.cells] if row.notebook is not None else []


def is_blank(row: Submission, frames: Frames) -> bool:
    """Whether nothing in a notebook is the student's: a released one, as it was."""
    if row.notebook is None:
        return True
    released = {all_of(cell) for cell in frames[row.lesson or ""][row.language].notebook.cells}
    return all(all_of(cell) in released for cell in row.notebook.cells)


def supersede(rows: Sequence[Submission], ranks: Sequence[tuple[bool, int]], frames: Frames) -> None:
    """Of several files of one student for one lesson the newest with an answer stays; all are told.

    `ranks` says for each row whether it is a notebook (it comes before a script of it) and the number of the copy, which
    decides where dates do not.
    """
    groups: dict[tuple[str, str | None], list[tuple[Submission, tuple[bool, int]]]] = defaultdict(list)
    for row, rank in zip(rows, ranks, strict=True):
        if row.notebook is not None:
            groups[row.student_id, row.lesson].append((row, rank))
    for group in groups.values():
        if len(group) < 2:
            continue
        dated = all(row.received is not None for row, _ in group)
        answered = [not is_blank(row, frames) for row, _ in group]
        ages = [
            (filled, rank[0], row.received if dated and row.received else datetime.min, rank[1], row.source)
            for filled, (row, rank) in zip(answered, group, strict=True)
        ]
        usable = [row for row, _ in group]
        newest = usable[ages.index(max(ages))]
        for filled, row in zip(answered, usable, strict=True):
            if row is not newest:
                if by_id_alone(row, newest) and cells_of(row) != cells_of(newest):
                    row.tell(only_by_id(newest.source))
                    newest.tell(only_by_id(row.source))
                row.status, row.notebook = "superseded", None
                why = "" if filled or not any(answered) else NO_ANSWERS
                row.reason = sentence([why, f"the same student's {newest.source} is graded instead"])
        count = sum(age[1:] <= max(ages)[1:] for age in ages)  # of a newer one without an answer it is not the newest
        if count > 1:
            newest.reason = sentence(
                [newest.reason.rstrip("."), f"the newest of {count} files of this student and lesson"]
            )
