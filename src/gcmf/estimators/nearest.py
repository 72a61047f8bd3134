"""Columns of a relation in an index of approximate nearest neighbors: the best of millions without scoring all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.errors import MissingExtraError
from gcmf.estimators.asking import known_at
from gcmf.estimators.rankings import warn_without_factors
from gcmf.estimators.tables import Frame, tidy
from gcmf.model.predict import predict_pairs
from gcmf.model.ranking import sides
from gcmf.options import check_integer

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

    from gcmf.data.id_kind import Ids
    from gcmf.estimators.gcmf import GCMF

    Array = NDArray[Any]

#: Neighbors that the graph of the index looks at while it is built and searched: more find more, and take longer.
EXPANSION = 256


class NearestItems:
    """The columns of a relation, to be found by their predictor.

    θ = (u, 1)·(p, d) + b is highest where the angle between (u, 1, 0) and (p, d, r) is smallest, with r such that all
    columns have the same length (b is of the row, and the same for all columns).

    Attributes
    ----------
    index : usearch.index.Index
        The index. Its keys are positions among the ids of the column set, in the order of `model.factors(...)`.
    """

    index: Any

    def __init__(self, model: GCMF, m: int) -> None:
        warn_without_factors(model.fitted_, m, stacklevel=4)
        self._model, self._m = model, m
        _, self._cols = (len(model.fitted_.mean[e]) for e in model.fitted_.ends[m])
        vectors = self._vectors()
        self.index = _usearch()(
            ndim=vectors.shape[1], metric="cos", dtype="f32", expansion_add=EXPANSION, expansion_search=EXPANSION
        )
        self.index.add(np.arange(len(vectors)), vectors)

    def _vectors(self) -> Array:
        _, cols = sides(self._model.fitted_, self._m, np.zeros(0, np.int64), np.arange(self._cols))
        inner = np.column_stack([cols.mean, cols.bias]).astype(np.float64)
        square = (inner**2).sum(axis=1)
        return np.ascontiguousarray(np.column_stack([inner, np.sqrt(square.max() - square)]), np.float32)

    def queries(self, ids: Ids = None) -> Array:
        """Vectors by which rows are asked for, in the order of the ids; all by default."""
        fitted, schema = self._model.fitted_, self._model.schema_.relations[self._m]
        at = known_at(fitted.vocabularies[schema.rows], schema.rows, ids)
        rows, _ = sides(fitted, self._m, at, np.zeros(0, np.int64))
        one = np.ones(len(at))
        return np.ascontiguousarray(np.column_stack([rows.mean, one, 0.0 * one]), np.float32)

    def search(self, ids: Ids = None, n: int = 10) -> Frame:
        """The columns with the highest predictor for each row, nearly all of them: id, rank, item and predicted mean.

        What was seen is among them: ask for more than you need, and leave it out.
        """
        check_integer("n", n, 1)
        fitted, schema = self._model.fitted_, self._model.schema_.relations[self._m]
        at = known_at(fitted.vocabularies[schema.rows], schema.rows, ids)
        n = min(n, self._cols)
        found = np.asarray(self.index.search(self.queries(ids), n).keys, dtype=np.int64).reshape(len(at), n)
        of, items = np.repeat(np.arange(len(at)), n), found.ravel()
        mean = predict_pairs(fitted, self._m, at[of], items).mean
        order = np.lexsort((items, -mean, of))
        columns = {
            "id": (fitted.vocabularies[schema.rows], at[of]), "rank": np.tile(np.arange(1, n + 1), len(at)),
            "item": (fitted.vocabularies[schema.cols], items[order]), "score": mean[order],
        }  # fmt: skip
        return tidy(columns, self._model._frame)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to a file of usearch."""
        self.index.save(str(path))


def _usearch() -> Any:
    try:
        from usearch.index import Index  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = (
            "An index of nearest neighbors needs usearch: pip install 'gcmf[ann]'. Or ask recommend(), which is exact."
        )
        raise MissingExtraError(msg) from error
    return Index
