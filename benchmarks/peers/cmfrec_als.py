"""cmfrec: collective matrix factorization by alternating least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from benchmarks.peers.base import Peer
from benchmarks.problem import Triplets

if TYPE_CHECKING:
    from benchmarks.peers.base import Predictions, Watch


class Cmfrec(Peer):
    """`cmfrec.CMF`; settings are its own. The first table is the main matrix, the others its side information."""

    package = "cmfrec"
    callback = False

    def prepare(self) -> None:
        """A COO matrix in single precision, as it works in, and dense side information."""
        main, *sides = self.problem.tables
        assert isinstance(main.train, Triplets)
        shape = self.problem.sizes[main.rows], self.problem.sizes[main.cols]
        i, j, x = main.train
        self._x = sparse.coo_matrix((x.astype(np.float32), (i, j)), shape=shape)
        # Side information of the main matrix's rows is U, of its columns I.
        self._side = {"U" if side.rows == main.rows else "I": np.asarray(side.train, np.float32) for side in sides}

    def fit(self, watch: Watch) -> None:
        """Fit from its own fixed seed."""
        import cmfrec  # noqa: PLC0415 - optional

        self._model = cmfrec.CMF(**{"verbose": False, "nthreads": self.threads, **self.settings})
        self._model.fit(X=self._x, **self._side)
        watch(self.predict)

    def predict(self) -> Predictions:
        """Cells of the main matrix."""
        main = self.problem.tables[0]
        assert main.test is not None
        return {main.name: self._model.predict(main.test.i, main.test.j)}

    def facts(self) -> dict[str, Any]:
        """Iterations."""
        return {"iterations": self._model.niter}

    def growing(self) -> list[dict[str, Any]]:
        """1 iteration, 2, 3 and so on to a few more than are usual."""
        usual = int(self.settings.get("niter", 10))
        counts = [n for n in (1, 2, 3, 4, 6, 8, 10, 15, 20, 30) if n <= usual + 5]
        return [{**self.settings, "niter": n} for n in counts]

    def brief(self) -> dict[str, Any]:
        """One iteration."""
        return {**self.settings, "niter": 1, "k": 2}
