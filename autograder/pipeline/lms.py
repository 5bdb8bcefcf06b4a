"""Files that a learning platform's import takes as they are: grades for Moodle and Canvas, feedback for Moodle.

What the importers look at: Moodle reads a grading worksheet by the headings "Identifier", "Grade" and "Last modified
(grade)" in the site's own language, so a worksheet that was downloaded there (given as the roster) is filled in and a new
one is in English; its feedback upload finds students by folders named NAME_NUMBER_assignfeedback_file_. Canvas wants the
columns Student, ID, … , Section first, then a column for each assignment, called "TITLE (ID)" where the assignment exists.
"""

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
    "Last modified (submission)", "Last modified (grade)", "Feedback comments",
)  # fmt: skip
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
GRADE_HEADINGS = ("grade", "成績", "評分", "分數")


def write_lms(out: Path, records: Sequence[Record], pages: Sequence[str], roster: Roster | None) -> None:
    """Write `out`/lms anew.

    Args:
        records: with points given by hand.
        pages: the feedback page of each record, as a path inside `out`.
        roster: of the class; Moodle's or Canvas's own files are filled in.

    A grade is left as it is while a written answer waits for the instructor: it would be a wrong one.
    """
    folder = out / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    graded = [record for record in records if record.grades]
    if not graded:
        return
    lessons = sorted({record.lesson for record in graded if record.lesson})
    write_gradebook(folder / "gradebook.csv", graded, lessons, roster)
    page_of = {id(record): out / page for record, page in zip(records, pages)}

    files = roster.files if roster is not None else ()
    worksheets = lessons_of([file for file in files if file.kind == "moodle"], graded)
    for lesson in lessons:
        of_lesson = [r for r in graded if r.lesson == lesson]
        theirs = [r for r in of_lesson if r.platform == "moodle"]
        its_own = [file for file, of_file in worksheets if of_file == lesson]
        for i, file in enumerate(its_own, start=1):  # several where groups have worksheets of their own
            fill_worksheet(folder / f"moodle-{lesson}{f'-{i}' if i > 1 else ''}.csv", of_lesson, file)
        if theirs and not its_own:
            write_worksheet(folder / f"moodle-{lesson}.csv", theirs)
        if theirs:
            write_feedback(
                folder / f"moodle-{lesson}-feedback.zip",
                [(record, page_of[id(record)], f"{lesson}.html") for record in theirs],
            )

    from_canvas = [r for r in graded if r.platform == "canvas"]
    exported = next((file for file in files if file.kind == "canvas"), None)
    if exported is not None:
        fill_canvas(folder / "canvas.csv", graded, lessons, exported)
    elif from_canvas:
        write_canvas(folder / "canvas.csv", from_canvas)


def possible(record: Record) -> float:
    """All that could be had: written answers that still wait count, exercises that are not scored do not."""
    return sum(grade.max_points for grade in record.grades if grade.status != "not scored")


def unfinished(record: Record) -> bool:
    """Whether a written answer has no points yet."""
    return any(grade.status == "by hand" and grade.points is None for grade in record.grades)


def final(record: Record) -> str:
    """The points; "" while they are not all known."""
    return "" if unfinished(record) else plain(record.points)


def scaled(record: Record, maximum: float | None) -> str:
    """The points, on the scale of an assignment whose maximum is another one."""
    points, whole = record.points or 0.0, possible(record)
    return plain(points if maximum is None or not whole else points * maximum / whole)


def by_member(of_lesson: Iterable[Record], roster: Roster) -> dict[Member, Record]:
    """Whose points are whose, in one lesson. Whom two claim to be gets the points of neither: the class page tells."""
    return {member: found[0] for (member, _), found in roster.claims(of_lesson).items() if len(found) == 1}


# ------------------------------------------------------------------------------------------------- any platform


def write_gradebook(path: Path, graded: Sequence[Record], lessons: Sequence[str], roster: Roster | None) -> None:
    """One row per student, one column per lesson: for the gradebook import of Moodle (mapped by hand) and for spreadsheets."""
    rows: dict[Member | str, list[str]] = {}
    for member in roster.members if roster is not None else ():
        rows[member] = [member.number, member.name, *[""] * len(lessons)]
    for k, lesson in enumerate(lessons, start=2):
        of_lesson = [record for record in graded if record.lesson == lesson]
        for member, record in (by_member(of_lesson, roster) if roster is not None else {}).items():
            rows[member][k] = final(record)
        for record in of_lesson if roster is None else roster.strangers(of_lesson):
            # Under the id that the file came with: the one in the notebook may be anybody's.
            own = [record.student_id, record.student_name, *[""] * len(lessons)]
            rows.setdefault(record.student_id, own)[k] = final(record)
    write_table(path, ["ID number", "Full name", *lessons], rows.values())


# ------------------------------------------------------------------------------------------------- Moodle


def write_worksheet(path: Path, records: Sequence[Record]) -> None:
    """A grading worksheet for who handed in, in English."""
    rows = [
        [
            f"Participant {record.student_id}", record.student_name, "", "Submitted for grading",
            final(record), plain(possible(record)), "Yes", "", "", "",
        ]
        for record in records
    ]  # fmt: skip
    write_table(path, WORKSHEET, rows)


def lessons_of(worksheets: Sequence[Roster], graded: Sequence[Record]) -> list[tuple[Roster, str]]:
    """The worksheets, each with its lesson. Moodle numbers participants anew in each assignment, so the numbers decide.

    Where nobody's number is in a worksheet, it is for the lesson with most of its students that has no worksheet.
    """
    found: list[tuple[Roster, str]] = []
    others = []
    for roster in worksheets:
        platform_ids = {member.platform_id for member in roster.members}
        lesson = most_common(record for record in graded if record.student_id in platform_ids)
        if lesson:
            found.append((roster, lesson))
        else:
            others.append(roster)
    for roster in others:
        taken = {lesson for _, lesson in found}
        lesson = most_common(r for r in graded if r.lesson not in taken and roster.member_of(r) is not None)
        if lesson:
            found.append((roster, lesson))
    return found


def most_common(records: Iterable[Record]) -> str:
    count = Counter(record.lesson or "" for record in records).most_common(1)
    return count[0][0] if count else ""


def fill_worksheet(path: Path, records: Sequence[Record], roster: Roster) -> None:
    """The worksheet as it was downloaded, with grades; rows without a submission or with one that waits stay as they are."""
    grade = grade_column(roster)
    grades = by_member(records, roster)
    rows = [list(row) for row in roster.rows]
    for member, record in grades.items():
        if unfinished(record):
            continue
        maximum = number(cell(rows[member.row], grade + 1))
        rows[member.row] += [""] * (grade + 1 - len(rows[member.row]))
        rows[member.row][grade] = scaled(record, maximum)
    write_table(path, roster.head, rows, as_it_came=True)


def grade_column(roster: Roster) -> int:
    """The column "Grade"; where its heading is in a language not known here, the one before the assignment's maximum."""
    for i, heading in enumerate(roster.head):
        if heading.casefold() in GRADE_HEADINGS:
            return i
    for i in range(2, len(roster.head)):
        values = {number(cell(row, i)) for row in roster.rows}
        if len(values) == 1 and None not in values:
            return i - 1
    return len(roster.head) - 1


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


def write_canvas(path: Path, records: Sequence[Record]) -> None:
    """A gradebook for who handed in; Canvas asks at the import which assignments the columns are."""
    lessons = sorted({record.lesson or "" for record in records})
    most = {lesson: max(possible(r) for r in records if r.lesson == lesson) for lesson in lessons}
    rows: dict[str, list[str]] = {}
    for record in records:
        row = rows.setdefault(
            record.student_id, [record.student_name, record.student_id, "", "", "", *[""] * len(lessons)]
        )
        row[len(CANVAS) + lessons.index(record.lesson or "")] = final(record)
    points = ["    Points Possible", "", "", "", "", *(plain(most[lesson]) for lesson in lessons)]
    write_table(path, [*CANVAS, *lessons], [points, *rows.values()])


def fill_canvas(path: Path, graded: Sequence[Record], lessons: Sequence[str], roster: Roster) -> None:
    """The columns that identify students, and those of the lessons: an assignment whose title names one, else a new one."""
    section = roster.head.index("Section")
    assignments = {lesson: column_of(roster, lesson, section) for lesson in lessons}
    possible_row = next((row for row in roster.rows if "Points Possible" in cell(row, 0)), ())
    maxima: dict[str, float | None] = {}
    head = list(roster.head[: section + 1])
    rows = [list(row[: section + 1]) + [""] * (section + 1 - len(row)) for row in roster.rows]
    for lesson, column in assignments.items():
        head.append(lesson if column is None else roster.head[column])
        maxima[lesson] = number(cell(possible_row, column)) if column is not None else None
        for row, source in zip(rows, roster.rows):
            row.append(cell(source, column) if column is not None else "")
    for k, lesson in enumerate(lessons):
        of_lesson = [record for record in graded if record.lesson == lesson]
        for member, record in by_member(of_lesson, roster).items():
            if not unfinished(record):
                rows[member.row][section + 1 + k] = scaled(record, maxima[lesson])
        if assignments[lesson] is None:
            for row in rows:
                if "Points Possible" in row[0]:
                    row[section + 1 + k] = plain(max(map(possible, of_lesson)))
    write_table(path, head, rows, as_it_came=True)


def column_of(roster: Roster, lesson: str, section: int) -> int | None:
    """The column of the assignment whose title names a lesson ("02_qkv (1234)")."""
    for i, heading in enumerate(roster.head):
        if i > section and lesson_in(heading, [lesson]):
            return i
    return None
