"""Bernoulli cells: x ~ Bernoulli(σ(θ)), f(θ) = softplus(θ) − xθ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gcmf.errors import OptionError
from gcmf.likelihoods.base import CellMath, Likelihood
from gcmf.likelihoods.expectations import (
    mean_sigmoid,
    mean_sigmoid_slope,
    mean_softplus,
    predicted_log_sigmoid,
    predicted_sigmoid,
)
from gcmf.likelihoods.functions import log_two_cosh, sigmoid, softplus, twice_jaakkola
from gcmf.options import check_choice, is_number

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats

#: f″ = σ(1 − σ) <= 1/4, the same for both values of x: one curvature per relation is one per cell.
CURVATURE = 0.25


def _exact_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = E σ′(θ), wz = wm − E σ(θ) + x."""
    w = mean_sigmoid_slope(m, v)
    return w, w * m - mean_sigmoid(m, v) + x


def _exact_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """xm − E softplus(θ)."""
    return x * m - mean_softplus(m, v)


def _tight_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = 2L(ξ), wz = x − 1/2, ξ² = m² + v."""
    return twice_jaakkola(np.sqrt(m * m + v)), x - 0.5


def _tight_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """log σ(ξ) − ξ/2 + (x − 1/2)m."""
    return (x - 0.5) * m - log_two_cosh(np.sqrt(m * m + v))


def _curved_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = κ, wz = κm − f′(m)."""
    return CURVATURE + 0.0 * m, CURVATURE * m - sigmoid(m) + x


def _curved_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """−f(m) − κv/2."""
    return x * m - softplus(m) - 0.5 * CURVATURE * v


def one_trial(x: Floats, p: Floats) -> tuple[Floats, float]:
    """t = 1, ψ = θ."""
    return 1.0 + 0.0 * x, 0.0


EXACT = CellMath(_exact_quadratic, _exact_value)
TIGHT, CURVED = CellMath(_tight_quadratic, _tight_value), CellMath(_curved_quadratic, _curved_value)
CELLS = {"exact": EXACT, "tight": TIGHT, "paper": CURVED, "cell": CURVED}


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """x ~ Bernoulli(σ(θ)).

    Parameters
    ----------
    bound
        "exact" (the default): the expectation itself, by quadrature, with guarded steps. A quadratic bound has to
        hold everywhere, so where ones (or zeros) are rare its curvature is far too large, and it switches off factors
        and biases that the data support. "tight" (Jaakkola and Jordan), and "paper" and "cell", which are the same
        here (the curvature 1/4 of the logistic loss), are such bounds, kept for comparison.
    zero_weight
        How many cells each observed zero stands for. Where ones are few and only a share of the zeros was
        sampled, one over that share lets the model see the density of the whole. Each zero then tells as much as
        so many, which makes "exact" sure of chance: with weights of 5 and more "tight" predicts better. Where all
        zeros are at hand, rather give them with `blanks="zero"`: the library draws anew while it fits.
    """

    bound: Literal["exact", "tight", "paper", "cell"] = "exact"
    zero_weight: float = 1.0
    name = "bernoulli"
    support = "binary"
    trials = staticmethod(one_trial)

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, tuple(CELLS))
        if not is_number(self.zero_weight) or self.zero_weight <= 0:
            msg = f"Bernoulli.zero_weight must be a positive number. Got {self.zero_weight!r} instead."
            raise OptionError(msg)

    @property
    def quadratic_is_bound(self) -> bool:
        """Yes, except for the exact expectation."""
        return self.bound != "exact"

    @property
    def mild(self) -> bool:
        """With f = softplus: f‴ = f″ (1 − 2σ), f⁗ = f″ (1 − 6σ + 6σ²)."""
        return True

    @property
    def cell(self) -> CellMath:
        """The mathematics of one cell, by the bound."""
        return CELLS[self.bound]

    def intercept(self, mean: float) -> float:
        """Logit of the mean, zeros weighed, kept finite."""
        weighed = mean / (mean + self.zero_weight * (1.0 - mean)) if mean > 0 else 0.0
        # The bounds move down with the weight, so that rare ones keep their intercept.
        probability = min(max(weighed, 1e-3 / max(self.zero_weight, 1.0)), 1.0 - 1e-3)
        return float(np.log(probability / (1.0 - probability)))

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E σ(θ)."""
        return predicted_sigmoid(m, v)

    def rank(self, m: Floats, v: Floats) -> Floats:
        """E σ(θ) ≈ σ(m/√(1 + πv/8))."""
        return np.asarray(m / np.sqrt(1.0 + np.pi / 8.0 * v))

    def variance(self, m: Floats, v: Floats, p: Floats) -> Floats:
        """E x (1 − E x)."""
        del p
        mean = self.mean(m, v)
        return mean * (1.0 - mean)

    def log_predictive(self, x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
        """Log E x for a one, log(1 − E x) for a zero."""
        del p
        return predicted_log_sigmoid(np.where(x > 0.0, m, -m), v)

    def deviance(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """2 f(θ), times the cell's weight."""
        del p
        return 2.0 * self.times(x) * (softplus(theta) - x * theta)
