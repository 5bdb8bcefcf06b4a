"""Submissions whose code is the same once names are taken away: something to look at, never a judgement.

The fingerprints are copydetect's (winnowing, as in MOSS): names, comments and strings do not count in them. Short answers
have few right forms: what stands in the course's own answer, or in those of several students who otherwise wrote
differently, is no evidence. How many copied the same code does not matter: they count as one who wrote it.
"""

import inspect
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

from copydetect import CodeFingerprint

from autograder.exercise import get
from autograder.pipeline.records import Grade, Record

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
LENGTH = 15  # characters of code without names that make one fingerprint: about one line
SHARED_BY = 3  # code that more have written is nobody's own; in a large class, more than a fortieth
LEAST = 40  # fingerprints that only a few have; below it nothing can be said
ALIKE = 0.9


@dataclass(frozen=True)
class Pair:
    """Two records of a lesson. `share`: of the code that few others have, how much both have."""

    one: Record
    other: Record
    share: float
    exercises: tuple[str, ...]


def similar_pairs(records: Sequence[Record]) -> list[Pair]:
    """What an instructor may like to compare in each lesson, the most alike first.

    Who is alike in a group of several is in a pair with one of them, not with each.
    """
    by_lesson: dict[str, list[Record]] = {}
    for record in records:
        if record.lesson is not None and record.grades:
            by_lesson.setdefault(record.lesson, []).append(record)
    pairs = [pair for group in by_lesson.values() for pair in pairs_of_lesson(group)]
    return sorted(pairs, key=lambda pair: (-pair.share, pair.one.student_id, pair.other.student_id))


def pairs_of_lesson(group: Sequence[Record]) -> list[Pair]:
    own = [
        {g.name: fingerprints(g.answer) - the_courses(g.name) for g in record.grades if is_code(g)} for record in group
    ]
    limit = max(SHARED_BY, len(group) // 40)
    holders = Counter(h for code in written_by([frozenset().union(*one.values()) for one in own]) for h in code)
    rare = [{name: {h for h in code if holders[h] <= limit} for name, code in one.items()} for one in own]
    all_rare = [set().union(*one.values()) for one in rare]
    pairs = []
    for i, j in combinations(range(len(group)), 2):
        smaller = min(len(all_rare[i]), len(all_rare[j]))
        if smaller >= LEAST and len(all_rare[i] & all_rare[j]) >= ALIKE * smaller:
            same = tuple(name for name in rare[i] if rare[i][name] & rare[j].get(name, set()))
            pairs.append(Pair(group[i], group[j], len(all_rare[i] & all_rare[j]) / smaller, same))
    return joined(pairs)


def written_by(codes: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The codes of a class, those that are the same (nearly, as a whole) taken for one."""
    found: list[frozenset[int]] = []
    for code in sorted(codes, key=len, reverse=True):
        if not any(len(code & other) >= ALIKE * len(other) for other in found):
            found.append(code)
    return found


def joined(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs, the most alike first, without those whose two are joined by others already: a group of n is n − 1 pairs."""
    group_of: dict[int, int] = {}
    kept = []
    for pair in sorted(pairs, key=lambda pair: -pair.share):
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
    return frozenset(int(h) for h in CodeFingerprint("answer.py", LENGTH, 1, fp=io.StringIO(answer)).hashes)
