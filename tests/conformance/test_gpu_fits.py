"""Whole fits with device="gpu": on a GPU, and on an emulated one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpu
from emulated import EmulatedDevice
from gcmf import GCMF, Collection, Relation
from gcmf.engines import select
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.gpu import device as devices
from gcmf.engines.gpu import engine as engines
from gcmf.engines.gpu.engine import GpuEngine
from gcmf.errors import OptionError
from gcmf.fit import fit
from gcmf.likelihoods import Gaussian
from gcmf.options import FitOptions
from gcmf.outcome import Status
from helpers import random_sample
from strategies import LIKELIHOODS, problems

DEVICES = [pytest.param("emulated", marks=gpu.with_compiler), pytest.param("gpu", marks=gpu.on_gpu)]


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """The device that `device="gpu"` finds."""
    if request.param == "emulated":
        monkeypatch.setattr(engines, "require_device", EmulatedDevice)
    return request.param


@settings(max_examples=15, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(drawn=st.data(), seed=st.integers(0, 1000))
def test_sweeps_raise_the_bound(device, drawn, seed):
    size = 6 if device == "emulated" else 12
    likelihoods = [Gaussian("both"), *LIKELIHOODS]
    data, options = drawn.draw(problems(max_size=size, likelihoods=likelihoods, device="gpu", max_iter=15, tol=0.0))
    found = fit(data, options, np.random.default_rng(seed), ())
    trace = np.array(found.trace)
    assert np.isfinite(trace).all()
    assert found.status in (Status.CONVERGED, Status.CAPPED, Status.MAX_ITER, Status.ALL_PRUNED)
    fall = 3e-6 if options.dtype == "float32" else 1e-9
    assert np.all(np.diff(trace) >= -fall * np.maximum(np.abs(trace[:-1]), 1.0))


def toy(n=20, noise="relation"):
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    ratings, liked = u @ v.T + 0.5 * rng.normal(size=(n, n)), (u @ v.T + rng.logistic(size=(n, n)) > 0).astype(float)
    ratings[rng.random((n, n)) < 0.3] = np.nan
    ratings = Relation("ratings", "a", "b", ratings, Gaussian(noise))
    return Collection([ratings, Relation("liked", "a", "c", liked, "bernoulli")])


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")  # five draws are too few to tell
@pytest.mark.parametrize(("inference", "noise"), [("vb", "relation"), ("vb", "both"), ("gibbs", "both")])
def test_a_fit_is_that_of_the_compiled_engine_and_the_same_each_time(device, inference, noise):
    data = toy(noise=noise)
    options = {"max_iter": 200, "random_state": 0, "dtype": "float64", "progress": False, "inference": inference,
               "n_samples": 5, "n_burn": 3, "tol": 1e-3}  # fmt: skip
    first, again, cpu = (GCMF(3, device=name, **options).fit(data) for name in ("gpu", "gpu", "cpu"))
    np.testing.assert_array_equal(first.predict("ratings"), again.predict("ratings"))
    if inference == "vb":
        np.testing.assert_allclose(first.elbo_, cpu.elbo_, rtol=1e-8)
        np.testing.assert_allclose(first.predict("ratings"), cpu.predict("ratings"), atol=1e-5)
        new = {"ratings": (["new"] * 4, [1, 2, 3, 4], [1.0, -1.0, 0.5, 2.0])}
        answers = (model.fold_in("a", new).predict("ratings", return_std=True) for model in (first, cpu))
        np.testing.assert_allclose(*answers, atol=1e-5)
    else:
        assert np.corrcoef(first.predict("ratings").ravel(), cpu.predict("ratings").ravel())[0, 1] > 0.95


def test_without_a_device_the_way_out_is_said(monkeypatch):
    monkeypatch.setattr(devices, "find_device", lambda: None)
    with pytest.raises(OptionError, match=r"gcmf\[gpu\].*device='cpu'"):
        GCMF(2, device="gpu").fit(toy(6))


def test_auto_takes_a_device_where_cells_are_many(monkeypatch):
    sample = random_sample(toy(), FitOptions(n_factors=2), np.random.default_rng(0))
    made = []
    monkeypatch.setattr(select, "find_spec", lambda name: name)
    monkeypatch.setattr(devices, "find_device", EmulatedDevice)
    monkeypatch.setattr(select, "_gpu", lambda problem, **options: made.append(problem))
    engine = select.engine_maker("auto")(sample.problem, dtype="float32", n_threads=1)
    assert isinstance(engine, CpuEngine)
    monkeypatch.setattr(select, "MANY_CELLS", 100)
    select.engine_maker("auto")(sample.problem, dtype="float32", n_threads=1)
    assert made == [sample.problem]
    monkeypatch.setattr(devices, "find_device", lambda: None)
    assert isinstance(select.engine_maker("auto")(sample.problem, dtype="float32", n_threads=1), CpuEngine)


def test_precise_cells_are_left_to_float64(device):
    del device
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30)) + 1e-4 * rng.normal(size=(40, 30))
    model = GCMF(3, device="gpu", max_iter=60, random_state=0, progress=False, tol=1e-5).fit(x_of(x))
    np.testing.assert_allclose(model.predict("x"), x, atol=2e-3)


def x_of(x):
    return Collection([Relation("x", "a", "b", x)])


@gpu.with_compiler
def test_large_systems_leave_fast_memory():
    """More factors than a block of threads has room for."""
    sample = random_sample(toy(12), FitOptions(n_factors=40, dtype="float64"), np.random.default_rng(0))
    small = EmulatedDevice()
    small.shared_bytes = 256
    states = []
    for own in (small, EmulatedDevice()):
        engine = GpuEngine(sample.problem, dtype="float64", device=own)
        engine.place(sample.state.copy())
        engine.sweep(0, sample.given)
        states.append(engine.fetch())
    np.testing.assert_array_equal(states[0].mean[0], states[1].mean[0])


def test_import_of_the_library_does_not_import_cupy():
    code = "import sys, gcmf; gcmf.GCMF(2); sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
