"""Recommendations, neighbors and an approximate index, against what predictions say."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gcmf
from gcmf.errors import DataError, MissingExtraError, ModelWarning, OptionError, UnknownIdError
from gcmf.model import ranking
from gcmf.model.predict import theta_pairs


def ratings(seed=0, shape=(40, 30), observed=0.4):
    rng = np.random.default_rng(seed)
    u, v = (rng.normal(size=(n, 2)) for n in shape)
    x = 3 + u @ v.T + 0.3 * rng.normal(size=shape) + rng.normal(size=shape[1])
    x[rng.random(shape) >= observed] = np.nan
    return pd.DataFrame(x, index=[f"u{i}" for i in range(shape[0])], columns=[f"m{j}" for j in range(shape[1])])


@pytest.fixture(scope="module", params=["float32", "float64"])
def rated(request):
    table = ratings()
    likes = (table > 3).astype(float).where(table.notna())
    data = gcmf.Collection([
        gcmf.Relation("ratings", "user", "movie", table),
        gcmf.Relation("likes", "user", "movie", likes, "bernoulli"),
        gcmf.Relation("plays", "user", "movie", np.round(np.exp(table / 4)), "poisson"),
        gcmf.Relation("counts", "user", "movie", np.round(np.exp(table / 4)), "negative_binomial"),
    ])  # fmt: skip
    options = {"dtype": request.param, "random_state": 0, "progress": False, "tol": 1e-3}
    return gcmf.GCMF(3, **options).fit(data), data, table


def best(model, name, table, n, *, seen=True):
    """The same by hand."""
    mean, std = model.predict(name, return_std=True)
    rows = []
    for i, user in enumerate(table.index):
        left = np.flatnonzero(table.iloc[i].isna() | (not seen))
        top = left[np.argsort(-mean[i, left], kind="stable")][:n]
        rows += [(user, rank + 1, table.columns[j], mean[i, j], std[i, j]) for rank, j in enumerate(top)]
    return pd.DataFrame(rows, columns=["id", "rank", "item", "score", "std"])


@pytest.mark.parametrize("name", ["ratings", "likes", "plays", "counts"])
def test_the_best_are_those_with_the_highest_predictions(rated, name, monkeypatch):
    model, data, table = rated
    monkeypatch.setattr(ranking, "BLOCK", 100)  # three users at a time
    for seen in (True, False):
        found = model.recommend(name, n=4, exclude_seen=seen)
        pd.testing.assert_frame_equal(found, best(model, name, table, 4, seen=seen), rtol=1e-9)
    pd.testing.assert_frame_equal(model.recommend(name, n=4, seen=data), best(model, name, table, 4), rtol=1e-9)


def test_some_ids_some_candidates_and_few_that_are_left(rated):
    model, _, table = rated
    found = model.recommend("ratings", ["u5", "u1"], n=99, candidates=["m3", "m9", "m4"])
    assert [*dict.fromkeys(found["id"])] == ["u5", "u1"]
    for user, part in found.groupby("id"):
        assert set(part["item"]) == {m for m in ("m3", "m9", "m4") if np.isnan(table.loc[user, m])}
        assert (np.diff(part["score"]) <= 0).all()
        assert [*part["rank"]] == [*range(1, len(part) + 1)]


def test_rows_are_recommended_to_columns(rated):
    model, _, table = rated
    found = model.recommend("ratings", ["m2"], n=3, to="cols")
    mean = pd.Series(model.predict("ratings", None, "m2")[:, 0], index=table.index)
    assert [*found["item"]] == [*mean[table["m2"].isna()].nlargest(3).index]


@pytest.mark.parametrize(("by", "sign"), [("lower", -1), ("upper", 1)])
def test_bounds_are_deviations_of_the_predictor(rated, by, sign):
    model, _, _ = rated
    found = model.recommend("ratings", ["u0"], n=30, exclude_seen=False, by=by)
    fitted = model.fitted_
    j = fitted.vocabularies["movie"].index(found["item"])
    theta, var = theta_pairs(fitted, 0, np.zeros(30, np.int64), j)
    expected = fitted.center[0] + fitted.scale[0] * (theta + sign * ranking.TENTH * np.sqrt(var))
    assert found["score"].to_numpy() == pytest.approx(expected, rel=1e-9)
    assert (np.diff(found["score"]) <= 0).all()
    chances = model.recommend("likes", n=5, by=by)["score"]
    assert ((chances > 0) & (chances < 1)).all()


def test_the_lower_bound_ranks_who_is_little_known_below_who_is_well_known():
    """Two movies of the same mean, one with 3 ratings and one with all; and which is first by the upper bound."""
    rng = np.random.default_rng(1)
    x = 3 + 0.5 * rng.normal(size=(60, 12))
    known, little = 0, 1
    x[:, known] = 4.52 + np.tile([-0.3, 0.3], 30)
    x[:, little] = np.nan
    x[:4, little] = 4.6, 4.9, 4.6, 4.9  # shrunk to about the same mean
    model = gcmf.GCMF(1, random_state=0).fit({("user", "movie", "r"): x})
    with pytest.warns(ModelWarning, match="no factor"):
        ranks = {
            by: model.recommend("r", [9], n=12, exclude_seen=False, by=by).set_index("item")
            for by in ("lower", "upper")
        }
    mean = model.predict("r", [9, 9], [known, little])
    assert abs(mean[0] - mean[1]) < 0.1  # 0.05
    assert ranks["lower"].loc[known, "rank"] < ranks["lower"].loc[little, "rank"]
    assert ranks["upper"].loc[known, "rank"] > ranks["upper"].loc[little, "rank"]


def test_draws_have_the_spread_of_the_posterior(rated):
    model, _, _ = rated
    fitted = model.fitted_
    draws = np.stack([
        model.recommend("ratings", ["u3"], n=30, exclude_seen=False, by="sample", random_state=seed)
        .set_index("item")["score"].sort_index().to_numpy() for seed in range(400)
    ])  # fmt: skip
    items = fitted.vocabularies["movie"].index(sorted(fitted.vocabularies["movie"].ids))
    theta, var = theta_pairs(fitted, 0, np.full(30, 3), items)
    mean, std = fitted.center[0] + fitted.scale[0] * theta, fitted.scale[0] * np.sqrt(var)
    away = (draws.mean(axis=0) - mean) / std * np.sqrt(400)
    assert np.abs(away).max() < 4.0  # 1.9
    assert np.abs(draws.std(axis=0) / std - 1.0).max() < 0.2  # 0.094: the largest of 30, each with a deviation of 0.035
    again = [model.recommend("ratings", ["u3"], by="sample", random_state=1) for _ in range(2)]
    pd.testing.assert_frame_equal(*again)


def test_a_draw_is_of_one_entity_on_both_sides():
    """In a symmetric network θ_ij = θ_ji, drawn or not; scales are drawn too."""
    rng = np.random.default_rng(2)
    u = rng.normal(size=(14, 2))
    net = u @ np.diag([1.0, -1.0]) @ u.T + 0.2 * rng.normal(size=(14, 14))
    model = gcmf.GCMF(3, random_state=0, tol=1e-4).fit(
        gcmf.Relation("net", "user", "user", (net + net.T) / 2, symmetric=True)
    )
    found = model.recommend("net", n=13, exclude_seen=False, by="sample", random_state=0)
    table = found.pivot_table(index="id", columns="item", values="score").to_numpy()
    assert np.isnan(np.diag(table)).all()
    assert table[~np.eye(14, dtype=bool)] == pytest.approx(table.T[~np.eye(14, dtype=bool)], abs=1e-5)
    assert len(model.recommend("net")) == 0  # all have met


def test_what_was_seen_must_be_known(rated):
    model, data, table = rated
    bare = gcmf.GCMF(keep="nothing", random_state=0, tol=1e-2).fit(data.select(["ratings"]))
    assert bare.fitted_.pairs is None
    with pytest.raises(OptionError, match=r"seen=data.*keep='pairs'.*exclude_seen=False"):
        bare.recommend("ratings")
    turned = gcmf.Relation("ratings", "movie", "user", table.T)
    found = bare.recommend("ratings", n=3, seen=turned)
    pd.testing.assert_frame_equal(found, bare.recommend("ratings", n=3, seen=data))
    with pytest.raises(DataError, match="no relation 'ratings'"):
        bare.recommend("ratings", seen=data.select(["likes"]))
    with pytest.raises(UnknownIdError, match="never seen user 'x'"):
        model.recommend("ratings", ["x"])
    with pytest.raises(OptionError, match="'by' parameter must be one of"):
        model.recommend("ratings", by="best")
    with pytest.raises(OptionError, match="'n' parameter"):
        model.recommend("ratings", n=0)


def test_pairs_are_kept_where_they_are_few(rated, monkeypatch):
    model, data, _ = rated
    monkeypatch.setattr("gcmf.model.fitted.MANY", 10)
    options = {"random_state": 0, "tol": 1e-2}
    assert gcmf.GCMF(**options).fit(data.select(["ratings"])).fitted_.pairs is None
    assert gcmf.GCMF(keep="pairs", **options).fit(data.select(["ratings"])).fitted_.pairs is not None
    assert model.fitted_.pairs[0].code.nbytes < 1200


def test_alike_are_those_that_predict_alike():
    """Twins have the same tastes; the third differs in what moves predictions, the fourth in what hardly does."""
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(30, 2)), rng.normal(size=(40, 2)) * [1.0, 0.15]
    u[0], u[1], u[2], u[3] = (1, 1), (1, 1), (-1, 1), (1, -1)
    x = u @ v.T + 0.1 * rng.normal(size=(30, 40)) + 2 * rng.normal(size=(30, 1))
    model = gcmf.GCMF(2, random_state=0).fit({("user", "movie", "r"): x})
    found = model.similar("user", [0], n=29).set_index("item")["score"]
    assert found.max() <= 1.0
    assert found[1] > 0.97
    assert found[3] > 0.85  # 0.96: they differ in what hardly moves predictions
    assert found[2] < -0.85
    assert 0 not in found.index
    # Who has one rating is known badly, and like nobody.
    y = x.copy()
    y[5, 1:] = np.nan
    little = gcmf.GCMF(2, random_state=0).fit({("user", "movie", "r"): y})
    strong, weak = (little.similar("user", [i], n=1)["score"][0] for i in (6, 5))
    assert weak < 0.9 < strong
    narrow = model.similar("user", [0], n=3, relation="r")
    pd.testing.assert_frame_equal(narrow, model.similar("user", [0], n=3))


def test_answers_are_of_polars_if_the_data_were():
    i, j = (a.ravel() for a in np.indices((8, 6)))
    frame = pl.DataFrame({"user": pl.Series(i, dtype=pl.UInt8), "film": [f"f{n}" for n in j],
                          "x": (i - 3.0) * (j - 2.0) + np.random.default_rng(0).normal(size=48)})[:40]  # fmt: skip
    model = gcmf.GCMF(2, random_state=0, tol=1e-2).fit(
        gcmf.Relation.from_frame("r", frame, rows="user", cols="film", row="user", col="film", value="x")
    )
    found = model.recommend("r", exclude_seen=False, n=2)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == ["id", "rank", "item", "score", "std"]
    assert found["id"].dtype == pl.UInt8
    assert isinstance(model.similar("film", n=2), pl.DataFrame)
    assert model.explain("r", 0, "f1", data=gcmf.Relation.from_frame(
        "r", frame, rows="user", cols="film", row="user", col="film", value="x")).columns[0] == "by"  # fmt: skip


def test_an_approximate_index_finds_the_best(rated):
    if importlib.util.find_spec("usearch") is None:
        with pytest.raises(MissingExtraError, match=r"gcmf\[ann\]"):
            rated[0].to_index("ratings")
        pytest.skip("usearch is not installed")
    model, _, _ = rated
    index = model.to_index("ratings")
    exact, found = model.recommend("ratings", n=5, exclude_seen=False), index.search(None, 5)
    assert len(exact.merge(found, on=["id", "item"])) >= 0.98 * len(exact)
    assert index.queries(["u3", "u1"]).shape == (2, model.fitted_.on.shape[1] + 2)


def test_a_model_without_factors_ranks_by_biases(rated):
    model, _, _ = rated
    bare = replace(
        model.fitted_, mean=tuple(0.0 * a for a in model.fitted_.mean), var=tuple(0.0 * a for a in model.fitted_.var)
    )
    question = ranking.Question(0, np.arange(3), np.arange(30), 2, "mean")
    found = ranking.recommend(bare, question, None, np.random.default_rng(0), 1)
    assert [*found.item[:2]] == [*np.argsort(-bare.bias_mean[1])[:2]]
    assert np.isfinite(ranking.loadings(bare, 0, ranking.metric(bare, 0))).all()


def test_without_factors_it_is_said_that_all_lists_are_the_same():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 20)) + rng.normal(size=20)
    model = gcmf.GCMF(random_state=0).fit({("user", "movie", "r"): x})
    assert not model.fitted_.on.size
    popular = np.argsort(-model.biases("r", "cols").to_numpy())[:3]
    for by in ("mean", "lower", "upper", "sample"):
        with pytest.warns(ModelWarning, match="no factor in 'r': by its biases alone, everybody"):
            found = model.recommend("r", n=3, by=by, exclude_seen=False, random_state=0)
        assert len({tuple(part["item"]) for _, part in found.groupby("id")}) == 1
    with pytest.warns(ModelWarning, match="no factor in 'r'"):
        assert [*model.recommend("r", [4], n=3, exclude_seen=False)["item"]] == [*popular]
    with pytest.raises(DataError, match="no factor of user, by which some would be more alike"):
        model.similar("user", [3], n=2)
    new = model.fold_in("user", {"r": (["ann"], [0], [1.5])})
    with pytest.warns(ModelWarning, match="no factor in 'r'"):
        new.recommend("r", n=2)
    with pytest.raises(DataError, match="no factor of user"):
        new.similar(n=2)


def test_who_has_no_cell_and_relations_without_factors_are_said():
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(30, 1)), rng.normal(size=(12, 1))
    noise = pd.DataFrame(rng.normal(size=(30, 15)), columns=[f"t{j}" for j in range(15)])
    data = gcmf.Collection(
        [
            gcmf.Relation("r", "user", "movie", pd.DataFrame(u @ v.T + 0.2 * rng.normal(size=(30, 12)))),
            gcmf.Relation("noise", "user", "tag", noise),
        ],
        entities={"user": range(32)},
    )
    model = gcmf.GCMF(random_state=0).fit(data)
    assert model.n_factors_active_ == 1
    with pytest.raises(DataError, match="no factor of user in relation 'noise'"):
        model.similar("user", [3], relation="noise")
    with pytest.warns(ModelWarning, match="no factor in 'noise'"):
        model.recommend("noise", [3], n=2, exclude_seen=False)
    with pytest.warns(ModelWarning, match=r"Nothing is known of user 30 \(and 1 more\): all scores are 0"):
        model.similar("user", [3, 30, 31], n=2)
    model.similar("user", [3], n=2)
    model.recommend("r", [3, 30], n=2, exclude_seen=False)
