"""PostgreSQL, read as it lies there: one read-only snapshot, rows in the server's order, a batch at a time.

The driver is ADBC's, which brings rows as Arrow batches by way of the server's binary COPY. Passwords come from where
libpq looks for them (PGPASSWORD, PGPASSFILE, a service file), and never stand in an address.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote_plus, urlsplit

from gcmf.errors import DataError, MissingExtraError, OptionError
from gcmf.io.sources.duck import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gcmf.errors import GcmfError
    from gcmf.io.sources.duck import Connection

NAME = "gcmf_source"
"""What DuckDB calls the rows."""
_ADDRESS = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_PLAIN = ("int2", "int4", "int8", "float4", "float8", "bool", "text", "varchar", "date", "timestamp")
"""Types that Arrow and DuckDB have too; all others are turned into one of them by the server."""
_MOST_DIGITS = 18
"""Of whole numbers that fit into 64 bits."""
_PATIENCE = {
    "connect_timeout": "30", "keepalives_idle": "60", "keepalives_interval": "10", "keepalives_count": "3",
    "fallback_application_name": "gcmf",
}  # fmt: skip
"""A job at night must not wait forever for a server that is gone. What the address says goes first."""
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_IN_ORDER = (
    "SELECT set_config('synchronize_seqscans', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)"
)
"""A table is read from its beginning, by one process: whoever reads it twice meets the same rows in the same order."""


def is_address(source: str) -> bool:
    """Whether a source is a PostgreSQL server, and no file."""
    return _ADDRESS.match(source) is not None


def check_address(source: str) -> str:
    """Return an address, if it has no password in it; one that has, or may have, is not repeated."""
    # A password may hold any sign, also one that ends this part of an address: all before the last @ counts.
    user = source.partition("://")[2].rpartition("@")[0]
    try:
        named = [name.lower() for name, _ in parse_qsl(urlsplit(source).query, keep_blank_values=True)]
    except ValueError as error:
        msg = "An address that begins with postgresql:// cannot be read; write postgresql://USER@HOST:PORT/DATABASE."
        raise DataError(msg) from error
    if ":" in user or "password" in named or "sslpassword" in named:
        msg = (
            "An address that begins with postgresql:// has a password in it, which project files and command lines show"
            " to others. Take it out, and give it in PGPASSWORD, in a password file (PGPASSFILE, or ~/.pgpass), or in a"
            " service file (postgresql:///?service=NAME); and change it, if others saw it. (An @ that stands elsewhere"
            " is written as %40.)"
        )
        raise DataError(msg)
    return source


def refuse_address(path: Path, *, what: str) -> None:
    """Refuse an address where only files are read, without repeating what may be in it."""
    if re.match(r"postgres(ql)?:/", str(path), re.IGNORECASE):
        msg = (
            f"{what} is a file. Tables of a PostgreSQL server are named in a project file, as its source, and with -o"
            " where results are written."
        )
        raise OptionError(msg)


def qualified(table: str) -> str:
    """Return the name of a table in SQL: shop.ratings is a table of the schema shop."""
    return ".".join(quote(part) for part in table.split(".", 1))


def connect_postgres(address: str, *, label: str) -> Any:  # noqa: ANN401 - ADBC's
    """Return a connection, with a transaction begun."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        msg = f"PostgreSQL needs {error.name}, which is not installed: pip install 'gcmf[postgresql]'."
        raise MissingExtraError(msg) from error
    address = check_address(address)
    given = dict(parse_qsl(urlsplit(address).query))
    if "PGCONNECT_TIMEOUT" in os.environ:
        given["connect_timeout"] = ""
    more = "&".join(f"{name}={quote_plus(value)}" for name, value in _PATIENCE.items() if name not in given)
    with postgres_errors(label, "reached"):
        return dbapi.connect(f"{address}{'&' if '?' in address else '?'}{more}")


@contextmanager
def postgres_errors(label: str, done: str, kind: type[GcmfError] = DataError) -> Iterator[None]:
    """Turn an error of the driver into a paragraph that names the database."""
    from adbc_driver_manager import Error

    try:
        yield
    except Error as error:
        msg = f"{label} cannot be {done}: {said(error)}"
        raise kind(msg) from error


def said(error: BaseException) -> str:
    """What a server said, in a sentence or two, without the driver's own words around it."""
    text = " ".join(str(error).split())
    text = re.sub(r"^.*?(?=ERROR: |FATAL: |connection to server|could not|server closed|SSL)", "", text)
    text = re.sub(r"\.? ?(SQLSTATE: ?\w*|Vendor code: ?-?\d+)\.?", "", text).strip()
    lost = re.search(r"server closed the connection|terminating connection|connection.* (lost|reset|abort)|SSL SYSCALL",
                     text)  # fmt: skip
    why = "the connection was lost, and what was begun is undone; run it again (" if lost else ""
    return f"{why}{text[:300].rstrip('. ')}{')' if lost else ''}."


class Stream:
    """What a query answers, each time from the first row on, out of one snapshot of the database."""

    def __init__(self, address: str, query: str, *, label: str) -> None:
        self._label = label
        self._cursor: Any = None
        self._connection = connect_postgres(address, label=label)
        self._rows = f"({query.strip().removesuffix(';')}\n) AS {NAME}"
        try:
            self._run(_SNAPSHOT, rows=False)
            self._run(_IN_ORDER).read_all()
            fields = self._run(f"SELECT * FROM {self._rows} LIMIT 0").schema
        except BaseException:
            self.close()
            raise
        self._columns = {field.name: _as_known(field) for field in fields}
        if len(self._columns) < len(fields):
            msg = f"{label}: two of its columns have the same name; give a query that renames one of them."
            raise DataError(msg)

    def empty(self) -> Any:  # noqa: ANN401 - Arrow's
        """All columns, and no row."""
        return self._read(list(self._columns), " LIMIT 0").read_all()

    @contextmanager
    def brought(self, connection: Connection, sql: str) -> Iterator[str]:
        """Let DuckDB read the columns that a question may mean, from the first row on; yield the question to ask."""
        import duckdb
        import pyarrow as pa

        connection.register(NAME, self._read(self._meant(sql)))
        try:
            if sql.count(NAME) == 1:
                yield sql
                return
            # Rows pass by once; who looks twice, for a fault in small tables, has a copy.
            connection.execute(f"CREATE OR REPLACE TEMP TABLE gcmf_copied AS SELECT * FROM {NAME}")
            yield sql.replace(NAME, "gcmf_copied")
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if "[libpq]" not in str(error):
                raise
            msg = f"{self._label} cannot be read: {said(error)}"
            raise DataError(msg) from error
        finally:
            connection.unregister(NAME)
            self._end()

    def _meant(self, sql: str) -> list[str]:
        """Columns whose names occur in a question, and some that are parts of other words."""
        text = sql.casefold()
        if re.search(r"columns\s*\(", text):
            return list(self._columns)
        found = [name for name in self._columns if name.casefold() in text or quote(name).casefold() in text]
        return found or list(self._columns)[:1]

    def _read(self, names: Sequence[str], more: str = "") -> Any:  # noqa: ANN401 - Arrow's
        listed = ", ".join(f"{self._columns[name]} AS {quote(name)}" for name in names)
        return self._run(f"SELECT {listed} FROM {self._rows}{more}")

    def _run(self, sql: str, *, rows: bool = True) -> Any:  # noqa: ANN401 - Arrow's
        self._end()
        with postgres_errors(self._label, "read"):
            self._cursor = self._connection.cursor()
            self._cursor.execute(sql)
            return self._cursor.fetch_record_batch() if rows else None

    def _end(self) -> None:
        """Let go of the last question: a connection has one at a time."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def close(self) -> None:
        """End the transaction, and the connection."""
        with suppress(Exception):  # what was only read needs no good end
            self._end()
            self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()


def _as_known(field: Any) -> str:  # noqa: ANN401 - Arrow's
    """Return a column in the server's SQL, of a type that DuckDB has too."""
    told = field.metadata or {}
    kind, name = told.get(b"POSTGRESQL:type", b"").decode(), quote(field.name)
    if kind in _PLAIN:
        return name
    if kind == "numeric":
        modifier = int(told.get(b"POSTGRESQL:typmod", b"-1")) - 4
        whole = modifier > 0 and modifier & 0xFFFF == 0 and modifier >> 16 <= _MOST_DIGITS
        return f"CAST({name} AS {'int8' if whole else 'float8'})"
    if kind == "timestamptz":
        return f"{name} AT TIME ZONE 'UTC'"
    return f"CAST({name} AS {'int8' if kind == 'oid' else 'text'})"
