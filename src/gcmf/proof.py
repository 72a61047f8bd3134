"""Which of two refinements predicts cells better that it does not see.

The bound of mean-field factors is no judge of it: it prefers factors that live in few sets also where those that live
in all of them predict better.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.parts import col_numbers, row_numbers, take
from gcmf.data.split import draw
from gcmf.engines.base import State
from gcmf.methods.run import Run
from gcmf.methods.stages import Refinement
from gcmf.model.fitted import summarize
from gcmf.model.predict import theta_of
from gcmf.model.predictive import log_density, mean_and_variance
from gcmf.model.resume import in_units
from gcmf.model.spec import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.engines.base import Engine, Problem
    from gcmf.model.fitted import Fitted
    from gcmf.options import FitOptions

    Floats = NDArray[np.float64]

SHARE, MOST_HIDDEN = 0.1, 20_000
"""Of the cells of a relation, the share that is hidden, and how many at most."""
LACKING = 0.05
"""Share of the entities of a set that lack a relation from which on it is also hidden whole from some."""
N_SWEEPS = 20


def opened_predicts_better(
    run: Run, data: Collection, options: FitOptions, engine_of: Callable[[Problem], Engine], rng: np.random.Generator
) -> bool:
    """Whether factors that live in all sets predict hidden cells better, and those of no relation worse."""
    if not _eligible(run):
        return False
    seen, hidden = _hide(data, rng)
    losses = [_losses(run, seen, hidden, options, engine_of, opens=opens) for opens in (False, True)]
    gains, worse = [], False
    for closed, opened in zip(*losses, strict=True):
        if len(closed):
            difference, size = opened - closed, np.abs(closed).mean()
            error = difference.std() / np.sqrt(len(difference)) / size
            gains.append(float(difference.mean() / size))
            worse |= gains[-1] > 2.0 * error
            LOG.append((round(gains[-1], 4), round(float(error), 4), len(difference)))
    LOG.append((not worse and sum(gains) < 0.0))
    return not worse and sum(gains) < 0.0


LOG = []


def _eligible(run: Run) -> bool:
    spec, posterior = run.spec, run.posterior
    return (
        len(spec.ends) > 1 and not (spec.common or spec.directed.any() or spec.point or posterior.regressions)
        and not spec.unit_variance.any() and not (posterior.on.all() and (posterior.scales is None or posterior.scales.on.all()))
    )


def _hide(data: Collection, rng: np.random.Generator) -> tuple[Collection, dict[str, tuple[Floats, ...]]]:
    seen, hidden = {}, {}
    chosen: dict[str, list] = {}
    for name, relation in data.relations.items():
        n = relation.cells.n_cells
        chosen[name] = [draw(rng, n, min(round(SHARE * n), MOST_HIDDEN))]
    for entity in data.entities:
        touching = [(r.name, side) for r in data.schema.relations for side, e in enumerate((r.rows, r.cols)) if e == entity]
        if len(touching) < 2:
            continue
        has = np.array([_counts(data, name, side) > 0 for name, side in touching])
        anywhere = has.any(axis=0)
        several = np.flatnonzero(has.sum(axis=0) > 1)
        lacking = [t for t, h in zip(touching, has, strict=True) if (anywhere & ~h).sum() > LACKING * anywhere.sum()]
        if not lacking or len(several) < 10:
            continue
        some = draw(rng, len(several), max(round(SHARE * len(several)), 1))
        which = rng.integers(len(lacking), size=len(some))
        for n, (name, side) in enumerate(lacking):
            rows = several[some[which == n]]
            rows = rows[has[touching.index((name, side))][rows]]
            if len(rows):
                numbers = (col_numbers if side else row_numbers)(data.relations[name].cells, rows)
                if len(numbers) > MOST_HIDDEN * 10:
                    pass
                chosen[name].append(numbers)

    for name, numbers in chosen.items():
        seen[name], test = take(data.relations[name].cells, np.unique(np.concatenate(numbers)))
        hidden[name] = test.triplets()
    return data.with_cells(seen), hidden


def _counts(data, name, side):
    cells = data.relations[name].cells
    return (cells.cols if side else cells.rows).counts()


def _losses(run: Run, seen, hidden, options, engine_of, *, opens: bool):
    spec, problem = build(seen, options)
    spec, problem = in_units(spec, problem, run.spec)
    engine = engine_of(problem)
    trial = Run(spec, engine)
    state = run.engine.fetch()
    zero = lambda a, s: np.where(s[:, None] if a.ndim > 1 else s, a, 0).astype(a.dtype)
    state = State([zero(a, s) for a, s in zip(state.mean, spec.observed, strict=True)],
                  [zero(a, s) for a, s in zip(state.var, spec.observed, strict=True)],
                  [zero(a, s) for a, s in zip(state.bias_mean, spec.in_layer, strict=True)],
                  [zero(a, s) for a, s in zip(state.bias_var, spec.in_layer, strict=True)])
    trial.resume(state, run.posterior)
    trial.trace = [0.0]
    refinement = Refinement(trial, options, np.random.default_rng(0))
    refinement.opens = opens
    for _ in range(N_SWEEPS):
        refinement.sweep()
        trial.trace.append(trial.bound())
        refinement.arrived(1.0, 0.0)
    fitted = summarize(trial.spec, trial.posterior, trial.engine.fetch(), seen)
    return [_loss(fitted, m, hidden[r.name]) for m, r in enumerate(spec.schema.relations)]


def _loss(fitted: Fitted, m: int, cells) -> Floats:
    i, j, x = cells
    x = np.asarray(x, float)
    likelihood, theta, (center, scale) = fitted.likelihoods[m], theta_of(fitted, m, i, j), fitted.measure(m, j)
    z = (x - center) / scale
    if likelihood.support == "real":
        return (z - mean_and_variance(likelihood, theta)[0]) ** 2
    return -log_density(likelihood, theta, z)
