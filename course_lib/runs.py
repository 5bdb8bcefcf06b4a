"""What surrounds a training loop: the processes that share it, its checkpoint, its log and its progress bar."""

import atexit
import csv
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

import torch
import torch.distributed as dist
from torch import Tensor, nn


def join_processes() -> tuple[int, int]:
    """This process's number and how many there are: ``torchrun`` starts several, otherwise there is one."""
    if not dist.is_initialized():
        if not dist.is_torchelastic_launched():
            return 0, 1
        if torch.cuda.is_available():
            torch.cuda.set_device(best_device())
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(dist.destroy_process_group)
    return dist.get_rank(), dist.get_world_size()


def best_device() -> torch.device:
    """The GPU (under ``torchrun`` this process's own), else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return torch.device("cpu")


def mean_over_processes(total: Tensor, count: int) -> tuple[float, float]:
    """The mean of the losses of all processes, and the number of those losses."""
    both = torch.stack((total.detach().double(), total.new_tensor(count, dtype=torch.float64)))
    if dist.is_initialized():
        dist.all_reduce(both)
    all_total, all_counts = both.tolist()
    return all_total / all_counts, all_counts


def save(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict[str, float], step: int
) -> None:
    """Write the checkpoint beside the old one, then put it in its place: a kill at any moment leaves one that is whole."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "settings": settings}
    torch.save(state, folder / "checkpoint.new")
    os.replace(folder / "checkpoint.new", folder / "checkpoint.pt")


def resume(folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict[str, float]) -> int:
    """Load the folder's checkpoint, if there is one, into the model (which is on its device) and the optimizer.

    Returns:
        The number of steps made before.

    Raises:
        ValueError: if it is of a run with other settings.
    """
    if folder is None or not (folder / "checkpoint.pt").exists():
        return 0
    state = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
    theirs = state["settings"]
    other = [f"{name} was {theirs[name]}, not {ours}" for name, ours in settings.items() if ours != theirs[name]]
    if other:
        raise ValueError(f"{folder} holds a run with other settings ({'; '.join(other)}): take another folder")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


@contextmanager
def progress(
    first: int, last: int, folder: Path | None, silent: bool = False
) -> Iterator[Callable[[int, float, float], None]]:
    """Yields what reports a step, its loss and its rate: in the log, and on a progress bar where rich is installed and
    there is a terminal or a notebook, else in about twenty plain lines.
    """
    start = time.perf_counter()
    with ExitStack() as stack:
        log = None if folder is None or silent else stack.enter_context(_open_log(folder, first))
        bar = None if silent else _rich_bar()
        task = None if bar is None else stack.enter_context(bar).add_task("", total=last, completed=first)

        def report(step: int, loss: float, rate: float) -> None:
            seconds = time.perf_counter() - start
            if log is not None:
                csv.writer(log).writerow((step, loss, rate, f"{seconds:.3f}"))
                log.flush()  # a killed run has its log too
            text = f"step {step}/{last}  loss {loss:.4f}  {(step - first) / seconds:.1f} steps/s"
            if bar is not None:
                # A notebook shows nothing that comes after the last step by itself.
                bar.update(task, completed=step, description=text, refresh=step == last)
            elif not silent and (step == last or step % max(1, last // 20) == 0):
                print(text, flush=True)

        yield report


def _rich_bar() -> Any:
    if importlib.util.find_spec("rich") is None:
        return None
    from rich.progress import Progress

    bar = Progress()
    return bar if bar.console.is_terminal or bar.console.is_jupyter else None


def _open_log(folder: Path, first: int) -> TextIO:
    """The log, without the steps after the checkpoint, which will be made again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "log.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[: first + 1] if first and path.exists() else []
    path.write_text("".join(lines or ["step,loss,learning_rate,seconds\n"]), encoding="utf-8")
    return path.open("a", encoding="utf-8", newline="")
