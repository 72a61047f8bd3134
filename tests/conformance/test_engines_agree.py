"""Every engine computes what the reference computes: same collections, no parameter at its default."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcmf import Collection
from gcmf.engines import cpu, layout
from gcmf.engines.base import Given, RowPrior, State
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.fit import fit
from gcmf.model.spec import build
from gcmf.options import FitOptions
from laplace import Laplace
from strategies import LIKELIHOODS, PRIORS, adversarial, problems, relation

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
SEVERAL = {"float64": 1e-9, "float32": 1e-3}


def close(got, expected, tolerance, what):
    """Relative to the size of what is compared, entry by entry and as a whole."""
    size = max(1.0, float(np.nanmax(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * size, err_msg=what)


def iterate(engine, state, given, n_sweeps=1):
    """All that full iterations tell: every `Swept`, then a measurement and a weighing."""
    engine.place(state)
    swept = [engine.sweep(e, given) for _ in range(n_sweeps) for e in range(len(state.mean))]
    told = {f"{name} {n}": value for n, one in enumerate(swept) for name, value in one._asdict().items()}
    return {**told, "measured": engine.measure(given), "weighed": np.array(engine.weigh(given))}


def left(engine):
    """All that iterations leave behind."""
    return {f"{name} of {n}": a for name, group in vars(engine.fetch()).items() for n, a in enumerate(group)}


def assert_agree(problem, state, given, tolerance, n_sweeps=1):
    """Compare everything that full iterations tell and leave behind.

    Once with dense relations as matrices and every row in one go, once cell by cell with longer rows in pieces.
    """
    for smallest, piece in ((0, 10**9), (10**9, 3)):
        assert_layout_agrees(problem, state, given, tolerance, n_sweeps, smallest=smallest, piece=piece)


def assert_layout_agrees(problem, state, given, tolerance, n_sweeps, *, smallest, piece):
    """Compare for one choice of layouts: matrices from this many cells on, and rows in pieces of this many."""
    with mock.patch.multiple(layout, MIN_MATRIX=smallest, PIECE=piece):
        engine = CpuEngine(problem, dtype=state.mean[0].dtype.name, n_threads=1)
    # The oracle is to work in float64 from the same numbers.
    reference, wide = (
        ReferenceEngine(problem),
        State(*([a.astype(np.float64) for a in group] for group in state.groups())),
    )
    got = iterate(engine, state.copy(), given, n_sweeps) | left(engine)
    expected = iterate(reference, wide, given, n_sweeps) | left(reference)
    assert set(got) == set(expected)
    for what, value in expected.items():
        # Also where there is nothing: what a sweep does not complete, no engine measures.
        close(got[what], value, tolerance, what)


def make(data, options, seed):
    """A problem, a random state, and random numbers for all that is given; nothing at its default."""
    rng = np.random.default_rng(seed)
    spec, problem = build(data, options)
    on = rng.random((len(spec.sizes), options.n_factors)) < 0.7
    on[:, 0] = True
    point = 0.0 if spec.point else 1.0
    mean, var, bias, bias_var = [], [], [], []
    for present, active in zip(spec.observed, on, strict=True):
        seen = present[:, None] & active
        mean.append(np.where(seen, 0.7 * rng.normal(size=seen.shape), 0.0).astype(options.dtype))
        var.append(np.where(seen, point * rng.uniform(0.05, 0.4, seen.shape), 0.0).astype(options.dtype))
    for seen, biased in zip(spec.in_layer, spec.biased, strict=True):
        bias.append(np.where(seen & biased, 0.5 * rng.normal(size=len(seen)), 0.0).astype(options.dtype))
        bias_var.append(np.where(seen & biased, point * rng.uniform(0.05, 0.4, len(seen)), 0.0).astype(options.dtype))
    priors = tuple(random_prior(spec, e, options.n_factors, rng) for e in range(len(spec.sizes)))
    starts = [kind.start(7.0, 3.0, spec.parameter_prior) for kind in spec.likelihoods]
    # A curvature cannot be chosen; shape and rate of what is learned can.
    parameters = tuple(rng.uniform(0.5, 3.0, 2) if len(start) == 2 else start for start in starts)
    slope = np.array([kind.slope(p) for kind, p in zip(spec.likelihoods, parameters, strict=True)])
    return problem, State(mean, var, bias, bias_var), Given(on, priors, parameters, slope)


def random_prior(spec, e, n_factors, rng):
    """Of a mean and a precision, each the same for all rows or not."""
    n_means, n_precisions = (rng.choice([1, spec.sizes[e]]) for _ in range(2))
    layers = spec.layers[e]
    biased = np.array(spec.biased)[layers]
    return RowPrior(
        rng.choice([0.0, 1.0]) * rng.normal(size=(n_means, n_factors)),
        rng.uniform(0.3, 3.0, (n_precisions, n_factors)),
        np.where(biased, rng.normal(size=len(biased)), 0.0),
        np.where(biased, rng.uniform(0.5, 3.0, len(biased)), 1.0),
        spec.point,
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@adversarial(60)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_one_iteration_agrees_with_the_reference(dtype, drawn, seed):
    data, options = drawn.draw(problems(dtype=dtype))
    assert_agree(*make(data, options, seed), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@adversarial(30)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_several_iterations_agree_with_the_reference(dtype, drawn, seed):
    """What engines lose in a sweep does not grow in the next ones."""
    data, options = drawn.draw(problems(dtype=dtype))
    assert_agree(*make(data, options, seed), SEVERAL[dtype], n_sweeps=4)


@adversarial(30)
@given(problem=problems(inference="map", priors=PRIORS[3]), seed=st.integers(0, 10**6))
def test_point_estimates_agree_with_the_reference(problem, seed):
    assert_agree(*make(*problem, seed), 1e-10)


def wide_collection(likelihood, layout, seed=0):
    """Rows of more cells than one chunk holds, and more factors than one vector has lanes."""
    rng = np.random.default_rng(seed)
    one = relation("one", ("a", "b"), (11, 300), likelihood=likelihood, layout=layout, missing=0.2, rng=rng)
    two = relation("two", ("c", "a"), (5, 11), likelihood=LIKELIHOODS[0], layout="listed", missing=0.2, rng=rng)
    return Collection([one, two])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["listed", "filled"])
@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, Laplace()], ids=repr)
def test_long_rows_and_many_factors_agree(likelihood, layout, dtype):
    data = wide_collection(likelihood, layout)
    assert_agree(*make(data, FitOptions(n_factors=19, dtype=dtype), 1), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["listed", "filled"])
def test_threads_do_not_change_a_bit(monkeypatch, layout, dtype):
    monkeypatch.setattr(cpu, "RANGE_COST", 30)
    monkeypatch.setattr("gcmf.engines.layout.PIECE", 8)
    problem, state, given = make(wide_collection(LIKELIHOODS[5], layout), FitOptions(n_factors=5, dtype=dtype), 2)
    runs = []
    for n_threads in (1, 2, 5):
        engine = CpuEngine(problem, dtype=dtype, n_threads=n_threads)
        assert min(map(len, engine._edges)) > 2, "several ranges per set, or the test shows nothing"
        assert any(len(one.pieces) for one in engine._layouts), "rows in pieces, or the test shows less"
        runs.append(iterate(engine, state.copy(), given) | left(engine))
    for other in runs[1:]:
        for what, value in runs[0].items():
            np.testing.assert_array_equal(value, other[what], err_msg=what)


def test_threads_do_not_change_a_bit_of_a_whole_fit(monkeypatch):
    monkeypatch.setattr(cpu, "RANGE_COST", 30)
    data = wide_collection(LIKELIHOODS[1], "listed")
    runs = [fit(data, FitOptions(n_factors=6, max_iter=25, n_threads=n), np.random.default_rng(0), ()) for n in (1, 2)]
    assert runs[0].trace == runs[1].trace
    for a, b in zip(runs[0].state.mean, runs[1].state.mean, strict=True):
        np.testing.assert_array_equal(a, b)
