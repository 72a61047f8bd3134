"""Noise of rows and columns: it is found, it keeps factors from being made of it, and every answer knows it."""

from __future__ import annotations

import numpy as np
import pytest

import gcmf
from gcmf.likelihoods import Gaussian

N, P = 120, 30


def world(seed=0, spread=1.0):
    """Two factors, and columns whose noise differs."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(N, 2)) @ rng.normal(size=(2, P))
    noise = np.exp(spread * np.clip(rng.normal(size=P), -1.5, 1.5))
    x = theta + noise * rng.normal(size=(N, P))
    hidden = rng.random((N, P)) < 0.1
    return x, noise, hidden


def fitted(x, noise="both", **options):
    options = {"random_state": 0, "progress": False, "n_threads": 1, "dtype": "float64"} | options
    return gcmf.GCMF(**options).fit(gcmf.Relation("x", "a", "b", x, Gaussian(noise)))


@pytest.fixture(scope="module")
def truth():
    return world()


@pytest.fixture(scope="module")
def model(truth):
    x, _, hidden = truth
    return fitted(np.where(hidden, np.nan, x))


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_columns_that_differ_do_not_become_factors(spread):
    x, _, hidden = world(1, spread)
    assert fitted(np.where(hidden, np.nan, x)).n_factors_active_ == 2


def test_the_noise_of_columns_is_found(truth, model):
    _, noise, _ = truth
    found = model.noise("x", "cols")
    assert np.corrcoef(np.log(found), np.log(noise))[0, 1] > 0.95
    assert np.median(found / noise) == pytest.approx(1.0, abs=0.15)
    assert model.noise("x", "rows").std() < 0.2 * model.noise("x", "rows").mean()
    assert model.noise("x") > 0.0


def test_predictions_say_how_noisy_their_column_is(truth, model):
    x, noise, hidden = truth
    i, j = np.nonzero(hidden)
    _, std = model.predict("x", i, j, return_std=True)
    assert np.corrcoef(np.log(std), np.log(noise[j]))[0, 1] > 0.9
    grid = model.predict("x", np.arange(5), np.arange(P), grid=True, return_std=True)
    pairs = model.predict("x", np.repeat(np.arange(5), P), np.tile(np.arange(P), 5), return_std=True)
    for of_grid, of_pairs in zip(grid, pairs, strict=True):
        np.testing.assert_allclose(of_grid.ravel(), of_pairs, rtol=1e-12)
    test = gcmf.Relation("x", "a", "b", (i, j, x[hidden]), Gaussian("both"))
    plain = fitted(np.where(hidden, np.nan, x), "relation").score([test])["log_likelihood"].item()
    score = model.score([test])
    assert score["log_likelihood"].item() > plain + 0.2
    assert score["coverage_50"].item() == pytest.approx(0.5, abs=0.06)


def test_a_sample_of_cells_has_the_noise_of_their_columns(truth, model):
    noise = truth[1]
    drawn = model.sample("x", np.zeros(P, int), np.arange(P), 400, random_state=0)
    assert np.corrcoef(np.log(drawn.std(axis=0)), np.log(noise))[0, 1] > 0.9


def test_saved_and_loaded_it_is_the_same(model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    for one, other in zip(model.predict("x", return_std=True), again.predict("x", return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.noise("x", "cols"), again.noise("x", "cols"))


def test_a_row_that_is_folded_in_again_is_as_it_was(truth, model):
    x, _, hidden = truth
    seen = np.flatnonzero(~hidden[4])
    new = model.fold_in("a", {"x": (np.full(len(seen), 999), seen, x[4, seen])})
    for got, known in zip(
        new.predict("x", np.full(P, 999), np.arange(P), return_std=True),
        model.predict("x", np.full(P, 4), np.arange(P), return_std=True), strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(got, known, atol=0.05 * np.abs(known).max())


def test_cells_of_a_noisy_column_move_a_row_less(truth):
    x, noise, hidden = truth
    moved = []
    for j in (noise.argmin(), noise.argmax()):
        model = fitted(np.where(hidden, np.nan, x))
        before = model.predict("x", np.full(P, 300), np.arange(P), unknown="prior")
        after = model.update({"x": ([300], [j], [x[:, j].mean() + 3.0 * x[:, j].std()])}) or model
        change = np.asarray(after.predict("x", np.full(P, 300), np.arange(P))) - np.asarray(before)
        moved.append(np.abs(np.delete(change, [noise.argmin(), noise.argmax()])).mean() / x[:, j].std())
    assert moved[1] < 0.5 * moved[0]


def test_explanations_add_up(model):
    parts = model.explain("x", 3, 7)
    assert parts["contribution"].sum() == pytest.approx(float(model.predict("x", [3], [7])[0]), abs=1e-6)


def test_a_fit_may_go_on_from_a_model(truth, model):
    x, _, hidden = truth
    again = fitted(np.where(hidden, np.nan, x), max_iter=1000)
    again.fit(gcmf.Relation("x", "a", "b", np.where(hidden, np.nan, x), Gaussian("both")), start=model)
    difference = np.asarray(again.predict("x")) - np.asarray(model.predict("x"))
    assert np.abs(difference).max() < 0.1 * x.std()


@pytest.mark.filterwarnings("ignore:GCMF. sampled")
def test_draws_know_the_noise_that_the_fit_found(truth):
    x, noise, hidden = truth
    model = fitted(np.where(hidden, np.nan, x), inference="gibbs", n_samples=20, n_burn=10)
    _, std = model.predict("x", np.zeros(P, int), np.arange(P), return_std=True)
    assert np.corrcoef(np.log(std), np.log(noise))[0, 1] > 0.9


def test_an_exact_column_stays_within_bounds():
    """Pixels that are blank but in one picture: no cell is infinitely improbable, and nothing else suffers."""
    x, _, _ = world(2, 0.3)
    x = np.concatenate([x, np.zeros((N, 6))], axis=1)
    x[0, -6:] = 1.0
    x[:, -1] = 0.0
    model = fitted(x)
    test = gcmf.Relation("x", "a", "b", (np.arange(1, 7), np.arange(P, P + 6), np.ones(6)), Gaussian("both"))
    assert model.n_factors_active_ <= 4
    assert model.score([test])["log_likelihood"].item() > -1000.0


def test_another_word_is_refused():
    with pytest.raises(gcmf.errors.OptionError, match="noise"):
        Gaussian("columns")
