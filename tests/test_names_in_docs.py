"""What pages, docstrings and comments name between backticks is there: modules, files, attributes of classes."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest
import typer

from gcmf.cli.main import app
from gcmf.engines import cell_kernels, layout, order, records
from gcmf.engines.base import MAX_HALVINGS
from gcmf.methods import redraw, scaling, stages, variational, warm_up
from gcmf.model import recording, spread, updating

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gcmf"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
TEXTS = [*PAGES, *sorted((ROOT / "docs").glob("*.md")), *sorted(SOURCE.rglob("*.py")), *sorted(SOURCE.rglob("*.cu*"))]
#: Where a path that is named may begin.
STARTS = (ROOT, ROOT / "src", SOURCE, SOURCE / "engines", SOURCE / "engines" / "gpu")
#: Look like names of the package: project files, what stands for any figure, a file of data.
NO_NAMES = ("gcmf.toml", "gcmf.plot.x", "Flickr.mat")


@cache
def classes():
    """(names, bases) of every class of the package: what it defines or assigns, and what it is made from."""
    found = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                inside = list(ast.walk(node))
                names = {n.name for n in inside if isinstance(n, ast.FunctionDef)}
                names |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                names |= {n.attr for n in inside if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
                found[node.name] = names, [base.id for base in node.bases if isinstance(base, ast.Name)]
    return found


def has(name, attribute):
    """Whether a class has an attribute; one that comes from elsewhere may have any."""
    if name not in classes():
        return name not in ("ABC", "Protocol", "NamedTuple")
    names, bases = classes()[name]
    return attribute in names or any(has(base, attribute) for base in bases)


def resolves(name):
    """Whether gcmf.a.b is a module or something in one."""
    found, path = importlib.import_module("gcmf"), "gcmf"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)
        except ImportError:
            return False
    return True


def is_there(path):
    if "/" in path:
        return any((start / path).exists() for start in STARTS)
    return any(next((ROOT / top).rglob(path), None) for top in ("src", "tests", "benchmarks", "reproduction", "fuzz"))


def missing(text):
    """What a text names between backticks that is not there."""
    for code in re.findall(r"`([^`\n]+)`", text):
        for name, attribute in re.findall(r"(?<![\w.])([A-Z]\w+)\.([a-z_]\w*)", code):
            if name in classes() and f"{name}.{attribute}" not in NO_NAMES and not has(name, attribute):
                yield f"{name}.{attribute}"
        for name in re.findall(r"(?<![\w.\"'/-])(gcmf(?:\.[A-Za-z_]\w*)+)", code):
            if name not in NO_NAMES and not resolves(name):
                yield name
        for path in re.findall(r"(?<![\w./])((?:\w+/)*\w+\.(?:py|cu|cuh))\b", code):
            if not is_there(path):
                yield path


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_names_are_there(text):
    assert not list(missing(text.read_text(encoding="utf-8")))


@pytest.mark.parametrize("package", sorted(SOURCE.rglob("__init__.py")), ids=lambda file: file.parent.name)
def test_a_package_names_what_it_has(package):
    """`tables` and the like, in the docstring of a package: its modules, or what they or its users define."""
    told = set(re.findall(r"`([a-z]\w*)`", ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""))
    inside = [node for file in package.parent.rglob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    defined = {node.name for node in inside if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert told <= {file.stem for file in package.parent.iterdir()} | defined


def lines_of_code(page):
    """What stands between backticks, and the lines of blocks that are no Python."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh|text)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [*re.findall(r"`([^`\n]+)`", text), *(line for block in blocks for line in block.splitlines())]


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_commands_have_the_options_that_pages_name(page):
    commands = typer.main.get_command(app).commands
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for line in lines_of_code(page):
        for name, rest in re.findall(r"^(?:\$ )?gcmf (\w+)([^#;&|]*)", line):
            assert name in commands, line
            known = {option for parameter in commands[name].params for option in (*parameter.opts, "-h", "--help")}
            assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= known, line
        assert set(re.findall(r"^make ([a-z][\w-]*)", line)) <= set(targets), line


@pytest.mark.parametrize(("page", "sentence", "number"), [
    ("model.md", "new factors get {} sweeps", variational.GROW_SWEEPS),
    ("model.md", "then all get {} more", variational.GROW_SWEEPS),
    ("model.md", "as far as there is room; at most {} times", variational.MAX_TRIALS),
    ("model.md", "(of a longer row, over {} of them in each relation)", spread.MOST),
    ("model.md", "and after {} sweeps at the latest", warm_up.MAX_WARM_UP),
    ("model.md", "It is tried {} sweeps after the warm-up", warm_up.ROTATE_AT),
    ("model.md", "after {} sweeps the model as it is by then draws anew", redraw.DRAW_AT),
    ("model.md", "The stage ends like the first after {} sweeps", stages.MAX_REFINING),
    ("model.md", "up to {} times, and then the row is left as it was", MAX_HALVINGS),
    ("model.md", "and halved, up to {} times, where the bound", scaling.MAX_HALVINGS),
    ("model.md", "fewer than {} rows on average", order.MIN_CLASS),
    ("model.md", "{} sweeps go over the new cells alone", updating.N_SWEEPS),
    ("model.md", "are of θ of {} random cells", recording.N_PROBES),
    ("engine.md", "up to {} of its cells (`CHUNK`)", records.CHUNK),
    ("engine.md", "every {} cells and at the end of the row", cell_kernels.FLUSH),
    ("engine.md", "A row of more than {} cells", 2 * layout.PIECE),
])  # fmt: skip
def test_numbers_are_those_of_the_code(page, sentence, number):
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    several = isinstance(number, tuple)
    shown = f"{', '.join(map(str, number[:-1]))} and {number[-1]}" if several else f"{number:,}"
    words = {3: "three", 5: "Five", 6: "six", 8: "eight", 10: "ten"}
    assert any(sentence.format(way) in text for way in {shown, words.get(number, shown)}), sentence


def test_what_is_not_there_is_missed():
    text = "`Record.point` and `Record.set`, `gcmf.nothing`, `gcmf.plot`, `model/elbow.py`, `model/elbo.py`, `gone.cu`"
    assert list(missing(text)) == ["Record.point", "gcmf.nothing", "model/elbow.py", "gone.cu"]
