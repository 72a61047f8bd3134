"""What each relation, covariate, form and factor adds to predictions, in one table and one figure."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf import plot
from gcmf.errors import OptionError, UnknownIdError
from gcmf.io import evaluate as module
from gcmf.io.variants import as_covariates, as_relation, variants, without_factors

OPTIONS = {"n_factors": 6, "tol": 1e-4, "n_threads": 1}


@pytest.fixture(scope="module")
def data():
    """Ratings of which genres and age tell much, and city, height and a relation of noise nothing."""
    rng = np.random.default_rng(0)
    n, m = 100, 60
    age = rng.normal(size=n)
    u, v = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    u[:, 0] = age + 0.3 * rng.normal(size=n)
    x = u @ v.T + 0.5 * rng.normal(size=(n, m))
    x[rng.random(x.shape) < 0.85] = np.nan
    genres = v @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(m, 8))
    people = pd.DataFrame({"age": age, "city": rng.choice(list("abc"), n), "height": rng.normal(size=n)})
    return gcmf.Collection(
        [gcmf.Relation("ratings", "user", "movie", x), gcmf.Relation("genres", "movie", "genre", genres),
         gcmf.Relation("noise", "user", "thing", rng.normal(size=(n, 5)))],
        entities={"user": people},
    )  # fmt: skip


@pytest.fixture(scope="module")
def table(data):
    groups = {"age": ["age"], "the rest": ["city", "height"]}
    return gcmf.evaluate(data, OPTIONS, relations="ratings", n_folds=3, columns=groups, factors=True, n_jobs=2)


def test_what_tells_something_is_told_from_what_does_not(table):
    found = table.set_index("method")
    added, error = found["difference"], found["difference_se"]
    for name in ("without genres", "without covariates of user", "without age", "alone", "biases only", "without F1"):
        assert added[name] > 2 * error[name] > 0, name
    for name in ("without noise", "without the rest"):
        assert abs(added[name]) < 0.02, name
    assert found["kind"].to_dict() == {
        "gCMF": "model", "without F1": "factor", "without F2": "factor", "CMF": "model", "without genres": "relation",
        "without noise": "relation", "without covariates of user": "covariates", "without age": "columns",
        "without the rest": "columns", "alone": "model", "biases only": "model",
    }  # fmt: skip
    assert (found["found"].dropna() == 3).all()
    assert found["found"].notna().sum() == 2


def test_the_number_of_jobs_does_not_matter(data):
    short = {**OPTIONS, "max_iter": 3}
    one, three = (gcmf.evaluate(data, short, relations=["ratings"], n_folds=2, n_jobs=n_jobs) for n_jobs in (1, 3))
    assert len(one) == 7
    assert one["unconverged"].sum() > 7
    pd.testing.assert_frame_equal(one, three)


def test_the_table_is_drawn(table):
    figure = plot.evaluation(pd.concat([table, table.assign(relation="again")]))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")
    texts = {text.get_text() for text in figure.findobj(matplotlib.text.Text)}
    assert {"without genres", "without F1", "biases only"} <= texts
    assert "again: RMSE minus that of the whole model" in texts
    assert "gCMF" not in texts


def test_columns_are_left_out_each_or_by_group(data):
    names = [v.name for v in variants(data, "ratings", columns=True) if v.kind == "columns"]
    assert names == ["without age", "without city", "without height"]
    one = next(v for v in variants(data, "ratings", columns=True) if v.name == "without city")
    known = data.entities["user"].covariates
    left = one.seen(data).entities["user"].covariates
    assert [str(feature) for feature in left.features] == ["age", "height"]
    assert left.group.tolist() == [0, 1]
    kept = [k for k, feature in enumerate(known.features) if feature.column != "city"]
    np.testing.assert_array_equal(left.values, known.values[:, kept])
    assert known.without(["age", "city", "height"]) is None
    with pytest.raises(UnknownIdError, match=r"No covariate is named 'ages'.*Did you mean 'age'"):
        variants(data, "ratings", columns={"group": ["ages"]})


def test_tables_are_relations_or_covariates(data):
    forms = {v.name: v for v in variants(data, "ratings", forms=True) if v.kind == "form"}
    assert list(forms) == ["genres as covariates", "noise as covariates", "covariates of user as a relation"]
    turned = forms["genres as covariates"].seen(data)
    assert list(turned.relations) == ["ratings", "noise"]
    known = turned.entities["movie"].covariates
    x = data.relations["genres"].cells.triplets().x.reshape(60, 8)
    np.testing.assert_allclose(known.values + known.center, (x - x.mean()) / x.std(), atol=1e-6)
    both = forms["noise as covariates"].seen(data).entities["user"].covariates
    assert both.n_columns == 4
    assert both.values.shape == (100, 10)
    back = as_relation(data, "user")
    assert back.entities["user"].covariates is None
    relation = back.relations["covariates of user"]
    assert relation.shape == (100, 5)
    model = gcmf.GCMF(2, max_iter=2, random_state=0, progress=False)
    with pytest.warns(gcmf.errors.ConvergenceWarning):
        model.fit(back)


def test_wide_tables_stay_sparse():
    rng = np.random.default_rng(0)
    words = sparse.csr_array(np.where(rng.random((40, 150)) < 0.05, rng.random((40, 150)), 0.0))
    users = (list(range(30)), sparse.csr_array(np.where(rng.random((30, 120)) < 0.1, rng.random((30, 120)), 0.0)))
    data = gcmf.Collection(
        [gcmf.Relation("x", "user", "text", rng.normal(size=(30, 40))),
         gcmf.Relation("words", "text", "word", words, blanks="zero")], entities={"user": users},
    )  # fmt: skip
    known = as_covariates(data, "words").entities["text"].covariates
    assert sparse.issparse(known.values)
    assert known.values.shape == (40, 150)
    joined = known.joined(known)
    assert sparse.issparse(joined.values)
    assert joined.group.max() == 1


def test_zeros_are_not_listed_in_another_form():
    """A hundred thousand texts and words have 10^10 cells, of which these have 500 that are none."""
    rng = np.random.default_rng(0)
    n, at = 100_000, (rng.choice(100_000, 500, replace=False), rng.choice(100_000, 500, replace=False))
    counts = sparse.csr_array((rng.integers(1, 9, 500).astype(float), at), shape=(n, n))
    links = sparse.csr_array((np.ones(500), at), shape=(n, n))
    for likelihood in ("gaussian", "poisson"):
        data = gcmf.Collection(
            [gcmf.Relation("words", "text", "word", counts, likelihood, blanks="zero"),
             gcmf.Relation("links", "text", "user", links, "bernoulli", blanks="zero")],
            entities={"user": (range(n), counts)},
        )  # fmt: skip
        known = as_covariates(data, "words").entities["text"].covariates.values
        mean = counts.sum() / n**2
        deviation = np.sqrt((counts.data**2).sum() / n**2 - mean**2) if likelihood == "gaussian" else 1.0
        assert abs(known - counts / deviation).max() < 1e-9 / deviation
        back = as_relation(data, "user").relations["covariates of user"].cells
        assert back.filled
        assert back.n_cells == n**2
        np.testing.assert_array_equal(np.sort(back.rows.value), np.sort(counts.data))


def test_forms_of_tables_with_zeros():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((30, 150)) < 0.1, rng.integers(1, 5, (30, 150)), 0).astype(float)
    relations = [gcmf.Relation("x", "user", "text", rng.normal(size=(20, 30))),
                 gcmf.Relation("words", "text", "word", sparse.csr_array(x), blanks="zero")]  # fmt: skip
    data = gcmf.Collection(relations)
    known = as_covariates(data, "words").entities["text"].covariates
    np.testing.assert_allclose(known.values.toarray(), x / x.std(), rtol=1e-12)
    back = as_relation(as_covariates(data, "words"), "text").relations["covariates of text"]
    value = back.cells.triplets().x
    np.testing.assert_array_equal(value.reshape(30, 150), known.values.toarray())
    found = gcmf.evaluate(data, {**OPTIONS, "max_iter": 2}, relations="x", n_folds=2, forms=True, n_jobs=1)
    assert "words as covariates" in set(found["method"])


def test_factors_are_found_again_by_what_they_do(data):
    named = gcmf.GCMF(**OPTIONS, random_state=0, progress=False).fit(data)
    other = gcmf.GCMF(**OPTIONS, random_state=5, progress=False).fit(data)
    ratings = data.relations["ratings"]
    for model in (named, other):
        less = without_factors(model, named, ratings)
        assert list(less) == ["without F1", "without F2"]
        parts = [model.predict("ratings") - one.predict("ratings") for one in less.values()]
        own = [
            named.factors("user")[[f"F{k}"]].to_numpy() @ named.factors("movie")[[f"F{k}"]].to_numpy().T for k in (1, 2)
        ]
        for part, wanted in zip(parts, own, strict=True):
            assert np.corrcoef(part.ravel(), wanted.ravel())[0, 1] > 0.95
    flat = gcmf.GCMF(1, random_state=0, progress=False, bias=True)
    flat._fit(data, flat._options(n_factors=1, pattern={name: (False,) for name in data.schema.entities}))
    assert without_factors(flat, named, ratings) == {"without F1": None, "without F2": None}


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_ctrl_c_ends_all_fits(data, n_jobs, monkeypatch):
    calls = []

    def pressed(*arguments):
        calls.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "score", pressed)
    with pytest.raises(KeyboardInterrupt):
        gcmf.evaluate(data, {**OPTIONS, "max_iter": 3}, relations=["ratings"], n_folds=2, n_jobs=n_jobs)
    # A thread that is done may take up one more before the others are told.
    assert len(calls) <= 2 * n_jobs


def test_what_cannot_be_evaluated_is_refused(data):
    with pytest.raises(UnknownIdError, match=r"no relation 'rating'.*Did you mean 'ratings'"):
        gcmf.evaluate(data, relations=["rating"])
    with pytest.raises(OptionError, match="n_jobs"):
        gcmf.evaluate(data, n_jobs=0)
    with pytest.raises(gcmf.errors.DataError, match="evaluate takes a Collection"):
        gcmf.evaluate(np.eye(3))
