"""Text files as tables: DuckDB finds separator, header and types; what it cannot say of odd files is said here."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError
from gcmf.io.sources.duck import MISSING, NUMBERS, call, literal, quote
from gcmf.io.sources.files import GZIP, is_utf_16, open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gcmf.io.sources.duck import Connection
    from gcmf.io.sources.specs import Source

MANY = 300
"""From so many columns on a text is read at once: DuckDB's search for its form takes longer than all the rest."""
_ENCODINGS = ("utf-8", "latin-1")
"""Those that are tried, and that DuckDB can read."""
_SEPARATORS = ",;\t|"
_ABSENT = (*MISSING, *(f" {word}" for word in MISSING))
"""A space may stand after a separator; numbers are read with it, and so is what says that there is none."""
_ASKED = ("Delimiter", "Quote", "Escape", "NewLineDelimiter", "Comment", "SkipRows", "HasHeader", "Columns",
          "DateFormat", "TimestampFormat")  # fmt: skip
_BLOCK = 2**26
_GROUPED = {".": r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", ",": r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?"}
"""Numbers with groups of thousands, by their decimal sign."""


@dataclass(frozen=True)
class Readable:
    """How DuckDB reads a file."""

    sql: str
    """What stands after FROM."""
    repeated: tuple[str, ...] = ()
    """Names that the header of a text has twice; they become two columns."""
    arrow: Any = None
    """All of it as an Arrow table, if it was read at once."""


class _UnfitError(Exception):
    """An encoding does not fit."""


@dataclass(frozen=True)
class _Text:
    """The lines of a file in some encoding; what does not fit it is replaced, as DuckDB or Arrow will say so."""

    path: Path
    label: str
    encoding: str

    def open(self) -> io.TextIOWrapper:
        encoding = "utf-8-sig" if self.encoding == "utf-8" else self.encoding
        raw = io.BufferedReader(open_bytes(self.path))
        return io.TextIOWrapper(raw, encoding=encoding, errors="replace", newline="")

    def first_line(self) -> str:
        with self.open() as file:
            return file.readline()

    def separator(self) -> str:
        return max(_SEPARATORS, key=self.first_line().count)

    def lines(self, separator: str, *, skip: int = 0) -> Iterator[list[str]]:
        with self.open() as file:
            try:
                yield from csv.reader(islice(file, skip, None), delimiter=separator)
            except csv.Error as error:
                msg = f"{self.path.name} cannot be read: {error}; is a quote left open?"
                raise DataError(msg) from error

    def refuse_ragged(self) -> None:
        """Raise the error of the first line that has another number of values than the header, if there is one."""
        separator = self.separator()
        lines = self.lines(separator)
        width = len(next(lines, []))
        for row, line in enumerate(lines if width > 1 else (), start=1):
            if line and len(line) != width:
                msg = (
                    f"{self.label}, row {row}: it has {len(line)} values and the header {width}"
                    f" ({separator.join(line)[:80]!r}); correct the line, or put quotes around a value that holds"
                    f" {separator!r}."
                )
                raise DataError(msg)


def read_text(connection: Connection, path: Path, source: Source, *, kind: str) -> Readable:
    """Look at the whole text once for its types, so that one odd value late in a file is not a surprise.

    A file that is empty or no text, or whose lines are not all of one length, is refused.
    """
    import duckdb

    utf_16 = is_utf_16(path, label=source.source)
    encodings = (_encoding_of(source),) if source.encoding else ("utf-16",) if utf_16 else _ENCODINGS
    for encoding in encodings:
        text = _Text(path, source.source, encoding)
        try:
            separator = "\t" if kind == "tsv" else text.separator()
            if encoding not in _ENCODINGS or text.first_line().count(separator) >= MANY:
                return _read_whole(connection, text, source, separator=separator)
            return _sniff(connection, text, source, kind=kind)
        except (duckdb.Error, _UnfitError) as error:
            if encoding != encodings[-1]:
                continue
            text.refuse_ragged()
            if isinstance(error, _UnfitError):
                msg = f"{source.source} cannot be read: {error}."
                raise DataError(msg) from error
            raise
    raise AssertionError  # some encoding was tried


def _encoding_of(source: Source) -> str:
    """Return the encoding that a source names, as DuckDB calls it, or else Python."""
    try:
        name = codecs.lookup(source.encoding or "").name
    except (LookupError, ValueError) as error:
        said = f"{source.source}: there is no encoding {source.encoding!r};"
        msg = f"{said} common ones are utf-8, latin-1, cp1252 and utf-16."
        raise DataError(msg) from error
    return "latin-1" if name == "iso8859-1" else name


def _sniff(connection: Connection, text: _Text, source: Source, *, kind: str) -> Readable:
    options: dict[str, object] = {"encoding": text.encoding, "nullstr": _ABSENT}
    with text.path.open("rb") as file:
        if file.read(2) == GZIP:
            options["compression"] = "gzip"
    if source.decimal is not None:
        options |= {"decimal_separator": source.decimal, "thousands": "." if source.decimal == "," else ","}
    form = _ask_form(connection, text.path, {**options, **({"delim": "\t"} if kind == "tsv" else {})})
    if len(form["Columns"]) == 1:
        text.refuse_ragged()
        if " " in text.first_line().strip():
            options["nullstr"] = MISSING
            form = _ask_spaced_form(connection, text, options)
    names = next(text.lines(form["Delimiter"], skip=form["SkipRows"]), [])
    types = {column["name"]: column["type"] for column in form["Columns"]}
    options |= _read_options(form)
    sql = call("read_csv", text.path, **options, columns=types)
    if not form["HasHeader"] and len(connection.execute(f"SELECT 1 FROM {sql} LIMIT 2").fetchall()) < 2:
        # Nothing tells a lone line of names from a line of data; a table that can be used has more than that.
        options["header"] = form["HasHeader"] = True
        sql = call("read_csv", text.path, **options, columns=dict.fromkeys(_distinct(names), "VARCHAR"))
    elif source.decimal:
        as_texts = call("read_csv", text.path, **options, columns=dict.fromkeys(types, "VARCHAR"))
        _refuse_groups(connection, as_texts, [name for name, kind in types.items() if NUMBERS.match(kind)], source)
    return Readable(sql, _repeated(names) if form["HasHeader"] else ())


def _ask_form(connection: Connection, path: Path, options: dict[str, object]) -> dict[str, Any]:
    sniffed = call("sniff_csv", path, sample_size=-1, **options)
    answer = connection.execute(f"SELECT {', '.join(_ASKED)} FROM {sniffed}").fetchall()[0]
    return dict(zip(_ASKED, answer, strict=True))


def _ask_spaced_form(connection: Connection, text: _Text, options: dict[str, object]) -> dict[str, Any]:
    """Return the form of a text whose values stand between spaces."""
    import duckdb

    first = text.first_line().strip()
    if "  " not in first:  # a run of spaces would be taken for values that are missing
        with suppress(duckdb.Error):
            return _ask_form(connection, text.path, {**options, "delim": " "})
    msg = (
        f"{text.label}: no separator was found ({first[:80]!r}). Values may stand between commas, semicolons, tabs,"
        " bars or single spaces; replace runs of spaces by one separator."
    )
    raise DataError(msg)


def _read_options(form: dict[str, Any]) -> dict[str, object]:
    """Return what DuckDB found as what it is told; the text of its own proposal has names in it as they came."""
    options = {name.lower(): "" if form[name] == "(empty)" else form[name] for name in ("Quote", "Escape", "Comment")}
    options |= {"auto_detect": False, "delim": form["Delimiter"], "skip": form["SkipRows"],
                "header": form["HasHeader"], "hive_partitioning": False}  # fmt: skip
    if form["NewLineDelimiter"] in (r"\n", r"\r\n", r"\r"):
        options["new_line"] = form["NewLineDelimiter"]
    return options | {name.lower(): form[name] for name in ("DateFormat", "TimestampFormat") if form[name]}


def _refuse_groups(connection: Connection, texts: str, numbers: list[str], source: Source) -> None:
    """Refuse a number whose groups are none: with decimal = ".", DuckDB would read 3,5 as 35."""
    point = source.decimal or "."
    group = "." if point == "," else ","
    for name in numbers:
        wrong = connection.execute(
            f"SELECT row, x FROM (SELECT row_number() OVER () AS row, {quote(name)} AS x FROM {texts})"
            f" WHERE contains(x, {literal(group)}) AND NOT regexp_full_match(trim(x), {literal(_GROUPED[point])})"
            " ORDER BY row LIMIT 1"
        ).fetchone()
        if wrong:
            msg = (
                f"{source.source}, column {name!r}, row {wrong[0]}: {wrong[1]!r} is no number where {point!r} is the"
                f" decimal sign and {group!r} groups thousands; correct it, or say decimal = {group!r}."
            )
            raise DataError(msg)


def _read_whole(connection: Connection, text: _Text, source: Source, *, separator: str) -> Readable:
    """Read a text of many columns, or of an encoding that DuckDB does not know, at once, by Arrow."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = next(text.lines(separator), [])
    nameless = _looks_like_values(names)
    reading = arrow_csv.ReadOptions(encoding=text.encoding, block_size=_BLOCK, autogenerate_column_names=nameless)
    parsing = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    converting = arrow_csv.ConvertOptions(null_values=list(_ABSENT), strings_can_be_null=True,
                                          decimal_point=source.decimal or ".")  # fmt: skip
    try:
        with open_bytes(text.path) as file:
            table = arrow_csv.read_csv(file, read_options=reading, parse_options=parsing, convert_options=converting)
    except (pa.ArrowException, UnicodeError, OSError) as error:
        raise _UnfitError(" ".join(str(error).split())[:300]) from error
    if any(pa.types.is_binary(kind) for kind in table.schema.types):
        msg = f"it is not all {text.encoding}"
        raise _UnfitError(msg)
    table = table.rename_columns([f"column{at}" for at in range(len(names))] if nameless else _distinct(names))
    connection.register("gcmf_arrow", table)
    return Readable("gcmf_arrow", () if nameless else _repeated(names), table)


def _looks_like_values(names: list[str]) -> bool:
    """Whether a first line is one of data: numbers, and not whole and all different as numbers of films may be."""
    rest = [name.strip() for name in names[1:]]
    number = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
    if not all(number.fullmatch(name) or name in MISSING for name in rest):
        return False
    return not all(name.isdigit() for name in rest) or len(set(rest)) < len(rest)


def _distinct(names: list[str]) -> list[str]:
    """Return names as DuckDB makes them distinct, whatever their case: x, x_1; an empty one is its place."""
    made: dict[str, str] = {}
    for at, name in enumerate(names):
        new = plain = name or f"column{at}"
        number = 0
        while new.lower() in made:
            number += 1
            new = f"{plain}_{number}"
        made[new.lower()] = new
    return list(made.values())


def _repeated(names: list[str]) -> tuple[str, ...]:
    return tuple(name for name, times in Counter(names).items() if times > 1)
