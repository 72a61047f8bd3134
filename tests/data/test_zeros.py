"""Zeros that are drawn: which, how many, and what they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gcmf import Collection, Relation
from gcmf.data import zeros
from gcmf.data.parts import take
from gcmf.data.zeros import draw_zeros, n_blanks, n_wanted

SHAPE = (60, 90)


@pytest.fixture
def cells():
    """A filled relation with some ones, a full row, an empty row and an empty column, and holes."""
    rng = np.random.default_rng(0)
    x = (rng.random(SHAPE) < 0.05).astype(float)
    x[3], x[7], x[:, 11] = 1.0, 0.0, 0.0
    whole = Collection([Relation("x", "a", "b", sparse.csr_array(x), "bernoulli", blanks="zero")]).relations["x"].cells
    return take(whole, np.sort(rng.choice(whole.n_cells, 300, replace=False)))[0]


def expected(rows):
    """Some zeros more likely to be ones than others, a few of them for certain."""
    chance = np.random.default_rng(1).random(SHAPE, dtype=np.float32) ** 4 / 20
    chance[:, 5] = 1.0
    return chance[rows]


def table(cells, attribute):
    """A listed relation as a matrix of its values or weights, NaN where nothing is listed, from either side."""
    found = np.full((2, *cells.shape), np.nan)
    for side, of in enumerate((cells.rows, cells.cols)):
        own = np.repeat(np.arange(len(of.indptr) - 1), np.diff(of.indptr))
        found[side][(own, of.partner) if side == 0 else (of.partner, own)] = getattr(of, attribute)
    np.testing.assert_array_equal(*found)
    return found[0]


def full(cells):
    """The values of a filled relation, NaN for holes."""
    i, j, x = cells.triplets()
    whole = np.full(cells.shape, np.nan)
    whole[i, j] = x
    return whole


def test_all_listed_cells_stay_and_only_zeros_are_drawn(cells):
    drawn, whole = draw_zeros(cells, expected, np.random.SeedSequence(0)), full(cells)
    value, weight = table(drawn, "value"), table(drawn, "weight")
    listed = ~np.isnan(value)
    np.testing.assert_array_equal(value[listed], whole[listed])
    assert listed[whole == 1].all()
    assert (weight[whole == 1] == 1).all()
    zero = listed & (whole == 0)
    assert 0 < zero.sum() < (whole == 0).sum() / 2
    assert drawn.n_cells == listed.sum()
    assert (weight[zero] >= 1).all()
    assert listed[:, 5][whole[:, 5] == 0].all(), "where a one is expected, a zero is drawn for certain"
    assert (weight[:, 5][whole[:, 5] == 0] == 1).all()


def test_on_average_the_weights_sum_to_the_number_of_zeros(cells):
    n_draws, whole, total = 400, full(cells), np.zeros(SHAPE)
    for seed in range(n_draws):
        drawn = draw_zeros(cells, expected, np.random.SeedSequence(seed))
        total += np.nan_to_num(table(drawn, "weight")) * (whole == 0)
    total /= n_draws
    for axis in (0, 1):
        blanks = (whole == 0).sum(axis=axis)
        # A sum has a deviation of at most √(blanks · 60/8), and the mean of all draws one of a √n_draws-th of that.
        assert (np.abs(total.sum(axis=axis) - blanks) <= 4.0 * np.sqrt(blanks * 7.5 / n_draws)).all()
    assert total.sum() == pytest.approx(n_blanks(cells), rel=0.01)


def test_everybody_who_has_a_cell_keeps_one(cells, monkeypatch):
    monkeypatch.setattr(zeros, "PER_ENTITY", 0.05)
    drawn, whole = draw_zeros(cells, lambda rows: 0 * expected(rows), np.random.SeedSequence(0)), full(cells)
    listed = ~np.isnan(table(drawn, "value"))
    assert (listed & (whole == 0))[7].any()
    assert (listed & (whole == 0))[:, 11].any()
    for axis in (0, 1):
        np.testing.assert_array_equal(listed.any(axis=axis), (~np.isnan(whole)).any(axis=axis))


def test_a_draw_depends_on_its_seed_and_not_on_who_maps(cells, monkeypatch):
    monkeypatch.setattr(zeros, "_BLOCK", 200)
    first = draw_zeros(cells, expected, np.random.SeedSequence(0))
    again = draw_zeros(cells, expected, np.random.SeedSequence(0), run=lambda f, n: [f(k) for k in reversed(n)][::-1])
    other = draw_zeros(cells, expected, np.random.SeedSequence(1))
    np.testing.assert_array_equal(table(first, "weight"), table(again, "weight"))
    assert not np.array_equal(table(first, "weight"), table(other, "weight"), equal_nan=True)


def test_a_model_that_expects_ones_everywhere_does_not_draw_all(cells, monkeypatch):
    monkeypatch.setattr(zeros, "PER_CELL", 1)
    monkeypatch.setattr(zeros, "PER_ENTITY", 1)
    drawn = draw_zeros(cells, lambda rows: np.ones((len(rows), SHAPE[1]), np.float32), np.random.SeedSequence(0))
    assert drawn.n_cells < n_blanks(cells) / 2


def test_zeros_are_drawn_where_they_are_many_and_most(cells, monkeypatch):
    assert n_wanted(cells) == 0
    monkeypatch.setattr(zeros, "MANY", 100)
    monkeypatch.setattr(zeros, "PER_CELL", 2)
    monkeypatch.setattr(zeros, "PER_ENTITY", 4)
    assert 0 < n_wanted(cells) <= n_blanks(cells) / 2
    monkeypatch.setattr(zeros, "PER_CELL", 20)
    assert n_wanted(cells) == 0
