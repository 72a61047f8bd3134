"""Ids and positions: which entity of a set is which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.id_kind import Ids, is_foreign_column, kind_of, plain_values, united
from gcmf.data.positions import Coded, parts
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.id_kind import IdKind
    from gcmf.data.positions import Positions

_SMALL_SPAN = 2**16
"""Integers that lie this close together may have a table of all between them, few as they may be."""
_KINDS = {
    "string": "text",
    "boolean": "True or False",
    "bytes": "bytes",
    "empty": "",
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "numbers"),
    **dict.fromkeys(("datetime64", "datetime"), "times"),
    "date": "dates",
}
"""What people call the kinds of values that pandas tells apart."""


class Vocabulary:
    """Ordered, distinct ids and their positions 0..n-1.

    Parameters
    ----------
    ids : array-like
        Hashable ids of any kind: integers, strings, categories, tuples, dates. None may be null and
        none may come twice.
    """

    __slots__ = ("ids", "kind", "positional")

    ids: pd.Index[Any]
    """The ids in order. It is always flat: a category is held as its value, a `MultiIndex` as tuples.

    A pandas index is kept, and not an array, because it gives every kind of id back as it came, labels the tables
    that a fit returns, and looks up millions of ids at a time.
    """
    positional: bool
    """Whether the ids are just the positions of a bare array, and not names that somebody chose."""
    kind: IdKind | None
    """What they were beyond their values: categories, levels, a polars type. Answers carry them so."""

    def __init__(self, ids: Ids) -> None:
        self.ids = as_index(ids)
        faults = id_faults(self.ids, "the ids")
        if faults:
            raise DataError(faults)
        self.positional = False
        self.kind = ids.kind if isinstance(ids, Vocabulary) else kind_of(ids)

    @classmethod
    def positions(cls, size: int) -> Vocabulary:
        """Return the vocabulary of a bare array: the positions 0..size-1."""
        vocabulary = cls(pd.RangeIndex(size))
        vocabulary.positional = True
        return vocabulary

    def index(self, ids: Ids) -> npt.NDArray[np.int64]:
        """Return the position of each id, and -1 for each one that is unknown."""
        if ids is self:
            return np.arange(len(self))
        asked = as_index(ids)
        at = np.asarray(self.ids.get_indexer(asked), dtype=np.int64)
        if asked.dtype == object and "numbers" in id_kinds(self.ids):
            at[[isinstance(item, bool | np.bool_) for item in asked]] = -1  # Python has True == 1
        return at

    def union(self, other: Vocabulary) -> Vocabulary:
        """Return these ids followed by those of `other` that are new, each in its order."""
        if other is self:
            return self
        new, kind = other.ids[self.index(other) < 0], united(self.kind, other.kind)
        if not len(new) and kind == self.kind:
            return self
        return Vocabulary(self.ids.append(new)).of_kind(kind)

    def of_kind(self, kind: IdKind | None) -> Vocabulary:
        """Say what the ids were before they became plain values; return the same vocabulary."""
        self.kind = kind
        return self

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        try:
            return bool(self.index([item])[0] >= 0)
        except TypeError:  # not hashable, so surely no id
            return False

    def __repr__(self) -> str:
        shown = ", ".join(show_id(item) for item in self.ids[:5])
        return f"Vocabulary({len(self)}: {shown}{', ...' if len(self) > 5 else ''})"


def as_index(ids: Ids) -> pd.Index[Any]:
    """Return ids of any source as a flat pandas index of plain types, nulls and duplicates included."""
    if isinstance(ids, Vocabulary):
        return ids.ids
    if isinstance(ids, pd.Series):
        ids = ids.array
    elif is_foreign_column(ids):
        ids = plain_values(ids)
    elif not isinstance(ids, pd.Index | np.ndarray | pd.api.extensions.ExtensionArray):
        ids = np.asarray(ids) if hasattr(ids, "__array__") else list(ids)
    index: pd.Index[Any] = pd.Index(ids, tupleize_cols=False)
    if isinstance(index, pd.MultiIndex):
        return index.to_flat_index()
    if isinstance(index, pd.CategoricalIndex):
        return pd.Index(
            index.to_numpy() if index.hasnans else index.astype(index.categories.dtype), tupleize_cols=False
        )
    if pd.api.types.is_integer_dtype(index.dtype) and index.dtype != np.int64 and not index.hasnans:
        fits = index.dtype != np.uint64 or not len(index) or index.max() <= np.iinfo(np.int64).max
        return index.astype(np.int64) if fits else index
    return index


def encode(ids: Ids, *, what: str = "the ids") -> tuple[Positions, Vocabulary]:
    """Return the position of each of n repeated ids among the distinct ones, and the distinct ones.

    A listing says nothing of the order of its ids, and may come in any: the distinct ones are sorted, as those of files
    and databases are; ids that cannot be compared stand as they first appear. A null id has position -1.
    """
    try:
        positions, distinct = _sorted(*_encode(ids))
        return positions, Vocabulary(distinct).of_kind(kind_of(ids))
    except TypeError as error:
        msg = f"{what} cannot be used: {error}; use integers, strings, dates or tuples of these."
        raise DataError(msg) from error


def _encode(ids: Ids) -> tuple[Positions, Ids]:
    if isinstance(getattr(ids, "dtype", None), pd.CategoricalDtype):
        # Counting over the small codes spares a hash of every repeated string.
        categorical: Any = ids.array if isinstance(ids, pd.Series) else ids
        positions, used = _tabulate(categorical.codes, low=-1, high=len(categorical.categories) - 1, null=-1)
        return positions, as_index(categorical.categories)[used]
    ids = plain_values(ids) if is_foreign_column(ids) else ids
    if isinstance(ids, pd.Series | pd.Index) and isinstance(ids.dtype, np.dtype) and ids.dtype.kind in "iu":
        ids = ids.to_numpy()
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < max(len(ids) // 2, _SMALL_SPAN) and high <= np.iinfo(np.int64).max:
            return _tabulate(ids, low=low, high=high)
    # Objects are made an index only once they are distinct: pandas looks at each string to find its type.
    whole = ids if isinstance(ids, np.ndarray) else as_index(ids)
    codes, distinct = _factorize(whole)
    # To Python True is 1, so that only the ids as they came can tell them apart; text is spared the look.
    both = {"numbers", "True or False"}
    if whole.dtype == object and both & set(id_kinds(as_index(distinct))) and both <= set(id_kinds(whole)):
        msg = "there are numbers and True or False among them, and to Python True is 1"
        raise TypeError(msg)
    return codes, distinct


def _sorted(positions: Positions, distinct: Ids) -> tuple[Positions, Ids]:
    """Return the same with distinct ids in order, as far as they can be compared."""
    index = as_index(distinct)
    try:
        order = index.argsort()
    except TypeError:  # text and numbers, say, which are refused later, in words
        return positions, distinct
    if np.array_equal(order, np.arange(len(order))):
        return positions, distinct
    rank = np.empty(len(order) + 1, dtype=np.int32)
    rank[order], rank[-1] = np.arange(len(order), dtype=np.int32), -1  # -1, a null, reads the last
    if isinstance(positions, Coded):
        return Coded(positions.source, rank[positions.table], positions.low), index[order]
    codes = positions[:]
    for part in parts(len(codes)):
        codes[part] = rank[codes[part]]
    return codes, index[order]


def _tabulate(
    numbers: npt.NDArray[Any], *, low: int, high: int, null: int | None = None
) -> tuple[Positions, npt.NDArray[np.int64]]:
    """Return numbers within low..high as positions among the distinct ones, and those; `null` has position -1.

    The numbers stay where they are: all that is added is a table of the range.
    """
    unseen = -2
    table = np.full(high - low + 1, unseen, dtype=np.int32)
    if null is not None:
        table[null - low] = -1
    distinct, count = [np.empty(0, dtype=np.int64)], 0
    for part in parts(len(numbers)):
        at = numbers[part].astype(np.int64) - low
        new = pd.unique(at[table[at] == unseen])
        table[new] = np.arange(count, count + len(new))
        distinct.append(new + low)
        count += len(new)
    table[table == unseen] = 0  # nothing points there, and a negative position would read as null
    return Coded(numbers, table, low), np.concatenate(distinct)


def _factorize(ids: npt.NDArray[Any] | pd.Index[Any]) -> tuple[npt.NDArray[Any], Ids]:
    """Do as `pandas.factorize`, whose codes take 8 bytes each, a part at a time and into the smallest type."""
    codes = np.empty(len(ids), dtype=np.int32)
    known: Any = pd.factorize(ids[:0])[1]
    for part in parts(len(ids), count=8):  # few: what is known is hashed anew with every part
        code, new = pd.factorize(ids[part])
        both = np.concatenate([known, new]) if isinstance(known, np.ndarray) else known.append(new)
        place, united_ids = pd.factorize(both)
        codes[part] = np.append(place[len(known) :], -1)[code]  # -1, a null, reads the last
        known = united_ids
    return codes.astype(np.int16 if len(known) < 2**15 else np.int32, copy=False), known


def is_id_list(ids: object) -> bool:
    """Whether this can be a list of ids: one column, and not a single word."""
    table = getattr(ids, "ndim", 1) != 1 or hasattr(ids, "columns")
    return hasattr(ids, "__iter__") and not (table or isinstance(ids, str | bytes))


def id_faults(index: pd.Index[Any], what: str) -> list[str]:
    """Return what keeps an index from being a vocabulary: null ids, repeated ids, things that are no ids."""
    try:
        hash(tuple(index)) if index.dtype == object else None
    except TypeError as error:
        return [f"{what} cannot be used: {error}; use integers, strings, dates or tuples of these."]
    faults: list[str] = []
    if index.hasnans:
        null = np.flatnonzero(index.isna())
        faults.append(f"{what}: a null id at position {null[0]}{and_more(len(null) - 1)}; give every entity an id.")
    again = index[:0] if index.is_unique else index[index.duplicated()].dropna().unique()
    if len(again):
        faults.append(
            f"{what}: the id {show_id(again[0])} comes more than once{and_more(len(again) - 1)};"
            " make the ids distinct, or merge what belongs to one id."
        )
    return faults


def id_kinds(ids: npt.NDArray[Any] | pd.Index[Any]) -> dict[str, object]:
    """Return the kinds of ids there are, "numbers", "text" and so on, and the first id of each.

    Ids of different kinds never match, however alike they look: '1' is not 1.
    """
    if not len(ids):
        return {}
    inferred = pd.api.types.infer_dtype(ids, skipna=True)
    if inferred in _KINDS:
        return {_KINDS[inferred]: ids[0]}
    types: dict[type, object] = {}
    for item in ids:
        types.setdefault(type(item), item)
    kinds: dict[str, object] = {}
    for item in types.values():
        kind = _KINDS.get(pd.api.types.infer_dtype([item], skipna=True), f"{type(item).__name__}s")
        if kind:
            kinds.setdefault(kind, item)
    return kinds


def show_id(item: object) -> str:
    """Return an id as a person would write it: 7 and not np.int64(7)."""
    return repr(item.item()) if isinstance(item, np.generic) else repr(item)


def and_more(count: int) -> str:
    """Return " (and 12 more)", or "" for none."""
    return f" (and {count:,} more)" if count > 0 else ""
