"""How good is a model, and does each extra relation help? Cells that a fit does not see, and the errors on them."""

from __future__ import annotations

import copy
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.parts import take
from gcmf.data.split import draw, folds
from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF
from gcmf.fit import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo

GROUP, COMMON, ALONE, BIAS = "gCMF", "CMF", "alone", "biases only"
"""Methods that are compared; and gCMF without each other relation."""
Scores = dict[str, dict[str, float]]
"""Measures by relation."""

MEASURES = {
    "rmse": "RMSE", "log_loss": "log-loss", "negative_log_likelihood": "negative log-likelihood", "auc": "AUC",
    "average_precision": "average precision",
}  # fmt: skip
"""What people call them."""
RARE = 0.1
"""Ones are rare where fewer cells than this share are ones."""
_EVERY_SECONDS = 2.0
_CHUNK = 100_000
MOST = 1_000_000
"""Cells of a relation whose blanks are zeros that are hidden at a time: all of them may be more than memory holds."""


def hide(data: Collection, share: float, *, seed: int) -> tuple[Collection, Collection]:
    """Return (train, test): a share of the cells of every relation that has enough of them is hidden."""
    rng = np.random.default_rng(seed)
    numbers = {}
    for name, relation in data.relations.items():
        size = round(share * relation.n_cells)
        size = min(size, MOST) if relation.cells.filled else size
        if 0 < size < relation.n_cells:
            numbers[name] = draw(rng, relation.n_cells, size)
    return _part(data, numbers)


def hidden_folds(
    data: Collection, relation: str, n_folds: int, *, seed: int
) -> Iterator[tuple[Collection, Collection]]:
    """Yield (train, test): a part of the cells of one relation is hidden in turn, each cell at most once."""
    n_cells = data.relations[relation].n_cells
    if not data.relations[relation].cells.filled or n_cells <= n_folds * MOST:
        yield from folds(data, n_folds, by="cell", relations=[relation], random_state=seed)
        return
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(draw(rng, n_cells, n_folds * MOST))
    for part in np.split(drawn, n_folds):
        yield _part(data, {relation: np.sort(part)})


def _part(data: Collection, numbers: dict[str, npt.NDArray[np.int64]]) -> tuple[Collection, Collection]:
    parts = {name: take(data.relations[name].cells, hidden) for name, hidden in numbers.items()}
    left = {name: parts[name][0] if name in parts else relation.cells for name, relation in data.relations.items()}
    return data.with_cells(left), data.with_cells({name: hidden for name, (_, hidden) in parts.items()})


class HeldOut:
    """Scores hidden cells after the first sweep, and then every few seconds: a look costs about as much as a sweep."""

    def __init__(self, model: GCMF, train: Collection, test: Collection) -> None:
        self._model, self._train, self._test = model, train, test
        self._next = 0.0
        self.scores: Scores = {}
        """The last ones."""
        self.sweep = 0
        """When they were taken."""

    def __call__(self, info: StepInfo) -> None:
        """Score, if it is time."""
        if time.monotonic() < self._next:
            return
        run = info.snapshot()
        model = copy.copy(self._model)
        model._settle(run.summarize(self._train), run.trace, run.status)
        self.scores, self.sweep = score(model, self._test), info.iteration
        self._next = time.monotonic() + _EVERY_SECONDS


def score(model: GCMF, test: Collection) -> Scores:
    """Return what hidden cells say of each relation; the first measure is the error, the smaller the better.

    Numbers are judged by their RMSE. 0/1 cells are judged by the log-loss, −log p(x) per cell, and the area under the
    ROC curve, and where ones are rare, which makes that area look good, also by the average precision. Counts are
    judged by −log p(x) per cell; so are numbers whose columns have units of their own, which no RMSE can add up.
    """
    table, fitted = model._score_table(test).to_dict(orient="index"), model.fitted_
    numbers = {relation.name: m for m, relation in enumerate(model.schema_.relations)}
    scores: Scores = {}
    for name, relation in test.relations.items():
        row, m = {key: float(value) for key, value in table[name].items()}, numbers[name]
        support = fitted.likelihoods[m].support
        if support == "binary":
            scores[name] = {"log_loss": -row["log_likelihood"], "auc": row.get("auc", np.nan)}
            ones = sum(float(part.x.sum()) for part in relation.cells.chunks(_CHUNK))
            if 0 < ones < RARE * relation.n_cells:
                scores[name]["average_precision"] = row["average_precision"]
        elif support == "counts" or fitted.units[m] is not None:
            scores[name] = {"negative_log_likelihood": -row["log_likelihood"]}
        else:
            scores[name] = {"rmse": row["rmse"]}
    return scores


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
    report: Callable[[str], object] = lambda _: None,
) -> pd.DataFrame:
    """Return the held-out error of every method on every relation, and how far it is from gCMF's.

    Cells of one relation at a time are hidden, a fold at a time; the other relations stay whole. `error` is the mean
    over the folds of what `measure` names, the smaller the better: RMSE, for 0/1 cells the log-loss, for counts the
    negative log-likelihood (see `score`). `difference` is that of a method minus gCMF's, above zero where gCMF
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
            for name, by_fold in scores.items():
                model = _fitted(name, _seen(train, name, target), options)
                by_fold.append(score(model, test.with_cells({target: test.relations[target].cells}))[target])
                unconverged[name] += model.status_ is Status.MAX_ITER
                report(f"{target}, fold {number}: {name}")
        measure = next(iter(scores[GROUP][0]))
        best = np.array([fold[measure] for fold in scores[GROUP]])
        for name, by_fold in scores.items():
            errors = np.array([fold[measure] for fold in by_fold])
            gap = errors - best
            rows.append({
                "relation": target, "method": name, "measure": measure, "error": float(errors.mean()),
                "difference": float(gap.mean()),
                "difference_se": float(gap.std(ddof=1) / np.sqrt(len(gap))) if name != GROUP else 0.0,
                "auc": _mean(by_fold, "auc"), "average_precision": _mean(by_fold, "average_precision"),
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
