"""The documentation site in a real browser, as `make docs` left it: quiet, offline, searchable, usable by anybody."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import gcmf
from browser import PHONE, Tab, chromium

SITE = Path(__file__).parents[2] / "site"
pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="there is no site: make docs")
PAGES = ["index", "gallery", "api/plot", "tutorials/recommender", "from-mofa2", "ledger"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_and_anybody_can_use_it(browser, address, name):
    for scheme, size in (("light", None), ("dark", PHONE)):
        tab = Tab(browser, f"{address}/{name}.html", size=size, scheme=scheme)
        assert tab.page.locator("h1").count() >= 1
        assert tab.overflows() <= 0
        assert tab.serious() == []
        assert tab.page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth > 0 && one.alt)")
        assert tab.faults == []
        assert [url for url in tab.asked if not url.startswith((address, "data:", "blob:"))] == []
        tab.close()


def test_search_finds_what_is_written(browser, address):
    tab = Tab(browser, f"{address}/index.html")
    tab.page.click(".md-search__input")
    tab.page.keyboard.type("fold_in")
    tab.page.wait_for_selector(".md-search-result__item a")
    assert "fold" in tab.text(".md-search-result__list").lower()
    assert tab.faults == []
    tab.close()


def test_the_gallery_shows_each_picture_below_its_line(browser, address):
    tab = Tab(browser, f"{address}/gallery.html")
    shown = tab.page.evaluate("[...document.querySelectorAll('article img')].map((one) => one.alt)")
    questions = tab.page.evaluate(
        "[...document.querySelectorAll('article h2')].map((one) => one.firstChild.textContent)"
    )
    assert shown == questions
    assert len(shown) == 12
    tab.close()


def test_every_public_name_is_in_the_reference():
    text = "".join(path.read_text(encoding="utf-8") for path in (SITE / "api").glob("*.html"))
    names = [name for name in gcmf.__all__ if name not in ("datasets", "errors", "likelihoods", "omics", "plot")]
    public = [*names, *gcmf.plot.__all__, "recommend", "similar", "explain", "fold_in", "report", "digits", "simulate"]
    assert [name for name in public if name != "tables" and f'.{name}"' not in text] == []
