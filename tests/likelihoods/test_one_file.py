"""A likelihood with a parameter to learn, in one file and one line of registration, works everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gcmf
import laplace
from gcmf import likelihoods
from gcmf.errors import OptionError, StorageError
from laplace import Laplace


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(likelihoods, "REGISTERED", (*likelihoods.REGISTERED, Laplace))


@pytest.fixture(scope="module")
def table():
    """A table of rank 2 with noise of scale 0.2, of which one cell in twenty is far off, and what it should be."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40))
    x = truth + 0.2 * rng.laplace(size=truth.shape)
    x += np.where(rng.random(x.shape) < 0.05, 20.0 * rng.normal(size=x.shape), 0.0)
    return np.where(rng.random(x.shape) < 0.3, np.nan, x), truth


def fit(x, likelihood, **options):
    return gcmf.GCMF(5, random_state=0, progress=False, **options).fit([gcmf.Relation("x", "a", "b", x, likelihood)])


def error(model, truth):
    return float(np.sqrt(np.mean((np.asarray(model.predict("x")) - truth) ** 2)))


def test_it_is_one_short_file():
    assert len(Path(laplace.__file__).read_text().splitlines()) < 100


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_it_fits(table, device):
    x, truth = table
    model = fit(x, Laplace(), device=device, dtype="float64")
    assert model.status_ is gcmf.Status.CONVERGED
    assert np.diff(model.elbo_trace_).min() >= -1e-9 * abs(model.elbo_)
    assert error(model, truth) < 0.2  # least squares: 3.5, as outliers pull at them
    assert model.n_factors_active_ == 2
    # Mean distance of the noise: 0.2 for most cells, 16 for the one in twenty that is off.
    assert np.sqrt(model.fitted_.noise[0] / 2.0) * model.fitted_.scale[0] == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("options", [{}, {"sharing": "common"}, {"bias": False}])
def test_both_engines_agree(table, options):
    x, _ = table
    with pytest.warns(gcmf.errors.ConvergenceWarning):
        traces = [fit(x, Laplace(), device=device, dtype="float64", max_iter=12, **options).elbo_trace_
                  for device in ("reference", "cpu")]  # fmt: skip
    np.testing.assert_allclose(*traces, rtol=1e-9)


def test_it_is_fitted_beside_others_and_as_a_point(table):
    x, _ = table
    seen = np.isfinite(x).astype(float)
    relations = [gcmf.Relation("x", "a", "b", x, Laplace()), gcmf.Relation("y", "a", "c", seen[:, :20], "bernoulli")]
    model = gcmf.GCMF(4, random_state=0, progress=False, tol=1e-4).fit(relations)
    assert np.isfinite(model.elbo_)
    priors = {"alpha_shape": 1.0, "alpha_rate": 1.0, "tau_shape": 1.0, "tau_rate": 1.0}
    point = fit(x, Laplace(), inference="map", priors=priors, tol=1e-4)
    assert np.diff(point.elbo_trace_).min() >= -3e-6 * abs(point.elbo_)


@pytest.mark.usefixtures("registered")
def test_it_has_a_name_and_is_saved_and_loaded(table, tmp_path):
    x, _ = table
    model = fit(x, "laplace", tol=1e-4)
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    for before, after in zip(model.predict("x", return_std=True), again.predict("x", return_std=True), strict=True):
        np.testing.assert_array_equal(before, after)
    assert again.fitted_.likelihoods == (Laplace(),)
    with pytest.raises(OptionError, match="known are gaussian, bernoulli, poisson, negative_binomial, laplace"):
        gcmf.Relation("x", "a", "b", x, "laplas")


def test_what_is_not_registered_is_fitted_but_not_saved(table, tmp_path):
    x, _ = table
    model = fit(x, Laplace(), tol=1e-3)
    with pytest.raises(StorageError, match="not a Laplace"):
        model.save(tmp_path / "m.gcmf")
