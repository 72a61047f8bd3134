"""The first sweeps, in which no factor is singled out, and the turns towards sparsity that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.carried import Carried
from gcmf.model import gauge, moves
from gcmf.model.hyper import update_alpha

if TYPE_CHECKING:
    from gcmf.methods.run import Run

#: The warm-up, in which all factors of a set share one α, ends when a sweep changes the bound by less than this
#: fraction, or after so many sweeps: before that, factors would be judged that have not found their place.
WARM_UP_TOL = 2e-3
MAX_WARM_UP = 200
#: Sweeps after the warm-up at which a rotation is tried: often while the factors still find their axes.
ROTATE_AT = (0, 5, 10, 20, 40, 80, 160, 320)


class Clock(Carried):
    """Counts sweeps, first those of the warm-up, then those since."""

    carried = ("warm", "since", "_n")

    def __init__(self) -> None:
        self.warm = True
        self.since = 0
        """Sweeps since the warm-up, the last one apart."""
        self._n = 0

    def tick(self, change: float, size: float) -> bool:
        """One more sweep, which changed a bound of this size so much; whether the warm-up goes on."""
        self._n += 1
        if self.warm:
            self.warm = change > WARM_UP_TOL * size and self._n < MAX_WARM_UP
        else:
            self.since += 1
        return self.warm


def turn(run: Run, since: int) -> bool:
    """Turn the factors towards the group sparsity if it is time to; kept only if the bound rises."""
    if since not in ROTATE_AT:
        return False
    spec = run.spec
    run.posterior = update_alpha(spec, run.posterior)
    # The sweep's own measure of cells that have bounds is lower than one in which those bounds touch again.
    exact = all(likelihood.least_squares for likelihood in spec.likelihoods)
    bound = run.bound() if exact else run.touched_bound()
    better = False
    run.keep("before the turn")
    run.posterior = gauge.absorb(spec, run.engine, run.posterior)
    for T in gauge.turns(spec, run.posterior, moves.second_moments(run.engine, run.posterior), bold=since > 0):
        run.posterior = update_alpha(spec, moves.transform(run.engine, run.posterior, T))
        better = run.touched_bound() > bound
        if better:
            break
        run.restore("before the turn")
        run.posterior = gauge.absorb(spec, run.engine, run.posterior)
    if not better:
        run.restore("before the turn")
    run.drop("before the turn")
    return better
