"""Screenshots of two reports, into docs/report/: python -m website.screenshots.

One is of the built-in digits, one of MovieLens 100K (GCMF_DATA, or ../shared/data), light, dark and on a phone. Needs
Chromium and playwright, as the tests of the report do.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from PIL import Image

import gcmf
from gcmf import datasets
from gcmf.demo import HIDDEN_PIXELS, N_IMAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

FOLDER = Path(__file__).parents[1] / "docs" / "report"
DESK, PHONE = {"width": 1100, "height": 1400}, {"width": 400, "height": 1100}
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def digits(file: Path) -> str:
    """Report of the demonstration's digits; what to search for in it."""
    train, test = datasets.digits(N_IMAGES).split(HIDDEN_PIXELS, relations=["left", "right"], random_state=0)
    gcmf.GCMF(random_state=0).fit(train).report(file, test=test)
    return "(3, 3)"


def movielens(file: Path) -> str:
    """Report of MovieLens 100K, with titles in place of numbers; what to search for in it."""
    folder = datasets.find_data_folder()
    if folder is None:
        msg = "There is no MovieLens here: set GCMF_DATA."
        raise SystemExit(msg)
    train, test = datasets.load_movielens_100k(folder / "ml-100k")
    items = pd.read_csv(folder / "ml-100k/u.item", sep="|", header=None, encoding="latin-1", index_col=0)
    again = items.groupby(1).cumcount()  # a few titles come twice
    titles = items[1] + again.map(lambda n: f" ({n + 1})" if n else "")
    model = gcmf.GCMF(20, random_state=0).fit(_titled(train, titles))
    model.report(file, test=_titled(test, titles))
    return "Star Wars"


def _titled(data: gcmf.Collection, titles: pd.Series[str]) -> gcmf.Collection:
    """The same relations, with movies by their titles."""
    ids = {name: pd.Index(known.ids) for name, known in data.entities.items()}
    ids["movie"] = pd.Index(titles.reindex(ids["movie"]))
    relations = []
    for name, bound in data.relations.items():
        i, j, x = bound.cells.triplets()
        triplets = (ids[bound.rows].take(i), ids[bound.cols].take(j), x)
        relations.append(gcmf.Relation(name, bound.rows, bound.cols, triplets, bound.likelihood))
    return gcmf.Collection(
        relations, entities={name: known for name, known in ids.items() if name in ("user", "movie")}
    )


def shots(file: Path, name: str, wanted: str) -> None:
    """Light and dark tops of the page, its part on factors and entities, and how a phone shows it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a tool of those who write the pages

    with sync_playwright() as play:
        path = os.environ.get("GCMF_BROWSER") or shutil.which("chromium")
        browser = play.chromium.launch(executable_path=path, args=_FLAGS)
        for scheme, size, kind in (("light", DESK, "light"), ("dark", DESK, "dark"), ("light", PHONE, "phone")):
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.goto(file.as_uri())
            _keep(page, f"{name}-{kind}")
            if kind == "light":
                page.select_option("#set", index=1)
                page.fill("#entity", wanted)
                page.click("#entities ul button >> nth=0")
                page.locator("#entities").scroll_into_view_if_needed()
                page.evaluate("document.getElementById('entities').scrollIntoView()")
                _keep(page, f"{name}-entity")
        browser.close()


def _keep(page: Page, name: str) -> None:
    """Write a screenshot in 200 colors, half of the bytes."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(200, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


def main() -> None:
    """Make both reports, and pictures of them."""
    made: dict[str, Callable[[Path], str]] = {"digits": digits, "movielens": movielens}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in made.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.html"
            shots(file, name, make(file))


if __name__ == "__main__":
    main()
