"""The GPU engine on an emulated device, where every lane is a fiber: the same kernels, compiled by g++."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import test_engines_agree as agree
from hypothesis import given
from hypothesis import strategies as st

import gpu
from gcmf import Collection, Relation
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.gpu.source import width_of
from gcmf.errors import OptionError
from gcmf.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson
from gcmf.options import FitOptions
from helpers import random_sample
from laplace import Laplace
from strategies import LIKELIHOODS, adversarial, network, problems

pytestmark = gpu.with_compiler
every_dtype = pytest.mark.parametrize("dtype", agree.TOLERANCE)


@every_dtype
@adversarial(20)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_any_problem(dtype, drawn, seed):
    data, options = drawn.draw(problems(dtype=dtype))
    agree.assert_agree(agree.make_sample(data, options, seed), gpu.emulated, agree.SEVERAL[dtype], n_sweeps=2)


@every_dtype
@pytest.mark.parametrize("noise", ["rows", "cols", "both"])
@adversarial(8)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_noise_of_rows_and_columns(noise, dtype, drawn, seed):
    likelihoods = [Gaussian(noise), Gaussian(noise), *LIKELIHOODS]
    data, options = drawn.draw(problems(dtype=dtype, likelihoods=likelihoods))
    make = gpu.emulated if dtype == "float32" else gpu.streamed
    agree.assert_agree(agree.make_sample(data, options, seed), make, agree.SEVERAL[dtype], n_sweeps=2)


@adversarial(10)
@given(drawn=st.data(), seed=st.integers(0, 10**6))
def test_weighed_cells(drawn, seed):
    data, options = drawn.draw(problems(dtype="float64"))
    sample = agree.weighed(agree.make_sample(data, options, seed), seed)
    agree.assert_agree(sample, gpu.streamed, agree.SEVERAL["float64"])


@every_dtype
@pytest.mark.parametrize(("n", "likelihood"), list(enumerate(LIKELIHOODS)), ids=repr)
def test_long_rows(n, likelihood, dtype):
    """In several pieces and batches, each layout with some likelihood in each precision; streamed in one of them."""
    layout = ("listed", "filled", "dense")[(n + (dtype == "float32")) % 3]
    sample = agree.make_sample(agree.wide_collection(likelihood, layout), FitOptions(n_factors=11, dtype=dtype), 1)
    make = gpu.emulated if dtype == "float32" else gpu.streamed
    agree.assert_agree(sample, make, agree.TOLERANCE[dtype])


@pytest.mark.parametrize("n_factors", [19, 40, 60, 70])
@pytest.mark.parametrize("likelihood", [Gaussian(), Gaussian("both"), Bernoulli()], ids=repr)
def test_every_way_to_sum_products(likelihood, n_factors):
    """Two, three and four pairs of matrices, and panels."""
    data = agree.wide_collection(likelihood, "listed")
    sample = random_sample(data, FitOptions(n_factors=n_factors), np.random.default_rng(0))
    agree.assert_agree(sample, gpu.emulated, 2.0 * agree.TOLERANCE["float32"])


def test_widths():
    assert [width_of(n, np.dtype("float32")) for n in (0, 1, 16, 17, 64, 65)] == [16, 16, 16, 32, 64, 96]
    assert [width_of(n, np.dtype("float64")) for n in (0, 16, 33, 65)] == [32, 32, 64, 96]


def drawn_rows(make, sample, keys, *, proposing=False):
    """Means and covariances of the rows of the first set over many draws from the same state."""
    given_key, rows = sample.given, []
    for key in keys:
        engine = make(sample.problem, dtype="float64")
        engine.place(sample.state.copy())
        engine.sweep(0, given_key._replace(key=key, proposing=proposing))
        state = engine.fetch()
        rows.append(np.concatenate([state.mean[0], state.bias_mean[0][:, None]], axis=1))
    return np.array(rows)


@pytest.mark.parametrize(
    "likelihood",
    [Gaussian("relation"), Gaussian(), Bernoulli(), NegativeBinomial(), Poisson(), "rare ones"], ids=repr,
)  # fmt: skip
def test_draws_have_the_moments_of_those_of_the_compiled_engine(likelihood):
    rng = np.random.default_rng(2)
    rare = likelihood == "rare ones"
    likelihood = Bernoulli() if rare else likelihood
    x = (rng.random((6, 40)) < 0.03).astype(float) if rare else agree.values(likelihood, (6, 40), rng, scale=0.5)
    options = FitOptions(n_factors=2, dtype="float64", priors=agree.PRIORS[3])
    sample = random_sample(Collection([Relation("x", "a", "b", x, likelihood)]), options, rng)
    points = [[np.zeros_like(a) for a in group] for group in (sample.state.var, sample.state.bias_var)]
    sample = replace(sample, state=replace(sample.state, var=points[0], bias_var=points[1]))
    assert bool(sample.state.precision) == (likelihood.noise == "both")
    keys = range(100)
    ours = drawn_rows(gpu.emulated, sample, keys, proposing=rare)
    theirs = drawn_rows(partial(CpuEngine, n_threads=1), sample, keys, proposing=rare)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / len(keys)) + 1e-12
    assert np.abs((ours.mean(axis=0) - theirs.mean(axis=0)) / error).max() < 5.0
    assert np.abs(np.log(ours.std(axis=0).mean() / theirs.std(axis=0).mean())) < 0.15


@pytest.mark.parametrize("noise", ["relation", "both"])
@pytest.mark.parametrize("key", [None, 7])
def test_what_cells_say_of_a_factor(key, noise):
    rng = np.random.default_rng(1)
    data = Collection([Relation("x", "a", "b", agree.values(Gaussian(), (9, 50), rng), Gaussian(noise))])
    sample = agree.make_sample(data, FitOptions(n_factors=4, dtype="float64"), 3)
    engine = gpu.emulated(sample.problem, "float64")
    engine.place(sample.state.copy())
    for e in range(2):
        for k in np.flatnonzero(sample.given.on[e]):
            expected = sample.placed().lean(e, k, sample.given._replace(key=key))
            agree.close(engine.lean(e, k, sample.given._replace(key=key)), expected, 1e-9, f"{e}, {k}")


def noisy_sample(dtype="float64"):
    x = agree.values(Gaussian(), (70, 40), np.random.default_rng(1))
    data = Collection([Relation("x", "a", "b", x, Gaussian("both"))])
    return agree.make_sample(data, FitOptions(n_factors=3, dtype=dtype), 3)


def test_guards_know_the_noise_of_rows():
    agree.assert_agree(agree.guarded_beside_noise(), gpu.emulated, 1e-9)


def test_noise_is_part_of_the_state():
    """Kept, restored, and there when factors come and go; always in float64."""
    sample = noisy_sample("float32")
    engine = gpu.emulated(sample.problem, "float32")
    engine.place(sample.state.copy())
    before = engine.fetch().precision
    engine.keep("here")
    engine.sweep(0, sample.given)
    swept = engine.fetch().precision
    assert not np.array_equal(swept[0], before[0])
    engine.transform([np.eye(3)[:, :2]] * 2)
    engine.extend([np.zeros((d, 1)) for d in sample.problem.sizes], [np.ones((d, 1)) for d in sample.problem.sizes])
    for expected in (swept, before):
        for array, same in zip(engine.fetch().precision, expected, strict=True):
            assert array.dtype == np.float64
            np.testing.assert_array_equal(array, same)
        engine.restore("here")


def test_draws_leave_the_noise_as_it_is():
    sample = noisy_sample()
    engine = gpu.emulated(sample.problem, "float64")
    engine.place(sample.state.copy())
    engine.sweep(0, sample.given._replace(key=3))
    for array, same in zip(engine.fetch().precision, sample.state.precision, strict=True):
        np.testing.assert_array_equal(array, same)


def test_layers_that_have_the_noise_of_their_relation_again():
    """Where ν has grown, nobody looks at the precisions that are still there."""
    sample = noisy_sample()
    for layer in range(2):
        half = sample.given.noise.copy()
        half[layer] = np.inf
        less = sample.given._replace(noise=half)
        expected, found = (
            agree.iterate(engine, sample.state.copy(), less)
            for engine in (sample.placed(), gpu.emulated(sample.problem, "float64"))
        )
        for what, value in expected.items():
            agree.close(found[what], value, 1e-9, what)


def test_a_network_is_swept_in_the_same_order():
    rng = np.random.default_rng(4)
    data = Collection([network("a", 14, rng, symmetric=True, likelihood=Bernoulli(), layout="filled", missing=0.3)])
    agree.assert_agree(agree.make_sample(data, FitOptions(n_factors=3, dtype="float64"), 1), gpu.emulated, 1e-9, 3)


def test_an_unknown_likelihood_is_refused():
    data = Collection([Relation("x", "a", "b", np.random.default_rng(0).normal(size=(5, 4)), Laplace())])
    sample = agree.make_sample(data, FitOptions(n_factors=2), 0)
    with pytest.raises(OptionError, match="device='cpu'"):
        gpu.emulated(sample.problem, "float32")
