"""Longer steps: every few sweeps, on in the direction of the last one, as far as the bound rises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.carried import Carried
from gcmf.methods.run import GOOD

if TYPE_CHECKING:
    from gcmf.methods.run import Run

#: Sweeps from one leap to the next.
EVERY = 5
#: How many times the last step a leap is long: at first, and at most. What was too long is tried again at a quarter.
FIRST, LONGEST, SHORTEST = 4.0, 64.0, 1.0
_FROM, _BACK = "before the step", "before the leap"


class Leaps(Carried):
    """Sweeps move one entity set given the others, so that they creep where sets are tied: steps all point one way.

    A leap is kept only if the bound is higher; its bound takes the place of the sweep's.
    """

    carried = ("_length", "_n")

    def __init__(self, run: Run) -> None:
        self._run, self._length, self._n = run, FIRST, 0

    def before(self) -> None:
        """To be called before every sweep."""
        self._n += 1
        if self._n % EVERY == 0:
            self._run.keep(_FROM)

    def after(self) -> bool:
        """To be called after every sweep; whether the run has leapt."""
        run = self._run
        if not run.has(_FROM):
            return False
        run.keep(_BACK)
        bound = run.leap(_FROM, self._length)
        better = bound > run.trace[-1]
        if better:
            self._length = min(2.0 * self._length, LONGEST)
            run.trace[-1] = bound
            run.keep(GOOD)
        else:
            self._length = max(self._length / 4.0, SHORTEST)
            run.restore(_BACK)
        run.drop(_BACK)
        run.drop(_FROM)
        return better
