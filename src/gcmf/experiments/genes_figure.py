"""Error over the share of values that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from gcmf.experiments.summary import quantiles
from gcmf.plot.style import FAINT, MUTED, ROLE_COLORS, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP, _COMMON = ROLE_COLORS["shared"], ROLE_COLORS["private"]
_LINES = {
    "gCMF": (_GROUP, "-", "o", "gCMF: views and proximity"),
    "CCA": (_GROUP, "--", "s", "CCA: gCMF on the views alone"),
    "CMF": (_COMMON, "-", "o", "CMF: views and proximity"),
    "PCA": (_COMMON, "--", "s", "PCA: CMF on the views alone"),
}


def draw_genes(table: pd.DataFrame) -> Figure:
    """Draw the errors relative to gCMF, as the paper does, and beside them those of each view."""
    with styled():
        figure = new_figure(12.0, 4.8)
        figure.suptitle(
            "Missing values of two views of the same genes", x=0.012, ha="left", fontsize=13, fontweight="bold"
        )
        panels = {
            "relative": "Error relative to gCMF",
            "expression": "Expression: RMSE / deviation",
            "copy_number": "Copy number: RMSE / deviation",
        }
        axes = figure.subplots(1, 3, width_ratios=[1.25, 1.0, 1.0])
        for ax, (value, title) in zip(axes, panels.items(), strict=True):
            _curves(ax, table, value)
            ax.set_title(title)
        axes[0].axvline(0.8, color=MUTED, linewidth=0.9, linestyle=(0, (6, 4)))
        axes[0].annotate("paper: gCMF best\nup to about here", (0.8, 0.98), (-5, 0), textcoords="offset points",
                         xycoords=("data", "axes fraction"), fontsize=8, color=MUTED, va="top", ha="right")  # fmt: skip
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _curves(ax: Axes, table: pd.DataFrame, value: str) -> None:
    for method, (color, style, marker, label) in _LINES.items():
        found = quantiles(table[table["method"] == method], ["missing"], value)
        x = found["missing"].to_numpy(dtype=float)
        ax.fill_between(x, found["low"], found["high"], color=color, alpha=0.13, linewidth=0)
        ax.plot(x, found["median"], style, color=color, marker=marker, markersize=4, label=label)
    ax.grid(axis="y", color=FAINT)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of both views that is missing")
