"""What became of one file of a pile."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nbformat import NotebookNode

from autograder.pipeline.records import Record, by_name

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


def safe_id(raw: str) -> str:
    """A student id that is a folder name everywhere and no pattern for nbgrader: letters, digits, "_", "-", ".", "@"."""
    text = re.sub(r"[^\w.@-]+", "_", unicodedata.normalize("NFKC", raw).strip())
    short = text.lstrip(".-_")[:80].encode("utf-8", "replace")[:150].decode("utf-8", "ignore")
    return short.rstrip("._-")


def names_nobody_known(row: Submission | Record) -> bool:
    """Whether a row is a file that no student has handed in, as far as anybody can tell."""
    return row.status == "unreadable" and OF_NOBODY in row.reason


def is_unknown(file: Submission) -> bool:
    """Whether a file has no id, see `with_numbers`."""
    return re.fullmatch(r"unknown-[0-9]+", file.student_id) is not None


def normal(id_: str) -> str:
    """Ids that differ in the width or case of their letters alone are one."""
    return unicodedata.normalize("NFKC", id_).strip().casefold()


def lesson_counts(files: Iterable[Submission]) -> Counter[str]:
    """How many have handed each lesson in; a zip is one, whatever ids it holds."""
    hands = {
        (file.lesson, file.hand or file.source) for file in files if file.lesson is not None and file.status in GRADED
    }
    return Counter(lesson for lesson, _ in hands)
