"""What is known of the entities of a set beside their cells, as columns of numbers on which their prior means regress.

A table has one line per entity. Its numbers, dates and booleans become one standardized feature each, its texts and
categories a 0/1 feature per level, and where values are missing another 0/1 feature says so. The features of one source
column belong together: how much they say is learned once for all of them. A sparse matrix is one source, and taken as
it is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
from narwhals.stable.v1 import dependencies
from scipy import sparse

from gcmf.data.vocabulary import and_more, is_id_list, show_id
from gcmf.errors import DataError, ModelWarning, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

#: Features up to which they are held as a dense array, with 0/1 features centered; of more only what is not zero.
FEW = 100
#: The largest number: its square is still one.
LARGEST = 1e150
#: Of a level that so few entities have, the others learn nothing: it gets no feature.
RARE = 1
_DAY = np.timedelta64(1, "D")


class Feature(NamedTuple):
    """One feature: of which source column, and what it says."""

    column: str
    kind: str
    """"number" (also dates, in days since 1970, and booleans), "level" or "missing"."""
    level: str = ""
    """The value that it is 1 for."""

    def __str__(self) -> str:
        return {"number": self.column, "level": f"{self.column}={self.level}"}.get(self.kind, f"{self.column} missing")


@dataclass(frozen=True, eq=False)
class Covariates:
    """The features of an entity set, in the order of its entities."""

    features: tuple[Feature, ...]
    """p of them."""
    center: Floats
    scale: Floats
    """A feature enters as (x − center)/scale, (p,); and as 0 where nothing is known of an entity."""
    group: npt.NDArray[np.intp]
    """The source column of each feature, counted from 0, (p,)."""
    values: Any
    """The features of every entity of the set: an array or a sparse array, (d, p)."""

    @property
    def n_columns(self) -> int:
        """Source columns that say something."""
        return int(self.group.max()) + 1

    def padded(self, size: int) -> Covariates:
        """Return the same for a set of so many entities: of the last ones nothing is known."""
        n, p = self.values.shape
        if n == size:
            return self
        if isinstance(self.values, np.ndarray):
            values: Any = np.concatenate([self.values, np.zeros((size - n, p))])
        else:
            values = sparse.vstack([self.values, sparse.csr_array((size - n, p))], format="csr")
        return Covariates(self.features, self.center, self.scale, self.group, values)

    def without(self, columns: Sequence[str]) -> Covariates | None:
        """Return the same without some source columns; None if nothing is left."""
        kept = np.flatnonzero([feature.column not in columns for feature in self.features])
        if not len(kept):
            return None
        group = np.unique(self.group[kept], return_inverse=True)[1].astype(np.intp)
        features = tuple(self.features[k] for k in kept.tolist())
        return Covariates(features, self.center[kept], self.scale[kept], group, self.values[:, kept])

    def joined(self, other: Covariates) -> Covariates:
        """Return these features and others of the same entities."""
        center, scale = (np.concatenate(pair) for pair in ((self.center, other.center), (self.scale, other.scale)))
        group, features = np.concatenate([self.group, self.n_columns + other.group]), self.features + other.features
        values: Any = [self.values, other.values]
        if len(features) <= FEW:
            values = np.concatenate(values, axis=1)
        else:
            values = sparse.hstack([sparse.csr_array(part) for part in values], format="csr")
        return Covariates(features, center, scale, group, values)


@dataclass
class _Columns:
    """Features as they are collected."""

    features: list[Feature] = field(default_factory=list)
    center: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    """Of each feature its standardized numbers, (d,), or for a 0/1 feature which entities have it, by position."""
    n_groups: int = 0
    silent: list[str] = field(default_factory=list)
    """Source columns that say nothing."""

    def add(self, feature: Feature, values: npt.NDArray[Any], center: float, scale: float) -> None:
        self.features.append(feature)
        self.center.append(center)
        self.scale.append(scale)
        self.group.append(self.n_groups)
        self.values.append(values)


def is_table(given: object) -> bool:
    """Whether this is more than a list of ids: a data frame, or (ids, sparse matrix) with or without names."""
    return isinstance(given, pd.DataFrame) or dependencies.is_into_dataframe(given) or is_matrix(given)


def is_matrix(given: object) -> bool:
    """Whether this is (ids, sparse matrix), with or without names."""
    return isinstance(given, tuple) and len(given) in (2, 3) and sparse.issparse(given[1])


def table_ids(name: str, given: Any) -> Any:  # noqa: ANN401 - whatever a user calls a table
    """Return the ids of a table: the index of a pandas frame, the column of another that is named as the set.

    Raises `DataError` where it has none.
    """
    if is_matrix(given):
        if not is_id_list(given[0]) or len(given[0]) != given[1].shape[0]:
            msg = (
                f"entities={{{name!r}: (ids, matrix)}}: the matrix has {counted(given[1].shape[0], 'row')}, and there"
                " must be a list with an id for each."
            )
            raise DataError(msg)
        return given[0]
    if isinstance(given, pd.DataFrame):
        return given.index
    frame = nw.from_native(given, eager_only=True)
    if name not in frame.columns:
        msg = (
            f"entities={{{name!r}: ...}}: a frame without an index needs its ids in a column named {name!r}; it has"
            f" {', '.join(map(repr, frame.columns[:20]))}. Rename the column of ids."
        )
        raise DataError(msg)
    return nw.to_native(frame[name])


def read_table(name: str, given: Any) -> Covariates | None:  # noqa: ANN401 - whatever a user calls a table
    """Return the features of a table, in its own order; None if it has none beside the ids.

    Raises `DataError` with everything that is wrong in its columns.
    """
    if isinstance(given, pd.DataFrame) and given.shape[1] and all(
        isinstance(dtype, pd.SparseDtype) for dtype in given.dtypes
    ):  # fmt: skip
        stored: Any = given.sparse
        given = (given.index, stored.to_coo().tocsr(), list(given.columns))
    if is_matrix(given):
        return _read_matrix(name, given[1], given[2] if len(given) == 3 else None)
    where, table, ids, faults = f"entities={{{name!r}: ...}}", _Columns(), list(table_ids(name, given)), []
    seen: set[str] = set()
    for label, column in columns_of(name, given):
        if label in seen:
            faults.append(f"{where}: two columns are named {label!r}; give each its own name.")
        seen.add(label)
        try:
            _read_column(table, label, column, ids)
        except DataError as error:
            faults += [f"{where}, column {label!r}: {fault}" for fault in error.faults]
        table.n_groups = table.group[-1] + 1 if table.group else 0
    if faults:
        raise DataError(faults)
    if table.silent:
        names = ", ".join(map(repr, table.silent))
        msg = (
            f"{where}: {names} left out: nearly the same for all entities, or another for each, it tells them nothing."
        )
        warnings.warn(msg, ModelWarning, stacklevel=4)
    return _assembled(table, len(ids)) if table.features else None


def columns_of(name: str, given: Any) -> Iterator[tuple[str, pd.Series[Any]]]:  # noqa: ANN401 - any frame
    """The columns of a frame that are no ids, as pandas has them."""
    if isinstance(given, pd.DataFrame):
        for k, label in enumerate(given.columns):
            yield str(label), given.iloc[:, k]
        return
    frame = nw.from_native(given, eager_only=True)
    for label in frame.columns:
        if label != name:
            yield label, pd.Series(frame[label].to_list())


def _read_column(table: _Columns, label: str, column: pd.Series[Any], ids: list[Any]) -> None:
    """Add the features of one source column."""
    missing, before = np.asarray(column.isna()), len(table.features)
    numbers = numbers_of(column, missing)
    if numbers is None:
        _add_levels(table, label, column, missing)
    else:
        _add_numbers(table, label, numbers, missing, ids)
    told = len(table.features) > before
    if told and RARE < missing.sum() < len(missing):
        table.add(Feature(label, "missing"), np.flatnonzero(missing), float(missing.mean()), 1.0)
    elif not told:
        table.silent.append(label)


def numbers_of(column: pd.Series[Any], missing: npt.NDArray[np.bool_]) -> Floats | None:
    """The values of a column of numbers, booleans or dates, NaN where missing; None if it holds levels."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    present = column[~missing]
    out = np.full(len(column), np.nan)
    if kind in ("string", "categorical", "empty"):
        return None
    if kind in ("integer", "floating", "mixed-integer-float", "decimal", "boolean"):
        out[~missing] = present.astype(np.float64)
    elif kind in ("datetime64", "datetime", "date"):
        times = pd.to_datetime(present, utc=True).dt.tz_localize(None)
        out[~missing] = (times.to_numpy() - np.datetime64(0, "D")) / _DAY
    elif kind in ("timedelta64", "timedelta"):
        out[~missing] = pd.to_timedelta(present).to_numpy() / _DAY
    else:
        kinds = sorted({type(item).__name__ for item in present})
        msg = (
            f"its values are {kind} ({', '.join(kinds[:4])}), and a covariate is made of numbers, booleans, dates,"
            " texts or categories; make it one of these, for example with .astype(str)."
        )
        raise DataError(msg)
    return out


def _add_numbers(table: _Columns, label: str, x: Floats, missing: npt.NDArray[np.bool_], ids: list[Any]) -> None:
    """Add a standardized feature; a missing value is at the mean."""
    bad = np.flatnonzero(~missing & ~(np.abs(x) <= LARGEST))
    if len(bad):
        msg = (
            f"{show_id(ids[bad[0]])} has {x[bad[0]]:g}{and_more(len(bad) - 1)}, and numbers must be finite, at most"
            f" {LARGEST:g}; correct it, or leave it empty if it is missing."
        )
        raise DataError(msg)
    present = x[~missing]
    if not len(present) or present.min() == present.max():
        return
    center = float(present.mean())
    scale = float(present.std())
    if scale > 0:
        table.add(Feature(label, "number"), np.where(missing, 0.0, (x - center) / scale), center, scale)


def _add_levels(table: _Columns, label: str, column: pd.Series[Any], missing: npt.NDArray[np.bool_]) -> None:
    """Add a 0/1 feature for every level that several entities have, in the order of their texts."""
    codes, levels = pd.factorize(column, sort=False)
    counts = np.bincount(codes[~missing], minlength=len(levels))
    texts = [str(level) for level in levels]
    if len(set(texts)) < len(texts):
        msg = "two of its levels read alike; give them texts that differ."
        raise DataError(msg)
    useful = [n for n in np.argsort(texts, kind="stable").tolist() if RARE < counts[n] < len(column)]
    by_level = np.split(np.argsort(codes, kind="stable")[np.count_nonzero(missing) :], np.cumsum(counts)[:-1])
    for n in useful:
        table.add(Feature(label, "level", texts[n]), by_level[n], float(counts[n] / len(column)), 1.0)


def _assembled(table: _Columns, size: int) -> Covariates:
    """Put the features side by side; 0/1 features are centered where there are few."""
    center, scale = np.array(table.center), np.array(table.scale)
    group = np.array(table.group, dtype=np.intp)
    if len(table.features) <= FEW:
        values: Any = np.empty((size, len(center)))
        for k, (feature, x) in enumerate(zip(table.features, table.values, strict=True)):
            values[:, k] = x if feature.kind == "number" else np.bincount(x, minlength=size) - center[k]
    else:
        numbers = [feature.kind == "number" for feature in table.features]
        center = np.where(numbers, center, 0.0)
        parts = [
            not_zero(x) if number else (x, np.ones(len(x))) for number, x in zip(numbers, table.values, strict=True)
        ]
        values = side_by_side(parts, size)
    return Covariates(tuple(table.features), center, scale, group, values)


def not_zero(x: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """Where numbers are not zero, and those."""
    at = np.flatnonzero(x)
    return at, x[at]


def side_by_side(parts: Sequence[tuple[npt.NDArray[np.intp], Floats]], size: int) -> Any:  # noqa: ANN401 - sparse
    """Features of which is known where they are not zero, and what there, as a sparse array, (d, p)."""
    ends = np.concatenate([[0], np.cumsum([len(at) for at, _ in parts])])
    at, x = (np.concatenate(both) for both in zip(*parts, strict=True))
    return sparse.csc_array((x, at, ends), shape=(size, len(parts))).tocsr()


def _read_matrix(name: str, matrix: Any, names: Any) -> Covariates | None:  # noqa: ANN401 - a sparse matrix, labels
    """The columns of a sparse matrix as they are, all of one source; centered where there are few."""
    where, p = f"entities={{{name!r}: (ids, matrix)}}", matrix.shape[1]
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"{where}: the matrix holds {matrix.dtype}, not numbers.")  # noqa: EM102 - one line says it
    if names is not None and (not is_id_list(names) or len(names) != p):
        msg = f"{where}: the matrix has {counted(p, 'column')}, and there must be a list with a name for each."
        raise DataError(msg)
    values = sparse.csr_array(matrix).astype(np.float64)
    values.sum_duplicates()
    bad = np.flatnonzero(~(np.abs(values.data) <= LARGEST))
    if len(bad):
        row = int(np.searchsorted(values.indptr, bad[0], side="right")) - 1
        msg = (
            f"{where}: row {row}, column {values.indices[bad[0]]} is {values.data[bad[0]]:g}{and_more(len(bad) - 1)},"
            f" and numbers must be finite, at most {LARGEST:g}."
        )
        raise DataError(msg)
    if not values.nnz:
        return None
    labels = [str(label) for label in (range(p) if names is None else names)]
    features = tuple(Feature(label, "number") for label in labels)
    center, group = np.zeros(p), np.zeros(p, dtype=np.intp)
    if p > FEW:
        return Covariates(features, center, np.ones(p), group, values)
    dense = values.toarray()
    center = dense.mean(axis=0)
    return Covariates(features, center, np.ones(p), group, dense - center)
