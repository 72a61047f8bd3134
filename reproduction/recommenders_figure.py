"""Errors of every method on every split, the paper's beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.plot.style import INK, MUTED, new_figure, styled
from reproduction.drawing import COMMON, DASHED, GROUP, HEADING, beside, legend_below

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_METHODS = {
    ("CMF", False): (COMMON, "white", "CMF"),
    ("gCMF", False): (GROUP, "white", "gCMF"),
    ("CMF", True): (COMMON, COMMON, "CMF with biases"),
    ("gCMF", True): (GROUP, GROUP, "gCMF with biases"),
}


def draw_recommenders(table: pd.DataFrame, paper: dict[tuple[str, bool], float]) -> Figure:
    """Draw the RMSE of ratings under both likelihoods, and the AUC of links."""
    with styled():
        figure = new_figure(12.5, 5.0)
        figure.suptitle("Recommending with side information", **HEADING)
        axes = figure.subplots(1, 3, width_ratios=[1.35, 1.35, 0.75])
        for ax, likelihood in zip(axes[:2], ("gaussian", "poisson"), strict=True):
            own = table[table["likelihood"] == likelihood]
            _paper(ax, paper)
            _points(ax, own, "rmse")
            ax.set_title(f"MovieLens 1M, ratings as {'real numbers' if likelihood == 'gaussian' else 'counts'}: RMSE")
        axes[1].sharey(axes[0])
        axes[0].autoscale_view()
        _points(axes[2], table[table["data"] == "Flickr"], "auc")
        axes[2].set_title("Flickr links: AUC")
        legend_below(figure, axes[2], ncols=4)
    return figure


def _points(ax: Axes, table: pd.DataFrame, value: str) -> None:
    splits = list(table["split"].unique())
    parts = [
        (table[(table["method"] == method) & (table["bias"] == bias)],
         {"color": color, "marker": "o", "markerfacecolor": face, "markersize": 7, "label": label})
        for (method, bias), (color, face, label) in _METHODS.items()
    ]  # fmt: skip
    beside(ax, parts, "split", value=value, places=splits)
    if value == "rmse":
        guess = table.groupby("split", sort=False)["constant"].median().loc[splits]
        ax.hlines(guess, np.arange(len(splits)) - 0.4, np.arange(len(splits)) + 0.4, color=INK, linewidth=0.9,
                  linestyles=":")  # fmt: skip
        ax.annotate("always the mean", (-0.4, guess.iloc[0]), (0, 3), textcoords="offset points", fontsize=8)


def _paper(ax: Axes, paper: dict[tuple[str, bool], float]) -> None:
    """Draw the paper's figures as lines."""
    for (method, bias), error in paper.items():
        if bias and method == "CMF":
            continue  # 0.9475 and 0.9474 are one line
        words = "paper, with biases (both)" if bias else f"paper, {method}"
        ax.axhline(error, **{**DASHED, "linewidth": 0.8})
        ax.annotate(words, (0.995, error), (0, -2), xycoords=("axes fraction", "data"), textcoords="offset points",
                    ha="right", va="top", fontsize=7.5, color=MUTED)  # fmt: skip
