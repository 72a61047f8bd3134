"""Cores that a fit may use, and the threads of BLAS that it may not."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator


def available_threads() -> int:
    """Cores that this process may use: those it is bound to, and no more than the quota of its container."""
    return int(cpu_count())


class _SingleThreadedBlas:
    """Holds BLAS at one thread while any fit runs.

    For OpenBLAS the number of threads is one number for the whole process, so fits that overlap share one limit: the
    first sets it, and the last to end takes it back. Other libraries have a number for each thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_fits = 0
        self._pools: ThreadpoolController | None = None
        self._before: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            # Finding the pools reads the memory map of the process, 3 ms: done once.
            pools = self._pools = self._pools or ThreadpoolController()
            if self._n_fits == 0:
                self._before = [pool.num_threads for pool in pools.lib_controllers]
                _set(pools, [1] * len(self._before))
            self._n_fits += 1
        try:
            with pools.limit(limits=1):
                yield
        finally:
            with self._lock:
                self._n_fits -= 1
                if self._n_fits == 0:
                    _set(pools, self._before)


def _set(pools: ThreadpoolController, numbers: list[int]) -> None:
    """Set the numbers of threads from a thread of its own: who sets them owns them, as long as it lives."""
    if [pool.num_threads for pool in pools.lib_controllers] == numbers:
        return

    def work() -> None:
        for pool, number in zip(pools.lib_controllers, numbers, strict=True):
            pool.set_num_threads(number)

    setter = threading.Thread(target=work)
    setter.start()
    setter.join()


#: BLAS has threads of its own, which small products would wake, and whose number would change the last bits.
single_threaded_blas = _SingleThreadedBlas()
