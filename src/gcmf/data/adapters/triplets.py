"""Triplets: row ids, column ids and values, one of each per observed cell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.stable.v1 import dependencies

from gcmf.data.block import Block, Request, Source, as_numbers, fill_blanks
from gcmf.data.vocabulary import encode
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

_PARTS = ("row_ids", "col_ids", "values")


def read_triplets(data: tuple[Source, ...], request: Request) -> Block:
    """Read a tuple `(row_ids, col_ids, values)`; every cell listed counts as observed.

    The others are missing, or with `blanks="zero"` they are zeros.
    """
    refuse_ids(request, "triplets")
    if len(data) != 3:
        msg = (
            f"relation {request.name!r}: a tuple of {len(data)} parts is not (row_ids, col_ids, values);"
            " give exactly these three, of one length."
        )
        raise DataError(msg)
    row, col, x = (_column(part, what, request) for part, what in zip(data, _PARTS, strict=True))
    lengths = len(row), len(col), len(x)
    if len(set(lengths)) > 1:
        msg = (
            f"relation {request.name!r}: the triplets have {lengths[0]} row ids, {lengths[1]} column ids and"
            f" {lengths[2]} values; each observed cell needs one of each."
        )
        raise DataError(msg)
    x = as_numbers(x, what=f"relation {request.name!r}: the values")
    block = triplet_block(row, col, x, request=request)
    block = fill_blanks(block) if request.filled else block
    return replace(block, frame="polars") if any(map(dependencies.is_polars_series, data)) else block


def refuse_ids(request: Request, what: str) -> None:
    """Refuse `row_ids=` and `col_ids=` for data that brings its own."""
    if request.row_ids is not None or request.col_ids is not None:
        msg = (
            f"relation {request.name!r}: row_ids= and col_ids= name the rows and columns of arrays and sparse matrices;"
            f" {what} has ids of its own. Leave them out."
        )
        raise DataError(msg)


def triplet_block(row: Source, col: Source, x: npt.NDArray[Any], *, request: Request) -> Block:
    """Return cells given by ids as a block."""
    i, row_ids = encode(row, what=f"relation {request.name!r}: the row ids")
    j, col_ids = encode(col, what=f"relation {request.name!r}: the column ids")
    return Block(row_ids, col_ids, i, j, x, bounded=False)


def _column(part: Source, what: str, request: Request) -> Source:
    if np.ndim(part) != 1 and not isinstance(part, list | tuple):
        msg = f"relation {request.name!r}: {what} has {np.ndim(part)} dimensions; it must be one column."
        raise DataError(msg)
    return part
