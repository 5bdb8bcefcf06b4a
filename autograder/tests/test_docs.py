"""Links inside the repository lead somewhere, the guide says what the program does, and examples in the code are true."""

import doctest
import gzip
import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import textwrap
import unicodedata
import zipfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

import autograder
from autograder.pipeline.grading import grade
from autograder.pipeline.report import dictionary
from autograder.text import LANGUAGES

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = ("docs", "lessons", "benchmarks")
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]
    if path.suffix in (".md", ".ipynb") and ".ipynb_checkpoints" not in path.parts
)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]+)\"")


MODULES = [m.name for m in pkgutil.walk_packages(autograder.__path__, "autograder.") if ".tests" not in m.name]
NOT_IMPORTED = ("autograder.__main__", "autograder.pipeline.inside")  # a program; half of the sandbox


def test_examples_in_docstrings() -> None:
    tried = 0
    for name in sorted(set(MODULES) - set(NOT_IMPORTED)):
        module = importlib.import_module(name)
        result = doctest.testmod(module, extraglobs={"torch": importlib.import_module("torch")})
        assert result.failed == 0, name
        tried += result.attempted
    assert tried > 8


@cache
def text_of(page: Path) -> str:
    """The Markdown of a page, without its code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^ *(```+|~~~+).*?^ *\1|(`+)(?!`).+?(?<!`)\2(?!`)", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that readers of Markdown give to headings: lower case, words joined by hyphens."""
    text = (ROOT / page).read_text(encoding="utf-8") if page.suffix == ".md" else text_of(page)
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        kept = (c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LNM")
        found.add("".join(kept).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in {first or second for first, second in LINK.findall(text_of(page))}:
        if re.match(r"[a-z]+:", link):
            continue  # on another server, or mail
        path, _, anchor = unquote(link).partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.resolve().exists() or (anchor and anchor not in anchors(target.resolve().relative_to(ROOT))):
            dead.append(link)
    assert dead == []


def test_both_languages_have_the_same_guides() -> None:
    english, chinese = (sorted(p.name for p in (ROOT / "docs" / language).glob("*.md")) for language in ("en", "zh-TW"))
    assert english == chinese


# ------------------------------------------------------------------------------------------------- the guide and the program


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_guide_explains_every_heading_of_what_needs_a_look(language: str) -> None:
    """In the words of the class page, so that whoever searches for them finds them; and no heading that there is not."""
    guide = (ROOT / "docs" / language / "instructor.md").read_text(encoding="utf-8")
    table = re.search(r"\n\| (?:heading|標題) \|.*?\n\n", guide, re.DOTALL)
    assert table is not None
    explained = [line.split("|")[1].strip() for line in table[0].strip().splitlines()[2:]]
    headings = [text[language] for key, text in dictionary().items() if key.startswith("look ")]
    assert len(headings) > 12 and sorted(explained) == sorted(headings)


def recipe(language: str) -> str:
    """The commands of the guide that delete a student."""
    guide = (ROOT / "docs" / language / "instructor.md").read_text(encoding="utf-8")
    part = re.split(r"\n## .*個資法.*\n", guide)[1]
    (block,) = re.findall(r"^ *```sh\n(.*?)^ *```", part, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(block)


def test_both_guides_delete_a_student_in_the_same_way() -> None:
    assert recipe("en") == recipe("zh-TW")
    for language in LANGUAGES:  # it stands in one place; the other leads there
        security = (ROOT / "docs" / language / "security.md").read_text(encoding="utf-8")
        assert "student remove" not in security and "instructor.md#" in security


LESSON_FILES = {"02_qkv": "12345", "03_sqrt_dk": "22345"}  # and what Moodle's numbers of the assignment begin with
CLASS = {"08": ("蔡佩珊", "B12901008"), "01": ("王小明", "B12901001")}


@pytest.mark.parametrize("given", ["ID=", "Id=ann"])
def test_without_an_id_the_recipe_deletes_nothing(tmp_path: Path, given: str) -> None:
    for student in ("ann", "eve"):
        (tmp_path / "grades/records" / student).mkdir(parents=True)
    (tmp_path / "grades/nbgrader").mkdir()
    nbgrader = tmp_path / ".venv/bin/nbgrader"
    nbgrader.parent.mkdir(parents=True)
    nbgrader.write_text("#!/bin/sh\ntouch ../called\n")
    nbgrader.chmod(0o755)
    commands = recipe("en").replace("ID=1234508", given)
    done = subprocess.run(
        ["bash", "-c", commands], cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert "ID: " in done.stderr and not (tmp_path / "grades/called").exists()
    assert sorted(path.name for path in (tmp_path / "grades/records").iterdir()) == ["ann", "eve"]


def test_who_follows_the_guide_finds_nothing_of_a_deleted_student(tmp_path: Path) -> None:
    """Two lessons from Moodle, where a student has another id in each; below the folder of grades neither id, number nor name."""
    out, piles = tmp_path / "grades", tmp_path / "piles"
    for lesson, number in LESSON_FILES.items():
        rows = ["Identifier,Full name,ID number,Status,Grade,Maximum Grade,Feedback comments"]
        for end, (name, student) in CLASS.items():
            rows.append(f"Participant {number}{end},{name},{student},Submitted,,13,")
            notebook = nbformat.reads((ROOT / f"lessons/en/{lesson}.ipynb").read_text(encoding="utf-8"), as_version=4)
            for cell in notebook.cells:
                cell.source = cell.source.replace('STUDENT_ID = "', f'STUDENT_ID = "{student}')
            folder = piles / lesson / f"{name}_{number}{end}_assignsubmission_file_"
            folder.mkdir(parents=True)
            nbformat.write(notebook, folder / f"{lesson}.ipynb")
        (tmp_path / f"{lesson}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        grade(piles / lesson, out, rosters=[tmp_path / f"{lesson}.csv"], workers=1)
    hers = ["蔡佩珊", "B12901008", "1234508", "2234508"]
    assert all(where_it_stands(out, word) for word in hers)
    for language in LANGUAGES:
        guide = (ROOT / "docs" / language / "instructor.md").read_text(encoding="utf-8").split("個資法")[1]
        for path in {w.relative_to(out).parts[0] for word in hers for w in where_it_stands(out, word)}:
            name = "roster*.csv" if path.startswith("roster") else path + "/" * (out / path).is_dir()
            assert f"`{name}`" in guide, f"the list of where data lie misses {name}"

    for roster in out.glob("roster*.csv"):
        lines = roster.read_text(encoding="utf-8").splitlines(keepends=True)
        roster.write_text("".join(line for line in lines if "蔡佩珊" not in line), encoding="utf-8")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for number in LESSON_FILES.values():
        commands = recipe("en").replace("ID=1234508", f"ID={number}08")
        subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True)
    for lesson in LESSON_FILES:
        shutil.rmtree(next((piles / lesson).glob("蔡佩珊_*")))
        grade(piles / lesson, out, workers=1)
    assert {word: where_it_stands(out, word) for word in hers} == {word: [] for word in hers}
    assert len(where_it_stands(out, "王小明")) > 8, "the others' are all there"


def where_it_stands(folder: Path, word: str) -> list[Path]:
    """Files whose path or content holds a word, also packed."""
    found = []
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                data = b"\n".join(name.encode() + archive.read(name) for name in archive.namelist())
        spelled = [word.encode(), json.dumps(word).strip('"').encode()]
        if word in path.relative_to(folder).as_posix() or any(spelling in data for spelling in spelled):
            found.append(path)
    return found
