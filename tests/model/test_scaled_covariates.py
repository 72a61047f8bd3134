"""Covariates, weights and linked biases together with scales, repeated relations and networks."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf import Collection, Relation
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.errors import DataError
from gcmf.methods.variational import _rank, most_factors
from gcmf.model import gauge, hyper, moves, structure
from gcmf.model.hyper import update_alpha, update_scale_prior
from gcmf.model.joins import join_alike
from gcmf.model.posterior import row_priors
from gcmf.model.spec import build
from gcmf.options import FitOptions
from gcmf.outcome import Status
from helpers import random_sample
from strategies import network, relation
from toys import GAUSSIAN, LOGIT, VAGUE, toy

GAUSSIANS = (GAUSSIAN,) * 3


def means(sample, known):
    """The prior means of the factors of the first set."""
    return row_priors(sample.spec, known)[0].mean


def moved_with_coefficients(sample, move):
    """The sample after a move, which coefficients follow as factors do: they are not updated themselves."""
    with (
        mock.patch.object(hyper, "ROUNDS", 0),
        mock.patch.object(ReferenceEngine, "transform", autospec=True, side_effect=ReferenceEngine.transform) as turn,
    ):
        after = sample.moved(move)
    prior = means(sample, sample.known)
    for call in turn.call_args_list:
        prior = prior @ call.args[1][0]
    np.testing.assert_allclose(means(after, after.known), prior, atol=1e-12)
    assert np.abs(prior).max() > 0.01
    return after


def test_what_factors_take_over_of_scales_changes_nothing():
    sample = toy(GAUSSIANS, relation_scales=True, priors=VAGUE, seed=3, known=True)
    everywhere = np.ones((3, 3), dtype=bool)
    scales = sample.known.scales._replace(on=everywhere, mean=sample.known.scales.mean + 0.3, var=0.1 * everywhere)
    with mock.patch.object(hyper, "ROUNDS", 0):
        sample = sample.knowing(scales=update_scale_prior(sample.spec, scales)).updated(update_alpha)
    after = moved_with_coefficients(sample, partial(gauge.absorb, sample.spec))
    assert not np.allclose(means(after, after.known), means(sample, sample.known))
    assert after.bound() == pytest.approx(sample.bound(), abs=1e-6)
    np.testing.assert_allclose(np.abs(after.known.scales.mean), 1.0)


def test_joined_factors_join_their_coefficients():
    sample = toy(GAUSSIANS, relation_scales=True, priors=VAGUE, seed=4, n_factors=2, bias=False, known=True)
    there = np.array([[True, True], [False, True], [True, True]])
    mean = np.where(there, [[1.2, 0.4], [0.0, 0.9], [-0.7, 1.1]], 0.0)
    scales = sample.known.scales._replace(mean=mean, var=np.where(there, 1e-4, 0.0), on=there)
    sample = sample.knowing(scales=scales).updated(update_alpha)
    for e in range(3):
        sample.state.var[e][:] *= 1e-4
    apart = structure.Change(
        0.0, 0, ((True, True, False), (True, False, True)), reach=((True, False, False), (False, False, True))
    )
    split = sample.moved(moves.restructure, [apart]).updated(update_alpha)
    assert split.known.n_factors == 3
    after = moved_with_coefficients(split, partial(join_alike, split.spec))
    assert after.known.n_factors == 2
    assert after.bound() > split.bound()


def known_network(likelihood, *, symmetric, seed=0, n=15):
    """A network and a table of the same people, of whom something is known."""
    rng = np.random.default_rng(seed)
    made = [
        network("a", n, rng, symmetric=symmetric, likelihood=likelihood, layout="listed", missing=0.2),
        relation("r", ("a", "b"), (n, 6), likelihood=GAUSSIAN, layout="listed", missing=0.2, rng=rng),
    ]
    return Collection(made, {"a": pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n)})})


def test_mates_that_are_alike_become_one_with_their_coefficients():
    data = known_network(GAUSSIAN, symmetric=False)
    rng = np.random.default_rng(0)
    options = FitOptions(n_factors=2, dtype="float64", priors=VAGUE, bias=False)
    sample = random_sample(data, options, rng)
    everywhere = np.ones((2, 2), dtype=bool)
    scales = sample.known.scales._replace(
        mean=rng.uniform(0.5, 1.5, (2, 2)), var=0.01 * everywhere, on=everywhere, mate=np.array([1, 0])
    )
    for e in range(2):
        sample.state.mean[e][:, 1] = -1.5 * sample.state.mean[e][:, 0]
        sample.state.var[e][:] *= 1e-4
    sample = sample.knowing(scales=update_scale_prior(sample.spec, scales)).updated(update_alpha)
    after = moved_with_coefficients(sample, partial(join_alike, sample.spec))
    assert after.known.n_factors == 1
    assert after.bound() > sample.bound()


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "directed"])
@pytest.mark.parametrize("likelihood", [GAUSSIAN, LOGIT], ids=["gaussian", "logit"])
def test_the_set_of_a_network_may_have_covariates(likelihood, symmetric):
    data = known_network(likelihood, symmetric=symmetric, n=30)
    spec, problem = build(data, FitOptions(n_factors=4))
    layers = [design.layer for design in spec.designs]
    assert layers == ([None, 0, 2] if symmetric else [None, 0, 1, 2])
    assert [problem.blocks[0][design.block].layer for design in spec.designs[1:]] == layers[1:]
    model = gcmf.GCMF(4, random_state=0, dtype="float64", max_iter=60, tol=1e-3, progress=False).fit(data)
    assert model.status_ not in {Status.ELBO_DECREASED, Status.NONFINITE}
    of = model.coefficients("a")["of"]
    named = ["bias in itself"] if symmetric else ["bias in itself (rows)", "bias in itself (cols)"]
    assert [name for name in dict.fromkeys(of) if "itself" in name] == named
    assert not of.to_frame().assign(feature=model.coefficients("a")["feature"]).duplicated().any()


def test_both_sides_of_a_symmetric_relation_have_the_same_biases_also_without_cells():
    """Three people have cells in the table alone: their links are told by their level there, and by covariates."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=40)
    links = level[:, None] + level + 0.2 * rng.normal(size=(40, 40))
    links[np.tril_indices(40)] = np.nan
    links[:3], links[:, :3] = np.nan, np.nan
    table = 2.0 * level[:, None] + 0.2 * rng.normal(size=(40, 10))
    people = pd.DataFrame({"x": level + 0.5 * rng.normal(size=40)})
    for entities in (None, {"p": people}):
        data = Collection(
            [Relation("links", "p", "p", links, symmetric=True), Relation("table", "p", "q", table)], entities
        )
        model = gcmf.GCMF(4, random_state=0).fit(data)
        rows, cols = (np.asarray(model.biases("links", side)) for side in ("rows", "cols"))
        np.testing.assert_array_equal(rows, cols)
        assert np.abs(rows[:3] - rows[3:].mean() - (level[:3] - level[3:].mean())).max() < 0.3
        fitted = model.fitted_
        np.testing.assert_array_equal(fitted.prior_bias[:, 0], fitted.prior_bias[:, 1])
        np.testing.assert_array_equal(fitted.bias_var[0], fitted.bias_var[1])


# --- weights ------------------------------------------------------------------------------------------------


def test_weights_of_a_symmetric_relation_count_once():
    i, j, x, weight = np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([1.0, 2.0, 4.0]), [1.0, 2.0, 3.0]
    data = Collection([Relation("x", "p", "p", (i, j, x), symmetric=True, weight=weight)])
    spec, _ = build(data, FitOptions(n_factors=1))
    assert data.n_cells == 3
    assert spec.n_cells.tolist() == spec.n_weighed.tolist() == [6.0]
    both = (np.r_[i, j], np.r_[j, i], np.r_[x, x])
    again = Collection([Relation("x", "p", "p", both, symmetric=True, weight=[*weight, *weight])])
    np.testing.assert_array_equal(again.relations["x"].cells.rows.weight, data.relations["x"].cells.rows.weight)
    with pytest.raises(DataError, match=r"has the weight 9\.0 and .* has the weight 1\.0; keep one of the two weights"):
        Collection([Relation("x", "p", "p", both, symmetric=True, weight=[*weight, 9.0, 2.0, 3.0])])


def test_weights_of_a_directed_relation_stay_with_their_cells():
    cells = np.array([1, 0, 2]), np.array([0, 1, 1]), np.array([1.0, 2.0, 4.0])
    data = Collection([Relation("x", "p", "p", cells, symmetric=False, weight=[1.0, 2.0, 3.0])])
    spec, _ = build(data, FitOptions(n_factors=1))
    assert spec.n_cells.tolist() == [6.0]
    side = data.relations["x"].cells.rows
    assert dict(zip(side.value.tolist(), side.weight.tolist(), strict=True)) == {1.0: 1.0, 2.0: 2.0, 4.0: 3.0}


# --- how far partners reach, and how many factors there may be ----------------------------------------------


@pytest.mark.parametrize("scales", [True, False], ids=["scaled", "plain"])
def test_what_partners_reach_is_that_of_scaled_ones(scales):
    sample = toy((LOGIT,) * 3, relation_scales=scales)
    engine = sample.placed(CpuEngine(sample.problem, dtype="float64", n_threads=1))
    for e, blocks in enumerate(sample.problem.blocks):
        work = engine._prepare(e, np.arange(3), sample.given, np.ones(len(blocks), dtype=bool))
        for b, block in enumerate(blocks):
            u, var = sample.state.mean[block.other], sample.state.var[block.other]
            if scales:
                u, var = sample.given.scales.scaled(block.relation, block.side, u, var)
            reach = work.blocks.get("reach", b).reshape(4, work.width)
            np.testing.assert_allclose(reach[0, :3], (u**2).max(axis=0))
            np.testing.assert_allclose(reach[1, :3], (u**2 + var).max(axis=0))
            np.testing.assert_allclose(reach[2, :3], var.max(axis=0))
            assert reach[3, 0] == pytest.approx((u**2).sum(axis=1).max())


@pytest.mark.parametrize(("ends", "rank"), [
    ((), 0), (((0, 1),), 10), (((0, 1), (0, 2)), 10), (((0, 0),), 10), (((0, 0), (0, 1)), 10), (((0, 1), (1, 1)), 20),
    (((0, 1), (0, 1)), 20), (((0, 1), (0, 1), (1, 2)), 40), (((0, 0), (0, 1), (1, 1), (1, 2)), 30),
])  # fmt: skip
def test_the_rank_of_repeated_and_self_relations(ends, rank):
    assert _rank((10.0, 20.0, 30.0), ends) == rank


def test_the_most_factors_of_networks_and_repeated_relations():
    given = {"n_entities": np.array([100.0, 80.0]), "common": False}
    for ends, directed, scaled, most in [
        (((0, 0),), (False,), True, 50), (((0, 0),), (True,), True, 100),
        (((0, 1), (1, 0)), (False, False), True, 80), (((0, 1), (1, 0)), (False, False), False, 40),
    ]:  # fmt: skip
        spec = SimpleNamespace(**{**given, "ends": ends, "directed": np.array(directed), "scaled": scaled})
        assert most_factors(spec) == most
