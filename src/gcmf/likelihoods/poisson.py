"""Poisson cells: x ~ Poisson(softplus(θ)), f(θ) = s − x log s + log x!, s = softplus(θ)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import gammaln, pdtr, xlogy

from gcmf.likelihoods.base import NO_PARAMETERS, CellMath, Likelihood, ParameterPrior
from gcmf.likelihoods.expectations import SHARES, at_nodes, log_average
from gcmf.likelihoods.functions import log_softplus, log_two_cosh, sigmoid, softplus, softplus_slope, twice_jaakkola
from gcmf.options import check_choice

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats

#: h = max over θ of the second derivative of −log softplus(θ), reached at θ = 0.495.
CURVATURE_PER_COUNT = 0.1670957
#: Rates that NumPy can draw counts of, at most.
LARGEST_RATE = 1e18
#: Nodes of Gauss and Hermite, for predictions.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


def _exact_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = E f″, wz = wm − E f′, with g = σ/s: f′ = σ − xg, f″ = σ(1 − σ) + xg(g + σ − 1)."""
    theta, x = at_nodes(m, v), x[..., None]
    s, g = sigmoid(theta), softplus_slope(theta)
    second = s * (1.0 - s) + x * (g * np.maximum(g + s - 1.0, 0.0))
    w = np.maximum(second @ SHARES, 1e-12)
    return w, w * m - (s - x * g) @ SHARES


def _exact_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """−E f, without log x!."""
    theta = at_nodes(m, v)
    return np.asarray((x[..., None] * log_softplus(theta) - softplus(theta)) @ SHARES)


def _tight_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = 2L(ξ) + hx, wz = −1/2 + x(g + hm)."""
    hx = CURVATURE_PER_COUNT * x
    return twice_jaakkola(np.sqrt(m * m + v)) + hx, x * softplus_slope(m) + hx * m - 0.5


def _tight_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """x log s(m) − m/2 − log 2cosh(ξ/2) − hxv/2."""
    even = log_two_cosh(np.sqrt(m * m + v))
    return x * log_softplus(m) - 0.5 * m - even - 0.5 * (CURVATURE_PER_COUNT * x) * v


def _cell_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = κ = 1/4 + hx, wz = κm − f′(m)."""
    w = 0.25 + CURVATURE_PER_COUNT * x
    return w, w * m - sigmoid(m) + x * softplus_slope(m)


def _cell_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """−f(m) − κv/2."""
    return x * log_softplus(m) - softplus(m) - 0.5 * (0.25 + CURVATURE_PER_COUNT * x) * v


def _paper_quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = κ of the relation, wz = κm − f′(m)."""
    w = p[0] + 0.0 * m
    return w, w * m - sigmoid(m) + x * softplus_slope(m)


def _paper_value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """−f(m) − κv/2."""
    kappa: float = p[0]
    return x * log_softplus(m) - softplus(m) - 0.5 * kappa * v


EXACT = CellMath(_exact_quadratic, _exact_value)
CELLS = {
    "tight": CellMath(_tight_quadratic, _tight_value),
    "paper": CellMath(_paper_quadratic, _paper_value),
    "cell": CellMath(_cell_quadratic, _cell_value),
    "exact": EXACT,
}


@dataclass(frozen=True)
class Poisson(Likelihood):
    """x ~ Poisson(softplus(θ)).

    Parameters
    ----------
    bound
        "exact" (the default): the expectation itself, with guarded steps. "tight": Jaakkola and Jordan for the
        rate, curvature h·x for its logarithm. "cell": curvature 1/4 + h·x. "paper": one curvature per relation,
        1/4 + 0.17 times its largest count. A quadratic bound must hold as far as θ = 0 and below, where a count of
        hundreds is absurd, so its curvature is far too large for large counts: steps are short, and factors that
        the data support are switched off. Counts that vary more than Poisson ones (plays, reads) need
        "negative_binomial"; a fit warns of them.
    """

    bound: Literal["exact", "tight", "cell", "paper"] = "exact"
    name = "poisson"
    support = "counts"
    if_slow = "counts as large as those of {}: give likelihood='poisson' there, whose bound is 'exact'"
    if_overdispersed = "likelihood='negative_binomial' learns how much counts vary"

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, tuple(CELLS))

    @property
    def quadratic_is_bound(self) -> bool:
        """Yes, except for the exact expectation."""
        return self.bound != "exact"

    @property
    def cell(self) -> CellMath:
        """The mathematics of one cell, by the bound."""
        return CELLS[self.bound]

    def start(self, largest: float, n: float, prior: ParameterPrior) -> Floats:
        """κ of the whole relation, for the paper's bound."""
        del n, prior
        return np.array([0.25 + 0.17 * largest]) if self.bound == "paper" else NO_PARAMETERS

    def settled(self, p: Floats, prior: ParameterPrior) -> Floats:
        """Nothing: κ was only needed while fitting."""
        del p, prior
        return NO_PARAMETERS

    def constant(self, x: Floats) -> Floats:
        """−log x!."""
        return -np.asarray(gammaln(x + 1.0))

    def intercept(self, mean: float) -> float:
        """Softplus inverted."""
        mean = max(mean, 1e-3)
        return float(mean + np.log(-np.expm1(-mean)))

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E softplus(θ), by Gauss-Hermite quadrature."""
        return np.asarray(softplus(_at_nodes(m, v)) @ _NODE_WEIGHTS)

    def rank(self, m: Floats, v: Floats) -> Floats:
        """E softplus(θ) ≈ s(m) + v σ′(m)/2."""
        s = sigmoid(m)
        return np.asarray(softplus(m) + 0.5 * v * s * (1.0 - s))

    def variance(self, m: Floats, v: Floats, p: Floats) -> Floats:
        """Var x = E s + Var s."""
        del p
        s = softplus(_at_nodes(m, v))
        first = s @ _NODE_WEIGHTS
        return np.asarray(first + (s - first[..., None]) ** 2 @ _NODE_WEIGHTS)  # E s² − (E s)² may round below zero

    def log_predictive(self, x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
        """Log E Poisson(x; s)."""
        del p

        def log_p(theta: Floats) -> Floats:
            return x * log_softplus(theta) - softplus(theta)

        def slopes(theta: Floats) -> tuple[Floats, Floats]:
            s, g = sigmoid(theta), softplus_slope(theta)
            return x * g - s, x * g * (1.0 - s - g) - s * (1.0 - s)

        return log_average(log_p, slopes, m, v) + self.constant(x)

    def deviance(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """2 (s − x log s) less its smallest value over s, as usual for counts."""
        del p
        return np.asarray(2.0 * (softplus(theta) - x * log_softplus(theta) - x + xlogy(x, x)))

    def cdf(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """Of a Poisson count with rate softplus(θ)."""
        del p
        return np.where(x < 0.0, 0.0, pdtr(np.maximum(x, 0.0), softplus(theta)))

    def draw(self, theta: Floats, p: Floats, rng: np.random.Generator) -> Floats:
        """Poisson counts with rate softplus(θ)."""
        del p
        return rng.poisson(np.minimum(softplus(theta), LARGEST_RATE)).astype(np.float64)


def _at_nodes(m: Floats, v: Floats) -> Floats:
    return m[..., None] + np.sqrt(v)[..., None] * _NODES
