"""Averages over θ ~ N(m, v): of functions of a cell, which engines compile for single numbers, and of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from gcmf.likelihoods.functions import sigmoid, softplus

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Nodes at equal distances, in deviations of θ: for functions that are analytic within π of the real line, as these
#: are, they are exact to 1e-9 for v <= 2 and to 1e-7 for v = 4. As many nodes of Gauss and Hermite are to 1e-6.
_NODES = np.arange(-10, 11) * 0.6
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
#: Below this variance the average of a slope is taken at m: a difference divided by √v would be rounding.
SMALL = 1e-10
#: Nodes around a mode, in deviations, of which the densities themselves are summed.
_AROUND = np.arange(-16, 17) * 0.5
_MAX_STEPS = 50


def mean_softplus(m: Floats, v: Floats) -> Floats:
    """E log(1 + e^θ)."""
    spread, total = np.sqrt(v), 0.0 * m
    for q in range(len(_NODES)):
        total = total + _WEIGHTS[q] * softplus(m + spread * _NODES[q])
    return total


def mean_sigmoid(m: Floats, v: Floats) -> Floats:
    """E σ(θ), the slope of `mean_softplus` in m."""
    spread, total = np.sqrt(v), 0.0 * m
    for q in range(len(_NODES)):
        total = total + _WEIGHTS[q] * sigmoid(m + spread * _NODES[q])
    return total


def mean_sigmoid_slope(m: Floats, v: Floats) -> Floats:
    """E σ′(θ), twice the slope of `mean_softplus` in v; never negative."""
    small = v < SMALL
    spread, total = np.sqrt(np.where(small, 1.0, v)), 0.0 * m
    for q in range(len(_NODES)):
        total = total + _WEIGHTS[q] * _NODES[q] * sigmoid(m + spread * _NODES[q])
    s = sigmoid(m)
    return np.maximum(np.where(small, s * (1.0 - s), total / spread), 0.0)


def log_average(
    log_p: Callable[[Floats], Floats], slopes: Callable[[Floats], tuple[Floats, Floats]], m: Floats, v: Floats
) -> Floats:
    """Log E p(θ) of a p with concave logarithm, given log p and its first two derivatives, elementwise.

    The sum is taken around the mode of p(θ) N(θ; m, v), as wide as the density is there: of a count in the thousands, p
    is much narrower than what is known of θ, and nodes around m would miss it.
    """
    v = np.maximum(v, 1e-300)
    mode, precision = _mode(slopes, m, v)
    width = 1.0 / np.sqrt(precision)
    away = [mode + node * width for node in _AROUND]
    logs = np.stack([log_p(m + distance) - 0.5 * distance**2 / v for distance in away])
    step = (_AROUND[1] - _AROUND[0]) * width / np.sqrt(2.0 * np.pi * v)
    return np.asarray(logsumexp(logs, axis=0) + np.log(step))


def _mode(slopes: Callable[[Floats], tuple[Floats, Floats]], m: Floats, v: Floats) -> tuple[Floats, Floats]:
    """d at which log p(m + d) − d²/2v is largest, and its curvature there: Newton's steps, held between two ends.

    d = v (log p)′(m + d) there, and this slope falls: so it lies between 0 and v (log p)′(m).
    """
    d = np.zeros_like(m)
    slope, second = slopes(m)
    low, high = np.minimum(0.0, v * slope), np.maximum(0.0, v * slope)
    for _ in range(_MAX_STEPS):
        gradient, precision = slope - d / v, 1.0 / v - second
        low, high = np.where(gradient > 0, d, low), np.where(gradient > 0, high, d)
        step = d + gradient / precision
        step = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        arrived = np.abs(step - d) * np.sqrt(precision) < 1e-3
        d = step
        slope, second = slopes(m + d)
        if arrived.all():
            break
    return d, 1.0 / v - second
