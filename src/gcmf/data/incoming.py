"""Cells that are brought to a fitted model: read in any form, checked, and matched with the ids that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.stable.v1 import dependencies
from scipy import sparse

from gcmf.data.adapters.wide import open_frame
from gcmf.data.cells import Cells, DuplicateCellsError, Triplets, fill_cells, list_cells, weigh_cells
from gcmf.data.checks import collection_faults, duplicate_faults
from gcmf.data.raw import value_type
from gcmf.data.relation import Relation
from gcmf.data.schema import likelihood_name, likelihood_support
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


def read_cells(known: Known, m: int, given: Any, *, first: str) -> Relation:  # noqa: ANN401 - whatever holds cells
    """Return what was given for relation m as a relation whose rows are the set `first`.

    A long frame has columns named as the two sets and one of values; a wide one has ids of `first` in its index;
    triplets are (ids of `first`, ids of the other set, values); the columns of arrays and sparse matrices are the other
    set's entities in the order of the model. A `Relation` says by itself what its rows and columns are.
    """
    schema, likelihood = known.schema.relations[m], known.likelihoods[m]
    name, other = schema.name, schema.cols if schema.rows == first else schema.rows
    if isinstance(given, Relation):
        return _turned(given, schema, first)
    how: dict[str, Any] = {"symmetric": schema.symmetric}
    if dependencies.is_into_dataframe(given):
        frame = open_frame(given)
        col = f"{other}_other" if first == other else other
        if {first, col} <= set(frame.columns):
            value = _value_column(schema, list(frame.columns), (first, col), support=likelihood.support)
            blanks = "zero" if known.filled[m] else "missing"
            return Relation.from_frame(
                name, given, rows=first, cols=other, row=first, col=col, value=value, likelihood=likelihood,
                blanks=blanks, **how,
            )  # fmt: skip
    elif isinstance(given, tuple):
        how["blanks"] = "zero" if known.filled[m] else "missing"
    elif isinstance(given, np.ndarray) or sparse.issparse(given):
        how["col_ids"] = _columns(schema, given, known.vocabularies[other], other)
        if sparse.issparse(given):
            how["blanks"] = "zero" if known.filled[m] else "missing"
    return Relation(name, first, other, given, likelihood, **how)


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
    left = [column for column in columns if column not in ids]
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
        m: read_cells(known, m, cells, first=entity) for m, cells in relations_of(known, given, entity).items()
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
