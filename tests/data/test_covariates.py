"""Tables of what is known of entities: how columns become features, and what is refused."""

from __future__ import annotations

import datetime
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from gcmf import Collection, Relation
from gcmf.data import covariates, known_features
from gcmf.data.covariates import read_table
from gcmf.data.known_features import read_features
from gcmf.errors import DataError

RATINGS = Relation("ratings", "user", "movie", (["ann", "bob", "cat"], ["a", "b", "a"], [1.0, 2.0, 4.0]))
USERS = ["ann", "bob", "cat", "dan"]


def table(**columns):
    return pd.DataFrame(columns, index=pd.Index(USERS))


def features(**columns):
    """Names and values of the features of a frame with these columns."""
    read = read_table("user", table(**columns))
    return [str(feature) for feature in read.features], read


def refused(entities, relations=(RATINGS,)):
    with pytest.raises(DataError) as error:
        Collection(relations, entities=entities)
    return error.value.faults


def test_numbers_booleans_and_dates_are_standardized():
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-05", "2020-01-08"])
    names, read = features(age=[20, 30, 40, 50], paid=[True, False, False, True], since=days)
    assert names == ["age", "paid", "since"]
    np.testing.assert_allclose(read.values.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(read.values.std(axis=0), 1.0)
    np.testing.assert_allclose(read.center, [35.0, 0.5, 18265.0])
    np.testing.assert_array_equal(read.group, [0, 1, 2])


@pytest.mark.parametrize("values", [
    [1, None, 3, 4], pd.array([1, None, 3, 4], "Int32"), [1.0, np.nan, 3.0, 4.0], pd.array([1, None, 3, 4], "Float32"),
    pd.to_datetime([1, None, 3, 4], unit="D"), [datetime.date(1970, 1, day) if day else None for day in (2, 0, 4, 5)],
    pd.to_timedelta([1, None, 3, 4], unit="D"), pd.to_datetime([1, None, 3, 4], unit="D", utc=True),
])  # fmt: skip
def test_a_missing_number_is_at_the_mean(values):
    names, read = features(x=values)
    assert names == ["x"], "one missing value tells the others nothing"
    np.testing.assert_allclose(read.values[:, 0], [-1.336306, 0.0, 0.267261, 1.069045], atol=1e-6)
    assert read.center[0] == pytest.approx(8 / 3)


def test_what_several_lack_is_said_by_a_feature():
    names, read = features(x=[1.0, 2.0, None, None], color=["red", "red", None, None])
    assert names == ["x", "x missing", "color=red", "color missing"]
    np.testing.assert_array_equal(read.group, [0, 0, 1, 1])
    np.testing.assert_allclose(read.values[:, 1], [-0.5, -0.5, 0.5, 0.5])


@pytest.mark.parametrize("dtype", [object, "category", "string"])
def test_levels_that_several_have_become_features(dtype):
    names, read = features(color=pd.array(["red", "blue", "red", "blue"], dtype=dtype))
    assert names == ["color=blue", "color=red"]
    np.testing.assert_allclose(read.values[:, 1], [0.5, -0.5, 0.5, -0.5])
    names, read = features(color=pd.array(["red", "green", "red", None], dtype=dtype), size=[1, 2, 3, 4])
    assert names == ["color=red", "size"]


def test_columns_that_tell_nothing_are_left_out_with_words():
    with pytest.warns(UserWarning, match="'one', 'names', 'none' left out: nearly the same for all entities"):
        read = read_table("user", table(one=[1, 1, 1, 1], names=list("abcd"), none=[None] * 4, age=[1, 2, 3, 4]))
    assert [feature.column for feature in read.features] == ["age"]
    assert read.n_columns == 1


def test_a_frame_without_columns_declares_its_ids():
    data = Collection([RATINGS], entities={"user": table()})
    assert list(data.entities["user"].ids) == USERS
    assert data.entities["user"].covariates is None


def test_entities_that_the_table_lacks_have_zeros():
    data = Collection([RATINGS], entities={"user": table(age=[1, 2, 3, 4]).loc[["dan", "bob"]]})
    assert list(data.entities["user"].ids) == ["dan", "bob", "ann", "cat"]
    np.testing.assert_allclose(data.entities["user"].covariates.values[:, 0], [1.0, -1.0, 0.0, 0.0])
    assert "user 4 (1 covariate), movie 2" in repr(data)
    train, test = data.split(0.4)
    assert train.entities["user"].covariates is test.entities["user"].covariates is not None


def test_polars_frames_have_their_ids_in_a_column_named_as_the_set():
    frame = pl.DataFrame({"user": USERS, "age": [1, 2, None, 4], "color": ["red", "blue", "red", "blue"]})
    data = Collection([RATINGS], entities={"user": frame})
    expected = Collection([RATINGS], entities={"user": table(age=[1, 2, None, 4], color=frame["color"].to_list())})
    got, wanted = data.entities["user"].covariates, expected.entities["user"].covariates
    np.testing.assert_array_equal(got.values, wanted.values)
    assert got.features == wanted.features
    (fault,) = refused({"user": frame.rename({"user": "who"})})
    assert "a frame without an index needs its ids in a column named 'user'; it has 'who', 'age', 'color'" in fault


def test_a_sparse_matrix_is_one_source_taken_as_it_is():
    words = sparse.csr_matrix(np.array([[0, 2, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0]]))
    data = Collection([RATINGS], entities={"user": (USERS, words, ["spam", "eggs", "ham"])})
    known = data.entities["user"].covariates
    assert list(map(str, known.features)) == ["spam", "eggs", "ham"]
    np.testing.assert_array_equal(known.group, 0)
    np.testing.assert_allclose(known.values, words.toarray() - words.toarray().mean(axis=0))
    frame = pd.DataFrame.sparse.from_spmatrix(words, index=USERS, columns=["spam", "eggs", "ham"])
    np.testing.assert_allclose(read_table("user", frame).values, known.values)


def test_many_features_stay_sparse(monkeypatch):
    monkeypatch.setattr(covariates, "FEW", 3)
    words = sparse.random_array((4, 5), density=0.4, random_state=np.random.default_rng(0))
    known = Collection([RATINGS], entities={"user": (USERS[1:], words.tocsr()[1:])}).entities["user"].covariates
    assert sparse.issparse(known.values)
    np.testing.assert_array_equal(known.values.toarray()[:3], words.toarray()[1:])
    assert not known.values.toarray()[3].any()
    _, read = features(color=["red", "blue", "red", "blue"], age=[1, 2, 3, None], sex=["m", "f", "f", "m"])
    np.testing.assert_array_equal(read.values.toarray()[:, :2], [[0, 1], [1, 0], [0, 1], [1, 0]])
    np.testing.assert_allclose(read.values.toarray()[:, 2], [-1.224745, 0.0, 1.224745, 0.0], atol=1e-6)


def test_levels_take_memory_by_the_entities_that_have_them():
    """8,000 entities with 3,000 levels: 24 MB as one truth value of each pair."""
    rng = np.random.default_rng(0)
    city = np.array([f"city {k}" for k in rng.integers(3000, size=8000)], dtype=object)
    city[:3] = None
    frame = pd.DataFrame({"city": city, "age": rng.normal(size=8000)})
    tracemalloc.start()
    read = read_table("user", frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    assert read.values.shape[1] > 2000
    for k in (0, 1000, len(read.features) - 3):
        np.testing.assert_array_equal(read.values[:, [k]].toarray().ravel(), city == read.features[k].level)
    assert str(read.features[-2]) == "city missing"
    np.testing.assert_array_equal(np.flatnonzero(read.values[:, [-2]].toarray()), [0, 1, 2])
    tracemalloc.start()
    ids, again = read_features("user", frame, read.features, read.center, read.scale)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    assert len(ids) == 8000
    assert abs(again - read.values).max() < 1e-12


@pytest.mark.parametrize("few", [1, 100])
def test_a_table_is_read_as_it_was_when_the_model_was_fitted(few, monkeypatch):
    monkeypatch.setattr(covariates, "FEW", few)
    monkeypatch.setattr(known_features, "FEW", few)
    frame = pd.DataFrame({"color": ["red", "", "red", "", None, None], "age": [1, 2, None, 4, None, 6]})
    read = read_table("user", frame)
    assert [str(feature) for feature in read.features] == ["color=", "color=red", "color missing", "age", "age missing"]
    _, again = read_features("user", frame, read.features, read.center, read.scale)
    assert sparse.issparse(again) == sparse.issparse(read.values) == (few == 1)
    np.testing.assert_allclose(*(a.toarray() if few == 1 else a for a in (again, read.values)))
    _, none = read_features("user", frame.assign(color="blue"), read.features, read.center, read.scale)
    np.testing.assert_allclose((none.toarray() if few == 1 else none)[:, :3], -np.ones((6, 1)) * read.center[:3])


def test_refusals_say_what_and_where():
    assert refused({"user": table(age=[1, np.inf, 3, -np.inf])}) == (
        "entities={'user': ...}, column 'age': 'bob' has inf (and 1 more), and numbers must be finite, at most 1e+150;"
        " correct it, or leave it empty if it is missing.",
    )
    (fault,) = refused({"user": table(odd=[1, "a", 3, None])})
    assert fault.startswith("entities={'user': ...}, column 'odd': its values are mixed-integer (int, str), and a")
    (fault,) = refused({"user": table(odd=["1", "b", "1", "b"]).assign(bad=[[1], [2], [1], [2]])})
    assert "column 'bad': its values are mixed (list), and a covariate is made of numbers" in fault
    (fault,) = refused({"users": table(age=[1, 2, 3, 4])})
    assert "no relation uses the entity set 'users'" in fault
    assert "Did you mean 'user'?" in fault
    (fault,) = refused({"user": table(age=[1, 2, 3, 4]).set_axis(["ann", "ann", "bob", "cat"])})
    assert fault.startswith("entities={'user': ...}: the id 'ann' comes more than once")
    (fault,) = refused({"user": table(age=[1, 2, 3, 4]).set_axis(range(4))})
    assert fault.startswith("entity set 'user' has ids of 2 kinds, which never match: text in relation 'ratings'")
    twice = table(age=[1, 2, 3, 4])
    (fault,) = refused({"user": pd.concat([twice, twice * 2], axis=1)})
    assert fault == "entities={'user': ...}: two columns are named 'age'; give each its own name."
    (fault,) = refused({"user": (USERS[:3], sparse.eye_array(4))})
    assert fault.endswith("the matrix has 4 rows, and there must be a list with an id for each.")
    (fault,) = refused({"user": (USERS, sparse.eye_array(4), ["a"])})
    assert fault.endswith("the matrix has 4 columns, and there must be a list with a name for each.")
    (fault,) = refused({"user": (USERS, sparse.csr_array(np.diag([1.0, 2.0, np.nan, 4.0])))})
    assert "row 2, column 2 is nan, and numbers must be finite" in fault


def test_faults_of_several_tables_and_relations_come_together():
    faults = refused({"user": table(a=[1, np.inf, 3, 4], b=[1, 2, 3, np.inf]), "movie": [1, 1]})
    assert len(faults) == 4
