"""Every lesson: in step with its source, valid, without solutions; runs solved with full marks, and blank to its end."""

import re
from pathlib import Path

import nbformat
import pytest

import autograder
from autograder.check import WITH_WRITTEN
from autograder.pipeline.authoring import build, load_lesson, solved_notebook
from autograder.pipeline.grading import grade
from autograder.pipeline.solved import run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
LESSONS = [path.stem for path in SOURCES]
LANGUAGES = ("en", "zh-TW")


def released(lesson: str, language: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "lessons" / language / f"{lesson}.ipynb", as_version=4)


def executed(notebook: nbformat.NotebookNode, kernel: str = "python3", folder: Path = ROOT) -> nbformat.NotebookNode:
    """The notebook, run in `folder`."""
    notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel}
    run(notebook, kernel, folder)
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


def passes(notebook: nbformat.NotebookNode) -> None:
    for name, text in checks(notebook).items():
        assert "✓" in text.splitlines()[0], f"{name}: {text}"
    assert complaints(notebook) == []


def is_blank(notebook: nbformat.NotebookNode, not_started: str) -> None:
    assert all(not_started in text for text in checks(notebook).values())
    assert complaints(notebook) == []


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


HEADINGS = {
    "en": r"Exercise `{name}`.* · difficulty {difficulty} of 5 · \d+ minutes · {points} points?\n",
    "zh-TW": r"練習 `{name}`.* · 難度 {difficulty}／5 · \d+ 分鐘 · 滿分 {points} 分\n",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lesson", LESSONS)
def test_each_exercise_stands_under_its_difficulty_minutes_and_points(lesson, language):
    text = "\n".join(c.source for c in released(lesson, language).cells if c.cell_type == "markdown") + "\n"
    for exercise in map(autograder.get, autograder.names(lesson)):
        if exercise.driver != "letter":
            heading = HEADINGS[language].format(
                name=exercise.name, difficulty=exercise.difficulty, points=exercise.points
            )
            assert re.search(heading, text), f"no heading like: {heading}"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lesson", LESSONS)
def test_sections_are_numbered_and_the_first_cell_lists_what_is_asked(lesson, language):
    title, *others = [
        c.source
        for c in released(lesson, language).cells
        if c.cell_type == "markdown" and c.id not in ("badge", "hand-in")
    ]
    numbers = [int(n or 0) for n in re.findall(r"(?m)^## (?:(\d+)\. )?", "\n".join(others))]
    assert numbers == list(range(1, len(numbers) + 1))
    rows = re.findall(r"(?m)^\| .*?`(\w+)` \| (\d?) ?\| (\d+) \| (\d+) \|$", title)
    asked = re.findall(r"(?m)^##.*`(\w+)`.* · .*$", "\n".join(others))
    assert [name for name, *_ in rows] == asked
    assert [name for name in asked if not re.fullmatch(r"\d\d_w\d", name)] == autograder.names(lesson)
    for name, difficulty, minutes, points in rows:
        heading = next(h for h in re.findall(r"(?m)^##.*$", "\n".join(others)) if f"`{name}`" in h)
        for number, word in ((difficulty, DIFFICULTY), (minutes, MINUTES), (points, WORTH)):
            assert not number or re.search(word[language].format(number), heading), (heading, number)
    minutes = sum(int(minutes) for _, _, minutes, _ in rows)
    stated = int(re.search(SPENT[language], title)[1])
    assert abs(stated - minutes) <= 3, f"{minutes} minutes are listed, {stated} are stated"


DIFFICULTY = {"en": r"difficulty {} of 5", "zh-TW": r"難度 {}／5"}
MINUTES = {"en": r"\b{} minutes?\b", "zh-TW": r"· {} 分鐘"}
WORTH = {"en": r"\b{} points?\b", "zh-TW": r"滿分 {} 分"}
SPENT = {"en": r"(\d+) (?:minutes of them )?for the exercises", "zh-TW": r"練習(?:、?和?(?:選擇題|問答題))* (\d+) 分鐘"}


def test_progress_knows_which_lessons_ask_for_words():
    asking = [name for name in LESSONS if any(cell.id.startswith("written-") for cell in released(name, "en").cells)]
    assert asking == list(WITH_WRITTEN)


MOST = {"en": 100, "zh-TW": 180}  # words, characters


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lesson", LESSONS)
def test_no_walls_of_text(lesson, language):
    for cell in released(lesson, language).cells:
        if cell.cell_type == "markdown":
            for paragraph in paragraphs(cell.source):
                assert length(paragraph, language) <= MOST[language], paragraph


def paragraphs(markdown):
    """Paragraphs and single items of lists; tables, code and formulas that stand alone are none."""
    markdown = re.sub(r"```.*?```|\$\$.*?\$\$", "", markdown, flags=re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", markdown):
        if not block.lstrip().startswith(("|", "#", "<")):
            yield block


def length(paragraph, language):
    prose = re.sub(r"\$[^$]*\$|`[^`]*`|\([^)]*://[^)]*\)", " x ", paragraph)
    return len(prose.split()) if language == "en" else len(re.sub(r"\s", "", prose))


@pytest.mark.slow
def test_solved_lessons_get_full_marks_by_the_real_way_and_blank_ones_none(tmp_path):
    """Collected, run behind the wall, judged and entered in the books, in both languages."""
    pile = tmp_path / "pile"
    pile.mkdir()
    for lesson, source in zip(LESSONS, SOURCES):
        for language, student, notebook in (
            ("zh-TW", "full", solved_notebook(load_lesson(source), "zh-TW")),
            ("en", "none", released(lesson, "en")),
        ):
            setup = next(cell for cell in notebook.cells if cell.id == "setup")
            setup.source = re.sub(r'STUDENT_ID = ""', f'STUDENT_ID = "{student}"', setup.source)
            nbformat.write(notebook, pile / f"{student}-{lesson}-{language}.ipynb")
    records = {(record.student_id, record.lesson): record for record in grade(pile, tmp_path / "out")}
    assert len(records) == 2 * len(LESSONS)
    for lesson in LESSONS:
        for grade_ in records["full", lesson].grades:
            if grade_.name in autograder.names(lesson):  # a written answer has no solution to hand in
                assert grade_.points == grade_.max_points, (lesson, grade_.name, grade_.message)
        assert {g.points for g in records["none", lesson].grades} <= {0, None}, lesson
        assert {g.name for g in records["full", lesson].grades} >= set(autograder.names(lesson))


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_solved_it_runs_with_full_marks_and_without_a_warning(lesson):
    notebook = executed(solved_notebook(load_lesson(ROOT / "solutions" / f"{lesson}.py"), "en"))
    passes(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_blank_it_runs_to_its_end(lesson):
    notebook = executed(released(lesson, "zh-TW"))
    is_blank(notebook, "尚未作答")
