"""Noise of rows and columns: w_ij = τ ρ_i σ_j, with ρ_i ~ Gamma(ν/2, ν/2) and σ_j alike.

A column that the factors meet exactly would be infinitely precise, and draw all others along. So each cell also tells of
a noise that no row goes below, a share FLOOR of the relation's: log p gains −FLOOR/2 Σ_i n_i ρ_i, and ρ_i stays below
1/FLOOR. That keeps every update a closed form, and the bound rising.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: The least noise variance of a row or column, as a share of its relation's.
FLOOR = 0.01


def shape_and_rate(half: float, cells: Floats, total: Floats) -> tuple[Floats, Floats]:
    """q(ρ_i) = Gamma(ν/2 + n_i/2, ν/2 + ½ [τ Σ_j σ_j e_ij + FLOOR n_i]), of rows with n_i cells and these totals."""
    return half + cells / 2.0, half + (total + FLOOR * cells) / 2.0


def sums_of(precision: Floats, cells: Floats, half: float) -> Floats:
    """Σ ⟨ρ⟩, Σ ⟨log ρ⟩, Σ n ⟨log ρ⟩, Σ n ⟨ρ⟩ and the entropies of q(ρ), over the rows that have cells, (5,)."""
    precision, cells = precision[cells > 0], cells[cells > 0]
    shape = half + cells / 2.0
    rate = shape / precision
    log = digamma(shape) - np.log(rate)
    entropy = shape - np.log(rate) + gammaln(shape) + (1.0 - shape) * digamma(shape)
    return np.array([precision.sum(), log.sum(), cells @ log, cells @ precision, entropy.sum()])
