"""A figure of what `gcmf.evaluate` found: how much worse predictions are without each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.errors import OptionError
from gcmf.io.evaluate import MEASURES
from gcmf.io.variants import GROUP
from gcmf.plot.style import ACCENT, FAINT, MUTED, ROLE_COLORS, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = {
    "model": MUTED,
    "relation": ACCENT,
    "covariates": ROLE_COLORS["private"],
    "columns": ROLE_COLORS["private"],
    "form": ROLE_COLORS["partial"],
    "factor": ROLE_COLORS["partial"],
}
"""By what is left out or changed."""


def evaluation(table: pd.DataFrame) -> Figure:
    """Draw a table of `gcmf.evaluate`: a panel per relation, a line per method.

    A point is the error of a method minus that of the whole model, the bar twice its standard error over the folds.
    Right of zero, predictions are worse: what was left out helps. A bar that does not reach zero is no chance.
    """
    if not {"relation", "method", "difference"} <= set(getattr(table, "columns", ())):
        msg = f"evaluation takes the table that gcmf.evaluate returns. Got {type(table).__name__} instead."
        raise OptionError(msg)
    groups = [(str(name), lines[lines["method"] != GROUP]) for name, lines in table.groupby("relation", sort=False)]
    heights = [max(len(lines), 1) for _, lines in groups]
    with styled():
        figure = new_figure(7.0, 0.9 * len(groups) + 0.3 * sum(heights) + 0.3)
        panels = np.atleast_1d(figure.subplots(len(groups), 1, height_ratios=heights))
        for ax, (name, lines) in zip(panels, groups, strict=True):
            _draw(ax, name, lines)
    return figure


def _draw(ax: Axes, name: str, lines: pd.DataFrame) -> None:
    at = np.arange(len(lines))
    ax.axvline(0.0, color=MUTED, linewidth=1)
    for y, row in zip(at, lines.to_dict(orient="records"), strict=True):
        color = _COLORS[row["kind"]]
        bar = 2.0 * row["difference_se"] if np.isfinite(row["difference_se"]) else 0.0
        ax.errorbar(row["difference"], y, xerr=bar, fmt="o", color=color, markersize=5, linewidth=2)
    ax.set_yticks(at, lines["method"].tolist())
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.grid(axis="x", color=FAINT)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    measure = lines["measure"].iloc[0] if len(lines) else "rmse"
    ax.set_title(f"{name}: {MEASURES[measure]} minus that of the whole model")
