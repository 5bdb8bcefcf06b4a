"""Solved notebooks for instructors: executed, in both languages, and nowhere near the released ones."""

import nbformat
import pytest

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
    for path, words in zip(written, ("points", "分")):
        cells = {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
        assert "NotImplementedError" not in cells["answer-attend"].source
        assert cells["check-attend"].outputs[0].text.startswith("✓ attend: 2 / 2 " + words)
