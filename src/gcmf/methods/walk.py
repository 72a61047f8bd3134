"""Random walks by Metropolis' rule, of what has no conditional to draw from: dispersions, scales of some relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.carried import Carried
from gcmf.model.posterior import given_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: The share of steps that should be taken.
WANTED = 0.4
#: The first step of a dispersion, in the units of `Likelihood.moved`.
FIRST = 0.1


class Walk(Carried):
    """Steps of the parameters of likelihoods that are searched, and of scales; of all relations at once.

    Each costs a pass over the cells. Relations are independent given factors and biases, so each takes its own step.
    """

    carried = ("_steps", "_n")

    def __init__(self, spec: Spec, posterior: Posterior, scaled: NDArray[np.bool_]) -> None:
        self._spec = spec
        self._searched = np.array([likelihood.searched for likelihood in spec.likelihoods])
        self._scaled = scaled & (posterior.scales is not None)
        self._steps = np.full((2, len(scaled)), FIRST)
        self._n = 0

    def moved(
        self, engine: Engine, posterior: Posterior, measured: Floats, rng: np.random.Generator, *, adapting: bool
    ) -> tuple[Posterior, Floats]:
        """The posterior and the summed values of its cells after a step of each kind."""
        self._n += 1
        if self._searched.any():
            relations = zip(self._spec.likelihoods, posterior.parameters, self._searched, self._steps[0], strict=True)
            parameters = tuple(
                likelihood.moved(p, float(size * rng.standard_normal())) if searched else p
                for likelihood, p, searched, size in relations
            )
            there = posterior._replace(parameters=parameters)
            posterior, measured = self._taken(engine, (posterior, there), measured, rng, kind=0, adapting=adapting)
        if self._scaled.any():
            posterior, measured = self._step_scales(engine, posterior, measured, rng, adapting=adapting)
        return posterior, measured

    def _step_scales(
        self, engine: Engine, posterior: Posterior, measured: Floats, rng: np.random.Generator, *, adapting: bool
    ) -> tuple[Posterior, Floats]:
        """All scales of a relation at once, each in proportion to 1/√β: about its size."""
        scales = posterior.scales
        assert scales is not None
        size = self._steps[1][:, None] * np.sqrt(1.0 / np.maximum(scales.on.sum(axis=1), 1))[:, None]
        # A walk that depends on β alone, which is not stepped here, is symmetric.
        steps = size * rng.standard_normal(scales.mean.shape) / np.sqrt(scales.beta.mean)
        moved = np.where(scales.on & self._scaled[:, None], scales.mean + steps, scales.mean)
        there = posterior._replace(scales=scales._replace(mean=moved))
        return self._taken(engine, (posterior, there), measured, rng, kind=1, adapting=adapting)

    def _taken(  # noqa: PLR0913 - what a step is made of
        self,
        engine: Engine,
        tried: tuple[Posterior, Posterior],
        measured: Floats,
        rng: np.random.Generator,
        *,
        kind: int,
        adapting: bool,
    ) -> tuple[Posterior, Floats]:
        """Take the steps of those relations whose density rises, or falls by no more than an exponential number."""
        here, there = tried
        totals = engine.measure(given_of(self._spec, there))
        ratio = self._density(there, totals) - self._density(here, measured)
        walks = (self._searched, self._scaled)[kind]
        taken = walks & (np.log(rng.random(len(ratio))) < ratio)
        if adapting:
            with np.errstate(over="ignore", invalid="ignore"):
                chance = np.nan_to_num(np.exp(np.minimum(ratio, 0.0)))
            self._steps[kind] *= np.exp((chance - WANTED) * 3.0 / np.sqrt(self._n))
        parameters = tuple(
            new if take else old for new, old, take in zip(there.parameters, here.parameters, taken, strict=True)
        )
        posterior = here._replace(parameters=parameters)
        if here.scales is not None and there.scales is not None:
            mean = np.where(taken[:, None], there.scales.mean, here.scales.mean)
            posterior = posterior._replace(scales=here.scales._replace(mean=mean))
        return posterior, np.where(taken, totals, measured)

    def _density(self, posterior: Posterior, totals: Floats) -> Floats:
        """Log density of each relation's cells, parameters and scales, (M,)."""
        spec, prior = self._spec, self._spec.parameter_prior
        relations = zip(spec.likelihoods, totals.tolist(), spec.n_cells.tolist(), posterior.parameters, strict=True)
        found = np.array([lik.expected(total, n, p, prior) + lik.divergence(n, p, prior)
                          for lik, total, n, p in relations])  # fmt: skip
        if posterior.scales is not None:
            found -= 0.5 * (posterior.scales.beta.mean * posterior.scales.mean**2).sum(axis=1)
        return found
