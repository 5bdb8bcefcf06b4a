"""Any pile of submissions becomes one canonical notebook per student and lesson.

The way: `read_pile` (pile.py) yields the files of a folder or zip, `read_draft` (drafts.py) turns a file into cells or
into a reason why not, `identify` says whose it is, `rebuild` (rebuild.py) puts the answers into the released notebook.

What a student handed in is only ever read here, never run: names come from Python's symbol table, values from its
syntax tree. Every file ends as a `Submission` with a status and a reason, except the litter that operating systems leave.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path

from nbformat import NotebookNode

from autograder.pipeline.drafts import SETUP_LIMIT, Draft, clean_text, code_size, read_draft, setup_size
from autograder.pipeline.pile import (
    PHONE,
    CollectError,
    copy_of,
    folder_name,
    lesson_in,
    name_in,
    name_without_lesson,
    names_nobody,
    read_pile,
    somebody,
)
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
from autograder.pipeline.records import Record, by_name
from autograder.pipeline.releases import Releases, came_later, load_releases

GRADED = ("ok", "repaired")  # statuses of the files that are run and judged
# Whose a file is, as its reason says it.
FROM_FILE_NAME, NO_ID = "student taken from the file name", "no student id found anywhere"
OF_NOBODY = "a file of nobody known"
NO_ANSWERS = "nothing is answered in it"


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
    claimant: str = ""  # whose the id is, see `Owner.who`
    hand: str = ""  # the outermost part of the path that came from one hand: a folder, a zip or the file
    raw_id: str = ""  # the id as it was found, before it was made a folder's name

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
# B11901003, R09H41005 or 410912001, whatever stands beside it: "陳大文 B11901003", "B11901003陳大文", "B11901003hw2"
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9])(?=(?:[A-Za-z]*\d){6})(?:[A-Za-z]{1,2}\d{1,9}[A-Za-z]?\d{1,9}|\d{8,12})"
    r"(?=(?:(?i:hw|homework)\d{0,2})?(?![A-Za-z0-9]))"
)


# How strong a claim to an id is: made in a zip that claims several ids; made by what is typed into the notebook or by the
# name of a file, both of which students choose; by both together; by a folder's name; by the platform.
SEVERAL, TYPED, BOTH, FOLDER, PLATFORM = range(5)


@dataclass(frozen=True)
class Owner:
    """Who handed a file in: the id as found, the name for display, what to tell, and the number of a repeated upload.

    `part`: the outermost part of the path that came from one hand: what a platform or student handed in.
    `who` claims the id: whoever else has the same id is another student. Files that nothing but the typed id belongs to have
    "", and are one student's. `rank`: how strong the claim is, see `with_claim`. `other`: an id for a student who cannot have
    this one.
    """

    raw_id: str
    name: str
    note: str = ""
    copy: int = 0
    platform: str = ""  # "moodle" or "canvas", where one of them wrote the path
    part: int = 0
    late: bool = False  # the platform says so
    who: str = ""
    rank: int = TYPED
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


def is_no_number(text: str) -> bool:
    """Whether what looks like a student's number is a date or a telephone's."""
    return bool(_DATE.fullmatch(text) or PHONE.fullmatch(text))


def numbers_in(text: str) -> set[str]:
    return {number for number in _NUMBER.findall(text) if not is_no_number(number)}


def number_and_name(folder: str) -> tuple[str, str] | None:
    """The student's number in a folder's name and what stands beside it, if there is one number that is no date."""
    text = unicodedata.normalize("NFKC", folder)
    found = numbers_in(text)
    if len(found) != 1:
        parts = _NAME_AND_ID.fullmatch(folder)
        return None if parts is None or is_no_number(parts["id"]) else (parts["id"], parts["name"])
    (number,) = found
    words = re.split(r"[\s\-_.()]+", somebody(text.replace(number, " ")))
    return number, " ".join(word for word in words if word and not names_nobody(word))


def typed_id(id_: str, name: str) -> tuple[str, str]:
    """What is typed as id and name, where more than the id stands there ("B11901003 陳大文", an e-mail address, "B12 901001"), or
    one in the other's place.
    """
    text = unicodedata.normalize("NFKC", id_[:200]).strip()
    joined = re.sub(r"[\s\-]+", "", text)
    if joined != text and numbers_in(joined) == {joined}:
        return joined, name
    found = numbers_in(text)
    if len(found) == 1 and re.search(r"\w", re.sub(re.escape(*found), "", text)):
        return found.pop(), name
    if len(swapped := numbers_in(unicodedata.normalize("NFKC", name[:200]))) == 1 and not re.search(r"\d", text):
        return swapped.pop(), id_
    return id_, name


def student_folders(drafts: Sequence[Draft], frames: Frames, before: Sequence[Submission] = ()) -> dict[int, str]:
    """For files that no platform named: index of the draft -> the folder (or zip) that stands for its student.

    Folders that all share are wrappers, and so are names of lessons and words like "submissions" or "late". A folder with the
    files of several students is no student's: there those folders count that lie in it.
    """
    paths: list[list[str]] = []
    for draft in drafts:
        folders = [folder_name(part) for part in draft.file.path[:-1]]
        paths.append(
            [
                name_without_lesson(part, frames) if lesson_in(part, frames) else part
                for part in folders
                if name_without_lesson(part, frames)
            ]
        )
    known, typed = Known(before), Counter(normal(draft.setup_id) for draft in drafts)
    result: dict[int, str] = {}

    def divide(inside: list[int], level: int) -> None:
        counted = [at for at in inside if not drafts[at].problem] or inside
        deepest, top = max((len(paths[at]) for at in counted), default=0), level
        inside_typed = {normal(drafts[at].setup_id) for at in counted} - {""}
        # the first folder in which the paths differ, or that is a student's
        while level < deepest and len({tuple(paths[at][: level + 1]) for at in counted}) == 1:
            if is_one_student_s(paths[counted[0]][level], inside_typed):
                break
            level += 1
        if level == deepest:  # they never do: one student's folder, or all files in one
            level = max(level - 1, top)
        groups: dict[str, list[int]] = defaultdict(list)
        for at in inside:
            if len(paths[at]) > level:
                groups[paths[at][level]].append(at)
        read = {*counted}
        for folder, group in groups.items():
            if are_several(folder, [at for at in group if at in read], level + 1, alone=len(groups) == 1):
                divide(group, level + 1)
            else:
                result.update(dict.fromkeys(group, folder))

    def is_one_student_s(folder: str, ids: set[str]) -> bool:
        """Whether a folder that holds everything is called after the only student: a course has numbers too."""
        number = normal((number_and_name(folder) or ("", ""))[0])
        return bool(number) and ids <= {number} and (bool(ids) or number in known.ids or not number.isdigit())

    def are_several(folder: str, group: list[int], level: int, alone: bool) -> bool:
        """Whether several students' files lie in a folder: what is typed in them, or the numbers of what lies directly in it."""
        numbers, ids, names = set[str](), set[str](), set[str]()
        for at in group:
            below = paths[at][level] if len(paths[at]) > level else name_without_lesson(drafts[at].name, frames)
            number, _ = number_and_name(below) or ("", "")
            numbers.add(normal(number))
            ids.add(normal(drafts[at].setup_id or number))
            names.add("" if drafts[at].setup_id else normal(number or below))
        others = (ids | numbers) - {""}
        if own := normal((number_and_name(folder) or ("", ""))[0]):
            unlike = ("" not in ids and len(ids) > 1) or (alone and own.isdigit() and len(names - {""}) > 1)
            return own not in others and unlike
        # Names of files tell students apart only where all files lie in one folder.
        if len((ids | names if alone else ids) - {""}) < 2 and len(numbers - {""}) < 2:
            return False
        # It was one's in an earlier run: then the others' notebooks that it holds too are of those who have a place of their own.
        theirs = known.in_folder.get(normal(folder), set())
        here = Counter(normal(drafts[at].setup_id) for at in group)
        return len(theirs) != 1 or any(id_ not in known.ids and typed[id_] == here[id_] for id_ in others)

    divide([*range(len(drafts))], 0)
    return result


class Known:
    """What earlier runs say of whose a file is, where no platform named it."""

    def __init__(self, before: Sequence[Submission]) -> None:
        self.ids: set[str] = set()  # everything that somebody was called
        self.in_folder: dict[str, set[str]] = defaultdict(set)  # the ids of those whose files lay in a folder
        self.named: dict[str, dict[str, Submission]] = defaultdict(dict)  # by what their files or folders were called
        for file in before:
            if file.platform or is_unknown(file) or file.status not in (*GRADED, "superseded"):
                continue
            self.ids |= names_of(file)
            for part in file.source.split("/")[:-1]:
                self.in_folder[normal(folder_name(part))].add(file.student_id)
            if name := name_of(file):
                self.named[name].setdefault(file.student_id, file)

    def only(self, name: str) -> Submission | None:
        """A file of the only student who was called so."""
        files = self.named.get(name, {})
        return next(iter(files.values())) if len(files) == 1 else None


def names_of(file: Submission) -> set[str]:
    """The ids of a student of an earlier run: the one that it has, and as they were found."""
    return {*map(normal, (file.student_id, file.raw_id, file.notebook_id))} - {""}


def name_of(file: Submission) -> str:
    """The name beside the id in what a file (or the folder it is in) is called."""
    id_, who = normal(file.raw_id), file.claimant
    name = name_in(who.replace(id_, " ") if number_and_name(id_) else who)
    return name if "/" not in who and re.search(r"[^\W\d_]", name) else ""


def id_of(file: Submission) -> str:
    """What to look for as the id, so that it becomes the one of an earlier run."""
    return file.raw_id if safe_id(file.raw_id) == file.student_id else file.student_id


def safe_id(raw: str) -> str:
    """A student id that is a folder name everywhere and no pattern for nbgrader: letters, digits, "_", "-", ".", "@"."""
    text = re.sub(r"[^\w.@-]+", "_", unicodedata.normalize("NFKC", raw).strip())
    short = text.lstrip(".-_")[:80].encode("utf-8", "replace")[:150].decode("utf-8", "ignore")
    return short.rstrip("._-")


def identify(drafts: Sequence[Draft], frames: Frames, before: Sequence[Submission] = ()) -> list[Owner]:
    """The owner of each draft: platform, folder with an id, set-up cell, folder, file name, "unknown-1", … in this order."""
    released = {frame.student_id for languages in frames.values() for frame in languages.values()}
    known_ids = Known(before).ids
    for draft in drafts:
        if draft.setup_id in released:
            draft.setup_id = ""
        elif normal(draft.setup_id) not in known_ids:
            draft.setup_id, draft.setup_name = typed_id(draft.setup_id, draft.setup_name)
    by_platform = platform_owners(drafts, frames)
    rest = [number for number, owner in enumerate(by_platform) if owner is None]
    folders = student_folders([drafts[number] for number in rest], frames, before)
    folder_of = {rest[number]: folder for number, folder in folders.items()}
    ids = ids_of_folders(drafts, folder_of, before)
    tags = [
        somebody(name_without_lesson(re.sub(r"\.\w{2,5}$", "", draft.name) if draft.problem else draft.name, frames))
        for draft in drafts
    ]
    loose = [number for number in rest if number not in folder_of and not drafts[number].problem]
    had = ids_of_names([(drafts[number], tags[number]) for number in loose], drafts, before)

    owners: list[Owner] = []
    for number, draft in enumerate(drafts):
        owner, tag = by_platform[number], tags[number]
        if owner is not None:
            pass
        elif folder := folder_of.get(number, ""):
            shown = somebody(folder)
            raw_id, name = number_and_name(folder) or (ids.get(folder, shown), "")
            owner = Owner(raw_id, name or draft.setup_name or shown)
        elif safe_id(draft.setup_id):
            owner = Owner(had.get(name_in(tag), draft.setup_id), draft.setup_name or tag or draft.setup_id)
        elif safe_id(tag):
            raw_id, name = number_and_name(tag) or (had.get(name_in(tag), tag), "")
            owner = Owner(raw_id, name or draft.setup_name or tag, FROM_FILE_NAME)
        owners.append(owner if owner is not None and safe_id(owner.raw_id) else Owner("", draft.setup_name, NO_ID))
    owners = with_numbers(drafts, owners, before)
    readable = {normal(owner.raw_id) for owner, draft in zip(owners, drafts) if not draft.problem}
    owners = [
        replace(owner, note=OF_NOBODY)
        if owner.note in (FROM_FILE_NAME, NO_ID) and normal(owner.raw_id) not in readable and is_stray(draft, frames)
        else owner
        for owner, draft in zip(owners, drafts)
    ]
    zips = zips_of_students(drafts, owners, before, frames)
    owners = [
        with_claim(owner, draft, folder_of.get(number, ""), zips[number], frames)
        for number, (owner, draft) in enumerate(zip(owners, drafts))
    ]
    owners = without_forged(drafts, owners)
    # Who once forgot to type the id that the file is called after is no other student.
    both = {normal(owner.raw_id) for owner in owners if owner.rank == BOTH}
    return [
        replace(owner, who="", rank=BOTH)
        if owner.rank == TYPED and owner.who in both and owner.who == normal(owner.raw_id)
        else owner
        for owner in owners
    ]


def without_forged(drafts: Sequence[Draft], owners: Sequence[Owner]) -> list[Owner]:
    """A platform names most of its pile; where it has not, students may have called their files so."""
    hands = {(owner.platform, hand_of(draft, owner)) for owner, draft in zip(owners, drafts) if not draft.problem}
    count = Counter(platform for platform, _ in hands)
    result = []
    for draft, owner in zip(drafts, owners):
        if owner.platform and 2 * count[owner.platform] <= len(hands):
            part = draft.file.path[owner.part]
            in_folder = owner.part < len(draft.file.path) - 1 and folder_name(part) == part
            owner = replace(owner, rank=FOLDER if in_folder else TYPED)
        result.append(owner)
    return result


def with_numbers(drafts: Sequence[Draft], owners: Sequence[Owner], before: Sequence[Submission]) -> list[Owner]:
    """Files without any id are "unknown-1" and so on: each keeps its number in later runs, and none gets another's."""
    had = {file.source: file.student_id for file in before if is_unknown(file)}
    taken = {*had.values(), *(normal(owner.raw_id) for owner in owners)}
    result, number = [], 0
    for draft, owner in zip(drafts, owners):
        if not owner.raw_id:
            label = had.get(source_of(draft), "")
            while not label:
                number += 1
                label = "" if f"unknown-{number}" in taken else f"unknown-{number}"
            owner = replace(owner, raw_id=label, name=owner.name or label)
        result.append(owner)
    return result


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


@dataclass(frozen=True)
class Zip:
    """A zip that a student handed in: which part of the path it is, and whether its notebooks carry several ids."""

    part: int
    several: bool


def zips_of_students(
    drafts: Sequence[Draft], owners: Sequence[Owner], before: Sequence[Submission], frames: Frames
) -> list[Zip | None]:
    """For each file the outermost zip around it that one student made, if it lies in one.

    Zips with the notebooks of several are exports of the class only where they hold four times as many students as there are
    files beside them, and half as many as in an earlier run, then without ids that nobody had: else who puts a second id, or
    many that are made up, into their zip would have the dates in it believed. What fits no lesson makes nobody a student.
    """
    paths = [tuple(map(folder_name, draft.file.path)) for draft in drafts]
    known = {normal(id_) for file in before for id_ in (file.student_id, file.raw_id, file.notebook_id)}
    class_size = max(lesson_counts(before).values(), default=0)
    ids: dict[tuple[str, ...], set[str]] = defaultdict(set)
    exports: set[tuple[str, ...]] = set()
    inside = [
        number
        for number, draft in enumerate(drafts)
        if not draft.problem and (not in_zip(draft) or choose_lesson(draft, frames))
    ]
    while inside:
        around: dict[int, tuple[str, ...]] = {}
        for number in inside:
            zips = [paths[number][:parts] for parts, _ in drafts[number].file.dates[:-1]]
            if zip_ := next((zip_ for zip_ in zips if zip_ not in exports), None):
                around[number] = zip_
                ids[zip_].add(normal(owners[number].raw_id))
        several = {zip_ for zip_ in around.values() if len(ids[zip_]) > 1}
        students = set[str]().union(*(ids[zip_] for zip_ in several))
        students &= known or students
        beside = len(inside) - len(around) + len({*around.values()} - several)
        if len(students) < max(1, 4 * beside, class_size / 2):
            break
        exports |= several
        inside = [number for number, zip_ in around.items() if zip_ in several]
    return [
        next(
            (
                Zip(parts - 1, len(ids[path[:parts]]) > 1)
                for parts, _ in draft.file.dates[:-1]
                if path[:parts] not in exports
            ),
            None,
        )
        for draft, path in zip(drafts, paths)
    ]


def with_claim(owner: Owner, draft: Draft, folder: str, around: Zip | None, frames: Frames) -> Owner:
    """The owner with who claims the id, and how strongly."""
    path = draft.file.path
    if owner.platform:
        # Somebody may be called "Eve_111_assign": in the name of a file it is not clear then where the student's part begins.
        clear = not (owner.part == len(path) - 1 and len(_MOODLE_ID.findall(path[owner.part])) > 1)
        other = f"{owner.name}_{owner.raw_id}"
        return replace(owner, who=normal(owner.name), rank=PLATFORM if clear else FOLDER, other=other)
    owner = replace(owner, part=len(path) - 1 if around is None else around.part)
    if owner.note == NO_ID:
        return replace(owner, who=normal("/".join(path)))
    id_, place = normal(owner.raw_id), somebody(folder or name_without_lesson(path[-1], frames))
    if around is not None and around.several:
        folders = [folder_name(part) for part in path[: around.part + 1]]
        return replace(owner, who=normal("/".join(folders)), rank=SEVERAL, other=place or folders[-1])
    number, words = (place, "") if normal(place) == id_ else number_and_name(place) or ("", "")
    typed, named = normal(draft.setup_id) == id_, normal(number) == id_
    outside = path[:-1] if around is None else path[: around.part]
    shown = [(folder_name(part), name_without_lesson(folder_name(part), frames)) for part in outside]
    if named and folder and any(folder in names for names in shown):
        return replace(owner, who=normal(place), rank=FOLDER, other=place)
    alone = "" if typed else id_  # nothing else in the name
    who = name_in(words if words or named else place) or (alone if named else normal(folder) or alone)
    return replace(owner, who=who, rank=BOTH if named and typed else TYPED, other=place or copy_of(path[-1])[0])


def same_name(one: str, other: str) -> bool:
    """Whether two claimants may be one: "ann" and "ann lee". What has a number in it, or is a path, is another's unless equal."""
    words = [set() if re.search(r"[\d/.]", who) else {*who.split()} for who in (one, other)]
    return one == other or (all(words) and (words[0] <= words[1] or words[1] <= words[0]))


def is_unknown(file: Submission) -> bool:
    """Whether a file has no id, see `with_numbers`."""
    return re.fullmatch(r"unknown-[0-9]+", file.student_id) is not None


def by_id_alone(one: Submission, other: Submission) -> bool:
    """Whether nothing but the id (or the path, where there is none) says that two files are one student's: neither a platform
    nor a name.
    """
    names = name_of(one), name_of(other)
    same = same_name(one.claimant, other.claimant) or (all(names) and same_name(*names))
    return is_unknown(one) or not one.claimant or not same


def ids_of_folders(
    drafts: Sequence[Draft], folder_of: dict[int, str], before: Sequence[Submission] = ()
) -> dict[str, str]:
    """For folders whose name is no id ("Bob"): the one id that who was called so had in earlier runs, else the one id that their
    notebooks hold, unless another folder's do too.
    """
    typed: dict[str, dict[str, str]] = defaultdict(dict)
    for number, folder in folder_of.items():
        if number_and_name(folder) is None and len(re.findall(r"\d", somebody(folder))) < 4:
            id_ = drafts[number].setup_id
            typed[folder].update({normal(id_): id_} if safe_id(id_) else {})
    known, names = Known(before), Counter(map(name_in, typed))
    kept: dict[str, str] = {}
    for folder, ids in typed.items():
        file = known.only(name_in(folder)) if names[name_in(folder)] == 1 else None
        # Whoever typed another id is the same student where the folder is called after the student.
        if file is not None and (names_of(file) >= {*ids} or name_in(file.student_name) == name_in(folder)):
            kept[folder] = id_of(file)
    taken = {number_and_name(folder) or (folder, "") for folder in folder_of.values()}
    theirs = {normal(number) for number, _ in taken} | {*map(normal, kept.values())}
    single = {folder: next(iter(ids)) for folder, ids in typed.items() if len(ids) == 1 and folder not in kept}
    count = Counter(single.values())
    return kept | {folder: typed[folder][id] for folder, id in single.items() if count[id] == 1 and id not in theirs}


def ids_of_names(
    loose: Sequence[tuple[Draft, str]], drafts: Sequence[Draft], before: Sequence[Submission]
) -> dict[str, str]:
    """For files that are called after a name: the one id that who was called so had in earlier runs, typed or not, where it was
    not typed then or is not now. An id that somebody types now, or that is known, is not left for a name's.
    """
    known, typed = Known(before), {normal(draft.setup_id) for draft in drafts}
    ids: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for draft, tag in loose:
        if number_and_name(tag) is None:
            ids[name_in(tag)][normal(draft.setup_id)].add(name_in(draft.setup_name))
    result = {}
    for name, now in ids.items():
        file = known.only(name)
        if file is None or len(now) > 1 or name_in(file.student_name) != name:
            continue
        ((id_, names),) = now.items()
        typed_now = not file.notebook_id and id_ not in known.ids and names <= {"", name}
        if typed_now if id_ else not names_of(file) & typed:
            result[name] = id_of(file)
    return result


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
    exactly = {(file.student_id.casefold(), normal(file.raw_id)) for file in before}
    for file in before:
        parts = map(normal, map(folder_name, file.source.split("/")))
        names = map(normal, (file.student_id, file.raw_id, file.notebook_id))
        theirs[file.student_id.casefold()] |= {*names, *parts}
    bases = [safe_id(owner.raw_id) for owner in owners]
    kept = [
        old if old and re.fullmatch(re.escape(base) + r"(-[0-9]+)?", old, re.IGNORECASE) else ""
        for base, old in zip(bases, [had.get(source, "") for source in sources] or [""] * len(owners))
    ]
    given: dict[str, str] = {}
    taken: set[str] = set()
    free = FreeIds({*theirs})
    numbered: dict[str, list[str]] = defaultdict(list)
    for id_ in theirs:
        for name in theirs[id_]:
            numbered[name].append(id_)

    def place(at: int) -> tuple[bool, bool, bool]:
        key, base = normal(owners[at].raw_id), bases[at].casefold()
        return not kept[at], (base, key) not in exactly, key != base

    for at in sorted(range(len(owners)), key=place):
        key = normal(owners[at].raw_id)
        if key in given:
            continue

        own = [id_ for id_ in numbered[key] if re.fullmatch(re.escape(bases[at].casefold()) + "-[0-9]+", id_)]
        base = [bases[at]] if key in theirs.get(bases[at].casefold(), {key}) else []
        known = (id_ for id_ in [kept[at], *base, *own] if id_ and id_.casefold() not in taken)
        candidate = next(known, "") or free.numbered(bases[at])
        given[key] = spelled.get(candidate.casefold(), candidate)
        taken.add(candidate.casefold())
        free.taken.add(candidate.casefold())
    return [given[normal(owner.raw_id)] for owner in owners]


class FreeIds:
    """Ids that nobody has. The next number of each is remembered: one zip may ask thousands of times for the same."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken  # in small letters
        self.next: dict[str, int] = {}

    def like(self, base: str) -> str:
        """`base`, or `base-2` and so on: the first that nobody has."""
        return base if base.casefold() not in self.taken else self.numbered(base)

    def numbered(self, base: str) -> str:
        numbers = itertools.count(self.next.get(base.casefold(), 2))
        number = next(number for number in numbers if f"{base}-{number}".casefold() not in self.taken)
        self.next[base.casefold()] = number
        return f"{base}-{number}"


def part_claims(rows: Sequence[Submission], owners: Sequence[Owner], before: Sequence[Submission]) -> None:
    """Nobody takes another's place by their id. Files of one claimant are one student's; of several claimants one has the id:
    whom the platform names, else who had it in an earlier run, else whose claim is the strongest.

    Where nothing says whose it is, all who claim it get an id of their own. The instructor is told at each row.
    """
    holders: dict[tuple[str, str | None], list[Submission]] = defaultdict(list)
    by_student: dict[str, list[Submission]] = defaultdict(list)
    for file in before:
        if file.status in (*GRADED, "superseded"):
            holders[file.student_id, file.lesson].append(file)
            by_student[file.student_id].append(file)
    had = {file.source: file.student_id for file in before}
    free = FreeIds({file.student_id.casefold() for file in (*rows, *before)})
    now, then = lesson_counts(rows), lesson_counts(before)
    claims: dict[tuple[str, str | None], list[tuple[Submission, Owner]]] = defaultdict(list)
    for row, owner in zip(rows, owners, strict=True):
        if row.notebook is not None:
            claims[row.student_id, row.lesson].append((row, owner))
    for (student, lesson), group in claims.items():
        held = holders[student, lesson]
        whose = claimants(group, held)
        known = {whose[file.claimant] for file in held}
        few = 2 * now[lesson or ""] < then[lesson or ""]  # who is late hands in, the others' files stay as they are
        sources = {file.source for file in held}
        earlier = {whose[owner.who] for row, owner in group if row.source in sources}
        named = {whose[owner.who] for _, owner in group if owner.rank == PLATFORM}
        if few and held:
            named &= known
        if named:
            first = named if len(named) == 1 else named & earlier
        elif earlier:
            first = earlier
        else:
            claim = [
                owner
                for row, owner in group
                if not held
                or whose[owner.who] in known
                or (had.get(row.source, student) == student and may_follow(row, owner, held, few))
            ]
            best = max((owner.rank for owner in claim), default=TYPED)
            first = {whose[owner.who] for owner in claim if owner.rank == best}
            if len(first) > 1 and not held:
                theirs = by_student[student]
                first = {whose[owner.who] for owner in claim if owner.rank == best and has_had(owner, theirs)}
        if len(first) > 1:
            first = set()
        fresh: dict[str, str] = {}
        for row, owner in group:
            who = whose[owner.who]
            if who in first:
                continue
            if who not in fresh:
                old = had.get(row.source, student)
                fresh[who] = old if old != student else free.like(safe_id(owner.other) or "unknown")
                free.taken.add(fresh[who].casefold())
            row.student_id = fresh[who]
            row.tell(f"It claims the id {student}, and so does another's file.")
        others = [row.source for row, owner in group if whose[owner.who] not in first]
        for row, owner in group:
            if whose[owner.who] in first and others:
                row.tell(f"Its id is claimed by another's file too: {others[0]}.")


def has_had(owner: Owner, files: Sequence[Submission]) -> bool:
    """Whether somebody is called as who had the id in other lessons, all of whose files have a name."""
    return all(file.claimant for file in files) and any(same_name(owner.who, file.claimant) for file in files)


def claimants(group: Sequence[tuple[Submission, Owner]], held: Sequence[Submission]) -> dict[str, str]:
    """Who claims one id: for each `who` the one that stands for all that are the same student's.

    These are names of which one holds the other's words, and whatever stands beside an id that is both in the file's name
    and typed. A folder that has the id in its name is the same student's where the id is typed too and no other name stands
    beside it.
    """
    id_ = normal(group[0][1].raw_id)
    found: dict[str, str] = {}
    names = {owner.who for _, owner in group} | {file.claimant for file in held}
    for who in sorted(names, key=lambda who: (len(who.split()), who)):
        found[who] = next((found[other] for other in found if same_name(other, who)), who)
    folders = {row.claimant for row, owner in group if owner.rank == FOLDER and normal(row.notebook_id) == id_}
    folders |= {
        file.claimant
        for file in held
        if id_ in file.claimant and normal(file.notebook_id) == id_ and in_folder(file, id_)
    }
    both = {owner.who for _, owner in group if owner.rank == BOTH}
    both |= {file.claimant for file in held if (both or folders) and is_called(file, id_)}
    beside = {who: name_in(who.replace(id_, " ")) for who in both | folders}
    people = {beside[who] for who in folders} - {""}
    fit = {who for who in both if all(same_name(one, beside[who]) for one in people) or not beside[who]}
    same = {found[who] for who in both}
    if all(same_name(one, other) for one in people for other in people) and (fit or not both or not people):
        same |= {found[who] for who in folders}
    return {who: min(same) if one in same else one for who, one in found.items()}


def in_folder(file: Submission, id_: str) -> bool:
    return any(id_ in normal(part) for part in file.source.split("/")[:-1])


def is_called(file: Submission, id_: str) -> bool:
    """Whether a file of an earlier run, and no folder around it, is called after an id, which is typed or all of the name."""
    *folders, name = normal(file.source).split("/")
    return (
        id_ in name
        and not any(id_ in folder for folder in folders)
        and id_ in (normal(file.notebook_id), file.claimant)
    )


def may_follow(row: Submission, owner: Owner, held: Sequence[Submission], late: bool) -> bool:
    """Whether a file may be a later one of who had the id in an earlier run, with `held`, under another name.

    The id was and is typed, or the class comes again. Where others do not come again (`late`), only who had nothing but the id.
    """
    nameless = "" in {file.claimant for file in held}
    typed_again = normal(row.notebook_id) == normal(owner.raw_id) in {normal(file.notebook_id) for file in held}
    return typed_again and nameless if late else typed_again or (owner.rank == FOLDER and not nameless)


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


def lesson_counts(files: Iterable[Submission]) -> Counter[str]:
    """How many have handed each lesson in; a zip is one, whatever ids it holds."""
    hands = {
        (file.lesson, file.hand or file.source) for file in files if file.lesson is not None and file.status in GRADED
    }
    return Counter(lesson for lesson, _ in hands)


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


Hand = tuple[str, ...]  # the path of what one student handed in


def hand_of(draft: Draft, owner: Owner) -> Hand:
    return draft.file.path[: owner.part + 1]


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


def in_zip(draft: Draft) -> bool:
    """Whether a file lies in a zip inside the pile."""
    return len(draft.file.dates) > 1


def limit_code(drafts: Sequence[Draft], owners: Sequence[Owner], students: Sequence[str]) -> None:
    """Of one student, in one zip or by the same claim, so many notebooks and so much code; of a zip so much code in all.

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
        whose = [(students[at], owner.who), (students[at], hand)]
        of_zip[hand] += max(20_000, size)
        for key in whose:
            spent[key] += size
            count[key] += 1
        if any(spent[key] > STUDENT_LIMIT or count[key] > NOTEBOOK_LIMIT for key in whose):
            draft.cells, draft.problem = [], "this student's notebooks are too many to be read"
        elif of_zip[hand] > ZIP_CODE:
            draft.cells, draft.problem = [], "its zip holds too much text to be read"


def source_of(draft: Draft) -> str:
    """The path, without what would act on a terminal or turn the direction of the text around it."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", "?", "/".join(draft.file.path))


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
