"""Frames of any kind, and their columns as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from narwhals.stable.v1 import dependencies

from gcmf.data.block import Source, as_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

Frame = nw.DataFrame[Any]
Column = nw.Series[Any]


def open_frame(frame: Source) -> Frame:
    """Return any data frame behind the one interface; a lazy one is collected."""
    opened = nw.from_native(frame)
    return opened.collect() if isinstance(opened, nw.LazyFrame) else opened


def frame_kind(frame: Frame) -> str:
    """Return "polars" for a frame of polars, and "pandas" for any other: the kind that answers have."""
    return "polars" if dependencies.is_polars_dataframe(nw.to_native(frame)) else "pandas"


def number_values(column: Column, *, what: str) -> npt.NDArray[Any]:
    """Return a column of numbers as an array, with NaN for null."""
    native = nw.to_native(column)
    if isinstance(native, pd.Series):
        return _pandas_numbers(native, what=what)
    if not column.is_null().any():
        return as_numbers(column.to_numpy(), what=what)
    return as_numbers(np.array(column.to_list(), dtype=object), what=what)


def _pandas_numbers(native: pd.Series[Any], *, what: str) -> npt.NDArray[Any]:
    if isinstance(native.dtype, np.dtype):
        return as_numbers(native.to_numpy(), what=what)
    plain = isinstance(native.dtype, pd.CategoricalDtype) or not pd.api.types.is_numeric_dtype(native.dtype)
    if plain or pd.api.types.is_bool_dtype(native.dtype):
        return as_numbers(native.to_numpy(dtype=object), what=what)
    return native.to_numpy(dtype=np.float64, na_value=np.nan)
