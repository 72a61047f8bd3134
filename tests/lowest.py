"""Print the oldest versions that pyproject.toml allows, as constraints for pip: python tests/lowest.py [extra ...]."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([\d.]+)")


def lowest(*extras: str) -> dict[str, str]:
    """Return the lower bound of each dependency of the library, and of these extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return {found[1]: found[2] for line in wanted if (found := _BOUND.match(line))}


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest(*sys.argv[1:]).items()))
