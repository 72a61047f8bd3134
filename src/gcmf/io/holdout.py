"""The error on cells that a fit does not see, while it runs."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

from gcmf.model.fitted import summarize

if TYPE_CHECKING:
    from gcmf.data.collection import Collection
    from gcmf.estimators.gcmf import GCMF
    from gcmf.fit import StepInfo

_EVERY_SECONDS = 2.0


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
