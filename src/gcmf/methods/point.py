"""MAP: sweeps that move a point, until its density is flat. For comparison with variational Bayes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.carried import Carried
from gcmf.methods.warm_up import Clock, turn

if TYPE_CHECKING:
    from gcmf.methods.run import Run
    from gcmf.options import FitOptions


class Point(Carried):
    """Raises the joint density by sweeps and turns; nothing is switched off, as α stays finite."""

    capped = False
    carried = ("_clock",)

    def __init__(self, run: Run, options: FitOptions) -> None:
        self._run, self._free = run, options.pattern is None
        self._clock = Clock()

    def sweep(self) -> None:
        """One iteration."""
        self._run.sweep(pooled=self._clock.warm)

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Try a turn; whether none was made, and the sweep changed the density by less than `flat`."""
        if self._clock.tick(change, size):
            return False
        since = self._clock.since
        moved = self._free and turn(self._run, since)
        return since > 0 and change <= flat and not moved
