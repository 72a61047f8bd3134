"""Tables into a PostgreSQL server: all of them in one transaction, so that others see the old rows or the new ones."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gcmf.errors import StorageError
from gcmf.io.sources.duck import literal, quote
from gcmf.io.sources.postgres import connect_postgres, postgres_errors, qualified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

_COLUMNS = """
    SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass({name}) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a PostgreSQL server, to be written."""

    address: str
    table: str
    force: bool = False
    """Whether its rows are replaced, if it is there."""

    def __str__(self) -> str:
        return f"table {self.table} of {self.address}"

    def check(self) -> None:
        """Refuse a table that is there and shall not be replaced, before anybody waits for its rows."""
        with _transaction(self.address) as cursor:
            _columns(cursor, self)


def write_rows(tables: Sequence[tuple[Iterable[pd.DataFrame], DatabaseTable]]) -> int:
    """Write tables of one server, each from frames one after the other, and return the number of rows.

    A table that is there keeps its columns, keys and grants: its rows are deleted, and the new ones put in their place.
    A column that only the table has takes its default. Nobody sees any of it before the last row is there.
    """
    rows = 0
    with _transaction(tables[0][1].address) as cursor:
        for number, (parts, target) in enumerate(tables):
            staged = f"gcmf_staged_{number}"
            names, count = _stage(cursor, parts, staged)
            _fill(cursor, target, staged, names)
            rows += count
        cursor.connection.commit()
    return rows


@contextmanager
def _transaction(address: str) -> Iterator[Any]:
    """Yield a cursor; what is not committed when the block ends is undone."""
    with (
        closing(connect_postgres(address, label=address)) as connection,
        closing(connection.cursor()) as cursor,
        postgres_errors(address, "written to", StorageError),
    ):
        yield cursor


def _stage(cursor: Any, parts: Iterable[pd.DataFrame], staged: str) -> tuple[list[str], int]:  # noqa: ANN401 - ADBC's
    """Bring frames to a table that only this transaction has; return its columns, and the number of rows."""
    import pyarrow as pa

    schema, rows = None, 0
    for frame in parts:
        table = pa.Table.from_pandas(frame, schema, preserve_index=False)
        mode = "create" if schema is None else "append"
        cursor.adbc_ingest(staged, table, mode=mode, temporary=True)
        schema, rows = table.schema, rows + len(frame)
    assert schema is not None
    return list(schema.names), rows


def _fill(cursor: Any, target: DatabaseTable, staged: str, names: list[str]) -> None:  # noqa: ANN401 - ADBC's
    """Put the rows that are staged into the place of those that are there; make the table, if there is none."""
    name, columns = qualified(target.table), _columns(cursor, target)
    if not columns:
        cursor.execute(f"CREATE TABLE {name} AS SELECT * FROM {staged}")
        return
    missing = [column for column in names if column not in columns]
    if missing:
        msg = (
            f"The {target} has no column {', '.join(missing)}; it has {', '.join(columns)}. Add what is missing, or"
            " give another table."
        )
        raise StorageError(msg)
    # Two jobs must not both delete the old rows and then both add theirs; who only reads is not kept waiting.
    cursor.execute(f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE")
    cursor.execute(f"DELETE FROM {name}")
    listed = ", ".join(map(quote, names))
    cast = ", ".join(f"CAST({quote(column)} AS {columns[column]})" for column in names)
    cursor.execute(f"INSERT INTO {name} ({listed}) SELECT {cast} FROM {staged}")


def _columns(cursor: Any, target: DatabaseTable) -> dict[str, str]:  # noqa: ANN401 - ADBC's
    """Names and types of the columns of a table; none if it is not there, an error if it must not be replaced."""
    cursor.execute(_COLUMNS.format(name=literal(qualified(target.table))))
    found: dict[str, str] = dict(cursor.fetchall())
    if found and not target.force:
        msg = f"The {target} is there already. Give --force to replace its rows, or another name."
        raise StorageError(msg)
    return found
