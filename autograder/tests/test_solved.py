"""Solved notebooks for instructors: executed, in both languages, and nowhere near the released ones."""

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from autograder.pipeline import solved
from autograder.pipeline.solved import SolvedError, write_solved
from autograder.tests.test_lessons import ROOT


def test_an_unknown_lesson_is_refused(tmp_path):
    with pytest.raises(SolvedError, match="no lesson is called 99_nothing; there are 00_two_facts, "):
        write_solved(ROOT, tmp_path, ["99_nothing"])


@pytest.mark.slow
def test_solved_notebooks_hold_solutions_and_outputs(tmp_path):
    told = []
    written = write_solved(ROOT, tmp_path, ["02_qkv"], told.append)
    assert told == written == [tmp_path / "en" / "02_qkv.ipynb", tmp_path / "zh-TW" / "02_qkv.ipynb"]
    for path, words in zip(written, (": 2 / 2 points", "：2 / 2 分")):
        cells = {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
        assert "NotImplementedError" not in cells["answer-attend"].source
        assert cells["check-attend"].outputs[0].text.startswith("✓ attend" + words)


def test_a_cell_that_stops_and_one_that_hangs_are_told_in_one_line(tmp_path, monkeypatch):
    def broken(*_):
        raise CellExecutionError("traceback", "ValueError", "no")

    def hung(*_):
        raise CellTimeoutError

    monkeypatch.setattr(solved, "run", broken)
    with pytest.raises(SolvedError, match=r"02_qkv \(en\) stops with ValueError: no"):
        write_solved(ROOT, tmp_path, ["02_qkv"])
    monkeypatch.setattr(solved, "run", hung)
    with pytest.raises(SolvedError, match=r"02_qkv \(en\): a cell took over \d+ s"):
        write_solved(ROOT, tmp_path, ["02_qkv"])


@pytest.mark.slow
def test_a_lost_reply_costs_another_run(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    cell = (
        "import time, pathlib\n"
        f"runs = pathlib.Path({str(runs)!r})\n"
        "runs.write_text(runs.read_text() + 'x' if runs.exists() else 'x')\n"
        "time.sleep(30 if runs.read_text() == 'x' else 0)\n"
        "print('done')"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    monkeypatch.setattr(solved, "CELL_SECONDS", 8)
    solved.run(notebook)
    assert runs.read_text() == "xx" and notebook.cells[0].outputs[0].text == "done\n"
