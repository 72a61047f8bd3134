"""The on/off test predicts the change of the bound, and changes made together never lower it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcmf import GCMF, Collection, Relation, Status
from gcmf.engines.cpu import CpuEngine
from gcmf.model import moves, structure
from gcmf.model.hyper import update_alpha, update_parameters
from gcmf.options import FitOptions
from helpers import random_sample
from strategies import adversarial, problems
from toys import GAUSSIAN, HYBRID, JAAKKOLA, PROPER, VAGUE, toy

GAUSSIANS = (GAUSSIAN,) * 3


def weigh(sample, device="reference"):
    engine = CpuEngine(sample.problem, dtype="float64", n_threads=1) if device == "cpu" else None
    return sample.placed(engine).weigh(sample.given)


def switch_off(sample, e, k):
    """The same sample with factor k off in set e."""
    on, state = sample.known.on.copy(), sample.state.copy()
    on[e, k] = False
    state.mean[e][:, k] = 0
    state.var[e][:, k] = 0
    return replace(sample, state=state).knowing(on=on)


def predicted_change(sample, e, k, device="reference"):
    """By how much the bound would change if factor k were off in set e, by what it gains and costs."""
    gain, _ = weigh(sample, device)
    cost, lost = (
        structure.costs(sample.spec, sample.posterior),
        [m for m, ends in enumerate(sample.spec.ends) if e in ends],
    )
    return cost[e, k] - (gain[lost, k] - sample.spec.price[lost]).sum()


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("unit", [(), ("b",)], ids=["free", "unit variance"])
def test_gain_less_cost_is_what_switching_off_loses(device, unit):
    sample = toy(GAUSSIANS, priors=VAGUE, unit_variance=unit).updated(update_alpha)
    here = sample.bound()
    for e in range(3):
        for k in range(3):
            actual = switch_off(sample, e, k).bound() - here
            assert actual == pytest.approx(predicted_change(sample, e, k, device), abs=1e-6)


def test_common_factors_die_as_a_whole_and_at_the_predicted_price():
    sample = toy(GAUSSIANS, priors=VAGUE, sharing="common").updated(update_alpha)
    (gain, _), cost = weigh(sample), structure.costs(sample.spec, sample.posterior)
    here = sample.bound()
    for k in range(3):
        after = sample
        for e in range(3):
            after = switch_off(after, e, k)
        predicted = cost[:, k].sum() - (gain[:, k] - sample.spec.price).sum()
        assert after.bound() - here == pytest.approx(predicted, abs=1e-6)


def test_switching_off_under_a_bound_loses_no_more_than_predicted():
    """(w, z) are held by the prediction; refreshing them can only help."""
    sample = toy((JAAKKOLA, HYBRID, GAUSSIAN), priors=VAGUE).updated(update_alpha)
    here = sample.bound()
    for e in range(3):
        for k in range(3):
            assert switch_off(sample, e, k).bound() - here >= predicted_change(sample, e, k) - 1e-6


def test_off_level_is_the_limit_of_a_vanishing_factor():
    """Relative to it, a pair whose q(u) equals its prior costs (nearly) nothing."""
    tiny = toy(GAUSSIANS, priors=VAGUE)
    spec = tiny.spec
    for e in range(3):
        tiny.state.mean[e][:, 2] = 0
        tiny.state.var[e][spec.observed[e], 2] = 1e-7
    gone = tiny = tiny.updated(update_alpha)
    for e in range(3):
        gone = switch_off(gone, e, 2)
    assert tiny.bound() + spec.price.sum() == pytest.approx(gone.bound(), abs=0.01)
    assert np.all(np.isfinite(spec.off_level))
    assert not toy(GAUSSIANS, priors=PROPER).spec.off_level.any()


@adversarial(60)
@given(problem=problems(max_size=8, priors=VAGUE), seed=st.integers(0, 10**6), shrink=st.sampled_from([0.03, 0.2, 1.0]))
def test_changes_made_together_never_lower_the_bound(problem, seed, shrink):
    rng = np.random.default_rng(seed)
    sample, K = random_sample(*problem, rng), problem[1].n_factors
    spec, state = sample.spec, sample.state
    for e in range(len(spec.sizes)):
        # Weak factors, and copies of one another: each alone is worth little, together they are worth a lot.
        copied = state.mean[e][:, :1] / np.sqrt(K)
        state.mean[e][:] = shrink * np.where(rng.random(K) < 0.5, state.mean[e], copied)
        state.var[e][:] *= 0.05
    sample = sample.updated(update_alpha)
    changes = structure.changes(spec, sample.posterior, *weigh(sample), room=3)
    after = sample.moved(moves.restructure, changes)
    assert after.known.n_factors <= K + 3
    assert (after.known.on.any(axis=0)).all()
    here, there = sample.bound(), after.bound()
    assert there >= here - 1e-6
    if changes:
        assert there > here
    if spec.common:
        assert all(not change.columns for change in changes)


def test_greedy_removal_of_copies_is_stopped_in_time():
    """Ten copies share one strong factor: none pays for itself, yet all of them must not go."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(30, 1)), rng.normal(size=(25, 1))
    data = Collection([Relation("x", "a", "b", 2 * u @ v.T + 0.1 * rng.normal(size=(30, 25)))])
    sample = random_sample(data, FitOptions(n_factors=10, bias=False, priors=VAGUE, dtype="float64"), rng)
    scale = np.sqrt(2 / sample.spec.scale[0] / 10)
    for e, copied in enumerate((u, v)):
        sample.state.mean[e][:] = scale * copied
        sample.state.var[e][:] = 0.01
    sample = sample.knowing(parameters=(np.array([2.0, 1.0]),)).updated(update_alpha)
    spec, posterior, (gain, energy) = sample.spec, sample.posterior, weigh(sample)
    alone = structure.single_changes(spec, posterior.on, gain, structure.costs(spec, posterior))
    assert len(list(alone)) == 10, "each copy alone is better gone"
    changes = structure.changes(spec, posterior, gain, energy, room=0)
    assert 0 < len(changes) < 10
    assert sample.moved(moves.restructure, changes).bound() > sample.bound()


def chain(seed=0):
    """A – B – C – D; the middle relation is noise, so one factor over all four joins what is unrelated."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 20, "b": 15, "c": 18, "d": 12}
    u = {name: rng.normal(size=(d, 1)) for name, d in sizes.items()}
    made = []
    for r, c, signal in (("a", "b", 1.0), ("b", "c", 0.0), ("c", "d", 1.0)):
        x = signal * u[r] @ u[c].T + 0.3 * rng.normal(size=(sizes[r], sizes[c]))
        made.append(Relation(f"{r}{c}", r, c, x))
    sample = random_sample(Collection(made), FitOptions(n_factors=1, bias=False, dtype="float64"), rng)
    for e, name in enumerate(sample.spec.schema.entities):
        sample.state.mean[e][:] = 0.9 * u[name]
        sample.state.var[e][:] = 0.02
    return sample.updated(update_parameters, sample.measured()).updated(update_alpha)


def test_a_factor_that_joins_unrelated_groups_is_cut():
    sample = chain()
    gain, energy = weigh(sample)
    (change,) = structure.changes(sample.spec, sample.posterior, gain, energy, room=1)
    assert sorted(change.columns) == [(False, False, True, True), (True, True, False, False)]
    after = sample.moved(moves.restructure, [change])
    assert after.bound() - sample.bound() == pytest.approx(-change.loss, abs=1e-6)
    assert change.loss < 0
    np.testing.assert_array_equal(after.known.on.sum(axis=1), 1)
    assert structure.changes(sample.spec, sample.posterior, gain, energy, room=0) == [], "no room, no cut"


def test_restructure_keeps_what_is_not_changed():
    sample = toy(GAUSSIANS)
    after = sample.moved(moves.restructure, [structure.Change(-1.0, 1, ())])
    assert after.known.on.shape == (3, 2)
    for e in range(3):
        np.testing.assert_array_equal(after.state.mean[e], sample.state.mean[e][:, [0, 2]])
    np.testing.assert_array_equal(after.known.alpha.rate, sample.known.alpha.rate[:, [0, 2]])
    empty = sample.moved(moves.restructure, [structure.Change(-1.0, k, ()) for k in range(3)])
    assert empty.known.on.shape == (3, 0)
    assert np.isfinite(empty.bound())


def test_roles_and_reach():
    seen = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=bool)
    names, reached = structure.roles(seen)
    assert reached == [[0, 1, 2], [0], [1], [], []]
    assert names[:3] == ["shared", "private", "private"]
    names, reached = structure.roles(np.array([[1], [1], [0]], dtype=bool))
    assert (names, reached) == (["partial"], [[0, 1]])


STAR = ((0, 1), (2, 3), (2, 1), (3, 4), (1, 5), (2, 6))


def test_a_factor_that_nobody_gains_from_dies_whatever_the_schema():
    """Of single relations the best to leave is a bridge, which needs room; to leave a hub splits the rest."""
    net = [-2.5, -4.7, -4.5, -2.4, -1.6, -2.8]
    best = structure._Factor(STAR, 0, (True,) * 7, net, [0.0] * 7).best()
    assert best.columns == ()
    assert best.loss == pytest.approx(sum(net))
    assert best.lost == tuple(range(6))


def test_a_factor_leaves_hubs_to_where_it_is_worth_something():
    net = [-2.5, -4.7, -4.5, 9.0, -1.6, -2.8]
    best = structure._Factor(STAR, 0, (True,) * 7, net, [0.5] * 7).best()
    assert best.columns == ((False, False, False, True, True, False, False),)
    assert best.loss == pytest.approx(sum(net) - 9.0 - 5 * 0.5)


def test_noise_in_a_star_of_relations_keeps_no_factor_at_any_cap():
    rng = np.random.default_rng(0)
    sizes = (6, 25, 60, 40, 3, 3, 3)
    data = {(f"e{r}", f"e{c}"): rng.normal(size=(sizes[r], sizes[c])) for r, c in STAR}
    for n_factors in (2, 12):
        model = GCMF(n_factors, random_state=0, progress=False).fit(data)
        assert model.status_ is Status.ALL_PRUNED
