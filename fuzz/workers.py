"""`python -m fuzz.workers [--n 20] [--kinds vb,map,gibbs]`: kill -9 during fits on a cluster; the bits are the same.

First workers: n fits of each kind on four worker processes, one of which is killed at a random moment of each. Then who
drives the fit: it is killed at random moments, n times, and followed by another that goes on from the checkpoint; its
workers must be gone soon after it. The fits are those of `tests/faults/killed.py`.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import dask
import psutil
from distributed import Client, LocalCluster

from gcmf.engines.cluster.client import RESTARTED

FOLDER = Path(__file__).parents[1] / "tests" / "faults"
sys.path.insert(0, str(FOLDER))
import killed  # noqa: E402 - it stands beside the tests

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Sweeps of a fit, before chains begin.
SWEEPS = 10
#: Seconds in which a process must end when who started it is gone, and in which lost workers must be there again.
SOON = 300.0


def workers(case: str, n: int, *, n_workers: int = 4) -> tuple[int, int]:
    """Kill a worker in each of n fits; how many of these were hit before they ended, and how many had other bits."""
    moment, n_killed, n_wrong = random.Random(f"workers {case}"), 0, 0
    started = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        tempfile.TemporaryDirectory() as name,
        dask.config.set(RESTARTED),
        LocalCluster(**started, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster) as client,
    ):
        folder = Path(name)
        whole = fitted(case, folder)
        begun = time.monotonic()
        assert fitted(case, folder) == whole
        seconds = time.monotonic() - begun
        while n_killed < n:
            ended, hit = threading.Event(), threading.Event()
            doomed = moment.choice([nanny.pid for nanny in cluster.workers.values()])
            killer = threading.Thread(target=kill, args=(doomed, moment.uniform(0.0, 0.9 * seconds), ended, hit))
            killer.start()
            begun = time.monotonic()
            found = fitted(case, folder)
            ended.set()
            killer.join()
            n_killed, n_wrong = n_killed + hit.is_set(), n_wrong + (found != whole)
            if not hit.is_set():
                seconds = time.monotonic() - begun  # the machine has less to do than before
            print(
                f"  {case}: worker killed {n_killed}, {time.monotonic() - begun:.1f} s, alone {seconds:.1f}",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            client.wait_for_workers(n_workers, timeout=SOON)
    return n_killed, n_wrong


def kill(pid: int, seconds: float, ended: threading.Event, hit: threading.Event) -> None:
    """Kill a process after so many seconds, unless the fit has ended by then."""
    if not ended.wait(seconds):
        os.kill(pid, signal.SIGKILL)
        hit.set()


def fitted(case: str, folder: Path) -> str:
    """The digest of a fit of this process, from its beginning."""
    with redirect_stdout(io.StringIO()):
        return str(killed.digest(killed.fitted(case, folder / f"{time.monotonic_ns()}.gcmf", 1, "dask", SWEEPS)))


def drivers(case: str, n: int) -> tuple[int, int, int]:
    """Kill a fit and what drives its workers n times; how many ended, with other bits, and processes left behind."""
    moment, n_killed, n_ended, n_wrong, n_left = random.Random(f"drivers {case}"), 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.monotonic()
        whole, _ = begin(case, folder / "whole.gcmf").communicate()
        seconds = time.monotonic() - begun
        while n_killed < n or not n_ended:
            child = begin(case, folder / f"{n_ended}.gcmf")
            try:
                said, _ = child.communicate(timeout=moment.uniform(0.0, seconds) if n_killed < n else None)
            except subprocess.TimeoutExpired:
                started = psutil.Process(child.pid).children(recursive=True)
                child.kill()
                child.communicate()
                n_killed += 1
                left = psutil.wait_procs(started, timeout=SOON)[1]
                n_left += len(left)
                print(f"  {case}: driver killed {n_killed}, {len(left)} left", file=sys.stderr, flush=True)
                continue
            n_ended += 1
            n_wrong += said != whole or child.returncode != 0
    return n_ended, n_wrong, n_left


def begin(case: str, path: Path) -> subprocess.Popen[str]:
    """A fit on workers of its own."""
    command = [sys.executable, str(FOLDER / "killed.py"), case, str(path), "2", "dask", str(SWEEPS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main(argv: Sequence[str] | None = None) -> int:
    """All kinds; 1 if a fit had other bits, or something was left."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.workers", description=__doc__)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--kinds", default="vb,map,gibbs")
    options, n_faults = parser.parse_args(argv), 0
    for case in options.kinds.split(","):
        n_killed, n_wrong = workers(case, options.n)
        print(f"{case}: a worker killed in {n_killed} fits, {n_wrong} with other bits", flush=True)
        n_ended, n_others, n_left = drivers(case, options.n)
        print(
            f"{case}: {options.n} kills of the driver, {n_ended} ends, {n_others} with other bits, {n_left} processes"
            " left",
            flush=True,
        )
        n_faults += n_wrong + n_others + n_left
    return int(n_faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
