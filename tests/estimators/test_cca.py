"""CCA: what two tables share, and Y predicted from X."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

import gcmf
from gcmf.errors import DataError


def simulate(seed=0, *, n=200, noise=0.4):
    """Two shared factors, one private to X, one private to Y."""
    rng = np.random.default_rng(seed)
    shared, x_only, y_only = rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    X = np.hstack([shared, x_only]) @ rng.normal(size=(3, 10)) + 5
    Y = np.hstack([shared, y_only]) @ rng.normal(size=(3, 8)) - 2
    return X + noise * rng.normal(size=X.shape), Y + noise * rng.normal(size=Y.shape)


@pytest.fixture(scope="module")
def fitted():
    X, Y = simulate()
    return X, Y, gcmf.CCA(n_factors=6, random_state=0).fit(X[:150], Y[:150])


def test_finds_what_is_shared_and_what_is_private(fitted):
    _, _, cca = fitted
    table = cca.structure()
    assert table["role"].tolist() == ["shared", "shared", "private", "private"]
    assert table["views"].tolist() == [("X", "Y")] * 2 + [("X",), ("Y",)]
    assert list(cca.get_feature_names_out()) == [f"cca{k}" for k in range(4)]
    assert [w.shape for w in cca.components_] == [(4, 10), (4, 8)]
    np.testing.assert_allclose(cca.noise_variance_, 0.16, rtol=0.15)


def test_predicts_y_from_x_better_than_the_mean_and_than_least_squares():
    X, Y = simulate(2, n=340)
    cca = gcmf.CCA(n_factors=6, random_state=0).fit(X[:40], Y[:40])
    guess = cca.predict(X[40:])
    regression = LinearRegression().fit(X[:40], Y[:40]).predict(X[40:])
    error, mean_error, regression_error = (np.mean((Y[40:] - p) ** 2) for p in (guess, Y[:40].mean(axis=0), regression))
    assert guess.shape == (300, 8)
    assert error < 0.75 * mean_error
    assert error < 0.9 * regression_error


def test_a_private_factor_of_y_is_unknown_from_x(fitted):
    X, _, cca = fitted
    np.testing.assert_array_equal(cca.transform(X)[:, 3], 0)
    assert np.abs(cca.transform(X)[:, 2]).max() > 1


def test_transform_takes_x_y_or_both(fitted):
    X, Y, cca = fitted
    both, one, other = cca.transform(X, Y), cca.transform(X), cca.transform(None, Y)
    assert both.shape == one.shape == other.shape == (200, 4)
    np.testing.assert_array_equal(cca.transform(X, np.full_like(Y, np.nan)), one)
    for k in range(2):
        assert np.corrcoef(both[:, k], one[:, k])[0, 1] > 0.9
        assert np.corrcoef(both[:, k], other[:, k])[0, 1] > 0.9


def test_inverse_transform_gives_both_tables_back(fitted):
    X, Y, cca = fitted
    x, y = cca.inverse_transform(cca.transform(X, Y))
    assert np.sqrt(np.mean((x - X) ** 2)) < 0.45
    assert np.sqrt(np.mean((y - Y) ** 2)) < 0.45


def test_fit_transform_is_fit_then_transform_exactly():
    X, Y = simulate()
    X[:5], Y[5:9, 2] = np.nan, np.nan
    cca = gcmf.CCA(n_factors=5, random_state=0)
    np.testing.assert_array_equal(cca.fit_transform(X, Y), clone(cca).fit(X, Y).transform(X, Y))


def test_samples_seen_in_one_table_only_are_used():
    X, Y = simulate()
    X[:40], Y[40:80] = np.nan, np.nan
    cca = gcmf.CCA(n_factors=6, random_state=0).fit(X, Y)
    assert cca.structure()["role"].tolist() == ["shared", "shared", "private", "private"]


def test_a_flat_target_comes_back_flat():
    X, Y = simulate()
    cca = gcmf.CCA(n_factors=5, random_state=0).fit(X, Y[:, 0])
    assert cca.predict(X).shape == (200,)
    assert np.corrcoef(cca.predict(X), Y[:, 0])[0, 1] > 0.5
    series = gcmf.CCA(n_factors=5, random_state=0).fit(X, pd.Series(Y[:, 0], name="y"))
    np.testing.assert_array_equal(series.predict(X), cca.predict(X))


def test_pandas_output_keeps_row_ids_even_without_x():
    X, Y = (pd.DataFrame(a, index=[f"s{n}" for n in range(200)]).add_prefix("f") for a in simulate())
    cca = gcmf.CCA(n_factors=6, random_state=0).set_output(transform="pandas").fit(X, Y)
    for scores in (cca.transform(X, Y), cca.transform(X), cca.transform(None, Y)):
        assert list(scores.columns) == [f"cca{k}" for k in range(4)]
        assert list(scores.index) == list(X.index)
    assert isinstance(cca.predict(X), np.ndarray)


def test_errors_say_what_to_do(fitted):
    X, Y, cca = fitted
    with pytest.raises(NotFittedError):
        gcmf.CCA().predict(X)
    with pytest.raises(DataError, match=r"'X' has 200, 'Y' has 10"):
        gcmf.CCA().fit(X, Y[:10])
    with pytest.raises(DataError, match=r"not all of them None"):
        cca.transform(None)
    with pytest.raises(DataError, match=r"View 'X' was fitted with 10 features. Got 8 instead"):
        cca.predict(Y)
    with pytest.raises(ValueError, match=r"view 'Y' contains infinity"):
        gcmf.CCA().fit(X, np.where(np.abs(Y) > 3, np.inf, Y))


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_models_are_selected_by_score(fitted):
    X, Y, cca = fitted
    both, apart = cca.score(X, Y) * (X.size + Y.size), cca.score(X) * X.size + cca.score(None, Y) * Y.size
    assert both > apart + 100  # they tell of each other
    assert cca.score(X, Y) > cca.score(X, Y[::-1]) + 0.5
    search = GridSearchCV(gcmf.CCA(random_state=0), {"n_factors": [1, 5]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"n_factors": 5}
    flat = gcmf.CCA(3, random_state=0).fit(X, Y[:, 0])
    assert flat.score(X, Y[:, 0]) == pytest.approx(flat.score(X, Y[:, :1]))
