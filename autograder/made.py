"""What becomes code while a notebook runs, as Python itself tells of it.

The cells are read (unusual.py). A text that something makes into code, or a file that is imported from beside the notebook, does
not stand in them. Python tells of these before they run, and who is told cannot be taken away.
"""

import ast
import collections
import cProfile
import ctypes
import dataclasses
import profile
import sys
import timeit
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from autograder.callbacks import TORCH
from autograder.watch import CELL, OURS, file_of, in_library, is_imported

MOST_TOLD, LONGEST_TOLD = 20, 200
KINDS = {
    "text": "code made from a text",
    "file": "code from the file {}",
    "call": "{}",
    "anew": "{} imported anew",
    "grader": "changed parts of the grader",
    "missed": "something that could not be looked at",
    "within": "code within the witness",
    "kept back": "lines of the witness that were kept back",
}
# Where a cell itself calls these, it works on code or on what others keep.
OF_CELLS = frozenset(
    [
        "compile",
        "pickle.find_class",
        "object.__setattr__",
        "object.__delattr__",
        "object.__getattr__",
        "gc.get_objects",
        "gc.get_referrers",
        "gc.get_referents",
        "sys._getframe",
        "sys.settrace",
        "sys.setprofile",
        "sys._current_frames",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.call_function",
        "ctypes.addressof",
        "ctypes.cdata",
        "ctypes.string_at",
    ]
)
TO_FRAMES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")  # the attributes among those that count
HEARD = ("exec", "import", "open")  # wherever they come from
# Whoever calls these is given what all others hold, or has code of which nobody is told; libraries have no reason to while a
# notebook is graded, but where they are imported.
BY_ALL = (
    "gc.get_objects",
    "gc.get_referrers",
    "gc.get_referents",
    "sys._current_frames",
    "sys._current_exceptions",
    "cpython.PyInterpreterState_New",
    "sqlite3.load_extension",
    "code.__new__",
    "function.__new__",
    "marshal.loads",
    "marshal.load",
)
EVENTS = OF_CELLS.union(HEARD, BY_ALL)
INNERMOST = (
    "_test",
    "_xx",
)  # Python's own tests of itself: what begins so does with threads, frames and memory as it likes
# Who has reason to trace: the watch; Python's profilers and torch's.
TRACING = {"sys.settrace": (OURS,), "sys.setprofile": (cProfile.__file__, profile.__file__, TORCH)}
MAGICS, OF_MAGICS = ("run_line_magic", "run_cell_magic"), ("<timed exec>", "<timed eval>", "<magic-timeit>")
IMPORTERS = ("<frozen importlib", "<frozen zipimport")
# Libraries that make code of a template of their own and plain names, or of a line that is read (`%config`).
TEMPLATES = ("/IPython/core/magics/config.py", "/scipy/stats/_distn_infrastructure.py")
OF_SYSTEM = ("/usr/lib", "/lib")  # nobody writes there
OF_THREADS, OF_CTYPES = "/threadpoolctl.py", ctypes.__file__
OF_SHELL = "/IPython/core/interactiveshell.py"
OF_PRUN = "/IPython/core/magics/execution.py"
DATACLASS, NAMED_TUPLE = dataclasses._process_class.__code__, collections.namedtuple.__code__  # type: ignore[attr-defined]
FIELD = dataclasses.Field
# What `timeit` makes of functions.
TIMED = {
    timeit.template.format(stmt=stmt, setup=setup, init=a + b)  # type: ignore[attr-defined]
    for stmt, b in (("pass", ""), ("_stmt()", ", _stmt=_stmt"))
    for setup, a in (("pass", ""), ("_setup()", ", _setup=_setup"))
}


def as_lines(text: str) -> str:
    """As a traceback has it, which reads a cell by its lines: there are more ends of lines than Python's."""
    return "\n".join(text.splitlines()).strip()


def texts_of(source: str, transform: Callable[[str], str]) -> list[str]:
    """What Python compiles of a cell, and of the magics in it, once IPython has transformed it: all that is read by others."""
    try:
        text = transform(source)
    except Exception:  # IPython cannot read it, and so does not run it
        return []
    found = [as_lines(text)]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAGICS:
            given = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            for inner in given:
                found += texts_of(inner, transform)
    return found


class Listener:
    """Is told by Python what becomes code (`sys.addaudithook`); tells on what is neither a cell's, a library's nor a dataclass's.

    Args:
        tell: is given one of KINDS and the text, the file's name or the call's.
        expected: the texts of cells; a traceback reads again what has run.
    """

    def __init__(self, tell: Callable[[str, str], None], expected: frozenset[str]) -> None:
        self.tell, self.expected = tell, expected
        self.left = MOST_TOLD
        self.texts: dict[str, str] = {}
        self.modules = sys.modules
        self.imported = set(self.modules)

    def __call__(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        kind, what = self.looked_at(event, args, frame) if self.left > 0 else ("", "")
        if kind:
            self.left -= 1
            self.tell(kind, what[:LONGEST_TOLD])

    def looked_at(self, event: str, args: tuple[Any, ...], frame: FrameType) -> tuple[str, str]:
        caller = file_of(frame.f_code)
        # As it is without what the grader has done to it. Torch imports parts of itself anew; what it carries out is on record.
        if event == "import" and type(args[0]) is str and args[0] in self.imported and not args[0].startswith("torch."):
            return "anew", args[0]
        if event == "import" or (event == "open" and caller.startswith(IMPORTERS)):
            self.imported.update([name for name in list(self.modules) if type(name) is str])
            file = args[1] if event == "import" else args[0]
            module = file.rpartition("/")[2].partition(".")[0] if type(file) is str else ""
            if event == "import" and module.startswith(INNERMOST):
                return "call", f"import {module}"
            return ("file", file) if type(file) is str and not in_library(file) else ("", "")
        if event == "compile":
            source, file = args
            text = source.decode(errors="replace") if type(source) is bytes else source if type(source) is str else ""
            name = file if type(file) is str else ""
            self.texts[name] = text
            if name.startswith(CELL) and text and as_lines(text) not in self.expected:
                return "text", text
            if type(source) in (bytes, str):  # is told of when it is carried out
                return "", ""
        if event == "exec":
            return self.executed(args[0], frame) if type(args[0]) is CodeType else ("text", "")
        # Whoever calls: libraries load such files for others.
        if event == "ctypes.dlopen" and type(args[0]) is str and "/" in args[0]:
            return ("", "") if in_library(args[0]) or args[0].startswith(OF_SYSTEM) else ("file", args[0])
        if event == "ctypes.dlsym":  # a function by its name; libraries look for theirs when they are imported
            return ("", "") if is_imported(frame) or sets_threads(frame) else ("call", event)
        if event in TRACING:  # who traces is shown all that the grader holds
            return ("", "") if caller.startswith(TRACING[event]) else ("call", event)
        if event == "object.__getattr__":
            event = args[1]
        if event == "object.__setattr__" and type(args[1]) is str and args[1] == "__code__":
            return ("", "") if caller.startswith(OURS) else ("call", event)
        if event in BY_ALL:
            return ("", "") if caller.startswith(OURS) or is_imported(frame) else ("call", event)
        return ("call", event) if event not in HEARD and caller.startswith(CELL) else ("", "")

    def executed(self, code: CodeType, frame: FrameType) -> tuple[str, str]:
        file, caller = file_of(code), file_of(frame.f_code)
        text = self.texts.get(file, "")
        # What code calls its file, whoever made it has chosen.
        if in_library(file):
            return ("", "") if is_imported(frame) else ("text", text)
        if file.startswith(CELL):  # looked at where its text is compiled
            return ("", "") if is_run_by_shell(frame) else ("text", text)
        if file in OF_MAGICS and in_library(caller) and caller.endswith(OF_PRUN):
            return "", ""
        if not file.startswith("<"):
            return "file", file
        known = caller.endswith(TEMPLATES) or is_profiled(frame) or text in TIMED
        return ("", "") if known or is_imported(frame) or made_of_names(frame) else ("text", text)


def sets_threads(frame: FrameType) -> bool:
    """Whether it is scikit-learn's package for numbers of threads that has `ctypes` look for a function."""
    looks: FrameType | None = frame
    while looks is not None and file_of(looks.f_code) == OF_CTYPES:
        looks = looks.f_back
    return looks is not None and in_library(file_of(looks.f_code)) and file_of(looks.f_code).endswith(OF_THREADS)


def is_run_by_shell(frame: FrameType) -> bool:
    """Whether IPython runs a cell."""
    inside: FrameType | None = frame
    for name in ("run_code", "run_ast_nodes", "run_cell_async"):
        if inside is None or inside.f_code.co_name != name or not file_of(inside.f_code).endswith(OF_SHELL):
            return False
        inside = inside.f_back
    return in_library(file_of(frame.f_code))


def is_profiled(frame: FrameType) -> bool:
    """Whether it is `%prun` that has code run, which is read like any other."""
    back = frame.f_back
    return frame.f_code.co_name == "runctx" and back is not None and file_of(back.f_code).endswith(OF_PRUN)


def made_of_names(frame: FrameType) -> bool:
    """Whether a dataclass or a named tuple makes its methods; a field may be called anything, and then its name is code."""
    inside: FrameType | None = frame
    while inside is not None and not file_of(inside.f_code).startswith(CELL):
        if inside.f_code is NAMED_TUPLE:  # which looks at the names itself
            return True
        if inside.f_code is DATACLASS:
            fields = inside.f_locals.get("fields", {}).values()
            names = [field.name if type(field) is FIELD else None for field in fields]
            return all(type(name) is str and name.isidentifier() for name in names)
        inside = inside.f_back
    return False
