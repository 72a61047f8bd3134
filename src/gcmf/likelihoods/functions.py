"""What likelihoods are made of: functions of arrays, which engines can compile for single numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def sigmoid(t: Floats) -> Floats:
    """σ(t) = 1/(1 + e⁻ᵗ), without overflow."""
    e = np.exp(-np.abs(t))
    return np.where(t >= 0.0, 1.0, e) / (1.0 + e)


def softplus(t: Floats) -> Floats:
    """log(1 + eᵗ), without overflow."""
    return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))


def log_softplus(t: Floats) -> Floats:
    """log softplus(t), which tends to t for t → −∞."""
    return np.where(t > -30.0, np.log(softplus(np.maximum(t, -30.0))), t)


def softplus_slope(t: Floats) -> Floats:
    """σ(t)/softplus(t), the slope of log softplus, which tends to 1 for t → −∞."""
    safe = np.maximum(t, -30.0)
    return np.where(t > -30.0, sigmoid(safe) / softplus(safe), 1.0)


def twice_jaakkola(t: Floats) -> Floats:
    """2 L(t) = tanh(t/2)/(2t) for t >= 0, with 2 L(0) = 1/4: the curvature of Jaakkola and Jordan's bound."""
    small = t < 1e-3
    e = np.exp(-t)
    return np.where(small, 0.25 - t * t / 48.0, (1.0 - e) / ((1.0 + e) * 2.0 * np.where(small, 1.0, t)))


def log_two_cosh(t: Floats) -> Floats:
    """log(2 cosh(t/2)) for t >= 0, the even part of softplus."""
    return t / 2.0 + np.log1p(np.exp(-t))
