from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.datasets import Flickr, find_data_folder, load_flickr
from gcmf.errors import DataError
from reproduction import recommenders as module
from reproduction.base import Progress
from reproduction.real import folder_of
from reproduction.recommenders import PAPER, Settings, claims, medians, run_with
from reproduction.recommenders_data import ZEROS, flickr, hide_links, movielens, sample_pairs

FOLDER = find_data_folder()


def toy_flickr(n=40, tags=15, density=0.1, seed=0):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1)
    return Flickr(
        sparse.csr_array((upper | upper.T).astype(float)), sparse.csr_array((rng.random((n, tags)) < 0.1).astype(float))
    )


def toy_movielens(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 6, size=(20, 12)).astype(float)
    hidden = rng.random(x.shape) < 0.1
    ids = {"user": np.arange(20), "movie": np.arange(12)}
    side = [
        Relation("traits", "user", "trait", rng.integers(0, 2, (20, 4)), "bernoulli"),
        Relation("genres", "movie", "genre", rng.integers(0, 2, (12, 3)), "bernoulli"),
    ]
    train = Relation("ratings", "user", "movie", np.where(hidden, np.nan, x))
    test = Relation("ratings", "user", "movie", np.where(hidden, x, np.nan))
    return Collection([train, *side], entities=ids), Collection([test], entities=ids)


def test_pairs_are_all_ones_and_distinct_zeros():
    data = toy_flickr()
    pairs = sample_pairs(data.links, np.random.default_rng(0), symmetric=True)
    i, j, x = pairs.T
    assert (i < j).all()
    assert len(np.unique(pairs[:, :2], axis=0)) == len(pairs)
    assert np.array_equal(x, data.links.toarray()[i, j])
    assert x.sum() == data.links.nnz // 2
    assert (x == 0).sum() == ZEROS * x.sum()


def test_dense_matrices_give_half_of_their_zeros():
    dense = sparse.csr_array(np.eye(6) == 0)
    pairs = sample_pairs(dense, np.random.default_rng(0), symmetric=False)
    assert (pairs[:, 2] == 0).sum() == 3


@pytest.mark.parametrize("split", ["random", "cold 20%"])
def test_no_hidden_link_is_seen_from_its_other_end(split):
    train, test = hide_links(toy_flickr(), split, np.random.default_rng(0))
    pairs = [set(zip(*part.relations["links"].cells.triplets()[:2], strict=True)) for part in (train, test)]
    assert pairs[0].isdisjoint(pairs[1])
    assert pairs[0].isdisjoint({(j, i) for i, j in pairs[1]})
    assert pairs[1]
    assert set(train.schema.entities) == {"follower", "followed", "tag"}
    if split != "random":
        linked = {end for pair in pairs[0] for end in pair}
        cold = set(range(40)) - linked
        assert len(cold) >= 8
        assert all((i in cold) != (j in cold) for i, j in pairs[1])


def test_the_most_linked_users_and_their_tags():
    data = toy_flickr()
    small = flickr(data, 10, 5)
    assert small.links.shape == (10, 10)
    assert small.tags.shape == (10, 5)
    assert flickr(data, None, None).tags.shape == (40, 15)
    degrees = np.asarray(data.links.sum(axis=0)).ravel()
    assert flickr(data, 1, 15).tags.sum() == data.tags[[int(np.argmax(degrees))]].sum()


def test_some_users_with_all_their_ratings():
    whole = movielens(toy_movielens(), 7, likelihood="poisson", rng=np.random.default_rng(0))
    assert whole.relations["ratings"].n_cells == 7 * 12
    assert whole.relations["traits"].n_cells == 7 * 4
    assert whole.schema.relations[0].likelihood == "poisson"
    everybody = movielens(toy_movielens(), None, likelihood="gaussian", rng=np.random.default_rng(0))
    assert everybody.relations["ratings"].n_cells == 20 * 12


def test_a_run_in_small(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "load_movielens_1m", lambda folder: toy_movielens())
    monkeypatch.setattr(module, "load_flickr", lambda folder: toy_flickr())
    monkeypatch.setattr(module, "folder_of", lambda name: tmp_path)
    outcome = run_with(Settings(15, 30, 10, 1, 2, ("random", "cold 20%"), max_iter=5), Progress(), seed=2)
    table = outcome.table
    assert len(table) == 4 * (2 * 2 + 2)
    assert table.loc[table["data"] == "Flickr", "auc"].between(0, 1).all()
    assert table.loc[table["data"] == "MovieLens 1M", "auc"].isna().all()
    cold = table[(table["split"] == "cold 20%") & (table["data"] == "MovieLens 1M")]
    assert (cold["n_test"] == 3 * 12).all()
    assert len(outcome.claims) == 5
    assert "15 users drawn at random" in outcome.notes[0]


def table_of(ratings, links, seeds=(0, 1)):
    cases = {("MovieLens 1M", "gaussian", "random"): ratings, ("Flickr", "bernoulli", "random"): links}
    return pd.DataFrame([
        {"data": data, "likelihood": kind, "split": split, "seed": seed, "method": method, "bias": bias,
         "rmse": errors[method, bias]}
        for (data, kind, split), errors in cases.items()
        for seed in seeds
        for method, bias in product(("gCMF", "CMF"), (False, True))
    ])  # fmt: skip


def test_the_paper_agrees_with_itself():
    found = claims(table_of(PAPER, dict.fromkeys(PAPER, 0.3)))
    assert [claim.holds for claim in found] == [None, None, True, True, True]
    assert "gaussian, random: 0.000 away" in found[1].ours
    assert "gaussian, random, CMF: -10.4%" in found[2].ours
    assert "gaussian, random, without: -1.4%" in found[3].ours


def test_claims_fail_where_they_do():
    ratings = {**PAPER, ("gCMF", True): 1.06}
    found = claims(table_of(ratings, {**dict.fromkeys(PAPER, 0.3), ("gCMF", False): 0.31}))
    assert [claim.holds for claim in found] == [None, None, False, False, False]


def test_one_repetition_judges_nothing():
    assert [claim.holds for claim in claims(table_of(PAPER, PAPER, seeds=(0,)))] == [None] * 5


def test_harm_that_is_not_clear():
    worse, better = ({**PAPER, ("gCMF", True): error} for error in (0.99, 0.94))
    table = pd.concat([table_of(worse, PAPER, seeds=(0,)), table_of(better, PAPER, seeds=(1,))])
    assert claims(table)[3].verdict == "no clear difference"


def test_medians_are_over_repetitions():
    tables = [table_of(dict.fromkeys(PAPER, error), PAPER) for error in (1.0, 2.0, 9.0)]
    assert medians(pd.concat(tables), "MovieLens 1M") == {("gaussian", "random"): dict.fromkeys(PAPER, 2.0)}


def test_absent_data_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("GCMF_DATA", str(tmp_path))
    with pytest.raises(DataError, match="'ml-1m' is not there: name the folder"):
        folder_of("ml-1m")
    with pytest.raises(DataError, match=r"does not hold Flickr\.mat"):
        load_flickr(tmp_path)


@pytest.mark.data
@pytest.mark.skipif(FOLDER is None, reason="no data folder: set GCMF_DATA to run this")
def test_the_real_links():
    data = load_flickr(FOLDER / "flickr")
    assert (data.links.shape, data.links.nnz, data.tags.shape) == ((7575, 7575), 479_476, (7575, 12_047))
    assert (data.links != data.links.T).nnz == 0
