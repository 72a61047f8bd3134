"""What may stand in `gcmf.toml`, checked by pydantic; what it refuses is said in sentences that help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from itertools import groupby
from operator import or_
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from gcmf.errors import DataError, did_you_mean
from gcmf.io.sources.postgres import check_address, is_address
from gcmf.io.sources.specs import EntitySpec, FeatureSpec, RelationSpec, Section
from gcmf.likelihoods import known
from gcmf.options import FitOptions, Priors

_WORDS = {
    "string_type": "a text", "literal_error": "a text", "tuple_type": "a list of texts", "int_type": "an integer",
    "float_type": "a number", "bool_type": "true or false", "dict_type": "a table", "model_type": "a table",
}  # fmt: skip
"""What a value must be, by pydantic's name of the fault."""
_Spec = TypeVar("_Spec")


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class OutputSpec(_Table):
    """Where results go."""

    model: str = "model.gcmf"
    """The model file, relative to the project file."""


@dataclass(frozen=True)
class ProjectSpec:
    """A whole project file."""

    relations: tuple[RelationSpec, ...]
    features: tuple[FeatureSpec, ...]
    entities: tuple[EntitySpec, ...]
    options: dict[str, Any]
    """Of [fit]: what `gcmf.GCMF` is told; what is not given has its default there."""
    output: OutputSpec


def parse(document: Mapping[str, Any], *, file: str) -> tuple[ProjectSpec | None, list[str]]:
    """Return the project that a TOML document describes, and every fault found in it."""
    faults = _unknown_keys(document, ("relations", "features", "entities", "fit", "output"), file)
    relations = _sections(RelationSpec, "relations", document, file, faults)
    features = _sections(FeatureSpec, "features", document, file, faults)
    entities = _sections(EntitySpec, "entities", document, file, faults)
    fit = _checked(_fit_table(), document.get("fit", {}), f"{file}, [fit]", faults)
    output = _checked(OutputSpec, document.get("output", {}), f"{file}, [output]", faults)
    if not relations and not features and not faults:
        faults.append(f"{file} describes no relation; add a section [relations.NAME], or let `gcmf init` write one.")
    if faults or fit is None or output is None:
        return None, faults
    spec = ProjectSpec(relations, features, entities, fit.model_dump(exclude_unset=True), output)
    return spec, list(_contradictions(spec, file))


def _fit_table() -> type[BaseModel]:
    """Return the model of [fit]: the options that FitOptions has, but for those of special cases, and the seed."""
    hints = get_type_hints(FitOptions) | {"random_state": int}
    inside = ("unit_variance", "pattern", "reach")
    options: Any = {name: (_toml_type(hint) | None, None) for name, hint in hints.items() if name not in inside}
    return create_model("Fit", __base__=_Table, **options)


def _toml_type(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return what TOML has for an option; which words and numbers it may be is checked by FitOptions."""
    if get_origin(hint) is Literal:
        return str
    if hint is Priors or get_origin(hint) is Mapping:
        return dict[str, Any]
    return reduce(or_, map(_toml_type, get_args(hint))) if isinstance(hint, UnionType) else hint


def _sections(
    kind: type[_Spec], key: str, document: Mapping[str, Any], file: str, faults: list[str]
) -> tuple[_Spec, ...]:
    tables = document.get(key, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        faults.append(f"{file}: {key} must be sections of their own, such as [{key}.NAME].")
        return ()
    specs = []
    for name, table in tables.items():
        specs.append(_checked(kind, {**table, "name": name}, f"{file}, [{key}.{name}]", faults))
    return tuple(spec for spec in specs if spec is not None)


def _checked(kind: type[_Spec], table: Any, where: str, faults: list[str]) -> _Spec | None:  # noqa: ANN401 - any value
    """Return a table of the file as what it should be, or add its faults."""
    try:
        return TypeAdapter(kind).validate_python(table)
    except ValidationError as error:
        details = error.errors(include_url=False)
    hints = {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("_") and name != "name"}
    for place, group in groupby(details, key=lambda detail: detail["loc"][:1]):
        if not place:
            faults.append(f"{where} must be a table, not {table!r}.")
            continue
        key, alike = str(place[0]), list(group)
        fault = alike[0]["type"]
        if fault in ("extra_forbidden", "unexpected_keyword_argument"):
            faults += _unknown_keys([key], hints, where)
        elif fault == "missing":
            faults.append(f"{where}: the key {key!r} is missing.")
        elif fault == "literal_error" and isinstance(table[key], str):
            faults.append(_no_choice(where, key, table[key], _choices(hints[key])))
        else:
            # A place in a list is a number, and behind it stands what the value there should be.
            in_list = isinstance(alike[0]["loc"][-1], int)
            words = ["a list of texts"] if in_list else [_WORDS[detail["type"]] for detail in alike]
            faults.append(f"{where}: {key} must be {' or '.join(words)}, not {table[key]!r}.")
    return None


def _choices(hint: Any) -> list[str]:  # noqa: ANN401 - a type
    return [word for part in (hint, *get_args(hint)) if get_origin(part) is Literal for word in get_args(part)]


def _no_choice(where: str, key: str, value: str, choices: Iterable[str]) -> str:
    return f"{where}: {key} = {value!r} is not one of {', '.join(choices)}.{did_you_mean(value, choices)}"


def _unknown_keys(given: Iterable[str], known: Iterable[str], where: str) -> list[str]:
    """Return a fault for each key that nothing knows, with the nearest that something does."""
    known = list(known)
    return [
        f"{where}: unknown key {key!r}.{did_you_mean(key, known)} Known are {', '.join(known)}."
        for key in given
        if key not in known
    ]


def _secrets(section: Section, file: str) -> Iterator[str]:
    """Yield the fault of a source with a password in it, before it is shown or used."""
    try:
        if is_address(section.source):
            check_address(section.source)
    except DataError as error:
        yield f"{file}, section {section.name!r}: {error}"


def _contradictions(spec: ProjectSpec, file: str) -> Iterator[str]:
    """Yield what no single key shows."""
    for section in (*spec.relations, *spec.features, *spec.entities):
        yield from _secrets(section, file)
        if section.table is not None and section.query is not None:
            yield f"{file}, section {section.name!r}: give table or query, not both."
    yield from _unknown_names(spec, file)
    for feature in spec.features:
        if not (feature.numeric or feature.categories or feature.booleans):
            yield f"{file}, [features.{feature.name}]: name columns in numeric, categories or booleans."
    for relation in spec.relations:
        where = f"{file}, [relations.{relation.name}]"
        if relation.likelihood not in known():
            yield _no_choice(where, "likelihood", relation.likelihood, known())
        if relation.rows == relation.cols and relation.symmetric is None:
            yield (
                f"{where}: it relates {relation.rows!r} with itself, so symmetric must say which way its cells go: true"
                " if a pair is the same both ways, as in friendships, false if not, as in who follows whom."
            )
        matrix = relation.format == "mtx" or relation.source.endswith((".mtx", ".mtx.gz"))
        if relation.weight is not None and (relation.layout != "long" or matrix or relation.blanks == "zero"):
            yield f'{where}: weight is for tables with a line per cell, of which blanks are not "zero".'
        if relation.layout == "long" and not matrix:
            for key, entity in (("row", relation.rows), ("col", relation.cols)):
                if getattr(relation, key) is None:
                    yield f"{where}: the key {key!r} is missing: which column holds the ids of {entity!r}?"
            if relation.value is None and relation.blanks is None:
                yield (
                    f"{where}: without a value column every listed pair is a 1, so blanks must say what the others are:"
                    ' "zero" if they are known not to be related, "missing" if nothing is known.'
                )


def _unknown_names(spec: ProjectSpec, file: str) -> Iterator[str]:
    """Yield the entity sets, relations and priors that are named and do not exist."""
    sets = {entity for relation in spec.relations for entity in (relation.rows, relation.cols)}
    sets |= {feature.rows for feature in spec.features}
    for entity in spec.entities:
        if entity.name not in sets:
            yield (
                f"{file}, [entities.{entity.name}]: no relation uses the entity set {entity.name!r}, so nothing"
                f" observes it; there are {', '.join(sorted(sets))}.{did_you_mean(entity.name, sets)}"
            )
    names = [relation.name for relation in spec.relations]
    names += [f"{feature.name}_{part}" for feature in spec.features for part in ("numbers", "traits")]
    bias, priors = spec.options.get("bias"), spec.options.get("priors", {})
    if isinstance(bias, dict):
        yield from _unknown_keys(bias, names, f"{file}, [fit], bias")
    yield from _unknown_keys(priors, [prior.name for prior in fields(Priors)], f"{file}, [fit.priors]")
