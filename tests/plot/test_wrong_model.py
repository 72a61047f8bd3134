"""Pictures, starts and exports are of a GCMF: any other estimator is refused in one sentence that says what to do."""

from __future__ import annotations

import numpy as np
import pytest

import gcmf
from gcmf import plot
from gcmf.errors import GcmfError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
X = np.random.default_rng(0).normal(size=(12, 8))
DATA = {("sample", "feature"): X}
MORE = {
    "loadings": ("F1",), "embedding": ("sample",), "predicted_vs_observed": (DATA,), "calibration": (DATA,),
    "reconstruction": (DATA,), "compare": (DATA,),
}  # fmt: skip
"""What functions take beside a model."""
OF_SEVERAL = ("compare", "stability")


@pytest.fixture(scope="module", params=["PCA", "CCA", "GFA"])
def other(request):
    views = {"PCA": (X,), "CCA": (X, X[:, :3]), "GFA": ([X, X[:, :3]],)}[request.param]
    return getattr(gcmf, request.param)(1, max_iter=3, random_state=0).fit(*views)


FUNCTIONS = [getattr(plot, name) for name in plot.__all__ if name != "tables"]
FUNCTIONS += [getattr(plot.tables, name) for name in plot.tables.__all__]


@pytest.mark.parametrize("draw", FUNCTIONS, ids=lambda draw: f"{draw.__module__}.{draw.__name__}")
def test_every_picture_refuses_other_estimators(draw, other):
    several = [{"first": other, "second": other}] if draw.__name__ in OF_SEVERAL else []
    for model in (other, *several):
        with pytest.raises(GcmfError, match=type(other).__name__):
            draw(model, *MORE.get(draw.__name__, ()))


def test_fits_do_not_start_from_other_estimators(other):
    with pytest.raises(OptionError, match=r"start= takes a fitted gcmf\.GCMF"):
        gcmf.GCMF(1).fit(DATA, start=other)


def test_other_estimators_are_not_exported(other, tmp_path):
    pytest.importorskip("h5py")
    with pytest.raises(OptionError, match=r"export_mofa takes a fitted gcmf\.GCMF"):
        gcmf.omics.export_mofa(other, tmp_path / "model.hdf5")
    assert not list(tmp_path.iterdir())
