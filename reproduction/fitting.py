"""A fit with its wall-clock time, in this process or many of them side by side."""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, TypeVar

from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF
from gcmf.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gcmf.data.collection import Collection

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def timed_fit(data: Collection, k: int, **options: Any) -> tuple[GCMF, float]:  # noqa: ANN401 - of GCMF
    """Fit the paper's model, and say how many seconds that took.

    Raises
    ------
    KeyboardInterrupt
        When the fit was interrupted: it would give a model all the same, and the experiment would go on.
    """
    with warnings.catch_warnings():
        # Fits that stop at their last sweep are told by `n_iter_`, which goes into the tables.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # MAP with nearly vague priors may run away; such a fit keeps its last finite sweep, and predicts badly.
        warnings.simplefilter("ignore", RuntimeWarning)
        start = time.perf_counter()
        # The paper's model has no scales of relations.
        model = GCMF(k, progress=False, relation_scales=False, **options).fit(data)
        seconds = time.perf_counter() - start
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return model, seconds


def side_by_side(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], *, n_processes: int, done: Callable[[_Task], None]
) -> list[_Result]:
    """Return work(task) of every task, in their order; `done` is told of each as it is finished.

    `work` must be a function of a module, and tasks and results such that they can be pickled. With one process
    everything happens in this one.
    """
    if n_processes == 1:
        return [_and_tell(work, task, done) for task in tasks]
    # Spawned, not forked: the kernels' thread pools do not survive a fork.
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(n_processes, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_alone)
    try:
        futures = {pool.submit(work, task): n for n, task in enumerate(tasks)}
        for future in as_completed(futures):
            future.result()
            done(tasks[futures[future]])
        return [future.result() for future in futures]
    except BaseException:
        # An error or Ctrl-C: what the workers still do is of no use, and may take minutes.
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown()


def _leave_alone() -> None:
    """Ctrl-C reaches every process of a terminal; the one that started the others deals with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _and_tell(work: Callable[[_Task], _Result], task: _Task, done: Callable[[_Task], None]) -> _Result:
    result = work(task)
    done(task)
    return result
