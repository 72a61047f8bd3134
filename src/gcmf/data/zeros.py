"""Zeros that stand for others: where nearly all cells are unlisted zeros, some of them are drawn, and weighed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from gcmf.data.cells import Cells, Side, holes, listed_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]
    Singles = npt.NDArray[np.float32]

MANY = 2_000_000
"""Unlisted zeros from which on they may be drawn: fewer are visited in no time."""
PER_CELL = 20
"""Zeros drawn per listed cell: they add about a twentieth to the noise that the listed cells have. Half as many are not
enough for factors to be told from chance (docs/model.md has figures)."""
PER_ENTITY = 8
"""Zeros drawn per row and per column, at least, on average."""
_CROWD = 4
"""How many times more zeros than are wanted may be drawn from some rows, of which a model expects too much."""
_BLOCK = 1 << 20
"""Cells that are looked at at a time."""


class Drawn(NamedTuple):
    """How many zeros of a relation were drawn, and of how many."""

    n: int
    of: int

    def __str__(self) -> str:
        return f"fitted from {self.n:,} of {self.of:,} zeros, drawn and weighed"


def n_blanks(cells: Cells) -> int:
    """Return how many zeros of a filled relation are not listed."""
    rows, cols = cells.members()
    return len(rows) * len(cols) - len(cells.rows.partner)


def n_wanted(cells: Cells) -> int:
    """Return about how many zeros of a filled relation are enough to fit it from; 0 if it is best fitted from all.

    They are drawn where they are at most half of those there are.
    """
    blanks, value = n_blanks(cells), cells.rows.value
    wanted = PER_CELL * (len(value) - int(holes(value).sum())) + int(_least(cells) * blanks)
    return wanted if blanks >= max(MANY, 2 * wanted) else 0


def draw_zeros(
    cells: Cells,
    expected: Callable[[npt.NDArray[np.int32]], Singles],
    seed: np.random.SeedSequence,
    *,
    run: Callable[..., Iterable[Any]] = map,
) -> Cells:
    """Return all listed cells of a filled relation and some of its other zeros, each standing for several.

    A zero is drawn with chance π = min(1, PER_CELL · x̂ + least), and then stands for 1/π, so that sums over all zeros
    are right on average. x̂ is what is expected in its place: `expected` is given rows and returns a line for each, with
    all members of the columns. A zero pulls at the model by about x̂, so this is the draw with the least noise. Those
    that are expected to be something else are drawn for certain. Whoever has an observed cell keeps one.

    `run` maps a function over blocks of rows, in threads or not: each has its own random numbers, made from the seed.
    """
    rows, cols = cells.members()
    step = max(_BLOCK // max(len(cols), 1), 1)
    starts = range(0, len(rows), step)

    def of_block(number: int) -> tuple[Counts, Singles]:
        own = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number)))
        return _of_rows(cells, starts[number], min(starts[number] + step, len(rows)), expected, own)

    drawn = list(run(of_block, range(len(starts))))
    place, weight = (np.concatenate([part[n] for part in drawn]) for n in (0, 1))
    del drawn
    listed, value = listed_cells(cells)
    seen = ~holes(value)
    more = _overlooked(place, listed, seen, (len(rows), len(cols)), np.random.default_rng(seed))
    place, n_listed, n_zeros = np.concatenate([listed[seen], place, more]), int(seen.sum()), len(place) + len(more)
    weight = np.concatenate(
        [np.ones(n_listed, np.float32), weight, np.full(len(more), 1.0 / _least(cells), np.float32)]
    )
    value = np.concatenate([value[seen], np.zeros(n_zeros, value.dtype)])
    order = np.argsort(place, kind="stable")
    return _listing(cells, place[order], value[order], weight[order])


def _least(cells: Cells) -> float:
    """The least chance of a zero to be drawn: with it, each row and each column has PER_ENTITY of them on average."""
    return min(PER_ENTITY / max(min(map(len, cells.members())), 1), 1.0)


def _of_rows(
    cells: Cells, start: int, stop: int, expected: Callable[[npt.NDArray[np.int32]], Singles], rng: np.random.Generator
) -> tuple[Counts, Singles]:
    """Return the places and the weights of the zeros that are drawn of some row members."""
    (rows, cols), least = cells.members(), _least(cells)
    listed, value = listed_cells(cells, start, stop)
    chance = PER_CELL * expected(rows[start:stop]).ravel()
    np.minimum(chance, 1.0, out=chance)
    # A model that goes astray for a while must not fill the memory.
    crowd = _CROWD * (PER_CELL * np.count_nonzero(~holes(value)) + least * chance.size)
    chance *= min(crowd / max(float(chance.sum()), 1e-30), 1.0)
    np.minimum(chance + np.float32(least), 1.0, out=chance)
    chance[listed - start * len(cols)] = 0.0
    drawn = np.flatnonzero(rng.random(chance.size, dtype=np.float32) < chance)
    return drawn + start * len(cols), 1.0 / chance[drawn]


def _overlooked(
    drawn: Counts, listed: Counts, seen: npt.NDArray[np.bool_], shape: tuple[int, int], rng: np.random.Generator
) -> Counts:
    """Return the places of more zeros, one of each row and column that has some and would be left without a cell."""
    width, more = shape[1], np.empty(0, dtype=np.int64)
    for side in (0, 1):
        taken, given = (np.bincount(at % width if side else at // width, minlength=shape[side])
                        for at in (np.concatenate([drawn, more, listed[seen]]), listed))  # fmt: skip
        for entity in np.flatnonzero((taken == 0) & (given < shape[1 - side])).tolist():
            others = np.arange(shape[1 - side])
            places = others * width + entity if side else entity * width + others
            more = np.append(more, rng.choice(np.setdiff1d(places, listed, assume_unique=True)))
    return more


def _listing(cells: Cells, place: Counts, value: npt.NDArray[Any], weight: Singles) -> Cells:
    """Return the listed layout of cells at these sorted places between the members of a filled relation."""
    rows, cols = cells.members()
    i, j = np.divmod(place, len(cols))
    ends = np.searchsorted(i, np.arange(len(rows) + 1))
    by_col = sparse.csr_array((np.arange(len(place)), j, ends), shape=(len(rows), len(cols))).tocsc()
    return Cells(
        Side(_spread(cells.shape[0], rows, ends), cols[j], value, weight=weight),
        Side(
            _spread(cells.shape[1], cols, by_col.indptr),
            rows[by_col.indices],
            value[by_col.data],
            weight=weight[by_col.data],
        ),
        n_cells=len(place),
    )


def _spread(size: int, owners: npt.NDArray[np.int32], ends: npt.NDArray[Any]) -> Counts:
    """Return the `indptr` of an entity set of this size of which only these list something."""
    lengths = np.zeros(size, dtype=np.int64)
    lengths[owners] = np.diff(ends)
    return np.concatenate([[0], np.cumsum(lengths)])
