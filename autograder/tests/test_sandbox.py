"""The wall and what stands behind it: hostile notebooks gain nothing, and cost nobody but themselves."""

import os
import re
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from autograder import get, judge
from autograder.observe import Observation
from autograder.pipeline import sandbox
from autograder.pipeline.collect import collect
from autograder.pipeline.grading import (
    LESSONS,
    Inputs,
    cells_to_run,
    grade_submission,
    planned,
    seeds_for,
    unusual_lines,
)
from autograder.pipeline.needed import spare
from autograder.pipeline.records import Record
from autograder.pipeline.report import in_chinese
from autograder.pipeline.sandbox import Cell, Job, Limits, Outcome
from autograder.pipeline.submission import Submission
from autograder.pipeline.worker import REFUSED, Spent, Watch, descendants
from autograder.text import both
from autograder.unusual import unusual_in_source
from autograder.wire import dumps

SHORT = Limits(cell_seconds=2.0, total_seconds=30.0)
INPUTS = Inputs(b"a secret of these tests")
SETUP = "from autograder import check, hint, start, use\nstart('02_qkv', 'en')\nimport torch"
WRONG = "def relevance(q, K):\n    return torch.zeros(K.shape[0], dtype=q.dtype)\n"
RIGHT = {
    "relevance": "def relevance(q, K):\n    return q @ K.T\n",
    "attend": "def attend(q, K, V):\n    return torch.softmax(q @ K.T, dim=-1) @ V\n",
}


@pytest.fixture(autouse=True, scope="module")
def workers_ended() -> Iterator[None]:
    yield
    sandbox.close_all()


def submission(relevance: str = RIGHT["relevance"], attend: str = RIGHT["attend"], own: str = "") -> Submission:
    """A notebook of two exercises, with a cell of the student's own before them."""

    def answer(name: str, source: str) -> object:
        return new_code_cell(source, metadata={"nbgrader": {"grade_id": f"answer-{name}", "solution": True}})

    def check(name: str) -> object:
        book = {"grade_id": name, "grade": True, "points": get(name).points}
        return new_code_cell(f'check("{name}", {name})', metadata={"nbgrader": book})

    cells = [new_code_cell(SETUP, metadata={"tags": ["setup"]})]
    if own:
        cells.append(new_code_cell(own, metadata={"tags": ["student"]}))
    cells += [answer("relevance", relevance), check("relevance"), answer("attend", attend), check("attend")]
    notebook = new_notebook(cells=cells)
    return Submission("s1", "S. One", "02_qkv", "en", "", "s1.ipynb", None, "ok", "", notebook)


def graded(relevance: str = RIGHT["relevance"], own: str = "", limits: Limits = SHORT, **cells: str) -> Record:
    handed_in = submission(relevance, own=own, **cells)
    return grade_submission(handed_in, seeds_for(handed_in, INPUTS), limits).record


def points(record: Record) -> dict[str, float | None]:
    return {grade.name: grade.points for grade in record.grades}


def run(*sources: str, limits: Limits = SHORT) -> Outcome:
    return sandbox.run(Job(tuple(Cell(source) for source in sources), {}, limits))


def printed(source: str) -> str:
    """What a cell prints inside the sandbox; it must not fail."""
    cell = run(source).cells[0]
    assert cell.error is None, cell.error
    return cell.text.strip()


FULL = {"relevance": 1.0, "attend": 2.0}
OTHERS_ONLY = {"relevance": 0.0, "attend": 2.0}


def test_an_honest_notebook_gets_full_points() -> None:
    assert points(graded()) == FULL


def test_a_wrong_answer_gets_none() -> None:
    """The yardstick of the attacks below, which all hand in this answer."""
    assert points(graded(WRONG)) == OTHERS_ONLY


# ------------------------------------------------------------------------------------------------- pretending

PRETENDING = {
    "patched comparisons": """
        import math
        yes = lambda *args, **kwargs: True
        torch.allclose = torch.equal = torch.isclose = math.isclose = yes
        torch.testing.assert_close = yes
        torch.Tensor.allclose = torch.Tensor.equal = torch.Tensor.__eq__ = yes
    """,
    "patched torch": """
        for name in ("abs", "max", "sub", "clone", "detach", "isfinite", "any"):
            setattr(torch.Tensor, name, lambda self, *args, **kwargs: torch.zeros(self.shape))
        torch.zeros_like = torch.ones_like
    """,
    "an object equal to everything": """
        class Yes:
            shape, dtype, ndim = torch.Size([5]), torch.float32, 1
            def __eq__(self, other): return True
            def __getattr__(self, name): return lambda *args, **kwargs: True
        def relevance(q, K):
            return Yes()
    """,
    "a tensor that answers for itself": """
        class Yes(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None): return True
        def relevance(q, K):
            return torch.zeros(K.shape[0]).as_subclass(Yes)
    """,
    "a class that claims to be Tensor": """
        class Tensor:
            __module__ = "torch"
            __class__ = torch.Tensor
            def __float__(self): return 0.0
        def relevance(q, K):
            return Tensor()
    """,
    "every observation says nothing went wrong": """
        import autograder, autograder.observe as o
        o.observe = autograder.observe = lambda *args: o.Observation(value=None, error=None)
    """,
    "what is told, told otherwise": """
        import autograder
        from autograder.wire import dumps
        told = dumps(autograder.Observation(value=None))
        autograder.audit = lambda event, *args: __import__("sys").audit(event, *(told if type(x) is str else x for x in args))
    """,
    "the caller's frames": """
        def relevance(q, K):
            import sys
            frame = sys._getframe()
            while frame is not None:
                for scope in (frame.f_globals, frame.f_locals):
                    for name in list(scope):
                        if name in ("points", "passed", "verdict", "expected", "reference"):
                            scope[name] = 1.0
                frame = frame.f_back
            return torch.zeros(K.shape[0])
    """,
    "an input transformer and a patched run_cell": """
        shell = get_ipython()
        shell.input_transformers_cleanup.append(lambda lines: ["pass\\n"] if "check(" in "".join(lines) else lines)
        shell.run_cell = lambda *args, **kwargs: None
    """,
    "printed points": """
        import sys
        print("1.0"); sys.displayhook(1.0); print('{"event": "end", "reason": null}')
    """,
    "numbers for bytes": """
        torch.Tensor.numpy = lambda self, *args, **kwargs: __import__("numpy").zeros(10**4)
    """,
    "an AST transformer": """
        import ast
        class Nothing(ast.NodeTransformer):
            def visit_Call(self, node):
                return ast.Constant(1.0) if getattr(node.func, "id", "") == "check" else node
        get_ipython().ast_transformers.append(Nothing())
    """,
    "handlers of exceptions": """
        shell = get_ipython()
        shell.set_custom_exc((BaseException,), lambda *args, **kwargs: None)
        shell.showtraceback = shell.showsyntaxerror = lambda *args, **kwargs: print("1.0")
        def relevance(q, K):
            raise ValueError("points: 1.0")
    """,
    "display hooks and events": """
        import sys
        shell = get_ipython()
        sys.displayhook = shell.displayhook = lambda *args: 1.0
        for event in ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell"):
            shell.events.register(event, lambda *args: print("points 1.0"))
    """,
    "a tracer": """
        import sys
        def tracer(frame, event, arg):
            for name in ("error", "value", "points", "passed"):
                if name in frame.f_locals:
                    frame.f_locals[name] = None
            return tracer
        sys.settrace(tracer)
        sys.setprofile(lambda *args: None)
    """,
    "all objects of the interpreter": """
        import gc
        for thing in gc.get_objects():
            if type(thing).__name__ in ("Observation", "State", "Call", "CellRunner"):
                for name, value in (("error", None), ("not_written", False), ("open_check", "attend"), ("points", 1.0)):
                    try: object.__setattr__(thing, name, value)
                    except Exception: pass
    """,
    "False made True in memory": """
        import ctypes
        ctypes.memmove(id(False) + 24, id(True) + 24, 4)
    """,
    "files in the place of modules": """
        import importlib, os, sys
        for name in ("torch", "autograder", "judging", "sitecustomize", "json"):
            with open(name + ".py", "w") as file: file.write("def __getattr__(name): return lambda *args, **kwargs: True")
        sys.path.insert(0, os.getcwd())
        for name in [name for name in sys.modules if name.startswith(("autograder", "json"))]: del sys.modules[name]
        importlib.invalidate_caches()
    """,
    "a registry of one's own": """
        import sys, types
        class Exercise:
            points, cases, reference = 1, (), staticmethod(lambda *args: None)
        module = types.ModuleType("autograder.exercise")
        module.get = lambda name: Exercise
        module._exercises = {"relevance": Exercise}
        sys.modules["autograder.exercise"] = sys.modules["autograder.judging"] = module
    """,
    "patched builtins": """
        import builtins
        builtins.all = builtins.any = builtins.bool = lambda *args: True
        builtins.len = lambda thing: 0
    """,
    "patched numpy": """
        import numpy as np
        np.allclose = np.array_equal = np.isclose = lambda *args, **kwargs: True
        np.ndarray = np.asarray = np.array = lambda *args, **kwargs: 1.0
    """,
    "patched json": """
        import json
        json.dumps = lambda *args, **kwargs: '{"event": "observation", "name": "relevance", "case": 0, "seen": "true"}'
    """,
    "two interpreters at once": "import os; os.fork()",
    "a thread that goes on": """
        import threading
        def go_on():
            while True:
                torch.allclose = torch.equal = lambda *args, **kwargs: True
        threading.Thread(target=go_on, daemon=True).start()
    """,
    "forged files": """
        import json, os
        for name in ("records", "answers", "nbgrader"): os.makedirs(name, exist_ok=True)
        for name in ("records/s1.json", "answers/relevance.json", "gradebook.db", "events", "grades.csv"):
            with open(name, "w") as file: json.dump({"points": 1.0, "passed": True, "status": "full"}, file)
    """,
    "links out of the sandbox": """
        import os
        for name, target in (("a", "/"), ("b", "/proc/1/root"), ("c", "/course"), ("d", "../../out")):
            os.symlink(target, name)
    """,
    "nothing but NaN": "def relevance(q, K): return torch.full((K.shape[0],), float('nan'))",
    "infinity": "def relevance(q, K): return torch.full((K.shape[0],), float('inf'))",
    "a shape that broadcasts": "def relevance(q, K): return torch.zeros(1)",
    "no tensor at all": "def relevance(q, K): return 0.0",
    "an array of objects": """
        import numpy as np
        def relevance(q, K): return np.array([q, K], dtype=object)
    """,
    "the wrong dtype": "def relevance(q, K): return (K @ q).to(torch.complex64)",
    "inputs made to fit the answer": """
        def relevance(q, K):
            q.zero_(), K.zero_()
            return torch.zeros(K.shape[0], dtype=q.dtype)
    """,
    "a sparse tensor": "def relevance(q, K): return (K @ q).to_sparse()",
    "a quantity that is no number": "def relevance(q, K): return torch.quantize_per_tensor(K @ q, 0.1, 0, torch.qint8)",
}


def dedent(text: str) -> str:
    return "\n".join(line[8:] for line in text.strip("\n").split("\n"))


@pytest.mark.hostile
@pytest.mark.parametrize("attack", PRETENDING)
@pytest.mark.parametrize("where", ["before", "with the answer"])
def test_pretending_gains_nothing(attack: str, where: str) -> None:
    source = dedent(PRETENDING[attack])
    record = graded(WRONG, own=source) if where == "before" else graded(f"{WRONG}\n{source}")
    assert points(record)["relevance"] == 0.0
    assert record.points is not None and record.points <= 2.0


@pytest.mark.hostile
def test_patched_check_gains_nothing() -> None:
    source = "import autograder\nautograder.check = check = lambda *args: print('1.0')\n"
    assert points(graded(WRONG, own=source)) == {"relevance": 0.0, "attend": 0.0}


@pytest.mark.hostile
def test_forged_lines_on_every_open_file_gain_nothing() -> None:
    """A student can write to the pipe that the events leave by: what is forged there is judged like any answer."""
    source = f"""
import json, os
lines = [{{"event": "observation", "name": "relevance", "case": i, "seen": seen}}
         for i in range(9) for seen in ({dumps(Observation(value=True))!r}, {dumps(Observation())!r}, "1.0", "[" * 10**5)]
lines += [{{"event": "cell", "cell": 1, "error": None, "text": "1.0", "points": 1.0}}, {{"event": "points"}}, [1.0], "x", None]
lines += [{{"event": "observation", "name": "relevance", "case": -1, "seen": "x"}}, {{"event": "observation"}}]
lines += [{{"event": "observation", "name": ["a"], "case": {{}}, "seen": 1}}, {{"event": "cell", "cell": "0"}}]
data = b"".join(json.dumps(line).encode() + b"\\n" for line in lines) + b"\\xff\\xfe\\n{{\\n" + b"[" * 10**5 + b"\\n"
for fd in range(256):
    try:
        os.write(fd, data)
    except OSError:
        pass
{WRONG}"""
    assert points(graded(source)) == OTHERS_ONLY


@pytest.mark.hostile
def test_an_early_done_costs_the_rest_of_the_own_notebook_only() -> None:
    source = """
import os, time
for fd in range(3, 30):
    try: os.write(fd, b'{"event": "done"}\\n')
    except OSError: pass
time.sleep(0.5)
"""
    assert points(graded(own=source)) == {"relevance": 0.0, "attend": 0.0}
    assert points(graded()) == FULL


@pytest.mark.hostile
@pytest.mark.parametrize(
    "call",
    [
        "torch.nn.functional.scaled_dot_product_attention(q[None], K, V)[0]",
        'getattr(torch.nn.functional, "scaled_dot_product" + "_attention")(q[None], K, V)[0]',
        "__import__('course_lib.attention').attention.scaled_dot_product_attention(q[None], K, V)[0][0]",
        "use('attend', None)(q, K, V)",
        "__import__('autograder.exercise').exercise.get('attend').reference(q, K, V)",
        "__import__('autograder.judging').judging.get('attend').reference(q, K, V)",
    ],
)
def test_calling_what_does_it_all_gets_nothing(call: str) -> None:
    """Seen while it runs, seen in the source, or simply not there."""
    record = graded(attend=f"def attend(q, K, V):\n    return {call}\n")
    assert points(record) == {"relevance": 1.0, "attend": 0.0}


def said(record: Record) -> str:
    """All that the instructor is told of a record, beside its points."""
    return "\n".join([record.reason, *(line.text["en"] for line in record.to_look_at)])


@pytest.mark.hostile
def test_a_check_that_ends_the_interpreter_is_told_though_all_cases_were_seen() -> None:
    source = f"""
import os, json
CASES = {len(get("relevance").cases)}
seen = []
def relevance(q, K):
    seen.append(0)
    if len(seen) == CASES:
        line = json.dumps({{"event": "observation", "name": "relevance", "case": CASES - 1, "seen": SEEN}})
        for fd in range(3, 40):
            try: os.write(fd, (line + chr(10)).encode())
            except OSError: pass
        os._exit(0)
    return q @ K.T
SEEN = {dumps(Observation(value=torch.ones(1)))!r}
"""
    record = graded(source)
    assert "Stopped within the check of: relevance" in record.reason
    assert "os._exit" in said(record) and "os.write" in said(record)


@pytest.mark.hostile
def test_the_cell_that_answers_two_exercises_is_read_for_both() -> None:
    """In a thread of its own the call is out of the watch's sight; the source is not."""
    hidden = """
import threading, torch.nn.functional as F
def attend(q, K, V):
    out = []
    thread = threading.Thread(target=lambda: out.append(F.scaled_dot_product_attention(q[None], K, V, scale=1.0)[0]))
    thread.start(), thread.join()
    return out[0]
"""
    record = graded(RIGHT["relevance"] + hidden, attend="# Answered in the cell of relevance.")
    assert points(record) == {"relevance": 1.0, "attend": 0.0}
    assert record.grades[1].status == "not allowed" and "import threading" in said(record)


BLINDING = {
    "apply_": "torch.zeros(1).apply_(f)",
    "a subclass": "torch.zeros(1).as_subclass(T).abs()",
    "a thread": "asyncio.run(asyncio.to_thread(f, 0.0))",
    "a dispatch class": "torch.zeros(1).as_subclass(D).abs()",
}


@pytest.mark.hostile
@pytest.mark.parametrize("route", BLINDING.values(), ids=BLINDING.keys())
def test_a_hidden_call_has_no_points_or_is_listed(route: str) -> None:
    source = f"""
import asyncio, torch.nn.functional as F
def attend(q, K, V):
    out = []
    def f(v):
        out.append([F][0].scaled_dot_product_attention(q[None], K, V, scale=1.0)[0])
        return v
    class T(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return f(torch.zeros(1))
    class D(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return f(torch.zeros(1))
    {route}
    return out[0]
"""
    record = graded(attend=source)
    assert "scaled_dot_product_attention" in said(record) and "F as a value" in said(record)
    if route != BLINDING["a dispatch class"]:
        assert points(record) == {"relevance": 1.0, "attend": 0.0}
        assert (
            record.grades[1].status == "not allowed"
            and "the watch cannot see into it" in record.grades[1].message["en"]
        )


def test_a_comparison_with_the_built_in_below_the_answer_costs_nothing() -> None:
    below = "import torch.nn.functional as F\nq, K = torch.ones(2), torch.eye(2)\n"
    below += "print(attend(q, K, K) - F.scaled_dot_product_attention(q[None], K, K, scale=1.0)[0], torch.__version__)\n"
    record = graded(attend=RIGHT["attend"] + below)
    assert points(record) == FULL
    assert "scaled_dot_product_attention" in said(record)


HONEST = {
    "a local called like what the comparison is called": RIGHT["attend"].replace("return", "out =")
    + "    return out\nq, K = torch.ones(2), torch.eye(2)\n"
    + "out = torch.nn.functional.scaled_dot_product_attention(q[None], K, K)\nprint(out)\n",
    "a bare comparison": "import torch\n"
    + RIGHT["attend"]
    + "q, K = torch.ones(2), torch.eye(2)\n"
    + "torch.allclose(attend(q, K, K), torch.nn.functional.scaled_dot_product_attention(q[None], K, K, scale=1.0)[0])\n",
    "a comparison in a main block": RIGHT["attend"]
    + "if __name__ == '__main__':\n    q, K, V = torch.ones(2), torch.eye(2), torch.eye(2)\n"
    + "    print(torch.nn.functional.scaled_dot_product_attention(q[None], K, V))\n",
    "names of the package": "from autograder import check, get, judge, names\n"
    + RIGHT["attend"]
    + "print(names(), judge('attend', attend).passed, judge('attend', attend).message('zh-TW'))\n",
    "a branch that is never reached": RIGHT["attend"].replace(
        "return", "if q.dtype == torch.float16:\n        raise NotImplementedError\n    return"
    ),
}


@pytest.mark.parametrize("attend", HONEST.values(), ids=HONEST.keys())
def test_what_stands_beside_a_right_answer_costs_nothing(attend: str) -> None:
    record = graded(attend=attend)
    assert points(record) == FULL
    assert record.grades[1].printed.find("Error") < 0, record.grades[1].printed


def test_one_branch_that_is_not_written_costs_its_own_case_only() -> None:
    """As at home: the cases after it are tried too."""
    source = RIGHT["attend"].replace("return", "if K.shape[0] == 5:\n        raise NotImplementedError\n    return")
    scope = {"torch": torch}
    exec(source, scope)
    at_home = judge("attend", scope["attend"])
    assert 0 < at_home.points < 2.0 and not at_home.cases[0].passed and at_home.cases[1].passed
    assert points(graded(attend=source)) == {"relevance": 1.0, "attend": at_home.points}


def test_a_name_of_an_own_cell_that_is_local_in_the_answer_costs_nothing() -> None:
    own = "attention = torch.nn.functional.scaled_dot_product_attention\nprint(attention)"
    answer = "def attend(q, K, V):\n    attention = torch.softmax(q @ K.T, dim=-1)\n    return attention @ V\n"
    record = graded(own=own, attend=answer)
    assert points(record) == FULL and "own cell 1, line 1" in said(record)


# Ways to the built-in that leave no name of it in the source, and out of the watch's sight.
ROUNDABOUT = {
    "a field of a format": """
from string import Formatter
def reach(path): return Formatter().get_field("0." + path, [torch.nn], {})[0]
f, off = reach("functional.scaled_dot" + "_product_attention"), reach("functional.torch._" + "C.DisableTorch" + "Function")
def attend(q, K, V):
    with off(): return f(q[None], K, V, scale=1.0)[0]
""",
    "a patched grader": """
import sys
from contextlib import nullcontext
from string import Formatter
box = []
class Keep:
    def __contains__(self, x): return box.append(x) or True
sys.modules in Keep()
box[0]["autograder" + ".observe"].watch = lambda *a: nullcontext(sys)
sys.outermost = sys.left = set()
def attend(q, K, V):
    return Formatter().get_field("0.functional.scaled_dot" + "_product_attention", [torch.nn], {})[0](q[None], K, V, scale=1.0)[0]
""",
    "an unpickled text": """
import io, numpy as np
P = b"cbuiltins\\nexec\\n(Vimport torch; import torch.nn.functional as F; F.keep=F.scaled_dot_product_attention, torch._C.DisableTorchFunction\\ntR."
np.load(io.BytesIO(P), None, True)
f, off = torch.nn.functional.keep
def attend(q, K, V):
    with off(): return f(q[None], K, V, scale=1.0)[0]
""",
    "an import by IPython": """
from IPython.utils.importstring import import_item as r
f, off = r("torch.nn.functional.scaled_dot" + "_product_attention"), r("torch._" + "C.DisableTorch" + "Function")
def attend(q, K, V):
    with off(): return f(q[None], K, V, scale=1.0)[0]
""",
}  # fmt: skip
LISTED = {
    "a field of a format": "get_field",
    "a patched grader": "sys.modules",
    "an unpickled text": "numpy.load with more than a path",
    "an import by IPython": "import_item",
}


@pytest.mark.hostile
@pytest.mark.parametrize("route", ROUNDABOUT)
def test_a_roundabout_call_is_listed(route: str) -> None:
    """What torch was made to do stands on its own record, which nobody takes away with the grader's other parts."""
    record = graded(attend=ROUNDABOUT[route])
    assert points(record) == FULL | {"attend": 0.0}
    assert "torch.ops.aten.scaled_dot_product_attention" in record.grades[1].message["en"]
    assert LISTED[route] in said(record)


HIDDEN = """
import torch.nn.functional as F
from string import Formatter
sdpa = Formatter().get_field("0.functional.scaled_dot" + "_product_attention", [torch.nn], {})[0]
def attend(q, K, V):
    def far(*anything):
        box.append(sdpa(q[None], K, V, scale=1.0)[0])
        return q.sum()
    class Compares:
        def __lt__(self, other): far()
        def __le__(self, other): return True
    box = []
    try:
        ROUTE
    except TypeError:
        pass
    return box[0]
"""
CALLED_BACK = {
    "a thread of IPython": "from IPython.lib.backgroundjobs import BackgroundJobManager as M; M().new(far, daemon=True).join()",
    "handle_torch_function": "F.handle_torch_function(far, (q,), q)",
    "a distance": "F.triplet_margin_with_distance_loss(q, q, q, distance_function=far)",
    "a comparison": "F.dropout(q, Compares())",
    "a branch": "torch.cond(torch.tensor(True), far, far, (q,))",
}


@pytest.mark.hostile
@pytest.mark.parametrize("route", CALLED_BACK.values(), ids=CALLED_BACK.keys())
def test_what_is_called_back_out_of_sight_has_no_points(route: str) -> None:
    record = graded(attend=HIDDEN.replace("ROUTE", route), limits=Limits(total_seconds=60.0))
    assert points(record) == {"relevance": 1.0, "attend": 0.0} and record.grades[1].status == "not allowed"


# A cell of one's own starts somebody who waits, and whom the answer asks without a name that says so.
HELPERS = {
    "threads": """
        import threading
        def count():
            for _ in range(10_000): time.sleep(1e-4)
        threading.Thread(target=count, daemon=True).start()
        def ask(): time.sleep(0.01)
    """,
    "processes": """
        import os
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
    """,
    "processes, and not for long": """
        import os
        def ask():
            if os.fork() == 0:
                os._exit(0)
            os.wait()
    """,
}


@pytest.mark.hostile
@pytest.mark.parametrize("kind", HELPERS)
def test_what_runs_beside_an_answer_is_listed(kind: str) -> None:
    own = "import time\ndef ask(): pass\n" + textwrap.dedent(HELPERS[kind])
    record = graded("def relevance(q, K):\n    ask()\n    return (K * q).sum(-1)", own=own)
    assert points(record) == FULL
    assert f"relevance, while it ran: other {kind.split(',')[0]}" in said(record)


WARNING_LINES = (
    "torch.tensor(q)", "torch.ones(2, 3, 4).T", "(q * 1).grad", "torch.meshgrid(q, q)", "torch.ones(1).std()",
    "torch.ones(2, dtype=torch.complex64).float()", "torch.qr(torch.eye(2))",
)  # fmt: skip


@pytest.mark.parametrize("line", WARNING_LINES)
def test_a_warning_of_torch_costs_nothing_and_is_not_listed(line: str) -> None:
    """Neither in the first answer that warns nor in the next: a warning calls IPython and leaves notes in modules."""
    record = graded(
        f"def relevance(q, K):\n    {line}\n    return K @ q",
        attend=RIGHT["attend"].replace("\n", f"\n    {line}\n", 1),
    )
    assert points(record) == FULL, record.grades[0].message
    assert "while it ran" not in said(record)


@pytest.mark.hostile
def test_a_thread_that_has_ended_is_told() -> None:
    own = """
import _thread, time
def ask():
    _thread.start_new_thread(int, ())
    time.sleep(0.1)
"""
    record = graded("def relevance(q, K):\n    ask()\n    return (K * q).sum(-1)", own=own)
    assert "relevance, while it ran: other threads" in said(record)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "way",
    ["torch.from_numpy(far)", "torch.tensor(far)", "torch.asarray(far)", "torch.frombuffer(far, dtype=torch.float64)"],
)
def test_numbers_that_come_from_numpy_are_told(way: str) -> None:
    answer = f"""
import numpy as np
def relevance(q, K):
    far = np.zeros(len(K))
    for i, k in enumerate(K):
        far[i] = sum(float(a) * float(b) for a, b in zip(q, k))
    return {way}.to(q.dtype)
"""
    record = graded(answer)
    assert "relevance, while it ran: Tensor.item, torch.from_numpy" in said(record)


@pytest.mark.hostile
def test_what_torch_did_for_an_answer_is_listed_where_no_honest_answer_has_it_done() -> None:
    hidden = """
def relevance(q, K):
    from string import Formatter
    mix = Formatter().get_field("0.conv" + "_tbc", [torch], {})[0]
    return mix(K[None].mT.contiguous().mT, q[None, :, None], torch.zeros(1), 0)[0, :, 0]
"""
    record = graded(hidden)
    assert points(record) == FULL
    assert "relevance, while it ran: conv_tbc" in said(record)
    assert "relevance 執行時：conv_tbc" in "".join(line.text["zh-TW"] for line in record.to_look_at)


@pytest.mark.hostile
def test_a_progress_bar_has_no_thread_that_redraws_it() -> None:
    own = """
import time
from tqdm import tqdm
class Bar(tqdm):
    monitor_interval = 0.02
    def refresh(self, *args, **kwargs):
        while jobs: done.append(sdpa(*jobs.pop(), scale=1.0)[0])
jobs, done = [], []
bar = Bar(total=10**6, maxinterval=0.01, miniters=5)
sdpa = torch.nn.functional.scaled_dot_product_attention
"""
    attend = """
def attend(q, K, V):
    jobs.append((q[None], K, V))
    for _ in range(20):
        bar.miniters, bar.last_print_t = 5, 0
        time.sleep(0.01)
    return done.pop()
"""
    assert points(graded(own=own, attend=attend)) == {"relevance": 1.0, "attend": 0.0}
    bar = "import io\nfrom tqdm.auto import tqdm\n" + RIGHT["attend"].replace(
        "return", "for _ in tqdm(range(3)): pass\n    return"
    )
    assert points(graded(attend=bar)) == FULL


PATCHED = {
    "torch.initial_seed": "def late():\n    finish()\n    return old()",
    "torch.get_default_dtype": "def late():\n    finish()\n    return old()",
    "torch.Tensor.clone": "def late(x, **how):\n    finish()\n    return old(x, **how)",
    "torch.Tensor.contiguous": "def late(x):\n    finish()\n    return old(x)",
    "json.dumps": "def late(*args, **how):\n    finish()\n    return old(*args, **how)",
}


@pytest.mark.hostile
@pytest.mark.parametrize("name", PATCHED)
def test_what_is_patched_does_not_finish_an_answer_after_the_watch(name: str) -> None:
    own = f"""
import json
sdpa, old, waiting = torch.nn.functional.scaled_dot_product_attention, {name}, []
def finish():
    while waiting:
        q, K, V, out = waiting.pop()
        out.copy_(sdpa(q[None], K, V, scale=1.0)[0])
{PATCHED[name]}
{name} = late
"""
    attend = """
def attend(q, K, V):
    out = torch.zeros(V.shape[-1], dtype=V.dtype)
    waiting.append((q, K, V, out))
    return out
"""
    assert points(graded(own=own, attend=attend))["attend"] == 0.0


@pytest.mark.hostile
def test_a_magic_with_options_is_read() -> None:
    source = """
box = []
def attend(q, K, V):
    box[:] = [q, K, V, 0]
    %timeit -n1 -r1 -q with torch._C.DisableTorchFunction(): box[3] = torch.nn.functional.scaled_dot_product_attention(box[0][None], box[1], box[2], scale=1.0)[0]
    return box[3]
"""
    for more in ("", "%time 0\n" * 51):
        record = graded(attend=source + more)
        assert points(record) == {"relevance": 1.0, "attend": 0.0} and record.grades[1].status == "not allowed"


@pytest.mark.hostile
def test_what_another_answer_s_cell_does_for_an_answer_is_listed() -> None:
    """A built-in that only the other exercise forbids; where the other does not use it, it is nobody's affair."""

    def listed(layer_norm: str) -> list[str]:
        sources = {
            "feed_forward": "def helper(x):\n    return torch.layer_norm(x, x.shape[-1:])\n",
            "layer_norm": layer_norm,
        }
        cells = []
        for name, source in sources.items():
            book = {"grade_id": f"answer-{name}", "solution": True}
            cells.append(new_code_cell(source, metadata={"nbgrader": book}))
        return [line.text["en"] for _, line in unusual_lines(cells, [get(name) for name in sources])]

    assert listed("def layer_norm(x, gamma, beta):\n    return helper(x)\n") == [
        "feed_forward, line 2: torch.layer_norm"
    ]
    assert listed("def layer_norm(x, gamma, beta):\n    helper = 1\n    return x\n") == []


def test_honest_notebooks_are_not_listed() -> None:
    assert graded(own=NOISY["warnings"]).to_look_at == []
    sources = [dedent(source) if "\n        " in source else source for source in NOISY.values()]
    listed = {seen.name for source in sources for seen in unusual_in_source(source, scratch=True)}
    assert listed == {"import a_package_that_nobody_has"}


@pytest.mark.hostile
def test_no_more_than_twenty_lines_are_listed() -> None:
    """What says most comes first; of what is cut off, the names are told."""
    many = "".join(f"x.strange_{i}\n" for i in range(30))
    unusual = graded(
        own=f"import gc\ngc.get_objects()\n{many}import ctypes\n", attend=RIGHT["attend"] + "exec('')\n"
    ).to_look_at
    texts = [line.text["en"] for line in unusual]
    assert len(unusual) == 21 and unusual[-1].code == ""
    first = ["exec", "code made from a text", "import ctypes", "gc.get_objects"]
    assert [text.partition(": ")[2] for text in texts[:4]] == first
    assert texts[-1].startswith("and 14 more lines: strange_16, strange_17, ")
    assert unusual[-1].text["zh-TW"].startswith("另外還有 14 行：strange_16、strange_17、")


@pytest.mark.hostile
def test_a_name_is_listed_once_in_a_cell_and_counted() -> None:
    """A flood of comparisons hides nothing; neither do many names on one line."""
    flood = "x = torch.ones(3)\n" + "print(torch.nn.functional.scaled_dot_product_attention(x, x, x))\n" * 30
    names = "[" + ", ".join(f"x.strange_{i}" for i in range(200)) + ", exec]\n"
    record = graded(own=flood + names, attend=RIGHT["attend"] + "vars(torch)\n")
    assert [line.text["en"][:90] for line in record.to_look_at] == [
        "attend, line 3: torch as a value, vars",
        ("own cell 1, line 32: exec, " + ", ".join(f"strange_{i}" for i in sorted(range(200), key=str)))[:90],
        "own cell 1, line 2: torch.nn.functional.scaled_dot_product_attention (30×)"[:90],
    ]
    assert re.search(r"strange_\d+ and \d+ more$", record.to_look_at[1].text["en"])
    assert re.search(r"strange_\d+等，另有 \d+ 個$", record.to_look_at[1].text["zh-TW"])


def test_a_listed_line_stands_there_as_it_is() -> None:
    """Numbered as Python counts lines, in one line, and not too long; the same in both languages."""
    long = "torch.equal = lambda *a: True  # " + "so " * 50
    record = graded(own=f'note = "\x0c"\n    \nimport torch\n{long}\n')
    (line,) = record.to_look_at
    assert line.text == both("own cell 1, line 4: torch.equal = …", "自己加的第 1 個儲存格，第 4 行：torch.equal = …")
    assert len(line.code) == 100 and line.code[:-1] == long[:99] and line.code[-1] == "…"


def test_own_cells_are_counted_as_they_stand_in_the_notebook(tmp_path: Path) -> None:
    """One of comments alone too, as a student counts; in the notebook that the instructor is sent to as well."""
    notebook = nbformat.reads((LESSONS / "en/02_qkv.ipynb").read_text("utf-8"), as_version=4)
    own = ["# My notes.", "", "import ctypes\nprint(1)", "# More.\nprint(1)"]
    notebook.cells[5:5] = [new_code_cell(source) for source in own]
    nbformat.write(notebook, tmp_path / "b01.ipynb")
    (row,) = collect(tmp_path, LESSONS)
    assert row.notebook is not None
    cells = list(cells_to_run(row.notebook))
    assert [line.text["en"] for _, line in unusual_lines(cells, [])] == ["own cell 2, line 1: import ctypes"]
    kept = [cell.source for cell in row.notebook.cells if "student" in cell.metadata.get("tags", [])]
    assert kept == [source for source in own if source]


def test_a_syntax_error_is_told_once_and_is_no_code_to_read() -> None:
    record = graded("def relevance(q, K)\n    return K @ q\n", own="x = (1,\n")
    grade = record.grades[0]
    assert points(record) == OTHERS_ONLY and (grade.status, grade.error) == ("none", "SyntaxError")
    assert grade.message == both(
        "It could not be tried: SyntaxError: expected ':' (line 1).",
        "這題沒辦法執行：SyntaxError: expected ':'（第 1 行）。",
    )
    assert len(grade.lines) > 5
    assert all(line.difference == both("not tried.", "沒有執行到。") for line in grade.lines)
    assert "def relevance(q, K)" in grade.printed and "SyntaxError" not in grade.printed
    assert record.notes == [
        both("Own cell 1 stopped: SyntaxError: incomplete input (line 1)", "自己加的第 1 個儲存格停了下來：SyntaxError: incomplete input（第 1 行）")
    ]  # fmt: skip
    assert record.to_look_at == []


def test_what_a_cell_printed_and_died_of_is_shown_once() -> None:
    record = graded(attend=RIGHT["attend"] + "print('so far')\n1 / 0\n")
    assert points(record) == FULL
    assert record.grades[1].printed.startswith("so far\n") and record.grades[1].printed.count("division by zero") == 1
    grade = graded(attend="print('so far')\n1 / 0\n" + RIGHT["attend"]).grades[1]
    assert grade.message["en"] == "It could not be tried: ZeroDivisionError: division by zero (line 2)."
    assert "so far" in grade.printed and "division by zero" not in grade.printed
    assert grade.error == "ZeroDivisionError"


@pytest.mark.hostile
def test_text_that_is_no_python_and_runs_all_the_same_is_listed() -> None:
    """IPython can be taught to read it: then the line that teaches it is listed, and so is the cell."""
    teach = "import IPython\nIPython.get_ipython().input_transformers_post.append(lambda lines: ['x = 1\\n'])\n"
    handed_in = submission(own=teach)
    assert handed_in.notebook is not None
    handed_in.notebook.cells.append(new_code_cell("gibberish (((", metadata={"tags": ["student"]}))
    record = grade_submission(handed_in, seeds_for(handed_in, INPUTS), SHORT).record
    assert "own cell 1, line 2: IPython.get_ipython" in said(record)
    assert "own cell 2, line 1: code that cannot be read as Python" in said(record)


@pytest.mark.hostile
def test_an_interpreter_ended_in_an_own_cell_or_an_answer_is_told_in_the_row() -> None:
    record = graded(own="import os\nos._exit(0)\n", attend="import os\nos._exit(0)\n")
    assert record.reason.strip().split(". ") == ["Stopped within own cells: 1", "Stopped within the answer of: attend."]
    assert in_chinese(record.reason.strip()) == (
        "自己加的儲存格執行到一半就中斷，編號：1。作答的儲存格執行到一半就中斷：attend。"
    )


# ------------------------------------------------------------------------------------------------- breaking things

BREAKING = {
    "an endless loop": "while True: pass",
    "a loop that swallows everything": """
        import time
        while True:
            try:
                while True: time.sleep(0.01)
            except BaseException:
                pass
    """,
    "a loop that blocks all signals": """
        import signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True: pass
    """,
    "an endless print": "while True: print('x' * 1000)",
    "endless prints to the real stdout and stderr": """
        import os
        while True: os.write(1, b'x' * 1000); os.write(2, b'x' * 1000)
    """,
    "os._exit": "import os; os._exit(0)",
    "sys.exit": "import sys; sys.exit(0)",
    "a segfault": "import ctypes; ctypes.string_at(0)",
    "an abort": "import os; os.abort()",
    "kill everybody": "import os; os.kill(-1, 9); os._exit(1)",
    "kill the process group": "import os; os.killpg(0, 15); os.killpg(0, 9); os._exit(1)",
    "kill the parent": """
        import os
        os.kill(1, 9)
        os.kill(os.getppid(), 9)
    """,
    "a memory hog": """
        hoard = []
        while True: hoard.append(torch.ones(16 << 20))
    """,
    "a memory hog of many processes": """
        import os, time
        for _ in range(40):
            if os.fork() == 0:
                hoard = bytearray(200 << 20)
                time.sleep(60)
        time.sleep(60)
    """,
    "a memory hog of shared memory": """
        import mmap, os, time
        with open("hoard", "wb+") as file:
            file.truncate(100 << 20)
            for _ in range(40):
                if os.fork() == 0:
                    hoard = mmap.mmap(file.fileno(), 100 << 20)
                    for i in range(0, len(hoard), 4096): hoard[i] = 1
                    time.sleep(60)
        time.sleep(60)
    """,
    "a memory hog of files without a name": """
        import os
        while True:
            fd = os.memfd_create("hoard")
            for _ in range(25): os.write(fd, bytes(10 << 20))
    """,
    "a memory hog of System V": """
        import ctypes
        libc = ctypes.CDLL(None)
        while libc.shmget(0, 1 << 30, 0o1600) >= 0: pass
        raise MemoryError
    """,
    "a fork bomb": """
        import os
        while True: os.fork()
    """,
    "a thread bomb": """
        import threading, time
        while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    """,
    "a full disk": """
        import os
        for folder in ("/tmp", "/dev/shm", "/var/tmp", "."):
            with open(folder + "/full", "wb") as file:
                while True: file.write(bytes(1 << 20))
    """,
    "deep recursion": """
        import sys
        sys.setrecursionlimit(10**9)
        def down(): return down()
        down()
    """,
    "a flood of events": """
        import autograder, os
        while True:
            for fd in range(3, 256):
                try: os.write(fd, b'x' * 65536)
                except OSError: pass
    """,
    "a huge result": "def relevance(q, K): return torch.zeros(1 << 25)",
    "a result that is its own part": """
        def relevance(q, K):
            x = []
            x.append(x)
            return x
    """,
    "an exception that cannot be printed": """
        class Bad(Exception):
            def __str__(self): raise RuntimeError
        def relevance(q, K): raise Bad
    """,
    "lone surrogates": "print(chr(0xD800)); raise ValueError(chr(0xDFFF))",
    "a null byte": "x = 1\0",
    "no Python": "def relevance(q, K):\n            return (",
}


@pytest.mark.hostile
@pytest.mark.parametrize("attack", BREAKING)
def test_a_broken_cell_costs_its_own_exercise_only(attack: str) -> None:
    record = graded(dedent(BREAKING[attack]) if "\n        " in BREAKING[attack] else BREAKING[attack])
    assert points(record) == OTHERS_ONLY
    assert record.grades[0].status in ("stopped", "none"), record.grades[0]
    assert points(graded()) == FULL, "the next notebook must run"


@pytest.mark.hostile
def test_an_endless_loop_in_one_case_keeps_the_cases_before_it() -> None:
    """The first cases are judged; the time limit is one of a case."""
    source = "def relevance(q, K):\n    while K.shape[0] == 1: pass\n    return K @ q\n"
    record = graded(source)
    earned = points(record)
    assert 0 < (earned["relevance"] or 0) < 1 and earned["attend"] == 2.0
    grade = record.grades[0]
    assert grade.message["en"] == "It could not be tried: this cell ran longer than 2 s."
    assert [line.difference["en"] for line in grade.lines if line.difference][-1] == "not tried."


@pytest.mark.hostile
def test_many_slow_cells_meet_the_limit_of_the_whole_notebook() -> None:
    cells = [Cell("import time; time.sleep(1.5)")] * 5
    outcome = sandbox.run(Job(tuple(cells), {}, Limits(cell_seconds=2.0, total_seconds=3.0)))
    assert outcome.ended is not None and "in all" in outcome.ended["en"]
    assert points(graded()) == FULL


@pytest.mark.hostile
def test_nothing_is_left_running() -> None:
    source = """
import os, threading, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
threading.Thread(target=lambda: [time.sleep(600)], daemon=False).start()
threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)], daemon=True).start()
"""
    assert points(graded(own=source)) == FULL
    left = descendants(sandbox._local.worker.process.pid)
    deadline = time.monotonic() + 10
    while len(left) != 3 and time.monotonic() < deadline:  # the killed take a moment to go, the next process to come
        time.sleep(0.05)
        left = descendants(sandbox._local.worker.process.pid)
    assert len(left) == 3, "bubblewrap's first process, the worker, and the process that waits for the next job"
    assert points(graded()) == FULL


# ------------------------------------------------------------------------------------------------- the wall


@pytest.mark.hostile
def test_the_course_and_the_host_are_out_of_sight(tmp_path: Path) -> None:
    (tmp_path / "gradebook.db").write_text("points")
    root = sandbox.ROOT.parent
    paths = [
        sandbox.ROOT / "exercises" / "l02_qkv.py", sandbox.ROOT / "judging.py", sandbox.ROOT / "exercise.py",
        sandbox.COURSE_LIB / "attention.py", root / "solutions", root / "lessons", root / ".git", root / "pyproject.toml",
        tmp_path, tmp_path / "gradebook.db", "/course/course_lib", "/course/autograder/observe.py", "/course/autograder/worker.py",
        "/etc/passwd", "/etc/shadow", "/root", "/home", "/var", "/run", "/sys", "/dev/sda", "/proc/1", "/proc/self",
    ]  # fmt: skip
    seen = printed(f"import os\nfor path in {[str(p) for p in paths]}:\n    if os.path.exists(path): print(path)")
    kept = [Path(folder) for folder in sandbox.read_only_folders()]  # Python itself may lie below one of these
    assert not [path for path in seen.split() if not any(folder.is_relative_to(path) for folder in kept)]
    assert Path("/etc/passwd").exists(), "the list above must name real files"


@pytest.mark.hostile
def test_an_installed_course_is_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install` without -e puts the answers among the packages that the sandbox needs."""
    kept = [*sandbox.read_only_folders(), str(sandbox.ROOT.parent)]
    monkeypatch.setattr(sandbox, "read_only_folders", lambda: kept)
    sandbox.close_all()
    folders = [str(sandbox.ROOT), str(sandbox.COURSE_LIB)]
    seen = printed(f"import os\nprint([os.listdir(f) for f in {folders} if os.path.exists(f)])")
    assert seen in ("[[], []]", "[]")
    assert points(graded()) == FULL
    sandbox.close_all()


@pytest.mark.hostile
def test_no_answers_in_memory() -> None:
    source = """
import gc, sys, types
names = [name for name in sys.modules if name.startswith(("autograder.", "course_lib"))]
print(sorted(n for n in names if n.startswith("autograder.")))
from course_lib.attention import scaled_dot_product_attention
print(scaled_dot_product_attention.__code__.co_names, "masked_fill" in str(scaled_dot_product_attention.__code__.co_consts))
import inspect
try:
    print(inspect.getsource(scaled_dot_product_attention))
except OSError:
    print("no source")
print([c.co_name for c in gc.get_objects() if isinstance(c, types.CodeType) and "course_lib/attention" in c.co_filename])
"""
    lines = printed(source).split("\n")
    allowed = {
        "autograder." + name
        for name in (
            "callbacks",
            "functions",
            "made",
            "meter",
            "observe",
            "operations",
            "text",
            "watch",
            "wire",
            "witness",
            "worker",
        )
    }
    assert set(eval(lines[0])) <= allowed
    assert "softmax" not in lines[1] and "True" not in lines[1]
    assert lines[2] == "no source"


@pytest.mark.hostile
def test_no_network() -> None:
    source = """
import socket
for address in [("1.1.1.1", 53), ("127.0.0.1", 22), ("10.0.0.1", 80), ("169.254.169.254", 80)]:
    try:
        socket.create_connection(address, timeout=0.3)
        print("connected", address)
    except OSError:
        pass
try:
    socket.getaddrinfo("example.org", 80)
    print("resolved")
except OSError:
    pass
import os
print(sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys/class/net") else "", end="")
"""
    assert printed(source) == ""


@pytest.mark.hostile
def test_no_way_to_more_rights() -> None:
    source = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(os.getuid(), libc.mount(b"none", b"/tmp", None, 32, None), libc.umount2(b"/course", 2), libc.umount2(b"/tmp", 2))
print(libc.mount(b"proc", b"/proc", b"proc", 0, None), libc.ptrace(16, 1, 0, 0), libc.unshare(0x10000000 | 0x20000))
print(libc.syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], 0x10000000 | 17, 0, 0, 0, 0))
for target in ("/usr/x", "/x", "/course/x", "/dev/x", os.path.dirname(os.__file__) + "/x"):
    try:
        open(target, "w")
        print("wrote", target)
    except OSError:
        pass
try:
    os.setuid(0)
    print("root")
except OSError:
    pass
"""
    lines = printed(source).split("\n")
    assert lines[0] == "65534 -1 -1 -1"
    assert lines[1:] == ["-1 -1 -1", "-1"]


@pytest.mark.hostile
def test_the_environment_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "a secret of the host")
    sandbox.close_all()  # a worker started before would not have seen it anyway
    seen = printed("import os\nprint(dict(os.environ), os.getcwd(), os.listdir('.'))")
    assert "a secret" not in seen and seen.endswith("/student []")


@pytest.mark.hostile
def test_nothing_passes_from_one_notebook_to_the_next() -> None:
    first = """
import builtins, os, sys, types
for folder in (os.environ["HOME"], "/dev/shm"):
    open(folder + "/note", "w").write("the answer")
torch.softmax = None
builtins.note = sys.note = os.environ["NOTE"] = "the answer"
sys.modules["note"] = types.ModuleType("note")
"""
    second = """
import builtins, os, sys
print(os.listdir(os.environ["HOME"]), os.listdir("/dev/shm"), hasattr(builtins, "note"), hasattr(sys, "note"), "NOTE" in os.environ,
      "note" in sys.modules, end="")
"""
    run("import torch\n" + first)
    assert printed(second) == "[] [] False False False False"
    assert points(graded()) == FULL


@pytest.mark.hostile
def test_the_inputs_of_other_exercises_are_no_secret_but_expected_values_are_not_there() -> None:
    """The plan holds calls and forbidden names; nothing else goes in."""
    plan = planned(get("attend"), 1)
    assert set(plan) == {"driver", "forbidden", "operations", "calls"}
    assert all("exact" not in call and "reference" not in call for call in plan["calls"])


def test_the_same_notebook_gives_the_same_result() -> None:
    job = Job(
        (Cell(SETUP), Cell("def attend(q, K, V): return torch.rand(4) + hash('x') % 7"), Cell("check('attend', attend)", "attend")),
        {"attend": planned(get("attend"), 3)},
        SHORT,
    )  # fmt: skip
    one, two = sandbox.run(job), sandbox.run(job)
    sandbox.close_all()
    three = sandbox.run(job)
    shown = [[dumps(seen) for seen in outcome.observations["attend"].values()] for outcome in (one, two, three)]
    assert shown[0] == shown[1] == shown[2] and len(shown[0]) == len(get("attend").cases)
    assert one.cells == two.cells == three.cells


# ------------------------------------------------------------------------------------------------- cells that take long

SLOW = "import time\nslept = time.sleep(1.5)\nprint('slept')"


def test_own_cells_that_nothing_needs_are_not_run_again() -> None:
    """Four that take long and three that never end would else use up the time of every answer below them."""
    handed_in = submission()
    own = [SLOW.replace("slept", f"slept_{i}") for i in range(4)] + ["print(slept_0)", *["while True: pass"] * 3]
    handed_in.notebook.cells[1:1] = [new_code_cell(source, metadata={"tags": ["student"]}) for source in own]
    started = time.monotonic()
    record = grade_submission(
        handed_in, seeds_for(handed_in, INPUTS), Limits(cell_seconds=1.0, total_seconds=60.0)
    ).record
    assert points(record) == FULL
    assert time.monotonic() - started < 40
    assert [note["en"].split(":")[0] for note in record.notes] == [f"Own cell {i} stopped" for i in (6, 7, 8)]


NEEDED = {
    "a name": "width = time.sleep(1.5) or 1",
    "through a function": "time.sleep(1.5)\ndef one():\n    return width\nwidth = one and 1",
    "a value that is changed": "time.sleep(1.5)\nnumbers.append(1)\nwidth = 0",
    "a value that is given away": "def fill(list_): list_.append(time.sleep(1.5) or 1)\nfill(numbers)",
    "an attribute": "time.sleep(1.5)\ntorch.width = 1",
    "a switch": "time.sleep(1.5)\ntorch.set_default_dtype(torch.float64)",
}


@pytest.mark.parametrize("own", NEEDED.values(), ids=NEEDED.keys())
def test_own_cells_that_an_answer_needs_are_run_again(own: str) -> None:
    answer = """
def relevance(q, K):
    one = 1 if torch.get_default_dtype() == torch.float64 else getattr(torch, "width", None) or width or numbers[0]
    return K @ q * one
"""
    handed_in = submission(answer)
    cells = ["import time\nwidth, numbers = 0, []", own, "while True: pass"]
    handed_in.notebook.cells[1:1] = [new_code_cell(source, metadata={"tags": ["student"]}) for source in cells]
    record = grade_submission(handed_in, seeds_for(handed_in, INPUTS), SHORT).record
    assert points(record) == FULL, record.grades[0].message


def test_what_is_spare() -> None:
    cells = ["import torch", "def helper(x): return x", "def attend(q): return helper(q)", "check('attend', attend)"]

    def spared(own: str) -> bool:
        sources = [cells[0], own, *cells[1:]]
        return 1 in spare(sources, [None] * 4 + ["attend"])

    free = [
        "losses = train()\nplt.plot(losses)",
        "torch.manual_seed(0)\nmodel = torch.nn.Linear(2, 2)\nmodel(x).sum().backward()",
        "print(attend(torch.ones(2)))",
        "%timeit attend(torch.ones(2))",
        "def later(): return helper",
    ]
    kept = [
        "def helper(x): return 2 * x",
        "helper.cache = {}",
        "%load_ext autoreload",
        "torch.set_default_dtype(torch.float64)",
        "from math import *",
        "x = (",
        "import os\nos.environ['A'] = 'b'",
        "sys.path.append('x')",
    ]
    assert [own for own in free if not spared(own)] == [] and [own for own in kept if spared(own)] == []


# ------------------------------------------------------------------------------------------------- a notebook's comforts

# What stands above right answers in honest notebooks.
NOISY = {
    "Colab's comforts": """
        from google.colab import drive, files
        drive.mount("/content/drive", force_remount=True)
        files.upload()
        !pip install -q torch
        !wget https://example.org/data.zip
        %cd /content/drive/MyDrive
        name = input("學號？")
        %matplotlib inline
    """,
    "a cell magic": "%%time\nx = 1",
    "a bash cell": "%%bash\necho hello",
    "another default dtype": "torch.set_default_dtype(torch.float64)",
    "a global seed": "import random, numpy as np\nrandom.seed(1); np.random.seed(1); torch.manual_seed(1)",
    "gradients switched off": "torch.set_grad_enabled(False)",
    "deterministic algorithms": "torch.use_deterministic_algorithms(True)",
    "more threads": "torch.set_num_threads(2)",
    "a GPU that is not there": "x = torch.ones(2).to('cuda')",
    "a GPU if there is one": "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nx = torch.ones(2, device=device)",
    "warnings": "import warnings\nwarnings.warn('old')\ntorch.ones(2, 3).T.T\ntorch.range(0, 2)",
    "a progress bar": "import sys\nfor i in range(50): print(f'\\r{i}%', end='', file=sys.stderr, flush=True)",
    "a module that is missing": "import a_package_that_nobody_has",
    "a figure left open": "import matplotlib.pyplot as plt\nfor _ in range(30): plt.figure()",
    "an error on purpose": "torch.ones(2) @ torch.ones(3)",
    "await": "import asyncio\nawait asyncio.sleep(0)",
    "a logger": "import logging\nlogging.basicConfig(level=0)\nlogging.getLogger().error('x')",
    "functions of its own called like the course's": "def softmax(x): return x\ndef check_it(): pass",
    "a variable called like a module": "math = 3; F = None",
}


@pytest.mark.parametrize("noise", NOISY)
def test_noise_above_right_answers_costs_nothing(noise: str) -> None:
    source = dedent(NOISY[noise]) if "\n        " in NOISY[noise] else NOISY[noise]
    assert points(graded(own=source)) == FULL


def test_an_answer_that_needs_a_gpu_says_so_and_costs_no_other() -> None:
    record = graded("def relevance(q, K):\n    return (K.to('cuda') @ q.to('cuda')).cpu()\n")
    assert points(record) == OTHERS_ONLY
    assert "cuda" in record.grades[0].message["en"].lower() or "NVIDIA" in record.grades[0].message["en"]


def test_an_exercise_added_after_the_release_is_not_scored() -> None:
    handed_in = submission()
    handed_in.unscored, handed_in.release = ("attend",), "v0.0.9"
    result = grade_submission(handed_in, seeds_for(handed_in, INPUTS), SHORT)
    assert points(result.record) == {"relevance": 1.0, "attend": None}
    assert (result.record.points, result.record.max_points) == (1.0, 1.0)
    assert "v0.0.9" in result.record.grades[1].message["en"] and set(result.tried) == {"relevance"}


def test_colab_calls_magics_and_commands_do_not_stop_a_notebook() -> None:
    source = """
%matplotlib inline
!pip install something
%cd /content
from google.colab import drive, files
drive.mount("/content/drive")
name = input("name?")
import matplotlib.pyplot as plt
plt.plot([1, 2])
"""
    outcome = run(source)
    assert outcome.cells[0].error is None, outcome.cells[0].error
    assert "not run while grading: !pip install something" in outcome.cells[0].text
    assert len(outcome.cells[0].images) == 1


def test_a_warning_on_stderr_costs_nothing() -> None:
    source = "import sys, warnings\nwarnings.warn('old')\nprint('careful', file=sys.stderr)\n" + RIGHT["relevance"]
    record = graded(source)
    assert points(record) == FULL
    assert "careful" in record.grades[0].printed


def test_torch_trains_within_the_memory_limit() -> None:
    source = """
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    loss = model(torch.randn(64, 256)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(torch.get_num_threads(), loss.item() > 0)
"""
    cell = run("import torch\n" + source, limits=Limits()).cells[0]
    assert (cell.error, cell.text.strip()) == (None, "1 True")


def test_every_dtype_works() -> None:
    """torch looks at the processor on the first use of half precision; /proc is not there to look at."""
    source = """
import torch
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    x = torch.randn(3, 4).to(dtype)
    print(torch.softmax(x @ x.mT, dim=-1).double().sum().round().item(), (x.float().exp()).to(dtype).dtype == dtype)
"""
    assert printed(source) == "\n".join(["3.0 True"] * 4)


def test_a_missing_bubblewrap_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: "/bin/false")
    with pytest.raises(
        sandbox.SandboxUnavailable, match=r"not run without it.*Containerfile.*--sandbox process"
    ) as problem:
        sandbox.Worker()
    assert "\n" not in str(problem.value)


def test_the_parent_keeps_its_own_torch() -> None:
    graded(own="torch.softmax = torch.set_num_threads = None\nimport os; os.environ['X'] = '1'")
    assert callable(torch.softmax) and "X" not in os.environ


def test_a_course_that_lies_under_tmp_is_still_seen(tmp_path, monkeypatch):
    (tmp_path / "package.py").write_text("x = 1")
    folders = sandbox.read_only_folders()
    monkeypatch.setattr(sandbox, "read_only_folders", lambda: [*folders, str(tmp_path)])
    worker = sandbox.Worker()
    try:
        outcome = worker.run(sandbox.Job((sandbox.Cell(f"import os\nprint(os.listdir({str(tmp_path)!r}))"),), {}))
    finally:
        worker.close()
    assert outcome.cells[0].text.strip() == "['package.py']"


def test_a_fault_of_the_installation_is_never_a_students(monkeypatch):
    """A worker in which a right notebook fails is refused before any submission runs."""
    monkeypatch.setattr(sandbox, "cell_outcome", lambda event: sandbox.CellOutcome(error="ModuleNotFoundError: torch"))
    with pytest.raises(sandbox.SandboxUnavailable, match="a notebook that is right failed in it"):
        sandbox.Worker()


# ------------------------------------------------------------------------------------------------- without the wall

TRUSTED = Limits(cell_seconds=2.0, total_seconds=30.0, memory_bytes=1 << 30, walled=False)


@pytest.fixture(scope="module")
def without_the_wall() -> Iterator[None]:
    yield
    sandbox.close_all()  # the tests above want the wall


@pytest.mark.usefixtures("without_the_wall")
@pytest.mark.parametrize(
    "own, expected",
    [
        ("", FULL),
        ("import os; print(os.getcwd()); open('note', 'w').write('x')", FULL),
        ("while True: pass", FULL),
        ("import os; os._exit(0)", FULL),
        ("hoard = []\nwhile True: hoard.append(torch.ones(16 << 20))", FULL),
        ("import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)", FULL),
    ],
    ids=["honest", "a file", "an endless loop", "an exit", "a memory hog", "a daemon"],
)  # fmt: skip
def test_a_plain_process_keeps_its_limits(own: str, expected: dict[str, float]) -> None:
    """`--sandbox process`: no wall, but one cell still costs no other exercise, and nothing is left behind."""
    assert points(graded(own=own, limits=TRUSTED)) == expected
    worker = sandbox._local.worker
    deadline = time.monotonic() + 10
    while len(left := descendants(worker.process.pid)) != 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(left) == 1, "the process that waits for the next job"


@pytest.mark.usefixtures("without_the_wall")
def test_a_plain_process_leaves_no_folder_behind() -> None:
    assert points(graded(WRONG, limits=TRUSTED)) == OTHERS_ONLY
    folder = Path(sandbox._local.worker.folder.name)
    assert folder.exists()
    sandbox._local.worker.close()
    assert not folder.exists()
    assert points(graded()) == FULL, "and the wall is back"


def test_a_plain_process_ends_with_its_worker() -> None:
    worker = sandbox.Worker(walled=False)
    job = Job((Cell("import time; time.sleep(60)"),), {}, TRUSTED)

    def run_it() -> None:
        with pytest.raises(EOFError):
            worker.run(job)

    waiting = threading.Thread(target=run_it)
    waiting.start()
    deadline = time.monotonic() + 20
    while len(left := descendants(worker.process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    worker.process.kill()
    waiting.join(20)
    while any(map(psutil.pid_exists, left)) and time.monotonic() < deadline + 20:
        time.sleep(0.05)
    worker.close()
    assert len(left) == 2 and not any(map(psutil.pid_exists, left))


def test_processes_are_found_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where psutil knows them."""
    import subprocess
    import sys

    from autograder.pipeline import worker

    known = worker.descendants(os.getpid()).keys()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(worker.os.path, "isdir", lambda path: False)
    try:
        assert child.pid in worker.descendants(os.getpid()).keys() - known
        assert worker.private_bytes(child.pid) > 0 and worker.private_bytes(1 << 30) == 0
    finally:
        child.kill()
        child.wait()


def test_a_system_that_cannot_fork_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(sandbox.SandboxUnavailable, match="cannot fork"):
        sandbox.Worker(walled=False)


# ------------------------------------------------------------------------------------------------- what no process holds


@pytest.mark.hostile
def test_system_calls_for_what_no_process_holds_are_refused() -> None:
    """Memory that no limit counts, and the keyrings of who grades."""
    source = f"""
import ctypes, os
here = ["x86_64", "aarch64"].index(os.uname().machine)
libc = ctypes.CDLL(None, use_errno=True)
for name, numbers in {REFUSED}.items():
    result = libc.syscall(numbers[here], 0, 1, 0o600, 0, 0)
    if (result, ctypes.get_errno()) != (-1, 1):
        print(name, result, ctypes.get_errno())
"""
    assert printed(source) == ""
    assert {"semget", "msgget", "shmget", "memfd_create", "keyctl", "add_key", "request_key"} <= REFUSED.keys()


@pytest.mark.hostile
def test_no_notebook_makes_another_wait_for_a_file_that_all_read() -> None:
    """A lease on it would: whoever opens the file waits until the holder gives it back, or 45 seconds."""
    source = """
import fcntl, os, numpy
granted = 0
for name in os.listdir(os.path.dirname(numpy.__file__)):
    if name.endswith(".py"):
        file = os.open(os.path.join(os.path.dirname(numpy.__file__), name), os.O_RDONLY)
        try:
            fcntl.fcntl(file, 1024, fcntl.F_WRLCK)
            granted += 1
        except PermissionError:
            pass
print(granted, fcntl.fcntl(file, fcntl.F_GETFD) & fcntl.FD_CLOEXEC)
"""
    assert printed(source) == "0 1"


@pytest.mark.hostile
def test_no_notebook_sends_open_files_on_their_way() -> None:
    """Those are counted for all sandboxes of a user together; a `DataLoader` with helpers sends none here, and works."""
    source = """
import socket, torch
from torch.utils.data import DataLoader, TensorDataset
a, b = socket.socketpair()
try:
    socket.send_fds(a, [b"x"], [0])
except PermissionError:
    print("refused")
a.sendall(b"on")
data = TensorDataset(torch.arange(6.0))
loader = DataLoader(data, 3, False, num_workers=2, prefetch_factor=4, persistent_workers=True)
print(b.recv(2).decode(), [x.sum().item() for x, in loader], loader.num_workers, loader.batch_size)
"""
    assert printed(source) == "refused\non [3.0, 12.0] 0 3"


@pytest.mark.hostile
def test_events_of_many_small_parts_and_of_unknown_ones_do_not_get_through() -> None:
    """28 MB of brackets would be read as 1.5 GB of lists."""
    job = {"cells": [{"source": "", "check": None}] * 2, "spare": []}
    watch, passed = Watch(job, 0.0, True, set()), list[dict[str, object]]()
    watch.note(
        b'{"event": "cell", "cell": 0, "error": null, "x": [' + b"[[[[[[]]]]]]," * 100_000 + b"1]}", passed.append
    )
    assert passed == []
    watch.note(b'{"event": "cell", "cell": 0, "text": "[[[[", "x": [1]}', passed.append)
    assert passed == [{"event": "cell", "cell": 0, "error": None, "line": None, "text": "[[[[", "images": None}]


def test_it_is_known_which_cells_an_answer_ran() -> None:
    """By whatever way it came to their functions; they are read like the answer's own cell then."""
    own = "def total(x):\n    return x.sum(-1)\nbefore = torch.Tensor.cumsum\n"
    handed_in = submission("def relevance(q, K):\n    return total(K * q)\n", own=own)
    tried = grade_submission(handed_in, seeds_for(handed_in, INPUTS), SHORT).tried
    assert {seen.cells for seen in tried["relevance"].seen.values()} == {(1, 2)}
    assert {seen.cells for seen in tried["attend"].seen.values()} == {(4,)}


def test_cells_that_an_answer_ran_are_read_with_what_it_forbids() -> None:
    def cell(source: str, **metadata: object) -> nbformat.NotebookNode:
        return new_code_cell(source, metadata=metadata)

    name = "matmul_as_inner_products"
    cells = [
        cell("def far(a, b):\n    return a @ b", tags=["student"]),
        cell(f"def {name}(A, B):\n    return A", nbgrader={"grade_id": f"answer-{name}", "solution": True}),
    ]
    for ran, lines in (((), []), ((0,), ["own cell 1, line 2: @"])):
        outcome = Outcome(observations={name: {0: Observation(cells=ran)}})
        assert [listed.text["en"] for _, listed in unusual_lines(cells, [get(name)], outcome)] == lines


@pytest.mark.hostile
def test_shared_memory_has_a_file_that_counts() -> None:
    """Without one it can be dropped from what the process holds (MADV_DONTNEED) and stay where it is."""
    source = """
import mmap, os
print(len(mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE)))
for shared in (lambda: mmap.mmap(-1, 4096), lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 4096)):
    try:
        print(len(shared()))
    except OSError:
        pass
"""
    assert printed(source) == "4096"


@pytest.mark.hostile
def test_sockets_are_for_processes_of_the_notebook_and_of_one_size() -> None:
    """What is left of a connection on loopback would tell the next notebook something; a long queue is memory."""
    source = """
import socket
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SO_SNDBUF, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, SOL_SOCKET
a, b = socket.socketpair()
a.send(b"hello")
print(b.recv(9).decode())
for family, kind in [(AF_INET, SOCK_STREAM), (AF_INET6, SOCK_STREAM), (AF_NETLINK, SOCK_RAW), (AF_UNIX, SOCK_DGRAM)]:
    for make in (socket.socket, socket.socketpair):
        try:
            print(make(family, kind))
        except OSError:
            pass
try:
    a.setsockopt(SOL_SOCKET, SO_SNDBUF, 1 << 20)
    print("a longer queue")
except OSError:
    pass
"""
    assert printed(source) == "hello"


HOARDS = {
    "of many processes": """
        import os, socket, time
        for _ in range(4):
            if os.fork() == 0:
                hoard = [socket.socketpair() for _ in range(120)]
                time.sleep(60)
        time.sleep(60)
    """,
    "that wait to be accepted": """
        import socket, time
        doors = []
        for i in range(16):
            doors.append(socket.socket(socket.AF_UNIX))
            doors[-1].bind(f"door{i}")
            doors[-1].listen(128)
            for _ in range(120):
                with socket.socket(socket.AF_UNIX) as visitor: visitor.connect(f"door{i}")
        time.sleep(60)
    """,
}


@pytest.mark.hostile
@pytest.mark.parametrize("hoard", HOARDS)
def test_sockets_count_as_the_memory_that_they_can_hold(hoard: str) -> None:
    """They are empty here; the worker counts them whatever is in them. A few cost nothing."""
    few = "import socket, time\nkept = [socket.socketpair() for _ in range(40)]\ntime.sleep(0.5)\ndel kept"
    outcome = run(few, dedent(HOARDS[hoard]), "print('on')", limits=Limits(10.0, 60.0, 512 << 20))
    assert list(outcome.stopped) == [1] and "memory" in outcome.stopped[1]["en"], outcome.stopped
    assert outcome.cells[0].error is None and outcome.cells[2].text.strip() == "on"


def test_helpers_that_share_memory_and_talk_work() -> None:
    source = """
import asyncio, multiprocessing, torch
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.ones(64, 3)), batch_size=8, num_workers=2)
await asyncio.sleep(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(sum(len(x) for x, in loader), pool.map(abs, [-1, 2]), multiprocessing.Array("i", 2)[:])
print(torch.ones(3).share_memory_().sum().item())
"""
    assert printed(source) == "64 [1, 2] [0, 0]\n3.0"


@pytest.mark.hostile
def test_time_of_children_nobody_waits_for_counts() -> None:
    source = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(20):
    reader, writer = os.pipe()
    if os.fork() == 0:
        while time.process_time() < 0.4: pass
        os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
print("eight seconds")
"""
    outcome = run(source)
    assert "longer than 2 s" in outcome.stopped[0]["en"] and outcome.cells[0].text == ""


def test_no_second_of_a_child_counts_twice() -> None:
    watch = Watch({}, 0.0, True, set())
    assert watch.spent({1: Spent(1.0), 2: Spent(2.0, 0.0, 5)}) == 3.0
    assert watch.spent({1: Spent(1.0, 2.1)}) == 3.1, "its parent has waited for it"
    assert watch.spent({1: Spent(1.0, 2.1), 2: Spent(0.5, 0.0, 9)}) == 3.6, "another process of the same number"
    assert watch.spent({1: Spent(1.0, 2.1)}) == 3.5, "nobody has waited for this one: what was seen of both counts"


@pytest.mark.hostile
def test_an_event_nested_just_too_deeply_is_dropped() -> None:
    """It could be read by the worker and not be written again."""
    source = """
import os, stat
for fd in range(3, 30):
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode): break
    except OSError: pass
for depth in range(700, 1000):
    os.write(fd, b'{"event":"cell","cell":0,"x":' + b'[' * depth + b']' * depth + b'}\\n')
"""
    outcome = run(source, "print('on')")
    assert not outcome.broken and outcome.cells[1].text.strip() == "on"
    assert points(graded(own=source)) == FULL


@pytest.mark.hostile
def test_a_result_of_numbers_with_one_hash_costs_its_own_case_only() -> None:
    source = """
def relevance(q, K):
    import json, sys
    keys = [[{"int": hex(k * ((1 << 61) - 1))}, None] for k in range(1, 60_000)]
    sys.audit("autograder.returned", json.dumps({"dict": keys}))
    return K @ q
"""
    begin = time.monotonic()
    assert (points(graded(source))["relevance"] or 0) < 1.0
    assert time.monotonic() - begin < 60


def test_a_time_limit_of_an_own_cell_s_and_asyncio_cost_nothing() -> None:
    own = """
import asyncio, signal, time
signal.signal(signal.SIGALRM, lambda number, frame: print("late"))
signal.alarm(1)
signal.setitimer(signal.ITIMER_REAL, 0.1)
time.sleep(1.2)
signal.alarm(0)
async def one(): return 1
loop = asyncio.new_event_loop()
assert loop.run_until_complete(one()) == 1
print("on")
"""
    outcome = run(own)
    assert outcome.cells[0].text.strip() == "on", outcome
    assert points(graded(own=own)) == FULL


@pytest.mark.parametrize("how", ["@torch.compile", "@torch.compile(dynamic=True)"])
def test_an_answer_to_be_compiled_runs_as_it_is(how: str) -> None:
    """To compile it would take longer than a cell may."""
    assert points(graded(f"{how}\n{RIGHT['relevance']}")) == FULL
