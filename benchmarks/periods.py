"""Time of ratings, on MovieLens 100K (split u1): python benchmarks/periods.py.

A user of one day, week or month becomes an entity of its own, whose covariate is the user: what it likes is what the
user likes, and what is new in that period. With and without traits and genres as covariates. Needs the data: GCMF_DATA,
or ../shared/data beside the project.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import gcmf
from gcmf import datasets

DAYS = {"day": 1, "week": 7, "month": 30}


def main() -> None:
    """Print one line per length of a period."""
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    folder /= "ml-100k"
    columns = ["user", "movie", "stars", "at"]
    train, test = (pd.read_csv(folder / f"u1.{part}", sep="\t", names=columns) for part in ("base", "test"))
    users = pd.read_csv(folder / "u.user", sep="|", header=None, usecols=range(4), index_col=0)
    users.columns = pd.Index(["age", "gender", "occupation"])
    items = pd.read_csv(folder / "u.item", sep="|", header=None, encoding="latin-1", index_col=0)
    genres = items[items.columns[-18:]].astype(bool)
    plain = pd.Series(users.index, index=users.index)
    print(f"users: RMSE {rmse(train, test, 'user', {'user': plain, 'movie': genres.index}):.4f},"
          f" with traits and genres {rmse(train, test, 'user', {'user': users, 'movie': genres}):.4f}")  # fmt: skip
    for name, days in DAYS.items():
        both = [part.assign(visit=part["user"].astype(str) + " " + (part["at"] // (86_400 * days)).astype(str))
                for part in (train, test)]  # fmt: skip
        visits = pd.concat(both).drop_duplicates("visit").set_index("visit")["user"]
        who = visits.astype(str).to_frame()
        known = who.join(users.loc[visits].set_axis(visits.index))
        print(f"users of a {name}, {len(visits):,}: RMSE"
              f" {rmse(*both, 'visit', {'visit': who, 'movie': genres.index}):.4f},"
              f" with traits and genres {rmse(*both, 'visit', {'visit': known, 'movie': genres}):.4f}")  # fmt: skip


def rmse(train: pd.DataFrame, test: pd.DataFrame, rows: str, entities: dict[str, Any]) -> float:
    """Held-out RMSE, predictions clipped to [1, 5]."""
    ratings = gcmf.Relation.from_frame("ratings", train, rows=rows, cols="movie", row=rows, col="movie", value="stars")
    model = gcmf.GCMF(random_state=0).fit(gcmf.Collection([ratings], entities=entities))
    guess = np.clip(model.predict("ratings", test[rows].to_numpy(), test["movie"].to_numpy()), 1, 5)
    return float(np.sqrt(np.mean((guess - test["stars"].to_numpy()) ** 2)))


if __name__ == "__main__":
    main()
