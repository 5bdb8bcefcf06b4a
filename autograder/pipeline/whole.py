"""Files that hold the old content or the new one, never half of one, whenever a run is killed."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step; its folder is made where it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")
    draft.write_bytes(content)
    os.replace(draft, path)
