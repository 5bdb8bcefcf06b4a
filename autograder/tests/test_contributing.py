"""The worked example in CONTRIBUTING.md is an exercise like any other: its three pieces go together."""

import re
from pathlib import Path

import pytest

from autograder import exercise as catalogue
from autograder import judge
from autograder.pipeline.authoring import load_lesson

ROOT = Path(__file__).resolve().parents[2]
PIECES = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def example(monkeypatch):
    """The names that the example's exercise and right answers define; the catalogue holds it meanwhile."""
    catalogue.load_all()
    monkeypatch.setattr(catalogue, "_exercises", dict(catalogue._exercises))
    names: dict = {"__name__": "example"}
    exec(PIECES[0], names)
    exec(PIECES[2], names)
    return names


def test_right_answers_get_all_points_and_the_mistake_is_named(example):
    answers = [example["mean_vector"], *example["RIGHT"]["mean_vector"]]
    assert len(answers) == 3
    for seed in range(20):
        assert [judge("mean_vector", answer, seed).points for answer in answers] == [1, 1, 1]
        verdict = judge("mean_vector", lambda x, mask: x.sum(1) / x.shape[1], seed)
        assert (verdict.points, verdict.mistake) == (0, "padding_counted")


def test_the_builder_takes_its_cells(example, tmp_path):
    title = '# %% [markdown] lang="en"\n# # 02 · Title\n# %% [markdown] lang="zh-TW"\n# # 02 · 標題\n'
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    source = tmp_path / "solutions" / "02_qkv.py"
    source.parent.mkdir()
    source.write_text(title + PIECES[1], encoding="utf-8")
    lesson = load_lesson(source)
    solution = next(cell.source for cell in lesson.cells if cell.role == "answer")
    answer: dict = {}
    exec(solution, answer)
    assert judge("mean_vector", answer["mean_vector"]).passed
