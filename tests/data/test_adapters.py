"""Every source of data gives the same cells; `table` is what they all say."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from gcmf.data import Collection, Relation
from gcmf.errors import DataError

TABLE = {("u", "a"): 1.0, ("u", "c"): 0.0, ("v", "b"): 2.0, ("v", "c"): 3.0}
WIDE = {"a": [1, None], "b": [None, 2], "c": [0, 3]}
LONG = {"who": ["u", "u", "v", "v"], "what": ["a", "c", "b", "c"], "much": [1, 0, 2, 3]}


def table(relation):
    """The observed cells of a relation, by ids."""
    data = Collection([relation])
    rows, cols = data.entities[relation.rows].ids, data.entities[relation.cols].ids
    i, j, x = data.relations[relation.name].cells.triplets()
    return {(rows[a], cols[b]): float(v) for a, b, v in zip(i, j, x, strict=True)}


def positions(cells):
    return {("uv".index(row), "abc".index(col)): x for (row, col), x in cells.items()}


def wide(data, **options):
    return table(Relation("r", rows="row", cols="col", data=data, **options))


def long(frame):
    return table(Relation.from_frame("r", frame, rows="row", cols="col", row="who", col="what", value="much"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, object])
def test_numpy_with_nan(dtype):
    x = np.array([[1, np.nan, 0], [np.nan, 2, 3]], dtype=dtype)
    assert wide(x) == positions(TABLE)


def test_numpy_with_none():
    assert wide(np.array([[1, None, 0], [None, 2, 3]], dtype=object)) == positions(TABLE)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.int64])
def test_numpy_of_other_kinds(dtype):
    assert wide(np.array([[1, 0]], dtype=dtype)) == {(0, 0): 1.0, (0, 1): 0.0}


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_masked(dtype):
    x = np.ma.MaskedArray(np.array([[1, 7, 0], [7, 2, 3]], dtype=dtype), [[0, 1, 0], [1, 0, 0]])
    assert wide(x) == positions(TABLE)


@pytest.mark.parametrize("build", [sparse.coo_array, sparse.csr_array, sparse.csc_matrix, sparse.coo_matrix])
def test_sparse_with_missing_blanks_keeps_stored_zeros(build):
    stored = ([1.0, 0.0, 2.0, 3.0], ([0, 0, 1, 1], [0, 2, 1, 2]))
    assert wide(build(stored, shape=(2, 3)), blanks="missing") == positions(TABLE)


@pytest.mark.parametrize("format", ["coo", "csr", "csc", "lil", "dok", "bsr", "dia"])
def test_sparse_with_zero_blanks(format):
    x = np.array([[0, 4.0, 0], [0, 0, 0]])
    expected = {(i, j): x[i, j] for i in range(2) for j in range(3)}
    assert wide(sparse.coo_array(x).asformat(format), blanks="zero") == expected


def test_sparse_is_not_densified():
    huge = sparse.coo_array(([1.0, 2.0], ([5, 999_999], [7, 999_999])), shape=(1_000_000, 1_000_000))
    data = Collection([Relation("r", "row", "col", huge, "poisson", blanks="zero")])
    assert data.n_cells == 10**12
    assert len(data.relations["r"].cells.rows.value) == 2


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(WIDE, index=["u", "v"]),
        pd.DataFrame(WIDE, index=["u", "v"]).astype("Int64"),
        pd.DataFrame(WIDE, index=["u", "v"]).astype("category"),
        pd.DataFrame(WIDE, index=["u", "v"]).astype(object),
        pd.DataFrame(WIDE, index=["u", "v"]).astype("double[pyarrow]"),
        pd.DataFrame(WIDE, index=["u", "v"]).astype({"a": "Float32", "c": np.int8}),
        pd.DataFrame(WIDE, index=pd.CategoricalIndex(["u", "v"])),
        pl.DataFrame({"name": ["u", "v"], **WIDE}),
        pl.DataFrame({"name": ["u", "v"], **WIDE}).lazy(),
        pl.DataFrame({"name": ["u", "v"], **WIDE}, schema_overrides={"name": pl.Categorical}),
        pa.table({"name": ["u", "v"], **WIDE}),
        pa.table({"name": pa.array(["u", "v"]).dictionary_encode(), **WIDE}),
    ],
)
def test_wide_frames(frame):
    assert wide(frame) == TABLE


def test_wide_frame_of_numbers_and_booleans():
    assert wide(pd.DataFrame({"a": [True], "b": [2]}, index=["u"])) == {("u", "a"): 1.0, ("u", "b"): 2.0}
    frame = pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}, index=["u", "v"])
    assert wide(frame) == {("u", "a"): 1.0}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_dates_stay_dates(kind):
    days = [dt.date(2020, 1, 1), dt.date(2021, 1, 1)]
    assert long(kind({"who": days, "what": ["a", "a"], "much": [1, 2]})) == {
        (days[0], "a"): 1,
        (days[1], "a"): 2,
    }


def test_wide_frame_with_multiindex_has_tuple_ids():
    index = pd.MultiIndex.from_tuples([("u", 1), ("u", 2)])
    assert wide(pd.DataFrame({"a": [1.0, 2.0]}, index=index)) == {(("u", 1), "a"): 1.0, (("u", 2), "a"): 2.0}


def test_wide_frame_without_index():
    assert wide(pl.DataFrame({"a": [0.5, 1.5]})) == {(0, "a"): 0.5, (1, "a"): 1.5}
    assert wide(pl.DataFrame({"a": [1, 1]})) == {(0, "a"): 1.0, (1, "a"): 1.0}
    assert wide(pl.DataFrame({"row": [7, 8], "a": [1, 2]})) == {(7, "a"): 1.0, (8, "a"): 2.0}
    with pytest.raises(DataError, match=r"first column, 'id', holds distinct integers.*rename it to 'row'"):
        wide(pa.table({"id": [7, 8], "a": [1, 2]}))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(LONG),
        pd.DataFrame(LONG).astype({"who": "category", "what": "string", "much": "Int64"}),
        pl.DataFrame(LONG),
        pl.DataFrame(LONG).lazy(),
        pl.DataFrame(LONG, schema_overrides={"who": pl.Categorical, "much": pl.Float32}),
        pl.DataFrame(LONG, schema_overrides={"who": pl.Enum(["u", "v"])}),
        pa.table(LONG),
        pa.table(LONG | {"much": [Decimal(1), Decimal(0), Decimal(2), Decimal(3)]}),
    ],
)
def test_long_frames(frame):
    assert long(frame) == TABLE


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_long_frame_with_null_value_keeps_its_ids(kind):
    frame = kind({"who": [1, 2, 3], "what": ["a", "a", "b"], "much": [1, None, 3]})
    relation = Relation.from_frame("r", frame, rows="row", cols="col", row="who", col="what", value="much")
    assert table(relation) == {(1, "a"): 1.0, (3, "b"): 3.0}
    data = Collection([relation])
    assert data.entities["row"].ids.tolist() == [1, 2, 3]
    assert data.observed("row").tolist() == [True, False, True]
    assert data.relations["r"].cells.rows.value.dtype == np.float32


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_long_frame_with_null_id_is_refused(kind):
    frame = kind({"who": ["u", None, "v"], "what": [1, 2, None], "much": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError) as caught:
        long(frame)
    assert caught.value.faults == (
        "relation 'r': the cell at position 1 has a null row id; drop such cells or give them an id.",
        "relation 'r': the cell at position 2 has a null column id; drop such cells or give them an id.",
    )


@pytest.mark.parametrize("holder", [list, tuple, np.array, pd.Series, pl.Series, pa.array])
def test_triplets(holder):
    assert wide((holder(LONG["who"]), holder(LONG["what"]), holder(LONG["much"]))) == TABLE


def test_triplets_of_tuple_ids():
    assert wide(([("u", 1), ("u", 2)], [1, 1], [0.5, 1.5])) == {(("u", 1), 1): 0.5, (("u", 2), 1): 1.5}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([0.5, 1.5]), np.float32),
        (np.array([0.1, 1.5]), np.float64),
        (np.array([0.1, 1.5], np.float32), np.float32),
        (np.array([2**24, 1]), np.float32),
        (np.array([2**24 + 1, 1]), np.float64),
        (np.array([1e100, 1.0]), np.float64),
    ],
)
def test_values_are_narrow_only_where_that_is_exact(values, dtype):
    data = Collection([Relation("r", "row", "col", (["u", "v"], ["a", "b"], values))])
    value = data.relations["r"].cells.rows.value
    assert value.dtype == dtype
    assert value.tolist() == values.tolist()


def test_binary_values_are_bytes():
    data = Collection([Relation("r", "row", "col", np.array([[True, False]]), "bernoulli")])
    assert data.relations["r"].cells.cols.value.dtype == np.uint8


def test_a_list_of_lists_is_refused():
    with pytest.raises(DataError, match=r"'r': cannot read list data; give a 2-D NumPy array"):
        wide([[1, 2], [3, 4]])
