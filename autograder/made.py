"""What becomes code while a notebook runs, as Python itself tells of it.

The cells are read (unusual.py). A text that something makes into code, or a file that is imported from beside the notebook, does
not stand in them. Python tells of these before they run, and who is told cannot be taken away.
"""

import ast
import collections
import dataclasses
import sys
import timeit
from _thread import get_ident
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from autograder.watch import CELL, in_library, is_imported

MOST_TOLD, LONGEST_TOLD = 20, 200
KINDS = {"text": "code made from a text", "file": "code from the file {}", "call": "{}"}
# Where a cell itself calls these, it works on code or on what others keep.
OF_CELLS = frozenset(
    [
        "compile",
        "code.__new__",
        "function.__new__",
        "marshal.loads",
        "marshal.load",
        "pickle.find_class",
        "object.__setattr__",
        "object.__delattr__",
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
MAGICS, OF_MAGICS = ("run_line_magic", "run_cell_magic"), ("<timed exec>", "<timed eval>", "<magic-timeit>")
IMPORTERS = ("<frozen importlib", "<frozen zipimport")
# Libraries that make code of a template of their own and plain names, or of a line that is read (`%config`).
TEMPLATES = ("/IPython/core/magics/config.py", "/scipy/stats/_distn_infrastructure.py")
OF_PRUN = "/IPython/core/magics/execution.py"
# The watch makes its traps from a text.
OF_WATCH = "<autograder>", in_library.__wrapped__.__code__.co_filename
DATACLASS, NAMED_TUPLE = dataclasses._process_class.__code__, collections.namedtuple.__code__  # type: ignore[attr-defined]
# What `timeit` makes of functions.
TIMED = {
    timeit.template.format(stmt=stmt, setup=setup, init=a + b)  # type: ignore[attr-defined]
    for stmt, b in (("pass", ""), ("_stmt()", ", _stmt=_stmt"))
    for setup, a in (("pass", ""), ("_setup()", ", _setup=_setup"))
}


class Listener:
    """Is told by Python what becomes code (`sys.addaudithook`); tells on what is neither a cell's, a library's nor a dataclass's.

    Args:
        tell: is given one of KINDS and the text, the file's name or the call's.
        transform: what IPython makes of a cell before it is compiled.
    """

    def __init__(self, tell: Callable[[str, str], None], transform: Callable[[str], str]) -> None:
        self.tell, self.transform = tell, transform
        self.left = MOST_TOLD
        self.expected = set[str]()
        self.texts: dict[str, str] = {}
        self.busy = set[int]()

    def expect(self, source: str) -> None:
        """A cell is about to be run: its text, and those of the magics in it, are read by others."""
        text = self.transform(source)
        self.expected.add(text.strip())  # a traceback reads cells again that have run
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAGICS:
                given = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                self.expected |= {self.transform(inner).strip() for inner in given}

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in OF_CELLS and event not in ("exec", "import", "open"):
            return
        me = get_ident()
        if me in self.busy or self.left <= 0:  # to look at what is told of is told of too
            return
        self.busy.add(me)
        try:
            kind, what = self.looked_at(event, args, sys._getframe(1))
            if kind:
                self.left -= 1
                self.tell(kind, what[:LONGEST_TOLD])
        finally:
            self.busy.discard(me)

    def looked_at(self, event: str, args: tuple[Any, ...], frame: FrameType) -> tuple[str, str]:
        caller = frame.f_code.co_filename
        if event == "import" or (event == "open" and caller.startswith(IMPORTERS)):
            file = args[1] if event == "import" else args[0]
            return ("file", file) if type(file) is str and not in_library(file) else ("", "")
        if event == "compile":
            source, file = args
            text = source.decode(errors="replace") if type(source) is bytes else source if type(source) is str else ""
            self.texts[str(file)] = text
            if str(file).startswith(CELL) and text and text.strip() not in self.expected:
                return "text", text
            if type(source) in (bytes, str):  # is told of when it is carried out
                return "", ""
        if event == "exec":
            return self.executed(args[0], frame) if type(args[0]) is CodeType else ("text", "")
        return ("call", event) if event in OF_CELLS and caller.startswith(CELL) else ("", "")

    def executed(self, code: CodeType, frame: FrameType) -> tuple[str, str]:
        file, caller = code.co_filename, frame.f_code.co_filename
        # The cells' own files are looked at where their text is compiled; the watch makes its traps itself.
        if in_library(file) or file.startswith(CELL) or file in OF_MAGICS or (file, caller) == OF_WATCH:
            return "", ""
        if not file.startswith("<"):
            return "file", file
        text = self.texts.get(file, "")
        known = caller.endswith(TEMPLATES) or is_profiled(frame) or text in TIMED
        return ("", "") if known or is_imported(frame) or made_of_names() else ("text", text)


def is_profiled(frame: FrameType) -> bool:
    """Whether it is `%prun` that has code run, which is read like any other."""
    back = frame.f_back
    return frame.f_code.co_name == "runctx" and back is not None and back.f_code.co_filename.endswith(OF_PRUN)


def made_of_names() -> bool:
    """Whether a dataclass or a named tuple makes its methods; a field may be called anything, and then its name is code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(CELL):
        if frame.f_code is NAMED_TUPLE:  # which looks at the names itself
            return True
        if frame.f_code is DATACLASS:
            fields = frame.f_locals.get("fields", {})
            return all(type(field.name) is str and field.name.isidentifier() for field in fields.values())
        frame = frame.f_back
    return False
