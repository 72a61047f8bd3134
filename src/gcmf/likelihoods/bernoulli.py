"""Bernoulli cells: x ~ Bernoulli(σ(θ)), f(θ) = softplus(θ) − xθ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gcmf.likelihoods.base import jaakkola, log_two_cosh, sigmoid, softplus

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats

#: f″ = σ(1 − σ) <= 1/4, the same for both values of x: one curvature per relation is one per cell.
CURVATURE = 0.25


@dataclass(frozen=True)
class Bernoulli:
    """x ~ Bernoulli(σ(θ)).

    Parameters
    ----------
    bound
        "tight" (Jaakkola and Jordan, the default), or "paper" and "cell", which are the same here: the
        curvature 1/4 of the logistic loss.
    """

    bound: Literal["paper", "cell", "tight"] = "tight"
    name = "bernoulli"
    support = "binary"

    @property
    def quadratic_is_bound(self) -> bool:
        """Yes, for every bound."""
        return True

    @property
    def code(self) -> int:
        """The number by which compiled engines know this likelihood and bound."""
        return 2 if self.bound == "tight" else 1

    def weight(self, largest: float) -> float:
        """κ = 1/4."""
        del largest
        return CURVATURE

    def quadratic(self, x: Floats, m: Floats, v: Floats, weight: float) -> tuple[Floats, Floats]:
        """Tight: w = 2L(ξ), wz = x − 1/2, ξ² = m² + v. Curvature: w = κ, wz = κm − f′(m)."""
        if self.bound == "tight":
            return 2.0 * jaakkola(np.sqrt(m * m + v)), x - 0.5
        return np.full_like(m, weight), weight * m - (sigmoid(m) - x)

    def lower_bound(self, x: Floats, m: Floats, v: Floats, weight: float) -> Floats:
        """Tight: log σ(ξ) − ξ/2 + (x − 1/2)m. Curvature: −f(m) − κv/2."""
        if self.bound == "tight":
            return (x - 0.5) * m - log_two_cosh(np.sqrt(m * m + v))
        return x * m - softplus(m) - 0.5 * weight * v

    def constant(self, x: Floats) -> Floats:
        """Nothing depends on x alone."""
        return np.zeros_like(x)

    def intercept(self, mean: float) -> float:
        """Logit of the mean, kept finite."""
        p = min(max(mean, 1e-3), 1.0 - 1e-3)
        return float(np.log(p / (1.0 - p)))

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E σ(θ) ≈ σ(m/√(1 + πv/8))."""
        return sigmoid(m / np.sqrt(1.0 + np.pi * v / 8.0))

    def variance(self, m: Floats, v: Floats, noise: float) -> Floats:
        """p(1 − p)."""
        del noise
        p = self.mean(m, v)
        return p * (1.0 - p)

    def log_predictive(self, x: Floats, m: Floats, v: Floats, noise: float) -> Floats:
        """Log p for a one, log(1 − p) for a zero."""
        del noise
        t = m / np.sqrt(1.0 + np.pi * v / 8.0)
        return x * t - softplus(t)

    def deviance(self, x: Floats, theta: Floats) -> Floats:
        """2 f(θ)."""
        return 2.0 * (softplus(theta) - x * theta)
