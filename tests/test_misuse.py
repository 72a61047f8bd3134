"""What users get wrong, one line each: it is refused in words of this library, or it has a right answer.

Three kinds are left to Python and scikit-learn, whose own words are clear: a misspelled keyword, a misspelled
`set_params`, and a name that the package does not have.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf.errors import ConvergenceWarning, DataError, GcmfError, OptionError, UnknownIdError
from gcmf.likelihoods import Bernoulli, Poisson

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")

X = np.random.default_rng(0).normal(size=(12, 8))
B = (X > 0).astype(float)
EYE = sparse.eye_array(4).tocsr()
NAME = "a-b"


def model(**options):
    return gcmf.GCMF(**{"n_factors": 2, "max_iter": 5, "progress": False, "random_state": 0, **options})


def fit(**options):
    return model(**options).fit({("a", "b"): X})


@cache
def fitted():
    return fit()


def one(data, likelihood="gaussian", *, rows="a", cols="b", name="x", **more):
    return gcmf.Relation(name, rows, cols, data, likelihood, **more)


def together(*relations, **more):
    return gcmf.Collection(list(relations), **more)


def build(data, likelihood="gaussian", **more):
    return together(one(data, likelihood, **more))


def long(**more):
    frame = pd.DataFrame({"u": [1], "v": [2], "r": [3.0]})
    return gcmf.Relation.from_frame(
        "x", frame, **{"rows": "a", "cols": "b", "row": "u", "col": "v", "value": "r"} | more
    )


def grid(ids, cols=(0,), **more):
    return fitted().predict(NAME, ids, list(cols) if isinstance(cols, tuple) else cols, **more)


REFUSED = [
    # --- what is fitted
    ("fit(None)", lambda: model().fit(None), DataError, "takes a Collection, a Relation, a list .* NoneType"),
    ("fit(array)", lambda: model().fit(X), DataError, r"ndarray of shape \(12, 8\)"),
    ("fit(frame)", lambda: model().fit(pd.DataFrame(X)), DataError, "Got DataFrame"),
    ("fit([])", lambda: model().fit([]), DataError, "Got list"),
    ("fit([array])", lambda: model().fit([X]), DataError, "item 0 of the relations is ndarray"),
    ("fit({})", lambda: model().fit({}), DataError, "at least one relation"),
    ("fit({'a': X})", lambda: model().fit({"a": X}), DataError, "does not name a relation"),
    ("fit({('a',): X})", lambda: model().fit({("a",): X}), DataError, "does not name a relation"),
    ("Collection([])", together, DataError, "at least one relation"),
    ("Collection([array])", lambda: together(X), DataError, "not a Relation"),
    ("Collection(None)", lambda: gcmf.Collection(None), DataError, "not a Relation"),
    # --- data
    ("3-D", lambda: build(np.zeros((2, 3, 4))), DataError, "3 dimensions"),
    ("1-D", lambda: build(np.zeros(5)), DataError, "1 dimensions"),
    ("0-D", lambda: build(3.0), DataError, "cannot read float"),
    ("no rows", lambda: build(np.empty((0, 5))), DataError, "no observed cell"),
    ("text", lambda: build(np.array([["a", "b"], ["c", "d"]])), DataError, "not numbers but text"),
    ("objects", lambda: build(np.array([[1, None], ["z", 2]], dtype=object)), DataError, "not numbers"),
    ("complex", lambda: build(X + 1j), DataError, "not numbers but complex"),
    ("None", lambda: build(None), DataError, "cannot read NoneType"),
    ("generator", lambda: build(k for k in range(3)), DataError, "cannot read generator"),
    ("dates", lambda: build(np.array([["2020-01-01"]], dtype="M8[D]")), DataError, "not numbers but datetime"),
    ("infinity", lambda: build(np.array([[1, np.inf]])), DataError, "row 0, column 1 is inf"),
    ("all NaN", lambda: build(np.full((3, 3), np.nan)), DataError, "no observed cell"),
    ("1e200", lambda: build(X * 1e200), DataError, "relation 'x': row 0, column 0 is .* square overflows"),
    ("1e-170", lambda: build(X * 1e-170), DataError, "relation 'x': its values lie between .* vanishes"),
    ("count of 1e300", lambda: build(np.array([[1e300, 1.0]]), "poisson"), DataError, "more than float64 can count"),
    ("count of 2^60", lambda: build(np.array([[2**60, 1]]), "poisson"), DataError, "more than float64 can count"),
    ("sparse, no blanks", lambda: build(EYE), DataError, "must say what its blanks are"),
    ("blanks='foo'", lambda: build(EYE, blanks="foo"), DataError, "neither of the two choices"),
    ("triplets, blanks='foo'", lambda: build(([0], [0], [1.0]), blanks="foo"), DataError, "neither of the two"),
    ("long, blanks='foo'", lambda: long(blanks="foo"), DataError, "neither of the two choices"),
    ("dense, blanks='zero'", lambda: build(X, blanks="zero"), DataError, "an array has a value for every cell"),
    ("wide, blanks='zero'", lambda: build(pd.DataFrame(X), blanks="zero"), DataError, "a wide table has a value"),
    # --- likelihoods
    ("likelihood='gausian'", lambda: build(X, "gausian"), OptionError, "Did you mean 'gaussian'"),
    ("likelihood=None", lambda: build(X, None), OptionError, "not None"),
    ("likelihood=class", lambda: build(B, Bernoulli), OptionError, "an object from gcmf.likelihoods"),
    ("Bernoulli('tigth')", lambda: Bernoulli("tigth"), OptionError, "'bound' .* one of 'exact', 'tight'.* Got 'tigth'"),
    ("Bernoulli(None)", lambda: Bernoulli(None), OptionError, "Got None"),
    ("Poisson('foo')", lambda: Poisson("foo"), OptionError, "'bound' .* 'exact'. Got 'foo'"),
    ("Poisson(None)", lambda: Poisson(None), OptionError, "Got None"),
    *((f"zero_weight={w!r}", lambda w=w: Bernoulli(zero_weight=w), OptionError, "positive number")
      for w in (-1, 0, np.nan, np.inf, "a", True, None)),
    ("bernoulli of 0.5", lambda: build(X, "bernoulli"), DataError, "bernoulli cells must be 0 or 1"),
    ("poisson of -1", lambda: build(-np.ones((2, 2)), "poisson"), DataError, "integers >= 0"),
    # --- schema
    ("rows == cols", lambda: build(X[:8], cols="a"), DataError, "must say which way its cells go"),
    ("the same name twice", lambda: together(one(X), one(X, cols="c")), DataError, "2 relations are named 'x'"),
    ("sizes disagree", lambda: together(one(X), one(X[:5], cols="c", name="y")), DataError, "sizes must agree"),
    ("rows=3", lambda: build(X, rows=3), DataError, "rows= must be a non-empty string"),
    ("name=None", lambda: build(X, name=None), DataError, "name= must be a non-empty string"),
    # --- ids
    ("repeated ids", lambda: build(pd.DataFrame(X, index=["i"] * 12)), DataError, "'i' comes more than once"),
    ("repeated cells", lambda: build(([1, 1], [2, 2], [3.0, 4.0])), DataError, "is given 2 times"),
    ("repeated cells among zeros", lambda: build(([1, 1], [2, 2], [0.0, 4.0]), blanks="zero"), DataError, "2 times"),
    ("unequal triplets", lambda: build(([1, 2], [2], [3.0, 4.0])), DataError, "2 row ids, 1 column ids"),
    ("NaN id", lambda: build(([1, np.nan], [2, 2], [3.0, 4.0])), DataError, "null row id"),
    ("unhashable ids", lambda: build(([[1], [2]], [1, 2], [3.0, 4.0])), DataError, "cannot be used: unhashable"),
    ("1 and '1'", lambda: build(([1, "1"], [1, 2], [3.0, 4.0])), DataError, "2 kinds.* such as 1;.* such as '1'"),
    ("1 and True", lambda: build(([1, True], [1, 2], [3.0, 4.0])), DataError, "to Python True is 1"),
    ("row_ids, too few", lambda: build(X, row_ids=[1, 2]), DataError, "row_ids= has 2 ids, and the data has 12 rows"),
    ("row_ids, a word", lambda: build(X, row_ids="abcdefghijkl"), DataError, "row_ids= must be a list of ids"),
    ("col_ids, repeated", lambda: build(EYE, blanks="zero", col_ids=list("aabc")), DataError, "'a' comes more than"),
    ("col_ids, unhashable", lambda: build(X, col_ids=[[k] for k in range(8)]), DataError, "unhashable type"),
    ("row_ids of triplets", lambda: build(([1], [1], [1.0]), row_ids=[1]), DataError, "ids of its own"),
    ("row_ids of a frame", lambda: build(pd.DataFrame(X), row_ids=range(12)), DataError, "ids of its own"),
    ("no such column", lambda: long(row="user"), DataError, "row='user' is not a column"),
    ("entities: no such set", lambda: together(one(X), entities={"z": [1]}), DataError, "no relation uses"),
    ("entities: a word", lambda: together(one(X), entities={"a": "abc"}), DataError, "must be a list of ids"),
    ("entities: unhashable", lambda: together(one(([1], [1], [1.0])), entities={"a": [[1]]}), DataError, "unhashable"),
    ("entities: no mapping", lambda: together(one(X), entities=["a"]), DataError, "must be a mapping"),
    # --- options
    *((f"{name}={value!r}", lambda name=name, value=value: fit(**{name: value}), OptionError, name)
      for name, values in {
          "n_factors": (0, -1, 2.5, "5", None, True, 10**9, np.array([1, 2])),
          "max_iter": (0, 1.5, True), "n_init": (0, None), "n_threads": (0, "all"),
          "tol": (-1, np.nan, np.inf, "x", True),
          "random_state": ("abc", -1, 1.5, True), "dtype": ("float16", np.float32, None), "device": ("tpu", 0),
          "sharing": ("both",), "inference": ("mcmc", "map", ["vb"]),
          "bias": ("rows", {"zzz": True}, {NAME: 3}, {NAME: None}, None), "priors": ("vague", 3),
          "callbacks": ([3], 3, None), "progress": ("yes", None, 1), "checkpoint": (3,),
          "checkpoint_every": (-1, "1", None, np.nan),
      }.items() for value in values),
    *((f"Priors({value!r})", lambda value=value: gcmf.Priors(tau_rate=value), OptionError, "tau_rate must be")
      for value in (0, -1, np.nan, np.inf, True, "1", None)),
    ("priors={'alpha': 1}", lambda: fit(priors={"alpha": 1}), OptionError, "Priors has no 'alpha'"),
    # --- questions
    ("predict before fit", lambda: gcmf.GCMF().predict("x"), GcmfError, "not fitted yet"),
    ("unknown relation", lambda: fitted().predict("ab"), UnknownIdError, "no relation 'ab'.* Did you mean 'a-b'"),
    ("relation=None", lambda: fitted().predict(None), UnknownIdError, "no relation None"),
    ("relation=[...]", lambda: fitted().predict([NAME]), UnknownIdError, "no relation"),
    ("unknown id", lambda: grid([99]), UnknownIdError, "never seen a 99"),
    ("negative id", lambda: grid([-1]), UnknownIdError, "never seen a -1"),
    ("id '0'", lambda: grid(["0"]), UnknownIdError, "never seen a '0'. Did you mean 0. The ids are numbers"),
    ("id NaN", lambda: grid([np.nan]), UnknownIdError, "never seen a nan"),
    ("id True among numbers", lambda: grid([True, 2], (0, 0)), UnknownIdError, "never seen a True"),
    ("lengths 2 and 3", lambda: grid([0, 1], (0, 1, 2)), OptionError, "2 rows and 3 columns"),
    ("2-D list", lambda: grid([[0, 1]]), OptionError, "must be one list of ids"),
    ("2-D array", lambda: grid(np.zeros((1, 2), int)), OptionError, "must be one column of ids"),
    ("a mask", lambda: grid(np.ones(12, bool), 0), UnknownIdError, r"give ids\[mask\]"),
    ("a mapping of ids", lambda: grid({0: 1}), OptionError, "list in an order"),
    ("a set of ids", lambda: grid({0, 1}, (0, 1)), OptionError, "list in an order"),
    ("a tuple is one id", lambda: grid((0, 1), (0, 1)), UnknownIdError, r"never seen a \(0, 1\)"),
    ("unknown='foo'", lambda: grid([0], unknown="foo"), OptionError, "'unknown' parameter must be one of"),
    ("grid='no'", lambda: grid([0], grid="no"), OptionError, "'grid' parameter must be one of True, False"),
    ("return_std='no'", lambda: grid([0], return_std="no"), OptionError, "'return_std' parameter"),
    ("factors('zzz')", lambda: fitted().factors("zzz"), UnknownIdError, "no entity set 'zzz'"),
    ("factors(['a'])", lambda: fitted().factors(["a"]), UnknownIdError, "no entity set"),
    ("factors: std='no'", lambda: fitted().factors("a", std="no"), OptionError, "'std' parameter must be one of"),
    ("biases: std=2", lambda: fitted().biases(NAME, "rows", std=2), OptionError, "'std' parameter must be one of"),
    ("side='row'", lambda: fitted().biases(NAME, "row"), OptionError, "'side' parameter must be one of"),
    ("score(array)", lambda: fitted().score(X), DataError, "GCMF.score takes a Collection"),
    ("score(frame)", lambda: fitted().score(pd.DataFrame(X)), DataError, "Got DataFrame"),
    ("score(None)", lambda: fitted().score(None), DataError, "Got NoneType"),
    ("score: other names", lambda: fitted().score(build(X, name="zz")), UnknownIdError, "no relation 'zz'"),
    ("score: other sets", lambda: fitted().score(build(X, name=NAME, cols="c")), DataError, "'a' and 'b' in the model"),
    ("score: other likelihood", lambda: fitted().score(build(B, "bernoulli", name=NAME)), DataError,
     "was fitted as gaussian, and is bernoulli"),
    # --- parts
    *((f"split({k}={v!r})", lambda k=k, v=v: build(X).split(**{k: v}), GcmfError, word)
      for k, v, word in (("test_size", 2, "a share"), ("test_size", 0, "a share"), ("test_size", "a", "a share"),
                         ("test_size", True, "a share"), ("test_size", np.nan, "a share"), ("by", "rows", "by='rows'"),
                         ("by", ["cell"], "by="), ("relations", ["q"], "named 'q'"),
                         ("relations", 3, "must be names of relations"),
                         ("random_state", "a", "random_state"), ("random_state", -1, "random_state"))),
    ("folds(1)", lambda: build(X).folds(n_folds=1), OptionError, "n_folds=1"),
    ("folds(True)", lambda: build(X).folds(n_folds=True), OptionError, "n_folds=True"),
    ("folds(1000)", lambda: build(X).folds(n_folds=1000), DataError, "96 observed cells"),
    # --- special cases
    ("GFA.fit(X)", lambda: gcmf.GFA(2).fit(X), DataError, "For a single table use gcmf.PCA"),
    ("GFA.fit([])", lambda: gcmf.GFA(2).fit([]), DataError, "takes a list of tables"),
    ("CCA.fit(X)", lambda: gcmf.CCA(2).fit(X), DataError, "takes two tables"),
    ("CCA: rows disagree", lambda: gcmf.CCA(2).fit(X, X[:5]), DataError, "'X' has 12, 'Y' has 5"),
    ("CCA of text", lambda: gcmf.CCA(2).fit(X, [["a"]] * 12), DataError, "could not convert string"),
    ("PCA of text", lambda: gcmf.PCA(2).fit([["a"]]), DataError, "could not convert string"),
    ("PCA of 1e200", lambda: gcmf.PCA(2).fit(X * 1e200), DataError, "relation 'X'.* overflows"),
    ("PCA, random_state", lambda: gcmf.PCA(2, random_state="a").fit(X), OptionError, "'random_state' parameter"),
    ("PCA: other width", lambda: gcmf.PCA(2, max_iter=5, random_state=0).fit(X).transform(X[:, :3]), DataError,
     "3 features, but PCA is expecting 8"),
]  # fmt: skip


@pytest.mark.parametrize(("do", "error", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_misuse_is_refused_in_words(do, error, words):
    with pytest.raises(error, match=words) as caught:
        do()
    assert isinstance(caught.value, GcmfError)


@pytest.mark.parametrize(
    ("do", "error", "words"),
    [
        (lambda: gcmf.GCMF(n_factor=3), TypeError, "unexpected keyword argument 'n_factor'"),
        (lambda: gcmf.GCMF().set_params(foo=1), ValueError, "Invalid parameter 'foo' for estimator GCMF"),
        (lambda: gcmf.Foo, AttributeError, "module 'gcmf' has no attribute 'Foo'"),
    ],
)
def test_what_python_and_scikit_learn_say_is_clear(do, error, words):
    with pytest.raises(error, match=words):
        do()


# --- right answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [one(X, name=NAME), [one(X, name=NAME)], (one(X, name=NAME),)], ids=["relation", "list", "tuple"]
)
def test_relations_are_fitted_without_a_collection(data):
    np.testing.assert_array_equal(model().fit(data).predict(NAME), fitted().predict(NAME))


def test_scores_take_what_fits_take():
    whole = fitted().score(build(X, name=NAME))
    pd.testing.assert_frame_equal(fitted().score(one(X, name=NAME)), whole)
    pd.testing.assert_frame_equal(fitted().score([one(X, name=NAME)]), whole)
    pd.testing.assert_frame_equal(fitted().score({("a", "b"): X}), whole)


def test_a_relation_given_the_other_way_round_is_turned():
    turned = gcmf.Relation(NAME, "b", "a", X.T)
    there, back = (fitted().score(data).loc[NAME] for data in (one(X, name=NAME), turned))
    np.testing.assert_allclose(back.to_numpy(), there.to_numpy(), rtol=1e-12)


def test_priors_may_be_a_mapping_and_any_number():
    assert gcmf.Priors(alpha_shape=np.float32(1)) == gcmf.Priors(alpha_shape=1.0)
    given = fit(priors={"alpha_shape": 1, "alpha_rate": 1})
    np.testing.assert_array_equal(
        given.predict(NAME), fit(priors=gcmf.Priors(alpha_shape=1, alpha_rate=1)).predict(NAME)
    )
    assert given.elbo_ != fitted().elbo_


def test_a_single_callback_is_called():
    seen = []
    fit(callbacks=seen.append)
    assert [info.iteration for info in seen] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "make",
    [lambda: np.random.RandomState(3), lambda: np.random.Generator(np.random.RandomState(3)._bit_generator)],
    ids=["RandomState", "its generator"],
)
def test_a_random_state_of_the_old_kind(make):
    np.testing.assert_array_equal(fit(random_state=make()).predict(NAME), fit(random_state=make()).predict(NAME))
    assert not np.array_equal(fit(random_state=make()).predict(NAME), fitted().predict(NAME))
    train, test = build(X).split(random_state=np.random.RandomState(3))
    assert (train.n_cells, test.n_cells) == (77, 19)


def test_more_threads_than_cores_are_as_many_as_there_are():
    np.testing.assert_array_equal(fit(n_threads=10**6).predict(NAME), fitted().predict(NAME))


def test_numbers_that_are_equal_are_one_id_and_no_ids_are_no_answers():
    np.testing.assert_array_equal(grid([0.0]), grid([0]))
    np.testing.assert_array_equal(grid(np.array(0)), grid([0]))
    assert grid([], ()).shape == grid([]).shape == (0,)


def test_levels_of_columns_are_ids():
    columns = pd.MultiIndex.from_product([[0, 1], [0, 1]])
    assert build(pd.DataFrame(X[:, :4], columns=columns)).entities["b"].ids.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_one_name_is_a_list_of_one():
    assert build(X).split(relations="x")[1].n_cells == 19
    assert gcmf.Collection(one(X)).n_cells == 96


def test_a_fit_that_ends_early_says_so():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fit()
