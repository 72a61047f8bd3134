"""q(U) q(b) q(μ) q(α) q(τ): what a fit carries from sweep to sweep and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import digamma

from gcmf.engines.base import Hyper, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Array, Swept
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, rate), elementwise."""

    shape: Floats
    rate: Floats

    @cached_property
    def mean(self) -> Floats:
        """shape/rate."""
        return self.shape / self.rate

    @cached_property
    def mean_log(self) -> Floats:
        """ψ(shape) − log rate."""
        return np.asarray(digamma(self.shape)) - np.log(self.rate)


class BiasPrior(NamedTuple):
    """b ~ N(μ, σ²) per bias layer: q(μ) = N(mean, var), σ² a point."""

    mean: Floats
    var: Floats
    scale: Floats


class Moments(NamedTuple):
    """The sums over entities that precisions, bias priors and the bound are made of."""

    square: Floats
    """S_ek = Σ_i (ū² + ũ), (E, K)."""
    log_var: Floats
    """Σ_i log ũ over the entities with data, (E, K)."""
    bias_sum: Floats
    """Σ b̄ of each bias layer, (2M,)."""
    bias_square: Floats
    """Σ (b̄² + b̃), (2M,)."""
    bias_log_var: Floats
    """Σ log b̃ over the entities with cells, (2M,)."""

    @classmethod
    def of(cls, state: State) -> Moments:
        """Sum up the arrays."""
        layers = [(b.sum(dtype=np.float64), *_sums(b, v))
                  for b, v in zip(state.bias_mean, state.bias_var, strict=True)]  # fmt: skip
        return cls(*_factor_sums(state.mean, state.var), *np.array(layers).T)

    @classmethod
    def swept(cls, sets: list[Swept]) -> Moments:
        """Put together what the sweeps of all entity sets know."""
        layers = np.empty((3, sum(len(one.layers) for one in sets)))
        for one in sets:
            layers[:, one.layers] = one.bias
        return cls(np.array([one.square for one in sets]), np.array([one.log_var for one in sets]), *layers)


class Posterior(NamedTuple):
    """The approximate posterior. The arrays of `state` belong to the engine while it sweeps."""

    state: State
    alpha: Gamma
    """(E, K)."""
    tau: Gamma
    """(M,); meaningless where the relation is not Gaussian."""
    bias: BiasPrior
    """(2M,)."""
    on: NDArray[np.bool_]
    """(E, K): False where the factor is switched off, and mean and variance are exactly zero."""
    known: Moments | None = None
    """The moments, where whoever made the state knows them."""

    @property
    def moments(self) -> Moments:
        """The moments of the state."""
        return self.known if self.known is not None else Moments.of(self.state)

    def copy(self) -> Posterior:
        """Independent arrays with the same values, of which nothing is known: they may be changed."""
        return self._replace(state=self.state.copy(), on=self.on.copy(), known=None)

    def with_factors(self, mean: list[Array], var: list[Array], **changes: Any) -> Posterior:  # noqa: ANN401 - as of `_replace`
        """Return this posterior with other factors; the biases stay, and so does what is known of them."""
        square, log_var = _factor_sums(mean, var)
        state = State(mean, var, self.state.bias_mean, self.state.bias_var)
        return self._replace(state=state, known=self.moments._replace(square=square, log_var=log_var), **changes)

    def keep(self, columns: NDArray[np.intp]) -> Posterior:
        """Only these factors, in this order."""
        mean = [np.ascontiguousarray(a[:, columns]) for a in self.state.mean]
        var = [np.ascontiguousarray(a[:, columns]) for a in self.state.var]
        alpha = Gamma(self.alpha.shape[:, columns], self.alpha.rate[:, columns])
        return self.with_factors(mean, var, alpha=alpha, on=self.on[:, columns])


def hyper_of(spec: Spec, posterior: Posterior, damping: float | None) -> Hyper:
    """What a sweep takes as fixed."""
    return Hyper(
        alpha=posterior.alpha.mean,
        on=posterior.on,
        weight=np.where(spec.gaussian, posterior.tau.mean, spec.weight),
        bias_mean=posterior.bias.mean,
        bias_precision=1.0 / posterior.bias.scale,
        point=spec.point,
        damping=damping,
    )


def _factor_sums(mean: list[Array], var: list[Array]) -> Floats:
    """S_ek and Σ_i log ũ, (2, E, K)."""
    return np.stack([_sums(m, v) for m, v in zip(mean, var, strict=True)], axis=1)


def _sums(mean: Array, var: Array) -> tuple[Floats, Floats]:
    """Σ_i (ū² + ũ), and Σ_i log ũ over the entities that have a variance, of each column."""
    square = np.einsum("i...,i...->...", mean, mean, dtype=np.float64) + var.sum(axis=0, dtype=np.float64)
    logs = np.log(var, out=np.zeros(var.shape), where=var > 0, dtype=np.float64)
    return square, logs.sum(axis=0)
