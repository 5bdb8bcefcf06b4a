"""Every lesson: in step with its source, valid, without solutions; runs solved with full marks, and blank to its end."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import autograder
from autograder.pipeline.authoring import build, load_lesson, solved_notebook

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
LESSONS = [path.stem for path in SOURCES]
LANGUAGES = ("en", "zh-TW")


def released(lesson: str, language: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "lessons" / language / f"{lesson}.ipynb", as_version=4)


def executed(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def complaints(notebook: nbformat.NotebookNode) -> list[str]:
    """Whatever a cell wrote to stderr: warnings, mostly."""
    return [
        f"{cell.id}: {output.text}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]


def checks(notebook: nbformat.NotebookNode) -> dict[str, str]:
    return {c.id.removeprefix("check-"): printed(c) for c in notebook.cells if c.id.startswith("check-")}


def test_building_again_changes_nothing(tmp_path):
    (tmp_path / "solutions").symlink_to(ROOT / "solutions")
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    built = build(tmp_path)
    assert len(built) == len(SOURCES) * len(LANGUAGES)
    for path in built:
        committed = ROOT / path.relative_to(tmp_path)
        assert committed.read_bytes() == path.read_bytes(), f"{committed} is not what `make build` writes"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lesson", LESSONS)
def test_released_notebooks_are_valid_and_keep_the_secret(lesson, language):
    notebook = released(lesson, language)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    text = nbformat.writes(notebook)
    assert "SOLUTION" not in text
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
    exercises = [name for name in autograder.names(lesson)]
    assert sorted(checks(notebook)) == sorted(exercises)


@pytest.mark.parametrize("lesson", LESSONS)
def test_both_languages_hold_the_same_code(lesson):
    english, chinese = (
        [c.source for c in released(lesson, language).cells if c.cell_type == "code" and c.id != "setup"]
        for language in LANGUAGES
    )
    assert english == chinese


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_solved_it_runs_with_full_marks_and_without_a_warning(lesson):
    notebook = executed(solved_notebook(load_lesson(ROOT / "solutions" / f"{lesson}.py"), "en"))
    for name, text in checks(notebook).items():
        assert text.startswith("✓") or "✓" in text.splitlines()[0], f"{name}: {text}"
    assert complaints(notebook) == []


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_blank_it_runs_to_its_end(lesson):
    notebook = executed(released(lesson, "zh-TW"))
    assert all("尚未作答" in text for text in checks(notebook).values())
    assert complaints(notebook) == []
