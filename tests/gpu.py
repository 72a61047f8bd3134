"""The GPU engine in tests: on a GPU where there is one, and cut into small pieces on an emulated one."""

from __future__ import annotations

import platform
from unittest import mock

import pytest

from emulated import COMPILER, EmulatedDevice
from gcmf.engines.gpu import layout
from gcmf.engines.gpu.device import find_device
from gcmf.engines.gpu.engine import GpuEngine

on_gpu = pytest.mark.skipif(find_device() is None, reason="no GPU or no CuPy here: `make test-gpu` where both are")
with_compiler = pytest.mark.skipif(
    COMPILER is None or platform.machine() != "x86_64", reason="kernels are emulated by g++ on x86-64"
)


def on_device(problem, dtype):
    """The GPU engine as it is."""
    return GpuEngine(problem, dtype=dtype)


def in_pieces(problem, dtype, device=None, budget=None):
    """The GPU engine with long rows in pieces, and few rows in a batch."""
    engine = GpuEngine(problem, dtype=dtype, device=device, budget=budget)
    plan = engine._pass_of

    def small(e, width):
        with mock.patch.multiple(layout, SHORTEST=32, LONGEST=64, BATCH=100_000):
            return plan(e, width)

    engine._pass_of = small
    return engine


def streamed(problem, dtype):
    """Without a GPU, and with all cells passing through what there is in its place."""
    return emulated(problem, dtype, budget=0)


def emulated(problem, dtype, budget=None):
    """The same without a GPU."""
    return in_pieces(problem, dtype, EmulatedDevice(), budget)
