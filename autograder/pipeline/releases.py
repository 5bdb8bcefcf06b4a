"""The releases that the course has had, the oldest first, and the exercises and written answers that came with each.

releases.tsv has a line for each: its tag, and what was new in a lesson that was there before, with commas between. What no
line names was there from the first. A student says which release a notebook stems from, so this table alone decides
which releases there are and what came later.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

TABLE = Path(__file__).with_name("releases.tsv")
Releases = dict[str, frozenset[str]]


def load_releases(path: Path = TABLE) -> Releases:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["release"]: frozenset(filter(None, map(str.strip, (row["new"] or "").split(",")))) for row in rows}


def came_later(names: Iterable[str], release: str, releases: Releases) -> tuple[str, ...]:
    """Which of these came after a release; none where the course has had no such release."""
    tags = list(releases)
    if release not in tags:
        return ()
    later = frozenset().union(*(releases[tag] for tag in tags[tags.index(release) + 1 :]))
    return tuple(name for name in names if name in later)
