"""One problem in other forms: a table as cells or as a matrix, a relation alone or with what touches it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.problem import Problem, Table, Triplets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def cells(table: Table) -> Triplets:
    """The observed cells."""
    if isinstance(table.train, Triplets):
        return table.train
    seen = np.isfinite(table.train) if table.train.dtype.kind == "f" else np.ones(table.train.shape, dtype=bool)
    i, j = (index.astype(np.int32) for index in np.nonzero(seen))
    return Triplets(i, j, table.train[i, j])


def matrix(table: Table, sizes: Mapping[str, int]) -> NDArray[Any]:
    """The whole matrix in single precision, NaN where nothing is observed."""
    if not isinstance(table.train, Triplets):
        return np.asarray(table.train, np.float32)
    whole = np.full((sizes[table.rows], sizes[table.cols]), np.nan, np.float32)
    whole[table.train.i, table.train.j] = table.train.x
    return whole


def hidden(x: NDArray[Any], out: NDArray[np.bool_]) -> tuple[NDArray[Any], Triplets]:
    """The matrix without what is hidden (NaN), and the hidden cells that are known."""
    train = np.asarray(x, np.float32).copy()
    i, j = (index.astype(np.int32) for index in np.nonzero(out & np.isfinite(train)))
    train[out] = np.nan
    return train, Triplets(i, j, np.asarray(x, np.float64)[i, j])


def alone(problem: Problem, name: str) -> Problem:
    """One relation and its two entity sets."""
    table = problem[name]
    return replace(problem, tables=(table,), sizes={end: problem.sizes[end] for end in (table.rows, table.cols)})


def around(problem: Problem, name: str) -> Problem:
    """One relation as cells, then a table of side information for each of its two ends that has any.

    A side table has the entities of the end as rows, and as columns whatever the relations that touch the end say of
    them, real numbers with mean zero and unit deviation; what lies further away is left out.
    """
    main = problem[name]
    tables = [replace(main, train=cells(main))]
    sizes = {end: problem.sizes[end] for end in (main.rows, main.cols)}
    for end in (main.rows, main.cols):
        touching = [t for t in problem.tables if t is not main and end in (t.rows, t.cols)]
        if not touching:
            continue
        parts = [matrix(t, problem.sizes) if t.rows == end else matrix(t, problem.sizes).T for t in touching]
        side = np.concatenate(list(map(unit, parts)), axis=1)
        tables.append(Table(f"about {end}", end, f"facts about {end}", "gaussian", side))
        sizes[f"facts about {end}"] = side.shape[1]
    return replace(problem, tables=tuple(tables), sizes=sizes)


def unit(x: NDArray[Any]) -> NDArray[Any]:
    """Columns with mean zero and unit deviation, unless all is 0 and 1; gaps stay."""
    known = np.isfinite(x)
    if np.isin(x[known], (0, 1)).all():
        return x
    n = np.maximum(known.sum(axis=0), 1)
    centered = np.where(known, x - np.where(known, x, 0.0).sum(axis=0) / n, 0.0)
    deviation = np.sqrt((centered**2).sum(axis=0) / n)
    return np.where(known, centered / np.where(deviation > 1e-6, deviation, 1.0), np.nan).astype(np.float32)


def as_cells(problem: Problem) -> Problem:
    """The same with every relation as cells."""
    return replace(problem, tables=tuple(replace(t, train=cells(t)) for t in problem.tables))


def as_views(problem: Problem) -> Problem:
    """The same with every relation as a matrix whose rows are the samples."""
    return replace(problem, tables=tuple(replace(t, train=matrix(t, problem.sizes)) for t in problem.tables))
