"""Our vector code against SciPy's BLAS and LAPACK: `python -m benchmarks.blas_or_tiles`.

Sums Σ u uᵀ over chunks of 64 gathered rows (float32, one thread): the register tiles of `engines/simd.py`, which read
the rows where they lie, against gathering and `ssyrk` or `sgemm`. Solves of K + 3 unknowns (float64): elimination as in
`engines/row_kernels.py` against `dposv`. Medians of repeats; all in compiled loops, in one process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.extending import get_cython_function_address
from threadpoolctl import threadpool_limits

from gcmf.engines.compiled import inlined, kernel
from gcmf.engines.records import CHUNK
from gcmf.engines.row_kernels import eliminate
from gcmf.engines.simd import LANES, add_products, call, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

FACTORS = 8, 24, 64
BIASES = 3
PARTNERS, CHUNKS, SOLVES, REPEATS = 2000, 2000, 2000, 15
LETTERS = np.frombuffer(b"LNT", np.uint8).copy()


@kernel
def by_tiles(pairs, places, sums):  # noqa: ANN001, ANN201
    """As `cell_kernels.visit_cells` sums up cells of weight one."""
    width = sums.shape[1]
    for chunk in range(len(places)):
        for k in range(0, width, LANES):
            add_products(sums, k, width, pairs, places[chunk], pairs, places[chunk], CHUNK)


@kernel
def by_blas(pairs, places, sums, gathered, syrk, gemm, letters, integers, numbers):  # noqa: ANN001, ANN201
    """Gather a chunk, then one call; of `syrk` or `gemm` one is zero. Matrices are transposed to Fortran."""
    width, at = sums.shape[1], place_of(gathered)
    lower, plain, turned = place_of(letters), place_of(letters[1:]), place_of(letters[2:])
    n, cells, one, out = place_of(integers), place_of(integers[1:]), place_of(numbers), place_of(sums)
    for chunk in range(len(places)):
        for c in range(CHUNK):
            j = places[chunk, c]
            for k in range(width):
                gathered[c, k] = pairs[j, k]
        if syrk != 0:
            call(syrk, (lower, plain, n, cells, one, at, n, one, out, n))
        if gemm != 0:
            call(gemm, (plain, turned, n, n, cells, one, at, n, at, n, one, out, n))


@inlined
def _copy(source, target):  # noqa: ANN001, ANN202
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@kernel
def solve_ours(systems, A, n):  # noqa: ANN001, ANN201
    """Copy a system and solve it."""
    for s in range(len(systems)):
        _copy(systems[s], A)
        eliminate(A, n)


@kernel
def solve_lapack(systems, A, b, n, posv, letters, integers):  # noqa: ANN001, ANN201
    """Copy a system and solve it; integers: n, its leading dimension, one right side, and a place for the answer."""
    lower, places = place_of(letters), integers
    for s in range(len(systems)):
        _copy(systems[s], A)
        for k in range(n):
            b[k] = A[k, A.shape[1] - 1]
        call(
            posv,
            (lower, place_of(places), place_of(places[2:]), place_of(A), place_of(places[1:]), place_of(b),
             place_of(places), place_of(places[3:])),
        )  # fmt: skip


def nanoseconds(n: int, function: Callable[..., Any], *args: Any) -> float:  # noqa: ANN401
    """Median of repeats, for one of n."""
    function(*args)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        function(*args)
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / n


def time_sums(K: int, rng: np.random.Generator) -> list[float]:
    """Nanoseconds per cell by tiles, ssyrk and sgemm."""
    syrk, gemm = (get_cython_function_address("scipy.linalg.cython_blas", name) for name in ("ssyrk", "sgemm"))
    pairs = rng.normal(size=(PARTNERS, 2 * K)).astype(np.float32)
    places = rng.integers(PARTNERS, size=(CHUNKS, CHUNK)).astype(np.uint64)
    sums, gathered = np.zeros((K, K), np.float32), np.zeros((CHUNK, K), np.float32)
    constants = LETTERS, np.array([K, CHUNK], np.int32), np.ones(1, np.float32)
    cells = CHUNKS * CHUNK
    return [
        nanoseconds(cells, by_tiles, pairs, places, sums),
        nanoseconds(cells, by_blas, pairs, places, sums, gathered, syrk, 0, *constants),
        nanoseconds(cells, by_blas, pairs, places, sums, gathered, 0, gemm, *constants),
    ]


def time_solves(n: int, rng: np.random.Generator) -> list[float]:
    """Nanoseconds per solve of n unknowns, ours and dposv."""
    posv = get_cython_function_address("scipy.linalg.cython_lapack", "dposv")
    width = (n // LANES + 1) * LANES
    systems, half = np.zeros((SOLVES, n + 2, width)), rng.normal(size=(n, 2 * n))
    systems[:, :n, :n], systems[:, :n, -1] = half @ half.T, rng.normal(size=(SOLVES, n))
    A, b, sizes = np.zeros((n + 2, width)), np.zeros(n), np.array([n, width, 1, 0], np.int32)
    ours = nanoseconds(SOLVES, solve_ours, systems, A, n)
    solution = A[n, :n].copy()
    lapack = nanoseconds(SOLVES, solve_lapack, systems, A, b, n, posv, LETTERS, sizes)
    np.testing.assert_allclose(solution, b, rtol=1e-8, atol=1e-8)
    return [ours, lapack]


def main() -> None:
    """Print one line per number of factors."""
    rng = np.random.default_rng(0)
    print("            ns per cell             ns per solve of K + 3")
    print("  K      tiles    ssyrk    sgemm         ours    dposv")
    for K in FACTORS:
        tiles, syrk, gemm = time_sums(K, rng)
        ours, lapack = time_solves(K + BIASES, rng)
        print(f"{K:3d}   {tiles:8.2f} {syrk:8.2f} {gemm:8.2f}     {ours:8.0f} {lapack:8.0f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
