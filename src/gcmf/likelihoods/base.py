"""What a likelihood must answer: one quadratic form per cell, its bound, and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Likelihood(Protocol):
    """E log p(x|θ) >= c − w/2 [(z − m)² + v], for θ with mean m and variance v under q.

    The mathematics of one kind of cell, in NumPy; compiled engines know it by its `code`.
    `weight` is the one number a relation carries: ⟨τ⟩ for Gaussian cells, the curvature κ of the relation
    for bounds that have a single one, and unused otherwise.
    """

    name: str
    support: str

    @property
    def zero_weight(self) -> float:
        """How many cells each observed zero stands for; 1 for all but weighed Bernoulli cells."""

    @property
    def quadratic_is_bound(self) -> bool:
        """Whether the quadratic form bounds the expected log-likelihood from below, and not just approximates it."""

    @property
    def code(self) -> int:
        """The number by which compiled engines know this likelihood and bound."""

    def weight(self, largest: float) -> float:
        """Weight of a relation whose largest value is `largest`, before any fitting."""

    def quadratic(self, x: Floats, m: Floats, v: Floats, weight: float) -> tuple[Floats, Floats]:
        """Weights w and weighted pseudo-data w·z of cells whose predictor has mean m and variance v."""

    def lower_bound(self, x: Floats, m: Floats, v: Floats, weight: float) -> Floats:
        """E log p(x|θ), bounded from below, without the terms that depend on x alone (`constant`)."""

    def constant(self, x: Floats) -> Floats:
        """The terms of log p(x|θ) that depend on x alone."""

    def intercept(self, mean: float) -> float:
        """θ at which a cell has the given mean."""

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E x of a new cell."""

    def variance(self, m: Floats, v: Floats, noise: float) -> Floats:
        """Var x of a new cell; `noise` is the noise variance, which only Gaussian cells have."""

    def log_predictive(self, x: Floats, m: Floats, v: Floats, noise: float) -> Floats:
        """Log probability (density) of a new cell's value x."""

    def deviance(self, x: Floats, theta: Floats) -> Floats:
        """−2 log p(x|θ) up to a function of x, at a fixed predictor."""


def sigmoid(t: Floats) -> Floats:
    """σ(t) = 1/(1 + e⁻ᵗ), without overflow."""
    e = np.exp(-np.abs(t))
    return np.where(t >= 0, 1.0, e) / (1.0 + e)


def softplus(t: Floats) -> Floats:
    """log(1 + eᵗ), without overflow."""
    return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))


def jaakkola(t: Floats) -> Floats:
    """L(t) = tanh(t/2)/(4t), with L(0) = 1/8."""
    t = np.abs(t)
    small = t < 1e-3
    safe = np.where(small, 1.0, t)
    return np.where(small, 0.125 - t * t / 96.0, np.tanh(safe / 2.0) / (4.0 * safe))


def log_two_cosh(t: Floats) -> Floats:
    """log(2 cosh(t/2)), the even part of softplus."""
    t = np.abs(t)
    return t / 2.0 + np.log1p(np.exp(-t))
