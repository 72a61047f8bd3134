"""Building a collection takes the memory of what it holds, and little more, however the cells are given."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gcmf.data import Collection, Relation

pytestmark = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="the bytes below are those of NumPy 2; earlier ones take more"
)

N, SHAPE = 300_000, (3000, 1000)
CELL = np.random.default_rng(0).permutation(SHAPE[0] * SHAPE[1])[:N]
ROW, COL = (index.astype(np.int32) for index in np.divmod(CELL, SHAPE[1]))
NORMAL = np.random.default_rng(1).normal(size=N)
VALUES = {
    "uint8": (NORMAL > 0).astype(np.uint8),
    "bool": NORMAL > 0,
    "float32": NORMAL.astype(np.float32),
    "float64": NORMAL,
}
#: What a collection holds per cell: twice the partner and the value.
HELD = {"uint8": 10, "bool": 10, "float32": 16, "float64": 24}
#: What it holds per cell of a dense relation: the value, once.
DENSE = {"uint8": 1, "bool": 1, "float32": 4, "float64": 8}
#: For tables of ids and for what is passed through part by part.
SLACK = 1.5


def peak(data, kind, **options):
    """The highest number of bytes per cell on the way from data to a collection."""
    likelihood = "bernoulli" if kind in ("uint8", "bool") else "gaussian"
    tracemalloc.start()
    try:
        made = Collection([Relation("r", "u", "v", data, likelihood, **options)])
        return tracemalloc.get_traced_memory()[1] / made.n_cells
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True, scope="module")
def loaded():
    """What is imported on first use must not be counted."""
    Collection([Relation("r", "u", "v", (["a"], ["b"], [1.0]))])


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("ids", [np.int32, np.int64])
def test_integer_ids(kind, ids):
    assert peak((ROW.astype(ids), COL.astype(ids), VALUES[kind]), kind) < HELD[kind] + SLACK


@pytest.mark.parametrize("kind", VALUES)
def test_sparse_matrix(kind):
    matrix = sparse.coo_array((VALUES[kind], (ROW, COL)), shape=SHAPE)
    for given in (matrix, matrix.tocsr(), matrix.tocsc()):
        assert peak(given, kind, blanks="missing") < HELD[kind] + SLACK


@pytest.mark.parametrize("kind", VALUES)
def test_whole_array(kind):
    assert peak(VALUES[kind].reshape(300, 1000), kind) < DENSE[kind] + SLACK


@pytest.mark.parametrize("kind", VALUES)
def test_dense_listings(kind):
    row, col = np.divmod(np.random.default_rng(2).permutation(N), 1000)
    assert peak((row, col, VALUES[kind]), kind) < DENSE[kind] + SLACK
    stored = sparse.csr_array(np.ones((300, 1000)))
    stored.data = VALUES[kind]
    assert peak(stored, kind, blanks="missing") < DENSE[kind] + SLACK


def test_array_with_holes():
    x = np.where(np.arange(N) % 10 == 0, np.nan, NORMAL).reshape(300, 1000)
    # Reading it copies the values that are there, and lists their columns; a tenth of the matrix are holes.
    assert peak(x, "float64") < DENSE["float64"] / 0.9 + 8 + 4 + SLACK


def test_parts_of_a_dense_relation():
    data = Collection([Relation("r", "u", "v", NORMAL.reshape(300, 1000))])
    tracemalloc.start()
    train, test = data.split(0.1)
    held = tracemalloc.get_traced_memory()[0] / N
    tracemalloc.stop()
    assert train.relations["r"].cells.dense
    assert not test.relations["r"].cells.dense
    assert held < DENSE["float64"] + 0.1 * HELD["float64"] + 0.5


@pytest.mark.parametrize("kind", VALUES)
def test_strings(kind):
    names = np.array([f"id {k}" for k in range(SHAPE[0])], dtype=object)
    # 2 bytes per side say which of a few thousand ids it is.
    assert peak((names[ROW], names[COL], VALUES[kind]), kind) < HELD[kind] + 4 + 2.5


def test_values_that_fit_into_float32():
    assert peak((ROW, COL, np.round(NORMAL)), "float32") < HELD["float32"] + SLACK


def test_categories():
    row, col = (pd.Categorical.from_codes(codes, categories=range(SHAPE[0])) for codes in (ROW, COL))
    # The categories themselves, as Python objects, are 2 to 3 bytes per cell here.
    assert peak((row, col, VALUES["uint8"]), "uint8") < HELD["uint8"] + 4


def test_a_relation_refers_to_the_arrays_of_its_user():
    tracemalloc.start()
    relation = Relation("r", "u", "v", (ROW, COL, VALUES["bool"]), "bernoulli")
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert relation.n_cells == N
    assert held < N
