"""From each relation's own ids to those of the entity sets that relations share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.categories import find_categories
from gcmf.data.cells import (
    MOST_LISTED,
    Cells,
    DuplicateCellsError,
    Triplets,
    fill_cells,
    hole_of,
    list_cells,
    weigh_cells,
)
from gcmf.data.checks import brought_ids, duplicate_faults
from gcmf.data.positions import Coded
from gcmf.data.raw import alike, value_type
from gcmf.data.relation import size_in_words
from gcmf.data.schema import RelationSchema, likelihood_name, likelihood_support
from gcmf.data.vocabulary import Vocabulary, and_more, show_id
from gcmf.errors import DataError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pandas as pd

    from gcmf.data.cells import Sort
    from gcmf.data.covariates import Covariates
    from gcmf.data.positions import Positions
    from gcmf.data.raw import RawCells
    from gcmf.data.relation import Relation
    from gcmf.data.schema import Columns
    from gcmf.data.units import Units
    from gcmf.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class EntitySet:
    """One entity set of a collection: its name and its ids in order."""

    name: str
    vocabulary: Vocabulary
    declared: int = 0
    """How many ids at its head were declared, whether or not some cell mentions them."""
    covariates: Covariates | None = None
    """What else is known of its entities."""

    @property
    def ids(self) -> pd.Index[Any]:
        """The ids, in the order of every array about this set."""
        return self.vocabulary.ids

    @property
    def size(self) -> int:
        """The number of entities."""
        return len(self.vocabulary)

    def __len__(self) -> int:
        return self.size

    def __str__(self) -> str:
        known = "" if self.covariates is None else f" ({counted(self.covariates.n_columns, 'covariate')})"
        return f"{self.name} {self.size:,}{known}"


@dataclass(frozen=True, eq=False)
class BoundRelation:
    """A relation within a collection: its cells are indexed by the collection's entity sets."""

    name: str
    rows: str
    cols: str
    likelihood: str | Likelihood
    cells: Cells
    units: Units | None = None
    """What its columns were standardized by, if they were, in the order of the column set."""
    symmetric: bool | None = None
    """Of a set with itself: whether (i, j) and (j, i) are one cell. `cells` then holds it both ways."""
    columns: Columns | None = None
    """What the columns of the long table are called that it was read from, if it was."""
    lead: npt.NDArray[np.int64] | None = None
    """Of columns that are levels of categories: the first column of the category of each, (cols,); itself if alone."""

    @property
    def schema(self) -> RelationSchema:
        """The relation without its data."""
        kind = likelihood_name(self.likelihood)
        return RelationSchema(self.name, self.rows, self.cols, kind, self.symmetric, self.columns)

    @property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return self.cells.n_cells // 2 if self.symmetric else self.cells.n_cells

    @property
    def shape(self) -> tuple[int, int]:
        """The sizes of its two entity sets in the collection."""
        return self.cells.shape

    @property
    def size(self) -> str:
        """Its sizes and its number of cells, in words."""
        n, possible = self.shape[0], None
        if self.symmetric is not None:
            possible = n * (n - 1) // (2 if self.symmetric else 1)
        if not self.cells.filled:
            return size_in_words(self.n_cells, self.shape, possible=possible)
        rows, cols = self.cells.members()
        return size_in_words(self.n_cells, self.shape, zeros=(len(rows), len(cols)), possible=possible)

    def chunks(self, size: int) -> Iterator[Triplets]:
        """Yield every observed cell in row-major order and in the units that it came in, at most `size` at a time.

        Refuses to where nearly all of them are zeros, and too many.
        """
        if self.cells.filled and self.n_cells > MOST_LISTED:
            msg = (
                f"relation {self.name!r} has {self.n_cells:,} cells with its zeros, which are too many to be looked at"
                f" one by one (at most {MOST_LISTED:,}). Take some of them: a part that split(test_size=0.001) draws."
            )
            raise DataError([msg])
        for whole in self.cells.chunks(size):
            part = Triplets(*(a[whole.i < whole.j] for a in whole)) if self.symmetric else whole
            x = part.x.astype(np.float64)
            if self.units is not None:
                center, scale = self.units.of(part.j)
                x = center + scale * x
            yield part._replace(x=x)

    def __repr__(self) -> str:
        return f"<BoundRelation {self.schema}, {self.size}>"


def align(
    relations: Sequence[Relation], declared: Mapping[str, object], covariates: Mapping[str, Covariates]
) -> dict[str, EntitySet]:
    """Return the entity sets of checked relations: the declared ids, then the others as they first appear.

    Covariates are of declared ids, in their order.
    """
    sets: dict[str, EntitySet] = {}
    for name, sources in brought_ids(relations).items():
        head = Vocabulary(declared[name]) if name in declared else None
        whole = sources[0][1] if head is None else head
        for _, ids in sources:
            whole = whole.union(ids)
        known = covariates[name].padded(len(whole)) if name in covariates else None
        sets[name] = EntitySet(name, whole, declared=0 if head is None else len(head), covariates=known)
    return sets


def bind(
    relations: Sequence[Relation],
    sets: Mapping[str, EntitySet],
    *,
    sort: Callable[[int], Sort | None] = lambda _: None,
) -> list[BoundRelation]:
    """Return checked relations with their cells indexed by the entity sets; refuse cells that are given twice.

    `sort` says what sorts the cells of the relation with a number; None: what sorts them in memory.
    """
    bound: list[BoundRelation] = []
    faults: list[str] = []
    for number, relation in enumerate(relations):
        cols, units = sets[relation.cols], relation.raw.units
        try:
            if relation.symmetric is None:
                cells = _bind_cells(relation, sets[relation.rows], cols, sort=sort(number))
            else:
                cells = bind_itself(relation, sets[relation.rows], cols)
        except DuplicateCellsError as error:
            faults += _repeated(relation, sets, *error.args) if error.args else duplicate_faults(relation)
            continue
        except DataError as error:
            faults += error.faults
            continue
        units = None if units is None else units.placed(cols.vocabulary.index(relation.col_ids), cols.size)
        names = relation.name, relation.rows, relation.cols
        more = relation.symmetric, relation.raw.columns, _lead(relation, cols, cells)
        bound.append(BoundRelation(*names, relation.likelihood, cells, units, *more))
    if faults:
        raise DataError(faults)
    return bound


def _lead(relation: Relation, cols: EntitySet, cells: Cells) -> npt.NDArray[np.int64] | None:
    """Return which columns are levels of one category: as who made the relation says, else as its cells show."""
    if relation.raw.lead is not None:
        at, lead = cols.vocabulary.index(relation.raw.col_ids), np.arange(cols.size)
        lead[at] = at[relation.raw.lead]
        return lead
    binary = likelihood_support(relation.likelihood) == "binary"
    return find_categories(cells) if binary and relation.symmetric is None else None


def _repeated(relation: Relation, sets: Mapping[str, EntitySet], i: int, j: int) -> Iterator[str]:
    """Yield the fault of a cell of which there are two among too many to be looked at together."""
    row, col = show_id(sets[relation.rows].ids[i]), show_id(sets[relation.cols].ids[j])
    yield f"relation {relation.name!r}: row {row}, column {col} is given more than once; keep one value per cell."


def _bind_cells(relation: Relation, rows: EntitySet, cols: EntitySet, *, sort: Sort | None = None) -> Cells:
    """Return the cells of a relation.

    Where blanks are zeros, they are so between all ids that the relation brings. A listing, which cannot mention an id
    without a cell, covers the declared ids too.
    """
    raw, shape = relation.raw, (rows.size, cols.size)
    row_at = rows.vocabulary.index(raw.row_ids).astype(np.int32)
    col_at = cols.vocabulary.index(raw.col_ids).astype(np.int32)
    dtype = np.uint8 if likelihood_support(relation.likelihood) == "binary" else value_type(raw.x)
    if raw.weight is not None and sort is not None:
        return Cells(*sort(_moved(raw, row_at, col_at), shape, dtype), n_cells=len(raw.x))
    if raw.weight is not None:
        return weigh_cells(_moved(raw, row_at, col_at), raw.weight, shape, dtype=dtype)
    if not raw.filled:
        return list_cells(_moved(raw, row_at, col_at), shape, dtype=dtype, sort=sort)
    row_members, col_members = (
        np.union1d(np.arange(0 if raw.bounded else entities.declared), brought).astype(np.int32)
        for entities, brought in ((rows, row_at), (cols, col_at))
    )
    moved = _moved(raw, np.searchsorted(row_members, row_at), np.searchsorted(col_members, col_at))
    return fill_cells(moved, shape, row_members=row_members, col_members=col_members, dtype=dtype, sort=sort)


def bind_itself(relation: Relation, entities: EntitySet, _: EntitySet) -> Cells:
    """Return the cells of a relation of a set with itself: no entity with itself, and symmetric ones both ways.

    Matrices have a diagonal, which is passed over; in a listing it is a fault. So is a pair with two values.
    """
    raw, n = relation.raw, entities.size
    row_at, col_at = (entities.vocabulary.index(ids).astype(np.int64) for ids in (raw.row_ids, raw.col_ids))
    i, j, x = row_at[raw.i[:]], col_at[raw.j[:]], raw.x
    dtype = np.uint8 if likelihood_support(relation.likelihood) == "binary" else value_type(raw.x)
    diagonal = np.flatnonzero(i == j)
    if len(diagonal) and not raw.bounded:
        raise DataError([_on_diagonal(relation, entities, int(i[diagonal[0]]), x[diagonal[0]], len(diagonal))])
    i, j, x = (np.delete(a, diagonal) for a in (i, j, x))
    weight = raw.weight
    if relation.symmetric and raw.filled and raw.bounded and raw.row_ids.ids.equals(raw.col_ids.ids):
        _check_triangles(relation, entities, i, j)
    if relation.symmetric:
        i, j, one = _both_ways(relation, entities, i, j, x)
        x, weight = x[one], None if weight is None else weight[one]
    if not len(x) and not raw.filled:
        raise DataError([f"relation {relation.name!r} has no observed cell beside its diagonal; leave it out."])
    if not raw.filled:
        listed = Triplets(i.astype(np.int32), j.astype(np.int32), x)
        if weight is not None:
            return weigh_cells(listed, weight, (n, n), dtype=dtype)
        return list_cells(listed, (n, n), dtype=dtype)
    members = np.union1d(np.arange(0 if raw.bounded else entities.declared), [*row_at, *col_at]).astype(np.int32)
    if len(members) < 2:
        raise DataError([f"relation {relation.name!r} has no cell beside its diagonal: it needs two entities."])
    own = np.arange(len(members))
    x = np.concatenate([x.astype(dtype), np.full(len(members), hole_of(np.dtype(dtype)), dtype)])
    rows, cols = (np.concatenate([np.searchsorted(members, at), own]).astype(np.int32) for at in (i, j))
    return fill_cells(Triplets(rows, cols, x), (n, n), row_members=members, col_members=members, dtype=dtype)


Listing = tuple["npt.NDArray[np.int64]", "npt.NDArray[np.int64]", "npt.NDArray[np.int64]"]


def _both_ways(
    relation: Relation, entities: EntitySet, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64], x: npt.NDArray[Any]
) -> Listing:
    """Return each pair once in either direction, and which of the cells it is: the first that is given.

    Refuse pairs whose two values or weights differ by more than rounding, and cells given twice.
    """
    n = entities.size
    if len(np.unique(i * n + j)) < len(x):
        raise DuplicateCellsError
    low, high = np.minimum(i, j), np.maximum(i, j)
    _, first, which = np.unique(low * n + high, return_index=True, return_inverse=True)
    weight = np.ones(len(x)) if relation.raw.weight is None else relation.raw.weight
    for verb, what, given in (("is", "values", x), ("has the weight", "weights", weight)):
        differs = np.flatnonzero(~alike(given, given[first][which]))
        if len(differs):
            at = int(differs[0])
            one, other = (show_id(entities.ids[int(e)]) for e in (i[at], j[at]))
            msg = (
                f"relation {relation.name!r} is symmetric, but row {one}, column {other} {verb} {given[at]} and row"
                f" {other}, column {one} {verb} {given[first][which][at]}{and_more(len(differs) - 1)}; keep one of the"
                f" two {what}, or give symmetric=False."
            )
            raise DataError([msg])
    low, high = low[first], high[first]
    return np.concatenate([low, high]), np.concatenate([high, low]), np.concatenate([first, first])


def _check_triangles(
    relation: Relation, entities: EntitySet, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64]
) -> None:
    """Refuse a matrix whose blanks are zeros, but for one triangle, where the other way round something is listed."""
    n, upper = entities.size, i < j
    if upper.all() or not upper.any():
        return
    alone = np.flatnonzero(~np.isin(i * n + j, j * n + i))
    if len(alone):
        one, other = (show_id(entities.ids[int(e[alone[0]])]) for e in (i, j))
        msg = (
            f"relation {relation.name!r} is symmetric, but row {one}, column {other} is listed and row {other}, column"
            f" {one} is blank, a zero{and_more(len(alone) - 1)}; give one triangle or both, or symmetric=False."
        )
        raise DataError([msg])


def _on_diagonal(relation: Relation, entities: EntitySet, at: int, value: object, times: int) -> str:
    name = show_id(entities.ids[at])
    return (
        f"relation {relation.name!r}: row {name}, column {name} is {value}{and_more(times - 1)}, but no entity has a"
        " cell with itself; leave such lines out."
    )


def _moved(raw: RawCells, rows: npt.NDArray[np.integer], cols: npt.NDArray[np.integer]) -> RawCells:
    """Return the cells with their row p at rows[p] and their column p at cols[p]."""
    return replace(raw, i=_coded(raw.i, rows), j=_coded(raw.j, cols))


def _coded(positions: Positions, places: npt.NDArray[np.integer]) -> Positions:
    if np.array_equal(places, np.arange(len(places))):
        return positions
    return Coded(positions, places.astype(np.int32, copy=False))
