"""Whether predictions are better if factors live everywhere: cells that two refinements do not see decide.

The bound is no judge of that. It is right about structure, and prefers factors that live in few sets also where weak
traces of them elsewhere would predict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.cells import Triplets
from gcmf.data.parts import col_numbers, row_numbers, take
from gcmf.data.split import count_units, draw, hidden_cells
from gcmf.engines.base import State
from gcmf.methods.run import Run
from gcmf.methods.stages import Refinement
from gcmf.model.fitted import summarize
from gcmf.model.predict import theta_of
from gcmf.model.predictive import log_density, mean_and_variance
from gcmf.model.resume import in_units
from gcmf.model.spec import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from gcmf.data.cells import Side
    from gcmf.data.collection import Collection
    from gcmf.engines.base import Engine, Problem
    from gcmf.model.fitted import Fitted
    from gcmf.model.spec import Spec
    from gcmf.options import FitOptions

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

#: Cells up to which the proof is made: it takes a fifth to a third of the time of a fit.
MOST_CELLS = 500_000
#: The share of the cells of a relation that is hidden, how many at most, and of how few none is.
SHARE, MOST_HIDDEN, FEWEST = 0.1, 20_000, 50
#: The share of the entities of a set that lack a relation, from which on it is hidden as a whole from some others.
LACKING = 0.05
#: Sweeps of each refinement.
N_SWEEPS = 15
#: The part of its loss by which no relation may become worse, and by which they have to become better, summed up.
WORSE, BETTER = 0.01, 0.001
#: Losses below this (cells have variance about one) are as good as none: what they change by says nothing.
NO_LOSS = 1e-4


def predicts_better_opened(  # noqa: PLR0913 - what was fitted, how, and what the proof is made with
    run: Run,
    data: Collection,
    options: FitOptions,
    rng: np.random.Generator,
    *,
    engine_of: Callable[[Problem], Engine],
    interrupted: Callable[[], bool],
) -> bool:
    """Whether hidden cells are predicted better by twice its error if all factors live everywhere, and none worse.

    Both refinements start from the structure as it was found with all cells, and sweep over those that are left, with
    the same weak factors.
    """
    if not _to_be_proven(run, data):
        return False
    seen, hidden = _hide(data, rng)
    if not all(seen.observed(entity).any() for entity in seen.entities):
        return False  # too few cells to spare any
    spec, problem = in_units(*build(seen, options), run.spec)
    state = _of_those_seen(spec, run.engine.fetch())
    losses, seed = [], int(rng.integers(1 << 63))
    for opens in (False, True):
        trial = Run(spec, engine_of(problem))
        trial.resume(state.copy(), run.posterior)
        trial.trace.append(0.0)
        refinement = Refinement(trial, options, np.random.default_rng(seed))
        refinement.opens = opens
        _refine(trial, refinement, interrupted)
        fitted = summarize(trial.spec, trial.posterior, trial.engine.fetch(), seen)
        losses.append([_loss(fitted, m, cells) for m, cells in enumerate(hidden)])
    return not interrupted() and _is_better(losses[0], losses[1], hidden)


def _to_be_proven(run: Run, data: Collection) -> bool:
    """Whether there is anything to open up, in models that can be, and the answer costs little."""
    spec = run.spec
    several = len(spec.ends) > 1 and not spec.common
    simple = not (run.posterior.regressions or spec.unit_variance.any() or spec.directed.any())
    return several and simple and data.n_cells <= MOST_CELLS


def _refine(trial: Run, refinement: Refinement, interrupted: Callable[[], bool]) -> None:
    """Some sweeps of refinement."""
    for _ in range(N_SWEEPS):
        refinement.sweep()
        trial.trace.append(trial.bound())
        if interrupted():
            break


def _is_better(closed: list[Floats], opened: list[Floats], hidden: list[Triplets]) -> bool:
    """Whether losses fall by more than two errors of that, as parts of what they were, and no relation's rise."""
    changes, errors = [], []
    for before, after, cells in zip(closed, opened, hidden, strict=True):
        if len(before):
            size, difference = max(np.abs(before).mean(), NO_LOSS), after - before
            changes.append(float(difference.mean() / size))
            errors.append(max(_error(difference, of) for of in (cells.i, cells.j)) / size)
    worse = any(change > max(WORSE, 2.0 * error) for change, error in zip(changes, errors, strict=True))
    return not worse and sum(changes) < -max(BETTER, 2.0 * float(np.linalg.norm(errors)))


def _error(x: Floats, of: NDArray[np.int32]) -> float:
    """The standard error of a mean, where numbers `of` the same entity go together: √Σ_i (Σ_j x_ij − x̄)² / n."""
    return float(np.linalg.norm(np.bincount(of, x - x.mean())) / len(x))


# --- hidden cells -------------------------------------------------------------------------------------------


def _hide(data: Collection, rng: np.random.Generator) -> tuple[Collection, list[Triplets]]:
    """Return the collection without some cells of every relation, and those."""
    chosen: dict[str, list[Integers]] = {name: [] for name in data.relations}
    totals = {name: n for name, n in count_units(data).items() if n >= FEWEST}
    drawn = {name: draw(rng, n, min(round(SHARE * n), MOST_HIDDEN)) for name, n in totals.items()}
    for name, numbers in hidden_cells(data, drawn).items():
        chosen[name].append(numbers)
    for entity in data.entities:
        for name, numbers in _whole(data, entity, rng):
            chosen[name].append(numbers)
    seen, hidden = {}, []
    for name, parts in chosen.items():
        numbers = np.unique(np.concatenate([*parts, np.empty(0, np.int64)]))
        seen[name], away = take(data.relations[name].cells, numbers)
        hidden.append(_once(away.triplets()) if data.relations[name].symmetric else away.triplets())
    return data.with_cells(seen), hidden


def _once(cells: Triplets) -> Triplets:
    """The cells of a symmetric relation one way: the others are the same cells."""
    first = cells.i < cells.j
    return Triplets(cells.i[first], cells.j[first], cells.x[first])


def _whole(data: Collection, entity: str, rng: np.random.Generator) -> Iterator[tuple[str, Integers]]:
    """Where entities lack relations, hide one of these from others that have it: relations, and numbers of cells."""
    sides = [
        (r.name, side)
        for r in data.schema.relations if r.rows != r.cols
        for side, end in enumerate((r.rows, r.cols)) if end == entity
    ]  # fmt: skip
    if len(sides) < 2:
        return
    has = np.array([_side(data, *one).counts() > 0 for one in sides])
    lacking = [n for n, own in enumerate(has) if (has.any(axis=0) & ~own).sum() > LACKING * has.any(axis=0).sum()]
    for n in lacking:
        several = np.flatnonzero(has[n] & (has.sum(axis=0) > 1))
        some = several[draw(rng, len(several), round(SHARE * len(several)))]
        name, side = sides[n]
        yield name, (col_numbers if side else row_numbers)(data.relations[name].cells, some)


def _side(data: Collection, name: str, side: int) -> Side:
    cells = data.relations[name].cells
    return cells.cols if side else cells.rows


# --- losses -------------------------------------------------------------------------------------------------


def _of_those_seen(spec: Spec, state: State) -> State:
    """The state with zeros for entities that have no data any more."""
    mean, var = ([np.where(s[:, None], a, 0.0).astype(a.dtype) for a, s in zip(group, spec.observed, strict=True)]
                 for group in (state.mean, state.var))  # fmt: skip
    bias, bias_var = ([np.where(s, a, 0.0).astype(a.dtype) for a, s in zip(group, spec.in_layer, strict=True)]
                      for group in (state.bias_mean, state.bias_var))  # fmt: skip
    return State(mean, var, bias, bias_var, [a.copy() for a in state.precision])


def _loss(fitted: Fitted, m: int, cells: Triplets) -> Floats:
    """Squared errors of real cells, minus log probabilities of others."""
    i, j = cells.i.astype(np.int64), cells.j.astype(np.int64)
    likelihood, theta, (center, scale) = fitted.likelihoods[m], theta_of(fitted, m, i, j), fitted.measure(m, j)
    z = (cells.x.astype(np.float64) - center) / scale
    if likelihood.support == "real":
        return np.asarray((z - mean_and_variance(likelihood, theta)[0]) ** 2)
    return np.asarray(-log_density(likelihood, theta, z))
