"""Parts of a relation's cells: taking some out, as a listed part, and leaving the rest.

Observed cells are numbered 0..n_cells-1 in row-major order. A filled relation lists only its nonzero cells
and its holes, a dense one nothing; a cell of either also has a *place*, which counts the holes too: its row's
position times the width plus its column's position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from gcmf.data.cells import (
    Cells,
    Side,
    Triplets,
    dense_cells,
    fill_cells,
    hole_of,
    holes,
    is_dense,
    list_cells,
    listed_cells,
    weigh_cells,
)
from gcmf.data.positions import Runs

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

_MOST_UNITS = 10_000_000
"""Cells of a relation of categories up to which each is looked at to find what belongs together."""


def take(cells: Cells, numbers: Integers) -> tuple[Cells, Cells]:
    """Return the cells that are not numbered, and the numbered ones (sorted, distinct), with all others missing.

    What is left stays in its own layout, unless of a dense relation it is dense no more.
    """
    if cells.filled or cells.dense:
        rest = _erase(cells, numbers) if cells.dense else _punch(cells, numbers)
        return rest, list_cells(pick(cells, numbers), cells.shape)
    chosen = np.zeros(cells.n_cells, dtype=np.bool_)
    chosen[numbers] = True
    return _keep(cells, ~chosen), _keep(cells, chosen)


def pick(cells: Cells, numbers: Integers) -> Triplets:
    """Return the cells of these numbers (sorted), and nothing of the others."""
    side = cells.rows
    if not (cells.filled or cells.dense):
        return Triplets(Runs(side.indptr)[numbers].astype(np.int32), side.partner[numbers], side.value[numbers])
    rows, cols = cells.members()
    places = _places(cells, numbers)
    if cells.dense:
        x = side.value[places]
    else:
        x = np.zeros(len(places), dtype=side.value.dtype)
        is_listed, at = _among_listed(cells, places)
        x[is_listed] = side.value[at]
    i, j = np.divmod(places, len(cols))
    return Triplets(rows[i], cols[j], x)


def row_numbers(cells: Cells, rows: Integers) -> Integers:
    """Return the numbers of all observed cells in these rows, sorted."""
    ends = np.cumsum(cells.rows.counts())
    starts = np.concatenate([[0], ends[:-1]])
    return np.concatenate([np.arange(starts[row], ends[row]) for row in rows.tolist()] or [np.empty(0, np.int64)])


def col_numbers(cells: Cells, cols: Integers) -> Integers:
    """Return the numbers of all observed cells in these columns, sorted."""
    if not (cells.filled or cells.dense):
        return np.flatnonzero(np.isin(np.arange(cells.shape[1]), cols)[cells.rows.partner])
    rows, members = cells.members()
    places = np.add.outer(np.arange(len(rows)) * len(members), np.searchsorted(members, cols)).ravel()
    gaps = _gaps(cells)
    return np.asarray((places - np.searchsorted(gaps, places))[~np.isin(places, gaps)])


def locate(cells: Cells, i: npt.NDArray[np.integer], j: npt.NDArray[np.integer]) -> Integers:
    """Return the number of the cell at each pair (i, j), and -1 where that is not observed."""
    if not (cells.filled or cells.dense):
        width = cells.shape[1]
        listed = Runs(cells.rows.indptr)[:].astype(np.int64) * width + cells.rows.partner
        return _position(listed, np.asarray(i, np.int64) * width + j)
    row, col = (_position(members, at) for members, at in zip(cells.members(), (i, j), strict=True))
    gaps, places = _gaps(cells), row * len(cells.members()[1]) + col
    seen = (row >= 0) & (col >= 0) & (_position(gaps, places) < 0)
    return np.where(seen, places - np.searchsorted(gaps, places), -1)


def both_ways(cells: Cells, numbers: Integers) -> Integers:
    """Return the numbers of these cells of a symmetric relation and of the same cells the other way, sorted."""
    i, j, _ = pick(cells, numbers)
    return np.union1d(numbers, locate(cells, j, i))


def one_way(cells: Cells, chosen: Integers) -> Integers:
    """Return the numbers of some of the cells (i, j) of a symmetric relation with i < j, which are counted from 0."""
    if not (cells.filled or cells.dense):
        return np.flatnonzero(Runs(cells.rows.indptr)[:] < cells.rows.partner)[chosen]
    members = cells.members()[0]
    i, j = np.divmod(_gaps(cells), len(members))
    # Row by row, the cells above the diagonal: as many as `before` stand before row i.
    before = np.arange(len(members)) * (2 * len(members) - 1 - np.arange(len(members))) // 2
    gaps = (before[i] + j - i - 1)[i < j]
    place = _nth_observed(gaps, chosen)
    i = np.searchsorted(before, place, side="right") - 1
    return locate(cells, members[i], members[place - before[i] + i + 1])


def units(cells: Cells, lead: Integers) -> Integers:
    """Return the number of the first observed cell of each category of each row, sorted."""
    if cells.n_cells > _MOST_UNITS:  # a relation that large was made by us, and a category is there or is not
        return col_numbers(cells, np.unique(lead))
    i, j, _ = cells.triplets()
    _, first = np.unique(i.astype(np.int64) * cells.shape[1] + lead[j], return_index=True)
    return np.sort(first)


def whole_units(cells: Cells, lead: Integers, numbers: Integers) -> Integers:
    """Return the numbers of these cells and of all others of the same categories of the same rows, sorted."""
    i, j, _ = pick(cells, numbers)
    row, of = np.divmod(np.unique(i.astype(np.int64) * cells.shape[1] + lead[j]), cells.shape[1])
    columns, size = np.argsort(lead, kind="stable"), np.bincount(lead, minlength=len(lead))
    start, n = np.cumsum(size) - size, size[of]
    within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    at = locate(cells, np.repeat(row, n), columns[np.repeat(start[of], n) + within])
    return np.sort(at[at >= 0])


def _position(among: npt.NDArray[np.integer], sought: npt.NDArray[np.integer]) -> Integers:
    """Return where each number stands in a sorted list, and -1 where it does not."""
    at = np.searchsorted(among, sought)
    there = at < len(among)
    there[there] = among[at[there]] == sought[there]
    return np.where(there, at, -1)


def _keep(cells: Cells, kept: npt.NDArray[np.bool_]) -> Cells:
    """Return the listed cells that are kept; both sides stay sorted without sorting again."""
    side = cells.rows
    indptr = np.concatenate([[0], np.cumsum(kept)])[side.indptr]
    if side.weight is not None:
        listed = Triplets(Runs(indptr)[:], side.partner[kept], side.value[kept])
        return weigh_cells(listed, side.weight[kept], cells.shape)
    rows = Side(indptr, side.partner[kept], side.value[kept])
    by_col = sparse.csr_array((rows.value, rows.partner, indptr), shape=cells.shape).tocsc()
    return Cells(rows, Side.of(by_col), n_cells=len(rows.value))


def _punch(cells: Cells, numbers: Integers) -> Cells:
    """Take cells out of a filled relation: they become holes there, and the holes are all it costs."""
    rows, cols = cells.members()
    places = _places(cells, numbers)
    is_listed, at = _among_listed(cells, places)
    listed, value = listed_cells(cells)
    value = value.copy()
    value[at] = hole_of(value.dtype)
    new = places[~is_listed]
    i, j = np.divmod(np.concatenate([listed, new]), len(cols))
    x = np.concatenate([value, np.full(len(new), hole_of(value.dtype), dtype=value.dtype)])
    rest = Triplets(i.astype(np.int32), j.astype(np.int32), x)
    return fill_cells(rest, cells.shape, row_members=rows, col_members=cols)


def _erase(cells: Cells, numbers: Integers) -> Cells:
    """Take cells out of a dense relation: they become holes; entities of which nothing is left are no members then."""
    (rows, cols), matrix = cells.members(), cells.rows.value.copy()
    matrix[_places(cells, numbers)] = hole_of(matrix.dtype)
    rest = dense_cells(matrix, cells.shape, row_members=rows, col_members=cols)
    kept_rows, kept_cols = rest.rows.counts()[rows] > 0, rest.cols.counts()[cols] > 0
    rows, cols = rows[kept_rows], cols[kept_cols]
    if not is_dense(rest.n_cells, rows, cols):
        return list_cells(rest.triplets(), rest.shape)
    if len(rows) * len(cols) < len(matrix):
        matrix = rest.rows.matrix[np.ix_(kept_rows, kept_cols)].ravel()
    return dense_cells(matrix, cells.shape, row_members=rows, col_members=cols)


def _gaps(cells: Cells) -> Integers:
    """Return the places of the holes of a filled or dense relation, sorted."""
    if cells.dense:
        return np.flatnonzero(holes(cells.rows.value))
    listed, value = listed_cells(cells)
    return listed[holes(value)]


def _places(cells: Cells, numbers: Integers) -> Integers:
    """Return the places of some cells of a filled or dense relation."""
    return _nth_observed(_gaps(cells), numbers)


def _nth_observed(gaps: Integers, numbers: Integers) -> Integers:
    """Return the places of the observed cells of these numbers, where those at the sorted `gaps` are not observed."""
    # The hole at position h of the sorted holes has gaps[h] - h observed cells before it.
    return np.asarray(numbers + np.searchsorted(gaps - np.arange(len(gaps)), numbers, side="right"))


def _among_listed(cells: Cells, places: Integers) -> tuple[npt.NDArray[np.bool_], Integers]:
    """Return which cells of a filled relation are listed, and of those that are, where in the list."""
    listed, _ = listed_cells(cells)
    at = np.searchsorted(listed, places)
    is_listed = at < len(listed)
    is_listed[is_listed] = listed[at[is_listed]] == places[is_listed]
    return is_listed, at[is_listed]
