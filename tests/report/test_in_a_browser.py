"""The report in a real browser, opened from disk: it works, it is quiet, it asks nobody, and anybody can use it."""

import re

import numpy as np
import pytest

import gcmf
from browser import PHONE, Tab, chromium

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(n, 2)) for n in (40, 15, 12))
    names = [HOSTILE, *(f"row {k}" for k in range(39))]
    x, y = u @ v.T + 0.2 * rng.normal(size=(40, 15)), (u @ w.T + rng.normal(size=(40, 12)) > 0).astype(float)
    data = gcmf.Collection([
        gcmf.Relation("<b>x</b>", "a", "b", x, row_ids=names),
        gcmf.Relation("y", "a", "c", y, "bernoulli", row_ids=names),
    ])  # fmt: skip
    train, test = data.split(0.2, random_state=1)
    made = gcmf.GCMF(3, random_state=0, max_iter=80, n_threads=1, progress=False).fit(train)
    made.held_out = test
    return made


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    model.report(path, test=model.held_out)
    return path


@pytest.fixture
def tab(browser, file):
    opened = Tab(browser, file.as_uri())
    yield opened
    assert opened.faults == []
    assert opened.asked == [file.as_uri()]  # itself, and nothing else, whatever the test did
    opened.close()


def test_an_id_is_text_wherever_it_is_shown(tab):
    tab.page.fill("#entity", "<script")
    tab.page.click(f"#entities ul button:has-text('{HOSTILE}')")
    assert HOSTILE in tab.text("#entities h3 >> nth=0")
    assert tab.page.locator("#entities script").count() == 0
    assert "<b>x</b>" in tab.text("#schema table")
    assert tab.page.locator("main b").count() == 0


def test_search_finds_an_entity_by_the_keyboard_alone(tab, model):
    tab.page.focus("#entity")
    tab.page.keyboard.type("row 17")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Enter")
    shown = tab.text("#entities")
    assert "Factors of row 17" in shown
    assert str(model.similar("a", ["row 17"], 1)["item"].iloc[0]) in shown.split("Nearest to row 17")[1]


def test_a_page_of_a_factor_opens_from_the_structure_and_sorts(tab, model):
    last = model.structure().index[-1]
    tab.page.click(f"#structure a:text-is('{last}')")
    assert tab.page.input_value("#factor") == last
    heads, body = "#factors table >> nth=0 >> thead th", "#factors table >> nth=0 >> tbody tr"
    tab.page.click(f"{heads} >> button:text-is('mean')")
    means = [float(line.split("\t")[1]) for line in tab.page.locator(body).all_inner_texts()]
    assert len(means) > 3
    assert means == sorted(means, reverse=True)
    tab.page.click(f"{heads} >> button:text-is('mean')")
    again = [float(line.split("\t")[1]) for line in tab.page.locator(body).all_inner_texts()]
    assert again == sorted(means)


def test_hover_and_focus_show_values(tab):
    tab.page.hover("#structure tbody td >> nth=0")
    assert tab.page.is_visible("#tip")
    assert re.fullmatch(r"F\d+ in a: [\d.]+% active, (shared|partial|private)", tab.text("#tip"))
    tab.page.focus("#test g[tabindex] >> nth=0")
    assert tab.text("#tip").startswith("predicted ")
    tab.page.keyboard.press("Escape")
    assert not tab.page.is_visible("#tip")
    tab.page.hover("#convergence svg rect")
    assert re.match(r"sweep \d+: -?[\d,.]+", tab.text("#tip"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
def test_anybody_can_use_it(browser, file, scheme, size):
    opened = Tab(browser, file.as_uri(), size=size, scheme=scheme)
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = np.mean([int(part) for part in re.findall(r"\d+", paper)[:3]])
    assert (bright < 100) == (scheme == "dark")
    assert opened.overflows() <= 0
    assert opened.serious() == []
    opened.page.click("#theme")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
    for button in opened.page.locator("main button:text-is('Show numbers')").all():
        button.click()
    opened.page.fill("#entity", "row 3")
    opened.page.click("#entities ul button >> nth=0")
    opened.page.wait_for_timeout(50)
    assert opened.serious() == []
    assert opened.overflows() <= 0
    assert opened.faults == []
    opened.close()
