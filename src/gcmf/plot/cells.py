"""Pictures of cells beside their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Normalize

from gcmf.plot.style import ACCENT, FAINT, INK, MUTED, Picture, bare, drawn, new_figure, shades, shortened, styled
from gcmf.report import tables

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from gcmf.estimators.gcmf import GCMF

_FEW = 1_500
"""Cells that are drawn one by one; more are counted in hexagons."""
_MISSING = "#f3dfc8"


def predicted_vs_observed(
    model: GCMF,
    data: Any,
    relation: str | None = None,
    *,
    ax: Axes | None = None,
) -> Picture:
    """Draw what was predicted for the cells of a relation against what was observed; on the line they are equal.

    Of 0/1 cells it is the calibration curve, see `calibration`.
    """
    table = tables.predicted_vs_observed(model, data, relation)
    if model.fitted_.likelihoods[model._relation(table["relation"].iloc[0])].support == "binary":
        return calibration(model, data, relation, ax=ax)
    return drawn(ax, (4.8, 4.4), lambda axes: _draw_cells(axes, table))


def _draw_cells(ax: Axes, table: pd.DataFrame) -> None:
    x, y = (table[name].to_numpy(dtype=float) for name in ("predicted", "observed"))
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    if len(table) <= _FEW:
        ax.scatter(x, y, s=14, color=ACCENT, alpha=0.5, linewidths=0)
    else:
        ax.hexbin(x, y, gridsize=45, cmap=shades(ACCENT), bins="log", mincnt=1, linewidths=0)
    ax.plot([low, high], [low, high], color=INK, linewidth=1)
    inside = ((y >= table["lower"]) & (y <= table["upper"])).mean()
    shown = f"{len(table):,} of {table.attrs['of']:,} cells" if table.attrs["of"] > len(table) else f"{len(y):,} cells"
    ax.set_title(shortened(table["relation"].iloc[0]))
    words = f"{shown}\nRMSE {np.sqrt(((x - y) ** 2).mean()):.3g}\n{inside:.0%} within the interval of 90%"
    ax.text(0.02, 0.98, words, transform=ax.transAxes, va="top", fontsize=8, color=MUTED)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed")


def calibration(
    model: GCMF,
    data: Any,
    relation: str | None = None,
    *,
    ax: Axes | None = None,
) -> Picture:
    """Draw the mean observed in each of ten bins of predictions, with ± two standard errors; on the line it is right.

    Of 0/1 cells: the share of ones against the probability predicted.
    """
    table = tables.calibration(model, data, relation)
    return drawn(ax, (4.8, 4.4), lambda axes: _draw_bins(axes, table))


def _draw_bins(ax: Axes, table: pd.DataFrame) -> None:
    both = table[["predicted", "observed"]].to_numpy(dtype=float)
    low, high = both.min(), both.max()
    ax.plot([low, high], [low, high], color=MUTED, linewidth=1)
    ax.errorbar(table["predicted"], table["observed"], yerr=2.0 * table["se"], fmt="o", color=ACCENT, linewidth=2)
    ax.set_title(f"Calibration: {int(table['n'].sum()):,} cells in {len(table)} bins")
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed")
    ax.grid(color=FAINT)


def reconstruction(
    model: GCMF,
    data: Any,
    relation: str | None = None,
    *,
    n: int = 60,
    ax: Axes | None = None,
) -> Picture:
    """Draw a part of a relation as observed, missing cells beige, and beside it as predicted.

    The part is of the `n` rows and columns with most cells, ordered by the factor that explains most. Given axes hold
    the prediction, with a dot on cells that were observed.
    """
    table = tables.reconstruction(model, data, relation, n=n)
    seen, guess = (_matrix(table, name) for name in ("observed", "predicted"))
    values = seen[np.isfinite(seen)] if np.isfinite(seen).any() else guess
    scale = Normalize(*np.quantile(values, [0.02, 0.98]))
    name = shortened(table["relation"].iloc[0])
    with styled():
        if ax is not None:
            _draw_matrix(ax, guess, scale, f"{name}, predicted")
            ax.plot(*np.nonzero(np.isfinite(seen))[::-1], ".", color=INK, markersize=1.5)
            return ax
        height = float(np.clip(7.2 * len(seen) / (2 * seen.shape[1]), 1.6, 7.0))
        figure = new_figure(8.0, height + 0.9)
        left, right = figure.subplots(1, 2)
        _draw_matrix(left, seen, scale, f"{name}, observed")
        image = _draw_matrix(right, guess, scale, "predicted")
        figure.colorbar(image, ax=[left, right], shrink=0.8)
    return figure


def _matrix(table: pd.DataFrame, name: str) -> Any:
    # Cells come row by row, as many columns in each.
    width = int((table["row"] == table["row"].iloc[0]).sum())
    return table[name].to_numpy(dtype=float).reshape(-1, width)


def _draw_matrix(ax: Axes, matrix: Any, scale: Normalize, title: str) -> Any:
    ink = shades(ACCENT).with_extremes(bad=_MISSING)
    image = ax.imshow(matrix, cmap=ink, norm=scale, aspect="auto", interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(title)
    bare(ax)
    return image
