"""The command line: one clear line for what goes wrong, and exit codes that scripts can trust."""

import os
import shlex
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autograder.pipeline import cli, grading
from autograder.pipeline.records import Grade, Record
from autograder.pipeline.report import write_reports
from autograder.pipeline.sandbox import SandboxUnavailable
from autograder.pipeline.submission import Submission
from autograder.text import both


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def one_line(result: Result) -> str:
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ") and "Traceback" not in result.output
    return line


def pile(tmp_path: Path) -> Path:
    (tmp_path / "pile").mkdir(exist_ok=True)
    return tmp_path / "pile"


def test_help_names_the_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "autograder", "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("build", "demo", "grade", "report"))


def test_without_a_command_the_help_is_shown() -> None:
    done = subprocess.run([sys.executable, "-m", "autograder"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "error" not in done.stderr
    assert all(command in done.stdout + done.stderr for command in ("build", "demo", "grade", "report"))


@pytest.mark.parametrize(
    "call, why",
    [
        ("grade missing.zip --out {0}/out", "missing.zip does not exist"),
        ("grade {0}/a.txt --out {0}/out", "a.txt is a .txt file, neither"),
        ("grade {0}/pile --out {0}/out --roster {0}/none.csv", "none.csv: No such file"),
        ("grade {0}/pile --out {0}/pile", "{0}/pile lies in the folder of the submissions"),
        ("grade {0}/pile --out {0}/pile/grades/new", "{0}/pile/grades/new lies in the folder of the submissions"),
        ("grade {0}/pile --out {0}/lessons", "{0}/lessons holds something else (en, zh-TW): name a new folder"),
        ("grade {0}/pile --out {0}/link/grades", "{0}/link/grades lies in the folder of the submissions"),
        ("grade {0}/pile --out {0}/tables", "{0}/tables holds something else (grades.csv): name a new folder"),
        ("report {0}", "holds no graded class"),
        ("release {0}/a.txt", "is a file; name a folder"),
        ("release {0}", "holds something else (a.txt, lessons, link, …)"),
    ],
)
def test_a_wrong_path_is_refused_before_seconds_of_imports(tmp_path: Path, call: str, why: str) -> None:
    (tmp_path / "a.txt").write_text("")
    for folder in ("pile/ann", "lessons/en", "lessons/zh-TW", "tables"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tables/grades.csv").write_text("somebody's own")
    (tmp_path / "link").symlink_to(tmp_path / "pile")
    before = sorted(tmp_path.rglob("*"))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['nbgrader', 'nbconvert', 'jinja2', 'copydetect']))\n"  # None: no import
        "from autograder.pipeline.cli import app; app()"
    )
    arguments = [word.format(tmp_path) for word in call.split()]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and why.format(tmp_path) in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "there",
    [
        [],
        [".gitignore", "error.log", ".sample_class"],
        ["lock", "roster.csv"],
        ["lock", "files.json"],
        ["roster.csv", "roster-2.csv", "Class 3A.CSV"],
        ["Thumbs.db", "desktop.ini", "Icon\r", "__MACOSX", "lost+found"],
    ],
)
def test_a_folder_in_which_a_run_has_begun_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: list[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "pile").mkdir()
    for name in there:
        (tmp_path / "out" / name).write_text("")

    def stop(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(grading, "grade", stop)
    assert run("grade", tmp_path / "pile", "--out", tmp_path / "out").exit_code == 130


def test_no_name_that_a_student_hands_in_stops_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where grades lie is known of OUT alone: two empty files in a student's folder look like them too."""
    for folder in ("Eve_12_assignsubmission_file", "old\x1b[2J\udcff"):
        (pile(tmp_path) / folder).mkdir()
        for name in ("lock", "files.json"):
            (tmp_path / "pile" / folder / name).write_text("")
    graded: list[object] = []

    def stop(submissions: Path, *arguments: object, **more: object) -> None:
        graded.append(submissions)
        raise KeyboardInterrupt

    monkeypatch.setattr(grading, "grade", stop)
    done = run("grade", tmp_path / "pile", "--out", tmp_path / "out")
    assert done.exit_code == 130 and graded == [tmp_path / "pile"]
    warning, _ = done.stderr.strip().splitlines()
    assert warning.startswith(f"warning: {tmp_path}/pile/Eve_12_assignsubmission_file (and 1 more) looks like a folder")
    (tmp_path / "pile/Eve_12_assignsubmission_file/lock").unlink()
    assert (
        f"warning: {tmp_path}/pile/old?[2J? looks" in run("grade", tmp_path / "pile", "--out", tmp_path / "out").stderr
    )


@pytest.fixture
def empty_zip(tmp_path: Path) -> Path:
    path = tmp_path / "empty.zip"
    zipfile.ZipFile(path, "w").close()
    return path


def test_a_pile_that_cannot_be_read_is_one_line(tmp_path: Path, empty_zip: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a zip")
    out = tmp_path / "out"
    assert "notes.txt is a .txt file, neither a folder nor a zip file" in one_line(run("grade", text, "--out", out))
    document = tmp_path / "report.docx"
    with zipfile.ZipFile(document, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    assert "report.docx is a .docx file, neither" in one_line(run("grade", document, "--out", out))
    (tmp_path / "ada.ipynb").write_text("{}")
    assert "put it into a folder" in one_line(run("grade", tmp_path / "ada.ipynb", "--out", out))
    assert "does not exist" in one_line(run("grade", tmp_path / "missing.zip", "--out", out))
    assert "holds no files to grade" in one_line(run("grade", empty_zip, "--out", out))
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pile").mkdir()
    (tmp_path / "pile" / "a.ipynb").write_text("{}")
    (tmp_path / "file").write_text("")
    for command in (("grade", tmp_path / "pile", "--out"), ("report",)):
        assert f"cannot write to {tmp_path / 'file'}: it is a file" in one_line(run(*command, tmp_path / "file"))
    inside = tmp_path / "file" / "out"
    assert f"cannot write to {inside}: " in one_line(run("grade", tmp_path / "pile", "--out", inside))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("grade", "a", "b", "--out", "c"), "unexpected extra argument"),
        (("grade", "a"), "--out"),
        (("grade", "a", "--out", "c", "--workers", "0"), "--workers"),
        (
            ("grade", "a", "--out", "c", "--sandbox", "foo"),
            "'foo' is not one of 'bubblewrap', 'process' (see python -m autograder grade --help)",
        ),
        (("grad", "a"), "No such command"),
    ],
)
def test_a_wrong_call_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    assert words in one_line(run(*arguments))


def test_report_without_a_class_is_one_line(tmp_path: Path) -> None:
    assert "holds no graded class" in one_line(run("report", tmp_path))


@pytest.mark.parametrize(
    "error", [SandboxUnavailable("no bubblewrap here"), grading.GradingError("another run of grade is writing")]
)
def test_expected_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(grading, "grade", fail)
    assert str(error) in one_line(run("grade", pile(tmp_path), "--out", tmp_path / "out"))
    assert not (tmp_path / "out" / cli.ERROR_LOG).exists()


def test_an_unexpected_error_is_one_line_and_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise ZeroDivisionError("by zero\nsecond line")

    monkeypatch.setattr(grading, "grade", fail)
    line = one_line(run("grade", pile(tmp_path), "--out", tmp_path / "out"))
    assert "ZeroDivisionError: by zero" in line and cli.ERROR_LOG in line
    assert "Traceback" in (tmp_path / "out" / cli.ERROR_LOG).read_text()


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(grading, "grade", stop)
    result = run("grade", pile(tmp_path), "--out", tmp_path / "out")
    assert result.exit_code == 130 and "goes on where this run stopped" in result.stderr


def graded(status: str = "graded") -> tuple[Record, Submission]:
    grade = Grade("attend", 1, 3, "partial", both("Rows and columns [swapped].", "列與行對調了。"), "swapped")
    record = Record("s1", "Ada", "02_qkv", "en", "a.ipynb", status, "Read as handed in.", grades=[grade])
    return record, Submission("s1", "Ada", "02_qkv", "en", "v0.1.0", "a.ipynb", None, "ok", "Read as handed in.")


@pytest.mark.parametrize("status, code", [("graded", 0), ("not run", 1)])
def test_exit_code_is_0_only_if_all_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, code: int
) -> None:
    out = tmp_path / "out"
    record, submission = graded(status)

    def grade(
        pile: Path, out: Path, *arguments: object, progress: grading.Progress, about: Any, **more: object
    ) -> list[Record]:
        about(["02_qkv"])
        progress(0, 1)
        progress(1, 1)
        record.save(out / "records" / "s1" / "02_qkv.json")
        write_reports(out, [record], [submission])
        return [record]

    monkeypatch.setattr(grading, "grade", grade)
    result = run("grade", pile(tmp_path), "--out", out)
    assert result.exit_code == code, result.output
    assert "Rows and columns [swapped]." in result.stdout and "1 student, 1 row, written" in result.stdout
    assert "grades.csv" in result.stdout and f"{1 - code} graded now, 0 as before" in result.stdout
    assert run("report", out).exit_code == 0


def test_a_lesson_that_a_run_is_not_about_has_a_line_and_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [graded(), graded()]
    for (record, submission), lesson in zip(files, ("02_qkv", "03_sqrt_dk")):
        record.lesson = submission.lesson = lesson

    def grade(pile: Path, out: Path, *arguments: object, about: Any, **more: object) -> list[Record]:
        about(["03_sqrt_dk"])
        for record, _ in files:
            record.save(out / "records" / "s1" / f"{record.lesson}.json")
        write_reports(out, [record for record, _ in files], [submission for _, submission in files])
        return [record for record, _ in files]

    monkeypatch.setattr(grading, "grade", grade)
    told = run("grade", pile(tmp_path), "--out", tmp_path / "out").stdout
    assert told.count("total (1 submission)") == 1, told
    lines = [line for line in told.splitlines() if line.startswith("02 · ")]
    assert len(lines) == 1 and ", as before: mean 1 of 3, 1 submission" in lines[0], told
    assert run("report", tmp_path / "out").stdout.count("total (1 submission)") == 2


def test_what_the_books_did_not_take_is_told_and_not_a_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, submission = graded()
    record.fault = "nbgrader could not take s1, 02_qkv: no space left."

    def grade(pile: Path, out: Path, *arguments: object, **more: object) -> list[Record]:
        record.save(out / "records" / "s1" / "02_qkv.json")
        write_reports(out, [record], [submission])
        return [record]

    monkeypatch.setattr(grading, "grade", grade)
    result = run("grade", pile(tmp_path), "--out", tmp_path / "out")
    assert result.exit_code == 1 and "1 grades were not kept or not entered" in result.stderr
    assert "1 × Graded, but not kept" in result.stdout


# ------------------------------------------------------------------------------------------------- options of grade


def test_options_reach_the_grader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def grade(pile: Path, out: Path, seed: int | None, workers: int | None, **more: object) -> list[Record]:
        asked.update(more, seed=seed, workers=workers)
        out.mkdir(exist_ok=True)
        (out / "lock").touch()
        record, submission = graded()
        record.save(out / "records" / "s1" / "02_qkv.json")
        write_reports(out, [record], [submission])
        return [record]

    monkeypatch.setattr(grading, "grade", grade)
    lists = [tmp_path / "class.csv", tmp_path / "2.csv"]
    for path in lists:
        path.write_text("student_id\n")
    result = run(
        "grade", pile(tmp_path), "--out", tmp_path / "out", "--exercise", "attend", "--roster", lists[0], "--roster", lists[1],
        "--seed", 3,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert (asked["exercise"], asked["rosters"], asked["seed"]) == ("attend", lists, 3)
    assert "graded now" not in result.stdout, "the line of the grader tells what became of the exercise"
    assert asked["limits"] == grading.LIMITS and asked["executor"] is None and "warning" not in result.stderr
    result = run("grade", pile(tmp_path), "--out", tmp_path / "out", "--sandbox", "process")
    assert result.exit_code == 0 and result.stderr.startswith("warning: --sandbox process runs the code of every")
    assert asked["limits"] == replace(grading.LIMITS, walled=False)


def test_what_an_option_cannot_do_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pile").mkdir()
    (tmp_path / "pile" / "a.ipynb").write_text("{}")
    bad_list = tmp_path / "list.csv"
    bad_list.write_text("a,b\n1,2\n")
    call = ("grade", tmp_path / "pile", "--out", tmp_path / "out")
    assert "no exercise is called 'atend'; did you mean attend" in one_line(run(*call, "--exercise", "atend"))
    assert "No such file" in one_line(run(*call, "--roster", tmp_path / "none.csv"))
    assert "no column of student ids" in one_line(run(*call, "--roster", bad_list))
    assert not (tmp_path / "out").exists(), "what is wrong with a call leaves nothing behind"
    assert "--sandbox" in one_line(run(*call, "--sandbox", "none"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "--dask needs the package distributed" in one_line(run(*call, "--dask", "local"))


def test_a_waiting_written_answer_is_told_of(tmp_path: Path) -> None:
    record, submission = graded()
    record.grades.append(Grade("03_w1", None, 2, "by hand", both("", "")))
    record.save(tmp_path / "records" / "s1" / "02_qkv.json")
    write_reports(tmp_path, [record], [submission])
    told = run("report", tmp_path)
    assert told.exit_code == 0 and f"the grade is left empty in {tmp_path / 'lms'}" in told.stdout.replace("\n", " ")


def test_who_has_no_number_on_the_list_is_told_of(tmp_path: Path) -> None:
    record, submission = graded()
    record.save(tmp_path / "records" / "s1" / "02_qkv.json")
    (tmp_path / "roster.csv").write_text("學號,姓名\ns1,Ann\n旁聽,Bob\n旁聽,Cat\n-,Dan\n-,Eve\x1b\n", encoding="utf-8")
    write_reports(tmp_path, [record], [submission])
    told = run("report", tmp_path)
    line = "4 names without a student number on the list of the class (Bob, Cat, Dan, …): who has no other id there is left out"
    assert told.exit_code == 0 and told.stdout.splitlines().count(line) == 1


# ------------------------------------------------------------------------------------------------- make


def made(*words: str) -> str:
    """What make would run, the environment taken as made."""
    made = subprocess.run(
        ["make", "--no-print-directory", "-n", "-o", ".venv/.instructor", *words],
        cwd=cli.ROOT,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.replace("\\\n", " ")


def test_make_hands_on_what_it_is_given() -> None:
    line = made("grade", "SUBMISSIONS=a b.zip", "OUT=grades-03", "ROSTER=Grades-02 x.csv", "EXERCISE=attend")
    words = shlex.split(line.strip().splitlines()[-1])
    assert words[1:] == [
        "-m", "autograder", "grade", "a b.zip", "--out", "grades-03", "--roster", "Grades-02 x.csv", "--exercise", "attend",
    ]  # fmt: skip
    assert shlex.split(made("grade", "SUBMISSIONS=a.zip").strip().splitlines()[-1])[3:] == [
        "grade",
        "a.zip",
        "--out",
        "grades",
    ]
    assert shlex.split(made("release", "STUDENT=../s x"))[3:] == ["release", "../s x"]


def test_make_installs_torch_alone_from_another_index() -> None:
    index = "https://download.pytorch.org/whl/cpu"
    told = made("-W", "pyproject.toml", "VENV=nowhere", f"TORCH_INDEX={index}", "nowhere/.instructor")
    lines = [line for line in told.splitlines() if "pip install" in line]
    assert [index in line for line in lines] == [True, False, False], "PyPI's own packages come from PyPI"
    words = shlex.split(lines[0].split("||")[0])
    assert words[-6:] == ["--retries", "1", "--timeout", "10", f"--index-url={index}", "torch"] and "--no-deps" in words
    assert told.index("some minutes") < told.index("pip install")
    plain = made("-W", "pyproject.toml", "VENV=nowhere", "nowhere/.instructor")
    assert [line for line in plain.splitlines() if "pip install" in line] == lines[1:]


def test_make_hands_jupyter_its_options() -> None:
    options = "--no-browser --port=8899 --allow-root"
    for target in ("formgrader", "lab"):
        words = shlex.split(made(target, f"JUPYTER_OPTIONS={options}").strip().splitlines()[-1])
        assert words[words.index("lab") + 1 :][:3] == options.split()


def test_make_shows_the_command_of_grade_in_one_line() -> None:
    told = made("grade", "SUBMISSIONS=a.zip", "EXERCISE=attend").splitlines()
    assert told[-1].endswith('-m autograder grade "a.zip" --out "grades" --exercise "attend"')
    assert made("grade", "SUBMISSIONS=a.zip").splitlines()[-1].endswith('--out "grades"')


def test_make_formgrader_says_that_a_folder_holds_no_class(tmp_path: Path) -> None:
    call = ["make", "--no-print-directory", "-s", "-f", str(cli.ROOT / "Makefile"), "-o", ".venv/.instructor"]
    done = subprocess.run([*call, "formgrader", "OUT=gradez"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "error: gradez holds no graded class: grade one into it first"


@pytest.mark.parametrize(
    ("words", "holds", "why"),
    [
        ((), "", ""),
        ((), ".sample_class", ""),
        ((), "grades.csv", "{out} is not empty and holds no sample class"),
        (("SUBMISSION=a.zip", "ROSTER=class.csv"), "", "ROSTER given without SUBMISSIONS"),
        (("OUT={out}",), "", "OUT given without SUBMISSIONS"),
        (("OUT={out}", "EXERCISE=attend", "SUBMISSIONS="), "grades.csv", "OUT and EXERCISE given without SUBMISSIONS"),
        (("SUBMISSIONS=a.zip",), "grades.csv", ""),
        (("SUBMISSIONS=a.zip", "OUT={out}"), ".sample_class", "{out} holds the sample class"),
    ],
)
def test_the_sample_class_never_meets_a_real_one(tmp_path: Path, words: tuple[str, ...], holds: str, why: str) -> None:
    """With a Python that only tells what it is asked for; the folder is the default one, so make runs elsewhere."""
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    out = tmp_path / "grades"
    if holds:
        out.mkdir()
        (out / holds).touch()
    call = ["make", "--no-print-directory", "-s", "-f", str(cli.ROOT / "Makefile"), "-o", ".venv/.instructor", "grade"]
    call += [word.format(out="grades") for word in words]
    clean = {
        name: value for name, value in os.environ.items() if name not in ("OUT", "ROSTER", "EXERCISE", "SUBMISSIONS")
    }
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, env=clean)
    if why:
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.splitlines()[0].startswith(f"error: {why.format(out='grades')}")
        return
    assert done.returncode == 0, done.stderr
    sample = not words
    given = "build/sample_class.zip" if sample else "a.zip"
    demo = ["-m autograder demo build/sample_class.zip"] if sample else []
    assert done.stdout.splitlines() == [*demo, f"-m autograder grade {given} --out grades"]
    assert (out / ".sample_class").exists() == sample


def test_make_help_has_a_line_for_every_target() -> None:
    text = (cli.ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = [line.split()[1:] for line in text.splitlines() if line.startswith(".PHONY:")]
    told = subprocess.run(["make", "--no-print-directory", "help"], cwd=cli.ROOT, capture_output=True, text=True).stdout
    assert sorted(line.split()[1] for line in told.splitlines()) == sorted(phony)
    assert all(len(line.split()) > 3 for line in told.splitlines())
