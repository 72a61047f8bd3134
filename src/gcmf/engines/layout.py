"""How the compiled engine holds the cells of an entity set: as a collection does, or by what whole rows lack.

A least-squares row with (nearly) all of its cells observed needs no loop over them: Σ ū_j ū_jᵀ over all partners is the
same for every such row, Σ x ū_j is a product of matrices, and the few holes are taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.cells import Side, holes
from gcmf.engines.likelihood_kernels import weigh_chunk_at
from gcmf.engines.records import BLOCK, CELLS, FILLED, LISTED, VALUE_TYPES, ZEROS, Record
from gcmf.engines.row_kernels import next_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Block, Problem

    Array = NDArray[Any]
    Floats = NDArray[np.float64]

#: A row counts as whole where it has at most this many holes per observed cell: below it holes are less work.
MAX_HOLES = 0.6
#: How many standard deviations from the mean an unlisted zero may be for whole rows of them to be summed beforehand.
FAR = 2.0
#: Cells below which a matrix product is more trouble than a loop.
MIN_MATRIX = 20_000
#: Cells of a matrix product that take the time of one cell of a loop.
CELLS_PER_LOOP = 40
#: Cells of a piece: a row of more than twice as many is summed in pieces, by all threads.
PIECE = 50_000
#: How cells are best summed: one by one, as the holes of whole rows of a matrix, or as what whole rows of zeros lack.
ONE_BY_ONE, BY_HOLES, BY_ZEROS = range(3)
_NO_MEMBERS, _NO_ROWS = np.empty(0, np.int32), np.empty(0, bool)


class Matrix(NamedTuple):
    """The standardised values of a dense relation between the rows and the columns that have any, 0 where missing."""

    x: Array
    rows: Array
    cols: Array
    """Which entities those are."""
    seen: Array

    def transposed(self) -> Matrix:
        """Return the same from the other side."""
        return Matrix(self.x.T, self.cols, self.rows, self.seen.T)


@dataclass(frozen=True)
class MatrixRows:
    """A matrix as a sweep wants it."""

    x: Array
    cols: Array
    place: Array
    """(d+1,) position of each row in the matrix."""
    squares: Floats
    totals: Floats
    """Σ x² and Σ x of each row of the matrix."""

    def multiply(self, edges: Array, turn: Array, right: Array, precision: Floats | None, out: Floats, _: int) -> None:
        """Write Σ x ū_j, Σ x b_j, Σ x² and Σ x of the rows into out; right (cols, K + 1) holds ū and b.

        Where partners have noise of their own, each x counts σ_j times, and `right` is multiplied by σ already. One
        range of rows after the other, as the kernels do: the same bits for any number of threads.
        """
        K = right.shape[1]
        while (r := next_range(turn)) < len(edges) - 1:
            lo, hi = edges[r], edges[r + 1]
            first, last = self.place[lo], self.place[hi]
            rows = lo + np.flatnonzero(np.diff(self.place[lo : hi + 1]))
            out[rows, :K] = self.x[first:last] @ right
            if precision is None:
                out[rows, K], out[rows, K + 1] = self.squares[first:last], self.totals[first:last]
            else:
                x = self.x[first:last]
                out[rows, K], out[rows, K + 1] = np.einsum("ij,ij,j->i", x, x, precision), x @ precision


@dataclass(frozen=True)
class HeldCells:
    """The cells of one block: as they are best summed, and every observed one by itself."""

    summed: Record
    listed: Record
    n_visited: Array
    """(d,) cells that summing a row looks at."""
    known: Array
    """(d,) rows of which the sums with all cells are known beforehand."""
    base: Record | None = None
    """One row with a cell for every member, all at the value `fill`: what whole rows have in common."""
    matrix: MatrixRows | None = None


class Layout:
    """The blocks of one entity set, all that never changes."""

    def __init__(self, e: int, blocks: tuple[Block, ...], held: list[HeldCells], biased: tuple[bool, ...]) -> None:
        self.relations = np.array([b.relation for b in blocks])
        self.layers = np.array([b.layer for b in blocks])
        self.row_side = np.array([b.side == 0 for b in blocks])
        self.biased = np.array([biased[b.layer] for b in blocks])
        has_cells = np.stack([b.cells.counts() > 0 for b in blocks], axis=1)
        self.present, self.has_bias = np.asarray(has_cells.any(axis=1)), self.biased & has_cells
        self.least_squares = np.array([b.likelihood.least_squares for b in blocks])
        self.guarded = not all(b.likelihood.quadratic_is_bound for b in blocks)
        self.whole = np.array([cells.base is not None for cells in held])
        self.matrices = [cells.matrix for cells in held]
        self.n_visited = np.sum([cells.n_visited for cells in held], axis=0)
        # What pieces were summed up to would not hold once another row of the set has moved.
        self.own = np.array([b.other == e for b in blocks])
        self.once = self.own & self.row_side
        self.times = np.array([b.times for b in blocks])
        self.pieces, self.longest = _pieces([] if self.own.any() else held), 2 * PIECE
        products = sum(len(cells.matrix.cols) for cells in held if cells.matrix is not None)
        self.cost = self.n_visited + products // CELLS_PER_LOOP
        working = held[0].summed.working
        self.blocks = Record(BLOCK, working, len(blocks))
        for b, (block, cells) in enumerate(zip(blocks, held, strict=True)):
            likelihood = block.likelihood
            self.blocks.set(
                b,
                summed=cells.summed,
                listed=cells.listed,
                least_squares=likelihood.least_squares,
                # What partners reach is not known beforehand where they move in the same sweep.
                mild=likelihood.mild and block.other != e,
                zero_weight=likelihood.zero_weight,
                weigh_chunk=0 if likelihood.least_squares else weigh_chunk_at(likelihood, working),
            )
        self.base_blocks = self.blocks.copy()
        for b, cells in enumerate(held):
            if cells.base is not None:
                self.base_blocks.set(b, summed=cells.base)

    @classmethod
    def of(cls, problem: Problem, dtype: np.dtype[Any], ways: dict[int, int] | None = None) -> dict[int, Layout]:
        """Lay out every set that has blocks, as these ways say; the two sides of a relation share its matrix."""
        ways = ways_of(problem) if ways is None else ways
        matrices: dict[tuple[int, int], Matrix] = {}
        by_holes = [b for blocks in problem.blocks for b in blocks if ways[b.layer] == BY_HOLES]
        for block in sorted(by_holes, key=lambda b: b.side):
            other = matrices.get((block.relation, 1 - block.side))
            matrices[block.relation, block.side] = standardised(block, dtype) if other is None else other.transposed()
        layouts = {}
        for e, blocks in enumerate(problem.blocks):
            held = [hold(b, dtype, matrices.get((b.relation, b.side)), ways[b.layer]) for b in blocks]
            if held:
                layouts[e] = cls(e, blocks, held, problem.biased)
        return layouts


def ways_of(problem: Problem) -> dict[int, int]:
    """Return how the cells of each block are best summed, by its layer: for all of its rows alike."""
    matrices = {
        block.relation for blocks in problem.blocks for block in blocks if block.side == 0 and _is_matrix(block)
    }
    ways = {}
    for e, blocks in enumerate(problem.blocks):
        for block in blocks:
            # What whole rows have in common would not hold once another row of the same set has moved.
            way = BY_HOLES if block.relation in matrices else BY_ZEROS if _has_whole_zeros(block) else ONE_BY_ONE
            ways[block.layer] = ONE_BY_ONE if block.other == e else way
    return ways


def hold(block: Block, dtype: np.dtype[Any], matrix: Matrix | None, way: int) -> HeldCells:
    """Choose a layout for one block; `matrix` holds its values where it has one."""
    side, fill = _in_rows(block.cells), -block.center / block.scale
    known = np.zeros(len(side.indptr) - 1, bool)
    listed = _cells(dtype, LISTED, (side.indptr, side.partner, side.value), (_NO_MEMBERS, _NO_ROWS))
    listed.set(center=block.center, inverse_scale=1.0 / block.scale, fill=fill)
    if side.weight is not None:
        listed.set(weight=side.weight)
    if side.members is None or side.covered is None:
        return HeldCells(listed, listed, np.diff(side.indptr), known)
    listed.set(layout=FILLED, members=side.members, covered=side.covered, stride=side.stride)
    if matrix is not None:
        return _by_holes(listed, matrix, len(known))
    if way == BY_ZEROS:
        summed = listed.copy()
        summed.set(layout=ZEROS, stride=1)
        base = _base(dtype, side.members, fill)
        return HeldCells(summed, listed, np.diff(side.indptr), side.covered, base)
    return HeldCells(listed, listed, len(side.members) * side.covered, known)


def _has_whole_zeros(block: Block) -> bool:
    """Whether the rows of a filled least-squares block are best summed as what whole rows of zeros lack.

    Where most cells of a row are holes, they would be more work than its cells; and where zeros are far from what is
    listed, the sums of a whole row of zeros would cancel.
    """
    side = block.cells
    if side.members is None or side.stride or not block.likelihood.least_squares:
        return False
    if abs(block.center / block.scale) > FAR:
        return False
    return bool((len(side.members) <= (1.0 + MAX_HOLES) * side.counts()[side.covered]).all())


def _in_rows(side: Side) -> Side:
    """The same cells; those of a column of bytes are copied to lie side by side.

    A column of a matrix is slow to read, by up to 13% of an iteration where its width is a power of two: 0/1 cells are
    quick to weigh, and a byte per cell is little.
    """
    if side.stride <= 1 or side.value.dtype != np.uint8 or side.members is None or side.covered is None:
        return side
    owners, width = np.flatnonzero(side.covered).astype(np.int32), len(side.members)
    return Side.dense(side.matrix.ravel(), len(side.covered), owners=owners, members=side.members, step=width, stride=1)


def _is_matrix(block: Block) -> bool:
    """Whether a least-squares relation is dense, and few enough of its cells are holes."""
    side = block.cells
    if not (block.likelihood.least_squares and side.stride):
        return False
    n = int(side.counts().sum())
    return n >= MIN_MATRIX and n * (1.0 + MAX_HOLES) >= side.value.size


def standardised(block: Block, dtype: np.dtype[Any]) -> Matrix:
    """Return the values of a dense relation."""
    side = block.cells
    assert side.members is not None
    assert side.covered is not None
    x, seen = np.zeros(side.matrix.shape, dtype), np.empty(side.matrix.shape, bool)
    for own, there, value in zip(x, seen, side.matrix, strict=True):
        np.logical_not(holes(value), out=there)
        own[there] = (value[there].astype(np.float64) - block.center) / block.scale
    return Matrix(x, np.flatnonzero(side.covered).astype(np.int32), side.members, seen)


def _cells(dtype: np.dtype[Any], layout: int, lists: tuple[Array, Array, Array], whole: tuple[Array, Array]) -> Record:
    """Cells of these lists (indptr, partner, value), and of rows that are whole (members, covered)."""
    indptr, partner, value = lists
    cells = Record(CELLS, dtype)
    cells.set(layout=layout, indptr=indptr, partner=partner, value=value, value_type=VALUE_TYPES[value.dtype])
    cells.set(members=whole[0], covered=whole[1], inverse_scale=1.0, stride=1)
    return cells


def _base(dtype: np.dtype[Any], members: Array, fill: float) -> Record:
    """One row with a cell for every member, at the value `fill`."""
    lists = np.array([0, len(members)]), members, np.full(len(members), fill, dtype)
    return _cells(dtype, LISTED, lists, (_NO_MEMBERS, _NO_ROWS))


def _by_holes(listed: Record, matrix: Matrix, d: int) -> HeldCells:
    """Whole rows list their holes, the others their cells."""
    whole = len(matrix.cols) <= (1.0 + MAX_HOLES) * matrix.seen.sum(axis=1)
    i, j = np.nonzero(matrix.seen ^ whole[:, None])
    lengths, covered, there = np.zeros(d, np.int64), np.zeros(d, bool), np.zeros(d, np.int64)
    lengths[matrix.rows] = np.bincount(i, minlength=len(matrix.rows))
    covered[matrix.rows], there[matrix.rows] = whole, 1
    dtype, lists = matrix.x.dtype, (_ends(lengths), matrix.cols[j], matrix.x[i, j])
    summed = _cells(dtype, LISTED, lists, (matrix.cols, covered))
    squares = np.einsum("ij,ij->i", matrix.x, matrix.x, dtype=np.float64)
    rows = MatrixRows(matrix.x, matrix.cols, _ends(there), squares, matrix.x.sum(axis=1, dtype=np.float64))
    return HeldCells(summed, listed, lengths, covered, _base(dtype, matrix.cols, 0.0), rows)


def _pieces(held: list[HeldCells]) -> Array:
    """Row, block, first and last cell of every piece of a long row, (P, 4), ordered by row and block."""
    pieces = []
    for b, cells in enumerate(held):
        for row in np.flatnonzero((cells.n_visited > 2 * PIECE) & ~cells.known).tolist():
            n = int(cells.n_visited[row])
            pieces += [(row, b, first, min(first + PIECE, n)) for first in range(0, n, PIECE)]
    return np.array(sorted(pieces), dtype=np.int64).reshape(-1, 4)


def _ends(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)])
