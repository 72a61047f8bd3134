"""kill -9 at random moments: the fit ends with the bits of one that was left alone.

A few kills of each kind here; `python -m fuzz.kills` makes 100 of each, quicker.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gcmf

KILLS = 1 if os.environ.get("GCMF_FAULTS", "1") == "1" else 5
#: All methods with one thread and with two, or in CI with one of them.
KINDS = [(case, n) for case in ("vb", "starts", "map", "gibbs") for n in (1, 2)]
KINDS = KINDS if KILLS > 1 else [("vb", 2), ("starts", 1), ("map", 2), ("gibbs", 1)]
CHILD = Path(__file__).parent / "killed.py"


def begin(case, path, n_threads):
    process = subprocess.Popen(
        [sys.executable, str(CHILD), case, str(path), str(n_threads)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "started\n"
    return process


def ended(process):
    """The digest of the model."""
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return out.strip()


@pytest.mark.parametrize(("case", "n_threads"), KINDS)
def test_killed_at_random_moments(case, n_threads, tmp_path):
    alone, started = begin(case, tmp_path / "whole.gcmf", n_threads), time.monotonic()
    whole = ended(alone)
    seconds = time.monotonic() - started
    moment, n_killed, n_ended = random.Random(f"{case} {n_threads}"), 0, 0
    while n_killed < KILLS or not n_ended:
        path = tmp_path / f"{n_ended}.gcmf"
        process = begin(case, path, n_threads)
        try:
            # Once there were enough kills, the fit may end.
            out, _ = process.communicate(timeout=moment.uniform(0.0, seconds) if n_killed < KILLS else 600)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            n_killed += 1
            if path.exists():
                gcmf.load(path)  # whole, whenever it was
            continue
        assert out.strip() == whole, f"after {n_killed} kills"
        n_ended += 1
