"""States of chains that are kept, one by one; and as few arrays, for a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.carried import array_like, part, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Kept(NamedTuple):
    """A state on the axes of all draws: factors by set, biases by layer, scales, and the parameters of likelihoods.

    Then how it came there, and what a new row of it is expected to be, on the axes that it was drawn on: see `Origin`.
    """

    factors: list[Array]
    biases: list[Array]
    scales: Array
    parameters: list[Array]
    turn: Array
    precision: Array
    on: Array
    center: Array
    plain_scales: Array
    bias_prior: Array
    learned: list[Array]
    coefficients: list[Array]
    bias_coefficients: list[Array]


def pack_kept(kept: list[Kept]) -> dict[str, Any]:
    """All states side by side: arrays whose first axis counts them."""
    if not kept:
        return {}
    columns = zip(Kept._fields, zip(*kept, strict=True), strict=True)
    return {name: [np.stack(each) for each in zip(*values, strict=True)] if isinstance(values[0], list)
            else np.stack(values) for name, values in columns}  # fmt: skip


def unpack_kept(like: Kept, values: dict[str, Any]) -> list[Kept]:
    """The states that `pack_kept` put together, each with arrays like these."""
    if values == {}:
        return []
    scales = part(values, "scales")
    n = len(scales) if isinstance(scales, np.ndarray) and scales.ndim else 0

    def read(name: str, wanted: Any) -> list[Any]:  # noqa: ANN401 - an array, or a list of them
        """What each state has of this name."""
        found = part(values, name)
        if not isinstance(wanted, list):
            return list(array_like(np.broadcast_to(wanted, (n, *wanted.shape)), found, name))
        if not isinstance(found, list) or len(found) != len(wanted):
            refuse("draws", "are not of the sets and relations of the data")
        each = [array_like(np.broadcast_to(one, (n, *one.shape)), array, name)
                for one, array in zip(wanted, found, strict=True)]  # fmt: skip
        return [[array[s] for array in each] for s in range(n)]

    columns = [read(name, wanted) for name, wanted in zip(Kept._fields, like, strict=True)]
    return [Kept(*state) for state in zip(*columns, strict=True)]
