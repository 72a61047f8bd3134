"""What is hidden, also of relations that are too large to be listed."""

import numpy as np
import pytest
from scipy import sparse

import gcmf
from gcmf.io import holdout
from gcmf.io.evaluate import evaluate
from gcmf.io.holdout import hidden_folds, hide


def filled(n, ones, seed=0):
    rng = np.random.default_rng(seed)
    at = rng.choice(n * n, ones, replace=False)
    x = sparse.coo_array((np.ones(ones), np.divmod(at, n)), shape=(n, n)).tocsr()
    return gcmf.Relation("links", "a", "b", x, "bernoulli", blanks="zero")


def test_ten_billion_cells_are_not_listed():
    data = gcmf.Collection([filled(100_000, 1000)])
    seen = []
    for train, test in hidden_folds(data, "links", 2, seed=0):
        assert test.n_cells == holdout.MOST
        assert train.n_cells == 10**10 - holdout.MOST
        i, j, _ = test.relations["links"].cells.triplets()
        seen.append(i.astype(np.int64) * 100_000 + j)
    assert len(np.intersect1d(*seen)) == 0, "folds share no cell"
    train, test = hide(data, 0.5, seed=0)
    assert (train.n_cells, test.n_cells) == (10**10 - holdout.MOST, holdout.MOST)


def test_small_relations_are_hidden_whole_fold_by_fold():
    data = gcmf.Collection([filled(10, 20)])
    assert [test.n_cells for _, test in hidden_folds(data, "links", 5, seed=0)] == [20] * 5
    train, test = hide(data, 0.3, seed=0)
    assert (train.n_cells, test.n_cells) == (70, 30)


def test_a_relation_without_enough_cells_stays_whole():
    data = gcmf.Collection([filled(10, 20), gcmf.Relation("tiny", "a", "c", ([0], ["x"], [1.0]))])
    _, test = hide(data, 0.3, seed=0)
    assert list(test.relations) == ["links"]


@pytest.mark.parametrize("most", [10, 10**6])
def test_methods_are_compared_on_filled_relations(monkeypatch, most):
    monkeypatch.setattr(holdout, "MOST", most)
    rng = np.random.default_rng(0)
    other = gcmf.Relation("more", "a", "c", rng.normal(size=(10, 3)))
    table = evaluate(gcmf.Collection([filled(10, 20), other]), {"n_factors": 2, "max_iter": 3}, relations=["links"],
                     n_folds=2)  # fmt: skip
    assert table["method"].tolist() == ["gCMF", "CMF", "alone", "biases only"]
    assert (table["hidden"] == min(most, 50)).all()
    assert table["error"].between(0, 1).all()


def test_parts_of_a_collection_keep_ids_and_holes():
    data = gcmf.Collection([filled(10, 20), gcmf.Relation("more", "a", "c", np.ones((10, 3)))])
    train, _ = hide(data, 0.3, seed=0)
    part = train.select(["links"])
    assert list(part.entities) == ["a", "b"]
    assert part.relations["links"].cells is train.relations["links"].cells
