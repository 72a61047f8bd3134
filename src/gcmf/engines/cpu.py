"""The compiled engine: packs what a sweep needs, hands row ranges to threads, unpacks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.base import MAX_HALVINGS, Swept
from gcmf.engines.chunk_kernels import Own, Table, pack, pack_block, unpack
from gcmf.engines.host import HostState
from gcmf.engines.layout import Layout, address
from gcmf.engines.solve_kernels import base_rows, measure_rows, moment_rows, sum_pieces, sweep_rows, weigh_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.engines.base import Array, Block, Floats, Given, Problem, State

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
_ALL_ROWS = np.empty(0, bool)


class CpuEngine(HostState):
    """Numba kernels over row ranges, in float32 as long as that is precise enough, or in float64.

    Every thread runs the same kernel, which takes one range of rows after the other until none is left.
    """

    def __init__(self, problem: Problem, *, dtype: str, n_threads: int) -> None:
        super().__init__(problem)
        blocks = [block for blocks in problem.blocks for block in blocks]
        self._gaussian = sorted({block.relation for block in blocks if block.likelihood.least_squares})
        self._completes = [np.array([problem.measured(e, b) for b in range(len(blocks))])
                           for e, blocks in enumerate(problem.blocks)]  # fmt: skip
        self._n_helpers = min(n_threads, MAX_THREADS) - 1
        self._pool = ThreadPoolExecutor(self._n_helpers) if self._n_helpers else None
        self._work_in("float64" if any(map(_large, blocks)) else dtype)

    def _work_in(self, dtype: str) -> None:
        """Choose the working precision, and lay out the cells for it."""
        self._dtype = np.dtype(dtype)
        self._layouts = Layout.of(self._problem, self._dtype)
        self._edges = [_row_ranges(layout.cost) for layout in self._layouts]

    def place(self, state: State) -> None:
        """Take over these parameters."""
        for group in state.groups():
            group[:] = [a.astype(self._dtype, copy=False) for a in group]
        super().place(state)

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e."""
        if self._dtype.itemsize == 4 and (-2.0 * given.slope[self._gaussian]).max(initial=0.0) > PRECISE:
            self._work_in("float64")
            self.place(self._state)
        on, edges = np.flatnonzero(given.on[e]), self._edges[e]
        layout, job, measured = self._layouts[e], self._pack(e, on, given), self._completes[e]
        alpha, damping, point = given.priors[e].precision[0, on], 0.0, given.priors[e].point
        totals = np.zeros((self._problem.sizes[e], len(measured)))
        sums, bias_sums = np.zeros((len(edges) - 1, 2, job.width)), np.zeros((len(edges) - 1, 3, len(measured)))
        guard = None
        if layout.guarded:
            guard = _Guard(partial(self._run, edges), job, alpha, layout.has_bias, point=point)
        parts = np.zeros((len(layout.pieces), job.width + 4, job.width))
        if len(parts):
            self._run(np.arange(len(parts) + 1), sum_pieces, *job.table, *job.own, layout.pieces, parts)
        self._run(edges, sweep_rows, *job.table, *job.own, job.scale, job.layers, alpha, damping, point, measured,
                  layout.pieces, parts, totals, sums, bias_sums)  # fmt: skip
        if guard:
            guard.hold()
            self._run(edges, measure_rows, *job.table, *job.own, measured, _ALL_ROWS, totals)
            sums[:], bias_sums[:] = 0.0, 0.0
            self._run(edges, moment_rows, *job.own, sums, bias_sums)
        self._unpack(e, on, job.own)
        found = np.full(self._problem.n_relations, np.nan)
        found[layout.relations[measured]] = totals.sum(axis=0)[measured]
        square, log_var = np.zeros((2, given.on.shape[1]))
        # In the order of the rows: the same bits for any number of threads.
        square[on], log_var[on] = sums.sum(axis=0)[:, : len(on)]
        return Swept(found, square, log_var, layout.layers, bias_sums.sum(axis=0))

    def measure(self, given: Given) -> Floats:
        """Sum of the cells' bounds per relation, at the current parameters."""
        result = np.empty(self._problem.n_relations)
        for e, layout in self._row_sides():
            job, wanted = self._pack(e, np.arange(given.on.shape[1]), given), layout.row_side
            totals = np.zeros((self._problem.sizes[e], len(wanted)))
            self._run(self._edges[e], measure_rows, *job.table, *job.own, wanted, _ALL_ROWS, totals)
            result[layout.relations[wanted]] = totals.sum(axis=0)[wanted]
        return result

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """Gain and energy of each factor in each relation, (M, K) each."""
        K = given.on.shape[1]
        result = np.zeros((2, self._problem.n_relations, K))
        for e, layout in self._row_sides():
            job, wanted = self._pack(e, np.arange(K), given), layout.row_side
            worth = np.zeros((len(self._edges[e]) - 1, 2, len(wanted), job.width))
            self._run(self._edges[e], weigh_rows, *job.table, *job.own, job.scale, wanted, worth)
            result[:, layout.relations[wanted]] = worth.sum(axis=0)[:, wanted, :K]
        return result[0], result[1]

    def _run(self, edges: Array, kernel: Callable[..., None], *args: object) -> None:
        """Call kernel(edges, turn, *args) in every thread; range r goes from edges[r] to edges[r + 1]."""
        turn = np.zeros(1, np.int64)
        n_helpers, helpers = min(self._n_helpers, len(edges) - 2), list[Future[None]]()
        try:
            while self._pool and len(helpers) < n_helpers:
                helpers.append(self._pool.submit(kernel, edges, turn, *args))
            kernel(edges, turn, *args)
        finally:
            # Also when interrupted: helpers read arrays by their addresses. One that has not begun would find nothing.
            wait([helper for helper in helpers if not helper.cancel()])
        for helper in helpers:
            if not helper.cancelled():
                helper.result()

    def _row_sides(self) -> Iterator[tuple[int, Layout]]:
        """The entity sets that hold the rows of some relation: enough to see every cell once."""
        return ((e, layout) for e, layout in enumerate(self._layouts) if layout.row_side.any())

    def _pack(self, e: int, on: Array, given: Given) -> _Job:
        """Active columns of the rows and of their partners, padded, and where the kernels find everything."""
        s, layout, blocks = self._state, self._layouts[e], self._problem.blocks[e]
        mean, shape = s.mean[e], (len(s.mean[e]), len(blocks))
        own = Own(pack(mean, s.var[e], on), np.empty(shape, mean.dtype), np.empty(shape, mean.dtype))
        layers, prior = np.empty((len(blocks), 3)), given.priors[e]
        weight = np.array([_weight(block, given) for block in blocks])
        layers[:, 0] = layout.biased
        layers[:, 1], layers[:, 2] = prior.bias_mean, prior.bias_precision
        table = layout.table(weight)
        partners = [
            pack_block(s.bias_mean[block.layer], s.bias_var[block.layer], own.bias, own.bias_var, b,
                       s.mean[block.other], s.var[block.other], on,
                       s.bias_mean[block.other_layer], s.bias_var[block.other_layer], block.offset, table.places)
            for b, block in enumerate(blocks)
        ]  # fmt: skip
        job = _Job(own, table, layers, np.where(layout.gaussian, weight, 1.0), partners)
        if layout.any_whole:
            self._add_whole(e, job)
        return job

    def _add_whole(self, e: int, job: _Job) -> None:
        """What is known beforehand of rows with (nearly) all of their cells."""
        layout, d = self._layouts[e], self._problem.sizes[e]
        bases = np.zeros((len(layout.whole), job.width + 4, job.width))
        table = layout.base_table(job.table)
        base_rows(*table, *job.own, layout.whole, bases)
        job.known.append(bases)
        for b in np.flatnonzero(layout.whole).tolist():
            matrix, products = layout.matrices[b], np.zeros((0, job.width + 3))
            if matrix is not None:
                products = np.zeros((d, job.width + 3))
                pairs, bias = job.partners[b]
                right = np.concatenate([pairs[matrix.cols, : job.width], bias[matrix.cols, None]], axis=1)
                self._run(self._edges[e], matrix.multiply, right, products)
            job.known.append(products)
            job.table.places[b, 20:24] = address(bases[b]), bases[b].size, address(products), products.size

    def _unpack(self, e: int, on: Array, own: Own) -> None:
        s = self._state
        unpack(own.pairs, on, s.mean[e], s.var[e])
        for b, block in enumerate(self._problem.blocks[e]):
            s.bias_mean[block.layer][:] = own.bias[:, b]
            s.bias_var[block.layer][:] = own.bias_var[:, b]


@dataclass
class _Job:
    """One pass over the rows of a set: its packed parameters and those of its partners."""

    own: Own
    table: Table
    layers: Floats
    scale: Floats
    partners: list[tuple[Array, Array]]
    """Packed parameters and biases of each block's partners; the table holds their addresses,"""
    known: list[Array] = field(default_factory=list)
    """and those of what is known of whole rows."""

    @property
    def width(self) -> int:
        """Padded number of factors."""
        return int(self.own.pairs.shape[1]) // 2


class _Guard:
    """Halves the steps of rows until their value does not fall.

    Only cells without a quadratic bound need it: their exact expectation may be overshot.
    """

    def __init__(self, run: Callable[..., None], job: _Job, alpha: Floats, has_bias: Array, *, point: bool) -> None:
        self._run, self._job, self._alpha, self._point = run, job, alpha, point
        self._has_bias = has_bias
        self._saved = [a.copy() for a in job.own]
        self._before = self._values(_ALL_ROWS)

    def hold(self) -> None:
        """Compare each row with what it was, and move it back halfway, up to eight times, then altogether."""
        slack = 1e-6 if self._job.own.pairs.itemsize == 4 else 1e-13
        fallen = np.ones(len(self._before), bool)
        for _ in range(MAX_HALVINGS):
            after = self._values(fallen)
            fallen &= ~(after >= self._before - slack * np.abs(self._before))
            if not fallen.any():
                return
            self._halve(fallen)
        for now, old in zip(self._job.own, self._saved, strict=True):
            now[fallen] = old[fallen]

    def _halve(self, rows: Array) -> None:
        """Means and biases by half; variances by half of their precisions."""
        width = self._job.width
        for n, (now, old) in enumerate(zip(self._job.own, self._saved, strict=True)):
            middle, harmonic = (now[rows] + old[rows]) / 2, _halfway(now[rows], old[rows])
            if n == 0:
                middle[:, width:] = harmonic[:, width:]
            now[rows] = harmonic if n == 2 else middle

    def _values(self, rows: Array) -> Floats:
        """The terms of the bound that depend on each row: its cells, its factors and its biases."""
        job, n_u = self._job, len(self._alpha)
        totals = np.zeros(job.own.bias.shape)
        self._run(measure_rows, *job.table, *job.own, np.ones(totals.shape[1], bool), rows, totals)
        gaussian = job.table.codes[:, 1] == 0
        value = totals @ np.where(gaussian, -0.5 * job.scale, 1.0)
        pairs = job.own.pairs.astype(np.float64)
        u, u_var = pairs[:, :n_u], pairs[:, job.width : job.width + n_u]
        bias, bias_var = (a.astype(np.float64) for a in job.own[1:])
        cost = 0.5 * job.layers[:, 2] * ((bias - job.layers[:, 1]) ** 2 + bias_var)
        value -= 0.5 * (u**2 + u_var) @ self._alpha + np.where(self._has_bias, cost, 0.0).sum(axis=1)
        if not self._point:
            with np.errstate(divide="ignore"):
                value += 0.5 * np.log(u_var).sum(axis=1)
                value += 0.5 * np.where(self._has_bias, np.log(bias_var), 0.0).sum(axis=1)
        return np.asarray(value)


def _large(block: Block) -> bool:
    """Whether a typical cell is a large count, whose predictor is as large and known to the last digits."""
    theta = np.array([block.offset])
    x = block.likelihood.mean(theta, np.zeros(1))
    weight, _ = block.likelihood.quadratic(x, theta, np.zeros(1), np.ones(2))
    return bool(weight[0] * block.offset**2 > PRECISE)


def _weight(block: Block, given: Given) -> float:
    """⟨τ⟩ of least squares, else the parameter of the relation."""
    if block.likelihood.least_squares:
        return -2.0 * float(given.slope[block.relation])
    p = given.parameters[block.relation]
    return float(p[0]) if len(p) else 0.25


def _halfway(new: Array, old: Array) -> Array:
    total = new + old
    return np.where(total > 0, 2 * new * old / np.where(total > 0, total, 1), new)


def _row_ranges(cost: Array) -> Array:
    """Edges of row ranges of about equal cost; they never depend on the number of threads."""
    passed = np.cumsum(cost + ROW_COST) // RANGE_COST
    return np.append(np.flatnonzero(np.diff(passed, prepend=-1)), len(cost))
