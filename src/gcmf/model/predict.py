"""Predictions with their uncertainty, for any pair of entities of any relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.model.posterior import scales_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]
    _Entities = tuple[Floats, Floats, Floats, Floats]

_CHUNK = 100_000
#: Rows and columns predicted together: some megabytes, also where quadrature takes 21 numbers per cell.
_TILE = 128, 1024


class Prediction(NamedTuple):
    """Mean and standard deviation of new cells, in the user's units."""

    mean: Floats
    std: Floats


def predict_pairs(fitted: Fitted, m: int, i: Indices, j: Indices) -> Prediction:
    """Predict cells (i, j) of relation m; index −1 stands for an entity known only by its prior."""
    if fitted.draws is not None:
        return _averaged(fitted, m, i, j, grid=False)
    mean, std = np.empty(len(i)), np.empty(len(i))
    for start in range(0, len(i), _CHUNK):
        part = slice(start, start + _CHUNK)
        theta, var = theta_pairs(fitted, m, i[part], j[part])
        mean[part], std[part] = _answer(fitted, m, j[part], theta, var)
    return Prediction(mean, std)


def predict_grid(fitted: Fitted, m: int, i: Indices, j: Indices) -> Prediction:
    """Predict the outer product of rows i and columns j, a tile at a time: three matrix products each."""
    if fitted.draws is not None:
        return _averaged(fitted, m, i, j, grid=True)
    mean, std = np.empty((len(i), len(j))), np.empty((len(i), len(j)))
    for left in range(0, len(j), _TILE[1]):
        cols = slice(left, left + _TILE[1])
        col_entities = _partners(fitted, m, j[cols])
        for top in range(0, len(i), _TILE[0]):
            rows = slice(top, top + _TILE[0])
            row_entities = _entities(fitted, fitted.ends[m][0], 2 * m, i[rows])
            theta, var = _theta_grid(row_entities, col_entities)
            mean[rows, cols], std[rows, cols] = _answer(fitted, m, j[cols], theta + fitted.offset[m], var)
    return Prediction(mean, std)


def _averaged(fitted: Fitted, m: int, i: Indices, j: Indices, *, grid: bool) -> Prediction:
    """E x = mean of E[x|θ] over the draws; Var x = mean of Var[x|θ] and variance of E[x|θ]."""
    draws = fitted.draws
    assert draws is not None
    likelihood, (center, scale) = fitted.likelihoods[m], fitted.measure(m, j)
    first = second = within = np.zeros((len(i), len(j)) if grid else len(i))
    for theta, p in draws.each(m, i, j, grid=grid):
        none = np.zeros_like(theta)
        mean = likelihood.mean(theta, none)
        first, second = first + mean, second + mean**2
        within = within + likelihood.variance(theta, none, p)
    first = first / draws.n
    var = within / draws.n + np.maximum(second / draws.n - first**2, 0.0)
    return Prediction(first * scale + center, np.sqrt(var) * scale)


def _log_density(fitted: Fitted, m: int, cells: tuple[Indices, Indices, Floats]) -> Floats:
    """Log E p(x|θ) of scaled cells: over the draws, or over q(θ)."""
    likelihood, (i, j, x) = fitted.likelihoods[m], cells
    if fitted.draws is None:
        return likelihood.log_predictive(x, *theta_pairs(fitted, m, i, j), fitted.parameters[m])
    each = [likelihood.log_predictive(x, theta, np.zeros_like(theta), p) for theta, p in fitted.draws.each(m, i, j)]
    return np.asarray(np.logaddexp.reduce(each, axis=0) - np.log(len(each)))


def _theta_grid(rows: _Entities, cols: _Entities) -> tuple[Floats, Floats]:
    """Mean (less the offset) and variance of θ for every pair, as `theta_pairs` has them."""
    (u, u_var, b, b_var), (p, p_var, d, d_var) = rows, cols
    mean = u @ p.T + b[:, None] + d
    var = (u**2 + u_var) @ p_var.T + u_var @ (p**2).T
    return mean, var + b_var[:, None] + d_var


def theta_pairs(fitted: Fitted, m: int, i: Indices, j: Indices) -> tuple[Floats, Floats]:
    """Mean and variance of θ: m = ū_i·ū_j + b̄_i + b̄_j, v = Σ[ū²ũ + ũū² + ũũ] + b̃_i + b̃_j."""
    u, u_var, b, b_var = _entities(fitted, fitted.ends[m][0], 2 * m, i)
    p, p_var, d, d_var = _partners(fitted, m, j)
    mean = np.einsum("nk,nk->n", u, p) + b + d + fitted.offset[m]
    var = np.einsum("nk,nk->n", u**2 + u_var, p_var) + np.einsum("nk,nk->n", u_var, p**2)
    return mean, var + b_var + d_var


def _partners(fitted: Fitted, m: int, j: Indices) -> _Entities:
    """Factors and bias of columns as rows of relation m see them: times its scales."""
    mean, var, bias, bias_var = _entities(fitted, fitted.ends[m][1], 2 * m + 1, j)
    if fitted.scales is not None:
        mean, var = scales_of(fitted.scales, fitted.directed).scaled(m, 0, mean, var)
    return mean, var, bias, bias_var


def _entities(fitted: Fitted, e: int, layer: int, i: Indices) -> _Entities:
    """Factors and bias of entities, as means and variances; the prior's where the index is −1."""
    unknown = i < 0
    mean, var = fitted.mean[e][i].astype(np.float64), fitted.var[e][i].astype(np.float64)
    bias, bias_var = fitted.bias_mean[layer][i].astype(np.float64), fitted.bias_var[layer][i].astype(np.float64)
    if unknown.any():
        mean[unknown], var[unknown] = 0.0, fitted.prior_var[e]
        bias[unknown], bias_var[unknown] = fitted.prior_bias[:, layer]
    return mean, var, bias, bias_var


def _answer(fitted: Fitted, m: int, j: Indices, theta: Floats, var: Floats) -> tuple[Floats, Floats]:
    likelihood, (center, scale) = fitted.likelihoods[m], fitted.measure(m, j)
    std = np.sqrt(likelihood.variance(theta, var, fitted.parameters[m])) * scale
    return likelihood.mean(theta, var) * scale + center, std


class Score(NamedTuple):
    """How well cells were predicted."""

    rmse: float
    mae: float
    log_likelihood: float
    """Mean log predictive density (probability) per cell, in the user's units."""
    n: int
    auc: float
    """Area under the ROC curve for 0/1 cells, NaN otherwise or when all cells are equal."""
    average_precision: float
    """Area under the curve of precision over recall, of the same cells: more telling where ones are rare."""


def score_cells(fitted: Fitted, m: int, parts: Iterable[tuple[Indices, Indices, Floats]]) -> Score:
    """Compare predictions with cells (i, j, x) that come in parts."""
    likelihood = fitted.likelihoods[m]
    squares = absolute = log_density = 0.0
    n, truth, guess = 0, [], []
    for i, j, x in parts:
        mean, _ = predict_pairs(fitted, m, i, j)
        center, scale = fitted.measure(m, j)
        log_density += float(_log_density(fitted, m, (i, j, (x - center) / scale)).sum())
        log_density -= float(np.log(np.broadcast_to(scale, x.shape)).sum())
        squares += float(((x - mean) ** 2).sum())
        absolute += float(np.abs(x - mean).sum())
        n += len(x)
        if likelihood.support == "binary":
            truth.append(x)
            guess.append(mean)
    ranking = _rank(np.concatenate(truth), np.concatenate(guess)) if truth else (np.nan, np.nan)
    return Score(float(np.sqrt(squares / n)), absolute / n, log_density / n, n, *ranking)


def _rank(truth: Floats, guess: Floats) -> tuple[float, float]:
    """AUC and average precision of 0/1 cells; NaN where all cells are equal and there is nothing to rank."""
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415 - takes a while, and few ask

    if truth.min() == truth.max():
        return np.nan, np.nan
    return float(roc_auc_score(truth, guess)), float(average_precision_score(truth, guess))
