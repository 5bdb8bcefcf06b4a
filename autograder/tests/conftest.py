"""The sample class, made and graded once for all tests that look at it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.pipeline.demo import Expected, make_demo
from autograder.pipeline.grading import grade
from autograder.pipeline.records import Grade, Record


@dataclass
class GradedClass:
    """What `grade` made of the sample class, and what it should have made of it."""

    pile: Path
    out: Path
    expected: list[Expected]
    records: list[Record]

    def record(self, row: Expected) -> Record:
        (found,) = [record for record in self.records if record.source == row.source]
        return found

    def grade_of(self, row: Expected, name: str) -> Grade:
        return next(grade for grade in self.record(row).grades if grade.name == name)


@pytest.fixture(scope="session")
def graded_class(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    folder = tmp_path_factory.mktemp("sample class")
    pile, out = folder / "class.zip", folder / "grades"
    expected = make_demo(pile)
    return GradedClass(pile, out, expected, grade(pile, out))
