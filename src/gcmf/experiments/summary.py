"""Repetitions in a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

LOW, HIGH = 0.1, 0.9


def quantiles(table: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Return the median and the 10% and 90% quantiles of a column over the repetitions of each group.

    The columns are `by`, then `median`, `low`, `high` and `n`, the number of repetitions.
    """
    groups = table.groupby(list(by), sort=False)[value]
    found = groups.agg(
        median="median", low=lambda one: one.quantile(LOW), high=lambda one: one.quantile(HIGH), n="size"
    )  # fmt: skip
    return found.reset_index()


def spread(values: pd.Series, spec: str = ".3f") -> str:
    """Return "0.712 (0.690 to 0.731)": median, 10% and 90% quantile; the median alone if there is one value."""
    middle = format(float(values.median()), spec)
    if len(values) < 2:
        return middle
    return f"{middle} ({float(values.quantile(LOW)):{spec}} to {float(values.quantile(HIGH)):{spec}})"
