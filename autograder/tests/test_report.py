"""Tables, feedback pages and class pages from records made by hand."""

import ast
import csv
import json
import re
from datetime import datetime
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from markupsafe import escape

from autograder.exercise import get
from autograder.pipeline import collect, drafts, pile, rebuild, report, roster
from autograder.pipeline.bookkeeping import FOR_ANOTHER, ByHand
from autograder.pipeline.glossary import findings
from autograder.pipeline.records import Change, Grade, Line, Listed, Record
from autograder.pipeline.report import ReportError, page_paths, read_back, write_reports
from autograder.pipeline.sandbox import STOPS, Limits, stop_text
from autograder.pipeline.similar import Pair
from autograder.pipeline.submission import Submission
from autograder.pipeline.tables import write_table
from autograder.text import LANGUAGES, both

LESSON = "02_qkv"
SCALE = both("You divide by d_k instead of its square root.", "你除以了 d_k，而不是它的平方根。")
EVIL = '<script>alert("x")</script>\u202e\x00'


def lines(*passed: bool) -> list[Line]:
    off = both(
        "weights[0, 1] is off by 0.2; 60% of its entries are right.", "weights[0, 1] 差 0.2；有 60% 的數是對的。"
    )
    return [Line(both(f"case {i}", f"情況 {i}"), ok, None if ok else off) for i, ok in enumerate(passed, start=1)]


def grades(attend: Grade, written: float | None = None) -> list[Grade]:
    waiting = both("Graded by your instructor.", "由授課教師評分。")
    return [attend, Grade("02_w1", written, 2, "by hand", waiting, answer="Because **rows** add up to 1.")]


def attend(
    status: str, points: float, mistake: str | None = None, answer: str = "def attend(q):\n    return q"
) -> Grade:
    message = SCALE if mistake else both("All cases pass.", "所有情況都通過。")
    return Grade("attend", points, 3, status, message, mistake, lines(points > 0, points == 3), answer, "printed text")


def record(student: str, name: str, language: str = "en", *graded: Grade, **more: str) -> Record:
    fields = {"status": "graded", "reason": "Read as handed in.", "received": "2026-03-02 10:00", **more}
    return Record(student, name, LESSON, language, f"{student}.ipynb", **fields, grades=list(graded))


def submission(record: Record, status: str = "ok") -> Submission:
    return Submission(
        record.student_id, record.student_name, record.lesson, record.language, "v0.1.0", record.source,
        datetime(2026, 3, 2, 10), record.status if status == "ok" and not record.grades else status, record.reason,
    )  # fmt: skip


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    for language, title in (("en", "# 02 · Q/K/V: `take` a question"), ("zh-TW", "# 02 · Q/K/V：拿問題")):
        path = tmp_path / "lessons" / language / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": [title + "\n", "text"]}]}), "utf-8")
    return tmp_path / "lessons"


@pytest.fixture
def a_class(tmp_path: Path, lessons: Path) -> Path:
    """Six rows and a superseded file, written to disk."""
    records = [
        record("s1", "Ada", "en", *grades(attend("full", 3), written=1.5)),
        record("s2", "王小明", "zh-TW", *grades(attend("none", 0, "scale"))),
        record("s3", EVIL, "en", *grades(attend("partial", 1.25, "scale", EVIL)), reason="Check cells edited, the released ones used: attend."),
        record("s4", "=HYPERLINK(1)", "en", *grades(Grade("attend", 0, 3, "not started", both("Not started.", "尚未作答。")))),
        record("s5", "Eve", "en", *grades(Grade("attend", 0, 3, "not allowed", both("Not allowed: sdpa (line 2).", "不能使用 sdpa。")))),
        Record("s6", "Fay", None, "", "fay.docx", "unreadable", "It is a .docx file, not a notebook.", "2026-03-02 10:00"),
    ]  # fmt: skip
    records[0].notebook_id = "S-1"
    records[2].notes = [both(f"A cell of your own (no. 1) stopped: {EVIL}", f"你自己加的第 1 個儲存格停了下來：{EVIL}")]
    files = [submission(r, "repaired" if r.student_id == "s3" else "ok") for r in records]
    old = submission(records[0], "superseded")
    old.source, old.reason = "s1-old.ipynb", "The same student's s1.ipynb is graded instead."
    out = tmp_path / "out"
    for r in records:
        if r.grades:
            r.save(out / "records" / r.student_id / f"{LESSON}.json")
    write_reports(out, records, [*files, old], lessons)
    return out


def table(path: Path) -> list[list[str]]:
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def test_grades_have_a_row_each(a_class: Path) -> None:
    rows = table(a_class / "grades.csv")
    assert rows[0] == [
        "student_id", "student_name", "notebook_id", "lesson", "language", "status", "reason", "received", "points",
        "max_points", "waiting", "late_points_off", "hours_late", "attend", "02_w1", "file",
    ]  # fmt: skip
    assert rows[1] == [
        "s1", "Ada", "S-1", LESSON, "en", "graded", "Read as handed in.", "2026-03-02 10:00", "4.5", "5", "", "", "",
        "3", "1.5", "s1.ipynb",
    ]  # fmt: skip
    assert rows[2][8:15] == ["0", "5", "2", "", "", "0", ""]  # the written answer waits
    assert {row[9] for row in rows[1:6]} == {"5"}, "what can be had is the same for all"
    assert rows[4][1] == "'=HYPERLINK(1)"
    assert rows[6] == [
        "s6", "Fay", "", "", "", "unreadable", "It is a .docx file, not a notebook.", "2026-03-02 10:00",
        "", "", "", "", "", "", "", "fay.docx",
    ]  # fmt: skip
    assert len(rows) == 7


def test_files_tell_of_superseded_ones(a_class: Path) -> None:
    rows = table(a_class / "files.csv")
    assert rows[0] == ["file", "student_id", "student_name", "lesson", "status", "reason"]
    assert rows[-1] == [
        "s1-old.ipynb",
        "s1",
        "Ada",
        LESSON,
        "superseded",
        "The same student's s1.ipynb is graded instead.",
    ]
    assert len(rows) == 8


@pytest.mark.hostile
def test_no_cell_of_a_table_begins_within_another(tmp_path: Path) -> None:
    """Not for a spreadsheet that splits at semicolons or tabs either."""
    names = ["x;=cmd|' /C calc'!A0", "x\t=1+1", 'x"\t=1;"=2', "x\r\n=3"]
    write_table(tmp_path / "own.csv", ["name", "points"], [[name, "1"] for name in names])
    for delimiter in ",;\t":
        with open(tmp_path / "own.csv", encoding="utf-8-sig", newline="") as file:
            cells = [cell for row in csv.reader(file, delimiter=delimiter) for cell in row]
        assert not [cell for cell in cells if cell.lstrip("\"',").startswith("=")], (delimiter, cells)
    assert table(tmp_path / "own.csv")[1:] == [[name.replace("\t", " "), "1"] for name in names]


def test_a_loss_is_a_number_in_quotes(tmp_path: Path) -> None:
    write_table(tmp_path / "own.csv", ["gain"], [["-1.5"]], as_it_came=True)
    assert (tmp_path / "own.csv").read_text("utf-8-sig").split() == ["gain", '"-1.5"']
    write_table(tmp_path / "platform.csv", ["gain"], [["-1.5"]], as_it_came=True, quoted=False)
    assert (tmp_path / "platform.csv").read_text("utf-8-sig").split() == ["gain", "-1.5"]


@pytest.mark.hostile
@pytest.mark.parametrize("value", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1", "|calc"])
def test_no_formula_reaches_a_spreadsheet(value: str) -> None:
    assert report.neutral(value).startswith("'")


def test_harmless_text_stays_as_it_is() -> None:
    assert [report.neutral(v) for v in ("a=1", "王小明", "", "02_qkv")] == ["a=1", "王小明", "", "02_qkv"]


def pages(out: Path) -> list[Path]:
    return sorted(out.rglob("*.html"))


class Outline(HTMLParser):
    """What a page is made of: headings, languages, addresses, tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href", "action", "data")]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))


def test_every_submission_and_file_has_a_page(a_class: Path) -> None:
    expected = {f"feedback/s{i}/{LESSON}.html" for i in range(1, 6)} | {"feedback/s6/file.html"}
    assert {p.relative_to(a_class).as_posix() for p in pages(a_class)} == expected | {"class.html", "class.zh-TW.html"}


def test_pages_are_sound_and_need_nothing_from_outside(a_class: Path) -> None:
    for path in pages(a_class):
        text = path.read_bytes().decode("utf-8")  # strict: no half of a surrogate pair
        page = Outline(text)
        assert "\0" not in text
        assert not {"script", "iframe", "link", "img", "object", "form"} & set(page.tags), path
        assert "url(" not in text and "@import" not in text
        for address in page.addresses:
            assert not re.match(r"[a-z]+:|//", address), address
            target = path.parent / address.partition("#")[0]
            assert target.exists(), address
        assert page.headings[0] == 1 and page.headings.count(1) == 1
        assert all(deeper - level <= 1 for level, deeper in pairwise(page.headings)), page.headings
        html = next(attributes for tag, attributes in page.attributes if tag == "html")
        assert html["lang"] in LANGUAGES
        assert all(attributes.get("scope") for tag, attributes in page.attributes if tag == "th")
        ids = [attributes["id"] for _, attributes in page.attributes if "id" in attributes]
        assert len(ids) == len(set(ids))


@pytest.mark.hostile
def test_what_a_student_wrote_is_text(a_class: Path) -> None:
    text = (a_class / f"feedback/s3/{LESSON}.html").read_text("utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;") >= 3  # name, answer, note
    assert "Check cells edited, the released ones used: attend." in text


def test_half_characters_break_nothing(tmp_path: Path, lessons: Path) -> None:
    broken = record("s1", "A\ud800", "en", attend("partial", 1, answer="'\udfff'"), reason="\ud800")
    write_reports(tmp_path, [broken], [submission(broken)], lessons)
    for path in tmp_path.iterdir():
        assert path.is_dir() or path.read_bytes().decode("utf-8")


def test_feedback_says_what_was_wrong_in_its_language(a_class: Path) -> None:
    english = (a_class / f"feedback/s3/{LESSON}.html").read_text("utf-8")
    assert "02 · Q/K/V: take a question" in english and SCALE["en"] in english
    assert "1.25 / 3 points" in english and "1 of 2 cases passed" in english and "partial credit" in english
    assert "weights[0, 1] is off by 0.2" in english
    assert "1.25 / 5 points" in english and ", 2 of the 5 wait for your instructor" in english
    assert "The cases of an exercise do not all count the same" in english
    chinese = (a_class / f"feedback/s2/{LESSON}.html").read_text("utf-8")
    assert "02 · Q/K/V：拿問題" in chinese and SCALE["zh-TW"] in chinese and "情況 1" in chinese
    assert "0 / 5 分" in chinese and "，5 分中有 2 分等待授課教師評分" in chinese
    assert "同一題的各種情況占分不同" in chinese
    assert SCALE["en"] not in chinese and "Status" not in chinese


def test_a_stub_is_not_shown_as_an_answer(a_class: Path) -> None:
    text = (a_class / f"feedback/s4/{LESSON}.html").read_text("utf-8")
    assert "not started" in text and "cases passed" not in text


@pytest.mark.hostile
def test_feedback_gives_nothing_of_the_reference_away(tmp_path: Path, lessons: Path) -> None:
    from autograder.cases import calls
    from autograder.judging import judge
    from autograder.pipeline.records import grade_of

    name = "relevance"
    verdict = judge(name, lambda q, K: q @ K, seed=7)
    answer = "def relevance(q, K):\n    return q @ K"
    write_reports(tmp_path / "out", [record("s1", "Ada", "en", grade_of(verdict, answer, "", False))], [], lessons)
    text = (tmp_path / f"out/feedback/s1/{LESSON}.html").read_text("utf-8")
    assert verdict.sentence["en"].split("`")[0][:40] in text.replace("&#39;", "'")
    for call in calls(get(name), 7):
        for tensor in call.args:
            for value in tensor.flatten().tolist():
                assert f"{value:.4f}" not in text


def test_unreadable_file_gets_a_page_that_says_what_to_do(a_class: Path) -> None:
    text = (a_class / "feedback/s6/file.html").read_text("utf-8")
    assert "It is a .docx file, not a notebook." in text and "這是 .docx 檔，不是筆記本。" in text
    for language in LANGUAGES:  # nobody knows which one the student reads
        assert f'<section lang="{language}">' in text and report.words(language, "do download") in text


@pytest.mark.parametrize(("written_in", "first"), [(("zh-TW", "zh-TW", "en"), "zh-TW"), (("zh-TW", "en"), "en")])
def test_a_file_in_no_language_has_the_page_of_most_in_the_class_first(
    tmp_path: Path, lessons: Path, written_in: tuple[str, ...], first: str
) -> None:
    records = [record(f"s{i}", "王", language, attend("full", 3)) for i, language in enumerate(written_in)]
    records.append(record("s9", "陳", "", status="unreadable", reason="It is a web page."))
    write_reports(tmp_path, records, [submission(one) for one in records], lessons)
    text = (tmp_path / page_paths(records)[-1]).read_text("utf-8")
    assert re.findall(r'<section lang="(.*?)">', text) == [first, *(set(LANGUAGES) - {first})]


def test_files_that_could_not_be_graded_take_no_other_page() -> None:
    unread = [
        Record("s1", "Ada", lesson, "en", f"{i}", "unreadable", "") for i, lesson in enumerate((LESSON, None, None))
    ]
    good = record("s1", "Ada", "en", attend("full", 3))
    assert report.page_paths([*unread, good]) == [
        "feedback/s1/02_qkv-2.html", "feedback/s1/file.html", "feedback/s1/file-2.html", "feedback/s1/02_qkv.html",
    ]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_class_page_counts_mistakes_and_names_what_needs_a_look(a_class: Path, language: str) -> None:
    text = (a_class / report.CLASS_PAGES[language]).read_text("utf-8")
    assert f'<html lang="{language}">' in text
    assert report.words(language, "of submissions", count=2, total=5, percent="40%") in text and SCALE[language] in text
    for kind in ("unread", "not allowed", "stopped", "repaired", "superseded", "waiting"):
        assert f"<h3>{report.words(language, 'look ' + kind)}</h3>" in text
    assert report.words(language, "answers wait", count=4) in text
    assert f"make formgrader OUT={a_class}" in text and f"make report OUT={a_class}" in text
    assert f'href="feedback/s2/{LESSON}.html"' in text and "王小明" in text
    assert "<script" not in text and "<svg" in text
    assert (
        f'<span class="rest">{report.words(language, "of it waiting for you", points=2, max_points=5)}</span>' in text
    )
    assert '<span class="rest">，' not in text


def test_the_chinese_class_page_is_chinese(a_class: Path) -> None:
    text = (a_class / "class.zh-TW.html").read_text("utf-8")
    assert "這是 .docx 檔，不是筆記本。（fay.docx）" in text and "改以同一位學生的 s1.ipynb 評分。" in text
    assert "檢查儲存格被改過，已換回發布版：attend。" in text


def test_one_broken_notebook_is_one_entry() -> None:
    why = both("It could not be tried: the notebook ran longer than 60 s.", "這題沒辦法執行：太久。")
    stopped = [Grade(name, 0, 3, "stopped", why) for name in ("relevance", "attend")]
    ada = record("s1", "Ada", "en", *stopped)
    ada.notes = [both("A cell of your own stopped.", "停了下來。")] * 2
    (look,) = report.things_to_look_at([ada], [])
    (entry,) = look.entries
    assert [(m.text["en"][:8], m.exercises) for m in entry.messages] == [
        ("It could", ["relevance", "attend"]), ("A cell o", []),
    ]  # fmt: skip
    assert look.count == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_points_by_hand_that_do_not_count_need_a_look(language: str) -> None:
    grade = Grade("03_w1", None, 2, "by hand", both("", ""))
    record = Record("s1", "Ada", LESSON, "en", "a.ipynb", "graded", "Read as handed in.", grades=[grade])
    record.remark = f"{FOR_ANOTHER}03_w1 (0.5), entropy (1). It stays, for b.ipynb (2026-03-05 10:00:00) is older."
    (look,) = (look for look in report.things_to_look_at([record], []) if look.kind == "by hand")
    (entry,) = look.entries
    text = entry.messages[0].text[language]
    assert entry.record is record and text == (
        "03_w1 (0.5), entropy (1)" if language == "en" else "03_w1 (0.5)、entropy (1)"
    )
    record.remark = ""
    assert [look.kind for look in report.things_to_look_at([record], [])] == ["waiting"]


def test_a_file_that_may_be_another_s_needs_a_look() -> None:
    rows = [record(f"s{number}", name, "en", attend("full", 3)) for number, name in enumerate("ABC")]
    rows[0].remark = "It claims the id s1, and so does another's file."
    rows[1].remark = "The id alone says that it is the same student's, with other answers: late/s1.ipynb."
    (look,) = report.things_to_look_at(rows, [])
    assert look.kind == "whose"
    told = [entry.messages[0].text["zh-TW"] for entry in look.entries]
    assert told == [
        "它填的學號 s1，別人的檔案也有。", "只憑學號當成同一位學生的檔案，作答內容不同：late/s1.ipynb。",
    ]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_release_that_the_course_has_not_had_needs_a_look(language: str) -> None:
    later = record("s2", "Bo", "en", Grade("attend", None, 3, "not scored", both("Added later.", "之後才加入。")))
    rows = [record("s1", "Ada", "en", attend("full", 3)), later]
    files = [submission(row) for row in rows]
    assert [look.kind for look in report.things_to_look_at(rows[:1], files[:1])] == []
    files[0].unknown_release, files[0].release = True, "v0.0.1"
    (look,) = report.things_to_look_at(rows, files)
    assert look.kind == "release" and report.words(language, "look release")
    said = {entry.record.student_id: entry.messages[0].text[language] for entry in look.entries if entry.record}
    assert said == {
        "s1": report.words(language, "unknown release", release="v0.0.1"),
        "s2": later.grades[0].message[language],
    }


def test_an_id_that_is_not_the_folders_needs_a_look() -> None:
    def handed_in(student: str, typed: str, source: str) -> Record:
        return Record(student, "", LESSON, "en", source, "graded", "", notebook_id=typed)

    rows = [handed_in(f"B00{i}", f"b00{i}", f"B00{i}/02_qkv.ipynb") for i in range(4)]
    rows += [handed_in("B009", "B001", "B009/02_qkv.ipynb"), handed_in("B010", "", "B010/02_qkv.ipynb")]
    assert [r.student_id for r in report.with_other_id(rows)] == ["B009"]
    # However many files one has it typed in: it is one student.
    rows += [handed_in("B009", "B001", f"B009/0{n}.ipynb") for n in range(9)]
    assert {r.student_id for r in report.with_other_id(rows)} == {"B009"}
    moodle = handed_in("1002", "B001", "Ada_1002_assignsubmission_file_/02_qkv.ipynb")
    moodle.platform = "moodle"
    assert report.with_other_id([moodle]) == []
    pretended = handed_in("B009", "B001", "B009/x_1002_assignsubmission_file_/02_qkv.ipynb")
    assert report.with_other_id([*rows[:3], pretended]) == [pretended]
    named_otherwise = [handed_in(f"team-{i}", f"B00{i}", f"team-{i}/02_qkv.ipynb") for i in range(4)]
    assert report.with_other_id(named_otherwise) == []


RELEASED = '''def attend(q, k):
    """What each query finds.

    Args:
        q: queries, [N, d].
    """
    raise NotImplementedError
'''
DOCSTRING = RELEASED.split('"""')[1]


@pytest.mark.parametrize(
    "answer, shown",
    [
        (RELEASED, 'def attend(q, k):\n    """…"""\n    raise NotImplementedError\n'),
        (RELEASED.replace("    ", "\t"), 'def attend(q, k):\n\t"""…"""\n\traise NotImplementedError\n'),
        (RELEASED.replace('"""', "'''"), "def attend(q, k):\n    '''…'''\n    raise NotImplementedError\n"),
        (
            f'def attend(q:\n    r"""Mine.{DOCSTRING}More."""\n    return (q',
            'def attend(q:\n    r"""…"""\n    return (q',
        ),
        (f'def attend(q):\n    """{DOCSTRING}\n    return q', None),
        (f"# {DOCSTRING}", None),
        ('def attend(q):\n    """My own words."""\n    return q', None),
        ("", None),
    ],
)
def test_the_released_docstring_is_folded(answer: str, shown: str | None) -> None:
    assert report.fold_docstrings(answer, RELEASED) == (answer if shown is None else shown)


def test_folding_without_a_released_docstring_changes_nothing() -> None:
    assert report.fold_docstrings(RELEASED, 'answer_02_q1 = ""') == RELEASED


NO_REASONS = {"unknown lesson", "# Answered in the cell of attend."}  # a status, and a comment in a notebook


def reasons_in_the_code() -> set[str]:
    """Every sentence in the modules that make reasons, values replaced; without docstrings, patterns, logs and errors."""
    found = set()
    for module in (collect, drafts, pile, rebuild):
        skipped: set[ast.AST] = set()
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text("utf-8"))):  # from the outside in
            if node in skipped:
                continue
            text, inside = "", False
            match node:
                case ast.Call(func=func):
                    inside = ast.unparse(func).startswith(("re.", "log.", "CollectError"))
                case ast.Expr(value=ast.Constant()) | ast.FunctionDef(name="no_pile"):
                    inside = True
                case ast.Assign(targets=[ast.Name(id="_COPY" | "_GENERIC")]):
                    inside = True
                case ast.JoinedStr(values=values):
                    text = "".join(str(v.value) if isinstance(v, ast.Constant) else "attend" for v in values)
                    inside = True
                case ast.Constant(value=str(value)):
                    text = value + ("attend" if value.endswith(": ") else "")  # names follow
            if inside:
                skipped |= set(ast.walk(node))
            if re.search(r"[a-z] [a-z]", text):
                found.add(text)
    return found - NO_REASONS


def test_every_reason_has_a_chinese_twin() -> None:
    reasons = reasons_in_the_code()
    assert len(reasons) > 45 and "it is a web page" in reasons  # the search still finds them
    reasons |= {f"not run to its end: {stop_text(kind, Limits())['en']}" for kind in STOPS}
    missing = {reason for reason in reasons if report.twin(reason.rstrip(".")) is None}
    assert not missing
    for row in report.rows_of("reasons.tsv"):
        assert not findings(row["zh-TW"]), row
        assert re.findall(r"\{\w+\}", row["en"]) == re.findall(r"\{\w+\}", row["zh-TW"]), row


@pytest.mark.parametrize(
    "reason, chinese",
    [
        ("Its JSON ends too early (line 577).", "JSON 不完整（第 577 行）。"),
        ("It is a web page saved under the name of a notebook.", "這是存成 .ipynb 的網頁。"),
        (
            "Check cells missing, the released ones used: attend, project; read from a script.",
            "缺少檢查儲存格，已用發布版補上：attend、project；由 .py 檔讀取。",
        ),
        ("The same student's A. B; c.ipynb is graded instead.", "改以同一位學生的 A. B; c.ipynb 評分。"),
        (
            "Read as handed in. The sandbox itself failed; run the same command again.",
            "依繳交的內容讀取。沙箱本身出錯；請再執行一次同樣的指令。",
        ),
        (
            "Read as handed in. Its answers could not be kept (OSError: no space). "
            "It could not be entered in the books (DBError: locked).",
            "依繳交的內容讀取。作答紀錄無法保存（OSError: no space）。無法寫入成績冊（DBError: locked）。",
        ),
        (
            "Made from release v0.0.1, graded against v0.1.0; the course has had no such release, so everything is scored.",
            "以 v0.0.1 版作答，以 v0.1.0 版評分；課程沒有發布過這個版本，因此每一題都計分。",
        ),
        ("Something new; read from a script.", "Something new; read from a script."),
        ("", ""),
    ],
)
def test_reasons_in_chinese(reason: str, chinese: str) -> None:
    assert report.in_chinese(reason) == chinese


def test_statistics(a_class: Path, lessons: Path) -> None:
    records, _ = read_back(a_class)
    (lesson,) = report.statistics(records, lessons)
    # One written answer is graded, four wait: its points count, and those that wait take nothing off a share.
    assert lesson.totals == [4.5, 0, 1.25, 0, 0] and (lesson.max_points, lesson.waiting) == (5, 0)
    assert lesson.shares == [0.9, 0, pytest.approx(1.25 / 3), 0, 0]
    first, written = lesson.exercises
    assert first.counts == {"full": 1, "partial": 1, "none": 2, "not started": 1, "wait": 0}
    assert first.mean == pytest.approx(4.25 / 5)
    assert written.counts["wait"] == 4 and written.mean == 1.5
    assert [bar["count"] for bar in lesson.bars] == [3, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert [(name, len(made.records)) for name, made in report.most_frequent([lesson])] == [("attend", 2)]
    (lesson,) = report.statistics(records[1:], lessons)  # nobody's is graded: it is in no total, and has no mean
    assert lesson.totals == [0, 1.25, 0, 0] and (lesson.max_points, lesson.waiting) == (3, 2)
    assert lesson.exercises[1].mean is None


def test_everybody_on_the_list_is_counted_once(a_class: Path) -> None:
    records, _ = read_back(a_class)
    assert report.ClassList().students(records) == 6
    listed = roster.parse(b"student_id,name\ns1,Ada\ns2,Bo\ns9,Zoe\n", "class.csv")
    about = report.ClassList(listed, listed.missing(records), listed.strangers(records))
    assert about.students(records) == 3 + 4 and [r.student_id for r in about.missing] == ["s9"]


def test_nobody_is_alike_with_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who hands in again under another of their ids is one student of the list; two strangers are two."""
    rows = [record(student, student, "en", attend("full", 3)) for student in ("s1", "ada", "x1", "x2")]
    pairs = [Pair(rows[0], rows[1], 1.0, ("attend",)), Pair(rows[2], rows[3], 1.0, ("attend",))]
    monkeypatch.setattr(report, "similar_pairs", lambda records: pairs)
    assert report.ClassList.read(tmp_path, rows).alike == pairs
    (tmp_path / "roster.csv").write_text("student_id,username,name\ns1,ada,Ada\ns2,bo,Bo\n")
    assert report.ClassList.read(tmp_path, rows).alike == pairs[1:]


def test_a_comment_reaches_the_student(tmp_path: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside points, beside an answer that waits, and where nothing was answered; as text."""
    said = {"02_w1": "Why <b>rows</b>?\nSay more.", "attend": "Begin with q."}
    monkeypatch.setattr(report, "by_hand", lambda *of: ByHand({}, comments=said))
    blank = Grade("attend", 0, 3, "not started", both("Not started.", "尚未作答。"))
    for language in LANGUAGES:
        write_reports(tmp_path / "out", [record("s1", "Ada", language, *grades(blank))], [], lessons)
        text = (tmp_path / f"out/feedback/s1/{LESSON}.html").read_text("utf-8")
        assert "Why &lt;b&gt;rows&lt;/b&gt;?\nSay more." in text and "Begin with q." in text
        assert text.count(str(escape(report.words(language, "comment")))) == 2


def test_a_fault_of_ours_is_told_to_the_instructor_alone(tmp_path: Path, lessons: Path) -> None:
    ada = record("s1", "Ada", "zh-TW", attend("full", 3))
    ada.fault = "nbgrader could not take s1, 02_qkv: Please see the above traceback."
    bo = Record("s2", "Bo", LESSON, "en", "b.ipynb", "not run", "Read as handed in.", fault="The sandbox itself failed; run the same command again.")  # fmt: skip
    write_reports(tmp_path / "out", [ada, bo], [submission(ada), submission(bo)], lessons)
    assert [row[6] for row in table(tmp_path / "out/grades.csv")[1:]] == [ada.told, bo.told]
    assert ada.fault in (tmp_path / "out/class.html").read_text("utf-8")
    assert "nbgrader 無法收下 s1, 02_qkv：" in (tmp_path / "out/class.zh-TW.html").read_text("utf-8")
    for page in (tmp_path / "out/feedback").rglob("*.html"):
        text = page.read_text("utf-8")
        assert "traceback" not in text and "nbgrader" not in text and "same command" not in text


def test_reports_are_the_same_when_written_again(a_class: Path, lessons: Path) -> None:
    before = {path: path.read_bytes() for path in a_class.rglob("*") if path.is_file()}
    write_reports(a_class, *read_back(a_class), lessons)
    assert {path: path.read_bytes() for path in a_class.rglob("*") if path.is_file()} == before


def test_points_given_by_hand_win(a_class: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"s2": {"attend": 2.0, "02_w1": 1.0}}
    monkeypatch.setattr(report, "by_hand", lambda gradebook, student, lesson: ByHand(given.get(student, {}), 0.5))
    write_reports(a_class, *read_back(a_class), lessons)
    row = next(row for row in table(a_class / "grades.csv") if row[0] == "s2")
    assert row[13:15] == ["2", "1"]
    assert row[8:13] == ["2.5", "5", "", "0.5", ""]  # half a point off for being late
    text = (a_class / f"feedback/s2/{LESSON}.html").read_text("utf-8")
    assert report.words("zh-TW", "set by hand") in text and report.words("zh-TW", "status waiting") not in text


def changes(out: Path) -> list[list[str]]:
    return table(out / "changes.csv") if (out / "changes.csv").exists() else []


def test_each_report_tells_who_has_other_points_than_in_the_last(
    a_class: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, by the judge and for being late; a run in which nothing changed leaves no list of an earlier one."""
    assert changes(a_class) == []
    books = {"s2": ByHand({"attend": 2.0, "02_w1": 1.0}, penalty=0.5), "s5": ByHand({}, penalty=0.25)}
    monkeypatch.setattr(report, "by_hand", lambda gradebook, student, lesson: books.get(student, ByHand({})))
    write_reports(a_class, *read_back(a_class), lessons)
    assert changes(a_class) == [
        ["student_id", "student_name", "lesson", "exercise", "before", "after", "gain"],
        ["s2", "王小明", LESSON, "(handed in late)", "0", "-0.5", "-0.5"],
        ["s5", "Eve", LESSON, "(handed in late)", "0", "-0.25", "-0.25"],
        ["s2", "王小明", LESSON, "02_w1", "", "1", "1"],
        ["s2", "王小明", LESSON, "attend", "0", "2", "2"],
    ]
    write_reports(a_class, *read_back(a_class), lessons)
    assert changes(a_class) == []
    del books["s5"]
    (a_class / "roster.csv").write_text("student_id,name\ns5,Eve\n")
    write_reports(a_class, *read_back(a_class), lessons)
    assert changes(a_class)[0][:2] == ["student_id", "id_number"]
    assert changes(a_class)[1:] == [["s5", "s5", "Eve", LESSON, "(handed in late)", "-0.25", "0", "0.25"]]


def test_late_points_of_a_first_submission_are_no_loss(
    a_class: Path, lessons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, files = read_back(a_class)
    new = record("s7", "Gil", "en", *grades(attend("full", 3)))
    monkeypatch.setattr(report, "by_hand", lambda book, student, lesson: ByHand({}, 0.4 if student == "s7" else 0.0))
    write_reports(a_class, [*records, new], [*files, submission(new)], lessons)
    assert changes(a_class) == []
    row = next(row for row in table(a_class / "grades.csv") if row[0] == "s7")
    assert (row[8], row[11]) == ("2.6", "0.4")


@pytest.mark.parametrize("saved", [None, "student_id;points\ns1;3\n", "\udcff"])
def test_without_the_last_table_the_run_itself_tells(a_class: Path, lessons: Path, saved: str | None) -> None:
    """An instructor may have deleted grades.csv, or saved it in another way."""
    (a_class / "grades.csv").unlink()
    if saved is not None:
        (a_class / "grades.csv").write_bytes(saved.encode("utf-8", "surrogateescape"))
    write_reports(a_class, *read_back(a_class), lessons, [Change("s1", "Ada", LESSON, "attend", 1, 3)])
    assert changes(a_class)[1:] == [["s1", "Ada", LESSON, "attend", "1", "3", "2"]]


def test_the_mean_counts_points_off_for_being_late(lessons: Path) -> None:
    """As the table of all submissions below it does."""
    rows = [record("s1", "Ada", "en", attend("full", 3)), record("s2", "Bo", "en", attend("full", 3))]
    rows[1].penalty = 0.5
    (lesson,) = report.statistics(rows, lessons)
    assert lesson.totals == [3, 2.5] == [row.points for row in rows] and lesson.mean == 2.75
    rows[0].penalty = 4  # a rule of the instructor's own
    assert report.statistics(rows, lessons)[0].shares == [0, pytest.approx(2.5 / 3)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_line_to_read_stands_in_the_list_as_text(tmp_path: Path, lessons: Path, language: str) -> None:
    ada = record("s1", "Ada", "en", attend("full", 3))
    where = both("own cell 2, line 1: getattr", "自己加的第 2 個儲存格，第 1 行：getattr")
    ada.unusual = [Listed(where, 'getattr(torch, "<script>\u202e")'), Listed(both("and 3 more lines", "另外還有 3 行"))]
    ada.save(tmp_path / "out/records/s1" / f"{LESSON}.json")
    assert Record.load(tmp_path / "out/records/s1" / f"{LESSON}.json") == ada
    write_reports(tmp_path / "out", [ada], [submission(ada)], lessons)
    text = (tmp_path / "out" / report.CLASS_PAGES[language]).read_text("utf-8")
    code = '<code class="line">getattr(torch, &#34;&lt;script&gt;\u202e&#34;)</code>'
    assert f"{where[language]}<br>{code}" in text and text.count('<code class="line">') == 1
    folder = tmp_path / "out/nbgrader/submitted"
    assert report.words(language, "how counted", folder=folder) in text
    assert "code.line { unicode-bidi: isolate;" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_answer_that_could_not_be_tried_is_named_by_its_error(tmp_path: Path, lessons: Path, language: str) -> None:
    """Under the mistakes of the class; on the student's page the cases, of which each says the same, stay closed."""
    rows = []
    for student, error in (("s1", "SyntaxError"), ("s2", "SyntaxError"), ("s3", "NameError"), ("s4", "")):
        grade = attend("none", 0)
        grade.error, grade.message = error, both(f"It could not be tried: {error}: {student}.", f"{error}: {student}。")
        rows.append(record(student, student, language, grade))
    (lesson,) = report.statistics(rows, lessons)
    made = {m.message[language]: [r.student_id for r in m.records] for m in lesson.exercises[0].mistakes}
    assert made == {
        report.words(language, "raised", error="SyntaxError"): ["s1", "s2"],
        report.words(language, "raised", error="NameError"): ["s3"],
    }
    assert [r.student_id for r in lesson.exercises[0].others] == ["s4"]
    write_reports(tmp_path / "out", rows, [], lessons)
    cases = report.words(language, "cases", passed=0, total=2)
    for student, is_open in (("s1", False), ("s4", True)):
        page = (tmp_path / f"out/feedback/{student}/{LESSON}.html").read_text("utf-8")
        assert (f"<details open>\n<summary>{cases}" in page) == is_open


def test_code_goes_on_in_the_next_line_and_never_beyond_the_edge(a_class: Path) -> None:
    css = (report.TEMPLATES / "page.css").read_text("utf-8")
    (rule,) = re.findall(r"\npre \{(.*?)\n\}", css, re.DOTALL)
    assert "white-space: pre-wrap" in rule and "overflow-wrap: anywhere" in rule and "overflow-x" not in rule
    assert "tabindex" not in (a_class / f"feedback/s3/{LESSON}.html").read_text("utf-8")  # nothing to scroll


def test_nothing_to_read_back(tmp_path: Path, a_class: Path) -> None:
    with pytest.raises(ReportError, match="holds no graded class"):
        read_back(tmp_path)
    (a_class / "records/s2" / f"{LESSON}.json").write_text("{")
    with pytest.raises(ReportError, match="missing or damaged"):
        read_back(a_class)


def test_words_obey_the_glossary() -> None:
    for key, text in report.dictionary().items():
        assert text["en"] and not findings(text["zh-TW"]), key


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_is_enough_in_light_dark_and_print() -> None:
    css = (report.TEMPLATES / "page.css").read_text("utf-8")
    themes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{([^}]*)\}", css)]
    assert len(themes) == 3
    for theme in themes:
        for ground in ("paper", "card"):
            for text in ("ink", "soft", "link", "good", "half", "bad"):
                light, dark = sorted((luminance(theme[ground]), luminance(theme[text])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (theme, ground, text)
