"""Fits with covariates: what is recovered, what new entities gain, and what the model tells of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import gcmf
from gcmf.errors import UnknownIdError
from gcmf.model import columns

N, M, NEW = 300, 60, 40
IDS, COLS = np.array([f"u{n}" for n in range(N)]), np.array([f"m{n}" for n in range(M)])


class World:
    """Users whose tastes and biases depend on two numbers and a color; of the first forty no rating is known."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.users = pd.DataFrame(rng.normal(size=(N, 2)), index=IDS, columns=["age", "height"])
        self.users["color"] = rng.choice(["red", "green", "blue"], N)
        F = np.column_stack([self.users[["age", "height"]], self.users["color"] == "red"])
        self.effect = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -0.8]])
        self.U = F @ self.effect + 0.4 * rng.normal(size=(N, 2))
        self.V = rng.normal(size=(M, 2))
        self.bias = 0.7 * F[:, 0] + 0.3 * rng.normal(size=N)
        self.truth = self.U @ self.V.T + self.bias[:, None]
        seen = rng.random((N, M)) < 0.15
        seen[:NEW] = False
        self.i, self.j = np.nonzero(seen)
        x = self.truth[self.i, self.j] + 0.5 * rng.normal(size=len(self.i))
        self.ratings = gcmf.Relation("ratings", "user", "movie", (IDS[self.i], COLS[self.j], x))
        self.noise = pd.DataFrame(rng.normal(size=(N, 20)), index=IDS, columns=[f"noise {k}" for k in range(20)])

    def fitted(self, known, **options):
        data = gcmf.Collection([self.ratings], entities={"user": known})
        return gcmf.GCMF(5, random_state=0, progress=False, **options).fit(data)

    def error(self, model, who=slice(NEW)):
        guess = model.predict("ratings", IDS[who], COLS, grid=True)
        return float(np.sqrt(np.mean((guess - self.truth[who]) ** 2)))


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def model(world):
    return world.fitted(world.users)


@pytest.fixture(scope="module")
def plain(world):
    return world.fitted(IDS)


def test_new_users_are_predicted_from_what_is_known_of_them(world, model, plain):
    assert model.n_factors_active_ == plain.n_factors_active_ == 2
    assert world.error(plain) > 1.7, "nothing is known, so the mean of all is predicted"
    assert world.error(model) < 0.8
    others = slice(NEW, None)
    assert world.error(model, others) < 0.98 * world.error(plain, others), "also of those with few ratings"


def test_deviations_of_new_users_tell_how_far_off_predictions_are(world, model):
    mean, std = model.predict("ratings", IDS[:NEW], COLS, grid=True, return_std=True)
    off = (mean - world.truth[:NEW]) / np.sqrt(std**2 - 0.25)
    assert 0.8 < np.sqrt(np.mean(off**2)) < 1.2


def test_coefficients_are_recovered(world, model):
    table = model.coefficients("user")
    assert list(table.columns) == ["feature", "of", "mean", "std"]
    assert list(table["feature"].unique()) == ["age", "height", "color=blue", "color=green", "color=red"]
    assert list(table["of"].unique()) == ["F1", "F2", "bias in ratings"]
    wide = table.pivot_table(index="feature", columns="of", values="mean", sort=False)
    # Factors are known up to a turn and a scale: what they predict of a rating is not.
    users = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scale = world.users[["age", "height"]].std(ddof=0).to_numpy()
    steps = np.stack(
        [wide.loc["age"] / scale[0], wide.loc["height"] / scale[1], wide.loc["color=red"] - wide.loc["color=blue"]]
    )
    V = model.factors("movie").loc[COLS].to_numpy() * model.fitted_.scale[0]
    np.testing.assert_allclose(steps[:, :2] @ V.T, users @ world.effect @ world.V.T, atol=0.4)
    np.testing.assert_allclose(steps[:, 2], [0.7, 0.0, 0.0], atol=0.12)
    bias = table[(table["of"] == "bias in ratings") & (table["feature"] == "age")].iloc[0]
    assert abs(bias["mean"] - 0.7 * scale[0]) < 4 * bias["std"]
    assert 0.0 < bias["std"] < 0.1


def test_useless_columns_do_no_harm(world, model, plain):
    """Twenty columns of noise: alone they leave the model as it is without them, beside others nearly so."""
    alone, beside = world.fitted(world.noise), world.fitted(world.users.join(world.noise))
    for who in (slice(NEW), slice(NEW, None)):
        assert world.error(alone, who) < 1.01 * world.error(plain, who)
        assert world.error(beside, who) < 1.02 * world.error(model, who)
    used = beside.coefficients("user").query("mean != 0")["feature"].unique()
    assert {"age", "height", "color=red"} <= set(used)
    assert len(used) <= 8


def test_many_sparse_columns(world):
    """Each user has some of a thousand words, of which those with a color tell something."""
    rng = np.random.default_rng(1)
    words = (rng.random((N, 1000)) < 0.01).astype(float)
    for k, color in enumerate(["red", "green", "blue"]):
        words[:, k] = world.users["color"] == color
    model = world.fitted((IDS, sparse.csr_array(words), [f"word {k}" for k in range(1000)]))
    assert world.error(model) < world.error(world.fitted(IDS))
    assert len(model.coefficients("user")) == 1000 * (model.n_factors_active_ + 1)


@pytest.mark.parametrize("options", [
    {"sharing": "common"}, {"dtype": "float64"}, {"device": "reference", "tol": 1e-2},
    {"inference": "map", "priors": {"alpha_shape": 2.0, "alpha_rate": 1.0, "tau_shape": 2.0, "tau_rate": 1.0},
     "tol": 1e-3},
    {"bias": False}, {"bias": {"ratings": "cols"}}, {"n_init": 2},
], ids=str)  # fmt: skip
def test_every_kind_of_fit_takes_covariates(world, options):
    model = world.fitted(world.users, **options)
    assert model.status_ is gcmf.Status.CONVERGED
    assert world.error(model) < 1.3


def test_covariates_of_both_sides_and_of_all_kinds_of_cells():
    rng, world = np.random.default_rng(0), World()
    movies = pd.DataFrame({"length": world.V[:, 0] + 0.1 * rng.normal(size=M)}, index=COLS)
    liked = (world.truth + rng.logistic(size=world.truth.shape) > 0).astype(float)
    counts = rng.poisson(np.log1p(np.exp(world.truth))).astype(float)
    for x, likelihood in ((liked, "bernoulli"), (counts, "poisson")):
        x = x.copy()  # noqa: PLW2901 - with holes
        x[:NEW], x[:, :10] = np.nan, np.nan
        rel = gcmf.Relation("x", "user", "movie", pd.DataFrame(x, index=IDS, columns=COLS), likelihood)
        data = gcmf.Collection([rel], entities={"user": world.users, "movie": movies})
        model = gcmf.GCMF(4, random_state=0, progress=False).fit(data)
        guess = model.predict("x", IDS[:NEW], COLS[:10], grid=True)
        assert np.corrcoef(guess.ravel(), world.truth[:NEW, :10].ravel())[0, 1] > 0.5
        assert set(model.fitted_.effects) == {"user", "movie"}


def test_a_model_file_keeps_what_covariates_told(world, model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    np.testing.assert_array_equal(again.predict("ratings"), model.predict("ratings"))
    pd.testing.assert_frame_equal(again.coefficients("user", weak=True), model.coefficients("user", weak=True))
    effects, old = again.fitted_.effects["user"], model.fitted_.effects["user"]
    assert effects.features == old.features
    np.testing.assert_array_equal(effects.group, [0, 1, 2, 2, 2])
    assert effects.center[0] == pytest.approx(world.users["age"].mean())


def test_an_unknown_user_is_anybody(world, model, plain):
    mean, std = model.predict("ratings", ["nobody"], COLS, grid=True, return_std=True, unknown="prior")
    old_mean, old_std = plain.predict("ratings", ["nobody"], COLS, grid=True, return_std=True, unknown="prior")
    np.testing.assert_allclose(mean, old_mean, atol=0.3)
    assert np.mean(std) == pytest.approx(np.mean(old_std), rel=0.1)


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(world, model):
    again = world.fitted(world.users, n_threads=2)
    np.testing.assert_array_equal(again.elbo_trace_, model.elbo_trace_)
    np.testing.assert_array_equal(again.predict("ratings"), model.predict("ratings"))


def test_coefficients_of_polars_frames_are_polars(world):
    frame = pl.DataFrame({"user": IDS.tolist(), "age": world.users["age"].to_list()})
    ratings = pl.DataFrame(
        {"u": IDS[world.i].tolist(), "m": COLS[world.j].tolist(), "x": world.truth[world.i, world.j]}
    )
    relation = gcmf.Relation.from_frame("x", ratings, rows="user", cols="movie", row="u", col="m", value="x")
    model = gcmf.GCMF(2, random_state=0, progress=False, tol=1e-3)
    table = model.fit(gcmf.Collection([relation], entities={"user": frame})).coefficients("user")
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["feature", "of", "mean", "std"]


def test_questions_that_have_no_answer_are_refused(model, plain):
    with pytest.raises(UnknownIdError, match="There is no entity set 'users'; the model has 'user', 'movie'"):
        model.coefficients("users")
    with pytest.raises(UnknownIdError, match=r"The entity set 'movie' has no covariates: give a table"):
        model.coefficients("movie")
    with pytest.raises(UnknownIdError, match="has no covariates"):
        plain.coefficients("user")


def many_columns(n, p, *, seed):
    """Tastes and a bias that depend on five of p columns, some of which come twice."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, p))
    F[:, p // 2 : p // 2 + 3] = F[:, :3] + 0.01 * rng.normal(size=(n, 3))
    u = np.column_stack([F[:, 0] + F[:, 1], F[:, 2] - F[:, 3]]) + 0.5 * rng.normal(size=(n, 2))
    x = u @ rng.normal(size=(2, 20)) + F[:, [4]] + 0.5 * rng.normal(size=(n, 20))
    known = pd.DataFrame(F, columns=[f"c{k}" for k in range(p)])
    return gcmf.Collection([gcmf.Relation("x", "a", "b", x)], entities={"a": known})


@pytest.mark.parametrize(("n", "p"), [(60, 40), (20, 60), (30, 110)])
def test_columns_that_go_together_are_those_that_go_one_after_the_other(n, p, monkeypatch):
    passes, together = [], columns._without
    true = columns.worth
    monkeypatch.setattr(columns, "worth", lambda *args: passes.append(0) or true(*args))

    def one(spec, posterior, regression, idle, gain):
        return together(spec, posterior, regression, idle[:1], gain)

    found = []
    for way in (one, together):
        monkeypatch.setattr(columns, "_without", way)
        passes.clear()
        model = gcmf.GCMF(random_state=0).fit(many_columns(n, p, seed=2))
        told = model.coefficients("a")
        found.append((told.index[told["std"] > 0].tolist(), len(passes), model.predict("x")))
    (alone, n_alone, x), (kept, n_passes, y) = found
    assert kept == alone
    assert len(kept) >= 4
    np.testing.assert_allclose(y, x, atol=0.02 * np.std(x))
    # Measured: 6 for 80, 10 for 122 and 24 for 326.
    assert n_passes < n_alone / 4


def test_hundreds_of_columns_of_few_rows_go_in_few_passes(monkeypatch):
    passes, true = [], columns.worth
    monkeypatch.setattr(columns, "worth", lambda *args: passes.append(0) or true(*args))
    model = gcmf.GCMF(3, random_state=0, tol=1e-4).fit(many_columns(20, 400, seed=2))
    assert len(passes) < 60
    told = model.coefficients("a")
    assert (told["std"] == 0).mean() > 0.8


def test_a_category_of_thousands_of_levels_is_told_of_new_users_too():
    rng = np.random.default_rng(0)
    city, effect = rng.integers(150, size=600), rng.normal(size=150)
    x = effect[city][:, None] + 0.3 * rng.normal(size=(600, 8))
    users = pd.DataFrame({"city": [f"city {k}" for k in city], "age": rng.normal(size=600)})
    users.loc[:4, "city"] = None
    data = gcmf.Collection([gcmf.Relation("x", "a", "b", x)], entities={"a": users})
    model = gcmf.GCMF(2, random_state=0, tol=1e-3).fit(data)
    new = users.iloc[100:140].set_axis([f"new {n}" for n in range(40)])
    guess = model.fold_in("a", covariates=new).predict("x")
    assert np.corrcoef(guess.mean(axis=1), effect[city[100:140]])[0, 1] > 0.95
