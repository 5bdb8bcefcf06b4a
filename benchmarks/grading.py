"""Seconds per notebook: `python -m autograder grade` against stock `nbgrader autograde`, in one run.

    python -m benchmarks.grading            # prints a table, writes benchmarks/results/grading.json

Both get the same submissions of the same released notebook (solved), and both start from nothing, so that starting is
included. Two variants: "light", a notebook reduced to what ours runs, so that both execute the same cells; and each
lesson as released, whose demonstrations and experiments stock nbgrader runs and ours does not need.
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
LESSONS = sorted(path.stem for path in (ROOT / "solutions").glob("[0-9]*.py"))
LIGHT = ("02_qkv", "03_sqrt_dk")
# Submissions of ours and of stock nbgrader's, whose time is proportional to their number.
SIZES = {"light": (100, 3), "as released": (20, 2)}


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


def ours(lesson: str, notebook: NotebookNode, folder: Path, size: int) -> float:
    for i in range(size):
        student = folder / "submissions" / f"student{i:03}"
        student.mkdir(parents=True)
        nbformat.write(notebook, student / f"{lesson}.ipynb")
    command = [sys.executable, "-m", "autograder", "grade", str(folder / "submissions"), "--out", str(folder / "out")]
    return run(command, ROOT) / size


def stock(lesson: str, notebook: NotebookNode, folder: Path, size: int, reduce: bool) -> float:
    """`nbgrader autograde` with its default configuration."""
    source = folder / "source" / lesson
    source.mkdir(parents=True)
    released = nbformat.read(ROOT / "lessons" / "en" / f"{lesson}.ipynb", as_version=4)
    nbformat.write(light(released) if reduce else released, source / f"{lesson}.ipynb")
    for i in range(size):
        student = folder / "submitted" / f"student{i:03}" / lesson
        student.mkdir(parents=True)
        nbformat.write(notebook, student / f"{lesson}.ipynb")
    run(["nbgrader", "generate_assignment", lesson], folder)
    return run(["nbgrader", "autograde", lesson], folder) / size


def main() -> None:
    here = machine()  # before anything runs
    rows = []
    for variant, lesson in [*(("light", lesson) for lesson in LIGHT), *(("as released", lesson) for lesson in LESSONS)]:
        solved = solved_notebook(load_lesson(ROOT / "solutions" / f"{lesson}.py"), "en")
        notebook = light(solved) if variant == "light" else solved
        many, few = SIZES[variant]
        work = Path(tempfile.mkdtemp(prefix="grading-"))
        try:
            mine = ours(lesson, notebook, work / "ours", many)
            theirs = stock(lesson, notebook, work / "stock", few, reduce=variant == "light")
        finally:
            shutil.rmtree(work)
        rows.append(
            {
                "lesson": lesson,
                "notebook": variant,
                "class": many,
                "ours": mine,
                "stock": theirs,
                "ratio": theirs / mine,
            }
        )
        print(f"{lesson:28} {variant:12} ours {mine:6.2f} s  stock {theirs:6.2f} s  {theirs / mine:5.1f}×", flush=True)
        write("grading", {"machine": here, "rows": rows})


if __name__ == "__main__":
    main()
