"""Who gets an id that several claim, and what it is called: nobody takes another's place by a name of their own choice."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from autograder.pipeline.owners import (
    BOTH,
    FOLDER,
    PLATFORM,
    SEVERAL,
    TYPED,
    Known,
    Owner,
    name_of,
    names_of,
    number_and_name,
    numbers_in,
)
from autograder.pipeline.pile import folder_name, name_in, name_without_lesson
from autograder.pipeline.submission import GRADED, Submission, is_unknown, lesson_counts, normal, safe_id


def same_name(one: str, other: str) -> bool:
    """Whether two claimants may be one: "ann" and "ann lee". What has a number in it, or is a path, is another's unless equal."""
    words = [set() if re.search(r"[\d/.]", who) else {*who.split()} for who in (one, other)]
    return one == other or (all(words) and (words[0] <= words[1] or words[1] <= words[0]))


def by_id_alone(one: Submission, other: Submission) -> bool:
    """Whether nothing but the id (or the path, where there is none) says that two files are one student's: neither a platform
    nor a name, or another's name stands in the path as well.
    """
    names = name_of(one), name_of(other)
    same = same_name(one.claimant, other.claimant) or (all(names) and same_name(*names))
    return is_unknown(one) or not one.claimant or not same or lie_apart(one, other)


def lie_apart(one: Submission, other: Submission) -> bool:
    """Whether parts of two paths are called after two people: one file lies in another's folder, or both in a folder that may be
    of several.
    """
    if one.platform:
        return False
    if numbers_in(normal(one.source)) - numbers_in(normal(other.source)) - names_of(one):
        return True
    own = is_typed_again(one, other) or number_and_name(one.claimant) is not None  # whose folder it is
    return any(not same_name(*names) for names in zip(names_along(one, own), names_along(other, own)))


def is_typed_again(one: Submission, other: Submission) -> bool:
    return normal(one.notebook_id) == normal(other.notebook_id) != ""


def names_along(file: Submission, own: bool) -> list[str]:
    """What the parts of a file's path are called beside the id; not what lies in its student's `own` folder, who chose its name."""
    found = []
    for part in file.source.split("/"):
        text = normal(name_without_lesson(folder_name(part), filter(None, [file.lesson])))
        ids = {id_ for id_ in names_of(file) if id_ in text}
        for id_ in ids:
            text = text.replace(id_, " ")
        found.append(name_in(text))
        if own and (ids or same_name(found[-1], file.claimant)):
            break
    return [name for name in found if name]


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
        group = with_folders(group, held)
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
    tell_changes(rows, before)


def tell_changes(rows: Sequence[Submission], before: Sequence[Submission]) -> None:
    """Tell of who has the id of somebody else's earlier files, and of who has another id than in earlier runs; in each run anew,
    so a file does not count for itself.
    """
    again = {(row.source, row.lesson, row.student_id) for row in rows}
    earlier = [file for file in before if (file.source, file.lesson, file.student_id) not in again]
    named = Known(earlier).named
    by_student: dict[str, list[Submission]] = defaultdict(list)
    for file in earlier:
        if file.status in (*GRADED, "superseded"):
            by_student[file.student_id].append(file)
    for row in rows:
        if row.notebook is None or row.platform or is_unknown(row) or not row.claimant:
            continue
        known = by_student[row.student_id]
        theirs = [file for file in known if file.claimant]
        ids = named.get(name_of(row), {})  # of all who were called so
        if theirs and all(by_id_alone(row, file) and not has_moved(row, file) for file in theirs):
            row.tell(f"The id alone says that it is the same student's as {theirs[0].source}.")
        elif len(ids) == 1 and row.student_id not in ids and not any(is_typed_again(row, file) for file in known):
            row.tell(f"What was called so had the id {min(ids)} before.")


def has_moved(row: Submission, file: Submission) -> bool:
    """Whether a file of an earlier run is the same student's in another folder ("late/", another section): both are called alike,
    and the same id is typed, or the innermost name is the same; or with the id the whole path is, or has the id in it as well.
    """
    alike = same_name(row.claimant, file.claimant)
    here, there = names_along(row, own=False), names_along(file, own=False)
    if not is_typed_again(row, file):
        return alike and here[-1:] == there[-1:] != []
    numbered = all(normal(row.notebook_id) in normal(one.source) for one in (row, file))
    return alike or here == there or (numbered and not (name_of(row) and name_of(file)))


def with_folders(
    group: Sequence[tuple[Submission, Owner]], held: Sequence[Submission]
) -> list[tuple[Submission, Owner]]:
    """What comes out of a folder of several may be all of one hand: an id in it that is claimed from outside of it as well, now or
    in an earlier run, is another claimant's, whatever the file is called.
    """
    inside = Counter(folder for _, owner in group for folder in owner.around)
    again = {row.source for row, _ in group}
    had = [file for file in held if file.source not in again]
    result = []
    for row, owner in group:
        folders = () if owner.rank == SEVERAL else owner.around
        for folder in folders:
            last = folder.rpartition("/")[2]
            if inside[folder] < len(group) or not all(was_in(file, last) for file in had):
                place = "_".join(filter(None, (last, owner.other)))
                owner = replace(owner, who=f"{folder}/{owner.who}", rank=SEVERAL, other=place)
                row.claimant = owner.who
                break
        result.append((row, owner))
    return result


def was_in(file: Submission, folder: str) -> bool:
    """Whether a file of an earlier run lay in a folder that was called so, with a lesson's name beside it or without."""
    words = re.compile(rf"(?<![^\W_]){re.escape(folder)}(?![^\W_])")
    return bool(folder) and any(words.search(normal(part)) for part in file.source.split("/")[:-1])


def has_had(owner: Owner, files: Sequence[Submission]) -> bool:
    """Whether somebody is called as who had the id in other lessons, all of whose files have a name."""
    folder, _, name = owner.who.rpartition("/")
    last = folder.rpartition("/")[2]
    return all(file.claimant for file in files) and any(
        same_name(owner.who, file.claimant)
        or (was_in(file, last) and same_name(name, file.claimant.rpartition("/")[2]))
        for file in files
    )


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
        if id_ in file.claimant
        and "/" not in file.claimant
        and normal(file.notebook_id) == id_
        and in_folder(file, id_)
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
    Of a folder with several students' files only what lies where it did: who else puts a file there has the ids of others to type.
    """
    if owner.rank == SEVERAL and not any(has_moved(row, file) for file in held):
        return False
    nameless = "" in {file.claimant for file in held}
    typed_again = normal(row.notebook_id) == normal(owner.raw_id) in {normal(file.notebook_id) for file in held}
    return typed_again and nameless if late else typed_again or (owner.rank == FOLDER and not nameless)
