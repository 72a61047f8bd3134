"""Pictures of entities: those that a factor is largest in, and all of a set in the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.plot.style import (
    ACCENT,
    CATEGORY_COLORS,
    FAINT,
    MUTED,
    ROLE_COLORS,
    Picture,
    drawn,
    empty,
    new_figure,
    shortened,
    styled,
)
from gcmf.report import tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gcmf.estimators.gcmf import GCMF

MOST_COLUMNS = 3
"""Panels side by side."""
_MANY = 5_000
"""Points above which each is drawn smaller."""


def loadings(model: GCMF, factor: str, entity: str | None = None, *, n: int = 10, ax: Axes | None = None) -> Picture:
    """Draw the `n` entities of each set that a factor is largest in, of either sign, with ± two deviations.

    One panel per set that the factor lives in; into given axes goes the set `entity`, or the first.
    """
    table = tables.loadings(model, factor, entity, n=n)
    groups = [(str(name), lines) for name, lines in table.groupby("set", sort=False)]
    if ax is not None or len(groups) < 2:
        name, lines = groups[0] if groups else (entity or "", table)
        return drawn(ax, (4.6, 0.9 + 0.27 * max(len(lines), 4)), lambda axes: _draw_top(axes, factor, name, lines))
    with styled():
        across = 2 if len(groups) == 4 else min(len(groups), MOST_COLUMNS)
        down = -(-len(groups) // across)
        most = max(len(lines) for _, lines in groups)
        figure = new_figure(3.9 * across, (0.9 + 0.27 * most) * down)
        panels = np.atleast_1d(figure.subplots(down, across)).ravel()
        for axes, (name, lines) in zip(panels, groups, strict=False):
            _draw_top(axes, factor, name, lines)
        for axes in panels[len(groups) :]:
            axes.axis("off")
    return figure


def _draw_top(ax: Axes, factor: str, name: str, lines: pd.DataFrame) -> None:
    ax.set_title(f"{factor} in {shortened(name)}")
    if lines.empty:
        empty(ax, "switched off here")
        return
    at, mean = np.arange(len(lines)), lines["mean"].to_numpy(dtype=float)
    colors = np.where(mean >= 0, ACCENT, ROLE_COLORS["private"]).tolist()
    ax.axvline(0.0, color=MUTED, linewidth=1)
    ax.errorbar(mean, at, xerr=2.0 * lines["std"].to_numpy(dtype=float), fmt="none", ecolor=colors, linewidth=2)
    ax.scatter(mean, at, color=colors, s=26, zorder=3)
    ax.set_yticks(at, [shortened(item) for item in lines["id"]])
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.grid(axis="x", color=FAINT)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def embedding(  # noqa: PLR0913 - what is placed, how, and in which color
    model: GCMF,
    entity: str,
    factors: tuple[str, str] | None = None,
    *,
    method: str = "factors",
    color: Any = None,
    ax: Axes | None = None,
) -> Picture:
    """Draw every entity of a set in the plane: two factors, or with `method` ("pca", "tsne", "umap") all of them.

    `color` is a column: numbers are shades, anything else levels, of which the seven most frequent have a color. By
    default the two factors of largest variance in the set are drawn.
    """
    table = tables.embedding(model, entity, factors, method=method, color=color)
    return drawn(ax, (6.0, 4.6), lambda axes: _draw_places(axes, entity, table, getattr(color, "name", None)))


def _draw_places(ax: Axes, entity: str, table: pd.DataFrame, name: object) -> None:
    x, y = table.attrs["names"]
    size = 18 if len(table) <= _MANY else 4
    how: dict[str, Any] = {"s": size, "linewidths": 0, "alpha": 0.85, "rasterized": len(table) > _MANY}
    if "color" not in table:
        ax.scatter(table["x"], table["y"], color=ACCENT, **how)
    elif pd.api.types.is_numeric_dtype(table["color"]) and not pd.api.types.is_bool_dtype(table["color"]):
        known = table[table["color"].notna()]
        ax.scatter(*table.loc[table["color"].isna(), ["x", "y"]].to_numpy().T, color=FAINT, **how)
        points = ax.scatter(known["x"], known["y"], c=known["color"], cmap="viridis", **how)
        ax.figure.colorbar(points, ax=ax, label="" if name is None else shortened(name))
    else:
        _draw_levels(ax, table, how, name)
    ax.set_title(f"{shortened(entity)}: {len(table):,} entities")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.axhline(0.0, color=FAINT, linewidth=1, zorder=0)
    ax.axvline(0.0, color=FAINT, linewidth=1, zorder=0)


def _draw_levels(ax: Axes, table: pd.DataFrame, how: dict[str, Any], name: object) -> None:
    """One color for each frequent level, and gray below them for the others."""
    text = table["color"].astype(object).where(table["color"].notna(), None)
    levels = list(pd.Series(text).value_counts().index[: len(CATEGORY_COLORS)])
    rest = ~text.isin(levels)
    if rest.any():
        ax.scatter(table.loc[rest, "x"], table.loc[rest, "y"], color="#c4ccd4", label="other", **how)
    for level, color in zip(levels, CATEGORY_COLORS, strict=False):
        here = text == level
        ax.scatter(table.loc[here, "x"], table.loc[here, "y"], color=color, label=shortened(level, 18), **how)
    title = None if name is None else shortened(name)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title=title, markerscale=1.6, fontsize=9)
