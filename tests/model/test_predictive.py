"""Intervals, probabilities and draws of new cells, against simulation and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

import gcmf
import laplace
from gcmf.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson
from gcmf.likelihoods.base import NO_PARAMETERS, Likelihood
from gcmf.model.predictive import Drawn, Normal, cdf, drawn_mean, interval, log_density, mean_and_variance
from gcmf.model.sample import sample_cells, sample_theta
from gcmf.model.score import calibration_error, score_cells

M = np.array([-2.0, 0.3, 1.5, 4.0, 7.0])
V = np.array([0.02, 0.5, 1.0, 0.3, 0.1])
KINDS = {
    "gaussian": (Gaussian(), np.array([0.4])),
    "bernoulli": (Bernoulli(), NO_PARAMETERS),
    "poisson": (Poisson(), NO_PARAMETERS),
    "negative_binomial": (NegativeBinomial(), np.array([2.5])),
    "laplace": (laplace.Laplace(), np.array([0.7])),
}
by_kind = pytest.mark.parametrize("kind", KINDS)
N = 200_000


def simulated(kind, seed=0, n=N):
    """Draws of θ and of cells, (n, cells)."""
    likelihood, p = KINDS[kind]
    rng = np.random.default_rng(seed)
    theta = M + np.sqrt(V) * rng.normal(size=(n, len(M)))
    return theta, likelihood.draw(theta, p, rng)


@by_kind
def test_draws_have_the_moments_of_the_predictions(kind):
    likelihood, p = KINDS[kind]
    _, x = simulated(kind)
    mean, variance = mean_and_variance(likelihood, Normal(M, V, p))
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / N), rtol=0.01)
    np.testing.assert_allclose(x.var(axis=0), variance, rtol=0.06)


@by_kind
def test_mean_and_deviation_are_of_one_distribution(kind):
    """Where θ is wider than q has it, means are those of q, and no variance is of another mean."""
    likelihood, p = KINDS[kind]
    mean, variance = mean_and_variance(likelihood, Normal(M, 4 * V, p, of_q=V))
    np.testing.assert_array_equal(mean, mean_and_variance(likelihood, Normal(M, V, p))[0])
    wide_mean, wide = mean_and_variance(likelihood, Normal(M, 4 * V, p))
    narrow = mean_and_variance(likelihood, Normal(M, V, p))[1]
    if likelihood.support == "binary":
        np.testing.assert_allclose(variance, mean * (1 - mean), rtol=1e-12)
    elif likelihood.support == "counts":
        np.testing.assert_allclose((variance - mean) / mean**2, (wide - wide_mean) / wide_mean**2, rtol=1e-9)
        assert (narrow < variance).all()
        assert (variance < wide).all()
    else:
        np.testing.assert_array_equal(variance, wide)
    sure = Normal(np.array([-800.0]), np.array([4.0]), p, of_q=np.array([1.0]))
    assert np.isfinite(mean_and_variance(likelihood, sure)).all()


@by_kind
def test_probabilities_are_those_of_draws(kind):
    likelihood, p = KINDS[kind]
    _, x = simulated(kind)
    for at in (0.0, 1.0, 3.0, 40.0):
        told = cdf(likelihood, Normal(M, V, p), np.full(len(M), at))
        np.testing.assert_allclose(told, (x <= at).mean(axis=0), atol=0.006)


@by_kind
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_what_they_say(kind, level):
    """Of counts at least so much, and less without their ends; of 0/1 it is the probability that they hold."""
    likelihood, p = KINDS[kind]
    theta, x = simulated(kind)
    if kind == "bernoulli":
        x = 1.0 / (1.0 + np.exp(-theta))
    lower, upper = interval(likelihood, Normal(M, V, p), level)
    tail = (1.0 - level) / 2.0
    if likelihood.support == "counts":
        assert np.all((x <= lower).mean(axis=0) >= tail - 0.01)
        assert np.all((x < lower).mean(axis=0) < tail + 0.01)
        assert np.all((x <= upper).mean(axis=0) >= 1.0 - tail - 0.01)
        assert np.all((x < upper).mean(axis=0) < 1.0 - tail + 0.01)
        np.testing.assert_array_equal(lower, np.round(lower))
    else:
        np.testing.assert_allclose((x < lower).mean(axis=0), tail, atol=0.006)
        np.testing.assert_allclose((x > upper).mean(axis=0), tail, atol=0.006)


@by_kind
def test_draws_of_theta_answer_as_the_normal_they_are_of(kind):
    """What a sampler would bring: many draws, each with parameters of its own."""
    likelihood, p = KINDS[kind]
    theta = M + np.sqrt(V) * ndtri(
        (np.random.default_rng(1).permuted(np.tile(np.arange(400), (5, 1)), axis=1).T + 0.5) / 400
    )
    drawn, normal = Drawn(theta, np.tile(p, (len(theta), 1))), Normal(M, V, p)
    deviation = np.sqrt(mean_and_variance(likelihood, normal)[1])
    mean, variance = mean_and_variance(likelihood, drawn)
    np.testing.assert_allclose(mean, mean_and_variance(likelihood, normal)[0], atol=0.08 * deviation.max(), rtol=0.03)
    np.testing.assert_allclose(np.sqrt(variance), deviation, rtol=0.1)
    x = np.array([0.0, 1.0, 1.0, 0.0, 1.0]) if kind == "bernoulli" else np.round(mean)
    np.testing.assert_allclose(cdf(likelihood, drawn, x), cdf(likelihood, normal, x), atol=0.03)
    if kind != "laplace":  # whose density with an uncertain θ is an approximation
        np.testing.assert_allclose(
            log_density(likelihood, drawn, x), log_density(likelihood, normal, x), atol=0.05, rtol=0.03
        )
    for one, other in zip(interval(likelihood, drawn, 0.8), interval(likelihood, normal, 0.8), strict=True):
        np.testing.assert_allclose(one, other, atol=0.1 * deviation.max(), rtol=0.05)


def test_parameters_of_draws_are_their_own():
    noise = np.array([[0.01], [4.0]])
    theta = Drawn(np.zeros((2, 1)), noise)
    assert mean_and_variance(Gaussian(), theta)[1] == pytest.approx(2.005)
    assert cdf(Gaussian(), theta, np.array([-1.0]))[0] == pytest.approx(0.5 * 0.3085, abs=1e-4)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial()], ids=lambda one: one.name)
def test_what_counts_have_of_their_own_is_what_any_counts_have(likelihood):
    """The sums of probabilities that a likelihood has if it has nothing better."""
    p, theta = KINDS[likelihood.name][1], np.array([-1.0, 0.5, 2.0])
    for x in (-1.0, 0.0, 2.0, 9.0):
        at = np.full(3, x)
        np.testing.assert_allclose(likelihood.cdf(at, theta, p), Likelihood.cdf(likelihood, at, theta, p), rtol=1e-6)
    rng = np.random.default_rng(0)
    drawn = Likelihood.draw(likelihood, np.tile(theta, (20_000, 1)), p, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), likelihood.mean(theta, np.zeros(3)), rtol=0.03)


def test_intervals_of_very_large_counts_are_found():
    m, v = np.array([13.0, 200.0]), np.array([0.5, 1.0])
    lower, upper = interval(NegativeBinomial(), Normal(m, v, np.array([3.0])), 0.9)
    assert np.all(np.isfinite(upper))
    assert np.all(lower < np.exp(m))
    assert np.all(upper > np.exp(m))


# --- models -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(80, 2)), rng.normal(size=(30, 2))
    theta = u @ v.T + rng.normal(size=30)
    x = 10.0 * theta + 5.0 * rng.normal(size=theta.shape) + 100.0
    relations = [
        gcmf.Relation("x", "a", "b", np.where(rng.random(x.shape) < 0.6, np.nan, x)),
        gcmf.Relation("ones", "a", "c", 1.0 * (rng.random((80, 20)) < 0.5 + 0.4 * np.tanh(u[:, :1])), "bernoulli"),
        gcmf.Relation("counts", "a", "d", rng.poisson(np.exp(0.5 + 0.5 * u[:, :1] + np.zeros(15))).astype(float),
                      "poisson"),
    ]  # fmt: skip
    return gcmf.Collection(relations, entities={"a": range(82)})


@pytest.fixture(scope="module")
def model(data):
    return gcmf.GCMF(4, random_state=0, n_threads=1, tol=1e-5, progress=False).fit(data)


def test_predict_gives_what_is_asked_for(model):
    mean = model.predict("x", [0, 1], [2, 3])
    lower, upper = model.predict("x", [0, 1], [2, 3], interval=0.9)[1:]
    everything = model.predict("x", [0, 1], [2, 3], return_std=True, interval=0.9)
    for found, wanted in zip(everything, (mean, model.predict("x", [0, 1], [2, 3], return_std=True)[1], lower, upper),
                             strict=True):  # fmt: skip
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(upper - mean, 1.6449 * everything[1], rtol=1e-4)
    grid = model.predict("x", [0, 1], [2, 3], grid=True, interval=0.9)
    np.testing.assert_allclose([part.diagonal() for part in grid], [mean, lower, upper], rtol=1e-12)
    assert all(part.shape == (82, 15) for part in model.predict("counts", interval=0.5))


@pytest.mark.parametrize("level", [0, 1, 1.5, "0.9", True, np.nan])
def test_an_interval_is_a_probability(model, level):
    with pytest.raises(gcmf.errors.OptionError, match="must be a probability between 0 and 1"):
        model.predict("x", [0], [1], interval=level)


@pytest.mark.parametrize("relation", ["x", "ones", "counts"])
def test_samples_have_the_mean_and_deviation_of_predictions(model, relation):
    rows, cols = [0, 5, 5, 81], [1, 2, 3, 4]  # of 81 nothing is known
    x = model.sample(relation, rows, cols, 20_000, random_state=0)
    assert x.shape == (20_000, 4)
    mean, std = model.predict(relation, rows, cols, return_std=True)
    # θ of who is not known is a product of two normals: its tails are longer than those of predictions.
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=0.06 * std.max())
    np.testing.assert_allclose(x.std(axis=0), std, rtol=0.06)
    again = model.sample(relation, rows, cols, 20_000, random_state=0)
    np.testing.assert_array_equal(x, again)


def test_samples_of_a_row_are_joint(model):
    """Cells of an entity of which nothing is known share its bias and its factors; θ has no noise."""
    draws = model.sample("x", [81, 81, 80], [1, 1, 1], 5000, of="predictor", random_state=1)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1])
    assert abs(np.corrcoef(draws[:, 0], draws[:, 2])[0, 1]) < 0.1
    cells = model.sample("x", [81, 81], [1, 1], 5000, random_state=1)
    assert 0.5 < np.corrcoef(cells.T)[0, 1] < 0.999
    strange = model.sample("x", ["new", "new"], [1, 1], 5000, of="predictor", unknown="prior", random_state=1)
    assert abs(np.corrcoef(strange.T)[0, 1]) < 0.1
    assert model.sample("counts", [0, 1], None, 3, random_state=0).shape == (3, 2, 15)


def test_samples_take_parts_one_after_the_other(model, monkeypatch):
    monkeypatch.setattr("gcmf.model.sample._NUMBERS", 100)
    x = model.sample("x", [0, 5], [1, 2], 3000, random_state=0)
    np.testing.assert_allclose(x.mean(axis=0), model.predict("x", [0, 5], [1, 2]), atol=0.8)
    assert len(np.unique(x[:, 0])) == 3000


@pytest.mark.parametrize("symmetric", [True, False])
def test_who_is_on_both_sides_has_one_vector(symmetric):
    rng = np.random.default_rng(0)
    u = rng.normal(size=(30, 2))
    x = u @ u.T + 0.1 * rng.normal(size=(30, 30))
    x = x + x.T if symmetric else x + np.triu(x)
    np.fill_diagonal(x, np.nan)
    x[:, 29] = x[29] = np.nan
    relation = gcmf.Relation("links", "a", "a", x, symmetric=symmetric)
    model = gcmf.GCMF(random_state=0, tol=1e-4, progress=False).fit(gcmf.Collection([relation], {"a": range(30)}))
    rows, cols = [0, 1, 29], [1, 0, 3]
    theta = model.sample("links", rows, cols, 20_000, of="predictor", random_state=0)
    mean, std = model.predict("links", rows, cols, return_std=True)
    noise = model.fitted_.noise[0] * model.fitted_.scale[0] ** 2
    np.testing.assert_allclose(theta.mean(axis=0), mean, atol=0.05 * std.max())
    np.testing.assert_allclose(theta.var(axis=0), std**2 - noise, rtol=0.12)
    if symmetric:
        np.testing.assert_allclose(theta[:, 0], theta[:, 1])


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 2.5}, {"of": "theta"}, {"random_state": "x"}, {"unknown": "guess"}])
def test_samples_refuse_what_they_cannot_draw(model, wrong):
    with pytest.raises(gcmf.errors.OptionError):
        model.sample("x", [0], [1], **wrong)


# --- score --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["x", "ones", "counts"])
def test_coverage_of_cells_that_the_model_itself_has_drawn_is_nominal(model, relation):
    """And not of cells that vary more: a test of the measure."""
    m = [r.name for r in model.schema_.relations].index(relation)
    n_cols = len(model.fitted_.vocabularies[model.schema_.relations[m].cols])
    i, j = (a.ravel() for a in np.meshgrid(np.arange(80), np.arange(n_cols), indexing="ij"))
    x = sample_cells(model.fitted_, m, (i, j), 20, np.random.default_rng(0))
    score = score_cells(model.fitted_, m, [(i, j, one) for one in x])
    assert score.n == x.size
    np.testing.assert_allclose([score.coverage_50, score.coverage_80, score.coverage_95], [0.5, 0.8, 0.95], atol=0.01)
    lower, upper = model.predict(relation, interval=0.95)[1:]
    assert score.width_95 == pytest.approx((upper - lower)[:80].mean(), rel=0.02)
    if relation == "ones":
        assert score.calibration_error < 0.01
        theta = 4.0 * sample_theta(model.fitted_, m, (i, j), 1, np.random.default_rng(0))[0]
        bolder = (np.random.default_rng(0).random(len(theta)) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
        assert score_cells(model.fitted_, m, [(i, j, bolder)]).calibration_error > 0.05
    else:
        mean = np.asarray(model.predict(relation))[:80].ravel()
        wild = np.round(mean + 2.0 * (x[0] - mean))
        assert score_cells(model.fitted_, m, [(i, j, np.maximum(wild, 0.0))]).coverage_80 < 0.7


def test_calibration_error_is_the_mean_distance_in_bins_of_equal_size():
    guess = np.repeat([0.1, 0.4, 0.9], [200, 200, 100])
    truth = np.concatenate([np.repeat([1, 0], [40, 160]), np.repeat([1, 0], [80, 120]), np.repeat([1, 0], [70, 30])])
    order = np.random.default_rng(0).permutation(500)
    # Bins of 50: each has its own share; together at least what the three groups are off by, 0.1, 0 and 0.2.
    error = calibration_error(truth[order].astype(float), guess[order])
    assert 0.4 * 0.1 + 0.2 * 0.2 - 1e-9 <= error < 0.15
    assert calibration_error(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == 0.0
    assert calibration_error(np.array([1.0]), np.array([0.25])) == 0.75


def test_intervals_of_columns_with_their_own_units_are_in_those(model):
    """In the units of the data, whatever they are: ten times as large, ten times as wide."""
    mean, lower, upper = model.predict("x", [0], [1], interval=0.8)
    assert 50 < lower[0] < mean[0] < upper[0] < 150
    assert 10 < (upper - lower)[0] < 30


def test_no_cell_of_ones_deviates_more_than_it_can():
    """√(p(1 − p)) is all that a 0/1 cell of mean p can deviate; the deviation came from another p."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 25)) - 3.0
    x = np.where(rng.random(theta.shape) < 0.5, rng.random(theta.shape) < 1 / (1 + np.exp(-theta)), np.nan)
    model = gcmf.GCMF(random_state=0, tol=1e-4).fit(gcmf.Relation("x", "a", "b", x, "bernoulli"))
    p, std = model.predict("x", return_std=True)
    np.testing.assert_allclose(std, np.sqrt(p * (1 - p)), rtol=1e-9)
    i, j = (a.ravel() for a in np.indices(p.shape))
    np.testing.assert_allclose(model.predict("x", i, j, return_std=True)[1], std.ravel(), rtol=1e-6)


def test_draws_that_differ_much_are_expected_near_their_middle():
    """A mean over draws of e^θ would be that of the largest of them: 1e9 here, where half of all draws are below 1."""
    likelihood, rng = NegativeBinomial(), np.random.default_rng(0)
    theta = np.stack([0.5 * rng.normal(size=400), 8.0 * rng.normal(size=400)], axis=1)
    mean, variance = mean_and_variance(likelihood, Drawn(theta, np.full((400, 1), 2.0)))
    assert mean[0] == pytest.approx(np.exp(theta[:, 0]).mean(), rel=0.003)
    assert np.exp(theta[:, 1]).mean() > 1e6
    assert mean[1] < 20.0
    assert np.sqrt(variance[1]) < 300.0


def test_a_lone_draw_does_not_decide_on_a_mean():
    """Twelve draws of counts of which the largest was 3: e^7.72 made 187 of a mean of 195 of the last."""
    theta = np.array([0.94, 1.05, 1.33, 1.69, 1.99, 2.25, 2.34, 2.34, 2.47, 2.54, 2.7, 7.72])[:, None]
    likelihood, p = NegativeBinomial(), np.full((12, 1), 2.0)
    mean, variance = mean_and_variance(likelihood, Drawn(theta, p))
    calm = mean_and_variance(likelihood, Drawn(theta[:-1], p[:-1]))
    assert calm[0][0] == pytest.approx(np.exp(theta[:-1]).mean(), rel=1e-12)
    assert calm[0][0] < mean[0] < 2.5 * calm[0][0]
    assert variance[0] < 40.0 * calm[1][0]
    np.testing.assert_array_equal(drawn_mean(likelihood, theta), mean)


def test_a_normal_theta_is_expected_alike_by_draws_and_by_its_two_numbers():
    """Also where it is so wide that both are cut."""
    likelihood, at = NegativeBinomial(), ndtri((np.arange(2000) + 0.5) / 2000)
    for deviation, close in ((0.5, 0.005), (1.0, 0.02), (2.0, 0.15), (6.0, 1e-6)):
        told = drawn_mean(likelihood, 0.3 + deviation * at[:, None])[0]
        assert told == pytest.approx(likelihood.mean(np.array(0.3), np.array(deviation**2)), rel=close)
