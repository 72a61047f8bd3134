"""Whether two collections are the same: a short digest of each of their parts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from gcmf.data.collection import Collection


def fingerprint(data: Collection) -> dict[str, str]:
    """A digest of every entity set, table of covariates and relation of a collection, by what each is called."""
    found = {}
    for name, entity in data.entities.items():
        ids = [str(entity.ids.dtype), *map(repr, entity.ids.tolist())]
        found[f"the ids of entity set {name!r}"] = _digest([np.array(ids, object)])
        if entity.covariates is not None:
            known = entity.covariates
            labels = np.array([repr(feature) for feature in known.features], object)
            found[f"what is known of entity set {name!r}"] = _digest(
                [labels, known.group, known.center, known.scale, known.values]
            )
    for name, relation in data.relations.items():
        side = relation.cells.rows
        kind = np.array([relation.rows, relation.cols, repr(relation.likelihood), repr(relation.symmetric)], object)
        found[f"the kind of relation {name!r}"] = _digest([kind])
        # Standardized columns of other units may hold the same cells.
        units = (None, None) if relation.units is None else (relation.units.center, relation.units.scale)
        parts = [side.indptr, side.partner, side.value, side.members, side.covered, side.weight, *units]
        found[f"the cells of relation {name!r}"] = _digest([part for part in parts if part is not None])
    return found


def _digest(parts: list[Any]) -> str:
    """The first half of SHA-256 of arrays with their types and shapes."""
    digest = hashlib.sha256()
    for part in parts:
        arrays = [part.data, part.indices, part.indptr] if sparse.issparse(part) else [part]
        for array in arrays:
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]
