"""What happens in each sweep of a fit, kept to be looked at: terms of the bound, factors, held-out errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from gcmf.data.collection import Collection
from gcmf.estimators.gcmf import GCMF
from gcmf.options import check_integer

if TYPE_CHECKING:
    from gcmf.outcome import StepInfo


class Recorder:
    """A callback of a fit: `GCMF(callbacks=record)`, then `gcmf.plot.convergence(model, record)`.

    Parameters
    ----------
    train, test : Collection, optional
        What is fitted, and cells that are not, of which the error is measured. That takes as long as a few sweeps.
    every : int
        Measure after every so many sweeps.

    Examples
    --------
    >>> import gcmf, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(9, 1)) @ np.ones((1, 7)) + 0.1 * np.eye(9, 7)
    >>> data = gcmf.Collection.from_mapping({("user", "movie", "ratings"): x})
    >>> train, test = data.split(0.2)
    >>> record = gcmf.plot.Recorder(train, test)
    >>> model = gcmf.GCMF(1, random_state=0, callbacks=record).fit(train)
    >>> list(record.table().columns[:4]), len(record.table()) == model.n_iter_
    (['restart', 'sweep', 'bound', 'factors'], True)
    """

    def __init__(self, train: Any = None, test: Any = None, *, every: int = 10) -> None:
        check_integer("every", every, 1)
        self._train = None if train is None else Collection.of(train, caller="Recorder")
        self._test = None if test is None or train is None else Collection.of(test, caller="Recorder")
        self._every = every
        self._lines: list[dict[str, float]] = []

    def __call__(self, info: StepInfo) -> None:
        """Take down a sweep."""
        if info.iteration == 1 and info.restart == 0:
            self._lines = []  # another fit
        line: dict[str, float] = {"restart": info.restart, "sweep": info.iteration, "bound": info.elbo}
        line |= {"factors": info.n_factors, **{f"term {name}": value for name, value in info.terms().items()}}
        if self._test is not None and (info.iteration == 1 or info.iteration % self._every == 0):
            line |= self._errors(info)
        self._lines.append(line)

    def table(self) -> pd.DataFrame:
        """Return a line per sweep: its start, its number, the bound, the factors, terms of the bound, and errors."""
        table = pd.DataFrame(self._lines)
        return table if len(table) else pd.DataFrame(columns=["restart", "sweep", "bound", "factors"])

    def _errors(self, info: StepInfo) -> dict[str, float]:
        """The root mean squared error of the test cells of each relation, by the model of this sweep."""
        assert self._train is not None
        assert self._test is not None
        run, model = info.snapshot(), GCMF()
        model._settle(run.summarize(self._train), run.trace, run.status, run.n_settled)
        scores = model._score_table(self._test, unknown="prior")["rmse"]
        return {f"error {name}": float(value) for name, value in scores.items()}
