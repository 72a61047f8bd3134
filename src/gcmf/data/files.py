"""A folder of arrays, made whole or not at all, and again only if what it is made of has changed.

Arrays are in NumPy's own format, one a file, beside a manifest in JSON. Nothing in a folder is ever run: there are
neither pickles nor names of things to import.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from gcmf import locks
from gcmf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

MANIFEST = "gcmf-cells.json"
"""The file without which a folder is none of ours."""
FORMAT = 2
"""Raised when what an older version wrote is no longer read."""


class ArrayFile:
    """One array in a file, written and read piece by piece: nothing of it is held in memory."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._file = path.open("w+b")
        self._start = 0

    def claim(self, size: int) -> None:
        """Make room for so many values, now: who runs out of disk is told before the work and not after."""
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": (size,)}
        np.lib.format.write_array_header_1_0(self._file, about)
        self._file.flush()
        self._start = self._file.tell()
        n_bytes = self._start + size * self.dtype.itemsize
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._file.fileno(), 0, n_bytes)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # some file systems cannot
                    raise
        self._file.truncate(n_bytes)

    def write(self, start: int, values: npt.NDArray[Any]) -> None:
        """Write these values from a place on."""
        self._file.seek(self._start + start * self.dtype.itemsize)
        self._file.write(np.ascontiguousarray(values, self.dtype).data)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the values between two places."""
        values = np.empty(stop - start, self.dtype)
        self._file.seek(self._start + start * self.dtype.itemsize)
        self._file.readinto(values.data.cast("B"))
        return values

    def close(self) -> None:
        """Write what is still to be written."""
        self._file.close()


class Files:
    """The files of a folder that is being made; what is a scrap goes when it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[ArrayFile | BinaryIO] = []

    def array(self, name: str, size: int, dtype: npt.DTypeLike) -> ArrayFile:
        """Return the file of an array that stays."""
        return self._array(f"{name}.npy", size, dtype)

    def scrap_array(self, size: int, dtype: npt.DTypeLike) -> ArrayFile:
        """Return the file of an array that does not stay."""
        return self._array(f"{len(self._opened)}.scrap", size, dtype)

    def scrap(self) -> BinaryIO:
        """Return a new file that does not stay, to be written to."""
        file = (self.folder / f"{len(self._opened)}.scrap").open("wb")
        self._opened.append(file)
        return file

    def save(self, name: str, values: npt.NDArray[Any]) -> None:
        """Write an array that is in memory."""
        file = self.array(name, len(values), values.dtype)
        file.write(0, values)
        file.close()

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Remove scraps, and write the manifest, after all that it speaks of is on the disk."""
        for scrap in self.folder.glob("*.scrap"):
            scrap.unlink()
        for file in self.folder.glob("*.npy"):
            locks.sync(file)
        path = self.folder / MANIFEST
        path.write_text(json.dumps(manifest), encoding="utf-8")
        locks.sync(path)

    def close(self) -> None:
        """Close every file, whatever was to become of it."""
        for file in self._opened:
            with suppress(OSError):  # the disk may be full, which somebody has been told
                file.close()

    def _array(self, name: str, size: int, dtype: npt.DTypeLike) -> ArrayFile:
        file = ArrayFile(self.folder / name, dtype)
        self._opened.append(file)
        file.claim(size)
        return file


def open_array(folder: Path, name: str) -> npt.NDArray[Any]:
    """Return an array of a folder, not to be written to, of which the system reads from disk what is looked at."""
    path = folder / f"{name}.npy"
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)).view(np.ndarray)
    except (OSError, ValueError, EOFError) as error:
        msg = f"{path} cannot be read: {error}. Remove the folder {folder}, and it is made again."
        raise StorageError(msg) from error


def mapping_of(array: object) -> mmap.mmap | None:
    """Return the mapped file that an array is a view of, if it is one."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return what a folder holds; None if there is no folder, or an empty one. Refuse a folder of somebody else."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        manifest = json.loads(text)
    except (OSError, ValueError) as error:
        what = "it is a file" if folder.is_file() else f"it holds other things, and no {MANIFEST} that can be read"
        msg = f"Cannot hold cells in {folder}: {what}. Name a folder that is empty or not there yet."
        raise StorageError(msg) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("made_of"), str):
        msg = f"Cannot hold cells in {folder}: its {MANIFEST} was not written by gcmf. Name another folder."
        raise StorageError(msg)
    return manifest


@contextmanager
def making(folder: Path) -> Iterator[Files]:
    """Yield the files of a new folder beside the target, which takes its place when the block ends well.

    Whatever else happens, the target is as it was and nothing of the new one is left, unless the process is killed:
    then the next call for the same target removes it. The folder that is replaced must be one of ours.
    """
    read_manifest(folder)
    target = folder.resolve()
    new = locks.beside(target)
    files, handle = Files(new), None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        locks.remove_stale(target)
        new.mkdir()
        handle = _locked(new)
        yield files
        files.close()
        _put(new, target)
    except OSError as error:
        _explain(error, target)
    finally:
        files.close()
        if handle is not None:
            os.close(handle)
        shutil.rmtree(new, ignore_errors=True)


def _put(new: Path, target: Path) -> None:
    """Give the new folder its name; the one that had it gives way, and goes."""
    old = locks.beside(target)
    if target.exists():
        target.rename(old)
    new.rename(target)
    locks.sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _explain(error: OSError, target: Path) -> NoReturn:
    msg = f"Cannot hold cells in {target}: {error.strerror or error}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(target.parent).free / 2**30
        msg += (
            f" {free:,.1f} GiB are free there now, and about 40 bytes per cell are needed while cells are sorted, 16"
            " afterwards. Name a folder on a larger disk."
        )
    raise StorageError(msg) from error


def _locked(folder: Path) -> int | None:
    """Return the folder, open and locked until it is closed; None where folders cannot be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return None
    locks.lock(handle)
    return handle
