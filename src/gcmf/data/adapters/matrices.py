"""Sparse matrices and arrays of scipy: ids are positions unless they are given, and blanks must be explained."""

from __future__ import annotations

import numpy as np

from gcmf.data.adapters.arrays import check_two_dimensional, vocabularies
from gcmf.data.block import Block, Request, Source, as_numbers, fill_blanks
from gcmf.data.positions import Positions, Runs
from gcmf.errors import DataError

_PADDED = ("bsr", "dia")


def read_matrix(data: Source, request: Request) -> Block:
    """Read a sparse matrix without making it dense.

    With `blanks="missing"` the stored entries are the observed cells, stored zeros among them. With
    `blanks="zero"` every cell is observed, and only the nonzero ones are listed.
    """
    check_two_dimensional(data, request)
    if max(data.shape) > np.iinfo(np.int32).max:
        msg = f"relation {request.name!r}: {max(data.shape):,} entities on one side are too many."
        raise DataError(msg)
    if request.blanks is None:
        raise DataError(explain_blanks(request, "a scipy.sparse matrix"))
    if request.blanks == "missing" and data.format in _PADDED:
        msg = (
            f"relation {request.name!r}: a {data.format} matrix stores zeros as padding, so its observed"
            " zeros cannot be told from missing cells; give it as csr, csc or coo with the padding removed."
        )
        raise DataError(msg)
    i, j, x = _stored(data)
    x = as_numbers(x, what=f"relation {request.name!r}: the values")
    row_ids, col_ids, faults = vocabularies(request, data.shape)
    if faults:
        none = np.empty(0, dtype=np.int32)
        return Block(row_ids, col_ids, none, none, np.empty(0), faults=faults)
    block = Block(row_ids, col_ids, i, j, x)
    return fill_blanks(block) if request.filled else block


def _stored(data: Source) -> tuple[Positions, Positions, Source]:
    """Return the stored entries of a matrix, where it holds them if it can be."""
    if data.format in ("csr", "csc"):
        runs, partner = Runs(data.indptr), data.indices[: data.nnz]
        i, j = (runs, partner) if data.format == "csr" else (partner, runs)
        return i, j, data.data[: data.nnz]
    cells = data.tocoo(copy=False)
    return cells.row, cells.col, cells.data


def explain_blanks(request: Request, what: str) -> str:
    """Say what the two choices are to who has made none, or another one."""
    given = "" if request.blanks is None else f" blanks={request.blanks!r} is neither of the two choices."
    return (
        f"relation {request.name!r}: {what} must say what its blanks are.{given}"
        ' Give blanks="missing" if a blank cell was never observed, as in ratings.'
        ' Give blanks="zero" if a blank cell is an observed zero, as in word counts.'
    )
