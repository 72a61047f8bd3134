"""The same again: who is folded in, a model that is saved, input in another order or turned round."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from fuzz.compared import near, predictions, same, thetas, with_factors
from gcmf import Relation, load
from gcmf.errors import GcmfError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from fuzz.compared import Case, Predicted
    from fuzz.matrices import Floats
    from fuzz.worlds import Table
    from gcmf import GCMF, Collection

LEVEL = 0.9
#: Who is folded in may be so far from where a fit had it, in deviations of the cells and of the prediction (0.014).
FOLDED = 0.03
#: Of draws, the mean of θ may be so many deviations of θ further away (2.05).
DRAWN = 3.0
#: Fits that are so far apart, in deviations of the cells, are at different optima (0.04 where one model was gone on
#: from, beside as large a share of the prediction); of other starts so many are tried. Errors of a few draws differ by
#: chance, by so many times.
APART, STARTS, CHANCE = 0.05, 10, 1.25


# --- new entities --------------------------------------------------------------------------------------------------


def folded(case: Case) -> None:
    """Who is known, folded in with all its cells under another name, has the same predictions; also in company.

    Beside a draw, a row that is folded in and the row that was drawn have the same distribution: of a sampled model,
    the means of θ over draws are near, by what θ varies; of 0/1 cells those of σ(θ), as no cell tells -10 from -13.
    """
    name = str(case.rng.choice(list(case.world.ids)))
    tables = [t for t in case.world.tables if name in t.ends]
    # Who has no cell in some relation has a bias there that only a fit can tell.
    has = [(t.seen | t.seen.T if t.symmetric else t.seen).any(axis=1 - side)
           for t in tables for side in range(2) if t.ends[side] == name]  # fmt: skip
    rows = case.rng.permutation(np.flatnonzero(np.all(has, axis=0)))[:2]
    if not len(rows):
        return
    both, alone = (case.model.fold_in(name, *_as_new(case, name, some)).together() for some in (rows, rows[:1]))
    new = [f"new {n}" for n in range(len(rows))]
    for t in tables:
        side = t.ends.index(name)
        others, possible = case.world.ids[t.ends[1 - side]], (t.possible.T if side else t.possible)[rows]
        (was, _), (now, margin), (lone, _) = (
            _told(case, model, t, (ids, others), side)
            for model, ids in ((case.model, case.world.ids[name][rows]), (both, new), (alone, new[:1]))
        )
        near(now[possible], was[possible], margin[possible], f"{name} in {t.name}, folded in")
        margin = margin if case.sampled else np.full_like(margin, 1e-6 * t.unit)
        near(now[:1][possible[:1]], lone[possible[:1]], margin[:1][possible[:1]], f"{name} in {t.name}, in company")


def _told(case: Case, model: GCMF, t: Table, ids: Any, side: int) -> tuple[Floats, Floats]:  # noqa: ANN401 - ids
    """Predictions of some entities with others, of a sampled model θ or σ(θ); and by how much they may differ."""
    ids = ids[::-1] if side else ids
    if case.sampled:
        theta = thetas(model, t, *ids)
        theta = expit(theta) if t.likelihood.name == "bernoulli" else theta
        mean, margin = theta.mean(axis=0), FOLDED + DRAWN * theta.std(axis=0)
    else:
        mean, std = model.predict(t.name, *ids, grid=True, return_std=True)
        margin = FOLDED * (t.unit + std)
    return (mean.T, margin.T) if side else (mean, margin)


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
        now = predictions(case.world, model)
        for other in case.world.tables:
            kept = np.ix_(*(np.flatnonzero(~np.isin(case.world.ids[end], (row, col))) for end in other.ends))
            for a, b in zip(now[other.name], case.predicted[other.name], strict=True):
                near(a[kept], b[kept], 1e-9 * (other.unit + np.abs(b).max()), f"{other.name} after a cell of {t.name}")
        return


# --- the same again ------------------------------------------------------------------------------------------------


def saved(case: Case) -> None:
    """A model that is read back gives the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gcmf"
        case.model.save(path)
        back = load(path)
    for (what, a), (_, b) in zip(_all_answers(case, case.model), _all_answers(case, back), strict=True):
        same(a, b, what)


def _all_answers(case: Case, model: GCMF) -> Iterator[tuple[str, Any]]:
    yield from (("structure", model.structure()), ("explained", model.variance_explained()))
    yield from (("strengths", model.strengths()), ("diagnostics", model.diagnostics()))
    for name in case.world.ids:
        yield f"factors of {name}", model.factors(name, weak=True)
    yield from ((f"similar {name}", model.similar(name, n=3)) for name in with_factors(case))
    yield from ((f"coefficients of {name}", model.coefficients(name)) for name in case.world.covariates)
    for t in case.tables[:1]:
        row, col = (case.world.ids[end][-1] for end in t.ends)
        yield f"predictions of {t.name}", np.stack(model.predict(t.name, return_std=True, interval=LEVEL))
        yield f"cells drawn of {t.name}", model.sample(t.name, [row], [col], 5, random_state=0)
        yield f"recommendations of {t.name}", model.recommend(t.name, n=3)
        yield f"reasons of {t.name}", model.explain(t.name, row, col, data=case.data)


def permuted(case: Case) -> None:
    """Going on from a model, entities, cells and relations in another order lead to the same place; draws: as below."""
    data = case.world.collection(case.rng)
    if case.sampled:
        _refitted(case, data)
        return
    plain, other = (predictions(case.world, case.world.estimator(case.seed).fit(of, start=case.model))
                    for of in (case.data, data))  # fmt: skip
    for t in case.world.tables:
        a, b = (found[t.name][0][t.possible] for found in (plain, other))
        near(a, b, APART * (t.unit + np.abs(a)), f"{t.name} in another order")


def transposed(case: Case) -> None:
    """Rows for columns give the same model."""
    _refitted(case, case.world.collection(turned=True), turned=True)


def _refitted(case: Case, data: Collection, *, turned: bool = False) -> None:
    """A refit predicts the same, or is at another optimum, which is not worse than all that other starts lead to.

    The random numbers of a start fall on other entities where the input stands in another order, and small collections
    have many optima: so another one is no fault. Worse is what has a lower bound and predicts further from the truth
    (draws have no bound).
    """
    other = case.world.estimator(case.seed).fit(data)
    found = predictions(case.world, other, turned=turned)
    off = [np.abs(found[t.name][0] - case.predicted[t.name][0])[t.possible].max() / t.unit for t in case.world.tables]
    if max(off) <= APART:
        return
    refit, starts = (other.elbo_, _error(case, found)), [(case.model.elbo_, _error(case, case.predicted))]
    while _is_worse(case, refit, starts) and len(starts) <= STARTS:
        again = case.world.estimator(case.seed + len(starts)).fit(case.data)
        starts.append((again.elbo_, _error(case, predictions(case.world, again))))
    assert not _is_worse(case, refit, starts), f"bound and error {refit} are worse than {starts}"


def _is_worse(case: Case, refit: tuple[float, float], starts: list[tuple[float, float]]) -> bool:
    bounds, errors = zip(*starts, strict=True)
    if case.sampled:
        return refit[1] > CHANCE * max(errors) + APART
    return refit[1] > max(errors) + APART and refit[0] < min(bounds)


def _error(case: Case, found: Predicted) -> float:
    """How far predictions are from what cells are expected to be, in deviations of the cells."""
    off = [((found[t.name][0] - t.truth)[t.possible] / t.unit) for t in case.world.tables]
    return float(np.mean([np.sqrt(np.mean(part**2)) for part in off]))
