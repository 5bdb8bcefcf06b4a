"""The files for the platforms, read by the rules of the platforms' own importers.

Neither Moodle nor Canvas runs here. What each importer demands was read in its source, which every function names, and is
written down as a small reader of its own. The versions stand in the instructor's guide ("Back to the platform").
"""

import csv
import html
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.pipeline import lms
from autograder.pipeline.records import Record
from autograder.pipeline.roster import parse
from autograder.tests.test_lms import CANVAS, MOODLE_EN, MOODLE_ZH, QKV, canvas, commented, moodle, record, written


class Refused(Exception):
    """The importer takes nothing from the file."""


# ------------------------------------------------------------------------------------------------- Moodle


def fields_of(text: str) -> list[list[str]]:
    """PHP's fgetcsv(enclosure '"', escape '\\'): after a backslash a quotation mark ends no field, and both stay in it."""
    rows: list[list[str]] = [[]]
    field, quoted, i = "", False, 0
    while i < len(text):
        char = text[i]
        if quoted and char == "\\" and i + 1 < len(text):
            field += text[i : i + 2]
            i += 1
        elif char == '"' and quoted and text[i + 1 : i + 2] == '"':
            field += '"'
            i += 1
        elif char == '"' and (quoted or not field.strip()):
            field, quoted = field if quoted else "", not quoted
        elif char in ",\n" and not quoted:
            rows[-1].append(field)
            field = ""
            if char == "\n":
                rows.append([])
        else:
            field += char
        i += 1
    rows[-1].append(field)
    return rows


def moodle_csv(data: bytes) -> list[list[str]]:
    """lib/csvlib.class.php, csv_import_reader: UTF-8, its mark passed over, any line ends, one width for all rows."""
    text = data.decode().removeprefix("\ufeff")
    rows = fields_of(re.sub(r"\r\n?", "\n", text).strip(" \t\n\r\0\x0b"))
    if any(len(row) != len(rows[0]) for row in rows):
        raise Refused("csvweirdcolumns")
    # The reader keeps what it has read in a file of its own, with a quotation mark before what may be a formula.
    return [["'" + value if value[:1] in tuple("=+-@\t\r\n") else value for value in row] for row in rows]


@dataclass
class Kept:
    """What Moodle has of a student: when the grade was last changed, the grade (-1: none) and the comment."""

    changed: datetime
    grade: float
    comment: str = ""


ENGLISH = ("Identifier", "Participant ", "Grade", "Last modified (grade)", "Feedback comments")
CHINESE = ("識別碼", "參與者", "成績", "最後修改的(得分)", "評語回饋")


def seconds_of(text: str) -> float:
    """PHP's strtotime for the dates that occur; what it cannot read is false, which counts as 0."""
    for form in ("%A, %d %B %Y, %I:%M %p", "%Y-%m-%d %H:%M"):
        try:
            return datetime.strptime(text, form).timestamp()
        except ValueError:
            continue
    return 0.0


def moodle_worksheet(
    data: bytes,
    participants: Iterable[int],
    kept: dict[int, Kept] | None = None,
    language: Sequence[str] = ENGLISH,
    maximum: float = 100,
    tick: bool = False,
) -> tuple[dict[int, float], dict[int, str]]:
    """The grades and the comments that an upload changes.

    mod/assign/feedback/offline: importgradeslib.php (columns, identifier), locallib.php (process_import_grades: what is
    skipped; an empty comment is a change), feedback/comments/locallib.php (comments are kept as HTML).
    """
    rows = moodle_csv(data)
    identifier, prefix, *names = language
    column = {heading: i for i, heading in enumerate(rows[0])}
    if not {identifier, *names[:2]} <= set(column):
        raise Refused("invalidgradeimport")
    grades, comments = {}, {}
    for row in rows[1:]:
        number = row[column[identifier]][len(prefix) :]
        if not number.isdigit() or int(number) not in set(participants):
            continue
        student, old = int(number), (kept or {}).get(int(number))
        stale = old is not None and old.changed.timestamp() > seconds_of(row[column[names[1]]]) + 60 and not tick
        text = row[column[names[0]]].replace(" ", "")  # unformat_float
        if text and not stale and (old is None or old.grade != float(text)) and 0 <= float(text) <= maximum:
            grades[student] = float(text)
        if names[2] in column and not stale and row[column[names[2]]] != (old.comment if old else ""):
            comments[student] = row[column[names[2]]]
    return grades, comments


def moodle_zip(path: Path, participants: Iterable[int]) -> dict[int, str]:
    """mod/assign/feedback/file/importziplib.php, is_valid_filename_for_import: which file goes to whom, under what name."""
    found = {}
    for name in zipfile.ZipFile(path).namelist():
        parts = f"/import/{name}".split("/")
        if parts[-1].startswith((".", "~")):
            continue
        while parts:
            info = parts.pop(0).split("_", 4)
            known = len(info) >= 4 and info[1].isdigit() and int(info[1]) in set(participants)
            if known and info[2:4] == ["assignfeedback", "file"]:
                found[int(info[1])] = "/".join([*info[4:], *parts]).lstrip("/")
                break
    return found


def moodle_gradebook(data: bytes, id_numbers: Iterable[str], maximum: float) -> dict[str, list[float | None]]:
    """grade/import/csv/classes/load_data.php, mapped by "ID number": an id that is not known or a grade that is too high
    stops the whole import, an empty cell is "no grade".
    """
    found: dict[str, list[float | None]] = {}
    for number, _, *values in moodle_csv(data)[1:]:
        if number not in set(id_numbers):
            raise Refused(f"usermappingerror {number}")
        found[number] = [float(value) if value.strip() not in ("", "-") else None for value in values]
        if any(value is not None and value > maximum for value in found[number]):
            raise Refused("gradevaluetoobig")
    return found


def test_moodle_takes_the_english_worksheet(tmp_path: Path) -> None:
    before = MOODLE_EN.replace('PM",-,\n', 'PM","Monday, 9 March 2026, 8:00 PM",<p>Good!</p>\n')
    kept = {100001: Kept(datetime(2026, 3, 9, 20, 0, 30), 10, "<p>Good!</p>")}
    made = [
        commented(moodle("100001", "王小明", 4), "", "no"),
        commented(moodle("100002", "Ann Lee", 0), "", "See me."),
    ]
    path = written(tmp_path, made, parse(before.encode(), "x")) / f"moodle-{QKV}.csv"
    grades, comments = moodle_worksheet(path.read_bytes(), (100001, 100002), kept)
    assert grades == {100001: 50, 100002: 0} and comments == {100002: "<p><b>02_w1</b>: See me.</p>"}


def test_moodle_takes_the_chinese_worksheet_once_it_has_graded(tmp_path: Path) -> None:
    """Its own dates it cannot read: as downloaded, the row of whoever has a grade would be skipped."""
    text = MOODLE_ZH.replace("-,-,", "2026年 3月 8日(日) 09:05,2026年 3月 9日(一) 20:00,")
    kept = {100001: Kept(datetime(2026, 3, 9, 20, 0, 30), 1)}
    by_hand = text.replace(",已繳交,,", ",已繳交,5,").encode()
    assert 100001 not in moodle_worksheet(by_hand, (100001, 100002), kept, CHINESE)[0]
    made = [commented(moodle("100001", "王小明", 4), "", "好"), moodle("100002", "李安", 8)]
    data = (written(tmp_path, made, parse(text.encode(), "x")) / f"moodle-{QKV}.csv").read_bytes()
    assert moodle_worksheet(data, (100001, 100002), kept, CHINESE, maximum=10) == (
        {100001: 5, 100002: 10}, {100001: "<p><b>02_w1</b>: 好</p>"},
    )  # fmt: skip
    kept[100001].changed = datetime(2026, 3, 9, 21)  # somebody has graded since the download
    assert 100001 not in moodle_worksheet(data, (100001, 100002), kept, CHINESE, maximum=10)[0]


def test_moodle_takes_a_new_worksheet_and_keeps_its_comments(tmp_path: Path) -> None:
    made = [moodle("100001", "王, \\", 4), moodle("100002", '=A1 "x', 6)]
    made[1].grades[1].points = None  # waits
    data = (written(tmp_path, made) / f"moodle-{QKV}.csv").read_bytes()
    assert moodle_worksheet(data, (100001, 100002)) == ({100001: 4}, {})
    kept = {100001: Kept(datetime(2026, 3, 9), 1, "<p>mine</p>"), 100002: Kept(datetime(2026, 3, 9), 2, "<p>mine</p>")}
    assert moodle_worksheet(data, (100001, 100002), kept) == ({}, {}), "without a date it never overwrites"
    assert moodle_worksheet(data, (100001, 100002), kept, tick=True) == ({100001: 4}, {})
    with pytest.raises(Refused):
        moodle_worksheet(data, (100001,), language=CHINESE)


def test_moodle_wants_all_rows_of_one_width(tmp_path: Path) -> None:
    short = MOODLE_EN.replace(',Yes,"Tuesday, 10 March 2026, 8:00 PM",-,', "")
    with pytest.raises(Refused):
        moodle_csv(short.encode())
    data = (
        written(tmp_path, [moodle("100001", "王小明", 4)], parse(short.encode(), "x")) / f"moodle-{QKV}.csv"
    ).read_bytes()
    assert moodle_worksheet(data, (100001,))[0] == {100001: 50}


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.text(alphabet='\\"<>&\n,=', max_size=12))
def test_any_comment_comes_through_moodles_reader(one: str, other: str) -> None:
    made = commented(moodle("100001", "x", 4), one.strip(), other)
    file = io.StringIO()
    csv.writer(file).writerows(
        [["Identifier", "Feedback comments", "z"], ["Participant 100001", lms.comments(made), "z"]]
    )
    cell = moodle_csv(file.getvalue().encode())[1][1]
    assert cell == lms.comments(made) and (not cell or lms.OURS.fullmatch(cell))
    shown = re.findall(r"<p><b>\w+</b>: (.*?)</p>", cell)
    assert [html.unescape(text.replace("<br>", "\n")) for text in shown] == [
        "\n".join(text.splitlines()) for text in (one.strip(), other) if text
    ]


def test_moodle_finds_whom_feedback_is_for(tmp_path: Path) -> None:
    made = [moodle("100001", "王_小明", 4), moodle("000102", "a_7_b/..", 6), moodle("100003", "", 1)]
    path = written(tmp_path, made) / f"moodle-{QKV}-feedback.zip"
    assert moodle_zip(path, (100001, 102, 100003, 7)) == dict.fromkeys((100001, 102, 100003), f"{QKV}.html")


def test_moodles_gradebook_wants_only_ids_that_it_knows(tmp_path: Path) -> None:
    found = parse(MOODLE_EN.encode(), "x")
    data = (written(tmp_path, [moodle("100001", "王小明", 4)], found) / "gradebook.csv").read_bytes()
    assert moodle_gradebook(data, ("b01", "b02", "b03"), 8) == {"b01": [4], "b02": [None], "b03": [None]}
    data = (
        written(tmp_path, [moodle("100001", "王小明", 4), record("x9", "Zoe", 2)], found) / "gradebook.csv"
    ).read_bytes()
    with pytest.raises(Refused, match="x9"):
        moodle_gradebook(data, ("b01", "b02", "b03"), 8)


# ------------------------------------------------------------------------------------------------- Canvas


def canvas_import(
    data: bytes, assignments: dict[int, str], now: dict[tuple[int, int], str], big5: bool = False
) -> dict[tuple[int, str], dict[int, str]]:
    """The grades that an import posts: of each assignment (its number, 0 for a new one, and title), by student.

    lib/gradebook_importer.rb (heading, student columns, title_and_id, decimal_comma_to_period), then
    ui/features/gradebook_uploads/jquery/process_gradebook_upload.js (whatever differs is posted, an empty cell too).
    `big5`: NTU COOL's Canvas reads a file as Big5, and as UTF-8 where that fails.
    """
    try:
        text = data.decode("big5" if big5 else "utf-8")
    except UnicodeDecodeError:
        text = data.decode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    separated = head[:2] == ["LastName", "FirstName"]
    if not (separated or ("Student" in head[0] and "ID" in head[1])):
        raise Refused("Invalid header row")
    first = columns = 4 if separated else 3
    if re.search(r"SIS\s+Login\s+ID", head[first - 1]):
        columns += 1
    elif re.search(r"SIS\s+User\s+ID", head[first - 1]) and re.search(r"SIS\s+Login\s+ID", head[first]):
        columns += 2 + ("Integration ID" in head[first + 1])
        columns += "Root Account" in head[columns - 1]
    if "Section" not in head[columns - 1]:
        raise Refused("Invalid header row")
    posted: dict[tuple[int, str], dict[int, str]] = {}
    for i, heading in list(enumerate(head))[columns:]:
        named = re.fullmatch(r"(.*)\s\((\d+)\)", heading)
        number = int(named[2]) if named and int(named[2]) in assignments else 0
        number = number or next((id_ for id_, title in assignments.items() if title == heading), 0)
        for row in rows:
            if "Points Possible" in row[0] or not "".join(row).strip(", "):
                continue
            student = int(row[first - 2])
            value = row[i].strip()
            if re.fullmatch(r"-?[0-9.,]+%?", value):
                *whole, last = re.split("[,.]", value)
                value = f"{''.join(whole)}.{last}" if whole else last
            if value != now.get((student, number), ""):
                posted.setdefault((number, heading), {})[student] = value
    return posted


CLASS = {(9001, 77): "", (9002, 77): "3.0", (9003, 77): "4.0"}
TITLES = {77: "Homework 02_qkv", 78: "Exam"}


def canvas_class() -> list[Record]:
    made = [canvas("9001", "wangxiaoming", 4), canvas("9002", "leeann", 6), canvas("9003", "wueve", 1)]
    made[2].grades[1].points = None  # waits
    return made


@pytest.mark.parametrize("big5", [False, True])
@pytest.mark.parametrize("name", ["Wang, Xiaoming", "王小明"])
def test_canvas_takes_its_own_gradebook(tmp_path: Path, big5: bool, name: str) -> None:
    """What has been entered in Canvas since the export, where it was empty or another number, is not undone."""
    found = parse(CANVAS.replace("Wang, Xiaoming", name).encode(), "x")
    data = (written(tmp_path, canvas_class(), found) / f"canvas-{QKV}.csv").read_bytes()
    now = {**CLASS, (9003, 77): "5.5"}
    assert canvas_import(data, TITLES, now, big5) == {(77, "Homework 02_qkv (77)"): {9001: "10", 9002: "15"}}


def test_ntu_cool_refuses_a_byte_order_mark_in_a_class_of_latin_names(tmp_path: Path) -> None:
    """The mark and the "S" behind it are two characters of Big5, so that no column is called Student."""
    data = (written(tmp_path, canvas_class(), parse(CANVAS.encode(), "x")) / f"canvas-{QKV}.csv").read_bytes()
    assert canvas_import(data, TITLES, CLASS, big5=True)
    with pytest.raises(Refused):
        canvas_import(b"\xef\xbb\xbf" + data, TITLES, CLASS, big5=True)


@pytest.mark.parametrize(
    "identity",
    [
        "Student,ID,Section", "Student,ID,SIS Login ID,Section", "Student,ID,SIS User ID,SIS Login ID,Section",
        "Student,ID,SIS User ID,SIS Login ID,Integration ID,Root Account,Section", "LastName,FirstName,ID,SIS Login ID,Section",
    ],
)  # fmt: skip
def test_canvas_takes_every_set_of_columns_that_it_exports(tmp_path: Path, identity: str) -> None:
    """lib/gradebook_exporter.rb: columns that depend on the school, and an unwanted row for grades that are hidden."""
    blank = "," * identity.count(",")
    text = f"{identity},Notes,Homework 02_qkv (77)\n{blank},,Manual Posting\n    Points Possible{blank},,20.00\n"
    student = ["Lee", "Ann", "9002"] if identity.startswith("Last") else ["Ann Lee", "9002"]
    text += ",".join([*student, *"sssss"[: identity.count(",") + 1 - len(student)], "note", "3.00"])
    found = parse(text.encode(), "x")
    assert found.kind == "canvas" and found.members[0].name == "Ann Lee"
    data = (written(tmp_path, [canvas("9002", "leeann", 6)], found) / f"canvas-{QKV}.csv").read_bytes()
    assert canvas_import(data, TITLES, CLASS) == {(77, "Homework 02_qkv (77)"): {9002: "15"}}


@pytest.mark.parametrize("big5", [False, True])
def test_canvas_takes_a_new_gradebook(tmp_path: Path, big5: bool) -> None:
    """Which assignment a column is Canvas asks, unless one is called like the lesson. Nobody's grade is taken away."""
    data = (written(tmp_path, canvas_class()) / f"canvas-{QKV}.csv").read_bytes()
    expected = {9001: "4", 9002: "6"}
    assert canvas_import(data, TITLES, CLASS, big5) == {(0, QKV): expected}
    assert canvas_import(data, {77: QKV}, CLASS, big5) == {(77, QKV): expected}
