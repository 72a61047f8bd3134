"""q(U) q(b) q(μ) q(α) q(τ): what a fit carries from sweep to sweep and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from gcmf.engines.base import Hyper, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    def copy(self) -> Posterior:
        """Independent arrays with the same values."""
        return replace(self, state=self.state.copy(), on=self.on.copy())

    def keep(self, columns: NDArray[np.intp]) -> Posterior:
        """Only these factors, in this order."""
        s = self.state
        state = State([np.ascontiguousarray(a[:, columns]) for a in s.mean],
                      [np.ascontiguousarray(a[:, columns]) for a in s.var], s.bias_mean, s.bias_var)  # fmt: skip
        alpha = Gamma(self.alpha.shape[:, columns], self.alpha.rate[:, columns])
        return replace(self, state=state, alpha=alpha, on=self.on[:, columns])

    def second_moment(self) -> Floats:
        """S_ek = Σ_i (ū² + ũ), (E, K)."""
        return np.stack([_square_sum(m) + v.sum(axis=0, dtype=np.float64)
                         for m, v in zip(self.state.mean, self.state.var, strict=True)])  # fmt: skip


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


def _square_sum(a: NDArray[np.floating]) -> Floats:
    wide = a.astype(np.float64)
    return np.asarray(np.einsum("ik,ik->k", wide, wide))
