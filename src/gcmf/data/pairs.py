"""Which pairs of a relation were observed, without their values, in about a byte each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gcmf.data.cells import holes, listed_cells

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.cells import Cells

    Indices = npt.NDArray[np.int64]

#: Pairs of all relations together that a model keeps without being told to: 20 to 40 MB.
MANY = 20_000_000
#: Seven bits of a gap stand in each byte; the eighth says that more follow.
_BITS, _MORE = 7, 128


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a relation that were observed; where blanks are zeros, those that are none.

    The places of the pairs, row × width + column, are held as the gaps between them. Where more than half of all pairs
    were observed, the others are held instead.
    """

    code: npt.NDArray[np.uint8]
    shape: tuple[int, int]
    inverted: bool = False
    """Whether these are the pairs that were not observed."""

    @classmethod
    def of(cls, cells: Cells) -> Pairs:
        """Return the pairs of a relation."""
        return cls.at(_places(cells), cells.shape)

    @classmethod
    def at(cls, places: Indices, shape: tuple[int, int]) -> Pairs:
        """Return the pairs at these places, in any order and as often as one likes."""
        # Sorting is a hundred times faster than the hash table of np.unique where places are many.
        if (places[1:] <= places[:-1]).any():
            places = np.sort(places)
            places = places[np.diff(places, prepend=-1) > 0]
        n = shape[0] * shape[1]
        if 2 * len(places) <= n:
            return cls(_encode(places), shape)
        unseen = np.ones(n, dtype=bool)
        unseen[places] = False
        return cls(_encode(np.flatnonzero(unseen)), shape, inverted=True)

    @property
    def places(self) -> Indices:
        """The place of every observed pair, in order."""
        places = _decode(self.code)
        if not self.inverted:
            return places
        seen = np.ones(self.shape[0] * self.shape[1], dtype=bool)
        seen[places] = False
        return np.flatnonzero(seen)

    @cached_property
    def by_row(self) -> tuple[Indices, npt.NDArray[np.int32]]:
        """Where the columns of each row begin, (rows + 1,), and the columns that it was observed with."""
        row, col = np.divmod(self.places, max(self.shape[1], 1))
        ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.shape[0]))])
        return ends, col.astype(np.int32)

    def transposed(self) -> Pairs:
        """Return the same from the side of the columns."""
        ends, col = self.by_row
        matrix: Any = sparse.csr_array((np.ones(len(col), bool), col, ends), shape=self.shape)
        turned = matrix.tocsc()
        row = np.repeat(np.arange(self.shape[1]), np.diff(turned.indptr))
        return Pairs.at(row * self.shape[0] + turned.indices, self.shape[::-1])

    def joined(self, other: Pairs) -> Pairs:
        """Return the pairs of both, which are between the same sets."""
        return Pairs.at(np.concatenate([self.places, other.places]), self.shape)

    def faults(self) -> str | None:
        """What keeps a code from being one, as it may be read from a file; None if it is sound."""
        if len(self.code) and self.code[-1] >= _MORE:
            return "ends within a number"
        last = np.flatnonzero(self.code < _MORE)
        if np.diff(last, prepend=-1).max(initial=0) > 8:
            return "holds a number of more than 8 bytes"
        gaps = _gaps(self.code)
        if len(gaps) > 1 and gaps[1:].min() < 1:
            return "lists a pair twice"
        if float(gaps.sum(dtype=np.float64)) >= max(self.shape[0] * self.shape[1], 1) and len(gaps):
            return "lists a pair that is outside of the relation"
        return None


def _places(cells: Cells) -> Indices:
    """The places of the pairs that were observed, or that are no zeros."""
    width = cells.shape[1]
    if not cells.filled:
        parts = [part.i.astype(np.int64) * width + part.j for part in cells.chunks()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)
    (rows, cols), (places, value) = cells.members(), listed_cells(cells)
    row, col = np.divmod(places[~holes(value)], len(cols))
    return np.asarray(rows[row].astype(np.int64) * width + cols[col])


def _encode(places: Indices) -> npt.NDArray[np.uint8]:
    """Bytes of the gaps between sorted places, the lowest bits first."""
    gaps = np.diff(places, prepend=0)
    parts, at = [], []
    rest, which = gaps, np.arange(len(gaps))
    for digit in range(9):
        more = rest >= _MORE
        parts.append((rest % _MORE + _MORE * more).astype(np.uint8))
        at.append(which * 9 + digit)
        rest, which = rest[more] >> _BITS, which[more]
    order = np.argsort(np.concatenate(at), kind="stable")
    return np.concatenate(parts)[order]


def _gaps(code: npt.NDArray[np.uint8]) -> Indices:
    if not len(code):
        return np.empty(0, np.int64)
    first = np.flatnonzero(np.concatenate([[True], code[:-1] < _MORE]))
    lengths = np.diff(first, append=len(code))
    digit = np.arange(len(code)) - np.repeat(first, lengths)
    return np.add.reduceat((code.astype(np.int64) % _MORE) << (_BITS * digit), first)


def _decode(code: npt.NDArray[np.uint8]) -> Indices:
    """The places that were encoded."""
    return np.cumsum(_gaps(code))
