"""A file is replaced whole or not at all, and nothing else is."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gcmf.errors import LockedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What lies longer than this unlocked has lost its writer; a younger file may be about to be locked or renamed.
_STALE_SECONDS = 60.0


def check_target(path: Path, *, what: str = "the model") -> Path:
    """Return the file that a path stands for, behind any links; refuse one that cannot be written to."""
    try:
        target = path.resolve()
        mode = target.stat().st_mode if target.exists() else None
        has_folder = target.parent.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # links that go in a circle, names with a null in them
        msg = f"Cannot write {what} to {path}: {error}."
        raise StorageError(msg) from error
    folder = target.parent
    if mode is not None and stat.S_ISDIR(mode):
        msg = f"Cannot write {what} to {path}: it is a folder. Name a file in it, such as {path / 'm.gcmf'}."
    elif mode is not None and not stat.S_ISREG(mode):
        msg = f"Cannot write {what} to {path}: it is a device, a pipe or a socket. Name a file."
    elif not has_folder:
        msg = f"Cannot write {what} to {path}: there is no folder {folder}; create it first."
    elif not os.access(folder, os.W_OK | os.X_OK):
        msg = f"Cannot write {what} to {path}: you may not write to the folder {folder}."
    else:
        return target
    raise StorageError(msg)


@contextmanager
def replacing(path: Path, *, what: str = "the model", keep_previous: bool = False) -> Iterator[Path]:
    """Yield an empty file beside the target to write to; it takes the target's place when the block ends well.

    Whatever else happens, the target is as it was and the other file is gone, unless the process is killed: then the
    next call for the same target removes it. A link stays a link, and the file that it leads to is replaced. The mode
    is that of the file replaced, or what the umask leaves. `keep_previous`: the file replaced gets another name.
    """
    target = check_target(path, what=what)
    temporary = _temporary(target)
    try:
        _remove_stale(target)
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        try:
            _lock(handle)
            yield temporary
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            os.fsync(handle)
        finally:
            os.close(handle)
        if keep_previous and target.exists():
            _keep(target)
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        msg = f"Cannot write {what} to {path}: {error.strerror or error}."
        raise StorageError(msg) from error
    finally:
        with suppress(OSError):  # the next call for the same target tries again
            temporary.unlink(missing_ok=True)


@contextmanager
def claiming(path: str | Path | None) -> Iterator[None]:
    """Be the only one to write to a path while the block runs; if another process is, raise `LockedError`.

    The lock is a file beside it, which goes when the block ends; if the process is killed, the next one takes it over.
    Where there are no locks (Windows, some network drives), nobody is kept out.
    """
    if path is None:
        yield
        return
    target = check_target(Path(path))
    lock = target.with_name(f"{_prefix(target)}.lock")
    handle = _claimed(lock, target)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):  # Windows removes no open file
                lock.unlink()
            os.close(handle)


def _claimed(lock: Path, target: Path) -> int | None:
    """The open and locked file, or None where there are no locks."""
    for _ in range(100):
        try:
            handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        except OSError as error:
            msg = f"Cannot write to {target}: {error.strerror or error}."
            raise StorageError(msg) from error
        held = _lock_held(handle)
        # Whoever had it may have removed the file after it was opened here: then it is no longer the one to lock.
        if not held and _is_at(handle, lock):
            return handle
        os.close(handle)
        if held:
            msg = f"Another process is writing to {target}. Wait until it has ended, or give another name."
            raise LockedError(msg)
    return None


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def _lock_held(handle: int) -> bool:
    """Whether another holds the file; if not, this process does from now on, where there are locks."""
    try:
        import fcntl  # noqa: PLC0415 - Windows has none

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False
    return False


def previous(path: Path) -> Path:
    """Where the checkpoint before the one at this path is."""
    target = path.resolve()
    return target.with_name(f"{target.name}.previous")


def _keep(target: Path) -> None:
    """Give a file that is about to be replaced a second name: where links can be made, the first always has a file."""
    second = _temporary(target)
    try:
        os.link(target, second)
    except OSError:  # no links in this file system
        target.replace(previous(target))
        return
    try:
        second.replace(previous(target))
    finally:
        with suppress(OSError):
            second.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    return f".gcmf-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}-"


def _temporary(target: Path) -> Path:
    """A name beside a file that nothing has yet."""
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp")


def _remove_stale(target: Path) -> None:
    """Remove what killed writers of the same target left: their locks went with them."""
    for old in target.parent.glob(f"{_prefix(target)}*.tmp"):
        with suppress(OSError):
            handle = os.open(old, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if time.time() - os.fstat(handle).st_mtime > _STALE_SECONDS and _lock(handle):
                    old.unlink()
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Whether nobody else holds the file, from now until it is closed or the process ends."""
    try:
        import fcntl  # noqa: PLC0415 - Windows has none: there, what a killed process left is left

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # held by another, or the file system has no locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power failure, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
