"""Relations streamed from their sources: one batch at a time, ids as numbers of a dictionary, never a list of rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.adapters.arrays import dense_cells
from gcmf.data.checks import MOST_WEIGHT
from gcmf.data.raw import RawCells, narrow
from gcmf.data.relation import Relation
from gcmf.data.schema import Columns, check_likelihood, likelihood_support
from gcmf.data.spilled import Batch, spill
from gcmf.data.vocabulary import Vocabulary, and_more
from gcmf.errors import DataError
from gcmf.io.sources.columns import IdColumn, id_sql, null_id_fault, number_sql, repeated_id_fault, text_fault
from gcmf.io.sources.duck import INTEGERS, NUMBERS, as_number, quote
from gcmf.io.sources.files import find_file, guess_format
from gcmf.io.sources.postgres import is_address
from gcmf.io.sources.tables import open_table
from gcmf.likelihoods.support import SUPPORTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from gcmf.data.files import Files
    from gcmf.io.sources.specs import RelationSpec
    from gcmf.io.sources.tables import Table

    Floats = npt.NDArray[Any]
    Indices = npt.NDArray[np.int32]

_MOST_FAULTS = 10
"""Of a wide table, so many are said."""
_OUTSIDE = {"binary": "{x} NOT IN (0, 1)", "counts": "{x} < 0 OR {x} <> floor({x})"}
"""Which values are not allowed, in SQL, by the support of the likelihood."""


@dataclass(frozen=True, eq=False)
class ReadRelation:
    """A relation, and what is needed to find its faults in its source."""

    relation: Relation
    table: Table | None
    spec: RelationSpec

    def duplicates(self) -> str | None:
        """Return the fault of a cell that a long source lists twice, with the rows that do."""
        if self.table is None or self.spec.layout != "long":
            return None
        return _duplicate_fault(self.table, self.spec)

    def loops(self) -> str | None:
        """Return the fault of a line of a long source that relates an entity with itself."""
        row, col, value = self.spec.row or "", self.spec.col or "", self.spec.value
        if self.table is None or self.spec.layout != "long" or self.spec.rows != self.spec.cols:
            return None
        given = ""
        if value is not None:
            given = f" AND {as_number(value)} IS NOT NULL" + f" AND {as_number(value)} <> 0" * self.relation.raw.filled
        loop = self.table.first(f"{quote(row)} = {quote(col)}{given}", row)
        if loop is None:
            return None
        apart = repr(f"{quote(row)} <> {quote(col)}")
        return (
            f"{self.table.label}, row {loop[0]}: it relates {loop[1]!r} with itself{and_more(loop[2] - 1)}, but no"
            f" entity has a cell with itself in relation {self.spec.name!r}; leave such lines out, for example with"
            f" where = {apart}."
        )


def read_relation(spec: RelationSpec, folder: Path, *, files: Files | None = None) -> ReadRelation:
    """Read the relation of a section; every fault of its source is said with file, column, row number and value.

    Of a long table too large to be held, given `files`, numbers go there.
    """
    check_likelihood(spec.likelihood, relation=spec.name)
    table, data, blanks = None, None, None
    if _is_matrix(spec, folder):
        data, blanks = _read_matrix(spec, find_file(spec.source, folder))
    else:
        table = open_table(spec, folder)
        if spec.layout == "wide":
            data = _read_wide(table, spec)
        else:
            data = _read_long(table, spec) if files is None else _spill_long(table, spec, files)
    relation = Relation(spec.name, spec.rows, spec.cols, data, spec.likelihood, blanks=blanks, symmetric=spec.symmetric)
    _warn_of_one_value(relation.raw, relation=spec.name, label=table.label if table is not None else spec.source)
    return ReadRelation(relation, table, spec)


def _duplicate_fault(table: Table, spec: RelationSpec) -> str | None:
    row, col, value = spec.row or "", spec.col or "", spec.value
    pair = f"{quote(row)}, {quote(col)}"
    listed = table.ask(
        f"SELECT gcmf_row, {pair}, {quote(value) if value else '1'} FROM {table.numbered}"
        f" QUALIFY count(*) OVER (PARTITION BY {pair}) > 1"
        f" ORDER BY min(gcmf_row) OVER (PARTITION BY {pair}), gcmf_row LIMIT 2"
    )
    if len(listed) < 2:
        return None
    (first, r, c, x), (second, _, _, y) = listed
    return (
        f"{table.label}: row {first} and row {second} both give the cell {row} = {r!r}, {col} = {c!r} of relation"
        f" {spec.name!r}, with the values {x} and {y}; keep one value per cell, for example by a query that groups by"
        f" {row} and {col}."
    )


def _is_matrix(spec: RelationSpec, folder: Path) -> bool:
    if spec.layout == "matrix":
        return True
    return not is_address(spec.source) and (spec.format or guess_format(find_file(spec.source, folder))) == "mtx"


def _read_long(table: Table, spec: RelationSpec) -> RawCells:
    where = f"relation {spec.name!r}"
    row, col, value = spec.row or "", spec.col or "", spec.value
    table.check_columns([name for name in (row, col, value, spec.weight) if name is not None], where=where)
    x_sql = number_sql(table, value, where=where) if value else "CAST(1 AS DOUBLE)"
    weight_sql = [number_sql(table, spec.weight, where=where)] if spec.weight else []
    rows, cols, values, weights = IdColumn(), IdColumn(), [np.empty(0, np.float32)], [np.empty(0)]
    for batch in table.batches(id_sql(table, row), id_sql(table, col), x_sql, *weight_sql):
        weights += [batch.column(3).to_numpy(zero_copy_only=False).astype(np.float64)] if spec.weight else []
        rows.add(batch.column(0))
        cols.add(batch.column(1))
        values.append(narrow(batch.column(2).to_numpy(zero_copy_only=False)))
    x = np.concatenate(values)
    values.clear()
    i, row_ids = rows.finish()
    j, col_ids = cols.finish()
    faults = [*_null_faults(table, spec, i, j), *_long_faults(table, spec, x)]
    weight = np.concatenate(weights) if spec.weight else None
    if weight is not None:
        faults += _weight_faults(table, spec, weight)
    if faults:
        raise DataError(faults)
    if spec.blanks == "zero":
        return RawCells(row_ids, col_ids, i, j, x, bounded=False).fill_blanks()
    listed = ~np.isnan(x)
    if not listed.all():
        i, j, x = i[listed], j[listed], narrow(x[listed])
        weight = None if weight is None else weight[listed]
    columns = Columns(row, col, value, spec.weight)
    return RawCells(row_ids, col_ids, i, j, x, bounded=False, weight=weight, columns=columns)


def _spill_long(table: Table, spec: RelationSpec, files: Files) -> RawCells:
    """Read a long table as `_read_long` does, and hold no more than a batch of it, and a value of each kind."""
    where, weight = f"relation {spec.name!r}", spec.weight
    row, col, value = spec.row or "", spec.col or "", spec.value
    table.check_columns([name for name in (row, col, value, weight) if name is not None], where=where)
    x_sql = number_sql(table, value, where=where) if value else "CAST(1 AS DOUBLE)"
    numbers = [x_sql, *([number_sql(table, weight, where=where)] if weight else [])]

    def batches() -> Iterator[Batch]:
        kinds, weight_kinds, null, zeros = [np.empty(0)], [np.empty(0)], [np.empty(0, np.int32)] * 2, False
        for batch in table.batches(id_sql(table, row), id_sql(table, col), *numbers):
            x, *weights = (batch.column(at).to_numpy(zero_copy_only=False) for at in range(2, batch.num_columns))
            kinds += _of_each_kind(x, _outside(x, spec.likelihood))
            zeros = zeros or bool((x == 0).any())
            weight_kinds += [kind for w in weights for kind in _of_each_kind(w, ~((w > 0) & (w <= MOST_WEIGHT)))]
            null = [np.full(1, -1, np.int32) if batch.column(at).null_count else null[at] for at in (0, 1)]
            yield Batch(batch.column(0), batch.column(1), x, weights[0] if weight else None)
        # Only now: a source that is being read cannot be asked where a fault is.
        faults = [*_null_faults(table, spec, *null), *_long_faults(table, spec, np.concatenate(kinds))]
        faults += _weight_faults(table, spec, np.concatenate(weight_kinds)) if weight else ()
        if spec.blanks == "zero" and zeros and not faults:  # zeros go no further, where a second value would show
            faults += filter(None, [_duplicate_fault(table, spec)])
        if faults:
            raise DataError(faults)

    return replace(spill(batches, files, filled=spec.blanks == "zero"), columns=Columns(row, col, value, weight))


def _of_each_kind(x: Floats, outside: npt.NDArray[np.bool_]) -> list[Floats]:
    """Return the first value of each kind, as far as there are any: missing, infinite, not allowed, and all others."""
    missing, infinite = np.isnan(x), np.isinf(x)
    kinds = (missing, infinite, outside & ~missing & ~infinite, ~(missing | infinite | outside))
    return [x[kind.argmax(), None] for kind in kinds if kind.any()]


def _null_faults(table: Table, spec: RelationSpec, i: Indices, j: Indices) -> Iterator[str]:
    """Yield the faults of ids that are null."""
    for column, numbers in ((spec.row or "", i), (spec.col or "", j)):
        for fault in null_id_fault(table, column, numbers):
            yield f"{fault} It is an id of relation {spec.name!r}."


def _weight_faults(table: Table, spec: RelationSpec, weight: Floats) -> Iterator[str]:
    """Yield the fault of weights that are not above 0, such as null ones."""
    column = spec.weight or ""
    if ((weight > 0) & (weight <= MOST_WEIGHT)).all():
        return
    rule = f"a weight is a number above 0 and at most {MOST_WEIGHT:g}; drop lines that are not to count."
    condition = f"{{x}} IS NULL OR NOT ({{x}} > 0 AND {{x}} <= {MOST_WEIGHT})"
    yield from list(text_fault(table, column)) or _bad_values(table, spec, column, condition, rule)


def _long_faults(table: Table, spec: RelationSpec, x: Floats) -> Iterator[str]:
    if not len(x):
        yield f"relation {spec.name!r}: {table.label} has no rows" + (" that meet where." if spec.where else ".")
    if spec.value is None or not len(x):
        return
    yield from _value_faults(table, spec, spec.value, x)
    missing = np.isnan(x)
    if missing.all():
        yield f"relation {spec.name!r}: every value in column {spec.value!r} of {table.label} is missing."
    if missing.any() and spec.blanks == "zero":
        yield from _bad_values(table, spec, spec.value, "{x} IS NULL OR isnan({x})",
                               'with blanks = "zero" every line needs a value; drop those without.')  # fmt: skip


def _value_faults(table: Table, spec: RelationSpec, column: str, x: Floats) -> Iterator[str]:
    """Yield what is wrong with the values of a column; only where something is, the source is asked where."""
    likelihood = spec.likelihood
    if np.isnan(x).any():
        yield from text_fault(table, column)
    if np.isinf(x).any():
        rule = "an observed cell must be a finite number; correct it, or leave it empty if it is missing."
        yield from _bad_values(table, spec, column, "isinf({x})", rule)
    if _outside(x, likelihood).any():
        support = likelihood_support(likelihood)
        rule = f"{likelihood} cells must be {SUPPORTS[support].rule}; correct or drop it, or use another likelihood."
        yield from _bad_values(table, spec, column, _OUTSIDE[support], rule)


def _bad_values(table: Table, spec: RelationSpec, column: str, condition: str, rule: str) -> Iterator[str]:
    """Yield the fault of the first value that a condition on {x} holds for."""
    wide = spec.layout == "wide"
    ids = [spec.row or next(iter(table.columns)), *([] if wide else [spec.col or ""])]
    bad = table.first(condition.format(x=as_number(column)), column, *ids)
    if bad:
        value = "empty" if bad[1] is None else bad[1]
        row, col = bad[3], column if wide else bad[4]
        yield (
            f"{table.label}, column {column!r}, row {bad[0]}: the value is {value}{and_more(bad[2] - 1)}, but {rule}"
            f" It is row {row!r}, column {col!r} of relation {spec.name!r}."
        )


def _outside(x: Floats, likelihood: str) -> npt.NDArray[np.bool_]:
    """Return which finite values a likelihood cannot have."""
    outside = SUPPORTS[likelihood_support(likelihood)].outside
    return np.zeros(x.shape, bool) if outside is None else outside(x) & np.isfinite(x)


def _read_wide(table: Table, spec: RelationSpec) -> RawCells:
    """Read a line per row entity: the ids are in the column `row` names, or in the first."""
    where = f"relation {spec.name!r}"
    row = spec.row or next(iter(table.columns))
    names = [name for name in table.columns if name != row]
    table.check_columns([row, *names], where=where)
    ids, values = IdColumn(), [np.empty((0, len(names)))]
    for batch in _wide_batches(table, row, names, where=where):
        ids.add(batch.column(0))
        part = np.empty((len(batch), len(names)))
        for at in range(len(names)):
            part[:, at] = batch.column(at + 1).to_numpy(zero_copy_only=False)
        values.append(part)
    i, row_ids = ids.finish()
    x = np.concatenate(values)
    faults = [*null_id_fault(table, row, i), *(repeated_id_fault(table, row) if len(row_ids) < len(i) else ())]
    faults += _wide_faults(table, spec, names, x)
    if not faults and np.isnan(x).all():
        faults = [f"{where}: {table.label} has {'only empty cells' if len(x) else 'no rows'}."]
    if faults:
        raise DataError(faults)
    x = x[np.argsort(i)]
    if spec.blanks == "zero":
        r, c = np.nonzero(np.nan_to_num(x))
        return RawCells(
            row_ids, Vocabulary(names), r.astype(np.int32), c.astype(np.int32), narrow(x[r, c]), filled=True
        )
    return dense_cells(x, ~np.isnan(x), row_ids=row_ids, col_ids=Vocabulary(names))


def _wide_batches(table: Table, row: str, names: list[str], *, where: str) -> Iterable[Any]:
    """Return batches of ids and numbers: as they lie there, where nothing has to be turned into numbers or chosen."""
    casts = [number_sql(table, name, where=where) for name in names]
    kinds = table.columns
    plain_ids = INTEGERS.match(kinds[row]) or kinds[row] == "VARCHAR"
    if table.arrow is not None and table.where is None and plain_ids and all(NUMBERS.match(kinds[n]) for n in names):
        batches: Iterable[Any] = table.arrow.select([row, *names]).to_batches()
        return batches
    return table.batches(id_sql(table, row), *casts)


def _wide_faults(table: Table, spec: RelationSpec, names: list[str], x: Floats) -> list[str]:
    suspects = np.flatnonzero((~np.isfinite(x) | _outside(x, spec.likelihood)).any(axis=0))
    faults: list[str] = []
    for number, at in enumerate(suspects, start=1):
        faults += _value_faults(table, spec, names[at], x[:, at])
        if len(faults) >= _MOST_FAULTS:
            more = len(suspects) - number
            return [*faults, f"{table.label}: up to {more:,} more columns have such faults."] if more else faults
    return faults


def _warn_of_one_value(block: RawCells, *, relation: str, label: str) -> None:
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


def _read_matrix(spec: RelationSpec, path: Path) -> tuple[Any, str | None]:
    """Read a Matrix Market file; ids are positions from 0. Return it, and what its blanks are, if it has any."""
    from scipy.io import mmread

    try:
        data = mmread(path)
    except (ValueError, OSError) as error:
        msg = f"{spec.source} cannot be read as Matrix Market: {error}"
        raise DataError(msg) from error
    if isinstance(data, np.ndarray):
        return data, None
    if spec.blanks is None:
        msg = (
            f"{spec.source}: a sparse matrix must say in [relations.{spec.name}] what its blanks are. Give"
            ' blanks = "missing" if a blank cell was never observed, as in ratings, and blanks = "zero" if it is an'
            " observed zero, as in word counts."
        )
        raise DataError(msg)
    return data, spec.blanks
