"""Parts of a relation's cells: taking some out, as a listed part, and leaving the rest.

Observed cells are numbered 0..n_cells-1 in row-major order. A filled relation lists only its nonzero cells
and its holes; a cell of it also has a *place*, which counts the holes too: its row's position times the width
plus its column's position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gcmf.data.cells import HOLE, Cells, Side, Triplets, fill_cells, holes, list_cells, listed_places
from gcmf.data.positions import Runs

if TYPE_CHECKING:
    import numpy.typing as npt


def take(cells: Cells, numbers: npt.NDArray[np.int64]) -> tuple[Cells, Cells]:
    """Return the cells that are not numbered, in their own layout, and the numbered ones, listed.

    Parameters
    ----------
    cells : Cells
        The whole.
    numbers : int64, sorted, distinct
        Numbers of observed cells, in row-major order.
    """
    if cells.filled:
        return _take_filled(cells, numbers)
    chosen = np.zeros(cells.n_cells, dtype=np.bool_)
    chosen[numbers] = True
    return _keep(cells, ~chosen), _keep(cells, chosen)


def pick(cells: Cells, numbers: npt.NDArray[np.int64]) -> Triplets:
    """Return the cells of these numbers (sorted), and nothing of the others."""
    if not cells.filled:
        side = cells.rows
        return Triplets(Runs(side.indptr)[numbers].astype(np.int32), side.partner[numbers], side.value[numbers])
    places = _places(cells, numbers)
    row_members, col_members = cells.members()
    row, col = np.divmod(places, len(col_members))
    at, known = _find(listed_places(cells, 0, len(row_members) - 1), places)
    x = np.zeros(len(places), dtype=cells.rows.value.dtype)
    x[known] = cells.rows.value[at[known]]
    return Triplets(row_members[row], col_members[col], x)


def row_numbers(cells: Cells, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the numbers of all observed cells in these rows (sorted indices), sorted."""
    counts = cells.rows.counts()
    starts = (np.cumsum(counts) - counts)[rows]
    lengths = counts[rows]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(starts, lengths) + within)


def col_numbers(cells: Cells, cols: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the numbers of all observed cells in these columns (sorted indices), sorted."""
    if not cells.filled:
        chosen = np.zeros(cells.shape[1], dtype=np.bool_)
        chosen[cols] = True
        return np.flatnonzero(chosen[cells.rows.partner])
    row_members, col_members = cells.members()
    positions = np.searchsorted(col_members, cols)
    rows = np.arange(len(row_members), dtype=np.int64)
    places = (rows[:, None] * len(col_members) + positions).ravel()
    gaps = _hole_places(cells)
    before = np.searchsorted(gaps, places)
    is_gap = np.append(gaps, -1)[before] == places
    return np.asarray((places - before)[~is_gap])


def _keep(cells: Cells, kept: npt.NDArray[np.bool_]) -> Cells:
    """Return the listed cells that are kept; both sides stay sorted without sorting again."""
    side = cells.rows
    before = np.concatenate([[0], np.cumsum(kept)])
    indptr, partner, value = before[side.indptr].astype(np.int64), side.partner[kept], side.value[kept]
    by_col = sparse.csr_array((value, partner, indptr), shape=cells.shape).tocsc()
    cols = Side(by_col.indptr.astype(np.int64), by_col.indices.astype(np.int32, copy=False), by_col.data)
    return Cells(Side(indptr, partner, value), cols, n_cells=len(value))


def _take_filled(cells: Cells, numbers: npt.NDArray[np.int64]) -> tuple[Cells, Cells]:
    """Take cells out of a filled relation: they become holes there, and the holes are all it costs."""
    row_members, col_members = cells.members()
    test = list_cells(pick(cells, numbers), cells.shape)
    places = _places(cells, numbers)
    listed = listed_places(cells, 0, len(row_members) - 1)
    at, known = _find(listed, places)

    rest = cells.rows.value.copy()
    hole: Any = HOLE if rest.dtype == np.uint8 else np.nan
    rest[at[known]] = hole
    new = places[~known]
    i, j = np.divmod(np.concatenate([listed, new]), len(col_members))
    x = np.concatenate([rest, np.full(len(new), hole, dtype=rest.dtype)])
    left = Triplets(i.astype(np.int32), j.astype(np.int32), x)
    train = fill_cells(left, cells.shape, row_members=row_members, col_members=col_members)
    return train, test


def _find(
    listed: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return where each place stands among the listed ones, sorted, and whether it does."""
    at = np.minimum(np.searchsorted(listed, places), max(len(listed) - 1, 0))
    return at, listed[at] == places if len(listed) else np.zeros(len(places), dtype=np.bool_)


def _places(cells: Cells, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of observed cells of a filled relation: their numbers, with the holes before them."""
    gaps = _hole_places(cells)
    # The hole at position h of the sorted holes has gaps[h] - h observed cells before it.
    return numbers + np.searchsorted(gaps - np.arange(len(gaps)), numbers, side="right")


def _hole_places(cells: Cells) -> npt.NDArray[np.int64]:
    row_members, _ = cells.members()
    return listed_places(cells, 0, len(row_members) - 1)[holes(cells.rows.value)]
