"""The demonstration on one page: schema, errors, structure, pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from gcmf.demo import ALONE, COMMON, GROUP, pictures
from gcmf.errors import StorageError
from gcmf.io.outputs import check_model, check_new
from gcmf.plot.schema import draw_schema
from gcmf.plot.structure import draw_structure
from gcmf.plot.style import FAINT, INK, MUTED, ROLE_COLORS, bare, new_figure, styled

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from gcmf.demo import Demo

FIGURE, MODEL = "demo.png", "demo.gcmf"
_COLORS = {GROUP: ROLE_COLORS["shared"], COMMON: "#8fb7c5", ALONE: "#c9d0d7"}
_HEADING: dict[str, Any] = {"x": 0.012, "ha": "left", "fontsize": 11, "fontweight": "bold"}
_N_PICTURES = 12


def draw_demo(demo: Demo) -> Figure:
    """Draw everything the demonstration shows."""
    with styled():
        figure = new_figure(11.0, 11.8)
        figure.suptitle("Two halves of handwritten digits, learned together", fontsize=16, fontweight="bold")
        parts: Any = figure.subfigures(3, 1, height_ratios=[3.7, 4.0, 3.2])
        left, right = parts[0].subplots(1, 2, width_ratios=[1.0, 1.15])
        left.set_title("The collection")
        draw_schema(left, demo.model)
        _draw_errors(right, demo)
        draw_structure(parts[1].subplots(), demo.model)
        parts[1].suptitle("The structure found: where each factor lives", **_HEADING)
        _draw_pictures(parts[2], demo)
    return figure


def _draw_errors(ax: Axes, demo: Demo) -> None:
    """Draw a group of bars per task, a bar per method."""
    ax.set_title("Held-out error: RMSE of gray values, 0 to 1")
    words: dict[str, Any] = {"va": "center", "ha": "right", "fontsize": 9}
    place = 0.0
    for task in demo.errors.columns:
        ax.text(0.0, place - 0.65, task, fontsize=9, color=MUTED, va="center")
        for method, error in demo.errors[task].items():
            ax.barh(place, error, height=0.78, color=_COLORS[str(method)])
            ink = "white" if method == GROUP else INK
            ax.text(error - 0.004, place, f"{error:.3f}", fontweight="bold", color=ink, **words)
            ax.text(-0.004, place, str(method), **words)
            place += 0.9
        place += 0.9
    ax.set_ylim(place - 1.2, -1.1)
    ax.set_xlim(0.0, float(demo.errors.to_numpy().max()) * 1.02)
    ax.set_xticks([])
    ax.set_yticks([])
    bare(ax)


def _draw_pictures(figure: SubFigure, demo: Demo) -> None:
    """Three rows of pictures: what was given, what was made of it, what it was."""
    shown = demo.hidden[:_N_PICTURES]
    ink = LinearSegmentedColormap.from_list("ink", ["#ffffff", INK]).with_extremes(bad="#dbe6ec")
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
    figure.suptitle(f"The first {len(shown)} images whose right half was hidden (pale: not seen)", **_HEADING)


def check_files(folder: Path, *, force: bool) -> None:
    """Refuse, unless `force`, a folder with files of the same names that the demonstration did not write."""
    figure, model = folder / FIGURE, folder / MODEL
    check_model(model, force=force)
    # It writes both, so that the model vouches for the figure.
    check_new(figure, force=force or model.is_file())


def save_demo(demo: Demo, folder: Path) -> list[Path]:
    """Write the figure and the model into a folder, and return their paths."""
    figure, model = folder / FIGURE, folder / MODEL
    try:
        draw_demo(demo).savefig(figure, bbox_inches="tight", pad_inches=0.3)
    except OSError as error:
        msg = f"Cannot write {figure}: {error.strerror}."
        raise StorageError(msg) from error
    demo.model.save(model)
    return [figure, model]
