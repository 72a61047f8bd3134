"""What the answers of one fitted model have in common: small named checks, of a random world each."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf import Relation, load
from gcmf.errors import GcmfError
from gcmf.model.predict import theta_of
from gcmf.model.predictive import Normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.matrices import Floats, Rng
    from fuzz.worlds import Table, World
    from gcmf import GCMF, Collection

    Predicted = dict[str, tuple[Floats, Floats]]

#: No prediction is so many times larger than the largest cell.
LARGEST = 20.0
LEVEL = 0.9
#: Between quantiles that leave out (1 - LEVEL)/2 on either side and so many deviations beyond lies the mean of any
#: distribution (Cantelli).
BEYOND = np.sqrt((1 - LEVEL) / (1 + LEVEL))
#: Who is folded in may be so far from where a fit had it, in deviations of the cells and of the prediction.
FOLDED = 0.05
#: The same of a sampled model, in deviations of the prediction: a few draws, which are not the same ones.
DRAWN = 3.0
#: Fits that are so far apart, in deviations of the cells, are at different optima. A refit may then be so many times as
#: far from the truth as the worst of other starts.
APART, WORSE, STARTS = 0.05, 1.5, 3


@dataclass(frozen=True)
class Case:
    """A world, its collection and a model of it."""

    seed: int
    world: World
    data: Collection
    model: GCMF

    @property
    def rng(self) -> Rng:
        """The same numbers for every check."""
        return np.random.default_rng(self.seed)

    @cached_property
    def tables(self) -> list[Table]:
        """Two of the relations, for checks that take long."""
        return [self.world.tables[n] for n in self.rng.permutation(len(self.world.tables))[:2]]

    @property
    def sampled(self) -> bool:
        """Whether the model is made of draws."""
        return "gibbs" in self.world.features

    @cached_property
    def predicted(self) -> Predicted:
        """Mean and deviation of every cell of every relation, in the order of the world."""
        return predictions(self.world, self.model)


def predictions(world: World, model: GCMF, *, turned: bool = False) -> Predicted:
    """Mean and deviation of every cell, by the ids of the world and its way round."""
    found = {}
    for t in world.tables:
        ids = world.ids[t.ends[0]], world.ids[t.ends[1]]
        mean, std = model.predict(t.name, *(ids[::-1] if turned else ids), grid=True, return_std=True)
        found[t.name] = (mean.T, std.T) if turned else (mean, std)
    return found


def _near(a: Any, b: Any, margin: Any, what: str) -> None:  # noqa: ANN401 - arrays and columns
    """Two answers differ by no more than the margin."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert a.shape == b.shape, f"{what}: {a.shape} and {b.shape}"
    off = float(np.max(np.abs(a - b) / margin, initial=0.0))
    assert off <= 1.0, f"{what}: {np.abs(a - b).max():.2g} apart, {off:.2g} times what is allowed"


def _in_order(table: pd.DataFrame, what: str) -> pd.Series[float]:
    """The scores by id and item, which stand in the table in descending order."""
    steps = table.groupby("id", sort=False)["score"].diff().dropna()
    assert np.isfinite(table["score"]).all(), f"{what}: a score is not finite"
    assert (steps <= 0).all(), f"{what}: not in order"
    return table.set_index(["id", "item"])["score"].sort_index()


# --- predictions ---------------------------------------------------------------------------------------------------


def sizes(case: Case) -> None:
    """Predictions are finite and of the size of the data, deviations positive."""
    for t in case.world.tables:
        _of_size(t, *(a[t.possible] for a in case.predicted[t.name]))


def strangers(case: Case) -> None:
    """So are predictions of entities that the model has never heard of."""
    for t in case.world.tables:
        _of_size(t, *case.model.predict(t.name, ["new"], ["other"], unknown="prior", return_std=True))


def _of_size(t: Table, mean: Floats, std: Floats) -> None:
    largest, size = max(np.nanmax(np.abs(t.filled)), float(t.likelihood.name != "gaussian")), np.abs(mean).max()
    assert np.isfinite([mean, std]).all(), f"{t.name}: a mean or a deviation is not finite"
    # A probability that rounds to 1 has a deviation of 0.
    assert (std > 0).all() or t.likelihood.name == "bernoulli", f"{t.name}: a deviation of {std.min():.2g}"
    assert size <= LARGEST * largest, f"{t.name}: a mean of {size:.2g}, the largest cell is {largest:.2g}"


def intervals(case: Case) -> None:
    """An interval has its mean within it, or as near as any distribution does, and is within a wider one."""
    for t in case.tables:
        ids = case.world.ids[t.ends[0]], case.world.ids[t.ends[1]]
        mean, std, low, high = case.model.predict(t.name, *ids, grid=True, return_std=True, interval=LEVEL)
        _, inner, outer = case.model.predict(t.name, *ids, grid=True, interval=LEVEL / 2)
        slack = 1e-9 + 1e-6 * std + (BEYOND * std if case.sampled or t.likelihood.name != "gaussian" else 0.0)
        assert (low <= mean + slack).all(), f"{t.name}: a mean lies {((low - mean) / std).max():.2g} deviations below"
        assert (mean <= high + slack).all(), f"{t.name}: a mean lies {((mean - high) / std).max():.2g} deviations above"
        assert ((low <= inner) & (outer <= high)).all(), f"{t.name}: a narrower interval is not within a wider"
        if t.likelihood.name == "bernoulli":
            excess = (std**2 - mean * (1 - mean)).max()
            assert excess <= 1e-6, f"{t.name}: a variance is {excess:.2g} more than p(1 - p)"


def drawn_cells(case: Case) -> None:
    """Cells that are drawn have the mean that is predicted."""
    n = 400
    for t in case.tables:
        rows, cols = case.world.ids[t.ends[0]][:4], case.world.ids[t.ends[1]][:4]
        x = case.model.sample(t.name, rows, cols, n, grid=True, random_state=case.seed)
        mean, std = (a[:4, :4] for a in case.predicted[t.name])
        _near(x.mean(axis=0), mean, 8 / np.sqrt(n) * np.maximum(std, x.std(axis=0)) + 1e-9, f"cells drawn of {t.name}")


# --- structure -----------------------------------------------------------------------------------------------------


def structure(case: Case) -> None:
    """Activities are shares; relations that a factor does not reach owe it nothing, and other sets do not hold it."""
    table, explained = case.model.structure(), case.model.variance_explained()
    assert len(table) == case.model.n_factors_active_
    activity = table[list(case.world.ids)].to_numpy(float)
    assert ((activity >= 0) & (activity <= 1 + 1e-9)).all(), f"activities from {activity.min()} to {activity.max()}"
    factors = {name: case.model.factors(name) for name in case.world.ids}
    for factor, relations in table["relations"].items():
        others = [name for name in explained.index if name not in relations]
        if not case.sampled:  # averages over draws, of which some may reach more
            assert not explained.loc[others, factor].any(), f"{factor} explains relations that it does not reach"
        ends = {end for t in case.world.tables if t.name in relations for end in t.ends}
        beyond = [name for name in factors if name not in ends and (factors[name][factor].abs() > 1e-6).any()]
        assert not beyond or case.sampled, f"{factor} is in {beyond}, and reaches {relations}"


def explained(case: Case) -> None:
    """What a Gaussian relation is said to have explained is what its predictions explain."""
    total = case.model.variance_explained()["total"]
    for t in case.world.tables:
        x = t.filled
        if t.likelihood.name == "gaussian" and np.nanmax(x) > np.nanmin(x):
            weight = np.where(np.isnan(x), 0.0, 1.0 if t.weight is None else t.weight)
            center = np.nansum(weight * x) / weight.sum()
            left = np.nansum(weight * (x - case.predicted[t.name][0]) ** 2) / np.nansum(weight * (x - center) ** 2)
            _near(total[t.name], 1 - left, 0.15 if case.sampled else 0.01, f"explained of {t.name}")


# --- rankings and reasons ------------------------------------------------------------------------------------------


def recommended(case: Case) -> None:
    """Recommendations are the predictions in order, less what was seen."""
    for t in case.tables:
        seen = np.nan_to_num(t.x) != 0 if t.layout == "filled" else ~np.isnan(t.x)
        seen = seen | seen.T if t.symmetric else seen
        for to, side in (("rows", 0), ("cols", 1)):
            mean, std, hidden = (a.T if side else a for a in (*case.predicted[t.name], seen))
            asked, items = (pd.Index(case.world.ids[t.ends[at]]) for at in (side, 1 - side))
            what, margin = f"{t.name} to {to}", 1e-5 * (t.unit + np.abs(mean).max())
            whole, best, left = (case.model.recommend(t.name, n=n, to=to, exclude_seen=less)
                                 for n, less in ((len(items), False), (1, False), (len(items), True)))  # fmt: skip
            _in_order(whole, what)
            i, j = asked.get_indexer(whole["id"]), items.get_indexer(whole["item"])
            assert len(whole) == len(asked) * (len(items) - (t.symmetric is not None)), f"{what}: {len(whole)} lines"
            _near(whole["score"], mean[i, j], margin, f"scores of {what}")
            _near(whole["std"], std[i, j], 1e-5 * (t.unit + std.max()), f"deviations of {what}")
            _near(best["score"], whole.loc[whole["rank"] == 1, "score"], margin, f"the best of {what}")
            unseen = whole[~hidden[i, j]]
            # Which comes first of those with the same score is not said.
            _near(left["score"], unseen["score"], margin, f"unseen of {what}")
            assert not left[["id", "item"]].merge(unseen, how="outer", indicator=True)["_merge"].ne("both").any(), what


def ranked_otherwise(case: Case) -> None:
    """Careful scores are below the mean, curious ones above; those of a draw are the same for the same seed."""
    for t in case.tables:
        by = {by: case.model.recommend(t.name, n=30, by=by, exclude_seen=False, random_state=case.seed)
              for by in ("mean", "lower", "upper", "sample")}  # fmt: skip
        again = case.model.recommend(t.name, n=30, by="sample", exclude_seen=False, random_state=case.seed)
        _same(again, by["sample"], f"{t.name} by sample, twice")
        score = {key: _in_order(table, f"{t.name} by {key}") for key, table in by.items()}
        slack = 1e-6 * t.unit
        assert (score["lower"] <= score["upper"] + slack).all(), f"{t.name}: lower scores are above upper ones"
        if t.likelihood.name == "gaussian":
            slack += BEYOND * case.predicted[t.name][1].max() if case.sampled else 0.0
            assert (score["lower"] <= score["mean"] + slack).all(), f"{t.name}: lower scores are above the mean"
            assert (score["mean"] <= score["upper"] + slack).all(), f"{t.name}: upper scores are below the mean"


def neighbors(case: Case) -> None:
    """Nobody is like itself; scores are at most 1, in order, and the same both ways."""
    for name in _with_factors(case):
        table = case.model.similar(name, n=len(case.world.ids[name]))
        scores = _in_order(table, f"similar {name}")
        assert (table["id"] != table["item"]).all(), f"somebody of {name} is like itself"
        assert (scores.abs() <= 1 + 1e-6).all(), f"similar {name}: a score of {scores.abs().max()}"
        square = scores.unstack().to_numpy()
        _near(np.nan_to_num(square), np.nan_to_num(square.T), 1e-5, f"similar {name} both ways")


def _with_factors(case: Case) -> list[str]:
    """Sets that have a factor: of others, nobody is like anybody, and the model says so."""
    return [name for name in case.world.ids if case.model.factors(name, weak=True).any(axis=None)]


def reasons(case: Case) -> None:
    """The parts of an explanation add up to the prediction, of cells that are not Gaussian to the predictor θ."""
    fitted = case.model.fitted_
    for t in case.tables:
        row, col = case.rng.integers(t.x.shape)
        names = case.world.ids[t.ends[0]][row], case.world.ids[t.ends[1]][col]
        if t.likelihood.name == "gaussian":
            expected, unit = float(case.predicted[t.name][0][row, col]), t.unit
        else:
            at = (fitted.vocabularies[end].index([name]) for end, name in zip(t.ends, names, strict=True))
            theta = theta_of(fitted, case.model._relation(t.name), *at)
            expected, unit = float((theta.m if isinstance(theta, Normal) else theta.theta.mean(axis=0))[0]), 1.0
        table = case.model.explain(t.name, *names, data=case.data)
        for by, part in table.groupby("by")["contribution"]:
            _near(part.sum(), expected, 1e-4 * (unit + abs(expected)), f"{t.name} by {by}")


# --- new entities --------------------------------------------------------------------------------------------------


def folded(case: Case) -> None:
    """Who is known, folded in with all its cells under another name, has the same predictions; also in company."""
    for name, ids in case.world.ids.items():
        # Who has no cell in some relation has a bias there that only a fit can tell.
        has = [(t.seen | t.seen.T if t.symmetric else t.seen).any(axis=1 - side)
               for t in case.world.tables for side in range(2) if t.ends[side] == name]  # fmt: skip
        rows = case.rng.permutation(len(ids))[:2]
        rows = rows[np.all(has, axis=0)[rows]]
        if not len(rows):
            continue
        together = case.model.fold_in(name, *_as_new(case, name, rows))
        lone = case.model.fold_in(name, *_as_new(case, name, rows[:1]))
        for t in case.world.tables:
            if name in t.ends:
                side = t.ends.index(name)
                others = case.world.ids[t.ends[1 - side]]
                mean, std = (a.T[rows] if side else a[rows] for a in case.predicted[t.name])
                both, alone = (_of_new(new, t.name, others, side) for new in (together, lone))
                what, margin = f"{name} in {t.name}", FOLDED * t.unit + (DRAWN if case.sampled else FOLDED) * std
                _near(both[:1], alone, margin[:1], f"{what}, in company and alone")
                _near(both, mean, margin, f"{what}, folded in")


def _of_new(new: Any, relation: str, others: Any, side: int) -> Floats:  # noqa: ANN401 - new entities, ids
    """Predictions of new entities with others, a row each, in the order of their names."""
    ids = sorted(new.ids)
    grid = new.predict(relation, *((others, ids) if side else (ids, others)), grid=True)
    return np.asarray(grid.T if side else grid)


def _as_new(case: Case, name: str, rows: Any) -> tuple[dict[str, Relation], pd.DataFrame | None]:  # noqa: ANN401
    """Cells and covariates of some entities under other ids."""
    new, cells = np.array([f"new {n}" for n in range(len(rows))]), {}
    for t in case.world.tables:
        parts = []
        for side in (side for side in range(2) if t.ends[side] == name):
            x, weight = (
                (a.T if side else a)[rows] for a in (t.filled, np.ones(t.x.shape) if t.weight is None else t.weight)
            )
            i, j = np.nonzero(~np.isnan(x))
            who = [new[i], case.world.ids[t.ends[1 - side]][j]]
            parts.append((*(who[::-1] if side else who), x[i, j], weight[i, j]))
        if parts:
            i, j, x, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
            more = {"blanks": "zero" if t.layout == "filled" else "missing", "symmetric": t.symmetric}
            more |= {} if t.weight is None else {"weight": weight}
            cells[t.name] = Relation(t.name, *t.ends, (i, j, x), t.likelihood, **more)
    known = case.world.covariates.get(name)
    return cells, None if known is None else known.iloc[rows].set_axis(new)


def updated(case: Case) -> None:
    """One more cell leaves the predictions of all but its two entities where they were; draws may refuse it."""
    for t in case.world.tables:
        free = np.argwhere(t.possible & ~(t.seen | t.seen.T if t.symmetric else t.seen))
        if not len(free):
            continue
        at = free[case.rng.integers(len(free))]
        row, col = (case.world.ids[end][n] for end, n in zip(t.ends, at, strict=True))
        try:
            model = copy.copy(case.model).update({t.name: ([row], [col], [t.x[t.seen][0]])})
        except GcmfError:
            if case.sampled:  # draws cannot be drawn again without the cells that they rest on
                return
            raise
        for other in case.world.tables:
            ids = [case.world.ids[end] for end in other.ends]
            kept = np.ix_(*([n for n, who in enumerate(of) if who not in (row, col)] for of in ids))
            for now, was in zip(predictions(case.world, model)[other.name], case.predicted[other.name], strict=True):
                _near(
                    now[kept],
                    was[kept],
                    1e-9 * (other.unit + np.abs(was).max()),
                    f"{other.name} after a cell of {t.name}",
                )
        return


# --- the same again ------------------------------------------------------------------------------------------------


def saved(case: Case) -> None:
    """A model that is read back gives the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gcmf"
        case.model.save(path)
        back = load(path)
    for (what, a), (_, b) in zip(_all_answers(case, case.model), _all_answers(case, back), strict=True):
        _same(a, b, what)


def _all_answers(case: Case, model: GCMF) -> Iterator[tuple[str, Any]]:
    yield from (("structure", model.structure()), ("explained", model.variance_explained()))
    yield from (("strengths", model.strengths()), ("diagnostics", model.diagnostics()))
    for name in case.world.ids:
        yield f"factors of {name}", model.factors(name, weak=True)
    yield from ((f"similar {name}", model.similar(name, n=3)) for name in _with_factors(case))
    yield from ((f"coefficients of {name}", model.coefficients(name)) for name in case.world.covariates)
    for t in case.world.tables:
        row, col = (case.world.ids[end][-1] for end in t.ends)
        yield f"predictions of {t.name}", np.stack(model.predict(t.name, return_std=True, interval=LEVEL))
        yield f"cells drawn of {t.name}", model.sample(t.name, [row], [col], 5, random_state=0)
        yield f"recommendations of {t.name}", model.recommend(t.name, n=3)
        yield f"reasons of {t.name}", model.explain(t.name, row, col, data=case.data)


def _same(a: Any, b: Any, what: str) -> None:  # noqa: ANN401 - tables and arrays
    """Two answers are equal: tables, or arrays."""
    if isinstance(a, pd.DataFrame):
        try:
            pd.testing.assert_frame_equal(a.reset_index(drop=True), b.reset_index(drop=True), rtol=1e-6)
        except AssertionError as error:
            msg = f"{what}: {' '.join(str(error).split())}"
            raise AssertionError(msg) from None
    else:
        assert np.array_equal(a, b), f"{what}: {np.abs(a - b).max():.2g} apart"


def permuted(case: Case) -> None:
    """Entities, cells and relations in another order give the same model."""
    _refitted(case, turned=False)


def transposed(case: Case) -> None:
    """Rows for columns give the same model."""
    _refitted(case, turned=True)


def _refitted(case: Case, *, turned: bool) -> None:
    """A refit predicts the same, or at another optimum not worse than other starts do."""
    other = case.world.estimator(case.seed).fit(case.world.collection(None if turned else case.rng, turned=turned))
    found = predictions(case.world, other, turned=turned)
    if all(
        np.abs(found[t.name][0] - case.predicted[t.name][0])[t.possible].max() <= APART * t.unit
        for t in case.world.tables
    ):
        return
    error, worst = _error(case, found), _error(case, case.predicted)
    for start in range(1, 1 + STARTS):
        if error <= WORSE * worst + APART:
            return
        again = case.world.estimator(case.seed + start).fit(case.data)
        worst = max(worst, _error(case, predictions(case.world, again)))
    assert error <= WORSE * worst + APART, f"{error:.2g} deviations from the truth, {worst:.2g} as it came"


def _error(case: Case, found: Predicted) -> float:
    """How far predictions are from what cells are expected to be, in deviations of the cells."""
    off = [((found[t.name][0] - t.truth)[t.possible] / t.unit) for t in case.world.tables]
    return float(np.mean([np.sqrt(np.mean(part**2)) for part in off]))


LAWS: dict[str, Callable[[Case], None]] = {
    "sizes": sizes,
    "strangers": strangers,
    "intervals": intervals,
    "drawn cells": drawn_cells,
    "structure": structure,
    "explained": explained,
    "recommend": recommended,
    "ranked otherwise": ranked_otherwise,
    "similar": neighbors,
    "explain": reasons,
    "fold-in": folded,
    "update": updated,
    "save": saved,
    "permuted": permuted,
    "transposed": transposed,
}
