"""The curve over signal strengths, for both ways of measuring the error, and other M beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import PercentFormatter

from gcmf.experiments.summary import quantiles
from gcmf.plot.style import FAINT, INK, MUTED, ROLE_COLORS, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP, _COMMON = ROLE_COLORS["shared"], ROLE_COLORS["private"]
_LINES = {
    "gCMF Bernoulli": (_GROUP, "-", "o"),
    "gCMF Gaussian": (_GROUP, "--", "s"),
    "CMF Bernoulli": (_COMMON, "-", "o"),
    "CMF Gaussian": (_COMMON, "--", "s"),
}
_TITLES = {"means": "Error against the probabilities", "entries": "Error against the 0/1 entries"}


def draw_likelihood(table: pd.DataFrame, curve_m: int) -> Figure:
    """Draw error relative to CMF Gaussian over strengths at one M, and over M at strength 1."""
    with styled():
        figure = new_figure(11.5, 7.6)
        figure.suptitle(
            "0/1 matrices in a cycle: error relative to CMF under the wrong (Gaussian) likelihood",
            x=0.012, ha="left", fontsize=13, fontweight="bold",
        )  # fmt: skip
        axes = figure.subplots(2, 2, width_ratios=[1.45, 1.0], sharey="row")
        for row, error in enumerate(_TITLES):
            left, right = axes[row]
            _curve(left, table[table["M"] == curve_m], error)
            left.set_title(f"{_TITLES[error]}, M = {curve_m}")
            left.set_ylabel("relative error")
            _by_m(right, table[table["strength"] == 1.0], error)
            right.set_title("strength 1, by number of matrices M")
        axes[1, 0].set_xlabel("strength of the signal: standard deviation of u")
        axes[1, 1].set_xlabel("M")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _curve(ax: Axes, curve: pd.DataFrame, error: str) -> None:
    _paper(ax)
    for method, (color, style, marker) in _LINES.items():
        found = quantiles(curve[curve["method"] == method], ["strength"], f"{error}_relative")
        x = found["strength"].to_numpy(dtype=float)
        ax.fill_between(x, found["low"], found["high"], color=color, alpha=0.13, linewidth=0)
        ax.plot(x, found["median"], style, color=color, marker=marker, markersize=4, label=method)
    if error == "entries":
        base = curve[curve["method"] == "CMF Gaussian"]
        floor = quantiles(base.assign(floor=base["bayes"] / base["entries"]), ["strength"], "floor")
        ax.plot(floor["strength"], floor["median"], ":", color=INK, linewidth=1)
        ax.annotate("the true probabilities", (floor["strength"].iloc[-1], floor["median"].iloc[-1]), (-4, 7),
                    textcoords="offset points", ha="right", fontsize=8)  # fmt: skip
    ax.set_xscale("log")
    ticks = sorted(curve["strength"].unique())
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))


def _by_m(ax: Axes, table: pd.DataFrame, error: str) -> None:
    """Median and 10 to 90% of each method, side by side at each M."""
    _paper(ax)
    ms = sorted(table["M"].unique())
    for offset, (method, (color, style, marker)) in zip(np.linspace(-0.24, 0.24, 4), _LINES.items(), strict=True):
        found = quantiles(table[table["method"] == method], ["M"], f"{error}_relative").set_index("M").loc[ms]
        x = np.arange(len(ms)) + offset
        face = color if style == "-" else "white"
        ax.vlines(x, found["low"], found["high"], color=color, linewidth=1.5)
        ax.plot(x, found["median"], marker, color=color, markerfacecolor=face, markersize=6)
    ax.set_xticks(range(len(ms)), [str(m) for m in ms])
    ax.set_xlim(-0.5, len(ms) - 0.5)


def _paper(ax: Axes) -> None:
    ax.axhline(0.7, color=MUTED, linewidth=0.9, linestyle=(0, (6, 4)), label="paper, M = 5: about 30% less")
    ax.grid(axis="y", color=FAINT)
