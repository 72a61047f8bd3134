"""The schema of `gcmf.toml`: one frozen dataclass per kind of section; what it does not know is refused."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from gcmf.data.schema import SUPPORTS
from gcmf.errors import did_you_mean
from gcmf.options import Priors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FORMATS = ("csv", "tsv", "parquet", "arrow", "jsonl", "mtx", "sqlite", "duckdb")
LAYOUTS = ("long", "wide", "matrix")
BLANKS = ("missing", "zero")
DECIMALS = (",", ".")

Section = TypeVar("Section")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a table comes from."""

    source: str
    """A file, relative to the project file."""
    format: str | None = None
    """How to read it, where its ending does not say."""
    table: str | None = None
    """Which table of a database."""
    query: str | None = None
    """Or what to ask a database for; a file is called `source` in it."""
    where: str | None = None
    """An SQL condition that the rows to be used meet."""
    encoding: str | None = None
    """Of a text file; UTF-8 (UTF-16 where its first bytes say so), and Latin-1 where that fails."""
    decimal: str | None = None
    """Which sign of a text file's numbers is the decimal point: "," as in 1.200,5 or "." as in 1,200.5; the other one
    groups thousands. Without it, numbers are written as 1200.5."""


@dataclass(frozen=True, kw_only=True)
class RelationSpec(Source):
    """A relation: cells between two entity sets."""

    name: str
    rows: str
    """The entity set of its rows."""
    cols: str
    """The entity set of its columns."""
    row: str | None = None
    """The column of row ids."""
    col: str | None = None
    """The column of column ids."""
    value: str | None = None
    """The column of values; without it, every pair that is listed is a 1."""
    likelihood: str = "gaussian"
    blanks: str | None = None
    """What a cell that is not listed is: "missing" or "zero"."""
    layout: str = "long"
    """"long" (a line per cell), "wide" (a line per row entity, first column ids) or "matrix" (Matrix Market)."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpec(Source):
    """A table of features: an entity per line."""

    name: str
    rows: str
    """The entity set of its lines."""
    row: str
    """The column of ids."""
    numeric: tuple[str, ...] = ()
    """Columns of numbers: standardized, Gaussian."""
    categories: tuple[str, ...] = ()
    """Columns of categories: a 0/1 column per value, Bernoulli."""
    booleans: tuple[str, ...] = ()
    """Columns of 0/1, true/false: as they are, Bernoulli."""


@dataclass(frozen=True, kw_only=True)
class EntitySpec(Source):
    """Ids that belong to an entity set whether or not a cell mentions them."""

    name: str
    id: str
    """The column of ids."""


@dataclass(frozen=True, kw_only=True)
class FitSpec:
    """What `gcmf.GCMF` is told; what is not given has its default there."""

    n_factors: int | None = None
    sharing: str | None = None
    bias: bool | dict[str, Any] | None = None
    inference: str | None = None
    priors: dict[str, Any] | None = None
    max_iter: int | None = None
    tol: float | None = None
    n_init: int | None = None
    random_state: int | None = None
    dtype: str | None = None
    device: str | None = None
    n_threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """Where results go."""

    model: str = "model.gcmf"
    """The model file, relative to the project file."""


@dataclass(frozen=True, kw_only=True)
class ProjectSpec:
    """A whole project file."""

    relations: tuple[RelationSpec, ...]
    features: tuple[FeatureSpec, ...] = ()
    entities: tuple[EntitySpec, ...] = ()
    fit: FitSpec = field(default_factory=FitSpec)
    output: OutputSpec = field(default_factory=OutputSpec)


_TYPES = {
    "str": (str,), "str | None": (str,), "tuple[str, ...]": (list,), "int | None": (int,), "float | None": (int, float),
    "bool | dict[str, Any] | None": (bool, dict), "dict[str, Any] | None": (dict,),
}  # fmt: skip
_WORDS = {str: "a text", list: "a list of texts", int: "an integer", float: "a number", bool: "true or false",
          dict: "a table"}  # fmt: skip
_CHOICES = {"format": FORMATS, "layout": LAYOUTS, "blanks": BLANKS, "likelihood": tuple(SUPPORTS),
            "decimal": DECIMALS}  # fmt: skip


def parse(document: Mapping[str, Any], *, file: str) -> tuple[ProjectSpec | None, list[str]]:
    """Return the project that a TOML document describes, and every fault found in it."""
    faults = unknown_keys(document, [one.name for one in fields(ProjectSpec)], f"{file}")
    relations = _sections(RelationSpec, document, "relations", file, faults)
    features = _sections(FeatureSpec, document, "features", file, faults)
    entities = _sections(EntitySpec, document, "entities", file, faults)
    fit = _section(FitSpec, document.get("fit", {}), f"{file}, [fit]", faults)
    output = _section(OutputSpec, document.get("output", {}), f"{file}, [output]", faults)
    if not relations and not features and not faults:
        faults.append(f"{file} describes no relation; add a section [relations.NAME], or let `gcmf init` write one.")
    if faults or fit is None or output is None:
        return None, faults
    spec = ProjectSpec(relations=relations, features=features, entities=entities, fit=fit, output=output)
    return spec, list(_contradictions(spec, file))


def unknown_keys(given: Iterable[str], known: Iterable[str], where: str) -> list[str]:
    """Return a fault for each key that nothing knows, with the nearest that something does."""
    known = list(known)
    return [
        f"{where}: unknown key {key!r}.{did_you_mean(key, known)} Known are {', '.join(known)}."
        for key in given
        if key not in known
    ]


def _sections(
    kind: type[Section], document: Mapping[str, Any], key: str, file: str, faults: list[str]
) -> tuple[Section, ...]:
    tables = document.get(key, {})
    if not isinstance(tables, dict) or not all(isinstance(one, dict) for one in tables.values()):
        faults.append(f"{file}: {key} must be sections of their own, such as [{key}.NAME].")
        return ()
    built = [_section(kind, {**one, "name": name}, f"{file}, [{key}.{name}]", faults) for name, one in tables.items()]
    return tuple(one for one in built if one is not None)


def _section(
    kind: type[Section],
    table: Mapping[str, Any],
    where: str,
    faults: list[str],
) -> Section | None:
    """Build one section, or explain why not."""
    known = [one.name for one in fields(kind) if one.name != "name"]  # type: ignore[arg-type]  # a dataclass
    found = unknown_keys([key for key in table if key != "name"], known, where)
    values: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]  # a dataclass
        if one.name not in table:
            if one.default is MISSING and one.default_factory is MISSING:
                found.append(f"{where}: the key {one.name!r} is missing.")
            continue
        value = table[one.name]
        found += _type_faults(one.name, value, str(one.type), where, _CHOICES.get(one.name))
        values[one.name] = tuple(value) if isinstance(value, list) else value
    faults += found
    return None if found else kind(**values)


def _type_faults(key: str, value: Any, kind: str, where: str, choices: tuple[str, ...] | None) -> list[str]:  # noqa: ANN401
    allowed = _TYPES[kind]
    fits = isinstance(value, allowed) and (not isinstance(value, bool) or bool in allowed)
    if fits and isinstance(value, list):
        fits = all(isinstance(item, str) for item in value)
    if not fits:
        return [f"{where}: {key} must be {' or '.join(_WORDS[one] for one in allowed)}, not {value!r}."]
    if choices is not None and value not in choices:
        return [f"{where}: {key} = {value!r} is not one of {', '.join(choices)}.{did_you_mean(value, choices)}"]
    return []


def _contradictions(spec: ProjectSpec, file: str) -> Iterable[str]:
    """Yield what no single key shows."""
    sections: tuple[RelationSpec | FeatureSpec | EntitySpec, ...] = (*spec.relations, *spec.features, *spec.entities)
    for section in sections:
        if section.table is not None and section.query is not None:
            yield f"{file}, section {section.name!r}: give table or query, not both."
    yield from _unknown_names(spec, file)
    for feature in spec.features:
        if not (feature.numeric or feature.categories or feature.booleans):
            yield f"{file}, [features.{feature.name}]: name columns in numeric, categories or booleans."
    for one in spec.relations:
        where = f"{file}, [relations.{one.name}]"
        if one.layout == "long" and one.format != "mtx" and not one.source.endswith((".mtx", ".mtx.gz")):
            for key in ("row", "col"):
                if getattr(one, key) is None:
                    yield f"{where}: the key {key!r} is missing: which column holds the ids of {one.rows!r}?"
            if one.value is None and one.blanks is None:
                yield (
                    f"{where}: without a value column every listed pair is a 1, so blanks must say what the others are:"
                    ' "zero" if they are known not to be related, "missing" if nothing is known.'
                )


def _unknown_names(spec: ProjectSpec, file: str) -> Iterable[str]:
    """Yield the entity sets, relations and priors that are named and do not exist."""
    sets = {entity for one in spec.relations for entity in (one.rows, one.cols)} | {one.rows for one in spec.features}
    for entity in spec.entities:
        if entity.name not in sets:
            yield (
                f"{file}, [entities.{entity.name}]: no relation uses the entity set {entity.name!r}, so nothing"
                f" observes it; there are {', '.join(sorted(sets))}.{did_you_mean(entity.name, sets)}"
            )
    named = [one.name for one in spec.relations]
    named += [f"{one.name}_{part}" for one in spec.features for part in ("numbers", "traits")]
    if isinstance(spec.fit.bias, dict):
        yield from unknown_keys(spec.fit.bias, named, f"{file}, [fit], bias")
    if spec.fit.priors is not None:
        yield from unknown_keys(spec.fit.priors, [one.name for one in fields(Priors)], f"{file}, [fit.priors]")
