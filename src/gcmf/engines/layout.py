"""How the compiled engine holds the cells of an entity set: as they are listed, or by what whole rows lack.

A Gaussian row with (nearly) all of its cells observed needs no loop over them: Σ ū_j ū_jᵀ over all partners is the same
for every such row, Σ x ū_j is a product of matrices, and the few holes are taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from gcmf.engines.cell_kernels import GAUSSIAN, QUADRATURE
from gcmf.engines.chunk_kernels import FILLED, LISTED, WHOLE, WHOLE_ZEROS, Cells, Rule, Table
from gcmf.engines.solve_kernels import next_range
from gcmf.likelihoods.bernoulli import CURVED, TIGHT
from gcmf.likelihoods.poisson import CELLS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Block, Problem
    from gcmf.likelihoods import Likelihood

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
#: Types of the arrays of Cells; None is the working precision.
_KINDS = np.int64, np.int32, None, np.float64, np.uint8, np.int32, np.bool_
_NO_WIDE, _NO_CODES, _NO_MEMBERS, _NO_ROWS = (
    np.empty(0),
    np.empty(0, np.uint8),
    np.empty(0, np.int32),
    np.empty(0, bool),
)


class Matrix(NamedTuple):
    """The standardised values of a relation between the rows and the columns that it has, 0 where missing."""

    x: Array
    rows: Array
    cols: Array
    """Which entities those are."""
    seen: Array

    def transposed(self) -> Matrix:
        """Return the same from the other side."""
        return Matrix(self.x.T, self.cols, self.rows, self.seen.T)


@dataclass(frozen=True)
class WholeRows:
    """A matrix as a sweep wants it."""

    x: Array
    cols: Array
    place: Array
    """(d+1,) position of each row in the matrix."""
    squares: Floats
    totals: Floats
    """Σ x² and Σ x of each row of the matrix."""

    def multiply(self, edges: Array, turn: Array, right: Array, out: Floats) -> None:
        """Write Σ x ū_j, Σ x b_j, Σ x² and Σ x of the rows into out; right (cols, K + 1) holds ū and b.

        One range of rows after the other, as the kernels do: the same bits for any number of threads.
        """
        K = right.shape[1]
        while (r := next_range(turn)) < len(edges) - 1:
            lo, hi = edges[r], edges[r + 1]
            first, last = self.place[lo], self.place[hi]
            rows = lo + np.flatnonzero(np.diff(self.place[lo : hi + 1]))
            out[rows, :K] = self.x[first:last] @ right
            out[rows, K] = self.squares[first:last]
            out[rows, K + 1] = self.totals[first:last]


@dataclass(frozen=True)
class Held:
    """The cells of one block: as they are summed, and one by one."""

    cells: Cells
    rule: Rule
    listed: Cells
    listed_rule: Rule
    n_listed: Array
    """(d,) cells that summing a row looks at."""
    matrix: WholeRows | None = None

    def base(self) -> Held:
        """One row with a cell for every member, all at the value `fill`: what whole rows have in common."""
        members = self.cells.members
        values = np.full(len(members), self.rule.fill, self.cells.value.dtype)
        one = Cells(LISTED, np.array([0, len(members)]), members, values, _NO_WIDE, _NO_CODES, _NO_MEMBERS, _NO_ROWS)
        rule = self.rule._replace(center=0.0, inverse_scale=1.0)
        return Held(one, rule, one, rule, np.array([len(members)]))


class Layout:
    """The blocks of one entity set, all that never changes."""

    def __init__(self, blocks: tuple[Block, ...], held: list[Held], biased: tuple[bool, ...]) -> None:
        self.relations = np.array([b.relation for b in blocks])
        self.layers = np.array([b.layer for b in blocks])
        self.row_side = np.array([b.side == 0 for b in blocks])
        self.biased = np.array([biased[b.layer] for b in blocks])
        self.has_bias = self.biased & np.stack([b.cells.counts() > 0 for b in blocks], axis=1)
        self.gaussian = np.array([one.rule.kind == GAUSSIAN for one in held])
        self.guarded = any(one.rule.kind == QUADRATURE for one in held)
        self.whole = np.array([one.cells.layout in (WHOLE, WHOLE_ZEROS) for one in held])
        self.any_whole = bool(self.whole.any())
        self.matrices = [one.matrix for one in held]
        self.n_listed = np.sum([one.n_listed for one in held], axis=0)
        self.pieces = _pieces(held)
        products = sum(len(one.matrix.cols) for one in held if one.matrix is not None)
        self.cost = self.n_listed + products // CELLS_PER_LOOP
        self._table = _table(held)
        bases = [one.base() for one in held]
        self._bases = _table(bases)
        # Tables hold addresses only.
        self._alive = held, bases

    @classmethod
    def of(cls, problem: Problem, dtype: np.dtype[Any]) -> list[Layout]:
        """Choose the layout of every block; the two sides of a relation share its matrix."""
        sides = [block for blocks in problem.blocks for block in blocks if block.side == 0]
        matrices = {block.relation: find_matrix(block, dtype) for block in sides}
        layouts = []
        for blocks in problem.blocks:
            held = []
            for block in blocks:
                matrix = matrices[block.relation]
                held.append(hold(block, dtype, matrix.transposed() if matrix and block.side else matrix))
            layouts.append(cls(blocks, held, problem.biased))
        return layouts

    def table(self, weight: Floats) -> Table:
        """What the kernels need to know of the blocks, to be completed with the parameters of the partners."""
        places, codes, numbers = self._table
        numbers = numbers.copy()
        numbers[:, 0] = weight
        return Table(places.copy(), codes, numbers)

    def base_table(self, table: Table) -> Table:
        """One row per block, for what its whole rows have in common."""
        places = table.places.copy()
        places[:, :14] = self._bases.places[:, :14]
        return Table(places, self._bases.codes, self._bases.numbers)


def address(array: Array) -> int:
    """Where the first item of an array lies."""
    found: int = array.__array_interface__["data"][0]
    return found


def hold(block: Block, dtype: np.dtype[Any], matrix: Matrix | None) -> Held:
    """Choose a layout for one block; `matrix` holds its values where it has one."""
    listed, rule = _as_listed(block, dtype)
    if matrix is not None:
        return _by_holes(listed, rule, matrix)
    lengths = np.diff(listed.indptr)
    if listed.layout == LISTED:
        return Held(listed, rule, listed, rule, lengths)
    counts, members = block.cells.counts(), len(listed.members)
    # Where most cells of a row are holes, they would be more work than its cells; and where zeros are far from what
    # is listed, the sums of a whole row of zeros would cancel.
    near = rule.kind == GAUSSIAN and abs(rule.fill) <= FAR
    if near and (members <= (1.0 + MAX_HOLES) * counts[listed.covered]).all():
        return Held(listed._replace(layout=WHOLE_ZEROS), rule, listed, rule, lengths)
    return Held(listed, rule, listed, rule, members * listed.covered)


def find_matrix(block: Block, dtype: np.dtype[Any]) -> Matrix | None:
    """Return a Gaussian relation, seen from its rows, as a matrix if nearly all of its cells are observed."""
    side = block.cells
    if not block.likelihood.least_squares or side.members is not None or len(side.partner) < MIN_MATRIX:
        return None
    rows, has = np.flatnonzero(np.diff(side.indptr)), np.zeros(int(side.partner.max(initial=-1)) + 1, bool)
    has[side.partner] = True
    cols = np.flatnonzero(has)
    if len(side.partner) * (1.0 + MAX_HOLES) < len(rows) * len(cols):
        return None
    x = ((side.value.astype(np.float64) - block.center) / block.scale).astype(dtype)
    column = (np.cumsum(has) - 1).astype(np.int32)[side.partner]
    ends, shape = np.concatenate([[0], side.indptr[rows + 1]]), (len(rows), len(cols))
    seen = sparse.csr_array((np.ones(len(column), bool), column, ends), shape=shape).toarray()
    values = sparse.csr_array((x, column, ends), shape=shape).toarray()
    return Matrix(values, rows.astype(np.int32), cols.astype(np.int32), seen)


def _code(likelihood: Likelihood) -> int:
    if likelihood.least_squares:
        return GAUSSIAN
    known = {CURVED: 1, TIGHT: 2, CELLS["paper"]: 3, CELLS["cell"]: 4, CELLS["tight"]: 5, CELLS["exact"]: QUADRATURE}
    return known[likelihood.cell]


def _as_listed(block: Block, dtype: np.dtype[Any]) -> tuple[Cells, Rule]:
    """Return the cells as the collection holds them; values are copied only to change their precision."""
    side, lik = block.cells, block.likelihood
    rule = Rule(_code(lik), 1.0, float(lik.zero_weight), block.center, 1.0 / block.scale, -block.center / block.scale)
    value, wide, code = np.empty(0, dtype), _NO_WIDE, _NO_CODES
    if side.value.dtype == np.uint8:
        code = side.value
    elif side.value.dtype == dtype:
        value = side.value
    elif side.value.dtype == np.float64:
        wide = side.value
    else:
        value = side.value.astype(dtype)
    if side.members is None or side.covered is None:
        return Cells(LISTED, side.indptr, side.partner, value, wide, code, _NO_MEMBERS, _NO_ROWS), rule
    return Cells(FILLED, side.indptr, side.partner, value, wide, code, side.members, side.covered), rule


def _by_holes(listed: Cells, rule: Rule, matrix: Matrix) -> Held:
    """Whole rows list their holes, the others their cells."""
    d, counts = len(listed.indptr) - 1, matrix.seen.sum(axis=1)
    whole = len(matrix.cols) <= (1.0 + MAX_HOLES) * counts
    i, j = np.nonzero(matrix.seen ^ whole[:, None])
    lengths, covered, there = np.zeros(d, np.int64), np.zeros(d, bool), np.zeros(d, np.int64)
    lengths[matrix.rows] = np.bincount(i, minlength=len(matrix.rows))
    covered[matrix.rows], there[matrix.rows] = whole, 1
    cells = Cells(WHOLE, _ends(lengths), matrix.cols[j], matrix.x[i, j], _NO_WIDE, _NO_CODES, matrix.cols, covered)
    plain = rule._replace(center=0.0, inverse_scale=1.0, fill=0.0)
    squares = np.einsum("ij,ij->i", matrix.x, matrix.x, dtype=np.float64)
    rows = WholeRows(matrix.x, matrix.cols, _ends(there), squares, matrix.x.sum(axis=1, dtype=np.float64))
    return Held(cells, plain, listed, rule, lengths, rows)


def _pieces(held: list[Held]) -> Array:
    """Row, block, first and last cell of every piece of a long row, (P, 4), ordered by row and block."""
    found = []
    for b, one in enumerate(held):
        if one.cells.layout in (LISTED, FILLED):
            for row in np.flatnonzero(one.n_listed > 2 * PIECE).tolist():
                n = int(one.n_listed[row])
                found += [(row, b, first, min(first + PIECE, n)) for first in range(0, n, PIECE)]
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 4)


def _ends(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)])


def _table(blocks: list[Held]) -> Table:
    """Write down the addresses and the numbers of these blocks."""
    places = np.zeros((len(blocks), 38), np.int64)
    for b, one in enumerate(blocks):
        places[b, :14], places[b, 24:] = _places(one.cells), _places(one.listed)
    codes = np.array([(one.cells.layout, one.rule.kind, one.listed.layout) for one in blocks])
    numbers = np.array([(*one.rule[1:], *one.listed_rule[3:]) for one in blocks], dtype=np.float64)
    return Table(places, codes, numbers)


def _places(cells: Cells) -> list[int]:
    """Address and length of each array; a kernel that is given addresses takes every array for what it should be."""
    places = []
    for name, array, kind in zip(Cells._fields[1:], cells[1:], _KINDS, strict=True):
        if not array.flags.c_contiguous or (kind is not None and array.dtype != kind):
            msg = f"{name} must be contiguous and of type {kind}, not {array.dtype}"
            raise TypeError(msg)
        places += [address(array), array.size]
    return places
