"""What this machine is, and its own floating-point and memory peaks, by which kernels are judged."""

from __future__ import annotations

import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PACKAGES = ("gcmf", "numpy", "scipy", "numba", "cmfrec", "mofapy2", "myfm", "smurff", "implicit")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system, versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": cores,
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "load": os.getloadavg()[0],
    }


def version(package: str) -> str | None:
    """Version of an installed package, None if it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def peaks(job: Mapping[str, Any]) -> dict[str, Any]:
    """GFLOP/s of a float32 matrix product and GB/s of a triad, on one thread and on all."""
    found: dict[str, Any] = {}
    for n in sorted({1, job["threads"]}):
        found[str(n)] = {"gflops": _gflops(n, job["size"]), "gb_per_second": _bandwidth(n, job["size"])}
    return {"peaks": found}


def _gflops(n_threads: int, size: int) -> float:
    """2n³ operations of an n × n product in single precision."""
    a, b = (np.random.default_rng(seed).random((size, size), dtype=np.float32) for seed in (0, 1))
    with threadpool_limits(limits=n_threads):
        return 2.0 * size**3 / _best(lambda: a @ b) / 1e9


def _bandwidth(n_threads: int, size: int) -> float:
    """a = b + s·c in float32 reads two numbers and writes one: 12 bytes an element."""
    from numba import njit  # noqa: PLC0415 - only here

    @njit(nogil=True, fastmath=True)
    def triad(a: Any, b: Any, c: Any, s: Any) -> None:  # noqa: ANN401
        for n in range(a.size):
            a[n] = b[n] + s * c[n]

    length = size * size * 8  # far larger than any cache
    a, b, c = (np.ones(length, np.float32) for _ in range(3))
    edges = np.linspace(0, length, n_threads + 1).astype(int)
    parts = [slice(lo, hi) for lo, hi in pairwise(edges)]
    triad(a[:10], b[:10], c[:10], np.float32(2.0))
    with ThreadPoolExecutor(n_threads) as pool:
        seconds = _best(lambda: list(pool.map(lambda p: triad(a[p], b[p], c[p], np.float32(2.0)), parts)))
    return 12.0 * length / seconds / 1e9


def _best(work: Callable[[], object], *, repeats: int = 7) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
