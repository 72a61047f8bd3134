"""From each relation's own ids to those of the entity sets that relations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.block import value_type
from gcmf.data.cells import Cells, Listing, fill_cells, list_cells
from gcmf.data.positions import Coded
from gcmf.data.schema import likelihood_support
from gcmf.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from gcmf.data.positions import Positions
    from gcmf.data.relation import Relation
    from gcmf.data.units import Units


def align(
    axes: Mapping[str, Sequence[tuple[str, Vocabulary]]], declared: Mapping[str, object]
) -> dict[str, Vocabulary]:
    """Return the ids of each entity set: the declared ones, then the others as they first appear."""
    aligned: dict[str, Vocabulary] = {}
    for name, sources in axes.items():
        parts = [ids for _, ids in sources]
        if name in declared:
            parts.insert(0, Vocabulary(declared[name]))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.union(part)
        aligned[name] = whole
    return aligned


def bind(relation: Relation, rows: Vocabulary, cols: Vocabulary, *, declared: tuple[int, int] = (0, 0)) -> Cells:
    """Return the cells of a checked relation, indexed by the entity sets.

    Where blanks are zeros, they are so between all ids that the relation brings. A listing, which cannot mention an id
    without a cell, covers the `declared` ids too, of which there are so many at the head of either set.

    Raises
    ------
    DuplicateCellsError
        When a cell is listed more than once.
    """
    block = relation.block
    row_at, col_at = _places(block.row_ids, rows), _places(block.col_ids, cols)
    dtype = np.uint8 if likelihood_support(relation.likelihood) == "binary" else value_type(block.x)
    shape = len(rows), len(cols)
    if not block.filled:
        return list_cells(Listing(_move(block.i, row_at), _move(block.j, col_at), block.x, dtype), shape)
    heads = (0, 0) if block.bounded else declared
    row_members, col_members = _members(row_at, heads[0]), _members(col_at, heads[1])
    i = _move(block.i, np.searchsorted(row_members, row_at).astype(np.int32))
    j = _move(block.j, np.searchsorted(col_members, col_at).astype(np.int32))
    return fill_cells(Listing(i, j, block.x, dtype), shape, row_members=row_members, col_members=col_members)


def _members(brought: npt.NDArray[np.int32], declared: int) -> npt.NDArray[np.int32]:
    """Return the indices of what a relation brings and of what is declared, sorted."""
    return np.union1d(np.arange(declared, dtype=np.int32), brought)


def bind_units(relation: Relation, cols: Vocabulary) -> Units | None:
    """Return the units of a relation's columns, indexed by the entity set."""
    units = relation.block.units
    return None if units is None else units.placed(_places(relation.block.col_ids, cols), len(cols))


def _places(own: Vocabulary, whole: Vocabulary) -> npt.NDArray[np.int32]:
    """Return the index in the entity set of each of a relation's ids."""
    if own is whole:
        return np.arange(len(own), dtype=np.int32)
    return whole.index(own).astype(np.int32)


def _move(positions: Positions, places: npt.NDArray[np.int32]) -> Positions:
    """Return where positions go; the very same ones when nothing moves."""
    if np.array_equal(places, np.arange(len(places))):
        return positions
    return Coded(positions, places)
