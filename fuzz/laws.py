"""What the answers of one fitted model have in common: small named checks, of a random world each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fuzz import refits
from fuzz.compared import in_order, near, same, thetas, with_factors

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.compared import Case
    from fuzz.matrices import Floats
    from fuzz.worlds import Table

# Margins here and in refits.py are some times what was seen in the first worlds; in brackets, the most that was.
#: No mean is so many times larger than what the cells give reason for, `_reason` (8; of two strangers, over draws, 19).
LARGEST = 20.0
LEVEL = 0.9
#: Between quantiles that leave out (1 - LEVEL)/2 on either side and so many deviations beyond lies the mean of any
#: distribution (Cantelli).
BEYOND = np.sqrt((1 - LEVEL) / (1 + LEVEL))


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
    size, reason = np.abs(mean).max(), _reason(t)
    assert np.isfinite([mean, std]).all(), f"{t.name}: a mean or a deviation is not finite"
    # A probability that rounds to 1 has a deviation of 0.
    assert (std > 0).all() or t.likelihood.name == "bernoulli", f"{t.name}: a deviation of {std.min():.2g}"
    assert size <= LARGEST * reason, f"{t.name}: a mean of {size:.2g}, and cells give reason for {reason:.2g}"


def _reason(t: Table) -> float:
    """The largest cell; of e^θ, whose effects of rows and columns are multiplied, its square by the mean of all."""
    x = np.abs(t.filled[t.seen])
    largest = (x.max() or t.unit) if t.likelihood.name == "gaussian" else max(x.max(), 1.0)
    return largest**2 / max(x.mean(), 1 / len(x)) if t.likelihood.name == "negative_binomial" else largest


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
        near(x.mean(axis=0), mean, 8 / np.sqrt(n) * np.maximum(std, x.std(axis=0)) + 1e-9, f"cells drawn of {t.name}")


# --- structure -----------------------------------------------------------------------------------------------------


def structure(case: Case) -> None:
    """Activities are shares; relations that a factor does not reach owe it nothing, and other sets do not hold it.

    Draws may reach more than the pattern that most of them have: there, sets that no draw has it in.
    """
    table, explained = case.model.structure(), case.model.variance_explained()
    assert len(table) == case.model.n_factors_active_
    shares = table[[*case.world.ids, *(f"P({name})" for name in case.world.ids if case.sampled)]].to_numpy(float)
    assert ((shares >= 0) & (shares <= 1 + 1e-9)).all(), f"shares from {shares.min()} to {shares.max()}"
    factors = {name: case.model.factors(name) for name in case.world.ids}
    for factor, line in table.iterrows():
        reached = {t.name for t in case.world.tables if t.name in line["relations"]}
        sets = {end for t in case.world.tables if t.name in reached for end in t.ends}
        if case.sampled:
            sets = {name for name in case.world.ids if line[f"P({name})"] > 0}
            reached = {t.name for t in case.world.tables if sets.issuperset(t.ends)}
        others = [name for name in explained.index if name not in reached]
        assert not explained.loc[others, factor].any(), f"{factor} explains more than {reached}"
        beyond = [name for name in factors if name not in sets and (factors[name][factor].abs() > 1e-6).any()]
        assert not beyond, f"{factor} is in {beyond}, and lives in {sets}"


def explained(case: Case) -> None:
    """What a Gaussian relation is said to have explained is what its predictions explain."""
    total = case.model.variance_explained()["total"]
    for t in case.world.tables:
        x = t.filled
        if t.likelihood.name == "gaussian" and np.nanmax(x) > np.nanmin(x):
            weight = np.where(np.isnan(x), 0.0, 1.0 if t.weight is None else t.weight)
            center = np.nansum(weight * x) / weight.sum()
            left = np.nansum(weight * (x - case.predicted[t.name][0]) ** 2) / np.nansum(weight * (x - center) ** 2)
            near(total[t.name], 1 - left, 1e-6, f"explained of {t.name}")


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
            in_order(whole, what)
            i, j = asked.get_indexer(whole["id"]), items.get_indexer(whole["item"])
            assert len(whole) == len(asked) * (len(items) - (t.symmetric is not None)), f"{what}: {len(whole)} lines"
            near(whole["score"], mean[i, j], margin, f"scores of {what}")
            near(whole["std"], std[i, j], 1e-5 * (t.unit + std.max()), f"deviations of {what}")
            near(best["score"], whole.loc[whole["rank"] == 1, "score"], margin, f"the best of {what}")
            unseen = whole[~hidden[i, j]]
            # Which comes first of those with the same score is not said.
            near(left["score"], unseen["score"], margin, f"unseen of {what}")
            assert not left[["id", "item"]].merge(unseen, how="outer", indicator=True)["_merge"].ne("both").any(), what


def ranked_otherwise(case: Case) -> None:
    """Careful scores are below the mean, curious ones above; those of a draw are the same for the same seed."""
    for t in case.tables:
        by = {by: case.model.recommend(t.name, n=30, by=by, exclude_seen=False, random_state=case.seed)
              for by in ("mean", "lower", "upper", "sample")}  # fmt: skip
        again = case.model.recommend(t.name, n=30, by="sample", exclude_seen=False, random_state=case.seed)
        same(again, by["sample"], f"{t.name} by sample, twice")
        score = {key: in_order(table, f"{t.name} by {key}") for key, table in by.items()}
        slack = 1e-6 * t.unit
        assert (score["lower"] <= score["upper"] + slack).all(), f"{t.name}: lower scores are above upper ones"
        if t.likelihood.name == "gaussian":
            slack += BEYOND * case.predicted[t.name][1].max() if case.sampled else 0.0
            assert (score["lower"] <= score["mean"] + slack).all(), f"{t.name}: lower scores are above the mean"
            assert (score["mean"] <= score["upper"] + slack).all(), f"{t.name}: upper scores are below the mean"


def neighbors(case: Case) -> None:
    """Nobody is like itself; scores are at most 1, in order, and the same both ways."""
    for name in with_factors(case):
        table = case.model.similar(name, n=len(case.world.ids[name]))
        scores = in_order(table, f"similar {name}")
        assert (table["id"] != table["item"]).all(), f"somebody of {name} is like itself"
        assert (scores.abs() <= 1 + 1e-6).all(), f"similar {name}: a score of {scores.abs().max()}"
        square = scores.unstack().to_numpy()
        near(np.nan_to_num(square), np.nan_to_num(square.T), 1e-5, f"similar {name} both ways")


def reasons(case: Case) -> None:
    """The parts of an explanation add up to the prediction, of cells that are not Gaussian to the predictor θ."""
    for t in case.tables:
        row, col = case.rng.integers(t.x.shape)
        names = case.world.ids[t.ends[0]][row], case.world.ids[t.ends[1]][col]
        if t.likelihood.name == "gaussian":
            expected, unit = float(case.predicted[t.name][0][row, col]), t.unit
        else:
            expected, unit = float(thetas(case.model, t, *([name] for name in names)).mean()), 1.0
        table = case.model.explain(t.name, *names, data=case.data)
        for by, part in table.groupby("by")["contribution"]:
            near(part.sum(), expected, 1e-5 * (unit + abs(expected)), f"{t.name} by {by}")


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
    "fold-in": refits.folded,
    "update": refits.updated,
    "save": refits.saved,
    "permuted": refits.permuted,
    "transposed": refits.transposed,
}
