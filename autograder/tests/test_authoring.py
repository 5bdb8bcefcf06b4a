"""The builder: refusals with file and line, released notebooks in both languages, the glossary's rule."""

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum
from nbgrader.validator import Validator

from autograder.pipeline import authoring
from autograder.pipeline.authoring import AuthoringError, build, load_lesson, solved_notebook, source_notebook
from autograder.pipeline.glossary import Term, findings, prose, terms
from autograder.pipeline.nbgrader_config import course_config, create_gradebook

PYPROJECT = '[tool.course]\nrepository = "https://github.com/example/course"\nrelease = "v9"\n'
POINTS = {"double": 3.0, "Halver": 1.5, "02_q1": 1.0, "03_q1": 1.0, "triple": 2.0}

LESSON = '''\
# A comment before the first cell is no cell.

# %% [markdown] lang="en"
# # 02 · Doubling
#
# What is $2x$?
# %% [markdown] lang="zh-TW"
# # 02 · 加倍
#
# $2x$ 是多少？

# %% tags=["setup"]
import math
# %%
print(math.pi)
# %% [markdown] lang="en"
# Write `double`.
# %% [markdown] lang="zh-TW"
# 寫出 `double`。

# %% exercise="double"
def double(x):
    """Twice x.

    # %% this is no cell
    """
    ### BEGIN SOLUTION
    secret = 2 * x
    return secret
    ### END SOLUTION


# %%
check("double", double)
# %% exercise="Halver"
class Halver:
    def __call__(self, x):
        ### BEGIN SOLUTION
        return x / 2  # secret
        ### END SOLUTION

# %%
check("Halver", Halver)
# %% tags=["experiment"]
# %matplotlib inline
print("secret only in name")
# %% question="02_q1"
answer_02_q1 = ""
### BEGIN SOLUTION
answer_02_q1 = "b"
### END SOLUTION
# %%
check("02_q1", answer_02_q1)
# %% [markdown] lang="en" written="02_w1" points=2
# *Write your answer here.*
# %% [markdown] lang="zh-TW" written="02_w1" points=2
# *請在此作答。*
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "solutions").mkdir()
    return tmp_path


def write(root: Path, text: str = LESSON, name: str = "02_toy") -> Path:
    path = root / "solutions" / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return path


def load(root: Path, text: str = LESSON, name: str = "02_toy") -> authoring.Lesson:
    return load_lesson(write(root, text, name), POINTS.__getitem__)


def refusals(root: Path, text: str) -> list[str]:
    with pytest.raises(AuthoringError) as caught:
        load(root, text)
    assert str(caught.value) == "\n".join(caught.value.refusals)
    return caught.value.refusals


# What is changed in the lesson (old, new), the text whose line is blamed (in the changed lesson), what is said.
REFUSALS = {
    "no zh-TW twin": (
        '# %% [markdown] lang="zh-TW"\n# 寫出 `double`。\n',
        "",
        "# Write `double`.",
        "English cell without its zh-TW twin",
    ),
    "no English twin": (
        '# %% [markdown] lang="en"\n# Write `double`.\n',
        "",
        "# 寫出 `double`。",
        "zh-TW cell without its English twin",
    ),
    "wrong order": (
        'lang="en"\n# Write `double`.\n# %% [markdown] lang="zh-TW"\n# 寫出 `double`。\n',
        'lang="zh-TW"\n# 寫出 `double`。\n# %% [markdown] lang="en"\n# Write `double`.\n',
        "# 寫出 `double`。",
        "twins in the wrong order",
    ),
    "twins with other points": (
        'lang="zh-TW" written="02_w1" points=2',
        'lang="zh-TW" written="02_w1" points=3',
        "# *請在此作答。*",
        "twins that differ",
    ),
    "no check": (
        '# %%\ncheck("double", double)\n',
        "",
        "def double(x):",
        'exercise "double" has no check right under it',
    ),
    "check further down": (
        '# %%\ncheck("double", double)\n',
        '# %%\nprint(1)\n# %%\ncheck("double", double)\n',
        "def double(x):",
        'exercise "double" has no check right under it',
    ),
    "check as a comment": ('\ncheck("double"', '\n# check("double"', "def double(x):", "has no check right under it"),
    "check of another exercise": ('check("double",', 'check("triple",', 'check("triple", double)', "stands under"),
    "check of another object": (", double)", ", math)", 'check("double", math)', "does not define"),
    "check under no exercise": (
        "# %%\nprint(math.pi)",
        '# %%\ncheck("double", double)',
        'check("double", double)',
        "is not under an exercise",
    ),
    "unknown exercise": ('"Halver"', '"unheard_of"', "class Halver:", 'unknown exercise "unheard_of"'),
    "exercise used twice": (
        "# %% question=",
        '# %% exercise="double"\ndouble = 0\n### BEGIN SOLUTION\ndouble = 1\n### END SOLUTION\n'
        '# %%\ncheck("double", double)\n# %% question=',
        "double = 0",
        '"double" is used twice, first in line 22',
    ),
    "no markers": (
        '### BEGIN SOLUTION\nanswer_02_q1 = "b"\n### END SOLUTION\n',
        "",
        'answer_02_q1 = ""',
        "an exercise without solution",
    ),
    "no begin": (
        "    ### BEGIN SOLUTION\n    secret",
        "    secret",
        "    ### END SOLUTION",
        "without ### BEGIN SOLUTION",
    ),
    "no end": (
        "    return secret\n    ### END SOLUTION\n",
        "    return secret\n",
        "    ### BEGIN SOLUTION",
        "without ### END SOLUTION",
    ),
    "nested": (
        "    return secret\n",
        "    ### BEGIN SOLUTION\n    return secret  # nested\n",
        "    ### BEGIN SOLUTION\n    return secret  # nested",
        "begins inside a solution",
    ),
    "marker behind code": (
        "    secret = 2 * x",
        "    secret = 2 * x  ### END SOLUTION",
        "    secret = 2 * x",
        "not a line of its own",
    ),
    "marker in a demonstration": (
        "print(math.pi)",
        "### BEGIN SOLUTION\nprint(math.pi)",
        "### BEGIN SOLUTION\nprint",
        "solution marker outside an exercise cell",
    ),
    "marker in a text": (
        "# Write `double`.",
        "# Write `double`.\n# ### END SOLUTION",
        "# ### END SOLUTION",
        "solution marker outside an exercise cell",
    ),
    "signature in the solution": (
        "class Halver:\n    def __call__(self, x):\n        ### BEGIN SOLUTION\n",
        "### BEGIN SOLUTION\nclass Halver:\n    def __call__(self, x):\n",
        "### BEGIN SOLUTION\nclass",
        "no longer defines Halver",
    ),
    "solution that leaves a stump": (
        "    secret = 2 * x\n    return secret\n    ### END SOLUTION\n",
        "    if x:\n        pass\n    ### END SOLUTION\n    else:\n        pass\n",
        "def double(x):",
        "without its solution the cell is no valid Python",
    ),
    "question with more than its placeholder": (
        '\nanswer_02_q1 = ""',
        '\nanswer_02_q1 = "b"',
        'answer_02_q1 = "b"\n### BEGIN',
        "more than the placeholder",
    ),
    "no language": (
        '# %% [markdown] lang="en"\n# Write',
        "# %% [markdown]\n# Write",
        "# %% [markdown]\n",
        "a text cell without language",
    ),
    "other language": ('lang="zh-TW"\n# 寫', 'lang="zh-CN"\n# 寫', '# %% [markdown] lang="zh-CN"', "without language"),
    "empty text": ('lang="en"\n# Write `double`.\n', 'lang="en"\n', '# %% [markdown] lang="en"\n# %%', "empty text"),
    "code with language": ("# %%\nprint(", '# %% lang="en"\nprint(', '# %% lang="en"\nprint(', "cannot carry lang"),
    "unknown attribute": (
        "# %%\nprint(",
        '# %% colour="red"\nprint(',
        '# %% colour="red"',
        "unknown cell attribute colour",
    ),
    "attribute without quotes": (
        'lang="en"\n# Write',
        "lang=en\n# Write",
        "# %% [markdown] lang=en",
        "unknown cell attribute",
    ),
    "unknown tag": ('["experiment"]', '["experience"]', '# %% tags=["experience"]', "unknown tags ['experience']"),
    "written without points": (
        'written="02_w1" points=2',
        'written="02_w1"',
        '# %% [markdown] lang="en" written="02_w1"',
        "cannot carry written",
    ),
    "written for nothing": ("points=2", "points=0", '# %% [markdown] lang="en" written', "number of points above 0"),
    "forbidden term": ("# 寫出", "# 一行\n# 矢量寫出", "# 矢量寫出", "the glossary refuses 矢量; write 向量 (vector)"),
    "simplified letter": ("寫出", "写出", "# 写出", "写 is not a Traditional Chinese letter"),
    "half-width punctuation": (
        "寫出",
        "寫出,再寫出",
        "# 寫出,再寫出",
        "half-width ',' after a Chinese letter; write ，",
    ),
    "no title": ("# # 02 · Doubling", "# Doubling", "# Doubling", "no title"),
    "syntax error": ("print(math.pi)", "x = 1\nprint(math.pi", "print(math.pi\n", "syntax error"),
    "code before the first cell": (
        "# A comment",
        "import os\n# A comment",
        "import os",
        "code before the first cell marker",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_names_file_line_reason_and_remedy(case: str, root: Path) -> None:
    old, new, blamed, reason = REFUSALS[case]
    assert old in LESSON
    both = case in ("unknown exercise", "written without points", "written for nothing")
    text = LESSON.replace(old, new, -1 if both else 1)
    line = text[: text.index(blamed)].count("\n") + 1
    lines = refusals(root, text)
    assert lines[0].startswith(f"solutions/02_toy.py:{line}: "), lines
    assert reason in lines[0]
    assert "; " in lines[0]
    assert "\n" not in lines[0]
    # Points are wrong in both twins, and a check that moved away is missing here and stray there.
    assert len(lines) == (2 if case.startswith("written") or case == "check further down" else 1), lines


def test_all_refusals_come_at_once_and_nothing_is_written(root: Path) -> None:
    write(root, LESSON.replace("寫出", "矢量,写"))
    write(root, LESSON.replace("print(math.pi)", "print(").replace("02_", "03_"), "03_toy")
    with pytest.raises(AuthoringError) as caught:
        build(root, POINTS.__getitem__)
    assert [line.split(":")[0] for line in caught.value.refusals] == ["solutions/02_toy.py"] * 3 + [
        "solutions/03_toy.py"
    ]
    assert not (root / "lessons").exists()
    assert not (root / "build").exists()


def test_exercise_of_another_lesson_is_refused(root: Path) -> None:
    write(root)
    write(root, LESSON.replace("02_", "03_").replace('"Halver"', '"triple"'), "03_toy")
    with pytest.raises(AuthoringError) as caught:
        build(root, POINTS.__getitem__)
    assert caught.value.refusals == [
        'solutions/03_toy.py:22: "double" is used twice, first in solutions/02_toy.py:22; keep one of the two'
    ]


def released(root: Path) -> dict[str, nbformat.NotebookNode]:
    return {
        language: nbformat.read(root / "lessons" / language / "02_toy.ipynb", as_version=4)
        for language in authoring.LANGUAGES
    }


def test_released_notebooks(root: Path) -> None:
    write(root)
    assert build(root, POINTS.__getitem__) == [root / "lessons" / code / "02_toy.ipynb" for code in ("en", "zh-TW")]
    notebooks = released(root)
    for language, notebook in notebooks.items():
        nbformat.validate(notebook)
        MetadataValidator().validate_nb(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert notebook.metadata.course == {"lesson": "02_toy", "language": language, "release": "v9"}
        assert notebook.metadata.kernelspec.name == "python3"
        assert [cell.id for cell in notebook.cells] == [
            *("title", "badge", "setup", "lesson-setup", "c-001", "c-002", "answer-double", "check-double"),
            *(
                "answer-Halver",
                "check-Halver",
                "c-003",
                "answer-02_q1",
                "check-02_q1",
                "written-02_w1",
                "progress",
                "hand-in",
            ),
        ]
        cells = {cell.id: cell for cell in notebook.cells}
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in code)
        text = json.dumps(notebook)
        for solution in ("secret = ", "x / 2", '"b"', "SOLUTION"):
            assert solution not in text
        assert cells["answer-double"].source == (
            'def double(x):\n    """Twice x.\n\n    # %% this is no cell\n    """\n    raise NotImplementedError'
        )
        assert cells["answer-Halver"].source.endswith("def __call__(self, x):\n        raise NotImplementedError")
        assert cells["answer-02_q1"].source == 'answer_02_q1 = ""'
        assert cells["c-003"].source.startswith("%matplotlib inline")
        assert cells["c-003"].metadata.tags == ["experiment"]
        assert cells["lesson-setup"].metadata.tags == cells["setup"].metadata.tags == ["setup"]
        grade = {"schema_version": 3, "task": False}
        answer, check, written = (
            dict(cells[name].metadata.nbgrader) for name in ("answer-double", "check-Halver", "written-02_w1")
        )
        for metadata, name in ((answer, "answer-double"), (check, "check-Halver"), (written, "written-02_w1")):
            assert metadata.pop("checksum") == compute_checksum(cells[name])
            assert metadata.pop("cell_type") == cells[name].cell_type
        assert answer == grade | {"grade_id": "answer-double", "grade": False, "solution": True, "locked": False}
        assert check == grade | {"grade_id": "Halver", "grade": True, "solution": False, "locked": True, "points": 1.5}
        assert written == grade | {"grade_id": "02_w1", "grade": True, "solution": True, "locked": False, "points": 2}
        assert cells["check-double"].metadata.editable is False
    english, chinese = notebooks.values()
    for ours, theirs in zip(english.cells, chinese.cells, strict=True):
        if ours.cell_type == "code" and ours.id != "setup":
            assert ours == theirs
    assert english.cells[0].source.startswith("# 02 · Doubling")
    assert chinese.cells[0].source.startswith("# 02 · 加倍")
    assert chinese.cells[-3].source == "*請在此作答。*"


def test_badge_set_up_and_hand_in(root: Path) -> None:
    lesson = load(root)
    for language, twin in (("en", "zh-TW"), ("zh-TW", "en")):
        cells = {cell.id: cell.source for cell in source_notebook(lesson, language).cells}
        colab = "https://colab.research.google.com/github/example/course/blob/v9/lessons"
        assert f"({colab}/{language}/02_toy.ipynb)" in cells["badge"]
        assert f"({colab}/{twin}/02_toy.ipynb)" in cells["badge"]
        assert f"(../{twin}/02_toy.ipynb)" in cells["badge"]
        assert f'LESSON, LANGUAGE, RELEASE = "02_toy", "{language}", "v9"' in cells["setup"]
        assert '%pip install -q --no-deps "https://github.com/example/course/archive/v9.zip"' in cells["setup"]
        assert "STUDENT_ID" in cells["setup"] and "學號" in cells["setup"]
        assert "STUDENT_NAME" in cells["setup"] and "姓名" in cells["setup"]
        assert authoring._syntax_error(cells["setup"]) is None
        if language == "zh-TW":
            assert not findings(prose(cells["hand-in"]))
    for text in (*authoring._SETUP_TEXT["zh-TW"].values(), authoring._BADGE["zh-TW"]):
        assert not findings(text)


@pytest.mark.parametrize(
    "language, reminder", [("en", "STUDENT_ID is still empty"), ("zh-TW", "學號（STUDENT_ID）還沒填")]
)
@pytest.mark.parametrize("student", ["", "b11123456", 41100003])
def test_an_empty_student_id_is_said_in_one_line(
    root: Path, capsys: pytest.CaptureFixture[str], language: authoring.Language, reminder: str, student: str | int
) -> None:
    """A reminder, no error; a number without quotation marks, as some type it, is an id too."""
    setup = next(cell.source for cell in source_notebook(load(root), language).cells if cell.id == "setup")
    assert setup.count('STUDENT_ID = ""') == 1
    filled = setup.replace('STUDENT_ID = ""', f"STUDENT_ID = {student!r}")
    exec(TransformerManager().transform_cell(filled), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith(reminder) for line in lines] == [False] + [True] * (student == "")


def test_building_again_changes_no_byte_and_no_time(root: Path) -> None:
    write(root)
    first = [(path.read_bytes(), path.stat().st_mtime_ns) for path in build(root, POINTS.__getitem__)]
    stale = root / "lessons" / "en" / "07_gone.ipynb"
    stale.write_text("{}")
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in build(root, POINTS.__getitem__)] == first
    assert not stale.exists()
    assert sorted(path.name for path in root.iterdir()) == ["build", "lessons", "pyproject.toml", "solutions"]


def test_solved_is_the_released_notebook_with_the_answers_in_place(root: Path) -> None:
    write(root)
    build(root, POINTS.__getitem__)
    lesson = load(root)
    for language, notebook in released(root).items():
        solved = solved_notebook(lesson, language)
        nbformat.validate(solved)
        assert solved.metadata == notebook.metadata
        for ours, theirs in zip(solved.cells, notebook.cells, strict=True):
            if ours.id.startswith("answer-"):
                assert ours.source != theirs.source
                assert "SOLUTION" not in ours.source
                ours.source = theirs.source
            assert ours == theirs


def without_setup(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the course's set-up cell replaced by a stand-in for ``check``."""
    stand_in = "def check(name, answer):\n    f = answer() if isinstance(answer, type) else answer\n    f if f == 'b' else f(2)"
    notebook.cells[2] = new_code_cell(stand_in, id="setup")
    return notebook


def test_nbgraders_validator_passes_the_solved_lesson_only(root: Path) -> None:
    write(root)
    build(root, POINTS.__getitem__)
    path = root / "run.ipynb"
    for notebook, verdict in (
        (solved_notebook(load(root), "zh-TW"), "Success! Your notebook passes all the tests."),
        (released(root)["zh-TW"], "VALIDATION FAILED ON 3 CELL(S)"),
    ):
        nbformat.write(without_setup(notebook), path)
        validator = Validator(ignore_checksums=True)
        validator.stream = io.StringIO()
        validator.validate_and_print(str(path))
        assert verdict in validator.stream.getvalue()


def test_gradebook_needs_no_program_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    versions = []
    for name in ("by_nbgrader.db", "ours.db"):
        database = tmp_path / name
        if name == "ours.db":
            create_gradebook(database)
            create_gradebook(database)  # a gradebook that is there is left alone
        Gradebook(course_config(tmp_path, database).CourseDirectory.db_url).close()
        with closing(sqlite3.connect(database)) as connection:
            versions.append(connection.execute("SELECT * FROM alembic_version").fetchall())
    assert versions[0] == versions[1]
    assert len(versions[0]) == 1


EXCEPTIONS = [(term, word) for term in terms() for word in term.exceptions]


def overlapping(form: str, word: str) -> list[str]:
    """Texts in which ``form`` arises only because ``word`` is there, inside it or across one of its ends."""
    cuts = range(1, len(form))
    across = [form[:cut] + word for cut in cuts if word.startswith(form[cut:])]
    across += [word + form[cut:] for cut in cuts if word.endswith(form[:cut])]
    return [word] if form in word else across


@pytest.mark.parametrize(("term", "word"), EXCEPTIONS, ids=[word for _, word in EXCEPTIONS])
def test_glossary_spares_each_exception_only(term: Term, word: str) -> None:
    spared = [(form, text) for form in term.avoid for text in overlapping(form, word)]
    assert spared, "an exception that spares nothing"
    for form, text in spared:
        assert form in text
        assert not term.occurrences(text)
        assert form in [found for _, found in term.occurrences(f"{text}。{form}")]


def test_glossary_reads_the_first_sentence_of_the_note_as_exceptions() -> None:
    rows = {term.english: term for term in terms()}
    assert len(EXCEPTIONS) > 50
    assert rows["glossary"].avoid == rows["glossary"].exceptions == ()
    assert rows["data"].exceptions == ("數據機", "大數據", "數據此", "數據稱")
    assert rows["batch"].exceptions == ("小批量生產",)
    assert rows["normal distribution"].avoid == ("正態分",)
    assert "for 循環" in rows["loop"].avoid


@pytest.mark.parametrize(
    "text", ["優化這段數值。", "台灣與臺灣、裡與里。", "注意力（attention）：看哪裡？", "比例 3:4，v1.2", "啊……"]
)
def test_good_chinese_passes(text: str) -> None:
    assert not findings(text)


@pytest.mark.parametrize(
    ("text", "offset", "what"),
    [
        ("用数學", 1, "数"),
        ("气", 0, "气"),
        ("甲的默認值", 2, "默認"),
        ("甲,乙", 1, "','"),
        ("甲: 乙", 1, "':'"),
        ("**甲**:乙", 5, "':'"),
        ("結束.", 2, "'.'"),
        ("為何?\n乙", 2, "'?'"),
    ],
)
def test_bad_chinese_is_found_where_it_stands(text: str, offset: int, what: str) -> None:
    (finding,) = findings(prose(text))
    assert finding.offset == offset
    assert what in finding.what


def test_code_formulas_and_addresses_are_no_prose() -> None:
    text = "甲 `字符串,默認`、``a ` 默認``、$\\text{默認}$、$$\n默認\n$$\n```python\n默認 # 数\n```\n[連結](默認.md) https://x.org/默認 <img alt='默認'>"
    assert prose(text).count("\n") == text.count("\n")
    assert len(prose(text)) == len(text)
    assert not findings(prose(text))
    assert findings(prose("花了 $5 買，默認是 5 元"))
