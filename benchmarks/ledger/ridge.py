"""θ = c + a_row + b_col + f_row · W_col + g_col · V_row by ridge, of a matrix with few gaps.

f and g are what other relations say of rows and columns, as leading principal components.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.ledger.losses import curvature, loss, normal
from benchmarks.ledger.scores import Answer
from benchmarks.ledger.shapes import around, matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.problem import Problem

    Floats = NDArray[np.float64]

#: Of the biases and of the weights, tried in this order: each fit starts from the last.
PENALTIES = ((10.0, 1000.0), (3.0, 300.0), (3.0, 100.0), (1.0, 30.0), (1.0, 10.0), (1.0, 3.0))
COMPONENTS = 50


def ridge(problem: Problem, name: str, *, split: int) -> Answer:
    """The penalty is chosen by a tenth of the training cells, or of the rows where whole rows are to be predicted."""
    main, *sides = around(problem, name).tables
    x = matrix(problem[name], problem.sizes).astype(np.float64)
    kind = main.likelihood
    known = np.isfinite(x)
    center, scale = (float(x[known].mean()), float(x[known].std()) or 1.0) if kind == "gaussian" else (0.0, 1.0)
    x = np.where(known, (x - center) / scale, 0.0)
    found = {side.rows: _components(side.train) for side in sides}
    f, g = (found.get(end, np.zeros((problem.sizes[end], 0))) for end in (main.rows, main.cols))
    model = _Model(kind, f, g, x.shape)
    rng = np.random.default_rng([split, 7])
    assert main.test is not None
    whole = not known[np.unique(main.test.i)].any()
    out = known & ((rng.random(len(x)) < 0.1)[:, None] if whole else rng.random(x.shape) < 0.1)
    losses = []
    for penalties in PENALTIES:
        theta = model.fit(x, known & ~out, penalties)
        losses.append(float(loss(kind, x[out], theta[out])[0].mean()))
        if losses[-1] > 1.02 * min(losses):
            break
    best = int(np.argmin(losses))
    theta = model.fit(x, known, PENALTIES[best])[main.test.i, main.test.j]
    if kind == "bernoulli":
        return Answer(expit(theta))
    return normal(main.test.x, theta * scale + center, np.sqrt(2.0 * losses[best]) * scale)


class _Model:
    def __init__(self, kind: str, f: Floats, g: Floats, shape: tuple[int, int]) -> None:
        self.kind, self.f, self.g = kind, f, g
        n, m = shape
        self.shapes = ((1, 1), (n, 1), (1, m), (f.shape[1], m), (n, g.shape[1]))
        self.edges = np.cumsum([a * b for a, b in self.shapes])
        self.at = np.zeros(self.edges[-1])

    def fit(self, x: Floats, known: NDArray[np.bool_], penalties: tuple[float, float]) -> Floats:
        """θ of all cells, of the smallest Σ loss + penalties/2 · squares."""
        weight, bias = penalties[1], penalties[0]
        weights = np.repeat([1e-6, bias, bias, weight, weight], [a * b for a, b in self.shapes])
        steep = curvature(self.kind, float(x[known].mean()))
        ones = known.astype(np.float64)
        counts = [known.sum(), ones.sum(1), ones.sum(0), (self.f**2).T @ ones, ones @ self.g**2]
        unit = 1.0 / np.sqrt(weights + steep * np.concatenate([np.ravel(one) for one in counts]))

        def objective(scaled: Floats) -> tuple[float, Floats]:
            b = scaled * unit
            value, slope = loss(self.kind, x, self.theta(b))
            slope = np.where(known, slope, 0.0)
            parts = [slope.sum(), slope.sum(1), slope.sum(0), self.f.T @ slope, slope @ self.g]
            g = np.concatenate([np.ravel(part) for part in parts])
            return float(value[known].sum() + 0.5 * (weights * b * b).sum()), (g + weights * b) * unit

        options = {"maxiter": 60, "ftol": 1e-6}
        self.at = minimize(objective, self.at / unit, jac=True, method="L-BFGS-B", options=options).x * unit
        return self.theta(self.at)

    def theta(self, b: Floats) -> Floats:
        parts = np.split(b, self.edges[:-1])
        c, rows, cols, w, v = (part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True))
        return np.asarray(c + rows + cols + self.f @ w + v @ self.g.T)


def _components(side: NDArray[np.float32]) -> Floats:
    """Columns standardized, gaps filled by zero, leading components with unit largest variance."""
    x = np.asarray(side, np.float64)
    known = np.isfinite(x)
    n = np.maximum(known.sum(axis=0), 1)
    x = np.where(known, x, 0.0)
    x = np.where(known, x - x.sum(axis=0) / n, 0.0)
    deviation = np.sqrt((x**2).sum(axis=0) / n)
    x = x / np.where(deviation > 1e-9, deviation, 1.0)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    kept = min(COMPONENTS, int((s > 1e-6 * s[0]).sum()))
    # The first component has unit variance and the others their share of it, so that one penalty suits all.
    return np.asarray(u[:, :kept] * s[:kept] / s[0] * np.sqrt(len(x)))
