"""MovieLens 1M and 100K with their side relations: python benchmarks/movielens.py.

Ratings (Gaussian) with user × traits and movie × genres (Bernoulli), K = 20, nothing tuned, predictions clipped to
[1, 5]. Needs the data: GCMF_DATA, or ../shared/data beside the project.
"""

from __future__ import annotations

import time

import numpy as np

import gcmf
from gcmf import datasets


def main() -> None:
    """Print one line per data set and model."""
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    parts = {"ml-1m": datasets.load_movielens_1m(folder / "ml-1m"),
             "ml-100k": datasets.load_movielens_100k(folder / "ml-100k")}  # fmt: skip
    proper = gcmf.Priors(alpha_shape=1.0, alpha_rate=1.0)
    settings = {"gCMF": {}, "CMF": {"sharing": "common"}, "gCMF, Gamma(1, 1) prior on alpha": {"priors": proper}}
    for name, (train, test) in parts.items():
        for label, options in settings.items():
            started = time.perf_counter()
            model = gcmf.GCMF(20, random_state=0, **options).fit(train)
            seconds = time.perf_counter() - started
            print(f"{name}, {label}: RMSE {clipped_rmse(model, test):.4f}, {model.n_factors_active_} factors, "
                  f"{model.n_iter_} sweeps, {seconds:.1f} s, {model.status_.name}", flush=True)  # fmt: skip


def clipped_rmse(model: gcmf.GCMF, test: gcmf.Collection) -> float:
    """RMSE of the held-out ratings, predictions clipped to [1, 5]."""
    i, j, x = test.relations["ratings"].cells.triplets()
    users, movies = test.entities["user"].ids, test.entities["movie"].ids
    return float(np.sqrt(np.mean((np.clip(model.predict("ratings", users[i], movies[j]), 1, 5) - x) ** 2)))


if __name__ == "__main__":
    main()
