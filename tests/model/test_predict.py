"""Grids are pairs, and what is explained is measured on cells from everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gcmf.data.collection import Collection
from gcmf.data.parts import pick
from gcmf.data.relation import Relation
from gcmf.model import explained, predict
from gcmf.model.fitted import summarize
from gcmf.options import FitOptions
from helpers import random_pattern, random_sample


def collection(likelihood, shape=(9, 7)):
    rng = np.random.default_rng(0)
    draws = {"gaussian": rng.normal(size=shape), "bernoulli": rng.random(shape) < 0.4, "poisson": rng.poisson(3, shape)}
    draws["negative_binomial"] = draws["poisson"]
    return Collection([Relation("x", "a", "b", draws[likelihood], likelihood)])


def random_model(data, n_factors=3):
    """A model of a collection whose every number is random."""
    made = random_sample(data, FitOptions(n_factors=n_factors), np.random.default_rng(0), random_pattern)
    return summarize(made.spec, made.posterior, made.state, data)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "negative_binomial"])
@pytest.mark.parametrize("tile", [(128, 1024), (2, 3)])
def test_a_grid_is_its_pairs(likelihood, tile, monkeypatch):
    monkeypatch.setattr(predict, "_TILE", tile)
    model = random_model(collection(likelihood))
    i, j = np.array([3, -1, 0, 8, 3]), np.array([6, 0, -1, 2])  # one twice, and on each side one known by its prior
    grid = predict.predict_grid(model, 0, i, j, level=0.7)
    pairs = predict.predict_pairs(model, 0, np.repeat(i, len(j)), np.tile(j, len(i)), level=0.7)
    assert len(grid) == 4
    for whole, each in zip(grid, pairs, strict=True):
        assert whole.shape == (5, 4)
        np.testing.assert_allclose(whole.ravel(), each, rtol=1e-12)


def test_a_grid_forms_no_pairs(monkeypatch):
    monkeypatch.setattr(predict, "theta_pairs", None)
    assert predict.predict_grid(random_model(collection("gaussian")), 0, np.arange(9), np.arange(7)).std.min() > 0


def test_an_empty_grid_has_its_shape():
    model = random_model(collection("gaussian"))
    assert predict.predict_grid(model, 0, np.empty(0, np.int64), np.arange(3)).mean.shape == (0, 3)


# --- variance explained -------------------------------------------------------------------------------------


def planted(width, *, filled=False):
    """A complete matrix in which every fifth column holds nothing, and a model that knows the rest exactly."""
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(100, 1)), rng.normal(size=(width, 1))
    v[::5] = 0
    noise = np.where(v.T == 0, 0.3, 0.01) * rng.normal(size=(100, width))
    x = u @ v.T + noise
    data = sparse.csr_array(x) if filled else x
    collected = Collection([Relation("x", "a", "b", data, blanks="zero" if filled else None)])
    made = random_sample(collected, FitOptions(n_factors=1, bias=False), rng)
    made.state.mean[0][:], made.state.mean[1][:] = u, v / made.spec.scale[0]
    return made, collected


def explain(made, data):
    """What a model of everything random, or planted, explains."""
    return explained.explain(made.spec, made.known, made.state, data)


@pytest.mark.parametrize("filled", [False, True], ids=["listed", "filled"])
def test_a_part_of_the_cells_tells_what_all_of_them_tell(filled, monkeypatch):
    made, data = planted(200, filled=filled)
    everything = explain(made, data)
    monkeypatch.setattr(explained, "MAX_CELLS", 4000)  # every fifth cell, which are those of every fifth column
    part = explain(made, data)
    assert everything.total[0] > 0.8
    assert abs(part.total[0] - everything.total[0]) < 0.02
    assert abs(part.factors[0, 0] - everything.factors[0, 0]) < 0.02
    again = explain(made, data)
    np.testing.assert_array_equal(part.total, again.total)


def test_rare_ones_are_not_left_to_chance(monkeypatch):
    """Of 120,000 cells 300 are ones: two thousand cells drawn evenly would hold five of them."""
    rng = np.random.default_rng(3)
    rows, cols = (rng.random(d) < 0.05 for d in (400, 300))
    x = sparse.csr_array(np.outer(rows, cols) * 1.0)
    data = Collection([Relation("x", "a", "b", x, "bernoulli", blanks="zero")])
    train, _ = data.split(0.1, random_state=0)  # which has holes
    made = random_sample(train, FitOptions(n_factors=1, bias=False), rng)
    made.state.mean[0][:, 0], made.state.mean[1][:, 0] = 3.0 * rows, 2.0 * cols
    everything = explain(made, train)
    monkeypatch.setattr(explained, "MAX_CELLS", 2000)
    part = explain(made, train)
    assert 0.3 < everything.total[0] < 0.99
    assert abs(part.total[0] - everything.total[0]) < 0.02


@pytest.mark.parametrize("filled", [False, True], ids=["listed", "filled"])
def test_picked_cells_are_those_of_their_numbers(filled):
    x = np.random.default_rng(2).poisson(0.7, (6, 5)).astype(float)
    data = sparse.csr_array(x) if filled else np.where(x == 3, np.nan, x)
    whole = Collection([Relation("x", "a", "b", data, "poisson", blanks="zero" if filled else None)])
    train, _ = whole.split(0.3, random_state=0)  # which has holes
    cells = train.relations["x"].cells
    numbers = np.array([0, 1, 4, cells.n_cells - 1])
    for part, full in zip(pick(cells, numbers), cells.triplets(), strict=True):
        np.testing.assert_array_equal(part, full[numbers])


def test_a_factor_explains_exactly_nothing_where_it_is_switched_off():
    rng = np.random.default_rng(0)
    data = Collection([Relation(f"{r}{c}", r, c, rng.normal(size=(40, 40))) for r, c in ("ab", "bc")])
    on = np.array([[True, False], [True, True], [False, True]])
    found = explain(random_sample(data, FitOptions(n_factors=2), rng, on), data).factors
    assert found[0, 1] == found[1, 0] == 0.0
    assert found[0, 0] != 0.0
    assert found[1, 1] != 0.0
