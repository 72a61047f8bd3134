"""How the rows of an entity set are cut, by what depends on the data alone, and what a worker needs to know of some.

The rows of a set are cut into *strips* of about equal cost. A worker is given strips that follow each other, and
returns its sums strip by strip; they are added up in the order of the rows. So nothing depends on how many workers
there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.cells import Side
from gcmf.engines.base import Block, Problem
from gcmf.engines.cpu import Part, row_ranges
from gcmf.engines.layout import BY_HOLES, BY_ZEROS, CELLS_PER_LOOP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.engines.cluster.stored import Store, Stored

    Array = NDArray[Any]

#: Strips of a set, at most: more workers than this have nothing to do.
MAX_STRIPS = 256
_NO_CELLS = Side(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


class Rows(NamedTuple):
    """Some rows of an entity set that follow each other: strips first to last, rows start to stop."""

    first: int
    last: int
    start: int
    stop: int


@dataclass(frozen=True)
class Cut:
    """How one entity set is cut."""

    edges: Array | None
    """Ranges of rows, as the compiled engine has them; None where rows depend on each other: the set is one strip."""
    strips: Array
    """Strip s is ranges strips[s] to strips[s + 1]."""
    size: int

    @classmethod
    def of(cls, problem: Problem, e: int, ways: dict[int, int]) -> Cut:
        """Cut a set by the cost of its rows."""
        blocks, size = problem.blocks[e], problem.sizes[e]
        if any(block.other == e for block in blocks):
            return cls(None, np.array([0, 1]), size)
        edges = row_ranges(np.sum([_visited(block, ways[block.layer]) for block in blocks], axis=0))
        n = min(MAX_STRIPS, len(edges) - 1)
        return cls(edges, np.arange(n + 1) * (len(edges) - 1) // n, size)

    def share(self, weights: Sequence[int]) -> list[Rows]:
        """Return the rows of each of some workers, in proportion to their weights; those without any are left out."""
        ends = np.cumsum([0, *weights]) / sum(weights)
        strips = np.round(ends * (len(self.strips) - 1)).astype(int)
        pairs = zip(strips[:-1].tolist(), strips[1:].tolist(), strict=True)
        return [Rows(a, b, self._row(a), self._row(b)) for a, b in pairs]

    def _row(self, strip: int) -> int:
        """The first row of a strip."""
        if self.edges is None:
            return self.size if strip else 0
        return int(self.edges[self.strips[strip]])

    def part(self, rows: Rows, ways: dict[int, int]) -> Part:
        """Return what the engine of some rows is to know of them."""
        if self.edges is None:
            return Part(0, None, self.strips, ways)
        strips = self.strips[rows.first : rows.last + 1]
        return Part(rows.start, self.edges[strips[0] : strips[-1] + 1] - rows.start, strips - strips[0], ways)


def _visited(block: Block, way: int) -> Array:
    """About how many cells summing each row looks at."""
    side = block.cells
    if side.members is None or side.covered is None or way == BY_ZEROS:
        return np.diff(side.indptr)
    return side.covered * (len(side.members) // (CELLS_PER_LOOP if way == BY_HOLES else 1))


class StoredSide(NamedTuple):
    """The cells of some rows of a `Side`, in files."""

    size: int
    indptr: Stored | None
    """Where the cells of each row begin, with `start` for the first; None where they are in a matrix."""
    start: int
    partner: Stored | None
    value: Stored
    weight: Stored | None
    members: Stored | None
    covered: Stored | None
    columns: tuple[int, int, int] | None
    """Where the rows are columns of a matrix: how many there are, and the first and last that are wanted."""

    @classmethod
    def of(cls, side: Side, rows: Rows, store: Store) -> StoredSide:
        """Return where the cells of some rows are; what is in no file yet is put into one."""
        size, (lo, hi) = rows.stop - rows.start, rows[2:]
        members, covered = (None if a is None else store.put(a) for a in (side.members, side.covered))
        covered = covered and covered.cut(lo, hi)
        if side.stride and side.covered is not None and side.members is not None:
            a, b = int(side.covered[:lo].sum()), int(side.covered[:hi].sum())
            value, columns = store.put(side.value), None
            if side.stride == 1:
                value = value.cut(a * len(side.members), b * len(side.members))
            else:
                columns = side.stride, a, b
            return cls(size, None, 0, None, value, None, members, covered, columns)
        a, b = int(side.indptr[lo]), int(side.indptr[hi])
        weight = None if side.weight is None else store.put(side.weight).cut(a, b)
        indptr, partner, value = store.put(side.indptr).cut(lo, hi + 1), store.put(side.partner), store.put(side.value)
        return cls(size, indptr, a, partner.cut(a, b), value.cut(a, b), weight, members, covered, None)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        if self.columns is not None:
            width, a, b = self.columns
            return self.value.nbytes // width * (b - a)
        arrays = self.indptr, self.partner, self.value, self.weight, self.members, self.covered
        return sum(array.nbytes for array in arrays if array is not None)

    def open(self) -> Side:
        """Return the cells: maps of files, but for columns of a matrix, which are copied to lie in rows."""
        members, covered = (None if array is None else array.open() for array in (self.members, self.covered))
        value = self.value.open()
        if self.indptr is None or self.partner is None:
            assert members is not None
            assert covered is not None
            if self.columns is not None:
                width, a, b = self.columns
                value = np.ascontiguousarray(value.reshape(-1, width)[:, a:b].T).ravel()
            owners = np.flatnonzero(covered).astype(np.int32)
            return Side.dense(value, self.size, owners=owners, members=members, step=len(members), stride=1)
        weight = None if self.weight is None else self.weight.open()
        indptr = self.indptr.open() - self.start
        return Side(indptr, self.partner.open(), value, members, covered, weight=weight)


@dataclass(frozen=True)
class Recipe:
    """All that a worker needs to make the engine of some rows of set e, whoever it is and whenever it is asked."""

    e: int
    rows: Rows
    part: Part
    sizes: tuple[int, ...]
    blocks: tuple[Block, ...]
    """Those of the set, without their cells."""
    cells: tuple[StoredSide, ...]
    """Of each block."""
    noise_cells: tuple[Stored | None, ...]
    """How many cells tell of the noise of each row, as blocks have it."""
    biased: tuple[bool, ...]
    n_relations: int

    @classmethod
    def of(cls, problem: Problem, e: int, part: Part, rows: Rows, store: Store) -> Recipe:
        """Return the recipe of some rows."""
        return cls(
            e, rows, part, problem.sizes,
            tuple(replace(block, cells=_NO_CELLS, noise_cells=None) for block in problem.blocks[e]),
            tuple(StoredSide.of(block.cells, rows, store) for block in problem.blocks[e]),
            tuple(None if block.noise_cells is None else store.put(block.noise_cells).cut(rows.start, rows.stop)
                  for block in problem.blocks[e]),
            problem.biased, problem.n_relations,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return sum(side.nbytes for side in self.cells)

    def problem(self) -> Problem:
        """Return the rows as a problem of their own: the other sets have no blocks, and are partners."""
        sizes = list(self.sizes)
        sizes[self.e] = self.rows.stop - self.rows.start
        blocks: list[tuple[Block, ...]] = [()] * len(sizes)
        blocks[self.e] = tuple(
            replace(block, cells=side.open(), noise_cells=None if cells is None else cells.open())
            for block, side, cells in zip(self.blocks, self.cells, self.noise_cells, strict=True)
        )
        return Problem(tuple(sizes), tuple(blocks), self.biased, self.n_relations)
