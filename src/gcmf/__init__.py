"""One low-rank representation of any collection of matrices that share entities."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcmf import datasets, errors, likelihoods, omics, plot
    from gcmf.data.collection import Collection
    from gcmf.data.relation import Relation
    from gcmf.estimators.cca import CCA
    from gcmf.estimators.gcmf import GCMF
    from gcmf.estimators.gfa import GFA
    from gcmf.estimators.load import load
    from gcmf.estimators.pca import PCA
    from gcmf.io.evaluate import evaluate
    from gcmf.io.project.read import read_project
    from gcmf.options import Priors
    from gcmf.outcome import Status

__version__ = "0.1.0"

# Public names are imported when first used: `import gcmf` costs nothing, and who only reads data never waits
# for the compiler.
_HOMES = {
    "CCA": "gcmf.estimators.cca",
    "Collection": "gcmf.data.collection",
    "GCMF": "gcmf.estimators.gcmf",
    "GFA": "gcmf.estimators.gfa",
    "PCA": "gcmf.estimators.pca",
    "Priors": "gcmf.options",
    "Relation": "gcmf.data.relation",
    "Status": "gcmf.outcome",
    "evaluate": "gcmf.io.evaluate",
    "load": "gcmf.estimators.load",
    "read_project": "gcmf.io.project.read",
}
_MODULES = ("datasets", "errors", "likelihoods", "omics", "plot")

__all__ = [
    "CCA", "GCMF", "GFA", "PCA", "Collection", "Priors", "Relation", "Status",
    "datasets", "errors", "evaluate", "likelihoods", "load", "omics", "plot", "read_project",
]  # fmt: skip


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"gcmf.{name}")
    else:
        msg = f"module 'gcmf' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
