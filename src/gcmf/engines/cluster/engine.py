"""The engine of a cluster: who drives it has the state and moves it; sweeps and sums over cells are the workers'."""

from __future__ import annotations

import os
import shutil
import time
import weakref
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.engines.base import RowPrior, Swept
from gcmf.engines.cluster import client
from gcmf.engines.cluster.parts import Cut, Recipe
from gcmf.engines.cluster.stored import Store
from gcmf.engines.cluster.worker import Parameters, Question
from gcmf.engines.host import HostState
from gcmf.engines.layout import ways_of
from gcmf.engines.precision import is_large, is_precise
from gcmf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gcmf.engines.base import Array, Floats, Given, Problem, State
    from gcmf.engines.cluster.client import Cluster, Handle
    from gcmf.engines.cluster.parts import Rows

#: Bytes of parameters that are not worth more messages than one.
FEW = 1 << 18
#: How often in a row a question may be lost with its workers.
ATTEMPTS = 10


class _Share(NamedTuple):
    """The rows of a set that one worker has."""

    worker: str
    rows: Rows
    held: Handle


class ClusterEngine(HostState):
    """Rows of every set over workers, each with the compiled engine of its rows.

    A row has the bits that the compiled engine gives it on one machine; sums over rows are those of fixed strips of
    rows, in their order. So results are the same for any number of workers, and whenever some of them are lost.
    """

    def __init__(self, problem: Problem, *, dtype: str, cluster: Cluster | None = None) -> None:
        super().__init__(problem)
        blocks = [block for blocks in problem.blocks for block in blocks]
        self._least_squares = sorted({block.relation for block in blocks if block.likelihood.least_squares})
        self._dtype = np.dtype("float64" if any(map(is_large, blocks)) else dtype)
        self._ways = ways_of(problem)
        self._cuts = [Cut.of(problem, e, self._ways) for e in range(len(problem.sizes))]
        self._cluster = cluster
        self._store: Store | None = None
        self._workers: dict[str, int] = {}
        self._shares: dict[int, list[_Share]] = {}
        self._told: dict[int, list[Handle]] = {}
        """Sets whose parameters the workers have as they are, in pieces."""

    # --- the state: whatever changes it, workers are told anew ------------------------------------------------

    def place(self, state: State) -> None:
        """Take over these parameters."""
        for group in state.groups()[:4]:
            group[:] = [np.ascontiguousarray(array, self._dtype) for array in group]
        self._told.clear()
        super().place(state)

    def restore(self, slot: str) -> None:
        """Go back to what was kept."""
        self._told.clear()
        super().restore(slot)

    def transform(self, T: list[Floats]) -> tuple[Floats, Floats]:
        """ū ← ū T_e, ũ ← ũ (T_e ∘ T_e)."""
        self._told.clear()
        return super().transform(T)

    def scale(self, factors: Floats) -> None:
        """ū ← √f ū, ũ ← f ũ."""
        self._told.clear()
        super().scale(factors)

    def shift(self, step: Floats) -> None:
        """b̄ ← b̄ + step."""
        self._told.clear()
        super().shift(step)

    def scale_noise(self, factors: Floats) -> None:
        """ρ ← f ρ."""
        self._told.clear()
        super().scale_noise(factors)

    def leap(self, slot: str, length: float) -> tuple[Floats, Floats]:
        """ū ← ū + length (ū − what was kept), and so the biases."""
        self._told.clear()
        return super().leap(slot, length)

    def extend(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Add factors after those there are."""
        self._told.clear()
        return super().extend(mean, var)

    # --- sweeps and sums over cells ---------------------------------------------------------------------------

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e."""
        if self._dtype.itemsize == 4 and is_precise(given, self._least_squares):
            self._dtype = np.dtype("float64")
            self.place(self.fetch())
        rows, swept = zip(*self._ask("sweep", e, given), strict=True)
        self._take(e, rows)
        return _added(swept)

    def measure(self, given: Given) -> Floats:
        """Summed values of the cells per relation, at the current parameters."""
        return self._summed("measure", given)

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """Gain and energy of each factor in each relation, (M, K) each."""
        gain, energy = np.moveaxis(self._summed("weigh", given), -1, 0)
        return gain, energy

    def lean(self, e: int, k: int, given: Given) -> Floats:
        """What the cells of each row say of factor k, (2, d)."""
        return np.concatenate(self._ask("lean", e, given, k), axis=1)

    def _summed(self, operation: str, given: Given) -> Floats:
        """What an operation says of every relation, (M, ...), asked of the sets that hold the rows of some."""
        result: Floats = np.zeros(0)
        for e, blocks in enumerate(self._problem.blocks):
            relations = [block.relation for block in blocks if block.side == 0]
            if relations:
                found = np.concatenate(self._ask(operation, e, given)).sum(axis=0)
                result = result if result.size else np.zeros(found.shape)
                result[relations] = found[relations]
        return result

    # --- questions --------------------------------------------------------------------------------------------

    def _ask(self, operation: str, e: int, given: Given, factor: int = 0) -> list[Any]:
        """Ask whoever has rows of set e; the answers in the order of the rows, however often workers are lost."""
        cluster = self._cluster = self._cluster or client.current()
        for attempt in range(ATTEMPTS):
            try:
                shares = self._shares_of(e, cluster)
                told, asked = self._tell(e, cluster), []
                for k, share in enumerate(shares):
                    # Of their own set, workers need their rows alone.
                    needed = told | {e: [told[e][k]]} if len(told[e]) == len(shares) else told
                    sets = {other: len(pieces) for other, pieces in needed.items()}
                    question = Question(operation, _of_rows(given, e, share.rows), sets, factor=factor)
                    asked.append((share.worker, share.held, question, list(chain(*needed.values()))))
                return cluster.ask(asked)
            except client.LostError as error:
                self._shares.clear()
                self._told.clear()
                if attempt == ATTEMPTS - 1:
                    msg = (
                        f"Workers were lost {ATTEMPTS} times in a row in one sweep. Look at their logs: they may have"
                        " too little memory. With a checkpoint, the fit goes on where it was."
                    )
                    raise ClusterError(msg) from error
                time.sleep(0.05 * 2**attempt)  # a lost worker is missed after a moment
                cluster.wait()
        raise AssertionError

    def _shares_of(self, e: int, cluster: Cluster) -> list[_Share]:
        """Who has which rows; all are shared out anew when others work."""
        workers = cluster.workers()
        if not workers:
            raise client.LostError
        if workers != self._workers:
            self._workers = workers
            self._shares.clear()
            self._told.clear()
        if e not in self._shares:
            self._shares[e] = [self._share(e, worker, rows, cluster) for worker, rows in self._cut(e).items()]
        return self._shares[e]

    def _cut(self, e: int) -> dict[str, Rows]:
        """The rows of set e that each worker is to have; some may have none."""
        rows = zip(self._workers, self._cuts[e].share(list(self._workers.values())), strict=True)
        return {worker: own for worker, own in rows if own.stop > own.start}

    def _share(self, e: int, worker: str, rows: Rows, cluster: Cluster) -> _Share:
        if self._store is None:
            folder, handle = cluster.folder()
            weakref.finalize(self, _remove, folder, handle)
            self._store = Store(folder)
        recipe = Recipe.of(self._problem, e, self._cuts[e].part(rows, self._ways), rows, self._store)
        return _Share(worker, rows, cluster.hold(recipe, worker))

    def _tell(self, e: int, cluster: Cluster) -> dict[int, list[Handle]]:
        """Have workers know the parameters of set e and its partners as they are now, each in a few pieces."""
        sets = list(dict.fromkeys([e, *(block.other for block in self._problem.blocks[e])]))
        new = {other: self._pieces(other) for other in sets if other not in self._told}
        if new:
            handles = iter(cluster.tell([piece for pieces in new.values() for piece in pieces]))
            self._told.update({other: [next(handles) for _ in pieces] for other, pieces in new.items()})
        return {other: self._told[other] for other in sets}

    def _pieces(self, e: int) -> list[Parameters]:
        """The parameters of a set: those of the rows that each worker has, or of all where they are few."""
        whole = self._parameters(e)
        if whole.mean.nbytes < FEW:
            return [whole]
        return [whole.cut(rows.start, rows.stop) for rows in self._cut(e).values()]

    def _parameters(self, e: int) -> Parameters:
        return Parameters.of(self._state, e, [block.layer for block in self._problem.blocks[e]])

    def _take(self, e: int, answers: Sequence[Parameters]) -> None:
        """Write the rows of set e that workers have found."""
        mine = self._writable()
        del self._told[e]
        np.concatenate([rows.mean for rows in answers], out=mine.mean[e])
        np.concatenate([rows.var for rows in answers], out=mine.var[e])
        for n, group in enumerate(mine.groups()[2:]):
            for layer in answers[0].groups()[n]:
                np.concatenate([rows.groups()[n][layer] for rows in answers], out=group[layer])


def _added(swept: Sequence[Swept]) -> Swept:
    """The sums of all strips, in the order of the rows."""

    def total(name: str) -> Any:  # noqa: ANN401 - an array
        strips = np.concatenate([getattr(part, name) for part in swept])
        return strips.sum(axis=0) if strips.size else strips

    sums = {name: total(name) for name in Swept._fields if name != "layers"}
    return Swept(layers=swept[0].layers, **sums)


def _remove(folder: Path, handle: int) -> None:
    """Remove the files that were made for workers."""
    os.close(handle)
    shutil.rmtree(folder, ignore_errors=True)


def _of_rows(given: Given, e: int, rows: Rows) -> Given:
    """The same, with the prior of some rows of set e alone, in the place of every set: nobody looks at the others."""
    prior = given.priors[e]
    of_biases = _cut(prior.bias_mean, rows), _cut(prior.bias_precision, rows)
    own = RowPrior(_cut(prior.mean, rows), _cut(prior.precision, rows), *of_biases, prior.point)
    return given._replace(priors=(own,) * len(given.priors))


def _cut(values: Floats, rows: Rows) -> Floats:
    """Values of all rows, or (one row, or one axis) what is the same for each of them."""
    return values if values.ndim == 1 or len(values) == 1 else values[rows.start : rows.stop]
