"""The bound equals its definition, E log p(x, θ) − E log q(θ), by sampling from q."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from gcmf import Collection
from gcmf.gamma import Gamma
from gcmf.model.columns import PRICE
from gcmf.model.elbo import terms
from gcmf.model.hyper import BIAS_SCALE_RATE
from gcmf.model.regression import precision_of
from gcmf.model.structure import carried
from gcmf.options import FitOptions
from helpers import random_sample
from strategies import network, relation
from toys import CELL, GAUSSIAN, HYBRID, JAAKKOLA, LOGISTIC, PAPER, PROPER, VAGUE, toy

N = 50_000


def log_normal(x, mean, var):
    return -0.5 * (np.log(2 * np.pi * var) + (x - mean) ** 2 / var)


def log_gamma(x, shape, rate):
    return shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x


def quadratic_bound(likelihood, x, m, v, p):
    """(w, z, c) as in the table of bounds, not as the library computes them."""
    s, sig = np.logaddexp(0, m), 1 / (1 + np.exp(-m))
    xi = np.sqrt(m**2 + v)
    L, h = np.tanh(xi / 2) / (4 * xi), 0.1670957
    cosh = np.logaddexp(xi / 2, -xi / 2)
    if likelihood == JAAKKOLA:
        w = 2 * L
        z = (x - 0.5) / w
        return w, z, -cosh + L * xi**2 + w * z**2 / 2
    if likelihood == HYBRID:
        w, g = 2 * L + h * x, sig / s
        z = (-0.5 + x * g + h * x * m) / w
        c = -cosh + L * xi**2 + x * np.log(s) - x * g * m - h * x * m**2 / 2 + w * z**2 / 2 - gammaln(x + 1)
        return w, z, c
    if likelihood == LOGISTIC:
        f, slope, kappa = s - x * m, sig - x, np.full_like(x, 0.25)
    else:
        f, slope = s - x * np.log(s) + gammaln(x + 1), sig * (1 - x / s)
        kappa = np.full_like(x, p[0]) if likelihood == PAPER else 0.25 + h * x
    return kappa, m - slope / kappa, -f + slope**2 / (2 * kappa)


def draw(sample, rng):
    """Draws of log p(x, θ) − log q(θ), (N,)."""
    spec, posterior, s = sample.spec, sample.known, sample.state
    total, unit = np.zeros(N), spec.unit_variance
    alpha = np.where(unit[:, None], 1.0, 0.0) + np.zeros((N, *posterior.on.shape))
    prior = spec.priors
    for e, k in zip(*np.nonzero(posterior.on), strict=True):
        if unit[e]:
            continue
        if spec.common and e > 0:
            alpha[:, e, k] = alpha[:, 0, k]
            continue
        a, b = posterior.alpha.shape[e, k], posterior.alpha.rate[e, k]
        alpha[:, e, k] = rng.gamma(a, 1 / b, N)
        total += log_gamma(alpha[:, e, k], prior.alpha_shape, prior.alpha_rate) - log_gamma(alpha[:, e, k], a, b)
    factors, expected = [], [_draw_prior_means(sample, regression, rng, total) for regression in posterior.regressions]
    for e, d in enumerate(spec.sizes):
        u = np.zeros((N, d, posterior.on.shape[1]))
        seen = spec.observed[e][:, None] & posterior.on[e]
        mean, var = s.mean[e][seen], s.var[e][seen]
        u[:, seen] = mean + np.sqrt(var) * rng.normal(size=(N, len(mean)))
        precision = np.broadcast_to(alpha[:, e][:, None, :], u.shape)[:, seen]
        center = sum((w for r, w in zip(posterior.regressions, expected, strict=True)
                      if r.design.e == e and r.design.layer is None), np.zeros((1, *seen.shape)))  # fmt: skip
        center = np.broadcast_to(center, u.shape)[:, seen]
        total += (log_normal(u[:, seen], center, 1 / precision) - log_normal(u[:, seen], mean, var)).sum(axis=1)
        factors.append(u)
    told = {r.design.layer: w[:, :, 0] for r, w in zip(posterior.regressions, expected, strict=True)}
    biases = [_draw_bias(sample, layer, told.get(layer), rng, total) for layer in range(len(spec.biased))]
    scales = _draw_scales(sample, rng, total)
    for e, blocks in enumerate(sample.problem.blocks):
        for b, block in enumerate(blocks):
            if block.side == 0:
                theirs = factors[block.other]
                if sample.known.scales is not None and sample.spec.directed[block.relation]:
                    theirs = theirs[..., sample.known.scales.mate]
                pair = factors[e], theirs * scales[:, None, block.relation]
                _add_cells(sample, (e, b), pair, biases, rng, total)
    return total


def _draw_scales(sample, rng, total):
    """Draws of d of each relation and factor, one where there are none, (N, M, K)."""
    scales, prior = sample.known.scales, sample.spec.priors
    if scales is None:
        return np.ones((N, len(sample.spec.ends), 1))
    d = np.zeros((N, *scales.on.shape))
    for m, k in zip(*np.nonzero(scales.on), strict=True):
        a, b = scales.beta.shape[m, k], scales.beta.rate[m, k]
        beta = rng.gamma(a, 1 / b, N)
        total += log_gamma(beta, prior.alpha_shape, prior.alpha_rate) - log_gamma(beta, a, b)
        mean, var = scales.mean[m, k], scales.var[m, k]
        d[:, m, k] = mean + np.sqrt(var) * rng.normal(size=N)
        total += log_normal(d[:, m, k], 0.0, 1 / beta) - log_normal(d[:, m, k], mean, var)
    return d


def _draw_prior_means(sample, regression, rng, total):
    """F w of every entity, (N, d, T), for draws of the coefficients."""
    (design, q, _), precision = regression, precision_of(sample.known, regression.design)
    F = design.features.toarray() if design.gram is None else design.features
    w = np.zeros((N, *q.mean.shape))
    for t in np.flatnonzero(q.by_target):
        v = (q.by_column * q.by_target[t])[design.group]
        C = np.diag(q.var[:, t])
        if design.gram is not None:
            C = np.linalg.inv(precision[t] * F[design.seen].T @ F[design.seen] + np.diag(1 / v))
        z = rng.normal(size=(N, len(v)))
        w[:, :, t] = q.mean[:, t] + z @ np.linalg.cholesky(C).T
        total += log_normal(w[:, :, t], 0.0, v).sum(axis=1)
        total += 0.5 * ((z**2).sum(axis=1) + np.linalg.slogdet(2 * np.pi * C)[1])
    return np.einsum("ip,npt->nit", F, w, optimize=True)


def _draw_bias(sample, layer, expected, rng, total):
    spec, bias, s = sample.spec, sample.known.bias, sample.state
    seen = spec.in_layer[layer]
    b = np.zeros((N, len(seen)))
    if spec.biased[layer]:
        mu = bias.mean[layer] + np.sqrt(bias.var[layer]) * rng.normal(size=N)
        mean, var = s.bias_mean[layer][seen], s.bias_var[layer][seen]
        b[:, seen] = mean + np.sqrt(var) * rng.normal(size=(N, seen.sum()))
        total += log_normal(mu, 0.0, 1.0) - log_normal(mu, bias.mean[layer], bias.var[layer])
        total -= BIAS_SCALE_RATE * bias.scale[layer]
        center = mu[:, None] + (0.0 if expected is None else expected[:, seen])
        total += (log_normal(b[:, seen], center, bias.scale[layer]) - log_normal(b[:, seen], mean, var)).sum(axis=1)
    return b


def _add_cells(sample, place, factors, biases, rng, total):
    """Add log p(x|θ, τ) for Gaussian cells, its quadratic bound for the others."""
    e, number = place
    block, engine = sample.problem.blocks[e][number], sample.placed()
    p, prior, tau = sample.known.parameters[block.relation], sample.spec.priors, None
    if block.likelihood == GAUSSIAN:
        shape, rate = p
        tau = rng.gamma(shape, 1 / rate, N)
        total += log_gamma(tau, prior.tau_shape, prior.tau_rate) - log_gamma(tau, shape, rate)
    for i, (j, x, _) in enumerate(engine._cells[e][number]):
        if len(j) == 0:
            continue
        if block.symmetric:
            j, x = j[j > i], x[j > i]  # noqa: PLW2901 - each cell is listed from either end
        theta = np.einsum("nk,njk->nj", factors[0][:, i], factors[1][:, j])
        theta += biases[block.layer][:, i, None] + biases[block.other_layer][:, j] + block.offset
        if tau is not None:
            total += log_normal(x, theta, 1 / tau[:, None]).sum(axis=1)
            continue
        w, z, c = quadratic_bound(block.likelihood, x, *engine._moments(e, i, block, j, sample.given), p)
        total += (c - w / 2 * (z - theta) ** 2).sum(axis=1)


def left_out(spec, posterior):
    """What `elbo` leaves out (the level of each pair that is on) and what it adds (the log prior of the pattern)."""
    level, on, scales = spec.off_level, posterior.on, posterior.scales
    constant = level[0] * on.any(axis=0).sum() if spec.common else (level[:, None] * on).sum()
    seen = carried(spec, on) if scales is None else scales.on
    constant += 0.0 if scales is None else spec.scale_off_level * seen.sum()
    pattern = -0.5 * (np.log(spec.n_cells)[:, None] * seen).sum()
    # Every source column has a price, for factors and for the biases of each relation.
    pattern -= PRICE * sum(len(design.sizes) for design in spec.designs)
    return constant - (pattern if spec.priors.vague else 0.0)


HOLES = np.array([[True, True, False], [True, False, True], [True, True, True]])
CASES = {
    "proper": ((GAUSSIAN, JAAKKOLA, HYBRID), {"priors": PROPER}),
    "vague": ((GAUSSIAN, LOGISTIC, CELL), {"priors": VAGUE}),
    "vague with holes": ((GAUSSIAN, JAAKKOLA, PAPER), {"priors": VAGUE, "on": HOLES}),
    "common": ((GAUSSIAN, JAAKKOLA, HYBRID), {"priors": PROPER, "sharing": "common"}),
    "common vague": ((GAUSSIAN, GAUSSIAN, PAPER), {"priors": VAGUE, "sharing": "common"}),
    "one-sided biases": ((GAUSSIAN, JAAKKOLA, GAUSSIAN), {"priors": PROPER, "bias": {"r0": "rows", "r1": False}}),
    "covariates": ((GAUSSIAN, JAAKKOLA, HYBRID), {"priors": PROPER, "known": True}),
    "covariates, vague with holes": ((GAUSSIAN, LOGISTIC, CELL), {"priors": VAGUE, "on": HOLES, "known": True}),
    "covariates, common": ((GAUSSIAN, GAUSSIAN, HYBRID), {"priors": PROPER, "sharing": "common", "known": True}),
    "unit variance": ((GAUSSIAN, GAUSSIAN, HYBRID), {"priors": VAGUE, "unit_variance": ("b",)}),
}


@pytest.mark.parametrize("scaled", [False, True], ids=["", "scaled"])
@pytest.mark.parametrize("case", CASES)
def test_matches_a_monte_carlo_estimate(case, scaled):
    kinds, options = CASES[case]
    sample = toy(kinds, relation_scales=scaled, **options)
    assert (sample.known.scales is not None) == scaled
    draws = draw(sample, np.random.default_rng(5))
    error = draws.std() / np.sqrt(N)
    exact = sample.bound() + left_out(sample.spec, sample.known)
    assert error < 0.2, "the estimate must be sharp enough to tell a missing term"
    assert abs(exact - draws.mean()) < 4 * error


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "directed"])
@pytest.mark.parametrize("likelihood", [GAUSSIAN, JAAKKOLA], ids=repr)
def test_relations_of_a_set_with_itself_match_a_monte_carlo_estimate(likelihood, symmetric):
    rng = np.random.default_rng(3)
    made = [
        network("a", 6, rng, symmetric=symmetric, likelihood=likelihood, layout="listed", missing=0.3),
        relation("r", ("a", "b"), (6, 3), likelihood=GAUSSIAN, layout="listed", missing=0.2, rng=rng),
    ]
    sample = random_sample(Collection(made), FitOptions(n_factors=3, dtype="float64", priors=PROPER), rng)
    draws = draw(sample, np.random.default_rng(5))
    error = draws.std() / np.sqrt(N)
    assert error < 0.2
    assert abs(sample.bound() + left_out(sample.spec, sample.known) - draws.mean()) < 4 * error


def test_divergence_of_a_gamma():
    q, (a0, b0) = Gamma(np.array([2.5]), np.array([1.7])), (1.3, 0.4)
    x = np.random.default_rng(0).gamma(2.5, 1 / 1.7, 10**6)
    draws = log_gamma(x, a0, b0) - log_gamma(x, 2.5, 1.7)
    np.testing.assert_allclose(q.divergence(a0, b0)[0], draws.mean(), atol=5e-3)
    assert Gamma(np.array([a0]), np.array([b0])).divergence(a0, b0)[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scaled", [False, True], ids=["", "scaled"])
def test_terms_of_a_map_fit_are_the_log_joint_density(scaled):
    sample = toy((GAUSSIAN, JAAKKOLA, HYBRID), priors=PROPER, inference="map", relation_scales=scaled)
    spec, posterior, s = sample.spec, sample.known, sample.state
    prior, alpha = spec.priors, posterior.alpha.mean
    expected = log_gamma(alpha, prior.alpha_shape, prior.alpha_rate).sum()
    for e in range(3):
        expected += log_normal(s.mean[e][spec.observed[e]], 0.0, 1 / alpha[e]).sum()
    for layer, seen in enumerate(spec.in_layer):
        mu = posterior.bias.mean[layer]
        expected += log_normal(s.bias_mean[layer][seen], mu, posterior.bias.scale[layer]).sum()
        # Normalised up to the constant of p(μ), which no fit can change.
        expected += -0.5 * mu**2
    if scaled:
        expected += log_normal(posterior.scales.mean[posterior.scales.on], 0.0, 1.0).sum()
    engine = sample.placed()
    for e, blocks in enumerate(sample.problem.blocks):
        for b, block in enumerate(blocks):
            for i, (j, x, _) in enumerate(engine._cells[e][b] if block.side == 0 else ()):
                theta, _ = engine._moments(e, i, block, j, sample.given)
                if block.likelihood == GAUSSIAN:
                    shape, rate = posterior.parameters[block.relation]
                    expected += log_normal(x, theta, rate / shape).sum()
                elif block.likelihood.name == "bernoulli":
                    expected += (x * theta - np.logaddexp(0, theta)).sum()
                else:
                    rate = np.logaddexp(0, theta)
                    expected += (x * np.log(rate) - rate - gammaln(x + 1)).sum()
    shape, rate = posterior.parameters[0]
    expected += log_gamma(shape / rate, prior.tau_shape, prior.tau_rate)
    assert sample.bound() == pytest.approx(expected, rel=1e-12)


def test_terms_are_named_and_add_up():
    sample = toy((GAUSSIAN, JAAKKOLA, HYBRID), priors=VAGUE)
    parts = terms(sample.spec, sample.posterior, sample.measured())
    assert set(parts) == {"cells", "parameters", "factors", "biases", "scales", "noise", "pattern", "coefficients"}
    assert sum(parts.values()) == pytest.approx(sample.bound())
    assert parts["pattern"] == pytest.approx(-0.5 * 3 * np.log(sample.spec.n_cells).sum())
