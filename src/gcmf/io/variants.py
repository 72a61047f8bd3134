"""What is compared with the whole model: the same data with something left out, or taken in another form."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from gcmf.data.bound import BoundRelation, EntitySet
from gcmf.data.cells import Triplets, fill_cells, holes, list_cells, listed_cells
from gcmf.data.covariates import read_table
from gcmf.data.split import draw
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import UnknownIdError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.data.cells import Cells
    from gcmf.data.collection import Collection
    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]
    Indices = NDArray[Any]

GROUP, COMMON, ALONE, BIAS = "gCMF", "CMF", "alone", "biases only"
"""The whole model, with which all others are compared; with common factors; one relation alone; without factors."""
#: Factors of two fits are taken for one if their parts of the predictor correlate by more than this, in so many cells.
ALIKE, MOST_ALIKE = 0.5, 20_000
Columns = bool | Mapping[str, Sequence[str]]
"""Whether each column of covariates is left out in turn; or groups of them, by a name for each."""


@dataclass(frozen=True)
class Variant:
    """A name, what it tells about, what a fit of it sees of the data, and with which options."""

    name: str
    kind: str
    """"model", "relation", "covariates", "columns" or "form"."""
    seen: Callable[[Collection], Collection] = lambda data: data
    options: Mapping[str, Any] = field(default_factory=dict)


def variants(data: Collection, target: str, *, columns: Columns = False, forms: bool = False) -> list[Variant]:
    """Return what is compared on a relation, the whole model first, biases only last."""
    alone = Variant(ALONE, "model", lambda data: data.select([target]))
    others = [name for name in data.relations if name != target]
    found = [Variant(GROUP, "model")]
    if others:
        found.append(Variant(COMMON, "model", options={"sharing": "common"}))
    if len(others) > 1:
        found += [_without(name) for name in others]
    found += _without_covariates(data, columns)
    if forms:
        found += _forms(data, target)
    return [*found, *[alone] * bool(others), replace(alone, name=BIAS)]


# --- less ---------------------------------------------------------------------------------------------------


def _without(relation: str) -> Variant:
    def seen(data: Collection) -> Collection:
        return data.select([name for name in data.relations if name != relation])

    return Variant(f"without {relation}", "relation", seen)


def _without_covariates(data: Collection, columns: Columns) -> list[Variant]:
    """Without each table of covariates; and without each of its columns, or groups of them, if that is asked for."""
    known = {name: entities.covariates for name, entities in data.entities.items() if entities.covariates is not None}
    found = [Variant(f"without covariates of {name}", "covariates", _uncovered(name)) for name in known]
    if not columns:
        return found
    names = {entity: list(dict.fromkeys(f.column for f in table.features)) for entity, table in known.items()}
    groups = columns if isinstance(columns, Mapping) else {name: [name] for own in names.values() for name in own}
    every = [name for own in names.values() for name in own]
    for label, group in groups.items():
        for column in group:
            if column not in every:
                msg = f"No covariate is named {column!r}; there are: {', '.join(every)}.{did_you_mean(column, every)}"
                raise UnknownIdError(msg)
        found.append(Variant(f"without {label}", "columns", _less(tuple(group))))
    return found


def _uncovered(entity: str) -> Callable[[Collection], Collection]:
    return lambda data: data.with_covariates({entity: None})


def _less(columns: tuple[str, ...]) -> Callable[[Collection], Collection]:
    def seen(data: Collection) -> Collection:
        tables = {name: entities.covariates for name, entities in data.entities.items()}
        return data.with_covariates({name: t.without(columns) for name, t in tables.items() if t is not None})

    return seen


# --- in another form ----------------------------------------------------------------------------------------


def _forms(data: Collection, target: str) -> list[Variant]:
    """Tables as covariates where they are relations of a set that nothing else knows, and the other way round."""
    found = []
    for name, bound in data.relations.items():
        sides = [entity for entity in (bound.rows, bound.cols) if _uses(data, entity) > 1]
        if name != target and len(sides) == 1 and bound.symmetric is None:
            found.append(Variant(f"{name} as covariates", "form", partial(as_covariates, relation=name)))
    for entity, entities in data.entities.items():
        if entities.covariates is not None:
            name = f"covariates of {entity} as a relation"
            found.append(Variant(name, "form", partial(as_relation, entity=entity)))
    return found


def _uses(data: Collection, entity: str) -> int:
    return sum(entity in (bound.rows, bound.cols) for bound in data.relations.values())


def as_covariates(data: Collection, relation: str) -> Collection:
    """Return the collection with a relation as covariates of the one of its sets that others know too.

    Cells enter as they are, numbers standardized; one that was not observed is at the mean. Where blanks are zeros,
    there may be more of them than memory holds: zeros stay zeros, and so does what was not observed.
    """
    bound = data.relations[relation]
    entity, other = (bound.rows, bound.cols) if _uses(data, bound.rows) > 1 else (bound.cols, bound.rows)
    i, j, x = _nonzero(bound.cells) if bound.cells.filled else bound.cells.triplets()
    x, n_zeros = x.astype(np.float64), bound.cells.n_cells - len(x)
    mean = x.sum() / bound.cells.n_cells
    deviation = np.sqrt((((x - mean) ** 2).sum() + n_zeros * mean**2) / bound.cells.n_cells)
    if bound.schema.likelihood == "gaussian" and deviation > 0:
        x = (x if bound.cells.filled else x - mean) / deviation
    at = (i, j) if entity == bound.rows else (j, i)
    matrix = sparse.coo_array((x, at), shape=(data.entities[entity].size, data.entities[other].size)).tocsr()
    names = [f"{relation}: {item}" for item in data.entities[other].ids]
    made, known = read_table(entity, (data.entities[entity].ids, matrix, names)), data.entities[entity].covariates
    left = data.select([name for name in data.relations if name != relation])
    return left.with_covariates({entity: made if known is None or made is None else known.joined(made)})


def _nonzero(cells: Cells) -> Triplets:
    """What a filled relation lists, without its holes."""
    (rows, cols), (place, value) = cells.members(), listed_cells(cells)
    seen = ~holes(value)
    i, j = np.divmod(place[seen], len(cols))
    return Triplets(rows[i], cols[j], value[seen])


def as_relation(data: Collection, entity: str) -> Collection:
    """Return the collection with the covariates of a set as a Gaussian relation of it with its features."""
    known = data.entities[entity].covariates
    assert known is not None  # who asks has seen them
    values, shape, name = known.values, known.values.shape, f"covariates of {entity}"
    if isinstance(values, np.ndarray):
        i, j = (at.astype(np.int32) for at in np.divmod(np.arange(values.size), shape[1]))
        cells = list_cells(Triplets(i, j, values.ravel()), shape)
    else:
        (i, j), (rows, cols) = values.nonzero(), (np.arange(n, dtype=np.int32) for n in shape)
        listed = Triplets(i.astype(np.int32), j.astype(np.int32), values.data[values.data != 0])
        cells = fill_cells(listed, shape, row_members=rows, col_members=cols)
    features = EntitySet(f"{name} (features)", Vocabulary(pd.Index([str(feature) for feature in known.features])))
    added = BoundRelation(name, entity, features.name, "gaussian", cells)
    return data.with_covariates({entity: None}).with_relation(added, features)


# --- without factors ----------------------------------------------------------------------------------------


def without_factors(model: GCMF, named: GCMF, cells: BoundRelation) -> dict[str, GCMF | None]:
    """Return a model without each factor that matters to a relation, by its name in another fit of the same data.

    Two fits may have the same factors in another order and with other signs: those whose parts of the predictor go
    together in these cells, by more than 0.5, are taken for one, the most alike first. None stands for a factor that
    the model does not have.
    """
    i, j, _ = cells.cells.triplets()
    some = draw(np.random.default_rng(0), len(i), min(len(i), MOST_ALIKE))
    parts = [_parts(one.fitted_, cells, i[some], j[some]) for one in (named, model)]
    alike = np.abs(np.nan_to_num(_correlation(*parts)))
    rows, cols = linear_sum_assignment(-alike)
    found = {int(k): int(other) for k, other in zip(rows, cols, strict=True) if alike[k, other] > ALIKE}
    names = named.fitted_.factor_names
    return {
        f"without {names[k]}": _less_factor(model, found[k]) if k in found else None
        for k in range(named.fitted_.n_factors)
        if parts[0][:, k].any()
    }


def _parts(fitted: Fitted, cells: BoundRelation, i: Indices, j: Indices) -> Floats:
    """What each strong factor adds to θ of these cells, (cells, K)."""
    m = [relation.name for relation in fitted.schema.relations].index(cells.name)
    (r, c), n = fitted.ends[m], fitted.n_factors
    if fitted.draws is not None:
        return fitted.draws.parts(m, i.astype(np.int64), j.astype(np.int64))[2][:, :n]
    theirs = fitted.mean[c][j]
    if fitted.scales is not None:
        theirs = (theirs[:, fitted.scales.mate] if fitted.directed[m] else theirs) * fitted.scales.mean[m]
    return np.asarray((fitted.mean[r][i] * theirs)[:, :n], dtype=np.float64)


def _correlation(left: Floats, right: Floats) -> Floats:
    """Of each column of one with each of the other; NaN where one is constant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = ((part - part.mean(axis=0)) / part.std(axis=0) for part in (left, right))
    return np.asarray(a.T @ b / len(left))


def _less_factor(model: GCMF, k: int) -> GCMF:
    """Return the model with a factor at zero: its predictions are those of all the others."""
    keep = np.arange(model.fitted_.on.shape[1]) != k
    fitted, less = model.fitted_, copy.copy(model)
    mean, var = (tuple(a * keep.astype(a.dtype) for a in group) for group in (fitted.mean, fitted.var))
    terms, draws = fitted.terms, fitted.draws
    if terms is not None and terms.var is not None:
        terms = terms._replace(var=tuple(a * keep.astype(a.dtype) for a in terms.var))
    if draws is not None:
        draws = draws._replace(factors=tuple(a * keep.astype(a.dtype) for a in draws.factors))
    less._fitted = replace(fitted, mean=mean, var=var, prior_var=fitted.prior_var * keep, terms=terms, draws=draws)
    return less
