"""Error of variational Bayes between the truth and MAP, and the time that both took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.plot.style import MUTED, new_figure, styled
from reproduction.drawing import COMMON, GROUP, band

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_VB, _MAP = GROUP, COMMON


def draw_vb_vs_map(table: pd.DataFrame) -> Figure:
    """Draw scaled error, root mean squared error, and seconds, over the number of matrices M."""
    with styled():
        figure = new_figure(12.0, 4.3)
        scaled, raw, seconds = figure.subplots(1, 3, width_ratios=[1.2, 1.0, 1.0])
        _scaled(scaled, table)
        _band(raw, table, "map_rmse", _MAP, "MAP, cross-validated")
        _band(raw, table, "vb_rmse", _VB, "VB")
        _band(raw, table, "truth_rmse", MUTED, "the truth")
        raw.set_title("RMSE of held-out entries")
        _band(seconds, table, "map_seconds", _MAP, f"MAP, {_fits(table)} fits")
        _band(seconds, table, "vb_seconds", _VB, "VB, 1 fit")
        seconds.set_yscale("log")
        seconds.set_title("Seconds, all fits together")
        for ax in (scaled, raw, seconds):
            ax.set_xticks(sorted(table["M"].unique()))
            ax.set_xlabel("number of matrices M")
        raw.legend()
        seconds.legend()
    return figure


def _fits(table: pd.DataFrame) -> str:
    """Return "243", or "33 to 99" where collections differ."""
    low, high = table["map_fits"].min(), table["map_fits"].max()
    return str(low) if low == high else f"{low} to {high}"


def _scaled(ax: Axes, table: pd.DataFrame) -> None:
    _band(ax, table, "scaled", _VB, "VB")
    ax.plot(table["M"], table["scaled"], "o", color=_VB, markersize=3, alpha=0.35)
    for level, words, color in ((0.0, "the truth", MUTED), (1.0, "MAP", _MAP)):
        ax.axhline(level, color=color, linewidth=1.2)
        ax.annotate(words, (1, level), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                    ha="right", color=color, fontsize=9)  # fmt: skip
    ax.plot([11], [0.5], "*", color="#c9a227", markersize=13, zorder=3)
    ax.annotate("paper:\nabout half", (11, 0.5), (-8, 0), textcoords="offset points", ha="right", va="center",
                fontsize=8, color=MUTED)  # fmt: skip
    ax.set_ylim(-0.06, max(1.15, float(table["scaled"].max()) * 1.08))
    ax.set_title("Error of VB: 0 is the truth, 1 is MAP")


def _band(ax: Axes, table: pd.DataFrame, value: str, color: str, label: str) -> None:
    band(ax, table, "M", value=value, alpha=0.15, color=color, label=label)
