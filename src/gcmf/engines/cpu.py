"""The compiled engine: packs what a sweep needs, and hands row ranges to threads."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.engines.base import Swept, proposes, stream_key
from gcmf.engines.cell_kernels import cell_functions, pack, pack_scaled
from gcmf.engines.host import HostState, no_scaling, noise_sums
from gcmf.engines.layout import Layout
from gcmf.engines.likelihood_kernels import draw_chunk_at
from gcmf.engines.order import order_of
from gcmf.engines.precision import is_large, is_precise
from gcmf.engines.random_kernels import STREAM
from gcmf.engines.records import CHUNK, PASS, SCRATCH, Record
from gcmf.engines.row_kernels import (
    base_rows,
    lean_rows,
    measure_rows,
    row_functions,
    settle_rows,
    sum_pieces,
    sweep_rows,
    weigh_rows,
)
from gcmf.engines.simd import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.engines.base import Array, Block, Floats, Given, Problem, RowPrior, Scales, State
    from gcmf.engines.order import Order

#: Cost of solving for a row, in cells.
ROW_COST = 64
#: Cells per row range: below this a range is done before another thread would have started.
RANGE_COST = 20_000
#: Numbers that the sums for scales of one set may take, about; and the fewest groups of ranges, each with its own.
MAX_SUMS, MIN_GROUPS = 1 << 22, 16
#: Threads of one fit: no machine that this engine is for has more cores.
MAX_THREADS = 256
_NO_PIECES = np.iinfo(np.int64).max
_NO_ORDER = np.zeros(0, np.int64)
_NONE = np.zeros(0)


class Part(NamedTuple):
    """Some rows of one entity set, which an engine is to sweep to the bits that they would have among all others.

    What is summed over rows is summed by *strips* of them, so that sums are the same however strips come together.
    """

    first: int
    """Which row of the set the first one is."""
    edges: Array | None
    """Its ranges of rows, which are ranges of the set; None for a whole set whose rows depend on each other."""
    strips: Array
    """Strip s is ranges strips[s] to strips[s + 1], (S + 1,); of a whole set there is one, whatever this says."""
    ways: dict[int, int]
    """How cells are summed, by layer: see `ways_of`."""


class CpuEngine(HostState):
    """Numba kernels over row ranges, in float32 as long as that is precise enough, or in float64.

    Every thread runs the same kernel, which takes one range of rows after the other until none is left. Of a part, all
    that is summed over rows has one more axis, the first, of strips; its problem has blocks of one set alone.
    """

    def __init__(self, problem: Problem, *, dtype: str, n_threads: int, part: Part | None = None) -> None:
        super().__init__(problem)
        self._part = part
        blocks = [block for blocks in problem.blocks for block in blocks]
        self._least_squares = sorted({block.relation for block in blocks if block.likelihood.least_squares})
        self._completes = [np.array([problem.measured(e, b) for b in range(len(blocks))])
                           for e, blocks in enumerate(problem.blocks)]  # fmt: skip
        self._orders = [order_of(problem, e) for e in range(len(problem.sizes))]
        self._threads = _Threads(min(n_threads, MAX_THREADS))
        self._work_in("float64" if any(map(is_large, blocks)) else dtype)

    def _work_in(self, dtype: str) -> None:
        """Choose the working precision, and lay out the cells for it."""
        self._dtype = np.dtype(dtype)
        part = self._part
        self._layouts = Layout.of(self._problem, self._dtype, None if part is None else part.ways)
        cut = None if part is None else part.edges
        self._edges = {e: row_ranges(layout.cost, self._orders[e]) if cut is None else cut
                       for e, layout in self._layouts.items()}  # fmt: skip
        self._passes: dict[tuple[int, int], _Pass] = {}
        self._pairs: dict[tuple[int, int], Array] = {}
        self._products: dict[int, Array] = {}

    def place(self, state: State) -> None:
        """Take over these parameters."""
        for group in state.groups()[:4]:
            group[:] = [np.ascontiguousarray(array, self._dtype) for array in group]
        super().place(state)

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e."""
        if self._dtype.itemsize == 4 and is_precise(given, self._least_squares):
            self._work_in("float64")
            self.place(self.fetch())
        self._writable()
        on, layout, measured = np.flatnonzero(given.on[e]), self._layouts[e], self._completes[e]
        work = self._prepare(e, on, given, measured)
        # A proposal looks at its cells again: pieces were summed up before it.
        if len(layout.pieces) and not work.rows.array["proposing"][0]:
            parts = np.zeros((len(layout.pieces), work.width + 4, work.width))
            work.rows.set(parts=parts, longest=layout.longest)
            work.run(sum_pieces, len(parts))
        scaling = no_scaling(self._problem, given)
        scaling = np.zeros((*work.strips, *scaling.shape)) if scaling.size else scaling
        work.sweep(scaled=bool(scaling.size))
        work.rows.set(longest=_NO_PIECES)
        totals = np.full((*work.strips, self._problem.n_relations), np.nan)
        self._count_noise(e, work, given)
        totals[..., layout.relations[measured]] = work.add(work.totals)[..., measured]
        K = given.on.shape[1]
        sums = np.zeros((*work.strips, 2, K))
        # In the order of the rows: the same bits for any number of threads.
        sums[..., on] = work.add(work.sums)[..., : len(on)]
        bias = work.add(work.bias_sums)
        places = np.append(on, [K, K + 1])
        if scaling.size:
            m, rows, cols = np.ix_(layout.relations[measured], places, on)
            scaling[..., m, rows, cols] = work.scaling(measured, len(on))
        if layout.once.any():
            once, relations, times = layout.once, layout.relations[layout.once], layout.times[layout.once]
            work = self._prepare(e, on, given, once)
            work.draw(self._problem.blocks[e], given, e, again=True)
            work.settle()
            totals[..., relations] = times * work.add(work.totals)[..., once]
            if scaling.size:
                m, rows, cols = np.ix_(relations, places, on)
                scaling[..., m, rows, cols] = times[:, None, None] * work.scaling(once, len(on))
        noise = self._noise_sums(e, work, given)
        return Swept(totals, sums[..., 0, :], sums[..., 1, :], layout.layers, bias, scaling, noise)

    def measure(self, given: Given) -> Floats:
        """Summed values of the cells per relation, at the current parameters."""
        result: Floats = np.zeros(0)
        for e, layout in self._row_sides():
            wanted = layout.row_side
            work = self._prepare(e, np.arange(given.on.shape[1]), given, wanted)
            work.run(measure_rows)
            self._count_noise(e, work, given)
            result = result if result.size else np.zeros((*work.strips, self._problem.n_relations))
            result[..., layout.relations[wanted]] = (layout.times * work.add(work.totals))[..., wanted]
        return result

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """Gain and energy of each factor in each relation, (M, K) each."""
        K = given.on.shape[1]
        result: Floats = np.zeros(0)
        for e, layout in self._row_sides():
            wanted = layout.row_side
            work = self._prepare(e, np.arange(K), given, wanted)
            result = result if result.size else np.zeros((*work.strips, 2, self._problem.n_relations, K))
            worth = np.zeros((len(self._edges[e]) - 1, 2, len(wanted), work.width))
            work.rows.set(worth=worth)
            work.run(weigh_rows)
            result[..., layout.relations[wanted], :] = (layout.times[:, None] * work.add(worth))[..., wanted, :K]
        return result[..., 0, :, :], result[..., 1, :, :]

    def lean(self, e: int, k: int, given: Given) -> Floats:
        """What the cells of each row say of factor k, (2, d)."""
        held = np.flatnonzero(given.on[e])
        work = self._prepare(e, np.append(held[held != k], k), given, np.zeros(len(self._problem.blocks[e]), bool))
        leaning = np.zeros((self._problem.sizes[e], 2))
        work.rows.set(leaning=leaning)
        work.run(lean_rows)
        return np.ascontiguousarray(leaning.T)

    def _count_noise(self, e: int, work: _Pass, given: Given) -> None:
        """Multiply what the cells of each row sum up to by ⟨ρ_i⟩, where rows have noise of their own."""
        for b, block in enumerate(self._problem.blocks[e]):
            if given.is_noisy(block.layer):
                work.totals[:, b] *= self._state.precision[block.layer]

    def _noise_sums(self, e: int, work: _Pass, given: Given) -> Floats:
        """What there is to know of the precisions of rows, (6, B)."""
        if given.noise is None or not work.strips:
            return noise_sums(self._problem, e, given, self._state)
        return np.stack([noise_sums(self._problem, e, given, self._state, rows) for rows in work.rows_of_strips()])

    def _row_sides(self) -> Iterator[tuple[int, Layout]]:
        """The entity sets that hold the rows of some relation: enough to see every cell once."""
        return ((e, layout) for e, layout in self._layouts.items() if layout.row_side.any())

    def _prepare(self, e: int, on: Array, given: Given, wanted: Array) -> _Pass:
        """What kernels need for a pass over set e: active columns of the partners, padded, and all else by address."""
        s, blocks, prior = self._state, self._problem.blocks[e], given.priors[e]
        width = max(-(-len(on) // LANES), 1) * LANES
        if (e, width) not in self._passes:
            # As factors are switched off, what was made for more of them is not needed again.
            for wider in [key for key in self._passes if key[0] == e and key[1] > width + LANES]:
                del self._passes[wider]
            layout, edges = self._layouts[e], self._edges[e]
            self._passes[e, width] = _Pass(layout, edges, width, self._threads, self._orders[e], self._part)
            for b, block in enumerate(blocks):
                partner_bias = np.zeros(self._problem.sizes[block.other], self._dtype)
                self._passes[e, width].blocks.set(b, partner_bias=partner_bias)
        work = self._passes[e, width]
        work.begin(on, prior, wanted)
        work.draw(blocks, given, e)
        work.rows.set(n_columns=s.mean[e].shape[1])
        work.rows.lend(mean=s.mean[e], var=s.var[e])
        packed = set[int]()  # entity sets
        for b, block in enumerate(blocks):
            other, theirs, slope = block.other, block.other_layer, float(given.slope[block.relation])
            # Each relation scales its partners by itself; where none does, one room serves all relations of a set.
            room = other if given.scales is None and other != e else -1 - block.layer
            pairs, least_squares = self._pairs_of(other, width, room), block.likelihood.least_squares
            reach = work.reach.setdefault(room, np.zeros((4, width)))
            if other == e:
                twin = next(n for n, twin in enumerate(blocks) if twin.layer == theirs)
                work.set_own(b, twin, block, given.scales)
            if given.scales is not None:
                seen = map(np.ascontiguousarray, given.scales.seen(block.relation, block.side))
                pack_scaled(s.mean[other], s.var[other], on, *seen, pairs, reach)
            elif other not in packed or other == e:
                pack(s.mean[other], s.var[other], on, pairs, reach)
                packed.add(other)
            np.add(s.bias_mean[theirs], block.offset, out=work.blocks.get("partner_bias", b), casting="same_kind")
            work.blocks.set(b, scale=-2.0 * slope if least_squares else 1.0, slope=slope, pairs=pairs, reach=reach)
            work.blocks.lend(b, bias=s.bias_mean[block.layer], bias_var=s.bias_var[block.layer])
            work.blocks.lend(b, partner_bias_var=s.bias_var[theirs])
            work.blocks.lend(b, partner_precision=s.precision[theirs] if given.is_noisy(theirs) else _NONE)
            noisy = given.is_noisy(block.layer)
            work.blocks.set(b, floor=given.floor_of(block.relation) if least_squares else 0.0)
            work.blocks.lend(b, precision=s.precision[block.layer] if noisy else _NONE)
            learned = noisy and given.noise is not None and block.noise_cells is not None
            work.blocks.set(b, noise_cells=block.noise_cells if learned else _NONE)
            work.blocks.set(b, noise_half=float(given.noise[block.layer]) if given.noise is not None and noisy else 0.0)
            if not least_squares:
                work.blocks.set(b, parameters=given.parameters[block.relation])
        if work.layout.whole.any():
            work.sum_whole_rows(self._products)
        return work

    def _pairs_of(self, e: int, width: int, n: int) -> Array:
        """Room n for the packed parameters of a set, one for all widths; what was there is lost."""
        if (n, width) not in self._pairs:
            d, room = self._problem.sizes[e], self._pairs.get((n, 0))
            if room is None or len(room) < 2 * d * width:
                room = self._pairs[n, 0] = aligned(2 * d * width, self._dtype)
                for other in [key for key in self._pairs if key[0] == n and key[1]]:
                    del self._pairs[other]
            self._pairs[n, width] = room[: 2 * d * width].reshape(d, 2 * width)
        return self._pairs[n, width]


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

    def __init__(  # noqa: PLR0913, PLR0917 - what a pass is made of
        self, layout: Layout, edges: Array, width: int, threads: _Threads, order: Order | None, part: Part | None
    ) -> None:
        self.layout, self.width, self._edges, self._threads, self._order = layout, width, edges, threads, order
        d, n_blocks, n_ranges = len(layout.present), len(layout.layers), len(edges) - 1
        self._strips = None if part is None else np.array([0, n_ranges]) if part.edges is None else part.strips
        self.strips = () if self._strips is None else (len(self._strips) - 1,)
        self.totals = np.zeros((d, n_blocks))
        self.sums, self.bias_sums = np.zeros((n_ranges, 2, width)), np.zeros((n_ranges, 3, n_blocks))
        self.reach: dict[int, Floats] = {}  # by room of the partners: see pack
        self._turn = np.zeros(1, np.int64)
        self._scaling: Array = np.zeros(0)
        self._plans: dict[bool, tuple[Array, list[int]]] = {}
        self.blocks, self.rows = layout.blocks.copy(), Record(PASS, layout.blocks.working)
        self.rows.set(
            blocks=self.blocks.array, width=width, single=self.rows.working.itemsize == 4, biased=layout.biased,
            present=layout.present, guarded=layout.guarded, edges=edges, groups=np.arange(n_ranges + 1),
            order=_NO_ORDER if order is None else order.rows, turn=self._turn, longest=_NO_PIECES,
            first_row=0 if part is None else part.first,
            pieces=layout.pieces, totals=self.totals, sums=self.sums,
            bias_sums=self.bias_sums, scaling=self._scaling,
            **cell_functions(self.rows.working), **row_functions(guarded=layout.guarded),
        )  # fmt: skip
        self._active = np.zeros(width, np.int64)
        self._prior, self._bias_prior = np.zeros((2, width)), np.zeros((2, n_blocks))
        self.rows.set(active=self._active)
        self._scratch = [_scratch(width, n_blocks, self.rows.working) for _ in range(threads.n_threads)]
        if layout.whole.any():
            self._base_blocks, self._base_rows = layout.base_blocks.copy(), self.rows.copy()
            self._base_rows.set(blocks=self._base_blocks.array, wanted=layout.whole)
            for b in np.flatnonzero(layout.whole).tolist():
                self.blocks.set(b, base=np.zeros((width + 4, width)))

    def add(self, values: Array) -> Floats:
        """Sum over rows, or over ranges of rows, in their order; of a part for each strip, (S, ...)."""
        if self._strips is None:
            return np.asarray(values.sum(axis=0))
        # If there are as many ranges as rows, each is a row, and these are the same.
        by_rows = len(values) == len(self.layout.present)
        parts = self.rows_of_strips() if by_rows else [slice(a, b) for a, b in pairwise(self._strips.tolist())]
        return np.stack([values[part].sum(axis=0) for part in parts])

    def rows_of_strips(self) -> list[slice]:
        """The rows of each strip of a part."""
        cuts = self._edges[self._strips]
        return [slice(a, b) for a, b in pairwise(cuts.tolist())]

    def run(self, kernel: Callable[[Array, Array], None], n_ranges: int | None = None) -> None:
        """Call a kernel in every thread, each with its scratch."""
        self._turn[0] = 0
        n_ranges = len(self._edges) - 1 if n_ranges is None else n_ranges
        self._threads.run(n_ranges, lambda t: kernel(self.rows.array, self._scratch[t].array))

    def sweep(self, *, scaled: bool) -> None:
        """Sweep the rows, class by class; `scaled` sums up what the update of scales needs."""
        groups, firsts = self._plan(scaled=scaled)
        self._group(groups, scaled=scaled)
        for first, last in pairwise(firsts):
            self._run_groups(sweep_rows, first, last)

    def _plan(self, *, scaled: bool) -> tuple[Array, list[int]]:
        """Which ranges are swept one after the other by one thread, and the first such group of each class."""
        if scaled not in self._plans:
            classes, by_one = [0, len(self._edges) - 1], False
            if self._order is not None:
                by_one = not len(self._order.classes)  # all rows follow each other
                classes = classes if by_one else np.searchsorted(self._edges, self._order.classes).tolist()
            groups, firsts = [0], [0]
            if scaled and self._strips is not None and self._order is None:
                groups, firsts, classes = self._strips.tolist(), [0, len(self._strips) - 1], []
            for start, end in pairwise(classes):
                n = 1 if by_one else self._n_groups(end - start, len(classes) - 1, scaled=scaled)
                groups += [start + g * (end - start) // n for g in range(1, n + 1)]
                firsts.append(len(groups) - 1)
            self._plans[scaled] = np.array(groups), firsts
        return self._plans[scaled]

    def settle(self) -> None:
        """Sum up the wanted blocks as they are, and what the update of scales needs, if the sweep before did."""
        scaled, n_ranges = bool(self._scaling.size), len(self._edges) - 1
        n = self._n_groups(n_ranges, 1, scaled=scaled)
        self._group(np.arange(n + 1) * n_ranges // n, scaled=scaled)
        self._run_groups(settle_rows, 0, n)

    def _n_groups(self, n_ranges: int, n_classes: int, *, scaled: bool) -> int:
        """How many groups so many ranges are: each has a sum of its own, of so many numbers."""
        most = max(MAX_SUMS // (len(self.layout.layers) * self.width**2), MIN_GROUPS)
        return min(n_ranges, max(most // n_classes, 1)) if scaled else n_ranges

    def _group(self, groups: Array, *, scaled: bool) -> None:
        """Take these groups, and room for what each sums up."""
        self.rows.set(groups=groups)
        shape = (len(groups) - 1 if scaled else 0, len(self.layout.layers), self.width + 2, self.width)
        if self._scaling.shape != shape:
            self._scaling = np.zeros(shape)
            self.rows.set(scaling=self._scaling)
        self._scaling[:] = 0.0

    def _run_groups(self, kernel: Callable[[Array, Array], None], first: int, last: int) -> None:
        self._turn[0] = first
        self.rows.set(last_group=last)
        self._threads.run(last - first, lambda t: kernel(self.rows.array, self._scratch[t].array))

    def set_own(self, b: int, twin: int, block: Block, scales: Scales | None) -> None:
        """Say what is to be written of each row for block b, whose partners are rows of this set."""
        n, on = self.width, self._active[: self.rows.array["n_factors"][0]]
        scale, scale_var, mates = np.ones(n), np.zeros(n), np.arange(n)
        if scales is not None:
            d, d_var, meets = (a[on] for a in scales.seen(block.relation, block.side))
            scale[: len(on)], scale_var[: len(on)] = d, d_var
            place = np.full(scales.mean.shape[1], -1)
            place[on] = np.arange(len(on))
            mates[: len(on)] = place[meets]
        self.blocks.set(
            b, own=True, twin=twin, offset=block.offset, factor_scale=scale, factor_scale_var=scale_var, mates=mates
        )

    def scaling(self, wanted: Array, n: int) -> Floats:
        """What the sweep has summed up for the scales of these blocks and the first n factors, (blocks, n + 2, n)."""
        sums = self._scaling if self._strips is not None and self._order is None else self._scaling.sum(axis=0)
        sums = sums[..., wanted, :, :]
        upper = np.triu(sums[..., :n, :n])
        upper += np.triu(upper, 1).swapaxes(-1, -2)
        return np.concatenate([upper, sums[..., self.width :, :n]], axis=-2)

    def begin(self, on: Array, prior: RowPrior, wanted: Array) -> None:
        """Take these factors and what is expected of them; nothing is summed yet."""
        self._active[: len(on)] = on
        layers, of_biases = np.arange(self._bias_prior.shape[1]), (prior.bias_mean, np.atleast_2d(prior.bias_precision))
        (bias_mean, own_bias_means), (bias_precision, own_bias_precisions) = (
            _expected(values, layers, shared) for values, shared in zip(of_biases, self._bias_prior, strict=True)
        )
        (mean, own_means), (precision, own_precisions) = (
            _expected(values, on, shared) for values, shared in zip(prior[:2], self._prior, strict=True)
        )
        self.rows.set(
            n_factors=len(on), point=prior.point, wanted=wanted, prior_mean=mean, own_means=own_means,
            prior_precision=precision, own_precisions=own_precisions, bias_prior_mean=bias_mean,
            own_bias_means=own_bias_means, bias_prior_precision=bias_precision,
            own_bias_precisions=own_bias_precisions,
        )  # fmt: skip
        self.totals[:], self.sums[:], self.bias_sums[:] = 0.0, 0.0, 0.0

    def draw(self, blocks: tuple[Block, ...], given: Given, e: int, *, again: bool = False) -> None:
        """Say whether rows are drawn, and with which random numbers: those of a key and an entity set, or others."""
        key, drawing = given.key, given.key is not None
        proposed = [drawing and proposes(block, given) for block in blocks]
        if any(proposed):
            self.rows.set(**row_functions(proposing=True))
        self.rows.set(
            drawing=drawing, proposing=any(proposed), guarded=self.layout.guarded and not drawing,
            key=0 if key is None else stream_key(key, e, again=again),
        )  # fmt: skip
        for b, block in enumerate(blocks):
            draws = drawing and not (block.likelihood.least_squares or proposed[b])
            address = draw_chunk_at(block.likelihood, self.rows.working) if draws else 0
            self.blocks.set(b, draw_chunk=address, proposed=proposed[b])

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
                precision = self.blocks.get("partner_precision", b)
                weight = precision[matrix.cols].astype(right.dtype) if len(precision) else None
                right = right if weight is None else weight[:, None] * right
                self._turn[0] = 0
                self._threads.run(
                    len(self._edges) - 1, partial(matrix.multiply, self._edges, self._turn, right, weight, products)
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
    record.set(stream=np.zeros(STREAM, np.uint64))
    record.set(system=aligned((n + 2) * (n // LANES + 1) * LANES))
    return record


def aligned(size: int, dtype: np.dtype[Any] | type[np.float64] = np.float64) -> Array:
    """Zeros that begin where a line of the cache begins."""
    itemsize = np.dtype(dtype).itemsize
    room = np.zeros(size + 64 // itemsize, dtype)
    first = -room.ctypes.data % 64 // itemsize
    return room[first : first + size]


def row_ranges(cost: Array, order: Order | None = None) -> Array:
    """Edges of row ranges of about equal cost; they never depend on the number of threads. None is in two classes."""
    if order is not None and len(order.classes):
        parts = [row_ranges(cost[order.rows[a:b]]) + a for a, b in pairwise(order.classes.tolist())]
        return np.append(np.concatenate([edges[:-1] for edges in parts]), len(cost))
    passed = np.cumsum(cost + ROW_COST) // RANGE_COST
    return np.append(np.flatnonzero(np.diff(passed, prepend=-1)), len(cost))
