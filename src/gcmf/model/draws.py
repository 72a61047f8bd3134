"""Draws of a sampled model: states that were kept, thinned so that memory is bounded, and what predictors they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]
    Array = NDArray[Any]

#: Bytes that the kept states take at most, unless so few would be left.
MAX_BYTES = 256 << 20
MIN_KEPT = 20


class Draws(NamedTuple):
    """S states of a chain, or of several one after the other. The last row of each array is of an entity unlike all.

    Factors are kept as float16, in a unit of their own that is a power of two: three digits of each are right.
    """

    factors: tuple[Array, ...]
    """Per entity set (S, d + 1, K), float16: u over `unit`."""
    unit: Floats
    """(E, K)."""
    biases: tuple[Array, ...]
    """Per layer (2 × relation + side), (S, d + 1), float32."""
    scales: Floats
    """Of relations and factors, (S, M, K); all 1 where the model has none."""
    parameters: tuple[Floats, ...]
    """Per relation what its likelihood has learned, in each draw, (S, n)."""
    offset: Floats
    """Fixed part of θ per relation, (M,)."""
    ends: NDArray[np.int64]
    """Row set and column set of each relation, (M, 2)."""
    mates: NDArray[np.int64]
    """Which factor of the column each factor of the row meets, (M, K)."""
    inclusion: Floats
    """How probable it is that a set holds a factor, (E, K)."""
    effective: Floats
    """Effective number of draws of θ of random cells of a relation, the worst of twenty; 0: too few to tell, (M,)."""
    r_hat: Floats
    """Of these θ, or of log p of all cells of the relation if that is worse; 0: too few draws to tell, (M,)."""

    @property
    def n(self) -> int:
        """Number of states."""
        return len(self.scales)

    def linear_predictors(self, m: int, i: Indices, j: Indices) -> Floats:
        """Return θ of cells (i, j) of relation m in every draw, (S, n); position −1 is an entity known by its prior."""
        return np.stack([theta for theta, _ in self.each(m, i, j)])

    def each(self, m: int, i: Indices, j: Indices, *, grid: bool = False) -> Iterator[tuple[Floats, Floats]]:
        """Yield θ of cells and the likelihood's parameters, draw by draw; `grid`: of all rows i with all columns j."""
        r, c = self.ends[m].tolist()
        for s in range(self.n):
            u = self.factors[r][s][i].astype(np.float32) * self.unit[r].astype(np.float32)
            p = self.factors[c][s][j].astype(np.float32) * self.unit[c].astype(np.float32)
            p = p[:, self.mates[m]] * self.scales[s, m].astype(np.float32)
            b, d = self.biases[2 * m][s][i], self.biases[2 * m + 1][s][j]
            if grid:
                theta = (u @ p.T + b[:, None] + d).astype(np.float64)
            else:
                theta = (np.einsum("nk,nk->n", u, p) + b + d).astype(np.float64)
            yield theta + self.offset[m], self.parameters[m][s]

    def columns(self, order: NDArray[np.intp]) -> Draws:
        """Return the same draws with their factors in this order."""
        place = np.argsort(order)
        return self._replace(
            factors=tuple(np.ascontiguousarray(f[:, :, order]) for f in self.factors), unit=self.unit[:, order],
            scales=self.scales[:, :, order], mates=place[self.mates[:, order]], inclusion=self.inclusion[:, order],
        )  # fmt: skip


def n_kept(sizes: tuple[int, ...], ends: tuple[tuple[int, int], ...], n_factors: int, n_draws: int) -> int:
    """How many of `n_draws` states are kept: all, if they fit into `MAX_BYTES`, or as many as do, but some."""
    layers = sum(sizes[e] + 1 for pair in ends for e in pair)
    state = 2 * n_factors * sum(d + 1 for d in sizes) + 4 * layers
    return min(n_draws, max(MAX_BYTES // max(state, 1), MIN_KEPT))
