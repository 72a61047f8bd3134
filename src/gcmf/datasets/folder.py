"""Where real data lies: sets that may not be passed on are read from a folder, never shipped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gcmf.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable


def find_data_folder() -> Path | None:
    """Return the folder that GCMF_DATA names, else `../shared/data` beside the project; None when absent."""
    named = os.environ.get("GCMF_DATA")
    if named:
        return Path(named) if Path(named).is_dir() else None
    # src/gcmf/datasets/folder.py: the project is four folders up.
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    return beside if beside.is_dir() else None


def find_files(folder: str | Path, names: Iterable[str], *, source: str) -> list[Path]:
    """Return the paths of these files in a folder.

    Raises
    ------
    DataError
        When some are not there; `source` says where they come from.
    """
    paths = [Path(folder) / name for name in names]
    absent = [path.name for path in paths if not path.is_file()]
    if absent:
        msg = f"{folder} does not hold {', '.join(absent)}. {source}"
        raise DataError(msg)
    return paths
