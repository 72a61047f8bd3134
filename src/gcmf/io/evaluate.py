"""Does each extra relation help? Cross-validated errors of the whole collection and of parts of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.data.split import folds
from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Report = Callable[[str], object]
    """Told what was fitted last."""

GROUP, COMMON, ALONE, BIAS = "gCMF", "CMF", "alone", "biases only"


def methods(data: Collection, relation: str) -> tuple[str, ...]:
    """Return what is compared on a relation: everything together, two ways, without each other one, alone."""
    if len(data.relations) == 1:
        return GROUP, BIAS
    others = [f"without {name}" for name in data.relations if name != relation] if len(data.relations) > 2 else []
    return GROUP, COMMON, *others, ALONE, BIAS


def evaluate(  # noqa: PLR0913 - what may be chosen, by name
    data: Collection,
    options: Mapping[str, Any],
    *,
    relations: Iterable[str] | None = None,
    n_folds: int = 5,
    random_state: int = 0,
    report: Report = lambda _: None,
) -> pd.DataFrame:
    """Return the held-out error of every method on every relation, and how far it is from gCMF's.

    Cells of one relation at a time are hidden, a fold at a time; the other relations stay whole. `error` is the
    mean RMSE over the folds, `difference` that of a method minus gCMF's, above zero where gCMF is better, and
    `difference_se` its standard error over the folds, which are the same for all.
    """
    rows = []
    for target in data.relations if relations is None else relations:
        errors: dict[str, list[float]] = {name: [] for name in methods(data, target)}
        parts = folds(data, n_folds, by="cell", relations=[target], random_state=random_state)
        for number, (train, test) in enumerate(parts, start=1):
            for name, own in errors.items():
                own.append(_error(name, target, (train, test), options))
                report(f"{target}, fold {number}: {name}")
        best = np.array(errors[GROUP])
        for name, own in errors.items():
            gap = np.array(own) - best
            rows.append({
                "relation": target, "method": name, "error": float(np.mean(own)), "difference": float(gap.mean()),
                "difference_se": float(gap.std(ddof=1) / np.sqrt(len(gap))) if name != GROUP else 0.0,
                "folds": n_folds,
            })  # fmt: skip
    return pd.DataFrame(rows)


def _error(method: str, target: str, parts: tuple[Collection, Collection], options: Mapping[str, Any]) -> float:
    """Fit one method on what it may see, and return its RMSE on the hidden cells of the relation."""
    train, test = parts
    if method in (ALONE, BIAS):
        train = _only(train, [target])
    elif method.startswith("without "):
        train = _only(train, [name for name in train.relations if name != method.removeprefix("without ")])
    model = GCMF(**{"random_state": 0, **options, "progress": False})
    if method == COMMON:
        model.set_params(sharing="common")
    with warnings.catch_warnings():
        # Stopping a little early matters less than the same budget for all.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if method == BIAS:
            # A set without factors has no mean to take over them; what comes of it is never used.
            warnings.simplefilter("ignore", RuntimeWarning)
            off = {entity: (False,) for entity in train.schema.entities}
            model._fit(train, model._options(n_factors=1, pattern=off))
        else:
            model.fit(train)
    return float(model._score_table(test.with_cells({target: test.relations[target].cells}))["rmse"].iloc[0])


def _only(data: Collection, names: Iterable[str]) -> Collection:
    """Return a collection of these relations alone, over the same ids."""
    made, entities = [], {}
    for name in names:
        own = data.relations[name]
        for entity in (own.rows, own.cols):
            entities[entity] = data.entities[entity].ids
        made.append(_as_given(data, name))
    return Collection(made, entities)


def _as_given(data: Collection, name: str) -> Relation:
    own = data.relations[name]
    rows, cols = data.entities[own.rows].ids, data.entities[own.cols].ids
    i, j, x = own.cells.triplets()
    return Relation(name, own.rows, own.cols, (rows[i], cols[j], x), own.likelihood)
