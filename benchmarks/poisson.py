"""Which bound for counts: python benchmarks/poisson.py.

Held-out log-likelihood per cell of the Poisson bounds: on Last.fm play counts (10% held out), on the MovieLens 100K
ratings read as counts (split u1, with side relations), and on simulated counts that really are Poisson.
"""

from __future__ import annotations

import time
import warnings

import gcmf
from gcmf import datasets
from gcmf.likelihoods import Poisson

BOUNDS = ("paper", "cell", "tight", "exact")


def main() -> None:
    """Print one line per data set and bound."""
    warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
    cycle = datasets.simulate_cycle(3, likelihood="poisson", random_state=0)
    compare("simulated cycle", cycle.train, cycle.test, "X1")
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped the rest: no data folder (set GCMF_DATA)")
        return
    compare("ratings u1", *datasets.load_movielens_100k(folder / "ml-100k"), "ratings")
    compare("Last.fm", *datasets.load_lastfm(folder / "lastfm").split(0.1, random_state=0), "plays")


def compare(name: str, train: gcmf.Collection, test: gcmf.Collection, relation: str) -> None:
    """Fit one collection with every bound."""
    for bound in BOUNDS:
        started = time.perf_counter()
        model = gcmf.GCMF(20, random_state=0, max_iter=400).fit(counted(train, relation, bound))
        seconds = time.perf_counter() - started
        score = model.score(counted(test, relation, bound)).loc[relation]
        print(f"{name}, {bound}: log-likelihood {score.log_likelihood:.4f}, RMSE {score.rmse:.4f}, "
              f"{model.n_factors_active_} factors, {model.n_iter_} sweeps, {seconds:.1f} s, "
              f"{model.status_.name}", flush=True)  # fmt: skip


def counted(data: gcmf.Collection, counts: str, bound: str) -> gcmf.Collection:
    """The same collection with one relation (and every count) read as counts under this bound."""
    relations = []
    for name, r in data.relations.items():
        i, j, x = r.cells.triplets()
        ids = (data.entities[r.rows].ids[i], data.entities[r.cols].ids[j], x)
        poisson = name == counts or r.schema.likelihood == "poisson"
        relations.append(gcmf.Relation(name, r.rows, r.cols, ids, Poisson(bound) if poisson else r.likelihood))
    used = {end for r in data.relations.values() for end in (r.rows, r.cols)}
    return gcmf.Collection(relations, entities={name: data.entities[name].ids for name in used})


if __name__ == "__main__":
    main()
