"""The course's nbgrader configuration, for building the notebooks and for grading.

nbgrader's steps take it as an object (no ``nbgrader_config.py`` of a working directory, no file of the user is read), so
that a course on any machine behaves the same.
"""

import os
import sqlite3
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import nbgrader.api
from alembic.script import ScriptDirectory
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader import preprocessors
from nbgrader.converters import GenerateAssignment
from nbgrader.dbutil import ALEMBIC_DIR
from traitlets.config import Config

# nbgrader opens its gradebook anew at every step; with one engine a file, SQLAlchemy keeps the queries it has compiled.
nbgrader.api.create_engine = cache(nbgrader.api.create_engine)

STUB = "raise NotImplementedError"


class ClearSolutions(preprocessors.ClearSolutions):
    """nbgrader's step that takes the solutions out, with two rules of the course.

    A solution inside a function leaves the stub behind; one at the left margin leaves nothing, because the placeholder
    above it (``answer_02_q1 = ""``) is what the student fills in. The text of a written answer stays as it is: it has
    no solution, and it says "write here" in the notebook's language.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: ResourcesDict, cell_index: int
    ) -> tuple[NotebookNode, ResourcesDict]:
        if cell.cell_type != "code":
            return cell, resources
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        cell.source = "\n".join(line for line in cell.source.split("\n") if line != STUB).rstrip()
        return cell, resources


def course_config(directory: Path, gradebook: Path | None = None) -> Config:
    """nbgrader's configuration with all of its folders (source, release, submitted, …) inside ``directory``.

    Args:
        directory: root of one nbgrader course; one assignment per lesson, whatever the language of a submission.
        gradebook: the SQLite file; ``directory/gradebook.db`` if not given.
    """
    _find_alembic()
    directory = directory.resolve()
    config = Config()
    config.CourseDirectory.root = str(directory)
    config.CourseDirectory.db_url = f"sqlite:///{(gradebook or directory / 'gradebook.db').resolve()}"
    config.ClearSolutions.code_stub = {"python": STUB}
    config.GenerateAssignment.preprocessors = [
        ClearSolutions if step is preprocessors.ClearSolutions else step
        for step in GenerateAssignment.preprocessors.default()
    ]
    return config


def create_gradebook(path: Path) -> None:
    """Begin a gradebook, if there is none yet, so that nbgrader need not ask ``alembic`` for the schema's version.

    nbgrader starts a process for that question, which takes seconds; the tables it makes itself on first use.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")  # whoever is killed meanwhile leaves no half of a gradebook
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft)) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        head = ScriptDirectory(ALEMBIC_DIR).get_current_head()
        database.execute("INSERT INTO alembic_version (version_num) VALUES (?)", [head])
    os.replace(draft, path)


def _find_alembic() -> None:
    """Put this interpreter's programs first on PATH: nbgrader's gradebook starts ``alembic`` by its bare name."""
    programs = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", "")
    if path.split(os.pathsep)[0] != programs:
        os.environ["PATH"] = programs + os.pathsep + path
