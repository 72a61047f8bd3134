"""mofapy2: multi-omics factor analysis by variational Bayes."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from benchmarks.peers.base import Peer

if TYPE_CHECKING:
    from benchmarks.peers.base import Predictions, Watch


class Mofa(Peer):
    """`mofapy2.run.entry_point`. Settings: factors, iter, convergence_mode, use_float32.

    Priors and preprocessing are its defaults: features centered, views not scaled, relevance determination and
    spike and slab on the weights.
    """

    package = "mofapy2"
    blas_threads = None
    every = 5

    def prepare(self) -> None:
        """Views as a nested list, as it takes them."""
        self._views = [[np.asarray(t.train, np.float64)] for t in self.problem.tables]

    def fit(self, watch: Watch) -> None:
        """Load, build and run with seed 1."""
        from mofapy2.run.entry_point import entry_point  # noqa: PLC0415 - optional

        options = {"iter": 1000, "convergence_mode": "fast", **self.settings}
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it divides by zero where a view is missing
            self._tool = entry_point()
            self._tool.set_data_options(scale_views=False, use_float32=options.pop("use_float32", False))
            # It writes into the outer lists.
            self._tool.set_data_matrix([list(view) for view in self._views],
                                       likelihoods=[t.likelihood for t in self.problem.tables])  # fmt: skip
            self._tool.set_model_options(factors=options.pop("factors"))
            self._tool.set_train_options(seed=1, verbose=False, quiet=True, **options)
            self._tool.build()
            self._watch_last_node(watch)
            self._tool.run()

    def _watch_last_node(self, watch: Watch) -> None:
        """It has no callbacks; the noise is what an iteration updates last."""
        node = self._tool.model.nodes["Tau"]
        update = node.update
        self._iterations = 0

        def noted(*args: Any, **options: Any) -> None:  # noqa: ANN401
            update(*args, **options)
            self._iterations += 1
            watch(self.predict)

        node.update = noted

    def predict(self) -> Predictions:
        """Z Wᵀ and the feature means; through the logistic function for 0/1."""
        nodes = self._tool.model.nodes
        z, weights = nodes["Z"].getExpectation(), nodes["W"].getExpectation()
        predicted = {}
        for m, table in enumerate(self.problem.tables):
            if table.test is None:
                continue
            i, j, _ = table.test
            theta = np.einsum("nk,nk->n", z[i], weights[m][j])
            intercept = np.nan_to_num(np.asarray(self._tool.intercepts[m][0]))[j]
            predicted[table.name] = expit(theta) if table.likelihood == "bernoulli" else theta + intercept
        return predicted

    def facts(self) -> dict[str, Any]:
        """Iterations."""
        return {"iterations": self._iterations}

    def brief(self) -> dict[str, Any]:
        """A few iterations."""
        return {**self.settings, "factors": 2, "iter": 10}
