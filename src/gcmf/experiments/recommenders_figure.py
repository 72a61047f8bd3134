"""Errors of every method on every split, the paper's beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.experiments.summary import quantiles
from gcmf.plot.style import FAINT, INK, MUTED, ROLE_COLORS, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP, _COMMON = ROLE_COLORS["shared"], ROLE_COLORS["private"]
_METHODS = {
    ("CMF", False): (_COMMON, "white", "CMF"),
    ("gCMF", False): (_GROUP, "white", "gCMF"),
    ("CMF", True): (_COMMON, _COMMON, "CMF with biases"),
    ("gCMF", True): (_GROUP, _GROUP, "gCMF with biases"),
}


def draw_recommenders(table: pd.DataFrame, paper: dict[tuple[str, bool], float]) -> Figure:
    """Draw the RMSE of ratings under both likelihoods, and the AUC of links."""
    with styled():
        figure = new_figure(12.5, 5.0)
        figure.suptitle("Recommending with side information", x=0.012, ha="left", fontsize=13, fontweight="bold")
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
        handles, labels = axes[2].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _points(ax: Axes, table: pd.DataFrame, value: str) -> None:
    """Draw median and 10 to 90% of each method, side by side for each split."""
    splits = list(table["split"].unique())
    for offset, (key, (color, face, label)) in zip(np.linspace(-0.24, 0.24, 4), _METHODS.items(), strict=True):
        method, bias = key
        own = table[(table["method"] == method) & (table["bias"] == bias)]
        found = quantiles(own, ["split"], value).set_index("split").loc[splits]
        x = np.arange(len(splits)) + offset
        ax.vlines(x, found["low"], found["high"], color=color, linewidth=1.5)
        ax.plot(x, found["median"], "o", color=color, markerfacecolor=face, markersize=7, label=label)
    if value == "rmse":
        guess = table.groupby("split", sort=False)["constant"].median().loc[splits]
        ax.hlines(guess, np.arange(len(splits)) - 0.4, np.arange(len(splits)) + 0.4, color=INK, linewidth=0.9,
                  linestyles=":")  # fmt: skip
        ax.annotate("always the mean", (-0.4, guess.iloc[0]), (0, 3), textcoords="offset points", fontsize=8)
    ax.set_xticks(range(len(splits)), splits)
    ax.set_xlim(-0.5, len(splits) - 0.5)
    ax.grid(axis="y", color=FAINT)


def _paper(ax: Axes, paper: dict[tuple[str, bool], float]) -> None:
    """Draw the paper's figures as lines."""
    for (method, bias), error in paper.items():
        if bias and method == "CMF":
            continue  # 0.9475 and 0.9474 are one line
        words = "paper, with biases (both)" if bias else f"paper, {method}"
        ax.axhline(error, color=MUTED, linewidth=0.8, linestyle=(0, (6, 4)))
        ax.annotate(words, (0.995, error), (0, -2), xycoords=("axes fraction", "data"), textcoords="offset points",
                    ha="right", va="top", fontsize=7.5, color=MUTED)  # fmt: skip
