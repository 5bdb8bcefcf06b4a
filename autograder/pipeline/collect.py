"""Any pile of submissions becomes one canonical notebook per student and lesson.

The way: `read_pile` (pile.py) yields the files of a folder or zip, `read_draft` (drafts.py) turns a file into cells or
into a reason why not, `identify` says whose it is, `rebuild` (rebuild.py) puts the answers into the released notebook.

What a student handed in is only ever read here, never run: names come from Python's symbol table, values from its
syntax tree. Every file ends as a `Submission` with a status and a reason, except the litter that operating systems leave.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nbformat import NotebookNode

from autograder.pipeline.drafts import Draft, clean_text, read_draft
from autograder.pipeline.pile import CollectError, copy_of, lesson_in, name_without_lesson, read_pile
from autograder.pipeline.rebuild import Frames, choose_language, choose_lesson, load_frames, rebuild
from autograder.pipeline.releases import Releases, came_later, load_releases


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


# ---------------------------------------------------------------------------------------------------------------------
# Whose it is
# ---------------------------------------------------------------------------------------------------------------------

# The front of a name is the platform's; what stands behind it in the name of a file was chosen by the student. In the name of
# a folder nothing of the student's stands behind it, but a student may be called anything.
_MOODLE = re.compile(r"(?P<name>(?:(?!_\d+_\d+_).)+?)_(?P<id>\d+)_assign(?:submission)?(?:_.*)?")
_MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assign(?:submission)?(?:_.*)?")
_CANVAS = re.compile(r"(?P<name>.+?)_(?:LATE_)?(?P<id>\d{3,})_\d{3,}_.+?(?:-(?P<copy>\d{1,2}))?(?:\.\w+)?")
_COOL = re.compile(r"^[A-Za-z]\w*#_(?=.)")  # NTU COOL, a Canvas, writes the student number before the name
_NAME_AND_ID = re.compile(r"(?P<name>\D.*)_(?P<id>\d{5,})_?")
_ID = re.compile(r"(?:\D.*_)?\D{0,2}\d{5,}_?")
_DATE = re.compile(r"(?:.*\D)?20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])_?")


@dataclass(frozen=True)
class Owner:
    """Who handed a file in: the id as found, the name for display, what to tell, and the number of a repeated upload.

    `part`: which part of the path says so, where a platform wrote it.
    """

    raw_id: str
    name: str
    note: str = ""
    copy: int = 0
    platform: str = ""  # "moodle" or "canvas", where one of them wrote the path
    part: int = 0


def platform_owner(path: tuple[str, ...], part: int) -> Owner | None:
    """The student that Moodle or Canvas wrote into a part of a path, if one of them did."""
    if part >= len(path):
        return None
    name, last = path[part], part == len(path) - 1
    zipped = name.lower().endswith(".zip")
    if not last and not zipped:
        found = _MOODLE_FOLDER.fullmatch(name)
        return Owner(found["id"], found["name"], platform="moodle", part=part) if found else None
    moodle = _MOODLE.fullmatch(_without_zip(name))
    # Canvas writes the ids into the name of the file or of the zip that was handed in.
    canvas = _CANVAS.fullmatch(name)
    if canvas and not (moodle and moodle.start("id") < canvas.start("id")):
        # Canvas numbers what was handed in again: file-1.ipynb
        name = _COOL.sub("", canvas["name"], count=1)
        return Owner(canvas["id"], name, copy=int(canvas["copy"] or 0), platform="canvas", part=part)
    return Owner(moodle["id"], moodle["name"], platform="moodle", part=part) if moodle else None


def platform_owners(drafts: Sequence[Draft], frames: Frames) -> list[Owner | None]:
    """The students that a platform wrote into the outermost part of each path.

    Further in students chose the names: there they say nothing. Outside of it may be what holds the whole class: a
    folder that all share, one that is called after a lesson ("hw1"), or one for each of several exports.
    """
    paths = [draft.file.path for draft in drafts]
    low, high = min(paths), max(paths)
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
        if name_without_lesson(_without_zip(path[part]), frames) and (part >= shared or names_someone(path[part])):
            break
        part += 1
    return part


def names_someone(folder: str) -> bool:
    """Whether a folder carries a student's id: "b11123456", "Ann_41100003"; a date is none."""
    name = _without_zip(folder)
    return _ID.fullmatch(name) is not None and _DATE.fullmatch(name) is None


def _without_zip(name: str) -> str:
    return re.sub(r"\.zip$", "", name, flags=re.IGNORECASE)


def student_folders(drafts: Sequence[Draft], frames: Frames) -> dict[int, str]:
    """For files that no platform named: index of the draft -> the folder (or zip) that stands for its student.

    Folders that all share are wrappers, and so are names of lessons and words like "submissions". A folder with the
    files of several students is no student's.
    """
    paths: dict[int, list[str]] = {}
    for number, draft in enumerate(drafts):
        folders = [_without_zip(part) for part in draft.file.path[:-1]]
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
        tag = name_without_lesson(draft.name, frames)
        if owner is not None:
            pass
        elif folder := folder_of.get(number, ""):
            parts = _NAME_AND_ID.fullmatch(folder)
            name = parts["name"] if parts else draft.setup_name or folder
            owner = Owner(parts["id"] if parts else ids.get(folder, folder), name)
        elif safe_id(draft.setup_id):
            owner = Owner(draft.setup_id, draft.setup_name or tag or draft.setup_id)
        elif safe_id(tag):
            owner = Owner(tag, draft.setup_name or tag, "student taken from the file name")
        if owner is None or not safe_id(owner.raw_id):
            unknown += 1
            label = f"unknown-{unknown}"
            owner = Owner(label, draft.setup_name or label, "no student id found anywhere")
        owners.append(owner)
    return owners


def ids_of_folders(drafts: Sequence[Draft], folder_of: dict[int, str]) -> dict[str, str]:
    """For folders whose name is no id ("Bob"): the one id that their notebooks hold, unless another folder's do too."""
    typed: dict[str, set[str]] = defaultdict(set)
    for number, folder in folder_of.items():
        if safe_id(drafts[number].setup_id) and len(re.findall(r"\d", folder)) < 4:
            typed[folder].add(drafts[number].setup_id)
    claims = [next(iter(ids)) for ids in typed.values() if len(ids) == 1]
    single = {folder: next(iter(ids)) for folder, ids in typed.items() if len(ids) == 1}
    return {folder: id for folder, id in single.items() if claims.count(id) == 1 and id not in folder_of.values()}


def assign_ids(owners: Sequence[Owner]) -> list[str]:
    """Folder-safe ids. Two students stay two, also where their ids look the same once made safe."""
    given: dict[str, str] = {}
    taken: set[str] = set()
    for owner in owners:
        key = unicodedata.normalize("NFKC", owner.raw_id).strip().casefold()
        if key not in given:
            base = candidate = safe_id(owner.raw_id)
            number = 1
            while candidate.casefold() in taken:
                number += 1
                candidate = f"{base}-{number}"
            given[key] = candidate
            taken.add(candidate.casefold())
    return [given[unicodedata.normalize("NFKC", owner.raw_id).strip().casefold()] for owner in owners]


# ---------------------------------------------------------------------------------------------------------------------
# All together
# ---------------------------------------------------------------------------------------------------------------------


def collect(pile: Path, lessons: Path, releases: Releases | None = None) -> list[Submission]:
    """Turn a zip or folder of submissions into rows with canonical notebooks.

    Args:
        pile: what the learning platform exported, or a folder of files.
        lessons: the released notebooks, `lessons/<language>/NN_name.ipynb`.
        releases: that the course has had (default: releases.tsv).

    Returns:
        One row per file, sorted by student, lesson and path. At most one row per student and lesson is "ok" or
        "repaired" and carries a notebook.

    Raises:
        CollectError: the pile or the released notebooks cannot be read at all.
    """
    frames = load_frames(Path(lessons))
    releases = load_releases() if releases is None else releases
    drafts = sorted((read_draft(file) for file in read_pile(Path(pile))), key=lambda draft: draft.file.path)
    if not drafts:
        raise CollectError(f"{Path(pile).name} holds no files to grade")
    owners = identify(drafts, frames)
    rows = [
        submission(draft, owner, student, frames, releases)
        for draft, owner, student in zip(drafts, owners, assign_ids(owners), strict=True)
    ]
    copies = [max(copy_of(draft.name)[2], owner.copy) for draft, owner in zip(drafts, owners, strict=True)]
    supersede(rows, [(not draft.script, number) for draft, number in zip(drafts, copies, strict=True)])
    return sorted(rows, key=lambda row: (row.student_id, row.lesson or "", row.source))


def submission(draft: Draft, owner: Owner, student: str, frames: Frames, releases: Releases) -> Submission:
    """The row of one file, as if it were the only one of its student."""
    source = re.sub(r"[\x00-\x1f\x7f]", "?", "/".join(draft.file.path))
    name = clean_text(owner.name).replace("\n", " ").strip()[:100]
    row = Submission(student, name or student, None, "", "", source, draft.file.received_below(owner.part), "", "")
    row.platform = owner.platform
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
