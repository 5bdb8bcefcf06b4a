"""Build the documentation site into build/docs: the guides, the lessons and the reference, in both languages.

python docs/build.py
"""

import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import course_lib

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SITE = ROOT / "build" / "docs"
SOURCES = ROOT / "build" / "docs-sources"
LANGUAGES = ("en", "zh-TW")
# What the rest of the world may call; the pipeline is used through its commands.
AUTOGRADER = ["autograder", "autograder.exercise", "autograder.text"]

MODULE = """\
# `{name}`

```{{eval-rst}}
.. automodule:: {name}
```
"""


def modules() -> list[str]:
    """course_lib with the map of what stands where, its modules but the tests, and of autograder what is to be called."""
    found = pkgutil.walk_packages(course_lib.__path__, "course_lib.", onerror=None)
    return ["course_lib", *(name for _, name, _ in found if ".tests" not in name), *AUTOGRADER]


def assemble(language: str) -> Path:
    """Lay guides, lessons and the pages of the reference into one folder for Sphinx."""
    folder = SOURCES / language / "pages"  # no neighbour of the other language's pages: see address() in conf.py
    shutil.copytree(DOCS / language, folder)
    shutil.copytree(ROOT / "lessons" / language, folder / "lessons", ignore=shutil.ignore_patterns(".*"))
    (folder / "reference").mkdir()
    for name in modules():
        (folder / "reference" / f"{name}.md").write_text(MODULE.format(name=name), encoding="utf-8")
    return folder


def build(language: str) -> int:
    """Run Sphinx; a warning is an error."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "--quiet"]
    command += [
        "-c",
        str(DOCS),
        "-d",
        str(SOURCES / language / "doctrees"),
        str(assemble(language)),
        str(SITE / language),
    ]
    return subprocess.run(command, env={**os.environ, "DOCS_LANGUAGE": language}).returncode


def main() -> int:
    for folder in (SITE, SOURCES):
        shutil.rmtree(folder, ignore_errors=True)
    SITE.mkdir(parents=True)
    codes = [build(language) for language in LANGUAGES]
    shutil.copy(DOCS / "index.html", SITE)
    if not any(codes):
        print(f"{(SITE / 'index.html').relative_to(ROOT)} is the way in; no page needs a network.")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
