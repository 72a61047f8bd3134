"""Every engine computes what the reference computes: same collections, no parameter at its default."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import cluster
import gpu
from gcmf import Collection, Relation
from gcmf.engines import cpu, layout
from gcmf.engines.base import State
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.fit import fit
from gcmf.likelihoods import Gaussian, Poisson
from gcmf.options import FitOptions
from helpers import random_pattern, random_sample
from laplace import Laplace
from strategies import LIKELIHOODS, PRIORS, adversarial, every_size_may_be_dense, problems, relation, values
from toys import GAUSSIAN, HYBRID, JAAKKOLA

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
SEVERAL = {"float64": 1e-9, "float32": 1e-3}


def in_one_go(problem, dtype):
    """The compiled engine with dense relations as matrices, and every row in one go."""
    with mock.patch.multiple(layout, MIN_MATRIX=0, PIECE=10**9):
        return CpuEngine(problem, dtype=dtype, n_threads=1)


def cell_by_cell(problem, dtype):
    """The compiled engine cell by cell, with longer rows in pieces."""
    with mock.patch.multiple(layout, MIN_MATRIX=10**9, PIECE=3):
        return CpuEngine(problem, dtype=dtype, n_threads=1)


#: What makes the engines that are held against the reference: (problem, dtype) → engine.
ENGINES = (
    pytest.param(in_one_go, id="cpu"),
    pytest.param(cell_by_cell, id="cpu, cell by cell"),
    pytest.param(cluster.nearby, id="cluster"),
    pytest.param(gpu.on_device, id="gpu", marks=gpu.on_gpu),
    pytest.param(gpu.in_pieces, id="gpu, in pieces", marks=gpu.on_gpu),
)
every_engine = pytest.mark.parametrize("make", ENGINES)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE)


def close(got, expected, tolerance, what):
    """Relative to the size of what is compared, entry by entry and as a whole."""
    size = max(1.0, float(np.nanmax(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * size, err_msg=what)


def iterate(engine, state, given, n_sweeps=1, known=()):
    """All that full iterations tell (every `Swept`, a measurement, a weighing, moments) and leave behind.

    `known` are the sets with covariates.
    """
    engine.place(state)
    swept = [engine.sweep(e, given) for _ in range(n_sweeps) for e in range(len(state.mean))]
    told = {f"{name} {n}": value for n, of_set in enumerate(swept) for name, value in of_set._asdict().items()}
    told |= {"measured": engine.measure(given), "weighed": np.array(engine.weigh(given))}
    told |= {f"regressed {e}": engine.regress(e) for e in known}
    left = {f"{name} of {n}": a for name, group in vars(engine.fetch()).items() for n, a in enumerate(group)}
    told |= {f"totals {e}": engine.totals(e) for e in range(len(state.mean))}
    return told | left | {"second moments": engine.second_moments()}


def assert_agree(sample, make, tolerance, n_sweeps=1):
    """Compare an engine with the oracle, which is to work in float64 from the same numbers."""
    dtype = sample.state.mean[0].dtype.name
    wide = State(*([a.astype(np.float64) for a in group] for group in sample.state.groups()))
    given = sample.given._replace(priors=random_priors(sample))
    known = {design.e for design in sample.spec.designs}
    expected = iterate(ReferenceEngine(sample.problem), wide, given, n_sweeps, known)
    got = iterate(make(sample.problem, dtype=dtype), sample.state, given, n_sweeps, known)
    assert set(got) == set(expected)
    for what, value in expected.items():
        # Also where there is nothing: what a sweep does not complete, no engine measures.
        close(got[what], value, tolerance, what)


def random_priors(sample):
    """Priors of rows away from those of the model: means and precisions, each the same for all rows or not."""
    rng, priors = np.random.default_rng(0), []
    for prior, d in zip(sample.given.priors, sample.spec.sizes, strict=True):
        n_means, n_precisions, K = rng.choice([1, d]), rng.choice([1, d]), prior.mean.shape[1]
        mean = rng.choice([0.0, 0.5]) * rng.normal(size=(n_means, K))
        precision = rng.uniform(0.3, 3.0, (n_precisions, K))
        bias_mean = prior.bias_mean[:1] + rng.normal(size=(rng.choice([1, d]), prior.bias_mean.shape[1]))
        priors.append(prior._replace(mean=mean, precision=precision, bias_mean=bias_mean))
    return tuple(priors)


def make_sample(data, options, seed):
    """Everything random, and factors off in some sets."""
    return random_sample(data, options, np.random.default_rng(seed), random_pattern)


@every_engine
@every_dtype
@adversarial(40)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_one_iteration_agrees_with_the_reference(make, dtype, drawn, seed):
    data, options = drawn.draw(problems(dtype=dtype))
    assert_agree(make_sample(data, options, seed), make, TOLERANCE[dtype])


@every_engine
@every_dtype
@adversarial(20)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_several_iterations_agree_with_the_reference(make, dtype, drawn, seed):
    """What engines lose in a sweep does not grow in the next ones."""
    data, options = drawn.draw(problems(dtype=dtype))
    assert_agree(make_sample(data, options, seed), make, SEVERAL[dtype], n_sweeps=4)


@every_engine
@every_dtype
@pytest.mark.parametrize("noise", ["rows", "cols", "both"])
@adversarial(10)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_noise_of_rows_and_columns_agrees_with_the_reference(make, dtype, noise, drawn, seed):
    likelihoods = [Gaussian(noise), Gaussian(noise), *LIKELIHOODS]
    data, options = drawn.draw(problems(dtype=dtype, likelihoods=likelihoods))
    assert_agree(make_sample(data, options, seed), make, SEVERAL[dtype], n_sweeps=3)


def guarded_beside_noise():
    """Rows whose steps go too far, by their counts, beside numbers of which some rows tell far more than others."""
    rng = np.random.default_rng(0)
    numbers = Relation("x", "a", "b", values(Gaussian(), (30, 12), rng), Gaussian("rows"))
    counts = Relation("n", "a", "c", values(Poisson(), (30, 15), rng, scale=2.0), "poisson")
    sample = make_sample(Collection([numbers, counts]), FitOptions(n_factors=3, dtype="float64"), 0)
    precision = [np.exp(3.0 * rng.normal(size=30)), *sample.state.precision[1:]]
    far = [3.0 * mean for mean in sample.state.mean]
    return replace(sample, state=replace(sample.state, mean=far, precision=precision))


@every_engine
def test_guards_know_the_noise_of_rows(make):
    assert_agree(guarded_beside_noise(), make, 1e-9)


@every_engine
@adversarial(20)
@given(problem=problems(inference="map", priors=PRIORS[3]), seed=st.integers(0, 10**6))
def test_point_estimates_agree_with_the_reference(make, problem, seed):
    assert_agree(make_sample(*problem, seed), make, 1e-10)


def weighed(sample, seed):
    """The same sample with a random weight for each listed cell, as from one side, so from the other."""
    rng, order = np.random.default_rng(seed), {}
    blocks = [block for blocks in sample.problem.blocks for block in blocks if block.cells.members is None]
    for block in blocks:
        n, d = len(block.cells.partner), sample.problem.sizes[block.other]
        if block.side == 0:
            by_col = sparse.csr_array(
                (np.arange(n), block.cells.partner, block.cells.indptr), (len(block.cells.indptr) - 1, d)
            )
            order[block.relation, 0] = rng.choice([0.3, 1.0, 2.0, 250.0], n).astype(np.float32)
            order[block.relation, 1] = order[block.relation, 0][by_col.tocsc().data]
    heavy = [[replace(b, cells=replace(b.cells, weight=order.get((b.relation, b.side)))) for b in of_set]
             for of_set in sample.problem.blocks]  # fmt: skip
    return replace(sample, problem=replace(sample.problem, blocks=tuple(map(tuple, heavy))))


@every_engine
@every_dtype
@adversarial(40)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_weighed_cells_agree_with_the_reference(make, dtype, drawn, seed):
    data, options = drawn.draw(problems(dtype=dtype))
    # A cell that counts 250 times has a rounding error that does.
    assert_agree(weighed(make_sample(data, options, seed), seed), make, SEVERAL[dtype])


@pytest.mark.parametrize("make", [*ENGINES, lambda problem, dtype: ReferenceEngine(problem)])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_a_cell_of_weight_two_is_two_cells(make, likelihood):
    """Rows twice as heavy leave the columns where rows that come twice leave them."""
    x = values(likelihood, (7, 30), np.random.default_rng(5))
    once, twice = (
        make_sample(
            Collection([Relation("x", "a", "b", rows, likelihood)]), FitOptions(n_factors=3, dtype="float64"), 1
        )
        for rows in (x, np.concatenate([x, x]))
    )
    blocks = [[replace(b, cells=replace(b.cells, weight=np.full(b.cells.value.shape, 2.0, np.float32))) for b in of_set]
              for of_set in once.problem.blocks]  # fmt: skip
    problem = replace(once.problem, blocks=tuple(map(tuple, blocks)))
    # Both have the same rows, twice in one of them, and the same cells in the same units.
    other = replace(twice.problem, blocks=tuple(
        tuple(replace(theirs, center=ours.center, scale=ours.scale, offset=ours.offset)
              for ours, theirs in zip(*of_set, strict=True))
        for of_set in zip(once.problem.blocks, twice.problem.blocks, strict=True)))  # fmt: skip
    doubled = State(
        *([np.concatenate([a, a]) if n == 0 else a for n, a in enumerate(group)] for group in once.state.groups())
    )
    heavy, pair = (make(of, dtype="float64") for of in (problem, other))
    heavy.place(once.state.copy())
    pair.place(doubled)
    ours, theirs = (engine.sweep(1, once.given) for engine in (heavy, pair))
    close(ours.measured, theirs.measured, 1e-9, "measured")
    close(heavy.measure(once.given), pair.measure(once.given), 1e-9, "measured anew")
    for what in ("mean", "var", "bias_mean", "bias_var"):
        close(getattr(heavy.fetch(), what)[1], getattr(pair.fetch(), what)[1], 1e-9, what)


def wide_collection(likelihood, layout, seed=0):
    """Rows of more cells than one chunk holds, and more factors than one vector has lanes."""
    rng = np.random.default_rng(seed)
    one = relation("one", ("a", "b"), (11, 300), likelihood=likelihood, layout=layout, missing=0.2, rng=rng)
    two = relation("two", ("c", "a"), (5, 11), likelihood=GAUSSIAN, layout="listed", missing=0.2, rng=rng)
    with every_size_may_be_dense() if layout == "dense" else nullcontext():
        data = Collection([one, two])
    assert [own.cells.dense for own in data.relations.values()] == [layout == "dense"] * 2
    return data


@every_engine
@every_dtype
@pytest.mark.parametrize("layout", ["listed", "filled", "dense"])
@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, Laplace()], ids=repr)
def test_long_rows_and_many_factors_agree(make, likelihood, layout, dtype):
    if isinstance(likelihood, Laplace) and make in (gpu.on_device, gpu.in_pieces):
        pytest.skip("the GPU knows the likelihoods of the library")
    data = wide_collection(likelihood, layout)
    assert_agree(make_sample(data, FitOptions(n_factors=19, dtype=dtype), 1), make, TOLERANCE[dtype])


@every_engine
@every_dtype
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_rows_with_more_holes_than_a_chunk_agree(make, likelihood, dtype):
    """Nothing for two chunks, one cell at an end, exactly one chunk, and a column with one cell."""
    x = values(likelihood, (12, 200), np.random.default_rng(3))
    x[0, :150], x[1, :-1], x[2, 1:], x[3, 64:], x[4, ::2], x[5:, 7] = np.nan, np.nan, np.nan, np.nan, np.nan, np.nan
    with every_size_may_be_dense():
        data = Collection([Relation("x", "a", "b", x, likelihood)])
    assert data.relations["x"].cells.dense
    assert_agree(make_sample(data, FitOptions(n_factors=9, dtype=dtype), 1), make, TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("layout", ["listed", "filled", "dense"])
def test_threads_do_not_change_a_bit(monkeypatch, layout, dtype):
    monkeypatch.setattr(cpu, "RANGE_COST", 30)
    monkeypatch.setattr("gcmf.engines.layout.PIECE", 8)
    sample = make_sample(wide_collection(HYBRID, layout), FitOptions(n_factors=5, dtype=dtype), 2)
    runs = []
    for n_threads in (1, 2, 5):
        engine = CpuEngine(sample.problem, dtype=dtype, n_threads=n_threads)
        assert min(map(len, engine._edges.values())) > 2, "several ranges per set, or the test shows nothing"
        assert any(len(laid.pieces) for laid in engine._layouts.values()), "rows in pieces, or the test shows less"
        runs.append(iterate(engine, sample.state.copy(), sample.given))
    for other in runs[1:]:
        for what, value in runs[0].items():
            np.testing.assert_array_equal(value, other[what], err_msg=what)


def test_threads_do_not_change_a_bit_of_a_whole_fit(monkeypatch):
    monkeypatch.setattr(cpu, "RANGE_COST", 30)
    data = wide_collection(JAAKKOLA, "listed")
    runs = [fit(data, FitOptions(n_factors=6, max_iter=25, n_threads=n), np.random.default_rng(0), ()) for n in (1, 2)]
    assert runs[0].trace == runs[1].trace
    for a, b in zip(runs[0].state.mean, runs[1].state.mean, strict=True):
        np.testing.assert_array_equal(a, b)
