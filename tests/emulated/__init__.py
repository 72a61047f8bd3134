"""A device for the GPU engine where there is none: NumPy, and its kernels compiled as C++ with a fiber for each lane.

Slow, and without what makes a GPU a GPU; but every index, every exchange between lanes and all host code is the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from gcmf.engines.gpu.source import source_of

COMPILER = shutil.which("g++")
_ROOM = Path(tempfile.gettempdir()) / "gcmf-emulated"


class Array(np.ndarray):
    """An array of the device: it is never mixed with one of the host, as CuPy's are not."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        for array in (*inputs, *out):
            if isinstance(array, np.ndarray) and array.ndim and not isinstance(array, Array):
                msg = f"{ufunc.__name__} is given an array of the host and one of the device"
                raise TypeError(msg)
        plain = [array.view(np.ndarray) if isinstance(array, Array) else array for array in inputs]
        if out:
            options["out"] = tuple(array.view(np.ndarray) for array in out)
        found = getattr(ufunc, method)(*plain, **options)
        return out[0] if out else on_device(found)

    def __array_function__(self, function, types, args, options):
        return on_device(super().__array_function__(function, types, args, options))


def on_device(found):
    """The same as an array of the device."""
    return np.asarray(found).view(Array) if isinstance(found, (np.ndarray, np.generic)) else found


class Module:
    """NumPy, making arrays of the device."""

    def __getattr__(self, name):
        made = getattr(np, name)
        if not callable(made) or isinstance(made, type):
            return made
        return lambda *args, **options: on_device(made(*args, **options))


class EmulatedDevice:
    """Arrays of NumPy; kernels run warp by warp."""

    xp = Module()
    shared_bytes = 64 * 1024
    free_bytes = 1 << 40

    def address(self, array):
        assert array.flags.c_contiguous
        assert isinstance(array, Array)
        return array.ctypes.data

    def to_host(self, array):
        assert isinstance(array, Array)
        return np.array(array.view(np.ndarray))

    def send(self, data, array):
        assert type(data) is np.ndarray
        array[: len(data)] = on_device(data)

    def mark(self):
        return lambda: None  # nothing is under way when a kernel has run

    bring = send

    def run(self, variant, name, grid, args, *, shared=0):
        library = _compiled(variant)
        given = (ctypes.c_longlong * 25)(*map(int, args))
        library.run_kernel(getattr(library, name), *map(ctypes.c_longlong, (*grid, shared)), given)


@cache
def _compiled(variant):
    here = Path(__file__).parent / "warp.h"
    source = here.read_text(encoding="utf-8") + source_of(variant)
    _ROOM.mkdir(exist_ok=True)
    built = _ROOM / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.so"
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=_ROOM) as folder:
            text, made = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            text.write_text(source, encoding="utf-8")
            command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-fno-stack-protector", "-w", str(text), "-o",
                       str(made)]  # fmt: skip
            subprocess.run(command, check=True)
            made.replace(built)
    library = ctypes.CDLL(str(built))
    library.run_kernel.restype = None
    library.run_kernel.argtypes = [ctypes.c_void_p] + [ctypes.c_longlong] * 3 + [ctypes.c_void_p]
    return library
