"""What engines do with a state apart from sweeping it, against plain NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import cluster
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.model.posterior import Moments
from gcmf.options import FitOptions
from helpers import random_sample
from remote import RemoteEngine
from toys import GAUSSIAN, HYBRID, JAAKKOLA, triangle

ENGINES = {
    "reference": ("float64", ReferenceEngine),
    "cpu in float64": ("float64", partial(CpuEngine, dtype="float64", n_threads=1)),
    "cpu in float32": ("float32", partial(CpuEngine, dtype="float32", n_threads=1)),
    "on workers": ("float32", partial(cluster.nearby, dtype="float32")),
    "in another process": ("float32", partial(RemoteEngine, CpuEngine, dtype="float32", n_threads=1)),
}
RTOL = {np.dtype("float64"): 1e-12, np.dtype("float32"): 1e-6}


@pytest.fixture(params=ENGINES)
def placed(request):
    """A sample, and an engine that holds its state."""
    dtype, make = ENGINES[request.param]
    options = FitOptions(n_factors=3, dtype=dtype, bias={"r0": "rows"})
    sample = random_sample(triangle((GAUSSIAN, JAAKKOLA, HYBRID)), options, np.random.default_rng(0))
    return sample, sample.placed(make(sample.problem))


def assert_state(got, expected, rtol=0.0):
    """Compare all arrays of two states; to the bit if nothing else is said."""
    for ours, theirs in zip(got.groups(), expected.groups(), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def assert_sums(told, mean, var):
    """Σ (ū² + ũ) and Σ log ũ of each set and factor, the latter of the variances that there are."""
    square = [(m.astype(float) ** 2 + v.astype(float)).sum(axis=0) for m, v in zip(mean, var, strict=True)]
    log_var = [np.log(np.where(v > 0, v, 1.0).astype(float)).sum(axis=0) for v in var]
    np.testing.assert_allclose(told[0], square, rtol=1e-6)
    np.testing.assert_allclose(told[1], log_var, rtol=1e-6)


def test_a_state_is_taken_over_and_given_back_as_a_copy(placed):
    sample, engine = placed
    assert engine.dtype == sample.state.mean[0].dtype
    fetched = engine.fetch()
    assert_state(fetched, sample.state)
    for group in fetched.groups():
        for array in group:
            array[:] = 7.0
    assert_state(engine.fetch(), sample.state)


def test_columns_with_a_single_one_keep_and_copy_factors_to_the_bit(placed):
    sample, engine = placed
    chosen = [2, 0, 0, 1]
    told = engine.transform([np.eye(3)[:, chosen]] * 3)
    expected = sample.state.copy()
    expected.mean, expected.var = ([a[:, chosen] for a in group] for group in (expected.mean, expected.var))
    after = engine.fetch()
    assert_state(after, expected)
    assert all(a.dtype == engine.dtype and a.flags.c_contiguous for a in (*after.mean, *after.var))
    assert_sums(told, expected.mean, expected.var)


def test_columns_of_zeros_switch_off(placed):
    sample, engine = placed
    T = [np.eye(3) for _ in range(3)]
    T[1][:, 2] = 0.0
    told = engine.transform(T)
    expected = sample.state.copy()
    expected.mean[1][:, 2] = expected.var[1][:, 2] = 0.0
    assert_state(engine.fetch(), expected)
    assert told[0][1, 2] == told[1][1, 2] == 0.0
    assert_sums(told, expected.mean, expected.var)


@pytest.mark.parametrize("n_columns", [0, 1, 3, 5])
def test_any_transformation_of_means_and_variances(placed, n_columns):
    sample, engine = placed
    T = list(np.random.default_rng(1).normal(size=(3, 3, n_columns)))
    told = engine.transform(T)
    expected = sample.state.copy()
    expected.mean = [a.astype(float) @ t for a, t in zip(expected.mean, T, strict=True)]
    expected.var = [a.astype(float) @ t**2 for a, t in zip(expected.var, T, strict=True)]
    after = engine.fetch()
    assert_state(after, expected, RTOL[engine.dtype])
    assert_sums(told, after.mean, after.var)


def test_second_moments(placed):
    sample, engine = placed
    for M, mean, var in zip(engine.second_moments(), sample.state.mean, sample.state.var, strict=True):
        expected = sum(np.outer(u, u) + np.diag(v) for u, v in zip(mean.astype(float), var.astype(float), strict=True))
        np.testing.assert_allclose(M, expected, rtol=RTOL[engine.dtype])
        assert M.dtype == np.float64


def test_totals(placed):
    sample, engine = placed
    for e, mean in enumerate(sample.state.mean):
        total = engine.totals(e)
        np.testing.assert_allclose(total, mean.astype(float).sum(axis=0), rtol=RTOL[engine.dtype], atol=1e-12)
        assert total.dtype == np.float64


def test_scale(placed):
    sample, engine = placed
    factors = np.random.default_rng(1).uniform(0.5, 2.0, (3, 3))
    engine.scale(factors)
    expected = sample.state.copy()
    expected.mean = [a * np.sqrt(f) for a, f in zip(expected.mean, factors, strict=True)]
    expected.var = [a * f for a, f in zip(expected.var, factors, strict=True)]
    after = engine.fetch()
    assert_state(after, expected, RTOL[engine.dtype])
    assert after.mean[0].dtype == engine.dtype


def test_shift_moves_those_who_have_a_cell_in_the_relation(placed):
    sample, engine = placed
    step = np.array([0.3, 0.0, -0.7, 1.1, 0.0, 0.2])
    engine.shift(step)
    expected = sample.state.copy()
    assert any(not seen.all() for seen in sample.spec.in_layer), "somebody has none, or the test shows less"
    for layer, seen in enumerate(sample.spec.in_layer):
        expected.bias_mean[layer] = np.where(seen, expected.bias_mean[layer] + step[layer], expected.bias_mean[layer])
    assert_state(engine.fetch(), expected, RTOL[engine.dtype])


def test_extend(placed):
    sample, engine = placed
    rng = np.random.default_rng(1)
    mean, var = ([rng.uniform(0.1, 1.0, (d, 2)).astype(engine.dtype) for d in sample.spec.sizes] for _ in range(2))
    told = engine.extend(mean, var)
    expected = sample.state.copy()
    expected.mean = [np.hstack(pair) for pair in zip(expected.mean, mean, strict=True)]
    expected.var = [np.hstack(pair) for pair in zip(expected.var, var, strict=True)]
    assert_state(engine.fetch(), expected)
    assert_sums(told, mean, var)
    assert engine.fetch().mean[0].dtype == engine.dtype


def test_new_factors_are_swept(placed):
    """What was turned, dropped or added is what the next sweeps work with."""
    sample, engine = placed
    for e in range(3):
        engine.sweep(e, sample.given)
    expected = engine.fetch()
    engine.place(sample.state.copy())
    engine.transform([np.eye(3)[:, :2]] * 3)
    engine.extend([a[:, 2:] for a in sample.state.mean], [a[:, 2:] for a in sample.state.var])
    for e in range(3):
        engine.sweep(e, sample.given)
    assert_state(engine.fetch(), expected)


def test_what_is_kept_comes_back_however_often(placed):
    sample, engine = placed
    engine.keep("first")
    engine.sweep(0, sample.given)
    engine.shift(np.full(6, 0.5))
    later = engine.fetch()
    engine.keep("second")
    for _ in range(2):
        engine.restore("first")
        assert_state(engine.fetch(), sample.state)
        engine.scale(np.full((3, 3), 2.0))
        engine.sweep(1, sample.given)
    engine.restore("second")
    assert_state(engine.fetch(), later)


def test_what_is_kept_may_have_another_number_of_factors(placed):
    sample, engine = placed
    engine.keep("three")
    engine.transform([np.eye(3)[:, :2]] * 3)
    two = engine.fetch()
    engine.keep("two")
    engine.restore("three")
    assert_state(engine.fetch(), sample.state)
    engine.restore("two")
    assert_state(engine.fetch(), two)
    engine.keep("three")
    engine.transform([np.zeros((2, 0))] * 3)
    engine.restore("three")
    assert_state(engine.fetch(), two)


def test_what_is_dropped_is_gone(placed):
    sample, engine = placed
    engine.keep("slot")
    engine.drop("slot")
    with pytest.raises(KeyError):
        engine.restore("slot")
    assert_state(engine.fetch(), sample.state)


def test_what_was_kept_in_float32_comes_back_in_the_precision_of_now():
    """A relation that turns out to be precise is swept in float64 from then on."""
    options = FitOptions(n_factors=3, dtype="float32")
    sample = random_sample(triangle((GAUSSIAN,) * 3), options, np.random.default_rng(0))
    engine = sample.placed(CpuEngine(sample.problem, dtype="float32", n_threads=1))
    engine.keep("before")
    assert engine.dtype == np.float32
    engine.sweep(0, sample.knowing(parameters=(np.array([1e6, 1.0]),) * 3).given)
    assert engine.dtype == np.float64
    engine.restore("before")
    assert_state(engine.fetch(), sample.state)
    assert engine.dtype == np.float64
    engine.sweep(0, sample.given)


def test_a_leap_goes_on_in_the_direction_of_the_last_step(placed):
    sample, engine = placed
    engine.keep("start")
    start = engine.fetch()
    for e in range(3):
        engine.sweep(e, sample.given)
    there, rtol = engine.fetch(), 10 * RTOL[engine.dtype]
    square, biases = engine.leap("start", 2.5)
    after = engine.fetch()
    for name in ("mean", "bias_mean"):
        arrays = zip(*(getattr(state, name) for state in (start, there, after)), strict=True)
        for first, second, third in arrays:
            np.testing.assert_allclose(third, second + 2.5 * (second - first), rtol=rtol, atol=rtol)
    for name in ("var", "bias_var"):
        for second, third in zip(getattr(there, name), getattr(after, name), strict=True):
            np.testing.assert_array_equal(second, third)
    moments = Moments.of(after)
    np.testing.assert_allclose(square, moments.square, rtol=1e-6)
    np.testing.assert_allclose(biases, [moments.bias_sum, moments.bias_square], rtol=1e-6, atol=1e-6)
    engine.restore("start")
    assert_state(engine.fetch(), start)
