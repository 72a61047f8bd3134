"""Cells that stay on the host pass through two rooms of the device: one is filled while the other is worked on."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.engines.gpu.device import Device, DeviceArray
    from gcmf.engines.gpu.layout import Batch, Plan

    Place = tuple[str, int]
    """An array of a block, by its name and the number of the block."""

#: Threads that copy, and bytes that one of them copies at a time: no single thread keeps up with a GPU.
THREADS, CHUNK = 4, 1 << 24
#: Where arrays begin in a room: at multiples of this.
ALIGNED = 256


@dataclass
class _Room:
    """Memory of the device for the cells of one batch."""

    array: DeviceArray = None
    plan: Plan | None = None
    number: int = 0
    """Of the batch that is here or on its way, in this plan."""
    starts: dict[Place, int] = field(default_factory=dict)
    """The address at which each array would begin if all of it were here."""
    coming: list[Future[None]] = field(default_factory=list)

    def holds(self, plan: Plan, batch: Batch) -> bool:
        return self.plan is plan and self.number == batch.number


class Courier:
    """Brings the cells of a batch of rows to the device, and those of the batch after it while that is worked on."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._here, self._next = _Room(), _Room()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="gcmf-cells")

    def bring(self, plan: Plan, batch: Batch) -> dict[Place, int]:
        """Return where the cells of a batch are, when they are there; what the batch before had is lost."""
        if not self._here.holds(plan, batch):
            self._fill(plan, batch)
            self._here, self._next = self._next, self._here
        for copied in self._here.coming:
            copied.result()
        if batch.number + 1 < len(plan.batches):
            self._fill(plan, plan.batches[batch.number + 1])
        return self._here.starts

    def _fill(self, plan: Plan, batch: Batch) -> None:
        """Begin to fill the other room, as soon as kernels are done with it, if this batch is not there already."""
        room, rows = self._next, plan.on_host[batch.at : batch.at + batch.n]
        if room.holds(plan, batch):
            return
        wait(room.coming)
        room.plan, room.number, room.starts = plan, batch.number, {}
        parts, size = [], 0
        for b, cells in enumerate(plan.held):
            span = cells.span(rows) if cells.streamed else slice(0, 0)
            for name, array in cells.streamed.items():
                parts.append((array[span].view(np.uint8), size))
                room.starts[name, b] = size - span.start * array.itemsize
                size += -(-len(parts[-1][0]) // ALIGNED) * ALIGNED
        if room.array is None or size > len(room.array):
            room.array = None  # before the next is asked for
            room.array = self._device.xp.empty(max(size, ALIGNED), np.uint8)
        at, done = self._device.address(room.array), self._device.mark()
        room.starts = {place: at + start for place, start in room.starts.items()}
        room.coming = [
            self._pool.submit(_copy, self._device, done, part[first : first + CHUNK], room.array[start + first :])
            for part, start in parts
            for first in range(0, len(part), CHUNK)
        ]


def _copy(device: Device, done: Callable[[], None], part: NDArray[np.uint8], to: DeviceArray) -> None:
    """Copy when all that was started before is done: kernels may be in this room, or in what this memory was before."""
    done()
    device.bring(part, to)
