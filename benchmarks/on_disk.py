"""Cells in files beside cells in memory: `python benchmarks/on_disk.py [CELLS]`.

Writes (user, item, rating) in random order to a Parquet file, and in a process of its own makes a folder of it
(`Collection.from_parquet`). Another process sweeps over the cells of the folder, with one thread: with its files in the
system's cache, without (they are forgotten before the sweep, and read from the disk), and then by turns over files in
the cache and over copies in memory. Prints seconds, whether the factors are the same to the bit, and peaks of memory:
all that is resident, mapped files too, and without these. On a machine that others use, compare the processor's
seconds. Wanted at 2·10^8: at most 4 GB resident, and at least half the rate. Linux only (/proc). Needs 50 bytes of disk
per cell in the folder that TMPDIR names.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import gcmf
from gcmf.data.files import mapping_of
from gcmf.engines.cpu import CpuEngine
from gcmf.methods.run import Run
from gcmf.model.spec import build
from gcmf.options import FitOptions

CELLS = 200_000_000
USERS, ITEMS = 500_000, 20_000
BATCH = 1_000_000
FACTORS, TURNS = 32, 3
KEY = ("user", "item")


def main(cells: int) -> None:
    """Print a line for each process, and the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "cells.parquet", cells)
        print(f"{cells:,} cells, {USERS:,} users, {ITEMS:,} items, {FACTORS} factors", flush=True)
        for what in ("sort", "sweep"):
            command = [sys.executable, __file__, "--do", what, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(done.stdout.strip(), flush=True)


def write(path: Path, cells: int) -> None:
    """Distinct pairs, users in no order, a batch at a time; the ratings have a factor in them."""
    rng = np.random.default_rng(0)
    step = USERS * ITEMS // cells
    a, b = rng.normal(size=USERS), rng.normal(size=ITEMS)
    schema = pa.schema([("user", pa.int32()), ("item", pa.int32()), ("rating", pa.float32())])
    n_batches = -(-cells // BATCH)
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in range(n_batches):
            # Every n-th number: each batch has cells of all users.
            number = rng.permutation(np.arange(batch, cells, n_batches)) * step
            number += rng.integers(step, size=len(number))
            user, item = np.divmod(number, ITEMS)
            rating = (a[user] * b[item] + rng.normal(size=len(number))).astype(np.float32)
            columns = [user.astype(np.int32), item.astype(np.int32), rating]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))


class Peak(threading.Thread):
    """The most memory that this process has had, looked at every 20 ms: all of it, and what is no mapped file."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.all = self.anonymous = 0
        self.start()

    def run(self) -> None:
        """Look, until the process ends."""
        while True:
            lines = Path("/proc/self/status").read_text().splitlines()
            sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
            self.all, self.anonymous = max(self.all, sizes["VmRSS"]), max(self.anonymous, sizes["RssAnon"])
            time.sleep(0.02)

    def __str__(self) -> str:
        return f"peak {self.all / 1e9:.2f} GB resident, {self.anonymous / 1e9:.2f} GB of it not mapped files"


def sort(folder: Path) -> gcmf.Collection:
    """The collection of the folder, which is made if it is not there."""
    return gcmf.Collection.from_parquet({KEY: folder / "cells.parquet"}, folder=folder / "cells")


def sweep(folder: Path, peak: Peak) -> None:
    """Sweep from files alone, also when they have been forgotten; then by turns from files and from memory."""
    started, data = time.perf_counter(), sort(folder)
    print(f"opened again in {time.perf_counter() - started:.1f} s")
    runs = {"disk": begun(data)}
    for _ in range(2):
        runs["disk"].sweep()
    print(f"sweeps from disk alone: {peak}", flush=True)
    forget(data, folder / "cells")
    before = bytes_read()
    clock, processor = timed(runs["disk"])
    read = (bytes_read() - before) / 1e9
    print(f"files not in the cache: {clock:.2f} s a sweep, {processor:.2f} s of the processor, {read:.2f} GB read")
    runs["memory"] = begun(copied(sort(folder)))
    for _ in range(3):
        runs["memory"].sweep()
    seconds: dict[str, list[tuple[float, float]]] = {"disk": [], "memory": []}
    for turn in range(TURNS):
        for what in list(runs) if turn % 2 else list(runs)[::-1]:
            seconds[what].append(timed(runs[what]))
    medians = {what: np.median(taken, axis=0) for what, taken in seconds.items()}
    for what, (clock, processor) in medians.items():
        print(f"{what}: {clock:.2f} s a sweep (median of {TURNS}), {processor:.2f} s of the processor")
    rate = medians["memory"][1] / medians["disk"][1]
    same = np.array_equal(*(run.engine.fetch().mean[0] for run in runs.values()))
    print(f"rate from disk: {rate:.2f} of that from memory; the same bits: {same}")


def timed(run: Run) -> tuple[float, float]:
    """Seconds of a sweep, by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    run.sweep()
    return time.perf_counter() - clock, time.process_time() - processor


def bytes_read() -> int:
    """What this process has had from the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def forget(data: gcmf.Collection, folder: Path) -> None:
    """Drop the files of a folder from the system's cache: first from this process, whose pages are not dropped else."""
    sides = [side for bound in data.relations.values() for side in (bound.cells.rows, bound.cells.cols)]
    for array in [array for side in sides for array in (side.indptr, side.partner, side.value)]:
        mapped = mapping_of(array)
        assert mapped is not None
        mapped.madvise(mmap.MADV_DONTNEED)
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def begun(data: gcmf.Collection) -> Run:
    """A run that is ready to sweep."""
    spec, problem = build(data, FitOptions(n_factors=FACTORS))
    run = Run(spec, CpuEngine(problem, dtype="float32", n_threads=1))
    run.begin(np.ones((2, FACTORS), bool), dtype="float32", rng=np.random.default_rng(0))
    return run


def copied(data: gcmf.Collection) -> gcmf.Collection:
    """The same collection with its cells in memory."""
    cells = {}
    for name, bound in data.relations.items():
        sides = [replace(side, indptr=side.indptr.copy(), partner=side.partner.copy(), value=side.value.copy())
                 for side in (bound.cells.rows, bound.cells.cols)]  # fmt: skip
        cells[name] = replace(bound.cells, rows=sides[0], cols=sides[1])
    return data.with_cells(cells)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--do"]:
        main(int(float(sys.argv[1])) if len(sys.argv) > 1 else CELLS)
    elif sys.argv[2] == "sweep":
        sweep(Path(sys.argv[3]), Peak())
    else:
        highest, started = Peak(), time.perf_counter()
        sort(Path(sys.argv[3]))
        print(f"sorted in {time.perf_counter() - started:.0f} s, {highest}")
