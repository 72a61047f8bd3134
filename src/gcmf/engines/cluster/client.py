"""Dask: who works, how parameters come to all of them, and how questions are asked; the one file that imports it."""

from __future__ import annotations

import logging
import tempfile
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gcmf.engines.cluster.worker import Held, answer
from gcmf.errors import ClusterError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gcmf.engines.cluster.parts import Recipe
    from gcmf.engines.cluster.worker import Parameters, Question

    Handle = Any
    """What stands for something that workers have."""

#: Processes of a cluster that a fit starts by itself.
MAX_PROCESSES = 4
#: Seconds to wait for a worker when none is left.
PATIENCE = 60.0


class Cluster(Protocol):
    """Workers that hold cells, are told parameters and are asked questions."""

    def workers(self) -> dict[str, int]:
        """Return the address of each worker, and how many threads it has."""

    def hold(self, recipe: Recipe, worker: str) -> Handle:
        """Have a worker hold the cells of some rows; if it is lost, another one is to."""

    def tell(self, parameters: list[Parameters]) -> list[Handle]:
        """Make parameters of sets known to all workers."""

    def ask(self, questions: Sequence[tuple[str, Handle, Question, list[Handle]]]) -> list[Any]:
        """Have each question answered by a worker, the one named if it is there; return the answers in order."""

    def folder(self) -> Path:
        """Return a new folder for what workers are to read."""

    def survives(self, error: Exception) -> bool:
        """Whether an error means that workers were lost, so that it can all be tried again; waits for one if so."""


class DaskCluster:
    """The workers of a client of Dask."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - Dask has no types
        self._client = client

    def workers(self) -> dict[str, int]:
        """Return who works, as the client was told in the last seconds."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: int(found[address]["nthreads"]) for address in sorted(found)}

    def hold(self, recipe: Recipe, worker: str) -> Handle:
        """Submit the making of some rows' engine: Dask does it again where a worker is lost."""
        return self._client.submit(_held, recipe, pure=False, workers=[worker], allow_other_workers=True)

    def tell(self, parameters: list[Parameters]) -> list[Handle]:
        """Scatter to all."""
        found: list[Handle] = self._client.scatter(parameters, broadcast=True, hash=False)
        return found

    def ask(self, questions: Sequence[tuple[str, Handle, Question, list[Handle]]]) -> list[Any]:
        """Submit a task for each question, and gather."""
        tasks = [
            self._client.submit(
                answer, held, question, *told, pure=False, workers=[worker], allow_other_workers=True
            )
            for worker, held, question, told in questions
        ]
        found: list[Any] = self._client.gather(tasks)
        return found

    def folder(self) -> Path:
        """Return a folder where Dask is told to have such, or where the system has them."""
        import dask  # noqa: PLC0415

        return Path(tempfile.mkdtemp(prefix="gcmf-cells-", dir=dask.config.get("temporary-directory", None)))

    def survives(self, error: Exception) -> bool:
        """Wait for a worker, if workers were lost and the scheduler was not."""
        from distributed import KilledWorker  # noqa: PLC0415

        if not isinstance(error, KilledWorker | CancelledError | OSError | TimeoutError):
            return False
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError, CancelledError) as late:
            msg = (
                f"No worker of {self._client.scheduler.address if self._client.scheduler else 'the cluster'} is left, and"
                f" none came within {PATIENCE:.0f} seconds. Start workers, and fit again: with a checkpoint it goes on"
                " where it was."
            )
            raise ClusterError(msg) from late
        return True


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
    if dask.config.get("scheduler-address", None):
        with distributed.Client():
            yield
        return
    n_processes = min(n_threads, MAX_PROCESSES)
    with (
        distributed.LocalCluster(
            n_workers=n_processes, threads_per_worker=n_threads // n_processes, dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster),
    ):  # fmt: skip
        yield


def _dask() -> Any:  # noqa: ANN401 - a module without types
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = f'device="dask" needs {error.name}, which is not installed: pip install "gcmf[dask]".'
        raise MissingExtraError(msg) from error
    return distributed
