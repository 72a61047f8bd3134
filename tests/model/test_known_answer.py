"""A fully observed Gaussian matrix has its answer in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf import Collection, Relation
from gcmf.fit import fit
from gcmf.likelihoods import Gaussian
from gcmf.options import FitOptions
from gcmf.outcome import Status


def closed_form(gamma, tau, shape):
    """γ̂ = γ/2 (t + √(t² − 4LM/(τ²γ⁴))), t = 1 − (L + M)/(τγ²)."""
    L, M = shape
    t = 1 - (L + M) / (tau * gamma**2)
    return gamma / 2 * (t + np.sqrt(t**2 - 4 * L * M / (tau**2 * gamma**4)))


@pytest.mark.parametrize("sharing", ["group", "common"])
@pytest.mark.parametrize("shape", [(40, 25), (30, 60)])
def test_singular_values_of_one_matrix(shape, sharing):
    rng = np.random.default_rng(sum(shape))
    rank = 4
    x = rng.normal(size=(shape[0], rank)) * [3, 2, 1.5, 1] @ rng.normal(size=(rank, shape[1])) + rng.normal(size=shape)
    # The answer is that of vague priors and of factors that pay for themselves: what is weak stays out.
    options = {"bias": False, "sharing": sharing, "dtype": "float64", "tol": 1e-10, "max_iter": 500, "refined": False}
    data = Collection([Relation("x", "a", "b", x, Gaussian("relation"))])
    found = fit(data, FitOptions(**options), np.random.default_rng(0), ())
    assert found.status is Status.CONVERGED
    mean, (tau,) = found.state.mean, found.posterior.parameters
    fitted = np.linalg.svd(mean[0] @ mean[1].T, compute_uv=False)[:rank]
    gamma = np.linalg.svd((x - found.spec.center) / found.spec.scale, compute_uv=False)[:rank]
    assert found.posterior.on.shape[1] == rank
    np.testing.assert_allclose(fitted, closed_form(gamma, tau[0] / tau[1], shape), rtol=1e-6)
