"""Where the cells of a source lie, held as the source holds it: an int32 per cell and side would outweigh 0/1 cells.

All of these are read by slice, `positions[start:stop]`, and then are arrays of integers; so is a plain array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_PARTS = 64
_LEAST = 4096


class Positions(Protocol):
    """n positions, of any signed integer type; -1 stands for a null id."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: Any, /) -> Any: ...  # noqa: ANN401 - what an array takes and gives

    def min(self) -> Any:  # noqa: ANN401
        """Return a bound from below: nothing is null where it is not negative."""


class Coded:
    """`table[source − low]`: numbers that somebody else holds, and what each of them stands for."""

    def __init__(self, source: Positions, table: npt.NDArray[np.int32], low: int = 0) -> None:
        self._source, self._table, self._low = source, table, low

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, part: Any) -> Any:  # noqa: ANN401
        # Differences of narrow integers may not fit into their own type.
        return self._table[self._source[part].astype(np.intp) - self._low]

    def min(self) -> int:
        """Return the lowest position that the table has, whether or not a number stands for it."""
        return int(self._table.min())


class Runs:
    """Positions 0, 0, 0, 1, 1, ... where the cells of position p are `ends[p]:ends[p + 1]`."""

    def __init__(self, ends: npt.NDArray[Any]) -> None:
        self._ends = ends

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, part: Any) -> Any:  # noqa: ANN401
        if not isinstance(part, slice):
            return np.searchsorted(self._ends, part, side="right") - 1
        start, stop, _ = part.indices(len(self))
        first, last = np.searchsorted(self._ends, (start, stop - 1), side="right") - 1
        ends = np.clip(self._ends[first : last + 2], start, stop)
        return np.repeat(np.arange(first, last + 1, dtype=np.int32), np.diff(ends))

    def min(self) -> int:
        """Return 0: nothing is null here."""
        return 0


class Cycle:
    """Positions 0..width-1, over and over: the columns of a whole matrix, row by row."""

    def __init__(self, width: int, n: int) -> None:
        self._width, self._n = width, n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, part: Any) -> Any:  # noqa: ANN401
        return (np.arange(*part.indices(self._n)) if isinstance(part, slice) else part) % self._width

    def min(self) -> int:
        """Return 0: nothing is null here."""
        return 0


def parts(n: int, count: int = _PARTS) -> Iterator[slice]:
    """Yield slices that make up 0..n: so many that a few numbers per cell of one add little to what all cells take."""
    size = max(_LEAST, -(-n // count))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
