"""Relations of a set with itself, from data to answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf import Collection, Relation


def communities(seed, n=80, likelihood="gaussian"):
    """Who is like whom in one respect is linked, who is like whom in the other is not; 30% missing, and the truth."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 2))
    theta = (u * [1.0, -1.0]) @ u.T
    if likelihood == "gaussian":
        x, truth = theta + 0.5 * rng.normal(size=(n, n)), theta
    else:
        truth = 1.0 / (1.0 + np.exp(-2.0 * theta))
        x = (rng.random((n, n)) < truth).astype(float)
    gone = rng.random((n, n)) < 0.3
    return x, gone, truth


def upper(x, gone):
    """One triangle of a symmetric matrix, NaN elsewhere."""
    there = np.triu(np.ones(x.shape, dtype=bool), 1) & ~gone
    return np.where(there, x, np.nan)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("seed", range(2))
def test_two_communities_of_which_one_repels(seed, likelihood):
    x, gone, truth = communities(seed, likelihood=likelihood)
    model = gcmf.GCMF(6, random_state=seed).fit(Relation("likes", "p", "p", upper(x, gone), likelihood, symmetric=True))
    assert sorted(np.sign(model.strengths().loc["likes"])) == [-1.0, 1.0]
    predicted = model.predict("likes")
    np.testing.assert_allclose(predicted, predicted.T, rtol=1e-6)
    apart = ~np.eye(len(x), dtype=bool)
    error = np.sqrt(np.mean((predicted - truth)[apart] ** 2))
    assert error < (0.2 if likelihood == "gaussian" else 0.15)


def test_either_triangle_or_both_is_the_same_relation():
    x, gone, _ = communities(0, n=12)
    one = upper(x, gone)
    both = np.where(np.isnan(one), one.T, one)
    fits = []
    for given in (one, one.T, both, np.where(np.eye(12, dtype=bool), 7.0, both)):
        data = Collection([Relation("x", "p", "p", given, symmetric=True)])
        assert data.n_cells == np.count_nonzero(~np.isnan(one))
        fits.append(gcmf.GCMF(2, random_state=0, max_iter=40, tol=0.1).fit(data).elbo_)
    assert len(set(fits)) == 1


def test_blanks_of_a_network_are_zeros_but_for_the_diagonal():
    links = pd.DataFrame({"a": ["ann", "bob"], "b": ["bob", "cat"]})
    friends = Relation.from_frame(
        "friends", links, rows="p", cols="p", row="a", col="b", value=None, likelihood="bernoulli", blanks="zero",
        symmetric=True,
    )  # fmt: skip
    data = Collection([friends], entities={"p": ["ann", "bob", "cat", "dan"]})
    assert data.n_cells == 6
    assert "friends: p × p (bernoulli, symmetric), 4 × 4, 6 cells (100% observed, blanks are zeros)" in repr(data)
    cells = [
        (int(i), int(j), float(x))
        for part in data.relations["friends"].chunks(10)
        for i, j, x in zip(*part, strict=True)
    ]
    assert sorted(cells) == [(0, 1, 1.0), (0, 2, 0.0), (0, 3, 0.0), (1, 2, 1.0), (1, 3, 0.0), (2, 3, 0.0)]
    follows = Relation(
        "follows", "p", "p", sparse.csr_array(np.eye(4, k=1)), "bernoulli", blanks="zero", symmetric=False
    )
    assert Collection([follows]).n_cells == 12


@pytest.mark.parametrize("layout", ["listed", "filled", "dense"])
@pytest.mark.parametrize("by", ["cell", "row"])
def test_both_directions_of_a_pair_go_into_the_same_part(layout, by):
    x, gone, _ = communities(1, n=90 if layout == "dense" else 20)
    given = upper(x, gone if layout == "listed" else np.zeros_like(gone))
    blanks = None
    if layout == "filled":
        given, blanks = sparse.csr_array(np.where(gone, 0.0, np.nan_to_num(given))), "zero"
    data = Collection([Relation("x", "p", "p", given, blanks=blanks, symmetric=True)])
    cells = data.relations["x"].cells
    assert (cells.dense, cells.filled) == (layout == "dense", layout == "filled")
    train, test = data.split(0.25, by=by, random_state=0)
    assert train.n_cells + test.n_cells == data.n_cells
    if by == "cell":
        assert test.n_cells == round(0.25 * data.n_cells)
    for part in (train, test):
        triplets = part.relations["x"].cells.triplets()
        pairs = set(zip(triplets.i.tolist(), triplets.j.tolist(), strict=True))
        assert pairs == {(j, i) for i, j in pairs}


def test_a_model_of_networks_is_saved_scored_and_shown(tmp_path):
    x, gone, _ = communities(0, n=30)
    data = Collection([
        Relation("friends", "p", "p", upper(x, gone), symmetric=True),
        Relation("follows", "p", "p", np.where(gone, np.nan, x), symmetric=False),
    ])  # fmt: skip
    train, test = data.split(0.2, random_state=0)
    model = gcmf.GCMF(4, random_state=0, max_iter=50, tol=1e-4).fit(train)
    assert "friends: p × p (gaussian, symmetric)" in repr(model)
    assert "follows: p × p (gaussian, directed)" in repr(model)
    np.testing.assert_array_equal(model.biases("friends", "rows"), model.biases("friends", "cols"))
    assert not np.allclose(model.biases("follows", "rows"), model.biases("follows", "cols"))
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    assert again.schema_ == model.schema_
    np.testing.assert_array_equal(again.predict("follows"), model.predict("follows"))
    assert again.score(test).equals(model.score(test))
    assert model.score(test)["n"].tolist() == [relation.n_cells for relation in test.relations.values()]


def arcs(seed, n=80):
    """One factor sends and another receives, a third does both; 30% missing."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 3))
    theta = np.outer(u[:, 0], u[:, 1]) + np.outer(u[:, 2], u[:, 2])
    return np.where(rng.random((n, n)) < 0.3, np.nan, theta + 0.5 * rng.normal(size=(n, n))), theta


@pytest.mark.parametrize("seed", range(3))
def test_who_sends_and_who_receives_is_found(seed):
    """And predicted better than by two roles that know nothing of each other."""
    x, truth = arcs(seed)
    model = gcmf.GCMF(8, random_state=seed).fit(Relation("follows", "p", "p", x, symmetric=False))
    mate, strength = model.mates()["mate"], model.strengths().loc["follows"]
    assert len(mate) == 3
    assert set(model.structure()["role"]) == {"shared"}
    (alone,) = mate.index[mate == mate.index]
    sender, receiver = (name for name in mate.index if name != alone)
    assert mate[sender] == receiver
    assert sorted(strength[[sender, receiver]].abs() > 0) == [False, True]
    assert (strength != 0).sum() == 2
    apart = ~np.eye(len(x), dtype=bool)
    roles = gcmf.GCMF(8, random_state=seed).fit(Relation("follows", "s", "r", np.where(apart, x, np.nan)))
    own, other = (np.sqrt(np.mean((m.predict("follows") - truth)[apart] ** 2)) for m in (model, roles))
    assert own < 0.95 * other


def test_what_a_person_sends_with_is_what_it_is_elsewhere():
    """A table of the senders' factor helps to predict a network with few cells."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(60, 2))
    theta = 1.5 * np.outer(u[:, 0], u[:, 1])
    follows = np.where(rng.random(theta.shape) < 0.85, np.nan, theta + 0.5 * rng.normal(size=theta.shape))
    traits = u @ rng.normal(size=(2, 20)) + 0.5 * rng.normal(size=(60, 20))
    network, table = Relation("follows", "p", "p", follows, symmetric=False), Relation("traits", "p", "trait", traits)
    apart = ~np.eye(60, dtype=bool)
    errors = [np.sqrt(np.mean((gcmf.GCMF(6, random_state=0).fit(data).predict("follows") - theta)[apart] ** 2))
              for data in ([network], [network, table])]  # fmt: skip
    assert errors[1] < 0.7 * errors[0]


def test_a_knowledge_graph_of_many_relations():
    """Two factors that are mates and one that is its own, each in some of 12 relations: benchmarks, but small."""
    rng = np.random.default_rng(0)
    n, mate = 40, np.array([1, 0, 2])
    u = rng.normal(size=(n, 3))
    strength = 1.8 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, -1], [0, -1, 1], [-1, 0, 0]] * 2)
    theta = -1.0 + np.einsum("mk,ik,jk->mij", strength, u, u[:, mate])
    links = (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
    graph = Collection([Relation(f"r{m}", "p", "p", x, "bernoulli", symmetric=False) for m, x in enumerate(links)])
    train, test = graph.split(0.2, random_state=0)
    model = gcmf.GCMF(5, random_state=0, progress=False, tol=1e-4).fit(train)
    true = np.mean([average_precision(*relation.cells.triplets(), theta[m])
                    for m, relation in enumerate(test.relations.values())])  # fmt: skip
    assert model.score(test)["average_precision"].mean() > 0.95 * true
    found = {tuple(column) for column in (model.strengths() != 0).to_numpy().T}
    assert found == {tuple(column) for column in (strength != 0).T}
    shown = str(model.structure()).splitlines()
    assert len(shown) == 1 + model.n_factors_active_
    assert max(map(len, shown)) <= 100
    assert len(repr(model).splitlines()) <= 16


def average_precision(i, j, x, theta):
    """The mean, over links, of the share of links among the pairs that are ranked as high."""
    links = x[np.argsort(-theta[i, j], kind="stable")]
    return float((np.cumsum(links) / np.arange(1, len(links) + 1))[links > 0].mean())


def several_networks():
    """By name: networks of one set beside each other, beside directed ones, and beside relations of other sets."""
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(n, 2)) for n in (24, 15, 12))

    def symmetric(name, ends, u, signs=(1.0, 1.0), likelihood="gaussian"):
        x = np.triu((u * signs) @ u.T + 0.3 * rng.normal(size=(len(u), len(u))), 1)
        x += x.T
        return Relation(name, ends, ends, x if likelihood == "gaussian" else 1.0 * (x > 0), likelihood, symmetric=True)

    def table(name, ends, u, v):
        return Relation(name, *ends, u @ v.T + 0.3 * rng.normal(size=(len(u), len(v))))

    arcs = u @ np.array([[0.0, 1.5], [-1.5, 0.0]]) @ u.T + 0.3 * rng.normal(size=(24, 24))
    one, other = symmetric("likes", "p", u), symmetric("works", "p", u, (1.0, -1.0))
    links, away = symmetric("knows", "p", u, (1.0, -1.0), "bernoulli"), symmetric("near", "r", w)
    sends = Relation("sends", "p", "p", arcs, symmetric=False)
    near, far = table("traits", ("p", "q"), u, v), table("places", ("q", "r"), v, w)
    again = table("traits later", ("p", "q"), u, v)
    return {
        "two": [one, other], "numbers and links": [one, links], "three": [one, other, links], "other sets": [one, far],
        "directed": [one, sends], "directed and a table": [one, sends, near], "a table": [one, links, near],
        "a table twice": [one, near, again], "a chain with two ends": [one, near, far, away], "apart": [one, away],
        "directed and other sets": [sends, far],
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")  # few sweeps, and fewer draws
@pytest.mark.parametrize("inference", ["vb", "map", "gibbs"])
@pytest.mark.parametrize("case", several_networks())
def test_networks_beside_each_other_and_beside_other_relations(case, inference):
    relations, options = several_networks()[case], {"inference": inference}
    if inference == "map":
        priors = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
        options |= {"priors": priors, "n_factors": 3, "max_iter": 20}
    if inference == "gibbs":
        options |= {"n_samples": 8, "n_burn": 4}
    model = gcmf.GCMF(random_state=0, **options).fit(relations)
    assert model.n_factors_active_ >= 2
    for relation in relations:
        predicted = model.predict(relation.name)
        assert np.isfinite(predicted).all()
        if relation.symmetric:
            np.testing.assert_allclose(predicted, predicted.T, rtol=1e-5, atol=1e-6)
