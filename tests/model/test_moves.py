"""Moves leave the predictions alone and raise the bound."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf import Collection, Relation
from gcmf.model import moves
from gcmf.model.hyper import update_alpha
from gcmf.options import FitOptions
from helpers import bound_of, build_problem, random_posterior
from toys import CELL, GAUSSIAN, HYBRID, JAAKKOLA, PROPER, VAGUE, toy

KINDS = (GAUSSIAN, JAAKKOLA, HYBRID)


def predictors(spec, posterior):
    """m of every cell, observed or not, of every relation."""
    s = posterior.state
    return [s.mean[r] @ s.mean[c].T + s.bias_mean[2 * m][:, None] + s.bias_mean[2 * m + 1]
            for m, (r, c) in enumerate(spec.ends)]  # fmt: skip


def test_shift_keeps_predictions_and_raises_the_bound():
    spec, problem, posterior = toy(KINDS, bias={"r0": "rows", "r1": True, "r2": True})
    before, here = predictors(spec, posterior), bound_of(spec, problem, posterior)
    mu = posterior.bias.mean.copy()
    after = moves.shift(spec, posterior.copy())
    for m, (a, b) in enumerate(zip(before, predictors(spec, after), strict=True)):
        seen = np.outer(spec.in_layer[2 * m], spec.in_layer[2 * m + 1])
        np.testing.assert_allclose(a[seen], b[seen], atol=1e-12)
    assert bound_of(spec, problem, after) > here
    np.testing.assert_allclose(after.bias.mean[[2, 4]], after.bias.mean[[3, 5]])
    np.testing.assert_array_equal(after.bias.mean[:2], mu[:2])
    again = moves.shift(spec, after.copy())
    assert bound_of(spec, problem, again) == pytest.approx(bound_of(spec, problem, after), rel=1e-12)


def test_shift_leaves_entities_without_data_alone():
    spec, _, posterior = toy(KINDS)
    after = moves.shift(spec, posterior)
    for layer, seen in enumerate(spec.in_layer):
        assert not after.state.bias_mean[layer][~seen].any()


def random_rotation(K, rng):
    return np.linalg.qr(rng.normal(size=(K, K)))[0]


def test_rotation_keeps_predicted_means():
    spec, _, posterior = toy(KINDS, n_factors=4)
    R = random_rotation(4, np.random.default_rng(0))
    after = moves.rotate(posterior, np.stack([R] * len(spec.sizes)))
    for a, b in zip(predictors(spec, posterior), predictors(spec, after), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    for one, other in zip(posterior.state.var, after.state.var, strict=True):
        np.testing.assert_allclose(one.sum(axis=1), other.sum(axis=1))
    assert not np.allclose(after.state.mean[0], posterior.state.mean[0])


@pytest.mark.parametrize("sharing", ["group", "common"])
@pytest.mark.parametrize("K", [1, 2, 3, 6, 7])
def test_sparsest_rotation_is_orthogonal_and_respects_the_pattern(K, sharing):
    rng = np.random.default_rng(K)
    on = np.ones((3, K), bool)
    if sharing == "group":
        on[0, K // 2 :] = False
    spec, _, posterior = toy(KINDS, n_factors=K, on=on, sharing=sharing, seed=int(rng.integers(99)))
    T = moves.sparsest_axes(spec, posterior, sheared=False)
    R = T[0]
    assert (T == R).all(), "the same for every set"
    np.testing.assert_allclose(R.T @ R, np.eye(K), atol=1e-12)
    after = moves.rotate(posterior, T)
    for a, b in zip(predictors(spec, posterior), predictors(spec, after), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    mixed = np.abs(R) > 1e-12
    same = (on[:, :, None] == on[:, None, :]).all(axis=0)
    assert not mixed[~same].any()


def objective(spec, posterior):
    """Σ_e d_e/2 Σ_k log S_ek, what the rotation is to lower."""
    return float((spec.n_entities / 2 @ np.log(posterior.moments.square)).sum())


def test_sparsest_rotation_lowers_its_objective():
    spec, _, posterior = toy(KINDS, n_factors=5)
    turned = moves.rotate(posterior, moves.sparsest_axes(spec, posterior, sheared=False))
    assert objective(spec, turned) < objective(spec, posterior) - 1e-3


def chain(rng, K=4, n=40):
    """Sets a - b - c, factors without any order, and little variance."""
    u = {name: rng.normal(size=(n, K)) @ rng.normal(size=(K, K)) for name in "abc"}
    made = [Relation(r + c, r, c, u[r] @ u[c].T) for r, c in ("ab", "bc")]
    spec, problem = build_problem(Collection(made), FitOptions(n_factors=K, bias=False, priors=VAGUE))
    posterior = random_posterior(spec, np.ones((3, K), bool), rng)
    for e, name in enumerate(spec.schema.entities):
        posterior.state.mean[e][:] = u[name]
        posterior.state.var[e][:] = 1e-4
    return spec, problem, posterior


@pytest.mark.parametrize("seed", range(3))
def test_shears_keep_predicted_means_and_go_further_than_rotations(seed):
    spec, _, posterior = chain(np.random.default_rng(seed))
    T = moves.sparsest_axes(spec, posterior, sheared=True)
    a, b, _ = (spec.schema.entity_index(name) for name in "abc")
    np.testing.assert_allclose(T[a].T @ T[b], np.eye(4), atol=1e-9)
    sheared = moves.rotate(posterior, T)
    for one, other in zip(predictors(spec, posterior), predictors(spec, sheared), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    rotated = moves.rotate(posterior, moves.sparsest_axes(spec, posterior, sheared=False))
    assert objective(spec, sheared) < objective(spec, rotated) - 1.0


def test_shears_end_where_no_small_one_helps():
    """At the optimum the objective is stationary along u_j + s u_k on one side, u_k − s u_j on the other."""
    spec, _, posterior = chain(np.random.default_rng(0))
    found = moves.rotate(posterior, moves.sparsest_axes(spec, posterior, sheared=True))
    lowest = objective(spec, found)
    for k, j in ((0, 1), (2, 0), (3, 2)):
        for s in (-1e-2, 1e-2):
            pair = np.stack([np.eye(4)] * 2)
            pair[0, k, j], pair[1, j, k] = s, -s
            assert objective(spec, moves.rotate(found, pair[spec.two_colors])) > lowest


@pytest.mark.parametrize(("ends", "colors"), [
    ((("a", "b"), ("b", "c"), ("c", "d")), {"a": 0, "b": 1, "c": 0, "d": 1}),
    ((("s", "x"), ("s", "y"), ("s", "z")), {"s": 0, "x": 1, "y": 1, "z": 1}),
    ((("a", "b"), ("c", "b"), ("c", "d"), ("a", "d")), {"a": 0, "b": 1, "c": 0, "d": 1}),
    ((("a", "b"), ("b", "c"), ("c", "a")), None),
])  # fmt: skip
def test_colors_of_the_schema(ends, colors):
    rng = np.random.default_rng(0)
    data = Collection([Relation(r + c, r, c, rng.normal(size=(4, 4))) for r, c in ends])
    spec, _ = build_problem(data, FitOptions(n_factors=2))
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
    spec, problem = build_problem(Collection(made), FitOptions(n_factors=4, bias=False, priors=VAGUE))
    posterior = random_posterior(spec, np.ones((3, 4), bool), rng)
    for e in range(3):
        posterior.state.mean[e][:] = u[e]
        posterior.state.var[e][:] = 1e-3
    return spec, problem, posterior, on.astype(bool)


@pytest.mark.parametrize("seed", range(5))
def test_rotation_finds_the_zeros_of_a_group_sparse_model(seed):
    rng = np.random.default_rng(seed)
    spec, problem, posterior, on = sparse_toy(rng)
    mixed = update_alpha(spec, moves.rotate(posterior, np.stack([random_rotation(4, rng)] * 3)))
    found = update_alpha(spec, moves.rotate(mixed, moves.sparsest_axes(spec, mixed, sheared=False)))
    S = found.moments.square
    pattern = 0.02 * S.max() < S
    assert sorted(map(tuple, pattern.T.tolist())) == sorted(map(tuple, on.T.tolist()))
    assert bound_of(spec, problem, found) > bound_of(spec, problem, mixed)


def test_second_moments_are_their_definition():
    _, _, posterior = toy((GAUSSIAN, CELL, JAAKKOLA), priors=PROPER)
    M = moves.second_moments(posterior)
    e = 1
    mean, var = posterior.state.mean[e], posterior.state.var[e]
    np.testing.assert_allclose(M[e], sum(np.outer(u, u) + np.diag(s) for u, s in zip(mean, var, strict=True)))
    np.testing.assert_allclose(np.einsum("ekk->ek", M), posterior.moments.square)
