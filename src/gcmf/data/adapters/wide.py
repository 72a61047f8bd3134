"""Wide data frames: a line per row entity, a column per column entity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from scipy import sparse

from gcmf.data.adapters.arrays import labeled_block, observed_cells, refuse_blanks
from gcmf.data.adapters.columns import frame_kind, number_values, open_frame
from gcmf.data.adapters.matrices import explain_blanks, read_matrix
from gcmf.data.adapters.triplets import refuse_ids
from gcmf.data.block import Block, Request, Source, as_numbers
from gcmf.data.vocabulary import show_id
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.adapters.columns import Column


def read_wide(frame: Source, request: Request) -> Block:
    """Read a wide frame; null or NaN is a missing cell, and column names are the column ids.

    A pandas frame has its row ids in its index. Other frames have no index, so their first column is
    looked at: it holds the row ids if it is named as the entity set of the rows, or if it is neither a
    number nor a boolean. Otherwise all columns are cells and the rows are positions 0..n-1, unless the
    first column is made of distinct integers: that could be either, and is refused.
    """
    refuse_ids(request, "a data frame")
    if isinstance(frame, pd.DataFrame):
        return _read_pandas(frame, request)
    refuse_blanks(request, "a wide table", "null")
    opened = open_frame(frame)
    if not opened.columns:
        msg = f"relation {request.name!r}: the frame has no columns; give one per {request.cols}."
        raise DataError(msg)
    with_ids = _first_holds_ids(opened[opened.columns[0]], request)
    names = opened.columns[1:] if with_ids else opened.columns
    x = _stack([opened[name] for name in names], height=len(opened), request=request)
    rows = nw.to_native(opened[opened.columns[0]]) if with_ids else None
    named = replace(request, row_ids=rows, col_ids=names)
    return replace(labeled_block(x, observed_cells(x), named), frame=frame_kind(opened))


def _read_pandas(frame: pd.DataFrame, request: Request) -> Block:
    named = replace(request, row_ids=frame.index, col_ids=frame.columns)
    if any(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
        return replace(_read_sparse(frame, named), frame="pandas")
    refuse_blanks(request, "a wide table", "NaN")
    if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes):
        x = frame.to_numpy()
        x = x.astype(np.float64) if x.dtype.kind == "O" else x  # numbers and booleans together
    else:
        columns = [nw.from_native(frame.iloc[:, k], series_only=True) for k in range(frame.shape[1])]
        x = _stack(columns, height=len(frame), request=request)
    return replace(labeled_block(x, observed_cells(x), named), frame="pandas")


def _read_sparse(frame: pd.DataFrame, request: Request) -> Block:
    """Read a frame of sparse columns, as the scipy matrix of what they store; stored NaN is a missing cell."""
    if request.blanks is None:
        raise DataError(explain_blanks(request, "a pandas frame with sparse columns"))
    columns: list[Any] = [frame.iloc[:, k].array for k in range(frame.shape[1])]
    for name, column in zip(frame.columns, columns, strict=True):
        is_sparse = isinstance(column.dtype, pd.SparseDtype)
        if not is_sparse or not (pd.isna(column.fill_value) or column.fill_value == 0):
            held = f"has blanks that stand for {column.fill_value!r}" if is_sparse else "is not sparse"
            msg = (
                f"relation {request.name!r}: column {show_id(name)} {held}; all columns of a sparse frame must be"
                " sparse, with blanks that stand for 0 or NaN."
            )
            raise DataError(msg)
    ends = np.concatenate([[0], np.cumsum([len(column.sp_values) for column in columns])])
    at = np.concatenate([np.empty(0, np.int32), *(column.sp_index.indices for column in columns)])
    x = as_numbers(
        np.concatenate([np.empty(0, np.uint8), *(column.sp_values for column in columns)]),
        what=f"relation {request.name!r}: the values",
    )
    stored = sparse.csc_array((x, at, ends), shape=frame.shape)
    if x.dtype.kind == "f" and np.isnan(x).any() and not request.filled:
        cells, known = stored.tocoo(), ~np.isnan(x)
        stored = sparse.coo_array((cells.data[known], (cells.row[known], cells.col[known])), shape=frame.shape)
    return read_matrix(stored, request)


def _stack(columns: list[Column], *, height: int, request: Request) -> npt.NDArray[Any]:
    faults: list[str] = []
    out = np.full((height, len(columns)), np.nan)
    for k, column in enumerate(columns):
        try:
            out[:, k] = number_values(column, what=f"relation {request.name!r}: the values in column {column.name!r}")
        except DataError as error:
            faults.extend(error.faults)
    if len(faults) > 5:
        faults = [*faults[:5], f"relation {request.name!r}: and {len(faults) - 5} more columns like these."]
    if faults:
        raise DataError(faults)
    return out


def _first_holds_ids(column: Column, request: Request) -> bool:
    if column.name == request.rows:
        return True
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        return True
    if column.dtype.is_integer() and len(column) > 1 and not column.is_null().any() and column.is_unique().all():
        msg = (
            f"relation {request.name!r}: the first column, {column.name!r}, holds distinct integers, which"
            f" may be row ids or cells. If they are ids, rename it to {request.rows!r}; if they are cells,"
            " put row ids into a first column of that name, or give frame.to_numpy()."
        )
        raise DataError(msg)
    return False
