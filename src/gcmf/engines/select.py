"""Which engine runs a fit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gcmf.engines.reference import ReferenceEngine

if TYPE_CHECKING:
    from gcmf.engines.base import Engine, Problem


def make_engine(problem: Problem, *, device: str, dtype: str, n_threads: int) -> Engine:
    """The engine for a device: "auto" and "cpu" compile, "reference" is NumPy."""
    if device == "reference":
        return ReferenceEngine(problem)
    # Importing Numba takes longer than all the rest of the package: only who fits pays for it.
    from gcmf.engines.cpu import CpuEngine  # noqa: PLC0415

    return CpuEngine(problem, dtype=dtype, n_threads=n_threads)


def available_threads() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
