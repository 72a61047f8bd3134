"""What the experiments on real data have in common: where the data lie, and a fit with its wall-clock time."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.datasets import find_data_folder
from gcmf.errors import ConvergenceWarning, DataError
from gcmf.estimators.gcmf import GCMF

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection


def folder_of(name: str) -> Path:
    """Return the folder of one data set."""
    folder = find_data_folder()
    if folder is None or not (folder / name).is_dir():
        msg = f"The data set {name!r} is not there: name the folder that holds the folder {name!r} in GCMF_DATA."
        raise DataError(msg)
    return folder / name


def timed_fit(data: Collection, k: int, **options: Any) -> tuple[GCMF, float]:  # noqa: ANN401 - of GCMF
    """Fit, and say how many seconds that took."""
    with warnings.catch_warnings():
        # Fits that stop at their last sweep are told by `n_iter_`, which goes into the tables.
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model = GCMF(k, progress=False, **options).fit(data)
        return model, time.perf_counter() - start


def rmse(guess: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return the root mean squared difference."""
    return float(np.sqrt(np.mean((guess - truth) ** 2)))
