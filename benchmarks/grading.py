"""Seconds per notebook: `python -m autograder grade` against stock `nbgrader autograde`, in one run.

    python -m benchmarks.grading            # prints a table, writes benchmarks/results/grading.json

Both get the same submissions of the same released notebook (solved), and both start from nothing, so that starting is
included. Two variants: the lesson as released, whose demonstrations and experiments stock nbgrader runs and ours does
not need; and "light", the same notebook reduced to what ours runs, so that both execute the same cells.
"""

import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.pipeline.authoring import load_lesson, solved_notebook
from autograder.pipeline.grading import cells_to_run
from benchmarks.common import machine, write

ROOT = Path(__file__).resolve().parents[1]
LESSONS = ("02_qkv", "03_sqrt_dk")
OURS, STOCK = 100, 3  # submissions; stock nbgrader's time is proportional to their number


def light(notebook: NotebookNode) -> NotebookNode:
    """The notebook without the cells that the course's grader does not run."""
    notebook = copy.deepcopy(notebook)
    kept = {cell.id for cell in cells_to_run(notebook)}
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "markdown" or cell.id in kept]
    return notebook


def run(command: list[str], folder: Path) -> float:
    """Seconds that a command takes; it must succeed."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    start = time.perf_counter()
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return seconds


def ours(lesson: str, notebook: NotebookNode, folder: Path) -> float:
    for i in range(OURS):
        student = folder / "submissions" / f"student{i:03}"
        student.mkdir(parents=True)
        nbformat.write(notebook, student / f"{lesson}.ipynb")
    command = [sys.executable, "-m", "autograder", "grade", str(folder / "submissions"), "--out", str(folder / "out")]
    return run(command, ROOT) / OURS


def stock(lesson: str, notebook: NotebookNode, folder: Path, reduce: bool) -> float:
    """`nbgrader autograde` with its default configuration."""
    source = folder / "source" / lesson
    source.mkdir(parents=True)
    released = nbformat.read(ROOT / "lessons" / "en" / f"{lesson}.ipynb", as_version=4)
    nbformat.write(light(released) if reduce else released, source / f"{lesson}.ipynb")
    for i in range(STOCK):
        student = folder / "submitted" / f"student{i:03}" / lesson
        student.mkdir(parents=True)
        nbformat.write(notebook, student / f"{lesson}.ipynb")
    run(["nbgrader", "generate_assignment", lesson], folder)
    return run(["nbgrader", "autograde", lesson], folder) / STOCK


def main() -> None:
    here = machine()  # before anything runs
    rows = []
    for lesson in LESSONS:
        solved = solved_notebook(load_lesson(ROOT / "solutions" / f"{lesson}.py"), "en")
        for variant, notebook in (("as released", solved), ("light", light(solved))):
            work = Path(tempfile.mkdtemp(prefix="grading-"))
            try:
                mine = ours(lesson, notebook, work / "ours")
                theirs = stock(lesson, notebook, work / "stock", reduce=variant == "light")
            finally:
                shutil.rmtree(work)
            rows.append({"lesson": lesson, "notebook": variant, "ours": mine, "stock": theirs, "ratio": theirs / mine})
            print(
                f"{lesson:12} {variant:12} ours {mine:6.2f} s  stock {theirs:6.2f} s  {theirs / mine:5.1f}×", flush=True
            )
    write("grading", {"machine": here, "submissions": {"ours": OURS, "stock": STOCK}, "rows": rows})


if __name__ == "__main__":
    main()
