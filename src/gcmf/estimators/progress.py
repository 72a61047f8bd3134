"""A progress bar for who is watching, and checkpoints for who is not."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo
    from gcmf.options import FitOptions

#: A fit shorter than this needs no bar.
PATIENCE_SECONDS = 2.0


@contextmanager
def watch(estimator: Any, data: Collection, options: FitOptions) -> Iterator[list[Callable[[StepInfo], object]]]:  # noqa: ANN401
    """Yield the callbacks of a fit: the user's own, and a progress bar if it is wanted."""
    del data
    callbacks = list(estimator.callbacks)
    wanted = estimator.progress is True or (estimator.progress == "auto" and sys.stderr.isatty())
    if not wanted:
        yield callbacks
        return
    bar = ProgressBar(options.max_iter, patience=0.0 if estimator.progress is True else PATIENCE_SECONDS)
    try:
        yield [*callbacks, bar]
    finally:
        bar.close()


class ProgressBar:
    """One line on stderr: sweeps, bound, factors alive."""

    def __init__(self, max_iter: int, *, patience: float) -> None:
        self._max_iter, self._patience = max_iter, patience
        self._started, self._bar, self._task = time.monotonic(), None, None

    def __call__(self, info: StepInfo) -> None:
        """Show a sweep."""
        if self._bar is None:
            if time.monotonic() - self._started < self._patience:
                return
            self._open()
        text = f"ELBO {info.elbo:,.1f} ({info.change:+.3g}), {info.n_factors} factors"
        self._bar.update(self._task, completed=info.iteration, description=text)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Leave the last line standing."""
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only who watches pays for it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                             console=Console(stderr=True))  # fmt: skip
        self._task = self._bar.add_task("fitting", total=self._max_iter)
        self._bar.start()
