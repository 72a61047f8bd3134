"""Averages over θ ~ N(m, v): of functions of a cell, for which compiled engines have kernels, and of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from gcmf.likelihoods.functions import sigmoid, softplus

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def gauss_hermite(n: int) -> tuple[Floats, Floats]:
    """Nodes t and shares s, summing to one: E f(θ) ≈ Σ s f(m + √v t), exact for polynomials of degree 2n − 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


#: Nodes at equal distances, in deviations of θ: for functions that are analytic within π of the real line, as these
#: are, they are exact to 1e-8 for v = 4 and to 2e-6 for v = 9. As many nodes of Gauss and Hermite are to 1e-6.
NODES = np.arange(-12, 13) * 0.5
SHARES = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()
#: What predictions are made with, which are many: sigmoid is off by 1e-6 at v = 4 and by 1e-4 at v = 9.
_FEW_NODES, _FEW_SHARES = gauss_hermite(20)
#: Nodes around a mode, in deviations, of which the densities themselves are summed.
_AROUND = np.arange(-16, 17) * 0.5
_MAX_STEPS = 50


def mean_softplus(m: Floats, v: Floats) -> Floats:
    """E log(1 + e^θ)."""
    return np.asarray(softplus(at_nodes(m, v)) @ SHARES)


def mean_sigmoid(m: Floats, v: Floats) -> Floats:
    """E σ(θ), the slope of `mean_softplus` in m."""
    return np.asarray(sigmoid(at_nodes(m, v)) @ SHARES)


def mean_sigmoid_slope(m: Floats, v: Floats) -> Floats:
    """E σ′(θ), twice the slope of `mean_softplus` in v."""
    s = sigmoid(at_nodes(m, v))
    return np.asarray((s * (1.0 - s)) @ SHARES)


def at_nodes(m: Floats, v: Floats) -> Floats:
    """θ at the nodes, along a last axis."""
    return np.asarray(m[..., None] + np.sqrt(v)[..., None] * NODES)


def predicted_sigmoid(m: Floats, v: Floats) -> Floats:
    """E σ(θ) of any number of cells: node after node, in the memory of a few arrays of their size."""
    spread, total = np.sqrt(v), np.zeros(np.broadcast_shapes(np.shape(m), np.shape(v)))
    for node, share in zip(_FEW_NODES, _FEW_SHARES, strict=True):
        total += share * sigmoid(m + spread * node)
    return total


def predicted_log_sigmoid(m: Floats, v: Floats) -> Floats:
    """Log E σ(θ), which is near m where that is far below zero."""
    spread, total = np.sqrt(v), np.full(np.broadcast_shapes(np.shape(m), np.shape(v)), -np.inf)
    for node, share in zip(_FEW_NODES, _FEW_SHARES, strict=True):
        total = np.logaddexp(total, np.log(share) - softplus(-(m + spread * node)))
    return total


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
