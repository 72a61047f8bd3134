"""Figure 3, right: variational Bayes with vague priors against MAP whose priors are cross-validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gcmf.experiments.base import Claim, Experiment, Outcome, Progress, Size
from gcmf.experiments.cycles import draw, held_out, irreducible, n_factors, timed_fit
from gcmf.experiments.summary import spread
from gcmf.experiments.vb_vs_map_figure import draw_vb_vs_map
from gcmf.options import Priors

if TYPE_CHECKING:
    from gcmf.data.collection import Collection
    from gcmf.datasets import Simulation
    from gcmf.estimators.gcmf import GCMF

N_FOLDS = 2


@dataclass(frozen=True)
class Settings:
    """What is drawn, how often, and how MAP is tuned."""

    relations: tuple[int, ...]
    """The numbers M of matrices."""
    repetitions: int
    n_grid: int
    """Values of a₀ = b₀, and of p₀ = q₀, spread evenly between two powers of ten."""
    alpha_decades: tuple[int, int] = (-5, 5)
    tau_decades: tuple[int, int] = (-5, 5)
    sizes: tuple[int, int] = (40, 80)
    max_iter: int = 300
    tol: float = 1e-5
    map_max_iter: int = 100
    map_tol: float = 1e-4

    @property
    def grid(self) -> list[tuple[float, float]]:
        """Every pair of values (a₀, p₀)."""
        first, second = (np.logspace(*ends, self.n_grid).tolist() for ends in (self.alpha_decades, self.tau_decades))
        return [(a0, p0) for a0 in first for p0 in second]

    @property
    def n_map_fits(self) -> int:
        """Fits that MAP needs per collection: the folds of every pair of values, then the final one."""
        return N_FOLDS * self.n_grid**2 + 1


SETTINGS = {
    Size.QUICK: Settings((1, 3, 5, 11), 1, 3, alpha_decades=(-2, 0), tau_decades=(1, 3), map_max_iter=40),
    Size.FULL: Settings((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), 3, 11),
}


def run(size: Size, progress: Progress, *, seed: int = 0) -> Outcome:
    """Run at one of the two sizes."""
    return run_with(SETTINGS[size], progress, seed=seed)


def run_with(settings: Settings, progress: Progress, *, seed: int = 0) -> Outcome:
    """Fit both to every drawn collection, and judge."""
    per_collection = 1 + settings.n_map_fits
    progress.start(len(settings.relations) * settings.repetitions * per_collection, "fits")
    rows = [
        measure(m, settings=settings, progress=progress, seed=seed + repetition)
        for repetition in range(settings.repetitions)
        for m in settings.relations
    ]
    return conclude(pd.DataFrame(rows), settings)


def conclude(table: pd.DataFrame, settings: Settings) -> Outcome:
    """Judge and draw what was measured."""
    return Outcome(table, claims(table), draw_vb_vs_map(table), notes=notes(settings))


def measure(m: int, *, settings: Settings, progress: Progress, seed: int) -> dict[str, object]:
    """Draw one collection, fit it by both; one row."""
    truth = draw(m, sizes=settings.sizes, random_state=seed)
    vb, vb_seconds = timed_fit(
        truth.train, n_factors(m), max_iter=settings.max_iter, tol=settings.tol, random_state=seed, n_threads=1
    )  # fmt: skip
    progress.step(f"M = {m}: VB")
    chosen, search_seconds = cross_validate(truth.train, m, settings=settings, progress=progress, seed=seed)
    point, seconds = _fit_map(truth.train, m, chosen, settings=settings, seed=seed)
    progress.step(f"M = {m}: MAP")
    return {
        "M": m, "seed": seed,
        **_compare(truth, vb, point),
        "a0": chosen[0], "p0": chosen[1],
        "vb_fits": 1, "map_fits": settings.n_map_fits,
        "vb_seconds": round(vb_seconds, 3), "map_seconds": round(search_seconds + seconds, 3),
        "map_fit_seconds": round((search_seconds + seconds) / settings.n_map_fits, 4),
        "vb_sweeps": vb.n_iter_, "vb_factors": vb.n_factors_active_,
    }  # fmt: skip


def _compare(truth: Simulation, vb: GCMF, point: GCMF) -> dict[str, float]:
    """Errors of both and of the truth, and VB's on the scale where the truth is 0 and MAP is 1."""
    floor, ours, theirs = irreducible(truth), held_out(vb, truth), held_out(point, truth)
    return {
        "truth_rmse": floor, "vb_rmse": ours.entries, "map_rmse": theirs.entries,
        "vb_theta_rmse": ours.means, "map_theta_rmse": theirs.means,
        "scaled": (ours.entries - floor) / (theirs.entries - floor),
    }  # fmt: skip


def cross_validate(
    data: Collection, m: int, *, settings: Settings, progress: Progress, seed: int
) -> tuple[tuple[float, float], float]:
    """Return (a₀, p₀) with the least squared error over two folds, and the seconds that the search took."""
    loss: dict[tuple[float, float], float] = {}
    seconds = 0.0
    for train, test in data.folds(N_FOLDS, random_state=seed):
        for pair in settings.grid:
            model, took = _fit_map(train, m, pair, settings=settings, seed=seed)
            loss[pair] = loss.get(pair, 0.0) + _squares(model, test)
            seconds += took
            progress.step(f"M = {m}: MAP, a0 = {pair[0]:.2g}, p0 = {pair[1]:.2g}")
    return min(loss, key=lambda pair: loss[pair]), seconds


def _squares(model: GCMF, test: Collection) -> float:
    scores = model.score(test)
    total = float((scores["rmse"] ** 2 * scores["n"]).sum())
    # A fit that ran away must not be chosen.
    return total if np.isfinite(total) else float("inf")


def _fit_map(
    data: Collection, m: int, pair: tuple[float, float], *, settings: Settings, seed: int
) -> tuple[GCMF, float]:  # fmt: skip
    a0, p0 = pair
    priors = Priors(alpha_shape=a0, alpha_rate=a0, tau_shape=p0, tau_rate=p0)
    return timed_fit(data, n_factors(m), inference="map", priors=priors, random_state=seed, n_threads=1,
                     max_iter=settings.map_max_iter, tol=settings.map_tol)  # fmt: skip


def claims(table: pd.DataFrame) -> tuple[Claim, ...]:
    """Judge VB's scaled error at M = 1 and at M = 11, and what tuning costs."""
    return (_first(table), _last(table), _cost(table))


def _first(table: pd.DataFrame) -> Claim:
    text = "VB with vague priors beats cross-validated MAP already at M = 1."
    single = table[table["M"] == 1]
    if single.empty:
        return Claim(text, "scaled error below 1", "M = 1 was not run", holds=None)
    wins = int((single["scaled"] < 1).sum())
    return Claim(text, "scaled error below 1", f"{spread(single['scaled'], '.2f')}; below 1 in {wins} of {len(single)}",
                 holds=bool(single["scaled"].median() < 1))  # fmt: skip


def _last(table: pd.DataFrame) -> Claim:
    text = "At M = 11, VB has about half of MAP's error above the truth."
    medians = table.groupby("M")["scaled"].median()
    every = ", ".join(f"{value:.2f} (M = {m})" for m, value in medians.items())
    if 11 not in medians.index:
        return Claim(text, "about 0.5", f"M = 11 was not run at this size; {every}", holds=None)
    value = float(medians[11])
    return Claim(text, "about 0.5", f"{value:.2f}; by M: {every}", holds=0.35 <= value <= 0.65,
                 note="" if value < 0.35 or value > 0.65 else "Judged as: between 0.35 and 0.65.")  # fmt: skip


def _cost(table: pd.DataFrame) -> Claim:
    most = int(table["map_fits"].max())
    times = table.groupby("M")[["map_fits", "vb_seconds", "map_seconds", "map_fit_seconds"]].median()
    said = "; ".join(
        f"M = {m}: VB 1 fit in {row.vb_seconds:.2g} s, MAP {row.map_fits:.0f} fits in {row.map_seconds:.0f} s "
        f"({row.map_fit_seconds:.2g} s each)"
        for m, row in times.iterrows()
    )
    return Claim("MAP needs more than 200 runs for its cross-validation, VB one.", "more than 200 runs",
                 said, holds=True if most > 200 else None,
                 note="" if most > 200 else "Fewer values were tried here; the 11 × 11 grid of --full needs 243.",
                 )  # fmt: skip


def notes(settings: Settings) -> tuple[str, ...]:
    """Say what was drawn and fitted."""
    low, high = settings.sizes
    return (
        f"M = {', '.join(map(str, settings.relations))}; {settings.repetitions} repetition"
        f"{'s' if settings.repetitions > 1 else ''}; entity sets of {low} to {high}; 5 shared factors and 2 private "
        "to each matrix, u ~ N(0, 1), noise of variance 1; K = 10 + 2M; 40% of the entries held out; no biases.",
        f"MAP: a₀ = b₀ from {_values(settings.alpha_decades)} and p₀ = q₀ from {_values(settings.tau_decades)}, "
        f"{settings.n_grid} values each (the paper: 11 each, range not stated), two-fold cross-validation, one final "
        f"fit: {settings.n_map_fits} fits of at most {settings.map_max_iter} sweeps (tol = {settings.map_tol:g}). VB: "
        "one fit, all priors 1e-10. One thread each.",
        "Gaussian relations are scaled to unit variance inside, which is the scale that the priors act on.",
        "With the best priors MAP can match VB. Checked apart on one collection (M = 3, seed 1), "
        "with hindsight, on the held-out entries: over 10^-4 to 10^6 its error ranges from 1.14 to 1.47, and the best "
        "pair (p₀ = 100, a₀ = 10^-4 or 10^-2) reaches 1.137, where VB has 1.138. What it loses elsewhere goes with the "
        "pair that cross-validation chose; perhaps because that sees half of the cells, which was not checked.",
        "Two matrices cannot close a cycle (both would join the same sets): M = 2 is a chain of three sets, and "
        "M = 1 a single matrix.",
        "Scaled error: (VB − truth) / (MAP − truth), with root mean squared errors of the held-out noisy entries.",
    )


def _values(decades: tuple[int, int]) -> str:
    return f"10^{decades[0]} to 10^{decades[1]}"


EXPERIMENT = Experiment("vb-vs-map", "Figure 3, right: variational Bayes against MAP", (), run)
