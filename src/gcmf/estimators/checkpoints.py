"""Checkpoints: the model of a sweep, and with it all that another process needs to end the fit with the same bits."""

from __future__ import annotations

import copy
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcmf import storage
from gcmf.errors import StorageError, few
from gcmf.estimators.identity import differences, made_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gcmf.data.collection import Collection
    from gcmf.model.fitted import Fitted
    from gcmf.options import FitOptions
    from gcmf.outcome import StepInfo


class Checkpoint:
    """Saves the model of a sweep every so many seconds; what cannot be saved is refused before the first.

    The one before stays, as `path` with ".previous" added to its name.
    """

    def __init__(self, estimator: Any, data: Collection, options: FitOptions, start: Fitted | None) -> None:
        self._estimator, self._data = estimator, data
        self._path = Path(estimator.checkpoint)
        storage.check(self._path, {name: entity.vocabulary for name, entity in data.entities.items()})
        self._of = made_of(estimator, data, options, start)
        self._last, self._failing = time.monotonic(), False

    def __call__(self, info: StepInfo, packed: Callable[[], dict[str, Any]], last: bool) -> None:  # noqa: FBT001
        """Save, if it is time, or the last time."""
        if not last and time.monotonic() - self._last < self._estimator.checkpoint_every:
            return
        try:
            self._save(info, packed)
            self._failing = False
        except StorageError as error:
            # A full disk is no reason to lose the fit that is still running; nor to say so after every sweep.
            if not self._failing:
                msg = f"No checkpoint after sweep {info.iteration}, the fit goes on: {error}"
                warnings.warn(msg, stacklevel=2)
            self._failing = True
        self._last = time.monotonic()

    def found(self) -> dict[str, Any] | None:
        """What the last sound checkpoint holds, or the one before; None if there is none. One of another is refused."""
        faults = []
        for path in (self._path, storage.previous(self._path)):
            if path.exists():
                try:
                    run = storage.load_run(path)
                except StorageError as error:
                    faults.append(str(error))
                    continue
                self._compare(path, run.pop("of", None))
                if faults:
                    warnings.warn(f"Going on from {path}: {faults[0]}", stacklevel=2)
                return run
        if faults:
            raise StorageError(faults[0])
        return None

    def _save(self, info: StepInfo, packed: Callable[[], dict[str, Any]]) -> None:
        run = info.snapshot()
        model = copy.copy(self._estimator)
        model._settle(run.summarize(self._data), run.trace, run.status, run.n_settled)
        storage.save(model, self._path, run={**packed(), "of": self._of})

    def check_end(self, model: Any) -> None:
        """Refuse a model that a checkpoint has led to whose numbers are none: no fit keeps such a state."""
        fault = storage.fault_of(model)
        if fault is not None:
            msg = (
                f"{self._path} cannot be gone on from, it leads to no sound model: {fault}. Start anew, without resume."
            )
            raise StorageError(msg)

    def _compare(self, path: Path, other: object) -> None:
        """Refuse a checkpoint of other data or options, and say in what it differs."""
        found = differences(self._of, other) if isinstance(other, dict) else ["it does not say of which"]
        if found:
            msg = (
                f"{path} is a checkpoint of another fit: {'; '.join(few(found, 'differences'))}. Fit as before to"
                " go on from it, or start anew: without resume, or with another checkpoint."
            )
            raise StorageError(msg)
