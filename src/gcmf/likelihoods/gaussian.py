"""Gaussian cells: x ~ N(θ, 1/τ), the noise precision τ learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats


@dataclass(frozen=True)
class Gaussian:
    """x ~ N(θ, 1/τ); exact, so there is no bound to choose."""

    name = "gaussian"
    support = "real"
    zero_weight = 1.0

    @property
    def quadratic_is_bound(self) -> bool:
        """Yes, for every bound."""
        return True

    @property
    def code(self) -> int:
        """The number by which compiled engines know Gaussian cells."""
        return 0

    def weight(self, largest: float) -> float:
        """⟨τ⟩ before any fitting: the data have unit variance."""
        del largest
        return 1.0

    def quadratic(self, x: Floats, m: Floats, v: Floats, weight: float) -> tuple[Floats, Floats]:
        """w = ⟨τ⟩ and z = x."""
        del m, v
        return np.full_like(x, weight), weight * x

    def lower_bound(self, x: Floats, m: Floats, v: Floats, weight: float) -> Floats:
        """(x − m)² + v: what the noise precision needs; τ's own terms are added by the ELBO."""
        del weight
        return (x - m) ** 2 + v

    def constant(self, x: Floats) -> Floats:
        """Nothing: the normalisation depends on τ and belongs to the ELBO."""
        return np.zeros_like(x)

    def intercept(self, mean: float) -> float:
        """θ = E x."""
        return mean

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E x = m."""
        del v
        return m

    def variance(self, m: Floats, v: Floats, noise: float) -> Floats:
        """Var x = v + 1/τ."""
        del m
        return v + noise

    def log_predictive(self, x: Floats, m: Floats, v: Floats, noise: float) -> Floats:
        """Log N(x; m, v + 1/τ)."""
        total = v + noise
        return -0.5 * (np.log(2.0 * np.pi * total) + (x - m) ** 2 / total)

    def deviance(self, x: Floats, theta: Floats) -> Floats:
        """(x − θ)²: variance explained is the usual R²."""
        return (x - theta) ** 2
