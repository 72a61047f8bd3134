"""Does each extra relation help? Cross-validated errors of the whole collection and of parts of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF
from gcmf.fit import Status
from gcmf.io.holdout import hidden_folds, score

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

    Cells of one relation at a time are hidden, a fold at a time; the other relations stay whole. `error` is the mean
    over the folds of what `measure` names, the smaller the better: RMSE, for 0/1 cells the log-loss, for counts the
    negative log-likelihood (see `holdout.score`). `difference` is that of a method minus gCMF's, above zero where gCMF
    is better, and `difference_se` its standard error over the folds, which are the same for all. `auc` and
    `average_precision` are for 0/1 relations, the second where ones are rare, and NaN elsewhere. `hidden` is the size
    of a fold: of a relation whose blanks are zeros, a fold is a sample of a million cells where there are more.
    `unconverged` is the number of folds whose fit stopped at `max_iter`: its error is not that of the method.
    """
    rows = []
    for target in data.relations if relations is None else relations:
        scores: dict[str, list[dict[str, float]]] = {name: [] for name in methods(data, target)}
        unconverged, hidden = dict.fromkeys(scores, 0), 0
        for number, (train, test) in enumerate(hidden_folds(data, target, n_folds, seed=random_state), start=1):
            hidden = max(hidden, test.n_cells)
            for name, own in scores.items():
                model = _fitted(name, _seen(train, name, target), options)
                own.append(score(model, test.with_cells({target: test.relations[target].cells}))[target])
                unconverged[name] += model.status_ is Status.MAX_ITER
                report(f"{target}, fold {number}: {name}")
        measure = next(iter(scores[GROUP][0]))
        best = np.array([fold[measure] for fold in scores[GROUP]])
        for name, own in scores.items():
            errors = np.array([fold[measure] for fold in own])
            gap = errors - best
            rows.append({
                "relation": target, "method": name, "measure": measure, "error": float(errors.mean()),
                "difference": float(gap.mean()),
                "difference_se": float(gap.std(ddof=1) / np.sqrt(len(gap))) if name != GROUP else 0.0,
                "auc": _mean(own, "auc"), "average_precision": _mean(own, "average_precision"),
                "folds": n_folds, "hidden": hidden, "unconverged": unconverged[name],
            })  # fmt: skip
    return pd.DataFrame(rows)


def _mean(folds: list[dict[str, float]], measure: str) -> float:
    """Return the mean over the folds that have a measure: one without ones, or without zeros, has no AUC."""
    values = [fold[measure] for fold in folds if np.isfinite(fold.get(measure, np.nan))]
    return float(np.mean(values)) if values else float("nan")


def _seen(train: Collection, method: str, target: str) -> Collection:
    """Return the relations that a method may see."""
    if method in (ALONE, BIAS):
        return train.select([target])
    if method.startswith("without "):
        return train.select([name for name in train.relations if name != method.removeprefix("without ")])
    return train


def _fitted(method: str, train: Collection, options: Mapping[str, Any]) -> GCMF:
    """Fit one method."""
    model = GCMF(**{"random_state": 0, **options, "progress": False})
    if method == COMMON:
        model.set_params(sharing="common")
    with warnings.catch_warnings():
        # These are counted; a number that overflowed is told at once.
        warnings.filterwarnings("ignore", ".*stopped at max_iter", ConvergenceWarning)
        if method == BIAS:
            # A set without factors has no mean to take over them; what comes of it is never used.
            warnings.simplefilter("ignore", RuntimeWarning)
            off = {entity: (False,) for entity in train.schema.entities}
            model._fit(train, model._options(n_factors=1, pattern=off))
        else:
            model.fit(train)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the model of an unfinished fit would be compared with those of finished ones
    return model
