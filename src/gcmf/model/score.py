"""How well cells were predicted: by their errors, and by whether error bars hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.data.split import draw
from gcmf.model.predict import cells_at_a_time, theta_of
from gcmf.model.predictive import cdf, interval, log_density, mean_and_variance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from gcmf.likelihoods import Likelihood
    from gcmf.model.fitted import Fitted
    from gcmf.model.predictive import Theta

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

LEVELS = 0.5, 0.8, 0.95
"""Of the intervals whose coverage is counted."""
#: Cells of each part whose intervals are measured: quantiles of counts take a while, and widths are much alike.
MOST_WIDTHS = 2000
#: Bins of the calibration error, and the fewest cells in one.
N_BINS, FEWEST = 10, 50
#: Measures that only 0/1 cells have.
OF_BINARY = ("auc", "average_precision", "calibration_error")


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
    coverage_50: float
    coverage_80: float
    coverage_95: float
    """Share of the cells within the intervals that should hold 50, 80 and 95% of them (`covered`)."""
    width_95: float
    """Mean width of the intervals of 95%, in the user's units; 0/1: of the probability."""
    calibration_error: float
    """Of 0/1 cells: how far shares of ones are from the probabilities that were predicted (`calibration_error`)."""


def score_cells(fitted: Fitted, m: int, parts: Iterable[tuple[Indices, Indices, Floats]]) -> Score:
    """Compare predictions with cells (i, j, x) that come in parts."""
    likelihood, sums, n = fitted.likelihoods[m], np.zeros(3 + len(LEVELS)), 0
    widths, truth, guess = [], [], []
    for i, j, x in _smaller(parts, cells_at_a_time(fitted)):
        theta, (center, scale) = theta_of(fitted, m, i, j), fitted.measure(m, j)
        mean, z = mean_and_variance(likelihood, theta)[0] * scale + center, (x - center) / scale
        density = log_density(likelihood, theta, z) - np.log(scale)
        sums += [((x - mean) ** 2).sum(), np.abs(x - mean).sum(), density.sum(), *covered(likelihood, theta, z)]
        n += len(x)
        widths.append(_widths(fitted, m, i, j))
        if likelihood.support == "binary":
            truth.append(x)
            guess.append(mean)
    of_binary = _binary(np.concatenate(truth), np.concatenate(guess)) if truth else (np.nan,) * len(OF_BINARY)
    squares, absolute, log_likelihood, half, most, nearly_all = (sums / n).tolist()
    width = float(np.concatenate(widths).mean())
    auc, precision, calibration = of_binary
    return Score(
        np.sqrt(squares), absolute, log_likelihood, n, auc, precision, half, most, nearly_all, width, calibration
    )


def _smaller(parts: Iterable[tuple[Indices, Indices, Floats]], size: int) -> Iterator[tuple[Indices, Indices, Floats]]:
    """Cells in parts of at most this size."""
    for i, j, x in parts:
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            yield i[part], j[part], x[part]


def covered(likelihood: Likelihood, theta: Theta, x: Floats) -> Floats:
    """How many cells lie within the intervals of each level.

    A cell is at t = P(cell <= x), between tail and 1 − tail if it is within. Where x can only be one of some values, t
    may be anything between P(cell < x) and P(cell <= x), and the part of that range counts that is within: so shares
    are those of the levels for whatever predicts well, also for 0/1 cells and small counts.
    """
    top = cdf(likelihood, theta, x)
    bottom = top if likelihood.support == "real" else cdf(likelihood, theta, x - 1.0)
    out = np.empty(len(LEVELS))
    for k, level in enumerate(LEVELS):
        tail = (1.0 - level) / 2.0
        inside = np.clip(top, tail, 1.0 - tail) - np.clip(bottom, tail, 1.0 - tail)
        at = (top >= tail) & (top <= 1.0 - tail)
        out[k] = np.where(top > bottom, inside / np.where(top > bottom, top - bottom, 1.0), at).sum()
    return out


def _widths(fitted: Fitted, m: int, i: Indices, j: Indices) -> Floats:
    """Widths of the intervals of 95% of some cells, in the user's units.

    Drawn, and not every n-th one: a step that divides the width of a complete matrix would see the same columns only.
    """
    some = draw(np.random.default_rng(0), len(i), min(len(i), MOST_WIDTHS))
    lower, upper = interval(fitted.likelihoods[m], theta_of(fitted, m, i[some], j[some]), LEVELS[-1])
    return np.asarray((upper - lower) * fitted.measure(m, j[some])[1])


def _binary(truth: Floats, guess: Floats) -> tuple[float, float, float]:
    """AUC and average precision of 0/1 cells, NaN where all are equal and there is nothing to rank; calibration."""
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415 - takes a while, and few ask

    calibration = calibration_error(truth, guess)
    if truth.min() == truth.max():
        return np.nan, np.nan, calibration
    return float(roc_auc_score(truth, guess)), float(average_precision_score(truth, guess)), calibration


def calibration_error(truth: Floats, guess: Floats) -> float:
    """Σ_bins n_b/n |share of ones − mean probability| of 0/1 cells, in bins of equally many cells by probability.

    Ten bins, or as many as hold 50 cells each. Of n_b cells, chance alone makes about 0.8 √(P(1 − P)/n_b) of it.
    """
    order = np.argsort(guess, kind="stable")
    n_bins = max(1, min(N_BINS, len(order) // FEWEST))
    gaps = [abs(float((truth[part] - guess[part]).sum())) for part in np.array_split(order, n_bins)]
    return float(sum(gaps) / len(order))
