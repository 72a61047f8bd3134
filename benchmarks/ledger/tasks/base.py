"""What a task is, and what all of them need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.ledger.scores import MAIN
from benchmarks.ledger.shapes import hidden
from benchmarks.problem import Problem, Table
from gcmf.datasets import find_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    import gcmf


@dataclass(frozen=True)
class Task:
    """One row of the ledger: what is known, what is to be predicted, anew for every split."""

    name: str
    title: str
    kind: str
    """Likelihood of what is predicted."""
    build: Callable[[int], Problem]
    needs: str = ""
    """Folder of the data; none: they are made."""
    quick: bool = False
    """Whether it is small enough to try the machinery."""

    @property
    def measure(self) -> str:
        """The measure that decides."""
        return MAIN[self.kind]

    @property
    def there(self) -> bool:
        """Whether its data are on this machine."""
        folder = find_data_folder()
        return not self.needs or (folder is not None and (folder / self.needs).is_dir())


def folder(name: str) -> Path:
    """The folder of a data set that is there."""
    found = find_data_folder()
    assert found is not None
    return found / name


def problem(name: str, tables: list[Table], sizes: dict[str, int], **more: Any) -> Problem:  # noqa: ANN401 - of Problem
    """A problem whose error nobody asks for."""
    return Problem(name, name, sizes, tuple(tables), "", **more)


def target(name: str, rows: str, cols: str, kind: str, x: NDArray[Any], out: NDArray[np.bool_]) -> Table:
    """A table of which some cells are held out."""
    return Table(name, rows, cols, kind, *hidden(x, out))


def tenth(x: NDArray[Any], split: int, *, share: float = 0.1) -> NDArray[np.bool_]:
    """Cells to hold out, each with this probability."""
    return np.asarray(np.random.default_rng(split).random(x.shape) < share)


def pairs(x: NDArray[Any], split: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A symmetric matrix without its diagonal, and cells to hold out: a tenth of all pairs, in both directions."""
    upper = np.triu(np.random.default_rng(split).random(x.shape) < 0.1, 1)
    off = x.astype(np.float32)
    np.fill_diagonal(off, np.nan)
    return off, np.asarray(upper | upper.T)


def sizes_of(data: gcmf.Collection) -> dict[str, int]:
    """Entities per set."""
    return {name: one.size for name, one in data.entities.items()}
