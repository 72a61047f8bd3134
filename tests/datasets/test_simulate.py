import numpy as np
import pytest

from gcmf.data.schema import RelationSchema, Schema
from gcmf.datasets import simulate, simulate_cycle
from gcmf.errors import OptionError

PAIR = Schema(("a", "b"), (RelationSchema("ab", "a", "b", "gaussian"),))


def cells(collection, name):
    i, j, x = collection.relations[name].cells.triplets()
    return i, j, x.astype(float)


def test_a_cycle_is_what_the_paper_describes():
    truth = simulate_cycle(5, random_state=3)
    schema = truth.train.schema
    joined = [(r.rows, r.cols) for r in schema.relations]
    assert joined == [("A1", "A2"), ("A2", "A3"), ("A3", "A4"), ("A4", "A5"), ("A5", "A1")]
    assert all(100 <= entity.size <= 150 for entity in truth.train.entities.values())
    on = np.array([truth.pattern[name] for name in schema.entities])
    assert on.shape == (5, 5 + 5 * 2)
    reach = np.array([on[schema.entity_index(r)] & on[schema.entity_index(c)] for r, c in joined])
    assert (reach.sum(axis=0) == [5] * 5 + [1] * 10).all()
    assert np.array_equal(reach[:, 5:], np.repeat(np.eye(5, dtype=bool), 2, axis=1))


def test_sizes_reach_both_ends():
    drawn = {simulate_cycle(3, sizes=(2, 4), random_state=seed).train.entities["A1"].size for seed in range(30)}
    assert drawn == {2, 3, 4}


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
def test_train_and_test_are_the_whole(likelihood):
    truth = simulate_cycle(3, likelihood=likelihood, random_state=0)
    for name in ("X1", "X2", "X3"):
        count = np.zeros(truth.theta[name].shape)
        for part in (truth.train, truth.test):
            i, j, _ = cells(part, name)
            count[i, j] += 1
        assert (count == 1).all()
        n = truth.train.relations[name].n_cells
        assert n == count.size - round(0.4 * count.size)
    assert {r.likelihood for r in truth.train.schema.relations} == {likelihood}


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
def test_cells_are_drawn_around_theta(likelihood):
    truth = simulate_cycle(3, likelihood=likelihood, noise=0.25, random_state=0)
    for name, mean in truth.means.items():
        i, j, x = cells(truth.train, name)
        p = mean[i, j]
        variance = {"gaussian": np.full_like(p, 0.25), "bernoulli": p * (1 - p), "poisson": p}[likelihood]
        scaled = (x - p) / np.sqrt(np.maximum(variance, 1e-9))
        # 100 × 100 cells or more: the mean of the scaled residuals has a deviation of about 1/77.
        assert abs(scaled.mean()) < 0.06
        assert abs((scaled**2).mean() - 1) < (0.06 if likelihood == "gaussian" else 0.3)


def test_theta_is_the_product_of_the_factors():
    truth = simulate_cycle(3, random_state=1)
    u = truth.factors
    np.testing.assert_allclose(truth.theta["X3"], np.einsum("ik,jk->ij", u["A3"], u["A1"]), rtol=0, atol=1e-12)
    for name, on in truth.pattern.items():
        assert np.array_equal((u[name] != 0).all(axis=0), on)
        assert abs(u[name][:, np.array(on)].std() - 1) < 0.1


def test_the_seed_decides():
    one, same, other = (simulate_cycle(3, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.theta["X1"], same.theta["X1"])
    assert np.array_equal(cells(one.train, "X1"), cells(same.train, "X1"))
    assert one.theta["X1"].shape != other.theta["X1"].shape or (one.theta["X1"] != other.theta["X1"]).any()


def test_nothing_missing():
    truth = simulate(PAIR, {"a": 5, "b": 4}, pattern={"a": [True], "b": [True]}, missing=0)
    assert truth.test is None
    assert truth.train.n_cells == 20


def test_noise_is_a_variance():
    on = {"a": [True], "b": [True]}
    exact = simulate(PAIR, {"a": 5, "b": 4}, pattern=on, noise=0, missing=0)
    i, j, x = cells(exact.train, "ab")
    assert np.allclose(x, exact.theta["ab"][i, j])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": {"a": 3}}, r"sizes= names \['a'\], but the entity sets are \['a', 'b'\]"),
        ({"pattern": {"a": [True], "c": [True]}}, r"pattern= names \['a', 'c'\]"),
        ({"pattern": {"a": [True], "b": [True, False]}}, r"its lengths are \{'a': 1, 'b': 2\}"),
        ({"missing": 1.0}, r"missing=1\.0 must be a share"),
    ],
)
def test_refusals(change, message):
    options = {"sizes": {"a": 3, "b": 3}, "pattern": {"a": [True], "b": [True]}} | change
    with pytest.raises(OptionError, match=message):
        simulate(PAIR, options.pop("sizes"), **options)


def test_a_cycle_needs_three():
    with pytest.raises(OptionError, match="at least 3 relations"):
        simulate_cycle(2)
    with pytest.raises(OptionError, match="unknown likelihood 'normal'"):
        simulate_cycle(3, likelihood="normal")
