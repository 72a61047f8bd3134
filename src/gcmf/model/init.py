"""Where a fit starts: random factors, α of the same scale, biases at zero (the offset holds the intercept)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.base import State
from gcmf.gamma import Gamma
from gcmf.model.posterior import BiasPrior, Moments, Posterior
from gcmf.model.regression import added, begin

if TYPE_CHECKING:
    from gcmf.model.spec import Spec


def start(spec: Spec, on: np.ndarray, *, dtype: str, rng: np.random.Generator) -> tuple[State, Posterior]:
    """Entries of U ~ N(0, K^-1/2), so that each predictor has about unit variance.

    ⟨α⟩ starts at the precision of those entries and is held there for a while by the driver, so that no factor
    is switched off before it was tried; flatter priors let K factors fit the noise first (measured on
    MovieLens 1M: 0.886 instead of 0.855 after five sweeps), much tighter ones fall into the all-off optimum.
    """
    n_factors = on.shape[1]
    size = n_factors**-0.25
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
    state = State(mean, var, bias_mean, bias_var)
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
        regressions=regressions,
    )
