"""The files of a pile of submissions: a folder or a zip, zips inside zips, with limits, and names as systems write them."""

from __future__ import annotations

import io
import logging
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)
FILE_LIMIT = 128 * 2**20  # bytes of one file, unpacked
TOTAL_LIMIT = 4 * 2**30  # bytes of the whole pile, unpacked
NESTED_LIMIT = 2**30  # bytes of one zip inside the pile
SHARE = 4  # a zip inside the pile gets no more than this part of what is left of the class's, whatever comes before it
RATIO_LIMIT = (
    1100  # deflate reaches 1032 at most: an honest notebook of repeated output may come near, a bomb goes beyond
)
DEPTH_LIMIT = 3  # zips inside zips
COUNT_LIMIT = 50_000  # files
NESTED_COUNT = 5_000  # files of one zip inside the pile, which may be the export of a class
DIRECTORY_LIMIT = 4 * 2**20  # bytes of the list of members of a zip inside the pile: zipfile reads all of it
SCRIPT_SIZE = 1_200_000  # bytes of a .py file: no encoding puts 300,000 characters into more
SCRIPT_COST = 3 * 2**20  # bytes: to take a script apart takes as long as to unpack so many, or longer
ENTRY_SIZE = 5_000  # bytes: to list a member takes as long as to unpack so many
NAME_LIMIT = 255  # characters of a file's or folder's name
FOLDER_LIMIT = 40  # folders in folders
CROWD = 200  # files in a folder that are not many
LATEST = datetime(9999, 1, 1).timestamp()  # file systems know later dates than Python


class CollectError(Exception):
    """The pile as a whole cannot be read; the message is one line for the instructor."""


# ---------------------------------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------------------------------


Dates = tuple[tuple[int, datetime | None], ...]


@dataclass(frozen=True)
class File:
    """A file of the pile: its path (folders and zips it lies in, then its name) and its bytes, or why there are none.

    Attributes:
        received: when the file came, or the outermost zip inside the pile that it lies in: a zip's own dates are written
            by whoever made the zip.
        dates: for a file in a zip inside the pile: how many parts of the path name the zip, and its date; so on for the
            zips in it, and for the file.
    """

    path: tuple[str, ...]
    received: datetime | None
    data: bytes = b""
    problem: str = ""
    dates: Dates = ()

    def received_below(self, part: int) -> datetime | None:
        """The date of what was put into the folder (or zip) `path[part]`, or of that zip where it was handed in itself."""
        return next((date for parts, date in self.dates if parts > part), self.received)


@dataclass
class Budget:
    """What may still be unpacked. A zip inside the pile has a share of its own, charged to its parents too."""

    left: int
    files: int
    parent: Budget | None = None

    def share(self) -> Budget:
        return Budget(min(NESTED_LIMIT, self.left // SHARE), min(NESTED_COUNT, self.files // SHARE), self)

    def spend(self, size: int) -> bool:
        self.left -= size
        return self.left >= 0 and (self.parent is None or self.parent.spend(size))

    def next_file(self) -> bool:
        self.files -= 1
        return self.files >= 0 and (self.parent is None or self.parent.next_file())


class _Refused(Exception):
    """A file is not read; the message becomes the reason of its row."""


COPIES = {"__MACOSX", ".ipynb_checkpoints"}  # folders of what stands beside them once more
LITTER = {"__pycache__", "Thumbs.db", "desktop.ini", *COPIES}
DOCUMENT = {"[Content_Types].xml", "mimetype"}  # members of .docx, .odt and the like, which are zip files too
TEXT_TYPES = {"", ".py", ".json", ".txt", ".html", ".htm", ".download"}
LIBRARIES = {"autograder", "course_lib", "site-packages"}  # folders of programs that nobody in the class has written


def is_litter(parts: Iterable[str]) -> bool:
    """True for what macOS, Windows and Jupyter leave behind: .DS_Store, ._x, .ipynb_checkpoints, __MACOSX."""
    return any(re.match(r"\.[^.]", part) or part in LITTER for part in parts)


def may_be_work(parts: Sequence[str]) -> bool:
    """Whether what has a name of litter is opened all the same, to see whether it holds work: `.ann/02_qkv.ipynb`."""
    return not COPIES & set(parts) and (".ipynb" in parts[-1].lower() or _is_zip_name(parts[-1]))


def is_work(start: bytes) -> bool:
    """Whether a file begins as a notebook or a zip; what macOS writes into `._02_qkv.ipynb` does not."""
    return start.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith((b"{", b"PK"))


def decode_name(raw: bytes) -> str:
    """A file name of unknown encoding: UTF-8, else cp950 (Windows in Taiwan), else cp437 (what zip says it is)."""
    for encoding in ("utf-8", "cp950"):
        try:
            return unicodedata.normalize("NFC", raw.decode(encoding))
        except UnicodeDecodeError:
            continue
    return raw.decode("cp437")


def member_name(info: zipfile.ZipInfo) -> str:
    # Decode before looking for backslashes: the second byte of some characters (許, 功, 蓋) is one.
    name = info.orig_filename.partition("\0")[0]
    if not info.flag_bits & 0x800:
        name = decode_name(name.encode("cp437", "replace"))
    # No disk takes longer names, and patterns that look for students in them would take minutes.
    parts = unicodedata.normalize("NFC", name).replace("\\", "/").split("/")
    return "/".join(part[-NAME_LIMIT:] for part in parts)


def read_pile(pile: Path) -> Iterator[File]:
    """The files of a folder or zip, zips inside opened, litter left out."""
    budget = Budget(TOTAL_LIMIT, COUNT_LIMIT)
    if pile.is_dir():
        yield from _read_folder(pile, budget)
    elif pile.is_file() and zipfile.is_zipfile(pile):
        try:
            archive = zipfile.ZipFile(pile)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError) as error:
            raise CollectError(f"{pile.name} is a damaged zip file: {error}") from None
        with archive:
            if _is_document(archive.namelist()):
                raise CollectError(no_pile(pile))
            yield from _read_zip(archive, (), budget, depth=0)
    elif pile.exists():
        raise CollectError(no_pile(pile))
    else:
        raise CollectError(f"{pile} does not exist")


def no_pile(path: Path) -> str:
    """What is wrong with a file that was given as the pile."""
    kind = f"a {path.suffix} file, " if path.suffix and not _is_zip_name(path.name) else ""
    advice = ": put it into a folder, and grade the folder" if path.suffix == ".ipynb" else ""
    return f"{path.name} is {kind}neither a folder nor a zip file of submissions{advice}"


def _is_document(members: Sequence[str]) -> bool:
    """Whether a zip is a .docx or the like; in a class whose files lie side by side, a student's may be called `mimetype`."""
    return bool(DOCUMENT & set(members)) and not any(
        ".ipynb" in name.lower() or _is_zip_name(name) or _is_script(name) for name in members
    )


def _is_zip_name(name: str) -> bool:
    return name.lower().endswith(".zip")


def _is_script(name: str) -> bool:
    return name.lower().endswith(".py")


def _turn(name: str) -> int:
    """When a file is read: notebooks first, then what may be one, then zips; last what is only counted."""
    if ".ipynb" in name.lower():
        return 0
    if _is_zip_name(name):
        return 2
    return 1 if os.path.splitext(name)[1].lower() in TEXT_TYPES else 3


def _type_problem(name: str, size: int) -> str:
    """Why a file is not worth reading, judged by its name and size; empty if it may hold a notebook."""
    if _is_script(name) and size > SCRIPT_SIZE:
        return "its code holds more than 300,000 characters"
    suffix = Path(name.rstrip(" .」')）")).suffix.lower()
    if ".ipynb" in name.lower() or suffix in TEXT_TYPES or copy_of(name)[1]:
        return ""
    if suffix in {".rar", ".7z", ".gz", ".tar", ".tgz"}:
        return f"it is a {suffix} archive, and only zip archives and notebooks are read"
    return f"it is a {suffix} file, not a notebook"


def _read_folder(root: Path, budget: Budget) -> Iterator[File]:
    found: list[tuple[int, int, tuple[str, ...], Path, os.stat_result]] = []
    litter = 0
    for folder, folders, names in os.walk(root):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        folders[:] = sorted(set(folders) - set(links) - COPIES)
        above = tuple(decode_name(os.fsencode(part)) for part in Path(folder).relative_to(root).parts)
        for name in names + links:
            path = Path(folder) / name
            if is_litter([*above, name]) and not (may_be_work([*above, name]) and begins_as_work(path)):
                litter += 1
                continue
            try:
                status = path.lstat()
            except OSError:
                continue  # gone since the folder was listed
            shown = (*above, decode_name(os.fsencode(name)))
            found.append((_turn(name), status.st_size, shown, path, status))
    log.debug("%d files of litter ignored in %s", litter, root.name)
    # Of a kind small files first, and before those of crowded folders: whoever hands in something huge, or very much, cannot keep
    # the others from being read.
    crowd = crowds([shown for _, _, shown, _, _ in found])
    for _, size, shown, path, status in sorted(found, key=lambda item: (item[0], crowd[item[2][:-1]], *item[1:3])):
        received = datetime.fromtimestamp(min(max(status.st_mtime, 0), LATEST))
        try:
            if stat.S_ISLNK(status.st_mode):
                raise _Refused("it is a symbolic link")
            if not stat.S_ISREG(status.st_mode):
                raise _Refused("it is not a regular file")
            if not budget.next_file():
                raise _Refused(f"the pile holds more than {COUNT_LIMIT} files")
            if _is_zip_name(shown[-1]):
                yield from _open_nested(path, shown, ((len(shown), received),), budget, depth=1)
                continue
            if problem := _type_problem(shown[-1], size):
                raise _Refused(problem)
            if size > FILE_LIMIT:
                raise _Refused(f"it is larger than {FILE_LIMIT // 2**20} MB")
            if not budget.spend(size):
                raise _Refused(f"the pile unpacks to more than {TOTAL_LIMIT // 2**30} GB")
            yield File(shown, received, path.read_bytes())
        except (_Refused, OSError) as error:
            reason = str(error) if isinstance(error, _Refused) else f"it cannot be read ({error.strerror})"
            yield File(shown, received, problem=reason)


def crowds(paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Of each folder that a file lies in: by how many files each folder of its path is crowded, the outermost first."""
    count = Counter(path[:n] for path in paths for n in range(1, len(path)))
    return {
        folder: tuple(max(0, count[folder[:n]] - CROWD) for n in range(1, len(folder) + 1))
        for folder in {path[:-1] for path in paths}
    }


def begins_as_work(path: Path) -> bool:
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with open(path, "rb") as file:
            return is_work(file.read(100))
    except OSError:
        return False


class _Stream(io.BufferedReader):
    """A file of which nobody reads very much at once: only the list of a zip's members is ever read so."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > DIRECTORY_LIMIT:
            raise _Refused("the zip file lists too many members to be read")
        return super().read(size)


def _open_nested(
    where: Path | bytes, shown: tuple[str, ...], dates: Dates, budget: Budget, depth: int
) -> Iterator[File]:
    """A zip inside the pile: its files, or one row that says why there are none."""
    problem = ""
    try:
        raw = io.BytesIO(where) if isinstance(where, bytes) else io.FileIO(where)
        with _Stream(raw) as stream, zipfile.ZipFile(stream) as archive:
            share = budget.share()
            if not share.spend(ENTRY_SIZE * len(archive.infolist())):
                raise _Refused("the zip file lists too many members to be read")
            empty = True
            for file in _read_zip(archive, shown, share, depth, dates):
                empty = False
                yield file
            problem = "the zip file is empty" if empty else ""
    except _Refused as error:
        problem = str(error)
    except Exception:  # zipfile has no one error for what is wrong with a file
        problem = "it is not a zip file, or a damaged one"
    if problem:
        yield File(shown, dates[0][1], problem=problem, dates=dates)


def _read_zip(
    archive: zipfile.ZipFile, above: tuple[str, ...], budget: Budget, depth: int, outer: Dates = ()
) -> Iterator[File]:
    members = [(member_name(info), info) for info in archive.infolist()]
    litter = 0
    # Reading stops at the size that a member declares, so the declared sizes bound what is unpacked.
    crowd = crowds([tuple(name.split("/")) for name, _ in members])
    for name, info in sorted(
        members, key=lambda item: (_turn(item[0]), crowd[tuple(item[0].split("/")[:-1])], item[1].file_size, item[0])
    ):
        parts = tuple(part for part in name.split("/") if part not in {"", "."})
        if name.endswith("/"):  # a folder
            continue
        hidden = is_litter(parts)
        installed = depth > 0 and _is_script(name) and bool(LIBRARIES & {*parts[:-1]})
        if installed or (hidden and not may_be_work(parts)):
            litter += 1
            continue
        shown = above + (parts[-FOLDER_LIMIT:] or ("?",))
        dates = (*outer, (len(shown), _zip_date(info)))
        received = dates[0][1]
        try:
            if not parts:
                raise _Refused("it has no name")
            if len(parts) > FOLDER_LIMIT:
                raise _Refused("it lies in too many folders")
            if ".." in parts or name.startswith("/") or re.match(r"[A-Za-z]:", name):
                shown = above + tuple(part for part in parts if part != "..")
                raise _Refused("its path leads out of the archive")
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _Refused("it is a symbolic link")
            if not budget.next_file():
                if depth:  # one row stands for all that follow
                    yield File(shown, received, problem="its zip holds more files than are read of one", dates=dates)
                    return
                raise _Refused(f"the pile holds more than {COUNT_LIMIT} files")
            is_zip = _is_zip_name(name)
            if is_zip and depth >= DEPTH_LIMIT:
                raise _Refused(f"zip files are nested more than {DEPTH_LIMIT} deep")
            if not is_zip and (problem := _type_problem(parts[-1], info.file_size)):
                raise _Refused(problem)
            cost = SCRIPT_COST if depth and _is_script(name) else info.file_size
            data = _read_member(archive, info, budget, cost)
            if hidden and not is_work(data[:100]):
                litter += 1
            elif is_zip:
                yield from _open_nested(data, shown, dates, budget, depth + 1)
            else:
                yield File(shown, received, data, dates=dates)
        except _Refused as error:
            yield File(shown, received, problem=str(error), dates=dates)
    log.debug("%d files of litter ignored in %s", litter, "/".join(above) or "the zip")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget, cost: int) -> bytes:
    if info.file_size > FILE_LIMIT:
        raise _Refused(f"it unpacks to more than {FILE_LIMIT // 2**20} MB")
    if info.file_size > 2**20 and info.file_size > RATIO_LIMIT * max(info.compress_size, 1):
        raise _Refused("it is packed so tightly that it looks like a zip bomb")
    if not budget.spend(cost):
        raise _Refused("the archive unpacks to more than the limit")
    data = bytearray()
    try:
        with archive.open(info) as stream:
            while chunk := stream.read(2**20):
                data += chunk
                if len(data) > FILE_LIMIT:
                    raise _Refused(f"it unpacks to more than {FILE_LIMIT // 2**20} MB")
    except RuntimeError:  # what zipfile raises for a member with a password
        raise _Refused("it is locked with a password") from None
    except _Refused:
        raise
    except Exception as error:  # zlib, bz2 and lzma each have errors of their own
        raise _Refused(f"it is damaged inside the zip ({type(error).__name__})") from None
    return bytes(data)


def _zip_date(info: zipfile.ZipInfo) -> datetime | None:
    """Local time, as zips store it; None for the earliest date of the format, which stands for "not known"."""
    try:
        return datetime(*info.date_time) if info.date_time[0] > 1980 else None
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------------------------
# File names
# ---------------------------------------------------------------------------------------------------------------------

_COPY = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:^|(?<=[-_ ]))copy (?P<n>\d+ )?of\s+",
        r"^「(?P<inner>.+)」(\s*的\s*|\s*)(副本|複本|拷貝)",
        r"^(副本|複本)\s*[-_ ]*",
        r"[\s_-]*的?(副本|複本|拷貝)\s*(?P<n>\d+)?$",
        r"[\s_]*-?\s*\bcopy(?:\s*(?P<n>\d+))?$",
        r"\s*[(（](?P<n>\d+)[)）]$",
    )
]
_ENDING = re.compile(r"(\.ipynb|\.json|\.txt|\.html?|\.py|\.download)$", re.IGNORECASE)


def copy_of(name: str) -> tuple[str, bool, int]:
    """What a file is a copy of: (its name without ending and copy words, is it a copy, the highest number of a copy).

    >>> copy_of("「02_qkv.ipynb」的副本 (2).ipynb")
    ('02_qkv', True, 2)
    """
    # A name that no disk would take, with thousands of blanks, would keep the patterns busy for minutes.
    stem, copied, number = re.sub(r"\s+", " ", name[-NAME_LIMIT:]).strip(), False, 0
    while True:
        before = stem
        stem = _ENDING.sub("", stem).strip()
        for pattern in _COPY:
            if found := pattern.search(stem):
                groups = found.groupdict()
                copied, number = True, max(number, int((groups.get("n") or "0")[:9]))
                stem = (stem[: found.start()] + groups.get("inner", "") + stem[found.end() :]).strip()
        if stem == before:
            return stem, copied, number


def _folded(text: str) -> str:
    """For comparing names: compatibility forms, lower case, one kind of separator."""
    return re.sub(r"[\s\-_.]+", "_", unicodedata.normalize("NFKC", text).lower()).strip("_")


def lesson_in(text: str, lessons: Iterable[str]) -> str | None:
    """The lesson that a file or folder name mentions, the longest if several."""
    folded = _folded(text)
    found = [name for name in lessons if _named(name)[0].search(folded)]
    return max(found, key=len, default=None)


@cache
def _named(lesson: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What finds a lesson in a folded name, and in one as it is written."""
    loose = r"[\s\-_.]+".join(re.escape(part) for part in re.split(r"[\s\-_.]+", lesson))
    return (
        re.compile(rf"(?<![^\W_]){re.escape(_folded(lesson))}(?![^\W_])"),
        re.compile(rf"(?<![^\W_]){loose}(?![^\W_])", re.IGNORECASE),
    )


_GENERIC = re.compile(
    r"(?:untitled\d*|home_?work|hw|assignments?|submissions?|submitted|solutions?|answers?|notebooks?|colab(?:_notebooks)?|"
    r"lessons?|classroom|downloads?|drive_download.*|takeout|week|final|draft|new|old|my|copy|en|zh|tw|zh_tw|"
    r"作業|繳交|作業繳交|繳交作業|第.{1,3}[週周課次章](?:作業|繳交)?|(?:home_?work|hw|assignment|week|lesson|lab|unit|v|ver)?_?\d{1,2}|"
    # those who come late, and parts of a class: 遲交, "Section A", "第1組", "甲班"
    r"late|overdue|[遲補重晚]交(?:作業|區)?|(?:section|sec|group|team|class)s?(?:_?\d{1,3}|_[a-z])?|"
    r"第?[\da-z一二三四五六七八九十甲乙丙丁戊己庚辛]{1,4}_?[組班][別級]?|分?組[別]?|班級?)",
)


def names_nobody(word: str) -> bool:
    """Whether a word of a name is one like "homework" or "final"."""
    return _GENERIC.fullmatch(_folded(word)) is not None


# What is no part of a student's name: a date or a telephone number, the homework, and that it is handed in again. Words that may
# be somebody's name ("Lin New", "Final Lu") are none in small letters only.
_DATED = re.compile(
    r"(?<![A-Za-z0-9])20\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|"
    r"[-_./年](?:0?[1-9]|1[0-2])[-_./月](?:0?[1-9]|[12]\d|3[01])日?)(?!\d)"
)
PHONE = re.compile(r"(?<!\d)09\d\d-?\d{3}-?\d{3}(?!\d)")
_WORK = re.compile(
    r"(?<![a-z])(?:(?:home_?work|hw|assignments?|submissions?|submitted|solutions?|answers?|notebooks?)[\s\-_.]*\d{0,2}|"
    r"(?:week|lesson|lab|unit|v|ver|version)[\s\-_.]*\d{1,2})(?![a-z0-9])|"
    r"(?:繳交)?作業(?:繳交)?[\s\-_.]*(?:\d{1,2}(?!\d)|[一二三四五六七八九十]{1,3})?|第.{1,3}?[週周課次章](?:作業|繳交)?|(?:重新)?繳交",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"(?<![A-Za-z0-9])(?:v\d+|ver\d*|version\d*|re_?sub(?:mit(?:ted)?|mission)?|re_?vis(?:ed|ion)|updated?|fix(?:ed)?|corrected|"
    r"late|final|draft|new|old|done|completed?|finish(?:ed)?|ok|submit|real|latest|again|retry|(?:\d(?:st|nd|rd|th)[\s\-_]*)?try\d*)"
    r"(?![A-Za-z0-9])|修正版?|[補重遲]交|更新版?|最[終新後]版?\d*|完成版?|定稿|新版|第.版"
)
_DAY = re.compile(r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")


def somebody(text: str) -> str:
    """What of a file's or folder's name may be the student: without dates, homework and words like "v2", as it is written.

    >>> somebody("王小明_HW2"), somebody("20260305 Ann Lee_v2"), somebody("hw2")
    ('王小明', 'Ann Lee', 'hw2')
    """
    left = _undated(text)
    if left == text or not re.search(r"[^\W\d_]", left):
        return text
    return re.sub(r"[\s\-_.]*\s[\s\-_.]*", " ", left).strip(" -_.")


def name_in(text: str) -> str:
    """The words of a name that may be somebody's, for comparing: not those that name nobody either, and in small letters."""
    words = re.split(r"[\s\-_.()]+", _undated(unicodedata.normalize("NFKC", text).strip().casefold()))
    return " ".join(word for word in words if word and not names_nobody(word) and not _DAY.fullmatch(word))


def _undated(text: str) -> str:
    for pattern in (_DATED, PHONE, _WORK, _AGAIN):
        text = pattern.sub(" ", text)
    return text


_ARCHIVE = re.compile(r"(?:-\d{8}T\d{6}Z(?:-\d+)?-\d{3})?\.zip$", re.IGNORECASE)


def folder_name(part: str) -> str:
    """What a folder or zip is called. The zips of one export from Google Drive (NAME-20260305T120000Z-001.zip, -002.zip) are one.

    >>> folder_name("HW3-20260305T120000Z-002.zip"), folder_name("ann.zip")
    ('HW3', 'ann')
    """
    return _ARCHIVE.sub("", part)


def name_without_lesson(text: str, lessons: Iterable[str]) -> str:
    """What is left of a file or folder name for the student: without copy words, lesson and words that name nobody."""
    stem = copy_of(text)[0]
    for lesson in sorted(lessons, key=len, reverse=True):
        stem = _named(lesson)[1].sub(" ", stem)
    stem = re.sub(r"(?<![^\W_])zh[-_]tw(?![^\W_])", " ", stem, flags=re.IGNORECASE)
    words = [word for word in re.split(r"[\s_]+|\s-\s", stem) if word.strip("-_. ")]
    if names_nobody(stem) or all(names_nobody(word) for word in words):
        return ""
    return re.sub(r"\s+", " ", stem).strip(" -_.")
