"""Compile time, the tiny fit, and the memory of binary cells: gcmf alone, each in a process of its own."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import memory
from benchmarks.problem import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: (row set, column set) of the tiny fit: three relations in a circle.
CIRCLE = (("a", "b"), ("b", "c"), ("c", "a"))


def first_fit(job: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds from `import gcmf` to the end of a first small fit of Gaussian and binary, sparse and dense relations.

    The caller decides by NUMBA_CACHE_DIR whether compiled code is there to be found.
    """
    rng = np.random.default_rng(0)
    x, gaps = rng.normal(size=(40, 30)), rng.normal(size=(40, 20))
    gaps[rng.random(gaps.shape) < 0.2] = np.nan
    i, j = np.nonzero(rng.random((40, 35)) < 0.5)
    binary = (rng.random((30, 20)) < 0.5).astype(np.uint8)
    started = time.perf_counter()
    import gcmf  # noqa: PLC0415 - the import is part of what is timed

    data = gcmf.Collection([
        gcmf.Relation("dense", "a", "b", x),
        gcmf.Relation("gaps", "a", "c", gaps),
        gcmf.Relation("cells", "a", "d", (i, j, rng.normal(size=len(i)).astype(np.float32))),
        gcmf.Relation("binary", "b", "e", binary, "bernoulli"),
        gcmf.Relation("bits", "a", "f", (i, j, (rng.random(len(i)) < 0.5).astype(np.uint8)), "bernoulli"),
    ])  # fmt: skip
    seconds = []
    for _ in range(2):
        _fit(gcmf.GCMF(5, max_iter=60, random_state=0, progress=False, n_threads=job["threads"]), data)
        seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
    return {"first": seconds[0], "second": seconds[1]}


def tiny(job: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a fit of three 30 × 30 relations in a circle, from plain arrays, 20 times."""
    import gcmf  # noqa: PLC0415

    rng = np.random.default_rng(0)
    factors = {name: rng.normal(size=(30, 3)) for name in "abc"}
    arrays = {(r, c): factors[r] @ factors[c].T + rng.normal(size=(30, 30)) for r, c in CIRCLE}
    found = {}
    for n_factors in (5, 20):
        seconds = []
        for seed in range(job["repeats"] + 1):
            model = gcmf.GCMF(n_factors, random_state=seed, progress=False, n_threads=job["threads"])
            started = time.perf_counter()
            _fit(model, arrays)
            seconds.append(time.perf_counter() - started)
        found[str(n_factors)] = seconds[1:]  # the first loads the compiled code
    return {"seconds": found}


def binary_memory(job: Mapping[str, Any]) -> dict[str, Any]:
    """Peak bytes above the input arrays, of a collection and a fit of one binary relation given as triplets."""
    import gcmf  # noqa: PLC0415

    n, m, n_cells = job["shape"]
    rng = np.random.default_rng(0)
    _fit(gcmf.GCMF(8, max_iter=2, progress=False, n_threads=job["threads"]), _binary(rng, 200, 50, 2000))
    i, j, x = _cells(rng, n, m, n_cells)
    base = memory.start()
    data = gcmf.Collection([gcmf.Relation("bits", "row", "col", (i, j, x), "bernoulli")])
    collection = memory.peak()
    _fit(gcmf.GCMF(8, max_iter=3, progress=False, random_state=0, n_threads=job["threads"]), data)
    return {
        "n_cells": n_cells,
        "peak_bytes": memory.peak() - base,
        "collection_bytes": collection - base,
        "factor_bytes": 2 * 4 * (n + m) * 8,
    }


def _cells(rng: np.random.Generator, n: int, m: int, n_cells: int) -> tuple[NDArray[Any], ...]:
    i, j = np.divmod(distinct(rng, n * m, n_cells), m)
    return i.astype(np.int32), j.astype(np.int32), (rng.random(n_cells) < 0.5).astype(np.uint8)


def _binary(rng: np.random.Generator, n: int, m: int, n_cells: int) -> Any:  # noqa: ANN401
    import gcmf  # noqa: PLC0415

    return gcmf.Collection([gcmf.Relation("bits", "row", "col", _cells(rng, n, m, n_cells), "bernoulli")])


def _fit(model: Any, data: Any) -> None:  # noqa: ANN401
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations are meant
        model.fit(data)
