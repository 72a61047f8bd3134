"""MovieLens: ratings, with traits of the users and genres of the movies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.datasets.folder import find_files
from gcmf.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = "Get the set from https://grouplens.org/datasets/movielens/ and name the folder it is unpacked in."
_SPLITS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")
_AGES = (0, 18, 25, 35, 45, 50, 56, np.inf)
"""The age groups of MovieLens 1M, by which the users of 100K are grouped too."""


def load_movielens_1m(
    folder: str | Path, *, train_size: float = 0.9, random_state: int = 0
) -> tuple[Collection, Collection]:
    """Return (train, test) of MovieLens 1M; both know all users and movies.

    `ratings` (user × movie, 1 to 5, Gaussian) is permuted by `numpy.random.default_rng(random_state)` and its
    first `train_size` goes into the train part. `traits` (user × 30 groups of gender, age and occupation) and
    `genres` (movie × 18) are Bernoulli, all their cells observed for users and movies that are known; a movie is
    known when it has a genre.

    Parameters
    ----------
    folder : path
        Where `ratings.dat`, with lines `user::movie::rating`, and `side.npz` lie.
    """
    ratings_path, side_path = find_files(folder, ("ratings.dat", "side.npz"), source=_SOURCE)
    # One character as separator is read many times faster; of `1::48::5` every second column is then empty.
    table = pd.read_csv(ratings_path, sep=":", header=None, usecols=[0, 2, 4], dtype=np.int64).to_numpy()
    with np.load(side_path) as side:
        users = pd.DataFrame(side["user_onehot"], columns=side["user_cols"])
        genres = pd.DataFrame(side["genre"], columns=side["genre_names"])
    users.index, genres.index = users.index + 1, genres.index + 1
    order = np.random.default_rng(random_state).permutation(len(table))
    cut = round(train_size * len(table))
    return _parts(table[order[:cut]], table[order[cut:]], users, genres)


def load_movielens_100k(folder: str | Path, *, split: str = "u1") -> tuple[Collection, Collection]:
    """Return (train, test) of MovieLens 100K by one of its own splits; both know all users and movies.

    `ratings` (user × movie, 1 to 5, Gaussian) are those of `<split>.base` and `<split>.test`. `traits` (user ×
    30 groups of gender, age and occupation) and `genres` (movie × 18) are Bernoulli, all their cells observed for
    users and movies that are known; a movie is known when it has a genre.

    Parameters
    ----------
    folder : path
        Where `u.user`, `u.item`, `u.genre` and the two files of the split lie.
    split : {"u1", "u2", "u3", "u4", "u5", "ua", "ub"}
        Which of the published splits.
    """
    if split not in _SPLITS:
        known = ", ".join(_SPLITS)
        msg = f"The splits of MovieLens 100K are {known}, not {split!r}.{did_you_mean(split, _SPLITS)}"
        raise OptionError(msg)
    names = ("u.user", "u.item", "u.genre", f"{split}.base", f"{split}.test")
    user_path, item_path, genre_path, *rating_paths = find_files(folder, names, source=_SOURCE)
    train, test = (
        pd.read_csv(path, sep="\t", header=None, usecols=[0, 1, 2], dtype=np.int64).to_numpy()
        for path in rating_paths
    )
    return _parts(train, test, _traits(user_path), _genres(item_path, genre_path))


def _traits(path: Path) -> pd.DataFrame:
    columns = ["user", "age", "gender", "occupation"]
    table = pd.read_csv(path, sep="|", header=None, usecols=range(4), names=columns, index_col="user")
    table["age"] = pd.cut(table["age"], _AGES, right=False).cat.codes.map(lambda code: f"age{_AGES[code]:g}")
    return pd.get_dummies(table[["gender", "age", "occupation"]], prefix="", prefix_sep="", dtype=np.uint8)


def _genres(item_path: Path, genre_path: Path) -> pd.DataFrame:
    names = pd.read_csv(genre_path, sep="|", header=None)[0].tolist()
    table = pd.read_csv(item_path, sep="|", header=None, encoding="latin-1", index_col=0)
    flags = table[table.columns[-len(names) :]].astype(np.uint8)
    flags.columns = pd.Index(names)
    return flags.drop(columns="unknown")


def _parts(
    train: np.ndarray, test: np.ndarray, users: pd.DataFrame, genres: pd.DataFrame
) -> tuple[Collection, Collection]:
    """Build both parts over the same ids, in order."""
    known = genres[genres.any(axis=1)]
    movies = np.unique(np.concatenate([train[:, 1], test[:, 1], known.index.to_numpy()]))
    ids = {"user": users.index.to_numpy(), "movie": movies}
    side = [
        Relation("traits", "user", "trait", users, "bernoulli"),
        Relation("genres", "movie", "genre", known, "bernoulli"),
    ]
    ratings, held_out = (Relation("ratings", "user", "movie", tuple(part.T)) for part in (train, test))
    return Collection([ratings, *side], entities=ids), Collection([held_out], entities=ids)
