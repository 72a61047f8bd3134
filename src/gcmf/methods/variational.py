"""Variational Bayes: sweeps, and between them the moves that find scale, axes and structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.methods.run import GOOD
from gcmf.methods.warm_up import Clock, turn
from gcmf.model import gauge, moves, structure
from gcmf.model.posterior import given_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.methods.run import Run
    from gcmf.options import FitOptions

#: Sweeps between two looks at the structure.
TEST_EVERY = 5
#: Sweeps that new factors get to find their place, and once more to prove themselves; the nats by which they must
#: raise the bound at least (and ten times what counts as flat), and how often they are offered.
GROW_SWEEPS = 10
GROW_GAIN = 1.0
MAX_TRIALS = 10
#: The most factors that a fit takes by itself.
AUTO_MAX = 640
#: Factors that are tried beyond a cap, to see whether it binds.
N_BEYOND = 2


class Variational:
    """Raises the bound by sweeps, turns, cuts and new factors until none of them does."""

    def __init__(
        self, run: Run, options: FitOptions, rng: np.random.Generator, interrupted: Callable[[], bool]
    ) -> None:
        self._run, self._rng, self._interrupted = run, rng, interrupted
        self._tol, self._auto = options.tol, options.n_factors == "auto"
        self._max_factors = run.posterior.n_factors
        self.capped = False
        """Whether more factors than may be would have raised the bound."""
        self._free = options.pattern is None
        self._switching = self._free and run.spec.priors.vague
        self._clock = Clock()
        self._n_trials = 0

    def sweep(self) -> None:
        """One iteration."""
        if self._clock.warm:
            self._run.sweep(pooled=True)
        else:
            self._settled_sweep()

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Try what else may raise the bound; whether nothing does, and the sweep changed it by less than `flat`."""
        if self._clock.tick(change, size):
            return False
        since = self._clock.since
        moved = self._free and turn(self._run, since)
        if since % TEST_EVERY == 0 and since:
            moved |= self._restructure()
        still = since > 0 and change <= flat
        return still and not moved and not self._restructure() and not self._grow() and not self._widen()

    def _settled_sweep(self, held: int = 0) -> None:
        """An iteration with an α for each factor, and the best scale of each."""
        run = self._run
        run.sweep(held=held)
        run.posterior = gauge.rescale(run.spec, run.engine, run.posterior, held=held)

    def _restructure(self) -> bool:
        """Switch off and cut what costs more than it gains; the bound must rise."""
        if not self._switching:
            return False
        run, spec = self._run, self._run.spec
        gain, energy = run.engine.weigh(given_of(spec, run.posterior))
        room = self._max_factors - run.posterior.n_factors
        changes = structure.changes(spec, run.posterior, gain, energy, room=room)
        if not changes:
            return False
        if all(likelihood.quadratic_is_bound for likelihood in spec.likelihoods):
            run.posterior = moves.restructure(run.engine, run.posterior, changes)
            return True
        # Without a quadratic bound the predicted change is only an estimate.
        bound = run.touched_bound()
        run.keep("before the cut")
        run.posterior = moves.restructure(run.engine, run.posterior, changes)
        better = run.touched_bound() > bound
        if not better:
            run.restore("before the cut")
        run.drop("before the cut")
        return better

    def _grow(self) -> bool:
        """Offer every relation one more private factor; kept only if the bound is higher in the end.

        The warm-up lets strong factors hide weak ones: what a small relation has of its own shows only once the
        others are settled. Sweeps of the trial are no part of the trace; the bound of one that is kept becomes
        its last entry.
        """
        spec = self._run.spec
        room = min(self._max_factors - self._run.posterior.n_factors, len(spec.ends))
        # With a common α every factor lives in all sets: none is private.
        if not self._switching or spec.common or room == 0 or self._n_trials == MAX_TRIALS:
            return False
        self._n_trials += 1
        on = np.zeros((len(spec.sizes), room), dtype=bool)
        for column, m in enumerate(self._rng.permutation(len(spec.ends))[:room].tolist()):
            on[list(spec.ends[m]), column] = True
        return self._try(on)

    def _widen(self) -> bool:
        """Where all factors are in use, offer more in all sets: twice as many, or a few, to see if a cap binds."""
        spec, n = self._run.spec, self._run.posterior.n_factors
        if not self._switching or n < self._max_factors or n == 0:
            return False
        n_more = min(n, AUTO_MAX - n) if self._auto else N_BEYOND
        pays = n_more > 0 and self._try(np.ones((len(spec.sizes), n_more), dtype=bool), keep=self._auto)
        self.capped = pays and not self._auto
        if pays and self._auto:
            self._max_factors, self._n_trials = n + n_more, 0
        return pays and self._auto

    def _try(self, on: NDArray[np.bool_], *, keep: bool = True) -> bool:
        """Add factors that live where `on` (E, n) says; whether they raise the bound. If not `keep`, they go again."""
        run, spec, n = self._run, self._run.spec, on.shape[1]
        run.keep("before the trial")
        better = False
        try:
            run.posterior = moves.extend(spec, run.engine, run.posterior, on, self._rng)
            # A random direction is not judged before it had time to turn to what is left to explain.
            for held in [n] * GROW_SWEEPS + [0] * GROW_SWEEPS:
                self._settled_sweep(held)
                if self._interrupted():
                    return False
            self._restructure()
            self._settled_sweep()
            bound = run.bound()
            better = bound - run.trace[-1] > max(GROW_GAIN, 10.0 * self._tol * run.size(bound))
        finally:
            if better and keep:
                run.trace[-1] = bound
                run.keep(GOOD)
            else:
                run.restore("before the trial")
            run.drop("before the trial")
        return better
