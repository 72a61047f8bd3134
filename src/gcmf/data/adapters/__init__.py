"""Readers of data, by kind of source, all registered here.

A reader takes the data and a `Request` and returns `RawCells`. To read a new kind of source, write one and
add a line to `READERS`; the first line that recognizes the data reads it. No reader imports an optional
package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.stable.v1 import dependencies as frames_known
from scipy import sparse

from gcmf.data.adapters.arrays import read_array, read_masked, read_sparse
from gcmf.data.adapters.listings import read_triplets
from gcmf.data.adapters.wide import read_wide
from gcmf.data.raw import BLANKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gcmf.data.raw import RawCells, Request

__all__ = ["READERS", "read"]

READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Request], RawCells]], ...] = (
    (lambda data: isinstance(data, np.ma.MaskedArray), read_masked),
    (lambda data: isinstance(data, np.ndarray), read_array),
    (lambda data: bool(sparse.issparse(data)), read_sparse),
    (lambda data: isinstance(data, tuple), read_triplets),
    (frames_known.is_into_dataframe, read_wide),
    (lambda data: hasattr(data, "collect") or hasattr(data, "to_arrow_table"), read_wide),
)


def read(data: object, request: Request) -> RawCells:
    """Return the cells of data of any source; refuse what nothing can read, or what has the wrong form."""
    if request.blanks not in (None, *BLANKS):
        request.explain_blanks("a relation")
    for knows, reader in READERS:
        if knows(data):
            if reader is not read_triplets:
                request.refuse_weight()
            return reader(data, request)
    request.refuse(
        f"cannot read {type(data).__name__} data; give a 2-D NumPy array, a numpy.ma array, a scipy.sparse matrix,"
        " a wide data frame, or a tuple (row_ids, col_ids, values)."
    )
