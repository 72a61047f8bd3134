"""Files that sources name: which there are, and of what format."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

from gcmf.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from io import BufferedIOBase
    from pathlib import Path

GZIP = b"\x1f\x8b"
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
_SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_OLD_SHEET = b"\xd0\xcf\x11\xe0"
_ARCHIVES = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf")
_HEAD = 4096


def find_file(source: str, folder: Path) -> Path:
    """Return the file that a source names; refuse what cannot be read twice: an address, a folder, a pipe."""
    path = folder / source
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", source):
        msg = f"{_without_secrets(source)}: a source is a file, not an address; download it, and name the file."
    elif not source or "\x00" in source:
        msg = f"{source!r} is no name of a file."
    elif re.search("[\ud800-\udfff]", str(path.absolute())):
        msg = f"{source}: its name, or that of a folder above it, is not UTF-8; rename it."
    elif path.is_file():
        return path
    elif path.is_dir():
        msg = f"{source} is a folder; name a file in it, or let `gcmf init` look at it."
    elif path.exists():
        msg = f"{source} is a pipe or a device; write what comes out of it to a file, and name that."
    else:
        there = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        msg = f"{source}: there is no such file in {path.parent}.{did_you_mean(path.name, there)}"
    raise DataError(msg)


def _without_secrets(address: str) -> str:
    """Return an address without user, password and what follows a ?."""
    return re.sub(r"//[^/?#]*@", "//", address).partition("?")[0]


def guess_format(path: Path) -> str:
    """Return the format of a file by its first bytes or its ending; text is CSV, whatever its separator.

    What is of a kind that is not read is refused, with what to do.
    """
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith((_OLD_SHEET, *_ARCHIVES)):
        sheet = head.startswith(_OLD_SHEET) or path.suffix.lower() in _SHEETS
        msg = f"{path.name} cannot be read: {_SHEET if sheet else _ARCHIVE}."
        raise DataError(msg)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[8:12] == b"DUCK":
        return "duckdb"
    endings = [ending.lower() for ending in reversed(path.suffixes)]
    return next((_FORMATS[ending] for ending in endings if ending in _FORMATS), "csv")


def open_bytes(path: Path) -> BufferedIOBase:
    """Open a file, unpacked if it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return gzip.GzipFile(path) if packed else path.open("rb")


def is_utf_16(path: Path, *, label: str) -> bool:
    """Whether a text begins as UTF-16 does; what is empty or no text is refused."""
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except (OSError, EOFError) as error:
        msg = f"{label} cannot be read: {error}."
        raise DataError(msg) from error
    if not head:
        msg = f"{label} is empty: there is not even a line with the names of the columns."
        raise DataError(msg)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    if b"\x00" in head:
        msg = f"{label}: it is no text, and of no known kind."
        raise DataError(msg)
    return False
