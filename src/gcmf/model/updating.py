"""More cells for a fitted model, of entities that it knows and of new ones: streaming variational Bayes.

The cells that a model was fitted to are gone, but q(u_i) and q(b_i) say what they told. So q is the prior of the rows
that have more cells (Broderick and others, 2013), the usual prior is that of new ones, and a few sweeps go over the new
cells alone; all rows without a new cell, and α, τ, scales and bias priors, stay as they are. q is factorized, and holds
a row more tightly than its cells did along directions in which factors are alike: where many cells have come, fit again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.pairs import Pairs
from gcmf.data.units import Units
from gcmf.engines.base import Block, Problem, RowPrior, State
from gcmf.model.links import Layers, fill
from gcmf.model.newcomers import Rows, expected_rows, given_for, layers_of, terms_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.engines.base import Engine
    from gcmf.engines.select import EngineMaker
    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

#: Sweeps over the new cells.
N_SWEEPS = 5


def update(fitted: Fitted, data: Collection, make: EngineMaker, n_threads: int) -> Fitted:
    """The model after the cells of a collection, whose relations lie as those of the model, and are new to it."""
    sets = [fitted.schema.entity_index(name) for name in data.schema.entities]
    at = {e: fitted.vocabularies[name].index(data.entities[name].ids)
          for e, name in zip(sets, data.schema.entities, strict=True)}  # fmt: skip
    relations = [[r.name for r in fitted.schema.relations].index(name) for name in data.relations]
    before = {e: _rows(fitted, e, known) for e, known in at.items()}
    problem = _problem(fitted, data, relations, sets)
    engine = make(problem, dtype=fitted.mean[0].dtype.name, n_threads=n_threads)
    engine.place(_state(fitted, before, relations, sets))
    columns = [[layers_of(fitted, e).index(2 * relations[b.relation] + b.side) for b in blocks]
               for e, blocks in zip(sets, problem.blocks, strict=True)]  # fmt: skip
    _sweep(engine, fitted, before, relations, sets, columns)
    return _with(fitted, data, engine.fetch(), before, (relations, sets, at))


def _rows(fitted: Fitted, e: int, at: Indices) -> Rows:
    """What is known of these entities, or expected of new ones."""
    expected, layers, known = expected_rows(fitted, e, len(at)).rows, layers_of(fitted, e), at >= 0
    mean, var, bias_mean, bias_var = (a.copy() for a in expected)
    mean[known], var[known] = fitted.mean[e][at[known]], fitted.var[e][at[known]]
    for b, layer in enumerate(layers):
        bias_mean[known, b] = fitted.bias_mean[layer][at[known]]
        bias_var[known, b] = fitted.bias_var[layer][at[known]]
    return Rows(mean, var, bias_mean, bias_var)


def _problem(fitted: Fitted, data: Collection, relations: list[int], sets: list[int]) -> Problem:
    """The new cells as the data of a fit."""
    terms, blocks = terms_of(fitted), [list[Block]() for _ in sets]
    biased: list[bool] = []
    for r, (m, bound) in enumerate(zip(relations, data.relations.values(), strict=True)):
        about = fitted.likelihoods[m], float(fitted.center[m]), float(fitted.scale[m]), float(fitted.offset[m])
        ends = [sets.index(e) for e in fitted.ends[m]]
        for side, cells in enumerate((bound.cells.rows, bound.cells.cols)):
            if not (side and bound.symmetric):
                blocks[ends[side]].append(Block(r, side, ends[1 - side], cells, *about, bool(bound.symmetric)))
        biased += [bool(b) for b in terms.biased[2 * m : 2 * m + 2]]
    sizes = tuple(data.entities[name].size for name in data.schema.entities)
    return Problem(sizes, tuple(map(tuple, blocks)), tuple(biased), len(relations))


def _state(fitted: Fitted, before: Mapping[int, Rows], relations: list[int], sets: list[int]) -> State:
    bias_mean, bias_var = [], []
    for m in relations:
        for side in (0, 1):
            e = fitted.ends[m][side]
            layers = layers_of(fitted, e)
            own = 2 * m + (side if 2 * m + side in layers else 0)
            bias_mean.append(before[e].bias_mean[:, layers.index(own)].copy())
            bias_var.append(before[e].bias_var[:, layers.index(own)].copy())
    return State([before[e].mean.copy() for e in sets], [before[e].var.copy() for e in sets], bias_mean, bias_var)


def _sweep(  # noqa: PLR0913 - what a sweep is made of
    engine: Engine,
    fitted: Fitted,
    before: Mapping[int, Rows],
    relations: list[int],
    sets: list[int],
    columns: list[list[int]],
) -> None:
    priors = []
    for e, own in zip(sets, columns, strict=True):
        rows = before[e]
        priors.append(RowPrior(
            rows.mean, _inverse(rows.var), rows.bias_mean[:, own], _inverse(rows.bias_var[:, own]), point=False
        ))  # fmt: skip
    given = given_for(fitted, relations, sets, priors)
    for _ in range(N_SWEEPS):
        for e in range(len(sets)):
            engine.sweep(e, given)


def _inverse(var: Floats) -> Floats:
    """1/variance; anything where there is none, as of factors that are off."""
    return np.asarray(1.0 / np.where(var > 0, var, 1.0))


def _with(
    fitted: Fitted,
    data: Collection,
    state: State,
    before: Mapping[int, Rows],
    which: tuple[list[int], list[int], Mapping[int, Indices]],
) -> Fitted:
    """The model with the rows that have moved and those that are new."""
    relations, sets, at = which
    terms = terms_of(fitted)
    vocabularies = dict(fitted.vocabularies)
    groups = [list(a) for a in (fitted.mean, fitted.var, fitted.bias_mean, fitted.bias_var, terms.has_cells)]
    swept = [None if a is None else list(a) for a in (terms.var, terms.bias_var)]
    mean, var, bias_mean, bias_var, has_cells = groups
    for n, (e, name) in enumerate(zip(sets, data.schema.entities, strict=True)):
        place, vocabularies[name] = _places(vocabularies[name], data.entities[name].vocabulary, at[e])
        size = len(vocabularies[name])
        for factors, new in ((mean, state.mean[n]), (var, state.var[n]), (swept[0], state.var[n])):
            if factors is not None:
                factors[e] = _put(factors[e], size, place, new)
        (b_mean, b_var), seen = _biases(fitted, e, before[e], state, relations, data)
        for b, layer in enumerate(layers_of(fitted, e)):
            for twin in [layer, layer + 1] if fitted.schema.relations[layer // 2].symmetric else [layer]:
                for biases, new in ((bias_mean, b_mean), (bias_var, b_var), (swept[1], b_var)):
                    if biases is not None:
                        biases[twin] = _put(biases[twin], size, place, new[:, b])
                has_cells[twin] = _put(has_cells[twin], size, place[:0], seen[:0, b])
                has_cells[twin][place] |= seen[:, b]
    terms = terms._replace(
        has_cells=tuple(has_cells), **{name: None if a is None else tuple(a)
                                       for name, a in zip(("var", "bias_var"), swept, strict=True)}
    )  # fmt: skip
    changed = replace(
        fitted, vocabularies=vocabularies, mean=tuple(mean), var=tuple(var), bias_mean=tuple(bias_mean),
        bias_var=tuple(bias_var), terms=terms,
        units=tuple(None if u is None else u.placed(np.arange(len(u.center)), len(mean[c]))
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


def _biases(  # noqa: PLR0913 - what biases are made of
    fitted: Fitted, e: int, before: Rows, state: State, relations: list[int], data: Collection
) -> tuple[tuple[Floats, Floats], NDArray[np.bool_]]:
    """Biases after the sweeps, (n, B) each, and which entities have new cells in which layer.

    Layers without a new cell are as they were; of new entities they are what the other biases say.
    """
    layers, terms = layers_of(fitted, e), terms_of(fitted)
    mean, var, seen = before.bias_mean.copy(), before.bias_var.copy(), np.zeros(before.bias_mean.shape, bool)
    for r, (m, bound) in enumerate(zip(relations, data.relations.values(), strict=True)):
        for side, cells in enumerate((bound.cells.rows, bound.cells.cols)):
            if fitted.ends[m][side] == e and 2 * m + side in layers:
                b, has = layers.index(2 * m + side), cells.counts() > 0
                mean[has, b], var[has, b] = state.bias_mean[2 * r + side][has], state.bias_var[2 * r + side][has]
                seen[:, b] = has
    known = fitted.vocabularies[fitted.schema.entities[e]].index(data.entities[fitted.schema.entities[e]].ids) >= 0
    sigma = terms.links[np.ix_(layers, layers)]
    found = fill(Layers(mean, var, seen, before.bias_mean, np.diag(sigma)), sigma)
    keep = seen | known[:, None]
    return (np.where(keep, mean, found[0]), np.where(keep, var, found[1])), seen


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
    """A cell that the model was fitted to already: its relation, row and column in the model, and how many there are."""
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
