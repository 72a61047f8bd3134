"""A fit: random starts, one method, the loop around it, and how it ended. The same for every engine and estimator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.select import engine_maker
from gcmf.engines.threads import available_threads, single_threaded_blas
from gcmf.errors import NumericalError, OptionError
from gcmf.interrupts import Interrupts
from gcmf.methods import redraw
from gcmf.methods.point import Point
from gcmf.methods.run import GOOD, Run
from gcmf.methods.sampling import Sampling
from gcmf.methods.stages import Continuation, Refinement, Stages
from gcmf.methods.variational import Variational, most_shared
from gcmf.model.dispersion import outweighed, overdispersed
from gcmf.model.elbo import terms
from gcmf.model.fitted import objective_of, summarize
from gcmf.model.posterior import given_of
from gcmf.model.resume import as_before, resumed
from gcmf.model.spec import build
from gcmf.model.spread import spread
from gcmf.model.structure import carried
from gcmf.model.zeros import Zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.data.zeros import Drawn
    from gcmf.engines.base import Engine, Scales, State
    from gcmf.methods.base import Method
    from gcmf.methods.gibbs import Chain
    from gcmf.model.draws import Draws
    from gcmf.model.fitted import Fitted
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.model.spread import Spread
    from gcmf.options import FitOptions

#: A fall of the bound by more than this fraction is no rounding error: in float64, and in float32, where it is twice
#: what one pass over the cells loses (`python -m fuzz.rounding`).
FALL = {np.dtype("float64"): 1e-9, np.dtype("float32"): 3e-6}
#: A relation whose bound takes steps this many times too short creeps: a small change of the bound is then no sign that
#: the fit has arrived.
CREEPING = 10.0
#: The number of the draw of zeros that variances are taken from: none that a fit sees.
_LAST_DRAW = 1_000_000


class Status(Enum):
    """How a fit ended, in words to act on."""

    CONVERGED = "converged: another sweep would not change the bound"
    MAX_ITER = "stopped at max_iter before converging: raise max_iter, or raise tol if this is precise enough"
    INTERRUPTED = "interrupted: the model is as of the last full sweep"
    NONFINITE = "a number overflowed: the model is as of the last finite sweep; try dtype='float64'"
    ELBO_DECREASED = "the bound fell: try dtype='float64'"
    CAPPED = "converged, but all factors are in use and more would raise the bound: raise n_factors, or leave it 'auto'"
    SAMPLED = "sampled: the draws of predictions agree"
    UNMIXED = "sampled, but the draws of predictions do not agree yet (R-hat > 1.1): raise n_burn and n_samples"
    ALL_PRUNED = "no factor explains more than it costs: only biases are left"

    def __str__(self) -> str:
        return self.value


_TROUBLED = (Status.MAX_ITER, Status.NONFINITE, Status.ELBO_DECREASED, Status.CAPPED, Status.UNMIXED)


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
    terms: Callable[[], dict[str, float]] = field(default=dict, repr=False, compare=False)
    """Call it to have the bound term by term; draws have none."""
    n_sweeps: int = 0
    """After how many sweeps the run, or its sampling, ends at the latest."""
    sampled: bool = False
    """Whether the sweep was a draw: `elbo` is then the log joint density, and `iteration` counts the draws."""

    @property
    def objective(self) -> str:
        """What `elbo` is, in words."""
        return objective_of(sampled=self.sampled)


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    spec: Spec
    posterior: Posterior
    state: State
    trace: tuple[float, ...]
    status: Status
    drawn: Mapping[str, Drawn]
    """Of which relations zeros were drawn, and how many."""
    widths: Spread | None = None
    """How uncertain factors and biases are, each by itself, where that was asked for."""
    draws: Draws | None = None
    """States of a sampled model; posterior and state then are means over them."""

    def summarize(self, data: Collection) -> Fitted:
        """Return what remains of the run: everything that answers need."""
        known = summarize(self.spec, self.posterior, self.state, data, widths=self.widths, draws=self.draws)
        return replace(known, drawn=self.drawn)

    def doubts(self, data: Collection) -> str | None:
        """What does not suit the data that were fitted, and the way out; None where nothing of the kind shows."""
        return " ".join(filter(None, (self._overdispersed(data), self._outweighed(data)))) or None

    def _overdispersed(self, data: Collection) -> str | None:
        found = overdispersed(self.spec, self.posterior, self.state, data)
        if not found:
            return None
        advice = dict.fromkeys(self.spec.likelihoods[m].if_overdispersed for m in found)
        names = ", ".join(f"{self.spec.schema.relations[m].name!r} ({times:.3g} times)" for m, times in found.items())
        kinds = " and ".join(dict.fromkeys(self.spec.likelihoods[m].name for m in found))
        return (f"the squared residuals are larger than {kinds} cells could have in {names}, so that noise is fitted as"
                f" signal: {'; '.join(advice)}.")  # fmt: skip

    def _outweighed(self, data: Collection) -> str | None:
        found = outweighed(self.spec, self.posterior, data)
        names = ", ".join(f"{self.spec.schema.relations[m].name!r} ({mean:.3g})" for m, mean in found.items())
        return names and (
            f"cells are met exactly, without noise, where they weigh more than 1 on average: {names}. A weight of 2"
            " says that the same number was measured twice; divide weights that say something else by their mean."
        )

    @property
    def trouble(self) -> str | None:
        """What a user should be warned of, and the way out; None where the run has arrived."""
        if self.status not in _TROUBLED:
            return None
        slow: dict[str, list[str]] = {}
        relations = zip(self.spec.schema.relations, self.spec.likelihoods, self.spec.creep, strict=True)
        for relation, likelihood, times in relations:
            if times > CREEPING and likelihood.if_slow:
                slow.setdefault(likelihood.if_slow, []).append(f"{relation.name!r} ({times:.2g} times)")
        advice = (
            f" The quadratic bound takes steps that are much too short for {way_out.format(', '.join(names))}."
            for way_out, names in slow.items()
        )
        return f"{self.status}.{''.join(advice)}"


def fit(
    data: Collection,
    options: FitOptions,
    rng: np.random.Generator,
    callbacks: Sequence[Callable[[StepInfo], object]],
    *,
    model: Fitted | None = None,
) -> Fit:
    """Fit the model from `n_init` random starts and keep the run with the highest bound; or go on from a `model`.

    A callback that returns True ends its run, which then counts as interrupted; so does Ctrl-C, at the end of the sweep
    (pressed twice, it raises KeyboardInterrupt at once).
    """
    make_engine = engine_maker(options.device)
    spec, problem = build(data, options)
    starts = rng.spawn(options.n_init if model is None else 1)
    if model is not None:
        spec, problem = as_before(spec, problem, model)
    zeros = Zeros(data, spec, problem, rng)

    def engine_of(state: State | None, draw: int, scales: Scales | None = None) -> Engine:
        n_threads = options.n_threads or available_threads()
        cells = zeros.problem(state, draw, n_threads, scales) if zeros else problem
        return make_engine(cells, dtype=options.dtype, n_threads=n_threads)

    engine = engine_of(None, 0)
    runs: list[tuple[float, Fit, Engine]] = []
    with Interrupts() as interrupts, single_threaded_blas():
        for restart, child in enumerate(starts):
            run = Run(spec, engine)
            if model is None:
                run.begin(_pattern(spec, options), dtype=options.dtype, rng=child, reach=_reach(spec, options))
            else:
                run.resume(*resumed(spec, model, data, dtype=options.dtype))

            def proof(run=run, child=child) -> bool:
                from gcmf.proof import opened_predicts_better
                if zeros: return False
                n_threads = options.n_threads or available_threads()
                return opened_predicts_better(
                    run, data, options, lambda p: make_engine(p, dtype=options.dtype, n_threads=n_threads), child.spawn(1)[0]
                )

            method = _method_of(run, options, child, interrupts, goes_on=model is not None, proof=proof)
            if zeros:
                method = redraw.Redrawn(method, run, engine_of)
            loop = Loop(run, method, options, callbacks=callbacks, restart=restart, interrupts=interrupts, zeros=zeros)
            found = loop.go()
            runs.append((found.trace[-1] if run.structured is None else run.structured, found, run.engine))
            if interrupts.wanted or found.status is Status.INTERRUPTED:
                break
        _, best, engine = max(runs, key=lambda run: run[0])
        if options.inference == "gibbs" and best.status is not Status.INTERRUPTED:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                best = _sampled(best, engine, options, rng, (callbacks, interrupts))
        if options.widened and not spec.point and best.draws is None:
            given, n_threads = given_of(spec, best.posterior), options.n_threads or available_threads()
            cells = zeros.problem(best.state, _LAST_DRAW, n_threads, given.scales) if zeros else problem
            best = replace(best, widths=spread(cells, given, best.state, n_threads=n_threads))
    return best


def _sampled(
    found: Fit, engine: Engine, options: FitOptions, rng: np.random.Generator,
    watched: tuple[Sequence[Callable[[StepInfo], object]], Interrupts],
) -> Fit:  # fmt: skip
    """Go on from a variational fit with draws; if none was made in time, the fit as it was."""
    callbacks, interrupts = watched
    before: list[float] = []

    def report(n: int, now: float, chain: Chain) -> bool:
        change = now - before[-1] if before else 0.0
        before.append(now)
        posterior, trace = chain.posterior, tuple(before)
        info = StepInfo(
            n, now, change, posterior.n_strong, 0,
            lambda: replace(found, posterior=posterior, state=chain.fetch(), trace=trace, status=Status.INTERRUPTED),
            n_sweeps=options.n_chains * (options.n_burn + options.n_samples), sampled=True,
        )  # fmt: skip
        try:
            return any([callback(info) is True for callback in callbacks]) or interrupts.wanted
        except KeyboardInterrupt:
            return True

    seed = int(rng.integers(1 << 31))
    sampled = Sampling(found.spec, engine, options, seed=seed).run(found.posterior, found.state, report)
    if sampled is None:
        return replace(found, status=Status.INTERRUPTED)
    status = Status.INTERRUPTED if sampled.stopped else Status.SAMPLED if sampled.mixed else Status.UNMIXED
    if not np.isfinite(sampled.trace[-1]):
        status = Status.NONFINITE
    return replace(
        found, posterior=sampled.posterior, state=sampled.state, trace=tuple(sampled.trace), status=status,
        draws=sampled.draws,
    )  # fmt: skip


def _method_of(
    run: Run, options: FitOptions, rng: np.random.Generator, interrupts: Interrupts, *, goes_on: bool,
    proof: Callable[[], bool],
) -> Method:
    if run.spec.point:
        return Point(run, options)
    if goes_on:
        return Continuation(run, options, rng)
    structure = Variational(run, options, rng, lambda: interrupts.wanted)
    if options.pattern is not None or not (options.refined and run.spec.priors.vague):
        return structure
    return Stages(structure, Refinement(run, options, rng), proof)


class Loop:
    """Sweeps until the method has arrived: keeps the trace, tells the callbacks, and never returns a broken state."""

    def __init__(  # noqa: PLR0913 - what a loop is made of
        self,
        run: Run,
        method: Method,
        options: FitOptions,
        *,
        callbacks: Sequence[Callable[[StepInfo], object]],
        restart: int,
        interrupts: Interrupts,
        zeros: Zeros | None = None,
    ) -> None:
        self._run, self._method, self._max_iter = run, method, options.max_iter
        self._callbacks, self._restart, self._interrupts, self._zeros = callbacks, restart, interrupts, zeros
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
        for n in range(1, self._max_iter + 1):
            self._method.sweep()
            now = run.bound()
            change, size = now - (run.trace[-1] if run.trace else -np.inf), run.size(now)
            if not np.isfinite(now):
                return Status.NONFINITE
            if change < -FALL[run.engine.dtype] * size:
                return Status.ELBO_DECREASED
            run.trace.append(now)
            run.keep(GOOD)
            if self._report(n, now, change) or self._pressed():
                return Status.INTERRUPTED
            if self._method.arrived(change, size, self._tol * size):
                return _ended(run, self._method)
            if self._pressed():  # while something was tried
                return Status.INTERRUPTED
        return Status.MAX_ITER

    def _pressed(self) -> bool:
        """Whether somebody has pressed Ctrl-C by now."""
        return self._interrupts.wanted

    def _report(self, n: int, now: float, change: float) -> bool:
        """Tell the callbacks; whether one of them wants to stop."""
        run = self._run
        info = StepInfo(
            n, now, change, run.posterior.n_strong, self._restart, lambda: self._as_it_stands(Status.INTERRUPTED),
            lambda: {**terms(run.spec, run.posterior, run.measured), "level": run.level}, n_sweeps=self._max_iter,
        )  # fmt: skip
        try:
            return any([callback(info) is True for callback in self._callbacks])
        except KeyboardInterrupt:
            return True

    def _as_it_stands(self, status: Status) -> Fit:
        run = self._run
        return Fit(
            run.spec,
            run.posterior,
            run.engine.fetch(),
            tuple(run.trace),
            status,
            dict(self._zeros.drawn) if self._zeros else {},
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


def _reach(spec: Spec, options: FitOptions) -> NDArray[np.bool_] | None:
    """Which relations see which factors, if the options say so, (M, K)."""
    if options.reach is None:
        return None
    reach = np.stack([np.array(options.reach[r.name], dtype=bool) for r in spec.schema.relations])
    return reach & carried(spec, _pattern(spec, options))


def _pattern(spec: Spec, options: FitOptions) -> NDArray[np.bool_]:
    """Which factors may live where: all of them everywhere, or what the options say, (E, K)."""
    names, pattern = spec.schema.entities, options.pattern
    if pattern is None:
        n_factors = min(options.n_start, most_shared(spec)) if options.n_factors == "auto" else options.n_start
        return np.ones((len(names), n_factors), dtype=bool)
    if set(pattern) != set(names):
        msg = f"The pattern names {sorted(pattern)}, but the entity sets are {sorted(names)}."
        raise OptionError(msg)
    return np.stack([np.array(pattern[name], dtype=bool) for name in names])
