"""Rows a second out of PostgreSQL beside the server's own COPY to a file, and the memory that it takes.

python benchmarks/postgresql.py [ROWS]: starts a server of its own (Debian's `postgresql`), makes a table of so many
rows (10,000,000), and alternates three times between COPY to a file and reading by gcmf: streamed through DuckDB batch
by batch, as relations are read, and made into a relation. Memory is the growth of a process's largest resident size.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from gcmf.io.sources.columns import id_sql, number_sql
from gcmf.io.sources.relations import read_relation
from gcmf.io.sources.specs import RelationSpec, Source
from gcmf.io.sources.tables import open_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from postgres_server import SECRET, server

ROWS = 10_000_000
REPEATS = 3


def read(address: str, rows: int, *, relation: bool) -> None:
    """Read a table in this process; print seconds, rows and the growth of memory in MB."""
    told = {"rows": "user", "cols": "film", "row": "user_id", "col": "film_id", "value": "rating"}
    query = f"SELECT * FROM ratings LIMIT {rows}"
    list(open_table(Source(source=address, query="SELECT 1 AS x"), Path()).batches('"x"'))  # all is imported
    before, started, count = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic(), 0
    if relation:
        count = read_relation(RelationSpec(name="r", source=address, query=query, **told), Path()).relation.n_cells
    else:
        table = open_table(Source(source=address, query=query), Path())
        columns = [id_sql(table, "user_id"), id_sql(table, "film_id"), number_sql(table, "rating", where="")]
        for batch in table.batches(*columns):
            count += len(batch)
    seconds = time.monotonic() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({"seconds": seconds, "rows": count, "megabytes": grown}))


def main(rows: int) -> None:
    """Compare, and print what came out."""
    os.environ["PGPASSWORD"] = SECRET
    with server() as at:
        at.sql(f"CREATE TABLE ratings AS SELECT (i % 70001)::integer AS user_id, (i / 70001 * 37 + i % 37)::bigint AS"
               f" film_id, (random() * 5)::float8 AS rating FROM generate_series(0, {rows - 1}) i")  # fmt: skip
        at.sql("VACUUM ANALYZE ratings")

        def by_gcmf(n: int, what: str) -> dict[str, float]:
            told = [sys.executable, __file__, "--read", at.address, str(n), what]
            done = subprocess.run(told, capture_output=True, text=True, check=True)
            answer = json.loads(done.stdout)
            assert answer["rows"] == n
            return answer

        taken: dict[str, list[float]] = {"COPY as text": [], "COPY as binary": [], "streamed": [], "relation": []}
        for _ in range(REPEATS):
            for how, options in (("COPY as text", ""), ("COPY as binary", " (FORMAT binary)")):
                started = time.monotonic()
                at.sql(f"COPY ratings TO '{at.folder}/copied'{options}")
                taken[how].append(time.monotonic() - started)
            for what in ("streamed", "relation"):
                answer = by_gcmf(rows, what)
                taken[what].append(answer["seconds"])
        print(f"{rows:,} rows of an integer, a bigint and a float8; the best of {REPEATS}")
        copied = min(taken["COPY as text"])
        for what, seconds in taken.items():
            print(f"{what:15} {min(seconds):6.2f} s  {rows / min(seconds):12,.0f} rows/s  {copied / min(seconds):5.2f}"
                  " times the rate of COPY as text")  # fmt: skip
        for n in (rows // 10, rows):
            print(f"memory, {n:,} rows streamed: {by_gcmf(n, 'streamed')['megabytes']:.0f} MB;"
                  f" made into a relation: {by_gcmf(n, 'relation')['megabytes']:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(sys.argv[2], int(sys.argv[3]), relation=sys.argv[4] == "relation")
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
