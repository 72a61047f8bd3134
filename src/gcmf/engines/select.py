"""Which engine runs a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.engines.reference import ReferenceEngine

if TYPE_CHECKING:
    from gcmf.engines.base import Engine, Problem


def make_engine(problem: Problem, *, device: str, dtype: str, n_threads: int) -> Engine:
    """The engine for a device: "auto" and "cpu" compile, "reference" is NumPy."""
    if device == "reference":
        return ReferenceEngine(problem)
    # Importing Numba takes longer than all the rest of the package.
    from gcmf.engines.cpu import CpuEngine  # noqa: PLC0415

    return CpuEngine(problem, dtype=dtype, n_threads=n_threads)
