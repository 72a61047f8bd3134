"""`python -m fuzz.mutations [--n 10000] [--kind csv] [--seed 7]`: files that are broken, and what comes of them.

Each kind of `fuzz.mutants` is tried by a process that may take one gigabyte more than it starts with. If it dies, or is
at one file for longer than a minute, that is a fault, and another process goes on with the next file.
"""

from __future__ import annotations

import argparse
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fuzz.mutants import KINDS, meet, warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 60.0
MORE_MEMORY = 2**30


def work(kind: str, first: int, n: int) -> None:
    """Meet mutants one after the other, and print what came of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_MEMORY,) * 2)
    for seed in range(first, n):
        print(f"{seed} {' '.join(meet(kind, seed).split())}"[:500].encode("ascii", "replace").decode(), flush=True)


def _lines(stream: IO[str], into: queue.Queue[str | None]) -> None:
    for line in stream:
        into.put(line)
    into.put(None)


def watch(kind: str, n: int) -> dict[int, str]:
    """Have a process meet n mutants; what came of each, by seed."""
    found: dict[int, str] = {}
    while len(found) < n:
        with tempfile.TemporaryDirectory() as folder:
            told = [sys.executable, "-m", "fuzz.mutations", "--work", kind, str(len(found)), str(n)]
            here = str(Path(__file__).parents[1])
            path = os.pathsep.join([here, str(Path(here) / "src"), os.environ.get("PYTHONPATH", "")])
            worker = subprocess.Popen(
                told, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": path}
            )
            lines: queue.Queue[str | None] = queue.Queue()
            threading.Thread(target=_lines, args=(worker.stdout, lines), daemon=True).start()
            while len(found) < n:
                try:
                    line = lines.get(timeout=SECONDS * (5 if not found else 1))
                except queue.Empty:
                    worker.kill()
                    found[len(found)] = "wrong: it takes forever"
                    break
                if line is None:
                    found[len(found)] = f"wrong: the process died ({worker.wait()})"
                    break
                seed, _, what = line.partition(" ")
                found[int(seed)] = what.strip()
            worker.wait()
            assert worker.stdout is not None
            worker.stdout.close()
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Meet all of them; 1 if anything was wrong."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["--work"]:
        work(argv[1], int(argv[2]), int(argv[3]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m fuzz.mutations", description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="files of models, and files of tables, in all")
    parser.add_argument("--kind", choices=tuple(KINDS), help="only these")
    parser.add_argument("--seed", type=int, help="only this one, in this process")
    options = parser.parse_args(argv)
    if options.seed is not None:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            print(meet(options.kind, options.seed))
        return 0
    # Of models and of what is read as many: checkpoints are models too.
    share = {"model": 0.8, "checkpoint": 0.2, "csv": 0.4, "parquet": 0.3, "toml": 0.3}
    wrong = 0
    for kind in [options.kind] if options.kind else list(KINDS):
        found = watch(kind, round(options.n * (1.0 if options.kind else share[kind])))
        counts = Counter(what.partition(":")[0] for what in found.values())
        print(
            f"{kind}: {len(found):,} files, " + ", ".join(f"{count:,} {word}" for word, count in sorted(counts.items()))
        )
        faults = [f"  --kind {kind} --seed {seed}: {what}" for seed, what in found.items() if what.startswith("wrong")]
        print(*faults[:20], sep="\n", end="\n" if faults else "", flush=True)
        wrong += len(faults)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
