"""The device of the GPU engine: arrays and kernels by CuPy, which is imported when a fit asks for it and not before."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gcmf.engines.gpu.source import Variant, source_of
from gcmf.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    DeviceArray = Any
    """An array of the device, of which mypy knows nothing."""


#: The first compute capability with what kernels are made of: products in TF32 and copies that go on by themselves.
OLDEST = 80
#: Bytes of fast memory that any kernel may have.
WITHOUT_ASKING = 48 * 1024
#: Bytes of host memory that a thread copies cells by way of.
PINNED = 1 << 22


class Device(Protocol):
    """Where the arrays of an engine lie, and what runs its kernels, one after the other."""

    xp: Any
    """NumPy, or what is written like it."""
    shared_bytes: int
    """Fast memory that one block of threads may have."""

    @property
    def free_bytes(self) -> int:
        """Memory that is left."""

    def address(self, array: DeviceArray) -> int:
        """Where an array begins."""

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        """The same numbers on the host; waits for what is computed before."""

    def send(self, data: NDArray[np.uint8], array: DeviceArray) -> None:
        """Copy bytes to the beginning of an array of bytes, in turn with the kernels."""

    def mark(self) -> Callable[[], None]:
        """Return what waits, in any thread, until all that was started before the mark is done."""

    def bring(self, data: NDArray[np.uint8], array: DeviceArray) -> None:
        """Copy bytes to the beginning of an array, in any thread, while kernels run; return when they are there."""

    def run(
        self, variant: Variant, name: str, grid: tuple[int, int], args: tuple[int, ...], *, shared: int = 0
    ) -> None:
        """Start a kernel in (blocks, threads each), with shared bytes for each block; arguments are of 8 bytes."""


class CudaDevice:
    """The current CUDA device."""

    def __init__(self, cupy: Any) -> None:  # noqa: ANN401 - a module
        self.xp = cupy
        self.shared_bytes = int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])
        self._kernels: dict[tuple[Variant, str], tuple[Any, int]] = {}
        self._number, self._of_thread = int(cupy.cuda.Device().id), threading.local()

    @property
    def free_bytes(self) -> int:
        """Memory that is left, with what CuPy keeps for later."""
        return int(self.xp.cuda.runtime.memGetInfo()[0] + self.xp.get_default_memory_pool().free_bytes())

    def address(self, array: DeviceArray) -> int:
        """Where an array begins."""
        return int(array.data.ptr)

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        """The same numbers on the host."""
        return np.asarray(self.xp.asnumpy(array))

    def send(self, data: NDArray[np.uint8], array: DeviceArray) -> None:
        """Copy bytes."""
        if len(data):
            array[: len(data)].set(np.ascontiguousarray(data))

    def mark(self) -> Callable[[], None]:
        """Return what waits for all before."""
        event = self.xp.cuda.Event(block=True, disable_timing=True)
        event.record()
        return lambda: self._wait(event)

    def _wait(self, event: Any) -> None:  # noqa: ANN401 - CuPy's
        with self.xp.cuda.Device(self._number):
            event.synchronize()

    def bring(self, data: NDArray[np.uint8], array: DeviceArray) -> None:
        """Copy bytes by way of memory that the system does not move, which only few bytes can be had of."""
        way = self._of_thread
        with self.xp.cuda.Device(self._number):
            if not hasattr(way, "stream"):
                way.stream = self.xp.cuda.Stream(non_blocking=True)
                way.room = np.frombuffer(self.xp.cuda.alloc_pinned_memory(PINNED), np.uint8, PINNED)
            for first in range(0, len(data), PINNED):
                part = data[first : first + PINNED]
                way.room[: len(part)] = part
                array[first : first + len(part)].set(way.room[: len(part)], stream=way.stream)
                way.stream.synchronize()

    def run(
        self, variant: Variant, name: str, grid: tuple[int, int], args: tuple[int, ...], *, shared: int = 0
    ) -> None:
        """Start a kernel, compiled if it is not yet."""
        if grid[0] == 0:
            return
        kernel, allowed = self._kernels.get((variant, name), (None, 0))
        if kernel is None or shared > allowed:
            kernel, allowed = _module(self.xp, variant).get_function(name), max(shared, WITHOUT_ASKING)
            if shared > WITHOUT_ASKING:
                kernel.max_dynamic_shared_size_bytes = shared
            self._kernels[variant, name] = kernel, allowed
        kernel((grid[0],), (grid[1],), tuple(map(np.int64, args)), shared_mem=shared)


@cache
def _module(cupy: Any, variant: Variant) -> Any:  # noqa: ANN401 - CuPy's
    return cupy.RawModule(code=source_of(variant), options=("--std=c++17", "--fmad=true"), backend="nvrtc")


def find_device() -> CudaDevice | None:
    """Return the device, if there is one and CuPy finds it."""
    try:
        import cupy  # noqa: PLC0415 - an extra, and slow to import

        if cupy.cuda.runtime.getDeviceCount() == 0 or int(cupy.cuda.Device().compute_capability) < OLDEST:
            return None
        return _device(cupy)
    except ImportError:
        return None
    except Exception as error:
        if type(error).__module__.startswith("cupy"):
            return None
        raise


@cache
def _device(cupy: Any) -> CudaDevice:  # noqa: ANN401 - a module
    return CudaDevice(cupy)


def require_device() -> CudaDevice:
    """Return the device; raise OptionError, with the way out, where there is none."""
    device = find_device()
    if device is None:
        msg = ("device='gpu' needs CuPy and an NVIDIA GPU of 2020 (compute capability 8.0) or later, and found none: "
               "pip install 'gcmf[gpu]' where such a GPU and its driver are, or fit with device='cpu'.")  # fmt: skip
        raise OptionError(msg)
    return device
