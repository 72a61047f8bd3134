"""The on/off test predicts the change of the bound, and changes made together never lower it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcmf import GCMF, Collection, Relation, Status
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.model import moves, structure
from gcmf.model.hyper import update_alpha
from gcmf.model.posterior import hyper_of
from gcmf.options import FitOptions
from helpers import bound_of, build_problem, random_posterior
from strategies import adversarial, problems
from toys import GAUSSIAN, HYBRID, JAAKKOLA, PROPER, VAGUE, toy

GAUSSIANS = (GAUSSIAN,) * 3


def weigh(spec, problem, posterior, engine=ReferenceEngine):
    made = engine(problem) if engine is ReferenceEngine else CpuEngine(problem, dtype="float64", n_threads=1)
    made.place(posterior.state)
    return made.weigh(hyper_of(spec, posterior, None))


def switch_off(posterior, e, k):
    """The same posterior with factor k off in set e."""
    after = posterior.copy()
    after.on[e, k] = False
    after.state.mean[e][:, k] = 0
    after.state.var[e][:, k] = 0
    return after


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("unit", [(), ("b",)], ids=["free", "unit variance"])
def test_gain_less_cost_is_what_switching_off_loses(engine, unit):
    spec, problem, posterior = toy(GAUSSIANS, priors=VAGUE, unit_variance=unit)
    posterior = update_alpha(spec, posterior)
    gain, _ = weigh(spec, problem, posterior, engine=ReferenceEngine if engine == "reference" else CpuEngine)
    cost, here = structure.costs(spec, posterior), bound_of(spec, problem, posterior)
    for e in range(3):
        for k in range(3):
            lost = [m for m, ends in enumerate(spec.ends) if e in ends]
            predicted = cost[e, k] - (gain[lost, k] - spec.price[lost]).sum()
            actual = bound_of(spec, problem, switch_off(posterior, e, k)) - here
            assert actual == pytest.approx(predicted, abs=1e-6)


def test_common_factors_die_as_a_whole_and_at_the_predicted_price():
    spec, problem, posterior = toy(GAUSSIANS, priors=VAGUE, sharing="common")
    posterior = update_alpha(spec, posterior)
    (gain, _), cost = weigh(spec, problem, posterior), structure.costs(spec, posterior)
    here = bound_of(spec, problem, posterior)
    for k in range(3):
        after = posterior
        for e in range(3):
            after = switch_off(after, e, k)
        predicted = cost[:, k].sum() - (gain[:, k] - spec.price).sum()
        assert bound_of(spec, problem, after) - here == pytest.approx(predicted, abs=1e-6)


def test_switching_off_under_a_bound_loses_no_more_than_predicted():
    """(w, z) are held by the prediction; refreshing them can only help."""
    spec, problem, posterior = toy((JAAKKOLA, HYBRID, GAUSSIAN), priors=VAGUE)
    posterior = update_alpha(spec, posterior)
    (gain, _), cost = weigh(spec, problem, posterior), structure.costs(spec, posterior)
    here = bound_of(spec, problem, posterior)
    for e in range(3):
        for k in range(3):
            lost = [m for m, ends in enumerate(spec.ends) if e in ends]
            predicted = cost[e, k] - (gain[lost, k] - spec.price[lost]).sum()
            assert bound_of(spec, problem, switch_off(posterior, e, k)) - here >= predicted - 1e-6


def test_off_level_is_the_limit_of_a_vanishing_factor():
    """Relative to it, a pair whose q(u) equals its prior costs (nearly) nothing."""
    spec, problem, posterior = toy(GAUSSIANS, priors=VAGUE)
    tiny = posterior.copy()
    for e in range(3):
        tiny.state.mean[e][:, 2] = 0
        tiny.state.var[e][spec.observed[e], 2] = 1e-7
    tiny = update_alpha(spec, tiny)
    gone = tiny
    for e in range(3):
        gone = switch_off(gone, e, 2)
    there = bound_of(spec, problem, tiny) + spec.price.sum()
    assert there == pytest.approx(bound_of(spec, problem, gone), abs=0.01)
    assert np.all(np.isfinite(spec.off_level))
    proper, _, _ = toy(GAUSSIANS, priors=PROPER)
    assert not proper.off_level.any()


@adversarial(60)
@given(problem=problems(max_size=8, priors=VAGUE), seed=st.integers(0, 10**6), shrink=st.sampled_from([0.03, 0.2, 1.0]))
def test_changes_made_together_never_lower_the_bound(problem, seed, shrink):
    data, options = problem
    spec, placed = build_problem(data, options)
    rng = np.random.default_rng(seed)
    K = options.n_factors
    posterior = random_posterior(spec, np.ones((len(spec.sizes), K), bool), rng)
    for e in range(len(spec.sizes)):
        # Weak factors, and copies of one another: each alone is worth little, together they are worth a lot.
        posterior.state.mean[e][:] = shrink * np.where(rng.random(K) < 0.5, posterior.state.mean[e],
                                                       posterior.state.mean[e][:, :1] / np.sqrt(K))  # fmt: skip
        posterior.state.var[e][:] *= 0.05
    posterior = update_alpha(spec, posterior)
    found = structure.changes(spec, posterior, *weigh(spec, placed, posterior), room=3)
    after = moves.restructure(posterior, found)
    assert after.on.shape[1] <= K + 3
    assert (after.on.any(axis=0)).all()
    here, there = bound_of(spec, placed, posterior), bound_of(spec, placed, after)
    assert there >= here - 1e-6
    if found:
        assert there > here
    if spec.common:
        assert all(not change.columns for change in found)


def test_greedy_removal_of_copies_is_stopped_in_time():
    """Ten copies share one strong factor: none pays for itself, yet all of them must not go."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(30, 1)), rng.normal(size=(25, 1))
    data = Collection([Relation("x", "a", "b", 2 * u @ v.T + 0.1 * rng.normal(size=(30, 25)))])
    spec, problem = build_problem(data, FitOptions(n_factors=10, bias=False, priors=VAGUE))
    posterior = random_posterior(spec, np.ones((2, 10), bool), rng)
    posterior = posterior._replace(tau=replace(posterior.tau, shape=np.array([2.0]), rate=np.array([1.0])))
    scale = np.sqrt(2 / spec.scale[0] / 10)
    for e, copied in enumerate((u, v)):
        posterior.state.mean[e][:] = scale * copied
        posterior.state.var[e][:] = 0.01
    posterior = update_alpha(spec, posterior)
    gain, energy = weigh(spec, problem, posterior)
    alone = structure.single_changes(spec, posterior.on, gain, structure.costs(spec, posterior))
    assert len(list(alone)) == 10, "each copy alone is better gone"
    found = structure.changes(spec, posterior, gain, energy, room=0)
    assert 0 < len(found) < 10
    after = moves.restructure(posterior, found)
    assert bound_of(spec, problem, after) > bound_of(spec, problem, posterior)


def chain(seed=0):
    """A – B – C – D; the middle relation is noise, so one factor over all four joins what is unrelated."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 20, "b": 15, "c": 18, "d": 12}
    u = {name: rng.normal(size=(d, 1)) for name, d in sizes.items()}
    made = []
    for r, c, signal in (("a", "b", 1.0), ("b", "c", 0.0), ("c", "d", 1.0)):
        x = signal * u[r] @ u[c].T + 0.3 * rng.normal(size=(sizes[r], sizes[c]))
        made.append(Relation(f"{r}{c}", r, c, x))
    data = Collection(made)
    spec, problem = build_problem(data, FitOptions(n_factors=1, bias=False))
    posterior = random_posterior(spec, np.ones((4, 1), bool), rng)
    for e, name in enumerate(spec.schema.entities):
        posterior.state.mean[e][:] = 0.9 * u[name]
        posterior.state.var[e][:] = 0.02
    return spec, problem, update_alpha(spec, posterior)


def test_a_factor_that_joins_unrelated_groups_is_cut():
    spec, problem, posterior = chain()
    gain, energy = weigh(spec, problem, posterior)
    (change,) = structure.changes(spec, posterior, gain, energy, room=1)
    assert sorted(change.columns) == [(False, False, True, True), (True, True, False, False)]
    after = moves.restructure(posterior, [change])
    there, here = bound_of(spec, problem, after), bound_of(spec, problem, posterior)
    assert there - here == pytest.approx(-change.loss, abs=1e-6)
    assert change.loss < 0
    np.testing.assert_array_equal(after.on.sum(axis=1), 1)
    assert structure.changes(spec, posterior, gain, energy, room=0) == [], "no room, no cut"


def test_restructure_keeps_what_is_not_changed():
    spec, problem, posterior = toy(GAUSSIANS)
    change = structure.Change(-1.0, 1, ())
    after = moves.restructure(posterior, [change])
    assert after.on.shape == (3, 2)
    for e in range(3):
        np.testing.assert_array_equal(after.state.mean[e], posterior.state.mean[e][:, [0, 2]])
    np.testing.assert_array_equal(after.alpha.rate, posterior.alpha.rate[:, [0, 2]])
    everything = [structure.Change(-1.0, k, ()) for k in range(3)]
    empty = moves.restructure(posterior, everything)
    assert empty.on.shape == (3, 0)
    assert np.isfinite(bound_of(spec, problem, empty))


def test_roles_and_reach():
    ends = ((0, 1), (1, 2), (2, 0))
    on = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1]], dtype=bool)
    names, reached = structure.roles(ends, on)
    assert reached == [[0, 1, 2], [0], [1], [], []]
    assert names[:3] == ["shared", "private", "private"]
    path = ((0, 1), (1, 2), (2, 3))
    names, reached = structure.roles(path, np.array([[1], [1], [1], [0]], dtype=bool))
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
