"""Tidy tables of cells beside their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.split import draw
from gcmf.errors import DataError, OptionError
from gcmf.estimators.asking import fitted_of, is_turned
from gcmf.model.predict import cells_at_a_time, predict_grid, predict_pairs, theta_of
from gcmf.model.predictive import log_density
from gcmf.options import check_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

#: Cells that are looked at, at most: others are drawn from, the same in every call.
MOST_CELLS = 20_000
#: Bins of a calibration curve, and the fewest cells in one.
N_BINS, FEWEST = 10, 20
LEVEL = 0.9


class Held(NamedTuple):
    """Some cells of a relation, by their positions in a model."""

    m: int
    i: Indices
    j: Indices
    x: Floats
    at: Indices
    """Their numbers in the order of the data."""
    n: int
    """How many there were to draw from."""

    def part(self, chosen: Indices) -> Held:
        """Return some of them."""
        return Held(self.m, self.i[chosen], self.j[chosen], self.x[chosen], self.at[chosen], self.n)


def held_cells(model: GCMF, data: Any, relation: str | None, *, most: int = MOST_CELLS) -> Held:
    """Return the cells of one relation of a collection, at most so many of them, drawn at random.

    Without a name it is the first relation of the data that the model has. Cells of strangers are left out.
    """
    known = [r.name for r in fitted_of(model, "A picture of cells").schema.relations]
    given = Collection.of(data, caller="data=")
    if relation is None:
        relation = next((name for name in given.relations if name in known), None)
    if relation is None or relation not in given.relations:
        asked = f"relation {relation!r}" if relation else "relation of the model"
        msg = f"The data have no {asked}; they have {', '.join(map(repr, given.relations))}."
        raise DataError(msg)
    m = model._relation(relation)
    turned = is_turned(model.schema_.relations[m], given.relations[relation])
    parts = list(model._cells(given, given.relations[relation], "prior"))
    i, j, x = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if turned:
        i, j = j, i
    here = np.flatnonzero((i >= 0) & (j >= 0))
    if not len(here):
        msg = f"No cell of {relation!r} in the data is between entities that the model knows."
        raise DataError(msg)
    return Held(m, i, j, x, np.arange(len(x)), len(here)).part(_some(here, most))


def _some(numbers: Indices, most: int) -> Indices:
    """At most so many of some numbers, drawn at random, the same ones in every call."""
    return numbers[draw(np.random.default_rng(0), len(numbers), most)] if len(numbers) > most else numbers


def predicted_vs_observed(model: GCMF, data: Any, relation: str | None = None) -> pd.DataFrame:
    """Return a line per cell of a relation: its ids, what was observed and predicted, and an interval of 90%.

    Of more than 20,000 cells, that many are drawn, the same in every call.
    """
    held = held_cells(model, data, relation)
    found: Any = predict_pairs(model.fitted_, held.m, held.i, held.j, level=LEVEL)
    ends = model.schema_.relations[held.m]
    rows, cols = (model.fitted_.vocabularies[name].ids for name in (ends.rows, ends.cols))
    table = pd.DataFrame({
        "relation": ends.name, "row": rows.take(held.i).astype(object), "col": cols.take(held.j).astype(object),
        "observed": held.x, "predicted": found.mean, "std": found.std, "lower": found.lower, "upper": found.upper,
    })  # fmt: skip
    table.attrs["of"] = held.n
    return table


def calibration(model: GCMF, data: Any, relation: str | None = None) -> pd.DataFrame:
    """Return a line per bin of predictions: their mean, the mean observed with its standard error, and how many.

    Bins hold equally many cells, by what was predicted. Of 0/1 cells the two means are the probability that was
    predicted and the share of ones: those of a calibrated model are the same but for chance.
    """
    held = held_cells(model, data, relation)
    guess = predict_pairs(model.fitted_, held.m, held.i, held.j).mean
    order = np.argsort(guess, kind="stable")
    parts = np.array_split(order, max(1, min(N_BINS, len(order) // FEWEST)))
    lines = [
        {"predicted": guess[part].mean(), "observed": held.x[part].mean(), "n": len(part),
         "se": held.x[part].std() / np.sqrt(len(part))}
        for part in parts
    ]  # fmt: skip
    return pd.DataFrame(lines)[["predicted", "observed", "se", "n"]]


def reconstruction(model: GCMF, data: Any, relation: str | None = None, *, n: int = 60) -> pd.DataFrame:
    """Return a line per cell of a part of a relation: its ids, what was observed (NaN: missing) and predicted.

    The part is of the `n` rows and columns that have most cells, ordered by the factor that explains most, so that
    what goes together stands together.
    """
    check_integer("n", n, 1)
    held = held_cells(model, data, relation, most=2**62)
    fitted, ends = model.fitted_, model.schema_.relations[held.m]
    sides = held.i, held.j
    if ends.symmetric:  # each cell came once, and is two in the matrix
        sides = np.concatenate([held.i, held.j]), np.concatenate([held.j, held.i])
    at = [_most(side, n) for side in sides]
    if fitted.n_factors and fitted.explained.factors.size:
        k = int(fitted.explained.factors[held.m, : fitted.n_factors].argmax())
        at = [a[np.argsort(-fitted.mean[e][a, k], kind="stable")] for a, e in zip(at, fitted.ends[held.m], strict=True)]
    guess = np.asarray(predict_grid(fitted, held.m, *at).mean)
    seen = np.full(guess.shape, np.nan)
    i, j = (np.full(len(fitted.mean[e]), -1) for e in fitted.ends[held.m])
    i[at[0]], j[at[1]] = np.arange(len(at[0])), np.arange(len(at[1]))
    rows, cols = i[sides[0]], j[sides[1]]
    here = (rows >= 0) & (cols >= 0)
    seen[rows[here], cols[here]] = np.resize(held.x, len(here))[here]
    row_ids, col_ids = (
        fitted.vocabularies[name].ids.take(a) for name, a in zip((ends.rows, ends.cols), at, strict=True)
    )
    return pd.DataFrame({
        "relation": ends.name, "row": np.repeat(np.asarray(row_ids.astype(object)), len(col_ids)),
        "col": np.tile(np.asarray(col_ids.astype(object)), len(row_ids)),
        "observed": seen.ravel(), "predicted": guess.ravel(),
    })  # fmt: skip


def _most(at: Indices, n: int) -> Indices:
    """The n positions that occur most often; the first ones of those that do so equally often."""
    counts = np.bincount(at)
    return np.argsort(-counts, kind="stable")[: min(n, int((counts > 0).sum()))]


def compare(models: Mapping[str, GCMF], test: Any) -> pd.DataFrame:
    """Return a line per relation and model: its error on the same test cells, and by how much it differs.

    The error is the mean squared one of numbers, and of 0/1 and counts the mean negative log-likelihood. `difference`
    is from the first model, paired cell by cell, and `difference_se` its standard error over cells. Cells that some
    model cannot know are left out for all.
    """
    if not isinstance(models, Mapping) or not models:
        instead = "It is empty." if isinstance(models, Mapping) else f"Got {type(models).__name__} instead."
        msg = f"compare takes a mapping of names to fitted models, such as {{'gCMF': model}}. {instead}"
        raise OptionError(msg)
    for model in models.values():
        fitted_of(model, "compare")
    given, first = Collection.of(test, caller="test="), next(iter(models.values()))
    lines = []
    for relation in (r.name for r in first.schema_.relations if r.name in given.relations):
        losses = _paired_losses(models, given, relation)
        for name, loss in losses.items():
            gap = loss - next(iter(losses.values()))
            lines.append({"relation": relation, "model": name, "measure": _measure(first, relation),
                          "error": loss.mean(), "difference": gap.mean(),
                          "difference_se": gap.std() / np.sqrt(len(gap)), "n": len(gap)})  # fmt: skip
    return pd.DataFrame(lines)


def _measure(model: GCMF, relation: str) -> str:
    likelihood = model.fitted_.likelihoods[model._relation(relation)]
    return "mse" if likelihood.support == "real" else "negative log-likelihood"


def _paired_losses(models: Mapping[str, GCMF], test: Collection, relation: str) -> dict[str, Floats]:
    """The losses of each model on the same cells, at most 20,000: those that all models know."""
    held = {name: held_cells(model, test, relation, most=2**62) for name, model in models.items()}
    common = _some(reduce(np.intersect1d, [cells.at for cells in held.values()]), MOST_CELLS)
    if not len(common):
        msg = f"No cell of {relation!r} in the test data is known to all of the models {', '.join(models)}."
        raise DataError(msg)
    return {name: _losses(models[name], cells.part(np.searchsorted(cells.at, common))) for name, cells in held.items()}


def _losses(model: GCMF, held: Held) -> Floats:
    """Squared error of numbers, negative log-likelihood of others, cell by cell."""
    fitted, likelihood = model.fitted_, model.fitted_.likelihoods[held.m]
    if likelihood.support == "real":
        return np.asarray((predict_pairs(fitted, held.m, held.i, held.j).mean - held.x) ** 2)
    size, parts = cells_at_a_time(fitted), []
    for start in range(0, len(held.x), size):
        part = slice(start, start + size)
        center, scale = fitted.measure(held.m, held.j[part])
        theta = theta_of(fitted, held.m, held.i[part], held.j[part])
        parts.append(-(log_density(likelihood, theta, (held.x[part] - center) / scale) - np.log(scale)))
    return np.concatenate(parts)
