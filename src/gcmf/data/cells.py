"""How the cells of a relation are held: once per side, so that either side reads them in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from gcmf.data.positions import Runs, parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gcmf.data.positions import Positions

HOLE = np.uint8(255)
"""The value of an unobserved listed cell of a filled 0/1 relation; elsewhere it is NaN."""


class Triplets(NamedTuple):
    """Observed cells: row positions, column positions and values, each (n,)."""

    i: npt.NDArray[np.int32]
    j: npt.NDArray[np.int32]
    x: npt.NDArray[Any]


class Listing(NamedTuple):
    """Cells as a source holds them, in any order, and the type that their values are to have."""

    i: Positions
    j: Positions
    x: npt.NDArray[Any]
    dtype: npt.DTypeLike


@dataclass(frozen=True, eq=False)
class Side:
    """The cells of a relation as seen from one of its two entity sets, of d entities.

    In the *listed* layout the observed cells are listed and all others are missing. In the *filled*
    layout every pair of a covered entity and a member is observed, with value 0 unless listed; a
    listed cell that is a hole is not observed.

    Attributes
    ----------
    indptr : int64 (d + 1,)
        Entity g lists the cells `indptr[g]:indptr[g + 1]`.
    partner : int32 (n,)
        The other entity of each cell, increasing within an entity: its index in its own set, or in the
        filled layout its position in `members`.
    value : uint8 or float32 or float64 (n,)
        uint8 for 0/1 cells (255 is a hole), else float32 where that is exact, else float64 (NaN is a hole).
    members : int32 (m,) or None
        Filled layout only: the sorted indices of the entities that the relation brings to the other set.
    covered : bool (d,) or None
        Filled layout only: which entities of this side the relation brings.
    """

    indptr: npt.NDArray[np.int64]
    partner: npt.NDArray[np.int32]
    value: npt.NDArray[Any]
    members: npt.NDArray[np.int32] | None = None
    covered: npt.NDArray[np.bool_] | None = None

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of observed cells per entity, (d,)."""
        if self.members is None or self.covered is None:
            return np.diff(self.indptr)
        before = np.concatenate([[0], np.cumsum(holes(self.value))])
        return self.covered * len(self.members) - np.diff(before[self.indptr])


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one relation: the same ones from the side of its rows and of its columns."""

    rows: Side
    cols: Side
    n_cells: int
    """The number of observed cells; holes are not counted."""

    @property
    def shape(self) -> tuple[int, int]:
        """The sizes of the two entity sets."""
        return len(self.rows.indptr) - 1, len(self.cols.indptr) - 1

    @property
    def filled(self) -> bool:
        """Whether unlisted cells of the relation's own rows and columns are observed zeros."""
        return self.rows.members is not None

    def members(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the row and the column entities that a filled relation brings."""
        if self.rows.members is None or self.cols.members is None:
            msg = "only a filled relation has members"
            raise ValueError(msg)
        return self.cols.members, self.rows.members

    def triplets(self) -> Triplets:
        """Return every observed cell in row-major order; a filled relation is enumerated in full."""
        parts = list(self.chunks(max(self.n_cells, 1)))
        if len(parts) == 1:
            return parts[0]
        i = np.concatenate([np.empty(0, np.int32), *(part.i for part in parts)])
        j = np.concatenate([np.empty(0, np.int32), *(part.j for part in parts)])
        x = np.concatenate([np.empty(0, self.rows.value.dtype), *(part.x for part in parts)])
        return Triplets(i, j, x)

    def chunks(self, size: int = 1_000_000) -> Iterator[Triplets]:
        """Yield every observed cell in row-major order, at most `size` at a time."""
        if self.rows.members is not None:
            yield from _filled_chunks(self, size)
            return
        for start in range(0, len(self.rows.partner), size):
            part = slice(start, start + size)
            yield Triplets(Runs(self.rows.indptr)[part], self.rows.partner[part], self.rows.value[part])


class DuplicateCellsError(Exception):
    """Some cell is listed more than once."""


def holes(value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which listed values of a filled relation say that the cell is not observed."""
    return np.asarray(value == HOLE if value.dtype == np.uint8 else np.isnan(value))


def list_cells(cells: Triplets | Listing, shape: tuple[int, int]) -> Cells:
    """Return the listed layout of these cells, in any order, between sets of these sizes."""
    rows, cols = _two_sides(cells, shape)
    return Cells(Side(*rows), Side(*cols), n_cells=len(cells.x))


def fill_cells(
    cells: Triplets | Listing,
    shape: tuple[int, int],
    *,
    row_members: npt.NDArray[np.int32],
    col_members: npt.NDArray[np.int32],
) -> Cells:
    """Return the filled layout: zeros between all members of either side, except for these cells.

    Parameters
    ----------
    cells : Triplets or Listing
        The nonzero cells and the holes, in any order; `i` and `j` are positions in `row_members` and
        `col_members`.
    shape : tuple of int
        The sizes of the two entity sets.
    row_members, col_members : int32, sorted
        The entities that the relation brings to either set.
    """
    small = len(row_members), len(col_members)
    rows, cols = _two_sides(cells, small)
    n_cells = small[0] * small[1] - int(holes(rows[2]).sum())
    return Cells(
        _widen(rows, size=shape[0], own=row_members, other=col_members),
        _widen(cols, size=shape[1], own=col_members, other=row_members),
        n_cells=n_cells,
    )


_Sparse = Any
_Arrays = tuple["npt.NDArray[np.int64]", "npt.NDArray[np.int32]", "npt.NDArray[Any]"]


def _two_sides(cells: Triplets | Listing, shape: tuple[int, int]) -> tuple[_Arrays, _Arrays]:
    """Sort the cells by row and by column.

    Three counting sorts, the first from the source. The others sort stably by one side what the one before has sorted
    by the other side, so nothing but the two results is ever held in full.
    """
    # By rows first where the cells seem to come so, else by the smaller side, whose table of places is the smaller one.
    turned = shape[0] > shape[1] and not _ascends(cells.i[:1000])
    by_other = _grouped(cells, shape, axis=int(turned)).tocsc()
    if not by_other.has_canonical_format:
        raise DuplicateCellsError
    by_one = by_other.tocsr()
    rows, cols = (by_other, by_one) if turned else (by_one, by_other)
    return _arrays(rows), _arrays(cols)


def _grouped(cells: Triplets | Listing, shape: tuple[int, int], *, axis: int) -> _Sparse:
    """Return the cells sorted by one axis alone, which is the rows of the result."""
    own, other = (cells.i, cells.j) if axis == 0 else (cells.j, cells.i)
    n, size = len(cells.x), shape[axis]
    place, last, in_order = np.zeros(size + 1, dtype=np.int64), 0, True
    for part in parts(n):
        entity = own[part]
        np.add.at(place[1:], entity, 1)
        in_order, last = in_order and entity[0] >= last and _ascends(entity), entity[-1]
    np.cumsum(place, out=place)
    # scipy makes all indices as wide as the widest array of them.
    ends = place.astype(np.int32 if n <= np.iinfo(np.int32).max else np.int64)
    partner = np.empty(n, dtype=np.int32)
    value = np.empty(n, dtype=cells.dtype if isinstance(cells, Listing) else cells.x.dtype)
    for part in parts(n):
        at, order = (part, slice(None)) if in_order else _places(own[part], place)
        partner[at] = other[part][order]
        value[at] = cells.x[part][order]
    return sparse.csr_array((value, partner, ends), shape=(size, shape[1 - axis]))


def _places(own: npt.NDArray[Any], place: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the places of cells of these entities and which cell goes to each; `place`, the next free, moves on."""
    # A sort of the pairs (entity, number) is a stable sort by entity, and several times faster than NumPy's own.
    pairs = own.astype(np.int64) << 32 | np.arange(len(own))
    pairs.sort()
    entity, order = pairs >> 32, pairs & 0xFFFFFFFF
    first = np.flatnonzero(np.diff(entity, prepend=-1))
    entity, lengths = entity[first], np.diff(first, append=len(own))
    at = np.repeat(place[entity] - first, lengths) + np.arange(len(own))
    place[entity] += lengths
    return at, order


def _ascends(own: npt.NDArray[Any]) -> bool:
    return bool((own[1:] >= own[:-1]).all())


def _arrays(matrix: _Sparse) -> _Arrays:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data


def _widen(arrays: _Arrays, *, size: int, own: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> Side:
    """Spread a listing over the members of a side to one over the whole entity set."""
    indptr, partner, value = arrays
    lengths = np.zeros(size, dtype=np.int64)
    lengths[own] = np.diff(indptr)
    covered = np.zeros(size, dtype=np.bool_)
    covered[own] = True
    wide = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Side(wide, partner, value, members=other, covered=covered)


def _filled_chunks(cells: Cells, size: int) -> Iterator[Triplets]:
    """Enumerate a filled relation by cell number: row position times width plus column position."""
    own, other = cells.members()
    width = len(other)
    for start in range(0, len(own) * width, size):
        numbers = np.arange(start, min(start + size, len(own) * width))
        x = np.zeros(len(numbers), dtype=cells.rows.value.dtype)
        first, last = start // width, int(numbers[-1]) // width
        listed = listed_places(cells, first, last)
        inside = (listed >= start) & (listed <= numbers[-1])
        x[listed[inside] - start] = cells.rows.value[_listed(cells, first, last)][inside]
        seen = ~holes(x)
        row, col = np.divmod(numbers[seen], width)
        if len(row):
            yield Triplets(own[row], other[col], x[seen])


def listed_places(cells: Cells, first: int, last: int) -> npt.NDArray[np.int64]:
    """Return the places of what the row members first..last of a filled relation list, sorted.

    The place of a cell is its row's position among the members times the width plus its column's.
    """
    own, other = cells.members()
    lengths = np.diff(cells.rows.indptr)[own[first : last + 1]]
    position = np.repeat(np.arange(first, last + 1, dtype=np.int64), lengths)
    return position * len(other) + cells.rows.partner[_listed(cells, first, last)]


def _listed(cells: Cells, first: int, last: int) -> slice:
    """Return where the row members first..last list their cells."""
    own, _ = cells.members()
    return slice(int(cells.rows.indptr[own[first]]), int(cells.rows.indptr[own[last] + 1]))
