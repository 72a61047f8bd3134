"""Posteriors and hyper-parameters away from every default, and the bound of any of them."""

from __future__ import annotations

import numpy as np

from gcmf.engines.base import State
from gcmf.engines.reference import ReferenceEngine
from gcmf.model.elbo import elbo
from gcmf.model.posterior import BiasPrior, Gamma, Posterior, hyper_of
from gcmf.model.spec import build


def build_problem(data, options):
    """The spec and the placed cells."""
    return build(data, options)


def random_pattern(spec, n_factors, rng):
    """Factors with holes: off in some entity sets."""
    on = rng.random((len(spec.sizes), n_factors)) < 0.7
    on[:, 0] = True
    return np.tile(on.any(axis=0), (len(on), 1)) if spec.common else on


def random_posterior(spec, on, rng, dtype="float64"):
    """Everything random, nothing at its default, zeros only where the model wants them."""
    point = 0.0 if spec.point else 1.0
    mean, var = [], []
    for e, d in enumerate(spec.sizes):
        seen = spec.observed[e][:, None] & on[e]
        mean.append(np.where(seen, 0.7 * rng.normal(size=(d, on.shape[1])), 0.0).astype(dtype))
        var.append(np.where(seen, point * rng.uniform(0.05, 0.4, (d, on.shape[1])), 0.0).astype(dtype))
    layers = [np.asarray(seen & biased) for seen, biased in zip(spec.in_layer, spec.biased, strict=True)]
    bias = [np.where(seen, 0.5 * rng.normal(size=len(seen)), 0.0).astype(dtype) for seen in layers]
    bias_var = [np.where(seen, point * rng.uniform(0.05, 0.4, len(seen)), 0.0).astype(dtype) for seen in layers]
    n_layers, biased = len(layers), np.array(spec.biased)
    alpha = Gamma(*(rng.uniform(0.5, 3.0, on.shape) for _ in range(2)))
    if spec.common:
        alpha = Gamma(*(np.tile(a[:1], (len(a), 1)) for a in (alpha.shape, alpha.rate)))
    unit = spec.unit_variance[:, None]
    alpha = Gamma(alpha.shape, np.where(unit, alpha.shape, alpha.rate))
    prior = BiasPrior(
        np.where(biased, rng.normal(size=n_layers), 0.0),
        np.where(biased, rng.uniform(0.1, 0.5, n_layers), 0.0),
        np.where(biased, rng.uniform(0.3, 2.0, n_layers), 1.0),
    )
    tau = Gamma(*(np.where(spec.gaussian, rng.uniform(0.5, 3.0, len(spec.ends)), 1.0) for _ in range(2)))
    return Posterior(State(mean, var, bias, bias_var), alpha, tau, prior, on.copy())


def bound_of(spec, problem, posterior):
    """The ELBO at any posterior, measured by the reference engine."""
    engine = ReferenceEngine(problem)
    engine.place(posterior.state)
    return elbo(spec, posterior, engine.measure(hyper_of(spec, posterior, None)))


def sweep(spec, problem, posterior, e):
    """One exact sweep of one entity set by the reference engine, on a copy."""
    after = posterior.copy()
    engine = ReferenceEngine(problem)
    engine.place(after.state)
    engine.sweep(e, hyper_of(spec, after, None))
    return after


def with_state(posterior, name, index, array):
    """The same posterior with one array of its state replaced."""
    state = posterior.state.copy()
    getattr(state, name)[index] = array
    return posterior._replace(state=state)
