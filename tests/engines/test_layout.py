"""Which cells are looped over, and which are left to matrix products."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gcmf import Collection, Relation
from gcmf.engines import layout
from gcmf.engines.chunk_kernels import FILLED, LISTED, WHOLE, WHOLE_ZEROS
from gcmf.engines.layout import Layout
from gcmf.model.spec import build
from gcmf.options import FitOptions


@pytest.fixture(autouse=True)
def _small_matrices(monkeypatch):
    monkeypatch.setattr(layout, "MIN_MATRIX", 0)


def layouts(x, likelihood="gaussian", **options):
    """The two sides of one relation."""
    _, problem = build(Collection([Relation("x", "a", "b", x, likelihood, **options)]), FitOptions())
    return Layout.of(problem, np.dtype("float32"))


def test_a_complete_table_has_no_cells_to_loop_over():
    x = np.random.default_rng(0).normal(size=(7, 5))
    for side, shape in zip(layouts(x), ((7, 5), (5, 7)), strict=True):
        assert side.whole.tolist() == [True]
        assert side.matrices[0].x.shape == shape
        assert side.n_listed.tolist() == [0] * shape[0]
        assert side._table.codes[0, 0] == WHOLE


def test_whole_rows_list_their_holes_and_the_others_their_cells():
    x = np.random.default_rng(0).normal(size=(8, 10))
    x[0, :2] = np.nan
    x[1, :8] = np.nan
    rows, cols = layouts(x)
    assert rows.n_listed.tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert cols.n_listed.tolist() == [2, 2, 1, 1, 1, 1, 1, 1, 0, 0]


def test_rows_that_a_relation_does_not_have_are_no_holes():
    x = np.random.default_rng(0).normal(size=(6, 5))
    x[4] = np.nan
    data = Collection([Relation("x", "a", "b", x)], entities={"b": range(9)})
    _, problem = build(data, FitOptions())
    rows, cols = Layout.of(problem, np.dtype("float32"))
    assert rows.matrices[0].x.shape == (5, 5)
    assert rows.matrices[0].place.tolist() == [0, 1, 2, 3, 4, 4, 5]
    assert cols.n_listed.tolist() == [0] * 9


def test_sparse_tables_and_small_ones_are_looped_over(monkeypatch):
    x = np.random.default_rng(0).normal(size=(6, 6))
    thin = np.where(np.eye(6), x, np.nan)
    assert [side._table.codes[0, 0] for side in layouts(thin)] == [LISTED, LISTED]
    monkeypatch.setattr(layout, "MIN_MATRIX", 37)
    assert [side._table.codes[0, 0] for side in layouts(x)] == [LISTED, LISTED]


def test_zeros_of_a_filled_table_cost_nothing_where_they_are_gaussian():
    x = sparse.csr_array((np.random.default_rng(0).random((30, 20)) < 0.1).astype(float))
    rows, cols = layouts(x, blanks="zero")
    assert rows._table.codes[0, 0] == cols._table.codes[0, 0] == WHOLE_ZEROS
    assert rows.n_listed.sum() == cols.n_listed.sum() == x.nnz
    rows, _ = layouts(x, "bernoulli", blanks="zero")
    assert rows._table.codes[0, 0] == FILLED
    assert rows.n_listed.tolist() == [20] * 30


def test_values_are_not_copied_where_the_precision_fits():
    x = np.random.default_rng(0).normal(size=(6, 5))
    data = Collection([Relation("x", "a", "b", x)])
    spec, problem = build(data, FitOptions())
    (rows, _), value = Layout.of(problem, np.dtype("float32")), data.relations["x"].cells.rows.value
    held = rows._alive[0][0].listed
    assert value.dtype == np.float64
    assert np.shares_memory(held.wide, value)
    assert len(held.value) == 0
    assert spec.n_cells == 30


def test_a_table_of_addresses_refuses_arrays_of_another_type():
    x = np.random.default_rng(0).normal(size=(3, 3))
    rows, _ = layouts(x)
    cells = rows._alive[0][0].listed
    with pytest.raises(TypeError, match="partner must be contiguous and of type"):
        layout._places(cells._replace(partner=cells.partner.astype(np.int64)))
