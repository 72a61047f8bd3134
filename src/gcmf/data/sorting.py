"""Cells sorted in files: dealt out to buckets of consecutive entities first, each of which is then sorted in memory.

The disk is read and written in order, and what is held at any time is one part of the source or one bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.cells import DuplicateCellsError, Side, Triplets, two_sides, weigh_cells
from gcmf.data.files import open_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gcmf.data.files import ArrayFile, Files
    from gcmf.data.positions import Positions
    from gcmf.data.raw import RawCells

BUCKET = 1 << 23
"""Cells that are sorted at a time, about: a bucket ends with an entity."""
PART = 1 << 21
"""Cells of the source that are dealt out at a time."""


@dataclass(frozen=True)
class OnDisk:
    """Sorts the cells of one relation by row and by column, as `two_sides` does, into files of this name."""

    files: Files
    name: str

    def __call__(
        self, cells: Triplets | RawCells, shape: tuple[int, int], dtype: npt.DTypeLike | None
    ) -> tuple[Side, Side]:
        """Return the two sides; their arrays are in files."""
        value_type, weight = np.dtype(dtype or cells.x.dtype), getattr(cells, "weight", None)
        of_cells = cells.x, weight, value_type
        rows = self._side("rows", (cells.i, cells.j), of_cells, shape)
        return rows, self._side("cols", (cells.j, cells.i), of_cells, shape[::-1])

    def _side(
        self,
        side: str,
        ends: tuple[Positions, Positions],
        of_cells: tuple[npt.NDArray[Any], npt.NDArray[Any] | None, np.dtype[Any]],
        shape: tuple[int, int],
    ) -> Side:
        entities, partners = ends
        values, weights, dtype = of_cells
        n, name = len(values), f"{self.name}-{side}"
        indptr = np.zeros(shape[0] + 1, np.int64)
        for part in _parts(n):
            indptr[1:] += np.bincount(entities[part], minlength=shape[0])
        np.cumsum(indptr, out=indptr)
        columns = [self.files.array(f"{name}-partner", n, np.int32), self.files.array(f"{name}-value", n, dtype)]
        given: list[Any] = [partners, values]
        if weights is not None:
            columns.append(self.files.array(f"{name}-weight", n, np.float32))
            given.append(weights)
        owner = self.files.scrap_array(n, np.int32)
        edges = np.append(np.flatnonzero(np.diff(indptr[:-1] // BUCKET, prepend=-1)), shape[0])
        _deal(entities, given, into=(owner, columns), indptr=indptr, edges=edges)
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            try:
                _sort_bucket(owner, columns, (first, last), at=(int(indptr[first]), int(indptr[last])), width=shape[1])
            except DuplicateCellsError as error:
                cell = error.args if side == "rows" else error.args[::-1]
                raise DuplicateCellsError(*cell) from None
        for file in (owner, *columns):
            file.close()
        owner.path.unlink()
        found = [open_array(self.files.folder, file.path.stem) for file in columns]
        return Side(indptr, found[0], found[1], weight=found[2] if weights is not None else None)


def _deal(
    entities: Positions,
    given: list[Any],
    *,
    into: tuple[ArrayFile, list[ArrayFile]],
    indptr: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
) -> None:
    """Write every cell somewhere among those of its bucket, in the order in which they come."""
    owner, columns = into
    # Sixteen bits are sorted by counting.
    bucket_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges)).astype(np.uint16)
    place = indptr[edges[:-1]].copy()
    for part in _parts(len(entities)):
        entity = np.asarray(entities[part])
        bucket = bucket_of[entity]
        order = np.argsort(bucket, kind="stable")
        counts = np.bincount(bucket, minlength=len(place))
        ends = np.concatenate([[0], np.cumsum(counts)])
        for file, column in ((owner, entity), *zip(columns, (a[part] for a in given), strict=True)):
            dealt = np.asarray(column)[order]
            for b in np.flatnonzero(counts).tolist():
                file.write(int(place[b]), dealt[ends[b] : ends[b + 1]])
        place += counts


def _sort_bucket(
    owner: ArrayFile, columns: list[ArrayFile], entities: tuple[int, int], *, at: tuple[int, int], width: int
) -> None:
    """Sort the cells of some entities, in place; refuse cells that are given twice."""
    first, last = entities
    if at[0] == at[1]:
        return
    own, partner, value, *weight = (file.read(*at) for file in (owner, *columns))
    cells, shape = Triplets(own - np.int32(first), partner, value), (last - first, width)
    try:
        side = weigh_cells(cells, weight[0], shape).rows if weight else two_sides(cells, shape, None)[0]
    except DuplicateCellsError:
        number = cells.i.astype(np.int64) * width + partner
        number.sort()
        i, j = divmod(int(number[1:][number[1:] == number[:-1]][0]), width)
        raise DuplicateCellsError(first + i, j) from None
    for file, found in zip(columns, (side.partner, side.value, side.weight), strict=False):
        if found is not None:
            file.write(at[0], found)


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, min(start + PART, n)) for start in range(0, n, PART))
