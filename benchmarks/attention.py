"""Attention alone: time, memory and growth with N of explicit and tiled attention beside PyTorch's fused kernel.

    python -m benchmarks.attention            # prints tables, writes benchmarks/results/attention.json

Time: batch 1, 8 heads of width 64, float32, not causal. In one process the contestants take turns, round after round,
so that whatever else the machine does hits all of them; the table shows medians, and ratios are medians of the ratios
within a round. A training step is forward and backward.

Memory: each number is a fresh process, which makes the inputs, runs a small case once (libraries keep buffers), and then
reads by how much one call raises the peak of the resident set (VmHWM, reset before; Linux only) above what is resident
right before. (ru_maxrss would not do: a process inherits its parent's.) The output and, for a training step, the three
gradients count. Where explicit attention would need more than there is, it is left
out.
"""

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import scaled_dot_product_attention
from course_lib.flash.tiled import tiled_attention

RESULTS = Path(__file__).parent / "results"
LENGTHS = (512, 1024, 2048, 4096, 8192)
HEADS, WIDTH = 8, 64
PEER = "PyTorch SDPA"
CONTESTANTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "explicit": lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
    "tiled": tiled_attention,
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
    contestants = {name: attend for name, attend in CONTESTANTS.items() if fits(name, n, training)}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    qkv = inputs(n, training)
    for attend in contestants.values():
        run(attend, inputs(256, training), training)  # the first call pays for libraries and threads
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(seconds[PEER]) < 3:
        for name, attend in contestants.items():
            start = time.perf_counter()
            run(attend, qkv, training)
            seconds[name].append(time.perf_counter() - start)
    return seconds


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


def resident(which: str) -> float:
    """MiB in memory now (VmRSS) or at most so far (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def slope(rows: list[dict], name: str, quantity: str) -> float | None:
    """By which power of N the quantity grows between the two largest lengths that were measured."""
    points = [(row["n"], row[quantity]) for row in rows if row["contestant"] == name and row[quantity]]
    if len(points) < 2:
        return None
    (n, a), (m, b) = points[-2:]
    return math.log(b / a) / math.log(m / n)


def show(value: float | None, form: str) -> str:
    return "not run" if value is None else format(value, form)


def main() -> None:
    machine = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load_at_start": os.getloadavg()[0],
    }
    print(machine)
    rows = []
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
                    "milliseconds": None if mine is None else 1e3 * statistics.median(mine),
                    "ratio": None if mine is None else statistics.median(a / b for a, b in zip(mine, seconds[PEER])),
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
            powers = slope(part, name, "milliseconds"), slope(part, name, "extra_mib")
            print(f"{name}: time grows like N^{show(powers[0], '.2f')}, memory like N^{show(powers[1], '.2f')}")
        rows += part
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "attention.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print(measure_memory(sys.argv[2], int(sys.argv[3]), bool(int(sys.argv[4]))))
    else:
        main()
