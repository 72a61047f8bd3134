"""From each relation's own ids to those of the entity sets that relations share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.cells import Cells, fill_cells, list_cells
from gcmf.data.positions import Coded
from gcmf.data.raw import value_type
from gcmf.data.schema import likelihood_support
from gcmf.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from gcmf.data.positions import Positions
    from gcmf.data.raw import RawCells
    from gcmf.data.relation import Relation


def align(
    axes: Mapping[str, Sequence[tuple[str, Vocabulary]]], declared: Mapping[str, object]
) -> dict[str, Vocabulary]:
    """Return the ids of each entity set: the declared ones, then the others as they first appear."""
    aligned: dict[str, Vocabulary] = {}
    for name, sources in axes.items():
        brought = [ids for _, ids in sources]
        whole = Vocabulary(declared[name]) if name in declared else brought[0]
        for ids in brought:
            whole = whole.union(ids)
        aligned[name] = whole
    return aligned


def bind(relation: Relation, rows: Vocabulary, cols: Vocabulary, *, declared: tuple[int, int] = (0, 0)) -> Cells:
    """Return the cells of a checked relation, indexed by the entity sets.

    Where blanks are zeros, they are so between all ids that the relation brings. A listing, which cannot mention an id
    without a cell, covers the `declared` ids too, of which there are so many at the head of either set. A cell that is
    listed more than once raises DuplicateCellsError.
    """
    raw, shape = relation.raw, (len(rows), len(cols))
    row_at, col_at = rows.index(raw.row_ids), cols.index(raw.col_ids)
    dtype = np.uint8 if likelihood_support(relation.likelihood) == "binary" else value_type(raw.x)
    if not raw.filled:
        return list_cells(_moved(raw, row_at, col_at), shape, dtype=dtype)
    heads = (0, 0) if raw.bounded else declared
    row_members, col_members = (
        np.union1d(np.arange(head), brought).astype(np.int32)
        for head, brought in zip(heads, (row_at, col_at), strict=True)
    )
    moved = _moved(raw, np.searchsorted(row_members, row_at), np.searchsorted(col_members, col_at))
    return fill_cells(moved, shape, row_members=row_members, col_members=col_members, dtype=dtype)


def _moved(raw: RawCells, rows: npt.NDArray[np.int64], cols: npt.NDArray[np.int64]) -> RawCells:
    """Return the cells with their row p at rows[p] and their column p at cols[p]."""
    return replace(raw, i=_coded(raw.i, rows), j=_coded(raw.j, cols))


def _coded(positions: Positions, places: npt.NDArray[np.int64]) -> Positions:
    if np.array_equal(places, np.arange(len(places))):
        return positions
    return Coded(positions, places.astype(np.int32))
