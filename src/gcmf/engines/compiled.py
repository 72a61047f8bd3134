"""How kernels are compiled, and for how long their machine code is good.

Numba keeps compiled code in files and takes it again while the file of *that* function is unchanged; but a kernel is
made of functions from several files, and constants from others. Here the name under which code is kept holds a digest
of every file of this folder, so code of other sources is never found again.

Compiling is what a newcomer waits for, so there are few functions, and each is compiled once: a function that several
kernels use, or that depends on the working precision or a likelihood, is compiled by itself and called by its address.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from types import FunctionType
from typing import TYPE_CHECKING, Any

from numba import cfunc, njit

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable


def digest_of(folder: Traversable) -> str:
    """Hash of the names and contents of all Python files in a folder, short enough for a file name."""
    files = sorted((entry.name, entry.read_bytes()) for entry in folder.iterdir() if entry.name.endswith(".py"))
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


#: Which sources the compiled code of this process is of.
SOURCES = digest_of(resources.files(__package__))
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    # Compiled code makes no arrays: without this, every look at one would count a reference, millions of times.
    "_nrt": False,
}
#: Python calls none of these functions from C, and parts not at all.
_FROM_PYTHON: dict[str, Any] = {"no_cfunc_wrapper": True, "cache": True}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FAST: dict[str, Any] = {**_OPTIONS, "fastmath": {"contract", "reassoc", "nsz", "arcp"}}


def compiled(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - what njit makes
    """Compile without the interpreter's lock, dividing by zero as NumPy does, and keep the code between processes."""
    return njit(**_FROM_PYTHON, **_OPTIONS)(_named(function))


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """As `compiled`, for loops over rows and cells: sums may be taken in any order."""
    return njit(**_FROM_PYTHON, **_FAST)(_named(function))


def inlined(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """A part of one kernel, which is compiled as if it stood there."""
    return njit(inline="always", **_FAST)(_named(function))


def part(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """A function that kernels call, and that is compiled for each of them."""
    return njit(**_INNER, **_FAST)(_named(function))


def address_of(function: Callable[..., Any], signature: Any, suffix: str | None = "", **names: Any) -> int:  # noqa: ANN401
    """Where the machine code of a function lies, compiled with other values for some of its global names.

    `suffix` tells these values from others in the name under which the code is kept between processes; None: it is not.
    """
    address: int = _callback(function, signature, suffix, **names).address
    return address


@cache  # which also keeps the code in memory, as long as others may hold its address
def _callback(function: Callable[..., Any], signature: Any, suffix: str | None, **names: Any) -> Any:  # noqa: ANN401
    variant = FunctionType(function.__code__, function.__globals__ | names, function.__name__)
    variant.__qualname__ = f"{function.__qualname__}_{suffix}"
    return cfunc(signature, cache=suffix is not None, **_FAST)(_named(variant))


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__qualname__ = f"{function.__qualname__}_{SOURCES}"
    return function
