"""A fit from drawn zeros: like one from all of them, the same for any number of threads, and it says so."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import gcmf
from gcmf import GCMF, Collection, Relation
from gcmf.data import cells, zeros
from gcmf.errors import DataError
from gcmf.io.results import describe
from gcmf.outcome import Status

SHAPE = (150, 240)


@pytest.fixture(scope="module")
def truth():
    """Rare ones of two factors and of biases."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(SHAPE[0], 2)) @ rng.normal(size=(2, SHAPE[1])) * 1.2 + rng.normal(size=SHAPE[1]) - 4.5
    return 1.0 / (1.0 + np.exp(-theta))


@pytest.fixture(scope="module")
def data(truth):
    """Those ones, some 4% of all cells, and a few counts."""
    x = np.random.default_rng(1).random(SHAPE) < truth
    return Collection(
        [Relation("clicks", "user", "page", sparse.csr_array(x.astype(float)), "bernoulli", blanks="zero")]
    )


@pytest.fixture
def few(monkeypatch):
    """Small relations count as large ones."""
    monkeypatch.setattr(zeros, "MANY", 1000)
    monkeypatch.setattr(zeros, "PER_ENTITY", 4)
    monkeypatch.setattr(zeros, "PER_CELL", 5)


def log_loss(model, truth):
    """Of new cells, on average."""
    p = model.predict("clicks")
    return -float((truth * np.log(p) + (1.0 - truth) * np.log1p(-p)).mean())


def test_a_fit_from_drawn_zeros_predicts_as_one_from_all(data, truth, few, monkeypatch):
    drawn = GCMF(2, random_state=0).fit(data)
    monkeypatch.setattr(zeros, "MANY", 10**9)
    whole = GCMF(2, random_state=0).fit(data)
    assert not whole.fitted_.drawn
    assert drawn.fitted_.drawn["clicks"].n < drawn.fitted_.drawn["clicks"].of / 1.5
    rate = np.full_like(truth, truth.mean())
    constant = -float((truth * np.log(rate) + (1.0 - truth) * np.log1p(-rate)).mean())
    assert log_loss(drawn, truth) < log_loss(whole, truth) + 0.1 * (constant - log_loss(whole, truth))


def test_the_bound_rises_through_all_draws_and_the_fit_arrives(data, few):
    model = GCMF(2, random_state=0, dtype="float64").fit(data)
    assert model.status_ in {Status.CONVERGED, Status.CAPPED}
    assert model.n_iter_ > 10, "or cells were drawn but twice"
    steps = np.diff(model.elbo_trace_)
    assert (steps >= -1e-9 * np.abs(model.elbo_)).all()


def test_threads_do_not_change_a_bit(data, few, monkeypatch):
    monkeypatch.setattr(zeros, "_BLOCK", 2000)
    runs = [GCMF(2, random_state=3, max_iter=12, n_threads=n) for n in (1, 3)]
    with pytest.warns(gcmf.errors.ConvergenceWarning):
        one, other = (run.fit(data) for run in runs)
    np.testing.assert_array_equal(one.elbo_trace_, other.elbo_trace_)
    np.testing.assert_array_equal(one.predict("clicks"), other.predict("clicks"))


def test_a_model_says_that_zeros_were_drawn(data, few, tmp_path):
    model = GCMF(2, random_state=0).fit(data)
    n, of = model.fitted_.drawn["clicks"]
    assert of == data.n_cells - int(data.relations["clicks"].cells.rows.value.sum())
    assert f"fitted from {n:,} of {of:,} zeros, drawn and weighed" in repr(model)
    model.save(tmp_path / "model")
    again = gcmf.load(tmp_path / "model")
    assert repr(again) == repr(model)
    assert describe(again)["relations"][0]["zeros"] == {"n": n, "of": of}


def test_gaussian_zeros_are_never_drawn_and_counts_are(few):
    x = np.random.default_rng(0).poisson(0.02, SHAPE).astype(float)
    for kind, is_drawn in (("gaussian", False), ("poisson", True), ("negative_binomial", True)):
        relation = Relation("x", "a", "b", sparse.csr_array(x), kind, blanks="zero")
        with pytest.warns(gcmf.errors.ConvergenceWarning):
            model = GCMF(1, random_state=0, max_iter=4).fit(relation)
        assert bool(model.fitted_.drawn) is is_drawn


def test_what_would_list_too_many_zeros_is_refused(data, monkeypatch):
    monkeypatch.setattr(cells, "MOST_LISTED", 1000)
    monkeypatch.setattr("gcmf.data.split.MOST_LISTED", 1000)
    monkeypatch.setattr("gcmf.data.bound.MOST_LISTED", 1000)
    with pytest.raises(
        DataError, match=r"'clicks' has 36,000 cells with its zeros, and test_size=0.2 would list 7,200"
    ):
        data.split(0.2)
    with pytest.raises(DataError, match=r"n_folds=5 would list 7,200"):
        data.folds(5)
    train, test = data.split(0.02)
    model = GCMF(3, random_state=0).fit(train)
    assert model.score(test).loc["clicks", "n"] == 720
    with pytest.raises(DataError, match=r"too many to be looked at one by one"):
        model.score(train)
