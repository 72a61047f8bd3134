"""Time per iteration against the number of cells, of factors and of threads; and the largest fit of this machine."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import memory
from benchmarks.problem import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Cells per row and rows per column: the shape grows with the cells, so that every row keeps its length.
CELLS_PER_ROW, ROWS_PER_COLUMN = 100, 4
SWEEPS = 8


def plan(*, threads: int, quick: bool) -> Iterator[dict[str, Any]]:
    """What is measured: cells, factors and threads of each fit."""
    cells = (10_000, 100_000) if quick else (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 20_000_000)
    middle = 20_000 if quick else 2_000_000
    for n in cells:
        yield {"series": "cells", "cells": n, "factors": 20, "threads": threads}
    for k in (8, 16, 32, 64):
        yield {"series": "factors", "cells": middle, "factors": k, "threads": threads}
    for n_threads in sorted({1, threads}):
        yield {"series": "threads", "cells": middle, "factors": 20, "threads": n_threads}
    yield {"series": "largest", "cells": cells[-1], "factors": 32, "threads": threads}


def one(job: Mapping[str, Any]) -> dict[str, Any]:
    """Median seconds of a sweep with all factors alive, and peak memory above the input arrays."""
    import gcmf  # noqa: PLC0415

    _sweeps(_collection(2_000, seed=1), job, n_sweeps=3)  # loads the compiled code
    arrays = _cells(job["cells"], seed=0)
    base = memory.start()
    started = time.perf_counter()
    data = gcmf.Collection([gcmf.Relation("x", "row", "col", arrays)])
    prepare_seconds = time.perf_counter() - started
    marks = _sweeps(data, job, n_sweeps=SWEEPS)
    return {
        **{key: job[key] for key in ("series", "cells", "factors", "threads")},
        "entities": sum(entity.size for entity in data.entities.values()),
        # The first sweep also pays for memory that is touched for the first time.
        "sweep_seconds": float(np.median(np.diff(marks))),
        "prepare_seconds": prepare_seconds,
        "peak_bytes": memory.peak() - base,
    }


def _sweeps(data: Any, job: Mapping[str, Any], *, n_sweeps: int) -> list[float]:  # noqa: ANN401
    import gcmf  # noqa: PLC0415

    marks: list[float] = []
    model = gcmf.GCMF(job["factors"], max_iter=n_sweeps, tol=0.0, random_state=0, progress=False,
                      n_threads=job["threads"], callbacks=[lambda _: marks.append(time.perf_counter())])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few sweeps are meant
        model.fit(data)
    return marks


def _cells(n_cells: int, *, seed: int) -> tuple[Any, Any, Any]:
    """Rank 10, noise 0.5, 100 cells a row."""
    rng = np.random.default_rng(seed)
    n = n_cells // CELLS_PER_ROW
    m = n // ROWS_PER_COLUMN
    i, j = (index.astype(np.int32) for index in np.divmod(distinct(rng, n * m, min(n_cells, n * m // 2)), m))
    u, v = rng.normal(size=(n, 10)).astype(np.float32), rng.normal(size=(m, 10)).astype(np.float32) / np.sqrt(10)
    x = 0.5 * rng.normal(size=len(i)).astype(np.float32)
    for k in range(10):
        x += u[i, k] * v[j, k].astype(np.float32)
    return i, j, x


def _collection(n_cells: int, *, seed: int) -> Any:  # noqa: ANN401
    import gcmf  # noqa: PLC0415

    return gcmf.Collection([gcmf.Relation("x", "row", "col", _cells(n_cells, seed=seed))])


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """p of seconds ∝ sizeᵖ, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def work(cells: int, factors: int) -> dict[str, float]:
    """What a sweep must at least do, by the method of docs/engine.md, in operations and in bytes.

    From either side a cell adds w ū ūᵀ (one half of it, K(K + 1) operations), w t ū and w ũ to its row (4K), and
    one side measures it (6K). It reads a partner's index and value, 8 bytes, three times; with the partner's
    means and variances, 8K bytes, if no cache holds them.
    """
    k = factors
    flops = cells * (2 * (k * (k + 1) + 4 * k) + 6 * k)
    return {"flops": flops, "cell_bytes": 3.0 * 8 * cells, "gathered_bytes": 3.0 * (8 + 8 * k) * cells}
