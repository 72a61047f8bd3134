"""Text files as tables: DuckDB finds separator, header and types; what it cannot say of odd files is said here."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError
from gcmf.io.sql import literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

ENCODINGS = ("utf-8", "latin-1")
_SEPARATORS = ",;\t|"


@dataclass(frozen=True)
class Text:
    """How to read a text file."""

    sql: str
    """What stands after FROM."""
    repeated: tuple[str, ...] = ()
    """Names that its header has twice; DuckDB makes two columns of them."""


def read_text(connection: Any, path: Path, *, label: str, kind: str, encoding: str | None) -> Text:  # noqa: ANN401
    """Look at the whole text once for its types, so that one odd value late in a file is not a surprise.

    Raises
    ------
    DataError
        When the file is empty, or its lines are not all of one length.
    """
    import duckdb  # noqa: PLC0415 - an extra

    if not path.stat().st_size:
        msg = f"{label} is empty: there is not even a line with the names of the columns."
        raise DataError(msg)
    tried = (encoding,) if encoding else ENCODINGS
    for number, one in enumerate(tried, start=1):
        try:
            return _sniff(connection, path, label=label, kind=kind, encoding=one)
        except duckdb.Error:
            if number == len(tried):
                _refuse_ragged(path, label, one)
                raise
    raise AssertionError  # some encoding was tried


def _sniff(connection: Any, path: Path, *, label: str, kind: str, encoding: str) -> Text:  # noqa: ANN401
    import duckdb  # noqa: PLC0415 - an extra

    options = (", delim = '\t'" if kind == "tsv" else "") + f", sample_size = -1, encoding = {literal(encoding)}"
    asked = f"SELECT Prompt, Delimiter, HasHeader, Columns FROM sniff_csv({literal(path)}{options})"
    prompt, separator, header, columns = connection.execute(asked).fetchone()
    if len(columns) == 1:
        _refuse_ragged(path, label, encoding)
    sql = prompt.strip().removesuffix(";").removeprefix("FROM ")
    try:
        connection.execute(f"DESCRIBE SELECT * FROM {sql}")
    except duckdb.ParserException:  # what DuckDB proposes does not escape quotes in the names of columns
        sql = f"read_csv({literal(path)}{options})"
    if not header and len(connection.execute(f"SELECT 1 FROM {sql} LIMIT 2").fetchall()) < 2:
        # Nothing tells a lone line of names from a line of data; a table that can be used has more than that.
        sql = f"read_csv({literal(path)}, delim = {literal(separator)}, header = true, encoding = {literal(encoding)})"
    names = next(_lines(path, separator, encoding), []) if header else []
    return Text(sql, tuple(name for name, times in Counter(names).items() if times > 1))


def _refuse_ragged(path: Path, label: str, encoding: str) -> None:
    """Raise the error of the first line that has another number of values than the header, if there is one."""
    with _open(path, encoding) as file:
        first = file.readline()
    separator = max(_SEPARATORS, key=first.count)
    if separator not in first:
        return
    lines = _lines(path, separator, encoding)
    width = len(next(lines, []))
    for row, line in enumerate(lines, start=1):
        if line and len(line) != width:
            msg = (
                f"{label}, row {row}: it has {len(line)} values and the header {width} ({separator.join(line)[:80]!r});"
                f" correct the line, or put quotes around a value that holds {separator!r}."
            )
            raise DataError(msg)


def _lines(path: Path, separator: str, encoding: str) -> Iterator[list[str]]:
    with _open(path, encoding) as file:
        yield from csv.reader(file, delimiter=separator)


def _open(path: Path, encoding: str) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")
