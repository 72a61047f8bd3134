"""Cycles of five relations as in the paper, drawn anew for every split: the truth is known and has a column."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ledger.tasks.base import Task, problem, sizes_of
from benchmarks.problem import Table, Triplets
from gcmf import datasets

if TYPE_CHECKING:
    from benchmarks.problem import Problem


def cycle(split: int, *, likelihood: str, sizes: tuple[int, int]) -> Problem:
    """5 shared factors, 2 private ones per relation, 40% of the cells held out of every relation."""
    drawn = datasets.simulate_cycle(5, likelihood=likelihood, sizes=sizes, random_state=split)
    assert drawn.test is not None
    tables = []
    for name, relation in drawn.train.relations.items():
        train, test = (Triplets(*part.relations[name].cells.triplets()) for part in (drawn.train, drawn.test))
        means = np.asarray(drawn.means[name][test.i, test.j])
        tables.append(Table(name, relation.rows, relation.cols, likelihood, train, test, means=means))
    return problem("cycle", tables, sizes_of(drawn.train))


def _cycle(name: str, likelihood: str, sizes: tuple[int, int], words: str, *, quick: bool = False) -> Task:
    title = f"Cycle of five {words} relations, {sizes[0]} to {sizes[1]} entities a set, 40% held out"
    return Task(name, title, likelihood, partial(cycle, likelihood=likelihood, sizes=sizes), quick=quick)


TASKS = (
    _cycle("cycle-real-small", "gaussian", (40, 80), "real", quick=True),
    _cycle("cycle-real", "gaussian", (100, 150), "real"),
    _cycle("cycle-binary", "bernoulli", (100, 150), "0/1"),
    _cycle("cycle-counts", "poisson", (100, 150), "count"),
)
