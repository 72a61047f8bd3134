"""Where a fit starts: random factors, α of the same scale, biases at zero (the offset holds the intercept)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.base import State
from gcmf.gamma import Gamma
from gcmf.model.noise import start as start_noise
from gcmf.model.posterior import BiasPrior, Moments, Posterior, RelationScales
from gcmf.model.regression import added, begin
from gcmf.model.structure import carried

if TYPE_CHECKING:
    from gcmf.model.spec import Spec

#: Variance that scales start with; their size is 1.
SCALE_VAR = 0.01


def start(
    spec: Spec, on: np.ndarray, *, dtype: str, rng: np.random.Generator, reach: np.ndarray | None = None
) -> tuple[State, Posterior]:
    """Entries of U ~ N(0, K^-1/2), so that each predictor has about unit variance.

    ⟨α⟩ starts at the precision of those entries and is held there for a while by the driver, so that no factor
    is switched off before it was tried; flatter priors let K factors fit the noise first (measured on
    MovieLens 1M: 0.886 instead of 0.855 after five sweeps), much tighter ones fall into the all-off optimum. `reach`
    says which relations see each factor, (M, K); without it, those whose sets hold it.
    """
    n_factors = on.shape[1]
    size = max(n_factors, 1) ** -0.25
    mean, var = [], []
    for e, d in enumerate(spec.sizes):
        seen = spec.observed[e][:, None] & on[e]
        mean.append(np.where(seen, size * rng.standard_normal((d, n_factors)), 0.0).astype(dtype))
        var.append(np.where(seen, 0.0 if spec.point else 0.01 * size**2, 0.0).astype(dtype))
    bias_mean, bias_var = [], []
    for layer in range(len(spec.biased)):
        d = spec.sizes[spec.ends[layer // 2][layer % 2]]
        bias_mean.append(np.zeros(d, dtype))
        bias_var.append(np.zeros(d, dtype))
    alpha_shape = spec.priors.alpha_shape + np.repeat(spec.n_entities[:, None], n_factors, axis=1) / 2.0
    if spec.common:
        alpha_shape = np.broadcast_to(alpha_shape.sum(axis=0), alpha_shape.shape).copy()
    target = np.where(spec.unit_variance[:, None], 1.0, size**-2.0)
    layers = np.zeros(len(spec.biased))
    noise = start_noise(spec.noise_cells, spec.n_cells)
    precision = [] if noise is None else [np.ones(len(array)) for array in bias_mean]
    state = State(mean, var, bias_mean, bias_var, precision)
    alpha = Gamma(alpha_shape, alpha_shape / target)
    regressions = tuple(
        begin(design, alpha.mean[design.e], on[design.e], point=spec.point) if design.layer is None
        else begin(design, np.ones(1), np.ones(1, bool), point=spec.point)
        for design in spec.designs
    )  # fmt: skip
    moments = Moments.of(state)
    for one in regressions:
        moments = added(moments, one, 1.0)
    return state, Posterior(
        alpha=alpha,
        alpha_prior=Gamma(spec.alpha_prior, np.full_like(spec.alpha_prior, spec.priors.alpha_rate)),
        parameters=tuple(
            likelihood.start(largest, n, spec.parameter_prior)
            for likelihood, largest, n in zip(spec.likelihoods, spec.largest, spec.n_cells, strict=True)
        ),
        bias=BiasPrior(layers, layers + 1.0 / (1.0 + spec.n_bias), layers + 1.0),
        on=on.copy(),
        moments=moments,
        scales=_scales(spec, on, carried(spec, on) if reach is None else reach, rng) if spec.scaled else None,
        regressions=regressions,
        noise=noise,
    )


def _mates(spec: Spec, on: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Where there are directed relations, two of every four factors are mates, if they are seen alike, (K,)."""
    mate = np.arange(on.shape[1])
    for k in range(0, len(mate) - 1, 4) if spec.directed.any() else ():
        if (
            (on[:, k] == on[:, k + 1]).all()
            and (reach[:, k] == reach[:, k + 1]).all()
            and reach[spec.directed, k].any()
        ):
            mate[[k, k + 1]] = k + 1, k
    return mate


def _scales(spec: Spec, held: np.ndarray, on: np.ndarray, rng: np.random.Generator) -> RelationScales:
    """Sizes of one; signs are random in repeated relations and in those of a set with itself.

    There the data of two signs could cancel, and no factor would be left to change its own. In cycles a sign that is
    wrong costs more than it helps: factors of two kinds could not be turned.
    """
    pairs = [frozenset(pair) for pair in spec.ends]
    doubtful = np.array([len(pair) == 1 or pair in pairs[:m] for m, pair in enumerate(pairs)])
    signs = np.where(doubtful[:, None], rng.choice([-1.0, 1.0], on.shape), 1.0)
    shape = np.full(on.shape, spec.priors.alpha_shape + 0.5)
    var = np.where(on, 0.0 if spec.point else SCALE_VAR, 0.0)
    mate = _mates(spec, held, on)
    return RelationScales(np.where(on, signs, 0.0), var, Gamma(shape, shape.copy()), on.copy(), mate, spec.itself)
