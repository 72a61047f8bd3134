"""One look for all figures: few colors, each with one meaning, and nothing that is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

INK, MUTED, FAINT, PAPER = "#1d2733", "#6b7785", "#e6eaee", "#ffffff"
ROLE_COLORS = {"shared": "#1f6f8b", "partial": "#6a4c93", "private": "#e07a2f"}
"""Of a factor: shared by all relations, by some, or private to one. Told apart by the color-blind, too."""
LIKELIHOOD_COLORS = {
    "gaussian": "#1f6f8b",
    "bernoulli": "#c2542d",
    "poisson": "#5b8c3e",
    "negative_binomial": "#8a6fae",
}
ACCENT = ROLE_COLORS["shared"]

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": "#b8c1cb",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "figure.dpi": 110,
    "savefig.dpi": 150,
}


def styled() -> AbstractContextManager[Any]:
    """Return the context in which every figure is drawn; outside of it no setting is changed."""
    return rc_context(_STYLE)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches that leaves no label cut off."""
    return Figure(figsize=(width, height), layout="constrained")


def shades(color: str) -> LinearSegmentedColormap:
    """Return a scale from nearly white to a color."""
    return LinearSegmentedColormap.from_list("shades", ["#f4f6f8", color])


def bare(ax: Axes) -> None:
    """Take away frame and tick marks, and keep the tick labels."""
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)
