import numpy as np
import pytest
from scipy import sparse

from gcmf.data import Relation
from gcmf.data.schema import RelationSchema
from gcmf.errors import DataError, OptionError

X = np.array([[5, np.nan, 1], [4, 2, np.nan]])


class Counting:
    name = "negative-binomial"
    support = "counts"


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
    likelihood = Counting()
    relation = Relation("r", "user", "movie", X, likelihood)
    assert relation.likelihood is likelihood
    assert relation.schema.likelihood == "negative-binomial"
    with pytest.raises(OptionError, match=r"or an object from gcmf\.likelihoods"):
        Relation("r", "user", "movie", X, Counting)


def test_names_must_be_strings():
    with pytest.raises(DataError) as caught:
        Relation("", 3, "movie", X)
    assert caught.value.faults == (
        "relation '': name= must be a non-empty string, not ''.",
        "relation '': rows= must be a non-empty string, not 3.",
    )


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((2, 2, 2)), np.ma.zeros(3), sparse.coo_array([1.0, 0])])
def test_refuses_other_dimensions(x):
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


def test_blanks_are_for_sparse_data():
    with pytest.raises(DataError, match=r"'r': blanks='zero' is for scipy.sparse .* Leave blanks= out"):
        Relation("r", "user", "movie", X, blanks="zero")


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


def test_sparse_pandas_frame_is_not_densified():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0])})
    with pytest.raises(DataError, match=r"give frame.sparse.to_coo\(\) with blanks="):
        Relation("r", "user", "trait", frame)
