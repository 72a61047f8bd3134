"""What users give to build a collection: relations, mappings of matrices, declared ids; and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from gcmf.data.relation import Relation
from gcmf.errors import DataError


def check_relations(relations: object) -> list[Relation]:
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


def check_entities(entities: object) -> dict[str, Any]:
    """Return the declared ids by entity set; refuse what is no mapping."""
    if entities is None:
        return {}
    if not isinstance(entities, Mapping):
        msg = f'entities= must be a mapping from entity sets to ids, such as {{"movie": ids}}. Got {entities!r}.'
        raise DataError(msg)
    return {name: list(ids) if isinstance(ids, Iterator) else ids for name, ids in entities.items()}


def refuse_data(data: object, caller: str) -> NoReturn:
    """Say what a caller takes in place of what it was given."""
    shape = f" of shape {tuple(data.shape)}" if hasattr(data, "shape") else ""
    msg = (
        f"{caller} takes a Collection, a Relation, a list of relations, or a mapping such as"
        f' {{("user", "movie"): X}}. Got {type(data).__name__}{shape} instead. Name what its rows and columns are:'
        ' Relation("name", rows="...", cols="...", data=...).'
    )
    raise DataError(msg)


def read_mapping(matrices: Mapping[Any, object]) -> list[Relation]:
    """Return the relations of a mapping {("user", "movie"): X, ("user", "trait", "name"): Y}."""
    return [_shorthand(key, data) for key, data in matrices.items()]


def _shorthand(key: object, data: object) -> Relation:
    if not (isinstance(key, tuple) and len(key) in (2, 3) and all(isinstance(part, str) for part in key)):
        msg = (
            f"the key {key!r} does not name a relation; use (rows, cols) or (rows, cols, name), such as"
            f' ("user", "movie").'
        )
        raise DataError(msg)
    rows, cols = key[:2]
    name = key[2] if len(key) == 3 else f"{rows}-{cols}"
    if sparse.issparse(data):
        msg = (
            f"relation {name!r}: a scipy.sparse matrix must say what its blanks are, which a mapping cannot;"
            ' use Relation(..., blanks="missing") if a blank cell was never observed, or'
            ' Relation(..., blanks="zero") if it is an observed zero.'
        )
        raise DataError(msg)
    is_bool = isinstance(data, np.ndarray) and data.dtype == np.bool_
    return Relation(name, rows, cols, data, "bernoulli" if is_bool else "gaussian")
