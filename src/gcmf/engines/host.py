"""The part of an engine that any engine with its state in NumPy arrays shares: keeping it, and moving it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gcmf.engines.base import Array, Floats, Problem, State


class HostState:
    """Holds a `State`, and answers all that engines are asked apart from sweeps and sums over cells."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._kept: dict[str, State] = {}
        self._has_cells = {block.layer: block.cells.counts() > 0 for blocks in problem.blocks for block in blocks}
        self._state: State

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
        """Remember the state, in the arrays of what was kept there if they fit."""
        self._kept[slot] = _copied(self._state, self._kept.get(slot))

    def restore(self, slot: str) -> None:
        """Go back to what was kept."""
        self.place(_copied(self._kept[slot], self._state))

    def drop(self, slot: str) -> None:
        """Forget what was kept."""
        del self._kept[slot]

    def second_moments(self) -> Floats:
        """M_e = Σ_i (ū ūᵀ + diag ũ), (E, K, K)."""
        moments = []
        for mean, var in zip(self._state.mean, self._state.var, strict=True):
            wide = mean.astype(np.float64)
            moments.append(wide.T @ wide + np.diag(var.sum(axis=0, dtype=np.float64)))
        return np.stack(moments)

    def transform(self, T: list[Floats]) -> tuple[Floats, Floats]:
        """ū ← ū T_e, ũ ← ũ (T_e ∘ T_e)."""
        s = self._state
        s.mean = [_product(mean, T_e) for mean, T_e in zip(s.mean, T, strict=True)]
        s.var = [_product(var, T_e * T_e) for var, T_e in zip(s.var, T, strict=True)]
        return factor_sums(s.mean, s.var)

    def scale(self, factors: Floats) -> None:
        """ū ← √f ū, ũ ← f ũ."""
        for mean, var, factor in zip(self._state.mean, self._state.var, factors, strict=True):
            np.multiply(mean, np.sqrt(factor), out=mean, casting="same_kind")
            np.multiply(var, factor, out=var, casting="same_kind")

    def shift(self, step: Floats) -> None:
        """b̄ ← b̄ + step."""
        for layer in np.flatnonzero(step).tolist():
            bias = self._state.bias_mean[layer]
            np.add(bias, step[layer], out=bias, where=self._has_cells[layer])

    def extend(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Add factors after those there are."""
        s = self._state
        s.mean = [np.concatenate([old, new.astype(old.dtype)], axis=1) for old, new in zip(s.mean, mean, strict=True)]
        s.var = [np.concatenate([old, new.astype(old.dtype)], axis=1) for old, new in zip(s.var, var, strict=True)]
        return factor_sums(mean, var)


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
            np.copyto(target, array)
    return spare
