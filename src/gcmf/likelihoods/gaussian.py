"""Gaussian cells: x ~ N(θ, 1/τ), the noise precision τ learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gcmf.gamma import Gamma, log_density, with_mode
from gcmf.likelihoods.base import CellMath, Likelihood, ParameterPrior
from gcmf.options import check_choice

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats

LOG_2PI = float(np.log(2.0 * np.pi))
#: Noise never falls below this share of a relation's variance: what is reproduced to 1e-5 of its spread has no noise
#: left to learn, and the rounding errors of float64, which grow with the precision, would lower the bound.
MIN_NOISE = 1e-10


def _quadratic(x: Floats, m: Floats, v: Floats, p: Floats) -> tuple[Floats, Floats]:
    """w = ⟨τ⟩ and z = x."""
    w = p[0] / p[1] + 0.0 * x
    return w, w * x


def _squared_residual(x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
    """E (x − θ)² = (x − m)² + v."""
    return (x - m) ** 2 + v


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """x ~ N(θ, 1/(τ ρ_i σ_j)); exact, so there is no bound to choose. p = (shape, rate) of q(τ).

    `noise` says what has noise of its own beside the relation: "rows" (ρ_i), "cols" (σ_j), "both" or nothing, which is
    "relation". How much rows and columns differ is learned; where they do not, nothing changes.
    """

    noise: Literal["both", "rows", "cols", "relation"] = "both"

    name = "gaussian"
    support = "real"
    least_squares = True
    standardized = True
    cell = CellMath(_quadratic, _squared_residual)

    def __post_init__(self) -> None:
        check_choice("noise", self.noise, ("both", "rows", "cols", "relation"))

    def intercept(self, mean: float) -> float:
        """θ = E x."""
        return mean

    def start(self, largest: float, n: float, prior: ParameterPrior) -> Floats:
        """⟨τ⟩ = 1: the data have unit variance."""
        del largest
        return np.full(2, n / 2.0 + prior.shape)

    def learn(self, p: Floats, total: float, n: float, prior: ParameterPrior) -> Floats:
        """Shape p₀ + n/2, rate q₀ + ½ Σ [(x − m)² + v]."""
        del p
        # The mode of a Gamma is (shape − 1)/rate: a MAP fit holds that shape, so that its "mean" is the mode.
        shape = self._least_shape(n, prior) + n / 2.0 - prior.point
        return np.array([shape, max(prior.rate + total / 2.0, MIN_NOISE / 2.0 * n)])

    def pinned(self, p: Floats) -> Floats:
        """⟨τ⟩."""
        return np.array([1.0, p[1] / p[0]])

    def drawn(self, p: Floats, total: float, n: float, prior: ParameterPrior, rng: np.random.Generator) -> Floats:
        """τ ~ Gamma(p₀ + n/2, q₀ + ½ Σ (x − θ)²)."""
        del p
        rate = max(prior.rate + total / 2.0, MIN_NOISE / 2.0 * n)
        return np.array([1.0, rate / rng.gamma(prior.shape + n / 2.0)])

    def _least_shape(self, n: float, prior: ParameterPrior) -> float:
        """p₀; of a MAP fit at least so much that τ has a mode."""
        return float(with_mode(prior.shape, n)) if prior.point else prior.shape

    def slope(self, p: Floats) -> float:
        """−⟨τ⟩/2."""
        return -0.5 * float(p[0] / p[1])

    def expected(self, total: float, n: float, p: Floats, prior: ParameterPrior) -> float:
        """n/2 (⟨log τ⟩ − log 2π) − ⟨τ⟩/2 Σ [(x − m)² + v]."""
        tau = Gamma(*p)
        log_tau = np.log(tau.mean) if prior.point else tau.mean_log
        return float(0.5 * (n * (log_tau - LOG_2PI) - tau.mean * total))

    def divergence(self, n: float, p: Floats, prior: ParameterPrior) -> float:
        """⟨log p(τ)⟩ − ⟨log q(τ)⟩, or log p(τ)."""
        tau = Gamma(*p)
        if prior.point:
            return float(log_density(tau.mean, self._least_shape(n, prior), prior.rate))
        return float(tau.divergence(prior.shape, prior.rate))

    def settled(self, p: Floats, prior: ParameterPrior) -> Floats:
        """⟨1/τ⟩ = q/(p − 1), or 1/τ where only a point is known."""
        shape, rate = p
        return np.array([rate / (shape - 1.0 if shape > 1.0 + 1e-9 and not prior.point else shape)])

    def is_settled(self, p: Floats) -> bool:
        """A noise variance above zero."""
        return super().is_settled(p) and bool(p[0] > 0.0)

    def noise_variance(self, p: Floats) -> float:
        """⟨1/τ⟩."""
        return float(p[0])

    def at_noise(self, p: Floats, share: Any) -> Floats:  # noqa: ANN401 - 1, or an array
        """⟨1/τ⟩ ⟨1/ρ_i⟩ ⟨1/σ_j⟩."""
        return np.asarray(p[0] * share)[None]

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E x = m."""
        del v
        return m

    def variance(self, m: Floats, v: Floats, p: Floats) -> Floats:
        """Var x = v + 1/τ."""
        del m
        return np.asarray(v + p[0])

    def log_predictive(self, x: Floats, m: Floats, v: Floats, p: Floats) -> Floats:
        """Log N(x; m, v + 1/τ)."""
        total = v + p[0]
        return np.asarray(-0.5 * (np.log(2.0 * np.pi * total) + (x - m) ** 2 / total))

    def deviance(self, x: Floats, theta: Floats, p: Floats) -> Floats:
        """(x − θ)²: variance explained is the usual R²."""
        del p
        return (x - theta) ** 2
