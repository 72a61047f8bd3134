"""Which engine runs a fit."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from gcmf.engines.reference import ReferenceEngine
from gcmf.options import check_choice

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gcmf.engines.base import Engine, Problem


class EngineMaker(Protocol):
    """Makes the engine of a device for the data of a fit."""

    def __call__(self, problem: Problem, *, dtype: str, n_threads: int) -> Engine:
        """Return an engine that works in this precision, with so many threads at most."""


def engine_maker(device: str) -> EngineMaker:
    """Return what makes the engine of a device; raise OptionError where there is no such device."""
    check_choice("device", device, tuple(ENGINES))
    return ENGINES[device]


def engine_maker_nearby(device: str) -> EngineMaker:
    """Return what makes the engine of a few rows, in this process: those of a cluster would be long under way."""
    return _compiled if device == "dask" else engine_maker(device)


def connected(device: str, *, n_threads: int) -> AbstractContextManager[None]:
    """Have what the engines of a device need for as long as a fit runs: of "dask", workers."""
    if device != "dask":
        return nullcontext()
    from gcmf.engines.cluster import client  # noqa: PLC0415 - Dask is an extra

    return client.connected(n_threads)


def _compiled(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    # Importing Numba takes longer than all the rest of the package.
    from gcmf.engines.cpu import CpuEngine  # noqa: PLC0415

    return CpuEngine(problem, dtype=dtype, n_threads=n_threads)


def _reference(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    del dtype, n_threads
    return ReferenceEngine(problem)


def _gpu(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    # CuPy is an extra, and takes a second to import.
    from gcmf.engines.gpu.engine import GpuEngine  # noqa: PLC0415

    del n_threads
    return GpuEngine(problem, dtype=dtype)


def _cluster(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    # Numba, as above.
    from gcmf.engines.cluster.engine import ClusterEngine  # noqa: PLC0415

    del n_threads  # workers have their own
    return ClusterEngine(problem, dtype=dtype)


def _auto(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    """A GPU where there is one and the problem gains by it, else the compiled engine."""
    # Where CuPy is not installed, nothing else has to be looked at.
    if find_spec("cupy") is not None and _gains_by_gpu(problem):
        from gcmf.engines.gpu.device import find_device  # noqa: PLC0415

        if find_device() is not None:
            return _gpu(problem, dtype=dtype, n_threads=n_threads)
    return _compiled(problem, dtype=dtype, n_threads=n_threads)


def _gains_by_gpu(problem: Problem) -> bool:
    """Whether a sweep has so many cells that the waits of a GPU do not count, and no rows that wait for each other."""
    from gcmf.engines.gpu.source import KINDS  # noqa: PLC0415 - what few fits need

    sides = [(e, block) for e, blocks in enumerate(problem.blocks) for block in blocks if block.side == 0]
    n_cells = sum(int(block.cells.counts().sum()) for _, block in sides)
    known = all(block.likelihood.least_squares or block.likelihood.cell in KINDS for _, block in sides)
    alone = not any(block.other == e for e, block in sides)
    return n_cells >= MANY_CELLS and known and alone


#: Cells from which on a GPU is taken where there is one. Its sweeps take about 4 ms however few cells there are, in
#: which 16 cores go over 300,000: MovieLens 1M took 0.10 s in place of 0.32 s. But compiling for a new number of
#: factors takes seconds when it is done for the first time on a machine.
MANY_CELLS = 1_000_000
#: What `device` may be, and what makes its engine; the one place where devices are known by name.
ENGINES: dict[str, EngineMaker] = {
    "auto": _auto, "cpu": _compiled, "gpu": _gpu, "dask": _cluster, "reference": _reference,
}  # fmt: skip
