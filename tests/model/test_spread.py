"""Variances after a fit: those of the formula, in every layout, and wide enough that intervals hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.fit import fit
from gcmf.model import spread as module
from gcmf.model.predict import theta_pairs
from gcmf.model.spread import spread
from gcmf.options import FitOptions
from helpers import random_pattern, random_sample


def by_the_formula(made, e, i):
    """C_i of one row, cell by cell: factors that are on, then the biases by block."""
    state, given, blocks, on = made.state, made.given, made.problem.blocks[e], made.given.on[e]
    n_on, prior = int(on.sum()), made.given.priors[e]
    A = np.diag(np.concatenate([np.broadcast_to(prior.precision, (made.spec.sizes[e], len(on)))[i, on],
                                prior.bias_precision])).astype(float)  # fmt: skip
    for b, block in enumerate(blocks):
        partners, values = block.cells.row(i)
        weight = block.cells.weight
        for n, (j, x) in enumerate(zip(partners, values, strict=True)):
            p, p_var = (a[block.other][j].astype(float) for a in (state.mean, state.var))
            if given.scales is not None:
                p, p_var = given.scales.scaled(block.relation, block.side, p, p_var)
            u, u_var = state.mean[e][i].astype(float), state.var[e][i].astype(float)
            bias, bias_var = (a[block.layer][i] + a[block.other_layer][j] for a in (state.bias_mean, state.bias_var))
            m, v = u @ p + bias + block.offset, u_var @ (p_var + p**2) + u**2 @ p_var + bias_var
            cell = (np.array([y]) for y in ((x - block.center) / block.scale, m, v))
            w = block.likelihood.quadratic(*cell, given.parameters[block.relation])[0][0]
            w *= 1.0 if weight is None else weight[block.cells.indptr[i] + n]
            if given.noise is not None:
                w *= state.precision[block.layer][i] * state.precision[block.other_layer][j]
            w = 1.0 / (1.0 / w + u**2 @ p_var + state.bias_var[block.other_layer][j])
            at = np.concatenate([p[on], np.arange(len(blocks)) == b]) * np.append(
                np.ones(n_on), np.full(len(blocks), made.problem.biased[block.layer])
            )
            A += w * np.outer(at, at)
    return np.diag(np.linalg.inv(A))


def collections():
    rng = np.random.default_rng(3)
    x = np.where(rng.random((9, 7)) < 0.4, np.nan, rng.normal(size=(9, 7)))
    x[2] = np.nan
    counts = rng.poisson(1.0, (9, 6)).astype(float)
    ones = (rng.random((7, 8)) < 0.5).astype(float)
    yield "chain", [Relation("x", "a", "b", x), Relation("y", "b", "c", ones, "bernoulli")]
    filled = Relation("y", "a", "c", sparse.csr_array(counts), "poisson", blanks="zero")
    yield "filled", [Relation("x", "a", "b", x), filled]
    yield "counts", [Relation("y", "a", "c", counts, "negative_binomial"), Relation("z", "a", "c", counts + 0.5)]
    links = np.where(rng.random((8, 8)) < 0.3, np.nan, rng.normal(size=(8, 8)))
    yield "directed", [Relation("x", "a", "a", links, symmetric=False), Relation("y", "a", "b", x[:8])]
    yield "symmetric", [Relation("x", "a", "a", links + links.T, symmetric=True)]
    frame = pd.DataFrame({"i": [0, 0, 1, 2], "j": [0, 1, 1, 0], "x": [1.0, 2.0, 0.5, -1.0], "n": [1.0, 3.0, 0.5, 2.0]})
    yield "weights", [Relation.from_frame("x", frame, rows="a", cols="b", row="i", col="j", value="x", weight="n")]


@pytest.mark.parametrize(
    ("name", "relations"), list(collections()), ids=lambda one: one if isinstance(one, str) else ""
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variances_are_those_of_the_formula(name, relations, dtype):
    data = Collection(relations)
    made = random_sample(data, FitOptions(n_factors=3, dtype=dtype), np.random.default_rng(0), random_pattern)
    found = spread(made.problem, made.given, made.state)
    for e, size in enumerate(made.spec.sizes):
        for i in range(size):
            has = [bool(len(block.cells.row(i)[0])) for block in made.problem.blocks[e]]
            on = made.given.on[e]
            if not any(has):
                assert not found.var[e][i].any()
                continue
            wanted = by_the_formula(made, e, i)
            np.testing.assert_allclose(
                found.var[e][i, on], wanted[: on.sum()], rtol=2e-6 if dtype == "float32" else 1e-8
            )
            assert not found.var[e][i, ~on].any()
            for b, block in enumerate(made.problem.blocks[e]):
                there = has[b] and made.problem.biased[block.layer]
                value = found.bias_var[block.layer][i]
                assert value == pytest.approx(wanted[on.sum() + b] if there else 0.0, rel=2e-6), name


def test_some_cells_of_long_rows_stand_for_all(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 4000))
    listed = Relation("x", "a", "b", (*np.nonzero(x > -9), x.ravel()))
    filled = Relation("x", "a", "b", sparse.csr_array(np.where(rng.random(x.shape) < 0.02, 1.0, 0.0)), blanks="zero")
    for relation in (listed, filled):
        made = random_sample(Collection([relation]), FitOptions(n_factors=2), np.random.default_rng(0))
        some = spread(made.problem, made.given, made.state)
        monkeypatch.setattr(module, "MOST", 10**6)
        every = spread(made.problem, made.given, made.state)
        monkeypatch.undo()
        assert not np.array_equal(some.var[0], every.var[0])
        np.testing.assert_allclose(some.var[0], every.var[0], rtol=0.25)  # 1/√512 and its likes, seven times as much
        np.testing.assert_array_equal(some.var[1], every.var[1])  # short rows are looked at as they are


@pytest.mark.parametrize("batch", [1, 1 << 21])
def test_threads_and_batches_do_not_matter(monkeypatch, batch):
    rng = np.random.default_rng(2)
    x = np.where(rng.random((90, 40)) < 0.7, np.nan, rng.normal(size=(90, 40)))
    made = random_sample(Collection([Relation("x", "a", "b", x)]), FitOptions(n_factors=4), rng)
    first = spread(made.problem, made.given, made.state, n_threads=1)
    again = spread(made.problem, made.given, made.state, n_threads=3)
    np.testing.assert_array_equal(first.var[0], again.var[0])
    monkeypatch.setattr(module, "_BATCH", batch)
    for one, other in zip(first.var + first.bias_var, spread(made.problem, made.given, made.state).var, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def five_cells_per_row(seed):
    """Cells of two factors, five in each of many rows, and θ of all."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(600, 2)) @ (0.7 * rng.normal(size=(2, 40))) + 0.5 * rng.normal(size=(600, 1))
    seen = rng.random(theta.shape).argsort(axis=1) < 5
    return theta, seen, np.where(seen, theta + 0.4 * rng.normal(size=theta.shape), np.nan)


def test_intervals_of_few_cells_hold():
    """Of q, 95% intervals of θ hold 90% where rows have five cells; with what a model has they hold what they say."""
    shares = []
    for seed in range(3):
        theta, seen, x = five_cells_per_row(seed)
        data = Collection([Relation("x", "a", "b", x)])
        result = fit(data, FitOptions(n_factors=5, widened=True), np.random.default_rng(0), ())
        assert result.posterior.n_strong == 2
        i, j = np.nonzero(~seen)
        for one in (replace(result, widths=None), result):
            model = one.summarize(data)
            mean, var = theta_pairs(model, 0, i, j)
            away = np.abs((theta[i, j] - model.center[0]) / model.scale[0] - mean) / np.sqrt(var)
            shares.append([np.mean(away < z) for z in (0.674, 1.282, 1.96)])
    narrow, wide = np.mean(shares[::2], axis=0), np.mean(shares[1::2], axis=0)
    assert narrow[2] < 0.915
    np.testing.assert_allclose(wide, [0.5, 0.8, 0.95], atol=0.03)


def test_models_have_them_and_estimates_are_as_before():
    _, _, x = five_cells_per_row(0)
    data = Collection([Relation("x", "a", "b", x)])
    model = gcmf.GCMF(5, random_state=0, n_threads=1).fit(data)
    plain = fit(data, FitOptions(n_factors=5), np.random.default_rng(0), ()).summarize(data)
    np.testing.assert_array_equal(model.fitted_.mean[0], plain.mean[0])
    assert np.all(model.fitted_.var[0] >= plain.var[0] * (1 - 1e-5))
    assert np.median(model.fitted_.var[0] / plain.var[0]) > 1.1


def test_points_have_no_width():
    _, _, x = five_cells_per_row(0)
    priors = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
    model = gcmf.GCMF(2, inference="map", priors=priors, tol=1e-3, random_state=0).fit([Relation("x", "a", "b", x)])
    assert not model.fitted_.var[0].any()


def test_what_overflows_keeps_the_variance_of_q():
    made = random_sample(Collection([Relation("x", "a", "b", np.eye(4))]), FitOptions(n_factors=2, dtype="float64"),
                         np.random.default_rng(0))  # fmt: skip
    made.state.mean[1][:] = 1e200
    found = spread(made.problem, made.given, made.state)
    np.testing.assert_array_equal(found.var[0], made.state.var[0])
