"""Factors and biases of new entities of any set, from any of its relations, with everything else of a fit held.

A row's update (docs/model.md, "The row update") needs its own cells, its partners and a prior, and no other row of its
set: so the new entities are a set of their own, swept by an engine against the sets that they meet. Least squares are
solved by one sweep; 0/1 cells and counts, whose quadratic form depends on the row, by as many as it takes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.units import Units
from gcmf.data.vocabulary import Vocabulary
from gcmf.engines.base import Block, Given, Problem, RowPrior, Scales, State
from gcmf.engines.threads import available_threads
from gcmf.errors import StorageError
from gcmf.model.links import Layers, fill
from gcmf.model.noise import cells_of_noise
from gcmf.model.posterior import scales_of
from gcmf.model.regression import expected
from gcmf.model.spread import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from gcmf.data.incoming import Met
    from gcmf.engines.base import Engine
    from gcmf.model.draws import Draws
    from gcmf.model.fitted import Effects, Fitted, RowTerms

    Floats = NDArray[np.float64]
    EngineOf = Callable[[Problem, str], Engine]
    """Makes the engine of a problem, in some precision."""

#: Sweeps over rows whose quadratic form depends on them, at most; and by how many deviations a factor or bias of a row
#: may change in its last.
MAX_SWEEPS = 50
SETTLED = 1e-5
#: Of its size, what float32 rounds, or points may still change, which have no deviation.
ROUNDING = 1e-6
#: Variances that new entities start from, at most: E exp θ of a wide prior is so large that counts end far from it.
NARROW = 1e-3


class Features(NamedTuple):
    """Covariates of n new entities as they enter."""

    values: Any
    """An array or a sparse array, (n, p); zeros where nothing is known."""
    known: NDArray[np.bool_]
    """Of whom they are known at all, (n,)."""


class DrawnRows(NamedTuple):
    """S draws of n entities of one set."""

    factors: NDArray[np.float32]
    """(S, n, K)."""
    biases: NDArray[np.float32]
    """In the layers of the set, (S, n, B)."""


class Rows(NamedTuple):
    """Means and variances of n entities of one set."""

    mean: Floats
    var: Floats
    """Of the factors, (n, K)."""
    bias_mean: Floats
    bias_var: Floats
    """Of the biases in the layers of the set, (n, B)."""
    wide_var: Floats | None = None
    wide_bias_var: Floats | None = None
    """Variances that predictions are made with, where they are others than those of sweeps."""
    drawn: DrawnRows | None = None
    """Of a sampled model: the draws that these are means and variances of."""
    noise: Mapping[int, tuple[Floats, Floats]] | None = None
    """By layer, where rows have noise of their own: how many times as precise as the relation, and told by how many
    cells."""


class Expected(NamedTuple):
    """What is expected of entities before their cells are seen."""

    rows: Rows
    precision: Floats
    """Of the factors, with which sweeps begin, (n, K)."""
    bias_precision: Floats
    """Of the biases, (n, B)."""


def terms_of(fitted: Fitted) -> RowTerms:
    """What updates of rows need; refuse a model that was saved without it."""
    if fitted.terms is None:
        msg = (
            "This model was saved by an older gcmf, without what new cells and entities need. Fit it again, or predict"
            " new ids from the prior: predict(..., unknown='prior')."
        )
        raise StorageError(msg)
    return fitted.terms


def swept_var(fitted: Fitted, e: int) -> NDArray[Any]:
    """Variances of the factors of a set as sweeps have them, (d, K)."""
    terms = terms_of(fitted)
    return fitted.var[e] if terms.var is None else terms.var[e]


def swept_bias_var(fitted: Fitted, layer: int) -> NDArray[Any]:
    """Variances of the biases of a layer as sweeps have them, (d,)."""
    terms = terms_of(fitted)
    return fitted.bias_var[layer] if terms.bias_var is None else terms.bias_var[layer]


def layers_of(fitted: Fitted, e: int) -> list[int]:
    """Bias layers of an entity set; of a symmetric relation the first."""
    symmetric = [bool(relation.symmetric) for relation in fitted.schema.relations]
    return [2 * m + side for m, ends in enumerate(fitted.ends) for side in (0, 1)
            if ends[side] == e and not (side and symmetric[m])]  # fmt: skip


def expected_rows(fitted: Fitted, e: int, n: int, features: Features | None = None) -> Expected:
    """What is expected of n new entities of set e.

    With covariates u ~ N(f_iᵀ w̄, 1/⟨α⟩), and the coefficients are uncertain. Of whom they are not known, where others
    have them, anybody of the set is expected.
    """
    terms, layers, on = terms_of(fitted), layers_of(fitted, e), fitted.on[e]
    mean = np.zeros((n, len(on))) if terms.center is None else np.tile(terms.center[e], (n, 1))
    precision = np.tile(np.where(on, terms.precision[e], 1.0), (n, 1))
    var = np.where(on & (not terms.point), 1.0 / precision, 0.0)
    bias_mean = np.tile(terms.bias_prior[0, layers], (n, 1))
    scale = np.tile(np.where(terms.biased[layers], terms.bias_prior[1, layers], 1.0), (n, 1))
    bias_var = np.tile(np.diag(terms.links)[layers], (n, 1))
    effects = fitted.effects.get(fitted.schema.entities[e])
    if effects is not None:
        if features is not None:
            added, around = _told(effects, features, layers, point=terms.point)
            mean, bias_mean = mean + added[0] * on, bias_mean + added[1]
            var, bias_var = var + around[0] * on, bias_var + around[1]
        strange = np.ones(n, dtype=bool) if features is None else ~features.known
        anybody = np.where(on & (not terms.point), fitted.prior_var[e], var)
        var[strange] = anybody[strange]
        precision = np.where(strange[:, None] & (var > 0), 1.0 / np.where(var > 0, var, 1.0), precision)
        bias_mean[strange], bias_var[strange] = fitted.prior_bias[:, layers]
        scale = np.where(strange[:, None] & (bias_var > 0), bias_var, scale)
    return Expected(Rows(mean, var, bias_mean, bias_var), precision, 1.0 / scale)


def _told(
    effects: Effects, features: Features, layers: list[int], *, point: bool
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """f_iᵀ w̄ of factors and biases, and f_iᵀ C f_i."""
    F, bias_cov = features.values, None if effects.bias_cov is None else effects.bias_cov[layers]
    mean, var = expected(F, effects.mean, effects.std**2, effects.cov)
    bias, bias_var = expected(F, effects.bias_mean[:, layers], effects.bias_std[:, layers] ** 2, bias_cov)
    return (mean, bias), (0.0 * var, 0.0 * bias_var) if point else (var, bias_var)


def fold(fitted: Fitted, e: int, met: Sequence[Met], prior: Expected, engine_of: EngineOf) -> Rows:
    """Factors and biases of new entities of set e from their cells; what is expected where they have none."""
    rows, layers = prior.rows, layers_of(fitted, e)
    seen = met_layers(layers, met, len(rows.mean))
    if met:
        rows = _swept(fitted, e, met, prior, engine_of)
    there = seen.any(axis=1, keepdims=True)
    mean, var = (np.where(there, a, b) for a, b in zip(rows[:2], prior.rows[:2], strict=True))
    bias_mean, bias_var = _linked(fitted, layers, rows, seen, prior.rows)
    if rows.wide_var is None or rows.wide_bias_var is None:
        return Rows(mean, var, bias_mean, bias_var, noise=rows.noise)
    wide, wide_bias = np.where(there, rows.wide_var, var), np.where(seen, rows.wide_bias_var, bias_var)
    return Rows(mean, var, bias_mean, bias_var, wide, wide_bias, noise=rows.noise)


def met_layers(layers: list[int], met: Sequence[Met], n: int) -> NDArray[np.bool_]:
    """Which of n new entities has cells in which of these layers, (n, B)."""
    seen = np.zeros((n, len(layers)), dtype=bool)
    for of in met:
        seen[:, layers.index(2 * of.relation + of.side)] |= of.cells.rows.counts() > 0
    return seen


def _linked(
    fitted: Fitted, layers: list[int], rows: Rows, seen: NDArray[np.bool_], prior: Rows
) -> tuple[Floats, Floats]:
    """Biases as the cells have them; without cells, what the other biases of the entity say."""
    terms = terms_of(fitted)
    sigma = terms.links[np.ix_(layers, layers)]
    known = Layers(rows.bias_mean, rows.bias_var, seen, prior.bias_mean, np.diag(sigma))
    mean, var = fill(known, sigma)
    wide = prior.bias_var - np.diag(sigma)  # what is not known of covariates or their coefficients
    return mean, np.where(seen, var, var + wide)


def _swept(fitted: Fitted, e: int, met: Sequence[Met], prior: Expected, engine_of: EngineOf) -> Rows:
    begin, layers = prior.rows, layers_of(fitted, e)
    problem, sets = problem_of(fitted, e, met, len(begin.mean))
    engine = engine_of(problem, fitted.mean[e].dtype.name)
    engine.place(first_state(fitted, met, sets, begin, layers))
    given = given_rows(fitted, e, met, sets, prior)
    state = _settled(engine, given, problem)
    biases = begin.bias_mean, begin.bias_var
    swept = of_layers(layers, met, biases, (state.bias_mean, state.bias_var))
    rows = Rows(state.mean[0].astype(np.float64), state.var[0].astype(np.float64), *swept)
    if state.precision:
        rows = rows._replace(noise={2 * met[b.relation].relation + b.side: (state.precision[b.layer], b.noise_cells)
                                    for b in problem.blocks[0] if b.noise_cells is not None})  # fmt: skip
    if terms_of(fitted).var is None:
        return rows
    wide = spread(problem, given, state, n_threads=available_threads(), sets=[0])
    _, bias_var = of_layers(layers, met, swept, (state.bias_mean, wide.bias_var))
    return rows._replace(wide_var=wide.var[0].astype(np.float64), wide_bias_var=bias_var)


def of_layers(
    layers: list[int], met: Sequence[Met], biases: tuple[Floats, Floats], found: tuple[Sequence[Any], Sequence[Any]]
) -> tuple[Floats, Floats]:
    """Means and variances of biases, (n, B), with those that were found by layer of the cells that were met."""
    mean, var = (a.copy() for a in biases)
    for r, of in enumerate(met):
        at, layer = layers.index(2 * of.relation + of.side), 2 * r + of.side
        has = of.cells.rows.counts() > 0
        mean[has, at], var[has, at] = found[0][layer][has], found[1][layer][has]
    return mean, var


def problem_of(fitted: Fitted, e: int, met: Sequence[Met], n: int) -> tuple[Problem, list[int]]:
    """The cells of n new entities as the data of a fit, and which sets of the model it has.

    Set 0 are the new ones, the others those that they meet; each part of the cells is a relation of its own.
    """
    others = list(dict.fromkeys(fitted.ends[of.relation][1 - of.side] for of in met))
    terms = terms_of(fitted)
    blocks: list[list[Block]] = [[] for _ in range(len(others) + 1)]
    biased: list[bool] = []
    for r, of in enumerate(met):
        m, side = of.relation, of.side
        other = 1 + others.index(fitted.ends[m][1 - side])
        about = fitted.likelihoods[m], float(fitted.center[m]), float(fitted.scale[m]), float(fitted.offset[m])
        noisy = fitted.row_noise is not None and fitted.row_noise.is_noisy(2 * m + side)
        cells = cells_of_noise(of.cells.rows, side, fitted.likelihoods[m]) if noisy else None
        blocks[0].append(Block(r, side, other, of.cells.rows, *about, noise_cells=cells))
        blocks[other].append(Block(r, 1 - side, 0, of.cells.cols, *about))
        biased += [bool(b) for b in terms.biased[2 * m : 2 * m + 2]]
    sizes = (n, *(len(fitted.mean[other]) for other in others))
    return Problem(sizes, tuple(map(tuple, blocks)), tuple(biased), len(met)), [e, *others]


def first_state(fitted: Fitted, met: Sequence[Met], sets: list[int], prior: Rows, layers: list[int]) -> State:
    """New entities as expected, and those that they meet as they are."""
    bias_mean, bias_var = [], []
    for of in met:
        at, theirs = layers.index(2 * of.relation + of.side), 2 * of.relation + 1 - of.side
        mine = prior.bias_mean[:, at].copy(), np.minimum(prior.bias_var[:, at], NARROW)
        other = fitted.bias_mean[theirs], swept_bias_var(fitted, theirs)
        for side in (0, 1):
            bias_mean.append((mine if side == of.side else other)[0])
            bias_var.append((mine if side == of.side else other)[1])
    mean = [prior.mean.copy(), *(fitted.mean[other] for other in sets[1:])]
    var = [np.minimum(prior.var, NARROW), *(swept_var(fitted, other) for other in sets[1:])]
    precision: list[NDArray[Any]] = []
    if fitted.row_noise is not None:
        for of in met:
            ends = [np.ones(len(prior.mean)), fitted.row_noise.precision[2 * of.relation + 1 - of.side]]
            precision += ends[::-1] if of.side else ends
    return State(mean, var, bias_mean, bias_var, precision)


def given_rows(fitted: Fitted, e: int, met: Sequence[Met], sets: list[int], prior: Expected) -> Given:
    """What a sweep over new entities takes as fixed; those whom they meet are not swept."""
    terms, layers = terms_of(fitted), layers_of(fitted, e)
    rows, precision, bias_precision = prior
    columns = [layers.index(2 * of.relation + of.side) for of in met]
    priors = [
        RowPrior(rows.mean, precision, rows.bias_mean[:, columns], bias_precision[:, columns], terms.point),
        # The others are not swept.
        *[RowPrior(np.zeros((1, 0)), np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(0), terms.point)] * (len(sets) - 1),
    ]
    relations = [of.relation for of in met]
    return given_for(fitted, relations, sets, priors)


def given_for(fitted: Fitted, relations: Sequence[int], sets: Sequence[int], priors: Sequence[RowPrior]) -> Given:
    """What sweeps over these relations and sets take as fixed."""
    terms, of = terms_of(fitted), list(relations)
    parameters = tuple(terms.parameters[m] for m in of)
    slope = np.array([fitted.likelihoods[m].slope(p) for m, p in zip(of, parameters, strict=True)])
    scales = None
    if fitted.scales is not None:
        whole = scales_of(fitted.scales, fitted.directed)
        scales = Scales(whole.mean[of], whole.var[of], whole.mates[of])
    given = Given(fitted.on[list(sets)], tuple(priors), parameters, slope, scales)
    if fitted.row_noise is None:
        return given
    half, floor = fitted.row_noise.given(of)
    return given._replace(noise=half, floor=floor)


def _settled(engine: Engine, given: Given, problem: Problem) -> State:
    """Sweep the new entities until nothing changes any more, each until nothing of its own does.

    No row asks what others are. So that its answer does not either, a row is as it was when it had settled, however
    long others take.
    """
    engine.sweep(0, given)
    found = engine.fetch()
    if all(block.likelihood.least_squares and block.noise_cells is None for block in problem.blocks[0]):
        return found
    before, moving = found.copy(), np.arange(problem.sizes[0])
    for _ in range(MAX_SWEEPS):
        engine.sweep(0, given)
        after = engine.fetch()
        groups = [_of_rows(state, problem) for state in (found, before, after)]
        changed = np.zeros(len(moving), dtype=bool)
        for (mean, var), (was, _), (now, now_var) in zip(*groups, strict=True):
            mean[moving], var[moving] = now[moving], now_var[moving]
            little = np.maximum(SETTLED * np.sqrt(now_var), ROUNDING * np.abs(now))
            changed |= (np.abs(now - was) > little)[moving].reshape(len(moving), -1).any(axis=1)
        for layer in [block.layer for block in problem.blocks[0] if block.noise_cells is not None]:
            found.precision[layer][moving] = after.precision[layer][moving]
        before, moving = after, moving[changed]
        if not len(moving):
            break
    return found


def _of_rows(state: State, problem: Problem) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Means and variances of the factors of the first set, and of each of its biases."""
    layers = [block.layer for block in problem.blocks[0]]
    return [(state.mean[0], state.var[0]), *((state.bias_mean[at], state.bias_var[at]) for at in layers)]


def with_rows(fitted: Fitted, e: int, ids: Vocabulary, rows: Rows, *, beside: bool) -> Fitted:
    """The model with these entities of set e in the place of those that it knows, or `beside` them, after them."""
    name, layers, old = fitted.schema.entities[e], layers_of(fitted, e), fitted.vocabularies[fitted.schema.entities[e]]

    def placed(before: NDArray[Any], new: Floats) -> NDArray[Any]:
        new = new.astype(before.dtype)
        return np.concatenate([before, new]) if beside else new

    terms = terms_of(fitted)
    wide = rows.var if rows.wide_var is None else rows.wide_var
    wide_bias = rows.bias_var if rows.wide_bias_var is None else rows.wide_bias_var
    mean, var = _replaced(fitted.mean, e, rows.mean, placed), _replaced(fitted.var, e, wide, placed)
    swept, swept_bias = terms.var and _replaced(terms.var, e, rows.var, placed), terms.bias_var
    bias_mean, bias_var, has_cells, noise = fitted.bias_mean, fitted.bias_var, terms.has_cells, fitted.row_noise
    for b, layer in enumerate(layers):
        for at in [layer, layer + 1] if fitted.schema.relations[layer // 2].symmetric else [layer]:
            bias_mean = _replaced(bias_mean, at, rows.bias_mean[:, b], placed)
            bias_var = _replaced(bias_var, at, wide_bias[:, b], placed)
            swept_bias = swept_bias and _replaced(swept_bias, at, rows.bias_var[:, b], placed)
            has_cells = _replaced(has_cells, at, np.zeros(len(ids)), placed)
            if noise is not None:
                new = (rows.noise or {}).get(layer, (np.ones(len(ids)), np.zeros(len(ids))))
                noise = noise.with_rows(at, new, beside=beside)
    vocabulary = Vocabulary(old.ids.append(ids.ids)).of_kind(old.kind) if beside else ids
    draws = fitted.draws
    if draws is not None:
        assert rows.drawn is not None
        draws = _with_drawn(fitted, draws, e, rows.drawn, beside=beside)
    return replace(
        fitted, draws=draws, vocabularies={**fitted.vocabularies, name: vocabulary}, mean=mean, var=var,
        bias_mean=bias_mean, bias_var=bias_var, row_noise=noise, pairs=None,
        terms=terms._replace(var=swept, bias_var=swept_bias, has_cells=has_cells),
        units=tuple(_placed_units(u, len(mean[c]), old=len(fitted.mean[c]) if beside else 0) if c == e else u
                    for u, (_, c) in zip(fitted.units, fitted.ends, strict=True)),
    )  # fmt: skip


def _with_drawn(fitted: Fitted, draws: Draws, e: int, rows: DrawnRows, *, beside: bool) -> Draws:
    """Draws with those of other rows of set e; the last of each is anybody, as before."""

    def placed(before: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        known = before if beside else before[:, -1:]
        return np.concatenate([known[:, :-1], new, known[:, -1:]], axis=1)

    biases = draws.biases
    for b, layer in enumerate(layers_of(fitted, e)):
        for at in [layer, layer + 1] if fitted.schema.relations[layer // 2].symmetric else [layer]:
            biases = (*biases[:at], placed(biases[at], rows.biases[:, :, b]), *biases[at + 1 :])
    factors = (*draws.factors[:e], placed(draws.factors[e], rows.factors), *draws.factors[e + 1 :])
    return draws._replace(factors=factors, biases=biases)


def _replaced(
    arrays: tuple[NDArray[Any], ...], at: int, new: Floats, placed: Callable[[NDArray[Any], Floats], NDArray[Any]]
) -> tuple[NDArray[Any], ...]:
    """The same arrays with new rows in one of them."""
    return (*arrays[:at], placed(arrays[at], new), *arrays[at + 1 :])


def _placed_units(units: Units | None, size: int, *, old: int) -> Units | None:
    """Units of columns, of which the new ones have none of their own: their cells are in standard deviations."""
    return None if units is None else Units(units.center[:old], units.scale[:old]).placed(np.arange(old), size)
