"""People's tables out: everything a model found, as named tables, plain values, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.errors import StorageError
from gcmf.estimators.tables import bias_table, explained_table, factor_table, structure_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted


def tables(model: GCMF) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield name and content of every table: factors per entity set, structure, variance explained, biases, units.

    Ids and names are columns, so that any reader finds them.
    """
    for entity in model.schema_.entities:
        means, deviations = factor_table(model.fitted_, entity), factor_table(model.fitted_, entity, std=True)
        joined = pd.concat([means, deviations.add_suffix("_std")], axis=1)
        yield f"factors_{entity}", _with_ids(joined, entity)
    structure = structure_table(model.fitted_)
    structure["relations"] = structure["relations"].map("; ".join)
    yield "structure", _with_ids(structure, "factor")
    yield "variance_explained", _with_ids(explained_table(model.fitted_), "relation")
    for m, relation in enumerate(model.schema_.relations):
        for side, entity in enumerate((relation.rows, relation.cols)):
            bias = {"bias": bias_table(model.fitted_, m, side), "std": bias_table(model.fitted_, m, side, std=True)}
            yield f"bias_{relation.name}_{entity}", _with_ids(pd.DataFrame(bias), entity)
    for m, relation in enumerate(model.schema_.relations):
        units = _units(model.fitted_, m)
        if units is not None:
            table = pd.DataFrame.from_dict(units, orient="index", columns=["mean", "deviation"])
            yield f"units_{relation.name}", _with_ids(table, "column")


def export(model: GCMF, folder: Path, *, kind: str) -> list[Path]:
    """Write every table of a model into a folder, as Parquet or CSV, and return the files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"Cannot make the folder {folder}: {error.strerror}."
        raise StorageError(msg) from error
    files = []
    for name, frame in tables(model):
        files.append(folder / f"{name}.{kind}")
        write_parts([frame], files[-1])
    return files


def write_parts(parts: Iterable[pd.DataFrame], path: Path) -> int:
    """Write frames one after the other into one file, Parquet or (by its ending) CSV; return the number of rows.

    The file has its name only once it is whole.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import csv, parquet  # noqa: PLC0415

    partial, writer, rows = path.with_name(path.name + ".partial"), None, 0
    try:
        for frame in parts:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            if writer is None:
                make = csv.CSVWriter if path.suffix.lower() == ".csv" else parquet.ParquetWriter
                writer = make(partial, table.schema)
            writer.write_table(table)
            rows += len(frame)
        if writer is not None:
            writer.close()
            partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        msg = f"Cannot write {path}: {error.strerror or error}."
        raise StorageError(msg) from error
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return rows


def describe(model: GCMF) -> dict[str, Any]:
    """Return what there is to say of a model as plain values: schema, structure, variance explained, noise, fit."""
    fitted = model.fitted_
    explained = explained_table(model.fitted_)
    noise = np.sqrt(fitted.noise) * fitted.scale
    relations = [
        {
            "name": one.name, "rows": one.rows, "cols": one.cols, "likelihood": one.likelihood,
            "noise_std": float(noise[m]) if one.likelihood == "gaussian" else None,
            "units": _units(fitted, m),
            "explained": dict(zip(explained.columns, map(float, explained.loc[one.name].to_numpy()), strict=True)),
        }
        for m, one in enumerate(model.schema_.relations)
    ]  # fmt: skip
    factors = [
        {
            "name": str(name), "role": row["role"], "relations": list(row["relations"]),
            "activity": {entity: float(row[entity]) for entity in model.schema_.entities},
        }
        for name, row in structure_table(model.fitted_).iterrows()
    ]  # fmt: skip
    return {
        "entities": {name: len(fitted.vocabularies[name]) for name in model.schema_.entities},
        "relations": relations,
        "factors": factors,
        "fit": {
            "status": model.status_.name.lower(), "says": str(model.status_), "iterations": model.n_iter_,
            "elbo": model.elbo_,
        },
    }  # fmt: skip


def _units(fitted: Fitted, m: int) -> dict[str, list[float]] | None:
    """Mean and deviation of each column that was standardized; None for a relation without any."""
    units = fitted.units[m]
    if units is None:
        return None
    ids = fitted.vocabularies[fitted.schema.relations[m].cols].ids
    return {str(name): [float(center), float(scale)] for name, center, scale in zip(ids, *units, strict=True)}


def _with_ids(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Turn the index into a first column; ids of mixed kinds become text, as no file column can mix them."""
    index = frame.index
    ids = index.map(str) if index.dtype == object else index
    out = frame.reset_index(drop=True)
    out.insert(0, name if name not in out.columns else f"{name}_id", ids)
    return out
