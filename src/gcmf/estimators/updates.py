"""More cells for a fitted model, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.collection import Collection
from gcmf.data.incoming import read_cells, relations_of
from gcmf.data.relation import Relation
from gcmf.data.vocabulary import and_more, show_id
from gcmf.engines.threads import single_threaded_blas
from gcmf.errors import DataError, OptionError
from gcmf.estimators.newcomers import engine_of, known_of, with_new_entities
from gcmf.model.newcomers import terms_of
from gcmf.model.updating import repeated, standardized, update

if TYPE_CHECKING:
    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted


def updated(model: GCMF, cells: Any) -> Fitted:
    """What remains of a model after more cells: a mapping by relation, a relation, or a list of them."""
    fitted = model.fitted_
    if terms_of(fitted).point:
        msg = (
            "A point estimate (inference='map') does not know how sure it is, and cannot weigh new cells against it."
            " Fit again with all cells, from where it is: fit(data, start=model)."
        )
        raise OptionError(msg)
    given = [cells] if isinstance(cells, Relation) else cells
    if isinstance(given, list | tuple):
        given = {getattr(relation, "name", "?"): relation for relation in given}
    known = known_of(fitted)
    read = {}
    for m, part in relations_of(known, given).items():
        schema = fitted.schema.relations[m]
        if known.filled[m]:
            msg = (
                f"relation {schema.name!r} was fitted with blanks='zero', where a cell that comes later was a zero"
                " before. Fit again with all cells, from where the model is: fit(data, start=model)."
            )
            raise DataError(msg)
        read[m] = read_cells(known, m, part, first=schema.rows)
    data = Collection([_in_units(fitted, m, relation) for m, relation in read.items()])
    if fitted.draws is not None:
        return with_new_entities(model, read)
    again = repeated(fitted, data)
    if again is not None:
        name, i, j, n = again
        schema = fitted.schema.relations[[r.name for r in fitted.schema.relations].index(name)]
        row, col = (show_id(fitted.vocabularies[e].ids[at]) for e, at in ((schema.rows, i), (schema.cols, j)))
        msg = (
            f"relation {name!r}: the model was fitted to row {row}, column {col} already{and_more(n - 1)}, and would"
            " count it twice; leave it out, or fit all cells with their new values, from where the model is:"
            " fit(data, start=model)."
        )
        raise DataError(msg)
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return update(fitted, data, engine_of(model))


def _in_units(fitted: Fitted, m: int, relation: Relation) -> Relation:
    """The relation with its cells as they are fitted, where columns have units of their own."""
    units, raw = fitted.units[m], relation.raw
    if units is None:
        return relation
    at = fitted.vocabularies[fitted.schema.relations[m].cols].index(raw.col_ids)
    raw = replace(raw, x=standardized(units, raw.x, at[raw.j[:]]))
    return Relation(relation.name, relation.rows, relation.cols, raw, relation.likelihood, symmetric=relation.symmetric)
