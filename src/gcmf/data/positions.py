"""Where the cells of a source lie, held as the source holds it: an int32 per cell and side would outweigh 0/1 cells.

All of these are read by slice, `positions[start:stop]`, and then are arrays of integers; so is a plain array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_LEAST = 4096
Part = Any
"""What an array can be indexed by."""
Integers = Any
"""What an array then gives: an integer, or an array of them."""


class Positions(Protocol):
    """n positions, of any signed integer type; -1 stands for a null id."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: Part, /) -> Integers: ...

    def min(self) -> Integers:
        """Return a bound from below: nothing is null where it is not negative."""


@dataclass(frozen=True, eq=False)
class Coded:
    """`table[source − low]`: numbers that somebody else holds, and what each of them stands for."""

    source: Positions
    table: npt.NDArray[np.int32]
    low: int = 0

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, part: Part) -> Integers:
        # Differences of narrow integers may not fit into their own type.
        return self.table[self.source[part].astype(np.intp) - self.low]

    def min(self) -> int:
        """Return the lowest position that the table has, whether or not a number stands for it."""
        return int(self.table.min())


@dataclass(frozen=True, eq=False)
class Runs:
    """Positions 0, 0, 0, 1, 1, ... where the cells of position p are `ends[p]:ends[p + 1]`."""

    ends: npt.NDArray[Any]

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, part: Part) -> Integers:
        if not isinstance(part, slice):
            return np.searchsorted(self.ends, part, side="right") - 1
        start, stop, _ = part.indices(len(self))
        first, last = np.searchsorted(self.ends, (start, stop - 1), side="right") - 1
        ends = np.clip(self.ends[first : last + 2], start, stop)
        return np.repeat(np.arange(first, last + 1, dtype=np.int32), np.diff(ends))

    def min(self) -> int:
        """Return 0: nothing is null here."""
        return 0


@dataclass(frozen=True, eq=False)
class Cycle:
    """Positions 0..width-1, over and over: the columns of a whole matrix, row by row."""

    width: int
    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, part: Part) -> Integers:
        return (np.arange(*part.indices(self.n)) if isinstance(part, slice) else part) % self.width

    def min(self) -> int:
        """Return 0: nothing is null here."""
        return 0


def parts(n: int, count: int = 64) -> Iterator[slice]:
    """Yield slices that make up 0..n: so many that a few numbers per cell of one add little to what all cells take."""
    size = max(_LEAST, -(-n // count))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
