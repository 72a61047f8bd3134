"""`read_project`: from `gcmf.toml` to a collection and the options of its fit."""

from __future__ import annotations

import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gcmf.data.checks import duplicate_faults
from gcmf.data.collection import Collection
from gcmf.data.covariates import read_table
from gcmf.data.parquet import described, digest
from gcmf.data.vocabulary import show_id
from gcmf.engines.select import engine_maker
from gcmf.errors import DataError, OptionError
from gcmf.io.project.schema import parse
from gcmf.io.sources.columns import read_ids
from gcmf.io.sources.features import read_covariates, read_features
from gcmf.io.sources.files import find_file, guess_format
from gcmf.io.sources.postgres import is_address
from gcmf.io.sources.relations import read_relation
from gcmf.io.sources.specs import EntitySpec, FeatureSpec, RelationSpec
from gcmf.options import FitOptions, Priors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gcmf.data.files import Files
    from gcmf.data.relation import Relation
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.io.project.schema import OutputSpec, ProjectSpec
    from gcmf.io.sources.relations import ReadRelation
    from gcmf.io.sources.specs import Report


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


def read_project(path: str | Path, *, report: Report | None = None, folder: str | Path | None = None) -> Project:
    """Read a project file and all data that it names.

    Parameters
    ----------
    path : path
        A TOML file, or a folder with a `gcmf.toml`. Paths in the file are relative to it.
    report : callable, optional
        Told before each section what is read, the how-many-th it is (from 0) and of how many.
    folder : path, optional
        Keep the cells in files of this folder and not in memory, for data that are larger. If they are there from an
        earlier time, and neither the project file nor a source has changed since, no relation is read again; tables of
        a server are read every time.

    Raises
    ------
    DataError
        With every fault in the file, or else every fault in the data: file, column, row number and value.
    OptionError
        When an option in `[fit]` has a value that it cannot have.
    """
    path = find_project(path)
    spec = read_spec(path)
    options = dict(spec.options)
    try:  # before any data is read
        if "priors" in options:
            options["priors"] = Priors(**options["priors"])
        chosen = FitOptions(**{name: value for name, value in options.items() if name != "random_state"})
        engine_maker(chosen.device)
    except OptionError as error:
        msg = f"{path.name}, [fit]: {error}"
        raise OptionError(msg) from error
    report = report or (lambda *_: None)
    if folder is None:
        collection = _read_collection(spec, path.parent, report=report)
    else:
        collection = _on_disk(spec, path.parent, Path(folder), report=report)
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


def _on_disk(spec: ProjectSpec, folder: Path, cells: Path, *, report: Report) -> Collection:
    """Return the data of a project with its cells in a folder; what is known of entities is read every time."""
    sections = (*spec.relations, *spec.features, *spec.entities)
    sources = sorted({section.source for section in sections})
    made_of = digest([repr(sections), *(line for source in sources for line in _described(source, folder))])
    data = Collection._on_disk(
        cells, made_of, lambda files: _read_sections(spec, folder, report=report, files=files)[:2]
    )
    unread = [entity for entity in spec.entities if entity.known and data.entities[entity.name].covariates is None]
    if not unread:
        return data
    tables = {entity.name: read_table(entity.name, read_covariates(entity, folder)) for entity in unread}
    sizes = {name: data.entities[name].size for name in tables}
    return data.with_covariates({name: known and known.padded(sizes[name]) for name, known in tables.items()})


def _described(source: str, folder: Path) -> list[str]:
    """Return lines that change when a source does; a server does not say, so they are new every time."""
    return [secrets.token_hex(16)] if is_address(source) else described(find_file(source, folder))


def _read_collection(spec: ProjectSpec, folder: Path, *, report: Report) -> Collection:
    """Return the data of a project, in memory."""
    relations, entities, from_tables = _read_sections(spec, folder, report=report)
    try:
        return Collection(relations, entities)
    except DataError as error:
        raise DataError(_located(error.faults, from_tables)) from error


def _read_sections(
    spec: ProjectSpec, folder: Path, *, report: Report, files: Files | None = None
) -> tuple[list[Relation], dict[str, Any], list[ReadRelation]]:
    """Return relations, entities, and those relations that are tables; the faults of all sources come together."""
    sections = (*spec.relations, *spec.features, *spec.entities)
    faults: list[str] = []
    from_tables: list[ReadRelation] = []
    relations: list[Relation] = []
    entities: dict[str, Vocabulary] = {}
    tables: dict[str, Any] = {}
    for number, section in enumerate(sections):
        report(section.source, number, len(sections))
        try:
            if isinstance(section, RelationSpec):
                from_tables.append(read_relation(section, folder, files=files))
                relations.append(from_tables[-1].relation)
            elif isinstance(section, FeatureSpec):
                relations += read_features(section, folder)
            elif isinstance(section, EntitySpec):
                if section.known:
                    tables[section.name] = read_covariates(section, folder)
                entities[section.name] = read_ids(section, folder)
        except DataError as error:
            faults += error.faults
    faults += _kind_faults(spec, relations, entities)
    if faults:
        raise DataError(faults)
    known = {name: tables.get(name, declared.ids) for name, declared in entities.items()}
    return relations, known, from_tables


def _kind_faults(spec: ProjectSpec, relations: Sequence[Relation], entities: Mapping[str, Vocabulary]) -> Iterator[str]:
    """Yield the entity sets whose ids are numbers in one source and text in another: they could never match."""
    columns = {}
    for section in spec.relations:
        for side, column in (("rows", section.row), ("cols", section.col)):
            columns[section.name, side] = f"{section.source}, column {column!r}" if column else section.source
    for feature in spec.features:
        for part in ("numbers", "traits"):
            columns[f"{feature.name}_{part}", "rows"] = f"{feature.source}, column {feature.row!r}"
    brought = [(read.rows, columns.get((read.name, "rows"), read.name), read.row_ids) for read in relations]
    brought += [(read.cols, columns.get((read.name, "cols"), read.name), read.col_ids) for read in relations]
    brought += [(name, f"[entities.{name}]", ids) for name, ids in entities.items()]
    first: dict[str, tuple[str, bool]] = {}
    for entity, where, ids in brought:
        numbers = ids.ids.dtype.kind in "iu"
        first_where, first_numbers = first.setdefault(entity, (where, numbers))
        if first_numbers != numbers and len(ids):
            kind, other_kind = ("whole numbers", "text") if first_numbers else ("text", "whole numbers")
            yield (
                f"entity set {entity!r}: its ids are {kind} in {first_where}, and {other_kind} in {where}"
                f" (such as {show_id(ids.ids[0])}), so none would match; make them alike, for example with a query that"
                " casts one of them."
            )


def _located(faults: Sequence[str], from_tables: Sequence[ReadRelation]) -> Iterator[str]:
    """Yield the faults of a collection with the source of each: repeated cells with the rows that repeat them."""
    better = {old: read.duplicates() for read in from_tables for old in duplicate_faults(read.relation)}
    for read in from_tables:
        on_diagonal = f"relation {read.spec.name!r}: row", "no entity has a cell with itself"
        better |= {old: read.loops() for old in faults if old.startswith(on_diagonal[0]) and on_diagonal[1] in old}
    matrices = [read.spec for read in from_tables if read.table is None]
    for fault in faults:
        sources = [spec.source for spec in matrices if fault.startswith(f"relation {spec.name!r}: row")]
        where = f"{sources[0]} (rows and columns are counted from 0), " if sources else ""
        yield better.get(fault) or where + fault
