"""Which engine runs a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gcmf.engines.reference import ReferenceEngine
from gcmf.options import check_choice

if TYPE_CHECKING:
    from gcmf.engines.base import Engine, Problem


class EngineMaker(Protocol):
    """Makes the engine of a device for the data of a fit."""

    def __call__(self, problem: Problem, *, dtype: str, n_threads: int) -> Engine:
        """Return an engine that works in this precision, with so many threads at most."""


def engine_maker(device: str) -> EngineMaker:
    """Return what makes the engine of a device; raise OptionError where there is no such device."""
    check_choice("device", device, tuple(ENGINES))
    return ENGINES[device]


def _compiled(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    # Importing Numba takes longer than all the rest of the package.
    from gcmf.engines.cpu import CpuEngine  # noqa: PLC0415

    return CpuEngine(problem, dtype=dtype, n_threads=n_threads)


def _reference(problem: Problem, *, dtype: str, n_threads: int) -> Engine:
    del dtype, n_threads
    return ReferenceEngine(problem)


#: What `device` may be, and what makes its engine; the one place where devices are known by name.
ENGINES: dict[str, EngineMaker] = {"auto": _compiled, "cpu": _compiled, "reference": _reference}
