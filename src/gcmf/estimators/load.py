"""From a file to the estimator it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf import storage
from gcmf.estimators.cca import CCA
from gcmf.estimators.gcmf import GCMF
from gcmf.estimators.gfa import GFA
from gcmf.estimators.pca import PCA

if TYPE_CHECKING:
    from pathlib import Path

_CLASSES = {"GCMF": GCMF, "GFA": GFA, "CCA": CCA, "PCA": PCA}


def load(path: str | Path) -> GCMF | CCA | GFA | PCA:
    """Read a model that `save` wrote: no training data is needed, and predictions are the same to the bit.

    Raises
    ------
    StorageError
        When the file is missing, damaged, written by a newer gcmf, or no gcmf model at all.
    """
    model: GCMF | CCA | GFA | PCA = storage.load(path, _CLASSES)
    return model
