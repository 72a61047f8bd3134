"""The rooms of `io`: imports between them point down, those for types too."""

import ast
from pathlib import Path

import gcmf

ROOT = Path(gcmf.__file__).parent / "io"
#: What each room may build on.
BELOW = {
    "sources": set(),
    "database": {"sources"},
    "outputs": {"sources", "database"},
    "variants": set(),
    "evaluate": {"variants"},
    "project": {"sources"},
    "guess": {"sources"},
    "results": {"outputs", "database", "sources"},
    "predictions": {"sources", "guess"},
    "answers": {"sources", "predictions"},
}


def test_imports_between_rooms_point_down():
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("gcmf.io."):
                other = node.module.split(".")[2]
                assert other == room or other in BELOW[room], f"{path.name} imports {node.module}"


def test_only_the_project_file_needs_pydantic():
    for path in ROOT.rglob("*.py"):
        modules = {node.module for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                   if isinstance(node, ast.ImportFrom)}  # fmt: skip
        assert ("pydantic" in modules) == (path.parts[-2:] == ("project", "schema.py"))
