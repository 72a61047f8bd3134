"""What must be known of the faces: how alike two lightings are, and what was tried before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIED = (
    "How K was chosen: not blindly. Probes on draws 0 and 1, with biases, had K = 10, where with the relation all ten "
    "factors were often kept, and then K = 20, where no fit kept all; errors were seen. At σ = 4, relative to the "
    "views alone, draws 0 and 1: near +1.4%, -11.4% (K = 10) and -3.0%, -5.2% (K = 20); apart +0.3%, -11.9% and -1.7%, "
    "-6.1%; far +8.4%, +10.4% and +2.7%, +37.7%."
)


def likeness(faces: NDArray[np.float64], pair: tuple[int, int]) -> tuple[float, float]:
    """Return the mean correlation over people between the two lightings: of the same pixel, and of distant ones.

    Distant is more than 0.6 of the image's width.
    """
    first, second = (_standard(faces[:, lighting].reshape(len(faces), -1)) for lighting in pair)
    correlation = first.T @ second / len(faces)
    above, left = np.divmod(np.arange(first.shape[1]), faces.shape[-1])
    distance = np.hypot(above[:, None] - above, left[:, None] - left)
    return float(correlation[distance == 0].mean()), float(correlation[distance > 0.6 * faces.shape[-1]].mean())


def _standard(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Center and scale over people; a pixel that never changes correlates with nothing."""
    spread = pixels.std(axis=0)
    return np.asarray((pixels - pixels.mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=np.float64)


def likeness_note(faces: NDArray[np.float64], pairs: dict[str, tuple[int, int]]) -> str:
    """Say what the relation assumes, and how far that is so for each pair of lightings."""
    found = {name: likeness(faces, pair) for name, pair in pairs.items()}
    said = "; ".join(f"{name} {same:.2f} against {distant:.2f}" for name, (same, distant) in found.items())
    return (
        "The relation says that pixels near each other go together in the two lightings. Mean correlation over all "
        f"people, of the same pixel against pixels far away: {said}. Where the two hardly differ, being near should "
        "say little; that was not tested further."
    )
