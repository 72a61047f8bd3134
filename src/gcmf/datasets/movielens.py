"""MovieLens: ratings, with traits of the users and genres of the movies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.datasets.folder import find_files
from gcmf.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Ratings = NDArray[np.int64]
    """User, movie and rating of each line, (n, 3)."""

_SOURCE = "Get the set from https://grouplens.org/datasets/movielens/ and name the folder it is unpacked in."
_SPLITS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")
_AGES = (1, 18, 25, 35, 45, 50, 56, np.inf)
"""The age groups of MovieLens 1M, by which the users of 100K are grouped too."""


def load_movielens_1m(
    folder: str | Path, *, train_size: float = 0.9, random_state: int = 0
) -> tuple[Collection, Collection]:
    """Return (train, test) of MovieLens 1M; both know all users and movies.

    `ratings` (user × movie, 1 to 5, Gaussian) are permuted by `numpy.random.default_rng(random_state)`, and
    the first `train_size` of them goes into the train part. `traits` (user × 30 groups of gender, age and
    occupation) and `genres` (movie × 18) are Bernoulli and wholly observed.

    Parameters
    ----------
    folder : path
        Where `ratings.dat`, `users.dat` and `movies.dat` lie.
    train_size : float
        Share of the ratings to learn from.
    random_state : int
        Seed of the permutation.
    """
    names = ("ratings.dat", "users.dat", "movies.dat")
    ratings_path, users_path, movies_path = find_files(folder, names, source=_SOURCE)
    # One character as separator reads many times faster; of `1::48::5` every second column is then empty.
    ratings = pd.read_csv(ratings_path, sep=":", header=None, usecols=[0, 2, 4], dtype=np.int64).to_numpy()
    users = pd.read_csv(users_path, sep=":", header=None, usecols=[0, 2, 4, 6], index_col=0)
    users.columns = pd.Index(["gender", "age", "occupation"])
    lines = [line.split("::") for line in movies_path.read_text("latin-1").splitlines()]
    genres = pd.Series({int(number): kinds for number, _, kinds in lines}).str.get_dummies("|")
    order = np.random.default_rng(random_state).permutation(len(ratings))
    cut = round(train_size * len(ratings))
    return _parts(ratings[order[:cut]], ratings[order[cut:]], users, genres)


def load_movielens_100k(folder: str | Path, *, split: str = "u1") -> tuple[Collection, Collection]:
    """Return (train, test) of MovieLens 100K by one of its own splits; both know all users and movies.

    `ratings` (user × movie, 1 to 5, Gaussian) are those of `<split>.base` and `<split>.test`. `traits` (user
    × 30 groups of gender, age and occupation) and `genres` (movie × 18) are Bernoulli and wholly observed,
    but for two movies of no known genre.

    Parameters
    ----------
    folder : path
        Where `u.user`, `u.item`, `u.genre` and the two files of the split lie.
    split : {"u1", "u2", "u3", "u4", "u5", "ua", "ub"}
        Which of the published splits.
    """
    if split not in _SPLITS:
        known = ", ".join(_SPLITS)
        msg = f"The splits of MovieLens 100K are {known}, not {split!r}."
        raise OptionError(msg)
    names = ("u.user", "u.item", "u.genre", f"{split}.base", f"{split}.test")
    users_path, items_path, genres_path, *rating_paths = find_files(folder, names, source=_SOURCE)
    train, test = (
        pd.read_csv(path, sep="\t", header=None, usecols=[0, 1, 2], dtype=np.int64).to_numpy() for path in rating_paths
    )
    users = pd.read_csv(users_path, sep="|", header=None, usecols=range(4), index_col=0)
    users.columns = pd.Index(["age", "gender", "occupation"])
    kinds = pd.read_csv(genres_path, sep="|", header=None)[0].tolist()
    items = pd.read_csv(items_path, sep="|", header=None, encoding="latin-1", index_col=0)
    genres = items[items.columns[-len(kinds) :]].set_axis(kinds, axis=1).drop(columns="unknown")
    return _parts(train, test, users, genres)


def _parts(train: Ratings, test: Ratings, users: pd.DataFrame, genres: pd.DataFrame) -> tuple[Collection, Collection]:
    """Build both parts over the same ids."""
    known = genres[genres.any(axis=1)]
    ids = {"user": users.index, "movie": np.union1d(genres.index, np.concatenate([train, test])[:, 1])}
    side = [
        Relation("traits", "user", "trait", _traits(users), "bernoulli"),
        Relation("genres", "movie", "genre", known, "bernoulli"),
    ]
    ratings, held_out = (Relation("ratings", "user", "movie", tuple(part.T)) for part in (train, test))
    return Collection([ratings, *side], entities=ids), Collection([held_out], entities=ids)


def _traits(users: pd.DataFrame) -> pd.DataFrame:
    """One column per gender, age group and occupation, 1 where the user is of it."""
    groups = pd.DataFrame({
        "gender": users["gender"],
        "age": pd.cut(users["age"], _AGES, right=False, labels=_AGES[:-1]),
        "occupation": users["occupation"],
    })  # fmt: skip
    return pd.get_dummies(groups, columns=list(groups), dtype=np.uint8)
