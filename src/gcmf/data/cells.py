"""How the cells of a relation are held: dense ones once, as a matrix; others once per side, each in a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from gcmf.data.positions import Runs, parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gcmf.data.positions import Positions
    from gcmf.data.raw import RawCells

HOLE = np.uint8(255)
"""The value of an unobserved cell of a filled or dense 0/1 relation; elsewhere it is NaN."""
DENSE = 0.5
"""Share of the cells between its rows and columns from which on a relation is dense: a matrix then takes at most two
thirds of the bytes of two lists, and engines pass over its holes in little time."""
MIN_DENSE = 4096
"""Observed cells from which on a relation may be dense: below, bytes do not count."""
MOST_LISTED = 100_000_000
"""Cells that somebody may ask to see one by one, at most; a filled relation may have more."""
_BLOCK = 1 << 16
"""Cells of a matrix to be looked at at a time."""
Sort = Callable[[Any, tuple[int, int], Any], tuple["Side", "Side"]]
"""What sorts cells by row and by column, as `two_sides` does: in memory, or in files."""
_Sparse = Any
"""A sparse array of scipy, of which mypy knows nothing."""


class Triplets(NamedTuple):
    """Observed cells: row positions, column positions and values, each (n,)."""

    i: npt.NDArray[np.int32]
    j: npt.NDArray[np.int32]
    x: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Side:
    """The cells of a relation as seen from one of its two entity sets, of d entities.

    In the *listed* layout the observed cells are listed and all others are missing. In the *filled*
    layout every pair of a covered entity and a member is observed, with value 0 unless listed; a
    listed cell that is a hole is not observed. In the *dense* layout nothing is listed: every such pair has a value,
    in one matrix that both sides read, and is observed unless that is a hole.
    """

    indptr: npt.NDArray[np.int64]
    """Entity g lists the cells `indptr[g]:indptr[g + 1]`, (d + 1,). Dense: its value with member c is at
    `indptr[g] + stride * c`."""
    partner: npt.NDArray[np.int32]
    """The other entity of each listed cell, increasing within an entity: its index in its own set, or in the filled
    layout its position in `members`."""
    value: npt.NDArray[Any]
    """uint8 for 0/1 cells (255 is a hole), else float32 where that is exact, else float64 (NaN is a hole)."""
    members: npt.NDArray[np.int32] | None = None
    """Filled and dense: the sorted indices of the entities that the relation brings to the other set."""
    covered: npt.NDArray[np.bool_] | None = None
    """Filled and dense: which entities of this side the relation brings, (d,)."""
    stride: int = 0
    """Dense: how far the values of an entity are apart, 1 for rows and the number of columns for columns."""
    weight: npt.NDArray[np.float32] | None = None
    """Listed layout only: how many cells each listed one stands for; None: one each."""

    @classmethod
    def of(cls, matrix: _Sparse) -> Side:
        """Return the cells that a sparse matrix lists by row or by column."""
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data)

    @property
    def matrix(self) -> npt.NDArray[Any]:
        """Dense layout only: the values of the covered entities (rows) with the members (columns)."""
        if self.members is None or not self.stride:
            msg = "only a dense relation has a matrix"
            raise ValueError(msg)
        by_row = self.stride == 1
        return self.value.reshape(-1, len(self.members)) if by_row else self.value.reshape(-1, self.stride).T

    @classmethod
    def dense(  # noqa: PLR0913 - a matrix is described by as many
        cls,
        value: npt.NDArray[Any],
        size: int,
        *,
        owners: npt.NDArray[np.int32],
        members: npt.NDArray[np.int32],
        step: int,
        stride: int,
    ) -> Side:
        """Return the cells that a flat matrix holds: `step` is from owner to owner, `stride` from member to member."""
        covered, starts = np.zeros(size, dtype=np.bool_), _starts(owners, size, step=step)
        covered[owners] = True
        return cls(starts, np.empty(0, np.int32), value, members, covered, stride)

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of observed cells per entity, (d,)."""
        if self.members is None or self.covered is None:
            return np.diff(self.indptr)
        counts = self.covered * len(self.members)
        if not self.stride:
            return counts - np.diff(np.concatenate([[0], np.cumsum(holes(self.value))])[self.indptr])
        if not self.covered.any():
            return counts
        # By rows of the matrix, as it lies, whatever side this is.
        matrix, along = (self.matrix, 1) if self.stride == 1 else (self.matrix.T, 0)
        step = max(_BLOCK // matrix.shape[1], 1)
        n_holes = [holes(matrix[k : k + step]).sum(axis=along) for k in range(0, len(matrix), step)]
        counts[self.covered] -= np.concatenate(n_holes) if along else np.sum(n_holes, axis=0)
        return counts

    def weights(self) -> npt.NDArray[np.float64]:
        """Return how many cells the observed ones of each entity count as, (d,)."""
        if self.weight is None:
            return self.counts().astype(np.float64)
        return np.diff(np.concatenate([[0.0], np.cumsum(self.weight, dtype=np.float64)])[self.indptr])

    def varying(self) -> npt.NDArray[np.bool_]:
        """Return which entities have two observed cells that differ, (d,)."""
        d = len(self.indptr) - 1
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        if self.stride and self.covered is not None:
            matrix, along = (self.matrix, 1) if self.stride == 1 else (self.matrix.T, 0)
            step = max(_BLOCK // max(matrix.shape[1], 1), 1)
            lows, highs = [], []
            for k in range(0, len(matrix), step):
                part, missing = matrix[k : k + step].astype(np.float64), holes(matrix[k : k + step])
                lows.append(np.where(missing, np.inf, part).min(axis=along, initial=np.inf))
                highs.append(np.where(missing, -np.inf, part).max(axis=along, initial=-np.inf))
            together = (np.concatenate, np.concatenate) if along else (np.minimum.reduce, np.maximum.reduce)
            if lows:
                low[self.covered], high[self.covered] = together[0](lows), together[1](highs)
            return low < high
        there = np.flatnonzero(np.diff(self.indptr))
        if len(there):
            value, missing = self.value.astype(np.float64), holes(self.value)
            low[there] = np.minimum.reduceat(np.where(missing, np.inf, value), self.indptr[there])
            high[there] = np.maximum.reduceat(np.where(missing, -np.inf, value), self.indptr[there])
        if self.members is not None and self.covered is not None:  # what is not listed is zero
            zeros = self.covered & (np.diff(self.indptr) < len(self.members))
            low, high = np.where(zeros, np.minimum(low, 0.0), low), np.where(zeros, np.maximum(high, 0.0), high)
        return low < high

    def row(self, g: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Return the partners, by their index in their own set, and the values of the observed cells of entity g."""
        part = slice(self.indptr[g], self.indptr[g + 1])
        if self.members is None or self.covered is None:
            return self.partner[part], self.value[part].astype(np.float64)
        if not self.covered[g]:
            return self.members[:0], np.empty(0)
        if self.stride:
            x = self.value[self.indptr[g] + self.stride * np.arange(len(self.members))]
        else:
            x = np.zeros(len(self.members), self.value.dtype)
            x[self.partner[part]] = self.value[part]
        seen = ~holes(x)
        return self.members[seen], x[seen].astype(np.float64)


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
        return self.rows.members is not None and not self.dense

    @property
    def dense(self) -> bool:
        """Whether the values are held once, as a matrix."""
        return self.rows.stride > 0

    @property
    def weight(self) -> float:
        """How many cells the observed ones count as."""
        return float(self.n_cells if self.rows.weight is None else self.rows.weight.sum(dtype=np.float64))

    def members(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the row and the column entities that a filled or dense relation brings."""
        if self.rows.members is None or self.cols.members is None:
            msg = "only a filled or dense relation has members"
            raise ValueError(msg)
        return self.cols.members, self.rows.members

    def triplets(self) -> Triplets:
        """Return every observed cell in row-major order; a filled relation is enumerated in full."""
        none = Triplets(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, self.rows.value.dtype))
        return next(self.chunks(max(self.shape[0] * self.shape[1], 1)), none)

    def chunks(self, size: int = 1_000_000) -> Iterator[Triplets]:
        """Yield every observed cell in row-major order, at most `size` at a time."""
        if self.rows.members is not None:
            yield from _chunks_between_members(self, size)
            return
        for start in range(0, len(self.rows.partner), size):
            part = slice(start, start + size)
            yield Triplets(Runs(self.rows.indptr)[part], self.rows.partner[part], self.rows.value[part])


class DuplicateCellsError(Exception):
    """Some cell is listed more than once: its row and its column, where these are known."""


def holes(value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values of a filled or dense relation say that the cell is not observed."""
    return np.asarray(value == HOLE if value.dtype == np.uint8 else np.isnan(value))


def list_cells(
    cells: Triplets | RawCells,
    shape: tuple[int, int],
    *,
    dtype: npt.DTypeLike | None = None,
    sort: Sort | None = None,
) -> Cells:
    """Return these cells, in any order, between sets of these sizes, all others missing; `dtype` is of the values.

    They are held in the dense layout where they fill most of the rectangle of their rows and columns, else listed.
    """
    n, rows, cols = len(cells.x), _mentioned(cells.i, shape[0]), _mentioned(cells.j, shape[1])
    if not is_dense(n, rows, cols):
        return Cells(*(sort or two_sides)(cells, shape, dtype), n_cells=n)
    matrix = np.full(len(rows) * len(cols), hole_of(np.dtype(dtype or cells.x.dtype)), dtype or cells.x.dtype)
    first, within = _starts(rows, shape[0], step=len(cols)), _starts(cols, shape[1], step=1)
    for part in parts(n):
        matrix[first[cells.i[part]] + within[cells.j[part]]] = cells.x[part]
    dense = dense_cells(matrix, shape, row_members=rows, col_members=cols)
    if dense.n_cells < n:
        raise DuplicateCellsError
    return dense


def weigh_cells(
    cells: Triplets | RawCells, weight: npt.NDArray[Any], shape: tuple[int, int], *, dtype: npt.DTypeLike | None = None
) -> Cells:
    """Return these cells, each of which counts as many as its weight says: always in the listed layout."""
    numbered = Triplets(cells.i[:], cells.j[:], np.arange(len(cells.x)))
    value, single = cells.x.astype(dtype or cells.x.dtype), weight.astype(np.float32)
    rows, cols = (
        Side(side.indptr, side.partner, value[side.value], weight=single[side.value])
        for side in two_sides(numbered, shape, np.int64)
    )
    return Cells(rows, cols, n_cells=len(value))


def is_dense(n_cells: int, rows: npt.NDArray[np.int32], cols: npt.NDArray[np.int32]) -> bool:
    """Return whether so many cells between these rows and columns are best held as a matrix."""
    return n_cells >= max(MIN_DENSE, DENSE * len(rows) * len(cols))


def dense_cells(
    matrix: npt.NDArray[Any],
    shape: tuple[int, int],
    *,
    row_members: npt.NDArray[np.int32],
    col_members: npt.NDArray[np.int32],
) -> Cells:
    """Return the dense layout: a flat matrix, row by row, of the values between all members of either side (sorted)."""
    width = len(col_members)
    rows = Side.dense(matrix, shape[0], owners=row_members, members=col_members, step=width, stride=1)
    cols = Side.dense(matrix, shape[1], owners=col_members, members=row_members, step=1, stride=width)
    return Cells(rows, cols, n_cells=int(rows.counts().sum()))


def fill_cells(  # noqa: PLR0913 - a rectangle of zeros is described by as many
    cells: Triplets | RawCells,
    shape: tuple[int, int],
    *,
    row_members: npt.NDArray[np.int32],
    col_members: npt.NDArray[np.int32],
    dtype: npt.DTypeLike | None = None,
    sort: Sort | None = None,
) -> Cells:
    """Return the filled layout: zeros between all members of either side (sorted), except for these cells.

    The cells are the nonzero ones and the holes, in any order; their `i` and `j` are positions among the members.
    """
    rows, cols = (sort or two_sides)(cells, (len(row_members), len(col_members)), dtype)
    return Cells(
        _widen(rows, shape[0], owners=row_members, members=col_members),
        _widen(cols, shape[1], owners=col_members, members=row_members),
        n_cells=len(row_members) * len(col_members) - int(holes(rows.value).sum()),
    )


def hole_of(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a number of this type
    """Return the value of this type that says that a cell is not observed."""
    return HOLE if dtype == np.uint8 else np.nan


def _mentioned(positions: Positions, size: int) -> npt.NDArray[np.int32]:
    """Return which of so many entities have a cell."""
    has = np.zeros(size, dtype=np.bool_)
    for part in parts(len(positions)):
        has[positions[part]] = True
    return np.flatnonzero(has).astype(np.int32)


def _starts(owners: npt.NDArray[np.int32], size: int, *, step: int) -> npt.NDArray[np.int64]:
    """Return where the values of each of so many entities begin in a matrix, (size + 1,); those of others nowhere."""
    starts = np.zeros(size + 1, dtype=np.int64)
    starts[owners] = np.arange(len(owners)) * step
    return starts


def two_sides(cells: Triplets | RawCells, shape: tuple[int, int], dtype: npt.DTypeLike | None) -> tuple[Side, Side]:
    """Sort the cells by row and by column.

    Three counting sorts, the first from the source. The others sort stably by one side what the one before has sorted
    by the other side, so nothing but the two results is ever held in full.
    """
    # By rows first where the cells seem to come so, else by the smaller side, whose table of places is the smaller one.
    if shape[0] > shape[1] and not _ascends(cells.i[:1000]):
        by_row = _grouped(cells.j, cells.i, cells.x, shape=shape[::-1], dtype=dtype).tocsc()
        by_col = _without_repeats(by_row).tocsr()
    else:
        by_col = _grouped(cells.i, cells.j, cells.x, shape=shape, dtype=dtype).tocsc()
        by_row = _without_repeats(by_col).tocsr()
    return Side.of(by_row), Side.of(by_col)


def _without_repeats(matrix: _Sparse) -> _Sparse:
    if not matrix.has_canonical_format:
        raise DuplicateCellsError
    return matrix


def _grouped(
    entities: Positions,
    partners: Positions,
    values: npt.NDArray[Any],
    *,
    shape: tuple[int, int],
    dtype: npt.DTypeLike | None,
) -> _Sparse:
    """Return the cells sorted by the first side alone, whose entities are the rows of the result."""
    n = len(values)
    place, last, in_order = np.zeros(shape[0] + 1, dtype=np.int64), 0, True
    for part in parts(n):
        entity = entities[part]
        np.add.at(place[1:], entity, 1)
        in_order, last = in_order and entity[0] >= last and _ascends(entity), entity[-1]
    np.cumsum(place, out=place)
    # scipy makes all indices as wide as the widest array of them.
    ends = place.astype(np.int32 if n <= np.iinfo(np.int32).max else np.int64)
    partner, value = np.empty(n, dtype=np.int32), np.empty(n, dtype=dtype or values.dtype)
    for part in parts(n):
        at, order = (part, slice(None)) if in_order else _next_places(entities[part], place)
        partner[at] = partners[part][order]
        value[at] = values[part][order]
    return sparse.csr_array((value, partner, ends), shape=shape)


def _next_places(entities: npt.NDArray[Any], place: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the places of cells of these entities and which cell goes to each; `place`, the next free, moves on."""
    # A sort of the pairs (entity, number) is a stable sort by entity, and several times faster than NumPy's own.
    pairs = entities.astype(np.int64) << 32 | np.arange(len(entities))
    pairs.sort()
    entity, order = pairs >> 32, pairs & 0xFFFFFFFF
    first = np.flatnonzero(np.diff(entity, prepend=-1))
    entity, lengths = entity[first], np.diff(first, append=len(entities))
    at = np.repeat(place[entity] - first, lengths) + np.arange(len(entities))
    place[entity] += lengths
    return at, order


def _ascends(entities: npt.NDArray[Any]) -> bool:
    return bool((entities[1:] >= entities[:-1]).all())


def _widen(side: Side, size: int, *, owners: npt.NDArray[np.int32], members: npt.NDArray[np.int32]) -> Side:
    """Spread a listing over the members of a side, its owners, to one over the whole entity set."""
    covered, lengths = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.int64)
    covered[owners], lengths[owners] = True, np.diff(side.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Side(indptr, side.partner, side.value, members=members, covered=covered)


def _chunks_between_members(cells: Cells, size: int) -> Iterator[Triplets]:
    rows, cols = cells.members()
    n_places = len(rows) * len(cols)
    for start in range(0, n_places, size):
        stop = min(start + size, n_places)
        x = cells.rows.value[start:stop] if cells.dense else _filled_part(cells, start, stop)
        seen = ~holes(x)
        i, j = np.divmod(start + np.flatnonzero(seen), len(cols))
        if len(i):
            yield Triplets(rows[i], cols[j], x[seen])


def _filled_part(cells: Cells, start: int, stop: int) -> npt.NDArray[Any]:
    """Return the values of a filled relation at the places start..stop, holes and all."""
    width = len(cells.members()[1])
    listed, value = listed_cells(cells, start // width, (stop - 1) // width + 1)
    inside = (listed >= start) & (listed < stop)
    x = np.zeros(stop - start, dtype=value.dtype)
    x[listed[inside] - start] = value[inside]
    return x


def listed_cells(
    cells: Cells, start: int = 0, stop: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the places, sorted, and the values of what some row members of a filled relation list; all by default.

    The place of a cell is its row's position among the members times the width plus its column's.
    """
    rows, cols = cells.members()
    owners, side = rows[start:stop], cells.rows
    if not len(owners):
        return np.empty(0, np.int64), side.value[:0]
    listed = slice(int(side.indptr[owners[0]]), int(side.indptr[owners[-1] + 1]))
    position = np.repeat(np.arange(start, start + len(owners)), np.diff(side.indptr)[owners])
    return position * len(cols) + side.partner[listed], side.value[listed]
