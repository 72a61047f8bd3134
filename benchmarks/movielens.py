"""MovieLens 1M and 100K with what is known of users and movies: python benchmarks/movielens.py.

Ratings (Gaussian), and traits of users and genres of movies: as relations of their own (Bernoulli), as covariates, or
not at all. K = 20, nothing tuned, predictions clipped to [1, 5]. Then the same for users and movies of whom no rating
is known, a tenth of all, five times. Needs the data: GCMF_DATA, or ../shared/data beside the project.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import gcmf
from gcmf import datasets

if TYPE_CHECKING:
    from collections.abc import Callable

    Load = Callable[..., tuple[gcmf.Collection, gcmf.Collection]]

PROPER = gcmf.Priors(alpha_shape=1.0, alpha_rate=1.0)
SETTINGS = {
    "gCMF": ("relations", {}),
    "CMF": ("relations", {"sharing": "common"}),
    "gCMF, Gamma(1, 1) prior on alpha": ("relations", {"priors": PROPER}),
    "gCMF, covariates": ("covariates", {}),
    "gCMF, ratings alone": ("nothing", {}),
}
COLD = ("relations", "covariates", "nothing")


def main() -> None:
    """Print one line per data set and model."""
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    loads: dict[str, Load] = {"ml-1m": datasets.load_movielens_1m, "ml-100k": datasets.load_movielens_100k}
    for name, load in loads.items():
        for label, (side, options) in SETTINGS.items():
            train, test = parts(load, folder / name, side)
            started = time.perf_counter()
            model = gcmf.GCMF(20, random_state=0, **options).fit(train)
            seconds = time.perf_counter() - started
            print(f"{name}, {label}: RMSE {clipped_rmse(model, test):.4f}, {model.n_factors_active_} factors, "
                  f"{model.n_iter_} sweeps, {seconds:.1f} s, {model.status_.name}", flush=True)  # fmt: skip
    for by, who in (("row", "users"), ("col", "movies")):
        for side in COLD:
            train, _ = parts(datasets.load_movielens_100k, folder / "ml-100k", side)
            splits = [train.split(0.1, by, relations=["ratings"], random_state=seed) for seed in range(5)]
            errors = [clipped_rmse(gcmf.GCMF(20, random_state=0).fit(seen), hidden) for seen, hidden in splits]
            print(f"ml-100k, new {who}, {side}: RMSE {np.mean(errors):.4f}, mean of 5 splits", flush=True)


def parts(load: Load, folder: object, side: str) -> tuple[gcmf.Collection, gcmf.Collection]:
    """Train and test part, with what is known of users and movies as relations, as covariates, or left out."""
    train, test = load(folder, side="relations" if side == "nothing" else side)
    return train.select(["ratings"]) if side == "nothing" else train, test


def clipped_rmse(model: gcmf.GCMF, test: gcmf.Collection) -> float:
    """RMSE of the held-out ratings, predictions clipped to [1, 5]."""
    i, j, x = test.relations["ratings"].cells.triplets()
    users, movies = test.entities["user"].ids, test.entities["movie"].ids
    return float(np.sqrt(np.mean((np.clip(model.predict("ratings", users[i], movies[j]), 1, 5) - x) ** 2)))


if __name__ == "__main__":
    main()
