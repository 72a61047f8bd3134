"""What is hidden, also of relations that are too large to be listed."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import gcmf
from gcmf.io import evaluate as holdout
from gcmf.io.evaluate import evaluate, hidden_folds, hide, score


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
    # Not the seed of the folds: the same draw would hide all ones and nothing else.
    data = gcmf.Collection([filled(10, 20, seed=1), other])
    table = evaluate(data, {"n_factors": 2, "max_iter": 3}, relations=["links"], n_folds=2)
    assert table["method"].tolist() == ["gCMF", "CMF", "alone", "biases only"]
    assert (table["hidden"] == min(most, 50)).all()
    assert set(table["measure"]) == {"log_loss"}
    assert table["error"].between(0, 1).all()


def kinds(n=20, rare=0.3):
    """A relation of each kind, and a model of them."""
    rng = np.random.default_rng(5)
    u, v = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    theta = u @ v.T
    ones = rng.random((n, n)) < rare * 2 / (1 + np.exp(-2 * theta))
    data = gcmf.Collection([
        gcmf.Relation("numbers", "a", "b", theta + 0.1 * rng.normal(size=(n, n))),
        gcmf.Relation("ones", "a", "c", ones.astype(float), "bernoulli"),
        gcmf.Relation("counts", "a", "d", rng.poisson(np.exp(0.5 * theta)).astype(float), "poisson"),
    ])  # fmt: skip
    train, test = hide(data, 0.3, seed=1)
    return gcmf.GCMF(4, max_iter=10_000, tol=1e-4, random_state=0, progress=False).fit(train), test


def cells_of(model, test, name):
    own = test.relations[name]
    i, j, x = own.cells.triplets()
    return x, model.predict(name, test.entities[own.rows].ids[i], test.entities[own.cols].ids[j])


def test_every_kind_of_cell_has_its_own_measures():
    model, test = kinds()
    scores = score(model, test)
    assert {name: list(own) for name, own in scores.items()} == {
        "numbers": ["rmse"], "ones": ["log_loss", "auc"], "counts": ["negative_log_likelihood"]
    }  # fmt: skip
    x, p = cells_of(model, test, "ones")
    assert scores["ones"]["log_loss"] == pytest.approx(log_loss(x, p), rel=1e-6)
    assert scores["ones"]["auc"] == pytest.approx(roc_auc_score(x, p))
    x, mean = cells_of(model, test, "numbers")
    assert scores["numbers"]["rmse"] == pytest.approx(np.sqrt(np.mean((x - mean) ** 2)))
    table = model.score(test)
    assert scores["counts"]["negative_log_likelihood"] == pytest.approx(-table.loc["counts", "log_likelihood"])


def test_rare_ones_are_judged_by_average_precision_too(monkeypatch):
    model, test = kinds(rare=0.03)
    x, p = cells_of(model, test, "ones")
    assert 0 < x.mean() < holdout.RARE
    monkeypatch.setattr(holdout, "_CHUNK", 50)
    assert score(model, test)["ones"]["average_precision"] == pytest.approx(average_precision_score(x, p))


def test_hidden_cells_that_are_all_zeros_have_no_area():
    data = gcmf.Collection([gcmf.Relation("ones", "a", "b", np.eye(4), "bernoulli")])
    model = gcmf.GCMF(1, random_state=0, progress=False).fit(data)
    zeros = gcmf.Collection([gcmf.Relation("ones", "a", "b", ([0, 1], [1, 2], [0.0, 0.0]), "bernoulli")])
    scores = score(model, zeros)["ones"]
    assert np.isnan(scores["auc"])
    assert list(scores) == ["log_loss", "auc"]


def test_an_interrupted_fit_ends_the_comparison():
    data = gcmf.Collection([filled(10, 20)])
    with pytest.raises(KeyboardInterrupt):
        evaluate(data, {"n_factors": 2, "max_iter": 3, "callbacks": [lambda info: True]}, n_folds=2)


def test_parts_of_a_collection_keep_ids_and_holes():
    data = gcmf.Collection([filled(10, 20), gcmf.Relation("more", "a", "c", np.ones((10, 3)))])
    train, _ = hide(data, 0.3, seed=0)
    part = train.select(["links"])
    assert list(part.entities) == ["a", "b"]
    assert part.relations["links"].cells is train.relations["links"].cells


# --- cells that belong together -----------------------------------------------------------------------------


def test_both_directions_of_a_network_are_hidden():
    rng = np.random.default_rng(0)
    x = np.triu(rng.random((40, 40)) < 0.3, 1).astype(float)
    x = x + x.T
    np.fill_diagonal(x, np.nan)
    data = gcmf.Collection([gcmf.Relation("friends", "p", "p", x, "bernoulli", symmetric=True)])
    for train, test in (hide(data, 0.2, seed=0), *hidden_folds(data, "friends", 3, seed=0)):
        (i, j, _), (k, m, _) = (part.relations["friends"].cells.triplets() for part in (train, test))
        assert not {*zip(j.tolist(), i.tolist(), strict=True)} & {*zip(k.tolist(), m.tolist(), strict=True)}


def test_a_large_network_is_hidden_without_being_listed(monkeypatch):
    monkeypatch.setattr(holdout, "MOST", 1000)
    x = sparse.coo_array((np.ones(3), ([0, 5, 9], [1, 7, 20_000])), shape=(20_001, 20_001))
    data = gcmf.Collection([gcmf.Relation("r", "p", "p", x, "bernoulli", blanks="zero", symmetric=True)])
    train, test = hide(data, 0.2, seed=0)
    assert (test.n_cells, train.n_cells) == (1000, data.n_cells - 1000)
    first, second = (test for _, test in hidden_folds(data, "r", 2, seed=0))
    assert first.n_cells == second.n_cells == 1000


def test_repeated_relations_do_not_show_what_is_hidden():
    rng = np.random.default_rng(0)
    seen = rng.random((30, 20)) < 0.5
    parts = [np.where(seen, rng.normal(size=seen.shape), np.nan) for _ in range(2)]
    data = gcmf.Collection([gcmf.Relation("food", "a", "b", parts[0]), gcmf.Relation("service", "a", "b", parts[1])])
    for train, test in (hide(data, 0.2, seed=0), *hidden_folds(data, "food", 3, seed=0)):
        left = {name: own.n_cells for name, own in train.relations.items()}
        assert left["food"] == left["service"] == seen.sum() - test.relations["food"].n_cells


@pytest.fixture(scope="module")
def random_category():
    """A category that nothing tells of, beside numbers that are noise."""
    rng = np.random.default_rng(0)
    x, noise = np.eye(3)[rng.integers(0, 3, 300)], rng.normal(size=(300, 20))

    def collection(status):
        return gcmf.Collection([
            gcmf.Relation("status", "drug", "level", status, "bernoulli"),
            gcmf.Relation("x", "drug", "test", noise),
        ])  # fmt: skip

    return x, collection


def test_a_random_category_is_not_predicted_and_nothing_of_it_is_explained(random_category):
    x, collection = random_category
    train, test = hide(collection(x), 0.5, seed=0)
    model = gcmf.GCMF(random_state=0, progress=False).fit(train)
    assert score(model, test)["status"]["auc"] == pytest.approx(0.5, abs=0.1)
    explained = model.variance_explained().loc["status"]
    assert explained["total"] == pytest.approx(0.0, abs=0.02)
    assert explained["bias"] == pytest.approx(0.0, abs=0.02)


def test_a_category_that_others_tell_of_is_explained(random_category):
    x, _ = random_category
    rng = np.random.default_rng(1)
    known = x @ (3.0 * rng.normal(size=(3, 20))) + rng.normal(size=(300, 20))
    data = [gcmf.Relation("status", "drug", "level", x, "bernoulli"), gcmf.Relation("x", "drug", "test", known)]
    train, test = hide(gcmf.Collection(data), 0.1, seed=0)
    model = gcmf.GCMF(random_state=0, progress=False).fit(train)
    assert score(model, test)["status"]["auc"] > 0.95
    assert model.variance_explained().loc["status", "total"] > 0.5


def test_a_category_that_is_hidden_in_part_is_warned_of(random_category):
    x, collection = random_category
    hidden = np.random.default_rng(0).random(x.shape) < 0.1
    rows = (hidden.any(axis=1) & ~hidden.all(axis=1)).sum()
    with pytest.warns(gcmf.errors.ModelWarning, match=rf"predict each other, .*'status' \({rows} rows\)\..* hide all"):
        model = gcmf.GCMF(random_state=0, progress=False).fit(collection(np.where(hidden, np.nan, x)))
    assert model.variance_explained().loc["status", "total"] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_categories_of_a_table_of_features_are_hidden_as_one_cell(tmp_path, missing, on_disk):
    """Also beside booleans, and where some are not known."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": range(50), "city": rng.choice(["Rome", "Oslo", "Bern"], 50)})
    people["job"], people["old"] = rng.choice(["cook", "clerk"], 50), rng.integers(0, 2, 50)
    if missing:
        people.loc[[3, 8], "city"] = None
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "gcmf.toml").write_text(
        '[features.people]\nsource = "people.csv"\nrows = "person"\nrow = "id"\ncategories = ["city", "job"]\n'
        'booleans = ["old"]\n'
    )
    data = gcmf.read_project(tmp_path, folder=tmp_path / "cells" if on_disk else None).collection
    relation = data.relations["people_traits"]
    names = data.entities["people_trait"].ids
    assert [names[k] for k in relation.lead] == ["old", *["city=Bern"] * 3, *["job=clerk"] * 2]
    train, test = hide(data, 0.3, seed=0)
    cells = [part.relations["people_traits"].cells.triplets() for part in (train, test)]
    seen, hidden = ({(a, relation.lead[b]) for a, b in zip(i, j, strict=True)} for i, j, _ in cells)
    assert not seen & hidden
    assert len(hidden) == round(0.3 * (148 if missing else 150))
