"""Any source as a table that DuckDB can be asked about: files, databases, queries."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError, did_you_mean
from gcmf.io.sources.duck import (
    MISSING,
    call,
    check_condition,
    check_query,
    connect,
    duck_errors,
    literal,
    open_sqlite,
    quote,
)
from gcmf.io.sources.files import find_file, guess_format
from gcmf.io.sources.postgres import NAME, Stream, check_address, is_address, qualified
from gcmf.io.sources.texts import MANY, Readable, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gcmf.io.sources.duck import Connection
    from gcmf.io.sources.specs import Source

BATCH = 250_000
"""Rows that are held at a time while a source is read."""
_SQLITE_BATCH = 50_000
_NUMBERED = re.compile(r"^column\d+$")
"""How DuckDB names the columns of a text without names."""
_ARROW_TYPES = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bool": "BOOLEAN", "string": "VARCHAR", "large_string": "VARCHAR", "null": "VARCHAR",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Table:
    """An open source."""

    connection: Connection
    sql: str
    """What stands after FROM."""
    label: str
    """What messages call it."""
    columns: dict[str, str]
    """Names and DuckDB types."""
    where: str | None = None
    """The filter, in parentheses."""
    repeated: tuple[str, ...] = ()
    """Names of columns that a text file has twice."""
    arrow: Any = None
    """All of it, if it was read at once."""
    stream: Stream | None = None
    """Where rows come from anew for every question, if they are not where DuckDB can see them."""

    @property
    def filtered(self) -> str:
        """What stands after FROM, and the filter."""
        return f"{self.sql} WHERE {self.where}" if self.where else self.sql

    @property
    def numbered(self) -> str:
        """What stands after FROM, and the filter, with the number of each row from 1, filtered ones counted too."""
        return f"(SELECT row_number() OVER () AS gcmf_row, * FROM {self.sql}) WHERE {self.where or 'TRUE'}"

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return a small answer."""
        with duck_errors(self.label), self._brought(query) as asked:
            return list(self.connection.execute(asked).fetchall())

    def batches(self, *columns: str) -> Iterator[Any]:
        """Yield the rows that pass the filter, in order, as Arrow batches of these columns."""
        listed = ", ".join(f"{column} AS c{at}" for at, column in enumerate(columns))
        with duck_errors(self.label), self._brought(f"SELECT {listed} FROM {self.filtered}") as asked:
            yield from self.connection.sql(asked).to_arrow_reader(BATCH)

    def first(self, condition: str, column: str, *others: str) -> tuple[Any, ...] | None:
        """Return the number and the value of the first row of a condition, how many there are, and its other values."""
        more = "".join(f", {quote(other)}" for other in others)
        rows = self.ask(
            f"SELECT gcmf_row, {quote(column)}, count(*) OVER (){more} FROM {self.numbered} AND ({condition})"
            " ORDER BY gcmf_row LIMIT 1"
        )
        return tuple(rows[0]) if rows else None

    def _brought(self, query: str) -> AbstractContextManager[str]:
        return nullcontext(query) if self.stream is None else self.stream.brought(self.connection, query)

    @property
    def is_nameless(self) -> bool:
        """Whether its columns are only numbered, as those of a text without a line of names are."""
        return all(_NUMBERED.match(name) for name in self.columns)

    @property
    def shown_columns(self) -> str:
        """The first of its columns, as messages name them."""
        return ", ".join(list(self.columns)[:20]) + (", ..." if len(self.columns) > 20 else "")

    def check_columns(self, names: list[str], *, where: str) -> None:
        """Refuse names that are no columns, or that are the name of two."""
        hint = " Its first line does not look like names: add a line with the names of the columns." * self.is_nameless
        faults = [
            f"{where}: {self.label} has no column {name!r}; it has {self.shown_columns}."
            f"{did_you_mean(name, self.columns)}{hint}"
            for name in names
            if name not in self.columns
        ]
        faults += [f"{where}: {self.label} has two columns {name!r}; rename one of them."
                   for name in names if name in self.repeated]  # fmt: skip
        if faults:
            raise DataError(faults)


def open_table(source: Source, folder: Path) -> Table:
    """Open a source; nothing but its columns is looked at, or for text all of it, to know its types.

    What is not there, or cannot be read as what it is said to be, is refused.
    """
    label = check_address(source.source) if is_address(source.source) else source.source
    where = check_condition(source.where, label=label) if source.where is not None else None
    if is_address(source.source):
        return _open_server(source, where=where)
    path = find_file(source.source, folder)
    guessed = guess_format(path)
    kind = source.format or guessed
    if kind in ("sqlite", "duckdb"):
        return _open_database(source, path, kind=kind, where=where)
    for key, meant, kinds in (("table", "databases", ()), ("decimal", "text files", ("csv", "tsv"))):
        if getattr(source, key) is not None and kind not in kinds:
            msg = f"{label}: {key} is for {meant}, and this is read as {kind}; leave it out, or use query or where."
            raise DataError(msg)
    query = check_query(source.query, label=label) if source.query is not None else None
    connection = connect(reads=path, steady=query is not None)
    with duck_errors(label):
        file = _open_file(connection, path.absolute(), source, kind=kind)
        if query is not None:
            connection.execute(f"CREATE TEMP VIEW source AS SELECT * FROM {file.sql}")
            sql = f"({query}) AS gcmf_source"
            return Table(connection, sql, f"{label} (query)", _describe(connection, sql), where, file.repeated)
        if file.arrow is None:
            columns = _describe(connection, file.sql)
        else:  # asking DuckDB about thousands of columns takes seconds
            fields = {field.name: str(field.type) for field in file.arrow.schema}
            columns = {name: _ARROW_TYPES.get(kind, kind.upper()) for name, kind in fields.items()}
        return Table(connection, file.sql, label, columns, where, file.repeated, file.arrow)


def _open_file(connection: Connection, path: Path, source: Source, *, kind: str) -> Readable:
    if kind == "jsonl":
        return Readable(call("read_json", path, format="newline_delimited", sample_size=-1, hive_partitioning=False))
    if kind not in ("parquet", "arrow"):
        return read_text(connection, path, source, kind=kind)
    from pyarrow import dataset

    data = dataset.dataset(path, format="ipc" if kind == "arrow" else kind)
    alike = len({name.lower() for name in data.schema.names}) < len(data.schema)  # DuckDB renames some of those
    if len(data.schema) > MANY and not alike and all(str(kind) in _ARROW_TYPES for kind in data.schema.types):
        whole = data.to_table()
        connection.register("gcmf_arrow", whole)
        return Readable("gcmf_arrow", arrow=whole)
    if kind == "parquet":
        return Readable(call("read_parquet", path, hive_partitioning=False))
    connection.register("gcmf_arrow", data)
    return Readable("gcmf_arrow")


def _describe(connection: Connection, sql: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()}


def _asked(source: Source, table: str | None) -> tuple[str, str]:
    """What messages call a table of a database, and the query that reads it."""
    if table is None and source.query is None:
        msg = f"{source.source} is a database: say which table, or give a query."
        raise DataError(msg)
    label = f"{source.source} ({f'table {source.table}' if source.table else 'query'})"
    return label, source.query if source.query is not None else f"SELECT * FROM {table}"


def _open_server(source: Source, *, where: str | None) -> Table:
    """Open a table or a query of a PostgreSQL server, whose rows come anew for every question."""
    for key in ("format", "encoding", "decimal"):
        if getattr(source, key) is not None:
            msg = f"{source.source}: {key} is for files, and this is a PostgreSQL server; leave it out."
            raise DataError(msg)
    label, query = _asked(source, None if source.table is None else qualified(source.table))
    connection = connect(steady=True)
    stream = Stream(source.source, query, label=label)
    with duck_errors(label):
        connection.register("gcmf_columns", stream.empty())
        return Table(connection, NAME, label, _describe(connection, "gcmf_columns"), where, stream=stream)


def _open_database(source: Source, path: Path, *, kind: str, where: str | None) -> Table:
    label, query = _asked(source, None if source.table is None else quote(source.table))
    with duck_errors(label):
        if kind == "duckdb":
            connection = connect(path)
            sql = f"({check_query(query, label=label)}) AS gcmf_source"
        else:
            connection = connect()
            sql = "gcmf_source"
            _copy_sqlite(connection, path, f"({query.strip().removesuffix(';')}\n)")
        return Table(connection, sql, label, _describe(connection, sql), where)


def _copy_sqlite(connection: Connection, path: Path, query: str) -> None:
    """Copy what SQLite answers into a table of DuckDB, a batch at a time.

    DuckDB's own reader of SQLite is an extension that it downloads when first used; Python's is always there.
    A column is of the widest type that SQLite has stored in it: text, else double, else integer. A text that says that
    there is no value, as NA does, is none beside numbers.
    """
    import pyarrow as pa

    kinds = (pa.string(), pa.int64(), pa.float64(), pa.string())
    absent = literal(MISSING)[1:-1]
    with open_sqlite(path) as lite:
        names = [described[0] for described in lite.execute(f"SELECT * FROM {query} LIMIT 0").description]
        ranks = [f"max(CASE typeof({c}) WHEN 'integer' THEN 1 WHEN 'real' THEN 2 WHEN 'null' THEN 0"
                 f" WHEN 'text' THEN 3 * (trim({c}) NOT IN ({absent})) ELSE 3 END)"
                 for c in map(quote, names)]  # fmt: skip
        widest = lite.execute(f"SELECT {', '.join(ranks)} FROM {query}").fetchone()
        types = [kinds[rank or 0] for rank in widest]
        schema = pa.schema(list(zip(names, types, strict=True)))
        rows = lite.execute(f"SELECT * FROM {query}")
        connection.register("gcmf_batch", schema.empty_table())
        connection.execute("CREATE TEMP TABLE gcmf_source AS SELECT * FROM gcmf_batch")
        while batch := rows.fetchmany(_SQLITE_BATCH):
            arrays = [_as_arrow(column, kind, pa) for column, kind in zip(zip(*batch, strict=True), types, strict=True)]
            connection.register("gcmf_batch", pa.table(arrays, schema=schema))
            connection.execute("INSERT INTO gcmf_source SELECT * FROM gcmf_batch")
        connection.unregister("gcmf_batch")


def _as_arrow(column: tuple[Any, ...], kind: Any, pa: Any) -> Any:  # noqa: ANN401 - Arrow's
    if kind == pa.string():
        return pa.array([None if value is None else str(value) for value in column], type=kind)
    # The only texts among numbers are those that say that there is none.
    number = float if kind == pa.float64() else int
    return pa.array([None if value is None or isinstance(value, str) else number(value) for value in column], type=kind)
