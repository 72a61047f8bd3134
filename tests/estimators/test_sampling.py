"""A sampled model: the same questions, answered by draws."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import gcmf
import gcmf.datasets
from gcmf.errors import ConvergenceWarning, DataError, OptionError
from gcmf.io.variants import _less_factor
from gcmf.model import draws as draws_module
from gcmf.outcome import Status

FOLDER = gcmf.datasets.find_data_folder()
OPTIONS = {"inference": "gibbs", "random_state": 0, "n_samples": 40, "n_burn": 20, "progress": False}


def tables(seed=0, noise=0.5):
    """Ratings with two thirds missing, and one user and one movie without any; and 0/1 traits of users."""
    rng = np.random.default_rng(seed)
    u, v, w = (rng.normal(size=(n, 2)) for n in (40, 30, 12))
    truth = u @ v.T + rng.normal(size=(40, 1))
    x = truth + noise * rng.normal(size=truth.shape)
    x[rng.random(x.shape) < 2 / 3] = np.nan
    x[5], x[:, 7] = np.nan, np.nan
    traits = (rng.random((40, 12)) < 1.0 / (1.0 + np.exp(-2.0 * u @ w.T))).astype(float)
    return truth, [gcmf.Relation("x", "a", "b", 3.0 * x + 10.0), gcmf.Relation("traits", "a", "c", traits, "bernoulli")]


def fitted(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short chains may not have mixed
        return gcmf.GCMF(**{**OPTIONS, **options}).fit(tables()[1])


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_predictions_are_averages_over_draws(model):
    draws, i, j = model.fitted_.draws, np.array([0, 1, 5, 39]), np.array([3, 7, 2, 29])
    theta = draws.linear_predictors(0, i, j)
    assert theta.shape == (40, 4)
    scale, center = model.fitted_.scale[0], model.fitted_.center[0]
    mean, std = model.predict("x", i, j, return_std=True)
    np.testing.assert_allclose(mean, theta.mean(axis=0) * scale + center, rtol=1e-6)
    noise = draws.parameters[0][:, 0].mean()
    np.testing.assert_allclose(std, np.sqrt(theta.var(axis=0) + noise) * scale, rtol=1e-6)
    # 0/1: the average of probabilities, and not the probability of the average.
    chance, spread = model.predict("traits", i, [1, 2, 3, 4], return_std=True)
    sigma = 1.0 / (1.0 + np.exp(-draws.linear_predictors(1, i, np.array([1, 2, 3, 4]))))
    np.testing.assert_allclose(chance, sigma.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(spread**2, chance * (1 - chance), atol=1e-6)


def test_pairs_and_grids_agree(model):
    grid = np.stack(model.predict("x", return_std=True))
    pairs = np.stack(model.predict("x", [3, 5], [7, 2], return_std=True))
    np.testing.assert_allclose(pairs, grid[:, [3, 5], [7, 2]], rtol=1e-5)


def test_predictions_are_as_good_as_variational_ones_and_more_careful(model):
    truth, data = tables()
    plain = gcmf.GCMF(random_state=0, progress=False).fit(data)
    errors = [np.sqrt(np.mean(((m.predict("x") - 10.0) / 3.0 - truth) ** 2)) for m in (model, plain)]
    # Of five seeds, 1.04 times on average: this one has the largest, 1.08.
    assert errors[0] < 1.12 * errors[1]
    theta = model.fitted_.draws.linear_predictors(0, *(a.ravel() for a in np.indices(truth.shape)))
    scaled = theta * model.fitted_.scale[0] / 3.0 + (model.fitted_.center[0] - 10.0) / 3.0
    low, high = np.quantile(scaled, [0.05, 0.95], axis=0)
    assert 0.82 < np.mean((low < truth.ravel()) & (truth.ravel() < high)) < 0.96


def test_the_same_bits_for_any_number_of_threads(model):
    other = fitted(n_threads=3)
    np.testing.assert_array_equal(model.predict("x"), other.predict("x"))
    np.testing.assert_array_equal(model.elbo_trace_, other.elbo_trace_)
    assert not np.array_equal(fitted(random_state=1).predict("x"), model.predict("x"))


def test_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    for relation in ("x", "traits"):
        for mine, theirs in zip(*(m.predict(relation, return_std=True) for m in (model, again)), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert again.score(tables()[1]).equals(model.score(tables()[1]))
    assert again.structure().equals(model.structure())
    assert again.diagnostics().equals(model.diagnostics())
    assert (again.inference, again.n_samples, again.status_) == ("gibbs", 40, model.status_)


def test_tables_tell_of_the_draws(model):
    structure, diagnostics = model.structure(), model.diagnostics()
    shares = structure[["P(a)", "P(b)", "P(c)"]].to_numpy()
    assert ((shares >= 0) & (shares <= 1)).all()
    assert shares.max() == 1.0
    assert diagnostics["draws"].tolist() == [40, 40]
    assert (diagnostics["effective"] > 2).all()
    assert (diagnostics["r_hat"] > 0.9).all()
    assert "log joint density" in repr(model)
    assert len(model.elbo_trace_) == model.n_iter_ == 60
    assert model.status_ in (Status.SAMPLED, Status.UNMIXED)
    assert gcmf.GCMF(progress=False, random_state=0).fit(tables()[1]).diagnostics().empty


def test_entities_without_data_have_their_prior(model):
    """As many draws above as below: deviations come in pairs of opposite signs."""
    theta = model.fitted_.draws.linear_predictors(0, np.array([5, -1]), np.array([7, -1]))
    assert theta.std(axis=0).min() > 0.1
    known = model.predict("x", [5], [7])
    strange = model.predict("x", ["who"], ["what"], unknown="prior")
    assert abs(known - strange) < 3.0
    assert abs(strange - 10.0) < 3.0


def test_chains_are_put_together():
    one, two = fitted(n_samples=10), fitted(n_samples=10, n_chains=2)
    assert len(two.elbo_trace_) == 2 * len(one.elbo_trace_)
    assert two.fitted_.draws.n == 20
    # Factors that were added are told in the order of their sizes, which are means over all draws.
    i, j = np.arange(40), np.arange(40) % 30
    theta = [model.fitted_.draws.linear_predictors(0, i, j)[:10] for model in (one, two)]
    np.testing.assert_allclose(*theta, rtol=1e-4, atol=1e-4)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(draws_module, "MAX_BYTES", 1)
    assert fitted().fitted_.draws.n == draws_module.MIN_KEPT


def test_a_number_of_factors_is_that_many():
    model = fitted(n_factors=6, n_samples=10)
    assert model.fitted_.on.shape[1] == 6
    assert model.n_factors_active_ < 6


def test_a_callback_may_stop_it():
    seen = []

    def stop(info):
        seen.append(info.iteration)
        return seen.count(1) == 2 and info.iteration == 25  # sweeps are counted anew when draws begin

    model = fitted(callbacks=stop)
    assert model.status_ is Status.INTERRUPTED
    assert np.isfinite(model.predict("x")).all()


def test_chains_that_disagree_are_told_of():
    data = tables()[1]
    with pytest.warns(ConvergenceWarning, match=r"do not agree yet \(R-hat > 1.1\): raise n_burn and n_samples"):
        gcmf.GCMF(**{**OPTIONS, "n_samples": 8, "n_burn": 0, "n_chains": 2}).fit(data)


def test_so_few_draws_cannot_agree(tmp_path):
    with pytest.warns(ConvergenceWarning, match="fewer than 8 draws of a chain cannot show whether they agree"):
        model = gcmf.GCMF(**{**OPTIONS, "n_samples": 7, "n_burn": 0}).fit(tables()[1])
    assert model.status_ is Status.TOO_FEW_DRAWS
    assert model.diagnostics()[["effective", "r_hat"]].isna().all(axis=None)
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    assert again.status_ is Status.TOO_FEW_DRAWS
    assert again.diagnostics().equals(model.diagnostics())


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("weight", [1e-3, 1e-6])
@pytest.mark.parametrize("inference", ["vb", "gibbs"])
def test_cells_that_weigh_nothing_leave_the_prior(weight, inference):
    """Next to nothing is known of level, noise and biases: they are as large as the cells, and not beyond numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 15)) + 0.3 * rng.normal(size=(20, 15))
    i, j = (a.ravel() for a in np.indices(x.shape))
    data = gcmf.Relation("x", "a", "b", (i, j, x.ravel()), weight=np.full(300, weight))
    mean, std = gcmf.GCMF(**{**OPTIONS, "inference": inference}).fit(data).predict("x", i, j, return_std=True)
    assert np.abs(mean).max() < 3.0 * x.std()
    assert ((std > 0.5 * x.std()) & (std < 5.0 * x.std())).all()


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("shape", [(12, 8), (20, 20)])
def test_zeros_are_counts_of_small_means(shape):
    """A size r near zero would allow for any mean: p(0) = (1 + μ/r)^(−r)."""
    zeros = gcmf.Relation("x", "a", "b", np.zeros(shape), "negative_binomial")
    model = gcmf.GCMF(**OPTIONS).fit(zeros)
    mean, _, high = model.predict("x", interval=0.9)
    assert mean.max() < 0.1
    assert high.max() == 0.0
    assert model.score(zeros)["rmse"].item() < 0.1


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_draws_have_room_for_more_factors_than_variational_bayes_found():
    """0/1 cells of two factors, of which it finds one: intervals of θ hold what they say."""
    rng = np.random.default_rng([0, 7])
    n, p = 50, 35
    left, right, rows, cols = (rng.normal(size=size) for size in ((n, 2), (p, 2), n, p))
    theta = 2.0 * (left @ right.T + 0.3 * rows[:, None] + 0.3 * cols)
    x = (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
    seen = rng.random(x.shape) < 0.5
    i, j = np.nonzero(seen)
    model = gcmf.GCMF(**{**OPTIONS, "n_burn": 60, "n_samples": 80}).fit(
        gcmf.Relation("x", "a", "b", (i, j, x[i, j]), "bernoulli")
    )
    assert model.fitted_.draws.scales.shape[2] == model.n_factors_active_ + 3
    draws = model.sample("x", np.arange(n), np.arange(p), 400, of="predictor", grid=True, random_state=0)
    level = (draws < theta).mean(axis=0)[~seen]
    held = [np.mean((level > tail) & (level < 1.0 - tail)) for tail in (0.1, 0.025)]
    assert held == pytest.approx([0.8, 0.95], abs=0.07)


@pytest.mark.data
@pytest.mark.skipif(FOLDER is None, reason="no data folder: set GCMF_DATA")
@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("most", [
    0.9,
    pytest.param(0.68, marks=pytest.mark.xfail(strict=True, reason="issue 27: line 3 of issue 26, rows without a view "
                                               "still use factors of it otherwise; variational Bayes 0.62")),
])  # fmt: skip
def test_no_factor_takes_the_place_of_column_biases(most):
    """Faces with a view missing: a factor that is constant where the view is there, and something else where not."""
    # Before: 1.09, and more the longer it ran (1.75 after 200 sweeps). Now 0.79 (0.86 after 140, without more factors).
    assert _error_of_faces() < most


@cache
def _error_of_faces():
    path = FOLDER / "cases" / "h_yaleb.npz"
    if not path.exists():
        pytest.skip("no h_yaleb")
    case = np.load(path)
    sizes, ends = case["D"], case["inds"]
    relations = [
        gcmf.Relation(f"x{m}", f"e{r}", f"e{c}", tuple(case[f"m{m}_train_{k}"] for k in "ijx"), str(case["lik"][m - 1]))
        for m, (r, c) in enumerate(ends, 1)
    ]
    data = gcmf.Collection(relations, entities={f"e{e}": np.arange(d) for e, d in enumerate(sizes, 1)})
    model = gcmf.GCMF(**{**OPTIONS, "n_burn": 30, "n_samples": 60}).fit(data)
    i, j, x = (case[f"m2_test_{k}"] for k in "ijx")
    return np.sqrt(np.mean((model.predict("x2", i, j) - x) ** 2))


@pytest.mark.parametrize(("name", "value"), [("n_samples", 0), ("n_burn", -1), ("n_chains", 0), ("n_chains", 1.5)])
def test_options_are_checked(name, value):
    with pytest.raises(OptionError, match=name):
        gcmf.GCMF(inference="gibbs", **{name: value}).fit(tables()[1])


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_counts(likelihood, device):
    rng = np.random.default_rng(1)
    rate = np.exp(0.7 * rng.normal(size=(24, 2)) @ rng.normal(size=(2, 18)) + 0.5)
    x = rng.poisson(rate).astype(float)
    x[rng.random(x.shape) < 0.2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = gcmf.GCMF(**{**OPTIONS, "n_samples": 12, "n_burn": 4, "device": device}).fit(
            [gcmf.Relation("n", "a", "b", x, likelihood)]
        )
    mean, std = model.predict("n", return_std=True)
    assert np.corrcoef(np.log(mean.ravel()), np.log(rate.ravel()))[0, 1] > 0.5
    assert (std**2 >= mean).all()
    assert np.isfinite(model.score([gcmf.Relation("n", "a", "b", x, likelihood)])["log_likelihood"]).all()


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")  # so few draws do not agree yet
@pytest.mark.parametrize("n_factors", ["auto", 4])
def test_draws_of_data_in_which_nothing_is_found(n_factors):
    rng = np.random.default_rng(0)
    left = np.where(np.arange(40)[:, None] < 20, np.nan, rng.normal(size=(40, 7)))
    relations = [gcmf.Relation("left", "a", "w", left), gcmf.Relation("right", "a", "z", rng.normal(size=(40, 9)))]
    assert gcmf.GCMF(random_state=0).fit(relations).n_factors_active_ == 0
    model = gcmf.GCMF(n_factors, random_state=0, inference="gibbs", n_burn=5, n_samples=20).fit(relations)
    for name in ("left", "right"):
        assert all(np.isfinite(part).all() for part in model.predict(name, interval=0.9))
    # There is nothing but noise of variance one.
    assert np.abs(np.asarray(model.predict("right"))).max() < 1.5


# --- an answer of a sampled model is an average over draws of that answer -------------------------------------


def turning(noise=1.0):
    """Three factors of equal size, which no data tell from turned ones: draws wander over all of their turns."""
    rng = np.random.default_rng(3)
    u, v = (np.linalg.qr(rng.normal(size=(n, 3)))[0] * n**0.5 for n in (40, 25))
    x = u @ v.T + noise * rng.normal(size=(40, 25))
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


def turned(x, **options):
    options = {"inference": "gibbs", "n_samples": 800, "random_state": 0, "progress": False, "n_threads": 1, **options}
    return gcmf.GCMF(**options).fit(gcmf.Relation("x", "a", "b", x))


@pytest.fixture(scope="module")
def wandering():
    return turned(turning())


@pytest.mark.filterwarnings("ignore:GCMF. sampled, but")  # 100 draws do not show yet that they agree
def test_tables_of_factors_do_not_decay_with_more_draws(wandering):
    """Activity was 0.94 by variational Bayes, 0.85 with 200 draws and 0.5 with 2,000; all that uses factors fell."""
    plain, few = turned(turning(), inference="vb"), turned(turning(), n_samples=100)
    for entity in ("a", "b"):
        activity = np.array([model.structure()[entity] for model in (plain, few, wandering)])
        assert (activity > 0.88).all()
        np.testing.assert_allclose(activity[1], activity[2], atol=0.02)
        sizes = np.array([model.factors(entity).std() for model in (plain, few, wandering)])
        np.testing.assert_allclose(sizes[1:], sizes[[0, 0]], rtol=0.1)
    strengths = np.array([model.strengths().to_numpy()[0] for model in (plain, few, wandering)])
    np.testing.assert_allclose(strengths[1:], strengths[[0, 0]], rtol=0.06)
    alike = np.array([model.similar("a", n=1).score.mean() for model in (plain, few, wandering)])
    np.testing.assert_allclose(alike, alike[0], rtol=0.06)


def test_what_is_explained_is_what_predictions_explain(wandering):
    x, table = turning(), wandering.variance_explained().loc["x"]
    residual, whole = x - wandering.predict("x"), x - np.nanmean(x)
    assert table["total"] == pytest.approx(1.0 - np.nansum(residual**2) / np.nansum(whole**2), abs=1e-5)
    # Factors that do not overlap add up.
    assert table.drop("total").sum() == pytest.approx(table["total"], abs=0.03)


def test_draws_are_on_the_axes_of_their_means(wandering):
    """Each draw has the factors that the table has, one by one."""
    draws, K = wandering.fitted_.draws, wandering.fitted_.n_factors
    for e in (0, 1):
        mean, drawn = wandering.fitted_.mean[e][:, :K], draws.factors[e][:, :-1, :K]
        product = np.einsum("dk,sdl->skl", mean, drawn)
        cosine = product / (np.linalg.norm(mean, axis=0)[:, None] * np.linalg.norm(drawn, axis=1)[:, None])
        alike = np.diagonal(cosine, axis1=1, axis2=2)
        assert alike.min() > 0.5
        assert np.quantile(alike, 0.02) > 0.85
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=1e-4)


def test_reasons_add_up(model):
    data = tables()[1]
    draws, f = model.fitted_.draws, model.fitted_
    for m, (name, row, col) in enumerate([("x", 3, 4), ("traits", 3, 2)]):
        theta = draws.linear_predictors(m, np.array([row]), np.array([col])).mean() * f.scale[m] + f.center[m]
        totals = model.explain(name, row, col, data=data).groupby("by").contribution.sum()
        assert set(totals.index) == {"factors", "row cells", "column cells"}
        np.testing.assert_allclose(totals, theta, rtol=1e-5)
    assert theta == pytest.approx(model.sample("traits", 3, 2, 4000, of="predictor", random_state=0).mean(), abs=0.1)
    reasons = model.explain("x", 3, 4, data=data)
    rest = reasons[reasons.part == "rest"].contribution
    assert (rest.abs() < 0.5).all()  # of cells with deviation 6: what rows of draws differ by from expectations


@pytest.mark.parametrize("to", ["rows", "cols"])
@pytest.mark.parametrize("name", ["x", "traits"])
def test_rankings_are_those_of_predictions_and_draws(model, name, to):
    """Short lists were made by products of mean factors, bounds of independent normals: both missed the best."""
    f, m = model.fitted_, ["x", "traits"].index(name)
    shape = model.predict(name).shape
    theta = f.draws.linear_predictors(m, *(a.ravel() for a in np.indices(shape))).reshape(-1, *shape)
    wanted = {"mean": model.predict(name)}
    for by, level in (("lower", 0.1), ("upper", 0.9)):
        at = np.quantile(theta, level, axis=0)
        wanted[by] = f.likelihoods[m].mean(at, np.zeros_like(at)) * f.scale[m] + f.center[m]
    for by, values in wanted.items():
        scores = values if to == "rows" else values.T
        found = model.recommend(name, n=3, by=by, to=to, exclude_seen=False)
        best = -np.sort(-scores, axis=1)[:, :3]
        np.testing.assert_allclose(found.score.to_numpy().reshape(-1, 3), best, rtol=1e-5)
        np.testing.assert_allclose(scores[found.id, found.item], found.score, rtol=1e-5)


def test_a_ranking_by_sample_is_one_draw_of_the_posterior(model):
    f, found = model.fitted_, model.recommend("x", n=30, by="sample", exclude_seen=False, random_state=3)
    scores = found.set_index(["id", "item"]).score.unstack().to_numpy()
    theta = f.draws.linear_predictors(0, *(a.ravel() for a in np.indices((40, 30)))).reshape(-1, 40, 30)
    away = np.abs(theta * f.scale[0] + f.center[0] - scores).max(axis=(1, 2))
    assert (away < 1e-5).sum() == 1
    other = model.recommend("x", n=30, by="sample", exclude_seen=False, random_state=4)
    assert not found.score.equals(other.score)


def test_the_best_of_sparse_rows_is_not_missed():
    rng = np.random.default_rng(5)
    x = rng.random((60, 300)) < 1 / (1 + np.exp(2.0 - 2.0 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 300))))
    x = np.where(rng.random(x.shape) < 0.08, x, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = gcmf.GCMF(4, **OPTIONS).fit(gcmf.Relation("x", "a", "b", x, "bernoulli"))
    best = model.recommend("x", n=1, exclude_seen=False)
    np.testing.assert_allclose(best.score, model.predict("x").max(axis=1), rtol=1e-6)


def test_a_row_that_is_folded_in_again_predicts_like_itself(wandering):
    x, f = turning(), wandering.fitted_
    i = np.flatnonzero(np.isfinite(x[4]))
    new = wandering.fold_in("a", {"x": (np.full(len(i), 99), i, x[4, i])})
    mean, std = new.predict("x", 99, np.arange(25), return_std=True)
    before, wide = wandering.predict("x", 4, np.arange(25), return_std=True)
    assert np.sqrt(np.mean((mean - before) ** 2)) < 0.05 * before.std()
    np.testing.assert_allclose(std, wide, rtol=0.06)
    np.testing.assert_allclose(new.factors(), wandering.factors("a").loc[[4]], atol=0.05)
    np.testing.assert_allclose(new.factors(std=True), wandering.factors("a", std=True).loc[[4]], rtol=0.2)
    assert new.recommend("x", n=1, exclude_seen=False).item.item() == int(mean.argmax())
    assert new.similar(n=1).item.item() == 4
    assert new._answers.fitted_.draws.factors[0].shape == (f.draws.n, 2, f.on.shape[1])
    # Beside the others, nothing of theirs moves.
    both = new.together()
    np.testing.assert_array_equal(both.predict("x")[:40], wandering.predict("x"))
    np.testing.assert_array_equal(both.predict("x", 99, np.arange(25)), mean)


def test_a_row_without_cells_is_anybody(wandering):
    new = wandering.fold_in("a", {"x": (["few"], [3], [0.5])})
    far = np.abs(new.predict("x", "few", np.arange(25)) - wandering.predict("x", "?", np.arange(25), unknown="prior"))
    assert far.max() < 1.5  # of cells with deviation 2
    _, wide = new.predict("x", "few", 5, return_std=True)
    _, known = wandering.predict("x", 4, 5, return_std=True)
    assert wide > 1.2 * known


def test_new_rows_of_every_kind_of_cell(model):
    """Cells of 0/1 too, biases of a relation in which a row has none, and columns beside rows."""
    _, data = tables()
    x, traits = (relation.raw for relation in data)
    at = {name: np.flatnonzero(raw.i[:] == 2) for name, raw in (("x", x), ("traits", traits))}
    cells = {"x": (["new"] * len(at["x"]), x.j[:][at["x"]], x.x[at["x"]]),
             "traits": (["new"] * len(at["traits"]), traits.j[:][at["traits"]], traits.x[at["traits"]])}  # fmt: skip
    new = model.fold_in("a", cells)
    for name, scale in (("x", 3.0), ("traits", 0.5)):
        away = new.predict(name, "new", None)[0] - model.predict(name, 2, None)[0]
        assert np.sqrt(np.mean(away**2)) < 0.35 * scale
    # Without traits there is the prior of their biases, and what ratings say of the factors.
    some = model.fold_in("a", {"x": cells["x"]})
    assert ((some.predict("traits", "new", None) > 0) & (some.predict("traits", "new", None) < 1)).all()
    movie = model.fold_in("b", {"x": (["film"] * 3, [0, 1, 2], [10.0, 12.0, 9.0])})
    assert movie.predict("x", None, "film").shape == (40, 1)


def test_an_update_draws_new_entities_and_leaves_all_others(wandering, tmp_path):
    grown = gcmf.GCMF(inference="gibbs").set_params(**wandering.get_params())
    grown._settle(wandering.fitted_, wandering.elbo_trace_, wandering.status_)
    grown.update({"x": ([99, 99, 7], [0, 1, 98], [1.0, 2.0, 0.5])})
    np.testing.assert_array_equal(grown.predict("x", np.arange(40), np.arange(25), grid=True), wandering.predict("x"))
    K = wandering.fitted_.on.shape[1]
    assert grown.fitted_.draws.factors[0].shape[1:] == (42, K)
    assert grown.fitted_.draws.factors[1].shape[1:] == (27, K)
    assert 0 not in grown.recommend("x", [99], 25).item.tolist()
    grown.save(tmp_path / "m.gcmf")
    np.testing.assert_array_equal(gcmf.load(tmp_path / "m.gcmf").predict("x"), grown.predict("x"))


@pytest.mark.parametrize(("row", "col", "both"), [(5, 7, "known"), (900, 901, "new")])
def test_an_update_with_cells_that_draws_cannot_take_is_refused(model, row, col, both):
    with pytest.raises(DataError, match=f"are both {both} to the model.*fit\\(data, start=model\\)"):
        model.update({"x": ([row], [col], [1.0])})


def test_a_model_less_a_factor_predicts_without_it(wandering):
    less = _less_factor(wandering, 1)
    parts = wandering.fitted_.draws.parts(0, np.array([3]), np.array([4]))
    scale = wandering.fitted_.scale[0]
    gone = wandering.predict("x", 3, 4) - less.predict("x", 3, 4)
    assert gone == pytest.approx(parts[2][0, 1] * scale, rel=1e-4)
    assert abs(gone) > 0.05


def test_coefficients_are_on_the_axes_of_the_factors():
    """Means over draws of coefficients of axes that turn would be nothing."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(60, 3))
    u = np.linalg.qr(f)[0] * 60**0.5
    v = np.linalg.qr(rng.normal(size=(25, 3)))[0] * 25**0.5
    x = u @ v.T + rng.normal(size=(60, 25))
    about = pd.DataFrame(f, columns=list("fgh"))
    data = gcmf.Collection([gcmf.Relation("x", "a", "b", x)], entities={"a": about})
    model = gcmf.GCMF(**{**OPTIONS, "n_samples": 400, "n_threads": 1}).fit(data)
    table = model.coefficients("a")
    w = table[table["of"].str.startswith("F")].pivot_table(index="feature", columns="of", values="mean").to_numpy()
    expected = (f - f.mean(axis=0)) / f.std(axis=0) @ w
    factors = model.factors("a").to_numpy()
    assert np.square(factors - expected).mean() < 0.25 * np.square(factors).mean()
    new = model.fold_in("a", covariates=about[:4].set_axis(["n1", "n2", "n3", "n4"]))
    away = new.predict("x") - model.predict("x", np.arange(4), None)
    assert np.sqrt(np.mean(away**2)) < 0.6  # where rows have deviations of 1.7
