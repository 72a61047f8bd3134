"""NumPy arrays and masked arrays: ids are positions, unless they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.block import Block, Request, Source, as_numbers
from gcmf.data.id_kind import kind_of
from gcmf.data.positions import Cycle, Runs
from gcmf.data.vocabulary import Vocabulary, as_index, id_faults, is_id_list
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt


def read_array(data: npt.NDArray[Any], request: Request) -> Block:
    """Read a 2-D array; NaN is a missing cell."""
    check_two_dimensional(data, request)
    refuse_blanks(request, "an array", "NaN")
    x = as_numbers(data, what=f"relation {request.name!r}: the values")
    return labeled_block(x, observed_cells(x), request)


def read_masked(data: np.ma.MaskedArray[Any, Any], request: Request) -> Block:
    """Read a 2-D masked array; a masked cell is missing, and NaN in any other is a fault."""
    check_two_dimensional(data, request)
    refuse_blanks(request, "a masked array", "masked")
    x = as_numbers(np.ma.getdata(data), what=f"relation {request.name!r}: the values")
    return labeled_block(x, ~np.ma.getmaskarray(data), request)


def labeled_block(x: npt.NDArray[Any], observed: npt.NDArray[np.bool_], request: Request) -> Block:
    """Return the observed cells of a 2-D array, under the ids that were given or else under positions."""
    row_ids, col_ids, faults = vocabularies(request, x.shape)
    if faults:
        # There is no telling which line is whose, so no cell is kept: the faults are all that matters.
        none = np.empty(0, dtype=np.int32)
        return Block(row_ids, col_ids, none, none, np.empty(0), faults=faults)
    return dense_block(x, observed, row_ids=row_ids, col_ids=col_ids)


def vocabularies(request: Request, shape: tuple[int, int]) -> tuple[Vocabulary, Vocabulary, tuple[str, ...]]:
    """Return the ids of rows and columns, given or else positions, and what is wrong with them.

    Raises
    ------
    DataError
        When there are not as many ids as rows or columns, or when they are no list of ids.
    """
    made: list[Vocabulary] = []
    faults: list[str] = []
    for option, ids, size in (("row_ids", request.row_ids, shape[0]), ("col_ids", request.col_ids, shape[1])):
        side = "row" if option == "row_ids" else "column"
        if ids is None:
            made.append(Vocabulary.positions(size))
            continue
        if not is_id_list(ids):
            msg = f"relation {request.name!r}: {option}= must be a list of ids, one per {side}. Got {ids!r}."
            raise DataError(msg)
        index = as_index(ids)
        if len(index) != size:
            msg = f"relation {request.name!r}: {option}= has {len(index)} ids, and the data has {size} {side}s."
            raise DataError(msg)
        wrong = id_faults(index, f"relation {request.name!r}, {side} ids")
        made.append(Vocabulary.positions(size) if wrong else Vocabulary(index).of_kind(kind_of(ids)))
        faults += wrong
    return made[0], made[1], tuple(faults)


def refuse_blanks(request: Request, what: str, missing: str) -> None:
    """Refuse `blanks=` for data that has no blanks."""
    if request.blanks is not None:
        msg = (
            f"relation {request.name!r}: blanks={request.blanks!r} is for data that lists its cells, sparse matrices,"
            f" triplets and long tables; {what} has a value for every cell, and a missing one is {missing}. Leave"
            " blanks= out."
        )
        raise DataError(msg)


def observed_cells(x: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which cells of an array are not NaN."""
    return ~np.isnan(x) if x.dtype.kind == "f" else np.ones(x.shape, dtype=np.bool_)


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
