"""What an answer did in the sandbox, kept on disk: an exercise whose definition was mended is judged again from it."""

import gzip
import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder.observe import Observation
from autograder.pipeline.whole import write_whole
from autograder.text import Text
from autograder.wire import WireError, dumps, loads

LARGEST = 64 << 20  # characters of one notebook's answers; who has more is run again


@dataclass
class Tried:
    """What the sandbox saw of one exercise: all that judging needs besides the source.

    Attributes:
        plan: fingerprint of what the answer was asked.
        seen: by case.
        printed: what the answer cell printed or died of.
        why: why there is no (complete) result.
        stopped: whether its cell, its check or the notebook was stopped.
    """

    plan: str
    seen: dict[int, Observation]
    printed: str
    why: Text
    stopped: bool


def save_tried(path: Path, tried: dict[str, Tried], keep_others: bool = False) -> None:
    """Write in one step. `keep_others`: leave what the file holds of other exercises."""
    entries: dict[str, Any] = read(path) if keep_others else {}
    for name, one in tried.items():
        try:
            seen = {case: dumps(observation) for case, observation in one.seen.items()}
        except (WireError, RecursionError):  # came in, but cannot go out again: it is run again when asked for
            entries.pop(name, None)
            continue
        entries[name] = {**asdict(Tried(one.plan, {}, one.printed, one.why, one.stopped)), "seen": seen}
    text = json.dumps(entries)
    write_whole(path, gzip.compress(text.encode() if len(text) <= LARGEST else b"{}", compresslevel=3, mtime=0))


def load_tried(path: Path, name: str) -> Tried | None:
    """What is kept of an exercise, or None where it is not, or not as it should be."""
    try:
        entry = read(path)[name]
        entry["seen"] = {int(case): loads(text) for case, text in entry["seen"].items()}
        return Tried(**entry)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def read(path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(gzip.decompress(path.read_bytes()))
        return entries if isinstance(entries, dict) else {}
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        return {}
