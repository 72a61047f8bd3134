"""Public data sets, read from a folder: many may not be passed on, so none is shipped."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.errors import DataError, OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ratings = NDArray[np.int64]
    """User, movie and rating of each line, (n, 3)."""

_MOVIELENS = "Get the set from https://grouplens.org/datasets/movielens/ and name the folder it is unpacked in."
_LASTFM = "Get the set from https://grouplens.org/datasets/hetrec-2011/ and name the folder it is unpacked in."
_FLICKR = "It is the attributed network of Huang, Li and Hu (2017), https://github.com/xhuang31/LANE."
_FACES = "They are pose 27 of CMU PIE (Sim et al., 2003), `images` of people × lightings × 32 × 32 in one .npz file."
_GENES = (
    "They are of Pollack et al. (2002), PNAS 99(20): log ratios `ge` and `cn` (gene × sample, NaN where missing), "
    "names `symbol` and `samples`, positions `chr` and `start_hg38`, gathered in one .npz file."
)
Side = Literal["relations", "covariates"]
_SPLITS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")
_AGES = (1, 18, 25, 35, 45, 50, 56, np.inf)
"""The age groups of MovieLens 1M, by which the users of 100K are grouped too."""


def find_data_folder() -> Path | None:
    """Return the folder that GCMF_DATA names, else `../shared/data` beside the project; None when absent."""
    # src/gcmf/datasets/public.py: the project is four folders up.
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    folder = Path(os.environ.get("GCMF_DATA") or beside)
    return folder if folder.is_dir() else None


def load_movielens_1m(
    folder: str | Path, *, train_size: float = 0.9, random_state: int = 0, side: Side = "relations"
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
    side : {"relations", "covariates"}
        Whether traits and genres are relations of their own, or covariates of users and movies.
    """
    ratings_path, users_path, movies_path = _paths(folder, "ratings.dat", "users.dat", "movies.dat", source=_MOVIELENS)
    # One character as separator reads many times faster; of `1::48::5` every second column is then empty.
    ratings = pd.read_csv(ratings_path, sep=":", header=None, usecols=[0, 2, 4], dtype=np.int64).to_numpy()
    users = pd.read_csv(users_path, sep=":", header=None, usecols=[0, 2, 4, 6], index_col=0)
    users.columns = pd.Index(["gender", "age", "occupation"])
    lines = [line.split("::") for line in movies_path.read_text("latin-1").splitlines()]
    genres = pd.Series({int(number): kinds for number, _, kinds in lines}).str.get_dummies("|")
    order = np.random.default_rng(random_state).permutation(len(ratings))
    cut = round(train_size * len(ratings))
    return _movielens(ratings[order[:cut]], ratings[order[cut:]], users, genres, side=side)


def load_movielens_100k(
    folder: str | Path, *, split: str = "u1", side: Side = "relations"
) -> tuple[Collection, Collection]:
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
    side : {"relations", "covariates"}
        Whether traits and genres are relations of their own, or covariates of users and movies.
    """
    if split not in _SPLITS:
        msg = f"The splits of MovieLens 100K are {', '.join(_SPLITS)}, not {split!r}."
        raise OptionError(msg)
    names = ("u.user", "u.item", "u.genre", f"{split}.base", f"{split}.test")
    users_path, items_path, genres_path, *rating_paths = _paths(folder, *names, source=_MOVIELENS)
    train, test = (
        pd.read_csv(path, sep="\t", header=None, usecols=[0, 1, 2], dtype=np.int64).to_numpy() for path in rating_paths
    )
    users = pd.read_csv(users_path, sep="|", header=None, usecols=range(4), index_col=0)
    users.columns = pd.Index(["age", "gender", "occupation"])
    kinds = pd.read_csv(genres_path, sep="|", header=None)[0].tolist()
    items = pd.read_csv(items_path, sep="|", header=None, encoding="latin-1", index_col=0)
    genres = items[items.columns[-len(kinds) :]].set_axis(kinds, axis=1).drop(columns="unknown")
    return _movielens(train, test, users, genres, side=side)


def _movielens(
    train: Ratings, test: Ratings, users: pd.DataFrame, genres: pd.DataFrame, *, side: Side
) -> tuple[Collection, Collection]:
    """Build both parts over the same ids."""
    if side not in get_args(Side):
        msg = f"side= must be one of {', '.join(get_args(Side))}, not {side!r}."
        raise OptionError(msg)
    traits = users[["gender", "age", "occupation"]]
    traits = traits.assign(age=pd.cut(users["age"], _AGES, right=False, labels=_AGES[:-1]))
    known = genres[genres.any(axis=1)]
    ids: dict[str, Any] = {"user": users.index, "movie": np.union1d(genres.index, np.concatenate([train, test])[:, 1])}
    ratings, held_out = (Relation("ratings", "user", "movie", tuple(part.T)) for part in (train, test))
    if side == "covariates":
        tables = {"user": traits.astype(str), "movie": known.astype(bool).reindex(ids["movie"])}
        return Collection([ratings], entities=tables), Collection([held_out], entities=ids)
    relations = [
        ratings,
        Relation("traits", "user", "trait", pd.get_dummies(traits, columns=[*traits], dtype=np.uint8), "bernoulli"),
        Relation("genres", "movie", "genre", known, "bernoulli"),
    ]
    return Collection(relations, entities=ids), Collection([held_out], entities=ids)


def load_lastfm(folder: str | Path) -> Collection:
    """Return the play counts of Last.fm: `plays` (user × artist, Poisson), observed where there is a count.

    Nobody is known not to have heard an artist, so no zero is observed. Counts reach 352,698.

    Parameters
    ----------
    folder : path
        Where `user_artists.dat` lies.
    """
    [path] = _paths(folder, "user_artists.dat", source=_LASTFM)
    plays = pd.read_csv(path, sep="\t")
    triplets = (plays["userID"], plays["artistID"], plays["weight"])
    return Collection([Relation("plays", "user", "artist", triplets, "poisson")])


class Flickr(NamedTuple):
    """Links and tags of the same users, as sparse matrices whose blanks are zeros."""

    links: Any
    """User × user, 1 where two users are linked (scipy CSR); symmetric, nobody is linked with themselves."""
    tags: Any
    """User × tag, 1 where the user has the tag (scipy CSR)."""


def load_flickr(folder: str | Path) -> Flickr:
    """Return 239,738 links among 7,575 users of Flickr, and which of 12,047 tags they use.

    Parameters
    ----------
    folder : path
        Where `Flickr.mat` lies.
    """
    from scipy.io import loadmat  # noqa: PLC0415 - slow to import, and few need it

    [path] = _paths(folder, "Flickr.mat", source=_FLICKR)
    content = loadmat(path)
    links, tags = (content[name].tocsr() for name in ("Network", "Attributes"))
    return Flickr((links != 0).astype("float64"), (tags != 0).astype("float64"))


def load_faces(folder: str | Path) -> NDArray[np.float64]:
    """Return the gray values, 0 to 1, of 68 people × 42 lightings × 32 × 32 pixels, all in the same pose.

    Lightings 0 to 20 are one flash each, from the left of the face to its right; 21 to 41 are the same
    flashes with the room lights on.

    Parameters
    ----------
    folder : path
        Where `pie_pose27.npz` lies.
    """
    [path] = _paths(folder, "pie_pose27.npz", source=_FACES)
    with np.load(path) as file:
        return np.asarray(file["images"], dtype=np.float64) / 255.0


@dataclass(frozen=True, eq=False)
class Genes:
    """Two views of the same genes in the same samples, and where the genes lie."""

    expression: NDArray[np.float64]
    """Log ratios, samples × genes; NaN where missing."""
    copy_number: NDArray[np.float64]
    """Log ratios, samples × genes; NaN where missing."""
    chromosome: NDArray[np.str_]
    """"1" to "22", "X", by gene."""
    start: NDArray[np.float64]
    """First base pair on the chromosome (genome build hg38), by gene."""
    symbols: NDArray[np.str_]
    samples: NDArray[np.str_]

    def take(self, genes: NDArray[np.int64]) -> Genes:
        """Return only some of the genes, by number."""
        return replace(
            self,
            expression=self.expression[:, genes],
            copy_number=self.copy_number[:, genes],
            chromosome=self.chromosome[genes],
            start=self.start[genes],
            symbols=self.symbols[genes],
        )


def load_pollack2002(folder: str | Path) -> Genes:
    """Return 4,287 genes in 41 breast tumors and cell lines, ordered along the genome.

    Parameters
    ----------
    folder : path
        Where `pollack4287.npz` lies.
    """
    [path] = _paths(folder, "pollack4287.npz", source=_GENES)
    with np.load(path) as file:
        return Genes(
            expression=file["ge"].T.astype(np.float64),
            copy_number=file["cn"].T.astype(np.float64),
            chromosome=file["chr"],
            start=file["start_hg38"],
            symbols=file["symbol"],
            samples=file["samples"],
        )


def _paths(folder: str | Path, *names: str, source: str) -> list[Path]:
    """Return the paths of these files; when some are not there, `source` says where they come from."""
    paths = [Path(folder) / name for name in names]
    absent = [path.name for path in paths if not path.is_file()]
    if absent:
        msg = f"{folder} does not hold {', '.join(absent)}. {source}"
        raise DataError(msg)
    return paths
