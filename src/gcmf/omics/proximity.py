"""Which features lie near each other on the genome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from gcmf.errors import DataError, OptionError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray


def genomic_proximity(  # noqa: PLR0913 - the contract
    var_a: pd.DataFrame,
    var_b: pd.DataFrame,
    *,
    chrom: str = "chrom",
    start: str = "start",
    scale: float = 1e7,
    cutoff: float = 0.01,
    random_state: int | np.random.Generator | None = None,
) -> sparse.csr_array:
    """exp(−|start_a − start_b| / scale) for two features of the same chromosome, else 0.

    Parameters
    ----------
    var_a, var_b
        The `.var` tables of two modalities, which may be the same features seen twice.
    chrom, start
        Their columns with the chromosome, and with the position on it in base pairs. A feature without
        either is near nothing.
    scale
        Base pairs over which proximity falls by the factor e.
    cutoff
        Proximity below this is 0, so that far pairs take no memory.
    random_state
        If given, the answer is 0/1 with proximity as the probability of a one, as in the paper, instead of
        the proximity itself: a Bernoulli relation instead of a Gaussian one.

    Returns
    -------
    scipy.sparse.csr_array
        (len(var_a), len(var_b)), for `fit(..., augment={("a", "b"): proximity})`; its blanks are zeros.

    Examples
    --------
    >>> var = pd.DataFrame({"chrom": ["1", "1", "2"], "start": [0, 10, 0]}, index=["g1", "g2", "g3"])
    >>> genomic_proximity(var, var, scale=10).toarray().round(2).tolist()
    [[1.0, 0.37, 0.0], [0.37, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    for name, value in (("scale", scale), ("cutoff", cutoff)):
        if not value > 0 or (name == "cutoff" and value >= 1):
            msg = f"{name} must be positive{', and cutoff below 1' if name == 'cutoff' else ''}. Got {value!r} instead."
            raise OptionError(msg)
    located = [_located(var, side, chrom, start) for var, side in ((var_a, "var_a"), (var_b, "var_b"))]
    i, j, near = _pairs(*located, scale=scale, reach=-np.log(cutoff) * scale)
    if random_state is not None:
        hit = np.random.default_rng(random_state).random(len(near)) < near
        i, j, near = i[hit], j[hit], np.ones(int(hit.sum()))
    return sparse.csr_array((near, (i, j)), shape=(len(var_a), len(var_b)))


def _located(var: pd.DataFrame, side: str, chrom: str, start: str) -> pd.DataFrame:
    """Chromosome, position and row number of the features that have both, sorted by position."""
    for option, column in (("chrom", chrom), ("start", start)):
        if column not in var.columns:
            hint = did_you_mean(column, map(str, var.columns))
            msg = f"{option}={column!r} is not a column of {side}.{hint}"
            raise DataError(msg)
    position = pd.to_numeric(var[start], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    table = pd.DataFrame({"chrom": var[chrom].to_numpy(dtype=object), "start": position, "row": np.arange(len(var))})
    return table.dropna().sort_values("start", kind="stable")


def _pairs(a: pd.DataFrame, b: pd.DataFrame, *, scale: float, reach: float) -> tuple[NDArray[Any], ...]:
    """Rows of a, rows of b and their proximity, for all pairs within reach."""
    others = {key: part for key, part in b.groupby("chrom", sort=False)}
    none = np.empty(0, dtype=np.int64)
    pairs: list[tuple[NDArray[Any], ...]] = [(none, none, np.empty(0))]
    for key, part in a.groupby("chrom", sort=False):
        if key not in others:
            continue
        here, there = part["start"].to_numpy(), others[key]["start"].to_numpy()
        low, high = np.searchsorted(there, here - reach), np.searchsorted(there, here + reach, side="right")
        count = high - low
        first = np.repeat(np.arange(len(here)), count)
        second = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
        near = np.exp(-np.abs(here[first] - there[second]) / scale)
        pairs.append((part["row"].to_numpy()[first], others[key]["row"].to_numpy()[second], near))
    return tuple(np.concatenate(parts) for parts in zip(*pairs, strict=True))
