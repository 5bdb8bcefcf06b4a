"""The map in course_lib's docstring: what it names is there, and no file is missing from it."""

import pkgutil
import re

import pytest

import course_lib


def read_map():
    table = course_lib.__doc__.partition("::\n\n")[2]
    rows = [re.split(" {2,}", line.strip()) for line in table.splitlines() if line.startswith("    ")]
    return [(module, names.split(", ")) for _, module, names in rows]


MAP = read_map()


@pytest.mark.parametrize("name", [f"course_lib.{module}.{name}" for module, names in MAP for name in names])
def test_what_the_map_names_is_there(name):
    pkgutil.resolve_name(name)


def test_every_file_is_in_the_map():
    found = pkgutil.walk_packages(course_lib.__path__, "course_lib.")
    files = {name.removeprefix("course_lib.") for _, name, is_package in found if not is_package}
    public = {name for name in files if not re.search(r"(^|\.)(tests\.|_)", name)}
    assert public == {module for module, _ in MAP}
