"""What nbgrader's formgrader shows of Markdown: text, formulas, tables and pictures; nothing that runs or is loaded.

Formgrader's template puts Markdown into the instructor's page as it is, whatever `sanitize_html` says, and the page has
Jupyter's own origin: a script there could use the kernels and change the grades. The course's nbgrader_config.py reads
this file by its path, without the rest of the package.
"""

import html
import re
from contextlib import suppress

from bleach.css_sanitizer import CSSSanitizer
from bleach.sanitizer import Cleaner
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

# More is shown as it was typed: some texts take time with the square of their length.
LONGEST = 20_000  # characters, pictures not counted
MOST_TAGS = 500
LONGEST_CODE = (
    5_000  # characters; longer code is shown in one colour, for some takes time with the square of its length
)
PYTHON = {"python", "python3", "py"}
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n){4,}")
TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4",
    "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "ol", "p", "pre", "q", "s", "small", "span", "strong", "sub",
    "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")
STAND_IN = re.compile(r"data:image/png;base64,(\d{6})\b")
# Nothing relative: it would be a request to Jupyter itself. Classes are those of coloured code, whose names are short; ids
# belong to formgrader.
ATTRIBUTES = {
    ("a", "href"): re.compile(r"(https?://|mailto:).*", re.DOTALL),
    ("img", "src"): PICTURE,
    ("ol", "start"): re.compile(r"\d{1,9}"),
    **{("img", name): re.compile(r"\d{1,4}") for name in ("width", "height")},
    **{(tag, name): re.compile(r"\d{1,2}") for tag in ("td", "th") for name in ("colspan", "rowspan")},
    **{(tag, "style"): re.compile(r".*", re.DOTALL) for tag in ("td", "th")},  # `CSSSanitizer` leaves the alignment
    **{(tag, "class"): re.compile(r"highlight|[a-z]{1,2}\d?") for tag in ("div", "span")},
}


def allowed(tag: str, name: str, value: str) -> bool:
    pattern = ATTRIBUTES.get((tag, name))
    return name in ("alt", "title") or (pattern is not None and pattern.fullmatch(value) is not None)


def cleaned(page: str) -> str:
    """HTML of which the rest is shown as the text that it is."""
    cleaner = Cleaner(
        tags=TAGS,
        attributes=allowed,
        protocols=["http", "https", "mailto", "data"],
        css_sanitizer=CSSSanitizer(allowed_css_properties=["text-align"]),
    )
    return str(cleaner.clean(page))


def plain(code: str) -> str:
    return f'<div class="highlight"><pre>{html.escape(code)}</pre></div>'


def without_gaps(code: str) -> str:
    """The code with at most three empty lines in a row."""
    return BLANK_LINES.sub("\n\n\n\n", code)


def highlight_code(code: str, language: str | None = None, metadata: object = None) -> str:
    """In place of nbconvert's filter of this name, which colours IPython's own syntax too, in time without bounds."""
    code = without_gaps(code)
    return str(Highlight2HTML(pygments_lexer="python")(code)) if len(code) <= LONGEST_CODE else plain(code)


class Renderer(IPythonRenderer):
    """Code in colours only where it is Python, and short. A picture that is not there is an empty one; nbconvert's own refuses the whole notebook."""

    def block_code(self, code: str, info: str | None = None) -> str:
        code = without_gaps(code)
        python = (info or "").strip().lower() in PYTHON
        return str(super().block_code(code, info)) if python and len(code) <= LONGEST_CODE else plain(code)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith("attachment:"):
            url = self.attachments.get(url.removeprefix("attachment:"), {}).get("picture", "")
        return str(super().image(text, url, title))


@pass_context
def markdown2html(context: Context, source: str) -> str:
    """In place of nbconvert's filter of this name."""
    pictures: list[str] = []  # megabytes, for which numbers stand while the text is read

    def stand_in(picture: str) -> str:
        pictures.append(picture)
        return f"data:image/png;base64,{len(pictures) - 1:06}"

    def put_back(found: re.Match[str]) -> str:
        return pictures[int(found[1])] if int(found[1]) < len(pictures) else ""

    source = PICTURE.sub(lambda found: stand_in(found[0]), source)
    attachments = {}
    for name, files in context.get("cell", {}).get("attachments", {}).items():
        for kind, data in files.items():
            picture = f"data:{kind};base64,{data}".replace("\n", "")
            if PICTURE.fullmatch(picture):
                attachments[name] = {"picture": stand_in(picture)}
    page = f"<pre>{html.escape(source)}</pre>"
    if len(source) <= LONGEST and source.count("<") <= MOST_TAGS:
        renderer = Renderer(escape=False, attachments=attachments, exclude_anchor_links=True)
        # A parser of someone else's text: whatever it trips over, the text is there to be read.
        with suppress(Exception):
            page = cleaned(MarkdownWithMath(renderer=renderer).render(source))
    return STAND_IN.sub(put_back, page)
