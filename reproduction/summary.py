"""Repetitions in a few numbers, and what may be concluded from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

LOW, HIGH = 0.1, 0.9
UNCLEAR = "no clear difference"
MIXED = "depends on the setting"
RULE = (
    "How two methods are compared: by the ratio of their errors on the same data, over the repetitions. The first is "
    "*lower* where the whole range from the 10% to the 90% quantile of that ratio lies below 1, *higher* where it lies "
    "above 1; otherwise, and where there was one repetition only, there is no clear difference. Over several "
    'settings, "the first is lower" holds (yes) if it is lower in more than half of them and higher in none, does not '
    f"(no) if it is higher in more of them than lower; else, if both occur, it {MIXED}, and otherwise there is "
    f"{UNCLEAR}. Claims of another kind state their rule. The rules were fixed before the full sizes were run, except "
    "in Figure 3, left, which says so. Settings such as K were not chosen blindly: small probes came first, and where "
    "held-out errors were seen in them, the section says what was tried and what came out."
)
"""Stands at the head of results.md."""


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


def change(ratios: pd.Series, spec: str = "+.1%") -> str:
    """Return "-2.1% (-3.0% to -0.4%)" of ratios of errors."""
    return spread(ratios - 1.0, spec)


def direction(ratios: pd.Series) -> int:
    """Return -1 where the range of the ratios lies below 1, +1 where it lies above, else 0."""
    if len(ratios) < 2:
        return 0
    return int(ratios.quantile(LOW) > 1.0) - int(ratios.quantile(HIGH) < 1.0)


def lower_holds(ratios: pd.Series) -> bool | None:
    """Whether the first is lower, by the range of the ratios; None where it lies on both sides of 1."""
    way = direction(ratios)
    return None if way == 0 else way < 0


def relative(table: pd.DataFrame, value: str, *, to: pd.Series, by: Sequence[str]) -> NDArray[np.float64]:
    """Return a column over its value in the rows `to`, on the same data, which `by` tells apart."""
    base = table[to].set_index(list(by))[value]
    own = table.set_index(list(by))[value]
    return (own / base.reindex(own.index)).to_numpy(dtype=float)


@dataclass(frozen=True)
class Tally:
    """In which settings one method's error is lower than another's, higher, or neither."""

    lower: tuple[str, ...]
    higher: tuple[str, ...]
    unclear: tuple[str, ...]

    @property
    def lower_holds(self) -> bool | None:
        """Whether "the first is lower" holds; None if the difference is not clear."""
        n = len(self.lower) + len(self.higher) + len(self.unclear)
        if 2 * len(self.lower) > n and not self.higher:
            return True
        return False if len(self.higher) > len(self.lower) else None

    @property
    def undecided(self) -> str:
        """What stands in place of yes or no."""
        return MIXED if self.lower and self.higher else UNCLEAR

    def __str__(self) -> str:
        """Return "lower at 10%, 30%; higher at none; unclear at 50%"."""
        parts = {"lower": self.lower, "higher": self.higher, "unclear": self.unclear}
        return "; ".join(f"{name} at {', '.join(found) or 'none'}" for name, found in parts.items())


def tally(ratios: pd.Series, by: str, name: Callable[[object], str] = str) -> Tally:
    """Compare in each group of an index level, named by `name`."""
    found: dict[int, list[str]] = {-1: [], 0: [], 1: []}
    for key, own in ratios.groupby(level=by, sort=False):
        found[direction(own)].append(name(key))
    return Tally(tuple(found[-1]), tuple(found[1]), tuple(found[0]))
