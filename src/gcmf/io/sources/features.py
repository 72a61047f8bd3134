"""Tables with a line per entity: their columns become relations between entities and features, or covariates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gcmf.data.adapters.arrays import dense_cells
from gcmf.data.raw import RawCells
from gcmf.data.relation import Relation
from gcmf.data.units import Units
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import DataError
from gcmf.io.sources.columns import IdColumn, id_sql, null_id_fault, number_sql, repeated_id_fault, text_fault
from gcmf.io.sources.duck import as_number, present, quote
from gcmf.io.sources.specs import EntitySpec
from gcmf.io.sources.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from gcmf.io.sources.specs import FeatureSpec
    from gcmf.io.sources.tables import Table

    Floats = npt.NDArray[np.float64]
    Coded = tuple[npt.NDArray[np.int32], Vocabulary]
    """Numbers of distinct texts, -1 where there is none."""


def read_features(spec: FeatureSpec, folder: Path) -> list[Relation]:
    """Return the relations of a feature table, `NAME_numbers` (Gaussian) and `NAME_traits` (Bernoulli).

    A number is standardized, (x − mean)/deviation of its column, and its relation knows these units. A category
    becomes a 0/1 column for each of its values, named "city=Rome"; booleans stay as they are. Empty is missing. The
    two relations have column sets of their own, `NAME_number` and `NAME_trait`.
    """
    ids, numbers, categories = _columns(spec, folder, key=spec.row, where=f"features {spec.name!r}")
    relations = []
    if spec.numeric:
        x = np.column_stack([numbers[name] for name in spec.numeric])
        units = Units(np.nanmean(x, axis=0), np.nanstd(x, axis=0))
        x = (x - units.center) / units.scale
        block = dense_cells(x, ~np.isnan(x), row_ids=ids, col_ids=Vocabulary(list(spec.numeric)))
        block = replace(block, units=units)
        relations.append(Relation(f"{spec.name}_numbers", spec.rows, f"{spec.name}_number", block, "gaussian"))
    if spec.booleans or spec.categories:
        block = _one_hot({name: numbers[name] for name in spec.booleans}, categories, ids)
        relations.append(Relation(f"{spec.name}_traits", spec.rows, f"{spec.name}_trait", block, "bernoulli"))
    return relations


def read_covariates(spec: EntitySpec, folder: Path) -> pd.DataFrame:
    """Return the covariates of an entity set, with its ids as index, as `Collection` takes them."""
    ids, numbers, categories = _columns(spec, folder, key=spec.id, where=f"entities {spec.name!r}")
    levels = {name: pd.Categorical.from_codes(codes, values.ids) for name, (codes, values) in categories.items()}
    return pd.DataFrame({**numbers, **levels}, index=ids.ids)


def _columns(
    spec: FeatureSpec | EntitySpec, folder: Path, *, key: str, where: str
) -> tuple[Vocabulary, dict[str, Floats], dict[str, Coded]]:
    """Return the ids, and numbers, booleans and categories in their order; refuse what is wrong in any column."""
    table = open_table(spec, folder)
    dates = spec.dates if isinstance(spec, EntitySpec) else ()
    table.check_columns([key, *spec.numeric, *spec.booleans, *dates, *spec.categories], where=where)
    (lines, ids), numbers, categories = _read(table, spec, dates, key=key, where=where)
    faults = list(null_id_fault(table, key, lines))
    if not len(lines):
        faults.append(f"{where}: {table.label} has no rows.")
    elif not faults and len(ids) < len(lines):
        faults += repeated_id_fault(table, key)
    for name in spec.numeric:
        faults += [*text_fault(table, name), *_number_faults(table, name, numbers[name])]
    for name in spec.booleans:
        faults += _boolean_faults(table, name, numbers[name])
    for name in dates:
        faults += _date_faults(table, name)
    if faults:
        raise DataError(faults)
    order = np.argsort(lines)  # so that sums do not depend on the order of the lines
    numbers = {name: x[order] for name, x in numbers.items()}
    categories = {name: (value_numbers[order], values) for name, (value_numbers, values) in categories.items()}
    return ids, numbers, categories


def _read(
    table: Table, spec: FeatureSpec | EntitySpec, dates: tuple[str, ...], *, key: str, where: str
) -> tuple[Coded, dict[str, Floats], dict[str, Coded]]:
    """Return the ids, the numbers, booleans and dates (in days) as floats with NaN for null, and the categories."""
    columns = [id_sql(table, key)]
    columns += [number_sql(table, name, where=where) for name in spec.numeric]
    columns += [_boolean_sql(table, name) for name in spec.booleans]
    columns += [_date_sql(name) for name in dates]
    columns += [present(name) if table.columns[name] == "VARCHAR" else f"CAST({quote(name)} AS VARCHAR)"
                for name in spec.categories]  # fmt: skip
    ids, categories = IdColumn(), {name: IdColumn() for name in spec.categories}
    numbers: dict[str, list[Floats]] = {name: [np.empty(0)] for name in (*spec.numeric, *spec.booleans, *dates)}
    for batch in table.batches(*columns):
        ids.add(batch.column(0))
        for at, values in enumerate(numbers.values(), start=1):
            values.append(batch.column(at).to_numpy(zero_copy_only=False).astype(np.float64))
        for at, texts in enumerate(categories.values(), start=1 + len(numbers)):
            texts.add(batch.column(at))
    whole = {name: np.concatenate(values) for name, values in numbers.items()}
    return ids.finish(), whole, {name: texts.finish() for name, texts in categories.items()}


def _date_sql(name: str) -> str:
    """Return a column of dates or times in SQL, as days since 1970."""
    return f"CAST(epoch(TRY_CAST({quote(name)} AS TIMESTAMP)) AS DOUBLE) / 86400"


def _date_faults(table: Table, name: str) -> Iterator[str]:
    bad = table.first(f"{quote(name)} IS NOT NULL AND TRY_CAST({quote(name)} AS TIMESTAMP) IS NULL", name)
    if bad:
        yield (
            f"{table.label}, column {name!r}, row {bad[0]}: {bad[1]!r} is no date; write dates as 2020-12-31, or leave"
            " it empty if it is missing."
        )


def _boolean_sql(table: Table, name: str) -> str:
    """Return a column of 0/1 or of words such as true, yes, f in SQL."""
    if table.columns[name] != "VARCHAR":
        return as_number(name)
    word = f"lower({present(name)})"
    return (
        f"CAST(CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN 1"
        f" WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN 0 WHEN {word} IS NOT NULL THEN -1 END AS DOUBLE)"
    )


def _number_faults(table: Table, name: str, x: Floats) -> Iterator[str]:
    seen = x[~np.isnan(x)]
    if np.isinf(seen).any():
        row, value, _ = table.first(f"isinf({as_number(name)})", name) or (0, np.inf, 1)
        yield f"{table.label}, column {name!r}, row {row}: {value!r} is not a finite number; correct or drop it."
    elif not len(seen) or seen.min() == seen.max():
        what = "has no number" if not len(seen) else f"holds only {seen[0]:g}"
        yield f"{table.label}, column {name!r} {what}, which says nothing; leave it out of numeric."


def _boolean_faults(table: Table, name: str, x: Floats) -> Iterator[str]:
    strange = x[~np.isnan(x) & (x != 0) & (x != 1)]
    if len(strange):
        row, value, _ = table.first(f"{_boolean_sql(table, name)} NOT IN (0, 1)", name) or (0, strange[0], 1)
        yield f"{table.label}, column {name!r}, row {row}: {value!r} is neither 0 nor 1; use categories for it."


def _one_hot(booleans: dict[str, Floats], categories: dict[str, Coded], ids: Vocabulary) -> RawCells:
    """Return the 0/1 columns: only the ones are listed if nothing is missing, else every cell that is there."""
    names, parts = list(booleans), [x[:, None] for x in booleans.values()]
    lead = list(range(len(names)))
    for name, (value_numbers, values) in categories.items():
        lead += [len(names)] * len(values)
        names += [f"{name}={value}" for value in values.ids]
        part = (value_numbers[:, None] == np.arange(len(values))).astype(np.float64)
        part[value_numbers < 0] = np.nan
        parts.append(part)
    x = np.concatenate(parts, axis=1).astype(np.float32)
    col_ids = Vocabulary(names)
    if np.isnan(x).any():
        return replace(dense_cells(x, ~np.isnan(x), row_ids=ids, col_ids=col_ids), lead=np.array(lead))
    i, j = np.nonzero(x)
    ones = np.ones(len(i), np.float32)
    return RawCells(ids, col_ids, i.astype(np.int32), j.astype(np.int32), ones, filled=True, lead=np.array(lead))
