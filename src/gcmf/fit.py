"""A fit: random starts, one method, the loop around it, and what follows. The same for every engine and estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.carried import pack_generator, part, refuse, unpack_generator
from gcmf.engines.select import connected, engine_maker
from gcmf.engines.threads import available_threads, single_threaded_blas
from gcmf.errors import OptionError
from gcmf.interrupts import Interrupts
from gcmf.loop import Loop, Report
from gcmf.methods import redraw
from gcmf.methods.point import Point
from gcmf.methods.run import Run
from gcmf.methods.sampling import Sampling
from gcmf.methods.stages import Continuation, Refinement, Stages
from gcmf.methods.variational import Variational, most_shared
from gcmf.model.posterior import given_of
from gcmf.model.resume import as_before, resumed
from gcmf.model.spec import build
from gcmf.model.spread import spread
from gcmf.model.structure import carried
from gcmf.model.zeros import Drawing, Zeros
from gcmf.outcome import Fit, Status, StepInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.engines.base import Engine
    from gcmf.loop import Keeper
    from gcmf.methods.base import Method
    from gcmf.methods.gibbs import Chain
    from gcmf.model.fitted import Fitted
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

#: Starts beyond `n_init` that are tried where none has found a factor: about one in twenty ends so by bad luck.
MORE_STARTS = 2
#: The number of the draw of zeros that variances are taken from: none that a fit sees.
_LAST_DRAW = 1_000_000


@dataclass(frozen=True)
class _Best:
    """The best run so far, and the engine that it ended with."""

    fit: Fit
    engine: Engine
    drawing: Drawing | None
    dtype: str
    """The precision that the engine had come to."""

    def pack(self) -> dict[str, Any]:
        drawing = None if self.drawing is None else self.drawing.pack()
        return {"fit": self.fit.pack(), "drawing": drawing, "dtype": self.dtype}


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

    Where no start finds a factor, up to `MORE_STARTS` others are tried, until one does.
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
        self._starts += self._rng.spawn(MORE_STARTS if model is None else 0)
        self._n_threads = options.n_threads or available_threads()
        self._dtype = options.dtype if before is None else part(before, "dtype")
        self._engine = self._engine_of(None, dtype=self._dtype)
        self._used = False
        self._best = None if before is None or part(before, "best") is None else self._known(before["best"])

    def go(self) -> Fit:
        """Return the best run."""
        options, spec = self._options, self._spec
        workers = connected(options.device, n_threads=self._n_threads)
        with Interrupts() as interrupts, single_threaded_blas(), workers:
            first = 0 if self._before is None else part(self._before, "start")
            if type(first) is not int or not 0 <= first <= len(self._starts):
                refuse("start", f"is {first!r}, of {len(self._starts)}")
            for n in range(first, len(self._starts)):
                best = self._best
                if n >= options.n_init and best is not None and best.fit.status is not Status.ALL_PRUNED:
                    break
                if (interrupts.wanted and best is not None) or self._run(n, interrupts) is Status.INTERRUPTED:
                    self._best = self._stopped()
                    break
            assert self._best is not None
            found = self._best.fit
            if options.inference == "gibbs" and found.status is not Status.INTERRUPTED:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    found = self._sampled(self._best, interrupts)
            if options.widened and not spec.point and found.draws is None:
                given = given_of(found.spec, found.posterior)
                last = Drawing(_LAST_DRAW, found.state, given.scales)
                cells = self._zeros.problem(last, self._n_threads) if self._zeros else self._problem
                found = replace(found, widths=spread(cells, given, found.state, n_threads=self._n_threads))
        return found

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
        method = self._method_of(run, rng, interrupts)
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
        if self._best is None or found.bound > self._best.fit.bound:
            self._best = _Best(found, run.engine, run.drawing, run.engine.dtype.name)
        return found.status

    def _stopped(self) -> _Best:
        """The best run of starts that were not all made: the fit was interrupted, however that run has ended."""
        assert self._best is not None
        return replace(self._best, fit=replace(self._best.fit, status=Status.INTERRUPTED))

    def _method_of(self, run: Run, rng: np.random.Generator, interrupts: Interrupts) -> Method:
        options = self._options
        if run.spec.point:
            return Point(run, options)
        if self._model is not None:
            return Continuation(run, options, rng)
        structure = Variational(run, options, rng, lambda: interrupts.wanted)
        if options.pattern is not None or not (options.refined and run.spec.priors.vague):
            return structure
        return Stages(structure, Refinement(run, options, rng))

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
            bounds = tuple(trace)

            def snapshot() -> Fit:
                posterior, state = chain.without_centers(chain.fetch())
                status = Status.INTERRUPTED
                return replace(best, posterior=posterior, state=state, trace=bounds, n_settled=None, status=status)

            return report(StepInfo(
                n, now, change, chain.posterior.n_strong, 0, snapshot,
                n_sweeps=sampling.n_sweeps, sampled=True,
            ))  # fmt: skip

        goes_on = None if before is None else (before, self._engine_of(found.drawing, dtype=part(before, "dtype")))
        sampled = sampling.run(best.posterior, best.state, tell, goes_on)
        if sampled is None:
            return replace(best, status=Status.INTERRUPTED)
        status = Status.SAMPLED if sampled.mixed else Status.UNMIXED if sampled.long_enough else Status.TOO_FEW_DRAWS
        if sampled.stopped:
            status = Status.INTERRUPTED
        if not np.isfinite(sampled.trace[-1]):
            status = Status.NONFINITE
        return replace(
            best, posterior=sampled.posterior, state=sampled.state, trace=tuple(sampled.trace), n_settled=None,
            status=status, draws=sampled.draws,
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
        return _Best(Fit.unpack(self._spec, part(values, "fit")), engine, drawing, dtype)

    def _drawing(self, values: dict[str, Any] | None) -> Drawing | None:
        return None if values is None else Drawing.unpack(self._spec, values)


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
