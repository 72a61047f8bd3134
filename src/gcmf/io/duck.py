"""DuckDB behind a fence: it reads the files that it is told of, runs one question at a time, and writes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError, MissingExtraError
from gcmf.io.sql import literal, one_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FENCE: dict[str, str | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,  # else a name in a query may be a variable of this program
    # It would have the CSV reader make the numbers, which then refuses the first that is none, for all TRY_CAST says.
    "disabled_optimizers": "type_pushdown",
}
_SHUT = {"enable_external_access": False, "lock_configuration": True}


def connect(database: Path | None = None, *, reads: Path | None = None, steady: bool = False) -> Any:  # noqa: ANN401 - DuckDB is optional
    """Return a DuckDB connection: to a database that is only read, or in memory, from where it may read one file.

    A `steady` one has one thread, as those to databases have, and so adds numbers up in the same order every time.
    """
    try:
        import duckdb  # noqa: PLC0415 - an extra
        import pyarrow  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        msg = f"Reading files and databases needs {error.name}, which is not installed: pip install 'gcmf[io]'."
        raise MissingExtraError(msg) from error
    if database is not None:
        if set(str(database.absolute())) & set("?\\"):
            msg = f"{database}: DuckDB takes ? and \\ in the name of a database for something else; rename the file."
            raise DataError(msg)
        # All connections to a file have one instance behind them, and so the same settings, which cannot be locked
        # before each; that nothing outside can be reached cannot be taken back in any case.
        shut = {**_FENCE, "threads": 1, "enable_external_access": False}
        connection = duckdb.connect(str(database.absolute()), read_only=True, config=shut)
        connection.execute("SET enable_progress_bar = false")
        return connection
    connection = duckdb.connect(config={**_FENCE, "threads": 1} if steady else _FENCE)
    allowed = sorted({str(reads.absolute()), one_file(reads.absolute())}) if reads is not None else []
    for name, value in {"enable_progress_bar": False, "allowed_paths": allowed, **_SHUT}.items():
        connection.execute(f"SET {name} = {literal(value)}")
    return connection


@contextmanager
def duck_errors(label: str) -> Iterator[None]:
    """Turn an error of a database or of a reader of files into a paragraph that names the source."""
    import duckdb  # noqa: PLC0415 - an extra
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    except (duckdb.Error, sqlite3.Error, sqlite3.Warning, pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split("\n\n")[0].split())
        msg = f"{label} cannot be read: {said[:400]}"
        raise DataError(msg) from error
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from error
        raise


def check_query(query: str, *, label: str) -> str:
    """Return a query as it may stand between parentheses, if it is one SELECT and so can only read."""
    import duckdb  # noqa: PLC0415 - an extra

    with duck_errors(label), closing(duckdb.connect()) as parser:
        statements = parser.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = ", ".join(one.type.name for one in statements) or "nothing"
        msg = f"{label}: query must be one SELECT statement, which can only read; this is {kinds}."
        raise DataError(msg)
    return f"{query.strip().removesuffix(';')}\n"  # the line ends a comment at its end


def check_condition(condition: str, *, label: str) -> str:
    """Return the condition of a `where` in parentheses, if it is one expression and so can only choose rows."""
    import duckdb  # noqa: PLC0415 - an extra

    try:
        duckdb.SQLExpression(condition)
    except duckdb.Error as error:
        said = " ".join(str(error).split("\n\n")[0].split())
        msg = f"{label}: where must be one SQL condition, such as rating > 0, not {condition!r} ({said[:200]})."
        raise DataError(msg) from error
    return f"({condition}\n)"


@contextmanager
def open_sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite database to be read, and for nothing else, whatever a query or a view in it says."""
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    described = ("table_info", "foreign_key_list")

    def judge(action: int, first: str | None, *_: str | None) -> int:
        reads = action in allowed or (action == sqlite3.SQLITE_PRAGMA and first in described)
        return sqlite3.SQLITE_OK if reads else sqlite3.SQLITE_DENY

    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as lite:
        lite.execute("PRAGMA trusted_schema = OFF")
        lite.set_authorizer(judge)
        yield lite
