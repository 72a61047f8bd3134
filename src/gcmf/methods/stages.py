"""One method after the other: first what is there, then what predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.carried import Carried
from gcmf.methods.leap import Leaps
from gcmf.model import moves
from gcmf.model.hyper import update_alpha_prior
from gcmf.model.posterior import given_of

if TYPE_CHECKING:
    from gcmf.methods.base import Method
    from gcmf.methods.run import Run
    from gcmf.options import FitOptions

#: A stage that another follows ends when a sweep changes the bound by less than this many times what is flat.
NEARLY = 10.0
#: Weak factors that are tried, at least: so many that all factors are a multiple of this number, as engines work on.
N_WEAK, MULTIPLE = 4, 8
#: Σ w p² over all cells below which a weak factor moves no prediction, and sweeps between two looks at it. What is left
#: of a factor that dies is soon too small for numbers of normal precision, with which processors are slow.
NOTHING = 0.02
LOOK_EVERY = 10
#: Sweeps without which refining is not begun, and after which weak factors need not settle as well as the others.
MIN_REFINING, MAX_REFINING = 10, 20


class Stages(Carried):
    """Finds the structure, then refines the predictions."""

    carried = ("_first", "_last", "_refining")

    def __init__(self, first: Method, last: Refinement) -> None:
        self._first, self._last, self._refining = first, last, False

    @property
    def capped(self) -> bool:
        """Whether the structure would have more factors than may be."""
        return self._first.capped

    def sweep(self) -> None:
        """One iteration of the stage at hand."""
        (self._last if self._refining else self._first).sweep()

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Whether the last stage has arrived, or has nothing to begin with."""
        if self._refining:
            return self._last.arrived(change, flat)
        if not self._first.arrived(change, size, NEARLY * flat):
            return False
        self._refining = self._last.has_time
        return not self._last.has_work


class Continuation(Carried):
    """Goes on with a model that was fitted before: its pattern stays, and so do its weak factors."""

    capped = False
    carried = ("_refinement",)

    def __init__(self, run: Run, options: FitOptions, rng: np.random.Generator) -> None:
        self._refinement = Refinement(run, options, rng, begun=True)

    def sweep(self) -> None:
        """One iteration."""
        self._refinement.sweep()

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Whether the sweep changed the bound by less than `flat`."""
        del size
        return self._refinement.arrived(change, flat)


class Refinement(Carried):
    """Adds weak factors, and learns the prior of α; nothing is switched off any more.

    The on/off test is right about structure, but the bound of mean-field factors undervalues what is weak and still
    predicts. So some factors that live in all sets are added to those that pass the test, whose pattern stays; and
    a learned prior of α pools what is alike. Bounds under two priors differ by a constant that has no meaning where
    the first is vague: the trace goes on from where it was.
    """

    carried = ("_n", "_leaps")

    def __init__(self, run: Run, options: FitOptions, rng: np.random.Generator, *, begun: bool = False) -> None:
        self._run, self._rng, self._max_iter = run, rng, options.max_iter
        self._learned = options.refined and run.spec.priors.vague
        self._max_factors = None if options.n_factors == "auto" else options.n_factors
        self._n, self._leaps = int(begun), Leaps(run)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to refine."""
        return self._run.posterior.n_strong > 0

    @property
    def has_time(self) -> bool:
        """Whether enough sweeps are left: what was just added makes predictions worse."""
        return self._max_iter - len(self._run.trace) >= MIN_REFINING

    def _begin(self) -> None:
        """Add the weak factors."""
        run, spec = self._run, self._run.spec
        n_strong = run.posterior.n_factors
        n_weak = -(-(n_strong + N_WEAK) // MULTIPLE) * MULTIPLE - n_strong
        if self._max_factors is not None:
            n_weak = min(n_weak, self._max_factors - n_strong)
        if n_weak > 0:
            everywhere = np.ones((len(spec.sizes), n_weak), dtype=bool)
            run.posterior = moves.extend(spec, run.engine, run.posterior, everywhere, self._rng)
            run.posterior = run.posterior._replace(n_weak=n_weak)

    def sweep(self) -> None:
        """One iteration, and the prior of α."""
        run = self._run
        if self._n == 0:
            # Not before there is a sweep to follow: what was never swept is random.
            run.n_settled = len(run.trace)
            self._begin()
        self._leaps.before()
        run.sweep()
        if self._learned:
            run.posterior = update_alpha_prior(run.spec, run.posterior)
        if self._n == 0:
            run.level += run.trace[-1] - run.bound()
        self._n += 1

    def arrived(self, change: float, flat: float) -> bool:
        """Whether the sweep changed the bound by less than `flat`; weak factors that do nothing then go."""
        leapt = self._leaps.after()
        flat *= NEARLY if self._n >= MAX_REFINING else 1.0
        done = not leapt and self._n > 1 and change <= flat
        if done or self._n % LOOK_EVERY == 0:
            self._drop_dead()
        return done

    def _drop_dead(self) -> None:
        run, n_strong = self._run, self._run.posterior.n_strong
        _, energy = run.engine.weigh(given_of(run.spec, run.posterior))
        dead = n_strong + np.flatnonzero(energy[:, n_strong:].sum(axis=0) < NOTHING)
        run.posterior = moves.drop(run.engine, run.posterior, dead)
        run.level += run.trace[-1] - run.bound()
