"""What becomes code while a notebook runs, and stands in none of its cells, is told of."""

import importlib.util
import io
import marshal
import textwrap
import warnings
import zipfile
from collections.abc import Iterator

import pytest

from autograder.made import KINDS
from autograder.pipeline import sandbox
from autograder.pipeline.sandbox import Cell, Job, Limits
from autograder.syntax import is_no_python
from autograder.tests.test_sandbox import WRONG, graded, said
from autograder.unusual import said as said_as
from autograder.unusual import unusual_in_source

PYTHON = textwrap.__file__.rpartition("/")[0]
LIMITS = Limits(cell_seconds=5.0, total_seconds=30.0)


@pytest.fixture(autouse=True, scope="module")
def workers_ended() -> Iterator[None]:
    yield
    sandbox.close_all()


def told(*cells: str) -> list[tuple[str, str]]:
    """What is told of some cells that must not fail."""
    outcome = sandbox.run(Job(tuple(Cell(textwrap.dedent(source)) for source in cells), {}, LIMITS))
    errors = [cell.error for cell in outcome.cells.values() if cell.error]
    assert errors == []
    return [what for made in outcome.made.values() for what in made]


def zipped(name: str, text: str | bytes) -> str:
    """A cell that writes a zip with a module, under a name that is no zip's."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, text)
    return f"""
        import sys
        import numpy as np
        np.save("numbers.npy", np.array({list(file.getvalue())}, dtype=np.uint8))
        sys.path.append("numbers.npy")
    """


FROM_TEXTS = {
    "an expression": "eval('1 + 1')",
    "a text that is timed": "import timeit\ntimeit.timeit('1 + 1', number=1)",
    "a line that Python takes for a comment": "x = 1\n# done\x0c%precision 3\x0cexec('y = 2')",
    "a function of a dataclass's": """
        import dataclasses
        class Made: pass
        if hasattr(dataclasses, "_create_fn"):  # Python 3.11 and 3.12
            dataclasses._create_fn("double", ["x"], ["return 2 * x"])
        else:
            made = dataclasses._FuncBuilder({})
            made.add_fn("double", ["x"], ["  return 2 * x"])
            made.add_fns_to_class(Made)
    """,
    "a key of a typed dictionary": """
        from dataclasses import dataclass
        from typing import TypedDict
        Row = TypedDict("Row", {"keep(print('kept'))": int})
        Made = dataclass(init=False, repr=False)(Row)
    """,
    "the name of a field": """
        from dataclasses import dataclass, field
        @dataclass
        class Base:
            kept: int = field(default=0)
            saved = [kept]
        Base.saved[0].name = "keep(print('kept'))"
        @dataclass(init=False, repr=False)
        class Pair(Base):
            pass
    """,
    "a text that calls itself a library's": "import textwrap\nexec(compile('x = 1', textwrap.__file__, 'exec'))",
    "a text that calls itself a magic's": "exec(compile('x = 1', '<timed exec>', 'exec'))",
    "a tree that calls itself a cell's": """
        import ast
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            code = pool.submit(compile, ast.parse("x = 1"), "<ipython-input-1>", "exec").result()
        exec(code)
    """,
    "the shell": "get_ipython().run_cell('x = ' + '1')",
    "the shell's cleaning": """
        get_ipython().input_transformers_post.append(lambda lines: ["x = 1"])
        get_ipython().run_cell("# nothing")
    """,
}


@pytest.mark.hostile
@pytest.mark.parametrize("way", FROM_TEXTS)
def test_code_made_from_a_text_is_told(way: str) -> None:
    assert "text" in [kind for kind, _ in told(FROM_TEXTS[way])]


@pytest.mark.hostile
def test_code_from_a_file_beside_the_notebook_is_told() -> None:
    assert ("file", "numbers.npy/pandas.py") in told(zipped("pandas.py", "x = 1"), "import pandas")


@pytest.mark.hostile
@pytest.mark.parametrize("called", ["<frozen a.npy", f"{PYTHON}/../../../../../../../../student/a.npy"])
def test_a_file_that_calls_itself_a_library_s_is_told(called: str) -> None:
    own = zipped("pandas.py", "x = 1").replace('save("numbers.npy', 'save("a.npy').replace("numbers.npy", called)
    rename = "import os\nos.rename('a.npy', '<frozen a.npy')" if called[0] == "<" else ""
    assert any(kind == "file" and "a.npy" in what for kind, what in told(own, rename, "import pandas"))


@pytest.mark.hostile
def test_bytes_that_name_a_library_s_file_are_told() -> None:
    """What is compiled already says itself what it was made from."""
    code = compile("x = 1", f"{PYTHON}/csv.py", "exec")
    made = importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)
    assert any(kind == "file" for kind, _ in told(zipped("pandas.pyc", made), "import pandas"))


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("call", "event"),
    {
        "import gc; gc.get_objects()": "gc.get_objects",
        "import sys; sys._getframe()": "sys._getframe",
        "def f(): return 1\ndef g(): return 2\nf.__code__ = g.__code__": "object.__setattr__",
        "f = (lambda: 1).__code__.replace(co_name='g')": "code.__new__",
        "compile('x = 1', '<ipython-input-0>', 'exec')": "compile",
    }.items(),
)
def test_calls_that_work_on_code_are_told(call: str, event: str) -> None:
    assert event in {what.split("(")[0] for kind, what in told(call) if kind == "call"} or (
        event == "compile" and ("text", "x = 1") in told(call)
    )


@pytest.mark.hostile
def test_it_is_told_before_it_runs_and_stands_in_the_report_with_the_text() -> None:
    own = "import os\nexec('os._exit(0)')"
    assert "own cell 1, while it ran: code made from a text" in said(graded(WRONG, own=own))
    answer = """
        def relevance(q, K):
            made = {}
            exec("def f(q, K): return q @ K.T", made)
            return made["f"](q, K)
    """
    record = graded(textwrap.dedent(answer))
    lines = [line for line in record.unusual if line.text["en"] == "relevance, while it ran: code made from a text"]
    assert lines[0].text["zh-TW"] == "relevance 執行時：由文字做成的程式"
    assert "return q @ K.T" in lines[0].code


def test_what_is_told_is_said_in_both_languages() -> None:
    texts = {kind: said_as(text.format("x.y")) for kind, text in KINDS.items()}
    assert [kind for kind, text in texts.items() if text["zh-TW"] == text["en"]] == ["call"], texts


HONEST = {
    "dataclasses": """
        from dataclasses import dataclass, field, replace
        @dataclass(frozen=True, order=True)
        class Shape:
            width: int = 1
            sizes: list = field(default_factory=list)
            def __post_init__(self):
                assert self.width
        {Shape(2).width: replace(Shape(3), width=4)}, hash(Shape(1, ()))
        @dataclass
        class Wider:
            _kept: float = 0.5
        repr(Wider()), Wider() == Wider()
    """,
    "named tuples": """
        from collections import namedtuple
        from typing import NamedTuple
        Pair = namedtuple("Pair", "first second", defaults=(1, 2))
        class Point(NamedTuple):
            x: float = 0.0
        Pair(), Point(2.0)
    """,
    "timing": "import timeit\ntimeit.timeit(lambda: 1, number=1)",
    "enumerations": "import enum\nclass Kind(enum.Enum):\n    A = 1\nKind(1)",
    "magics": "%time x = 1\n%timeit -n1 -r1 x\n%matplotlib inline\n%pip install torch\n!ls\nprint?",
    "a cell magic": "%%time\nx = 1\ny = 2",
    "a captured cell": "%%capture out\nprint(1)\n%time z = 3",
    "magics in a magic": "%%time\n%%capture\n%%capture\n%time x = 1\nprint(x)",
    "a profile": "def f(x): return x\n%prun f(1)",
    "profilers": """
        import cProfile, profile, torch
        with cProfile.Profile() as made: sum([1])
        profile.Profile().runcall(sum, [1])
        with torch.profiler.profile(with_stack=True): torch.ones(2).sum()
    """,
    "settings": "%config InteractiveShell.ast_node_interactivity = 'all'",
    "prompts": ">>> x = 1\n>>> print(x)\n",
    "modules": "import statistics, decimal, csv, textwrap, fractions, sklearn.datasets\nfrom scipy import stats\nstats.norm(0, 1)",
    "pictures": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.legend(['a'])\nplt.show()",
    "libraries that look for functions of libraries": """
        import uuid
        import numpy as np
        from sklearn.cluster import KMeans
        uuid.uuid4(), KMeans(2, n_init=1).fit(np.arange(20.0).reshape(10, 2))
    """,
    "threads that have ended": """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(2) as pool: list(pool.map(abs, [1, 2]))
        await asyncio.to_thread(sum, [1, 2])
    """,
    "functions of functions": """
        import functools
        @functools.lru_cache
        def f(x): return x
        @functools.singledispatch
        def g(x): return x
        @functools.wraps(f)
        def h(x): return f(x)
        f(1), g(2), h(3)
    """,
    "training": """
        import torch
        from torch import nn
        model = nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.Linear(3, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.ones(4, 2)).square().mean().backward()
            optimizer.step()
        torch.func.jacrev(lambda x: x ** 2)(torch.ones(2)), torch.vmap(torch.sum)(torch.ones(2, 2))
    """,
}


@pytest.mark.parametrize("kind", HONEST)
def test_of_honest_cells_nothing_is_told(kind: str) -> None:
    assert told(HONEST[kind]) == []


def test_a_traceback_that_reads_an_earlier_cell_again_is_not_told() -> None:
    helper, fails = "def helper(x):\n    return x / 0", "helper(1)"
    outcome = sandbox.run(Job((Cell(helper), Cell(fails)), {}, LIMITS))
    assert outcome.cells[1].error is not None and outcome.made == {}


@pytest.mark.parametrize("end", ["\u2028", "\x0c", "\x85", "\r\n", "\x1c"])
def test_a_cell_with_other_ends_of_lines_that_fails_is_not_told(end: str) -> None:
    """Text that was copied from a page or a document brings them along; the traceback has lines, not what ends them."""
    fails = f"# copied{end}s = 'a'\nno_such_name\n"
    outcome = sandbox.run(Job((Cell(fails),), {}, LIMITS))
    assert outcome.cells[0].error == "NameError: name 'no_such_name' is not defined" and outcome.made == {}


@pytest.mark.parametrize("calls", ["open('no file')", "exec", "namedtuple('Pair', 'x y')", "torch.exp(torch.ones(2))"])
def test_an_endless_recursion_tells_nothing_and_leaves_python_as_it_was(calls: str) -> None:
    fails = f"""
        import gc
        import torch
        from collections import namedtuple
        def endless(n):
            try: {calls}
            except OSError: pass
            return endless(n + 1)
        try: endless(0)
        except RecursionError: pass
        assert gc.isenabled()
    """
    assert told(fails) == []


@pytest.mark.hostile
@pytest.mark.parametrize("character", ["a", "\n", " ", "%", ".", "?", ",", "\\", "{", "= ", "a.", "...:\n"])
def test_a_cell_of_one_character_many_times_is_read_at_once(character: str) -> None:
    """Readers search with patterns, of which some could begin anew at each character: then this test hardly ends."""
    source = "x = 1" + character * (98_000 // len(character)) + "y = 1"
    assert is_no_python(source) in (False, True)
    assert isinstance(unusual_in_source(source), list)
    assert isinstance(unusual_in_source(f"x = {source!r}"), list)


@pytest.mark.parametrize("source", ["# copied\x85x = 1\ny = 2\n", "x = 1\nx is 1", "x = '\\d'"])
def test_what_python_warns_of_in_a_cell_s_text_is_not_said(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_no_python(source)
        assert unusual_in_source(source) == []


@pytest.mark.hostile
def test_a_library_that_is_imported_anew_is_told() -> None:
    """What the grader did to its functions, it did to those of before."""
    again = """
        import sys
        import scipy.special._logsumexp as kept
        del sys.modules["scipy.special._logsumexp"]
        import scipy.special._logsumexp as fresh
        assert fresh is not kept
    """
    assert told(again) == [("anew", "scipy.special._logsumexp")]


def test_what_is_looked_for_and_not_there_is_no_import_anew() -> None:
    looks = """
        import importlib
        for _ in range(2):
            try:
                import no_such_module
            except ImportError:
                pass
        import colorsys
        importlib.reload(colorsys)
    """
    assert told(looks) == []


@pytest.mark.hostile
def test_a_file_of_machine_code_is_told_whoever_loads_it() -> None:
    loads = """
        import numpy as np
        import torch
        np.save("kernel.npy", np.zeros(3))
        for load in (torch.classes.load_library, torch.ops.load_library):
            try: load("kernel.npy")
            except OSError: pass
    """
    files = {what for kind, what in told(loads) if kind == "file"}
    assert len(files) == 1 and files.pop().endswith("/kernel.npy")


ASKED_BY_LIBRARIES = {
    "gc.get_objects": "import gc, timeit\ntimeit.timeit(gc.get_objects, number=1)",
    "sys._current_exceptions": "import sys, timeit\ntimeit.timeit(sys._current_exceptions, number=1)",
    "ctypes.dlsym": "import ctypes, pydoc\npydoc.locate('ctypes.pythonapi.Py_IsInitialized')()",
    "cpython.PyInterpreterState_New": "import _xxsubinterpreters\n_xxsubinterpreters.create()",
    "import _testcapi": "import _testcapi",
    "marshal.loads": "import marshal\n"
    "from concurrent.futures import ThreadPoolExecutor as Pool\nPool(1).submit(marshal.loads, marshal.dumps(1)).result()",
    "function.__new__": "import types\nfrom concurrent.futures import ThreadPoolExecutor as Pool\n"
    "def f(): pass\nPool(1).submit(types.FunctionType, f.__code__, {}).result()",
    "object.__setattr__": "import types\nfrom concurrent.futures import ThreadPoolExecutor as Pool\n"
    "def f(): pass\nPool(1).submit(setattr, f, '__code__', f.__code__).result()",
    "sys.setprofile": "import contextlib, sys\nwith contextlib.ExitStack() as s: s.callback(sys.setprofile, None)",
}


@pytest.mark.hostile
@pytest.mark.parametrize("what", ASKED_BY_LIBRARIES)
def test_who_is_given_everything_is_told_though_a_library_asks(what: str) -> None:
    module = ASKED_BY_LIBRARIES[what].split()[1]
    if importlib.util.find_spec(module.strip(",")) is None:
        pytest.skip(f"this Python has no {module}")
    assert ("call", what) in told(ASKED_BY_LIBRARIES[what])


@pytest.mark.hostile
@pytest.mark.parametrize("module", ["_thread", "_signal"])
def test_python_s_built_in_modules_are_not_made_anew(module: str) -> None:
    """They would have what was taken out of them, and nobody is told of what it does."""
    again = f"""
        import _imp, importlib, sys
        from importlib.machinery import BuiltinImporter, ModuleSpec
        there = sys.modules[{module!r}]
        for make in (_imp.create_builtin, BuiltinImporter.create_module):
            try: raise AssertionError(make(ModuleSpec({module!r}, BuiltinImporter)))
            except ImportError: pass
        assert importlib.import_module({module!r}) is there
    """
    assert told(again) == []
