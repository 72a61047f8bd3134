"""Sources streamed into columns: one batch at a time, ids as numbers of a dictionary, never a list of rows."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.adapters.arrays import dense_cells
from gcmf.data.raw import RawCells, narrow
from gcmf.data.relation import Relation
from gcmf.data.schema import check_likelihood, likelihood_support
from gcmf.data.vocabulary import Vocabulary, and_more
from gcmf.errors import DataError
from gcmf.io.files import find_file, guess_format
from gcmf.io.ids import Codes, id_sql, null_id_fault, repeated_id_fault
from gcmf.io.sql import INTEGERS, NUMBERS, as_number, present, quote
from gcmf.io.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from gcmf.io.schema import RelationSpec
    from gcmf.io.tables import Table

_MOST_FAULTS = 10
"""Of a wide table, so many are said."""
_FINITE = ("isinf({x})", "an observed cell must be a finite number; correct it, or leave it empty if it is missing.")
_RULES = {
    "binary": ("{x} NOT IN (0, 1)", "bernoulli cells must be 0 or 1; correct or drop it, or use another likelihood."),
    "counts": (
        "{x} < 0 OR {x} <> floor({x})",
        "poisson cells must be integers >= 0; correct or drop it, or use another likelihood.",
    ),
}


@dataclass(frozen=True, eq=False)
class Read:
    """A relation, and what is needed to find its faults in its source."""

    relation: Relation
    table: Table | None
    spec: RelationSpec

    def duplicates(self) -> str | None:
        """Return the fault of a cell that a long source lists twice, with the rows that do."""
        if self.table is None or self.spec.layout != "long":
            return None
        row, col, value = self.spec.row or "", self.spec.col or "", self.spec.value
        kept = self.table.where or "TRUE"
        shown = quote(value) if value else "1"
        pair = f"{quote(row)}, {quote(col)}"
        found = self.table.ask(
            f"SELECT gcmf_row, {pair}, {shown} FROM (SELECT row_number() OVER () AS gcmf_row, * FROM {self.table.sql})"
            f" WHERE {kept} QUALIFY count(*) OVER (PARTITION BY {pair}) > 1"
            f" ORDER BY min(gcmf_row) OVER (PARTITION BY {pair}), gcmf_row LIMIT 2"
        )
        if len(found) < 2:
            return None
        (first, r, c, x), (second, _, _, y) = found
        return (
            f"{self.table.label}: row {first} and row {second} both give the cell {row} = {r!r}, {col} = {c!r} of"
            f" relation {self.spec.name!r}, with the values {x} and {y}; keep one value per cell, for example by a"
            f" query that groups by {row} and {col}."
        )


def read_relation(spec: RelationSpec, folder: Path) -> Read:
    """Read the relation of a section.

    Raises
    ------
    DataError
        With every fault of the source, each with file, column, row number and value.
    """
    check_likelihood(spec.likelihood, relation=spec.name)
    path = find_file(spec.source, folder)
    if spec.layout == "matrix" or (spec.format or guess_format(path)) == "mtx":
        matrix = _read_matrix(spec, path)
        warn_of_one_value(matrix.raw, relation=spec.name, label=spec.source)
        return Read(matrix, None, spec)
    table = open_table(spec, folder)
    block = _read_wide(table, spec) if spec.layout == "wide" else _read_long(table, spec)
    warn_of_one_value(block, relation=spec.name, label=table.label)
    return Read(Relation(spec.name, spec.rows, spec.cols, block, spec.likelihood), table, spec)


def number_sql(table: Table, column: str, *, where: str) -> str:
    """Return a column of numbers in SQL, null where it holds none."""
    kind = table.columns[column]
    if not (NUMBERS.match(kind) or kind in ("BOOLEAN", "VARCHAR")):
        msg = f"{where}: the column {column!r} of {table.label} holds {kind.lower()}, not numbers; choose another."
        raise DataError(msg)
    return as_number(column) if kind == "VARCHAR" else f"CAST({quote(column)} AS DOUBLE)"


def text_fault(table: Table, column: str) -> Iterator[str]:
    """Yield the fault of values that are no numbers."""
    if table.columns[column] != "VARCHAR":
        return
    found = table.first(f"({present(column)}) IS NOT NULL AND {as_number(column)} IS NULL", column)
    if found:
        comma = ' if its comma is a decimal sign or groups thousands, say decimal = "," or decimal = ".";' * (
            re.fullmatch(r"[\s\d.,+-]+", found[1]) is not None and "," in found[1]
        )
        yield (
            f"{table.label}, column {column!r}, row {found[0]}: {found[1]!r} is not a number{and_more(found[2] - 1)};"
            f"{comma} correct it, or leave it empty if it is missing."
        )


def _read_long(table: Table, spec: RelationSpec) -> RawCells:
    where = f"relation {spec.name!r}"
    row, col, value = spec.row or "", spec.col or "", spec.value
    faults = table.lacking([name for name in (row, col, value) if name is not None], where=where)
    if faults:
        raise DataError(faults)
    x_sql = number_sql(table, value, where=where) if value else "CAST(1 AS DOUBLE)"
    rows, cols, values = Codes(), Codes(), [np.empty(0, np.float32)]
    for batch in table.batches(f"{id_sql(table, row)} AS r, {id_sql(table, col)} AS c, {x_sql} AS x"):
        rows.add(batch.column(0))
        cols.add(batch.column(1))
        values.append(narrow(batch.column(2).to_numpy(zero_copy_only=False)))
    x = np.concatenate(values)
    values.clear()
    i, row_ids = rows.finish()
    j, col_ids = cols.finish()
    block = RawCells(row_ids, col_ids, i, j, x)
    faults = list(_long_faults(table, spec, block))
    if faults:
        raise DataError(faults)
    return _settle(block, filled=spec.blanks == "zero")


def _settle(block: RawCells, *, filled: bool) -> RawCells:
    """Leave out what is not listed in the layout: missing cells, or observed zeros."""
    kept = block.x != 0 if filled else ~np.isnan(block.x)
    if kept.all():
        return RawCells(block.row_ids, block.col_ids, block.i, block.j, block.x, filled=filled)
    i, j, x = block.i[kept], block.j[kept], narrow(block.x[kept])
    return RawCells(block.row_ids, block.col_ids, i, j, x, filled=filled)


def _long_faults(table: Table, spec: RelationSpec, block: RawCells) -> Iterator[str]:
    """Yield what is wrong with the values read; only then is the source asked where."""
    if not len(block.x):
        yield f"relation {spec.name!r}: {table.label} has no rows" + (" that meet where." if spec.where else ".")
        return
    for column, codes in ((spec.row, block.i), (spec.col, block.j)):
        if column and codes.min() < 0:
            yield from null_id_fault(table, column)
    if spec.value is None:
        return
    missing = np.isnan(block.x)
    if missing.any():
        yield from text_fault(table, spec.value)
        if missing.all():
            yield f"relation {spec.name!r}: every value in column {spec.value!r} of {table.label} is missing."
        if spec.blanks == "zero":
            yield from _bad_values(table, spec.value, "{x} IS NULL OR isnan({x})",
                                   'with blanks = "zero" every line needs a value; drop those without.')  # fmt: skip
    if np.isinf(block.x).any():
        yield from _bad_values(table, spec.value, *_FINITE)
    support = likelihood_support(spec.likelihood)
    if support in _RULES and _outside(block.x, support).any():
        yield from _bad_values(table, spec.value, *_RULES[support])


def _bad_values(table: Table, column: str, condition: str, rule: str) -> Iterator[str]:
    """Yield the fault of the first value that a condition on {x} holds for."""
    found = table.first(condition.format(x=as_number(column)), column)
    if found:
        value = "empty" if found[1] is None else found[1]
        more = and_more(found[2] - 1)
        yield f"{table.label}, column {column!r}, row {found[0]}: the value is {value}{more}, but {rule}"


def _read_wide(table: Table, spec: RelationSpec) -> RawCells:
    """Read a line per row entity: the ids are in the column `row` names, or in the first."""
    where = f"relation {spec.name!r}"
    row = spec.row or next(iter(table.columns))
    names = [name for name in table.columns if name != row]
    faults = table.lacking([row, *names], where=where)
    if faults:
        raise DataError(faults)
    i, ids, x = _wide_values(table, row, names, where=where)
    faults = list(null_id_fault(table, row)) if len(i) and i.min() < 0 else []
    faults += repeated_id_fault(table, row) if len(ids) < len(i) else []
    faults += _wide_faults(table, spec, names, x)
    if not faults and np.isnan(x).all():
        faults = [f"{where}: {table.label} has {'only empty cells' if len(x) else 'no rows'}."]
    if faults:
        raise DataError(faults)
    x = x[np.argsort(i)]
    if spec.blanks == "zero":
        r, c = np.nonzero(np.nan_to_num(x))
        return RawCells(ids, Vocabulary(names), r.astype(np.int32), c.astype(np.int32), narrow(x[r, c]), filled=True)
    return dense_cells(x, ~np.isnan(x), row_ids=ids, col_ids=Vocabulary(names))


def _wide_values(
    table: Table, row: str, names: list[str], *, where: str
) -> tuple[npt.NDArray[np.int32], Vocabulary, npt.NDArray[np.float64]]:
    """Return the ids of the lines, as numbers and distinct, and their values, NaN where there is none."""
    codes, values = Codes(), [np.empty((0, len(names)))]
    casts = [number_sql(table, name, where=where) for name in names]
    kinds = table.columns
    plain = all(NUMBERS.match(kinds[name]) for name in names) and (
        INTEGERS.match(kinds[row]) or kinds[row] == "VARCHAR"
    )
    if table.arrow is not None and table.where is None and plain:
        batches = table.arrow.select([row, *names]).to_batches()
    else:
        batches = table.batches(", ".join(f"{sql} AS c{at}" for at, sql in enumerate([id_sql(table, row), *casts])))
    for batch in batches:
        codes.add(batch.column(0))
        filled = np.empty((len(batch), len(names)))
        for at in range(len(names)):
            filled[:, at] = batch.column(at + 1).to_numpy(zero_copy_only=False)
        values.append(filled)
    return *codes.finish(), np.concatenate(values)


def _wide_faults(table: Table, spec: RelationSpec, names: list[str], x: npt.NDArray[np.float64]) -> list[str]:
    """Return the faults of the values; only of columns that have one is the source asked where."""
    rules = [(np.isnan(x), text_fault), (np.isinf(x), lambda table, name: _bad_values(table, name, *_FINITE))]
    support = likelihood_support(spec.likelihood)
    if support in _RULES:
        rule = _RULES[support]
        rules.append((_outside(x, support), lambda table, name: _bad_values(table, name, *rule)))
    faults: list[str] = []
    for bad, say in rules:
        columns = np.flatnonzero(bad.any(axis=0))
        for number, at in enumerate(columns):
            faults += say(table, names[at])
            if len(faults) >= _MOST_FAULTS:
                more = len(columns) - number - 1
                return [*faults, f"{table.label}: up to {more:,} more columns have such faults."] if more else faults
    return faults


def _outside(x: npt.NDArray[np.float64], support: str) -> npt.NDArray[np.bool_]:
    """Return which values a likelihood cannot have; what is not finite is another fault."""
    seen = np.where(np.isfinite(x), x, 0)
    outside: npt.NDArray[np.bool_] = (
        (seen != 0) & (seen != 1) if support == "binary" else (seen < 0) | (seen != np.floor(seen))
    )
    return outside


def warn_of_one_value(block: RawCells, *, relation: str, label: str) -> None:
    """Warn of a relation all of whose cells have the same value; it is read, as Python takes it too."""
    if block.n_cells < 2 or (block.filled and 0 < len(block.x) < block.n_cells):
        return
    low, high = (block.x.min(), block.x.max()) if len(block.x) else (0, 0)
    if low == high:
        hint = ' If a pair that is not listed is a 0, say blanks = "zero".' * (not block.filled)
        msg = (
            f"relation {relation!r}: every cell that {label} gives is {low:g}, which says nothing; choose another"
            f" column of values or leave it out.{hint}"
        )
        warnings.warn(msg, stacklevel=2)


def _read_matrix(spec: RelationSpec, path: Path) -> Relation:
    """Read a Matrix Market file; ids are positions from 0."""
    from scipy.io import mmread  # noqa: PLC0415 - only who has one waits for it

    try:
        data = mmread(path)
    except (ValueError, OSError) as error:
        msg = f"{spec.source} cannot be read as Matrix Market: {error}"
        raise DataError(msg) from error
    dense = isinstance(data, np.ndarray)
    if not dense and spec.blanks is None:
        msg = (
            f"{spec.source}: a sparse matrix must say in [relations.{spec.name}] what its blanks are. Give"
            ' blanks = "missing" if a blank cell was never observed, as in ratings, and blanks = "zero" if it is an'
            " observed zero, as in word counts."
        )
        raise DataError(msg)
    return Relation(spec.name, spec.rows, spec.cols, data, spec.likelihood, blanks=None if dense else spec.blanks)
