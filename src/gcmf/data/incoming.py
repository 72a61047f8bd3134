"""Cells that are brought to a fitted model: read in any form, checked, and matched with the ids that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from narwhals.stable.v1 import dependencies
from scipy import sparse

from gcmf.data.adapters.wide import open_frame
from gcmf.data.cells import Cells, DuplicateCellsError, Triplets, fill_cells, list_cells, weigh_cells
from gcmf.data.checks import collection_faults, duplicate_faults, strange_kind
from gcmf.data.raw import value_type
from gcmf.data.relation import Relation
from gcmf.data.schema import Columns, likelihood_name, likelihood_support
from gcmf.data.vocabulary import Vocabulary, and_more, show_id
from gcmf.errors import DataError, UnknownIdError, did_you_mean

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.schema import RelationSchema, Schema
    from gcmf.data.units import Units
    from gcmf.likelihoods import Likelihood

    Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Known:
    """What a model knows of its relations, by which cells are read."""

    schema: Schema
    vocabularies: Mapping[str, Vocabulary]
    likelihoods: tuple[Likelihood, ...]
    filled: npt.NDArray[np.bool_]
    """Relations in which what is not listed is a zero, (M,)."""
    has_cells: tuple[npt.NDArray[np.bool_], ...]
    """Per side of each relation (2 × relation + side): who has a cell there, and so zeros where blanks are zeros."""
    units: tuple[Units | None, ...]


@dataclass(frozen=True, eq=False)
class Met:
    """The cells of new entities in one relation: they are the rows here, and whom they meet the columns."""

    relation: int
    side: int
    """Where the new entities stand in the relation: 0 in its rows, 1 in its columns."""
    cells: Cells


def read_cells(known: Known, m: int, given: Any, *, first: str, apart: bool = False) -> Relation:  # noqa: ANN401
    """Return what was given for relation m as a relation whose rows are the set `first`.

    A long frame has the columns of the table that the model was fitted to, or columns named as the two sets and one of
    values; a wide one has ids of `first` in its index, and for its columns ids of the other set that the model knows;
    triplets are (ids of `first`, ids of the other set, values); the columns of arrays and sparse matrices are the other
    set's entities in the order of the model. A `Relation` says by itself what its rows and columns are. Ids of a kind
    that the model's are not are refused; rows that stay `apart` from those of the model may have any.
    """
    schema = known.schema.relations[m]
    relation = _turned(given, schema, first) if isinstance(given, Relation) else _read(known, m, given, first)
    faults = []
    source = f"the new cells of relation {schema.name!r}"
    for name, ids in ((relation.rows, relation.row_ids), (relation.cols, relation.col_ids)):
        if not (apart and name == first):
            faults.append(strange_kind(name, known.vocabularies[name], ids, source))
    if any(faults):
        raise DataError(fault for fault in faults if fault)
    return relation


def _read(known: Known, m: int, given: Any, first: str) -> Relation:  # noqa: ANN401 - whatever holds cells
    """What is no relation yet, as one."""
    schema, likelihood = known.schema.relations[m], known.likelihoods[m]
    other = schema.cols if schema.rows == first else schema.rows
    how: dict[str, Any] = {"symmetric": schema.symmetric}
    blanks = "zero" if known.filled[m] else "missing"
    if dependencies.is_into_dataframe(given):
        columns = _long_columns(schema, open_frame(given).columns, first, support=likelihood.support)
        if columns is not None:
            return Relation.from_frame(
                schema.name, given, rows=first, cols=other, likelihood=likelihood, blanks=blanks, **how,
                **columns._asdict(),
            )  # fmt: skip
        _check_wide(known, schema, given, (first, other))
    elif isinstance(given, tuple):
        how["blanks"] = blanks
    elif isinstance(given, np.ndarray) or sparse.issparse(given):
        how["col_ids"] = _columns(schema, given, known.vocabularies[other], other)
        if sparse.issparse(given):
            how["blanks"] = blanks
    return Relation(schema.name, first, other, given, likelihood, **how)


def _long_columns(schema: RelationSchema, columns: list[str], first: str, *, support: str) -> Columns | None:
    """The columns of a long frame, its rows those of `first`: as in the table that was fitted, or named as the sets.

    None where it has neither.
    """
    names, ends = set(columns), schema.columns
    if ends is not None and {ends.row, ends.col} <= names:
        row, col = (ends.row, ends.col) if schema.rows == first else (ends.col, ends.row)
        weight = ends.weight if ends.weight in names else None
        if ends.value is None or ends.value in names:
            return Columns(row, col, ends.value, weight)
        return Columns(row, col, _value_column(schema, columns, (row, col), support=support), weight)
    other = schema.cols if schema.rows == first else schema.rows
    row, col = first, f"{other}_other" if first == other else other
    if {row, col} <= names:
        return Columns(row, col, _value_column(schema, columns, (row, col), support=support))
    return None


def _check_wide(known: Known, schema: RelationSchema, frame: Any, ends: tuple[str, str]) -> None:  # noqa: ANN401
    """Refuse a frame that is not long, and whose columns are not ids that the model knows."""
    is_pandas, (first, other) = isinstance(frame, pd.DataFrame), ends
    columns = frame.columns if is_pandas else pd.Index(open_frame(frame).columns)
    # Frames without an index have row ids in their first column, or none.
    strange = columns[known.vocabularies[other].index(columns) < 0]
    if not len(strange) or (not is_pandas and [*strange] == [columns[0]]):
        return
    shown = ", ".join(map(show_id, columns[:5])) + (", ..." if len(columns) > 5 else "")
    named = schema.columns
    long = (first, f"{other}_other" if first == other else other, "value") if named is None else named[:3]
    long_columns = ", ".join(repr(name) for name in long if name is not None)
    one = known.vocabularies[other].ids[0]
    msg = (
        f"relation {schema.name!r}: the frame has the columns {shown}, and is neither long (columns {long_columns}) nor"
        f" wide (a column for each {other} that the model knows, such as {show_id(one)}, and the ids of {first} in its"
        f" index): no {other} is {show_id(strange[0])}. Rename its columns, or say what they are:"
        f" Relation.from_frame({schema.name!r}, frame, rows={first!r}, cols={other!r}, row=..., col=..., value=...), or"
        f" of a wide one with new columns Relation({schema.name!r}, {first!r}, {other!r}, frame)."
    )
    raise DataError(msg)


def _turned(given: Relation, schema: RelationSchema, first: str) -> Relation:
    """The relation itself, with its rows for columns if need be; refuse one that is another."""
    if (sets := {given.rows, given.cols}) != {schema.rows, schema.cols}:
        msg = (
            f"relation {schema.name!r} joins {schema.rows!r} and {schema.cols!r} in the model, and"
            f" {' and '.join(map(repr, sorted(sets)))} in what is given. Name the entity sets as the model does."
        )
        raise DataError(msg)
    if likelihood_name(given.likelihood) != schema.likelihood:
        msg = (
            f"relation {schema.name!r} was fitted as {schema.likelihood}, and is {likelihood_name(given.likelihood)} in"
            f" what is given. Give it with likelihood={schema.likelihood!r}."
        )
        raise DataError(msg)
    if given.rows == first:
        return given
    raw = given.raw
    raw = replace(raw, row_ids=raw.col_ids, col_ids=raw.row_ids, i=raw.j, j=raw.i)
    return Relation(given.name, given.cols, given.rows, raw, given.likelihood, symmetric=given.symmetric)


def _value_column(schema: RelationSchema, columns: list[str], ids: tuple[str, str], *, support: str) -> str | None:
    """The column of a long frame that holds the values: the only one left, or named as the relation, or "value"."""
    weight = None if schema.columns is None else schema.columns.weight
    left = [column for column in columns if column not in ids and column != weight]
    named = [column for column in (schema.name, "value") if column in left]
    if len(left) == 1 or named:
        return named[0] if named else left[0]
    if not left and support != "real":
        return None
    msg = (
        f"relation {schema.name!r}: the frame has {', '.join(map(repr, columns))}, and beside {ids[0]!r} and {ids[1]!r}"
        f" needs one column of values; keep that one alone, or call it 'value'."
    )
    raise DataError(msg)


def _columns(schema: RelationSchema, given: Any, ids: Vocabulary, other: str) -> Any:  # noqa: ANN401 - arrays, indexes
    """The ids that the columns of a matrix stand for."""
    if given.ndim == 2 and given.shape[1] != len(ids):
        msg = (
            f"relation {schema.name!r}: the columns of a bare matrix are the {len(ids):,} {other}s that the model"
            f" knows, in its order, and this one has {given.shape[1]:,}. Name them: Relation({schema.name!r}, ...,"
            " col_ids=...)."
        )
        raise DataError(msg)
    return ids.ids


def relations_of(known: Known, given: object, entity: str | None = None) -> dict[int, object]:
    """Return what was given by name of a relation by its number; all must join the set, if one is named."""
    if not isinstance(given, Mapping):
        msg = f'Cells are given by relation, such as {{"ratings": cells}}. Got {type(given).__name__} instead.'
        raise DataError(msg)
    names = [relation.name for relation in known.schema.relations]
    fitting = [r.name for r in known.schema.relations if entity is None or entity in (r.rows, r.cols)]
    for name in given:
        if name not in names:
            known_names = ", ".join(map(repr, names))
            msg = f"There is no relation {name!r}; the model has {known_names}.{did_you_mean(name, names)}"
            raise UnknownIdError(msg)
        if name not in fitting:
            msg = f"The relation {name!r} has no {entity}; those of {entity} are {', '.join(map(repr, fitting))}."
            raise DataError(msg)
    return {names.index(name): cells for name, cells in given.items()}


def meet(known: Known, entity: str, given: object, ids: Vocabulary | None) -> tuple[Vocabulary, list[Met]]:
    """Return the new entities of a set, after those in `ids`, and their cells with entities that the model knows."""
    relations = {
        m: read_cells(known, m, cells, first=entity, apart=True)
        for m, cells in relations_of(known, given, entity).items()
    }
    faults = collection_faults(list(relations.values()), {})
    if faults:
        raise DataError(faults)
    listed = {m: _listed(known, m, relation, entity) for m, relation in relations.items()}
    for cells in listed.values():
        for part in cells:
            ids = part.ids if ids is None else ids.union(part.ids)
    if ids is None or not len(ids):
        msg = f"There is no {entity} to fold in: give cells, or covariates= with their ids."
        raise DataError(msg)
    return ids, [
        Met(m, part.side, _held(known, m, relations[m], part, ids)) for m, cells in listed.items() for part in cells
    ]


@dataclass(frozen=True, eq=False)
class _Listed:
    """Cells by the ids of new entities and the positions of those they meet."""

    side: int
    ids: Vocabulary
    i: Indices
    j: Indices
    which: Indices
    """Which of the relation's cells each is."""


def _listed(known: Known, m: int, relation: Relation, entity: str) -> list[_Listed]:
    """The cells of a relation; of one of a set with itself, those that new ones send and those that they receive."""
    schema, raw = known.schema.relations[m], relation.raw
    if schema.symmetric is None:
        other = relation.cols
        at = _partners(known.vocabularies[other], relation, other)
        return [_Listed(int(schema.rows != entity), raw.row_ids, raw.i[:], at[raw.j[:]], np.arange(len(raw.x)))]
    vocabulary = known.vocabularies[entity]
    row_at, col_at = vocabulary.index(raw.row_ids), vocabulary.index(raw.col_ids)
    i, j = raw.i[:], raw.j[:]
    new_row, new_col = row_at[i] < 0, col_at[j] < 0
    bad = np.flatnonzero(new_row == new_col)
    if len(bad):
        one, other = (show_id(v.ids[int(p)]) for v, p in ((raw.row_ids, i[bad[0]]), (raw.col_ids, j[bad[0]])))
        which = "new to the model" if new_row[bad[0]] else "known to the model"
        msg = (
            f"relation {schema.name!r}: row {one}, column {other}{and_more(len(bad) - 1)} are both {which}, and who is"
            " folded in must be new and meet who is known. Use model.update for cells of any two."
        )
        raise DataError(msg)
    sent = _Listed(0, raw.row_ids, i[new_row], col_at[j[new_row]], np.flatnonzero(new_row))
    received = _Listed(1, raw.col_ids, j[new_col], row_at[i[new_col]], np.flatnonzero(new_col))
    ids = Vocabulary(raw.row_ids.ids[row_at < 0]).union(Vocabulary(raw.col_ids.ids[col_at < 0]))
    parts = [replace(part, ids=ids, i=ids.index(part.ids)[part.i]) for part in (sent, received)]
    if schema.symmetric:  # whichever way its cells were given
        return [_Listed(0, ids, *(np.concatenate([getattr(p, a) for p in parts]) for a in ("i", "j", "which")))]
    return [part for part in parts if len(part.which) or known.filled[m]]


def _partners(vocabulary: Vocabulary, relation: Relation, other: str) -> Indices:
    """Positions of the columns of a relation among what the model knows; refuse strangers."""
    raw = relation.raw
    at = vocabulary.index(raw.col_ids)
    strange = np.flatnonzero(at < 0)
    used = strange[np.isin(strange, raw.j[:])] if len(strange) else strange
    if len(used):
        whose = raw.row_ids.ids[int(raw.i[int(np.flatnonzero(raw.j[:] == used[0])[0])])]
        msg = (
            f"relation {relation.name!r}: {relation.rows} {show_id(whose)} has a cell with the {other}"
            f" {show_id(raw.col_ids.ids[used[0]])}, which the model has never seen{and_more(len(used) - 1)}. Leave such"
            " cells out, or use model.update, which takes new entities on both sides."
        )
        raise UnknownIdError(msg)
    return at


def _held(known: Known, m: int, relation: Relation, part: _Listed, ids: Vocabulary) -> Cells:
    """The cells as engines take them, the new entities in their rows."""
    schema, raw = known.schema.relations[m], relation.raw
    other = schema.rows if part.side else schema.cols
    shape = len(ids), len(known.vocabularies[other])
    i, j = ids.index(part.ids)[part.i].astype(np.int32), part.j.astype(np.int32)
    x, units = raw.x[part.which], known.units[m]
    if units is not None and part.side == 0:
        center, scale = units.of(part.j)
        x = (x - center) / scale
    dtype = np.uint8 if likelihood_support(relation.likelihood) == "binary" else value_type(x)
    try:
        if raw.weight is not None:
            return weigh_cells(Triplets(i, j, x), raw.weight[part.which], shape, dtype=dtype)
        if not raw.filled:
            return list_cells(Triplets(i, j, x), shape, dtype=dtype)
        rows = np.unique(ids.index(part.ids)).astype(np.int32)
        covered = np.flatnonzero(known.has_cells[2 * m + 1 - part.side])
        cols = np.union1d(covered, j).astype(np.int32)
        moved = Triplets(np.searchsorted(rows, i).astype(np.int32), np.searchsorted(cols, j).astype(np.int32), x)
        return fill_cells(moved, shape, row_members=rows, col_members=cols, dtype=dtype)
    except DuplicateCellsError:
        faults = list(duplicate_faults(relation)) or [
            f"relation {relation.name!r} is symmetric, and some pair is given both ways; keep one of the two."
        ]
        raise DataError(faults) from None
