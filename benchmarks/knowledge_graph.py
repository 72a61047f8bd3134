"""A knowledge graph, one entity set and many directed 0/1 relations: python benchmarks/knowledge_graph.py [--seeds 3].

150 entities and 30 relations, of which each sees 2 of 6 factors: two pairs of mates, one of which sends what the other
receives, and two that do both. About one link in ten pairs; a fifth of all cells is held out. Prints the average
precision of the held-out links, that of the true probabilities, how many factors are found, and the time of a sweep for
5, 10, 20 and 30 of the relations.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score

import gcmf
from gcmf.fit import fit
from gcmf.options import FitOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MATE = np.array([1, 0, 3, 2, 4, 5])
SEEN = 2
"""Factors that a relation sees."""


def main() -> None:
    """Print a line per seed, then the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    for seed in range(parser.parse_args().seeds):
        graph = simulate(150, 30, seed)
        begin = time.perf_counter()
        model = gcmf.GCMF(random_state=seed, progress=False).fit(graph.train)
        seconds = time.perf_counter() - begin
        found, true = average_precision(model, graph)
        print(
            f"seed {seed}: average precision {found:.4f}, of the true probabilities {true:.4f} ({found / true:.1%});"
            f" {model.n_factors_active_} factors for 6, {seen_right(model, graph):.1%} of the pairs of relation and"
            f" factor as they are; {model.n_iter_} sweeps, {seconds:.1f} s",
            flush=True,
        )
    for n in (5, 10, 20, 30):
        print(f"{n} relations: {seconds_of_a_sweep(n):.3f} s a sweep", flush=True)


class Graph(NamedTuple):
    """Cells to learn from and to be asked about, and what they were drawn from."""

    train: gcmf.Collection
    test: gcmf.Collection
    theta: Floats
    """(M, n, n)."""
    strength: Floats
    """(M, 6)."""


def simulate(n: int, n_relations: int, seed: int) -> Graph:
    """Draw θ = −3 + Σ_k d_mk u_ik u_jκ(k) and links from it."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, len(MATE)))
    strength = np.zeros((n_relations, len(MATE)))
    for row in strength:
        row[rng.choice(len(MATE), SEEN, replace=False)] = rng.choice([-1.5, 1.5], SEEN)
    theta = -3.0 + np.einsum("mk,ik,jk->mij", strength, u, u[:, MATE])
    links = (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
    relations = [gcmf.Relation(f"r{m}", "thing", "thing", x, "bernoulli", symmetric=False) for m, x in enumerate(links)]
    train, test = gcmf.Collection(relations).split(0.2, random_state=seed)
    return Graph(train, test, theta, strength)


def average_precision(model: gcmf.GCMF, graph: Graph) -> tuple[float, float]:
    """The mean over relations of the average precision of held-out links: of a model, and of the true θ."""
    pairs = []
    for theta, (name, relation) in zip(graph.theta, graph.test.relations.items(), strict=True):
        i, j, x = relation.cells.triplets()
        pairs.append([average_precision_score(x, score[i, j]) for score in (model.predict(name), theta)])
    found, true = np.mean(pairs, axis=0)
    return float(found), float(true)


def seen_right(model: gcmf.GCMF, graph: Graph) -> float:
    """The share of pairs (relation, factor) that are found seen or not as they are; factors are matched by that."""
    found = (model.strengths().to_numpy() != 0).astype(float)
    true = (graph.strength != 0).astype(float)
    match = np.array([np.abs(true - column[:, None]).sum(axis=0).argmin() for column in found.T], dtype=int)
    right = np.zeros_like(true)
    np.maximum.at(right.T, match, found.T)
    return float((right == true).mean())


def seconds_of_a_sweep(n_relations: int) -> float:
    """The time of a sweep with 12 factors, the median of ten."""
    train = simulate(150, n_relations, 0).train
    marks = [time.perf_counter()]
    options = FitOptions(n_factors=12, max_iter=12, tol=0.0, refined=False, n_threads=1)
    fit(train, options, np.random.default_rng(0), [lambda _: marks.append(time.perf_counter())])
    return float(np.median(np.diff(marks)[2:]))


if __name__ == "__main__":
    main()
