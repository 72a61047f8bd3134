"""What a fit will take: bytes that are those of its arrays, and ways to need fewer."""

import numpy as np
import pytest

import gcmf
from gcmf.data.on_disk import read
from gcmf.model.estimate import advice, available_memory, estimate
from gcmf.options import FitOptions


def ratings(n=5000, shape=(400, 300)):
    rng = np.random.default_rng(0)
    i, j = np.divmod(rng.permutation(shape[0] * shape[1])[:n], shape[1])
    return i, j, rng.normal(size=n).astype(np.float32)


@pytest.fixture
def data():
    return gcmf.Collection([gcmf.Relation("r", "user", "movie", ratings())])


def test_listed_cells_take_sixteen_bytes(data):
    found = estimate(data, FitOptions(n_factors=4), n_threads=1)
    ends = 8 * sum(entities.size + 1 for entities in data.entities.values())
    assert found.cells == 16 * data.n_cells + ends
    assert found.on_disk == 0
    assert found.memory == found.cells + found.parameters


def test_a_matrix_is_counted_once_and_once_more_for_the_engine():
    x = np.random.default_rng(0).normal(size=(200, 150))
    found = estimate(gcmf.Collection([gcmf.Relation("x", "row", "col", x)]), FitOptions(n_factors=4), n_threads=1)
    assert 13 * x.size < found.cells < 14 * x.size  # float64, and float32 with a byte that says whether it is there


def test_cells_in_files_take_no_memory(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame(dict(zip(("user", "movie", "x"), ratings(), strict=True))).to_parquet(tmp_path / "r.parquet")
    data = gcmf.Collection.from_parquet({("user", "movie"): tmp_path / "r.parquet"}, folder=tmp_path / "cells")
    found = estimate(data, FitOptions(n_factors=4), n_threads=1)
    assert found.cells == 0
    assert found.on_disk >= 16 * data.n_cells
    assert read(tmp_path / "cells", "something else") is None


def test_it_grows_with_factors_and_precision(data):
    few, many = (estimate(data, FitOptions(n_factors=k), n_threads=1) for k in (8, 64))
    double = estimate(data, FitOptions(n_factors=64, dtype="float64"), n_threads=2)
    assert 6 * few.parameters < many.parameters < 8 * few.parameters
    assert double.parameters > 1.9 * many.parameters
    assert double.sweep == pytest.approx(many.sweep / 2)
    assert many.sweep > few.sweep


def test_what_to_change_when_it_does_not_fit(data):
    options = FitOptions(n_factors=64, dtype="float64")
    needed = estimate(data, options, n_threads=1)
    assert advice(needed, data, options, available=needed.parameters) == []
    said = " ".join(advice(needed, data, options, available=needed.parameters / 2))
    assert "n_factors of at most 32" in said
    assert "float32" in said
    assert "'user' has 400" in said
    assert available_memory() > 0
