"""In which order the rows of an entity set are updated, where some of them depend on each other.

Rows that share a cell, in a relation of their set with itself, must see each other's newest values. Rows of one *class*
share none, so that they are independent and any number of threads may update them; classes follow each other. Where
cells are so many that classes would be small, the rows follow each other as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Problem

    Array = NDArray[Any]

#: Rows that a class has on average, at least: below, to wait for each other takes longer than what threads gain.
MIN_CLASS = 64


class Order(NamedTuple):
    """The rows of a set in the order of their update."""

    rows: Array
    """(d,)."""
    classes: Array
    """Class c is rows[classes[c]:classes[c + 1]], (C + 1,); nothing where rows follow each other one by one."""


def order_of(problem: Problem, e: int) -> Order | None:
    """Return the order of the rows of set e; None where they do not depend on each other."""
    own = [block.cells for block in problem.blocks[e] if block.other == e]
    if not own:
        return None
    d = problem.sizes[e]
    one_by_one = Order(np.arange(d), np.zeros(0, np.int64))
    if any(side.members is not None for side in own):
        return one_by_one  # nearly every row shares a cell with every other
    # It brings Numba, which who only loads a model need not wait for.
    from gcmf.engines.order_kernels import paint  # noqa: PLC0415

    color = np.full(d, -1)
    ends = np.concatenate([[0], np.cumsum(sum(np.diff(side.indptr) for side in own))])
    partners = np.empty(ends[-1], np.int32)
    at = ends[:-1].copy()
    for side in own:
        lengths = np.diff(side.indptr)
        places = np.repeat(at - side.indptr[:-1], lengths) + np.arange(len(side.partner))
        partners[places] = side.partner
        at += lengths
    n_colors = paint(ends, partners, color, np.full(d + 1, -1))
    if d < MIN_CLASS * n_colors:
        return one_by_one
    counts = np.bincount(color, minlength=n_colors)
    return Order(np.argsort(color, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))
