"""The loop around a method: the same for every method, engine and estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.errors import NumericalError
from gcmf.methods.run import GOOD
from gcmf.model.elbo import terms
from gcmf.outcome import CREEPING, Fit, Status, StepInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gcmf.interrupts import Interrupts
    from gcmf.methods.base import Method
    from gcmf.methods.run import Run
    from gcmf.model.zeros import Zeros
    from gcmf.options import FitOptions

#: A fall of the bound by more than this fraction is no rounding error: in float64, and in float32, where it is twice
#: what one pass over the cells loses (`python -m fuzz.rounding`).
FALL = {np.dtype("float64"): 1e-9, np.dtype("float32"): 3e-6}

Keeper = Callable[[StepInfo, Callable[[], dict[str, Any]], bool], object]
"""Told of a sweep, how to have all that another process needs to go on from it, and whether it is the last one."""


class Report:
    """Tells callbacks of a sweep, and who keeps it; whether one of them, or Ctrl-C, wants to stop."""

    def __init__(
        self,
        callbacks: Sequence[Callable[[StepInfo], object]],
        keeper: Keeper | None,
        packed: Callable[[], dict[str, Any]],
        interrupts: Interrupts,
    ) -> None:
        self._callbacks, self._keeper, self._packed, self.interrupts = callbacks, keeper, packed, interrupts

    def __call__(self, info: StepInfo) -> bool:
        """Tell everybody."""
        try:
            stop = any([callback(info) is True for callback in self._callbacks]) or self.interrupts.wanted
            if self._keeper is not None:
                self._keeper(info, self._packed, stop)
        except KeyboardInterrupt:
            return True
        return stop or self.interrupts.wanted


class Loop:
    """Sweeps until the method has arrived: keeps the trace, tells the callbacks, and never returns a broken state."""

    def __init__(  # noqa: PLR0913 - what a loop is made of
        self,
        run: Run,
        method: Method,
        options: FitOptions,
        *,
        report: Report,
        restart: int,
        zeros: Zeros | None = None,
    ) -> None:
        self._run, self._method, self._max_iter = run, method, options.max_iter
        self._report, self._restart, self._zeros = report, restart, zeros
        # Where the bound creeps, a change counts as many times as its steps are too short.
        creep = float(run.spec.creep.max())
        self._tol = options.tol / (creep if creep > CREEPING else 1.0)

    def go(self) -> Fit:
        """Return the run when it has ended; a sweep that went wrong is taken back."""
        # Whether numbers are finite is looked at after every sweep.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            status = self._sweeps()
        if status in (Status.NONFINITE, Status.ELBO_DECREASED):
            self._take_back()
        return self._as_it_stands(status)

    def _sweeps(self) -> Status:
        run = self._run
        if run.trace:  # of a run that goes on, the last sweep was reported, and nothing was done since
            last, now = ([-np.inf, *run.trace])[-2:]
            ended = self._look_around(now - last, run.size(now))
            if ended is not None:
                return ended
        for n in range(len(run.trace) + 1, self._max_iter + 1):
            self._method.sweep()
            now = run.bound()
            change, size = now - (run.trace[-1] if run.trace else -np.inf), run.size(now)
            if not np.isfinite(now):
                return Status.NONFINITE
            if change < -FALL[run.engine.dtype] * size:
                return Status.ELBO_DECREASED
            run.trace.append(now)
            run.settle()
            if self._tell(n, now, change):
                return Status.INTERRUPTED
            ended = self._look_around(change, size)
            if ended is not None:
                return ended
        return Status.MAX_ITER

    def _look_around(self, change: float, size: float) -> Status | None:
        """Let the method do what it does between sweeps; how the run ended, if it did."""
        if self._method.arrived(change, size, self._tol * size):
            return _ended(self._run, self._method)
        # Ctrl-C may have been pressed while something was tried.
        return Status.INTERRUPTED if self._report.interrupts.wanted else None

    def _tell(self, n: int, now: float, change: float) -> bool:
        """Report a sweep; whether somebody wants to stop."""
        run = self._run
        return self._report(StepInfo(
            n, now, change, run.posterior.n_strong, self._restart, lambda: self._as_it_stands(Status.INTERRUPTED),
            lambda: {**terms(run.spec, run.posterior, run.measured), "level": run.level}, n_sweeps=self._max_iter,
        ))  # fmt: skip

    def _as_it_stands(self, status: Status) -> Fit:
        run = self._run
        return Fit(
            run.spec,
            run.posterior,
            run.engine.fetch(),
            tuple(run.trace),
            status,
            dict(self._zeros.drawn) if self._zeros else {},
            n_settled=run.n_settled,
        )

    def _take_back(self) -> None:
        """Return to the last sweep whose bound was finite and had not fallen."""
        if self._run.has(GOOD):
            self._run.restore(GOOD)
            return
        names = ", ".join(repr(relation.name) for relation in self._run.spec.schema.relations)
        msg = (f"Numbers overflowed in the first sweep over {names}, so there is no model to return. Look for values "
               "of very different sizes within one relation, or for priors that are nearly vague.")  # fmt: skip
        raise NumericalError(msg)


def _ended(run: Run, method: Method) -> Status:
    """How a run that has arrived is called."""
    if run.posterior.n_strong == 0:
        return Status.ALL_PRUNED
    return Status.CAPPED if method.capped else Status.CONVERGED
