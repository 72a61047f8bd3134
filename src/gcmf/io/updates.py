"""More cells for a model from where its data come from: those of a project that the model has not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.pairs import Pairs
from gcmf.data.relation import Relation
from gcmf.errors import DataError, OptionError, counted
from gcmf.model.newcomers import terms_of

if TYPE_CHECKING:
    from gcmf.data.bound import BoundRelation
    from gcmf.data.collection import Collection
    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted

_CELLS = 1_000_000
"""Cells that are looked at together."""


@dataclass(frozen=True)
class LeftOut:
    """Changes of a relation that an update cannot take in."""

    n_new: int
    """Cells that the model has not seen; where blanks are zeros, that it has seen as zeros."""
    n_gone: int
    """Of a relation whose blanks are zeros: cells that were listed, and are zeros now."""
    why: str

    def __str__(self) -> str:
        counts = counted(self.n_new, "new cell"), counted(self.n_gone, "cell") + " no longer listed"
        return " and ".join(said for said, n in zip(counts, (self.n_new, self.n_gone), strict=True) if n)


@dataclass
class News:
    """What a project has beyond what a model knows."""

    relations: list[Relation] = field(default_factory=list)
    """Cells that the model has not seen."""
    n_new: int = 0
    n_seen: int = 0
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    """What only a fit can take in, by relation."""


def news(model: GCMF, data: Collection) -> News:
    """Return the cells of a collection that a model has not seen; a new value of one that it has is not seen."""
    fitted, found = model.fitted_, News()
    names = [relation.name for relation in fitted.schema.relations]
    unknown = [name for name in data.relations if name not in names]
    if unknown:
        msg = (
            f"The model has no relation {', '.join(map(repr, unknown))}; it has {', '.join(names)}. Fit again with it."
        )
        raise DataError(msg)
    if fitted.pairs is None:
        msg = (
            'The model does not know which cells it was fitted to, and might count some twice; fit with keep = "pairs".'
        )
        raise OptionError(msg)
    filled = terms_of(fitted).filled
    for name, relation in data.relations.items():
        m = names.index(name)
        if filled[m] or relation.cells.filled:
            why = "what is not listed is a zero, and was seen as one"
        elif fitted.units[m] is not None or relation.units is not None:
            why = "its columns are standardized"
        elif relation.cells.rows.weight is not None:
            why = "it has weights"
        else:
            _add(found, model, data, relation)
            continue
        n_new, n_gone = _changes(fitted, m, data, relation)
        if n_new or n_gone:
            found.left_out[name] = LeftOut(n_new, n_gone, why)
    return found


def _changes(fitted: Fitted, m: int, data: Collection, relation: BoundRelation) -> tuple[int, int]:
    """Count the cells that a model has not seen, and where blanks are zeros those that it has seen and are not there.

    Of a relation whose blanks are zeros, these are the cells that are no zeros.
    """
    assert fitted.pairs is not None
    given, known = Pairs.of(relation.cells), fitted.pairs[m]
    i, j = np.divmod(given.places, max(given.shape[1], 1))
    row_at, col_at = (
        fitted.vocabularies[name].index(data.entities[name].ids) for name in (relation.rows, relation.cols)
    )
    i, j = row_at[i], col_at[j]
    seen = (i >= 0) & (j >= 0) & np.isin(i * known.shape[1] + j, known.places)
    times = 2 if relation.symmetric else 1
    n_gone = len(known.places) - int(seen.sum()) if terms_of(fitted).filled[m] else 0
    return int((~seen).sum()) // times, n_gone // times


def _add(found: News, model: GCMF, data: Collection, relation: BoundRelation) -> None:
    """Add the cells of a relation that are new."""
    fitted = model.fitted_
    assert fitted.pairs is not None
    m = next(m for m, schema in enumerate(fitted.schema.relations) if schema.name == relation.name)
    rows, cols = (data.entities[name].ids for name in (relation.rows, relation.cols))
    row_at, col_at = (fitted.vocabularies[name].index(ids)
                      for name, ids in ((relation.rows, rows), (relation.cols, cols)))  # fmt: skip
    places, width = fitted.pairs[m].places, fitted.pairs[m].shape[1]
    parts = []
    for part in relation.chunks(_CELLS):
        i, j = row_at[part.i], col_at[part.j]
        seen = (i >= 0) & (j >= 0) & np.isin(i * width + j, places)
        if relation.symmetric:
            seen |= (i >= 0) & (j >= 0) & np.isin(j * width + i, places)
        parts.append([a[~seen] for a in part])
        found.n_seen += int(seen.sum())
    new_i, new_j, x = (np.concatenate(some) for some in zip(*parts, strict=True))
    if len(x):
        found.n_new += len(x)
        cells, ends = (rows[new_i], cols[new_j], x), (relation.rows, relation.cols)
        found.relations.append(
            Relation(relation.name, *ends, cells, fitted.likelihoods[m], blanks="missing", symmetric=relation.symmetric)
        )
