"""Draws of a whole small model and its cells from the prior, and chains that start there: whether they stay there.

If parameters and cells are drawn together, a chain that starts from these parameters, given these cells, is stationary:
after any number of sweeps its state has the distribution of the prior (Geweke, 2004). An error in any conditional
moves it away. `python -m fuzz.joint` looks closely; a few draws run with the tests.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pandas as pd

import gcmf
from gcmf.engines.base import State
from gcmf.engines.cpu import CpuEngine
from gcmf.gamma import Gamma
from gcmf.methods.gibbs import Chain
from gcmf.model import conditionals
from gcmf.model.centers import expected_sizes
from gcmf.model.conditionals import Hyper, points
from gcmf.model.hyper import BIAS_SCALE_RATE
from gcmf.model.posterior import BiasPrior, Moments, Posterior, RelationScales, row_priors, scales_of
from gcmf.model.regression import Coefficients, Regression, told
from gcmf.model.spec import build
from gcmf.options import FitOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gcmf.engines.base import Engine, Problem
    from gcmf.model.spec import Spec

    Tables = list[np.ndarray]

#: Entities of each set.
SIZES = {"a": 7, "b": 6, "c": 5}
ALPHA, TAU, BIAS, BETA, COLUMN = Gamma(4.0, 4.0), (4.0, 2.0), Gamma(4.0, 2.0), Gamma(4.0, 4.0), Gamma(4.0, 1.0)
OFFSET, CENTER = 0.3, 0.5
#: Places that a draw can have among itself and later ones.
N_RANKS = 10
#: In place of what the library has, which is so wide that draws are beyond numbers.
POOLING = {"POOLING_DEVIATION": 0.3, "WEAK_SHAPE": 4.0}


@dataclass(frozen=True)
class Case:
    """A schema: (rows, columns, likelihood) of each relation, and what else it has."""

    relations: tuple[tuple[str, str, str], ...]
    covariates: bool = False
    scales: bool = False
    bias: bool = True
    n_factors: int = 2
    patterns: bool = False
    pooled: bool = False
    weighted: bool = False
    offset: float = OFFSET
    thin: int = 20
    """Sweeps after which draws are far apart: many where something walks in steps of a fixed size."""

    def build(self, rng: np.random.Generator, tables: Tables | None = None) -> tuple[Spec, Problem]:
        """Spec and problem with these cells, or any, without their being standardized."""
        relations = []
        for m, (rows, cols, kind) in enumerate(self.relations):
            x = rng.poisson(0.7, (SIZES[rows], SIZES[cols])).astype(float) if tables is None else tables[m].copy()
            x = np.minimum(x, 1.0) if getattr(kind, "name", kind) == "bernoulli" else x
            # The same cells are always missing, and every row and column has some.
            x[(np.add.outer(np.arange(len(x)), 2 * np.arange(x.shape[1])) + m) % 4 == 0] = np.nan
            more = {"symmetric": False} if rows == cols else {}
            if rows == cols:
                np.fill_diagonal(x, np.nan)
            if self.weighted:
                i, j = np.nonzero(~np.isnan(x))
                x, more = (i, j, x[i, j]), {**more, "weight": 0.5 + (i + j) % 3}
            relations.append(gcmf.Relation(f"r{m}", rows, cols, x, kind, **more))
        known = {"a": _features(SIZES["a"])} if self.covariates else {}
        data = gcmf.Collection(relations, entities=known)
        priors = {"alpha_shape": 1e-10, "alpha_rate": 1e-10, "tau_shape": TAU[0], "tau_rate": TAU[1]}
        options = FitOptions(n_factors=self.n_factors, bias=self.bias, relation_scales=self.scales, priors=priors)
        spec, problem = build(data, options)
        blocks = tuple(
            tuple(replace(b, center=0.0, scale=1.0, offset=self.offset) for b in of_set) for of_set in problem.blocks
        )
        n = len(spec.center)
        spec = replace(spec, point=True, center=np.zeros(n), scale=np.ones(n), offset=np.full(n, self.offset))
        return spec, replace(problem, blocks=blocks)


def _features(d: int) -> pd.DataFrame:
    return pd.DataFrame({"x": np.linspace(-1.0, 1.5, d), "y": np.cos(np.arange(d) * 2.0)})


def draw_prior(case: Case, spec: Spec, rng: np.random.Generator) -> tuple[Posterior, State]:
    """Everything but cells: a posterior of points, and a state."""
    E, K, M = len(spec.sizes), case.n_factors, len(spec.ends)
    on = _pattern(spec, K, rng) if case.patterns else np.ones((E, K), bool)
    prior = Gamma(np.full((E, 1), ALPHA.shape), np.full((E, 1), ALPHA.rate))
    if case.pooled:
        shape = ALPHA.shape * np.exp(POOLING["POOLING_DEVIATION"] * rng.standard_normal((E, 1)))
        prior = Gamma(shape, rng.gamma(POOLING["WEAK_SHAPE"], size=(E, 1)) * ALPHA.rate / POOLING["WEAK_SHAPE"])
    alpha = np.maximum(rng.gamma(prior.shape, size=(E, K)) / prior.rate, 1e-12)
    scale = np.where(spec.has_bias, _bias_scales(2 * M, rng), 1.0)
    mu = np.where(spec.has_bias, rng.standard_normal(2 * M), 0.0)
    scales = None
    if spec.scaled:
        beta = rng.gamma(BETA.shape, size=(M, K)) / BETA.rate
        mate = np.array([1, 0]) if K == 2 and spec.directed.any() else np.arange(K)
        d = rng.standard_normal((M, K)) / np.sqrt(beta)
        scales = RelationScales(d, np.zeros((M, K)), points(beta), np.ones((M, K), bool), mate, spec.itself)
    regressions = []
    for design in spec.designs:
        T = K if design.layer is None else 1
        a, b = COLUMN.rate / rng.gamma(COLUMN.shape, size=len(design.sizes)), np.full(T, 0.5)
        w = rng.standard_normal((len(design.group), T)) * np.sqrt(np.outer(a, b))[design.group]
        zero = np.zeros(T)
        regressions.append(Regression(design, Coefficients(w, 0 * w, a, b, zero, zero), 0 * w))
    kinds = spec.likelihoods
    parameters = tuple(
        np.array([1.0, TAU[1] / rng.gamma(TAU[0])]) if kind.name == "gaussian"
        else kind.moved(np.array([1.0, 0.0]), -2.0 * np.log(rng.exponential())) if kind.searched
        else np.zeros(0) for kind in kinds
    )  # fmt: skip
    none = Moments(*(np.zeros(s) for s in ((E, K), (E, K), 2 * M, 2 * M, 2 * M)))
    posterior = Posterior(points(alpha), prior, parameters, BiasPrior(mu, 0 * mu, scale), on, none, 0, scales,
                          tuple(regressions))  # fmt: skip
    center = np.sqrt(center_sizes(spec, posterior)) * rng.standard_normal((E, K))
    posterior = posterior._replace(center=center)
    mean, bias = [], [np.zeros(spec.sizes[spec.ends[n // 2][n % 2]]) for n in range(2 * M)]
    for e, row in enumerate(row_priors(spec, posterior)):
        d = spec.sizes[e]
        mean.append(np.where(on[e], row.mean + rng.standard_normal((d, K)) / np.sqrt(row.precision), 0.0))
        for b, layer in enumerate(spec.layers[e]):
            if spec.biased[layer]:
                bias[layer] = row.bias_mean[:, b] + rng.standard_normal(d) * np.sqrt(scale[layer])
    state = State(mean, [0 * u for u in mean], bias, [0 * b for b in bias])
    return posterior, state


def _bias_scales(n: int, rng: np.random.Generator) -> np.ndarray:
    """1/σ² ~ `BIAS`, and σ² with probability e^(−σ²)."""
    found = []
    while len(found) < n:
        scale = BIAS.rate / rng.gamma(BIAS.shape)
        if rng.random() < np.exp(-BIAS_SCALE_RATE * scale):
            found.append(scale)
    return np.array(found)


def center_sizes(spec: Spec, posterior: Posterior) -> np.ndarray:
    """Prior variances of the centers of factors, (E, 1)."""
    return np.where(expected_sizes(spec, posterior) > 0.0, CENTER, 0.0)


def _pattern(spec: Spec, K: int, rng: np.random.Generator) -> np.ndarray:
    """Each factor's sets, with probability ∝ exp(−½ Σ log n) over the relations that it reaches."""
    E = len(spec.sizes)
    all_of_them = np.array([[n >> e & 1 for e in range(E)] for n in range(2**E)], bool)
    reach = np.array([[row[r] and row[c] for r, c in spec.ends] for row in all_of_them])
    weight = np.exp(-(reach @ spec.price))
    return np.stack([all_of_them[rng.choice(2**E, p=weight / weight.sum())] for _ in range(K)], axis=1)


def draw_cells(spec: Spec, posterior: Posterior, state: State, rng: np.random.Generator) -> Tables:
    """A table per relation."""
    tables = []
    scales = None if posterior.scales is None else scales_of(posterior.scales, spec.directed)
    for m, ((r, c), kind, p) in enumerate(zip(spec.ends, spec.likelihoods, posterior.parameters, strict=True)):
        theirs = state.mean[c] if scales is None else scales.scaled(m, 0, state.mean[c], 0 * state.mean[c])[0]
        theta = state.mean[r] @ theirs.T + state.bias_mean[2 * m][:, None] + state.bias_mean[2 * m + 1] + spec.offset[m]
        if kind.name == "gaussian":
            tables.append(theta + np.sqrt(p[1]) * rng.standard_normal(theta.shape))
        elif kind.name == "bernoulli":
            tables.append((rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float))
        elif kind.name == "poisson":
            tables.append(rng.poisson(np.logaddexp(0.0, theta)).astype(float))
        else:
            tables.append(
                rng.poisson(np.exp(np.minimum(theta, 12.0)) * rng.gamma(p[0], size=theta.shape) / p[0]).astype(float)
            )
    return tables


def statistics(spec: Spec, posterior: Posterior, state: State) -> dict[str, float]:
    """Numbers whose distribution is to stay."""
    shape, rate = (
        np.tanh(np.log(a / b) / 4.0).sum()
        for a, b in zip(
            (posterior.alpha_prior.shape, posterior.alpha_prior.rate), (ALPHA.shape, ALPHA.rate), strict=True
        )
    )
    spread = np.log(posterior.alpha.mean).std(axis=1).sum() if posterior.on.all() else 0.0
    found = {
        "spread": spread,
        "shape": shape,
        "rate": rate,
        "alpha": (np.log(posterior.alpha.mean) * posterior.on).sum(),
        "on": posterior.on.sum(),
        "center": np.tanh(posterior.center).sum(),
        "size of center": np.log1p(posterior.center**2).sum(),
    }
    for e, u in enumerate(state.mean):
        found[f"u{e}"], found[f"square{e}"] = u[0].sum(), np.log1p((u**2).sum())
    for n in np.flatnonzero(spec.has_bias):
        found[f"mu{n}"], found[f"sigma{n}"] = posterior.bias.mean[n], np.log(posterior.bias.scale[n])
        found[f"bias{n}"] = state.bias_mean[n][0]
    for m, (r, c) in enumerate(spec.ends):
        found[f"theta{m}"] = (state.mean[r][0] * state.mean[c][1]).sum()
        p = posterior.parameters[m]
        if len(p):
            found[f"parameter{m}"] = np.log(p[1]) if spec.likelihoods[m].name == "gaussian" else p[1]
    if posterior.scales is not None:
        found["beta"], found["d"] = np.log(posterior.scales.beta.mean).sum(), np.log1p(posterior.scales.mean**2).sum()
        found["sign"] = np.tanh(posterior.scales.mean).sum()
    for n, regression in enumerate(posterior.regressions):
        found[f"w{n}"], found[f"column{n}"] = np.tanh(regression.q.mean).sum(), np.log(regression.q.by_column).sum()
        found[f"w2{n}"] = np.log1p(regression.q.mean**2).sum()
    return found


@dataclass(frozen=True)
class Start:
    """A model and its cells, drawn together, and a chain that starts there."""

    spec: Spec
    chain: Chain
    before: dict[str, float]

    def after(self, sweeps: int) -> dict[str, float]:
        """The statistics after so many sweeps more."""
        with mock.patch.multiple(conditionals, **POOLING):
            for _ in range(sweeps):
                self.chain.sweep()
        return statistics(self.spec, self.chain.posterior, self.chain.fetch())


def starts(case: Case, make_engine: Callable[[Problem], Engine], *, n: int, seed: int) -> Iterator[Start]:
    """Draw n models with their cells."""
    rng = np.random.default_rng(seed)
    plain, _ = case.build(rng)
    pooling = Gamma(*(np.full((len(plain.sizes), 1), at) for at in (ALPHA.shape, ALPHA.rate))) if case.pooled else None
    hyper = Hyper(BIAS, pooling, Gamma(np.full((len(plain.ends), 1), BETA.shape), BETA.rate),
                  tuple(COLUMN for _ in plain.designs), case.patterns)  # fmt: skip
    if not plain.scaled:
        hyper = hyper._replace(beta=None)
    for _ in range(n):
        posterior, state = draw_prior(case, plain, rng)
        spec, problem = case.build(rng, draw_cells(plain, posterior, state, rng))
        regressions = tuple(r._replace(design=d) for r, d in zip(posterior.regressions, spec.designs, strict=True))
        posterior = posterior._replace(regressions=regressions)
        engine = make_engine(problem)
        engine.place(state)
        hyper = hyper._replace(centers=center_sizes(spec, posterior))
        chain = Chain(spec, engine, told(engine, posterior, Moments.of(state)), hyper, seed=int(rng.integers(1 << 31)))
        yield Start(spec, chain, statistics(spec, posterior, state))


def moved_away(
    case: Case, make_engine: Callable[[Problem], Engine], *, n: int, sweeps: int = 4, seed: int = 0
) -> dict[str, float]:
    """By how many standard errors each statistic has moved on average over n draws, after so many sweeps."""
    changes = []
    for start in starts(case, make_engine, n=n, seed=seed):
        before, after = start.before, start.after(sweeps)
        changes.append([after[key] - before[key] for key in before])
    changes = np.array(changes)
    return dict(zip(before, changes.mean(axis=0) / np.maximum(changes.std(axis=0) / np.sqrt(n), 1e-12), strict=True))


def far_twice(
    case: Case, make_engine: Callable[[Problem], Engine], *, n: int, sweeps: int, far: float
) -> dict[str, float]:
    """Statistics that have moved by more than `far` standard errors in n draws, and by as much in 2n others.

    What an error moves is √2 times as many standard errors away in these. What is far once by chance, as some of many
    statistics are each time that the sampler changes and takes its random numbers in another order, is not far again.
    """
    first = moved_away(case, make_engine, n=n, sweeps=sweeps, seed=0)
    if max(map(abs, first.values())) <= far:
        return {}
    again = moved_away(case, make_engine, n=2 * n, sweeps=sweeps, seed=1)
    return {key: z for key, z in again.items() if min(abs(z), abs(first[key])) > far}


def uneven_ranks(case: Case, make_engine: Callable[[Problem], Engine], *, n: int, seed: int = 0) -> dict[str, float]:
    """How uneven the ranks of what was drawn are among later draws, χ² of n ranks in standard deviations.

    Simulation-based calibration (Talts and others, 2018): of a model that is drawn with its cells, and nine draws given
    these cells that are far apart, any is equally likely to be the least, the second, and so on. It also sees errors
    that leave means where they are. Numbers that cannot differ, such as those of patterns, have no ranks.
    """
    ranks = []
    for start in starts(case, make_engine, n=n, seed=seed):
        draws = [start.after(3 * case.thin if not k else case.thin) for k in range(N_RANKS - 1)]
        ranks.append([sum(draw[key] < start.before[key] for draw in draws) for key in start.before])
    names = [key for key in start.before if key not in ("on", "shape", "rate", "spread") or case.pooled]
    counts = np.stack([np.bincount(column, minlength=N_RANKS) for column in np.array(ranks).T])
    uneven = ((counts - n / N_RANKS) ** 2 / (n / N_RANKS)).sum(axis=1)
    known = dict(zip(start.before, (uneven - (N_RANKS - 1)) / np.sqrt(2.0 * (N_RANKS - 1)), strict=True))
    return {key: float(known[key]) for key in names if key != "on"}


CASES = {
    "gaussian": Case((("a", "b", "gaussian"), ("a", "c", "gaussian"))),
    "0/1": Case((("a", "b", "bernoulli"), ("c", "b", "gaussian"))),
    "rare ones": Case((("a", "b", "bernoulli"), ("a", "c", "gaussian")), offset=-3.5),
    "rare ones, patterns": Case((("a", "b", "bernoulli"), ("b", "c", "bernoulli")), offset=-3.5, patterns=True),
    "rare ones, scales": Case((("a", "b", "bernoulli"), ("a", "b", "gaussian")), offset=-3.5, scales=True),
    "negative binomial": Case((("a", "b", "negative_binomial"),), thin=200),
    "poisson": Case((("a", "b", "poisson"), ("b", "c", "bernoulli"))),
    "covariates": Case((("a", "b", "gaussian"), ("a", "c", "bernoulli")), covariates=True),
    "scales": Case((("a", "b", "gaussian"), ("a", "b", "bernoulli"), ("b", "c", "gaussian")), scales=True),
    "scales of counts": Case((("a", "b", "poisson"), ("a", "b", "gaussian")), scales=True, bias=False),
    "network": Case((("a", "a", "gaussian"), ("a", "b", "gaussian")), scales=True),
    "0/1 network": Case((("a", "a", "bernoulli"),), scales=True, bias=False),
    "patterns": Case((("a", "b", "gaussian"), ("a", "c", "bernoulli")), patterns=True),
    "pooled": Case((("a", "b", "gaussian"), ("a", "c", "gaussian")), pooled=True, n_factors=3, bias=False),
}


def main() -> None:
    """`python -m fuzz.joint [N] [ranks]`: N draws of every case, and the statistics that are far off."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    look = uneven_ranks if "ranks" in sys.argv else moved_away
    for name, case in CASES.items():
        found = look(case, partial(CpuEngine, dtype="float64", n_threads=1), n=n)
        far = {key: round(float(z), 1) for key, z in found.items() if abs(z) > 3.5}
        print(
            f"{name}: {len(found)} statistics, the farthest {max(map(abs, found.values())):.1f}. {far or ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
