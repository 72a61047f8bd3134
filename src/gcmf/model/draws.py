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
MAX_BYTES = 512 << 20
MIN_KEPT = 20


class Origin(NamedTuple):
    """Draws as they were drawn: by it, other rows can be drawn beside them.

    With u of a draw in `Draws.factors`, the u that was drawn is u T⁻¹ + m; there a new row has
    u ~ N(m + f_iᵀ w, 1/α) and b ~ N(μ + f_iᵀ c, σ²), and biases are those that have not taken up what centers m do.
    """

    turn: Floats
    """T, (S, E, K, K)."""
    precision: Floats
    """α, (S, E, K)."""
    on: NDArray[np.bool_]
    """(S, E, K)."""
    center: Floats
    """m, (S, E, K); zero where there are none."""
    scales: Floats
    """d, (S, M, K)."""
    bias_prior: Floats
    """μ and σ² of each layer, (S, 2, 2M)."""
    learned: tuple[Floats, ...]
    """Per relation the parameters of its likelihood as engines take them, (S, n)."""
    coefficients: tuple[Floats, ...]
    """Per entity set w, (S, p, K); no features, p = 0, where it has no covariates."""
    bias_coefficients: tuple[Floats, ...]
    """Per entity set c, (S, p, 2M)."""

    def columns(self, order: NDArray[np.intp]) -> Origin:
        """The same with the factors in this order."""
        return self._replace(
            turn=np.ascontiguousarray(self.turn[:, :, order][..., order]), precision=self.precision[..., order],
            on=self.on[..., order], center=self.center[..., order], scales=self.scales[..., order],
            coefficients=tuple(w[..., order] for w in self.coefficients),
        )  # fmt: skip


class Draws(NamedTuple):
    """S states of a chain, or of several one after the other. The last row of each array is of an entity unlike all.

    All are on the axes of one of them (`model/alignment.py`), so that a factor is the same in all.
    """

    factors: tuple[Array, ...]
    """Per entity set (S, d + 1, K), float32."""
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
    origin: Origin | None = None
    """How they were drawn; older files do not have it."""

    @property
    def n(self) -> int:
        """Number of states."""
        return len(self.scales)

    @property
    def unit(self) -> Floats:
        """What factors are in units of, (E, K): nothing but one, so that none is cut off."""
        return np.ones((len(self.factors), self.scales.shape[2]))

    def linear_predictors(self, m: int, i: Indices, j: Indices) -> Floats:
        """Return θ of cells (i, j) of relation m in every draw, (S, n); position −1 is an entity known by its prior."""
        return np.stack([theta for theta, _ in self.each(m, i, j)])

    def each(self, m: int, i: Indices, j: Indices, *, grid: bool = False) -> Iterator[tuple[Floats, Floats]]:
        """Yield θ of cells and the likelihood's parameters, draw by draw; `grid`: of all rows i with all columns j."""
        for s in range(self.n):
            yield self.one(m, i, j, s, grid=grid), self.parameters[m][s]

    def one(self, m: int, i: Indices, j: Indices, s: int, *, grid: bool = False) -> Floats:
        """θ of cells in draw s."""
        u, p, b, d = self.sides(m, i, j, s)
        theta = u @ p.T + b[:, None] + d if grid else np.einsum("nk,nk->n", u, p) + b + d
        return np.asarray(theta.astype(np.float64) + self.offset[m])

    def sides(self, m: int, i: Indices, j: Indices, s: int) -> tuple[Array, Array, Array, Array]:
        """Factors of rows i of relation m in draw s, of columns j as rows see them, and the biases of both."""
        r, c = self.ends[m].tolist()
        p = self.factors[c][s][j][:, self.mates[m]] * self.scales[s, m].astype(np.float32)
        return self.factors[r][s][i], p, self.biases[2 * m][s][i], self.biases[2 * m + 1][s][j]

    def parts(self, m: int, i: Indices, j: Indices) -> tuple[Floats, Floats, Floats]:
        """What θ of cells (i, j) is made of: the means over draws of both biases, (n,) each, and of u_k p_k, (n, K)."""
        total = np.zeros((len(i), self.scales.shape[2]))
        biases = np.zeros((2, len(i)))
        for s in range(self.n):
            u, p, b, d = self.sides(m, i, j, s)
            total += u * p
            biases += b, d
        return biases[0] / self.n, biases[1] / self.n, total / self.n

    def columns(self, order: NDArray[np.intp]) -> Draws:
        """Return the same draws with their factors in this order."""
        place = np.argsort(order)
        return self._replace(
            factors=tuple(np.ascontiguousarray(f[:, :, order]) for f in self.factors),
            scales=self.scales[:, :, order], mates=place[self.mates[:, order]], inclusion=self.inclusion[:, order],
            origin=None if self.origin is None else self.origin.columns(order),
        )  # fmt: skip


def n_kept(sizes: tuple[int, ...], ends: tuple[tuple[int, int], ...], n_factors: int, n_draws: int) -> int:
    """How many of `n_draws` states are kept: all, if they fit into `MAX_BYTES`, or as many as do, but some."""
    layers = sum(sizes[e] + 1 for pair in ends for e in pair)
    state = 4 * n_factors * sum(d + 1 for d in sizes) + 4 * layers + 8 * len(sizes) * n_factors**2
    return min(n_draws, max(MAX_BYTES // max(state, 1), MIN_KEPT))
