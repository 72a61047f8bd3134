"""What is written beside a file or folder until it takes its place: its name, its lock, what killed writers left."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: What lies longer than this unlocked has lost its writer; something younger may be about to be locked or renamed.
STALE_SECONDS = 60.0


def beside(target: Path, name: str | None = None) -> Path:
    """Return a path beside a target: the one of a name that nothing else of this target has, or one that is new."""
    prefix = f".gcmf-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}-"
    return target.with_name(prefix + (name or f"{secrets.token_hex(6)}.tmp"))


def lock(handle: int) -> bool | None:
    """Whether nobody else holds a file, from now until it is closed or the process ends; None where there are no locks.

    There are none on Windows, and in some file systems: there nobody is kept out, and what killed writers left is left.
    """
    try:
        import fcntl  # noqa: PLC0415 - Windows has none

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def remove_stale(target: Path) -> None:
    """Remove what killed writers of a target left beside it: their locks went with them."""
    for old in target.parent.glob(beside(target, "*.tmp").name):
        with suppress(OSError):
            is_folder = old.is_dir()
            flags = os.O_RDONLY if is_folder else os.O_RDWR
            handle = os.open(old, flags | getattr(os, "O_NOFOLLOW", 0))
            try:
                if time.time() - os.fstat(handle).st_mtime > STALE_SECONDS and lock(handle):
                    shutil.rmtree(old) if is_folder else old.unlink()
            finally:
                os.close(handle)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, last through a power failure, where that can be asked for."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
