"""p(x) = Σ_s share_s p(x | θ_s): the distribution of a new cell, by what is known of its linear predictor θ.

Nodes are those of a normal q(θ) = N(m, v) under variational Bayes, and could as well be draws of θ, each with the same
share. Means, deviations, quantiles, probabilities and densities are made of them in one way; where a normal q has a
closed form, that is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gcmf.likelihoods import Likelihood

    Floats = NDArray[np.float64]
    Node = tuple[float, Floats, Floats]
    """A share, θ of every cell there, and the parameters of the likelihood."""

#: Nodes of a normal θ, in deviations: so close that a step of the distribution of x, where counts are large and each
#: node has a peak of its own, is misplaced by at most a tenth of a deviation, either way.
STEP = 0.2
_AT = np.arange(-5.0, 5.0 + STEP / 2, STEP)
_SHARES = np.exp(-0.5 * _AT**2) / np.exp(-0.5 * _AT**2).sum()
#: Halvings of the range in which a quantile of real numbers lies.
_HALVINGS = 50


@dataclass(frozen=True)
class Normal:
    """θ ~ N(m, v) of some cells of one relation, (n,) or of any other shape."""

    m: Floats
    v: Floats
    p: Floats
    """Settled parameters of the likelihood."""
    of_q: Floats | None = None
    """The variance of q itself, where v is wider: expected 0/1 cells and counts are those of q."""

    @property
    def expected(self) -> Floats:
        """The variance with which cells are expected: of real numbers it makes no difference."""
        return self.v if self.of_q is None else self.of_q

    def nodes(self) -> Iterator[Node]:
        """Nodes at equal distances."""
        deviation = np.sqrt(self.v)
        return ((float(share), self.m + at * deviation, self.p) for at, share in zip(_AT, _SHARES, strict=True))


@dataclass(frozen=True)
class Drawn:
    """S draws of θ, (S, n), and of the likelihood's parameters, each (len p,) or (len p, n)."""

    theta: Floats
    p: Sequence[Floats]

    def nodes(self) -> Iterator[Node]:
        """The draws, all alike."""
        return ((1.0 / len(self.theta), theta, p) for theta, p in zip(self.theta, self.p, strict=True))


Theta = Normal | Drawn


def mean_and_variance(likelihood: Likelihood, theta: Theta) -> tuple[Floats, Floats]:
    """E x, and Var x = E Var(x|θ) + Var E(x|θ), of one distribution: p(1 − p) of a 0/1 cell."""
    if isinstance(theta, Normal):
        return _of_normal(likelihood, theta)
    draws, certain = bounded(likelihood, theta.theta), np.zeros(theta.theta.shape[1:])
    means = np.stack([likelihood.mean(at, certain) for at in draws])
    within = np.mean([likelihood.variance(at, certain, p) for at, p in zip(draws, theta.p, strict=True)], axis=0)
    return _at_most(likelihood, theta.theta, means.mean(axis=0)), np.asarray(within + means.var(axis=0))


def drawn_mean(likelihood: Likelihood, draws: Floats) -> Floats:
    """E x over draws of θ, (S, ...), all alike; see `bounded`."""
    total = sum(likelihood.mean(theta, np.zeros_like(theta)) for theta in bounded(likelihood, draws))
    return _at_most(likelihood, draws, np.asarray(total) / len(draws))


def bounded(likelihood: Likelihood, draws: Floats) -> Floats:
    """Draws of θ, none above median + 3 min(s, √widest); s is half of what lies between the quantiles 0.16 and 0.84.

    Of e^θ the largest of a few draws would decide, which the cells say nothing of. Quantiles do not follow it. A normal
    θ as wide as can be loses a tenth of E e^θ by this, and nothing that is seen if its deviation is 1.
    """
    if np.isinf(likelihood.widest):
        return draws
    low, middle, high = np.quantile(draws, (0.16, 0.5, 0.84), axis=0)
    return np.asarray(np.minimum(draws, middle + 3.0 * np.minimum((high - low) / 2.0, np.sqrt(likelihood.widest))))


def _at_most(likelihood: Likelihood, draws: Floats, mean: Floats) -> Floats:
    """Of a normal θ with the same median, E x is no larger under variational Bayes: v is `widest` at most."""
    if np.isinf(likelihood.widest):
        return mean
    middle = np.median(draws, axis=0)
    return np.asarray(np.minimum(mean, likelihood.mean(middle, np.full_like(middle, likelihood.widest))))


def _of_normal(likelihood: Likelihood, theta: Normal) -> tuple[Floats, Floats]:
    """The same of a normal θ; of counts, c of Var x = E x + c (E x)² is that of the wider θ, and E x that of q."""
    mean = likelihood.mean(theta.m, theta.expected)
    if likelihood.support == "binary":
        return mean, mean * (1.0 - mean)
    variance = likelihood.variance(theta.m, theta.v, theta.p)
    if theta.of_q is None or likelihood.support != "counts":
        return mean, variance
    wide = likelihood.mean(theta.m, theta.v)
    share = np.divide(mean, wide, out=np.ones_like(mean), where=wide > 0)
    return mean, np.asarray(mean + share**2 * (variance - wide))


def log_density(likelihood: Likelihood, theta: Theta, x: Floats) -> Floats:
    """Log Σ_s share_s p(x | θ_s)."""
    if isinstance(theta, Normal):
        v = theta.v if likelihood.least_squares else theta.expected
        return likelihood.log_predictive(x, theta.m, v, theta.p)
    total, certain = np.full(x.shape, -np.inf), np.zeros(x.shape)
    for share, at, p in theta.nodes():
        total = np.logaddexp(total, np.log(share) + likelihood.log_predictive(x, at, certain, p))
    return total


def cdf(likelihood: Likelihood, theta: Theta, x: Floats) -> Floats:
    """P(cell <= x) = Σ_s share_s P(cell <= x | θ_s)."""
    if isinstance(theta, Normal) and likelihood.least_squares:
        mean, variance = mean_and_variance(likelihood, theta)
        return np.asarray(ndtr((x - mean) / np.sqrt(variance)))
    if isinstance(theta, Normal) and likelihood.support == "binary":
        return np.where(x < 0.0, 0.0, np.where(x < 1.0, 1.0 - likelihood.mean(theta.m, theta.expected), 1.0))
    total: Floats = np.zeros(x.shape)
    for share, at, p in theta.nodes():
        total += share * likelihood.cdf(x, at, p)
    return total


def interval(likelihood: Likelihood, theta: Theta, level: float) -> tuple[Floats, Floats]:
    """Lower and upper end of what holds a new cell with this probability, leaving out as much on either side.

    Of 0/1 cells it is the interval of the probability E(x|θ), under what is known of θ: a cell is either 0 or 1.
    """
    tail = (1.0 - level) / 2.0
    return _quantile(likelihood, theta, tail), _quantile(likelihood, theta, 1.0 - tail)


def _quantile(likelihood: Likelihood, theta: Theta, level: float) -> Floats:
    """The smallest x with P(cell <= x) >= level."""
    if likelihood.support == "binary":
        return _of_probability(likelihood, theta, level)
    mean, variance = mean_and_variance(likelihood, theta)
    if isinstance(theta, Normal) and likelihood.least_squares:
        return np.asarray(mean + ndtri(level) * np.sqrt(variance))
    if likelihood.support == "counts":
        return _count(likelihood, theta, level, np.ceil(mean + 1.0))
    return _number(likelihood, theta, level, mean, np.sqrt(variance))


def _of_probability(likelihood: Likelihood, theta: Theta, level: float) -> Floats:
    """The quantile of E(x|θ), which rises with θ."""
    if isinstance(theta, Drawn):
        at = np.asarray(np.quantile(theta.theta, level, axis=0))
    else:
        at = np.asarray(theta.m + ndtri(level) * np.sqrt(theta.v))
    return likelihood.mean(at, np.zeros_like(at))


def _count(likelihood: Likelihood, theta: Theta, level: float, high: Floats) -> Floats:
    """Halve the range from −1, which is too little, to a count that is enough; of millions, to six digits."""
    low: Floats = np.full(high.shape, -1.0)
    while (short := cdf(likelihood, theta, high) < level).any() and high.max() < 1e300:
        low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
    while (high - low > np.maximum(1.0, 1e-6 * high)).any():
        middle: Floats = np.floor((low + high) / 2.0)
        enough = cdf(likelihood, theta, middle) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _number(likelihood: Likelihood, theta: Theta, level: float, mean: Floats, deviation: Floats) -> Floats:
    """Halve the range of so many deviations around the mean that all but one in so many squared lies within."""
    width = deviation / np.sqrt(min(level, 1.0 - level))
    low, high = np.asarray(mean - width), np.asarray(mean + width)  # by Chebyshev's inequality
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        enough = cdf(likelihood, theta, middle) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
