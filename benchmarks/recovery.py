"""Does a fit find the structure that was simulated: python benchmarks/recovery.py [--seeds 20].

Cycles of M matrices over sets of 100-150 entities: 5 factors shared by all, 2 private to each matrix, 40% of the
cells missing, fitted with K = 10 + 2M. Prints, per seed and in all: factors found by role, held-out RMSE beside an
oracle that is told the true pattern, and beside the true means.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gcmf
from gcmf.datasets import Simulation, simulate_cycle

CASES = (("gaussian", 3), ("gaussian", 5), ("bernoulli", 3), ("bernoulli", 5))


def main() -> None:
    """Run every case and print one line per seed and one per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    n_seeds = parser.parse_args().seeds
    for likelihood, n_relations in CASES:
        rows = np.array([one(likelihood, n_relations, seed) for seed in range(n_seeds)])
        exact, shared, private, rmse, oracle, truth, sweeps, seconds = rows.T
        print(
            f"{likelihood} M={n_relations}: exact pattern in {exact.sum():.0f} of {n_seeds} seeds; all-shared factors "
            f"{shared.mean():.2f} of 5, private {private.mean():.2f} of {2 * n_relations}; held-out RMSE "
            f"{rmse.mean():.4f} (oracle {oracle.mean():.4f}, worst ratio {(rmse / oracle).max():.4f}, true means "
            f"{truth.mean():.4f}); {np.median(sweeps):.0f} sweeps, {np.median(seconds):.2f} s",
            flush=True,
        )


def one(likelihood: str, n_relations: int, seed: int) -> tuple[float, ...]:
    """Fit one simulated cycle, with and without knowing its pattern."""
    cycle = simulate_cycle(n_relations, likelihood=likelihood, random_state=seed)
    started = time.perf_counter()
    model = gcmf.GCMF(10 + 2 * n_relations, random_state=0).fit(cycle.train)
    seconds = time.perf_counter() - started
    told = gcmf.GCMF(5 + 2 * n_relations, random_state=0)
    told._fit(cycle.train, told._options(pattern=cycle.pattern))
    shared, private = found(model)
    exact = shared == 5 and all(n == 2 for n in private) and len(model.structure()) == 5 + 2 * n_relations
    return (exact, shared, sum(min(n, 2) for n in private), held_out(model, cycle), held_out(told, cycle),
            against_truth(cycle), model.n_iter_, seconds)  # fmt: skip


def found(model: gcmf.GCMF) -> tuple[int, list[int]]:
    """Number of all-shared factors, and of private ones per relation."""
    table = model.structure()
    private = table[table.role == "private"].relations
    return int((table.role == "shared").sum()), [int((private == (r.name,)).sum()) for r in model.schema_.relations]


def held_out(model: gcmf.GCMF, cycle: Simulation) -> float:
    """RMSE over all held-out cells."""
    score = model.score(cycle.test)
    return float(np.sqrt(np.average(score.rmse**2, weights=score.n)))


def against_truth(cycle: Simulation) -> float:
    """RMSE of the true means on the held-out cells."""
    errors = []
    for name, relation in cycle.test.relations.items():
        i, j, x = relation.cells.triplets()
        errors.append(x - cycle.means[name][i, j])
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


if __name__ == "__main__":
    main()
