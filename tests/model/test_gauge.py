"""Scale and axes of bipartite models: predictions stay, the bound rises."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf import Collection, Relation
from gcmf.engines.reference import ReferenceEngine
from gcmf.model import gauge
from gcmf.model.hyper import update_alpha
from gcmf.model.posterior import hyper_of
from gcmf.options import FitOptions
from helpers import bound_of, build_problem, random_posterior
from toys import VAGUE


def table(sharing="common", **options):
    """One 9 × 5 table, everything random."""
    rng = np.random.default_rng(3)
    data = Collection([Relation("x", "a", "b", rng.normal(size=(9, 5)))])
    spec, problem = build_problem(data, FitOptions(n_factors=3, sharing=sharing, priors=VAGUE, **options))
    return spec, problem, update_alpha(spec, random_posterior(spec, np.ones((2, 3), bool), rng))


def views():
    """Group factor analysis: samples with unit variance against three views."""
    rng = np.random.default_rng(4)
    made = [Relation(f"v{m}", "sample", f"view {m}", rng.normal(size=(8, d))) for m, d in enumerate((3, 6, 4))]
    options = FitOptions(n_factors=3, bias=False, priors=VAGUE, unit_variance=("sample",))
    spec, problem = build_problem(Collection(made), options)
    on = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]], dtype=bool)
    return spec, problem, update_alpha(spec, random_posterior(spec, on, rng))


def measured(spec, problem, posterior):
    engine = ReferenceEngine(problem)
    engine.place(posterior.state)
    return engine.measure(hyper_of(spec, posterior, None))


@pytest.mark.parametrize("make", [table, views], ids=["one table", "views"])
def test_rescaling_is_not_noticed_by_the_cells_and_raises_the_bound(make):
    spec, problem, before = make()
    after = gauge.rescale(spec, before.copy())
    np.testing.assert_allclose(measured(spec, problem, after), measured(spec, problem, before), rtol=1e-12)
    here = bound_of(spec, problem, after)
    assert here > bound_of(spec, problem, before)
    again = gauge.rescale(spec, after.copy())
    assert bound_of(spec, problem, again) == pytest.approx(here, rel=1e-9)
    a = spec.ends[0][0]
    for s in (0.99, 1.01):
        other = after.copy()
        for e in range(len(spec.sizes)):
            other.state.mean[e][:, 0] *= s if e == a else 1 / s
            other.state.var[e][:, 0] *= s**2 if e == a else s**-2
        assert bound_of(spec, problem, update_alpha(spec, other)) < here


def test_rescaling_leaves_alone_what_has_no_free_scale():
    spec, _problem, before = table(sharing="group")
    after = gauge.rescale(spec, before.copy())
    for a, b in zip(before.state.mean, after.state.mean, strict=True):
        np.testing.assert_array_equal(a, b)


def test_principal_axes_keep_predictions_and_are_diagonal():
    spec, _, before = table()
    after = gauge.principal_axes(spec, before)
    one, other = (p.state.mean[0] @ p.state.mean[1].T for p in (before, after))
    np.testing.assert_allclose(one, other, atol=1e-10)
    flat = before.copy()
    for e in range(2):
        flat.state.var[e][:] = 1e-12
    turned = gauge.principal_axes(spec, flat)
    for mean in turned.state.mean:
        M = mean.T @ mean
        np.testing.assert_allclose(M - np.diag(np.diag(M)), 0, atol=1e-8)
    S = turned.moments.square
    np.testing.assert_allclose(S[0] / S[1], 9 / 5, rtol=1e-8)


@pytest.mark.parametrize("make", [table, views], ids=["one table", "views"])
def test_rescaling_leaves_alone_factors_whose_precision_is_held(make):
    """Factors on trial keep α for some sweeps: their scale must not run away from it, nor α jump."""
    spec, _problem, before = make()
    after = gauge.rescale(spec, before.copy(), held=1)
    for e in range(len(spec.sizes)):
        np.testing.assert_array_equal(after.state.mean[e][:, -1], before.state.mean[e][:, -1])
        np.testing.assert_array_equal(after.state.var[e][:, -1], before.state.var[e][:, -1])
    np.testing.assert_array_equal(after.alpha.rate[:, -1], before.alpha.rate[:, -1])
    assert not np.array_equal(after.state.mean[0][:, 0], before.state.mean[0][:, 0]), "the others are rescaled"


@pytest.mark.parametrize("make", [table, views], ids=["one table", "views"])
def test_rescaling_never_lowers_the_bound_of_a_factor_that_is_nearly_gone(make):
    """There b₀ is not small beside S/2, and the scale that is best under a vague prior is not the best."""
    spec, problem, before = make()
    for e in range(1, len(spec.sizes)):
        before.state.mean[e][:, 0] *= 1e-7
        before.state.var[e][:, 0] *= 1e-14
    before = update_alpha(spec, before._replace(known=None))
    after = gauge.rescale(spec, before.copy())
    assert bound_of(spec, problem, after) >= bound_of(spec, problem, before) - 1e-9
