"""A model in plain words: what was fitted, what was found, and what to be careful with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from gcmf.errors import counted
from gcmf.estimators.tables import structure_table
from gcmf.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gcmf.estimators.gcmf import GCMF

_MANY = 6
"""Names that are told before the rest is counted."""
#: A relation of which less is explained says next to nothing.
_LITTLE = 0.01


def summary(model: GCMF) -> list[str]:
    """Return a few sentences: relations and sets, factors by what they are shared by, how the fit ended."""
    fitted = model.fitted_
    sizes = _listed([f"{name} ({len(ids):,})" for name, ids in fitted.vocabularies.items()])
    relations, sets = len(fitted.schema.relations), len(fitted.schema.entities)
    best = np.argsort(-fitted.explained.total, kind="stable")
    shares = _listed([f"{fitted.explained.total[m]:.0%} of {fitted.schema.relations[m].name}" for m in best])
    return [
        f"{counted(relations, 'relation')} over {counted(sets, 'entity set')}: {sizes}.",
        f"{_factors(model)}.",
        f"The model explains {shares} (of variance, or of deviance where cells are 0/1 or counts).",
        f"{_ending(model)}.",
    ]


def _factors(model: GCMF) -> str:
    """How many factors there are, and of which relations."""
    table = structure_table(model.fitted_)
    if table.empty:
        return "No factor was found: predictions are made of biases alone"
    parts = []
    shared = int((table["role"] == "shared").sum())
    if shared:
        everywhere = "in the only relation" if len(model.schema_.relations) == 1 else "shared by all relations"
        parts.append(f"{shared} {everywhere}")
    for role, verb in (("partial", "shared by"), ("private", "private to")):
        subsets = Counter(table.loc[table["role"] == role, "relations"])
        told = [f"{n} {verb} {_listed(list(names))}" for names, n in subsets.most_common(_MANY)]
        rest = sum(subsets.values()) - sum(n for _, n in subsets.most_common(_MANY))
        parts += told + ([f"{rest} more {role}"] if rest else [])
    weak = model.fitted_.n_weak
    also = f", and {counted(weak, 'weak factor')} that only help to predict" if weak else ""
    return f"{counted(len(table), 'factor')}: {'; '.join(parts)}{also}"


def _ending(model: GCMF) -> str:
    sweeps = counted(model.n_iter_, "sweep")
    if model.status_ in (Status.CONVERGED, Status.SAMPLED):
        return f"The fit {'converged' if model.status_ is Status.CONVERGED else 'was sampled'} after {sweeps}"
    return f"After {sweeps}: {str(model.status_).split(':')[0]}"


def warnings_of(model: GCMF) -> list[str]:
    """Return what a reader should be careful with: how the fit ended, who has no data, what is not explained."""
    fitted = model.fitted_
    told = []
    if model.status_ not in (Status.CONVERGED, Status.SAMPLED):
        told.append(f"How the fit ended: {model.status_}.")
    for name, count in _without_cells(model).items():
        told.append(
            f"Without an observed cell: {count:,} of {len(fitted.vocabularies[name]):,} in {name}. What is said of them"
            " is what would be said of anybody of the set."
        )
    names = [relation.name for relation in fitted.schema.relations]
    little = [name for name, total in zip(names, fitted.explained.total, strict=True) if total < _LITTLE]
    if little:
        told.append(f"Less than {_LITTLE:.0%} is explained of {_listed(little)}.")
    reached = {name for relations in structure_table(fitted)["relations"] for name in relations}
    alone = [name for name in names if name not in reached]
    if alone and fitted.n_factors:
        told.append(f"No factor reaches {_listed(alone)}: nothing is learned between it and the other relations.")
    told += [f"{name} was fitted from {drawn.n:,} of {drawn.of:,} zeros, drawn and weighed."
             for name, drawn in fitted.drawn.items()]  # fmt: skip
    return told


def _without_cells(model: GCMF) -> dict[str, int]:
    """How many entities of each set have no cell in any relation, where the model knows, and some have none."""
    fitted = model.fitted_
    if fitted.terms is None:
        return {}
    seen = {name: np.zeros(len(ids), dtype=bool) for name, ids in fitted.vocabularies.items()}
    for layer, has_cells in enumerate(fitted.terms.has_cells):
        relation = fitted.schema.relations[layer // 2]
        seen[(relation.rows, relation.cols)[layer % 2]][: len(has_cells)] |= has_cells
    return {name: int((~known).sum()) for name, known in seen.items() if not known.all()}


def _listed(names: Sequence[str]) -> str:
    """Return "a, b and c", or of many the first and how many more there are."""
    shown = list(names[:_MANY])
    if len(names) > _MANY:
        return f"{', '.join(shown)} and {len(names) - _MANY:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
