"""How kernels are compiled, and for how long their machine code is good.

Numba keeps compiled code in files and takes it again while the file of *that* function is unchanged; but a kernel is
made of functions from several files, and constants from others. Here the name under which code is kept holds a digest
of every file of this folder, so code of other sources is never found again.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from numba import njit

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


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401 - whatever njit takes and makes
    """Compile without the interpreter's lock, dividing by zero as NumPy does, and keep the code between processes."""

    def decorate(function: Callable[..., Any]) -> Any:  # noqa: ANN401
        function.__qualname__ = f"{function.__qualname__}_{SOURCES}"
        return njit(cache=True, nogil=True, error_model="numpy", **options)(function)

    return decorate
