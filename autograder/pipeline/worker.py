"""Runs inside the sandbox: imports torch once, then forks a sealed child for each notebook.

Jobs come in as lines of JSON, events go out as lines of JSON. The worker itself never runs a student's code. Each
notebook gets its own process, mount and IPC namespace, an empty home of its own, and its limits; when its child dies or
hangs, the worker kills everything in it and runs the notebook again without the cell that did it, so that such a cell
costs its own exercises only.

Without the wall (`main(walled=False)`, for code that is trusted) a notebook is a plain process with the same limits where
the system keeps them; that works on any system that can fork.
"""

import ctypes
import hmac
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

Event = dict[str, Any]
POLL_SECONDS = 0.05
NO_MORE_JOBS = 3
LONG_SECONDS = 1.0  # a cell that nothing needs and that took longer is not run again
PATIENCE = 6  # wall-clock time of a cell, in units of its processor time
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
MAX_PROCESSES = 64
MAX_EVENT_BYTES = 1 << 25  # all events of one run of a notebook together
HOME = "/student"
# Modules of course_lib that a notebook may use while it is graded: pictures teach, they do not answer.
OPEN_MODULES = ("course_lib.plots",)

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND = 1, 2, 4, 4096
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
# By machine: its number for seccomp, and the place of its numbers in the tables below.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# System calls that are refused, with their numbers.
REFUSED = {
    # Memory that belongs to no process and so escapes the limits.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186),
    "vmsplice": (278, 75), "landlock_create_ruleset": (444, 444),
    # Keyrings, which are the user's and outlive the notebook.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Messages that carry open files: those on their way are counted for the user, over all sandboxes.
    "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # Namespaces, and doors into the kernel that no lesson needs.
    "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "ptrace": (101, 117),
}  # fmt: skip
EPERM, ENOSYS, ESOCKTNOSUPPORT, EAFNOSUPPORT = 1, 38, 94, 97
F_SETLEASE = 1024
MAP_SHARED_ANONYMOUS, AF_UNIX, SOCK_STREAM, SO_SNDBUF, SO_SNDBUFFORCE = 0x21, 1, 1, 7, 32
# System calls that are refused by an argument: where it stands, the bits of it that count, whether they are (True) or are
# not (False) this value, and the error. Shared memory without a file is memory of no process once it is unmapped. Sockets
# are for processes of the notebook, so of one kind, which leaves no trace and can be counted (`in_sockets`). Who holds a
# lease on a file makes everybody wait who opens it, and installed files are everybody's.
REFUSED_IF = (
    ((56, 220), 0, CLONE_NEWUSER, False, 0, EPERM),  # clone
    ((9, 222), 3, MAP_SHARED_ANONYMOUS, True, MAP_SHARED_ANONYMOUS, EPERM),  # mmap
    ((41, 198), 0, 0xFFFFFFFF, False, AF_UNIX, EAFNOSUPPORT),  # socket
    ((41, 198), 1, 0xF, False, SOCK_STREAM, ESOCKTNOSUPPORT),
    ((53, 199), 0, 0xFFFFFFFF, False, AF_UNIX, EAFNOSUPPORT),  # socketpair
    ((53, 199), 1, 0xF, False, SOCK_STREAM, ESOCKTNOSUPPORT),
    ((72, 25), 1, 0xFFFFFFFF, True, F_SETLEASE, EPERM),  # fcntl
    ((54, 208), 2, 0xFFFFFFFF, True, SO_SNDBUF, EPERM),  # setsockopt
    ((54, 208), 2, 0xFFFFFFFF, True, SO_SNDBUFFORCE, EPERM),
)
CLONE3 = 435
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
FIELDS = {
    "cell": ("cell", "error", "line", "text", "images"),
    "observation": ("name", "case", "seen", "rest", "carried", "operations", "kept", "beside"),
    "made": ("cell", "kind", "what"),
}
KEYCTL_JOIN_SESSION_KEYRING = 1
LINUX = sys.platform == "linux"
libc = ctypes.CDLL(None, use_errno=True)


# ------------------------------------------------------------------------------------------------- the worker


def main(walled: bool = True) -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    jobs = os.fdopen(os.dup(0), "r", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)

    def emit(event: Event) -> None:
        out.write(json.dumps(event) + "\n")
        out.flush()

    sys.stderr = out  # until here an error would be lost; the parent shows the last line it cannot read
    shell = prepare()
    sys.stderr = sys.__stderr__
    if LINUX:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # a child may not look into its worker
    emit({"event": "ready"})
    # A process of its own reads and runs each job, so that a notebook is forked from memory that never held another one.
    while True:
        runner = os.fork()
        if runner == 0:
            given = [jobs.readline()]  # no frame that stays below a notebook's holds what is in it
            if not given[0]:
                os._exit(NO_MORE_JOBS)
            try:
                if LINUX and not walled:
                    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what a notebook leaves behind is found below this
                    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                run_job(json.loads(given.pop()), shell, emit, walled)
            except BaseException:
                emit({"event": "fault"})
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1])
        if code == NO_MORE_JOBS:
            return
        if code != 0:
            emit({"event": "fault"})


def prepare() -> Any:
    """Import what notebooks import, take the course's own answers away, and make one IPython shell to fork from."""
    import matplotlib
    import numpy  # noqa: F401
    import torch

    torch.set_num_threads(1)  # before the first operation: a child forked after a parallel one would hang
    for dtype in (
        torch.float16,
        torch.bfloat16,
    ):  # torch reads /proc/cpuinfo on first use, which the children do not see
        torch.softmax((torch.ones(2, 2, dtype=dtype) @ torch.ones(2, 2, dtype=dtype)).float(), dim=-1).to(dtype)
    matplotlib.use("Agg")
    import matplotlib.pyplot
    import torch.fx.experimental.symbolic_shapes  # with sympy a second to import, which the first gradient would pay
    import torch.nn.functional
    from traitlets.config import Config

    import autograder.witness  # noqa: F401  (the notebooks' processes do not see its file)
    import course_lib
    from autograder.operations import places_of_switches

    for module in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
        if ".tests" not in module.name and not module.name.endswith("triton_kernel"):  # triton takes a second to import
            import_module(module.name)
    places_of_switches()
    close_course()
    stub_colab()
    no_monitor()
    no_loaders()
    no_compiler()
    no_machine_code()
    from IPython.core.interactiveshell import InteractiveShell

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    shell = InteractiveShell.instance(config=config)
    for source in (
        "1 + 1",
        "raise ValueError",
    ):  # the first cell and the first error pay for lazy imports; pay once, here
        shell.run_cell(source, silent=True)
    return shell


def close_course() -> None:
    """Set a trap in every function of course_lib but the open modules: their code is gone from this process for good."""
    from autograder import state  # type: ignore[attr-defined]  # inside.py stands in its place here
    from autograder.watch import TRAP_FILE, ForbiddenCall, Sighting, calling_line, set_trap

    def seen(name: str) -> None:
        if state.trapped is not None:
            state.trapped.append(Sighting(name, calling_line()))
        raise ForbiddenCall(f"{name} is not available while a submission is graded")

    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] != "course_lib" or module_name.startswith(OPEN_MODULES):
            continue
        for thing in list(vars(module).values()):
            owner = getattr(thing, "__module__", None) or ""
            if not owner.startswith("course_lib") or owner.startswith(OPEN_MODULES):
                continue
            members = vars(thing).values() if isinstance(thing, type) else [thing]
            for member in list(members):
                function = getattr(member, "__wrapped__", member)
                if not isinstance(function, FunctionType) or not str(function.__module__).startswith("course_lib"):
                    continue  # what Python itself adds to a class (a named tuple's methods) is nobody's answer
                if function.__code__.co_filename != TRAP_FILE:
                    set_trap(function, f"{owner}.{function.__qualname__}", seen)


def no_compiler() -> None:
    """`torch.compile` takes longer than a cell may: here it gives back what it gets. The result is the same, and speed is not
    judged.
    """
    import torch

    def as_it_is(model: Any = None, **options: Any) -> Any:
        return (lambda function: function) if model is None else model

    torch.compile = as_it_is


def no_monitor() -> None:
    """Progress bars without the thread that redraws them: it would run a student's code where no watch stands."""
    import tqdm

    tqdm.tqdm.monitor_interval = 0
    tqdm.TMonitor.run = lambda monitor: None  # for a bar of an own class with an interval of its own


def no_loaders() -> None:
    """A `DataLoader` loads in the notebook's own process: its helpers would send open files to each other, and nobody here
    has more than a core.
    """
    from inspect import signature

    from torch.utils.data import DataLoader

    made, names = DataLoader.__init__, signature(DataLoader.__init__)
    of_helpers = ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = names.bind(self, *args, **kwargs)
        for name in of_helpers:
            given.arguments.pop(name, None)
        made(*given.args, **given.kwargs)

    DataLoader.__init__ = __init__  # type: ignore[method-assign]


def no_handlers() -> None:
    """Nobody handles a signal while a notebook runs: a handler is given the frame of whatever runs, the witness's too. So no
    alarm rings either, which would end the notebook; its limits are kept from outside.
    """
    import _signal

    def kept(number: int, handler: Any) -> Any:
        return signal.getsignal(number)

    def no_alarm(*when: Any) -> Any:
        return 0

    def no_timer(*when: Any) -> Any:
        return 0.0, 0.0

    for name, instead in {"signal": kept, "alarm": no_alarm, "setitimer": no_timer}.items():
        setattr(_signal, name, instead)
        setattr(signal, name, instead)


def no_machine_code() -> None:
    """What torch would load of it without Python being told."""
    import torch

    for name in [name for name in vars(torch._C._aoti) if name[0] != "_"]:
        delattr(torch._C._aoti, name)


def no_module_anew() -> None:
    """Python's built-in modules are there already, and are not made anew: they would have all that was taken out of them."""
    import _imp
    import importlib

    for name in sys.builtin_module_names:
        importlib.import_module(name)

    def create_builtin(spec: Any) -> ModuleType:
        raise ImportError("no module is made anew while a notebook is graded")

    _imp.create_builtin = create_builtin


def stub_colab() -> None:
    """`google.colab` with the calls that notebooks make for comfort: they do nothing here."""

    def nothing(*args: Any, **kwargs: Any) -> dict[str, bytes]:
        return {}

    google, colab = ModuleType("google"), ModuleType("google.colab")
    google.__path__ = []
    for name, calls in {"drive": ("mount", "flush_and_unmount"), "files": ("upload", "download")}.items():
        part = ModuleType(f"google.colab.{name}")
        for call in calls:
            setattr(part, call, nothing)
        setattr(colab, name, part)
        sys.modules[part.__name__] = part
    google.colab = colab  # type: ignore[attr-defined]
    sys.modules.setdefault("google", google)
    sys.modules["google.colab"] = colab


def run_job(job: Event, shell: Any, emit: Callable[[Event], None], walled: bool = True) -> None:
    """Run a notebook, again without the cell that broke it where one did; ends with an "end" event.

    What took long and nothing needs is not run again: else a few such cells would use up the time of all that follow.
    """
    skipped: dict[int, str | None] = {}
    told: set[int] = set()
    deadline = time.monotonic() + job["total_seconds"]
    while True:
        watch = Watch(job, deadline, walled, told)
        broken = run_once(watch, shell, skipped, emit)
        skipped |= dict.fromkeys(i for i in job["spare"] if watch.seconds.get(i, 0) > LONG_SECONDS)
        if broken is None:
            emit({"event": "end", "reason": None})
            return
        cell, reason = broken
        emit({"event": "stopped", "cell": cell, "reason": reason})
        if cell is None or cell in skipped or time.monotonic() > deadline:
            emit({"event": "end", "reason": reason})
            return
        skipped[cell] = reason


def run_once(
    watch: "Watch", shell: Any, skipped: dict[int, str | None], emit: Callable[[Event], None]
) -> tuple[int | None, str] | None:
    """Fork the sealed child and watch it. None when it ran to its end, else the cell it broke in and why (see `STOPS`)."""
    reader, writer = os.pipe()
    watch.job["key"] = os.urandom(32)
    sealer = os.fork()
    if sealer == 0:
        seal_and_run(watch.job, shell, skipped, writer, watch.walled)
    watch.key = watch.job.pop("key")
    os.close(writer)
    os.set_blocking(reader, False)
    root = sealer if watch.walled else os.getpid()  # behind the wall the sealer only waits
    try:
        while True:
            select.select([reader], [], [], POLL_SECONDS)
            open_ = watch.read(reader, emit)
            if watch.done:
                return None
            trouble = watch.trouble(root)
            if trouble is not None:
                return watch.cell, trouble
            if not open_:
                return watch.cell, "ended"
    finally:
        kill_tree(sealer)
        os.close(reader)


class Spent(NamedTuple):
    """Processor seconds of a process, and of the children that it has waited for; `started` tells it from a later one."""

    own: float
    children: float = 0.0
    started: int = 0


@dataclass
class Watch:
    """What is known of a running notebook: the open cell, since when, how long others took, how much it has said."""

    job: Event
    deadline: float
    walled: bool
    told: set[int]  # cells whose outcome is known, from an earlier run of the notebook too
    cell: int | None = None
    since: float = field(default_factory=time.monotonic)
    seconds: dict[int, float] = field(default_factory=dict)  # by the clock, of the cells before the open one
    used: float | None = None  # processor seconds when the open cell began
    received: int = 0
    pieces: list[bytes] = field(default_factory=list)  # of a line that has not ended yet
    alive: dict[int, Spent] = field(default_factory=dict)  # the processes when last looked at
    gone: float = 0.0  # processor seconds of those that are no more
    done: bool = False
    key: bytes = b""  # with which the witness signs
    heard: int = 0  # of its lines

    def read(self, reader: int, emit: Callable[[Event], None]) -> bool:
        """Pass on what the child says; False at its end. Lines that are no event are dropped."""
        for _ in range(64):
            try:
                chunk = os.read(reader, 1 << 16)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.received += len(chunk)
            if self.received > MAX_EVENT_BYTES:
                return True
            self.pieces.append(chunk)
            if b"\n" in chunk:  # joined only here: a long line must not be copied for every chunk of it
                *lines, rest = b"".join(self.pieces).split(b"\n")
                self.pieces = [rest]
                for line in lines:
                    self.note(line, emit)
        return True

    def note(self, line: bytes, emit: Callable[[Event], None]) -> None:
        from autograder.wire import parse

        signed = self.signed(line)
        try:
            event = parse((line if signed is None else signed[1]).decode())
            kind = event["event"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        cell = event.get("cell")
        if kind == "start" and type(cell) is int and (self.cell or -1) < cell < len(self.job["cells"]):
            now = time.monotonic()
            if self.cell is not None:
                self.seconds[self.cell] = now - self.since
            self.cell, self.since, self.used = cell, now, None
        elif kind == "done":
            self.done = True
        elif (kind == "cell" and self.tells_more(cell)) or (
            signed is not None and (kind == "made" or event.get("name") == self.open_check())
        ):
            if signed is not None and signed[0]:
                emit({"event": "made", "cell": self.cell, "kind": "kept back", "what": ""})
            with suppress(RecursionError):  # it could be read, but is nested too deeply to be written
                emit({name: event.get(name) for name in ("event", *FIELDS[kind])})

    def signed(self, line: bytes) -> tuple[bool, bytes] | None:
        """A line of the witness's: whether others before it are missing, and its text; None of any other line, and of one that
        came before. Those of the notebook's other processes have no order.
        """
        signature, _, data = line.partition(b" ")
        if len(signature) != 64 or not hmac.compare_digest(
            signature, hmac.digest(self.key, data, "sha256").hex().encode()
        ):
            return None
        own, number, text = data.split(b" ", 2)
        if own != b"1":
            return False, text
        missing = int(number) - self.heard - 1
        self.heard = max(self.heard, int(number))
        return (missing > 0, text) if missing >= 0 else None

    def tells_more(self, cell: Any) -> bool:
        """Not of a spare cell that ran before: without one that was left out it may fail, which is nobody's mistake."""
        if type(cell) is not int:
            return False
        known = cell in self.told and cell in self.job["spare"]
        self.told.add(cell)
        return not known

    def open_check(self) -> str | None:
        """The exercise whose check cell is running: only its observations are passed on."""
        return None if self.cell is None else self.job["cells"][self.cell]["check"]

    def spent(self, processes: dict[int, Spent]) -> float:
        """Processor seconds of the notebook so far, those of processes that are gone included.

        Who waits for a child is given its time; of a child that nobody waits for, what was last seen of it counts.
        """
        for pid, last in self.alive.items():
            if pid not in processes or processes[pid].started != last.started:
                self.gone += last.own
        self.alive = processes
        return sum(p.own for p in processes.values()) + max(self.gone, sum(p.children for p in processes.values()))

    def trouble(self, root: int) -> str | None:
        """Which limit is passed, as a key of `STOPS` in sandbox.py.

        A cell is measured by the processor time it uses, so that a busy machine costs no honest student points; one
        that only waits is ended after `PATIENCE` times as long.
        """
        now = time.monotonic()
        processes = descendants(root)
        used = self.spent(processes)
        if self.used is None:
            self.used = used
        if self.received > MAX_EVENT_BYTES:
            return "output"
        if now > self.deadline:
            return "total"
        if used - self.used > self.job["cell_seconds"] or now - self.since > PATIENCE * self.job["cell_seconds"]:
            return "cell"
        if len(processes) > MAX_PROCESSES:
            return "processes"
        held = sum(map(private_bytes, processes)) + (in_sockets() if self.walled else 0)
        if held > self.job["memory_bytes"]:
            return "memory"
        return None


def descendants(root: int) -> dict[int, Spent]:
    """All processes below `root`, parents before children, with the processor time that each has used."""
    if not os.path.isdir("/proc/self"):
        return descendants_elsewhere(root)
    parents: dict[int, int] = {}
    spent: dict[int, Spent] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                parents[int(entry)] = int(fields[1])
                user, system_, children_user, children_system = (int(field) / CLOCK_TICKS for field in fields[11:15])
                spent[int(entry)] = Spent(user + system_, children_user + children_system, int(fields[19]))
            except (OSError, IndexError, ValueError):
                continue
    found: dict[int, Spent] = {}
    front = [root]
    while front:
        front = [pid for pid, parent in parents.items() if parent in front and pid not in found]
        found.update((pid, spent[pid]) for pid in front)
    return found


def descendants_elsewhere(root: int) -> dict[int, Spent]:
    """The same on systems without /proc."""
    import psutil

    found = {}
    for process in psutil.Process(root).children(recursive=True):
        try:
            times = process.cpu_times()
            found[process.pid] = Spent(float(times.user + times.system))
        except psutil.Error:
            continue
    return found


def private_bytes(pid: int) -> int:
    """Memory of a process that is not a file's (what it shares with the worker counts, and is about 300 MiB)."""
    if not os.path.isdir("/proc/self"):
        import psutil

        try:
            return int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            rows = [line.split() for line in file if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:"))]
        return sum(int(row[1]) << 10 for row in rows)
    except (OSError, ValueError, IndexError):
        return 0


def in_sockets() -> int:
    """What the queues of all sockets can hold, which is no process's memory: behind the wall they are the notebook's."""
    try:
        with open("/proc/net/unix", "rb") as file:
            count = sum(1 for _ in file) - 1  # the first line is the heading
        with socket.socket(socket.AF_UNIX) as one:
            return count * (one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) * 3 // 2)  # the last message passes it
    except OSError:
        return 0


def kill_tree(sealer: int) -> None:
    """Kill the first process of the sealed namespace, and with it everything inside; then the sealer.

    Without the wall orphans may be left: they are children of this process by now.
    """
    deadline = time.monotonic() + 5
    while left := descendants(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() > deadline:  # one that the system itself holds on to
            return
        time.sleep(0.002)


# ------------------------------------------------------------------------------------------------- the sealed child


def seal_and_run(job: Event, shell: Any, skipped: dict[int, str | None], writer: int, walled: bool) -> None:
    """In the forked child: go behind the wall, then run the cells. Never returns."""
    try:
        for fd in os.listdir("/proc/self/fd" if LINUX else "/dev/fd"):
            if int(fd) > 2 and int(fd) != writer:
                try:
                    os.close(int(fd))
                except OSError:
                    continue
        if walled:
            new_namespaces()
            if os.fork():  # the sealer stays outside the new process namespace and only waits
                os.wait()
                os._exit(0)
        os.setsid()  # a signal to the process group must not reach the worker
        limit(job, walled)
        if walled:
            cover_files()
            drop_privileges()
        else:
            if LINUX:
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.chdir(tempfile.mkdtemp(dir=os.environ["HOME"]))
        run_cells(job, shell, skipped, writer)
    finally:
        os._exit(1)


def system(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def new_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or the files below belong to root
    system(libc.unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC), "unshare")
    for name, text in {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def cover_files() -> None:
    """An empty home of this notebook's own; the course's files and other processes out of sight."""

    def tmpfs(target: bytes, size: str, flags: int = 0) -> None:
        options = f"size={size},nr_inodes=4096,mode=0755".encode()
        system(libc.mount(b"tmpfs", target, b"tmpfs", MS_NOSUID | MS_NODEV | flags, options), target.decode())

    tmpfs(HOME.encode(), "256m")
    if not os.listdir("/tmp"):  # unless the course itself lives there; then it stays as it is, read-only
        tmpfs(b"/tmp", "64m")
    tmpfs(b"/dev/shm", "64m")
    system(libc.mount(b"/dev/null", b"/dev/zero", None, MS_BIND, None), "/dev/zero")  # it maps as memory of no process
    tmpfs(b"/course", "4k", MS_RDONLY)
    tmpfs(b"/proc", "4k", MS_RDONLY)
    os.chdir(HOME)


def drop_privileges() -> None:
    keyctl = REFUSED["keyctl"][MACHINES[os.uname().machine][1]]
    libc.syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, None)  # an empty one, where the system has any
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    system(libc.capset(header, nothing), "capset")
    refuse_system_calls()


def refuse_system_calls() -> None:
    """A seccomp filter on this process and all that come from it; see `REFUSED` and `REFUSED_IF`."""
    architecture, here = MACHINES[os.uname().machine]
    load, mask, equal, at_least, give = 0x20, 0x54, 0x15, 0x35, 0x06
    allow, error = 0x7FFF0000, 0x00050000
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, error | EPERM), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (give, 0, 0, error | EPERM)]  # the x32 names of the same calls
    for numbers in REFUSED.values():
        program += [(equal, 0, 1, numbers[here]), (give, 0, 0, error | EPERM)]
    program += [
        (equal, 0, 1, CLONE3),
        (give, 0, 0, error | ENOSYS),
    ]  # its flags cannot be read here; libc turns to clone
    for numbers, argument, bits, is_it, value, why in REFUSED_IF:
        program += [(equal, 0, 5, numbers[here]), (load, 0, 0, 16 + 8 * argument), (mask, 0, 0, bits)]
        program += [(equal, *((0, 1) if is_it else (1, 0)), value), (give, 0, 0, error | why), (load, 0, 0, 0)]
    program += [(give, 0, 0, allow)]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    system(libc.prctl(PR_SET_SECCOMP, 2, filter_, 0, 0), "seccomp")


def limit(job: Event, walled: bool) -> None:
    limits = {
        resource.RLIMIT_CPU: int(job["total_seconds"]) + 5,
        resource.RLIMIT_FSIZE: 256 << 20,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    if LINUX:
        with open("/proc/self/statm") as file:
            already = int(file.read().split()[0]) * resource.getpagesize()  # torch alone maps some GiB
        limits[resource.RLIMIT_AS] = already + job["memory_bytes"]
    if walled:  # outside, everything that the user runs would count
        limits[resource.RLIMIT_NPROC] = 4 * MAX_PROCESSES
    for what, amount in limits.items():
        resource.setrlimit(what, (amount, amount))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def run_cells(job: Event, shell: Any, skipped: dict[int, str | None], writer: int) -> None:
    import torch

    from autograder import state  # type: ignore[attr-defined]  # inside.py stands in its place here
    from autograder.witness import CELL_RUNS

    as_json, write, audit = json.dumps, os.write, sys.audit  # bound before any cell has run

    def send(event: Event) -> None:
        data = (as_json(event) + "\n").encode()
        while data:
            data = data[write(writer, data) :]

    state.plan = {name: {**plan, "cases": len(plan["calls"])} for name, plan in job["plan"].items()}
    state.names = shell.user_ns
    call_witness(job, skipped, writer)
    torch.manual_seed(0)
    runner = CellRunner(shell)
    for i, cell in enumerate(job["cells"]):
        send({"event": "start", "cell": i})
        if i in skipped:
            if skipped[i] is not None:  # else it ran through, and is not needed
                send({"event": "cell", "cell": i, "error": skipped[i], "line": 0, "text": "", "images": []})
            continue
        state.open_check = cell["check"]
        audit(CELL_RUNS, i)
        result = runner.run(cell["source"], i)
        state.open_check = None
        send({**result, "event": "cell", "cell": i})
    send({"event": "done"})
    os._exit(0)


def call_witness(job: Event, skipped: Container[int], writer: int) -> None:
    """What it is given is nobody's from now on."""
    from IPython.core.inputtransformer2 import TransformerManager

    from autograder import sealed, state  # type: ignore[attr-defined]
    from autograder.made import texts_of
    from autograder.operations import take_switches
    from autograder.witness import alone, room, witness

    calls: dict[str, list[str]] = {}
    forbidden: dict[str, frozenset[str]] = {}
    for name, plan in state.plan.items():
        calls[name], operations = plan.pop("calls"), plan.pop("operations")
        if plan["forbidden"]:
            forbidden[name] = frozenset(operations)
    del job["plan"]
    transform = TransformerManager().transform_cell
    checks = tuple(cell["check"] or "" for cell in job["cells"])
    run = [cell["source"] for i, cell in enumerate(job["cells"]) if i not in skipped]
    texts = frozenset(text for source in run for text in texts_of(source, transform))
    no_handlers()
    no_module_anew()
    sys.addaudithook(room)
    sys.addaudithook(
        witness(job.pop("key"), writer, run_cells.__code__, checks, texts, calls, forbidden, take_switches(), *sealed())
    )
    sys.addaudithook(alone)


class Capped:
    """A text stream that keeps its first characters and drops the rest."""

    encoding = "utf-8"
    limit = 20_000

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.length = 0

    def write(self, text: str) -> int:
        if self.length < self.limit:
            self.parts.append(text[: self.limit - self.length])
            self.length += len(self.parts[-1])
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def text(self) -> str:
        kept = "".join(self.parts).encode("utf-8", "replace").decode("utf-8")
        return kept + ("\n… (cut)" if self.length >= self.limit else "")


class CellRunner:
    """Runs cells in the shell; text and pictures come out, nothing else."""

    max_images = 4
    max_image_bytes = 400_000

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        shell.system = shell.system_piped = shell.system_raw = shell.getoutput = self.no_command
        for magic in ("pip", "conda", "mamba", "uv", "cd", "matplotlib"):
            shell.register_magic_function(self.no_magic, "line", magic)
        for magic in ("bash", "sh", "writefile", "script"):
            shell.register_magic_function(self.no_cell_magic, "cell", magic)
        import builtins

        builtins.input = self.no_input

    @staticmethod
    def no_command(command: str, *args: Any, **kwargs: Any) -> list[str]:
        print(f"(not run while grading: !{command})")
        return []

    @staticmethod
    def no_magic(line: str) -> None:
        print(f"(not run while grading: {line})")

    @staticmethod
    def no_cell_magic(line: str, cell: str) -> None:
        print("(not run while grading)")

    @staticmethod
    def no_input(prompt: object = "") -> str:
        return ""

    def run(self, source: str, number: int) -> dict[str, Any]:
        from autograder.watch import CELL

        stream = Capped()
        self.shell.compile.get_code_name = lambda *_: f"{CELL}{number}>"
        old = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = stream
        try:
            result = self.shell.run_cell(source, store_history=False)
            problem = result.error_before_exec or result.error_in_exec
        except BaseException as escaped:  # a student's hook may break the shell itself
            problem = escaped
        finally:
            sys.stdout, sys.stderr = old
        return {
            "error": None if problem is None else self.described(problem),
            "line": 0 if problem is None else self.line_of(problem),
            "text": "" if problem is not None and not stream.parts else stream.text(),
            "images": self.images(),
        }

    @staticmethod
    def described(problem: BaseException) -> str:
        from autograder.observe import describe

        return describe(problem).encode("utf-8", "replace").decode("utf-8")

    @staticmethod
    def line_of(problem: BaseException) -> int:
        if isinstance(problem, SyntaxError):
            return problem.lineno or 0
        trace, line = problem.__traceback__, 0
        while trace is not None:
            if "ipykernel" in trace.tb_frame.f_code.co_filename or "<ipython" in trace.tb_frame.f_code.co_filename:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line

    def images(self) -> list[str]:
        """Open figures as PNG in base64."""
        import base64
        import io

        from matplotlib import pyplot

        found: list[str] = []
        try:
            for number in pyplot.get_fignums()[: self.max_images]:
                file = io.BytesIO()
                pyplot.figure(number).savefig(file, format="png", dpi=72)
                if file.tell() <= self.max_image_bytes:
                    found.append(base64.b64encode(file.getvalue()).decode())
            pyplot.close("all")
        except Exception:  # a picture that cannot be drawn is no reason to fail
            return found
        return found
