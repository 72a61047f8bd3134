"""The demonstration on one page: schema, errors, structure, pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from gcmf.errors import StorageError
from gcmf.experiments.demo import ALONE, COMMON, GROUP, METHODS, pictures
from gcmf.plot.schema import draw_schema
from gcmf.plot.structure import draw_structure
from gcmf.plot.style import FAINT, INK, MUTED, ROLE_COLORS, bare, new_figure, styled

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from gcmf.experiments.demo import Demo

_COLORS = {GROUP: ROLE_COLORS["shared"], COMMON: "#8fb7c5", ALONE: "#c9d0d7"}
_N_PICTURES = 12


def draw_demo(demo: Demo) -> Figure:
    """Draw everything the demonstration shows."""
    with styled():
        figure = new_figure(11.0, 11.5)
        figure.suptitle("gcmf: two halves of handwritten digits, learned together", x=0.02, ha="left",
                        fontsize=15, fontweight="bold")  # fmt: skip
        top, middle, bottom = figure.subfigures(3, 1, height_ratios=[3.7, 4.0, 3.0])
        left, right = top.subplots(1, 2, width_ratios=[1.1, 1.0])
        left.set_title("The collection")
        draw_schema(left, demo.model)
        _draw_errors(right, demo)
        ax = middle.subplots()
        ax.set_title("The structure found: where each factor lives")
        draw_structure(ax, demo.model)
        _draw_pictures(bottom, demo)
    return figure


def _draw_errors(ax: Axes, demo: Demo) -> None:
    """A group of bars per task, a bar per method."""
    ax.set_title("Held-out error (RMSE of gray values, lower is better)")
    place = 0.0
    for task in demo.errors.columns:
        ax.text(0.0, place - 0.62, task, fontsize=9, color=MUTED, va="center")
        for method in METHODS:
            error = float(demo.errors.loc[method, task])
            ax.barh(place, error, height=0.78, color=_COLORS[method])
            ax.text(error - 0.004, place, f"{error:.3f}", va="center", ha="right", fontsize=9, fontweight="bold",
                    color=INK if method != GROUP else "white")  # fmt: skip
            name = METHODS[method].split(":")[0]
            ax.text(-0.004, place, name, va="center", ha="right", fontsize=9)
            place += 0.9
        place += 0.9
    ax.set_ylim(place - 1.2, -1.1)
    ax.set_xlim(0.0, float(demo.errors.to_numpy().max()) * 1.05)
    ax.set_xticks([])
    ax.set_yticks([])
    bare(ax)


def _draw_pictures(figure: SubFigure, demo: Demo) -> None:
    """Three rows of pictures: what was given, what was made of it, what it was."""
    shown = demo.hidden[:_N_PICTURES]
    ink = LinearSegmentedColormap.from_list("ink", ["#ffffff", INK])
    ink.set_bad("#dbe6ec")
    grid = figure.subplots(3, len(shown), gridspec_kw={"wspace": 0.08, "hspace": 0.08})
    for row, (name, images) in enumerate(pictures(demo, shown).items()):
        for column, image in enumerate(images):
            ax: Axes = grid[row, column]
            ax.imshow(np.clip(image, 0.0, 1.0), cmap=ink, vmin=0.0, vmax=1.0)
            ax.set_xticks([])
            ax.set_yticks([])
            for spine in ax.spines.values():
                spine.set(visible=True, color=FAINT)
        grid[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8, color=INK)
    figure.suptitle(f"The first {len(shown)} images whose right half was hidden (pale: hidden)", x=0.02,
                    ha="left", fontsize=11, fontweight="bold")  # fmt: skip


def save_demo(demo: Demo, folder: Path) -> list[Path]:
    """Write the figure and the model into a folder, and return their paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"Cannot make the folder {folder}: {error.strerror}. Choose another one."
        raise StorageError(msg) from error
    figure, model = folder / "demo.png", folder / "demo.gcmf"
    draw_demo(demo).savefig(figure)
    demo.model.save(model)
    return [figure, model]
