"""Which likelihood suits a table of counts, from how they vary around the means of its rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Squared residuals that are as many times larger than Poisson counts have are none of chance or of a few factors,
TOO_LARGE = 2.0
#: if their sum is more than so many deviations away.
BY_CHANCE = 5.0


class Residuals(NamedTuple):
    """Sums over the cells of a table, with μ = (mean of the row) (mean of the column) / (mean of all)."""

    n: float
    n_rows: float
    n_cols: float
    squares: float
    """Σ (x − μ)²."""
    expected: float
    """Σ μ."""
    chance: float
    """Σ μ + 2μ², the variance of the squares of Poisson counts."""

    @property
    def ratio(self) -> float:
        """How many times more than Poisson counts these vary, less what the means have taken up."""
        freedom = self.n - self.n_rows - self.n_cols + 1.0
        return self.squares / self.expected * self.n / freedom if freedom > 0 and self.expected > 0 else 0.0

    @property
    def likelihood(self) -> str:
        """The one to choose: Poisson, unless the counts clearly vary more."""
        far = self.squares - self.expected > BY_CHANCE * np.sqrt(self.chance)
        return "negative_binomial" if far and self.ratio > TOO_LARGE else "poisson"


def residuals(x: Any) -> Residuals:  # noqa: ANN401 - an array or a sparse matrix
    """Sums over a dense matrix, where NaN is missing, or a sparse one, where what is not stored is zero."""
    if not sparse.issparse(x):
        dense = np.asarray(x, dtype=np.float64)
        i, j = np.nonzero(~np.isnan(dense))
        return _listed(i, j, dense[i, j], dense.shape)
    cells = x.tocoo()
    value = cells.data.astype(np.float64)
    rows, cols = (np.bincount(at, value, size) for at, size in zip((cells.row, cells.col), x.shape, strict=True))
    total = max(float(value.sum()), 1e-300)
    mu, square = rows[cells.row] * cols[cells.col] / total, float((rows @ rows) * (cols @ cols)) / total**2
    squares = float((value**2 - 2.0 * value * mu).sum()) + square
    n_rows, n_cols = x.shape
    return Residuals(float(n_rows * n_cols), float(n_rows), float(n_cols), squares, total, total + 2.0 * square)


def _listed(i: NDArray[Any], j: NDArray[Any], x: NDArray[np.float64], shape: tuple[int, ...]) -> Residuals:
    counts = [np.bincount(at, minlength=size) for at, size in zip((i, j), shape, strict=True)]
    rows, cols = (
        np.bincount(at, x, size) / np.maximum(n, 1) for at, size, n in zip((i, j), shape, counts, strict=True)
    )
    mu = rows[i] * cols[j] / max(float(x.mean()) if len(x) else 0.0, 1e-300)
    n_rows, n_cols = (float(np.count_nonzero(n)) for n in counts)
    chance = float((mu + 2.0 * mu**2).sum())
    return Residuals(float(len(x)), n_rows, n_cols, float(((x - mu) ** 2).sum()), float(mu.sum()), chance)
