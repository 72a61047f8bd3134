"""Arrays in files, which any process that sees the files can have: where they are, and how they come there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.errors import StorageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Stored(NamedTuple):
    """An array of one axis in a file."""

    path: str
    offset: int
    """Bytes before its first value."""
    size: int
    dtype: str

    def cut(self, start: int, stop: int) -> Stored:
        """Return the values between two places."""
        return self._replace(offset=self.offset + start * np.dtype(self.dtype).itemsize, size=stop - start)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.size * np.dtype(self.dtype).itemsize

    def open(self) -> Array:
        """Return the array, not to be written to; the system reads from the file what is looked at."""
        if not self.size:
            return np.empty(0, self.dtype)
        try:
            return np.memmap(self.path, self.dtype, "r", self.offset, (self.size,)).view(np.ndarray)
        except (OSError, ValueError) as error:
            msg = (
                f"A worker cannot read the cells in {self.path}: {error}. Every worker must see the files of whoever"
                " drives the fit, under the same path: hold the cells in a folder that all machines share, by"
                " Collection.from_parquet(..., folder=), or set Dask's temporary-directory to such a folder."
            )
            raise StorageError(msg) from error


class Store:
    """Makes files of arrays in a folder; an array that is one already stays where it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[int, int], tuple[Stored, Array]] = {}

    def put(self, array: Array) -> Stored:
        """Return where an array is; both sides of a dense relation have one."""
        place = array.ctypes.data, array.nbytes
        if place not in self._known:
            # The array is kept, so that no other one has its place.
            self._known[place] = _mapped(array) or self._written(array), array
        return self._known[place][0]

    def _written(self, array: Array) -> Stored:
        path = self._folder / f"{len(self._known)}.bin"
        try:
            array.tofile(path)
        except OSError as error:
            msg = (
                f"Cannot write cells for the workers to {self._folder}: {error.strerror or error}. Set Dask's"
                " temporary-directory to a folder with room that all workers see."
            )
            raise StorageError(msg) from error
        return Stored(str(path), 0, array.size, array.dtype.str)


def _mapped(array: Array) -> Stored | None:
    """Where the file is that an array is a map of; None if it is none."""
    mapped: Any = array
    while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
        mapped = mapped.base
    if not isinstance(mapped, np.memmap) or mapped.filename is None:
        return None
    offset = mapped.offset + array.ctypes.data - mapped.ctypes.data
    return Stored(str(Path(mapped.filename).resolve()), offset, array.size, array.dtype.str)
