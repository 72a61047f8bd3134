"""Every Python block of the README and of docs/ runs as printed, and prints what is shown below it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Blocks marked "python no-run" (what cannot run here: other people's files) must stay rare.
MAX_UNRUN = 2
#: How far a number may be from the one shown: machines differ in the last bits, and fits a little more.
SHOWN_WITHIN = 0.03
_BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(line number, mark after "python", code, output shown below or None) of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, b.start(2)), b.group(1).strip(), b.group(2), b.group(3)) for b in _BLOCK.finditer(text)
    ]


@pytest.fixture
def options_of_mudata():
    """A page may set options of MuData, which are those of the whole process; other tests want the defaults."""
    yield
    if "mudata" in sys.modules:
        sys.modules["mudata"].set_options(pull_on_update=None)


# What anndata 0.12 and MuData 0.3 still ask of pandas 3.
@pytest.mark.filterwarnings(r"ignore:The 'future\.infer_string' option is deprecated")
@pytest.mark.filterwarnings(r"ignore:The inplace keyword in \w+\.\w+ is deprecated")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("options_of_mudata")
def test_code_runs_as_printed(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names = {"__name__": "__main__"}
    for line, mark, code, shown in blocks(page):
        if mark == "no-run":
            continue
        # Blank lines before the code make tracebacks name the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)
        printed = capsys.readouterr().out
        if shown is not None:
            assert shows(shown, printed), f"{page.name}, line {line}, printed\n{printed}"


def shows(shown, printed):
    """Whether the lines shown are among those printed, in their order; "..." stands for any."""
    rest = iter(printed.splitlines())
    wanted = (line.split() for line in shown.splitlines() if line.strip() != "...")
    return all(any(alike(line, other.split()) for other in rest) for line in wanted)


def alike(shown, printed):
    return len(shown) == len(printed) and all(map(same_word, shown, printed))


def same_word(shown, printed):
    try:
        return abs(float(shown) - float(printed)) <= SHOWN_WITHIN
    except ValueError:
        return shown == printed


def test_the_likelihood_of_the_example_is_the_one_that_is_tested():
    shown = [code for _, _, code, _ in blocks(ROOT / "CONTRIBUTING.md")]
    assert (ROOT / "tests" / "laplace.py").read_text(encoding="utf-8") in shown


def test_what_is_shown_is_compared():
    assert shows("a  1.00\n...\nb", "a 1.02\nx\nb\nc\n")
    assert not shows("a 1.00", "a 1.04")
    assert not shows("b\na", "a\nb")
    assert any(shown for page in PAGES for *_, shown in blocks(page))


def test_blocks_are_found_and_nearly_all_run():
    marks = {page.name: [mark for _, mark, _, _ in blocks(page)] for page in PAGES}
    assert set().union(*marks.values()) <= {"", "no-run"}
    assert len(marks["README.md"]) >= 1
    assert sum(map(len, marks.values())) >= 60
    assert sum(mark == "no-run" for found in marks.values() for mark in found) <= MAX_UNRUN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://")):
            path, _, anchor = target.partition("#")
            other = (page.parent / path).resolve() if path else page
            assert other.exists(), target
            assert not anchor or anchor in anchors(other), target


def anchors(page):
    """GitHub's anchor of each heading."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_files_that_the_pages_name_exist():
    """`model/elbo.py` and the like, taken from src/gcmf or from the root."""
    for page in PAGES:
        for name in set(re.findall(r"`([\w./]+/\w+\.py)`", page.read_text(encoding="utf-8"))):
            found = (ROOT / name).exists() or (ROOT / "src" / "gcmf" / name).exists()
            assert found, f"{page.name} names {name}"


def test_times_beside_other_tools_are_of_one_run():
    """The README has errors and seconds of the page that `make bench` writes, and no others."""
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| [^|]+ \| ([\d.]+) \| ([\d.]+) \| [^|]+ \| [\d.]+ \|", measured, re.MULTILINE
    )
    known = {(error, f"{float(seconds):.2g}") for _, seconds, error in rows}
    shown = re.findall(r"([\d.]+) in ([\d.]+) s\b", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(shown) >= 6
    for error, seconds in shown:
        assert (error, f"{float(seconds):.2g}") in known, (error, seconds)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_seconds_of_movielens_are_on_one_page(page):
    """Whole fits by the default engine: those of draws have a run of their own, beside SMURFF's."""
    text = page.read_text(encoding="utf-8").split("## Draws")[0]
    if page.name not in ("README.md", "benchmarks.md", "ledger.md"):
        assert not re.findall(r"MovieLens 1M[^|.]*\| RMSE[^|]* \d[\d.]* s\b|fit of [\d.]+ s|seconds of the fit", text)
