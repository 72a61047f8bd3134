"""Posteriors and states as plain arrays, and back to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gcmf.carried import array_like, part, refuse
from gcmf.engines.base import State
from gcmf.gamma import Gamma
from gcmf.model.init import start
from gcmf.model.regression import Design

if TYPE_CHECKING:
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Value = TypeVar("Value")


def in_order(value: Value) -> Value:
    """The same with all arrays laid out row by row, as files have them: sums over others may round differently."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)  # type: ignore[return-value]  # an array is what came
    if isinstance(value, Gamma):
        return Gamma(in_order(value.shape), in_order(value.rate))  # type: ignore[return-value]
    if isinstance(value, tuple):
        parts = [in_order(each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)  # type: ignore[return-value]
    return value


def pack(value: Any) -> Any:  # noqa: ANN401 - a posterior or a part of one
    """Nested named tuples as mappings, tuples as lists; what the data alone decide is left out."""
    if isinstance(value, Gamma):
        return {"shape": pack(value.shape), "rate": pack(value.rate)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return [pack(each) for each in value] if names is None else dict(zip(names, map(pack, value), strict=True))
    return None if isinstance(value, Design) else value


def unpack_posterior(spec: Spec, values: Any) -> Posterior:  # noqa: ANN401 - what was read from a file
    """The posterior that `pack` took; every part has the type and shape that one of this spec has."""
    on = part(values, "on")
    if not isinstance(on, np.ndarray) or on.dtype != bool or on.ndim != 2 or len(on) != len(spec.sizes):
        refuse("on", "is no table of sets and factors")
    _, like = start(spec, on, dtype="float32", rng=np.random.default_rng(0))
    return unpack_like(like, values)


def unpack_like(like: Posterior, values: Any) -> Posterior:  # noqa: ANN401 - what was read from a file
    """The posterior that `pack` took, whose parts all have the types and shapes of another."""
    posterior: Posterior = _unpacked(like, values, "posterior")
    if not 0 <= posterior.n_weak <= posterior.n_factors:
        refuse("n_weak", f"is {posterior.n_weak}")
    if posterior.scales is not None and like.scales is not None:
        mate = posterior.scales.mate
        if not np.array_equal(np.sort(mate), np.arange(len(mate))):
            refuse("mate", "names factors that are not there")
        posterior = posterior._replace(scales=posterior.scales._replace(itself=like.scales.itself))
    return posterior


def pack_state(state: State) -> list[Any]:
    """The arrays of a state."""
    return [list(group) for group in state.groups()]


def unpack_state(spec: Spec, n_factors: int, values: Any) -> State:  # noqa: ANN401 - what was read from a file
    """The state that `pack_state` took: of this spec, and in one precision."""
    if not isinstance(values, list) or len(values) != 5 or not all(isinstance(group, list) for group in values):
        refuse("state", "is not five lists of arrays")
    layers = [spec.sizes[spec.ends[n // 2][n % 2]] for n in range(len(spec.biased))]
    factors: list[tuple[int, ...]] = [(d, n_factors) for d in spec.sizes]
    biases: list[tuple[int, ...]] = [(d,) for d in layers]
    noisy = any(cells is not None for cells in spec.noise_cells)
    shapes = [factors, factors, biases, biases, biases if noisy else []]
    dtype = getattr(values[0][0] if values[0] else None, "dtype", None)
    if dtype not in ("float32", "float64") or [len(group) for group in values] != [len(group) for group in shapes]:
        refuse("state", "is not of the sets and relations of the data")
    return State(*(
        [array_like(np.broadcast_to(np.zeros((), kind), shape), array, "state").copy()
         for array, shape in zip(group, wanted, strict=True)]
        for group, wanted, kind in zip(values, shapes, [dtype] * 4 + ["float64"], strict=True)
    ))  # fmt: skip


def _unpacked(like: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - a part of a posterior
    if isinstance(like, Design):
        return like
    if isinstance(like, Gamma):
        return Gamma(*(_unpacked(getattr(like, each), part(value, each), name) for each in ("shape", "rate")))
    if isinstance(like, np.ndarray):
        return array_like(like, value, name).copy()
    if hasattr(like, "_fields"):
        return type(like)(*(_unpacked(getattr(like, each), part(value, each), each) for each in like._fields))
    if isinstance(like, tuple):
        if not isinstance(value, list) or len(value) != len(like):
            refuse(name, f"does not have {len(like)} parts")
        return tuple(_unpacked(*pair, name) for pair in zip(like, value, strict=True))
    if type(value) is not type(like):
        refuse(name, f"is {value!r}, where {like!r} is of another kind")
    return value
