"""The valley over neighborhood widths, and faces: given, guessed and true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gcmf.plot.style import INK, LIKELIHOOD_COLORS, MUTED, ROLE_COLORS, new_figure, styled
from reproduction.drawing import DASHED, HEADING, band, log_ticks

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

_COLORS = (ROLE_COLORS["shared"], ROLE_COLORS["private"], ROLE_COLORS["partial"], LIKELIHOOD_COLORS["poisson"])
_SHOWN = 4
_BOTTOM, _TOP = 0.85, 1.3
"""Relative errors that are drawn; what lies above is told in words, or the valley would not be seen."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Faces whose second lighting was never seen, people × pixels each."""

    given: NDArray[np.float64]
    """In the first lighting."""
    alone: NDArray[np.float64]
    """The second, guessed from the views alone."""
    augmented: NDArray[np.float64]
    """The second, guessed with the pixel relation."""
    true: NDArray[np.float64]
    sigma: float
    """Width of the neighborhood that did best on these people."""


def draw_faces(table: pd.DataFrame, pictures: dict[str, Pictures]) -> Figure:
    """Draw the error over widths, a panel with and one without biases, and faces of each pair of lightings."""
    with styled():
        figure = new_figure(12.0, 8.6)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.0, 1.05])
        top, bottom = parts
        top.suptitle("Faces in a lighting they were never seen in: error relative to the views alone", **HEADING)
        biases = sorted(table["bias"].unique(), reverse=True)
        axes: Any = top.subplots(1, len(biases), squeeze=False, sharey=True)
        for ax, bias in zip(axes[0], biases, strict=True):
            _valley(ax, table[table["bias"] == bias])
            ax.set_title("With biases" if bias else "Without biases")
        axes[0, 0].set_ylabel("relative error")
        axes[0, 0].legend(title="lightings", fontsize=9)
        _draw_pictures(bottom, pictures)
    return figure


def _valley(ax: Axes, table: pd.DataFrame) -> None:
    ax.axhline(1.0, **DASHED)
    for color, pair in zip(_COLORS, table["pair"].unique(), strict=False):
        own = table[(table["pair"] == pair) & table["sigma"].notna()]
        band(ax, own, "sigma", value="relative", alpha=0.12, color=color, label=pair)
    log_ticks(ax, sorted(table["sigma"].dropna().unique()))
    if len(beyond := table[table["relative"] > _TOP]):
        words = f"{len(beyond)} of {len(table)} fits lie above,\nup to {beyond['relative'].max():.1f}"
        ax.annotate(words, (0.5, 0.98), xycoords="axes fraction", ha="center", va="top", fontsize=8, color=MUTED)
    ax.set_ylim(_BOTTOM, _TOP)
    ax.set_xlabel("σ, width of the neighborhood in pixels")


def _draw_pictures(figure: SubFigure, pictures: dict[str, Pictures]) -> None:
    """Draw a block per pair of lightings: four people, each given, guessed twice, and true."""
    figure.suptitle("The first draw: the lighting that was given, two guesses of the other, and the truth", **HEADING)
    blocks: Any = figure.subfigures(
        1, len(pictures), squeeze=False, wspace=0.03, width_ratios=[1.3, *[1.0] * (len(pictures) - 1)]
    )
    for number, (block, (pair, own)) in enumerate(zip(blocks[0], pictures.items(), strict=True)):
        rows = {"given": own.given, "views alone": own.alone, "with pixels": own.augmented, "true": own.true}
        grid = block.subplots(len(rows), _SHOWN, gridspec_kw={"wspace": 0.05, "hspace": 0.05})
        for line, (name, images) in zip(grid, rows.items(), strict=True):
            for ax, image in zip(line, images[:_SHOWN], strict=True):
                _face(ax, image)
            if number == 0:
                line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=6, color=INK)
        block.suptitle(f"{pair}, with pixels: σ = {own.sigma:g} (the best here)", fontsize=10, color=MUTED)


def _face(ax: Axes, image: NDArray[np.float64]) -> None:
    side = round(len(image) ** 0.5)
    ax.imshow(image.reshape(side, side), cmap="gray", vmin=0.0, vmax=1.0)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
