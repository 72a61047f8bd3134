"""Every exception and warning of the library, as one small tree."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class GcmfError(Exception):
    """Base of every error that the library raises on purpose."""


class DataError(GcmfError, ValueError):
    """The data cannot be used as given.

    Parameters
    ----------
    faults : str or iterable of str
        Everything found wrong in one pass, a readable sentence or two each.

    Attributes
    ----------
    faults : tuple of str
        The same, so that a caller can show or count them.
    """

    def __init__(self, faults: str | Iterable[str]) -> None:
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__(_numbered(self.faults))


class OptionError(GcmfError, ValueError):
    """An option has a value that it cannot have."""


class NumericalError(GcmfError, ArithmeticError):
    """Numbers overflowed before there was anything to return."""


class UnknownIdError(GcmfError, KeyError):
    """An id or a name was asked for that nothing has heard of."""

    def __str__(self) -> str:
        """Return the message itself; a plain KeyError would show its repr."""
        return str(self.args[0]) if self.args else ""


class StorageError(GcmfError):
    """A model file cannot be written or read."""


class LockedError(StorageError):
    """Another process is writing to the file."""


class MissingExtraError(GcmfError, ImportError):
    """A feature needs an optional package that is not installed."""


class ClusterError(GcmfError, RuntimeError):
    """The workers of a cluster are gone, and none came back."""


class ConvergenceWarning(UserWarning):
    """A fit ended before it converged."""


class ModelWarning(UserWarning):
    """A model was fitted to data that it does not suit."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known name, or "" when none is near."""
    near = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def counted(number: int, noun: str) -> str:
    """Return "1 factor", or "2,000 factors"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def few(lines: Sequence[str], noun: str, *, most: int = 12) -> list[str]:
    """Return lines as they are, or of more than `most` the first ones and how many more there are."""
    return list(lines) if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1:,} more {noun}"]


def _numbered(faults: tuple[str, ...]) -> str:
    if len(faults) == 1:
        return faults[0]
    lines = [f"{len(faults)} faults in the data:"]
    lines += [f"  {number}. {fault}" for number, fault in enumerate(faults, start=1)]
    return "\n".join(lines)
