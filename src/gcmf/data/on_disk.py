"""A collection whose cells are in files: how it is written to a folder, and read from one.

Ids are in memory, as parameters are. Of cells the system reads what is looked at, and may forget it again: sweeps go
over them in the order of the files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.bound import BoundRelation, EntitySet
from gcmf.data.cells import Cells, Side
from gcmf.data.files import FORMAT, open_array, read_manifest
from gcmf.data.schema import Columns
from gcmf.data.units import Units
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import DataError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from gcmf.data.files import Files

_ARRAYS = ("indptr", "partner", "value", "members", "covered", "weight")


def write(files: Files, made_of: str, sets: Mapping[str, EntitySet], relations: Sequence[BoundRelation]) -> None:
    """Write all that is not in the files yet, and the manifest last."""
    files.finish({
        "format": FORMAT,
        "made_of": made_of,
        "entities": [_write_ids(files, f"e{n}", entities) for n, entities in enumerate(sets.values())],
        "relations": [_write_relation(files, f"r{m}", relation) for m, relation in enumerate(relations)],
    })  # fmt: skip


def read(folder: Path, made_of: str) -> tuple[dict[str, EntitySet], list[BoundRelation]] | None:
    """Return what a folder holds if it is made of this; None if it is made of something else, or not there."""
    manifest = read_manifest(folder)
    if manifest is None or manifest["made_of"] != made_of or manifest.get("format") != FORMAT:
        return None
    try:
        sets = {about["name"]: _read_ids(folder, f"e{n}", about) for n, about in enumerate(manifest["entities"])}
        relations = [_read_relation(folder, f"r{m}", about) for m, about in enumerate(manifest["relations"])]
        _check(sets, relations)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OSError) as error:
        msg = f"{folder} does not hold what it says ({error}). Remove it, and it is made again."
        raise StorageError(msg) from error
    return sets, relations


def _write_ids(files: Files, name: str, entities: EntitySet) -> dict[str, Any]:
    ids, vocabulary = entities.ids, entities.vocabulary
    about = {"name": entities.name, "declared": entities.declared, "positional": vocabulary.positional}
    if ids.dtype.kind in "iu":
        if not vocabulary.positional:
            files.save(f"{name}-ids", ids.to_numpy(np.int64))
        return {**about, "ids": "integers", "size": len(ids)}
    listed = ids.tolist()
    if not all(isinstance(item, str) for item in listed):
        msg = f"entity set {entities.name!r}: in a folder, ids are whole numbers or texts, not {ids.dtype}."
        raise DataError(msg)
    (files.folder / f"{name}-ids.json").write_text(json.dumps(listed), encoding="utf-8")
    return {**about, "ids": "texts", "size": len(ids)}


def _read_ids(folder: Path, name: str, about: Mapping[str, Any]) -> EntitySet:
    if about["positional"]:
        vocabulary = Vocabulary.positions(about["size"])
    elif about["ids"] == "integers":
        vocabulary = Vocabulary(np.array(open_array(folder, f"{name}-ids")))
    else:
        listed = json.loads((folder / f"{name}-ids.json").read_text(encoding="utf-8"))
        vocabulary = Vocabulary(pd.Index(np.array(listed, dtype=object)))
    if len(vocabulary) != about["size"]:
        msg = f"{len(vocabulary)} ids of {about['name']!r}, not {about['size']}"
        raise ValueError(msg)
    return EntitySet(about["name"], vocabulary, declared=about["declared"])


def _write_relation(files: Files, name: str, relation: BoundRelation) -> dict[str, Any]:
    if not isinstance(relation.likelihood, str):
        msg = f"relation {relation.name!r}: in a folder, a likelihood is one of those with a name."
        raise DataError(msg)
    cells, units = relation.cells, relation.units
    about: dict[str, Any] = {
        "name": relation.name, "rows": relation.rows, "cols": relation.cols, "likelihood": relation.likelihood,
        "symmetric": relation.symmetric, "n_cells": cells.n_cells, "units": units is not None,
        "columns": relation.columns, "categories": relation.lead is not None,
    }  # fmt: skip
    if units is not None:
        files.save(f"{name}-center", units.center)
        files.save(f"{name}-scale", units.scale)
    if relation.lead is not None:
        files.save(f"{name}-lead", relation.lead)
    matrix = cells.dense  # which both sides read
    for side, cells_of in (("rows", cells.rows), ("cols", cells.cols)):
        there = [array for array in _ARRAYS if getattr(cells_of, array) is not None]
        about[f"{side}_side"] = {"arrays": there, "stride": cells_of.stride}
        for array in there:
            file = f"{name}-{side}-{array}"
            shared = matrix and side == "cols" and array == "value"
            if not shared and not (files.folder / f"{file}.npy").exists():
                files.save(file, getattr(cells_of, array))
    return about


def _read_relation(folder: Path, name: str, about: Mapping[str, Any]) -> BoundRelation:
    rows, cols = (_read_side(folder, name, side, about[f"{side}_side"]) for side in ("rows", "cols"))
    units = (
        Units(*(np.array(open_array(folder, f"{name}-{part}")) for part in Units._fields)) if about["units"] else None
    )
    cells = Cells(rows, cols, n_cells=int(about["n_cells"]))
    columns = Columns(*about["columns"]) if about.get("columns") else None
    lead = np.array(open_array(folder, f"{name}-lead")) if about["categories"] else None
    names = about["name"], about["rows"], about["cols"]
    return BoundRelation(*names, about["likelihood"], cells, units, about["symmetric"], columns, lead)


def _read_side(folder: Path, name: str, side: str, about: Mapping[str, Any]) -> Side:
    given: dict[str, npt.NDArray[Any]] = {}
    for array in about["arrays"]:
        of = "rows" if array == "value" and about["stride"] else side
        given[array] = open_array(folder, f"{name}-{of}-{array}")
    return Side(**given, stride=int(about["stride"]))


def _check(sets: Mapping[str, EntitySet], relations: Sequence[BoundRelation]) -> None:
    """Refuse arrays that do not fit together: kernels follow them without looking. Every partner is looked at once."""
    for relation in relations:
        sizes = sets[relation.rows].size, sets[relation.cols].size
        sides = (relation.cells.rows, *sizes), (relation.cells.cols, *sizes[::-1])
        lead = np.arange(sizes[1]) if relation.lead is None else relation.lead
        leads = len(lead) == sizes[1] and bool((lead >= 0).all() and (lead < sizes[1]).all())
        if not (leads and all(_fits(*side) for side in sides)):
            msg = f"the cells of relation {relation.name!r} do not fit together"
            raise ValueError(msg)


def _fits(side: Side, d: int, n_others: int) -> bool:
    """Whether the cells of d entities with so many others are where their side says."""
    n, types = len(side.value), [array.dtype.str for array in (side.indptr, side.partner, side.value)]
    if len(side.indptr) != d + 1 or types[:2] != ["<i8", "<i4"] or types[2] not in ("|u1", "<f4", "<f8"):
        return False
    width = n_others
    if side.members is not None and side.covered is not None:
        width = len(side.members)
        if len(side.covered) != d or side.covered.dtype != np.bool_ or not _within(side.members, n_others):
            return False
    if side.stride:
        last = side.indptr[:-1] + side.stride * (width - 1)
        return bool(side.indptr.min() >= 0 and width and last.max() < n and side.covered is not None)
    rising = side.indptr[0] == 0 and side.indptr[-1] == n and bool((np.diff(side.indptr) >= 0).all())
    weighed = side.weight is None or (len(side.weight) == n and side.weight.dtype == np.float32)
    return rising and weighed and len(side.partner) == n and _within(side.partner, width)


def _within(positions: npt.NDArray[np.int32], size: int) -> bool:
    return positions.dtype == np.int32 and (not len(positions) or bool(positions.min() >= 0 and positions.max() < size))
