"""The student repository: lessons, course_lib and the checks. No solved notebooks, no grading, no alternative answers.

The checks compare with references, so these are in `autograder/exercises`, for whoever looks for them. The sandbox that
grades does not have them, and an answer that calls one is reported; a copy by hand cannot be told from a student's own.
"""

import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.pipeline.authoring import Course, Language

# What is released, and what of it stays here.
RELEASED = (
    "lessons/en/[0-9][0-9]_*.ipynb", "lessons/zh-TW/[0-9][0-9]_*.ipynb",
    *(f"{package}/**/*.{kind}" for package in ("course_lib", "autograder") for kind in ("py", "typed")),
    "LICENSE", "LICENSE-CONTENT", "constraints.txt",
)  # fmt: skip
KEPT_BACK = ("tests", "pipeline", "__main__.py")
SECTIONS = ("build-system", "project", "tool.setuptools", "tool.course")  # of pyproject.toml, with what is below them
WRITTEN = (
    *dict.fromkeys(pattern.split("/")[0] for pattern in RELEASED),
    "README.md", "README.zh-TW.md", "pyproject.toml", ".gitignore",
)  # fmt: skip
GITIGNORE = ".venv/\n__pycache__/\n*.egg-info/\n.ipynb_checkpoints/\n"
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"

README = {
    "en": """\
# Transformers as linear algebra

[繁體中文](README.zh-TW.md)

Jupyter lessons on the mathematics of the Transformer. Every exercise has a check that says which mistake was made.
Open a lesson in Colab, enter your student id and name in the set-up cell, and run it: that is all there is to install.

| lesson | open |
|---|---|
{rows}

At home, in this folder, with Python 3.11 or newer:

```
python -m venv .venv
source .venv/bin/activate          # on Windows: .venv\\Scripts\\activate
pip install -c constraints.txt -e . jupyterlab
jupyter lab lessons/en
```

On Linux without a GPU run `pip install torch=={torch} --index-url https://download.pytorch.org/whl/cpu` before
the third line: it installs 0.2 GB instead of 6 GB.

How to hand in stands at the end of each lesson.
""",
    "zh-TW": """\
# 用線性代數讀懂 Transformer

[English](README.md)

以 Jupyter 筆記本學習 Transformer 的數學。每一題都有檢查，會指出你犯的是哪一種錯。
在 Colab 打開一課，在設定儲存格填入學號與姓名再執行，就全部裝好了。

| 課 | 開啟 |
|---|---|
{rows}

在自己的電腦：用 Python 3.11 以上，在這個資料夾執行

```
python -m venv .venv
source .venv/bin/activate          # Windows：.venv\\Scripts\\activate
pip install -c constraints.txt -e . jupyterlab
jupyter lab lessons/zh-TW
```

Linux 沒有 GPU 時，先執行 `pip install torch=={torch} --index-url https://download.pytorch.org/whl/cpu`，再執行第三行：只裝 0.2 GB，而不是 6 GB。

繳交方式寫在每一課的最後。
""",
}


class ReleaseError(ValueError):
    """Why there is no release, in one line."""


def release(root: Path, out: Path) -> list[Path]:
    """Write the student repository into the folder `out`.

    Whatever else lies in `out` (a repository's .git) stays; what an earlier release wrote there is replaced.

    Returns:
        The files written, relative to `out`.

    Raises:
        ReleaseError: if `out` is the course itself, a folder around it or in it, a file, or holds something else.
    """
    root, out = root.resolve(), out.resolve()
    if out == root or root.is_relative_to(out) or (out.is_relative_to(root) and not out.is_relative_to(root / "build")):
        raise ReleaseError(f"{out} belongs to the course itself; name a folder outside {root}")
    if out.exists() and not out.is_dir():
        raise ReleaseError(f"{out} is a file; name a folder")
    if foreign := foreign_files(out):
        listed = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise ReleaseError(f"{out} holds something else ({listed}); name an empty folder or an earlier release")
    from autograder.pipeline.authoring import LANGUAGES, read_course  # here: the refusals need not wait for imports

    out.mkdir(parents=True, exist_ok=True)
    for name in WRITTEN:
        remove(out / name)
    for source in (path for pattern in RELEASED for path in root.glob(pattern)):
        path = source.relative_to(root)
        if not any(part in KEPT_BACK or part.startswith(".") for part in path.parts):
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, out / path)
    course = read_course(root)
    torch = torch_version((root / "constraints.txt").read_text(encoding="utf-8"))
    for language, name in zip(LANGUAGES, ("README.md", "README.zh-TW.md")):
        text = README[language].format(rows=lesson_rows(root, course, language), torch=torch)
        (out / name).write_text(text, encoding="utf-8")
    (out / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    (out / "pyproject.toml").write_text(student_project(text), encoding="utf-8")
    return sorted(path.relative_to(out) for name in WRITTEN for path in files_below(out / name))


def foreign_files(out: Path) -> list[str]:
    """What lies in a folder that is no earlier release; git's own files may lie in any."""
    try:
        settings = tomllib.loads((out / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = {}
    released = "course" in settings.get("tool", {}) and not (out / "autograder" / "pipeline").exists()
    names = sorted(path.name for path in out.iterdir()) if out.exists() and not released else []
    return [name for name in names if not name.startswith(".git")]


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def files_below(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def lesson_rows(root: Path, course: "Course", language: "Language") -> str:
    from autograder.pipeline.report import titles_of

    rows = []
    for path in sorted((root / "lessons" / language).glob("[0-9][0-9]_*.ipynb")):
        title = titles_of(path.stem, root / "lessons")[language]
        rows.append(f"| {title} | [![Colab]({BADGE})]({course.colab(path.stem, language)}) |")
    return "\n".join(rows)


def torch_version(constraints: str) -> str:
    found = re.search(r"^torch==(\S+)$", constraints, re.M)
    if found is None:
        raise ReleaseError("constraints.txt names no version of torch")
    return found[1]


def student_project(text: str) -> str:
    """pyproject.toml without the instructor's and the developers' parts."""
    blocks = re.split(r"^(?=\[)", text, flags=re.M)
    kept = [block for block in blocks if belongs(block)]
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).rstrip() + "\n"


def belongs(block: str) -> bool:
    head = re.match(r"\[+([\w.-]+)", block)
    name = head[1] if head else ""
    return name != "project.optional-dependencies" and any(name == s or name.startswith(f"{s}.") for s in SECTIONS)
