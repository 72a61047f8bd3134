"""Wide data frames: a line per row entity, a column per column entity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from gcmf.data.adapters.arrays import dense_block
from gcmf.data.adapters.columns import frame_kind, number_values, open_frame
from gcmf.data.block import Block, Request, Source
from gcmf.data.id_kind import kind_of
from gcmf.data.vocabulary import Vocabulary, as_index, id_faults
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
    if isinstance(frame, pd.DataFrame):
        return _read_pandas(frame, request)
    opened = open_frame(frame)
    if not opened.columns:
        msg = f"relation {request.name!r}: the frame has no columns; give one per {request.cols}."
        raise DataError(msg)
    with_ids = _first_holds_ids(opened[opened.columns[0]], request)
    names = opened.columns[1:] if with_ids else opened.columns
    x = _stack([opened[name] for name in names], height=len(opened), request=request)
    rows = nw.to_native(opened[opened.columns[0]]) if with_ids else None
    return replace(_labeled(x, rows, names, request), frame=frame_kind(opened))


def _read_pandas(frame: pd.DataFrame, request: Request) -> Block:
    if any(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
        msg = (
            f"relation {request.name!r}: a pandas frame with sparse columns does not say what its blanks are;"
            ' give frame.sparse.to_coo() with blanks="missing" or blanks="zero".'
        )
        raise DataError(msg)
    if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes):
        x = frame.to_numpy()
        x = x.astype(np.float64) if x.dtype.kind == "O" else x  # numbers and booleans together
    else:
        columns = [nw.from_native(frame.iloc[:, k], series_only=True) for k in range(frame.shape[1])]
        x = _stack(columns, height=len(frame), request=request)
    return replace(_labeled(x, frame.index, frame.columns, request), frame="pandas")


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


def _labeled(x: npt.NDArray[Any], rows: object, cols: object, request: Request) -> Block:
    row_ids, row_faults = _vocabulary(rows, len(x), what=f"relation {request.name!r}, row ids")
    col_ids, col_faults = _vocabulary(cols, x.shape[1], what=f"relation {request.name!r}, column ids")
    observed = ~np.isnan(x) if x.dtype.kind == "f" else np.ones(x.shape, dtype=np.bool_)
    if row_faults or col_faults:
        # There is no telling which line is whose, so no cell is kept: the faults are all that matters.
        none = np.empty(0, dtype=np.int32)
        return Block(row_ids, col_ids, none, none, np.empty(0), faults=(*row_faults, *col_faults))
    return dense_block(x, observed, row_ids=row_ids, col_ids=col_ids)


def _vocabulary(ids: object, size: int, *, what: str) -> tuple[Vocabulary, list[str]]:
    if ids is None:
        return Vocabulary.positions(size), []
    index = as_index(ids)
    faults = id_faults(index, what)
    return Vocabulary(index.dropna().unique() if faults else index).of_kind(kind_of(ids)), faults


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
