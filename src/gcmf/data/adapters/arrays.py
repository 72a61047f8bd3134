"""Bare NumPy arrays and masked arrays: ids are positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.block import Block, Request, Source, as_numbers
from gcmf.data.positions import Cycle, Runs
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt


def read_array(data: npt.NDArray[Any], request: Request) -> Block:
    """Read a 2-D array; NaN is a missing cell."""
    check_two_dimensional(data, request)
    x = as_numbers(data, what=f"relation {request.name!r}: the values")
    observed = ~np.isnan(x) if x.dtype.kind == "f" else np.ones(x.shape, dtype=np.bool_)
    return dense_block(x, observed, row_ids=Vocabulary.positions(x.shape[0]), col_ids=Vocabulary.positions(x.shape[1]))


def read_masked(data: np.ma.MaskedArray[Any, Any], request: Request) -> Block:
    """Read a 2-D masked array; a masked cell is missing, and NaN in any other is a fault."""
    check_two_dimensional(data, request)
    x = as_numbers(np.ma.getdata(data), what=f"relation {request.name!r}: the values")
    return dense_block(
        x,
        ~np.ma.getmaskarray(data),
        row_ids=Vocabulary.positions(x.shape[0]),
        col_ids=Vocabulary.positions(x.shape[1]),
    )


def dense_block(
    x: npt.NDArray[Any], observed: npt.NDArray[np.bool_], *, row_ids: Vocabulary, col_ids: Vocabulary
) -> Block:
    """Return the observed cells of a 2-D array as a block, in row-major order."""
    height, width = x.shape
    if observed.all():
        rows, cols = Runs(np.arange(height + 1) * width), Cycle(width, x.size)
        return Block(row_ids, col_ids, rows, cols, x.reshape(-1))
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(observed, axis=1))])
    j = np.broadcast_to(np.arange(width, dtype=np.int32), x.shape)[observed]
    return Block(row_ids, col_ids, Runs(ends), j, x[observed])


def check_two_dimensional(data: Source, request: Request) -> None:
    """Refuse data that is not a matrix."""
    if data.ndim != 2:
        msg = (
            f"relation {request.name!r}: the data has {data.ndim} dimensions, shape {tuple(data.shape)}, and"
            f" a relation needs 2, for {request.rows} and {request.cols}. Reshape it, or give one relation"
            " per slice."
        )
        raise DataError(msg)
