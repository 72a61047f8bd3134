"""The cells of an entity set on the device, and how its rows are cut into batches and pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.engines.gpu.source import DENSE, FILLED, LISTED, VALUE_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Block, Problem
    from gcmf.engines.gpu.device import Device, DeviceArray
    from gcmf.engines.order import Order

    Integers = NDArray[np.int64]

#: Bytes that the sums and the cells of a batch of rows may take, about.
BATCH = 1 << 30
#: The share of a device's free memory that cells may take; else they pass through it, batch by batch.
SHARE = 0.7
#: Pieces of rows that a relation is cut into, about: several for each of a few thousand warps.
PIECES = 1 << 14
#: Cells of a piece, at least and at most.
SHORTEST, LONGEST = 256, 8192
TASK = np.dtype([("slot", np.int32), ("first", np.int32), ("last", np.int32), ("out", np.int32)])


@dataclass(frozen=True)
class HeldCells:
    """The cells of one block: arrays of the device, and how many cells each row has to look at."""

    arrays: dict[str, DeviceArray]
    numbers: dict[str, float]
    n_visited: Integers
    starts: Integers
    """(d + 1,) where the cells of each row begin, on the host."""
    bytes_per_cell: int
    streamed: dict[str, NDArray[Any]]
    """Arrays that stay on the host, and pass through the device in parts, where all would exceed its memory."""

    @classmethod
    def of(cls, block: Block, device: Device, *, resident: bool = True) -> HeldCells:
        """Copy the cells of a block to the device; the matrix of a dense one is laid out by rows."""
        side, xp, layout = block.cells, device.xp, LISTED
        starts, n_visited, large = side.indptr, np.diff(side.indptr), {"value": side.value}
        arrays = {}
        if side.members is not None and side.covered is not None:
            layout, n_visited = FILLED, side.covered * len(side.members)
            arrays["members"] = xp.asarray(side.members)
            if side.stride:
                layout, starts = DENSE, _starts(side.covered, len(side.members))
                large["value"] = np.ascontiguousarray(side.matrix).ravel()
        if layout != DENSE:
            large["partner"] = side.partner
        if side.weight is not None:
            large["weight"] = side.weight
        arrays["indptr"] = xp.asarray(starts)
        if resident:
            arrays |= {name: xp.asarray(array) for name, array in large.items()}
        numbers = {"layout": layout, "value_type": VALUE_TYPES[side.value.dtype], "center": block.center,
                   "inverse_scale": 1.0 / block.scale}  # fmt: skip
        size = sum(array.itemsize for array in large.values())
        return cls(arrays, numbers, n_visited.astype(np.int64), starts, size, {} if resident else large)

    def span(self, rows: NDArray[np.int32]) -> slice:
        """Which of the cells belong to these rows, which lie one after the other."""
        if self.numbers["layout"] != DENSE:
            return slice(int(self.starts[rows[0]]), int(self.starts[rows[-1] + 1]))
        there = rows[self.n_visited[rows] > 0]
        if not len(there):
            return slice(0, 0)
        return slice(int(self.starts[there[0]]), int(self.starts[there[-1]] + self.n_visited[there[-1]]))

    def bytes_of_rows(self, rows: Integers) -> Integers:
        """Bytes that pass through the device for each row, where they do."""
        lengths = self.n_visited if self.numbers["layout"] == DENSE else np.diff(self.starts)
        return lengths[rows] * self.bytes_per_cell


def find_resident(problem: Problem, always: list[bool], budget: float) -> list[list[bool]]:
    """Which blocks of each set have their cells on the device: those of some sets always, others while they fit."""
    sizes = [[_bytes_of(block) for block in blocks] for blocks in problem.blocks]
    left = budget - sum(sum(of_set) for of_set, held in zip(sizes, always, strict=True) if held)
    resident = []
    for of_set, held in zip(sizes, always, strict=True):
        resident.append([held] * len(of_set))
        for b, size in enumerate(of_set):
            if not held and size <= left:
                resident[-1][b], left = True, left - size
    return resident


def _bytes_of(block: Block) -> int:
    arrays = block.cells.value, block.cells.partner, block.cells.weight
    return sum(array.nbytes for array in arrays if array is not None)


def _starts(covered: NDArray[np.bool_], width: int) -> Integers:
    """Where the values of each entity begin in a matrix that lies by rows."""
    starts = np.zeros(len(covered) + 1, np.int64)
    owners = np.flatnonzero(covered)
    starts[owners] = np.arange(len(owners)) * width
    return starts


class Pieces(NamedTuple):
    """The rows of a plan in one block, as tasks."""

    tasks: DeviceArray
    firsts: DeviceArray
    """(P + 1,) the first task of each row, by its position."""
    long_rows: DeviceArray
    """Of each row in several pieces: its slot, and the places of their sums."""


class Batch(NamedTuple):
    """Rows that are worked on together."""

    number: int
    at: int
    n: int
    tasks: list[tuple[int, int]]
    """Per block: the first task, and how many."""
    long_rows: list[tuple[int, int]]
    """Per block: the first of the rows in pieces, and how many."""


class Plan:
    """The rows of a set that have cells, in the order of their update, in batches; what depends on the data alone."""

    def __init__(self, held: list[HeldCells], present: Integers, device: Device, bytes_per_sum: int,
                 order: Order | None) -> None:  # fmt: skip
        rows, classes = present, np.array([0, len(present)])
        if order is not None:
            rows, classes = _ordered(present, order)
        n_cells = [cells.n_visited[rows] for cells in held]
        lengths = [_piece_length(int(n.sum())) for n in n_cells]
        counts = [np.maximum(-(-n // length), 1) for n, length in zip(n_cells, lengths, strict=True)]
        cost = bytes_per_sum * sum((1 + np.where(count > 1, count, 0) for count in counts), np.zeros(len(rows), int))
        # Also of cells that are on the device: how sums are added up must not depend on how large it is.
        cost += sum((cells.bytes_of_rows(rows) for cells in held), np.zeros(len(rows), int))
        edges = _batch_edges(np.cumsum(cost), classes)
        self.held, self.on_host = held, rows.astype(np.int32)
        self.rows = device.xp.asarray(rows.astype(np.int32))
        self.n_rows, self.largest = len(rows), int(np.diff(edges).max(initial=0))
        self.pieces, self.n_sums, tasks, long_rows = [], [], [], []
        for n, length, count in zip(n_cells, lengths, counts, strict=True):
            pieces, n_sums, of_batch, long_of_batch = _cut(n, length, count, edges)
            self.pieces.append(Pieces(*(device.xp.asarray(np.ascontiguousarray(a)) for a in pieces)))
            self.n_sums.append(n_sums)
            tasks.append(of_batch)
            long_rows.append(long_of_batch)
        self.batches = [
            Batch(r, int(edges[r]), int(edges[r + 1] - edges[r]), [of[r] for of in tasks], [of[r] for of in long_rows])
            for r in range(len(edges) - 1)
        ]
        self.most_tasks = max((n for batch in self.batches for _, n in batch.tasks), default=0)


def _ordered(present: Integers, order: Order) -> tuple[Integers, Integers]:
    """The present rows in an order, and where classes of rows that do not depend on each other begin."""
    there = np.zeros(len(order.rows), bool)
    there[present] = True
    kept = there[order.rows]
    rows = order.rows[kept]
    if not len(order.classes):
        return rows, np.arange(len(rows) + 1)
    return rows, np.concatenate([[0], np.cumsum(kept)])[order.classes]


def _piece_length(n_cells: int) -> int:
    """Cells of a piece: a power of two."""
    return int(np.clip(1 << int(np.ceil(np.log2(max(n_cells / PIECES, 1.0)))), SHORTEST, LONGEST))


def _batch_edges(cost: Integers, classes: Integers) -> Integers:
    """Where batches begin: at each class, and where the cost of a batch would be too large."""
    edges = [0]
    for end in classes[1:].tolist():
        while edges[-1] < end:
            start = edges[-1]
            paid = cost[start - 1] if start else 0
            edges.append(min(max(int(np.searchsorted(cost, paid + BATCH, side="right")), start + 1), end))
    return np.array(edges)


def _cut(
    n: Integers, length: int, count: Integers, edges: Integers
) -> tuple[tuple[Any, Any, Any], int, list[tuple[int, int]], list[tuple[int, int]]]:
    """Tasks of the rows in one block: pieces of `length`, each with a place for its sums; rows first, then pieces."""
    P, firsts = len(n), np.concatenate([[0], np.cumsum(count)])
    batch = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    slot, several = np.arange(P) - edges[batch], count > 1
    sizes = np.diff(edges)
    # Pieces of long rows are numbered within their batch, after its rows.
    before = np.concatenate([[0], np.cumsum(np.where(several, count, 0))])
    place = before[:-1] - before[edges[batch]] + sizes[batch]
    owner = np.repeat(np.arange(P), count)
    number = np.arange(firsts[-1]) - firsts[owner]
    tasks = np.empty(firsts[-1], TASK)
    tasks["slot"], tasks["first"] = slot[owner], number * length
    tasks["last"] = np.minimum((number + 1) * length, n[owner])
    tasks["out"] = np.where(several[owner], place[owner] + number, slot[owner])
    long = np.flatnonzero(several)
    rows = np.zeros(len(long), TASK)
    rows["slot"], rows["first"], rows["last"] = slot[long], place[long], place[long] + count[long]
    n_sums = int((sizes + np.diff(before[edges])).max(initial=0))
    at = np.searchsorted(long, edges)
    return (
        (tasks.view(np.int32).reshape(-1, 4), firsts, rows.view(np.int32).reshape(-1, 4)),
        n_sums,
        list(zip(firsts[edges[:-1]].tolist(), np.diff(firsts[edges]).tolist(), strict=True)),
        list(zip(at[:-1].tolist(), np.diff(at).tolist(), strict=True)),
    )
