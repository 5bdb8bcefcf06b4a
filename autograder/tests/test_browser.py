"""What people see, in a real browser: pages of grades, a lesson in JupyterLab, formgrader.

Needs a Chromium and Playwright; the accessibility checks need axe-core besides (npm install axe-core; AXE_CORE=…/axe.min.js
says where else it lies). What is missing is skipped, with its reason.
"""

import importlib.util
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest
import torch

from autograder.exercise import get
from autograder.pipeline.grading import grade
from autograder.tests.conftest import GradedClass
from course_lib.config import TransformerConfig
from course_lib.explorer import explore
from course_lib.transformer import Transformer

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
expect = playwright.expect

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), "chromium", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
EMPTY = '<svg xmlns="http://www.w3.org/2000/svg"/>'
LANGUAGES = ("en", "zh-TW")
PHONE, DESK = 390, 1000
SLOW = 120_000  # ms; a busy machine takes its time

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("sample class"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium (CHROMIUM=… says where)"),
]


# ------------------------------------------------------------------------------------------------- the browser


@dataclass
class Tab:
    """A page of the browser, and what it asked for and complained about."""

    page: "playwright.Page"
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def outside(self) -> list[str]:
        """Requests to anywhere but this machine, other than for the badge."""
        near = re.compile(r"(file|data|blob|about):|https?://127\.0\.0\.1:")
        return [url for url in self.requests if not near.match(url) and url != BADGE]


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright.Browser"]:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def open_tab(browser: "playwright.Browser", width: int = DESK, **options: object) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(SLOW)
    # The one picture that lessons take from elsewhere, and may.
    context.route(BADGE, lambda route: route.fulfill(content_type="image/svg+xml", body=EMPTY))
    tab = Tab(context.new_page())
    tab.page.on("request", lambda request: tab.requests.append(request.url))
    tab.page.on("pageerror", lambda error: tab.complaints.append(f"{error} {error.stack or ''}"))
    tab.page.on(
        "console",
        lambda said: tab.complaints.append(f"{said.text} {said.location['url']}") if said.type == "error" else None,
    )
    yield tab
    context.close()


def scrolls_sideways(tab: Tab) -> int:
    """By how many pixels the page is wider than the screen."""
    return tab.page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")


# --------------------------------------------------------------------------------------------- pages of the class


@pytest.fixture(scope="module")
def axe() -> str:
    places = [os.environ.get("AXE_CORE"), ROOT / "node_modules/axe-core/axe.min.js"]
    found = next((Path(place) for place in places if place and Path(place).is_file()), None)
    if found is None:
        pytest.skip("needs axe-core: npm install axe-core here, or AXE_CORE=…/axe.min.js")
    return found.read_text(encoding="utf-8")


def findings(tab: Tab, axe: str) -> list[str]:
    """What axe-core finds serious or critical."""
    tab.page.evaluate(axe)
    result = tab.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{found['impact']} {found['id']}: {node['html'][:200]} {node['failureSummary']}"
        for found in result["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


def pages_of(graded: GradedClass, language: str) -> list[Path]:
    """The class page and every student's page in a language; pages in both languages count as English."""
    start = f'<html lang="{language}">'
    pages = [
        p for p in sorted(graded.out.rglob("*.html")) if "nbgrader" not in p.parts and start in p.read_text("utf-8")
    ]
    assert len(pages) > 3
    return pages


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_fit_and_stand_alone(browser, graded_class: GradedClass, language: str, width: int) -> None:
    for path in pages_of(graded_class, language):
        with open_tab(browser, width) as tab:
            tab.page.goto(path.as_uri())
            assert (path.name, scrolls_sideways(tab)) == (path.name, 0)
            assert tab.requests == [path.as_uri()]
            assert tab.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_are_accessible(browser, graded_class: GradedClass, axe: str, language: str, scheme: str) -> None:
    with open_tab(browser, PHONE, color_scheme=scheme, bypass_csp=True) as tab:
        for path in pages_of(graded_class, language):
            tab.page.goto(path.as_uri())
            tab.page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true })")
            assert (path.name, findings(tab, axe)) == (path.name, [])
            assert tab.page.locator("h1").count() == 1


def test_every_link_of_the_class_page_opens(browser, graded_class: GradedClass) -> None:
    with open_tab(browser) as tab:
        for name in ("class.html", "class.zh-TW.html"):
            tab.page.goto((graded_class.out / name).as_uri())
            links = tab.page.evaluate("[...document.links].map((link) => link.href)")
            assert links
            for link in links:
                path, _, anchor = link.partition("#")
                assert path.startswith("file://")
                if anchor:
                    assert tab.page.evaluate("(id) => document.getElementById(decodeURIComponent(id)) !== null", anchor)
                else:
                    assert Path(urllib.request.url2pathname(path.removeprefix("file://"))).is_file(), link


# ------------------------------------------------------------------------------------------------- the explorer


@pytest.mark.parametrize("language", LANGUAGES)
def test_explorer(browser, axe: str, tmp_path: Path, language: str) -> None:
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "vocab_size": 17}
    model = Transformer(TransformerConfig.preset("vaswani_base", **sizes))
    picture = explore(model, torch.tensor([[5, 7, 9, 4]]), torch.tensor([[1, 6, 8]]), language=language)
    page = tmp_path / "explorer.html"
    page.write_text(
        f'<!DOCTYPE html><html lang="{language}"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>explorer</title><main><h1>x</h1><h2>x</h2><h3>x</h3>{picture}</main></html>",
        encoding="utf-8",
    )
    with open_tab(browser, PHONE) as tab:
        tab.page.goto(page.as_uri())
        blocks = tab.page.locator("details")
        blocks.nth(0).locator("summary").click()
        assert [blocks.nth(i).evaluate("d => d.open") for i in (0, 1)] == [True, False]
        tab.page.keyboard.press("Tab")
        tab.page.keyboard.press("Enter")
        assert [blocks.nth(i).evaluate("d => d.open") for i in (0, 1)] == [True, True]
        tab.page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true })")
        assert findings(tab, axe) == []
        assert scrolls_sideways(tab) == 0
        assert tab.requests == [page.as_uri()] and tab.complaints == []


# ----------------------------------------------------------------------------------------------------- JupyterLab


@contextmanager
def jupyter_lab(folder: Path, home: Path) -> Iterator[str]:
    """A JupyterLab in a folder, with nothing of the user's settings; its address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        "JUPYTER_CONFIG_DIR": home / "config", "JUPYTER_DATA_DIR": home / "data", "JUPYTER_RUNTIME_DIR": home / "run",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings", "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
    ]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    address = f"http://127.0.0.1:{port}/"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "server.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **{k: str(v) for k, v in own.items()}}, stdout=log, stderr=log
        )
        try:
            wait_for(lambda: answers(address + "api"), 120, lambda: (home / "server.log").read_text("utf-8")[-2000:])
            yield address
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def wait_for(happened: Callable[[], object], seconds: float, why: Callable[[], str] = lambda: "") -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, why()
        time.sleep(0.2)


class Notebook:
    """A notebook that is open in JupyterLab, worked with the keyboard."""

    PANEL = "jupyterapp.shell.currentWidget"

    def __init__(self, tab: Tab, address: str, path: str) -> None:
        self.tab, self.page = tab, tab.page
        # A workspace of its own: the default one opens what was open before.
        self.page.goto(f"{address}lab/workspaces/{path.removesuffix('.ipynb').replace('/', '-')}/tree/{path}")
        self.page.wait_for_function(f"window.jupyterapp && {self.PANEL}?.content?.widgets?.length > 1")
        self.page.wait_for_function(f"{self.PANEL}.sessionContext.session?.kernel?.status === 'idle'")

    def go_to(self, cell: str) -> int:
        """Make a cell the active one, in command mode."""
        return self.page.evaluate(
            f"""async (id) => {{
                const notebook = {self.PANEL}.content;
                const index = notebook.widgets.findIndex((cell) => cell.model.id === id);
                if (index < 0) throw new Error('no cell ' + id);
                notebook.mode = 'command';
                notebook.activeCellIndex = index;
                notebook.deselectAll();
                await notebook.scrollToItem(index, 'smart');
                notebook.node.focus();
                notebook.activate();
                return index;
            }}""",
            cell,
        )

    def write(self, cell: str, text: str) -> None:
        self.go_to(cell)
        self.page.keyboard.press("Enter")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def run(self, cell: str) -> str:
        """Run a cell with Shift+Enter, wait until it is done; the text of its outputs."""
        index = self.go_to(cell)
        model = f"{self.PANEL}.content.widgets[{index}].model"
        before = self.page.evaluate(f"{model}.executionCount")
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_function(
            f"(before) => {model}.executionCount !== null && {model}.executionCount !== before"
            f" && {model}.executionState === 'idle'",
            arg=before,
        )
        outputs = self.page.evaluate(f"{model}.outputs.toJSON()")
        assert [o for o in outputs if o["output_type"] == "error"] == []
        return "".join("".join(o.get("text", "")) for o in outputs)

    def cell(self, cell: str) -> "playwright.Locator":
        """The cell on the screen."""
        self.go_to(cell)
        return self.page.locator(".jp-Notebook-cell.jp-mod-active")

    def save(self, file: Path) -> None:
        before = file.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        wait_for(lambda: file.stat().st_mtime_ns != before, 60)
        self.page.wait_for_function(f"!{self.PANEL}.context.model.dirty")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab over a copy of the lessons."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "lessons", folder / "lessons")
    with jupyter_lab(folder / "lessons", folder / "home") as address:
        yield address, folder / "lessons"


RIGHT = "def relevance(q, K):\n    return K @ q\n"
WRONG = "def relevance(q, K):\n    return q @ K\n"
STUDENT = "B10902042"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_student_at_work(browser, lab: tuple[str, Path], tmp_path: Path, language: str) -> None:
    address, lessons = lab
    file = lessons / language / "02_qkv.ipynb"
    (mistake,) = [m for m in get("relevance").mistakes if m.name == "columns_of_K"]
    with open_tab(browser) as tab:
        notebook = Notebook(tab, address, f"{language}/02_qkv.ipynb")
        setup = next(cell for cell in json.loads(file.read_text("utf-8"))["cells"] if cell["id"] == "setup")
        notebook.write("setup", "".join(setup["source"]).replace('STUDENT_ID = ""', f'STUDENT_ID = "{STUDENT}"'))
        notebook.run("setup")
        notebook.run("lesson-setup")

        notebook.write("answer-relevance", WRONG)
        notebook.run("answer-relevance")
        said = notebook.run("check-relevance")
        assert said.startswith("✗ relevance")
        start = mistake.message[language].split("，")[0].split(",")[0]
        expect(notebook.cell("check-relevance").get_by_text(start)).to_be_visible()

        notebook.write("answer-relevance", RIGHT)
        notebook.run("answer-relevance")
        assert notebook.run("check-relevance").startswith("✓ relevance")

        # The picture of lesson 02's slider changes when the slider is moved.
        notebook.run("answer-attend")  # as released: the course's own stands in
        notebook.run("c-024")
        cell = notebook.cell("c-024")
        picture = cell.locator(".widget-output img, .jupyter-widgets img").first
        before = picture.get_attribute("src")
        cell.locator(".noUi-handle").first.press("ArrowRight")
        expect(picture).not_to_have_attribute("src", before, timeout=SLOW)

        notebook.go_to("title")
        notebook.save(file)
        assert tab.complaints == []
        assert tab.outside() == []

    pile = tmp_path / "pile"
    pile.mkdir()
    shutil.copy(file, pile / "02_qkv.ipynb")
    (record,) = grade(tmp_path / "pile", tmp_path / "grades", workers=1)
    assert record.notebook_id == STUDENT
    assert {g.name: g.status for g in record.grades}["relevance"] == "full"
    assert {g.status for g in record.grades if g.name != "relevance"} == {"not started"}
    (feedback,) = (tmp_path / "grades" / "feedback").rglob("*.html")
    with open_tab(browser, PHONE) as tab:
        tab.page.goto(feedback.as_uri())
        expect(tab.page.locator("#relevance")).to_be_visible()
        assert tab.page.locator("html").get_attribute("lang") == language


def test_the_architecture_opens_in_a_lesson(browser, lab: tuple[str, Path]) -> None:
    address, _ = lab
    with open_tab(browser) as tab:
        notebook = Notebook(tab, address, "en/08_transformer.ipynb")
        for cell in ("setup", "lesson-setup", "c-002", "c-004"):
            notebook.run(cell)
        blocks = notebook.cell("c-004").locator(".tx details")
        blocks.nth(0).locator("summary").click()
        expect(blocks.nth(0)).to_have_attribute("open", "")
        tab.page.keyboard.press("Tab")
        tab.page.keyboard.press("Enter")
        expect(blocks.nth(1)).to_have_attribute("open", "")
        assert tab.complaints == []


# ------------------------------------------------------------------------------------------- the documentation site


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, Path]]:
    """The site, built anew and served from this machine: its address, its folder."""
    if missing := [
        name for name in ("sphinx", "myst_nb", "furo", "math_core") if importlib.util.find_spec(name) is None
    ]:
        pytest.skip(f"needs {', '.join(missing)}: pip install -e '.[docs]'")
    built = subprocess.run([sys.executable, ROOT / "docs" / "build.py"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    folder = ROOT / "build" / "docs"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", folder
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


SITE_PAGES = ("index.html", "en/index.html", "en/lessons/03_sqrt_dk.html", "zh-TW/lessons/02_qkv.html",
              "zh-TW/security.html", "en/reference/course_lib.attention.html")  # fmt: skip


@pytest.mark.parametrize("page", SITE_PAGES)
def test_the_site_stands_alone(browser, site: tuple[str, Path], page: str) -> None:
    address, _ = site
    with open_tab(browser, PHONE) as tab:
        tab.page.goto(address + page)
        assert [url for url in tab.requests if not url.startswith(address)] == []
        assert tab.complaints == []
        assert scrolls_sideways(tab) == 0
        if "lessons" in page:
            assert tab.page.locator("math").count() > 50


def test_the_site_is_accessible(browser, site: tuple[str, Path], axe: str) -> None:
    address, _ = site
    with open_tab(browser) as tab:
        for page in SITE_PAGES:
            tab.page.goto(address + page)
            assert (page, findings(tab, axe)) == (page, [])


@pytest.mark.parametrize(("language", "words"), [("en", "causal mask"), ("zh-TW", "遮罩"), ("zh-TW", "注意力")])
def test_the_site_is_searched(browser, site: tuple[str, Path], language: str, words: str) -> None:
    address, _ = site
    with open_tab(browser) as tab:
        tab.page.goto(f"{address}{language}/search.html?q={words}")
        expect(tab.page.locator("ul.search li a[href*='07_masks_and_cross_attention']").first).to_be_visible()
        tab.page.wait_for_load_state("networkidle")
        assert tab.complaints == []


def test_links_of_the_site(site: tuple[str, Path]) -> None:
    """Every link inside the site leads to a page that is there, and to a place that the page has."""
    _, folder = site
    pages = {page: page.read_text("utf-8") for page in folder.rglob("*.html")}
    places = {page: set(re.findall(r' id="([^"]+)"', text)) for page, text in pages.items()}
    dead = set()
    for page, text in pages.items():
        for link in re.findall(r' (?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = unquote(unescape(link)).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and target in places and anchor not in places[target]):
                dead.add((str(page.relative_to(folder)), link))
    assert dead == set()


# ----------------------------------------------------------------------------------------------------- formgrader


def test_formgrader_from_list_to_points(browser, graded_class: GradedClass, tmp_path: Path) -> None:
    """A written answer of lesson 03 gets its points by hand, in nbgrader's own pages inside JupyterLab."""
    out = graded_class.out
    copy = shutil.copytree(out, tmp_path / "grades")  # its settings hold no address

    def by_hand() -> list[tuple[float]]:
        with closing(sqlite3.connect(copy / "gradebook.db")) as books:
            return books.execute("SELECT manual_score FROM grade WHERE manual_score IS NOT NULL").fetchall()

    assert by_hand() == []
    with jupyter_lab(copy / "nbgrader", tmp_path / "home") as address, open_tab(browser, 1400) as tab:
        page = tab.page
        page.goto(f"{address}lab")
        page.wait_for_function("window.jupyterapp !== undefined")
        page.get_by_role("menuitem", name="Nbgrader").click()
        page.get_by_role("menuitem", name="Formgrader", exact=True).click()
        frame = page.frame_locator("iframe").first
        frame.get_by_role("link", name="Manual Grading").click()
        frame.get_by_role("link", name="03_sqrt_dk").click()
        frame.get_by_role("link", name="03_sqrt_dk").click()
        row = frame.locator("tr", has=frame.locator(".needs-manual-grade .glyphicon"))
        row.locator("a[href*='/formgrader/submissions/']:visible").first.click()
        score = frame.locator("input.score.needs_manual_grade").first
        score.fill("1.5")
        score.press("Tab")
        wait_for(lambda: by_hand() == [(1.5,)], 60, lambda: str(by_hand()))
