"""What people read after a run: tables of grades and files, a feedback page per submission, and a page about the class.

Everything that a student wrote is text here, never markup or a formula: the templates escape, the tables neutralise.
"""

import csv
import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean, median
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.exercise import get
from autograder.pipeline.bookkeeping import FOR_ANOTHER, assign_penalties, by_hand
from autograder.pipeline.grading import ANSWER, LESSONS, new_record, record_path
from autograder.pipeline.lms import write_lms
from autograder.pipeline.records import LATE, Change, Grade, Record
from autograder.pipeline.roster import Member, Roster, load_roster
from autograder.pipeline.similar import Pair, similar_pairs
from autograder.pipeline.submission import GRADED, Submission, names_nobody_known, safe_id
from autograder.pipeline.tables import neutral, plain, write_table
from autograder.pipeline.whole import write_whole
from autograder.text import LANGUAGES, Text, both

TEMPLATES = Path(__file__).with_name("templates")
CLASS_PAGES = {"en": "class.html", "zh-TW": "class.zh-TW.html"}
MARKS = {
    "full": "✓", "partial": "◐", "none": "✗", "not started": "○", "not allowed": "⊘", "stopped": "■",
    "by hand": "✎", "waiting": "…", "not scored": "–",
}  # fmt: skip
COLUMNS = ("full", "partial", "none", "not started", "wait")  # of the class page's table of exercises
BINS = 10  # of the distribution of totals


class ReportError(RuntimeError):
    """There is nothing to report on; the text is one line for the instructor."""


def write_reports(
    out: Path,
    records: Sequence[Record],
    submissions: Sequence[Submission],
    lessons: Path = LESSONS,
    changes: Sequence[Change] | None = None,
) -> None:
    """Write grades.csv, files.csv, the feedback pages, the class pages and the platform's files (lms.py) into `out`.

    Points that an instructor has given in nbgrader come first. Also writes files.json, from which `read_back` knows the
    class again.

    Args:
        out: the folder of grades.
        records: a record for every graded submission and every file that could not be graded.
        submissions: every file of the pile.
        lessons: the released notebooks, for the titles.
        changes: whose points a run of `grade` has changed; asked only where the last grades.csv is gone, which knows of points by
            hand and for handing in late too.
    """
    assign_penalties(out)
    records = [with_manual_points(record, out / "gradebook.db") for record in records]
    about = ClassList.read(out, records)
    before = read_grades(out / "grades.csv")
    write_changes(out / "changes.csv", changes or () if before is None else changes_since(before, records), about)
    write_grades(out / "grades.csv", [*records, *about.missing], about)
    write_files(out, submissions)
    paths = page_paths(records)
    written_in = Counter(record.language for record in records)
    languages = sorted(LANGUAGES, key=lambda language: -written_in[language])
    for record, path in zip(records, paths):
        write_text(out / path, feedback_page(record, lessons, about.shown_id(record), languages))
    for language in LANGUAGES:
        write_text(out / CLASS_PAGES[language], class_page(records, submissions, paths, language, lessons, about, out))
    write_lms(out, records, paths, about.roster)


@dataclass
class ClassList:
    """What is known of the class as a whole.

    Attributes:
        missing: who on the roster handed in nothing.
        strangers: who is not on it.
        claimed: members of it whom two claim to be in a lesson, and the records that do.
        alike: whose code is the same.
        numbers: the roster's student number for an id and lesson.
    """

    roster: Roster | None = None
    missing: list[Record] = field(default_factory=list)
    strangers: list[Record] = field(default_factory=list)
    claimed: list[tuple[Member, list[Record]]] = field(default_factory=list)
    alike: list[Pair] = field(default_factory=list)
    numbers: dict[tuple[str, str | None], str] = field(default_factory=dict)

    def shown_id(self, record: Record) -> str:
        """What a student knows themselves by: the number on the roster, else the id that the file came with."""
        return self.numbers.get((record.student_id, record.lesson), record.student_id)

    @classmethod
    def read(cls, out: Path, records: Sequence[Record]) -> "ClassList":
        roster, alike = load_roster(out), similar_pairs(records)
        if roster is None:
            return cls(alike=alike)
        claimed = [(member, found) for (member, _), found in roster.claims(records).items() if len(found) > 1]
        whose = roster.whose(records)
        alike = [p for p in alike if id(p.one) not in whose or whose[id(p.one)] != whose.get(id(p.other))]
        missing = roster.missing(records)
        numbers = roster.numbers([*records, *missing])
        return cls(roster, missing, roster.strangers(records), claimed, alike, numbers)

    def id_of(self, given: str, lesson: str, records: Sequence[Record]) -> str:
        """The id in the books of whom an instructor calls by it or by the student number: of who has a row, or is on the roster.

        Raises:
            ReportError: if that is nobody, or nobody's id is known before their file is there.
        """
        rows = [record for record in (*records, *self.missing) if record.lesson in (lesson, None)]
        for called in (lambda record: record.student_id, self.shown_id):
            found = {record.student_id for record in rows if called(record).casefold() == given.casefold()}
            if len(found) == 1:
                return found.pop()
        member = self.roster.member_with(given) if self.roster is not None else None
        if self.roster is None or member is None:
            where = (
                "nor is on the list of the class" if self.roster is not None else "and no list of the class was given"
            )
            raise ReportError(f"{given} has no row for {lesson} in grades.csv, {where}")
        if not member.platform_id and self.roster.has("moodle"):
            raise ReportError(
                f"{given} has no row for {lesson} yet, and Moodle's number for it is not known before: try again then"
            )
        return safe_id(member.platform_id or member.number)

    def students(self, records: Sequence[Record]) -> int:
        """How many there are: the list of the class and who is not on it, or all who handed in where there is no list."""
        listed = len(self.roster.members) if self.roster is not None else 0
        others = records if self.roster is None else self.strangers
        return listed + len({r.student_id for r in others if not names_nobody_known(r)})


Known = dict[tuple[str, str], dict[str, float | None]]  # by student and lesson: the points, by exercise


def read_grades(path: Path) -> Known | None:
    """The points of the last run, and below zero what was taken off for handing in late; None where its table is gone."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        known: Known = {}
        for row in rows:
            columns = list(row)
            names = columns[columns.index("hours_late") + 1 : columns.index("file")]
            if row["points"]:  # else nothing was graded
                points = {name: float(row[name]) if row[name] else None for name in names}
                points[LATE] = 0.0 - float(row["late_points_off"] or 0)
                known[row["student_id"], row["lesson"]] = points
        return known
    except (OSError, ValueError, KeyError, TypeError):  # an instructor may have saved it in another way
        return None


def changes_since(known: Known, records: Sequence[Record]) -> list[Change]:
    """Whose points are not those of the last run, by the judge, by hand or for handing in late; a first grade is none.

    Who had points and now has a row without any lost them all.
    """
    changes = []
    of = {(record.student_id, record.lesson or ""): record for record in sorted(records, key=lambda r: bool(r.grades))}
    for whose, record in of.items():
        before = known.get(whose)
        if before is None:
            continue
        if record.grades:
            now = {grade.name: grade.points for grade in record.grades} | {LATE: 0.0 - record.penalty}
        else:
            now = {name: None for name, points in before.items() if points}
        changes += [
            Change(record.student_id, record.student_name, record.lesson or "", name, before[name], points)
            for name, points in now.items()
            if name in before and plain(before[name]) != plain(points)
        ]
    return changes


def write_changes(path: Path, changes: Sequence[Change], about: ClassList) -> None:
    """Who has other points than before this run, the losses first; no file where nobody has.

    Points off for handing in late are a row of their own, below zero.
    """
    path.unlink(missing_ok=True)
    if not changes:
        return
    head = ["student_id", "student_name", "lesson", "exercise", "before", "after", "gain"]
    rows = [
        [*map(neutral, (c.student_id, c.student_name, c.lesson, c.exercise)), *map(plain, (c.before, c.after, c.gain))]
        for c in sorted(changes, key=lambda c: (c.gain, c.student_id))
    ]
    if about.roster is not None:
        head.insert(1, "id_number")
        for row in rows:
            row.insert(1, neutral(about.numbers.get((row[0], row[2]), "")))
    write_table(path, head, rows, as_it_came=True)  # a loss is a number, not a formula


def read_back(out: Path) -> tuple[list[Record], list[Submission]]:
    """The records and files of the last run of `grade` into `out` (the notebooks stay where they are).

    Raises:
        ReportError: if there was none, or a record is gone.
    """
    submissions = read_files(out)
    records = []
    for submission in submissions:
        if submission.status in GRADED:
            path = record_path(out, submission)
            record = Record.load(path)
            if record is None:
                raise ReportError(f"{path} is missing or damaged: run grade again")
            records.append(record)
        elif submission.status != "superseded":
            records.append(new_record(submission))
    return records, submissions


def read_files(out: Path) -> list[Submission]:
    """The files of the last run, without their notebooks.

    Raises:
        ReportError: if there was none.
    """
    try:
        rows = json.loads((out / "files.json").read_text(encoding="utf-8"))
        return [Submission(**{**row, "received": date_of(row["received"])}) for row in rows]
    except FileNotFoundError:
        raise ReportError(f"{out} holds no graded class: run grade with --out {out} first") from None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise ReportError(f"{out / 'files.json'} cannot be read ({problem}): run grade again") from None


def date_of(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def with_manual_points(record: Record, gradebook: Path) -> Record:
    """The record with the points that an instructor has given in nbgrader."""
    if not record.grades or record.lesson is None:
        return record
    books = by_hand(gradebook, record.student_id, record.lesson)
    given = books.points
    grades = [
        replace(grade, points=round(given[grade.name], 2), status="by hand") if grade.name in given else grade
        for grade in record.grades
    ]
    grades = [replace(grade, comment=books.comments.get(grade.name, "")) for grade in grades]
    return replace(record, grades=grades, penalty=books.penalty, hours_late=books.hours_late)


# ------------------------------------------------------------------------------------------------- tables


def write_grades(path: Path, records: Sequence[Record], about: ClassList) -> None:
    """One row per student and lesson and per file that could not be graded, one column per exercise.

    With a roster its number stands beside the id that the file came with, which need not be the same (Moodle's is not).
    """
    exercises = list(dict.fromkeys(g.name for r in sorted(records, key=lambda r: r.lesson or "") for g in r.grades))
    head = ["student_id", "student_name", "notebook_id", "lesson", "language", "status", "reason", "received"]
    head += ["points", "max_points", "waiting", "late_points_off", "hours_late", *exercises, "file"]
    rows = []
    for record in records:
        points = {grade.name: grade.points for grade in record.grades}
        rows.append([
            record.student_id, record.student_name, record.notebook_id, record.lesson or "", record.language,
            record.status, record.told, record.received,
            plain(record.points), plain(record.max_points if record.grades else None), plain(waiting_points(record) or None),
            plain(record.penalty or None), plain(record.hours_late or None),
            *(plain(points.get(name)) for name in exercises), record.source,
        ])  # fmt: skip
    if about.roster is not None:
        head.insert(1, "id_number")
        for record, row in zip(records, rows):
            row.insert(1, about.numbers.get((record.student_id, record.lesson), ""))
    write_table(path, head, rows)


def write_files(out: Path, submissions: Sequence[Submission]) -> None:
    """Every file of the pile and what became of it: for people (csv) and for `read_back` (json)."""
    rows = [[s.source, s.student_id, s.student_name, s.lesson or "", s.status, s.told] for s in submissions]
    write_table(out / "files.csv", ["file", "student_id", "student_name", "lesson", "status", "reason"], rows)
    known = [asdict(replace(s, notebook=None)) for s in submissions]
    write_text(out / "files.json", json.dumps(known, indent=1, default=lambda date: date.isoformat()))


def write_text(path: Path, text: str) -> None:
    """Write in one step; halves of surrogate pairs and control characters, which no page takes, become "�"."""
    clean = "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c < "\xa0") else "�" for c in text)
    write_whole(path, clean.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode("utf-8"))


# ------------------------------------------------------------------------------------------------- words


def rows_of(table: str) -> list[dict[str, str]]:
    with open(TEMPLATES / table, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@lru_cache
def dictionary() -> dict[str, Text]:
    return {row["key"]: both(row["en"], row["zh-TW"]) for row in rows_of("words.tsv")}


def words(language: str, key: str, **values: Any) -> str:
    return dictionary()[key][language].format(**values)


@lru_cache
def reasons() -> list[tuple[re.Pattern[str], str]]:
    """Each reason that `collect` and `grade` give, as a pattern for the English text, and its Chinese twin."""
    table = []
    for row in rows_of("reasons.tsv"):
        pieces = re.split(r"\{(\w+)\}", row["en"])  # text and names in turn
        pattern = "".join(f"(?P<{piece}>.+)" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))
        table.append((re.compile(pattern, re.IGNORECASE), row["zh-TW"]))
    return table


def twin(part: str) -> str | None:
    """The Chinese twin of one part of a reason."""
    for pattern, chinese in reasons():
        if found := pattern.fullmatch(part):
            values = {
                key: value.replace(", ", "、") if key == "names" else value for key, value in found.groupdict().items()
            }
            return chinese.format(**values)
    return None


def in_chinese(reason: str) -> str:
    """A reason (sentences of parts with "; " between them) in Chinese; as it is if there is no twin for all of it."""
    sentences = re.split(r"(?<=\.) (?=[A-Z])", reason)
    # A name of a file may hold what separates parts or sentences: then they are not taken apart.
    for split in ([s.rstrip(".").split("; ") for s in sentences], [[s[:-1]] for s in sentences], [[reason[:-1]]]):
        parts = [[twin(part) for part in sentence] for sentence in split]
        if all(part is not None for sentence in parts for part in sentence):
            return "".join("；".join(filter(None, sentence)) + "。" for sentence in parts)
    return reason


def reason_text(reason: str) -> Text:
    return both(reason, in_chinese(reason))


def number(value: float | None) -> str:
    return "–" if value is None else plain(value)


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "–"


def breakable(name: str) -> Markup:
    """A name that may be broken after its underscores, so that it fits a phone."""
    return escape(name).replace("_", Markup("_<wbr>"))


@lru_cache
def released_cells(lesson: str, language: str, lessons: Path) -> list[dict[str, Any]]:
    """The cells of a released notebook; none where it cannot be read."""
    try:
        return list(json.loads((lessons / language / f"{lesson}.ipynb").read_text(encoding="utf-8"))["cells"])
    except (OSError, ValueError, KeyError):
        return []


@lru_cache
def titles_of(lesson: str, lessons: Path) -> Text:
    """The first heading of the released notebook, in both languages; the lesson's name where there is none."""
    found = {}
    for language in LANGUAGES:
        cells = released_cells(lesson, language, lessons)
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        heading = next((line for line in text.splitlines() if line.startswith("# ")), lesson)
        found[language] = heading.lstrip("#").replace("`", "").replace("$", "").strip()
    return found


@lru_cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("autograder.pipeline"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    css = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    environment.globals.update(css=Markup(css), number=number, percent=percent, words=words, marks=MARKS)
    environment.globals.update(
        state_of=state_of, is_question=is_question, breakable=breakable, waiting_points=waiting_points
    )
    environment.globals.update(reason_text=reason_text)
    return environment


def render(template: str, language: str, **values: Any) -> str:
    return templates().get_template(template).render(language=language, t=partial(words, language), **values)


# ------------------------------------------------------------------------------------------------- feedback


def waits(grade: Grade) -> bool:
    """Whether a written answer still has to be graded."""
    return grade.status == "by hand" and grade.points is None


def waiting_points(record: Record) -> float:
    return sum(grade.max_points for grade in record.grades if waits(grade))


def state_of(grade: Grade) -> str:
    return "waiting" if waits(grade) else grade.status


def is_question(grade: Grade) -> bool:
    """Whether the answer is a letter: then the list of cases says nothing that the message does not say."""
    try:
        return get(grade.name).driver == "letter"
    except KeyError:
        return False


def page_paths(records: Sequence[Record]) -> list[str]:
    """feedback/<student>/<lesson>.html for each record; what could not be graded never takes a graded lesson's name."""
    paths: dict[int, str] = {}
    taken: set[str] = set()
    last: dict[
        str, int
    ] = {}  # by path without its ending: of thousands of files under one the numbers are not tried again
    for i in sorted(range(len(records)), key=lambda i: not records[i].grades):
        record = records[i]
        base = f"feedback/{record.student_id}/{record.lesson or 'file'}"
        count = last.get(base, 0) + 1
        path = f"{base}.html" if count == 1 else f"{base}-{count}.html"
        while path in taken:
            count += 1
            path = f"{base}-{count}.html"
        taken.add(path)
        last[base] = count
        paths[i] = path
    return [paths[i] for i in range(len(records))]


def feedback_page(record: Record, lessons: Path, shown_id: str, languages: Sequence[str] = LANGUAGES) -> str:
    """The page of one submission, in its language; of a file whose language nobody knows, in all of `languages`."""
    languages = [record.language] if record.language in LANGUAGES else languages
    if record.lesson is None or not record.grades:
        return render("unread.html.j2", languages[0], languages=languages, record=record, shown_id=shown_id)
    title = titles_of(record.lesson, lessons)[languages[0]]
    cells = released_cells(record.lesson, languages[0], lessons)
    released = {cell.get("id", ""): "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}
    grades = [
        replace(grade, answer=fold_docstrings(grade.answer, released.get(ANSWER + grade.name, "")))
        for grade in record.grades
    ]
    return render(
        "feedback.html.j2", languages[0], record=replace(record, grades=grades), title=title, shown_id=shown_id
    )


def fold_docstrings(answer: str, released: str) -> str:
    """The answer with \"\"\"…\"\"\" for each docstring that holds the released one: the student knows it, and it hides the code.

    By text, not by syntax, so that it works on code that Python cannot read.
    """
    for docstring in re.findall(r'"""(.+?)"""', released, re.DOTALL):
        text = r"\s+".join(map(re.escape, docstring.split()))  # however it is indented or broken into lines
        for quotes in ('"""', "'''"):
            found = re.search(text, answer)
            start = answer.rfind(quotes, 0, found.start()) if found else -1
            end = answer.find(quotes, found.end()) if found else -1
            if start >= 0 and end >= 0:
                answer = answer[: start + 3] + "…" + answer[end:]
    return answer


# ------------------------------------------------------------------------------------------------- class


@dataclass
class MistakeMade:
    """A mistake and who made it."""

    message: Text
    records: list[Record] = field(default_factory=list)


@dataclass
class ExerciseStatistics:
    """How a class did in one exercise.

    Attributes:
        mean: of the answers that have points; None as long as all that are there wait for the instructor.
        others: wrong without a recognised mistake.
    """

    name: str
    max_points: float
    mean: float | None
    counts: dict[str, int]
    mistakes: list[MistakeMade]
    others: list[Record]


@dataclass
class LessonStatistics:
    """How a class did in one lesson.

    Attributes:
        max_points: of the exercises in which somebody has points; what nobody has been graded in yet is left out.
        waiting: the points of those left out.
        totals: what each submission has of these so far, less the points off for handing in late.
        shares: the totals as parts of what each could have had so far: an answer that waits costs nothing.
    """

    lesson: str
    titles: Text
    max_points: float
    waiting: float
    totals: list[float]
    shares: list[float]
    exercises: list[ExerciseStatistics]

    @property
    def mean(self) -> float:
        return mean(self.totals)

    @property
    def median(self) -> float:
        return median(self.totals)

    @property
    def columns(self) -> list[str]:
        """Of the table of exercises; a lesson without written answers has none that wait."""
        return [column for column in COLUMNS if column != "wait" or any(e.counts["wait"] for e in self.exercises)]

    @property
    def bars(self) -> list[dict[str, Any]]:
        """The histogram of totals, in the coordinates of the template's picture."""
        counts = [0] * BINS
        for share in self.shares:
            counts[min(BINS - 1, int(BINS * share))] += 1
        bars = []
        for i, count in enumerate(counts):
            height = round(90 * count / max(counts), 1)
            label = f"{100 * i // BINS}–{100 * (i + 1) // BINS}%"
            bars.append({"x": 10 + 32.5 * i, "y": 112 - height, "height": height, "count": count, "label": label})
        return bars


def statistics(records: Sequence[Record], lessons: Path = LESSONS) -> list[LessonStatistics]:
    """How the class did, lesson by lesson; lessons without a graded submission are left out."""
    by_lesson: dict[str, list[Record]] = {}
    for record in records:
        if record.lesson is not None and record.grades:
            by_lesson.setdefault(record.lesson, []).append(record)
    return [lesson_statistics(lesson, group, titles_of(lesson, lessons)) for lesson, group in sorted(by_lesson.items())]


def lesson_statistics(lesson: str, group: Sequence[Record], titles: Text) -> LessonStatistics:
    scored = dict.fromkeys(g.name for r in group for g in r.grades if g.status != "not scored")
    exercises = [exercise_statistics(name, group) for name in scored]
    known = {e.name: e.max_points for e in exercises if e.mean is not None}
    waiting = sum(e.max_points for e in exercises if e.mean is None)
    totals, shares = [], []
    for record in group:
        counted = [g for g in record.grades if g.name in known and g.points is not None]
        totals.append(round(sum(g.points or 0.0 for g in counted) - record.penalty, 2))
        possible = sum(g.max_points for g in counted)
        shares.append(max(totals[-1], 0.0) / possible if possible else 0.0)
    return LessonStatistics(lesson, titles, sum(known.values()), waiting, totals, shares, exercises)


def exercise_statistics(name: str, group: Sequence[Record]) -> ExerciseStatistics:
    pairs = [
        (record, grade)
        for record in group
        for grade in record.grades
        if grade.name == name and grade.status != "not scored"
    ]
    points = [grade.points for _, grade in pairs if grade.points is not None]
    counts = dict.fromkeys(COLUMNS, 0)
    made: dict[str, MistakeMade] = {}  # by sentence: mistakes that cannot be told apart share it
    others = []
    for record, grade in pairs:
        column = column_of(grade)
        counts[column] += 1
        if grade.mistake is not None:
            made.setdefault(grade.message["en"], MistakeMade(grade.message)).records.append(record)
        elif grade.error:
            text = {language: words(language, "raised", error=grade.error) for language in LANGUAGES}
            made.setdefault(text["en"], MistakeMade(text)).records.append(record)
        elif column in ("partial", "none") and grade.lines:
            others.append(record)
    mistakes = sorted(made.values(), key=lambda mistake: -len(mistake.records))
    begun = not counts["wait"] or any(g.status == "by hand" and g.points is not None for _, g in pairs)
    average = mean(points) if points and begun else None
    return ExerciseStatistics(name, max(g.max_points for _, g in pairs), average, counts, mistakes, others)


def column_of(grade: Grade) -> str:
    if grade.status == "not started":
        return "not started"
    if grade.points is None:
        return "wait"
    return "full" if grade.points >= grade.max_points else "partial" if grade.points > 0 else "none"


@dataclass
class Message:
    """What there is to say, the exercises it is said of, and the line of code or the other student that it points to."""

    text: Text
    exercises: list[str] = field(default_factory=list)
    code: str = ""
    other: Record | None = None


@dataclass
class Entry:
    """A student's lesson in the list of what needs a look; `count`: how many answers it stands for."""

    record: Record | Submission | None = None
    messages: list[Message] = field(default_factory=list)
    count: int = 1


@dataclass
class Look:
    """What needs a look, of one kind (a key of the words: "look " + kind)."""

    kind: str
    entries: list[Entry] = field(default_factory=list)
    # Where in `entries` what was added stands, and which of its messages: one student may have thousands.
    by_key: dict[tuple[str, str], Entry] = field(default_factory=dict)
    by_text: dict[tuple[str, str, str], Message] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(entry.count for entry in self.entries)

    def add(
        self, record: Record | Submission, text: Text, exercise: str = "", code: str = "", other: Record | None = None
    ) -> None:
        """One entry for a student's lesson (or file that has none), one message for what is said of several exercises."""
        key = record.student_id, record.source if self.kind == "unread" else record.lesson or ""
        if key not in self.by_key:
            self.by_key[key] = Entry(record)
            self.entries.append(self.by_key[key])
        said = (*key, text["en"])
        if said not in self.by_text:
            self.by_text[said] = Message(text, code=code, other=other)
            self.by_key[key].messages.append(self.by_text[said])
        message = self.by_text[said]
        message.exercises += [exercise] if exercise else []


# What is told of a file whose owner is not beyond doubt (claims.py, collect.py).
OF_DOUBT = (
    "It claims the id ",
    "Its id is claimed by another's file",
    "The id alone says that it is the same student's",
    "What was called so had the id ",
)


def things_to_look_at(
    records: Sequence[Record], submissions: Sequence[Submission], about: ClassList | None = None
) -> list[Look]:
    """What an instructor should not overlook, the gravest first."""
    about = about or ClassList()
    repaired = {(s.student_id, s.lesson) for s in submissions if s.status == "repaired"}
    kinds = (
        "ended", "fault", "unread", "claimed", "whose", "other id", "release", "stranger", "missing", "by hand", "not allowed", "alike",
        "unusual", "stopped", "repaired", "superseded", "waiting",
    )  # fmt: skip
    looks = {kind: Look(kind) for kind in kinds}
    waiting: dict[str, int] = {}
    for record in records:
        reason = reason_text(record.reason)
        if record.status == "not run":
            looks["ended"].add(record, reason_text(record.told))
        elif not record.grades:
            looks["unread"].add(
                record, both(f"{reason['en']} ({record.source})", f"{reason['zh-TW']}（{record.source}）")
            )
        elif (record.student_id, record.lesson) in repaired:
            looks["repaired"].add(record, reason)
        for grade in record.grades:
            if grade.status in ("not allowed", "stopped"):
                looks[grade.status].add(record, grade.message, grade.name)
            elif grade.status == "not scored":
                looks["release"].add(record, grade.message, grade.name)
            elif waits(grade):
                waiting[grade.name] = waiting.get(grade.name, 0) + 1
        if record.fault and record.status != "not run":
            looks["fault"].add(record, reason_text(record.fault))
        if any(words in record.remark for words in OF_DOUBT):
            looks["whose"].add(record, reason_text(record.remark))
        if lost := re.search(re.escape(FOR_ANOTHER) + r"(.+?\))\.", record.remark):
            looks["by hand"].add(record, both(lost[1], lost[1].replace(", ", "、")))
        for note in record.notes:
            looks["stopped"].add(record, note)
        for line in record.to_look_at:
            looks["unusual"].add(record, line.text, code=line.code)
    for record in with_other_id(records, about.roster):
        found = {lang: words(lang, "found id", id=record.notebook_id, source=record.source) for lang in LANGUAGES}
        looks["other id"].add(record, found)
    for member, claims in about.claimed:
        for record in claims:
            others = ", ".join(f"{r.student_name} ({r.student_id})" for r in claims if r is not record)
            text = {
                lang: words(lang, "claimed by", name=member.name, number=member.number, others=others)
                for lang in LANGUAGES
            }
            looks["claimed"].add(record, text)
    for record in about.strangers:
        looks["stranger"].add(record, both(record.source, record.source))
    for record in about.missing:
        looks["missing"].add(record, reason_text(record.reason))
    for pair in about.alike:
        name, share = f"{pair.other.student_name} ({about.shown_id(pair.other)})", percent(pair.share, 1)
        text = {lang: words(lang, "alike with", name=name, share=share) for lang in LANGUAGES}
        for exercise in pair.exercises:
            looks["alike"].add(pair.one, text, exercise, other=pair.other)
    for submission in submissions:
        if submission.unknown_release and submission.status in GRADED:
            unknown = {lang: words(lang, "unknown release", release=submission.release) for lang in LANGUAGES}
            looks["release"].add(submission, unknown)
        if submission.status == "superseded":
            reason, source = reason_text(submission.reason), submission.source
            looks["superseded"].add(submission, both(f"{source}: {reason['en']}", f"{source}：{reason['zh-TW']}"))
    for name, count in waiting.items():
        text = {language: words(language, "answers wait", count=count) for language in LANGUAGES}
        looks["waiting"].entries.append(Entry(None, [Message(text, [name])], count))
    return [look for look in looks.values() if look.entries]


def with_other_id(records: Sequence[Record], roster: Roster | None = None) -> list[Record]:
    """Records in whose notebook another student's id stands: by the list of the class, where it knows the student.

    Else by the names of plain folders. A course may name those in its own way: then nearly all differ.
    """
    told = roster.typed_anothers(records) if roster is not None else {}
    plain_ones = [r for r in records if r.notebook_id and not r.platform]
    other = {id(r) for r in plain_ones if safe_id(r.notebook_id).casefold() != r.student_id.casefold()}
    students, unlike = (
        {r.student_id for r in some} for some in (plain_ones, [r for r in plain_ones if id(r) in other])
    )
    by_folder = other if 2 * len(unlike) <= len(students) else set()
    return [r for r in records if told.get(id(r), id(r) in by_folder)]


def class_page(
    records: Sequence[Record], submissions: Sequence[Submission], paths: Sequence[str], language: str, lessons: Path,
    about: ClassList, out: Path,
) -> str:  # fmt: skip
    pages = {(r.student_id, r.lesson, r.source): quote(path) for r, path in zip(records, paths)}
    graded = [record for record in records if record.grades]
    counts = [
        ("students", about.students(records)),
        ("submissions", len(graded)),
        ("unread", len(records) - len(graded)),
        ("waiting", sum(waits(grade) for record in graded for grade in record.grades)),
    ]
    if about.roster is not None:
        counts.append(("not handed in", len(about.missing)))
    other = next(name for name in LANGUAGES if name != language)

    def href(record: Record | Submission) -> str:
        return pages.get((record.student_id, record.lesson, record.source), "")

    return render(
        "class.html.j2", language, records=[*records, *about.missing], href=href, shown_id=about.shown_id, counts=counts,
        lessons=statistics(records, lessons), looks=things_to_look_at(records, submissions, about),
        other_language=other, other_page=CLASS_PAGES[other], out=shlex.quote(str(out)),
        submitted=out / "nbgrader/submitted",
    )  # fmt: skip


def most_frequent(lessons: Sequence[LessonStatistics], limit: int = 5) -> list[tuple[str, MistakeMade]]:
    """The mistakes made most often in a class, each with its exercise."""
    made = [(exercise.name, m) for lesson in lessons for exercise in lesson.exercises for m in exercise.mistakes]
    return sorted(made, key=lambda pair: -len(pair[1].records))[:limit]
