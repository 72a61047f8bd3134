"""The driver: start, sweep, update, test, stop. One loop for every engine and estimator."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.select import make_engine
from gcmf.engines.threads import available_threads, single_threaded_blas
from gcmf.errors import NumericalError, OptionError
from gcmf.interrupts import Interrupts
from gcmf.model import gauge, moves, structure
from gcmf.model.elbo import elbo
from gcmf.model.hyper import update_alpha, update_bias_prior, update_tau
from gcmf.model.init import start
from gcmf.model.posterior import Moments, hyper_of
from gcmf.model.spec import build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.engines.base import Engine, Hyper
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

#: The warm-up, in which all factors of a set share one α, ends when a sweep changes the bound by less than this
#: fraction, or after so many sweeps: before that, factors would be judged that have not found their place.
WARM_UP_TOL = 2e-3
MAX_WARM_UP = 200
#: Sweeps between two looks at the structure.
TEST_EVERY = 5
#: Sweeps after the warm-up at which a rotation is tried: often while the factors still find their axes.
ROTATE_AT = (0, 5, 10, 20, 40, 80, 160, 320)
#: Sweeps that new factors get to find their place, and once more to prove themselves; the nats by which they must
#: raise the bound at least (and ten times what counts as flat), and how often they are offered.
GROW_SWEEPS = 10
GROW_GAIN = 1.0
MAX_TRIALS = 10
#: A fall of the bound by more than this fraction is no rounding error: in float64, and in float32, where it is twice
#: what one pass over the cells loses (`python -m fuzz.rounding`). A damped Newton step promises nothing, and gets more.
FALL = {np.dtype("float64"): 1e-9, np.dtype("float32"): 3e-6}
NEWTON_FALL = 1e-5
#: A relation whose bound takes steps this many times too short creeps: a small change of the bound is then no sign that
#: the fit has arrived.
CREEPING = 10.0


class Status(Enum):
    """How a fit ended, in words to act on."""

    CONVERGED = "converged: another sweep would not change the bound"
    MAX_ITER = "stopped at max_iter before converging: raise max_iter, or raise tol if this is precise enough"
    INTERRUPTED = "interrupted: the model is as of the last full sweep"
    NONFINITE = "a number overflowed: the model is as of the last finite sweep; try dtype='float64'"
    ELBO_DECREASED = "the bound fell: lower the damping of solver='newton', or try dtype='float64'"
    ALL_PRUNED = "no factor explains more than it costs: only biases are left"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class StepInfo:
    """What a sweep is worth logging for; handed to every callback."""

    iteration: int
    elbo: float
    change: float
    """By how much the sweep raised the bound."""
    n_factors: int
    """Factors still alive."""
    restart: int
    """Which of the `n_init` runs this is, from 0."""
    snapshot: Callable[[], Fit] = field(repr=False, compare=False)
    """Call it to have the run as it stands: a copy of the factors if it is called, and no cost if not."""


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    spec: Spec
    posterior: Posterior
    trace: tuple[float, ...]
    status: Status

    @property
    def trouble(self) -> str | None:
        """What a user should be warned of, and the way out; None where the run has arrived."""
        if self.status not in (Status.MAX_ITER, Status.NONFINITE, Status.ELBO_DECREASED):
            return None
        slow = [f"{relation.name!r} ({times:.2g} times)" for relation, likelihood, times in
                zip(self.spec.schema.relations, self.spec.likelihoods, self.spec.creep, strict=True)
                if times > CREEPING and likelihood.name == "poisson"]  # fmt: skip
        if not slow:
            return f"{self.status}."
        return (f"{self.status}. The quadratic bound takes steps that are much too short for counts as large as those "
                f"of {', '.join(slow)}: give likelihood=gcmf.likelihoods.Poisson(bound='exact') there.")  # fmt: skip


def fit(
    data: Collection, options: FitOptions, rng: np.random.Generator, callbacks: Sequence[Callable[[StepInfo], object]]
) -> Fit:
    """Fit the model from `n_init` random starts and keep the run with the highest bound.

    A callback that returns True ends its run, which then counts as interrupted; so does Ctrl-C, at the end of the sweep
    (pressed twice, it raises KeyboardInterrupt at once).
    """
    spec, problem = build(data, options)
    n_threads = options.n_threads or available_threads()
    engine = make_engine(problem, device=options.device, dtype=options.dtype, n_threads=n_threads)
    runs: list[Fit] = []
    with Interrupts() as interrupts, single_threaded_blas():
        for restart, child in enumerate(rng.spawn(options.n_init)):
            driver = Driver(spec, engine, options, callbacks=callbacks, restart=restart, interrupts=interrupts)
            runs.append(driver.run(child))
            if interrupts.wanted or runs[-1].status is Status.INTERRUPTED:
                break
    return max(runs, key=lambda run: run.trace[-1])


class Driver:
    """One run from one random start."""

    def __init__(  # noqa: PLR0913 - what a run is made of
        self,
        spec: Spec,
        engine: Engine,
        options: FitOptions,
        *,
        callbacks: Sequence[Callable[[StepInfo], object]],
        restart: int,
        interrupts: Interrupts,
    ) -> None:
        self._spec, self._engine, self._options = spec, engine, options
        self._callbacks, self._restart, self._interrupts = callbacks, restart, interrupts
        self._free = options.pattern is None
        self._switching = self._free and spec.priors.vague and not spec.point
        self._damping: float | None = None
        self._measured = np.full(len(spec.ends), np.nan)
        self._trace: list[float] = []
        self._n_trials = 0
        # Where the bound creeps, a change counts as many times as its steps are too short.
        creep = float(spec.creep.max())
        self._flat = options.tol / (creep if creep > CREEPING else 1.0)
        self._posterior: Posterior
        self._safe: Posterior | None = None

    def run(self, rng: np.random.Generator) -> Fit:
        """Sweep until the bound is flat and the structure stays."""
        self._rng = rng
        self._adopt(start(self._spec, self._pattern(), dtype=self._options.dtype, rng=rng))
        # Whether numbers are finite is looked at after every sweep.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            status = self._loop()
        if status in (Status.NONFINITE, Status.ELBO_DECREASED):
            self._posterior = self._last_good()
        return Fit(self._spec, self._posterior, tuple(self._trace), status)

    def _loop(self) -> Status:
        warm, since = True, 0
        for n in range(1, self._options.max_iter + 1):
            self._sweep(warm=warm)
            now = self._bound()
            change, size = now - (self._trace[-1] if self._trace else -np.inf), self._size(now)
            if not np.isfinite(now):
                return Status.NONFINITE
            if change < -self._rounding() * size:
                return Status.ELBO_DECREASED
            self._trace.append(now)
            self._keep_safe()
            if self._report(n, now, change) or self._interrupts.wanted:
                return Status.INTERRUPTED
            warm = warm and change > WARM_UP_TOL * size and n < MAX_WARM_UP
            if warm:
                continue
            moved = self._explore(since)
            since += 1
            flat = since > 1 and self._is_flat(change, size)
            if flat and not moved and not self._restructure() and not self._grow():
                return Status.CONVERGED if self._posterior.on.shape[1] else Status.ALL_PRUNED
        return Status.MAX_ITER

    def _is_flat(self, change: float, size: float) -> bool:
        """Whether the bound has arrived; a fall within rounding is as flat as it gets, except by a Newton step."""
        return (abs(change) if self._damping else change) <= self._flat * size

    def _rounding(self) -> float:
        """By which fraction the bound may fall from one sweep to the next."""
        return NEWTON_FALL if self._damping else FALL[self._posterior.state.mean[0].dtype]

    def _size(self, bound: float) -> float:
        """What changes of the bound are compared with: its size, or the number of cells where it is near zero."""
        return max(abs(bound), float(self._spec.n_weighed.sum()))

    def _report(self, n: int, now: float, change: float) -> bool:
        """Tell the callbacks; whether one of them wants to stop."""
        info = StepInfo(n, now, change, self._posterior.on.shape[1], self._restart, self._snapshot)
        try:
            return any([callback(info) is True for callback in self._callbacks])
        except KeyboardInterrupt:
            return True

    def _snapshot(self) -> Fit:
        return Fit(self._spec, self._posterior.copy(), tuple(self._trace), Status.INTERRUPTED)

    def _pattern(self) -> NDArray[np.bool_]:
        names, pattern = self._spec.schema.entities, self._options.pattern
        if pattern is None:
            return np.ones((len(names), self._options.n_factors), dtype=bool)
        if set(pattern) != set(names):
            msg = f"The pattern names {sorted(pattern)}, but the entity sets are {sorted(names)}."
            raise OptionError(msg)
        return np.stack([np.array(pattern[name], dtype=bool) for name in names])

    def _adopt(self, posterior: Posterior) -> None:
        # Known once here, and from then on kept by the sweeps.
        self._posterior = posterior._replace(known=posterior.moments)
        self._engine.place(posterior.state)

    def _keep_safe(self) -> None:
        """Remember the state after a good sweep."""
        spare = self._safe.state if self._safe is not None else None
        self._safe = self._posterior._replace(state=self._posterior.state.copy_to(spare))

    def _last_good(self) -> Posterior:
        """The state after the last sweep whose bound was finite and had not fallen."""
        if self._safe is not None:
            return self._safe
        names = ", ".join(repr(relation.name) for relation in self._spec.schema.relations)
        msg = (f"Numbers overflowed in the first sweep over {names}, so there is no model to return. Look for values "
               "of very different sizes within one relation, or for priors that are nearly vague.")  # fmt: skip
        raise NumericalError(msg)

    def _hyper(self) -> Hyper:
        return hyper_of(self._spec, self._posterior, self._damping)

    def _bound(self) -> float:
        """Return the bound after a sweep."""
        return elbo(self._spec, self._posterior, self._measured)

    def _measured_bound(self) -> float:
        """Return the bound at any state: a pass over the cells, each with a bound that touches at its θ."""
        return elbo(self._spec, self._posterior, self._engine.measure(self._hyper()))

    def _sweep(self, *, warm: bool, held: int = 0) -> None:
        """Every entity set once, then the precisions and the bias priors; α of the last `held` factors stays."""
        spec, hyper = self._spec, self._hyper()
        swept = [self._engine.sweep(e, hyper) for e in range(len(spec.sizes))]
        # Each relation is measured by one of its two sets.
        self._measured = np.fmax.reduce([one.measured for one in swept])
        posterior = self._posterior._replace(known=Moments.swept(swept))
        posterior = update_alpha(spec, posterior, pooled=warm, held=held)
        posterior = update_tau(spec, posterior, self._measured)
        posterior = moves.shift(spec, update_bias_prior(spec, posterior))
        self._posterior = posterior if warm else gauge.rescale(spec, posterior, held=held)

    def _explore(self, since: int) -> bool:
        """Whether a rotation or a change of structure was made."""
        moved = self._free and since in ROTATE_AT and self._rotate(bold=since > 0)
        if since % TEST_EVERY == 0 and since:
            moved |= self._restructure()
        return moved

    def _restructure(self) -> bool:
        """Switch off and cut what costs more than it gains; the bound must rise."""
        if not self._switching:
            return False
        gain, energy = self._engine.weigh(self._hyper())
        room = self._options.n_factors - self._posterior.on.shape[1]
        found = structure.changes(self._spec, self._posterior, gain, energy, room=room)
        if not found:
            return False
        before = self._posterior
        # Without a quadratic bound the predicted change is only an estimate.
        sure = all(likelihood.quadratic_is_bound for likelihood in self._spec.likelihoods)
        bound = -np.inf if sure else self._measured_bound()
        self._adopt(moves.restructure(before, found))
        if sure or self._measured_bound() > bound:
            return True
        self._adopt(before)
        return False

    def _grow(self) -> bool:
        """Offer every relation one more private factor; kept only if the bound is higher in the end.

        The warm-up lets strong factors hide weak ones: what a small relation has of its own shows only once the
        others are settled. Sweeps of the trial are no part of the trace; the bound of one that is kept becomes
        its last entry.
        """
        room = min(self._options.n_factors - self._posterior.on.shape[1], len(self._spec.ends))
        # With a common α every factor lives in all sets: none is private.
        if not self._switching or self._spec.common or room == 0 or self._n_trials == MAX_TRIALS:
            return False
        self._n_trials += 1
        relations = self._rng.permutation(len(self._spec.ends))[:room].tolist()
        before, measured = self._posterior.copy(), self._measured
        better = False
        try:
            self._adopt(moves.grow(self._spec, self._posterior, relations, self._rng))
            # A random direction is not judged before it had time to turn to what is left to explain.
            for held in [room] * GROW_SWEEPS + [0] * GROW_SWEEPS:
                self._sweep(warm=False, held=held)
                if self._interrupts.wanted:
                    return False
            self._restructure()
            self._sweep(warm=False)
            bound = self._bound()
            better = bound - self._trace[-1] > max(GROW_GAIN, 10.0 * self._options.tol * self._size(bound))
        finally:
            if better:
                self._trace[-1] = bound
                self._keep_safe()
            else:
                self._measured = measured
                self._adopt(before)
        return better

    def _rotate(self, *, bold: bool) -> bool:
        """Turn the factors towards the group sparsity; kept only if the bound rises."""
        spec = self._spec
        before = self._posterior = update_alpha(spec, self._posterior)
        # The sweep's own measure of cells that have bounds is lower than one in which those bounds touch again.
        bound = self._bound() if spec.gaussian.all() else self._measured_bound()
        for turned in gauge.turns(spec, before, bold=bold):
            self._adopt(turned)
            if self._measured_bound() > bound:
                return True
            self._adopt(before)
        return False
