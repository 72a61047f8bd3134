"""SMURFF: Bayesian matrix factorization with side information (Macau) by Gibbs sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from benchmarks.peers.base import Peer
from benchmarks.problem import Triplets

if TYPE_CHECKING:
    from benchmarks.peers.base import Predictions, Watch


class Smurff(Peer):
    """`smurff.TrainSession`. Settings: num_latent, burnin, nsamples, noise ("adaptive" or a fixed precision).

    It predicts the held-out cells while it samples, and keeps these predictions: that is how it averages, and
    it cannot be told otherwise. The errors on its way are its own, before clipping.
    """

    package = "smurff"

    def prepare(self) -> None:
        """CSR matrices about the mean of the training cells, and dense side information (blanks are zero)."""
        main, *sides = self.problem.tables
        assert isinstance(main.train, Triplets)
        assert main.test is not None
        shape = self.problem.sizes[main.rows], self.problem.sizes[main.cols]
        self._mean = float(main.train.x.mean(dtype=np.float64))
        self._train, self._test = (
            sparse.csr_matrix((cells.x.astype(np.float64) - self._mean, (cells.i, cells.j)), shape=shape)
            for cells in (main.train, main.test)
        )
        self._side = {main.rows: 0, main.cols: 1}
        self._sides = [(self._side[s.rows], np.nan_to_num(np.asarray(s.train, np.float64))) for s in sides]

    def fit(self, watch: Watch) -> None:
        """Sample with seed 1."""
        import smurff  # noqa: PLC0415 - optional

        with_side = {mode for mode, _ in self._sides}
        priors = ["macau" if mode in with_side else "normal" for mode in (0, 1)]
        names = ("num_latent", "burnin", "nsamples")
        self._session = smurff.TrainSession(priors=priors, num_threads=self.threads, seed=1, verbose=0,
                                            **{name: self.settings[name] for name in names})  # fmt: skip
        noise = self.settings["noise"]
        model = smurff.AdaptiveNoise(5.0, 10.0) if noise == "adaptive" else smurff.FixedNoise(float(noise))
        self._session.setTrain(self._train, model, True)  # noqa: FBT003 - its signature: blanks are missing
        self._session.setTest(self._test)
        for mode, side in self._sides:
            self._session.addSideInfo(mode, side, direct=True)
        self._session.init()
        while (status := self._session.step()) is not None:
            error = status.rmse_avg if status.iter > 0 and "Sample" in status.phase else status.rmse_1sample
            watch(dict, error=float(error))

    def predict(self) -> Predictions:
        """Mean over the samples."""
        main = self.problem.tables[0]
        assert main.test is not None
        predicted = self._session.getTestPredictions()
        i, j = np.array([one.coords for one in predicted]).T
        values = np.array([one.pred_avg for one in predicted]) + self._mean
        # It gives the cells in an order of its own.
        order = np.lexsort((main.test.j, main.test.i))
        answer = np.empty(len(order))
        answer[order] = values[np.lexsort((j, i))]
        return {main.name: answer}

    def facts(self) -> dict[str, Any]:
        """Iterations."""
        return {"iterations": self.settings["burnin"] + self.settings["nsamples"]}

    def brief(self) -> dict[str, Any]:
        """Four samples."""
        return {**self.settings, "num_latent": 2, "burnin": 2, "nsamples": 2}
