"""What a submission cannot make lie, although it stands in the same process.

Python tells functions of events (`sys.addaudithook`), and gives them to nobody again. One of them stands here. It holds the inputs
that answers are tried on and gives out one case at a time; from then until it is told what came out, torch keeps its own record
(operations.py), which nobody else can end or switch off. What it sends is numbered, and signed with a key that only the worker has, so
that nothing is forged, sent twice or kept back. So whatever
a notebook does with the grader's other parts, a result is not made out of sight: who knows the inputs is being recorded. (That holds
for what Python itself offers. Memory that is read by its address is stopped by nothing here; what gives it is told, or read about.)
"""

import _thread
import gc
import os
import sys
import threading
import time
from _hashlib import hmac_digest  # which `hmac.digest` calls
from _thread import RLock, get_ident
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from json.encoder import encode_basestring_ascii
from os import WNOHANG, waitpid
from resource import RUSAGE_CHILDREN, getrusage
from signal import SIG_IGN, SIGCHLD, getsignal
from sys import _current_frames
from time import clock_gettime, perf_counter
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from autograder.made import EVENTS, TO_FRAMES, Listener
from autograder.observe import MOST_OPERATIONS
from autograder.operations import Record, Switches

# What a notebook's process tells: a cell is about to run; a case is wanted, its record has grown long, an answer has returned, all is
# seen; a thread is to be started.
TOLD = CELL_RUNS, CASE, READ, RETURNED, SEEN, THREAD = tuple(
    f"autograder.{word}" for word in ("cell runs", "case", "read", "returned", "seen", "thread")
)
STARTS = "start_new_thread", "start_new", "start_joinable_thread", "_start_new_thread", "_start_joinable_thread"

# The watch's own doing.
OFTEN = frozenset(["sys.settrace", "sys._getframe", "object.__getattr__", "object.__setattr__", "code.__new__"])

READ_OF = "object.__getattr__"
GET_FRAME = "sys._getframe"  # the witness calls it itself
LEAST, DEPTH = 12, 24  # more than the witness needs for one of the events that are often, and for any other

clock_of = getattr(time, "pthread_getcpuclockid", None)  # Linux has it


def to_frame(args: tuple[Any, ...]) -> bool:
    """Whether the attribute that is asked for leads to a frame."""
    return len(args) == 2 and type(args[1]) is str and args[1] in TO_FRAMES


def processes() -> Callable[[], bool]:
    """A function that tells whether a process of the notebook's runs, or has run since now."""
    ended = ended_children()

    def since() -> bool:
        try:
            waitpid(-1, WNOHANG)
        except ChildProcessError:
            return ended_children() != ended or getsignal(SIGCHLD) is SIG_IGN
        return True

    return since


def ended_children() -> int:
    """Grows with every process of the notebook's that has ended and was waited for."""
    return getrusage(RUSAGE_CHILDREN).ru_minflt


def work() -> dict[int, float]:
    """Processor time of each thread that has Python code to run; where it cannot be told, each counts as having worked."""
    running = _current_frames()
    if clock_of is None:
        return dict.fromkeys(running, perf_counter())
    return dict(zip(running, map(clock_gettime, map(clock_of, running))))  # none can end meanwhile


def take_starts() -> dict[tuple[str, str], Callable[..., Any]]:
    """What starts threads, by module and name, for the caller alone: who starts one from now on has the witness do it."""
    taken: dict[tuple[str, str], Callable[..., Any]] = {}

    def by_witness(module: str, name: str) -> Callable[..., Any]:
        def start(*args: Any, **kwargs: Any) -> Any:
            result: list[Any] = []
            sys.audit(THREAD, module, name, args, kwargs, result)
            if not result:
                raise RuntimeError("can't start new thread")
            return result[0]

        return start

    modules: tuple[ModuleType, ...] = (_thread, threading)
    for module in modules:
        for name in STARTS:
            if hasattr(module, name):  # Python 3.13 has other ways than 3.11
                taken[module.__name__, name] = getattr(module, name)
                setattr(module, name, by_witness(module.__name__, name))
    return taken


def witness(
    key: bytes,
    writer: int,
    runs: CodeType,
    checks: Sequence[str],
    texts: frozenset[str],
    calls: Mapping[str, list[str]],
    forbidden: Mapping[str, frozenset[str]],
    switches: Switches,
    untouched: Callable[[], bool],
    functions: frozenset[FunctionType],
) -> Callable[[str, tuple[Any, ...]], None]:
    """The function to be told of all events. Whatever it uses is looked up now, or is asked about first (`untouched`).

    No code of a notebook's runs within it, which could ask for its frame: what it is given is taken for what it is by its type
    alone, no object's last words fall into it, and nobody else handles signals.

    Args:
        key: of the signatures.
        writer: the pipe to the worker.
        runs: the code that runs the cells.
        checks: of each cell, the exercise that it checks, or "".
        texts: of the cells, as Python compiles them.
        calls: of each exercise, as text.
        forbidden: the operations that an answer may not have torch carry out, of exercises that forbid any call.
        switches: of torch's record.
        untouched: whether the parts of the grader are what they were.
        functions: those of the grader, which stay what they are.
    """
    ident, pid, write, kind, frame, sorted_ = get_ident, os.getpid, os.write, type, sys._getframe, sorted
    main, home = ident(), pid()
    quoted, text_of = encode_basestring_ascii, repr
    Text, Number, List, Tuple, Dict, Function = str, int, list, tuple, dict, FunctionType
    collects, collect, do_not = gc.isenabled, gc.enable, gc.disable
    nothing, often, read_of, spared = frozenset[str](), OFTEN, READ_OF, frozenset([GET_FRAME])
    get_frame, get_frames = GET_FRAME, "sys._current_frames"
    busy = dict[int, bool]()  # by thread: whether an event is looked at,
    own = dict[int, str]()  # and which event that is itself
    every = all

    def others() -> dict[int, float]:
        """Which threads there are beside the notebook's own, and what they have done; who waits does nothing."""
        own[main] = get_frames
        done = work()
        done.pop(main, None)
        return done

    sign, sent, turn = hmac_digest, 0, RLock()
    wait, go_on = turn.acquire, turn.release
    fine = True  # none of the grader's parts has been changed so far
    cell, exercise = 0, ""
    given = set[tuple[str, int]]()
    starts, threads, before = take_starts(), 0, (0, others())
    open_: tuple[str, int] | None = None
    record = Record(switches)
    since = processes()
    returned: dict[str, Any] | None = None

    def as_json(value: Any) -> str:
        """By hand: what Python's `json` does with this, others can change."""
        if kind(value) is Dict:
            return "{" + ", ".join([quoted(key) + ": " + as_json(item) for key, item in value.items()]) + "}"
        if kind(value) is List:
            return "[" + ", ".join([as_json(item) for item in value]) + "]"
        if kind(value) is Text:
            return quoted(value)
        return "true" if value is True else "false" if value is False else text_of(value)

    def send(event: dict[str, Any]) -> None:
        nonlocal sent
        mine = pid() == home
        if mine:
            wait()  # for other threads
        try:
            sent += 1
            data = b"%d %d %s" % (mine, sent, as_json(event).encode())
            line = b"\n%s %s\n" % (sign(key, data, "sha256").hex().encode(), data)  # whatever else stands in the pipe
            while line:
                line = line[write(writer, line) :]
        finally:
            if mine:
                go_on()

    def tell(how: str, what: str) -> None:
        send({"event": "made", "cell": cell, "kind": how, "what": what})

    listener = Listener(tell, texts)

    def look() -> None:
        """Tell of a part that is not what it was, at once: what runs from now on may be anybody's."""
        nonlocal fine
        if fine and not untouched():
            tell("grader", "")
            fine = False

    def cell_runs(number: int) -> None:
        nonlocal cell, exercise
        cell, exercise = number, checks[number]

    def case(name: str, number: int, box: list[str]) -> None:
        nonlocal open_, record, since, returned, before
        if kind(name) is not Text or kind(number) is not Number or kind(box) is not List:
            return
        if name != exercise or (name, number) in given or not 0 <= number < len(calls[name]):
            return
        if open_ is not None and returned is None and open_[0] in forbidden:  # of a case that did not come to its end
            record.end()
        given.add((name, number))
        open_, returned, record = (name, number), None, Record(switches)
        since, before = processes(), (threads, others())
        if name in forbidden:
            record.begin()
        box.append(calls[name][number])

    def has_returned(text: str) -> None:
        nonlocal returned
        if open_ is None or returned is not None or kind(text) is not Text:
            return
        name, number = open_
        if name in forbidden:
            record.end()
        returned = {
            "event": "observation",
            "name": name,
            "case": number,
            "seen": text,
            "carried": sorted_(record.names & forbidden.get(name, nothing)),
            "operations": sorted_(record.outermost)[:MOST_OPERATIONS],
            "kept": record.kept,
        }

    def seen(text: str) -> None:
        nonlocal open_
        if returned is None or open_ is None or kind(text) is not Text:
            return
        told = {"threads": (threads, others()) != before, "processes": since()}
        send({**returned, "rest": text, "beside": [what for what, true in told.items() if true]})
        open_ = None

    def thread(module: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: list[Any]) -> None:
        nonlocal threads
        given = (module, Text), (name, Text), (args, Tuple), (kwargs, Dict), (result, List)
        if every([kind(thing) is wanted for thing, wanted in given]) and every([kind(key) is Text for key in kwargs]):
            threads += 1
            with suppress(RuntimeError):  # there are too many
                result.append(starts[module, name](*args, **kwargs))

    def read() -> None:
        if open_ is not None and returned is None:
            record.read()

    ours: dict[str, Callable[..., None]] = {
        CELL_RUNS: cell_runs, CASE: case, READ: read, RETURNED: has_returned, SEEN: seen, THREAD: thread
    }  # fmt: skip
    theirs, by_all, begins = EVENTS, THREAD, CELL_RUNS
    missed = False

    def attend(event: str, args: tuple[Any, ...], caller: FrameType) -> None:
        nonlocal fine
        if event == "object.__setattr__" and kind(args[0]) is Function and args[0] in functions:
            tell("grader", "")
            fine = False
        if event not in often:
            look()
        if event not in ours:
            listener(event, args, caller)
        elif event == by_all or (ident() == main and pid() == home and (event != begins or caller.f_code is runs)):
            ours[event](*args)

    def attentive(event: str, args: tuple[Any, ...]) -> None:
        """Raises nothing: an error shows to whoever made it what the functions hold that it came through. What could not be
        looked at is told with the next event.
        """
        nonlocal missed
        me, collected = 0, False
        try:
            if event not in ours and (event not in theirs or (event == read_of and not to_frame(args))):
                return
            collected, me = collects(), ident()
            do_not()
            if busy.get(me):  # within here but one's own
                if own.get(me) != event:
                    tell("within", "")
                own[me] = ""
                return
            busy[me] = True
            try:
                if missed:
                    tell("missed", "")
                    missed = False
                own[me] = get_frame
                attend(event, args, frame(1))
            finally:
                busy[me] = False
        except BaseException:  # nothing is called or compared here, which could fail again
            missed = missed or event not in spared
        if collected:
            try:
                collect()
            except BaseException:
                missed = True

    return attentive


# The two functions that may say no to an event stand apart, for they hold nothing that an error could show.


def room(event: str, args: tuple[Any, ...]) -> None:
    """Told before the witness: at the end of an endless recursion Python itself says no, for the witness could not look.

    Raises:
        RecursionError: if there is no room.
    """
    if event in OFTEN:
        if event != GET_FRAME and (event != READ_OF or to_frame(args)):
            deeper(LEAST)
    elif event in EVENTS:
        deeper(DEPTH)
    elif event in TOLD:
        deeper(2 * DEPTH)  # the witness asks for the threads then, which is an event


def deeper(levels: int) -> None:
    if levels:
        deeper(levels - 1)


def alone(event: str, args: tuple[Any, ...]) -> None:
    """Told after the witness: another one would be told of what happens in it.

    Raises:
        RuntimeError: if somebody wants to add one; Python takes this for a no.
    """
    if event == "sys.addaudithook":
        raise RuntimeError("there is one already")
