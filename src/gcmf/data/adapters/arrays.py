"""Arrays, masked arrays and sparse matrices: ids are positions, unless they are given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.id_kind import kind_of
from gcmf.data.positions import Cycle, Runs
from gcmf.data.raw import RawCells, Request, Source
from gcmf.data.vocabulary import Vocabulary, as_index, id_faults, is_id_list

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.positions import Positions


def read_array(data: npt.NDArray[Any], request: Request) -> RawCells:
    """Read a 2-D array; NaN is a missing cell."""
    _check_two_dimensional(data, request)
    request.refuse_blanks("an array", "NaN")
    x = request.as_numbers(data)
    return labeled_cells(x, ~np.isnan(x), request)


def read_masked(data: np.ma.MaskedArray[Any, Any], request: Request) -> RawCells:
    """Read a 2-D masked array; a masked cell is missing, and NaN in any other is a fault."""
    _check_two_dimensional(data, request)
    request.refuse_blanks("a masked array", "masked")
    return labeled_cells(request.as_numbers(np.ma.getdata(data)), ~np.ma.getmaskarray(data), request)


def read_sparse(data: Source, request: Request) -> RawCells:
    """Read a sparse matrix without making it dense; what its blanks are must be said.

    With `blanks="missing"` the stored entries are the observed cells, stored zeros among them. With
    `blanks="zero"` every cell is observed, and only the nonzero ones are listed.
    """
    _check_two_dimensional(data, request)
    if max(data.shape) > np.iinfo(np.int32).max:
        request.refuse(f"{max(data.shape):,} entities on one side are too many.")
    if request.blanks is None:
        request.explain_blanks("a scipy.sparse matrix")
    if request.blanks == "missing" and data.format in ("bsr", "dia"):
        request.refuse(
            f"a {data.format} matrix stores zeros as padding, so its observed zeros cannot be told from missing"
            " cells; give it as csr, csc or coo with the padding removed."
        )
    i, j, x = _stored(data)
    row_ids, col_ids, faults = _vocabularies(request, data.shape)
    cells = RawCells(row_ids, col_ids, i, j, request.as_numbers(x), faults=faults)
    return cells.fill_blanks() if request.filled else cells


def labeled_cells(x: npt.NDArray[Any], observed: npt.NDArray[np.bool_], request: Request) -> RawCells:
    """Return the observed cells of a 2-D array, under the ids that were given or else under positions."""
    row_ids, col_ids, faults = _vocabularies(request, x.shape)
    return replace(dense_cells(x, observed, row_ids=row_ids, col_ids=col_ids), faults=faults)


def dense_cells(
    x: npt.NDArray[Any], observed: npt.NDArray[np.bool_], *, row_ids: Vocabulary, col_ids: Vocabulary
) -> RawCells:
    """Return the observed cells of a 2-D array, in row-major order."""
    height, width = x.shape
    if observed.all():
        return RawCells(row_ids, col_ids, Runs(np.arange(height + 1) * width), Cycle(width, x.size), x.reshape(-1))
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(observed, axis=1))])
    j = np.broadcast_to(np.arange(width, dtype=np.int32), x.shape)[observed]
    return RawCells(row_ids, col_ids, Runs(ends), j, x[observed])


def _check_two_dimensional(data: Source, request: Request) -> None:
    if data.ndim != 2:
        request.refuse(
            f"the data has {data.ndim} dimensions, shape {tuple(data.shape)}, and a relation needs 2, for"
            f" {request.rows} and {request.cols}. Reshape it, or give one relation per slice."
        )


def _stored(data: Source) -> tuple[Positions, Positions, Source]:
    """Return the stored entries of a matrix, where it holds them if it can be."""
    if data.format in ("csr", "csc"):
        runs, partner = Runs(data.indptr), data.indices[: data.nnz]
        i, j = (runs, partner) if data.format == "csr" else (partner, runs)
        return i, j, data.data[: data.nnz]
    cells = data.tocoo(copy=False)
    return cells.row, cells.col, cells.data


def _vocabularies(request: Request, shape: tuple[int, ...]) -> tuple[Vocabulary, Vocabulary, tuple[str, ...]]:
    """Return the ids of rows and columns, given or else positions, and what is wrong with them."""
    rows, row_faults = _vocabulary(request, request.row_ids, "row", "row_ids=", size=shape[0])
    cols, col_faults = _vocabulary(request, request.col_ids, "column", "col_ids=", size=shape[1])
    return rows, cols, (*row_faults, *col_faults)


def _vocabulary(request: Request, ids: Source, side: str, option: str, *, size: int) -> tuple[Vocabulary, list[str]]:
    if ids is None:
        return Vocabulary.positions(size), []
    if not is_id_list(ids):
        request.refuse(f"{option} must be a list of ids, one per {side}. Got {ids!r}.")
    index = as_index(ids)
    if len(index) != size:
        request.refuse(f"{option} has {len(index)} ids, and the data has {size} {side}s.")
    faults = id_faults(index, f"relation {request.name!r}, {side} ids")
    return Vocabulary.positions(size) if faults else Vocabulary(index).of_kind(kind_of(ids)), faults
