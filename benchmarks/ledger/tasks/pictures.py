"""Faces in two lightings, digits in two halves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ledger.shapes import hidden
from benchmarks.ledger.tasks.base import Task, folder, problem, sizes_of, target, tenth
from benchmarks.problem import Table
from gcmf import datasets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.problem import Problem

LIGHTINGS = (4, 9)
"""One flash left of the front, one right of it."""
IMAGES = 600
"""Of the digits: the first so many."""


def faces(split: int, *, whole: bool) -> Problem:
    """68 people, 32 × 32 pixels in two lightings; half of the second's pixels, or all for half of the people."""
    images = datasets.load_faces(folder("faces"))
    first, second = (images[:, lighting].reshape(len(images), -1) for lighting in LIGHTINGS)
    out = _whole(second, split) if whole else tenth(second, split, share=0.5)
    tables = [
        target("second", "person", "second pixel", "gaussian", second, out),
        Table("first", "person", "first pixel", "gaussian", first.astype(np.float32)),
    ]
    return problem("faces", tables, {"person": len(images), "first pixel": 1024, "second pixel": 1024})


def digits(split: int, *, whole: bool) -> Problem:
    """Left and right halves and which pixels are near; half of the right pixels, or all for half of the digits."""
    data = datasets.digits(IMAGES)
    tables = []
    for name, own in data.relations.items():
        x = np.zeros(own.shape, np.float32)
        i, j, values = own.cells.triplets()
        x[i, j] = values
        kind = "bernoulli" if name == "near" else "gaussian"
        if name == "right":
            out = _whole(x, split) if whole else tenth(x, split, share=0.5)
            tables.insert(0, Table(name, own.rows, own.cols, kind, *hidden(x, out)))
        else:
            tables.append(Table(name, own.rows, own.cols, kind, x))
    return problem("digits", tables, sizes_of(data))


def _whole(x: NDArray[np.float64], split: int) -> NDArray[np.bool_]:
    """All cells of half of the rows."""
    gone = np.random.default_rng(split).permutation(len(x))[: len(x) // 2]
    out = np.zeros(x.shape, dtype=bool)
    out[gone] = True
    return out


_FACES = f"Faces of 68 people in lightings {LIGHTINGS[0]} and {LIGHTINGS[1]}"
_DIGITS = f"The first {IMAGES} digits in two halves, and which pixels are near"
TASKS = (
    Task("faces", f"{_FACES}: half of the pixels of the second held out", "gaussian", partial(faces, whole=False),
         "faces"),
    Task("faces-view", f"{_FACES}: the second held out for half of the people", "gaussian", partial(faces, whole=True),
         "faces"),
    Task("digits", f"{_DIGITS}: half of the right pixels held out", "gaussian", partial(digits, whole=False),
         quick=True),
    Task("digits-view", f"{_DIGITS}: the right half held out for half of the digits", "gaussian",
         partial(digits, whole=True)),
)  # fmt: skip
