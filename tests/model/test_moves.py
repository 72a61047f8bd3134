"""Moves leave the predictions alone and raise the bound."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gcmf import Collection, Relation
from gcmf.model import gauge, moves
from gcmf.model.hyper import update_alpha
from gcmf.model.spec import build
from gcmf.options import FitOptions
from helpers import random_sample
from toys import CELL, GAUSSIAN, HYBRID, JAAKKOLA, PROPER, VAGUE, toy

KINDS = (GAUSSIAN, JAAKKOLA, HYBRID)


def predictors(sample):
    """m of every cell, observed or not, of every relation."""
    s = sample.state
    return [s.mean[r] @ s.mean[c].T + s.bias_mean[2 * m][:, None] + s.bias_mean[2 * m + 1]
            for m, (r, c) in enumerate(sample.spec.ends)]  # fmt: skip


def shifted(sample):
    return sample.moved(partial(moves.shift, sample.spec))


def turned(sample, T):
    """Factors turned, α as before."""
    return sample.moved(moves.transform, T)


def sparsest_axes(sample, *, sheared):
    return gauge.sparsest_axes(sample.spec, sample.posterior, sample.placed().second_moments(), sheared=sheared)


def test_shift_keeps_predictions_and_raises_the_bound():
    start = toy(KINDS, bias={"r0": "rows", "r1": True, "r2": True})
    spec, mu = start.spec, start.known.bias.mean.copy()
    after = shifted(start)
    for m, (a, b) in enumerate(zip(predictors(start), predictors(after), strict=True)):
        seen = np.outer(spec.in_layer[2 * m], spec.in_layer[2 * m + 1])
        np.testing.assert_allclose(a[seen], b[seen], atol=1e-12)
    assert after.bound() > start.bound()
    np.testing.assert_allclose(after.known.bias.mean[[2, 4]], after.known.bias.mean[[3, 5]])
    np.testing.assert_array_equal(after.known.bias.mean[:2], mu[:2])
    assert shifted(after).bound() == pytest.approx(after.bound(), rel=1e-12)


def test_shift_leaves_entities_without_data_alone():
    after = shifted(toy(KINDS))
    for layer, seen in enumerate(after.spec.in_layer):
        assert not after.state.bias_mean[layer][~seen].any()


def random_rotation(K, rng):
    return np.linalg.qr(rng.normal(size=(K, K)))[0]


def test_rotation_keeps_predicted_means():
    start = toy(KINDS, n_factors=4)
    R = random_rotation(4, np.random.default_rng(0))
    after = turned(start, np.stack([R] * 3))
    for a, b in zip(predictors(start), predictors(after), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    for before, now in zip(start.state.var, after.state.var, strict=True):
        np.testing.assert_allclose(before.sum(axis=1), now.sum(axis=1))
    assert not np.allclose(after.state.mean[0], start.state.mean[0])


@pytest.mark.parametrize("sharing", ["group", "common"])
@pytest.mark.parametrize("K", [1, 2, 3, 6, 7])
def test_sparsest_rotation_is_orthogonal_and_respects_the_pattern(K, sharing):
    rng = np.random.default_rng(K)
    on = np.ones((3, K), bool)
    if sharing == "group":
        on[0, K // 2 :] = False
    start = toy(KINDS, n_factors=K, on=on, sharing=sharing, seed=int(rng.integers(99)))
    T = sparsest_axes(start, sheared=False)
    R = T[0]
    assert (T == R).all(), "the same for every set"
    np.testing.assert_allclose(R.T @ R, np.eye(K), atol=1e-12)
    for a, b in zip(predictors(start), predictors(turned(start, T)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    mixed = np.abs(R) > 1e-12
    same = (on[:, :, None] == on[:, None, :]).all(axis=0)
    assert not mixed[~same].any()


def objective(sample):
    """Σ_e d_e/2 Σ_k log S_ek, what the rotation is to lower."""
    return float((sample.spec.n_entities / 2 @ np.log(sample.posterior.moments.square)).sum())


def test_sparsest_rotation_lowers_its_objective():
    start = toy(KINDS, n_factors=5)
    after = turned(start, sparsest_axes(start, sheared=False))
    assert objective(after) < objective(start) - 1e-3


def chain(rng, K=4, n=40):
    """Sets a - b - c, factors without any order, and little variance."""
    u = {name: rng.normal(size=(n, K)) @ rng.normal(size=(K, K)) for name in "abc"}
    made = [Relation(r + c, r, c, u[r] @ u[c].T) for r, c in ("ab", "bc")]
    options = FitOptions(n_factors=K, bias=False, priors=VAGUE, dtype="float64")
    sample = random_sample(Collection(made), options, rng)
    for e, name in enumerate(sample.spec.schema.entities):
        sample.state.mean[e][:] = u[name]
        sample.state.var[e][:] = 1e-4
    return sample


@pytest.mark.parametrize("seed", range(3))
def test_shears_keep_predicted_means_and_go_further_than_rotations(seed):
    start = chain(np.random.default_rng(seed))
    T = sparsest_axes(start, sheared=True)
    a, b, _ = (start.spec.schema.entity_index(name) for name in "abc")
    np.testing.assert_allclose(T[a].T @ T[b], np.eye(4), atol=1e-9)
    sheared, rotated = turned(start, T), turned(start, sparsest_axes(start, sheared=False))
    for before, now in zip(predictors(start), predictors(sheared), strict=True):
        np.testing.assert_allclose(before, now, atol=1e-9)
    assert objective(sheared) < objective(rotated) - 1.0


def test_shears_end_where_no_small_one_helps():
    """At the optimum the objective is stationary along u_j + s u_k on one side, u_k − s u_j on the other."""
    start = chain(np.random.default_rng(0))
    best = turned(start, sparsest_axes(start, sheared=True))
    lowest = objective(best)
    for k, j in ((0, 1), (2, 0), (3, 2)):
        for s in (-1e-2, 1e-2):
            pair = np.stack([np.eye(4)] * 2)
            pair[0, k, j], pair[1, j, k] = s, -s
            assert objective(turned(best, pair[start.spec.two_colors])) > lowest


@pytest.mark.parametrize(("ends", "colors"), [
    ((("a", "b"), ("b", "c"), ("c", "d")), {"a": 0, "b": 1, "c": 0, "d": 1}),
    ((("s", "x"), ("s", "y"), ("s", "z")), {"s": 0, "x": 1, "y": 1, "z": 1}),
    ((("a", "b"), ("c", "b"), ("c", "d"), ("a", "d")), {"a": 0, "b": 1, "c": 0, "d": 1}),
    ((("a", "b"), ("b", "c"), ("c", "a")), None),
])  # fmt: skip
def test_colors_of_the_schema(ends, colors):
    rng = np.random.default_rng(0)
    data = Collection([Relation(r + c, r, c, rng.normal(size=(4, 4))) for r, c in ends])
    spec, _ = build(data, FitOptions(n_factors=2))
    if colors is None:
        assert spec.two_colors is None
        return
    found = dict(zip(spec.schema.entities, spec.two_colors.tolist(), strict=True))
    flipped = {name: 1 - color for name, color in colors.items()}
    assert found in (colors, flipped)


def sparse_toy(rng, n=60):
    """Three sets in a circle; one factor shared by all, one private to each relation."""
    on = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [1, 0, 1, 1]], dtype=float)
    u = [rng.normal(size=(n, 4)) * on[e] for e in range(3)]
    names = "abc"
    made = [Relation(f"r{m}", names[r], names[c], u[r] @ u[c].T) for m, (r, c) in enumerate([(0, 1), (1, 2), (2, 0)])]
    options = FitOptions(n_factors=4, bias=False, priors=VAGUE, dtype="float64", relation_scales=False)
    sample = random_sample(Collection(made), options, rng)
    for e in range(3):
        sample.state.mean[e][:] = u[e]
        sample.state.var[e][:] = 1e-3
    return sample, on.astype(bool)


@pytest.mark.parametrize("seed", range(5))
def test_rotation_finds_the_zeros_of_a_group_sparse_model(seed):
    rng = np.random.default_rng(seed)
    sample, on = sparse_toy(rng)
    mixed = turned(sample, np.stack([random_rotation(4, rng)] * 3)).updated(update_alpha)
    after = turned(mixed, sparsest_axes(mixed, sheared=False)).updated(update_alpha)
    S = after.posterior.moments.square
    pattern = 0.02 * S.max() < S
    assert sorted(map(tuple, pattern.T.tolist())) == sorted(map(tuple, on.T.tolist()))
    assert after.bound() > mixed.bound()


def test_second_moments_are_their_definition():
    sample = toy((GAUSSIAN, CELL, JAAKKOLA), priors=PROPER)
    M = sample.placed().second_moments()
    e = 1
    mean, var = sample.state.mean[e], sample.state.var[e]
    np.testing.assert_allclose(M[e], sum(np.outer(u, u) + np.diag(s) for u, s in zip(mean, var, strict=True)))
    np.testing.assert_allclose(np.einsum("ekk->ek", M), sample.posterior.moments.square)


#: Two factors, private to the third relation and to the first.
PRIVATE = np.array([[True, True], [False, True], [True, False]])


def extended(sample, on):
    """The sample with factors more, at a random place."""
    rng = np.random.default_rng(0)
    return sample.moved(lambda engine, posterior: moves.extend(sample.spec, engine, posterior, on, rng))


def test_more_factors_live_where_told_and_leave_the_others_alone():
    start = toy(KINDS)
    after = extended(start, PRIVATE)
    np.testing.assert_array_equal(after.known.on, np.concatenate([start.known.on, PRIVATE], axis=1))
    for e in range(3):
        np.testing.assert_array_equal(after.state.mean[e][:, :3], start.state.mean[e])
        np.testing.assert_array_equal(after.state.var[e][:, :3], start.state.var[e])
        alive = after.state.mean[e][start.spec.observed[e], 3:].any(axis=0)
        np.testing.assert_array_equal(alive, after.known.on[e, 3:])
    np.testing.assert_array_equal(after.known.alpha.rate[:, :3], start.known.alpha.rate)
    assert np.isfinite(after.bound())


def test_weak_factors_are_dropped_and_counted():
    start = toy(KINDS)
    grown = extended(start, PRIVATE).knowing(n_weak=2)
    assert (grown.known.n_factors, grown.known.n_strong) == (5, 3)
    after = grown.moved(moves.drop, np.array([3]))
    assert (after.known.n_factors, after.known.n_strong, after.known.n_weak) == (4, 3, 1)
    np.testing.assert_array_equal(after.known.on[:, 3], PRIVATE[:, 1])
    for e in range(3):
        np.testing.assert_array_equal(after.state.mean[e], grown.state.mean[e][:, [0, 1, 2, 4]])
    same = grown.moved(moves.drop, np.array([], dtype=int))
    np.testing.assert_array_equal(same.state.mean[0], grown.state.mean[0])
    assert same.known.n_weak == 2
