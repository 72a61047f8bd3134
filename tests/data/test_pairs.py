"""Observed pairs in about a byte each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcmf import Collection, Relation
from gcmf.data.pairs import Pairs


@given(st.integers(1, 40), st.integers(1, 3000), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_what_was_put_in_comes_out(rows, cols, share, seed):
    rng = np.random.default_rng(seed)
    places = np.flatnonzero(rng.random(rows * cols) < share**3)
    pairs = Pairs.at(rng.permutation(np.repeat(places, 2)), (rows, cols))
    np.testing.assert_array_equal(pairs.places, places)
    assert pairs.faults() is None
    # A gap takes a byte for every seven of its bits.
    assert len(pairs.code) <= 3 * min(len(places), rows * cols - len(places))
    turned = pairs.transposed()
    np.testing.assert_array_equal(np.sort(places % cols * rows + places // cols), turned.places)
    ends, items = pairs.by_row
    for row in range(rows):
        np.testing.assert_array_equal(items[ends[row] : ends[row + 1]], places[places // cols == row] % cols)


def test_gaps_of_any_size():
    places = np.array([0, 1, 127, 128, 129, 16_511, 2_113_791, 2**40, 2**50])
    pairs = Pairs.at(places, (2**26, 2**26))
    np.testing.assert_array_equal(pairs.places, places)


@pytest.mark.parametrize("kind", ["missing", "zero", "dense"])
def test_pairs_of_every_layout(kind):
    rng = np.random.default_rng(0)
    seen = rng.random((80, 70)) < (0.9 if kind == "dense" else 0.1)
    i, j = np.nonzero(seen)
    if kind == "dense":
        relation = Relation("r", "a", "b", np.where(seen, 1.5, np.nan))
    else:
        x = np.ones(len(i))
        relation = Relation("r", "a", "b", (i, j, x), blanks=kind)
    data = Collection([relation], entities=None if kind == "dense" else {"a": range(80), "b": range(70)})
    cells = data.relations["r"].cells
    assert (cells.dense, cells.filled) == (kind == "dense", kind == "zero")
    pairs = Pairs.of(cells)
    np.testing.assert_array_equal(pairs.places, i * 70 + j)
    assert pairs.inverted == (kind == "dense")


@pytest.mark.parametrize(
    ("code", "said"),
    [([200], "ends within"), ([255] * 9 + [1], "more than 8 bytes"), ([3, 0], "twice"), ([3, 90], "outside")],
)
def test_codes_that_are_none_are_told(code, said):
    assert said in Pairs(np.array(code, np.uint8), (8, 8)).faults()
