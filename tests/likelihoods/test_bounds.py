"""Bounds are bounds: below the exact expectation, touching where refreshed, with the right slope, at any size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from gcmf.errors import OptionError
from gcmf.likelihoods import Bernoulli, Gaussian, ParameterPrior, Poisson, resolve
from gcmf.likelihoods.base import NO_PARAMETERS
from gcmf.likelihoods.functions import (
    log_softplus,
    log_two_cosh,
    sigmoid,
    softplus,
    softplus_slope,
    twice_jaakkola,
)
from gcmf.likelihoods.poisson import CURVATURE_PER_COUNT

BOUNDED = (Bernoulli("tight"), Bernoulli("cell"), Bernoulli("paper"),
           Poisson("tight"), Poisson("cell"), Poisson("paper"))  # fmt: skip
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
GRID = np.linspace(-9, 9, 37)
VARIANCES = np.array([0.0, 0.01, 0.3, 2.0, 10.0])


def counts(likelihood):
    return (0.0, 1.0) if likelihood.name == "bernoulli" else (0.0, 1.0, 3.0, 40.0)


def parameters_of(likelihood, largest=None):
    """Parameters of a relation whose largest count is the largest one tested."""
    largest = max(counts(likelihood)) if largest is None else largest
    return likelihood.start(largest, 1.0, ParameterPrior(1.0, 1.0, point=False))


def log_p(likelihood, x, theta):
    """The exact log-likelihood, written out independently of the library."""
    rate = np.logaddexp(0.0, theta)
    if likelihood.name == "bernoulli":
        return x * theta - rate
    return x * np.log(rate) - rate - gammaln(x + 1.0)


def every_case(likelihood):
    """All combinations of x, m, v as flat arrays."""
    return (a.ravel() for a in np.meshgrid(counts(likelihood), GRID, VARIANCES, indexing="ij"))


@pytest.fixture(params=BOUNDED, ids=lambda one: f"{one.name}-{one.bound}")
def likelihood(request):
    return request.param


def test_bound_is_below_the_exact_expectation(likelihood):
    x, m, v = every_case(likelihood)
    exact = log_p(likelihood, x[:, None], m[:, None] + np.sqrt(v)[:, None] * NODES) @ NODE_WEIGHTS
    bound = likelihood.value(x, m, v, parameters_of(likelihood)) + likelihood.constant(x)
    assert np.all(bound <= exact + 1e-6 * (1 + np.abs(exact)))
    certain = v == 0
    np.testing.assert_allclose(bound[certain], exact[certain], rtol=1e-9, atol=1e-9)


def test_quadratic_form_lies_below_the_likelihood_and_touches_it(likelihood):
    x, m, v = every_case(likelihood)
    w, wz = likelihood.quadratic(x, m, v, parameters_of(likelihood))
    assert np.all(w > 0)
    # c follows from touching at (m, v); with it, c − w/2 (z − θ)² must be below log p(x|θ) for every θ.
    c = likelihood.value(x, m, v, parameters_of(likelihood)) + w / 2 * ((wz / w - m) ** 2 + v)
    theta = np.linspace(-25, 25, 401)
    below = c[:, None] - w[:, None] / 2 * (wz[:, None] / w[:, None] - theta) ** 2
    exact = log_p(likelihood, x[:, None], theta) - likelihood.constant(x)[:, None]
    assert np.all(below <= exact + 1e-6 * (1 + np.abs(exact)))


def test_refreshing_is_optimal(likelihood):
    """The bound at (m', v') is never below the form that was refreshed at another (m, v)."""
    x, m, v = every_case(likelihood)
    p = parameters_of(likelihood)
    w, wz = likelihood.quadratic(x, m, v, p)
    c = likelihood.value(x, m, v, p) + w / 2 * ((wz / w - m) ** 2 + v)
    for m2, v2 in ((-4.0, 0.1), (-0.3, 1.0), (0.0, 0.0), (2.0, 5.0), (8.0, 0.5)):
        stale = c - w / 2 * ((wz / w - m2) ** 2 + v2)
        fresh = likelihood.value(x, np.full_like(m, m2), np.full_like(m, v2), p)
        assert np.all(fresh >= stale - 1e-6 * (1 + np.abs(fresh)))


def test_slopes_match_finite_differences(likelihood):
    """d/dm of the bound is wz − wm (so f′ is right), d/dv is −w/2."""
    x, m, v = every_case(likelihood)
    v, h, p = v + 0.05, 1e-5, parameters_of(likelihood)
    w, wz = likelihood.quadratic(x, m, v, p)

    def bound(m, v):
        return likelihood.value(x, m, v, p)

    np.testing.assert_allclose((bound(m + h, v) - bound(m - h, v)) / (2 * h), wz - w * m, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose((bound(m, v + h) - bound(m, v - h)) / (2 * h), -w / 2, rtol=1e-6, atol=1e-6)


def test_curvature_dominates_the_second_derivative():
    theta, h = np.linspace(-30, 30, 20001), 1e-3
    for x in (0.0, 1.0, 2.0, 9.0, 1000.0):
        f = -log_p(Poisson(), x, np.stack([theta - h, theta, theta + h]))
        second = (f[0] - 2 * f[1] + f[2]) / h**2
        assert second.max() <= 0.25 + CURVATURE_PER_COUNT * x + 1e-6 * (1 + x)
        w, _ = Poisson("cell").quadratic(np.array([x]), np.zeros(1), np.zeros(1), NO_PARAMETERS)
        assert second.max() <= w[0] + 1e-6 * (1 + x)
        assert parameters_of(Poisson("paper"), x)[0] >= second.max() - 1e-6 * (1 + x)
    slope = (log_softplus(theta + h) - 2 * log_softplus(theta) + log_softplus(theta - h)) / h**2
    np.testing.assert_allclose(-slope.min(), CURVATURE_PER_COUNT, rtol=1e-5)


def test_exact_poisson_is_the_expectation_and_its_slopes_match():
    exact, (x, m, v) = Poisson("exact"), every_case(Poisson("exact"))
    narrow = v <= 2.0
    x, m, v = x[narrow], m[narrow], v[narrow]
    expected = log_p(exact, x[:, None], m[:, None] + np.sqrt(v)[:, None] * NODES) @ NODE_WEIGHTS
    np.testing.assert_allclose(exact.value(x, m, v, NO_PARAMETERS) + exact.constant(x), expected, rtol=1e-3, atol=1e-3)
    v, h = v + 0.05, 1e-5
    w, wz = exact.quadratic(x, m, v, NO_PARAMETERS)

    def bound(m, v):
        return exact.value(x, m, v, NO_PARAMETERS)

    np.testing.assert_allclose((bound(m + h, v) - bound(m - h, v)) / (2 * h), wz - w * m, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((bound(m, v + h) - bound(m, v - h)) / (2 * h), -w / 2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [31.0, 100.0, 1e3, 1e6])
@pytest.mark.parametrize("likelihood", [*BOUNDED, Poisson("exact")], ids=lambda one: f"{one.name}-{one.bound}")
def test_extreme_predictors_stay_finite(likelihood, size):
    x, p = np.array([0.0, 1.0] if likelihood.name == "bernoulli" else [0.0, 1e6]), parameters_of(likelihood, 1e6)
    for m in (-size, size):
        for v in (0.0, 1e-12, 1e4):
            args = x, np.full(2, m), np.full(2, v)
            w, wz = likelihood.quadratic(*args, p)
            answers = [w, wz, likelihood.value(*args, p), likelihood.mean(*args[1:]),
                       likelihood.variance(*args[1:], p), likelihood.log_predictive(*args, p),
                       likelihood.deviance(x, args[1], p), likelihood.constant(x)]  # fmt: skip
            assert all(np.isfinite(a).all() for a in answers)
            assert np.all(w > 0)
            assert np.all(likelihood.variance(*args[1:], p) >= 0)


def test_tight_is_never_looser():
    for one, other in ((Bernoulli("tight"), Bernoulli("cell")), (Poisson("tight"), Poisson("cell"))):
        x, m, v = every_case(one)
        gap = one.value(x, m, v, NO_PARAMETERS) - other.value(x, m, v, NO_PARAMETERS)
        assert gap.min() >= -1e-12
        assert gap.max() > 0.01


def test_special_functions():
    t = np.array([-800.0, -30.0, -1.0, -5e-4, 0.0, 1e-8, 2e-3, 3.0, 800.0])
    np.testing.assert_allclose(softplus(t), np.logaddexp(0, t), rtol=1e-14)
    np.testing.assert_allclose(sigmoid(t), 1 / (1 + np.exp(np.clip(-t, None, 700.0))), rtol=1e-12, atol=1e-300)
    safe = np.where(t == 0, 1e-9, np.abs(t))
    np.testing.assert_allclose(twice_jaakkola(np.abs(t)), np.tanh(safe / 2) / (2 * safe), rtol=1e-9)
    np.testing.assert_allclose(log_two_cosh(np.abs(t)), np.logaddexp(t / 2, -t / 2), rtol=1e-14)
    near = np.array([-30.0 - 1e-9, -30.0 + 1e-9])
    np.testing.assert_allclose(log_softplus(near), [-30, -30], rtol=1e-9)
    np.testing.assert_allclose(softplus_slope(near), [1, 1], rtol=1e-9)


def test_gaussian_is_exact():
    x, m, v, p = np.array([1.5]), np.array([0.4]), np.array([0.3]), np.array([5.0, 2.0])
    w, wz = Gaussian().quadratic(x, m, v, p)
    assert (w[0], wz[0]) == (2.5, 2.5 * 1.5)
    theta = m + np.sqrt(v) * NODES
    np.testing.assert_allclose(Gaussian().value(x, m, v, p), ((x - theta) ** 2) @ NODE_WEIGHTS, rtol=1e-12)


def test_resolve_takes_names_and_objects():
    assert resolve("poisson") == Poisson()
    assert resolve(Bernoulli("paper")) == Bernoulli("paper")
    with pytest.raises(OptionError, match="must be one of"):
        resolve("gamma")


@pytest.mark.parametrize("bound", ["tight", "paper"])
def test_a_weighed_zero_is_that_many_zeros(bound):
    x, m, v = np.array([0.0, 0.0, 1.0]), np.array([0.3, -2.0, 0.7]), np.array([0.1, 1.0, 0.4])
    times = np.array([4.0, 4.0, 1.0])
    plain, weighed = Bernoulli(bound), Bernoulli(bound, zero_weight=4.0)
    for one, other in zip(
        plain.quadratic(x, m, v, NO_PARAMETERS), weighed.quadratic(x, m, v, NO_PARAMETERS), strict=True
    ):
        np.testing.assert_allclose(other, times * one)
    np.testing.assert_allclose(weighed.value(x, m, v, NO_PARAMETERS), times * plain.value(x, m, v, NO_PARAMETERS))
    np.testing.assert_allclose(weighed.deviance(x, m, NO_PARAMETERS), times * plain.deviance(x, m, NO_PARAMETERS))
    # Two ones and six zeros that stand for 24: one in thirteen.
    assert weighed.intercept(2 / 8) == pytest.approx(plain.intercept(2 / 26))


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_a_weight_of_zeros_is_a_positive_number(weight):
    with pytest.raises(OptionError, match="zero_weight must be a positive number"):
        Bernoulli(zero_weight=weight)
