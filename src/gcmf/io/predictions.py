"""Predictions of cells that a table lists, or of all cells of a relation, a part at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.vocabulary import and_more, show_id
from gcmf.errors import DataError, OptionError, UnknownIdError, did_you_mean
from gcmf.io.guess.summary import entity_of
from gcmf.io.sources.duck import as_number, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gcmf.data.schema import RelationSchema
    from gcmf.estimators.gcmf import GCMF, Unknown
    from gcmf.io.sources.tables import Table

_CELLS = 1_000_000
"""Cells that are predicted at a time."""


def find_relation(model: GCMF, name: str | None, columns: Iterable[str] = ()) -> RelationSchema:
    """Return the relation of a name; without one, the only one that there is, or that fits the columns of a table."""
    known = {relation.name: relation for relation in model.schema_.relations}
    if name is None:
        held = {entity_of(column) for column in columns} | set(columns)
        fitting = [relation for relation in known.values() if len(known) == 1 or held.issuperset(names_of(relation))]
        if len(fitting) == 1:
            return fitting[0]
        msg = f"The model has several relations; say which with --relation: {', '.join(known)}."
        raise OptionError(msg)
    if name not in known:
        msg = f"There is no relation {name!r}; the model has {', '.join(known)}.{did_you_mean(name, known)}"
        raise UnknownIdError(msg)
    return known[name]


def names_of(relation: RelationSchema) -> tuple[str, str]:
    """What columns of row ids and column ids are called: as the entity sets; user and user_other within one set."""
    return relation.rows, relation.cols if relation.cols != relation.rows else f"{relation.cols}_other"


def predict_table(  # noqa: PLR0913 - which cells, by which columns, and what of them
    model: GCMF,
    relation: RelationSchema,
    table: Table,
    *,
    columns: tuple[str | None, str | None],
    unknown: Unknown,
    interval: float | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield ids as the table has them, mean and deviation of the cells that it lists, in its order.

    With `interval`, the lower and upper end of what holds a cell with that probability too. The ids are in the
    `columns` named, else in those named as the entity sets (user, userID, user_id). A table without rows yields a frame
    without rows.
    """
    row, col = find_columns(table, relation, columns)
    sets = model.fitted_.vocabularies
    sides = ((relation.rows, row), (relation.cols, col))
    casts = [_cast(sets[entity].ids, column) for entity, column in sides]
    done = 0
    for batch in table.batches(*casts, quote(row), quote(col)):
        frame = batch.to_pandas(integer_object_nulls=True)
        ids, given = (frame["c0"], frame["c1"]), (frame["c2"], frame["c3"])
        for (entity, column), known, named in zip(sides, ids, given, strict=True):
            empty = np.flatnonzero(named.isna())
            if len(empty):
                msg = f"{table.label}, column {column!r}, row {done + int(empty[0]) + 1}: the {entity} is empty"
                msg += f"{and_more(len(empty) - 1)}; drop such rows."
                raise DataError(msg)
            strange = np.flatnonzero(sets[entity].index(known) < 0)
            if len(strange) and unknown == "error":
                msg = (
                    f"{table.label}, column {column!r}, row {done + int(strange[0]) + 1}: the model has never seen the"
                    f" {entity} {show_id(named.iloc[strange[0]])}{and_more(len(strange) - 1)}. Use --unknown prior to"
                    " predict new ids from the prior."
                )
                raise UnknownIdError(msg)
        numbers = _predict(model, relation, (ids[0].array, ids[1].array), interval, unknown=unknown)
        done += len(frame)
        yield _answer((row, col), given, numbers)
    if not done:
        none = sets[relation.rows].ids[:0], sets[relation.cols].ids[:0]
        yield _answer((row, col), none, [()] * (2 if interval is None else 4))


def _predict(
    model: GCMF, relation: RelationSchema, cells: tuple[Any, Any], interval: float | None, *, unknown: Unknown = "error"
) -> tuple[Any, ...]:
    """Mean, deviation, and where they are wanted the ends of an interval."""
    if interval is None:
        return model.predict(relation.name, *cells, return_std=True, unknown=unknown)
    return model.predict(relation.name, *cells, return_std=True, interval=interval, unknown=unknown)


def predict_all(
    model: GCMF, relation: RelationSchema, interval: float | None = None, *, rows: pd.Index[Any] | None = None
) -> Iterator[pd.DataFrame]:
    """Yield ids, mean, deviation and the ends of the interval of every cell of a relation, row by row.

    Of some rows, if they are given. No entity has a cell with itself.
    """
    whole, cols = (model.fitted_.vocabularies[entity].ids for entity in (relation.rows, relation.cols))
    rows = whole if rows is None else rows
    step = max(1, _CELLS // max(len(cols), 1))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        numbers = _predict(model, relation, (part, None), interval)
        partners = cols[np.tile(np.arange(len(cols)), len(part))]
        answer = _answer(names_of(relation), (part.repeat(len(cols)), partners), [np.ravel(one) for one in numbers])
        if relation.symmetric is not None:
            own = np.asarray(part.repeat(len(cols)) == partners)
            answer = answer[~own].reset_index(drop=True)
        yield answer


def _answer(names: tuple[str, str], ids: tuple[Any, Any], numbers: Sequence[Any]) -> pd.DataFrame:
    """Return predictions with their ids; an entity set that is called as one of them has `_id` behind its name."""
    of_cells = dict(zip(("mean", "std", "lower", "upper"), numbers, strict=False))
    row, col = (f"{name}_id" if name in of_cells else name for name in names)
    return pd.DataFrame({row: ids[0], col: ids[1], **of_cells})


def find_columns(table: Table, relation: RelationSchema, columns: tuple[str | None, str | None]) -> tuple[str, str]:
    """Return the columns of a table that hold the ids of rows and columns.

    Those told, else those of the table that was fitted, else those named as the sets. Where a set is related with
    itself and a table has two columns, the one that is not named as the set is the other.
    """
    names, fitted = names_of(relation), relation.columns
    if columns == (None, None) and fitted is not None and {fitted.row, fitted.col} <= set(table.columns):
        columns = fitted.row, fitted.col
    row, col = (given or _named(table, name) for given, name in zip(columns, names, strict=True))
    if relation.symmetric is not None and len(table.columns) == 2 and (row is None) != (col is None):
        (other,) = (name for name in table.columns if name not in (row, col))
        row, col = row or other, col or other
    if row is None or col is None:
        lacking = " and ".join(name for name, found in zip(names, (row, col), strict=True) if found is None)
        msg = (
            f"relation {relation.name!r}: {table.label} has no column for the ids of {lacking}; it has "
            f"{table.shown_columns}. Name its columns {names[0]} and {names[1]}, or say which they are with "
            f"--row and --col. If its first line holds no names, add one: {names[0]},{names[1]}."
        )
        raise DataError(msg)
    table.check_columns([row, col], where=f"relation {relation.name!r}")
    if row == col:
        msg = f"--row and --col both name the column {row!r} of {table.label}; a cell needs two ids."
        raise OptionError(msg)
    return row, col


def _named(table: Table, entity: str) -> str | None:
    """Return the column that is called like an entity set, or else the only one whose name says the same: user_id."""
    if entity in table.columns:
        return entity
    alike = [name for name in table.columns if entity_of(name) == entity]
    if len(alike) > 1:
        msg = f"{table.label} has several columns that may hold the ids of {entity}: {', '.join(alike)}. "
        msg += "Say which with --row and --col."
        raise DataError(msg)
    return alike[0] if alike else None


def _cast(ids: pd.Index[Any], column: str) -> str:
    """Return a column of ids in SQL, of the kind that the model knows."""
    return as_number(column, "BIGINT") if ids.dtype.kind in "iu" else f"CAST({quote(column)} AS VARCHAR)"
