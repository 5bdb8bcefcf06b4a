"""Any pile of submissions becomes one canonical notebook per student and lesson.

The way: `read_pile` (pile.py) yields the files of a folder or zip, `read_draft` (drafts.py) turns a file into cells or
into a reason why not, `identify` says whose it is, `rebuild` (rebuild.py) puts the answers into the released notebook.

What a student handed in is only ever read here, never run: names come from Python's symbol table, values from its
syntax tree. Every file ends as a `Submission` with a status and a reason, except the litter that operating systems leave.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nbformat import NotebookNode

from autograder.pipeline.drafts import SETUP_LIMIT, Draft, clean_text, code_size, read_draft, setup_size
from autograder.pipeline.pile import (
    CollectError,
    copy_of,
    folder_name,
    lesson_in,
    name_without_lesson,
    names_nobody,
    read_pile,
)
from autograder.pipeline.rebuild import (
    Frames,
    choose_language,
    choose_lesson,
    forget_given_points,
    load_frames,
    rebuild,
)
from autograder.pipeline.records import Record, by_name
from autograder.pipeline.releases import Releases, came_later, load_releases

GRADED = ("ok", "repaired")  # statuses of the files that are run and judged
# Whose a file is, as its reason says it.
FROM_FILE_NAME, NO_ID = "student taken from the file name", "no student id found anywhere"
OF_NOBODY = "a file of nobody known"


@dataclass
class Submission:
    """One file of the pile and what became of it."""

    student_id: str
    student_name: str
    lesson: str | None
    language: str
    release: str
    source: str
    received: datetime | None
    status: str  # "ok" | "repaired" | "unreadable" | "unknown lesson" | "superseded"
    reason: str
    notebook: NotebookNode | None = None
    notebook_id: str = ""  # the student id typed into the set-up cell, whoever the file came from
    unscored: tuple[str, ...] = ()  # exercises that came into the lesson after the release that was worked on
    unknown_release: bool = False  # `release` is none that the course has had
    platform: str = ""  # "moodle" or "canvas", where one of them named the file
    pile: tuple[str, ...] = ()  # the lessons that the pile it came with is of
    remark: str = ""  # sentences for the instructor alone
    listed: str = ""  # the student number on the list of the class, where the name alone says whose it is

    def tell(self, sentence: str) -> None:
        """Add a sentence for the instructor."""
        if sentence not in self.remark:
            self.remark = " ".join(filter(None, (self.remark, sentence)))

    @property
    def told(self) -> str:
        """All that there is to say to the instructor."""
        return " ".join(filter(None, (self.reason, self.remark, by_name(self.listed))))


# ---------------------------------------------------------------------------------------------------------------------
# Whose it is
# ---------------------------------------------------------------------------------------------------------------------

# The front of a name is the platform's; what stands behind it in the name of a file was chosen by the student. In the name of
# a folder nothing of the student's stands behind it, but a student may be called anything.
_MOODLE = re.compile(r"(?P<name>(?:(?!_[0-9]+_[0-9]+_).)+?)_(?P<id>[0-9]+)_assign(?:submission)?(?:_.*)?")
_MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<id>[0-9]+)_assign(?:submission)?(?:_.*)?")
_CANVAS = re.compile(
    r"(?P<name>.+?)_(?P<late>LATE_)?(?P<id>[0-9]{3,})_[0-9]{3,}_.+?(?:-(?P<copy>[0-9]{1,2}))?(?:\.\w+)?"
)
_MOODLE_ID = re.compile(r"_[0-9]+_assign(?:submission)?(?=_)")
_COOL = re.compile(r"^[A-Za-z]\w*#_(?=.)")  # NTU COOL, a Canvas, writes the student number before the name
_NAME_AND_ID = re.compile(r"(?P<name>\D.*)_(?P<id>[0-9]{5,})_?")
_ID = re.compile(r"(?:\D.*_)?\D{0,2}\d{5,}_?")
_DATE = re.compile(r"(?:.*\D)?20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])_?")
# B11901003, R09H41005 or 410912001, whatever stands beside it: "陳大文 B11901003", "B11901003陳大文"
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9])(?=(?:[A-Za-z]*\d){6})(?:[A-Za-z]{1,2}\d{1,9}[A-Za-z]?\d{1,9}|\d{8,12})(?![A-Za-z0-9])"
)


@dataclass(frozen=True)
class Owner:
    """Who handed a file in: the id as found, the name for display, what to tell, and the number of a repeated upload.

    `part`: which part of the path says so, where a platform wrote it. `who`: whoever else has the same id is another student.
    `rank`: 3 for an id that is the name of the folder or file, or that a platform wrote; 2 where it stands in such a name
    among other words; 1 where it is only typed into the notebook. `other`: an id for a student who cannot have this one.
    """

    raw_id: str
    name: str
    note: str = ""
    copy: int = 0
    platform: str = ""  # "moodle" or "canvas", where one of them wrote the path
    part: int = 0
    late: bool = False  # the platform says so
    who: str = ""
    rank: int = 1
    other: str = ""


def platform_owner(path: tuple[str, ...], part: int) -> Owner | None:
    """The student that Moodle or Canvas wrote into a part of a path, if one of them did."""
    if part >= len(path):
        return None
    name, last = path[part], part == len(path) - 1
    zipped = folder_name(name) != name
    if not last and not zipped:
        found = _MOODLE_FOLDER.fullmatch(name)
        return Owner(found["id"], found["name"], platform="moodle", part=part) if found else None
    moodle = _MOODLE.fullmatch(folder_name(name))
    # Canvas writes the ids into the name of the file or of the zip that was handed in.
    canvas = _CANVAS.fullmatch(name)
    if canvas and not (moodle and moodle.start("id") < canvas.start("id")):
        # Canvas numbers what was handed in again: file-1.ipynb
        name = _COOL.sub("", canvas["name"], count=1)
        return Owner(
            canvas["id"], name, copy=int(canvas["copy"] or 0), platform="canvas", part=part, late=bool(canvas["late"])
        )
    return Owner(moodle["id"], moodle["name"], platform="moodle", part=part) if moodle else None


def platform_owners(drafts: Sequence[Draft], frames: Frames) -> list[Owner | None]:
    """The students that a platform wrote into the outermost part of each path.

    Further in students chose the names: there they say nothing. Outside of it may be what holds the whole class: a
    folder that all share, one that is called after a lesson ("hw1"), or one for each of several exports.
    """
    paths = [draft.file.path for draft in drafts]
    named = [tuple(map(folder_name, path)) for path in paths]
    low, high = min(named), max(named)
    shared = next((i for i, (one, other) in enumerate(zip(low, high)) if one != other), min(len(low), len(high)))
    parts = [outermost(path, shared, frames) for path in paths]
    owners = [platform_owner(path, part) for path, part in zip(paths, parts)]
    if any(owners):
        return owners
    # Several exports side by side: only if all names in them are a platform's, for a student could write one.
    inside = [None if names_someone(path[part]) else platform_owner(path, part + 1) for path, part in zip(paths, parts)]
    beside = [bool(draft.problem) and part == len(draft.file.path) - 1 for draft, part in zip(drafts, parts)]
    return inside if all(owner or other for owner, other in zip(inside, beside)) else owners


def outermost(path: tuple[str, ...], shared: int, frames: Frames) -> int:
    """The first part of a path that may stand for a student; `shared` parts are those of all paths."""
    part = 0
    while part < len(path) - 1 and platform_owner(path, part) is None:
        if name_without_lesson(folder_name(path[part]), frames) and (part >= shared or names_someone(path[part])):
            break
        part += 1
    return part


def names_someone(folder: str) -> bool:
    """Whether a folder carries a student's id: "b11123456", "Ann_41100003"; a date is none."""
    name = folder_name(folder)
    return _ID.fullmatch(name) is not None and _DATE.fullmatch(name) is None


def number_and_name(folder: str) -> tuple[str, str] | None:
    """The student's number in a folder's name and what stands beside it, if there is one number that is no date."""
    text = unicodedata.normalize("NFKC", folder)
    found = {number for number in _NUMBER.findall(text) if not _DATE.fullmatch(number)}
    if len(found) != 1:
        parts = _NAME_AND_ID.fullmatch(folder)
        return (parts["id"], parts["name"]) if parts else None
    (number,) = found
    words = re.split(r"[\s\-_.()]+", text.replace(number, " "))
    return number, " ".join(word for word in words if word and not names_nobody(word))


def student_folders(drafts: Sequence[Draft], frames: Frames) -> dict[int, str]:
    """For files that no platform named: index of the draft -> the folder (or zip) that stands for its student.

    Folders that all share are wrappers, and so are names of lessons and words like "submissions". A folder with the
    files of several students is no student's.
    """
    paths: dict[int, list[str]] = {}
    for number, draft in enumerate(drafts):
        folders = [folder_name(part) for part in draft.file.path[:-1]]
        paths[number] = [
            name_without_lesson(part, frames) if lesson_in(part, frames) else part
            for part in folders
            if name_without_lesson(part, frames)
        ]
    counted = [number for number in paths if not drafts[number].problem] or list(paths)
    deepest = max(len(paths[number]) for number in counted) if counted else 0
    level = 0  # the first folder in which the paths differ
    while level < deepest and len({tuple(paths[number][: level + 1]) for number in counted}) == 1:
        level += 1
    if level == deepest:  # they never do: one student's folder, or all files in one
        level = max(level - 1, 0)
    result = {number: path[level] for number, path in paths.items() if len(path) > level}

    people: dict[str, set[str]] = defaultdict(set)
    for number, folder in result.items():
        draft = drafts[number]
        if number in counted:
            people[folder].add(draft.setup_id)
            # Names of files tell students apart only where all files lie in one folder.
            if len(set(result.values())) == 1 and not draft.setup_id:
                people[folder].add(name_without_lesson(draft.name, frames))
            people[folder].discard("")
    if people and all(len(ids) > 1 for ids in people.values()):
        return {}
    return result


def safe_id(raw: str) -> str:
    """A student id that is a folder name everywhere and no pattern for nbgrader: letters, digits, "_", "-", ".", "@"."""
    text = re.sub(r"[^\w.@-]+", "_", unicodedata.normalize("NFKC", raw).strip())
    short = text.lstrip(".-_")[:80].encode("utf-8", "replace")[:150].decode("utf-8", "ignore")
    return short.rstrip("._-")


def identify(drafts: Sequence[Draft], frames: Frames) -> list[Owner]:
    """The owner of each draft: platform, folder with an id, set-up cell, folder, file name, "unknown-1", … in this order."""
    released = {frame.student_id for languages in frames.values() for frame in languages.values()}
    for draft in drafts:
        draft.setup_id = "" if draft.setup_id in released else draft.setup_id
    by_platform = platform_owners(drafts, frames)
    rest = [number for number, owner in enumerate(by_platform) if owner is None]
    folders = student_folders([drafts[number] for number in rest], frames)
    folder_of = {rest[number]: folder for number, folder in folders.items()}

    ids = ids_of_folders(drafts, folder_of)

    owners, unknown = [], 0
    for number, draft in enumerate(drafts):
        owner = by_platform[number]
        tag = name_without_lesson(re.sub(r"\.\w{2,5}$", "", draft.name) if draft.problem else draft.name, frames)
        if owner is not None:
            pass
        elif folder := folder_of.get(number, ""):
            raw_id, name = number_and_name(folder) or (ids.get(folder, folder), "")
            owner = Owner(raw_id, name or draft.setup_name or folder)
        elif safe_id(draft.setup_id):
            owner = Owner(draft.setup_id, draft.setup_name or tag or draft.setup_id)
        elif safe_id(tag):
            raw_id, name = number_and_name(tag) or (tag, "")
            owner = Owner(raw_id, name or draft.setup_name or tag, FROM_FILE_NAME)
        if owner is None or not safe_id(owner.raw_id):
            unknown += 1
            label = f"unknown-{unknown}"
            owner = Owner(label, draft.setup_name or label, NO_ID)
        owners.append(owner)
    known = {normal(owner.raw_id) for owner, draft in zip(owners, drafts) if not draft.problem}
    owners = [
        replace(owner, note=OF_NOBODY)
        if owner.note in (FROM_FILE_NAME, NO_ID) and normal(owner.raw_id) not in known and is_stray(draft, frames)
        else owner
        for owner, draft in zip(owners, drafts)
    ]
    owners = [
        owner if owner.platform else replace(owner, part=part)
        for owner, part in zip(owners, parts_alone(drafts, owners))
    ]
    return [
        with_rank(owner, draft.file.path, folder_of.get(number, ""), frames)
        for number, (owner, draft) in enumerate(zip(owners, drafts))
    ]


def is_stray(draft: Draft, frames: Frames) -> bool:
    """Whether a file is no notebook (nor called one) and its name has neither a lesson nor a number: whoever put it there."""
    name = draft.name
    if not draft.problem or ".ipynb" in name.lower() or name.lower().endswith(".zip") or lesson_in(name, frames):
        return False
    stem = name_without_lesson(re.sub(r"\.\w{2,5}$", "", name), frames)
    return _DATE.fullmatch(stem) is not None or re.search(r"\d\D{0,2}\d{2}", re.sub(r"20\d\d", "", stem)) is None


def names_nobody_known(row: Submission | Record) -> bool:
    """Whether a row is a file that no student has handed in, as far as anybody can tell."""
    return row.status == "unreadable" and OF_NOBODY in row.reason


def with_rank(owner: Owner, path: tuple[str, ...], folder: str, frames: Frames) -> Owner:
    """The owner with what tells several claims to one id apart."""
    if owner.platform:
        # Somebody may be called "Eve_111_assign": in the name of a file it is not clear then where the student's part begins.
        clear = not (owner.part == len(path) - 1 and len(_MOODLE_ID.findall(path[owner.part])) > 1)
        return replace(owner, who=normal(owner.name), rank=3 if clear else 2, other=f"{owner.name}_{owner.raw_id}")
    place = folder or name_without_lesson(path[-1], frames)
    numbered = number_and_name(place)
    if normal(owner.raw_id) == normal(place):
        return replace(owner, who="", rank=3, other=place)
    if numbered and normal(numbered[0]) == normal(owner.raw_id):
        return replace(owner, who=normal(numbered[1]), rank=2 if numbered[1] else 3, other=place)
    return replace(owner, who=normal(place), rank=1, other=place or copy_of(path[-1])[0])


def parts_alone(drafts: Sequence[Draft], owners: Sequence[Owner]) -> list[int]:
    """For each file the outermost part of its path (folder, zip or the file itself) that no notebook of another shares.

    A zip with the notebooks of several is an export, and the dates in it are the platform's; a student's own zip came when it came.
    """
    paths = [tuple(map(folder_name, draft.file.path)) for draft in drafts]
    holders: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for draft, owner, path in zip(drafts, owners, paths):
        for depth in range(1, len(path)) if not draft.problem else ():
            holders[path[:depth]].add(owner.raw_id)
    return [
        next((part for part in range(len(path) - 1) if len(holders[path[: part + 1]]) < 2), len(path) - 1)
        for path in paths
    ]


def ids_of_folders(drafts: Sequence[Draft], folder_of: dict[int, str]) -> dict[str, str]:
    """For folders whose name is no id ("Bob"): the one id that their notebooks hold, unless another folder's do too."""
    typed: dict[str, dict[str, str]] = defaultdict(dict)
    for number, folder in folder_of.items():
        if safe_id(drafts[number].setup_id) and len(re.findall(r"\d", folder)) < 4:
            typed[folder].setdefault(normal(drafts[number].setup_id), drafts[number].setup_id)
    taken = {number_and_name(folder) or (folder, "") for folder in folder_of.values()}
    claims = [next(iter(ids)) for ids in typed.values() if len(ids) == 1]
    single = {folder: next(iter(ids)) for folder, ids in typed.items() if len(ids) == 1}
    theirs = {normal(number) for number, _ in taken}
    return {folder: typed[folder][id] for folder, id in single.items() if claims.count(id) == 1 and id not in theirs}


def normal(id_: str) -> str:
    """Ids that differ in the width or case of their letters alone are one."""
    return unicodedata.normalize("NFKC", id_).strip().casefold()


def assign_ids(owners: Sequence[Owner], sources: Sequence[str] = (), before: Sequence[Submission] = ()) -> list[str]:
    """Folder-safe ids. Two students stay two, also where their ids look the same once made safe.

    Who had an id in an earlier run keeps it, then comes who need not change theirs: points and comments hang on it.
    """
    had = {file.source: file.student_id for file in before}
    spelled = {file.student_id.casefold(): file.student_id for file in before}
    theirs: dict[str, set[str]] = defaultdict(set)  # what students of earlier runs were called, by their ids
    for file in before:
        parts = map(normal, map(folder_name, file.source.split("/")))
        theirs[file.student_id.casefold()] |= {normal(file.student_id), normal(file.notebook_id), *parts}
    bases = [safe_id(owner.raw_id) for owner in owners]
    kept = [
        old if old and re.fullmatch(re.escape(base) + r"(-[0-9]+)?", old, re.IGNORECASE) else ""
        for base, old in zip(bases, [had.get(source, "") for source in sources] or [""] * len(owners))
    ]
    given: dict[str, str] = {}
    taken: set[str] = set()
    for at in sorted(
        range(len(owners)), key=lambda at: (not kept[at], normal(owners[at].raw_id) != bases[at].casefold())
    ):
        key, base, number = normal(owners[at].raw_id), bases[at], 1
        if key in given:
            continue
        candidate = kept[at] if kept[at] and kept[at].casefold() not in taken else base
        while candidate != kept[at] and (
            candidate.casefold() in taken or key not in theirs.get(candidate.casefold(), {key})
        ):
            number += 1
            candidate = f"{base}-{number}"
        given[key] = spelled.get(candidate.casefold(), candidate)
        taken.add(candidate.casefold())
    return [given[normal(owner.raw_id)] for owner in owners]


def part_claims(
    rows: Sequence[Submission], owners: Sequence[Owner], before: Sequence[Submission], frames: Frames
) -> None:
    """Nobody takes another's place by their id: who has it by the name of their folder or file, or had it, keeps it.

    Where nothing says whose it is, all who claim it get an id of their own, and the instructor sees what they typed.
    """
    holders: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for file in before:
        if file.status in (*GRADED, "superseded"):
            holders[file.student_id, file.lesson].add(file.source)
    had = {file.source: file.student_id for file in before}
    taken = {file.student_id.casefold() for file in (*rows, *before)}
    now, then = lesson_counts(rows), lesson_counts(before)
    claims: dict[tuple[str, str | None], list[tuple[Submission, Owner]]] = defaultdict(list)
    for row, owner in zip(rows, owners, strict=True):
        if row.notebook is not None:
            claims[row.student_id, row.lesson].append((row, owner))
    for (student, lesson), group in claims.items():
        held = holders[student, lesson]
        best = max(owner.rank for _, owner in group)
        first = {owner.who for _, owner in group if owner.rank == best}
        earlier = {owner.who for row, owner in group if row.source in held}
        few = 2 * now[lesson or ""] < then[lesson or ""]  # who is late hands in, the others' files stay as they are
        if len(first) > 1:
            first = first & earlier if len(first & earlier) == 1 else set()
        elif (
            best == 1
            and held
            and not earlier
            and (few or {had.get(row.source, student) for row, _ in group} != {student})
        ):
            first &= {who for source in held for who in called(source, frames)}
        fresh: dict[str, str] = {}
        for row, owner in group:
            if owner.who in first:
                continue
            if owner.who not in fresh:
                base = candidate = safe_id(owner.other) or "unknown"
                number = 1
                while candidate.casefold() in taken:
                    number += 1
                    candidate = f"{base}-{number}"
                old = had.get(row.source, student)
                fresh[owner.who] = old if old != student else candidate
                taken.add(fresh[owner.who].casefold())
            row.student_id = fresh[owner.who]
            row.tell(f"It claims the id {student}, and so does another's file.")


def called(source: str, frames: Frames) -> set[str]:
    """What the folders and the file of an earlier run may say about their student."""
    parts = [folder_name(part) for part in source.split("/")]
    return {normal(name) for part in parts for name in (part, name_without_lesson(part, frames))}


# ---------------------------------------------------------------------------------------------------------------------
# All together
# ---------------------------------------------------------------------------------------------------------------------


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
    owners = identify(drafts, frames)
    students = assign_ids(owners, [source_of(draft) for draft in drafts], before)
    limit_students(drafts, owners, students)
    rows = [
        submission(draft, owner, student, frames, releases)
        for draft, owner, student in zip(drafts, owners, students, strict=True)
    ]
    part_claims(rows, owners, before, frames)
    copies = [max(copy_of(draft.name)[2], owner.copy) for draft, owner in zip(drafts, owners, strict=True)]
    fill_in_lesson(rows, lesson_in(folder_name(Path(pile).name), frames))
    supersede(rows, [(not draft.script, number) for draft, number in zip(drafts, copies, strict=True)])
    return sorted(rows, key=lambda row: (row.student_id, row.lesson or "", row.source))


def lessons_of(files: Iterable[Submission]) -> tuple[str, ...]:
    """The lessons that a pile is of; not those that a few have handed in instead."""
    count = lesson_counts(files)
    return tuple(sorted(lesson for lesson in count if 2 * count[lesson] >= max(count.values())))


def lesson_counts(files: Iterable[Submission]) -> Counter[str]:
    return Counter(file.lesson for file in files if file.lesson is not None and file.status in GRADED)


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
        draft = read_draft(file, parse=asked[outer] <= ZIP_SETUPS)
        pictures = (data for cell in draft.cells for _, _, data in cell.attachments)
        held[outer] += max(20_000, sum(len(cell.source) for cell in draft.cells) + sum(map(len, pictures)))
        asked[outer] += min(SETUP_LIMIT, sum(map(setup_size, draft.cells)))
        yield draft


def limit_students(drafts: Sequence[Draft], owners: Sequence[Owner], students: Sequence[str]) -> None:
    """Nobody keeps the class waiting: of very many notebooks of one student only the newest are read."""
    spent: Counter[tuple[str, str]] = Counter()
    count: Counter[tuple[str, str]] = Counter()
    dates = [draft.file.received_below(owner.part) or datetime.min for draft, owner in zip(drafts, owners)]
    for at in sorted(range(len(drafts)), key=lambda at: dates[at], reverse=True):
        draft, whose = drafts[at], (students[at], owners[at].who)
        if draft.problem:
            continue
        spent[whose] += code_size(draft.cells)
        count[whose] += 1
        if spent[whose] > STUDENT_LIMIT or count[whose] > NOTEBOOK_LIMIT:
            draft.cells, draft.problem = [], "this student's notebooks are too many to be read"


def source_of(draft: Draft) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "?", "/".join(draft.file.path))


def submission(draft: Draft, owner: Owner, student: str, frames: Frames, releases: Releases) -> Submission:
    """The row of one file, as if it were the only one of its student."""
    name = clean_text(owner.name).replace("\n", " ").strip()[:100]
    row = Submission(
        student, name or student, None, "", "", source_of(draft), draft.file.received_below(owner.part), "", ""
    )
    row.platform = owner.platform
    if owner.late:
        row.tell("Canvas marked it late.")
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


def supersede(rows: Sequence[Submission], ranks: Sequence[tuple[bool, int]]) -> None:
    """Of several files of one student for one lesson the newest stays; all are told.

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
        ages = [
            (rank[0], row.received if dated and row.received else datetime.min, rank[1], row.source)
            for row, rank in group
        ]
        usable = [row for row, _ in group]
        newest = usable[ages.index(max(ages))]
        for row in usable:
            if row is not newest:
                row.status, row.notebook = "superseded", None
                row.reason = f"The same student's {newest.source} is graded instead."
        newest.reason = sentence(
            [newest.reason.rstrip("."), f"the newest of {len(usable)} files of this student and lesson"]
        )
