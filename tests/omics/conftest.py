"""The tests of this folder need the `omics` extra, and the objects made beside this file."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
if find_spec("mudata") is None:
    collect_ignore_glob = ["test_*.py"]
