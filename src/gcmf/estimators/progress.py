"""A progress bar for who is watching, and checkpoints for who is not."""

from __future__ import annotations

import copy
import sys
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gcmf import storage
from gcmf.errors import StorageError, counted
from gcmf.options import listed_callbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo
    from gcmf.options import FitOptions

#: A fit shorter than this needs no bar.
PATIENCE_SECONDS = 2.0
#: At least so long from the end of one checkpoint to the start of the next.
CHECKPOINT_SECONDS = 60.0


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
    wanted = estimator.progress is True or (estimator.progress == "auto" and sys.stderr.isatty())
    if not wanted:
        yield callbacks
        return
    bar = ProgressBar(patience=0.0 if estimator.progress is True else PATIENCE_SECONDS)
    try:
        yield [*callbacks, bar]
    finally:
        bar.close()


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


class ProgressBar:
    """One line on stderr: sweeps, bound, factors alive."""

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._started = time.monotonic()
        self._bar: Progress | None = None

    def __call__(self, info: StepInfo) -> None:
        """Show a sweep."""
        if self._bar is None:
            if time.monotonic() - self._started < self._patience:
                return
            self._bar = self._open()
        text = f"{info.objective} {info.elbo:,.1f} ({info.change:+.3g}), {counted(info.n_factors, 'factor')}"
        self._bar.update(self._task, completed=info.iteration, total=info.n_sweeps, description=text)

    def close(self) -> None:
        """Leave the last line standing."""
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> Progress:
        from rich.console import Console  # noqa: PLC0415 - only who watches pays for it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn  # noqa: PLC0415

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(stderr=True))
        self._task = bar.add_task("fitting", total=None)
        bar.start()
        return bar
