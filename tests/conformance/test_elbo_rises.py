"""The bound never falls by more than 1e-9 of its size, whatever the collection and the options."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

from gcmf.fit import fit
from gcmf.likelihoods import Gaussian, resolve
from gcmf.methods import warm_up
from gcmf.outcome import Status
from strategies import PRIORS, adversarial, problems

#: Sweeps of the warm-up, at most: short ones leave more sweeps for rotations, cuts and growth.
WARM_UPS = st.sampled_from([1, 6, warm_up.MAX_WARM_UP])
#: At zero a fit never rests, so it never tries to grow.
TOLERANCES = (0.0, 1e-4)


def assert_rises(problem, seed, n_warm):
    """Check every step of one fit."""
    data, options = problem
    with mock.patch.object(warm_up, "MAX_WARM_UP", n_warm):
        found = fit(data, options, np.random.default_rng(seed), ())
    trace = np.array(found.trace)
    assert np.isfinite(trace).all()
    assert len(trace) <= options.max_iter
    steps = np.diff(trace) / np.maximum(np.abs(trace[:-1]), 1.0)
    note(f"{found.status.name}, largest fall {-steps.min(initial=0.0):.3g} at {steps.argmin() if len(steps) else 0}")
    assert found.status in (Status.CONVERGED, Status.CAPPED, Status.MAX_ITER, Status.ALL_PRUNED)
    assert np.all(steps >= -1e-9)


@adversarial(100)
@given(drawn=st.data(), seed=st.integers(0, 1000), n_warm=WARM_UPS)
def test_compiled_sweeps_raise_the_bound(drawn, seed, n_warm):
    tol = drawn.draw(st.sampled_from(TOLERANCES))
    assert_rises(drawn.draw(problems(device="cpu", max_iter=40, tol=tol)), seed, n_warm)


@adversarial(25)
@given(drawn=st.data(), seed=st.integers(0, 1000), n_warm=WARM_UPS)
def test_reference_sweeps_raise_the_bound(drawn, seed, n_warm):
    tol = drawn.draw(st.sampled_from(TOLERANCES))
    assert_rises(drawn.draw(problems(max_size=6, device="reference", max_iter=30, tol=tol)), seed, n_warm)


@adversarial(40)
@given(problem=problems(device="cpu", max_iter=40, tol=0.0, inference="map", priors=PRIORS[3]),
       seed=st.integers(0, 9), n_warm=WARM_UPS)  # fmt: skip
def test_map_sweeps_raise_the_density(problem, seed, n_warm):
    assert_rises(problem, seed, n_warm)


@adversarial(60)
@given(drawn=st.data(), seed=st.integers(0, 1000), noise=st.sampled_from(["rows", "cols", "both"]))
def test_sweeps_that_learn_the_noise_of_rows_and_columns_raise_the_bound(drawn, seed, noise):
    likelihoods = [Gaussian(noise), Gaussian(noise), "bernoulli"]
    problem = drawn.draw(problems(device="cpu", max_iter=40, tol=0.0, likelihoods=[*map(resolve, likelihoods)]))
    assert_rises(problem, seed, warm_up.MAX_WARM_UP)
