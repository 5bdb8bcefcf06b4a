"""Files that a learning platform's import takes as they are: grades for Moodle and Canvas, feedback for Moodle.

What the importers look at: Moodle reads a grading worksheet by the headings "Identifier", "Grade" and "Last modified
(grade)" in the site's own language, so a worksheet that was downloaded there (given as the roster) is filled in and a new
one is in English. An empty grade changes nothing, an empty comment takes away the one that is there. Its feedback upload
finds students by folders named NAME_NUMBER_assignfeedback_file_. Canvas wants the columns Student, ID, … , Section first,
then a column for each assignment, called "TITLE (ID)" where the assignment exists. An empty cell takes away the grade that
is there, so each lesson has a file of its own with the students who have one.
"""

import html
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from autograder.pipeline.pile import lesson_in
from autograder.pipeline.records import Record
from autograder.pipeline.roster import Member, Roster, cell
from autograder.pipeline.tables import plain, write_table

FOLDER = "lms"
WORKSHEET = (
    "Identifier", "Full name", "ID number", "Status", "Grade", "Maximum Grade", "Grade can be changed",
    "Last modified (submission)", "Last modified (grade)",
)  # fmt: skip
COMMENTS = "Feedback comments"
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
# As Moodle's language packs call the columns of a worksheet.
GRADE_HEADINGS = ("grade", "成績", "評分", "分數")
COMMENT_HEADINGS = (COMMENTS.casefold(), "評語回饋")
# A date of the Chinese pack, which Moodle writes and cannot read back.
CHINESE_DATE = re.compile(r"(\d{4})年\s*(\d{1,2})月\s*(\d{1,2})日\s*\(.{1,3}\)\s*(\d{1,2}:\d{2})")
OURS = re.compile(r"(<p><b>[\w-]+</b>: ((?!</?[pb]>).)*</p>)+")  # comments as comments() writes them, nothing else
POINTS = "    Points Possible"
EXCUSED = "EX"


def write_lms(out: Path, records: Sequence[Record], pages: Sequence[str], roster: Roster | None) -> None:
    """Write `out`/lms anew.

    Args:
        records: with points given by hand.
        pages: the feedback page of each record, as a path inside `out`.
        roster: of the class; Moodle's or Canvas's own files are filled in.

    Grade and comments are left as they are while a written answer waits for the instructor: it would be a wrong grade.
    """
    folder = out / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    graded = [record for record in records if record.grades]
    if not graded:
        return
    lessons = sorted({record.lesson for record in graded if record.lesson})
    # Decided once, of all that was handed in: no file may find other owners than the class page tells.
    whose = by_member(records, roster) if roster is not None else {}
    strangers = graded if roster is None else [record for record in roster.strangers(records) if record.grades]
    members = roster.members if roster is not None else ()
    write_gradebook(folder / "gradebook.csv", lessons, members, whose, strangers)
    page_of = {id(record): out / page for record, page in zip(records, pages)}

    files = roster.files if roster is not None else ()
    worksheets = lessons_of([f for f in files if f.kind == "moodle" and grade_column(f) is not None], graded)
    for lesson in lessons:
        of_lesson = [r for r in graded if r.lesson == lesson]
        theirs = [r for r in of_lesson if r.platform == "moodle"]
        its_own = [file for file, of_file in worksheets if of_file == lesson]
        for i, file in enumerate(its_own, start=1):  # several where groups have worksheets of their own
            fill_worksheet(
                folder / f"moodle-{lesson}{f'-{i}' if i > 1 else ''}.csv", in_file(file, whose, lesson), file
            )
        if theirs and not its_own:
            write_worksheet(folder / f"moodle-{lesson}.csv", theirs)
        if theirs:
            write_feedback(
                folder / f"moodle-{lesson}-feedback.zip",
                [(record, page_of[id(record)], f"{lesson}.html") for record in theirs],
            )

    exported = next((file for file in files if file.kind == "canvas"), None)
    for lesson in lessons:
        of_lesson = [r for r in graded if r.lesson == lesson]
        if exported is not None:
            fill_canvas(folder / f"canvas-{lesson}.csv", in_file(exported, whose, lesson), lesson, exported)
        else:
            write_canvas(folder / f"canvas-{lesson}.csv", [r for r in of_lesson if r.platform == "canvas"], lesson)


def unfinished(record: Record) -> bool:
    """Whether a written answer has no points yet."""
    return any(grade.status == "by hand" and grade.points is None for grade in record.grades)


def final(record: Record) -> str:
    """The points; "" while they are not all known."""
    return "" if unfinished(record) else plain(record.points)


def scaled(record: Record, maximum: float | None) -> str:
    """The points, on the scale of an assignment whose maximum is another one."""
    points, whole = record.points or 0.0, record.max_points
    return plain(points * maximum / whole if maximum and whole else points)


def name_of(record: Record) -> str:
    """Without backslashes: before a quotation mark Moodle's reader of CSV files takes one for an escape."""
    return record.student_name.replace("\\", "")


Whose = dict[tuple[Member, str], Record]  # whose points are whose, in each lesson


def by_member(records: Sequence[Record], roster: Roster) -> Whose:
    """Whose points are whose. Whom two claim to be gets the points of neither: the class page tells."""
    return {key: found[0] for key, found in roster.claims(records).items() if len(found) == 1}


def in_file(file: Roster, whose: Whose, lesson: str) -> list[tuple[Member, Record]]:
    """The rows of one file of the class, in its order, with the record of a lesson that belongs to each."""
    rows: dict[str, list[Member]] = {}
    for row in file.members:
        rows.setdefault(row.number.casefold(), []).append(row)
    found = []
    for (member, of_lesson), record in whose.items():
        same = rows.get(member.number.casefold(), []) if of_lesson == lesson else []
        own = [row for row in same if row.platform_id == record.student_id] or same
        found += [(own[0], record)] if own else []
    return sorted(found, key=lambda item: item[0].row)


# ------------------------------------------------------------------------------------------------- any platform


def write_gradebook(
    path: Path, lessons: Sequence[str], members: Iterable[Member], whose: Whose, strangers: Iterable[Record]
) -> None:
    """One row per student, one column per lesson: for the gradebook import of Moodle (mapped by hand) and for spreadsheets."""
    column = {lesson: k for k, lesson in enumerate(lessons, start=2)}
    rows: dict[Member | str, list[str]] = {m: [m.number, m.name, *[""] * len(lessons)] for m in members}
    for (member, lesson), record in whose.items():
        rows[member][column[lesson]] = final(record)
    for record in sorted(strangers, key=lambda record: record.lesson or ""):
        # Under the id that the file came with: the one in the notebook may be anybody's.
        own = [record.student_id, name_of(record), *[""] * len(lessons)]
        rows.setdefault(record.student_id, own)[column[record.lesson or ""]] = final(record)
    write_table(path, ["ID number", "Full name", *lessons], rows.values())


# ------------------------------------------------------------------------------------------------- Moodle


def write_worksheet(path: Path, records: Sequence[Record]) -> None:
    """A grading worksheet for who handed in, in English; with a column of comments only where there are any."""
    head = [*WORKSHEET, COMMENTS] if any(map(comments, records)) else WORKSHEET
    rows = [
        [
            f"Participant {record.student_id}", name_of(record), "", "Submitted for grading",
            final(record), plain(record.max_points), "Yes", "", "", "" if unfinished(record) else comments(record),
        ][: len(head)]
        for record in records
    ]  # fmt: skip
    write_table(path, head, rows, quoted=False)


def comments(record: Record) -> str:
    """What the instructor has written beside the answers in nbgrader, as the HTML that Moodle keeps such comments in.

    Backslashes are written as a reference, for the reason told in name_of().
    """
    return "".join(
        f"<p><b>{grade.name}</b>: {'<br>'.join(html.escape(grade.comment).splitlines())}</p>"
        for grade in record.grades
        if grade.comment
    ).replace("\\", "&#92;")


def lessons_of(worksheets: Sequence[Roster], graded: Sequence[Record]) -> list[tuple[Roster, str]]:
    """The worksheets, each with its lesson. Moodle numbers participants anew in each assignment, so the numbers decide.

    Where nobody's number is in a worksheet, it is for the lesson with most of its students that has no worksheet, and whose
    files Moodle did not number.
    """
    found: list[tuple[Roster, str]] = []
    others = []
    for roster in worksheets:
        platform_ids = {member.platform_id for member in roster.members}
        lesson = most_common(r for r in graded if r.platform == "moodle" and r.student_id in platform_ids)
        if lesson:
            found.append((roster, lesson))
        else:
            others.append(roster)
    for roster in others:
        taken = {lesson for _, lesson in found}
        whose = roster.whose(graded)
        lesson = most_common(r for r in graded if r.lesson not in taken and r.platform != "moodle" and id(r) in whose)
        if lesson:
            found.append((roster, lesson))
    return found


def most_common(records: Iterable[Record]) -> str:
    count = Counter(record.lesson or "" for record in records).most_common(1)
    return count[0][0] if count else ""


def fill_worksheet(path: Path, theirs: Sequence[tuple[Member, Record]], roster: Roster) -> None:
    """The worksheet as it was downloaded, with grades, and comments where the cell is empty or holds ours of an earlier run.

    Rows without a submission or with one that waits stay as they are. All rows are as long as the headings: Moodle takes
    nothing from a file in which one is not.
    """
    grade, columns = grade_column(roster), len(roster.head)
    assert grade is not None, "others are left out by write_lms"
    comment = next((i for i, heading in enumerate(roster.head) if heading.casefold() in COMMENT_HEADINGS), None)
    rows = [[*row, *[""] * columns][:columns] for row in roster.rows]
    for member, record in theirs:
        row = rows[member.row]
        if unfinished(record):
            continue
        row[grade] = scaled(record, number(cell(row, grade + 1)))
        if comment is not None and (not row[comment].strip() or OURS.fullmatch(row[comment])):
            row[comment] = comments(record)
    write_table(
        path, roster.head, [[readable_date(value) for value in row] for row in rows], as_it_came=True, quoted=False
    )


def readable_date(value: str) -> str:
    """A cell of a worksheet; a date as Moodle can read it.

    Where it cannot, it takes the grade to be from 1970, finds its own newer, and skips the row.
    """
    found = CHINESE_DATE.fullmatch(value.strip())
    return f"{found[1]}-{int(found[2]):02}-{int(found[3]):02} {found[4]}" if found else value


def grade_column(roster: Roster) -> int | None:
    """The column "Grade"; where its heading is in a language not known here, the one before the assignment's maximum."""
    for i, heading in enumerate(roster.head):
        if heading.casefold() in GRADE_HEADINGS:
            return i
    for i in reversed(range(2, len(roster.head))):
        values = {number(cell(row, i)) for row in roster.rows}
        if len(values) == 1 and None not in values:
            before = {cell(row, i - 1) for row in roster.rows} - {""}
            if all(number(value) is not None for value in before):
                return i - 1
    return None


def number(text: str) -> float | None:
    return float(text.replace(",", ".")) if re.fullmatch(r"\d+([.,]\d+)?", text) else None


def write_feedback(path: Path, files: Iterable[tuple[Record, Path, str]]) -> None:
    """The zip that Moodle's "Upload multiple feedback files in a zip" takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for record, page, name in files:
            # "_" separates the parts
            person = re.sub(r"[_/\\:*?\"<>|\s]+", " ", record.student_name).strip() or "student"
            info = zipfile.ZipInfo(f"{person}_{record.student_id}_assignfeedback_file_/{name}", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, page.read_bytes())


# ------------------------------------------------------------------------------------------------- Canvas


def write_canvas(path: Path, records: Sequence[Record], lesson: str) -> None:
    """A gradebook for who handed in; Canvas asks at the import which assignment the column is."""
    rows = [[r.student_name, r.student_id, "", "", "", final(r)] for r in records if not unfinished(r)]
    if rows:
        points = [POINTS, "", "", "", "", plain(max(record.max_points for record in records))]
        write_table(path, [*CANVAS, lesson], [points, *rows], mark=False, quoted=False)


def fill_canvas(path: Path, theirs: Sequence[tuple[Member, Record]], lesson: str, roster: Roster) -> None:
    """The columns that identify students, and the lesson's: the assignment whose title names it, else a new one.

    Only who has a grade is in it: with an empty cell, or one from the day of the export, Canvas would undo what the
    instructor has entered since. Who is excused stays so.
    """
    section = roster.head.index("Section")
    column = column_of(roster, lesson, section)
    points = next((list(row) for row in roster.rows if POINTS.strip() in cell(row, 0)), [POINTS])
    maximum = number(cell(points, column)) if column is not None else None

    def row_of(known: Sequence[str], value: str) -> list[str]:
        return [*[*known, *[""] * section][: section + 1], value]

    rows = []
    for member, record in theirs:
        known = roster.rows[member.row]
        excused = column is not None and cell(known, column).upper() == EXCUSED
        if not unfinished(record) and not excused:
            rows.append(row_of(known, scaled(record, maximum)))
    if rows:
        whole = plain(max(record.max_points for _, record in theirs)) if column is None else cell(points, column)
        head = [*roster.head[: section + 1], lesson if column is None else roster.head[column]]
        write_table(path, head, [row_of(points, whole), *rows], as_it_came=True, mark=False, quoted=False)


def column_of(roster: Roster, lesson: str, section: int) -> int | None:
    """The column of the assignment whose title names a lesson ("02_qkv (1234)")."""
    for i, heading in enumerate(roster.head):
        if i > section and lesson_in(heading, [lesson]):
            return i
    return None
