"""What goes on beside a fit: a bar for who is watching, and a log for who reads later."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gcmf.errors import counted
from gcmf.estimators.bars import PATIENCE_SECONDS, ProgressBar, is_watched
from gcmf.options import listed_callbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.data.collection import Collection
    from gcmf.outcome import StepInfo

#: Says nothing until a program gives it a handler: each fit at INFO, each sweep at DEBUG.
LOGGER = logging.getLogger("gcmf")
LOGGER.addHandler(logging.NullHandler())


@contextmanager
def watch(estimator: Any) -> Iterator[list[Callable[[StepInfo], object]]]:
    """Yield the callbacks of a fit: the user's own, and a log and a progress bar if they are wanted."""
    callbacks = listed_callbacks(estimator.callbacks)
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


def log_start(estimator: Any, data: Collection) -> None:
    """Log what is to be fitted."""
    relations, sets = counted(len(data.relations), "relation"), counted(len(data.entities), "entity set")
    cells = counted(data.n_cells, "cell")
    LOGGER.info("%s: fitting %s over %s, %s", type(estimator).__name__, relations, sets, cells)


def log_sweep(info: StepInfo) -> None:
    """Log a sweep."""
    LOGGER.debug(
        "sweep %d of at most %d: %s %.10g (%+.3g), %s, start %d",
        info.iteration, info.n_sweeps, info.objective, info.elbo, info.change, counted(info.n_factors, "factor"),
        info.restart + 1,
    )  # fmt: skip


def log_end(estimator: Any) -> None:
    """Log how a fit ended."""
    sweeps, factors = counted(estimator.n_iter_, "sweep"), counted(estimator.n_factors_active_, "factor")
    LOGGER.info("%s: %s, %s, %s", type(estimator).__name__, sweeps, factors, estimator.status_)
