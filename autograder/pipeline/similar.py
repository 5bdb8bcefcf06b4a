"""Submissions whose code is the same once names are taken away: something to look at, never a judgement.

The fingerprints are copydetect's (winnowing, as in MOSS): the students' names, comments and strings do not count in them,
what is called of torch and math does. Short answers have few right forms: what stands in the course's own answer, or in those
of several students who otherwise wrote differently, is no evidence. How many copied the same code does not matter: they count
as one who wrote it. Who copies most of the exercises and writes the others is alike in those; the most code comes first.
"""

import inspect
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import torch
from copydetect import CodeFingerprint

from autograder.exercise import get
from autograder.pipeline.records import Grade, Record

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
LENGTH = 15  # characters of code without names that make one fingerprint: about one line
SHARED_BY = 3  # code that more have written is nobody's own; in a large class, more than a fortieth
LEAST = 40  # fingerprints that only a few have; below it nothing can be said
ALIKE = 0.9  # of an exercise
MOST = 0.5  # of all that is left to one of two: a few lines of a lesson come out the same by chance
LONGEST = 20_000  # characters of an answer that are looked at; the longest right one has 3000
ONE_HAND = 0.7  # of a whole lesson: who shares so much counts as one who wrote it
LIBRARIES = (torch, torch.Tensor, torch.nn, torch.nn.functional, torch.linalg, torch.special, math)
# What is the libraries' own, each name as a letter that copydetect takes for none of Python's: so it counts, and a long name
# counts no more than a short one.
LETTERS = {
    name: chr(0xF0000 + number)
    for number, name in enumerate(sorted({name for library in LIBRARIES for name in dir(library)}))
}


@dataclass(frozen=True)
class Pair:
    """Two records of a lesson.

    Attributes:
        share: of the code that few others have, in these exercises, how much both have; 1.0 only where nothing else of one
            is missing from the other either.
        exercises: in which the two are alike.
        shared: how many fingerprints that is.
    """

    one: Record
    other: Record
    share: float
    exercises: tuple[str, ...]
    shared: int = 0


def similar_pairs(records: Sequence[Record]) -> list[Pair]:
    """What an instructor may like to compare in each lesson: who shares the most first, a whole lesson before three lines.

    Who is alike in a group of several is in a pair with one of them, not with each.
    """
    by_lesson: dict[str, list[Record]] = {}
    for record in records:
        if record.lesson is not None and record.grades:
            by_lesson.setdefault(record.lesson, []).append(record)
    pairs = [pair for group in by_lesson.values() for pair in pairs_of_lesson(group)]
    return sorted(pairs, key=most_first)


def most_first(pair: Pair) -> tuple[int, float, str, str]:
    return -pair.shared, -pair.share, pair.one.student_id, pair.other.student_id


def pairs_of_lesson(group: Sequence[Record]) -> list[Pair]:
    whole = [{g.name: fingerprints(g.answer) for g in record.grades if is_code(g)} for record in group]
    own = [{name: code - the_courses(name) for name, code in one.items()} for one in whole]
    limit = max(SHARED_BY, len(group) // 40)
    holders = Counter(h for code in written_by([frozenset().union(*one.values()) for one in own]) for h in code)
    rare = [{name: {h for h in code if holders[h] <= limit} for name, code in one.items()} for one in own]
    all_rare = [set().union(*one.values()) for one in rare]
    pairs = []
    for i, j in combinations(range(len(group)), 2):
        if len(all_rare[i] & all_rare[j]) < LEAST:  # most pairs: nothing more to look at
            continue
        alike = {name: rare[i][name] & rare[j][name] for name in rare[i] if is_alike(rare[i][name], rare[j].get(name))}
        shared = len(set().union(*alike.values()))
        if shared >= LEAST and shared >= MOST * min(len(all_rare[i]), len(all_rare[j])):
            smaller = min(len(set().union(*(one[name] for name in alike))) for one in (rare[i], rare[j]))
            share = math.floor(100 * shared / smaller) / 100
            # What is right may be the course's, and what is wrong stand in its place: that is not all the same.
            if not all(whole[i][name] <= whole[j][name] or whole[j][name] <= whole[i][name] for name in alike):
                share = min(share, 0.99)
            pairs.append(Pair(group[i], group[j], share, tuple(alike), shared))
    return joined(pairs)


def is_alike(one: set[int], other: set[int] | None) -> bool:
    """Whether nearly all that is left of the shorter of two answers is in the other one."""
    shared = len(one & other) if other else 0
    return shared > 0 and other is not None and shared >= ALIKE * min(len(one), len(other))


def written_by(codes: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The codes of a class, those that are the same (mostly, as a whole) taken for one."""
    found: list[frozenset[int]] = []
    for code in sorted(codes, key=len, reverse=True):
        if not any(len(code & other) >= ONE_HAND * len(other) for other in found):
            found.append(code)
    return found


def joined(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs, the most code first, without those whose two are joined by others already: a group of n is n − 1 pairs."""
    group_of: dict[int, int] = {}
    kept = []
    for pair in sorted(pairs, key=most_first):
        one, other = id(pair.one), id(pair.other)
        a, b = group_of.setdefault(one, one), group_of.setdefault(other, other)
        if a != b:
            kept.append(pair)
            group_of.update({record: a for record, group in group_of.items() if group == b})
    return kept


def is_code(grade: Grade) -> bool:
    try:
        return grade.status != "not started" and get(grade.name).driver != "letter" and bool(grade.answer.strip())
    except KeyError:  # a written answer
        return False


@lru_cache
def the_courses(name: str) -> frozenset[int]:
    """What the course itself answers: the reference that answers are compared with, and the solution of the lesson."""
    exercise = get(name)
    lesson = SOLUTIONS / f"{exercise.lesson}.py"
    cell = rf'^# %% exercise="{name}"\n(.*?)(?=^# %%|\Z)'
    text = lesson.read_text(encoding="utf-8") if lesson.exists() else ""
    solution = re.search(cell, text, re.DOTALL | re.MULTILINE)
    return fingerprints(inspect.getsource(exercise.reference)) | fingerprints(solution[1] if solution else "")


@lru_cache(maxsize=1 << 14)  # the same class is looked at for the pages and for the screen
def fingerprints(answer: str) -> frozenset[int]:
    code = CodeFingerprint("answer.py", LENGTH, 1, fp=io.StringIO(with_letters(without_gaps(answer)[:LONGEST])))
    return frozenset(int(h) for h in code.hashes)


def without_gaps(answer: str) -> str:
    """The code with one space or line break for each run of them: they do not count, and long ones would take minutes."""
    return re.sub(r"\s+", lambda gap: "\n" if "\n" in gap[0] else " ", answer)


def with_letters(answer: str) -> str:
    """The code with a letter for each name of a library: `x.log2()`, `torch.log2(x)`, and `log2(x)` where it is imported."""
    imported: dict[str, str] = {}
    for names in re.findall(r"^[ \t]*from (?:torch|math)\b[\w.]* import ([^#\n]+)", answer, re.MULTILINE):
        for name, other in re.findall(r"(\w+)(?: as (\w+))?", names):
            imported[other or name] = LETTERS.get(name, name)
    answer = re.sub(r"(?<![\w.])\w+", lambda found: imported.get(found[0], found[0]), answer) if imported else answer
    return re.sub(r"(?<!\bself)\.(\w+)", lambda found: "." + LETTERS.get(found[1], found[1]), answer)
