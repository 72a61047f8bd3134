"""Two collections have one fingerprint if they are the same, and where they differ it says in what."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf.data.fingerprint import fingerprint
from gcmf.data.units import Units

X = np.arange(12.0).reshape(4, 3)


def collection(x=X, rows=range(4), likelihood="gaussian", sizes=(1.0, 2.0, 4.0, 3.0), scale=None, **options):
    table = pd.DataFrame({"size": sizes}, index=pd.Index(rows))
    relation = gcmf.Relation("r", "a", "b", pd.DataFrame(x, index=pd.Index(rows)), likelihood, **options)
    if scale is not None:
        object.__setattr__(relation.raw, "units", Units(np.zeros(3), np.full(3, scale)))
    return gcmf.Collection([relation], {"a": table})


def test_the_same_data_have_the_same():
    assert fingerprint(collection()) == fingerprint(collection())
    places = pd.MultiIndex.from_tuples([("it", 1), ("it", 2), ("fr", 1), ("fr", 2)])
    assert fingerprint(collection(rows=places)) == fingerprint(collection(rows=places))


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ({}, {"x": X + (X == 5.0)}, {"the cells of relation 'r'"}),
        ({}, {"x": np.where(X == 5.0, np.nan, X)}, {"the cells of relation 'r'"}),
        ({"scale": 2.0}, {"scale": 3.0}, {"the cells of relation 'r'"}),
        ({}, {"rows": [0, 1, 2, 7]}, {"the ids of entity set 'a'"}),
        ({"rows": [1, 2, 3, 4]}, {"rows": ["1", "2", "3", "4"]}, {"the ids of entity set 'a'"}),
        ({}, {"sizes": (1.0, 2.0, 4.0, 5.0)}, {"what is known of entity set 'a'"}),
        ({}, {"sizes": (10.0, 20.0, 40.0, 30.0)}, {"what is known of entity set 'a'"}),
        ({"x": X % 2}, {"x": X % 2, "likelihood": "bernoulli"},
         {"the kind of relation 'r'", "the cells of relation 'r'"}),
    ],
)  # fmt: skip
def test_other_data_differ_and_it_says_in_what(one, other, differs):
    first, second = fingerprint(collection(**one)), fingerprint(collection(**other))
    assert {name for name in first | second if first.get(name) != second.get(name)} == differs
