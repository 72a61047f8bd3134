"""Pictures of several models: whether they find the same factors, and which predicts best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.plot.style import ACCENT, FAINT, MUTED, Picture, bare, drawn, empty, new_figure, shades, shortened, styled
from gcmf.report import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from matplotlib.axes import Axes

    from gcmf.estimators.gcmf import GCMF

_MANY = 40
"""Labels that are all written."""


def stability(models: Mapping[str, GCMF] | GCMF, *, ax: Axes | None = None) -> Picture:
    """Draw how alike each factor of the first model is to its match in every other one, or in every draw.

    A full column: the factor is found again everywhere. A pale one depends on the start, and tells little by itself.
    """
    table = tables.stability(models)
    n_factors, n_models = table["factor"].nunique(), table["model"].nunique()
    size = 2.4 + min(0.38 * n_factors, 14.0), 1.4 + min(0.34 * n_models, 5.0)
    return drawn(ax, (max(size[0], 4.5), size[1]), lambda axes: _draw_matches(axes, table))


def _draw_matches(ax: Axes, table: pd.DataFrame) -> None:
    if table.empty:
        empty(ax, "no active factor")
        return
    wide = table.pivot(index="model", columns="factor", values="similarity")
    wide = wide.loc[table["model"].unique(), table["factor"].unique()]
    image = ax.imshow(wide.to_numpy(), cmap=shades(ACCENT), vmin=0.0, vmax=1.0, aspect="auto")
    across, down = (max(1, -(-n // _MANY)) for n in wide.shape[::-1])
    ax.set_xticks(range(0, wide.shape[1], across), wide.columns[::across], fontsize=8,
                  rotation=90 if wide.shape[1] > 20 else 0)  # fmt: skip
    ax.set_yticks(range(0, len(wide), down), [shortened(name) for name in wide.index[::down]])
    ax.set_title("How alike factors are, |cosine|")
    bare(ax)
    ax.figure.colorbar(image, ax=ax)


def compare(models: Mapping[str, GCMF], test: Any, *, ax: Axes | None = None) -> Picture:
    """Draw the error of each model on the same test cells, minus that of the first: a panel per relation.

    Right of zero a model is worse than the first; a bar of two standard errors that does not reach zero is no chance.
    Given axes hold the first relation.
    """
    table = tables.compare(models, test)
    groups = [(str(name), lines) for name, lines in table.groupby("relation", sort=False)]
    if ax is not None or len(groups) == 1:
        return drawn(ax, (6.4, 1.4 + 0.34 * len(models)), lambda axes: _draw_errors(axes, *groups[0]))
    with styled():
        figure = new_figure(6.4, (1.2 + 0.34 * len(models)) * len(groups))
        for axes, (name, lines) in zip(figure.subplots(len(groups), 1), groups, strict=True):
            _draw_errors(axes, name, lines)
    return figure


def _draw_errors(ax: Axes, name: str, lines: pd.DataFrame) -> None:
    at = np.arange(len(lines))
    ax.axvline(0.0, color=MUTED, linewidth=1)
    ax.errorbar(lines["difference"], at, xerr=2.0 * lines["difference_se"], fmt="o", color=ACCENT, linewidth=2)
    labels = [f"{shortened(model)} ({error:.4g})" for model, error in zip(lines["model"], lines["error"], strict=True)]
    ax.set_yticks(at, labels)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.grid(axis="x", color=FAINT)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    first, measure = lines[["model", "measure"]].iloc[0]
    ax.set_title(shortened(name))
    ax.set_xlabel(f"{measure}, minus that of {shortened(first)}")
