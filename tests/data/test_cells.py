from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gcmf.data import cells as module
from gcmf.data.cells import HOLE, DuplicateCellsError, Triplets, fill_cells, list_cells


@st.composite
def matrices(draw):
    """A small matrix with NaN for missing cells."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    return draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 1.0, 2.5, np.nan])))


def dense(cells):
    """The matrix that some cells say, with NaN for missing ones."""
    out = np.full(cells.shape, np.nan)
    i, j, x = cells.triplets()
    out[i, j] = x
    return out


@given(matrices(), st.randoms())
def test_listed_round_trip_from_either_side(matrix, random):
    i, j = np.nonzero(~np.isnan(matrix))
    order = random.sample(range(len(i)), len(i))
    i, j = i[order].astype(np.int32), j[order].astype(np.int32)
    cells = list_cells(Triplets(i, j, matrix[i, j]), matrix.shape)

    np.testing.assert_array_equal(dense(cells), matrix)
    assert cells.n_cells == len(i)
    for side, whole in ((cells.rows, matrix), (cells.cols, matrix.T)):
        assert side.indptr.dtype == np.int64
        assert side.partner.dtype == np.int32
        for g in range(len(whole)):
            part = slice(side.indptr[g], side.indptr[g + 1])
            np.testing.assert_array_equal(side.partner[part], np.flatnonzero(~np.isnan(whole[g])))
            np.testing.assert_array_equal(side.value[part], whole[g][side.partner[part]])
        np.testing.assert_array_equal(side.counts(), (~np.isnan(whole)).sum(axis=1))


@given(matrices(), st.randoms(), st.integers(1, 40), st.booleans())
def test_dense_round_trip_with_holes(matrix, random, size, binary):
    """Cells between some entities of larger sets: entities without any are no members."""
    if binary:
        matrix = np.where(matrix == 2.5, 1.0, matrix)
    whole = np.full((2 * len(matrix) + 1, matrix.shape[1] + 3), np.nan)
    whole[1::2, 2:-1] = matrix
    i, j = np.nonzero(~np.isnan(whole))
    order = random.sample(range(len(i)), len(i))
    i, j = i[order].astype(np.int32), j[order].astype(np.int32)
    with mock.patch.object(module, "MIN_DENSE", 1):
        cells = list_cells(Triplets(i, j, whole[i, j]), whole.shape, dtype=np.uint8 if binary else None)
    rows, cols = np.unique(i), np.unique(j)

    assert cells.dense == (len(i) > 0 and 2 * len(i) >= len(rows) * len(cols))
    assert not cells.filled
    assert cells.n_cells == len(i)
    np.testing.assert_array_equal(dense(cells), whole)
    if cells.dense:
        assert cells.rows.value is cells.cols.value
        assert cells.rows.value.shape == (len(rows) * len(cols),)
        assert cells.rows.value.dtype == (np.uint8 if binary else np.float64)
        for found, expected in zip(cells.members(), (rows, cols), strict=True):
            np.testing.assert_array_equal(found, expected)
    for side, seen_from in ((cells.rows, whole), (cells.cols, whole.T)):
        np.testing.assert_array_equal(side.counts(), (~np.isnan(seen_from)).sum(axis=1))
        for g, row in enumerate(seen_from):
            partner, value = side.row(g)
            np.testing.assert_array_equal(partner, np.flatnonzero(~np.isnan(row)))
            np.testing.assert_array_equal(value, row[partner])
    chunks = list(cells.chunks(size))
    assert all(0 < len(chunk.x) <= size for chunk in chunks)
    if chunks:
        for joined, full in zip(map(np.concatenate, zip(*chunks, strict=True)), cells.triplets(), strict=True):
            np.testing.assert_array_equal(joined, full)


@given(matrices(), st.integers(1, 40), st.booleans())
def test_filled_round_trip_with_holes(matrix, size, binary):
    """A filled relation spread over larger entity sets: NaN is a hole, 0 is not listed."""
    if binary:
        matrix = np.where(matrix == 2.5, 1.0, matrix)
    rows = np.arange(matrix.shape[0], dtype=np.int32) * 2 + 1
    cols = np.arange(matrix.shape[1], dtype=np.int32) + 2
    whole = np.full((rows[-1] + 2, cols[-1] + 3), np.nan)
    whole[np.ix_(rows, cols)] = matrix
    i, j = np.nonzero(matrix)  # NaN is not zero, so the holes are listed
    x = matrix[i, j]
    x = np.where(np.isnan(x), HOLE, x).astype(np.uint8) if binary else x
    listed = Triplets(i.astype(np.int32), j.astype(np.int32), x)
    cells = fill_cells(listed, whole.shape, row_members=rows, col_members=cols)

    assert cells.filled
    np.testing.assert_array_equal(dense(cells), whole)
    assert cells.n_cells == np.sum(~np.isnan(whole))
    np.testing.assert_array_equal(cells.rows.counts(), (~np.isnan(whole)).sum(axis=1))
    np.testing.assert_array_equal(cells.cols.counts(), (~np.isnan(whole)).sum(axis=0))
    np.testing.assert_array_equal(cells.rows.members, cols)
    np.testing.assert_array_equal(np.flatnonzero(cells.rows.covered), rows)
    chunks = list(cells.chunks(size))
    assert all(0 < len(chunk.x) <= size for chunk in chunks)
    if chunks:
        for joined, full in zip(map(np.concatenate, zip(*chunks, strict=True)), cells.triplets(), strict=True):
            np.testing.assert_array_equal(joined, full)


def test_listed_chunks_are_the_triplets():
    i, j = (index.astype(np.int32) for index in np.nonzero(np.ones((3, 4))))
    cells = list_cells(Triplets(i, j, np.arange(12.0)), (3, 4))
    parts = list(cells.chunks(5))
    assert [len(part.x) for part in parts] == [5, 5, 2]
    np.testing.assert_array_equal(np.concatenate([part.i for part in parts]), i)


@pytest.mark.parametrize("min_dense", [1, 4096])
def test_duplicates_are_seen(monkeypatch, min_dense):
    monkeypatch.setattr(module, "MIN_DENSE", min_dense)
    one = np.zeros(2, dtype=np.int32)
    with pytest.raises(DuplicateCellsError):
        list_cells(Triplets(one, one, np.ones(2)), (1, 1))


def test_small_and_thin_relations_are_listed():
    rng = np.random.default_rng(0)
    for shape, n, is_dense in (((60, 60), 3600, False), ((100, 80), 4096, True), ((100, 90), 4400, False)):
        i, j = (index.astype(np.int32) for index in np.divmod(rng.permutation(shape[0] * shape[1])[:n], shape[1]))
        cells = list_cells(Triplets(i, j, rng.normal(size=n)), shape)
        assert cells.dense == is_dense
        np.testing.assert_array_equal(cells.rows.members is None, not is_dense)


def test_only_filled_and_dense_cells_have_members_and_dense_ones_a_matrix():
    zero = np.zeros(1, dtype=np.int32)
    cells = list_cells(Triplets(zero, zero, np.ones(1)), (1, 1))
    with pytest.raises(ValueError, match="filled or dense"):
        cells.members()
    with pytest.raises(ValueError, match="only a dense relation"):
        _ = cells.cols.matrix
