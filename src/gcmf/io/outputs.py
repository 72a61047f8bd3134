"""Tables into files or a database: whole or not at all, and over nothing that is there unless told to."""

from __future__ import annotations

import re
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gcmf.errors import MissingExtraError, OptionError, StorageError
from gcmf.io.database import DatabaseTable, write_rows
from gcmf.io.sources.postgres import check_address, is_address
from gcmf.storage.files import check_target, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable

Target = Path | DatabaseTable
"""Where a table goes."""
_KINDS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
"""How a text begins that a spreadsheet may run, or such a text that was marked as none."""
_MARKED = (
    "Ids or names that begin with =, +, - or @ have a ' in front of them in CSV, so that no spreadsheet runs them as "
    "formulas. Parquet and JSON lines have them as they are."
)


def make_folder(folder: Path) -> None:
    """Make a folder, if it is not there, before anybody waits for what goes into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file; name a folder" if folder.is_file() else f"{error.strerror}. Choose another one"
        msg = f"Cannot make the folder {folder}: {why}."
        raise StorageError(msg) from error


def check_new(path: Path, *, force: bool) -> None:
    """Refuse a path at which no file can come to lie, and unless `force` one at which a file lies."""
    if check_target(path, what="a file").exists() and not force:
        msg = f"{path} is there already. Give --force to replace it, or another name."
        raise StorageError(msg)


def check_model(path: Path, *, force: bool) -> None:
    """Refuse a path at which something lies that is no model, unless `force`: a fit replaces only older fits."""
    from safetensors import SafetensorError, safe_open

    if path.is_file() and not force:
        try:
            with safe_open(path, framework="numpy") as file:
                is_model = "gcmf" in (file.metadata() or {})
        except (SafetensorError, OSError):
            is_model = False
        if not is_model:
            msg = f"{path} is there already, and is no gcmf model. Give --force to replace it, or -o with another name."
            raise StorageError(msg)
    check_new(path, force=True)


def target_of(out: str | None, table: str | None, *, force: bool) -> Target | None:
    """Return where a table goes, a file or a table of a server; what cannot be is refused before any work."""
    if out is None or not is_address(out):
        if table is not None:
            msg = "--table names a table of a database: give its address with -o, such as -o postgresql:///DATABASE."
            raise OptionError(msg)
        if out is None:
            return None
        check_new(Path(out), force=force)
        table_kind(Path(out))
        return Path(out)
    check_address(out)
    if table is None:
        msg = f"{out} is a database: say with --table which table is to be written."
        raise OptionError(msg)
    target = DatabaseTable(out, table, force)
    target.check()
    return target


def table_kind(path: Path) -> str:
    """Return what the ending of a file says that it holds."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        ending = path.suffix
        why = f"no table is written as {ending}" if ending else "its name has no ending, which says the format"
        msg = f"Cannot write {path}: {why}. Use .parquet, .csv, .tsv, or .jsonl (a JSON object per line)."
        raise OptionError(msg)
    return kind


def write_table(parts: Iterable[pd.DataFrame], path: Target) -> int:
    """Write frames one after the other into one table, and return the number of rows; it is replaced whole."""
    if isinstance(path, DatabaseTable):
        return write_rows([(parts, path)])
    kind = table_kind(path)
    with replacing(path, what="a table") as partial:
        return _write(parts, partial, kind)


def write_tables(tables: Iterable[tuple[pd.DataFrame, Path]]) -> None:
    """Write many files, which all get their names together, when the last is whole."""
    with ExitStack() as written:
        for frame, path in tables:
            _write([frame], written.enter_context(replacing(path, what="a table")), table_kind(path))


def _write(parts: Iterable[pd.DataFrame], path: Path, kind: str) -> int:
    rows = 0
    if kind == "jsonl":
        with path.open("w", encoding="utf-8") as file:
            for frame in parts:
                file.write(as_json_lines(frame))
                rows += len(frame)
        return rows
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError as error:
        msg = "Writing tables needs pyarrow, which is not installed: pip install 'gcmf[io]'."
        raise MissingExtraError(msg) from error
    writer: Any = None
    schema = None
    with ExitStack() as opened:
        for frame in parts:
            safe = frame if kind == "parquet" else without_formulas(frame)
            table = pa.Table.from_pandas(safe, schema, preserve_index=False)
            if writer is None:
                schema = table.schema
                if kind == "parquet":
                    writer = opened.enter_context(parquet.ParquetWriter(path, schema))
                else:
                    how = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
                    writer = opened.enter_context(csv.CSVWriter(path, schema, write_options=how))
            writer.write_table(table)
            rows += len(frame)
    return rows


def as_json_lines(frame: pd.DataFrame) -> str:
    """Return a line per row, with as many digits as pandas can give."""
    return str(frame.to_json(orient="records", lines=True, double_precision=15)) if len(frame) else ""


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose texts no spreadsheet runs as formulas; warn if a text was changed for that.

    A spreadsheet that opens a CSV file runs every text that begins with =, +, -, @, a tab or a line end, whoever
    gave it. Such ids and headers get an apostrophe in front, which spreadsheets take for "this is text"; so do those
    that begin with apostrophes and then such a sign, so that no two ids become one. Numbers stay as they are, also
    those that are written as text: "-1.5".
    """
    safe = frame.rename(columns=_marked)
    changed = list(safe.columns) != list(frame.columns)
    for at, dtype in enumerate(frame.dtypes):
        if pd.api.types.is_numeric_dtype(dtype):
            continue
        column = frame.iloc[:, at].astype(object)
        marks = {text: _marked(text) for text in column.unique() if _marked(text) is not text}
        if marks:
            safe.isetitem(at, [marks.get(value, value) for value in column])
            changed = True
    if changed:
        warnings.warn(_MARKED, stacklevel=2)
    return safe


def _marked(value: Any) -> Any:  # noqa: ANN401 - an id of any kind
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value
