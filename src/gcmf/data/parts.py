"""Parts of a relation's cells: taking some out, as a listed part, and leaving the rest.

Observed cells are numbered 0..n_cells-1 in row-major order. A filled relation lists only its nonzero cells
and its holes; a cell of it also has a *place*, which counts the holes too: its row's position times the width
plus its column's position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from gcmf.data.cells import HOLE, Cells, Side, Triplets, fill_cells, holes, list_cells, listed_cells
from gcmf.data.positions import Runs

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]


def take(cells: Cells, numbers: Integers) -> tuple[Cells, Cells]:
    """Return the cells that are not numbered, in their own layout, and the numbered ones (sorted, distinct), listed."""
    if cells.filled:
        return _punch(cells, numbers), list_cells(pick(cells, numbers), cells.shape)
    chosen = np.zeros(cells.n_cells, dtype=np.bool_)
    chosen[numbers] = True
    return _keep(cells, ~chosen), _keep(cells, chosen)


def pick(cells: Cells, numbers: Integers) -> Triplets:
    """Return the cells of these numbers (sorted), and nothing of the others."""
    side = cells.rows
    if not cells.filled:
        return Triplets(Runs(side.indptr)[numbers].astype(np.int32), side.partner[numbers], side.value[numbers])
    rows, cols = cells.members()
    places, is_listed, at = _locate(cells, numbers)
    x = np.zeros(len(places), dtype=side.value.dtype)
    x[is_listed] = side.value[at]
    i, j = np.divmod(places, len(cols))
    return Triplets(rows[i], cols[j], x)


def row_numbers(cells: Cells, rows: Integers) -> Integers:
    """Return the numbers of all observed cells in these rows, sorted."""
    chosen = np.isin(np.arange(cells.shape[0]), rows)
    return np.flatnonzero(np.repeat(chosen, cells.rows.counts()))


def col_numbers(cells: Cells, cols: Integers) -> Integers:
    """Return the numbers of all observed cells in these columns, sorted."""
    if not cells.filled:
        return np.flatnonzero(np.isin(np.arange(cells.shape[1]), cols)[cells.rows.partner])
    rows, members = cells.members()
    places = np.add.outer(np.arange(len(rows)) * len(members), np.searchsorted(members, cols)).ravel()
    listed, value = listed_cells(cells)
    gaps = listed[holes(value)]
    return np.asarray((places - np.searchsorted(gaps, places))[~np.isin(places, gaps)])


def _keep(cells: Cells, kept: npt.NDArray[np.bool_]) -> Cells:
    """Return the listed cells that are kept; both sides stay sorted without sorting again."""
    side = cells.rows
    indptr = np.concatenate([[0], np.cumsum(kept)])[side.indptr]
    rows = Side(indptr, side.partner[kept], side.value[kept])
    by_col = sparse.csr_array((rows.value, rows.partner, indptr), shape=cells.shape).tocsc()
    return Cells(rows, Side.of(by_col), n_cells=len(rows.value))


def _punch(cells: Cells, numbers: Integers) -> Cells:
    """Take cells out of a filled relation: they become holes there, and the holes are all it costs."""
    rows, cols = cells.members()
    places, is_listed, at = _locate(cells, numbers)
    listed, value = listed_cells(cells)
    hole = HOLE if value.dtype == np.uint8 else np.nan
    value = value.copy()
    value[at] = hole
    new = places[~is_listed]
    i, j = np.divmod(np.concatenate([listed, new]), len(cols))
    x = np.concatenate([value, np.full(len(new), hole, dtype=value.dtype)])
    rest = Triplets(i.astype(np.int32), j.astype(np.int32), x)
    return fill_cells(rest, cells.shape, row_members=rows, col_members=cols)


class _Located(NamedTuple):
    """Where some cells of a filled relation are."""

    places: Integers
    is_listed: npt.NDArray[np.bool_]
    at: Integers
    """Of those that are listed, where in the list."""


def _locate(cells: Cells, numbers: Integers) -> _Located:
    listed, value = listed_cells(cells)
    gaps = listed[holes(value)]
    # The hole at position h of the sorted holes has gaps[h] - h observed cells before it.
    places = numbers + np.searchsorted(gaps - np.arange(len(gaps)), numbers, side="right")
    at = np.searchsorted(listed, places)
    is_listed = at < len(listed)
    is_listed[is_listed] = listed[at[is_listed]] == places[is_listed]
    return _Located(places, is_listed, at[is_listed])
