"""The compiled scalar twins say what the NumPy likelihoods say, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf.engines import cell_kernels
from gcmf.likelihoods import Bernoulli, Poisson

KINDS = (Bernoulli("tight"), Bernoulli("cell"),
         Poisson("exact"), Poisson("tight"), Poisson("cell"), Poisson("paper"))  # fmt: skip
M = np.array([-1e3, -90.0, -30.1, -29.9, -4.0, -1e-4, 0.0, 1e-5, 0.5, 6.0, 40.0, 1e3])
V = np.array([0.0, 1e-9, 0.2, 7.0])


def cases(likelihood):
    counts = [0.0, 1.0] if likelihood.name == "bernoulli" else [0.0, 1.0, 7.0, 1e5]
    return (a.ravel() for a in np.meshgrid(counts, M, V, indexing="ij"))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 3e-6)])
@pytest.mark.parametrize("likelihood", KINDS, ids=lambda one: f"{one.name}-{one.bound}")
def test_quadratic_form(likelihood, dtype, tolerance):
    weight = dtype(likelihood.weight(1e5))
    x, m, v = (a.astype(dtype) for a in cases(likelihood))
    got = np.array(
        [cell_kernels.quadratic(likelihood.code, *cell, weight, dtype(1)) for cell in zip(x, m, v, strict=True)]
    )
    wide = (a.astype(np.float64) for a in (x, m, v))
    w, wz = likelihood.quadratic(*wide, float(weight))
    # A curvature taken from slopes of size x is as precise as they are, not as it is small itself.
    assert np.all(np.abs(got[:, 0] - w) <= tolerance * np.abs(w) + (likelihood.code == 6) * 1e-11 * (1 + x))
    # wz = w·m − f′: its error is that of the larger term.
    np.testing.assert_allclose(
        got[:, 1] / np.maximum(np.abs(w * m), 1), wz / np.maximum(np.abs(w * m), 1), atol=tolerance
    )


@pytest.mark.parametrize("likelihood", KINDS, ids=lambda one: f"{one.name}-{one.bound}")
def test_lower_bound(likelihood):
    weight = likelihood.weight(1e5)
    x, m, v = cases(likelihood)
    got = [cell_kernels.lower_bound(likelihood.code, *cell, weight) for cell in zip(x, m, v, strict=True)]
    np.testing.assert_allclose(got, likelihood.lower_bound(x, m, v, weight), rtol=1e-12, atol=1e-12)
