"""The GPU engine: cells, parameters and sums lie on the device; the host decides in what order things are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.engines.base import State, Swept
from gcmf.engines.gpu.device import require_device
from gcmf.engines.gpu.layout import SHARE, HeldCells, Plan, find_resident
from gcmf.engines.gpu.passes import Pass
from gcmf.engines.gpu.source import GROUP, Variant, kind_of, n_sums, width_of
from gcmf.engines.gpu.state import DeviceState
from gcmf.engines.gpu.streaming import Courier
from gcmf.engines.host import no_scaling
from gcmf.engines.noise import N_SUMS
from gcmf.engines.order import order_of
from gcmf.engines.precision import is_large, is_precise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.engines.base import Block, Floats, Given, Problem
    from gcmf.engines.gpu.device import Device, DeviceArray


class _Partners(NamedTuple):
    """The partners of a block, to be packed."""

    block: Block
    b: int
    n_factors: int
    room: int
    """Where they are packed; the same for several blocks that see the same."""
    at: tuple[int, ...]
    """Where the device has the offset of θ, and for each factor which one it meets, and mean and variance of scales."""


class GpuEngine(DeviceState):
    """Kernels over rows, a warp for each, in float32 as long as that is precise enough, or in float64."""

    def __init__(
        self, problem: Problem, *, dtype: str, device: Device | None = None, budget: float | None = None
    ) -> None:
        """`budget`: bytes of cells that may lie on the device, where others pass through it; None: as many as fit."""
        super().__init__(problem, device or require_device())
        blocks = [block for blocks in problem.blocks for block in blocks]
        for block in blocks:
            kind_of(block.likelihood, weighed=False)
        self._least_squares = sorted({block.relation for block in blocks if block.likelihood.least_squares})
        self._completes = [np.array([problem.measured(e, b) for b in range(len(blocks))], bool)
                           for e, blocks in enumerate(problem.blocks)]  # fmt: skip
        self._orders = [order_of(problem, e) for e in range(len(problem.sizes))]
        # Rows that wait for each other are not side by side: their cells are always on the device.
        always = [order is not None for order in self._orders]
        resident = find_resident(problem, always, SHARE * self._device.free_bytes if budget is None else budget)
        self._held = [[HeldCells.of(block, self._device, resident=here) for block, here in zip(*of_set, strict=True)]
                      for of_set in zip(problem.blocks, resident, strict=True)]  # fmt: skip
        streams = any(cells.streamed for held in self._held for cells in held)
        self._courier = Courier(self._device) if streams else None
        self._present = [np.flatnonzero(np.any([self._has_cells[b.layer] for b in blocks], axis=0))
                         for blocks in problem.blocks]  # fmt: skip
        self._guarded = [not all(b.likelihood.quadratic_is_bound for b in blocks) for blocks in problem.blocks]
        self._noise_cells = {block.layer: self._xp.asarray(block.noise_cells)
                             for block in blocks if block.noise_cells is not None}  # fmt: skip
        self._work_in("float64" if any(map(is_large, blocks)) else dtype)

    def _work_in(self, dtype: str) -> None:
        """Choose the working precision."""
        self._dtype = np.dtype(dtype)
        self._passes: dict[tuple[int, int], Pass] = {}
        self._pairs: dict[int, DeviceArray] = {}

    def place(self, state: State) -> None:
        """Take over these parameters."""
        xp = self._xp
        dtypes = [self._dtype] * 4 + [np.dtype(np.float64)]
        groups = ([xp.ascontiguousarray(xp.asarray(array, dtype)) for array in group]
                  for group, dtype in zip(state.groups(), dtypes, strict=True))  # fmt: skip
        super().place(State(*groups))

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e."""
        if self._dtype.itemsize == 4 and is_precise(given, self._least_squares):
            self._work_in("float64")
            self.place(self._state.copy())
        self._writable()
        on, wanted, blocks = np.flatnonzero(given.on[e]), self._completes[e], self._problem.blocks[e]
        work, scaling = self._prepare(e, on, given), no_scaling(self._problem, given)
        totals, scaled = np.full(self._problem.n_relations, np.nan), dict[int, Any]()
        B, size = len(blocks), 2 * work.width + 4 * len(blocks)
        found, sums = np.zeros(size), list[Any]()
        for batch in work.plan.batches:
            work.update(batch, wanted)
            sums.append(work.grouped("sum_moments", batch.n, size, batch.at))
            if scaling.size:
                self._add_scaling(work, batch.n, np.flatnonzero(wanted), scaled)
        for of_batch in sums:
            found += self._device.to_host(of_batch)
        square, log_var = np.zeros((2, given.on.shape[1]))
        relations = np.array([block.relation for block in blocks])
        totals[relations[wanted]] = found[:B][wanted]
        square[on], log_var[on] = found[B : B + 2 * work.width].reshape(2, -1)[:, : len(on)]
        bias = found[B + 2 * work.width :].reshape(3, -1)
        self._settle(e, given, totals, scaled)
        for b, of_block in scaled.items():
            self._unfold(of_block, on, work.width, scaling[blocks[b].relation], blocks[b].times)
        noise = self._noise_sums(e, given, work)
        return Swept(totals, square, log_var, np.array([b.layer for b in blocks]), bias, scaling, noise)

    def _noise_sums(self, e: int, given: Given, work: Pass) -> Floats:
        """What `noise.sums_of` would make of the precisions of each layer of a set, (6, B)."""
        if given.noise is None:
            return np.zeros((0, 0))
        sums = np.zeros((N_SUMS, len(self._problem.blocks[e])))
        for b, block in enumerate(self._problem.blocks[e]):
            if given.is_noisy(block.layer) and block.layer in self._noise_cells:
                precision, cells = self._state.precision[block.layer], self._noise_cells[block.layer]
                sums[:, b] = self._device.to_host(work.noise_sums(precision, cells, float(given.noise[block.layer])))
        return sums

    def _settle(self, e: int, given: Given, totals: Floats, scaled: dict[int, DeviceArray]) -> None:
        """Look once more at relations of the set with itself: only when all rows are swept do the sums of each hold."""
        blocks = self._problem.blocks[e]
        own = [b for b in range(len(blocks)) if self._problem.own(e, b)]
        if not own:
            return
        work = self._prepare(e, np.flatnonzero(given.on[e]), given, again=True)
        summed = np.zeros(len(blocks))
        for batch in work.plan.batches:
            work.load(batch)
            for b in own:
                work.sum(batch, b)
                if blocks[b].likelihood.least_squares:
                    work.bound(batch, b)
                else:
                    work.rooms["totals"][: batch.n, b] = work.rooms[f"sums {b}"][: batch.n, n_sums(work.width) - 5]
            summed += self._device.to_host(work.rooms["totals"][: batch.n].sum(axis=0))
            if given.scales is not None:
                self._add_scaling(work, batch.n, np.array(own), scaled)
        for b in own:
            totals[blocks[b].relation] = blocks[b].times * summed[b]

    def _add_scaling(self, work: Pass, n: int, wanted: NDArray[np.intp], scaled: dict[int, DeviceArray]) -> None:
        """Add what the rows of a batch say of the scales of these blocks."""
        size = n_sums(work.width) - work.width - 8
        for b in wanted.tolist():
            found = work.grouped("sum_scaling", n, size, b)
            scaled[b] = scaled[b] + found if b in scaled else found

    def _unfold(self, sums: DeviceArray, on: NDArray[np.intp], width: int, out: Floats, times: float) -> None:
        """Write what was summed up for scales as (K + 2, K), where factors are on."""
        found, n, K = times * self._device.to_host(sums), len(on), out.shape[1]
        triangle = len(found) - 2 * width
        whole = np.zeros((width, width))
        whole[np.triu_indices(width)] = found[:triangle]
        whole += np.triu(whole, 1).T
        out[np.ix_(on, on)] = whole[:n, :n]
        out[np.ix_([K, K + 1], on)] = found[triangle:].reshape(2, width)[:, :n]

    def measure(self, given: Given) -> Floats:
        """Summed values of the cells per relation, at the current parameters."""
        result = np.zeros(self._problem.n_relations)
        for e, wanted in self._row_sides():
            work, blocks = self._prepare(e, np.arange(given.on.shape[1]), given), self._problem.blocks[e]
            for batch in work.plan.batches:
                work.load(batch)
                for b in wanted:
                    work.measure(batch, b, "totals")
                    work.count_noise(batch, b)
                found = self._device.to_host(work.rooms["totals"][: batch.n].sum(axis=0))
                for b in wanted:
                    result[blocks[b].relation] += blocks[b].times * found[b]
        return result

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """Gain and energy of each factor in each relation, (M, K) each."""
        K = given.on.shape[1]
        result = np.zeros((2, self._problem.n_relations, K))
        for e, wanted in self._row_sides():
            work, blocks = self._prepare(e, np.arange(K), given), self._problem.blocks[e]
            for batch in work.plan.batches:
                work.load(batch)
                for b in wanted:
                    work.sum(batch, b)
                    found = self._device.to_host(work.grouped("sum_worth", batch.n, 2 * work.width, b))
                    result[:, blocks[b].relation] += blocks[b].times * found.reshape(2, -1)[:, :K]
        return result[0], result[1]

    def lean(self, e: int, k: int, given: Given) -> Floats:
        """What the cells of each row say of factor k, (2, d)."""
        held = np.flatnonzero(given.on[e])
        work = self._prepare(e, np.append(held[held != k], k), given)
        out = self._xp.zeros((self._problem.sizes[e], 2), np.float64)
        for batch in work.plan.batches:
            work.load(batch)
            for b in range(len(self._problem.blocks[e])):
                work.sum(batch, b)
            work.rows("lean_rows", batch.n, batch.at, batch.n, self._device.address(out), shared=True)
        return np.ascontiguousarray(self._device.to_host(out).T)

    def _row_sides(self) -> Iterator[tuple[int, list[int]]]:
        """The entity sets that hold the rows of some relation, and these blocks: enough to see every cell once."""
        for e, blocks in enumerate(self._problem.blocks):
            wanted = [b for b, block in enumerate(blocks) if block.side == 0]
            if wanted:
                yield e, wanted

    # --- what a pass needs ------------------------------------------------------------------------------------

    def _prepare(self, e: int, on: NDArray[np.intp], given: Given, *, again: bool = False) -> Pass:
        """All that kernels need for a pass over set e: partners' parameters packed, and all else by address."""
        s, blocks, width = self._state, self._problem.blocks[e], width_of(len(on), self._dtype)
        work = self._pass_of(e, width)
        work.begin(on.astype(np.int64), given.priors[e])
        work.draw(given, e, guarded=self._guarded[e], again=again)
        work.set(n_columns=s.mean[e].shape[1])
        work.lend(mean=s.mean[e], var=s.var[e])
        partners, packed = list[_Partners](), set[int]()
        for b, block in enumerate(blocks):
            slope, squares = float(given.slope[block.relation]), block.likelihood.least_squares
            # Each relation scales its partners by itself; where none does, one room serves all relations of a set.
            room = block.other if given.scales is None and block.other != e else -1 - block.layer
            record = work.blocks[b : b + 1]
            record["slope"], record["scale"] = slope, -2.0 * slope if squares else 1.0
            record["pairs"] = self._device.address(self._pairs_of(room, block.other, 2 * width))
            record["partner_bias"] = self._device.address(self._pairs_of(1000 + block.layer, block.other, 2))
            record["bias"] = self._device.address(s.bias_mean[block.layer])
            record["bias_var"] = self._device.address(s.bias_var[block.layer])
            self._set_noise(record, block, given)
            record["parameters"] = work.packet.add(np.asarray(given.parameters[block.relation], np.float64))
            seen = _seen(block, on, given)
            at = work.packet.add(np.array([block.offset])), *map(work.packet.add, seen)
            partners.append(_Partners(block, b, len(on), room, at))
            if block.other == e:
                self._set_own(work, e, b, on, seen)
        reach = self._xp.zeros((len(blocks), 4, width), np.float64)
        work.blocks["reach"] = self._device.address(reach) + 32 * width * np.arange(len(blocks))
        work.reach = reach
        work.send()
        for of_block in partners:
            self._pack(work, of_block, fresh=of_block.room not in packed)
            packed.add(of_block.room)
            if work.guarded and work.blocks["mild"][of_block.b]:
                d = self._problem.sizes[of_block.block.other]
                reach[of_block.b] = self._reach(work, of_block.b, d)
        return work

    def _set_noise(self, record: NDArray[Any], block: Block, given: Given) -> None:
        """Say which rows and partners of a block have noise of their own, and what is known of it."""
        precision, address, noisy = self._state.precision, self._device.address, given.is_noisy(block.layer)
        record["precision"] = address(precision[block.layer]) if noisy else 0
        record["partner_precision"] = address(precision[block.other_layer]) if given.is_noisy(block.other_layer) else 0
        learned = noisy and block.layer in self._noise_cells
        record["noise_cells"] = address(self._noise_cells[block.layer]) if learned else 0
        record["noise_half"] = given.noise[block.layer] if noisy and given.noise is not None else 0.0
        record["floor"] = given.floor_of(block.relation) if block.likelihood.least_squares else 0.0

    def _pass_of(self, e: int, width: int) -> Pass:
        if (e, width) not in self._passes:
            # As factors are switched off, what was made for more of them is not needed again.
            for wider in [key for key in self._passes if key[0] == e and key[1] > width]:
                del self._passes[wider]
            blocks, variant = self._problem.blocks[e], Variant(self._dtype.name, width)
            plan = Plan(self._held[e], self._present[e], self._device, 8 * n_sums(width), self._orders[e])
            work = self._passes[e, width] = Pass(blocks, self._held[e], plan, variant, self._device)
            work.courier = self._courier
            for name, values in {
                "nowhere": [self._problem.sizes[b.other] for b in blocks],
                "least_squares": [b.likelihood.least_squares for b in blocks],
                # What partners reach is not known beforehand where they move in the same sweep.
                "mild": [b.likelihood.mild and not b.likelihood.least_squares and b.other != e for b in blocks],
                "biased": [self._problem.biased[b.layer] for b in blocks],
                "zero_weight": [b.likelihood.zero_weight for b in blocks],
                "offset": [b.offset for b in blocks],
            }.items():
                work.blocks[name] = values
        return self._passes[e, width]

    def _pairs_of(self, room: int, other: int, n: int) -> DeviceArray:
        """Room for packed parameters of a set, and a row of zeros after them; what was there is lost."""
        size = (self._problem.sizes[other] + 1) * n
        if room not in self._pairs or self._pairs[room].size < size:
            self._pairs[room] = self._xp.empty(size, self._dtype)
        return self._pairs[room]

    def _pack(self, work: Pass, partners: _Partners, *, fresh: bool) -> None:
        """Pack the partners of a block; `fresh`: their factors have not been packed yet."""
        block, (offset, *seen), address, record = partners.block, partners.at, self._device.address, work.blocks
        s, d, theirs = self._state, self._problem.sizes[block.other], block.other_layer
        mean, var = s.mean[block.other], s.var[block.other]
        if fresh:
            grid = -(-(d + 1) * work.width // 256), 256
            pairs = int(record["pairs"][partners.b])
            args = (address(mean), address(var), d, mean.shape[1], partners.n_factors, *seen, pairs)
            self._device.run(work.variant, "pack", grid, args)
        args = address(s.bias_mean[theirs]), address(s.bias_var[theirs]), d, offset
        grid = -(-(d + 1) // 256), 256
        self._device.run(work.variant, "pack_bias", grid, (*args, int(record["partner_bias"][partners.b])))

    def _reach(self, work: Pass, b: int, d: int) -> DeviceArray:
        """The largest ū², ū² + ũ and ũ of each factor of the partners of a block, and the largest |ū_j|²."""
        n_groups = -(-d // GROUP)
        out = self._xp.empty((n_groups, 4 * work.width), np.float64)
        grid = -(-n_groups // 4), 128
        args = int(work.blocks["pairs"][b]), d, self._device.address(out)
        self._device.run(work.variant, "find_reach", grid, args)
        return work.folded(out, "largest_of_groups").reshape(4, work.width)

    def _set_own(self, work: Pass, e: int, b: int, on: NDArray[np.intp], seen: tuple[NDArray[Any], ...]) -> None:
        """Say what is to be written of each row for block b, whose partners are rows of this set."""
        blocks, (columns, scale, scale_var) = self._problem.blocks[e], seen
        place = np.full(self._state.mean[e].shape[1], -1)
        place[on] = np.arange(len(on))
        of_block = work.blocks[b : b + 1]
        of_block["own"] = True
        of_block["twin"] = next(n for n, twin in enumerate(blocks) if twin.layer == blocks[b].other_layer)
        of_block["own_mates"], of_block["own_scale"] = work.packet.add(place[columns]), work.packet.add(scale)
        of_block["own_scale_var"] = work.packet.add(scale_var)


def _seen(block: Block, on: NDArray[np.intp], given: Given) -> tuple[NDArray[Any], Floats, Floats]:
    """Which factor of a partner each factor meets, and mean and variance of the scale between them."""
    if given.scales is None:
        return on.astype(np.int64), np.ones(len(on)), np.zeros(len(on))
    scale, scale_var, mates = (a[on] for a in given.scales.seen(block.relation, block.side))
    return mates.astype(np.int64), np.ascontiguousarray(scale), np.ascontiguousarray(scale_var)
