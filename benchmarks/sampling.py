"""Draws beside SMURFF's, by turns: python -m benchmarks.sampling [1m] [100k].

MovieLens 1M (90/10, seed 0) and 100K (split u1) with traits and genres as covariates; RMSE of the held-out ratings,
clipped to [1, 5], and seconds of the whole fit, for several numbers of factors and draws. SMURFF burns in 50 sweeps,
with noise that adapts; gcmf as it comes. Needs `make bench`'s environment, and the data: GCMF_DATA, or ../shared/data.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import gcmf
from benchmarks.cases import build
from benchmarks.movielens import clipped_rmse, parts
from benchmarks.peers.base import Watch
from benchmarks.peers.smurff_macau import Smurff
from gcmf import datasets

#: Case, loader, and pairs of factors and draws.
SETS: dict[str, tuple[str, Any, tuple[tuple[int, int], ...]]] = {
    "1m": ("a", datasets.load_movielens_1m, ((20, 100), (20, 150), (20, 200))),
    "100k": ("b", datasets.load_movielens_100k, ((16, 200), (20, 200), (20, 400))),
}


def main() -> None:
    """Print one line per fit."""
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    for name in sys.argv[1:] or SETS:
        case, load, settings = SETS[name]
        for n_factors, n_draws in settings:
            for label, run in (("gcmf", _own), ("SMURFF", _smurff)):
                seconds, error = run(case, (load, folder / f"ml-{name}"), n_factors, n_draws)
                print(
                    f"{name}, {n_factors} factors, {n_draws} draws, {label}: RMSE {error:.4f}, {seconds:.1f} s",
                    flush=True,
                )


def _own(case: str, source: tuple[Any, Any], n_factors: int, n_draws: int) -> tuple[float, float]:
    del case
    train, test = parts(*source, "covariates")
    model = gcmf.GCMF(n_factors, random_state=0, inference="gibbs", n_samples=n_draws)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gcmf.errors.ConvergenceWarning)
        model.fit(train)
    return time.perf_counter() - started, clipped_rmse(model, test)


def _smurff(case: str, source: tuple[Any, Any], n_factors: int, n_draws: int) -> tuple[float, float]:
    del source
    problem = build(case)
    assert problem is not None
    settings = {"num_latent": n_factors, "burnin": 50, "nsamples": n_draws, "noise": "adaptive"}
    peer, watch = Smurff(problem, settings, threads=2), Watch()
    peer.prepare()
    peer.fit(watch)
    return watch.elapsed(), problem.error(peer.predict())


if __name__ == "__main__":
    main()
