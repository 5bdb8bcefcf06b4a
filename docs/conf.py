"""Sphinx's settings, the same for both languages; docs/build.py puts the pages together and starts Sphinx.

The pages need nothing from outside: mathematics becomes MathML while building, pictures on other servers become their text.
"""

import gettext
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util import logging

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COURSE = SETTINGS["tool"]["course"]
REPOSITORY = COURSE["repository"]
LANGUAGE = os.environ.get("DOCS_LANGUAGE", "en")  # set by docs/build.py
CHINESE = LANGUAGE == "zh-TW"

project = "用線性代數讀懂 Transformer" if CHINESE else "Transformers as linear algebra"
version = release = SETTINGS["project"]["version"]
language = "zh_TW" if CHINESE else "en"
html_title = project
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/.ipynb_checkpoints"]

# Lessons are shown as released: run they are by the tests.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3

# Docstrings write `x` for code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring, napoleon_numpy_docstring = True, False

html_theme = "furo"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["course.css"]

logger = logging.getLogger(__name__)
converter = LatexToMathML()


# -------------------------------------------------------------------------------------------------- mathematics


def mathml(node: nodes.Node, display: bool) -> str:
    """A formula as MathML, which browsers set by themselves."""
    try:
        return converter.convert_with_local_state(node.astext(), displaystyle=display)
    except LatexError as problem:
        logger.warning("this formula cannot be read: %s (%s)", node.astext(), problem, location=node)
        return ""


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(f'<span class="math">{mathml(node, False)}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    # A wide formula is scrolled by itself, with the keyboard too.
    self.body.append(f'<div class="math" tabindex="0">{mathml(node, True)}</div>')
    raise nodes.SkipNode


# ------------------------------------------------------------------------------------------------------- search


class Search(SearchEnglish):
    """English words, and Chinese in pairs of characters: there are no spaces to split at, and a pair is nearly a word."""

    lang = "zh"
    js_splitter_code = r"""
function splitQuery(query) {
  return query.split(/([\u3400-\u9fff]+)|[^\p{Letter}\p{Number}_]+/u).filter(Boolean).flatMap((word) =>
    /^[\u3400-\u9fff]{2,}$/.test(word) ? [...word].slice(1).map((second, i) => word[i] + second) : [word]);
}
"""

    def split(self, input: str) -> list[str]:
        words = []
        for word in re.findall(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+", input):
            pairs = [word[i : i + 2] for i in range(len(word) - 1)] if "\u3400" <= word[0] <= "\u9fff" else []
            words += pairs or [word]
        return words

    def word_filter(self, word: str) -> bool:
        return len(word) > 1 and super().word_filter(word)


# -------------------------------------------------------------------------------------------------------- links


def address(target: str, page: str) -> str | None:
    """Where a link of a notebook or a text leads that is none of this language's pages; None if nobody knows."""
    path, _, anchor = target.partition("#")
    up = "../" * (page.count("/") + 1)
    if other := re.fullmatch(r"(?:.*/)?(en|zh-TW)/(\w+)\.(ipynb|html|md)", path):
        folder = "lessons/" if other[3] == "ipynb" else ""
        found = f"{up}{other[1]}/{folder}{other[2]}.html"
    elif path and (file := (ROOT / "docs" / LANGUAGE / path).resolve()).is_relative_to(ROOT) and file.exists():
        found = f"{REPOSITORY}/blob/{COURSE['release']}/{file.relative_to(ROOT)}"
    else:
        return None
    return found + (f"#{anchor}" if anchor else "")


def follow_links(app: Sphinx, doctree: nodes.document) -> None:
    """Links to the other language and to files of the repository, which are no pages here."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftype"] == "myst" and (found := address(node["reftarget"], app.env.docname)):
            node.replace_self(nodes.reference("", "", *node.children, internal=False, refuri=found))


def literal_bars(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """|a| in a docstring is an absolute value, not a substitution."""
    lines[:] = [re.sub(r"(?<![`|\w])\|(\w+)\|", r"\\|\1\\|", line) for line in lines]


def without_outside_pictures(app: Sphinx, doctree: nodes.document) -> None:
    """A picture that lies on another server (the badges) becomes its text."""
    for image in list(doctree.findall(nodes.image)):
        if "://" in image["uri"]:
            image.replace_self(nodes.Text(image.get("alt", "")))


def accessible(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Captions that Sphinx calls headings get their level; code that is wider than the screen is scrolled with the keyboard too."""
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            html = context[part].replace(' role="heading">', ' role="heading" aria-level="2">')
            context[part] = html.replace("<pre>", '<pre tabindex="0">')


THEMES_WORDS = {
    "Next": "下一頁", "Previous": "上一頁", "Home": "首頁", "Back to top": "回到頂端", "On this page": "本頁內容",
    "Made with ": "使用的佈景主題：",
}  # fmt: skip


class ThemesWords(gettext.NullTranslations):
    """What the theme itself writes below a page; Sphinx's own Chinese words do not hold it."""

    def gettext(self, message: str) -> str:
        return THEMES_WORDS.get(message, message)


def in_chinese(app: Sphinx) -> None:
    if CHINESE:
        app.translator.add_fallback(ThemesWords())


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", in_chinese)
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    app.add_search_language(Search)
    app.connect("doctree-read", follow_links)
    app.connect("doctree-read", without_outside_pictures)
    app.connect("html-page-context", accessible, priority=900)
    app.connect("autodoc-process-docstring", literal_bars)


html_math_renderer = "mathml"
html_search_language = "zh"
