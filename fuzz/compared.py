"""A random world with a model of it, and how two of its answers are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.model.predict import theta_of
from gcmf.model.predictive import Normal

if TYPE_CHECKING:
    from fuzz.matrices import Floats, Rng
    from fuzz.worlds import Table, World
    from gcmf import GCMF, Collection

    Predicted = dict[str, tuple[Floats, Floats]]


@dataclass(frozen=True)
class Case:
    """A world, its collection and a model of it."""

    seed: int
    world: World
    data: Collection
    model: GCMF

    @property
    def rng(self) -> Rng:
        """The same numbers for every check."""
        return np.random.default_rng(self.seed)

    @cached_property
    def tables(self) -> list[Table]:
        """Two of the relations, for checks that take long."""
        return [self.world.tables[n] for n in self.rng.permutation(len(self.world.tables))[:2]]

    @property
    def sampled(self) -> bool:
        """Whether the model is made of draws."""
        return "gibbs" in self.world.features

    @cached_property
    def predicted(self) -> Predicted:
        """Mean and deviation of every cell of every relation, in the order of the world."""
        return predictions(self.world, self.model)


def predictions(world: World, model: GCMF, *, turned: bool = False) -> Predicted:
    """Mean and deviation of every cell, by the ids of the world and its way round."""
    found = {}
    for t in world.tables:
        ids = world.ids[t.ends[0]], world.ids[t.ends[1]]
        mean, std = model.predict(t.name, *(ids[::-1] if turned else ids), grid=True, return_std=True)
        found[t.name] = (mean.T, std.T) if turned else (mean, std)
    return found


def near(a: Any, b: Any, margin: Any, what: str) -> None:  # noqa: ANN401 - arrays and columns
    """Two answers differ by no more than the margin."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert a.shape == b.shape, f"{what}: {a.shape} and {b.shape}"
    off = float(np.max(np.abs(a - b) / margin, initial=0.0))
    assert off <= 1.0, f"{what}: {np.abs(a - b).max():.2g} apart, {off:.2g} times what is allowed"


def in_order(table: pd.DataFrame, what: str) -> pd.Series[float]:
    """The scores by id and item, which stand in the table in descending order."""
    steps = table.groupby("id", sort=False)["score"].diff().dropna()
    assert np.isfinite(table["score"]).all(), f"{what}: a score is not finite"
    assert (steps <= 0).all(), f"{what}: not in order"
    return table.set_index(["id", "item"])["score"].sort_index()


def same(a: Any, b: Any, what: str) -> None:  # noqa: ANN401 - tables and arrays
    """Two answers are equal: tables, or arrays."""
    if isinstance(a, pd.DataFrame):
        try:
            pd.testing.assert_frame_equal(a.reset_index(drop=True), b.reset_index(drop=True), rtol=1e-6)
        except AssertionError as error:
            msg = f"{what}: {' '.join(str(error).split())}"
            raise AssertionError(msg) from None
    else:
        assert np.array_equal(a, b), f"{what}: {np.abs(a - b).max():.2g} apart"


def thetas(model: GCMF, t: Table, rows: Any, cols: Any) -> Floats:  # noqa: ANN401 - ids
    """θ of all pairs in every draw, or as it is expected, (draws, rows, cols)."""
    i, j = (model.fitted_.vocabularies[end].index(ids) for end, ids in zip(t.ends, (rows, cols), strict=True))
    pairs = np.repeat(i, len(j)), np.tile(j, len(i))
    theta = theta_of(model.fitted_, model._relation(t.name), *pairs)
    return np.reshape(theta.m if isinstance(theta, Normal) else theta.theta, (-1, len(i), len(j)))


def with_factors(case: Case) -> list[str]:
    """Sets that have a factor: of others, nobody is like anybody, and the model says so."""
    return [name for name in case.world.ids if case.model.factors(name, weak=True).any(axis=None)]
