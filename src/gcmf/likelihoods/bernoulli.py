"""Bernoulli cells: x ~ Bernoulli(σ(θ)), f(θ) = softplus(θ) − xθ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gcmf.errors import OptionError
from gcmf.likelihoods.base import jaakkola, log_two_cosh, sigmoid, softplus
from gcmf.options import check_choice, is_number

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
    zero_weight
        How many cells each observed zero stands for. Where ones are few and only a share of the zeros was
        sampled, one over that share lets the model see the density of the whole.
    """

    bound: Literal["paper", "cell", "tight"] = "tight"
    zero_weight: float = 1.0
    name = "bernoulli"
    support = "binary"

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, ("tight", "paper", "cell"))
        if not is_number(self.zero_weight) or self.zero_weight <= 0:
            msg = f"Bernoulli.zero_weight must be a positive number. Got {self.zero_weight!r} instead."
            raise OptionError(msg)

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
        """Tight: w = 2L(ξ), wz = x − 1/2, ξ² = m² + v. Curvature: w = κ, wz = κm − f′(m). Times the cell's weight."""
        times = self._times(x)
        if self.bound == "tight":
            return times * 2.0 * jaakkola(np.sqrt(m * m + v)), times * (x - 0.5)
        return times * np.full_like(m, weight), times * (weight * m - (sigmoid(m) - x))

    def lower_bound(self, x: Floats, m: Floats, v: Floats, weight: float) -> Floats:
        """Tight: log σ(ξ) − ξ/2 + (x − 1/2)m. Curvature: −f(m) − κv/2. Times the cell's weight."""
        if self.bound == "tight":
            return self._times(x) * ((x - 0.5) * m - log_two_cosh(np.sqrt(m * m + v)))
        return self._times(x) * (x * m - softplus(m) - 0.5 * weight * v)

    def _times(self, x: Floats) -> Floats:
        """How many cells each cell stands for."""
        return np.where(x == 0.0, self.zero_weight, 1.0)

    def constant(self, x: Floats) -> Floats:
        """Nothing depends on x alone."""
        return np.zeros_like(x)

    def intercept(self, mean: float) -> float:
        """Logit of the mean, zeros weighed, kept finite."""
        weighed = mean / (mean + self.zero_weight * (1.0 - mean)) if mean > 0 else 0.0
        # The bounds move down with the weight, so that rare ones keep their intercept.
        p = min(max(weighed, 1e-3 / max(self.zero_weight, 1.0)), 1.0 - 1e-3)
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
        """2 f(θ), times the cell's weight."""
        return 2.0 * self._times(x) * (softplus(theta) - x * theta)
