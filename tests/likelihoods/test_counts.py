"""Counts: negative binomial cells against scipy, their size learned, Poisson cells that vary too much, and guesses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, sparse, stats

import gcmf
from gcmf.errors import ModelWarning
from gcmf.likelihoods import NegativeBinomial, ParameterPrior, Poisson
from gcmf.likelihoods.base import NO_PARAMETERS
from gcmf.likelihoods.counts import residuals
from gcmf.likelihoods.expectations import mean_sigmoid, mean_sigmoid_slope, mean_softplus
from gcmf.likelihoods.functions import log_softplus, sigmoid, softplus
from gcmf.methods import run

NB, PRIOR = NegativeBinomial(), ParameterPrior(1e-10, 1e-10, point=False)
SIZES = (1e-3, 0.3, 2.0, 50.0, 1e6)
#: 40 deviations at equal distances of 0.01: exact for every smooth function.
NODES = np.linspace(-20.0, 20.0, 4001)
NODE_WEIGHTS = stats.norm.pdf(NODES) / stats.norm.pdf(NODES).sum()


def sized(r):
    return NB.moved(NB.start(1.0, 1.0, PRIOR), float(np.log(r)))


def grid(*sides):
    return (a.ravel() for a in np.meshgrid(*sides, indexing="ij"))


def table(mean, dispersion, shape=(60, 50), rank=2, seed=0):
    """Means of low rank in the logarithm, and counts of variance μ + d μ²."""
    rng = np.random.default_rng(seed)
    mu = mean * np.exp(0.4 * rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])))
    rate = mu * rng.gamma(1.0 / dispersion, dispersion, size=shape) if dispersion else mu
    return mu, rng.poisson(rate).astype(float)


def fit(x, likelihood, n_factors=4, **options):
    model = gcmf.GCMF(n_factors, random_state=0, progress=False, tol=1e-5, **options)
    return model.fit([gcmf.Relation("x", "row", "col", x, likelihood)])


@pytest.mark.parametrize("r", SIZES)
def test_cells_are_those_of_scipy(r):
    x, theta = grid([0.0, 1.0, 7.0, 300.0, 1e5], [-6.0, -1.0, 0.0, 2.0, 8.0])
    p, certain = sized(r), np.zeros_like(x)
    expected = stats.nbinom.logpmf(x, r, r / (r + np.exp(theta)))
    np.testing.assert_allclose(NB.value(x, theta, certain, p) + NB.constant(x), expected, rtol=1e-8, atol=1e-6)
    settled = NB.settled(p, PRIOR)
    np.testing.assert_allclose(NB.log_predictive(x, theta, certain, settled), expected, rtol=1e-8, atol=1e-6)
    mean, variance = stats.nbinom.stats(r, r / (r + np.exp(theta)))
    np.testing.assert_allclose(NB.mean(theta, certain), mean, rtol=1e-6)
    np.testing.assert_allclose(NB.variance(theta, certain, settled), variance, rtol=1e-6)


def test_a_huge_size_is_poisson():
    x, theta = grid([0.0, 1.0, 7.0, 300.0], [-6.0, 0.0, 5.0])
    found = NB.value(x, theta, 0.0 * x, sized(1e9)) + NB.constant(x)
    np.testing.assert_allclose(found, stats.poisson.logpmf(x, np.exp(theta)), rtol=1e-4)


@pytest.mark.parametrize("v", [0.0, 1e-12, 0.01, 0.5, 2.0, 4.0])
def test_averages_over_a_normal(v):
    m = np.linspace(-12.0, 12.0, 25)
    theta, spread = m[:, None] + np.sqrt(v) * NODES, np.full_like(m, v)
    np.testing.assert_allclose(mean_softplus(m, spread), softplus(theta) @ NODE_WEIGHTS, atol=1e-6)
    np.testing.assert_allclose(mean_sigmoid(m, spread), sigmoid(theta) @ NODE_WEIGHTS, atol=1e-6)
    s = sigmoid(theta)
    np.testing.assert_allclose(mean_sigmoid_slope(m, spread), (s * (1.0 - s)) @ NODE_WEIGHTS, atol=1e-6)


@pytest.mark.parametrize("v", [0.01, 0.5, 2.0, 4.0])
def test_the_exact_poisson_value_is_the_expectation_to_a_millionth(v):
    """Nats per cell, and per count where there are many."""
    x, m = grid([0.0, 1.0, 3.0, 40.0, 1000.0], np.linspace(-10.0, 10.0, 21))
    theta = m[:, None] + np.sqrt(v) * NODES
    expected = (x[:, None] * log_softplus(theta) - softplus(theta)) @ NODE_WEIGHTS
    error = np.abs(Poisson().value(x, m, np.full_like(m, v), NO_PARAMETERS) - expected)
    assert np.all(error <= 2e-6 * np.maximum(x, 1.0))


@pytest.mark.parametrize("likelihood", [NB, Poisson()], ids=repr)
def test_predictive_probabilities_add_up_to_one(likelihood):
    p = np.array([1.5]) if likelihood is NB else NO_PARAMETERS
    x = np.arange(20_000.0)
    for m, v in ((-2.0, 0.3), (0.5, 1.0), (2.5, 0.2), (5.0, 0.05)):
        each = np.exp(likelihood.log_predictive(x, np.full_like(x, m), np.full_like(x, v), p))
        assert each.sum() == pytest.approx(1.0, abs=1e-4)
        mean, variance = likelihood.mean(np.array([m]), np.array([v]))[0], (each * x**2).sum() - (each @ x) ** 2
        assert each @ x == pytest.approx(mean, rel=1e-3)
        assert variance == pytest.approx(likelihood.variance(np.array([m]), np.array([v]), p)[0], rel=0.02)


def test_a_count_that_tells_more_than_what_is_known_is_averaged_too():
    """θ is known to 0.5, the count of 10⁵ to 0.003: nodes around m would all miss it."""
    x, m, v = np.array([1e5]), np.array([11.0]), np.array([0.25])
    theta = m + np.sqrt(v) * np.linspace(-8.0, 8.0, 400_001)
    density = stats.norm.pdf(theta, m, 0.5) * stats.nbinom.pmf(x, 1e7, 1 / (1 + np.exp(theta) / 1e7))
    exact = np.log(integrate.trapezoid(density, theta))
    np.testing.assert_allclose(NB.log_predictive(x, m, v, np.array([1e7])), exact, atol=1e-5)


@pytest.mark.parametrize(("dispersion", "low", "high"), [(0.5, 0.42, 0.58), (2.0, 1.75, 2.3), (0.0, 0.0, 0.01)])
def test_the_size_is_learned(dispersion, low, high):
    _, x = table(20.0, dispersion)
    model = fit(x, "negative_binomial")
    assert low <= 1.0 / model.fitted_.parameters[0][0] <= high
    assert np.all(np.diff(model.elbo_trace_) >= -3e-6 * np.abs(model.elbo_trace_[1:]))


def test_searching_finds_the_best_size(monkeypatch):
    """No size beside the one that was found has a higher bound, all else as it is."""
    runs = []
    monkeypatch.setattr(
        run.Run, "begin", lambda self, *a, begin=run.Run.begin, **k: (runs.append(self), begin(self, *a, **k))[1]
    )
    _, x = table(5.0, 0.7)
    fit(x, "negative_binomial", dtype="float64")
    one = runs[0]
    here, found = one.touched_bound(), one.posterior
    for step in (-0.2, 0.2):
        one.posterior = found._replace(parameters=(NB.moved(found.parameters[0], step),))
        assert one.touched_bound() < here


def test_large_counts_converge_in_few_sweeps():
    mu, x = table(1e5, 0.0)
    model = fit(x, "negative_binomial")
    assert model.n_iter_ < 60
    assert np.median(np.abs(model.predict("x") / mu - 1.0)) < 2e-3
    rng = np.random.default_rng(0)
    mu = 1e5 * (1.0 + 0.1 * rng.uniform(-1, 1, (60, 2)) @ rng.uniform(-1, 1, (2, 50)))
    model = fit(rng.poisson(mu).astype(float), "poisson")
    assert model.status_.name == "CONVERGED"
    np.testing.assert_allclose(model.predict("x"), mu, rtol=0.01)


def test_overdispersed_poisson_counts_are_warned_of_and_the_way_out_works():
    _, x = table(20.0, 1.0)
    with pytest.warns(ModelWarning, match=r"poisson cells could have in 'x' \(.* times\).*'negative_binomial'"):
        fit(x, "poisson", max_iter=30, callbacks=lambda step: step.iteration == 20)
    fit(x, "negative_binomial")
    _, x = table(20.0, 0.0)
    # The logarithm of the means is of low rank, softplus⁻¹ of them is not.
    fit(x, "poisson", n_factors="auto")


@pytest.mark.parametrize(("dispersion", "expected"), [(0.0, "poisson"), (1.0, "negative_binomial")])
def test_a_likelihood_is_chosen_by_how_counts_vary(dispersion, expected):
    rng = np.random.default_rng(0)
    mu = 4.0 * np.exp(rng.normal(size=(40, 1)) + rng.normal(size=(1, 30)))
    x = rng.poisson(mu * rng.gamma(1.0 / dispersion, dispersion, size=mu.shape) if dispersion else mu).astype(float)
    assert residuals(x).likelihood == expected
    of_sparse, of_dense = residuals(sparse.csr_matrix(x)), residuals(x)
    np.testing.assert_allclose(of_sparse, of_dense, rtol=1e-9)
    x[rng.random(x.shape) < 0.3] = np.nan
    assert residuals(x).likelihood == expected


def test_a_few_counts_say_nothing():
    for x in ([[0, 2], [7, 1]], [[900.0]], np.zeros((5, 4))):
        assert residuals(np.array(x)).likelihood == "poisson"


@pytest.mark.parametrize("shape", [(6, 5), (10, 6), (30, 1)])
def test_a_few_zeros_are_counts_of_small_means(shape):
    """A size r near zero goes with any mean: p(0) = (1 + μ/r)^(−r). Mean, interval and score say the same."""
    zeros = gcmf.Relation("x", "row", "col", np.zeros(shape), "negative_binomial")
    model = gcmf.GCMF(random_state=0, progress=False).fit(zeros)
    mean, low, high = model.predict("x", interval=0.9)
    assert mean.max() < 0.1
    assert not low.any()
    assert not high.any()
    assert model.score(zeros)["rmse"].item() < 0.1


def test_the_prior_of_the_size_is_a_density():
    """r^(−½) ~ Exponential(1), as a density of log r."""
    total, _ = integrate.quad(lambda log_r: 0.5 * np.exp(NB.divergence(1.0, np.array([0.0, log_r]), PRIOR)), -20, 80)
    assert total == pytest.approx(1.0, rel=1e-6)
    below, _ = integrate.quad(lambda log_r: 0.5 * np.exp(NB.divergence(1.0, np.array([0.0, log_r]), PRIOR)), -20, 0)
    assert below == pytest.approx(np.exp(-1.0), rel=1e-6)


def test_who_is_known_badly_is_expected_near_the_median():
    """E e^θ of two entities of which only the prior is known would be made of θ that nobody has seen."""
    m, v = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.0, 4.0, 60.0, 1e4])[:, None]
    mean, std = NB.mean(m, v), np.sqrt(NB.variance(m, v, np.array([2.0])))
    np.testing.assert_allclose(mean[:3], np.exp(m + v[:3] / 2.0), rtol=1e-12)
    assert np.all(mean[3:] <= 8.0 * np.exp(m))
    assert np.all(std[3:] <= 10.0 * std[2])
    assert np.all(np.diff(NB.rank(m, v), axis=1) > 0.0)
