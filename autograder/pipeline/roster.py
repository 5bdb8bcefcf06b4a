"""The list of a class: a CSV file of the learning platform, or one's own. Who is on it and handed in nothing gets a row too.

Three kinds are told apart by their columns: Moodle's grading worksheet of an assignment, Canvas's exported gradebook
(NTU COOL is a Canvas), and any other table with a column of ids. The files are kept in the folder of grades as they came,
so that reports and the files for the platform (lms.py) can be made again.

Moodle numbers the participants of each assignment anew, so a course has a worksheet for each lesson. Several files are one
class: their rows are joined by the student number.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path

from autograder.pipeline.records import Record
from autograder.pipeline.submission import FROM_FILE_NAME, OF_NOBODY, Submission, names_nobody_known, normal, safe_id
from autograder.pipeline.whole import write_whole

FILE = "roster.csv"  # the next ones are roster-2.csv, …
# Columns by their headings, in lower case. "identifier" is the number that Moodle's folder names carry.
NUMBERS = (
    "student_id",
    "student id",
    "studentid",
    "id number",
    "id 號碼",
    "學號",
    "sis user id",
    "sis login id",
    "學號/編號",
    "編號",  # so Moodle in Chinese; elsewhere it may count the rows
    "id",
)
OTHER_IDS = (
    "username",
    "login",
    "帳號",
    "email address",
    "email",
    "e-mail",
    "電子郵件",
    "電子郵件地址",
    "電子郵件信箱",
)
NAMES = ("student_name", "student name", "full name", "name", "student", "姓名", "全名", "完整名稱", "學生")
# "Last modified (submission)", as Moodle's English and Chinese language packs call it; without blanks
SUBMITTED = re.compile(r"(?:lastmodified|最[後后]修改的?|上次修改的?)\((?:submission|作[業业]|繳交|提交|[學学]生)\)")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?"
DATES = (
    rf"(?:\w+, )?(?P<day>\d{{1,2}}) (?P<month>[a-z]{{3,9}}) (?P<year>\d{{4}}),? {CLOCK} ?(?P<half>[ap]m)?",
    rf"(?:\w+, )?(?P<month>[a-z]{{3,9}}) (?P<day>\d{{1,2}}), (?P<year>\d{{4}}),? {CLOCK} ?(?P<half>[ap]m)?",
    rf"(?P<year>\d{{4}})年 ?(?P<month>\d{{1,2}})月 ?(?P<day>\d{{1,2}})日[^\d上下]*(?P<half>[上下]午)? ?{CLOCK}",
    rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)[ t]{CLOCK}(?P<half>)",
)
TEST_STUDENT = {
    "student, test",
    "test student",
    "測試學生",
    "學生, 測試",
    "测试学生",
    "学生, 测试",
}  # of every Canvas course
FROM_WORKSHEET = "Its time is the one in Moodle's worksheet."
MOODLE_ID = re.compile(r"\D*?\s*(\d+)")


class RosterError(RuntimeError):
    """The list of the class cannot be read; the text is one line for the instructor."""


@dataclass(frozen=True)
class Member:
    """A row of the roster.

    Attributes:
        platform_id: the id that the platform writes into the names of submitted files; "" in a table of one's own, and where
            it is another one in each assignment.
        number: the student number, or whatever the first column of ids holds.
        ids: all of these and other names of the student, in lower case.
    """

    platform_id: str
    number: str
    name: str
    ids: frozenset[str]
    row: int


@dataclass(frozen=True)
class Roster:
    """The class.

    Attributes:
        kind: "moodle", "canvas" or "plain"; "several" where files are joined.
        head, rows: the file as it came.
        joined: the files that this class is joined from.
        unnumbered: the names that have something there which is no number; without another id they are no members.
    """

    kind: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    members: tuple[Member, ...]
    joined: tuple["Roster", ...] = ()
    unnumbered: tuple[str, ...] = ()

    @property
    def files(self) -> tuple["Roster", ...]:
        return self.joined or (self,)

    @cached_property
    def by_id(self) -> dict[str, Member | None]:
        """The member of each id; None where several have it."""
        found: dict[str, Member | None] = {}
        for member in self.members:
            found.update({id_: None if id_ in found else member for id_ in member.ids})
        return found

    @cached_property
    def by_platform_id(self) -> dict[tuple[str, str], Member | None]:
        """The member of each id that a platform writes, by its kind. "plain": what a list of one's own holds."""
        by_number = {member.number.casefold(): member for member in self.members}
        found: dict[tuple[str, str], Member | None] = {}
        for file in self.files:
            for one in file.members:
                member = by_number[one.number.casefold()] if self.joined else one
                for id_ in one.ids if file.kind == "plain" else {one.platform_id}:
                    found[file.kind, id_] = member if found.get((file.kind, id_), member) == member else None
        return found

    def member_with(self, id_: str) -> Member | None:
        return self.by_id.get(id_.casefold()) or self.by_id.get(safe_id(id_).casefold()) if id_ else None

    def member_who_came(self, file: Record | Submission) -> Member | None:
        """Whose the id is that the file came with.

        A platform's number is looked for in the platform's own file: in another's the same number is somebody else's.
        """
        if not file.platform:
            return self.member_with(file.student_id)
        kind = file.platform if self.has(file.platform) else "plain"
        return self.by_platform_id.get((kind, file.student_id.casefold()))

    def has(self, kind: str) -> bool:
        return any(file.kind == kind for file in self.files)

    def not_on_it(self, files: Sequence[Record] | Sequence[Submission]) -> set[int]:
        """Files (their `id()`) of whom the platform's own list does not hold: whatever they typed, it is not theirs.

        Canvas's list knows all of its numbers. Moodle's worksheet knows those of one assignment, and so it is the lesson's own
        where it holds at least half of its numbers: one who hands a lesson in at the wrong place does not make it that.
        """
        theirs = [file for file in files if file.platform and self.has(file.platform)]
        unknown = [file for file in theirs if self.member_who_came(file) is None]
        came = Counter(file.lesson for file in theirs if file.platform == "moodle")
        lost = Counter(file.lesson for file in unknown if file.platform == "moodle")
        return {id(file) for file in unknown if file.platform == "canvas" or 2 * lost[file.lesson] <= came[file.lesson]}

    def whose(self, files: Sequence[Record] | Sequence[Submission]) -> dict[int, Member]:
        """Whose each file is, by its `id()`: by the id that it came with, by the one typed into it, by what `find` found.

        Where a platform named most files of a lesson, it decides: who came with their number has it alone, and whoever typed
        it is a stranger. In folders of files students chose the names too: then all who say that they are a member claim it.
        """
        not_on_it = self.not_on_it(files)
        handed_in = [file for file in files if file.status != "no submission"]
        count = Counter(file.lesson for file in handed_in)
        by_platform = Counter(file.lesson for file in handed_in if file.platform)
        found, sure = dict[int, Member](), dict[tuple[Member, str | None], set[int]]()
        for file in files:
            if member := self.member_who_came(file):
                found[id(file)] = member
                if file.platform and 2 * by_platform[file.lesson] > count[file.lesson]:
                    sure.setdefault((member, file.lesson), set()).add(id(file))
            elif id(file) not in not_on_it and (
                member := self.member_with(file.notebook_id) or self.member_with(file.listed)
            ):
                found[id(file)] = member
        lesson = {id(file): file.lesson for file in files}
        return {one: member for one, member in found.items() if one in sure.get((member, lesson[one]), {one})}

    def member_named(self, file: Record | Submission) -> Member | None:
        """The only one with this name; nobody where an id says that it is somebody else's."""
        if file.notebook_id or (not file.platform and len(re.findall(r"\d", file.student_id)) > 3):
            return None
        names = both_orders(file.student_id) | both_orders(file.student_name)
        found = [member for member in self.members if names & both_orders(member.name)]
        return found[0] if len(found) == 1 else None

    def find(self, files: Sequence[Record] | Sequence[Submission]) -> None:
        """Give students the names that they have on the list, and find by name whose number stands nowhere.

        A name counts where one on the list has it, and one student has handed in a lesson under it; one that is typed counts
        where no file came under it.
        """
        for file in files:
            file.listed = ""
        whose, not_on_it = self.whose(files), self.not_on_it(files)
        named = {
            id(file): member
            for file in files
            if id(file) not in whose and id(file) not in not_on_it and (member := self.member_named(file))
        }
        under_it = {id(file) for file in files if (member := named.get(id(file))) and came_under(file, member.name)}
        taken = {(named[id(file)], file.lesson) for file in files if id(file) in under_it}
        for file in files:
            if id(file) not in under_it and (named.get(id(file)), file.lesson) in taken:
                del named[id(file)]
        claims: dict[tuple[Member, str | None], set[str]] = {}
        for file in files:
            if member := whose.get(id(file)) or named.get(id(file)):
                claims.setdefault((member, file.lesson), set()).add(file.student_id)
        for file in files:
            member = named.get(id(file))
            if member is not None and len(claims[member, file.lesson]) == 1:
                file.listed = member.number
            elif id(file) in whose:
                member = self.member_who_came(file)
            else:
                member = None
            if member is not None:
                if member.name != member.number:  # which stands for it in a list without names
                    file.student_name = member.name
                file.reason = file.reason.replace(OF_NOBODY, FROM_FILE_NAME)

    def numbers(self, records: Sequence[Record]) -> dict[tuple[str, str | None], str]:
        """The student number of each record's student and lesson, where it is clear whose it is."""
        unclear = {id(r) for found in self.claims(records).values() if len(found) > 1 for r in found}
        whose = self.whose(records)
        return {
            (r.student_id, r.lesson): whose[id(r)].number for r in records if id(r) in whose and id(r) not in unclear
        }

    def claims(self, records: Sequence[Record]) -> dict[tuple[Member, str], list[Record]]:
        """The graded records of each member and lesson. Several mean that somebody typed the number of somebody else."""
        whose = self.whose(records)
        found: dict[tuple[Member, str], list[Record]] = {}
        for record in records:
            if record.grades and id(record) in whose:
                found.setdefault((whose[id(record)], record.lesson or ""), []).append(record)
        return found

    def missing(self, records: Sequence[Record]) -> list[Record]:
        """A row for each lesson that others handed in and a student of the roster did not."""
        whose = self.whose(records)
        handed_in = {(whose.get(id(record)), record.lesson) for record in records}
        unclear = {member for member, lesson in handed_in if lesson is None}  # a file that could not be read
        lessons = sorted({record.lesson for record in records if record.lesson is not None and record.grades})
        return [
            Record(
                safe_id(m.platform_id or m.number), m.name, lesson, "", "", "no submission", "Nothing was handed in."
            )
            for m in self.members
            for lesson in lessons
            if (m, lesson) not in handed_in and m not in unclear
        ]

    def strangers(self, records: Sequence[Record]) -> list[Record]:
        """Records of nobody on the roster; a file that names nobody is no stranger's."""
        whose = self.whose(records)
        return [record for record in records if id(record) not in whose and not names_nobody_known(record)]

    def typed_anothers(self, records: Sequence[Record]) -> dict[int, bool]:
        """Whether another student's id stands in the notebook, by the record's `id()`, wherever the list can tell.

        An id that nobody on the list has may be a mistyped one. Where most have such ids, the list holds other ids than those
        that are typed (e-mail addresses, say), and tells nothing.
        """
        whose = self.whose(records)
        found: dict[int, bool] = {}
        nobodys, known = [], 0
        for record in records:
            if not record.notebook_id:
                continue
            own, typed = self.member_who_came(record), self.member_with(record.notebook_id)
            known += own is not None
            if own is not None and typed is None:
                nobodys.append(record)
            elif own is not None or (typed is not None and whose.get(id(record)) != typed):
                found[id(record)] = typed != own
        found.update({id(record): 2 * len(nobodys) <= known for record in nobodys})
        return found


def read_rosters(paths: Iterable[Path]) -> list[tuple[bytes, Roster]]:
    """The files of a class, each as it came and as it is understood.

    Raises:
        RosterError: if one cannot be read.
    """
    found = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise RosterError(f"{path}: {problem.strerror}") from None
        found.append((data, parse(data, path.name)))
    return found


def keep_rosters(new: Sequence[tuple[bytes, Roster]], out: Path) -> None:
    """Copy the files of a class into the folder of grades, in place of those that were there.

    Moodle's worksheets of other assignments stay: a course gives one after the other.
    """
    if not new:
        return
    earlier = [path.read_bytes() for path in kept_files(out)]
    kept = []
    if all(roster.kind == "moodle" for _, roster in new):
        participants = {m.platform_id for _, roster in new for m in roster.members}
        for data in earlier:
            roster = parse(data, FILE)
            if roster.kind == "moodle" and not participants & {m.platform_id for m in roster.members}:
                kept.append(data)
    for path in kept_files(out):
        path.unlink()
    for i, data in enumerate([*kept, *(data for data, _ in new)], start=1):
        write_whole(out / (FILE if i == 1 else f"roster-{i}.csv"), data)


def kept_files(out: Path) -> list[Path]:
    return sorted([*out.glob(FILE), *out.glob("roster-*.csv")], key=lambda path: (len(path.name), path.name))


def load_roster(out: Path) -> Roster | None:
    """The class kept in the folder of grades, or None.

    Raises:
        RosterError: if it cannot be read.
    """
    found = [parse(path.read_bytes(), str(path)) for path in kept_files(out)]
    return joined(found) if found else None


def joined(rosters: Sequence[Roster]) -> Roster:
    """Several files as one class: rows with the same student number are one student."""
    if len(rosters) == 1:
        return rosters[0]
    rows: dict[str, list[Member]] = {}
    for roster in rosters:
        for member in roster.members:
            rows.setdefault(member.number.casefold(), []).append(member)
    members = []
    for i, same in enumerate(rows.values()):
        platform_ids = {member.platform_id for member in same} - {""}
        own = platform_ids.pop() if len(platform_ids) == 1 else ""
        ids = frozenset().union(*(member.ids for member in same))
        members.append(Member(own, same[0].number, same[0].name, ids, i))
    unnumbered = dict.fromkeys(name for roster in rosters for name in roster.unnumbered)
    return Roster("several", (), (), tuple(members), tuple(rosters), tuple(unnumbered))


def parse(data: bytes, name: str) -> Roster:
    lines = io.StringIO(decoded(data), newline="")  # a cell may hold several lines, which stay as they are
    try:
        table = [row for row in csv.reader(lines, delimiter=delimiter(data)) if any(row)]
    except csv.Error as problem:
        raise RosterError(f"{name} cannot be read: {problem}") from None
    if len(table) < 2:
        raise RosterError(f"{name} is no list of a class: it needs a line of headings and a line for each student")
    head, rows = tuple(cell.strip() for cell in table[0]), tuple(tuple(row) for row in table[1:])
    columns = {heading.casefold(): i for i, heading in reversed(list(enumerate(head)))}
    kind = kind_of(head, rows)
    not_here = {"canvas": "id", "plain": "編號"}.get(kind)
    numbers = [columns[heading] for heading in NUMBERS if heading in columns and heading != not_here]
    others = [columns[heading] for heading in OTHER_IDS if heading in columns]
    name_column = next((columns[heading] for heading in NAMES if heading in columns), None)
    if kind == "plain" and not numbers + others:
        raise RosterError(f"{name} has no column of student ids: call one of them student_id or 學號")
    labels = [cell(row, name_column) if name_column is not None else " ".join(names_in(row, columns)) for row in rows]
    no_number = no_numbers(rows, numbers, labels)
    members: dict[tuple[str, str], Member] = {}
    unnumbered: dict[str, None] = {}  # in the order of the list
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        platform_id = platform_id_of(kind, head, row)
        there = [cell(row, column) for column in numbers]
        own = [value for value in there if normal(value) not in no_number]
        if label and any(there) and not any(own):
            unnumbered[label] = None
        values = [*own, *(cell(row, column) for column in others)]
        first = next(filter(None, values), platform_id)
        if not first or (kind == "canvas" and (not platform_id or is_test_student(label, row, columns))):
            continue  # Canvas's line of the points that are possible
        ids = {value.casefold() for value in (platform_id, *values, safe_id(first)) if value}
        ids |= {value.split("@")[0] for value in ids if "@" in value}
        member = Member(platform_id, first, label or first, frozenset(ids), i)
        before = members.setdefault((platform_id, normal(first)), member)
        if not may_be_one(before, member):
            raise RosterError(
                f"{name} has two students with the id {first}: {before.name} and {member.name}; mend the list"
            )
        named = member if letters(member) and not letters(before) else before
        members[platform_id, normal(first)] = replace(before, name=named.name, ids=before.ids | member.ids)
    if not members:
        raise RosterError(f"{name} names no students")
    return Roster(kind, head, rows, tuple(members.values()), unnumbered=tuple(unnumbered))


def no_numbers(rows: Sequence[Sequence[str]], numbers: Sequence[int], labels: Sequence[str]) -> set[str]:
    """What stands for several people where a number should, without a digit: "-", "旁聽", "Total".

    An account such as "annw" is one student's, and stays an id.
    """
    people: dict[str, set[str]] = {}
    for row, label in zip(rows, labels, strict=True):
        for value in (normal(cell(row, column)) for column in numbers):
            if value and label and not any(map(str.isdigit, value)):
                people.setdefault(value, set()).add(letters_of(label))
    return {value for value, names in people.items() if len(names) > 1}


def may_be_one(one: Member, other: Member) -> bool:
    """Whether two lines with one id can be of the same student, as in a list that was put together from several."""
    return letters(one) == letters(other) or not (letters(one) and letters(other))


def letters(member: Member) -> str:
    """The letters of a name; "" where the list has none and the number stands for it."""
    return letters_of(member.name) if member.name != member.number else ""


def letters_of(name: str) -> str:
    """In no order and without blanks: "Ann Lee", "Lee, Ann" and "Ann  Lee" are one."""
    return "".join(sorted(filter(str.isalnum, normal(name))))


def decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    for encoding in ("utf-8-sig", "cp950"):  # what Excel in Taiwan writes
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace")


def delimiter(data: bytes) -> str:
    first = decoded(data).split("\n", 1)[0]
    return max(",;\t", key=first.count)


def kind_of(head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> str:
    student = ("Student" in head[0] and head[1:2] == ("ID",)) or head[:3] == ("LastName", "FirstName", "ID")
    if len(head) > 3 and student and "Section" in head:
        return "canvas"
    # Moodle's headings are in the language of the site; its first column is "Participant 12345" in that language.
    if len(head) >= 5 and all(re.fullmatch(r"\D+?\s*\d+", cell(row, 0)) for row in rows):
        return "moodle"
    return "plain"


def platform_id_of(kind: str, head: tuple[str, ...], row: Sequence[str]) -> str:
    if kind == "moodle":
        found = MOODLE_ID.fullmatch(cell(row, 0))
        return found[1] if found else ""
    number = cell(row, head.index("ID")) if kind == "canvas" else ""
    return number if number.isdigit() else ""


def came_under(file: Record | Submission, name: str) -> bool:
    """Whether the platform, the folder or the file carries a name, which need not be so where it is typed."""
    names = both_orders(file.student_id)
    if file.platform or safe_id(file.student_name).casefold() == file.student_id.casefold():  # "Lee, Ann" and "Lee_Ann"
        names |= both_orders(file.student_name)
    return bool(names & both_orders(name))


@lru_cache(maxsize=4096)
def both_orders(name: str) -> frozenset[str]:
    """A name as ids are made of it; "Lee, Ann" is "Ann Lee" too."""
    last, _, first = name.partition(", ")
    return frozenset({safe_id(name).casefold(), safe_id(f"{first} {last}").casefold()})


def is_test_student(name: str, row: Sequence[str], columns: dict[str, int]) -> bool:
    """Whether a row of Canvas's gradebook is the instructor's view as a student, which no school has given a number."""
    number = columns.get("sis user id")
    return name.casefold() in TEST_STUDENT and (number is None or not cell(row, number))


def names_in(row: Sequence[str], columns: dict[str, int]) -> list[str]:
    pairs = (("first name", "last name"), ("firstname", "lastname"), ("姓氏", "名字"))
    return [cell(row, columns[heading]) for pair in pairs for heading in pair if heading in columns]


def cell(row: Sequence[str], column: int) -> str:
    return row[column].strip() if column < len(row) else ""


def take_times(files: Iterable[Submission], rosters: Iterable[Roster]) -> None:
    """Set the times of what Moodle's worksheets say when it was handed in."""
    told: dict[str, str] = {}
    for roster in rosters:
        column = next((i for i, heading in enumerate(roster.head) if SUBMITTED.fullmatch(folded(heading))), None)
        if roster.kind == "moodle" and column is not None:
            told.update({member.platform_id: cell(roster.rows[member.row], column) for member in roster.members})
    for file in files:
        text = told.get(file.student_id, "") if file.platform == "moodle" and file.status != "superseded" else ""
        if text in ("", "-"):
            continue
        if time := moodle_time(text):
            file.received = time
            file.tell(FROM_WORKSHEET)
        else:
            file.tell(f'The worksheet says "{text}", which is no time that can be read: the file\'s own is taken.')


def folded(heading: str) -> str:
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", heading)).casefold()


def moodle_time(text: str) -> datetime | None:
    """A date as Moodle writes it in English or Chinese ("Tuesday, 10 March 2026, 8:00 PM"), or None."""
    plain = " ".join(unicodedata.normalize("NFKC", text).split()).casefold()
    found = next(filter(None, (re.fullmatch(pattern, plain) for pattern in DATES)), None)
    if found is None:
        return None
    hour, half = int(found["hour"]), found["half"] or ""
    if half:
        hour = hour % 12 + 12 * half.startswith(("p", "下"))
    try:
        month = int(found["month"]) if found["month"].isdecimal() else MONTHS.index(found["month"][:3]) + 1
        return datetime(
            int(found["year"]), month, int(found["day"]), hour, int(found["minute"]), int(found["second"] or 0)
        )
    except ValueError:  # no such month, day or hour
        return None
