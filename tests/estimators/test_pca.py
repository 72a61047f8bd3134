"""PCA: the scikit-learn contract, recovery, the closed form, and tables that leave nothing to find."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import gcmf
from gcmf.errors import ConvergenceWarning, DataError, OptionError
from gcmf.model.foldin import Partners, fold_in, log_likelihood


def table(seed=0, *, n=80, d=15, rank=3, noise=0.3):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + rng.normal(size=d) * 5
    return truth, truth + noise * rng.normal(size=(n, d))


def shrunk(singular, tau, shape):
    """Return the closed form of a fully observed table, docs/model.md "Special cases"."""
    L, M = shape
    t = 1 - (L + M) / (tau * singular**2)
    return singular / 2 * (t + np.sqrt(t**2 - 4 * L * M / (tau**2 * singular**4)))


# The array API check skips itself unless SCIPY_ARRAY_API is set, with a warning.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([gcmf.PCA(n_factors=3)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_finds_the_rank_and_fills_in_missing_cells_near_the_noise():
    truth, X = table(noise=0.3)
    hidden = np.random.default_rng(1).random(X.shape) < 0.2
    pca = gcmf.PCA(n_factors=8, random_state=0).fit(np.where(hidden, np.nan, X))
    assert pca.n_factors_active_ == 3
    filled = pca.inverse_transform(pca.transform(np.where(hidden, np.nan, X)))
    assert np.sqrt(np.mean((filled - X)[hidden] ** 2)) < 1.25 * 0.3
    assert np.sqrt(np.mean((filled - truth)[hidden] ** 2)) < 0.75 * 0.3
    assert pca.noise_variance_ == pytest.approx(0.09, rel=0.15)
    assert pca.status_ is gcmf.Status.CONVERGED
    assert len(pca.elbo_trace_) == pca.n_iter_


@pytest.mark.parametrize("sharing", ["common", "group"])
def test_single_table_without_biases_reaches_the_closed_form(sharing):
    _, X = table(n=40, d=25, noise=1.0)
    X -= X.mean(axis=0)
    model = gcmf.GCMF(6, bias=False, sharing=sharing, dtype="float64", tol=1e-13, max_iter=5000, random_state=0)
    # Without the weak factors and the learned prior, which the closed form does not have.
    data = [gcmf.Relation("x", "row", "col", X, gcmf.likelihoods.Gaussian("relation"))]
    fitted = model._fit(data, model._options(refined=False)).fitted_
    assert fitted.n_factors == 3
    half = X.size / 2
    tau = half / ((half - 1) * fitted.noise[0])
    expected = shrunk(np.linalg.svd(X / fitted.scale[0], compute_uv=False)[:3], tau, X.shape)
    got = np.linalg.svd(fitted.mean[0] @ fitted.mean[1].T, compute_uv=False)[:3]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_complete_table_gives_the_closed_form_in_user_units():
    _, X = table(n=40, d=25, noise=1.0)
    pca = gcmf.PCA(n_factors=6, tol=1e-13, max_iter=5000, random_state=0)
    scores = pca.fit_transform(1000 * X)
    half = X.size / 2
    tau = half / ((half - 1) * pca.noise_variance_)
    _, singular, right = np.linalg.svd(1000 * (X - X.mean(axis=0)), full_matrices=False)
    expected = shrunk(singular[:3], tau, X.shape)
    np.testing.assert_allclose(np.linalg.norm(scores, axis=0), expected, rtol=1e-6)
    np.testing.assert_allclose(np.abs(np.sum(pca.components_ * right[:3], axis=1)), 1, atol=1e-6)
    np.testing.assert_allclose(pca.mean_, 1000 * X.mean(axis=0), rtol=1e-3)


def test_components_have_unit_length_a_positive_largest_entry_and_fall_in_variance():
    _, X = table()
    pca = gcmf.PCA(n_factors=6, random_state=0).fit(X)
    assert pca.components_.shape == (3, 15)
    np.testing.assert_allclose(np.linalg.norm(pca.components_, axis=1), 1)
    assert (pca.components_.max(axis=1) == np.abs(pca.components_).max(axis=1)).all()
    assert (np.diff(pca.explained_variance_ratio_) < 0).all()
    assert 0.9 < pca.explained_variance_ratio_.sum() < 1
    np.testing.assert_allclose(pca.explained_variance_, (pca.transform(X) ** 2).mean(axis=0))


def test_signs_and_scores_do_not_depend_on_the_seed():
    _, X = table()
    scores = [gcmf.PCA(n_factors=6, tol=1e-10, random_state=seed).fit_transform(X) for seed in (0, 1)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-2)


def test_fit_transform_is_fit_then_transform_exactly():
    _, X = table()
    X[::3, 2] = np.nan
    pca = gcmf.PCA(n_factors=5, random_state=0)
    np.testing.assert_array_equal(pca.fit_transform(X), clone(pca).fit(X).transform(X))


def test_new_rows_agree_with_the_rows_of_the_fit():
    truth, X = table()
    pca = gcmf.PCA(n_factors=5, random_state=0).fit(X[:60])
    rebuilt = pca.inverse_transform(pca.transform(X[60:]))
    assert np.sqrt(np.mean((rebuilt - truth[60:]) ** 2)) < 0.3


def test_offsets_and_scale_do_not_change_the_model():
    _, X = table()
    offsets = 1e6 * np.arange(X.shape[1])
    plain, moved = (gcmf.PCA(n_factors=5, random_state=0).fit(x) for x in (X, 1000 * X + offsets))
    np.testing.assert_allclose(moved.components_, plain.components_, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(moved.mean_, 1000 * plain.mean_ + offsets, rtol=1e-7, atol=1e-2)
    np.testing.assert_allclose(moved.transform(1000 * X + offsets), 1000 * plain.transform(X), rtol=1e-4, atol=1e-2)


def test_output_names_and_containers():
    _, X = table()
    frame = pd.DataFrame(X, index=[f"s{n}" for n in range(len(X))], columns=[f"g{n}" for n in range(X.shape[1])])
    pca = gcmf.PCA(n_factors=5, random_state=0).set_output(transform="pandas")
    scores = pca.fit_transform(frame)
    assert list(scores.columns) == ["pca0", "pca1", "pca2"] == list(pca.get_feature_names_out())
    assert list(scores.index) == list(frame.index)
    assert list(pca.feature_names_in_) == list(frame.columns)
    assert pca.n_features_in_ == 15


def test_works_in_a_pipeline():
    truth, X = table()
    pipeline = make_pipeline(gcmf.PCA(n_factors=5, random_state=0), LinearRegression())
    assert pipeline.fit(X, truth[:, 0]).score(X, truth[:, 0]) > 0.98


@pytest.mark.parametrize("random_state", [np.random.RandomState(0), np.random.default_rng(0), None])
def test_any_kind_of_seed(random_state):
    assert gcmf.PCA(n_factors=5, random_state=random_state).fit(table()[1]).n_factors_active_ == 3


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).normal(size=(50, 6)),
        np.random.default_rng(0).normal(size=(30, 1)),
        np.random.default_rng(0).normal(size=(2, 8)),
        np.full((10, 4), 0.1),
    ],
    ids=["noise", "one feature", "two samples", "constant"],
)
def test_nothing_to_find_gives_no_columns_and_the_means(X):
    pca = gcmf.PCA(n_factors=5, random_state=0).fit(X)
    assert pca.status_ is gcmf.Status.ALL_PRUNED
    assert pca.transform(X).shape == (len(X), 0)
    np.testing.assert_allclose(
        pca.inverse_transform(pca.transform(X)),
        np.tile(X.mean(axis=0), (len(X), 1)),
        atol=0.2 * X.std() + 1e-12,
    )


def test_constant_columns_more_factors_than_data_and_exact_rank():
    X = np.random.default_rng(0).normal(size=(30, 2)) @ np.random.default_rng(1).normal(size=(2, 8))
    X[:, 3] = 7.3
    pca = gcmf.PCA(n_factors=100, random_state=0).fit(X)
    assert pca.n_factors_active_ == 2
    np.testing.assert_allclose(pca.components_[:, 3], 0, atol=1e-12)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X, atol=1e-4)


def test_empty_rows_and_columns_are_unknown_but_harm_nothing():
    _, X = table()
    X[4], X[:, 6] = np.nan, np.nan
    pca = gcmf.PCA(n_factors=5, random_state=0).fit(X)
    assert pca.n_factors_active_ == 3
    np.testing.assert_array_equal(pca.transform(X)[4], 0)
    filled = pca.inverse_transform(pca.transform(X))
    assert np.isfinite(filled).all()
    # What is expected of a feature that nobody has seen is what the others are on average.
    np.testing.assert_allclose(filled[:, 6], np.delete(pca.mean_, 6).mean(), rtol=1e-3, atol=1e-3)
    seen = np.where(np.isnan(X), 5.0, X)
    seen[4] = np.nan
    np.testing.assert_allclose(pca.transform(seen), pca.transform(X), err_msg="it says nothing of a new row")


def test_errors_say_what_to_do():
    _, X = table()
    with pytest.raises(NotFittedError):
        gcmf.PCA().transform(X)
    with pytest.raises(NotFittedError):
        gcmf.PCA().inverse_transform(X)
    with pytest.raises(ValueError, match=r"infinity"):
        gcmf.PCA().fit(np.where(X.max() == X, np.inf, X))
    with pytest.raises(DataError, match=r"no observed value: all of its 6 cells are NaN"):
        gcmf.PCA().fit(np.full((3, 2), np.nan))
    with pytest.raises(OptionError, match=r"'n_factors' parameter must be an integer >= 1"):
        gcmf.PCA(n_factors=0).fit(X)
    pca = gcmf.PCA(n_factors=5, random_state=0).fit(X)
    with pytest.raises(DataError, match=r"takes what transform returns, \(n_samples, 3\)"):
        pca.inverse_transform(X)


def test_too_few_sweeps_warn():
    with pytest.warns(ConvergenceWarning, match=r"PCA: stopped at max_iter"):
        gcmf.PCA(n_factors=5, max_iter=2, random_state=0).fit(table()[1])


def test_fold_in_solves_the_row_equations():
    rng = np.random.default_rng(0)
    partners = Partners(rng.normal(size=(6, 2)), rng.random((6, 2)), rng.random(6) + 1, np.array([0.5, 2.0]))
    x = rng.normal(size=(5, 6))
    x[0, :3], x[1, :3], x[2, 4], x[3] = np.nan, np.nan, np.nan, np.nan
    got = fold_in(partners, x)
    for row, u in zip(x, got, strict=True):
        A, h = np.diag(partners.precision), np.zeros(2)
        for j in np.flatnonzero(~np.isnan(row)):
            A = A + partners.weight[j] * (np.outer(partners.mean[j], partners.mean[j]) + np.diag(partners.var[j]))
            h = h + partners.weight[j] * row[j] * partners.mean[j]
        np.testing.assert_allclose(A @ u, h, atol=1e-12)
    np.testing.assert_allclose(fold_in(partners.rescaled(np.array([2.0, 5.0])), x), got * [2, 5])


def test_the_likelihood_of_rows_is_that_of_a_normal():
    rng = np.random.default_rng(0)
    partners = Partners(rng.normal(size=(6, 2)), rng.random((6, 2)), rng.random(6) + 0.5, np.array([0.5, 2.0]))
    x = np.where(rng.random((7, 6)) < 0.3, np.nan, rng.normal(size=(7, 6)))
    x[0] = np.nan
    cov = partners.mean / partners.precision @ partners.mean.T
    cov += np.diag(1 / partners.weight + (partners.var / partners.precision).sum(axis=1))
    wanted = [multivariate_normal(cov=cov[np.ix_(seen, seen)]).logpdf(row[seen]) if seen.any() else 0.0
              for row, seen in zip(x, ~np.isnan(x), strict=True)]  # fmt: skip
    np.testing.assert_allclose(log_likelihood(partners, x), wanted, rtol=1e-10)
    none = Partners(np.zeros((6, 0)), np.zeros((6, 0)), np.ones(6), np.zeros(0))
    np.testing.assert_allclose(log_likelihood(none, x)[1], multivariate_normal().logpdf(x[1][~np.isnan(x[1])]).sum())


def test_score_is_that_of_scikit_learn_per_cell():
    _, X = table(n=400, rank=3)
    ours, theirs = gcmf.PCA(6, random_state=0).fit(X[:200]), PCA(3).fit(X[:200])
    assert ours.score(X[200:]) == pytest.approx(theirs.score(X[200:]) / X.shape[1], abs=0.01)
    hidden = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    # Fewer cells tell less of each other; and what a row does not have at all counts as nothing.
    assert ours.score(X[200:]) - 0.3 < ours.score(hidden[200:]) < ours.score(X[200:]) - 0.01
    assert ours.score(np.vstack([X[200:], np.full((5, 15), np.nan)])) == pytest.approx(ours.score(X[200:]))
    with pytest.raises(DataError, match=r"PCA\.score needs an observed cell, and all of the 15 given are NaN"):
        ours.score(np.full((1, 15), np.nan))
    with pytest.raises(NotFittedError):
        gcmf.PCA().score(X)


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_models_are_selected_by_score():
    """One component of three is too few; ten are as good as three, as what is superfluous is switched off."""
    _, X = table(n=150, rank=3)
    few, enough, many = (cross_val_score(gcmf.PCA(k, random_state=0), X, cv=3) for k in (1, 3, 10))
    assert (few < enough - 0.3).all()
    np.testing.assert_allclose(enough, many, atol=0.01)
    search = GridSearchCV(gcmf.PCA(random_state=0), {"n_factors": [1, 2, 5]}, cv=3).fit(X)
    assert search.best_params_ == {"n_factors": 5}
    assert search.best_estimator_.n_factors_active_ == 3
