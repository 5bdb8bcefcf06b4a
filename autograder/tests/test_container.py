"""What can be said of the Containerfile without building it: it copies what there is, and all that the package needs."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "Containerfile").exists(), reason="the student repository has no Containerfile"
)


def copied() -> set[str]:
    lines = re.findall(r"^COPY (.+) \S+$", (ROOT / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    return {name for line in lines for name in line.split()}


def test_what_it_copies_exists_and_nothing_else_is_in_the_context() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignore
    assert {line[1:] for line in ignore if line.startswith("!")} == copied()
    assert [name for name in copied() if not (ROOT / name).exists()] == []


def test_it_has_what_the_package_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    wanted = {"pyproject.toml", "constraints.txt", project["project"]["readme"], *project["project"]["license-files"]}
    assert wanted | packages <= copied()


def test_its_python_is_the_one_that_the_constraints_were_made_with() -> None:
    base = re.search(r"^FROM python:(\d+\.\d+)-", (ROOT / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    tested = re.search(r"on Python (\d+\.\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert base and tested and base[1] == tested[1]
