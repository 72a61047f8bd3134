"""Negative binomial cells: counts of mean μ = e^θ and variance μ + μ²/r, the size r learned.

With ψ = θ − log r and x log r put to the other terms of x and r,

    log p(x|θ) = log Γ(x + r) − log Γ(r) − x log r − log x! + x θ − (x + r) softplus(ψ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, gammaln, xlogy

from gcmf.likelihoods.base import CellMath, Likelihood, ParameterPrior
from gcmf.likelihoods.expectations import log_average, mean_sigmoid, mean_sigmoid_slope, mean_softplus
from gcmf.likelihoods.functions import sigmoid, softplus
from gcmf.likelihoods.poisson import LARGEST_RATE

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats

#: r^(−½) ~ Exponential(1): what a rate varies by, as a share of its mean. Large r are Poisson cells, of which the prior
#: is vague; a deviation of tens of means (r < 0.01) has to be shown by many cells. Without that, cells that are all
#: zero go with any mean: p(0) = (1 + μ/r)^(−r) is 1 for r → 0.
SMALLEST, LARGEST = 1e-4, 1e9
#: Logarithms of means are cut there, so that the variances of predictions are finite.
LARGEST_LOG = 300.0
#: The variance of θ with which means are expected, at most. Two deviations of θ are then a factor of 50 either way: who
#: is known that badly (an entity without a cell, of which only the prior is known) has no mean worth the name, as E e^θ
#: would be made of the largest θ that nobody has seen; the median e^m is at most 7.4 times smaller than what is told.
LARGEST_SPREAD = 4.0


def log_rising(x: Floats, r: Floats) -> Floats:
    """log Γ(x + r) − log Γ(r) − x log r, without cancellation: 0 for r → ∞.

    By Stirling's series at 8 more than r, where five terms are exact to 1e-14, and the eight factors apart.
    """
    shifted, y, factors = r + 8.0, x + r + 8.0, 1.0 + 0.0 * x
    for k in range(8):
        factors = factors * (1.0 + x / (r + k))
    stirling = (y - 0.5) * np.log1p(x / shifted) - x + x * np.log1p(8.0 / r)
    return stirling + _series(y) - _series(shifted) - np.log(factors)


def _series(y: Floats) -> Floats:
    """log Γ(y) − (y − ½) log y + y − ½ log 2π."""
    u = 1.0 / y
    s = u * u
    return u * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0))))


def _quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = (x + r) E σ′(ψ), wz = wm + x − (x + r) E σ(ψ)."""
    center = m - p[1]
    w = np.maximum((x + p[0]) * mean_sigmoid_slope(center, v), 1e-12)
    return w, w * m + x - (x + p[0]) * mean_sigmoid(center, v)


def _value(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """E log p(x|θ), without log x!."""
    total: Floats = log_rising(x, p[0]) + x * m - (x + p[0]) * mean_softplus(m - p[1], v)
    return total


def _trials(x: Floats, p: Floats) -> tuple[Floats, Floats]:
    """t = x + r, ψ = θ − log r."""
    return x + p[0], p[1]


NEGATIVE_BINOMIAL = CellMath(_quadratic, _value)


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """x ~ counts of mean e^θ and variance μ + μ²/r; exact expectations. p = (r, log r), and r alone when settled."""

    name = "negative_binomial"
    support = "counts"
    quadratic_is_bound = False
    mild = True
    searched = True
    widest = LARGEST_SPREAD
    cell = NEGATIVE_BINOMIAL
    trials = staticmethod(_trials)

    def constant(self, x: Floats) -> Floats:
        """−log x!."""
        return -np.asarray(gammaln(x + 1.0))

    def intercept(self, mean: float) -> float:
        """Log of the mean, kept finite."""
        return float(np.log(max(mean, 1e-3)))

    def start(self, largest: float, n: float, prior: ParameterPrior) -> Floats:
        """r = 1: nothing large is believed before it is known how much the cells vary."""
        del largest, n, prior
        return np.array([1.0, 0.0])

    def moved(self, p: Floats, step: float) -> Floats:
        """Log r moved by `step`."""
        log_r = min(max(float(p[1]) + step, np.log(SMALLEST)), np.log(LARGEST))
        return np.array([np.exp(log_r), log_r])

    def divergence(self, n: float, p: Floats, prior: ParameterPrior) -> float:
        """Log prior of log r: −r^(−½) − ½ log r."""
        del n, prior
        return -float(np.exp(-0.5 * p[1]) + 0.5 * p[1])

    def settled(self, p: Floats, prior: ParameterPrior) -> Floats:
        """R."""
        del prior
        return p[:1]

    def is_settled(self, p: Floats) -> bool:
        """A size above zero."""
        return super().is_settled(p) and bool(p[0] > 0.0)

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E e^θ = exp(m + v/2), with v at most `LARGEST_SPREAD`."""
        return np.asarray(np.exp(np.minimum(self.rank(m, v), LARGEST_LOG)))

    def rank(self, m: Floats, v: Floats) -> Floats:
        """Log E e^θ."""
        return np.asarray(m + 0.5 * np.minimum(v, LARGEST_SPREAD))

    def variance(self, m: Floats, v: Floats, p: Floats) -> Floats:
        """E μ + E μ²/r + Var μ, with E μ² = (E μ)² e^v."""
        first, spread = self.mean(m, v), np.expm1(np.minimum(v, LARGEST_SPREAD))
        return np.asarray(first + first**2 * (spread + (1.0 + spread) / p[0]))

    def log_predictive(self, x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
        """Log E p(x|θ)."""
        r, log_r = p[0], np.log(p[0])

        def log_p(theta: Floats) -> Floats:
            return np.asarray(x * theta - (x + r) * softplus(theta - log_r))

        def slopes(theta: Floats) -> tuple[Floats, Floats]:
            s = sigmoid(theta - log_r)
            return x - (x + r) * s, -(x + r) * s * (1.0 - s)

        return log_average(log_p, slopes, m, v) + log_rising(x, r) + self.constant(x)

    def deviance(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """−2 log p less its smallest value over θ, which is at μ = x."""
        r = p[0]
        best = xlogy(x, x) - (x + r) * np.log1p(x / r)
        return np.asarray(2.0 * (best - x * theta + (x + r) * softplus(theta - np.log(r))))

    def cdf(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """I(r/(r + μ); r, x + 1), the incomplete beta function."""
        return np.where(x < 0.0, 0.0, betainc(p[0], np.maximum(np.floor(x), 0.0) + 1.0, sigmoid(np.log(p[0]) - theta)))

    def draw(self, theta: Floats, p: Floats, rng: np.random.Generator) -> Floats:
        """Poisson counts whose rate is μ times a Gamma of shape r and mean one."""
        rate = np.exp(np.minimum(theta, LARGEST_LOG)) * rng.gamma(p[0], 1.0 / p[0], theta.shape)
        return rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(np.float64)
