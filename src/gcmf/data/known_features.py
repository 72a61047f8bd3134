"""Covariates of new entities: the features that a model knows, of another table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from gcmf.data.covariates import FEW, LARGEST, columns_of, is_matrix, not_zero, numbers_of, side_by_side, table_ids
from gcmf.data.vocabulary import Vocabulary, and_more, show_id
from gcmf.errors import DataError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.data.covariates import Feature

    Floats = NDArray[np.float64]


def read_features(
    name: str,
    given: Any,  # noqa: ANN401 - any table
    features: Sequence[Feature],
    center: Floats,
    scale: Floats,
) -> tuple[Vocabulary, Any]:
    """Return ids and features of a table of the entity set `name`, (n, p), as those entered that a model was fitted to.

    A number enters as (x − center)/scale and a missing one as 0, a level as whether it is that one, less its share. A
    level that the model has not seen has no feature. Columns that it does not know are passed over.
    """
    ids = Vocabulary(table_ids(name, given))
    if is_matrix(given):
        return ids, _matrix(name, given[1], center, scale)
    columns = dict(columns_of(name, given))
    lacking = dict.fromkeys(feature.column for feature in features if feature.column not in columns)
    if lacking:
        msg = (
            f"covariates of {name!r}: the table lacks {', '.join(map(repr, lacking))}, which the model was fitted with;"
            " give every column, with empty values where nothing is known."
        )
        raise DataError(msg)
    levels = {label: _by_level(columns[label]) for label in {f.column for f in features if f.kind == "level"}}
    parts = []
    for feature, center_k, scale_k in zip(features, center.tolist(), scale.tolist(), strict=True):
        column = columns[feature.column]
        if feature.kind == "number":
            parts.append(not_zero(_numbers(name, feature, column, ids, (center_k, scale_k))))
            continue
        who = np.flatnonzero(column.isna())
        if feature.kind == "level":
            who = levels[feature.column].get(feature.level, who[:0])
        # Where features are few they were centered.
        parts.append(
            not_zero(np.bincount(who, minlength=len(ids)) - center_k) if center_k else (who, np.ones(len(who)))
        )
    values = side_by_side(parts, len(ids))
    return ids, values.toarray() if len(features) <= FEW else values


def _by_level(column: pd.Series[Any]) -> dict[str, NDArray[np.intp]]:
    """The positions of those who have each level, by its text."""
    there = np.flatnonzero(column.notna())
    texts = [str(item) for item in column.iloc[there].tolist()]
    codes, levels = pd.factorize(np.array(texts, dtype=object))
    ends = np.cumsum(np.bincount(codes, minlength=len(levels)))
    return dict(zip(levels.tolist(), np.split(there[np.argsort(codes, kind="stable")], ends[:-1]), strict=False))


def _numbers(
    name: str, feature: Feature, column: pd.Series[Any], ids: Vocabulary, measure: tuple[float, float]
) -> Floats:
    missing, (center, scale) = np.asarray(column.isna()), measure
    where = f"covariates of {name!r}, column {feature.column!r}"
    x = np.full(len(missing), np.nan) if missing.all() else numbers_of(column, missing)
    if x is None:
        msg = f"{where}: it held numbers, booleans or dates when the model was fitted, and holds texts now; convert it."
        raise DataError(msg)
    bad = np.flatnonzero(~missing & ~(np.abs(x) <= LARGEST))
    if len(bad):
        msg = (
            f"{where}: {show_id(ids.ids[int(bad[0])])} has {x[bad[0]]:g}{and_more(len(bad) - 1)}, and numbers must be"
            f" finite, at most {LARGEST:g}."
        )
        raise DataError(msg)
    return np.where(missing, 0.0, (x - center) / scale)


def _matrix(name: str, matrix: Any, center: Floats, scale: Floats) -> Any:  # noqa: ANN401 - a sparse matrix
    if matrix.shape[1] != len(center):
        msg = (
            f"covariates of {name!r}: the matrix has {counted(matrix.shape[1], 'column')}, and the model was fitted"
            f" with {len(center)}; give the same columns in the same order."
        )
        raise DataError(msg)
    values = sparse.csr_array(matrix).astype(np.float64)
    return (values.toarray() - center) / scale if center.any() or (scale != 1).any() else values
