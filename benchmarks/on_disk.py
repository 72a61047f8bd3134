"""Cells in files beside cells in memory: `python benchmarks/on_disk.py [CELLS]`.

Writes (user, item, rating) in random order to a Parquet file, makes a folder of it (`Collection.from_parquet`), and
fits it twice, each time in a process of its own: from the folder, whose files the system has in its cache by then, and
from copies of its arrays in memory. Prints seconds, the peak of memory (all that is resident, mapped files too, and
without these). Wanted at 2·10^8: at most 4 GB resident, and a sweep from the folder takes at most twice the time.
Linux only (/proc). Needs 40 bytes of disk per cell in the folder that TMPDIR names.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import gcmf

CELLS = 200_000_000
USERS, ITEMS = 500_000, 20_000
BATCH = 1_000_000
FACTORS, SWEEPS = 32, 5
KEY = ("user", "item")


def main(cells: int) -> None:
    """Print a line for each process, and the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "cells.parquet", cells)
        print(f"{cells:,} cells, {USERS:,} users, {ITEMS:,} items, {FACTORS} factors", flush=True)
        for what in ("sort", "disk", "memory", "disk", "memory"):
            command = [sys.executable, __file__, "--do", what, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{what:7}{done.stdout.strip()}", flush=True)


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


def do(what: str, folder: Path) -> None:
    """Make the folder, or fit from it or from memory."""
    peak, started = Peak(), time.perf_counter()
    data = gcmf.Collection.from_parquet({KEY: folder / "cells.parquet"}, folder=folder / "cells")
    if what == "sort":
        print(f"{time.perf_counter() - started:.0f} s, {peak}")
        return
    if what == "memory":
        data = copied(data)
    moments: list[float] = []
    model = gcmf.GCMF(FACTORS, max_iter=SWEEPS, tol=0.0, random_state=0, progress=False, keep="nothing")
    model.set_params(callbacks=[lambda _: moments.append(time.perf_counter())]).fit(data)
    sweeps = sorted(b - a for a, b in pairwise(moments))
    print(
        f"{sweeps[0]:.2f} s the quickest sweep, {sweeps[len(sweeps) // 2]:.2f} s the median,"
        f" ELBO {model.elbo_:.3f}, {peak}"
    )


def copied(data: gcmf.Collection) -> gcmf.Collection:
    """The same collection with its cells in memory."""
    cells = {}
    for name, bound in data.relations.items():
        sides = [replace(side, indptr=side.indptr.copy(), partner=side.partner.copy(), value=side.value.copy())
                 for side in (bound.cells.rows, bound.cells.cols)]  # fmt: skip
        cells[name] = replace(bound.cells, rows=sides[0], cols=sides[1])
    return data.with_cells(cells)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--do"]:
        warnings.simplefilter("ignore")
        do(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(float(sys.argv[1])) if len(sys.argv) > 1 else CELLS)
