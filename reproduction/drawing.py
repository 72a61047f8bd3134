"""What the figures have in common: headings, curves with bands, points side by side, legends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.plot.style import FAINT, MUTED, ROLE_COLORS
from reproduction.summary import quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP, COMMON = ROLE_COLORS["shared"], ROLE_COLORS["private"]
"""Colors of gCMF and of CMF."""
HEADING: dict[str, Any] = {"x": 0.012, "ha": "left", "fontsize": 13, "fontweight": "bold"}
DASHED: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (6, 4))}
"""A line to compare with: the paper's figure, or an error of 1."""


def band(
    ax: Axes,
    table: pd.DataFrame,
    by: str,
    *,
    value: str,
    alpha: float = 0.13,
    **look: Any,  # noqa: ANN401 - of Axes.plot
) -> None:
    """Draw the median over the repetitions as a line, and a band from the 10% to the 90% quantile."""
    found = quantiles(table, [by], value).sort_values(by)
    x = found[by].to_numpy(dtype=float)
    ax.fill_between(x, found["low"], found["high"], color=look["color"], alpha=alpha, linewidth=0)
    ax.plot(x, found["median"], **{"marker": "o", "markersize": 4, **look})
    ax.grid(axis="y", color=FAINT)


def beside(
    ax: Axes, parts: Sequence[tuple[pd.DataFrame, dict[str, Any]]], by: str, *, value: str, places: Sequence[object]
) -> None:
    """Draw the median and 10 to 90% of each part of a table, side by side; each part has its look."""
    for offset, (part, look) in zip(np.linspace(-0.24, 0.24, len(parts)), parts, strict=True):
        found = quantiles(part, [by], value).set_index(by).loc[list(places)]
        x = np.arange(len(places)) + offset
        ax.vlines(x, found["low"], found["high"], color=look["color"], linewidth=1.5)
        ax.plot(x, found["median"], linestyle="none", **look)
    ax.set_xticks(range(len(places)), [str(place) for place in places])
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.grid(axis="y", color=FAINT)


def log_ticks(ax: Axes, ticks: Sequence[float]) -> None:
    """Make x logarithmic, with these ticks and no others."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def legend_below(figure: Figure, ax: Axes, *, ncols: int) -> None:
    """Explain what one panel shows below all of them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
