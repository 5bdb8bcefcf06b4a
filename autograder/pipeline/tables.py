"""Tables as spreadsheets and learning platforms read them."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path


def write_table(
    path: Path,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    as_it_came: bool = False,
    mark: bool = True,
    quoted: bool = True,
) -> None:
    """Write a CSV file.

    Args:
        as_it_came: the cells are a platform's own and must come back to it unchanged, whatever they begin with.
        mark: begin with a byte-order mark. It tells Excel that the file is UTF-8, and Moodle passes over it; NTU COOL,
            which tries Big5 first, does not.
        quoted: every cell below the heading in quotes, and without tabs: a spreadsheet set to semicolons or tabs would begin
            another cell there, and that one may be a formula. False: as platforms write their own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8-sig" if mark else "utf-8", errors="replace", newline="") as file:
        csv.writer(file).writerow(head)  # our own words, unquoted: Moodle does not find a quote behind the mark
        writer = csv.writer(file, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
        for row in rows:
            cells = row if as_it_came else [neutral(value) for value in row]
            writer.writerow([cell.replace("\t", " ") for cell in cells] if quoted else cells)


def neutral(value: str) -> str:
    """Text that no spreadsheet takes for a formula, full-width signs included."""
    return "'" + value if value.lstrip()[:1] in tuple("=+-@＝＋－＠|") or value[:1] in ("\t", "\r") else value


def plain(points: float | None) -> str:
    return "" if points is None else f"{round(points, 2):g}"
