"""One pass over the rows of an entity set on the device: what kernels are given, and in which order they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.engines.base import MAX_HALVINGS, proposes, stream_key
from gcmf.engines.gpu.source import (
    BLOCK,
    CELL_FIELDS,
    FOLD,
    GROUP,
    N_TURNS,
    PASS,
    Variant,
    cell_bytes,
    cell_threads,
    kind_of,
    n_sums,
    solve_bytes,
)
from gcmf.engines.noise import N_SUMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Block, Given, RowPrior
    from gcmf.engines.gpu.device import Device, DeviceArray
    from gcmf.engines.gpu.layout import Batch, HeldCells, Plan
    from gcmf.engines.gpu.streaming import Courier


#: Threads of a block where each warp has a row of its own.
THREADS = 128
#: Which rows of a batch a kernel looks at; and where those before and after a step are compared, which forms.
ALL, BUSY = 0, 1
BACK, FORTH = 0, 1
_CELL_FIELDS = [(BLOCK.names or ()).index(name) for name in CELL_FIELDS]


class Packet:
    """Small arrays that go to the device together."""

    def __init__(self, device: Device) -> None:
        self._device, self._size = device, 0
        self._parts: list[tuple[int, NDArray[np.uint8]]] = []
        self._room = device.xp.empty(1 << 16, np.uint8)

    def begin(self, size: int) -> None:
        """Forget what was there, and make room for so many bytes."""
        self._size, self._parts = 0, []
        if size > len(self._room):
            self._room = self._device.xp.empty(2 * size, np.uint8)

    def add(self, array: NDArray[Any]) -> int:
        """Return where these numbers will lie."""
        data, start = np.ascontiguousarray(array).view(np.uint8).ravel(), self._size
        self._parts.append((start, data))
        self._size += -(-len(data) // 16) * 16
        if self._size > len(self._room):
            msg = "a packet has no room for all that is sent"
            raise RuntimeError(msg)
        return self._device.address(self._room) + start

    def send_again(self, address: int, array: NDArray[Any]) -> None:
        """Copy other numbers to where some were sent."""
        start = address - self._device.address(self._room)
        self._device.send(np.ascontiguousarray(array).view(np.uint8).ravel(), self._room[start:])

    def send(self) -> None:
        """Copy it all."""
        data = np.zeros(self._size, np.uint8)
        for start, part in self._parts:
            data[start : start + len(part)] = part
        self._device.send(data, self._room)


class Pass:
    """Passes over one set with one padded number of factors: records, and room for a batch of rows."""

    def __init__(self, blocks: tuple[Block, ...], held: list[HeldCells], plan: Plan, rows: Variant,
                 device: Device) -> None:  # fmt: skip
        self.plan, self.width, self.variant, self._device, self._of_blocks = plan, rows.width, rows, device, blocks
        self._streams = any(cells.streamed for cells in held)
        self.courier: Courier | None = None
        xp, n_blocks, n, width = device.xp, len(blocks), max(plan.largest, 1), rows.width
        self.blocks, self._record = np.zeros(n_blocks, BLOCK), np.zeros(1, PASS)
        self._drawn, self._alive = [False] * n_blocks, dict[str, Any]()
        self.packet = Packet(device)
        self.guarded = self.drawing = self.proposing = False
        self.reach: DeviceArray = None
        room = {f"{of}_{what}": (n, width) for of in ("row", "old") for what in ("mean", "var")}
        room |= {f"{of}_{what}": (n, n_blocks) for of in ("row", "old") for what in ("bias", "bias_var")}
        room |= {name: (n, n_blocks) for name in ("row_scale", "before", "after", "worth", "totals")}
        room |= {"ratio": (n, 1)}
        self.rooms = {name: xp.zeros(shape, np.float64) for name, shape in room.items()}
        self.rooms["busy"], self.rooms["n_busy"] = xp.zeros(n, np.int32), xp.zeros(N_TURNS, np.int32)
        self._values = xp.zeros(max(plan.most_tasks, 1), np.float64)
        for b, (cells, pieces, n_places) in enumerate(zip(held, plan.pieces, plan.n_sums, strict=True)):
            of_block = self.blocks[b : b + 1]
            for name, number in cells.numbers.items():
                of_block[name] = number
            for name, array in cells.arrays.items():
                of_block[name] = device.address(array)
            sums = self.rooms[f"sums {b}"] = xp.empty((max(n_places, 1), n_sums(width)), np.float64)
            of_block["tasks"], of_block["firsts"] = device.address(pieces.tasks), device.address(pieces.firsts)
            of_block["sums"], of_block["values"] = device.address(sums), device.address(self._values)

    def set(self, **fields: int) -> None:
        """Set numbers and addresses of the pass."""
        for name, value in fields.items():
            self._record[name] = value

    def lend(self, **arrays: DeviceArray) -> None:
        """Set addresses, and keep the arrays until others take their place."""
        for name, array in arrays.items():
            self._alive[name] = array
            self._record[name] = self._device.address(array)

    def begin(self, on: NDArray[np.int64], prior: RowPrior) -> None:
        """Take these factors and what is expected of them."""
        self.packet.begin(4096 + (1 + len(self.blocks)) * (96 * self.width + 1024))
        self.set(n_factors=len(on), n_blocks=len(self.blocks), point=prior.point, active=self.packet.add(on))
        self._expect("prior_mean", prior.mean[:, on])
        self._expect("prior_precision", prior.precision[:, on])
        self._expect("bias_prior_mean", prior.bias_mean)
        self._expect("bias_prior_precision", np.atleast_2d(prior.bias_precision))
        self._solve_bytes, self._system_bytes = solve_bytes(len(on), len(self.blocks), self.width)

    def _expect(self, name: str, values: NDArray[np.float64]) -> None:
        each = len(values) > 1
        if each:
            self.lend(**{name: self._device.xp.asarray(np.ascontiguousarray(values))})
        else:
            self._record[name] = self.packet.add(values)
        self._record[f"{name}_step"] = values.shape[1] if each else 0

    def draw(self, given: Given, e: int, *, guarded: bool, again: bool = False) -> None:
        """Say whether rows are drawn, and with which random numbers."""
        key, self.drawing = given.key, given.key is not None
        self.guarded = guarded and not self.drawing
        proposed = [self.drawing and proposes(block, given) for block in self._of_blocks]
        weighed = [self.drawing and block.likelihood.trials is not None for block in self._of_blocks]
        self._drawn = [drawn and not by_rule for drawn, by_rule in zip(weighed, proposed, strict=True)]
        self.blocks["proposed"], self.proposing = proposed, any(proposed)
        # What mild cells are worth before a step is asked for later, if at all.
        self.blocks["valued"] = ~(self.guarded & self.blocks["mild"].astype(bool))
        whole = 0 if key is None else stream_key(key, e, again=again)
        self.set(drawing=self.drawing, key=int(np.array(whole, np.uint64).view(np.int64)))

    def send(self) -> None:
        """Bring all that was set to the device."""
        room, device = self._record, self._device
        for name in PASS.names or ():
            if name in self.rooms:
                room[name] = device.address(self.rooms[name])
        self._shared, self._threads = max(self._solve_bytes, self._system_bytes), 32
        room["room"] = 0
        if self._shared * (THREADS // 32) <= device.shared_bytes:
            self._shared, self._threads = self._shared * (THREADS // 32), THREADS
        elif self._shared > device.shared_bytes:
            # Too many factors for fast memory: their systems lie where everything does.
            n = self._system_bytes // 8
            if "room" not in self._alive or self._alive["room"].size < self.plan.largest * n:
                self._alive["room"] = device.xp.empty(max(self.plan.largest, 1) * n, np.float64)
            room["room"], self._shared = device.address(self._alive["room"]), 0
        room["rows"] = device.address(self.plan.rows)
        self._blocks_at = room["blocks"] = self.packet.add(self.blocks)
        self._at = self.packet.add(room)
        self.packet.send()

    # --- kernels ----------------------------------------------------------------------------------------------

    def rows(self, name: str, n: int, *args: int, shared: bool = False) -> None:
        """Run a kernel with a warp for each of n rows."""
        threads = self._threads if shared else THREADS
        grid = -(-n // (threads // 32)), threads
        self._device.run(self.variant, name, grid, (self._at, *args), shared=self._shared if shared else 0)

    def load(self, batch: Batch) -> None:
        """Take the parameters of the rows from the state, and their cells from the host, if those are there."""
        if self._streams and self.courier is not None:
            for (name, b), address in self.courier.bring(self.plan, batch).items():
                self.blocks[name][b] = address
            self.packet.send_again(int(self._blocks_at), self.blocks)
        self.rows("load_rows", batch.n, batch.at, batch.n)

    def sum(self, batch: Batch, b: int) -> None:
        """Sum up the cells of the rows in block b."""
        first, n = batch.tasks[b]
        variant = self.variant._replace(kind=self._kind(b), drawing=self._drawn[b])
        self._over_cells(variant, "sum_cells", n, (self._at, b, batch.at, first, n))
        first, n = batch.long_rows[b]
        if n:
            at = self._device.address(self.plan.pieces[b].long_rows) + 16 * first
            self._device.run(self.variant, "add_pieces", (n, THREADS), (self._at, b, at))

    def _kind(self, b: int) -> str:
        """The mathematics of the cells of block b: each has a weight where partners have noise of their own."""
        block = self._of_blocks[b]
        weighed = block.cells.weight is not None or self.blocks["partner_precision"][b] != 0
        return kind_of(block.likelihood, weighed=weighed)

    def _over_cells(self, variant: Variant, name: str, n: int, args: tuple[int, ...]) -> None:
        """Run a kernel with a warp for each of n tasks."""
        threads, held = cell_threads(self.width), self.blocks.view(np.int64).reshape(len(self.blocks), -1)[args[1]]
        grid = -(-n // (threads // 32)), threads
        self._device.run(variant, name, grid, (*args, *held[_CELL_FIELDS].tolist()), shared=cell_bytes(variant))

    def measure(self, batch: Batch, b: int, out: str, *, some: bool = False) -> None:
        """What the cells of block b are worth, cell by cell, into a column of `out`; of all rows, or of busy ones."""
        first, n = batch.tasks[b]
        variant = self.variant._replace(kind=self._kind(b))
        self._over_cells(variant, "measure_cells", n, (self._at, b, batch.at, first, n, some))
        at, grid = self._device.address(self.rooms[out]), (-(-batch.n // THREADS), THREADS)
        self._device.run(self.variant, "add_values", grid, (self._at, b, batch.at, batch.n, at, some))

    def update(self, batch: Batch, wanted: NDArray[np.bool_]) -> None:
        """Sum up, solve or draw, and write the rows of a batch; `totals` has the values of wanted blocks afterwards."""
        at, n, squares = batch.at, batch.n, self.blocks["least_squares"].astype(bool)
        self.load(batch)
        for b in range(len(self.blocks)):
            self.sum(batch, b)
        if self.guarded or (wanted & ~squares).any():
            self.rows("form_rows", n, n, self._device.address(self.rooms["before"]))
        self.rows("solve_rows", n, at, n, shared=True)
        if self.guarded:
            self._hold(batch)
        elif self.proposing:
            self._propose(batch)
        else:
            self.rows("write_rows", n, at, n, ALL)
        learning = (self.blocks["noise_cells"] != 0) & (not self.drawing)
        for b in np.flatnonzero(wanted | learning).tolist():
            if squares[b] or not self.guarded:
                self.bound(batch, b)
            else:
                self.measure(batch, b, "totals")
            self.count_noise(batch, b, learning=bool(learning[b]))

    def count_noise(self, batch: Batch, b: int, *, learning: bool = False) -> None:
        """Multiply `totals` of block b by the precision of each row, where rows have noise of their own."""
        if self.blocks["precision"][b]:
            grid = -(-batch.n // THREADS), THREADS
            self._device.run(self.variant, "count_noise", grid, (self._at, b, batch.at, batch.n, learning))

    def bound(self, batch: Batch, b: int) -> None:
        """The value of the cells of block b after a step, by the rows' sums, or cell by cell where those cancel."""
        self.rows("bound_rows", batch.n, b, batch.n, self._device.address(self.rooms["totals"]))
        if self.blocks["least_squares"][b]:
            self.measure(batch, b, "totals", some=True)

    def _hold(self, batch: Batch) -> None:
        """Where a step lowers a row's share of the bound, go back halfway, some times, and then altogether."""
        at, n = batch.at, batch.n
        self.rows("guard_rows", n, n)
        self.rows("write_rows", n, at, n, ALL)
        if not self._n_busy(0):
            return
        looked_at = np.flatnonzero(self.blocks["least_squares"] == 0).tolist()
        self.rows("swap_rows", n, n, BUSY)
        for b in np.flatnonzero(self.blocks["mild"]).tolist():
            self.measure(batch, b, "worth", some=True)
        self.rows("swap_rows", n, n, BUSY)
        for turn in range(MAX_HALVINGS + 2):
            self.rows("write_rows", n, at, n, BUSY)
            for b in looked_at:
                self.measure(batch, b, "after", some=True)
            self.rows("judge_rows", n, at, n, turn >= MAX_HALVINGS, turn + 1)
            if not self._n_busy(turn + 1):
                return

    def _n_busy(self, turn: int) -> int:
        """How many rows are not done after so many turns."""
        return int(self._device.to_host(self.rooms["n_busy"])[turn])

    def _propose(self, batch: Batch) -> None:
        """Take proposals as Metropolis does: `propose_row` in row_kernels.py has the formula."""
        at, n = batch.at, batch.n
        self.rows("compare_rows", n, at, n, FORTH, shared=True)
        for b in np.flatnonzero(self.blocks["proposed"]).tolist():
            self.sum(batch, b)
        self.rows("compare_rows", n, at, n, BACK, shared=True)
        self.rows("decide_rows", n, at, n)
        self.rows("swap_rows", n, n, BUSY)
        self.rows("write_rows", n, at, n, ALL)

    # --- sums over rows ---------------------------------------------------------------------------------------

    def grouped(self, name: str, n: int, size: int, *args: int) -> DeviceArray:
        """The sums (size,) that a kernel of totals.cu finds in the rows of a batch."""
        xp, threads = self._device.xp, min(THREADS, max(self.width, 32))
        out = xp.empty((-(-n // GROUP), size), np.float64)
        self._device.run(self.variant, name, (len(out), threads), (self._at, *args, n, self._device.address(out)))
        return self.folded(out, "add_groups")

    def noise_sums(self, precision: DeviceArray, cells: DeviceArray, half: float) -> DeviceArray:
        """What `noise.sums_of` would make of the precisions of all rows of a layer, (6,)."""
        out = self._device.xp.empty((-(-len(precision) // GROUP), N_SUMS), np.float64)
        addresses = [self._device.address(array) for array in (precision, cells, out)]
        args = *addresses[:2], int(np.array(half).view(np.int64)), len(precision), addresses[2]
        self._device.run(self.variant, "sum_noise", (-(-len(out) // (THREADS // 32)), THREADS), args)
        return self.folded(out, "add_groups")

    def folded(self, groups: DeviceArray, name: str) -> DeviceArray:
        """The sums or maxima (size,) of what was found in groups (n, size), in a fixed order."""
        while len(groups) > 1:
            n, size = groups.shape
            out = self._device.xp.empty((-(-n // FOLD), size), np.float64)
            grid = len(out) * -(-size // THREADS), THREADS
            args = self._device.address(groups), n, size, self._device.address(out)
            self._device.run(self.variant, name, grid, args)
            groups = out
        return groups[0]
