"""The smallest, flattest, largest and emptiest data: always a status, never a NaN in any answer."""

from __future__ import annotations

import numpy as np
import pytest

from edge_cases import DATA, assert_sound, counts, fitted, one, signal
from gcmf import Priors
from gcmf.likelihoods import Poisson

PROPER = Priors(alpha_shape=1.0, alpha_rate=1.0, tau_shape=1.0, tau_rate=1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_factors", [1, 3, 50])
@pytest.mark.parametrize("case", DATA)
def test_every_answer_is_finite(case, n_factors, dtype):
    data = DATA[case]()
    assert_sound(fitted(data, n_factors=n_factors, dtype=dtype), data)


@pytest.mark.parametrize("case", DATA)
def test_every_answer_of_other_models_is_finite(case):
    data = DATA[case]()
    assert_sound(fitted(data, sharing="common", n_factors=50), data)
    assert_sound(fitted(data, bias=False), data)
    assert_sound(fitted(data, inference="map", priors=PROPER, max_iter=40), data)


def test_constants_are_predicted():
    for value in (7.0, 1e9 + 0.3):
        np.testing.assert_allclose(fitted(one(np.full((6, 5), value))).predict("x"), value, rtol=1e-12)
    assert fitted(one(np.ones((30, 20)), "bernoulli")).predict("x").min() > 0.95
    assert fitted(one(np.zeros((30, 20)), "poisson")).predict("x").max() < 0.05


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-6), ("float32", 1e-3)])
def test_large_offsets_cost_no_precision(dtype, atol):
    """With a tol so small that two fits which stop some sweeps apart do not differ by that."""
    x = signal(30, 20)
    plain, moved = (fitted(one(y), max_iter=300, tol=1e-9, dtype=dtype) for y in (x, x + 1e8))
    np.testing.assert_allclose(moved.predict("x") - 1e8, plain.predict("x"), atol=atol)


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e5])
def test_large_counts_are_reached(scale):
    """The mean of the counts is where the predictions are, whatever its size; the exact expectation finds the rest."""
    x = counts(scale)
    assert fitted(one(x, "poisson"), max_iter=300).predict("x").mean() == pytest.approx(x.mean(), rel=0.1)
    data = one(x, Poisson("exact"))
    assert fitted(data, max_iter=300).score(data)["rmse"].item() < 0.6 * x.std()


def test_explained_share_of_a_constant_relation_is_no_nonsense():
    for data in (one(np.zeros((8, 6)), "bernoulli"), one(np.zeros((8, 6)), "poisson"), one(np.full((6, 5), 2.0))):
        total = fitted(data).variance_explained()["total"].item()
        assert -1 <= total <= 1
