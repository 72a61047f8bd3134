"""Columns of ids: read as numbers of a sorted dictionary, and what may be wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.positions import parts
from gcmf.data.vocabulary import Vocabulary, and_more
from gcmf.io.sql import INTEGERS, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gcmf.io.tables import Table


def id_sql(table: Table, column: str) -> str:
    """Return a column of ids in SQL: whole numbers stay numbers, everything else is text."""
    cast = "BIGINT" if INTEGERS.match(table.columns[column]) else "VARCHAR"
    return f"CAST({quote(column)} AS {cast})"


def null_id_fault(table: Table, column: str) -> Iterator[str]:
    """Yield the fault of ids that are null."""
    found = table.first(f"{quote(column)} IS NULL", column)
    if found:
        kept = repr(f"{column if column.isidentifier() else quote(column)} IS NOT NULL")
        yield (
            f"{table.label}, column {column!r}, row {found[0]}: the id is null{and_more(found[2] - 1)}, which empty,"
            f" NA, N/A and null stand for; drop such rows, for example with where = {kept}, or give them an id."
        )


def repeated_id_fault(table: Table, column: str) -> Iterator[str]:
    """Yield the fault of an id that has two lines."""
    name = quote(column)
    found = table.first(f"{name} IN (SELECT {name} FROM {table.filtered} GROUP BY 1 HAVING count(*) > 1)", column)
    if found:
        yield (
            f"{table.label}, column {column!r}, row {found[0]}: the id {found[1]!r} comes more than once; an entity may"
            " have one line only."
        )


class Codes:
    """Ids of many batches as int32 numbers of one dictionary, sorted: the order in which rows come says nothing."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, column: Any) -> None:  # noqa: ANN401 - Arrow's
        """Take a batch of ids."""
        self._parts.append(column.dictionary_encode())

    def finish(self) -> tuple[npt.NDArray[np.int32], Vocabulary]:
        """Return the number of every id, -1 where it is null, and the distinct ids."""
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import compute  # noqa: PLC0415

        if not self._parts:
            return np.empty(0, np.int32), Vocabulary(np.empty(0, np.int64))
        whole = pa.chunked_array(self._parts).unify_dictionaries()
        self._parts.clear()
        codes = np.concatenate([part.indices.fill_null(-1).to_numpy(zero_copy_only=False) for part in whole.chunks])
        distinct = whole.chunk(0).dictionary
        del whole
        order = compute.array_sort_indices(distinct)
        rank = np.empty(len(distinct) + 1, np.int32)
        rank[order.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
        rank[-1] = -1  # where -1, a null, looks
        codes = codes.astype(np.int32, copy=False)
        for part in parts(len(codes)):
            codes[part] = rank[codes[part]]
        ids = distinct.take(order).to_numpy(zero_copy_only=False)
        del distinct
        pa.default_memory_pool().release_unused()  # Arrow keeps what it frees, and the collection needs the room
        return codes, Vocabulary(ids)
