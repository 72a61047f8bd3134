"""How good is a model, and does each part of the data help? Cells that a fit does not see, and the errors on them."""

from __future__ import annotations

import copy
import itertools
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.split import count_units, cut, draw, draw_folds
from gcmf.engines.threads import available_threads
from gcmf.errors import ConvergenceWarning, UnknownIdError, did_you_mean
from gcmf.estimators.gcmf import GCMF
from gcmf.io.variants import BIAS, GROUP, variants, without_factors
from gcmf.options import check_integer, listed_callbacks
from gcmf.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gcmf.data.bound import BoundRelation
    from gcmf.estimators.gcmf import Data
    from gcmf.io.variants import Columns, Variant
    from gcmf.outcome import StepInfo

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
#: Fits at a time where nothing else is said: each holds a model and its own lists of cells.
MOST_JOBS = 4
MOST = 1_000_000
"""Cells of a relation whose blanks are zeros that are hidden at a time: all of them may be more than memory holds."""


def hide(data: Collection, share: float, *, seed: int) -> tuple[Collection, Collection]:
    """Return (train, test): a share of the cells of every relation that has enough of them is hidden.

    As `Collection.split`, which refuses relations that have too few cells, or too many zeros, to be split.
    """
    rng, drawn = np.random.default_rng(seed), {}
    for name, total in count_units(data).items():
        size = min(round(share * total), _most(data.relations[name], total))
        if 0 < size < total:
            drawn[name] = draw(rng, total, size)
    return cut(data, drawn)


def hidden_folds(
    data: Collection, relation: str, n_folds: int, *, seed: int
) -> Iterator[tuple[Collection, Collection]]:
    """Yield (train, test): a part of the cells of one relation is hidden in turn, each cell at most once.

    So are the cells of the same pairs of entities in other relations between its two sets, which would tell of them.
    """
    target, (total,) = data.relations[relation], count_units(data, relations=[relation]).values()
    size = n_folds * _most(target, total)
    if total <= size:
        chosen = [own[relation] for own in draw_folds(data, n_folds, relations=[relation], random_state=seed)]
    else:
        rng = np.random.default_rng(seed)
        chosen = [np.sort(part) for part in np.split(rng.permutation(draw(rng, total, size)), n_folds)]
    beside = [name for name, other in data.relations.items() if {other.rows, other.cols} == {target.rows, target.cols}]
    for part in chosen:
        yield cut(data, {name: part if name == relation else np.empty(0, np.int64) for name in beside})


def _most(relation: BoundRelation, total: int) -> int:
    """How many of all units of a relation may be hidden at a time: where blanks are zeros, those of `MOST` cells."""
    return max(1, MOST * total // relation.n_cells) if relation.cells.filled else total


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
        model._settle(run.summarize(self._train), run.trace, run.status, run.n_settled)
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


def evaluate(  # noqa: PLR0913 - what may be chosen, by name
    data: Data,
    options: Mapping[str, Any] | None = None,
    *,
    relations: Iterable[str] | None = None,
    n_folds: int = 5,
    random_state: int = 0,
    columns: Columns = False,
    forms: bool = False,
    factors: bool = False,
    n_jobs: int | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> pd.DataFrame:
    """Return what each part of the data, and of the model, adds to the prediction of each relation.

    Cells of one relation at a time are hidden, a fold at a time, and with each those of other relations between the
    same two entities; all else stays. Compared with the whole model, gCMF, are common factors (CMF), gCMF without each
    other relation and without each table of covariates, the relation alone, and its biases only; and if asked for

    - `columns=True`: gCMF without each column of covariates; or groups of them, {"where they live": ["zip", "city"]};
    - `forms=True`: with each table that could be either as covariates instead of a relation, and the other way round;
    - `factors=True`: predictions of the same fits without each factor, named as in a fit to all data.

    `error` is the mean over the folds of what `measure` names, the smaller the better: RMSE, for 0/1 cells the
    log-loss, for counts the negative log-likelihood (see `score`). `difference` is that of a method minus gCMF's: above
    zero, what is left out helps. `difference_se` is its standard error over the folds, which are the same for all.
    `auc` and `average_precision` are for 0/1 relations, the second where ones are rare, and NaN elsewhere. `hidden` is
    the size of a fold: of a relation whose blanks are zeros, a fold is a sample of a million cells where there are
    more. `unconverged` is the number of folds whose fit stopped at `max_iter`: its error is not that of the method.
    `found` is in how many folds a factor was found again; where it was not, leaving it out changes nothing.

    `n_jobs` fits run at a time, by default up to four, and share the cores; what comes of it does not depend on that.
    `gcmf.plot.evaluation` draws the table.
    """
    data, rows, whole = Collection.of(data, caller="evaluate"), [], None
    for target in _targets(data, relations):
        compared = variants(data, target, columns=columns, forms=forms)
        jobs, hidden = Jobs(n_jobs, len(compared), options or {}), 0
        by_method: dict[str, list[Held]] = {}
        with _expected():
            if factors and whole is None:
                whole = jobs.fitted(compared[0], data)
            for number, (train, test) in enumerate(hidden_folds(data, target, n_folds, seed=random_state), start=1):
                hidden = max(hidden, test.n_cells)
                for name, held in jobs.scores(compared, train, test.select([target]), whole):
                    by_method.setdefault(name, []).append(held)
                    report(f"{target}, fold {number}: {name}")
        rows += _table(target, by_method, hidden)
    return pd.DataFrame(rows)


def _targets(data: Collection, relations: Iterable[str] | None) -> list[str]:
    names = list(data.relations) if relations is None else [relations] if isinstance(relations, str) else [*relations]
    for name in names:
        if name not in data.relations:
            known = ", ".join(data.relations)
            msg = f"There is no relation {name!r}; the data have {known}.{did_you_mean(name, data.relations)}"
            raise UnknownIdError(msg)
    return names


class Held(NamedTuple):
    """How a fit has predicted the cells that it has not seen."""

    scores: dict[str, float]
    kind: str
    unconverged: bool
    found: float = np.nan
    """Of a factor: whether it was found again."""


def _table(target: str, by_method: Mapping[str, list[Held]], hidden: int) -> list[dict[str, Any]]:
    """One line per method; differences are taken fold by fold."""
    best = by_method[GROUP]
    measure, rows = next(iter(best[0].scores)), []
    for name, folds_of in by_method.items():
        errors = np.array([held.scores[measure] for held in folds_of])
        gap = errors - np.array([held.scores[measure] for held in best])
        scores = [held.scores for held in folds_of]
        rows.append({
            "relation": target, "method": name, "measure": measure, "error": float(errors.mean()),
            "difference": float(gap.mean()),
            "difference_se": float(gap.std(ddof=1) / np.sqrt(len(gap))) if name != GROUP else 0.0,
            "auc": _mean(scores, "auc"), "average_precision": _mean(scores, "average_precision"),
            "folds": len(folds_of), "hidden": hidden, "unconverged": sum(held.unconverged for held in folds_of),
            "kind": folds_of[0].kind, "found": float(sum(held.found for held in folds_of)),
        })  # fmt: skip
    return rows


def _mean(folds: list[dict[str, float]], measure: str) -> float:
    """Return the mean over the folds that have a measure: one without ones, or without zeros, has no AUC."""
    values = [fold[measure] for fold in folds if np.isfinite(fold.get(measure, np.nan))]
    return float(np.mean(values)) if values else float("nan")


# --- fits ---------------------------------------------------------------------------------------------------


class Jobs:
    """Fits variants, some at a time, and lets them predict what they have not seen."""

    def __init__(self, n_jobs: int | None, most: int, options: Mapping[str, Any]) -> None:
        if n_jobs is not None:
            check_integer("n_jobs", n_jobs, 1, also=" or None")
        cores = available_threads()
        self._n_jobs = min(n_jobs or min(cores, MOST_JOBS), most)
        self._options = {"n_threads": max(1, cores // self._n_jobs), "random_state": 0, **options, "progress": False}
        self._stop = False

    def scores(
        self, compared: Sequence[Variant], train: Collection, test: Collection, named: GCMF | None
    ) -> Iterator[tuple[str, Held]]:
        """Yield how each variant predicts, in their order; a model that has names for factors is `named`."""
        work = partial(self._predicted, train, test, named)
        if self._n_jobs == 1:  # a fit in the main thread notices Ctrl-C by itself
            yield from itertools.chain.from_iterable(map(work, compared))
            return
        with ThreadPoolExecutor(self._n_jobs) as pool:
            jobs = [pool.submit(work, variant) for variant in compared]
            try:
                for job in jobs:
                    yield from job.result()
            except BaseException:
                self._stop = True  # those at work end with their sweep
                pool.shutdown(cancel_futures=True)
                raise

    def _predicted(
        self, train: Collection, test: Collection, named: GCMF | None, variant: Variant
    ) -> list[tuple[str, Held]]:
        """How a fit predicts the hidden cells of a relation; the whole model also without each of its factors."""
        model, (target,) = self.fitted(variant, train), test.relations
        stopped = model.status_ is Status.MAX_ITER
        held = [(variant.name, Held(score(model, test)[target], variant.kind, unconverged=stopped))]
        if named is None or variant.name != GROUP:
            return held
        for name, less in without_factors(model, named, test.relations[target]).items():
            own = score(model if less is None else less, test)[target]
            held.append((name, Held(own, "factor", unconverged=False, found=float(less is not None))))
        return held

    def fitted(self, variant: Variant, train: Collection) -> GCMF:
        """Fit one variant."""
        model = GCMF(**{**self._options, **variant.options})
        model.set_params(callbacks=[*listed_callbacks(model.callbacks), lambda _: self._stop])
        seen = variant.seen(train)
        if variant.name == BIAS:
            off = {entity: (False,) for entity in seen.schema.entities}
            model._fit(seen, model._options(n_factors=1, pattern=off))
        else:
            model.fit(seen)
        if model.status_ is Status.INTERRUPTED:
            raise KeyboardInterrupt  # the model of an unfinished fit would be compared with those of finished ones
        return model


@contextmanager
def _expected() -> Iterator[None]:
    """Within it, these warnings are not shown: once for all fits, as filters are of the whole process."""
    with warnings.catch_warnings():
        # These are counted; a number that overflowed is told at once.
        warnings.filterwarnings("ignore", ".*stopped at max_iter", ConvergenceWarning)
        # A set without factors has no mean to take over them; what comes of it is never used.
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
        yield
