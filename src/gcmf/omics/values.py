"""What the values of a view say: which likelihood fits them, and how much each feature varies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray


def guess_likelihood(x: Any) -> str:  # noqa: ANN401 - dense or sparse
    """Return "bernoulli" for 0/1, "poisson" for other whole numbers >= 0, "gaussian" for the rest."""
    values = x.data if sparse.issparse(x) else np.asarray(x)
    if values.dtype.kind == "b":
        return "bernoulli"
    seen = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not seen.size or seen.min() < 0:
        return "gaussian"
    if seen.max() <= 1 and ((seen == 0) | (seen == 1)).all():
        return "bernoulli"
    return "poisson" if np.isfinite(seen.max()) and (seen == np.floor(seen)).all() else "gaussian"


def feature_deviation(x: Any, *, blanks: str) -> NDArray[np.float64]:  # noqa: ANN401
    """Standard deviation of each feature's observed cells, and 1 for a feature that does not vary, (p,)."""
    if sparse.issparse(x):
        cells = x.tocsc().astype(np.float64)
        n = np.full(x.shape[1], x.shape[0]) if blanks == "zero" else np.diff(cells.indptr)
        mean = _ratio(np.asarray(cells.sum(axis=0)).ravel(), n)
        listed = np.diff(cells.indptr)
        apart = cells.copy()
        apart.data = (cells.data - np.repeat(mean, listed)) ** 2
        squares = np.asarray(apart.sum(axis=0)).ravel() + (n - listed) * mean**2
    else:
        dense = np.asarray(x, dtype=np.float64)
        n = (~np.isnan(dense)).sum(axis=0)
        mean = _ratio(np.nansum(dense, axis=0), n)
        squares = np.nansum((dense - mean) ** 2, axis=0)
    deviation = np.sqrt(_ratio(squares, n))
    # What is left of a constant column is rounding.
    return np.where(deviation > 1e-7 * np.abs(mean), deviation, 1.0)


def divide_columns(x: Any, deviation: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """Return x with every column divided by its own number; what is sparse stays sparse."""
    if sparse.issparse(x):
        return (x @ sparse.diags_array(1.0 / deviation)).tocsr()
    return np.asarray(x, dtype=np.float64) / deviation


def _ratio(total: NDArray[np.float64], n: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.divide(total, n, out=np.zeros(len(total)), where=n > 0))
