"""Do error bars hold? python -m benchmarks.error_bars [likelihood ...] [--repeats 8].

Cells are simulated from the model, fitted with nothing told, and held-out θ and cells are compared with their intervals
of 50, 80 and 95%: with the variances of q, and with the wider ones that models have (docs/model.md, "Error bars").
Cases: most cells seen; five cells per row, with so many rows that factors are found and with so few that they are not;
rows without any cell; a second view that half of the rows lack. Coverage of θ and of cells in percent; of cells as
`score` has it, and the calibration error of 0/1 cells. `--draws` samples, with as many factors as there are: coverage
of what is drawn. `--real [task ...]` does the same for split 0 of the ledger's tasks, cells only, where their data are
at hand.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

import gcmf
from benchmarks.ledger.tasks import TASKS
from benchmarks.peers.gcmf_own import collection
from gcmf.fit import fit
from gcmf.model.predict import predict_pairs, theta_pairs
from gcmf.model.score import LEVELS, calibration_error, score_cells
from gcmf.options import FitOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]


class Case(NamedTuple):
    """How much is simulated, and what of it is seen."""

    name: str
    rows: int
    cols: int
    factors: int


CASES = (
    Case("dense", 200, 60, 3),
    Case("5 per row, many rows", 1000, 40, 2),
    Case("5 per row, few rows", 200, 60, 3),
    Case("rows without data", 200, 60, 3),
    Case("missing views", 200, 60, 3),
)
#: Intercept of θ and what θ is multiplied by, so that cells of each kind tell about alike.
SIZES = {"gaussian": (0.0, 1.0), "bernoulli": (0.0, 1.5), "poisson": (2.0, 1.0), "negative_binomial": (1.0, 0.6)}
NOISE, SIZE = 0.6, 3.0


class View(NamedTuple):
    """A relation of the rows: its true θ, its cells, which of them are seen, and which are asked about."""

    theta: Floats
    x: Floats
    seen: Bools
    asked: Bools


def simulate(case: Case, likelihood: str, seed: int) -> list[View]:
    """Draw factors, biases and cells."""
    rng = np.random.default_rng(seed)
    u, (base, size) = rng.normal(size=(case.rows, case.factors)), SIZES[likelihood]
    views = []
    for number in range(2 if case.name == "missing views" else 1):
        v = 0.7 * rng.normal(size=(case.cols, case.factors))
        biases = 0.5 * rng.normal(size=(case.rows, 1)) + 0.5 * rng.normal(size=case.cols)
        theta = base + size * (u @ v.T + biases)
        seen = choose(case, rng, second=number > 0)
        asked = ~seen & (~seen.any(axis=1, keepdims=True) if case.name == "rows without data" else True)
        views.append(View(theta, cells(likelihood, theta, rng), seen, asked))
    return views


def choose(case: Case, rng: np.random.Generator, *, second: bool) -> Bools:
    """Which cells are seen."""
    order = rng.random((case.rows, case.cols)).argsort(axis=1)
    if case.name.startswith("5 per row"):
        return order < 5
    if case.name == "rows without data":
        return (order < 20) & (np.arange(case.rows) % 5 > 0)[:, None]
    if case.name == "missing views":
        return np.ones(order.shape, bool) & ((rng.random(case.rows) < 0.5)[:, None] if second else True)
    return order < 0.7 * case.cols


def cells(likelihood: str, theta: Floats, rng: np.random.Generator) -> Floats:
    """Draw cells of θ."""
    if likelihood == "gaussian":
        return theta + NOISE * rng.normal(size=theta.shape)
    if likelihood == "bernoulli":
        return (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
    if likelihood == "poisson":
        return rng.poisson(np.logaddexp(0.0, theta)).astype(float)
    return rng.negative_binomial(SIZE, SIZE / (SIZE + np.exp(theta))).astype(float)


class Measured(NamedTuple):
    """Of one simulation."""

    covered: list[float]
    """Of θ and of cells at each level, and how many factors were found."""
    truth: Floats
    mean: Floats
    """Cells and what was predicted, for the calibration error of all simulations: of few cells it is chance."""


def measure(case: Case, likelihood: str, seed: int, *, widened: bool) -> Measured:
    """Simulate, fit, and compare."""
    views = simulate(case, likelihood, seed)
    data = gcmf.Collection([gcmf.Relation(f"x{n}", "row", f"col{n}", np.where(view.seen, view.x, np.nan), likelihood)
                            for n, view in enumerate(views)])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = FitOptions(widened=widened, n_threads=1)
        model = fit(data, options, np.random.default_rng(seed), ()).summarize(data)
    m, view = len(views) - 1, views[-1]
    i, j = np.nonzero(view.asked)
    mean, var = theta_pairs(model, m, i, j)
    away = np.abs((view.theta[i, j] - model.center[m]) / model.scale[m] - mean) / np.sqrt(var)
    of_theta = [float(np.mean(away <= ndtri((1.0 + level) / 2.0))) for level in LEVELS]
    score = score_cells(model, m, [(i, j, view.x[i, j])])
    of_cells = [score.coverage_50, score.coverage_80, score.coverage_95]
    covered = [*of_theta, *of_cells, float(model.n_factors)]
    return Measured(covered, view.x[i, j], predict_pairs(model, m, i, j).mean)


def measure_draws(case: Case, likelihood: str, seed: int) -> Measured:
    """Simulate, sample, and compare."""
    views = simulate(case, likelihood, seed)
    data = gcmf.Collection([gcmf.Relation(f"x{n}", "row", f"col{n}", np.where(view.seen, view.x, np.nan), likelihood)
                            for n, view in enumerate(views)])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = FitOptions(n_factors=case.factors, inference="gibbs", n_burn=200, n_samples=400, n_threads=1)
        model = fit(data, options, np.random.default_rng(seed), ()).summarize(data)
    m, view = len(views) - 1, views[-1]
    i, j = np.nonzero(view.asked)
    assert model.draws is not None
    drawn, theta = model.draws.linear_predictors(m, i, j), (view.theta[i, j] - model.center[m]) / model.scale[m]
    below = (drawn < theta).mean(axis=0)
    of_theta = [float(np.mean(np.abs(2.0 * below - 1.0) <= level)) for level in LEVELS]
    score = score_cells(model, m, [(i, j, view.x[i, j])])
    of_cells = [score.coverage_50, score.coverage_80, score.coverage_95]
    covered = [*of_theta, *of_cells, float(model.n_factors)]
    return Measured(covered, view.x[i, j], predict_pairs(model, m, i, j).mean)


def main() -> None:
    """Print a line per likelihood and case: coverage with q's variances, and with the wider ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("likelihoods", nargs="*", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--draws", action="store_true")
    parser.add_argument("--real", nargs="*", help="tasks of the ledger, by name; all without one")
    asked: Any = parser.parse_args()
    if asked.real is not None:
        real(asked.real or list(TASKS))
        return
    if asked.draws:
        print("| cells | case | θ | cells | calibration error |\n|---|---|---|---|---|")
        for likelihood in asked.likelihoods:
            for case in CASES:
                print(line_of_draws(case, likelihood, asked.repeats), flush=True)
        return
    print("| cells | case | factors | θ: q | θ: wider | cells: q | cells: wider | calibration error |")
    print("|---|---|---|---|---|---|---|---|")
    for likelihood in asked.likelihoods:
        for case in CASES:
            print(line(case, likelihood, asked.repeats), flush=True)


def real(names: list[str]) -> None:
    """Print a line per task of the ledger and relation that it asks about."""
    print("| task | cells | q | wider | calibration error |\n|---|---|---|---|---|")
    for name in names:
        if not TASKS[name].there:
            continue
        problem = TASKS[name].build(0)
        data = collection(problem)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = fit(data, FitOptions(widened=True), np.random.default_rng(0), ())
            narrow, wide = (one.summarize(data) for one in (replace(run, widths=None), run))
        for table in problem.tested:
            m = [relation.name for relation in wide.schema.relations].index(table.name)
            held = [(table.test.i.astype(np.int64), table.test.j.astype(np.int64), table.test.x.astype(float))]
            ways = [score_cells(model, m, held) for model in (narrow, wide)]
            shown = [f"{100 * w.coverage_50:.0f} {100 * w.coverage_80:.0f} {100 * w.coverage_95:.0f}" for w in ways]
            error = f"{ways[1].calibration_error:.3f}" if table.likelihood == "bernoulli" else ""
            print(f"| {name} | {table.name}, {table.likelihood} | {' | '.join(shown)} | {error} |", flush=True)


def line(case: Case, likelihood: str, repeats: int) -> str:
    """One line of the table."""
    ways = [[measure(case, likelihood, seed, widened=widened) for seed in range(repeats)] for widened in (False, True)]
    narrow, wide = (np.mean([one.covered for one in way], axis=0) for way in ways)
    parts = [" ".join(f"{100 * share:.0f}" for share in one[at]) for at in (slice(3), slice(3, 6))
             for one in (narrow, wide)]  # fmt: skip
    error = ""
    if likelihood == "bernoulli":
        truth, mean = (np.concatenate([getattr(one, part) for one in ways[1]]) for part in ("truth", "mean"))
        error = f"{calibration_error(truth, mean):.3f}"
    return f"| {likelihood} | {case.name} | {wide[6]:.1f} of {case.factors} | {' | '.join(parts)} | {error} |"


def line_of_draws(case: Case, likelihood: str, repeats: int) -> str:
    """One line of the table of draws."""
    found = [measure_draws(case, likelihood, seed) for seed in range(repeats)]
    shares = np.mean([one.covered for one in found], axis=0)
    parts = [" ".join(f"{100 * share:.0f}" for share in shares[at]) for at in (slice(3), slice(3, 6))]
    error = ""
    if likelihood == "bernoulli":
        truth, mean = (np.concatenate([getattr(one, part) for one in found]) for part in ("truth", "mean"))
        error = f"{calibration_error(truth, mean):.3f}"
    return f"| {likelihood} | {case.name} | {' | '.join(parts)} | {error} |"


if __name__ == "__main__":
    main()
