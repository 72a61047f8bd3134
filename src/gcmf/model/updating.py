"""More cells for a fitted model, of entities that it knows and of new ones: streaming variational Bayes.

The cells that a model was fitted to are gone, but q(u_i) and q(b_i) say what they told. So q is the prior of the rows
that have more cells (Broderick and others, 2013), the usual prior is that of new ones, and a few sweeps go over the new
cells alone; all rows without a new cell, and α, τ, scales and bias priors, stay as they are. q is factorized, and holds
a row more tightly than its cells did where factors are alike: where many cells have come, fit again. Of the wider
variances that predictions are made with, new cells tell as those of a fit do (`spread`), with what they were as prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.pairs import Pairs
from gcmf.engines.base import Block, Given, Problem, RowPrior, State
from gcmf.engines.threads import available_threads
from gcmf.model.links import Layers, fill
from gcmf.model.newcomers import Rows, expected_rows, given_for, layers_of, swept_bias_var, swept_var, terms_of
from gcmf.model.spread import Spread, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.data.units import Units
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.model.fitted import Fitted
    from gcmf.model.newcomers import EngineOf

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

#: Sweeps over the new cells.
N_SWEEPS = 5


@dataclass(frozen=True, eq=False)
class _Added:
    """The cells of a collection beside a model: which of its sets and relations they are of, and what is known."""

    fitted: Fitted
    data: Collection
    sets: list[int]
    relations: list[int]
    at: dict[int, Indices]
    """By set, where its entities are in the model; −1 for new ones."""
    before: dict[int, Rows]
    """By set, what is known of its entities, or expected of new ones."""

    @classmethod
    def of(cls, fitted: Fitted, data: Collection) -> _Added:
        names = [relation.name for relation in fitted.schema.relations]
        sets = [fitted.schema.entity_index(name) for name in data.schema.entities]
        at = {e: fitted.vocabularies[name].index(data.entities[name].ids)
              for e, name in zip(sets, data.schema.entities, strict=True)}  # fmt: skip
        before = {e: _rows(fitted, e, known) for e, known in at.items()}
        return cls(fitted, data, sets, [names.index(name) for name in data.relations], at, before)

    def problem(self) -> Problem:
        """The new cells as the data of a fit."""
        fitted, blocks, biased = self.fitted, [list[Block]() for _ in self.sets], list[bool]()
        for r, (m, bound) in enumerate(zip(self.relations, self.data.relations.values(), strict=True)):
            about = fitted.likelihoods[m], float(fitted.center[m]), float(fitted.scale[m]), float(fitted.offset[m])
            ends = [self.sets.index(e) for e in fitted.ends[m]]
            for side, cells in enumerate((bound.cells.rows, bound.cells.cols)):
                if not (side and bound.symmetric):
                    blocks[ends[side]].append(Block(r, side, ends[1 - side], cells, *about, bool(bound.symmetric)))
            biased += [bool(b) for b in terms_of(fitted).biased[2 * m : 2 * m + 2]]
        sizes = tuple(self.data.entities[name].size for name in self.data.schema.entities)
        return Problem(sizes, tuple(map(tuple, blocks)), tuple(biased), len(self.relations))

    def state(self) -> State:
        """Where sweeps begin."""
        bias_mean, bias_var = [], []
        for m in self.relations:
            for side in (0, 1):
                e = self.fitted.ends[m][side]
                layers = layers_of(self.fitted, e)
                own = layers.index(2 * m + (side if 2 * m + side in layers else 0))
                bias_mean.append(self.before[e].bias_mean[:, own].copy())
                bias_var.append(self.before[e].bias_var[:, own].copy())
        rows, noise = [self.before[e] for e in self.sets], self.fitted.row_noise
        precision = [] if noise is None else [noise.at(2 * m + side, self.at[self.fitted.ends[m][side]])
                                              for m in self.relations for side in (0, 1)]  # fmt: skip
        return State(
            [row.mean.copy() for row in rows], [row.var.copy() for row in rows], bias_mean, bias_var, precision
        )

    def given(self, problem: Problem, *, wide: bool = False) -> Given:
        """What sweeps take as fixed: what is known of a row is its prior, with variances of q or the wide ones."""
        priors = []
        for e, blocks in zip(self.sets, problem.blocks, strict=True):
            rows, layers = self.before[e], layers_of(self.fitted, e)
            var, bias_var = _wide(rows) if wide else (rows.var, rows.bias_var)
            own = [layers.index(2 * self.relations[block.relation] + block.side) for block in blocks]
            bias_mean, bias_precision = rows.bias_mean[:, own], _inverse(bias_var[:, own])
            priors.append(RowPrior(rows.mean, _inverse(var), bias_mean, bias_precision, point=False))
        return given_for(self.fitted, self.relations, self.sets, priors)

    def biases(
        self, e: int, before: tuple[Floats, Floats], found: tuple[Sequence[Any], Sequence[Any]]
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Means and variances of biases after the sweeps, (n, B) each, and who has new cells in which layer.

        `before` are those that they were, `found` by layer those that the new cells tell. Layers without a new cell are
        as they were; of new entities they are what the other biases say.
        """
        layers, (mean, var) = layers_of(self.fitted, e), (a.copy() for a in before)
        seen = np.zeros(mean.shape, bool)
        for r, (m, bound) in enumerate(zip(self.relations, self.data.relations.values(), strict=True)):
            for side, cells in enumerate((bound.cells.rows, bound.cells.cols)):
                if self.fitted.ends[m][side] == e and 2 * m + side in layers:
                    b, has, layer = layers.index(2 * m + side), cells.counts() > 0, 2 * r + side
                    mean[has, b], var[has, b] = found[0][layer][has], found[1][layer][has]
                    seen[:, b] = has
        sigma = terms_of(self.fitted).links[np.ix_(layers, layers)]
        filled, filled_var = fill(Layers(mean, var, seen, before[0], np.diag(sigma)), sigma)
        keep = seen | (self.at[e] >= 0)[:, None]
        return np.where(keep, mean, filled), np.where(keep, var, filled_var), seen


def update(fitted: Fitted, data: Collection, engine_of: EngineOf) -> Fitted:
    """The model after the cells of a collection, whose relations lie as those of the model, and are new to it."""
    added = _Added.of(fitted, data)
    problem = added.problem()
    engine, given = engine_of(problem, fitted.mean[0].dtype.name), added.given(problem)
    engine.place(added.state())
    for _ in range(N_SWEEPS):
        for e in range(len(added.sets)):
            engine.sweep(e, given)
    state = engine.fetch()
    if terms_of(fitted).var is None:
        return _with(added, state, Spread(state.var, state.bias_var))
    return _with(added, state, spread(problem, added.given(problem, wide=True), state, n_threads=available_threads()))


def _rows(fitted: Fitted, e: int, at: Indices) -> Rows:
    """What is known of these entities, or expected of new ones."""
    prior, layers, known = expected_rows(fitted, e, len(at)).rows, layers_of(fitted, e), at >= 0
    mean, var, bias_mean, bias_var = prior.mean.copy(), prior.var.copy(), prior.bias_mean.copy(), prior.bias_var.copy()
    wide, wide_bias = var.copy(), bias_var.copy()
    mean[known], var[known] = fitted.mean[e][at[known]], swept_var(fitted, e)[at[known]]
    wide[known] = fitted.var[e][at[known]]
    for b, layer in enumerate(layers):
        bias_mean[known, b] = fitted.bias_mean[layer][at[known]]
        bias_var[known, b] = swept_bias_var(fitted, layer)[at[known]]
        wide_bias[known, b] = fitted.bias_var[layer][at[known]]
    return Rows(mean, var, bias_mean, bias_var, wide, wide_bias)


def _wide(rows: Rows) -> tuple[Floats, Floats]:
    """Variances of factors and biases that predictions are made with."""
    assert rows.wide_var is not None
    assert rows.wide_bias_var is not None
    return rows.wide_var, rows.wide_bias_var


def _inverse(var: Floats) -> Floats:
    """1/variance; anything where there is none, as of factors that are off."""
    return np.asarray(1.0 / np.where(var > 0, var, 1.0))


def _with(added: _Added, state: State, wide: Spread) -> Fitted:
    """The model with the rows that have moved and those that are new, and the variances that it predicts with."""
    fitted, data, terms = added.fitted, added.data, terms_of(added.fitted)
    vocabularies = dict(fitted.vocabularies)
    arrays = {name: list[Any](getattr(fitted, name)) for name in ("mean", "var", "bias_mean", "bias_var")}
    swept = {name: list[Any](getattr(terms, name) or ()) for name in ("var", "bias_var")}
    has_cells, noise = list[Any](terms.has_cells), fitted.row_noise
    for n, (e, name) in enumerate(zip(added.sets, data.schema.entities, strict=True)):
        place, vocabularies[name] = _places(vocabularies[name], data.entities[name].vocabulary, added.at[e])
        size, before = len(vocabularies[name]), added.before[e]
        bias, bias_var, seen = added.biases(e, (before.bias_mean, before.bias_var), (state.bias_mean, state.bias_var))
        _, wide_bias_var, _ = added.biases(e, (before.bias_mean, _wide(before)[1]), (state.bias_mean, wide.bias_var))
        told = (arrays["mean"], state.mean[n]), (arrays["var"], wide.var[n]), (swept["var"], state.var[n])
        for group, new in told:
            group[e : e + 1] = [_put(old, size, place, new) for old in group[e : e + 1]]
        for b, layer in enumerate(layers_of(fitted, e)):
            for twin in [layer, layer + 1] if fitted.schema.relations[layer // 2].symmetric else [layer]:
                for group, new in (
                    (arrays["bias_mean"], bias), (arrays["bias_var"], wide_bias_var), (swept["bias_var"], bias_var),
                ):  # fmt: skip
                    group[twin : twin + 1] = [_put(old, size, place, new[:, b]) for old in group[twin : twin + 1]]
                has_cells[twin] = _put(has_cells[twin], size, place[:0], seen[:0, b])
                if noise is not None:  # how noisy rows are is not learned from what comes later
                    n_new = size - len(noise.precision[twin])
                    noise = noise.with_rows(twin, (np.ones(n_new), np.zeros(n_new)), beside=True)
                has_cells[twin][place] |= seen[:, b]
    of_q = {name: tuple(group) or None for name, group in swept.items()}
    changed = replace(
        fitted, draws=None, vocabularies=vocabularies, mean=tuple(arrays["mean"]), var=tuple(arrays["var"]),
        bias_mean=tuple(arrays["bias_mean"]), bias_var=tuple(arrays["bias_var"]), row_noise=noise,
        terms=terms._replace(has_cells=tuple(has_cells), var=of_q["var"], bias_var=of_q["bias_var"]),
        units=tuple(None if u is None else u.placed(np.arange(len(u.center)), len(arrays["mean"][c]))
                    for u, (_, c) in zip(fitted.units, fitted.ends, strict=True)),
    )  # fmt: skip
    return replace(changed, pairs=_pairs(changed, fitted, data))


def _places(old: Vocabulary, ids: Vocabulary, at: Indices) -> tuple[Indices, Vocabulary]:
    """Where each entity of the new cells is from now on, and the ids with those that are new after the others."""
    whole = old.union(ids)
    new = at < 0
    return np.where(new, len(old) + np.cumsum(new) - 1, at), whole


def _put(old: NDArray[Any], size: int, place: Indices, new: NDArray[Any]) -> NDArray[Any]:
    """A copy with so many rows, some of them new."""
    out = np.zeros((size, *old.shape[1:]), old.dtype)
    out[: len(old)] = old
    out[place] = new.astype(old.dtype)
    return out


def _pairs(changed: Fitted, fitted: Fitted, data: Collection) -> tuple[Pairs, ...] | None:
    if fitted.pairs is None:
        return None
    made = []
    for old, relation in zip(fitted.pairs, changed.schema.relations, strict=True):
        rows, cols = (changed.vocabularies[name] for name in (relation.rows, relation.cols))
        i, j = np.divmod(old.places, max(old.shape[1], 1))
        if relation.name in data.relations:
            new = Pairs.of(data.relations[relation.name].cells)
            more = np.divmod(new.places, max(new.shape[1], 1))
            at = (v.index(data.entities[n].ids) for v, n in ((rows, relation.rows), (cols, relation.cols)))
            i, j = (np.concatenate([a, v[b]]) for a, b, v in zip((i, j), more, at, strict=True))
        made.append(Pairs.at(i.astype(np.int64) * len(cols) + j, (len(rows), len(cols))))
    return tuple(made)


def repeated(fitted: Fitted, data: Collection) -> tuple[str, int, int, int] | None:
    """A cell that the model was fitted to already: its relation, row and column, and how many there are."""
    for m, relation in enumerate(fitted.schema.relations):
        if fitted.pairs is None or relation.name not in data.relations:
            continue
        new, width = Pairs.of(data.relations[relation.name].cells), fitted.pairs[m].shape[1]
        i, j = np.divmod(new.places, max(new.shape[1], 1))
        rows, cols = (fitted.vocabularies[name].index(data.entities[name].ids)
                      for name in (relation.rows, relation.cols))  # fmt: skip
        i, j = rows[i], cols[j]
        known = (i >= 0) & (j >= 0)
        again = np.intersect1d(i[known] * width + j[known], fitted.pairs[m].places)
        if len(again):
            return relation.name, int(again[0] // width), int(again[0] % width), len(again)
    return None


def standardized(units: Units, x: NDArray[Any], col: Indices) -> Floats:
    """Cells of columns with units of their own, as they are fitted; those of new columns stay."""
    center, scale = units.of(col)
    return np.asarray((x - center) / scale)
