"""Poisson cells: x ~ Poisson(softplus(θ)), f(θ) = s − x log s + log x!, s = softplus(θ)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from gcmf.likelihoods.base import jaakkola, log_two_cosh, sigmoid, softplus
from gcmf.options import check_choice

if TYPE_CHECKING:
    from gcmf.likelihoods.base import Floats

#: h = max over θ of the second derivative of −log softplus(θ), reached at θ = 0.495.
CURVATURE_PER_COUNT = 0.1670957
_CODES = {"paper": 3, "cell": 4, "tight": 5, "exact": 6}
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
# The nodes that compiled engines use while fitting.
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_FEW_WEIGHTS = _FEW_WEIGHTS / _FEW_WEIGHTS.sum()


def log_rate(theta: Floats) -> Floats:
    """Log softplus(θ), which tends to θ for θ → −∞."""
    return np.where(theta < -30.0, theta, np.log(softplus(np.maximum(theta, -30.0))))


def rate_slope(theta: Floats) -> Floats:
    """σ(θ)/softplus(θ), the slope of log softplus, which tends to 1 for θ → −∞."""
    safe = np.maximum(theta, -30.0)
    return np.where(theta < -30.0, 1.0, sigmoid(safe) / softplus(safe))


def _expected_slopes(x: Floats, m: Floats, v: Floats) -> tuple[Floats, Floats]:
    """E f′(θ) and 2 ∂E f/∂v for θ ~ N(m, v), both of one quadrature sum, so that fixed points are stationary."""
    small = v < 1e-10
    spread = np.sqrt(np.where(small, 1.0, v))[..., None]
    theta = m[..., None] + spread * _FEW_NODES
    slope = sigmoid(theta) - x[..., None] * rate_slope(theta)
    s, g = sigmoid(m), rate_slope(m)
    first = np.where(small, s - x * g, slope @ _FEW_WEIGHTS)
    second = np.where(
        small, s * (1.0 - s) + x * g * (g - (1.0 - s)), slope @ (_FEW_WEIGHTS * _FEW_NODES) / spread[..., 0]
    )
    return first, np.maximum(second, 1e-12)


@dataclass(frozen=True)
class Poisson:
    """x ~ Poisson(softplus(θ)).

    Parameters
    ----------
    bound
        "tight" (the default): Jaakkola and Jordan for the rate, curvature h·x for its logarithm. "cell": curvature
        1/4 + h·x. "paper": one curvature per relation, 1/4 + 0.17 times its largest count. "exact": the
        expectation itself, by quadrature, with guarded steps. A quadratic bound must hold as far as θ = 0 and
        below, where a count of hundreds is absurd, so its curvature is far too large there: for counts that
        really are Poisson and often above ten, "exact" fits better and in fewer sweeps. Counts that vary more
        than Poisson ones (plays, reads) it overfits, where the slack of the others acts as a regularizer; that
        is why it is not the default (docs/model.md has the figures).
    """

    bound: Literal["paper", "cell", "tight", "exact"] = "tight"
    name = "poisson"
    support = "counts"
    zero_weight = 1.0

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, tuple(_CODES))

    @property
    def quadratic_is_bound(self) -> bool:
        """Yes, except for the exact expectation."""
        return self.bound != "exact"

    @property
    def code(self) -> int:
        """The number by which compiled engines know this likelihood and bound."""
        return _CODES[self.bound]

    def weight(self, largest: float) -> float:
        """κ of the whole relation, for the paper's bound."""
        return 0.25 + 0.17 * largest

    def _curvature(self, x: Floats, weight: float) -> Floats:
        if self.bound == "paper":
            return np.full_like(x, weight)
        return 0.25 + CURVATURE_PER_COUNT * x

    def quadratic(self, x: Floats, m: Floats, v: Floats, weight: float) -> tuple[Floats, Floats]:
        """Exact: w = 2 ∂E f/∂v, wz = wm − E f′. Tight: w = 2L(ξ) + hx, wz = −1/2 + x(g + hm). Else: κ, κm − f′(m)."""
        if self.bound == "exact":
            first, second = _expected_slopes(x, m, v)
            return second, second * m - first
        g = rate_slope(m)
        if self.bound == "tight":
            hx = CURVATURE_PER_COUNT * x
            return 2.0 * jaakkola(np.sqrt(m * m + v)) + hx, x * g + hx * m - 0.5
        kappa = self._curvature(x, weight)
        return kappa, kappa * m - (sigmoid(m) - x * g)

    def lower_bound(self, x: Floats, m: Floats, v: Floats, weight: float) -> Floats:
        """Exact: −E f. Tight: x log s(m) − m/2 − log 2cosh(ξ/2) − hxv/2. Curvature: −f(m) − κv/2. Without log x!."""
        if self.bound == "exact":
            theta = m[..., None] + np.sqrt(v)[..., None] * _FEW_NODES
            return np.asarray((x[..., None] * log_rate(theta) - softplus(theta)) @ _FEW_WEIGHTS)
        if self.bound == "tight":
            even = log_two_cosh(np.sqrt(m * m + v))
            return x * log_rate(m) - 0.5 * m - even - 0.5 * CURVATURE_PER_COUNT * x * v
        return x * log_rate(m) - softplus(m) - 0.5 * self._curvature(x, weight) * v

    def constant(self, x: Floats) -> Floats:
        """−log x!."""
        return -np.asarray(gammaln(x + 1.0))

    def intercept(self, mean: float) -> float:
        """Softplus inverted."""
        mean = max(mean, 1e-3)
        return float(mean + np.log(-np.expm1(-mean)))

    def _at_nodes(self, m: Floats, v: Floats) -> Floats:
        return m[..., None] + np.sqrt(v)[..., None] * _NODES

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E softplus(θ), by Gauss-Hermite quadrature."""
        return np.asarray(softplus(self._at_nodes(m, v)) @ _NODE_WEIGHTS)

    def variance(self, m: Floats, v: Floats, noise: float) -> Floats:
        """Var x = E s + Var s."""
        del noise
        s = softplus(self._at_nodes(m, v))
        first = s @ _NODE_WEIGHTS
        return np.asarray(first + (s - first[..., None]) ** 2 @ _NODE_WEIGHTS)  # E s² − (E s)² may round below zero

    def log_predictive(self, x: Floats, m: Floats, v: Floats, noise: float) -> Floats:
        """Log E Poisson(x; s), by Gauss-Hermite quadrature."""
        del noise
        theta = self._at_nodes(m, v)
        at_nodes = x[..., None] * log_rate(theta) - softplus(theta)
        return np.asarray(logsumexp(at_nodes, axis=-1, b=_NODE_WEIGHTS) - gammaln(x + 1.0))

    def deviance(self, x: Floats, theta: Floats) -> Floats:
        """2 (s − x log s) less its smallest value over s, as usual for counts."""
        return np.asarray(2.0 * (softplus(theta) - x * log_rate(theta) - x + xlogy(x, x)))
