"""The compiled scalar twins say what the NumPy likelihoods say, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf.engines import cell_kernels
from gcmf.engines.chunk_kernels import Rule, new_chunk
from gcmf.engines.layout import _code
from gcmf.engines.row_kernels import jaakkola_pairs
from gcmf.likelihoods import Bernoulli, ParameterPrior, Poisson
from gcmf.likelihoods.base import NO_PARAMETERS

KINDS = (Bernoulli("cell"),
         Poisson("exact"), Poisson("tight"), Poisson("cell"), Poisson("paper"))  # fmt: skip
M = np.array([-1e3, -90.0, -30.1, -29.9, -4.0, -0.2499, -1e-4, 0.0, 1e-5, 0.2501, 0.5, 6.0, 40.0, 1e3])
V = np.array([0.0, 1e-9, 0.2, 7.0])


def cases(likelihood):
    counts = [0.0, 1.0] if likelihood.name == "bernoulli" else [0.0, 1.0, 7.0, 1e5]
    return (a.ravel() for a in np.meshgrid(counts, M, V, indexing="ij"))


def parameters(likelihood):
    """Parameters of a relation of such cells, and the one number that the kernels take of them."""
    p = likelihood.start(1e5, 1.0, ParameterPrior(1.0, 1.0, point=False))
    return p, float(p[0]) if len(p) else 0.25


@pytest.mark.parametrize("likelihood", KINDS, ids=lambda one: f"{one.name}-{one.bound}")
def test_quadratic_form(likelihood):
    (p, weight), tolerance, code = parameters(likelihood), 1e-12, _code(likelihood)
    x, m, v = cases(likelihood)
    got = np.array([cell_kernels.quadratic(code, *cell, weight) for cell in zip(x, m, v, strict=True)])
    w, wz = likelihood.quadratic(x, m, v, p)
    # A curvature taken from slopes of size x is as precise as they are, not as it is small itself.
    assert np.all(np.abs(got[:, 0] - w) <= tolerance * np.abs(w) + (code == 6) * 1e-11 * (1 + x))
    # wz = w·m − f′: its error is that of the larger term.
    np.testing.assert_allclose(
        got[:, 1] / np.maximum(np.abs(w * m), 1), wz / np.maximum(np.abs(w * m), 1), atol=tolerance
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 3e-6)])
@pytest.mark.parametrize("zero_weight", [1.0, 7.5])
def test_tight_bernoulli_cells_by_the_chunk(zero_weight, dtype, tolerance):
    likelihood = Bernoulli("tight", zero_weight=zero_weight)
    cells = [a.astype(dtype) for a in cases(likelihood)]
    for cell in zip(*cells, strict=True):
        chunk = new_chunk(8, np.dtype(dtype))
        chunk.seen[:1] = 1
        for array, value in zip((chunk.x, chunk.m, chunk.v), cell, strict=True):
            array[0] = value
        bound = jaakkola_pairs(Rule(2, 1.0, zero_weight, 0.0, 1.0, 0.0), 1, chunk)
        wide = [np.array([value], dtype=np.float64) for value in cell]
        (w,), (wz,) = likelihood.quadratic(*wide, NO_PARAMETERS)
        assert chunk.weight[0] == pytest.approx(w, rel=tolerance)
        assert chunk.target[0] == pytest.approx(wz, rel=tolerance)
        size = max(1.0, zero_weight * abs(float(cell[1])))
        assert bound == pytest.approx(likelihood.value(*wide, NO_PARAMETERS)[0], abs=tolerance * size)


@pytest.mark.parametrize("likelihood", KINDS, ids=lambda one: f"{one.name}-{one.bound}")
def test_lower_bound(likelihood):
    p, weight = parameters(likelihood)
    x, m, v = cases(likelihood)
    got = [cell_kernels.lower_bound(_code(likelihood), *cell, weight) for cell in zip(x, m, v, strict=True)]
    np.testing.assert_allclose(got, likelihood.value(x, m, v, p), rtol=1e-12, atol=1e-12)


def test_no_branch_takes_a_code_that_it_does_not_know():
    for code in (-1, 7, 100):
        assert np.isnan(cell_kernels.quadratic(code, 1.0, 0.3, 0.1, 1.0)).any()
        assert np.isnan(cell_kernels.lower_bound(code, 1.0, 0.3, 0.1, 1.0))
