"""The paper's simulations: M relations in a cycle, what a model predicts of their held-out cells, how wrong it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.data.schema import RelationSchema, Schema
from gcmf.datasets import simulate, simulate_cycle

if TYPE_CHECKING:
    from gcmf.datasets import Simulation
    from gcmf.estimators.gcmf import GCMF

SHARED, PRIVATE, MISSING = 5, 2, 0.4
"""Factors of all relations, factors of each alone, share of the cells held out: as the paper says."""


@dataclass(frozen=True)
class Errors:
    """Root mean squared errors over all held-out cells."""

    entries: float
    """Against what was drawn."""
    means: float
    """Against the expectation it was drawn around."""


def n_factors(n_relations: int) -> int:
    """Return K = 10 + 2M, which leaves five factors to spare."""
    return 10 + 2 * n_relations


def draw(n_relations: int, **options: Any) -> Simulation:  # noqa: ANN401 - of simulate_cycle
    """Draw a cycle of M relations; one is a single matrix, and two, which cannot close a cycle, are a chain."""
    if n_relations > 2:
        return simulate_cycle(n_relations, shared=SHARED, private=PRIVATE, missing=MISSING, **options)
    rng = np.random.default_rng(options.pop("random_state"))
    low, high = options.pop("sizes")
    likelihood = options.pop("likelihood", "gaussian")
    names = tuple(f"A{e + 1}" for e in range(n_relations + 1))
    relations = tuple(RelationSchema(f"X{m + 1}", names[m], names[m + 1], likelihood) for m in range(n_relations))
    owners = np.repeat(np.arange(n_relations), PRIVATE)
    pattern = {name: [*[True] * SHARED, *np.isin(owners, (e, e - 1)).tolist()] for e, name in enumerate(names)}
    sizes = {name: int(rng.integers(low, high, endpoint=True)) for name in names}
    return simulate(
        Schema(names, relations), sizes, pattern=pattern, missing=MISSING, random_state=rng, **options
    )  # fmt: skip


def relabel(data: Collection, likelihood: str) -> Collection:
    """Return the same cells of the same entities, taken for numbers of another kind."""
    relations = []
    for own in data.relations.values():
        i, j, x = own.cells.triplets()
        rows, cols = data.entities[own.rows].ids, data.entities[own.cols].ids
        relations.append(Relation(own.name, own.rows, own.cols, (rows[i], cols[j], x), likelihood))
    return Collection(relations, entities={name: one.ids for name, one in data.entities.items()})


def held_out(model: GCMF, truth: Simulation) -> Errors:
    """Compare predictions of the held-out cells with their values, and with their expectations."""
    assert truth.test is not None, "simulations here always hold cells out"
    entries = means = n = 0.0
    for name, own in truth.test.relations.items():
        i, j, x = own.cells.triplets()
        guess = np.asarray(model.predict(name, i, j))
        entries += float(((guess - x) ** 2).sum())
        means += float(((guess - truth.means[name][i, j]) ** 2).sum())
        n += len(x)
    return Errors(float(np.sqrt(entries / n)), float(np.sqrt(means / n)))


def irreducible(truth: Simulation) -> float:
    """Return the error of one who knows the expectation of every cell: the root mean squared noise."""
    assert truth.test is not None, "simulations here always hold cells out"
    squares = [
        (x - truth.means[name][i, j]) ** 2
        for name, own in truth.test.relations.items()
        for i, j, x in [own.cells.triplets()]
    ]
    return float(np.sqrt(np.concatenate(squares).mean()))
