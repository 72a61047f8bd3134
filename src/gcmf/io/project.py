"""`read_project`: from `gcmf.toml` to a collection and the options of its fit."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gcmf.data.checks import duplicate_faults
from gcmf.data.collection import Collection
from gcmf.data.vocabulary import show_id
from gcmf.errors import DataError, OptionError
from gcmf.io.features import read_features
from gcmf.io.files import guess_format
from gcmf.io.ids import Codes, id_sql, null_id_fault
from gcmf.io.schema import parse
from gcmf.io.sources import Read, read_relation
from gcmf.io.tables import open_table
from gcmf.options import FitOptions, Priors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gcmf.data.relation import Relation
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.io.look import Report
    from gcmf.io.schema import EntitySpec, FeatureSpec, FitSpec, OutputSpec, ProjectSpec, RelationSpec


@dataclass(frozen=True, eq=False)
class Project:
    """What a project file describes.

    Attributes
    ----------
    path : Path
        The file.
    collection : Collection
        Its data. Numbers of `[features]` are standardized, and know their units: a model that is fitted to them
        predicts, and is scored, in the units of the table.
    options : mapping
        What `gcmf.GCMF` is told: `gcmf.GCMF(**project.options).fit(project.collection)`.
    output : OutputSpec
        Where results go.
    """

    path: Path
    collection: Collection
    options: Mapping[str, Any]
    output: OutputSpec


def read_project(path: str | Path, *, report: Report | None = None) -> Project:
    """Read a project file and all data that it names.

    Parameters
    ----------
    path : path
        A TOML file, or a folder with a `gcmf.toml`. Paths in the file are relative to it.
    report : callable, optional
        Told before each section what is read, the how-many-th it is (from 0) and of how many.

    Raises
    ------
    DataError
        With every fault in the file, or else every fault in the data: file, column, row number and value.
    OptionError
        When an option in `[fit]` has a value that it cannot have.
    """
    path = find_project(path)
    spec = read_spec(path)
    options = _options(spec.fit, path.name)
    collection = read_collection(spec, path.parent, report=report or (lambda *_: None))
    return Project(path, collection, MappingProxyType(options), spec.output)


def find_project(path: str | Path) -> Path:
    """Return the project file that a path names."""
    path = Path(path)
    path = path / "gcmf.toml" if path.is_dir() else path
    if not path.is_file():
        msg = f"There is no project file {path}; let `gcmf init SOURCE` write a first one."
        raise DataError(msg)
    return path


def read_spec(path: Path) -> ProjectSpec:
    """Return the sections of a project file, without looking at any data."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        what = "a database" if guess_format(path) in ("sqlite", "duckdb") else "not text"
        msg = f"{path.name} is no project file: it is {what}. Run `gcmf init {path.name}`, and fit the file it writes."
        if what != "a database" and isinstance(error, tomllib.TOMLDecodeError):
            msg = f"{path.name} is not valid TOML: {error}."
        raise DataError(msg) from error
    spec, faults = parse(document, file=path.name)
    if faults or spec is None:
        raise DataError(faults)
    return spec


def read_collection(spec: ProjectSpec, folder: Path, *, report: Report) -> Collection:
    """Return the data of a project; the faults of all sources come together."""
    sections = [*spec.relations, *spec.features, *spec.entities]
    numbers = {id(section): number for number, section in enumerate(sections)}

    def say(section: RelationSpec | FeatureSpec | EntitySpec) -> None:
        report(section.source, numbers[id(section)], len(sections))

    faults: list[str] = []
    reads: list[Read] = []
    relations: list[Relation] = []
    for one in spec.relations:
        with _Gather(faults):
            say(one)
            reads.append(read_relation(one, folder))
            relations.append(reads[-1].relation)
    for feature in spec.features:
        with _Gather(faults):
            say(feature)
            relations += read_features(feature, folder)
    entities: dict[str, Vocabulary] = {}
    for entity in spec.entities:
        with _Gather(faults):
            say(entity)
            entities[entity.name] = _read_ids(entity, folder)
    faults += _kind_faults(relations, entities, _columns(spec))
    if faults:
        raise DataError(faults)
    try:
        return Collection(relations, {name: declared.ids for name, declared in entities.items()})
    except DataError as error:
        raise DataError(list(_located(error.faults, reads))) from error


class _Gather:
    """Keeps the faults of a source, so that the next one is looked at too."""

    def __init__(self, faults: list[str]) -> None:
        self._faults = faults

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, DataError):
            self._faults += error.faults
            return True
        return False


def _read_ids(spec: EntitySpec, folder: Path) -> Vocabulary:
    table = open_table(spec, folder)
    faults = table.lacking([spec.id], where=f"entities {spec.name!r}")
    if faults:
        raise DataError(faults)
    codes = Codes()
    for batch in table.batches(id_sql(table, spec.id)):
        codes.add(batch.column(0))
    found, ids = codes.finish()
    faults = list(null_id_fault(table, spec.id)) if len(found) and found.min() < 0 else []
    if faults:
        raise DataError(faults)
    return ids


def _columns(spec: ProjectSpec) -> dict[str, str]:
    """Return where the ids of each relation come from, by its name and side."""
    found = {}
    for one in spec.relations:
        for side, column in (("rows", one.row), ("cols", one.col)):
            found[f"{one.name} {side}"] = f"{one.source}, column {column!r}" if column else one.source
    for feature in spec.features:
        for part in ("numbers", "traits"):
            found[f"{feature.name}_{part} rows"] = f"{feature.source}, column {feature.row!r}"
    return found


def _kind_faults(
    relations: Sequence[Relation], entities: Mapping[str, Vocabulary], columns: Mapping[str, str]
) -> Iterator[str]:
    """Yield the entity sets whose ids are numbers in one source and text in another: they could never match."""
    seen: dict[str, tuple[str, bool]] = {}
    sources = [(own.rows, columns.get(f"{own.name} rows", own.name), own.row_ids) for own in relations]
    sources += [(own.cols, columns.get(f"{own.name} cols", own.name), own.col_ids) for own in relations]
    sources += [(name, f"[entities.{name}]", ids) for name, ids in entities.items()]
    for entity, where, ids in sources:
        number = ids.ids.dtype.kind in "iu"
        first, was = seen.setdefault(entity, (where, number))
        if was != number and len(ids):
            one, other = ("whole numbers", "text") if was else ("text", "whole numbers")
            yield (
                f"entity set {entity!r}: its ids are {one} in {first}, and {other} in {where}"
                f" (such as {show_id(ids.ids[0])}), so none would match; make them alike, for example with a query that"
                " casts one of them."
            )


def _located(faults: Sequence[str], reads: Sequence[Read]) -> Iterator[str]:
    """Yield the faults of a collection with the source of each: repeated cells with the rows that repeat them."""
    better = {old: read.duplicates() for read in reads for old in duplicate_faults(read.relation)}
    unplaced = [read for read in reads if read.table is None]
    for fault in faults:
        own = [read for read in unplaced if fault.startswith(f"relation {read.spec.name!r}: row")]
        where = f"{own[0].spec.source} (rows and columns are counted from 0), " if own else ""
        yield better.get(fault) or where + fault


def _options(fit: FitSpec, file: str) -> dict[str, Any]:
    """Return what GCMF is told; values it cannot have are refused here, before any data is read."""
    given = {key: value for key, value in asdict(fit).items() if value is not None}
    try:
        if "priors" in given:
            given["priors"] = Priors(**given["priors"])
        FitOptions(**{key: value for key, value in given.items() if key != "random_state"})
    except OptionError as error:
        msg = f"{file}, [fit]: {error}"
        raise OptionError(msg) from error
    return given
