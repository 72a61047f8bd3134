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
from gcmf.io.files import GZIP, open_bytes, text_encoding
from gcmf.io.sql import MISSING, NUMBERS, call, literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gcmf.io.schema import Source

ENCODINGS = ("utf-8", "latin-1")
"""Those that are tried, and that DuckDB can read."""
MANY = 300
"""From so many columns on a text is read at once: DuckDB's search for its form takes longer than all the rest."""
_SEPARATORS = ",;\t|"
_ABSENT = (*MISSING, *(f" {one}" for one in MISSING))
"""A space may stand after a separator; numbers are read with it, and so is what says that there is none."""
_ASKED = ("Delimiter", "Quote", "Escape", "NewLineDelimiter", "Comment", "SkipRows", "HasHeader", "Columns",
          "DateFormat", "TimestampFormat")  # fmt: skip
_BLOCK = 2**26
_GROUPED = {".": r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", ",": r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?"}
"""Numbers with groups of thousands, by their decimal sign."""


@dataclass(frozen=True)
class Text:
    """How to read a text file."""

    sql: str
    """What stands after FROM."""
    repeated: tuple[str, ...] = ()
    """Names that its header has twice; they become two columns."""
    arrow: Any = None
    """All of it as an Arrow table, if it was read at once."""


class _Unfit(Exception):  # noqa: N818 - nobody but this module meets it
    """An encoding does not fit."""


def read_text(connection: Any, path: Path, source: Source, *, kind: str) -> Text:  # noqa: ANN401 - DuckDB's
    """Look at the whole text once for its types, so that one odd value late in a file is not a surprise.

    Raises
    ------
    DataError
        When the file is empty or no text, or its lines are not all of one length.
    """
    import duckdb  # noqa: PLC0415 - an extra

    label = source.source
    said = text_encoding(path, label=label)
    tried = (_known(source.encoding, label),) if source.encoding else (said,) if said else ENCODINGS
    for number, encoding in enumerate(tried, start=1):
        try:
            first = _first_line(path, encoding)
            separator = "\t" if kind == "tsv" else max(_SEPARATORS, key=first.count)
            if encoding not in ENCODINGS or first.count(separator) >= MANY:
                return _read_whole(connection, path, source, encoding=encoding, separator=separator)
            return _sniff(connection, path, source, kind=kind, encoding=encoding)
        except (duckdb.Error, _Unfit) as error:
            if number == len(tried):
                _refuse_ragged(path, label, encoding)
                if isinstance(error, _Unfit):
                    msg = f"{label} cannot be read: {error}."
                    raise DataError(msg) from error
                raise
    raise AssertionError  # some encoding was tried


def _known(encoding: str, label: str) -> str:
    """Return an encoding by the name that DuckDB has for it, or else Python."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        msg = f"{label}: there is no encoding {encoding!r}; common ones are utf-8, latin-1, cp1252 and utf-16."
        raise DataError(msg) from error
    return "latin-1" if name == "iso8859-1" else name


def _sniff(connection: Any, path: Path, source: Source, *, kind: str, encoding: str) -> Text:  # noqa: ANN401
    label = source.source
    with path.open("rb") as file:
        packed = {"compression": "gzip"} if file.read(2) == GZIP else {}
    options: dict[str, object] = {"encoding": encoding, "nullstr": _ABSENT, **packed, **_decimal_options(source)}
    form = _ask_form(connection, path, {**options, **({"delim": "\t"} if kind == "tsv" else {})})
    if len(form["Columns"]) == 1:
        _refuse_ragged(path, label, encoding)
        if " " in _first_line(path, encoding).strip():
            options["nullstr"] = MISSING
            form = _spaced(connection, path, options, label=label, encoding=encoding)
    names = next(_lines(path, form["Delimiter"], encoding, skip=form["SkipRows"]), [])
    types = {one["name"]: one["type"] for one in form["Columns"]}
    options |= _read_options(form)
    sql = call("read_csv", path, **options, columns=types)
    if not form["HasHeader"] and len(connection.execute(f"SELECT 1 FROM {sql} LIMIT 2").fetchall()) < 2:
        # Nothing tells a lone line of names from a line of data; a table that can be used has more than that.
        options["header"] = form["HasHeader"] = True
        sql = call("read_csv", path, **options, columns=dict.fromkeys(_distinct(names), "VARCHAR"))
    elif source.decimal:
        _refuse_groups(connection, call("read_csv", path, **options, columns=dict.fromkeys(types, "VARCHAR")),
                       [name for name, kind in types.items() if NUMBERS.match(kind)], source)  # fmt: skip
    return Text(sql, _repeated(names) if form["HasHeader"] else ())


def _ask_form(connection: Any, path: Path, options: dict[str, object]) -> dict[str, Any]:  # noqa: ANN401
    sniffed = call("sniff_csv", path, sample_size=-1, **options)
    answer = connection.execute(f"SELECT {', '.join(_ASKED)} FROM {sniffed}").fetchall()[0]
    return dict(zip(_ASKED, answer, strict=True))


def _read_options(form: dict[str, Any]) -> dict[str, object]:
    """Return what DuckDB found as what it is told; the text of its own proposal has names in it as they came."""
    plain = {name: "" if form[name] == "(empty)" else form[name] for name in ("Quote", "Escape", "Comment")}
    found = {
        "auto_detect": False, "delim": form["Delimiter"], "quote": plain["Quote"], "escape": plain["Escape"],
        "comment": plain["Comment"], "skip": form["SkipRows"], "header": form["HasHeader"],
        "hive_partitioning": False,
    }  # fmt: skip
    if form["NewLineDelimiter"] in (r"\n", r"\r\n", r"\r"):
        found["new_line"] = form["NewLineDelimiter"]
    for option, name in (("dateformat", "DateFormat"), ("timestampformat", "TimestampFormat")):
        if form[name]:
            found[option] = form[name]
    return found


def _decimal_options(source: Source) -> dict[str, object]:
    if source.decimal is None:
        return {}
    return {"decimal_separator": source.decimal, "thousands": "." if source.decimal == "," else ","}


def _spaced(connection: Any, path: Path, options: dict[str, object], *, label: str, encoding: str) -> dict[str, Any]:  # noqa: ANN401
    """Return the form of a text whose values stand between spaces."""
    import duckdb  # noqa: PLC0415 - an extra

    first = _first_line(path, encoding).strip()
    if "  " not in first:  # a run of spaces would be taken for values that are missing
        with suppress(duckdb.Error):
            return _ask_form(connection, path, {**options, "delim": " "})
    msg = (
        f"{label}: no separator was found ({first[:80]!r}). Values may stand between commas, semicolons, tabs, bars"
        " or single spaces; replace runs of spaces by one separator."
    )
    raise DataError(msg)


def _refuse_groups(connection: Any, texts: str, numbers: list[str], source: Source) -> None:  # noqa: ANN401
    """Refuse a number whose groups are none: with decimal = ".", DuckDB would read 3,5 as 35."""
    point = source.decimal or "."
    group = "." if point == "," else ","
    for name in numbers:
        found = connection.execute(
            f"SELECT row, x FROM (SELECT row_number() OVER () AS row, {quote(name)} AS x FROM {texts})"
            f" WHERE contains(x, {literal(group)}) AND NOT regexp_full_match(trim(x), {literal(_GROUPED[point])})"
            " ORDER BY row LIMIT 1"
        ).fetchall()
        if found:
            row, value = found[0]
            msg = (
                f"{source.source}, column {name!r}, row {row}: {value!r} is no number where {point!r} is the decimal"
                f" sign and {group!r} groups thousands; correct it, or say decimal = {group!r}."
            )
            raise DataError(msg)


def _read_whole(connection: Any, path: Path, source: Source, *, encoding: str, separator: str) -> Text:  # noqa: ANN401
    """Read a text of many columns, or of an encoding that DuckDB does not know, at once, by Arrow."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    names = next(_lines(path, separator, encoding), [])
    nameless = _looks_like_values(names)
    reading = arrow_csv.ReadOptions(encoding=encoding, block_size=_BLOCK, autogenerate_column_names=nameless)
    parsing = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    converting = arrow_csv.ConvertOptions(null_values=list(_ABSENT), strings_can_be_null=True,
                                          decimal_point=source.decimal or ".")  # fmt: skip
    try:
        with open_bytes(path) as file:
            table = arrow_csv.read_csv(file, read_options=reading, parse_options=parsing, convert_options=converting)
    except (pa.ArrowException, UnicodeError, OSError) as error:
        raise _Unfit(" ".join(str(error).split())[:300]) from error
    if any(pa.types.is_binary(kind) for kind in table.schema.types):
        msg = f"it is not all {encoding}"
        raise _Unfit(msg)
    labels = [f"column{at}" for at in range(len(names))] if nameless else _distinct(names)
    table = table.rename_columns(labels)
    connection.register("gcmf_arrow", table)
    return Text("gcmf_arrow", () if nameless else _repeated(names), table)


def _looks_like_values(names: list[str]) -> bool:
    """Whether a first line is one of data: numbers, and not whole and all different as numbers of films may be."""
    rest = [name.strip() for name in names[1:]]
    numbers = all(re.fullmatch(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", one) or one in MISSING for one in rest)
    return numbers and not (all(one.isdigit() for one in rest) and len(set(rest)) == len(rest))


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


def _refuse_ragged(path: Path, label: str, encoding: str) -> None:
    """Raise the error of the first line that has another number of values than the header, if there is one."""
    first = _first_line(path, encoding)
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


def _first_line(path: Path, encoding: str) -> str:
    with _open(path, encoding) as file:
        return file.readline()


def _lines(path: Path, separator: str, encoding: str, *, skip: int = 0) -> Iterator[list[str]]:
    with _open(path, encoding) as file:
        try:
            yield from csv.reader(islice(file, skip, None), delimiter=separator)
        except csv.Error as error:
            msg = f"{path.name} cannot be read: {error}; is a quote left open?"
            raise DataError(msg) from error


def _open(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a text; what does not fit the encoding is replaced, since DuckDB or Arrow will say so."""
    plain = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    return io.TextIOWrapper(io.BufferedReader(open_bytes(path)), encoding=plain, errors="replace", newline="")
