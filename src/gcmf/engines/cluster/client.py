"""Dask: who works, how parameters come to all of them, and how questions are asked; the one file that imports it."""

from __future__ import annotations

import logging
import os
import tempfile
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gcmf.engines.cluster.worker import Held, answer
from gcmf.errors import ClusterError, MissingExtraError, StorageError
from gcmf.locks import beside, lock, remove_stale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gcmf.engines.cluster.parts import Recipe
    from gcmf.engines.cluster.worker import Parameters, Question

    Handle = Any
    """What stands for something that workers have."""

#: Processes of a cluster that a fit starts by itself.
MAX_PROCESSES = 4
#: Dask gives a lost worker up if it is not there again in time: on a busy machine that may take longer than 15 seconds.
RESTARTED = {"distributed.deploy.lost-worker-timeout": "1 hour"}
#: Bytes of a question that is not sent with the task that asks it, which the scheduler would keep.
LONG = 1 << 18
#: Seconds to wait for a worker when none is left.
PATIENCE = 60.0


class Cluster(Protocol):
    """Workers that hold cells, are told parameters and are asked questions."""

    def workers(self) -> dict[str, int]:
        """Return the address of each worker, and how many threads it has."""

    def hold(self, recipe: Recipe, worker: str) -> Handle:
        """Have a worker hold the cells of some rows; if it is lost, another one is to."""

    def tell(self, parameters: list[Parameters]) -> list[Handle]:
        """Give parameters of rows to workers, one here and one there, who pass them on to whoever asks."""

    def ask(self, questions: Sequence[tuple[str, Handle, Question, list[Handle]]]) -> list[Any]:
        """Have each question answered by a worker, the one named if it is there; return the answers in order."""

    def folder(self) -> tuple[Path, int]:
        """Return a new folder for what workers are to read, and a handle that is to be closed with it."""

    def wait(self) -> None:
        """Wait until there is a worker, after some were lost; raise ClusterError if none comes."""


class LostError(Exception):
    """Workers were lost on the way, or could not be reached: it can all be tried again."""


class DaskCluster:
    """The workers of a client of Dask."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - Dask has no types
        self._client = client

    def workers(self) -> dict[str, int]:
        """Ask the scheduler."""
        try:
            return dict(sorted(self._client.nthreads().items()))
        except OSError as error:
            raise LostError from error

    def hold(self, recipe: Recipe, worker: str) -> Handle:
        """Submit the making of some rows' engine: Dask does it again where a worker is lost."""
        return self._client.submit(_held, recipe, pure=False, workers=[worker], allow_other_workers=True)

    def tell(self, parameters: Sequence[Any]) -> list[Handle]:
        """Scatter: workers fetch from each other what their tasks need.

        To `broadcast` would be to wait forever where a worker is lost on the way (distributed 2026.8).
        """
        try:
            found: list[Handle] = self._client.scatter(list(parameters), hash=False)
        except Exception as error:  # of whatever kind: arrays go nowhere but to workers, some of which may be dying
            raise LostError from error
        return found

    def ask(self, questions: Sequence[tuple[str, Handle, Question, list[Handle]]]) -> list[Any]:
        """Submit a task for each question, and gather; Dask does again what was lost with a worker."""
        from distributed import KilledWorker  # noqa: PLC0415

        asked: Sequence[Any] = [question for _, _, question, _ in questions]
        if max(question.nbytes for question in asked) > LONG:
            asked = self.tell(asked)
        tasks = [
            self._client.submit(answer, held, question, *told, pure=False, workers=[worker], allow_other_workers=True)
            for (worker, held, _, told), question in zip(questions, asked, strict=True)
        ]
        try:
            found: list[Any] = self._client.gather(tasks)
        except (KilledWorker, CancelledError, OSError, TimeoutError) as error:
            raise LostError from error
        return found

    def folder(self) -> tuple[Path, int]:
        """Return a folder where Dask is told to have such, or where the system has them; those of the dead go."""
        import dask  # noqa: PLC0415

        target = Path(dask.config.get("temporary-directory", None) or tempfile.gettempdir()) / "gcmf-cells"
        folder = beside(target)
        try:
            remove_stale(target)
            folder.mkdir(parents=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            msg = (
                f"Cannot make a folder for cells in {target.parent}: {error.strerror}. Set Dask's temporary-directory."
            )
            raise StorageError(msg) from error
        lock(handle)
        return folder, handle

    def wait(self) -> None:
        """Wait for a worker: whoever started them may start others."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError, CancelledError) as error:
            msg = (
                f"No worker of the cluster is left, and none came within {PATIENCE:.0f} seconds. Start workers, and fit"
                " again: with a checkpoint, the fit goes on where it was."
            )
            raise ClusterError(msg) from error


def _held(recipe: Recipe) -> Held:
    """Make the engine of some rows, with as many threads as the worker has for tasks."""
    from distributed import get_worker  # noqa: PLC0415

    return Held(recipe, get_worker().state.nthreads)


def current() -> DaskCluster:
    """Return the cluster of the current client; there must be one."""
    return DaskCluster(_dask().Client.current())


@contextmanager
def connected(n_threads: int) -> Iterator[None]:
    """Have a client for as long as the block lasts.

    The one there is, or one to the scheduler that Dask's configuration names (DASK_SCHEDULER_ADDRESS); or processes on
    this machine that share so many threads, and end with the block.
    """
    distributed = _dask()
    import dask  # noqa: PLC0415 - it comes with distributed

    try:
        distributed.Client.current()
    except ValueError:
        pass
    else:
        yield
        return
    if address := dask.config.get("scheduler-address", None):
        with _client(distributed, address):
            yield
        return
    n_processes = min(n_threads, MAX_PROCESSES)
    with (
        dask.config.set(RESTARTED),
        distributed.LocalCluster(
            n_workers=n_processes, threads_per_worker=n_threads // n_processes, dashboard_address=":0",
            silence_logs=logging.CRITICAL, preload=["gcmf.engines.cluster.deaf"],
            memory_limit=0,  # pages of mapped files would count, which the system takes back by itself
        ) as cluster,
        distributed.Client(cluster, direct_to_workers=True),
    ):  # fmt: skip
        yield


def _client(distributed: Any, address: str) -> Any:  # noqa: ANN401 - Dask has no types
    try:
        return distributed.Client(address)
    except OSError as error:
        msg = (
            f"There is no scheduler of Dask at {address}, which Dask's configuration names (scheduler-address, or"
            " DASK_SCHEDULER_ADDRESS). Start one, or name another."
        )
        raise ClusterError(msg) from error


def _dask() -> Any:  # noqa: ANN401 - a module without types
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = f'device="dask" needs {error.name}, which is not installed: pip install "gcmf[dask]".'
        raise MissingExtraError(msg) from error
    return distributed
