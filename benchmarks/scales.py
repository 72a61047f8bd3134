"""Are scales of relations found: python benchmarks/scales.py [--seeds 20].

A triangle in which each factor acts in exactly two of three relations; two relations between the same sets that share
one of three factors with opposite signs; a symmetric network with an attracting and a repelling factor; a directed one
in which one factor sends, another receives and a third does both. Noise of variance 0.25, 30% of the cells missing.
Prints how often the exact pattern is found, the error beside that of a fit that is told the pattern (of the directed
network, which factors are mates; the best of five starts), and what scales add to the time of a sweep.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import gcmf
from gcmf.datasets import simulate_cycle
from gcmf.fit import fit
from gcmf.model.predict import predict_grid
from gcmf.options import FitOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rng = np.random.Generator

SIZES = {"a": 60, "b": 50, "c": 40}
TRIANGLE = {"ab": (1.0, 1.0, 0.0), "bc": (0.0, 1.0, 1.0), "ca": (1.0, 0.0, 1.0)}
TWICE = {"first": (1.0, 1.0, 0.0), "second": (-1.0, 0.0, 1.0)}


def main() -> None:
    """Run every case and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    n = parser.parse_args().seeds
    for name, case in (("triangle", triangle), ("two relations", twice), ("symmetric", network), ("directed", arcs)):
        rows = np.array([case(seed) for seed in range(n)])
        ratio = f"{np.median(rows[:, 1]):.4f} times that of the pattern given, at most {rows[:, 1].max():.4f}"
        print(f"{name}: exact pattern in {rows[:, 0].sum():.0f} of {n} seeds; error {ratio}", flush=True)
    for likelihood in ("gaussian", "bernoulli"):
        print(f"cycle of 3, {likelihood}: a sweep takes {overhead(likelihood):.2f} times as long with scales")


def observed(theta: Floats, rng: Rng) -> Floats:
    """Noisy cells, some missing."""
    x = theta + 0.5 * rng.normal(size=theta.shape)
    return np.where(rng.random(x.shape) < 0.3, np.nan, x)


def compared(data: Any, truth: Mapping[str, Floats], found: gcmf.GCMF, reach: Mapping[str, Any], seed: int) -> float:  # noqa: ANN401
    """The error of a fit relative to that of one that is told the pattern."""
    data = gcmf.Collection(data)
    flags = {name: tuple(map(bool, d)) for name, d in reach.items()}
    n_factors = len(next(iter(flags.values())))
    pattern = dict.fromkeys(data.schema.entities, (True,) * n_factors)
    options = FitOptions(n_factors=n_factors, pattern=pattern, reach=flags, n_init=5)
    told = fit(data, options, np.random.default_rng(seed), ()).summarize(data)

    def error(model: Any) -> float:  # noqa: ANN401 - a fitted model
        parts = []
        for m, (relation, theta) in enumerate(zip(data.schema.relations, truth.values(), strict=True)):
            cells = np.ones(theta.shape, dtype=bool) if relation.symmetric is None else ~np.eye(len(theta), dtype=bool)
            parts.append((predict_grid(model, m, *map(np.arange, theta.shape)).mean - theta)[cells])
        return float(np.sqrt(np.mean(np.concatenate(parts) ** 2)))

    return error(found.fitted_) / error(told)


def triangle(seed: int) -> tuple[float, float]:
    """Whether the pattern is found, and the relative error."""
    rng = np.random.default_rng(seed)
    u = {name: rng.normal(size=(d, 3)) for name, d in SIZES.items()}
    truth = {name: (u[name[0]] * d) @ u[name[1]].T for name, d in TRIANGLE.items()}
    data = [gcmf.Relation(name, name[0], name[1], observed(theta, rng)) for name, theta in truth.items()]
    model = gcmf.GCMF(random_state=seed, progress=False).fit(data)
    exact = sorted(model.structure()["relations"]) == [("ab", "bc"), ("ab", "ca"), ("bc", "ca")]
    return float(exact), compared(data, truth, model, TRIANGLE, seed)


def twice(seed: int) -> tuple[float, float]:
    """Whether the pattern is found, with its signs, and the relative error."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(60, 3)), rng.normal(size=(50, 3))
    truth = {name: (u * d) @ v.T for name, d in TWICE.items()}
    data = [gcmf.Relation(name, "a", "b", observed(theta, rng)) for name, theta in truth.items()]
    model = gcmf.GCMF(random_state=seed, progress=False).fit(data)
    exact = sorted(model.structure()["relations"]) == [("first",), ("first", "second"), ("second",)]
    opposite = (model.strengths().prod(axis=0) < 0).sum() == 1
    return float(exact and opposite), compared(data, truth, model, TWICE, seed)


def network(seed: int) -> tuple[float, float]:
    """Whether both factors of a symmetric network are found, with their signs, and the relative error."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(80, 2))
    truth = (u * [1.0, -1.0]) @ u.T
    x = np.triu(observed(truth, rng), 1) + np.where(np.tri(80), np.nan, 0.0)
    data = [gcmf.Relation("x", "a", "a", x, symmetric=True)]
    model = gcmf.GCMF(random_state=seed, progress=False).fit(data)
    exact = sorted(np.sign(model.strengths().loc["x"])) == [-1.0, 1.0]
    return float(exact), compared(data, {"x": truth}, model, {"x": (1, 1)}, seed)


def arcs(seed: int) -> tuple[float, float]:
    """Whether who sends, who receives, and who does both are found, and the relative error."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(80, 3))
    truth = np.outer(u[:, 0], u[:, 1]) + np.outer(u[:, 2], u[:, 2])
    data = [gcmf.Relation("x", "a", "a", observed(truth, rng), symmetric=False)]
    model = gcmf.GCMF(random_state=seed, progress=False).fit(data)
    alone = (model.mates()["mate"] == model.mates().index).sum()
    exact = len(model.mates()) == 3 and alone == 1 and (model.strengths().loc["x"] != 0).sum() == 2
    return float(exact), compared(data, {"x": truth}, model, {"x": (1, 1, 1)}, seed)


def overhead(likelihood: str) -> float:
    """The time of a sweep with scales over that without, the best of three each; larger sets than above."""
    data = simulate_cycle(3, likelihood=likelihood, sizes=(500, 600), random_state=0).train
    seconds = {}
    for scaled in (False, True, False, True, False, True):
        options = FitOptions(n_factors=16, relation_scales=scaled, max_iter=20, tol=0.0, refined=False, n_threads=1)
        begin = time.perf_counter()
        fit(data, options, np.random.default_rng(0), ())
        seconds[scaled] = min(seconds.get(scaled, np.inf), time.perf_counter() - begin)
    return seconds[True] / seconds[False]


if __name__ == "__main__":
    main()
