"""What a release says of itself is the same everywhere."""

import re
import tomllib
from pathlib import Path

import gcmf
from lowest import lowest

ROOT = Path(__file__).parents[1]


def test_the_version_is_the_same_everywhere():
    citation, changes = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == gcmf.__version__
    assert f"To become {gcmf.__version__}," in changes or f"## [{gcmf.__version__}] - 20" in changes


def test_every_dependency_says_from_which_version_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(lowest()) == len(project["dependencies"])
    assert set(lowest("io")) - set(lowest()) == {"duckdb", "pyarrow"}
