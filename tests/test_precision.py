"""float32 where that is precise enough, float64 where it is not: no fall, no overflow, whatever the noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from gcmf import CCA, GCMF, GFA, Collection, Priors, Relation, Status
from gcmf.engines.precision import PRECISE
from gcmf.errors import ConvergenceWarning
from gcmf.likelihoods import Poisson
from gcmf.loop import FALL


def falls(trace, n_cells):
    """The worst fall from one sweep to the next, as a fraction of the size of the bound."""
    return float(np.max(-np.diff(trace) / np.maximum(np.abs(trace[1:]), n_cells), initial=0.0))


def chain(seed, noise):
    rng = np.random.default_rng(seed)
    U, V, W = (rng.normal(size=(n, 3)) for n in (49, 57, 50))
    ab, cb = U @ V.T, W @ V.T
    return {("a", "b"): ab + noise * rng.normal(size=ab.shape), ("c", "b"): cb + noise * rng.normal(size=cb.shape)}


@pytest.mark.parametrize("noise", [0.0, 1e-4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tables_with_hardly_any_noise_are_fitted(dtype, noise):
    """Superfluous factors of a precise table are told apart by differences that float32 does not hold."""
    for seed in range(5):
        data = chain(seed, noise)
        model = GCMF(5, random_state=seed, progress=False, dtype=dtype).fit(data)
        assert model.status_ is Status.CONVERGED
        assert model.n_factors_active_ == 3
        assert falls(model.elbo_trace_, 5600) <= FALL[np.dtype("float64")]
        np.testing.assert_allclose(model.predict("a-b"), data["a", "b"], atol=max(4.5 * noise, 1e-4))


def test_only_precise_tables_are_fitted_in_float64():
    made = {noise: GCMF(5, random_state=0, progress=False).fit(chain(0, noise)) for noise in (1.0, 1e-3)}
    assert {noise: str(model.fitted_.mean[0].dtype) for noise, model in made.items()} == {
        1.0: "float32",
        1e-3: "float64",
    }
    # In units of the variance, here about 3.
    assert 3 / 1.0**2 < PRECISE < 3 / 1e-3**2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_view_without_noise(dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(40, 3))
        views = [z @ rng.normal(size=(3, 12)), z @ rng.normal(size=(3, 15)) + 0.3 * rng.normal(size=(40, 15))]
        model = GFA(5, random_state=seed, dtype=dtype).fit(views)
        assert model.status_ is Status.CONVERGED
        assert falls(model.elbo_trace_, 1) <= FALL[np.dtype("float64")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_view(dtype):
    """A factor that is nearly gone feels b₀, so the best scale under a vague prior is not the best any more."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        left = rng.normal(size=(10, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(10, 5))
        model = CCA(2, random_state=seed, dtype=dtype).fit(left, np.ones((10, 20)) * rng.normal(size=20))
        assert model.status_ in (Status.CONVERGED, Status.ALL_PRUNED)
        assert falls(model.elbo_trace_, 1) <= FALL[np.dtype(dtype)]


@pytest.mark.parametrize("sharing", ["group", "common"])
@pytest.mark.parametrize("shape", [1e-5, 1e-3, 0.4])
def test_map_with_nearly_vague_priors_and_a_set_of_one(shape, sharing):
    """With a₀ + d/2 < 1 the density of α has no mode: the prior is taken as the nearest one that has."""
    priors = Priors(alpha_shape=shape, alpha_rate=1e-3, tau_shape=1, tau_rate=1)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = {("a", "b"): rng.normal(size=(1, 8)), ("b", "c"): rng.normal(size=(8, 5))}
        model = GCMF(3, inference="map", priors=priors, sharing=sharing, dtype="float64", random_state=seed, tol=1e-4,
                     max_iter=2000, progress=False).fit(data)  # fmt: skip
        assert model.status_ is Status.CONVERGED
        assert falls(model.elbo_trace_, 48) <= FALL[np.dtype("float64")]


@pytest.mark.parametrize("offset", [0.0, 60.0, 1e6, 1e12])
def test_zeros_far_from_what_is_listed(offset):
    """Sums of a whole row of zeros, later corrected by what is listed, would cancel."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)) + 0.3 * rng.normal(size=(30, 20)) + offset
    i, j = np.indices(x.shape).reshape(2, -1)
    whole = Collection([Relation("x", "a", "b", x)])
    from_zeros = Collection([Relation("x", "a", "b", sparse.csr_array(x), blanks="zero")])
    models = [GCMF(4, random_state=0, progress=False).fit(data) for data in (whole, from_zeros)]
    assert [model.status_ for model in models] == [Status.CONVERGED] * 2
    left, right = (model.predict("x", i, j) - offset for model in models)
    np.testing.assert_allclose(left, right, atol=1e-3 * x.std())


def counts(mean):
    rng = np.random.default_rng(0)
    rate = mean * np.exp(0.5 * rng.normal(size=(80, 2)) @ rng.normal(size=(2, 60)))
    return rate, rng.poisson(rate)


@pytest.mark.filterwarnings("ignore::gcmf.errors.ModelWarning")
@pytest.mark.parametrize("mean", [1e3, 1e4, 1e5])
def test_large_counts_do_not_pass_for_converged(mean):
    """The quadratic bound takes steps a million times too short there: flat, but nowhere near the end."""
    _, x = counts(mean)
    model = GCMF(5, random_state=0, progress=False, max_iter=30)
    with pytest.warns(ConvergenceWarning, match=r"counts as large as those of 'x' .*likelihood='poisson'"):
        model.fit(Collection([Relation("x", "a", "b", x, Poisson("tight"))]))
    assert model.status_ is Status.MAX_ITER


@pytest.mark.parametrize("mean", [1e3, 1e5])
def test_the_advice_for_large_counts_is_good(mean):
    rate, x = counts(mean)
    # The two factors of log rate are many of softplus⁻¹(rate).
    model = GCMF(random_state=0, progress=False, tol=1e-5)
    model.fit(Collection([Relation("x", "a", "b", x, "poisson")]))
    assert model.status_ is Status.CONVERGED
    assert np.corrcoef(model.predict("x").ravel(), rate.ravel())[0, 1] > 0.99


def test_small_counts_are_not_warned_of():
    rng = np.random.default_rng(0)
    x = rng.poisson(np.log1p(np.exp(rng.normal(size=(80, 2)) @ rng.normal(size=(2, 60)))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GCMF(3, random_state=0, progress=False, tol=1e-4).fit(Collection([Relation("x", "a", "b", x, "poisson")]))
