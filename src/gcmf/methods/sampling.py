"""Chains one after the other, what is kept of them, and when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.methods.gibbs import Chain
from gcmf.model.conditionals import begin
from gcmf.model.draws import n_kept
from gcmf.model.recording import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from gcmf.engines.base import Engine, State
    from gcmf.model.draws import Draws
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

#: R-hat of predictors above which chains have not mixed.
MIXED = 1.1


class Sampled(NamedTuple):
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
        """Whether R-hat says so of the predictors of all relations."""
        return bool((self.draws.r_hat <= MIXED).all())


def sample(  # noqa: PLR0913 - what sampling is made of
    spec: Spec, engine: Engine, posterior: Posterior, state: State, *, options: FitOptions, seed: int,
    report: Callable[[int, float, Chain], bool],
) -> Sampled | None:  # fmt: skip
    """Run `n_chains` chains from a variational solution; None if `report` ends them before anything was kept.

    Each sweeps n_burn times, and then n_samples times, of which as many states are kept as memory allows.
    """
    points, start, first, hyper = begin(spec, posterior, state)
    recorder = Recorder(spec, posterior, state, seed=seed)
    n_draws = options.n_samples * options.n_chains
    every = -(-n_draws // n_kept(spec.sizes, spec.ends, posterior.n_factors, n_draws))
    trace: list[float] = []
    probes: list[list[np.ndarray]] = []
    stopped, any_kept = False, False
    for c in range(options.n_chains):
        engine.place(first.copy())
        chain = Chain(points, engine, start, hyper, seed=seed + c)
        probes.append([])
        for n in range(options.n_burn + options.n_samples):
            chain.sweep(adapting=n < options.n_burn)
            trace.append(chain.log_joint)
            if n >= options.n_burn:
                drawn = chain.fetch()
                recorder.add(chain.posterior, drawn)
                probes[-1].append(recorder.probe(chain.posterior, drawn))
                if (n - options.n_burn) % every == every - 1 or not any_kept:
                    recorder.keep(chain.posterior, drawn)
                    any_kept = True
            if not np.isfinite(chain.log_joint) or report(len(trace), chain.log_joint, chain):
                stopped = True
                break
        if stopped:
            break
    if not any_kept:
        return None
    # Of an interrupted chain as much as all others have.
    whole = [chain for chain in probes if len(chain) >= min(4, options.n_samples)] or probes[:1]
    length = min(map(len, whole))
    chains = np.array([chain[:length] for chain in whole])
    draws, means, mean_state = recorder.finish(chains, np.where(posterior.on, 1.0, 0.0))
    return Sampled(draws, means, mean_state, trace, stopped)
