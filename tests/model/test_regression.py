"""Regressions on covariates: q(w) against plain formulas, stationarity, what columns are worth, and moves."""

from __future__ import annotations

from functools import partial
from unittest import mock

import numpy as np
import pytest

from gcmf.model import gauge, moves, regression
from gcmf.model.columns import PRICE, without_idle, worth
from gcmf.model.hyper import update_alpha, update_bias_prior
from gcmf.model.posterior import row_priors
from gcmf.model.regression import Design, precision_of, refit, solve, update
from gcmf.model.spec import build
from gcmf.options import FitOptions
from toys import GAUSSIAN, HYBRID, JAAKKOLA, PROPER, VAGUE, toy, triangle

KINDS = (GAUSSIAN, JAAKKOLA, HYBRID)
HOLES = np.array([[True, True, False], [True, False, True], [True, True, True]])


@pytest.fixture(params=[VAGUE, PROPER], ids=["vague", "proper"])
def start(request):
    """A sample with covariates: few features of `a` in three source columns, many of `b` in one."""
    return toy(KINDS, priors=request.param, known=True)


def few_and_many(sample):
    """The regressions of the factors of `a` and of those of `b`."""
    found = [r for r in sample.posterior.regressions if r.design.layer is None]
    assert [r.design.gram is None for r in found] == [False, True]
    return found


def test_few_features_have_the_posterior_of_a_linear_regression(start):
    (design, _, H), _ = few_and_many(start)
    F, alpha = design.features[design.seen], precision_of(start.known, design)
    a, b = np.linspace(0.5, 2.0, len(design.sizes)), np.array([0.3, 1.0, 0.0])
    q = solve(design, alpha, (a, b), H, 0.0 * H, point=False)
    for t in range(2):
        v = a[design.group] * b[t]
        C = np.linalg.inv(alpha[t] * F.T @ F + np.diag(1 / v))
        w = alpha[t] * C @ H[:, t]
        np.testing.assert_allclose(q.mean[:, t], w)
        np.testing.assert_allclose(q.var[:, t], np.diag(C))
        np.testing.assert_allclose(q.spread[t], np.trace(F.T @ F @ C))
        kl = 0.5 * ((w**2 / v).sum() + np.trace(C / v) - len(v) + np.log(v).sum() - np.linalg.slogdet(C)[1])
        np.testing.assert_allclose(q.divergence[t], kl)
    for part in (q.mean[:, 2], q.var[:, 2], q.spread[2], q.divergence[2]):
        assert not part.any(), "no regression where b = 0"


def test_many_features_have_the_best_factorized_posterior(start):
    _, (design, _, H) = few_and_many(start)
    F, alpha = design.features.toarray()[design.seen], precision_of(start.known, design)
    a, b = np.array([0.8]), np.array([0.3, 1.0, 2.0])
    with mock.patch.object(regression, "STEPS", 100):
        q = solve(design, alpha, (a, b), H, 0.0 * H, point=False)
    for t in range(3):
        v = a[0] * b[t]
        A = alpha[t] * F.T @ F + np.eye(len(H)) / v
        w, C = np.linalg.solve(A, alpha[t] * H[:, t]), 1 / np.diag(A)
        np.testing.assert_allclose(q.mean[:, t], w, atol=1e-9)
        np.testing.assert_allclose(q.var[:, t], C)
        np.testing.assert_allclose(q.spread[t], (F**2).sum(axis=0) @ C)
        kl = 0.5 * ((w**2 + C) / v - 1 + np.log(v) - np.log(C)).sum()
        np.testing.assert_allclose(q.divergence[t], kl)


def test_every_step_of_conjugate_gradients_raises_the_bound(start):
    _, many = few_and_many(start)
    scales, bounds = (many.q.by_column, many.q.by_target), []
    for steps in range(8):
        with mock.patch.object(regression, "STEPS", steps):
            q = refit(start.spec, start.posterior, many, scales)
        others = [r._replace(q=q) if r.design is many.design else r for r in start.known.regressions]
        bounds.append(start.knowing(regressions=tuple(others)).bound())
    assert np.all(np.diff(bounds) > 0)


def replaced(sample, n, **changes):
    """The sample with something of q(w) of its regression n replaced."""
    regressions = list(sample.known.regressions)
    regressions[n] = regressions[n]._replace(q=regressions[n].q._replace(**changes))
    return sample.knowing(regressions=tuple(regressions))


@pytest.mark.parametrize("biases", [False, True])
def test_coefficients_are_stationary(start, biases):
    after = start.updated(update, biases=biases)
    if not biases:
        after = after.updated(update, biases=False)
    assert after.bound() > start.bound()
    checked = 0
    for n, r in enumerate(after.known.regressions):
        # Conjugate gradients have not arrived after few steps.
        if (r.design.layer is not None) is not biases or r.design.gram is None:
            continue
        for j, t in np.ndindex(*r.q.mean.shape):
            v = r.q.by_column[r.design.group[j]] * r.q.by_target[t]
            moved = []
            for h in (-1e-3, 1e-3):
                mean, divergence = r.q.mean.copy(), r.q.divergence.copy()
                mean[j, t] += h
                divergence[t] += (mean[j, t] ** 2 - r.q.mean[j, t] ** 2) / (2 * v)
                moved.append(replaced(after, n, mean=mean, divergence=divergence).bound())
            here = after.bound()
            assert max(moved) < here
            assert abs(moved[0] - moved[1]) < 0.05 * (2 * here - sum(moved))
            checked += 1
    assert checked > 4


@pytest.mark.parametrize("n", [0, 1])
def test_prior_variances_rise_the_bound_to_where_it_is_flat(start, n):
    """With q(w) as it is, in a and then in b."""
    design, q, _ = start.known.regressions[n]
    a, b = regression._scales(design, q)

    def divergence(a, b):
        v = np.outer(a, b)[design.group]
        return 0.5 * float(((q.mean**2 + q.var) / v + np.log(v)).sum())

    assert len(b) == (3 if design.layer is None else 1)
    old = q.by_target
    for g in range(len(a)):
        for h in (0.99, 1.01):
            other = a.copy()
            other[g] *= h
            assert divergence(other, old) > divergence(a, old)
    for k in range(len(b) if design.layer is None else 0):
        for h in (0.99, 1.01):
            other = b.copy()
            other[k] *= h
            assert divergence(a, other) > divergence(a, b)


def test_what_a_column_is_worth_is_what_the_bound_loses_without_it(start):
    for n, r in enumerate(start.posterior.regressions):
        here = replaced(start, n, **refit(start.spec, start.posterior, r, (r.q.by_column, r.q.by_target))._asdict())
        r = here.posterior.regressions[n]  # noqa: PLW2901 - the same with q(w) at its best
        gain = worth(here.posterior, r)
        price = PRICE * here.spec.priors.vague
        for g in range(len(gain)):
            a = np.where(np.arange(len(gain)) == g, 0.0, r.q.by_column)
            q = refit(here.spec, here.posterior, r, (a, r.q.by_target))
            lost = here.bound() - replaced(here, n, **q._asdict()).bound()
            assert lost == pytest.approx(gain[g] - price)


def test_columns_go_while_the_bound_rises():
    sample = toy(KINDS, priors=VAGUE, known=True).updated(update_alpha).updated(update_bias_prior)
    bounds, fewer = [sample.bound()], sample.posterior
    while (fewer := without_idle(sample.spec, fewer)) is not None:
        bounds.append(sample.knowing(regressions=fewer.regressions).bound())
        np.testing.assert_allclose(
            fewer.moments.square, sample.knowing(regressions=fewer.regressions).posterior.moments.square
        )
        assert np.all(np.isfinite(fewer.regressions[0].q.mean))
    assert len(bounds) > 1
    assert np.all(np.diff(bounds) > 0)


def test_rows_are_expected_at_the_features_times_the_coefficients(start):
    priors, known = row_priors(start.spec, start.known), start.known
    for r in known.regressions:
        fitted, prior = r.design.features @ r.q.mean, priors[r.design.e]
        if r.design.layer is None:
            np.testing.assert_allclose(prior.mean, fitted)
        else:
            np.testing.assert_allclose(
                prior.bias_mean[:, r.design.block], known.bias.mean[r.design.layer] + fitted[:, 0]
            )
    assert priors[2].mean.shape == (1, 3)
    assert priors[2].bias_mean.shape == (1, 2)


# --- moves --------------------------------------------------------------------------------------------------


def test_a_turn_turns_the_prior_means_too(start):
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    after = start.moved(moves.transform, np.stack([R] * 3))
    for e in (0, 1):
        np.testing.assert_allclose(
            row_priors(start.spec, after.known)[e].mean, row_priors(start.spec, start.known)[e].mean @ R
        )
    assert np.isfinite(after.updated(update_alpha).bound())


def test_second_moments_are_around_the_prior_means(start):
    M = moves.second_moments(start.placed(), start.posterior)
    np.testing.assert_allclose(np.einsum("ekk->ek", M), start.posterior.moments.square)
    seen = start.spec.observed[0]
    away = (start.state.mean[0] - row_priors(start.spec, start.known)[0].mean)[seen]
    mixed = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(M[0][mixed], (away.T @ away)[mixed])


def test_copies_and_losses_of_factors_keep_all_that_is_known(start):
    grown = start.moved(lambda engine, known: moves.extend(start.spec, engine, known, HOLES, np.random.default_rng(0)))
    assert grown.known.regressions[0].q.mean.shape[1] == 6
    assert not grown.known.regressions[0].q.by_target[5], "it is off there"
    assert np.isfinite(grown.bound())
    back = grown.knowing(n_weak=3).moved(moves.drop, np.array([3, 4, 5]))
    assert back.bound() == pytest.approx(start.bound(), rel=1e-12)


def test_a_shift_is_taken_up_by_the_mean_of_the_biases(start):
    after = start.moved(partial(moves.shift, start.spec))
    assert after.bound() > start.bound()
    for before, now in zip(start.known.regressions, after.known.regressions, strict=True):
        np.testing.assert_array_equal(before.q.mean, now.q.mean)
    told = [r.products for r in after.known.regressions]
    for r, products in zip(after.posterior.regressions, told, strict=True):
        np.testing.assert_allclose(products, r.products, atol=1e-12)


def test_scales_of_a_single_table_take_the_coefficients_along():
    """One table with a common α: predictions stay, and the bound rises."""
    rng = np.random.default_rng(0)
    data = triangle(KINDS, known=True).select(["r0"])
    options = FitOptions(n_factors=3, dtype="float64", sharing="common")
    from helpers import random_sample  # noqa: PLC0415 - beside its only use

    sample = random_sample(data, options, rng).updated(update_alpha)
    after = sample.moved(partial(gauge.rescale, sample.spec))
    a, b = sample.spec.ends[0]
    for old, new in ((sample.state, after.state),):
        np.testing.assert_allclose(old.mean[a] @ old.mean[b].T, new.mean[a] @ new.mean[b].T)
    assert after.bound() > sample.bound()


def test_a_set_without_covariates_has_none():
    spec, problem = build(triangle(KINDS), FitOptions(n_factors=2))
    assert spec.designs == ()
    assert problem.features == ()
    spec, problem = build(triangle(KINDS, known=True), FitOptions(n_factors=2, bias={"r0": "cols"}))
    assert [(d.e, d.layer) for d in spec.designs] == [(0, None), (0, 5), (1, None), (1, 1), (1, 2)]
    assert isinstance(spec.designs[0], Design)
    assert problem.features[2] is None


def test_a_system_that_rounding_has_made_singular_is_no_number():
    """A turn that would lead there is not kept, and nothing is raised."""
    singular = np.array([np.full((2, 2), 1e300), np.eye(2)])
    assert np.isnan(regression.inverted(singular)).all()
    np.testing.assert_array_equal(regression.inverted(singular[1:]), singular[1:])
