"""−log p(x|θ) of the three kinds of cells, and answers with the errors that go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, gammaln, log_ndtr

from benchmarks.ledger.scores import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def loss(kind: str, x: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """−log p(x|θ) without what depends on x alone, and its slope in θ: identity, logit and log links."""
    if kind == "gaussian":
        return 0.5 * (x - theta) ** 2, theta - x
    if kind == "bernoulli":
        return np.logaddexp(0.0, theta) - x * theta, expit(theta) - x
    rate = np.exp(np.minimum(theta, 50.0))
    return rate - x * theta, rate - x


def curvature(kind: str, mean: float) -> float:
    """Second derivative of the loss where cells have this mean."""
    return {"gaussian": 1.0, "bernoulli": mean * (1.0 - mean), "poisson": mean}[kind]


def intercept(kind: str, mean: float) -> float:
    """θ at which cells have this mean."""
    if kind == "gaussian":
        return mean
    return float(np.log(mean / (1.0 - mean)) if kind == "bernoulli" else np.log(mean))


def normal(x: NDArray[Any], mean: NDArray[Any], spread: float) -> Answer:
    """An answer with the same normal error everywhere."""
    log_lik = -0.5 * float(np.mean(((x - mean) / spread) ** 2)) - float(np.log(spread * np.sqrt(2.0 * np.pi)))
    return Answer(mean, np.full(len(mean), spread), log_lik)


def poisson(x: NDArray[Any], rate: NDArray[Any]) -> Answer:
    """An answer for counts of known rates."""
    return Answer(rate, np.sqrt(rate), float(np.mean(x * np.log(rate) - rate - gammaln(x + 1.0))))


def log_normal(x: NDArray[Any], mu: NDArray[Any], spread: float) -> Answer:
    """log(1 + count) normal: P(x) is what lies within half a count of x (of zero: below a half)."""
    high = log_ndtr((np.log(x + 1.5) - mu) / spread)
    low = np.where(x > 0, log_ndtr((np.log(np.maximum(x, 0.5) + 0.5) - mu) / spread), -np.inf)
    # Where the two can hardly be told apart, the density stands for the difference.
    density = -0.5 * ((np.log1p(x) - mu) / spread) ** 2 - np.log(spread * np.sqrt(2.0 * np.pi)) - np.log1p(x)
    gap = low - high
    log_lik = np.where(gap < -1e-6, high + np.log(-np.expm1(np.minimum(gap, -1e-9))), density)
    mean = np.expm1(np.minimum(mu + 0.5 * spread**2, 50.0))
    return Answer(np.maximum(mean, 0.0), None, float(np.mean(log_lik)))
