"""A progress bar for who is watching."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gcmf.errors import counted
from gcmf.options import listed_callbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

    from gcmf.options import FitOptions
    from gcmf.outcome import StepInfo

#: A fit shorter than this needs no bar.
PATIENCE_SECONDS = 2.0


@contextmanager
def watch(
    estimator: Any,
    options: FitOptions,
) -> Iterator[list[Callable[[StepInfo], object]]]:
    """Yield the callbacks of a fit: the user's own, and a progress bar if one is wanted."""
    callbacks = listed_callbacks(estimator.callbacks)
    wanted = estimator.progress is True or (estimator.progress == "auto" and sys.stderr.isatty())
    if not wanted:
        yield callbacks
        return
    bar = ProgressBar(patience=0.0 if estimator.progress is True else PATIENCE_SECONDS)
    try:
        yield [*callbacks, bar]
    finally:
        bar.close()


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
