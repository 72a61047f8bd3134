"""myFM: Bayesian factorization machines by Gibbs sampling."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from benchmarks.peers.base import Peer
from benchmarks.problem import Triplets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.peers.base import Predictions, Watch
    from benchmarks.problem import Table

#: The first samples, which myFM leaves out unless told otherwise.
BURN_IN = 5


class MyFM(Peer):
    """`myfm.MyFMRegressor`, or its classifier for 0/1 cells. Settings: rank, n_iter.

    One main matrix: a relation block per side, one-hot entities and their side information, as its examples do.
    A cycle of relations: a feature per entity of any set and one per relation; every cell is a sample.
    """

    package = "myfm"
    every = 5

    def prepare(self) -> None:
        """Design matrices of the training and the held-out cells."""
        if self.problem.tables[0].likelihood == "bernoulli":
            self._prepare_cycle()
        else:
            self._prepare_main()

    def _prepare_main(self) -> None:
        import myfm  # noqa: PLC0415 - optional

        main, *sides = self.problem.tables
        assert isinstance(main.train, Triplets)
        assert main.test is not None
        blocks, self._groups = [], []
        for entity in (main.rows, main.cols):
            extra = [np.nan_to_num(side.train) for side in sides if side.rows == entity]
            parts = [sparse.identity(self.problem.sizes[entity]), *map(sparse.csr_matrix, extra)]
            blocks.append(sparse.hstack(parts).tocsr())
            self._groups += [part.shape[1] for part in parts]
        self._y = main.train.x.astype(np.float64)
        self._train, self._test = (
            {"X": None, "X_rel": [myfm.RelationBlock(index, one) for index, one in zip(cells[:2], blocks, strict=True)]}
            for cells in (main.train, main.test)
        )

    def _prepare_cycle(self) -> None:
        starts = dict(zip(self.problem.sizes, np.cumsum([0, *self.problem.sizes.values()]), strict=False))
        tables = self.problem.tables
        width = sum(self.problem.sizes.values()) + len(tables)

        def design(part: str) -> sparse.csr_matrix:
            found = [
                _features(t, getattr(t, part), starts, width - len(tables) + n)
                for n, t in enumerate(tables)
                if getattr(t, part) is not None
            ]
            columns = np.concatenate(found)
            return sparse.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, 3)),
                                     shape=(len(columns), width))  # fmt: skip

        self._groups = [*self.problem.sizes.values(), len(tables)]
        self._y = np.concatenate([t.train.x for t in tables if isinstance(t.train, Triplets)]).astype(np.float64)
        self._train, self._test = {"X": design("train"), "X_rel": []}, {"X": design("test"), "X_rel": []}

    def fit(self, watch: Watch) -> None:
        """Sample with seed 0."""
        import myfm  # noqa: PLC0415 - optional

        self._binary = self.problem.tables[0].likelihood == "bernoulli"
        kind = myfm.MyFMClassifier if self._binary else myfm.MyFMRegressor
        self._model = kind(rank=self.settings["rank"], random_seed=0)
        self._sum, self._samples = np.zeros(0), 0

        def note(iteration: int, sample: Any, *_: Any) -> tuple[bool, None]:  # noqa: ANN401
            watch(lambda: self._average(iteration, sample))
            return False, None

        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            self._model.fit(**self._train, y=self._y, n_iter=self.settings["n_iter"], group_shapes=self._groups,
                            callback=note)  # fmt: skip

    def predict(self) -> Predictions:
        """Mean over the samples."""
        if self._binary:
            return self._split(self._model.predict_proba(**self._test))
        return self._split(self._model.predict(**self._test, n_workers=self.threads))

    def facts(self) -> dict[str, Any]:
        """Iterations."""
        return {"iterations": self.settings["n_iter"]}

    def brief(self) -> dict[str, Any]:
        """Ten samples."""
        return {"rank": 2, "n_iter": 10}

    def _average(self, iteration: int, sample: Any) -> Predictions:  # noqa: ANN401
        """Mean over the samples that were looked at, so far; before the burn-in is over, this sample alone."""
        design = self._test["X"]
        if design is None:
            design = sparse.csr_matrix((len(self.problem.tables[0].test.i), 0))  # type: ignore[union-attr]
        score = np.asarray(sample.predict_score(design, self._test["X_rel"]))
        score = ndtr(score) if self._binary else score
        if iteration < BURN_IN:
            return self._split(score)
        self._sum, self._samples = (self._sum if self._samples else 0.0) + score, self._samples + 1
        return self._split(self._sum / self._samples)

    def _split(self, values: NDArray[np.float64]) -> Predictions:
        tables = self.problem.tested
        edges = np.cumsum([len(t.test.x) for t in tables if t.test is not None])[:-1]
        return dict(zip([t.name for t in tables], np.split(values, edges), strict=True))


def _features(table: Table, cells: Triplets, starts: dict[str, Any], indicator: int) -> NDArray[np.int64]:
    """Columns of a cell's three ones: its row entity, its column entity, its relation, (n, 3)."""
    i, j = cells.i + starts[table.rows], cells.j + starts[table.cols]
    return np.sort(np.stack([i, j, np.full(len(i), indicator)], axis=1), axis=1)
