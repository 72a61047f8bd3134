"""What biases and factors explain of each relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.estimators.tables import explained_table
from gcmf.plot.style import ACCENT, FAINT, INK, PAPER, bare, new_figure, shades, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF


def variance_explained(model: GCMF) -> Figure:
    """Draw `model.variance_explained()`: the biases, each factor alone, and at right the whole model."""
    table = explained_table(model.fitted_)
    parts = ["bias", *(name for name in table.columns if name not in ("bias", "total"))]
    with styled():
        width, height = 3.4 + 0.46 * len(parts), 1.1 + 0.46 * len(table)
        figure = new_figure(max(width, 5.0), max(height, 1.8))
        cells, bars = figure.subplots(1, 2, width_ratios=[max(len(parts), 3), 3.2], sharey=True)
        _draw_cells(cells, np.maximum(table[parts].to_numpy(dtype=float), 0.0))
        cells.set_xticks(range(len(parts)), parts, fontsize=8, rotation=90 if len(parts) > 20 else 0)
        cells.set_yticks(range(len(table)), table.index)
        cells.set_title("Share of variance (deviance) explained, %")
        _draw_bars(bars, table["total"].to_numpy(dtype=float))
    return figure


def _draw_cells(ax: Axes, share: NDArray[np.float64]) -> None:
    largest = max(float(share.max(initial=0.0)), 1e-12)
    ax.imshow(share, cmap=shades(ACCENT), vmin=0.0, vmax=largest, aspect="auto")
    ax.set_xticks(np.arange(share.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(share.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=2)
    for (row, column), value in np.ndenumerate(share):
        if value >= 0.005:
            color = PAPER if value > 0.55 * largest else INK
            ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=color, fontsize=8)
    bare(ax)
    ax.tick_params(which="minor", length=0)


def _draw_bars(ax: Axes, total: NDArray[np.float64]) -> None:
    places = np.arange(len(total))
    ax.barh(places, np.ones(len(total)), height=0.5, color=FAINT)
    ax.barh(places, np.clip(total, 0.0, 1.0), height=0.5, color=ACCENT)
    for place, value in enumerate(total):
        ax.text(1.04, place, f"{value:.0%}", ha="left", va="center", fontsize=9, fontweight="bold")
    ax.set_xlim(0, 1.3)
    ax.set_xticks([])
    ax.set_title("all together")
    bare(ax)
    ax.tick_params(which="both", length=0, labelleft=False)
