"""Which cells are looped over, and which are left to matrix products."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gcmf import Collection, Relation
from gcmf.data import cells
from gcmf.engines import layout
from gcmf.engines.layout import Layout
from gcmf.engines.records import FILLED, LISTED, ZEROS
from gcmf.model.spec import build
from gcmf.options import FitOptions


@pytest.fixture(autouse=True)
def _small_matrices(monkeypatch):
    monkeypatch.setattr(layout, "MIN_MATRIX", 0)
    monkeypatch.setattr(cells, "MIN_DENSE", 1)


def layouts(x, likelihood="gaussian", **options):
    """The two sides of one relation."""
    _, problem = build(Collection([Relation("x", "a", "b", x, likelihood, **options)]), FitOptions())
    return Layout.of(problem, np.dtype("float32")).values()


def how(side):
    """How the cells of the only block are held."""
    return int(side.blocks.array["summed"]["layout"][0])


def test_a_complete_table_has_no_cells_to_loop_over():
    x = np.random.default_rng(0).normal(size=(7, 5))
    for side, shape in zip(layouts(x), ((7, 5), (5, 7)), strict=True):
        assert side.whole.tolist() == [True]
        assert side.matrices[0].x.shape == shape
        assert side.n_visited.tolist() == [0] * shape[0]
        assert how(side) == LISTED


def test_whole_rows_list_their_holes_and_the_others_their_cells():
    x = np.random.default_rng(0).normal(size=(8, 10))
    x[0, :2] = np.nan
    x[1, :8] = np.nan
    rows, cols = layouts(x)
    assert rows.n_visited.tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert cols.n_visited.tolist() == [2, 2, 1, 1, 1, 1, 1, 1, 0, 0]


def test_rows_that_a_relation_does_not_have_are_no_holes():
    x = np.random.default_rng(0).normal(size=(6, 5))
    x[4] = np.nan
    data = Collection([Relation("x", "a", "b", x)], entities={"b": range(9)})
    _, problem = build(data, FitOptions())
    rows, cols = Layout.of(problem, np.dtype("float32")).values()
    assert rows.matrices[0].x.shape == (5, 5)
    assert rows.matrices[0].place.tolist() == [0, 1, 2, 3, 4, 4, 5]
    assert cols.n_visited.tolist() == [0] * 9


def test_sparse_tables_and_small_ones_are_looped_over(monkeypatch):
    x = np.random.default_rng(0).normal(size=(6, 6))
    thin = np.where(np.eye(6), x, np.nan)
    assert [how(side) for side in layouts(thin)] == [LISTED, LISTED]
    assert not any(side.whole.any() for side in layouts(thin))
    monkeypatch.setattr(layout, "MIN_MATRIX", 37)
    assert not any(side.whole.any() for side in layouts(x))


def test_zeros_of_a_filled_table_cost_nothing_where_they_are_gaussian():
    x = sparse.csr_array((np.random.default_rng(0).random((30, 20)) < 0.1).astype(float))
    rows, cols = layouts(x, blanks="zero")
    assert how(rows) == how(cols) == ZEROS
    assert rows.whole.all()
    assert rows.n_visited.sum() == cols.n_visited.sum() == x.nnz
    rows, _ = layouts(x, "bernoulli", blanks="zero")
    assert how(rows) == FILLED
    assert rows.n_visited.tolist() == [20] * 30


@pytest.mark.parametrize("shape", [(6, 5), (6, 1), (1, 5)])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_values_are_not_copied_whatever_the_precision_and_read_from_either_side(likelihood, shape):
    x = np.random.default_rng(0).integers(0, 9, shape) + (0.1 if likelihood == "gaussian" else 0.0)
    for thin in (False, True):
        x = np.where(np.eye(*shape), x, np.nan) if thin else x
        data = Collection([Relation("x", "a", "b", x, likelihood)])
        held = data.relations["x"].cells
        assert held.dense == (not thin or 1 in shape)
        spec, problem = build(data, FitOptions())
        for laid, side in zip(Layout.of(problem, np.dtype("float32")).values(), (held.rows, held.cols), strict=True):
            assert side.value.dtype == (np.float64 if likelihood == "gaussian" else np.float32)
            assert laid.blocks.get("listed").get("value") is side.value
            assert (held.cols.value is held.rows.value) == held.dense
        assert spec.n_cells == np.sum(~np.isnan(x))


def test_columns_of_bytes_are_copied_to_lie_side_by_side():
    x = np.random.default_rng(0).random((6, 5)) < 0.5
    rows, cols = layouts(x, "bernoulli")
    assert [how(side) for side in (rows, cols)] == [FILLED, FILLED]
    own, others = (side.blocks.get("listed") for side in (rows, cols))
    assert own.get("stride") == others.get("stride") == 1
    np.testing.assert_array_equal(own.get("value").reshape(6, 5), x)
    np.testing.assert_array_equal(others.get("value").reshape(5, 6), x.T)


def test_a_record_refuses_arrays_of_another_type():
    rows, _ = layouts(np.random.default_rng(0).normal(size=(3, 3)))
    listed = rows.blocks.get("listed")
    with pytest.raises(TypeError, match="partner must be contiguous and of type"):
        listed.set(partner=listed.get("partner").astype(np.int64))
