"""The bound never falls by more than 1e-9 of its size, whatever the collection and the options."""

from __future__ import annotations

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

from gcmf.fit import fit
from strategies import PRIORS, adversarial, problems


def assert_rises(data, chosen, seed):
    """Check every step of one fit."""
    found = fit(data, chosen, np.random.default_rng(seed), ())
    trace = np.array(found.trace)
    assert np.isfinite(trace).all()
    steps = np.diff(trace) / np.maximum(np.abs(trace[:-1]), 1.0)
    note(f"{found.status.name}, largest fall {-steps.min(initial=0.0):.3g} at {steps.argmin() if len(steps) else 0}")
    assert np.all(steps >= -1e-9)


@adversarial(200)
@given(problem=problems(device="cpu", max_iter=40, tol=0.0), seed=st.integers(0, 1000))
def test_compiled_sweeps_raise_the_bound(problem, seed):
    assert_rises(*problem, seed)


@adversarial(25)
@given(problem=problems(max_size=6, device="reference", max_iter=30, tol=0.0), seed=st.integers(0, 1000))
def test_reference_sweeps_raise_the_bound(problem, seed):
    assert_rises(*problem, seed)


@adversarial(40)
@given(problem=problems(device="cpu", max_iter=40, tol=0.0, inference="map", priors=PRIORS[3]), seed=st.integers(0, 9))
def test_map_sweeps_raise_the_density(problem, seed):
    assert_rises(*problem, seed)
