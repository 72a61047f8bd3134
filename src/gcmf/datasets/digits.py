"""Scikit-learn's handwritten digits as a triangle of relations: the paper's faces experiment in small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIDE = 8
"""Digits are 8 × 8 pixels."""
_HALF = _SIDE // 2


def digits(n_images: int | None = None, *, radius: float = 3.0) -> Collection:
    """Return images cut into a left and a right half, and which pixels of the two halves are near each other.

    Three relations close a triangle: `left` (image × left pixel) and `right` (image × right pixel) hold the
    gray values as real numbers from 0 to 1; `near` (left pixel × right pixel) holds a 1 where two pixels are
    at most `radius` apart, and a 0 elsewhere. Nothing is missing. Images are 0, 1, ...; pixels are (row,
    column).

    Parameters
    ----------
    n_images : int, optional
        The first so many of the 1,797 images; all by default.
    radius : float
        In pixels, from center to center.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import, and few need it

    images = np.asarray(load_digits().images, dtype=np.float64) / 16.0
    if n_images is not None and not 2 <= n_images <= len(images):
        msg = f"n_images={n_images!r} must be from 2 to {len(images):,}, the number of images there are."
        raise OptionError(msg)
    left, right = _pixels(range(_HALF)), _pixels(range(_HALF, _SIDE))
    views = [
        Relation(name, "image", f"{name} pixel", pd.DataFrame(images[:n_images, *pixels.T], columns=_ids(pixels)))
        for name, pixels in (("left", left), ("right", right))
    ]
    distance = np.linalg.norm(left[:, None, :] - right[None, :, :], axis=-1)
    near = pd.DataFrame((distance <= radius).astype(np.float64), index=_ids(left), columns=_ids(right))
    return Collection([*views, Relation("near", "left pixel", "right pixel", near, "bernoulli")])


def _pixels(columns: range) -> NDArray[np.int64]:
    """(row, column) of the pixels in these columns, row by row."""
    return np.array([(row, column) for row in range(_SIDE) for column in columns])


def _ids(pixels: NDArray[np.int64]) -> pd.Index[Any]:
    return pd.Index([tuple(pixel) for pixel in pixels.tolist()], tupleize_cols=False)
