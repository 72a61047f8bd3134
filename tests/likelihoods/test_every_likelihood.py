"""What engines, methods and predictions count on, of every likelihood that there is, in all its variants."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf.likelihoods import ParameterPrior, known
from helpers import learns
from strategies import LIKELIHOODS, values

CELLS = {"real": (-3.0, 0.0, 0.4, 7.0), "binary": (0.0, 1.0), "counts": (0.0, 1.0, 3.0, 40.0)}
MEANS = np.linspace(-7.0, 7.0, 15)
VARIANCES = np.array([0.05, 0.3, 2.0])
PRIORS = [ParameterPrior(shape, rate, point) for shape, rate in ((1e-10, 1e-10), (2.3, 0.9)) for point in (False, True)]
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()

pytestmark = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)


def cells(likelihood):
    """All combinations of x, m and v as flat arrays."""
    return (a.ravel() for a in np.meshgrid(CELLS[likelihood.support], MEANS, VARIANCES, indexing="ij"))


def parameters(likelihood, prior):
    """Parameters of a relation of these cells, learned once where there is something to learn."""
    x, m, v = cells(likelihood)
    p = likelihood.start(max(CELLS[likelihood.support]), float(len(x)), prior)
    return likelihood.learn(p, float(likelihood.value(x, m, v, p).sum()), float(len(x)), prior)


def test_its_name_leads_to_it(likelihood):
    assert known()[likelihood.name] is type(likelihood)
    assert likelihood.support in CELLS


def test_a_step_raises_the_bound_by_no_less_than_the_quadratic_form_says(likelihood):
    p = parameters(likelihood, PRIORS[2])
    x, m, v = cells(likelihood)
    w, wz = likelihood.quadratic(x, m, v, p)
    slope, here = likelihood.slope(p), likelihood.value(x, m, v, p)
    assert np.all(w > 0)
    for m2, v2 in ((-4.0, 0.1), (-0.3, 1.0), (0.0, 0.01), (2.0, 5.0), (6.5, 0.5)):
        there = likelihood.value(x, np.full_like(m, m2), np.full_like(v, v2), p)
        told = wz * (m2 - m) - 0.5 * w * (m2**2 + v2 - m**2 - v)
        rise = slope * (there - here)
        if likelihood.least_squares:
            np.testing.assert_allclose(rise, told, rtol=1e-9, atol=1e-9)
        elif likelihood.quadratic_is_bound:
            assert np.all(rise >= told - 1e-6 * (1.0 + np.abs(slope * there)))
    np.testing.assert_array_equal(likelihood.value(x, m, v, p), here)


def test_the_quadratic_form_has_the_slopes_of_the_bound(likelihood):
    """∂/∂m of the bound is wz − wm, ∂/∂v is −w/2."""
    p, h = parameters(likelihood, PRIORS[2]), 1e-5
    x, m, v = cells(likelihood)
    w, wz = likelihood.quadratic(x, m, v, p)

    def bound(m, v):
        return likelihood.slope(p) * likelihood.value(x, m, v, p)

    np.testing.assert_allclose((bound(m + h, v) - bound(m - h, v)) / (2 * h), wz - w * m, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((bound(m, v + h) - bound(m, v - h)) / (2 * h), -w / 2, rtol=1e-4, atol=1e-6)


def test_the_bound_is_one_of_the_predictive_distribution(likelihood):
    """At known parameters it is below E log p(x|θ), and meets it where θ is certain."""
    prior = PRIORS[3]
    p = parameters(likelihood, prior)
    settled = likelihood.settled(p, prior)
    x, m, v = cells(likelihood)
    n, nothing = likelihood.times(x), np.zeros((len(x), 1))

    def bound(v):
        each = zip(likelihood.value(x, m, v, p).tolist(), n.tolist(), strict=True)
        return np.array([likelihood.expected(value, k, p, prior) for value, k in each]) + n * likelihood.constant(x)

    def exact(theta):
        return n[:, None] * likelihood.log_predictive(x[:, None] + 0.0 * theta, theta, nothing + 0.0 * theta, settled)

    np.testing.assert_allclose(bound(0.0 * v), exact(m[:, None])[:, 0], rtol=1e-9, atol=1e-9)
    above = exact(m[:, None] + np.sqrt(v)[:, None] * NODES) @ NODE_WEIGHTS
    slack = 1e-6 if likelihood.quadratic_is_bound else 1e-3
    assert np.all(bound(v) <= above + slack * (1.0 + np.abs(above)))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_the_bound_is_linear_in_the_summed_values(likelihood, prior):
    p, n = parameters(likelihood, prior), 12.0
    at = [likelihood.expected(total, n, p, prior) for total in (0.0, 1.0, 10.0)]
    np.testing.assert_allclose(np.diff(at), likelihood.slope(p) * np.array([1.0, 9.0]), rtol=1e-9)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_what_is_learned_is_the_best(likelihood, prior):
    """No small change of a learned parameter raises the bound, and the bound is flat there."""
    rng = np.random.default_rng(0)
    x = values(likelihood, (20, 6), rng).ravel()
    m, v, n = 0.3 * rng.normal(size=len(x)), rng.uniform(0.1, 1.0, len(x)), float(len(x))
    before = likelihood.start(float(x.max()), n, prior)
    total = float(likelihood.value(x, m, v, before).sum())
    p = likelihood.learn(before, total, n, prior)

    def bound(p):
        return likelihood.expected(total, n, p, prior) + likelihood.divergence(n, p, prior)

    here = bound(p)
    assert np.isfinite(here)
    assert here >= bound(before)
    if not learns(likelihood):
        np.testing.assert_array_equal(p, before)
        return
    assert here > bound(before)
    for place in range(len(p)):
        up, down = (bound(np.where(np.arange(len(p)) == place, p * np.exp(h), p)) for h in (1e-3, -1e-3))
        assert max(up, down) < here
        assert abs(up - down) <= 0.05 * (2 * here - up - down)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_answers_about_new_cells_are_finite(likelihood, prior):
    p = likelihood.settled(parameters(likelihood, prior), prior)
    x, m, v = cells(likelihood)
    assert p.dtype == np.float64
    assert p.ndim == 1
    assert likelihood.noise_variance(p) >= 0.0
    answers = [likelihood.mean(m, v), likelihood.variance(m, v, p), likelihood.log_predictive(x, m, v, p),
               likelihood.deviance(x, m, p), likelihood.constant(x)]  # fmt: skip
    assert all(a.shape == x.shape and np.isfinite(a).all() for a in answers)
    assert np.all(likelihood.variance(m, v, p) > 0)
    assert likelihood.looseness(likelihood.intercept(0.4)) >= 1.0
