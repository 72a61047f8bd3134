"""How ids were brought, so that answers carry them the same way: as categories, in levels, in a polars type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import pandas as pd
from narwhals.stable.v1 import dependencies as known

Ids = Any
"""Ids of any source: a list, an array, a column, an index."""

_NATURAL = {"Int64", "String", "Boolean", "Float64", "Date"}
"""The polars types that plain values become by themselves."""


@dataclass(frozen=True)
class IdKind:
    """What the ids of a set were, beyond their values."""

    name: str
    """"levels" (a pandas MultiIndex), "category" (pandas), or the name of a polars type, such as "Int32"."""
    levels: tuple[str | int | None, ...] = ()
    """The names of the levels."""
    categories: tuple[Any, ...] = ()
    """All categories, used or not, in order; of pandas, or of a polars Enum."""
    ordered: bool = False


def kind_of(ids: Ids) -> IdKind | None:
    """Return what ids were brought as; None where their values say it all."""
    if isinstance(ids, pd.MultiIndex):
        plain = tuple(name if name is None or isinstance(name, str | int) else str(name) for name in ids.names)
        return IdKind("levels", levels=plain)
    dtype: Any = getattr(ids, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        if isinstance(dtype.categories, pd.MultiIndex | pd.IntervalIndex):
            return None
        return IdKind("category", categories=tuple(dtype.categories.tolist()), ordered=bool(dtype.ordered))
    if not known.is_polars_series(ids):
        return None
    name = dtype.base_type().__name__
    if name == "Enum":
        return IdKind(name, categories=tuple(dtype.categories))
    return IdKind(name) if name == "Categorical" or (name not in _NATURAL and dtype.is_integer()) else None


def united(first: IdKind | None, second: IdKind | None) -> IdKind | None:
    """Return the kind of ids that two sources bring: what they have in common."""
    if first == second:
        return first
    if first is None or second is None or not first.name == second.name == "category":
        return None
    return IdKind("category", categories=tuple(dict.fromkeys((*first.categories, *second.categories))))


def plain_values(ids: Ids) -> Ids:
    """Return a column of polars, Arrow or another frame as an array that keeps each id as it is and each null null."""
    column: nw.Series[Any] = nw.from_native(ids, series_only=True)
    if column.dtype in (nw.Categorical, nw.Enum):
        column = column.cast(nw.String)
    if column.dtype != nw.Date and not column.is_null().any():
        return column.to_numpy()
    # In an array, integers with nulls would turn into floats and days into instants; objects stay whole.
    return pd.array(column.to_list(), dtype=object).to_numpy()


def is_foreign_column(ids: Ids) -> bool:
    """Whether ids are a column of some frame that is not of pandas."""
    return bool(known.is_into_series(ids)) and not isinstance(ids, pd.Series | pd.Index)
