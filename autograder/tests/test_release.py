"""The student repository holds what students need and nothing that they should not have."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires

import nbformat
import pytest
from packaging.requirements import Requirement

from autograder.pipeline.release import ReleaseError, release
from autograder.pipeline.releases import load_releases
from autograder.tests.test_lessons import LANGUAGES, LESSONS, ROOT, SOURCES


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student") / "repository"
    release(ROOT, folder)
    return folder


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_paths(student):
    there = files(student)
    for lesson in LESSONS:
        for language in LANGUAGES:
            assert f"lessons/{language}/{lesson}.ipynb" in there
    assert {"README.md", "README.zh-TW.md", "LICENSE", "pyproject.toml", "autograder/check.py"} <= there
    assert {".gitignore", "constraints.txt"} <= there
    assert {"course_lib/attention.py", "autograder/exercises/l02_qkv.py"} <= there
    for path in there:
        parts = set(path.split("/"))
        assert not parts & {"solutions", "pipeline", "tests", "right_answers", "benchmarks", "__pycache__", "docs"}, (
            path
        )


def test_no_solution_is_in_it(student):
    """No body of a solution; one line alone may well stand in a demonstration too."""
    sources = [
        cell.source
        for path in (student / "lessons").rglob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    ]
    released = "\n".join(map(bare, sources))
    assert "SOLUTION" not in released
    for source in SOURCES:
        blocks = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source.read_text(encoding="utf-8"), re.S)
        assert blocks, source
        for block in map(bare, blocks):
            assert block.count("\n") < 1 or block not in released, (source.name, block)


def bare(code):
    return "\n".join(line.strip() for line in code.splitlines() if line.strip() and not line.strip().startswith("#"))


def test_its_pyproject_builds_the_student_package_only(student):
    settings = tomllib.loads((student / "pyproject.toml").read_text(encoding="utf-8"))
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["name"] == ours["project"]["name"]
    assert settings["project"]["dependencies"] == ours["project"]["dependencies"]
    assert "optional-dependencies" not in settings["project"]
    assert set(settings["tool"]) == {"setuptools", "course"}


def test_checks_work_there_without_the_pipeline(student):
    code = (
        "import autograder, course_lib\n"
        "autograder.start('02_qkv', 'zh-TW')\n"
        "autograder.check('relevance', lambda q, K: q @ K)\n"
        "print(autograder.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=student, capture_output=True, text=True)
    assert done.stdout.startswith("✗ relevance"), done.stderr
    assert done.stdout.strip().splitlines()[-1] == str(student / "autograder" / "__init__.py")


def test_every_module_imports_only_what_is_there(student):
    for path in [*student.glob("autograder/**/*.py"), *student.glob("course_lib/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.split(".")[0] in ("autograder", "course_lib")
            ):
                target = student / node.module.replace(".", "/")
                assert target.is_dir() or target.with_suffix(".py").exists(), (path, node.module)


def test_a_second_release_replaces_the_first_and_nothing_else(student):
    (student / ".git").mkdir()
    (student / ".git" / "HEAD").write_text("ref")
    (student / "lessons" / "en" / "99_gone.ipynb").write_text("{}")
    before = files(student) - {"lessons/en/99_gone.ipynb"}
    release(ROOT, student)
    assert files(student) == before


def test_grades_among_the_lessons_are_not_released(tmp_path):
    """As they once could come there: by OUT=lessons, or OUT=lessons/week2."""
    course, out = tmp_path / "course", tmp_path / "student"
    for name in ("lessons", "course_lib", "autograder"):
        shutil.copytree(ROOT / name, course / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "LICENSE-CONTENT", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, course / name)
    release(course, out)
    before = files(out)
    names = [".gitignore", "secret", "gradebook.db", "class.html", "nbgrader/submitted/ann/02_qkv/02_qkv.ipynb"]
    for folder in ("lessons", "lessons/week2", "lessons/en", "course_lib/week2"):
        for name in names:
            (course / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (course / folder / name).write_text("*\n")
    release(course, out)
    assert files(out) == before


@pytest.mark.parametrize("where", [".", "..", "lessons", "autograder/pipeline"])
def test_the_course_itself_is_never_written_over(where):
    before = files(ROOT / "solutions")
    with pytest.raises(ReleaseError, match="belongs to the course itself"):
        release(ROOT, ROOT / where)
    assert files(ROOT / "solutions") == before


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReleaseError, match="is a file"):
        release(ROOT, tmp_path / "file")


@pytest.mark.parametrize("foreign", [["thesis.tex"], ["README.md"], ["pyproject.toml", "autograder/pipeline/cli.py"]])
def test_a_folder_that_holds_something_else_is_left_alone(tmp_path, foreign):
    """Another project, one with its own README alone, and a clone of the whole course, whose grading would be lost."""
    for name in foreign:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("[tool.course]\n" if name == "pyproject.toml" else "mine")
    with pytest.raises(ReleaseError, match=r"holds something else \((thesis|README|autograder)"):
        release(ROOT, tmp_path)
    assert files(tmp_path) == set(foreign)


def test_a_new_repository_takes_a_release(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitattributes").write_text("")
    assert len(release(ROOT, tmp_path)) > 50 and (tmp_path / ".gitattributes").exists()


def test_rows_of_the_readme(student):
    for language, name in zip(LANGUAGES, ("README.md", "README.zh-TW.md")):
        text = (student / name).read_text(encoding="utf-8")
        rows = [line for line in text.splitlines() if line.startswith("| 0") or line.startswith("| 1")]
        assert len(rows) == len(LESSONS)
        for lesson, row in zip(LESSONS, rows):
            assert row.startswith(f"| {lesson[:2]} · ") and f"/lessons/{language}/{lesson}.ipynb" in row


def test_the_readme_says_how_to_install(student):
    pinned = (student / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for name in ("README.md", "README.zh-TW.md"):
        text = (student / name).read_text(encoding="utf-8")
        (version,) = re.findall(r"`pip install torch==(\S+) --index-url https://download.pytorch.org/whl/cpu`", text)
        assert f"torch=={version}" in pinned, "another one would be replaced by the next line"
        assert "pip install -c constraints.txt -e . jupyterlab\n" in text and ".venv\\Scripts\\activate\n" in text


# What torch 2.13 asks for where it is built with CUDA, as most get it; a build for the CPU does not say.
WITH_CUDA = ["triton==3.7.1"]


def test_the_pins_are_such_that_torch_can_be_installed_with_them():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and line[0] != "#")
    asked = [Requirement(text) for text in [*(requires("torch") or ()), *WITH_CUDA]]
    asked = [
        each for each in asked if each.name in pins and (each.marker is None or each.marker.evaluate({"extra": ""}))
    ]
    assert pins["torch"].startswith("2.13.") and len(asked) > 3
    assert [str(each) for each in asked if not each.specifier.contains(pins[each.name])] == []


def test_what_students_make_there_is_not_committed(student):
    ignored = (student / ".gitignore").read_text(encoding="utf-8").split()
    assert {".venv/", "__pycache__/", ".ipynb_checkpoints/"} <= set(ignored)


def test_one_version_everywhere():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = settings["project"]["version"]
    assert settings["tool"]["course"]["release"] == f"v{version}"
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)[1] == version
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[1] == version
    assert list(load_releases())[-1] == f"v{version}"
