import numpy as np
import pytest

from reproduction.cycles import draw, held_out, irreducible, n_factors, relabel


@pytest.mark.parametrize(("m", "sets"), [(1, 2), (2, 3), (3, 3), (4, 4)])
def test_each_relation_sees_five_shared_and_two_private_factors(m, sets):
    truth = draw(m, sizes=(10, 12), random_state=0)
    relations = truth.train.schema.relations
    assert (len(relations), len(truth.train.entities)) == (m, sets)
    seen = np.array([np.logical_and(truth.pattern[r.rows], truth.pattern[r.cols]) for r in relations])
    assert (seen.sum(axis=1) == 7).all()
    assert (seen.sum(axis=0) == [m] * 5 + [1] * (2 * m)).all()
    assert truth.test.n_cells / (truth.test.n_cells + truth.train.n_cells) == pytest.approx(0.4, abs=0.01)
    assert n_factors(m) == 10 + 2 * m


def test_strength_scales_theta():
    weak, strong = (draw(1, sizes=(30, 30), strength=s, random_state=0).theta["X1"] for s in (1.0, 2.0))
    assert np.allclose(strong, 4.0 * weak)


def test_relabel_changes_nothing_but_the_kind():
    data = draw(3, likelihood="bernoulli", sizes=(8, 12), random_state=0).train
    other = relabel(data, "gaussian")
    assert {r.likelihood for r in other.schema.relations} == {"gaussian"}
    assert {name: len(one) for name, one in other.entities.items()} == {n: len(one) for n, one in data.entities.items()}
    for name, own in data.relations.items():
        theirs = other.relations[name].cells.triplets()
        for ours, their in zip(own.cells.triplets(), theirs, strict=True):
            assert np.array_equal(ours, their)


class Oracle:
    """Predicts the truth, plus a constant."""

    def __init__(self, truth, shift):
        self.truth, self.shift = truth, shift

    def predict(self, name, i, j):
        return self.truth.means[name][i, j] + self.shift


def test_errors_against_entries_and_against_means():
    truth = draw(2, sizes=(40, 40), noise=0.25, random_state=0)
    assert irreducible(truth) == pytest.approx(0.5, rel=0.05)
    assert held_out(Oracle(truth, 0.0), truth).means == 0.0
    assert held_out(Oracle(truth, 0.0), truth).entries == pytest.approx(irreducible(truth))
    assert held_out(Oracle(truth, 0.3), truth).means == pytest.approx(0.3)
