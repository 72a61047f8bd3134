"""The collections of the recommender experiment, and what is hidden from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.datasets import Flickr

    Pairs = NDArray[np.int64]
    """Numbers of two things and whether they are linked, (n, 3)."""

ZEROS = 3
"""Zeros that are sampled for each one."""


def movielens(
    parts: tuple[Collection, Collection], n_users: int | None, *, likelihood: str, rng: np.random.Generator
) -> Collection:
    """Return all ratings of some users, drawn at random, with their traits and the genres of the rated movies."""
    whole = parts[0]
    users = whole.entities["user"].ids
    kept = np.arange(len(users)) if n_users is None else np.sort(rng.permutation(len(users))[:n_users])
    triplets = [part.relations["ratings"].cells.triplets() for part in parts]
    i, j, x = (np.concatenate([one[side] for one in triplets]) for side in range(3))
    mine = np.isin(i, kept)
    ratings = (users[i[mine]], whole.entities["movie"].ids[j[mine]], x[mine])
    return Collection(
        [
            Relation("ratings", "user", "movie", ratings, likelihood),
            _again(whole, "traits", kept),
            _again(whole, "genres", np.unique(j[mine])),
        ]
    )


def _again(whole: Collection, name: str, rows: NDArray[np.int64]) -> Relation:
    """Return a relation with only some of its rows."""
    own = whole.relations[name]
    i, j, x = own.cells.triplets()
    mine = np.isin(i, rows)
    ids = (whole.entities[own.rows].ids[i[mine]], whole.entities[own.cols].ids[j[mine]], x[mine])
    return Relation(name, own.rows, own.cols, ids, "bernoulli")


def flickr(data: Flickr, n_users: int | None, n_tags: int | None) -> Flickr:
    """Return the most linked users, and the tags that most of these use."""
    users = _most(data.links, n_users)
    tags = data.tags[users]
    return data._replace(links=data.links[users][:, users], tags=tags[:, _most(tags, n_tags)])


def _most(matrix: object, n: int | None) -> NDArray[np.int64]:
    """Return the numbers of the n columns with the most ones."""
    counts = np.asarray(matrix.sum(axis=0)).ravel()  # type: ignore[attr-defined]  # scipy has no types
    return np.sort(np.argsort(-counts, kind="stable")[:n])


def hide_links(data: Flickr, split: str, rng: np.random.Generator) -> tuple[Collection, Collection]:
    """Return (train, test): a triangle of followers, followed and tags; the test part holds links alone.

    Links go both ways, so a pair of users is hidden in both directions or in neither. "random": a tenth of the
    pairs. "cold 20%": every pair of a fifth of the users, of which those with the other users are tested.
    """
    n = data.links.shape[0]
    pairs = sample_pairs(data.links, rng, symmetric=True)
    if split == "random":
        tested = rng.random(len(pairs)) < 0.1
        known = ~tested
    else:
        cold = np.isin(np.arange(n), rng.permutation(n)[: n // 5])
        ends = cold[pairs[:, :2]].sum(axis=1)
        known, tested = ends == 0, ends == 1
    tags = tuple(sample_pairs(data.tags, rng, symmetric=False).T)
    sides = [Relation(f"tags of {side}", side, "tag", tags, "bernoulli") for side in ("follower", "followed")]
    ids = {"follower": np.arange(n), "followed": np.arange(n), "tag": np.arange(data.tags.shape[1])}
    train = Collection([_links(pairs[known]), *sides], entities=ids)
    return train, Collection([_links(pairs[tested])], entities={one: ids[one] for one in ("follower", "followed")})


def _links(pairs: Pairs) -> Relation:
    both = np.concatenate([pairs, pairs[:, [1, 0, 2]]])
    return Relation("links", "follower", "followed", tuple(both.T), "bernoulli")


def sample_pairs(matrix: object, rng: np.random.Generator, *, symmetric: bool) -> Pairs:
    """Return every one of a 0/1 matrix, and for each three zeros drawn uniformly from all its zeros.

    Of a symmetric matrix, only what lies above the diagonal.
    """
    coo = matrix.tocoo()  # type: ignore[attr-defined]  # scipy has no types
    height, width = coo.shape
    above = coo.row < coo.col if symmetric else np.ones(coo.nnz, dtype=bool)
    ones = coo.row[above].astype(np.int64) * width + coo.col[above]
    free = (height * (height - 1) // 2 if symmetric else height * width) - len(ones)
    zeros = _draw_zeros(ones, (height, width), rng, size=min(ZEROS * len(ones), free // 2), symmetric=symmetric)
    i, j = np.divmod(np.concatenate([ones, zeros]), width)
    return np.column_stack([i, j, np.repeat([1, 0], [len(ones), len(zeros)])])


def _draw_zeros(
    ones: NDArray[np.int64], shape: tuple[int, int], rng: np.random.Generator, *, size: int, symmetric: bool
) -> NDArray[np.int64]:
    """Draw cells until enough of them are zeros, each at most once."""
    found = np.empty(0, dtype=np.int64)
    while len(found) < size:
        i, j = rng.integers(shape[0], size=size), rng.integers(shape[1], size=size)
        if symmetric:
            i, j = np.minimum(i, j)[i != j], np.maximum(i, j)[i != j]
        found = np.setdiff1d(np.concatenate([found, i * shape[1] + j]), ones)
    return np.sort(rng.permutation(found)[:size])
