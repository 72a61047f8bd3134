"""q(U) q(b) q(μ) q(α) q(τ): what a fit carries from sweep to sweep and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma

from gcmf.engines.base import Hyper, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Swept
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, rate), elementwise."""

    shape: Floats
    rate: Floats

    @property
    def mean(self) -> Floats:
        """shape/rate."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> Floats:
        """ψ(shape) − log rate."""
        return np.asarray(digamma(self.shape)) - np.log(self.rate)


@dataclass(frozen=True)
class BiasPrior:
    """b ~ N(μ, σ²) per bias layer: q(μ) = N(mean, var), σ² a point."""

    mean: Floats
    var: Floats
    scale: Floats


@dataclass(frozen=True)
class Moments:
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
        square = np.stack([_square_sum(m) + v.sum(axis=0, dtype=np.float64)
                           for m, v in zip(state.mean, state.var, strict=True)])  # fmt: skip
        log_var = np.stack([_log_sum(v) for v in state.var])
        layers = [(b.sum(dtype=np.float64), _square_sum(b[:, None])[0] + v.sum(dtype=np.float64), _log_sum(v))
                  for b, v in zip(state.bias_mean, state.bias_var, strict=True)]  # fmt: skip
        return cls(square, log_var, *np.array(layers, dtype=np.float64).reshape(-1, 3).T)

    def after(self, e: int, swept: Swept) -> Moments:
        """Return the moments after a sweep of entity set e."""
        square, log_var = self.square.copy(), self.log_var.copy()
        square[e], log_var[e] = swept.square, swept.log_var
        layers = [a.copy() for a in (self.bias_sum, self.bias_square, self.bias_log_var)]
        for total, found in zip(layers, swept.bias, strict=True):
            total[swept.layers] = found
        return Moments(square, log_var, *layers)


@dataclass(frozen=True)
class Posterior:
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
        """Independent arrays with the same values."""
        return self.with_state(self.state.copy(), on=self.on.copy())

    def with_state(self, state: State, **changes: Any) -> Posterior:  # noqa: ANN401 - as of `replace`
        """Return this posterior with another state, of which nothing is known unless `known` says so."""
        return replace(self, **{"known": None, **changes, "state": state})

    def keep(self, columns: NDArray[np.intp]) -> Posterior:
        """Only these factors, in this order."""
        s = self.state
        state = State([np.ascontiguousarray(a[:, columns]) for a in s.mean],
                      [np.ascontiguousarray(a[:, columns]) for a in s.var], s.bias_mean, s.bias_var)  # fmt: skip
        alpha = Gamma(self.alpha.shape[:, columns], self.alpha.rate[:, columns])
        return self.with_state(state, alpha=alpha, on=self.on[:, columns])


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


def _log_sum(var: NDArray[np.floating]) -> Floats:
    """Σ log ũ over the entities that have a variance."""
    wide = var.astype(np.float64)
    return np.asarray(np.log(np.where(wide > 0, wide, 1.0)).sum(axis=0))


def _square_sum(a: NDArray[np.floating]) -> Floats:
    wide = a.astype(np.float64)
    return np.asarray(np.einsum("ik,ik->k", wide, wide))
