"""Splitting a collection into a part to learn from and a part to be tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.parts import col_numbers, row_numbers, take
from gcmf.errors import DataError, OptionError, UnknownIdError, did_you_mean
from gcmf.options import as_generator, is_integer, is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from gcmf.data.cells import Cells
    from gcmf.data.collection import Collection
    from gcmf.options import RandomState

_WAYS = ("cell", "row", "col")


def split(
    data: Collection,
    test_size: float,
    *,
    by: str,
    relations: Iterable[str] | None,
    random_state: RandomState,
) -> tuple[Collection, Collection]:
    """Return (train, test); see `Collection.split`."""
    if not (is_number(test_size) and 0 < test_size < 1):
        msg = f"test_size={test_size!r} must be a share between 0 and 1, such as 0.2."
        raise OptionError(msg)
    chosen = _chosen(data, by=by, relations=relations)
    rng = as_generator(random_state)
    numbers: dict[str, npt.NDArray[np.int64]] = {}
    faults: list[str] = []
    for name in chosen:
        cells = data.relations[name].cells
        units = _units(cells, by)
        size = round(test_size * units)
        if not 0 < size < units:
            faults.append(_too_few(name, by, units, f"test_size={test_size}"))
            continue
        numbers[name] = _numbers(cells, by, draw(rng, units, size))
    if faults:
        raise DataError(faults)
    return _parts(data, numbers)


def folds(
    data: Collection,
    n_folds: int,
    *,
    by: str,
    relations: Iterable[str] | None,
    random_state: RandomState,
) -> Iterator[tuple[Collection, Collection]]:
    """Return an iterator of (train, test); see `Collection.folds`. Bad options are refused at once."""
    if not is_integer(n_folds) or not 2 <= n_folds <= 65535:
        msg = f"n_folds={n_folds!r} must be an integer of at least 2, such as 5."
        raise OptionError(msg)
    chosen = _chosen(data, by=by, relations=relations)
    units = {name: _units(data.relations[name].cells, by) for name in chosen}
    faults = [_too_few(name, by, count, f"n_folds={n_folds}") for name, count in units.items() if count < n_folds]
    if faults:
        raise DataError(faults)
    rng = as_generator(random_state)
    labels = {name: _labels(rng, count, n_folds) for name, count in units.items()}
    return (_fold(data, by, labels, fold) for fold in range(n_folds))


def draw(rng: np.random.Generator, n: int, size: int) -> npt.NDArray[np.int64]:
    """Return `size` distinct numbers below `n`, sorted, in memory that grows with `size` and not with `n`."""
    if size > n // 16:
        return np.sort(rng.choice(n, size, replace=False, shuffle=False))
    found = np.empty(0, dtype=np.int64)
    while len(found) < size:
        more = rng.integers(n, size=size - len(found) + size // 16 + 8)
        found = np.unique(np.concatenate([found, more]))
    # Which ones are dropped must not depend on their size, or the largest numbers would come too rarely.
    surplus = rng.choice(len(found), len(found) - size, replace=False)
    return np.delete(found, surplus)


def _fold(
    data: Collection, by: str, labels: dict[str, npt.NDArray[np.uint16]], fold: int
) -> tuple[Collection, Collection]:
    numbers = {
        name: _numbers(data.relations[name].cells, by, np.flatnonzero(own == fold)) for name, own in labels.items()
    }
    return _parts(data, numbers)


def _labels(rng: np.random.Generator, count: int, n_folds: int) -> npt.NDArray[np.uint16]:
    """Return the fold of each unit, the folds being as equal as can be."""
    labels = (np.arange(count) % n_folds).astype(np.uint16)
    rng.shuffle(labels)
    return labels


def _chosen(data: Collection, *, by: str, relations: Iterable[str] | None) -> list[str]:
    if not isinstance(by, str) or by not in _WAYS:
        msg = f"by={by!r} must be one of {', '.join(map(repr, _WAYS))}.{did_you_mean(by, _WAYS)}"
        raise OptionError(msg)
    if relations is None:
        return list(data.relations)
    try:
        names = [relations] if isinstance(relations, str) else list(relations)
    except TypeError as error:
        msg = f"relations= must be names of relations. Got {relations!r} instead."
        raise OptionError(msg) from error
    for name in names:
        if name not in data.relations:
            known = ", ".join(map(repr, data.relations))
            msg = f"No relation is named {name!r}; there are {known}.{did_you_mean(name, data.relations)}"
            raise UnknownIdError(msg)
    if not names:
        msg = "relations=[] leaves nothing to split; name at least one, or leave it out for all."
        raise OptionError(msg)
    return [name for name in data.relations if name in names]


def _units(cells: Cells, by: str) -> int:
    """Return how many things there are to choose from: cells, or rows or columns that have some."""
    if by == "cell":
        return cells.n_cells
    side = cells.rows if by == "row" else cells.cols
    return int(np.count_nonzero(side.counts()))


def _numbers(cells: Cells, by: str, units: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the numbers of the cells that the chosen units hold."""
    if by == "cell":
        return units
    if by == "row":
        return row_numbers(cells, np.flatnonzero(cells.rows.counts())[units])
    return col_numbers(cells, np.flatnonzero(cells.cols.counts())[units])


def _parts(data: Collection, numbers: dict[str, npt.NDArray[np.int64]]) -> tuple[Collection, Collection]:
    train = {name: relation.cells for name, relation in data.relations.items()}
    test: dict[str, Cells] = {}
    for name, own in numbers.items():
        train[name], test[name] = take(train[name], own)
    return data.with_cells(train), data.with_cells(test)


def _too_few(name: str, by: str, units: int, option: str) -> str:
    what = {"cell": "observed cells", "row": "observed rows", "col": "observed columns"}[by]
    return (
        f"relation {name!r} has {units} {what}, and {option} would leave the train or the test part without"
        " any; choose another size, or leave it whole by naming only the others in relations=."
    )
