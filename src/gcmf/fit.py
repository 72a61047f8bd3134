"""The driver: start, sweep, update, test, stop. One loop for every engine and estimator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from gcmf.model import moves, structure
from gcmf.model.elbo import elbo
from gcmf.model.hyper import update_alpha, update_bias_prior, update_tau
from gcmf.model.init import start
from gcmf.model.posterior import Posterior, hyper_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.engines.base import Engine, Hyper
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

#: Sweeps with broad α before any factor is judged.
WARM_UP = 20
#: Sweeps between two looks at the structure.
TEST_EVERY = 5
#: Sweeps after the warm-up at which a rotation is tried: often while the factors still find their axes.
ROTATE_AT = (0, 5, 10, 20, 40, 80, 160, 320)


class Status(Enum):
    """How a fit ended, in words to act on."""

    CONVERGED = "converged: a sweep no longer changes the bound"
    MAX_ITER = "stopped at max_iter before converging: raise max_iter, or tol if the bound is flat enough for you"
    INTERRUPTED = "interrupted: the model is as of the last full sweep"
    NONFINITE = "a number overflowed: the model is as of the last finite sweep; try dtype='float64' or rescale the data"
    ELBO_DECREASED = "the bound fell: expected of solver='newton' with too large a damping; otherwise try dtype='float64'"
    ALL_PRUNED = "no factor explains more than it costs: only biases are left"


@dataclass(frozen=True)
class StepInfo:
    """What one sweep is worth logging for."""

    iteration: int
    elbo: float
    change: float
    n_factors: int


@dataclass(frozen=True)
class Fit:
    """A finished fit."""

    spec: Spec
    posterior: Posterior
    trace: tuple[float, ...]
    status: Status


class Driver:
    """One run from one random start."""

    def __init__(self, spec: Spec, engine: Engine, options: FitOptions, callback: Callable[[StepInfo], None]) -> None:
        self._spec, self._engine, self._options, self._callback = spec, engine, options, callback
        self._switching = spec.priors.vague and not spec.point and options.pattern is None
        self._damping = options.damping if options.solver == "newton" else None
        self._measured = np.full(len(spec.ends), np.nan)
        self._trace: list[float] = []

    def run(self, rng: np.random.Generator) -> Fit:
        """Sweep until the bound is flat and the structure stays."""
        self._adopt(start(self._spec, self._pattern(), dtype=self._options.dtype, rng=rng))
        status = Status.MAX_ITER
        for n in range(1, self._options.max_iter + 1):
            before = self._trace[-1] if self._trace else -np.inf
            self._sweep(warm=n <= WARM_UP)
            now = self._trace[-1]
            self._callback(StepInfo(n, now, now - before, self._posterior.on.shape[1]))
            moved = n >= WARM_UP and self._explore(n - WARM_UP)
            if self._posterior.on.shape[1] == 0 and moved:
                status = Status.ALL_PRUNED
                break
            if n > WARM_UP + 1 and not moved and now - before < self._options.tol * max(abs(now), 1.0):
                if self._restructure():
                    continue
                status = Status.CONVERGED
                break
        return Fit(self._spec, self._posterior, tuple(self._trace), status)

    def _pattern(self) -> NDArray[np.bool_]:
        names, pattern = self._spec.schema.entities, self._options.pattern
        if pattern is None:
            return np.ones((len(names), self._options.n_factors), dtype=bool)
        return np.stack([np.array(pattern[name], dtype=bool) for name in names])

    def _adopt(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._engine.place(posterior.state)

    def _hyper(self) -> Hyper:
        return hyper_of(self._spec, self._posterior, self._damping)

    def _sweep(self, *, warm: bool) -> None:
        """Every entity set once, then the precisions and the bias priors."""
        spec = self._spec
        for e in range(len(spec.sizes)):
            completed = self._engine.sweep(e, self._hyper())
            self._measured = np.where(np.isnan(completed), self._measured, completed)
            if not warm:
                self._posterior = update_alpha(spec, self._posterior)
        self._posterior = update_tau(spec, self._posterior, self._measured)
        self._posterior = moves.shift(spec, update_bias_prior(spec, self._posterior))
        self._trace.append(elbo(spec, self._posterior, self._measured))

    def _explore(self, since: int) -> bool:
        """Whether a rotation or a change of structure was made."""
        moved = False
        if since in ROTATE_AT and not self._spec.point and self._options.pattern is None:
            moved = self._rotate()
        if since % TEST_EVERY == 0 and since:
            moved |= self._restructure()
        return moved

    def _restructure(self) -> bool:
        if not self._switching:
            return False
        gain, energy = self._engine.weigh(self._hyper())
        room = self._options.n_factors - self._posterior.on.shape[1]
        found = structure.changes(self._spec, self._posterior, gain, energy, room=room)
        if found:
            self._adopt(moves.restructure(self._posterior, found))
        return bool(found)

    def _rotate(self) -> bool:
        """Turn the factors towards the group sparsity; kept only if the bound rises."""
        spec = self._spec
        before = self._posterior = update_alpha(spec, self._posterior)
        bound = elbo(spec, before, self._measured)
        R = moves.sparsest_rotation(spec, before)
        turned = update_alpha(spec, moves.rotate(before, np.stack([R] * len(spec.sizes))))
        self._adopt(turned)
        if elbo(spec, turned, self._engine.measure(self._hyper())) > bound:
            return True
        self._adopt(before)
        return False
