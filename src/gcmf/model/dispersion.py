"""Whether cells vary more around what was fitted than their likelihood allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.model.explained import most_cells, predictors, sample, weighed

if TYPE_CHECKING:
    from gcmf.data.collection import Collection
    from gcmf.engines.base import State
    from gcmf.model.draws import Draws
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

#: Squared residuals of counts that are as many times larger than expected are much too large,
TOO_LARGE = 1.5
#: unless their sum is within so many deviations of what is expected.
BY_CHANCE = 5.0


#: A noise of less than this share of a relation's variance is none.
NO_NOISE = 1e-6


def outweighed(spec: Spec, posterior: Posterior, data: Collection) -> dict[int, float]:
    """Mean weight of the cells, by relation, where it is above 1 and the cells are fitted without any noise.

    n cells of weight 2 are 2n cells of which any two agree to the last bit, which is best explained by factors that
    meet every cell.
    """
    found = {}
    for m, relation in enumerate(spec.schema.relations):
        mean = float(spec.n_cells[m]) / data.relations[relation.name].n_cells
        likelihood = spec.likelihoods[m]
        noise = likelihood.noise_variance(likelihood.settled(posterior.parameters[m], spec.parameter_prior))
        if mean > 1.0 and likelihood.standardized and noise < NO_NOISE:
            found[m] = mean
    return found


def overdispersed(
    spec: Spec, posterior: Posterior, state: State, data: Collection, draws: Draws | None = None
) -> dict[int, float]:
    """Σ (x − μ)² / Σ Var x on the training cells, by relation, where it is too large and the likelihood has a way out.

    Summed before they are divided: a rare count where next to none is expected would else outweigh all others. For
    Poisson cells (x − μ)² has variance μ + 2μ².
    """
    found = {}
    for m, likelihood in enumerate(spec.likelihoods):
        if not likelihood.if_overdispersed:
            continue
        p = likelihood.settled(posterior.parameters[m], spec.parameter_prior)
        squares, expected, chance = 0.0, 0.0, 0.0
        for (i, j, value), weight in sample(data.relations[spec.schema.relations[m].name].cells, most_cells(draws)):
            biases, parts = predictors(spec, posterior, state, m, (i, j), draws=draws)
            theta = biases + parts.sum(axis=1)
            certain = np.zeros_like(theta)
            variance = likelihood.variance(theta, certain, p)
            squares += float(weighed(weight, (value - likelihood.mean(theta, certain)) ** 2))
            expected += float(weighed(weight, variance))
            chance += float(weighed(weight**2, variance + 2.0 * variance**2))
        if squares > TOO_LARGE * expected and squares - expected > BY_CHANCE * np.sqrt(chance):
            found[m] = squares / expected
    return found
