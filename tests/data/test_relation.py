import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gcmf.data import Collection, Relation
from gcmf.data.schema import RelationSchema
from gcmf.errors import DataError, OptionError
from laplace import Laplace

X = np.array([[5, np.nan, 1], [4, 2, np.nan]])


def test_what_it_knows():
    relation = Relation("ratings", "user", "movie", X)
    assert relation.schema == RelationSchema("ratings", "user", "movie", "gaussian")
    assert (relation.shape, relation.n_cells) == ((2, 3), 4)
    assert relation.row_ids.positional
    times = "\N{MULTIPLICATION SIGN}"
    assert repr(relation) == (
        f"<Relation ratings: user {times} movie (gaussian), 2 {times} 3, 4 cells (66.7% observed)>"
    )


def test_likelihood_objects():
    likelihood = Laplace()
    relation = Relation("r", "user", "movie", X, likelihood)
    assert relation.likelihood is likelihood
    assert relation.schema.likelihood == "laplace"
    with pytest.raises(OptionError, match=r"or an object from gcmf\.likelihoods"):
        Relation("r", "user", "movie", X, Laplace)


def test_names_must_be_strings():
    with pytest.raises(DataError) as caught:
        Relation("", 3, "movie", X)
    assert caught.value.faults == (
        "relation '': name= must be a non-empty string, not ''.",
        "relation '': rows= must be a non-empty string, not 3.",
    )


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((2, 2, 2)), np.ma.zeros(3), sparse.coo_array([1.0, 0])])
def test_refuses_other_dimensions(x):
    if x.ndim == 2:
        pytest.skip("this SciPy has no sparse arrays of one dimension")
    blanks = "zero" if sparse.issparse(x) else None
    with pytest.raises(DataError, match=r"'r': the data has [13] dimensions, shape .* a relation needs 2"):
        Relation("r", "user", "movie", x, blanks=blanks)


def test_sparse_must_explain_its_blanks():
    with pytest.raises(DataError) as caught:
        Relation("r", "user", "movie", sparse.eye_array(3))
    assert str(caught.value) == (
        "relation 'r': a scipy.sparse matrix must say what its blanks are."
        ' Give blanks="missing" if a blank cell was never observed, as in ratings.'
        ' Give blanks="zero" if a blank cell is an observed zero, as in word counts.'
    )
    with pytest.raises(DataError, match=r"blanks='none' is neither of the two choices"):
        Relation("r", "user", "movie", sparse.eye_array(3), blanks="none")


def test_padded_formats_cannot_tell_missing_from_zero():
    with pytest.raises(DataError, match=r"'r': a dia matrix stores zeros as padding"):
        Relation("r", "user", "movie", sparse.dia_array(np.eye(3)), blanks="missing")


@pytest.mark.parametrize("data", [X, np.ma.masked_invalid(X), pd.DataFrame(X)], ids=["array", "masked", "wide"])
def test_blanks_are_for_what_lists_its_cells(data):
    with pytest.raises(DataError, match=r"'r': blanks='zero' is for data that lists its cells.* Leave blanks= out"):
        Relation("r", "user", "movie", data, blanks="zero")


def test_triplets_of_a_wrong_form():
    with pytest.raises(DataError, match=r"'r': the triplets have 2 row ids, 1 column ids and 2 values"):
        Relation("r", "user", "movie", ([1, 2], [1], [1.0, 2.0]))
    with pytest.raises(DataError, match=r"'r': a tuple of 2 parts is not \(row_ids, col_ids, values\)"):
        Relation("r", "user", "movie", ([1, 2], [1]))
    with pytest.raises(DataError, match=r"'r': row_ids has 2 dimensions; it must be one column"):
        Relation("r", "user", "movie", (X, [1], [1]))


@pytest.mark.parametrize(
    "values", [["1", "2"], np.array(["x", 1], dtype=object), np.array([1j, 2]), np.array([0, 1], "M8[s]")]
)
def test_values_must_be_numbers(values):
    with pytest.raises(DataError, match=r"'r': the values are not numbers but .*; convert or drop them"):
        Relation("r", "user", "movie", (["a", "b"], [1, 2], values))


def test_missing_columns_name_those_there_are():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"userId": [1], "movieId": [2], "rating": [3.0]})
    with pytest.raises(DataError) as caught:
        Relation.from_frame("r", frame, rows="u", cols="m", row="userID", col="movieId", value="stars")
    assert caught.value.faults == (
        "relation 'r': row='userID' is not a column of the frame, which has 'userId', 'movieId', 'rating'."
        " Did you mean 'userId'?",
        "relation 'r': value='stars' is not a column of the frame, which has 'userId', 'movieId', 'rating'.",
    )


def test_wide_frame_names_its_columns_of_text():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"name": ["u"], "age": [3], "city": ["Turku"]})
    with pytest.raises(DataError, match=r"'r': the values in column 'city' are not numbers but text"):
        Relation("r", "user", "trait", frame)
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match=r"'r': the values in column 'city' are not numbers but text"):
        Relation("r", "user", "trait", pd.DataFrame({"city": ["Turku"]}))


def sparse_frame(values, fill):
    columns = {name: pd.arrays.SparseArray(column, fill_value=fill) for name, column in values.items()}
    return pd.DataFrame(columns, index=["ann", "bob", "cat"])


def listed(relation):
    """The cells of a relation by its own ids."""
    i, j, x = Collection([relation]).relations["r"].cells.triplets()
    rows, cols = (Collection([relation]).entities[name].ids for name in ("user", "page"))
    return {(rows[a], cols[b]): float(v) for a, b, v in zip(i, j, x, strict=True)}


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_sparse_pandas_frames_list_what_they_store(fill):
    blank = 0.0 if fill == 0 else np.nan
    frame = sparse_frame({"p": [blank, 2.0, blank], "q": [3.0, blank, blank]}, fill)
    missing = Relation("r", "user", "page", frame, blanks="missing")
    assert listed(missing) == {("bob", "p"): 2, ("ann", "q"): 3}
    assert missing.row_ids.ids.tolist() == ["ann", "bob", "cat"]
    zero = listed(Relation("r", "user", "page", frame, blanks="zero"))
    assert zero.pop(("bob", "p")) == 2
    assert zero.pop(("ann", "q")) == 3
    assert zero == dict.fromkeys([("ann", "p"), ("bob", "q"), ("cat", "p"), ("cat", "q")], 0)


def test_stored_nan_of_a_sparse_frame_is_missing():
    frame = sparse_frame({"p": [0.0, np.nan, 5.0]}, 0.0)
    assert listed(Relation("r", "user", "page", frame, blanks="missing")) == {("cat", "p"): 5}
    with pytest.raises(
        DataError, match=r"row 'bob', column 'p' is nan.* where blanks are zeros, no cell can be missing"
    ):
        Collection([Relation("r", "user", "page", frame, blanks="zero")])


def test_sparse_pandas_frame_is_not_densified():
    # 200,000 x 2,000 cells: dense, they would be 3.2 GB
    indices = pd._libs.sparse.IntIndex(200_000, np.array([7], np.int32))
    column = pd.arrays.SparseArray([1.0], sparse_index=indices, fill_value=0.0)
    frame = pd.DataFrame({f"p{k}": column for k in range(2000)})
    relation = Relation("r", "user", "page", frame, blanks="zero")
    assert (relation.shape, len(relation.raw.x)) == ((200_000, 2000), 2000)


def test_sparse_pandas_frames_must_say_what_their_blanks_are():
    with pytest.raises(DataError, match=r"a pandas frame with sparse columns must say what its blanks are"):
        Relation("r", "user", "page", sparse_frame({"p": [0.0, 1.0, 0.0]}, 0.0))
    with pytest.raises(DataError, match=r"column 'p' has blanks that stand for 1.0"):
        Relation("r", "user", "page", sparse_frame({"p": [0.0, 1.0, 0.0]}, 1.0), blanks="zero")
    mixed = sparse_frame({"p": [0.0, 1.0, 0.0]}, 0.0).assign(q=1.0)
    with pytest.raises(DataError, match=r"column 'q' is not sparse"):
        Relation("r", "user", "page", mixed, blanks="zero")


@pytest.mark.parametrize(
    ("data", "blanks"),
    [
        (np.array([[np.nan, 2.0], [3.0, np.nan]]), None),
        (np.ma.masked_equal([[9.0, 2.0], [3.0, 9.0]], 9.0), None),
        (sparse.csr_array([[0, 2.0], [3.0, 0]]), "missing"),
        (sparse.coo_array([[0, 2.0], [3.0, 0]]), "missing"),
    ],
    ids=["array", "masked", "csr", "coo"],
)
def test_rows_and_columns_of_matrices_may_have_ids(data, blanks):
    relation = Relation("r", "user", "page", data, blanks=blanks, row_ids=["ann", "bob"], col_ids=pd.Index([7, 8]))
    assert listed(relation) == {("ann", 8): 2, ("bob", 7): 3}
    half = Relation("r", "user", "page", data, blanks=blanks, row_ids=["ann", "bob"])
    assert half.col_ids.positional
    assert listed(half) == {("ann", 1): 2, ("bob", 0): 3}


def test_implicit_feedback_in_all_its_forms():
    frame = pd.DataFrame({"who": ["ann", "bob"], "what": ["p", "q"], "n": [1, 1]})
    names = {"rows": "user", "cols": "page", "row": "who", "col": "what", "likelihood": "bernoulli", "blanks": "zero"}
    forms = [
        Relation.from_frame("r", frame, value="n", **names),
        Relation.from_frame("r", frame, value=None, **names),
        Relation("r", "user", "page", (frame["who"], frame["what"], frame["n"]), "bernoulli", blanks="zero"),
        Relation("r", "user", "page", sparse.eye_array(2).tocsr(), "bernoulli", blanks="zero",
                 row_ids=["ann", "bob"], col_ids=["p", "q"]),
    ]  # fmt: skip
    for relation in forms:
        assert listed(relation) == {("ann", "p"): 1, ("ann", "q"): 0, ("bob", "p"): 0, ("bob", "q"): 1}
        assert len(relation.raw.x) == 2


def test_without_a_value_column_every_line_is_a_one():
    frame = pd.DataFrame({"who": ["ann", "bob"], "what": ["p", "q"]})
    relation = Relation.from_frame("r", frame, rows="user", cols="page", row="who", col="what", value=None)
    assert listed(relation) == {("ann", "p"): 1, ("bob", "q"): 1}


def test_listed_zeros_are_not_listed_where_blanks_are_zeros():
    triplets = (["ann", "bob", "bob"], ["p", "q", "p"], [0.0, 2.0, 0.0])
    relation = Relation("r", "user", "page", triplets, "poisson", blanks="zero")
    assert len(relation.raw.x) == 1
    assert listed(relation) == {("ann", "p"): 0, ("ann", "q"): 0, ("bob", "p"): 0, ("bob", "q"): 2}


def test_a_null_value_is_refused_where_blanks_are_zeros():
    frame = pd.DataFrame({"who": ["ann", "bob"], "what": ["p", "q"], "n": [1, None]})
    relation = Relation.from_frame(
        "r", frame, rows="user", cols="page", row="who", col="what", value="n", blanks="zero"
    )
    with pytest.raises(DataError, match=r"row 'bob', column 'q' is nan.* give it a value: where blanks are zeros"):
        Collection([relation])
