"""Writes benchmarks/README.md from the JSON files in benchmarks/results; what is not there reads "not run".

python -m benchmarks.table
"""

import json
from typing import Any

from benchmarks.common import RESULTS

HEAD = """# Benchmarks

Side by side with peers, in one run on one machine; ratios are medians over rounds in which the contestants take turns.
Everything but the mistakes needs a quiet machine. `make bench` runs all of it and writes this file; `make bench-gpu`
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
    return table(
        ["pass", "N", "attention", "ms", "ratio to PyTorch SDPA", "extra MiB"],
        [
            [r["pass"], str(r["n"]), r["contestant"], number(r["milliseconds"], ".1f"), number(r["ratio"], ".2f"),
             number(r["extra_mib"], ".1f")]
            for r in content["rows"]
        ],
    )  # fmt: skip


def grading_rows(content: dict[str, Any]) -> str:
    return table(
        ["lesson", "notebook", "course, s a notebook", "stock nbgrader, s a notebook", "times faster"],
        [
            [r["lesson"], r["notebook"], f"{r['ours']:.2f}", f"{r['stock']:.2f}", f"{r['ratio']:.1f}"]
            for r in content["rows"]
        ],
    )


SECTIONS = (
    ("models", "Modules, models, decoding, import", "python -m benchmarks.models", module_rows),
    ("attention", "Attention: time and memory against N", "python -m benchmarks.attention", attention_rows),
    ("gpu", "On a GPU", "make bench-gpu", module_rows),
    ("grading", "Grading beside stock nbgrader", "python -m benchmarks.grading", grading_rows),
)


def main() -> None:
    parts = [HEAD]
    for name, title, command, rows in SECTIONS:
        content = content_of(name)
        parts.append(f"## {title}\n\n`{command}`\n")
        if content is None:
            parts.append("not run\n")
            continue
        parts.append(machine_line(content["machine"]) + "\n")
        if name == "attention":
            parts.append("![Time and memory against N](results/attention.png)\n")
        parts.append(rows(content) + "\n")
    parts.append(
        "## Mistakes named\n\n`python -m benchmarks.mistakes` judges every known mistake of every exercise on 20 seeds.\n"
    )
    (RESULTS.parent / "README.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
