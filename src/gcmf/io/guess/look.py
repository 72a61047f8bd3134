"""A look at tables: what there is in a folder or a database, and what each column holds."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.errors import DataError
from gcmf.io.guess.summary import entity_of, find_decimal, name_words, singular, summarize
from gcmf.io.sources.duck import connect, duck_errors, open_sqlite, quote
from gcmf.io.sources.files import ENDINGS, guess_format
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table
from gcmf.likelihoods.counts import Residuals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from gcmf.io.guess.summary import ColumnSummary
    from gcmf.io.sources.specs import Report
    from gcmf.io.sources.tables import Table

_WIDE = 8
"""From so many columns of numbers on, and nothing else, they are taken for entities of one set."""
_PREFIXES = {"u", "t", "tbl", "dim", "fact", "ml"}
_FIRST_LINES = 2000
"""Lines of a wide table that are looked at to tell how its counts vary."""
_OTHER = (".toml", ".md", ".gcmf", ".pdf", ".py")
"""Endings of files that hold no table."""


@dataclass(frozen=True, eq=False)
class Look:
    """A table that was looked at."""

    name: str
    source: Source
    table: Table
    rows: int
    columns: dict[str, ColumnSummary]
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

    def stem_of(self, column: ColumnSummary) -> str:
        """Return what the ids of a column are ids of; for a bare id, what a line is.

        Names that say nothing, as column0, are those of this table alone.
        """
        return f"{self.stem}_{column.name}" if self.is_nameless else entity_of(column.name) or self.stem

    def without(self, names: Iterable[str | None]) -> list[ColumnSummary]:
        """Return all columns but some."""
        left_out = set(names)
        return [column for column in self.columns.values() if column.name not in left_out]

    @cached_property
    def is_wide(self) -> bool:
        """Whether it has a key, and beside it many columns that are all numbers: entities of one set, perhaps."""
        rest = self.without([self.key])
        many = len(rest) >= _WIDE or self.is_numbered
        plain = all(column.is_number and not column.is_id and not column.is_time for column in rest)
        return self.key is not None and many and plain

    @property
    def is_nameless(self) -> bool:
        """Whether its columns have no names, so that only their values tell what they hold."""
        return self.table.is_nameless

    @property
    def is_numbered(self) -> bool:
        """Whether its key is the number of the line, which only a query has."""
        return self.source.query is not None

    def values(self, column: str) -> set[str]:
        """Return the different values of a column, as text."""
        c = quote(column)
        listed = f"SELECT DISTINCT CAST({c} AS VARCHAR) FROM {self.table.sql} WHERE {c} IS NOT NULL"
        return {value for (value,) in self.table.ask(listed)}

    def count_residuals(self, row: str, col: str, value: str) -> Residuals:
        """Sum up how counts vary around the means of their ids; `value` is summed where a pair is listed repeatedly."""
        i, j = quote(row), quote(col)
        cells = (f"SELECT {i} AS i, {j} AS j, CAST({value} AS DOUBLE) AS x FROM {self.table.sql}"
                 f" WHERE {i} IS NOT NULL AND {j} IS NOT NULL GROUP BY {i}, {j}")  # fmt: skip
        means = ("SELECT i, j, x, avg(x) OVER (PARTITION BY i) * avg(x) OVER (PARTITION BY j) / avg(x) OVER () AS mu"
                 f" FROM ({cells}) WHERE x IS NOT NULL")  # fmt: skip
        sums = "count(*), count(DISTINCT i), count(DISTINCT j), sum((x - mu) ** 2), sum(mu), sum(mu + 2 * mu ** 2)"
        (found,) = self.table.ask(f"SELECT {sums} FROM ({means})")
        return Residuals(*(float(number or 0.0) for number in found))

    def first_numbers(self, columns: Iterable[str]) -> NDArray[np.float64]:
        """The first lines of columns of numbers; NaN where one is empty."""
        listed = ", ".join(f"CAST({quote(name)} AS DOUBLE)" for name in columns)
        return np.array(self.table.ask(f"SELECT {listed} FROM {self.table.sql} LIMIT {_FIRST_LINES}"), dtype=np.float64)

    def first(self, column: str) -> list[Any]:
        """The first values of a column, of the same lines as `first_numbers`."""
        return [
            value for (value,) in self.table.ask(f"SELECT {quote(column)} FROM {self.table.sql} LIMIT {_FIRST_LINES}")
        ]

    def both_ways(self, row: str, col: str, value: str | None) -> tuple[float, bool]:
        """Return which share of the pairs is listed the other way round too, and whether some with another value."""
        i, j, x = quote(row), quote(col), "1" if value is None else quote(value)
        pairs = f"SELECT {i} AS i, {j} AS j, min({x}) AS x FROM {self.table.sql} WHERE {i} <> {j} GROUP BY {i}, {j}"
        both = "FROM pairs AS a JOIN pairs AS b ON a.i = b.j AND a.j = b.i"
        counts = f"count(*), (SELECT count(*) {both}), (SELECT count(*) {both} WHERE a.x <> b.x)"
        ((listed, turned, differ),) = self.table.ask(f"WITH pairs AS ({pairs}) SELECT {counts} FROM pairs")
        return float(turned) / max(float(listed), 1.0), differ > 0

    def count_loops(self, row: str, col: str) -> int:
        """Count the lines that relate an entity with itself."""
        return int(self.table.ask(f"SELECT count(*) FROM {self.table.sql} WHERE {quote(row)} = {quote(col)}")[0][0])

    def count_repeats(self, ids: Iterable[str]) -> int:
        """Count the combinations of ids that are listed more than once; lines that lack an id do not count."""
        listed = ", ".join(map(quote, ids))
        whole = " AND ".join(f"{quote(name)} IS NOT NULL" for name in ids)
        repeated = f"SELECT {listed} FROM {self.table.sql} WHERE {whole} GROUP BY {listed} HAVING count(*) > 1"
        return int(self.table.ask(f"SELECT count(*) FROM ({repeated})")[0][0])


def look_at(source: Path, *, base: Path, report: Report) -> tuple[list[Look], list[str]]:
    """Return the tables of a folder, of a database, or of one file, and a note on what was left out or is doubtful.

    Paths are noted relative to `base`.
    """
    looks: list[Look] = []
    files, notes = files_of(source)
    for number, file in enumerate(files):
        report(file.name, number, len(files))
        try:
            tables, doubts = _look_at_file(file, base)
        except DataError as error:
            notes.append(f"{file.name} was left out: {error}")
            continue
        notes += doubts
        empty = [look.name for look in tables if not look.rows]
        notes += [f"{name} was left out: it has names of columns, and no rows." for name in empty]
        looks += [look for look in tables if look.rows]
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
    for file in sorted(source.iterdir(), key=lambda file: (file.is_symlink(), file.name)):
        named_otherwise = file.name.upper().startswith((".", "README", "LICENSE")) or file.suffix.lower() in _OTHER
        if named_otherwise or not file.is_file():
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
    """Return what to call a file: ratings for ratings.csv.gz; but all of u.user, whose ending is no format."""
    name = Path(file.name.removesuffix(".gz"))
    return "_".join(name_words(name.stem if name.suffix.lower() in ENDINGS else name.name))


def relative(file: Path, base: Path) -> str:
    """Return a path as a project file in `base` names it."""
    whole = file.parent.resolve() / file.name
    try:
        return whole.relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(whole)


def _look_at_file(file: Path, base: Path) -> tuple[list[Look], list[str]]:
    path, kind, notes = relative(file, base), guess_format(file), []
    if kind == "mtx":
        return [], []
    if kind in ("sqlite", "duckdb"):
        with duck_errors(path):
            declared = _sqlite_tables(file) if kind == "sqlite" else _duckdb_tables(file)
        return [_look(name, Source(source=path, table=name), base, key=key, foreign=foreign)
                for name, key, foreign in declared], []  # fmt: skip
    source = Source(source=path)
    table = open_table(source, base)
    if kind in ("csv", "tsv"):
        decimal, doubt = find_decimal(table, file)
        if decimal is not None:
            source = replace(source, decimal=decimal)
            table = open_table(source, base)
            notes.append(f"{path}: {doubt}")
    look = _look(table_name(file), source, base, table=table)
    if len(look.columns) < 2:
        msg = "it has one column only"
        raise DataError(msg)
    return [look], notes


Declared = list[tuple[str, str | None, dict[str, str]]]
"""Tables of a database: name, key, and which columns refer to which tables."""


def _sqlite_tables(file: Path) -> Declared:
    tables: Declared = []
    with open_sqlite(file) as lite:
        listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        for (name,) in lite.execute(listed).fetchall():
            keys = [row[1] for row in lite.execute(f"PRAGMA table_info({quote(name)})") if row[5]]
            foreign = {row[3]: row[2] for row in lite.execute(f"PRAGMA foreign_key_list({quote(name)})")}
            tables.append((name, keys[0] if len(keys) == 1 else None, foreign))
    return tables


def _duckdb_tables(file: Path) -> Declared:
    with closing(connect(file)) as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
        constraints = connection.execute(
            "SELECT table_name, constraint_type, constraint_column_names[1], referenced_table FROM duckdb_constraints()"
            " WHERE len(constraint_column_names) = 1"
        ).fetchall()
    keys = {table: column for table, kind, column, _ in constraints if kind == "PRIMARY KEY"}
    foreign = [(table, column, to) for table, kind, column, to in constraints if kind == "FOREIGN KEY"]
    return [(name, keys.get(name), {column: to for table, column, to in foreign if table == name})
            for (name,) in names]  # fmt: skip


def _look(  # noqa: PLR0913 - by name
    name: str,
    source: Source,
    base: Path,
    *,
    table: Table | None = None,
    key: str | None = None,
    foreign: dict[str, str] | None = None,
) -> Look:
    table = table or open_table(source, base)
    rows, columns = summarize(table)
    look = Look(name, source, table, rows, columns, key, foreign or {})
    look = look if key else replace(look, key=_find_key(look))
    bits = len(columns) > 1 and all(column.is_bits and not column.is_id for column in columns.values())
    if look.key is not None or not bits:
        return look
    # None of the columns of nothing but 0 and 1 can hold ids: the lines are numbered instead.
    number = f"{look.stem}_row"
    while number in columns:
        number += "_"
    query = f"SELECT row_number() OVER () AS {quote(number)}, * FROM {quote(source.table or 'source')}"
    return _look(name, replace(source, table=None, query=query), base, key=number)


def _find_key(look: Look) -> str | None:
    """Return the column that could be a key: unique, named as an id or as the table, or else the first."""
    unique = [column for column in look.columns.values()
              if column.may_be_ids and column.distinct == look.rows > 0 and not column.nulls
              and (column.is_id or not column.is_bits)]  # fmt: skip
    named = [column for column in unique if column.is_id or look.stem_of(column) == look.stem]
    first = next(iter(look.columns), None)
    # In a table of pairs the first ids may happen to be all different; a second column of ids gives it away.
    pairs = sum(column.is_id for column in look.columns.values()) > 1
    for column in named:
        if not pairs or look.stem_of(column) == look.stem or column.name == first:
            return column.name
    return first if not named and first in [column.name for column in unique] and not pairs else None
