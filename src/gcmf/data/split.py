"""Splitting a collection into a part to learn from and a part to be tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.cells import MOST_LISTED
from gcmf.data.parts import both_ways, col_numbers, one_way, row_numbers, take
from gcmf.errors import DataError, OptionError, UnknownIdError, did_you_mean
from gcmf.options import as_generator, is_integer, is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from gcmf.data.cells import Cells
    from gcmf.data.collection import Collection
    from gcmf.options import RandomState

    Integers = npt.NDArray[np.int64]

_WAYS = {"cell": "observed cells", "row": "observed rows", "col": "observed columns"}
"""What can be drawn at random, and what it is called."""


def split(
    data: Collection, test_size: float, *, by: str, relations: Iterable[str] | None, random_state: RandomState
) -> tuple[Collection, Collection]:
    """Return (train, test); see `Collection.split`."""
    if not (is_number(test_size) and 0 < test_size < 1):
        msg = f"test_size={test_size!r} must be a share between 0 and 1, such as 0.2."
        raise OptionError(msg)
    totals = _totals(data, by=by, relations=relations)
    rng = as_generator(random_state)
    sizes = {name: round(test_size * total) for name, total in totals.items()}
    too_few = {name: total for name, total in totals.items() if not 0 < sizes[name] < total}
    _refuse(too_few, by, f"test_size={test_size}")
    _refuse_many(data, {name: test_size for name in totals}, f"test_size={test_size}", "test_size=0.001")
    return _cut(data, by, {name: draw(rng, totals[name], size) for name, size in sizes.items()})


def folds(
    data: Collection, n_folds: int, *, by: str, relations: Iterable[str] | None, random_state: RandomState
) -> Iterator[tuple[Collection, Collection]]:
    """Return an iterator of (train, test); see `Collection.folds`. Bad options are refused at once."""
    if not is_integer(n_folds) or not 2 <= n_folds <= 65535:
        msg = f"n_folds={n_folds!r} must be an integer of at least 2, such as 5."
        raise OptionError(msg)
    totals = _totals(data, by=by, relations=relations)
    _refuse({name: total for name, total in totals.items() if total < n_folds}, by, f"n_folds={n_folds}")
    _refuse_many(data, dict.fromkeys(totals, 1.0 / n_folds), f"n_folds={n_folds}", "split(test_size=0.001)")
    rng = as_generator(random_state)
    labels = {name: (np.arange(total) % n_folds).astype(np.uint16) for name, total in totals.items()}
    for label in labels.values():
        rng.shuffle(label)
    return (
        _cut(data, by, {name: np.flatnonzero(label == fold) for name, label in labels.items()})
        for fold in range(n_folds)
    )


def draw(rng: np.random.Generator, n: int, size: int) -> Integers:
    """Return `size` distinct numbers below `n`, sorted, in memory that grows with `size` and not with `n`."""
    if size > n // 16:
        return np.sort(rng.choice(n, size, replace=False, shuffle=False))
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        more = rng.integers(n, size=size - len(drawn) + size // 16 + 8)
        drawn = np.unique(np.concatenate([drawn, more]))
    # Which ones are dropped must not depend on their size, or the largest numbers would come too rarely.
    surplus = rng.choice(len(drawn), len(drawn) - size, replace=False)
    return np.delete(drawn, surplus)


def _totals(data: Collection, *, by: str, relations: Iterable[str] | None) -> dict[str, int]:
    """Return how many cells, or rows or columns that have some, there are to draw from in each relation to split."""
    if not isinstance(by, str) or by not in _WAYS:
        msg = f"by={by!r} must be one of {', '.join(map(repr, _WAYS))}.{did_you_mean(by, _WAYS)}"
        raise OptionError(msg)
    try:
        names = [relations] if isinstance(relations, str) else list(data.relations if relations is None else relations)
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
    chosen = {name: relation for name, relation in data.relations.items() if name in names}
    return {name: part.n_cells if by == "cell" else len(_observed(part.cells, by)) for name, part in chosen.items()}


def _observed(cells: Cells, by: str) -> Integers:
    """Return the rows or the columns that have an observed cell."""
    return np.flatnonzero((cells.rows if by == "row" else cells.cols).counts())


def _refuse(too_few: dict[str, int], by: str, option: str) -> None:
    faults = [
        f"relation {name!r} has {total} {_WAYS[by]}, and {option} would leave the train or the test part without"
        " any; choose another size, or leave it whole by naming only the others in relations=."
        for name, total in too_few.items()
    ]
    if faults:
        raise DataError(faults)


def _refuse_many(data: Collection, shares: dict[str, float], option: str, instead: str) -> None:
    """Refuse to list a share of the zeros that a filled relation does not list, where that would be too much."""
    counts = {name: round(share * data.relations[name].n_cells) for name, share in shares.items()}
    faults = [
        f"relation {name!r} has {data.relations[name].n_cells:,} cells with its zeros, and {option} would list"
        f" {count:,} of them as a test part (at most {MOST_LISTED:,}); choose {instead}, or leave it whole by naming"
        " only the others in relations=."
        for name, count in counts.items()
        if data.relations[name].cells.filled and count > MOST_LISTED
    ]
    if faults:
        raise DataError(faults)


def _cut(data: Collection, by: str, drawn: dict[str, Integers]) -> tuple[Collection, Collection]:
    """Return the collection without what was drawn of each relation, and with nothing else."""
    train = {name: relation.cells for name, relation in data.relations.items()}
    test: dict[str, Cells] = {}
    for name, chosen in drawn.items():
        cells, symmetric = train[name], bool(data.relations[name].symmetric)
        if by == "cell":
            numbers = one_way(cells)[chosen] if symmetric else chosen
        elif by == "row":
            numbers = row_numbers(cells, _observed(cells, by)[chosen])
        else:
            numbers = col_numbers(cells, _observed(cells, by)[chosen])
        train[name], test[name] = take(cells, both_ways(cells, numbers) if symmetric else numbers)
    return data.with_cells(train), data.with_cells(test)
