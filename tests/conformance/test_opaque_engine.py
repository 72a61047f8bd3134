"""A fit needs no access to the state: through an engine in another process it is the same to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_cases import DATA, assert_sound, fitted
from gcmf import GCMF, Collection, Relation, Status
from gcmf.engines import select
from gcmf.fit import fit
from gcmf.methods.variational import MAX_UNPACKED
from gcmf.model.spec import build
from gcmf.options import FitOptions
from remote import OPERATIONS, RemoteEngine
from strategies import PRIORS, adversarial, problems

#: The engines of the library, which are to run elsewhere.
ENGINES = select.ENGINES
#: Operations that pass factors of all entities; `make` passes the cells.
LARGE = {"make", "place", "fetch", "extend"}


@pytest.fixture(autouse=True, scope="module")
def engines():
    """All remote engines that the tests of this file make, by way of two more devices."""
    made = []

    def maker(device):
        def make(problem, **options):
            made.append(RemoteEngine(ENGINES[device], problem, **options))
            return made[-1]

        return make

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "ENGINES", ENGINES | {f"remote {d}": maker(d) for d in ENGINES})
        yield made


@pytest.fixture(params=["cpu", "reference"])
def device(request):
    return request.param


def assert_same_bits(far, near):
    """Compare all that two fits have come to."""
    assert far.status is near.status
    assert far.trace == near.trace
    for theirs, ours in zip(far.state.groups(), near.state.groups(), strict=True):
        for a, b in zip(theirs, ours, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(far.posterior.on, near.posterior.on)
    np.testing.assert_array_equal(far.posterior.alpha.mean, near.posterior.alpha.mean)
    for a, b in zip(far.posterior.parameters, near.posterior.parameters, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_fits_alike(data, options, seed, device):
    """Fit here and in the other process."""
    far, near = (
        fit(data, replace(options, device=where), np.random.default_rng(seed), ())
        for where in (f"remote {device}", device)
    )
    assert_same_bits(far, near)


def several(n=60, seed=0):
    """Three relations of all kinds in a circle, with structure to find, a part of them missing."""
    rng = np.random.default_rng(seed)
    u = {"a": rng.normal(size=(n, 3)), "b": rng.normal(size=(n // 2, 3)), "c": rng.normal(size=(n // 3, 3))}
    theta = {(r, c): u[r][:, :2] @ u[c][:, :2].T for r, c in ("ab", "bc", "ca")}
    gaps = np.where(rng.random(theta["a", "b"].shape) < 0.2, np.nan, 0.0)
    likes = theta["b", "c"] + rng.logistic(size=theta["b", "c"].shape) > 0
    return Collection([
        Relation("ab", "a", "b", theta["a", "b"] + 0.5 * rng.normal(size=gaps.shape) + gaps),
        Relation("bc", "b", "c", likes.astype(float), "bernoulli"),
        Relation("ca", "c", "a", rng.poisson(np.exp(0.5 * theta["c", "a"])).astype(float), "poisson"),
    ])  # fmt: skip


def test_the_estimator_takes_it_as_a_device(device, engines):
    data, n_before = several(24), len(engines)
    far, near = (GCMF(5, device=where, random_state=0, tol=1e-4, progress=False).fit(data)
                 for where in (f"remote {device}", device))  # fmt: skip
    assert far.status_ is near.status_ is Status.CONVERGED
    np.testing.assert_array_equal(far.elbo_trace_, near.elbo_trace_)
    for name in data.relations:
        for a, b in zip(far.predict(name, return_std=True), near.predict(name, return_std=True), strict=True):
            np.testing.assert_array_equal(a, b)
    assert far.structure().equals(near.structure())
    assert far.variance_explained().equals(near.variance_explained())
    assert OPERATIONS - set(engines[n_before].calls) <= {"scale", "regress", "lean", "totals"}, (
        "a fit makes use of nearly all that engines can do"
    )


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")  # six draws are too few to tell
def test_draws_are_the_same_bits(device, engines, monkeypatch):
    data = several(15).select(["ab", "bc"])
    far, near = (
        GCMF(device=where, random_state=0, tol=1e-3, inference="gibbs", n_samples=6, n_burn=2, progress=False).fit(data)
        for where in (f"remote {device}", device)
    )
    np.testing.assert_array_equal(far.elbo_trace_, near.elbo_trace_)
    np.testing.assert_array_equal(far.predict("bc"), near.predict("bc"))
    # One for each of three sets in each of eight sweeps, but where nobody would see the factor.
    assert 8 <= max(engine.calls["lean"] for engine in engines) <= 24
    assert 8 <= max(engine.calls["totals"] for engine in engines) <= 24


def test_the_state_does_not_pass_between_the_processes(engines):
    """Sweeps, sums and moves pass a few numbers per factor, however many entities there are."""
    largest = {}
    for n in (60, 600):
        data, n_before = several(n), len(engines)
        run = fit(data, FitOptions(n_factors=6, tol=1e-4, device="remote cpu"), np.random.default_rng(0), ())
        engine = engines[n_before]
        assert run.status is Status.CONVERGED
        assert engine.calls["place"] == 1
        # Where entities lack some relation, factors are also looked through for what is packed.
        assert 1 <= engine.calls["fetch"] <= 1 + MAX_UNPACKED
        assert engine.calls["transform"] > 1
        assert engine.calls["extend"] >= 1
        assert engine.calls["sweep"] >= 3 * len(run.trace)
        state = sum(a.nbytes for group in run.state.groups() for a in group)
        assert engine.bytes["fetch"] > state
        largest[n] = max(size for operation, size in engine.bytes.items() if operation not in LARGE)
        assert engine.bytes["place"] > 6 * n * 2 * 4
    assert max(largest.values()) < 5000
    assert largest[600] < 1.2 * largest[60], "ten times the entities, and no more to pass"


def test_restarts_and_snapshots_too(device):
    """Every start is placed, and whoever asks for the run as it stands gets it."""
    data, seen = several(18), {}
    for where in (f"remote {device}", device):
        told = seen[where] = []
        options = FitOptions(n_factors=4, n_init=2, max_iter=12, device=where)
        fit(data, options, np.random.default_rng(0), [lambda info, told=told: told.append(info.snapshot())])
    assert len(seen[device]) > 12
    for far, near in zip(*seen.values(), strict=True):
        assert_same_bits(far, near)


def test_one_table_is_rescaled_there(engines):
    x = np.random.default_rng(0).normal(size=(30, 2)) @ np.random.default_rng(1).normal(size=(2, 12))
    x += 0.3 * np.random.default_rng(2).normal(size=x.shape)
    assert_fits_alike(Collection([Relation("x", "a", "b", x)]), FitOptions(n_factors=4, sharing="common"), 0, "cpu")
    assert engines[-1].calls["scale"] > 0


@adversarial(40)
@given(drawn=st.data(), seed=st.integers(0, 1000))
def test_any_fit_is_the_same_to_the_last_bit(drawn, seed):
    dtype, tol = drawn.draw(st.sampled_from(["float32", "float64"])), drawn.draw(st.sampled_from([0.0, 1e-4]))
    data, options = drawn.draw(problems(dtype=dtype, max_iter=40, tol=tol))
    assert_fits_alike(data, options, seed, "cpu")


@adversarial(10)
@given(problem=problems(max_size=6, max_iter=20, inference="map", priors=PRIORS[3]), seed=st.integers(0, 9))
def test_any_point_estimate_is_the_same_to_the_last_bit(problem, seed):
    assert_fits_alike(*problem, seed, "reference")


@pytest.mark.parametrize("case", DATA)
def test_every_answer_of_edge_cases_is_finite(case):
    data = DATA[case]()
    far = fitted(data, device="remote cpu")
    assert_sound(far, data)
    np.testing.assert_array_equal(far.elbo_trace_, fitted(data, device="cpu").elbo_trace_)


def test_an_error_of_the_engine_is_raised_here():
    _, problem = build(several(18), FitOptions())
    engine = RemoteEngine(ENGINES["reference"], problem, dtype="float64", n_threads=1)
    with pytest.raises(KeyError):
        engine.drop("never kept")
