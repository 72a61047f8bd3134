"""Rankings, reasons and new entities of the command line: ids as texts in, tables out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.relation import Relation
from gcmf.data.vocabulary import and_more, show_id
from gcmf.errors import DataError, OptionError, UnknownIdError
from gcmf.io.predictions import find_columns, find_relation, names_of
from gcmf.io.sources.duck import as_number, quote
from gcmf.io.sources.postgres import refuse_address
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gcmf.data.schema import RelationSchema
    from gcmf.estimators.gcmf import GCMF
    from gcmf.io.sources.tables import Table


def as_ids(model: GCMF, entity: str, texts: Sequence[str]) -> list[Any]:
    """Return ids that were typed as those of the model: whichever of its ids reads so."""
    known = model.fitted_.vocabularies[entity]
    if known.ids.dtype.kind in "iu":
        # Not str.isdigit, which takes ² for a digit; and no id has more digits than 64 bits do.
        return [int(text) if re.fullmatch("-?[0-9]{1,20}", text) else text for text in texts]
    if all(isinstance(item, str) for item in known.ids[:100]):
        return list(texts)
    read = {str(item): item for item in known.ids}
    return [read.get(text, text) for text in texts]


def fold_in(model: GCMF, given: Sequence[str], *, entity: str | None) -> tuple[GCMF, pd.Index[Any]]:
    """Return a model that knows the new entities of tables too, "FILE" or "RELATION=FILE" each, and their ids.

    A table has a line per cell: two columns of ids, named as the entity sets, and one of values.
    """
    tables = _tables(model, given, flag="--new")
    entity = entity or tables[0][0].rows
    cells = {relation.name: _new_cells(model, relation, table, entity) for relation, table in tables}
    new = model.fold_in(entity, cells)
    known = np.flatnonzero(model.fitted_.vocabularies[entity].index(new.ids) >= 0)
    if len(known):
        msg = (
            f"--new: the model knows the {entity} {show_id(new.ids[known[0]])}{and_more(len(known) - 1)} already;"
            " leave it out, or fit again with the new cells."
        )
        raise DataError(msg)
    return new.together(), new.ids


def held_out(model: GCMF, given: Sequence[str], *, flag: str = "--test") -> list[Relation]:
    """Return the cells of tables, "FILE" or "RELATION=FILE" each, as relations of the model."""
    found = []
    for relation, table in _tables(model, given, flag=flag):
        likelihood = model.fitted_.likelihoods[model.schema_.relations.index(relation)]
        cells = _cells(model, relation, table, flag=flag)
        triplets = tuple(cells[name].to_numpy() for name in cells)
        found.append(
            Relation(relation.name, relation.rows, relation.cols, triplets, likelihood, symmetric=relation.symmetric)
        )
    return found


def _tables(model: GCMF, given: Sequence[str], *, flag: str) -> list[tuple[RelationSchema, Table]]:
    """The tables that an option names, and the relation of each."""
    tables = []
    for text in given:
        name, _, path = text.rpartition("=")
        file = Path(path)
        refuse_address(file, what=flag)
        table = open_table(Source(source=file.name), file.absolute().parent)
        tables.append((find_relation(model, name or None, table.columns), table))
    if len({relation.name for relation, _ in tables}) < len(tables):
        msg = f"{flag} names a relation twice; give one table of each."
        raise OptionError(msg)
    return tables


def _new_cells(model: GCMF, relation: RelationSchema, table: Table, entity: str) -> pd.DataFrame:
    """The cells of new entities of a set, which another set has to meet."""
    if entity not in (relation.rows, relation.cols) or relation.rows == relation.cols:
        msg = (
            f"--new: relation {relation.name!r} joins {relation.rows} and {relation.cols}; new entities of {entity!r}"
            " are folded in from cells with another set."
        )
        raise OptionError(msg)
    return _cells(model, relation, table, flag="--new")


def _cells(model: GCMF, relation: RelationSchema, table: Table, *, flag: str) -> pd.DataFrame:
    """The cells of a table, with columns named as the sets, and `value`."""
    row, col = find_columns(table, relation, (None, None))
    left = [name for name in table.columns if name not in (row, col)]
    fitted = relation.columns and relation.columns.value
    named = [fitted] if fitted in left else [name for name in (relation.name, "value") if name in left] or left
    if len(named) != 1:
        msg = (
            f"{flag}: {table.label} has {table.shown_columns}; beside {row} and {col} it needs one column of values,"
            " or one named value."
        )
        raise DataError(msg)
    casts = [_cast(model, e, column) for e, column in ((relation.rows, row), (relation.cols, col))]
    parts = [batch.to_pandas(integer_object_nulls=True)
             for batch in table.batches(*casts, as_number(named[0]), quote(row), quote(col))]  # fmt: skip
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["c0", "c1", "c2", "c3", "c4"])
    for column, shown, what in (("c0", "c3", row), ("c1", "c4", col), ("c2", "c2", named[0])):
        bad = np.flatnonzero(frame[column].isna())
        if len(bad):
            msg = (
                f"{table.label}, column {what!r}, row {bad[0] + 1}: {frame[shown][bad[0]]!r} cannot be used"
                f"{and_more(len(bad) - 1)}: an id as the model has them, or a number, is needed."
            )
            raise DataError(msg)
    cells: pd.DataFrame = frame[["c0", "c1", "c2"]].set_axis([*names_of(relation), "value"], axis=1)
    return cells


def _cast(model: GCMF, entity: str, column: str) -> str:
    """Return a column of ids in SQL, of the kind that the model knows."""
    numbers = model.fitted_.vocabularies[entity].ids.dtype.kind in "iu"
    return as_number(column, "BIGINT") if numbers else f"CAST({quote(column)} AS VARCHAR)"


def reasons(model: GCMF, relation: RelationSchema, row: str, col: str, data: object) -> pd.DataFrame:
    """`explain` of ids that were typed, always in pandas."""
    ids = (as_ids(model, entity, [text])[0] for entity, text in ((relation.rows, row), (relation.cols, col)))
    return in_pandas(model.explain(relation.name, *ids, data=data))


def in_pandas(table: Any) -> pd.DataFrame:  # noqa: ANN401 - a frame of pandas or polars
    """A table of either kind, for what prints and writes."""
    made: pd.DataFrame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table.to_dict(as_series=False))
    return made


def find_entity(model: GCMF, name: str) -> str:
    """Return the name of an entity set of the model; refuse another."""
    try:
        model.schema_.entity_index(name)
    except UnknownIdError as error:
        raise OptionError(str(error)) from None
    return name
