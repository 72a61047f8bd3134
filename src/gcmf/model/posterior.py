"""q(μ) q(α) and the parameters of the likelihoods: what a fit knows beside the factors, which its engine holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.engines.base import Given, RowPrior, Scales
from gcmf.engines.host import factor_sums
from gcmf.gamma import Gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import State, Swept
    from gcmf.model.fitted import FittedScales
    from gcmf.model.noise import Noise
    from gcmf.model.regression import Regression
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


class BiasPrior(NamedTuple):
    """b ~ N(μ, σ²) per bias layer: q(μ) = N(mean, var), σ² a point."""

    mean: Floats
    var: Floats
    scale: Floats


class Moments(NamedTuple):
    """The sums over entities that precisions, bias priors and the bound are made of."""

    square: Floats
    """S_ek = Σ_i [(ū − prior mean)² + ũ], (E, K)."""
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
        """Sum up the arrays of a state, under priors with mean zero."""
        wide = [(b[:, None], v[:, None]) for b, v in zip(state.bias_mean, state.bias_var, strict=True)]
        bias_square, bias_log_var = factor_sums(*map(list, zip(*wide, strict=True)))
        bias_sum = np.array([b.sum(dtype=np.float64) for b in state.bias_mean])
        return cls(*factor_sums(state.mean, state.var), bias_sum, bias_square[:, 0], bias_log_var[:, 0])

    @classmethod
    def swept(cls, sets: list[Swept]) -> Moments:
        """Put together what the sweeps of all entity sets know."""
        layers = np.zeros((3, 2 * len(sets[0].measured)))
        for swept in sets:
            layers[:, swept.layers] = swept.bias
        return cls(np.array([swept.square for swept in sets]), np.array([swept.log_var for swept in sets]), *layers)


class RelationScales(NamedTuple):
    """d ~ N(0, 1/β) of each relation and factor, θ = Σ_k d_mk u_ik u_jk: q(d) = N(mean, var), q(β) a Gamma, (M, K)."""

    mean: Floats
    var: Floats
    beta: Gamma
    on: NDArray[np.bool_]
    """False where a relation does not see the factor, and mean and variance are exactly zero."""
    mate: NDArray[np.int64]
    """The factor with which each is received in directed relations, (K,): itself, or another whose mate it is."""
    itself: NDArray[np.int64]
    """Of directed relations, which set it is that they join with itself; −1 of all others, (M,)."""

    @property
    def square(self) -> Floats:
        """⟨d²⟩, (M, K)."""
        return self.mean**2 + self.var

    def columns(self, source: list[int], on: NDArray[np.bool_], held: NDArray[np.bool_]) -> RelationScales:
        """Return the scales of these factors, some of them several times, in the relations that see them.

        `held` says which sets hold them, (E, K′). Mates stay so if either is there once; whoever has lost its mate in
        a set sends nothing there any more.
        """
        mate = np.arange(len(source))
        for k, old in enumerate(source):
            if source.count(old) == source.count(int(self.mate[old])) == 1:
                mate[k] = source.index(int(self.mate[old]))
        lost = (self.mate[source] != source) & (mate == np.arange(len(source)))
        on = on & ~((self.itself[:, None] >= 0) & (lost | ~held[self.itself][:, mate]))
        beta = Gamma(self.beta.shape[:, source], self.beta.rate[:, source])
        mean, var = (np.where(on, a[:, source], 0.0) for a in (self.mean, self.var))
        return RelationScales(mean, var, beta, on, mate, self.itself)


class Posterior(NamedTuple):
    """The approximate posterior apart from q(U) and q(b), of which only sums are known here."""

    alpha: Gamma
    """(E, K)."""
    alpha_prior: Gamma
    """Of which every α of a set is drawn, (E, 1): as the user has it, or learned."""
    parameters: tuple[Floats, ...]
    """Of each relation's likelihood: a few numbers, such as shape and rate of q(τ)."""
    bias: BiasPrior
    """(2M,)."""
    on: NDArray[np.bool_]
    """(E, K): False where the factor is switched off, and its means and variances are exactly zero."""
    moments: Moments
    n_weak: int = 0
    """The last so many factors are there for predictions alone, and no part of the structure."""
    scales: RelationScales | None = None
    """Of relations and factors, where the model has them."""
    regressions: tuple[Regression, ...] = ()
    """Of the factors and biases of the sets with covariates, in the order of `Spec.designs`."""
    noise: Noise | None = None
    """Of rows and columns, where relations have some."""
    center: Floats | None = None
    """Means of the factors of each set, (E, K), while they are drawn: `model/centers.py`."""

    @property
    def n_factors(self) -> int:
        """Factors that are left."""
        return int(self.on.shape[1])

    @property
    def n_strong(self) -> int:
        """Factors that are part of the structure."""
        return self.n_factors - self.n_weak


def row_priors(spec: Spec, posterior: Posterior) -> tuple[RowPrior, ...]:
    """N(f_iᵀ w̄, 1/⟨α⟩) for the factors and N(⟨μ⟩ + f_iᵀ c̄, σ²) for the biases of each entity set.

    Without covariates the first is N(0, 1/⟨α⟩), and both are the same for all rows. Points in a MAP fit.
    """
    precision, bias_precision = posterior.alpha.mean, 1.0 / posterior.bias.scale
    center = np.zeros_like(precision) if posterior.center is None else posterior.center
    mean = [center[e : e + 1] for e in range(len(center))]
    bias_mean = [posterior.bias.mean[None, layers] for layers in spec.layers]
    for design, q, _ in posterior.regressions:
        e, fitted = design.e, np.asarray(design.features @ q.mean)
        if design.layer is None:
            mean[e] = mean[e] + fitted
        else:
            bias_mean[e] = bias_mean[e] + fitted * (np.arange(bias_mean[e].shape[1]) == design.block)
    return tuple(
        RowPrior(mean[e], precision[e : e + 1], bias_mean[e], bias_precision[layers], spec.point)
        for e, layers in enumerate(spec.layers)
    )


def scales_of(scales: RelationScales | FittedScales, directed: NDArray[np.bool_]) -> Scales:
    """Return scales as engines and predictions take them; mates are met in directed relations only."""
    mates = np.where(directed[:, None], scales.mate, np.arange(len(scales.mate)))
    return Scales(scales.mean, scales.var, mates)


def given_of(spec: Spec, posterior: Posterior) -> Given:
    """What a sweep takes as fixed."""
    slopes = [kind.slope(p) for kind, p in zip(spec.likelihoods, posterior.parameters, strict=True)]
    scales = None if posterior.scales is None else scales_of(posterior.scales, spec.directed)
    given = Given(posterior.on, row_priors(spec, posterior), posterior.parameters, np.array(slopes), scales)
    noise = posterior.noise
    return given if noise is None else given._replace(noise=noise.half, floor=noise.floor)
