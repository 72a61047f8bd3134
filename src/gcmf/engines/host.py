"""The part of an engine that any engine with its state in NumPy arrays shares: keeping it, and moving it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.engines.base import State
from gcmf.engines.noise import N_SUMS, sums_of

if TYPE_CHECKING:
    from gcmf.engines.base import Array, Floats, Given, Problem


class HostState:
    """Holds a `State`, and answers all that engines are asked apart from sweeps and sums over cells."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._has_cells = {block.layer: block.cells.counts() > 0 for blocks in problem.blocks for block in blocks}
        self._state: State
        # What is kept is the state itself until somebody writes to it, and then a copy, in arrays that are spare.
        self._kept: dict[str, State] = {}
        self._spare: State | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision in which the state is held."""
        return self._state.mean[0].dtype

    def place(self, state: State) -> None:
        """Take over these parameters."""
        self._state = state

    def fetch(self) -> State:
        """Return the parameters."""
        return self._state.copy()

    def keep(self, slot: str) -> None:
        """Remember the state."""
        self._spare, self._kept[slot] = self._kept.get(slot), self._state

    def restore(self, slot: str) -> None:
        """Go back to what was kept."""
        kept = self._kept[slot]
        if kept.mean[0].dtype == self.dtype:
            self._state = kept
        else:
            self.place(kept.copy())

    def drop(self, slot: str) -> None:
        """Forget what was kept."""
        del self._kept[slot]

    def _writable(self) -> State:
        """The state, to be written to in place."""
        slots = [slot for slot, kept in self._kept.items() if kept is self._state]
        if slots:
            in_use = [self._state, *self._kept.values()]
            spare = None if any(self._spare is state for state in in_use) else self._spare
            self._kept.update(dict.fromkeys(slots, _copied(self._state, spare)))
            self._spare = None
        return self._state

    def regress(self, e: int) -> Floats:
        """Fᵀ ū and Fᵀ b̄; entities without data hold zeros, and so do not count."""
        s, layers = self._state, [block.layer for block in self._problem.blocks[e]]
        biases = [s.bias_mean[layer].astype(np.float64)[:, None] for layer in layers]
        parameters = np.concatenate([s.mean[e].astype(np.float64), *biases], axis=1)
        return np.asarray(self._problem.features[e].T @ parameters)  # type: ignore[union-attr]  # whoever asks has some

    def totals(self, e: int) -> Floats:
        """Σ_i ū of the factors of a set, (K,)."""
        return np.asarray(self._state.mean[e].sum(axis=0, dtype=np.float64))

    def second_moments(self) -> Floats:
        """M_e = Σ_i (ū ūᵀ + diag ũ), (E, K, K)."""
        moments = []
        for mean, var in zip(self._state.mean, self._state.var, strict=True):
            wide = mean.astype(np.float64)
            moments.append(wide.T @ wide + np.diag(var.sum(axis=0, dtype=np.float64)))
        return np.stack(moments)

    def transform(self, T: list[Floats]) -> tuple[Floats, Floats]:
        """ū ← ū T_e, ũ ← ũ (T_e ∘ T_e)."""
        old, self._spare = self._state, None
        mean = [_product(a, T_e) for a, T_e in zip(old.mean, T, strict=True)]
        var = [_product(a, T_e * T_e) for a, T_e in zip(old.var, T, strict=True)]
        return self._with_factors(mean, var)

    def scale(self, factors: Floats) -> None:
        """ū ← √f ū, ũ ← f ũ."""
        state = self._writable()
        for mean, var, factor in zip(state.mean, state.var, factors, strict=True):
            np.multiply(mean, np.sqrt(factor), out=mean, casting="same_kind")
            np.multiply(var, factor, out=var, casting="same_kind")

    def shift(self, step: Floats) -> None:
        """b̄ ← b̄ + step."""
        state = self._writable()
        for layer in np.flatnonzero(step).tolist():
            bias = state.bias_mean[layer]
            np.add(bias, step[layer], out=bias, where=self._has_cells[layer])

    def scale_noise(self, factors: Floats) -> None:
        """ρ ← f ρ."""
        state = self._writable()
        for layer in np.flatnonzero(factors != 1.0).tolist():
            state.precision[layer] *= factors[layer]

    def leap(self, slot: str, length: float) -> tuple[Floats, Floats]:
        """ū ← ū + length (ū − what was kept), and so the biases."""
        state, old = self._writable(), self._kept[slot]
        for now, before in ((state.mean, old.mean), (state.bias_mean, old.bias_mean)):
            for array, start in zip(now, before, strict=True):
                np.add(array, length * (array - start), out=array, casting="same_kind")
        square, _ = factor_sums(state.mean, state.var)
        biases = [(b.astype(np.float64), v.sum(dtype=np.float64))
                  for b, v in zip(state.bias_mean, state.bias_var, strict=True)]  # fmt: skip
        return square, np.array([[b.sum() for b, _ in biases], [b @ b + v for b, v in biases]])

    def extend(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Add factors after those there are."""
        old, self._spare = self._state, None
        self._with_factors(
            [np.concatenate([a, new.astype(a.dtype)], axis=1) for a, new in zip(old.mean, mean, strict=True)],
            [np.concatenate([a, new.astype(a.dtype)], axis=1) for a, new in zip(old.var, var, strict=True)],
        )
        return factor_sums(mean, var)

    def _with_factors(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Take other factors; whoever keeps the old ones goes on with them."""
        old = self._state
        others = ([a.copy() for a in group] for group in old.groups()[2:])
        self._state = State(mean, var, *others)
        return factor_sums(mean, var)


def no_scaling(problem: Problem, given: Given) -> Floats:
    """Room for what the update of scales needs, (M, K + 2, K), zero; nothing where there are no scales."""
    K = given.on.shape[1]
    return np.zeros((0, 0, 0) if given.scales is None else (problem.n_relations, K + 2, K))


def noise_sums(problem: Problem, e: int, given: Given, state: State, rows: slice = slice(None)) -> Floats:
    """What `sums_of` makes of the precisions of the layers of a set, (6, B); nothing where no relation has noise."""
    if given.noise is None:
        return np.zeros((0, 0))
    blocks, sums = problem.blocks[e], np.zeros((N_SUMS, len(problem.blocks[e])))
    for b, block in enumerate(blocks):
        if given.is_noisy(block.layer) and block.noise_cells is not None:
            precision, cells = state.precision[block.layer][rows], block.noise_cells[rows]
            sums[:, b] = sums_of(precision, cells, float(given.noise[block.layer]))
    return sums


def factor_sums(mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
    """Σ_i (ū² + ũ), and Σ_i log ũ over the entities that have a variance, (E, K) each."""
    sums = [_column_sums(m, v) for m, v in zip(mean, var, strict=True)]
    return np.stack([square for square, _ in sums]), np.stack([log_var for _, log_var in sums])


def _column_sums(mean: Array, var: Array) -> tuple[Floats, Floats]:
    square = np.einsum("ik,ik->k", mean, mean, dtype=np.float64) + var.sum(axis=0, dtype=np.float64)
    logs = np.log(var, out=np.zeros(var.shape), where=var > 0, dtype=np.float64)
    return square, logs.sum(axis=0)


def _product(a: Array, T: Floats) -> Array:
    return np.ascontiguousarray((a.astype(np.float64) @ T).astype(a.dtype))


def _copied(state: State, spare: State | None) -> State:
    """Return the same values in the arrays of `spare`, if they fit, or in new ones."""
    mean = state.mean[0]
    if spare is None or (mean.shape, mean.dtype) != (spare.mean[0].shape, spare.mean[0].dtype):
        return state.copy()
    for group, spares in zip(state.groups(), spare.groups(), strict=True):
        for array, target in zip(group, spares, strict=True):
            target[...] = array
    return spare
