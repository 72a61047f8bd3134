"""Ctrl-C and SIGTERM at random moments of real commands: never a lost fit, a broken file, or a process left behind.

Two of each here; `make faults` makes 100.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from killed import digest

import gcmf
from io_samples import RATINGS_PROJECT

SIGNALS = 50 if int(os.environ.get("GCMF_FAULTS", "1")) > 1 else 2
PROJECT = f"""{RATINGS_PROJECT}
[fit]
max_iter = 40
n_factors = 4
tol = 0.0
"""
FILES = {"gcmf.toml", "ratings.csv", "m.gcmf", "c.gcmf", "c.gcmf.previous"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("project"), np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 150)) + rng.normal(size=(200, 150))
    i, j = np.nonzero(rng.random(x.shape) < 0.5)
    pd.DataFrame({"user": i, "film": j, "rating": x[i, j]}).to_csv(folder / "ratings.csv", index=False)
    (folder / "gcmf.toml").write_text(PROJECT)
    return folder


class Job:
    """`gcmf fit`, begun to the point where it reads; and whoever it may have started."""

    def __init__(self, folder):
        self.mark = f"GCMF_JOB={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gcmf", "fit", str(folder), "-o", str(folder / "m.gcmf"), "--json", "--checkpoint",
             str(folder / "c.gcmf"), "--checkpoint-every", "0", "--resume"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, name: value},
        )  # fmt: skip
        assert self.process.stderr.readline().startswith("Reading")

    def end(self):
        """Exit code, what it says, and how the fit ended, if it says so."""
        out, err = self.process.communicate(timeout=120)
        assert "Traceback" not in err
        assert self.left() == []
        return self.process.returncode, err, json.loads(out)["status"] if out else None

    def left(self):
        """Processes that carry the mark of this job."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                marked = self.mark.encode() in path.read_bytes()
            except OSError:  # it has ended, or is another's
                continue
            found += [path] if marked else []
        return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_at_random_moments(project, number, code):
    started = time.monotonic()
    assert Job(project).end()[::2] == (0, "max_iter")
    whole, seconds = digest(gcmf.load(project / "m.gcmf")), time.monotonic() - started
    moment, n_sent, n_whole = random.Random(int(number)), 0, 0
    for path in project.glob("*.gcmf*"):
        path.unlink()
    while n_sent < SIGNALS or not n_whole:
        job = Job(project)
        if n_sent < SIGNALS:
            time.sleep(moment.uniform(0.0, 0.6 * seconds))
            n_sent += job.process.poll() is None
            job.process.send_signal(number)
        ended, said, status = job.end()
        assert {path.name for path in project.iterdir()} <= FILES, f"after {n_sent} signals"
        # What comes when all has been said may still end the process. Nor has `python -m` the last word on its exit
        # code if the signal came while modules were imported: shells see the same code then.
        assert ended in (0, code) or (ended == -number and (status is not None or "Stopped" in said)), said
        if ended == code:
            assert "nothing was written" in said
        for path in project.glob("*.gcmf"):
            gcmf.load(path)
        if status == "max_iter":
            assert digest(gcmf.load(project / "m.gcmf")) == whole, f"after {n_sent} signals"
            n_whole += 1
            for path in project.glob("*.gcmf*"):
                path.unlink()
