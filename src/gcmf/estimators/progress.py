"""What goes on beside a fit: a bar for who is watching, a log for who reads later, and checkpoints."""

from __future__ import annotations

import copy
import logging
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gcmf import storage
from gcmf.errors import StorageError, counted
from gcmf.estimators.bars import PATIENCE_SECONDS, ProgressBar, is_watched
from gcmf.options import listed_callbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo
    from gcmf.options import FitOptions

#: At least so long from the end of one checkpoint to the start of the next.
CHECKPOINT_SECONDS = 60.0
#: Says nothing until a program gives it a handler: each fit at INFO, each sweep at DEBUG.
LOGGER = logging.getLogger("gcmf")
LOGGER.addHandler(logging.NullHandler())


@contextmanager
def watch(
    estimator: Any,
    data: Collection,
    options: FitOptions,
) -> Iterator[list[Callable[[StepInfo], object]]]:
    """Yield the callbacks of a fit: the user's own, and checkpoints and a progress bar if they are wanted."""
    callbacks = listed_callbacks(estimator.callbacks)
    if estimator.checkpoint is not None:
        callbacks.append(Checkpoint(estimator, data))
    LOGGER.info("%s: fitting %s", type(estimator).__name__, _told(data))
    if LOGGER.isEnabledFor(logging.DEBUG):
        callbacks.append(log_sweep)
    if not (estimator.progress is True or (estimator.progress == "auto" and is_watched())):
        yield callbacks
        return
    bar = ProgressBar(patience=0.0 if estimator.progress is True else PATIENCE_SECONDS)
    try:
        yield [*callbacks, bar]
    finally:
        bar.close()


def _told(data: Collection) -> str:
    relations, sets = counted(len(data.relations), "relation"), counted(len(data.entities), "entity set")
    return f"{relations} over {sets}, {counted(data.n_cells, 'cell')}"


def log_sweep(info: StepInfo) -> None:
    """Log a sweep."""
    LOGGER.debug(
        "sweep %d of at most %d: %s %.10g (%+.3g), %s",
        info.iteration, info.n_sweeps, info.objective, info.elbo, info.change, counted(info.n_factors, "factor"),
    )  # fmt: skip


def log_end(estimator: Any) -> None:
    """Log how a fit ended."""
    sweeps, factors = counted(estimator.n_iter_, "sweep"), counted(estimator.n_factors_active_, "factor")
    LOGGER.info("%s: %s, %s, %s", type(estimator).__name__, sweeps, factors, estimator.status_)


class Checkpoint:
    """Saves the model of the sweep about once a minute; what cannot be saved is refused before the first."""

    def __init__(self, estimator: Any, data: Collection) -> None:
        self._estimator, self._data = estimator, data
        self._last = time.monotonic()
        storage.check(estimator.checkpoint, {name: entity.vocabulary for name, entity in data.entities.items()})

    def __call__(self, info: StepInfo) -> None:
        """Save, if it is time."""
        if time.monotonic() - self._last < CHECKPOINT_SECONDS:
            return
        try:
            self._save(info)
        except StorageError as error:
            # A full disk is no reason to lose the fit that is still running.
            msg = f"No checkpoint after sweep {info.iteration}, the fit goes on: {error}"
            warnings.warn(msg, stacklevel=2)
        self._last = time.monotonic()

    def _save(self, info: StepInfo) -> None:
        run = info.snapshot()
        model = copy.copy(self._estimator)
        model._settle(run.summarize(self._data), run.trace, run.status)
        storage.save(model, self._estimator.checkpoint)
