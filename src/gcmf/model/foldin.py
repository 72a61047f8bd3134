"""Fold-in: the factors of new rows, with everything else of a fit held fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Partners:
    """What a new row meets: D columns that it may have cells in, all Gaussian, and a prior of its factors."""

    mean: Floats
    var: Floats
    """ū_j and ũ_j of the columns, (D, K)."""
    weight: Floats
    """⟨τ⟩ of the relation each column belongs to, (D,)."""
    precision: Floats
    """⟨α⟩ of the rows' entity set, (K,)."""

    def rescaled(self, size: Floats) -> Partners:
        """Return the same model with column factors divided by `size` (K,): rows are multiplied by it."""
        return Partners(self.mean / size, self.var / size**2, self.weight, self.precision / size**2)


def fold_in(partners: Partners, x: Floats) -> Floats:
    """Solve (diag(α + Σ_j τ_j ũ_j) + Σ_j τ_j ū_j ū_jᵀ) ū_i = Σ_j τ_j x_ij ū_j for each row i of x, (n, K).

    The sums run over the observed cells of the row; NaN is missing, and a row without any keeps the prior
    mean, zero. Biases must have been taken off x. The matrix depends on a row only by what is missing, so
    rows that miss the same cells are solved together.
    """
    observed = ~np.isnan(x)
    out = np.zeros((len(x), partners.mean.shape[1]))
    for rows in _alike(observed):
        seen = observed[rows[0]]
        mean, weight = partners.mean[seen], partners.weight[seen]
        weighted = mean * weight[:, None]
        A = weighted.T @ mean
        A[np.diag_indices_from(A)] += partners.precision + weight @ partners.var[seen]
        out[rows] = np.linalg.solve(A, (x[np.ix_(rows, seen)] @ weighted).T).T
    return out


def log_likelihood(partners: Partners, x: Floats) -> Floats:
    """log N(x_i | 0, W P⁻¹ Wᵀ + D) of the observed cells of each row i of x, its factors integrated out, (n,).

    W are the columns' means ū_j, P = diag(α), and D = diag(1/τ_j + Σ_k ũ_jk/α_k): what W does not know of itself is
    noise. With A = P + Wᵀ D⁻¹ W and b = Wᵀ D⁻¹ x_i, log det = log det A + Σ log D − Σ log α, and the square is
    x_iᵀ D⁻¹ x_i − bᵀ A⁻¹ b. NaN is missing; biases must have been taken off x.
    """
    observed = ~np.isnan(x)
    out = np.zeros(len(x))
    for rows in _alike(observed):
        seen = observed[rows[0]]
        mean, noise = partners.mean[seen], 1.0 / partners.weight[seen] + partners.var[seen] @ (1.0 / partners.precision)
        r, weighted = x[np.ix_(rows, seen)], mean / noise[:, None]
        A = weighted.T @ mean + np.diag(partners.precision)
        b = r @ weighted
        squares = (r**2 / noise).sum(axis=1) - (b * np.linalg.solve(A, b.T).T).sum(axis=1)
        log_det = np.linalg.slogdet(A)[1] - np.log(partners.precision).sum() + np.log(2.0 * np.pi * noise).sum()
        out[rows] = -0.5 * (squares + log_det)
    return out


def _alike(observed: NDArray[np.bool_]) -> Iterator[NDArray[np.intp]]:
    """Yield the positions of rows that are equal, group by group."""
    packed = np.packbits(observed, axis=1)
    _, group, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(group.ravel(), kind="stable")
    yield from np.split(order, np.cumsum(counts)[:-1])
