"""`python -m fuzz.kills [--n 100] [--kinds vb,map,gibbs]`: kill -9 at random moments; what comes out has the same bits.

The fits of `tests/faults/killed.py`, with a checkpoint after every sweep, each by 1 and by 2 threads. A process is
forked from one that has everything imported and compiled, killed, and followed by another that goes on, until there
were n kills; whenever a fit ends, it must have the bits of one that was left alone, made by a process of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gcmf

FOLDER = Path(__file__).parents[1] / "tests" / "faults"
sys.path.insert(0, str(FOLDER))
import killed  # noqa: E402 - it stands beside the tests

if TYPE_CHECKING:
    from collections.abc import Sequence


def forked(case: str, path: Path, n_threads: int, told: Path) -> int:
    """Begin a fit in another process, which writes what it says to a file; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        with told.open("w") as out:
            os.dup2(out.fileno(), 1)
            killed.main(case, path, n_threads)
    finally:
        os._exit(0)


def kills(case: str, n_threads: int, n: int) -> tuple[int, int]:
    """Kill a fit n times; how many ended all the same, and of these how many with other bits."""
    moment, n_killed, n_ended, n_wrong = random.Random(f"{case} {n_threads}"), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = [sys.executable, str(FOLDER / "killed.py"), case, str(folder / "whole.gcmf"), str(n_threads)]
        whole = subprocess.run(alone, capture_output=True, text=True, check=True).stdout
        started = time.monotonic()
        os.waitpid(forked(case, folder / "first.gcmf", n_threads, folder / "said"), 0)
        seconds = time.monotonic() - started
        assert (folder / "said").read_text() == whole
        while n_killed < n or not n_ended:
            path = folder / f"{n_ended}.gcmf"
            child = forked(case, path, n_threads, folder / "said")
            if n_killed < n:
                time.sleep(moment.uniform(0.0, seconds))
                os.kill(child, signal.SIGKILL)
            _, code = os.waitpid(child, 0)
            if os.WIFSIGNALED(code):
                n_killed += 1
                if n_killed % 10 == 0:
                    print(f"  {case}, {n_threads}: {n_killed} kills", file=sys.stderr, flush=True)
                if path.exists():
                    gcmf.load(path)  # whole, whenever it was
                continue
            n_ended += 1
            n_wrong += (folder / "said").read_text() != whole
    return n_ended, n_wrong


def main(argv: Sequence[str] | None = None) -> int:
    """All kinds; 1 if a fit had other bits."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.kills", description=__doc__)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(killed.CASES))
    parser.add_argument("--threads", default="1,2")
    options, wrong = parser.parse_args(argv), 0
    with tempfile.TemporaryDirectory() as name:
        for case in options.kinds.split(","):  # by one thread: threads do not outlive a fork
            killed.fitted(case, Path(name) / f"{case}.gcmf", 1)
    for case in options.kinds.split(","):
        for n_threads in map(int, options.threads.split(",")):
            n_ended, n_wrong = kills(case, n_threads, options.n)
            print(
                f"{case}, {n_threads} threads: {options.n} kills, {n_ended} ends, {n_wrong} with other bits", flush=True
            )
            wrong += n_wrong
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
