"""Categories that are given as 0/1 columns, of which each row has a 1 in one: what is hidden of it, the rest tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.positions import Runs

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.cells import Cells

    Integers = npt.NDArray[np.int64]

LEAST_ROWS = 20
"""Rows without a missing cell that show that columns exclude each other: of fewer it may be chance."""
_FIRST = 100
"""Rows that are looked at first: most relations can be told from them to have no categories."""


def find_categories(cells: Cells) -> Integers | None:
    """Return the first column of the category of each column, (cols,), where all columns of a 0/1 relation have one.

    They do if every row without a missing cell has as many ones, the first of them always in the first columns, the
    second in the next ones, and so on, as `pandas.get_dummies` makes them; and no row has more. A row of one category
    has a single 1. Where only some of the columns are levels, who makes the relation has to say so.
    """
    seen = np.flatnonzero(cells.cols.counts())
    n = cells.rows.counts()
    whole = n == len(seen)
    if len(seen) < 2 or whole.sum() < LEAST_ROWS:
        return None
    if len({int(cells.rows.row(g)[1].sum()) for g in np.flatnonzero(whole)[:_FIRST].tolist()}) > 1:
        return None
    row, col = _ones(cells)
    times = np.bincount(row, minlength=len(n))
    per_row = int(times[whole][0])
    if not 0 < per_row < len(seen) or (times[whole] != per_row).any():
        return None
    ones = col[whole[row]].reshape(-1, per_row)
    last = ones.max(axis=0)
    if (last[:-1] >= ones.min(axis=0)[1:]).any():
        return None
    category = np.minimum(np.searchsorted(last, np.arange(cells.shape[1])), per_row - 1)
    if len(np.unique(row * per_row + category[col])) < len(row):
        return None  # a row with a missing cell has two ones in one of them
    first = np.array([seen[category[seen] == c][0] for c in range(per_row)])
    lead = np.arange(cells.shape[1])
    lead[seen] = first[category[seen]]
    return lead


def partly_observed(cells: Cells, lead: Integers) -> int:
    """Return how many rows have some columns of a category observed and others not."""
    seen = [np.count_nonzero(side.counts()) for side in (cells.rows, cells.cols)]
    if cells.n_cells in (0, seen[0] * seen[1]):
        return 0
    i, j, _ = cells.triplets()
    units, counts = np.unique(i.astype(np.int64) * cells.shape[1] + lead[j], return_counts=True)
    row, of = np.divmod(units, cells.shape[1])
    size = np.bincount(lead[np.flatnonzero(cells.cols.counts())], minlength=cells.shape[1])
    return len(np.unique(row[counts < size[of]]))


def _ones(cells: Cells) -> tuple[Integers, Integers]:
    """Return rows and columns of the ones, row by row."""
    side = cells.rows
    if cells.dense:
        rows, cols = cells.members()
        i, j = np.nonzero(side.matrix == 1)
        return rows[i].astype(np.int64), cols[j].astype(np.int64)
    at = np.flatnonzero(side.value == 1)
    col = side.partner[at] if side.members is None else side.members[side.partner[at]]
    return Runs(side.indptr)[at].astype(np.int64), col.astype(np.int64)
