"""Where float32 is not enough, and engines go on in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.likelihoods.base import ParameterPrior

if TYPE_CHECKING:
    from gcmf.engines.base import Block, Given

#: Cells that tell θ this precisely (w θ²; of Gaussian cells ⟨τ⟩, in units of their variance) are left to float64. The
#: rounding of θ to float32 moves the bound of such a cell by √(w θ²) 1e-7 or more; and in a system that is as precise
#: superfluous factors can no longer be told apart, so that steps overflow.
PRECISE = 100.0


def is_precise(given: Given, least_squares: list[int]) -> bool:
    """Whether the cells of some of these relations tell θ too precisely for float32."""
    return bool((-2.0 * given.slope[least_squares]).max(initial=0.0) > PRECISE)


def is_large(block: Block) -> bool:
    """Whether a typical cell is a large count, whose predictor is as large and known to the last digits."""
    theta = np.array([block.offset])
    x = block.likelihood.mean(theta, np.zeros(1))
    start = block.likelihood.start(float(x[0]), 1.0, ParameterPrior(1.0, 1.0, point=False))
    weight, _ = block.likelihood.quadratic(x, theta, np.zeros(1), start)
    return bool(weight[0] * block.offset**2 > PRECISE)
