"""gcmf itself."""

from __future__ import annotations

import copy
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

import gcmf
from benchmarks.peers.base import Peer
from benchmarks.problem import Triplets
from gcmf.model import fitted
from gcmf.model.explained import Explained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.peers.base import Predictions, Watch
    from benchmarks.problem import Problem
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.outcome import Fit, StepInfo


class Gcmf(Peer):
    """`gcmf.GCMF`; settings are its own."""

    package = "gcmf"
    blas_threads = None

    def prepare(self) -> None:
        """Build the collection: ids aligned, everything checked, cells sorted from both sides."""
        self._data = collection(self.problem)

    def fit(self, watch: Watch) -> None:
        """Fit with seed 0."""
        self._alive: list[int] = []

        def note(info: StepInfo) -> None:
            self._alive.append(info.n_factors)
            watch(lambda: self._predictions_of(info.snapshot()))

        options = {"random_state": 0, "progress": False, "n_threads": self.threads, **self.settings}
        self._model = gcmf.GCMF(**options, callbacks=[note])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
            self._model.fit(self._data)

    def predict(self) -> Predictions:
        """Posterior means."""
        return self._predict(self._model)

    def facts(self) -> dict[str, Any]:
        """Sweeps, bound and factors."""
        model = self._model
        n_entities = sum(self.problem.sizes.values())
        width = np.dtype(model.dtype).itemsize
        return {
            "iterations": model.n_iter_,
            "status": model.status_.name,
            "elbo_trace": model.elbo_trace_.tolist(),
            "factors": model.n_factors_active_,
            "factors_alive": self._alive,
            # Mean and variance of every factor of every entity: what the fit must hold beside the cells.
            "factor_bytes": 2 * width * n_entities * model.n_factors,
        }

    def brief(self) -> dict[str, Any]:
        """A short fit that still tries every move."""
        return {**self.settings, "max_iter": 60}

    def _predictions_of(self, run: Fit) -> Predictions:
        model = copy.copy(self._model)
        with _nothing_explained():
            model._settle(run.summarize(self._data), run.trace, run.status)
        return self._predict(model)

    def _predict(self, model: gcmf.GCMF) -> Predictions:
        return {t.name: model.predict(t.name, t.test.i, t.test.j) for t in self.problem.tested if t.test is not None}


def collection(problem: Problem) -> gcmf.Collection:
    """The problem as a gcmf user would state it."""
    relations = [
        gcmf.Relation(
            t.name, t.rows, t.cols, tuple(t.train) if isinstance(t.train, Triplets) else t.train, t.likelihood
        )
        for t in problem.tables
    ]
    return gcmf.Collection(relations, entities={name: np.arange(d) for name, d in problem.sizes.items()})


@contextmanager
def _nothing_explained() -> Iterator[None]:
    """Variance explained takes longer than a sweep, and no prediction needs it."""

    def nothing(spec: Spec, posterior: Posterior, *rest: object) -> Explained:
        del rest
        m, k = len(spec.ends), posterior.n_factors
        return Explained(np.zeros(m), np.zeros((m, k)), np.zeros(m))

    with mock.patch.object(fitted, "explain", nothing):
        yield
