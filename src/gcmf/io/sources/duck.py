"""DuckDB behind a fence: it reads the files that it is told of, runs one question at a time, and writes nothing.

And names, texts, numbers and files as its SQL wants them.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Connection = Any
"""DuckDB's, which is optional, and has no types."""
INTEGERS = re.compile(r"^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$")
NUMBERS = re.compile(INTEGERS.pattern + r"|^(FLOAT|DOUBLE|REAL|DECIMAL.*)$")
"""DuckDB's types of numbers."""
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL")
"""What people and programs write where there is no value."""
_FENCE: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,  # else a name in a query may be a variable of this program
    # It would have the CSV reader make the numbers, which then refuses the first that is none, for all TRY_CAST says.
    "disabled_optimizers": "type_pushdown",
}


def connect(database: Path | None = None, *, reads: Path | None = None, steady: bool = False) -> Connection:
    """Return a DuckDB connection: to a database that is only read, or in memory, from where it may read one file.

    A `steady` one has one thread, as those to databases have, and so adds numbers up in the same order every time.
    """
    try:
        import duckdb
        import pyarrow  # noqa: F401 - to be there
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
    settings = {"enable_progress_bar": False, "allowed_paths": allowed, "enable_external_access": False,
                "lock_configuration": True}  # fmt: skip
    for name, value in settings.items():
        connection.execute(f"SET {name} = {literal(value)}")
    return connection


@contextmanager
def duck_errors(label: str) -> Iterator[None]:
    """Turn an error of a database or of a reader of files into a paragraph that names the source."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, sqlite3.Error, sqlite3.Warning, pa.ArrowException, OSError) as error:
        msg = f"{label} cannot be read: {_first_paragraph(error)[:400]}"
        raise DataError(msg) from error
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from error
        raise


def check_query(query: str, *, label: str) -> str:
    """Return a query as it may stand between parentheses, if it is one SELECT and so can only read."""
    import duckdb

    with duck_errors(label), closing(duckdb.connect()) as parser:
        statements = parser.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        msg = f"{label}: query must be one SELECT statement, which can only read; this is {kinds}."
        raise DataError(msg)
    return f"{query.strip().removesuffix(';')}\n"  # the line ends a comment at its end


def check_condition(condition: str, *, label: str) -> str:
    """Return the condition of a `where` in parentheses, if it is one expression and so can only choose rows."""
    import duckdb

    try:
        duckdb.SQLExpression(condition)
    except duckdb.Error as error:
        said = _first_paragraph(error)[:200]
        msg = f"{label}: where must be one SQL condition, such as rating > 0, not {condition!r} ({said})."
        raise DataError(msg) from error
    return f"({condition}\n)"


def _first_paragraph(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())


@contextmanager
def open_sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite database to be read, and for nothing else, whatever a query or a view in it says."""
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)

    def judge(action: int, name: str | None, *_: str | None) -> int:
        describes = action == sqlite3.SQLITE_PRAGMA and name in ("table_info", "foreign_key_list")
        return sqlite3.SQLITE_OK if action in allowed or describes else sqlite3.SQLITE_DENY

    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as lite:
        lite.execute("PRAGMA trusted_schema = OFF")
        lite.set_authorizer(judge)
        yield lite


# --- SQL -----------------------------------------------------------------------------------------------------------


def quote(name: str) -> str:
    """Return a name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Return a text, a truth, a number, a list or a mapping as SQL wants it."""
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return "'" + str(value).replace("'", "''") + "'"


def one_file(path: object) -> str:
    """Return the pattern that matches this file and no other: DuckDB takes file names for patterns."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def call(function: str, path: object, **options: object) -> str:
    """Return a call of one of DuckDB's readers of files, everything in it escaped."""
    given = "".join(f", {name} = {literal(value)}" for name, value in options.items())
    return f"{function}({literal(one_file(path))}{given})"


def as_number(column: str, kind: str = "DOUBLE") -> str:
    """Return a column as numbers in SQL, null where it holds none."""
    return f"TRY_CAST({quote(column)} AS {kind})"


def present(column: str) -> str:
    """Return a column of texts in SQL, null where it says that there is no value."""
    return f"CASE WHEN trim({quote(column)}) NOT IN ({literal(MISSING)[1:-1]}) THEN {quote(column)} END"
