"""The units of columns that were standardized one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.integer]


class Units(NamedTuple):
    """x_ij = center_j + scale_j · cell_ij: the value that a person gave, from the cell that is fitted.

    A relation whose columns are measured in different units (years, centimeters) is fitted in standard deviations of
    each column, so that columns count alike. Its units go with it, from the relation to the model, and whatever is
    said of its cells is said in them.
    """

    center: Floats
    scale: Floats

    def placed(self, at: Indices, size: int) -> Units:
        """Return the units of an entity set of which these columns are members `at`; others have none, (0, 1)."""
        center, scale = np.zeros(size), np.ones(size)
        center[at], scale[at] = self
        return Units(center, scale)

    def of(self, columns: Indices) -> Units:
        """Return the units of some columns; those of an unknown one, -1, are not known: it stays in deviations."""
        known = columns >= 0
        return Units(np.where(known, self.center[columns], 0.0), np.where(known, self.scale[columns], 1.0))
