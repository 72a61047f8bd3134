"""Data that lists its cells by id: triplets, and long data frames with a line per cell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.stable.v1 import dependencies

from gcmf.data.adapters.wide import frame_kind, number_values, open_frame
from gcmf.data.positions import parts
from gcmf.data.raw import RawCells
from gcmf.data.schema import Columns
from gcmf.data.vocabulary import encode
from gcmf.errors import DataError, did_you_mean

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.raw import Request, Source


def read_triplets(data: tuple[Source, ...], request: Request) -> RawCells:
    """Read a tuple `(row_ids, col_ids, values)`; every cell listed counts as observed.

    The others are missing, or with `blanks="zero"` they are zeros.
    """
    request.refuse_ids("triplets")
    if len(data) != 3:
        request.refuse(
            f"a tuple of {len(data)} parts is not (row_ids, col_ids, values); give exactly these three, of one length."
        )
    for column, what in zip(data, ("row_ids", "col_ids", "values"), strict=True):
        if np.ndim(column) != 1 and not isinstance(column, list | tuple):
            request.refuse(f"{what} has {np.ndim(column)} dimensions; it must be one column.")
    row, col, x = data
    if not len(row) == len(col) == len(x):
        request.refuse(
            f"the triplets have {len(row)} row ids, {len(col)} column ids and {len(x)} values; each observed cell"
            " needs one of each."
        )
    cells = _encoded(row, col, request.as_numbers(x), request=request)
    cells = replace(cells, weight=request.weights(len(x)))
    cells = cells.fill_blanks() if request.filled else cells
    return replace(cells, frame="polars") if any(map(dependencies.is_polars_series, data)) else cells


def read_long(  # noqa: PLR0913 - the columns of a listing
    frame: Source, request: Request, *, row: str, col: str, value: str | None, weight: str | None = None
) -> RawCells:
    """Read a long frame; without a value column every line is a 1, without one of weights each counts once.

    Null or NaN in the value column is a missing cell, whose ids still count; where blanks are zeros no cell can be
    missing, and it is left for the checks to refuse.
    """
    opened = open_frame(frame)
    shown = ", ".join(map(repr, opened.columns[:20])) + (", ..." if len(opened.columns) > 20 else "")
    faults = [
        f"relation {request.name!r}: {option}={name!r} is not a column of the frame, which has {shown}."
        f"{did_you_mean(name, map(str, opened.columns))}"
        for option, name in (("row", row), ("col", col), ("value", value), ("weight", weight))
        if name is not None and name not in opened.columns
    ]
    if faults:
        raise DataError(faults)
    x = np.ones(len(opened), dtype=np.uint8) if value is None else number_values(opened[value], request)
    cells = _encoded(nw.to_native(opened[row]), nw.to_native(opened[col]), x, request=request)
    if weight is not None:
        request = replace(request, weight=number_values(opened[weight], request))
    columns = Columns(row, col, value, weight)
    cells = replace(cells, frame=frame_kind(opened), weight=request.weights(len(x)), columns=columns)
    if request.filled:
        return cells.fill_blanks()
    if not any(np.isnan(x[part]).any() for part in parts(len(x))):
        return cells
    # A null id is a fault even where the value is missing too, so those lines stay for the checks to see.
    kept = ~np.isnan(x) | (cells.i[:] < 0) | (cells.j[:] < 0)
    kept_weight = None if cells.weight is None else cells.weight[kept]
    return replace(cells, i=cells.i[kept], j=cells.j[kept], x=x[kept], weight=kept_weight)


def _encoded(row: Source, col: Source, x: npt.NDArray[Any], *, request: Request) -> RawCells:
    i, row_ids = encode(row, what=f"relation {request.name!r}: the row ids")
    j, col_ids = encode(col, what=f"relation {request.name!r}: the column ids")
    return RawCells(row_ids, col_ids, i, j, x, bounded=False)
