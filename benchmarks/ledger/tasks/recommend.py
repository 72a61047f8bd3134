"""Who rates, plays, links and tags what: MovieLens, Last.fm, Flickr."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.ledger.tasks.base import Task, folder, pairs, problem, sizes_of, target, tenth
from benchmarks.problem import Table, Triplets
from gcmf import datasets
from reproduction.recommenders_data import flickr as most_linked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import gcmf
    from benchmarks.problem import Problem

USERS, TAGS = 1_000, 500
"""Of Flickr: the users with the most links, and the tags that most of these use."""
LISTENERS = {"plays": 5, "listens": 20}
"""Of Last.fm: artists with at least so many listeners."""
N_TAGS = 100
"""Of Last.fm: the tags given most often."""


def movielens_100k(split: int) -> Problem:
    """Its own splits u1 to u5: a fifth each of u.data, line by line (u1 as given is the first of these)."""
    where = folder("ml-100k")
    train, _ = datasets.load_movielens_100k(where)
    lines = pd.read_csv(where / "u.data", sep="\t", header=None, usecols=[0, 1, 2], dtype=np.int64).to_numpy()
    test = np.arange(len(lines)) // (len(lines) // 5) == split % 5
    users, movies = (np.asarray(train.entities[name].ids).astype(np.int64) for name in ("user", "movie"))
    i, j = (_places(ids, lines[:, at]) for at, ids in enumerate((users, movies)))
    parts = [Triplets(i[own], j[own], lines[own, 2].astype(np.float32)) for own in (~test, test)]
    return _movielens(train, *parts)


def movielens_1m(split: int) -> Problem:
    """A tenth of the ratings, at random."""
    train, test = datasets.load_movielens_1m(folder("ml-1m"), random_state=split)
    return _movielens(train, *(Triplets(*part.relations["ratings"].cells.triplets()) for part in (train, test)))


def _movielens(data: gcmf.Collection, train: Triplets, test: Triplets) -> Problem:
    tables = [Table("ratings", "user", "movie", "gaussian", train, test)]
    for name in ("traits", "genres"):
        own = data.relations[name]
        tables.append(Table(name, own.rows, own.cols, "bernoulli", Triplets(*own.cells.triplets())))
    return problem("movielens", tables, sizes_of(data), clip=(1.0, 5.0))


def _places(ids: NDArray[np.int64], given: NDArray[np.int64]) -> NDArray[np.int32]:
    order = np.argsort(ids)
    return order[np.searchsorted(ids[order], given)].astype(np.int32)


def lastfm_plays(split: int) -> Problem:
    """How often, of who has played an artist at all; a tenth at random."""
    plays, tags = _lastfm(LISTENERS["plays"])
    i, j = plays["user"].to_numpy(np.int32), plays["artist"].to_numpy(np.int32)
    out = np.random.default_rng(split).random(len(plays)) < 0.1
    parts = [Triplets(i[own], j[own], plays["weight"].to_numpy(np.float64)[own]) for own in (~out, out)]
    main = Table("plays", "user", "artist", "poisson", *parts)
    sizes = {"user": int(i.max()) + 1, "artist": int(j.max()) + 1, "tag": N_TAGS}
    return problem("lastfm", [main, _tagged(tags)], sizes)


def lastfm_listens(split: int) -> Problem:
    """Whether anybody has played an artist, of all users and artists; a tenth of all cells at random."""
    plays, tags = _lastfm(LISTENERS["listens"])
    x = np.zeros((plays["user"].max() + 1, plays["artist"].max() + 1), np.float32)
    x[plays["user"], plays["artist"]] = 1.0
    main = target("listens", "user", "artist", "bernoulli", x, tenth(x, split))
    return problem("lastfm", [main, _tagged(tags)], {"user": x.shape[0], "artist": x.shape[1], "tag": N_TAGS})


def _lastfm(least: int) -> tuple[pd.DataFrame, NDArray[np.uint8]]:
    """Plays of artists with enough listeners, numbered from 0, and which of the most used tags each artist has."""
    where = folder("lastfm")
    plays = pd.read_csv(where / "user_artists.dat", sep="\t")
    listeners = plays.groupby("artistID")["userID"].transform("size")
    plays = plays[listeners >= least]
    artists = np.unique(plays["artistID"])
    given = pd.read_csv(where / "user_taggedartists.dat", sep="\t")
    given = given[given["artistID"].isin(artists)]
    top = given["tagID"].value_counts(sort=True).sort_index().nlargest(N_TAGS).index
    given = given[given["tagID"].isin(top)]
    tags = np.zeros((len(artists), N_TAGS), np.uint8)
    tags[np.searchsorted(artists, given["artistID"]), top.get_indexer(given["tagID"])] = 1
    user, artist = (pd.factorize(plays[name], sort=True)[0] for name in ("userID", "artistID"))
    return plays.assign(user=user, artist=artist), tags


def _tagged(tags: NDArray[np.uint8]) -> Table:
    return Table("tagged", "artist", "tag", "bernoulli", tags)


def flickr(split: int, *, tested: str) -> Problem:
    """Links and tags of the most linked users; of links a pair is hidden both ways."""
    data = most_linked(datasets.load_flickr(folder("flickr")), USERS, TAGS)
    links, tags = (np.asarray(one.todense(), np.uint8) for one in data)
    sizes = {"follower": len(links), "followed": len(links), "tag": tags.shape[1]}
    if tested == "tags":
        main = target("tags", "follower", "tag", "bernoulli", tags, tenth(tags, split))
        return problem("flickr", [main, _links(links)], sizes)
    main = target("links", "follower", "followed", "bernoulli", *pairs(links, split))
    sides = [Table(f"tags of {end}", end, "tag", "bernoulli", tags) for end in ("follower", "followed")]
    return problem("flickr", [main, *sides], sizes)


def _links(links: NDArray[Any]) -> Table:
    return Table("links", "follower", "followed", "bernoulli", links)


_FLICKR = f"of the {USERS:,} most linked users and their {TAGS} most used tags"
TASKS = (
    Task("ml-100k", "MovieLens 100K, splits u1 to u5, with traits and genres", "gaussian", movielens_100k, "ml-100k",
         quick=True),
    Task("ml-1m", "MovieLens 1M, 10% held out, with traits and genres", "gaussian", movielens_1m, "ml-1m"),
    Task("lastfm-plays", f"Last.fm, plays as counts, artists with {LISTENERS['plays']} listeners or more, 10% held "
         f"out, with the {N_TAGS} most used tags of artists", "poisson", lastfm_plays, "lastfm"),
    Task("lastfm-listens", f"Last.fm, heard or not, artists with {LISTENERS['listens']} listeners or more, 10% of all "
         f"cells held out, with the {N_TAGS} most used tags of artists", "bernoulli", lastfm_listens, "lastfm"),
    Task("flickr-links", f"Flickr, links {_FLICKR}, 10% of all pairs held out, with tags of both ends", "bernoulli",
         partial(flickr, tested="links"), "flickr"),
    Task("flickr-tags", f"Flickr, tags {_FLICKR}, 10% of all cells held out, with links", "bernoulli",
         partial(flickr, tested="tags"), "flickr"),
)  # fmt: skip
