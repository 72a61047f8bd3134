"""Threads are counted as the container allows, and BLAS gets its own back."""

from __future__ import annotations

import builtins
import io
import os
import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

from gcmf import GCMF
from gcmf.engines.threads import _set, available_threads, single_threaded_blas

#: Seconds: the first fit may have to compile.
WAIT = 300


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    """Two threads whatever the machine has, set by nobody who lives: an owner would have the say."""
    pools = ThreadpoolController().select(user_api="blas")
    before = [pool.num_threads for pool in pools.lib_controllers]
    _set(pools, [2] * len(before))
    if blas_threads() != {2}:
        pytest.skip("this BLAS does not take a number of threads")
    yield
    _set(pools, before)


def test_overlapping_fits_leave_blas_as_it_was(two_blas_threads):
    x = np.random.default_rng(0).normal(size=(20, 10))
    first_runs, second_runs, first_done = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def first(info):
        first_runs.set()
        second_runs.wait(WAIT)
        seen.append(blas_threads())
        return True

    def second(info):
        second_runs.set()
        first_done.wait(WAIT)
        seen.append(blas_threads())
        return True

    def fit(callback):
        GCMF(2, random_state=0, progress=False, callbacks=[callback]).fit({("a", "b"): x})

    threads = [threading.Thread(target=fit, args=(callback,)) for callback in (first, second)]
    threads[0].start()
    assert first_runs.wait(WAIT)
    threads[1].start()
    threads[0].join(WAIT)
    first_done.set()
    threads[1].join(WAIT)
    assert seen == [{1}, {1}], "one thread as long as any fit runs"
    assert blas_threads() == {2}


def test_an_error_gives_them_back_too(two_blas_threads):
    seen = []

    def fail():
        with single_threaded_blas():
            seen.append(blas_threads())
            int("no number")

    with pytest.raises(ValueError, match="no number"):
        fail()
    assert [*seen, blas_threads()] == [{1}, {2}]


def test_threads_are_limited_from_outside(monkeypatch):
    assert available_threads() >= 1
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert available_threads() == 1


def test_a_quota_of_the_container_counts(monkeypatch):
    """A process that may use 64 cores for a tenth of the time has one."""
    real, exists, quota = builtins.open, os.path.exists, "/sys/fs/cgroup/cpu.max"

    def opened(path, *args, **options):
        return io.StringIO("10000 100000") if path == quota else real(path, *args, **options)

    monkeypatch.setattr("builtins.open", opened)
    monkeypatch.setattr(os.path, "exists", lambda path: path == quota or exists(path))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    assert available_threads() == 1
