"""States of chains that are kept, one by one; and as few arrays, for a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.carried import part, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Kept(NamedTuple):
    """A state: factors by set in their unit, biases by layer, scales, and the parameters of likelihoods."""

    factors: list[Array]
    biases: list[Array]
    scales: Array
    parameters: tuple[Array, ...]


def pack_kept(kept: list[Kept]) -> dict[str, Any]:
    """All states side by side: arrays whose first axis counts them."""
    if not kept:
        return {}
    lists = {name: [np.stack(each) for each in zip(*(getattr(one, name) for one in kept), strict=True)]
             for name in ("factors", "biases", "parameters")}  # fmt: skip
    return {**lists, "scales": np.stack([one.scales for one in kept])}


def unpack_kept(
    sizes: tuple[int, ...], ends: tuple[tuple[int, int], ...], n_factors: int, values: dict[str, Any]
) -> list[Kept]:
    """The states that `pack_kept` put together, of sets of these sizes and relations between them."""
    if values == {}:
        return []
    factors, biases, parameters, scales = (part(values, name) for name in ("factors", "biases", "parameters", "scales"))
    layers = [sizes[e] for pair in ends for e in pair]
    n = len(scales) if isinstance(scales, np.ndarray) and scales.ndim == 3 else 0
    wanted = [((n, d + 1, n_factors), "float16") for d in sizes] + [((n, d + 1), "float32") for d in layers]
    if not all(isinstance(group, list) for group in (factors, biases, parameters)) or len(parameters) != len(ends):
        refuse("draws", "are not of the sets and relations of the data")
    found = [(np.shape(array), getattr(array, "dtype", None)) for array in (*factors, *biases)]
    learned = [(np.ndim(array), len(array) if np.ndim(array) else 0) for array in parameters]
    if found != wanted or np.shape(scales) != (n, len(ends), n_factors) or learned != [(2, n)] * len(ends):
        refuse("draws", "are not of the sets and relations of the data")
    return [
        Kept([f[s] for f in factors], [b[s] for b in biases], scales[s], tuple(p[s] for p in parameters))
        for s in range(n)
    ]
