"""The compiled engine: packs what a sweep needs, and hands row ranges to threads."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.engines.base import Swept
from gcmf.engines.cell_kernels import cell_functions, pack
from gcmf.engines.host import HostState
from gcmf.engines.layout import Layout
from gcmf.engines.records import CHUNK, PASS, SCRATCH, Record
from gcmf.engines.row_kernels import (
    base_rows,
    measure_rows,
    row_functions,
    sum_pieces,
    sweep_rows,
    weigh_rows,
)
from gcmf.engines.simd import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.engines.base import Array, Block, Floats, Given, Problem, RowPrior, State

#: Cost of solving for a row, in cells.
ROW_COST = 64
#: Cells per row range: below this a range is done before another thread would have started.
RANGE_COST = 20_000
#: Cells that tell θ this precisely (w θ²; of Gaussian cells ⟨τ⟩, in units of their variance) are left to float64. The
#: rounding of θ to float32 moves the bound of such a cell by √(w θ²) 1e-7 or more; and in a system that is as precise
#: superfluous factors can no longer be told apart, so that steps overflow.
PRECISE = 100.0
#: Threads of one fit: no machine that this engine is for has more cores.
MAX_THREADS = 256
_NO_PIECES = np.iinfo(np.int64).max


class CpuEngine(HostState):
    """Numba kernels over row ranges, in float32 as long as that is precise enough, or in float64.

    Every thread runs the same kernel, which takes one range of rows after the other until none is left.
    """

    def __init__(self, problem: Problem, *, dtype: str, n_threads: int) -> None:
        super().__init__(problem)
        blocks = [block for blocks in problem.blocks for block in blocks]
        self._least_squares = sorted({block.relation for block in blocks if block.likelihood.least_squares})
        self._completes = [np.array([problem.measured(e, b) for b in range(len(blocks))])
                           for e, blocks in enumerate(problem.blocks)]  # fmt: skip
        self._threads = _Threads(min(n_threads, MAX_THREADS))
        self._work_in("float64" if any(map(_large, blocks)) else dtype)

    def _work_in(self, dtype: str) -> None:
        """Choose the working precision, and lay out the cells for it."""
        self._dtype = np.dtype(dtype)
        self._layouts = Layout.of(self._problem, self._dtype)
        self._edges = [_row_ranges(layout.cost) for layout in self._layouts]
        self._passes: dict[tuple[int, int], _Pass] = {}
        self._pairs: dict[tuple[int, int], Array] = {}
        self._products: dict[int, Array] = {}

    def place(self, state: State) -> None:
        """Take over these parameters."""
        for group in state.groups():
            group[:] = [np.ascontiguousarray(array, self._dtype) for array in group]
        super().place(state)

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e."""
        if self._dtype.itemsize == 4 and (-2.0 * given.slope[self._least_squares]).max(initial=0.0) > PRECISE:
            self._work_in("float64")
            self.place(self.fetch())
        self._writable()
        on, layout, measured = np.flatnonzero(given.on[e]), self._layouts[e], self._completes[e]
        work = self._prepare(e, on, given, measured)
        if len(layout.pieces):
            parts = np.zeros((len(layout.pieces), work.width + 4, work.width))
            work.rows.set(parts=parts, longest=layout.longest)
            work.run(sum_pieces, len(parts))
        work.run(sweep_rows)
        work.rows.set(longest=_NO_PIECES)
        totals = np.full(self._problem.n_relations, np.nan)
        totals[layout.relations[measured]] = work.totals.sum(axis=0)[measured]
        square, log_var = np.zeros((2, given.on.shape[1]))
        # In the order of the rows: the same bits for any number of threads.
        square[on], log_var[on] = work.sums.sum(axis=0)[:, : len(on)]
        return Swept(totals, square, log_var, layout.layers, work.bias_sums.sum(axis=0))

    def measure(self, given: Given) -> Floats:
        """Summed values of the cells per relation, at the current parameters."""
        result = np.empty(self._problem.n_relations)
        for e, layout in self._row_sides():
            wanted = layout.row_side
            work = self._prepare(e, np.arange(given.on.shape[1]), given, wanted)
            work.run(measure_rows)
            result[layout.relations[wanted]] = work.totals.sum(axis=0)[wanted]
        return result

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """Gain and energy of each factor in each relation, (M, K) each."""
        K = given.on.shape[1]
        result = np.zeros((2, self._problem.n_relations, K))
        for e, layout in self._row_sides():
            wanted = layout.row_side
            work = self._prepare(e, np.arange(K), given, wanted)
            worth = np.zeros((len(self._edges[e]) - 1, 2, len(wanted), work.width))
            work.rows.set(worth=worth)
            work.run(weigh_rows)
            result[:, layout.relations[wanted]] = worth.sum(axis=0)[:, wanted, :K]
        return result[0], result[1]

    def _row_sides(self) -> Iterator[tuple[int, Layout]]:
        """The entity sets that hold the rows of some relation: enough to see every cell once."""
        return ((e, layout) for e, layout in enumerate(self._layouts) if layout.row_side.any())

    def _prepare(self, e: int, on: Array, given: Given, wanted: Array) -> _Pass:
        """What kernels need for a pass over set e: active columns of the partners, padded, and all else by address."""
        s, blocks, prior = self._state, self._problem.blocks[e], given.priors[e]
        width = max(-(-len(on) // LANES), 1) * LANES
        if (e, width) not in self._passes:
            # As factors are switched off, what was made for more of them is not needed again.
            for wider in [key for key in self._passes if key[0] == e and key[1] > width + LANES]:
                del self._passes[wider]
            layout, edges = self._layouts[e], self._edges[e]
            self._passes[e, width] = _Pass(layout, edges, width, self._threads)
            reach = {block.other: np.zeros((4, width)) for block in blocks}
            self._passes[e, width].reach = reach
            for b, block in enumerate(blocks):
                partner_bias = np.zeros(self._problem.sizes[block.other], self._dtype)
                self._passes[e, width].blocks.set(b, partner_bias=partner_bias, reach=reach[block.other])
        work = self._passes[e, width]
        work.begin(on, prior, wanted)
        work.rows.set(n_columns=s.mean[e].shape[1])
        work.rows.lend(mean=s.mean[e], var=s.var[e])
        packed = set[int]()  # entity sets
        for b, block in enumerate(blocks):
            other, theirs, slope = block.other, block.other_layer, float(given.slope[block.relation])
            pairs, least_squares = self._pairs_of(other, width), block.likelihood.least_squares
            if other not in packed:
                pack(s.mean[other], s.var[other], on, pairs, work.reach[other])
                packed.add(other)
            np.add(s.bias_mean[theirs], block.offset, out=work.blocks.get("partner_bias", b), casting="same_kind")
            work.blocks.set(b, scale=-2.0 * slope if least_squares else 1.0, slope=slope, pairs=pairs)
            work.blocks.lend(b, bias=s.bias_mean[block.layer], bias_var=s.bias_var[block.layer])
            work.blocks.lend(b, partner_bias_var=s.bias_var[theirs])
            if not least_squares:
                work.blocks.set(b, parameters=given.parameters[block.relation])
        if work.layout.whole.any():
            work.sum_whole_rows(self._products)
        return work

    def _pairs_of(self, e: int, width: int) -> Array:
        """Room for the packed parameters of a set, one for all widths; what was there is lost."""
        if (e, width) not in self._pairs:
            d, room = self._problem.sizes[e], self._pairs.get((e, 0))
            if room is None or len(room) < 2 * d * width:
                room = self._pairs[e, 0] = aligned(2 * d * width, self._dtype)
                for other in [key for key in self._pairs if key[0] == e and key[1]]:
                    del self._pairs[other]
            self._pairs[e, width] = room[: 2 * d * width].reshape(d, 2 * width)
        return self._pairs[e, width]


class _Threads:
    """The threads of one engine: the one that calls, and helpers."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._n_helpers = n_threads - 1
        self._pool = ThreadPoolExecutor(self._n_helpers) if self._n_helpers else None

    def run(self, n_ranges: int, work: Callable[[int], None]) -> None:
        """Call work(t) in threads t = 0, 1, ...: no more of them than there are ranges."""
        if self._pool is None or n_ranges <= 1:
            work(0)
            return
        helpers = list[Future[None]]()
        try:
            for t in range(1, min(self._n_helpers + 1, n_ranges)):
                helpers.append(self._pool.submit(work, t))
            work(0)
        finally:
            # Also when interrupted: helpers read arrays by their addresses. One that has not begun would find nothing.
            wait([helper for helper in helpers if not helper.cancel()])
        for helper in helpers:
            if not helper.cancelled():
                helper.result()


class _Pass:
    """Passes over the rows of one set, with one padded number of factors: records, results, room for every thread."""

    def __init__(self, layout: Layout, edges: Array, width: int, threads: _Threads) -> None:
        self.layout, self.width, self._edges, self._threads = layout, width, edges, threads
        d, n_blocks, n_ranges = len(layout.present), len(layout.layers), len(edges) - 1
        self.totals = np.zeros((d, n_blocks))
        self.sums, self.bias_sums = np.zeros((n_ranges, 2, width)), np.zeros((n_ranges, 3, n_blocks))
        self.reach: dict[int, Floats] = {}  # by entity set of the partners: see pack
        self._turn = np.zeros(1, np.int64)
        self.blocks, self.rows = layout.blocks.copy(), Record(PASS, layout.blocks.working)
        self.rows.set(
            blocks=self.blocks.array, width=width, single=self.rows.working.itemsize == 4, biased=layout.biased,
            present=layout.present, guarded=layout.guarded, edges=edges, turn=self._turn, longest=_NO_PIECES,
            pieces=layout.pieces, totals=self.totals, sums=self.sums, bias_sums=self.bias_sums,
            **cell_functions(self.rows.working), **row_functions(guarded=layout.guarded),
        )  # fmt: skip
        self._active, self._bias_precision = np.zeros(width, np.int64), np.zeros(n_blocks)
        self._prior, self._bias_mean = (np.zeros(width), np.zeros(width)), np.zeros(n_blocks)
        self.rows.set(active=self._active, bias_prior_precision=self._bias_precision)
        self._scratch = [_scratch(width, n_blocks, self.rows.working) for _ in range(threads.n_threads)]
        if layout.whole.any():
            self._base_blocks, self._base_rows = layout.base_blocks.copy(), self.rows.copy()
            self._base_rows.set(blocks=self._base_blocks.array, wanted=layout.whole)
            for b in np.flatnonzero(layout.whole).tolist():
                self.blocks.set(b, base=np.zeros((width + 4, width)))

    def run(self, kernel: Callable[[Array, Array], None], n_ranges: int | None = None) -> None:
        """Call a kernel in every thread, each with its scratch."""
        self._turn[0] = 0
        n_ranges = len(self._edges) - 1 if n_ranges is None else n_ranges
        self._threads.run(n_ranges, lambda t: kernel(self.rows.array, self._scratch[t].array))

    def begin(self, on: Array, prior: RowPrior, wanted: Array) -> None:
        """Take these factors and what is expected of them; nothing is summed yet."""
        self._active[: len(on)] = on
        self._bias_precision[:] = prior.bias_precision
        bias_mean, own_bias_means = _expected(prior.bias_mean, np.arange(len(self._bias_mean)), self._bias_mean)
        (mean, own_means), (precision, own_precisions) = (
            _expected(values, on, shared) for values, shared in zip(prior[:2], self._prior, strict=True)
        )
        self.rows.set(
            n_factors=len(on), point=prior.point, wanted=wanted, prior_mean=mean, own_means=own_means,
            prior_precision=precision, own_precisions=own_precisions, bias_prior_mean=bias_mean,
            own_bias_means=own_bias_means,
        )  # fmt: skip
        self.totals[:], self.sums[:], self.bias_sums[:] = 0.0, 0.0, 0.0

    def sum_whole_rows(self, rooms: dict[int, Array]) -> None:
        """What is known beforehand of rows with (nearly) all of their cells; all else has been set.

        `rooms` are for the products of each block, one after the other for all sets; what was there is lost.
        """
        cells = self._base_blocks.array["summed"].copy()
        self._base_blocks.array[:] = self.blocks.array
        self._base_blocks.array["summed"] = cells
        base_rows(self._base_rows.array, self._scratch[0].array)
        for b in np.flatnonzero(self.layout.whole).tolist():
            if (matrix := self.layout.matrices[b]) is not None:
                pairs, bias = self.blocks.get("pairs", b), self.blocks.get("partner_bias", b)
                products = _room(rooms, b, (len(self.layout.present), self.width + 3))
                self.blocks.set(b, products=products)
                right = np.concatenate([pairs[matrix.cols, : self.width], bias[matrix.cols, None]], axis=1)
                self._turn[0] = 0
                self._threads.run(
                    len(self._edges) - 1, partial(matrix.multiply, self._edges, self._turn, right, products)
                )


def _room(rooms: dict[int, Array], b: int, shape: tuple[int, int]) -> Array:
    """An array of this shape, whatever it holds, in the room of block b, which grows if it has to."""
    size = shape[0] * shape[1]
    if b not in rooms or rooms[b].size < size:
        rooms[b] = np.zeros(size)
    return rooms[b][:size].reshape(shape)


def _expected(values: Floats, on: Array, shared: Floats) -> tuple[Floats, bool]:
    """Prior means or precisions of the factors that are on, and whether each row has its own; `shared` is room."""
    if len(values) > 1:
        return np.ascontiguousarray(values[:, on]), True
    shared[: len(on)] = values[0, on]
    return shared, False


def _scratch(width: int, n_blocks: int, working: np.dtype[Any]) -> Record:
    """Room for one thread."""
    n = width + n_blocks
    record = Record(SCRATCH, working)
    record.set(place=np.zeros(CHUNK, np.uint64), order=np.arange(CHUNK, dtype=np.uint64))
    record.set(**{name: aligned(CHUNK, working) for name in ("x", "seen", "m", "v", "weight", "target")})
    record.set(weighted=aligned(CHUNK * width, working), moments=aligned(3 * width, working))
    record.set(chunk_sums=aligned((width + 3) * width, working), row_sums=aligned(n_blocks * (width + 4) * width))
    record.set(**{name: aligned(width) for name in ("row_mean", "row_var", "old_mean", "old_var", "product")})
    record.set(
        **{
            name: aligned(n_blocks)
            for name in ("row_bias", "row_bias_var", "old_bias", "old_bias_var", "before", "after")
        }
    )
    record.set(system=aligned((n + 2) * (n // LANES + 1) * LANES))
    return record


def aligned(size: int, dtype: np.dtype[Any] | type[np.float64] = np.float64) -> Array:
    """Zeros that begin where a line of the cache begins."""
    itemsize = np.dtype(dtype).itemsize
    room = np.zeros(size + 64 // itemsize, dtype)
    first = -room.ctypes.data % 64 // itemsize
    return room[first : first + size]


def _large(block: Block) -> bool:
    """Whether a typical cell is a large count, whose predictor is as large and known to the last digits."""
    theta = np.array([block.offset])
    x = block.likelihood.mean(theta, np.zeros(1))
    weight, _ = block.likelihood.quadratic(x, theta, np.zeros(1), np.ones(2))
    return bool(weight[0] * block.offset**2 > PRECISE)


def _row_ranges(cost: Array) -> Array:
    """Edges of row ranges of about equal cost; they never depend on the number of threads."""
    passed = np.cumsum(cost + ROW_COST) // RANGE_COST
    return np.append(np.flatnonzero(np.diff(passed, prepend=-1)), len(cost))
