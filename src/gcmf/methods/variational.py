"""Variational Bayes: sweeps, and between them the moves that find scale, axes and structure."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from gcmf.carried import Carried
from gcmf.methods.leap import Leaps
from gcmf.methods.run import GOOD
from gcmf.methods.warm_up import Clock, turn
from gcmf.model import gauge, moves, structure
from gcmf.model.columns import without_idle
from gcmf.model.joins import join_alike
from gcmf.model.posterior import given_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.methods.run import Run
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

#: Sweeps between two looks at the structure.
TEST_EVERY = 5
#: Sweeps that new factors get to find their place, and once more to prove themselves; the nats by which they must
#: raise the bound at least (and ten times what counts as flat), and how often they are offered.
GROW_SWEEPS = 6
GROW_GAIN = 1.0
MAX_TRIALS = 10
#: The most factors that a fit takes by itself, and how many it may take of the smallest tables.
AUTO_MAX = 640
FEW = 5
#: Sets of a collection of which not every choice is looked at.
MANY_SETS = 16
#: By how much fewer factors are offered where many did not pay: each of a crowd has little to explain.
FEWER = 4
#: How often factors are looked through for what is packed without a cut that pays, and how many are tried each time.
MAX_UNPACKED, MAX_CUTS = 3, 4
#: How often factors that are alike are joined.
MAX_JOINED = 3
#: Factors that are tried beyond a cap, to see whether it binds.
N_BEYOND = 2


class Variational(Carried):
    """Raises the bound by sweeps, turns, cuts and new factors until none of them does."""

    carried = (
        "capped", "_max_factors", "_clock", "_leaps", "_n_trials", "_n_unpacked", "_n_joined", "_n_offered",
    )  # fmt: skip

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
        self._clock, self._leaps = Clock(), Leaps(run)
        self._n_trials = self._n_unpacked = self._n_joined = 0
        self._n_offered = 1

    def sweep(self) -> None:
        """One iteration."""
        if self._clock.warm:
            self._run.sweep(pooled=True)
        else:
            self._leaps.before()
            self._settled_sweep()

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Try what else may raise the bound; whether nothing does, and the sweep changed it by less than `flat`."""
        if self._clock.tick(change, size):
            return False
        since = self._clock.since
        moved = self._leaps.after()
        moved |= self._free and turn(self._run, since)
        if since % TEST_EVERY == 0 and since:
            moved |= self._restructure()
        still = since > 0 and change <= flat
        if not still or moved or self._restructure() or self._drop_columns():
            return False
        return not (self._join() or self._grow() or self._unpack() or self._widen() or self._run.release_noise())

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
        # In a trial there may be more factors than may stay: none is cut then, but they are switched off as ever.
        room = max(self._max_factors - run.posterior.n_factors, 0)
        changes = structure.changes(spec, run.posterior, gain, energy, room=room)
        if not changes:
            return False
        if all(likelihood.quadratic_is_bound for likelihood in spec.likelihoods) and not spec.directed.any():
            run.posterior = moves.restructure(run.engine, run.posterior, changes)
            return True
        # Without a quadratic bound, or where mates may go together, the predicted change is only an estimate.
        bound = run.touched_bound()
        run.keep("before the cut")
        run.posterior = moves.restructure(run.engine, run.posterior, changes)
        better = run.touched_bound() > bound
        if not better:
            run.restore("before the cut")
        run.drop("before the cut")
        return better

    def _drop_columns(self) -> bool:
        """Leave out the covariates that are worth less than they cost."""
        run, dropped = self._run, False
        while self._switching and not self._interrupted():
            fewer = without_idle(run.spec, run.posterior)
            if fewer is None:
                break
            run.posterior, dropped = fewer, True
        return dropped

    def _grow(self) -> bool:
        """Offer every relation one more private factor, and all of them one, and twice as many while some of them pay.

        The warm-up lets strong factors hide weak ones: what a small relation has of its own shows only once the
        others are settled, and so does what is weak in all of them.
        """
        run, spec = self._run, self._run.spec
        room = min(self._max_factors - run.posterior.n_factors, self._n_kinds * self._n_offered)
        # With a common α every factor lives in all sets: none is private.
        if not self._switching or spec.common or room == 0 or self._n_trials == MAX_TRIALS:
            return False
        self._n_trials += 1
        on, reach = self._offered(room)
        pays = self._try(lambda: moves.extend(spec, run.engine, run.posterior, on, self._rng, reach=reach), room)
        self._n_offered = 2 * self._n_offered if pays else 1
        return pays

    @property
    def _n_kinds(self) -> int:
        """How many kinds of factors are offered: those private to each relation, and those of all."""
        n_relations = len(self._run.spec.ends)
        return n_relations + (n_relations > 1)

    def _offered(self, n: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where n factors live, the kinds in turn: (E, n) and (M, n)."""
        spec = self._run.spec
        on, reach = (np.zeros((n_of, n), dtype=bool) for n_of in (len(spec.sizes), len(spec.ends)))
        kinds = self._rng.permutation(self._n_kinds).tolist()
        for column in range(n):
            kind = kinds[column % len(kinds)]
            relations = [kind] if kind < len(spec.ends) else range(len(spec.ends))
            for m in relations:
                on[list(spec.ends[m]), column] = reach[m, column] = True
        return on, reach

    def _join(self) -> bool:
        """Where relations have scales, join factors that are one; kept only if the bound is higher."""
        run, spec = self._run, self._run.spec
        if not self._switching or spec.common or not spec.scaled or self._n_joined == MAX_JOINED:
            return False
        self._n_joined += 1
        return self._try(lambda: join_alike(spec, run.engine, run.posterior), 0)

    def _unpack(self) -> bool:
        """Cut a factor that entities with and without a relation use unlike, if that costs less than says so.

        Where entities lack some relation, one column can hold what two relations have of their own: each entity uses
        it for those that it has. What it says of the others is then wrong, and the bound hardly differs.
        """
        run, spec = self._run, self._run.spec
        if not self._switching or spec.common or self._n_unpacked == MAX_UNPACKED or not structure.lacks_cells(spec):
            return False
        room = (most_factors(spec) if self._auto else self._max_factors) - run.posterior.n_factors
        for unlike, cut in structure.packed(spec, run.posterior, run.engine.fetch())[:MAX_CUTS]:
            change = partial(moves.restructure, run.engine, run.posterior, [cut])
            if len(cut.columns) - 1 <= room and self._try(change, 0, worth=unlike):
                self._max_factors = max(self._max_factors, run.posterior.n_factors)
                return True
            if self._interrupted():
                return False
        self._n_unpacked += 1
        return False

    def _widen(self) -> bool:
        """Where all factors are in use, offer relations more: twice as many, and fewer while those do not pay.

        With a given number, a few are tried, to see if the cap binds.
        """
        run, n = self._run, self._run.posterior.n_factors
        if not self._switching or n < self._max_factors or n == 0:
            return False
        if not self._auto:
            self.capped = self._try_more(N_BEYOND, keep=False)
            return False
        n_more = min(n, most_factors(run.spec) - n)
        while n_more > 0 and not self._interrupted():
            if self._try_more(n_more):
                self._max_factors, self._n_trials, self._n_unpacked = n + n_more, 0, 0
                return True
            n_more //= FEWER
        return False

    def _try_more(self, n_more: int, *, keep: bool = True) -> bool:
        """Offer so many factors, all kinds in turn; whether they pay."""
        run, spec = self._run, self._run.spec
        everywhere = [np.ones((n_of, n_more), dtype=bool) for n_of in (len(spec.sizes), len(spec.ends))]
        on, reach = everywhere if spec.common else self._offered(n_more)
        return self._try(
            lambda: moves.extend(spec, run.engine, run.posterior, on, self._rng, reach=reach), n_more, keep=keep
        )

    def _try(
        self, change: Callable[[], Posterior | None], n_new: int, *, keep: bool = True, worth: float = 0.0
    ) -> bool:
        """Make a change, the last `n_new` factors being new; whether it lasts and pays. If not `keep`, it is undone.

        Sweeps of the trial are no part of the trace; the bound of one that is kept becomes its last entry. A change
        that is `worth` something beyond the bound may lower it by so much: the level of the trace then follows.
        """
        run, before, bound = self._run, self._run.posterior, -np.inf
        run.keep("before the trial")
        try:
            changed = change()
            if changed is None:
                return False
            run.posterior = changed
            # A random direction is not judged before it had time to turn to what is left to explain.
            for n, held in enumerate([n_new] * GROW_SWEEPS + [0] * GROW_SWEEPS):
                self._settled_sweep(held)
                if self._interrupted():
                    return False
                if n == GROW_SWEEPS + 1 and self._restructure() and _alike(run.posterior, before):
                    break
            self._restructure()
            self._settled_sweep()
            bound = run.bound()
            lasts, last = not _alike(run.posterior, before), run.trace[-1]
            pays = bound + worth - last > max(GROW_GAIN, 10.0 * self._tol * run.size(bound))
            if pays and lasts and bound <= last:
                run.level += last - bound
                bound = np.nextafter(last, np.inf)
        finally:
            if bound > run.trace[-1] and keep:
                run.trace[-1] = bound
                run.keep(GOOD)
            else:
                run.restore("before the trial")
            run.drop("before the trial")
        return pays and lasts


def _alike(one: Posterior, other: Posterior) -> bool:
    """Whether the same factors are where they are in the other, and the same relations see them."""
    if one.scales is not None and other.scales is not None and not np.array_equal(one.scales.on, other.scales.on):
        return False
    return np.array_equal(one.on, other.on)


def most_shared(spec: Spec) -> int:
    """The most factors that live everywhere: half of what the largest relation could hold without any noise.

    With as many factors as columns noise is no longer told from signal.
    """
    largest = max(min(spec.n_entities[r], spec.n_entities[c]) for r, c in spec.ends)
    return int(min(max(largest // 2, FEW), AUTO_MAX))


def most_factors(spec: Spec) -> int:
    """The most factors that a fit takes by itself: half of what the collection could hold without any noise.

    Every relation is reproduced by as many factors as one of its two sets has entities: so many as the smallest
    choice of sets has that leaves no relation without.
    With scales, repeated relations can have such factors each, and directed ones those that send and their mates.
    """
    ends = [(min(pair), max(pair)) for pair in spec.ends]
    ends = ends + [pair for pair, way in zip(ends, spec.directed, strict=True) if way] if spec.scaled else [*{*ends}]
    rank = _rank(tuple(spec.n_entities.tolist()), tuple(sorted(ends)))
    return most_shared(spec) if spec.common else int(min(max(rank // 2, FEW), AUTO_MAX))


@cache
def _rank(sizes: tuple[float, ...], ends: tuple[tuple[int, int], ...]) -> float:
    """Entities of the smallest choice of sets such that every relation has one of them (many sets: at most so many).

    A set counts as often as its most repeated relation is there.
    """
    if len(sizes) > MANY_SETS:
        return sum(min(sizes[r], sizes[c]) for r, c in ends)
    choices = []
    for e in set(ends[0] if ends else ()):
        times = max(ends.count(pair) for pair in ends if e in pair)
        choices.append(times * sizes[e] + _rank(sizes, tuple(pair for pair in ends if e not in pair)))
    return min(choices, default=0.0)
