"""What a fit will take, read off sizes alone: bytes, and about how long a sweep is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.files import mapping_of
from gcmf.likelihoods import resolve
from gcmf.model.spec import total_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.bound import BoundRelation
    from gcmf.data.collection import Collection
    from gcmf.options import FitOptions

#: States of a run at once, at most: the present one, the last good one, one before a trial, and what is fetched.
STATES = 4
#: Lanes to which the number of factors is padded.
LANES = 8
#: Nanoseconds of a thread for a Gaussian cell, seen from one side: a + c K². The tiles of docs/engine.md take a third
#: of that, and a sweep of MovieLens 1M there 29 ns, with K = 20. Other cells take about twice as long.
PER_CELL, PER_PAIR = 9.0, 0.05


@dataclass(frozen=True)
class Estimate:
    """Bytes of memory, and seconds."""

    parameters: float
    """What entities and factors take, in the states that a run holds at once."""
    cells: float
    """Cells that are in memory, in the collection and once more where the engine needs them in another form."""
    on_disk: float
    """Cells that are in files."""
    sweep: float
    """Seconds of a sweep, about, and for all factors: as they are switched off, sweeps become quicker."""

    @property
    def memory(self) -> float:
        """Bytes of memory in all."""
        return self.parameters + self.cells


def estimate(data: Collection, options: FitOptions, *, n_threads: int) -> Estimate:
    """Return what a fit of these data will take, before anything is computed."""
    K, itemsize = options.n_start, np.dtype(options.dtype).itemsize
    width = -(-K // LANES) * LANES
    n = sum(entities.size for entities in data.entities.values())
    relations = list(data.relations.values())
    per_row = STATES * 2 * K * itemsize + 2 * width * itemsize + 8 * (2 * len(relations) + 1)
    held = on_disk = visits = 0.0
    for relation in relations:
        for array in _arrays(relation):
            if mapping_of(array) is None:
                held += array.nbytes
            else:
                on_disk += array.nbytes
        least_squares = resolve(relation.likelihood).least_squares
        if relation.cells.dense and least_squares:
            held += (itemsize + 1) * relation.cells.rows.value.size
        listed = relation.cells.filled and least_squares
        visits += 2 * (len(relation.cells.rows.value) if listed else relation.n_cells) * (1 if least_squares else 2)
    nanoseconds = visits * (PER_CELL + PER_PAIR * K**2) + n * K**3 / 18  # and the solves
    return Estimate(n * per_row, held, on_disk, nanoseconds * 1e-9 / n_threads)


def available_memory() -> float:
    """Bytes of memory that can be had now without swapping; all there are where the system does not say."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return total_memory()


def advice(needed: Estimate, data: Collection, options: FitOptions, *, available: float) -> list[str]:
    """Return what to change for a fit to need less than is available, what helps most first; nothing if it fits.

    Cells that are in memory already are no longer to be had room for.
    """
    if needed.parameters <= available:
        return []
    ways = []
    most = int(options.n_start * available / needed.parameters)
    if most >= 1:
        ways.append(f"n_factors of at most {most:,}")
    if options.dtype == "float64":
        ways.append('dtype = "float32", which halves them')
    if needed.cells > 0.2 * needed.memory:
        ways.append(f"--on-disk FOLDER, which frees {needed.cells / 1e9:,.1f} GB")
    largest = max(data.entities.values(), key=lambda entities: entities.size)
    ways.append(f"fewer entities, of which {largest.name!r} has {largest.size:,}")
    return ways


def _arrays(relation: BoundRelation) -> list[NDArray[Any]]:
    """The arrays of a relation's cells; a matrix that both sides read once."""
    found = {}
    for side in (relation.cells.rows, relation.cells.cols):
        for array in (side.indptr, side.partner, side.value, side.weight):
            if array is not None:
                found[array.ctypes.data, array.nbytes] = array
    return list(found.values())
