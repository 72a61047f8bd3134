"""Every update is stationary: after it, no small change of its block raises the bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gcmf.gamma import Gamma
from gcmf.model.hyper import (
    MAX_POOLING,
    MIN_BIAS_SCALE,
    update_alpha,
    update_alpha_prior,
    update_bias_prior,
    update_parameters,
)
from toys import CELL, EXACT, GAUSSIAN, HYBRID, JAAKKOLA, LOGISTIC, LOGIT, PAPER, PROPER, VAGUE, toy

HOLES = np.array([[True, True, False], [True, False, True], [True, True, True]])
GAUSSIANS = (GAUSSIAN,) * 3


def assert_stationary(change, *, step=1e-3):
    """`change(h)` makes a changed sample: the bound is flat at h = 0 and lower on both sides."""
    here, up, down = (change(h).bound() for h in (0.0, step, -step))
    size = 1e-9 * abs(here)
    assert up <= here + size
    assert down <= here + size
    assert min(here - up, here - down) > 0, "the block is not in the bound, so the test shows nothing"
    # A slope g at h = 0 makes the two sides differ by 2·g·step; curvature alone makes them (nearly) equal.
    assert abs(up - down) <= 0.05 * max(2 * here - up - down, 1e-7)


def nudge(sample, name, index, place, *, log=False):
    """Change one number of the state by h, or by a factor exp(h)."""
    array = getattr(sample.state, name)[index]

    def change(h):
        new = array.copy()
        new[place] = new[place] * np.exp(h) if log else new[place] + h
        return sample.with_state(name, index, new)

    return change


def nudge_alpha(sample, name, place):
    """Change one number of q(α) by a factor exp(h)."""

    def change(h):
        values = {"shape": sample.known.alpha.shape.copy(), "rate": sample.known.alpha.rate.copy()}
        values[name][place] *= np.exp(h)
        return sample.knowing(alpha=Gamma(**values))

    return change


def nudge_parameter(sample, m, place):
    """Change one of the parameters of relation m by a factor exp(h)."""

    def change(h):
        parameters = [p.copy() for p in sample.known.parameters]
        parameters[m][place] *= np.exp(h)
        return sample.knowing(parameters=tuple(parameters))

    return change


def nudge_bias_prior(sample, name, layer):
    """Change the prior mean of a bias layer by h, or another number of its prior by a factor exp(h)."""

    def change(h):
        values = getattr(sample.known.bias, name).copy()
        values[layer] = values[layer] + h if name == "mean" else values[layer] * np.exp(h)
        return sample.knowing(bias=sample.known.bias._replace(**{name: values}))

    return change


def converge_set(sample, e):
    """Sweep one set until its own bound is refreshed at its own optimum."""
    likelihoods = sample.spec.likelihoods
    exact = all(likelihood.least_squares for likelihood in likelihoods)
    # Newton's steps need few sweeps, those of a bound creep.
    newton = not any(likelihood.quadratic_is_bound and not likelihood.least_squares for likelihood in likelihoods)
    for _ in range(1 if exact else 40 if newton else 400):
        sample = sample.swept(e)
    return sample


CASES = {
    "gaussian, vague, holes": (GAUSSIANS, {"priors": VAGUE, "on": HOLES}),
    "gaussian, proper, common": (GAUSSIANS, {"priors": PROPER, "sharing": "common"}),
    "jaakkola and hybrid": ((JAAKKOLA, HYBRID, GAUSSIAN), {"priors": PROPER}),
    "exact expectation": ((EXACT, GAUSSIAN, LOGIT), {"priors": PROPER}),
    "covariates": ((EXACT, GAUSSIAN, LOGIT), {"priors": PROPER, "known": True}),
    "covariates, vague, holes": (GAUSSIANS, {"priors": VAGUE, "on": HOLES, "known": True}),
    "curvatures": ((LOGISTIC, CELL, PAPER), {"priors": VAGUE, "bias": {"r0": "rows", "r1": False, "r2": True}}),
}


@pytest.fixture(params=CASES)
def start(request):
    kinds, options = CASES[request.param]
    return toy(kinds, **options)


@pytest.mark.parametrize("e", [0, 1, 2])
def test_rows_are_stationary(start, e):
    after, spec = converge_set(start, e), start.spec
    assert after.bound() > start.bound()
    rows = np.flatnonzero(spec.observed[e])
    for i in rows[[0, -1]]:
        for k in np.flatnonzero(start.known.on[e]):
            assert_stationary(nudge(after, "mean", e, (i, k)))
            assert_stationary(nudge(after, "var", e, (i, k), log=True))
    for block in start.problem.blocks[e]:
        for i in np.flatnonzero(spec.in_layer[block.layer])[:2]:
            if spec.biased[block.layer]:
                assert_stationary(nudge(after, "bias_mean", block.layer, i))
                assert_stationary(nudge(after, "bias_var", block.layer, i, log=True))


def test_entities_without_data_and_pairs_that_are_off_stay_zero(start):
    after, off = start.swept(0), ~start.known.on[0]
    assert not start.spec.observed[0][-1]
    assert not after.state.mean[0][-1].any()
    assert not after.state.var[0][-1].any()
    assert not after.state.mean[0][:, off].any()
    assert not after.state.var[0][:, off].any()


def test_alpha_is_stationary(start):
    after = start.updated(update_alpha)
    assert after.bound() > start.bound()
    for e, k in zip(*np.nonzero(start.known.on), strict=True):
        # With common α the sets hold one and the same distribution.
        rows = slice(None) if start.spec.common else e
        for name in ("shape", "rate"):
            assert_stationary(nudge_alpha(after, name, (rows, k)))


def test_pooled_alpha_is_the_best_that_all_factors_share():
    start = toy(GAUSSIANS, priors=VAGUE, on=HOLES)
    for e in range(3):
        start.state.mean[e][:] *= 2
    after = start.updated(update_alpha, pooled=True)
    for e in range(3):
        assert np.ptp(after.known.alpha.mean[e, HOLES[e]]) == 0
        assert_stationary(nudge_alpha(after, "rate", e))
    assert start.updated(update_alpha).bound() > after.bound()


def test_pooled_alpha_never_passes_the_precision_of_the_start():
    start = toy(GAUSSIANS, priors=VAGUE, on=HOLES)
    for e in range(3):
        start.state.mean[e][:] *= 1e-3
        start.state.var[e][:] *= 1e-3
    alpha, n_on = start.updated(update_alpha, pooled=True).known.alpha.mean, HOLES.sum(axis=1)
    np.testing.assert_allclose(alpha[HOLES], np.repeat(np.sqrt(n_on), n_on))


@pytest.mark.parametrize("sharing", ["group", "common"])
def test_the_learned_prior_of_alpha_is_the_best(sharing):
    """Against a search for the maximum of the bound that knows no formula."""
    on = HOLES if sharing == "group" else None
    start = toy(GAUSSIANS, priors=VAGUE, on=on, sharing=sharing)
    after = start.updated(update_alpha_prior)
    learned = after.known.alpha_prior
    assert after.bound() > start.bound()
    for e in range(3 if sharing == "group" else 1):

        def fall(logs, e=e):
            shape, rate = learned.shape.copy(), learned.rate.copy()
            shape[e], rate[e] = np.exp(logs)
            return after.bound() - after.knowing(alpha_prior=Gamma(shape, rate)).bound()

        best = minimize(fall, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-11})
        assert best.success
        assert best.fun == pytest.approx(0.0, abs=1e-7)
        np.testing.assert_allclose(np.exp(best.x), [learned.shape[e, 0], learned.rate[e, 0]], rtol=1e-3)


def test_a_learned_prior_pools_what_is_alike_and_leaves_alone_what_differs():
    start = toy(GAUSSIANS, priors=VAGUE, on=HOLES, unit_variance=("c",))
    shape, rate = np.full((3, 3), 1e6), np.full((3, 3), 2e6)
    # What is off does not count; of set 1 the two that are on differ by eight orders of magnitude.
    rate[0, 2], rate[1, 2] = 1e-3, 2e-2
    before = start.known.alpha_prior
    learned = start.knowing(alpha=Gamma(shape, rate)).updated(update_alpha_prior).known.alpha_prior
    assert learned.shape[0, 0] == pytest.approx(MAX_POOLING)
    assert learned.shape[0, 0] / learned.rate[0, 0] == pytest.approx(0.5)
    assert learned.shape[1, 0] < 0.2
    assert learned.shape[1, 0] / learned.rate[1, 0] == pytest.approx((0.5 + 5e7) / 2)
    assert (learned.shape[2], learned.rate[2]) == (before.shape[2], before.rate[2])


def test_alpha_is_stationary_under_a_learned_prior():
    start = toy(GAUSSIANS, priors=VAGUE, on=HOLES).updated(update_alpha).updated(update_alpha_prior)
    after = start.updated(update_alpha)
    assert after.bound() > start.bound()
    for e, k in zip(*np.nonzero(HOLES), strict=True):
        for name in ("shape", "rate"):
            assert_stationary(nudge_alpha(after, name, (e, k)))
    again = after
    for _ in range(20):
        higher = again.updated(update_alpha_prior).updated(update_alpha)
        assert higher.bound() >= again.bound() - 1e-9 * abs(again.bound())
        again = higher


@pytest.mark.parametrize("priors", [VAGUE, PROPER], ids=["vague", "proper"])
def test_tau_is_stationary(priors):
    start = toy((GAUSSIAN, JAAKKOLA, GAUSSIAN), priors=priors)
    after = start.updated(update_parameters, start.measured())
    assert after.bound() > start.bound()
    for m in (0, 2):
        for place in (0, 1):
            assert_stationary(nudge_parameter(after, m, place))
    assert len(after.known.parameters[1]) == 0


@pytest.mark.parametrize("known", [False, True], ids=["", "covariates"])
def test_bias_prior_is_stationary(known):
    start = toy((GAUSSIAN, JAAKKOLA, HYBRID), bias={"r0": "rows", "r1": False}, known=known)
    once = start.updated(update_bias_prior)
    assert once.bound() > start.bound()
    after = start
    for _ in range(500):
        after = after.updated(update_bias_prior)
    for layer in np.flatnonzero(start.spec.biased):
        for name, sample in (("mean", after), ("var", after), ("scale", after), ("scale", once)):
            assert_stationary(nudge_bias_prior(sample, name, layer))


def test_bias_scale_keeps_its_floor():
    flat = toy(GAUSSIANS)
    for layer in range(6):
        flat.state.bias_mean[layer][:] = 0
        flat.state.bias_var[layer][:] = 1e-12
    for _ in range(100):
        flat = flat.updated(update_bias_prior)
    assert np.all(flat.known.bias.scale >= MIN_BIAS_SCALE)
    assert np.all(np.isfinite(1 / flat.known.bias.scale))


def test_common_alpha_is_one_for_all_sets_and_unit_variance_stays_one():
    start = toy(GAUSSIANS, sharing="common")
    S, d = start.posterior.moments.square, start.spec.n_entities
    alpha = start.updated(update_alpha).known.alpha.mean
    np.testing.assert_allclose(alpha, np.tile((d.sum() / 2 + 1e-10) / (S.sum(axis=0) / 2 + 1e-10), (3, 1)))
    start = toy(GAUSSIANS, unit_variance=("b",))
    alpha = start.updated(update_alpha).known.alpha.mean
    np.testing.assert_array_equal(alpha[1], 1.0)
    assert np.all(alpha[[0, 2]] != start.known.alpha.mean[[0, 2]])


def test_counts_leave_out_entities_without_data():
    start = toy(GAUSSIANS, priors=PROPER)
    n = start.spec.n_entities[0]
    assert start.spec.sizes[0] == n + 1
    np.testing.assert_allclose(start.updated(update_alpha).known.alpha.shape[0], PROPER.alpha_shape + n / 2)


def test_map_precisions_are_modes():
    start = toy(GAUSSIANS, priors=PROPER, inference="map").updated(update_alpha)
    after = start.updated(update_parameters, start.measured()).updated(update_bias_prior)
    assert_stationary(nudge_alpha(after, "rate", (1, 2)))
    assert_stationary(nudge_parameter(after, 1, 1))
    assert_stationary(nudge_bias_prior(after, "mean", 0))
    assert after.swept(1).bound() > after.bound()
