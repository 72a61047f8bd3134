"""Samples: states and posteriors away from every default, what may be done with them, and their bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gcmf.engines.base import Problem, State
from gcmf.engines.reference import ReferenceEngine
from gcmf.gamma import Gamma
from gcmf.likelihoods import Likelihood
from gcmf.model.elbo import elbo
from gcmf.model.noise import start as start_noise
from gcmf.model.posterior import BiasPrior, Moments, Posterior, RelationScales, given_of
from gcmf.model.regression import Regression, precision_of, solve, told
from gcmf.model.spec import Spec, build
from gcmf.model.structure import carried


@dataclass(frozen=True)
class Sample:
    """All that a fit would know at one moment: the state, which an engine would hold, and the rest of the posterior."""

    spec: Spec
    problem: Problem
    state: State
    known: Posterior
    """Its moments may be out of date: tests write to the state."""

    @property
    def posterior(self):
        """The posterior with the moments of the state as it is now."""
        return told(self.placed() if self.known.regressions else None, self.known, Moments.of(self.state))

    @property
    def given(self):
        """What engines take as fixed here."""
        return given_of(self.spec, self.known)

    def placed(self, engine=None):
        """An engine, the reference if none is given, that holds a copy of the state."""
        engine = ReferenceEngine(self.problem) if engine is None else engine
        engine.place(self.state.copy())
        return engine

    def measured(self):
        """Summed values per relation, by the reference engine."""
        return self.placed().measure(self.given)

    def bound(self):
        """The ELBO, by the reference engine."""
        return elbo(self.spec, self.posterior, self.measured())

    def with_state(self, name, index, array):
        """The same with one array of the state replaced."""
        state = self.state.copy()
        getattr(state, name)[index] = array
        return replace(self, state=state)

    def knowing(self, **changes):
        """The same state with another posterior."""
        return replace(self, known=self.known._replace(**changes))

    def updated(self, update, *args, **options):
        """The same state after a closed-form update of something else."""
        return replace(self, known=update(self.spec, self.posterior, *args, **options))

    def swept(self, e):
        """After one exact sweep of one entity set by the reference engine."""
        engine = self.placed()
        engine.sweep(e, self.given)
        return replace(self, state=engine.fetch())

    def moved(self, move, *args, **options):
        """After a move (engine, posterior, ...) → posterior, which knows the moments of the new state."""
        engine = self.placed()
        known = move(engine, self.posterior, *args, **options)
        after = replace(self, state=engine.fetch(), known=known)
        for said, summed in zip(known.moments, after.posterior.moments, strict=True):
            # Nobody looks at the sums of a factor where it is off.
            counts = known.on if said.ndim == 2 else slice(None)
            np.testing.assert_allclose(said[counts], summed[counts], rtol=1e-9, atol=1e-9)
        return after


def random_pattern(spec, n_factors, rng):
    """Factors with holes: off in some entity sets."""
    on = rng.random((len(spec.sizes), n_factors)) < 0.7
    on[:, 0] = True
    return np.tile(on.any(axis=0), (len(on), 1)) if spec.common else on


def random_sample(data, options, rng, on=None):
    """Everything random, nothing at its default, zeros only where the model wants them.

    `on` is a pattern of factors, or a function (spec, n_factors, rng) that makes one; without it all of them are on.
    """
    spec, problem = build(data, options)
    if on is None:
        on = np.ones((len(spec.sizes), options.n_factors), dtype=bool)
    elif callable(on):
        on = on(spec, options.n_factors, rng)
    state = random_state(spec, on, rng, options.dtype)
    return Sample(spec, problem, state, random_posterior(spec, on, rng, Moments.of(state)))


def random_state(spec, on, rng, dtype):
    """Means and variances, the latter zero in a MAP fit."""
    point = 0.0 if spec.point else 1.0
    mean, var = [], []
    for e, d in enumerate(spec.sizes):
        seen = spec.observed[e][:, None] & on[e]
        mean.append(np.where(seen, 0.7 * rng.normal(size=(d, on.shape[1])), 0.0).astype(dtype))
        var.append(np.where(seen, point * rng.uniform(0.05, 0.4, (d, on.shape[1])), 0.0).astype(dtype))
    layers = [np.asarray(seen & biased) for seen, biased in zip(spec.in_layer, spec.biased, strict=True)]
    bias = [np.where(seen, 0.5 * rng.normal(size=len(seen)), 0.0).astype(dtype) for seen in layers]
    bias_var = [np.where(seen, point * rng.uniform(0.05, 0.4, len(seen)), 0.0).astype(dtype) for seen in layers]
    if start_noise(spec.noise_cells, spec.n_cells) is None:
        return State(mean, var, bias, bias_var)
    noisy = [np.zeros(len(seen)) if n is None else n for n, seen in zip(spec.noise_cells, spec.in_layer, strict=True)]
    precision = [np.where(n > 0, rng.uniform(0.3, 3.0, len(n)), 1.0) for n in noisy]
    return State(mean, var, bias, bias_var, precision)


def random_posterior(spec, on, rng, moments):
    """Precisions, bias priors and the parameters that likelihoods learn."""
    n_layers, biased = len(spec.biased), spec.has_bias
    alpha = Gamma(*(rng.uniform(0.5, 3.0, on.shape) for _ in range(2)))
    if spec.common:
        alpha = Gamma(*(np.tile(a[:1], (len(a), 1)) for a in (alpha.shape, alpha.rate)))
    alpha = Gamma(alpha.shape, np.where(spec.unit_variance[:, None], alpha.shape, alpha.rate))
    prior = BiasPrior(
        np.where(biased, rng.normal(size=n_layers), 0.0),
        np.where(biased, rng.uniform(0.1, 0.5, n_layers), 0.0),
        np.where(biased, rng.uniform(0.3, 2.0, n_layers), 1.0),
    )
    parameters = tuple(
        random_parameters(likelihood, float(largest), float(n), spec.parameter_prior, rng)
        for likelihood, largest, n in zip(spec.likelihoods, spec.largest, spec.n_cells, strict=True)
    )
    alpha_prior = Gamma(spec.alpha_prior, np.full_like(spec.alpha_prior, spec.priors.alpha_rate))
    scales = random_scales(spec, on, rng) if spec.scaled else None
    noise = start_noise(spec.noise_cells, spec.n_cells)
    if noise is not None:
        noise = noise._replace(half=noise.half * rng.uniform(0.3, 3.0, n_layers))
    known = Posterior(alpha, alpha_prior, parameters, prior, on.copy(), moments, scales=scales, noise=noise)
    return known._replace(regressions=tuple(random_regression(spec, known, design, rng) for design in spec.designs))


def random_scales(spec, on, rng):
    """Scales of relations, of which some do not see factors that their sets hold."""
    mate = np.arange(on.shape[1])
    if spec.directed.any() and len(mate) > 2:
        mate[[0, 2]] = 2, 0
    seen = carried(spec, on, mate) & ((rng.random((len(spec.ends), on.shape[1])) < 0.8) | spec.common)
    mean, var = rng.normal(size=seen.shape), rng.uniform(0.05, 0.4, seen.shape) * (not spec.point)
    beta = Gamma(*(rng.uniform(0.5, 3.0, seen.shape) for _ in range(2)))
    return RelationScales(np.where(seen, mean, 0.0), np.where(seen, var, 0.0), beta, seen, mate, spec.itself)


def random_regression(spec, known, design, rng):
    """Coefficients of any size, with the covariance that belongs to the precisions; products are yet to be told."""
    on = known.on[design.e] if design.layer is None else np.ones(1, dtype=bool)
    products = rng.normal(size=(len(design.group), len(on)))
    scales = rng.uniform(0.2, 2.0, len(design.sizes)), rng.uniform(0.2, 2.0, len(on)) * on
    precision = precision_of(known, design)
    q = solve(design, precision, scales, products, np.zeros_like(products), point=spec.point)
    return Regression(design, q, products)


def random_parameters(likelihood, largest, n, prior, rng):
    """Parameters with which a relation starts; where they are learned, each of them times something."""
    p = likelihood.start(largest, n, prior)
    if likelihood.searched:
        return likelihood.moved(p, rng.uniform(-2.0, 2.0))
    return p * rng.uniform(0.5, 2.0, len(p)) if learns(likelihood) else p


def learns(likelihood):
    """Whether a likelihood has parameters of its own to learn."""
    return type(likelihood).learn is not Likelihood.learn
