"""Predictions with their uncertainty, for any pair of entities of any relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.model.posterior import scales_of
from gcmf.model.predictive import Drawn, Normal, interval, mean_and_variance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.model.fitted import Fitted
    from gcmf.model.predictive import Theta

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]
    _Entities = tuple[Floats, Floats, Floats, Floats]

#: Numbers that predictions of pairs are made from at a time.
_CHUNK = 100_000
_CHUNK_OF_DRAWS = 1 << 21
#: Rows and columns predicted together: some megabytes, also where quadrature takes 21 numbers per cell.
_TILE = 128, 1024


class Prediction(NamedTuple):
    """Mean and standard deviation of new cells, in the user's units."""

    mean: Floats
    std: Floats


class Interval(NamedTuple):
    """The same, and the ends of what holds a new cell with some probability."""

    mean: Floats
    std: Floats
    lower: Floats
    upper: Floats


def predict_pairs(
    fitted: Fitted, m: int, i: Indices, j: Indices, *, level: float | None = None
) -> Prediction | Interval:
    """Predict cells (i, j) of relation m; index −1 stands for an entity known only by its prior.

    `level` is the probability with which a new cell is to lie in its interval, if intervals are wanted.
    """
    out, step = _empty((len(i),), level), cells_at_a_time(fitted)
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        answer = _answer(fitted, m, j[part], theta_of(fitted, m, i[part], j[part]), level)
        for whole, values in zip(out, answer, strict=True):
            whole[part] = values
    return out


def predict_grid(
    fitted: Fitted, m: int, i: Indices, j: Indices, *, level: float | None = None
) -> Prediction | Interval:
    """Predict the outer product of rows i and columns j, a tile at a time: three matrix products each."""
    out = _empty((len(i), len(j)), level)
    if fitted.draws is not None:
        return _drawn_grid(fitted, m, (i, j), out, level)
    for left in range(0, len(j), _TILE[1]):
        cols = slice(left, left + _TILE[1])
        col_entities = [_partners(fitted, m, j[cols], of_q=own) for own in _variances(fitted, m)]
        for top in range(0, len(i), _TILE[0]):
            rows = slice(top, top + _TILE[0])
            row_entities = [_entities(fitted, fitted.ends[m][0], 2 * m, i[rows], of_q=own)
                            for own in _variances(fitted, m)]  # fmt: skip
            (mean, var), *of_q = map(_theta_grid, row_entities, col_entities)
            p = fitted.parameters_at(m, i[rows], j[cols], grid=True)
            theta = Normal(mean + fitted.offset[m], var, p, of_q[0][1] if of_q else None)
            for whole, values in zip(out, _answer(fitted, m, j[cols], theta, level), strict=True):
                whole[rows, cols] = values
    return out


def _drawn_grid(
    fitted: Fitted, m: int, cells: tuple[Indices, Indices], out: Prediction | Interval, level: float | None
) -> Prediction | Interval:
    """The same from draws: as many rows at a time as their draws leave room for."""
    draws, (i, j) = fitted.draws, cells
    assert draws is not None
    step = max(cells_at_a_time(fitted) // max(len(j), 1), 1)
    for top in range(0, len(i), step):
        rows = slice(top, top + step)
        theta = np.stack([theta for theta, _ in draws.each(m, i[rows], j, grid=True)])
        p = drawn_parameters(fitted, m, i[rows], j, grid=True)
        for whole, values in zip(out, _answer(fitted, m, j, Drawn(theta, p), level), strict=True):
            whole[rows] = values
    return out


def cells_at_a_time(fitted: Fitted) -> int:
    """Of how many cells predictors are held at a time."""
    return _CHUNK if fitted.draws is None else max(_CHUNK_OF_DRAWS // fitted.draws.n, 1)


def _empty(shape: tuple[int, ...], level: float | None) -> Prediction | Interval:
    made = [np.empty(shape) for _ in range(2 if level is None else 4)]
    return Prediction(*made) if level is None else Interval(*made)


def theta_of(fitted: Fitted, m: int, i: Indices, j: Indices) -> Theta:
    """What is known of the linear predictors of cells (i, j) of relation m."""
    if fitted.draws is not None:
        return Drawn(fitted.draws.linear_predictors(m, i, j), drawn_parameters(fitted, m, i, j))
    (mean, var), *of_q = (theta_pairs(fitted, m, i, j, of_q=own) for own in _variances(fitted, m))
    return Normal(mean, var, fitted.parameters_at(m, i, j), of_q[0][1] if of_q else None)


def drawn_parameters(fitted: Fitted, m: int, i: Indices, j: Indices, *, grid: bool = False) -> Sequence[Floats]:
    """What each draw has learned of the likelihood of cells (i, j)."""
    assert fitted.draws is not None
    if fitted.row_noise is None:
        return list(fitted.draws.parameters[m])
    share = fitted.noise_share(m, i, j, grid=grid)
    return [fitted.likelihoods[m].at_noise(p, share) for p in fitted.draws.parameters[m]]


def _variances(fitted: Fitted, m: int) -> list[bool]:
    """Which variances of factors and biases are needed: those of predictions, and those of q if they are others.

    Wide variances of θ make intervals hold, but move what is expected of 0/1 cells and counts, and on rare ones for the
    worse (docs/model.md, "Error bars").
    """
    wide = fitted.terms is not None and fitted.terms.var is not None
    return [False, True] if wide and not fitted.likelihoods[m].least_squares else [False]


def _theta_grid(rows: _Entities, cols: _Entities) -> tuple[Floats, Floats]:
    """Mean (less the offset) and variance of θ for every pair, as `theta_pairs` has them."""
    (u, u_var, b, b_var), (p, p_var, d, d_var) = rows, cols
    mean = u @ p.T + b[:, None] + d
    var = (u**2 + u_var) @ p_var.T + u_var @ (p**2).T
    return mean, var + b_var[:, None] + d_var


def theta_pairs(fitted: Fitted, m: int, i: Indices, j: Indices, *, of_q: bool = False) -> tuple[Floats, Floats]:
    """Mean and variance of θ: m = ū_i·ū_j + b̄_i + b̄_j, v = Σ[ū²ũ + ũū² + ũũ] + b̃_i + b̃_j; wide, or that of q."""
    u, u_var, b, b_var = _entities(fitted, fitted.ends[m][0], 2 * m, i, of_q=of_q)
    p, p_var, d, d_var = _partners(fitted, m, j, of_q=of_q)
    mean = np.einsum("nk,nk->n", u, p) + b + d + fitted.offset[m]
    var = np.einsum("nk,nk->n", u**2 + u_var, p_var) + np.einsum("nk,nk->n", u_var, p**2)
    return mean, var + b_var + d_var


def _partners(fitted: Fitted, m: int, j: Indices, *, of_q: bool = False) -> _Entities:
    """Factors and bias of columns as rows of relation m see them: times its scales."""
    mean, var, bias, bias_var = _entities(fitted, fitted.ends[m][1], 2 * m + 1, j, of_q=of_q)
    if fitted.scales is not None:
        mean, var = scales_of(fitted.scales, fitted.directed).scaled(m, 0, mean, var)
    return mean, var, bias, bias_var


def _entities(fitted: Fitted, e: int, layer: int, i: Indices, *, of_q: bool = False) -> _Entities:
    """Factors and bias of entities, as means and variances; the prior's where the index is −1."""
    unknown, variances, bias_variances = i < 0, fitted.var, fitted.bias_var
    if of_q and fitted.terms is not None and fitted.terms.var is not None and fitted.terms.bias_var is not None:
        variances, bias_variances = fitted.terms.var, fitted.terms.bias_var
    mean, var = fitted.mean[e][i].astype(np.float64), variances[e][i].astype(np.float64)
    bias, bias_var = fitted.bias_mean[layer][i].astype(np.float64), bias_variances[layer][i].astype(np.float64)
    if unknown.any():
        mean[unknown], var[unknown] = 0.0, fitted.prior_var[e]
        bias[unknown], bias_var[unknown] = fitted.prior_bias[:, layer]
    return mean, var, bias, bias_var


def _answer(fitted: Fitted, m: int, j: Indices, theta: Theta, level: float | None) -> tuple[Floats, ...]:
    likelihood, (center, scale) = fitted.likelihoods[m], fitted.measure(m, j)
    mean, variance = mean_and_variance(likelihood, theta)
    ends = () if level is None else interval(likelihood, theta, level)
    return mean * scale + center, np.sqrt(variance) * scale, *(end * scale + center for end in ends)
