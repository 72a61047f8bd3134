"""What the experiments on real data have in common: where the data lie, and the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.datasets import find_data_folder
from gcmf.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


def missing_data(needs: Sequence[str]) -> list[str]:
    """Return the data folders that are not there."""
    folder = find_data_folder()
    return [name for name in needs if folder is None or not (folder / name).is_dir()]


def folder_of(name: str) -> Path:
    """Return the folder of one data set."""
    folder = find_data_folder()
    if folder is None or not (folder / name).is_dir():
        msg = f"The data set {name!r} is not there: name the folder that holds the folder {name!r} in GCMF_DATA."
        raise DataError(msg)
    return folder / name


def rmse(guess: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return the root mean squared difference."""
    return float(np.sqrt(np.mean((guess - truth) ** 2)))
