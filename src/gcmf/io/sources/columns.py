"""Columns of ids, as numbers of a sorted dictionary, and of values, as SQL; and what may be wrong with either."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.positions import parts
from gcmf.data.vocabulary import Vocabulary, and_more
from gcmf.errors import DataError
from gcmf.io.sources.duck import INTEGERS, NUMBERS, as_number, present, quote
from gcmf.io.sources.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from gcmf.io.sources.specs import EntitySpec
    from gcmf.io.sources.tables import Table


class IdColumn:
    """Ids of many batches as int32 numbers of one dictionary, sorted: the order in which rows come says nothing."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, column: Any) -> None:  # noqa: ANN401 - Arrow's
        """Take a batch of ids."""
        self._parts.append(column.dictionary_encode())

    def finish(self) -> tuple[npt.NDArray[np.int32], Vocabulary]:
        """Return the number of every id, -1 where it is null, and the distinct ids."""
        import pyarrow as pa
        from pyarrow import compute

        if not self._parts:
            return np.empty(0, np.int32), Vocabulary(np.empty(0, np.int64))
        whole = pa.chunked_array(self._parts).unify_dictionaries()
        self._parts.clear()
        numbers = np.concatenate([part.indices.fill_null(-1).to_numpy(zero_copy_only=False) for part in whole.chunks])
        distinct = whole.chunk(0).dictionary
        del whole
        order = compute.array_sort_indices(distinct)
        rank = np.empty(len(distinct) + 1, np.int32)
        rank[order.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
        rank[-1] = -1  # where -1, a null, looks
        numbers = numbers.astype(np.int32, copy=False)
        for part in parts(len(numbers)):
            numbers[part] = rank[numbers[part]]
        ids = distinct.take(order).to_numpy(zero_copy_only=False)
        del distinct
        pa.default_memory_pool().release_unused()  # Arrow keeps what it frees, and the collection needs the room
        return numbers, Vocabulary(ids)


def read_ids(spec: EntitySpec, folder: Path) -> Vocabulary:
    """Return the ids that a section declares."""
    table = open_table(spec, folder)
    table.check_columns([spec.id], where=f"entities {spec.name!r}")
    column = IdColumn()
    for batch in table.batches(id_sql(table, spec.id)):
        column.add(batch.column(0))
    numbers, ids = column.finish()
    faults = list(null_id_fault(table, spec.id, numbers))
    if faults:
        raise DataError(faults)
    return ids


def id_sql(table: Table, column: str) -> str:
    """Return a column of ids in SQL: whole numbers stay numbers, everything else is text."""
    cast = "BIGINT" if INTEGERS.match(table.columns[column]) else "VARCHAR"
    return f"CAST({quote(column)} AS {cast})"


def number_sql(table: Table, column: str, *, where: str) -> str:
    """Return a column of numbers in SQL, null where it holds none."""
    kind = table.columns[column]
    if not (NUMBERS.match(kind) or kind in ("BOOLEAN", "VARCHAR")):
        msg = f"{where}: the column {column!r} of {table.label} holds {kind.lower()}, not numbers; choose another."
        raise DataError(msg)
    return as_number(column) if kind == "VARCHAR" else f"CAST({quote(column)} AS DOUBLE)"


def null_id_fault(table: Table, column: str, numbers: npt.NDArray[np.int32]) -> Iterator[str]:
    """Yield the fault of ids that are null; only if there are any is the source asked where."""
    null = table.first(f"{quote(column)} IS NULL", column) if len(numbers) and numbers.min() < 0 else None
    if null:
        kept = repr(f"{column if column.isidentifier() else quote(column)} IS NOT NULL")
        yield (
            f"{table.label}, column {column!r}, row {null[0]}: the id is null{and_more(null[2] - 1)}, which empty,"
            f" NA, N/A and null stand for; drop such rows, for example with where = {kept}, or give them an id."
        )


def repeated_id_fault(table: Table, column: str) -> Iterator[str]:
    """Yield the fault of an id that has two lines."""
    name = quote(column)
    repeated = table.first(f"{name} IN (SELECT {name} FROM {table.filtered} GROUP BY 1 HAVING count(*) > 1)", column)
    if repeated:
        yield (
            f"{table.label}, column {column!r}, row {repeated[0]}: the id {repeated[1]!r} comes more than once; an"
            " entity may have one line only."
        )


def text_fault(table: Table, column: str) -> Iterator[str]:
    """Yield the fault of values that are no numbers."""
    if table.columns[column] != "VARCHAR":
        return
    text = table.first(f"({present(column)}) IS NOT NULL AND {as_number(column)} IS NULL", column)
    if text:
        comma = ' if its comma is a decimal sign or groups thousands, say decimal = "," or decimal = ".";' * (
            re.fullmatch(r"[\s\d.,+-]+", text[1]) is not None and "," in text[1]
        )
        yield (
            f"{table.label}, column {column!r}, row {text[0]}: {text[1]!r} is not a number{and_more(text[2] - 1)};"
            f"{comma} correct it, or leave it empty if it is missing."
        )
