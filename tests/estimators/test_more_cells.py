"""More cells after a fit, and fits that go on from a model."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gcmf
from gcmf.errors import DataError, OptionError, UnknownIdError
from gcmf.model.newcomers import terms_of


def world(seed=0, n=120, d=80):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(n, 2)), rng.normal(size=(d, 2))
    x = 3 + u @ v.T + 0.5 * rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    old, new = rng.random((2, n, d)) < 0.2
    old[100:], old[:, 70:] = False, False  # some users and movies come later
    return x, old, new & ~old, ~old & ~new


def cells(x, where):
    i, j = np.nonzero(where)
    return i, j, x[i, j]


def error(model, x, test):
    i, j, truth = cells(x, test)
    return float(np.sqrt(np.mean((model.predict("r", i, j, unknown="prior") - truth) ** 2)))


@pytest.fixture(scope="module")
def first():
    x, old, new, test = world()
    return gcmf.GCMF(random_state=0).fit([gcmf.Relation("r", "user", "movie", cells(x, old))]), x, old, new, test


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_more_cells_tell_nearly_as_much_as_if_they_had_been_there(first, device, tmp_path):
    model, x, old, new, test = first
    before = error(model, x, test)
    later = copy.copy(model).set_params(device=device).update({"r": cells(x, new)})
    whole = gcmf.GCMF(random_state=0).fit([gcmf.Relation("r", "user", "movie", cells(x, old | new))])
    after, best = error(later, x, test), error(whole, x, test)
    assert best < after < best + 0.1 * (before - best)  # 1.177, 0.555, 0.548
    assert later.recommend("r", [110], n=90)["item"].isin(np.flatnonzero(~new[110])).all()
    later.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    np.testing.assert_array_equal(again.predict("r"), later.predict("r"))
    assert error(model, x, test) == before  # a copy was updated


def test_engines_agree_about_priors_of_each_row(first):
    """Every row has prior means and precisions of its own, its biases too."""
    model, x, _, new, _ = first
    cpu, reference = (
        copy.copy(model).set_params(device=device).update({"r": cells(x, new)}).fitted_
        for device in ("cpu", "reference")
    )
    for name in ("mean", "var", "bias_mean", "bias_var"):
        for ours, theirs in zip(getattr(cpu, name), getattr(reference, name), strict=True):
            assert ours == pytest.approx(theirs, abs=2e-5)  # 5e-7, in float32


def test_who_has_no_new_cell_stays_as_they_were(first):
    model, x, _, new, _ = first
    some = new.copy()
    some[10:] = False
    later = copy.copy(model).update(gcmf.Relation("r", "user", "movie", cells(x, some)))
    same = [i for i in range(10, 100)]
    pd.testing.assert_frame_equal(later.factors("user").loc[same], model.factors("user").loc[same])
    assert not later.factors("user").loc[range(10)].equals(model.factors("user").loc[range(10)])


def test_one_cell_of_one_row_is_the_exact_posterior():
    """A user with one more cell, whose movie is known exactly: a normal prior times a normal likelihood."""
    x, old, _, _ = world(1)
    model = gcmf.GCMF(random_state=0, bias=False, dtype="float64").fit(
        [gcmf.Relation("r", "user", "movie", cells(x, old))]
    )
    fitted = model.fitted_
    i, j = model.factors("user").index.get_loc(5), model.factors("movie").index.get_loc(7)
    assert not old[5, 7]
    assert fitted.on.shape[1] > 0
    fitted.terms.var[1][j] = 1e-12  # the movie does not move
    u, s, p = fitted.mean[0][i], fitted.terms.var[0][i], fitted.mean[1][j]
    tau = float(np.divide(*terms_of(fitted).parameters[0]))
    z = (x[5, 7] - fitted.center[0]) / fitted.scale[0]
    A, h = np.diag(1 / s) + tau * np.outer(p, p), u / s + tau * z * p
    later = copy.copy(model).update({"r": ([5], [7], [x[5, 7]])})
    assert later.fitted_.mean[0][i] == pytest.approx(np.linalg.solve(A, h), rel=1e-6)
    assert later.fitted_.terms.var[0][i] == pytest.approx(1 / np.diag(A), rel=1e-6)
    wide = np.linalg.inv(np.diag(1 / fitted.var[0][i]) + tau * np.outer(p, p))
    assert later.fitted_.var[0][i] == pytest.approx(np.diag(wide), rel=1e-6)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_error_bars_stay_wide(likelihood):
    """One more cell: who has it is a bit better known, by the wide variances, and all others are as they were."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 50)) + rng.normal(size=(60, 50))
    x[rng.random(x.shape) < 0.5] = np.nan
    x[0, 7] = np.nan
    x = x if likelihood == "gaussian" else np.where(np.isnan(x), np.nan, x > 0)
    model = gcmf.GCMF(random_state=0, tol=1e-4).fit(gcmf.Relation("r", "a", "b", x, likelihood))
    later = copy.copy(model).update({"r": ([0], [7], [1.0])})
    before, after = (m.fitted_ for m in (model, later))
    assert (before.var[0] > 1.02 * before.terms.var[0]).mean() > 0.9  # the two kinds differ
    for old, new, at in zip(before.var, after.var, (0, 7), strict=True):
        np.testing.assert_array_equal(np.delete(new, at, axis=0), np.delete(old, at, axis=0))
        assert (new[at] <= old[at] * (1 + 1e-6)).all()
        assert (new[at] > 0.9 * old[at]).all()
    for old, new, at in zip(before.bias_var, after.bias_var, (0, 7), strict=True):
        np.testing.assert_array_equal(np.delete(new, at), np.delete(old, at))
        assert 0.9 * old[at] < new[at] <= old[at] * (1 + 1e-6)
    for old, new, at in zip(before.terms.var, after.terms.var, (0, 7), strict=True):
        assert (new[at] < old[at]).any()


def test_zeros_one_sets_and_networks_take_more_cells():
    rng = np.random.default_rng(3)
    u, t = rng.normal(size=(40, 2)), rng.normal(size=(9, 2))
    net = u @ np.diag([1.0, -1.0]) @ u.T + 0.2 * rng.normal(size=(40, 40))
    tags = (rng.random((40, 9)) < 1 / (1 + np.exp(-2 * u @ t.T))).astype(float)
    i, j = np.nonzero(np.triu(np.ones((40, 40)), 1))
    early = (i < 30) & (j < 30)
    data = gcmf.Collection([
        gcmf.Relation("net", "user", "user", (i[early], j[early], net[i, j][early]), symmetric=True),
        gcmf.Relation("tags", "user", "tag", (*np.indices((30, 9)).reshape(2, -1), tags[:30].ravel()), "bernoulli"),
    ])  # fmt: skip
    model = gcmf.GCMF(3, random_state=0, tol=1e-4).fit(data)
    late = ~early & (rng.random(len(i)) < 0.7)
    model.update({"net": (i[late], j[late], net[i, j][late]), "tags": ([35] * 9, range(9), tags[35])})
    test = ~early & ~late
    left = net[i, j][test] - model.predict("net", i[test], j[test])
    assert left.std() < 0.2 * net[i, j][test].std()  # 0.20 of 1.77
    assert len(model.factors("user")) == 40


def test_what_cannot_be_taken_in_is_refused(first):
    model, x, old, _, _ = first
    i, j, _ = cells(x, old)
    with pytest.raises(DataError, match=rf"row {i[0]}, column {j[0]} already.*start=model"):
        copy.copy(model).update({"r": (i[:1], j[:1], [3.0])})
    priors = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
    point = gcmf.GCMF(1, inference="map", priors=priors, random_state=0).fit({("a", "b", "r"): x[:20, :10]})
    with pytest.raises(OptionError, match="start=model"):
        point.update({"r": ([99], [0], [1.0])})
    zeros = gcmf.GCMF(1, random_state=0, tol=1e-2).fit(
        [gcmf.Relation("c", "a", "b", ([0, 1, 2, 3], [0, 1, 0, 1], [1, 1, 1, 1]), "poisson", blanks="zero")]
    )
    with pytest.raises(DataError, match="blanks='zero'"):
        zeros.update({"c": ([0], [1], [1])})


# --- fit(start=) --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_fit_goes_on_where_a_model_is(first, device):
    model, x, old, new, test = first
    data = gcmf.Collection([gcmf.Relation("r", "user", "movie", cells(x, old | new))])
    warm = gcmf.GCMF(random_state=0, device=device, max_iter=40).fit(data, start=model)
    cold = gcmf.GCMF(random_state=0).fit(data)
    assert warm.n_iter_ < 0.8 * cold.n_iter_
    assert error(warm, x, test) == pytest.approx(error(cold, x, test), abs=0.005)
    assert (np.diff(warm.elbo_trace_) >= -3e-6 * abs(warm.elbo_)).all()
    np.testing.assert_array_equal(warm.fitted_.on, model.fitted_.on)


def test_a_fit_to_the_same_data_stays_where_it_was(first):
    model, x, old, _, _ = first
    data = gcmf.Collection([gcmf.Relation("r", "user", "movie", cells(x, old))])
    again = gcmf.GCMF(random_state=0).fit(data, start=model)
    away = again.predict("r") - model.predict("r")
    assert np.abs(away).max() < 0.06  # 0.02


@pytest.mark.parametrize("options", [{}, {"inference": "map", "priors": {"alpha_shape": 1, "alpha_rate": 1}}])
def test_covariates_scales_and_zeros_go_on_too(options):
    rng = np.random.default_rng(5)
    u, v = rng.normal(size=(40, 2)), rng.normal(size=(15, 2))
    known = pd.DataFrame({"age": u[:, 0]}, index=range(40))
    one, two = (u * s @ v.T + 0.3 * rng.normal(size=(40, 15)) for s in ([1.0, 0.2], [-0.5, 1.0]))
    ones = tuple(np.argwhere(rng.random((40, 15)) < 0.3).T)
    data = gcmf.Collection([
        gcmf.Relation("one", "user", "movie", one), gcmf.Relation("two", "user", "movie", two),
        gcmf.Relation("c", "user", "movie", (*ones, np.ones(len(ones[0]))), "bernoulli", blanks="zero"),
    ], entities={"user": known})  # fmt: skip
    model = gcmf.GCMF(3, random_state=0, tol=1e-6, **options).fit(data)
    # Relations and sets in another order are the same.
    turned = gcmf.Collection([
        gcmf.Relation("c", "user", "movie", (*ones, np.ones(len(ones[0]))), "bernoulli", blanks="zero"),
        gcmf.Relation("two", "user", "movie", two), gcmf.Relation("one", "user", "movie", one),
    ], entities={"user": known})  # fmt: skip
    again = gcmf.GCMF(3, random_state=0, tol=1e-6, **options).fit(turned, start=model)
    assert again.n_iter_ < model.n_iter_
    two = [m.predict("two", range(40), range(15), grid=True) for m in (model, again)]
    assert np.sqrt(np.mean((two[0] - two[1]) ** 2)) < 0.05
    with pytest.raises(DataError, match="not in both: two"):
        gcmf.GCMF(3).fit(data.select(["one", "c"]), start=model)


# --- by the names of the training table ------------------------------------------------------------------------


NAMES = {"rows": "user", "cols": "movie", "row": "userId", "col": "movieId", "value": "rating"}


def table(seed=0, n=900):
    """Ratings by the names of MovieLens: ids are whole numbers."""
    rng = np.random.default_rng(seed)
    pairs = pd.DataFrame({"userId": rng.integers(1, 61, n), "movieId": rng.integers(1, 31, n)}).drop_duplicates()
    u, v = rng.normal(size=(61, 1)), rng.normal(size=(31, 1))
    theta = (u @ v.T)[pairs["userId"], pairs["movieId"]]
    return pairs.assign(rating=3 + theta + 0.3 * rng.normal(size=len(pairs)), timestamp=range(len(pairs)))


FRESH = pd.DataFrame({"userId": [901, 901], "movieId": [5, 7], "rating": [5.0, 1.0], "timestamp": [1, 2]})


def saved(model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    return gcmf.load(tmp_path / "m.gcmf")


@pytest.fixture(scope="module")
def rated():
    model = gcmf.GCMF(random_state=0, tol=1e-4).fit(gcmf.Relation.from_frame("ratings", table(), **NAMES))
    assert model.n_factors_active_
    return model


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_a_frame_with_the_columns_of_the_training_table_is_read_by_them(rated, form, tmp_path):
    frame = FRESH if form == "pandas" else pl.from_pandas(FRESH)
    triplets = tuple(FRESH[name] for name in ("userId", "movieId", "rating"))
    for model in (rated, saved(rated, tmp_path)):
        found = copy.copy(model).update({"ratings": frame})
        wanted = copy.copy(model).update({"ratings": triplets})
        assert [*found.factors("movie").index] == [*model.factors("movie").index]
        assert [*found.factors("user").index] == [*model.factors("user").index, 901]
        np.testing.assert_array_equal(found.predict("ratings"), wanted.predict("ratings"))
        new = model.fold_in("user", {"ratings": frame})
        np.testing.assert_array_equal(
            new.predict("ratings"), model.fold_in("user", {"ratings": triplets}).predict("ratings")
        )
        film = model.fold_in("movie", {"ratings": FRESH.assign(userId=[3, 4], movieId=[77, 77])})
        assert [*film.ids] == [77]


def test_weights_and_lines_without_values_are_read_as_they_were():
    rng = np.random.default_rng(1)
    frame = table().assign(times=rng.integers(1, 4, len(table())) / 3)
    model = gcmf.GCMF(random_state=0, tol=1e-3).fit(gcmf.Relation.from_frame("ratings", frame, weight="times", **NAMES))
    later = copy.copy(model).update({"ratings": FRESH.assign(times=[0.2, 1.0])})
    wanted = copy.copy(model).update(
        gcmf.Relation("ratings", "user", "movie", ([901, 901], [5, 7], [5.0, 1.0]), weight=[0.2, 1.0])
    )
    np.testing.assert_array_equal(later.predict("ratings"), wanted.predict("ratings"))
    assert not np.array_equal(copy.copy(model).update({"ratings": FRESH}).predict("ratings"), wanted.predict("ratings"))
    seen = gcmf.GCMF(random_state=0, tol=1e-3).fit(
        gcmf.Relation.from_frame("seen", frame, likelihood="bernoulli", blanks="zero", **{**NAMES, "value": None})
    )
    found, wanted = (
        seen.fold_in("user", {"seen": one}).predict("seen") for one in (FRESH, ([901] * 2, [5, 7], [1, 1]))
    )
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "frame",
    [
        FRESH.rename(columns={"movieId": "film"}),
        FRESH.rename(columns={"userId": "u", "movieId": "m"}),
        FRESH.set_index("userId")[["movieId", "rating"]],
        pd.DataFrame([[3.0, 4.0]], index=[901], columns=[5, 444]),
        pl.from_pandas(FRESH.rename(columns={"movieId": "film"})),
    ],
    ids=["one name", "no name", "ids in the index", "a new movie", "polars"],
)
def test_frames_that_are_neither_long_nor_wide_are_refused(rated, frame):
    before = rated.predict("ratings")
    for ask in (copy.copy(rated).update, lambda cells: rated.fold_in("user", cells)):
        with pytest.raises(DataError, match=r"neither long \(columns 'userId', 'movieId', 'rating'\) nor wide"):
            ask({"ratings": frame})
    np.testing.assert_array_equal(rated.predict("ratings"), before)


def test_wide_frames_of_movies_that_the_model_knows_are_wide(rated):
    wide = pd.DataFrame([[3.0, np.nan, 4.0]], index=[901], columns=[5, 6, 7])
    found = copy.copy(rated).update({"ratings": wide})
    wanted = copy.copy(rated).update({"ratings": ([901, 901], [5, 7], [3.0, 4.0])})
    np.testing.assert_array_equal(found.predict("ratings"), wanted.predict("ratings"))
    new = gcmf.Relation("ratings", "user", "movie", wide.rename(columns={6: 444}).fillna(2.0))
    assert 444 in copy.copy(rated).update(new).factors("movie").index  # it was said


def test_ids_of_another_kind_join_nobody(rated, tmp_path):
    """'5' is not 5, and no new movie either: everywhere it is refused with the id, its set and the kinds."""
    kinds = r"'movie' has ids of 2 kinds.*numbers in the model, such as \d+; text in .*'ratings', such as '5'"
    for cells in (([901], ["5"], [5.0]), FRESH.astype({"movieId": str})):
        with pytest.raises(DataError, match=kinds):
            copy.copy(rated).update({"ratings": cells})
        with pytest.raises(DataError, match=kinds):
            rated.fold_in("user", {"ratings": cells})
    with pytest.raises(DataError, match="'user' has ids of 2 kinds"):
        copy.copy(rated).update({"ratings": (["901"], [5], [5.0])})
    for unknown in ("error", "prior"):
        with pytest.raises(UnknownIdError, match=r"movie '5'\. Did you mean 5\? The ids are numbers"):
            rated.predict("ratings", [1], ["5"], unknown=unknown)
    texts = gcmf.Relation.from_frame("ratings", table().astype({"userId": str}), **NAMES)
    with pytest.raises(DataError, match="'user' has ids of 2 kinds"):
        rated.recommend("ratings", [1], seen=texts)
    with pytest.raises(DataError, match="'user' has ids of 2 kinds"):
        rated.explain("ratings", 1, 5, data=texts)
    with pytest.raises(DataError, match="'user' has ids of 2 kinds"):
        gcmf.GCMF(random_state=0).fit(texts, start=rated)


def test_a_visitor_may_be_called_anything_but_does_not_join():
    """Who is folded in stays apart from those that have numbers; a model with both would have ids of two kinds."""
    x = np.random.default_rng(0).normal(size=(12, 1)) @ np.ones((1, 5)) + 0.1 * np.eye(12, 5)
    model = gcmf.GCMF(1, random_state=0).fit({("user", "movie", "r"): x})
    new = model.fold_in("user", {"r": (["ann"], [0], [1.5])})
    assert [*new.ids] == ["ann"]
    with pytest.raises(DataError, match="numbers in the model, such as 0; text in those folded in, such as 'ann'"):
        new.together()


def test_update_changes_the_model_and_returns_it(first):
    model, x, _, new, _ = first
    later = copy.copy(model)
    assert later.update({"r": cells(x, new)}) is later
    assert later.predict("r", [3], [7]) != model.predict("r", [3], [7])
