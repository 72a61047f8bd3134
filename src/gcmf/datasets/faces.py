"""CMU PIE: frontal faces of many people under many lightings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.datasets.folder import find_files

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_SOURCE = "They are pose 27 of CMU PIE (Sim et al., 2003), `images` of people × lightings × 32 × 32 in one .npz file."


def load_faces(folder: str | Path) -> NDArray[np.float64]:
    """Return the gray values, 0 to 1, of 68 people × 42 lightings × 32 × 32 pixels, all in the same pose.

    Lightings 0 to 20 are one flash each, from the left of the face to its right; 21 to 41 are the same
    flashes with the room lights on.

    Parameters
    ----------
    folder : path
        Where `pie_pose27.npz` lies.
    """
    [path] = find_files(folder, ["pie_pose27.npz"], source=_SOURCE)
    with np.load(path) as file:
        return np.asarray(file["images"], dtype=np.float64) / 255.0
