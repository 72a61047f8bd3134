"""The cluster engine in tests: with workers that are none, and cut into many parts however small the data are."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from unittest import mock

from gcmf.engines import cpu, layout
from gcmf.engines.cluster.engine import ClusterEngine
from gcmf.engines.cluster.worker import Held, answer


class Nearby:
    """Workers in this process, to which nothing passes but what can be written down."""

    def __init__(self, **n_threads):
        self.n_threads = n_threads
        self.asked = []
        """Who was asked."""

    def workers(self):
        return dict(self.n_threads)

    def folder(self):
        folder = Path(tempfile.mkdtemp(prefix="gcmf-cells-"))
        return folder, os.open(folder, os.O_RDONLY)

    def hold(self, recipe, worker):
        return copied(Held(copied(recipe), self.n_threads[worker]))

    def tell(self, parameters):
        return copied(parameters)

    def ask(self, questions):
        self.asked += [worker for worker, *_ in questions]
        return [copied(answer(held, copied(question), *told)) for _, held, question, told in questions]


def copied(value):
    return pickle.loads(pickle.dumps(value))


def nearby(problem, dtype, **n_threads):
    """The cluster engine with three workers, one of them with two threads, or with others."""
    with mock.patch.multiple(cpu, RANGE_COST=70), mock.patch.multiple(layout, MIN_MATRIX=0):
        return ClusterEngine(problem, dtype=dtype, cluster=Nearby(**(n_threads or {"a": 1, "b": 2, "c": 1})))
