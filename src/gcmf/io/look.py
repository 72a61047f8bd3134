"""A look at tables: what there is in a folder or a database, and what each column holds."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcmf.errors import DataError
from gcmf.io.schema import Source
from gcmf.io.sql import INTEGERS, NUMBERS, literal, quote
from gcmf.io.duck import connect, duck_errors, open_sqlite
from gcmf.io.files import guess_format
from gcmf.io.tables import open_table

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.tables import Table

_TEXT_BYTES = 4096
_WIDE = 8
"""From so many columns of numbers on, and nothing else, they are taken for entities of one set."""
_PREFIXES = {"u", "t", "tbl", "dim", "fact", "ml"}
_ENDINGS = (".csv", ".tsv", ".dat", ".txt", ".parquet", ".arrow", ".jsonl", ".ndjson", ".feather", ".mtx")
_OTHER = (".toml", ".md", ".gcmf", ".pdf", ".py", ".zip")
"""Endings of files that hold no table."""
_ID_WORDS = {"id", "ids", "key", "pk", "fk", "uuid"}
_TIME = re.compile(r"(^|_)(time|timestamp|date|datetime|day|month|created|updated|at|on|ts)(_|$)")
_CODE = re.compile(r"(^|_)(zip|zipcode|postcode|postal|phone|ssn|isbn|url|uri|link|email)(_|$)")


@dataclass(frozen=True)
class Column:
    """One column, summarized."""

    name: str
    kind: str
    """"integer", "number", "text", "boolean" or "other"."""
    distinct: int
    nulls: int
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its name: userID is user, id."""
        return name_words(self.name)

    @property
    def is_id(self) -> bool:
        """Whether its name says that it holds ids."""
        return self.words[-1] in _ID_WORDS

    @property
    def is_time(self) -> bool:
        """Whether its name or its size says that it holds times."""
        epoch = self.kind == "integer" and self.low is not None and self.low > 1e8
        return bool(_TIME.search("_".join(self.words))) or epoch

    @property
    def is_code(self) -> bool:
        """Whether its name says that its numbers count nothing: a zip code, a link."""
        return bool(_CODE.search("_".join(self.words)))

    @property
    def is_binary(self) -> bool:
        """Whether it holds 0 and 1, or true and false."""
        return self.kind == "boolean" or (
            self.kind == "integer" and self.distinct == 2 and (self.low, self.high) == (0, 1)
        )


@dataclass(frozen=True, eq=False)
class Look:
    """One table, summarized."""

    name: str
    source: Source
    table: Table
    rows: int
    columns: dict[str, Column]
    key: str | None
    """The column that tells its lines apart, if one does."""
    foreign: dict[str, str]
    """Column to the table that it is declared to refer to."""

    @property
    def stem(self) -> str:
        """What a line of it is: users holds a user."""
        words = name_words(self.name)
        return singular("_".join(words[1:] if len(words) > 1 and words[0] in _PREFIXES else words))

    @property
    def is_wide(self) -> bool:
        """Whether it has a key, and beside it many columns that are all numbers: entities of one set, perhaps."""
        rest = [one for one in self.columns.values() if one.name != self.key]
        numbers = [one for one in rest if one.kind in ("integer", "number", "boolean")]
        plain = [one for one in numbers if not one.is_id and not one.is_time]
        return self.key is not None and len(rest) >= _WIDE and len(plain) == len(rest)

    def distinct(self, column: str) -> str:
        """The different values of a column in SQL, as text."""
        c = quote(column)
        return f"SELECT DISTINCT CAST({c} AS VARCHAR) AS v FROM {self.table.sql} WHERE {c} IS NOT NULL"


def look_at(source: Path, *, base: Path) -> tuple[list[Look], list[str]]:
    """Return the tables of a folder, of a database, or of one file, and a note on each that could not be used.

    Paths are noted relative to `base`.
    """
    looks: list[Look] = []
    notes: list[str] = []
    for file in files_of(source):
        try:
            looks += _look_at_file(file, base)
        except DataError as error:
            notes.append(f"{file.name} was left out: {error}")
    return looks, notes


def files_of(source: Path) -> list[Path]:
    """Return the files of a folder that may hold data, or the one file."""
    if not source.exists():
        msg = f"There is no file or folder {source}."
        raise DataError(msg)
    files = sorted(one for one in source.iterdir() if one.is_file()) if source.is_dir() else [source]
    return [one for one in files if not one.name.upper().startswith((".", "README", "LICENSE"))
            and one.suffix.lower() not in _OTHER]  # fmt: skip


def table_name(file: Path) -> str:
    """Return what to call a file; u.user is a table of users: an ending that is no format is part of the name."""
    return "_".join(name_words(file.stem if file.suffix.lower() in _ENDINGS else file.name))


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case: userID, user_id and "user id" are user, id."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return tuple(word for word in re.split(r"[^\w]+|_", parted) if word) or (name.lower(),)


def entity_of(column: str) -> str:
    """Return what the name of a column of ids says they are ids of: user for userID; nothing for a bare id."""
    words = name_words(column)
    while words and words[-1] in _ID_WORDS:
        words = words[:-1]
    return singular("_".join(words))


def stem_of(column: Column, look: Look) -> str:
    """Return what the ids of a column are ids of; for a bare id, what a line of the table is."""
    return entity_of(column.name) or look.stem


def singular(word: str) -> str:
    """Return movies as movie, categories as category."""
    if word.endswith("ies") and len(word) > 5 and not word.endswith(("movies", "series")):
        return word[:-3] + "y"
    return (
        word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is", "series")) and len(word) > 3 else word
    )


def _look_at_file(file: Path, base: Path) -> list[Look]:
    path = relative(file, base)
    kind = guess_format(file)
    if kind == "mtx":
        return []
    if kind == "sqlite":
        return _look_at_sqlite(file, path)
    if kind == "duckdb":
        return _look_at_duckdb(file, path)
    with file.open("rb") as opened:
        if kind == "csv" and b"\x00" in opened.read(_TEXT_BYTES):
            msg = "it is no text, and of no known kind"
            raise DataError(msg)
    look = _summarize(table_name(file), Source(source=path), base, key=None, foreign={})
    if len(look.columns) < 2:
        msg = "it has one column only"
        raise DataError(msg)
    return [look]


def relative(file: Path, base: Path) -> str:
    """Return a path as a project file in `base` names it."""
    try:
        return file.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(file.resolve())


def _look_at_sqlite(file: Path, path: str) -> list[Look]:
    looks = []
    with duck_errors(path), closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as lite:
        listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        names = [name for (name,) in lite.execute(listed)]
        for name in names:
            info = lite.execute(f"PRAGMA table_info({quote(name)})").fetchall()
            keys = [row[1] for row in info if row[5]]
            foreign = {row[3]: row[2] for row in lite.execute(f"PRAGMA foreign_key_list({quote(name)})")}
            key = keys[0] if len(keys) == 1 else None
            looks.append(_summarize(name, Source(source=path, table=name), file.parent, key=key, foreign=foreign))
    return looks


def _look_at_duckdb(file: Path, path: str) -> list[Look]:
    with duck_errors(path), closing(connect(file)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
        ]
        declared = {name: _declared(connection, name) for name in names}
    return [_summarize(name, Source(source=path, table=name), file.parent, key=key, foreign=foreign)
            for name, (key, foreign) in declared.items()]  # fmt: skip


def _declared(connection: object, name: str) -> tuple[str | None, dict[str, str]]:
    """Return the primary key and the foreign keys that a DuckDB database declares for a table."""
    rows = connection.execute(  # type: ignore[attr-defined]  # DuckDB's
        "SELECT constraint_type, constraint_column_names, referenced_table FROM duckdb_constraints()"
        f" WHERE table_name = {literal(name)}"
    ).fetchall()
    key = next((columns[0] for kind, columns, _ in rows if kind == "PRIMARY KEY" and len(columns) == 1), None)
    return key, {columns[0]: to for kind, columns, to in rows if kind == "FOREIGN KEY" and len(columns) == 1}


def _summarize(name: str, source: Source, folder: Path, *, key: str | None, foreign: dict[str, str]) -> Look:
    table = open_table(source, folder)
    parts = ["count(*)"]
    for column, kind in table.columns.items():
        c = quote(column)
        number = f"CAST({c} AS DOUBLE)" if NUMBERS.match(kind) else "NULL"
        parts += [f"count(DISTINCT {c})", f"count({c})", f"min({number})", f"max({number})"]
    answer = table.ask(f"SELECT {', '.join(parts)} FROM {table.sql}")[0]
    rows = int(answer[0])
    columns = {}
    for at, (column, kind) in enumerate(table.columns.items()):
        distinct, there, low, high = answer[1 + 4 * at : 5 + 4 * at]
        columns[column] = Column(column, _kind(kind), int(distinct), rows - int(there), low, high)
    look = Look(name, source, table, rows, columns, key, foreign)
    return look if key else Look(name, source, table, rows, columns, _find_key(look), foreign)


def _kind(duck: str) -> str:
    if INTEGERS.match(duck):
        return "integer"
    if NUMBERS.match(duck):
        return "number"
    return {"VARCHAR": "text", "BOOLEAN": "boolean"}.get(duck, "other")


def _find_key(look: Look) -> str | None:
    """Return the column that could be a key: unique, named as an id or as the table, or else the first."""
    unique = [one for one in look.columns.values()
              if one.kind in ("integer", "text") and one.distinct == look.rows > 0 and not one.nulls]  # fmt: skip
    named = [one for one in unique if one.is_id or stem_of(one, look) == look.stem]
    first = next(iter(look.columns), None)
    # In a table of pairs the first ids may happen to be all different; a second column of ids gives it away.
    pairs = sum(one.is_id for one in look.columns.values()) > 1
    for one in named:
        if not pairs or stem_of(one, look) == look.stem or one.name == first:
            return one.name
    return first if not named and first in [one.name for one in unique] and not pairs else None
