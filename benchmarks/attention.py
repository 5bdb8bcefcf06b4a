"""Attention alone: time, memory and growth with N of explicit and tiled attention beside PyTorch's fused kernel.

    python -m benchmarks.attention            # prints tables, writes benchmarks/results/attention.json

Time: batch 1, 8 heads of width 64, float32, not causal (but for the sliding window, which looks back over 256 keys).
In one process the contestants take turns, round after round, so that whatever else the machine does hits all of them;
the table shows medians, and ratios are medians of the ratios within a round. A training step is forward and backward.

Memory: each number is a fresh process, which makes the inputs, runs a small case once (libraries keep buffers), and then
reads by how much one call raises the peak of the resident set (VmHWM, reset before; Linux only) above what is resident
right before. (ru_maxrss would not do: a process inherits its parent's.) The output and, for a training step, the three
gradients count. Where explicit attention would need more than there is, it is left out.

Work: the operations of matrix products and attention kernels as PyTorch's own counter counts them, no clock involved.
"""

import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from benchmarks.common import RESULTS, machine, milliseconds, ratio, take_turns, write
from course_lib.attention import scaled_dot_product_attention
from course_lib.beyond import linear_attention, sliding_window_attention
from course_lib.flash.tiled import tiled_attention

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
HEADS, WIDTH = 8, 64
PEER = "PyTorch SDPA"
CONTESTANTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "explicit": lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
    "tiled": tiled_attention,
    "sliding window": partial(sliding_window_attention, window=256),
    "linear": linear_attention,
    PEER: F.scaled_dot_product_attention,
}
SECONDS = 5  # for each length and pass; at least 3 rounds


def inputs(n: int, training: bool) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, n, WIDTH, requires_grad=training) for _ in range(3)]


def run(attend: Callable[[Tensor, Tensor, Tensor], Tensor], qkv: list[Tensor], training: bool) -> None:
    output = attend(*qkv)
    if training:
        torch.autograd.grad(output, qkv, torch.ones_like(output))


def fits(name: str, n: int, training: bool) -> bool:
    """Explicit attention holds 3 score matrices at a time, 6 in a training step: leave half of the memory free."""
    matrices = 0 if name != "explicit" else 6 if training else 3
    kib = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0])
    return 4 * HEADS * n * n * matrices < kib * 1024 / 2


def times(n: int, training: bool) -> dict[str, list[float]]:
    """Seconds of each contestant, round by round."""
    qkv = inputs(n, training)
    runs = {
        name: partial(run, attend, qkv, training) for name, attend in CONTESTANTS.items() if fits(name, n, training)
    }
    return take_turns(runs, SECONDS, rounds=3)


def extra_memory(name: str, n: int, training: bool) -> float | None:
    """MiB that one call adds to what is resident, in a fresh process; None where it would not fit."""
    if not fits(name, n, training):
        return None
    command = [sys.executable, "-m", "benchmarks.attention", "--memory", name, str(n), str(int(training))]
    root = Path(__file__).resolve().parents[1]
    return float(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)


def measure_memory(name: str, n: int, training: bool) -> float:
    run(CONTESTANTS[name], inputs(256, training), training)
    qkv = inputs(n, training)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = resident("VmRSS")
    run(CONTESTANTS[name], qkv, training)
    return resident("VmHWM") - before


Shape = tuple[int, ...]  # what the counter hands over for a tensor


def cpu_flash(q: Shape, k: Shape, v: Shape, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(q, k, v)


def cpu_flash_backward(grad: Shape, q: Shape, k: Shape, v: Shape, *_: Any, **__: Any) -> int:
    return sdpa_backward_flop_count(grad, q, k, v)


# PyTorch's counter knows its kernels on a GPU, not those on a CPU.
CPU_KERNELS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: cpu_flash,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: cpu_flash_backward,
}


def work(name: str, n: int, training: bool) -> int:
    """Operations of matrix products, multiplications and additions counted singly."""
    with FlopCounterMode(display=False, custom_mapping=CPU_KERNELS) as counter:
        run(CONTESTANTS[name], inputs(n, training), training)
    return counter.get_total_flops()


def resident(which: str) -> float:
    """MiB in memory now (VmRSS) or at most so far (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def slope(rows: list[dict], name: str, quantity: str) -> float | None:
    """By which power of N the quantity grows between the two largest lengths that were measured."""
    points = [(row["n"], row[quantity]) for row in rows if row["contestant"] == name and row[quantity]]
    if len(points) < 2:
        return None
    (n, a), (m, b) = points[-2:]
    return math.log(b / a) / math.log(m / n)


def show(value: float | None, form: str) -> str:
    return "not run" if value is None else format(value, form)


def draw(rows: list[dict]) -> None:
    """Milliseconds and MiB of a forward pass against N, both axes logarithmic: a power is a straight line."""
    from matplotlib import pyplot

    from course_lib.plots import use_style

    use_style()
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, quantity, label in zip(axes, ("milliseconds", "extra_mib"), ("forward (ms)", "extra memory (MiB)")):
        for name in CONTESTANTS:
            points = [(r["n"], r[quantity]) for r in rows if r["contestant"] == name and r["pass"] == "forward"]
            points = [(n, value) for n, value in points if value]
            axis.plot(*zip(*points), marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel="N", ylabel=label)
        axis.set_xticks(LENGTHS, [f"{n}" for n in LENGTHS])
    axes[0].legend()
    figure.savefig(RESULTS / "attention.png", dpi=150)


def main() -> None:
    here = machine()  # before anything runs
    print(here)
    rows, growth = [], []
    for training in (False, True):
        what = "training step" if training else "forward"
        print(f"\n{what}, B1 h{HEADS} d{WIDTH}, float32; ratios to {PEER}")
        print(f"{'N':>6}  {'attention':14}{'ms':>10}{'ratio':>8}{'extra MiB':>12}")
        part = []
        for n in LENGTHS:
            seconds = times(n, training)
            for name in CONTESTANTS:
                mine = seconds.get(name)
                row: dict[str, Any] = {
                    "pass": what,
                    "n": n,
                    "contestant": name,
                    "milliseconds": None if mine is None else milliseconds(seconds, name),
                    "ratio": None if mine is None else ratio(seconds, name, PEER),
                    "extra_mib": extra_memory(name, n, training),
                    "rounds": 0 if mine is None else len(mine),
                }
                part.append(row)
                print(
                    f"{n:6}  {name:14}{show(row['milliseconds'], '10.1f'):>10}{show(row['ratio'], '8.2f'):>8}"
                    f"{show(row['extra_mib'], '12.1f'):>12}",
                    flush=True,
                )
        for name in CONTESTANTS:
            time, memory = slope(part, name, "milliseconds"), slope(part, name, "extra_mib")
            # Exact numbers: short texts tell as much as long ones.
            power = math.log2(work(name, 2048, training) / work(name, 1024, training))
            growth.append({"pass": what, "contestant": name, "work": power, "time": time, "memory": memory})
            print(f"{name}: work grows like N^{power:.2f}, time N^{show(time, '.2f')}, memory N^{show(memory, '.2f')}")
        rows += part
    write("attention", {"machine": here, "rows": rows, "growth": growth})
    draw(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print(measure_memory(sys.argv[2], int(sys.argv[3]), bool(int(sys.argv[4]))))
    else:
        main()
