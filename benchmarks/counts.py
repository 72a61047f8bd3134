"""Counts of every size and dispersion: python benchmarks/counts.py [--sizes 200,150] [--real].

Simulated counts of mean 0.1 to 1e5 and variance μ + d μ², d = 0, 0.5, 2: three factors, 30% of the cells held out. For
each, the held-out log-likelihood per cell of a fit beside that of the truth (its means and dispersion), and how many
held-out cells lie in the central 50, 80 and 95% of what is predicted, which is counted so that discrete values are no
excuse: each cell is placed at random within its own probability. Poisson cells are simulated with the link of that
likelihood, softplus, and negative binomial cells with theirs, the logarithm. Real counts, with --real: Last.fm plays.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

import gcmf
from gcmf import datasets
from gcmf.likelihoods.functions import softplus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MEANS = (0.1, 1.0, 10.0, 1e3, 1e5)
DISPERSIONS = (0.0, 0.5, 2.0)
SHARES = (0.5, 0.8, 0.95)
#: Draws of θ behind each held-out cell's place in what is predicted.
N_DRAWS = 400


def main() -> None:
    """Print a line per table of counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="200,150")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--real", action="store_true")
    arguments = parser.parse_args()
    shape = tuple(map(int, arguments.sizes.split(",")))
    warnings.simplefilter("ignore", gcmf.errors.ModelWarning)
    print(
        "likelihood         mean     d  held out   truth    ratio   50%   80%   95%   1/size  factors sweeps  seconds"
    )
    for seed in range(arguments.seeds):
        for mean in MEANS:
            simulated("poisson", mean, 0.0, shape, seed)
            for dispersion in DISPERSIONS:
                simulated("negative_binomial", mean, dispersion, shape, seed)
    folder = datasets.find_data_folder()
    if arguments.real and folder is not None:
        real("Last.fm plays", *datasets.load_lastfm(folder / "lastfm").split(0.1, random_state=0))


def simulated(likelihood: str, mean: float, dispersion: float, shape: tuple[int, ...], seed: int) -> None:
    """Fit one simulated table and compare it with its truth."""
    rng = np.random.default_rng(seed)
    mu, x = table(likelihood, mean, dispersion, shape, rng)
    held = rng.random(shape) < 0.3
    started = time.perf_counter()
    model = gcmf.GCMF(8, random_state=0, progress=False)
    model.fit([gcmf.Relation("x", "row", "col", np.where(held, np.nan, x), likelihood)])
    seconds = time.perf_counter() - started
    i, j = np.nonzero(held)
    fitted = float(model.score([gcmf.Relation("x", "row", "col", (i, j, x[held]), likelihood)]).log_likelihood.iloc[0])
    truth = float(log_probability(x[held], mu[held], dispersion).mean())
    inside = coverage(model, i, j, x[held], rng)
    print(f"{likelihood:17} {mean:6g} {dispersion:4g} {fitted:9.4f} {truth:9.4f} {fitted / truth:7.4f} "
          + " ".join(f"{share:5.3f}" for share in inside)
          + f" {learned_dispersion(model):8.2g} {model.n_factors_active_:6} {model.n_iter_:6} {seconds:8.1f}"
          + f"  {model.status_.name}", flush=True)  # fmt: skip


def table(
    likelihood: str, mean: float, dispersion: float, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Means of low rank in the link of the likelihood, and counts around them."""
    signal = 0.3 * rng.normal(size=(shape[0], 3)) @ rng.normal(size=(3, shape[1]))
    signal += 0.3 * rng.normal(size=(shape[0], 1)) + 0.3 * rng.normal(size=(1, shape[1]))
    if likelihood == "poisson":
        center = mean + np.log(-np.expm1(-mean))
        mu = softplus(center + np.clip(0.3 * max(mean, 3.0) * signal, -0.9 * max(mean, 3.0), None))
    else:
        mu = mean * np.exp(signal - 0.5 * signal.var())
    rate = mu if dispersion == 0 else mu * rng.gamma(1.0 / dispersion, dispersion, size=shape)
    return mu, rng.poisson(rate).astype(float)


def log_probability(x: Floats, mu: Floats, dispersion: float) -> Floats:
    """Log probability of counts of these means, with variance μ + d μ²."""
    if dispersion == 0:
        return np.asarray(stats.poisson.logpmf(x, mu))
    return np.asarray(stats.nbinom.logpmf(x, 1.0 / dispersion, 1.0 / (1.0 + dispersion * mu)))


def learned_dispersion(model: gcmf.GCMF) -> float:
    """1/r of the fitted relation."""
    p = model.fitted_.parameters[0]
    return float(1.0 / p[0]) if len(p) else 0.0


def coverage(model: gcmf.GCMF, i: Floats, j: Floats, x: Floats, rng: np.random.Generator) -> list[float]:
    """Shares of cells in the central intervals of what is predicted: P(X < x) + u P(X = x) averaged over draws of θ."""
    f = model.fitted_
    mean = np.einsum("nk,nk->n", f.mean[0][i].astype(float), f.mean[1][j].astype(float))
    mean += f.bias_mean[0][i].astype(float) + f.bias_mean[1][j] + f.offset[0]
    a, a_var, b, b_var = (side[at].astype(float) for side, at in
                          ((f.mean[0], i), (f.var[0], i), (f.mean[1], j), (f.var[1], j)))  # fmt: skip
    var = (a_var * b**2 + (a**2 + a_var) * b_var).sum(axis=1) + f.bias_var[0][i] + f.bias_var[1][j]
    below, dispersion, u = np.zeros(len(x)), learned_dispersion(model), rng.random(len(x))
    link = softplus if f.likelihoods[0].name == "poisson" else np.exp
    nodes = stats.norm.ppf((np.arange(N_DRAWS // 10) + 0.5) / (N_DRAWS // 10))
    for node in nodes:
        mu = link(mean + np.sqrt(var) * node)
        if dispersion == 0:
            less, here = stats.poisson.cdf(x - 1, mu), stats.poisson.pmf(x, mu)
        else:
            size, chance = 1.0 / dispersion, 1.0 / (1.0 + dispersion * mu)
            less, here = stats.nbinom.cdf(x - 1, size, chance), stats.nbinom.pmf(x, size, chance)
        below += (less + u * here) / len(nodes)
    return [float((np.abs(below - 0.5) < share / 2).mean()) for share in SHARES]


def real(name: str, train: gcmf.Collection, test: gcmf.Collection) -> None:
    """Fit real counts with each likelihood."""
    for likelihood in ("poisson", "negative_binomial"):
        ends = [(r.name, r.rows, r.cols) for r in train.schema.relations]
        kinds = [[gcmf.Relation(*names, ids_of(part, names[0]), likelihood) for names in ends]
                 for part in (train, test)]  # fmt: skip
        started = time.perf_counter()
        model = gcmf.GCMF(20, random_state=0, max_iter=400, progress=False).fit(kinds[0])
        score = model.score(kinds[1], unknown="prior")
        print(f"{name}, {likelihood}: log-likelihood {score.log_likelihood.iloc[0]:.4f}, "
              f"{model.n_factors_active_} factors, 1/size {learned_dispersion(model):.3g}, "
              f"{model.n_iter_} sweeps, {time.perf_counter() - started:.1f} s", flush=True)  # fmt: skip


def ids_of(data: gcmf.Collection, name: str) -> tuple[object, ...]:
    """A relation's cells by id."""
    r = data.relations[name]
    i, j, x = r.cells.triplets()
    return data.entities[r.rows].ids[i], data.entities[r.cols].ids[j], x


if __name__ == "__main__":
    main()
