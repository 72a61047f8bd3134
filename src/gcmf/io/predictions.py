"""Predictions of cells that a table lists, or of all cells of a relation, a part at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.vocabulary import and_more, show_id
from gcmf.errors import DataError, OptionError, UnknownIdError, did_you_mean
from gcmf.io.columns import entity_of
from gcmf.io.sql import as_number, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gcmf.data.schema import RelationSchema
    from gcmf.estimators.gcmf import GCMF, Unknown
    from gcmf.io.tables import Table

_CELLS = 1_000_000
"""Cells that are predicted at a time."""


def find_relation(model: GCMF, name: str | None, columns: Iterable[str] = ()) -> RelationSchema:
    """Return the relation of a name; without one, the only one that there is, or that fits the columns of a table."""
    known = {one.name: one for one in model.schema_.relations}
    if name is None:
        held = {entity_of(column) for column in columns} | set(columns)
        fitting = [one for one in known.values() if len(known) == 1 or {one.rows, one.cols} <= held]
        if len(fitting) == 1:
            return fitting[0]
        msg = f"The model has several relations; say which with --relation: {', '.join(known)}."
        raise OptionError(msg)
    if name not in known:
        msg = f"There is no relation {name!r}; the model has {', '.join(known)}.{did_you_mean(name, known)}"
        raise UnknownIdError(msg)
    return known[name]


def predict_table(
    model: GCMF, relation: RelationSchema, table: Table, *, columns: tuple[str | None, str | None], unknown: Unknown
) -> Iterator[pd.DataFrame]:
    """Yield ids, mean and deviation of the cells that a table lists, in its order.

    The ids are in the `columns` named, else in columns named as the entity sets (user, userID, user_id), else in the
    first two.
    """
    row, col = _find_columns(table, relation, columns)
    sets = model.fitted_.vocabularies
    casts = [_cast(sets[entity].ids, column) for entity, column in ((relation.rows, row), (relation.cols, col))]
    done = 0
    batches = table.batches(f"{casts[0]} AS r, {casts[1]} AS c")
    for batch in batches:
        frame = batch.to_pandas()
        if unknown == "error":
            for key, entity, column in (("r", relation.rows, row), ("c", relation.cols, col)):
                strange = np.flatnonzero(sets[entity].index(frame[key]) < 0)
                if len(strange):
                    batches.close()  # DuckDB answers one question at a time
                    raise _unknown(table, column, entity, done + int(strange[0]), len(strange))
        mean, std = model.predict(relation.name, frame["r"].array, frame["c"].array, return_std=True, unknown=unknown)
        mean, std = in_units(model, relation, frame["c"].to_numpy(), mean, std)
        done += len(frame)
        yield pd.DataFrame({row: frame["r"], col: frame["c"], "mean": mean, "std": std})


def predict_all(model: GCMF, relation: RelationSchema) -> Iterator[pd.DataFrame]:
    """Yield ids, mean and deviation of every cell of a relation, row by row."""
    rows, cols = (model.fitted_.vocabularies[entity].ids for entity in (relation.rows, relation.cols))
    step = max(1, _CELLS // max(len(cols), 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        mean, std = model.predict(relation.name, part, None, return_std=True)
        partners = cols[np.tile(np.arange(len(cols)), len(part))]
        mean, std = in_units(model, relation, partners.to_numpy(), np.ravel(mean), np.ravel(std))
        yield pd.DataFrame({relation.rows: part.repeat(len(cols)), relation.cols: partners, "mean": mean, "std": std})


def in_units(model: GCMF, relation: RelationSchema, cols: Any, mean: Any, std: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return predictions of columns that were standardized in the units that they came in."""
    units = model._units.get(relation.name)
    if units is None:
        return mean, std
    center, scale = np.array([units.get(name, (0.0, 1.0)) for name in cols]).T
    return center + scale * mean, scale * std


def _find_columns(table: Table, relation: RelationSchema, columns: tuple[str | None, str | None]) -> tuple[str, str]:
    names = list(table.columns)
    if len(names) < 2:
        msg = f"{table.label} has {len(names)} column; a cell needs the ids of its {relation.rows} and {relation.cols}."
        raise DataError(msg)
    found = [
        next((name for name in names if entity in (name, entity_of(name))), None)
        for entity in (relation.rows, relation.cols)
    ]
    defaults = found if None not in found else names[:2]
    row, col = (given or default or "" for given, default in zip(columns, defaults, strict=True))
    faults = table.lacking([row, col], where=f"relation {relation.name!r}")
    if faults:
        raise DataError(faults)
    return row, col


def _cast(ids: pd.Index[Any], column: str) -> str:
    """Return a column of ids in SQL, of the kind that the model knows."""
    return as_number(column, "BIGINT") if ids.dtype.kind in "iu" else f"CAST({quote(column)} AS VARCHAR)"


def _unknown(table: Table, column: str, entity: str, at: int, count: int) -> UnknownIdError:
    value = table.ask(f"SELECT {quote(column)} FROM {table.filtered} LIMIT 1 OFFSET {at}")[0][0]
    msg = (
        f"{table.label}, column {column!r}, row {at + 1}: the model has never seen the {entity} {show_id(value)}"
        f"{and_more(count - 1)}. Use --unknown prior to predict new ids from the prior."
    )
    return UnknownIdError(msg)
