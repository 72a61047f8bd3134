"""The scales of relations: how they follow the sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.carried import Carried
from gcmf.model.hyper import step_scales, update_scale_prior
from gcmf.model.posterior import given_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine, Given
    from gcmf.model.hyper import ScaleStep
    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: Halvings of a guarded step before the scales of a relation are left as they were.
MAX_HALVINGS = 3
#: Sweeps until the next guarded step, after one that promised to raise the bound by more than this share of its size.
WAITS = ((1e-5, 1), (1e-6, 3), (0.0, 10))


class Scaling(Carried):
    """Moves the scales after each sweep, from what the sweep has summed up: no further pass over the cells.

    Where quadratic forms are no bounds, a step is measured, and halved if the bound of its relation would fall.
    """

    carried = ("_wait",)

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._guarded = np.array([not likelihood.quadratic_is_bound for likelihood in spec.likelihoods])
        self._wait = 1

    def moved(
        self, engine: Engine, posterior: Posterior, given: Given, measured: Floats, sums: Floats
    ) -> tuple[Posterior, Floats]:
        """The posterior and the summed values with better scales; the sweep was given `given`."""
        scales = posterior.scales
        if scales is None:
            return posterior, measured
        step = step_scales(self._spec, scales, sums)
        # A step that rounding has spoilt is none.
        sound = np.isfinite(step.cells + step.prior) & (step.cells + step.prior >= 0.0)
        free = sound & ~self._guarded
        found = _stepped(scales, step, free)
        measured = np.where(free, measured + step.cells / given.slope, measured)
        self._wait -= 1
        if self._guarded.any() and self._wait <= 0:
            promise = float(np.where(sound & self._guarded, step.cells + step.prior, 0.0).sum())
            size = max(float(np.abs(given.slope * measured).sum()), float(self._spec.n_weighed.sum()))
            self._wait = next(sweeps for least, sweeps in WAITS if promise >= least * size)
            before = posterior._replace(scales=found)
            found, measured = self._guard(engine, before, step, sound & self._guarded, measured)
        return posterior._replace(scales=update_scale_prior(self._spec, found)), measured

    def _guard(
        self, engine: Engine, posterior: Posterior, step: ScaleStep, wanted: NDArray[np.bool_], measured: Floats
    ) -> tuple[RelationScales, Floats]:
        """Take the steps of the wanted relations as far as their bound does not fall."""
        old = posterior.scales
        assert old is not None
        found, tried = old, step
        for _ in range(MAX_HALVINGS):
            if not wanted.any():
                break
            there = posterior._replace(scales=_stepped(old, tried, wanted))
            given = given_of(self._spec, there)
            totals = engine.measure(given)
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = given.slope * (totals - measured) + self._prior_gain(old, tried)
            better = wanted & (gain >= 0.0)
            found = _stepped(found, tried, better)
            measured = np.where(better, totals, measured)
            wanted = wanted & ~better
            tried = _halfway(old, tried)
        return found, measured

    def _prior_gain(self, old: RelationScales, step: ScaleStep) -> Floats:
        """What ⟨log p(d)⟩ and the entropy gain by a step, (M,)."""
        beta = 1.0 if self._spec.point else old.beta.mean
        grown = step.mean**2 + step.var - old.square
        there = old.on & (old.var > 0.0)
        logs = np.log(np.where(there, step.var, 1.0) / np.where(there, old.var, 1.0))
        return np.asarray(0.5 * np.where(old.on, logs - beta * grown, 0.0).sum(axis=1))


def _stepped(scales: RelationScales, step: ScaleStep, relations: NDArray[np.bool_]) -> RelationScales:
    """The scales after the steps of these relations."""
    mean, var = (
        np.where(relations[:, None], new, old) for new, old in ((step.mean, scales.mean), (step.var, scales.var))
    )
    return scales._replace(mean=mean, var=var)


def _halfway(scales: RelationScales, step: ScaleStep) -> ScaleStep:
    """Half of the step: of means, and of variances in their precisions."""
    total = step.var + scales.var
    var = np.where(total > 0.0, 2.0 * step.var * scales.var / np.where(total > 0.0, total, 1.0), 0.0)
    return step._replace(mean=(step.mean + scales.mean) / 2.0, var=var)
