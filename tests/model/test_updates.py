"""Every update is stationary: after it, no small change of its block raises the bound."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf.engines.reference import ReferenceEngine
from gcmf.model.hyper import MIN_BIAS_SCALE, update_alpha, update_bias_prior, update_tau
from gcmf.model.posterior import Gamma, hyper_of
from helpers import bound_of, sweep, with_state
from toys import CELL, EXACT, GAUSSIAN, HYBRID, JAAKKOLA, LOGISTIC, PAPER, PROPER, VAGUE, toy

HOLES = np.array([[True, True, False], [True, False, True], [True, True, True]])
GAUSSIANS = (GAUSSIAN,) * 3


def assert_stationary(bound, change, *, step=1e-3, curved=True):
    """`change(h)` makes a changed posterior: the bound is flat at h = 0 and lower on both sides."""
    here, up, down = bound(change(0.0)), bound(change(step)), bound(change(-step))
    size = 1e-9 * abs(here)
    assert up <= here + size
    assert down <= here + size
    if curved:
        assert min(here - up, here - down) > 0, "the block is not in the bound, so the test shows nothing"
    # A slope g at h = 0 makes the two sides differ by 2·g·step; curvature alone makes them (nearly) equal.
    assert abs(up - down) <= 0.05 * max(2 * here - up - down, 1e-7)


def measured_by_reference(spec, problem, posterior):
    engine = ReferenceEngine(problem)
    engine.place(posterior.state)
    return engine.measure(hyper_of(spec, posterior, None))


def nudge(posterior, name, index, place, *, log=False):
    """Change one number of the state by h, or by a factor exp(h)."""
    array = getattr(posterior.state, name)[index]

    def change(h):
        new = array.copy()
        new[place] = new[place] * np.exp(h) if log else new[place] + h
        return with_state(posterior, name, index, new)

    return change


def converge_set(spec, problem, posterior, e):
    """Sweep one set until its own bound is refreshed at its own optimum."""
    for _ in range(1 if spec.gaussian.all() else 400):
        posterior = sweep(spec, problem, posterior, e)
    return posterior


CASES = {
    "gaussian, vague, holes": (GAUSSIANS, {"priors": VAGUE, "on": HOLES}),
    "gaussian, proper, common": (GAUSSIANS, {"priors": PROPER, "sharing": "common"}),
    "jaakkola and hybrid": ((JAAKKOLA, HYBRID, GAUSSIAN), {"priors": PROPER}),
    "exact expectation": ((EXACT, GAUSSIAN, EXACT), {"priors": PROPER}),
    "curvatures": ((LOGISTIC, CELL, PAPER), {"priors": VAGUE, "bias": {"r0": "rows", "r1": False, "r2": True}}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("e", [0, 1, 2])
def test_rows_are_stationary(case, e):
    kinds, options = CASES[case]
    spec, problem, start = toy(kinds, **options)
    after = converge_set(spec, problem, start, e)

    def bound(posterior):
        return bound_of(spec, problem, posterior)

    assert bound(after) > bound(start)
    rows = np.flatnonzero(spec.observed[e])
    for i in rows[[0, -1]]:
        for k in np.flatnonzero(start.on[e]):
            assert_stationary(bound, nudge(after, "mean", e, (i, k)))
            assert_stationary(bound, nudge(after, "var", e, (i, k), log=True))
    for block in problem.blocks[e]:
        for i in np.flatnonzero(spec.in_layer[block.layer])[:2]:
            if spec.biased[block.layer]:
                assert_stationary(bound, nudge(after, "bias_mean", block.layer, i))
                assert_stationary(bound, nudge(after, "bias_var", block.layer, i, log=True))


@pytest.mark.parametrize("case", CASES)
def test_entities_without_data_and_pairs_that_are_off_stay_zero(case):
    kinds, options = CASES[case]
    spec, problem, start = toy(kinds, **options)
    after = sweep(spec, problem, start, 0)
    assert not spec.observed[0][-1]
    assert not after.state.mean[0][-1].any()
    assert not after.state.var[0][-1].any()
    assert not after.state.mean[0][:, ~start.on[0]].any()
    assert not after.state.var[0][:, ~start.on[0]].any()


@pytest.mark.parametrize("case", CASES)
def test_alpha_is_stationary(case):
    kinds, options = CASES[case]
    spec, problem, start = toy(kinds, **options)
    after = update_alpha(spec, start)

    def bound(posterior):
        return bound_of(spec, problem, posterior)

    assert bound(after) > bound(start)
    for e, k in zip(*np.nonzero(start.on), strict=True):
        # With common α the sets hold one and the same distribution.
        rows = slice(None) if spec.common else e
        for name in ("shape", "rate"):

            def change(h, name=name, rows=rows, k=k):
                values = {"shape": after.alpha.shape.copy(), "rate": after.alpha.rate.copy()}
                values[name][rows, k] *= np.exp(h)
                return after._replace(alpha=Gamma(**values))

            assert_stationary(bound, change)


def test_pooled_alpha_is_the_best_that_all_factors_share():
    spec, problem, start = toy(GAUSSIANS, priors=VAGUE, on=HOLES)
    for e in range(3):
        start.state.mean[e][:] *= 2
    after = update_alpha(spec, start, pooled=True)
    for e in range(3):
        assert np.ptp(after.alpha.mean[e, HOLES[e]]) == 0

        def change(h, e=e):
            rate = after.alpha.rate.copy()
            rate[e] *= np.exp(h)
            return after._replace(alpha=Gamma(after.alpha.shape, rate))

        assert_stationary(lambda posterior: bound_of(spec, problem, posterior), change)
    free = update_alpha(spec, start)
    assert bound_of(spec, problem, free) > bound_of(spec, problem, after)


def test_pooled_alpha_never_passes_the_precision_of_the_start():
    spec, _, start = toy(GAUSSIANS, priors=VAGUE, on=HOLES)
    for e in range(3):
        start.state.mean[e][:] *= 1e-3
        start.state.var[e][:] *= 1e-3
    after = update_alpha(spec, start, pooled=True)
    np.testing.assert_allclose(after.alpha.mean[HOLES], np.repeat(np.sqrt(HOLES.sum(axis=1)), HOLES.sum(axis=1)))


@pytest.mark.parametrize("priors", [VAGUE, PROPER], ids=["vague", "proper"])
def test_tau_is_stationary(priors):
    spec, problem, start = toy((GAUSSIAN, JAAKKOLA, GAUSSIAN), priors=priors)
    after = update_tau(spec, start, measured_by_reference(spec, problem, start))
    for m in (0, 2):
        for name in ("shape", "rate"):

            def change(h, name=name, m=m):
                values = {"shape": after.tau.shape.copy(), "rate": after.tau.rate.copy()}
                values[name][m] *= np.exp(h)
                return after._replace(tau=Gamma(**values))

            assert_stationary(lambda posterior: bound_of(spec, problem, posterior), change)
    np.testing.assert_array_equal(after.tau.mean[1], 1.0)


def test_bias_prior_is_stationary():
    spec, problem, start = toy((GAUSSIAN, JAAKKOLA, HYBRID), bias={"r0": "rows", "r1": False})
    once = update_bias_prior(spec, start)
    assert bound_of(spec, problem, once) > bound_of(spec, problem, start)
    after = start
    for _ in range(500):
        after = update_bias_prior(spec, after)
    for layer in np.flatnonzero(spec.biased):
        for name, posterior in (("mean", after), ("var", after), ("scale", after), ("scale", once)):

            def change(h, name=name, posterior=posterior, layer=layer):
                values = getattr(posterior.bias, name).copy()
                values[layer] = values[layer] + h if name == "mean" else values[layer] * np.exp(h)
                return posterior._replace(bias=posterior.bias._replace(**{name: values}))

            assert_stationary(lambda posterior: bound_of(spec, problem, posterior), change)


def test_bias_scale_keeps_its_floor():
    spec, _, start = toy(GAUSSIANS)
    flat = start.copy()
    for layer in range(6):
        flat.state.bias_mean[layer][:] = 0
        flat.state.bias_var[layer][:] = 1e-12
    for _ in range(100):
        flat = update_bias_prior(spec, flat)
    assert np.all(flat.bias.scale >= MIN_BIAS_SCALE)
    assert np.all(np.isfinite(1 / flat.bias.scale))


def test_common_alpha_is_one_for_all_sets_and_unit_variance_stays_one():
    spec, _, start = toy(GAUSSIANS, sharing="common")
    S, d = start.moments.square, spec.n_entities
    after = update_alpha(spec, start)
    np.testing.assert_allclose(after.alpha.mean, np.tile((d.sum() / 2 + 1e-10) / (S.sum(axis=0) / 2 + 1e-10), (3, 1)))
    spec, _, start = toy(GAUSSIANS, unit_variance=("b",))
    after = update_alpha(spec, start)
    np.testing.assert_array_equal(after.alpha.mean[1], 1.0)
    assert np.all(after.alpha.mean[[0, 2]] != start.alpha.mean[[0, 2]])


def test_counts_leave_out_entities_without_data():
    spec, _, start = toy(GAUSSIANS, priors=PROPER)
    assert spec.sizes[0] == spec.n_entities[0] + 1
    after = update_alpha(spec, start)
    np.testing.assert_allclose(after.alpha.shape[0], PROPER.alpha_shape + spec.n_entities[0] / 2)


def test_map_precisions_are_modes():
    spec, problem, start = toy(GAUSSIANS, priors=PROPER, inference="map")
    after = update_alpha(spec, start)
    after = update_tau(spec, after, measured_by_reference(spec, problem, after))
    after = update_bias_prior(spec, after)

    def bound(posterior):
        return bound_of(spec, problem, posterior)

    for name, index in (("alpha", (1, 2)), ("tau", 1)):

        def change(h, name=name, index=index):
            q = getattr(after, name)
            rate = q.rate.copy()
            rate[index] *= np.exp(h)
            return after._replace(**{name: Gamma(q.shape, rate)})

        assert_stationary(bound, change)

    def move(h):
        mean = after.bias.mean.copy()
        mean[0] += h
        return after._replace(bias=after.bias._replace(mean=mean))

    assert_stationary(bound, move)
    assert bound(sweep(spec, problem, after, 1)) > bound(after)
