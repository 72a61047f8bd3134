"""Entities that a model did not know when it was fitted: folded in, they are asked like all others."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.checks import strange_kind
from gcmf.data.incoming import Known, Met, meet
from gcmf.data.known_features import read_features
from gcmf.data.pairs import Pairs
from gcmf.data.relation import Relation
from gcmf.data.vocabulary import Vocabulary, and_more, show_id
from gcmf.engines.select import engine_maker_nearby
from gcmf.engines.threads import single_threaded_blas
from gcmf.errors import DataError, counted
from gcmf.estimators.rankings import n_threads_of, neighbors, pairs_at
from gcmf.model.drawn import fold_drawn
from gcmf.model.newcomers import (
    DrawnRows,
    Features,
    Rows,
    expected_rows,
    fold,
    layers_of,
    swept_bias_var,
    swept_var,
    terms_of,
    with_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from gcmf.data.id_kind import Ids
    from gcmf.data.schema import RelationSchema
    from gcmf.estimators.gcmf import GCMF
    from gcmf.estimators.tables import Frame
    from gcmf.model.fitted import Fitted
    from gcmf.model.newcomers import EngineOf


class NewEntities:
    """New entities of one set, as `GCMF.fold_in` finds them; everything else of the model is as it was.

    Attributes
    ----------
    entity : str
        Their entity set.
    ids : pandas.Index
        Their ids, in the order of every table about them.
    """

    entity: str
    ids: pd.Index[Any]

    def __init__(self, model: GCMF, fitted: Fitted, entity: str, ids: Vocabulary) -> None:
        self._model, self.entity, self.ids = model, entity, ids.ids
        self._answers = copy.copy(model)
        self._answers._fitted = fitted

    def factors(self, *, std: bool = False, weak: bool = False) -> Frame:
        """Means (or with `std=True` deviations) of their factors, ids × factors, as `GCMF.factors` has them."""
        table = self._answers.factors(self.entity, std=std, weak=weak)
        return table if len(table) == len(self.ids) else table[-len(self.ids) :]

    def predict(self, relation: str, rows: Ids = None, cols: Ids = None, **options: Any) -> Any:
        """Predict cells of a relation, as `GCMF.predict` does; None stands for all of them on their side."""
        ends = self._answers.schema_.relations[self._answers._relation(relation)]
        if rows is None or cols is None:
            options["grid"] = True
        rows = self.ids if rows is None and ends.rows == self.entity else rows
        cols = self.ids if cols is None and ends.rows != self.entity == ends.cols else cols
        return self._answers.predict(relation, rows, cols, **options)

    def recommend(self, relation: str, ids: Ids = None, n: int = 10, **options: Any) -> Frame:
        """Recommend to them, as `GCMF.recommend` does, without what they were folded in with."""
        ends = self._answers.schema_.relations[self._answers._relation(relation)]
        if self.entity not in (ends.rows, ends.cols):
            msg = f"The relation {relation!r} has no {self.entity}: it joins {ends.rows!r} and {ends.cols!r}."
            raise DataError(msg)
        options.setdefault("to", "rows" if ends.rows == self.entity else "cols")
        return self._answers.recommend(relation, self.ids if ids is None else ids, n, **options)

    def similar(self, ids: Ids = None, n: int = 10, *, relation: str | None = None) -> Frame:
        """Who is like them among those that the model was fitted to, as `GCMF.similar` has it."""
        ids = self.ids if ids is None else ids
        m = None if relation is None else self._answers._relation(relation)
        return neighbors(self._answers, self._model.fitted_, self.entity, ids, n, m=m)

    def together(self) -> GCMF:
        """A model that knows them beside those that it was fitted to; ids that both have are those known before."""
        fitted, old, e = self._answers.fitted_, self._model.fitted_, self._model.schema_.entity_index(self.entity)
        if fault := strange_kind(self.entity, old.vocabularies[self.entity], self.ids, "those folded in"):
            raise DataError(fault)
        model = copy.copy(self._model)
        if len(fitted.mean[e]) > len(self.ids):  # they stand beside the others already
            model._fitted = replace(fitted, pairs=_joined(old, fitted))
            return model
        new = np.flatnonzero(old.vocabularies[self.entity].index(self.ids) < 0)
        layers = layers_of(fitted, e)
        rows = Rows(
            fitted.mean[e][new].astype(np.float64), swept_var(fitted, e)[new].astype(np.float64),
            np.stack([fitted.bias_mean[layer][new] for layer in layers], axis=1),
            np.stack([swept_bias_var(fitted, layer)[new] for layer in layers], axis=1),
            fitted.var[e][new].astype(np.float64),
            np.stack([fitted.bias_var[layer][new] for layer in layers], axis=1),
            None if fitted.draws is None else DrawnRows(
                fitted.draws.factors[e][:, new],
                np.stack([fitted.draws.biases[layer][:, new] for layer in layers], axis=2),
            ),
        )  # fmt: skip
        both = with_rows(old, e, Vocabulary(self.ids[new]), rows, beside=True)
        model._fitted = replace(both, pairs=_joined(old, both, fitted))
        return model

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.ids[:3])) + (", ..." if len(self.ids) > 3 else "")
        return f"<NewEntities: {counted(len(self.ids), self.entity)} ({names})>"


def _joined(old: Fitted, both: Fitted, new: Fitted | None = None) -> tuple[Pairs, ...] | None:
    """What was seen before and what the new entities were folded in with, by the positions of a model with both."""
    if old.pairs is None:
        return None
    joined = []
    for m, relation in enumerate(both.schema.relations):
        listed = [_listed_pairs(source, both, m, relation) for source in (old, both if new is None else new)]
        joined.append(pairs_at(both, m, *(np.concatenate(part) for part in zip(*listed, strict=True))))
    return tuple(joined)


def _listed_pairs(source: Fitted, both: Fitted, m: int, relation: RelationSchema) -> tuple[Any, Any]:
    if source.pairs is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = source.pairs[m]
    row, col = np.divmod(pairs.places, max(pairs.shape[1], 1))
    rows, cols = (both.vocabularies[name].index(source.vocabularies[name]) for name in (relation.rows, relation.cols))
    return rows[row], cols[col]


def engine_of(model: GCMF) -> EngineOf:
    """What makes the engine of the model's device, for a few rows."""
    make, n_threads = engine_maker_nearby(model.device), n_threads_of(model)
    return lambda problem, dtype: make(problem, dtype=dtype, n_threads=n_threads)


def known_of(fitted: Fitted) -> Known:
    """What cells are read by."""
    terms = terms_of(fitted)
    return Known(fitted.schema, fitted.vocabularies, fitted.likelihoods, terms.filled, terms.has_cells, fitted.units)


def folded(
    model: GCMF,
    entity: str,
    cells: Mapping[str, Any] | None,
    covariates: Any,
) -> NewEntities:
    """Find the factors and biases of new entities from their cells and covariates."""
    fitted = model.fitted_
    e = fitted.schema.entity_index(entity)
    ids, values = _covariates(fitted, entity, covariates)
    ids, met = meet(known_of(fitted), entity, cells or {}, ids)
    features, n = _placed(values, len(ids)), len(ids)
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if fitted.draws is None:
            rows = fold(fitted, e, met, expected_rows(fitted, e, n, features), engine_of(model))
        else:
            rows = fold_drawn(fitted, e, met, engine_of(model), n=n, features=features)
    known = fitted.vocabularies[entity].index(ids) >= 0
    beside = any(r == c == e for r, c in fitted.ends)
    if beside and known.any():
        msg = (
            f"The {entity} {show_id(ids.ids[int(np.argmax(known))])} is known to the model already, and has a relation"
            " with others of its set; fold it in under another id, or use model.update."
        )
        raise DataError(msg)
    found = with_rows(fitted, e, ids, rows, beside=beside)
    pairs = _pairs(found, met, len(fitted.mean[e]) if beside else 0)
    return NewEntities(model, replace(found, pairs=pairs), entity, ids)


def with_new_entities(model: GCMF, given: Mapping[int, Relation]) -> Fitted:
    """A sampled model with entities that it did not know, drawn beside each of its draws; all else stays as it is.

    `given` are relations by their number in the model, whose rows are the relation's own.
    """
    fitted = model.fitted_
    cells: dict[str, dict[str, Relation]] = {}
    for m, relation in given.items():
        schema, raw = fitted.schema.relations[m], relation.raw
        new = [(fitted.vocabularies[name].index(ids) < 0)[at[:]]
               for name, ids, at in ((schema.rows, raw.row_ids, raw.i), (schema.cols, raw.col_ids, raw.j))]  # fmt: skip
        bad = np.flatnonzero(new[0] == new[1])
        if len(bad):
            row, col = show_id(raw.row_ids.ids[raw.i[:][bad[0]]]), show_id(raw.col_ids.ids[raw.j[:][bad[0]]])
            both = "new" if new[0][bad[0]] else "known"
            msg = (
                f"relation {schema.name!r}: row {row}, column {col}{and_more(len(bad) - 1)} are both {both} to the"
                " model, and a sampled model takes in new entities alone, with cells that meet entities which it knows:"
                " its draws cannot be drawn again without the cells that they rest on. Leave such cells out, or fit"
                " again with all cells, from where the model is: fit(data, start=model)."
            )
            raise DataError(msg)
        for entity, which in zip((schema.rows, schema.cols), new, strict=True):
            if schema.rows == schema.cols:
                cells.setdefault(entity, {})[schema.name] = relation
            elif which.any():
                cells.setdefault(entity, {})[schema.name] = _part(relation, np.flatnonzero(which))
    for entity, some in cells.items():
        grown = copy.copy(model)
        grown._fitted = fitted
        fitted = folded(grown, entity, some, None).together().fitted_
    return fitted


def _part(relation: Relation, which: Any) -> Relation:
    """Some cells of a relation, and the ids that they have."""
    raw = relation.raw
    (rows, i), (cols, j) = (np.unique(at[:][which], return_inverse=True) for at in (raw.i, raw.j))
    some = replace(
        raw, row_ids=Vocabulary(raw.row_ids.ids[rows]), col_ids=Vocabulary(raw.col_ids.ids[cols]), i=i, j=j,
        x=raw.x[which], weight=None if raw.weight is None else raw.weight[which],
    )  # fmt: skip
    return Relation(
        relation.name, relation.rows, relation.cols, some, relation.likelihood, symmetric=relation.symmetric
    )


def _covariates(fitted: Fitted, entity: str, given: Any) -> tuple[Vocabulary | None, Any]:
    if given is None:
        return None, None
    if entity not in fitted.effects:
        msg = f"The model was fitted without covariates of {entity!r}, so that none can be used now; leave them out."
        raise DataError(msg)
    effects = fitted.effects[entity]
    return read_features(entity, given, effects.features, effects.center, effects.scale)


def _placed(values: Any, n: int) -> Features | None:
    """Features of n entities, of which the first have some."""
    if values is None:
        return None
    more = n - values.shape[0]
    known = np.arange(n) < values.shape[0]
    if not more:
        return Features(values, known)
    if isinstance(values, np.ndarray):
        return Features(np.concatenate([values, np.zeros((more, values.shape[1]))]), known)
    values.resize((n, values.shape[1]))
    return Features(values, known)


def _pairs(fitted: Fitted, met: Sequence[Met], first: int) -> tuple[Pairs, ...]:
    """What the new entities were folded in with, by relation; those of a set start at `first`."""
    none = np.empty(0, np.int64)
    listed: list[list[tuple[Any, Any]]] = [[(none, none)] for _ in fitted.ends]
    for of in met:
        pairs = Pairs.of(of.cells)
        new, other = np.divmod(pairs.places, max(pairs.shape[1], 1))
        new = new + first
        both = [(new, other), (other, new)]
        listed[of.relation] += both if fitted.schema.relations[of.relation].symmetric else [both[of.side]]
    return tuple(
        pairs_at(fitted, m, *(np.concatenate(parts) for parts in zip(*cells, strict=True)))
        for m, cells in enumerate(listed)
    )
