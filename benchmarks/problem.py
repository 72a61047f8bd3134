"""A data set in plain arrays, the same for every method: relations, held-out cells, and how errors are counted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: What a table has of arrays.
PARTS = ("train", "test", "means")


class Triplets(NamedTuple):
    """Cells: row positions, column positions, values."""

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    x: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Table:
    """One relation between two entity sets."""

    name: str
    rows: str
    cols: str
    likelihood: str
    train: Triplets | NDArray[Any]
    """The observed cells, or a whole matrix in which NaN is missing."""
    test: Triplets | None = None
    """Held-out cells (or noise-free values of cells, where a case says so)."""
    weight: float = 0.0
    """What one squared error of this table counts in the error of the problem."""
    means: NDArray[Any] | None = None
    """Expectations of the held-out cells, where data were simulated."""

    @property
    def n_cells(self) -> int:
        """Observed cells."""
        if isinstance(self.train, Triplets):
            return len(self.train.x)
        return int(self.train.size if self.train.dtype.kind in "bui" else np.isfinite(self.train).sum())


@dataclass(frozen=True, eq=False)
class Problem:
    """What every method is given."""

    case: str
    title: str
    sizes: Mapping[str, int]
    """Entities per set."""
    tables: tuple[Table, ...]
    measure: str
    """What `error` is, in words."""
    clip: tuple[float, float] | None = None
    """Predictions are clipped to this range."""
    floor: float | None = None
    """The error of the truth behind simulated data."""

    def __getitem__(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)

    @property
    def n_cells(self) -> int:
        """Observed cells of all tables."""
        return sum(table.n_cells for table in self.tables)

    @property
    def tested(self) -> tuple[Table, ...]:
        """The tables with held-out cells."""
        return tuple(table for table in self.tables if table.test is not None)

    def error(self, predicted: Mapping[str, NDArray[Any]]) -> float:
        """√(Σ weight · Σ (x − prediction)²) over the held-out cells."""
        total = 0.0
        for table in self.tested:
            assert table.test is not None
            guess = np.asarray(predicted[table.name], dtype=np.float64)
            if self.clip is not None:
                guess = np.clip(guess, *self.clip)
            total += table.weight * float(((table.test.x - guess) ** 2).sum())
        return float(np.sqrt(total))


def save(problem: Problem, path: Path) -> None:
    """Write a problem to one npz file."""
    arrays: dict[str, NDArray[Any]] = {}
    tables = []
    for n, table in enumerate(problem.tables):
        for part in PARTS:
            value = getattr(table, part)
            if isinstance(value, Triplets):
                arrays |= {f"{n}.{part}.{key}": array for key, array in value._asdict().items()}
            elif value is not None:
                arrays[f"{n}.{part}"] = value
        tables.append({key: getattr(table, key) for key in ("name", "rows", "cols", "likelihood", "weight")})
    head = {key: getattr(problem, key) for key in ("case", "title", "sizes", "measure", "clip", "floor")}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, head=np.array(json.dumps({**head, "tables": tables})), **arrays)  # type: ignore[arg-type]


def load(path: Path) -> Problem:
    """Read what `save` has written."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    head = json.loads(str(arrays.pop("head")))
    tables = []
    for n, table in enumerate(head.pop("tables")):
        parts = {part: _part(arrays, f"{n}.{part}") for part in PARTS}
        tables.append(Table(**table, **parts))
    clip = tuple(head.pop("clip") or ()) or None
    return Problem(**head, clip=clip, tables=tuple(tables))


def _part(arrays: Mapping[str, NDArray[Any]], key: str) -> Any:  # noqa: ANN401 - either form
    if f"{key}.i" in arrays:
        return Triplets(arrays[f"{key}.i"], arrays[f"{key}.j"], arrays[f"{key}.x"])
    return arrays.get(key)


def toy(problem: Problem, *, size: int = 40) -> Problem:
    """The same tables in the same forms and types, tiny and random: what a warm-up needs."""
    rng = np.random.default_rng(0)
    sizes = {name: min(d, size) for name, d in problem.sizes.items()}
    tables = tuple(_toy_table(rng, table, sizes) for table in problem.tables)
    return Problem(problem.case, problem.title, sizes, tables, problem.measure, problem.clip)


def _toy_table(rng: np.random.Generator, table: Table, sizes: Mapping[str, int]) -> Table:
    shape = sizes[table.rows], sizes[table.cols]
    theta = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    x = (theta > 0) if table.likelihood == "bernoulli" else theta + rng.normal(size=shape)
    x = np.floor(np.abs(x)) if table.likelihood == "poisson" else x
    seen = rng.random(shape) < 0.7
    i, j = (index.astype(np.int32) for index in np.nonzero(seen))
    if isinstance(table.train, Triplets):
        train: Any = Triplets(i, j, x[seen].astype(table.train.x.dtype))
    else:
        train = x.astype(table.train.dtype)
        if train.dtype.kind == "f" and np.isnan(table.train).any():
            train[~seen] = np.nan
    test = None if table.test is None else Triplets(i[:20], j[:20], x[i[:20], j[:20]].astype(np.float64))
    return Table(table.name, table.rows, table.cols, table.likelihood, train, test, table.weight)


def distinct(rng: np.random.Generator, n: int, size: int) -> NDArray[np.int64]:
    """`size` different numbers below n, in increasing order."""
    if size > n // 8:
        return np.sort(rng.choice(n, size, replace=False))
    found = np.unique(rng.integers(n, size=size + size // 8 + 100))
    while len(found) < size:
        found = np.unique(np.concatenate([found, rng.integers(n, size=size // 8 + 100)]))
    return np.sort(rng.choice(found, size, replace=False))
