"""A collection: relations whose entities are aligned, checked and ready to be fitted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gcmf.data import on_disk
from gcmf.data.bound import align, bind
from gcmf.data.checks import brought_ids, collection_faults
from gcmf.data.covariates import is_table, read_table, table_ids
from gcmf.data.files import making
from gcmf.data.parquet import dask_source, parquet_source, relation_key
from gcmf.data.relation import Relation
from gcmf.data.schema import TIMES, Schema
from gcmf.data.sorting import OnDisk
from gcmf.data.split import folds, split
from gcmf.data.vocabulary import Vocabulary, show_id
from gcmf.errors import DataError, ModelWarning, StorageError, counted, few
from gcmf.markup import shown_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from gcmf.data.bound import BoundRelation, EntitySet
    from gcmf.data.cells import Cells
    from gcmf.data.covariates import Covariates
    from gcmf.data.files import Files
    from gcmf.options import RandomState

    Read = Callable[[Files], tuple[Iterable[Relation], Mapping[str, object] | None]]


class Collection:
    """Relations aligned by entity set, validated all at once.

    Parameters
    ----------
    relations : iterable of Relation
        What was observed. Two relations that name the same entity set share its entities.
    entities : mapping of str to ids or tables, optional
        Ids that belong to an entity set whether or not some cell mentions them. They come first, in the
        order given; the ids that relations bring follow, relation by relation: those of a matrix in its order, those
        of a listing sorted. In triplets and
        long tables with `blanks="zero"` the declared ids have zeros too; a matrix has its rows and columns.

        A table says more of them: a pandas frame has the ids as its index (other frames in a column named as the
        set), and its columns (numbers, booleans, dates, texts or categories, with missing values or not) are
        covariates, on which the prior means of the set's factors and biases regress. So is a `scipy.sparse` matrix,
        given as `(ids, matrix)` or `(ids, matrix, column_names)`. Columns that tell nothing do no harm.

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
        given, sets = _aligned(relations, entities)
        brought = {relation.raw.frame for relation in given} - {None}
        self._assign(sets, bind(given, sets), "polars" if brought == {"polars"} else "pandas")

    @classmethod
    def from_parquet(cls, sources: Mapping[Any, str | Path], *, folder: str | Path) -> Collection:
        """Return the collection of Parquet files that are too large for memory: their cells go to files in a folder.

        Parameters
        ----------
        sources : mapping of (rows, cols) or (rows, cols, name) to a file or a folder of files
            As in `from_mapping`. A line is a cell: the columns that are named as the two entity sets hold its ids,
            whole numbers or texts, and the third column holds its value. Without a third, every line is a 1.
            Columns of booleans are bernoulli, all others gaussian; a project file says more (`read_project`).
        folder : path
            Where sorted cells are kept, about 16 bytes each. If it is there already, and the files have not changed
            since, nothing is read or sorted again; if they have, it is replaced.

        Notes
        -----
        A fit reads the cells in the order of the folder's files, and holds none of them. Relations of a set with
        itself cannot be given here.
        """
        return cls._on_disk(folder, *parquet_source(sources))

    @classmethod
    def from_dask(cls, frames: Mapping[Any, Any], *, folder: str | Path) -> Collection:
        """Return the collection of Dask data frames that no machine could hold: their cells go to files in a folder.

        As `from_parquet`, with a Dask data frame in the place of each file. Its partitions are written by whoever
        computes them, the workers of the current client if there is one: all of them must see the folder.
        """
        return cls._on_disk(folder, *dask_source(frames))

    @classmethod
    def _on_disk(cls, folder: str | Path, made_of: str, read: Read) -> Collection:
        """Return a collection whose cells are in a folder: the one that is there if it is made of this, or a new one.

        `read` is given the files to be, for numbers that it cannot hold, and returns relations and entities.
        """
        path = Path(folder)
        found = on_disk.read(path, made_of)
        if found is None:
            known = _make(path, made_of, read)
            found = on_disk.read(path, made_of)
            if found is None:
                msg = f"Another process has changed {path}. Give each data of their own a folder of their own."
                raise StorageError(msg)
            found = {name: replace(one, covariates=known[name]) for name, one in found[0].items()}, found[1]
        part = object.__new__(cls)
        part._assign(*found, "pandas")
        return part

    @classmethod
    def from_mapping(cls, matrices: Mapping[Any, object]) -> Collection:
        """Return the collection of a mapping {("user", "movie"): X, ("user", "trait", "name"): Y}.

        A key holds the row set, the column set and, if it has a third part, the name of the relation,
        which is otherwise "user-movie". Boolean arrays are bernoulli, everything else is gaussian.
        """
        return cls([_shorthand(key, data) for key, data in matrices.items()])

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
        shape = f" of shape {tuple(data.shape)}" if hasattr(data, "shape") else ""
        msg = (
            f"{caller} takes a Collection, a Relation, a list of relations, or a mapping such as"
            f' {{("user", "movie"): X}}. Got {type(data).__name__}{shape} instead. Name what its rows and columns are:'
            ' Relation("name", rows="...", cols="...", data=...).'
        )
        raise DataError(msg)

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
            What is drawn at random: observed cells, or rows or columns with all their cells. A row of a symmetric
            relation is an entity with all its cells, whichever way they were given; of a directed one, a sender.
            Cells that tell of each other go together: both directions of a symmetric pair, all columns of a category
            (those that `[features]` makes, or 0/1 columns of which every row has a single 1), and what several of the
            relations to split observe of the same two entities.
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

        The parameters are those of `split`. Each pair is made when it is asked for. By row or column of a symmetric
        relation every entity is tested once, and a cell with either of its two.
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

    def with_covariates(self, covariates: Mapping[str, Covariates | None]) -> Collection:
        """Return a collection that knows this of the entities of the sets named, beside their cells, and no more."""
        known = {
            name: replace(entities, covariates=covariates[name]) if name in covariates else entities
            for name, entities in self.entities.items()
        }
        return self._with(known, list(self.relations.values()))

    def with_relation(self, relation: BoundRelation, entities: EntitySet) -> Collection:
        """Return a collection with one relation more, between a set that is there and a new one."""
        return self._with({**self.entities, entities.name: entities}, [*self.relations.values(), relation])

    def __repr__(self) -> str:
        lines = [f"<{self._headline}>"]
        relations = [f"{bound.schema}, {bound.size}" for bound in self.relations.values()]
        lines += [f"  {line}" for line in few(relations, "relations")]
        lines.append("  entities: " + ", ".join(map(str, self.entities.values())))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = [
            (bound.name, f"{bound.rows} {TIMES} {bound.cols}", bound.schema.kind, bound.size)
            for bound in self.relations.values()
        ]
        entities = "Entity sets: " + ", ".join(map(str, self.entities.values()))
        return shown_table(self._headline, ("relation", "joins", "kind", "size"), lines, [entities])

    @property
    def _headline(self) -> str:
        sizes = {"relation": len(self.relations), "entity set": len(self.entities), "cell": self.n_cells}
        return f"Collection: {', '.join(counted(size, noun) for noun, size in sizes.items())}"

    def _assign(self, entities: dict[str, EntitySet], relations: list[BoundRelation], frame: str) -> None:
        self.schema = Schema(tuple(entities), tuple(relation.schema for relation in relations))
        self.entities = MappingProxyType(entities)
        self.relations = MappingProxyType({relation.name: relation for relation in relations})
        self.frame = frame

    def _with(self, entities: dict[str, EntitySet], relations: list[BoundRelation]) -> Collection:
        part = object.__new__(Collection)  # what is within a collection was checked when that was made
        part._assign(entities, relations, self.frame)
        return part


def _make(folder: Path, made_of: str, read: Read) -> dict[str, Covariates | None]:
    """Write a folder, and let go of all that is read for it but what is known of entities."""
    with making(folder) as files:
        given, sets = _aligned(*read(files))
        on_disk.write(files, made_of, sets, bind(given, sets, sort=lambda m: OnDisk(files, f"r{m}")))
    return {name: entities.covariates for name, entities in sets.items()}


def _aligned(
    relations: Iterable[Relation], entities: Mapping[str, object] | None
) -> tuple[list[Relation], dict[str, EntitySet]]:
    """Return checked relations and the entity sets that they share; refuse them with all their faults."""
    given = _check_relations(relations)
    declared, covariates, unread = _check_entities(entities)
    faults = [*collection_faults(given, declared), *unread]
    if faults:
        raise DataError(faults)
    sets = align(given, declared, covariates)
    _warn_of_strangers(given, declared, covariates)
    return given, sets


def _check_relations(relations: object) -> list[Relation]:
    """Return the relations as a list; refuse what is not made of relations."""
    if isinstance(relations, Relation):
        return [relations]
    if isinstance(relations, Mapping):
        msg = "Collection takes a list of relations; for a mapping of matrices use Collection.from_mapping."
        raise DataError(msg)
    given: list[Any] = list(relations) if hasattr(relations, "__iter__") else [relations]
    faults = [
        f"item {position} of the relations is {type(item).__name__}, not a Relation; wrap it as"
        ' Relation("name", rows="...", cols="...", data=...).'
        for position, item in enumerate(given)
        if not isinstance(item, Relation)
    ]
    if not given:
        faults = ["a collection needs at least one relation."]
    if faults:
        raise DataError(faults)
    return given


def _check_entities(entities: object) -> tuple[dict[str, Any], dict[str, Covariates], list[str]]:
    """Return declared ids and covariates by entity set, and what is wrong with those; refuse what is no mapping."""
    if entities is None:
        return {}, {}, []
    if not isinstance(entities, Mapping):
        msg = f'entities= must be a mapping from entity sets to ids, such as {{"movie": ids}}. Got {entities!r}.'
        raise DataError(msg)
    declared: dict[str, Any] = {}
    covariates: dict[str, Covariates] = {}
    faults: list[str] = []
    for name, given in entities.items():
        if not is_table(given):
            declared[name] = list(given) if isinstance(given, Iterator) else given
            continue
        try:
            declared[name] = table_ids(name, given)
            read = read_table(name, given)
            if read is not None:
                covariates[name] = read
        except DataError as error:
            faults += error.faults
    return declared, covariates, faults


def _warn_of_strangers(relations: list[Relation], declared: Mapping[str, Any], tables: Iterable[str]) -> None:
    """Warn of a table of covariates that knows none of the entities that relations bring."""
    brought = brought_ids(relations)
    for name in tables:
        known = Vocabulary(declared[name])
        if all((known.index(ids) < 0).all() for _, ids in brought[name]):
            msg = (
                f"entities={{{name!r}: ...}}: no relation has a cell of any id in this table, such as"
                f" {show_id(known.ids[0])}, so nothing can be learned from it; check how the ids are written."
            )
            warnings.warn(msg, ModelWarning, stacklevel=4)


def _shorthand(key: object, data: object) -> Relation:
    name, rows, cols = relation_key(key)
    if sparse.issparse(data):
        msg = (
            f"relation {name!r}: a scipy.sparse matrix must say what its blanks are, which a mapping cannot;"
            ' use Relation(..., blanks="missing") if a blank cell was never observed, or'
            ' Relation(..., blanks="zero") if it is an observed zero.'
        )
        raise DataError(msg)
    is_bool = isinstance(data, np.ndarray) and data.dtype == np.bool_
    return Relation(name, rows, cols, data, "bernoulli" if is_bool else "gaussian")
