"""Each refusal of a collection, read as a person would read it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gcmf.data import Collection, Relation
from gcmf.errors import DataError

OK = Relation("ok", "user", "movie", np.ones((2, 3)))


def faults(*relations, **options):
    with pytest.raises(DataError) as caught:
        Collection(relations, **options)
    return caught.value.faults


def triplets(rows, cols, x, likelihood="gaussian", name="r"):
    return Relation(name, "user", "movie", (rows, cols, x), likelihood)


def test_nan_and_infinity_among_given_values():
    assert faults(triplets(["u", "v"], ["a", "b"], [np.nan, 1])) == (
        "relation 'r': row 'u', column 'a' is nan, but an observed cell must be a finite number; drop it if"
        " it is missing.",
    )
    masked = np.ma.MaskedArray([[np.nan, 1.0]], [[False, True]])
    stored = sparse.coo_array(([np.nan], ([0], [0])), shape=(1, 1))
    for data, blanks in ((masked, None), (stored, "missing"), (stored, "zero")):
        (fault,) = faults(Relation("r", "user", "movie", data, blanks=blanks))
        assert fault.startswith("relation 'r': row 0, column 0 is nan, but an observed cell must be")


@pytest.mark.parametrize("frame", [lambda x: x, pd.DataFrame])
def test_infinity_is_never_missing(frame):
    x = np.array([[1, np.inf, -np.inf, np.nan]])
    (fault,) = faults(Relation("r", "user", "movie", frame(x)))
    assert fault.startswith("relation 'r': row 0, column 1 is inf (and 1 more), but an observed cell must be")


def test_bernoulli_values():
    assert faults(triplets(["u", "v", "v"], ["a", "b", "c"], [1, 0.5, 2], "bernoulli")) == (
        "relation 'r': row 'v', column 'b' is 0.5 (and 1 more), but bernoulli cells must be 0 or 1; recode"
        " them, or use another likelihood.",
    )


@pytest.mark.parametrize("value", [-1, 2.5])
def test_poisson_values(value):
    assert faults(triplets([7, 8], [np.int32(1), np.int32(2)], [3, value], "poisson")) == (
        f"relation 'r': row 8, column 2 is {value}, but poisson cells must be integers >= 0; recode them, or"
        " use another likelihood.",
    )


def test_value_is_shown_as_it_was_given():
    (fault,) = faults(triplets(["u"], ["a"], np.array([0.1], np.float32), "poisson"))
    assert "is 0.1, but" in fault


@pytest.mark.parametrize(
    "data", [np.full((2, 2), np.nan), np.empty((0, 3)), pd.DataFrame({"a": [np.nan]}), ([], [], [])]
)
def test_empty_relation(data):
    (fault,) = faults(Relation("r", "user", "movie", data))
    assert fault.startswith("relation 'r' has no observed cell (")
    assert fault.endswith("leave it out, and declare its ids with entities= if they are needed.")


def test_empty_filled_relation():
    (fault,) = faults(Relation("r", "user", "movie", sparse.coo_array((0, 3)), blanks="zero"))
    assert "has no observed cell" in fault


def test_entity_set_that_nothing_observes():
    assert faults(OK, entities={"moive": [1, 2]}) == (
        "entities={'moive': ...}: no relation uses the entity set 'moive', so nothing observes it; there are"
        " 'user', 'movie'. Did you mean 'movie'?",
    )


def test_duplicate_cells():
    assert faults(triplets(["u", "v", "v", "v", "u", "u"], ["a", "b", "b", "b", "a", "c"], [1, 2, 3, 4, 5, 6])) == (
        "relation 'r': row 'u', column 'a' is given 2 times (and 1 more); keep one value per cell, for"
        " example their mean or the last one.",
    )
    stored = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    for blanks in ("missing", "zero"):
        (fault,) = faults(Relation("r", "user", "movie", stored, blanks=blanks))
        assert "row 0, column 1 is given 2 times" in fault


def test_duplicate_and_null_ids_of_a_frame():
    frame = pd.DataFrame(np.ones((3, 3)), index=["u", "u", None], columns=["a", "b", "a"])
    assert faults(Relation("r", "user", "movie", frame)) == (
        "relation 'r', row ids: a null id at position 2; give every entity an id.",
        "relation 'r', row ids: the id 'u' comes more than once; make the ids distinct, or merge what belongs"
        " to one id.",
        "relation 'r', column ids: the id 'a' comes more than once; make the ids distinct, or merge what"
        " belongs to one id.",
    )


def test_duplicate_and_malformed_declared_ids():
    (fault,) = faults(OK, entities={"user": [0, 1, 1]})
    assert fault.startswith("entities={'user': ...}: the id 1 comes more than once")
    (fault,) = faults(triplets(["u"], ["a"], [1]), entities={"user": np.array([["u", "v"]])})
    assert fault == "entities={'user': ...} must be one column of ids, or a data frame that has them."
    (fault,) = faults(triplets(["u"], ["a"], [1]), entities={"user": "abc"})
    assert fault == "entities={'user': 'abc'} must be a list of ids."


def test_bare_arrays_of_different_sizes():
    assert faults(OK, Relation("traits", "user", "trait", np.ones((4, 2)))) == (
        "entity set 'user' has 2 entities in relation 'ok' and 4 in relation 'traits'; bare arrays are"
        " matched by position, so their sizes must agree. If the entities differ, give data frames"
        " that carry their ids, or row_ids= and col_ids=.",
    )


@pytest.mark.parametrize(("ids", "shown"), [(["u"], "'u'"), ([2], "2"), ([-1], "-1"), ([0.5], "0.5")])
def test_positions_do_not_meet_names(ids, shown):
    labeled = Relation("traits", "user", "trait", (ids, ["t"], [1.0]))
    assert faults(OK, labeled) == (
        "entity set 'user': relation 'ok' is a bare array, whose ids are positions, and relation 'traits'"
        f" brings ids such as {shown}; positions cannot be matched with names. Give 'ok' as a data frame with"
        " ids, or use integers within 0..n-1 everywhere.",
    )


def test_positions_do_not_meet_declared_names():
    (fault,) = faults(OK, entities={"user": ["ann", "bob"]})
    assert "and entities={'user': ...} brings ids such as 'ann'; positions cannot be matched" in fault


def test_ids_that_cannot_be_ids():
    with pytest.raises(DataError, match=r"'r': the row ids cannot be used: unhashable type: 'list'"):
        triplets([[1], [2]], ["a", "b"], [1, 2])
    with pytest.raises(DataError, match=r"'r': 3,000,000,000 entities on one side are too many"):
        Relation("r", "user", "movie", sparse.coo_array((3 * 10**9, 5)), blanks="zero")


def test_repeated_name():
    other = Relation("ok", "movie", "genre", np.ones((3, 1)))
    assert faults(OK, other) == ("2 relations are named 'ok'; give each its own name.",)


@pytest.mark.parametrize(("rows", "cols", "shape"), [("user", "movie", (2, 3)), ("movie", "user", (3, 2))])
def test_two_relations_between_the_same_sets_are_taken(rows, cols, shape):
    data = Collection([OK, Relation("again", rows, cols, np.ones(shape))])
    assert (data.schema.entities, data.n_cells) == (("user", "movie"), 12)


def test_relation_of_a_set_with_itself_says_which_way():
    with pytest.raises(DataError, match="'friends' joins the entity set 'user' with itself and must say which way"):
        Relation("friends", "user", "user", np.ones((2, 2)))
    with pytest.raises(DataError, match="which way its cells go, not 'yes'"):
        Relation("friends", "user", "user", np.ones((2, 2)), symmetric="yes")
    with pytest.raises(DataError, match="symmetric=True is for a relation of a set with itself"):
        Relation("ok", "user", "movie", np.ones((2, 2)), symmetric=True)


def network(*cells, **options):
    return Relation("friends", "user", "user", tuple(zip(*cells, strict=True)), **{"symmetric": True, **options})


def test_a_symmetric_relation_with_two_values_for_a_pair():
    (fault,) = faults(network(("a", "b", 1.0), ("b", "c", 2.0), ("b", "a", 3.0)))
    assert fault == (
        "relation 'friends' is symmetric, but row 'b', column 'a' is 3.0 and row 'a', column 'b' is 1.0; keep one of"
        " the two values, or give symmetric=False."
    )
    assert Collection([network(("a", "b", 1.0), ("b", "c", 2.0), ("b", "a", 3.0), symmetric=False)]).n_cells == 3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_that_differ_by_rounding_are_one(dtype):
    x = np.corrcoef(np.random.default_rng(0).normal(size=(12, 9)) + 3.0).astype(dtype)
    x[np.triu_indices(12, 1)] *= 1 + 2 * np.finfo(dtype).eps
    assert (x != x.T).sum() > 50
    data = Collection([Relation("likeness", "user", "user", x, symmetric=True)])
    i, j, value = data.relations["likeness"].cells.triplets()
    np.testing.assert_array_equal(value, x[np.minimum(i, j), np.maximum(i, j)])
    weighed = Relation("likeness", "user", "user", ([0, 1], [1, 0], [x[0, 1], x[1, 0]]), symmetric=True,
                       weight=[0.3, 0.1 + 0.2])  # fmt: skip
    assert Collection([weighed]).relations["likeness"].n_cells == 1


@pytest.mark.parametrize("pair", [(1.0, 1.0 + 1e-12), (16_777_216.0, 16_777_214.0), (1e-20, 3e-20), (0.0, 1e-300)])
def test_values_that_differ_by_more_are_not(pair):
    for dtype in ("float64", "float32") if pair[0] > 2.0 else ("float64",):
        cells = [0, 1, 2], [1, 0, 0], np.array([*pair, 1e6], dtype)
        (fault,) = faults(Relation("friends", "user", "user", cells, symmetric=True))
        assert "is symmetric, but row 1, column 0" in fault


def test_no_entity_has_a_cell_with_itself():
    (fault,) = faults(network(("a", "b", 1.0), ("b", "b", 2.0)))
    assert fault == (
        "relation 'friends': row 'b', column 'b' is 2.0, but no entity has a cell with itself; leave such lines out."
    )
    # Of a matrix the diagonal is passed over.
    assert Collection([Relation("x", "a", "a", np.arange(9.0).reshape(3, 3), symmetric=False)]).n_cells == 6


def test_arrays_of_a_set_with_itself_are_square():
    (fault,) = faults(Relation("x", "a", "a", np.ones((3, 2)), symmetric=False))
    assert "relation 'x' joins 'a' with itself, and has 3 rows and 2 columns" in fault


def test_what_is_no_relation():
    assert faults() == ("a collection needs at least one relation.",)
    with pytest.raises(DataError, match=r"item 1 of the relations is ndarray, not a Relation"):
        Collection([OK, np.ones(3)])
    with pytest.raises(DataError, match=r"use Collection.from_mapping"):
        Collection({("user", "movie"): np.ones((2, 2))})


def test_all_faults_come_together():
    found = faults(
        triplets(["u", "u"], ["a", "a"], [2, np.inf], "bernoulli"),
        Relation("counts", "movie", "word", (["a"], ["w"], [-1]), "poisson"),
        Relation("none", "word", "topic", (["w"], ["t"], [np.nan])),
        entities={"wrod": ["x"]},
    )
    assert len(found) == 6
    for part, fault in zip(["'wrod'", "is inf", "is 2,", "'counts'", "'none'", "2 times"], found, strict=False):
        assert part in fault


def test_message_is_numbered():
    with pytest.raises(DataError) as caught:
        Collection([OK, Relation("ok", "user", "trait", np.ones((4, 2)))])
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 faults in the data:"
    assert [line[:5] for line in lines[1:]] == ["  1. ", "  2. "]


def test_a_relation_of_a_set_with_itself_has_one_fault():
    with pytest.raises(DataError) as caught:
        Collection([Relation("f", "a", "a", np.zeros((6, 2)) + np.arange(2.0))])
    assert len(caught.value.faults) == 1
    assert "with itself" in caught.value.faults[0]


@pytest.mark.parametrize("name", ["role", "relations"])
def test_an_entity_set_is_not_named_as_a_column_of_its_structure(name):
    with pytest.raises(DataError, match=f"cannot be named '{name}'"):
        Collection([Relation("x", name, "b", np.eye(3))])
