import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gcmf.data.vocabulary import Vocabulary, encode
from gcmf.errors import DataError


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        ["b", "a"],
        [("x", 1), ("y", 2)],
        [1, "a", ("t", 2)],
        [dt.date(2020, 1, 1), dt.date(2021, 1, 1)],
        [1.5, 2.5],
        [True, False],
    ],
)
def test_ids_come_back_as_they_went_in(ids):
    vocabulary = Vocabulary(ids)
    assert list(vocabulary.ids) == ids
    assert vocabulary.index(ids).tolist() == list(range(len(ids)))
    assert vocabulary.index(ids).dtype == np.int64
    assert all(item in vocabulary for item in ids)
    assert "never" not in vocabulary
    assert ["unhashable"] not in vocabulary


@pytest.mark.parametrize(
    "ids",
    [
        np.array(["b", "a"]),
        pd.Series(["b", "a"]),
        pd.Index(["b", "a"]),
        pd.Categorical(["b", "a"]),
        pd.Series(["b", "a"], dtype="string"),
        pd.CategoricalIndex(["b", "a"]),
        pl.Series(["b", "a"]),
        pl.Series(["b", "a"], dtype=pl.Categorical),
        pa.chunked_array([["b", "a"]]),
        (item for item in "ba"),
    ],
)
def test_every_holder_of_ids(ids):
    assert list(Vocabulary(ids).ids) == ["b", "a"]


def test_integer_kinds_are_one_kind():
    for ids in (
        np.array([2, 1], np.uint8),
        pd.Series([2, 1], dtype="Int32"),
        pd.Categorical([2, 1]),
        range(2, 0, -1),
    ):
        vocabulary = Vocabulary(ids)
        assert vocabulary.ids.dtype == np.int64
        assert vocabulary.index([1, 7]).tolist() == [1, -1]


def test_multiindex_gives_tuples():
    vocabulary = Vocabulary(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    assert list(vocabulary.ids) == [("a", 1), ("b", 2)]
    assert ("b", 2) in vocabulary
    assert list(vocabulary.union(Vocabulary([("c", 3)])).ids) == [("a", 1), ("b", 2), ("c", 3)]
    assert not isinstance(vocabulary.union(Vocabulary([("c", 3)])).ids, pd.MultiIndex)


def test_union_keeps_the_order_of_first_appearance():
    assert list(Vocabulary([3, 1]).union(Vocabulary([2, 1, 0])).ids) == [3, 1, 2, 0]
    assert list(Vocabulary([3]).union(Vocabulary(["x"])).ids) == [3, "x"]


def test_refuses_null_and_repeated_ids():
    with pytest.raises(DataError, match=r"a null id at position 1; give every entity an id"):
        Vocabulary(["a", None])
    with pytest.raises(DataError, match=r"the id 'a' comes more than once \(and 1 more\)"):
        Vocabulary(["a", "b", "a", "b"])


@pytest.mark.parametrize(
    "ids",
    [
        ["b", None, "a", "b"],
        np.array(["b", None, "a", "b"], dtype=object),
        pd.Series(["b", None, "a", "b"]),
        pd.Series(["b", None, "a", "b"], dtype="category"),
    ],
)
def test_encode(ids):
    codes, vocabulary = encode(ids)
    assert codes[:].tolist() == [1, -1, 0, 1]
    assert list(vocabulary.ids) == ["a", "b"]


def test_ids_that_cannot_be_compared_stand_as_they_appear():
    codes, vocabulary = encode([("t", 2), "a", 1, "a"])
    assert codes[:].tolist() == [0, 1, 2, 1]
    assert list(vocabulary.ids) == [("t", 2), "a", 1]


def test_repr_shows_the_first_ids():
    assert repr(Vocabulary(np.arange(7))) == "Vocabulary(7: 0, 1, 2, 3, 4, ...)"
