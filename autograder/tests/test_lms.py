"""The roster of a class, the files that go back to the learning platform, and the pairs of submissions that are alike."""

import csv
import inspect
import random
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from autograder.exercise import get
from autograder.pipeline import lms, report, roster, similar
from autograder.pipeline.records import Grade, Record
from autograder.pipeline.roster import Roster, RosterError, parse
from autograder.pipeline.submission import OF_NOBODY, Submission
from autograder.text import both

QKV, SCALE = "02_qkv", "03_sqrt_dk"
MOODLE_EN = """Identifier,"Full name","ID number","Email address",Status,Grade,"Maximum Grade","Grade can be changed","Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 100001",王小明,b01,b01@x.tw,"Submitted for grading",,100.00,Yes,"Tuesday, 10 March 2026, 8:00 PM",-,
"Participant 100002","Ann Lee",b02,b02@x.tw,"Submitted for grading",,100.00,Yes,-,-,
"Participant 100003","Eve Wu",b03,b03@x.tw,"No submission",55.00,100.00,Yes,-,-,keep
"""
# As Moodle's Chinese language pack of version 5.0 calls the columns.
MOODLE_ZH = """識別碼,完整名稱,編號,電子郵件信箱,狀態,成績,最高成績,分數可以被更改,最後修改的(作業),最後修改的(得分),評語回饋
參與者100001,王小明,B01,b01@x.tw,已繳交,,10.00,是,-,-,
參與者100002,李安,B02,b02@x.tw,已繳交,,10.00,是,-,-,
"""
MOODLE_OTHER = """Kennung,Name,Status,Bewertung,Bestwertung,Änderbar,Zuletzt geändert (Abgabe),Zuletzt geändert (Bewertung)
Teilnehmer/in100001,Wang,Abgegeben,,"10,00",Ja,-,-
Teilnehmer/in100002,Lee,Abgegeben,"3,50","10,00",Ja,-,-
"""
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Homework 02_qkv (77),Exam (78),Final Score
    Points Possible,,,,,20,100,(read only)
"Wang, Xiaoming",9001,b01,b01@x.tw,A,,50,50
"Lee, Ann",9002,b02,b02@x.tw,A,3,60,60
"Wu, Eve",9003,b03,b03@x.tw,B,4,70,70
"""
PLAIN = "student_id,name\nb01,王小明\nb02,Ann Lee\n"


def table(path: Path) -> list[list[str]]:
    """Spreadsheets want the byte-order mark; in NTU COOL's Canvas it would spoil the first heading."""
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") != path.name.startswith("canvas")
    assert not path.read_bytes().startswith(b'\xef\xbb\xbf"')
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def record(student: str, name: str, points: float, lesson: str = QKV, source: str = "", typed: str = "") -> Record:
    grades = [
        Grade("attend", points, 6, "partial", both("", ""), answer="def attend(q):\n    return q"),
        Grade("02_w1", 0.0, 2, "by hand", both("", "")),
    ]
    made = Record(student, name, lesson, "en", source or f"{student}/{lesson}.ipynb", "graded", "", grades=grades)
    made.notebook_id = typed
    return made


def moodle(number: str, name: str, points: float, lesson: str = QKV, typed: str = "") -> Record:
    made = record(number, name, points, lesson, f"{name}_{number}_assignsubmission_file_/{lesson}.ipynb", typed)
    made.platform = "moodle"
    return made


def canvas(number: str, name: str, points: float, lesson: str = QKV) -> Record:
    made = record(number, name, points, lesson, f"{name}_{number}_55501_{lesson}.ipynb")
    made.platform = "canvas"
    return made


def written(tmp_path: Path, records: Sequence[Record], roster: Roster | None = None) -> Path:
    pages = [f"feedback/{r.student_id}/{r.lesson}.html" for r in records]
    for page in pages:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text(page)
    lms.write_lms(tmp_path, records, pages, roster)
    return tmp_path / "lms"


# ------------------------------------------------------------------------------------------------- roster


@pytest.mark.parametrize(
    ("text", "kind", "first"),
    [
        (MOODLE_EN, "moodle", ("100001", "b01", "王小明")),
        (MOODLE_ZH, "moodle", ("100001", "B01", "王小明")),
        (MOODLE_OTHER, "moodle", ("100001", "100001", "Wang")),
        (CANVAS, "canvas", ("9001", "b01", "Wang, Xiaoming")),
        ("LastName,FirstName,ID,SIS Login ID,Section,HW (1)\nPoints Possible,,,,,5\nLee,Ann,9002,b02,A,1\n", "canvas", ("9002", "b02", "Ann Lee")),
        ("編號,學號,姓名\n1,b01,王小明\n", "plain", ("", "b01", "王小明")),
        ("student_id;name\nb01;Ann\n", "plain", ("", "b01", "Ann")),
        ("First name\tLast name\tID number\nAnn\tLee\tb01\n", "plain", ("", "b01", "Ann Lee")),
        ("Email address,Full name\nb01@x.tw,Ann\n", "plain", ("", "b01@x.tw", "Ann")),
    ],
)  # fmt: skip
def test_rosters_as_platforms_write_them(text: str, kind: str, first: tuple[str, str, str]) -> None:
    for data in (text.encode("utf-8-sig"), text.encode("utf-16"), text.replace("\n", "\r\n").encode()):
        found = parse(data, "roster.csv")
        member = found.members[0]
        assert (found.kind, member.platform_id, member.number, member.name) == (kind, *first)
        assert "Points" not in str([m.name for m in found.members])


def test_a_roster_in_big5(tmp_path: Path) -> None:
    assert parse("學號,姓名\nb01,許功蓋\n".encode("cp950"), "x").members[0].name == "許功蓋"


def test_a_line_that_stands_twice_is_one_student(tmp_path: Path) -> None:
    twice = "學號,姓名,組\nB12901001,王小明,一\nB12901002,陳怡君,一\nｂ12901001,王小明,二\n"
    found = parse(twice.encode(), "class.csv")
    assert [(m.number, m.name) for m in found.members] == [("B12901001", "王小明"), ("B12901002", "陳怡君")]
    (handed_in,) = records = [record("B12901001", "王小明", 5)]
    assert found.strangers(records) == [] and found.numbers(records) == {("B12901001", QKV): "B12901001"}
    assert [missing.student_id for missing in found.missing(records)] == ["B12901002"]
    folder = written(tmp_path, records, found)
    assert [row[0] for row in table(folder / "gradebook.csv")[1:]] == ["B12901001", "B12901002"]
    assert handed_in.points == 5 and float(table(folder / "gradebook.csv")[1][2]) == 5


@pytest.mark.parametrize("second", ["Ann Lee", '"Lee, Ann"', "Lee Ann", "ANN  LEE", ""])
@pytest.mark.parametrize("turned", [False, True])
def test_a_student_who_is_written_in_two_ways_is_one(second: str, turned: bool) -> None:
    lines = ["B01,Ann Lee,A,ann@x.tw", f"b01,{second},B,lee7@y.tw"]
    lines = ["student_id,name,section,email", *lines[:: -1 if turned else 1], "b02,Bob,A,"]
    found = parse("\n".join(lines).encode(), "class.csv")
    ann, bob = found.members
    assert (ann.number.lower(), bob.number, found.unnumbered) == ("b01", "b02", ())
    assert sorted(ann.name.replace(",", "").lower().split()) == ["ann", "lee"]
    assert {found.member_with(id_) for id_ in ("B01", "ann@x.tw", "ann", "lee7")} == {ann}


def test_what_several_have_in_place_of_a_number_is_none() -> None:
    """Auditors and lines of sums; an account without a digit is one student's id."""
    text = "學號,姓名,email\nannw,Ann,\n旁聽,Bob,bob@x.tw\n旁聽,Cat,\n-,Dan,\n-,Eve,\n-,Eve,\nTotal,2,\nTotal,1,\n"
    found = parse(text.encode(), "class.csv")
    assert [(m.number, m.name) for m in found.members] == [("annw", "Ann"), ("bob@x.tw", "Bob")]
    assert found.unnumbered == ("Bob", "Cat", "Dan", "Eve", "2", "1")
    assert found.member_with("旁聽") is None and found.member_with("-") is None
    other = parse(PLAIN.encode(), "other.csv")
    assert roster.joined([found, other]).unnumbered == ("Bob", "Cat", "Dan", "Eve", "2", "1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("學號,姓名\nb01,王小明\nb02,李安\nB01,陳怡君\n", "r.csv has two students with the id B01: 王小明 and 陳怡君; mend the list"),
        ("student_id,name\nb01,\nb01,Ann Lee\nb01,Bob Lee\n", "two students with the id b01: Ann Lee and Bob Lee; mend"),
        ("email,name\na@x.tw,Ann\na@x.tw,Bob\n", "two students with the id a@x.tw: Ann and Bob; mend"),
    ],
)  # fmt: skip
def test_two_students_with_one_id_are_one_line(text: str, words: str) -> None:
    with pytest.raises(RosterError) as refused:
        parse(text.encode(), "r.csv")
    assert words in str(refused.value)


def test_moodle_s_own_numbers_tell_apart_who_shares_an_id_number() -> None:
    both_b01 = MOODLE_EN.replace(",b02,", ",b01,")
    assert [m.platform_id for m in parse(both_b01.encode(), "r.csv").members] == ["100001", "100002", "100003"]


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "no list of a class"), (b"student_id,name\n", "no list of a class"), (b"a,b\n1,2\n", "no column of student ids"),
     (b"student_id,name\n,Ann\n", "names no students")],
)  # fmt: skip
def test_what_is_no_roster_is_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(data)
    with pytest.raises(RosterError, match=words) as problem:
        roster.read_rosters([path])
    assert "\n" not in str(problem.value) and not (tmp_path / roster.FILE).exists()
    with pytest.raises(RosterError, match="No such file"):
        roster.read_rosters([tmp_path / "none.csv"])


MOODLE_SCALE = """Identifier,"Full name","ID number",Status,Grade,"Maximum Grade"
"Participant 200001",王小明,B01,"Submitted for grading",,8.00
"Participant 200002","Ann Lee",b02,"No submission",,8.00
"Participant 200003","Eve Wu",b03,"No submission",,8.00
"""


def test_worksheets_of_two_lessons_are_one_class(tmp_path: Path) -> None:
    """A participant's numbers, one in each assignment, are the same student; who lacks a lesson is told of it alone."""
    found = roster.joined([parse(text.encode(), "x") for text in (MOODLE_EN, MOODLE_SCALE)])
    assert [(m.platform_id, m.number, m.name) for m in found.members] == [
        ("", "b01", "王小明"), ("", "b02", "Ann Lee"), ("", "b03", "Eve Wu"),
    ]  # fmt: skip
    records = [moodle("100001", "王小明", 4), moodle("100002", "Ann Lee", 6), moodle("200001", "王小明", 1, SCALE)]
    assert found.strangers(records) == []
    assert [(r.student_id, r.lesson) for r in found.missing(records)] == [("b02", SCALE), ("b03", QKV), ("b03", SCALE)]
    assert found.numbers(records) == {("100001", QKV): "b01", ("100002", QKV): "b02", ("200001", SCALE): "b01"}
    folder = written(tmp_path, records, found)
    assert table(folder / "gradebook.csv") == [
        ["ID number", "Full name", QKV, SCALE], ["b01", "王小明", "4", "1"], ["b02", "Ann Lee", "6", ""],
        ["b03", "Eve Wu", "", ""],
    ]  # fmt: skip
    assert [row[5] for row in table(folder / f"moodle-{QKV}.csv")] == ["Grade", "50", "75", "55.00"]
    assert [row[4] for row in table(folder / f"moodle-{SCALE}.csv")] == ["Grade", "1", "", ""]
    assert sorted(path.name for path in folder.glob("moodle*.csv")) == [f"moodle-{QKV}.csv", f"moodle-{SCALE}.csv"]


def test_worksheets_of_two_groups_for_one_lesson(tmp_path: Path) -> None:
    one, other = (parse((MOODLE_EN.split("\n", 1)[0] + "\n" + line).encode(), "x") for line in (
        "Participant 100001,王小明,b01,,,,100.00,Yes,,,\nParticipant 100009,Zoe,b09,,,,100.00,Yes,,,\n",
        "Participant 100002,Ann Lee,b02,,,,100.00,Yes,,,\nParticipant 100008,Yo,b08,,,,100.00,Yes,,,\n",
    ))  # fmt: skip
    records = [moodle("100001", "王小明", 4), moodle("100002", "Ann Lee", 6)]
    folder = written(tmp_path, records, roster.joined([one, other]))
    assert [row[5] for row in table(folder / f"moodle-{QKV}.csv")] == ["Grade", "50", ""]
    assert [row[5] for row in table(folder / f"moodle-{QKV}-2.csv")] == ["Grade", "75", ""]


def test_worksheets_come_one_after_the_other_and_other_lists_replace(tmp_path: Path) -> None:
    files = {}
    for name, text in (("qkv", MOODLE_EN), ("scale", MOODLE_SCALE), ("canvas", CANVAS), ("plain", PLAIN)):
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()

    def kept(*names: str) -> list[str]:
        roster.keep_rosters(roster.read_rosters(files[name] for name in names), out)
        return [path.read_text(encoding="utf-8") for path in roster.kept_files(out)]

    assert kept("qkv") == [MOODLE_EN] and kept("scale") == [MOODLE_EN, MOODLE_SCALE]
    assert kept("qkv") == [MOODLE_SCALE, MOODLE_EN], "the same assignment, downloaded anew"
    loaded = roster.load_roster(out)
    assert loaded is not None and [m.number.casefold() for m in loaded.members] == ["b01", "b02", "b03"]
    assert kept() == [MOODLE_SCALE, MOODLE_EN]
    assert kept("canvas") == [CANVAS] and kept("plain") == [PLAIN] and kept("qkv", "scale") == [MOODLE_EN, MOODLE_SCALE]
    assert sorted(path.name for path in out.iterdir()) == ["roster-2.csv", "roster.csv"]


def test_a_waiting_written_answer_leaves_the_grade_as_it_is(tmp_path: Path) -> None:
    """Never zero: it would be a wrong grade. What can be had counts it all the same."""

    def class_of(make: Callable[[str, str, float], Record], numbers: tuple[str, str, str]) -> list[Record]:
        made = [make(number, name, 6) for number, name in zip(numbers, ("王小明", "Ann Lee", "Eve Wu"))]
        for one in made[1:]:
            one.grades[1] = Grade("02_w1", None, 2, "by hand", both("", ""))
        return made

    on_moodle, on_canvas = class_of(moodle, ("100001", "100002", "100003")), class_of(canvas, ("9001", "9002", "9003"))
    assert [lms.unfinished(made) for made in on_moodle] == [False, True, True]
    new = table(written(tmp_path / "a", on_moodle) / f"moodle-{QKV}.csv")
    assert [row[4:6] for row in new[1:]] == [["6", "8"], ["", "8"], ["", "8"]]
    own = table(written(tmp_path / "b", on_moodle, parse(MOODLE_EN.encode(), "x")) / f"moodle-{QKV}.csv")
    assert [row[5] for row in own[1:]] == ["75", "", "55.00"]
    for folder, found in (("a", "100002"), ("b", "b02")):
        rows = {row[0]: row[2] for row in table(tmp_path / folder / "lms/gradebook.csv")}
        assert rows[found] == "" and "6" in rows.values()
    for folder, found, expected in (("c", None, ["8", "6"]), ("d", parse(CANVAS.encode(), "x"), ["20", "15"])):
        rows = table(written(tmp_path / folder, on_canvas, found) / f"canvas-{QKV}.csv")
        assert [row[5] for row in rows[1:]] == expected, "an empty cell would take the grade away"
    waiting = written(tmp_path / "e", on_canvas[1:], parse(CANVAS.encode(), "x"))
    assert [path.name for path in waiting.iterdir()] == ["gradebook.csv"]


def test_who_is_missing_and_who_is_a_stranger() -> None:
    found = parse(MOODLE_EN.encode(), "x")
    by_number, typed = moodle("100001", "王小明", 3), record("hand in", "Lee", 3, typed="B02")
    stranger = record("zoe", "Zoe", 3)
    whose = found.whose([by_number, typed, stranger])
    assert (whose[id(by_number)].number, whose[id(typed)].number, id(stranger) in whose) == ("b01", "b02", False)
    absent = found.missing([by_number, typed, stranger, record("b01", "王小明", 1, SCALE)])
    assert [(r.student_id, r.lesson, r.status) for r in absent] == [
        ("100002", SCALE, "no submission"), ("100003", QKV, "no submission"), ("100003", SCALE, "no submission"),
    ]  # fmt: skip
    assert found.strangers([by_number, typed, stranger]) == [stranger]
    unread = Record("100003", "Eve", None, "", "x.docx", "unreadable", "It is a .docx file, not a notebook.")
    assert found.missing([by_number, typed, unread]) == [], "a file that cannot be read is no missing one"


def test_a_name_that_one_on_the_list_has_and_one_file_is_found() -> None:
    """張美麗 typed no number. Of two of the same name, of two files, and beside another id a name says nothing."""
    text = "student_id,name\nB11901004,張美麗\nb05,林志豪\nb06,林志豪\nb07,Ann Lee\nb08,Eve Wu\nb09,Gus\nb10,Hal Ito\n"
    found = parse(text.encode(), "x")
    rows = {
        "one": record("張美麗", "張美麗", 3), "again": record("張美麗", "張美麗", 3, SCALE), "two on the list": record("林志豪", "林志豪", 3),
        "two files": record("Ann_Lee", "Ann Lee", 3), "of one name": record("Lee_Ann", "Lee, Ann", 3),
        "by id": record("b08", "eve", 3), "and by name": record("Eve_Wu", "Eve Wu", 3),
        "typed other": record("Gus", "Gus", 3, typed="b99"), "other number": record("B11901099", "Hal Ito", 3),
    }  # fmt: skip
    found.find(list(rows.values()))
    assert {key: row.listed for key, row in rows.items() if row.listed} == {"one": "B11901004", "again": "B11901004"}
    assert rows["one"].told == "Matched by name with B11901004 on the list of the class."
    strangers = [key for key, row in rows.items() if row in found.strangers(list(rows.values()))]
    assert strangers == ["two on the list", "two files", "of one name", "and by name", "typed other", "other number"]
    assert "B11901004" not in {row.student_id for row in found.missing(list(rows.values()))}
    assert found.numbers([rows["one"]]) == {("張美麗", QKV): "B11901004"}
    alone = [moodle("100077", "Ann Lee", 3), canvas("9077", "Wu, Eve", 3)]
    found.find(alone)
    assert [row.listed for row in alone] == ["b07", "b08"], "a platform's number is none of the list's"
    of_canvas = parse(CANVAS.encode(), "x")
    of_canvas.find(alone)
    assert [row.listed for row in alone] == ["b02", ""], "Canvas's own list knows all of its numbers"


@pytest.mark.hostile
def test_a_name_that_is_typed_takes_no_folder_s_place() -> None:
    """Two that type one name are nobody, as two folders are."""
    found = parse(b"student_id,name\nb01,Ann Lee\nb02,Eve Wu\n", "x")
    folder, typed = record("Ann_Lee", "Ann Lee", 3), record("zz", "Ann Lee", 3)
    other_lesson, alone = record("zz", "Ann Lee", 3, SCALE), record("Ann_Lee", "Ann Lee", 3)
    for rows, listed in (
        ([folder, typed], ["b01", ""]),
        ([typed, folder], ["", "b01"]),
        ([folder, other_lesson], ["b01", "b01"]),
        ([moodle("100077", "Ann Lee", 3), typed], ["b01", ""]),
        ([typed, record("yy", "Ann Lee", 3)], ["", ""]),
        ([folder, alone], ["b01", "b01"]),
    ):
        found.find(rows)
        assert [row.listed for row in rows] == listed


def test_students_are_called_as_on_the_list_and_canvas_has_no_test_student() -> None:
    text = CANVAS + '"Student, Test",9009,,4f1a,A,,,\n"測試學生",9010,,4f1b,A,,,\n"Student, Test",9011,b77,t,A,,,\n'
    found = parse(text.encode(), "x")
    assert [member.platform_id for member in found.members] == ["9001", "9002", "9003", "9011"]
    rows = [canvas("9001", "wangxiaoming", 4), record("typed", "Ann", 3, typed="b02"), record("zoe", "Zoe", 3)]
    found.find(rows)
    assert [row.student_name for row in rows] == ["Wang, Xiaoming", "Ann", "Zoe"]
    parse(b"student_id\nb01\n9001\n", "x").find(rows)
    assert rows[0].student_name == "Wang, Xiaoming", "a list without names has none to give"


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("Tuesday, 10 March 2026, 8:00 PM", 20),
        ("Tuesday, 10 March 2026, 8:00\u202fPM", 20),
        ("10 March 2026, 12:00:00 AM", 0),
        ("Tuesday, March 10, 2026, 12:00 PM", 12),
        ("10 Mar 2026 20:00", 20),
        ("2026年 03月 10日(二) 20:00", 20),
        ("2026年03月10日 星期二 20:00", 20),
        ("2026年3月10日(週二) 下午 8:00", 20),
        ("2026年3月10日 上午12:00:00", 0),
        ("2026-03-10 20:00", 20),
        ("-", None),
        ("10/03/26, 20:00", None),
        ("mardi 10 mars 2026, 20:00", None),
        ("Tuesday, 31 February 2026, 8:00 PM", None),
        ("2026年3月10日 25:00", None),
    ],
)
def test_dates_as_moodle_writes_them(text: str, hour: int | None) -> None:
    assert roster.moodle_time(text) == (datetime(2026, 3, 10, hour) if hour is not None else None)


@pytest.mark.parametrize(
    "heading",
    [
        "Last modified (submission)", "最後修改的(作業)", "最後修改(繳交)", "最後修改（繳交）", "最后修改（学生）",
        "最后修改 (提交)", "上次修改（作業）",
    ],
)  # fmt: skip
def test_the_worksheet_says_when_it_was_handed_in(heading: str) -> None:
    text = MOODLE_EN.replace("Last modified (submission)", heading).replace("Yes,-,-,\n", "Yes,sometime,-,\n")

    def file(student: str, platform: str = "moodle", status: str = "ok") -> Submission:
        path = f"x_{student}_assignsubmission_file_/a.ipynb"
        made = Submission(student, "x", QKV, "en", "v0", path, datetime(2026, 3, 30), status, "Read as handed in.")
        made.platform = platform
        return made

    files = [file("100001"), file("100002"), file("100003"), file("100001", ""), file("100001", "moodle", "superseded")]
    roster.take_times(files, [parse(text.encode(), "x"), parse(PLAIN.encode(), "x")])
    assert [one.received for one in files] == [datetime(2026, 3, 10, 20), *[datetime(2026, 3, 30)] * 4]
    assert [one.remark for one in files] == [
        roster.FROM_WORKSHEET,
        'The worksheet says "sometime", which is no time that can be read: the file\'s own is taken.',
        *[""] * 3,
    ]


# ------------------------------------------------------------------------------------------------- back to the platform


def test_moodle_gets_a_worksheet_and_a_zip_of_feedback(tmp_path: Path) -> None:
    folder = written(tmp_path, [moodle("100001", "王小明", 4.5, typed="b01"), moodle("100002", "Ann_Lee", 6), moodle("200001", "王小明", 2, SCALE)])  # fmt: skip
    rows = table(folder / f"moodle-{QKV}.csv")
    head = rows[0]
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(head)
    assert [dict(zip(head, row))["Identifier"] for row in rows[1:]] == ["Participant 100001", "Participant 100002"]
    assert [dict(zip(head, row))["Grade"] for row in rows[1:]] == ["4.5", "6"]
    assert dict(zip(head, rows[1]))["ID number"] == "", "what was typed may be anybody's"
    assert dict(zip(head, rows[1]))["Maximum Grade"] == "8"
    with zipfile.ZipFile(folder / f"moodle-{QKV}-feedback.zip") as archive:
        assert archive.namelist() == [
            f"王小明_100001_assignfeedback_file_/{QKV}.html", f"Ann Lee_100002_assignfeedback_file_/{QKV}.html",
        ]  # fmt: skip
        for name in archive.namelist():  # as Moodle takes the folder apart: NAME_NUMBER_TYPE_PLUGIN
            _, number, kind, plugin, *_ = name.split("/")[0].split("_", 4)
            assert number.isdigit() and (kind, plugin) == ("assignfeedback", "file")
        assert archive.read(archive.namelist()[0]).decode() == f"feedback/100001/{QKV}.html"
    assert (folder / f"moodle-{SCALE}.csv").exists() and not list(folder.glob("canvas*"))


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [(MOODLE_EN, 5, ["50", "75"]), (MOODLE_ZH, 5, ["5", "7.5"]), (MOODLE_OTHER, 3, ["5", "7.5"])],
)
def test_moodles_own_worksheet_comes_back_filled_in(
    tmp_path: Path, text: str, column: int, expected: list[str]
) -> None:
    """In any language, on the assignment's scale; nothing else changes."""
    found = parse(text.encode(), "x")
    records = [moodle("100001", "王小明", 4), moodle("100002", "Ann Lee", 6), moodle("200001", "王小明", 1, SCALE)]
    rows = table(written(tmp_path, records, found) / f"moodle-{QKV}.csv")
    assert [row[column] for row in rows[1:3]] == expected
    before = list(csv.reader(text.splitlines()))
    for old, new in zip(before, rows, strict=True):
        assert old[:column] + old[column + 1 :] == new[:column] + new[column + 1 :]
    assert rows[3:] == before[3:]
    assert (tmp_path / "lms" / f"moodle-{SCALE}.csv").exists(), "the other lesson has no worksheet yet: a new one"


def test_canvas_gets_a_gradebook_for_each_lesson(tmp_path: Path) -> None:
    records = [canvas("9001", "wangxiaoming", 4), canvas("9001", "wangxiaoming", 1, SCALE), canvas("9002", "leeann", 6)]
    folder = written(tmp_path, records)
    identity = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert table(folder / f"canvas-{QKV}.csv") == [
        [*identity, QKV], ["    Points Possible", "", "", "", "", "8"],
        ["wangxiaoming", "9001", "", "", "", "4"], ["leeann", "9002", "", "", "", "6"],
    ]  # fmt: skip
    assert table(folder / f"canvas-{SCALE}.csv")[1:] == [
        ["    Points Possible", "", "", "", "", "8"], ["wangxiaoming", "9001", "", "", "", "1"],
    ]  # fmt: skip
    assert not list(folder.glob("moodle*"))


def test_canvas_own_gradebook_comes_back_filled_in(tmp_path: Path) -> None:
    """The assignment whose title names the lesson keeps its heading. Who handed in nothing or is excused is left alone."""
    text = CANVAS + '"Yu, Jo",9004,b04,b04@x.tw,A,EX,,\n'
    records = [
        record("lee", "Ann", 6, typed="b02"), canvas("9001", "wangxiaoming", 4), canvas("9001", "w", 8, SCALE),
        canvas("9004", "yujo", 2),
    ]  # fmt: skip
    folder = written(tmp_path, records, parse(text.encode(), "x"))
    assert table(folder / f"canvas-{QKV}.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Homework 02_qkv (77)"],
        ["    Points Possible", "", "", "", "", "20"],
        ["Wang, Xiaoming", "9001", "b01", "b01@x.tw", "A", "10"],
        ["Lee, Ann", "9002", "b02", "b02@x.tw", "A", "15"],
    ]
    assert table(folder / f"canvas-{SCALE}.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", SCALE],
        ["    Points Possible", "", "", "", "", "8"],
        ["Wang, Xiaoming", "9001", "b01", "b01@x.tw", "A", "8"],
    ]


def test_an_assignment_without_points_gets_them_as_they_are(tmp_path: Path) -> None:
    found = parse(CANVAS.replace(",,,,,20,", ",,,,,0.00,").encode(), "x")
    assert table(written(tmp_path, [canvas("9001", "w", 4)], found) / f"canvas-{QKV}.csv")[2][5] == "4"


def commented(made: Record, *texts: str) -> Record:
    for grade, text in zip(made.grades, texts):
        grade.comment = text
    return made


def test_comments_from_nbgrader_reach_moodle(tmp_path: Path) -> None:
    """Empty cells and those filled by an earlier run; what the instructor wrote in Moodle stays."""
    before = MOODLE_EN.replace('PM",-,\n', 'PM",-,<p>Good!</p>\n')
    first = [
        commented(moodle("100001", "王小明", 4), "", "see me"), commented(moodle("100002", "Ann Lee", 6), "a < b\nx\\", 'say "why"'),
    ]  # fmt: skip
    rows = table(written(tmp_path, first, parse(before.encode(), "x")) / f"moodle-{QKV}.csv")
    assert [row[-1] for row in rows[1:]] == [
        "<p>Good!</p>", "<p><b>attend</b>: a &lt; b<br>x&#92;</p><p><b>02_w1</b>: say &quot;why&quot;</p>", "keep",
    ]  # fmt: skip
    path = tmp_path / "lms" / f"moodle-{QKV}.csv"
    again = parse(path.read_bytes(), "x")
    for second, expected in (
        (commented(moodle("100002", "Ann Lee", 6), "", "better"), "<p><b>02_w1</b>: better</p>"),
        (moodle("100002", "Ann Lee", 6), ""),
    ):
        assert table(written(tmp_path, [second], again) / f"moodle-{QKV}.csv")[2][-1] == expected
    new = table(written(tmp_path, first) / f"moodle-{QKV}.csv")
    assert new[0][-1] == "Feedback comments" and new[1][-1] == "<p><b>02_w1</b>: see me</p>"
    without = table(written(tmp_path, [moodle("100001", "王小明", 4)]) / f"moodle-{QKV}.csv")
    assert "Feedback comments" not in without[0], "an empty cell would take a comment away"


def test_comments_in_a_chinese_worksheet_wait_for_the_points(tmp_path: Path) -> None:
    found = parse(MOODLE_ZH.encode(), "x")
    done, waiting = (commented(moodle(number, "x", 4), "", "好") for number in ("100001", "100002"))
    waiting.grades[1].points = None
    rows = table(written(tmp_path, [done, waiting], found) / f"moodle-{QKV}.csv")
    assert [row[-1] for row in rows[1:]] == ["<p><b>02_w1</b>: 好</p>", ""]


def test_cells_of_several_lines_stay_as_they_are(tmp_path: Path) -> None:
    cells = '"<p>one</p>\r\n<p>two\u2028three</p>"'
    found = parse(MOODLE_EN.replace("keep", cells).encode(), "x")
    rows = table(written(tmp_path, [moodle("100001", "王小明", 4)], found) / f"moodle-{QKV}.csv")
    assert rows[3][-1] == "<p>one</p>\r\n<p>two\u2028three</p>"


def test_a_worksheet_whose_grades_are_not_found_is_no_place_for_them(tmp_path: Path) -> None:
    """With a scale in place of a maximum, in a language not known here: a new worksheet, nothing overwritten."""
    found = parse(MOODLE_OTHER.replace('"10,00"', "gut").encode(), "x")
    assert lms.grade_column(found) is None
    rows = table(written(tmp_path, [moodle("100001", "Wang", 4)], found) / f"moodle-{QKV}.csv")
    assert rows[0][0] == "Identifier" and rows[1][4] == "4"
    one = parse("\n".join(MOODLE_OTHER.splitlines()[:2]).encode(), "x")
    assert lms.grade_column(one) == 3, "in a class of one every column of numbers has one value"


def test_a_gradebook_for_any_platform(tmp_path: Path) -> None:
    """A row for each id that files came with, whatever was typed; with a roster, one a student. Formulas are text."""
    records = [
        moodle("100001", "王小明", 4, typed="b01"), moodle("200001", "王小明", 1, SCALE, typed="b01"),
        record("x9", "=HYPERLINK(1)", 2),
    ]  # fmt: skip
    rows = table(written(tmp_path, records) / "gradebook.csv")
    assert rows == [
        ["ID number", "Full name", QKV, SCALE], ["100001", "王小明", "4", ""], ["x9", "'=HYPERLINK(1)", "2", ""],
        ["200001", "王小明", "", "1"],
    ]  # fmt: skip
    assert not list((tmp_path / "lms").glob("canvas*")), "x9 came from no platform"
    rows = table(written(tmp_path, records, parse(MOODLE_EN.encode(), "x")) / "gradebook.csv")
    assert [row[0] for row in rows] == ["ID number", "b01", "b02", "b03", "x9"]
    assert rows[1] == ["b01", "王小明", "4", "1"], "Moodle numbers a student anew in each assignment"


@pytest.mark.hostile
def test_a_typed_id_takes_nobody_s_points_without_a_roster(tmp_path: Path) -> None:
    victim, eve = record("b01", "王小明", 6, typed="b01"), record("b03", "Eve", 1, typed="b01")
    for records in ([victim, eve], [eve, victim]):
        rows = table(written(tmp_path, records) / "gradebook.csv")
        assert sorted(rows[1:]) == [["b01", "王小明", "6"], ["b03", "Eve", "1"]]


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "file", "column"),
    [(MOODLE_EN, f"moodle-{QKV}.csv", 5), (MOODLE_EN, "gradebook.csv", 2), (CANVAS, f"canvas-{QKV}.csv", 5), (PLAIN, "gradebook.csv", 2)],
)  # fmt: skip
def test_whom_two_claim_to_be_gets_the_points_of_neither(tmp_path: Path, text: str, file: str, column: int) -> None:
    """In whatever order they come; the other lesson, which one claims, is written."""
    found = parse(text.encode(), "x")
    victim, eve = record("b01", "王小明", 6), record("elsewhere", "Eve", 1, typed="B01")
    other = [record("b02", "Ann Lee", 8), record("b01", "王小明", 3, SCALE)]
    for records in ([victim, eve, *other], [eve, *other, victim]):
        rows = {"".join(row[:3]): row for row in table(written(tmp_path, records, found) / file)}
        (of_victim,) = [row for key, row in rows.items() if "b01" in key] or [[""] * 9]
        (of_ann,) = [row for key, row in rows.items() if "b02" in key]
        assert of_victim[column] == "" and float(of_ann[column]) in (8, 20, 100)
        assert not any("Eve" in key and "Wu" not in key and "elsewhere" in key for key in rows)
        if file == "gradebook.csv":
            assert of_victim[column + 1] == "3"
    assert {(m.number, lesson): len(made) for (m, lesson), made in found.claims(records).items()} == {
        ("b01", QKV): 2, ("b02", QKV): 1, ("b01", SCALE): 1,
    }  # fmt: skip


def test_a_lesson_in_which_all_are_claimed_by_two(tmp_path: Path) -> None:
    both_claim = [record("b01", "王小明", 6), record("x", "Eve", 1, typed="b01")]
    assert not list(written(tmp_path, both_claim, parse(CANVAS.encode(), "x")).glob("canvas*"))
    (tmp_path / roster.FILE).write_text(CANVAS)
    files = [Submission(r.student_id, r.student_name, r.lesson, "en", "", r.source, None, "ok", "") for r in both_claim]
    report.write_reports(tmp_path, both_claim, files)
    for language, page in report.CLASS_PAGES.items():
        text = (tmp_path / page).read_text("utf-8")
        assert report.words(language, "look claimed") in text
        for other in ("王小明 (b01)", "Eve (x)"):
            assert report.words(language, "claimed by", name="Wang, Xiaoming", number="b01", others=other) in text


def test_what_is_not_scored_is_not_in_the_scale(tmp_path: Path) -> None:
    made = moodle("100001", "王小明", 3)
    made.grades[1] = Grade("02_w1", None, 2, "not scored", both("", ""))
    rows = table(written(tmp_path, [made], parse(MOODLE_EN.encode(), "x")) / f"moodle-{QKV}.csv")
    assert rows[1][5] == "50"


# ------------------------------------------------------------------------------------------------- in the reports


def test_reports_tell_of_the_roster(tmp_path: Path) -> None:
    made = [moodle("100001", "王小明", 3), record("zoe", "Zoe", 3)]
    made[1].grades[1] = Grade("02_w1", None, 2, "not scored", both("Added later.", "之後才加入。"))
    files = [
        Submission(r.student_id, r.student_name, r.lesson, "en", "v0", r.source, datetime(2026, 3, 2), "ok", "")
        for r in made
    ]
    (tmp_path / roster.FILE).write_text(MOODLE_EN)
    report.write_reports(tmp_path, made, files)
    rows = {row[0]: row for row in table(tmp_path / "grades.csv")}
    assert rows["100003"][6:8] == ["no submission", "Nothing was handed in."] and "100002" in rows
    assert {id_: row[1] for id_, row in rows.items()} == {
        "student_id": "id_number", "100001": "b01", "100002": "b02", "100003": "b03", "zoe": "",
    }  # fmt: skip
    page = (tmp_path / "class.html").read_text("utf-8")
    assert "<bdi>b01</bdi>" in page and "<bdi>b03</bdi>" in page and "<bdi>zoe</bdi>" in page and "100001<" not in page
    assert "王小明</bdi> (<bdi>b01</bdi>)" in (tmp_path / f"feedback/100001/{QKV}.html").read_text("utf-8")
    assert report.words("en", "look missing") in page and report.words("en", "look stranger") in page
    text = (tmp_path / "feedback/zoe" / f"{QKV}.html").read_text("utf-8")
    assert report.words("en", "status not scored") in text and "3 / 6 points" in text
    assert not (tmp_path / "feedback/100003").exists()
    statistics = report.statistics(made)[0]
    assert [e.name for e in statistics.exercises] == ["attend", "02_w1"] and sum(
        statistics.exercises[1].counts.values()
    ) == 1


# ------------------------------------------------------------------------------------------------- who is who

PLAIN_OF_CLASS = "student_id,name\nb01,王小明\nb02,Ann Lee\nb03,Eve Wu\n"
LISTS = {
    "moodle": (MOODLE_EN,),
    "canvas": (CANVAS,),
    "plain": (PLAIN_OF_CLASS,),
    "several": (MOODLE_EN, CANVAS, PLAIN_OF_CLASS),
}
# Who is on the list as b01 and as b02, and a stranger, as each platform names them.
CAME = {
    "moodle": (lambda typed: moodle("100001", "王小明", 6, typed=typed), lambda typed: moodle("100002", "Ann Lee", 3, typed=typed),
               lambda typed: moodle("100009", "Zoe", 1, typed=typed)),
    "canvas": (lambda typed: typed_in(canvas("9001", "Wang, Xiaoming", 6), typed),
               lambda typed: typed_in(canvas("9002", "Lee, Ann", 3), typed), lambda typed: typed_in(canvas("9009", "Zoe", 1), typed)),
    "plain": (lambda typed: record("b01", "王小明", 6, typed=typed), lambda typed: record("b02", "Ann Lee", 3, typed=typed),
              lambda typed: record("zoe", "Zoe", 1, typed=typed)),
}  # fmt: skip


def typed_in(made: Record, typed: str) -> Record:
    made.notebook_id = typed
    return made


def class_of(kind: str) -> Roster:
    return roster.joined([parse(text.encode(), "x") for text in LISTS[kind]])


def points_of(folder: Path, found: Roster, number: str = "b01") -> dict[str, str]:
    """What each file for a platform has for a student of the list."""
    column = {"gradebook.csv": (0, 2), f"moodle-{QKV}.csv": (2, 5), f"canvas-{QKV}.csv": (2, 5)}
    ours = {file.kind for file in found.files}
    result = {}
    for name, (at, points) in column.items():
        if name == "gradebook.csv" or name.split("-")[0] in ours:
            path = folder / name
            rows = table(path) if path.exists() else []
            result[name.split("-")[0]] = next((row[points] for row in rows if row[at] == number), "")
    return result


FULL = {"gradebook.csv": "6", "moodle": "75", "canvas": "15"}


@pytest.mark.hostile
@pytest.mark.parametrize("files", ["moodle", "canvas", "plain"])
@pytest.mark.parametrize("listed", ["moodle", "canvas", "plain", "several"])
@pytest.mark.parametrize("thief", ["a stranger", "one of the class"])
def test_who_types_another_s_id(tmp_path: Path, listed: str, files: str, thief: str) -> None:
    """Where the platform's own list knows the platform's number, it decides, and only who typed the id is flagged.

    Where students alone say who they are, nobody's points go to the platform before the instructor has decided.
    """
    found = class_of(listed)
    ming, ann, zoe = CAME[files]
    victim = ming("b01")
    other = (zoe if thief == "a stranger" else ann)("b01")
    records = [other, victim, (ann if thief == "a stranger" else zoe)("b02" if thief == "a stranger" else "b99")]
    by_number = files != "plain" and listed in (files, "several")
    one_of_two_folders = files == "plain" and thief == "one of the class"  # whose name says another
    claimed = {m.number: rs for (m, _), rs in found.claims(records).items()}
    flagged = report.with_other_id(records, found)
    written_to = points_of(written(tmp_path, records, found), found)
    if by_number or one_of_two_folders:
        assert claimed["b01"] == [victim] and written_to == {name: FULL[name] for name in written_to}
        assert other in flagged and victim not in flagged
        assert (other in found.strangers(records)) == (thief == "a stranger")
    else:
        assert {id(r) for r in claimed["b01"]} == {id(victim), id(other)} and set(written_to.values()) == {""}
        assert not {id(r) for r in found.strangers(records)} & {id(victim), id(other)}


@pytest.mark.hostile
@pytest.mark.parametrize("listed", ["moodle", "several"])
def test_a_stranger_alone_gets_nobody_s_row(tmp_path: Path, listed: str) -> None:
    """王小明 handed in nothing; the worksheet knows the numbers of all others."""
    found = class_of(listed)
    stranger, ann = moodle("100009", "王小明", 1, typed="b01"), moodle("100002", "Ann Lee", 3, typed="b02")
    eve = moodle("100003", "Eve Wu", 3)
    records = [stranger, ann, eve]
    found.find(records)
    assert found.strangers(records) == [stranger] and stranger.listed == "" and ann.student_name == "Ann Lee"
    assert set(points_of(written(tmp_path, records, found), found).values()) == {""}
    assert [row.status for row in found.missing(records)] == ["no submission"]


def test_a_lesson_of_moodle_s_without_its_worksheet_goes_by_what_was_typed(tmp_path: Path) -> None:
    """Also where one has handed it in as the lesson before: then the worksheet of that one knows a single number of many."""
    found = parse(MOODLE_EN.encode(), "x")
    ming, ann = moodle("200001", "王小明", 6, SCALE, typed="b01"), moodle("200002", "Ann Lee", 3, SCALE, typed="b02")
    wrong_place = moodle("100003", "Eve Wu", 3, SCALE, typed="b03")
    for records in ([ming, ann], [ming, ann, wrong_place]):
        assert found.strangers(records) == [] and len(found.claims(records)) == len(records)
    folder = written(tmp_path, [ming, ann], found)
    assert [row[2] for row in table(folder / "gradebook.csv")] == [SCALE, "6", "3", ""]
    assert [row[0] for row in table(folder / f"moodle-{SCALE}.csv")] == [
        "Identifier",
        "Participant 200001",
        "Participant 200002",
    ], "the worksheet of another assignment is none for these grades"


@pytest.mark.hostile
def test_a_platform_s_name_on_one_loose_file_decides_nothing(tmp_path: Path) -> None:
    """In a folder of files a student may call theirs as a platform would, with the number of somebody else."""
    found = class_of("canvas")
    loose = [CAME["plain"][0]("b01"), CAME["plain"][1]("b02"), record("b03", "Eve Wu", 1)]
    records = [*loose, canvas("9001", "Eve", 1)]
    assert {m.number: len(made) for (m, _), made in found.claims(records).items()} == {"b01": 2, "b02": 1, "b03": 1}
    late = [canvas("9001", "Wang", 6), canvas("9002", "Ann", 3), record("x", "Eve", 1, typed="b01")]
    assert found.strangers(late) == [late[2]] and report.with_other_id(late, found) == [late[2]]
    assert points_of(written(tmp_path, late, found), found) == {"gradebook.csv": "6", "canvas": "15"}


def test_the_same_number_on_another_platform_is_somebody_else(tmp_path: Path) -> None:
    """A worksheet of Moodle's says nothing of Canvas's numbers."""
    found = parse(MOODLE_EN.replace("100001", "9001").encode(), "x")
    ann = typed_in(canvas("9001", "Ann Lee", 3), "b02")
    assert [member.number for member in found.whose([ann]).values()] == ["b02"]


@pytest.mark.hostile
def test_the_files_of_a_class_agree_on_whose_it_is(tmp_path: Path) -> None:
    """王小明 came as Canvas calls him; the worksheet alone knows only the one who typed his id. No file believes that one."""
    text = MOODLE_EN.replace("b01@x.tw", "w@y.tw")
    exported = CANVAS.replace("b01@x.tw", "wang.login")
    found = roster.joined([parse(one.encode(), "x") for one in (text, exported)])
    records = [record("wang.login", "王小明", 6), record("elsewhere", "Eve", 1, typed="b01")]
    assert [len(made) for made in found.claims(records).values()] == [2]
    assert set(points_of(written(tmp_path, records, found), found).values()) == {""}


@pytest.mark.parametrize("kind", ["moodle", "canvas"])
def test_another_id_is_told_wherever_the_list_knows_the_student(kind: str) -> None:
    found = class_of(kind)
    ming, ann, _ = CAME[kind]
    for typed in ("B01", "b01@x.tw", "Ｂ０１", " b01"):
        assert report.with_other_id([ming(typed), ann("b02")], found) == [], typed
    copied, mistyped = ming("b03"), ming("b77")
    assert report.with_other_id([copied, ann("b02")], found) == [copied], "another's"
    assert report.with_other_id([copied], found) == [copied], "though it is the only one"
    assert report.with_other_id([mistyped, ann("b02")], found) == [mistyped], "nobody's"
    assert report.with_other_id([ming("b77"), ann("b78"), ann("b02")], found) == [], "the list holds other ids"
    assert report.with_other_id([ming(""), ann("b02")], found) == []
    assert report.with_other_id([copied, ann("b02")]) == [], "without a list nobody knows"


def test_a_file_of_nobody_known_is_no_student(tmp_path: Path) -> None:
    """It keeps its row, and belongs to whom the list knows by that name."""

    def stray(name: str) -> Record:
        reason = f"It is a .docx file, not a notebook; {OF_NOBODY}."
        return Record(name, name, QKV, "", f"{name}.docx", "unreadable", reason)

    note, by_name, by_id = stray("名單說明"), stray("王小明"), stray("b02")
    records = [record("b03", "Eve Wu", 3), note, by_name, by_id]
    assert report.ClassList().students(records) == 1
    found = class_of("plain")
    found.find(records)
    roster_in(tmp_path, PLAIN_OF_CLASS)
    about = report.ClassList.read(tmp_path, records)
    assert about.students(records) == 3 and about.strangers == [] and about.missing == []
    assert (by_name.listed, by_name.reason) == (
        "b01", "It is a .docx file, not a notebook; student taken from the file name.",
    )  # fmt: skip
    assert by_id.reason == by_name.reason and OF_NOBODY in note.reason
    (look,) = report.things_to_look_at([note], [], about)
    text = look.entries[0].messages[0].text
    assert (look.kind, text["en"]) == (
        "unread",
        "It is a .docx file, not a notebook; a file of nobody known. (名單說明.docx)",
    )
    assert "不知道是誰的檔案" in text["zh-TW"]


def test_a_stranger_who_copied_is_alike_with_whose_id_they_typed(tmp_path: Path) -> None:
    """Two that are one student of the list are no pair; who only typed the id is somebody else."""
    victim, ann = moodle("100001", "王小明", 2), moodle("100002", "Ann", 2)
    stranger = moodle("100009", "Zoe", 2, typed="b01")
    for made in (victim, stranger):
        made.grades[0].answer = ODD
    ann.grades[0].answer = OTHER
    about = report.ClassList.read(roster_in(tmp_path, MOODLE_EN), [victim, stranger, ann])
    assert [{p.one.student_id, p.other.student_id} for p in about.alike] == [{"100001", "100009"}]


# ------------------------------------------------------------------------------------------------- alike

ODD = """def attend(q, K, V):
    total = 0.0
    for i in range(K.shape[0]):
        weight = float((q * K[i]).sum().exp())
        total = total + weight
    rows = [V[i] * float((q * K[i]).sum().exp()) / total for i in range(K.shape[0])]
    return sum(rows[1:], rows[0])
"""
RENAMED = """def attend(q, K, V):
    # my own idea
    z = 0.0
    for row in range(K.shape[0]):
        w = float((q * K[row]).sum().exp())   # exp
        z = z + w
    parts = [V[row] * float((q * K[row]).sum().exp()) / z for row in range(K.shape[0])]
    return sum(parts[1:], parts[0])
"""
USUAL = "def attend(q, K, V):\n    weights = torch.softmax(q @ K.T, dim=-1)\n    return weights @ V\n"
OTHER = """def attend(q, K, V):
    scores = torch.einsum("d,md->m", q, K)
    scores = scores - scores.max()
    weights = scores.exp() / scores.exp().sum()
    return torch.einsum("m,mv->v", weights, V)
"""


def with_answer(student: str, answer: str) -> Record:
    made = record(student, student.title(), 2)
    made.grades[0].answer = answer
    return made


def test_the_same_code_after_renaming_is_a_pair_to_look_at() -> None:
    group = [with_answer(f"s{i}", USUAL) for i in range(6)]
    group += [with_answer("ann", ODD), with_answer("bob", RENAMED), with_answer("eve", OTHER)]
    pairs = similar.similar_pairs(group)
    assert [(p.one.student_id, p.other.student_id, p.exercises) for p in pairs] == [("ann", "bob", ("attend",))]
    assert pairs[0].share == 1.0
    looks = {look.kind: look for look in report.things_to_look_at(group, [], report.ClassList(alike=pairs))}
    (entry,) = looks["alike"].entries  # a pair is told once
    assert entry.record is pairs[0].one and entry.messages[0].text["en"] == "Bob (bob): 100% the same"
    assert all(record.points == 2 for record in group), "never punished by itself"


@pytest.mark.parametrize("copies", [2, 3, 4, 5, 12])
def test_a_copy_more_hides_nothing(copies: int) -> None:
    """However many hand in the same code, in a class as small as may be, each of them is named with another one."""
    group = [with_answer("usual", USUAL), with_answer("other", OTHER)]
    group += [with_answer(f"c{i:02}", RENAMED if i % 2 else ODD) for i in range(copies)]
    for whole in (group, group[2:]):
        pairs = similar.similar_pairs(whole)
        assert [(p.one.student_id, p.other.student_id, p.share) for p in pairs] == [
            ("c00", f"c{i:02}", 1.0) for i in range(1, copies)
        ]
    (entry,) = next(e for e in report.things_to_look_at(group, [], report.ClassList(alike=pairs))).entries
    assert len(entry.messages) == copies - 1


def test_a_group_is_told_by_the_pairs_that_share_most() -> None:
    a, b, c, d, e = (record(name, name, 2) for name in "abcde")
    pairs = [similar.Pair(a, b, 0.92, (), 92), similar.Pair(a, c, 0.9, (), 300), similar.Pair(b, c, 0.95, (), 95)]
    pairs += [similar.Pair(d, e, 0.9, (), 90), similar.Pair(c, d, 0.91, (), 91), similar.Pair(a, e, 1.0, (), 50)]
    kept = [(p.one.student_id, p.other.student_id) for p in similar.joined(pairs)]
    assert kept == [("a", "c"), ("b", "c"), ("c", "d"), ("d", "e")]


def a_lesson(student: str, **answers: str) -> Record:
    made = with_answer(student, "")
    made.grades = [Grade(name, 2, 2, "full", both("", ""), answer=answer) for name, answer in answers.items()]
    return made


def own_code(seed: int, lines: int = 5) -> str:
    """Code that is nobody else's."""
    draw = random.Random(seed)
    body = [
        f"    x{k} = q {draw.choice('+-*/')} {draw.randint(1, 10**6)} {draw.choice('+-*/')} K" for k in range(lines)
    ]
    return "\n".join(["def f(q, K):", *body, "    return x0", ""])


ENTROPY = """def entropy(p):
    parts = [-(row * torch.log2(row)).sum() for row in p]
    return torch.stack(parts, dim=0).reshape(-1) / len(parts)
"""


def test_a_copied_lesson_comes_before_three_lines_that_are_the_same() -> None:
    """Two have four of five exercises letter for letter from one; what they share besides hides nothing."""
    four, fifth = ("relevance", "attend", "attention_matrix", "self_attention"), "permutation_gap"
    source = {name: own_code(k) for k, name in enumerate(four)}
    group = [
        a_lesson(f"other{i}", **{name: own_code(1000 + 10 * i + k) for k, name in enumerate((*four, fifth))})
        for i in range(5)
    ]
    short = [a_lesson(name, **{fifth: ENTROPY}) for name in ("short1", "short2")]
    ming = a_lesson("ming", **source, **{fifth: own_code(90)})
    copies = [a_lesson(name, **source, **{fifth: own_code(91 + k)}) for k, name in enumerate(("li", "huang"))]
    pairs = similar.similar_pairs([*short, *group, *copies, ming])
    assert [(p.one.student_id, p.other.student_id, p.share, p.exercises) for p in pairs] == [
        ("huang", "ming", 1.0, four), ("li", "huang", 1.0, four), ("short1", "short2", 1.0, (fifth,)),
    ]  # fmt: skip
    assert pairs[0].shared == pairs[1].shared > 4 * similar.LEAST > pairs[2].shared >= similar.LEAST
    more = [a_lesson(f"copy{k}", **source, **{fifth: own_code(200 + k)}) for k in range(6)]
    assert len(similar.similar_pairs([*group, *copies, ming, *more])) == 8, (
        "copies of most of a lesson hide one another no more"
    )


def test_three_lines_of_a_lesson_that_is_one_s_own_are_no_pair() -> None:
    group = [a_lesson(s, attend=ENTROPY, relevance=own_code(k)) for k, s in enumerate(("ann", "bob"))]
    assert similar.similar_pairs(group) == []


def test_what_is_called_of_a_library_counts_and_own_names_do_not() -> None:
    renamed = ENTROPY.replace("parts", "z").replace("row", "r").replace("entropy", "my_own_function")
    assert similar.fingerprints(renamed) == similar.fingerprints(ENTROPY)
    of_math = "from math import log as log2\n" + ENTROPY.replace("torch.log2(row)", "log2(row)")
    assert similar.fingerprints(of_math) != similar.fingerprints(of_math.replace("log as", "log10 as"))
    assert similar.fingerprints(of_math) == similar.fingerprints(of_math.replace("log2", "ld"))
    own = "class A:\n    def f(self):\n        self.sum = self.sum + 1 + 2 + 3\n"
    assert similar.fingerprints(own) == similar.fingerprints(own.replace("self.sum", "self.total"))
    wrong = ENTROPY.replace("log2", "log")
    long = "".join(f"    y = p.exp() * {k} - p * {k}\n" for k in range(20))
    for more, expected in (("", []), (long, [0.95])):
        group = [
            with_answer("ann", ENTROPY.replace("):\n", "):\n" + more)),
            with_answer("bob", wrong.replace("):\n", "):\n" + more)),
        ]
        pairs = similar.similar_pairs(group)
        assert [round(p.share, 2) for p in pairs] == expected, pairs


def test_one_called_name_is_never_all_the_same_though_the_course_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the right one, `log` is the course's and taken away; all that is left of it stands in the wrong one too."""
    right, rest = ENTROPY.replace("log2", "log"), own_code(7, lines=20)
    monkeypatch.setattr(similar, "the_courses", lambda name: similar.fingerprints(right))
    (pair,) = similar.similar_pairs([with_answer("ann", ENTROPY + rest), with_answer("bob", right + rest)])
    assert pair.share == 0.99
    (pair,) = similar.similar_pairs([with_answer("ann", right + rest), with_answer("bob", right + rest)])
    assert pair.share == 1.0


def test_nearly_all_is_not_all() -> None:
    """Who differs in one sign of a long answer has not the same: 99.7% is no 100%."""
    code = own_code(1, lines=300)
    pairs = similar.similar_pairs([with_answer("ann", code), with_answer("bob", code + "    z = 1\n")])
    assert [p.share for p in pairs] == [1.0], "all that the one has is in the other's"
    pairs = similar.similar_pairs([with_answer("ann", code + "    z = q\n"), with_answer("bob", code + "    z = 1\n")])
    assert [p.share for p in pairs] == [0.99]


def test_the_list_of_the_class_names_who_is_alike(tmp_path: Path) -> None:
    """Moodle's number says nothing to an instructor."""
    made = [moodle("100001", "王小明", 2), moodle("100002", "Ann Lee", 2)]
    for one in made:
        one.grades[0].answer = ODD
    about = report.ClassList.read(roster_in(tmp_path, MOODLE_EN), made)
    (look,) = [look for look in report.things_to_look_at(made, [], about) if look.kind == "alike"]
    assert look.entries[0].messages[0].text["en"] == "Ann Lee (b02): 100% the same"


def roster_in(folder: Path, text: str) -> Path:
    (folder / roster.FILE).write_text(text, encoding="utf-8")
    return folder


def test_what_the_course_itself_answers_is_no_pair() -> None:
    """Lesson 08's longest answer is far above the least that counts: as the solution has it, and as the reference has it."""
    source = (similar.SOLUTIONS / "08_transformer.py").read_text("utf-8")
    cell = source.split('# %% exercise="greedy_decode"\n')[1].split("# %%")[0]
    for answer in (cell, inspect.getsource(get("greedy_decode").reference)):
        group = [with_answer(f"s{i}", answer) for i in range(3)]
        assert len(similar.fingerprints(answer)) > 2 * similar.LEAST
        assert len(similar.similar_pairs(group)) == 2, "as an answer to another exercise it is somebody's own"
        for made in group:
            made.grades[0].name = "greedy_decode"
        assert similar.similar_pairs(group) == []


def test_what_several_wrote_who_wrote_differently_is_no_pair() -> None:
    signs = ["+", "-", "*", "/"]
    own = [
        "    x = " + " ".join(f"{one} {k} {other} q" for k in range(30)) + "\n"
        for one, other in zip(signs, reversed(signs))
    ]
    group = [with_answer(f"s{i}", ODD + extra) for i, extra in enumerate(own)]
    assert similar.similar_pairs(group) == []
    whole = [with_answer("ann", ODD), with_answer("bob", ODD)]
    assert len(similar.similar_pairs([*group[:2], *whole])) == 3, (
        "three wrote it: the two, who count as one, and two more"
    )
    assert similar.similar_pairs([*group[:3], *whole]) == [], "four wrote it, so nothing is left of the two"


def test_the_guide_states_the_thresholds() -> None:
    guide = (similar.SOLUTIONS.parent / "docs" / "en" / "instructor.md").read_text("utf-8").replace("\n", " ")
    assert (similar.SHARED_BY, similar.LEAST, similar.LENGTH, similar.ALIKE) == (3, 40, 15, 0.9)
    assert "more than three in the class wrote (in classes of 160 and more: a fortieth)" in guide
    assert "at least 40 pieces of 15 characters" in guide and "nine tenths of what is left" in guide


def test_what_is_short_is_no_pair() -> None:
    assert similar.similar_pairs([with_answer("ann", USUAL), with_answer("bob", USUAL)]) == []
    assert similar.similar_pairs([with_answer("ann", "def attend(:"), with_answer("bob", "\0\ud800" * 40)]) == []
    letters = [with_answer("ann", ODD), with_answer("bob", ODD)]
    for made in letters:
        made.grades[0].name = "02_q1"
    assert similar.similar_pairs(letters) == [], "a letter is no code"


@pytest.mark.hostile
@pytest.mark.parametrize("gap", ["\n ", " ", "\n", "\t\n"])
def test_gaps_in_an_answer_cost_no_time_and_change_nothing(gap: str) -> None:
    """Runs of white space would take the reader of the code the square of their length."""
    begin = time.process_time()
    assert similar.fingerprints(ENTROPY + gap * 20_000) == similar.fingerprints(ENTROPY)
    assert time.process_time() - begin < 5
    assert similar.fingerprints(ENTROPY.replace("\n", " \n\n")) == similar.fingerprints(ENTROPY)


@pytest.mark.hostile
def test_of_an_answer_without_end_the_beginning_is_looked_at() -> None:
    begin = time.process_time()
    many = "".join(f"x{i} = y + {i} * z({i})\n" for i in range(100_000))
    assert len(similar.fingerprints(ENTROPY + many)) < similar.LONGEST
    assert time.process_time() - begin < 5
