"""Scales of relations and factors: their update, their price, what they may take over, and what they find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gcmf
from gcmf import Collection, Relation
from gcmf.fit import fit
from gcmf.methods.scaling import Scaling
from gcmf.model import gauge, moves, structure
from gcmf.model.hyper import step_scales, update_alpha, update_scale_prior
from gcmf.model.joins import join_alike
from gcmf.model.posterior import Moments
from gcmf.model.predict import predict_grid
from gcmf.model.spec import can_profit
from gcmf.options import FitOptions
from helpers import random_sample
from strategies import network, relation
from toys import EXACT, GAUSSIAN, HYBRID, JAAKKOLA, LOGIT, PROPER, VAGUE, toy

GAUSSIANS = (GAUSSIAN,) * 3
HOLES = np.array([[True, True, False], [True, False, True], [True, True, True]])


def scaled(kinds=GAUSSIANS, **options):
    return toy(kinds, relation_scales=True, **options)


def swept(sample):
    """After a sweep of all sets by the reference engine: the sample, what it measured, the sums for the scales."""
    engine = sample.placed()
    sets = [engine.sweep(e, sample.given) for e in range(3)]
    after = replace(sample, state=engine.fetch())
    measured = np.fmax.reduce([of_set.measured for of_set in sets])
    return after.knowing(moments=Moments.swept(sets)), measured, sum(of_set.scaling for of_set in sets)


def nudged(sample, name, m, k, h):
    values = getattr(sample.known.scales, name).copy()
    values[m, k] = values[m, k] + h if name == "mean" else values[m, k] * np.exp(h)
    return sample.knowing(scales=sample.known.scales._replace(**{name: values}))


# --- the update ---------------------------------------------------------------------------------------------


CASES = {
    "holes": {"priors": VAGUE, "on": HOLES},
    "common": {"priors": PROPER, "sharing": "common"},
    "map": {"priors": PROPER, "inference": "map"},
}


@pytest.mark.parametrize("case", CASES)
def test_the_step_is_the_maximum_and_gains_what_it_says(case):
    sample, _, sums = swept(scaled(**CASES[case]))
    step = step_scales(sample.spec, sample.known.scales, sums)
    after = sample.knowing(scales=sample.known.scales._replace(mean=step.mean, var=step.var))
    gain = (step.cells + step.prior).sum()
    assert gain > 0.01
    assert after.bound() - sample.bound() == pytest.approx(gain, rel=1e-8)
    here = after.bound()
    for m, k in zip(*np.nonzero(sample.known.scales.on), strict=True):
        for name in ("mean",) if sample.spec.point else ("mean", "var"):
            up, down = (nudged(after, name, m, k, h).bound() for h in (1e-3, -1e-3))
            assert max(up, down) < here
            assert abs(up - down) < 0.05 * (2 * here - up - down)


def test_precisions_of_scales_are_at_their_maximum():
    sample = scaled(priors=PROPER)
    after = sample.knowing(scales=update_scale_prior(sample.spec, sample.known.scales))
    assert after.bound() > sample.bound()
    beta = after.known.scales.beta
    for name in ("shape", "rate"):
        for h in (0.99, 1.01):
            other = replace(beta, **{name: h * getattr(beta, name)})
            assert after.knowing(scales=after.known.scales._replace(beta=other)).bound() < after.bound()


@pytest.mark.parametrize("kinds", [(JAAKKOLA, HYBRID, GAUSSIAN), (EXACT, LOGIT, GAUSSIAN)], ids=["bounds", "exact"])
def test_the_bound_never_falls(kinds):
    """Of bounds what is measured is no more than what touching again finds; steps that are no bounds are guarded."""
    for seed in range(5):
        sample, measured, sums = swept(scaled(kinds, seed=seed))
        engine = sample.placed()
        posterior, after = Scaling(sample.spec).moved(engine, sample.known, sample.given, measured, sums)
        bound = gcmf.model.elbo.elbo
        assert bound(sample.spec, posterior, after) >= bound(sample.spec, sample.known, measured)
        again = replace(sample, known=posterior).measured()
        slope = sample.given.slope
        assert (slope * again >= slope * after - 1e-9 * np.abs(after)).all()


def test_scales_that_nothing_tells_of_stay():
    sample, _, sums = swept(scaled())
    step = step_scales(sample.spec, sample.known.scales, np.zeros_like(sums))
    np.testing.assert_array_equal(step.mean, sample.known.scales.mean)
    assert not step.cells.any()


# --- moves and structure ------------------------------------------------------------------------------------


def test_what_factors_take_over_changes_nothing():
    sample = scaled(priors=VAGUE, seed=3)
    everywhere = np.ones((3, 3), dtype=bool)
    scales = sample.known.scales._replace(on=everywhere, mean=sample.known.scales.mean + 0.3, var=0.1 * everywhere)
    sample = sample.knowing(scales=update_scale_prior(sample.spec, scales)).updated(update_alpha)
    after = sample.moved(lambda engine, posterior: gauge.absorb(sample.spec, engine, posterior))
    assert after.bound() == pytest.approx(sample.bound(), abs=1e-6)
    d = after.known.scales.mean
    np.testing.assert_allclose(np.abs(d), 1.0)
    assert (d[sample.spec.forest] > 0).all()
    assert (np.sign(d).prod(axis=0) == np.sign(scales.mean).prod(axis=0)).all()


def test_only_factors_with_the_same_scales_are_mixed():
    sample = scaled(priors=VAGUE, n_factors=4)
    mean = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, -1.0, 1.0]])
    scales = sample.known.scales._replace(mean=mean, var=np.where(mean, 0.1, 0.0), on=mean != 0)
    sample = sample.knowing(scales=scales).updated(update_alpha)
    T = gauge.sparsest_axes(sample.spec, sample.posterior, sample.placed().second_moments(), sheared=False)[0]
    assert abs(T[0, 1]) > 1e-3
    np.testing.assert_array_equal(T[:2, 2:], 0.0)
    np.testing.assert_array_equal(T[2:, 2:], np.eye(2))
    after = sample.moved(moves.transform, np.stack([T] * 3))
    np.testing.assert_array_equal(after.known.scales.var[mean == 0], 0.0)


def test_a_relation_that_no_longer_sees_a_factor_changes_the_bound_as_predicted():
    sample = scaled(priors=VAGUE).updated(update_alpha)
    sample = sample.knowing(scales=update_scale_prior(sample.spec, sample.known.scales))
    gain, _ = sample.placed().weigh(sample.given)
    net = gain - sample.spec.price[:, None] - structure.scale_costs(sample.posterior)
    for m, k in zip(*np.nonzero(sample.known.scales.on), strict=True):
        seen = sample.known.scales.on.copy()
        seen[m, k] = False
        change = structure.Change(0.0, int(k), ((True,) * 3,), reach=(tuple(seen[:, k].tolist()),))
        after = sample.moved(moves.restructure, [change])
        assert after.known.scales.mean[m, k] == after.known.scales.var[m, k] == 0.0
        assert after.bound() - sample.bound() == pytest.approx(-net[m, k], abs=1e-6)


def test_relations_are_left_one_after_the_other():
    """A factor that two relations of a triangle do not want keeps the third, and the two sets of that."""
    ends = ((0, 1), (1, 2), (2, 0))
    factor = structure._Factor(ends, 0, (True,) * 3, [50.0, -1.0, -2.0], [4.0] * 3, (True,) * 3)
    best = factor.best()
    assert (best.columns, best.reach) == (((True, True, False),), ((True, False, False),))
    assert best.loss == -7.0
    one = structure._Factor(ends, 0, (True,) * 3, [50.0, -1.0, 60.0], [4.0] * 3, (True,) * 3).best()
    assert (one.columns, one.reach) == (((True, True, True),), ((True, False, True),))


@pytest.mark.parametrize(("ends", "expected"), [
    ([(0, 1)], False), ([(0, 1), (1, 2)], False), ([(0, 1), (0, 2), (0, 3)], False),
    ([(0, 1), (1, 2), (2, 3), (3, 0)], False), ([(0, 1), (1, 2), (2, 0)], True),
    ([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], True), ([(0, 1), (0, 1)], True), ([(0, 1), (1, 0)], True),
    ([(0, 1), (2, 2)], True), ([(0, 1), (2, 3), (3, 4), (4, 2)], True),
])  # fmt: skip
def test_which_schemas_can_profit(ends, expected):
    assert can_profit(1 + max(map(max, ends)), tuple(ends)) is expected


def test_two_columns_that_are_one_are_joined():
    """Two relations of a triangle share a factor, which two columns hold: one is enough, for the same predictions."""
    sample = scaled(priors=VAGUE, seed=4, n_factors=2, bias=False)
    everywhere = np.array([[True, True], [False, True], [True, True]])
    mean = np.where(everywhere, [[1.2, 0.4], [0.0, 0.9], [-0.7, 1.1]], 0.0)
    scales = sample.known.scales._replace(mean=mean, var=np.where(everywhere, 1e-4, 0.0), on=everywhere)
    sample = sample.knowing(scales=scales).updated(update_alpha)
    for e in range(3):
        sample.state.var[e][:] *= 1e-4
    apart = structure.Change(
        0.0, 0, ((True, True, False), (True, False, True)), reach=((True, False, False), (False, False, True))
    )
    split = sample.moved(moves.restructure, [apart])
    assert split.known.n_factors == 3
    # In between the second column may be of another size and sign.
    split.state.mean[0][:, 1] *= -2.0
    split.state.var[0][:, 1] *= 4.0
    split.known.scales.mean[2, 1] /= -2.0
    split = split.updated(update_alpha)
    after = split.moved(lambda engine, posterior: join_alike(split.spec, engine, posterior))
    assert after.known.n_factors == 2
    assert sorted(map(tuple, after.known.scales.on.T.tolist())) == [(True, False, True), (True, True, True)]
    np.testing.assert_allclose(after.measured(), sample.measured(), rtol=0.02)
    assert after.bound() > split.bound()


def test_factors_that_differ_are_not_joined():
    sample = scaled(priors=VAGUE, n_factors=2, on=np.array([[True, True], [True, False], [False, True]]))
    assert join_alike(sample.spec, sample.placed(), sample.posterior) is None


def directed(n_factors, mate, seed=0):
    """A sample of a directed network and a table, with these mates and scales everywhere."""
    rng = np.random.default_rng(seed)
    made = [
        network("a", 15, rng, symmetric=False, likelihood=GAUSSIAN, layout="listed", missing=0.2),
        relation("r", ("a", "b"), (15, 6), likelihood=GAUSSIAN, layout="listed", missing=0.2, rng=rng),
    ]
    options = FitOptions(n_factors=n_factors, dtype="float64", priors=VAGUE, bias=False)
    sample = random_sample(Collection(made), options, rng)
    mean, everywhere = rng.uniform(0.5, 1.5, (2, n_factors)), np.ones((2, n_factors), dtype=bool)
    scales = sample.known.scales._replace(mean=mean, var=0.01 * everywhere, on=everywhere, mate=np.array(mate))
    return sample.knowing(scales=update_scale_prior(sample.spec, scales)).updated(update_alpha)


def test_who_loses_its_mate_sends_nothing_and_goes_if_nobody_sees_it():
    sample = directed(4, [1, 0, 3, 2])
    on = sample.known.scales.on.copy()
    on[1, 2] = False
    sample = sample.knowing(
        scales=sample.known.scales._replace(on=on, mean=np.where(on, sample.known.scales.mean, 0.0))
    )
    after = sample.moved(moves.restructure, [structure.Change(0.0, 1, ()), structure.Change(0.0, 3, ())])
    # The first is still seen by the table, the third by nothing.
    assert after.known.n_factors == 1
    assert after.known.scales.on.tolist() == [[False], [True]]
    assert after.known.scales.mate.tolist() == [0]


def test_mates_follow_their_columns():
    sample = directed(4, [3, 1, 2, 0])
    after = sample.moved(moves.restructure, [structure.Change(0.0, 1, ())])
    assert after.known.scales.mate.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(after.known.scales.mean, sample.known.scales.mean[:, [0, 2, 3]])


def test_a_factor_is_charged_for_what_its_mate_sends():
    """Leaving the set loses both arcs; the second counts with the net of the mate."""
    sample = directed(2, [1, 0])
    spec, scales = sample.spec, sample.known.scales
    gain, cost = np.array([[-50.0, 30.0], [-20.0, 9.0]]), np.full((2, 2), 2.0)
    (change,) = structure.single_changes(spec, sample.known.on, gain + spec.price[:, None], cost, scales)
    # Factor 0 is wanted by no relation, but the network wants what factor 1 sends to it.
    assert (change.k, change.columns, change.reach) == (0, ((True, False),), ((False, False),))
    assert change.loss == pytest.approx(-72.0)


def test_mates_that_are_alike_become_one():
    sample = directed(2, [1, 0])
    for e in range(2):
        sample.state.mean[e][:, 1] = -1.5 * sample.state.mean[e][:, 0]
        sample.state.var[e][:] *= 1e-4
    sample = sample.updated(update_alpha)
    after = sample.moved(lambda engine, posterior: join_alike(sample.spec, engine, posterior))
    assert after.known.n_factors == 1
    assert after.known.scales.mate.tolist() == [0]
    np.testing.assert_allclose(after.measured(), sample.measured(), rtol=0.05)
    assert after.bound() > sample.bound()


# --- what they find -----------------------------------------------------------------------------------------

SIZES = {"a": 60, "b": 50, "c": 40}
TRIANGLE = {"ab": (1.0, 1.0, 0.0), "bc": (0.0, 1.0, 1.0), "ca": (1.0, 0.0, 1.0)}


def triangle(seed):
    """Three factors, each in exactly two of three relations; noise of variance 0.25, 30% missing; and the truth."""
    rng = np.random.default_rng(seed)
    u = {name: rng.normal(size=(d, 3)) for name, d in SIZES.items()}
    truth = {name: (u[name[0]] * d) @ u[name[1]].T for name, d in TRIANGLE.items()}
    made = []
    for name, theta in truth.items():
        x = theta + 0.5 * rng.normal(size=theta.shape)
        made.append(Relation(name, name[0], name[1], np.where(rng.random(x.shape) < 0.3, np.nan, x)))
    return Collection(made), truth


def error(fitted, truth):
    """Root mean square over all cells of the three relations, without their noise."""
    parts = [(predict_grid(fitted, m, *map(np.arange, theta.shape)).mean - theta).ravel()
             for m, theta in enumerate(truth.values())]  # fmt: skip
    return np.sqrt(np.mean(np.concatenate(parts) ** 2))


@pytest.mark.parametrize("seed", range(3))
def test_factors_of_two_of_three_relations_are_found(seed):
    """All of 20 seeds in benchmarks/scales.py."""
    data, truth = triangle(seed)
    model = gcmf.GCMF(8, random_state=seed).fit(data)
    assert sorted(model.structure()["relations"]) == [("ab", "bc"), ("ab", "ca"), ("bc", "ca")]
    assert set(model.structure()["role"]) == {"partial"}
    known = FitOptions(
        n_factors=3,
        pattern=dict.fromkeys(SIZES, (True,) * 3),
        reach={name: tuple(map(bool, d)) for name, d in TRIANGLE.items()},
    )
    given = fit(data, known, np.random.default_rng(seed), ()).summarize(data)
    assert error(model.fitted_, truth) < 1.01 * error(given, truth)


def twice(seed):
    """Two relations between the same sets: a factor of each, and one that they use with opposite signs."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(60, 3)), rng.normal(size=(50, 3))
    made = []
    for name, d in (("likes", (1.0, 1.0, 0.0)), ("returns", (-1.0, 0.0, 1.0))):
        x = (u * d) @ v.T + 0.5 * rng.normal(size=(60, 50))
        made.append(Relation(name, "user", "item", np.where(rng.random(x.shape) < 0.3, np.nan, x)))
    return Collection(made)


@pytest.mark.parametrize("seed", range(3))
def test_relations_between_the_same_sets_share_a_factor_with_opposite_signs(seed):
    model = gcmf.GCMF(8, random_state=seed).fit(twice(seed))
    structure, strength = model.structure(), model.strengths()
    assert sorted(structure["relations"]) == [("likes",), ("likes", "returns"), ("returns",)]
    shared = structure.index[structure["role"] == "shared"]
    assert len(shared) == 1
    assert strength.loc["likes", shared[0]] * strength.loc["returns", shared[0]] < -0.3
    assert (strength == 0).to_numpy().sum() == 2


def test_without_scales_the_same_triangle_needs_more():
    data, truth = triangle(0)
    plain = gcmf.GCMF(8, random_state=0, relation_scales=False).fit(data)
    assert plain.fitted_.scales is None
    scaled = gcmf.GCMF(8, random_state=0).fit(data)
    assert error(plain.fitted_, truth) > 1.05 * error(scaled.fitted_, truth)


def test_a_model_with_scales_is_saved_and_loaded(tmp_path):
    data, _ = triangle(0)
    model = gcmf.GCMF(8, random_state=0).fit(data)
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    for name in TRIANGLE:
        for own, other in zip(again.predict(name, return_std=True), model.predict(name, return_std=True), strict=True):
            np.testing.assert_array_equal(own, other)
    assert again.structure().equals(model.structure())
    assert again.relation_scales == "auto"
