"""θ = c + a_row + b_col by ridge: what rows and columns say by themselves, whatever the kind of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.ledger.losses import curvature, intercept, loss, normal, poisson
from benchmarks.ledger.scores import Answer
from benchmarks.ledger.shapes import cells
from benchmarks.problem import Triplets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from benchmarks.problem import Problem, Table

    Floats = NDArray[np.float64]

#: Penalties that are tried, per entity and in units of one cell; real values have unit variance.
PENALTIES = (0.3, 1.5, 6.0, 25.0)
#: Of an intercept: as good as none.
FREE = 1e-6


class Biases:
    """Σ loss(x, θ) + λ/2 (|a|² + |b|²), smallest."""

    def __init__(self, kind: str, shape: tuple[int, int]) -> None:
        self.kind, self.shape = kind, shape
        self.start = np.zeros(1 + sum(shape))

    def fit(self, data: Triplets, penalty: float) -> Biases:
        """Find the smallest, from where the last fit ended."""
        n, m = self.shape
        i, j, x = data.i.astype(np.int64), data.j.astype(np.int64), data.x.astype(np.float64)
        weights = np.concatenate([[FREE], np.full(n + m, penalty)])
        if not self.start.any():
            self.start[0] = intercept(self.kind, float(x.mean()))
        # In units of each bias's own curvature, about, the valley is round and few steps are enough.
        counts = np.concatenate([[len(x)], np.bincount(i, minlength=n), np.bincount(j, minlength=m)])
        unit = 1.0 / np.sqrt(weights + counts * curvature(self.kind, float(x.mean())))

        def objective(scaled: Floats) -> tuple[float, Floats]:
            b = scaled * unit
            value, slope = loss(self.kind, x, b[0] + b[1 : 1 + n][i] + b[1 + n :][j])
            g = np.concatenate([[slope.sum()], np.bincount(i, slope, n), np.bincount(j, slope, m)])
            return float(value.sum() + 0.5 * (weights * b * b).sum()), (g + weights * b) * unit

        found = minimize(
            objective, self.start / unit, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-7}
        )
        self.start = found.x * unit
        return self

    def theta(self, at: Triplets) -> Floats:
        """Predictors of cells."""
        n = self.shape[0]
        return np.asarray(self.start[0] + self.start[1 : 1 + n][at.i] + self.start[1 + n :][at.j])


def biases(problem: Problem, *, split: int) -> dict[str, Answer]:
    """Each tested relation by itself; the penalty is chosen by a tenth of its training cells."""
    return {table.name: _answer(table, problem.sizes, split) for table in problem.tested}


def _answer(table: Table, sizes: Mapping[str, int], split: int) -> Answer:
    data, kind = cells(table), table.likelihood
    center, scale = 0.0, 1.0
    if kind == "gaussian":
        center, scale = float(data.x.mean(dtype=np.float64)), float(data.x.std(dtype=np.float64)) or 1.0
    own = Triplets(data.i, data.j, (data.x.astype(np.float64) - center) / scale)
    out = np.random.default_rng([split, 7]).random(len(own.x)) < 0.1
    known, tried = (Triplets(*(part[which] for part in own)) for which in (~out, out))
    model = Biases(kind, (sizes[table.rows], sizes[table.cols]))
    losses = {}
    for penalty in PENALTIES[::-1]:
        losses[penalty] = float(loss(kind, tried.x, model.fit(known, penalty).theta(tried))[0].mean())
    best = min(losses, key=lambda one: losses[one])
    assert table.test is not None
    theta = model.fit(own, best).theta(table.test)
    if kind == "gaussian":
        return normal(table.test.x, theta * scale + center, np.sqrt(2.0 * losses[best]) * scale)
    return Answer(expit(theta)) if kind == "bernoulli" else poisson(table.test.x, np.exp(theta))
