"""Any source as a table that DuckDB can be asked about: files, databases, queries."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError, MissingExtraError, did_you_mean
from gcmf.io.sql import literal, quote
from gcmf.io.texts import Text, read_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from gcmf.io.schema import Source

BATCH = 250_000
"""Rows that are held at a time while a source is read."""
_SQLITE_BATCH = 50_000
_FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl", ".mtx": "mtx", ".duckdb": "duckdb",
    ".sqlite": "sqlite", ".sqlite3": "sqlite",
}  # fmt: skip
_NUMBERED = re.compile(r"^column\d+$")
"""How DuckDB names the columns of a text without names."""
_MAGIC = {b"SQLite format 3\x00": "sqlite", b"PAR1": "parquet", b"ARROW1": "arrow"}


@dataclass(frozen=True, eq=False)
class Table:
    """An open source."""

    connection: Any
    """DuckDB's."""
    sql: str
    """What stands after FROM."""
    label: str
    """What messages call it."""
    columns: dict[str, str]
    """Names and DuckDB types."""
    where: str | None = None
    repeated: tuple[str, ...] = ()
    """Names of columns that a text file has twice."""

    @property
    def filtered(self) -> str:
        """What stands after FROM, and the filter."""
        return f"{self.sql} WHERE ({self.where})" if self.where else self.sql

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return a small answer."""
        with duck_errors(self.label):
            return list(self.connection.execute(query).fetchall())

    def batches(self, columns: str) -> Generator[Any, None, None]:
        """Yield the rows that pass the filter, in order, as Arrow batches of these columns."""
        with duck_errors(self.label):
            yield from self.connection.sql(f"SELECT {columns} FROM {self.filtered}").to_arrow_reader(BATCH)

    def first(self, condition: str, column: str) -> tuple[int, Any, int] | None:
        """Return the number (from 1, filtered rows counted too), the value and the count of rows of a condition."""
        kept = f"({self.where}) AND ({condition})" if self.where else condition
        numbered = f"(SELECT row_number() OVER () AS gcmf_row, * FROM {self.sql})"
        found = self.ask(
            f"SELECT gcmf_row, {quote(column)}, count(*) OVER () FROM {numbered} WHERE {kept} ORDER BY gcmf_row LIMIT 1"
        )
        return (int(found[0][0]), found[0][1], int(found[0][2])) if found else None

    def lacking(self, names: list[str], *, where: str) -> list[str]:
        """Return a fault for each name that is no column, or that is the name of two."""
        shown = ", ".join(list(self.columns)[:20]) + (", ..." if len(self.columns) > 20 else "")
        nameless = all(_NUMBERED.match(name) for name in self.columns)
        hint = " Its first line does not look like names: add a line with the names of the columns." * nameless
        lacking = [
            f"{where}: {self.label} has no column {name!r}; it has {shown}.{did_you_mean(name, self.columns)}{hint}"
            for name in names
            if name not in self.columns
        ]
        twice = [f"{where}: {self.label} has two columns {name!r}; rename one of them."
                 for name in names if name in self.repeated]  # fmt: skip
        return lacking + twice


def open_table(source: Source, folder: Path) -> Table:
    """Open a source; nothing but its columns is looked at, or for text all of it, to know its types.

    Raises
    ------
    DataError
        When it is not there, or cannot be read as what it is said to be.
    """
    path, label = folder / source.source, source.source
    if not path.exists():
        near = did_you_mean(path.name, [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else [])
        msg = f"{label}: there is no such file in {path.parent}.{near}"
        raise DataError(msg)
    kind = source.format or guess_format(path)
    if kind in ("sqlite", "duckdb"):
        return _open_database(source, path, kind)
    if source.table is not None:
        msg = f"{label}: table is for databases, and this is read as {kind}; leave it out, or use query or where."
        raise DataError(msg)
    connection = connect()
    with duck_errors(label):
        text = _from_file(connection, path, kind, source)
        sql = text.sql
        if source.query is not None:
            connection.execute(f"CREATE TEMP VIEW source AS SELECT * FROM {sql}")
            sql, label = f"({source.query.strip().removesuffix(';')}) AS gcmf_source", f"{label} (query)"
        columns = _describe(connection, sql)
    return Table(connection, sql, label, columns, source.where, text.repeated)


def guess_format(path: Path) -> str:
    """Return the format of a file by its first bytes or its ending; text is CSV, whatever its separator."""
    with path.open("rb") as file:
        head = file.read(16)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[8:12] == b"DUCK":
        return "duckdb"
    suffixes = [one.lower() for one in path.suffixes]
    return next((_FORMATS[one] for one in reversed(suffixes) if one in _FORMATS), "csv")


def connect(path: Path | None = None) -> Any:  # noqa: ANN401 - DuckDB is optional
    """Return a DuckDB connection: in memory, or to a file that is only read."""
    try:
        import duckdb  # noqa: PLC0415 - an extra
        import pyarrow  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        msg = f"Reading files and databases needs {error.name}, which is not installed: pip install 'gcmf[io]'."
        raise MissingExtraError(msg) from error
    connection = duckdb.connect() if path is None else duckdb.connect(str(path), read_only=True)
    # It would have the CSV reader make the numbers, which then refuses the first that is none, for all TRY_CAST says.
    connection.execute("SET disabled_optimizers = 'type_pushdown'")
    return connection


@contextmanager
def duck_errors(label: str) -> Iterator[None]:
    """Turn an error of a database into a paragraph that names the source."""
    import duckdb  # noqa: PLC0415 - an extra

    try:
        yield
    except (duckdb.Error, sqlite3.Error) as error:
        said = " ".join(str(error).split("\n\n")[0].split())
        msg = f"{label} cannot be read: {said[:400]}"
        raise DataError(msg) from error
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from error
        raise


def _from_file(connection: Any, path: Path, kind: str, source: Source) -> Text:  # noqa: ANN401
    if kind == "parquet":
        return Text(f"read_parquet({literal(path)})")
    if kind == "jsonl":
        return Text(f"read_json({literal(path)}, format = 'newline_delimited', sample_size = -1)")
    if kind == "arrow":
        from pyarrow import dataset  # noqa: PLC0415 - an extra

        connection.register("gcmf_arrow", dataset.dataset(path, format="ipc"))
        return Text("gcmf_arrow")
    return read_text(connection, path, label=source.source, kind=kind, encoding=source.encoding)


def _describe(connection: Any, sql: str) -> dict[str, str]:  # noqa: ANN401
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()}


def _open_database(source: Source, path: Path, kind: str) -> Table:
    what = f"table {source.table}" if source.table else "query"
    if source.table is None and source.query is None:
        msg = f"{source.source} is a database: say which table, or give a query."
        raise DataError(msg)
    label = f"{source.source} ({what})"
    query = source.query.strip().removesuffix(";") if source.query else f"SELECT * FROM {quote(source.table or '')}"
    with duck_errors(label):
        if kind == "duckdb":
            connection = connect(path)
            sql = f"({query}) AS gcmf_source"
            return Table(connection, sql, label, _describe(connection, sql), source.where)
        connection = connect()
        _copy_sqlite(connection, path, query)
        return Table(connection, "gcmf_source", label, _describe(connection, "gcmf_source"), source.where)


def _copy_sqlite(connection: Any, path: Path, query: str) -> None:  # noqa: ANN401
    """Copy what SQLite answers into a table of DuckDB, a batch at a time.

    DuckDB's own reader of SQLite is an extension that it downloads when first used; Python's is always there.
    A column is of the widest type that SQLite has stored in it: text, else double, else integer.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = {"text": pa.string(), "real": pa.float64(), "integer": pa.int64()}
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as lite:
        names = [one[0] for one in lite.execute(f"SELECT * FROM ({query}) LIMIT 0").description]
        tests = [f"max(typeof({quote(name)}) = '{kind}')" for name in names for kind in kinds]
        seen = lite.execute(f"SELECT {', '.join(tests)} FROM ({query})").fetchone()
        types = []
        for at in range(len(names)):
            stored = [kind for kind, hit in zip(kinds.values(), seen[3 * at : 3 * at + 3], strict=True) if hit]
            types.append(stored[0] if stored else pa.string())
        schema = pa.schema(list(zip(names, types, strict=True)))
        rows = lite.execute(f"SELECT * FROM ({query})")
        connection.register("gcmf_batch", schema.empty_table())
        connection.execute("CREATE TEMP TABLE gcmf_source AS SELECT * FROM gcmf_batch")
        while batch := rows.fetchmany(_SQLITE_BATCH):
            arrays = [_as_arrow(column, kind, pa) for column, kind in zip(zip(*batch, strict=True), types, strict=True)]
            connection.register("gcmf_batch", pa.table(arrays, schema=schema))
            connection.execute("INSERT INTO gcmf_source SELECT * FROM gcmf_batch")
        connection.unregister("gcmf_batch")


def _as_arrow(column: tuple[Any, ...], kind: Any, pa: Any) -> Any:  # noqa: ANN401 - Arrow's
    if kind == pa.string():
        column = tuple(None if one is None else str(one) for one in column)
    return pa.array(column, type=kind)
