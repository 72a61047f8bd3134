"""Where predictions have other variances than sweeps had, rows are still updated with those of the sweeps."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

import gcmf


@pytest.fixture(scope="module")
def models():
    """A model, and the same with wide variances for its predictions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)) + 0.4 * rng.normal(size=(30, 20))
    x[rng.random(x.shape) < 0.3] = np.nan
    model = gcmf.GCMF(random_state=0, dtype="float64").fit({("user", "movie", "r"): x})
    f = model.fitted_
    wide = copy.copy(model)
    wide._fitted = replace(
        f, var=tuple(4.0 * v for v in f.terms.var), bias_var=tuple(4.0 * v for v in f.terms.bias_var),
    )  # fmt: skip
    return model, wide, x


def test_rows_are_the_same(models, tmp_path):
    model, wide, x = models
    wide.save(tmp_path / "m.gcmf")
    for other in (wide, gcmf.load(tmp_path / "m.gcmf")):
        ours, theirs = (m.fold_in("user", {"r": x[:4]}).factors() for m in (model, other))
        np.testing.assert_array_equal(ours, theirs)
        data = gcmf.Collection.from_mapping({("user", "movie", "r"): x})
        ours, theirs = (m.explain("r", 1, 2, data=data)["contribution"] for m in (model, other))
        np.testing.assert_array_equal(ours, theirs)
    seen = gcmf.GCMF(random_state=0, dtype="float64").fit({("user", "movie", "r"): x}, start=wide)
    assert seen.elbo_ == gcmf.GCMF(random_state=0, dtype="float64").fit({("user", "movie", "r"): x}, start=model).elbo_


def test_updates_keep_both(models):
    _, wide, _ = models
    later = copy.copy(wide).update({"r": ([99, 99], [0, 1], [1.0, 2.0])})
    f = later.fitted_
    assert len(f.terms.var[0]) == len(f.var[0]) == 31
    assert (f.terms.var[0][30] < f.var[0][30]).all()
    np.testing.assert_array_equal(f.var[0][3], 4.0 * f.terms.var[0][3])
