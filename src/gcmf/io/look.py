"""A look at tables: what there is in a folder or a database, and what each column holds."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gcmf.errors import DataError
from gcmf.io.columns import entity_of, name_words, singular, summarize
from gcmf.io.decimals import find_decimal
from gcmf.io.duck import connect, duck_errors, open_sqlite
from gcmf.io.files import guess_format, stem_of_file
from gcmf.io.schema import Source
from gcmf.io.sql import literal, quote
from gcmf.io.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gcmf.io.columns import Column
    from gcmf.io.tables import Table

    Report = Callable[[str, int, int], object]
    """Told what is read now, the how-many-th of how many."""

_WIDE = 8
"""From so many columns of numbers on, and nothing else, they are taken for entities of one set."""
_PREFIXES = {"u", "t", "tbl", "dim", "fact", "ml"}
_OTHER = (".toml", ".md", ".gcmf", ".pdf", ".py")
"""Endings of files that hold no table."""


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
    surrogates: tuple[str, ...] = ()
    """Columns that only tell the lines apart, and are not among its columns."""

    @property
    def stem(self) -> str:
        """What a line of it is: users holds a user."""
        words = name_words(self.name)
        return singular("_".join(words[1:] if len(words) > 1 and words[0] in _PREFIXES else words))

    @cached_property
    def is_wide(self) -> bool:
        """Whether it has a key, and beside it many columns that are all numbers: entities of one set, perhaps."""
        rest = [one for one in self.columns.values() if one.name != self.key]
        plain = [one for one in rest if one.is_number and not one.is_id and not one.is_time]
        many = len(rest) >= _WIDE or self.is_numbered
        return self.key is not None and many and len(plain) == len(rest)

    @property
    def is_numbered(self) -> bool:
        """Whether its key is the number of the line, which only a query has."""
        return self.source.query is not None

    def distinct(self, column: str) -> str:
        """The different values of a column in SQL, as text."""
        c = quote(column)
        return f"SELECT DISTINCT CAST({c} AS VARCHAR) AS v FROM {self.table.sql} WHERE {c} IS NOT NULL"


def look_at(source: Path, *, base: Path, report: Report) -> tuple[list[Look], list[str]]:
    """Return the tables of a folder, of a database, or of one file, and a note on what was left out or is doubtful.

    Paths are noted relative to `base`.
    """
    looks: list[Look] = []
    files, notes = files_of(source)
    for number, file in enumerate(files):
        report(file.name, number, len(files))
        try:
            found, doubts = _look_at_file(file, base)
        except DataError as error:
            notes.append(f"{file.name} was left out: {error}")
            continue
        notes += doubts
        notes += [f"{look.name} was left out: it has names of columns, and no rows." for look in found if not look.rows]
        looks += [look for look in found if look.rows]
    return looks, notes


def files_of(source: Path) -> tuple[list[Path], list[str]]:
    """Return the files of a folder that may hold data, or the one file; and a note on each link that leads outside."""
    if not source.exists():
        msg = f"There is no file or folder {source}."
        raise DataError(msg)
    if not source.is_dir():
        return [source], []
    files, notes = [], []
    seen: dict[Path, str] = {}
    inside = source.resolve()
    for file in sorted(source.iterdir(), key=lambda one: (one.is_symlink(), one.name)):
        if not file.is_file() or file.name.upper().startswith((".", "README", "LICENSE")):
            continue
        if file.suffix.lower() in _OTHER:
            continue
        target = file.resolve()
        if not target.is_relative_to(inside):
            notes.append(f"{file.name} was left out: it is a link out of the folder; name {target} itself to use it.")
        elif target in seen:
            notes.append(f"{file.name} was left out: it is a link to {seen[target]}.")
        else:
            seen[target] = file.name
            files.append(file)
    return sorted(files), notes


def table_name(file: Path) -> str:
    """Return what to call a file; u.user is a table of users: an ending that is no format is part of the name."""
    return "_".join(name_words(stem_of_file(file)))


def stem_of(column: Column, look: Look) -> str:
    """Return what the ids of a column are ids of; for a bare id, what a line of the table is."""
    return entity_of(column.name) or look.stem


def _look_at_file(file: Path, base: Path) -> tuple[list[Look], list[str]]:
    path = relative(file, base)
    kind = guess_format(file)
    if kind == "mtx":
        return [], []
    if kind == "sqlite":
        return _look_at_sqlite(file, path, base), []
    if kind == "duckdb":
        return _look_at_duckdb(file, path, base), []
    source, notes = Source(source=path), []
    table = open_table(source, base)
    if kind in ("csv", "tsv"):
        decimal, doubt = find_decimal(table, file)
        if decimal is not None:
            source = replace(source, decimal=decimal)
            table = open_table(source, base)
            notes.append(f"{path}: {doubt}")
    look = _summarize(table_name(file), source, table, key=None, foreign={})
    if len(look.columns) < 2:
        msg = "it has one column only"
        raise DataError(msg)
    return [_number_lines(look, base)], notes


def relative(file: Path, base: Path) -> str:
    """Return a path as a project file in `base` names it."""
    whole = file.parent.resolve() / file.name
    try:
        return whole.relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(whole)


def _look_at_sqlite(file: Path, path: str, base: Path) -> list[Look]:
    looks = []
    with duck_errors(path), open_sqlite(file) as lite:
        listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        names = [name for (name,) in lite.execute(listed)]
        for name in names:
            info = lite.execute(f"PRAGMA table_info({quote(name)})").fetchall()
            keys = [row[1] for row in info if row[5]]
            foreign = {row[3]: row[2] for row in lite.execute(f"PRAGMA foreign_key_list({quote(name)})")}
            key = keys[0] if len(keys) == 1 else None
            looks.append(_look_at_table(name, path, base, key=key, foreign=foreign))
    return looks


def _look_at_duckdb(file: Path, path: str, base: Path) -> list[Look]:
    with duck_errors(path), closing(connect(file)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
        ]
        declared = {name: _declared(connection, name) for name in names}
    return [_look_at_table(name, path, base, key=key, foreign=foreign)
            for name, (key, foreign) in declared.items()]  # fmt: skip


def _declared(connection: object, name: str) -> tuple[str | None, dict[str, str]]:
    """Return the primary key and the foreign keys that a DuckDB database declares for a table."""
    rows = connection.execute(  # type: ignore[attr-defined]  # DuckDB's
        "SELECT constraint_type, constraint_column_names, referenced_table FROM duckdb_constraints()"
        f" WHERE table_name = {literal(name)}"
    ).fetchall()
    key = next((columns[0] for kind, columns, _ in rows if kind == "PRIMARY KEY" and len(columns) == 1), None)
    return key, {columns[0]: to for kind, columns, to in rows if kind == "FOREIGN KEY" and len(columns) == 1}


def _look_at_table(name: str, path: str, folder: Path, *, key: str | None, foreign: dict[str, str]) -> Look:
    """Look at a table of a database."""
    source = Source(source=path, table=name)
    return _number_lines(_summarize(name, source, open_table(source, folder), key=key, foreign=foreign), folder)


def _number_lines(look: Look, folder: Path) -> Look:
    """Give a table of nothing but 0 and 1 the numbers of its lines as key: none of its columns can hold ids."""
    bits = len(look.columns) > 1 and all(one.is_bits and not one.is_id for one in look.columns.values())
    if look.key is not None or not bits:
        return look
    key = f"{look.stem}_row"
    while key in look.columns:
        key += "_"
    query = f"SELECT row_number() OVER () AS {quote(key)}, * FROM {quote(look.source.table or 'source')}"
    source = replace(look.source, table=None, query=query)
    return _summarize(look.name, source, open_table(source, folder), key=key, foreign={})


def _summarize(name: str, source: Source, table: Table, *, key: str | None, foreign: dict[str, str]) -> Look:
    rows, columns = summarize(table)
    look = Look(name, source, table, rows, columns, key, foreign)
    return look if key else replace(look, key=_find_key(look))


def _find_key(look: Look) -> str | None:
    """Return the column that could be a key: unique, named as an id or as the table, or else the first."""
    unique = [one for one in look.columns.values()
              if one.kind in ("integer", "text") and one.distinct == look.rows > 0 and not one.nulls
              and (one.is_id or not one.is_bits)]  # fmt: skip
    named = [one for one in unique if one.is_id or stem_of(one, look) == look.stem]
    first = next(iter(look.columns), None)
    # In a table of pairs the first ids may happen to be all different; a second column of ids gives it away.
    pairs = sum(one.is_id for one in look.columns.values()) > 1
    for one in named:
        if not pairs or stem_of(one, look) == look.stem or one.name == first:
            return one.name
    return first if not named and first in [one.name for one in unique] and not pairs else None
