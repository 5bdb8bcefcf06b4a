"""Whose a file is: what the platform, the folders and zips around it, its name and what is typed into it say."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from autograder.pipeline.drafts import Draft
from autograder.pipeline.pile import (
    PHONE,
    copy_of,
    folder_name,
    lesson_in,
    name_in,
    name_without_lesson,
    names_nobody,
    somebody,
)
from autograder.pipeline.rebuild import Frames, choose_lesson
from autograder.pipeline.submission import (
    FROM_FILE_NAME,
    GRADED,
    NO_ID,
    OF_NOBODY,
    Submission,
    is_unknown,
    lesson_counts,
    normal,
    safe_id,
)

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
_YEAR = re.compile(r"(?<!\d)20\d\d(?!\d)")
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
    this one. `around`: the folders of several around the file, the outermost first: each may be one student's, who chose what
    lies in it.
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
    around: tuple[str, ...] = ()


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


def student_folders(
    drafts: Sequence[Draft], frames: Frames, known: Known
) -> tuple[dict[int, str], dict[int, tuple[str, ...]]]:
    """For files that no platform named: index of the draft -> the folder (or zip) that stands for its student, and -> the folders
    of several around it.

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
    result: dict[int, str] = {}
    around: dict[int, tuple[str, ...]] = {}

    def surround(inside: list[int], level: int) -> None:
        for at in inside:
            around[at] = (*around.get(at, ()), normal("/".join(paths[at][:level])))

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
        if level > top > 0:  # one of several folders in each other
            surround([at for at in inside if len(paths[at]) >= level], level)
        groups: dict[str, list[int]] = defaultdict(list)
        for at in inside:
            if len(paths[at]) > level:
                groups[paths[at][level]].append(at)
        read = {*counted}
        for folder, group in groups.items():
            if are_several(folder, [at for at in group if at in read], level + 1, alone=len(groups) == 1):
                surround(group, level + 1)
                divide(group, level + 1)
            else:
                result.update(dict.fromkeys(group, folder))

    def is_one_student_s(folder: str, ids: set[str]) -> bool:
        """Whether a folder that holds everything is called after the only student: after one who is known, whatever is typed
        in it, or with a number that nothing contradicts. A course has numbers too.
        """
        number = normal((number_and_name(folder) or ("", ""))[0])
        if number in known.ids or known.id_of_name(name_in(folder)):
            return True
        return bool(number) and ids <= {number} and (bool(ids) or not number.isdigit())

    def are_several(folder: str, group: list[int], level: int, alone: bool) -> bool:
        """Whether several students' files may lie in a folder: what is typed in them, or the numbers of what lies directly in it,
        or the names of students of earlier runs. Where all files lie in one folder, or in folders in it, and all have a number,
        it says less than they do, unless it is called after somebody who is known or whose name is typed there.
        """
        numbers, ids, names = set[str](), set[str](), set[str]()
        for at in group:
            below = paths[at][level] if len(paths[at]) > level else name_without_lesson(drafts[at].name, frames)
            number, _ = number_and_name(below) or ("", "")
            numbers.add(normal(number))
            ids.add(normal(drafts[at].setup_id or number or known.id_of_name(name_in(below))))
            names.add("" if drafts[at].setup_id else normal(number or below))
        others = (ids | numbers) - {""}
        if own := normal((number_and_name(folder) or ("", ""))[0]):
            unlike = ("" not in ids and len(ids) > 1) or (alone and own.isdigit() and len(names - {""}) > 1)
            return own not in others and unlike
        name = name_in(folder)
        theirs = name in known.named or name in {name_in(drafts[at].setup_name) for at in group} - {""}
        deeper = all(len(paths[at]) > level for at in group)
        if numbers and "" not in numbers and (alone or deeper) and not theirs:
            return True
        # Names of files tell students apart only where all files lie in one folder.
        return len((ids | names if alone else ids) - {""}) > 1 or len(numbers - {""}) > 1

    divide([*range(len(drafts))], 0)
    return result, around


class Known:
    """What earlier runs say of whose a file is, where no platform named it."""

    def __init__(self, before: Sequence[Submission]) -> None:
        self.ids: set[str] = set()  # everything that somebody was called
        self.named: dict[str, dict[str, Submission]] = defaultdict(dict)  # by what their files or folders were called
        for file in before:
            if file.platform or is_unknown(file) or file.status not in (*GRADED, "superseded"):
                continue
            self.ids |= names_of(file)
            if name := name_of(file):
                self.named[name].setdefault(file.student_id, file)

    def only(self, name: str) -> Submission | None:
        """A file of the only student who was called so."""
        files = self.named.get(name, {})
        return next(iter(files.values())) if len(files) == 1 else None

    def id_of_name(self, name: str) -> str:
        """The id of the only student who was called so, and whose name it is."""
        file = self.only(name)
        return file.student_id if file is not None and name_in(file.student_name) == name else ""


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


def identify(drafts: Sequence[Draft], frames: Frames, before: Sequence[Submission] = ()) -> list[Owner]:
    """The owner of each draft: platform, folder with an id, set-up cell, folder, file name, "unknown-1", … in this order."""
    released = {frame.student_id for languages in frames.values() for frame in languages.values()}
    known = Known(before)
    for draft in drafts:
        if draft.setup_id in released:
            draft.setup_id = ""
        elif normal(draft.setup_id) not in known.ids:
            draft.setup_id, draft.setup_name = typed_id(draft.setup_id, draft.setup_name)
    by_platform = platform_owners(drafts, frames)
    rest = [number for number, owner in enumerate(by_platform) if owner is None]
    folders, divided = student_folders([drafts[number] for number in rest], frames, known)
    folder_of = {rest[number]: folder for number, folder in folders.items()}
    around = {rest[number]: folders for number, folders in divided.items()}
    tags = [
        somebody(name_without_lesson(re.sub(r"\.\w{2,5}$", "", draft.name) if draft.problem else draft.name, frames))
        for draft in drafts
    ]
    ids = ids_of_folders(drafts, folder_of, around, tags, known)
    loose = [number for number in rest if number not in folder_of and not drafts[number].problem]
    had = ids_of_names([(drafts[number], tags[number]) for number in loose], drafts, known)

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
    owners = [replace(owner, around=around.get(number, ())) for number, owner in enumerate(owners)]
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


def ids_of_folders(
    drafts: Sequence[Draft],
    folder_of: dict[int, str],
    around: dict[int, tuple[str, ...]],
    tags: Sequence[str],
    known: Known,
) -> dict[str, str]:
    """For folders whose name is no id ("Bob"): the one id that who was called so had in earlier runs, else the one id that their
    notebooks hold, or all have in their names where none is typed, unless another folder's do too.

    One file in a folder ("email") does not make it that student's: it is called after them, or what lies in it is, and nothing
    in it after anybody else. Where another id is typed in a folder that may be called after a student, it has neither.
    What lies in a folder of several (`around`) counts for nothing outside of it.
    """
    outer: dict[str, tuple[str, ...]] = {}  # what is around each folder, where several are called alike the outermost
    for number, folder in folder_of.items():
        here = around.get(number, ())
        outer[folder] = min(outer.get(folder, here), here, key=len)

    def count(values: Iterable[tuple[str, str]]) -> Callable[[str, str], int]:
        """How often a value is said of folders that lie beside a folder or farther out."""
        found = Counter((outer[folder], value) for folder, value in values)
        return lambda folder, value: sum(found[outer[folder][:n], value] for n in range(len(outer[folder]) + 1))

    typed: dict[str, dict[str, str]] = defaultdict(dict)
    inside: dict[str, list[int]] = defaultdict(list)
    for number, folder in folder_of.items():
        if around.get(number, ()) != outer[folder]:
            continue
        if number_and_name(folder) is None and len(re.findall(r"\d", _YEAR.sub("", somebody(folder)))) < 4:
            id_ = drafts[number].setup_id
            inside[folder].append(number)
            typed[folder].update({normal(id_): id_} if safe_id(id_) else {})
    for folder, group in inside.items():
        numbers = {(number_and_name(tags[at]) or ("", ""))[0] for at in group}
        if not typed[folder] and "" not in numbers:
            typed[folder] = {normal(number): number for number in numbers}
    names = count((folder, name_in(folder)) for folder in typed)
    kept: dict[str, str] = {}
    doubtful = set[str]()
    for folder in typed:
        name = name_in(folder)
        file = known.only(name) if names(folder, name) == 1 else None
        if file is None:
            continue
        theirs = names_of(file)
        numbers = {normal(number) for at in inside[folder] for number in numbers_in(tags[at])}
        people = {known.id_of_name(name_in(tags[at])) for at in inside[folder]} - {""}
        called = name_in(file.student_name) == name
        own = all(
            normal(drafts[at].setup_id) in theirs | {""} or name_in(drafts[at].setup_name) == name
            for at in inside[folder]
        )
        if numbers <= theirs and people <= {file.student_id} and own and (called or numbers or people):
            kept[folder] = id_of(file)
        elif called and not own:
            doubtful.add(folder)
    numbered = [(folder, normal((number_and_name(folder) or (folder, ""))[0])) for folder in outer]
    taken = count([*numbered, *((folder, normal(id_)) for folder, id_ in kept.items())])
    single = {
        folder: next(iter(ids)) for folder, ids in typed.items() if len(ids) == 1 and folder not in {*kept, *doubtful}
    }
    claimed = count(single.items())
    return kept | {
        folder: typed[folder][id_]
        for folder, id_ in single.items()
        if claimed(folder, id_) == 1 and not taken(folder, id_)
    }


def ids_of_names(loose: Sequence[tuple[Draft, str]], drafts: Sequence[Draft], known: Known) -> dict[str, str]:
    """For files that are called after a name: the one id that who was called so had in earlier runs, typed or not, where it was
    not typed then or is not now. An id that somebody else types now, or that is known, is not left for a name's.
    """
    typed = Counter(normal(draft.setup_id) for draft in drafts)
    called: dict[str, list[Draft]] = defaultdict(list)
    for draft, tag in loose:
        if number_and_name(tag) is None:
            called[name_in(tag)].append(draft)
    result = {}
    for name, theirs in called.items():
        file = known.only(name)
        now = Counter(normal(draft.setup_id) for draft in theirs if normal(draft.setup_id))
        if file is None or len(now) > 1 or name_in(file.student_name) != name:
            continue
        had = names_of(file)
        names = {name_in(draft.setup_name) for draft in theirs if draft.setup_id}
        first_typed = not file.notebook_id and not {*now} & known.ids and names <= {"", name}
        if all(typed[id_] == now[id_] for id_ in had) if {*now} <= had else first_typed:
            result[name] = id_of(file)
    return result


Hand = tuple[str, ...]  # the path of what one student handed in


def hand_of(draft: Draft, owner: Owner) -> Hand:
    return draft.file.path[: owner.part + 1]


def in_zip(draft: Draft) -> bool:
    """Whether a file lies in a zip inside the pile."""
    return len(draft.file.dates) > 1


def source_of(draft: Draft) -> str:
    """The path, without what would act on a terminal or turn the direction of the text around it."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", "?", "/".join(draft.file.path))
