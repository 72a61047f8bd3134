"""Variational Bayes: sweeps, and between them the moves that find scale, axes and structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.methods.run import GOOD
from gcmf.methods.warm_up import Clock, turn
from gcmf.model import gauge, moves, structure
from gcmf.model.posterior import given_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from gcmf.methods.run import Run
    from gcmf.options import FitOptions

#: Sweeps between two looks at the structure.
TEST_EVERY = 5
#: Sweeps that new factors get to find their place, and once more to prove themselves; the nats by which they must
#: raise the bound at least (and ten times what counts as flat), and how often they are offered.
GROW_SWEEPS = 10
GROW_GAIN = 1.0
MAX_TRIALS = 10


class Variational:
    """Raises the bound by sweeps, turns, cuts and new factors until none of them does."""

    def __init__(
        self, run: Run, options: FitOptions, rng: np.random.Generator, interrupted: Callable[[], bool]
    ) -> None:
        self._run, self._rng, self._interrupted = run, rng, interrupted
        self._tol, self._max_factors = options.tol, options.n_factors
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
        return still and not moved and not self._restructure() and not self._grow()

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
        run, spec = self._run, self._run.spec
        room = min(self._max_factors - run.posterior.n_factors, len(spec.ends))
        # With a common α every factor lives in all sets: none is private.
        if not self._switching or spec.common or room == 0 or self._n_trials == MAX_TRIALS:
            return False
        self._n_trials += 1
        relations = self._rng.permutation(len(spec.ends))[:room].tolist()
        run.keep("before the trial")
        better = False
        try:
            run.posterior = moves.grow(spec, run.engine, run.posterior, relations, self._rng)
            # A random direction is not judged before it had time to turn to what is left to explain.
            for held in [room] * GROW_SWEEPS + [0] * GROW_SWEEPS:
                self._settled_sweep(held)
                if self._interrupted():
                    return False
            self._restructure()
            self._settled_sweep()
            bound = run.bound()
            better = bound - run.trace[-1] > max(GROW_GAIN, 10.0 * self._tol * run.size(bound))
        finally:
            if better:
                run.trace[-1] = bound
                run.keep(GOOD)
            else:
                run.restore("before the trial")
            run.drop("before the trial")
        return better
