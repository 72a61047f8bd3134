"""Tables into files: what the ending says, whole or not at all, and over no file that is there unless told to."""

from __future__ import annotations

import re
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from gcmf.errors import MissingExtraError, OptionError, StorageError
from gcmf.storage.files import check_target, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_KINDS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
"""How a text begins that a spreadsheet may run, or such a text that was marked as none."""
_MARKED = (
    "Ids or names that begin with =, +, - or @ have a ' in front of them in CSV, so that no spreadsheet runs them as "
    "formulas. Parquet and JSON lines have them as they are."
)


# --- where to ------------------------------------------------------------------------------------------------------


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
    if path.is_file() and not force and not _is_model(path):
        msg = f"{path} is there already, and is no gcmf model. Give --force to replace it, or -o with another name."
        raise StorageError(msg)
    check_new(path, force=True)


def _is_model(path: Path) -> bool:
    """Whether the head of a file says that `save` wrote it; what follows is not looked at."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only who may replace one

    try:
        with safe_open(path, framework="numpy") as file:
            return "gcmf" in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def table_kind(path: Path) -> str:
    """Return what the ending of a file says that it holds."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        said = (
            f"no table is written as {path.suffix}" if path.suffix else "its name has no ending, which says the format"
        )
        msg = f"Cannot write {path}: {said}. Use .parquet, .csv, .tsv, or .jsonl (a JSON object per line)."
        raise OptionError(msg)
    return kind


# --- what ----------------------------------------------------------------------------------------------------------


def write_table(parts: Iterable[pd.DataFrame], path: Path) -> int:
    """Write frames one after the other into one file, and return the number of rows; it is replaced whole."""
    kind = table_kind(path)
    with replacing(path, what="a table") as partial:
        return _write(parts, partial, kind)


def write_tables(tables: Iterable[tuple[pd.DataFrame, Path]]) -> None:
    """Write many files, which all get their names together, when the last is whole."""
    with ExitStack() as written:
        for frame, path in tables:
            _write([frame], written.enter_context(replacing(path, what="a table")), table_kind(path))


class _Writer(Protocol):
    def write_table(self, table: Any) -> None: ...  # noqa: ANN401 - Arrow's
    def close(self) -> None: ...


class _Lines:
    """JSON lines, by the protocol of Arrow's writers."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write_table(self, table: Any) -> None:  # noqa: ANN401
        self._file.write(as_json_lines(table.to_pandas()))

    def close(self) -> None:
        self._file.close()


def _write(parts: Iterable[pd.DataFrame], path: Path, kind: str) -> int:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "Writing tables needs pyarrow, which is not installed: pip install 'gcmf[io]'."
        raise MissingExtraError(msg) from error
    writer, schema, rows = None, None, 0
    try:
        for frame in parts:
            safe = without_formulas(frame) if kind in ("csv", "tsv") else frame
            table = pa.Table.from_pandas(safe, schema, preserve_index=False)
            if writer is None:
                schema = table.schema
                writer = _open(path, kind, schema)
            writer.write_table(table)
            rows += len(frame)
    finally:
        if writer is not None:
            writer.close()
    return rows


def _open(path: Path, kind: str, schema: Any) -> _Writer:  # noqa: ANN401 - Arrow's
    from pyarrow import csv, parquet  # noqa: PLC0415 - an extra

    if kind == "jsonl":
        return _Lines(path)
    if kind == "parquet":
        return parquet.ParquetWriter(path, schema)  # type: ignore[no-any-return]  # Arrow has no types
    how = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
    return csv.CSVWriter(path, schema, write_options=how)  # type: ignore[no-any-return]


def as_json_lines(frame: pd.DataFrame) -> str:
    """Return a line per row, with as many digits as pandas can give."""
    return str(frame.to_json(orient="records", lines=True, double_precision=15)) if len(frame) else ""


# --- spreadsheets --------------------------------------------------------------------------------------------------


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
    if not isinstance(value, str) or not _FORMULA.match(value) or _is_number(value):
        return value
    return "'" + value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
