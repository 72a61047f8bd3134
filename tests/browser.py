"""A headless Chromium for pages that are to be seen: what it logs, what it asks for, and what axe-core finds."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PHONE = {"width": 400, "height": 800}
DESK = {"width": 1200, "height": 900}


@contextmanager
def chromium():
    """Yield the browser of this machine; skip where there is none, or nothing to drive it with."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright, which drives a browser, is not installed")
    path = os.environ.get("GCMF_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed, and GCMF_BROWSER names none")
    with driver.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Tab:
    """An open page, and what went on in it."""

    def __init__(self, browser, address, *, size=None, scheme="light"):
        self.context = browser.new_context(viewport=size or DESK, color_scheme=scheme)
        self.page = self.context.new_page()
        self.faults, self.asked = [], []
        self.page.on(
            "console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def _hear(self, said):
        if said.type in ("error", "warning"):
            self.faults.append(said.text)

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def overflows(self):
        """By how many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def serious(self):
        """What axe-core finds that keeps somebody from using the page."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
        found = axe.Axe().run(self.page).response["violations"]
        return [
            (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"][:3]])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]

    def close(self):
        self.context.close()
