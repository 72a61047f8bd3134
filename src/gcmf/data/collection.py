"""A collection: relations whose entities are aligned, checked and ready to be fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.align import align, bind
from gcmf.data.cells import Cells, DuplicateCellsError, Triplets
from gcmf.data.checks import axes, collection_faults, duplicate_faults
from gcmf.data.given import check_entities, check_relations, read_mapping, refuse_data
from gcmf.data.relation import Relation, describe_cells
from gcmf.data.schema import RelationSchema, Schema, likelihood_name
from gcmf.data.split import folds, split
from gcmf.data.vocabulary import as_index
from gcmf.errors import DataError, counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt
    import pandas as pd

    from gcmf.data.schema import LikelihoodLike
    from gcmf.data.units import Units
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.options import RandomState


@dataclass(frozen=True, eq=False)
class EntitySet:
    """One entity set of a collection: its name and its ids in order."""

    name: str
    vocabulary: Vocabulary

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


@dataclass(frozen=True, eq=False)
class BoundRelation:
    """A relation within a collection: its cells are indexed by the collection's entity sets."""

    name: str
    rows: str
    cols: str
    likelihood: str | LikelihoodLike
    cells: Cells
    units: Units | None = None
    """What its columns were standardized by, if they were, in the order of the column set."""

    @property
    def schema(self) -> RelationSchema:
        """The relation without its data."""
        return RelationSchema(self.name, self.rows, self.cols, likelihood_name(self.likelihood))

    @property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return self.cells.n_cells

    @property
    def shape(self) -> tuple[int, int]:
        """The sizes of its two entity sets in the collection."""
        return self.cells.shape

    def chunks(self, size: int) -> Iterator[Triplets]:
        """Yield every observed cell in row-major order and in the units that it came in, at most `size` at a time."""
        for part in self.cells.chunks(size):
            x = part.x.astype(np.float64)
            if self.units is not None:
                center, scale = self.units.of(part.j)
                x = center + scale * x
            yield part._replace(x=x)

    def __repr__(self) -> str:
        return f"<BoundRelation {self.schema}, {self.size}>"

    @property
    def size(self) -> str:
        """Its sizes and its number of cells, in words."""
        zeros = None
        if self.cells.filled:
            rows, cols = self.cells.members()
            zeros = len(rows), len(cols)
        return describe_cells(self.n_cells, self.shape, zeros)


class Collection:
    """Relations aligned by entity set, validated all at once.

    Parameters
    ----------
    relations : iterable of Relation
        What was observed. Two relations that name the same entity set share its entities.
    entities : mapping of str to ids, optional
        Ids that belong to an entity set whether or not some cell mentions them. They come first, in the
        order given; the ids that relations bring follow in order of first appearance. In triplets and
        long tables with `blanks="zero"` the declared ids have zeros too; a matrix has its rows and columns.

    Attributes
    ----------
    schema : Schema
        The entity sets and relations, without data.
    entities : mapping of str to EntitySet
        The aligned entity sets, by name.
    relations : mapping of str to BoundRelation
        The relations, by name, indexed by the aligned entity sets.

    Raises
    ------
    DataError
        With every fault found in all relations, in one message.

    Examples
    --------
    >>> import numpy as np
    >>> ratings = Relation("ratings", "user", "movie", np.array([[5, np.nan, 1], [4, 2, np.nan]]))
    >>> genres = Relation("genres", "movie", "genre", np.eye(3), "bernoulli")
    >>> data = Collection([ratings, genres])
    >>> data.schema.entities, data.n_cells
    (('user', 'movie', 'genre'), 13)
    """

    schema: Schema
    entities: Mapping[str, EntitySet]
    relations: Mapping[str, BoundRelation]
    frame: str
    """The kind of frame that was brought, and that answers are given in: "polars" if all were, else "pandas"."""

    def __init__(self, relations: Iterable[Relation], entities: Mapping[str, object] | None = None) -> None:
        given = check_relations(relations)
        declared = check_entities(entities)
        faults = collection_faults(given, declared)
        if faults:
            raise DataError(faults)
        sets = {name: EntitySet(name, ids) for name, ids in align(axes(given), declared).items()}
        bound = _bind_all(given, sets, {name: len(as_index(ids)) for name, ids in declared.items()})
        brought = {relation.raw.frame for relation in given} - {None}
        self._assign(sets, bound, "polars" if brought == {"polars"} else "pandas")

    @classmethod
    def from_mapping(cls, matrices: Mapping[Any, object]) -> Collection:
        """Return the collection of a mapping {("user", "movie"): X, ("user", "trait", "name"): Y}.

        A key holds the row set, the column set and, if it has a third part, the name of the relation,
        which is otherwise "user-movie". Boolean arrays are bernoulli, everything else is gaussian.
        """
        return cls(read_mapping(matrices))

    @classmethod
    def of(cls, data: object, *, caller: str) -> Collection:
        """Return data as a collection: one already, a relation, a list of relations, or a mapping of matrices.

        Anything else is refused in the name of the `caller` that was given it.
        """
        if isinstance(data, Collection):
            return data
        if isinstance(data, Mapping):
            return cls.from_mapping(data)
        if isinstance(data, Relation):
            return cls([data])
        if isinstance(data, list | tuple) and data:
            return cls(data)
        refuse_data(data, caller)

    @property
    def n_cells(self) -> int:
        """The number of observed cells in all relations."""
        return sum(relation.n_cells for relation in self.relations.values())

    def observed(self, entity: str) -> npt.NDArray[np.bool_]:
        """Return which entities of a set have an observed cell in some relation, (d,)."""
        self.schema.entity_index(entity)
        seen = np.zeros(self.entities[entity].size, dtype=np.bool_)
        for relation in self.relations.values():
            if relation.rows == entity:
                seen |= relation.cells.rows.counts() > 0
            if relation.cols == entity:
                seen |= relation.cells.cols.counts() > 0
        return seen

    def split(
        self,
        test_size: float = 0.2,
        by: str = "cell",
        *,
        relations: Iterable[str] | None = None,
        random_state: RandomState = 0,
    ) -> tuple[Collection, Collection]:
        """Return (train, test), both with all ids of this collection in the same order.

        Parameters
        ----------
        test_size : float
            The share that goes into the test part, of each relation separately.
        by : {"cell", "row", "col"}
            What is drawn at random: observed cells, or rows or columns with all their cells.
        relations : iterable of str, optional
            The relations to split; the others stay whole in the train part. All by default.
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None
            The same integer gives the same split; None gives another one each time.
        """
        return split(self, test_size, by=by, relations=relations, random_state=random_state)

    def folds(
        self,
        n_folds: int = 5,
        by: str = "cell",
        *,
        relations: Iterable[str] | None = None,
        random_state: RandomState = 0,
    ) -> Iterator[tuple[Collection, Collection]]:
        """Return an iterator of `n_folds` pairs (train, test); every cell is tested exactly once.

        The parameters are those of `split`. Each pair is made when it is asked for.
        """
        return folds(self, n_folds, by=by, relations=relations, random_state=random_state)

    def with_cells(self, cells: Mapping[str, Cells]) -> Collection:
        """Return a collection with the same entities, holding these cells of the relations named."""
        kept = [replace(bound, cells=cells[name]) for name, bound in self.relations.items() if name in cells]
        return self._with(dict(self.entities), kept)

    def select(self, relations: Iterable[str]) -> Collection:
        """Return the collection of these relations alone, over all ids of the entity sets that they join."""
        kept = [self.relations[name] for name in relations]
        joined = {entity for bound in kept for entity in (bound.rows, bound.cols)}
        return self._with({name: entities for name, entities in self.entities.items() if name in joined}, kept)

    def __repr__(self) -> str:
        sizes = {"relation": len(self.relations), "entity set": len(self.entities), "cell": self.n_cells}
        lines = [f"<Collection: {', '.join(counted(size, noun) for noun, size in sizes.items())}>"]
        lines += [f"  {bound.schema}, {bound.size}" for bound in self.relations.values()]
        lines.append("  entities: " + ", ".join(f"{name} {len(ids):,}" for name, ids in self.entities.items()))
        return "\n".join(lines)

    def _assign(self, entities: dict[str, EntitySet], relations: list[BoundRelation], frame: str) -> None:
        self.schema = Schema(tuple(entities), tuple(relation.schema for relation in relations))
        self.entities = MappingProxyType(entities)
        self.relations = MappingProxyType({relation.name: relation for relation in relations})
        self.frame = frame

    def _with(self, entities: dict[str, EntitySet], relations: list[BoundRelation]) -> Collection:
        part = object.__new__(Collection)  # what is within a collection was checked when that was made
        part._assign(entities, relations, self.frame)
        return part


def _bind_all(
    relations: list[Relation], sets: dict[str, EntitySet], declared: Mapping[str, int]
) -> list[BoundRelation]:
    bound: list[BoundRelation] = []
    faults: list[str] = []
    for relation in relations:
        name, rows, cols = relation.name, relation.rows, relation.cols
        row_ids, col_ids = sets[rows].vocabulary, sets[cols].vocabulary
        try:
            cells = bind(relation, row_ids, col_ids, declared=(declared.get(rows, 0), declared.get(cols, 0)))
        except DuplicateCellsError:
            faults += duplicate_faults(relation)
            continue
        units = relation.raw.units
        units = None if units is None else units.placed(col_ids.index(relation.col_ids), len(col_ids))
        bound.append(BoundRelation(name, rows, cols, relation.likelihood, cells, units))
    if faults:
        raise DataError(faults)
    return bound
