"""The course's glossary as a check on Traditional Chinese text.

``glossary.tsv`` says in its first row how it must be read: the forms in the column ``avoid_zh`` are refused wherever
they occur, after the words listed behind ``EXCEPT:`` at the start of the same row's note are blanked out; and every Han
character that Big5 cannot encode is refused, because nearly all simplified letters are among them.
"""

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

GLOSSARY = Path(__file__).with_name("glossary.tsv")

HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
FULL_WIDTH = {",": "，", ".": "。", ":": "：", ";": "；", "?": "？", "!": "！"}
# Stands for code and formulas: no Chinese character, so that no word can arise across the gap.
BLANK = "\ufffc"

_NOT_PROSE = re.compile(
    r"""
      ^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)  # fenced code block
    | (?P<ticks>(?<!`)`+(?!`)).+?(?<!`)(?P=ticks)(?!`)                              # code span
    | \$\$.+?\$\$                                                                   # displayed formula
    | \\begin\{(?P<environment>[a-z]+\*?)\}.*?\\end\{(?P=environment)\}
    | (?<!\\)\$(?!\s)(?:[^$\n]|\n(?!\s*\n))+?(?<![\s\\])\$                          # formula in the line
    | (?<=\])\([^()\s]+\)                                                           # target of a link or picture
    | https?://[^\s<>()（）」，。]+
    | <!--.*?-->
    | </?[A-Za-z][^<>]*>
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_HAN = re.compile(f"[{HAN}]")
# The marks of emphasis may stand between the words and the punctuation.
_HALF_WIDTH = re.compile(rf"(?<=[{HAN}」』）])[*_]*([,.:;?!])(?=[*_ \t]*(?:[{HAN}「『（{BLANK}\n]|\Z))")


class Finding(NamedTuple):
    """One thing that is wrong in a text: where (an offset), what, and what to write instead."""

    offset: int
    what: str
    remedy: str


@dataclass(frozen=True)
class Term:
    """A row of the glossary."""

    english: str
    chinese: str
    avoid: tuple[str, ...]
    exceptions: tuple[str, ...]

    def occurrences(self, text: str) -> list[tuple[int, str]]:
        """Offsets and forms that this row refuses in ``text``."""
        for word in self.exceptions:
            text = text.replace(word, BLANK * len(word))
        return [(match.start(), form) for form in self.avoid for match in re.finditer(re.escape(form), text)]


def read_terms(path: Path = GLOSSARY) -> tuple[Term, ...]:
    """The rows of a glossary file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(
        Term(
            row["english"],
            row["zh_TW"],
            _forms(row["avoid_zh"]),
            _exceptions(row["note"] or ""),
        )
        for row in rows
    )


def _forms(field: str | None) -> tuple[str, ...]:
    return tuple(form.strip() for form in (field or "").split(";") if form.strip())


def _exceptions(note: str) -> tuple[str, ...]:
    # The words make up the note's first sentence.
    return _forms(note.removeprefix("EXCEPT:").split(".")[0]) if note.startswith("EXCEPT:") else ()


@cache
def terms() -> tuple[Term, ...]:
    """The rows of the course's glossary."""
    return read_terms()


def prose(markdown: str) -> str:
    """``markdown`` with code, formulas, addresses and HTML blanked out; every offset and line stays where it was."""
    return _NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", BLANK, match.group()), markdown)


def findings(text: str) -> list[Finding]:
    """What the glossary and the rules of Taiwan's punctuation refuse in plain text, in order of place."""
    found = []
    for term in terms():
        for offset, form in term.occurrences(text):
            letter = len(form) == 1  # the row of simplified letters has no single word to write instead
            remedy = "write the letter used in Taiwan" if letter else f"write {term.chinese} ({term.english})"
            found.append(Finding(offset, f"the glossary refuses {form}", remedy))
    for match in _HAN.finditer(text):
        try:
            match.group().encode("big5")
        except UnicodeEncodeError:
            what = f"{match.group()} is not a Traditional Chinese letter (Big5 cannot encode it)"
            found.append(Finding(match.start(), what, "write the letter used in Taiwan"))
    for match in _HALF_WIDTH.finditer(text):
        mark = match.group(1)
        what = f"half-width {mark!r} after a Chinese letter"
        found.append(Finding(match.start(1), what, f"write {FULL_WIDTH[mark]}"))
    return sorted(found)
