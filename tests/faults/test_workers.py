"""A worker is killed during a fit on a cluster: the fit goes on, to the same bits, and nothing is left behind.

Once here; `python -m fuzz.workers` kills 20 of each kind at random moments, and who drives them.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import gcmf
from gcmf.errors import ClusterError

pytest.importorskip("distributed", reason="no Dask here: pip install 'gcmf[dask]'")
import dask
import psutil


def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 300)) + rng.normal(size=(400, 300))
    return {("a", "b"): np.where(rng.random(x.shape) < 0.6, np.nan, x)}


def workers():
    """Processes that were started by this one to work, by their age."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_a_worker_killed_in_the_middle_changes_no_bit():
    data, met, others = table(), [], workers()

    def kill(info):
        if info.iteration == 3:
            met.extend(process for process in workers() if process not in others)
            os.kill(met[0].pid, signal.SIGKILL)

    left_alone, hit = (
        gcmf.GCMF(3, random_state=0, max_iter=8, progress=False, n_threads=2, device="dask", callbacks=callbacks).fit(
            data
        )
        for callbacks in ([], [kill])
    )
    assert len(met) == 2
    np.testing.assert_array_equal(hit.elbo_trace_, left_alone.elbo_trace_)
    np.testing.assert_array_equal(hit.predict("a-b"), left_alone.predict("a-b"))
    assert not [process for process in met if process.is_running()]


def test_a_scheduler_that_is_not_there_is_named():
    nowhere = {"scheduler-address": "tcp://127.0.0.1:9", "distributed.comm.timeouts.connect": "500ms"}
    with dask.config.set(nowhere), pytest.raises(ClusterError, match="no scheduler of Dask at tcp"):
        gcmf.GCMF(2, device="dask", progress=False).fit({("a", "b"): np.eye(6)})
