"""A class of 200 × one lesson, end to end, feedback included: on this machine's cores, and on two local Dask workers.

    python -m benchmarks.whole_class [STUDENTS] [LESSON]      # writes benchmarks/results/whole_class.json

Half of the class has all answers right; the others have one wrong, each time another one.
Memory is the sum over all processes of the run, shared pages counted once (proportional set size).
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import psutil

from autograder.exercise import get
from autograder.pipeline.demo import cell_named, released, solutions
from benchmarks.common import machine, write

ROOT = Path(__file__).resolve().parents[1]
TWICE = """

right = {name}
def {name}(*arguments, **more):
    result = right(*arguments, **more)
    return tuple(2 * part for part in result) if isinstance(result, tuple) else 2 * result
"""


def hand_in(folder: Path, lesson: str, number: int) -> None:
    """The submission of one student of the class."""
    notebook = nbformat.reads(released(lesson, "en"), as_version=4)
    answers = dict(solutions(lesson, "en"))
    if number % 2:
        names = sorted(answers)
        name = names[(number // 2) % len(names)]
        wrong = wrong_answer(name, answers[name])
        if wrong is None:
            del answers[name]
        else:
            answers[name] = wrong
    for name, source in answers.items():
        cell_named(notebook, f"answer-{name}").source = f"{source}\n# {number}"
    student = folder / f"student{number:03}"
    student.mkdir(parents=True)
    nbformat.write(notebook, student / f"{lesson}.ipynb")


def wrong_answer(name: str, right: str) -> str | None:
    """Another letter, or twice the right result; None (left blank) for a class."""
    exercise = get(name)
    if exercise.driver == "letter":
        return f'answer_{name} = "{exercise.mistakes[0].answer}"'
    return right + TWICE.format(name=name) if exercise.driver == "function" else None


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds and peak memory in bytes of a command and all that it starts; it must succeed."""
    start, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as output:
        run = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        while run.poll() is None:
            peak = max(peak, memory_of(run.pid))
            time.sleep(0.3)
        seconds = time.perf_counter() - start
        if run.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read()[-3000:].decode(errors='replace')}")
    return seconds, peak


def memory_of(pid: int) -> int:
    total = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0
    for process in processes:
        try:
            total += int(process.memory_full_info().pss)
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def main() -> None:
    here = machine()  # before anything runs
    students = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    lesson = sys.argv[2] if len(sys.argv) > 2 else "02_qkv"
    work = Path(tempfile.mkdtemp(prefix="class-"))
    rows = []
    try:
        for number in range(students):
            hand_in(work / "pile", lesson, number)
        grade = [sys.executable, "-m", "autograder", "grade", str(work / "pile"), "--seed", "1", "--out"]
        for name, more in (
            ("threads, one a core", []),
            ("2 local Dask workers", ["--dask", "local", "--workers", "2"]),
        ):
            out = work / name.replace(" ", "-")
            seconds, peak = measured([*grade, str(out), *more])
            again, _ = measured([*grade, str(out), *more])
            rows.append({"executor": name, "seconds": seconds, "second_run": again, "peak_bytes": peak})
            print(
                f"{students} × {lesson}, {name}: {seconds:.0f} s ({seconds / students:.2f} s each), "
                f"{peak / 2**30:.1f} GiB; a second run {again:.0f} s",
                flush=True,
            )
        tables = [(work / row["executor"].replace(" ", "-") / "grades.csv").read_bytes() for row in rows]
        if tables[0] != tables[1]:
            raise RuntimeError("the two executors gave other grades")
    finally:
        shutil.rmtree(work)
    write("whole_class", {"machine": here, "students": students, "lesson": lesson, "rows": rows})


if __name__ == "__main__":
    main()
