"""Cells that count as several: a cell of weight 2 is two cells, in every sum that a fit makes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import gcmf
from gcmf import Collection, Relation
from gcmf.data.cells import Cells, Side
from gcmf.errors import DataError
from gcmf.fit import fit
from gcmf.model.spec import build
from gcmf.options import FitOptions

LIKELIHOODS = ["gaussian", "bernoulli", "poisson", "negative_binomial"]
FIELDS = ("center", "scale", "largest", "n_entities", "n_cells", "n_weighed", "n_bias", "offset", "price")


def listing(likelihood, seed=0):
    """Rows, columns, values and weights of some cells."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 12))
    x = {"gaussian": theta + 0.3 * rng.normal(size=theta.shape),
         "bernoulli": (theta + rng.logistic(size=theta.shape) > 0).astype(float)}.get(likelihood)  # fmt: skip
    x = rng.poisson(np.log1p(np.exp(theta))).astype(float) if x is None else x
    i, j = np.nonzero(rng.random(theta.shape) < 0.7)
    return i, j, x[i, j], rng.integers(1, 4, len(i))


def repeated(data, weight):
    """The same collection with each cell listed as often as its weight says, which no user may do."""
    cells = data.relations["x"].cells
    (i, j, x), times = cells.triplets(), cells.rows.weight.astype(int)
    assert times.sum() == weight.sum()
    i, j, x = (np.repeat(part, times) for part in (i, j, x))
    sides = []
    for own, other, size in ((i, j, cells.shape[0]), (j, i, cells.shape[1])):
        order = np.lexsort((other, own))
        ends = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=size))])
        sides.append(Side(ends, other[order].astype(np.int32), x[order]))
    return data.with_cells({"x": Cells(*sides, n_cells=len(x))})


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_fit_is_that_of_cells_that_come_several_times(likelihood, device):
    i, j, x, weight = listing(likelihood)
    data = Collection([Relation("x", "a", "b", (i, j, x), likelihood, weight=weight)])
    options = FitOptions(n_factors=3, max_iter=8, dtype="float64", device=device, n_threads=1)
    ours, theirs = (build(one, options)[0] for one in (data, repeated(data, weight)))
    for name in FIELDS:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, err_msg=name)
    assert ours.constant == pytest.approx(theirs.constant)
    heavy, often = (fit(one, options, np.random.default_rng(0), ()) for one in (data, repeated(data, weight)))
    np.testing.assert_allclose(heavy.trace, often.trace, rtol=1e-9)
    np.testing.assert_allclose(heavy.state.mean[0], often.state.mean[0], atol=1e-6)
    told, again = (one.summarize(of) for one, of in ((heavy, data), (often, repeated(data, weight))))
    np.testing.assert_allclose(told.explained.total, again.explained.total)
    np.testing.assert_allclose(told.parameters[0], again.parameters[0])


def test_weights_of_one_change_nothing():
    i, j, x, _ = listing("gaussian")
    plain, weighed = (
        gcmf.GCMF(3, random_state=0, progress=False, dtype="float64").fit(Relation("x", "a", "b", (i, j, x), weight=w))
        for w in (None, np.ones(len(x)))
    )
    np.testing.assert_allclose(weighed.elbo_trace_, plain.elbo_trace_, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")  # more factors would meet every cell
def test_heavy_cells_are_followed_more_closely():
    i, j, x, _ = listing("gaussian")
    heavy = np.zeros(len(x), dtype=bool)
    heavy[::10] = True
    x = x + np.where(heavy, 3.0, 0.0)
    errors = []
    times = np.where(heavy, 100.0, 1.0)
    for weight in (None, times / times.mean()):
        model = gcmf.GCMF(2, random_state=0, progress=False).fit(Relation("x", "a", "b", (i, j, x), weight=weight))
        errors.append(np.abs(model.predict("x", i, j) - x)[heavy].mean())
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_weights(make):
    frame = make({"u": ["a", "b", "a"], "m": ["x", "x", "y"], "x": [1.0, 2.0, None], "times": [3, 1, 2]})
    relation = Relation.from_frame("r", frame, rows="u", cols="m", row="u", col="m", value="x", weight="times")
    cells = Collection([relation]).relations["r"].cells
    assert (cells.n_cells, cells.weight) == (2, 4.0)
    np.testing.assert_array_equal(cells.rows.weight, [3.0, 1.0])
    np.testing.assert_array_equal(cells.cols.weight, [3.0, 1.0])


def test_a_split_keeps_weights():
    i, j, x, weight = listing("gaussian")
    data = Collection([Relation("x", "a", "b", (i, j, x), weight=weight)], entities={"a": range(20), "b": range(12)})
    where = dict(zip(zip(i, j, strict=True), weight, strict=True))
    for part in data.split(0.3):
        cells = part.relations["x"].cells
        rows = np.repeat(np.arange(cells.shape[0]), np.diff(cells.rows.indptr))
        assert [where[pair] for pair in zip(rows, cells.rows.partner, strict=True)] == cells.rows.weight.tolist()
        cols = np.repeat(np.arange(cells.shape[1]), np.diff(cells.cols.indptr))
        assert [where[pair] for pair in zip(cells.cols.partner, cols, strict=True)] == cells.cols.weight.tolist()


def fault(*args, **options):
    with pytest.raises(DataError) as error:
        Collection([Relation("r", "u", "m", *args, **options)])
    [said] = error.value.faults
    return said


def test_refusals_say_what_and_where():
    triplets = (["ann", "bob"], ["x", "y"], [1.0, 2.0])
    for bad, shown in ((0.0, "0"), (-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf")):
        said = fault(triplets, weight=[1.0, bad])
        assert said.startswith(
            f"relation 'r': row 'bob', column 'y' has the weight {shown}, but a weight says how many"
        )
    assert fault(triplets, weight=[0.0, 0.0]).startswith(
        "relation 'r': row 'ann', column 'x' has the weight 0 (and 1 more)"
    )
    assert "there are 2 cells and 1 weights" in fault(triplets, weight=[1.0])
    assert "the weights are not numbers but text" in fault(triplets, weight=["a", "b"])
    assert 'cannot be combined with blanks="zero" yet' in fault(triplets, weight=[1.0, 2.0], blanks="zero")
    assert "weight= is for cells that are listed" in fault(np.eye(2), weight=np.eye(2))
    assert "weight= is for cells that are listed" in fault(sparse.eye_array(2), weight=[1, 2], blanks="missing")
    frame = pd.DataFrame({"u": ["a"], "m": ["x"], "x": [1.0], "times": [2]})
    with pytest.raises(DataError, match=r"weight='tmies' is not a column .* Did you mean 'times'\?"):
        Relation.from_frame("r", frame, rows="u", cols="m", row="u", col="m", value="x", weight="tmies")
