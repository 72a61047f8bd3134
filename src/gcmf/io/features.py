"""Tables with a line per entity: their columns become relations between the entities and their features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.adapters.arrays import dense_cells
from gcmf.data.raw import RawCells
from gcmf.data.relation import Relation
from gcmf.data.units import Units
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import DataError
from gcmf.io.ids import Codes, id_sql, null_id_fault, repeated_id_fault
from gcmf.io.sources import number_sql, text_fault
from gcmf.io.sql import as_number, present, quote
from gcmf.io.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from gcmf.io.schema import FeatureSpec
    from gcmf.io.tables import Table

    Floats = npt.NDArray[np.float64]


def read_features(spec: FeatureSpec, folder: Path) -> list[Relation]:
    """Return the relations of a feature table, `NAME_numbers` (Gaussian) and `NAME_traits` (Bernoulli).

    A number is standardized, (x − mean)/deviation of its column, and its relation knows these units. A category
    becomes a 0/1 column for each of its values, named "city=Rome"; booleans stay as they are. Empty is missing. The
    two relations have column sets of their own, `NAME_number` and `NAME_trait`.
    """
    table = open_table(spec, folder)
    where = f"features {spec.name!r}"
    wanted = [spec.row, *spec.numeric, *spec.booleans, *spec.categories]
    faults = table.lacking(wanted, where=where)
    if faults:
        raise DataError(faults)
    ids, columns = _read(table, spec, where)
    faults = [*_id_faults(table, spec, ids)]
    for name in (*spec.numeric, *spec.booleans):
        faults += text_fault(table, name) if table.columns[name] == "VARCHAR" and name in spec.numeric else []
        faults += _column_faults(table, name, columns[name], number=name in spec.numeric)
    if faults:
        raise DataError(faults)
    columns = _in_order(columns, np.argsort(ids[0]))
    made = []
    if spec.numeric:
        x = np.column_stack([columns[name] for name in spec.numeric])
        units = Units(np.nanmean(x, axis=0), np.nanstd(x, axis=0))
        x = (x - units.center) / units.scale
        block = dense_cells(x, ~np.isnan(x), row_ids=ids[1], col_ids=Vocabulary(list(spec.numeric)))
        block = replace(block, units=units)
        made.append(Relation(f"{spec.name}_numbers", spec.rows, f"{spec.name}_number", block, "gaussian"))
    if spec.booleans or spec.categories:
        block = _one_hot(spec, columns, ids[1])
        made.append(Relation(f"{spec.name}_traits", spec.rows, f"{spec.name}_trait", block, "bernoulli"))
    return made


def _read(
    table: Table, spec: FeatureSpec, where: str
) -> tuple[tuple[npt.NDArray[np.int32], Vocabulary], dict[str, Any]]:
    """Return the ids, the numbers as floats with NaN for null, and the categories as codes and values."""
    numbers, categories = (*spec.numeric, *spec.booleans), spec.categories
    parts = [id_sql(table, spec.row)]
    parts += [_boolean_sql(table, name) if name in spec.booleans else number_sql(table, name, where=where)
              for name in numbers]  # fmt: skip
    parts += [present(name) if table.columns[name] == "VARCHAR" else f"CAST({quote(name)} AS VARCHAR)"
              for name in categories]  # fmt: skip
    ids, codes = Codes(), {name: Codes() for name in categories}
    values: dict[str, list[Floats]] = {name: [] for name in numbers}
    for batch in table.batches(", ".join(f"{sql} AS c{at}" for at, sql in enumerate(parts))):
        ids.add(batch.column(0))
        for at, name in enumerate(numbers, start=1):
            values[name].append(batch.column(at).to_numpy(zero_copy_only=False).astype(np.float64))
        for at, name in enumerate(categories, start=1 + len(numbers)):
            codes[name].add(batch.column(at))
    columns: dict[str, Any] = {name: np.concatenate([np.empty(0), *own]) for name, own in values.items()}
    columns |= {name: own.finish() for name, own in codes.items()}
    return ids.finish(), columns


def _in_order(columns: dict[str, Any], order: npt.NDArray[np.intp]) -> dict[str, Any]:
    """Return the columns in the order of the ids, so that sums do not depend on the order of the lines."""
    return {name: (own[0][order], own[1]) if isinstance(own, tuple) else own[order] for name, own in columns.items()}


def _boolean_sql(table: Table, name: str) -> str:
    """Return a column of 0/1 or of words such as true, yes, f in SQL."""
    if table.columns[name] == "VARCHAR":
        word = f"lower({present(name)})"
        return (
            f"CAST(CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN 1"
            f" WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN 0 WHEN {word} IS NOT NULL THEN -1 END AS DOUBLE)"
        )
    return as_number(name)


def _id_faults(table: Table, spec: FeatureSpec, ids: tuple[npt.NDArray[np.int32], Vocabulary]) -> Iterator[str]:
    codes, distinct = ids
    if not len(codes):
        yield f"features {spec.name!r}: {table.label} has no rows."
    elif codes.min() < 0:
        yield from null_id_fault(table, spec.row)
    elif len(distinct) < len(codes):
        yield from repeated_id_fault(table, spec.row)


def _column_faults(table: Table, name: str, x: Floats, *, number: bool) -> Iterator[str]:
    seen = x[~np.isnan(x)]
    if not number:
        bad = np.flatnonzero((seen != 0) & (seen != 1))
        if len(bad):
            sql = _boolean_sql(table, name)
            row, value, _ = table.first(f"{sql} NOT IN (0, 1)", name) or (0, seen[bad[0]], 1)
            yield f"{table.label}, column {name!r}, row {row}: {value!r} is neither 0 nor 1; use categories for it."
    elif np.isinf(seen).any():
        row, value, _ = table.first(f"isinf({as_number(name)})", name) or (0, np.inf, 1)
        yield f"{table.label}, column {name!r}, row {row}: {value!r} is not a finite number; correct or drop it."
    elif not len(seen) or seen.min() == seen.max():
        what = "has no number" if not len(seen) else f"holds only {seen[0]:g}"
        yield f"{table.label}, column {name!r} {what}, which says nothing; leave it out of numeric."


def _one_hot(spec: FeatureSpec, columns: dict[str, Any], ids: Vocabulary) -> RawCells:
    """Return the 0/1 columns: only the ones are listed if nothing is missing, else every cell that is there."""
    names = list(spec.booleans)
    parts = [columns[name][:, None] for name in spec.booleans]
    for name in spec.categories:
        codes, values = columns[name]
        names += [f"{name}={value}" for value in values.ids]
        own = (codes[:, None] == np.arange(len(values))).astype(np.float32)
        own[codes < 0] = np.nan
        parts.append(own)
    x = np.concatenate(parts, axis=1).astype(np.float32)
    col_ids = Vocabulary(names)
    if np.isnan(x).any():
        return dense_cells(x, ~np.isnan(x), row_ids=ids, col_ids=col_ids)
    i, j = np.nonzero(x)
    return RawCells(ids, col_ids, i.astype(np.int32), j.astype(np.int32), np.ones(len(i), np.float32), filled=True)
