"""The compiled engine: packs what a sweep needs, hands row ranges to threads, unpacks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.engines.chunk_kernels import Cells, Packed, Terms
from gcmf.engines.row_kernels import measure_rows, sweep_rows, weigh_rows
from gcmf.engines.simd import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.engines.base import Block, Floats, Hyper, Problem, State

#: Cost of solving for a row, in cells.
ROW_COST = 16
#: Cells per row range: below this a range is done before another thread would have started.
RANGE_COST = 20_000
#: Enough ranges to even out rows of unequal length, few enough to cost nothing.
MAX_RANGES = 64


class CpuEngine:
    """Numba kernels over row ranges, in float32 or float64."""

    def __init__(self, problem: Problem, *, dtype: str, n_threads: int) -> None:
        self._problem = problem
        self._dtype = np.dtype(dtype)
        self._n_threads = n_threads
        self._cells = [_stack(blocks, d, self._dtype)
                       for blocks, d in zip(problem.blocks, problem.sizes, strict=True)]  # fmt: skip
        self._edges = [_row_ranges(blocks, d) for blocks, d in zip(problem.blocks, problem.sizes, strict=True)]
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def place(self, state: State) -> None:
        """Take over these parameters."""
        self._state = state

    def fetch(self) -> State:
        """The current parameters."""
        return self._state

    def sweep(self, e: int, hyper: Hyper) -> Floats:
        """Update every row of entity set e."""
        on = np.flatnonzero(hyper.on[e])
        blocks = self._problem.blocks[e]
        measured = [self._problem.measured(e, b) for b in range(len(blocks))]
        packed, terms = self._pack(e, on), self._terms(blocks, measured, hyper)
        totals = np.zeros((self._problem.sizes[e], len(blocks)))
        alpha, damping = hyper.alpha[e, on], hyper.damping or 0.0
        cells = self._cells[e]
        self._run(e, partial(sweep_rows, cells=cells, terms=terms, packed=packed, alpha=alpha, n_u=len(on),
                                      damping=damping, point=hyper.point, totals=totals))  # fmt: skip
        self._unpack(e, on, packed)
        return self._collect(blocks, measured, totals)

    def measure(self, hyper: Hyper) -> Floats:
        """Sum of the cells' bounds per relation, at the current parameters."""
        result = np.empty(self._problem.n_relations)
        for e, blocks, rows in self._row_sides():
            on = np.arange(hyper.on.shape[1])
            packed, terms, cells = self._pack(e, on), self._terms(blocks, rows, hyper), self._cells[e]
            totals = np.zeros((self._problem.sizes[e], len(blocks)))
            self._run(e, partial(measure_rows, cells=cells, terms=terms, packed=packed, totals=totals))
            for b, block in enumerate(blocks):
                if rows[b]:
                    result[block.relation] = totals[:, b].sum()
        return result

    def weigh(self, hyper: Hyper) -> tuple[Floats, Floats]:
        """Gain and energy of each factor in each relation, (M, K) each."""
        K = hyper.on.shape[1]
        gain, energy = np.zeros((self._problem.n_relations, K)), np.zeros((self._problem.n_relations, K))
        for e, blocks, rows in self._row_sides():
            packed, terms, cells = self._pack(e, np.arange(K)), self._terms(blocks, rows, hyper), self._cells[e]
            shape = (2, len(blocks), packed.mean.shape[1])
            parts = {lo: np.zeros(shape) for lo in self._edges[e][:-1]}
            self._run(e, partial(_weigh_range, args=(cells, terms, packed), parts=parts))
            for b, block in enumerate(blocks):
                if rows[b]:
                    # In the order of the rows: the same bits for any number of threads.
                    gain[block.relation] = sum(parts[lo][0][b, :K] for lo in sorted(parts))
                    energy[block.relation] = sum(parts[lo][1][b, :K] for lo in sorted(parts))
        return gain, energy

    def _row_sides(self) -> Iterator[tuple[int, tuple[Block, ...], list[bool]]]:
        """The entity sets that hold rows of some relation, with the blocks where they do."""
        for e, blocks in enumerate(self._problem.blocks):
            rows = [block.side == 0 for block in blocks]
            if any(rows):
                yield e, blocks, rows

    def _run(self, e: int, work: Callable[[int, int], None]) -> None:
        """Call work(lo, hi) on the row ranges of one entity set."""
        edges = self._edges[e]
        if self._pool is None or len(edges) == 2:
            for lo, hi in pairwise(edges):
                work(lo, hi)
            return
        list(self._pool.map(work, edges[:-1], edges[1:]))

    def _pack(self, e: int, on: np.ndarray) -> Packed:
        """Active columns of the partners, block after block, padded; and the rows' own parameters."""
        s, blocks, T = self._state, self._problem.blocks[e], self._dtype
        width = max(LANES, -(-len(on) // LANES) * LANES)

        def padded(sources: list[np.ndarray]) -> np.ndarray:
            out = np.zeros((sum(len(a) for a in sources), width), T)
            np.concatenate([a[:, on] for a in sources], out=out[:, : len(on)], casting="same_kind")
            return out

        return Packed(
            partner_mean=padded([s.mean[b.other] for b in blocks]),
            partner_var=padded([s.var[b.other] for b in blocks]),
            partner_bias=np.concatenate([s.bias_mean[b.other_layer] + b.offset for b in blocks]).astype(T),
            partner_bias_var=np.concatenate([s.bias_var[b.other_layer] for b in blocks]).astype(T),
            mean=padded([s.mean[e]]),
            var=padded([s.var[e]]),
            bias=np.stack([s.bias_mean[b.layer] for b in blocks], axis=1).astype(T),
            bias_var=np.stack([s.bias_var[b.layer] for b in blocks], axis=1).astype(T),
        )

    def _unpack(self, e: int, on: np.ndarray, packed: Packed) -> None:
        s = self._state
        s.mean[e][:, on] = packed.mean[:, : len(on)]
        s.var[e][:, on] = packed.var[:, : len(on)]
        for b, block in enumerate(self._problem.blocks[e]):
            s.bias_mean[block.layer][:] = packed.bias[:, b]
            s.bias_var[block.layer][:] = packed.bias_var[:, b]

    def _terms(self, blocks: tuple[Block, ...], measured: list[bool], hyper: Hyper) -> Terms:
        sizes = [0, *(self._problem.sizes[b.other] for b in blocks)]
        return Terms(
            kind=np.array([b.likelihood.code for b in blocks]),
            weight=np.array([hyper.weight[b.relation] for b in blocks]),
            zero_weight=np.array([b.likelihood.zero_weight for b in blocks]),
            fill=np.array([-b.center / b.scale for b in blocks]),
            offset=np.cumsum(sizes)[:-1],
            biased=np.array([self._problem.biased[b.layer] for b in blocks]),
            bias_mean=np.array([hyper.bias_mean[b.layer] for b in blocks]),
            bias_precision=np.array([hyper.bias_precision[b.layer] for b in blocks]),
            measured=np.array(measured),
        )

    def _collect(self, blocks: tuple[Block, ...], measured: list[bool], totals: Floats) -> Floats:
        result = np.full(self._problem.n_relations, np.nan)
        for b, block in enumerate(blocks):
            if measured[b]:
                result[block.relation] = totals[:, b].sum()
        return result


def _weigh_range(lo: int, hi: int, *, args: tuple[Cells, Terms, Packed], parts: dict[int, Floats]) -> None:
    weigh_rows(lo, hi, *args, parts[lo][0], parts[lo][1])


def _row_ranges(blocks: tuple[Block, ...], d: int) -> list[int]:
    """Edges of row ranges of about equal cost; they depend on the data alone, never on the threads."""
    # A row costs its cells, and its solve about as much as some more.
    cost = np.cumsum(np.sum([block.cells.counts() for block in blocks], axis=0) + ROW_COST)
    n_ranges = int(np.clip(cost[-1] // RANGE_COST, 1, MAX_RANGES))
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], n_ranges + 1)[1:-1]) + 1
    return sorted({0, *np.minimum(cuts, d).tolist(), d})


def _stack(blocks: tuple[Block, ...], d: int, dtype: np.dtype[Any]) -> Cells:
    """Concatenate the blocks of one entity set; values go to the array of their kind."""
    sides = [block.cells for block in blocks]
    coded = [side.value.dtype == np.uint8 for side in sides]
    starts = np.cumsum([0, *(len(side.partner) for side in sides)])
    shift, n_float, n_code = [], 0, 0
    for start, side, is_code in zip(starts, sides, coded, strict=False):
        shift.append(start - (n_code if is_code else n_float))
        n_code, n_float = n_code + is_code * len(side.value), n_float + (not is_code) * len(side.value)
    floats = [_standardized(block, dtype) for block, c in zip(blocks, coded, strict=True) if not c]
    members = [side.members if side.members is not None else np.empty(0, np.int32) for side in sides]
    return Cells(
        indptr=np.stack([side.indptr + start for start, side in zip(starts, sides, strict=False)]),
        partner=np.concatenate([side.partner for side in sides]),
        value=np.concatenate([np.empty(0, dtype), *floats]),
        code=np.concatenate([np.empty(0, np.uint8), *(s.value for s, c in zip(sides, coded, strict=True) if c)]),
        coded=np.array(coded),
        shift=np.array(shift),
        filled=np.array([side.members is not None for side in sides]),
        members=np.concatenate(members),
        members_ptr=np.cumsum([0, *(len(m) for m in members)]),
        covered=np.stack([side.covered if side.covered is not None else np.zeros(d, bool) for side in sides]),
    )


def _standardized(block: Block, dtype: np.dtype[Any]) -> np.ndarray:
    """(x − center)/scale, rounded to the working precision only after centering."""
    return ((block.cells.value.astype(np.float64) - block.center) / block.scale).astype(dtype)
