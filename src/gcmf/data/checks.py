"""Every refusal: what may be wrong with relations, alone and together, each in its own words."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.block import narrow
from gcmf.data.positions import parts
from gcmf.data.schema import likelihood_name, likelihood_support, show_shape
from gcmf.data.vocabulary import and_more, as_index, id_faults, show_id
from gcmf.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pandas as pd

    from gcmf.data.relation import Relation
    from gcmf.data.vocabulary import Vocabulary


def relation_faults(relation: Relation) -> Iterator[str]:
    """Yield what is wrong with one relation alone, duplicate cells apart."""
    block = relation.block
    yield from block.faults
    if block.n_cells == 0 and not block.faults:
        yield (
            f"relation {relation.name!r} has no observed cell ({show_shape(block.shape)}, all missing); leave"
            " it out, and declare its ids with entities= if they are needed."
        )
    yield from _null_id_faults(relation)
    yield from _value_faults(relation)


def duplicate_faults(relation: Relation) -> Iterator[str]:
    """Yield the fault of a relation that lists some cell more than once."""
    block = relation.block
    i, j = block.i[:], block.j[:]
    known = (i >= 0) & (j >= 0)
    number = i[known].astype(np.int64) * max(block.shape[1], 1) + j[known]
    _, first, times = np.unique(number, return_index=True, return_counts=True)
    repeated = np.flatnonzero(times > 1)
    if len(repeated):
        where = repeated[np.argmin(first[repeated])]
        at = int(np.flatnonzero(known)[first[where]])
        yield (
            f"relation {relation.name!r}: {_cell(relation, at)} is given {times[where]} times"
            f"{and_more(len(repeated) - 1)}; keep one value per cell, for example their mean or the last one."
        )


def schema_faults(relations: Sequence[Relation]) -> Iterator[str]:
    """Yield the names used twice and the schemas that the model does not cover."""
    for name, times in Counter(relation.name for relation in relations).items():
        if times > 1:
            yield f"{times} relations are named {name!r}; give each its own name."
    for relation in relations:
        if relation.rows == relation.cols:
            yield (
                f"relation {relation.name!r} joins the entity set {relation.rows!r} with itself, which the"
                " model does not cover yet and would fit wrongly. If its rows and columns play different"
                f" roles, give one side a name of its own, such as cols={relation.cols + '_other'!r}."
            )
    for one, other in combinations(relations, 2):
        if {one.rows, one.cols} == {other.rows, other.cols} and one.rows != one.cols:
            yield (
                f"relations {one.name!r} and {other.name!r} both join {one.rows!r} and {one.cols!r}, which"
                " the model does not cover yet and would fit wrongly. Merge them into one relation, or give"
                f" one side of one of them an entity set of its own, such as {other.cols + '_other'!r}."
            )


def alignment_faults(relations: Sequence[Relation], entities: Mapping[str, object]) -> Iterator[str]:
    """Yield what keeps the ids of one entity set, from several sources, from being matched."""
    for name, sources in axes(relations).items():
        positional = [(relation, ids) for relation, ids in sources if ids.positional]
        if not positional:
            continue
        first, ids = positional[0]
        for relation, others in positional[1:]:
            if len(others) != len(ids):
                yield (
                    f"entity set {name!r} has {len(ids)} entities in relation {first!r} and {len(others)} in"
                    f" relation {relation!r}; bare arrays are matched by position, so their sizes must agree."
                    " If the entities differ, give data frames that carry their ids."
                )
        for relation, others in sources:
            if not others.positional:
                yield from _unplaceable(name, first, others, f"relation {relation!r}", limit=len(ids))
        if name in entities:
            declared = f"entities={{{name!r}: ...}}"
            yield from _unplaceable(name, first, as_index(entities[name]), declared, limit=None)


def entity_faults(relations: Sequence[Relation], entities: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with the ids declared by `entities=`."""
    known = axes(relations)
    for name, ids in entities.items():
        if name not in known:
            yield (
                f"entities={{{name!r}: ...}}: no relation uses the entity set {name!r}, so nothing observes"
                f" it; there are {', '.join(map(repr, known))}.{did_you_mean(name, known)}"
            )
        if getattr(ids, "ndim", 1) != 1 or hasattr(ids, "columns"):
            yield f"entities={{{name!r}: ...}} must be one column of ids; tables are not supported yet."
        elif isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
            yield f"entities={{{name!r}: {ids!r}}} must be a list of ids."
        else:
            yield from id_faults(as_index(ids), f"entities={{{name!r}: ...}}")


def axes(relations: Sequence[Relation]) -> dict[str, list[tuple[str, Vocabulary]]]:
    """Return, per entity set in order of first appearance, the ids that each relation brings."""
    found: dict[str, list[tuple[str, Vocabulary]]] = {}
    for relation in relations:
        found.setdefault(relation.rows, []).append((relation.name, relation.row_ids))
        found.setdefault(relation.cols, []).append((relation.name, relation.col_ids))
    return found


def _unplaceable(name: str, first: str, ids: object, source: str, *, limit: int | None) -> Iterator[str]:
    """Yield the fault of named ids that meet positions, unless they are positions themselves."""
    index = as_index(ids)
    if not len(index) or (index.dtype.kind in "iu" and _inside(index, limit)):
        return
    yield (
        f"entity set {name!r}: relation {first!r} is a bare array, whose ids are positions, and {source}"
        f" brings ids such as {show_id(index[0])}; positions cannot be matched with names. Give"
        f" {first!r} as a data frame with ids, or use integers within 0..n-1 everywhere."
    )


def _inside(index: pd.Index[Any], limit: int | None) -> bool:
    return bool(index.min() >= 0 and (limit is None or index.max() < limit))


def _null_id_faults(relation: Relation) -> Iterator[str]:
    for positions, side in ((relation.block.i, "row"), (relation.block.j, "column")):
        if not len(positions) or positions.min() >= 0:
            continue
        null = np.flatnonzero(positions[:] < 0)
        if len(null):
            yield (
                f"relation {relation.name!r}: the cell at position {null[0]} has a null {side} id"
                f"{and_more(len(null) - 1)}; drop such cells or give them an id."
            )


def _value_faults(relation: Relation) -> Iterator[str]:
    x = relation.block.x
    first, times = _find(x, lambda part: ~np.isfinite(part))
    if times:
        yield (
            f"relation {relation.name!r}: {_cell(relation, first)} is {_number(x, first)}"
            f"{and_more(times - 1)}, but an observed cell must be a finite number; drop it if it is"
            " missing."
        )
    support = likelihood_support(relation.likelihood)
    if support not in _OUTSIDE:
        return
    outside, rule = _OUTSIDE[support]
    first, times = _find(x, lambda part: outside(part) & np.isfinite(part))
    if times:
        yield (
            f"relation {relation.name!r}: {_cell(relation, first)} is {_number(x, first)}"
            f"{and_more(times - 1)}, but {likelihood_name(relation.likelihood)} cells must be {rule}; recode them,"
            " or use another likelihood."
        )


_OUTSIDE: dict[str, tuple[Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]], str]] = {
    "binary": (lambda x: (x != 0) & (x != 1), "0 or 1"),
    "counts": (lambda x: (x < 0) | (x != np.floor(x)), "integers >= 0"),
}


def _find(x: npt.NDArray[Any], test: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> tuple[int, int]:
    """Return where a test first holds, and how often it does."""
    first = times = 0
    for part in parts(len(x)):
        found = np.flatnonzero(test(x[part]))
        if len(found) and not times:
            first = part.start + int(found[0])
        times += len(found)
    return first, times


def _cell(relation: Relation, at: int) -> str:
    """Return "row 'ann', column 'heat'" for the cell listed at a position."""
    row = _id(relation.row_ids, relation.block.i[at])
    return f"row {row}, column {_id(relation.col_ids, relation.block.j[at])}"


def _number(x: npt.NDArray[Any], at: int) -> str:
    """Return a value as it was given, 0.1 for a float32 and 3 for 3.0."""
    return str(narrow(x)[at]).removesuffix(".0")


def _id(vocabulary: Vocabulary, position: int) -> str:
    return show_id(vocabulary.ids[position]) if position >= 0 else "null"
