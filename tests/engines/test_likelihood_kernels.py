"""What the engine compiles of a likelihood's functions of a cell says what the functions say, in both precisions."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gcmf import GCMF, Collection, Relation
from gcmf.engines import likelihood_kernels
from gcmf.engines.compiled import kernel
from gcmf.engines.records import CHUNK
from gcmf.engines.simd import call
from gcmf.errors import OptionError
from gcmf.likelihoods import Bernoulli, CellMath, NegativeBinomial, ParameterPrior, Poisson
from laplace import Laplace

KINDS = (Bernoulli("cell"), Bernoulli("cell", zero_weight=7.5), Poisson("exact"), Poisson("tight"), Poisson("cell"),
         Poisson("paper"), Laplace())  # fmt: skip
M = np.array([-1e3, -90.0, -30.1, -29.9, -4.0, -0.2499, -1e-4, 0.0, 1e-5, 0.2501, 0.5, 6.0, 40.0, 1e3])
V = np.array([0.0, 1e-9, 0.2, 7.0])


@kernel
def called(address, numbers):
    return call(address, numbers)


def cases(likelihood):
    counts = [0.0, 1.0] if likelihood.name == "bernoulli" else [0.0, 1.0, 7.0, 1e5]
    return (a.ravel() for a in np.meshgrid(counts, M, V, indexing="ij"))


def compiled(likelihood, dtype, x, m, v, p, wanted=likelihood_kernels.BOTH):
    """w, wz and the value of each cell, every one a chunk of its own."""
    address, rows = likelihood_kernels.weigh_chunk_at(likelihood, dtype), []
    for cell in zip(x, m, v, strict=True):
        chunk = np.zeros((6, CHUNK), dtype)
        chunk[:4, 0] = *cell, 1.0
        at = [row.ctypes.data for row in chunk]
        value = called(address, (1, *at[:4], likelihood.zero_weight, len(p), p.ctypes.data, *at[4:], wanted))
        rows.append((*chunk[4:, 0].astype(float), value))
    return np.array(rows).T


@pytest.mark.parametrize("likelihood", KINDS, ids=repr)
def test_functions_of_a_cell(likelihood):
    x, m, v = cases(likelihood)
    p = likelihood.start(1e5, 3.0, ParameterPrior(1.0, 1.0, point=False))
    got_w, got_wz, got_value = compiled(likelihood, np.float64, x, m, v, p)
    w, wz = likelihood.quadratic(x, m, v, p)
    # A curvature taken from slopes of size x is as precise as they are, not as it is small itself.
    assert np.all(np.abs(got_w - w) <= 1e-12 * np.abs(w) + (likelihood == Poisson("exact")) * 1e-11 * (1 + x))
    # wz = w·m − f′: its error is that of the larger term.
    size = np.maximum(np.abs(w * m), 1)
    np.testing.assert_allclose(got_wz / size, wz / size, atol=1e-12)
    np.testing.assert_allclose(got_value, likelihood.value(x, m, v, p), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Bernoulli(), NegativeBinomial()], ids=repr)
def test_values_or_weights_alone_are_those_of_both(likelihood):
    x, m, v = cases(likelihood)
    p = likelihood.start(1e5, 3.0, ParameterPrior(1.0, 1.0, point=False))
    both = compiled(likelihood, np.float64, x, m, v, p)
    weights = compiled(likelihood, np.float64, x, m, v, p, likelihood_kernels.WEIGHTS)
    values = compiled(likelihood, np.float64, x, m, v, p, likelihood_kernels.VALUES)
    np.testing.assert_allclose(weights[:2], both[:2], rtol=1e-14)
    np.testing.assert_allclose(values[2], both[2], rtol=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 3e-6)])
@pytest.mark.parametrize("zero_weight", [1.0, 7.5])
def test_tight_bernoulli_cells_by_the_chunk(zero_weight, dtype, tolerance):
    likelihood, p = Bernoulli("tight", zero_weight=zero_weight), np.zeros(0)
    x, m, v = (a.astype(dtype) for a in cases(likelihood))
    got_w, got_wz, got_value = compiled(likelihood, dtype, x, m, v, p)
    wide = [a.astype(np.float64) for a in (x, m, v)]
    w, wz = likelihood.quadratic(*wide, p)
    np.testing.assert_allclose(got_w, w, rtol=tolerance)
    np.testing.assert_allclose(got_wz, wz, rtol=tolerance)
    size = np.maximum(1.0, zero_weight * np.abs(wide[1]))
    np.testing.assert_allclose(got_value / size, likelihood.value(*wide, p) / size, atol=tolerance)


def test_functions_that_cannot_be_compiled_are_refused_in_words(monkeypatch):
    def median(x, m, v, p):
        return np.median(m), x

    monkeypatch.setattr(Bernoulli, "cell", CellMath(median, median))
    data = Collection([Relation("x", "a", "b", np.eye(4), "bernoulli")])
    with pytest.raises(OptionError, match=r"cannot compile .* of Bernoulli.*device='reference'"):
        GCMF(1, progress=False).fit(data)


SCRIPT = """
from gcmf.engines import compiled, likelihood_kernels
from toy import TOY

make, made = compiled.cfunc, []
compiled.cfunc = lambda *args, **options: lambda function: made.append(make(*args, **options)(function)) or made[-1]
likelihood_kernels._weigh_chunk_at(TOY, likelihood_kernels.np.dtype("float64"))
print(*(callback.cache_hits for callback in made))
"""


def test_code_is_kept_between_processes_until_a_source_changes(tmp_path):
    """The function itself, or one that it calls in another file."""

    def hits(factor):
        (tmp_path / "helper.py").write_text(f"def twice(t):\n    return {factor} * t\n")
        (tmp_path / "toy.py").write_text(
            "from helper import twice\nfrom gcmf.likelihoods import CellMath\n\n\n"
            "def pair(x, m, v, p):\n    return twice(x), m\n\n\n"
            "def value(x, m, v, p):\n    return twice(m)\n\n\nTOY = CellMath(pair, value)\n"
        )
        variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        run = [sys.executable, "-c", SCRIPT]
        return subprocess.run(run, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True).stdout

    assert hits(2.0) == "0\n"
    assert hits(2.0) == "1\n"
    assert hits(3.0) == "0\n"
