"""Files that sources name: which there are, and of what format."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gcmf.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from io import BufferedIOBase

GZIP = b"\x1f\x8b"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl", ".mtx": "mtx", ".duckdb": "duckdb",
    ".sqlite": "sqlite", ".sqlite3": "sqlite",
}  # fmt: skip
ENDINGS = (*_FORMATS, ".dat", ".txt")
"""Endings that say what a file is, and not what it is about."""
_MAGIC = {b"SQLite format 3\x00": "sqlite", b"PAR1": "parquet", b"ARROW1": "arrow"}
_SHEET = "it is a spreadsheet; save its sheet as CSV (UTF-8), and name that file"
_ARCHIVE = "it is an archive; unpack it, and name the file that comes out"
_REFUSED = {b"PK\x03\x04": _ARCHIVE, b"\xd0\xcf\x11\xe0": _SHEET, b"BZh": _ARCHIVE, b"\xfd7zXZ": _ARCHIVE,
            b"\x28\xb5\x2f\xfd": _ARCHIVE, b"7z\xbc\xaf": _ARCHIVE}  # fmt: skip
_SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_HEAD = 4096


def find_file(source: str, folder: Path) -> Path:
    """Return the file that a source names.

    Raises
    ------
    DataError
        When there is none, or what there is cannot be read twice: a folder, an address, a pipe, a device.
    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", source):
        msg = f"{source}: a source is a file, not an address; download it, and name the file."
        raise DataError(msg)
    path = folder / source
    if not source or "\x00" in source:
        msg = f"{source!r} is no name of a file."
        raise DataError(msg)
    if re.search("[\ud800-\udfff]", str(path.absolute())):
        msg = f"{source}: its name, or that of a folder above it, is not UTF-8; rename it."
        raise DataError(msg)
    if path.is_file():
        return path
    if path.is_dir():
        msg = f"{source} is a folder; name a file in it, or let `gcmf init` look at it."
        raise DataError(msg)
    if path.exists():
        msg = f"{source} is a pipe or a device; write what comes out of it to a file, and name that."
        raise DataError(msg)
    near = did_you_mean(path.name, [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else [])
    msg = f"{source}: there is no such file in {path.parent}.{near}"
    raise DataError(msg)


def guess_format(path: Path) -> str:
    """Return the format of a file by its first bytes or its ending; text is CSV, whatever its separator.

    Raises
    ------
    DataError
        When the file is of a kind that is not read, with what to do.
    """
    with path.open("rb") as file:
        head = file.read(16)
    for magic, why in _REFUSED.items():
        if head.startswith(magic):
            msg = f"{path.name} cannot be read: {_SHEET if path.suffix.lower() in _SHEETS else why}."
            raise DataError(msg)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[8:12] == b"DUCK":
        return "duckdb"
    suffixes = [one.lower() for one in path.suffixes]
    return next((_FORMATS[one] for one in reversed(suffixes) if one in _FORMATS), "csv")


def stem_of_file(path: Path) -> str:
    """Return the name of a file without what says how it is written: ratings for ratings.csv.gz, u.user for u.user."""
    name = Path(path.name.removesuffix(".gz"))
    return name.stem if name.suffix.lower() in ENDINGS else name.name


def open_bytes(path: Path) -> BufferedIOBase:
    """Open a file, unpacked if it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return gzip.GzipFile(path) if packed else path.open("rb")


def text_encoding(path: Path, *, label: str) -> str | None:
    """Return "utf-16" if a text begins so, else None.

    Raises
    ------
    DataError
        When it is empty, or no text.
    """
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError) as error:
        msg = f"{label} cannot be read: {error}."
        raise DataError(msg) from error
    if not head:
        msg = f"{label} is empty: there is not even a line with the names of the columns."
        raise DataError(msg)
    if head.startswith(UTF_16):
        return "utf-16"
    if b"\x00" in head:
        msg = f"{label}: it is no text, and of no known kind."
        raise DataError(msg)
    return None
