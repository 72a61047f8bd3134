"""A line search for what no closed form gives, such as the size of negative binomial counts."""

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

#: Steps to either side of where a parameter is, at first, at most and at least.
FIRST, LONGEST, SHORTEST = 1.0, 2.0, 0.02
#: Sweeps until the next search, after one that moved a parameter by more than this.
WAITS = ((0.2, 1), (0.01, 5), (0.0, 10))


class Search(Carried):
    """Searches along the line of each likelihood that has one, all relations at once; the bound never falls."""

    carried = ("_step", "_wait")

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._lines = np.array([likelihood.searched for likelihood in spec.likelihoods])
        self._step = np.full(len(self._lines), FIRST)
        self._wait = 1

    def tried(self, engine: Engine, posterior: Posterior, measured: Floats) -> tuple[Posterior, Floats]:
        """The posterior and the summed values after a sweep, with better parameters if it is time to look for some.

        Values at a step to either side make a parabola, whose vertex is tried too. The best of the four is kept.
        """
        self._wait -= 1
        if self._wait > 0 or not self._lines.any():
            return posterior, measured
        likelihoods = [likelihood for likelihood in self._spec.likelihoods if likelihood.searched]
        if any(likelihood.quadratic_is_bound for likelihood in likelihoods):
            # The sweep's own measure of cells that have bounds is lower than one in which those bounds touch again.
            measured = np.where(self._lines, engine.measure(given_of(self._spec, posterior)), measured)
        tries = [(np.zeros(len(measured)), posterior, measured)]
        tries += [self._at(engine, posterior, sign * self._step) for sign in (-1.0, 1.0)]
        low, here, high = (self._bounds(tries[n]) for n in (1, 0, 2))
        bend, lean = 2.0 * here - low - high, high - low
        with np.errstate(divide="ignore", invalid="ignore"):
            vertex = np.where(bend > 0.0, 0.5 * self._step * lean / bend, np.sign(lean) * np.inf)
        tries.append(
            self._at(engine, posterior, np.clip(np.nan_to_num(vertex, nan=0.0), -2 * self._step, 2 * self._step))
        )
        best = np.argmax([self._bounds(one) for one in tries], axis=0)
        moved = np.abs(np.array([tries[n][0][m] for m, n in enumerate(best)]))
        self._step = np.clip(np.maximum(2.0 * moved, self._step / 4.0), SHORTEST, LONGEST)
        self._wait = next(sweeps for least, sweeps in WAITS if moved.max() >= least)
        parameters = tuple(tries[n][1].parameters[m] for m, n in enumerate(best))
        totals = np.array([tries[n][2][m] for m, n in enumerate(best)])
        return posterior._replace(parameters=parameters), np.where(self._lines, totals, measured)

    def _at(self, engine: Engine, posterior: Posterior, steps: Floats) -> tuple[Floats, Posterior, Floats]:
        """Parameters that are so many steps away, and the summed values there."""
        relations = zip(self._spec.likelihoods, posterior.parameters, steps.tolist(), strict=True)
        there = posterior._replace(parameters=tuple(lik.moved(p, step) for lik, p, step in relations))
        return steps, there, engine.measure(given_of(self._spec, there))

    def _bounds(self, tried: tuple[Floats, Posterior, Floats]) -> Floats:
        """The terms of the bound that depend on each relation's parameters, (M,); zero where nothing is searched."""
        spec, (_, posterior, measured) = self._spec, tried
        terms = np.zeros(len(measured))
        for m in np.flatnonzero(self._lines).tolist():
            lik, n, p = spec.likelihoods[m], float(spec.n_cells[m]), posterior.parameters[m]
            terms[m] = lik.expected(float(measured[m]), n, p, spec.parameter_prior)
            terms[m] += lik.divergence(n, p, spec.parameter_prior)
        return np.nan_to_num(terms, nan=-np.inf)
