"""Draws on the axes of one of them: whatever is done to factors, no predictor moves."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import gcmf
from gcmf.errors import ConvergenceWarning
from gcmf.model.alignment import Axes
from gcmf.model.init import start
from gcmf.model.recording import Recorder
from gcmf.model.spec import build
from gcmf.options import FitOptions


def relations(kind, rng):
    """Tables whose factors may turn, which may not, and some of each."""
    u = {name: rng.normal(size=(n, 2)) for name, n in (("a", 14), ("b", 11), ("c", 9))}

    def table(name, r, c, **how):
        x = u[r] @ (np.array([1.0, -0.7]) * u[c]).T + 0.4 * rng.normal(size=(len(u[r]), len(u[c])))
        if how.get("symmetric"):
            x = (x + x.T) / 2
        i, j = np.nonzero(~np.eye(*x.shape, dtype=bool) if r == c else np.ones(x.shape, dtype=bool))
        if how.get("symmetric"):
            i, j = i[i < j], j[i < j]
        return gcmf.Relation(name, r, c, (i, j, x[i, j]), **how)

    return {
        "one": lambda: [table("x", "a", "b")],
        "chain": lambda: [table("x", "a", "b"), table("y", "b", "c")],
        "cycle": lambda: [table("x", "a", "b"), table("y", "b", "c"), table("z", "a", "c")],
        "twice": lambda: [table("x", "a", "b"), table("y", "a", "b")],
        "network": lambda: [table("x", "a", "b"), table("y", "a", "a", symmetric=True)],
        "directed": lambda: [table("x", "a", "b"), table("y", "a", "a", symmetric=False)],
    }[kind]()


@pytest.mark.parametrize("scales", ["auto", True])
@pytest.mark.parametrize("kind", ["one", "chain", "cycle", "twice", "network", "directed"])
def test_predictors_stay_and_the_way_back_is_known(kind, scales, monkeypatch):
    """What is kept of a draw, turned, has the θ of the draw; turned back, its factors."""
    told, drawn = [], []
    probe = Recorder.probe

    def watch(self, posterior, state, *more):
        told.append(probe(self, posterior, state, *more))
        drawn.append([mean.copy() for mean in state.mean])
        return told[-1]

    cells = {}
    first = Recorder.__init__

    def begin(self, *given, **options):
        first(self, *given, **options)
        cells["at"] = self.probes

    monkeypatch.setattr(Recorder, "probe", watch)
    monkeypatch.setattr(Recorder, "__init__", begin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = gcmf.GCMF(
            4, inference="gibbs", n_samples=12, n_burn=3, relation_scales=scales, random_state=0, progress=False,
            n_threads=1, dtype="float64",
        ).fit(relations(kind, np.random.default_rng(0)))  # fmt: skip
    draws = model.fitted_.draws
    theta = np.concatenate([draws.linear_predictors(m, *at) for m, at in enumerate(cells["at"])], axis=1)
    # The last probe of each relation is log p of its cells.
    probes = np.array(told).reshape(len(told), len(cells["at"]), -1)[:, :, :-1].reshape(len(told), -1)
    np.testing.assert_allclose(theta, probes, atol=2e-4)
    # The factors stand in another order than in the chain: their products with themselves do not.
    for e, turned in enumerate(draws.factors):
        for s, turn in enumerate(draws.origin.turn[:, e]):
            back = turned[s, :-1] @ np.linalg.inv(turn)
            np.testing.assert_allclose(back @ back.T, drawn[s][e] @ drawn[s][e].T, atol=2e-4)
    assert np.isfinite(draws.origin.turn).all()


def state_of(on, scaled=False):
    """A random draw of three sets in a chain, with these factors, and what belongs to it."""
    data = gcmf.Collection(relations("chain", np.random.default_rng(0)))
    spec, _ = build(data, FitOptions(n_factors=on.shape[1], relation_scales=scaled))
    state, posterior = start(spec, on, dtype="float64", rng=np.random.default_rng(1))
    rng = np.random.default_rng(2)
    mean = [rng.standard_normal((d, on.shape[1])) * row for d, row in zip(spec.sizes, on, strict=True)]
    return spec, posterior, replace(state, mean=mean)


def moved(state, T):
    return [mean @ t for mean, t in zip(state.mean, T, strict=True)]


def test_factors_that_turned_are_turned_back():
    """Factors of equal sizes, seen turned, swapped, with other signs and sizes, are always the same on the axes."""
    on = np.ones((3, 3), bool)
    spec, posterior, state = state_of(on)
    state = replace(state, mean=[np.linalg.qr(mean)[0] * len(mean) ** 0.5 for mean in state.mean])
    axes = Axes(spec, state.mean, on)
    there, rng = moved(state, axes.turn(posterior, state).factors), np.random.default_rng(3)
    for _ in range(5):
        R, size = np.linalg.qr(rng.normal(size=(3, 3)))[0], np.diag(np.exp(rng.normal(size=3)))
        other = replace(state, mean=moved(state, [R @ size, R @ np.linalg.inv(size), R @ size]))
        for mine, theirs in zip(moved(other, axes.turn(posterior, other).factors), there, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_factors_of_other_sets_are_not_mixed_but_may_change_places():
    on = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]], bool)
    spec, posterior, state = state_of(on)
    axes = Axes(spec, state.mean, on)
    swap = [2, 1, 0, 3]
    turn = axes.turn(posterior._replace(on=on[:, swap]), replace(state, mean=[mean[:, swap] for mean in state.mean]))
    np.testing.assert_array_equal(turn.on, on)
    back = [mean[:, swap] @ T for mean, T in zip(state.mean, turn.factors, strict=True)]
    assert not back[2][:, 2:].any()
    cosines = [
        np.abs(np.corrcoef(mean.T, other.T)[:4, 4:]) for mean, other in zip(state.mean[:2], back[:2], strict=True)
    ]
    assert min(np.diag(cosine).min() for cosine in cosines) > 0.95
    # Those of two sets are turned with each other alone.
    assert not turn.factors[:, [swap[0], swap[1]]][:, :, 2:].any()


def test_signs_of_draws_with_scales_are_those_of_the_axes():
    on = np.ones((3, 2), bool)
    spec, posterior, state = state_of(on, scaled=True)
    assert posterior.scales is not None
    axes = Axes(spec, state.mean, on)
    other = replace(state, mean=[-2.0 * state.mean[0], state.mean[1], 3.0 * state.mean[2]])
    turn = axes.turn(posterior, other)
    for m, (r, c) in enumerate(spec.ends):
        mine, theirs = moved(other, turn.factors), other.mean
        np.testing.assert_allclose((mine[r] * turn.scales[m]) @ mine[c].T,
                                   (theirs[r] * posterior.scales.mean[m]) @ theirs[c].T, atol=1e-9)  # fmt: skip
