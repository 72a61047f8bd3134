"""The curve over signal strengths, for both ways of measuring the error, and other M beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from gcmf.plot.style import INK, new_figure, styled
from reproduction.drawing import COMMON, DASHED, GROUP, HEADING, band, beside, legend_below, log_ticks
from reproduction.summary import quantiles

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = {
    "gCMF Bernoulli": (GROUP, "-", "o"),
    "gCMF Gaussian": (GROUP, "--", "s"),
    "CMF Bernoulli": (COMMON, "-", "o"),
    "CMF Gaussian": (COMMON, "--", "s"),
}
_TITLES = {
    "means_relative": "Error against the probabilities",
    "entries_relative": "Error against the 0/1 entries",
    "factors": "Factors found",
}


def draw_likelihood(table: pd.DataFrame, curve_m: int) -> Figure:
    """Draw error relative to CMF Gaussian, and the factors found, over strengths at one M, and over M at strength 1."""
    with styled():
        figure = new_figure(11.5, 10.0)
        figure.suptitle(
            "0/1 matrices in a cycle: error relative to CMF under the wrong (Gaussian) likelihood", **HEADING
        )
        axes = figure.subplots(3, 2, width_ratios=[1.45, 1.0], height_ratios=[1.0, 1.0, 0.7])
        curve, plain = table[table["M"] == curve_m], table[table["strength"] == 1.0]
        for (left, right), (value, title) in zip(axes, _TITLES.items(), strict=True):
            _curve(left, curve, value)
            left.set_title(f"{title}, M = {curve_m}")
            _by_m(right, plain, value)
            right.set_title("strength 1, by number of matrices M")
            if value == "entries_relative":
                _floor(left, curve)
            if value != "factors":
                ends = [*left.get_ylim(), *right.get_ylim()]
                left.set_ylim(min(ends), max(ends))
                right.sharey(left)
                for ax in (left, right):
                    _paper(ax)
                    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        _true_factors(axes[2, 0], axes[2, 1], curve_m, sorted(plain["M"].unique()))
        axes[2, 0].set_xlabel("strength of the signal: standard deviation of u")
        axes[2, 1].set_xlabel("M")
        legend_below(figure, axes[0, 0], ncols=5)
    return figure


def _curve(ax: Axes, curve: pd.DataFrame, value: str) -> None:
    for method, (color, style, marker) in _LINES.items():
        own = curve[curve["method"] == method]
        band(ax, own, "strength", value=value, color=color, linestyle=style, marker=marker, label=method)
    log_ticks(ax, sorted(curve["strength"].unique()))


def _by_m(ax: Axes, table: pd.DataFrame, value: str) -> None:
    parts = [
        (table[table["method"] == method],
         {"color": color, "marker": marker, "markerfacecolor": color if style == "-" else "white", "markersize": 6})
        for method, (color, style, marker) in _LINES.items()
    ]  # fmt: skip
    beside(ax, parts, "M", value=value, places=sorted(table["M"].unique()))


def _floor(ax: Axes, curve: pd.DataFrame) -> None:
    """Draw the error of one who knows the probabilities."""
    base = curve[curve["method"] == "CMF Gaussian"]
    floor = quantiles(base.assign(floor=base["bayes"] / base["entries"]), ["strength"], "floor")
    ax.plot(floor["strength"], floor["median"], ":", color=INK, linewidth=1)
    ax.annotate("knowing the probabilities", (floor["strength"].iloc[-2], floor["median"].iloc[-2]), (-10, -2),
                textcoords="offset points", ha="right", va="top", fontsize=8)  # fmt: skip


def _true_factors(left: Axes, right: Axes, curve_m: int, ms: list[int]) -> None:
    """Mark how many factors there are: 5 shared, 2 private to each matrix."""
    left.axhline(5 + 2 * curve_m, color=INK, linewidth=1, linestyle=":")
    left.annotate("true factors", (0.01, 5 + 2 * curve_m), (0, 3), xycoords=("axes fraction", "data"),
                  textcoords="offset points", fontsize=8)  # fmt: skip
    for place, m in enumerate(ms):
        right.plot([place - 0.4, place + 0.4], [5 + 2 * m] * 2, ":", color=INK, linewidth=1)


def _paper(ax: Axes) -> None:
    ax.axhline(0.7, **DASHED, label="paper, M = 5: about 30% less")
