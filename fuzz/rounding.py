"""`python -m fuzz.rounding [--n 200]`: what one pass over the cells in float32 loses of the bound.

After every fifth sweep of a float32 fit the bound is measured twice at the same parameters, by the engine in float32
and by the engine in float64. The difference, as a fraction of the bound's size, is what a sweep's own measurement may
be off by; a step between two of them by twice as much. MARGINS in `checks` comes from here.
"""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from fuzz.cases import draw
from gcmf.engines.base import State
from gcmf.engines.cpu import CpuEngine
from gcmf.errors import ConvergenceWarning
from gcmf.fit import fit
from gcmf.model.elbo import elbo
from gcmf.model.posterior import Moments, given_of
from gcmf.model.spec import build

if TYPE_CHECKING:
    from gcmf.data.collection import Collection
    from gcmf.options import FitOptions
    from gcmf.outcome import Fit, StepInfo

EVERY = 5


class Witness:
    """Stands in for `fit`, measures on the way, and keeps the losses."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def __call__(
        self, data: Collection, options: FitOptions, rng: np.random.Generator, callbacks: object, **more: object
    ) -> Fit:
        """Fit as asked."""
        del callbacks, more  # nobody starts from a model here, or keeps checkpoints
        spec, problem = build(data, options)
        engines = [CpuEngine(problem, dtype=dtype, n_threads=1) for dtype in ("float32", "float64")]

        def look(info: StepInfo) -> None:
            if info.iteration % EVERY:
                return
            now, bounds = info.snapshot(), []
            for engine, dtype in zip(engines, ("float32", "float64"), strict=True):
                state = State(*([a.astype(dtype) for a in group] for group in now.state.groups()))
                posterior = now.posterior._replace(moments=Moments.of(state))
                engine.place(state)
                bounds.append(elbo(spec, posterior, engine.measure(given_of(spec, posterior))))
            size = max(abs(bounds[1]), float(spec.n_cells.sum()))
            self.losses.append(abs(bounds[0] - bounds[1]) / size)

        return fit(data, options, rng, [look])


def loss(kind: str, seed: int) -> float:
    """The largest loss in one fit."""
    drawn, witness = draw(kind, seed)[1], Witness()
    with mock.patch("gcmf.estimators.gcmf.fit", witness), mock.patch("gcmf.estimators.views.fit", witness):
        drawn.estimator("float32", seed).fit(*drawn.data())
    return max(witness.losses, default=0.0)


def main() -> None:
    """Print quantiles over the fits, and the fits that lose most."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.rounding", description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="ordinary seeds")
    n = parser.parse_args().n
    warnings.simplefilter("ignore", ConvergenceWarning)
    losses = np.array([loss("ordinary", seed) for seed in range(n)])
    for share in (0.5, 0.9, 0.99, 1.0):
        print(f"{share:.0%} of {n} fits lose at most {np.quantile(losses, share):.1e} of the bound in a pass")
    print("most:", ", ".join(f"{losses[seed]:.1e} (--seed {seed})" for seed in losses.argsort()[::-1][:10]))


if __name__ == "__main__":
    main()
