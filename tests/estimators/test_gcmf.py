"""GCMF: the contract of the public surface, line by line."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gcmf
from gcmf.errors import ConvergenceWarning, OptionError, UnknownIdError

USERS = [f"u{n}" for n in range(60)]
MOVIES = [f"m{n}" for n in range(40)]
GENRES = ["drama", "comedy", "war", "noir", "western", "musical", "crime", "horror"]


def world(seed=0):
    """Ratings with two shared factors and one of their own; genres of movies follow the shared ones."""
    rng = np.random.default_rng(seed)
    u, m = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
    g = 2 * rng.normal(size=(2, len(GENRES)))
    ratings = 3 + u @ m.T + rng.normal(size=40) + 0.4 * rng.normal(size=(60, 40))
    genres = (rng.random((40, len(GENRES))) < 1 / (1 + np.exp(-m[:, :2] @ g))).astype(float)
    return ratings, genres


def collection(seed=0, *, scale=1.0, offset=0.0):
    ratings, genres = world(seed)
    relations = [
        gcmf.Relation("ratings", "user", "movie", pd.DataFrame(scale * ratings + offset, USERS, MOVIES)),
        gcmf.Relation("genres", "movie", "genre", pd.DataFrame(genres, MOVIES, GENRES), "bernoulli"),
    ]
    return gcmf.Collection(relations)


@pytest.fixture(scope="module")
def parts():
    return collection().split(test_size=0.2, relations=["ratings", "genres"], random_state=0)


@pytest.fixture(scope="module")
def model(parts):
    return gcmf.GCMF(n_factors=6, random_state=0, n_threads=1).fit(parts[0])


# --- fit ---


def test_fit_returns_itself_and_says_how_it_went(model):
    assert model.status_ is gcmf.Status.CONVERGED
    assert str(model.status_).startswith("converged")
    assert model.n_iter_ == len(model.elbo_trace_) > 10
    # The bound of the structure: the sweeps after it refine predictions.
    assert model.elbo_ in model.elbo_trace_[10:-1]
    assert model.n_factors_active_ == len(model.structure()) == 3


def test_fit_takes_a_mapping_of_arrays():
    ratings, genres = world()
    model = gcmf.GCMF(n_factors=5, random_state=0)
    assert model.fit({("user", "movie"): ratings, ("movie", "genre", "tags"): genres.astype(bool)}) is model
    found = [(r.name, r.likelihood) for r in model.schema_.relations]
    assert found == [("user-movie", "gaussian"), ("tags", "bernoulli")]
    assert model.predict("user-movie").shape == (60, 40)
    assert model.predict("tags", 3, 5).shape == (1,)


def test_parameters_are_stored_as_given_and_cloned():
    priors = gcmf.Priors(alpha_shape=1, alpha_rate=1)
    model = gcmf.GCMF(7, sharing="common", bias={"ratings": "rows"}, priors=priors, n_init=2, dtype="float64")
    params = clone(model).get_params()
    assert params["n_factors"] == 7
    assert params["bias"] == {"ratings": "rows"}
    assert params["priors"] == priors
    assert params == model.get_params()
    contract = "n_factors sharing bias inference priors max_iter tol n_init random_state dtype device n_threads"
    assert set(gcmf.GCMF().get_params()) >= {
        *contract.split(),
        "progress",
        "callbacks",
        "checkpoint",
        "checkpoint_every",
    }
    assert gcmf.GCMF().set_params(n_factors=3).n_factors == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_factors": 0}, "'n_factors' parameter must be an integer >= 1"),
        ({"sharing": "some"}, "'sharing' parameter must be one of 'group', 'common'. Got 'some'"),
        ({"bias": {"rating": True}}, "bias= names 'rating', but the relations are 'ratings', 'genres'"),
        ({"bias": "yes"}, "'bias' parameter must be True, False or a mapping"),
        ({"inference": "map"}, "inference='map' needs proper hyper-priors"),
        ({"dtype": "float16"}, "'dtype' parameter must be one of 'float32', 'float64'"),
    ],
)
def test_wrong_options_are_refused_when_fitting(options, message, parts):
    model = gcmf.GCMF(**options)
    with pytest.raises(OptionError, match=message):
        model.fit(parts[0])


def test_everything_needs_a_fit():
    model = gcmf.GCMF()
    for ask in (
        model.structure,
        model.variance_explained,
        lambda: model.factors("user"),
        lambda: model.predict("r"),
    ):
        with pytest.raises(NotFittedError, match=r"call fit\(data\) first"):
            ask()
    assert repr(model) == "GCMF()"


def test_same_seed_same_bits_for_any_number_of_threads(parts):
    one, two, again = (
        gcmf.GCMF(n_factors=5, random_state=3, n_threads=n, max_iter=40, tol=1e-3).fit(parts[0]) for n in (1, 2, 1)
    )
    for entity in ("user", "movie", "genre"):
        np.testing.assert_array_equal(one.factors(entity), two.factors(entity))
        np.testing.assert_array_equal(one.factors(entity), again.factors(entity))
    np.testing.assert_array_equal(one.elbo_trace_, two.elbo_trace_)
    other = gcmf.GCMF(n_factors=5, random_state=4, max_iter=40, tol=1e-3).fit(parts[0])
    assert not np.array_equal(one.elbo_trace_[:5], other.elbo_trace_[:5])


def test_units_do_not_matter(model):
    train, _ = collection(scale=1000, offset=50).split(test_size=0.2, relations=["ratings", "genres"], random_state=0)
    scaled = gcmf.GCMF(n_factors=6, random_state=0, n_threads=1).fit(train)
    mean, std = scaled.predict("ratings", return_std=True)
    plain_mean, plain_std = model.predict("ratings", return_std=True)
    np.testing.assert_allclose(mean, 1000 * plain_mean + 50, rtol=1e-4, atol=1e-4 * mean.std())
    np.testing.assert_allclose(std, 1000 * plain_std, rtol=1e-4)
    np.testing.assert_allclose(scaled.predict("genres"), model.predict("genres"), atol=1e-4)


def test_restarts_keep_the_best_bound(parts):
    single = gcmf.GCMF(n_factors=5, random_state=0, tol=1e-4).fit(parts[0])
    best = gcmf.GCMF(n_factors=5, random_state=0, tol=1e-4, n_init=3).fit(parts[0])
    assert best.elbo_ >= single.elbo_


@pytest.mark.parametrize("bias", [False, {"ratings": False, "genres": False}])
def test_no_biases_means_no_biases(bias, parts):
    model = gcmf.GCMF(n_factors=6, bias=bias, random_state=0).fit(parts[0])
    for side in ("rows", "cols"):
        assert (model.biases("ratings", side) == 0).all()
    assert model.variance_explained()["bias"].loc["ratings"] == pytest.approx(0, abs=1e-6)


def test_biases_of_one_side_of_one_relation(parts):
    model = gcmf.GCMF(n_factors=6, bias={"ratings": "cols", "genres": False}, random_state=0).fit(parts[0])
    assert (model.biases("ratings", "rows") == 0).all()
    assert model.biases("ratings", "cols").std() > 0.5
    assert list(model.biases("ratings", "cols").index) == MOVIES
    assert (model.biases("genres", "cols") == 0).all()
    with pytest.raises(OptionError, match=r"'side' parameter must be one of 'rows', 'cols'"):
        model.biases("ratings", "movie")


def test_common_sharing_puts_every_factor_everywhere(parts, model):
    common = gcmf.GCMF(n_factors=6, sharing="common", random_state=0).fit(parts[0])
    assert (common.structure()["role"] == "shared").all()
    assert "private" in model.structure()["role"].tolist()


def test_map_with_proper_priors_is_a_point(parts):
    priors = gcmf.Priors(alpha_shape=5, alpha_rate=5, tau_shape=1, tau_rate=1)
    model = gcmf.GCMF(n_factors=4, inference="map", priors=priors, random_state=0, max_iter=3000).fit(parts[0])
    assert (model.factors("user", std=True) == 0).all(axis=None)
    assert model.n_factors_active_ == 4
    assert model.score(parts[1]).loc["ratings", "rmse"] < 1.0


def test_max_iter_warns_and_leaves_a_usable_model(parts):
    with pytest.warns(ConvergenceWarning, match=r"GCMF: stopped at max_iter before converging: raise max_iter"):
        model = gcmf.GCMF(n_factors=4, max_iter=3, random_state=0).fit(parts[0])
    assert model.status_ is gcmf.Status.MAX_ITER
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict("ratings")).all()


def test_a_callback_sees_every_sweep_and_can_stop(parts):
    seen = []

    def watch(info):
        seen.append(info)
        return info.iteration == 4

    model = gcmf.GCMF(n_factors=4, callbacks=(watch,), random_state=0).fit(parts[0])
    assert [info.iteration for info in seen] == [1, 2, 3, 4]
    assert model.status_ is gcmf.Status.INTERRUPTED
    assert model.n_iter_ == 4
    np.testing.assert_allclose([info.elbo for info in seen], model.elbo_trace_)


# --- read ---


def test_factors_are_named_tables(model):
    table = model.factors("movie")
    assert list(table.index) == MOVIES
    assert list(table.columns) == ["F1", "F2", "F3"]
    std = model.factors("movie", std=True)
    assert std.shape == table.shape
    assert (std.to_numpy() >= 0).all()
    assert (std["F1"] > 0).all()
    table.iloc[0, 0] = 99.0
    assert model.factors("movie").iloc[0, 0] != 99.0
    with pytest.raises(UnknownIdError, match=r"no entity set 'movies'.*Did you mean 'movie'"):
        model.factors("movies")


def test_structure_has_a_row_per_factor(model):
    table = model.structure()
    assert list(table.columns) == ["user", "movie", "genre", "role", "relations"]
    assert table["role"].tolist() == ["shared", "shared", "private"]
    assert table["relations"].tolist() == [("ratings", "genres")] * 2 + [("ratings",)]
    activity = table[["user", "movie", "genre"]].to_numpy()
    assert ((activity >= 0) & (activity <= 1)).all()
    assert activity[2, 2] == 0
    assert (activity[:2] > 0.5).all()
    assert (model.factors("genre")["F3"] == 0).all()


def test_variance_explained_by_relation_and_factor(model):
    table = model.variance_explained()
    assert list(table.index) == ["ratings", "genres"]
    assert list(table.columns) == ["F1", "F2", "F3", "bias", "total"]
    assert table.loc["genres", "F3"] == pytest.approx(0, abs=1e-12)
    assert 0.85 < table.loc["ratings", "total"] < 1
    assert table.loc["ratings", "bias"] > 0.1
    parts_of_it = table.loc["ratings", ["F1", "F2", "F3", "bias"]]
    assert parts_of_it.sum() == pytest.approx(table.loc["ratings", "total"], abs=0.1)


def test_predict_in_all_its_forms(model):
    everything = model.predict("ratings")
    assert everything.shape == (60, 40)
    paired = model.predict("ratings", ["u3", "u1"], ["m2", "m7"])
    np.testing.assert_allclose(paired, everything[[3, 1], [2, 7]])
    grid = model.predict("ratings", ["u3", "u1"], ["m2", "m7", "m9"], grid=True)
    np.testing.assert_allclose(grid, everything[np.ix_([3, 1], [2, 7, 9])])
    np.testing.assert_allclose(model.predict("ratings", ["u3", "u1"]), everything[[3, 1]])
    np.testing.assert_allclose(model.predict("ratings", None, ["m2"]), everything[:, [2]])
    np.testing.assert_allclose(model.predict("ratings", "u3", "m2"), everything[3, [2]])
    np.testing.assert_allclose(model.predict("ratings", "u3", ["m2", "m7"]), everything[3, [2, 7]])
    np.testing.assert_allclose(model.predict("ratings", pd.Series(["u3"]), np.array(["m2"])), everything[3, [2]])


def test_predictive_deviation_covers_the_held_out_cells(model, parts):
    mean, std = model.predict("ratings", return_std=True)
    cells = parts[1].relations["ratings"].cells
    z = np.concatenate([(part.x - mean[part.i, part.j]) / std[part.i, part.j] for part in cells.chunks(10_000)])
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.25
    assert 0.88 < np.mean(np.abs(z) < 1.96) < 0.99


def test_probabilities_are_probabilities(model):
    p, std = model.predict("genres", return_std=True)
    assert ((p > 0) & (p < 1)).all()
    assert (std <= 0.5 + 1e-9).all()


def test_unknown_ids_are_errors_or_the_prior(model):
    with pytest.raises(UnknownIdError, match=r"never seen user 'new'.*unknown='prior'"):
        model.predict("ratings", ["new", "u1"], ["m2", "m2"])
    with pytest.raises(UnknownIdError, match=r"no relation 'rating'.*Did you mean 'ratings'"):
        model.predict("rating")
    with pytest.raises(OptionError, match=r"2 rows and 3 columns. Use grid=True"):
        model.predict("ratings", ["u1", "u2"], ["m1", "m2", "m3"])
    with pytest.raises(OptionError, match=r"'unknown' parameter must be one of 'error', 'prior'"):
        model.predict("ratings", "u1", "m1", unknown="guess")
    mean, std = model.predict("ratings", ["new", "u1"], ["m2", "m2"], unknown="prior", return_std=True)
    average = model.biases("ratings", "cols")["m2"] + model.biases("ratings", "rows").mean()
    center = model.fitted_.center[0]
    assert mean[0] == pytest.approx(center + average, abs=0.2)
    assert std[0] > 1.5 * std[1]


def test_a_declared_id_without_cells_has_the_prior(model, parts):
    ratings, _ = world()
    frame = pd.DataFrame(ratings, USERS, MOVIES)
    data = gcmf.Collection([gcmf.Relation("r", "user", "movie", frame)], entities={"user": [*USERS, "late"]})
    fitted = gcmf.GCMF(n_factors=5, random_state=0).fit(data)
    known = fitted.predict("r", "late", MOVIES, return_std=True)
    prior = fitted.predict("r", "never", MOVIES, return_std=True, unknown="prior")
    np.testing.assert_allclose(known, prior, rtol=1e-5)


def test_score_compares_with_held_out_cells(model, parts):
    table = model.score(parts[1])
    assert list(table.index) == ["ratings", "genres"]
    assert list(table.columns[:6]) == ["rmse", "mae", "log_likelihood", "n", "auc", "average_precision"]
    assert list(table.columns[6:]) == [
        *(f"coverage_{level}" for level in (50, 80, 95)),
        "width_95",
        "calibration_error",
    ]
    assert table["n"].tolist() == [480, 64]
    assert table.loc["ratings", "rmse"] < 0.4 * 1.5
    assert table.loc["ratings", "mae"] < table.loc["ratings", "rmse"]
    assert np.isnan(table.loc["ratings", "auc"])
    assert 0.6 < table.loc["genres", "auc"] <= 1
    assert np.isnan(table.loc["ratings", "average_precision"])
    assert 0.3 < table.loc["genres", "average_precision"] <= 1
    assert -np.log(2) < table.loc["genres", "log_likelihood"] < 0
    mean = model.predict("ratings")
    part = next(iter(parts[1].relations["ratings"].cells.chunks(10_000)))
    rmse = np.sqrt(np.mean((part.x - mean[part.i, part.j]) ** 2))
    assert table.loc["ratings", "rmse"] == pytest.approx(rmse, rel=1e-6)


def test_score_without_zero_one_cells_has_no_auc_and_refuses_strangers(model):
    ratings, _ = world()
    frame = pd.DataFrame(ratings[:2], ["u0", "stranger"], MOVIES)
    data = gcmf.Collection([gcmf.Relation("ratings", "user", "movie", frame)])
    with pytest.raises(UnknownIdError, match=r"never seen user 'stranger'"):
        model.score(data)
    columns = ["rmse", "mae", "log_likelihood", "n", "coverage_50", "coverage_80", "coverage_95", "width_95"]
    assert list(model.score(data, unknown="prior").columns) == columns


def test_repr_tells_what_was_found(model):
    text = repr(model)
    assert "3 active factors: 2 shared, 1 private" in text
    assert "(gaussian)" in text
    assert f"{model.n_iter_} sweeps" in text


def test_pure_noise_leaves_biases_only():
    noise = np.random.default_rng(0).normal(size=(30, 20))
    model = gcmf.GCMF(n_factors=5, random_state=0).fit({("row", "col"): noise})
    assert model.status_ is gcmf.Status.ALL_PRUNED
    assert model.factors("row").shape == (30, 0)
    assert model.structure().empty
    assert list(model.variance_explained().columns) == ["bias", "total"]
    assert model.predict("row-col").shape == (30, 20)
