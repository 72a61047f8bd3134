"""Ids survive from the frame that was brought to the answers of a loaded model, in the same kind of frame."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import gcmf
from gcmf import plot
from gcmf.estimators import tables
from gcmf.io.results import describe, export

N, M = 6, 4
NAMES = ["eva", "bob", "ann", "dan", "cid", "fay"]


def cells(users, items, seed=0):
    """A long table with every pair."""
    rng = np.random.default_rng(seed)
    i, j = np.divmod(np.arange(N * M), M)
    return {"user": users[i], "item": items[j], "x": rng.normal(size=N)[i] * rng.normal(size=M)[j] + 0.1 * i}


def fit(frame, tmp_path):
    """Fit a long table; return the model as it is after saving and loading."""
    rel = gcmf.Relation.from_frame("seen", frame, rows="user", cols="item", row="user", col="item", value="x")
    model = gcmf.GCMF(2, max_iter=20, random_state=0, progress=False, n_threads=1).fit(gcmf.Collection([rel]))
    model.save(tmp_path / "m.gcmf")
    return model, gcmf.load(tmp_path / "m.gcmf")


POLARS = {
    "string": (pl.String, NAMES),
    "int64": (pl.Int64, [9, 1, 7, 2, 30, 4]),
    "int32": (pl.Int32, [9, 1, 7, 2, 30, 4]),
    "uint8": (pl.UInt8, [9, 1, 7, 2, 30, 4]),
    "categorical": (pl.Categorical, NAMES),
    "enum": (pl.Enum([*sorted(NAMES), "unused"]), NAMES),
    "date": (pl.Date, [pd.Timestamp(2020, 1, 1 + n).date() for n in range(N)]),
}


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", POLARS)
def test_polars_ids_survive(tmp_path, kind):
    dtype, ids = POLARS[kind]
    users = pl.Series("user", ids, dtype=dtype)
    made = cells(np.arange(N), np.arange(M))
    frame = pl.DataFrame({"user": users.gather(made["user"]), "item": made["item"], "x": made["x"]})
    for model in fit(frame, tmp_path):
        factors = model.factors("user")
        assert factors.columns[:2] == ["user", "F1"]
        assert factors["user"].dtype == dtype
        assert factors["user"].to_list() == sorted(ids), "a listing says nothing of their order"
        # What polars refuses where the types of the ids differ.
        assert frame.join(factors, on="user").height == N * M
        predicted = model.predict("seen", frame["user"], frame["item"])
        assert isinstance(predicted, pl.Series)
        plain = model.predict("seen", frame["user"].to_list(), frame["item"].to_list())
        assert isinstance(plain, np.ndarray)
        assert predicted.to_list() == plain.tolist()
        assert np.corrcoef(plain, frame["x"])[0, 1] > 0.9


PANDAS = {
    "string": pd.Index(NAMES),
    "integer": pd.Index([9, 1, 7, 2, 30, 4]),
    "categorical": pd.CategoricalIndex(NAMES, categories=[*sorted(NAMES), "unused"], ordered=True),
    "levels": pd.MultiIndex.from_tuples([(c, n) for c in "ab" for n in range(3)], names=["chrom", "start"]),
}


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", PANDAS)
def test_pandas_ids_survive(tmp_path, kind):
    ids = PANDAS[kind]
    x = cells(np.arange(N), np.arange(M))["x"].reshape(N, M)
    wide = pd.DataFrame(x, index=ids)
    model = gcmf.GCMF(2, max_iter=20, random_state=0, progress=False, n_threads=1).fit({("user", "item"): wide})
    model.save(tmp_path / "m.gcmf")
    for one in (model, gcmf.load(tmp_path / "m.gcmf")):
        pd.testing.assert_index_equal(one.factors("user").index, ids)
        pd.testing.assert_index_equal(one.biases("user-item", "rows").index, ids)
        whole = one.predict("user-item", ids, None)
        np.testing.assert_array_equal(whole, one.predict("user-item"))
        assert np.corrcoef(whole.ravel(), wide.to_numpy().ravel())[0, 1] > 0.9
        # A pair is summed in another order than a grid, in float64.
        assert one.predict("user-item", [ids[2]], [1])[0] == pytest.approx(whole[2, 1], rel=1e-12)


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_a_pandas_column_gets_a_column_with_its_index():
    frame = pd.DataFrame(cells(np.array(NAMES), np.arange(M))).sample(frac=1, random_state=0)
    frame["user"] = frame["user"].astype("category")
    rel = gcmf.Relation.from_frame("seen", frame, rows="user", cols="item", row="user", col="item", value="x")
    model = gcmf.GCMF(2, max_iter=20, random_state=0, progress=False).fit(gcmf.Collection([rel]))
    mean, std = model.predict("seen", frame["user"], frame["item"], return_std=True)
    assert mean.index.equals(frame.index)
    assert (mean.name, std.name) == ("seen", "seen_std")
    assert frame.assign(guess=mean)[["guess", "x"]].corr().iloc[0, 1] > 0.9
    assert isinstance(model.predict("seen", frame["user"], frame["item"], grid=True), np.ndarray)
    assert len(model.predict("seen", "ann", frame["item"])) == len(frame)


@pytest.mark.parametrize("kind", [pd.Series, pl.Series])
def test_unknown_ids_of_a_column_are_named(polars_model, kind):
    model, _ = polars_model
    rows = kind(["ann", "zoe", "bob"])
    if kind is pd.Series:
        rows.index = [7, 8, 9]
    with pytest.raises(gcmf.errors.UnknownIdError, match="never seen user 'zoe'"):
        model.predict("seen", rows, [0, 1, 2])


@pytest.fixture
def polars_model():
    frame = pl.DataFrame(cells(np.array(NAMES), np.arange(M)))
    rel = gcmf.Relation.from_frame("seen", frame, rows="user", cols="item", row="user", col="item", value="x")
    wide = pl.DataFrame({"user": NAMES, "tall": [0.0, 1, 1, 0, 1, 0], "old": [1.0, 0, 1, 0, 1, 1]})
    data = gcmf.Collection([rel, gcmf.Relation("traits", "user", "trait", wide, "bernoulli")])
    with pytest.warns(gcmf.errors.ConvergenceWarning):
        return gcmf.GCMF(2, max_iter=10, random_state=0, progress=False).fit(data), data


def test_every_table_is_of_polars(polars_model):
    model, data = polars_model
    structure = model.structure()
    assert structure.columns == ["factor", "user", "item", "trait", "role", "relations"]
    assert structure["relations"].to_list()[0] in (["seen"], ["seen", "traits"])
    assert model.variance_explained()["relation"].to_list() == ["seen", "traits"]
    assert model.score(data).columns[:2] == ["relation", "rmse"]
    assert model.biases("seen", "rows").columns == ["user", "seen"]
    train, _ = data.split(0.5)
    assert train.frame == "polars", "a part is of the kind of the whole"


def test_commands_and_plots_take_a_model_of_polars(polars_model, tmp_path):
    model, _ = polars_model
    assert describe(model)["relations"][0]["name"] == "seen"
    files = export(model, tmp_path, kind="parquet")
    factors = pl.read_parquet(next(one for one in files if one.name == "factors_user.parquet"))
    assert_frame_equal(factors.select(model.factors("user").columns), model.factors("user"))
    plot.structure(model)
    plot.variance_explained(model)


def test_the_kind_is_what_was_brought():
    x = np.arange(6.0).reshape(2, 3)
    polars = gcmf.Relation("p", "a", "b", (pl.Series([0, 1]), pl.Series([0, 1]), pl.Series([1.0, 2.0])))
    pandas = gcmf.Relation("q", "a", "c", pd.DataFrame(x))
    array = gcmf.Relation("r", "a", "d", x)
    assert gcmf.Collection([polars]).frame == "polars"
    assert gcmf.Collection([polars, array]).frame == "polars"
    assert gcmf.Collection([polars, pandas]).frame == "pandas"
    assert gcmf.Collection([array]).frame == "pandas"


def test_ids_that_sources_bring_differently_are_plain():
    one = gcmf.Relation("p", "a", "b", (pl.Series([1, 2], dtype=pl.Int32), [0, 1], [1.0, 2.0]))
    other = gcmf.Relation("q", "a", "c", (pl.Series([2, 3]), [0, 1], [1.0, 2.0]))
    assert gcmf.Collection([one]).entities["a"].vocabulary.kind.name == "Int32"
    assert gcmf.Collection([one, other]).entities["a"].vocabulary.kind is None
    left, right = (gcmf.Relation(name, "a", name, (pd.Categorical(ids), [0, 1], [1.0, 2.0]))
                   for name, ids in (("p", ["x", "y"]), ("q", ["y", "z"])))  # fmt: skip
    assert gcmf.Collection([left, right]).entities["a"].vocabulary.kind.categories == ("x", "y", "z")


def test_levels_are_columns_of_polars():
    ids = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    frame = tables.give(pd.DataFrame({"F1": [0.5, 1.5]}, index=ids), "polars", name="gene")
    assert frame.to_dict(as_series=False) == {"gene_0": ["a", "b"], "gene_1": [1, 2], "F1": [0.5, 1.5]}


def test_without_polars_a_loaded_model_answers_in_pandas(polars_model, monkeypatch):
    model, _ = polars_model
    monkeypatch.setattr(tables, "_polars", lambda: None)
    assert isinstance(model.factors("user"), pd.DataFrame)
