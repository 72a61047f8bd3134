"""Noise of rows and columns: w_ij = τ ρ_i σ_j, with ρ_i ~ Gamma(ν/2, ν/2) and σ_j alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


#: How many sums there are of each layer.
N_SUMS = 6


def sums_of(precision: Floats, cells: Floats, half: float) -> Floats:
    """Σ ⟨ρ⟩, Σ ⟨log ρ⟩, Σ n ⟨log ρ⟩, Σ n/⟨ρ⟩, Σ 1/⟨ρ⟩ and the entropies of q(ρ), rows with n > 0 cells, (6,).

    q(ρ_i) = Gamma(ν/2 + n_i/2, ·), of which the precision is the mean.
    """
    precision, cells = precision[cells > 0], cells[cells > 0]
    shape = half + cells / 2.0
    rate = shape / precision
    log = digamma(shape) - np.log(rate)
    entropy = shape - np.log(rate) + gammaln(shape) + (1.0 - shape) * digamma(shape)
    inverse = 1.0 / precision
    return np.array([precision.sum(), log.sum(), cells @ log, cells @ inverse, inverse.sum(), entropy.sum()])
