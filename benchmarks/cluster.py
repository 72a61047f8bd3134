"""A sweep over a cluster beside one on this machine: `python benchmarks/cluster.py [CELLS ...] [--workers 1,2,4]`.

Ratings of users and 20,000 items, 32 factors, in float32. For each number of cells, the compiled engine with one
thread; then worker processes of one thread each, which are started anew. Prints for each, per sweep over both sets:
seconds by the clock (the quickest, and the median), seconds of the processor that whoever drives the fit and all
workers took, bytes that passed between processes (by the counters of the loopback device, which others may use too)
beside the formula of docs/cluster.md; and the peak memory of a worker, mapped files apart, beside that of a worker with
next to no cells. The factors must be those of the compiled engine. `--by-scheduler`: nothing passes directly from here
to workers, as where they cannot be reached. Linux only.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from distributed import Client, LocalCluster

import gcmf
from gcmf.engines.cluster.engine import ClusterEngine
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.threads import single_threaded_blas
from gcmf.methods.run import Run
from gcmf.model.spec import build
from gcmf.options import FitOptions

ITEMS, PER_USER, K = 20_000, 100, 32
WARM, SWEEPS = 2, 5


class Memory(NamedTuple):
    """Bytes of a process: at its peak in all, and now without and within mapped files."""

    peak: int
    anonymous: int
    mapped: int


def ratings(n_cells: int) -> gcmf.Collection:
    """Cells of distinct pairs, with a factor in them."""
    rng, n_users = np.random.default_rng(0), max(n_cells // PER_USER, 100)
    i = np.repeat(np.arange(n_users), PER_USER)
    start, stride = rng.integers(ITEMS, size=(n_users, 1)), rng.integers(1, ITEMS // PER_USER, size=(n_users, 1))
    j = ((start + stride * np.arange(PER_USER)) % ITEMS).ravel()
    x = (rng.normal(size=n_users)[i] * rng.normal(size=ITEMS)[j] + rng.normal(size=len(i))).astype(np.float32)
    return gcmf.Collection([gcmf.Relation("x", "user", "item", (i, j, x))])


def begun(data: gcmf.Collection, cluster: bool) -> Run:  # noqa: FBT001 - of two engines
    """A run before its first sweep."""
    spec, problem = build(data, FitOptions(n_factors=K))
    engine = ClusterEngine(problem, dtype="float32") if cluster else CpuEngine(problem, dtype="float32", n_threads=1)
    run = Run(spec, engine)
    run.begin(np.ones((2, K), bool), dtype="float32", rng=np.random.default_rng(0))
    return run


def alone(data: gcmf.Collection) -> tuple[str, np.ndarray]:
    """The compiled engine."""
    run = begun(data, cluster=False)
    clock, processor = [], []
    for _ in range(WARM + SWEEPS):
        before = time.perf_counter(), time.process_time()
        run.sweep()
        clock.append(time.perf_counter() - before[0])
        processor.append(time.process_time() - before[1])
    line = (
        f"cpu: {min(clock[WARM:]):.3f} s by the clock (median {median(clock[WARM:]):.3f}),"
        f" {median(processor[WARM:]):.3f} s of the processor"
    )
    return line, run.engine.fetch().mean[0]


def on_workers(data: gcmf.Collection, n_workers: int, *, direct: bool) -> tuple[str, np.ndarray]:
    """The cluster engine on so many processes."""
    started = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with (
        LocalCluster(**started, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster, direct_to_workers=direct) as client,
    ):
        tiny = begun(ratings(PER_USER * 100), cluster=True)
        tiny.sweep()
        tiny.sweep()
        idle = max(memory.anonymous + memory.mapped for memory in client.run(memory_of_process).values())
        nothing = [timed(tiny, client)[0] for _ in range(SWEEPS)]
        del tiny
        run = begun(data, cluster=True)
        for _ in range(WARM):
            run.sweep()
        sweeps = [timed(run, client) for _ in range(SWEEPS)]
        memory = max(client.run(memory_of_process).values())
        mean = run.engine.fetch().mean[0]
        sizes = [len(array) for array in run.engine.fetch().mean]
        del run
    clock, driver, workers, passed = np.median(sweeps, axis=0)
    # Told: both sets before the sweeps, and the first again between them; all fetch what they lack; and the answers.
    first, second = (2 * n * (K + 1) * 4 for n in sizes)
    told, fetched = 2 * first + second, (n_workers - 1) * (first + second + first / n_workers)
    formula = fetched + (told + first + second) * (1 if direct else 2)
    line = (
        f"{n_workers} workers: {min(sweeps)[0]:.3f} s by the clock (median {clock:.3f}; {min(nothing):.3f} s with next"
        f" to no cells), of the"
        f" processor {driver:.3f} s here and {workers:.3f} s there; {passed / 1e6:.1f} MB passed, by the formula"
        f" {formula / 1e6:.1f}; a worker's peak {memory.peak / 1e6:.0f} MB, now {memory.anonymous / 1e6:.0f} MB and"
        f" {memory.mapped / 1e6:.0f} MB mapped, {idle / 1e6:.0f} MB with next to no cells"
    )
    return line, mean


def timed(run: Run, client: Client) -> tuple[float, float, float, float]:
    """A sweep: seconds by the clock, of this processor, of all workers', and bytes that passed."""
    there = sum(client.run(time.process_time).values())
    before = time.perf_counter(), time.process_time(), bytes_passed()
    run.sweep()
    clock, here, passed = time.perf_counter() - before[0], time.process_time() - before[1], bytes_passed() - before[2]
    return clock, here, sum(client.run(time.process_time).values()) - there, passed


def bytes_passed() -> int:
    """Bytes that the loopback device has received."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def memory_of_process() -> Memory:
    """Of the process that calls it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    return Memory(sizes["VmHWM"], sizes["RssAnon"], sizes["RssFile"])


def main() -> None:
    """Every number of cells, alone and by workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", type=float, default=[2e6, 8e6, 2e7])
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--by-scheduler", action="store_true")
    options = parser.parse_args()
    for n_cells in map(int, options.cells):
        data = ratings(n_cells)
        sides = sum(a.nbytes for r in data.relations.values() for s in (r.cells.rows, r.cells.cols)
                    for a in (s.indptr, s.partner, s.value))  # fmt: skip
        sizes = [entities.size for entities in data.entities.values()]
        parameters = 2 * sum(sizes) * (K + 1) * 4
        print(f"{data.n_cells:,} cells of {sizes} entities, K = {K}: cells {sides / 1e6:.0f} MB, parameters"
              f" {parameters / 1e6:.1f} MB", flush=True)  # fmt: skip
        with single_threaded_blas(), np.errstate(all="ignore"):
            line, mean = alone(data)
            print(f"  {line}", flush=True)
            for n_workers in map(int, options.workers.split(",")):
                line, same = on_workers(data, n_workers, direct=not options.by_scheduler)
                print(f"  {line}; largest difference of a factor {np.abs(same - mean).max():.1e}", flush=True)


if __name__ == "__main__":
    main()
