"""The report: one file that holds everything as data, asks nobody for anything, and does what it says."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.errors import DataError, StorageError
from gcmf.report import page
from gcmf.report.words import summary, warnings_of

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")

DOM = Path(__file__).with_name("dom.js")
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "<!--",
    "{{data}}",
    "\u2028 & \ud83d \"'",
]


def collection(n=20):
    rng = np.random.default_rng(0)
    u, v, w = rng.normal(size=(n, 2)), rng.normal(size=(15, 2)), rng.normal(size=(12, 2))
    rows = HOSTILE + [f"row {k}" for k in reversed(range(n - len(HOSTILE)))]
    x, y = u @ v.T + 0.2 * rng.normal(size=(n, 15)), (u @ w.T + rng.normal(size=(n, 12)) > 0).astype(float)
    return gcmf.Collection([
        gcmf.Relation("x", "a", "b", x, row_ids=rows),
        gcmf.Relation("<b>y</b>", "a", "c", y, "bernoulli", row_ids=rows),
    ])  # fmt: skip


def fitted(data, n_factors=3, **options):
    return gcmf.GCMF(n_factors, random_state=0, max_iter=80, n_threads=1, progress=False, **options).fit(data)


@pytest.fixture(scope="module")
def split():
    return collection().split(0.2, random_state=1)


@pytest.fixture(scope="module")
def model(split):
    return fitted(split[0])


@pytest.fixture(scope="module")
def text(model, split):
    return page.render(model, split[1])


def told(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def acted(text, folder, *actions):
    """What the page shows after some actions, in a DOM that has just what its script needs."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node, which runs the script of the page, is not installed")
    file = folder / "page.html"
    file.write_text(text, encoding="ascii")
    done = subprocess.run(
        [node, DOM, file], input=json.dumps(actions), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ids_are_data_and_never_markup(text, model):
    assert text.isascii()
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2
    assert not re.search("<(img|b>|!--)", text)
    (ids,) = (part["ids"] for part in told(text)["sets"] if part["name"] == "a")
    assert set(ids) == set(model.factors("a").index)
    assert "{{" not in text.replace("{{data}}", "")


def test_the_policy_allows_this_script_and_style_and_no_request(text):
    (policy,) = re.findall('Content-Security-Policy" content="([^"]*)"', text)
    for kind, tag in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        (inner,) = re.findall(tag, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert set(re.findall(r"https?://[^\s\"]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|innerHTML|eval)\b", page._part("page.js"))


def test_it_says_what_was_found(text, model):
    words = " ".join(summary(model))
    roles = model.structure()["role"].value_counts()
    assert "2 relations over 3 entity sets: a (20), b (15) and c (12)." in words
    assert f"{len(model.structure())} factor" in words
    assert f"{roles['shared']} shared by all relations" in words
    data = told(text)
    assert data["summary"] == summary(model)
    shares = pd.DataFrame(data["explained"]["shares"], columns=data["explained"]["parts"])
    wide = model.variance_explained()
    assert np.allclose(shares, wide[shares.columns], atol=1e-4)
    score = data["test"][0]["score"]
    assert score["n"] == len(data["test"][0]["observed"])
    assert data["settings"]["n_factors"] == "3"
    assert data["versions"]["gcmf"] == gcmf.__version__


def test_readers_are_warned(split):
    model = gcmf.GCMF(3, random_state=0, max_iter=2, progress=False).fit(split[0])
    assert any("max_iter" in text for text in warnings_of(model))
    declared = gcmf.Relation("r", "p", "q", np.random.default_rng(0).normal(size=(9, 6)))
    with_more = gcmf.Collection([declared], entities={"p": range(12)})
    found = warnings_of(fitted(with_more, 1))
    assert "Without an observed cell: 3 of 12 in p." in " ".join(found)


def test_search_opens_an_entity(text, model, tmp_path):
    shown, nobody = acted(
        text, tmp_path, {"do": "type", "in": "entity", "text": "<SCRIPT"},
        {"do": "click", "in": "entities", "on": HOSTILE[0]}, {"do": "text", "in": "entities"},
        {"do": "type", "in": "entity", "text": "no such name"}, {"do": "text", "in": "entities"},
    )  # fmt: skip
    assert f"Factors of {HOSTILE[0]}" in shown
    nearest = model.similar("a", [HOSTILE[0]], 1)["item"].iloc[0]
    after = re.sub(r"\s+", " ", shown.split(f"Nearest to {HOSTILE[0]}")[1])
    assert after.startswith(f" a likeness {nearest} ")
    assert "Best and worst predicted in" in shown
    assert "nobody of this name" in nobody


def test_search_lists_whole_names_first(text, tmp_path):
    (shown,) = acted(text, tmp_path, {"do": "type", "in": "entity", "text": "ROW 1"}, {"do": "text", "in": "entities"})
    assert re.findall(r"row \d+", shown)[:3] == ["row 1", "row 14", "row 13"]


def test_pages_of_factors_sort(text, model, tmp_path):
    rows, up, down = acted(
        text, tmp_path, {"do": "rows", "in": "factors", "at": 0}, {"do": "click", "in": "factors", "on": "mean"},
        {"do": "rows", "in": "factors", "at": 0}, {"do": "click", "in": "factors", "on": "mean"},
        {"do": "rows", "in": "factors", "at": 0},
    )  # fmt: skip
    first = told(text)["factors"][0]["name"]
    means = model.factors("a")[first]
    assert [row[0] for row in rows] == means.abs().sort_values(ascending=False).index.tolist()
    assert [row[0] for row in up] == means.sort_values(ascending=False).index.tolist()
    assert [row[0] for row in down] == means.sort_values().index.tolist()


def test_hover_and_theme(text, tmp_path):
    shown, bins, bound, dark, light = acted(
        text, tmp_path, {"do": "hover", "in": "structure", "at": 0}, {"do": "hover", "in": "test", "at": 0},
        {"do": "hover", "in": "convergence", "at": 0}, {"do": "theme"}, {"do": "theme"},
    )  # fmt: skip
    assert re.fullmatch(r"F\d+ in a: [\d.]+% active, (shared|partial|private)", shown)
    assert bins.startswith("predicted ")
    assert bound.startswith("sweep ")
    assert (dark, light) == ("dark", "light")


def others():
    """Models that are unlike the usual one."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(14, 1))
    x = u @ u.T + 0.1 * rng.normal(size=(14, 14))
    yield "network", [gcmf.Relation("follows", "p", "p", x, symmetric=False),
                      gcmf.Relation("alike", "p", "p", (x + x.T) / 2, symmetric=True)], {}  # fmt: skip
    yield "noise", [gcmf.Relation("r", "p", "q", rng.normal(size=(30, 20)))], {"bias": False}
    yield "draws", [gcmf.Relation("r", "p", "q", x)], {"inference": "gibbs", "n_samples": 8, "n_burn": 2}
    at = np.arange(63)
    long = pl.DataFrame({"p": [f"p{k}" for k in at % 9], "q": at % 7, "v": rng.normal(size=63)})
    yield "polars", [gcmf.Relation.from_frame("r", long, rows="p", cols="q", row="p", col="q", value="v")], {}
    levels = [("one", k) for k in range(14)]
    yield "levels", [gcmf.Relation("r", "p", "q", x, row_ids=levels)], {"keep": "nothing"}


@pytest.mark.parametrize("case", list(others()), ids=lambda case: case[0])
def test_every_model_has_a_report(case, tmp_path):
    _, relations, options = case
    data = gcmf.Collection(relations)
    model = fitted(data, 2, **options)
    for test in (None, data):
        (shown,) = acted(page.render(model, test), tmp_path, {"do": "text"})
        assert "Settings and versions" in shown
        assert ("Held-out cells" in shown) == (test is not None)


def test_large_models_make_no_large_file(model, monkeypatch):
    whole = page.render(model)
    monkeypatch.setattr(page, "_MOST", (20, 5, 0))
    monkeypatch.setattr(page, "LARGEST", len(whole) - 1)
    small = page.render(model)
    assert len(small) < len(whole)
    assert len(told(small)["searched"]["a"]["ids"]) == 5
    # Who is on the page of a factor is named all the same.
    assert len(told(small)["factors"][0]["top"]["a"][0]) == 20


def test_the_file_is_written_whole_or_not_at_all(model, split, tmp_path):
    file = tmp_path / "report.html"
    model.report(file, test=split[1])
    assert file.read_text(encoding="ascii").startswith("<!DOCTYPE html>")
    with pytest.raises(StorageError, match="no folder"):
        model.report(tmp_path / "nowhere" / "report.html")
    with pytest.raises(DataError, match=r"report\(test=\) takes a Collection"):
        model.report(file, test=3)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_command(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    i, j = np.nonzero(rng.random((20, 12)) < 0.7)
    frame = pd.DataFrame({"user_id": i, "movie_id": j, "stars": rng.normal(size=len(i))})
    frame.to_csv(tmp_path / "data/ratings.csv", index=False)

    def run(*arguments):
        return CliRunner().invoke(main.app, [str(argument) for argument in arguments])

    assert run("init", tmp_path / "data").exit_code == 0
    assert run("fit", tmp_path / "data").exit_code == 0
    out = tmp_path / "out.html"
    done = run("report", tmp_path / "data/model.gcmf", "--test", tmp_path / "data", "-o", out, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"file": str(out), "bytes": out.stat().st_size}
    assert told(out.read_text())["test"][0]["relation"] == "ratings"
    table = tmp_path / "test.csv"
    frame[:20].to_csv(table, index=False)
    for given in (table, f"ratings={table}"):
        assert run("report", tmp_path / "data/model.gcmf", "--test", given, "-o", out, "--force").exit_code == 0
        assert told(out.read_text())["test"][0]["score"]["n"] == 20
    twice = run("report", tmp_path / "data/model.gcmf", "--test", table, "--test", table, "-o", out, "--force")
    assert "--test names a relation twice" in twice.stderr
    assert "already" in run("report", tmp_path / "data/model.gcmf", "-o", out).stderr
    assert run("report", tmp_path / "data/model.gcmf", "-o", out, "--force").exit_code == 0
