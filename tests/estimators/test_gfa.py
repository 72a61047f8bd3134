"""GFA: shared and private factors, missing views, fold-in, the scikit-learn manners."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gcmf
from gcmf.errors import ConvergenceWarning, DataError

#: Factor by view: two shared by all, one by the first two, one private to each.
PATTERN = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
REACH = [("view1", "view2", "view3")] * 2 + [("view1", "view2"), ("view1",), ("view2",), ("view3",)]


def simulate(seed=0, *, n=120, widths=(15, 20, 12), noise=0.5):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, len(PATTERN)))
    views = []
    for v, d in enumerate(widths):
        loadings = rng.normal(size=(len(PATTERN), d)) * PATTERN[:, [v]]
        views.append(z @ loadings + 3 * rng.normal(size=d) + noise * rng.normal(size=(n, d)))
    return z, views


def lacking(views):
    """Views with cells missing at random, and whole views missing for some samples."""
    rng = np.random.default_rng(9)
    views = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in views]
    views[1][:20], views[2][15:30] = np.nan, np.nan
    return views


@pytest.fixture(scope="module")
def fitted():
    z, views = simulate()
    return z, views, gcmf.GFA(n_factors=10, random_state=0).fit(views)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("prepare", [list, lacking], ids=["complete", "whole views missing"])
def test_finds_shared_partial_and_private_factors(seed, prepare):
    z, views = simulate(seed)
    gfa = gcmf.GFA(n_factors=10, random_state=0).fit(prepare(views))
    table = gfa.structure()
    assert table["views"].tolist() == REACH
    assert table["role"].tolist() == ["shared"] * 2 + ["partial"] + ["private"] * 3
    scores = gfa.transform(prepare(views))
    for k in range(2, 6):  # the two shared ones may be turned among themselves
        assert abs(np.corrcoef(scores[:, k], z[:, k])[0, 1]) > 0.9


def test_structure_is_exactly_zero_where_a_factor_is_off(fitted):
    _, _, gfa = fitted
    table = gfa.structure()
    assert list(table.columns) == ["view1", "view2", "view3", "role", "views"]
    assert list(table.index) == [f"gfa{k}" for k in range(6)] == list(gfa.get_feature_names_out())
    activity = table[["view1", "view2", "view3"]].to_numpy()
    np.testing.assert_array_equal(activity > 0, PATTERN > 0)
    assert activity.max() <= 1
    for v, loadings in enumerate(gfa.components_):
        np.testing.assert_array_equal((loadings != 0).any(axis=1), PATTERN[:, v] > 0)


def test_attributes_are_per_view_and_in_its_units(fitted):
    _, views, gfa = fitted
    assert [w.shape for w in gfa.components_] == [(6, 15), (6, 20), (6, 12)]
    for x, mean in zip(views, gfa.mean_, strict=True):
        np.testing.assert_allclose(mean, x.mean(axis=0), atol=0.4)
    np.testing.assert_allclose(gfa.noise_variance_, 0.25, rtol=0.15)
    assert gfa.explained_variance_ratio_.shape == (3, 6)
    assert gfa.n_features_in_ == 47
    assert not hasattr(gfa, "feature_names_in_")
    spread = [(x - x.mean(axis=0)).std() for x in views]
    loadings = np.hstack([w / s for w, s in zip(gfa.components_, spread, strict=True)])
    assert (loadings.max(axis=1) == np.abs(loadings).max(axis=1)).all()


def test_scores_of_the_samples_have_unit_variance_and_are_those_of_the_fit(fitted):
    _, views, gfa = fitted
    scores = gfa.transform(views)
    np.testing.assert_allclose((scores**2).mean(axis=0), 1, atol=0.1)
    rebuilt = gfa.inverse_transform(scores)
    for x, back in zip(views, rebuilt, strict=True):
        assert np.sqrt(np.mean((x - back) ** 2)) < 0.5


def test_fit_transform_is_fit_then_transform_exactly():
    views = lacking(simulate()[1])
    gfa = gcmf.GFA(n_factors=10, random_state=0)
    np.testing.assert_array_equal(gfa.fit_transform(views), clone(gfa).fit(views).transform(views))


def test_a_missing_view_is_predicted_from_the_others():
    _, views = simulate(n=200, noise=0.3)
    train, test = [x[:150] for x in views], [x[150:] for x in views]
    gfa = gcmf.GFA(n_factors=10, random_state=0).fit(train)
    guess = gfa.inverse_transform(gfa.transform([test[0], test[1], None]))[2]
    blank = np.full_like(test[2], np.nan)
    np.testing.assert_array_equal(gfa.transform([test[0], test[1], blank]), gfa.transform([*test[:2], None]))
    # What is private to view 3 cannot be known: about one third of its variance.
    assert np.mean((guess - test[2]) ** 2) < 0.6 * np.mean((train[2].mean(axis=0) - test[2]) ** 2)


def test_a_sample_without_any_cell_has_the_prior_mean(fitted):
    _, _, gfa = fitted
    scores = gfa.transform([np.full((2, 15), np.nan), None, None])
    np.testing.assert_array_equal(scores, np.zeros((2, 6)))
    np.testing.assert_allclose(gfa.inverse_transform(scores)[1][0], gfa.mean_[1])


def test_views_by_name(fitted):
    _, views, gfa = fitted
    named = gcmf.GFA(n_factors=10, random_state=0).fit(dict(zip("abc", views, strict=True)))
    assert named.view_names_ == ("a", "b", "c")
    assert named.structure()["views"].tolist()[2] == ("a", "b")
    np.testing.assert_array_equal(named.transform({"b": views[1]}), gfa.transform([None, views[1], None]))
    with pytest.raises(DataError, match=r"no view 'rna'; the model has 'a', 'b', 'c'"):
        named.transform({"rna": views[0]})


def test_data_frames_give_names_and_row_ids():
    _, views = simulate()
    ids = [f"s{n}" for n in range(120)]
    frames = [pd.DataFrame(x, index=ids, columns=[f"v{v}f{n}" for n in range(x.shape[1])]) for v, x in enumerate(views)]
    gfa = gcmf.GFA(n_factors=10, random_state=0).set_output(transform="pandas").fit(frames)
    scores = gfa.transform([None, frames[1], None])
    assert list(scores.index) == ids
    assert list(scores.columns) == [f"gfa{k}" for k in range(6)]
    assert [list(names) for names in gfa.feature_names_in_] == [list(frame.columns) for frame in frames]
    with pytest.raises(DataError, match=r"in the same order: feature 0 was 'v0f0'. Got 'v0f14' instead"):
        gfa.transform([frames[0].iloc[:, ::-1], None, None])
    with pytest.raises(DataError, match=r"'view1' and 'view2' have different indexes"):
        gfa.fit([frames[0], frames[1].iloc[::-1]])


def test_nothing_in_common_and_nothing_at_all():
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=(40, 5)), rng.normal(size=(40, 4))]
    gfa = gcmf.GFA(n_factors=5, random_state=0).fit(noise)
    assert gfa.transform(noise).shape == (40, 0)
    assert gfa.structure().empty
    assert [x.shape for x in gfa.inverse_transform(gfa.transform(noise))] == [(40, 5), (40, 4)]


def test_errors_say_what_to_do(fitted):
    _, views, gfa = fitted
    with pytest.raises(NotFittedError):
        gcmf.GFA().transform(views)
    with pytest.raises(NotFittedError):
        gcmf.GFA().structure()
    with pytest.raises(DataError, match=r"takes a list of tables.*shape \(120, 15\).*gcmf.PCA"):
        gcmf.GFA().fit(views[0])
    with pytest.raises(DataError, match=r"'view1' has 120, 'view2' has 119.*row of NaN"):
        gcmf.GFA().fit([views[0], views[1][1:]])
    with pytest.raises(ValueError, match=r"view 'view2' contains infinity"):
        gcmf.GFA().fit([views[0], np.full((120, 3), np.inf)])
    with pytest.raises(DataError, match=r"'view2' has no observed value"):
        gcmf.GFA().fit([views[0], np.full((120, 3), np.nan)])
    with pytest.raises(DataError, match=r"fitted to 3 views and takes as many here.*Got 2, of which 0"):
        gfa.transform(views[:2])
    with pytest.raises(DataError, match=r"not all of them None"):
        gfa.transform([None, None, None])
    with pytest.raises(DataError, match=r"View 'view1' was fitted with 15 features. Got 20 instead"):
        gfa.transform([views[1], None, None])
    with pytest.raises(DataError, match=r"\(n_samples, 6\)"):
        gfa.inverse_transform(views[0])


def test_refitting_forgets_the_names():
    _, views = simulate()
    gfa = gcmf.GFA(n_factors=10, random_state=0).fit([pd.DataFrame(x).add_prefix("f") for x in views])
    assert len(gfa.feature_names_in_) == 3
    assert not hasattr(gfa.fit(views), "feature_names_in_")


def test_too_few_sweeps_warn():
    with pytest.warns(ConvergenceWarning, match=r"GFA: stopped at max_iter"):
        gcmf.GFA(n_factors=5, max_iter=2, random_state=0).fit(simulate()[1])


def test_a_feature_nobody_observed_is_expected_to_be_like_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(30, 6))
    Y = X[:, :4] + 5
    Y[:, 1] = np.nan
    gfa = gcmf.GFA(n_factors=3, random_state=0).fit([X, Y])
    filled = gfa.inverse_transform(gfa.transform([X, Y]))[1]
    np.testing.assert_allclose(filled[:, 1], np.delete(gfa.mean_[1], 1).mean(), rtol=1e-3)
    predicted = gcmf.CCA(n_factors=3, random_state=0).fit(X, Y).predict(X)
    np.testing.assert_allclose(predicted[:, 1], filled[:, 1], rtol=1e-2)


def test_the_number_of_factors_may_be_left_to_the_fit():
    (_, views), rng = simulate(), np.random.default_rng(0)
    assert gcmf.GFA("auto", random_state=0).fit(views).n_factors_active_ == len(PATTERN)
    x = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 20)) + 0.3 * rng.normal(size=(60, 20))
    assert gcmf.PCA("auto", random_state=0).fit(x).n_factors_active_ == 3
    with pytest.raises(gcmf.errors.OptionError, match="'auto'"):
        gcmf.PCA("all").fit(x)


def test_score_prefers_what_was_fitted_and_takes_views_that_are_missing(fitted, tmp_path):
    _, views, gfa = fitted
    _, others = simulate(seed=1)
    score = gfa.score(views)
    assert score > gfa.score(others) + 1.0
    assert gfa.score(dict(zip(gfa.view_names_, views, strict=True))) == score
    # log p(all) = log p(two views) + log p(the third | them): which is more than p(the third) alone.
    sizes = [x.size for x in views]
    two, third = gfa.score([views[0], views[1], None]), gfa.score([None, None, views[2]])
    assert score * sum(sizes) > two * sum(sizes[:2]) + third * sizes[2] + 100
    assert np.isfinite(gfa.score(lacking(views)))
    gfa.save(tmp_path / "m.gcmf")
    assert gcmf.load(tmp_path / "m.gcmf").score(views) == score
    with pytest.raises(DataError, match="takes as many here, not all of them None"):
        gfa.score([None, None, None])


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_samples_that_were_not_fitted_choose_the_number_of_factors():
    _, views = simulate(n=160)
    train, test = [x[:110] for x in views], [x[110:] for x in views]
    scores = {k: gcmf.GFA(k, random_state=0).fit(train).score(test) for k in (2, 6, 12)}
    assert scores[2] < scores[6] - 0.1
    assert scores[12] == pytest.approx(scores[6], abs=0.02)
