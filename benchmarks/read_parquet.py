"""Ten million ratings from a Parquet file to a Collection: `python benchmarks/read_parquet.py [ROWS]`.

Writes (user, item, rating) with integer ids, and the same with string ids, into a temporary folder, and reads each by a
project file in a process of its own, which has imported everything before. Prints seconds and the peak of memory above
where it stood then, in bytes per row. Wanted: under 20 s and at most 60 bytes per row. Linux only (/proc).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROWS = 10_000_000
USERS, ITEMS = 200_000, 50_000
BATCH = 1_000_000
PROJECT = """
[relations.ratings]
source = "{file}"
rows = "user"
cols = "item"
row = "user"
col = "item"
value = "rating"
"""


def main(rows: int) -> None:
    """Print one line per kind of id."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("integer", "string"):
            write(Path(folder) / f"{kind}.parquet", rows, strings=kind == "string")
            (Path(folder) / f"{kind}.toml").write_text(PROJECT.format(file=f"{kind}.parquet"))
            command = [sys.executable, __file__, "--read", str(Path(folder) / f"{kind}.toml")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{kind} ids: {done.stdout.strip()}")


def write(path: Path, rows: int, *, strings: bool) -> None:
    """Distinct pairs in random order, ratings in half stars; a batch at a time."""
    import numpy as np  # noqa: PLC0415 - the process that reads must not have them earlier than others
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    rng = np.random.default_rng(0)
    step = USERS * ITEMS // rows
    order = rng.permutation(rows)
    schema = pa.schema([("user", pa.string() if strings else pa.int64()),
                        ("item", pa.string() if strings else pa.int64()), ("rating", pa.float64())])  # fmt: skip
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, BATCH):
            number = order[start : start + BATCH] * step + rng.integers(step, size=len(order[start : start + BATCH]))
            user, item = np.divmod(number, ITEMS)
            if strings:
                user, item = np.char.add("user-", user.astype("U9")), np.char.add("item-", item.astype("U9"))
            rating = rng.integers(1, 11, size=len(number)) / 2
            writer.write_table(pa.table([pa.array(user), pa.array(item), pa.array(rating)], schema=schema))


def read(project: str) -> None:
    """Read a project file while a thread watches the memory of this process."""
    import duckdb  # noqa: F401, PLC0415 - before the watch starts
    import pandas  # noqa: F401, PLC0415
    import pyarrow.parquet  # noqa: F401, PLC0415

    from gcmf import read_project  # noqa: PLC0415

    before, peak, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    collection = read_project(project).collection
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    cells = collection.n_cells
    print(f"{cells:,} cells in {seconds:.1f} s, peak {(peak[0] - before) / cells:.0f} bytes per row, "
          f"{(resident() - before) / cells:.0f} kept")  # fmt: skip


def resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
