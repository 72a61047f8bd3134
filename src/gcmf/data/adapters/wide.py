"""Wide data frames: a line per row entity, a column per column entity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from narwhals.stable.v1 import dependencies
from scipy import sparse

from gcmf.data.adapters.arrays import labeled_cells, read_sparse
from gcmf.data.vocabulary import show_id
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.raw import RawCells, Request, Source


def read_wide(frame: Source, request: Request) -> RawCells:
    """Read a wide frame; null or NaN is a missing cell, and column names are the column ids.

    A pandas frame has its row ids in its index. Other frames have no index, so their first column is
    looked at: it holds the row ids if it is named as the entity set of the rows, or if it is neither a
    number nor a boolean. Otherwise all columns are cells and the rows are positions 0..n-1, unless the
    first column is made of distinct integers: that could be either, and is refused.
    """
    request.refuse_ids("a data frame")
    if isinstance(frame, pd.DataFrame):
        return replace(_read_pandas(frame, request), frame="pandas")
    request.refuse_blanks("a wide table", "null")
    opened = open_frame(frame)
    if not opened.columns:
        request.refuse(f"the frame has no columns; give one per {request.cols}.")
    first, names, ids = opened[opened.columns[0]], opened.columns, None
    if _holds_ids(first, request):
        names, ids = names[1:], nw.to_native(first)
    x = _stack([opened[name] for name in names], height=len(opened), request=request)
    cells = labeled_cells(x, ~np.isnan(x), replace(request, row_ids=ids, col_ids=names))
    return replace(cells, frame=frame_kind(opened))


def open_frame(frame: Source) -> nw.DataFrame[Any]:
    """Return any data frame behind the one interface; a lazy one is collected."""
    opened = nw.from_native(frame)
    return opened.collect() if isinstance(opened, nw.LazyFrame) else opened


def frame_kind(frame: nw.DataFrame[Any]) -> str:
    """Return "polars" for a frame of polars, and "pandas" for any other: the kind that answers have."""
    return "polars" if dependencies.is_polars_dataframe(nw.to_native(frame)) else "pandas"


def number_values(column: nw.Series[Any], request: Request) -> npt.NDArray[Any]:
    """Return a column of numbers as an array, with NaN for null."""
    native = nw.to_native(column)
    values: Any = native
    if not isinstance(native, pd.Series):
        values = np.array(column.to_list(), dtype=object) if column.is_null().any() else column.to_numpy()
    elif not isinstance(native.dtype, np.dtype):
        if pd.api.types.is_numeric_dtype(native.dtype) and not pd.api.types.is_bool_dtype(native.dtype):
            return native.to_numpy(dtype=np.float64, na_value=np.nan)
        values = native.to_numpy(dtype=object)
    return request.as_numbers(values, f"the values in column {column.name!r}")


def _read_pandas(frame: pd.DataFrame, request: Request) -> RawCells:
    named = replace(request, row_ids=frame.index, col_ids=frame.columns)
    if any(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
        return _read_sparse_columns(frame, named)
    request.refuse_blanks("a wide table", "NaN")
    if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes):
        x = frame.to_numpy()
        x = x.astype(np.float64) if x.dtype.kind == "O" else x  # numbers and booleans together
    else:
        columns = [nw.from_native(frame.iloc[:, k], series_only=True) for k in range(frame.shape[1])]
        x = _stack(columns, height=len(frame), request=request)
    return labeled_cells(x, ~np.isnan(x), named)


def _read_sparse_columns(frame: pd.DataFrame, request: Request) -> RawCells:
    """Read a frame of sparse columns, as the scipy matrix of what they store; stored NaN is a missing cell."""
    if request.blanks is None:
        request.explain_blanks("a pandas frame with sparse columns")
    columns: list[Any] = [frame.iloc[:, k].array for k in range(frame.shape[1])]
    for name, column in zip(frame.columns, columns, strict=True):
        is_sparse = isinstance(column.dtype, pd.SparseDtype)
        if not is_sparse or not (pd.isna(column.fill_value) or column.fill_value == 0):
            held = f"has blanks that stand for {column.fill_value!r}" if is_sparse else "is not sparse"
            request.refuse(
                f"column {show_id(name)} {held}; all columns of a sparse frame must be sparse, with blanks that stand"
                " for 0 or NaN."
            )
    ends = np.concatenate([[0], np.cumsum([len(column.sp_values) for column in columns])])
    at = np.concatenate([column.sp_index.indices for column in columns])
    x = request.as_numbers(np.concatenate([column.sp_values for column in columns]))
    stored = sparse.csc_array((x, at, ends), shape=frame.shape)
    if x.dtype.kind == "f" and np.isnan(x).any() and not request.filled:
        cells, known = stored.tocoo(), ~np.isnan(x)
        stored = sparse.coo_array((cells.data[known], (cells.row[known], cells.col[known])), shape=frame.shape)
    return read_sparse(stored, request)


def _stack(columns: list[nw.Series[Any]], *, height: int, request: Request) -> npt.NDArray[Any]:
    faults: list[str] = []
    out = np.full((height, len(columns)), np.nan)
    for k, column in enumerate(columns):
        try:
            out[:, k] = number_values(column, request)
        except DataError as error:
            faults.extend(error.faults)
    if len(faults) > 5:
        faults = [*faults[:5], f"relation {request.name!r}: and {len(faults) - 5} more columns like these."]
    if faults:
        raise DataError(faults)
    return out


def _holds_ids(column: nw.Series[Any], request: Request) -> bool:
    if column.name == request.rows or not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        return True
    if column.dtype.is_integer() and len(column) > 1 and not column.is_null().any() and column.is_unique().all():
        request.refuse(
            f"the first column, {column.name!r}, holds distinct integers, which may be row ids or cells. If they are"
            f" ids, rename it to {request.rows!r}; if they are cells, put row ids into a first column of that name,"
            " or give frame.to_numpy()."
        )
    return False
