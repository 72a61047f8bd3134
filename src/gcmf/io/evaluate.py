"""Does each extra relation help? Cross-validated errors of the whole collection and of parts of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF
from gcmf.io.holdout import hidden_folds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gcmf.data.collection import Collection

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
    `difference_se` its standard error over the folds, which are the same for all. `hidden` is the size of a fold: of
    a relation whose blanks are zeros, a fold is a sample of a million cells where there are more.
    """
    rows = []
    for target in data.relations if relations is None else relations:
        errors: dict[str, list[float]] = {name: [] for name in methods(data, target)}
        hidden = 0
        for number, (train, test) in enumerate(hidden_folds(data, target, n_folds, seed=random_state), start=1):
            hidden = max(hidden, test.n_cells)
            for name, own in errors.items():
                own.append(_error(name, target, (train, test), options))
                report(f"{target}, fold {number}: {name}")
        best = np.array(errors[GROUP])
        for name, own in errors.items():
            gap = np.array(own) - best
            rows.append({
                "relation": target, "method": name, "error": float(np.mean(own)), "difference": float(gap.mean()),
                "difference_se": float(gap.std(ddof=1) / np.sqrt(len(gap))) if name != GROUP else 0.0,
                "folds": n_folds, "hidden": hidden,
            })  # fmt: skip
    return pd.DataFrame(rows)


def _error(method: str, target: str, parts: tuple[Collection, Collection], options: Mapping[str, Any]) -> float:
    """Fit one method on what it may see, and return its RMSE on the hidden cells of the relation."""
    train, test = parts
    if method in (ALONE, BIAS):
        train = train.select([target])
    elif method.startswith("without "):
        train = train.select([name for name in train.relations if name != method.removeprefix("without ")])
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
