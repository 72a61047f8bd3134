"""Parquet files with a line per cell, read in batches."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.relation import Relation
from gcmf.data.schema import Columns
from gcmf.data.spilled import Batch, spill
from gcmf.errors import DataError, MissingExtraError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gcmf.data.files import Files

_BATCH = 1 << 20
"""Lines that are held at a time."""


def parquet_source(sources: Mapping[Any, str | Path]) -> tuple[str, Callable[[Files], tuple[list[Relation], None]]]:
    """Return what tells these files from others, and what reads them: the arguments of `Collection._on_disk`."""
    named = [(relation_key(key), _existing(path)) for key, path in sources.items()]
    parts = [line for key, path in named for line in (repr(key), *described(path))]

    def read(files: Files) -> tuple[list[Relation], None]:
        return [_read(*key, path, files) for key, path in named], None

    return digest(parts), read


def dask_source(frames: Mapping[Any, Any]) -> tuple[str, Callable[[Files], tuple[list[Relation], None]]]:
    """The same of Dask data frames, which are written as Parquet first, partition by partition."""
    named = [(relation_key(key), frame) for key, frame in frames.items()]
    for (name, *_), frame in named:
        if not (hasattr(frame, "to_parquet") and hasattr(frame, "npartitions")):
            msg = f"relation {name!r}: from_dask takes Dask data frames, not {type(frame).__name__}."
            raise DataError(msg)
    # Dask names a frame by what it is computed from.
    parts = [repr((key, getattr(frame, "_name", id(frame)))) for key, frame in named]

    def read(files: Files) -> tuple[list[Relation], None]:
        staged, relations = files.folder / "parquet", []
        for key, frame in named:
            frame.to_parquet(str(staged), write_index=False)
            relations.append(_read(*key, staged, files))
            shutil.rmtree(staged)
        return relations, None

    return digest(parts), read


def relation_key(key: object) -> tuple[str, str, str]:
    """Return the name, the row set and the column set of a relation that a key of a mapping names."""
    if not (isinstance(key, tuple) and len(key) in (2, 3) and all(isinstance(part, str) for part in key)):
        msg = (
            f"the key {key!r} does not name a relation; use (rows, cols) or (rows, cols, name), such as"
            f' ("user", "movie").'
        )
        raise DataError(msg)
    rows, cols = key[:2]
    return key[2] if len(key) == 3 else f"{rows}-{cols}", rows, cols


def described(path: Path) -> list[str]:
    """Return a line for a file, or for each in a folder, that changes when it is written to."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return [f"{file.resolve()} {(about := file.stat()).st_size} {about.st_mtime_ns}" for file in files]


def digest(lines: list[str]) -> str:
    """Return a short text that is the same for the same lines alone."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _existing(path: str | Path) -> Path:
    if not Path(path).exists():
        msg = f"{path}: there is no such file or folder."
        raise DataError(msg)
    return Path(path)


def _read(name: str, rows: str, cols: str, path: Path, files: Files) -> Relation:
    if rows == cols:
        msg = f"relation {name!r} joins {rows!r} with itself, which from_parquet cannot read; use a project file."
        raise DataError(msg)
    data = _open(path)
    value = _value_column(name, data.schema.names, (rows, cols), path)
    kinds = {field.name: str(field.type) for field in data.schema}
    columns = [rows, cols, *([value] if value else [])]

    def batches() -> Iterator[Batch]:
        for batch in _scan(data, columns):
            row, col = (_ids(batch.column(end), name, column) for end, column in ((0, rows), (1, cols)))
            yield Batch(row, col, _numbers(batch.column(2), name, value) if value else np.ones(len(batch)))

    likelihood = "bernoulli" if value and kinds[value] == "bool" else "gaussian"
    cells = replace(spill(batches, files), columns=Columns(rows, cols, value))
    return Relation(name, rows, cols, cells, likelihood)


def _open(path: Path) -> Any:  # noqa: ANN401 - Arrow's
    try:
        import pyarrow as pa  # noqa: PLC0415 - who reads no files need not have it
        from pyarrow import dataset  # noqa: PLC0415
    except ImportError as error:
        msg = f"Reading Parquet needs {error.name}, which is not installed: pip install 'gcmf[io]'."
        raise MissingExtraError(msg) from error
    try:
        return dataset.dataset(path, format="parquet")
    except (pa.ArrowException, OSError) as error:
        msg = f"{path} cannot be read as Parquet: {error}"
        raise DataError(msg) from error


def _scan(data: Any, columns: list[str]) -> Iterator[Any]:  # noqa: ANN401 - Arrow's
    from pyarrow import dataset  # noqa: PLC0415

    # Arrow would keep all that it has read of a file until its end.
    little = dataset.ParquetFragmentScanOptions(pre_buffer=False)
    yield from data.to_batches(
        columns=columns, batch_size=_BATCH, batch_readahead=2, fragment_readahead=1, fragment_scan_options=little
    )


def _value_column(name: str, columns: list[str], ends: tuple[str, str], path: Path) -> str | None:
    """Return the column that names no entity set; refuse files without the columns of ids, or with several others."""
    faults = [
        f"relation {name!r}: {path} has no column {end!r}; it has {', '.join(columns[:20])}."
        f"{did_you_mean(end, columns)}"
        for end in ends
        if end not in columns
    ]
    others = [column for column in columns if column not in ends]
    if not faults and len(others) > 1:
        faults = [
            f"relation {name!r}: {path} has the columns {', '.join(others[:20])} beside its ids, and one at most can"
            " hold the values; leave the others out, or say which in a project file."
        ]
    if faults:
        raise DataError(faults)
    return others[0] if others else None


def _ids(column: Any, name: str, label: str) -> Any:  # noqa: ANN401 - Arrow's
    """Return ids as int64 or as texts; refuse other kinds, and null ones."""
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    whole = pa.types.is_integer(kind)
    if not (whole or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        msg = f"relation {name!r}: the column {label!r} holds {kind}; ids are whole numbers or texts here: cast them."
        raise DataError(msg)
    if column.null_count:
        msg = f"relation {name!r}: a null id in column {label!r}; drop such lines or give them an id."
        raise DataError(msg)
    return column.cast(pa.int64() if whole else pa.string())


def _numbers(column: Any, name: str, label: str) -> Any:  # noqa: ANN401 - Arrow's
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        msg = f"relation {name!r}: the column {label!r} holds {kind}, not numbers; cast it, or leave it out."
        raise DataError(msg)
    # Integers with nulls and booleans become numbers here, with NaN for null.
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
