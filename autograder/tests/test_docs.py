"""Links inside the repository lead somewhere: of the texts, of the lessons, and to the headings they name."""

import json
import re
import unicodedata
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = ("docs", "lessons", "benchmarks")
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]
    if path.suffix in (".md", ".ipynb") and ".ipynb_checkpoints" not in path.parts
)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]+)\"")


@cache
def text_of(page: Path) -> str:
    """The Markdown of a page, without its code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^ *(```+|~~~+).*?^ *\1|(`+)(?!`).+?(?<!`)\2(?!`)", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that readers of Markdown give to headings: lower case, words joined by hyphens."""
    text = (ROOT / page).read_text(encoding="utf-8") if page.suffix == ".md" else text_of(page)
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        kept = (c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LNM")
        found.add("".join(kept).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in {first or second for first, second in LINK.findall(text_of(page))}:
        if re.match(r"[a-z]+:", link):
            continue  # on another server, or mail
        path, _, anchor = unquote(link).partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.resolve().exists() or (anchor and anchor not in anchors(target.resolve().relative_to(ROOT))):
            dead.append(link)
    assert dead == []


def test_both_languages_have_the_same_guides() -> None:
    english, chinese = (sorted(p.name for p in (ROOT / "docs" / language).glob("*.md")) for language in ("en", "zh-TW"))
    assert english == chinese
