"""A fit: random starts, one method, the loop around it, and how it ended. The same for every engine and estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.carried import pack_generator, part, refuse, unpack_generator
from gcmf.data.zeros import Drawn
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
from gcmf.model.fitted import summarize
from gcmf.model.packing import in_order, pack, pack_state, unpack_posterior, unpack_state
from gcmf.model.posterior import given_of
from gcmf.model.resume import as_before, resumed
from gcmf.model.spec import build
from gcmf.model.spread import spread
from gcmf.model.structure import carried
from gcmf.model.zeros import Drawing, Zeros

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.engines.base import Engine, State
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

    def pack(self) -> dict[str, Any]:
        """As plain values, for another process."""
        return {
            "posterior": pack(in_order(self.posterior)), "state": pack_state(self.state), "trace": np.array(self.trace),
            "status": self.status.name, "drawn": {name: list(drawn) for name, drawn in self.drawn.items()},
        }  # fmt: skip

    @classmethod
    def unpack(cls, spec: Spec, values: dict[str, Any]) -> Fit:
        """What `pack` gave, of a model of this spec."""
        posterior = unpack_posterior(spec, part(values, "posterior"))
        state = unpack_state(spec, posterior.n_factors, part(values, "state"))
        status, trace, drawn = (part(values, name) for name in ("status", "trace", "drawn"))
        if status not in Status.__members__ or not isinstance(trace, np.ndarray) or not isinstance(drawn, dict):
            refuse("best", "does not say how it ended")
        counts = {name: Drawn(*map(int, pair)) for name, pair in drawn.items()}
        return cls(spec, posterior, state, tuple(trace.tolist()), Status[status], counts)

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


@dataclass(frozen=True)
class _Best:
    """The best run so far, and the engine that it ended with."""

    bound: float
    fit: Fit
    engine: Engine
    drawing: Drawing | None
    dtype: str
    """The precision that the engine had come to."""

    def pack(self) -> dict[str, Any]:
        drawing = None if self.drawing is None else self.drawing.pack()
        return {"bound": self.bound, "fit": self.fit.pack(), "drawing": drawing, "dtype": self.dtype}


Keeper = Callable[[StepInfo, Callable[[], dict[str, Any]], bool], object]
"""Told of a sweep, how to have all that another process needs to go on from it, and whether it is the last one."""


def fit(  # noqa: PLR0913 - what is fitted, how, who is told, and where it goes on
    data: Collection,
    options: FitOptions,
    rng: np.random.Generator,
    callbacks: Sequence[Callable[[StepInfo], object]],
    *,
    model: Fitted | None = None,
    keeper: Keeper | None = None,
    before: dict[str, Any] | None = None,
) -> Fit:
    """Fit the model from `n_init` random starts and keep the run with the highest bound; or go on from a `model`.

    A callback that returns True ends its run, which then counts as interrupted; so does Ctrl-C, at the end of the sweep
    (pressed twice, it raises KeyboardInterrupt at once). `before` is what a keeper had of a sweep of the same fit: it
    goes on after it, and ends with the same bits.
    """
    return _Fitting(data, options, rng, (callbacks, keeper), model=model, before=before).go()


class _Fitting:
    """All starts of a fit, and what follows them."""

    def __init__(  # noqa: PLR0913 - as `fit`
        self,
        data: Collection,
        options: FitOptions,
        rng: np.random.Generator,
        told: tuple[Sequence[Callable[[StepInfo], object]], Keeper | None],
        *,
        model: Fitted | None,
        before: dict[str, Any] | None,
    ) -> None:
        self._make_engine = engine_maker(options.device)
        self._data, self._options, self._model, self._before = data, options, model, before
        self._callbacks, self._keeper = told
        self._rng = rng if before is None else unpack_generator(part(before, "rng"))
        self._begun = pack_generator(self._rng) if self._keeper is not None else ""
        self._spec, self._problem = build(data, options)
        self._starts = self._rng.spawn(options.n_init if model is None else 1)
        if model is not None:
            self._spec, self._problem = as_before(self._spec, self._problem, model)
        self._zeros = Zeros(data, self._spec, self._problem, self._rng)
        self._n_threads = options.n_threads or available_threads()
        self._dtype = options.dtype if before is None else part(before, "dtype")
        self._engine = self._engine_of(None, dtype=self._dtype)
        self._used = False
        self._best = None if before is None or part(before, "best") is None else self._known(before["best"])

    def go(self) -> Fit:
        """Return the best run."""
        options, spec = self._options, self._spec
        with Interrupts() as interrupts, single_threaded_blas():
            first = 0 if self._before is None else part(self._before, "start")
            if type(first) is not int or not 0 <= first <= len(self._starts):
                refuse("start", f"is {first!r}, of {len(self._starts)}")
            for n in range(first, len(self._starts)):
                ended = self._run(n, interrupts)
                if interrupts.wanted or ended is Status.INTERRUPTED:
                    break
            assert self._best is not None
            best = self._best.fit
            if options.inference == "gibbs" and best.status is not Status.INTERRUPTED:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    best = self._sampled(self._best, interrupts)
            if options.widened and not spec.point and best.draws is None:
                given = given_of(spec, best.posterior)
                last = Drawing(_LAST_DRAW, best.state, given.scales)
                cells = self._zeros.problem(last, self._n_threads) if self._zeros else self._problem
                best = replace(best, widths=spread(cells, given, best.state, n_threads=self._n_threads))
        return best

    def _engine_of(self, drawing: Drawing | None, *, dtype: str | None = None) -> Engine:
        if dtype not in (None, "float32", "float64"):
            refuse("dtype", f"is {dtype!r}")
        cells = self._zeros.problem(drawing, self._n_threads) if self._zeros else self._problem
        return self._make_engine(cells, dtype=dtype or self._options.dtype, n_threads=self._n_threads)

    def _run(self, n: int, interrupts: Interrupts) -> Status:
        """Fit from one start; the best run may be another then."""
        spec, options, rng = self._spec, self._options, self._starts[n]
        before = None if self._before is None or n > self._before["start"] else self._before
        run = Run(spec, self._engine)
        if before is not None:
            rng = unpack_generator(part(before, "child"))
            run.drawing = self._drawing(part(before, "drawing"))
            if run.drawing is not None:
                run.engine = self._engine_of(run.drawing, dtype=part(before, "run_dtype"))
            run.unpack(part(before, "run"))
        elif self._model is None:
            run.begin(_pattern(spec, options), dtype=options.dtype, rng=rng, reach=_reach(spec, options))
        else:
            run.resume(*resumed(spec, self._model, self._data, dtype=options.dtype))
        self._used = self._used or run.engine is self._engine
        method = _method_of(run, options, rng, interrupts, goes_on=self._model is not None)
        if self._zeros:
            method = redraw.Redrawn(method, run, self._engine_of)
        if before is not None:
            method.unpack(part(before, "method"))

        def packed() -> dict[str, Any]:
            drawing = None if run.drawing is None else run.drawing.pack()
            return {**self._packed(n), "child": pack_generator(rng), "drawing": drawing, "run": run.pack(),
                    "run_dtype": run.engine.dtype.name, "method": method.pack()}  # fmt: skip

        report = Report(self._callbacks, self._keeper, packed, interrupts)
        found = Loop(run, method, options, report=report, restart=n, zeros=self._zeros).go()
        bound = found.trace[-1] if run.structured is None else run.structured
        if self._best is None or bound > self._best.bound:
            self._best = _Best(bound, found, run.engine, run.drawing, run.engine.dtype.name)
        return found.status

    def _sampled(self, found: _Best, interrupts: Interrupts) -> Fit:
        """Go on from a variational fit with draws; if none was made in time, the fit as it was."""
        trace: list[float] = []
        seed, best, before = int(self._rng.integers(1 << 31)), found.fit, self._before
        before = None if before is None else before.get("draws")
        dtype = self._first_dtype if found.drawing is None else found.dtype
        dtype = dtype if before is None else part(before, "first_dtype")
        engine = found.engine if before is None else self._engine_of(found.drawing, dtype=dtype)
        sampling = Sampling(best.spec, engine, self._options, seed=seed)
        report = Report(
            self._callbacks, self._keeper,
            lambda: {**self._packed(len(self._starts)), "draws": {**sampling.pack(), "first_dtype": dtype}}, interrupts,
        )  # fmt: skip
        if before is not None:
            trace += part(before, "trace").tolist()

        def tell(n: int, now: float, chain: Chain) -> bool:
            change = now - trace[-1] if trace else 0.0
            trace.append(now)
            posterior, bounds = chain.posterior, tuple(trace)
            return report(StepInfo(
                n, now, change, posterior.n_strong, 0,
                lambda: replace(
                    best, posterior=posterior, state=chain.fetch(), trace=bounds, status=Status.INTERRUPTED
                ),
            ))  # fmt: skip

        goes_on = None if before is None else (before, self._engine_of(found.drawing, dtype=part(before, "dtype")))
        sampled = sampling.run(best.posterior, best.state, tell, goes_on)
        if sampled is None:
            return replace(best, status=Status.INTERRUPTED)
        status = Status.INTERRUPTED if sampled.stopped else Status.SAMPLED if sampled.mixed else Status.UNMIXED
        if not np.isfinite(sampled.trace[-1]):
            status = Status.NONFINITE
        return replace(
            best, posterior=sampled.posterior, state=sampled.state, trace=tuple(sampled.trace), status=status,
            draws=sampled.draws,
        )  # fmt: skip

    def _packed(self, start: int) -> dict[str, Any]:
        """What is the same for all sweeps of a start."""
        best = None if self._best is None else self._best.pack()
        return {"rng": self._begun, "start": start, "best": best, "dtype": self._first_dtype}

    @property
    def _first_dtype(self) -> str:
        """The precision that the engine has come to with which runs start."""
        return self._engine.dtype.name if self._used else self._dtype

    def _known(self, values: dict[str, Any]) -> _Best:
        """The best run of those that ended in another process."""
        drawing = self._drawing(part(values, "drawing"))
        dtype = part(values, "dtype")
        engine = self._engine if drawing is None else self._engine_of(drawing, dtype=dtype)
        return _Best(float(part(values, "bound")), Fit.unpack(self._spec, part(values, "fit")), engine, drawing, dtype)

    def _drawing(self, values: dict[str, Any] | None) -> Drawing | None:
        return None if values is None else Drawing.unpack(self._spec, values)


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


def _method_of(
    run: Run, options: FitOptions, rng: np.random.Generator, interrupts: Interrupts, *, goes_on: bool
) -> Method:
    if run.spec.point:
        return Point(run, options)
    if goes_on:
        return Continuation(run, options, rng)
    structure = Variational(run, options, rng, lambda: interrupts.wanted)
    if options.pattern is not None or not (options.refined and run.spec.priors.vague):
        return structure
    return Stages(structure, Refinement(run, options, rng))


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
        n_factors = self._run.posterior.n_strong
        info = StepInfo(n, now, change, n_factors, self._restart, lambda: self._as_it_stands(Status.INTERRUPTED))
        return self._report(info)

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
