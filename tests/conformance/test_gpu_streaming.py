"""Cells that exceed the memory of a GPU pass through it: the same bits as if all were there."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import wait
from types import SimpleNamespace

import numpy as np
import pytest
import test_engines_agree as agree

import gpu
from emulated import EmulatedDevice
from gcmf import Collection, Relation
from gcmf.engines.gpu.streaming import Courier
from gcmf.likelihoods import Bernoulli, Gaussian, Poisson
from gcmf.options import FitOptions
from strategies import network

DEVICES = [
    pytest.param(gpu.emulated, id="emulated", marks=gpu.with_compiler),
    pytest.param(gpu.in_pieces, id="gpu", marks=gpu.on_gpu),
]


def collection():
    """Three relations in three layouts, and one of a set with itself, whose cells are always on the device."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((90, 70)) < 0.3)
    x = agree.values(Gaussian(), (90, 70), rng)[i, j]
    counts = agree.values(Poisson(), (90, 40), rng) * (rng.random((90, 40)) < 0.2)
    k, m = np.nonzero(counts)
    return Collection([
        Relation("x", "a", "b", (i, j, x), Gaussian("both")),
        Relation("counts", "a", "c", (k, m, counts[k, m]), "poisson", blanks="zero"),
        Relation("liked", "b", "c", agree.values(Bernoulli(), (70, 40), rng), "bernoulli"),
        network("d", 14, rng, symmetric=True, likelihood=Gaussian(), layout="listed", missing=0.3),
        Relation("joined", "d", "b", agree.values(Gaussian(), (14, 70), rng), Gaussian("cols")),
    ])  # fmt: skip


def answers(engine, sample, key):
    """All that an engine says, and the state it leaves, after two sweeps over every set."""
    given = sample.given._replace(key=key)
    engine.place(sample.state.copy())
    found = []
    for _ in range(2):
        for e in range(len(sample.problem.sizes)):
            found += [part for part in engine.sweep(e, given) if part is not None]
    found += [engine.measure(sample.given), *engine.weigh(sample.given), engine.lean(0, 0, sample.given)]
    return [*found, *(array for group in engine.fetch().groups() for array in group)]


@pytest.mark.parametrize("make", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("key", [None, 7])
def test_the_same_bits_whatever_fits(make, dtype, key):
    sample = agree.make_sample(collection(), FitOptions(n_factors=4, dtype=dtype), 1)
    engines = [make(sample.problem, dtype, budget=budget) for budget in (None, 0, 40_000)]
    streamed = [[bool(cells.streamed) for held in engine._held for cells in held] for engine in engines]
    assert not any(streamed[0])
    assert sum(streamed[0]) < sum(streamed[2]) < sum(streamed[1])
    batches = [len(engines[1]._pass_of(e, 32).plan.batches) for e in range(3)]
    assert max(batches) > 3  # so that rooms are filled again while others are worked on
    expected, *others = (answers(engine, sample, key) for engine in engines)
    for found in others:
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two)


class SlowDevice(EmulatedDevice):
    """Kernels of this device take until they are released."""

    def __init__(self):
        self.done = threading.Event()

    def mark(self):
        return self.done.wait

    def bring(self, data, array):
        time.sleep(0.001)
        self.send(data, array)


def plan_of(n_batches):
    """Batches of one row with ten cells each, which are all on the host."""
    values, partners = np.arange(10.0 * n_batches), np.arange(10 * n_batches, dtype=np.int32)
    held = SimpleNamespace(
        streamed={"value": values, "partner": partners},
        span=lambda rows: slice(10 * int(rows[0]), 10 * int(rows[-1]) + 10),
    )
    batches = [SimpleNamespace(number=number, at=number, n=1) for number in range(n_batches)]
    return SimpleNamespace(held=[held], on_host=np.arange(n_batches), batches=batches)


def assert_there(starts, plan, batch):
    """The cells of a batch are where they would be if all were there."""
    for name, array in plan.held[0].streamed.items():
        size, expected = array.itemsize, array[10 * batch.at :][:10]
        room = (ctypes.c_byte * (10 * size)).from_address(starts[name, 0] + 10 * batch.at * size)
        np.testing.assert_array_equal(np.frombuffer(room, array.dtype), expected)


@pytest.mark.parametrize("n_batches", [1, 2, 3, 5])
def test_rooms_hold_what_is_asked_for(n_batches):
    device = SlowDevice()
    device.done.set()
    courier, one, other = Courier(device), plan_of(n_batches), plan_of(3)
    for plan in (one, one, other, one):
        for batch in plan.batches:
            starts = courier.bring(plan, batch)
            assert_there(starts, plan, batch)
            time.sleep(0.005)
            assert_there(starts, plan, batch)  # though the next has come meanwhile


def test_a_room_is_not_filled_while_kernels_may_be_in_it():
    device = SlowDevice()
    courier, plan = Courier(device), plan_of(3)
    device.done.set()
    before = courier.bring(plan, plan.batches[0])
    courier.bring(plan, plan.batches[0])
    wait(courier._next.coming)
    device.done.clear()
    here = courier.bring(plan, plan.batches[1])  # and the cells of the last batch are to go where the first one's are
    time.sleep(0.05)
    assert_there(before, plan, plan.batches[0])
    assert_there(here, plan, plan.batches[1])
    device.done.set()
    assert_there(courier.bring(plan, plan.batches[2]), plan, plan.batches[2])
