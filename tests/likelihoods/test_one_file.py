"""A likelihood with a parameter to learn, in one file and one line of registration, works everywhere."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import gcmf
import laplace
from gcmf import likelihoods
from gcmf.errors import OptionError, StorageError
from gcmf.likelihoods import CellMath
from laplace import Laplace

POINT = {"alpha_shape": 1.0, "alpha_rate": 1.0, "tau_shape": 1.0, "tau_rate": 1.0}


def _blunt_distance(x, m, v, p):
    return np.sqrt((x - m) ** 2 + v + p[2])


def _blunt_quadratic(x, m, v, p):
    w = p[0] / p[1] / _blunt_distance(x, m, v, p)
    return w, w * x


@dataclass(frozen=True)
class Blunt(Laplace):
    """As Laplace, with three parameters: the square by which a cell that is met exactly is off."""

    name = "blunt"
    cell = CellMath(_blunt_quadratic, _blunt_distance)

    def start(self, largest, n, prior):
        return np.array([*super().start(largest, n, prior), laplace.SMALL**2])

    def learn(self, p, total, n, prior):
        return np.array([*super().learn(p[:2], total, n, prior), p[2]])

    def expected(self, total, n, p, prior):
        return super().expected(total, n, p[:2], prior)

    def divergence(self, n, p, prior):
        return super().divergence(n, p[:2], prior)

    def settled(self, p, prior):
        """Three numbers are kept, too."""
        return np.array([p[1] / p[0], p[2], 0.0])


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(likelihoods, "REGISTERED", (*likelihoods.REGISTERED, Laplace, Blunt))


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
    point = fit(x, Laplace(), inference="map", priors=POINT, tol=1e-4)
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
    with pytest.raises(OptionError, match="known are gaussian, bernoulli, poisson, negative_binomial, laplace, blunt"):
        gcmf.Relation("x", "a", "b", x, "laplas")


def test_what_is_not_registered_is_fitted_but_not_saved(table, tmp_path):
    x, _ = table
    model = fit(x, Laplace(), tol=1e-3)
    with pytest.raises(StorageError, match="not a Laplace"):
        model.save(tmp_path / "m.gcmf")


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("options", [{"device": "cpu"}, {"device": "reference"}, {"dtype": "float64"},
                                     {"inference": "map", "priors": POINT}, {"inference": "gibbs", "n_samples": 10,
                                                                             "n_burn": 5}], ids=str)  # fmt: skip
def test_three_parameters_are_no_more_than_two(table, options, tmp_path):
    """The same likelihood, with a number among its parameters that was a constant: the same fit."""
    x, _ = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
        two, three = (fit(x[:30, :15], likelihood, max_iter=15, **options) for likelihood in (Laplace(), Blunt()))
    np.testing.assert_allclose(two.elbo_trace_, three.elbo_trace_, rtol=1e-5)
    np.testing.assert_allclose(two.predict("x"), three.predict("x"), rtol=1e-3, atol=1e-3)
    three.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    np.testing.assert_array_equal(again.predict("x", interval=0.9), three.predict("x", interval=0.9))
    assert np.isfinite(three.sample("x", [0], [0], n=5, random_state=0)).all()
    assert len(again.recommend("x", [0], n=2, exclude_seen=False)) == 2
