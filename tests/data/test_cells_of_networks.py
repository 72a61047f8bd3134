"""Relations of a set with itself: what they may be given as, and what is refused in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf import Collection, Relation
from gcmf.errors import DataError, ModelWarning

LINKS = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]])


def friends(data, **options):
    return Collection([Relation("x", "p", "p", data, "bernoulli", symmetric=True, **options)])


def test_a_sparse_matrix_holds_a_triangle_or_both():
    for given in (LINKS, np.triu(LINKS), np.tril(LINKS)):
        data = friends(sparse.csr_array(given), blanks="zero")
        assert data.n_cells == 6
        assert sum(part.x.sum() for part in data.relations["x"].chunks(10)) == 3
    one_way = LINKS.copy()
    one_way[2, 0] = 0
    with pytest.raises(DataError, match="row 0, column 2 is listed and row 2, column 0 is blank, a zero; give one tri"):
        friends(sparse.csr_array(one_way), blanks="zero")
    # Where blanks were never observed, nothing is contradicted, and a listing has no triangles.
    friends(sparse.csr_array(one_way), blanks="missing")
    friends(([0, 3, 2], [1, 1, 0], [1, 1, 1]), blanks="zero")


@pytest.mark.parametrize("symmetric", [True, False])
def test_one_entity_has_no_cell(symmetric):
    with pytest.raises(DataError, match="it needs two entities"):
        Collection([Relation("x", "p", "p", sparse.csr_array((1, 1)), blanks="zero", symmetric=symmetric)])
    with pytest.raises(DataError, match="no observed cell beside its diagonal"):
        Collection([Relation("x", "p", "p", np.ones((1, 1)), symmetric=symmetric)])


def test_a_matrix_that_is_not_square_must_name_its_sides():
    x = np.arange(15.0).reshape(3, 5)
    with pytest.raises(DataError, match="'x' joins 'p' with itself, and has 3 rows and 5 columns; a bare array"):
        Collection([Relation("x", "p", "p", x, symmetric=False)])
    named = Relation("x", "p", "p", x, symmetric=False, row_ids=list("abc"), col_ids=list("cdefg"))
    assert Collection([named]).n_cells == 14, "c is on both sides"


def test_numpy_booleans_are_booleans():
    assert Relation("x", "p", "p", LINKS, symmetric=np.True_).symmetric is True
    with pytest.raises(DataError, match="must say which way its cells go, not 1"):
        Relation("x", "p", "p", LINKS, symmetric=1)


def test_cells_are_scored_the_way_they_were_fitted():
    model = gcmf.GCMF(1, random_state=0, progress=False).fit([Relation("x", "p", "p", LINKS, symmetric=False)])
    with pytest.raises(DataError, match="fitted with symmetric=False, and has symmetric=True in the data"):
        model.score([Relation("x", "p", "p", LINKS, symmetric=True)])


def test_every_entity_is_tested_once_by_row():
    x = np.add.outer(np.arange(9.0), np.arange(9.0))
    data = Collection([Relation("x", "p", "p", x, symmetric=True)])
    left = [set(range(9)) - set(np.flatnonzero(train.observed("p"))) for train, _ in data.folds(3, by="row")]
    assert sorted(map(len, left)) == [3, 3, 3]
    assert set.union(*left) == set(range(9))


def test_many_relations_are_not_all_listed():
    relations = [Relation(f"r{k}", "p", "p", LINKS, "bernoulli", symmetric=False) for k in range(30)]
    lines = repr(Collection(relations)).splitlines()
    assert len(lines) == 14
    assert lines[12] == "  and 19 more relations"


def test_a_table_that_knows_nobody_is_warned_of():
    x = Relation("x", "p", "q", pd.DataFrame(np.eye(4), index=list("abcd")))
    with pytest.warns(ModelWarning, match="no relation has a cell of any id in this table, such as 'A'"):
        Collection([x], entities={"p": pd.DataFrame({"age": [1, 2, 3, 4]}, index=list("ABCD"))})
    Collection([x], entities={"p": pd.DataFrame({"age": [1, 2, 3, 4]}, index=list("ABCd"))})
    with pytest.raises(DataError, match=r"the matrix is a ndarray, and must be of scipy\.sparse"):
        Collection([x], entities={"p": (list("abcd"), np.eye(4))})


def test_weights_that_claim_too_much_are_warned_of():
    """Each cell three times, to the last bit: noise is signal then."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((30, 20)) < 0.5)
    x = rng.normal(size=(30, 20))[i, j]
    with pytest.raises(DataError, match=r"\d+ weights in an array of shape"):
        Relation("x", "p", "q", (i, j, x), weight=np.ones((len(i), 1)))
    often, once = (Relation("x", "p", "q", (i, j, x), weight=np.full(len(i), w)) for w in (3.0, 1.0))
    with pytest.warns(ModelWarning, match=r"weigh more than 1 on average: 'x' \(3\)"):
        gcmf.GCMF(random_state=0, progress=False).fit([often])
    assert gcmf.GCMF(random_state=0, progress=False).fit([once]).n_factors_active_ == 0
