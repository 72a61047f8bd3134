"""A file is replaced whole or not at all, and nothing else is."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gcmf import locks
from gcmf.errors import LockedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    temporary = locks.beside(target)
    try:
        locks.remove_stale(target)
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        try:
            locks.lock(handle)
            yield temporary
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            os.fsync(handle)
        finally:
            os.close(handle)
        if keep_previous and target.exists():
            _keep(target)
        temporary.replace(target)
        locks.sync(target.parent)
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
    lock = locks.beside(target, ".lock")
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
        held = locks.lock(handle) is False
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


def previous(path: Path) -> Path:
    """Where the checkpoint before the one at this path is."""
    target = path.resolve()
    return target.with_name(f"{target.name}.previous")


def _keep(target: Path) -> None:
    """Give a file that is about to be replaced a second name: where links can be made, the first always has a file."""
    second = locks.beside(target)
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
