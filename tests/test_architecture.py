"""The layers hold: imports point down, nothing prints, pickles or evaluates, every public thing says what it is."""

from __future__ import annotations

import ast
import os
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gcmf

ROOT = Path(gcmf.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
BESIDE = ("reproduction", "benchmarks", "fuzz")
"""What uses the library and stands beside it; the first is held to the same rules."""
WITH_REPRODUCTION = [*FILES, *sorted((Path(__file__).parents[1] / BESIDE[0]).glob("*.py"))]
#: Each layer may import its own and those below; `fit` and its two parts are a layer of their own.
LAYERS = (
    {"options", "errors", "interrupts", "gamma", "carried", "markup", "locks"},
    {"likelihoods"},
    {"data"},
    {"engines"},
    {"model"},
    {"methods"},
    {"fit", "loop", "outcome"},
    {"storage"},
    {"estimators", "datasets", "io", "omics", "report"},
    {"cli", "plot", "demo"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def name_of(path):
    return os.path.relpath(path, ROOT)


def part_of(path):
    """The top-level part of the package that a file belongs to; None for gcmf/__init__ and __main__."""
    first = Path(name_of(path)).parts[0].removesuffix(".py")
    return None if first.startswith("__") else first


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


#: A string that is nothing but the name of a part of the library: whoever holds it can import by it.
DOTTED = re.compile(r"gcmf(\.\w+)+\.?")


def imports(tree):
    """(module, line) of every import that runs, also by a string; what stands under TYPE_CHECKING does not."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if is_type_checking(node):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.value.rstrip("."), node.lineno
        else:
            waiting += list(ast.iter_child_nodes(node))


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_down(path):
    part = part_of(path)
    if part is None:
        return
    assert part in LEVEL, f"{part} belongs to no layer: add it to LAYERS and to docs/architecture.md"
    for module, line in imports(parse(path)):
        names = module.split(".")
        assert names[0] not in BESIDE, f"{name_of(path)}:{line} imports {module}, which is no part of the library"
        if names[0] == "gcmf" and len(names) > 1 and names[1] in LEVEL:
            assert LEVEL[names[1]] <= LEVEL[part], f"{name_of(path)}:{line} imports {module}, which lies above it"


def module_of(path):
    names = ["gcmf", *Path(name_of(path)).with_suffix("").parts]
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def import_graph():
    """Module: the modules that it imports, at once, later or by string; the face of the library apart."""
    modules = {module_of(path): path for path in FILES if module_of(path) not in {"gcmf", "gcmf.__main__"}}
    graph = {}
    for name, path in modules.items():
        named = {module for module, _ in imports(parse(path))}
        # `from gcmf.data import cells` names gcmf.data too, and means gcmf.data.cells.
        submodules = {module for module in named if module in modules}
        packages = {module.rpartition(".")[0] for module in submodules}
        graph[name] = {module for module in submodules - {name} if module not in packages or module in _asked(path)}
    return graph


def _asked(path):
    """Packages of which a file takes a name that is no module."""
    known = {module_of(file) for file in FILES}
    statements = [node for node in ast.walk(parse(path)) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in statements for alias in node.names if f"{node.module}.{alias.name}" not in known}


def test_no_imports_in_circles():
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_by_string_are_seen():
    """What the two tests above rest on."""
    text = 'CLASSES = {n: f"gcmf.estimators.{n}" for n in "ab"}\nHOME = "gcmf.fit"\n'
    assert {"gcmf.estimators", "gcmf.fit"} <= {module for module, _ in imports(ast.parse(text))}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_face_imports_by_string(path):
    if module_of(path) != "gcmf":
        assert "importlib.import_module" not in {module for module, _ in imports(parse(path))}


def test_every_layer_is_looked_at():
    parts = {part_of(path) for path in FILES} - {None}
    assert {"data", "engines", "model", "likelihoods", "fit", "estimators", "options", "errors"} <= parts


@pytest.mark.parametrize("path", WITH_REPRODUCTION, ids=name_of)
def test_no_dangerous_or_noisy_calls(path):
    banned = {"eval", "exec", "compile", "breakpoint", "__import__"} | ({"print"} if part_of(path) != "cli" else set())
    tree = parse(path)
    used = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not used & banned
    brought = {module for module, _ in imports(tree)}
    # joblib can pickle, but counting cores is all that is taken of it.
    if "joblib.cpu_count" in brought:
        brought -= {"joblib", "joblib.cpu_count"}
    assert not {module.split(".")[0] for module in brought} & PICKLERS


PICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
#: Constants that may be containers: nobody writes to them.
CONSTANT = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"


@pytest.mark.parametrize("path", WITH_REPRODUCTION, ids=name_of)
def test_no_module_level_mutable_state(path):
    tree = parse(path)
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)], "no function rebinds a global"
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(
            node.value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                name = ast.unparse(target)
                assert name == "__all__" or set(name) <= set(CONSTANT), f"line {node.lineno}: {name} is no constant"
                writes = [
                    one.lineno for one in ast.walk(tree)
                    if (isinstance(one, ast.Subscript) and isinstance(one.ctx, (ast.Store, ast.Del))
                        and ast.unparse(one.value) == name)
                    or (isinstance(one, ast.Attribute) and ast.unparse(one.value) == name
                        and one.attr in {"append", "add", "update", "pop", "clear", "extend", "setdefault", "remove"})
                ]  # fmt: skip
                assert not writes, f"{name} is written to in line {writes}"


def public_definitions(tree):
    """Public functions, classes and methods, by dotted name."""
    waiting = [("", node) for node in tree.body]
    while waiting:
        prefix, node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", child) for child in node.body]


@pytest.mark.parametrize("path", WITH_REPRODUCTION, ids=name_of)
def test_everything_public_has_a_docstring(path):
    tree = parse(path)
    assert ast.get_docstring(tree), "the module says in a line what it is for"
    overload = {"overload"}
    missing = [
        name for name, node in public_definitions(tree)
        if not ast.get_docstring(node) and not overload & {ast.unparse(d) for d in node.decorator_list}
    ]  # fmt: skip
    assert not missing


@pytest.mark.parametrize("path", WITH_REPRODUCTION, ids=name_of)
def test_randomness_comes_from_a_generator(path):
    """No use of NumPy's or Python's global random state."""
    tree = parse(path)
    assert "random" not in {module.split(".")[0] for module, _ in imports(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"np.random", "numpy.random"}:
            sources = {"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}  # what generators are made of
            known = {"Generator", "default_rng", "SeedSequence", "RandomState"} | sources
            assert node.attr in known, f"line {node.lineno}"


def test_public_names_exist():
    for name in gcmf.__all__:
        assert getattr(gcmf, name) is not None
    assert set(gcmf.__all__) <= set(dir(gcmf))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gcmf.nothing
