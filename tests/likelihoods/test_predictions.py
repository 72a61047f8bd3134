"""What likelihoods say of new cells: means, variances and densities against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf.likelihoods import Bernoulli, Gaussian, Poisson
from gcmf.likelihoods.base import NO_PARAMETERS

M = np.array([-4.0, -1.0, 0.0, 0.7, 3.0, 12.0])
#: Settled parameters of Gaussian cells.
NOISE = np.array([0.4])
V = np.array([0.01, 0.5, 1.0, 2.0, 0.3, 1.0])


def draws(kind, seed=0, n=400_000):
    """Simulated new cells."""
    rng = np.random.default_rng(seed)
    theta = M + np.sqrt(V) * rng.normal(size=(n, len(M)))
    if kind == "gaussian":
        return theta + np.sqrt(NOISE[0]) * rng.normal(size=theta.shape)
    if kind == "bernoulli":
        return (rng.random(theta.shape) < 1 / (1 + np.exp(-theta))).astype(float)
    return rng.poisson(np.logaddexp(0, theta)).astype(float)


@pytest.mark.parametrize(
    ("likelihood", "tolerance"), [(Gaussian(), 0.01), (Bernoulli(), 0.015), (Poisson(), 0.02)], ids=str
)
def test_moments_match_simulation(likelihood, tolerance):
    x = draws(likelihood.name)
    np.testing.assert_allclose(likelihood.mean(M, V), x.mean(axis=0), atol=tolerance)
    np.testing.assert_allclose(likelihood.variance(M, V, NOISE), x.var(axis=0), atol=5 * tolerance)


def test_probabilities_sum_to_one():
    x = np.arange(200.0)
    for m, v in zip(M, V, strict=True):
        total = np.exp(Poisson().log_predictive(x, np.full(200, m), np.full(200, v), NO_PARAMETERS)).sum()
        np.testing.assert_allclose(total, 1.0, rtol=1e-6)
        both = np.exp(Bernoulli().log_predictive(x[:2], np.full(2, m), np.full(2, v), NO_PARAMETERS))
        np.testing.assert_allclose(both.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(both[1], Bernoulli().mean(np.array([m]), np.array([v]))[0], rtol=1e-12)


def test_gaussian_density_integrates_to_one():
    x = np.linspace(-40, 40, 200_001)
    density = np.exp(Gaussian().log_predictive(x, np.full_like(x, 0.7), np.full_like(x, 0.5), NOISE))
    np.testing.assert_allclose(density.sum() * (x[1] - x[0]), 1.0, rtol=1e-6)


@pytest.mark.parametrize("likelihood", [Gaussian(), Bernoulli(), Poisson()], ids=lambda one: one.name)
def test_intercept_is_where_the_mean_is(likelihood):
    for mean in (0.02, 0.4, 0.93):
        theta = np.array([likelihood.intercept(mean)])
        np.testing.assert_allclose(likelihood.mean(theta, np.zeros(1)), mean, rtol=1e-6)


@pytest.mark.parametrize("likelihood", [Bernoulli(), Poisson()], ids=lambda one: one.name)
def test_intercept_of_extreme_means_is_finite(likelihood):
    for mean in (0.0, 1.0, 1e6 if likelihood.name == "poisson" else 1.0):
        assert np.isfinite(likelihood.intercept(mean))


def test_poisson_deviance_is_zero_at_the_count_and_positive_elsewhere():
    x = np.array([1.0, 4.0, 300.0])
    at = np.array([Poisson().intercept(mean) for mean in x])
    np.testing.assert_allclose(Poisson().deviance(x, at, NO_PARAMETERS), 0.0, atol=1e-9)
    assert np.all(Poisson().deviance(x, at + 0.3, NO_PARAMETERS) > 0)
    assert np.all(Poisson().deviance(x, at - 0.3, NO_PARAMETERS) > 0)
