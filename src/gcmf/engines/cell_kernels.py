"""The mathematics of one cell, compiled: the scalar twins of gcmf.likelihoods, known by code.

Codes: 0 Gaussian; 1 Bernoulli, curvature; 2 Bernoulli, Jaakkola-Jordan; 3 Poisson, one curvature per
relation; 4 Poisson, curvature per cell; 5 Poisson, hybrid. The conformance tests hold both sides together.
"""

from __future__ import annotations

import math

from numba import njit

GAUSSIAN = 0
_JIT = {"cache": True, "nogil": True, "error_model": "numpy", "inline": "always"}
_CURVATURE_PER_COUNT = 0.1670957


@njit(**_JIT)
def _sigmoid(t, one):  # noqa: ANN001, ANN202 - compiled code: Numba infers the types
    e = math.exp(-abs(t))
    return (one if t >= 0 else e) / (one + e)


@njit(**_JIT)
def _softplus(t):  # noqa: ANN001, ANN202
    return max(t, t * 0) + math.log1p(math.exp(-abs(t)))


@njit(**_JIT)
def _twice_jaakkola(t, one):  # noqa: ANN001, ANN202
    """2 L(t) = tanh(t/2)/(2t)."""
    if t < one / 1000:
        return one / 4 - t * t / 48
    e = math.exp(-t)
    return (one - e) / ((one + e) * (t + t))


@njit(**_JIT)
def _log_two_cosh(t):  # noqa: ANN001, ANN202
    return t / 2 + math.log1p(math.exp(-t))


@njit(**_JIT)
def quadratic(code, x, m, v, weight, one):  # noqa: ANN001, ANN202, PLR0913
    """(w, wz) of one cell; `one` carries the working precision."""
    if code == 2:
        return _twice_jaakkola(math.sqrt(m * m + v), one), x - one / 2
    if code == 1:
        return weight, weight * m - _sigmoid(m, one) + x
    g = one
    if m > -30:
        g = _sigmoid(m, one) / _softplus(m)
    hx = one * _CURVATURE_PER_COUNT * x
    if code == 5:
        return _twice_jaakkola(math.sqrt(m * m + v), one) + hx, x * g + hx * m - one / 2
    kappa = weight if code == 3 else one / 4 + hx
    return kappa, kappa * m - _sigmoid(m, one) + x * g


@njit(**_JIT)
def lower_bound(code, x, m, v, weight):  # noqa: ANN001, ANN202
    """Bounded expected log-likelihood of one cell, without terms that depend on x alone; in float64."""
    if code == 2:
        return (x - 0.5) * m - _log_two_cosh(math.sqrt(m * m + v))
    s = _softplus(m)
    if code == 1:
        return x * m - s - 0.5 * weight * v
    log_rate = math.log(s) if m > -30 else m
    hx = _CURVATURE_PER_COUNT * x
    if code == 5:
        return x * log_rate - 0.5 * m - _log_two_cosh(math.sqrt(m * m + v)) - 0.5 * hx * v
    kappa = weight if code == 3 else 0.25 + hx
    return x * log_rate - s - 0.5 * kappa * v
