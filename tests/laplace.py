"""Laplace cells: x ~ Laplace(θ, 1/λ), for real numbers with outliers; λ is learned. The example of CONTRIBUTING.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gcmf.gamma import Gamma
from gcmf.likelihoods import CellMath, Likelihood

#: |r| <= √(r² + SMALL²): without it, a cell that is met exactly would weigh infinitely much.
SMALL = 1e-2


def _distance(x, m, v, p):
    """E |x − θ| <= c = √((x − m)² + v), by Jensen."""
    return np.sqrt((x - m) ** 2 + v + SMALL**2)


def _quadratic(x, m, v, p):
    """−λ c is concave in (x − m)² + v, so its tangent is a bound: w = ⟨λ⟩/c, z = x."""
    w = p[0] / p[1] / _distance(x, m, v, p)
    return w, w * x


@dataclass(frozen=True)
class Laplace(Likelihood):
    """x ~ Laplace(θ, 1/λ). p = (shape, rate) of q(λ) = Gamma."""

    name = "laplace"
    support = "real"
    standardized = True
    cell = CellMath(_quadratic, _distance)

    def intercept(self, mean):
        return mean

    def looseness(self, theta):
        """1: as in least squares with weights, steps are as long as the data allow."""
        return 1.0

    def start(self, largest, n, prior):
        """⟨λ⟩ = 1: the data have unit variance."""
        return np.full(2, n + prior.shape)

    def learn(self, p, total, n, prior):
        """Shape λ₀ + n and rate, Σ c more than the prior's; the mode of a MAP fit has a shape of one less."""
        return np.array([prior.shape + n - prior.point, prior.rate + total])

    def slope(self, p):
        """−⟨λ⟩."""
        return -float(p[0] / p[1])

    def expected(self, total, n, p, prior):
        """n ⟨log λ/2⟩ − ⟨λ⟩ Σ c."""
        scale = Gamma(*p)
        log_scale = np.log(scale.mean) if prior.point else scale.mean_log
        return float(n * (log_scale - np.log(2.0)) - scale.mean * total)

    def divergence(self, n, p, prior):
        if prior.point:
            return float((prior.shape - 1.0) * np.log(p[0] / p[1]) - prior.rate * p[0] / p[1])
        return float(Gamma(*p).divergence(prior.shape, prior.rate))

    def settled(self, p, prior):
        """Predictions need 1/⟨λ⟩."""
        return np.array([p[1] / p[0]])

    def noise_variance(self, p):
        return 2.0 * float(p[0]) ** 2

    def mean(self, m, v):
        return m

    def variance(self, m, v, p):
        return v + self.noise_variance(p)

    def log_predictive(self, x, m, v, p):
        """That of Laplace cells with the variance that predictions have."""
        scale = np.sqrt(self.variance(m, v, p) / 2.0)
        return -np.abs(x - m) / scale - np.log(2.0 * scale)

    def deviance(self, x, theta, p):
        return 2.0 * np.abs(x - theta)

    def cdf(self, x, theta, p):
        """½ e^(λ(x − θ)) below θ, and one less the same above: what intervals are made of."""
        tail = 0.5 * np.exp(-np.abs(x - theta) / p[0])
        return np.where(x < theta, tail, 1.0 - tail)

    def draw(self, theta, p, rng):
        return rng.laplace(theta, p[0])
