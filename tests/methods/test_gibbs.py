"""Draws are of the posterior: rows have their conditionals, and chains that start from the prior stay there."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import gcmf
from fuzz.joint import BIAS, CASES, Case, draw_cells, draw_prior, far_twice
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.methods.gibbs import Chain
from gcmf.model import conditionals
from gcmf.model.centers import expected_sizes, shift_centers
from gcmf.model.diagnostics import effective_size, r_hat
from gcmf.model.posterior import Moments, given_of
from gcmf.model.regression import told
from gcmf.model.spec import build
from gcmf.options import FitOptions

CPU = partial(CpuEngine, dtype="float64", n_threads=1)
#: Two draws of each case that differ by chance are this many standard errors apart once in 10⁵ times.
FAR = 4.4


def prepared(case, make_engine, seed=0):
    """An engine at a draw from the prior, with cells that go with it."""
    rng = np.random.default_rng(seed)
    plain, _ = case.build(rng)
    posterior, state = draw_prior(case, plain, rng)
    spec, problem = case.build(rng, draw_cells(plain, posterior, state, rng))
    regressions = tuple(r._replace(design=d) for r, d in zip(posterior.regressions, spec.designs, strict=True))
    posterior = posterior._replace(regressions=regressions)
    engine = make_engine(problem)
    engine.place(state.copy())
    return spec, engine, posterior, state


STAYING = [
    "covariates", "poisson", "network", "patterns", "scales", "scales of counts", "negative binomial", "rare ones",
    "rare ones, patterns", "rare ones, scales",
]  # fmt: skip


@pytest.mark.parametrize("name", STAYING)
def test_chains_from_the_prior_stay_there(name):
    assert not far_twice(CASES[name], CPU, n=100, sweeps=3, far=FAR)


def test_a_wrong_conditional_is_seen(monkeypatch):
    """α with half an entity too many per entity: the test above can fail."""
    right = conditionals.draw_alpha
    monkeypatch.setattr(
        conditionals, "draw_alpha", lambda spec, *rest: right(replace(spec, n_entities=1.5 * spec.n_entities), *rest)
    )
    assert far_twice(CASES["gaussian"], CPU, n=50, sweeps=3, far=FAR)


@pytest.mark.parametrize("offset", [0.3, -3.5])
def test_the_reference_engine_stays_too(offset):
    case = Case((("a", "b", "poisson"), ("b", "c", "bernoulli"), ("a", "c", "gaussian")), offset=offset)
    assert not far_twice(case, ReferenceEngine, n=40, sweeps=2, far=FAR)


def test_rows_with_rare_ones_soon_forget_where_they_were():
    """Of 0.5% ones, drawn given weights in every sweep, a tenth of the cells have 20 effective draws of 250."""
    rng = np.random.default_rng(0)
    theta = -5.5 + rng.normal(size=(30, 1)) + 0.5 * rng.normal(size=300)
    x = (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
    data = gcmf.Collection([gcmf.Relation("x", "a", "b", x, "bernoulli")])
    spec, problem = build(data, FitOptions(n_factors=1, priors={"alpha_shape": 1e-10, "alpha_rate": 1e-10}))
    spec = replace(spec, point=True)
    posterior, state = draw_prior(Case((("a", "b", "bernoulli"),), n_factors=1), spec, rng)
    engine = CPU(problem)
    engine.place(state.copy())
    first = told(engine, posterior._replace(center=None), Moments.of(state))
    chain = Chain(spec, engine, first, conditionals.Hyper(BIAS, None, None, (), patterns=False), seed=0)
    draws = []
    for _ in range(300):
        chain.sweep()
        s = chain.fetch()
        draws.append((s.mean[0] @ s.mean[1].T + s.bias_mean[0][:, None] + s.bias_mean[1])[:, ::10].ravel())
    assert np.quantile(effective_size(np.array(draws)[None, 50:]), 0.1) > 45


@pytest.mark.parametrize("name", ["gaussian", "covariates", "network"])
def test_rows_have_the_normal_that_their_system_says(name):
    """Means and covariances of many draws of the first set, against A⁻¹h and A⁻¹ of the reference; Gaussian cells."""
    case = replace(CASES[name], relations=tuple((r, c, "gaussian") for r, c, _ in CASES[name].relations))
    spec, engine, posterior, state = prepared(case, CPU)
    _, reference, _, _ = prepared(case, ReferenceEngine)
    given = given_of(spec, posterior)
    # Of rows that depend on each other, the first to be drawn is looked at.
    A, h, seen = reference._system(
        0, 0, given, [reference._form(0, 0, b, given) for b in range(len(reference._cells[0]))]
    )
    mean, cov = np.linalg.solve(A, h), np.linalg.inv(A)
    layers = [block.layer for block in reference._problem.blocks[0]]
    draws = []
    for key in range(3000):
        engine.place(state.copy())
        engine.sweep(0, given._replace(key=key))
        found = engine.fetch()
        draws.append(np.concatenate([found.mean[0][0], [found.bias_mean[layer][0] for layer in layers]]))
    away = (np.array(draws) - mean)[:, seen] @ np.linalg.cholesky(A[np.ix_(seen, seen)])
    assert np.abs(away.mean(axis=0)).max() < FAR / np.sqrt(3000)
    assert np.abs(np.cov(away.T) - np.eye(seen.sum())).max() < FAR * np.sqrt(2.0 / 3000)
    assert cov.shape[0] == len(mean)


@pytest.mark.parametrize("name", ["gaussian", "covariates"])
def test_engines_agree_on_what_rows_lean_to(name):
    case = replace(CASES[name], relations=tuple((r, c, "gaussian") for r, c, _ in CASES[name].relations))
    found = []
    for make in (CPU, ReferenceEngine):
        spec, engine, posterior, _ = prepared(case, make)
        given = given_of(spec, posterior)
        found.append([engine.lean(e, k, given) for e in range(3) for k in range(2)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-9)
    assert max(np.abs(a).max() for a in found[0]) > 0.1


def test_diagnostics_of_chains_that_are_known():
    rng = np.random.default_rng(0)
    white = rng.standard_normal((4, 500, 20))
    slow = np.zeros_like(white)
    for n in range(1, 500):
        slow[:, n] = 0.9 * slow[:, n - 1] + white[:, n]
    assert np.median(effective_size(white)) == pytest.approx(2000, rel=0.15)
    # (1 − 0.9)/(1 + 0.9) of them
    assert np.median(effective_size(slow)) == pytest.approx(2000 / 19, rel=0.3)
    assert r_hat(white).max() < 1.02
    assert r_hat(white + 2.0 * np.arange(4)[:, None, None]).min() > 1.5
    # Halves of the same place and other widths, a few draws far out, and halves that never move.
    wider = white * np.array([1.0, 1.0, 3.0, 3.0])[:, None, None]
    assert r_hat(wider).min() > 1.1
    shifted = white + 2.0 * np.arange(4)[:, None, None]
    shifted[0, 0] = 1e6
    assert r_hat(shifted).min() > 1.5
    assert r_hat(np.repeat([[[0.0]], [[1.0]]], 20, axis=1)).item() > 10.0
    assert r_hat(np.zeros((2, 20, 1))).item() == 1.0
    # Of fewer than eight draws nothing can be said.
    assert not effective_size(white[:, :7]).any()
    assert not r_hat(white[:, :7]).any()


def test_scales_that_have_died_are_drawn():
    """d² of a scale of 1e-160 is zero, and so is all that cells say of it."""
    spec, engine, posterior, state = prepared(CASES["scales"], CPU)
    mean = posterior.scales.mean.copy()
    mean[0, 0], mean[2] = 1e-160, 1e-160
    dead = posterior._replace(scales=posterior.scales._replace(mean=mean))
    spec, first, start, hyper = conditionals.begin(spec, told(engine, dead, Moments.of(state)), state)
    engine.place(start)
    chain = Chain(spec, engine, first, hyper, seed=0)
    for _ in range(5):
        chain.sweep()
    assert np.isfinite(chain.log_joint)
    assert np.abs(chain.posterior.scales.mean).min() > 1e-12


def test_draws_of_a_system_that_rounding_has_spoilt():
    """Two columns that are the same, and no prior to tell them apart: what they say together is drawn all the same."""
    A = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]])
    drawn = [conditionals._drawn(A, np.ones(2), np.random.default_rng(seed)) for seed in range(200)]
    assert np.isfinite(drawn).all()


def test_shifts_of_centers_leave_predictors_alone():
    """Factors move with their centers, and biases take it back: in all relations, also with scales."""
    spec, engine, posterior, state = prepared(CASES["scales"], CPU)
    variance = np.where(expected_sizes(spec, posterior) > 0.0, 0.5, 0.0)
    assert variance.all()
    moved = shift_centers(spec, engine, posterior, variance, np.random.default_rng(0))
    after, d = engine.fetch(), posterior.scales.mean
    assert np.abs(moved.center - posterior.center).min() > 1e-3
    for e in range(3):
        np.testing.assert_allclose(after.mean[e] - moved.center[e], state.mean[e] - posterior.center[e])
    for m, (r, c) in enumerate(spec.ends):
        before, now = (
            (s.mean[r] * d[m]) @ s.mean[c].T + s.bias_mean[2 * m][:, None] + s.bias_mean[2 * m + 1]
            for s in (state, after)
        )
        np.testing.assert_allclose(now, before, atol=1e-9)
