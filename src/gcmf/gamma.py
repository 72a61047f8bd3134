"""Gamma distributions, elementwise: of the precisions α and τ, and of whatever else a likelihood learns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A fit by modes (MAP) counts at least this for the shape of a precision: below zero its density has no mode.
MIN_SHAPE = 1e-3


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, rate): two numbers, or two arrays of the same shape."""

    shape: Any
    rate: Any

    @cached_property
    def mean(self) -> Any:  # noqa: ANN401 - a number or an array, as shape and rate are
        """shape/rate."""
        return self.shape / self.rate

    @cached_property
    def mean_log(self) -> Any:  # noqa: ANN401
        """ψ(shape) − log rate."""
        return np.asarray(digamma(self.shape)) - np.log(self.rate)

    def divergence(self, shape: float, rate: float) -> NDArray[np.float64]:
        """⟨log p⟩ − ⟨log q⟩ for q = Gamma(a, b), this one, and p = Gamma(a₀, b₀), the one given.

        That is a₀ log b₀ − log Γ(a₀) + a₀⟨log⟩ − b₀⟨·⟩ + log Γ(a) + a − aψ(a): of the entropy, (1 − a)⟨log⟩ − a log b
        is ⟨log⟩ − aψ(a).
        """
        prior = shape * self.mean_log - rate * self.mean + (shape * np.log(rate) - gammaln(shape))
        return np.asarray(prior + gammaln(self.shape) + self.shape * (1.0 - digamma(self.shape)))


def log_density(x: Any, shape: Any, rate: float) -> NDArray[np.float64]:  # noqa: ANN401 - numbers or arrays
    """Log Gamma(x; shape, rate)."""
    return np.asarray(shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(x) - rate * x)


def shape_of(gap: float, most: float) -> float:
    """The a with log a − ψ(a) = gap, at most `most`: by Newton's steps from the usual approximation."""
    gap = max(gap, 0.5 / most)
    a = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    for _ in range(10):
        a = max(a - (np.log(a) - digamma(a) - gap) / (1.0 / a - polygamma(1, a)), a / 10.0)
    return float(min(a, most))


def with_mode(shape: float, counts: Any) -> Any:  # noqa: ANN401 - numbers or arrays
    """Prior shape of a precision of which so many numbers tell, raised where shape + counts/2 > 1 needs it."""
    return np.maximum(shape, 1.0 + MIN_SHAPE - counts / 2.0)
