"""Cells that a fit does not see, and the error on them while it runs."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.parts import take
from gcmf.data.split import draw, folds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gcmf.data.collection import BoundRelation, Collection
    from gcmf.estimators.gcmf import GCMF
    from gcmf.fit import StepInfo

Scores = dict[str, dict[str, float]]
"""Measures by relation."""

MEASURES = {
    "rmse": "RMSE", "log_loss": "log-loss", "negative_log_likelihood": "negative log-likelihood", "auc": "AUC",
    "average_precision": "average precision",
}  # fmt: skip
"""What people call them."""
RARE = 0.1
"""Ones are rare where fewer cells than this share are ones."""
_EVERY_SECONDS = 2.0
_CHUNK = 100_000
MOST = 1_000_000
"""Cells of a relation whose blanks are zeros that are hidden at a time: all of them may be more than memory holds."""


def hide(data: Collection, share: float, *, seed: int) -> tuple[Collection, Collection]:
    """Return (train, test): a share of the cells of every relation that has enough of them is hidden."""
    rng = np.random.default_rng(seed)
    numbers = {}
    for name, own in data.relations.items():
        size = round(share * own.n_cells)
        size = min(size, MOST) if own.cells.filled else size
        if 0 < size < own.n_cells:
            numbers[name] = draw(rng, own.n_cells, size)
    return _taken(data, numbers)


def hidden_folds(
    data: Collection, relation: str, n_folds: int, *, seed: int
) -> Iterator[tuple[Collection, Collection]]:
    """Yield (train, test): a part of the cells of one relation is hidden in turn, each cell at most once."""
    own = data.relations[relation]
    if not own.cells.filled or own.n_cells <= n_folds * MOST:
        yield from folds(data, n_folds, by="cell", relations=[relation], random_state=seed)
        return
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(draw(rng, own.n_cells, n_folds * MOST))
    for part in np.split(drawn, n_folds):
        yield _taken(data, {relation: np.sort(part)})


def _taken(data: Collection, numbers: dict[str, npt.NDArray[np.int64]]) -> tuple[Collection, Collection]:
    parts = {name: take(data.relations[name].cells, own) for name, own in numbers.items()}
    left = {name: parts[name][0] if name in parts else own.cells for name, own in data.relations.items()}
    return data.with_cells(left), data.with_cells({name: hidden for name, (_, hidden) in parts.items()})


class HeldOut:
    """Scores hidden cells after the first sweep, and then every few seconds: a look costs about as much as a sweep."""

    def __init__(self, model: GCMF, train: Collection, test: Collection) -> None:
        self._model, self._train, self._test = model, train, test
        self._next = 0.0
        self.scores: Scores = {}
        """The last ones."""
        self.sweep = 0
        """When they were taken."""

    def __call__(self, info: StepInfo) -> None:
        """Score, if it is time."""
        if time.monotonic() < self._next:
            return
        run = info.snapshot()
        model = copy.copy(self._model)
        model._settle(run.summarize(self._train), run.trace, run.status)
        self.scores, self.sweep = score(model, self._test), info.iteration
        self._next = time.monotonic() + _EVERY_SECONDS


def score(model: GCMF, test: Collection) -> Scores:
    """Return what hidden cells say of each relation; the first measure is the error, the smaller the better.

    Numbers are judged by their RMSE. 0/1 cells are judged by the log-loss, −log p(x) per cell, and the area under the
    ROC curve, and where ones are rare, which makes that area look good, also by the average precision. Counts are
    judged by −log p(x) per cell; so are numbers whose columns have units of their own, which no RMSE can add up.
    """
    table, fitted = model._score_table(test).to_dict(orient="index"), model.fitted_
    numbers = {relation.name: m for m, relation in enumerate(model.schema_.relations)}
    scores: Scores = {}
    for name, own in test.relations.items():
        row, m = {key: float(value) for key, value in table[name].items()}, numbers[name]
        support = fitted.likelihoods[m].support
        if support == "binary":
            scores[name] = {"log_loss": -row["log_likelihood"], "auc": row.get("auc", np.nan)}
            if 0 < _share_of_ones(own) < RARE:
                scores[name]["average_precision"] = row["average_precision"]
        elif support == "counts" or fitted.units[m] is not None:
            scores[name] = {"negative_log_likelihood": -row["log_likelihood"]}
        else:
            scores[name] = {"rmse": row["rmse"]}
    return scores


def _share_of_ones(relation: BoundRelation) -> float:
    return sum(float(part.x.sum()) for part in relation.cells.chunks(_CHUNK)) / relation.n_cells
