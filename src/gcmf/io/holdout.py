"""Cells that a fit does not see, and the error on them while it runs."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.parts import take
from gcmf.data.split import draw, folds
from gcmf.model.fitted import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gcmf.data.collection import Collection
    from gcmf.estimators.gcmf import GCMF
    from gcmf.fit import StepInfo

_EVERY_SECONDS = 2.0
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
        self.errors: dict[str, float] = {}
        """The last RMSE of each relation."""

    def __call__(self, info: StepInfo) -> None:
        """Score, if it is time."""
        if time.monotonic() < self._next:
            return
        run = info.snapshot()
        model = copy.copy(self._model)
        model._settle(summarize(run.spec, run.posterior, self._train), run.trace, run.status)
        self.errors = score(model, self._test)
        self._next = time.monotonic() + _EVERY_SECONDS


def score(model: GCMF, test: Collection) -> dict[str, float]:
    """Return the RMSE of each relation on hidden cells."""
    return {str(name): float(error) for name, error in model._score_table(test)["rmse"].items()}
