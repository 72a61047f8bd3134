"""Chains one after the other, what is kept of them, and when they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.carried import part, refuse
from gcmf.gamma import Gamma
from gcmf.methods.gibbs import Chain
from gcmf.model import moves
from gcmf.model.conditionals import begin
from gcmf.model.draws import n_kept
from gcmf.model.hyper import update_alpha_prior
from gcmf.model.recording import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.engines.base import Engine, State
    from gcmf.model.draws import Draws
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

#: R-hat of what chains are judged by above which they have not mixed.
MIXED = 1.1
#: Size of factors that are added, of one that explains all: they are to grow if the data want them.
SMALL = 0.3
#: Factors that are added where their number is left to the fit: what variational Bayes found is no upper limit, and
#: draws of no more factors than that are too sure wherever it found too few (docs/model.md, "Sampling").
N_MORE = 3
#: The shape of the prior of α, at most, where factors are added. Variational Bayes learns it from the factors that it
#: has found, which are alike; those that it has not found are smaller, by how much nobody knows.
UNLIKE = 0.5


@dataclass(frozen=True)
class Sampled:
    """What remains of the chains."""

    draws: Draws
    posterior: Posterior
    state: State
    """Means over all draws, and their variances."""
    trace: list[float]
    """Log joint density after every sweep of every chain."""
    stopped: bool

    @property
    def mixed(self) -> bool:
        """Whether R-hat says so of all relations."""
        return self.long_enough and bool((self.draws.r_hat <= MIXED).all())

    @property
    def long_enough(self) -> bool:
        """Whether there are draws enough for R-hat to say anything."""
        return bool((self.draws.r_hat > 0.0).all())


class Sampling:
    """Runs `n_chains` chains from a variational solution.

    Each sweeps n_burn times, and then n_samples times, of which as many states are kept as memory allows.
    """

    def __init__(self, spec: Spec, engine: Engine, options: FitOptions, *, seed: int) -> None:
        self._spec, self._engine, self._options, self._seed = spec, engine, options, seed
        self._trace: list[float] = []
        self._probes: list[list[NDArray[Any]]] = []
        self._chain: Chain
        self._recorder: Recorder

    @property
    def n_sweeps(self) -> int:
        """Of all chains together."""
        return self._options.n_chains * (self._options.n_burn + self._options.n_samples)

    def run(
        self, posterior: Posterior, state: State, report: Callable[[int, float, Chain], bool],
        before: tuple[dict[str, Any], Engine] | None = None,
    ) -> Sampled | None:  # fmt: skip
        """Draw, until `report` says that it is enough, or all is drawn; None if nothing was by then.

        `before` is what another process packed after a sweep, to go on from there, and the engine for it.
        """
        options = self._options
        if self._spec.priors.vague:
            # Under a vague prior, α has a posterior that cannot be normalized: a factor could shrink to nothing and
            # never come back.
            posterior = update_alpha_prior(self._spec, posterior)
        posterior, state = self._widened(posterior, state)
        spec, start, first, hyper = begin(self._spec, posterior, state)
        recorder, stopped = Recorder(self._spec, posterior, state, seed=self._seed), False
        self._recorder = recorder
        n_draws = options.n_samples * options.n_chains
        every = -(-n_draws // n_kept(spec.sizes, spec.ends, posterior.n_factors, n_draws))
        if before is not None:
            values, self._engine = before
            self._unpack(values)
            recorder.unpack(part(values, "recorder"), start._replace(center=None), first)
        for c in range(max(len(self._probes) - 1, 0), options.n_chains):
            self._chain = Chain(spec, self._engine, start, hyper, seed=self._seed + c)
            if before is not None and c == len(self._probes) - 1:
                self._chain.unpack(part(before[0], "chain"))
            else:
                self._engine.place(first.copy())
                self._probes.append([])
            stopped = self._one(self._chain, recorder, every, report)
            if stopped:
                break
        if not recorder.n:
            return None
        # Of a chain that was stopped, nothing; of the first one, what there is.
        whole = [chain for chain in self._probes if len(chain) == options.n_samples] or self._probes[:1]
        return Sampled(*recorder.finish(np.array(whole)), self._trace, stopped)

    def _one(self, chain: Chain, recorder: Recorder, every: int, report: Callable[[int, float, Chain], bool]) -> bool:
        """Run a chain; whether it was stopped, or has left the numbers."""
        for n in range(chain.n - self._options.n_burn, self._options.n_samples):
            chain.sweep(adapting=n < 0)
            self._trace.append(chain.log_joint)
            if not np.isfinite(chain.log_joint):
                return True
            if n >= 0:
                drawn = chain.fetch()
                told = chain.without_centers(drawn)
                recorder.add(*told)
                self._probes[-1].append(recorder.probe(*told, chain.log_cells))
                if n % every == 0:
                    recorder.keep(chain.posterior, drawn)
            if report(len(self._trace), chain.log_joint, chain):
                return True
        return False

    def pack(self) -> dict[str, Any]:
        """The chains after a sweep, for another process to go on with."""
        probes = [np.array(chain) if chain else np.zeros((0, 0)) for chain in self._probes]
        return {"chain": self._chain.pack(), "recorder": self._recorder.pack(), "trace": np.array(self._trace),
                "probes": probes, "dtype": self._engine.dtype.name}  # fmt: skip

    def _unpack(self, values: dict[str, Any]) -> None:
        trace, probes = part(values, "trace"), part(values, "probes")
        arrays = [trace, *probes] if isinstance(probes, list) else [None]
        if not all(isinstance(array, np.ndarray) and array.dtype == float for array in arrays):
            refuse("trace", "is no list of numbers")
        if not 1 <= len(probes) <= self._options.n_chains:
            refuse("probes", f"are of {len(probes)} chains")
        self._trace, self._probes = trace.tolist(), [list(chain) for chain in probes]

    def _widened(self, posterior: Posterior, state: State) -> tuple[Posterior, State]:
        """Add weak factors, up to the number that was asked for or a few: draws do not overfit, and gain by them."""
        # Where nothing was found, nothing says how large factors could be: draws of them would have no limit.
        more = N_MORE if posterior.n_factors else 0
        n = more if self._options.n_factors == "auto" else self._options.n_factors - posterior.n_factors
        if n <= 0 or self._options.pattern is not None:
            return posterior, state
        self._engine.place(state.copy())
        everywhere = np.ones((len(posterior.on), n), dtype=bool)
        rng = np.random.default_rng(self._seed)
        wider = moves.extend(self._spec, self._engine, posterior, everywhere, rng)
        sizes = np.ones(wider.on.shape)
        sizes[:, -n:] = SMALL**2
        self._engine.scale(sizes)
        state = self._engine.fetch()
        if self._spec.priors.vague and not posterior.n_factors:
            # Nothing was found that a prior of α could be learned from.
            size = np.stack([np.full(1, np.square(mean, dtype=np.float64).mean()) for mean in state.mean])
            wider = wider._replace(alpha_prior=Gamma(np.ones_like(size), size))
        if self._spec.priors.vague:
            shape = np.minimum(wider.alpha_prior.shape, UNLIKE)
            wider = wider._replace(alpha_prior=Gamma(shape, shape / wider.alpha_prior.mean))
        return wider._replace(n_weak=posterior.n_weak + n), state
