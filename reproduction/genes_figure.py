"""Error over the share of values that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from gcmf.plot.style import MUTED, new_figure, styled
from reproduction.drawing import COMMON, DASHED, GROUP, HEADING, band, legend_below

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = {
    "gCMF": (GROUP, "-", "o", "gCMF: views and proximity"),
    "CCA": (GROUP, "--", "s", "CCA: gCMF on the views alone"),
    "CMF": (COMMON, "-", "o", "CMF: views and proximity"),
    "PCA": (COMMON, "--", "s", "PCA: CMF on the views alone"),
}


def draw_genes(table: pd.DataFrame) -> Figure:
    """Draw the errors relative to gCMF, as the paper does, and beside them those of each view."""
    with styled():
        figure = new_figure(12.0, 4.8)
        figure.suptitle("Missing values of two views of the same genes", **HEADING)
        panels = {
            "relative": "Error relative to gCMF",
            "expression": "Expression: RMSE / deviation",
            "copy_number": "Copy number: RMSE / deviation",
        }
        axes = figure.subplots(1, 3, width_ratios=[1.25, 1.0, 1.0])
        for ax, (value, title) in zip(axes, panels.items(), strict=True):
            _curves(ax, table, value)
            ax.set_title(title)
        axes[0].axvline(0.8, **DASHED)
        axes[0].annotate("paper: gCMF best\nup to about here", (0.8, 0.98), (-5, 0), textcoords="offset points",
                         xycoords=("data", "axes fraction"), fontsize=8, color=MUTED, va="top", ha="right")  # fmt: skip
        legend_below(figure, axes[0], ncols=4)
    return figure


def _curves(ax: Axes, table: pd.DataFrame, value: str) -> None:
    for method, (color, style, marker, label) in _LINES.items():
        own = table[table["method"] == method]
        band(ax, own, "missing", value=value, color=color, linestyle=style, marker=marker, label=label)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of both views that is missing")
