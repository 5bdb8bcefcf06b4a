"""Pairs of submissions whose code is the same once names are taken away: something to look at, never a judgement.

The fingerprints are copydetect's (winnowing, as in MOSS): names, comments and strings do not count in them. Short answers
have few right forms, so what several students share is no evidence: only code that few others in the class have counts.
"""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from copydetect import CodeFingerprint

from autograder.exercise import get
from autograder.pipeline.records import Grade, Record

LENGTH = 15  # characters of code without names that make one fingerprint: about one line
SHARED_BY = 3  # code that more students have is nobody's own; in a large class, more than a fortieth
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
    """The pairs of each lesson that an instructor may like to compare, the most alike first."""
    by_lesson: dict[str, list[Record]] = {}
    for record in records:
        if record.lesson is not None and record.grades:
            by_lesson.setdefault(record.lesson, []).append(record)
    pairs = [pair for group in by_lesson.values() for pair in pairs_of_lesson(group)]
    return sorted(pairs, key=lambda pair: (-pair.share, pair.one.student_id, pair.other.student_id))


def pairs_of_lesson(group: Sequence[Record]) -> list[Pair]:
    prints = [{grade.name: fingerprints(grade.answer) for grade in record.grades if is_code(grade)} for record in group]
    holders = Counter(h for one in prints for h in frozenset().union(*one.values()))
    limit = max(SHARED_BY, len(group) // 40)
    rare = [{name: {h for h in own if holders[h] <= limit} for name, own in one.items()} for one in prints]
    all_rare = [set().union(*one.values()) for one in rare]
    pairs = []
    for i, j in combinations(range(len(group)), 2):
        smaller = min(len(all_rare[i]), len(all_rare[j]))
        if smaller < LEAST:
            continue
        share = len(all_rare[i] & all_rare[j]) / smaller
        if share >= ALIKE:
            same = tuple(name for name in rare[i] if rare[i][name] & rare[j].get(name, set()))
            pairs.append(Pair(group[i], group[j], share, same))
    return pairs


def is_code(grade: Grade) -> bool:
    try:
        return grade.status != "not started" and get(grade.name).driver != "letter" and bool(grade.answer.strip())
    except KeyError:  # a written answer
        return False


@lru_cache(maxsize=1 << 14)  # the same class is looked at for the pages and for the screen
def fingerprints(answer: str) -> frozenset[int]:
    return frozenset(int(h) for h in CodeFingerprint("answer.py", LENGTH, 1, fp=io.StringIO(answer)).hashes)
