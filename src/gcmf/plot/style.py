"""One look for all figures: few colors, each with one meaning, and nothing that is not read."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

Picture = Any
"""The axes that were given, or a new figure where none were."""

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
CATEGORY_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c7a00")
"""Of levels of a column (after Okabe and Ito); what there are more of is gray."""
LONGEST = 26
"""Characters of a name that are shown."""

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


class ShownFigure(Figure):
    """A figure that notebooks show: they know how to only of figures by pyplot, which keeps every one in memory."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi="figure")
        return buffer.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches that leaves no label cut off."""
    return ShownFigure(figsize=(width, height), layout="constrained")


def drawn(ax: Axes | None, size: tuple[float, float], draw: Callable[[Axes], object]) -> Picture:
    """Draw into given axes and return them, or into those of a new figure of this size, in inches, and return that."""
    with styled():
        if ax is not None:
            draw(ax)
            return ax
        figure = new_figure(*size)
        draw(figure.add_subplot())
    return figure


def shortened(name: object, longest: int = LONGEST) -> str:
    """Return a name or an id as it is shown: one line, not too long, and a $ in it begins no formula.

    It is cut in the middle: long ids often begin alike.
    """
    text = "".join(letter if letter.isprintable() else "?" for letter in str(name))
    if len(text) > longest:
        tail = longest // 3
        text = f"{text[: longest - tail - 1].rstrip()}…{text[-tail:].lstrip()}"
    return text.replace("$", r"\$")


def room_for(names: Iterable[object]) -> float:
    """Inches that the longest of some names takes beside a picture, beyond the inch that every picture leaves."""
    return max(0.0, 0.085 * max((len(shortened(name)) for name in names), default=0) - 1.0)


def empty(ax: Axes, why: str) -> None:
    """Say in the middle of axes why there is nothing to see."""
    ax.text(0.5, 0.5, why, ha="center", va="center", color=MUTED, transform=ax.transAxes)
    ax.axis("off")


def shades(color: str) -> LinearSegmentedColormap:
    """Return a scale from nearly white to a color."""
    return LinearSegmentedColormap.from_list("shades", ["#f4f6f8", color])


def bare(ax: Axes) -> None:
    """Take away frame and tick marks, and keep the tick labels."""
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)
