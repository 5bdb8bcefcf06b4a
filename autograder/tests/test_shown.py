"""What students wrote reaches the pages of formgrader and of feedback as text that can be read, and runs nowhere."""

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import nbgrader.server_extensions.formgrader.handlers as formgrader
import pytest
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from nbgrader.api import Gradebook
from traitlets.config.loader import PyFileConfigLoader

from autograder.pipeline import grading, report
from autograder.pipeline.bookkeeping import Books, names_in_formgrader
from autograder.pipeline.records import Grade, Record
from autograder.pipeline.shown import LONGEST_CODE, highlight_code, markdown2html
from autograder.pipeline.submission import Submission
from autograder.text import both

PICTURE = "iVBORw0KGgo="
EVIL = """<script>alert(1)</script> <img src=x onerror="alert(2)"> <iframe srcdoc="<script>alert(3)</script>"></iframe>
[a](javascript:alert) [b](files/javascript:alert) [c](JaVa&#115;cript&colon;alert) <a href="&#1;javascript:alert(4)">d</a>
<a href="data:text/html,<script>alert(5)</script>">e</a> ![f](attachment:a.png) <svg onload=alert(6)></svg>
<math><mtext></form><form><mglyph><style></math><img src onerror=alert(7)> <div style="position:fixed" data-link="/x">g</div>
<form action="/logout"><input id="02_w1" class="score"><button class="full-credit">h</button></form>
<img src="/logout"> [i](/logout) <base href="https://evil.example"> <meta http-equiv="refresh" content="0"> <style>*{}</style>

```mermaid
<script>alert(8)</script>
```
$<img src=x onerror=alert(9)>$
"""
GOOD = f"""Rows $a < b$ and $$\\begin{{pmatrix}}1 & 2\\\\ 3 & 4\\end{{pmatrix}}$$ are **bold**, H<sub>2</sub>O, [a page](https://example.org/?a=1&b=2).

| left | right |
|:-----|------:|
| $x_1$ | `code` |

```python
def f(x): return x < 3
```
![pasted](attachment:b.png) ![typed](data:image/png;base64,{PICTURE}) ![lost](attachment:c.png)
"""


class Live(HTMLParser):
    """Whatever in a page runs, moves or is loaded."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {
            "script",
            "iframe",
            "svg",
            "math",
            "form",
            "input",
            "button",
            "base",
            "meta",
            "style",
            "object",
            "embed",
        }:
            self.found.append(tag)
        for name, value in attrs:
            address = re.sub(r"[\s\x00-\x20]", "", value or "").lower()
            if name.startswith(("on", "data-")) or name == "id" or (name == "style" and "text-align" not in address):
                self.found.append(name)
            if name in {"href", "src", "action"} and not re.match(r"https://|data:image/png;base64,", address):
                self.found.append(address)


def shown(source: str, **attachments: str) -> str:
    pictures = {f"{name}.png": {"image/png": data} for name, data in attachments.items()}
    return str(markdown2html({"cell": {"attachments": pictures}}, source))  # type: ignore[arg-type]


@pytest.mark.hostile
def test_nothing_in_a_text_runs() -> None:
    page = shown(EVIL, a='AAAA" onload="alert(10)" x="')
    assert Live(page).found == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page  # it is there to be read


def test_formulas_tables_and_pictures_are_shown() -> None:
    page = shown(GOOD, b=PICTURE)
    assert "$a &lt; b$" in page and r"\begin{pmatrix}1 &amp; 2\\ 3 &amp; 4\end{pmatrix}" in page
    assert (
        "<strong>bold</strong>" in page
        and "H<sub>2</sub>O" in page
        and 'href="https://example.org/?a=1&amp;b=2"' in page
    )
    assert "<table>" in page and "text-align" in page and "<code>code</code>" in page
    assert re.search(r'<span class="k">def</span>', page)
    assert page.count(f'src="data:image/png;base64,{PICTURE}"') == 2
    assert 'alt="lost"' in page and Live(page).found == []


@pytest.mark.hostile
@pytest.mark.parametrize(
    "source",
    ["<b>" * 6_000, "<div>" * 20_000, "".join(f"<b x{i}>" for i in range(9_000)), "\\begin{a}" * 9_000, "[" * 99_000],
)
def test_a_long_text_is_shown_as_it_was_typed(source: str) -> None:
    page = shown(source)
    assert page.startswith("<pre>") and Live(page).found == [] and len(page) >= len(source)


def test_a_picture_of_megabytes_is_shown() -> None:
    data = "iVBOR+/a" * 300_000
    assert data in shown(f"![a](data:image/png;base64,{data})") and data in shown("![a](attachment:a.png)", a=data)


def test_code_is_shown_in_colours_where_it_is_short() -> None:
    assert '<span class="k">def</span>' in highlight_code("def f(x): return x < 3")
    long = "def f(x): return x < 3\n" * 300
    assert highlight_code(long) == f'<div class="highlight"><pre>{html.escape(long)}</pre></div>'
    assert "```".join(("", "python\n" + long, "")).count("def") == 300 and "<span" not in shown(
        f"```python\n{long}\n```"
    )


@pytest.mark.hostile
@pytest.mark.parametrize("lines", [4_900, 18_000])
def test_code_of_empty_lines_is_coloured_without_most_of_them(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours take time with the square of their number."""
    asked: list[str] = []
    monkeypatch.setattr(Highlight2HTML, "__call__", lambda self, code: asked.append(code) or "coloured")
    assert highlight_code("x = 1\n" + "\n " * lines + "\n1") == "coloured"
    assert asked == ["x = 1\n\n\n\n1"]
    assert highlight_code("x = 1\n\n\ny = 2") == "coloured" and asked[1] == "x = 1\n\n\ny = 2"


@pytest.mark.hostile
@pytest.mark.parametrize("language", ["ipython3", "ipython", "html", "mermaid", "no such", "pycon"])
def test_code_of_another_language_in_a_text_is_shown_in_one_colour(language: str) -> None:
    page = shown(f"```{language}\nx = <b>1</b>\n" + "\n " * 9_000 + "\n1\n```")
    assert "x = &lt;b&gt;1&lt;/b&gt;" in page and "<span" not in page and len(page) < LONGEST_CODE


# --- formgrader itself ------------------------------------------------------------------------------------------------


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    yield Books(tmp_path, grading.LESSONS)


def formgraded(books: Books, notebook: NotebookNode, **names: str) -> str:
    """The page, by the exporter that formgrader makes of the configuration in the course folder."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(books.course)).load_config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [formgrader.template_path]
    resources = {
        "assignment_id": "02_qkv", "notebook_id": "02_qkv", "submission_id": "1", "index": 0, "total": 1, "base_url": "",
        "student": "s1", "last_name": "", "first_name": "", "notebook_path": "x", **names,
    }  # fmt: skip
    page, _ = HTMLExporter(config=config).from_notebook_node(notebook, resources=resources)
    return str(page)


@pytest.mark.hostile
def test_formgrader_s_page_runs_nothing_of_a_student_s(books: Books) -> None:
    written = new_markdown_cell(EVIL, attachments={"a.png": {"image/png": 'AAAA" onload="alert(10)" x="'}})
    written.metadata["nbgrader"] = {"grade_id": "02_w1", "solution": True, "grade": True, "points": 2}
    kinds = {
        "text/html": EVIL, "image/svg+xml": "<svg onload=alert(11)><script>alert(12)</script></svg>", "text/markdown": EVIL,
        "application/javascript": "alert(13)", "application/vnd.jupyter.widget-view+json": {"model_id": "alert(14)"},
        "text/latex": EVIL, "text/plain": EVIL,
    }  # fmt: skip
    results = [new_output("display_data", data={kind: data}) for kind, data in kinds.items()]
    results += [new_output("stream", text=EVIL), new_output("error", ename=EVIL, evalue=EVIL, traceback=[EVIL])]
    cells = [new_markdown_cell(EVIL), written, new_code_cell(EVIL, outputs=results), new_raw_cell(EVIL)]
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"x": "</script><script>alert(15)</script>"}}}
    page = formgraded(books, new_notebook(cells=cells, metadata={"widgets": state, "title": EVIL}))
    empty = formgraded(books, new_notebook())
    assert "alert(2)" in page
    attacks = [what for what in Live(page).found if what not in Live(empty).found]
    # Formgrader's own fields for points, and pictures that are no documents
    own = {"id", "button", "input", "data:image/svg+xml;base64"}
    assert {what.split(",")[0] for what in attacks} <= own, attacks
    assert Live(page).found.count("script") == Live(empty).found.count("script")


@pytest.mark.hostile
def test_formgrader_s_page_colours_no_long_code(books: Books) -> None:
    short, long = "def short(): return 1", "def long(): return 1\n" * 1_000
    page = formgraded(books, new_notebook(cells=[new_code_cell(short), new_code_cell(long)]))
    assert '<span class="nf">short</span>' in page and f"<pre>{long}</pre>" in page


@pytest.mark.hostile
def test_a_name_is_no_markup_in_formgrader(books: Books, tmp_path: Path) -> None:
    """Formgrader puts names into its page as they are: they go into the books without what begins markup."""
    released = nbformat.read(grading.LESSONS / "en" / "02_qkv.ipynb", as_version=4)
    name = 'Eve <img src=x onerror="alert(1)"> O\'Neil 王小明'
    submission = Submission("s1", name, "02_qkv", "en", "", "x.ipynb", None, "ok", "", released)
    books.enter(Record("s1", name, "02_qkv", "en", "x.ipynb", "graded", "", key="1"), submission)
    with Gradebook(books.config.CourseDirectory.db_url) as book:
        student = book.find_student("s1")
        names = {"first_name": student.first_name, "last_name": student.last_name}
    assert names["first_name"] == "Eve" and names["last_name"].endswith("O'Neil 王小明")
    assert "<" not in names["last_name"] and '"' not in names["last_name"]


def test_a_name_of_one_word_begins_with_no_comma_in_formgrader() -> None:
    """It shows "last, first"."""

    def shown(name: str) -> str:
        first, last = names_in_formgrader(name, "1234501")
        return f"{last}, {first}"

    assert shown("王小明") == "王小明, 1234501" and shown("Emma van Dyke") == "van Dyke, Emma"
    assert shown(" <b> ") == "b, 1234501" and shown("<>") == "1234501, 1234501"


@pytest.mark.hostile
def test_the_feedback_page_shows_all_of_it_as_text(tmp_path: Path) -> None:
    waiting = both("Graded by your instructor.", "由授課教師評分。")
    grade = Grade("02_w1", 1.0, 2, "by hand", waiting, answer=EVIL, printed=EVIL, comment=EVIL)
    record = Record("s1", EVIL, "02_qkv", "en", "x.ipynb", "graded", EVIL, grades=[grade], notes=[both(EVIL, EVIL)])
    page = report.feedback_page(record, grading.LESSONS, EVIL)
    assert page.count("&lt;script&gt;alert(1)") >= 4
    body = page[page.index("<body") :]
    assert [what for what in Live(body).found if what not in ("id", "#02_w1")] == []
