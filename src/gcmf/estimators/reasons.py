"""Reasons by name: a table of parts that add up to a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.estimators.asking import check_kinds, is_turned, known_at
from gcmf.model.reasons import OwnCells, by_cells, by_factors

if TYPE_CHECKING:
    from gcmf.data.bound import BoundRelation
    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted

COLUMNS = ("by", "part", "relation", "item", "cell", "contribution")
SIDES = ("row", "column")


def explained(model: GCMF, m: int, row: Any, col: Any, data: object) -> pd.DataFrame:
    """Parts of one prediction by factors and, with the collection that was fitted, by the cells of its two entities."""
    fitted, schema = model.fitted_, model.schema_.relations[m]
    names = schema.rows, schema.cols
    at = tuple(int(known_at(fitted.vocabularies[name], name, [given])[0])
               for name, given in zip(names, (row, col), strict=True))  # fmt: skip
    center, scale = (float(np.ravel(a)[0]) for a in fitted.measure(m, np.array([at[1]])))
    b_row, b_col, factors = by_factors(fitted, m, *at)
    always = ("mean", None, None, None, center + scale * fitted.offset[m])
    biases = [(f"bias of {name}", schema.name, given, None, scale * b)
              for name, given, b in zip(names, (row, col), (b_row, b_col), strict=True)]  # fmt: skip
    lines = [("factors", *always), *(("factors", *bias) for bias in biases)]
    lines += [("factors", name, None, None, None, scale * part)
              for name, part in zip(fitted.factor_names, factors, strict=True) if part]  # fmt: skip
    if data is not None:
        collection = Collection.of(data, caller="explain(data=)")
        check_kinds(fitted, collection)
        for side in (0, 1):
            parts = _of_cells(fitted, collection, (m, side, at[side], at[1 - side]), scale)
            lines += [(f"{SIDES[side]} cells", *part) for part in (always, biases[1 - side], *parts)]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    # Ids of several sets stand here, and nothing: pandas would make numbers of them.
    return table.assign(item=pd.Series([line[3] for line in lines], dtype=object))


def _of_cells(
    fitted: Fitted, data: Collection, target: tuple[int, int, int, int], scale: float
) -> list[tuple[Any, ...]]:
    """Lines of what the entity on one side of the target brings: its prior, its cells, the largest first."""
    m, side, i, _ = target
    entity = fitted.schema.entities[fitted.ends[m][side]]
    own, values = _own_cells(fitted, data, entity, i)
    reasons = by_cells(fitted, target, own, _features(fitted, data, entity, i))
    lines: list[tuple[Any, ...]] = []
    for cells, x, parts in zip(own, values, reasons.cells, strict=True):
        name = fitted.schema.relations[cells.relation].name
        other = fitted.vocabularies[fitted.schema.entities[fitted.ends[cells.relation][1 - cells.side]]]
        zero = (x == 0) & _is_filled(fitted, cells.relation)
        listed = zip(cells.partner[~zero], x[~zero], parts[~zero], strict=True)
        lines += [("cell", name, other.ids[int(j)], float(value), scale * float(part)) for j, value, part in listed]
        if zero.any():
            lines.append((f"{int(zero.sum()):,} zeros", name, None, 0.0, scale * float(parts[zero].sum())))
    lines.sort(key=lambda line: -abs(line[-1]))
    ends = {"prior": reasons.prior, "bias from other relations": reasons.linked, "rest": reasons.rest}
    return lines + [(part, None, None, None, scale * value) for part, value in ends.items()]


def _is_filled(fitted: Fitted, m: int) -> bool:
    return fitted.terms is not None and bool(fitted.terms.filled[m])


def _own_cells(fitted: Fitted, data: Collection, entity: str, i: int) -> tuple[list[OwnCells], list[Any]]:
    """The cells of one entity that the model can know, and their values as they came."""
    own, values, known = [], [], fitted.vocabularies[entity].ids[i]
    for m, schema in enumerate(fitted.schema.relations):
        if schema.name not in data.relations or entity not in (schema.rows, schema.cols):
            continue
        bound = data.relations[schema.name]
        turned = is_turned(schema, bound)
        at = int(data.entities[entity].vocabulary.index([known])[0]) if entity in data.entities else -1
        for side in (0, 1):
            if (schema.rows, schema.cols)[side] != entity or (side and schema.symmetric) or at < 0:
                continue
            part, x = _row(fitted, data, bound, at, (m, side, side != turned))
            own.append(part)
            values.append(x)
    return own, values


def _row(
    fitted: Fitted, data: Collection, bound: BoundRelation, at: int, where: tuple[int, int, bool]
) -> tuple[OwnCells, Any]:
    """One row of a relation, from the side where its entity is in the model, and in the collection."""
    m, side, in_cols = where
    listing = bound.cells.cols if in_cols else bound.cells.rows
    partner, x = listing.row(at)
    times = np.ones(len(x))
    if listing.weight is not None:
        times = listing.weight[listing.indptr[at] : listing.indptr[at + 1]].astype(np.float64)
    if bound.units is not None:
        center, scale = bound.units.of(np.full(len(x), at) if in_cols else partner)
        x = center + scale * x
    schema = fitted.schema.relations[m]
    other = (schema.rows, schema.cols)[1 - side]
    partners = fitted.vocabularies[other].index(data.entities[other].ids.take(partner))
    own = int(fitted.vocabularies[(schema.rows, schema.cols)[side]].index(
        [data.entities[(schema.rows, schema.cols)[side]].ids[at]])[0])  # fmt: skip
    kept = partners >= 0
    center, scale = fitted.measure(m, np.full(int(kept.sum()), own) if side else partners[kept])
    return OwnCells(m, side, partners[kept], (x[kept] - center) / scale, times[kept]), x[kept]


def _features(fitted: Fitted, data: Collection, entity: str, i: int) -> Any:
    """The covariates of an entity as they enter, (1, p), if the collection has those that were fitted."""
    effects, covariates = fitted.effects.get(entity), data.entities[entity].covariates
    if effects is None or covariates is None or covariates.features != effects.features:
        return None
    at = data.entities[entity].vocabulary.index([fitted.vocabularies[entity].ids[i]])
    return covariates.values[at]
