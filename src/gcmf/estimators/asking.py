"""From what users ask by name to positions in a model: ids, pairs of them, and the cells of other collections."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.checks import strange_kind
from gcmf.data.vocabulary import as_index, id_kinds, show_id
from gcmf.errors import DataError, OptionError, UnknownIdError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.bound import BoundRelation
    from gcmf.data.collection import Collection
    from gcmf.data.schema import RelationSchema
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.estimators.gcmf import Unknown
    from gcmf.model.fitted import Fitted

    Indices = NDArray[np.int64]


#: Of strange ids, so many are looked at, whether they are known as others.
MOST_STRANGE = 100


def fitted_of(model: Any, caller: str) -> Fitted:
    """What a fitted GCMF found; anything else is refused, a PCA too: it has no named relations to ask for."""
    if not hasattr(type(model), "fitted_"):
        msg = (
            f"{caller} takes a fitted gcmf.GCMF. Got {type(model).__name__} instead: fit the same tables with"
            " gcmf.GCMF, as {('sample', 'feature'): X}."
        )
        raise OptionError(msg)
    fitted: Fitted = model.fitted_
    return fitted


def known_at(vocabulary: Vocabulary, entity: str, ids: Any) -> Indices:
    """Return the position of each id, all of them for None; refuse strange ones, which can be folded in."""
    way_out = f"New ones are found by model.fold_in({entity!r}, cells), which answers the same questions."
    return locate(vocabulary, entity, ids, unknown="error", way_out=way_out)


def locate(vocabulary: Vocabulary, entity: str, ids: Any, *, unknown: Unknown, way_out: str | None = None) -> Indices:
    """Return the position of each id, all of them for None; −1 for a strange one, or with "error" a refusal.

    An id that is known as one of another kind, '1' for 1, is always refused.
    """
    if ids is None:
        return np.arange(len(vocabulary))
    try:
        asked = as_index(_listed(ids, entity))  # flat: a column with an index of its own has no positions
        index = vocabulary.index(asked)
    except TypeError as error:
        msg = f"The ids of {entity} must be one list of ids. Got {ids!r}, in which something can be no id: {error}."
        raise OptionError(msg) from error
    strange = list(asked[index < 0][:MOST_STRANGE])
    hint = next(filter(None, (_hint(item, vocabulary) for item in strange)), "")
    if strange and (unknown == "error" or hint):  # '1' is no new id where 1 is known
        strange = strange[:3]
        more = int((index < 0).sum()) - len(strange)
        names = ", ".join(map(show_id, strange)) + (f" and {more} more" if more else "")
        way_out = way_out or (
            "Give unknown='prior' to predict new ids from the prior, or declare them when building the collection:"
            f" entities={{{entity!r}: ids}}."
        )
        fault = strange_kind(entity, vocabulary, asked, "the question")
        msg = f"The model has never seen {entity} {names}. {hint or fault or way_out}"
        raise UnknownIdError(msg)
    return index


def pair(i: Indices, j: Indices) -> tuple[Indices, Indices]:
    """Return two lists as pairs; a single one is paired with all of the other."""
    if len(i) != len(j) and 1 not in (len(i), len(j)):
        msg = (
            f"rows and cols are paired, but there are {len(i)} rows and {len(j)} columns. Use grid=True for all pairs."
        )
        raise OptionError(msg)
    rows, cols = np.broadcast_arrays(i, j)
    return rows, cols


def is_turned(known: RelationSchema, given: BoundRelation) -> bool:
    """Whether a relation of another collection has rows for columns; refuse one that is another relation."""
    if {known.rows, known.cols} != {given.rows, given.cols}:
        msg = (
            f"relation {known.name!r} joins {known.rows!r} and {known.cols!r} in the model, and {given.rows!r} and"
            f" {given.cols!r} in the data. Name the entity sets as they were when the model was fitted."
        )
        raise DataError(msg)
    if given.symmetric != known.symmetric:
        msg = (
            f"relation {known.name!r} was fitted with symmetric={known.symmetric}, and has symmetric={given.symmetric}"
            " in the data; its cells are not the same. Give it as it was fitted."
        )
        raise DataError(msg)
    if given.schema.likelihood != known.likelihood:
        msg = (
            f"relation {known.name!r} was fitted as {known.likelihood}, and is {given.schema.likelihood} in the data;"
            f" their errors cannot be compared. Give it with likelihood={known.likelihood!r}."
        )
        raise DataError(msg)
    return known.rows != given.rows


def check_kinds(fitted: Fitted, data: Collection) -> None:
    """Refuse a collection that has ids of a kind that those of the model are not: '1' would be nobody, and not 1."""
    both = [name for name in fitted.schema.entities if name in data.entities]
    faults = (strange_kind(name, fitted.vocabularies[name], data.entities[name].ids, "the data") for name in both)
    if found := [fault for fault in faults if fault]:
        raise DataError(found)


def _listed(ids: Any, entity: str) -> Any:
    """Make a single id a list of one; strings and tuples are ids, not lists of them."""
    if isinstance(ids, Mapping | Set) or getattr(ids, "ndim", 1) > 1 or hasattr(ids, "columns"):
        what = "a list in an order" if isinstance(ids, Mapping | Set) else "one column of ids"
        msg = f"The ids of {entity} must be {what}, such as list(...). Got {type(ids).__name__} instead."
        raise OptionError(msg)
    if isinstance(ids, (str, bytes, tuple)) or not hasattr(ids, "__len__"):
        return [ids]
    return ids if getattr(ids, "ndim", 1) else [ids.item()]


def _hint(item: Any, vocabulary: Vocabulary) -> str:
    """Return "Did you mean 1? ..." where the id is known as a number and was asked as text, or the other way round."""
    item = item.item() if isinstance(item, np.generic) else item
    if isinstance(item, bool):
        return "A mask is no list of ids: give ids[mask]."
    for kind in (str, int, float):
        try:
            other = kind(item)
        except (TypeError, ValueError, OverflowError):
            continue
        if type(other) is not type(item) and other in vocabulary:
            return f"Did you mean {other!r}? The ids are {' and '.join(id_kinds(vocabulary.ids))}."
    return ""
