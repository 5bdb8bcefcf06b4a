"""What every benchmark shares: who measures, contestants that take turns, and where the numbers go."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """The machine and its load before anything ran."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def take_turns(contestants: dict[str, Callable[[], object]], seconds: float, rounds: int = 5) -> dict[str, list[float]]:
    """Seconds of each contestant, round by round, so that whatever else the machine does hits all of them.

    Args:
        contestants: what to call; each is called once before, to pay for libraries and threads.
        seconds: go on for so long.
        rounds: and for at least so many rounds.
    """
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, taken.values())) < rounds:
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - start)
    return taken


def ratio(taken: dict[str, list[float]], name: str, peer: str) -> float:
    """Median over the rounds of one contestant's time over another's."""
    return statistics.median(a / b for a, b in zip(taken[name], taken[peer]))


def milliseconds(taken: dict[str, list[float]], name: str) -> float:
    return 1e3 * statistics.median(taken[name])


def measured(measures: dict[str, Callable[[], dict[str, list[float]]]]) -> list[dict[str, Any]]:
    """Run the measures one after the other; print and return a row for each contestant. The first of each is ours."""
    rows = []
    for measure, run in measures.items():
        taken = run()
        ours = next(iter(taken))
        print(f"\n{measure}")
        for name in taken:
            row = {
                "measure": measure,
                "contestant": name,
                "milliseconds": milliseconds(taken, name),
                "ours_to_this": ratio(taken, ours, name),
                "spread": max(taken[name]) / statistics.median(taken[name]),
                "rounds": len(taken[name]),
            }
            rows.append(row)
            print(f"  {name:28}{row['milliseconds']:10.2f} ms   {ours} takes {row['ours_to_this']:.2f}× its time")
    return rows


def write(name: str, content: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
