"""Writes benchmarks/README.md from the JSON files in benchmarks/results; what is not there reads "not run".

python -m benchmarks.table
"""

import json
from typing import Any

from benchmarks.common import RESULTS

HEAD = """# Benchmarks

Side by side with peers, in one run on one machine; ratios are medians over rounds in which the contestants take turns.
Everything but the mistakes and the mutants needs a quiet machine. `make bench` runs all of it and writes this file; `make bench-gpu`
adds the rows that need a GPU.
"""


def content_of(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def machine_line(machine: dict[str, Any]) -> str:
    said = ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in machine.items() if not isinstance(value, dict)
    )
    return f"Measured on: {said}."


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, form: str) -> str:
    return "not run" if value is None else format(value, form)


def module_rows(content: dict[str, Any]) -> str:
    return table(
        ["measure", "contestant", "ms", "course_lib takes … × its time", "rounds"],
        [
            [r["measure"], r["contestant"], f"{r['milliseconds']:.1f}", f"{r['ours_to_this']:.2f}", str(r["rounds"])]
            for r in content["rows"]
        ],
    )


def attention_rows(content: dict[str, Any]) -> str:
    """A picture, by which power of N work, time and memory grow, and all numbers."""
    growth = table(
        ["pass", "attention", "work grows like N to the", "time", "memory"],
        [
            [r["pass"], r["contestant"], *(number(r[what], ".2f") for what in ("work", "time", "memory"))]
            for r in content["growth"]
        ],
    )
    rows = table(
        ["pass", "N", "attention", "ms", "ratio to PyTorch SDPA", "extra MiB"],
        [
            [r["pass"], str(r["n"]), r["contestant"], number(r["milliseconds"], ".1f"), number(r["ratio"], ".2f"),
             number(r["extra_mib"], ".1f")]
            for r in content["rows"]
        ],
    )  # fmt: skip
    return f"![Time and memory against N](results/attention.png)\n\n{growth}\n\n{rows}"


def grading_rows(content: dict[str, Any]) -> str:
    return table(
        ["lesson", "notebook", "class of", "course, s a notebook", "stock nbgrader, s a notebook", "times faster"],
        [
            [r["lesson"], r["notebook"], str(r["class"]), f"{r['ours']:.2f}", f"{r['stock']:.2f}", f"{r['ratio']:.1f}"]
            for r in content["rows"]
        ],
    )


def class_rows(content: dict[str, Any]) -> str:
    return table(
        ["students × lesson", "run by", "minutes", "seconds a notebook", "most memory, GiB", "a second run, minutes"],
        [
            [f"{content['students']} × {content['lesson']}", r["executor"], f"{r['seconds'] / 60:.1f}",
             f"{r['seconds'] / content['students']:.2f}", f"{r['peak_bytes'] / 2**30:.1f}", f"{r['second_run'] / 60:.1f}"]
            for r in content["rows"]
        ],
    )  # fmt: skip


def mutant_rows(content: dict[str, Any]) -> str:
    rows = content["rows"]
    total, kept = sum(row["mutants"] for row in rows), [(row["exercise"], k) for row in rows for k in row["kept"]]
    said = (
        f"{total} mutants of {len(rows)} references, {content['seeds']} seeds each: {total - len(kept)} lose points. "
        "The others, by the line that is changed:"
    )
    return (
        said
        + "\n\n"
        + table(
            ["exercise", "keeps its points"],
            [[name, f"`` {change.replace('|', chr(92) + '|')} ``"] for name, change in kept],
        )
    )


def mistake_rows(content: dict[str, Any]) -> str:
    return table(
        [f"{content['exercises']} exercises and questions, {content['seeds']} seeds each", "mistakes"],
        [
            ["in the catalogue", str(content["mistakes"])],
            ["lose points on every seed", str(content["lost"])],
            ["named by their own name on every seed", str(content["own"])],
            ["named by it or by a mistake with equal values", str(content["shared"])],
        ],
    )


SAME = """A change that keeps its points does the same wherever it is tried (another number for the same axis, no device where
there is only one, `<=` for `<` among random numbers, an option that the exercise does not ask for), or it shows a demand
that no case covers. Those below have been read one by one: they do the same."""
FLOOR = """The floor of decoding reads every weight once for a token and does nothing else. What is above it at batch 1 are the
hundreds of small operations of Python and PyTorch, the same milliseconds however fast the memory is.
"""
TRAFFIC = """Work: the operations of all matrix products, counted. Time and memory: between the two largest N that were run. Linear
attention does work linear in N, but is all memory traffic: its tensors leave the caches as N grows, and from 32 MiB on each
is made of fresh pages, so its time grows faster than its work.
"""

# File of results, heading, command, what to know when reading, and what makes the tables.
SECTIONS = (
    ("models", "Modules, models, decoding, import", "python -m benchmarks.models", FLOOR, module_rows),
    ("attention", "Attention: time and memory against N", "python -m benchmarks.attention", TRAFFIC, attention_rows),
    ("gpu", "On a GPU", "make bench-gpu", "", module_rows),
    ("grading", "Grading beside stock nbgrader", "python -m benchmarks.grading", "", grading_rows),
    (
        "whole_class",
        "A whole class, from its files to its feedback",
        "python -m benchmarks.whole_class",
        "",
        class_rows,
    ),
    ("mistakes", "Mistakes named", "python -m benchmarks.mistakes", "", mistake_rows),
    ("mutants", "Mutants of the references", "python -m benchmarks.mutants", SAME, mutant_rows),
)


def main() -> None:
    parts = [HEAD]
    for name, title, command, remark, rows in SECTIONS:
        content = content_of(name)
        parts.append(f"## {title}\n\n`{command}`\n")
        if content is None:
            parts.append("not run\n")
            continue
        parts += [machine_line(content["machine"]) + "\n", *filter(None, [remark]), rows(content) + "\n"]
    (RESULTS.parent / "README.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
