"""Who reaches every part of the grader in the notebook's process makes no result out of the witness's sight.

The attacks are given what they would have to reach first: the modules, the words of the events, the built-in itself. Nothing here
is read; only what happens counts.
"""

import hmac
import os
import re
import sys
from collections.abc import Callable, Iterator
from textwrap import dedent
from types import FunctionType
from typing import Any

import pytest

from autograder.exercise import get
from autograder.made import EVENTS
from autograder.observe import Observation
from autograder.operations import take_switches
from autograder.pipeline import sandbox
from autograder.pipeline.grading import planned
from autograder.pipeline.sandbox import Cell, Job, Limits, Outcome
from autograder.pipeline.worker import Watch
from autograder.watch import Sighting
from autograder.witness import CASE, RETURNED, SEEN, TOLD, witness

REACH = f"""
import os, sys, threading
import torch
from autograder import check
from autograder.observe import Observation
from autograder.wire import dumps, loads
w, o, m = (sys.modules["autograder." + name] for name in ("watch", "operations", "made"))
sdpa, off = torch.nn.functional.scaled_dot_product_attention, torch._C.DisableTorchFunction
def asked(name, number):
    box = []
    sys.audit({CASE!r}, name, number, box)
    return box
def told(out):
    sys.audit({RETURNED!r}, dumps(Observation(value=out.detach())))
    sys.audit({SEEN!r}, dumps(Observation()))
def attend(q, K, V):
    return torch.exp(q @ K.T - torch.logsumexp(q @ K.T, -1)) @ V
"""
ATTEND = get("attend")
BY_TORCH = Sighting("torch.ops.aten.scaled_dot_product_attention", 0)


@pytest.fixture(autouse=True, scope="module")
def workers_ended() -> Iterator[None]:
    yield
    sandbox.close_all()


def run(*cells: str) -> Outcome:
    """A notebook that has reached everything, and then the check of `attend`."""
    every = [Cell(REACH), *(Cell(dedent(source)) for source in cells), Cell("check('attend', attend)", "attend")]
    outcome = sandbox.run(Job(tuple(every), {"attend": planned(ATTEND, 1)}, Limits(5.0, 30.0)))
    assert not any(outcome.cells[i].error for i in range(len(every) - 1)), outcome.cells
    return outcome


def seen(*cells: str) -> list[Observation]:
    """What came out of the cases of `attend`, in their order."""
    return [observation for _, observation in sorted(run(*cells).observations.get("attend", {}).items())]


def test_a_right_answer_is_seen_as_one() -> None:
    observations = seen()
    assert len(observations) == len(ATTEND.cases)
    assert [(each.error, each.forbidden, each.beside) for each in observations] == [(None, (), ())] * len(observations)


MADE_OUT_OF_SIGHT = {
    "a part of the watch that puts itself back": """
        def attend(q, K, V):
            before, kept = w.given_a_callback, []
            def look(*call):
                w.given_a_callback = before
                kept.append(sdpa(q[None], K, V, scale=1.0)[0])
                return False
            w.given_a_callback = look
            q.exp()
            return kept[0]
    """,
    "the watch is not there": """
        def attend(q, K, V):
            with off(): return sdpa(q[None], K, V, scale=1.0)[0]
    """,
    "a result of its own": """
        def attend(q, K, V):
            with off(): told(sdpa(q[None], K, V, scale=1.0)[0])
            return q
    """,
    "a record that is not read": """
        def attend(q, K, V):
            o.Record.read = lambda self: None
            with off(): return sdpa(q[None], K, V, scale=1.0)[0]
    """,
    "another name for what the record holds": """
        E = torch._C._autograd.ProfilerEvent
        was = E.name
        E.name = lambda event: "aten::exp" if "attention" in was(event) else was(event)
        def attend(q, K, V):
            with off(): return sdpa(q[None], K, V, scale=1.0)[0]
    """,
    "lines that are written as another likes": """
        import json.encoder
        E = json.encoder.c_make_encoder
        was = E.__call__
        def call(self, event, level):
            made_up = isinstance(event, dict) and "carried" in event
            return was(self, {**event, "carried": []} if made_up else event, level)
        E.__call__ = call
        def attend(q, K, V):
            with off(): return sdpa(q[None], K, V, scale=1.0)[0]
    """,
    "the inputs of all cases": """
        def attend(q, K, V):
            with off():
                for case in range(1, 20):
                    for text in asked("attend", case):
                        q, K, V = loads(text).args
                        told(sdpa(q[None], K, V, scale=1.0)[0])
    """,
}


@pytest.mark.hostile
@pytest.mark.parametrize("how", MADE_OUT_OF_SIGHT)
def test_no_result_is_made_out_of_sight(how: str) -> None:
    observations = [each for each in seen(MADE_OUT_OF_SIGHT[how]) if each.value is not None]
    assert observations and all(each.forbidden == (BY_TORCH,) for each in observations), observations


@pytest.mark.hostile
@pytest.mark.parametrize("switch", ["_enable_record_function(False)", "_disable_profiler_legacy()"])
def test_nobody_else_has_the_switches_of_the_record(switch: str) -> None:
    observations = seen(f"def attend(q, K, V):\n    torch._C._autograd.{switch}")
    assert observations and all("AttributeError" in str(each.error) for each in observations)


@pytest.mark.hostile
def test_the_switches_stand_in_no_module() -> None:
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return
    left = 99
    try:
        taken = set(map(id, take_switches()))
        left = sum(id(thing) in taken for module in list(sys.modules.values()) for thing in vars(module).values())
    finally:
        os._exit(left)


@pytest.mark.hostile
def test_a_case_is_given_out_to_its_own_check_in_its_own_thread_and_process() -> None:
    ahead = """
        early = asked("attend", 0)
        def attend(q, K, V, good=attend):
            other = threading.Thread(target=lambda: early.extend(asked("attend", 1)))
            start(other)
            other.join()
            ends = os.pipe()
            if os.fork() == 0:
                os.write(ends[1], str(len(asked("attend", 1))).encode())
                os._exit(0)
            os.wait()
            assert early == [] and os.read(ends[0], 9) == b"0"
            return good(q, K, V)
        start = threading.Thread.start
    """
    observations = seen(ahead)
    assert len(observations) == len(ATTEND.cases)
    assert all(each.error is None and each.beside == ("threads", "processes") for each in observations), observations


LEFT_WAITING = """
        import queue
        jobs, done = queue.Queue(), queue.Queue()
        def serve():
            done.put("here")
            while True: done.put(good(*jobs.get()))
        good = attend
        threading.Thread(target=serve, daemon=True).start()
        done.get()
        import time
        time.sleep(0.5)  # until it waits
"""


def test_a_thread_that_only_waits_is_not_told() -> None:
    observations = seen(LEFT_WAITING)
    assert len(observations) == len(ATTEND.cases) and all(each.beside == () for each in observations)


@pytest.mark.hostile
def test_a_thread_that_works_for_an_answer_is_told() -> None:
    works = """
        def attend(*given):
            jobs.put(given)
            return done.get()
    """
    assert [each.beside for each in seen(LEFT_WAITING, works)] == [("threads",)] * len(ATTEND.cases)


CHANGES = {
    "what the witness is made of": """
        kept = sys.modules["autograder.witness"].Record
        sys.modules["autograder.witness"].Record = lambda *switches: kept(*switches)
        import colorsys
        sys.modules["autograder.witness"].Record = kept
    """,
    "the code of a part": "w.find.__code__ = (lambda dotted: None).__code__",
    "a part of the grader": """
        kept = m.Listener.looked_at
        m.Listener.looked_at = lambda *event: ("", "")
        exec("hidden = 1")
        m.Listener.looked_at = kept
    """,
    "what it calls": """
        import builtins
        kept = any
        builtins.any = lambda things: True
        exec("hidden = 1")
        builtins.any = kept
    """,
}


@pytest.mark.hostile
@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_for_a_moment_is_told(what: str) -> None:
    assert ("grader", "") in run(CHANGES[what]).made.get(1, {})


def made_of(writer: int, untouched: Callable[[], bool]) -> Callable[..., None]:
    """A witness of a notebook of one cell."""
    nothing = frozenset[str]()
    return witness(b"key", writer, made_of.__code__, [""], nothing, {}, {}, take_switches(), untouched, frozenset())


IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def held(function: Any, known: dict[int, Any]) -> dict[int, Any]:
    """All that a function can reach by what it closes over."""
    for cell in function.__closure__ or ():
        thing = cell.cell_contents
        if id(thing) not in known:
            known[id(thing)] = thing
            if isinstance(thing, dict):
                known |= {id(each): each for each in thing.values()}
            for inner in [thing, *(thing.values() if isinstance(thing, dict) else ())]:
                held(inner, known) if isinstance(inner, FunctionType) else None
    return known


@pytest.mark.hostile
def test_what_the_witness_holds_has_methods_that_nobody_can_change() -> None:
    """Else a notebook's code would run within it, or speak for it; of the grader's own classes it asks whether they were changed."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader) as told:
            assert told.read() == "enough, and none\n"
        os.waitpid(child, 0)
        return
    try:
        things = held(made_of(writer, lambda: True), {}).values()
        kinds = {type(thing) for thing in things} | {thing for thing in things if isinstance(thing, type)}
        free = [k for k in kinds if not k.__flags__ & IMMUTABLE and not k.__module__.startswith("autograder.")]
        os.write(writer, f"{'enough' if len(kinds) > 15 else kinds}, and {free or 'none'}\n".encode())
    finally:
        os._exit(0)


@pytest.mark.hostile
def test_no_frame_below_a_notebook_holds_inputs_or_the_key() -> None:
    text = max(re.findall(r"[A-Za-z0-9+/]+", planned(ATTEND, 1)["calls"][0]), key=len)  # of a tensor
    half = len(text) // 2
    looks = f"""
        import inspect
        def said(thing, depth=0):
            if depth > 6: return
            if isinstance(thing, (str, bytes)): yield thing
            elif isinstance(thing, dict):
                for item in list(thing.values()): yield from said(item, depth + 1)
            elif isinstance(thing, (list, tuple)):
                for item in thing: yield from said(item, depth + 1)
            elif type(thing).__module__.startswith(("autograder", "__main__")) and hasattr(thing, "__dict__"):
                yield from said(vars(thing), depth + 1)
        def look(one, other):
            names = set()
            for info in inspect.stack()[1:]:
                names.add(info.function)
                for name, value in info.frame.f_locals.items():
                    for found in said(value):
                        assert not (isinstance(found, bytes) and len(found) == 32), (info.function, name)
                        assert one + other not in (found if isinstance(found, str) else ""), (info.function, name)
            assert {{"main", "run_job", "run_once", "run_cells"}} <= names, names
        look({text[:half]!r}, {text[half:]!r})
    """
    assert len(seen(looks)) == len(ATTEND.cases)


def line_of(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256").hex().encode() + b" " + data


IS_PIPE = """
    import stat
    def is_pipe(fd):
        try: return stat.S_ISFIFO(os.fstat(fd).st_mode)
        except OSError: return False
"""
KEPT_BACK = """
    ends = os.pipe()
    (pipe,) = [fd for fd in range(3, 60) if fd not in ends and is_pipe(fd)]
    kept = os.dup(pipe)
    os.dup2(ends[1], pipe)
    exec("hidden = 1")
    os.dup2(kept, pipe)
    for fd in (kept, ends[1]): os.close(fd)
    assert b'"hidden = 1"' in os.read(ends[0], 9999)
"""


@pytest.mark.hostile
def test_lines_that_are_kept_back_are_told() -> None:
    made = run(IS_PIPE, KEPT_BACK).made
    assert ("kept back", "") in [what for of in made.values() for what in of], made


@pytest.mark.hostile
def test_a_line_counts_once_in_its_order_and_with_the_key_alone() -> None:
    watch = Watch({"cells": [{"source": "", "check": "attend"}], "spare": []}, 0.0, True, set(), key=b"key")
    first, second, fourth = (line_of(watch.key, b"1 %d {}" % number) for number in (1, 2, 4))
    assert [watch.signed(line) for line in (first, second, first, second)] == [(False, b"{}")] * 2 + [None] * 2
    assert watch.signed(line_of(b"another", b"1 3 {}")) is None and watch.signed(first.replace(b"1 1", b"1 3")) is None
    assert watch.signed(fourth) == (True, b"{}")
    assert [watch.signed(line_of(watch.key, b"0 7 {}")) for _ in range(2)] == [(False, b"{}")] * 2
    passed = list[dict[str, object]]()
    watch.cell = 0
    observation = b'{"event": "observation", "name": "attend", "case": 0}'
    watch.note(observation, passed.append)
    assert passed == []
    watch.note(line_of(watch.key, b"1 5 " + observation), passed.append)
    assert [event["event"] for event in passed] == ["observation"]


@pytest.mark.hostile
@pytest.mark.parametrize("number", [10**6, -1, 0])
def test_what_is_told_is_told_of_a_cell(number: int) -> None:
    """Whoever says that another cell runs now hides nothing."""
    says = f"sys.audit('autograder.cell runs', {number})\nsys.audit('autograder.cell runs', {number}, 'attend', ['hidden = 1'])"
    runs = 'exec(compile("hidden = 1", "<ipython-input-9>", "exec"))'
    assert ("text", "hidden = 1") in run(says, runs).made.get(2, {})


@pytest.mark.hostile
def test_torch_loads_no_machine_code_unseen() -> None:
    loads = "assert not [name for name in dir(torch._C._aoti) if name[0] != '_']"
    assert len(seen(loads)) == len(ATTEND.cases)


@pytest.mark.hostile
def test_nobody_handles_signals() -> None:
    """A handler is given the frame of whatever runs."""
    handles = """
        import signal
        met = []
        for ask in (signal.signal, sys.modules["_signal"].signal):
            ask(signal.SIGUSR1, lambda number, frame: met.append(frame))
            ask(signal.SIGINT, lambda number, frame: met.append(frame))
        try: signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt: pass
        assert met == []
    """
    assert len(seen(handles)) == len(ATTEND.cases)


@pytest.mark.hostile
def test_no_code_of_a_notebook_s_runs_within_the_witness() -> None:
    """Neither last words of objects, nor what objects say of themselves."""
    tries = f"""
        import gc
        class Kind(type):
            __hash__ = type.__hash__
            def __eq__(cls, other):
                inside.append(sys._getframe(1).f_code.co_name)
                return cls is other
        class Key:
            def __hash__(self): return hash("csv")
            def __eq__(self, other):
                inside.append(sys._getframe(1).f_code.co_name)
                return self is other
        class Text(str, metaclass=Kind):
            def note(self, *how):
                inside.append(sys._getframe(1).f_code.co_name)
                return 0
            __hash__ = __str__ = __iter__ = strip = startswith = note
            def __eq__(self, other): return bool(self.note())
        class Last:
            def __init__(self): self.me = self
            def __del__(self): Text().note()
        inside = []
        sys.modules[Key()] = None
        import colorsys, csv
        gc.set_threshold(1)
        for event in {sorted({*TOLD, *EVENTS})!r}:
            for count in range(6):
                Last()
                try: sys.audit(event, *[Text("x")] * count)
                except Exception: pass
        try: compile("1", Text("x"), "eval")
        except Exception: pass
        Last()
        exec(compile("1", "x", "eval"))
        gc.set_threshold(700)
        gc.collect()
        assert inside and not {{"attentive", "attend", "looked_at", "<listcomp>", "case", "seen", "thread"}} & set(inside), inside
    """
    assert len(seen(tries)) == len(ATTEND.cases)


@pytest.mark.hostile
@pytest.mark.parametrize("attribute", ["tb_frame", "gi_frame"])
def test_who_asks_for_frames_is_told(attribute: str) -> None:
    asks = """
        try: 1 / 0
        except ZeroDivisionError as problem: problem.__traceback__.tb_frame
        (x for x in "ab").gi_frame
    """
    assert ("call", attribute) in [what for made in run(asks).made.values() for what in made]


@pytest.mark.hostile
def test_errors_show_nothing_of_the_witness() -> None:
    """A traceback leads to all that the functions hold that it came through."""
    tries = f"""
        import traceback
        shown = set()
        def show(act, *args):
            try: act(*args)
            except BaseException as problem:
                shown.update(f"{{frame.f_code.co_name}} {{sorted(frame.f_locals)}}"
                             for frame, _ in traceback.walk_tb(problem.__traceback__))
        def at_depth(left, *event):
            if left: at_depth(left - 1, *event)
            else: sys.audit(*event)
        for event in {sorted({*TOLD, *EVENTS, "sys.addaudithook"})!r}:
            show(sys.audit, event)
        for event in {["open", "exec", "sys._getframe", "object.__getattr__", CASE, SEEN]!r}:
            for depth in range(900, 990):
                show(at_depth, depth, event, "1", "tb_frame")
        shown -= {{name for name in shown if name.split()[0] in ("show", "at_depth")}}
        most = {{"room ['args', 'event']", "to_frame ['args']", "deeper ['levels']", "alone ['args', 'event']"}}
        assert {{"room ['args', 'event']", "alone ['args', 'event']"}} <= shown <= most, shown
    """
    outcome = run(tries)
    assert ("missed", "") in outcome.made[1]
    assert len(outcome.observations["attend"]) == len(ATTEND.cases)


@pytest.mark.hostile
def test_code_that_runs_within_the_witness_after_all_is_told() -> None:
    """Should a way be found: what looks for frames there stands in for it here."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            lines = told.read().splitlines()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        text = b'{"event": "made", "cell": 0, "kind": "within", "what": ""}'
        assert lines == [b"", line_of(b"key", b"1 1 " + text)]
        return
    try:
        asks = lambda: bool(sys._getframe())  # noqa: E731
        sys.addaudithook(made_of(writer, asks))
        sys.audit("open", "a", "r", 0)
    finally:
        os._exit(0)


@pytest.mark.hostile
def test_a_part_that_is_changed_where_there_is_no_room_to_look_is_told() -> None:
    changes = """
        kept = w.find
        def at_depth(left):
            if left: return at_depth(left - 1)
            w.find = print
            try: open("nofile")
            except OSError: pass
            finally: w.find = kept
        for depth in range(800, 1000):
            try: at_depth(depth)
            except RecursionError: pass
    """
    later = "kept, w.find = w.find, print\nimport colorsys\nw.find = kept"
    assert ("grader", "") in [what for made in run(changes, later).made.values() for what in made]


@pytest.mark.hostile
def test_there_is_no_second_witness() -> None:
    second = """
        met = []
        sys.addaudithook(lambda event, args: met.append(sys._getframe(1).f_code.co_name))
        import colorsys
        assert met == []
    """
    assert len(seen(second)) == len(ATTEND.cases)
