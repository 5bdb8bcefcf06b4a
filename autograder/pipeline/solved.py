"""Solved and executed notebooks, for instructors only."""

from collections.abc import Callable, Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from autograder.pipeline.authoring import LANGUAGES, load_lesson, solved_notebook

CELL_SECONDS = 400  # lesson 08 trains a model in one cell, in about 100
OUTPUT_SECONDS = 20  # what a cell shows may come later than its reply; nbclient gives it up after 4 unless told


class SolvedError(RuntimeError):
    """Why a notebook could not be made, in one line."""


def run(notebook: nbformat.NotebookNode, kernel: str = "python3", folder: Path | None = None) -> None:
    """Run a notebook in place, in `folder`, whose packages its kernel finds first.

    On a busy machine a message between kernel and client is lost once in a while, and the client waits for ever (no cell
    of a lesson takes nearly so long): then all of it is run once more.
    """
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        iopub_timeout=OUTPUT_SECONDS,
        coalesce_streams=True,  # a line that is printed in two pieces stays one line
        kernel_name=kernel,
        resources={"metadata": {"path": str(folder)}} if folder is not None else {},
    )
    try:
        client.execute()
    except CellTimeoutError:
        client.execute()


def write_solved(
    root: Path, out: Path, lessons: Sequence[str] = (), tell: Callable[[Path], None] = lambda path: None
) -> list[Path]:
    """Run the lessons with their solutions and write them to ``out/LANGUAGE/LESSON.ipynb``.

    Args:
        root: the course.
        out: any folder; an older notebook of the same name is replaced.
        lessons: ids such as "02_qkv"; none: all of them.
        tell: is told each file as it is there.

    Raises:
        SolvedError: for a lesson that is not there, or a cell that stops.
    """
    sources = {path.stem: path for path in sorted((root / "solutions").glob("[0-9][0-9]_*.py"))}
    for name in lessons:
        if name not in sources:
            raise SolvedError(f"no lesson is called {name}; there are {', '.join(sources)}")
    written = []
    for name in lessons or sources:
        lesson = load_lesson(sources[name])
        for language in LANGUAGES:
            notebook = solved_notebook(lesson, language)
            try:
                run(notebook)
            except CellExecutionError as problem:
                raise SolvedError(f"{name} ({language}) stops with {problem.ename}: {problem.evalue}") from None
            except CellTimeoutError:
                raise SolvedError(
                    f"{name} ({language}): a cell took over {CELL_SECONDS} s; try on a quieter machine"
                ) from None
            path = out / language / f"{name}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, path)
            written.append(path)
            tell(path)
    return written
