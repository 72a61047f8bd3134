"""Cells that come in batches and are too many to be held: ids become numbers, and the numbers go to files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.raw import RawCells
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    import numpy.typing as npt

    from gcmf.data.files import Files
    from gcmf.data.positions import Integers, Part

Column = Any
"""An array of Arrow, which is optional, and has no types."""


class Batch(NamedTuple):
    """Some lines of a listing."""

    row: Column
    col: Column
    x: npt.NDArray[Any]
    """NaN where nothing is said."""
    weight: npt.NDArray[np.float64] | None = None


def spill(read: Callable[[], Iterable[Batch]], files: Files, *, filled: bool = False) -> RawCells:
    """Return the cells of a source that can be read twice: first for its ids, which are sorted, then for its cells.

    Cells without a value are left out, and where all others are zeros, zeros.
    """
    rows, cols = _Distinct(), _Distinct()
    for batch in read():
        rows.add(batch.row)
        cols.add(batch.col)
    row_ids, col_ids = rows.finish(), cols.finish()
    i, j, x, weight = (_Spill(files.scrap(), t) for t in (np.int32, np.int32, np.float64, np.float64))
    weighs = False
    for batch in read():
        kept = batch.x != 0 if filled else ~np.isnan(batch.x)
        i.add(_numbers(row_ids, batch.row)[kept])
        j.add(_numbers(col_ids, batch.col)[kept])
        x.add(batch.x[kept])
        if batch.weight is not None:
            weighs = True
            weight.add(batch.weight[kept])
    weights = weight.finish().whole() if weighs else None
    numbers = i.finish(), j.finish(), x.finish().whole()
    return RawCells(row_ids, col_ids, *numbers, filled=filled, bounded=False, weight=weights)


class _Spill:
    """Numbers of one type, appended to a file batch by batch."""

    def __init__(self, file: BinaryIO, dtype: npt.DTypeLike) -> None:
        self._file, self._dtype, self._n = file, np.dtype(dtype), 0

    def add(self, values: npt.NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._n += len(values)

    def finish(self) -> SpilledNumbers:
        self._file.close()
        return SpilledNumbers(self._file.name, self._dtype, self._n)


@dataclass(frozen=True, eq=False)
class SpilledNumbers:
    """Numbers in a file, read by slice: `Positions` of which nothing stays in memory that is not looked at."""

    path: str
    dtype: np.dtype[Any]
    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, part: Part) -> Integers:
        # A mapping of its own, which ends with what is returned: pages of one that lasts would add up.
        return self.whole()[part]

    def whole(self) -> npt.NDArray[Any]:
        """Return all of them as one array, mapped."""
        if not self.n:
            return np.empty(0, self.dtype)
        return np.memmap(self.path, self.dtype, "r").view(np.ndarray)

    def min(self) -> int:
        """Return 0: nothing is null here."""
        return 0


class _Distinct:
    """The distinct ids of many batches, sorted as those that are held are."""

    def __init__(self) -> None:
        self._parts: list[Column] = []
        self._known = self._new = 0

    def add(self, column: Column) -> None:
        part = column.unique().drop_null()
        self._parts.append(part)
        self._new += len(part)
        if self._new > max(self._known, 1 << 20):  # seldom: each time all that are known are looked at
            self._merge()

    def finish(self) -> Vocabulary:
        from pyarrow import compute  # noqa: PLC0415 - who reads no files need not have it

        if not self._parts:
            return Vocabulary(np.empty(0, np.int64))
        self._merge()
        (known,) = self._parts
        return Vocabulary(known.take(compute.array_sort_indices(known)).to_numpy(zero_copy_only=False))

    def _merge(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        self._parts = [pa.concat_arrays(self._parts).unique()]
        self._known, self._new = len(self._parts[0]), 0


def _numbers(ids: Vocabulary, column: Column) -> npt.NDArray[np.int32]:
    """Return the position of each id of a column; refuse ids that were not there when all were listed."""
    encoded = column.dictionary_encode()
    place = ids.index(encoded.dictionary.to_numpy(zero_copy_only=False)).astype(np.int32)
    if encoded.null_count or (place < 0).any():
        msg = "A source has changed while it was read, or answers differently each time; read it again when it rests."
        raise DataError(msg)
    numbers: npt.NDArray[np.int32] = place[encoded.indices.to_numpy(zero_copy_only=False)]
    return numbers
