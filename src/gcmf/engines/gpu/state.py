"""The state of a fit in arrays of a device: keeping it and moving it, as `HostState` does on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.base import State
from gcmf.engines.host import HostState

if TYPE_CHECKING:
    from gcmf.engines.base import Array, Floats, Problem
    from gcmf.engines.gpu.device import Device, DeviceArray


class DeviceState(HostState):
    """Holds a `State` of device arrays; what passes to the host are a few numbers per factor."""

    def __init__(self, problem: Problem, device: Device) -> None:
        super().__init__(problem)
        self._device, self._xp = device, device.xp
        self._there = {layer: self._xp.asarray(has) for layer, has in self._has_cells.items()}
        self._transposed: dict[int, DeviceArray] = {}

    def fetch(self) -> State:
        """Return the parameters, in arrays of the host."""
        return State(*([self._device.to_host(a).copy() for a in group] for group in self._state.groups()))

    def regress(self, e: int) -> Floats:
        """Fᵀ ū and Fᵀ b̄: a product on the device where F is an array, else on the host."""
        xp, s, F = self._xp, self._state, self._problem.features[e]
        biases = [s.bias_mean[block.layer].astype(np.float64)[:, None] for block in self._problem.blocks[e]]
        parameters = xp.concatenate([s.mean[e].astype(np.float64), *biases], axis=1)
        if not isinstance(F, np.ndarray):
            return np.asarray(F.T @ self._device.to_host(parameters))  # type: ignore[union-attr]  # sparse
        if e not in self._transposed:
            self._transposed[e] = xp.asarray(np.ascontiguousarray(F.T, np.float64))
        return self._device.to_host(self._transposed[e] @ parameters)

    def totals(self, e: int) -> Floats:
        """Σ_i ū of the factors of a set, (K,)."""
        return self._device.to_host(self._state.mean[e].sum(axis=0, dtype=np.float64))

    def second_moments(self) -> Floats:
        """M_e = Σ_i (ū ūᵀ + diag ũ), (E, K, K)."""
        moments = []
        for mean, var in zip(self._state.mean, self._state.var, strict=True):
            wide = mean.astype(np.float64)
            moments.append(wide.T @ wide + self._xp.diag(var.sum(axis=0, dtype=np.float64)))
        return self._device.to_host(self._xp.stack(moments))

    def transform(self, T: list[Floats]) -> tuple[Floats, Floats]:
        """ū ← ū T_e, ũ ← ũ (T_e ∘ T_e)."""
        old, self._spare = self._state, None
        mean = [self._product(a, T_e) for a, T_e in zip(old.mean, T, strict=True)]
        var = [self._product(a, T_e * T_e) for a, T_e in zip(old.var, T, strict=True)]
        return self._with_factors(mean, var)

    def scale(self, factors: Floats) -> None:
        """ū ← √f ū, ũ ← f ũ."""
        state = self._writable()
        for mean, var, factor in zip(state.mean, state.var, factors, strict=True):
            mean[...] = mean * self._xp.asarray(np.sqrt(factor))
            var[...] = var * self._xp.asarray(factor)

    def shift(self, step: Floats) -> None:
        """b̄ ← b̄ + step."""
        state = self._writable()
        for layer in np.flatnonzero(step).tolist():
            bias = state.bias_mean[layer]
            if self._there[layer].dtype != bias.dtype:
                self._there[layer] = self._there[layer].astype(bias.dtype)
            bias += self._there[layer] * bias.dtype.type(step[layer])

    def scale_noise(self, factors: Floats) -> None:
        """ρ ← f ρ."""
        state = self._writable()
        for layer in np.flatnonzero(factors != 1.0).tolist():
            state.precision[layer] *= factors[layer]

    def leap(self, slot: str, length: float) -> tuple[Floats, Floats]:
        """ū ← ū + length (ū − what was kept), and so the biases."""
        state, old, xp = self._writable(), self._kept[slot], self._xp
        for now, before in ((state.mean, old.mean), (state.bias_mean, old.bias_mean)):
            for array, start in zip(now, before, strict=True):
                array[...] = array + array.dtype.type(length) * (array - start)
        square, _ = self._factor_sums(state.mean, state.var)
        sums = []
        for b, v in zip(state.bias_mean, state.bias_var, strict=True):
            wide = b.astype(np.float64)
            sums.append(xp.stack([wide.sum(), (wide * wide).sum() + v.sum(dtype=np.float64)]))
        return square, self._device.to_host(xp.stack(sums, axis=1)) if sums else np.zeros((2, 0))

    def extend(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Add factors after those there are."""
        old, self._spare, xp, dtype = self._state, None, self._xp, self.dtype
        more = [[xp.asarray(np.asarray(a), dtype) for a in group] for group in (mean, var)]
        wider = [[xp.concatenate([a, new], axis=1) for a, new in zip(group, added, strict=True)]
                 for group, added in zip((old.mean, old.var), more, strict=True)]  # fmt: skip
        self._with_factors(*wider)
        return self._factor_sums(*more)

    def _with_factors(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Take other factors; whoever keeps the old ones goes on with them."""
        others = ([a.copy() for a in group] for group in self._state.groups()[2:])
        self._state = State(mean, var, *others)
        return self._factor_sums(mean, var)

    def _factor_sums(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Σ_i (ū² + ũ), and Σ_i log ũ over the entities that have a variance, (E, K) each."""
        xp, sums = self._xp, []
        for m, v in zip(mean, var, strict=True):
            wide, wide_var = m.astype(np.float64), v.astype(np.float64)
            logs = xp.log(xp.where(wide_var > 0, wide_var, 1.0))
            sums.append(xp.stack([(wide * wide + wide_var).sum(axis=0), logs.sum(axis=0)]))
        found = self._device.to_host(xp.stack(sums, axis=1))
        return found[0], found[1]

    def _product(self, a: Array, T: Floats) -> Array:
        product: Array = self._xp.ascontiguousarray((a.astype(np.float64) @ self._xp.asarray(T)).astype(a.dtype))
        return product
