"""Which values cells may take, in words that errors can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Support(NamedTuple):
    """The values that a kind of cells may take."""

    outside: Callable[[NDArray[np.float64]], NDArray[np.bool_]] | None
    """Which values are not allowed; None where all finite numbers are."""
    rule: str
    """What cells must be."""
    largest: float
    """Values beyond this are refused,"""
    too_large: str
    """for this reason."""


SUPPORTS = {
    "real": Support(None, "real numbers", 1e140, "whose square overflows when it is summed"),
    "binary": Support(lambda x: (x != 0) & (x != 1), "0 or 1", np.inf, ""),
    "counts": Support(lambda x: (x < 0) | (x != np.floor(x)), "integers >= 0", 2.0**53, "more than float64 can count"),
}
