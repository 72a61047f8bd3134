"""implicit: weighted least squares over all cells. It ranks and does not predict values, so only time is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from benchmarks.peers.base import Peer
from benchmarks.problem import Triplets

if TYPE_CHECKING:
    from benchmarks.peers.base import Predictions, Watch


class Implicit(Peer):
    """`implicit.als.AlternatingLeastSquares`; settings are its own. It sees the main matrix alone."""

    package = "implicit"
    predicts = False

    def prepare(self) -> None:
        """A CSR matrix; confidences must not be negative."""
        main = self.problem.tables[0]
        assert isinstance(main.train, Triplets)
        shape = self.problem.sizes[main.rows], self.problem.sizes[main.cols]
        i, j, x = main.train
        self._x = sparse.csr_matrix((np.abs(x).astype(np.float32), (i, j)), shape=shape)

    def fit(self, watch: Watch) -> None:
        """Fit with seed 0."""
        from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 - optional

        settings = {"random_state": 0, "num_threads": self.threads, **self.settings}
        self._model = AlternatingLeastSquares(**settings)
        self._model.fit(self._x, show_progress=False, callback=lambda *_: watch(self.predict))

    def predict(self) -> Predictions:
        """Scores that rank, and are no values."""
        main = self.problem.tables[0]
        if main.test is None:
            return {}
        users, items = self._model.user_factors, self._model.item_factors
        return {main.name: np.einsum("nk,nk->n", users[main.test.i], items[main.test.j])}

    def facts(self) -> dict[str, Any]:
        """Iterations."""
        return {"iterations": self._model.iterations}

    def brief(self) -> dict[str, Any]:
        """One iteration."""
        return {**self.settings, "iterations": 1}
