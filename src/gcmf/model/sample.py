"""Draws of linear predictors and of cells, from all that q knows of factors, biases and scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gcmf.model.predict import drawn_parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

#: Numbers of factors that are drawn at a time.
_NUMBERS = 1 << 22


def sample_theta(fitted: Fitted, m: int, cells: tuple[Indices, Indices], n: int, rng: np.random.Generator) -> Floats:
    """Draw θ of cells (i, j) of relation m, n times: (n, cells).

    In every draw an entity has one vector and one bias, whatever cells it is in, and the relation one scale per factor:
    so draws of several cells are joint. A sampled model has such draws, of which some are taken at random. Entities
    known only by their prior (−1) are drawn anew for every cell.
    """
    (r, c), (i, j) = fitted.ends[m], cells
    if fitted.draws is not None:
        return fitted.draws.linear_predictors(m, i, j)[rng.integers(fitted.draws.n, size=n)]
    if r == c:  # who is on both sides has the same vector there
        rows, at = _different(np.concatenate([i, j]))
        cols, (at_rows, at_cols) = rows, np.split(at, 2)
    else:
        (rows, at_rows), (cols, at_cols) = _different(i), _different(j)
    out = np.empty((n, len(i)))
    step = max(1, _NUMBERS // max((len(rows) + len(cols) + 2 * len(i)) * fitted.on.shape[1], 1))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        draw = _Draw(fitted, part.stop - start, rng)
        u, b = draw.factors(r, rows), draw.biases(2 * m, rows)
        v = u if r == c else draw.factors(c, cols)
        d = b if fitted.schema.relations[m].symmetric else draw.biases(2 * m + 1, cols)
        theta = np.einsum("snk,snk->sn", u[:, at_rows], draw.received(m, v)[:, at_cols])
        out[part] = theta + b[:, at_rows] + d[:, at_cols] + fitted.offset[m]
    return out


def sample_cells(fitted: Fitted, m: int, cells: tuple[Indices, Indices], n: int, rng: np.random.Generator) -> Floats:
    """Draw cells (i, j) of relation m, n times, in the user's units: (n, cells)."""
    center, scale = fitted.measure(m, cells[1])
    likelihood = fitted.likelihoods[m]
    if fitted.draws is None:
        drawn = likelihood.draw(sample_theta(fitted, m, cells, n, rng), fitted.parameters_at(m, *cells), rng)
    else:
        theta, parameters = fitted.draws.linear_predictors(m, *cells), drawn_parameters(fitted, m, *cells)
        which = rng.integers(fitted.draws.n, size=n)
        drawn = np.stack([likelihood.draw(theta[s], parameters[s], rng) for s in which.tolist()])
    return np.asarray(drawn * scale + center)


def _different(i: Indices) -> tuple[Indices, Indices]:
    """Different entities, −1 as often as it occurs, and where each of the cells has its own among them."""
    known, where = np.unique(i[i >= 0], return_inverse=True)
    strange = np.flatnonzero(i < 0)
    at = np.empty(len(i), dtype=np.int64)
    at[i >= 0], at[strange] = where, len(known) + np.arange(len(strange))
    return np.concatenate([known, i[strange]]), at


@dataclass(frozen=True)
class _Draw:
    """Some draws of what belongs to entities; −1 is one known only by its prior."""

    fitted: Fitted
    size: int
    rng: np.random.Generator

    def factors(self, e: int, which: Indices) -> Floats:
        """Vectors of entities, (size, entities, K)."""
        known, f = (which >= 0)[:, None], self.fitted
        return self._normal(np.where(known, f.mean[e][which], 0.0), np.where(known, f.var[e][which], f.prior_var[e]))

    def biases(self, layer: int, which: Indices) -> Floats:
        """(size, entities)."""
        known, f = which >= 0, self.fitted
        prior, prior_var = f.prior_bias[:, layer]
        mean = np.where(known, f.bias_mean[layer][which], prior)
        return self._normal(mean, np.where(known, f.bias_var[layer][which], prior_var))

    def received(self, m: int, v: Floats) -> Floats:
        """Vectors of columns as rows meet them: those of mates, times scales."""
        scales = self.fitted.scales
        if scales is None:
            return v
        d = self._normal(scales.mean[m], scales.var[m])[:, None]
        return d * (v[:, :, scales.mate] if self.fitted.directed[m] else v)

    def _normal(self, mean: Floats, var: Floats) -> Floats:
        return np.asarray(mean + np.sqrt(var) * self.rng.standard_normal((self.size, *mean.shape)))
