"""Scale and axes of bipartite models: predictions stay, the bound rises."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gcmf import Collection, Relation
from gcmf.model import gauge, moves
from gcmf.model.hyper import update_alpha
from gcmf.options import FitOptions
from helpers import random_sample
from toys import VAGUE


def table(sharing="common"):
    """One 9 × 5 table, everything random."""
    rng = np.random.default_rng(3)
    data = Collection([Relation("x", "a", "b", rng.normal(size=(9, 5)))])
    options = FitOptions(n_factors=3, sharing=sharing, priors=VAGUE, dtype="float64")
    return random_sample(data, options, rng).updated(update_alpha)


def views():
    """Group factor analysis: samples with unit variance against three views."""
    rng = np.random.default_rng(4)
    made = [Relation(f"v{m}", "sample", f"view {m}", rng.normal(size=(8, d))) for m, d in enumerate((3, 6, 4))]
    options = FitOptions(n_factors=3, bias=False, priors=VAGUE, unit_variance=("sample",), dtype="float64")
    on = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]], dtype=bool)
    return random_sample(Collection(made), options, rng, on).updated(update_alpha)


def rescaled(sample, **options):
    return sample.moved(partial(gauge.rescale, sample.spec), **options)


@pytest.mark.parametrize("make", [table, views], ids=["one table", "views"])
def test_rescaling_is_not_noticed_by_the_cells_and_raises_the_bound(make):
    before = make()
    after = rescaled(before)
    np.testing.assert_allclose(after.measured(), before.measured(), rtol=1e-12)
    here = after.bound()
    assert here > before.bound()
    assert rescaled(after).bound() == pytest.approx(here, rel=1e-9)
    a = before.spec.ends[0][0]
    for s in (0.99, 1.01):
        other = after
        for e in range(len(before.spec.sizes)):
            mean, var = after.state.mean[e].copy(), after.state.var[e].copy()
            mean[:, 0] *= s if e == a else 1 / s
            var[:, 0] *= s**2 if e == a else s**-2
            other = other.with_state("mean", e, mean).with_state("var", e, var)
        assert other.updated(update_alpha).bound() < here


def test_rescaling_leaves_alone_what_has_no_free_scale():
    before = table(sharing="group")
    after = rescaled(before)
    for a, b in zip(before.state.mean, after.state.mean, strict=True):
        np.testing.assert_array_equal(a, b)


def turned_to_principal_axes(sample):
    (T,) = gauge.principal_axes(sample.spec, sample.placed().second_moments())
    return sample.moved(moves.transform, T)


def test_principal_axes_keep_predictions_and_are_diagonal():
    before = table()
    after = turned_to_principal_axes(before)
    here, there = (sample.state.mean[0] @ sample.state.mean[1].T for sample in (before, after))
    np.testing.assert_allclose(here, there, atol=1e-10)
    flat = before
    for e in range(2):
        flat = flat.with_state("var", e, np.full_like(before.state.var[e], 1e-12))
    turned = turned_to_principal_axes(flat)
    for mean in turned.state.mean:
        M = mean.T @ mean
        np.testing.assert_allclose(M - np.diag(np.diag(M)), 0, atol=1e-8)
    S = turned.known.moments.square
    np.testing.assert_allclose(S[0] / S[1], 9 / 5, rtol=1e-8)


@pytest.mark.parametrize("make", [table, views], ids=["one table", "views"])
def test_rescaling_leaves_alone_factors_whose_precision_is_held(make):
    """Factors on trial keep α for some sweeps: their scale must not run away from it, nor α jump."""
    before = make()
    after = rescaled(before, held=1)
    for e in range(len(before.spec.sizes)):
        np.testing.assert_array_equal(after.state.mean[e][:, -1], before.state.mean[e][:, -1])
        np.testing.assert_array_equal(after.state.var[e][:, -1], before.state.var[e][:, -1])
    np.testing.assert_array_equal(after.known.alpha.rate[:, -1], before.known.alpha.rate[:, -1])
    assert not np.array_equal(after.state.mean[0][:, 0], before.state.mean[0][:, 0]), "the others are rescaled"


@pytest.mark.parametrize("make", [table, views], ids=["one table", "views"])
def test_rescaling_never_lowers_the_bound_of_a_factor_that_is_nearly_gone(make):
    """There b₀ is not small beside S/2, and the scale that is best under a vague prior is not the best."""
    before = make()
    for e in range(1, len(before.spec.sizes)):
        before.state.mean[e][:, 0] *= 1e-7
        before.state.var[e][:, 0] *= 1e-14
    before = before.updated(update_alpha)
    assert rescaled(before).bound() >= before.bound() - 1e-9
