"""Splitting a collection into a part to learn from and a part to be tested on: the one way in which cells are hidden.

Cells that say the same thing are one *unit*, and are hidden together: both directions of a pair of a symmetric
relation, and all columns of one category of a row. So is a pair of entities that several relations observe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.cells import MOST_LISTED
from gcmf.data.parts import both_ways, col_numbers, locate, one_way, pick, row_numbers, take, units, whole_units
from gcmf.errors import DataError, OptionError, UnknownIdError, did_you_mean
from gcmf.options import as_generator, is_integer, is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from gcmf.data.bound import BoundRelation
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
    totals = count_units(data, by=by, relations=relations)
    rng = as_generator(random_state)
    sizes = {name: round(test_size * total) for name, total in totals.items()}
    too_few = {name: total for name, total in totals.items() if not 0 < sizes[name] < total}
    _refuse(too_few, by, f"test_size={test_size}")
    _refuse_many(data, {name: test_size for name in totals}, f"test_size={test_size}", "test_size=0.001")
    return cut(data, {name: draw(rng, totals[name], size) for name, size in sizes.items()}, by=by)


def folds(
    data: Collection, n_folds: int, *, by: str, relations: Iterable[str] | None, random_state: RandomState
) -> Iterator[tuple[Collection, Collection]]:
    """Return an iterator of (train, test); see `Collection.folds`. Bad options are refused at once."""
    drawn = draw_folds(data, n_folds, by=by, relations=relations, random_state=random_state)
    return (cut(data, chosen, by=by) for chosen in drawn)


def draw_folds(
    data: Collection,
    n_folds: int,
    *,
    by: str = "cell",
    relations: Iterable[str] | None = None,
    random_state: RandomState = 0,
) -> Iterator[dict[str, Integers]]:
    """Return an iterator of what each fold hides, as `cut` takes it. Bad options are refused at once."""
    if not is_integer(n_folds) or not 2 <= n_folds <= 65535:
        msg = f"n_folds={n_folds!r} must be an integer of at least 2, such as 5."
        raise OptionError(msg)
    totals = count_units(data, by=by, relations=relations)
    _refuse({name: total for name, total in totals.items() if total < n_folds}, by, f"n_folds={n_folds}")
    _refuse_many(data, dict.fromkeys(totals, 1.0 / n_folds), f"n_folds={n_folds}", "split(test_size=0.001)")
    rng = as_generator(random_state)
    labels = {name: (np.arange(total) % n_folds).astype(np.uint16) for name, total in totals.items()}
    for label in labels.values():
        rng.shuffle(label)
    return ({name: np.flatnonzero(label == fold) for name, label in labels.items()} for fold in range(n_folds))


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


def count_units(data: Collection, *, by: str = "cell", relations: Iterable[str] | None = None) -> dict[str, int]:
    """Return how many units, or rows or columns that have a cell, there are to draw from in each relation to split."""
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
    return {name: _count(relation, by) for name, relation in chosen.items()}


def _count(relation: BoundRelation, by: str) -> int:
    if by != "cell":
        return len(_observed(relation, by))
    return relation.n_cells if relation.lead is None else len(units(relation.cells, relation.lead))


def _observed(relation: BoundRelation, by: str) -> Integers:
    """Return the rows or the columns that have an observed cell; of a category, its first column."""
    side = relation.cells.rows if by == "row" else relation.cells.cols
    seen = np.flatnonzero(side.counts())
    return seen if by == "row" or relation.lead is None else np.unique(relation.lead[seen])


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


def cut(data: Collection, drawn: dict[str, Integers], *, by: str = "cell") -> tuple[Collection, Collection]:
    """Return the collection without the units, rows or columns that were drawn of each relation, and with these alone.

    They are counted from 0, as `count_units` does.
    """
    train = {name: relation.cells for name, relation in data.relations.items()}
    test: dict[str, Cells] = {}
    for name, numbers in hidden_cells(data, drawn, by=by).items():
        if len(numbers):
            train[name], test[name] = take(train[name], numbers)
    return data.with_cells(train), data.with_cells(test)


def hidden_cells(data: Collection, drawn: dict[str, Integers], *, by: str = "cell") -> dict[str, Integers]:
    """Return the numbers of all cells of what was drawn of each relation.

    A pair of entities (a row, a column) that several of these relations observe is hidden from all of them or from
    none: the smallest relation decides, among those of which something was drawn.
    """
    order = sorted(drawn, key=lambda name: (not len(drawn[name]), data.relations[name].n_cells))
    hidden: dict[str, Integers] = {}
    for name in order:
        relation = data.relations[name]
        earlier = [data.relations[other] for other in hidden]
        if by == "cell":
            hidden[name] = _all_cells(relation, _nth_units(relation, drawn[name]))
            for other in earlier:
                if {other.rows, other.cols} == {relation.rows, relation.cols}:
                    hidden[name] = _as_cells_of(relation, hidden[name], other, hidden[other.name])
            continue
        hidden[name] = _observed(relation, by)[drawn[name]]
        for other in earlier:
            if (other.rows, other.cols) == (relation.rows, relation.cols):
                apart = np.setdiff1d(hidden[name], _observed(other, by))
                shared = np.intersect1d(hidden[other.name], _observed(relation, by))
                hidden[name] = np.union1d(apart, shared)
    if by == "cell":
        return {name: hidden[name] for name in drawn}
    return {name: _line_numbers(data.relations[name], by, hidden[name]) for name in drawn}


def _nth_units(relation: BoundRelation, chosen: Integers) -> Integers:
    """Return the number of a cell of each of these units, which are counted from 0."""
    if relation.symmetric:
        return one_way(relation.cells, chosen)
    return chosen if relation.lead is None else units(relation.cells, relation.lead)[chosen]


def _all_cells(relation: BoundRelation, numbers: Integers) -> Integers:
    """Return these cells and all others of their units."""
    if relation.symmetric:
        return both_ways(relation.cells, numbers)
    return numbers if relation.lead is None else whole_units(relation.cells, relation.lead, numbers)


def _line_numbers(relation: BoundRelation, by: str, lines: Integers) -> Integers:
    """Return the cells of these rows or columns, those of the other way and of the same categories too."""
    if by == "col" and relation.lead is not None:
        lines = np.flatnonzero(np.isin(relation.lead, lines))
    numbers = (row_numbers if by == "row" else col_numbers)(relation.cells, lines)
    return both_ways(relation.cells, numbers) if relation.symmetric else numbers


def _as_cells_of(relation: BoundRelation, numbers: Integers, other: BoundRelation, hidden: Integers) -> Integers:
    """Return cells to be hidden, changed where another relation observes the same pairs: as they are hidden there."""
    turned = relation.rows != other.rows
    i, j, _ = pick(relation.cells, numbers)
    shared = locate(other.cells, *((j, i) if turned else (i, j))) >= 0
    i, j, _ = pick(other.cells, hidden)
    there = locate(relation.cells, *((j, i) if turned else (i, j)))
    apart = np.setdiff1d(numbers, _all_cells(relation, numbers[shared]))
    return np.union1d(apart, _all_cells(relation, np.unique(there[there >= 0])))
