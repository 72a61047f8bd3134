"""The mathematics of one cell, compiled, in float64: the scalar twins of gcmf.likelihoods, known by code.

Codes: 0 Gaussian; 1 Bernoulli, curvature; 2 Bernoulli, Jaakkola-Jordan; 3 Poisson, one curvature per relation;
4 Poisson, curvature per cell; 5 Poisson, hybrid; 6 Poisson, quadrature. The conformance tests hold both sides together.
Code 2, the common one, is done by whole chunks in row_kernels.py.
"""

from __future__ import annotations

import math

import numpy as np

from gcmf.engines.compiled import compiled

KNOWN = range(7)
GAUSSIAN = 0
JAAKKOLA = 2
QUADRATURE = 6
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
_CURVATURE_PER_COUNT = 0.1670957


@compiled(inline="always")
def _sigmoid(t):
    e = math.exp(-abs(t))
    return (1.0 if t >= 0.0 else e) / (1.0 + e)


@compiled(inline="always")
def _softplus(t):
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@compiled(inline="always")
def _twice_jaakkola(t):
    """2 L(t) = tanh(t/2)/(2t)."""
    if t < 1e-3:
        return 0.25 - t * t / 48.0
    e = math.exp(-t)
    return (1.0 - e) / ((1.0 + e) * 2.0 * t)


@compiled(inline="always")
def _log_two_cosh(t):
    return t / 2 + math.log1p(math.exp(-t))


@compiled(inline="always")
def _slope(x, t):
    """f′(θ) = σ(θ) (1 − x/softplus(θ)) of a Poisson cell."""
    s = _sigmoid(t)
    return s - x * (s / _softplus(t) if t > -30.0 else 1.0)


@compiled(inline="always")
def _expected_slopes(x, m, v):
    """E f′(θ) and 2 ∂E f/∂v for θ ~ N(m, v), by Gauss-Hermite quadrature; both of the same quadrature sum."""
    if v < 1e-10:
        s = _sigmoid(m)
        g = s / _softplus(m) if m > -30.0 else 1.0
        return _slope(x, m), max(s * (1.0 - s) + x * g * (g - (1.0 - s)), 1e-12)
    spread, first, second = math.sqrt(v), 0.0, 0.0
    for q in range(NODES.shape[0]):
        slope = NODE_WEIGHTS[q] * _slope(x, m + spread * NODES[q])
        first += slope
        second += slope * NODES[q]
    return first, max(second / spread, 1e-12)


@compiled(inline="always")
def _kappa(code, hx, weight):
    """Curvature of a Poisson cell: of its relation, or its own; NaN for a code that no branch knows."""
    if code == 3:
        return weight
    return 0.25 + hx if code == 4 else math.nan


@compiled(inline="always")
def quadratic(code, x, m, v, weight):
    """(w, wz) of one cell."""
    if code == 1:
        return weight, weight * m - _sigmoid(m) + x
    if code == 6:
        slope, curvature = _expected_slopes(x, m, v)
        return curvature, curvature * m - slope
    g = _sigmoid(m) / _softplus(m) if m > -30.0 else 1.0
    hx = _CURVATURE_PER_COUNT * x
    if code == 5:
        return _twice_jaakkola(math.sqrt(m * m + v)) + hx, x * g + hx * m - 0.5
    kappa = _kappa(code, hx, weight)
    return kappa, kappa * m - _sigmoid(m) + x * g


@compiled(inline="always")
def lower_bound(code, x, m, v, weight):
    """Bounded expected log-likelihood of one cell, without terms that depend on x alone."""
    if code == 6:
        spread, total = math.sqrt(v), 0.0
        for q in range(NODES.shape[0]):
            t = m + spread * NODES[q]
            s = _softplus(t)
            total += NODE_WEIGHTS[q] * (x * (math.log(s) if t > -30.0 else t) - s)
        return total
    s = _softplus(m)
    if code == 1:
        return x * m - s - 0.5 * weight * v
    log_rate = math.log(s) if m > -30 else m
    hx = _CURVATURE_PER_COUNT * x
    if code == 5:
        return x * log_rate - 0.5 * m - _log_two_cosh(math.sqrt(m * m + v)) - 0.5 * hx * v
    return x * log_rate - s - 0.5 * _kappa(code, hx, weight) * v
