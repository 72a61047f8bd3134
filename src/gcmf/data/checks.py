"""Every refusal: what may be wrong with relations, alone and together, each in its own words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.positions import parts
from gcmf.data.raw import narrow
from gcmf.data.schema import likelihood_name, likelihood_support, show_shape
from gcmf.data.vocabulary import and_more, as_index, id_faults, id_kinds, is_id_list, show_id
from gcmf.errors import did_you_mean
from gcmf.likelihoods.support import SUPPORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from gcmf.data.id_kind import Ids
    from gcmf.data.relation import Relation
    from gcmf.data.vocabulary import Vocabulary

RESERVED = {"role", "relations"}
"""What the columns of `structure()` are called beside those of the entity sets."""
MOST_WEIGHT = 1e9
"""The largest weight of a cell."""


def collection_faults(relations: Sequence[Relation], entities: Mapping[str, object]) -> list[str]:
    """Return all that is wrong with relations, alone and together, and with the ids that are declared.

    Cells that are listed more than once are looked for only if there is something else to say.
    """
    faults = [*schema_faults(relations), *_entity_faults(relations, entities), *_alignment_faults(relations, entities)]
    faults += [fault for relation in relations for fault in _relation_faults(relation)]
    if faults:
        faults += [fault for relation in relations for fault in duplicate_faults(relation)]
    return faults


def duplicate_faults(relation: Relation) -> Iterator[str]:
    """Yield the fault of a relation that lists some cell more than once."""
    raw = relation.raw
    if raw.faults:
        return
    i, j = raw.i[:], raw.j[:]
    known = (i >= 0) & (j >= 0)
    number = i[known].astype(np.int64) * max(raw.shape[1], 1) + j[known]
    _, first, times = np.unique(number, return_index=True, return_counts=True)
    repeated = np.flatnonzero(times > 1)
    if len(repeated):
        where = repeated[np.argmin(first[repeated])]
        at = int(np.flatnonzero(known)[first[where]])
        yield (
            f"{_cell(relation, at)} is given {times[where]} times"
            f"{and_more(len(repeated) - 1)}; keep one value per cell, for example their mean or the last one."
        )


def schema_faults(relations: Sequence[Relation]) -> Iterator[str]:
    """Yield the names used twice and the schemas that the model does not cover."""
    for name, times in Counter(relation.name for relation in relations).items():
        if times > 1:
            yield f"{times} relations are named {name!r}; give each its own name."
    named = {entity for relation in relations for entity in (relation.rows, relation.cols)}
    for name in sorted(named & RESERVED):
        yield f"an entity set cannot be named {name!r}, as a column of structure() is; give it another name."


def brought_ids(relations: Sequence[Relation]) -> dict[str, list[tuple[str, Vocabulary]]]:
    """Return, per entity set in order of first appearance, the ids that each relation brings."""
    brought: dict[str, list[tuple[str, Vocabulary]]] = {}
    for relation in relations:
        brought.setdefault(relation.rows, []).append((relation.name, relation.row_ids))
        brought.setdefault(relation.cols, []).append((relation.name, relation.col_ids))
    return brought


def _entity_faults(relations: Sequence[Relation], entities: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with the ids declared by `entities=`."""
    known = brought_ids(relations)
    for name, ids in entities.items():
        if name not in known:
            yield (
                f"entities={{{name!r}: ...}}: no relation uses the entity set {name!r}, so nothing observes"
                f" it; there are {', '.join(map(repr, known))}.{did_you_mean(name, known)}"
            )
        if isinstance(ids, tuple) and _has_matrix(ids):
            yield (
                f"entities={{{name!r}: (ids, matrix)}}: the matrix is a {type(ids[1]).__name__}, and must be of"
                " scipy.sparse. Give a dense one as pandas.DataFrame(matrix, index=ids)."
            )
        elif is_id_list(ids):
            yield from id_faults(as_index(ids), f"entities={{{name!r}: ...}}")
        elif hasattr(ids, "columns") or hasattr(ids, "ndim"):
            yield f"entities={{{name!r}: ...}} must be one column of ids, or a data frame that has them."
        else:
            yield f"entities={{{name!r}: {ids!r}}} must be a list of ids."


def _has_matrix(ids: Any) -> bool:  # noqa: ANN401 - whatever a user gives
    """Whether somebody gives a matrix beside the ids, as is done with sparse ones."""
    return isinstance(ids, tuple) and len(ids) in (2, 3) and getattr(ids[1], "ndim", 0) == 2


def _alignment_faults(relations: Sequence[Relation], entities: Mapping[str, object]) -> Iterator[str]:
    """Yield what keeps the ids of one entity set, from several sources, from being matched."""
    entities = {name: ids for name, ids in entities.items() if is_id_list(ids) and not _has_matrix(ids)}
    for name, sources in brought_ids(relations).items():
        positional = [(relation, ids) for relation, ids in sources if ids.positional]
        if not positional:
            yield from _kind_faults(name, sources, entities)
            continue
        first, ids = positional[0]
        for relation, others in positional[1:]:
            if len(others) != len(ids) and relation == first:
                yield (
                    f"relation {first!r} joins {name!r} with itself, and has {len(ids)} rows and {len(others)} columns;"
                    " a bare array has the same entities in the same order on both sides. If they differ, give row_ids="
                    " and col_ids=."
                )
            elif len(others) != len(ids):
                yield (
                    f"entity set {name!r} has {len(ids)} entities in relation {first!r} and {len(others)} in"
                    f" relation {relation!r}; bare arrays are matched by position, so their sizes must agree."
                    " If the entities differ, give data frames that carry their ids, or row_ids= and col_ids=."
                )
        for relation, others in sources:
            if not others.positional:
                yield from _name_faults(name, first, others, f"relation {relation!r}", limit=len(ids))
        if name in entities:
            declared = f"entities={{{name!r}: ...}}"
            yield from _name_faults(name, first, as_index(entities[name]), declared, limit=None)


def _name_faults(name: str, first: str, ids: object, source: str, *, limit: int | None) -> Iterator[str]:
    """Yield the fault of named ids that meet positions, unless they are positions themselves."""
    index = as_index(ids)
    if not len(index):
        return
    if index.dtype.kind in "iu" and index.min() >= 0 and (limit is None or index.max() < limit):
        return
    yield (
        f"entity set {name!r}: relation {first!r} is a bare array, whose ids are positions, and {source}"
        f" brings ids such as {show_id(index[0])}; positions cannot be matched with names. Give"
        f" {first!r} as a data frame with ids, or use integers within 0..n-1 everywhere."
    )


def _kind_faults(name: str, sources: Sequence[tuple[str, Vocabulary]], entities: Mapping[str, object]) -> Iterator[str]:
    """Yield the fault of ids of several kinds: '1' and 1 would be two entities."""
    held = [(f"relation {relation!r}", ids.ids) for relation, ids in sources]
    if name in entities:
        held.append((f"entities={{{name!r}: ...}}", as_index(entities[name])))
    fault = kind_fault(name, held)
    if fault is not None:
        yield f"{fault} Make them one kind everywhere, for example with .astype(str)."


def kind_fault(name: str, held: Sequence[tuple[str, pd.Index[Any]]]) -> str | None:
    """Return the fault of ids of an entity set, by source, that are of several kinds; None if there is one kind."""
    first: dict[str, str] = {}
    for source, ids in held:
        for kind, item in id_kinds(ids).items():
            first.setdefault(kind, f"{kind} in {source}, such as {show_id(item)}")
    if len(first) < 2:
        return None
    return f"entity set {name!r} has ids of {len(first)} kinds, which never match: {'; '.join(first.values())}."


def strange_kind(name: str, known: Vocabulary, ids: Ids, source: str) -> str | None:
    """Return the fault of ids that are of no kind that the ids of a model's entity set are of; None if there is none.

    Ids that the model knows have a kind that it knows: only the others are looked at.
    """
    asked = as_index(ids)
    strange = asked[known.index(asked) < 0]
    kinds = id_kinds(known.ids) if len(strange) else {}
    for kind, item in id_kinds(strange).items():
        if kind and kind not in kinds:
            fault = kind_fault(name, [("the model", known.ids[:1]), (source, pd.Index([item], tupleize_cols=False))])
            return f"{fault} Give them as the model has them."
    return None


def _relation_faults(relation: Relation) -> Iterator[str]:
    """Yield what is wrong with one relation alone, duplicate cells apart."""
    raw = relation.raw
    if raw.faults:
        yield from raw.faults
        return
    if raw.n_cells == 0:
        yield (
            f"relation {relation.name!r} has no observed cell ({show_shape(raw.shape)}, all missing); leave"
            " it out, and declare its ids with entities= if they are needed."
        )
    for positions, side in ((raw.i, "row"), (raw.j, "column")):
        if not len(positions) or positions.min() >= 0:
            continue
        null = np.flatnonzero(positions[:] < 0)
        if len(null):
            yield (
                f"relation {relation.name!r}: the cell at position {null[0]} has a null {side} id"
                f"{and_more(len(null) - 1)}; drop such cells or give them an id."
            )
    yield from _value_faults(relation)
    yield from _weight_faults(relation)


def _weight_faults(relation: Relation) -> Iterator[str]:
    weight = relation.raw.weight
    if weight is None:
        return
    first, times = _find(weight, lambda part: ~((part > 0) & (part <= MOST_WEIGHT)))
    if times:
        yield (
            f"{_cell(relation, first)} has the weight {weight[first]:g}{and_more(times - 1)}, but a weight says how"
            f" many cells it counts as, a number above 0 and at most {MOST_WEIGHT:g}; drop cells that are not to count."
        )


def _value_faults(relation: Relation) -> Iterator[str]:
    x = relation.raw.x
    first, times = _find(x, lambda part: ~np.isfinite(part))
    if times:
        zeros = "give it a value: where blanks are zeros, no cell can be missing"
        way_out = zeros if relation.raw.filled else "drop it if it is missing"
        yield f"{_value(relation, first, times)}, but an observed cell must be a finite number; {way_out}."
    else:
        yield from _size_faults(relation)
    support = SUPPORTS[likelihood_support(relation.likelihood)]
    outside = support.outside
    if outside is None:
        return
    first, times = _find(x, lambda part: outside(part) & np.isfinite(part))
    if times:
        yield (
            f"{_value(relation, first, times)}, but {likelihood_name(relation.likelihood)} cells must be"
            f" {support.rule}; recode them, or use another likelihood."
        )


def _size_faults(relation: Relation) -> Iterator[str]:
    """Yield the fault of numbers that float64 cannot hold: squares that overflow or vanish, counts past 2^53."""
    x, support = relation.raw.x, likelihood_support(relation.likelihood)
    largest, why = SUPPORTS[support].largest, SUPPORTS[support].too_large
    if largest == np.inf or not len(x) or (support == "real" and x.dtype != np.float64):
        return  # the square of a narrower number is not too large
    first, times = _find(x, lambda part: np.abs(part) > largest)
    if times:
        yield (
            f"{_value(relation, first, times)}, {why}; values may reach {largest:g}. Divide them all by a power of ten."
        )
        return
    low, high = float(x.min()), float(x.max())
    low, high = (min(low, 0.0), max(high, 0.0)) if relation.raw.filled else (low, high)
    if 0 < high - low < 1 / largest and support == "real":
        yield (
            f"relation {relation.name!r}: its values lie between {low:g} and {high:g}, so close that the square of"
            f" their difference vanishes; they must differ by {1 / largest:g}. Multiply them all by a power of ten."
        )


def _find(x: npt.NDArray[Any], test: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> tuple[int, int]:
    """Return where a test first holds, and how often it does."""
    first = times = 0
    for part in parts(len(x)):
        hits = np.flatnonzero(test(x[part]))
        if len(hits) and not times:
            first = part.start + int(hits[0])
        times += len(hits)
    return first, times


def _cell(relation: Relation, at: int) -> str:
    """Return "relation 'fever': row 'ann', column 'heat'" for the cell listed at a position."""
    raw = relation.raw
    row, col = (
        show_id(ids.ids[position]) if position >= 0 else "null"
        for ids, position in ((raw.row_ids, raw.i[at]), (raw.col_ids, raw.j[at]))
    )
    return f"relation {relation.name!r}: row {row}, column {col}"


def _value(relation: Relation, at: int, times: int) -> str:
    """Return the same with " is 0.1 (and 2 more)": the value as it was given, 0.1 for a float32 and 3 for 3.0."""
    value = str(narrow(relation.raw.x)[at]).removesuffix(".0")
    return f"{_cell(relation, at)} is {value}{and_more(times - 1)}"
