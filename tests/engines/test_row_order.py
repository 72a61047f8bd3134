"""Rows that share a cell are updated one after the other, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest

from gcmf import Collection, Relation
from gcmf.engines import cpu, order
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.order import order_of
from gcmf.engines.reference import ReferenceEngine
from gcmf.fit import fit
from gcmf.model.spec import build
from gcmf.options import FitOptions
from helpers import random_sample
from strategies import network


def sparse_network(n=60, symmetric=True, seed=0):
    """A few cells per row, and a table beside it."""
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(np.triu(rng.random((n, n)) < 0.06, 1))
    u = rng.normal(size=(n, 2))
    x = (u[i] * [1.0, -1.0] * u[j]).sum(axis=1) + 0.3 * rng.normal(size=len(i))
    i, j = (i, j) if symmetric else np.where(rng.random(len(i)) < 0.5, (i, j), (j, i))
    table = u @ rng.normal(size=(2, 7)) + 0.5 * rng.normal(size=(n, 7))
    # Bare ids are positions: both relations mean the same entities.
    return Collection([Relation("links", "p", "p", (i, j, x), symmetric=symmetric), Relation("table", "p", "q", table)])


@pytest.mark.parametrize("symmetric", [True, False])
def test_rows_of_a_class_share_no_cell(monkeypatch, symmetric):
    monkeypatch.setattr(order, "MIN_CLASS", 2)
    _, problem = build(sparse_network(symmetric=symmetric), FitOptions(n_factors=2))
    found = order_of(problem, 0)
    assert sorted(found.rows) == list(range(60))
    assert 1 < len(found.classes) - 1 < 20
    for start, end in zip(found.classes[:-1], found.classes[1:], strict=True):
        rows = set(found.rows[start:end].tolist())
        for block in problem.blocks[0]:
            if block.other == 0:
                assert all(not rows & set(block.cells.row(row)[0].tolist()) for row in rows)
    assert order_of(problem, 1) is None


def test_rows_of_a_dense_network_follow_each_other():
    data = Collection([network("a", 8, np.random.default_rng(0), layout="filled")])
    _, problem = build(data, FitOptions(n_factors=2))
    found = order_of(problem, 0)
    np.testing.assert_array_equal(found.rows, np.arange(8))
    assert len(found.classes) == 0


@pytest.mark.parametrize("symmetric", [True, False])
def test_classes_agree_with_the_reference_and_threads_change_no_bit(monkeypatch, symmetric):
    monkeypatch.setattr(order, "MIN_CLASS", 2)
    monkeypatch.setattr(cpu, "RANGE_COST", 100)
    data = sparse_network(symmetric=symmetric)
    sample = random_sample(data, FitOptions(n_factors=3, dtype="float64"), np.random.default_rng(1))
    expected = sample.placed(ReferenceEngine(sample.problem))
    truth = [expected.sweep(e, sample.given) for e in (0, 1)]
    runs = []
    for n_threads in (1, 3):
        engine = sample.placed(CpuEngine(sample.problem, dtype="float64", n_threads=n_threads))
        assert len(engine._edges[0]) > 10, "several ranges per class, or the test shows nothing"
        swept = [engine.sweep(e, sample.given) for e in (0, 1)]
        for of_set, other in zip(swept, truth, strict=True):
            for got, want in zip(of_set, other, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
        runs.append((swept, engine.fetch().mean[0]))
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    for one, other in zip(runs[0][0], runs[1][0], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_change_no_bit_of_a_fit(monkeypatch):
    monkeypatch.setattr(order, "MIN_CLASS", 2)
    monkeypatch.setattr(cpu, "RANGE_COST", 100)
    runs = [
        fit(sparse_network(), FitOptions(n_factors=4, max_iter=20, n_threads=n), np.random.default_rng(0), ())
        for n in (1, 2)
    ]
    assert runs[0].trace == runs[1].trace
    np.testing.assert_array_equal(runs[0].state.mean[0], runs[1].state.mean[0])
